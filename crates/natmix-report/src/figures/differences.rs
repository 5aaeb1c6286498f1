//! How much worse models predict than the best of them: one line per model, with bars of one and two standard errors.

use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};

/// Height of a line.
const LINE: f64 = 30.0;
/// Size of the names.
const NAME: f64 = 12.0;
/// Share of the width that names may have.
const NAMES: f64 = 0.36;

/// One model.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferenceLine {
    /// What it is called.
    pub name: String,
    /// Its difference to the best.
    pub difference: f64,
    /// The standard error of that.
    pub se: f64,
}

/// The picture; `None` if no differences are finite.
pub fn draw(lines: &[DifferenceLine], width: f64) -> Option<Scene> {
    let lines: Vec<&DifferenceLine> = lines.iter().filter(|line| line.difference.is_finite()).collect();
    if lines.len() < 2 {
        return None;
    }
    let error = |line: &DifferenceLine| if line.se.is_finite() { line.se } else { 0.0 };
    let top = 12.0;
    let bottom = top + LINE * lines.len() as f64;
    let mut scene =
        Scene::new(width, bottom + 40.0, "Differences of the expected log predictive density to the best model");
    let names: Vec<String> = lines.iter().map(|line| text::fit(&line.name, NAME, false, NAMES * width)).collect();
    let left = names.iter().map(|name| text::width(name, NAME, false)).fold(24.0, f64::max) + 14.0;
    let lowest = lines.iter().map(|line| line.difference - 2.0 * error(line)).fold(0.0, f64::min);
    let highest = lines.iter().map(|line| line.difference + 2.0 * error(line)).fold(0.0, f64::max);
    let x = Scale::linear(lowest, highest).padded(0.06);
    let panel = Panel { left, right: width - 8.0, top: top - 4.0, bottom, x, y: Scale::linear(0.0, 1.0) };
    panel.x_axis(&mut scene, &axis::side_by_side(|most| axis::ticks(&x, most), panel.right - left), true);
    let zero = panel.px(0.0);
    scene.line(vec![(zero, panel.top), (zero, bottom)], Ink::AXIS, 1.6);
    for (i, (line, name)) in lines.iter().zip(names).enumerate() {
        let y = top + LINE * (i as f64 + 0.5);
        let bar = |errors: f64| {
            let ends = [line.difference - errors * error(line), line.difference + errors * error(line)];
            ends.map(|x| (panel.px(x), y)).to_vec()
        };
        scene.text(TextLabel::new((left - 9.0, y + 0.36 * NAME), name, NAME, Ink::TEXT).anchored(Anchor::End));
        scene.line(bar(2.0), Ink::series(0), 1.6);
        scene.line(bar(1.0), Ink::series(0), 5.0);
        scene.dots(vec![(panel.px(line.difference), y)], 4.6, Ink::series(0), 1.0);
    }
    let label = text::fit("difference of log predictive density (nats)", TICK, false, width - 4.0);
    let half = 0.5 * text::width(&label, TICK, false);
    let centre = (0.5 * (left + panel.right)).clamp(half, (width - half).max(half));
    scene.text(TextLabel::new((centre, bottom + 34.0), label, TICK, Ink::MUTED).anchored(Anchor::Middle));
    Some(scene)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_differences_are_left_out() {
        let line = |name: &str, difference, se| DifferenceLine { name: name.into(), difference, se };
        assert!(draw(&[line("a", 0.0, 0.0), line("b", f64::NAN, 1.0)], 300.0).is_none());
        let two = draw(&[line("a", 0.0, 0.0), line("b", -3.0, f64::NAN)], 300.0).unwrap();
        let three = draw(&[line("a", 0.0, 0.0), line("b", -3.0, 1.0), line("c", -3e9, 2e3)], 300.0).unwrap();
        assert!(three.height > two.height && three.marks.len() > two.marks.len());
    }
}
