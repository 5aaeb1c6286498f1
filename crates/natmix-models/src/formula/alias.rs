//! Columns that are combinations of others, so that the data cannot tell their coefficients apart.
//!
//! Columns are taken in order; one is a combination if a Cholesky factorisation of the products of the (scaled) columns before it
//! leaves nothing of it, and if the combination then holds in every row.

/// Products that are added up at most; with more, evenly spaced rows are taken.
const MOST_WORK: usize = 2_000_000_000;

/// Most columns that are examined.
const MOST_COLUMNS: usize = 2000;

/// Share of a column's square that counts as nothing, before every row is examined.
const NOTHING: f64 = 1e-9;

/// Largest difference in a row, for columns of standard deviation 1.
const EXACT: f64 = 1e-7;

/// Each column that is a combination of columns before it, with these. `x` has `means.len()` columns by row;
/// the columns are centred by `means` and divided by `scales` here.
pub(super) fn combinations(x: &[f64], means: &[f64], scales: &[f64]) -> Vec<(usize, Vec<usize>)> {
    let p = means.len();
    if p == 0 || p > MOST_COLUMNS {
        return Vec::new();
    }
    let rows = x.len() / p;
    let taken = (MOST_WORK / (p * p)).clamp(1, rows.max(1));
    let mut products = vec![0.0; p * p];
    let mut scaled = vec![0.0; p];
    for i in 0..taken {
        let row = i * rows / taken;
        for (j, scaled) in scaled.iter_mut().enumerate() {
            *scaled = (x[row * p + j] - means[j]) / scales[j];
        }
        for j in 0..p {
            if scaled[j] != 0.0 {
                for k in 0..=j {
                    products[j * p + k] += scaled[j] * scaled[k];
                }
            }
        }
    }
    // `factor` holds a row per independent column.
    let (mut independent, mut factor) = (Vec::<usize>::new(), Vec::<Vec<f64>>::new());
    let mut found = Vec::new();
    for j in 0..p {
        let mut row: Vec<f64> = Vec::with_capacity(independent.len() + 1);
        for (a, k) in independent.iter().enumerate() {
            let known: f64 = row.iter().zip(&factor[a]).map(|(x, y)| x * y).sum();
            row.push((products[j * p + k] - known) / factor[a][a]);
        }
        let left = products[j * p + j] - row.iter().map(|x| x * x).sum::<f64>();
        if left > NOTHING * products[j * p + j] {
            row.push(left.sqrt());
            factor.push(row);
            independent.push(j);
            continue;
        }
        for a in (0..independent.len()).rev() {
            let known: f64 = (a + 1..independent.len()).map(|b| factor[b][a] * row[b]).sum();
            row[a] = (row[a] - known) / factor[a][a];
        }
        let used: Vec<(usize, f64)> =
            independent.iter().copied().zip(row).filter(|(_, weight)| weight.abs() > EXACT).collect();
        let value = |row: &[f64], k: usize| (row[k] - means[k]) / scales[k];
        let holds = |row: &[f64]| {
            let combined: f64 = used.iter().map(|(k, weight)| weight * value(row, *k)).sum();
            (value(row, j) - combined).abs() <= EXACT
        };
        if x.chunks_exact(p).all(holds) {
            found.push((j, used.into_iter().map(|(k, _)| k).collect()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_found_and_near_ones_are_not() {
        let wave = |i: usize| (i as f64 * 1.7).sin();
        let x: Vec<f64> = (0..60)
            .flat_map(|i| {
                let (a, b) = (wave(i), wave(i * i + 3));
                [a, b, 2.0 * a - 3.0 * b + 1.0, a + 1e-4 * wave(i + 11), a]
            })
            .collect();
        let mean = |j: usize| x.iter().skip(j).step_by(5).sum::<f64>() / 60.0;
        let means: Vec<f64> = (0..5).map(mean).collect();
        assert_eq!(combinations(&x, &means, &[1.0; 5]), [(2, vec![0, 1]), (4, vec![0])]);
    }
}
