//! One picture per data set: one column per number of components, probability above and entropy below.

use super::DemoSet;
use super::findings::LOST;
use super::measure::{Grid, Measured, entropy};
use natmix_models::Observations;
use natmix_report::figure::contour::contour;
use natmix_report::figure::{Anchor, Ink, Point, Scene, TextLabel};
use natmix_report::number;

/// Side of a panel.
const PANEL: f64 = 184.0;
/// Gap between panels.
const GAP: f64 = 12.0;
/// Space for the labels on the left.
const LEFT: f64 = 26.0;
/// Space for the labels above.
const TOP: f64 = 48.0;
/// Opacity of a certain prediction, and of the largest entropy.
const DEEPEST: f64 = 0.75;

/// Draws the picture.
pub fn draw(set: &DemoSet) -> Scene {
    let step = PANEL + GAP;
    let columns = set.fits.len() + set.failed.len();
    let width = LEFT + step * columns as f64 - GAP + 1.0;
    let title = format!("{}: predicted probability and predictive entropy for 1 to {columns} components", set.title);
    let mut scene = Scene::new(width, TOP + 2.0 * step - GAP + 1.0, title);
    for (row, name) in ["probability", "entropy"].into_iter().enumerate() {
        let middle = TOP + row as f64 * step + 0.5 * PANEL;
        scene.text(TextLabel::new((14.0, middle), name, 13.0, Ink::MUTED).anchored(Anchor::Middle).upright());
    }
    let head = |scene: &mut Scene, components: usize, below: String| -> f64 {
        let x = LEFT + (components - 1) as f64 * step;
        scene.text(TextLabel::new((x, 18.0), format!("K = {components}"), 15.0, Ink::TEXT).bold());
        scene.text(TextLabel::new((x, 37.0), below, 13.0, Ink::MUTED));
        x
    };
    for fit in &set.fits {
        let elbo = format!("ELBO {} ± {}", number::fixed(fit.elbo, 2), number::fixed(fit.elbo_se, 2));
        let x = head(&mut scene, fit.components, elbo);
        top(&mut scene, (x, TOP), set, fit);
        bottom(&mut scene, (x, TOP + step), set, fit);
    }
    for failed in &set.failed {
        let x = head(&mut scene, failed.components, format!("failed after {} steps", number::count(failed.steps)));
        [TOP, TOP + step].into_iter().for_each(|y| frame(&mut scene, (x, y)));
    }
    scene
}

/// Probability, the boundary of each component that has weight (thin) and of the mixture (thick), and the data.
fn top(scene: &mut Scene, corner: Point, set: &DemoSet, fit: &Measured) {
    heat(scene, corner, &fit.probability, |p| {
        let ink = Ink::series(usize::from(p > 0.5));
        (ink, DEEPEST * (2.0 * p - 1.0).abs())
    });
    let lines = |values: &[f64]| -> Vec<Vec<Point>> {
        let place = |(x, y): Point| (corner.0 + PANEL * x, corner.1 + PANEL * (1.0 - y));
        contour(values, Grid::SIDE, 0.5).into_iter().map(|piece| piece.map(place).to_vec()).collect()
    };
    if fit.components > 1 {
        let counts = fit.by_component.iter().zip(&fit.weights).filter(|(_, weight)| **weight >= LOST);
        counts.for_each(|(values, _)| scene.lines(lines(values), Ink::TEXT, 0.7));
    }
    scene.lines(lines(&fit.probability), Ink::TEXT, 2.4);
    for class in [0, 1] {
        let dots = positions(corner, set, class);
        scene.dots(dots.clone(), 3.2, Ink::SURFACE, 1.0);
        scene.dots(dots, 2.3, Ink::series(class), 1.0);
    }
    frame(scene, corner);
}

/// Entropy, and the data in grey.
fn bottom(scene: &mut Scene, corner: Point, set: &DemoSet, fit: &Measured) {
    heat(scene, corner, &fit.probability, |p| (Ink::series(6), DEEPEST * entropy(p) / 2f64.ln()));
    let dots = [0, 1].into_iter().flat_map(|class| positions(corner, set, class)).collect();
    scene.dots(dots, 1.6, Ink::TEXT, 0.8);
    frame(scene, corner);
}

/// A heat map, one cell per grid point.
fn heat(scene: &mut Scene, (x, y): Point, values: &[f64], look: impl Fn(f64) -> (Ink, f64)) {
    let colour = |p: &f64| {
        let (ink, opacity) = look(*p);
        let [r, g, b] = ink.tone().light;
        [r, g, b, (255.0 * opacity.clamp(0.0, 1.0)).round() as u8]
    };
    // Rows of the picture run from top to bottom.
    let colours = values.chunks(Grid::SIDE).rev().flatten().map(colour).collect();
    scene.raster((x, y), (x + PANEL, y + PANEL), Grid::SIDE, colours);
}

fn positions((x, y): Point, set: &DemoSet, class: usize) -> Vec<Point> {
    let table: &Observations = &set.train;
    let Grid { corner, sides, .. } = &set.grid;
    let rows = table.design().chunks_exact(2).zip(table.outcome()).filter(|(_, y)| **y == class as f64);
    let place =
        |at: &[f64]| (x + PANEL * (at[0] - corner[0]) / sides[0], y + PANEL * (1.0 - (at[1] - corner[1]) / sides[1]));
    rows.map(|(at, _)| place(at)).collect()
}

fn frame(scene: &mut Scene, (x, y): Point) {
    let (right, bottom) = (x + PANEL, y + PANEL);
    scene.line(vec![(x, y), (right, y), (right, bottom), (x, bottom), (x, y)], Ink::AXIS, 1.0);
}
