//! Axes: round tick values, labels that do not overlap, and the map from values to pixels.
//!
//! A [`Scale`] is linear, or linear near zero and logarithmic beyond a knee `s`: `v -> sign(v) ln(1 + |v| / s)`.

use super::{Anchor, Ink, Point, Scene, TextLabel, text};
use crate::number;

/// Font size of ticks.
pub const TICK: f64 = 11.0;

/// How values map to positions along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Value at the start.
    pub lo: f64,
    /// Value at the end.
    pub hi: f64,
    /// Where the logarithmic part begins; `None` for a linear scale.
    pub knee: Option<f64>,
}

impl Scale {
    /// A linear scale of non-zero length.
    pub fn linear(lo: f64, hi: f64) -> Self {
        let (lo, hi) = if lo.is_finite() && hi.is_finite() { (lo, hi) } else { (0.0, 1.0) };
        // Beyond this the width itself would overflow.
        let (lo, hi) = (lo.clamp(-1e300, 1e300), hi.clamp(-1e300, 1e300));
        let least = 1e-9 * lo.abs().max(hi.abs());
        if hi - lo > least {
            return Self { lo, hi, knee: None };
        }
        let (middle, room) = (0.5 * (lo + hi), if least > 0.0 { 0.1 * lo.abs().max(hi.abs()) } else { 1.0 });
        Self { lo: middle - room, hi: middle + room, knee: None }
    }

    /// Adds a margin at both ends.
    pub fn padded(self, share: f64) -> Self {
        let room = share * (self.hi - self.lo);
        Self { lo: self.lo - room, hi: self.hi + room, ..self }
    }

    /// Position of a value: 0 at the start, 1 at the end, clamped to that range.
    pub fn share(&self, v: f64) -> f64 {
        let bend = |v: f64| self.knee.map_or(v, |s| v.signum() * (v.abs() / s).ln_1p());
        ((bend(v) - bend(self.lo)) / (bend(self.hi) - bend(self.lo))).clamp(0.0, 1.0)
    }
}

/// A value with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub at: f64,
    /// Its label.
    pub label: String,
}

/// Round values on a linear scale, at most about `most`.
pub fn ticks(scale: &Scale, most: usize) -> Vec<Tick> {
    let raw = (scale.hi - scale.lo) / most.max(1) as f64;
    let size = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * size).find(|step| *step >= raw * (1.0 - 1e-9));
    let Some(step) = step.filter(|step| *step > 0.0 && step.is_finite()) else { return Vec::new() };
    let (first, last) = ((scale.lo / step - 1e-9).ceil(), (scale.hi / step + 1e-9).floor());
    let count = (last - first).clamp(-1.0, 50.0) as i64;
    let largest = scale.lo.abs().max(scale.hi.abs());
    let exponent = |x: f64| (x.abs().log10() + 1e-9).floor() as i32;
    let fine = exponent(step);
    let label = |at: f64| match at {
        0.0 => "0".into(),
        _ if largest >= 1e7 || fine < -4 => number::power(at, (exponent(at) - fine).clamp(0, 12) as usize),
        _ => number::fixed(at, (-fine).max(0) as usize),
    };
    (0..=count).map(|i| (first + i as f64) * step).map(|at| Tick { at, label: label(at) }).collect()
}

/// Like [`ticks`], with counts written as 20k or 1.5M.
pub fn count_ticks(scale: &Scale, most: usize) -> Vec<Tick> {
    let short = |at: f64| match at.abs() {
        size if size >= 999_999.5 => number::fixed(at / 1e6, usize::from(at % 1e6 != 0.0)) + "M",
        size if size >= 9_999.5 => number::fixed(at / 1e3, usize::from(at % 1e3 != 0.0)) + "k",
        _ => number::fixed(at, 0),
    };
    let mut all = ticks(scale, most);
    all.retain(|tick| tick.at.fract() == 0.0);
    all.iter_mut().for_each(|tick| tick.label = short(tick.at));
    all
}

/// As many of the ticks made by `make` as fit next to each other in `room` pixels.
pub fn side_by_side(make: impl Fn(usize) -> Vec<Tick>, room: f64) -> Vec<Tick> {
    let most = (room / 45.0).clamp(2.0, 10.0) as usize;
    let fits = |ticks: &Vec<Tick>| {
        let widest = ticks.iter().map(|tick| text::width(&tick.label, TICK, false)).fold(0.0, f64::max);
        (widest + 14.0) * ticks.len() as f64 <= room + 14.0
    };
    (1..=most).rev().map(make).find(fits).unwrap_or_default()
}

