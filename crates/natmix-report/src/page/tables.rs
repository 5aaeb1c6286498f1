//! The tables of the page: parameters, scores, leave-one-out, settings. Each scrolls inside its own box.

use crate::html::escape;
use crate::{Parameter, Report, Scores, number};

/// Most rows of the parameter table: a network has thousands of parameters, and `report.json` has them all.
const MOST_ROWS: usize = 200;
/// Most letters of a name shown in a table.
const MOST_LETTERS: usize = 60;

/// Mean, standard deviation and quantiles of every parameter.
pub fn parameters(parameters: &[Parameter]) -> String {
    if parameters.is_empty() {
        return String::new();
    }
    let shown = &parameters[..parameters.len().min(MOST_ROWS)];
    let range = common_range(shown);
    let by_chains = shown.iter().any(|parameter| parameter.r_hat.is_some());
    let rows: String = shown.iter().map(|parameter| parameter_row(parameter, range, by_chains)).collect();
    let mixing = if by_chains { "<th scope=\"col\">R\u{302}</th><th scope=\"col\">effective draws</th>" } else { "" };
    let bar = if range.is_some() { "<th scope=\"col\" class=\"bar\">90% interval</th>" } else { "" };
    let more = match parameters.len() - shown.len() {
        0 => String::new(),
        more => format!("<p class=\"aside\">{} more are in report.json.</p>", number::count(more as u64)),
    };
    format!(
        "<section id=\"parameters\" class=\"card\"><h2>Parameters</h2><div class=\"box tall\"><table>\
         <thead><tr><th scope=\"col\">name</th><th scope=\"col\">mean</th><th scope=\"col\">sd</th>\
         <th scope=\"col\">5%</th><th scope=\"col\">50%</th><th scope=\"col\">95%</th>{mixing}{bar}</tr></thead>\
         <tbody>{rows}</tbody></table></div>{more}</section>\n"
    )
}

fn parameter_row(parameter: &Parameter, range: Option<(f64, f64)>, by_chains: bool) -> String {
    let numbers: String = [parameter.mean, parameter.sd, parameter.q05, parameter.q50, parameter.q95]
        .map(|x| format!("<td>{}</td>", number::rounded(x, parameter.spread())))
        .concat();
    let cell = |x: Option<f64>, text: &dyn Fn(f64) -> String| {
        let text = x.filter(|x| x.is_finite()).map_or(number::UNKNOWN.to_owned(), text);
        format!("<td>{text}</td>")
    };
    let mixing = match by_chains {
        true => {
            let count = |x: f64| number::count(x.round() as u64);
            cell(parameter.r_hat, &|x| number::fixed(x, 4)) + &cell(parameter.ess, &count)
        }
        false => String::new(),
    };
    let bar = range.map_or(String::new(), |range| format!("<td class=\"bar\">{}</td>", interval(parameter, range)));
    format!("<tr><th scope=\"row\">{}</th>{numbers}{mixing}{bar}</tr>", name(&parameter.name))
}

fn name(name: &str) -> String {
    if name.chars().count() <= MOST_LETTERS {
        return breakable(name);
    }
    let head: String = name.chars().take(MOST_LETTERS - 1).collect();
    let whole: String = name.chars().take(500).collect();
    format!("<span title=\"{}\">{}…</span>", escape(&whole), breakable(head.trim_end()))
}

/// A name that a narrow column breaks between a column and its level rather than within a word.
fn breakable(name: &str) -> String {
    escape(name).replace('=', "=<wbr/>").replace('[', "<wbr/>[").replace(':', ":<wbr/>")
}

/// A range that includes every interval and zero; `None` if one interval would hide the others.
fn common_range(parameters: &[Parameter]) -> Option<(f64, f64)> {
    let finite = || parameters.iter().filter(|p| p.q05.is_finite() && p.q95.is_finite());
    let (lo, hi) = finite().fold((0.0_f64, 0.0_f64), |(lo, hi), p| (lo.min(p.q05), hi.max(p.q95)));
    let mut widths: Vec<f64> = finite().map(|p| p.q95 - p.q05).collect();
    widths.sort_by(f64::total_cmp);
    let typical = *widths.get(widths.len() / 2)?;
    (parameters.len() > 1 && hi > lo && typical > 0.01 * (hi - lo)).then_some((lo, hi))
}

