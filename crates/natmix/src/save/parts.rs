//! Mixtures as tensors: `log_weights [K]`, `means [K, d]`, and those that the kind of covariance names, one entry per
//! component: for diagonal and full ones `factors` and `precisions`, `[K, d]` or `[K, d, d]`; for low-rank ones `precisions`,
//! `directions` and `values`.
//!
//! Factors `L` and precisions `S = L L'` are both kept: either could be computed from the other, but not to the bit.
//! Matrices are row-major, as other readers of safetensors expect: `factors[k]` is lower triangular.

use super::bundle::{Layout, Tensors};
use crate::family::{CovarianceKind, Gaussian, LowRank, Mixture, log_sum_exp};
use serde::{Deserialize, Serialize};

/// Largest distance of the sum of the weights from one, in logarithm.
const WEIGHT_TOLERANCE: f64 = 1e-9;

/// The description of a mixture in a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outline {
    pub dim: usize,
    pub covariance: CovarianceKind,
    /// One id per component.
    pub ids: Vec<u64>,
    /// Directions of covariances of low rank, where they have more than the usual number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
}

impl Outline {
    pub fn of(mixture: &Mixture) -> Self {
        let rank = mixture.components()[0].precision().wide();
        Self { dim: mixture.dim(), covariance: mixture.covariance_kind(), ids: mixture.ids().to_vec(), rank }
    }

    /// The tensors, with names that begin with `prefix`.
    pub fn layout(&self, prefix: &str) -> Result<Layout, String> {
        let (d, count) = (self.dim, self.ids.len());
        if d == 0 || count == 0 {
            return Err(format!("{count} components of dimension {d}"));
        }
        if d.checked_mul(d).and_then(|n| n.checked_mul(count)).is_none_or(|n| n > usize::MAX / 16) {
            return Err(format!("dimension {d} is too large"));
        }
        if self.rank.is_some_and(|rank| rank > d || self.covariance != CovarianceKind::LowRank) {
            return Err(format!("a rank in dimension {d} that does not belong to its covariances"));
        }
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two components have the same id".into());
        }
        let shapes = [("log_weights", vec![count]), ("means", vec![count, d])].into_iter().chain(self.covariances());
        Ok(shapes.map(|(name, shape)| (format!("{prefix}{name}"), shape)).collect())
    }

    /// The tensors of all covariances.
    fn covariances(&self) -> impl Iterator<Item = (&'static str, Vec<usize>)> {
        let count = self.ids.len();
        let tensors = match self.rank {
            Some(rank) => LowRank::tensors_of(self.dim, rank),
            None => self.covariance.tensors(self.dim),
        };
        tensors.into_iter().map(move |(name, shape)| (name, [&[count], &shape[..]].concat()))
    }
}

/// Adds the tensors of a mixture.
pub(crate) fn add_mixture(tensors: &mut Tensors, prefix: &str, mixture: &Mixture) {
    let (d, count) = (mixture.dim(), mixture.len());
    let means = mixture.components().iter().flat_map(|component| component.mean().iter().copied()).collect();
    tensors.add(&format!("{prefix}log_weights"), vec![count], mixture.log_weights().to_vec());
    tensors.add(&format!("{prefix}means"), vec![count, d], means);
    let mut entries: Vec<Vec<f64>> = Vec::new();
    for component in mixture.components() {
        let own = component.precision().encode();
        entries.resize(own.len(), Vec::new());
        entries.iter_mut().zip(own).for_each(|(all, own)| all.extend(own));
    }
    for ((name, shape), entries) in Outline::of(mixture).covariances().zip(entries) {
        tensors.add(&format!("{prefix}{name}"), shape, entries);
    }
}

/// Makes a mixture of tensors that have the outline's layout.
pub(crate) fn take_mixture(tensors: &mut Tensors, prefix: &str, outline: Outline) -> Result<Mixture, String> {
    let mut take = |name: &str| {
        let name = format!("{prefix}{name}");
        let data = tensors.take(&name);
        check_all(&name, &data, f64::is_finite)?;
        Ok::<_, String>(data)
    };
    let (log_weights, means) = (take("log_weights")?, take("means")?);
    let names: Vec<&str> = outline.covariances().map(|(name, _)| name).collect();
    let parts = names.iter().map(|name| take(name)).collect::<Result<Vec<_>, String>>()?;
    let total = log_sum_exp(&log_weights);
    if total.is_nan() || total.abs() > WEIGHT_TOLERANCE {
        return Err(format!("`{prefix}log_weights` belong to weights that sum to {}", total.exp()));
    }
    let d = outline.dim;
    let components = means.chunks_exact(d).enumerate().map(|(k, mean)| {
        let own = |part: &Vec<f64>| part.len() / outline.ids.len();
        let own: Vec<&[f64]> = parts.iter().map(|part| &part[k * own(part)..][..own(part)]).collect();
        let covariance = outline.covariance.decode(d, &own).ok_or_else(|| {
            let names: Vec<String> = names.iter().map(|name| format!("`{prefix}{name}`")).collect();
            format!("{} of component {k} are not those of one positive matrix", names.join(" and "))
        })?;
        Ok(Gaussian::new(mean.to_vec(), covariance))
    });
    let components = components.collect::<Result<Vec<_>, String>>()?;
    let mixture = Mixture::new(&vec![1.0; components.len()], components).map_err(|error| error.to_string())?;
    let mut mixture = mixture.with_ids(outline.ids);
    // Not through `new`, which would normalise them again and so change their last bits.
    mixture.parts_mut().0.copy_from_slice(&log_weights);
    Ok(mixture)
}

/// Whether all numbers of a tensor are as they must be.
pub(crate) fn check_all(name: &str, data: &[f64], fine: impl Fn(f64) -> bool) -> Result<(), String> {
    match data.iter().find(|x| !fine(**x)) {
        Some(x) => Err(format!("`{name}` holds {x}")),
        None => Ok(()),
    }
}