/// Zero and powers of ten on a scale with a knee, at least `gap` apart as a fraction of the axis.
pub fn power_ticks(scale: &Scale, gap: f64) -> Vec<Tick> {
    let mut kept = vec![Tick { at: 0.0, label: "0".into() }];
    let first = scale.knee.unwrap_or(1.0).log10().floor() as i32;
    for power in first..300 {
        for at in [-(10f64.powi(power)), 10f64.powi(power)] {
            let clear = kept.iter().all(|tick| (scale.share(tick.at) - scale.share(at)).abs() >= gap);
            if (scale.lo..=scale.hi).contains(&at) && clear {
                let sign = if at < 0.0 { "−" } else { "+" };
                let size = match power {
                    ..-3 | 4.. => format!("10{}", number::superscript(&power.to_string())),
                    _ => number::fixed(at.abs(), (-power).max(0) as usize),
                };
                kept.push(Tick { at, label: format!("{sign}{size}") });
            }
        }
    }
    kept
}

/// A rectangle of pixels with a scale in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Panel {
    /// Left edge.
    pub left: f64,
    /// Right edge.
    pub right: f64,
    /// Upper edge.
    pub top: f64,
    /// Lower edge.
    pub bottom: f64,
    /// From left to right.
    pub x: Scale,
    /// From bottom to top.
    pub y: Scale,
}

impl Panel {
    /// Pixel of a value along x.
    pub fn px(&self, x: f64) -> f64 {
        self.left + self.x.share(x) * (self.right - self.left)
    }

    /// Pixel of a value along y.
    pub fn py(&self, y: f64) -> f64 {
        self.bottom - self.y.share(y) * (self.bottom - self.top)
    }

    /// Pixels of a point.
    pub fn at(&self, (x, y): Point) -> Point {
        (self.px(x), self.py(y))
    }

    /// Draws the axis, ticks and labels below, and grid lines if `grid`.
    pub fn x_axis(&self, scene: &mut Scene, ticks: &[Tick], grid: bool) {
        for tick in ticks {
            let x = self.px(tick.at);
            if grid {
                scene.line(vec![(x, self.top), (x, self.bottom)], Ink::GRID, 1.0);
            }
            scene.line(vec![(x, self.bottom), (x, self.bottom + 4.0)], Ink::AXIS, 1.0);
            let half = 0.5 * text::width(&tick.label, TICK, false);
            let inside = x.clamp(half.min(scene.width / 2.0), (scene.width - half).max(scene.width / 2.0));
            let label = TextLabel::new((inside, self.bottom + 16.0), &tick.label, TICK, Ink::MUTED);
            scene.text(label.anchored(Anchor::Middle));
        }
        scene.line(vec![(self.left, self.bottom), (self.right, self.bottom)], Ink::AXIS, 1.0);
    }

    /// Draws grid lines with labels on the left.
    pub fn y_axis(&self, scene: &mut Scene, ticks: &[Tick]) {
        for tick in ticks {
            let y = self.py(tick.at);
            scene.line(vec![(self.left, y), (self.right, y)], Ink::GRID, 1.0);
            let label = TextLabel::new((self.left - 7.0, y + 0.36 * TICK), &tick.label, TICK, Ink::MUTED);
            scene.text(label.anchored(Anchor::End));
        }
    }
}

/// Width of the labels of a y axis.
pub fn label_room(ticks: &[Tick]) -> f64 {
    ticks.iter().map(|tick| text::width(&tick.label, TICK, false)).fold(12.0, f64::max) + 9.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&ticks(&Scale::linear(-0.23, 0.61), 5)), ["−0.2", "0", "0.2", "0.4", "0.6"]);
        assert_eq!(labels(&ticks(&Scale::linear(0.0, 1.0), 5)), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&ticks(&Scale::linear(0.0, 3e7), 3)), ["0", "1×10⁷", "2×10⁷", "3×10⁷"]);
        assert_eq!(labels(&count_ticks(&Scale::linear(0.0, 3e4), 3)), ["0", "10k", "20k", "30k"]);
        assert_eq!(labels(&count_ticks(&Scale::linear(0.0, 2.0), 5)), ["0", "1", "2"]);
    }

    #[test]
    fn a_scale_with_a_knee_shows_every_power() {
        let scale = Scale { lo: -1e5, hi: 1.0, knee: Some(0.1) };
        assert_eq!(scale.share(scale.lo), 0.0);
        assert_eq!(scale.share(scale.hi), 1.0);
        assert_eq!(labels(&power_ticks(&scale, 0.1)), ["0", "−1", "+1", "−10", "−100", "−1000", "−10⁴", "−10⁵"]);
    }

    #[test]
    fn degenerate_ranges_give_valid_scales() {
        for (lo, hi) in [(0.0, 0.0), (3.0, 3.0), (f64::NAN, 1.0), (-f64::MAX, f64::MAX), (1.0, 1.0 + 1e-15), (5.0, 2.0)]
        {
            let scale = Scale::linear(lo, hi).padded(0.05);
            assert!(scale.hi > scale.lo, "{lo} {hi}");
            assert!(ticks(&scale, 5).len() <= 8, "{lo} {hi}");
            assert!(side_by_side(|n| ticks(&scale, n), 200.0).len() <= 8);
        }
    }
}
