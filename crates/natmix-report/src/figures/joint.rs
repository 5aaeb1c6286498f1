//! Regions that hold a share of the draws of two parameters.
//!
//! The density is a kernel estimate in coordinates in which the draws of a component have unit covariance on average, so that
//! parameters may be correlated to any degree: the grid follows the draws. Kernels are round there. Their width is
//! proportional to the spread of the component, and the factor, common to all, is the one with the largest likelihood when each
//! draw is left out in turn: curved regions and separate modes get narrow kernels. A level is the quantile of the heights at the draws, each with
//! its own kernel left out: the region holds the wanted share of further draws.

use super::density::blur;
use crate::figure::Point;
use crate::figure::contour::contour;

/// Points per side of the grid.
const SIDE: usize = 128;
/// Widths of kernels, as shares of the best one for a normal density, widest first.
const FACTORS: [f64; 8] = [2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18];
/// Fewest draws of a component that tell its own spread.
const FEW: usize = 12;
/// Components whose logarithmic widths differ by less than this have the same.
const SAME_WIDTH: f64 = 0.3;
/// Kernel widths beyond the outermost draws.
const MARGIN: f64 = 5.0;
/// Width of the narrowest kernel in steps of the grid; [`blur`] has the same limit.
const NARROWEST: f64 = 0.6;

/// The joint density of two parameters.
pub struct Joint {
    frame: Frame,
    /// Heights on the grid, in rows of the second coordinate.
    heights: Vec<f64>,
    /// Levels of the regions that hold 50% and 90% of the draws.
    pub levels: [f64; 2],
}

/// A place on the grid: the cell, and the part of a step beyond it in both directions.
type Place = ((usize, usize), Point);

/// The grid: `x = x_0 + x_x u`, `y = y_0 + y_x u + y_y v` for fractions `u`, `v` of its sides.
struct Frame {
    origin: Point,
    x_x: f64,
    y_x: f64,
    y_y: f64,
}

impl Frame {
    fn data(&self, (u, v): Point) -> Point {
        (self.origin.0 + self.x_x * u, self.origin.1 + self.y_x * u + self.y_y * v)
    }

    fn place(&self, (x, y): Point) -> Option<Place> {
        let u = (x - self.origin.0) / self.x_x;
        let v = (y - self.origin.1 - self.y_x * u) / self.y_y;
        let last = (SIDE - 1) as f64;
        if !((0.0..=1.0).contains(&u) && (0.0..=1.0).contains(&v)) {
            return None;
        }
        let cell = [u, v].map(|w| ((w * last) as usize).min(SIDE - 2));
        Some(((cell[0], cell[1]), (u * last - cell[0] as f64, v * last - cell[1] as f64)))
    }
}