fn interval(parameter: &Parameter, (lo, hi): (f64, f64)) -> String {
    let place = |x: f64| (2.0 + 116.0 * (x - lo) / (hi - lo)).clamp(2.0, 118.0);
    let [a, m, b, zero] = [parameter.q05, parameter.q50, parameter.q95, 0.0].map(place);
    if [a, m, b].iter().any(|x| x.is_nan()) {
        return String::new();
    }
    format!(
        "<svg viewBox=\"0 0 120 14\" aria-hidden=\"true\"><path class=\"k-axis\" d=\"M{zero:.1} 0V14\" stroke-width=\"1\"/>\
         <path class=\"k-s0\" d=\"M{a:.1} 7H{b:.1}\" stroke-width=\"2\"/><circle class=\"f-s0\" cx=\"{m:.1}\" cy=\"7\" r=\"3\"/></svg>"
    )
}

/// Exponentials of the coefficients, where these are ratios that people speak of.
pub fn ratios(report: &Report) -> String {
    let Some(about) = &report.model.coefficients else { return String::new() };
    let blocks = about.classes.as_ref().map_or(1, |classes| classes.others.len());
    let count = blocks.saturating_mul(about.count);
    let of_block = |own: &'_ [Parameter]| own.get(usize::from(about.intercept)..).unwrap_or_default().to_vec();
    let shown: Vec<Parameter> =
        report.parameters.get(..count).unwrap_or_default().chunks(about.count.max(1)).flat_map(of_block).collect();
    let (Some(ratio), false) = (&about.ratio, shown.is_empty()) else { return String::new() };
    let against = about
        .classes
        .as_ref()
        .map_or(String::new(), |classes| format!("Odds of each class against {}. ", escape(&classes.reference)));
    let row = |parameter: &Parameter| {
        let cells: String = [parameter.q50, parameter.q05, parameter.q95]
            .map(|x| format!("<td>{}</td>", number::significant(x.exp(), 3)))
            .concat();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", name(&parameter.name))
    };
    let rows: String = shown.iter().take(MOST_ROWS).map(row).collect();
    let heading = match ratio.as_str() {
        "odds ratio" => "Odds ratios",
        "rate ratio" => "Rate ratios",
        _ => "Ratios",
    };
    let ratio = escape(ratio);
    format!(
        "<section id=\"ratios\" class=\"card\"><h2>{heading}</h2><div class=\"box\"><table>\
         <thead><tr><th scope=\"col\">name</th><th scope=\"col\">{ratio}</th><th scope=\"col\">5%</th>\
         <th scope=\"col\">95%</th></tr></thead><tbody>{rows}</tbody></table></div>\
         <p class=\"aside\">{against}For one unit more of a column, or for a level instead of the reference level; 1 is no effect.</p>\
         </section>\n"
    )
}

/// One score: its label and its value.
type Score = (&'static str, fn(&Scores) -> Option<f64>);

/// Scores on training, validation and test rows.
pub fn scores(report: &Report) -> String {
    let sets = [("train", &report.train), ("validation", &report.validation), ("test", &report.test)];
    let sets: Vec<(&str, &Scores)> = sets.into_iter().filter_map(|(n, s)| Some((n, s.as_ref()?))).collect();
    if sets.is_empty() {
        return String::new();
    }
    let all: [Score; 8] = [
        ("Accuracy", |s| s.accuracy),
        ("Area under the ROC curve", |s| s.auroc),
        ("Negative log likelihood per row", |s| s.nll),
        ("Brier score", |s| s.brier),
        ("Calibration error (15 bins)", |s| s.ece),
        ("as large by chance", |s| s.ece_limit),
        ("Root mean squared error", |s| s.rmse),
        ("Inside the 90% interval", |s| s.coverage),
    ];
    let line = |label: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr><th scope=\"row\">{label}</th>{cells}</tr>")
    };
    let rows: String = all
        .iter()
        .filter(|(_, pick)| sets.iter().any(|set| pick(set.1).is_some()))
        .map(|(label, pick)| {
            let cell = |x: Option<f64>| {
                x.map_or(number::UNKNOWN.into(), |x| {
                    if x.abs() < 10.0 { number::fixed(x, 4) } else { number::significant(x, 5) }
                })
            };
            line(label, sets.iter().map(|set| cell(pick(set.1))).collect())
        })
        .collect();
    let counts = line("Rows", sets.iter().map(|set| number::count(set.1.rows as u64)).collect());
    let head: String = sets.iter().map(|set| format!("<th scope=\"col\">{}</th>", set.0)).collect();
    format!(
        "<section id=\"scores\" class=\"card\"><h2>Predictions</h2><div class=\"box\"><table>\
         <thead><tr><th scope=\"col\">score</th>{head}</tr></thead><tbody>{rows}{counts}</tbody></table></div></section>\n"
    )
}

