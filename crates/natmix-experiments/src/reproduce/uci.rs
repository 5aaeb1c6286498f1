//! `natmix reproduce uci`: regression networks with one hidden layer of 50 units on eight data sets, with
//! hyper-parameters chosen within each training set.

use super::page::{Page, PageTable};
use super::{ReproduceOptions, data, full, mean_with_error};
use crate::splits::SplitSet;
use anyhow::{Context, Result, bail};
use natmix::family::Mixture;
use natmix_models::Predictions;
use natmix_nets::predict::{Averaging, predict};
use natmix_nets::train::{TrainConfig, Trainer};
use natmix_nets::{Activation, Examples, Network, NetworkLikelihood};
use natmix_report::number;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// The data sets, each with the test log likelihood of tuned MC-dropout for comparison.
const SETS: [(&str, f64); 8] = [
    ("bostonHousing", -2.40),
    ("concrete", -2.94),
    ("energy", -1.21),
    ("kin8nm", 1.14),
    ("naval-propulsion-plant", 4.45),
    ("power-plant", -2.81),
    ("wine-quality-red", -0.93),
    ("yacht", -1.25),
];
const HIDDEN: usize = 50;
/// Draws per component for predictions.
const DRAWS: usize = 20;
/// Steps of a run.
const STEPS: usize = 20_000;
/// Share of the training rows used for validation.
const VALIDATION: f64 = 0.2;
/// Candidates for the initial precision, in units of the number of rows, and for the prior precision. Steps grow with
/// the square root of the former.
const FIRST: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
const PRIOR: [f64; 3] = [1.0, 5.0, 25.0];

/// One split.
#[derive(Clone, Debug, Serialize)]
struct SplitOutcome {
    set: &'static str,
    split: usize,
    log_likelihood: f64,
    rmse: f64,
    /// The same with the first component alone.
    single_log_likelihood: f64,
    first_precision: f64,
    prior_precision: f64,
    /// With full covariances, if requested.
    full: Option<FullOutcome>,
    seconds: f64,
}

/// One split with full covariances.
#[derive(Clone, Debug, Serialize)]
struct FullOutcome {
    log_likelihood: f64,
    rmse: f64,
    single_log_likelihood: f64,
    prior_precision: f64,
}

/// Runs the experiment.
pub fn run(args: &ReproduceOptions) -> Result<String> {
    let (out, paper) = (&args.out, args.paper);
    if paper {
        bail!("the draft has no experiment on these data sets: leave out --protocol paper");
    }
    let root = data("uci")?;
    if let Some(name) = args.sets.iter().find(|name| SETS.iter().all(|set| set.0 != **name)) {
        bail!("--sets {name} is not one of {}", SETS.map(|set| set.0).join(", "));
    }
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let wanted: Vec<_> =
        SETS.iter().filter(|set| args.sets.is_empty() || args.sets.iter().any(|name| name == set.0)).collect();
    let bar = super::bar(args.quiet, (wanted.len() * args.splits) as u64);
    let mut outcomes = Vec::new();
    for (name, _) in wanted {
        let set = SplitSet::read(&root.join(name))?;
        for split in 0..args.splits.min(set.splits.len()) {
            bar.set_message(format!("{name}, split {split}"));
            outcomes.push(one(name, &set, split, args)?);
            bar.inc(1);
            // Finished results are kept if the run is interrupted.
            write(out, &outcomes, args)?;
        }
    }
    bar.finish_and_clear();
    Ok(format!("{}\nPage: {}\n", summary(&outcomes).text(), out.join("report.html").display()))
}

