//! Which coordinates are shown, and the mixture projected onto them.
//!
//! A parameter on the user's own scale can be shown if it is an affine function of the coordinates that were fitted, as
//! the coefficients of a regression are: Gaussians then stay Gaussians. Where there are too few of these, the fitted
//! coordinates are shown.

use super::Moment;
use natmix::family::{CovarianceKind, Gaussian, Mixture};
use natmix::observe::Frame;
use natmix::target::Target;

/// Most parameters considered: those of a large model are too many to rank.
const MOST_CONSIDERED: usize = 256;
/// Most dimensions in which the dependence of parameters on coordinates is probed.
const MOST_PROBED: usize = 1_000;
/// Relative rounding error allowed for an affine function.
const ROUNDING: f64 = 1e-9;

/// An affine function of the fitted coordinates.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    name: String,
    constant: f64,
    /// Coordinates with their factors.
    terms: Vec<(usize, f64)>,
}

/// The one or two coordinates shown.
pub struct FormationView {
    pub names: Vec<String>,
    pub fitted_scale: bool,
    lines: Vec<Line>,
}

impl FormationView {
    /// The named coordinates, if they exist; otherwise those in which the components were furthest apart and moved
    /// furthest over all `mixtures`, in units of the last mixture's standard deviation.
    pub fn choose(target: &dyn Target, mixtures: &[&Mixture], named: Option<&[String]>) -> Self {
        let Some(last) = mixtures.last() else {
            return Self { names: Vec::new(), fitted_scale: true, lines: Vec::new() };
        };
        let parameters = target.parameter_names();
        let wanted = last.dim().min(2);
        let own = own_scale(target, &parameters, last).filter(|lines| lines.len() >= wanted);
        let fitted_scale = own.is_none();
        let lines = own.unwrap_or_else(|| fitted(&parameters, last.dim()));
        let by_name = |named: &[String]| -> Option<Vec<Line>> {
            named.iter().map(|name| lines.iter().find(|line| line.name == *name).cloned()).collect()
        };
        let chosen = named.and_then(by_name).unwrap_or_else(|| {
            let sds: Vec<Vec<f64>> = last.components().iter().map(Gaussian::sd).collect();
            let motion = |line: &Line| line.motion(mixtures, last, &sds);
            let mut order: Vec<(usize, f64)> = lines.iter().map(motion).enumerate().collect();
            // The sort is stable: the first among equals wins.
            order.sort_by(|a, b| b.1.total_cmp(&a.1));
            order.truncate(wanted);
            order.sort_by_key(|(i, _)| *i);
            order.iter().map(|(i, _)| lines[*i].clone()).collect()
        });
        Self { names: chosen.iter().map(|line| line.name.clone()).collect(), fitted_scale, lines: chosen }
    }

    /// A frame in these coordinates.
    pub fn moment(&self, frame: &Frame) -> Moment {
        let q = &frame.mixture;
        let covariance = |component: &Gaussian| -> Vec<Vec<f64>> {
            if component.covariance_kind() == CovarianceKind::LowRank {
                // In many dimensions: a solve for each line instead of a matrix.
                return self.lines.iter().map(|a| self.covariances_with(a, component)).collect();
            }
            let own = component.precision().covariance();
            let row = |a: &Line| self.lines.iter().map(|b| covariance(a, b, &own, component.dim())).collect();
            self.lines.iter().map(row).collect()
        };
        Moment {
            iteration: frame.iteration,
            evals: frame.evals,
            elbo: frame.elbo,
            weights: q.weights(),
            means: q.components().iter().map(|c| self.lines.iter().map(|line| line.at(c.mean())).collect()).collect(),
            covariances: q.components().iter().map(covariance).collect(),
        }
    }
}

impl FormationView {
    /// Covariances of a line with all lines.
    fn covariances_with(&self, line: &Line, component: &Gaussian) -> Vec<f64> {
        let mut column = vec![0.0; component.dim()];
        line.terms.iter().for_each(|(j, factor)| column[*j] += factor);
        component.precision().solve(&mut column);
        self.lines.iter().map(|b| b.terms.iter().map(|(j, factor)| factor * column[*j]).sum()).collect()
    }
}

impl Line {
    fn at(&self, z: &[f64]) -> f64 {
        self.constant + self.terms.iter().map(|(j, factor)| factor * z[*j]).sum::<f64>()
    }

