//! The pictures of a report: their names, captions and layout, on the page and in files.

mod chains;
mod checks;
mod conditional;
mod density;
pub(crate) mod differences;
mod effects;
mod elbo;
mod forest;
pub mod formation;
mod interest;
mod joint;
mod marginals;
mod outcome;
mod pairs;
mod scores;
mod shrinkage;
mod survival;
pub(crate) mod weights;

use natmix::observe::TraceRow;

use super::figure::{Ink, Scene};
use super::{Draws, Report, number};
use interest::Ranked;

/// The names of all possible pictures.
pub const NAMES: [&str; 18] = [
    "elbo",
    "weights",
    "coefficients",
    "groups",
    "shrinkage",
    "conditional",
    "marginals",
    "pairs",
    "traces",
    "ranks",
    "energy",
    "survival",
    "outcome",
    "checks",
    "calibration",
    "classes",
    "roc",
    "residuals",
];
/// Most marginals shown.
const MOST_MARGINALS: usize = 12;
/// Width that fits on a phone without shrinking.
pub const NARROW: f64 = 350.0;

/// Width of one of several small pictures: up to two, or four, are shown two per row, others three per row.
fn panel_width(count: usize) -> f64 {
    if matches!(count, 1 | 2 | 4) { 400.0 } else { 300.0 }
}

/// The layout of several small pictures, one for each thing that can be drawn; a single one has the full width.
fn panels<T>(things: &[T], draw: impl Fn(&T, f64) -> Option<Scene>) -> Option<FigureLayout> {
    if let [one] = things {
        return Some(FigureLayout::Whole { wide: draw(one, 620.0)?, narrow: draw(one, NARROW)? });
    }
    let scenes: Vec<Scene> = things.iter().filter_map(|thing| draw(thing, panel_width(things.len()))).collect();
    (!scenes.is_empty()).then_some(FigureLayout::Multiples(scenes))
}

/// How a picture is laid out on the page.
pub enum FigureLayout {
    /// Full width: drawn twice, so that letters keep their size on a phone.
    Whole { wide: Scene, narrow: Scene },
    /// Half width, next to another where there is room.
    Half(Scene),
    /// Many small ones.
    Multiples(Vec<Scene>),
}

/// A picture with its heading and caption.
pub struct Picture {
    /// File name without extension, and anchor on the page.
    pub name: &'static str,
    /// Heading.
    pub heading: &'static str,
    /// What it shows and how to read it.
    pub caption: String,
    /// The picture.
    pub layout: FigureLayout,
}

impl Picture {
    /// The picture as a single scene for a file.
    pub fn scene(&self) -> Scene {
        let one = |scene: &Scene| Scene::grid(std::slice::from_ref(scene), 1, scene.title.clone());
        match &self.layout {
            FigureLayout::Whole { wide, .. } => one(wide),
            FigureLayout::Half(scene) => one(scene),
            FigureLayout::Multiples(panels) => Scene::grid(panels, if panels.len() > 4 { 3 } else { 2 }, self.heading),
        }
    }
}

/// The pictures that a report has data for, in the order of the page.
pub fn all(report: &Report, trace: &[TraceRow], draws: &Draws) -> Vec<Picture> {
    // Of hundreds of effects of groups none is special: there is a picture of all of them.
    let of_a_group = |j: usize| report.model.coefficients.as_ref().is_some_and(|about| about.is_of_a_group(j));
    let ranked = Ranked::new(draws, |j| !of_a_group(j));
    let weights = weights(report);
    let elbo = elbo(report, trace, if weights.is_some() { 620.0 } else { 1000.0 });
    let first = [elbo, weights, marginals(&ranked, draws.names.len()), pairs(report, &ranked)];
    let first = first.into_iter().flatten().chain(effects::all(report)).chain(shrinkage::picture(report));
    let all = first.chain(conditional(report)).chain(chains(report, draws));
    let all = all.chain(survival(report)).chain(outcome(report)).chain(checks(report));
    all.chain(predictions(report)).collect()
}

