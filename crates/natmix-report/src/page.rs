//! `report.html`: one self-contained page, and its pictures as files.
//!
//! The verdict comes first, then the key figures, the pictures and the tables. There are no fonts or links to load:
//! everything is inline, and a content security policy forbids anything else. The only script, if any, moves a slider.

mod formation;
mod tables;
#[cfg(test)]
mod tests;

use natmix::answer::level::Level;
use natmix::chains::certificate::R_HAT_LIMIT;
use std::io::ErrorKind;
use std::path::Path;

use natmix::observe::TraceRow;

use super::figure::{TONES, Tone, png, svg};
use super::figures::{self, FigureLayout, Picture};
use super::formation::Formation;
use super::html::{escape, headline, prose};
use super::{Draws, Report, ReportedEstimate, StopSummary, number};

/// Writes `report.html`, and each picture as `figures/NAME.svg` and `figures/NAME.png`, into a folder.
pub fn write_page(
    dir: &Path,
    report: &Report,
    trace: &[TraceRow],
    draws: &Draws,
    formation: Option<&Formation>,
) -> std::io::Result<()> {
    let pictures = figures::all(report, trace, draws);
    let folder = dir.join("figures");
    std::fs::create_dir_all(&folder)?;
    for name in figures::NAMES {
        let [svg_file, png_file] = ["svg", "png"].map(|ending| folder.join(name).with_extension(ending));
        if let Some(picture) = pictures.iter().find(|picture| picture.name == name) {
            let scene = picture.scene();
            std::fs::write(svg_file, svg::file(&scene))?;
            std::fs::write(png_file, png::encode(&scene)?)?;
        } else {
            // Pictures of an earlier fit would be mistaken for those of this one.
            remove(&svg_file)?;
            remove(&png_file)?;
        }
    }
    std::fs::write(dir.join("report.html"), html(report, &pictures, formation))
}

/// Removes a file, if it exists.
pub fn remove(file: &Path) -> std::io::Result<()> {
    std::fs::remove_file(file).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// The page alone, without files.
pub fn page_html(report: &Report, trace: &[TraceRow], draws: &Draws, formation: Option<&Formation>) -> String {
    html(report, &figures::all(report, trace, draws), formation)
}

fn html(report: &Report, pictures: &[Picture], formation: Option<&Formation>) -> String {
    let find = |name: &str| pictures.iter().find(|picture| picture.name == name);
    let row = |names: &[&str]| {
        let cards: String = names.iter().filter_map(|name| find(name)).map(card).collect();
        if cards.is_empty() { cards } else { format!("<div class=\"row\">{cards}</div>") }
    };
    let (formation, policy) = formation::section(formation, report.parameters.len());
    let body = [
        header(report),
        verdict(report),
        key_figures(report),
        row(&["elbo", "weights"]),
        formation,
        row(&["coefficients"]),
        tables::ratios(report),
        row(&["groups"]),
        row(&["shrinkage"]),
        row(&["conditional"]),
        row(&["marginals"]),
        row(&["pairs"]),
        tables::parameters(&report.parameters),
        row(&["traces"]),
        row(&["ranks"]),
        row(&["energy"]),
        model_notes(report),
        row(&["survival"]),
        row(&["outcome"]),
        row(&["checks"]),
        predictions(&find, report),
        tables::settings(report),
    ]
    .concat();
    with_policy(&report.model.summary.replace('`', ""), &body, &policy)
}

/// A whole page from its title and its body, with the style of a report.
pub fn document(title: &str, body: &str) -> String {
    with_policy(title, body, "")
}

/// Like [`document`], with additions to the content security policy.
fn with_policy(title: &str, body: &str, policy: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:{policy}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{}{}</style>\n</head>\n\
         <body>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
        palette(),
        include_str!("style.css")
    )
}

/// Pictures and tables for models with data, two per row.
fn predictions<'a>(find: &dyn Fn(&str) -> Option<&'a Picture>, report: &Report) -> String {
    let pictures: String = ["calibration", "roc", "residuals"].into_iter().filter_map(find).map(card).collect();
    let cards = pictures + &tables::scores(report) + &tables::confusion(report) + &tables::loo(report);
    let cards = if cards.is_empty() { cards } else { format!("<div class=\"pair\">{cards}</div>") };
    match find("classes").map(card) {
        Some(classes) => format!("{cards}<div class=\"row\">{classes}</div>"),
        None => cards,
    }
}

