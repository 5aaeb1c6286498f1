//! The true figures of every parameter, from a large exact sample or in closed form.

use super::sample::{PROBABILITIES, ShapeMoments, WeightedSample};

/// The true figures of one parameter.
#[derive(Clone, Debug)]
pub struct TrueMarginal {
    pub name: String,
    /// Quantiles for [`PROBABILITIES`]; `None` where only moments are known.
    pub quantiles: Option<[f64; 5]>,
    pub moments: ShapeMoments,
}

/// The true figures of all parameters.
#[derive(Clone, Debug)]
pub struct Truth {
    pub marginals: Vec<TrueMarginal>,
}

impl Truth {
    /// From exact draws; `closed(j)` has the moments of parameter `j` where they are known in closed form, because with
    /// heavy tails no sample is large enough for them.
    pub fn of(sample: &WeightedSample, closed: impl Fn(usize) -> Option<ShapeMoments>) -> Self {
        let marginal = |(j, name): (usize, &String)| {
            let column = sample.column(j);
            let moments = closed(j).unwrap_or_else(|| column.moments());
            TrueMarginal { name: name.clone(), quantiles: Some(column.quantiles(PROBABILITIES)), moments }
        };
        Self { marginals: sample.names.iter().enumerate().map(marginal).collect() }
    }
}
