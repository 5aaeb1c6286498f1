//! Functions that make several columns of one: polynomials, B-splines and smooths. What they learn from the fitted data is kept, so
//! that new rows get the same functions.
//!
//! - Orthogonal polynomials follow the three-term recurrence `p_k = (x - a_{k-1}) p_{k-1} - (n_{k-1}/n_{k-2}) p_{k-2}` with
//!   `a_k = sum x p_k^2 / n_k`, `n_k = sum p_k^2`, each divided by `sqrt(n_k)`: the columns are orthonormal over the fitted rows.
//! - B-splines have knots at quantiles, by the Cox-de Boor recurrence; the first function is left out, since all of them sum to 1.
//! - A smooth is the penalised spline of Eilers and Marx (1996) as a mixed model. With cubic B-splines `B` at even distances and
//!   second differences `D`, the penalty `|D b|^2` says `D b ~ N(0, sd^2)`. Any `R` with `D R = I` gives `B b = line + B R u` with
//!   `u ~ N(0, sd^2 I)`; we take the double cumulative sums `R_ij = max(0, i - j - 1)`. The straight lines in the columns
//!   of `B R` are subtracted (the formula has a line of its own), and all are divided by one number, so that a standard
//!   deviation of 1 gives a departure from the line of about 1. Outside the fitted range a smooth goes on as a straight line.

use crate::error::DataError;
use crate::table::Table;
use serde::{Deserialize, Serialize};

/// Functions of a number, as stored with a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Basis {
    /// Orthogonal polynomials of degrees 1 to `centres.len()`.
    Polynomial {
        /// The `a_k`.
        centres: Vec<f64>,
        /// The `n_k`, from degree 0 on.
        norms: Vec<f64>,
    },
    /// `x, x^2, ...`.
    RawPolynomial {
        /// The highest power.
        degree: usize,
    },
    /// B-splines without the first one.
    Spline {
        /// Degree of the polynomials between the knots.
        degree: usize,
        /// The knots; the outermost ones are repeated `degree` more times.
        knots: Vec<f64>,
    },
    /// Departures from a straight line.
    Smooth {
        /// Smallest fitted value.
        lower: f64,
        /// Largest fitted value.
        upper: f64,
        /// Value at `lower` of the line that is subtracted from each function.
        levels: Vec<f64>,
        /// Increase of that line from `lower` to `upper`.
        slopes: Vec<f64>,
        /// Divisor of all functions.
        scale: f64,
    },
}

impl Basis {
    /// Orthogonal polynomials for these values; the error says how many different values there are, if too few.
    pub(super) fn polynomial(x: &[f64], degree: usize) -> Result<Basis, usize> {
        let different = different(x);
        if different <= degree {
            return Err(different);
        }
        let (mut before, mut last) = (vec![0.0; x.len()], vec![1.0; x.len()]);
        let (mut centres, mut norms) = (Vec::new(), vec![x.len() as f64]);
        for k in 0..degree {
            let centre = x.iter().zip(&last).map(|(x, p)| x * p * p).sum::<f64>() / norms[k];
            let beta = if k == 0 { 0.0 } else { norms[k] / norms[k - 1] };
            for ((x, before), last) in x.iter().zip(&mut before).zip(&mut last) {
                (*before, *last) = (*last, (x - centre) * *last - beta * *before);
            }
            centres.push(centre);
            norms.push(last.iter().map(|p| p * p).sum());
        }
        Ok(Basis::Polynomial { centres, norms })
    }

    /// B-splines for these values, with as many inner knots as `functions` needs, at quantiles.
    pub(super) fn spline(x: &[f64], functions: usize, degree: usize) -> Basis {
        let mut sorted = x.to_vec();
        sorted.sort_by(f64::total_cmp);
        let inner = functions - degree;
        let last = sorted.len() - 1;
        let quantile = |share: f64| {
            let place = share * last as f64;
            let below = (place.floor() as usize).min(last);
            sorted[below] + (sorted[(below + 1).min(last)] - sorted[below]) * (place - below as f64)
        };
        let mut knots = vec![sorted[0]; degree + 1];
        knots.extend((1..=inner).map(|i| quantile(i as f64 / (inner + 1) as f64)));
        knots.extend(vec![sorted[last]; degree + 1]);
        Basis::Spline { degree, knots }
    }

