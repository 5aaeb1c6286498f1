//! `natmix fit mlp`: a network from data to files. Trained with VOGN, IVON or Adam; small ones also with the engine's methods.

use super::fit::{files, stop_on_signal, text};
use crate::args::FitArgs;
use crate::folder::{self, Folder};
use crate::networks::data::{Data, Memory};
use crate::networks::score;
use crate::networks::training::{EpochRow, Job, Stopped, Trained};
use crate::report::record::{Record, read_trace};
use crate::report::summary;
use crate::report::{Component, Draws, Estimate, Evals, Model, Parameter, Report, Stop, Verdict};
use crate::settings::mlp::Run;
use crate::settings::{Settings, as_option};
use anyhow::{Context, Result, bail};
use natmix::Fit;
use natmix::choices::About;
use natmix::diagnose::Diagnostics;
use natmix::family::{Gaussian, Mixture};
use natmix::observe::{Cancel, TraceRow, TraceWriter};
use natmix::save::Posterior;
use natmix::stop::StopReason;
use natmix::target::Target;
use natmix_models::Observations;
use natmix_models::mlp::predict::Averaging;
use natmix_models::mlp::train::{Optimiser, TrainConfig, TrainState, with_threads};
use natmix_models::mlp::{Examples, Likelihood, Mlp, measure};
use serde_json::json;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// File of an interrupted training.
const CHECKPOINT: &str = "checkpoint.training";
/// Weights up to which each is reported by name, and up to which the engine may fit them.
const MOST_NAMED: usize = 1_000;
const MOST_FOR_ENGINE: usize = 5_000;
/// Numbers in `draws.zarr` when weights are too many to name.
const MOST_DRAWN: usize = 1_000_000;
/// Draws a component for the ELBO.
const ELBO_DRAWS: usize = 4;
/// Draws a component for scores of the training rows.
const TRAIN_DRAWS: usize = 10;

/// What a fit found, by whichever way.
struct Found {
    mixture: Mixture,
    trace: Vec<TraceRow>,
    iterations: u64,
    evals: u64,
    seconds: f64,
    stop: Stop,
    interrupted: bool,
    elbo: Estimate,
    diagnostics: Option<Diagnostics>,
    points: bool,
    config: serde_json::Value,
    notes: Vec<String>,
}

/// Runs the command.
pub fn run(args: &FitArgs, settings: &Settings) -> Result<ExitCode> {
    let data = Data::load(settings)?;
    if !args.quiet {
        data.warnings.iter().for_each(|warning| eprintln!("note: {warning}"));
    }
    // What a killed run had reached stays until it is overtaken.
    let keep = args.resume && settings.out.join(files::STAGE).join(CHECKPOINT).exists();
    let out = Folder::open(&settings.out, files::STAGE, keep)?;
    let done = with_threads(settings.threads, || fit_into(&out, args, settings, &data))?;
    if done.is_err() && !keep {
        out.discard();
    }
    done
}

