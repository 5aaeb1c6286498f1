//! How a mixture formed: the final density in the background, and the components at each moment on top.
//!
//! Components are given in units of a square of side [`SIDE`], whatever the size of the picture: the same numbers serve
//! the wide and the narrow picture, and the page's script only has to put them into attributes.

use crate::figure::axis::{self, Panel, Scale, TICK, Tick};
use crate::figure::contour::contour;
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::formation::{Formation, Moment};

/// Units along each side of the square.
pub const SIDE: f64 = 1000.0;
/// Points per side of the grid for contours, and points of a curve.
const GRID: usize = 140;
const CURVE: usize = 241;
/// Standard deviations around a component's mean that the picture includes.
const ROOM: f64 = 2.6;
/// Opacity of a single ellipse.
const FILL: f64 = 0.36;
/// Share of the weight that may lie outside the picture at each end.
const OUTSIDE: f64 = 0.005;
/// Most that earlier moments may widen the picture at each end, as a share of what the last one needs.
const MOST_WIDER: f64 = 0.6;

/// The components at one moment, heavier ones last.
pub enum Marks {
    /// One-standard-deviation ellipses: centre, semi-axes, rotation in degrees, opacity. And the opacity to fill them
    /// with.
    Ellipses(Vec<[f64; 6]>, f64),
    /// Bell curves: centre, standard deviation, height, opacity. And the curve of the whole mixture.
    Bells(Vec<[f64; 4]>, String),
}

/// The picture.
pub struct FormationPicture {
    /// The background, and where the square lies.
    pub scene: Scene,
    /// The rectangle of the square.
    pub panel: Panel,
}

/// The scales that all moments share.
pub struct FormationScales<'a> {
    formation: &'a Formation,
    last: &'a Moment,
    x: Scale,
    y: Scale,
}

impl<'a> FormationScales<'a> {
    /// `None` if there is nothing to show.
    pub fn new(formation: &'a Formation) -> Option<Self> {
        let last = formation.moments.last().filter(|last| !last.weights.is_empty())?;
        let x = range(formation, last, 0)?;
        let y = match formation.names.len() {
            1 => {
                let peak = |moment: &Moment| grid(&x, CURVE).map(|at| density(moment, at)).fold(0.0, f64::max);
                // A narrow start must not flatten the final density.
                let highest = formation.moments.iter().map(peak).fold(0.0, f64::max).min(1.5 * peak(last));
                Scale::linear(0.0, 1.08 * highest)
            }
            _ => range(formation, last, 1)?,
        };
        Some(Self { formation, last, x, y })
    }

    /// The components at a moment.
    pub fn marks(&self, moment: &Moment) -> Marks {
        let heaviest = moment.weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut order: Vec<usize> = (0..moment.weights.len()).collect();
        order.sort_by(|&a, &b| moment.weights[a].total_cmp(&moment.weights[b]));
        // Half the opacity looks like much less than half.
        let strength = |k: usize| 0.12 + 0.88 * (moment.weights[k] / heaviest).sqrt();
        let span = |scale: &Scale| SIDE / (scale.hi - scale.lo);
        let (sx, sy) = (span(&self.x), span(&self.y));
        let place = |scale: &Scale, v: f64| (v - scale.lo) / (scale.hi - scale.lo) * SIDE;
        if self.formation.names.len() == 1 {
            let bell = |k: usize| {
                let sd = moment.covariances[k][0][0].max(0.0).sqrt();
                let height = moment.weights[k] * normal(0.0) / sd.max(f64::MIN_POSITIVE) * sy;
                [place(&self.x, moment.means[k][0]), sd * sx, height, 0.5 * strength(k)].map(tidy)
            };
            let mut path = String::new();
            for (i, at) in grid(&self.x, CURVE).enumerate() {
                let y = (SIDE - place(&self.y, density(moment, at))).clamp(-SIDE, SIDE);
                let letter = if i == 0 { 'M' } else { 'L' };
                path += &format!("{letter}{} {}", tidy(place(&self.x, at)), tidy(y));
            }
            return Marks::Bells(order.into_iter().map(bell).collect(), path);
        }
        let ellipse = |k: usize| {
            let (mean, covariance) = (&moment.means[k], &moment.covariances[k]);
            // In the square y points downwards.
            let (xx, xy, yy) = (covariance[0][0] * sx * sx, -covariance[0][1] * sx * sy, covariance[1][1] * sy * sy);
            let (middle, half) = (0.5 * (xx + yy), 0.5 * (xx - yy));
            let reach = half.hypot(xy);
            let turn = (0.5 * xy.atan2(half)).to_degrees();
            let axes = [middle + reach, middle - reach].map(|square| square.max(0.0).sqrt());
            let (x, y) = (place(&self.x, mean[0]), SIDE - place(&self.y, mean[1]));
            [x, y, axes[0], axes[1], turn, strength(k)].map(tidy)
        };
        let ellipses: Vec<[f64; 6]> = order.into_iter().map(ellipse).collect();
        let ink = ink(&ellipses);
        Marks::Ellipses(ellipses, ink)
    }

