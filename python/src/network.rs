//! A trained Bayesian network, as Python holds it: a mixture over its weights, and its predictions.

use crate::arrays::{doubles, points, slice};
use crate::errors::raise;
use crate::record::to_dict;
use natmix::family::Mixture;
use natmix::save::{Posterior, read_posterior_bytes};
use natmix_models::mlp::predict::{Averaging, predict};
use natmix_models::mlp::train::{TrainConfig, Trainer};
use natmix_models::mlp::{Activation, Examples, Likelihood};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::json;

/// A network with a mixture over its weights.
#[pyclass(frozen, module = "natmix._natmix")]
pub struct Network {
    network: natmix_models::mlp::Network,
    mixture: Mixture,
    elbo: f64,
}

#[pymethods]
impl Network {
    /// Trains a network on rows `x` and outcomes `y`. Between epochs Ctrl-C is heard.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (x, y, hidden, activation, classes, components, epochs, batch, seed, threads))]
    fn train(
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        hidden: Vec<usize>,
        activation: &str,
        classes: usize,
        components: usize,
        epochs: Option<usize>,
        batch: Option<usize>,
        seed: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let activation = match activation {
            "relu" => Activation::Relu,
            "tanh" => Activation::Tanh,
            other => return Err(PyValueError::new_err(format!("activation must be 'relu' or 'tanh', not {other:?}"))),
        };
        // No class at all stands for numbers.
        let likelihood = match classes {
            0 => Likelihood::Gaussian,
            2 => Likelihood::Bernoulli,
            classes => Likelihood::Categorical { classes },
        };
        let (x, features) = single(x)?;
        let y: Vec<f32> = slice(&doubles(y, "y")?)?.iter().map(|y| *y as f32).collect();
        let data = Examples::new(x, features, y).map_err(raise)?;
        let network = natmix_models::mlp::Network::new(features, &hidden, activation, likelihood).map_err(raise)?;
        let base = TrainConfig::for_data(&network, data.rows());
        let batch = batch.unwrap_or(base.batch).min(data.rows());
        let epochs = epochs.unwrap_or(base.epochs);
        let steps = epochs.saturating_mul(data.rows().div_ceil(batch.max(1)));
        let curvature_rate = TrainConfig::fading(steps.max(1));
        let config = TrainConfig { components, epochs, batch, curvature_rate, seed, ..base };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool =
            pool.map_err(|error| PyValueError::new_err(format!("could not start {threads} threads: {error}")))?;
        let mut trainer = pool.install(|| Trainer::new(&network, &data, config)).map_err(raise)?;
        let mut elbo = f64::NAN;
        while let Some(epoch) = py.detach(|| pool.install(|| trainer.epoch())).map_err(raise)? {
            elbo = epoch.elbo;
            py.check_signals()?;
        }
        let mixture = trainer.mixture().map_err(raise)?;
        drop(trainer);
        Ok(Self { network, mixture, elbo })
    }

    /// Predictions for rows, averaged over draws of the weights: a dictionary of arrays.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        draws: usize,
        seed: u64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        points(x, "x", self.network.inputs())?;
        let (x, _) = single(x)?;
        let averaging = Averaging::Draws { each: draws.max(1), seed };
        let found = crate::arrays::in_pool(py, threads, || predict(&self.network, &self.mixture, &x, averaging))?;
        to_dict(py, found.predictions)
    }

    /// Number of weights.
    #[getter]
    fn weights(&self) -> usize {
        self.network.weights()
    }

    /// ELBO of the last epoch.
    #[getter]
    fn elbo(&self) -> f64 {
        self.elbo
    }

    /// Everything as bytes, in the format of saved posteriors: for pickling.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let details = json!({"network": self.network, "elbo": self.elbo});
        let posterior = Posterior { mixture: self.mixture.clone(), parameter_names: Vec::new(), details };
        Ok(PyBytes::new(py, &posterior.to_bytes().map_err(raise)?))
    }

    /// The inverse of `to_bytes`.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let Posterior { mixture, details, .. } = read_posterior_bytes(bytes).map_err(raise)?;
        let network: natmix_models::mlp::Network = serde_json::from_value(details["network"].clone())
            .map_err(|_| PyValueError::new_err("these bytes are not those of a network"))?;
        if network.weights() != mixture.dim() {
            return Err(PyValueError::new_err("the network and its mixture do not belong together"));
        }
        Ok(Self { network, mixture, elbo: details["elbo"].as_f64().unwrap_or(f64::NAN) })
    }
}

/// Rows in single precision, and the number of columns.
fn single(x: &Bound<'_, PyAny>) -> PyResult<(Vec<f32>, usize)> {
    use numpy::PyUntypedArrayMethods;
    let x = doubles(x, "x")?;
    let [_, features] = *x.shape() else {
        return Err(PyValueError::new_err("x must have the shape (rows, columns)"));
    };
    Ok((slice(&x)?.iter().map(|x| *x as f32).collect(), features))
}
