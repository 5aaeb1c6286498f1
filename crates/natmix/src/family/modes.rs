//! The modes of a mixture: the local maxima of its density.
//!
//! From each component's mean the density is climbed by the fixed point `z <- (sum_k r_k S_k)^-1 sum_k r_k S_k m_k`, which
//! never steps down. Maxima between which the density does not dip count as one mode.
//!
//! ```
//! use natmix::family::{Gaussian, Mixture};
//! let pair = |gap: f64| vec![Gaussian::isotropic(vec![0.0], 1.0), Gaussian::isotropic(vec![gap], 1.0)];
//! assert_eq!(Mixture::new(&[0.5, 0.5], pair(5.0)).unwrap().modes().len(), 2);
//! assert_eq!(Mixture::new(&[0.5, 0.5], pair(1.0)).unwrap().modes().len(), 1);
//! ```

use super::Mixture;
use super::block::MixtureBlock;
use super::covariance::{AnyCovariance, CovarianceKind};
use super::gaussian::Gaussian;
use crate::lanes;
use crate::target::{CurvatureShape, Points};
use crate::workspace::Scratch;

/// Components lighter than this do not start a climb.
const LEAST_WEIGHT: f64 = 1e-3;
/// Steps of a climb; each is a solve of dimension d.
const STEPS: usize = 200;
/// A dip of this many nats between two points makes them two modes.
const DIP: f64 = 0.05;
/// Points between two maxima at which the density is checked for a dip.
const BETWEEN: usize = 24;

/// A mode: its location, its log density, and the total weight of the components that climb to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Its location.
    pub at: Vec<f64>,
    /// Log density there.
    pub log_density: f64,
    /// Total weight of the components that climb to it.
    pub weight: f64,
    /// These components; the lightest of all belong to no mode.
    pub components: Vec<usize>,
}

impl Mixture {
    /// The modes, the one with most weight first.
    pub fn modes(&self) -> Vec<Mode> {
        let mut modes: Vec<Mode> = Vec::new();
        let weights = self.weights();
        let mut order: Vec<usize> = (0..self.len()).filter(|&k| weights[k] >= LEAST_WEIGHT).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
        let tops = self.climb(order.iter().flat_map(|&k| self.components()[k].mean()).copied().collect());
        let heights = self.log_density(&tops);
        for ((k, top), log_density) in order.into_iter().zip(tops.chunks_exact(self.dim())).zip(heights) {
            let at = top.to_vec();
            let known = modes.iter_mut().find(|mode| !self.dips(&mode.at, &at, mode.log_density.min(log_density)));
            match known {
                Some(mode) => {
                    mode.weight += weights[k];
                    mode.components.push(k);
                    if log_density > mode.log_density {
                        (mode.at, mode.log_density) = (at, log_density);
                    }
                }
                None => modes.push(Mode { at, log_density, weight: weights[k], components: vec![k] }),
            }
        }
        modes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        modes
    }

    /// The ends of climbs from points that are given one after the other. Some climb together: a step evaluates all
    /// components, which costs hardly more for as many points as are treated at once.
    fn climb(&self, mut points: Vec<f64>) -> Vec<f64> {
        let (d, mut scratch) = (self.dim(), Scratch::default());
        let pull_of = |component: &Gaussian| {
            let mut pull = vec![0.0; d];
            component.precision().times(component.mean(), &mut pull);
            pull
        };
        let pulls: Vec<Vec<f64>> = self.components().iter().map(pull_of).collect();
        let mut climbing: Vec<usize> = (0..points.len() / d).collect();
        for _ in 0..STEPS {
            let mut go_on = Vec::with_capacity(climbing.len());
            for group in climbing.chunks(lanes::LANES) {
                let z: Vec<f64> = group.iter().flat_map(|i| &points[i * d..][..d]).copied().collect();
                let block = MixtureBlock::new(self, Points::new(&z, d), false, &mut scratch);
                for (c, &i) in group.iter().enumerate() {
                    let share = |k: usize| {
                        lanes::exp(self.log_weights()[k] + block.log_n[k * block.stride + c] - block.log_q[c])
                    };
                    let shares = (0..self.len()).map(|k| (share(k), k));
                    let near: Vec<(f64, usize)> = shares.filter(|(r, _)| *r >= 1e-12).collect();
                    if self.step(&near, &pulls, &mut points[i * d..][..d]) {
                        go_on.push(i);
                    }
                }
                block.release(&mut scratch);
            }
            climbing = go_on;
        }
        points
    }

