//! Forest plots: one line per coefficient or group, with a dot at the median and a bar over the middle 90%.

use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};

/// Height of a line.
const LINE: f64 = 22.0;
/// The same where there are many.
const LINE_OF_MANY: f64 = 15.0;
/// Lines that count as many.
const MANY: usize = 16;
/// Size of the names.
const NAME: f64 = 11.5;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestLine {
    /// What it is about.
    pub name: String,
    /// 5% quantile, median, 95% quantile.
    pub quantiles: [f64; 3],
}

/// The picture; `None` without lines whose numbers are finite. `axis_title` says what is measured, and in which units.
pub fn draw(lines: &[ForestLine], width: f64, title: &str, axis_title: &str) -> Option<Scene> {
    let lines: Vec<&ForestLine> = lines.iter().filter(|line| line.quantiles.iter().all(|x| x.is_finite())).collect();
    if lines.is_empty() {
        return None;
    }
    let line_height = if lines.len() > MANY { LINE_OF_MANY } else { LINE };
    let size = if lines.len() > MANY { NAME - 1.5 } else { NAME };
    let top = 22.0;
    let bottom = top + line_height * lines.len() as f64;
    let mut scene = Scene::new(width, bottom + 40.0, title);
    let room = 0.42 * width;
    let names: Vec<String> = lines.iter().map(|line| text::fit(&line.name, size, false, room)).collect();
    let left = names.iter().map(|name| text::width(name, size, false)).fold(24.0, f64::max) + 12.0;
    // Zero is always on the axis: the question is on which side of it a coefficient is.
    let lowest = lines.iter().map(|line| line.quantiles[0]).fold(0.0, f64::min);
    let highest = lines.iter().map(|line| line.quantiles[2]).fold(0.0, f64::max);
    let x = Scale::linear(lowest, highest).padded(0.05);
    let panel = Panel { left, right: width - 8.0, top: top - 4.0, bottom, x, y: Scale::linear(0.0, 1.0) };
    panel.x_axis(&mut scene, &axis::side_by_side(|most| axis::ticks(&x, most), panel.right - left), true);
    let zero = panel.px(0.0);
    scene.line(vec![(zero, panel.top), (zero, bottom)], Ink::AXIS, 1.4);
    for (i, (line, name)) in lines.iter().zip(names).enumerate() {
        let y = top + line_height * (i as f64 + 0.5);
        let [low, middle, high] = line.quantiles.map(|x| panel.px(x));
        scene.text(TextLabel::new((left - 8.0, y + 0.36 * size), name, size, Ink::TEXT).anchored(Anchor::End));
        scene.line(vec![(low, y), (high, y)], Ink::series(0), 2.4);
        scene.dots(vec![(middle, y)], 3.6, Ink::series(0), 1.0);
    }
    let label = text::fit(axis_title, TICK, false, width - 4.0);
    let half = 0.5 * text::width(&label, TICK, false);
    let centre = (0.5 * (left + panel.right)).clamp(half, (width - half).max(half));
    scene.text(TextLabel::new((centre, bottom + 34.0), label, TICK, Ink::MUTED).anchored(Anchor::Middle));
    Some(scene)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_numbers_are_left_out() {
        let line = |name: &str, quantiles| ForestLine { name: name.into(), quantiles };
        assert!(draw(&[], 300.0, "a", "b").is_none());
        assert!(draw(&[line("x", [f64::NAN, 0.0, 1.0])], 300.0, "a", "b").is_none());
        let few = draw(&[line("x", [0.5, 1.0, 2.0]), line("y", [f64::INFINITY; 3])], 300.0, "a", "b").unwrap();
        let many: Vec<ForestLine> = (0..40).map(|i| line(&format!("g{i}"), [-1.0, 0.1, 1.0])).collect();
        assert!(draw(&many, 300.0, "a", "b").unwrap().height > 5.0 * few.height);
    }
}
