//! Which levels are centred: those whose rows say more about their effects than their group does.
//!
//! Centred effects (the effects themselves) are nearly independent of the standard deviation of their group where there are many
//! rows per level, and form a funnel with it where there are few; standardised effects do the opposite. The chains of the
//! engine find suitable coordinates where these are not (but from centred ones they do not get out of a funnel), and a single
//! Gaussian, at a tenth of the evaluations, needs the right ones. Measured with the defaults on `y = 1.3 - 0.6 x + u + e`, seeds 1 and
//! 2, in thousands of evaluations, those of chains included, before centred effects lay around the coefficients (see [`super::around`]);
//! all fits that were trusted were right:
//!
//! | groups x rows, `sd(u)`, `sd(e)` | none centred | all centred | as chosen here |
//! |---|---|---|---|
//! | 10 x 8, 0.3, 1 | 100, 97 | 167, 171, not trusted | 100, 97 |
//! | 10 x 200, 1, 1 | 100, 100 | 40, 66 | 40, 66 |
//! | 85 x 5, 0.2, 1 | 82, 49 | 618, 614, not trusted | 82, 49 |
//! | 85 x 100, 1, 1 | 72, 42 | 10, 10 | 10, 10 |
//! | 85 x 1 to 148, 0.7, 1 | 43, 41 | 9, 9 | 3, 37 |
//! | 300 x 3, 0.3, 1 | 174, 137 | 374, and 632 not trusted | 174, 137 |
//! | 300 x 30, 1, 1 | 68, 55 | 6, 6 | 6, 6 |
//!
//! A fit without effects gives the slope `g` and the information `I` of each level. The effects have the estimate `I^-1 g` with the
//! variance `V = diag(I^-1)`, which gives a moment estimate of the variance `t^2` of each column, and `m = t^2 / V`, the
//! information of a level in units of that of its group. The logarithm of `t` is then known to about
//! `1 / sqrt(2 sum (m/(1 + m))^2)`. A level is centred if its rows would still say more than its group if `t` were smaller than
//! estimated by three times that, for each column.

use super::lanes::LANES;
use super::model::EffectsModel;
use super::second_derivatives::{at_row, logistic};
use crate::grouping::GroupCoefficients;
use crate::scores::spaced;
use natmix::Scratch;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target, TargetError};

/// How far below its estimate the logarithm of a standard deviation may be, in units of its own.
const CAUTION: f64 = 3.0;
/// Newton steps of the fit without effects.
const STEPS: usize = 30;
/// Nats of expected gain at which it ends.
const TOLERANCE: f64 = 1e-3;
/// Most rows that it uses, and numbers that their Hessians add up.
const MOST_ROWS: usize = 20_000;
const MOST_WORK: usize = 20_000_000;

impl EffectsModel {
    /// Chooses which levels are centred.
    pub(super) fn choose_centred(&mut self) -> Result<(), TargetError> {
        let groups = std::mem::take(&mut self.groups);
        let dim = std::mem::replace(&mut self.dim, self.priors.len() + self.auxiliary.dim());
        let without = if self.dim == 0 { Ok(Vec::new()) } else { self.mode() };
        self.groups = groups;
        self.dim = dim;
        let slopes = self.slopes_and_information(without?);
        // The one level of a smooth is never centred: the funnel would have no other levels to hold it open.
        let groups = self.groups.iter_mut().filter(|group| group.shape.coefficients != GroupCoefficients::Shared);
        for group in groups {
            let (q, levels) = (group.q, group.shape.levels.len());
            let each = q * q + q;
            let mut sums = vec![0.0; levels * each];
            for (row, level) in group.level_of_row.iter().enumerate() {
                let (slope, information) = slopes[row];
                let x = &group.z[row * q..(row + 1) * q];
                let sums = &mut sums[*level as usize * each..][..each];
                for i in 0..q {
                    sums[i] += slope * x[i];
                    (0..q).for_each(|j| sums[q + i * q + j] += information * x[i] * x[j]);
                }
            }
            let estimates: Vec<Option<Vec<(f64, f64)>>> =
                sums.chunks_exact(each).map(|sums| estimates(&sums[..q], &sums[q..])).collect();
            group.shape.centred = centred(&estimates, q);
        }
        Ok(())
    }