/// The colours of the pictures as variables of the page, for light and dark themes, and the classes that use them.
fn palette() -> String {
    let variables = |pick: fn(&Tone) -> [u8; 3]| -> String {
        let line = |tone: &Tone| {
            let [r, g, b] = pick(tone);
            format!("--{}:#{r:02x}{g:02x}{b:02x};", tone.name)
        };
        TONES.iter().map(line).collect()
    };
    let classes: String =
        TONES.iter().map(|tone| format!(".f-{0}{{fill:var(--{0})}}.k-{0}{{stroke:var(--{0})}}", tone.name)).collect();
    let (light, dark) = (variables(|tone| tone.light), variables(|tone| tone.dark));
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{classes}\n")
}

fn header(report: &Report) -> String {
    let kind = match report.model.kind.as_str() {
        "logistic" => "Logistic regression",
        "linear" => "Linear regression",
        "poisson" => "Poisson regression",
        "softmax" => "Softmax regression",
        "negative-binomial" => "Negative binomial regression",
        "robust" => "Robust regression",
        "binomial" => "Binomial regression",
        "ordinal" => "Ordinal regression",
        "gamma" => "Gamma regression",
        "survival" => "Survival regression",
        "mlp" => "Bayesian neural network",
        "density" => "Density",
        other => other,
    };
    format!("<header><p class=\"kind\">{}</p><h1>{}</h1></header>\n", escape(kind), headline(&report.model.summary))
}

/// The verdict, by colour, symbol and words.
fn verdict(report: &Report) -> String {
    let verdict = &report.verdict;
    let (class, answer, sign) = match verdict.trusted {
        Some(false) => ("bad", "Do not trust this fit", "M7 7l10 10M17 7L7 17"),
        Some(true) if verdict.reasons.is_empty() => ("good", "You can trust this fit", "M6 12.5l4 4 8-9"),
        Some(true) => ("care", "Use this fit with care", "M12 6v7M12 17v.2"),
        None => ("care", "Not judged", "M12 6v7M12 17v.2"),
    };
    let list = |class: &str, heading: &str, lines: &[String]| {
        if lines.is_empty() {
            return String::new();
        }
        let items: String = lines.iter().map(|line| format!("<li>{}</li>", prose(line))).collect();
        format!("<h2>{heading}</h2><ul class=\"{class}\">{items}</ul>")
    };
    format!(
        "<section id=\"verdict\" class=\"verdict {class}\">\
         <svg class=\"sign\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><circle cx=\"12\" cy=\"12\" r=\"12\"/><path d=\"{sign}\"/></svg>\
         <div><p class=\"answer\">{answer}</p><p class=\"sentence\">{}</p>{}{}</div></section>\n",
        prose(&verdict.sentence),
        list("reasons", "Reasons for caution, and what to try", &verdict.reasons),
        list("notes", "Notes", &verdict.notes)
    )
}

/// Remarks on the model, apart from the verdict.
fn model_notes(report: &Report) -> String {
    if report.model_notes.is_empty() {
        return String::new();
    }
    let items: String = report.model_notes.iter().map(|note| format!("<li>{}</li>", prose(note))).collect();
    format!(
        "<section id=\"model\" class=\"card\"><h2>Notes on the model</h2><ul class=\"notes\">{items}</ul>\
         <p class=\"aside\">They are about the model and the data, not about the fit, and do not change the verdict.</p></section>\n"
    )
}

/// One key figure: its name, its value, and a line below.
struct KeyFigure {
    name: &'static str,
    value: String,
    below: String,
}

fn key_figures(report: &Report) -> String {
    let estimate = |name, estimate: ReportedEstimate| KeyFigure {
        name,
        value: number::rounded(estimate.mean, estimate.se),
        below: match estimate {
            ReportedEstimate { se, .. } if se.is_finite() => format!("± {} std. error", number::significant(se, 2)),
            ReportedEstimate { mean, .. } if mean.is_nan() => "not known".into(),
            _ => "error unknown".into(),
        },
    };
    let all = [
        estimate("ELBO", report.elbo),
        estimate("Log evidence", report.log_evidence),
        k_hat(report),
        r_hat(report).unwrap_or_else(|| effective_draws(report)),
        answer(report),
        KeyFigure {
            name: "Modes",
            value: number::count(report.modes as u64),
            below: plural(report.components.len() as u64, "component"),
        },
        KeyFigure {
            name: "Evaluations",
            value: number::count(report.evals.total()),
            below: match (number::count(report.evals.diagnostics), report.evals.chains) {
                (diagnostics, 0) => format!("{diagnostics} of them for diagnostics"),
                (diagnostics, chains) => {
                    format!("{diagnostics} of them for diagnostics, {} for chains", number::count(chains))
                }
            },
        },
        KeyFigure {
            name: "Time",
            value: number::duration(report.seconds),
            below: format!("{}; {}", plural(report.iterations, "iteration"), stopped(&report.stop)),
        },
    ];
    let cards: String = all
        .iter()
        .map(|figure| {
            let (value, below) = (escape(&figure.value), escape(&figure.below));
            let class = if figure.value.chars().count() > 12 { " class=\"long\"" } else { "" };
            format!("<div><dt>{}</dt><dd{class}>{value}</dd><dd class=\"below\">{below}</dd></div>", figure.name)
        })
        .collect();
    format!("<section id=\"figures\"><dl class=\"figures\">{cards}</dl></section>\n")
}

