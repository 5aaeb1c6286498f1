//! Every pair of a few parameters: draws below the diagonal, contours above it, densities on it.

use super::interest::{Ranked, RankedColumn};
use super::joint::Joint;
use super::{colour, marginals};
use crate::figure::axis::{self, Panel, Scale, TICK, Tick};
use crate::figure::{Anchor, Ink, Point, Scene, TextLabel, text};

/// Most parameters shown, and those on a phone.
const MOST: usize = 4;
const MOST_NARROW: usize = 3;
/// Most dots per panel: more only make the page larger.
const MOST_DOTS: usize = 400;

/// The picture; `None` with fewer than two parameters. Dots have the colours of `components` if there are several.
pub fn draw(ranked: &Ranked, components: usize, width: f64) -> Option<Scene> {
    let chosen = ranked.for_pairs(if width > 500.0 { MOST } else { MOST_NARROW });
    if chosen.len() < 2 {
        return None;
    }
    let count = chosen.len() as f64;
    let (left, foot, gap) = (if width > 500.0 { 78.0 } else { 50.0 }, 38.0, if width > 500.0 { 12.0 } else { 6.0 });
    let coloured = components > 1 && components <= Ink::SERIES;
    let top = if coloured { 24.0 } else { 4.0 };
    let cell = ((width - left - 6.0 + gap) / count - gap).min(240.0);
    let side = count * (cell + gap) - gap;
    let height = top + count * (0.82 * cell + gap) - gap + foot;
    let mut scene = Scene::new(left + side + 6.0, height, "Pairs of parameters");
    if coloured {
        legend(&mut scene, components, left);
    }
    for (row, y) in chosen.iter().enumerate() {
        for (col, x) in chosen.iter().enumerate() {
            let corner = (left + col as f64 * (cell + gap), top + row as f64 * (0.82 * cell + gap));
            let scale = |column: &RankedColumn| Scale::linear(column.density.range.0, column.density.range.1);
            let (right, bottom) = (corner.0 + cell, corner.1 + 0.82 * cell);
            let panel = Panel { left: corner.0, right, top: corner.1, bottom, x: scale(x), y: scale(y) };
            if row == col {
                let flat = Panel { y: Scale::linear(0.0, 1.12), ..panel };
                marginals::curve(&mut scene, &flat, x);
            } else if row > col {
                dots(&mut scene, &panel, (x, y), ranked, coloured.then_some(components));
            } else {
                contours(&mut scene, &panel, (x, y), ranked);
            }
            frame(&mut scene, &panel);
            if row + 1 == chosen.len() {
                name_x(&mut scene, &panel, x);
            }
            if col == 0 {
                name_y(&mut scene, &panel, y, row > 0);
            }
        }
    }
    Some(scene)
}

fn legend(scene: &mut Scene, components: usize, left: f64) {
    scene.text(TextLabel::new((left, 12.0), "component", TICK, Ink::MUTED));
    let mut x = left + text::width("component", TICK, false) + 14.0;
    for k in 0..components {
        scene.dots(vec![(x, 8.2)], 4.0, colour(k, components), 1.0);
        let name = (k + 1).to_string();
        let step = text::width(&name, TICK, false) + 22.0;
        scene.text(TextLabel::new((x + 7.0, 12.0), name, TICK, Ink::TEXT));
        x += step;
    }
}

fn dots(
    scene: &mut Scene,
    panel: &Panel,
    (x, y): (&RankedColumn, &RankedColumn),
    ranked: &Ranked,
    coloured: Option<usize>,
) {
    let inside = |scale: &Scale, v: f64| (scale.lo..=scale.hi).contains(&v);
    let small = panel.right - panel.left < 100.0;
    let step = x.values.len().div_ceil(if small { MOST_DOTS / 2 } else { MOST_DOTS }).max(1);
    let groups = coloured.unwrap_or(1);
    let mut centres: Vec<Vec<Point>> = vec![Vec::new(); groups];
    for i in (0..x.values.len()).step_by(step) {
        let point = (x.values[i], y.values[i]);
        if inside(&panel.x, point.0) && inside(&panel.y, point.1) {
            let group = if coloured.is_some() { ranked.component[i].min(groups - 1) } else { 0 };
            centres[group].push(panel.at(point));
        }
    }
    for (group, centres) in centres.into_iter().enumerate() {
        scene.dots(centres, if small { 1.0 } else { 1.6 }, coloured.map_or(Ink::series(0), |k| colour(group, k)), 0.55);
    }
}

