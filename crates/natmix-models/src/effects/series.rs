//! Log likelihoods of large tables as power series: time that does not grow with the number of rows.
//!
//! A cell of a large table (see [`super::cells`]) has many rows, and each of them has a predictor that is linear in the same few
//! quantities: a shift and a slope or two. So the log likelihood of the cell is a function of these alone, and since there are many
//! rows, only a small part of that function matters. There it is replaced by its Taylor series about the place where its maximum is
//! expected, of so high a degree that nothing is lost: with `c_rk` the coefficients of row `r` in its predictor,
//!
//! ```text
//! sum_r l_r(eta_r) = sum_k sum_r c_rk (s_0 + sum_i d_ri s_i)^k,    d_ri = w_ri - mean of w_i
//! ```
//!
//! and the sums over rows of `c_rk` times the powers of the `d_ri` are made once. What is left out is bounded: the logistic function has
//! its nearest poles at a distance of at least `pi` from any predictor, so that `|c_rk| <= 2.5 / (k pi^k)` per trial; the
//! exponential has `|c_rk| = exp(eta_r) / k!`. A cell is computed by its series where the bound, for no predictor of its rows further
//! away than at the point, is below `1e-9` nats, and row by row everywhere else. For normal outcomes the series ends after the square.

use super::cells::{Cells, Column, LARGE, mean};
use super::expansion::{Place, places};
use super::family::Family;
use super::lanes::{LANES, Lane, add, each, lane, lane_mut};
use super::model::EffectsModel;
use rayon::prelude::*;
use std::f64::consts::PI;
use std::ops::{Range, RangeInclusive};

/// Most nats that the series of a cell may be off.
const MOST_ERROR: f64 = 1e-9;
/// Most quantities that a series is in.
const MOST_VARIABLES: usize = 4;
/// Degrees that are tried, and terms that take as long as a row: where outcomes are normal, and where rows have exponentials.
const DEGREES: RangeInclusive<usize> = 2..=28;
const TERMS_PER_ROW: (f64, f64) = (2.0, 25.0);
/// Most of the time by rows that series may take.
const MOST_COST: f64 = 0.5;
/// Most terms, and most numbers that the series of all cells may take.
const MOST_TERMS: f64 = 2_000.0;
const MOST_NUMBERS: f64 = 1e7;
/// Standard deviations that a series should reach.
const REACH: f64 = 6.5;

/// Power series of the cells of a table.
#[derive(Clone, Debug)]
pub(super) struct Series {
    columns: Vec<Column>,
    /// Each term but the first is an earlier one times a variable.
    terms: Vec<(u32, u32)>,
    pub cells: Vec<Cell>,
    /// Of each term of each cell: its own coefficient, and those of its derivatives.
    coefficients: Vec<f64>,
    variables: usize,
}

/// Rows with a series, or without.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub rows: Range<usize>,
    /// Where each grouping has its effects.
    effects: Vec<usize>,
    /// Means of all columns.
    means: Vec<f64>,
    place: Place,
    /// Largest change of a predictor for which the series may be used; zero if there is none.
    radius: f64,
    first: usize,
}

/// Sums over the rows of a cell: values, and slopes in its variables.
pub(super) struct CellSums {
    pub value: Lane,
    slopes: [Lane; MOST_VARIABLES],
}

