//! A mixture of Gaussians `q(z) = sum_k w_k N(z; m_k, S_k^-1)`, evaluated in log space.
//!
//! With responsibilities `r_k = w_k N_k / q` and `a_k = S_k (m_k - z)`:
//!
//! ```text
//! grad log q = sum_k r_k a_k
//! hess log q = sum_k r_k ((a_k - grad log q)(a_k - grad log q)' - S_k)
//! ```
//!
//! A mixture is a [`Target`] too. A single Gaussian is a mixture of one component, not another code path.
//!
//! ```
//! use natmix::family::{Gaussian, Mixture};
//! let q = Mixture::new(&[0.5, 0.5], vec![Gaussian::isotropic(vec![-1.0], 1.0), Gaussian::isotropic(vec![1.0], 1.0)]).unwrap();
//! // By symmetry q(0) = N(1; 0, 1).
//! assert!((q.log_density(&[0.0])[0] + 0.5 + 0.5 * std::f64::consts::TAU.ln()).abs() < 1e-15);
//! ```

use super::block::MixtureBlock;
use super::covariance::{AnyCovariance, CovarianceKind, Diag, Full};
use super::gaussian::Gaussian;
use super::log_sum_exp;
use crate::error::Error;
use crate::linalg;
use crate::noise::{Noise, Purpose};
use crate::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use crate::workspace::Scratch;

/// Points that the convenience methods evaluate at a time.
const BLOCK: usize = 128;

/// A mixture of Gaussians of one dimension and kind of covariance.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    log_w: Vec<f64>,
    components: Vec<Gaussian>,
    ids: Vec<u64>,
}