/// The smallest regions that hold 50% and 90% of the draws.
fn contours(scene: &mut Scene, panel: &Panel, (x, y): (&RankedColumn, &RankedColumn), ranked: &Ranked) {
    let pairs: Vec<Point> = x.values.iter().copied().zip(y.values.iter().copied()).collect();
    let Some(joint) = Joint::new(&pairs, &ranked.component, (x.density.range, y.density.range)) else { return };
    for (level, width) in joint.levels.into_iter().zip([1.8, 0.9]) {
        let inside = joint.contour(level).into_iter().filter_map(|piece| clip(piece, panel));
        let pieces = inside.map(|piece| piece.map(|p| panel.at(p)).to_vec()).collect();
        scene.lines(pieces, Ink::series(0), width);
    }
}

/// The part of a line within the scales of a panel.
fn clip([a, b]: [Point; 2], panel: &Panel) -> Option<[Point; 2]> {
    let (mut first, mut last) = (0.0_f64, 1.0_f64);
    for (from, to, scale) in [(a.0, b.0, &panel.x), (a.1, b.1, &panel.y)] {
        for (bound, sign) in [(scale.lo, 1.0), (scale.hi, -1.0)] {
            // Distances from the bound, positive inside.
            let (start, end) = (sign * (from - bound), sign * (to - bound));
            match (start >= 0.0, end >= 0.0) {
                (true, true) => {}
                (false, false) => return None,
                (false, true) => first = first.max(start / (start - end)),
                (true, false) => last = last.min(start / (start - end)),
            }
        }
    }
    let at = |t: f64| (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1));
    (first < last).then(|| [at(first), at(last)])
}

fn frame(scene: &mut Scene, panel: &Panel) {
    let (l, r, t, b) = (panel.left, panel.right, panel.top, panel.bottom);
    scene.line(vec![(l, t), (r, t), (r, b), (l, b), (l, t)], Ink::GRID, 1.0);
}

fn name_x(scene: &mut Scene, panel: &Panel, column: &RankedColumn) {
    let room = panel.right - panel.left;
    // A label that extends beyond the edge would overlap that of the next panel.
    let inside = |tick: &Tick| {
        let (x, half) = (panel.px(tick.at), 0.5 * text::width(&tick.label, TICK, false));
        x - half >= panel.left - 4.0 && x + half <= panel.right + 4.0
    };
    let make = |most: usize| axis::ticks(&panel.x, most.min(5)).into_iter().filter(inside).collect();
    panel.x_axis(scene, &axis::side_by_side(make, room), false);
    let name = text::fit(&column.name, 12.0, true, room - 6.0);
    let label = TextLabel::new((0.5 * (panel.left + panel.right), panel.bottom + 33.0), name, 12.0, Ink::TEXT);
    scene.text(label.bold().anchored(Anchor::Middle));
}

fn name_y(scene: &mut Scene, panel: &Panel, column: &RankedColumn, ticks: bool) {
    let room = panel.bottom - panel.top;
    let name = text::fit(&column.name, 12.0, true, room - 6.0);
    let label = TextLabel::new((12.0, 0.5 * (panel.top + panel.bottom)), name, 12.0, Ink::TEXT);
    scene.text(label.bold().upright().anchored(Anchor::Middle));
    if ticks {
        let most = if room > 100.0 { 4 } else { 2 };
        let fits = |tick: &Tick| text::width(&tick.label, TICK, false) < panel.left - 24.0;
        for tick in axis::ticks(&panel.y, most).into_iter().filter(fits) {
            let y = panel.py(tick.at);
            if y < panel.top + 4.0 || y > panel.bottom - 4.0 {
                continue;
            }
            scene.line(vec![(panel.left - 3.0, y), (panel.left, y)], Ink::AXIS, 1.0);
            let label = TextLabel::new((panel.left - 6.0, y + 0.36 * TICK), tick.label, TICK, Ink::MUTED);
            scene.text(label.anchored(Anchor::End));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_frame() {
        let scale = Scale::linear(0.0, 1.0);
        let panel = Panel { left: 0.0, right: 10.0, top: 0.0, bottom: 10.0, x: scale, y: scale };
        assert_eq!(clip([(0.2, 0.2), (0.4, 0.8)], &panel), Some([(0.2, 0.2), (0.4, 0.8)]));
        assert_eq!(clip([(-1.0, 0.5), (3.0, 0.5)], &panel), Some([(0.0, 0.5), (1.0, 0.5)]));
        assert_eq!(clip([(0.5, 0.5), (0.5, -0.5)], &panel), Some([(0.5, 0.5), (0.5, 0.0)]));
        assert_eq!(clip([(-0.5, 0.2), (0.2, -0.5)], &panel), None);
        assert_eq!(clip([(2.0, 0.5), (3.0, 0.5)], &panel), None);
    }
}
