//! Ranks parameters for pictures: several modes first, then long tails, then the given order.

use super::density::MarginalDensity;
use crate::Draws;

/// Most parameters considered: those of a large network are too many to rank, and none is special.
const MOST_CONSIDERED: usize = 256;
/// Most draws considered: more do not change a picture.
const MOST_DRAWS: usize = 4000;
/// Skewness that sampling noise does not reach.
const SKEWED: f64 = 0.2;

/// The draws of one parameter.
pub struct RankedColumn {
    /// Its name.
    pub name: String,
    /// Its values, one per draw.
    pub values: Vec<f64>,
    /// Its density.
    pub density: MarginalDensity,
}

/// The parameters that have a density, most interesting first, and the component of each of their draws.
pub struct Ranked {
    /// Most interesting first.
    pub columns: Vec<RankedColumn>,
    /// The component that each draw came from.
    pub component: Vec<usize>,
}

impl Ranked {
    /// Ranks those parameters of some draws that are to be `considered`.
    pub fn new(draws: &Draws, considered: impl Fn(usize) -> bool) -> Self {
        let dim = draws.names.len();
        let count = draws.values.len().checked_div(dim).unwrap_or(0);
        let kept: Vec<usize> = (0..count).step_by(count.div_ceil(MOST_DRAWS).max(1)).collect();
        let component: Vec<usize> = kept.iter().map(|i| draws.component.get(*i).copied().unwrap_or(0)).collect();
        let column = |(j, name): (usize, &String)| {
            let values: Vec<f64> = kept.iter().map(|i| draws.values[i * dim + j]).collect();
            Some(RankedColumn { name: name.clone(), density: MarginalDensity::new(&values, &component)?, values })
        };
        let mut columns: Vec<RankedColumn> = draws
            .names
            .iter()
            .enumerate()
            .filter(|(j, _)| considered(*j))
            .take(MOST_CONSIDERED)
            .filter_map(column)
            .collect();
        // The sort is stable: equally interesting parameters keep their order.
        columns.sort_by(|a, b| interest(&b.density).total_cmp(&interest(&a.density)));
        Self { columns, component }
    }

    /// Up to `most` columns for a pair plot: those with several modes or long tails, then those that are most
    /// correlated.
    pub fn for_pairs(&self, most: usize) -> Vec<&RankedColumn> {
        let special = self.columns.iter().filter(|column| interest(&column.density) > 0.0).count().min(most);
        let mut chosen: Vec<usize> = (0..special).collect();
        let scores: Vec<Vec<f64>> = self.columns.iter().map(standardised).collect();
        while chosen.len() < most.min(self.columns.len()) {
            let rest = || (0..self.columns.len()).filter(|j| !chosen.contains(j));
            let strength = |j: usize| {
                let others: Vec<usize> =
                    if chosen.is_empty() { rest().filter(|k| *k != j).collect() } else { chosen.clone() };
                others.into_iter().map(|k| dot(&scores[j], &scores[k]).abs()).fold(0.0, f64::max)
            };
            // The first among equals, so that names keep their order.
            let best = rest().map(|j| (j, strength(j))).reduce(|a, b| if b.1 > a.1 { b } else { a });
            let Some((best, _)) = best else { break };
            chosen.push(best);
        }
        chosen.sort_unstable();
        chosen.into_iter().map(|j| &self.columns[j]).collect()
    }
}

fn interest(density: &MarginalDensity) -> f64 {
    let skew = density.skew();
    if density.modes.len() > 1 {
        density.modes.len() as f64 + density.valley
    } else if skew > SKEWED {
        skew
    } else {
        0.0
    }
}

fn standardised(column: &RankedColumn) -> Vec<f64> {
    let values: Vec<f64> =
        column.values.iter().map(|x| if x.is_finite() { *x } else { column.density.quantiles[1] }).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let sd = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    values.into_iter().map(|x| if sd > 0.0 { (x - mean) / (sd * n.sqrt()) } else { 0.0 }).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_modes_then_long_tails_then_the_given_order() {
        let n = 400;
        let even = |i: usize| (i as f64 + 0.5) / n as f64;
        let mut values = Vec::new();
        for i in 0..n {
            let shuffled = even((i * 171) % n);
            let tail = -(1.0 - even((i * 37) % n)).ln();
            let two = even((i * 91) % n) + if i % 2 == 0 { 0.0 } else { 9.0 };
            values.extend([even(i), shuffled, tail, two, even(i) + 0.1 * shuffled]);
        }
        let names = ["plain", "other", "tail", "two", "plain again"].map(String::from).to_vec();
        let draws = Draws { names, values, component: (0..n).map(|i| i % 2).collect(), chains: None };
        let ranked = Ranked::new(&draws, |_| true);
        let names: Vec<&str> = ranked.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["two", "tail", "plain", "other", "plain again"]);
        let draws = Draws {
            names: vec!["a".into(), "b".into(), "c".into()],
            values: (0..n)
                .flat_map(|i| [even(i), even((i * 171) % n), 0.9 * even(i) + 0.1 * even((i * 37) % n)])
                .collect(),
            component: vec![],
            chains: None,
        };
        let ranked = Ranked::new(&draws, |_| true);
        let pair: Vec<&str> = ranked.for_pairs(2).iter().map(|c| c.name.as_str()).collect();
        assert_eq!(pair, ["a", "c"]);
    }

    #[test]
    fn no_draws_are_no_columns() {
        let empty = Draws { names: vec![], values: vec![], component: vec![], chains: None };
        assert!(
            Ranked::new(&empty, |_| true).columns.is_empty() && Ranked::new(&empty, |_| true).for_pairs(4).is_empty()
        );
    }
}
