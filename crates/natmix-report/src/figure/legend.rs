//! A legend above a picture: as many lines as its items need.

use super::axis::TICK;
use super::{Ink, Scene, TextLabel, text};

/// Height of a line.
const LINE: f64 = 17.0;
/// Width of a swatch, and the space between items.
const SWATCH: f64 = 16.0;
const GAP: f64 = 14.0;

/// What stands before a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Swatch {
    /// A line.
    Line(Ink),
    /// A dashed line.
    Dashed(Ink),
    /// A bar with a dot in its middle.
    Interval(Ink),
    /// A line within a band.
    Band(Ink),
    /// A filled box.
    Box(Ink),
    /// Nothing.
    None,
}

/// A legend that is laid out for a width.
pub struct Legend(Vec<Vec<(f64, Swatch, String)>>);

impl Legend {
    /// Lays out the items in lines of a width; names that are too long for a line are shortened.
    pub fn new<'a>(items: impl IntoIterator<Item = (Swatch, &'a str)>, width: f64) -> Self {
        let mut lines: Vec<Vec<(f64, Swatch, String)>> = Vec::new();
        let mut x = 0.0;
        for (swatch, name) in items {
            let before = if swatch == Swatch::None { 0.0 } else { SWATCH + 5.0 };
            let name = text::fit(name, TICK, false, width - before);
            let room = before + text::width(&name, TICK, false);
            if lines.is_empty() || x + room > width {
                lines.push(Vec::new());
                x = 0.0;
            }
            if let Some(line) = lines.last_mut() {
                line.push((x, swatch, name));
            }
            x += room + GAP;
        }
        Self(lines)
    }

    /// Its height.
    pub fn height(&self) -> f64 {
        LINE * self.0.len() as f64
    }

    /// Draws it with its upper left corner at a point.
    pub fn draw(&self, scene: &mut Scene, (left, top): (f64, f64)) {
        for (line, items) in self.0.iter().enumerate() {
            let y = top + LINE * (line as f64 + 0.5);
            for (x, swatch, name) in items {
                let (x, end) = (left + x, left + x + SWATCH);
                let across = vec![(x, y), (end, y)];
                let before = if *swatch == Swatch::None { 0.0 } else { SWATCH + 5.0 };
                match *swatch {
                    Swatch::Line(ink) => scene.line(across, ink, 2.0),
                    Swatch::Dashed(ink) => scene.dashed(across, ink, 1.6),
                    Swatch::Interval(ink) => {
                        scene.line(across, ink, 2.4);
                        scene.dots(vec![(0.5 * (x + end), y)], 3.2, ink, 1.0);
                    }
                    Swatch::Band(ink) => {
                        scene.rect((x, y - 5.0), (end, y + 5.0), ink, 0.25);
                        scene.line(across, ink, 2.0);
                    }
                    Swatch::Box(ink) => scene.rect((x + 3.0, y - 5.0), (x + 13.0, y + 5.0), ink, 0.45),
                    Swatch::None => {}
                }
                scene.text(TextLabel::new((x + before, y + 0.36 * TICK), name, TICK, Ink::TEXT));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Mark;

    #[test]
    fn items_take_as_many_lines_as_they_need() {
        let items = ["first", "second", "third", "a name that is much too long for any line of this width"];
        let of = |width| Legend::new(items.map(|name| (Swatch::Line(Ink::TEXT), name)), width);
        let (wide, narrow) = (of(1000.0), of(120.0));
        assert!(wide.height() == LINE && narrow.height() > 2.0 * LINE);
        let mut scene = Scene::new(120.0, narrow.height(), "legend");
        narrow.draw(&mut scene, (0.0, 0.0));
        for mark in &scene.marks {
            if let Mark::Text(label) = mark {
                assert!(label.at.0 + text::width(&label.text, TICK, false) <= 120.5, "{label:?}");
            }
        }
        assert_eq!(Legend::new([], 100.0).height(), 0.0);
    }
}
