//! Checks of the numbers that users build targets from: each error states what is wrong and what is expected.

use natmix::Error;

/// The sum of the weights may differ from one by this much, as printed numbers do; they are then normalised.
const WEIGHT_SUM_TOLERANCE: f64 = 1e-6;
/// Entries `(i, j)` and `(j, i)` may differ by this much, relative to the diagonal.
const SYMMETRY_TOLERANCE: f64 = 1e-6;

pub(crate) fn invalid<T>(message: String) -> Result<T, Error> {
    Err(Error::InvalidInput(message))
}

/// Checks that `found` equals `expected`; `name` says what is counted.
pub(crate) fn count(name: &str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { invalid(format!("{name}: found {found}, expected {expected}")) }
}

/// Checks for a dimension of at least one.
pub(crate) fn dim(dim: usize) -> Result<usize, Error> {
    if dim > 0 { Ok(dim) } else { invalid("dim is 0, expected at least 1".into()) }
}

/// Checks for `expected` finite numbers.
pub(crate) fn finite(name: &str, values: &[f64], expected: usize) -> Result<(), Error> {
    count(&format!("{name}, length"), values.len(), expected)?;
    match values.iter().find(|x| !x.is_finite()) {
        None => Ok(()),
        Some(x) => invalid(format!("{name} holds {x}, expected finite numbers")),
    }
}

/// Checks for `expected` finite numbers above zero.
pub(crate) fn positive(name: &str, values: &[f64], expected: usize) -> Result<(), Error> {
    finite(name, values, expected)?;
    match values.iter().find(|&&x| x <= 0.0) {
        None => Ok(()),
        Some(x) => invalid(format!("{name} holds {x}, expected numbers above 0")),
    }
}

/// Normalises mixture weights: at least one, none negative, with a sum of one up to rounding in print.
pub(crate) fn weights(weights: &[f64]) -> Result<Vec<f64>, Error> {
    if weights.is_empty() {
        return invalid("weights are empty, expected one for each component".into());
    }
    finite("weights", weights, weights.len())?;
    if let Some(weight) = weights.iter().find(|&&weight| weight < 0.0) {
        return invalid(format!("weights hold {weight}, expected numbers that are not negative"));
    }
    let sum: f64 = weights.iter().sum();
    if (sum - 1.0).abs() > WEIGHT_SUM_TOLERANCE {
        return invalid(format!("weights sum to {sum}, expected 1 (divide each by {sum})"));
    }
    Ok(weights.iter().map(|weight| weight / sum).collect())
}

/// The lower Cholesky factor, row after row, of a symmetric positive definite `dim * dim` matrix.
pub(crate) fn cholesky(name: &str, matrix: &[Vec<f64>], dim: usize) -> Result<Vec<f64>, Error> {
    count(&format!("{name}, rows"), matrix.len(), dim)?;
    for (i, row) in matrix.iter().enumerate() {
        finite(&format!("{name}, row {i}"), row, dim)?;
    }
    for i in 0..dim {
        for j in 0..i {
            let allowed = SYMMETRY_TOLERANCE * (matrix[i][i] * matrix[j][j]).abs().sqrt();
            let (lower, upper) = (matrix[i][j], matrix[j][i]);
            if (lower - upper).abs() > allowed {
                return invalid(format!("{name} is not symmetric: {lower} at ({i}, {j}), {upper} at ({j}, {i})"));
            }
        }
    }
    let mut factor = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[i * dim + k] * factor[j * dim + k]).sum();
            let rest = 0.5 * (matrix[i][j] + matrix[j][i]) - known;
            if i != j {
                factor[i * dim + j] = rest / factor[j * dim + j];
                continue;
            }
            // A pivot that consists of rounding error belongs to a singular matrix, whatever its sign.
            if rest.is_nan() || rest <= dim as f64 * f64::EPSILON * matrix[i][i].abs() {
                return invalid(format!("{name} is not positive definite (pivot {i}), as a covariance must be"));
            }
            factor[i * dim + i] = rest.sqrt();
        }
    }
    Ok(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_normalised_or_refused() {
        assert_eq!(weights(&[0.5000001, 0.5000001]).unwrap(), [0.5, 0.5]);
        for bad in [&[][..], &[0.0, 0.0], &[1.5, -0.5], &[0.5, 0.4], &[f64::NAN, 1.0], &[f64::INFINITY]] {
            assert!(weights(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cholesky_factors_what_it_should() {
        let factor = cholesky("m", &[vec![4.0, 2.0], vec![2.0, 10.0]], 2).unwrap();
        assert_eq!(factor, [2.0, 0.0, 1.0, 3.0]);
        let message = |matrix: &[Vec<f64>]| cholesky("m", matrix, 2).unwrap_err().to_string();
        assert!(message(&[vec![1.0, 2.0], vec![2.0, 1.0]]).contains("not positive definite (pivot 1)"));
        assert!(message(&[vec![0.1, 0.3], vec![0.3, 0.9]]).contains("not positive definite (pivot 1)"));
        assert!(message(&[vec![-1.0, 0.0], vec![0.0, 1.0]]).contains("not positive definite (pivot 0)"));
        assert!(message(&[vec![1.0, 0.5], vec![0.4, 1.0]]).contains("not symmetric"));
        assert!(message(&[vec![1.0, f64::NAN], vec![0.4, 1.0]]).contains("NaN"));
        assert!(message(&[vec![1.0], vec![0.4, 1.0]]).contains("row 0, length: found 1, expected 2"));
        assert!(message(&[vec![1.0, 0.0]]).contains("rows: found 1, expected 2"));
    }
}
