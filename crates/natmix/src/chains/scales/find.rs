//! Finding scales in draws.

use super::{Form, MOST_LOCATIONS, MOST_SCALES, Scale, Scaled, Scales, Shape, shrinking};
use crate::chains::statistics::{Ranked, mean_and_variance};
use crate::linalg::{self, Memory, Transpose};
use rayon::prelude::*;

/// Mean squared correlation with the others from which on they shrink around a coordinate.
const LOCATION: f64 = 0.05;
/// Sum of the squared correlations, beyond that of chance, that a coordinate must explain for others to take their scale from
/// it, in `FEW` dimensions and below; and the same in standard errors.
const WORTHWHILE: f64 = 0.1;
const FEW: f64 = 80.0;
const CLEAR: f64 = 5.0;
/// How much easier it is to find a scale again.
const EASIER: f64 = 3.0;
/// Squared correlation, times the effective draws, from which on a coordinate is seen to take its scale from another.
const SHOWN: f64 = 9.0;
/// Added to the variances, as a share, so that their covariance can be inverted.
const RIDGE: f64 = 0.02;
/// Shares `w` that are tried.
const SHARES: [f64; 9] = [0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.92, 1.0];
/// Change of the log scale per unit of the coordinate that determines it: that is mostly the log of a standard deviation or of a
/// variance.
const UNITS: [f64; 2] = [1.0, 0.5];
/// Gain of the log likelihood, of effective draws, from which on a coordinate takes its scale from another: in a form of its own, and in
/// the form that suits most.
const LEAST_GAIN: f64 = 3.0;
const LEAST_SHARED_GAIN: f64 = 1.0;

impl Scales {
    /// The scales that draws (one after another) show, if they show any. They are worth `effective` independent ones. What was found
    /// `before` need not be shown as clearly again.
    pub fn of(draws: &[f64], d: usize, effective: f64, before: Option<&Self>) -> Option<Self> {
        let n = draws.len() / d;
        let column = |j: usize| draws.iter().skip(j).step_by(d).copied();
        let moments: Vec<(f64, f64)> = (0..d).map(|j| mean_and_variance(column(j))).collect();
        if !moments.iter().all(|(mean, variance)| mean.is_finite() && *variance > 0.0 && variance.is_finite()) {
            return None;
        }
        let standard = |j: usize| -> Vec<f64> {
            let (mean, variance) = moments[j];
            column(j).map(|z| (z - mean) / variance.sqrt()).collect()
        };
        let columns: Vec<Vec<f64>> = (0..d).map(standard).collect();
        let before: Vec<usize> = before.iter().flat_map(|before| &before.from).map(|scale| scale.coordinate).collect();
        let (from, scaled_by) = sources(&columns, effective, &before)?;
        let around = locations(&columns, &scaled_by, &from, effective);
        let off: Vec<&[f64]> = around.iter().map(|&g| &columns[g][..]).collect();
        let others: Vec<usize> = (0..d).filter(|i| !from.contains(i) && !around.contains(i)).collect();
        let weight = effective / n as f64;
        // Every coordinate takes the scale, and every scale the unit, that makes the draws most likely.
        let mut best: Vec<(f64, Option<Scaled>)> = others.iter().map(|_| (0.0, None)).collect();
        let mut scales = Vec::new();
        for (index, &s) in from.iter().enumerate() {
            let (mean, sd) = (moments[s].0, moments[s].1.sqrt());
            let with_unit = |unit: f64| -> (f64, Vec<Option<(f64, Scaled)>>) {
                let Some(candidates) = Candidates::new(&columns[s], unit * sd, &off) else {
                    return (0.0, others.iter().map(|_| None).collect());
                };
                let fit = |&i: &usize| -> Vec<(f64, Scaled)> {
                    let fits = candidates.fits(&columns[i], i, index);
                    fits.into_iter().map(|(gain, scaled)| (weight * gain, scaled)).collect()
                };
                let found = alike(others.par_iter().map(fit).collect());
                let gains = found.iter().flatten().map(|one| one.0);
                (gains.sum(), found)
            };
            let [one, half] = UNITS.map(with_unit);
            let (unit, (_, found)) = if one.0 >= half.0 { (UNITS[0], one) } else { (UNITS[1], half) };
            scales.push(Scale { coordinate: s, mean, sd, k: unit * sd });
            for (best, found) in best.iter_mut().zip(found) {
                if let Some((gain, scaled)) = found.filter(|found| found.0 > best.0) {
                    *best = (gain, Some(scaled));
                }
            }
        }
        // Back from standardised coordinates.
        let unstandardised = |scaled: Scaled| {
            let (mean, sd) = (moments[scaled.coordinate].0, moments[scaled.coordinate].1.sqrt());
            let shift = scaled.shift.iter().zip(&around).map(|(h, g)| h * sd / moments[*g].1.sqrt()).collect();
            Scaled { centre: mean + sd * scaled.centre, along: sd * scaled.along, shift, ..scaled }
        };
        let scaled: Vec<Scaled> = best.into_iter().filter_map(|(_, scaled)| scaled.map(unstandardised)).collect();
        let around = around.into_iter().map(|g| (g, moments[g].0)).collect();
        (!scaled.is_empty()).then_some(Self { d, from: scales, around, scaled })
    }
}

