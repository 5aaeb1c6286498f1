//! A planar robot arm that is to reach one of several goals (Arenz et al. 2018).
//!
//! Joint angles `z ~ N(0, diag(prior_sd^2))`; unit links point along `c_i = z_1 + .. + z_i`, so that the hand is at
//! `x = (sum_i cos c_i, sum_i sin c_i)`. Only the goal under which `x` is most likely counts:
//!
//! ```text
//! log p(z) = log N(z; 0, diag(prior_sd^2)) + max_g log N(x; g, goal_sd^2 I)
//! ```
//!
//! With the sums `X_j = sum_{i >= j} cos c_i` and `Y_j = sum_{i >= j} sin c_i` the arm has
//! `dx/dz_j = (-Y_j, X_j)` and `d2x/dz_j dz_k = -(X_m, Y_m)`, `m = max(j, k)`. The gradient jumps where two goals
//! are equally near; there the first of them counts.
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::densities::PlanarRobot;
//!
//! let robot = PlanarRobot::new(&[1.0, 1.0], 0.1, &[[2.0, 0.0]]).unwrap();
//! let expected = -2.0 * (2.0 * std::f64::consts::PI).ln() - 2.0 * 0.1f64.ln();
//! assert!((log_p_at(&robot, &[0.0, 0.0]).unwrap() - expected).abs() < 1e-12);
//! ```

use super::check;
use crate::prior::LOG_TAU;
use natmix::Error;
use natmix::Scratch;
use natmix::target::pointwise::{EXACT, Hessian, eval_points};
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};

/// A planar robot arm, prior times likelihood with all constants. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct PlanarRobot {
    prior_sd: Vec<f64>,
    goal_sd: f64,
    goals: Vec<[f64; 2]>,
}

impl PlanarRobot {
    /// An arm with one joint for each entry of `prior_sd`, reaching for `goals` with accuracy `goal_sd`.
    pub fn new(prior_sd: &[f64], goal_sd: f64, goals: &[[f64; 2]]) -> Result<Self, Error> {
        check::dim(prior_sd.len())?;
        check::positive("prior_sd", prior_sd, prior_sd.len())?;
        check::positive("goal_sd", &[goal_sd], 1)?;
        if goals.is_empty() {
            return check::invalid("goals are empty, expected at least one [x, y]".into());
        }
        check::finite("goals", goals.as_flattened(), 2 * goals.len())?;
        Ok(Self { prior_sd: prior_sd.to_vec(), goal_sd, goals: goals.to_vec() })
    }

    /// `tails` is filled with `X_j` and `Y_j`, joint by joint.
    fn at(
        &self,
        z: &[f64],
        grad: Option<&mut [f64]>,
        mut hess: Option<&mut Hessian<'_>>,
        tails: &mut [[f64; 2]],
    ) -> f64 {
        let mut angle = 0.0;
        for (tail, z) in tails.iter_mut().zip(z) {
            angle += z;
            *tail = [angle.cos(), angle.sin()];
        }
        for j in (1..tails.len()).rev() {
            tails[j - 1] = [tails[j - 1][0] + tails[j][0], tails[j - 1][1] + tails[j][1]];
        }
        let hand = tails[0];
        let error_to = |goal: &[f64; 2]| [hand[0] - goal[0], hand[1] - goal[1]];
        let square = |e: [f64; 2]| e[0] * e[0] + e[1] * e[1];
        let first = error_to(&self.goals[0]);
        let error = self.goals[1..].iter().map(error_to).fold(first, |a, b| if square(b) < square(a) { b } else { a });

        let precision = 1.0 / (self.goal_sd * self.goal_sd);
        if let Some(grad) = grad {
            for (((g, &[x, y]), z), sd) in grad.iter_mut().zip(&*tails).zip(z).zip(&self.prior_sd) {
                *g = -z / (sd * sd) - precision * (error[1] * x - error[0] * y);
            }
        }
        if let Some(hess) = &mut hess {
            for (j, ([x, y], sd)) in tails.iter().zip(&self.prior_sd).enumerate() {
                hess.add(j, j, -1.0 / (sd * sd));
                for (k, [x_k, y_k]) in tails[..=j].iter().enumerate() {
                    let bend = error[0] * x + error[1] * y;
                    hess.add(j, k, -precision * (x * x_k + y * y_k - bend));
                }
            }
        }
        let mut log_p = -LOG_TAU - 2.0 * self.goal_sd.ln() - 0.5 * precision * square(error);
        for (z, sd) in z.iter().zip(&self.prior_sd) {
            log_p -= 0.5 * (LOG_TAU + (z / sd) * (z / sd)) + sd.ln();
        }
        log_p
    }
}

impl Target for PlanarRobot {
    fn dim(&self) -> usize {
        self.prior_sd.len()
    }
    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let mut tails = scratch.take(2 * self.dim());
        let result = eval_points(self.dim(), z, out, scratch, |z, grad, hess| {
            Ok(self.at(z, grad, hess, tails.as_chunks_mut().0))
        });
        scratch.give(tails);
        result
    }
    fn gradient_is_tested(&self) -> bool {
        true
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        EXACT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::densities::derivatives::{Uniform, check_derivatives};
    use natmix::target::log_p_at;

    #[test]
    fn derivatives() {
        let goals = [[4.0, 0.0], [-4.0, 0.0], [0.0, 4.0], [0.0, -4.0]];
        let robot = PlanarRobot::new(&[1.0, 0.2, 0.3, 0.2, 0.2], 0.05, &goals).unwrap();
        check_derivatives(&robot, &Uniform(3).points(20, 5, 1.0), 1e-4);
        let arm = PlanarRobot::new(&[0.7], 0.5, &[[0.0, 1.0]]).unwrap();
        check_derivatives(&arm, &[0.1, 2.0], 1e-3);
    }

    #[test]
    fn only_the_best_goal_counts() {
        let right_angle = std::f64::consts::FRAC_PI_2;
        let robot = |goals: &[[f64; 2]]| PlanarRobot::new(&[1.0, 0.5, 2.0], 0.1, goals).unwrap();
        // The hand: (0, 1) + (0, 1) + (1, 0) = (1, 2).
        let z = [right_angle, 0.0, -right_angle];
        let expected = -2.5 * LOG_TAU - 0.5 * right_angle * right_angle * 1.25 - 2.0 * 0.1f64.ln();
        let both = log_p_at(&robot(&[[0.0, 3.0], [1.0, 2.0]]), &z).unwrap();
        assert!((both - expected).abs() < 1e-12);
        let far = log_p_at(&robot(&[[1.0, 2.5]]), &z).unwrap();
        assert!((far - (expected - 12.5)).abs() < 1e-12);
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(PlanarRobot::new(&[], 0.1, &[[0.0, 0.0]]).is_err());
        assert!(PlanarRobot::new(&[1.0, 0.0], 0.1, &[[0.0, 0.0]]).is_err());
        assert!(PlanarRobot::new(&[1.0], -0.1, &[[0.0, 0.0]]).is_err());
        assert!(PlanarRobot::new(&[1.0], 0.1, &[]).is_err());
        assert!(PlanarRobot::new(&[1.0], 0.1, &[[0.0, f64::NAN]]).is_err());
    }
}
