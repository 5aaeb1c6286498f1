//! Regions hold the share of draws that they claim, on the smallest area that does.

use super::super::density::MarginalDensity;
use super::*;
use std::f64::consts::{PI, TAU};

/// Uniform and normal numbers.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((bits ^ (bits >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }
}

fn joint(draws: &[(usize, Point)]) -> Joint {
    let component: Vec<usize> = draws.iter().map(|draw| draw.0).collect();
    let pairs: Vec<Point> = draws.iter().map(|draw| draw.1).collect();
    let range = |pick: fn(&Point) -> f64| {
        MarginalDensity::new(&pairs.iter().map(pick).collect::<Vec<_>>(), &component).unwrap().range
    };
    Joint::new(&pairs, &component, (range(|p| p.0), range(|p| p.1))).unwrap()
}

impl Joint {
    fn height(&self, p: Point) -> f64 {
        let corners = self.frame.place(p).map(corners).unwrap_or_default();
        corners.into_iter().map(|(corner, part)| part * self.heights[corner]).sum()
    }

    /// The share of draws in the region at a level.
    fn share(&self, draws: &[(usize, Point)], level: f64) -> f64 {
        draws.iter().filter(|(_, p)| self.height(*p) >= level).count() as f64 / draws.len() as f64
    }

    /// The area of the region at a level.
    fn area(&self, level: f64) -> f64 {
        let step = 1.0 / (SIDE - 1) as f64;
        let cells = self.heights.iter().filter(|h| **h >= level).count() as f64;
        cells * step * step * self.frame.x_x * self.frame.y_y
    }
}

/// Normal draws with a correlation, bent by `x^2`: bending keeps areas.
fn draws(count: usize, correlation: f64, bend: f64, seed: u64) -> Vec<(usize, Point)> {
    let mut noise = Noise(seed);
    let one = |_| {
        let (x, e) = (noise.normal(), noise.normal());
        let y = correlation * x + (1.0 - correlation * correlation).sqrt() * e;
        (0, (3.0 + 0.01 * x, 1e4 * (y + bend * x * x)))
    };
    (0..count).map(one).collect()
}

/// With 4,000 draws the share of 20,000 further ones has a standard error of 0.5 points; the area has one of about 2%.
#[test]
fn regions_hold_their_share_on_the_right_area() {
    for (correlation, bend) in
        [(0.0, 0.0), (0.9, 0.0), (0.99, 0.0), (-0.96, 0.0), (0.999, 0.0), (0.0, 1.0), (0.9, 0.5), (-0.99, 0.3)]
    {
        for seed in 1..=3 {
            let fitted = draws(4000, correlation, bend, seed);
            let further = draws(20_000, correlation, bend, seed + 100);
            let joint = joint(&fitted);
            for (share, level) in [0.5, 0.9].into_iter().zip(joint.levels) {
                let case = format!("correlation {correlation}, bend {bend}, seed {seed}, {share}");
                let (own, other) = (joint.share(&fitted, level), joint.share(&further, level));
                assert!((own - share).abs() < 0.02 && (other - share).abs() < 0.02, "{case}: {own} {other}");
                let exact = -2.0 * (1.0 - share).ln() * PI * (1.0 - correlation * correlation).sqrt() * 100.0;
                let ratio = joint.area(level) / exact;
                assert!((0.9..if bend == 0.0 { 1.1 } else { 1.25 }).contains(&ratio), "{case}: area {ratio}");
            }
        }
    }
}

/// Narrow modes far from each other, of which one is wider, are not smeared into each other.
#[test]
fn modes_keep_their_own_regions() {
    let mut noise = Noise(5);
    let one = |i: usize| {
        let k = i % 3;
        let sd = [0.1, 0.1, 0.4][k];
        (k, ([-5.0, 0.0, 5.0][k] + sd * noise.normal(), [0.0, 4.0, -4.0][k] + sd * noise.normal()))
    };
    let joint = joint(&(0..3000).map(one).collect::<Vec<_>>());
    let exact = -2.0 * 0.1f64.ln() * PI * (2.0 * 0.01 + 0.16);
    let (area, centres) = (joint.area(joint.levels[1]), [(-5.0, 0.0), (0.0, 4.0), (5.0, -4.0)]);
    // One level cuts the three modes at different heights, which keeps the whole a little smaller.
    assert!((0.5..1.3).contains(&(area / exact)), "{}", area / exact);
    assert!(centres.iter().all(|centre| joint.height(*centre) > joint.levels[0] * 0.05));
    assert_eq!(joint.height((-2.5, 2.0)), 0.0);
    assert!(joint.contour(joint.levels[1]).iter().flatten().all(|p| p.0.abs() < 7.0 && p.1.abs() < 6.0));
}

#[test]
fn draws_that_do_not_vary_have_no_region() {
    let range = (0.0, 1.0);
    assert!(Joint::new(&[], &[], (range, range)).is_none());
    assert!(Joint::new(&[(0.5, 0.1), (0.5, 0.7)], &[], (range, range)).is_none());
    assert!(Joint::new(&[(f64::NAN, 0.1), (0.5, f64::INFINITY)], &[], (range, range)).is_none());
    // A parameter and its double: a line.
    let line: Vec<Point> = (0..100).map(|i| (f64::from(i) / 100.0, f64::from(i) / 50.0)).collect();
    let joint = Joint::new(&line, &[], (range, (0.0, 2.0))).unwrap();
    assert!(joint.contour(joint.levels[1]).iter().flatten().all(|p| (p.1 - 2.0 * p.0).abs() < 0.01));
    // Few draws and more components than draws.
    let few = [(0.1, 0.2), (0.5, 0.1), (0.3, 0.9)];
    assert!(Joint::new(&few, &[7, usize::MAX, 0], (range, range)).is_none_or(|joint| joint.levels[0].is_finite()));
}