impl Joint {
    /// From pairs within the `ranges` that are shown, and the component of each; none if they do not vary.
    pub fn new(pairs: &[Point], component: &[usize], (x, y): ((f64, f64), (f64, f64))) -> Option<Self> {
        let inside = |&(_, p): &(usize, &Point)| (x.0..=x.1).contains(&p.0) && (y.0..=y.1).contains(&p.1);
        // Scaled to the ranges, so that squares neither overflow nor vanish.
        let scale = (x.1 - x.0, y.1 - y.0);
        let unit = |(i, p): (usize, &Point)| {
            (component.get(i).copied().unwrap_or(0), ((p.0 - x.0) / scale.0, (p.1 - y.0) / scale.1))
        };
        let points: Vec<(usize, Point)> = pairs.iter().enumerate().filter(inside).map(unit).collect();
        let spread = Covariance::within(&points)?;
        let (a, b, c) = spread.triangle();
        let whitened: Vec<Point> = points.iter().map(|(_, p)| (p.0 / a, (p.1 - b * p.0 / a) / c)).collect();
        let widths = widths(&points, &whitened);
        let (low, high) = bounds(&whitened, widths.iter().copied().fold(0.0, f64::max));
        let (wide, tall) = (high.0 - low.0, high.1 - low.1);
        let frame = Frame {
            origin: (x.0 + scale.0 * a * low.0, y.0 + scale.1 * (b * low.0 + c * low.1)),
            x_x: scale.0 * a * wide,
            y_x: scale.1 * b * wide,
            y_y: scale.1 * c * tall,
        };
        let steps = (wide / (SIDE - 1) as f64, tall / (SIDE - 1) as f64);
        let shown: Vec<Point> = pairs.iter().enumerate().filter(inside).map(|(_, p)| *p).collect();
        let places: Vec<Option<Place>> = shown.iter().map(|p| frame.place(*p)).collect();
        let mut best: Option<(f64, Vec<f64>, Vec<f64>)> = None;
        for factor in FACTORS {
            let (heights, left_out) = estimate(&places, &widths, factor, steps);
            let floor = 1e-9 * heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            let likelihood = left_out.iter().map(|h| h.max(floor).ln()).sum::<f64>() / left_out.len() as f64;
            match &best {
                Some((most, ..)) if likelihood <= *most => break,
                _ => best = Some((likelihood, heights, left_out)),
            }
        }
        let (_, heights, mut left_out) = best?;
        left_out.sort_by(f64::total_cmp);
        let level = |share: f64| {
            let at = (1.0 - share) * (left_out.len() - 1) as f64;
            let below = at as usize;
            let above = left_out[(below + 1).min(left_out.len() - 1)];
            left_out[below] + at.fract() * (above - left_out[below])
        };
        Some(Self { frame, levels: [level(0.5), level(0.9)], heights })
    }

    /// The contour at height `level`, as short segments between values of the two parameters.
    pub fn contour(&self, level: f64) -> Vec<[Point; 2]> {
        let pieces = contour(&self.heights, SIDE, level).into_iter();
        pieces.map(|piece| piece.map(|p| self.frame.data(p))).collect()
    }
}

/// Heights on the grid, and at each draw without its own kernel.
fn estimate(places: &[Option<Place>], widths: &[f64], factor: f64, steps: (f64, f64)) -> (Vec<f64>, Vec<f64>) {
    let mut heights = vec![0.0; SIDE * SIDE];
    let mut classes = widths.to_vec();
    classes.sort_by(f64::total_cmp);
    classes.dedup();
    for class in &classes {
        let of_class = places.iter().zip(widths).filter(|(_, width)| *width == class);
        let mut bins = vec![0.0; SIDE * SIDE];
        for (corner, part) in of_class.filter_map(|(place, _)| *place).flat_map(corners) {
            bins[corner] += part;
        }
        let (wx, wy) = (factor * class / steps.0, factor * class / steps.1);
        let mut rows = vec![0.0; SIDE * SIDE];
        for (bins, sum) in bins.chunks(SIDE).zip(rows.chunks_mut(SIDE)) {
            blur(bins, wx, sum, None);
        }
        let (mut column, mut sum) = (vec![0.0; SIDE], vec![0.0; SIDE]);
        for at in 0..SIDE {
            (0..SIDE).for_each(|row| column[row] = rows[row * SIDE + at]);
            sum.fill(0.0);
            blur(&column, wy, &mut sum, None);
            sum.iter().enumerate().for_each(|(row, h)| heights[row * SIDE + at] += h);
        }
    }
    let others = places.iter().zip(widths).map(|(place, width)| {
        let Some(place) = place else { return 0.0 };
        let ((_, _), (s, t)) = *place;
        let height: f64 = corners(*place).into_iter().map(|(corner, part)| part * heights[corner]).sum();
        let [x, y] = [(s, steps.0), (t, steps.1)].map(|(part, step)| own_height(part, factor * width / step));
        height - x * y
    });
    let left_out = others.collect();
    (heights, left_out)
}

/// The corners of a cell on the grid, with their shares of a draw.
fn corners(((column, row), (s, t)): Place) -> [(usize, f64); 4] {
    let at = row * SIDE + column;
    [(at, (1.0 - s) * (1.0 - t)), (at + 1, s * (1.0 - t)), (at + SIDE, (1.0 - s) * t), (at + SIDE + 1, s * t)]
}

