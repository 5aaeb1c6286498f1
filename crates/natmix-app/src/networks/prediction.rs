//! Predictions of a network as columns: what `natmix predict` prints.

use super::data::Memory;
use natmix::Error;
use natmix::family::Mixture;
use natmix_models::Predictions;
use natmix_nets::Examples;
use natmix_nets::predict::{Averaging, predict};

/// Rows that are predicted at once.
const ROWS: usize = 1 << 15;

/// Names and values, row after row.
pub fn table(
    memory: &Memory,
    q: &Mixture,
    rows: &Examples,
    averaging: Averaging,
) -> Result<(Vec<String>, Vec<f64>), Error> {
    let averaging = if memory.points { Averaging::Means } else { averaging };
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for x in rows.x().chunks(ROWS * rows.features()) {
        let mut found = predict(&memory.network, q, x, averaging)?;
        let information = found.mutual_information();
        let (centre, scale) = memory.input.outcome_scale();
        found.predictions.rescale(centre, scale);
        let columns: Vec<(String, Vec<f64>)> = match found.predictions {
            Predictions::Binary { probability, sd, entropy } => {
                vec![("probability".into(), probability), ("sd".into(), sd), ("entropy".into(), entropy)]
            }
            Predictions::Classes { classes, probability, entropy } => {
                let level = |c: usize| match memory.input.levels().and_then(|levels| levels.get(c)) {
                    Some(name) => name.clone(),
                    None => c.to_string(),
                };
                let of = |c: usize| probability.iter().skip(c).step_by(classes).copied().collect();
                let mut columns: Vec<_> = (0..classes).map(|c| (format!("p[{}]", level(c)), of(c))).collect();
                columns.push(("entropy".into(), entropy));
                columns
            }
            Predictions::Real { mean, sd, q05, q50, q95 } => ["mean", "sd", "q05", "q50", "q95"]
                .into_iter()
                .map(String::from)
                .zip([mean, sd, q05, q50, q95])
                .collect(),
            Predictions::Count { mean, sd } => vec![("mean".into(), mean), ("sd".into(), sd)],
        };
        let entropies = [("expected_entropy", &found.expected_entropy), ("mutual_information", &information)];
        let columns: Vec<(String, Vec<f64>)> = columns
            .into_iter()
            .chain(entropies.into_iter().filter(|(_, x)| !x.is_empty()).map(|(name, x)| (name.into(), x.clone())))
            .collect();
        names = columns.iter().map(|(name, _)| name.clone()).collect();
        values.extend((0..x.len() / rows.features()).flat_map(|i| columns.iter().map(move |(_, column)| column[i])));
    }
    Ok((names, values))
}
