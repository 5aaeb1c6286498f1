//! Weighted samples, and the figures of one parameter: quantiles, mean, standard deviation, kurtosis.

use anyhow::{Context, Result};

/// Probabilities of the quantiles that are judged.
pub const PROBABILITIES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// Draws of all parameters, on the scale on which they are reported.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedSample {
    /// One name per parameter.
    pub names: Vec<String>,
    /// Values, one draw after another.
    pub values: Vec<f64>,
    /// One weight per draw; `None` where all are equal.
    pub weights: Option<Vec<f64>>,
}

impl WeightedSample {
    /// Number of draws.
    pub fn len(&self) -> usize {
        self.values.len() / self.names.len().max(1)
    }

    /// The draws of parameter `j`.
    pub fn column(&self, j: usize) -> SortedColumn {
        let values = self.values.iter().skip(j).step_by(self.names.len()).copied();
        match &self.weights {
            None => SortedColumn::new(values.map(|value| (value, 1.0)).collect()),
            Some(weights) => SortedColumn::new(values.zip(weights.iter().copied()).collect()),
        }
    }

    /// The draws of these parameters alone.
    pub fn chosen(&self, names: &[String]) -> Result<Self> {
        let position = |name: &String| self.names.iter().position(|known| known == name);
        let columns: Result<Vec<usize>> =
            names.iter().map(|name| position(name).with_context(|| format!("there are no draws of {name}"))).collect();
        let columns = columns?;
        let rows = self.values.chunks_exact(self.names.len().max(1));
        let values = rows.flat_map(|row| columns.iter().map(|column| row[*column])).collect();
        Ok(Self { names: names.to_vec(), values, weights: self.weights.clone() })
    }

    /// Effective number of draws by their weights.
    pub fn effective(&self) -> f64 {
        match &self.weights {
            None => self.len() as f64,
            Some(weights) => {
                weights.iter().sum::<f64>().powi(2) / weights.iter().map(|weight| weight * weight).sum::<f64>()
            }
        }
    }
}

/// Mean, standard deviation and kurtosis (3 for a normal distribution).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShapeMoments {
    pub mean: f64,
    pub sd: f64,
    pub kurtosis: f64,
}

/// The draws of one parameter in ascending order, with weights of sum one.
pub struct SortedColumn(Vec<(f64, f64)>);

impl SortedColumn {
    fn new(mut draws: Vec<(f64, f64)>) -> Self {
        let total: f64 = draws.iter().map(|(_, weight)| weight).sum();
        draws.iter_mut().for_each(|(_, weight)| *weight /= total);
        draws.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Self(draws)
    }

    /// The quantiles for ascending probabilities: interpolated between draws, each of which stands in the middle of
    /// its own weight.
    pub fn quantiles<const N: usize>(&self, probabilities: [f64; N]) -> [f64; N] {
        let mut found = [self.0.last().map_or(f64::NAN, |last| last.0); N];
        let (mut next, mut below, mut before) = (0, 0.0, None);
        for &(value, weight) in &self.0 {
            let middle = below + 0.5 * weight;
            while next < N && middle >= probabilities[next] {
                found[next] = match before {
                    Some((low, at)) if middle > at => low + (value - low) * (probabilities[next] - at) / (middle - at),
                    _ => value,
                };
                next += 1;
            }
            below += weight;
            before = Some((value, middle));
        }
        found
    }

    /// The share of the draws at or below `x`.
    pub fn share_below(&self, x: f64) -> f64 {
        let count = self.0.partition_point(|(value, _)| *value <= x);
        self.0[..count].iter().map(|(_, weight)| weight).sum()
    }

    pub fn moments(&self) -> ShapeMoments {
        let mean: f64 = self.0.iter().map(|(value, weight)| weight * value).sum();
        let central =
            |power: i32| self.0.iter().map(|(value, weight)| weight * (value - mean).powi(power)).sum::<f64>();
        let variance = central(2);
        ShapeMoments { mean, sd: variance.sqrt(), kurtosis: central(4) / (variance * variance) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64], weights: Option<&[f64]>) -> WeightedSample {
        let (values, weights) = (values.to_vec(), weights.map(<[f64]>::to_vec));
        WeightedSample { names: vec!["z".into()], values, weights }
    }

    #[test]
    fn weights_count_like_repeated_draws() {
        let repeated = sample(&[3.0, 1.0, 2.0, 2.0, 2.0], None).column(0);
        let weighted = sample(&[2.0, 3.0, 1.0], Some(&[6.0, 2.0, 2.0])).column(0);
        let (a, b) = (repeated.moments(), weighted.moments());
        assert!((a.mean - b.mean).abs() + (a.sd - b.sd).abs() + (a.kurtosis - b.kurtosis).abs() < 1e-12);
        assert!((repeated.share_below(2.5) - 0.8).abs() + (weighted.share_below(2.5) - 0.8).abs() < 1e-12);
        assert_eq!(weighted.quantiles([0.5]), [2.0]);
    }

    #[test]
    fn quantiles_lie_between_draws() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let found = sample(&values, None).column(0).quantiles([0.0, 0.05, 0.5, 0.95, 1.0]);
        for (found, expected) in found.into_iter().zip([0.0, 4.5, 49.5, 94.5, 99.0]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert!(sample(&[], None).column(0).quantiles([0.5])[0].is_nan());
    }

    #[test]
    fn unequal_weights_lower_the_effective_number() {
        assert_eq!(sample(&[1.0, 2.0], None).effective(), 2.0);
        assert!((sample(&[1.0, 2.0], Some(&[3.0, 1.0])).effective() - 1.6).abs() < 1e-12);
    }
}
