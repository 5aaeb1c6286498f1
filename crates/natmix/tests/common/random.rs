//! Random inputs: ordinary, huge, tiny, singular and broken ones, the same in every run.
#![allow(dead_code)]

use natmix::family::{AnyCovariance, CovarianceKind, Diag, Full, Gaussian};

/// SplitMix64, which gives the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    /// Uniform on [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (-53f64).exp2()
    }
    /// Uniform on (-1, 1).
    pub fn signed(&mut self) -> f64 {
        2.0 * self.uniform() - 1.0
    }
    /// Uniform on `0..n`; zero if `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }
    /// Ten to a power drawn uniformly.
    pub fn decade(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(low + (high - low) * self.uniform())
    }
    /// A size from one of the regimes where arithmetic behaves differently.
    pub fn size(&mut self) -> f64 {
        match self.below(10) {
            0 => 1e150,
            1 => 1e300,
            2 => 1e-300,
            3 => 5e-324,
            4 => self.decade(-300.0, 300.0),
            5 => self.decade(-10.0, 10.0),
            _ => 1.0,
        }
    }
    /// A number that is not finite.
    pub fn broken(&mut self) -> f64 {
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][self.below(3)]
    }
}

/// A component of ordinary, large or small scale, well or ill conditioned.
pub fn component(random: &mut Random, d: usize, shape: CovarianceKind) -> Gaussian {
    let root_scale = if random.below(2) == 0 { 1.0 } else { random.decade(-50.0, 50.0) };
    // Condition number up to 1e14 of S is one of 1e7 of its factor.
    let spread = [0.0, 1.0, 3.5, 7.0][random.below(4)];
    let size = random.size().min(1e300);
    let far = if random.below(3) == 0 { size } else { 1.0 };
    let mean = (0..d).map(|_| far * random.signed()).collect();
    let diagonal: Vec<f64> = (0..d).map(|_| root_scale * random.decade(-0.5 * spread, 0.5 * spread)).collect();
    let prec = match shape {
        CovarianceKind::LowRank => unreachable!("has tests of its own"),
        CovarianceKind::Diag => AnyCovariance::from(Diag::new(diagonal.iter().map(|x| x * x).collect()).unwrap()),
        CovarianceKind::Full => {
            // T D or D T with unit triangular T: the ill-conditioned directions are turned or along the axes.
            let by_column = random.below(2) == 0;
            let mut factor = vec![0.0; d * d];
            for j in 0..d {
                factor[j + j * d] = diagonal[j];
                for i in j + 1..d {
                    let unit = random.signed() / (d as f64).sqrt();
                    factor[i + j * d] = unit * if by_column { diagonal[j] } else { diagonal[i] };
                }
            }
            Full::from_factor(d, factor).into()
        }
    };
    Gaussian::new(mean, prec)
}

/// A gradient: ordinary, extreme, zero or broken.
pub fn vector(random: &mut Random, d: usize) -> Vec<f64> {
    let kind = random.below(8);
    let size = random.size();
    let mut x: Vec<f64> = (0..d)
        .map(|_| match kind {
            0 => 0.0,
            1 => random.size() * random.signed(),
            _ => size * random.signed(),
        })
        .collect();
    if random.below(25) == 0 {
        let at = random.below(d);
        x[at] = random.broken();
    }
    x
}

/// A symmetric curvature (or its diagonal) to meet the precision `s` in a step of size `rate`.
pub fn matrix(random: &mut Random, s: &[f64], d: usize, shape: CovarianceKind, rate: f64) -> Vec<f64> {
    let kind = random.below(9);
    let size = random.size();
    let relative = random.decade(-12.0, 6.0);
    let u: Vec<f64> = (0..d).map(|_| random.signed()).collect();
    let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
    // Brings the plain step to where S_new is singular but for rounding.
    let edge = 1.0 + [0.0, 1e-15, -1e-15, 1e-8, -1e-8][random.below(5)];
    let stride = if shape == CovarianceKind::Full { d + 1 } else { 1 };
    let root: Vec<f64> = (0..d).map(|i| s[i * stride].sqrt()).collect();
    let mut entry = |i: usize, j: usize, at: usize| match kind {
        0 => 0.0,
        1 | 2 => relative * root[i] * root[j] * random.signed(),
        3 => sign * relative * root[i] * u[i] * root[j] * u[j],
        4 => sign * size * u[i] * u[j],
        5 => edge * s[at] / rate,
        6 => random.size() * random.signed(),
        _ => size * random.signed(),
    };
    let mut h = vec![0.0; s.len()];
    for i in 0..d {
        match shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Diag => h[i] = entry(i, i, i),
            CovarianceKind::Full => {
                for j in 0..=i {
                    h[i + j * d] = entry(i, j, i + j * d);
                    h[j + i * d] = h[i + j * d];
                }
            }
        }
    }
    if random.below(25) == 0 {
        let (i, j) = (random.below(d), random.below(d));
        let bad = random.broken();
        match shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Diag => h[i] = bad,
            CovarianceKind::Full => (h[i + j * d], h[j + i * d]) = (bad, bad),
        }
    }
    h
}