    /// Mean squared distance of the components from the mean of the last mixture, divided by its variance.
    fn motion(&self, mixtures: &[&Mixture], last: &Mixture, sds: &[Vec<f64>]) -> f64 {
        let scatter = |q: &Mixture, centre: f64| -> f64 {
            let squares = q.components().iter().map(|c| (self.at(c.mean()) - centre).powi(2));
            squares.zip(q.weights()).map(|(square, w)| w * square).sum()
        };
        let centre = self.at(&last.mean());
        // The spread along each coordinate is enough to compare by.
        let variance = |sd: &[f64]| self.terms.iter().map(|(j, factor)| (factor * sd[*j]).powi(2)).sum::<f64>();
        let within: f64 = sds.iter().zip(last.weights()).map(|(sd, w)| w * variance(sd)).sum();
        let all: f64 = mixtures.iter().map(|q| scatter(q, centre)).sum();
        let score = all / (within + scatter(last, centre));
        if score.is_finite() { score } else { 0.0 }
    }
}

/// Covariance of two such functions under a component of dimension `d` with covariance `own`, full or diagonal.
fn covariance(a: &Line, b: &Line, own: &[f64], d: usize) -> f64 {
    let entry = |i: usize, j: usize| match own.len() > d {
        true => own[i * d + j],
        false if i == j => own[i],
        false => 0.0,
    };
    a.terms
        .iter()
        .flat_map(|(i, x)| b.terms.iter().map(move |(j, y)| (i, x, j, y)))
        .map(|(i, x, j, y)| x * y * entry(*i, *j))
        .sum()
}

/// The coordinates themselves, under the names of the parameters where there is one for each.
fn fitted(parameters: &[String], dim: usize) -> Vec<Line> {
    let name = |j: usize| if parameters.len() == dim { parameters[j].clone() } else { format!("z{j}") };
    (0..dim.min(MOST_CONSIDERED)).map(|j| Line { name: name(j), constant: 0.0, terms: vec![(j, 1.0)] }).collect()
}

/// The parameters that are affine functions of the coordinates near `q`; `None` if there are too many coordinates to
/// probe.
fn own_scale(target: &dyn Target, parameters: &[String], q: &Mixture) -> Option<Vec<Line>> {
    let (d, p) = (q.dim(), parameters.len());
    let at = |z: &[f64]| {
        let mut out = vec![f64::NAN; p];
        target.to_parameters(z, &mut out);
        out
    };
    let centre = q.mean();
    let mut reach = vec![0.0_f64; d];
    for component in q.components() {
        let far = component.mean().iter().zip(&centre).map(|(a, b)| (a - b).abs()).zip(component.sd());
        reach.iter_mut().zip(far).for_each(|(reach, (apart, sd))| *reach = reach.max(apart + sd));
    }
    let corner: Vec<f64> = centre.iter().zip(&reach).map(|(c, r)| c + r).collect();
    let (base, all) = (at(&centre), at(&corner));
    if base == centre && all == corner {
        return Some(fitted(parameters, d));
    }
    if d > MOST_PROBED {
        return None;
    }
    let looked_at = p.min(MOST_CONSIDERED);
    let mut terms = vec![Vec::new(); looked_at];
    let mut sums = base.clone();
    let mut affine = vec![true; looked_at];
    let mut z = centre.clone();
    for j in 0..d {
        z[j] = centre[j] + reach[j];
        let up = at(&z);
        z[j] = centre[j] - reach[j];
        let down = at(&z);
        z[j] = centre[j];
        for i in 0..looked_at {
            let size = up[i].abs() + down[i].abs() + base[i].abs();
            let change = 0.5 * (up[i] - down[i]);
            // Non-finite values are not affine either.
            affine[i] &= (up[i] + down[i] - 2.0 * base[i]).abs() <= ROUNDING * size;
            if change.abs() > ROUNDING * ROUNDING * size {
                terms[i].push((j, change / reach[j]));
                sums[i] += change;
            }
        }
    }
    let lines = terms.into_iter().enumerate().filter_map(|(i, terms)| {
        // The effect of two coordinates must be the sum of their single effects.
        let together = (sums[i] - all[i]).abs() <= ROUNDING * (sums[i].abs() + all[i].abs() + base[i].abs());
        let constant = base[i] - terms.iter().map(|(j, factor): &(usize, f64)| factor * centre[*j]).sum::<f64>();
        (affine[i] && together).then(|| Line { name: parameters[i].clone(), constant, terms })
    });
    Some(lines.collect())
}