impl Series {
    /// Series for a large table whose rows are sorted by their levels; none if they would not be faster than its rows.
    pub fn of(model: &EffectsModel) -> Option<Self> {
        let family = model.base.family;
        let known =
            matches!(family, Family::Linear | Family::Logistic | Family::Binomial | Family::Poisson | Family::Gamma);
        if !known || model.rows < LARGE {
            return None;
        }
        let cells = Cells::of(model, MOST_VARIABLES - 1)?;
        let variables = 1 + cells.directions.len();
        let per_row = if family == Family::Linear { TERMS_PER_ROW.0 } else { TERMS_PER_ROW.1 };
        let (count, by_rows) = (cells.rows.len() as f64, per_row * model.rows as f64);
        if count * count_of(variables, *DEGREES.start()) > MOST_COST * by_rows {
            return None;
        }
        let places = places(model, &cells)?;
        let sizes: Vec<f64> =
            (0..places.len()).into_par_iter().map(|at| size(model, &cells, at, &places[at])).collect();
        let wanted: Vec<f64> = places.iter().map(Place::reach).collect();
        let (mut degree, mut least) = (0, MOST_COST * by_rows);
        for tried in DEGREES {
            let terms = count_of(variables, tried);
            let numbers = count * terms * (1 + variables) as f64;
            if count * terms > least || terms > MOST_TERMS || numbers > MOST_NUMBERS {
                break;
            }
            let cost = |((size, wanted), rows): ((&f64, &f64), &Range<usize>)| {
                if radius(family, *size, tried) >= *wanted { terms } else { per_row * rows.len() as f64 }
            };
            let cost = sizes.iter().zip(&wanted).zip(&cells.rows).map(cost).sum();
            if cost < least {
                (degree, least) = (tried, cost);
            }
        }
        if degree == 0 {
            return None;
        }
        let terms = Terms::new(variables, degree);
        let of_cell = |at: usize| match radius(family, sizes[at], degree) {
            radius if radius >= wanted[at] => (radius, coefficients(model, &cells, at, &places[at], &terms)),
            _ => (0.0, Vec::new()),
        };
        let found: Vec<(f64, Vec<f64>)> = (0..places.len()).into_par_iter().map(of_cell).collect();
        let (mut all, mut own) = (Vec::new(), Vec::with_capacity(places.len()));
        for ((place, rows), (radius, coefficients)) in places.into_iter().zip(&cells.rows).zip(found) {
            let means = cells.columns.iter().map(|column| mean(column, model, rows)).collect();
            let mut before = 0;
            let effects = model.groups.iter().map(|group| {
                let first = before + group.level_of_row[rows.start] as usize * group.q;
                before += group.shape.effects();
                first
            });
            let effects = effects.collect();
            own.push(Cell { rows: rows.clone(), effects, means, place, radius, first: all.len() });
            all.extend(coefficients);
        }
        Some(Self { columns: cells.columns, terms: terms.before, cells: own, coefficients: all, variables })
    }

    /// Numbers of lanes that the sums of a cell need.
    pub fn room(&self) -> usize {
        self.terms.len()
    }

    /// Columns, of each of which a cell touches one coefficient or effect.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The coefficient or effect of a column in a cell: whether it is an effect, and which.
    #[inline(always)]
    pub fn touched(&self, cell: &Cell, column: usize) -> (bool, usize) {
        let Column { group, at, .. } = self.columns[column];
        group.map_or((false, at), |group| (true, cell.effects[group] + at))
    }

    /// How far the variables of a cell are from its place, and at which points that is near enough for its series.
    #[inline(always)]
    pub fn distances(&self, cell: &Cell, z: &[f64], effects: &[f64]) -> ([Lane; MOST_VARIABLES], [bool; LANES]) {
        let mut found = [[0.0; LANES]; MOST_VARIABLES];
        if cell.radius == 0.0 {
            return (found, [false; LANES]);
        }
        for (found, base) in found.iter_mut().zip(&cell.place.base) {
            *found = [-base; LANES];
        }
        for (column, mean) in cell.means.iter().enumerate() {
            let value = match self.touched(cell, column) {
                (false, at) => lane(z, at),
                (true, at) => lane(effects, at),
            };
            add(&mut found[0], *mean, value);
            if let Some((direction, factor)) = self.columns[column].direction {
                add(&mut found[1 + direction], factor, value);
            }
        }
        let mut reach = found[0].map(f64::abs);
        for (distance, spread) in found[1..].iter().zip(&cell.place.spread) {
            add(&mut reach, *spread, &distance.map(f64::abs));
        }
        // Not the other way round: a distance may not be a number.
        (found, reach.map(|reach| reach <= cell.radius))
    }

    /// The sums of a cell by its series. `powers` has room for the terms.
    #[inline(always)]
    pub fn sums(&self, cell: &Cell, distances: &[Lane; MOST_VARIABLES], powers: &mut [f64]) -> CellSums {
        match self.variables {
            1 => self.sums_of::<1>(cell, distances, powers),
            2 => self.sums_of::<2>(cell, distances, powers),
            3 => self.sums_of::<3>(cell, distances, powers),
            _ => self.sums_of::<4>(cell, distances, powers),
        }
    }