    /// The mode of a model without groups, roughly.
    fn mode(&self) -> Result<Vec<f64>, TargetError> {
        let dim = self.dim;
        let most = (MOST_WORK / (dim * dim)).clamp(1000, MOST_ROWS);
        let some: Vec<u32> = spaced(self.rows, most).map(|row| row as u32).collect();
        let rows = if self.rows <= most { Rows::All } else { Rows::Subset(&some) };
        let mut scratch = Scratch::default();
        let mut at = |z: &[f64]| -> Result<(f64, Vec<f64>, Vec<f64>), TargetError> {
            let (mut log_p, mut grad, mut sums) = ([0.0], vec![0.0; dim], vec![0.0; dim * dim]);
            let (kind, shape) = (Curvature::Exact, CurvatureShape::Full);
            let curv = Some(CurvatureSums { kind, shape, weights: &[1.0], sums: &mut sums });
            self.eval(
                rows,
                Points::new(z, dim),
                EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv },
                &mut scratch,
            )?;
            Ok((log_p[0], grad, sums))
        };
        let mut z = vec![0.0; dim];
        let mut here = at(&z)?;
        let mut damping = 1e-6;
        for _ in 0..STEPS {
            let negative: Vec<f64> = here.2.iter().map(|h| -h).collect();
            let step = loop {
                let damped = (0..dim * dim).map(|i| {
                    let on_diagonal = i % (dim + 1) == 0;
                    negative[i] + if on_diagonal { damping * negative[i].abs().max(1.0) } else { 0.0 }
                });
                match solve(damped.collect(), &here.1) {
                    Some(step) => break step,
                    None if damping < 1e12 => damping = (10.0 * damping).max(1e-3),
                    None => return Ok(z),
                }
            };
            let gain: f64 = step.iter().zip(&here.1).map(|(s, g)| s * g).sum();
            let next: Vec<f64> = z.iter().zip(&step).map(|(z, s)| z + s).collect();
            let there = at(&next)?;
            // Not the other way round: the value may not be a number.
            if there.0 > here.0 {
                (z, here) = (next, there);
                damping = (0.1 * damping).max(1e-6);
            } else {
                damping = (10.0 * damping).max(1e-3);
            }
            if gain.is_nan() || gain < TOLERANCE {
                break;
            }
        }
        Ok(z)
    }

    /// Slope and information in the predictor of every row, all effects being zero.
    fn slopes_and_information(&self, mut z: Vec<f64>) -> Vec<(f64, f64)> {
        let p = self.priors.len();
        z.resize(self.dim, 0.0);
        let own = z[p..p + self.auxiliary.dim()].to_vec();
        let mut params = vec![0.0; super::likelihood::lanes_of(self.base.family).0 * LANES];
        let lanes: Vec<f64> = own.iter().flat_map(|x| [*x; LANES]).collect();
        self.auxiliary.prepare(&lanes, &mut params);
        let eta = self.predictors_at(&z);
        let each = eta.into_iter().enumerate().map(|(row, eta)| {
            let (y, weight) = (self.outcomes.y[row], self.outcomes.weight(row));
            if self.base.family.cuts() > 0 {
                let cut = |k: usize| params[k * LANES];
                let (above, _, first) = logistic(eta - cut(y as usize + 1));
                let (below, _, second) = logistic(cut(y as usize) - eta);
                return (weight * (below - above), weight * (first + second));
            }
            let second = at_row(self.base.family, y, self.outcomes.other.get(row).copied().unwrap_or(0.0), eta, &own);
            (weight * second.slope, weight * (-second.eta).max(0.0))
        });
        each.collect()
    }
}

