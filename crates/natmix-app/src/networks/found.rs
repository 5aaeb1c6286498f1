//! What a fit of a network found, by whichever way, and the record of it.

use super::data::{Data, Memory};
use super::score;
use crate::record::Record;
use crate::settings::Settings;
use crate::summary;
use natmix::diagnose::Diagnostics;
use natmix::family::Mixture;
use natmix::observe::TraceRow;
use natmix::save::Posterior;
use natmix::stop::StopReason;
use natmix::{Error, Fitted};
use natmix_nets::predict::Averaging;
use natmix_nets::{Likelihood, Network};
use natmix_report::{Component, Draws, Estimate, Evals, Model, Parameter, Report, Stop, Verdict};
use serde_json::json;

/// Weights up to which each is reported by name.
const MOST_NAMED: usize = 1_000;
/// Weights up to which their names are kept in the posterior's file, whose header has a bound.
const MOST_NAMES_KEPT: usize = 100_000;
/// Numbers in `draws.zarr` when weights are too many to name.
const MOST_DRAWN: usize = 1_000_000;
/// Draws a component for scores of the training rows.
const TRAIN_DRAWS: usize = 10;

/// What a fit found, by whichever way.
#[derive(Clone, Debug)]
pub struct Found {
    /// The mixture over the weights.
    pub mixture: Mixture,
    /// The way there.
    pub trace: Vec<TraceRow>,
    /// Iterations.
    pub iterations: u64,
    /// Points at which the network was evaluated.
    pub evals: u64,
    /// Seconds.
    pub seconds: f64,
    /// Why it ended.
    pub stop: Stop,
    /// Whether somebody interrupted it.
    pub interrupted: bool,
    /// ELBO.
    pub elbo: Estimate,
    /// Diagnostics of the engine, if it was the engine.
    pub diagnostics: Option<Diagnostics>,
    /// Whether components are points, as those of plain networks are.
    pub points: bool,
    /// Settings, resolved.
    pub config: serde_json::Value,
    /// Plain words about what the posterior is.
    pub notes: Vec<String>,
}

impl Found {
    /// From a fit of the engine.
    pub fn of_fitted(fitted: Fitted, trace: Vec<TraceRow>) -> Result<Self, Error> {
        if let Some(error) = fitted.observer_error.or(fitted.diagnostics_error) {
            return Err(error);
        }
        let Some(diagnostics) = fitted.diagnostics else {
            return Err(Error::InvalidInput("no diagnostics were measured".into()));
        };
        Ok(Self {
            trace,
            iterations: fitted.iterations,
            evals: fitted.evals,
            seconds: fitted.seconds,
            stop: Stop { reason: fitted.stop.reason.name().to_owned(), converged: fitted.stop.converged },
            interrupted: fitted.stop.reason == StopReason::Cancelled,
            elbo: Estimate { mean: diagnostics.elbo.mean, se: diagnostics.elbo.se },
            diagnostics: Some(diagnostics),
            points: false,
            config: json!(natmix::Config { threads: 0, ..fitted.config }),
            notes: Vec::new(),
            mixture: fitted.mixture,
        })
    }

