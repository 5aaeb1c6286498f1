//! Leave-one-out cross-validation by Pareto-smoothed importance sampling, from draws of an approximate posterior.
//!
//! Draws `z_s` come from the fitted mixture `q`, not from the posterior `p(z | y)`. The posterior without row `i` is
//! proportional to `p(z, y) / lik_i(z)^u_i`, with the row's weight `u_i`, so that its importance ratios are
//!
//! ```text
//! log r_is = [log p(z_s, y) - log q(z_s)] - u_i log lik_i(z_s)
//! ```
//!
//! The bracket, `base_log_ratios`, corrects the errors of `q`; without it `q` would be treated as the posterior. The
//! ratios are smoothed for each row ([`natmix::psis`]), and with the normalised weights `w`
//!
//! ```text
//! elpd_i = u_i log sum_s w_is lik_i(z_s),     elpd = sum_i elpd_i,     p_loo = sum_i (lpd_i - elpd_i)
//! ```
//!
//! where `lpd_i` uses the smoothed weights of the base ratios alone. A row's k-hat tells whether its contribution can be
//! trusted, unless its weights hardly vary (an effective sample size above 98%), as for an exact `q` and a row
//! without influence: the shape of their tail is then meaningless. Vehtari, Gelman, Gabry (2017), *Statistics and
//! Computing* 27; with approximate posteriors, Magnusson, Andersen, Jonasson, Vehtari (2019), ICML.
//!
//! A table with too many rows is sampled at even spacing: sums are scaled up, and the standard error
//! `N sd(elpd_i) / sqrt(m)` of `m` out of `N` rows includes that.
//!
//! ```
//! // Two rows whose likelihood does not depend on the draw: leaving one out changes nothing.
//! let log_lik: Vec<f64> = [-1.0, -3.0].repeat(100);
//! let loo = natmix_models::loo::from_matrix(&log_lik, &[0.5; 100]).unwrap();
//! assert!((loo.elpd + 4.0).abs() < 1e-12 && loo.p_loo.abs() < 1e-12 && loo.too_large() == 0);
//! ```

use crate::draws::{CoefficientDraws, log_sum_exp};
use crate::regression::Regression;
use crate::scores::spaced;
use natmix::Error;
use natmix::psis::{Psis, smooth, trust_threshold};
use rayon::prelude::*;
use serde::Serialize;

/// Most log likelihoods, rows times draws, that [`loo`] should evaluate: a few seconds.
pub const MOST_TERMS: usize = 50_000_000;

/// Rows that are loaded into memory at once.
const ROWS_AT_ONCE: usize = 1 << 14;
/// Rows whose log likelihoods are in memory at once.
const ROWS_IN_TURN: usize = 1 << 11;

/// Results per row.
const WIDTH: usize = 4;

/// Relative variance of a row's weights below which its k-hat is ignored.
const EQUAL_WEIGHTS_VARIANCE: f64 = 0.02;

/// Result of leave-one-out cross-validation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LooFigures {
    /// Expected log predictive density of new data of the same size: larger is better.
    pub elpd: f64,
    /// Its standard error.
    pub se: f64,
    /// Effective number of parameters.
    pub p_loo: f64,
    /// Rows of the table.
    pub rows: usize,
    /// The rows that were left out in turn: all of them, or evenly spaced ones.
    pub left_out: Vec<usize>,
    /// Contribution of each of these.
    pub pointwise: Vec<f64>,
    /// k-hat of each of these.
    pub k_hats: Vec<f64>,
    /// Effective sample size of each of these, out of `draws`.
    pub ess: Vec<f64>,
    /// The largest k-hat that can be trusted with this number of draws.
    pub k_threshold: f64,
    /// Draws that were used: those with a finite base ratio.
    pub draws: usize,
}

impl LooFigures {
    /// Whether the contribution of the `i`-th of the rows left out can be trusted.
    pub fn trusted(&self, i: usize) -> bool {
        self.k_hats[i] < self.k_threshold || Self::equal_weights(self.draws as f64, self.ess[i])
    }

    /// Whether weights hardly vary, from the number of draws and of effective draws: their k-hat then means nothing.
    pub fn equal_weights(draws: f64, ess: f64) -> bool {
        draws / ess - 1.0 <= EQUAL_WEIGHTS_VARIANCE
    }

    /// Number of rows whose k-hat is too large, or could not be computed.
    pub fn too_large(&self) -> usize {
        (0..self.left_out.len()).filter(|&i| !self.trusted(i)).count()
    }

