//! Quality of the predictions: calibration, ROC curve and residuals, on training and test rows.

use crate::figure::axis::{self, Panel, Scale};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::{Report, Scores, number};

const WIDTH: f64 = 400.0;

/// Scores on training, validation and test rows, where present, with name and colour.
fn sets(report: &Report) -> impl Iterator<Item = (&'static str, &Scores, Ink)> {
    let train = report.train.as_ref().map(|scores| ("train", scores, Ink::series(0)));
    let test = report.test.as_ref().map(|scores| ("test", scores, Ink::series(1)));
    let validation = report.validation.as_ref().map(|scores| ("validation", scores, Ink::series(2)));
    train.into_iter().chain(validation).chain(test)
}

/// Observed against predicted frequencies with two standard errors.
pub fn calibration(report: &Report) -> Option<Scene> {
    let sets: Vec<_> = sets(report).filter(|set| !set.1.calibration.is_empty()).collect();
    let (mut scene, panel) =
        square("Observed against predicted frequency", "predicted probability", "observed frequency");
    let entries: Vec<_> = sets.iter().map(|set| (set.0.to_owned(), set.2)).collect();
    for (_, scores, ink) in &sets {
        bins(&mut scene, &panel, &scores.calibration, *ink);
    }
    legend(&mut scene, &panel, &entries);
    (!sets.is_empty()).then_some(scene)
}

/// The same for one class, by name.
pub fn calibration_of(name: &str, calibration: &[(f64, f64, usize)]) -> Scene {
    let title = format!("Calibration of {}", text::fit(name, 13.0, true, 300.0));
    let (mut scene, panel) = square(&title, "predicted probability", "observed frequency");
    bins(&mut scene, &panel, calibration, Ink::series(0));
    let label = text::fit(name, 13.0, true, panel.right - panel.left - 20.0);
    scene.text(TextLabel::new((panel.left + 10.0, panel.top + 16.0), label, 13.0, Ink::TEXT).bold());
    scene
}

/// One dot with its error per bin.
fn bins(scene: &mut Scene, panel: &Panel, calibration: &[(f64, f64, usize)], ink: Ink) {
    let bins: Vec<_> = calibration.iter().filter(|bin| bin.0.is_finite() && bin.1.is_finite()).collect();
    let most = bins.iter().map(|bin| bin.2).max().unwrap_or(1).max(1) as f64;
    let line: Vec<_> = bins.iter().map(|bin| panel.at((bin.0, bin.1))).collect();
    scene.line(line, ink, 1.3);
    for &&(predicted, observed, rows) in &bins {
        // One added success and one added failure keep the error of an all-or-nothing bin above zero.
        let n = rows as f64;
        let share = (observed.clamp(0.0, 1.0) * n + 1.0) / (n + 2.0);
        let error = 2.0 * (share * (1.0 - share) / (n + 2.0)).sqrt();
        let bar = vec![panel.at((predicted, observed - error)), panel.at((predicted, observed + error))];
        scene.line(bar, ink, 1.0);
        scene.dots(vec![panel.at((predicted, observed))], 2.5 + 3.0 * (n / most).sqrt(), ink, 0.9);
    }
}

/// True against false positive rate.
pub fn roc(report: &Report) -> Option<Scene> {
    let sets: Vec<_> = sets(report).filter(|set| !set.1.roc.is_empty()).collect();
    let (mut scene, panel) = square("ROC curve", "false positive rate", "true positive rate");
    let name = |name: &str, auroc: Option<f64>| match auroc {
        Some(area) => format!("{name}, area {}", number::fixed(area, 3)),
        None => name.to_owned(),
    };
    let entries: Vec<_> = sets.iter().map(|set| (name(set.0, set.1.auroc), set.2)).collect();
    for (_, scores, ink) in &sets {
        scene.line(scores.roc.iter().map(|p| panel.at(*p)).collect(), *ink, 1.8);
    }
    legend(&mut scene, &panel, &entries);
    (!sets.is_empty()).then_some(scene)
}

/// Whether residuals are randomised quantile residuals: standardised ones are those of normal outcomes, and of networks.
pub fn of_quantiles(report: &Report) -> bool {
    !matches!(report.model.kind.as_str(), "linear" | "mlp")
}

/// Fewest residuals whose means along the axis are shown, and the number of parts.
const FEWEST_FOR_MEANS: usize = 50;
const PARTS: usize = 10;