fn one(name: &'static str, set: &SplitSet, split: usize, args: &ReproduceOptions) -> Result<SplitOutcome> {
    let clock = Instant::now();
    let (train, test) = &set.splits[split];
    let scaling = Scaling::of(set, train);
    let (train, test) = (scaling.examples(set, train)?, scaling.examples(set, test)?);
    let network = Network::new(set.features, &[HIDDEN], Activation::Relu, NetworkLikelihood::Gaussian)?;
    let seed = args.seed + split as u64;
    // Chosen with one component: the best settings do not depend on the number of components.
    let (inner, validation) = train.split(VALIDATION, seed)?;
    let mut best = (f64::NEG_INFINITY, FIRST[0], PRIOR[0]);
    let mut chosen = None;
    for first in FIRST {
        for prior in PRIOR {
            let config = config(&network, inner.rows(), 1, (first, prior), STEPS / 2, seed);
            // Settings under which training diverges are skipped.
            let Ok(q) = fit(&network, &inner, config) else { continue };
            let Ok(found) = score(&network, &q, &validation, seed) else { continue };
            if found.log_likelihood > best.0 {
                best = (found.log_likelihood, first, prior);
                chosen = Some(q);
            }
        }
    }
    let config = config(&network, train.rows(), args.components, (best.1, best.2), STEPS, seed);
    let q = fit(&network, &train, config)?;
    let found = score(&network, &q, &test, seed)?;
    let units = |x: f64| x - scaling.outcome.1.ln();
    let full = match (args.full, chosen) {
        (true, Some(start)) => {
            let run = (seed, args.threads);
            let prior = choose_full_prior(&network, &inner, &validation, &start, run)?;
            let q = full::refine(&network, &train, &q, prior, run)?;
            let found = score(&network, &q, &test, seed)?;
            Some(FullOutcome {
                log_likelihood: units(found.log_likelihood),
                rmse: found.rmse * scaling.outcome.1,
                single_log_likelihood: units(found.single_log_likelihood),
                prior_precision: prior,
            })
        }
        _ => None,
    };
    Ok(SplitOutcome {
        set: name,
        split,
        log_likelihood: units(found.log_likelihood),
        rmse: found.rmse * scaling.outcome.1,
        single_log_likelihood: units(found.single_log_likelihood),
        first_precision: best.1,
        prior_precision: best.2,
        full,
        seconds: clock.elapsed().as_secs_f64(),
    })
}

/// The prior precision under which a full covariance predicts the validation rows best.
fn choose_full_prior(
    network: &Network,
    inner: &Examples,
    validation: &Examples,
    start: &Mixture,
    run: (u64, usize),
) -> Result<f64> {
    let mut best = (f64::NEG_INFINITY, PRIOR[0]);
    for prior in PRIOR {
        let q = full::refine(network, inner, start, prior, run)?;
        let Ok(found) = score(network, &q, validation, run.0) else { continue };
        if found.log_likelihood > best.0 {
            best = (found.log_likelihood, prior);
        }
    }
    Ok(best.1)
}

fn config(
    network: &Network,
    rows: usize,
    components: usize,
    (first, prior): (f64, f64),
    steps: usize,
    seed: u64,
) -> TrainConfig {
    let base = TrainConfig::for_data(network, rows);
    TrainConfig {
        components,
        epochs: steps.div_ceil(rows.div_ceil(base.batch)).max(1),
        first_precision: first * rows as f64,
        rate: base.rate * first.sqrt(),
        // The initial precision has been chosen already and is kept.
        curvature_rate: 0.1 / steps as f64,
        prior_precision: vec![prior; network.layers().len()],
        seed,
        ..base
    }
}

fn fit(network: &Network, train: &Examples, config: TrainConfig) -> Result<Mixture> {
    let mut trainer = Trainer::new(network, train, config)?;
    while trainer.epoch()?.is_some() {}
    Ok(trainer.into_mixture()?)
}

/// Scores of predictions, in units of the scaled outcome.
struct SplitScore {
    log_likelihood: f64,
    rmse: f64,
    /// Log likelihood with the first component alone.
    single_log_likelihood: f64,
}

fn score(network: &Network, q: &Mixture, test: &Examples, seed: u64) -> Result<SplitScore> {
    let averaging = Averaging::Draws { each: DRAWS, seed };
    let found = predict(network, q, test.x(), averaging)?;
    let mean = |x: Vec<f64>| x.iter().sum::<f64>() / x.len() as f64;
    let Predictions::Real { mean: predicted, .. } = &found.predictions else { bail!("a regression was expected") };
    let outcome: Vec<f64> = test.outcome().iter().map(|y| f64::from(*y)).collect();
    let rmse = natmix_models::scores::rmse(predicted, &outcome);
    let alone = predict(network, &Mixture::single(q.components()[0].clone()), test.x(), averaging)?;
    let log_likelihood = mean(found.log_density(test.outcome()));
    anyhow::ensure!(log_likelihood.is_finite(), "training diverged");
    Ok(SplitScore { log_likelihood, rmse, single_log_likelihood: mean(alone.log_density(test.outcome())) })
}

/// Centre and scale of features and outcome, from training rows alone.
struct Scaling {
    features: Vec<(f64, f64)>,
    outcome: (f64, f64),
}

