//! The weights of the components as bars, largest first, with the small ones combined into one bar.

use super::colour;
use crate::figure::axis::TICK;
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::{ComponentSummary, number};

/// Most bars shown.
const MOST: usize = 10;
/// Weights below this are combined if there are several.
const SMALL: f64 = 0.005;

/// The picture; `None` for a single component, whose weight is always 1.
pub fn draw(components: &[ComponentSummary], width: f64) -> Option<Scene> {
    let mut sorted: Vec<(usize, f64)> =
        components.iter().map(|c| c.weight).enumerate().filter(|w| w.1.is_finite()).collect();
    if sorted.len() < 2 {
        return None;
    }
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let large = sorted.iter().filter(|w| w.1 >= SMALL).count().max(1);
    // A single small weight keeps its own bar.
    let shown = if sorted.len() <= MOST && sorted.len() - large < 2 { sorted.len() } else { large.min(MOST - 1) };
    let (kept, folded) = sorted.split_at(shown);

    let mut bars: Vec<(String, f64, Ink)> =
        kept.iter().map(|&(k, w)| (format!("{}", k + 1), w, colour(k, components.len()))).collect();
    if !folded.is_empty() {
        bars.push((format!("{} others", folded.len()), folded.iter().map(|w| w.1).sum(), Ink::AXIS));
    }
    Some(draw_bars(bars, width, "component", "Weights of the components"))
}

/// The weights of models, in their order; `None` for a single one.
pub fn of_models(weights: &[(String, f64)], width: f64) -> Option<Scene> {
    let bars =
        weights.iter().map(|(name, weight)| (text::fit(name, 12.0, false, 0.4 * width), *weight, Ink::series(0)));
    (weights.len() > 1).then(|| draw_bars(bars.collect(), width, "model", "Stacking weights of the models"))
}

fn draw_bars(bars: Vec<(String, f64, Ink)>, width: f64, what: &str, title: &str) -> Scene {
    let (row, top) = ((200.0 / bars.len() as f64).clamp(22.0, 36.0), 26.0);
    let mut scene = Scene::new(width, top + row * bars.len() as f64 + 4.0, title);
    scene.text(TextLabel::new((0.0, 12.0), what, TICK, Ink::MUTED));
    scene.text(TextLabel::new((width, 12.0), "weight", TICK, Ink::MUTED).anchored(Anchor::End));
    let left = bars.iter().map(|bar| text::width(&bar.0, 12.0, false)).fold(18.0, f64::max) + 10.0;
    let right = width - 52.0;
    let largest = bars.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
    for (i, (name, weight, ink)) in bars.into_iter().enumerate() {
        let y = top + row * i as f64;
        let base = y + 0.5 * row + 4.0;
        let end = left + (right - left) * (weight / largest).clamp(0.0, 1.0);
        scene.rect((left, y + 3.0), (right, y + row - 3.0), Ink::GRID, 0.55);
        scene.rect((left, y + 3.0), (end.max(left + 1.0), y + row - 3.0), ink, 1.0);
        scene.text(TextLabel::new((left - 8.0, base), name, 12.0, Ink::TEXT).anchored(Anchor::End));
        scene.text(TextLabel::new((width, base), number::percent(weight), 12.0, Ink::TEXT).anchored(Anchor::End));
    }
    scene
}
