//! Targets that must be refused: wrong gradients and improper densities. Beside them gradients that are right although
//! a careless check would doubt them.

use natmix::Scratch;
use natmix::autodiff::{Density, Real};
use natmix::target::{EvalOut, Points, Rows, Target, TargetError};

/// What is wrong with a gradient, or only looks wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GradientChange {
    /// All coordinates times this.
    Factor(f64),
    /// One coordinate times this.
    FactorOfOne(usize, f64),
    /// The gradient of the density moved by this along every coordinate.
    Moved(f64),
    /// Two coordinates exchanged.
    Swapped(usize, usize),
    /// Not wrong: values and gradients in single precision, with this added to `log p`.
    SinglePrecision(f64),
    /// Not wrong: this added to `log p`.
    Offset(f64),
}

/// A target with a fault in its gradient.
pub struct FaultyGradient<T> {
    pub base: T,
    pub fault: GradientChange,
}

impl<T: Target> Target for FaultyGradient<T> {
    fn dim(&self) -> usize {
        self.base.dim()
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let (EvalOut { log_p, mut grad, .. }, d) = (out, self.dim());
        let single = |numbers: &mut [f64]| numbers.iter_mut().for_each(|x| *x = f64::from(*x as f32));
        if let GradientChange::SinglePrecision(offset) = self.fault {
            let mut rounded = z.data().to_vec();
            single(&mut rounded);
            let out = EvalOut { log_p: &mut *log_p, grad: grad.as_deref_mut(), curv: None };
            self.base.eval(rows, Points::new(&rounded, d), out, scratch)?;
            log_p.iter_mut().for_each(|x| *x += offset);
            single(log_p);
            grad.into_iter().for_each(single);
            return Ok(());
        }
        self.base.eval(rows, z, EvalOut { log_p: &mut *log_p, grad: grad.as_deref_mut(), curv: None }, scratch)?;
        if let GradientChange::Offset(offset) = self.fault {
            log_p.iter_mut().for_each(|x| *x += offset);
        }
        let Some(grad) = grad else { return Ok(()) };
        match self.fault {
            GradientChange::Factor(factor) => grad.iter_mut().for_each(|g| *g *= factor),
            GradientChange::FactorOfOne(i, factor) => grad.chunks_exact_mut(d).for_each(|g| g[i] *= factor),
            GradientChange::Swapped(i, j) => grad.chunks_exact_mut(d).for_each(|g| g.swap(i, j)),
            GradientChange::Moved(by) => {
                let moved: Vec<f64> = z.data().iter().map(|z| z - by).collect();
                let mut unused = vec![0.0; z.len()];
                let out = EvalOut { log_p: &mut unused, grad: Some(grad), curv: None };
                self.base.eval(rows, Points::new(&moved, d), out, scratch)?;
            }
            GradientChange::SinglePrecision(_) | GradientChange::Offset(_) => {}
        }
        Ok(())
    }
}

/// A density without a finite integral.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ImproperDensity {
    /// `-log(1 + x^2) / 2`, in one dimension: tails as heavy as `1 / |x|`.
    RootCauchy,
    /// `-log(1 + exp(-x))`, in one dimension: separated data without a prior.
    OneSidedLogistic,
    /// Zero, in two dimensions.
    Flat,
    /// `x / 2`, beside a normal coordinate.
    Growing,
    /// A normal density of the sum of two coordinates: a ridge without a prior.
    Ridge,
    /// `-log |x|` near zero: a pole that is not integrable.
    Pole,
}

impl Density for ImproperDensity {
    fn dim(&self) -> usize {
        match self {
            Self::RootCauchy | Self::OneSidedLogistic | Self::Pole => 1,
            Self::Flat | Self::Growing | Self::Ridge => 2,
        }
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        match self {
            Self::RootCauchy => (z[0] * z[0]).ln_1p() * -0.5,
            Self::OneSidedLogistic => -(-z[0]).log1p_exp(),
            Self::Flat => (z[0] + z[1]) * 0.0,
            Self::Growing => z[0] * 0.5 - z[1] * z[1] * 0.5,
            Self::Ridge => (z[0] + z[1] - 1.0).powi(2) * -0.5,
            Self::Pole => -z[0].abs().ln() - z[0] * z[0] * 0.5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::climb::PointEvaluator;
    use crate::battery::densities::CorrelatedNormal;
    use natmix::autodiff::AutoDiff;

    #[test]
    fn faults_do_what_they_say() {
        let base = || AutoDiff(CorrelatedNormal::new(3, 0.5, (1.0, 4.0)));
        let at = |target: &dyn Target, z: &[f64]| {
            let mut grad = vec![0.0; 3];
            let log_p = PointEvaluator::new(target).at(z, &mut grad).unwrap();
            (log_p, grad)
        };
        let z = [0.3, -1.2, 2.0];
        let (log_p, right) = at(&base(), &z);
        let faulty = |fault| at(&FaultyGradient { base: base(), fault }, &z);
        let (same, double) = faulty(GradientChange::Factor(2.0));
        assert_eq!((same, double[1]), (log_p, 2.0 * right[1]));
        assert_eq!(faulty(GradientChange::FactorOfOne(2, 0.0)).1, [right[0], right[1], 0.0]);
        assert_eq!(faulty(GradientChange::Swapped(0, 2)).1, [right[2], right[1], right[0]]);
        let moved: Vec<f64> = z.iter().map(|z| z - 0.5).collect();
        assert_eq!(faulty(GradientChange::Moved(0.5)), (log_p, at(&base(), &moved).1));
        let (offset, same) = faulty(GradientChange::SinglePrecision(1e4));
        assert!((offset - 1e4 - log_p).abs() < 1e-3 && (same[0] - right[0]).abs() < 1e-5);
    }
}
