//! `natmix fit`: from settings to files.

use crate::args::FitArgs;
use crate::output;
use crate::progress::Bar;
use crate::settings::{self, ModelKind, Settings, as_option};
use anyhow::{Context, Result, bail};
use natmix::checkpoint::{Checkpoint, Checkpointer};
use natmix::family::Mixture;
use natmix::observe::{Cancel, Observer, TraceRow, TraceWriter};
use natmix::save::Posterior;
use natmix::stop::StopReason;
use natmix::{Fit, Fitted};
use natmix_app::describe::Subject;
use natmix_app::film::{self, Filming};
use natmix_app::folder::{self, Folder};
use natmix_app::predictive::Predictive;
use natmix_app::problem::Problem;
use natmix_app::record::{Record, files, read_trace};
use natmix_app::summary;
use natmix_models::start::from_sample;
use natmix_report::Report;
use natmix_report::formation::Formation;
use serde_json::json;
use std::fs::{self, File};
use std::io::{LineWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Iterations between two checkpoints.
const CHECKPOINT_EVERY: u64 = 100;
/// Runs the command.
pub fn run(args: &FitArgs) -> Result<ExitCode> {
    let settings = settings::resolve(args)?;
    if settings.model == Some(ModelKind::Mlp) {
        return super::fit_mlp::run(args, &settings);
    }
    let problem = Problem::load(&settings)?;
    let target = problem.target();
    let mut config = settings.engine(&problem.about()).map_err(as_option)?;
    let start = settings.init_posterior.as_deref().map(|dir| load_start(dir, target.dim())).transpose()?;
    if let Some(start) = &start {
        settings::start_at(&mut config, start);
    }
    if let Some(data) = problem.data()
        && !args.quiet
    {
        data.study.warnings.iter().for_each(|warning| eprintln!("note: {warning}"));
    }

    let resumed = match args.resume {
        true => Some(resume_from(&settings.out, &config)?),
        false => None,
    };
    let killed = settings.out.join(files::STAGE).join(files::CHECKPOINT).exists();
    if killed && !args.resume && !args.quiet {
        eprintln!(
            "note: a run that was cut short in {} is given up (--resume goes on with one)",
            settings.out.display()
        );
    }
    // What a killed run had reached stays until it is overtaken.
    let keep = killed && args.resume;
    let out = Folder::open(&settings.out, files::STAGE, keep)?;
    let done = fit_into(&out, args, &settings, &problem, config, start, resumed);
    if done.is_err() && !keep {
        out.discard();
    }
    done
}

fn fit_into(
    out: &Folder,
    args: &FitArgs,
    settings: &Settings,
    problem: &Problem,
    mut config: natmix::Config,
    start: Option<Mixture>,
    resumed: Option<natmix::State>,
) -> Result<ExitCode> {
    let mut cancel = Cancel::default();
    stop_on_signal(cancel.clone(), args.quiet);
    // Line by line, so that a checkpoint never knows more than the trace.
    let mut trace_file = LineWriter::new(open_trace(out, resumed.as_ref())?);
    let mut trace = TraceWriter::new(&mut trace_file, out.path(files::TRACE).display().to_string());
    let mut bar = Bar::new(args.quiet, settings.max_evals);
    let mut checkpoints = Checkpointer::new(out.staged(files::CHECKPOINT), CHECKPOINT_EVERY);
    let mut filming = Filming::new(settings, out, resumed.is_some())?;

    let chosen = start.is_some() || settings.init_mean.is_some() || settings.init_sd.is_some();
    let sample = match problem.data() {
        // Again for a resumed run, whose evaluations are to be those of an unbroken one.
        Some(data) if !chosen => from_sample(&data.study, &config, &mut cancel)?,
        _ => None,
    };
    let before = sample.as_ref().map_or(0, |sample| sample.evals);
    if let Some(sample) = &sample {
        sample.prepare(&mut config);
    }
    let mut fit = Fit::new(problem.target(), config);
    if let Some(state) = resumed {
        fit = fit.resume(state);
    } else if let Some(start) = start.or(sample.map(|sample| sample.mixture)) {
        fit = fit.start(start);
    }
    let observers: [&mut dyn Observer; 4] = [&mut bar, &mut trace, &mut checkpoints, &mut cancel];
    for observer in observers {
        fit = fit.observe(observer);
    }
    if let Some(filming) = &mut filming {
        fit = fit.observe(&mut filming.film);
    }
    let mut fitted = fit.run()?;
    fitted.evals += before;
    bar.finish();
    let interrupted = fitted.stop.reason == StopReason::Cancelled;
    if let Some(error) = fitted.observer_error.take().or(fitted.diagnostics_error.take()) {
        return Err(error.into());
    }
    // Dropping a buffer would pass over what its last write says.
    trace_file.flush().with_context(|| format!("cannot write {}", out.path(files::TRACE).display()))?;
    if interrupted {
        let checkpoint = Checkpoint { state: fitted.state.clone(), config: fitted.config.clone() };
        checkpoint.save(&out.staged(files::CHECKPOINT))?;
    } else {
        let _ = fs::remove_file(out.staged(files::CHECKPOINT));
    }
    let formation = filming.map(|filming| filming.finish(problem, &fitted, before));
    let filmed = formation.is_some();
    let report = write_results(out, problem, settings, &fitted, formation)?;
    out.publish()?;
    if !filmed {
        film::remove_stale(out);
    }
    if !interrupted {
        // That of an earlier, interrupted run: its results are replaced.
        let _ = fs::remove_file(out.path(files::CHECKPOINT));
    }

    if args.json {
        output::print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else if !args.quiet {
        output::print(&text(&report, &settings.out))?;
    }
    Ok(match (interrupted, report.verdict.trusted) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}

/// Ctrl-C ends the run after its present iteration and saves what was reached; a second one quits at once.
pub fn stop_on_signal(cancel: Cancel, quiet: bool) {
    let again = AtomicBool::new(false);
    // Setting it fails only where one is set already.
    let _ = ctrlc::set_handler(move || {
        if again.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        if !quiet {
            eprintln!("\nstopping after this iteration, then saving (Ctrl-C again quits at once)");
        }
        cancel.cancel();
    });
}

/// The trace of the new run, begun with the rows that a resumed one has behind it.
fn open_trace(out: &Folder, resumed: Option<&natmix::State>) -> Result<File> {
    let path = out.staged(files::TRACE);
    let context = || format!("cannot write {}", out.path(files::TRACE).display());
    let earlier = match resumed {
        None => String::new(),
        Some(state) => {
            let old = if path.exists() { &path } else { &out.path(files::TRACE) };
            let text = fs::read_to_string(old).unwrap_or_default();
            let row = |line: &&str| {
                serde_json::from_str::<TraceRow>(line).is_ok_and(|row| row.iteration <= state.iteration())
            };
            text.lines().filter(row).map(|line| format!("{line}\n")).collect()
        }
    };
    folder::write_whole(&path, |file| file.write_all(earlier.as_bytes())).with_context(context)?;
    fs::OpenOptions::new().append(true).open(&path).with_context(context)
}

fn load_start(dir: &Path, dim: usize) -> Result<Mixture> {
    let path = dir.join(files::POSTERIOR);
    let start = Posterior::load(&path).context("--init-posterior wants the folder of an earlier fit")?.mixture;
    if start.dim() != dim {
        bail!("--init-posterior {}: that one has {} parameters, this one {dim}", dir.display(), start.dim());
    }
    Ok(start)
}

fn resume_from(dir: &Path, config: &natmix::Config) -> Result<natmix::State> {
    // A killed run is later than an interrupted one in the same folder.
    let places = [dir.join(files::STAGE).join(files::CHECKPOINT), dir.join(files::CHECKPOINT)];
    let Some(path) = places.into_iter().find(|path| path.exists()) else {
        bail!("there is nothing to resume: nothing was interrupted in {}", dir.display());
    };
    let checkpoint = Checkpoint::load(&path)?;
    // Budgets and threads may change; what decides the path of the run may not.
    let comparable = |config: &natmix::Config| natmix::Config {
        threads: 0,
        // Follows from the rows.
        trust_region: 1.0,
        max_evals: None,
        max_seconds: None,
        max_iterations: 1,
        tolerance: 1.0,
        ..config.clone()
    };
    if comparable(&checkpoint.config) != comparable(config) {
        bail!("the interrupted run in {} had other settings: give them again, or leave --resume out", dir.display());
    }
    Ok(checkpoint.state)
}

fn write_results(
    out: &Folder,
    problem: &Problem,
    settings: &Settings,
    fitted: &Fitted,
    formation: Option<Formation>,
) -> Result<Report> {
    let (target, q) = (problem.target(), &fitted.mixture);
    let study = problem.data().map(|data| &data.study);
    let kind = settings.model.map_or("", ModelKind::name);
    let (draws, _) = summary::draws(target, q, summary::DRAWS, settings.seed);
    let subject = Subject { target, study, kind, summary: problem.summary(), settings };
    let mut report = subject.report(fitted, &draws)?;
    let mut log_likelihood = None;
    if let Some(data) = problem.data() {
        let figures = Predictive::measure(&data.study, data.test.as_ref(), q, settings.seed)?;
        figures.add_to(&mut report);
        log_likelihood = figures.log_likelihood;
    }
    let details = json!({"settings": settings, "memory": study.map(|study| &study.memory), "spec": problem.spec()});
    let trace_path = out.staged(files::TRACE);
    let trace = fs::read_to_string(&trace_path).with_context(|| format!("cannot read {}", trace_path.display()))?;
    let record = Record {
        posterior: Posterior { mixture: q.clone(), parameter_names: target.parameter_names(), details },
        report,
        trace: read_trace(&trace),
        draws,
        formation,
    };
    record.save_beside_trace(out.stage(), log_likelihood.as_ref())?;
    Ok(record.report)
}

/// What is printed at the end.
pub fn text(report: &Report, out: &Path) -> String {
    let mut text = format!("{}\n", report.verdict.sentence);
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    report.verdict.reasons.iter().for_each(|reason| line(format!("  - {reason}")));
    report.verdict.notes.iter().for_each(|note| line(format!("  note: {note}")));
    line(format!(
        "\nELBO {:.4} +- {:.4}   log evidence {:.4} +- {:.4}   k-hat {:.2}   {} evaluations, {:.2} s",
        report.elbo.mean,
        report.elbo.se,
        report.log_evidence.mean,
        report.log_evidence.se,
        report.k_hat,
        report.evals.points,
        report.seconds
    ));
    let width = report.parameters.iter().map(|p| p.name.chars().count()).max().unwrap_or(0).clamp(9, 40);
    line(format!("\n{:<width$} {:>11} {:>11} {:>11} {:>11}", "parameter", "mean", "sd", "5%", "95%"));
    for p in report.parameters.iter().take(40) {
        line(format!("{:<width$} {:>11.4} {:>11.4} {:>11.4} {:>11.4}", p.name, p.mean, p.sd, p.q05, p.q95));
    }
    if report.parameters.len() > 40 {
        line(format!("... and {} more", report.parameters.len() - 40));
    }
    line(format!("\nPictures: {}", out.join("report.html").display()));
    text
}
