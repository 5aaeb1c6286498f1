//! Rows for training or prediction, in single precision: features row by row, and one outcome per row.

use super::likelihood::NetworkLikelihood;
use super::network::Network;
use super::train::noise::{Stream, StreamPurpose, shuffle};
use natmix::Error;

/// Features with outcomes, all finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Examples {
    x: Vec<f32>,
    features: usize,
    outcome: Vec<f32>,
}

impl Examples {
    /// From features (row by row) and one outcome per row.
    pub fn new(x: Vec<f32>, features: usize, outcome: Vec<f32>) -> Result<Self, Error> {
        if features == 0 || outcome.is_empty() || Some(x.len()) != outcome.len().checked_mul(features) {
            let (n, rows) = (x.len(), outcome.len());
            return Err(Error::InvalidInput(format!("{n} numbers are not {rows} rows of {features} features")));
        }
        if let Some(at) = x.iter().position(|x| !x.is_finite()) {
            let (row, column) = (at / features, at % features);
            return Err(Error::InvalidInput(format!("features: row {row}, column {column} is {}", x[at])));
        }
        if let Some(row) = outcome.iter().position(|y| !y.is_finite()) {
            return Err(Error::InvalidInput(format!("outcome: row {row} is {}", outcome[row])));
        }
        if u32::try_from(outcome.len()).is_err() {
            return Err(Error::InvalidInput(format!("{} rows are more than {}", outcome.len(), u32::MAX)));
        }
        Ok(Self { x, features, outcome })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.outcome.len()
    }
    /// Number of features.
    pub fn features(&self) -> usize {
        self.features
    }
    /// The features, row by row.
    pub fn x(&self) -> &[f32] {
        &self.x
    }
    /// The outcomes.
    pub fn outcome(&self) -> &[f32] {
        &self.outcome
    }

    /// The rows with these numbers.
    pub fn select(&self, rows: &[u32]) -> Self {
        let d = self.features;
        let x = rows.iter().flat_map(|&r| self.x[r as usize * d..(r as usize + 1) * d].iter().copied()).collect();
        Self { x, features: d, outcome: rows.iter().map(|&r| self.outcome[r as usize]).collect() }
    }

    /// Splits off a random share of the rows, at least one row in each part; the remaining rows come first.
    pub fn split(&self, share: f64, seed: u64) -> Result<(Self, Self), Error> {
        let apart = (share * self.rows() as f64).round() as usize;
        if !(share > 0.0 && share < 1.0) || apart == 0 || apart >= self.rows() {
            let rows = self.rows();
            return Err(Error::InvalidInput(format!("a share of {share} of {rows} rows leaves one part empty")));
        }
        let mut order = vec![0; self.rows()];
        shuffle(&mut order, Stream::new(seed, StreamPurpose::Validation, 0, 0, 0));
        let (apart, rest) = order.split_at_mut(apart);
        // Rows keep their order; only the choice is random.
        apart.sort_unstable();
        rest.sort_unstable();
        Ok((self.select(rest), self.select(apart)))
    }

    /// Checks that the rows suit the network.
    pub fn check(&self, network: &Network) -> Result<(), Error> {
        if self.features != network.inputs() {
            let (columns, inputs) = (self.features, network.inputs());
            return Err(Error::InvalidInput(format!("{columns} features for a network of {inputs} inputs")));
        }
        let likelihood: NetworkLikelihood = network.likelihood();
        likelihood.check_outcomes(self.outcome.iter().map(|y| f64::from(*y)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_row_once() {
        let data = Examples::new((0..20).map(|i| i as f32).collect(), 2, (0..10).map(|i| i as f32).collect()).unwrap();
        let (rest, apart) = data.split(0.3, 1).unwrap();
        assert_eq!((rest.rows(), apart.rows()), (7, 3));
        let mut all: Vec<f32> = rest.outcome().iter().chain(apart.outcome()).copied().collect();
        all.sort_by(f32::total_cmp);
        assert_eq!(all, data.outcome());
        assert_eq!(apart.x()[0], 2.0 * apart.outcome()[0]);
        assert_ne!(apart, data.split(0.3, 2).unwrap().1);
        assert!(data.split(0.01, 1).is_err() && data.split(1.0, 1).is_err() && data.split(f64::NAN, 1).is_err());
    }
}
