//! A density that differs from a normal prior in few directions only is fitted there, and the result is lifted.
//!
//! A regression with `n` rows `x` and `p > n` coefficients under the prior `N(0, diag(s^2))` learns nothing about directions in
//! which no row has any extent. With orthonormal columns `W` (`p x r`) that span the rows `x s`,
//!
//! ```text
//! z = s (W u + (I - W W') e),     u = W' (z / s),     e ~ N(0, I)
//! ```
//!
//! the posterior of `u` is that of a problem in `r <= n` dimensions under the prior `N(0, I)`, and `e` is independent of it, with
//! its prior. So the fit runs in the coordinates `u`: ELBO and evidence are those of the whole problem. Afterwards the mixture is lifted
//! exactly, and draws with noise that is keyed by `u` and the number of the draw: a chain that stays where it is still gets fresh noise, as a
//! draw of `e` given `u`, and the same draws are lifted to the same points, wherever and whenever.
//!
//! ```
//! use natmix::target::reduction::Subspace;
//! // Of three coordinates with prior standard deviation 2 the density depends on the first alone.
//! let subspace = Subspace::new(vec![2.0; 3], vec![1.0, 0.0, 0.0], 1, 0);
//! let z = subspace.lift(&[0.7]);
//! assert!((z[0] - 1.4).abs() < 1e-15 && z[1] != 0.0);
//! assert!((subspace.project(&z)[0] - 0.7).abs() < 1e-15);
//! ```

use super::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use crate::config::{Config, StrategyConfig};
use crate::error::Error;
use crate::family::{AnyCovariance, CovarianceKind, Gaussian, LOG_TAU, LowRank, Mixture};
use crate::linalg::{self, Memory, Transpose, product, product_bt};
use crate::noise::{Noise, Purpose};
use crate::workspace::Scratch;
use std::sync::Arc;

/// Dimension up to which lifted Gaussians get a full covariance; beyond, one of low rank.
const DENSE: usize = 1_024;
/// Points that are lifted at a time.
const BLOCK: usize = 128;

/// The directions in which a density differs from its prior. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Subspace {
    /// `s`, of one block.
    scale: Vec<f64>,
    /// `W`, one direction after the other.
    basis: Vec<f64>,
    blocks: usize,
    tail: usize,
}

/// An equivalent problem in fewer dimensions.
#[derive(Clone)]
pub struct Reduction {
    /// The density of `u` with the prior `N(0, I)`, and the coordinates that are left as they are.
    pub target: Arc<dyn Target + Send>,
    /// How `u` lies in the whole space.
    pub subspace: Arc<Subspace>,
}

impl std::fmt::Debug for Reduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reduction").field("subspace", &self.subspace).finish_non_exhaustive()
    }
}

