//! The derivatives of every target in the crates, and of every density specification in `NATMIX_DATA/targets`.
//!
//! `check_target` compares gradients with extrapolated differences of values (relative error 1e-6) and Hessians with
//! differences of gradients (1e-5), batches with single points, and minibatches with the whole. Where values are large
//! compared with their slopes the differences lose digits, so some targets are checked in a smaller region.

#[path = "../../natmix/tests/common/mod.rs"]
mod common;

use common::{lower, wave};
use natmix::Scratch;
use natmix::autodiff::{AutoDiff, Density, Real};
use natmix::family::{CovarianceKind, Covariances, Gaussian, Mixture};
use natmix::target::ClosureTarget;
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use natmix::testing::{CheckOptions, check_target};
use natmix::transform::{Block, Constraint, Transformed};
use natmix_models::densities::{
    DensityKind, DoubleBanana, Funnel, PhaseDensity, PlanarRobot, PriorTimesMixture, Spec, StudentMixture,
};
use natmix_models::glm::{Glm, Likelihood};

fn check(name: &str, target: &dyn Target, options: &CheckOptions) {
    let report = check_target(target, options).unwrap_or_else(|error| panic!("{name}: {error}"));
    println!("{name}:\n{report}");
    assert!(report.passed(), "{name}:\n{report}");
    assert_eq!(report.not_finite, 0, "{name}:\n{report}");
    // Values, the gradient, and one or two comparisons per curvature.
    let curvatures = target.curvatures().iter().map(|(kind, _)| if *kind == Curvature::Exact { 2 } else { 1 });
    let expected = 1 + usize::from(target.has_gradient()) + curvatures.sum::<usize>();
    assert!(report.checks.len() >= expected, "{name}: {} checks of {expected}", report.checks.len());
}

fn around(centre: f64, spread: f64) -> CheckOptions {
    CheckOptions { centre, spread, ..CheckOptions::default() }
}

/// A symmetric positive definite matrix as nested lists.
fn matrix(d: usize, salt: usize) -> Vec<Vec<f64>> {
    let l = lower(d, salt);
    (0..d).map(|i| (0..d).map(|j| (0..d).map(|k| l[i + k * d] * l[j + k * d]).sum()).collect()).collect()
}

#[test]
fn analytic_targets() {
    for d in [1, 2, 5] {
        let locations: Vec<Vec<f64>> = (0..3).map(|k| (0..d).map(|i| 2.0 * wave(10 * k + i)).collect()).collect();
        let scales: Vec<_> = (0..3).map(|k| matrix(d, k)).collect();
        for df in [0.5, 2.0, 30.0] {
            let student = StudentMixture::new(df, &[0.2, 0.5, 0.3], &locations, &scales).unwrap();
            check(&format!("student mixture, df {df}, d {d}"), &student, &around(0.0, 3.0));
        }
        check(&format!("funnel, d {d}"), &Funnel::new(d, 3.0).unwrap(), &around(0.0, 1.0));
    }
    check("double banana", &DoubleBanana::new(30f64.ln(), 0.09).unwrap(), &around(0.5, 0.5));
    let robot = PlanarRobot::new(&[1.0, 0.2, 0.2, 0.2, 0.2], 0.3, &[[4.0, 0.0], [0.0, 4.0], [-4.0, 0.0]]).unwrap();
    check("planar robot", &robot, &around(0.0, 0.5));
    let (cos, sin): (Vec<f64>, Vec<f64>) = (0..8).map(|i| (wave(i), wave(20 + i))).unzip();
    let frequencies: Vec<f64> = (0..8).map(|i| 121e6 + 6e6 * f64::from(i)).collect();
    let phase = PhaseDensity::new(&frequencies, &cos, &sin, 0.5, [-100.0, 100.0], [-3.0, 3.0]).unwrap();
    check("phase", &phase, &around(0.0, 1.0));
    check("phase without bounds", &phase.unconstrained().unwrap(), &around(0.0, 1.5));
    for (name, target) in [("narrow", PriorTimesMixture::two_narrow()), ("wide", PriorTimesMixture::two_wide())] {
        check(&format!("prior times mixture, {name}"), &target, &around(0.0, 2.0));
    }
    let means = [vec![1.0, -1.0, 0.5], vec![0.0, 2.0, -1.0]];
    let sds = [vec![0.5, 1.0, 2.0], vec![1.5, 0.3, 1.0]];
    let product = PriorTimesMixture::new(3.0, &[0.4, 0.6], &means, &sds).unwrap();
    check("prior times mixture, 3 dimensions", &product, &around(0.0, 1.5));
}

#[test]
fn mixtures() {
    // On both sides of the switch from small kernels to matrix products at 32.
    for d in [1, 2, 3, 4, 9, 33] {
        let points = if d > 10 { 3 } else { 6 };
        let options = CheckOptions { points, ..around(0.0, 1.5) };
        let full = common::mixture(d, 3, 2.0, d);
        assert_eq!(full.covariance_kind(), CovarianceKind::Full);
        check(&format!("mixture, full, d {d}"), &full, &options);
        let means: Vec<Vec<f64>> = (0..3).map(|k| (0..d).map(|i| 2.0 * wave(50 + 10 * k + i)).collect()).collect();
        let variances: Vec<Vec<f64>> = (0..3).map(|k| (0..d).map(|i| 1.5 + wave(90 + 7 * k + i)).collect()).collect();
        let diagonal = Mixture::from_moments(&[0.2, 0.3, 0.5], &means, Covariances::Diag(&variances)).unwrap();
        check(&format!("mixture, diagonal, d {d}"), &diagonal, &options);
    }
    check("one gaussian", &Mixture::single(Gaussian::isotropic(vec![1.0, 2.0], 0.5)), &around(1.0, 1.0));
}

