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

/// Observations of the groups, as the quantiles of their distribution: as much error as spread.
fn observations() -> Vec<f64> {
    let groups = D - 2;
    // A logistic quantile is near enough to a normal one; the factor makes the variance two.
    let scale = 2_f64.sqrt() * 3_f64.sqrt() / std::f64::consts::PI;
    (0..groups).map(|j| (j as f64 + 0.5) / groups as f64).map(|p| scale * (p / (1.0 - p)).ln()).collect()
}

/// A centred hierarchy: the mean of the groups, the log of their standard deviation, the groups. Its density has no bound where
/// the standard deviation goes to zero.
fn centred_groups(y: &[f64]) -> ClosureTarget<'_> {
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        let (mean, log_sd, groups) = (z[0], z[1], &z[2..]);
        let precision = (-2.0 * log_sd).exp();
        let off: f64 = groups.iter().map(|x| (x - mean).powi(2)).sum();
        let misfit: f64 = groups.iter().zip(y).map(|(x, y)| (y - x).powi(2)).sum();
        if let Some(grad) = grad {
            grad[0] = -mean / 100.0 + precision * groups.iter().map(|x| x - mean).sum::<f64>();
            grad[1] = 1.0 - (2.0 * log_sd).exp() - groups.len() as f64 + precision * off;
            for ((g, x), y) in grad[2..].iter_mut().zip(groups).zip(y) {
                *g = y - x - precision * (x - mean);
            }
        }
        let prior = -mean * mean / 200.0 + log_sd - 0.5 * (2.0 * log_sd).exp();
        prior - groups.len() as f64 * log_sd - 0.5 * (precision * off + misfit)
    };
    ClosureTarget::new(D, density).unwrap()
}

/// Mean and standard deviation of the log standard deviation of the groups, by quadrature: groups and their mean integrate out.
fn exact_log_sd(y: &[f64]) -> (f64, f64) {
    let n = y.len() as f64;
    let average = y.iter().sum::<f64>() / n;
    let squares: f64 = y.iter().map(|y| (y - average).powi(2)).sum();
    let density = |log_sd: f64| {
        let variance = 1.0 + (2.0 * log_sd).exp();
        let of_mean = 100.0 + variance / n;
        let likelihood =
            -0.5 * ((n - 1.0) * variance.ln() + squares / variance + of_mean.ln() + average * average / of_mean);
        (likelihood + log_sd - 0.5 * (2.0 * log_sd).exp()).exp()
    };
    let peak = density(0.0).ln();
    let points: Vec<(f64, f64)> =
        (0..4_000).map(|i| -6.0 + 0.002 * i as f64).map(|x| (x, density(x) / peak.exp())).collect();
    let total: f64 = points.iter().map(|point| point.1).sum();
    let mean = points.iter().map(|(x, p)| x * p).sum::<f64>() / total;
    (mean, (points.iter().map(|(x, p)| (x - mean).powi(2) * p).sum::<f64>() / total).sqrt())
}

#[test]
fn hundreds_of_centred_groups_do_not_start_in_the_neck_of_their_funnel() {
    let y = observations();
    let fitted = fit(&centred_groups(&y));
    let verdict = &fitted.diagnostics.as_ref().unwrap().verdict;
    assert!(verdict.trusted, "{verdict:?}");
    let chains = fitted.chains.as_ref().unwrap();
    let column = || chains.draws.iter().skip(1).step_by(D);
    let count = (chains.draws.len() / D) as f64;
    let mean = column().sum::<f64>() / count;
    let sd = (column().map(|z| (z - mean).powi(2)).sum::<f64>() / count).sqrt();
    let exact = exact_log_sd(&y);
    assert!((mean - exact.0).abs() < 0.12 * exact.1 && (sd / exact.1 - 1.0).abs() < 0.15, "{mean} {sd} for {exact:?}");
}