/// How the chains moved, if they delivered the draws.
fn chains(report: &Report, draws: &Draws) -> Vec<Picture> {
    let (worst, Some(about)) = (chains::worst(report, draws), &draws.chains) else { return Vec::new() };
    let which = match draws.names.len() {
        all if all > worst.len() => {
            format!(" Shown are {} of {all} parameters, those with the largest R\u{302}.", worst.len())
        }
        _ => String::new(),
    };
    let traces = Picture {
        name: "traces",
        heading: "Traces of the chains",
        caption: format!(
            "One of the {} chains from each of {} starts, by colour, and grey the middle 90% of all {} chains. Chains that have \
             forgotten their start fill the band, without a trend.{which}",
            about.per_start,
            about.starts(),
            about.count
        ),
        layout: FigureLayout::Multiples(worst.iter().map(chains::ChainColumn::trace).collect()),
    };
    let ranks = Picture {
        name: "ranks",
        heading: "Ranks of the draws",
        caption: format!(
            "Where the draws from each start lie among all draws, one row per start: evenly, at the dashed line, if the chains \
             agree.{which}"
        ),
        layout: FigureLayout::Multiples(worst.iter().map(chains::ChainColumn::ranks).collect()),
    };
    let energy = || {
        let layout =
            FigureLayout::Whole { wide: chains::energy(about, 620.0)?, narrow: chains::energy(about, NARROW)? };
        let caption = "The energies of the trajectories, and by how much new momenta change them at a time. Where the changes are \
                       much narrower (E-BFMI below 0.3), the chains are slow to reach the tails."
            .into();
        Some(Picture { name: "energy", heading: "Energy", caption, layout })
    };
    if worst.is_empty() { Vec::new() } else { [traces, ranks].into_iter().chain(energy()).collect() }
}

/// Colour of a component among `count`; one colour for all if there are too many to distinguish.
fn colour(index: usize, count: usize) -> Ink {
    Ink::series(if count <= Ink::SERIES { index } else { 0 })
}

fn elbo(report: &Report, trace: &[TraceRow], width: f64) -> Option<Picture> {
    let draw = |width| elbo::draw(trace, report.elbo, width);
    Some(Picture {
        name: "elbo",
        heading: "How the fit went",
        caption: "Evidence lower bound against evaluations of the target; larger is better. The band is two standard \
                  errors wide on each side. The curve of a converged fit ends flat."
            .into(),
        layout: FigureLayout::Whole { wide: draw(width)?, narrow: draw(NARROW)? },
    })
}

fn weights(report: &Report) -> Option<Picture> {
    if report.modes < 2 {
        return None;
    }
    let caption = format!("How the posterior is shared among its {} components.", report.components.len());
    let scene = weights::draw(&report.components, 340.0)?;
    Some(Picture { name: "weights", heading: "Component weights", caption, layout: FigureLayout::Half(scene) })
}

fn marginals(ranked: &Ranked, parameters: usize) -> Option<Picture> {
    let shown = &ranked.columns[..ranked.columns.len().min(MOST_MARGINALS)];
    let width = panel_width(shown.len());
    let panels: Vec<Scene> = shown.iter().map(|column| marginals::draw(column, width)).collect();
    let which = if panels.len() < parameters {
        format!(" Shown are {} of {parameters}, those with several modes or long tails first.", panels.len())
    } else {
        String::new()
    };
    let caption = format!(
        "Density of each parameter, in its own units, from posterior draws. The darker part holds the middle 90%; marks show modes.{which}"
    );
    let layout = FigureLayout::Multiples(panels);
    (!ranked.columns.is_empty()).then_some(Picture { name: "marginals", heading: "Marginals", caption, layout })
}

fn pairs(report: &Report, ranked: &Ranked) -> Option<Picture> {
    // The components of a single mode are those of one bump: telling them apart says nothing about the posterior.
    let coloured = if report.modes > 1 { report.components.len() } else { 1 };
    let draw = |width| pairs::draw(ranked, coloured, width);
    Some(Picture {
        name: "pairs",
        heading: "Pairs",
        caption: "Draws below the diagonal; above it the regions that hold 50% (thick) and 90% (thin) of them.".into(),
        layout: FigureLayout::Whole { wide: draw(900.0)?, narrow: draw(NARROW)? },
    })
}

