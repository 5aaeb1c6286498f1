//! Where the predictors of a large table are expected to be: a maximum of the likelihood, found by Newton steps.
//!
//! Shift and varying slopes of a cell have a place of their own, the slopes of other columns one for all cells. So the Hessian has
//! the shape of an arrow, and a step costs one pass over the rows and a small system of equations for each cell. The place need not be
//! exact: a series is taken about it.

use super::cells::Cells;
use super::family::Family;
use super::information::solve;
use super::model::EffectsModel;
use super::second_derivatives::at_row;
use rayon::prelude::*;

/// Newton steps, and the longest change of a predictor in each of them.
const STEPS: usize = 15;
const LONGEST: f64 = 1.0;
/// Change at which they end.
const ENOUGH: f64 = 1e-4;
/// Precision with which cells are held together, so that those with equal outcomes have a place, too.
const RIDGE: f64 = 0.1;

/// Where shift and slopes of each cell are, and how well rows know them.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Shift, and slopes.
    pub base: Vec<f64>,
    /// Their standard deviations, as far as the rows say.
    pub sd: Vec<f64>,
    /// Means of the directions, and the largest distance from them.
    pub means: Vec<f64>,
    pub spread: Vec<f64>,
}

/// Slopes and minus the Hessian of the rows of a cell.
struct Sums {
    slopes: Vec<f64>,
    hessian: Vec<f64>,
}

/// Places of all cells; none if they cannot be found.
pub(super) fn places(model: &EffectsModel, cells: &Cells) -> Option<Vec<Place>> {
    let (m, local) = (cells.directions.len(), 1 + cells.varying);
    let each = 0..cells.rows.len();
    let mut places: Vec<Place> = each.clone().into_par_iter().map(|cell| start(model, cells, cell)).collect();
    for step in 0..STEPS {
        let sums: Vec<Sums> =
            each.clone().into_par_iter().map(|cell| sums(model, cells, cell, &places[cell])).collect();
        let mean: Vec<f64> =
            (0..local).map(|i| places.iter().map(|place| place.base[i]).sum::<f64>() / places.len() as f64).collect();
        // The shared slopes, with the rest of each cell eliminated.
        let shared = m + 1 - local;
        let (mut left, mut right) = (vec![0.0; shared * shared], vec![0.0; shared]);
        let mut known = Vec::with_capacity(places.len());
        for (place, sums) in places.iter().zip(&sums) {
            let own = Eliminated::new(sums, place, &mean, m + 1)?;
            for i in 0..shared {
                right[i] += sums.slopes[local + i] - own.dot(sums, local + i, &own.step);
                for j in 0..shared {
                    left[i * shared + j] +=
                        sums.hessian[(local + i) * (m + 1) + local + j] - own.dot(sums, local + i, &own.crossed[j]);
                }
            }
            known.push(own);
        }
        (0..shared).for_each(|i| left[i * (shared + 1)] += RIDGE);
        let change = solve(left.clone(), &right)?;
        let sd_of_shared: Option<Vec<f64>> = (0..shared).map(|i| sd(&left, shared, i)).collect();
        let sd_of_shared = sd_of_shared?;
        let mut longest = 0.0f64;
        for (place, own) in places.iter_mut().zip(&known) {
            let mut moved = own.step.clone();
            for (i, moved) in moved.iter_mut().enumerate() {
                *moved -= own.crossed.iter().zip(&change).map(|(crossed, change)| crossed[i] * change).sum::<f64>();
            }
            moved.extend_from_slice(&change);
            let of_rows = moved[0].abs()
                + moved[1..].iter().zip(&place.spread).map(|(moved, spread)| moved.abs() * spread).sum::<f64>();
            if !of_rows.is_finite() {
                return None;
            }
            longest = longest.max(of_rows);
            let share = (LONGEST / of_rows).min(1.0);
            for (i, (base, moved)) in place.base.iter_mut().zip(&moved).enumerate() {
                // What cells share must stay the same in all of them.
                *base += if i < local { share * moved } else { *moved };
            }
            place.sd = own.sd.iter().chain(&sd_of_shared).copied().collect();
        }
        if longest < ENOUGH && step > 0 {
            break;
        }
    }
    Some(places)
}