/// Height of a draw's own kernel at the draw, in one direction: both are shared among two points of the grid.
fn own_height(part: f64, width: f64) -> f64 {
    let width = width.max(NARROWEST);
    let (here, beside) = (1.0 / width, (-0.5 / (width * width)).exp() / width);
    let other = 1.0 - part;
    (part * part + other * other) * here + 2.0 * part * other * beside
}

/// The kernel width of each draw, before the common factor.
fn widths(points: &[(usize, Point)], whitened: &[Point]) -> Vec<f64> {
    let most = points.iter().map(|point| point.0).max().unwrap_or(0).min(MOST_COMPONENTS - 1);
    let mut groups: Vec<Vec<(usize, Point)>> = vec![Vec::new(); most + 1];
    for ((component, _), point) in points.iter().zip(whitened) {
        groups[(*component).min(most)].push((0, *point));
    }
    let class = |group: &Vec<(usize, Point)>| {
        let own = Covariance::within(group).filter(|_| group.len() >= FEW);
        let size = own.map_or(1.0, |own| own.determinant().powf(0.25)).clamp(1e-3, 1e3);
        (size.ln() / SAME_WIDTH).round()
    };
    let classes: Vec<f64> = groups.iter().map(class).collect();
    let of_class =
        |class: f64| groups.iter().zip(&classes).filter(|of| *of.1 == class).map(|of| of.0.len()).sum::<usize>();
    let by_group: Vec<f64> = classes
        .iter()
        .map(|class| (class * SAME_WIDTH).exp() * (of_class(*class).max(1) as f64).powf(-1.0 / 6.0))
        .collect();
    points.iter().map(|(component, _)| by_group[(*component).min(most)]).collect()
}

/// Components that are told apart.
const MOST_COMPONENTS: usize = 64;

/// The rectangle around the draws, with room for their kernels.
fn bounds(points: &[Point], width: f64) -> (Point, Point) {
    let side = |pick: fn(&Point) -> f64| {
        let of = || points.iter().map(pick);
        let (low, high) = (of().fold(f64::INFINITY, f64::min), of().fold(f64::NEG_INFINITY, f64::max));
        (low - MARGIN * width, high + MARGIN * width)
    };
    let (x, y) = (side(|p| p.0), side(|p| p.1));
    ((x.0, y.0), (x.1, y.1))
}

/// A covariance of two parameters.
struct Covariance {
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Covariance {
    /// Of draws about the mean of their component; none if they do not vary.
    fn within(points: &[(usize, Point)]) -> Option<Self> {
        let most = points.iter().map(|point| point.0).max()?.min(MOST_COMPONENTS - 1);
        let mut sums = vec![(0.0, 0.0, 0.0); most + 1];
        for (component, (x, y)) in points {
            let sum = &mut sums[(*component).min(most)];
            *sum = (sum.0 + 1.0, sum.1 + x, sum.2 + y);
        }
        let mut all = Self { xx: 0.0, xy: 0.0, yy: 0.0 };
        for (component, (x, y)) in points {
            let sum = sums[(*component).min(most)];
            let (x, y) = (x - sum.1 / sum.0, y - sum.2 / sum.0);
            (all.xx, all.xy, all.yy) = (all.xx + x * x, all.xy + x * y, all.yy + y * y);
        }
        let count = points.len() as f64;
        (all.xx, all.xy, all.yy) = (all.xx / count, all.xy / count, all.yy / count);
        (all.xx > 0.0 && all.yy > 0.0).then_some(all)
    }

    /// Its lower triangular root; a perfect correlation is taken to be almost one.
    fn triangle(&self) -> (f64, f64, f64) {
        let a = self.xx.sqrt();
        let b = self.xy / a;
        (a, b, (self.yy - b * b).max(1e-8 * self.yy).sqrt())
    }

    fn determinant(&self) -> f64 {
        (self.xx * self.yy - self.xy * self.xy).max(0.0)
    }
}

#[cfg(test)]
mod tests;
