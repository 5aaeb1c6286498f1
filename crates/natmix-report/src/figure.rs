//! A picture as a list of marks on a plane, independent of its output format.
//!
//! [`svg`] writes a scene for the page (colours are variables of the page) or as a separate file, [`png`] paints the
//! same marks. Coordinates are pixels from the top left corner. All three take their colours from one table, [`TONES`].

pub mod axis;
pub mod contour;
pub mod legend;
pub mod png;
pub mod svg;
pub mod text;

/// A point of the plane.
pub type Point = (f64, f64);

/// One colour: its name in CSS, and its value on light and dark backgrounds.
pub struct Tone {
    /// Name in CSS.
    pub name: &'static str,
    /// On a light background.
    pub light: [u8; 3],
    /// On a dark background.
    pub dark: [u8; 3],
}

const fn tone(name: &'static str, light: u32, dark: u32) -> Tone {
    const fn bytes(hex: u32) -> [u8; 3] {
        [(hex >> 16) as u8, (hex >> 8) as u8, hex as u8]
    }
    Tone { name, light: bytes(light), dark: bytes(dark) }
}

/// Every colour. The series follow the palette of Okabe and Ito, which colour-blind readers can distinguish.
pub const TONES: [Tone; 13] = [
    tone("text", 0x1c2430, 0xe6eaf0),
    tone("muted", 0x5d6878, 0x9aa6b6),
    tone("axis", 0x98a3b3, 0x5f6c7e),
    tone("grid", 0xe6eaf0, 0x2b3441),
    tone("surface", 0xffffff, 0x171d26),
    tone("s0", 0x0072b2, 0x4ea8e0),
    tone("s1", 0xd55e00, 0xf2874a),
    tone("s2", 0x009e73, 0x34c79b),
    tone("s3", 0xb8548f, 0xe08fc0),
    tone("s4", 0xd08c00, 0xf0b840),
    tone("s5", 0x3c9fd6, 0x9ad6f7),
    tone("s6", 0x6f4fa8, 0xb59ae8),
    tone("s7", 0x7a6a55, 0xc4b299),
];

/// A colour of [`TONES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ink(usize);

impl Ink {
    /// Main text.
    pub const TEXT: Self = Self(0);
    /// Secondary text.
    pub const MUTED: Self = Self(1);
    /// Axes and reference lines.
    pub const AXIS: Self = Self(2);
    /// Grid lines.
    pub const GRID: Self = Self(3);
    /// The background.
    pub const SURFACE: Self = Self(4);
    /// Number of series colours.
    pub const SERIES: usize = 8;

    /// The colour of a series.
    pub fn series(index: usize) -> Self {
        Self(5 + index % Self::SERIES)
    }

    /// Name and values.
    pub fn tone(self) -> &'static Tone {
        &TONES[self.0]
    }
}

/// Which part of a text is placed at its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// A piece of text on one line.
#[derive(Clone, Debug, PartialEq)]
pub struct TextLabel {
    /// Position on the baseline.
    pub at: Point,
    /// The text.
    pub text: String,
    /// Font size.
    pub size: f64,
    /// Colour.
    pub ink: Ink,
    /// Which part is placed at the point.
    pub anchor: Anchor,
    /// Bold.
    pub bold: bool,
    /// Reads from bottom to top.
    pub upright: bool,
}

impl TextLabel {
    /// Plain text that starts at a point.
    pub fn new(at: Point, text: impl Into<String>, size: f64, ink: Ink) -> Self {
        Self { at, text: text.into(), size, ink, anchor: Anchor::Start, bold: false, upright: false }
    }

    /// Sets the anchor.
    pub fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// Makes it bold.
    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Makes it read from bottom to top.
    pub fn upright(self) -> Self {
        Self { upright: true, ..self }
    }
}

/// One thing to draw. Later marks cover earlier ones.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The names of the fields say what they are.
pub enum Mark {
    /// Open lines through points, all in one style.
    Lines { paths: Vec<Vec<Point>>, ink: Ink, width: f64, dashed: bool },
    /// A filled polygon.
    Area { points: Vec<Point>, ink: Ink, opacity: f64 },
    /// Filled circles, all in one style.
    Dots { centres: Vec<Point>, radius: f64, ink: Ink, opacity: f64 },
    /// A heat map: colours with opacity, in rows from the top, interpolated between cell centres.
    Raster { corner: Point, width: f64, height: f64, columns: usize, colours: Vec<[u8; 4]> },
    /// Text.
    Text(TextLabel),
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// What it shows, for screen readers.
    pub title: String,
    /// What to draw, first to last.
    pub marks: Vec<Mark>,
}