    /// A smooth with `functions` B-splines, at least 4, of which two directions are the straight line.
    pub(super) fn smooth(x: &[f64], functions: usize) -> Basis {
        let lower = x.iter().copied().fold(f64::INFINITY, f64::min);
        let upper = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let width = functions - 2;
        let raw = Basis::Smooth { lower, upper, levels: vec![0.0; width], slopes: vec![0.0; width], scale: 1.0 };
        let rows = x.len() as f64;
        let along = |x: f64| (x - lower) / (upper - lower);
        let mean_x = x.iter().map(|x| along(*x) / rows).sum::<f64>();
        let square = x.iter().map(|x| (along(*x) - mean_x).powi(2)).sum::<f64>();
        let mut values = vec![0.0; width];
        let mut means = vec![0.0; width];
        for x in x {
            raw.fill(*x, &mut values);
            means.iter_mut().zip(&values).for_each(|(mean, value)| *mean += value / rows);
        }
        let (mut slopes, mut squares) = (vec![0.0; width], vec![0.0; width]);
        for x in x {
            raw.fill(*x, &mut values);
            let from_mean = along(*x) - mean_x;
            for j in 0..width {
                slopes[j] += from_mean * (values[j] - means[j]) / square;
                squares[j] += (values[j] - means[j]).powi(2);
            }
        }
        let levels = means.iter().zip(&slopes).map(|(mean, slope)| mean - slope * mean_x).collect();
        let left: f64 = squares.iter().zip(&slopes).map(|(total, slope)| total - slope * slope * square).sum();
        Basis::Smooth { lower, upper, levels, slopes, scale: (left / rows).sqrt() }
    }

    /// Number of functions.
    pub fn width(&self) -> usize {
        match self {
            Basis::Polynomial { centres, .. } => centres.len(),
            Basis::RawPolynomial { degree } => *degree,
            Basis::Spline { degree, knots } => knots.len().saturating_sub(degree + 2),
            Basis::Smooth { levels, .. } => levels.len(),
        }
    }

    /// The functions at `x`, which lies within the range of a spline.
    fn fill(&self, x: f64, out: &mut [f64]) {
        match self {
            Basis::Polynomial { centres, norms } => {
                let (mut before, mut last) = (0.0, 1.0);
                for (k, centre) in centres.iter().enumerate() {
                    let beta = if k == 0 { 0.0 } else { norms[k] / norms[k - 1] };
                    (before, last) = (last, (x - centre) * last - beta * before);
                    out[k] = last / norms[k + 1].sqrt();
                }
            }
            Basis::RawPolynomial { degree } => (0..*degree).for_each(|k| out[k] = x.powf((k + 1) as f64)),
            Basis::Spline { degree, knots } => out.copy_from_slice(&cox_de_boor(x, *degree, knots)[1..]),
            Basis::Smooth { lower, upper, levels, slopes, scale } => {
                let along = (x - lower) / (upper - lower);
                // Intervals between the knots.
                let intervals = (levels.len() - 1) as f64;
                let inside = along.clamp(0.0, 1.0) * intervals;
                let interval = inside.floor().min(intervals - 1.0);
                let (values, slope) = cubic(inside - interval);
                let beyond = along * intervals - inside;
                for (j, out) in out.iter_mut().enumerate() {
                    let mut sum = 0.0;
                    for t in 0..4 {
                        let steps = interval + t as f64 - j as f64 - 1.0;
                        sum += (values[t] + beyond * slope[t]) * steps.max(0.0);
                    }
                    *out = (sum - levels[j] - slopes[j] * along) / scale;
                }
            }
        }
    }

