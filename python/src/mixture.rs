//! The Python class `Mixture`: a mixture of Gaussians.

use crate::arrays::{doubles, in_pool, matrices, numbers, points, rows, slice, vector};
use crate::errors::raise;
use crate::target::PyTarget;
use natmix::family::{AnyCovariance, CovarianceKind, Gaussian};
use numpy::{PyArray1, PyArray2, PyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Weighted draws per resampled draw.
const WEIGHTED_PER_DRAW: usize = 4;
/// Fewest weighted draws.
const MIN_WEIGHTED: usize = 1_000;

/// A mixture of Gaussians.
#[pyclass(frozen, module = "natmix._natmix", name = "Mixture")]
pub struct PyMixture(pub natmix::family::Mixture);

#[pymethods]
impl PyMixture {
    /// From weights `(k,)`, means `(k, d)` and covariances `(k, d, d)`, or variances `(k, d)`.
    #[new]
    fn new(weights: &Bound<'_, PyAny>, means: &Bound<'_, PyAny>, covariances: &Bound<'_, PyAny>) -> PyResult<Self> {
        let weights = doubles(weights, "weights")?;
        let means = doubles(means, "means")?;
        let [k, d] = *means.shape() else {
            return Err(PyValueError::new_err("means must have the shape (k, d)"));
        };
        let covariances = doubles(covariances, "covariances")?;
        let each = match covariances.shape() {
            [a, b] if (*a, *b) == (k, d) => d,
            [a, b, c] if (*a, *b, *c) == (k, d, d) => d * d,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "covariances must have the shape ({k}, {d}, {d}) or ({k}, {d})"
                )));
            }
        };
        let weights = numbers(&weights, "weights", &[k])?;
        let parts = slice(&means)?.chunks_exact(d.max(1)).zip(slice(&covariances)?.chunks_exact(each.max(1)));
        let components = parts.enumerate().map(|(component, (mean, covariance))| {
            let precision = AnyCovariance::from_covariance(d, covariance.to_vec()).map_err(|pivot| {
                raise(natmix::Error::NotPositiveDefinite { component, what: "the covariance", pivot })
            })?;
            Ok(Gaussian::new(mean.to_vec(), precision))
        });
        let components = components.collect::<PyResult<Vec<_>>>()?;
        natmix::family::Mixture::new(slice(&weights)?, components).map(Self).map_err(raise)
    }

    /// Dimension.
    #[getter]
    fn dim(&self) -> usize {
        self.0.dim()
    }

    /// Whether covariances are full matrices.
    #[getter]
    fn full(&self) -> bool {
        self.0.covariance_kind() == CovarianceKind::Full
    }

    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        vector(py, self.0.weights())
    }

    #[getter]
    fn means<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        rows(py, self.0.components().iter().flat_map(|c| c.mean()).copied().collect(), self.0.dim())
    }

    #[getter]
    fn covariances<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let all = self.0.components().iter().flat_map(|c| c.precision().covariance_full()).collect();
        matrices(py, all, self.0.dim())
    }

    /// Local maxima of the density.
    fn modes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let modes = py.detach(|| self.0.modes());
        rows(py, modes.into_iter().flat_map(|mode| mode.at).collect(), self.0.dim())
    }

    fn sample<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let draws = py.detach(|| self.0.sample(n, seed));
        rows(py, draws, self.0.dim())
    }

    fn log_density<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let z = points(z, "z", self.0.dim())?;
        let z = slice(&z)?.to_vec();
        Ok(vector(py, py.detach(|| self.0.log_density(&z))))
    }

    /// Draws of the mixture, resampled by their importance weights.
    fn resample<'py>(
        &self,
        py: Python<'py>,
        target: &PyTarget,
        n: usize,
        seed: u64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let target = target.engine()?;
        let z = in_pool(py, threads, || {
            let draws = WEIGHTED_PER_DRAW.saturating_mul(n).max(MIN_WEIGHTED);
            natmix::diagnose::weigh_draws(target, &self.0, draws, seed)
                .map(|weighted| weighted.delivered().resample(n, seed))
        })?;
        if z.is_empty() && n > 0 {
            return Err(PyValueError::new_err("no draw has a usable importance weight"));
        }
        rows(py, z, self.0.dim())
    }

    /// The component that each point most likely came from.
    fn components_of(&self, z: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let z = points(z, "z", self.0.dim())?;
        Ok(self.0.most_likely(slice(&z)?))
    }
}