    /// All that is kept: the report with scores, draws, and what predictions need.
    pub fn record(self, settings: &Settings, data: &Data) -> Result<Record, Error> {
        let (network, input, q) = (&data.network, &data.input, &self.mixture);
        let averaging = |each: usize| match self.points {
            true => Averaging::Means,
            false => Averaging::Draws { each, seed: settings.seed },
        };
        let draws = settings.mlp.score_draws();
        let (train, _) = score::score(network, input, q, &data.train, averaging(draws.min(TRAIN_DRAWS)))?;
        let test =
            data.test.as_ref().map(|rows| score::score(network, input, q, rows, averaging(draws))).transpose()?;
        let ood = match (&data.ood, &test) {
            (Some(rows), Some((_, test))) => score::ood(network, q, test, rows, averaging(draws))?,
            (Some(_), None) => {
                let problem = "needs test rows to compare with (--test)".into();
                return Err(Error::Config { setting: "ood", problem });
            }
            (None, _) => None,
        };
        let named = network.weights() <= MOST_NAMED;
        let names = network.weight_names(&data.names);
        let sampled = draw_weights(network, q, named, &names, settings.seed);
        let nothing = f64::NAN;
        let diagnostics = self.diagnostics.as_ref();
        let report = Report {
            verdict: verdict(data, q, &self),
            elbo: self.elbo,
            log_evidence: diagnostics.map_or(Estimate { mean: nothing, se: nothing }, |d| Estimate {
                mean: d.log_evidence.mean,
                se: d.log_evidence.se,
            }),
            k_hat: diagnostics.map_or(nothing, |d| d.k_hat),
            k_threshold: diagnostics.map_or(nothing, |d| d.k_threshold),
            ess: diagnostics.map_or(nothing, |d| d.ess),
            modes: q.len(),
            search: None,
            components: q
                .components()
                .iter()
                .zip(q.weights())
                .map(|(component, weight)| Component {
                    weight,
                    mean: if named { component.mean().to_vec() } else { Vec::new() },
                    sd: if named { component.sd() } else { Vec::new() },
                })
                .collect(),
            parameters: if named { summary::parameters(&sampled) } else { noise(&sampled, network.likelihood()) },
            model: Model {
                kind: "mlp".into(),
                summary: data.describe(),
                rows: Some(data.train.rows()),
                priors: vec!["each weight and bias ~ normal(0, 1 / prior precision of its layer)".into()],
            },
            evals: Evals { points: self.evals, diagnostics: diagnostics.map_or(0, |d| d.draws as u64) },
            iterations: self.iterations,
            seconds: self.seconds,
            stop: self.stop.clone(),
            seed: settings.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: json!({"settings": settings, "training": self.config}),
            train: Some(train),
            test: test.map(|(scores, _)| scores),
            ood,
            loo: None,
        };
        let memory = Memory { network: network.clone(), input: input.clone(), points: self.points };
        let details = json!({"settings": settings, "memory": null, "network": memory});
        let parameter_names = if network.weights() <= MOST_NAMES_KEPT { names } else { Vec::new() };
        let posterior = Posterior { mixture: self.mixture, parameter_names, details };
        Ok(Record { posterior, report, trace: self.trace, draws: sampled, formation: None })
    }
}

/// Draws of all weights of a small network, of a few weights of a large one (its last: biases of the output, noise).
fn draw_weights(network: &Network, q: &Mixture, named: bool, names: &[String], seed: u64) -> Draws {
    let d = network.weights();
    let last = network.layers()[network.layers().len() - 1];
    let kept = if named { 0..d } else { last.biases()..d };
    let n =
        if named { summary::DRAWS.min(MOST_DRAWN / d).max(100) } else { (MOST_DRAWN / d).clamp(20, summary::DRAWS) };
    let (mut values, mut component) = (Vec::with_capacity(n * kept.len()), Vec::with_capacity(n));
    // A large network's draws one by one: little of them is kept.
    let (turns, each) = if named { (1, n) } else { (n, 1) };
    for turn in 0..turns {
        let z = q.sample(each, seed.wrapping_add(turn as u64));
        values.extend(z.chunks_exact(d).flat_map(|z| &z[kept.clone()]));
        component.extend(q.most_likely(&z));
    }
    Draws { names: names[kept].to_vec(), values, component }
}

/// The noise alone.
fn noise(draws: &Draws, likelihood: Likelihood) -> Vec<Parameter> {
    let all = if likelihood == Likelihood::Gaussian { summary::parameters(draws) } else { Vec::new() };
    all.into_iter().rev().take(1).collect()
}

fn verdict(data: &Data, q: &Mixture, found: &Found) -> Verdict {
    let what = data.describe();
    if let Some(diagnostics) = &found.diagnostics {
        return summary::verdict(&what, q.len(), q.len(), &diagnostics.verdict);
    }
    let parts = match (found.points, q.len()) {
        (true, 1) => "one plain network".to_owned(),
        (true, n) => format!("an ensemble of {n} plain networks"),
        (false, 1) => "one Gaussian over its weights".to_owned(),
        (false, k) => format!("a mixture of {k} Gaussians over its weights"),
    };
    let sentence = if found.interrupted {
        format!("Training of {what} was interrupted; what was reached is {parts}.")
    } else {
        format!("Trained {what}: {parts}. Use it for predictions, as far as its test figures carry.")
    };
    Verdict { trusted: true, sentence, reasons: Vec::new(), notes: found.notes.clone() }
}
