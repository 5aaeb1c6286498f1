//! Beyond 300 dimensions correlations are kept where they matter, and left out where they do not.

use natmix::answer::level::Level;
use natmix::config::{About, Overrides};
use natmix::family::CovarianceKind;
use natmix::target::{ClosureTarget, Target};
use natmix::{Config, Fit, Fitted};

const D: usize = 320;

fn config() -> Config {
    let settings = Overrides { seed: Some(2), threads: Some(1), ..Overrides::default() };
    settings.resolve(None, &About { dim: D, ..About::default() }).unwrap()
}

fn fit(target: &dyn Target) -> Fitted {
    Fit::new(target, config()).run().unwrap()
}

/// A random walk with steps of unit variance.
fn walk() -> ClosureTarget<'static> {
    let density = |z: &[f64], grad: Option<&mut [f64]>| {
        let step = |i: usize| if i == 0 { z[0] } else { z[i] - z[i - 1] };
        if let Some(grad) = grad {
            (0..D).for_each(|i| grad[i] = -step(i) + if i + 1 < D { step(i + 1) } else { 0.0 });
        }
        -0.5 * (0..D).map(|i| step(i) * step(i)).sum::<f64>()
    };
    ClosureTarget::new(D, density).unwrap()
}

/// Logs of independent gamma variables with shape 4: skewed, with known moments.
fn log_gammas() -> ClosureTarget<'static> {
    let density = |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.iter_mut().zip(z).for_each(|(g, z)| *g = 4.0 - z.exp());
        }
        z.iter().map(|z| 4.0 * z - z.exp()).sum::<f64>()
    };
    ClosureTarget::new(D, density).unwrap()
}

#[test]
fn strong_correlations_are_kept() {
    let fitted = fit(&walk());
    let diagnostics = fitted.diagnostics.as_ref().unwrap();
    assert_eq!(fitted.mixture.covariance_kind(), CovarianceKind::Full);
    assert!(diagnostics.verdict.trusted && diagnostics.level == Level::Mixture, "{:?}", diagnostics.verdict);
    // The variance grows with the number of steps.
    let variances = fitted.mixture.components()[0].precision().variances();
    assert!((0..D).all(|i| (variances[i] / (i + 1) as f64 - 1.0).abs() < 1e-6));
}

#[test]
fn independent_coordinates_need_no_correlations() {
    let fitted = fit(&log_gammas());
    let diagnostics = fitted.diagnostics.as_ref().unwrap();
    assert_eq!(fitted.mixture.covariance_kind(), CovarianceKind::Diag);
    assert!(diagnostics.verdict.trusted && diagnostics.level == Level::Chains, "{:?}", diagnostics.verdict);
    // Digamma and trigamma of 4. With 1,000 effective draws the mean has an error of 0.017; the worst of 320 is seldom beyond 4 of them.
    let chains = fitted.chains.as_ref().unwrap();
    let count = (chains.draws.len() / D) as f64;
    for j in 0..D {
        let column = || chains.draws.iter().skip(j).step_by(D);
        let mean = column().sum::<f64>() / count;
        let variance = column().map(|z| (z - mean).powi(2)).sum::<f64>() / count;
        assert!(
            (mean - 1.256_117_67).abs() < 0.07 && (variance / 0.283_822_96 - 1.0).abs() < 0.2,
            "{j} {mean} {variance}"
        );
    }
}
