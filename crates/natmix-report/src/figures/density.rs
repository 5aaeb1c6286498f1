//! A kernel density estimate from draws that keeps separate modes separate.
//!
//! Kernel estimate on a grid, `f(x) = 1/n sum_i N(x; x_i, h_{c(i)}^2)`, where `c(i)` is the component that draw `i`
//! came from and
//! `h_c = 1.06 s_c n_c^(-1/5)` with `s_c` the spread within that component. A single width for all draws would
//! follow the distance between the modes and oversmooth them.

/// Points of the grid.
const GRID: usize = 321;
/// Number of draws from which on their range tells where a density ends.
const MANY: usize = 1_000;

/// The marginal of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct MarginalDensity {
    /// First and last point of the grid.
    pub range: (f64, f64),
    /// Heights on the grid, the largest 1.
    pub heights: Vec<f64>,
    /// Modes from left to right: value and height.
    pub modes: Vec<(f64, f64)>,
    /// Quantiles 5%, 50%, 95% of the draws.
    pub quantiles: [f64; 3],
    /// Depth of the deepest valley between two modes: 0 for one mode, 1 for fully separated modes.
    pub valley: f64,
    /// Kernel width by component.
    pub widths: Vec<f64>,
}

impl MarginalDensity {
    /// From values and the component of each; `None` if fewer than two values are finite.
    pub fn new(values: &[f64], component: &[usize]) -> Option<Self> {
        let groups = by_component(values, component);
        let mut sorted = groups.concat();
        if sorted.len() < 2 {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let quantiles = [0.05, 0.5, 0.95].map(|p| quantile(&sorted, p));
        let mut widths = kernel_widths(&groups);
        let (mut lo, mut hi) = range(&sorted, &groups, &widths);
        if hi - lo <= 1e-12 * lo.abs().max(hi.abs()) {
            return Some(Self::spike(quantiles, widths));
        }
        let mut curve = DensityCurve::new(&groups, &widths, (lo, hi));
        // Where components overlap, their kernels are too narrow for the draws as a whole: widen while that only
        // removes peaks that are noise.
        for _ in 0..6 {
            if curve.modes.len() == curve.peaks {
                break;
            }
            let wider: Vec<f64> = widths.iter().map(|w| 1.25 * w).collect();
            let ends = range(&sorted, &groups, &wider);
            let next = DensityCurve::new(&groups, &wider, ends);
            if next.modes.len() < curve.modes.len() {
                break;
            }
            (curve, widths, (lo, hi)) = (next, wider, ends);
        }
        let heights = curve.heights;
        let at = |i: usize| (lo + (hi - lo) * peak(&heights, i), heights[i]);
        let modes = curve.modes.iter().map(|i| at(*i)).collect();
        let valley = valley(&heights, &curve.modes);
        Some(Self { range: (lo, hi), heights, modes, quantiles, valley, widths })
    }

    /// All draws equal.
    fn spike(quantiles: [f64; 3], widths: Vec<f64>) -> Self {
        let at = quantiles[1];
        let room = if at == 0.0 { 1.0 } else { 0.1 * at.abs() };
        let mut heights = vec![0.0; GRID];
        heights[GRID / 2] = 1.0;
        Self { range: (at - room, at + room), heights, modes: vec![(at, 1.0)], quantiles, valley: 0.0, widths }
    }

    /// Points of the curve.
    pub fn curve(&self) -> impl Iterator<Item = (f64, f64)> {
        let (lo, hi) = self.range;
        self.heights.iter().enumerate().map(move |(i, h)| (lo + (hi - lo) * i as f64 / (GRID - 1) as f64, *h))
    }

    /// Skewness of the middle 90%: 0 if symmetric, towards 1 with a long tail.
    pub fn skew(&self) -> f64 {
        let [lo, middle, hi] = self.quantiles;
        if hi > lo { ((hi + lo - 2.0 * middle) / (hi - lo)).abs() } else { 0.0 }
    }
}

/// The range to show: nearly all draws, with room for their kernels.
fn range(sorted: &[f64], groups: &[Vec<f64>], widths: &[f64]) -> (f64, f64) {
    let typical = groups.iter().zip(widths).map(|(g, w)| g.len() as f64 * w).sum::<f64>() / sorted.len() as f64;
    let (lo, hi) = (quantile(sorted, 0.0025) - 2.5 * typical, quantile(sorted, 0.9975) + 2.5 * typical);
    // Where many draws stop short of that room, there is a bound.
    let (lo, hi) = match sorted.len() {
        MANY.. => (lo.max(sorted[0]), hi.min(sorted[sorted.len() - 1])),
        _ => (lo, hi),
    };
    // The density of positive numbers must not extend below zero.
    let lo = if sorted[0] >= 0.0 { lo.max(0.0) } else { lo };
    let hi = if sorted[sorted.len() - 1] <= 0.0 { hi.min(0.0) } else { hi };
    (lo, hi)
}

/// Quantile of sorted values, linearly interpolated.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let (below, share) = (at.floor() as usize, at.fract());
    sorted[below] + share * (sorted[(below + 1).min(sorted.len() - 1)] - sorted[below])
}

