//! The joint density of two parameters, and its contours.
//!
//! The kernel of a draw is a product of two normals with the widths of the two marginals.

use super::density::{MarginalDensity, blur};
use crate::figure::contour::contour;

/// A joint density of two parameters on a square grid, `SIDE` points per side, x first.
pub struct Joint {
    /// Heights, in rows of y.
    pub heights: Vec<f64>,
    /// Levels that enclose 50% and 90% of the mass.
    pub levels: [f64; 2],
}

impl Joint {
    /// Points per side.
    pub const SIDE: usize = 64;

    /// From pairs, the component of each, and both marginals, whose ranges and kernel widths it shares.
    pub fn new(pairs: &[(f64, f64)], component: &[usize], x: &MarginalDensity, y: &MarginalDensity) -> Self {
        let side = Self::SIDE;
        let steps = [x, y].map(|m| (m.range.1 - m.range.0) / (side - 1) as f64);
        let mut heights = vec![0.0; side * side];
        for (c, (wx, wy)) in x.widths.iter().zip(&y.widths).enumerate() {
            let mut bins = vec![0.0; side * side];
            for (i, (px, py)) in pairs.iter().enumerate() {
                let (ix, iy) = (((px - x.range.0) / steps[0]).round(), ((py - y.range.0) / steps[1]).round());
                let inside = |at: f64| (0.0..side as f64).contains(&at);
                if component.get(i).copied().unwrap_or(0).min(x.widths.len() - 1) == c && inside(ix) && inside(iy) {
                    bins[iy as usize * side + ix as usize] += 1.0;
                }
            }
            // In two dimensions a kernel needs more width for the same smoothness.
            let mut rows = vec![0.0; side * side];
            for (bins, sum) in bins.chunks(side).zip(rows.chunks_mut(side)) {
                blur(bins, 1.4 * wx / steps[0], sum, None);
            }
            for column in 0..side {
                let bins: Vec<f64> = (0..side).map(|row| rows[row * side + column]).collect();
                let mut sum = vec![0.0; side];
                blur(&bins, 1.4 * wy / steps[1], &mut sum, None);
                sum.iter().enumerate().for_each(|(row, h)| heights[row * side + column] += h);
            }
        }
        let levels = [0.5, 0.9].map(|share| level(&heights, share));
        Self { heights, levels }
    }

    /// The contour at height `level`, as short segments in fractions of the square.
    pub fn contour(&self, level: f64) -> Vec<[(f64, f64); 2]> {
        contour(&self.heights, Self::SIDE, level)
    }
}

/// The height above which a share of the mass lies.
pub fn level(heights: &[f64], share: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contour_closes_around_the_mass() {
        // Quantiles of the logistic distribution: noise-free draws.
        let values: Vec<f64> = (0..40).map(|i| (f64::from(i) + 0.5) / 40.0).map(|u| (u / (1.0 - u)).ln()).collect();
        let pairs: Vec<(f64, f64)> = values.iter().flat_map(|x| values.iter().map(move |y| (*x, *y))).collect();
        let [x, y] = [|p: &(f64, f64)| p.0, |p: &(f64, f64)| p.1].map(|f| pairs.iter().map(f).collect::<Vec<f64>>());
        let [x, y] = [x, y].map(|v| MarginalDensity::new(&v, &[]).unwrap());
        let joint = Joint::new(&pairs, &[], &x, &y);
        let pieces = joint.contour(joint.levels[0]);
        let radius = |p: (f64, f64)| (p.0 - 0.5).hypot(p.1 - 0.5);
        assert!(pieces.len() > 20 && pieces.iter().flatten().all(|p| (0.05..0.4).contains(&radius(*p))));
        assert!(joint.levels[0] > joint.levels[1]);
    }
}