fn conditional(report: &Report) -> Option<Picture> {
    let of_classes = report.conditional_effects.iter().any(|effect| !effect.classes.is_empty());
    Some(Picture {
        name: "conditional",
        heading: "Conditional effects",
        caption: format!(
            "{} as one column varies, with the middle 90%, while numbers have their mean, categories their reference level, \
             and groups no effect of their own.",
            if of_classes { "How likely each class is" } else { "What the outcome is expected to be" }
        ),
        layout: panels(&report.conditional_effects, conditional::draw)?,
    })
}

fn survival(report: &Report) -> Option<Picture> {
    let check = report.survival_check.as_ref()?;
    let draw = |width| survival::draw(check, width);
    Some(Picture {
        name: "survival",
        heading: "Does the model reproduce survival?",
        caption: format!(
            "Which share of rows is without the event at each time, by the Kaplan-Meier estimate, which takes into account that {} of {} rows \
             are censored. Orange: the same estimate of data sets drawn from the fitted model and censored likewise, median and \
             middle 90%. Data outside the band are survival that the model does not reproduce.",
            number::count(check.censored as u64),
            number::count(check.rows as u64)
        ),
        layout: FigureLayout::Whole { wide: draw(620.0)?, narrow: draw(NARROW)? },
    })
}

fn outcome(report: &Report) -> Option<Picture> {
    let check = report.outcome_check.as_ref()?;
    let draw = |width| outcome::draw(check, width);
    Some(Picture {
        name: "outcome",
        heading: "Does the model reproduce the outcome?",
        caption: "Bars: how often the outcome has which value in the data. Dots and lines: the same in data sets drawn from the fitted \
                  model, medians and the middle 90%. A bar that ends beyond its line is a value that the model gives too often or too \
                  rarely; one line in ten is missed by chance."
            .into(),
        layout: FigureLayout::Whole { wide: draw(620.0)?, narrow: draw(NARROW)? },
    })
}

fn checks(report: &Report) -> Option<Picture> {
    Some(Picture {
        name: "checks",
        heading: "Does the model reproduce statistics of the data?",
        caption:
            "Bars: each statistic in data sets drawn from the fitted model. Line: its value in the data. A line far \
                  from the bars is a feature of the data that the model does not reproduce."
                .into(),
        layout: panels(&report.model_checks, checks::draw)?,
    })
}

/// Most classes whose calibration is shown.
const MOST_CLASSES: usize = 9;

/// The calibration of each class; the two of a binary outcome are one another's mirror image, and have a picture.
fn classes(report: &Report) -> Option<Picture> {
    let found = report.class_predictions.as_ref().filter(|found| found.names.len() > 2)?;
    let shown = found.names.iter().zip(&found.calibration).take(MOST_CLASSES);
    let panels: Vec<Scene> = shown.map(|(name, bins)| scores::calibration_of(name, bins)).collect();
    let which = if found.test { "test rows" } else { "rows of the fit, each predicted without itself" };
    Some(Picture {
        name: "classes",
        heading: "Calibration of each class",
        caption: format!(
            "Observed against predicted frequency of each class, one dot per bin of {which}, with two standard errors. \
             Well-calibrated probabilities lie on the diagonal."
        ),
        layout: FigureLayout::Multiples(panels),
    })
}

fn predictions(report: &Report) -> impl Iterator<Item = Picture> {
    let half = |name, heading, caption: &str, scene: Option<Scene>| {
        Some(Picture { name, heading, caption: caption.into(), layout: FigureLayout::Half(scene?) })
    };
    let all = [
        half(
            "calibration",
            "Calibration",
            "Observed against predicted frequency, one dot per bin of rows, with two standard errors. \
             Well-calibrated probabilities lie on the diagonal.",
            scores::calibration(report),
        ),
        half(
            "roc",
            "ROC curve",
            "True against false positive rate for every threshold. The diagonal is chance.",
            scores::roc(report),
        ),
        half(
            "residuals",
            "Residuals",
            match scores::of_quantiles(report) {
                false => {
                    "Observed minus predicted, in standard deviations, and their mean along the axis. For a good fit they show no \
                     pattern, and about 95% lie inside the grey band."
                }
                true => {
                    "Where each outcome lies in its predictive distribution, as a standard normal number (randomised quantile \
                     residuals), and their mean along the axis. For a good fit they show no pattern, and about 95% lie inside the grey band."
                }
            },
            scores::residuals(report),
        ),
        classes(report),
    ];
    all.into_iter().flatten()
}