#[test]
fn generalised_linear_models() {
    // More rows than one block, and an incomplete last block.
    for (rows, d) in [(1, 1), (7, 2), (300, 3), (520, 30)] {
        let design: Vec<f64> = (0..rows * d).map(wave).collect();
        for likelihood in [Likelihood::Gaussian { sd: 0.7 }, Likelihood::Bernoulli, Likelihood::Poisson] {
            let outcome = (0..rows).map(|r| f64::from(u8::from(wave(5 * r + 3) > 0.2))).collect();
            let plain = Glm::new(likelihood, &design, d, outcome, &[2.0]).unwrap();
            let decorated = plain
                .clone()
                .with_offset((0..rows).map(|r| 0.3 * wave(r)).collect())
                .and_then(|model| model.with_weights((0..rows).map(|r| 1.0 + wave(2 * r)).collect()))
                .unwrap();
            for (name, model) in [("plain", &plain), ("with offset and weights", &decorated)] {
                let options = CheckOptions { points: if d > 10 { 3 } else { 7 }, ..around(0.1, 0.5) };
                check(&format!("{likelihood:?}, {rows} rows of {d}, {name}"), model, &options);
            }
        }
    }
}

/// A hierarchical model in non-centred form: a mean, a log scale and three effects.
struct ThreeSchools;

impl Density for ThreeSchools {
    fn dim(&self) -> usize {
        5
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let scale = z[1].exp();
        let mut log_p = -z[0].powi(2) * 0.02 - z[1].powi(2) * 0.5;
        for (effect, (observed, sd)) in z[2..].iter().zip([(2.8, 1.0), (0.8, 1.5), (-0.3, 2.0)]) {
            let residual = (z[0] + scale * *effect - observed) / sd;
            log_p = log_p - effect.powi(2) * 0.5 - (residual.powi(2) + 1.0).ln();
        }
        log_p
    }
}

#[test]
fn automatic_derivatives() {
    check("three schools", &AutoDiff(ThreeSchools), &around(0.0, 1.0));
}

#[test]
fn closures() {
    let target = ClosureTarget::new(2, |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.copy_from_slice(&[-z[0].powi(3) - z[1], -z[0] - 2.0 * z[1]]);
        }
        -0.25 * z[0].powi(4) - z[0] * z[1] - z[1] * z[1]
    });
    let target = target.unwrap().with_hessian(|z, hess| hess.copy_from_slice(&[-3.0 * z[0] * z[0], -1.0, -1.0, -2.0]));
    check("quartic closure", &target, &around(0.0, 1.0));
    let values = ClosureTarget::density_only(2, |z| -z[0].powi(2) - z[1].powi(2)).unwrap();
    check("values only", &values, &around(0.0, 1.0));
}

#[test]
fn constrained_targets() {
    let block = |name: &str, size: usize, constraint: Constraint| Block { name: name.into(), size, constraint };
    let constraints = [
        ("free", Constraint::Free, 2),
        ("positive", Constraint::Positive, 2),
        ("lower bound", Constraint::LowerBound(-1.5), 2),
        ("upper bound", Constraint::UpperBound(2.5), 2),
        ("interval", Constraint::Interval { low: -1.0, high: 3.0 }, 2),
        ("simplex", Constraint::Simplex, 4),
        ("ordered", Constraint::Ordered, 3),
    ];
    // The density is smooth everywhere, so that only the transforms are tested; with exact Hessian and with values only.
    for (name, constraint, size) in constraints {
        let full = common::mixture(size, 2, 1.0, size);
        let target = Transformed::new(&full, vec![block(name, size, constraint)]).unwrap();
        assert!(!target.curvatures().is_empty(), "{name}");
        check(name, &target, &around(0.0, 0.7));
        let values = ClosureTarget::density_only(size, |z| full.log_density(z)[0]).unwrap();
        let target = Transformed::new(values, vec![block(name, size, constraint)]).unwrap();
        check(&format!("{name}, values only"), &target, &around(0.0, 0.7));
    }
    let total: usize = constraints.iter().map(|(.., size)| size).sum();
    let blocks = constraints.iter().map(|(name, constraint, size)| block(name, *size, *constraint));
    let target = Transformed::new(common::mixture(total, 2, 1.0, 77), blocks.collect()).unwrap();
    check("all constraints at once", &target, &around(0.0, 0.5));
}

/// A target of which only the diagonal curvature is checked: a full one by differences takes `4 d^2` gradients per point.
struct DiagonalOnly<'a>(&'a dyn Target);

impl Target for DiagonalOnly<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.0.eval(rows, z, out, scratch)
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &[(Curvature::Exact, CurvatureShape::Diag)]
    }
}

#[test]
fn targets_from_specifications() {
    let Some(folder) = common::data("targets") else { return };
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(files.len() >= 10, "only {} specifications in {}", files.len(), folder.display());
    for path in files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let spec = Spec::from_json(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let target = spec.target().unwrap_or_else(|e| panic!("{name}: {e}"));
        let d = spec.dim();
        let options = match spec.kind {
            _ if d > 50 => CheckOptions { points: 1, ..around(0.0, 1.0) },
            DensityKind::Funnel { .. } | DensityKind::DoubleBanana { .. } => around(0.0, 0.7),
            // With goals of width 0.01 the density varies within steps of 1e-3.
            DensityKind::PlanarRobot { .. } => around(0.0, 0.05),
            _ => around(0.0, 3.0),
        };
        if d > 50 {
            check(&name, &DiagonalOnly(&target), &options);
        } else {
            check(&name, &target, &options);
        }
    }
}
