//! The coefficients of a regression, and the effects of its groups.

use super::forest::{self, ForestLine};
use super::{FigureLayout, NARROW, Picture};
use crate::figure::Scene;
use crate::{Coefficients, GroupEffects, Parameter, Report, number};

/// Most coefficients in one picture.
const MOST_COEFFICIENTS: usize = 40;
/// Most groups in one picture: of more, those with the largest and the smallest effects.
const MOST_GROUPS: usize = 40;
/// Most pictures of groups.
const MOST_PANELS: usize = 6;

/// The pictures of a regression: coefficients, and one panel per grouping and column.
pub fn all(report: &Report) -> Vec<Picture> {
    let Some(about) = &report.model.coefficients else { return Vec::new() };
    let all: Vec<_> = about.groups.iter().flat_map(|group| (0..group.columns.len()).map(move |k| (group, k))).collect();
    let shown = &all[..all.len().min(MOST_PANELS)];
    let width = super::panel_width(shown.len());
    let groups: Vec<Scene> =
        shown.iter().filter_map(|(group, k)| panel(group, *k, &report.parameters, width)).collect();
    let groups = (!groups.is_empty()).then(|| Picture {
        name: "groups",
        heading: "Effects of the groups",
        caption: "How far each group departs from the coefficient that all share, sorted: medians, and bars over the middle 90%. \
                  Groups with few rows are drawn towards zero."
            .into(),
        layout: FigureLayout::Multiples(groups),
    });
    coefficients(about, report).into_iter().chain(groups).collect()
}

/// What a coefficient changes, by the kind of regression.
fn scale_of(kind: &str) -> &'static str {
    match kind {
        "linear" | "robust" => "mean of the outcome",
        "logistic" | "binomial" => "log odds",
        "ordinal" => "log odds of higher categories",
        "poisson" | "negative-binomial" => "logarithm of the mean count",
        "gamma" => "logarithm of the mean",
        "survival" => "logarithm of the time",
        _ => "linear predictor",
    }
}

fn coefficients(about: &Coefficients, report: &Report) -> Option<Picture> {
    let first = usize::from(about.intercept);
    let shown = report.parameters.get(first..about.count)?;
    let line = |(parameter, spread): (&Parameter, &f64)| ForestLine {
        name: parameter.name.clone(),
        quantiles: [parameter.q05, parameter.q50, parameter.q95].map(|x| x * spread),
    };
    let lines: Vec<ForestLine> =
        shown.iter().zip(about.spreads.get(first..)?).take(MOST_COEFFICIENTS).map(line).collect();
    let more = match shown.len() - lines.len() {
        0 => String::new(),
        more => format!(" {} more are in the table.", number::count(more as u64)),
    };
    let unit = if about.spreads.iter().any(|spread| *spread != 1.0) { "standard deviation" } else { "unit" };
    let scale = scale_of(&report.model.kind);
    let axis = format!("change in the {scale}");
    let draw = |width| forest::draw(&lines, width, "Coefficients", &axis);
    Some(Picture {
        name: "coefficients",
        heading: "Coefficients",
        caption: format!(
            "What a change of each column by one {unit} changes in the {scale} (for categories: the difference from the \
             reference level): medians, and bars over the middle 90%.{more}"
        ),
        layout: FigureLayout::Whole { wide: draw(620.0)?, narrow: draw(NARROW)? },
    })
}

/// The effects of all groups on one column's coefficient.
fn panel(group: &GroupEffects, k: usize, parameters: &[Parameter], width: f64) -> Option<Scene> {
    let of_level = |(level, name): (usize, &String)| {
        let parameter = parameters.get(group.first_effect + level * group.columns.len() + k)?;
        Some(ForestLine { name: name.clone(), quantiles: [parameter.q05, parameter.q50, parameter.q95] })
    };
    let mut lines: Vec<ForestLine> = group.levels.iter().enumerate().map(of_level).collect::<Option<_>>()?;
    lines.sort_by(|a, b| b.quantiles[1].total_cmp(&a.quantiles[1]));
    let hidden = lines.len().saturating_sub(MOST_GROUPS);
    if hidden > 0 {
        lines.drain(MOST_GROUPS / 2..MOST_GROUPS / 2 + hidden);
    }
    let title = format!("{}: {}", group.name, group.columns[k]);
    let axis = match hidden {
        0 => title.clone(),
        hidden => format!("{title} ({} in the middle not shown)", number::count(hidden as u64)),
    };
    forest::draw(&lines, width, &title, &axis)
}
