//! Mixtures whose components can be exchanged: every draw is brought into the same order.

use crate::battery::sample::WeightedSample;

/// Components whose labels mean nothing.
pub struct Exchangeable {
    /// The vector that is sorted.
    by: &'static str,
    /// Vectors whose entries move with it.
    with: &'static [&'static str],
    /// The share of the first of two components.
    share: Option<&'static str>,
}

impl Exchangeable {
    /// Two components, and a number that is the share of the first.
    pub fn pair(by: &'static str, with: &'static [&'static str], share: &'static str) -> Self {
        Self { by, with, share: Some(share) }
    }

    /// Any number of components.
    pub fn all(by: &'static str, with: &'static [&'static str]) -> Self {
        Self { by, with, share: None }
    }

    /// Orders the components of every draw.
    pub fn sort(&self, draws: &mut WeightedSample) {
        let columns = |vector: &str| -> Vec<usize> {
            let entry = |k| draws.names.iter().position(|name| *name == format!("{vector}[{k}]"));
            (1..).map_while(entry).collect()
        };
        let (by, p) = (columns(self.by), draws.names.len());
        let moved: Vec<Vec<usize>> = self.with.iter().map(|vector| columns(vector)).chain([by.clone()]).collect();
        let share = self.share.and_then(|share| draws.names.iter().position(|name| name == share));
        for row in draws.values.chunks_exact_mut(p) {
            let mut order: Vec<usize> = (0..by.len()).collect();
            order.sort_by(|a, b| row[by[*a]].total_cmp(&row[by[*b]]));
            for columns in &moved {
                let values: Vec<f64> = order.iter().map(|k| row[columns[*k]]).collect();
                columns.iter().zip(values).for_each(|(column, value)| row[*column] = value);
            }
            if let Some(share) = share.filter(|_| order.first() == Some(&1)) {
                row[share] = 1.0 - row[share];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(names: &[&str], values: &[f64]) -> WeightedSample {
        WeightedSample {
            names: names.iter().map(|name| (*name).into()).collect(),
            values: values.into(),
            weights: None,
        }
    }

    #[test]
    fn components_are_sorted_with_all_that_belongs_to_them() {
        let mut draws = sample(
            &["theta[1]", "theta[2]", "theta[3]", "mu[1]", "mu[2]", "mu[3]"],
            &[0.1, 0.2, 0.7, 5.0, -1.0, 2.0, 0.3, 0.3, 0.4, 1.0, 2.0, 3.0],
        );
        Exchangeable::all("mu", &["theta"]).sort(&mut draws);
        assert_eq!(draws.values, [0.2, 0.7, 0.1, -1.0, 2.0, 5.0, 0.3, 0.3, 0.4, 1.0, 2.0, 3.0]);
        let mut pair = sample(&["theta", "mu[1]", "mu[2]", "sigma[1]", "sigma[2]"], &[0.25, 1.0, -1.0, 3.0, 4.0]);
        Exchangeable::pair("mu", &["sigma"], "theta").sort(&mut pair);
        assert_eq!(pair.values, [0.75, -1.0, 1.0, 4.0, 3.0]);
        Exchangeable::pair("mu", &["sigma"], "theta").sort(&mut pair);
        assert_eq!(pair.values, [0.75, -1.0, 1.0, 4.0, 3.0]);
    }
}