/// Most classes of a table of predicted classes.
const MOST_CLASSES: usize = 12;

/// Rows by class and likeliest class.
pub fn confusion(report: &Report) -> String {
    let Some(found) = report.class_predictions.as_ref() else { return String::new() };
    let (names, counts) = (&found.names, &found.confusion);
    let square = counts.len() == names.len() && counts.iter().all(|row| row.len() == names.len());
    if !square || !(2..=MOST_CLASSES).contains(&names.len()) {
        return String::new();
    }
    let head: String = names.iter().map(|class| format!("<th scope=\"col\">{}</th>", name(class))).collect();
    let line = |(class, (label, row)): (usize, (&String, &Vec<usize>))| {
        let cell = |(other, count): (usize, &usize)| {
            let count = number::count(*count as u64);
            if other == class { format!("<td><b>{count}</b></td>") } else { format!("<td>{count}</td>") }
        };
        let cells: String = row.iter().enumerate().map(cell).collect();
        let all = row.iter().sum::<usize>();
        let right = if all == 0 { number::UNKNOWN.into() } else { number::percent(row[class] as f64 / all as f64) };
        format!("<tr><th scope=\"row\">{}</th>{cells}<td>{right}</td></tr>", name(label))
    };
    let rows: String = names.iter().zip(counts).enumerate().map(line).collect();
    let of = if found.test { "Test rows" } else { "Rows of the fit, each predicted without itself," };
    format!(
        "<section id=\"confusion\" class=\"card\"><h2>Predicted classes</h2><div class=\"box\"><table>\
         <thead><tr><th scope=\"col\">came \\ predicted</th>{head}<th scope=\"col\">right</th></tr></thead><tbody>{rows}</tbody></table></div>\
         <p class=\"aside\">{of} by the class that came (rows) and the likeliest class (columns).</p></section>\n"
    )
}

/// Leave-one-out cross-validation.
pub fn loo(report: &Report) -> String {
    let Some(loo) = &report.loo else { return String::new() };
    let of = report.model.rows.map_or(String::new(), |rows| format!(" of {}", number::count(rows as u64)));
    let sentence = match loo.bad_rows {
        0 => {
            format!("✓ k\u{302} is small enough for every row (the largest is {}).", number::fixed(loo.max_k_hat, 2))
        }
        bad => format!(
            "✗ Rows too influential for importance sampling: {}{of} (largest k\u{302} {}). Their contribution cannot be \
             trusted: inspect these rows, or refit without them.",
            number::count(bad as u64),
            number::fixed(loo.max_k_hat, 2)
        ),
    };
    let figures = [
        ("Expected log predictive density", number::rounded(loo.elpd, loo.se)),
        ("Standard error", number::significant(loo.se, 2)),
        ("Effective number of parameters", number::significant(loo.p_loo, 3)),
        ("Rows that cannot be trusted", number::count(loo.bad_rows as u64) + &of),
    ];
    let cells: String = figures.iter().map(|(n, v)| format!("<div><dt>{n}</dt><dd>{v}</dd></div>")).collect();
    format!(
        "<section id=\"loo\" class=\"card\"><h2>Leave-one-out cross-validation</h2>\
         <dl class=\"figures plain\">{cells}</dl><p class=\"aside\">{sentence}</p></section>\n"
    )
}

/// Priors and settings, collapsed, and the version and seed needed to repeat the run.
pub fn settings(report: &Report) -> String {
    let priors: String = report.model.priors.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
    let priors = if priors.is_empty() { priors } else { format!("<h3>Priors</h3><ul>{priors}</ul>") };
    let config = serde_json::to_string_pretty(&report.config).unwrap_or_default();
    let config: Vec<String> = config.lines().map(escape).collect();
    format!(
        "<details id=\"settings\" class=\"card\"><summary>Priors and settings</summary>{priors}<h3>Settings</h3>\
         <pre class=\"box\">{}</pre></details>\n<footer>natmix {} · seed {}</footer>",
        config.join("\n"),
        escape(&report.version),
        report.seed
    )
}
