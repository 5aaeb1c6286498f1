//! Curves over training steps, one per method, with a legend next to them.

use natmix_report::figure::axis::{self, Panel, Scale, TICK};
use natmix_report::figure::{Anchor, Ink, Scene, TextLabel};
use serde::Serialize;

/// One curve.
#[derive(Debug, Serialize)]
pub struct TrainingCurve {
    /// Its name in the legend.
    pub name: String,
    /// Steps and values.
    pub points: Vec<(f64, f64)>,
}

/// Draws curves; `lowest` cuts off what lies below it, where training begins.
pub fn draw(title: &str, curves: &[TrainingCurve], (lowest, highest): (f64, f64)) -> Scene {
    let (width, height, legend) = (760.0, 320.0, 190.0);
    let mut scene = Scene::new(width, height, title);
    let values = || curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.1)).filter(|y| y.is_finite());
    let low = values().fold(f64::INFINITY, f64::min).max(lowest);
    let high = values().fold(f64::NEG_INFINITY, f64::max).min(highest);
    let last = curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.0)).fold(0.0, f64::max);
    let (x, y) = (Scale::linear(0.0, last), Scale::linear(low, high).padded(0.05));
    let ticks = axis::ticks(&y, 6);
    let panel = Panel { left: axis::label_room(&ticks), right: width - legend, top: 26.0, bottom: height - 40.0, x, y };
    scene.text(TextLabel::new((0.0, 12.0), title, TICK, Ink::MUTED));
    panel.y_axis(&mut scene, &ticks);
    let counts = axis::side_by_side(|most| axis::count_ticks(&x, most), panel.right - panel.left);
    panel.x_axis(&mut scene, &counts, false);
    let middle = 0.5 * (panel.left + panel.right);
    scene.text(TextLabel::new((middle, height - 5.0), "training steps", TICK, Ink::MUTED).anchored(Anchor::Middle));
    for (i, curve) in curves.iter().enumerate() {
        let ink = Ink::series(i);
        scene.line(curve.points.iter().map(|p| panel.at(*p)).collect(), ink, 1.8);
        let at = 40.0 + 20.0 * i as f64;
        scene.line(vec![(panel.right + 16.0, at), (panel.right + 40.0, at)], ink, 2.4);
        scene.text(TextLabel::new((panel.right + 46.0, at + 4.0), curve.name.clone(), TICK + 1.0, Ink::TEXT));
    }
    scene
}
