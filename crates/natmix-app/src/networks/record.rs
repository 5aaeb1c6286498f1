//! The record of a network's fit: scores of its predictions, and draws of its weights.

use super::data::NetworkData;
use super::score;
use super::verdict::verdict;
use crate::Error;
use crate::finished::{Finished, ReportParts, components};
use crate::problem::Problem;
use crate::record::FitRecord;
use crate::saved::SavedPosterior;
use crate::settings::Settings;
use crate::settings::network::FEWEST_SCORE_DRAWS;
use crate::summary;
use natmix::family::Mixture;
use natmix_models::ranks::Ranks;
use natmix_nets::predict::{Averaging, predict, predict_together};
use natmix_nets::{Examples, Network, NetworkLikelihood};
use natmix_report::{Draws, ModelSummary, Parameter, Report};

/// Most weights that are reported by name.
const MOST_NAMED: usize = 1_000;
/// Most weights whose names are stored in the posterior's file: its header is limited in size.
const MOST_NAMES_KEPT: usize = 100_000;
/// Most numbers in `draws.zarr` when there are too many weights to name.
const MOST_DRAWN: usize = 1_000_000;
/// Fewest draws per component for scores on the training rows.
const FEWEST_TRAIN_DRAWS: usize = 10;

/// The rows of a network that processes know by number.
#[derive(Clone, Copy)]
enum RowSet {
    Train,
    Test,
    Validation,
    Ood,
}

/// Helps the process that leads with its predictions, until it has its record.
pub(crate) fn help(data: &NetworkData, settings: &Settings, ranks: &Ranks) -> Result<(), Error> {
    let (rows, validation) = data.parts(settings)?;
    let mut tables = [None; 4];
    for (which, rows) in [
        (RowSet::Train, Some(&*rows)),
        (RowSet::Test, data.test.as_ref()),
        (RowSet::Validation, validation.as_deref()),
        (RowSet::Ood, data.ood.as_ref()),
    ] {
        tables[which as usize] = rows.map(Examples::x);
    }
    Ok(natmix_nets::predict::help(ranks, &data.network, &tables)?)
}

/// Builds the record: the report with scores, draws, and what predictions need.
pub(crate) fn record(
    found: Finished,
    data: &NetworkData,
    problem: &Problem,
    settings: &Settings,
) -> Result<FitRecord, Error> {
    let (network, input, q) = (&data.network, &data.input, &found.mixture);
    let averaging = |rows: usize, fewest: usize| match found.points {
        true => Averaging::Means,
        false => {
            let each = settings.network.score_draws(network, rows, fewest);
            Averaging::Draws { each, seed: settings.seed() }
        }
    };
    // Processes that have shared the training share predictions, too.
    let ranks = match problem {
        Problem::Network(network) => network.ranks.as_deref(),
        _ => None,
    };
    let predicted = |which: RowSet, rows: &Examples, averaging: Averaging| match ranks {
        Some(ranks) => predict_together(ranks, which as usize, network, q, rows.x(), averaging),
        None => predict(network, q, rows.x(), averaging),
    };
    let scored = |which: RowSet, rows: &Examples, fewest: usize| -> Result<_, Error> {
        let averaging = averaging(rows.rows(), fewest);
        Ok(score::score_predictions(predicted(which, rows, averaging)?, input, q.len(), rows, averaging))
    };
    let (rows, validation) = data.parts(settings)?;
    let (train, _) = scored(RowSet::Train, &rows, FEWEST_TRAIN_DRAWS)?;
    let test = data.test.as_ref().map(|rows| scored(RowSet::Test, rows, FEWEST_SCORE_DRAWS)).transpose()?;
    let validation = validation.map(|rows| scored(RowSet::Validation, &rows, FEWEST_SCORE_DRAWS)).transpose()?;
    let ood = match (&data.ood, &test) {
        (Some(rows), Some((_, test))) => {
            let averaging = averaging(rows.rows(), FEWEST_SCORE_DRAWS);
            score::ood_of_predictions(test, &predicted(RowSet::Ood, rows, averaging)?)
        }
        (Some(_), None) => return Err(Error::setting("ood", "needs test rows to compare with (`test`)")),
        (None, _) => None,
    };
    let named = network.weights() <= MOST_NAMED;
    let names = network.weight_names(&data.names);
    let sampled = draw_weights(network, q, named, &names, settings.seed());
    let (test, validation) = (test.map(|(scores, _)| scores), validation.map(|(scores, _)| scores));
    let held_out = match (&test, &validation) {
        (Some(test), _) => Some(("test", test)),
        (None, Some(validation)) => Some(("validation", validation)),
        (None, None) => None,
    };
    let report = found.report(ReportParts {
        verdict: verdict(data, &found, held_out),
        modes: q.len(),
        components: components(q, named),
        parameters: if named { summary::parameters(&sampled, None) } else { noise(&sampled, network.likelihood()) },
        mixing: Vec::new(),
        model: ModelSummary {
            kind: problem.kind().into(),
            summary: data.describe(),
            rows: Some(rows.rows()),
            priors: problem.priors(),
            table: problem.table(),
            coefficients: None,
        },
        config: ("training", settings),
    });
    let report = Report { search: None, train: Some(train), test, validation, ood, ..report };
    let posterior = SavedPosterior {
        parameter_names: if network.weights() <= MOST_NAMES_KEPT { names } else { Vec::new() },
        settings: Some(settings.clone()),
        model: problem.memory(found.points),
        mixture: found.mixture,
        level: None,
        answer: None,
    };
    Ok(FitRecord {
        posterior,
        report,
        trace: found.trace,
        draws: sampled,
        formation: found.formation,
        log_likelihood: None,
        loo_rows: None,
        variables: None,
    })
}

/// Draws of all weights of a small network, or of the last few weights of a large one (output biases and noise).
fn draw_weights(network: &Network, q: &Mixture, named: bool, names: &[String], seed: u64) -> Draws {
    let d = network.weights();
    let last = network.layers()[network.layers().len() - 1];
    let kept = if named { 0..d } else { last.biases()..d };
    let n =
        if named { summary::DRAWS.min(MOST_DRAWN / d).max(100) } else { (MOST_DRAWN / d).clamp(20, summary::DRAWS) };
    let (mut values, mut component) = (Vec::with_capacity(n * kept.len()), Vec::with_capacity(n));
    // Draws of a large network are made one at a time: only a few numbers of each are kept.
    let (turns, each) = if named { (1, n) } else { (n, 1) };
    for turn in 0..turns {
        let z = q.sample(each, seed.wrapping_add(turn as u64));
        values.extend(z.chunks_exact(d).flat_map(|z| &z[kept.clone()]));
        component.extend(q.most_likely(&z));
    }
    Draws { names: names[kept].to_vec(), values, component, chains: None }
}

/// The noise parameter alone.
fn noise(draws: &Draws, likelihood: NetworkLikelihood) -> Vec<Parameter> {
    let all = if likelihood == NetworkLikelihood::Gaussian { summary::parameters(draws, None) } else { Vec::new() };
    all.into_iter().rev().take(1).collect()
}