    /// A step of a climb, given the components that are responsible there; returns whether another may lead further.
    fn step(&self, near: &[(f64, usize)], pulls: &[Vec<f64>], z: &mut [f64]) -> bool {
        let (d, shape) = (self.dim(), self.curvature_shape());
        let mut pull = vec![0.0; d];
        for (r, k) in near {
            pull.iter_mut().zip(&pulls[*k]).for_each(|(p, x)| *p += r * x);
        }
        let near = near.iter().map(|(r, k)| (*r, &self.components()[*k]));
        let next = if self.covariance_kind() == CovarianceKind::LowRank {
            solve_by_products(&near.collect::<Vec<_>>(), z, &pull)
        } else {
            let mut matrix = vec![0.0; shape.len(d)];
            near.for_each(|(r, component)| component.precision().add_to(&mut matrix, r, shape));
            solve(shape, matrix, &pull)
        };
        let Some(next) = next else { return false };
        let moved = next.iter().zip(&*z).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f64::max);
        z.copy_from_slice(&next);
        moved >= 1e-9
    }

    /// Whether the density falls below `floor` on the way from `a` to `b`.
    fn dips(&self, a: &[f64], b: &[f64], floor: f64) -> bool {
        let way: Vec<f64> = (1..BETWEEN)
            .flat_map(|i| {
                let t = i as f64 / BETWEEN as f64;
                a.iter().zip(b).map(move |(a, b)| a + t * (b - a))
            })
            .collect();
        self.log_density(&way).iter().any(|log_q| *log_q < floor - DIP)
    }
}

fn solve(shape: CurvatureShape, matrix: Vec<f64>, pull: &[f64]) -> Option<Vec<f64>> {
    let prec = AnyCovariance::from_precision(pull.len(), matrix, shape).ok()?;
    let mut z = pull.to_vec();
    prec.solve(&mut z);
    Gaussian::new(z.clone(), prec).is_sound().then_some(z)
}

/// Solves `sum_k r_k S_k z = pull` from products alone, by conjugate gradients from `start`, with the covariance of the most
/// responsible component as preconditioner: with one component it is exact at once.
fn solve_by_products(near: &[(f64, &Gaussian)], start: &[f64], pull: &[f64]) -> Option<Vec<f64>> {
    let (_, heaviest) = near.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let times = |x: &[f64]| {
        let (mut sum, mut own) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        for (r, component) in near {
            component.precision().times(x, &mut own);
            sum.iter_mut().zip(&own).for_each(|(sum, x)| *sum += r * x);
        }
        sum
    };
    let precondition = |x: &[f64]| {
        let mut solved = x.to_vec();
        heaviest.precision().solve(&mut solved);
        solved
    };
    let mut z = start.to_vec();
    let mut rest: Vec<f64> = pull.iter().zip(times(&z)).map(|(p, x)| p - x).collect();
    let mut direction = precondition(&rest);
    let mut size = dot(&rest, &direction);
    for _ in 0..STEPS {
        if size <= f64::EPSILON * f64::EPSILON {
            break;
        }
        let ahead = times(&direction);
        let step = size / dot(&direction, &ahead);
        z.iter_mut().zip(&direction).for_each(|(z, x)| *z += step * x);
        rest.iter_mut().zip(&ahead).for_each(|(rest, x)| *rest -= step * x);
        let solved = precondition(&rest);
        let next = dot(&rest, &solved);
        direction.iter_mut().zip(&solved).for_each(|(x, new)| *x = new + next / size * *x);
        size = next;
    }
    z.iter().all(|x| x.is_finite()).then_some(z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Full, LowRank};

    #[test]
    fn climbs_do_not_depend_on_one_another() {
        let component = |k: u32| {
            let x = f64::from(k);
            let precision = Full::from_precision(2, &[2.0 + x.sin(), 0.3, 0.3, 1.5 + x.cos()]).unwrap();
            Gaussian::new(vec![3.0 * (2.0 * x).sin(), 2.0 * (5.0 * x).cos()], precision)
        };
        let mixture = Mixture::new(&[1.0; 21], (0..21).map(component).collect()).unwrap();
        let starts: Vec<f64> = mixture.components().iter().flat_map(|one| one.mean().to_vec()).collect();
        let alone: Vec<f64> = starts.chunks_exact(2).flat_map(|start| mixture.climb(start.to_vec())).collect();
        assert_eq!(mixture.climb(starts.clone()), alone);
        // They end where the density is flat, and not below where they began.
        let block = MixtureBlock::new(&mixture, Points::new(&alone, 2), true, &mut Scratch::default());
        assert!(block.grad.iter().all(|slope| slope.abs() < 1e-6), "{:?}", block.grad);
        let heights = mixture.log_density(&alone);
        assert!(heights.iter().zip(mixture.log_density(&starts)).all(|(end, start)| *end >= start));
        let total: f64 = mixture.modes().iter().map(|mode| mode.weight).sum();
        assert!((total - 1.0).abs() < 1e-12 && mixture.modes().len() > 1);
    }

    #[test]
    fn products_alone_find_the_modes_of_low_rank_components() {
        let low = |s: f64| LowRank::from_factors(&[0.5, 1.0 * s, 0.8], &[0.9, -0.4 * s, 0.3]).unwrap();
        let means = [vec![0.0, 0.0, 0.0], vec![2.0, 1.0, 0.5]];
        let pair = |full: bool| {
            let part = |(mean, s): (&Vec<f64>, f64)| {
                let (mean, low) = (mean.clone(), Gaussian::new(mean.clone(), low(s)));
                let dense = low.precision().full_matrix();
                if full { Gaussian::new(mean, Full::from_precision(3, &dense).unwrap()) } else { low }
            };
            Mixture::new(&[0.6, 0.4], means.iter().zip([1.0, 1.5]).map(part).collect()).unwrap()
        };
        let (found, expected) = (pair(false).modes(), pair(true).modes());
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(&expected) {
            assert!(a.at.iter().zip(&b.at).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
        }
    }
}