/// Covariances as nested lists, the way files write them.
#[derive(Clone, Copy, Debug)]
pub enum Covariances<'a> {
    /// One `d x d` matrix per component.
    Full(&'a [Vec<Vec<f64>>]),
    /// One list of `d` variances per component.
    Diag(&'a [Vec<f64>]),
}

impl Mixture {
    /// From weights (positive; normalised here) and components of one dimension and kind of covariance.
    pub fn new(weights: &[f64], components: Vec<Gaussian>) -> Result<Self, Error> {
        let invalid = |problem: String| Err(Error::InvalidInput(problem));
        if components.is_empty() || weights.len() != components.len() {
            return invalid(format!("{} weights for {} components", weights.len(), components.len()));
        }
        if let Some(w) = weights.iter().find(|w| !(w.is_finite() && **w > 0.0)) {
            return invalid(format!("a mixture weight is {w}: weights must be positive and finite"));
        }
        let (dim, kind) = (components[0].dim(), components[0].covariance_kind());
        if components.iter().any(|c| c.dim() != dim || c.covariance_kind() != kind) || dim == 0 {
            return invalid("components must share one dimension (at least 1) and one kind of covariance".into());
        }
        if let Some(k) = components.iter().position(|c| !c.is_sound()) {
            return invalid(format!("component {k}: mean or precision is not finite"));
        }
        let mut log_w: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
        normalise(&mut log_w);
        let ids = (0..components.len() as u64).collect();
        Ok(Self { log_w, components, ids })
    }

    /// A single Gaussian.
    pub fn single(component: Gaussian) -> Self {
        Self { log_w: vec![0.0], components: vec![component], ids: vec![0] }
    }

    /// From weights, means and covariances.
    pub fn from_moments(weights: &[f64], means: &[Vec<f64>], covariances: Covariances<'_>) -> Result<Self, Error> {
        let count = match covariances {
            Covariances::Full(list) => list.len(),
            Covariances::Diag(list) => list.len(),
        };
        if means.len() != count {
            return Err(Error::InvalidInput(format!("{} means but {count} covariances", means.len())));
        }
        let mut components = Vec::with_capacity(count);
        for (k, mean) in means.iter().enumerate() {
            let d = mean.len();
            let wrong = || Error::InvalidInput(format!("component {k}: covariance is not of dimension {d}"));
            let entries = match covariances {
                Covariances::Diag(list) if list[k].len() == d => list[k].clone(),
                Covariances::Full(list) if list[k].len() == d && list[k].iter().all(|row| row.len() == d) => {
                    list[k].concat()
                }
                _ => return Err(wrong()),
            };
            if mean.iter().any(|m| !m.is_finite()) {
                return Err(Error::InvalidInput(format!("component {k}: mean is not finite")));
            }
            let prec: Result<AnyCovariance, usize> = match covariances {
                Covariances::Diag(_) => Diag::from_variances(&entries).map(Into::into),
                Covariances::Full(_) => full(d, entries).map(Into::into),
            };
            let prec = prec.map_err(|pivot| Error::NotPositiveDefinite { component: k, what: "covariance", pivot })?;
            components.push(Gaussian::new(mean.clone(), prec));
        }
        Self::new(weights, components)
    }

    /// Number of components.
    pub fn len(&self) -> usize {
        self.components.len()
    }
    /// Never true: a mixture has at least one component.
    pub fn is_empty(&self) -> bool {
        false
    }
    /// Dimension.
    pub fn dim(&self) -> usize {
        self.components[0].dim()
    }
    /// The kind of the covariances.
    pub fn covariance_kind(&self) -> CovarianceKind {
        self.components[0].covariance_kind()
    }
    /// The layout of the curvature sums that steps of the components consume.
    pub fn curvature_shape(&self) -> CurvatureShape {
        self.components[0].curvature_shape()
    }
    /// The components.
    pub fn components(&self) -> &[Gaussian] {
        &self.components
    }
    /// Logarithms of the weights.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_w
    }
    /// The weights.
    pub fn weights(&self) -> Vec<f64> {
        self.log_w.iter().map(|x| x.exp()).collect()
    }
    /// Ids of the components, which survive reordering; the noise of a component is keyed by its id.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The same mixture with components in another order, each with its id.
    ///
    /// # Panics
    /// If `order` is not a permutation of the component numbers.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let mut seen = vec![false; self.len()];
        order.iter().for_each(|&k| seen[k] = true);
        assert!(order.len() == self.len() && seen.iter().all(|x| *x), "not a permutation");
        Self {
            log_w: order.iter().map(|&k| self.log_w[k]).collect(),
            components: order.iter().map(|&k| self.components[k].clone()).collect(),
            ids: order.iter().map(|&k| self.ids[k]).collect(),
        }
    }

    /// The same mixture with covariances that steps can be made from.
    pub(crate) fn narrowed(mut self) -> Self {
        for component in &mut self.components {
            component.update(|_, precision| precision.narrow());
        }
        self
    }

    pub(crate) fn with_ids(mut self, ids: Vec<u64>) -> Self {
        self.ids = ids;
        self
    }
    pub(crate) fn parts_mut(&mut self) -> (&mut [f64], &mut [Gaussian]) {
        (&mut self.log_w, &mut self.components)
    }

    /// Makes `self` a copy of `other` of the same size and kind, in place.
    pub(crate) fn copy_from(&mut self, other: &Mixture) {
        self.log_w.copy_from_slice(&other.log_w);
        self.ids.copy_from_slice(&other.ids);
        for (mine, theirs) in self.components.iter_mut().zip(&other.components) {
            mine.copy_from(theirs);
        }
    }

    /// `log q` at points given one after the other.
    ///
    /// # Panics
    /// If the length of `points` is not a multiple of the dimension.
    pub fn log_density(&self, points: &[f64]) -> Vec<f64> {
        let mut log_q = vec![0.0; Points::new(points, self.dim()).len()];
        self.log_density_into(points, &mut log_q, &mut Scratch::default());
        log_q
    }

    /// [`Mixture::log_density`] without allocation.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn log_density_into(&self, points: &[f64], log_q: &mut [f64], scratch: &mut Scratch) {
        let d = self.dim();
        assert_eq!(points.len(), log_q.len() * d, "points and results differ in number");
        if let [only] = &self.components[..] {
            let constant = self.log_w[0] + only.log_norm();
            if only.precision().log_density_at_once(log_q, points, only.mean(), constant) {
                return;
            }
        }
        for (points, log_q) in points.chunks(BLOCK * d).zip(log_q.chunks_mut(BLOCK)) {
            let block = MixtureBlock::new(self, Points::new(points, d), false, scratch);
            log_q.copy_from_slice(&block.log_q[..log_q.len()]);
            block.release(scratch);
        }
    }

    /// Logarithms of the responsibilities at one point.
    ///
    /// # Panics
    /// If `point` has another dimension.
    pub fn log_responsibilities(&self, point: &[f64]) -> Vec<f64> {
        let mut scratch = Scratch::default();
        let block = MixtureBlock::new(self, Points::new(point, self.dim()), false, &mut scratch);
        (0..self.len()).map(|k| self.log_w[k] + block.log_n[k * block.stride] - block.log_q[0]).collect()
    }

    /// The component that each point most likely came from.
    ///
    /// # Panics
    /// If the length of `points` is not a multiple of the dimension.
    pub fn most_likely(&self, points: &[f64]) -> Vec<usize> {
        let (d, mut scratch) = (self.dim(), Scratch::default());
        let mut found = Vec::with_capacity(Points::new(points, d).len());
        for points in points.chunks(BLOCK * d) {
            let points = Points::new(points, d);
            let block = MixtureBlock::new(self, points, false, &mut scratch);
            for i in 0..points.len() {
                let log_share = |k: usize| self.log_w[k] + block.log_n[k * block.stride + i];
                found.push((0..self.len()).max_by(|&a, &b| log_share(a).total_cmp(&log_share(b))).unwrap_or(0));
            }
            block.release(&mut scratch);
        }
        found
    }

    /// `n` independent draws, one after the other.
    pub fn sample(&self, n: usize, seed: u64) -> Vec<f64> {
        let mut draws = vec![0.0; n * self.dim()];
        self.draw(&mut draws, seed, Purpose::Sample, 0);
        draws
    }

    /// Fills `draws`. Each block of draws has its own stream of noise. The component of each comes from a sequence that
    /// fills the unit interval evenly (multiples of the golden ratio, shifted at random): among the first `n` draws each
    /// component is represented as its weight says, to within a few draws for any `n`, so that shares of modes have hardly
    /// any noise.
    pub(crate) fn draw(&self, draws: &mut [f64], seed: u64, purpose: Purpose, iteration: u64) {
        let d = self.dim();
        // In the order of the ids, so that relabelled components give the same draws.
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|&k| self.ids[k]);
        let mut up_to: Vec<f64> = order.iter().map(|&k| self.log_w[k].exp()).collect();
        for k in 1..up_to.len() {
            up_to[k] += up_to[k - 1];
        }
        let shift = Noise::new(seed, purpose, u64::MAX, iteration, u64::MAX).uniform();
        let together = self.components.iter().find(|only| self.len() == 1 && only.precision().wide().is_some());
        for (block, draws) in draws.chunks_mut(BLOCK * d).enumerate() {
            let mut noise = Noise::new(seed, purpose, u64::MAX, iteration, block as u64);
            for (i, z) in draws.chunks_exact_mut(d).enumerate() {
                // Was the choice of the component: kept so that the draws of a single Gaussian are those of version 0.1.
                noise.uniform();
                let u = even(shift, block * BLOCK + i) * up_to[up_to.len() - 1];
                let k = order[up_to.partition_point(|x| *x <= u).min(self.len() - 1)];
                noise.normals(z);
                if together.is_none() {
                    self.components[k].place(z);
                }
            }
            if let Some(only) = together {
                only.place(draws);
            }
        }
    }

    /// Mean of the mixture.
    pub fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.dim()];
        for (w, component) in self.weights().iter().zip(&self.components) {
            mean.iter_mut().zip(component.mean()).for_each(|(m, c)| *m += w * c);
        }
        mean
    }

    /// Covariance of the mixture, a `d * d` matrix.
    pub fn covariance(&self) -> Vec<f64> {
        let (d, mean) = (self.dim(), self.mean());
        let mut covariance = vec![0.0; d * d];
        for (w, component) in self.weights().iter().zip(&self.components) {
            let delta: Vec<f64> = component.mean().iter().zip(&mean).map(|(a, b)| a - b).collect();
            let own = component.precision().covariance_full();
            for (at, x) in covariance.iter_mut().enumerate() {
                *x += w * (own[at] + delta[at % d] * delta[at / d]);
            }
        }
        covariance
    }

    /// Entropy and its standard error from `n` draws, with the component's own log density as control
    /// variate (the entropy trick): exact for one component, and nearly so for separate ones.
    pub fn entropy(&self, n: usize, seed: u64) -> (f64, f64) {
        let (mut mean, mut variance) = (0.0, 0.0);
        for ((k, component), w) in self.components.iter().enumerate().zip(self.weights()) {
            let mut draws = vec![0.0; n.max(2) * self.dim()];
            Noise::new(seed, Purpose::Sample, self.ids[k], 1, 0).normals(&mut draws);
            component.place(&mut draws);
            let excess: Vec<f64> =
                draws.chunks_exact(self.dim()).map(|z| self.log_responsibilities(z)[k] - self.log_w[k]).collect();
            let own = excess.iter().sum::<f64>() / excess.len() as f64;
            let spread = excess.iter().map(|x| (x - own).powi(2)).sum::<f64>();
            // The known part is added last, so that it adds no rounding noise.
            mean += w * (component.entropy() + own);
            variance += w * w * spread / ((excess.len() - 1) * excess.len()) as f64;
        }
        (mean, variance.sqrt())
    }
}