/// Why the run ended.
fn stopped(stop: &StopSummary) -> String {
    match (&stop.reason[..], stop.converged) {
        ("answer-holds", _) => "the answer holds".into(),
        (_, true) => "the ELBO converged".into(),
        (reason, false) => format!("stopped before the ELBO converged ({reason})"),
    }
}

fn answer(report: &Report) -> KeyFigure {
    let (value, below) = match &report.answer {
        Some(answer) => match answer.level {
            Level::Mixture => ("mixture", "draws of the mixture itself".to_owned()),
            Level::Weighted => ("weighted", format!("{} effective draws", number::count(answer.ess.round() as u64))),
            Level::Chains => ("chains", format!("{} effective draws", number::count(answer.ess.round() as u64))),
            Level::None => ("none", "no draws hold the limits".to_owned()),
        },
        None => ("mixture", "draws of the mixture itself".to_owned()),
    };
    KeyFigure { name: "Answer", value: value.into(), below }
}

fn k_hat(report: &Report) -> KeyFigure {
    let limit = number::fixed(report.k_threshold, 2);
    let below = if report.k_hat.is_nan() {
        "could not be estimated".into()
    } else if report.k_hat < report.k_threshold {
        format!("✓ below the limit {limit}")
    } else {
        format!("✗ above the limit {limit}")
    };
    KeyFigure { name: "Tail shape k\u{302}", value: number::fixed(report.k_hat, 2), below }
}

/// R-hat in place of what is known about weights, if chains delivered the draws.
fn r_hat(report: &Report) -> Option<KeyFigure> {
    let r_hat = report.answer.as_ref()?.r_hat?;
    let (limit, holds) = (number::fixed(R_HAT_LIMIT, 2), r_hat < R_HAT_LIMIT);
    let below = if holds { format!("✓ below the limit {limit}") } else { format!("✗ not below the limit {limit}") };
    Some(KeyFigure { name: "Largest R\u{302}", value: number::fixed(r_hat, 4), below })
}

fn effective_draws(report: &Report) -> KeyFigure {
    let draws = report.evals.diagnostics;
    if draws == 0 || report.ess > draws as f64 {
        return KeyFigure { name: "Effective draws", value: number::significant(report.ess, 3), below: String::new() };
    }
    KeyFigure {
        name: "Effective draws",
        value: number::percent(report.ess / draws as f64),
        below: format!("{} of {}", number::count(report.ess.round() as u64), number::count(draws)),
    }
}

fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", number::count(n), if n == 1 { "" } else { "s" })
}

fn card(picture: &Picture) -> String {
    let (class, inside) = match &picture.layout {
        FigureLayout::Whole { wide, narrow } => {
            // Limits how far letters grow with the window.
            let most = (1.1 * wide.width).round();
            let [wide, narrow] = [wide, narrow].map(svg::inline);
            let wide = format!("<div class=\"wide\" style=\"max-width:{most}px\">{wide}</div>");
            ("whole", format!("{wide}<div class=\"narrow\">{narrow}</div>"))
        }
        FigureLayout::Half(scene) => ("half", svg::inline(scene)),
        FigureLayout::Multiples(panels) => {
            let two = if matches!(panels.len(), 1 | 2 | 4) { " two" } else { "" };
            let panels: String = panels.iter().map(svg::inline).collect();
            ("whole", format!("<div class=\"multiples{two}\">{panels}</div>"))
        }
    };
    format!(
        "<section id=\"{}\" class=\"card {class}\"><h2>{}</h2><figure>{inside}<figcaption>{}</figcaption></figure></section>\n",
        picture.name,
        picture.heading,
        escape(&picture.caption)
    )
}
