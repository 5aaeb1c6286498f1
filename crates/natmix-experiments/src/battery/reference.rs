//! Reference posteriors of regressions: importance sampling from a heavy-tailed proposal, adapted once.
//!
//! The first proposal is multivariate t around the mode with the curvature there, the second has the mean and covariance
//! of the first round. The effective number of draws says how exact the result is; too small a number is an error.

use super::climb::{PointEvaluator, climb_from};
use super::random::RandomStream;
use super::sample::WeightedSample;
use anyhow::{Context, Result, anyhow, ensure};
use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows, Target};

/// Degrees of freedom of the proposals.
const DEGREES: f64 = 8.0;
/// Draws of the round that adapts the proposal, for each draw of the last one.
const ADAPTING_SHARE: f64 = 0.25;
/// Effective draws, as a share of all, that a reference must have.
const LEAST_EFFECTIVE: f64 = 0.05;
/// Points that are evaluated in one call.
const BLOCK: usize = 512;
/// Step of the difference quotients for the curvature, as a share of the prior's scale of one.
const DIFFERENCE: f64 = 1e-4;

/// A multivariate t distribution.
struct StudentProposal {
    mean: Vec<f64>,
    /// Lower-triangular factor of the scale matrix, row by row.
    factor: Vec<f64>,
}

/// Weighted draws of the posterior on the scale of its parameters.
pub fn reference_sample(target: &dyn Target, draws: usize, seed: u64) -> Result<WeightedSample> {
    let mut random = RandomStream::new(seed);
    let mut proposal = StudentProposal::at_mode(target)?;
    let first = proposal.weighted(target, (ADAPTING_SHARE * draws as f64) as usize, &mut random)?;
    proposal = StudentProposal::of_moments(&first, target.dim())?;
    let (z, weights) = proposal.weighted(target, draws, &mut random)?;
    let names = target.parameter_names();
    let mut values = vec![0.0; draws * names.len()];
    for (z, out) in z.chunks_exact(target.dim()).zip(values.chunks_exact_mut(names.len())) {
        target.to_parameters(z, out);
    }
    let sample = WeightedSample { names, values, weights: Some(weights) };
    let share = sample.effective() / draws as f64;
    ensure!(share >= LEAST_EFFECTIVE, "the reference run has only {:.1}% effective draws", 100.0 * share);
    Ok(sample)
}

impl StudentProposal {
    fn at_mode(target: &dyn Target) -> Result<Self> {
        let d = target.dim();
        let mut evaluator = PointEvaluator::new(target);
        let mut mean = vec![0.0; d];
        climb_from(&mut evaluator, &mut mean, 1.0)?;
        let mut curvature = vec![0.0; d * d];
        let (mut z, mut up, mut down) = (mean.clone(), vec![0.0; d], vec![0.0; d]);
        for i in 0..d {
            z[i] = mean[i] + DIFFERENCE;
            evaluator.at(&z, &mut up)?;
            z[i] = mean[i] - DIFFERENCE;
            evaluator.at(&z, &mut down)?;
            z[i] = mean[i];
            for j in 0..d {
                let entry = -(up[j] - down[j]) / (4.0 * DIFFERENCE);
                curvature[i * d + j] += entry;
                curvature[j * d + i] += entry;
            }
        }
        let precision = factorise(curvature, d).context("at the mode of the reference run")?;
        Ok(Self { mean, factor: factorise(inverse(&precision, d), d)? })
    }

    fn of_moments((z, weights): &(Vec<f64>, Vec<f64>), d: usize) -> Result<Self> {
        let total: f64 = weights.iter().sum();
        let mut mean = vec![0.0; d];
        for (z, weight) in z.chunks_exact(d).zip(weights) {
            mean.iter_mut().zip(z).for_each(|(mean, z)| *mean += weight / total * z);
        }
        let mut covariance = vec![0.0; d * d];
        for (z, weight) in z.chunks_exact(d).zip(weights) {
            for (i, row) in covariance.chunks_exact_mut(d).enumerate() {
                let factor = weight / total * (z[i] - mean[i]);
                row.iter_mut().zip(z).zip(&mean).for_each(|((entry, z), mean)| *entry += factor * (z - mean));
            }
        }
        Ok(Self { mean, factor: factorise(covariance, d)? })
    }

