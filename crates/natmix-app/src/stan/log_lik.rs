//! Leave-one-out of a Stan program by its generated quantity `log_lik`.

use crate::loo_rows::LooRows;
use crate::predictive::{FEWEST_DRAWS, MOST_DRAWS, TERMS, loo_for_report};
use crate::stan::StanDraws;
use natmix::Error;
use natmix_models::loo::by_rows;
use natmix_models::scores::spaced;
use natmix_report::Loo;

/// Leave-one-out by the generated quantity `log_lik` or `log_likelihood`, if there is one; the draws count as draws of the posterior.
/// None if these are not finite.
pub(crate) fn of_log_lik(draws: &StanDraws) -> Result<Option<(Loo, LooRows)>, Error> {
    let Some(found) = draws.variables().find(|one| one.group == "log_likelihood") else { return Ok(None) };
    let (rows, width) = (found.variable.columns.len(), draws.names.len());
    let count = draws.values.len() / width.max(1);
    let kept = (TERMS / rows.max(1)).clamp(MOST_DRAWS, count.max(MOST_DRAWS)).min(count);
    let which: Vec<&[f64]> = spaced(count, kept).map(|draw| &draws.values[draw * width..(draw + 1) * width]).collect();
    let at = |row: &usize| found.variable.columns[*row];
    let of_rows = |chosen: &[usize]| -> Vec<f64> {
        chosen.iter().flat_map(|row| which.iter().map(move |draw| draw[at(row)])).collect()
    };
    let finite = |row: usize| which.iter().all(|draw| draw[at(&row)].is_finite());
    if rows == 0 || kept < FEWEST_DRAWS || !(0..rows).all(finite) {
        return Ok(None);
    }
    let found = by_rows(rows, &vec![0.0; kept], TERMS, |_| 1.0, |chosen| Ok(of_rows(chosen)))?;
    Ok(Some((loo_for_report(&found, 0.0), LooRows::new(&found, 0.0, None, None))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use natmix_models::loo::from_matrix;

    #[test]
    fn log_likelihoods_among_other_variables() {
        let names = ["mu", "log_lik.1", "log_lik.2", "y_rep"].map(String::from).to_vec();
        let lik = |draw: usize, row: usize| -1.0 - row as f64 - 0.2 * ((draw * 7 + row) as f64 * 0.37).sin();
        let values: Vec<f64> = (0..400).flat_map(|draw| [0.5, lik(draw, 0), lik(draw, 1), 9.0]).collect();
        let draws = StanDraws { names, values, before_generated: 1 };
        let (loo, rows) = of_log_lik(&draws).unwrap().unwrap();
        let matrix: Vec<f64> = (0..400).flat_map(|draw| [lik(draw, 0), lik(draw, 1)]).collect();
        let expected = from_matrix(&matrix, &[0.0; 400]).unwrap();
        assert_eq!((rows.elpd, rows.k_hats), (expected.pointwise.clone(), expected.k_hats));
        assert!((loo.elpd - expected.elpd).abs() < 1e-12 && rows.about.outcome.is_none() && rows.about.rows == 2);
        // Nothing follows from values that are not finite, or from other variables.
        let mut broken = draws.clone();
        broken.values[5] = f64::NAN;
        assert!(of_log_lik(&broken).unwrap().is_none());
        let other = StanDraws { before_generated: 4, ..draws };
        assert!(of_log_lik(&other).unwrap().is_none());
    }
}
