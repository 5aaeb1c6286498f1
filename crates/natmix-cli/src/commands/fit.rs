//! `natmix fit`: from flags to a record, and its summary.

use crate::args::FitArgs;
use crate::message;
use crate::numbers::{rounded, significant};
use crate::output;
use crate::progress::Bar;
use crate::settings::{self, ModelKind, Settings, with_option_name};
use anyhow::Result;
use natmix::observe::Cancel;
use natmix::stop::StopReason;
use natmix_app::record::write_report;
use natmix_app::resume::{LeftBehind, left_behind};
use natmix_app::{FitJob, Problem};
use natmix_models::ranks::Ranks;
use natmix_report::{AnswerSummary, Evals, Report, ReportedEstimate};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs the command, as one of several processes if there are `ranks`.
pub fn run(args: &FitArgs, ranks: Option<&Arc<Ranks>>) -> Result<ExitCode> {
    let began = Instant::now();
    let loaded = load(args, ranks);
    let Some(ranks) = ranks else {
        let (settings, problem) = loaded?;
        return fit(args, &settings, &problem, began);
    };
    if let Err(error) = &loaded
        && !ranks.have_agreed()
    {
        // The others wait to hear it.
        let _ = ranks.agree(Err(message(error)));
    }
    let (settings, problem) = loaded?;
    if !ranks.leads() {
        // Rank 0 decides what a signal means.
        let _ = ctrlc::set_handler(|| {});
        problem.serve(&settings, ranks)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.quiet {
        let (all, data) = (ranks.ranks(), settings.fit.data.as_deref().map(Path::display));
        let data = data.map_or(String::new(), |data| data.to_string());
        let what = if settings.fit.model == Some(ModelKind::Mlp) { "training on" } else { "rows of" };
        output::note(&format!("note: {all} processes share the {what} {data}"));
    }
    let done = fit(args, &settings, &problem, began);
    ranks.stop();
    done
}

/// Settings and problem.
fn load(args: &FitArgs, ranks: Option<&Arc<Ranks>>) -> Result<(Settings, Problem)> {
    let mut settings = settings::resolve(args)?;
    if ranks.is_some() {
        // There is one process per core.
        settings.engine.threads.get_or_insert(1);
    }
    let mut tell = |what: &str| {
        if !args.quiet {
            output::note(&format!("note: {what}"))
        }
    };
    let problem = Problem::load_with(&settings, ranks, &mut tell).map_err(with_option_name)?;
    Ok((settings, problem))
}

fn fit(args: &FitArgs, settings: &Settings, problem: &Problem, began: Instant) -> Result<ExitCode> {
    // Compiling is done once for many fits: it does not count.
    let began = began + problem.compiling();
    if !args.quiet {
        problem.notes().iter().chain(problem.warnings()).for_each(|warning| output::note(&format!("note: {warning}")));
        let place = settings.out().display();
        match (args.resume, left_behind(settings.out())) {
            (false, LeftBehind::Checkpoint) => output::note(&format!(
                "note: an interrupted run in {place} is discarded (use --resume to continue such a run)"
            )),
            (true, LeftBehind::Start) => {
                output::note(&format!("note: the run in {place} ended before its first checkpoint: it starts again"));
            }
            _ => {}
        }
    }
    let cancel = Cancel::default();
    stop_on_signal(cancel.clone(), args.quiet);
    let mut bar = Bar::new(args.quiet, settings.engine.max_evals);
    let job = FitJob { problem, settings, start: None, cancel, watch: &mut bar, began };
    let record = job.run_into_folder(args.resume);
    bar.finish();
    if !args.quiet {
        problem.take_messages().iter().for_each(|message| output::note(&format!("note: the model says: {message}")));
    }
    let report = record.map_err(with_option_name)?.report;
    if args.json {
        output::print(&(write_report(&report)? + "\n"))?;
    } else if !args.quiet {
        // Without test rows a regression has only scores on the rows that it has seen.
        let scored = settings.fit.model == Some(ModelKind::Mlp) || report.test.is_some();
        let scores = if scored { scores(&report) } else { String::new() };
        output::print(&format!(
            "{}{scores}\nReport: {}\n",
            text(&report),
            settings.out().join("report.html").display()
        ))?;
    }
    Ok(match (report.stop.reason == StopReason::Cancelled.name(), report.verdict.trusted) {
        (true, _) => ExitCode::from(130),
        (false, Some(false)) => ExitCode::from(1),
        (false, _) => ExitCode::SUCCESS,
    })
}

/// Time between two signals that are meant as two: `timeout` and shells send one to the process and to its group.
const APART: Duration = Duration::from_secs(1);

/// Ctrl-C stops the run after its current iteration and saves the state reached; a second Ctrl-C quits at once.
fn stop_on_signal(cancel: Cancel, quiet: bool) {
    let mut first: Option<Instant> = None;
    // Fails only if a handler is already set.
    let _ = ctrlc::set_handler(move || match first {
        Some(first) if first.elapsed() >= APART => std::process::exit(130),
        Some(_) => {}
        None => {
            first = Some(Instant::now());
            cancel.cancel();
            if !quiet {
                output::note("\nstopping after this iteration, then saving (Ctrl-C again quits at once)");
            }
        }
    });
}

/// The summary printed at the end.
fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.verdict.sentence);
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    report.verdict.reasons.iter().for_each(|reason| line(format!("  - {reason}")));
    report.verdict.notes.iter().for_each(|note| line(format!("  note: {note}")));
    report.model_notes.iter().for_each(|note| line(format!("  model: {note}")));
    let evidence = match report.log_evidence {
        ReportedEstimate { mean, .. } if mean.is_nan() => "log evidence not known".to_owned(),
        estimate => format!("log evidence {}", with_error(estimate)),
    };
    line(format!(
        "\nELBO {}   {evidence}   k-hat {:.2}   {}, {:.2} s",
        with_error(report.elbo),
        report.k_hat,
        evaluations(&report.evals),
        report.seconds
    ));
    if let Some(AnswerSummary { r_hat: Some(r_hat), ess, chains: Some(chains), .. }) = &report.answer {
        line(format!(
            "{} chains of {} iterations   largest R-hat {r_hat:.4}   fewest effective draws {ess:.0}",
            chains.count, chains.iterations
        ));
    }
    let width = report.parameters.iter().map(|p| p.name.chars().count()).max().unwrap_or(0).clamp(9, 40);
    let by_chains = report.parameters.iter().any(|p| p.r_hat.is_some());
    let more = if by_chains { format!(" {:>8} {:>9}", "R-hat", "effective") } else { String::new() };
    line(format!("\n{:<width$} {:>11} {:>11} {:>11} {:>11}{more}", "parameter", "mean", "sd", "5%", "95%"));
    for p in report.parameters.iter().take(40) {
        let more = match (p.r_hat, p.ess) {
            (Some(r_hat), Some(ess)) => format!(" {r_hat:>8.4} {ess:>9.0}"),
            _ => String::new(),
        };
        let [mean, sd, low, high] = [p.mean, p.sd, p.q05, p.q95].map(|x| rounded(x, p.spread()));
        line(format!("{:<width$} {mean:>11} {sd:>11} {low:>11} {high:>11}{more}", p.name));
    }
    if report.parameters.len() > 40 {
        line(format!("... and {} more", report.parameters.len() - 40));
    }
    text
}

