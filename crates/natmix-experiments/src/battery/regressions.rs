//! Regressions on simulated tables.

use super::random::RandomStream;
use anyhow::Result;
use natmix::config::{OrAuto, Overrides};
use natmix_app::problem::Problem;
use natmix_app::settings::{FitSettings, ModelKind, Settings};
use natmix_models::{OutcomeKind, Table};

/// A regression on a simulated table.
#[derive(Clone, Copy)]
pub struct SimulatedRegression {
    pub kind: OutcomeKind,
    pub rows: usize,
    pub columns: usize,
    /// Classes of a softmax regression.
    pub classes: usize,
    /// Standard deviation of the true coefficients.
    pub effect: f64,
    pub seed: u64,
}

impl SimulatedRegression {
    /// Rows of features, neighbours of which are correlated, and the outcome in the last column.
    fn table(&self) -> Result<Table> {
        let mut random = RandomStream::new(self.seed);
        let outputs = if self.kind == OutcomeKind::Softmax { self.classes - 1 } else { 1 };
        let mut coefficients = vec![0.0; outputs * (self.columns + 1)];
        random.normals(&mut coefficients);
        coefficients.iter_mut().for_each(|x| *x *= self.effect);
        let mut values = Vec::with_capacity(self.rows * (self.columns + 1));
        let mut row = vec![0.0; self.columns];
        for _ in 0..self.rows {
            super::densities::autoregression(0.5, &mut random, &mut row);
            let predictors: Vec<f64> = coefficients
                .chunks_exact(self.columns + 1)
                .map(|line| line[0] + line[1..].iter().zip(&row).map(|(a, b)| a * b).sum::<f64>())
                .collect();
            values.extend_from_slice(&row);
            values.push(self.outcome(&predictors, &mut random));
        }
        let names = (0..self.columns).map(|j| format!("x{j}")).chain(["y".to_owned()]).collect();
        Ok(Table::from_values("simulated table", names, values)?)
    }

    fn outcome(&self, predictors: &[f64], random: &mut RandomStream) -> f64 {
        match self.kind {
            OutcomeKind::Linear => predictors[0] + random.normal(),
            OutcomeKind::Poisson => random.poisson(predictors[0].min(6.0).exp()),
            OutcomeKind::Logistic => f64::from(u8::from(random.uniform() < 1.0 / (1.0 + (-predictors[0]).exp()))),
            OutcomeKind::Softmax => {
                let mut shares: Vec<f64> = std::iter::once(1.0).chain(predictors.iter().map(|x| x.exp())).collect();
                let total: f64 = shares.iter().sum();
                shares.iter_mut().for_each(|share| *share /= total);
                random.index(&shares) as f64
            }
        }
    }

    /// The problem and its settings, as the command line would make them.
    pub fn problem(&self, components: OrAuto<usize>) -> Result<(Problem, Settings)> {
        let model = match self.kind {
            OutcomeKind::Logistic => ModelKind::Logistic,
            OutcomeKind::Linear => ModelKind::Linear,
            OutcomeKind::Poisson => ModelKind::Poisson,
            OutcomeKind::Softmax => ModelKind::Softmax,
        };
        let fit = FitSettings { model: Some(model), outcome: Some("y".into()), ..FitSettings::default() };
        let engine = Overrides { components: Some(components), ..Overrides::default() };
        let settings = Settings { fit, engine, ..Settings::default() };
        Ok((Problem::regression(self.table()?, &settings)?, settings))
    }
}