/// A form, and the regression of any coordinate on what it says about the mean, weighted by the precisions that it says.
struct Candidate {
    form: Form,
    /// Whether the mean does not depend on the scale.
    constant: bool,
    regression: Regression,
    /// Sum of the logs of the precisions.
    log_precisions: f64,
}

impl Candidate {
    fn new(form: Form, shrink: &[f64], off: &[&[f64]]) -> Option<Self> {
        let shapes: Vec<Shape> = shrink.iter().map(|shrink| form.at(*shrink)).collect();
        let precision: Vec<f64> = shapes.iter().map(|shape| shape.precision).collect();
        let along: Vec<f64> = shapes.iter().map(|shape| shape.mean).collect();
        let constant = form.centred && form.share == 1.0;
        let of_location = |off: &&[f64]| off.iter().zip(&along).map(|(off, b)| off * b).collect();
        let mut features = vec![vec![1.0; shrink.len()]];
        features.extend(off.iter().map(of_location));
        if !constant {
            features.insert(1, along);
        }
        let log_precisions = precision.iter().map(|p| p.ln()).sum();
        Some(Self { form, constant, regression: Regression::new(features, Some(precision))?, log_precisions })
    }
}

/// All forms for the scale of some draws, and what there is without a scale.
struct Candidates {
    plain: Regression,
    forms: Vec<Candidate>,
}

impl Candidates {
    fn new(scale: &[f64], k: f64, off: &[&[f64]]) -> Option<Self> {
        // Without a scale: linear in it and the locations.
        let mut plain = vec![vec![1.0; scale.len()], scale.to_vec()];
        plain.extend(off.iter().map(|off| off.to_vec()));
        let shrink: Vec<f64> = scale.iter().map(|u| shrinking(k, *u)).collect();
        let all = [true, false].into_iter().flat_map(|centred| SHARES.map(|share| Form { centred, share, k }));
        let all: Vec<Form> = all.collect();
        let forms = all.into_par_iter().filter_map(|form| Candidate::new(form, &shrink, off)).collect();
        Some(Self { plain: Regression::new(plain, None)?, forms })
    }

    /// Every form for the values of a coordinate, and how much more likely than without a scale it makes them.
    fn fits(&self, values: &[f64], coordinate: usize, scale: usize) -> Vec<(f64, Scaled)> {
        let n = values.len() as f64;
        let Some((_, without)) = self.plain.of(values) else { return Vec::new() };
        let fit = |Candidate { form, constant, regression, log_precisions }: &Candidate| {
            let (found, variance) = regression.of(values)?;
            let gain = 0.5 * (n * (without / variance).ln() + log_precisions);
            let (along, shift) = if *constant { (0.0, &found[1..]) } else { (found[1], &found[2..]) };
            let scaled = Scaled { coordinate, scale, form: *form, centre: found[0], along, shift: shift.to_vec() };
            gain.is_finite().then_some((gain, scaled))
        };
        self.forms.iter().filter_map(fit).collect()
    }
}