    /// The background picture without components.
    pub fn draw(&self, width: f64) -> FormationPicture {
        let names = &self.formation.names;
        let flat = names.len() == 1;
        let height = if width > 500.0 { 430.0 } else { 320.0 };
        let title = match &names[..] {
            [x, y] => format!("How the components moved in {x} and {y}"),
            _ => format!("How the density of {} formed", names[0]),
        };
        let mut scene = Scene::new(width, height, title);
        let y_ticks = if flat { Vec::new() } else { axis::ticks(&self.y, if height > 400.0 { 6 } else { 4 }) };
        let left = if flat { 8.0 } else { 20.0 + axis::label_room(&y_ticks) };
        let panel = Panel { left, right: width - 8.0, top: 8.0, bottom: height - 40.0, x: self.x, y: self.y };
        self.background(&mut scene, &panel);
        let (l, r, t, b) = (panel.left, panel.right, panel.top, panel.bottom);
        if !flat {
            scene.line(vec![(l, t), (r, t), (r, b), (l, b), (l, t)], Ink::GRID, 1.0);
        }
        for Tick { at, label } in y_ticks {
            let y = panel.py(at);
            scene.line(vec![(l - 4.0, y), (l, y)], Ink::AXIS, 1.0);
            scene.text(TextLabel::new((l - 7.0, y + 0.36 * TICK), label, TICK, Ink::MUTED).anchored(Anchor::End));
        }
        let x_ticks = axis::side_by_side(|most| axis::ticks(&self.x, most), r - l);
        panel.x_axis(&mut scene, &x_ticks, false);
        let name = |name: &str, room: f64| text::fit(name, 12.0, true, room - 6.0);
        let below = TextLabel::new((0.5 * (l + r), height - 6.0), name(&names[0], r - l), 12.0, Ink::TEXT);
        scene.text(below.bold().anchored(Anchor::Middle));
        if let Some(beside) = names.get(1) {
            let label = TextLabel::new((12.0, 0.5 * (t + b)), name(beside, b - t), 12.0, Ink::TEXT);
            scene.text(label.bold().upright().anchored(Anchor::Middle));
        }
        FormationPicture { scene, panel }
    }

    /// The final density: the regions that hold 50% and 90% of it, or its curve.
    fn background(&self, scene: &mut Scene, panel: &Panel) {
        if self.formation.names.len() == 1 {
            let mut shape: Vec<_> = grid(&self.x, CURVE).map(|at| panel.at((at, density(self.last, at)))).collect();
            scene.line(shape.clone(), Ink::series(0), 1.6);
            shape.extend([(panel.right, panel.bottom), (panel.left, panel.bottom)]);
            scene.area(shape, Ink::series(0), 0.1);
            return;
        }
        let mut heights = vec![0.0; GRID * GRID];
        let ((xs, ys), moment) = ((&self.x, &self.y), self.last);
        for (k, weight) in moment.weights.iter().enumerate() {
            let Some(normal) = Normal::new(&moment.means[k], &moment.covariances[k]) else { continue };
            for (row, y) in heights.chunks_mut(GRID).zip(grid(ys, GRID)) {
                row.iter_mut().zip(grid(xs, GRID)).for_each(|(height, x)| *height += weight * normal.density(x, y));
            }
        }
        let place = |(sx, sy): (f64, f64)| {
            (panel.left + sx * (panel.right - panel.left), panel.bottom - sy * (panel.bottom - panel.top))
        };
        for (share, width) in [(0.5, 1.8), (0.9, 0.9)] {
            let pieces = contour(&heights, GRID, level(&heights, share));
            scene.lines(pieces.into_iter().map(|piece| piece.map(place).to_vec()).collect(), Ink::series(0), width);
        }
    }
}

/// Fill opacity of ellipses: lower where many overlap, so that they can still be distinguished.
fn ink(ellipses: &[[f64; 6]]) -> f64 {
    let covers = |[x, y, a, b, turn, _]: &[f64; 6], other: &[f64; 6]| {
        let ((sin, cos), (dx, dy)) = (turn.to_radians().sin_cos(), (other[0] - x, other[1] - y));
        let (along, across) = ((cos * dx + sin * dy) / a.max(1e-3), (cos * dy - sin * dx) / b.max(1e-3));
        along.hypot(across) <= 1.0
    };
    let layers =
        |one: &[f64; 6]| -> f64 { ellipses.iter().filter(|other| covers(other, one)).map(|other| other[5]).sum() };
    let (sum, strength) =
        ellipses.iter().fold((0.0, 0.0), |(sum, all), one| (sum + one[5] * layers(one), all + one[5]));
    let deep = if strength > 0.0 { (sum / strength).max(1.0) } else { 1.0 };
    tidy(FILL * deep.powf(-0.9))
}