fn fit_into(out: &Folder, args: &FitArgs, settings: &Settings, data: &Data) -> Result<ExitCode> {
    let cancel = Cancel::default();
    stop_on_signal(cancel.clone(), args.quiet);
    let optimiser = match &settings.method[..] {
        "auto" | "vogn" => Some(Optimiser::Vogn),
        "ivon" => Some(Optimiser::Ivon),
        "adam" => Some(Optimiser::Adam),
        _ => None,
    };
    let found = match optimiser {
        Some(optimiser) => train(out, args, settings, data, optimiser, cancel)?,
        None => by_engine(out, args, settings, data, cancel)?,
    };
    let report = write_results(out, settings, data, &found)?;
    out.publish()?;
    if !found.interrupted {
        // That of an earlier, interrupted run: its results are replaced.
        let _ = std::fs::remove_file(out.path(CHECKPOINT));
    }
    if args.json {
        folder::print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else if !args.quiet {
        folder::print(&(text(&report, &settings.out) + &figures(&report)))?;
    }
    Ok(match (found.interrupted, report.verdict.trusted) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

fn train(
    out: &Folder,
    args: &FitArgs,
    settings: &Settings,
    data: &Data,
    optimiser: Optimiser,
    cancel: Cancel,
) -> Result<Found> {
    let parts = settings.mlp.validation.map(|share| data.train.split(share, settings.seed)).transpose()?;
    let (rows, validation) = match &parts {
        Some((rows, validation)) => (rows, Some(validation)),
        None => (&data.train, None),
    };
    let config = train_config(settings, data, optimiser, rows)?;
    let resumed = if args.resume { Some(resume_from(out, data, &config)?) } else { None };
    let earlier: String = resumed
        .iter()
        .flat_map(|(_, rows)| rows)
        .filter_map(|row| serde_json::to_string(row).ok())
        .fold(String::new(), |text, line| text + &line + "\n");
    let trace = out.staged(files::TRACE);
    folder::write_whole(&trace, |file| file.write_all(earlier.as_bytes()))?;
    let trace = std::fs::OpenOptions::new().append(true).open(&trace).context("cannot write the trace")?;
    let job = Job {
        network: &data.network,
        data: rows,
        validation,
        config: config.clone(),
        settings: &settings.mlp,
        checkpoint: Some(out.staged(CHECKPOINT)),
        resumed,
        cancel,
        quiet: args.quiet,
    };
    let Trained { mixture, epochs, iterations, seconds, stopped } = job.run(BufWriter::new(trace))?;
    let points = optimiser == Optimiser::Adam;
    let elbo = if points {
        Estimate { mean: f64::NAN, se: f64::NAN }
    } else {
        let (mean, se) =
            measure::elbo(&data.network, rows, &mixture, &config.prior_precision, ELBO_DRAWS, settings.seed)?;
        Estimate { mean, se }
    };
    Ok(Found {
        trace: epochs.iter().map(|epoch| epoch.row.clone()).collect(),
        iterations,
        evals: iterations * (config.components * config.draws) as u64,
        seconds,
        stop: Stop {
            reason: match stopped {
                Stopped::Done => "epochs".into(),
                Stopped::Early => "validation".into(),
                Stopped::Interrupted => StopReason::Cancelled.name().into(),
            },
            converged: stopped != Stopped::Interrupted,
        },
        interrupted: stopped == Stopped::Interrupted,
        elbo,
        diagnostics: None,
        points,
        notes: notes(&config, iterations),
        config: serde_json::to_value(&config)?,
        mixture,
    })
}

/// Settings of training for these rows.
pub fn train_config(settings: &Settings, data: &Data, optimiser: Optimiser, rows: &Examples) -> Result<TrainConfig> {
    let run = Run {
        optimiser,
        components: components(settings)?,
        rate: settings.rate,
        draws: settings.draws_per_component,
        minibatch: settings.minibatch,
        seed: settings.seed,
    };
    settings.mlp.train(&data.network, rows.rows(), run).map_err(as_option)
}

/// Plain words about what the posterior is.
fn notes(config: &TrainConfig, iterations: u64) -> Vec<String> {
    if config.optimiser == Optimiser::Adam {
        return vec!["plain networks: their weights are points, not a posterior".into()];
    }
    let kept = (iterations as f64 * (-config.curvature_rate).ln_1p()).exp();
    vec![
        "single weights of a network mean nothing by themselves; judge it by its predictions on test rows".into(),
        if kept > 0.01 {
            format!(
                "the precision still holds {:.0}% of its first value: these settings make a good predictor, not the best ELBO (a \
                 larger --curvature-rate comes closer to that)",
                100.0 * kept
            )
        } else {
            "the start of the precision is forgotten: these settings seek the best ELBO".into()
        },
    ]
}

fn components(settings: &Settings) -> Result<usize> {
    match &settings.components[..] {
        "auto" => Ok(1),
        count => count.parse().ok().with_context(|| format!("--components {count} is neither auto nor a number")),
    }
}

/// The state of an interrupted run, and its epochs. A killed run is later than an interrupted one in the same folder.
fn resume_from(out: &Folder, data: &Data, config: &TrainConfig) -> Result<(TrainState, Vec<EpochRow>)> {
    let places = [(out.staged(CHECKPOINT), out.staged(files::TRACE)), (out.path(CHECKPOINT), out.path(files::TRACE))];
    let Some((checkpoint, trace)) = places.into_iter().find(|(checkpoint, _)| checkpoint.exists()) else {
        bail!("there is nothing to resume: nothing was interrupted in {}", out.path("").display());
    };
    let state = TrainState::load(&checkpoint, &data.network, config)?;
    let text = std::fs::read_to_string(&trace).unwrap_or_default();
    let rows = text.lines().filter_map(|line| serde_json::from_str::<EpochRow>(line).ok());
    let rows = rows.filter(|row| row.row.iteration <= state.iteration()).collect();
    Ok((state, rows))
}

/// Small networks by any method of the engine, full covariance included.
fn by_engine(out: &Folder, args: &FitArgs, settings: &Settings, data: &Data, cancel: Cancel) -> Result<Found> {
    if args.resume {
        bail!("--resume goes with --method vogn, ivon or adam for networks");
    }
    let weights = data.network.weights();
    if weights > MOST_FOR_ENGINE {
        bail!("{weights} weights are too many for --method {}: use vogn, ivon or adam", settings.method);
    }
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect();
    let rows = Observations::new(wide(data.train.x()), data.network.inputs(), wide(data.train.outcome()))?;
    let target = Mlp::new(data.network.clone(), rows.with_names(data.names.clone())?, &prior_sd(settings, data)?)?;
    let spread = settings.init_sd.as_ref().and_then(|sd| sd.first().copied()).unwrap_or(START_SPREAD);
    let about = About { dim: weights, rows: target.num_rows(), init: (&[0.0], &[spread]), ..About::default() };
    let mut config = settings.engine(&about).map_err(as_option)?;
    config.components = components(settings)?;
    // Hidden units are interchangeable: at the centre nothing tells them apart.
    let start = random_start(config.components, config.covariance, weights, spread, settings.seed)?;
    let mut cancel = cancel;
    let path = out.staged(files::TRACE);
    let mut file = BufWriter::new(std::fs::File::create(&path).context("cannot write the trace")?);
    let mut trace = TraceWriter::new(&mut file, path.display().to_string());
    let mut bar = crate::progress::Bar::new(args.quiet, settings.max_evals);
    let fitted =
        Fit::new(&target, config).start(start).observe(&mut bar).observe(&mut trace).observe(&mut cancel).run()?;
    bar.finish();
    if let Some(error) = &fitted.observer_error {
        bail!("{error}");
    }
    file.flush().context("cannot write the trace")?;
    let diagnostics = fitted.diagnostics.clone().context("no diagnostics were measured")?;
    Ok(Found {
        trace: read_trace(&std::fs::read_to_string(&path).context("cannot read the trace")?),
        iterations: fitted.iterations,
        evals: fitted.evals,
        seconds: fitted.seconds,
        stop: Stop { reason: fitted.stop.reason.name().to_owned(), converged: fitted.stop.converged },
        interrupted: fitted.stop.reason == StopReason::Cancelled,
        elbo: Estimate { mean: diagnostics.elbo.mean, se: diagnostics.elbo.se },
        diagnostics: Some(diagnostics),
        points: false,
        config: json!(natmix::Config { threads: 0, ..fitted.config.clone() }),
        notes: Vec::new(),
        mixture: fitted.mixture,
    })
}

/// Spread of the places where components start, and the share of it that is each one's own.
const START_SPREAD: f64 = 0.7;
const OWN_SHARE: f64 = 0.4;

/// Components at random places.
pub fn random_start(
    components: usize,
    shape: natmix::target::Shape,
    dim: usize,
    spread: f64,
    seed: u64,
) -> Result<Mixture> {
    let means = Mixture::single(Gaussian::isotropic(vec![0.0; dim], spread)).sample(components, seed);
    let prec = (OWN_SHARE * spread).powi(-2);
    let parts = means.chunks_exact(dim).map(|mean| {
        let precision = match shape {
            natmix::target::Shape::Diag => {
                natmix::family::Diag::new(vec![prec; dim]).map(natmix::family::Precision::Diag)
            }
            natmix::target::Shape::Full => {
                let mut entries = vec![0.0; dim * dim];
                entries.iter_mut().step_by(dim + 1).for_each(|s| *s = prec);
                natmix::family::Precision::from_matrix(dim, entries)
            }
        };
        precision
            .map(|precision| Gaussian::new(mean.to_vec(), precision))
            .map_err(|_| anyhow::anyhow!("--init-sd is not usable"))
    });
    Ok(Mixture::new(&vec![1.0; components], parts.collect::<Result<_>>()?)?)
}

/// Prior standard deviation of every weight: that of training, or as given.
fn prior_sd(settings: &Settings, data: &Data) -> Result<Vec<f64>> {
    let config = train_config(settings, data, Optimiser::Vogn, &data.train)?;
    let layers = data.network.layers().iter().zip(&config.prior_precision);
    Ok(layers.flat_map(|(layer, prior)| std::iter::repeat_n(prior.sqrt().recip(), layer.end() - layer.start)).collect())
}

fn write_results(out: &Folder, settings: &Settings, data: &Data, found: &Found) -> Result<Report> {
    let (network, input, q) = (&data.network, &data.input, &found.mixture);
    let averaging = |each: usize| match found.points {
        true => Averaging::Means,
        false => Averaging::Draws { each, seed: settings.seed },
    };
    let draws = settings.mlp.score_draws();
    let (train, _) = score::score(network, input, q, &data.train, averaging(draws.min(TRAIN_DRAWS)))?;
    let test = data.test.as_ref().map(|rows| score::score(network, input, q, rows, averaging(draws))).transpose()?;
    let ood = match (&data.ood, &test) {
        (Some(rows), Some((_, test))) => score::ood(network, q, test, rows, averaging(draws))?,
        (Some(_), None) => bail!("--ood needs test rows to compare with (--test)"),
        (None, _) => None,
    };
    let named = network.weights() <= MOST_NAMED;
    let names = network.weight_names(&data.names);
    let sampled = draw_weights(network, q, named, &names, settings.seed);
    let nothing = f64::NAN;
    let diagnostics = found.diagnostics.as_ref();
    let report = Report {
        verdict: verdict(data, q, found),
        elbo: found.elbo,
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
            summary: format!("a network {network} on {}", data.summary),
            rows: Some(data.train.rows()),
            priors: vec!["each weight and bias ~ normal(0, 1 / prior precision of its layer)".into()],
        },
        evals: Evals { points: found.evals, diagnostics: diagnostics.map_or(0, |d| d.draws as u64) },
        iterations: found.iterations,
        seconds: found.seconds,
        stop: found.stop.clone(),
        seed: settings.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: json!({"settings": settings, "training": found.config}),
        train: Some(train),
        test: test.map(|(scores, _)| scores),
        ood,
        loo: None,
    };
    let memory = Memory { network: network.clone(), input: input.clone(), points: found.points };
    let details = json!({"settings": settings, "memory": null, "network": memory});
    let posterior = Posterior { mixture: q.clone(), parameter_names: names, details };
    let record = Record { posterior, report, trace: found.trace.clone(), draws: sampled };
    record.save_beside_trace(out.stage(), None)?;
    Ok(record.report)
}

/// Draws of all weights of a small network, of a few weights of a large one (its last: biases of the output, noise).
fn draw_weights(network: &natmix_models::mlp::Network, q: &Mixture, named: bool, names: &[String], seed: u64) -> Draws {
    let d = network.weights();
    let last = network.layers()[network.layers().len() - 1];
    let kept = if named { 0..d } else { last.biases()..d };
    let n =
        if named { summary::DRAWS.min(MOST_DRAWN / d).max(100) } else { (MOST_DRAWN / d).clamp(20, summary::DRAWS) };
    let z = q.sample(n, seed);
    let values = z.chunks_exact(d).flat_map(|z| z[kept.clone()].iter().copied()).collect();
    let component = z
        .chunks_exact(d)
        .map(|z| {
            let shares = q.log_responsibilities(z);
            (0..shares.len()).max_by(|&a, &b| shares[a].total_cmp(&shares[b])).unwrap_or(0)
        })
        .collect();
    Draws { names: names[kept].to_vec(), values, component }
}

/// The noise alone.
fn noise(draws: &Draws, likelihood: Likelihood) -> Vec<Parameter> {
    let all = if likelihood == Likelihood::Gaussian { summary::parameters(draws) } else { Vec::new() };
    all.into_iter().rev().take(1).collect()
}

fn verdict(data: &Data, q: &Mixture, found: &Found) -> Verdict {
    let what = format!("a network {} on {}", data.network, data.summary);
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

/// Test figures for the terminal.
fn figures(report: &Report) -> String {
    let mut lines = String::new();
    for (name, scores) in [("train", &report.train), ("test", &report.test)] {
        let Some(scores) = scores else { continue };
        let figures = [
            ("accuracy", scores.accuracy),
            ("nll", scores.nll),
            ("brier", scores.brier),
            ("ece", scores.ece),
            ("rmse", scores.rmse),
            ("mutual information", scores.mutual_information),
        ];
        let shown = figures.iter().filter_map(|(name, x)| x.map(|x| format!("{name} {x:.4}")));
        lines += &format!("{name:<6}{}\n", shown.collect::<Vec<_>>().join("   "));
    }
    if let Some(ood) = &report.ood {
        lines += &format!("ood   auroc {:.4}   fpr95 {:.4}   entropy {:.4}\n", ood.auroc, ood.fpr95, ood.entropy);
    }
    lines
}