impl Scene {
    /// An empty picture.
    pub fn new(width: f64, height: f64, title: impl Into<String>) -> Self {
        Self { width, height, title: title.into(), marks: Vec::new() }
    }

    /// Draws a line; points that are not finite are left out.
    pub fn line(&mut self, points: Vec<Point>, ink: Ink, width: f64) {
        self.lines(vec![points], ink, width);
    }

    /// Draws several lines in one style.
    pub fn lines(&mut self, paths: Vec<Vec<Point>>, ink: Ink, width: f64) {
        let paths = paths.into_iter().map(finite).collect();
        self.marks.push(Mark::Lines { paths, ink, width, dashed: false });
    }

    /// Draws a dashed line.
    pub fn dashed(&mut self, points: Vec<Point>, ink: Ink, width: f64) {
        self.marks.push(Mark::Lines { paths: vec![finite(points)], ink, width, dashed: true });
    }

    /// Fills a polygon.
    pub fn area(&mut self, points: Vec<Point>, ink: Ink, opacity: f64) {
        self.marks.push(Mark::Area { points: finite(points), ink, opacity });
    }

    /// Fills a rectangle between two corners.
    pub fn rect(&mut self, (x0, y0): Point, (x1, y1): Point, ink: Ink, opacity: f64) {
        self.area(vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)], ink, opacity);
    }

    /// Draws dots.
    pub fn dots(&mut self, centres: Vec<Point>, radius: f64, ink: Ink, opacity: f64) {
        self.marks.push(Mark::Dots { centres: finite(centres), radius, ink, opacity });
    }

    /// Paints a heat map between two corners.
    pub fn raster(&mut self, corner: Point, (x1, y1): Point, columns: usize, colours: Vec<[u8; 4]>) {
        let (width, height) = (x1 - corner.0, y1 - corner.1);
        self.marks.push(Mark::Raster { corner, width, height, columns, colours });
    }

    /// Writes a text, if its position is finite.
    pub fn text(&mut self, label: TextLabel) {
        if label.at.0.is_finite() && label.at.1.is_finite() {
            self.marks.push(Mark::Text(label));
        }
    }

    /// Inserts another picture with its top left corner at a point.
    pub fn place(&mut self, other: Scene, (dx, dy): Point) {
        let shift = |points: &mut Vec<Point>| points.iter_mut().for_each(|p| *p = (p.0 + dx, p.1 + dy));
        self.marks.extend(other.marks.into_iter().map(|mut mark| {
            match &mut mark {
                Mark::Lines { paths, .. } => paths.iter_mut().for_each(shift),
                Mark::Area { points, .. } => shift(points),
                Mark::Dots { centres, .. } => shift(centres),
                Mark::Raster { corner, .. } => *corner = (corner.0 + dx, corner.1 + dy),
                Mark::Text(label) => label.at = (label.at.0 + dx, label.at.1 + dy),
            }
            mark
        }));
    }

    /// Arranges pictures of one size in a grid.
    pub fn grid(panels: &[Scene], columns: usize, title: impl Into<String>) -> Self {
        const GAP: f64 = 16.0;
        let (width, height) = panels.iter().fold((1.0_f64, 1.0_f64), |(w, h), p| (w.max(p.width), h.max(p.height)));
        let columns = columns.clamp(1, panels.len().max(1));
        let rows = panels.len().div_ceil(columns).max(1);
        let size = |n: usize, side: f64| n as f64 * (side + GAP) + GAP;
        let mut scene = Self::new(size(columns, width), size(rows, height), title);
        for (i, panel) in panels.iter().enumerate() {
            let corner = (size(i % columns, width), size(i / columns, height));
            scene.place(panel.clone(), corner);
        }
        scene
    }
}

fn finite(mut points: Vec<Point>) -> Vec<Point> {
    points.retain(|p| p.0.is_finite() && p.1.is_finite());
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_places_panels_in_rows() {
        let mut panel = Scene::new(100.0, 50.0, "panel");
        panel.dots(vec![(1.0, 2.0), (f64::NAN, 0.0)], 1.0, Ink::series(0), 1.0);
        let grid = Scene::grid(&[panel.clone(), panel.clone(), panel], 2, "all");
        assert_eq!((grid.width, grid.height), (2.0 * 116.0 + 16.0, 2.0 * 66.0 + 16.0));
        let Mark::Dots { centres, .. } = &grid.marks[2] else { panic!("dots") };
        assert_eq!(centres, &[(17.0, 66.0 + 16.0 + 2.0)]);
        assert_eq!(Scene::grid(&[], 3, "none").marks, []);
    }
}
