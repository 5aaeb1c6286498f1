//! Regressions with fewer rows than columns: the likelihood depends on as many directions as there are rows at most.
//!
//! Orthonormal directions that span the rows, in units of the prior, come from Gram-Schmidt orthogonalisation; the rows in these
//! directions are the design of a smaller regression of the same kind with the prior `N(0, I)`. See [`natmix::target::reduction`].

use crate::observations::{Dataset, Observations};
use natmix::Error;
use natmix::matrix::{Transpose, product};
use natmix::target::Target;
use natmix::target::reduction::{Reduction, Subspace};
use std::sync::{Arc, OnceLock};

/// Fewest columns with which it is worth it: smaller regressions take no time as they are.
const LEAST_COLUMNS: usize = 40;
/// Rows that are made orthogonal to earlier ones together.
const BLOCK: usize = 32;
/// What is left of a row, relative to the row, from which on it is rounding error.
const NOTHING: f64 = 1e-13;
/// What is left of a row after a pass, relative to what was there before, below which there is another.
const LOST: f64 = 0.1;
/// Most passes.
const PASSES: usize = 4;

/// The smaller regression, found when it is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowSpace(OnceLock<Option<Reduction>>);

impl RowSpace {
    /// The smaller regression if the table is in memory and has fewer rows than columns, of which there are at least 40. Each of so
    /// many blocks of coefficients has the prior `N(0, diag(sd^2))`; `tail` further coordinates stay as they are.
    pub fn reduction<T: Target + Send + 'static>(
        &self,
        data: &Dataset,
        (sd, blocks, tail): (&[f64], usize, usize),
        regression: impl FnOnce(Observations) -> Result<T, Error>,
    ) -> Option<&Reduction> {
        let table = data.whole_table()?;
        if table.rows() >= table.features() || table.features() < LEAST_COLUMNS {
            return None;
        }
        let find = || {
            let Rows { basis, coordinates, rank } = Rows::of(table, sd);
            let mut smaller = Observations::new(coordinates, rank, table.outcome().to_vec()).ok()?;
            if let Some(offset) = table.offset() {
                smaller = smaller.with_offset(offset.to_vec()).ok()?;
            }
            if let Some(weights) = table.weights() {
                smaller = smaller.with_weights(weights.to_vec()).ok()?;
            }
            let subspace = Arc::new(Subspace::new(sd.to_vec(), basis, blocks, tail));
            Some(Reduction { target: Arc::new(regression(smaller).ok()?), subspace })
        };
        self.0.get_or_init(find).as_ref()
    }
}

/// Rows by their coordinates along orthonormal directions.
struct Rows {
    /// The directions, one after the other.
    basis: Vec<f64>,
    /// Row by row.
    coordinates: Vec<f64>,
    rank: usize,
}

impl Rows {
    fn of(table: &Observations, sd: &[f64]) -> Self {
        let p = sd.len();
        let (mut basis, mut each): (Vec<f64>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        for rows in table.design().chunks(BLOCK * p) {
            let mut left: Vec<f64> = rows.iter().zip(sd.iter().cycle()).map(|(x, sd)| x * sd).collect();
            let lengths: Vec<f64> = left.chunks_exact(p).map(length).collect();
            let (count, before) = (lengths.len(), basis.len() / p);
            let mut along = vec![0.0; before * count];
            for _ in 0..2 {
                take_off(&mut left, &basis, &mut along, p);
            }
            for (at, (row, whole)) in left.chunks_exact_mut(p).zip(&lengths).enumerate() {
                let mut own = along[at * before..(at + 1) * before].to_vec();
                // Those of this block alone, unless little is left: then rounding has brought the others back.
                let mut first = before;
                own.resize(basis.len() / p, 0.0);
                let mut was = length(row);
                for pass in 0..PASSES {
                    take_off(row, &basis[first * p..], &mut own[first..], p);
                    let now = length(row);
                    let lost = now < LOST * was;
                    was = now;
                    if now <= NOTHING * whole || pass > 0 && !lost {
                        break;
                    }
                    first = if lost { 0 } else { first };
                }
                if was > NOTHING * whole {
                    basis.extend(row.iter().map(|x| x / was));
                    own.push(was);
                }
                each.push(own);
            }
        }
        let rank = basis.len() / p;
        let mut coordinates = vec![0.0; rank * each.len()];
        for (to, own) in coordinates.chunks_exact_mut(rank.max(1)).zip(&each) {
            to[..own.len()].copy_from_slice(own);
        }
        Self { basis, coordinates, rank }
    }
}

/// Takes what rows have along directions off them, and adds it to their coordinates.
fn take_off(rows: &mut [f64], directions: &[f64], along: &mut [f64], p: usize) {
    let (r, count) = (directions.len() / p, rows.len() / p);
    if r == 0 {
        return;
    }
    let mut found = vec![0.0; r * count];
    product(&mut found, false, 1.0, directions, Transpose::Yes, rows, (r, p, count));
    product(rows, true, -1.0, directions, Transpose::No, &found, (p, r, count));
    along.iter_mut().zip(&found).for_each(|(along, found)| *along += found);
}

fn length(row: &[f64]) -> f64 {
    row.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of which the last two are nearly and exactly combinations of others.
    fn dependent(p: usize) -> Observations {
        let mut x: Vec<f64> = (0..40 * p).map(|i| 3.0 * ((i as f64 * 12.9898).sin() * 43_758.545_3).fract()).collect();
        let nearly: Vec<f64> = (0..p).map(|j| x[j] - 2.0 * x[5 * p + j] + 1e-9 * (j as f64).cos()).collect();
        let exactly: Vec<f64> = (0..p).map(|j| x[7 * p + j] * 4.0).collect();
        x.extend(nearly.into_iter().chain(exactly));
        Observations::new(x, p, vec![0.0; 42]).unwrap()
    }

    #[test]
    fn directions_are_orthonormal_and_span_the_rows() {
        let p = 70;
        let (table, sd) = (dependent(p), (0..p).map(|j| 1.0 + 0.1 * j as f64).collect::<Vec<f64>>());
        let Rows { basis, coordinates, rank } = Rows::of(&table, &sd);
        assert_eq!(rank, 41);
        for (i, a) in basis.chunks_exact(p).enumerate() {
            for (j, b) in basis.chunks_exact(p).enumerate() {
                let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12, "{i} {j} {dot}");
            }
        }
        for (row, own) in table.design().chunks_exact(p).zip(coordinates.chunks_exact(rank)) {
            for j in 0..p {
                let back: f64 = own.iter().zip(basis.chunks_exact(p)).map(|(c, w)| c * w[j]).sum();
                assert!((back - row[j] * sd[j]).abs() < 1e-11, "{back} {}", row[j] * sd[j]);
            }
        }
    }

    #[test]
    fn rows_without_any_extent_have_no_directions() {
        let table = Observations::new(vec![0.0; 80], 40, vec![0.0, 1.0]).unwrap();
        assert_eq!(Rows::of(&table, &[1.0; 40]).rank, 0);
        let none = RowSpace::default();
        assert!(
            none.reduction(&table.into(), (&[1.0; 40], 1, 0), |_| -> Result<crate::Linear, Error> { panic!() })
                .is_none()
        );
    }
}