/// A cell without slopes, with the shift that its outcomes suggest.
fn start(model: &EffectsModel, cells: &Cells, cell: usize) -> Place {
    let rows = cells.rows[cell].clone();
    let means = cells.means(model, cell);
    let largest = |(direction, mean): (&super::cells::Column, &f64)| {
        rows.clone().map(|row| (direction.value(model, row) - mean).abs()).fold(0.0, f64::max)
    };
    let spread: Vec<f64> = cells.directions.iter().zip(&means).map(largest).collect();
    let (mut total, mut outcome, mut other, mut offset) = (1e-3, 0.0, 0.0, 0.0);
    for row in rows {
        let weight = model.outcomes.weight(row);
        total += weight;
        outcome += weight * model.outcomes.y[row];
        other += weight * model.outcomes.other.get(row).copied().unwrap_or(0.0);
        offset += weight * model.offset.as_ref().map_or(0.0, |offset| offset[row]);
    }
    let predictor = match model.base.family {
        Family::Logistic | Family::Binomial => ((outcome + 0.5) / (other + 0.5)).ln(),
        Family::Poisson => ((outcome + 0.5) / (total + 0.5)).ln(),
        _ => outcome / total,
    };
    let mut base = vec![0.0; 1 + means.len()];
    base[0] = predictor - offset / total;
    Place { sd: vec![f64::INFINITY; base.len()], base, means, spread }
}

impl Place {
    /// Predictor of a row, and its distances from the means of the directions.
    pub fn predictor(&self, model: &EffectsModel, cells: &Cells, row: usize, distances: &mut [f64]) -> f64 {
        let mut eta = model.offset.as_ref().map_or(0.0, |offset| offset[row]) + self.base[0];
        for (i, direction) in cells.directions.iter().enumerate() {
            distances[i] = direction.value(model, row) - self.means[i];
            eta += distances[i] * self.base[1 + i];
        }
        eta
    }
}

fn sums(model: &EffectsModel, cells: &Cells, cell: usize, place: &Place) -> Sums {
    let count = place.base.len();
    let (mut slopes, mut hessian) = (vec![0.0; count], vec![0.0; count * count]);
    let mut columns = vec![1.0; count];
    for row in cells.rows[cell].clone() {
        let eta = place.predictor(model, cells, row, &mut columns[1..]);
        let (y, other) = (model.outcomes.y[row], model.outcomes.other.get(row).copied().unwrap_or(0.0));
        // The noise of a linear regression, or the shape, is a factor that does not move the maximum.
        let second = at_row(model.base.family, y, other, eta, &[0.0]);
        let weight = model.outcomes.weight(row);
        for i in 0..count {
            slopes[i] += weight * second.slope * columns[i];
            for j in 0..count {
                hessian[i * count + j] -= weight * second.eta * columns[i] * columns[j];
            }
        }
    }
    Sums { slopes, hessian }
}

/// What a cell says about its own shift and slopes once those that all share are known.
struct Eliminated {
    /// Its step if these stay, and how it changes with each of them.
    step: Vec<f64>,
    crossed: Vec<Vec<f64>>,
    sd: Vec<f64>,
}

impl Eliminated {
    fn new(sums: &Sums, place: &Place, mean: &[f64], count: usize) -> Option<Self> {
        let local = mean.len();
        let mut own = vec![0.0; local * local];
        for i in 0..local {
            own[i * local..(i + 1) * local].copy_from_slice(&sums.hessian[i * count..i * count + local]);
        }
        let sd = (0..local).map(|i| sd(&own, local, i).unwrap_or(f64::INFINITY)).collect();
        (0..local).for_each(|i| own[i * (local + 1)] += RIDGE);
        let pull: Vec<f64> = (0..local).map(|i| sums.slopes[i] - RIDGE * (place.base[i] - mean[i])).collect();
        let column = |j: usize| (0..local).map(|i| sums.hessian[i * count + j]).collect::<Vec<f64>>();
        let crossed: Option<Vec<Vec<f64>>> = (local..count).map(|j| solve(own.clone(), &column(j))).collect();
        Some(Self { step: solve(own, &pull)?, crossed: crossed?, sd })
    }

    /// A row of the Hessian times `x`.
    fn dot(&self, sums: &Sums, row: usize, x: &[f64]) -> f64 {
        let count = sums.slopes.len();
        sums.hessian[row * count..].iter().zip(x).map(|(h, x)| h * x).sum()
    }
}

/// Standard deviation of coordinate `i` given this precision.
fn sd(precision: &[f64], count: usize, i: usize) -> Option<f64> {
    let unit: Vec<f64> = (0..count).map(|j| f64::from(u8::from(i == j))).collect();
    Some(solve(precision.to_vec(), &unit)?[i].sqrt())
}