    #[inline(always)]
    fn sums_of<const V: usize>(&self, cell: &Cell, distances: &[Lane; MOST_VARIABLES], powers: &mut [f64]) -> CellSums {
        let (mut value, mut slopes) = ([0.0; LANES], [[0.0; LANES]; MOST_VARIABLES]);
        let width = 1 + V;
        let coefficients = &self.coefficients[cell.first..cell.first + self.terms.len() * width];
        for (at, (own, (before, variable))) in coefficients.chunks_exact(width).zip(&self.terms).enumerate() {
            let power = if at == 0 {
                [1.0; LANES]
            } else {
                let (before, distance) = (*lane(powers, *before as usize), distances[*variable as usize]);
                each(|c| before[c] * distance[c])
            };
            *lane_mut(powers, at) = power;
            add(&mut value, own[0], &power);
            for i in 0..V {
                add(&mut slopes[i], own[1 + i], &power);
            }
        }
        CellSums { value, slopes }
    }
}

impl CellSums {
    /// Leaves out points at which the series is not near enough.
    #[inline(always)]
    pub fn keep(&mut self, inside: &[bool; LANES]) {
        for c in 0..LANES {
            if !inside[c] {
                self.value[c] = 0.0;
                self.slopes.iter_mut().for_each(|slope| slope[c] = 0.0);
            }
        }
    }

    /// The slope in the coefficient or effect of a column.
    #[inline(always)]
    pub fn slope(&self, series: &Series, cell: &Cell, column: usize) -> Lane {
        let mut slope = [0.0; LANES];
        add(&mut slope, cell.means[column], &self.slopes[0]);
        if let Some((direction, factor)) = series.columns[column].direction {
            add(&mut slope, factor, &self.slopes[1 + direction]);
        }
        slope
    }
}

impl Place {
    /// How far predictors should be allowed to be from this place.
    fn reach(&self) -> f64 {
        let of_slope = |(sd, spread): (&f64, &f64)| if *spread > 0.0 { (sd * spread).powi(2) } else { 0.0 };
        let variance = self.sd[0].powi(2) + self.sd[1..].iter().zip(&self.spread).map(of_slope).sum::<f64>();
        // A series that ends is right anywhere.
        (REACH * variance.sqrt()).min(f64::MAX)
    }
}

/// The terms of a series, from the lowest degree on.
struct Terms {
    degrees: Vec<usize>,
    /// The number of orders in which the factors of a term can stand.
    orders: Vec<f64>,
    /// Each term as an earlier one times a variable; the first stands for itself.
    before: Vec<(u32, u32)>,
    /// The derivative of a term in a variable: another term, so many times.
    derivatives: Vec<(usize, usize, usize, f64)>,
    variables: usize,
}

/// Number of terms up to a degree.
fn count_of(variables: usize, degree: usize) -> f64 {
    (1..=variables).map(|k| (degree + k) as f64 / k as f64).product::<f64>().round()
}

impl Terms {
    fn new(variables: usize, degree: usize) -> Self {
        let mut exponents = vec![vec![0; variables]];
        let (mut degrees, mut before, mut first) = (vec![0], vec![(0, 0)], 0);
        for degree in 1..=degree {
            let next = exponents.len();
            for at in first..next {
                let last = exponents[at].iter().rposition(|exponent| *exponent > 0).unwrap_or(0);
                for variable in last..variables {
                    let mut one = exponents[at].clone();
                    one[variable] += 1;
                    exponents.push(one);
                    degrees.push(degree);
                    before.push((at as u32, variable as u32));
                }
            }
            first = next;
        }
        let mut derivatives = Vec::new();
        for (at, one) in exponents.iter().enumerate() {
            for variable in (0..variables).filter(|variable| one[*variable] > 0) {
                let mut less = one.clone();
                less[variable] -= 1;
                let found = exponents[..at].iter().position(|other| *other == less).unwrap_or(0);
                derivatives.push((at, variable, found, one[variable] as f64));
            }
        }
        let factorial = |n: usize| (1..=n).map(|k| k as f64).product::<f64>();
        let orders = exponents
            .iter()
            .zip(&degrees)
            .map(|(one, degree)| factorial(*degree) / one.iter().map(|exponent| factorial(*exponent)).product::<f64>());
        Self { orders: orders.collect(), degrees, before, derivatives, variables }
    }
}

/// What the bound of a cell is proportional to: trials, or the sum of all means.
fn size(model: &EffectsModel, cells: &Cells, at: usize, place: &Place) -> f64 {
    let mut distances = vec![0.0; cells.directions.len()];
    let of_row = |row: usize| {
        let weight = model.outcomes.weight(row);
        let eta = place.predictor(model, cells, row, &mut distances);
        match model.base.family {
            Family::Logistic | Family::Binomial => weight * (model.outcomes.y[row] + model.outcomes.other[row]),
            Family::Gamma => weight * (model.outcomes.y[row] - eta).exp(),
            _ => weight * eta.exp(),
        }
    };
    cells.rows[at].clone().map(of_row).sum()
}