/// The form of each coordinate, by the gains of all forms for each. Coordinates that take their scale from the same are mostly alike:
/// each has the form that suits all of them best, unless another one suits it clearly better.
fn alike(fits: Vec<Vec<(f64, Scaled)>>) -> Vec<Option<(f64, Scaled)>> {
    let forms: Vec<Form> = fits
        .iter()
        .max_by_key(|fits| fits.len())
        .map_or_else(Vec::new, |fits| fits.iter().map(|fit| fit.1.form).collect());
    let of = |fits: &[(f64, Scaled)], form: &Form| fits.iter().find(|fit| fit.1.form == *form).map(|fit| fit.0);
    let total = |form: &Form| fits.iter().filter_map(|fits| of(fits, form)).map(|gain| gain.max(0.0)).sum::<f64>();
    let Some(common) = forms.into_iter().max_by(|a, b| total(a).total_cmp(&total(b))) else {
        return fits.iter().map(|_| None).collect();
    };
    let choose = |fits: Vec<(f64, Scaled)>| {
        let shared = of(&fits, &common).unwrap_or(0.0).max(0.0);
        let best = fits.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        if best.0 > shared + LEAST_GAIN {
            return Some(best.clone());
        }
        fits.into_iter().find(|fit| fit.1.form == common && fit.0 > LEAST_SHARED_GAIN)
    };
    fits.into_iter().map(choose).collect()
}

/// Weighted least squares on a few features, for one coordinate after another.
struct Regression {
    weights: Option<Vec<f64>>,
    /// Times their weights.
    features: Vec<Vec<f64>>,
    factor: Vec<f64>,
}

impl Regression {
    /// None if the features are linearly dependent.
    fn new(features: Vec<Vec<f64>>, weights: Option<Vec<f64>>) -> Option<Self> {
        let k = features.len();
        let times = |x: &Vec<f64>| match &weights {
            Some(weights) => x.iter().zip(weights).map(|(x, w)| x * w).collect(),
            None => x.clone(),
        };
        let weighted: Vec<Vec<f64>> = features.iter().map(times).collect();
        let mut factor: Vec<f64> = (0..k * k).map(|at| dot(&weighted[at / k], &features[at % k])).collect();
        (0..k).for_each(|i| factor[i * (k + 1)] *= 1.0 + 1e-10);
        linalg::cholesky(&mut factor, k, &mut Memory::default()).ok()?;
        Some(Self { weights, features: weighted, factor })
    }

