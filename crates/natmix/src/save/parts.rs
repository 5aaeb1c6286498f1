//! Mixtures as tensors: `log_weights [K]`, `means [K, d]`, `factors` and `precisions` `[K, d, d]` or `[K, d]`.
//!
//! Factors `L` and precisions `S = L L'` are both kept: either could be computed from the other, but not to the bit.
//! Matrices are row-major, as other readers of safetensors expect: `factors[k]` is lower triangular.

use super::bundle::{Layout, Tensors};
use crate::family::{Diag, Full, Gaussian, Mixture, Precision, log_sum_exp};
use crate::target::Shape;
use serde::{Deserialize, Serialize};

/// Largest distance of the sum of the weights from one, in logarithm.
const WEIGHT_TOLERANCE: f64 = 1e-9;
/// Largest `|S - L L'|` in units of `sqrt(S_ii S_jj)`: far above rounding, far below any other explanation.
const FACTOR_TOLERANCE: f64 = 1e-8;

/// What the document says of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outline {
    pub dim: usize,
    pub covariance: Shape,
    /// One id a component.
    pub ids: Vec<u64>,
}

impl Outline {
    pub fn of(mixture: &Mixture) -> Self {
        Self { dim: mixture.dim(), covariance: mixture.shape(), ids: mixture.ids().to_vec() }
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
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two components have the same id".into());
        }
        let matrices = self.matrices();
        let shapes = [
            ("log_weights", vec![count]),
            ("means", vec![count, d]),
            ("factors", matrices.clone()),
            ("precisions", matrices),
        ];
        Ok(shapes.into_iter().map(|(name, shape)| (format!("{prefix}{name}"), shape)).collect())
    }

    fn matrices(&self) -> Vec<usize> {
        match self.covariance {
            Shape::Diag => vec![self.ids.len(), self.dim],
            Shape::Full => vec![self.ids.len(), self.dim, self.dim],
        }
    }
}

/// Adds the tensors of a mixture.
pub(crate) fn add_mixture(tensors: &mut Tensors, prefix: &str, mixture: &Mixture) {
    let outline = Outline::of(mixture);
    let (d, count) = (outline.dim, mixture.len());
    let collect = |part: fn(&Gaussian) -> &[f64]| -> Vec<f64> {
        mixture.components().iter().flat_map(|component| part(component).iter().copied()).collect()
    };
    let row_major = |part: fn(&Gaussian) -> &[f64]| {
        let mut entries = collect(part);
        if outline.covariance == Shape::Full {
            entries.chunks_exact_mut(d * d).for_each(|matrix| transpose(matrix, d));
        }
        entries
    };
    tensors.add(&format!("{prefix}log_weights"), vec![count], mixture.log_weights().to_vec());
    tensors.add(&format!("{prefix}means"), vec![count, d], collect(Gaussian::mean));
    tensors.add(&format!("{prefix}factors"), outline.matrices(), row_major(|component| component.precision().factor()));
    tensors.add(
        &format!("{prefix}precisions"),
        outline.matrices(),
        row_major(|component| component.precision().matrix()),
    );
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
    let (mut factors, mut precisions) = (take("factors")?, take("precisions")?);
    let total = log_sum_exp(&log_weights);
    if total.is_nan() || total.abs() > WEIGHT_TOLERANCE {
        return Err(format!("`{prefix}log_weights` belong to weights that sum to {}", total.exp()));
    }
    let d = outline.dim;
    let size = outline.covariance.len(d);
    let matrices = factors.chunks_exact_mut(size).zip(precisions.chunks_exact_mut(size));
    let components = means.chunks_exact(d).zip(matrices).enumerate().map(|(k, (mean, (factor, entries)))| {
        let precision = match outline.covariance {
            Shape::Diag => diag(factor, entries),
            Shape::Full => {
                transpose(factor, d);
                transpose(entries, d);
                full(d, factor, entries)
            }
        };
        let precision = precision.ok_or_else(|| {
            format!("`{prefix}factors` and `{prefix}precisions` of component {k} are not those of one positive matrix")
        })?;
        Ok(Gaussian::new(mean.to_vec(), precision))
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

fn diag(factor: &[f64], entries: &[f64]) -> Option<Precision> {
    let diag = Diag::new(entries.to_vec()).ok()?;
    (diag.root() == factor).then_some(Precision::Diag(diag))
}

fn full(d: usize, factor: &[f64], entries: &[f64]) -> Option<Precision> {
    let diagonal = |matrix: &[f64], i: usize| matrix[i * (d + 1)];
    let positive = (0..d).all(|i| diagonal(factor, i) > 0.0 && diagonal(entries, i) > 0.0);
    let lower = (0..d).all(|column| factor[column * d..][..column].iter().all(|x| *x == 0.0));
    if !(positive && lower) {
        return None;
    }
    let computed = Full::from_factor(d, factor.to_vec());
    let scale: Vec<f64> = (0..d).map(|i| diagonal(entries, i).sqrt()).collect();
    let mut pairs = computed.matrix().iter().zip(entries).enumerate();
    let close = |(at, (a, b)): (usize, (&f64, &f64))| (a - b).abs() <= FACTOR_TOLERANCE * scale[at % d] * scale[at / d];
    pairs.all(close).then(|| Precision::Full(Full::from_parts(d, entries.to_vec(), factor.to_vec())))
}

fn transpose(matrix: &mut [f64], d: usize) {
    for i in 0..d {
        for j in 0..i {
            matrix.swap(i * d + j, j * d + i);
        }
    }
}