    /// The functions in every row, by row. `name` is how messages call the function.
    pub(super) fn values(&self, x: &[f64], name: &str, table: &Table) -> Result<Vec<f64>, DataError> {
        let width = self.width();
        let mut values = Vec::new();
        crate::table::reserve(&table.origin.file, &mut values, x.len().saturating_mul(width))?;
        values.resize(x.len() * width, 0.0);
        let refuse = |row: usize, problem: String| DataError::BadValue {
            file: table.origin.file.clone(),
            place: table.origin.place(row),
            column: name.into(),
            value: x[row],
            problem,
        };
        for (row, out) in values.chunks_exact_mut(width).enumerate() {
            if let Basis::Spline { knots, .. } = self
                && let (Some(first), Some(last)) = (knots.first(), knots.last())
                && !(*first..=*last).contains(&x[row])
            {
                let problem = format!(
                    "is outside the range from {first} to {last} that the splines were fitted in (s(x) goes on as a straight line)"
                );
                return Err(refuse(row, problem));
            }
            self.fill(x[row], out);
            if out.iter().any(|value| !value.is_finite()) {
                return Err(refuse(row, "is too far away for this function (change its unit)".into()));
            }
        }
        Ok(values)
    }

    /// Whether the numbers are usable: they may come from a file.
    pub(super) fn is_sane(&self) -> bool {
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        match self {
            Basis::Polynomial { centres, norms } => {
                let positive = norms.iter().all(|norm| norm.is_finite() && *norm > 0.0);
                !centres.is_empty() && norms.len() == centres.len() + 1 && finite(centres) && positive
            }
            Basis::RawPolynomial { degree } => (1..=HIGHEST_DEGREE).contains(degree),
            Basis::Spline { degree, knots } => {
                *degree <= HIGHEST_DEGREE && knots.len() > degree + 2 && finite(knots) && knots.is_sorted()
            }
            Basis::Smooth { lower, upper, levels, slopes, scale } => {
                let sizes = levels.len() >= 2 && levels.len() == slopes.len();
                let numbers = finite(&[*lower, *upper, *scale]) && finite(levels) && finite(slopes);
                sizes && numbers && lower < upper && *scale > 0.0
            }
        }
    }
}

/// Highest degree of polynomials and splines.
pub(super) const HIGHEST_DEGREE: usize = 20;

/// How many different values there are.
pub(super) fn different(x: &[f64]) -> usize {
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    sorted.len()
}

/// All B-splines at `x`, by the recurrence; the last interval includes its end.
fn cox_de_boor(x: f64, degree: usize, knots: &[f64]) -> Vec<f64> {
    let last = knots.len() - degree - 2;
    let within = |i: usize| x >= knots[i] && (x < knots[i + 1] || (i == last && x <= knots[i + 1]));
    let mut values: Vec<f64> = (0..knots.len() - 1).map(|i| f64::from(within(i))).collect();
    for d in 1..=degree {
        let share = |i: usize| {
            let width = knots[i + d] - knots[i];
            if width > 0.0 { (x - knots[i]) / width } else { 0.0 }
        };
        for i in 0..knots.len() - d - 1 {
            values[i] = share(i) * values[i] + (1.0 - share(i + 1)) * values[i + 1];
        }
        values.truncate(knots.len() - d - 1);
    }
    values
}