    /// Draws with importance weights of largest value one.
    fn weighted(&self, target: &dyn Target, n: usize, random: &mut RandomStream) -> Result<(Vec<f64>, Vec<f64>)> {
        let d = self.mean.len();
        let (mut z, mut log_weights) = (vec![0.0; n * d], vec![0.0; n]);
        let (mut normal, mut log_p, mut scratch) = (vec![0.0; d], vec![0.0; BLOCK], Scratch::default());
        for (z, log_weights) in z.chunks_mut(BLOCK * d).zip(log_weights.chunks_mut(BLOCK)) {
            for (z, log_weight) in z.chunks_exact_mut(d).zip(log_weights.iter_mut()) {
                random.normals(&mut normal);
                let factor = random.student_factor(DEGREES);
                let squares: f64 = normal.iter().map(|x| (factor * x).powi(2)).sum();
                *log_weight = 0.5 * (DEGREES + d as f64) * (squares / DEGREES).ln_1p();
                for (i, row) in self.factor.chunks_exact(d).enumerate() {
                    let step: f64 = row[..=i].iter().zip(&normal).map(|(a, b)| a * b).sum();
                    z[i] = self.mean[i] + factor * step;
                }
            }
            let log_p = &mut log_p[..log_weights.len()];
            let out = EvalOut { log_p: &mut *log_p, grad: None, curv: None };
            target.eval(Rows::All, Points::new(z, d), out, &mut scratch).map_err(|error| anyhow!("{error}"))?;
            log_weights.iter_mut().zip(log_p).for_each(|(log_weight, log_p)| *log_weight += *log_p);
        }
        let most = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights = log_weights.iter().map(|x| if x.is_nan() { 0.0 } else { (x - most).exp() }).collect();
        Ok((z, weights))
    }
}

/// The lower-triangular factor of a symmetric positive definite matrix, row by row.
fn factorise(mut matrix: Vec<f64>, d: usize) -> Result<Vec<f64>> {
    for i in 0..d {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| matrix[i * d + k] * matrix[j * d + k]).sum();
            let rest = matrix[i * d + j] - sum;
            if i == j {
                ensure!(rest > 0.0, "a matrix is not positive definite at row {i}");
                matrix[i * d + i] = rest.sqrt();
            } else {
                matrix[i * d + j] = rest / matrix[j * d + j];
            }
        }
        matrix[i * d + i + 1..(i + 1) * d].fill(0.0);
    }
    Ok(matrix)
}

/// The inverse of the matrix with this factor.
fn inverse(factor: &[f64], d: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; d * d];
    for (column, x) in inverse.chunks_exact_mut(d).enumerate() {
        x[column] = 1.0;
        for i in 0..d {
            let sum: f64 = (0..i).map(|k| factor[i * d + k] * x[k]).sum();
            x[i] = (x[i] - sum) / factor[i * d + i];
        }
        for i in (0..d).rev() {
            let sum: f64 = (i + 1..d).map(|k| factor[k * d + i] * x[k]).sum();
            x[i] = (x[i] - sum) / factor[i * d + i];
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::densities::{CorrelatedNormal, LogGammaProduct};
    use natmix::autodiff::AutoDiff;

    #[test]
    fn the_reference_of_a_gaussian_is_exact() {
        let sample = reference_sample(&AutoDiff(CorrelatedNormal::new(3, 0.9, (0.5, 2.0))), 40_000, 1).unwrap();
        assert!(sample.effective() > 25_000.0);
        for (j, (mean, sd)) in [(0.25, 0.5), (-0.5, 1.0), (1.0, 2.0)].into_iter().enumerate() {
            let found = sample.column(j).moments();
            assert!((found.mean - mean).abs() < 0.03 * sd && (found.sd / sd - 1.0).abs() < 0.02, "{found:?}");
        }
    }

    #[test]
    fn the_reference_of_a_skewed_density_agrees_with_its_sampler() {
        let density = LogGammaProduct { shapes: vec![1.0, 3.0] };
        let sample = reference_sample(&AutoDiff(density.clone()), 100_000, 1).unwrap();
        let exact = super::super::densities::exact_sample(&density, sample.names.clone(), 100_000, 2);
        for j in 0..2 {
            let (a, b) = (sample.column(j).quantiles([0.05, 0.95]), exact.column(j).quantiles([0.05, 0.95]));
            assert!((a[0] - b[0]).abs() < 0.06 && (a[1] - b[1]).abs() < 0.03, "{a:?} {b:?}");
        }
    }
}