    /// The coefficients, and the weighted mean square of what is left.
    fn of(&self, values: &[f64]) -> Option<(Vec<f64>, f64)> {
        let k = self.features.len();
        let right: Vec<f64> = self.features.iter().map(|x| dot(x, values)).collect();
        let mut found = right.clone();
        linalg::solve_lower(&self.factor, &mut found, k, 1);
        linalg::solve_lower_transpose(&self.factor, &mut found, k, 1);
        let squares: f64 = match &self.weights {
            Some(weights) => values.iter().zip(weights).map(|(x, w)| w * x * x).sum(),
            None => dot(values, values),
        };
        let variance = (squares - dot(&right, &found)) / values.len() as f64;
        (variance > 0.0 && variance.is_finite()).then_some((found, variance))
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Coordinates, standardised, that others take their scale from, and those that do. None if there are none.
fn sources(columns: &[Vec<f64>], effective: f64, before: &[usize]) -> Option<(Vec<usize>, Vec<usize>)> {
    let (d, n) = (columns.len(), columns[0].len());
    let mut logs = log_distances(columns)?;
    let flat = columns.concat();
    let worthwhile = (WORTHWHILE * (d as f64 / FEW).max(1.0)).max(CLEAR * (2.0 * d as f64).sqrt() / effective);
    let (mut from, mut scaled_by): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut correlations = vec![0.0; d * d];
    while from.len() < MOST_SCALES {
        // Of every coordinate with the logs of every other.
        let (share, all) = (1.0 / n as f64, logs.concat());
        linalg::product(&mut correlations, false, share, &flat, Transpose::Yes, &all, (d, n, d));
        let explained = |s: usize| -> f64 {
            let others = (0..d).filter(|i| *i != s && !from.contains(i));
            others.map(|i| correlations[i * d + s].powi(2) - 1.0 / effective).sum()
        };
        let clearly = |s: usize| explained(s) * if before.contains(&s) { EASIER } else { 1.0 };
        let candidates = (0..d).filter(|s| !from.contains(s)).map(|s| (s, clearly(s)));
        let Some((s, _)) = candidates.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|best| best.1 > worthwhile) else {
            break;
        };
        from.push(s);
        scaled_by.extend((0..d).filter(|i| correlations[i * d + s].powi(2) > SHOWN / effective));
        for (i, log) in logs.iter_mut().enumerate() {
            let slope = correlations[i * d + s];
            log.iter_mut().zip(&columns[s]).for_each(|(log, u)| *log -= slope * u);
        }
    }
    (!from.is_empty()).then_some((from, scaled_by))
}

/// Standardised logs of the squared distances of each coordinate from what the others predict for it, by their covariance.
fn log_distances(columns: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let (d, n) = (columns.len(), columns[0].len());
    let draws: Vec<f64> = (0..n).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
    let mut covariance = vec![0.0; d * d];
    linalg::product_bt(&mut covariance, false, 1.0 / n as f64, &draws, &draws, (d, n, d));
    (0..d).for_each(|i| covariance[i * (d + 1)] += RIDGE);
    linalg::cholesky(&mut covariance, d, &mut Memory::default()).ok()?;
    let mut distances = draws;
    linalg::solve_lower(&covariance, &mut distances, d, n);
    linalg::solve_lower_transpose(&covariance, &mut distances, d, n);
    let logs = |i: usize| {
        let mut logs: Vec<f64> = distances.iter().skip(i).step_by(d).map(|x| (x * x).max(1e-300).ln()).collect();
        let (mean, variance) = mean_and_variance(logs.iter().copied());
        logs.iter_mut().for_each(|log| *log = (*log - mean) / variance.sqrt());
        logs
    };
    Some((0..d).map(logs).collect())
}

/// Coordinates around which those that take their scale from others shrink: what explains most of their variance. By ranks, since
/// a few draws from the wide end of a funnel make any two coordinates look alike.
fn locations(columns: &[Vec<f64>], scaled: &[usize], from: &[usize], effective: f64) -> Vec<usize> {
    let (d, n) = (columns.len(), columns[0].len());
    let columns: Vec<Vec<f64>> = columns.par_iter().map(|column| Ranked::of(column).normal_scores()).collect();
    let mut scaled: Vec<usize> = scaled.iter().copied().filter(|i| !from.contains(i)).collect();
    scaled.sort_unstable();
    scaled.dedup();
    let flat = columns.concat();
    let mut rests: Vec<Vec<f64>> = scaled.iter().map(|&i| columns[i].clone()).collect();
    let mut around: Vec<usize> = Vec::new();
    let mut with = vec![0.0; d * scaled.len()];
    while around.len() < MOST_LOCATIONS {
        linalg::product(&mut with, false, 1.0 / n as f64, &flat, Transpose::Yes, &rests.concat(), (d, n, scaled.len()));
        let explained = |g: usize| -> f64 {
            let others = scaled.iter().enumerate().filter(|(_, i)| **i != g);
            others.map(|(at, _)| with[at * d + g].powi(2) - 1.0 / effective).sum()
        };
        let free = (0..d).filter(|g| !from.contains(g) && !around.contains(g)).map(|g| (g, explained(g)));
        let count = scaled.len() as f64;
        let least = (LOCATION * count).max(CLEAR * (2.0 * count).sqrt() / effective);
        let Some((g, _)) = free.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|best| best.1 > least) else { break };
        for (at, rest) in rests.iter_mut().enumerate() {
            let slope = with[at * d + g];
            rest.iter_mut().zip(&columns[g]).for_each(|(rest, x)| *rest -= slope * x);
        }
        around.push(g);
    }
    around
}