impl Subspace {
    /// From the prior standard deviations of a block of coordinates and orthonormal directions, one after the other. A point has
    /// `blocks` such blocks, which share both, and then `tail` coordinates that stay as they are.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn new(scale: Vec<f64>, basis: Vec<f64>, blocks: usize, tail: usize) -> Self {
        assert!(!scale.is_empty() && basis.len().is_multiple_of(scale.len()), "directions of another dimension");
        Self { scale, basis, blocks, tail }
    }

    /// Dimension of the whole.
    pub fn dim(&self) -> usize {
        self.blocks * self.scale.len() + self.tail
    }

    /// Dimension in which the fit runs.
    pub fn reduced_dim(&self) -> usize {
        self.blocks * self.rank() + self.tail
    }

    fn rank(&self) -> usize {
        self.basis.len() / self.scale.len()
    }

    /// Draws `u`, one after the other, with noise of the prior beside the subspace.
    pub fn lift(&self, points: &[f64]) -> Vec<f64> {
        self.lift_from(points, 0)
    }

    /// The same for draws of which the first is number `first`.
    pub(crate) fn lift_from(&self, points: &[f64], first: usize) -> Vec<f64> {
        let (d, reduced) = (self.dim(), self.reduced_dim());
        let mut lifted = vec![0.0; points.len() / reduced * d];
        for (block, (points, lifted)) in points.chunks(BLOCK * reduced).zip(lifted.chunks_mut(BLOCK * d)).enumerate() {
            self.lift_block(points, first + block * BLOCK, lifted);
        }
        lifted
    }

    fn lift_block(&self, points: &[f64], first: usize, lifted: &mut [f64]) {
        let (p, r, own) = (self.scale.len(), self.rank(), self.reduced_dim());
        let count = points.len() / own * self.blocks;
        let (mut within, mut whole) = (Vec::with_capacity(count * r), vec![0.0; count * p]);
        for (i, (u, whole)) in points.chunks_exact(own).zip(whole.chunks_exact_mut(self.blocks * p)).enumerate() {
            within.extend_from_slice(&u[..self.blocks * r]);
            noise_of(u, first + i).normals(whole);
        }
        // W u + (I - W W') e = e + W (u - W' e)
        product(&mut within, true, -1.0, &self.basis, Transpose::Yes, &whole, (r, p, count));
        product(&mut whole, true, 1.0, &self.basis, Transpose::No, &within, (p, r, count));
        let points = points.chunks_exact(own).zip(whole.chunks_exact(self.blocks * p));
        for ((u, whole), z) in points.zip(lifted.chunks_exact_mut(self.dim())) {
            let (coefficients, tail) = z.split_at_mut(self.blocks * p);
            let scale = self.scale.iter().cycle();
            coefficients.iter_mut().zip(whole).zip(scale).for_each(|((z, whole), scale)| *z = scale * whole);
            tail.copy_from_slice(&u[self.blocks * r..]);
        }
    }

    /// The coordinates `u` of points, one after the other.
    pub fn project(&self, points: &[f64]) -> Vec<f64> {
        let (p, r, d) = (self.scale.len(), self.rank(), self.dim());
        let mut projected = Vec::with_capacity(points.len() / d * self.reduced_dim());
        let mut within = vec![0.0; self.blocks * r];
        for z in points.chunks_exact(d) {
            let scale = self.scale.iter().cycle();
            let scaled: Vec<f64> = z[..self.blocks * p].iter().zip(scale).map(|(z, scale)| z / scale).collect();
            product(&mut within, false, 1.0, &self.basis, Transpose::Yes, &scaled, (r, p, self.blocks));
            projected.extend_from_slice(&within);
            projected.extend_from_slice(&z[self.blocks * p..]);
        }
        projected
    }

    /// `log p(z) - log p(u)`: the prior beside the subspace, and the scales.
    pub fn log_density_beside(&self, z: &[f64], u: &[f64]) -> f64 {
        let (p, r) = (self.scale.len(), self.rank());
        let whole = z[..self.blocks * p].iter().zip(self.scale.iter().cycle());
        let whole: f64 = whole.map(|(z, scale)| (z / scale).powi(2)).sum();
        let within: f64 = u[..self.blocks * r].iter().map(|u| u * u).sum();
        let log_scales: f64 = self.scale.iter().map(|scale| scale.ln()).sum();
        -0.5 * (whole - within) - self.blocks as f64 * (0.5 * (p - r) as f64 * LOG_TAU + log_scales)
    }

    /// The columns `s W` for all blocks, and unit vectors for the tail: `dim` numbers each.
    fn columns(&self, scaled: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let (p, d) = (self.scale.len(), self.dim());
        let mut columns = vec![0.0; self.reduced_dim() * d];
        let (of_blocks, of_tail) = columns.split_at_mut(self.blocks * self.rank() * d);
        for (at, column) in of_blocks.chunks_exact_mut(d).enumerate() {
            let (block, direction) = (at / self.rank(), &self.basis[at % self.rank() * p..][..p]);
            let entries = column[block * p..][..p].iter_mut().zip(direction).zip(&self.scale);
            entries.for_each(|((entry, w), scale)| *entry = scaled(*w, *scale));
        }
        for (at, column) in of_tail.chunks_exact_mut(d).enumerate() {
            column[self.blocks * p + at] = 1.0;
        }
        columns
    }

    /// Precisions where nothing is learned: those of the prior, and one for the tail.
    fn prior_precisions(&self) -> Vec<f64> {
        let of_block = self.scale.iter().map(|scale| (scale * scale).recip());
        of_block.cycle().take(self.blocks * self.scale.len()).chain(std::iter::repeat_n(1.0, self.tail)).collect()
    }

    /// The mixture whose draws are lifted draws of `q`.
    pub fn lift_mixture(&self, q: &Mixture) -> Result<Mixture, Error> {
        let (d, reduced) = (self.dim(), self.reduced_dim());
        let means = self.columns(|w, scale| w * scale);
        each_component(q, |own| {
            let mut mean = vec![0.0; d];
            product(&mut mean, false, 1.0, &means, Transpose::No, own.mean(), (d, reduced, 1));
            let precision = own.precision().full_matrix();
            let lifted = if d <= DENSE { self.dense(precision) } else { self.low_rank(&precision) };
            Ok(Gaussian::new(mean, lifted?))
        })
    }

    /// `diag(prior) + B (S - I) B'` with the columns `W / s` of `B`.
    fn dense(&self, mut precision: Vec<f64>) -> Result<AnyCovariance, usize> {
        let (d, reduced) = (self.dim(), self.reduced_dim());
        precision.iter_mut().step_by(reduced + 1).for_each(|s| *s -= 1.0);
        let columns = self.columns(|w, scale| w / scale);
        let mut half = vec![0.0; d * reduced];
        product(&mut half, false, 1.0, &columns, Transpose::No, &precision, (d, reduced, reduced));
        let mut whole = linalg::diagonal(self.prior_precisions(), d);
        product_bt(&mut whole, true, 1.0, &half, &columns, (d, reduced, d));
        linalg::symmetrise(&mut whole, d);
        AnyCovariance::from_matrix(d, whole)
    }

    /// The same from the eigenvectors of `S`: its directions are theirs.
    fn low_rank(&self, precision: &[f64]) -> Result<AnyCovariance, usize> {
        let (d, reduced) = (self.dim(), self.reduced_dim());
        let (mut values, mut vectors) = (vec![0.0; reduced], vec![0.0; reduced * reduced]);
        if !linalg::symmetric_eigen(&mut values, &mut vectors, precision, reduced, &mut Memory::default()) {
            return Err(0);
        }
        let mut directions = vec![0.0; d * reduced];
        product(&mut directions, false, 1.0, &self.columns(|w, _| w), Transpose::No, &vectors, (d, reduced, reduced));
        LowRank::with_directions(self.prior_precisions(), directions, values).map(Into::into)
    }

    /// The mixture of the coordinates `u` of draws of `q`.
    pub fn project_mixture(&self, q: &Mixture) -> Result<Mixture, Error> {
        let (d, reduced) = (self.dim(), self.reduced_dim());
        if q.dim() != d {
            let problem = format!("the start has dimension {}, the target {d}", q.dim());
            return Err(Error::InvalidInput(problem));
        }
        let columns = self.columns(|w, scale| w / scale);
        each_component(q, |own| {
            let mut solved = columns.clone();
            solved.chunks_exact_mut(d).for_each(|column| own.precision().solve(column));
            let mut covariance = vec![0.0; reduced * reduced];
            product(&mut covariance, false, 1.0, &columns, Transpose::Yes, &solved, (reduced, d, reduced));
            linalg::symmetrise(&mut covariance, reduced);
            Ok(Gaussian::new(self.project(own.mean()), AnyCovariance::from_covariance(reduced, covariance)?))
        })
    }
}

