//! `natmix fit mlp`: a network from data to files. Trained with VOGN, IVON or Adam; small ones also with the engine's methods.

use super::fit::{stop_on_signal, text};
use crate::args::FitArgs;
use crate::output;
use crate::progress::{Bar, EpochBar};
use crate::settings::{Settings, as_option};
use anyhow::{Context, Result, bail};
use natmix::Fit;
use natmix::observe::{Cancel, TraceWriter};
use natmix_app::folder::{self, Folder};
use natmix_app::networks::data::Data;
use natmix_app::networks::engine;
use natmix_app::networks::found::Found;
use natmix_app::networks::train::{Training, optimiser};
use natmix_app::record::{files, read_trace};
use natmix_nets::train::{TrainConfig, TrainState, with_threads};
use natmix_nets::training::EpochRow;
use natmix_report::Report;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// File of an interrupted training.
const CHECKPOINT: &str = "checkpoint.training";
/// Runs the command.
pub fn run(args: &FitArgs, settings: &Settings) -> Result<ExitCode> {
    let data = Data::load(settings).map_err(as_option)?;
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
    let found = match optimiser(&settings.method) {
        Some(optimiser) => {
            let training = Training::new(settings, data, optimiser).map_err(as_option)?;
            train(out, args, data, &training, cancel)?
        }
        None => by_engine(out, args, settings, data, cancel)?,
    };
    let interrupted = found.interrupted;
    let record = found.record(settings, data).map_err(as_option)?;
    record.save_beside_trace(out.stage(), None)?;
    let report = record.report;
    out.publish()?;
    natmix_app::film::remove_stale(out);
    if !interrupted {
        // That of an earlier, interrupted run: its results are replaced.
        let _ = std::fs::remove_file(out.path(CHECKPOINT));
    }
    if args.json {
        output::print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else if !args.quiet {
        output::print(&(text(&report, &settings.out) + &figures(&report)))?;
    }
    Ok(match (interrupted, report.verdict.trusted) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

fn train(out: &Folder, args: &FitArgs, data: &Data, training: &Training<'_>, cancel: Cancel) -> Result<Found> {
    let resumed = if args.resume { Some(resume_from(out, data, &training.config)?) } else { None };
    let earlier: String = resumed
        .iter()
        .flat_map(|(_, rows)| rows)
        .filter_map(|row| serde_json::to_string(row).ok())
        .fold(String::new(), |text, line| text + &line + "\n");
    let trace = out.staged(files::TRACE);
    folder::write_whole(&trace, |file| file.write_all(earlier.as_bytes()))?;
    let file = std::fs::OpenOptions::new().append(true).open(&trace).context("cannot write the trace")?;
    let mut watch = EpochBar::new(args.quiet, training, file, trace);
    let found = training.run(Some(out.staged(CHECKPOINT)), resumed, cancel, &mut watch)?;
    watch.finish();
    Ok(found)
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
    let target = engine::target(settings, data).map_err(as_option)?;
    let (config, start) = engine::prepare(settings, &target).map_err(as_option)?;
    let mut cancel = cancel;
    let path = out.staged(files::TRACE);
    let mut file = BufWriter::new(std::fs::File::create(&path).context("cannot write the trace")?);
    let mut trace = TraceWriter::new(&mut file, path.display().to_string());
    let mut bar = Bar::new(args.quiet, settings.max_evals);
    let fitted =
        Fit::new(&target, config).start(start).observe(&mut bar).observe(&mut trace).observe(&mut cancel).run()?;
    bar.finish();
    file.flush().context("cannot write the trace")?;
    let trace = read_trace(&std::fs::read_to_string(&path).context("cannot read the trace")?);
    Ok(Found::of_fitted(fitted, trace)?)
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