/// The finite values of each component; the last group also holds those of all further components.
fn by_component(values: &[f64], component: &[usize]) -> Vec<Vec<f64>> {
    const MOST: usize = 256;
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for (i, x) in values.iter().enumerate().filter(|(_, x)| x.abs() < 1e150) {
        let c = component.get(i).copied().unwrap_or(0).min(MOST);
        if groups.len() <= c {
            groups.resize(c + 1, Vec::new());
        }
        groups[c].push(*x);
    }
    groups
}

fn kernel_widths(groups: &[Vec<f64>]) -> Vec<f64> {
    // A single draw has no spread; if every component has only one, use the spread of all draws.
    let known = || groups.iter().filter(|group| group.len() > 1);
    let within = match known().map(Vec::len).sum::<usize>() {
        0 => spread(&groups.concat()),
        count => known().map(|group| group.len() as f64 * spread(group)).sum::<f64>() / count as f64,
    };
    let width = |group: &Vec<f64>| {
        let n = group.len() as f64;
        // The spread of a few draws is uncertain: shrink it towards that of the others.
        let spread = ((n - 1.0).max(0.0) * spread(group) + 2.0 * within) / (n + 1.0).max(2.0);
        1.06 * spread * (n + 2.0).powf(-0.2)
    };
    groups.iter().map(width).collect()
}

/// The smaller of the standard deviation and that of a normal with the same interquartile range, so that outliers do
/// not widen it.
fn spread(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    let sd = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / 1.349;
    if middle > 0.0 { sd.min(middle) } else { sd }
}

/// A smoothed density and its peaks.
struct DensityCurve {
    /// Heights on the grid, the largest 1.
    heights: Vec<f64>,
    /// Peaks that stand out from the noise, as indices on the grid.
    modes: Vec<usize>,
    /// Number of all visible peaks.
    peaks: usize,
}

impl DensityCurve {
    fn new(groups: &[Vec<f64>], widths: &[f64], (lo, hi): (f64, f64)) -> Self {
        let step = (hi - lo) / (GRID - 1) as f64;
        let (mut heights, mut variances) = (vec![0.0; GRID], vec![0.0; GRID]);
        for (group, width) in groups.iter().zip(widths).filter(|(group, _)| !group.is_empty()) {
            let mut bins = vec![0.0; GRID];
            for x in group.iter().filter(|x| (lo..=hi).contains(*x)) {
                let at = (x - lo) / step;
                let below = (at as usize).min(GRID - 2);
                bins[below] += 1.0 - (at - below as f64);
                bins[below + 1] += at - below as f64;
            }
            blur(&bins, width / step, &mut heights, Some(&mut variances));
        }
        let largest = heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        heights.iter_mut().for_each(|h| *h /= largest);
        let errors: Vec<f64> = variances.iter().map(|v| v.sqrt() / largest).collect();
        let (modes, peaks) = modes(&heights, &errors);
        Self { heights, modes, peaks }
    }
}

/// Adds `bins`, smoothed by a normal kernel of `width` bins; mass beyond the ends of the grid is reflected.
/// The variance of a sum of kernels is about the sum of their squares.
pub fn blur(bins: &[f64], width: f64, sum: &mut [f64], mut variance: Option<&mut Vec<f64>>) {
    let width = width.max(0.6);
    let reach = ((4.0 * width) as usize).min(bins.len() - 1);
    let kernel: Vec<f64> = (0..=reach).map(|i| (-0.5 * (i as f64 / width).powi(2)).exp() / width).collect();
    let last = bins.len() as isize - 1;
    for (i, count) in bins.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        for shift in -(reach as isize)..=reach as isize {
            let at = i as isize + shift;
            let inside = if at < 0 { -at } else { at.min(2 * last - at) } as usize;
            // At the end itself a kernel overlaps its own reflection.
            let height = kernel[shift.unsigned_abs()] * if at == 0 || at == last { 2.0 } else { 1.0 };
            sum[inside] += count * height;
            if let Some(variance) = &mut variance {
                variance[inside] += count * height * height;
            }
        }
    }
}

/// Peaks that stand out, and the number of all peaks. A peak stands out if it rises above the path to any higher one by
/// a fifth of its height and by three standard errors.
fn modes(heights: &[f64], errors: &[f64]) -> (Vec<usize>, usize) {
    let is_peak = |i: &usize| {
        let left = if *i == 0 { 0.0 } else { heights[i - 1] };
        let right = heights.get(i + 1).copied().unwrap_or(0.0);
        heights[*i] > left && heights[*i] >= right && heights[*i] >= 0.01
    };
    let peaks: Vec<usize> = (0..heights.len()).filter(is_peak).collect();
    let stands_out = |i: &usize| heights[*i] - saddle(heights, *i) >= (0.2 * heights[*i]).max(3.0 * errors[*i]);
    // The highest peak is a mode even with few draws.
    let highest = peaks.iter().copied().reduce(|a, b| if heights[b] > heights[a] { b } else { a });
    let modes = peaks.iter().copied().filter(|i| stands_out(i) || Some(*i) == highest).collect();
    (modes, peaks.len())
}