fn with_error(estimate: ReportedEstimate) -> String {
    format!("{} +- {}", rounded(estimate.mean, estimate.se), significant(estimate.se, 2))
}

/// Evaluations in words: all of them, and what they were for.
fn evaluations(evals: &Evals) -> String {
    let Evals { points, diagnostics, chains } = evals;
    let chains = if *chains > 0 { format!(", {chains} for chains") } else { String::new() };
    format!("{} evaluations ({points} to fit, {diagnostics} to diagnose{chains})", evals.total())
}

/// Scores on training and test rows for the terminal.
fn scores(report: &Report) -> String {
    let mut lines = String::from("\n");
    for (name, scores) in [("train", &report.train), ("valid", &report.validation), ("test", &report.test)] {
        let Some(scores) = scores else { continue };
        let figures = [
            ("accuracy", scores.accuracy),
            ("nll", scores.nll),
            ("brier", scores.brier),
            ("ece", scores.ece),
            ("auroc", scores.auroc),
            ("rmse", scores.rmse),
            ("coverage", scores.coverage),
            ("mutual information", scores.mutual_information),
        ];
        let shown = figures.iter().filter_map(|(name, x)| x.map(|x| format!("{name} {}", significant(x, 4))));
        lines += &format!("{name:<6}{}\n", shown.collect::<Vec<_>>().join("   "));
    }
    if let Some(ood) = &report.ood {
        lines += &format!("ood   auroc {:.4}   fpr95 {:.4}   entropy {:.4}\n", ood.auroc, ood.fpr95, ood.entropy);
    }
    lines
}