/// Noise that belongs to a draw.
fn noise_of(point: &[f64], number: usize) -> Noise {
    let mix = |hash: u64, x: &f64| {
        let mixed = (hash ^ x.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(23)
    };
    let keys = [1, 2].map(|key| point.iter().fold(key, mix));
    Noise::new(0, Purpose::Lift, keys[0], keys[1], number as u64)
}

/// The mixture of changed components, with their weights and ids.
fn each_component(q: &Mixture, change: impl Fn(&Gaussian) -> Result<Gaussian, usize>) -> Result<Mixture, Error> {
    let changed = q.components().iter().enumerate().map(|(component, own)| {
        let what = "precision in other coordinates";
        change(own).map_err(|pivot| Error::NotPositiveDefinite { component, what, pivot })
    });
    let mut mixture = Mixture::new(&q.weights(), changed.collect::<Result<_, _>>()?)?.with_ids(q.ids().to_vec());
    mixture.parts_mut().0.copy_from_slice(q.log_weights());
    Ok(mixture)
}

/// Whether a fit with these settings may choose its coordinates: the automatic method with full covariances, whose steps do not depend on
/// them, and with a start that is not placed by the user.
pub fn is_allowed(config: &Config) -> bool {
    let placed = config.init_mean != [0.0] || config.init_sd.len() != 1;
    matches!(config.strategy, StrategyConfig::Automatic(_)) && config.covariance == CovarianceKind::Full && !placed
}

/// The target of a fit that runs in fewer dimensions: its parameters are those of the whole problem.
pub(crate) struct Reduced<'a> {
    pub whole: &'a dyn Target,
    pub reduction: &'a Reduction,
}

impl Target for Reduced<'_> {
    fn dim(&self) -> usize {
        self.reduction.subspace.reduced_dim()
    }
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.reduction.target.eval(rows, z, out, scratch)
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        self.reduction.target.curvatures()
    }
    fn is_log_concave(&self) -> bool {
        self.reduction.target.is_log_concave()
    }
    fn gradient_is_tested(&self) -> bool {
        self.reduction.target.gradient_is_tested()
    }
    fn num_rows(&self) -> Option<usize> {
        self.reduction.target.num_rows()
    }
    fn parameter_names(&self) -> Vec<String> {
        self.whole.parameter_names()
    }
    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.whole.to_parameters(&self.reduction.subspace.lift(z), parameters);
    }
    fn points_to_parameters(&self, points: Points<'_>, first: usize, parameters: &mut [f64]) {
        let lifted = self.reduction.subspace.lift_from(points.data(), first);
        self.whole.points_to_parameters(Points::new(&lifted, self.whole.dim()), first, parameters);
    }
}

impl Reduction {
    /// Turns the result of a fit in fewer dimensions into that of the whole problem.
    pub(crate) fn lift(&self, fitted: &mut crate::Fitted) -> Result<(), Error> {
        let subspace = &self.subspace;
        fitted.mixture = subspace.lift_mixture(&fitted.mixture)?;
        if let Some(weighted) = &mut fitted.weighted {
            weighted.draws = subspace.lift(&weighted.draws);
        }
        if let Some(chains) = &mut fitted.chains {
            let lifted = subspace.lift(&chains.draws);
            let points = chains.draws.chunks_exact(subspace.reduced_dim()).zip(lifted.chunks_exact(subspace.dim()));
            for (log_p, (u, z)) in chains.log_p.iter_mut().zip(points) {
                *log_p += subspace.log_density_beside(z, u);
            }
            chains.draws = lifted;
        }
        fitted.subspace = Some(Arc::clone(subspace));
        Ok(())
    }
}