/// The four cubic B-splines at even distances that are not zero within an interval, and their slopes, at the share `w` of it.
fn cubic(w: f64) -> ([f64; 4], [f64; 4]) {
    let v = 1.0 - w;
    let values = [
        v * v * v / 6.0,
        (3.0 * w * w * w - 6.0 * w * w + 4.0) / 6.0,
        (3.0 * v * v * v - 6.0 * v * v + 4.0) / 6.0,
        w * w * w / 6.0,
    ];
    let slopes = [-v * v / 2.0, (3.0 * w * w - 4.0 * w) / 2.0, (4.0 * v - 3.0 * v * v) / 2.0, w * w / 2.0];
    (values, slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Vec<f64> {
        (0..200).map(|i| 3.0 + (f64::from(i) * 0.37).sin() * 2.0).collect()
    }

    fn rows(basis: &Basis, x: &[f64]) -> Vec<Vec<f64>> {
        let row = |x: &f64| {
            let mut out = vec![0.0; basis.width()];
            basis.fill(*x, &mut out);
            out
        };
        x.iter().map(row).collect()
    }

    #[test]
    fn polynomials_are_orthonormal() {
        let x = grid();
        let rows = rows(&Basis::polynomial(&x, 5).unwrap(), &x);
        for a in 0..5 {
            assert!(rows.iter().map(|row| row[a]).sum::<f64>().abs() < 1e-12);
            for b in 0..=a {
                let product: f64 = rows.iter().map(|row| row[a] * row[b]).sum();
                assert!((product - f64::from(a == b)).abs() < 1e-12, "{a} {b} {product}");
            }
        }
        assert_eq!(Basis::polynomial(&[1.0, 2.0, 1.0, 2.0], 2), Err(2));
    }

    #[test]
    fn splines_sum_to_one_and_reproduce_lines() {
        let x = grid();
        let Basis::Spline { degree, knots } = Basis::spline(&x, 6, 3) else { unreachable!() };
        for x in &x {
            let values = cox_de_boor(*x, degree, &knots);
            assert_eq!(values.len(), 7);
            assert!((values.iter().sum::<f64>() - 1.0).abs() < 1e-14);
            // Marsden's identity: the coefficients of x are the means of `degree` knots.
            let line: f64 =
                values.iter().enumerate().map(|(i, b)| b * knots[i + 1..=i + 3].iter().sum::<f64>() / 3.0).sum();
            assert!((line - x).abs() < 1e-13);
        }
    }

    /// Second differences of the coefficients are what is penalised, so the functions of a smooth must span all splines together
    /// with the line, and a coefficient of one must be a second difference of one.
    #[test]
    fn smooths_are_splines_with_independent_second_differences() {
        let x = grid();
        let basis = Basis::smooth(&x, 8);
        let Basis::Smooth { lower, upper, levels, slopes, scale } = &basis else { unreachable!() };
        let rows = rows(&basis, &x);
        for j in 0..6 {
            for (x, row) in x.iter().zip(&rows) {
                // The spline whose coefficients have the second differences (0, .., 1 at j, .., 0), from its B-splines.
                let along = (x - lower) / (upper - lower) * 5.0;
                let interval = along.floor().min(4.0);
                let values = cubic(along - interval).0;
                let coefficient = |i: usize| if i > j + 1 { (i - j - 1) as f64 } else { 0.0 };
                let spline: f64 = (0..4).map(|t| values[t] * coefficient(interval as usize + t)).sum();
                let expected = (spline - levels[j] - slopes[j] * along / 5.0) / scale;
                assert!((row[j] - expected).abs() < 1e-12);
            }
            let product = |f: &dyn Fn(f64) -> f64| x.iter().zip(&rows).map(|(x, row)| f(*x) * row[j]).sum::<f64>();
            assert!(product(&|_| 1.0).abs() < 1e-10 && product(&|x| x).abs() < 1e-10);
        }
        let square: f64 = rows.iter().flatten().map(|value| value * value).sum::<f64>() / x.len() as f64;
        assert!((square - 1.0).abs() < 1e-12);
    }

    #[test]
    fn smooths_go_on_as_lines_without_a_kink() {
        let basis = Basis::smooth(&grid(), 6);
        let Basis::Smooth { lower, upper, .. } = basis else { unreachable!() };
        for end in [lower, upper] {
            let at = |x: f64| rows(&basis, &[x]).remove(0);
            let (h, sign) = (1e-4, if end == lower { -1.0 } else { 1.0 });
            for j in 0..4 {
                let inside = (at(end)[j] - at(end - sign * h)[j]) / h;
                let outside = (at(end + sign * 10.0)[j] - at(end)[j]) / 10.0;
                let beside = (at(end + sign * h)[j] - at(end)[j]) / h;
                assert!(
                    (inside - outside).abs() < 1e-3 && (beside - outside).abs() < 1e-9,
                    "{inside} {outside} {beside}"
                );
            }
        }
    }
}