/// Means of the residuals in parts of the axis with equally many.
fn means(residuals: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(f64, f64)> =
        residuals.iter().copied().filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
    if sorted.len() < FEWEST_FOR_MEANS {
        return Vec::new();
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_part = |part: &[(f64, f64)]| {
        let n = part.len() as f64;
        (part.iter().map(|p| p.0).sum::<f64>() / n, part.iter().map(|p| p.1).sum::<f64>() / n)
    };
    sorted.chunks(sorted.len().div_ceil(PARTS)).map(of_part).collect()
}

/// Residuals against predicted means.
pub fn residuals(report: &Report) -> Option<Scene> {
    let sets: Vec<_> = sets(report).filter(|set| !set.1.residuals.is_empty()).collect();
    let all = || sets.iter().flat_map(|set| &set.1.residuals).filter(|p| p.0.is_finite() && p.1.is_finite());
    let range = |pick: fn(&(f64, f64)) -> f64| {
        all().map(pick).fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)))
    };
    let (x, tallest) = (range(|p| p.0), range(|p| p.1.abs()).1.clamp(2.5, 1e6));
    let x = Scale::linear(x.0, x.1).padded(0.04);
    let y = Scale::linear(-tallest, tallest).padded(0.06);
    let mut scene = Scene::new(WIDTH, 320.0, "Residuals against predictions");
    let y_ticks = axis::ticks(&y, 6);
    let left = 18.0 + axis::label_room(&y_ticks);
    let panel = Panel { left, right: WIDTH - 8.0, top: 28.0, bottom: 276.0, x, y };
    scene.rect((panel.left, panel.py(2.0)), (panel.right, panel.py(-2.0)), Ink::GRID, 0.5);
    panel.y_axis(&mut scene, &y_ticks);
    panel.x_axis(&mut scene, &axis::side_by_side(|n| axis::ticks(&x, n), panel.right - panel.left), false);
    scene.line(vec![(panel.left, panel.py(0.0)), (panel.right, panel.py(0.0))], Ink::AXIS, 1.0);
    let (x_name, y_name) = match (report.model.kind.as_str(), of_quantiles(report)) {
        (_, false) => ("predicted mean", "standardised residual"),
        ("logistic", _) => ("predicted probability", "quantile residual"),
        ("ordinal", _) => ("predicted mean category", "quantile residual"),
        _ => ("predicted mean", "quantile residual"),
    };
    name_axes(&mut scene, &panel, x_name, y_name);
    for (_, scores, ink) in &sets {
        let inside = scores.residuals.iter().filter(|p| p.1.abs() <= tallest);
        scene.dots(inside.map(|p| panel.at(*p)).collect(), 2.0, *ink, 0.45);
    }
    for (_, scores, ink) in &sets {
        let line = means(&scores.residuals).into_iter().map(|(x, y)| panel.at((x, y.clamp(-tallest, tallest))));
        scene.line(line.collect(), *ink, 2.2);
    }
    let entries: Vec<_> = sets.iter().map(|set| (set.0.to_owned(), set.2)).collect();
    legend(&mut scene, &panel, &entries);
    (!sets.is_empty()).then_some(scene)
}

/// A square from 0 to 1 in both directions with its diagonal.
fn square(title: &str, x_name: &str, y_name: &str) -> (Scene, Panel) {
    let mut scene = Scene::new(WIDTH, 402.0, title);
    let unit = Scale::linear(0.0, 1.0);
    let ticks = axis::ticks(&unit, 5);
    let panel = Panel { left: 48.0, right: WIDTH - 8.0, top: 14.0, bottom: 358.0, x: unit, y: unit };
    panel.y_axis(&mut scene, &ticks);
    panel.x_axis(&mut scene, &ticks, true);
    scene.dashed(vec![panel.at((0.0, 0.0)), panel.at((1.0, 1.0))], Ink::AXIS, 1.2);
    name_axes(&mut scene, &panel, x_name, y_name);
    (scene, panel)
}

fn name_axes(scene: &mut Scene, panel: &Panel, x_name: &str, y_name: &str) {
    let x = TextLabel::new((0.5 * (panel.left + panel.right), panel.bottom + 36.0), x_name, 12.0, Ink::MUTED);
    scene.text(x.anchored(Anchor::Middle));
    let y = TextLabel::new((12.0, 0.5 * (panel.top + panel.bottom)), y_name, 12.0, Ink::MUTED);
    scene.text(y.upright().anchored(Anchor::Middle));
}

/// Names of the sets in the lower right corner, which the curves leave free.
fn legend(scene: &mut Scene, panel: &Panel, entries: &[(String, Ink)]) {
    let widest = entries.iter().map(|entry| text::width(&entry.0, 12.0, false)).fold(0.0, f64::max);
    let x = panel.right - widest - 12.0;
    for (i, (name, ink)) in entries.iter().enumerate() {
        let y = panel.bottom - 14.0 - 18.0 * (entries.len() - 1 - i) as f64;
        scene.dots(vec![(x - 9.0, y - 4.0)], 4.5, *ink, 1.0);
        scene.text(TextLabel::new((x, y), name.clone(), 12.0, Ink::TEXT));
    }
}