/// As a file may write it: not symmetric to the last bit.
fn full(d: usize, mut entries: Vec<f64>) -> Result<Full, usize> {
    linalg::symmetrise(&mut entries, d);
    Full::from_covariance(d, entries)
}

/// Normalises logarithms of weights.
pub(crate) fn normalise(log_w: &mut [f64]) {
    let total = log_sum_exp(log_w);
    log_w.iter_mut().for_each(|x| *x -= total);
}

impl Target for Mixture {
    fn dim(&self) -> usize {
        Mixture::dim(self)
    }

    fn gradient_is_tested(&self) -> bool {
        true
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &[(Curvature::Exact, CurvatureShape::Full), (Curvature::Exact, CurvatureShape::Diag)]
    }

    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let (d, n) = (z.dim(), z.len());
        if n == 0 {
            if let Some(curv) = out.curv {
                curv.sums.fill(0.0);
            }
            return Ok(());
        }
        let want_grad = out.grad.is_some() || out.curv.is_some();
        let block = MixtureBlock::new(self, z, want_grad, scratch);
        out.log_p.copy_from_slice(&block.log_q[..n]);
        if let Some(grad) = out.grad {
            for (i, grad) in grad.chunks_exact_mut(d).enumerate() {
                for (j, g) in grad.iter_mut().enumerate() {
                    *g = block.grad[j * block.stride + i];
                }
            }
        }
        if let Some(curv) = out.curv {
            if curv.kind != Curvature::Exact {
                return Err(format!("a mixture has exact curvature, not {}", curv.kind.name()).into());
            }
            curv.sums.fill(0.0);
            let sums = curv.sums.chunks_exact_mut(curv.shape.len(d));
            for (sum, weights) in sums.zip(curv.weights.chunks_exact(n)) {
                block.add_hessian(self, weights, curv.shape, sum, scratch);
            }
        }
        block.release(scratch);
        Ok(())
    }
}

/// Member `i` of a sequence that fills the unit interval evenly.
fn even(shift: f64, i: usize) -> f64 {
    // The fractional part of a multiple of the golden ratio, exactly: as a 64-bit fraction that overflows.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let fraction = (i as u64).wrapping_mul(GOLDEN) >> 11;
    (shift + fraction as f64 / (1u64 << 53) as f64).fract()
}
