//! The architecture of a network: sizes of its layers, activation of its units, and the position of each weight.
//!
//! A point holds the layers in sequence: the weights of a layer, unit by unit, then its biases. A Gaussian likelihood adds the
//! logarithm of the noise's standard deviation at the end.
//!
//! ```
//! use natmix_nets::{Activation, NetworkLikelihood, Network};
//! let network = Network::new(784, &[100, 100], Activation::Relu, NetworkLikelihood::Categorical { classes: 10 }).unwrap();
//! assert_eq!(network.weights(), 784 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10);
//! assert_eq!(network.to_string(), "784-100-100-10 relu");
//! ```

use super::likelihood::NetworkLikelihood;
use super::real::NetworkFloat;
use natmix::Error;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most weights: beyond this a size was probably mistyped.
const MOST_WEIGHTS: usize = 1 << 30;

/// Activation function of hidden units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `tanh x`.
    Tanh,
}

impl Activation {
    pub(crate) fn of<T: NetworkFloat>(self, x: T) -> T {
        match self {
            // Not `max`, which would turn NaN into 0.
            Activation::Relu if x < T::ZERO => T::ZERO,
            Activation::Relu => x,
            Activation::Tanh => x.tanh(),
        }
    }

    /// The derivative, in terms of the value.
    pub(crate) fn slope<T: NetworkFloat>(self, value: T) -> T {
        match self {
            Activation::Relu if value > T::ZERO => T::ONE,
            Activation::Relu => T::ZERO,
            Activation::Tanh => T::ONE - value * value,
        }
    }

    /// Variance of initial weights, times the fan-in, that preserves the scale of signals across layers (He et al. 2015).
    pub fn gain(self) -> f64 {
        match self {
            Activation::Relu => 2.0,
            Activation::Tanh => 1.0,
        }
    }

    /// The name used by the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Tanh => "tanh",
        }
    }
}

/// One layer: its sizes, and the index of its first weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of units.
    pub outputs: usize,
    /// Index of the first weight; biases follow after `inputs * outputs` of them.
    pub start: usize,
}

impl Layer {
    /// Index of the first bias.
    pub fn biases(&self) -> usize {
        self.start + self.inputs * self.outputs
    }
    /// Index after the last bias.
    pub fn end(&self) -> usize {
        self.biases() + self.outputs
    }
}

/// A network without data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    layers: Vec<Layer>,
    activation: Activation,
    likelihood: NetworkLikelihood,
}

impl Network {
    /// From `inputs` features and hidden layers of the given sizes; without hidden layers it is a linear model.
    pub fn new(
        inputs: usize,
        hidden: &[usize],
        activation: Activation,
        likelihood: NetworkLikelihood,
    ) -> Result<Self, Error> {
        likelihood.check()?;
        if inputs == 0 {
            return Err(Error::InvalidInput("a network needs at least one feature".into()));
        }
        if hidden.contains(&0) {
            return Err(Error::InvalidInput("a hidden layer needs at least one unit".into()));
        }
        let mut layers: Vec<Layer> = Vec::new();
        let (mut before, mut start) = (inputs, 0_usize);
        for &outputs in hidden.iter().chain([&likelihood.outputs()]) {
            let end = before.checked_add(1).and_then(|fan| fan.checked_mul(outputs)).and_then(|n| n.checked_add(start));
            let Some(end) = end.filter(|end| *end <= MOST_WEIGHTS) else {
                return Err(Error::InvalidInput(format!(
                    "hidden layers {hidden:?} need more than {MOST_WEIGHTS} weights"
                )));
            };
            layers.push(Layer { inputs: before, outputs, start });
            (before, start) = (outputs, end);
        }
        Ok(Self { layers, activation, likelihood })
    }

    /// The layers, from the first hidden one to the output.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }
    /// Activation function of hidden units.
    pub fn activation(&self) -> Activation {
        self.activation
    }
    /// The likelihood of the outputs.
    pub fn likelihood(&self) -> NetworkLikelihood {
        self.likelihood
    }
    /// Number of features.
    pub fn inputs(&self) -> usize {
        self.layers[0].inputs
    }
    /// Number of weights and biases, including the log noise.
    pub fn weights(&self) -> usize {
        self.noise_at() + self.likelihood.extra()
    }
    /// Index of the logarithm of the noise, if there is one.
    pub(crate) fn noise_at(&self) -> usize {
        self.layers[self.layers.len() - 1].end()
    }
    /// Total number of units.
    pub(crate) fn units(&self) -> usize {
        self.layers.iter().map(|layer| layer.outputs).sum()
    }

    /// Names of all weights: `hidden1.0:feature`, `hidden1.0:bias`, ..., `output.0:hidden1.0`, `output.0:bias`, `log noise`.
    pub fn weight_names(&self, features: &[String]) -> Vec<String> {
        let mut names = Vec::with_capacity(self.weights());
        let mut before: Vec<String> = features.to_vec();
        for (l, layer) in self.layers.iter().enumerate() {
            let kind = if l + 1 == self.layers.len() { "output".into() } else { format!("hidden{}", l + 1) };
            let units: Vec<String> = (0..layer.outputs).map(|j| format!("{kind}.{j}")).collect();
            names.extend(units.iter().flat_map(|unit| before.iter().map(move |from| format!("{unit}:{from}"))));
            names.extend(units.iter().map(|unit| format!("{unit}:bias")));
            before = units;
        }
        names.extend((0..self.likelihood.extra()).map(|_| "log noise".to_owned()));
        names
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inputs())?;
        self.layers.iter().try_for_each(|layer| write!(f, "-{}", layer.outputs))?;
        write!(f, " {}", self.activation.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_sizes_are_named() {
        let message = |inputs, hidden: &[usize], likelihood| {
            Network::new(inputs, hidden, Activation::Relu, likelihood).unwrap_err().to_string()
        };
        assert!(message(0, &[3], NetworkLikelihood::Bernoulli).contains("one feature"));
        assert!(message(2, &[3, 0], NetworkLikelihood::Bernoulli).contains("one unit"));
        assert!(message(2, &[usize::MAX], NetworkLikelihood::Gaussian).contains("more than"));
        assert!(message(2, &[3], NetworkLikelihood::Categorical { classes: 1 }).contains("2 classes"));
    }

    #[test]
    fn weights_have_names() {
        let network = Network::new(1, &[1], Activation::Tanh, NetworkLikelihood::Gaussian).unwrap();
        let names = network.weight_names(&["x".into()]);
        assert_eq!(names, ["hidden1.0:x", "hidden1.0:bias", "output.0:hidden1.0", "output.0:bias", "log noise"]);
        assert_eq!(network.weights(), names.len());
    }
}