    /// From `[elpd_i, lpd_i, k-hat, effective sample size]` of each row left out.
    fn collect(of_rows: &[f64], rows: usize, left_out: Vec<usize>, draws: usize) -> Self {
        let column = |at: usize| of_rows.iter().skip(at).step_by(WIDTH).copied();
        let count = left_out.len() as f64;
        let sum: f64 = column(0).sum();
        let mean = sum / count;
        let variance = column(0).map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let scale = rows as f64 / count;
        Self {
            elpd: scale * sum,
            se: rows as f64 * (variance / count).sqrt(),
            p_loo: scale * (column(1).sum::<f64>() - sum),
            rows,
            left_out,
            pointwise: column(0).collect(),
            k_hats: column(2).collect(),
            ess: column(3).collect(),
            k_threshold: trust_threshold(draws),
            draws,
        }
    }
}

/// Leaves out the rows of `model` in turn. `draws` come from the fitted mixture, in sequence in the space that
/// was fitted; `base_log_ratios` are `log p - log q` there, as [`natmix::diagnose::weigh_draws`] gives them.
///
/// At most `most_terms` log likelihoods are evaluated ([`MOST_TERMS`] is a good choice), in blocks of bounded memory.
pub fn loo(model: &Regression, draws: &[f64], base_log_ratios: &[f64], most_terms: usize) -> Result<LooFigures, Error> {
    let dim = model.target().dim();
    if Some(draws.len()) != base_log_ratios.len().checked_mul(dim) {
        let problem = format!("{} numbers are not {} draws of {dim} coordinates", draws.len(), base_log_ratios.len());
        return Err(Error::InvalidInput(problem));
    }
    let used = usable(base_log_ratios)?;
    let kept: Vec<f64> = used.iter().flat_map(|&s| &draws[s * dim..(s + 1) * dim]).copied().collect();
    let base = BaseRatios::new(used.iter().map(|&s| base_log_ratios[s]).collect());
    let data = model.data();
    let draws = CoefficientDraws::new(model.kind(), data.features(), &kept)?;
    let left_out: Vec<usize> = spaced(data.rows(), (most_terms / used.len()).max(1)).collect();
    let mut of_rows = Vec::with_capacity(WIDTH * left_out.len());
    for rows in left_out.chunks(ROWS_AT_ONCE) {
        let table = data.take(rows)?;
        let weight = |row: usize| table.weights().map_or(1.0, |weights| weights[row]);
        of_rows.extend(draws.map_log_likelihood((&table).into(), table.outcome(), WIDTH, |row, log_lik, out| {
            out.copy_from_slice(&base.leave_out(log_lik, weight(row)));
        })?);
    }
    Ok(LooFigures::collect(&of_rows, data.rows(), left_out, used.len()))
}

/// The same from log likelihoods of any model, `log_likelihood[draw * rows + row]`, each row counting once.
pub fn from_matrix(log_likelihood: &[f64], base_log_ratios: &[f64]) -> Result<LooFigures, Error> {
    let draws = base_log_ratios.len();
    if log_likelihood.is_empty() || draws == 0 || !log_likelihood.len().is_multiple_of(draws) {
        let problem = format!("{} log likelihoods are not those of rows at {draws} draws", log_likelihood.len());
        return Err(Error::InvalidInput(problem));
    }
    let rows = log_likelihood.len() / draws;
    let of_row = |row: &usize| log_likelihood.iter().skip(*row).step_by(rows);
    by_rows(rows, base_log_ratios, usize::MAX, |_| 1.0, |which| Ok(which.iter().flat_map(of_row).copied().collect()))
}

/// The same, where `log_likelihood` gives the log likelihoods of some rows at all draws, row by row, and each row counts `weight`
/// times. At most `most_terms` of them are evaluated.
pub fn by_rows(
    rows: usize,
    base_log_ratios: &[f64],
    most_terms: usize,
    weight: impl Fn(usize) -> f64 + Sync,
    mut log_likelihood: impl FnMut(&[usize]) -> Result<Vec<f64>, Error>,
) -> Result<LooFigures, Error> {
    let used = usable(base_log_ratios)?;
    let base = BaseRatios::new(used.iter().map(|&s| base_log_ratios[s]).collect());
    let left_out: Vec<usize> = spaced(rows, (most_terms / used.len()).max(1)).collect();
    let mut of_rows = Vec::with_capacity(WIDTH * left_out.len());
    for rows in left_out.chunks(ROWS_IN_TURN) {
        let values = log_likelihood(rows)?;
        let of_row = |(row, values): (&usize, &[f64])| {
            let log_lik: Vec<f64> = used.iter().map(|&s| values[s]).collect();
            base.leave_out(&log_lik, weight(*row))
        };
        let found: Vec<[f64; WIDTH]> =
            rows.par_iter().zip(values.par_chunks_exact(base_log_ratios.len())).map(of_row).collect();
        of_rows.extend(found.into_iter().flatten());
    }
    Ok(LooFigures::collect(&of_rows, rows, left_out, used.len()))
}