impl Scaling {
    fn of(set: &SplitSet, rows: &[usize]) -> Self {
        let of = |value: &dyn Fn(usize) -> f64| {
            let mean = rows.iter().map(|&r| value(r)).sum::<f64>() / rows.len() as f64;
            let variance = rows.iter().map(|&r| (value(r) - mean).powi(2)).sum::<f64>() / rows.len() as f64;
            // A constant column carries no information, so any divisor will do.
            (mean, if variance > 1e-20 * mean * mean && variance > 0.0 { variance.sqrt() } else { 1.0 })
        };
        Self {
            features: (0..set.features).map(|j| of(&|r| set.x[r * set.features + j])).collect(),
            outcome: of(&|r| set.outcome[r]),
        }
    }

    fn examples(&self, set: &SplitSet, rows: &[usize]) -> Result<Examples> {
        let row = |&r: &usize| {
            let values = &set.x[r * set.features..(r + 1) * set.features];
            values.iter().zip(&self.features).map(|(x, (mean, sd))| ((x - mean) / sd) as f32)
        };
        let x = rows.iter().flat_map(row).collect();
        let y = rows.iter().map(|&r| ((set.outcome[r] - self.outcome.0) / self.outcome.1) as f32).collect();
        Ok(Examples::new(x, set.features, y)?)
    }
}

fn summary(outcomes: &[SplitOutcome]) -> PageTable {
    let row = |(name, aim): &(&'static str, f64)| {
        let of: Vec<&SplitOutcome> = outcomes.iter().filter(|o| o.set == *name).collect();
        if of.is_empty() {
            return None;
        }
        let figure = |f: &dyn Fn(&SplitOutcome) -> f64, decimals| {
            mean_with_error(&of.iter().map(|o| f(o)).collect::<Vec<_>>(), decimals)
        };
        let mean = of.iter().map(|o| o.log_likelihood).sum::<f64>() / of.len() as f64;
        let full = |f: &dyn Fn(&FullOutcome) -> f64| match of.iter().all(|o| o.full.is_some()) {
            true => figure(&|o| o.full.as_ref().map_or(f64::NAN, f), 3),
            false => "–".into(),
        };
        Some(vec![
            (*name).to_owned(),
            of.len().to_string(),
            figure(&|o| o.log_likelihood, 3),
            number::fixed(*aim, 2),
            if mean >= *aim { "yes".into() } else { "no".into() },
            figure(&|o| o.single_log_likelihood, 3),
            figure(&|o| o.rmse, 4),
            full(&|f| f.log_likelihood),
            full(&|f| f.single_log_likelihood),
            figure(&|o| o.seconds, 0),
        ])
    };
    let columns = [
        "set",
        "splits",
        "test log lik.",
        "dropout",
        "reached",
        "one component",
        "RMSE",
        "full covariances",
        "one full component",
        "seconds per split",
    ];
    PageTable {
        heading: "Mean over splits, with its standard error".into(),
        columns: columns.map(String::from).to_vec(),
        rows: SETS.iter().filter_map(row).collect(),
        below: "Test log likelihood per row of the averaged prediction, in the outcome's own units, compared with that of tuned \
                MC-dropout and of one component alone; with full covariances if requested."
            .into(),
    }
}

fn write(out: &Path, outcomes: &[SplitOutcome], args: &ReproduceOptions) -> Result<()> {
    let each = outcomes.iter().map(|o| {
        vec![
            o.set.to_owned(),
            o.split.to_string(),
            number::fixed(o.log_likelihood, 4),
            number::fixed(o.rmse, 4),
            number::fixed(o.first_precision, 0),
            number::fixed(o.prior_precision, 0),
        ]
    });
    let columns = ["set", "split", "test log lik.", "RMSE", "initial precision / rows", "prior precision"];
    let every = PageTable {
        heading: "Every split".into(),
        columns: columns.map(String::from).to_vec(),
        rows: each.collect(),
        below: "With the settings chosen on the validation rows of each split.".into(),
    };
    let page = Page {
        title: "Bayesian regression networks on UCI data sets",
        words: format!(
            "Networks with one hidden layer of 50 units and a mixture of {} Gaussians over their weights, on the standard \
             splits. The initial and the prior precision are chosen on a fifth of the training rows of each split, without \
             using test rows; then all training rows are used.",
            args.components
        ),
        pictures: Vec::new(),
        tables: vec![summary(outcomes), every],
    };
    page.write(out, "uci", &outcomes).with_context(|| format!("cannot write the page in {}", out.display()))
}
