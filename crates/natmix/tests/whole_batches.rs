//! A target that asks for all points of an iteration at once gets them in one call, with the same bits as a result.

use natmix::target::{ClosureTarget, Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Method, Parts, Scratch, fit};
use std::sync::atomic::{AtomicU64, Ordering};

/// `log p = -z0^4 - z0 z1 - z1^2`, not to be evaluated on one side.
fn quartic() -> ClosureTarget<'static> {
    let value = |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.copy_from_slice(&[-4.0 * z[0].powi(3) - z[1], -z[0] - 2.0 * z[1]]);
        }
        if z[1] > 1.5 { f64::NAN } else { -z[0].powi(4) - z[0] * z[1] - z[1] * z[1] }
    };
    let hessian = |z: &[f64], hess: &mut [f64]| {
        let corner = if z[0] < -1.6 { f64::NAN } else { -2.0 };
        hess.copy_from_slice(&[-12.0 * z[0] * z[0], -1.0, -1.0, corner]);
    };
    ClosureTarget::new(2, value).unwrap().with_hessian(hessian)
}

/// The same, in whole batches.
struct WholeQuartic {
    inner: ClosureTarget<'static>,
    calls: AtomicU64,
    points: AtomicU64,
}

impl Target for WholeQuartic {
    fn dim(&self) -> usize {
        2
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        self.inner.curvatures()
    }
    fn whole_batches(&self) -> bool {
        true
    }
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.points.fetch_add(z.len() as u64, Ordering::Relaxed);
        self.inner.eval(rows, z, out, scratch)
    }
}

#[test]
fn one_call_per_iteration_gives_the_same_bits() {
    for (method, components) in [
        (Method::ComponentDraws, 1),
        (Method::ComponentDraws, 3),
        (Method::MixtureDraws, 3),
        (Method::Von, 1),
        (Method::Von, 2),
        (Method::Bbvi, 2),
    ] {
        let config = Config {
            max_iterations: 12,
            check: false,
            tolerance: 1e-300,
            diagnostic_draws: 300,
            seed: 5,
            threads: 2,
            ..Parts { components, draws_per_component: 70, ..Parts::new(method) }.into()
        };
        let whole = WholeQuartic { inner: quartic(), calls: AtomicU64::new(0), points: AtomicU64::new(0) };
        let by_chunks = fit(&quartic(), &config).unwrap();
        let at_once = fit(&whole, &config).unwrap();
        assert!(by_chunks.dropped > 0, "{method:?}: the test needs points that fail");
        assert_eq!(by_chunks.mixture, at_once.mixture, "{method:?} {components}");
        assert_eq!(format!("{:?}", by_chunks.diagnostics), format!("{:?}", at_once.diagnostics));
        assert_eq!(by_chunks.dropped, at_once.dropped);
        // Without diagnostics one call per iteration; where points spoil sums of curvature, their chunks are evaluated again.
        let alone = WholeQuartic { inner: quartic(), calls: AtomicU64::new(0), points: AtomicU64::new(0) };
        let fitted = fit(&alone, &Config { diagnostic_draws: 0, ..config }).unwrap();
        let (calls, expected) = (alone.calls.into_inner(), fitted.iterations);
        assert!(if method == Method::Von { calls > expected } else { calls == expected }, "{method:?}: {calls}");
        assert_eq!(alone.points.into_inner(), fitted.evals);
    }
}
