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

/// Names on the left, one below the other, and an axis below them.
pub struct ForestFrame {
    /// The picture.
    pub scene: Scene,
    /// Where values are along the axis.
    pub panel: Panel,
    line_height: f64,
}

impl ForestFrame {
    /// Leaves `head` pixels above the lines. Many lines are lower, by as much as `lowest` allows.
    pub fn new(names: &[&str], x: Scale, (width, head): (f64, f64), lowest: f64, title: &str) -> Self {
        let many = names.len() > MANY;
        let line_height = if many { LINE_OF_MANY.max(lowest) } else { LINE };
        let size = if many { NAME - 1.5 } else { NAME };
        let top = head + 14.0;
        let bottom = top + line_height * names.len() as f64;
        let mut scene = Scene::new(width, bottom + 40.0, title);
        let room = 0.42 * width;
        let names: Vec<String> = names.iter().map(|name| text::fit(name, size, false, room)).collect();
        let left = names.iter().map(|name| text::width(name, size, false)).fold(24.0, f64::max) + 12.0;
        let panel = Panel { left, right: width - 8.0, top: top - 4.0, bottom, x, y: Scale::linear(0.0, 1.0) };
        panel.x_axis(&mut scene, &axis::side_by_side(|most| axis::ticks(&x, most), panel.right - left), true);
        let mut frame = Self { scene, panel, line_height };
        for (i, name) in names.into_iter().enumerate() {
            let at = (left - 8.0, frame.row(i) + 0.36 * size);
            frame.scene.text(TextLabel::new(at, name, size, Ink::TEXT).anchored(Anchor::End));
        }
        frame
    }

    /// The middle of a line.
    pub fn row(&self, i: usize) -> f64 {
        self.panel.top + 4.0 + self.line_height * (i as f64 + 0.5)
    }

    /// Both ends of a line from top to bottom at a value.
    pub fn upright(&self, x: f64) -> Vec<(f64, f64)> {
        let at = self.panel.px(x);
        vec![(at, self.panel.top), (at, self.panel.bottom)]
    }

    /// The picture, with a name below the axis that says what is measured, and in which units.
    pub fn finish(mut self, axis_title: &str) -> Scene {
        let width = self.scene.width;
        let label = text::fit(axis_title, TICK, false, width - 4.0);
        let half = 0.5 * text::width(&label, TICK, false);
        let centre = (0.5 * (self.panel.left + self.panel.right)).min(width - half).max(half);
        let at = (centre, self.panel.bottom + 34.0);
        self.scene.text(TextLabel::new(at, label, TICK, Ink::MUTED).anchored(Anchor::Middle));
        self.scene
    }
}

/// The picture; `None` without lines whose numbers are finite. `axis_title` says what is measured, and in which units.
pub fn draw(lines: &[ForestLine], width: f64, title: &str, axis_title: &str) -> Option<Scene> {
    let lines: Vec<&ForestLine> = lines.iter().filter(|line| line.quantiles.iter().all(|x| x.is_finite())).collect();
    if lines.is_empty() {
        return None;
    }
    // Zero is always on the axis: the question is on which side of it a coefficient is.
    let lowest = lines.iter().map(|line| line.quantiles[0]).fold(0.0, f64::min);
    let highest = lines.iter().map(|line| line.quantiles[2]).fold(0.0, f64::max);
    let x = Scale::linear(lowest, highest).padded(0.05);
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut frame = ForestFrame::new(&names, x, (width, 0.0), 0.0, title);
    let zero = frame.upright(0.0);
    frame.scene.line(zero, Ink::AXIS, 1.4);
    for (i, line) in lines.iter().enumerate() {
        let y = frame.row(i);
        let [low, middle, high] = line.quantiles.map(|x| frame.panel.px(x));
        frame.scene.line(vec![(low, y), (high, y)], Ink::series(0), 2.4);
        frame.scene.dots(vec![(middle, y)], 3.6, Ink::series(0), 1.0);
    }
    Some(frame.finish(axis_title))
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