/// Height of the lowest point on the path from a peak to a higher one; 0 for the highest.
fn saddle(heights: &[f64], peak: usize) -> f64 {
    let way = |side: &mut dyn Iterator<Item = &f64>| {
        let mut lowest = heights[peak];
        for h in side {
            if *h > heights[peak] {
                return lowest;
            }
            lowest = lowest.min(*h);
        }
        0.0
    };
    way(&mut heights[peak + 1..].iter()).max(way(&mut heights[..peak].iter().rev()))
}

fn valley(heights: &[f64], modes: &[usize]) -> f64 {
    let depth = |pair: &[usize]| {
        let low = heights[pair[0]..=pair[1]].iter().copied().fold(1.0, f64::min);
        1.0 - low / heights[pair[0]].min(heights[pair[1]])
    };
    modes.windows(2).map(depth).fold(0.0, f64::max)
}

/// Position of a peak as a fraction of the grid, by the parabola through three points.
fn peak(heights: &[f64], i: usize) -> f64 {
    let shift = if i == 0 || i + 1 == heights.len() {
        0.0
    } else {
        let (a, b, c) = (heights[i - 1], heights[i], heights[i + 1]);
        if a + c < 2.0 * b { 0.5 * (a - c) / (a - 2.0 * b + c) } else { 0.0 }
    };
    (i as f64 + shift) / (heights.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of a logistic distribution, which is close to a normal: noise-free draws.
    fn bell(n: usize, mean: f64, sd: f64) -> Vec<f64> {
        (0..n).map(|i| (i as f64 + 0.5) / n as f64).map(|u| mean + sd * (u / (1.0 - u)).ln() / 1.702).collect()
    }

    #[test]
    fn separate_modes_stay_separate() {
        let values = [bell(500, -10.0, 0.1), bell(300, 0.0, 0.1), bell(200, 10.0, 0.1)].concat();
        let component: Vec<usize> = (0..1000).map(|i| usize::from(i >= 500) + usize::from(i >= 800)).collect();
        let density = MarginalDensity::new(&values, &component).unwrap();
        let at: Vec<f64> = density.modes.iter().map(|m| m.0).collect();
        assert_eq!(at.len(), 3);
        for (found, truth) in at.iter().zip([-10.0, 0.0, 10.0]) {
            assert!((found - truth).abs() < 0.05, "{at:?}");
        }
        assert!(density.valley > 0.99);
    }

    #[test]
    fn a_normal_has_one_mode_and_its_quantiles() {
        let density = MarginalDensity::new(&bell(1000, 3.0, 2.0), &[0; 1000]).unwrap();
        assert_eq!(density.modes.len(), 1);
        assert!((density.modes[0].0 - 3.0).abs() < 0.05 && density.skew() < 1e-9 && density.valley == 0.0);
        assert!((density.quantiles[1] - 3.0).abs() < 1e-9);
    }

    #[test]
    fn positive_draws_have_no_density_below_zero() {
        let values: Vec<f64> = (0..999).map(|i| -(1.0 - (f64::from(i) + 0.5) / 999.0).ln()).collect();
        let density = MarginalDensity::new(&values, &[]).unwrap();
        assert_eq!(density.range.0, 0.0);
        assert!(density.skew() > 0.3);
    }

    #[test]
    fn a_bounded_density_ends_at_its_bounds() {
        let values: Vec<f64> = (0..2000).map(|i| 3.0 + 2.0 * (f64::from(i) + 0.5) / 2000.0).collect();
        let density = MarginalDensity::new(&values, &[]).unwrap();
        assert!(density.range.0 > 2.999 && density.range.1 < 5.001, "{:?}", density.range);
        // A uniform density is flat up to its ends.
        assert!(density.heights.iter().all(|h| *h > 0.9), "{:?}", density.heights);
    }

    #[test]
    fn one_draw_per_component_still_gives_a_curve() {
        let density = MarginalDensity::new(&bell(20, 0.0, 1.0), &(0..20).collect::<Vec<_>>()).unwrap();
        assert_eq!(density.modes.len(), 1);
        assert!(density.heights[GRID / 3..2 * GRID / 3].iter().all(|h| *h > 0.2));
    }

    #[test]
    fn degenerate_draws_give_finite_curves() {
        assert_eq!(MarginalDensity::new(&[], &[]), None);
        assert_eq!(MarginalDensity::new(&[1.0, f64::NAN], &[]), None);
        let constant = MarginalDensity::new(&[7.0; 50], &[usize::MAX; 50]).unwrap();
        assert_eq!(constant.modes, [(7.0, 1.0)]);
        let wide = MarginalDensity::new(&[1e140, -1e140, f64::INFINITY, 0.0], &[3, 2]).unwrap();
        assert!(wide.heights.iter().all(|h| h.is_finite()));
    }
}
