//! The coefficients of a regression, and the effects of its groups.

use super::forest::{self, ForestLine};
use super::{FigureLayout, NARROW, Picture};
use crate::figure::Scene;
use crate::{ClassCoefficients, Coefficients, GroupEffects, Parameter, Report, number};

/// Most coefficients in one picture.
const MOST_COEFFICIENTS: usize = 40;
/// Most classes that are compared with the reference.
const MOST_CLASSES: usize = 9;
/// Most groups in one picture: of more, those with the largest and the smallest effects.
const MOST_GROUPS: usize = 40;
/// Most pictures of groups.
const MOST_PANELS: usize = 6;

/// The pictures of a regression: coefficients, and one panel per grouping and column.
pub fn all(report: &Report) -> Vec<Picture> {
    let Some(about) = &report.model.coefficients else { return Vec::new() };
    let all: Vec<_> = about.groups.iter().flat_map(|group| (0..group.columns.len()).map(move |k| (group, k))).collect();
    let shown = &all[..all.len().min(MOST_PANELS)];
    let hidden = match shown.iter().map(|(group, _)| group.levels.len()).max() {
        Some(most) if most > MOST_GROUPS => {
            format!(" Of more than {MOST_GROUPS} groups, those with the largest and the smallest effects are shown.")
        }
        _ => String::new(),
    };
    let groups = super::panels(shown, |(group, k), width| panel(group, *k, report, width)).map(|layout| Picture {
        name: "groups",
        heading: "Effects of the groups",
        caption: format!(
            "How far each group departs from the coefficient that all share, sorted: medians, and bars over the middle 90%. \
             Groups with few rows are drawn towards zero.{hidden}"
        ),
        layout,
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

/// What the coefficient of a column measures, with its unit.
pub fn measured(kind: &str, column: &str) -> String {
    match column {
        "(intercept)" => format!("intercept ({})", scale_of(kind)),
        _ => format!("{column} ({} per unit)", scale_of(kind)),
    }
}

/// The coefficients of a regression with several classes: one panel for each class but the reference.
fn of_classes(about: &Coefficients, classes: &ClassCoefficients, report: &Report) -> Option<Picture> {
    let first = usize::from(about.intercept);
    let shown = classes.others.len().min(MOST_CLASSES);
    let width = super::panel_width(shown);
    let panel = |(class, name): (usize, &String)| {
        let own = report.parameters.get(class * about.count + first..(class + 1) * about.count)?;
        let columns = classes.columns.get(first..)?.iter().zip(about.spreads.get(first..)?).zip(own);
        let line = |((column, spread), parameter): ((&String, &f64), &Parameter)| ForestLine {
            name: column.clone(),
            quantiles: [parameter.q05, parameter.q50, parameter.q95].map(|x| x * spread),
        };
        let lines: Vec<ForestLine> = columns.take(MOST_COEFFICIENTS).map(line).collect();
        let axis = format!("change in the log odds of {name} against {}", classes.reference);
        forest::draw(&lines, width, &format!("Coefficients of {name}"), &axis)
    };
    let panels: Vec<Scene> = classes.others.iter().take(shown).enumerate().filter_map(panel).collect();
    let hidden = classes.others.len() - shown;
    let more = if hidden > 0 || about.count - first > MOST_COEFFICIENTS { " More are in the table." } else { "" };
    (!panels.is_empty()).then(|| Picture {
        name: "coefficients",
        heading: "Coefficients",
        caption: format!(
            "What a change of each column by one {} changes in the log odds of each class against {} (for categories: the difference              from the reference level): medians, and bars over the middle 90%.{more}",
            unit_of(about),
            classes.reference
        ),
        layout: FigureLayout::Multiples(panels),
    })
}

/// By what a column changes in the pictures.
fn unit_of(about: &Coefficients) -> &'static str {
    if about.spreads.iter().any(|spread| *spread != 1.0) { "standard deviation" } else { "unit" }
}

fn coefficients(about: &Coefficients, report: &Report) -> Option<Picture> {
    if let Some(classes) = &about.classes {
        return of_classes(about, classes, report);
    }
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
    let unit = unit_of(about);
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
fn panel(group: &GroupEffects, k: usize, report: &Report, width: f64) -> Option<Scene> {
    let of_level = |(level, name): (usize, &String)| {
        let parameter = report.parameters.get(group.first_effect + level * group.columns.len() + k)?;
        Some(ForestLine { name: name.clone(), quantiles: [parameter.q05, parameter.q50, parameter.q95] })
    };
    let mut lines: Vec<ForestLine> = group.levels.iter().enumerate().map(of_level).collect::<Option<_>>()?;
    lines.sort_by(|a, b| b.quantiles[1].total_cmp(&a.quantiles[1]));
    let hidden = lines.len().saturating_sub(MOST_GROUPS);
    if hidden > 0 {
        lines.drain(MOST_GROUPS / 2..MOST_GROUPS / 2 + hidden);
    }
    let column = &group.columns[k];
    let title = format!("{}: {column}", group.name);
    let axis = format!("{}: {}", group.name, measured(&report.model.kind, column));
    forest::draw(&lines, width, &title, &axis)
}