/// Draws that count: where `log p` is not finite, the posterior has no mass or could not be evaluated.
fn usable(base_log_ratios: &[f64]) -> Result<Vec<usize>, Error> {
    let used: Vec<usize> = (0..base_log_ratios.len()).filter(|&s| base_log_ratios[s].is_finite()).collect();
    if used.is_empty() {
        let problem = format!("none of {} draws has a finite log p - log q", base_log_ratios.len());
        return Err(Error::InvalidInput(problem));
    }
    Ok(used)
}

/// `log p - log q` at the draws, and the smoothed weights that turn them into draws of the posterior.
struct BaseRatios {
    log_ratios: Vec<f64>,
    psis: Psis,
}

impl BaseRatios {
    fn new(log_ratios: Vec<f64>) -> Self {
        Self { psis: smooth(&log_ratios), log_ratios }
    }

    /// `[elpd_i, lpd_i, k-hat, effective sample size]` of a row that counts `weight` times.
    fn leave_out(&self, log_lik: &[f64], weight: f64) -> [f64; WIDTH] {
        let average = |psis: &Psis| {
            let terms: Vec<f64> = psis.log_weights.iter().zip(log_lik).map(|(w, l)| w + l).collect();
            log_sum_exp(&terms)
        };
        if weight == 0.0 {
            return [0.0, 0.0, self.psis.k_hat, self.psis.ess];
        }
        let ratios: Vec<f64> = self.log_ratios.iter().zip(log_lik).map(|(b, l)| b - weight * l).collect();
        let psis = smooth(&ratios);
        [weight * average(&psis), weight * average(&self.psis), psis.k_hat, psis.ess]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_without_a_finite_ratio_do_not_count() {
        let log_lik: Vec<f64> = (0..200).map(|i| -1.0 - 0.1 * (f64::from(i) * 1.7).sin()).collect();
        let mut base: Vec<f64> = (0..100).map(|i| 0.1 * (f64::from(i) * 0.9).cos()).collect();
        let without_last = from_matrix(&log_lik[..198], &base[..99]).unwrap();
        for bad in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
            base[99] = bad;
            assert_eq!(from_matrix(&log_lik, &base).unwrap(), without_last);
        }
        assert_eq!((without_last.draws, without_last.rows), (99, 2));
        assert!(from_matrix(&log_lik, &[f64::NAN; 100]).is_err());
        assert!(from_matrix(&log_lik, &[0.0; 99]).is_err());
        assert!(from_matrix(&[], &[0.0]).is_err());
    }

    #[test]
    fn sums_and_errors_by_hand() {
        // elpd -1, -2, -6: sum -9, variance 7; lpd larger by 1/2 each.
        let of_rows = [-1.0, -0.5, 0.1, 500.0, -2.0, -1.5, 0.9, 500.0, -6.0, -5.5, f64::NAN, f64::NAN];
        let loo = LooFigures::collect(&of_rows, 3, vec![0, 1, 2], 1000);
        assert!((loo.elpd + 9.0).abs() < 1e-12 && (loo.se - 21f64.sqrt()).abs() < 1e-12);
        assert!((loo.p_loo - 1.5).abs() < 1e-12);
        assert_eq!((loo.too_large(), &loo.pointwise[..]), (2, &[-1.0, -2.0, -6.0][..]));
        // A large k-hat is ignored where all weights are nearly equal.
        let even = [-1.0, -0.5, 2.0, 990.0, -2.0, -1.5, 2.0, 970.0];
        assert_eq!(LooFigures::collect(&even, 2, vec![0, 1], 1000).too_large(), 1);
        // Three rows out of twelve: sums are scaled by four, with the error of a mean of three.
        let sampled = LooFigures::collect(&of_rows, 12, vec![0, 4, 8], 1000);
        assert!((sampled.elpd + 36.0).abs() < 1e-12 && (sampled.se - 12.0 * (7f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