/// Estimate and variance of each effect of a level, from slopes and information; none if they do not determine them.
pub(super) fn estimates(slopes: &[f64], information: &[f64]) -> Option<Vec<(f64, f64)>> {
    let q = slopes.len();
    let mean = solve(information.to_vec(), slopes)?;
    (0..q)
        .map(|k| {
            let unit: Vec<f64> = (0..q).map(|j| f64::from(u8::from(j == k))).collect();
            let variance = solve(information.to_vec(), &unit)?[k];
            (mean[k].is_finite() && variance > 0.0 && variance.is_finite()).then_some((mean[k], variance))
        })
        .collect()
}

/// Which levels are centred, from the estimates of their effects.
fn centred(levels: &[Option<Vec<(f64, f64)>>], q: usize) -> Vec<bool> {
    let mut centred: Vec<bool> = levels.iter().map(Option::is_some).collect();
    for k in 0..q {
        let known = || levels.iter().flatten().map(|estimates| estimates[k]);
        // Weights that are inverse to the variances of the squares where there are no effects.
        let excess: f64 = known().map(|(mean, variance)| (mean * mean - variance) / (variance * variance)).sum();
        let total: f64 = known().map(|(_, variance)| variance.powi(-2)).sum();
        let square = (excess / total).max(0.0);
        let shares = known().map(|(_, variance)| (square / (square + variance)).powi(2));
        let precision = (2.0 * shares.sum::<f64>()).sqrt();
        for (centred, level) in centred.iter_mut().zip(levels) {
            let information = level.as_ref().map_or(0.0, |estimates| square / estimates[k].1);
            *centred &= 0.5 * information.ln() * precision > CAUTION;
        }
    }
    centred
}

/// Solves `a x = b` for a positive definite matrix (row by row) by its Cholesky factor; none if it is not safely so.
pub(super) fn solve(mut a: Vec<f64>, b: &[f64]) -> Option<Vec<f64>> {
    let d = b.len();
    let mut x = b.to_vec();
    for i in 0..d {
        let scale = a[i * d + i].abs();
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| a[i * d + k] * a[j * d + k]).sum();
            let rest = a[i * d + j] - known;
            if i != j {
                a[i * d + j] = rest / a[j * d + j];
            } else if rest > 1e-10 * scale {
                a[i * d + i] = rest.sqrt();
            } else {
                return None;
            }
        }
        let known: f64 = (0..i).map(|k| a[i * d + k] * x[k]).sum();
        x[i] = (x[i] - known) / a[i * d + i];
    }
    for i in (0..d).rev() {
        let known: f64 = (i + 1..d).map(|k| a[k * d + i] * x[k]).sum();
        x[i] = (x[i] - known) / a[i * d + i];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn informative_levels_are_centred() {
        // Estimates of effects of size one with these variances: as many of each sign.
        let levels = |count: usize, variance: f64| -> Vec<Option<Vec<(f64, f64)>>> {
            let size = (1.0 + variance).sqrt();
            (0..count).map(|i| Some(vec![(if i % 2 == 0 { size } else { -size }, variance)])).collect()
        };
        assert_eq!(centred(&levels(10, 0.01), 1), [true; 10]);
        assert_eq!(centred(&levels(10, 0.5), 1), [false; 10]);
        assert_eq!(centred(&levels(300, 0.5), 1), [true; 300]);
        assert_eq!(centred(&levels(300, 2.0), 1), [false; 300]);
        // A level about which little is known is left out, one without an estimate too.
        let mut mixed = levels(100, 0.05);
        mixed.push(Some(vec![(0.0, 5.0)]));
        mixed.push(None);
        assert_eq!(centred(&mixed, 1)[99..], [true, false, false]);
        assert_eq!(centred(&[None, None], 2), [false; 2]);
    }

    #[test]
    fn equations_are_solved_or_refused() {
        let x = solve(vec![4.0, 2.0, 2.0, 10.0], &[2.0, 19.0]).unwrap();
        assert!((x[0] + 0.5).abs() < 1e-15 && (x[1] - 2.0).abs() < 1e-15, "{x:?}");
        assert!(solve(vec![1.0, 1.0, 1.0, 1.0], &[1.0, 1.0]).is_none());
        assert!(solve(vec![f64::NAN], &[1.0]).is_none());
        assert!(solve(vec![0.0], &[0.0]).is_none());
    }
}