/// The largest change of a predictor for which what a series of this degree leaves out is small enough.
fn radius(family: Family, size: f64, degree: usize) -> f64 {
    let left_out = |radius: f64| match family {
        Family::Linear => 0.0,
        Family::Logistic | Family::Binomial => {
            let share = radius / PI;
            if share < 1.0 {
                2.5 * size * share.powi(degree as i32 + 1) / (degree as f64 + 1.0) / (1.0 - share)
            } else {
                f64::INFINITY
            }
        }
        _ => {
            let term: f64 = (1..=degree + 1).map(|k| radius / k as f64).product();
            size * term * radius.exp()
        }
    };
    if left_out(f64::MAX) <= MOST_ERROR {
        return f64::MAX;
    }
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        // Not the other way round: the bound may not be a number.
        *if left_out(middle) <= MOST_ERROR { &mut low } else { &mut high } = middle;
    }
    low
}

/// Coefficients of a cell: of each term its own, and those of its derivatives.
fn coefficients(model: &EffectsModel, cells: &Cells, at: usize, place: &Place, terms: &Terms) -> Vec<f64> {
    let (count, width) = (terms.degrees.len(), 1 + terms.variables);
    let degree = terms.degrees[count - 1];
    let (mut sums, mut powers) = (vec![0.0; count], vec![1.0; count]);
    let (mut taylor, mut shares) = (vec![0.0; degree + 1], vec![0.0; degree + 1]);
    let mut distances = vec![0.0; terms.variables - 1];
    for row in cells.rows[at].clone() {
        let eta = place.predictor(model, cells, row, &mut distances);
        let other = model.outcomes.other.get(row).copied().unwrap_or(0.0);
        taylor_of(model.base.family, (model.outcomes.y[row], other), eta, &mut taylor, &mut shares);
        let weight = model.outcomes.weight(row);
        for (term, (before, variable)) in terms.before.iter().enumerate() {
            if term > 0 {
                let distance = if *variable == 0 { 1.0 } else { distances[*variable as usize - 1] };
                powers[term] = powers[*before as usize] * distance;
            }
            sums[term] += weight * taylor[terms.degrees[term]] * powers[term];
        }
    }
    let mut all = vec![0.0; count * width];
    for term in 0..count {
        all[term * width] = terms.orders[term] * sums[term];
    }
    for (term, variable, before, times) in &terms.derivatives {
        all[before * width + 1 + variable] = times * all[term * width];
    }
    all
}

/// Coefficients of the Taylor series of a row's log likelihood in its predictor, in units of the factor that the family has.
fn taylor_of(family: Family, (y, other): (f64, f64), eta: f64, out: &mut [f64], shares: &mut [f64]) {
    // From the third on those of an exponential: with this sign, and these signs in turn.
    let mut exponential = |size: f64, sign: f64| {
        let mut term = size;
        for (k, out) in out.iter_mut().enumerate() {
            *out = -term;
            term *= sign / (k + 1) as f64;
        }
    };
    match family {
        Family::Logistic | Family::Binomial => {
            let (success, softplus, _) = super::second_derivatives::logistic(eta);
            // The derivative of the share s is s (1 - s).
            shares[0] = success;
            for k in 1..shares.len() {
                let products: f64 = (0..k).map(|i| shares[i] * shares[k - 1 - i]).sum();
                shares[k] = (shares[k - 1] - products) / k as f64;
            }
            out[0] = y * eta - (y + other) * softplus;
            for k in 1..out.len() {
                out[k] = -(y + other) * shares[k - 1] / k as f64;
            }
            out[1] += y;
        }
        Family::Poisson => {
            exponential(eta.exp(), 1.0);
            out[0] += y * eta;
            out[1] += y;
        }
        Family::Gamma => {
            exponential((y - eta).exp(), -1.0);
            out[0] += 1.0 + (y - eta);
            out[1] -= 1.0;
        }
        _ => {
            out.fill(0.0);
            (out[0], out[1], out[2]) = (-0.5 * (y - eta) * (y - eta), y - eta, -0.5);
        }
    }
}

#[cfg(test)]
mod tests;
