//! The figures that answers are compared with, and how exactly they are known.
//!
//! The database's references have 10,000 draws: [`Reference::of_database`] takes quantiles and moments of all of them, and the
//! kurtosis from the 2,000 that are stored. Own references are draws of long runs. In both cases the figures have errors of
//! their own, which count as errors of the answer; [`Reference::resolution`] says how large they are.

use super::files::{DrawsFile, read_text};
use crate::battery::judge::{HEAVY_TAILS, MEAN_LIMIT, PROBABILITY_LIMIT, QUANTILE_LIMIT, SD_LIMIT};
use crate::battery::sample::{PROBABILITIES, ShapeMoments, SortedColumn, WeightedSample};
use crate::battery::truth::{TrueMarginal, Truth};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Kurtosis where no draws are known: then mean and standard deviation decide.
const UNKNOWN_KURTOSIS: f64 = 3.0;

/// What a posterior is like.
pub struct Reference {
    pub truth: Truth,
    /// The largest standard error of a figure that decides, in units of the limit for its error.
    pub resolution: f64,
}

/// A file `reference_moments.json`.
#[derive(Deserialize)]
struct Moments {
    parameters: BTreeMap<String, Figures>,
}

#[derive(Deserialize)]
struct Figures {
    mean: f64,
    sd: f64,
    q05: Option<f64>,
    q25: Option<f64>,
    q50: Option<f64>,
    q75: Option<f64>,
    q95: Option<f64>,
    ess_bulk: f64,
}

/// What is stored beside own reference draws.
#[derive(Deserialize)]
struct AboutDraws {
    /// Least effective number of draws of a parameter.
    ess: f64,
    /// Largest R-hat of a parameter.
    r_hat: f64,
}

/// Largest R-hat of a reference.
const MOST_R_HAT: f64 = 1.01;

impl Reference {
    /// The database's, from the folder of a posterior.
    pub fn of_database(folder: &Path) -> Result<Self> {
        let path = folder.join("reference_moments.json");
        let moments: Moments = serde_json::from_str(&read_text(&path)?)
            .with_context(|| format!("{} is not a reference", path.display()))?;
        let path = folder.join("reference_draws.csv.gz");
        let draws = path.exists().then(|| DrawsFile::read(&path)).transpose()?;
        let (mut marginals, mut resolution) = (Vec::new(), 0.0f64);
        for (name, figures) in moments.parameters {
            let column = draws.as_ref().map(|draws| draws.column(&name)).transpose()?;
            let kurtosis = column.as_ref().map_or(UNKNOWN_KURTOSIS, |column| column.moments().kurtosis);
            let Figures { mean, sd, q05, q25, q50, q75, q95, ess_bulk } = figures;
            let quantiles = (|| Some([q05?, q25?, q50?, q75?, q95?]))();
            let marginal = TrueMarginal { name, quantiles, moments: ShapeMoments { mean, sd, kurtosis } };
            resolution = resolution.max(resolution_of(&marginal, column.as_ref(), ess_bulk));
            marginals.push(marginal);
        }
        Ok(Self { truth: Truth { marginals }, resolution })
    }

    /// One of our own, from `FOLDER/NAME.csv.gz` and `FOLDER/NAME.json`.
    pub fn of_draws(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(format!("{name}.json"));
        let about: AboutDraws = serde_json::from_str(&read_text(&path)?)
            .with_context(|| format!("{} is not a reference", path.display()))?;
        ensure!(about.r_hat < MOST_R_HAT, "the chains of {} disagree: R-hat is {:.3}", path.display(), about.r_hat);
        let draws: WeightedSample = DrawsFile::read(&folder.join(format!("{name}.csv.gz")))?.into();
        let truth = Truth::of(&draws, |_| None);
        let of = |(j, marginal): (usize, &TrueMarginal)| resolution_of(marginal, Some(&draws.column(j)), about.ess);
        let resolution = truth.marginals.iter().enumerate().map(of).fold(0.0, f64::max);
        Ok(Self { truth, resolution })
    }

    /// Names of the parameters.
    pub fn names(&self) -> Vec<String> {
        self.truth.marginals.iter().map(|marginal| marginal.name.clone()).collect()
    }
}

/// The largest standard error of a figure of one parameter, from so many effective draws, in units of its limit.
fn resolution_of(marginal: &TrueMarginal, draws: Option<&SortedColumn>, effective: f64) -> f64 {
    let mut errors = Vec::new();
    if marginal.moments.kurtosis < HEAVY_TAILS {
        errors.push(1.0 / effective.sqrt() / MEAN_LIMIT);
        errors.push(((marginal.moments.kurtosis - 1.0) / (4.0 * effective)).sqrt() / SD_LIMIT);
    }
    if let (Some(quantiles), Some(draws)) = (marginal.quantiles, draws) {
        let width = quantiles[4] - quantiles[0];
        for p in PROBABILITIES {
            let se = (p * (1.0 - p) / effective).sqrt();
            let [low, high] = draws.quantiles([p - se, p + se]);
            errors.push((0.5 * (high - low) / (QUANTILE_LIMIT * width)).min(se / PROBABILITY_LIMIT));
        }
    }
    errors.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::random::RandomStream;

    #[test]
    fn the_resolution_is_the_spread_of_figures_of_many_references() {
        let mut random = RandomStream::new(1);
        let mut normals = |n: usize| WeightedSample {
            names: vec!["z".into()],
            values: (0..n).map(|_| random.normal()).collect(),
            weights: None,
        };
        let large = normals(200_000);
        let truth = Truth::of(&large, |_| None);
        let stated = resolution_of(&truth.marginals[0], Some(&large.column(0)), 1000.0);
        // The outer quantiles are known least well, by their probability: sqrt(0.05 * 0.95 / 1000) / 0.02.
        assert!((stated - 0.345).abs() < 0.01, "{stated}");
        let [low, ..] = truth.marginals[0].quantiles.unwrap();
        let error = |sample: WeightedSample| (sample.column(0).share_below(low) - 0.05) / PROBABILITY_LIMIT;
        let spread = ((0..400).map(|_| error(normals(1000)).powi(2)).sum::<f64>() / 400.0).sqrt();
        assert!((spread / stated - 1.0).abs() < 0.2, "{spread} {stated}");
    }
}
