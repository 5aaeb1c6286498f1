//! Densities of single parameters: one small picture each, the 90% interval shaded, modes marked with their values.

use super::interest::RankedColumn;
use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::number;

const HEIGHT: f64 = 178.0;

/// The picture of one parameter.
pub fn draw(column: &RankedColumn, width: f64) -> Scene {
    let density = &column.density;
    let mut scene = Scene::new(width, HEIGHT, format!("Density of {}", text::fit(&column.name, TICK, false, 400.0)));
    let x = Scale::linear(density.range.0, density.range.1);
    let panel =
        Panel { left: 4.0, right: width - 4.0, top: 50.0, bottom: HEIGHT - 22.0, x, y: Scale::linear(0.0, 1.0) };
    let count = match density.modes.len() {
        0 | 1 => String::new(),
        n => format!("{n} modes"),
    };
    let room = width - 8.0 - text::width(&count, TICK, false) - 12.0;
    scene.text(TextLabel::new((4.0, 15.0), text::fit(&column.name, 13.0, true, room), 13.0, Ink::TEXT).bold());
    scene.text(TextLabel::new((width - 4.0, 15.0), count, TICK, Ink::MUTED).anchored(Anchor::End));

    curve(&mut scene, &panel, column);
    let make = |most| axis::ticks(&x, most);
    panel.x_axis(&mut scene, &axis::side_by_side(make, panel.right - panel.left), false);
    mark_modes(&mut scene, &panel, column);
    scene
}

/// The curve, filled, with the middle 90% darker.
pub fn curve(scene: &mut Scene, panel: &Panel, column: &RankedColumn) {
    let density = &column.density;
    let points: Vec<_> = density.curve().map(|p| panel.at(p)).collect();
    let fill = |points: &[(f64, f64)], opacity: f64, scene: &mut Scene| {
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            let mut shape = points.to_vec();
            shape.extend([(last.0, panel.bottom), (first.0, panel.bottom)]);
            scene.area(shape, Ink::series(0), opacity);
        }
    };
    fill(&points, 0.12, scene);
    let [lo, _, hi] = density.quantiles.map(|q| panel.px(q));
    let inside: Vec<_> = points.iter().copied().filter(|p| (lo..=hi).contains(&p.0)).collect();
    fill(&inside, 0.22, scene);
    scene.line(points, Ink::series(0), 1.6);
}

/// A tick and a value above each mode; where two values would overlap, only the higher mode keeps its label.
fn mark_modes(scene: &mut Scene, panel: &Panel, column: &RankedColumn) {
    let mut modes = column.density.modes.clone();
    modes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let range = panel.x.hi - panel.x.lo;
    for (value, height) in modes {
        let (x, y) = panel.at((value, height));
        scene.line(vec![(x, y), (x, panel.bottom)], Ink::series(1), 1.2);
        scene.dots(vec![(x, y)], 2.8, Ink::series(1), 1.0);
        let label = number::rounded(value, 0.1 * range);
        let half = 0.5 * text::width(&label, TICK, false) + 3.0;
        let middle = x.clamp(half, (scene.width - half).max(half));
        if taken.iter().all(|(lo, hi)| middle + half < *lo || middle - half > *hi) {
            taken.push((middle - half, middle + half));
            scene.text(TextLabel::new((middle, y - 8.0), label, TICK, Ink::TEXT).anchored(Anchor::Middle));
        }
    }
}