/// The range of a coordinate: the last moment, and as much of the earlier ones as leaves it readable.
fn range(formation: &Formation, last: &Moment, coordinate: usize) -> Option<Scale> {
    let sd = |k: usize| last.covariances[k][coordinate][coordinate].max(0.0).sqrt();
    let edges = |sign: f64| {
        let edge = |(k, weight): (usize, &f64)| (sign * last.means[k][coordinate] + ROOM * sd(k), *weight);
        sign * quantile(last.weights.iter().enumerate().map(edge).collect(), OUTSIDE)
    };
    let (lo, hi) = (edges(-1.0), edges(1.0));
    let room = MOST_WIDER * (hi - lo);
    let way = |sign: f64| {
        let outermost = |moment: &Moment| {
            let means = moment.means.iter().map(|mean| sign * mean[coordinate]).zip(moment.weights.iter().copied());
            quantile(means.collect(), 0.02)
        };
        sign * formation.moments.iter().map(outermost).fold(f64::NEG_INFINITY, f64::max)
    };
    let far = (way(-1.0) - 0.05 * (hi - lo), way(1.0) + 0.05 * (hi - lo));
    let (lo, hi) = (lo.min(far.0.max(lo - room)), hi.max(far.1.min(hi + room)));
    (lo.is_finite() && hi.is_finite()).then(|| Scale::linear(lo, hi))
}

/// The value that `share` of the weight lies above.
fn quantile(mut values: Vec<(f64, f64)>, share: f64) -> f64 {
    values.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut above = 0.0;
    let found = values.iter().find(|(_, weight)| {
        above += weight;
        above > share
    });
    found.or(values.last()).map_or(f64::NAN, |(value, _)| *value)
}

fn grid(scale: &Scale, points: usize) -> impl Iterator<Item = f64> + use<> {
    let (lo, step) = (scale.lo, (scale.hi - scale.lo) / (points - 1) as f64);
    (0..points).map(move |i| lo + step * i as f64)
}

fn normal(square: f64) -> f64 {
    (-0.5 * square).exp() / std::f64::consts::TAU.sqrt()
}

/// Density of a moment in its single coordinate.
fn density(moment: &Moment, x: f64) -> f64 {
    let part = |((weight, mean), covariance): ((&f64, &Vec<f64>), &Vec<Vec<f64>>)| {
        let variance = covariance[0][0];
        if variance > 0.0 { weight * normal((x - mean[0]).powi(2) / variance) / variance.sqrt() } else { 0.0 }
    };
    moment.weights.iter().zip(&moment.means).zip(&moment.covariances).map(part).sum()
}

/// A Gaussian in two coordinates.
struct Normal {
    mean: [f64; 2],
    precision: [f64; 3],
    height: f64,
}

impl Normal {
    fn new(mean: &[f64], covariance: &[Vec<f64>]) -> Option<Self> {
        let (xx, xy, yy) = (covariance[0][0], covariance[0][1], covariance[1][1]);
        let determinant = xx * yy - xy * xy;
        (xx > 0.0 && determinant > 0.0).then(|| Self {
            mean: [mean[0], mean[1]],
            precision: [yy / determinant, -xy / determinant, xx / determinant],
            height: 1.0 / (std::f64::consts::TAU * determinant.sqrt()),
        })
    }

    fn density(&self, x: f64, y: f64) -> f64 {
        let (x, y, [xx, xy, yy]) = (x - self.mean[0], y - self.mean[1], self.precision);
        self.height * (-0.5 * (xx * x * x + 2.0 * xy * x * y + yy * y * y)).exp()
    }
}

/// Rounds more finely than the eye can see, to keep the page small; never returns a number that JSON or SVG cannot
/// hold.
fn tidy(x: f64) -> f64 {
    let rounded = if x.is_nan() { 0.0 } else { (x.clamp(-1e6, 1e6) * 100.0).round() / 100.0 };
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// The height above which a share of the mass lies.
fn level(heights: &[f64], share: f64) -> f64 {
    let mut sorted = heights.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let goal = share * sorted.iter().sum::<f64>();
    let mut sum = 0.0;
    sorted
        .into_iter()
        .find(|h| {
            sum += h;
            sum >= goal
        })
        .unwrap_or(0.0)
}
