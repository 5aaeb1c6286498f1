//! Mean, standard deviation and range of every column, in one pass over blocks of rows.
//!
//! Within a block the sum of squares is taken about the block's own mean; blocks are combined by
//! `m = m_a + (m_b - m_a) n_b/n`, `S = S_a + S_b + (m_b - m_a)^2 n_a n_b/n`, so large means cause no cancellation. Blocks have a fixed
//! number of rows counted from the start of the file: the result has the same bits however the rows are batched.

const BLOCK_ROWS: usize = 1024;

/// Running moments of the columns.
#[derive(Clone, Debug)]
pub(crate) struct ColumnMoments {
    columns: usize,
    rows: usize,
    mean: Vec<f64>,
    squares: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
    waiting: Vec<f64>,
}

/// Summary of one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub mean: f64,
    /// Standard deviation with the divisor n - 1.
    pub sd: f64,
    pub min: f64,
    pub max: f64,
}

impl ColumnMoments {
    pub fn new(columns: usize) -> Self {
        ColumnMoments {
            columns,
            rows: 0,
            mean: vec![0.0; columns],
            squares: vec![0.0; columns],
            min: vec![f64::INFINITY; columns],
            max: vec![f64::NEG_INFINITY; columns],
            waiting: Vec::new(),
        }
    }

    /// Adds whole rows.
    pub fn add(&mut self, mut values: &[f64]) {
        let block = BLOCK_ROWS * self.columns;
        if !self.waiting.is_empty() {
            let (first, rest) = values.split_at(values.len().min(block - self.waiting.len()));
            self.waiting.extend_from_slice(first);
            values = rest;
            if self.waiting.len() < block {
                return;
            }
            let mut full = std::mem::take(&mut self.waiting);
            self.add_block(&full);
            full.clear();
            self.waiting = full;
        }
        let mut blocks = values.chunks_exact(block);
        blocks.by_ref().for_each(|block| self.add_block(block));
        self.waiting.extend_from_slice(blocks.remainder());
    }

    /// The summary of each column.
    pub fn finish(mut self) -> Vec<Summary> {
        let rest = std::mem::take(&mut self.waiting);
        self.add_block(&rest);
        let spread = |squares: f64| if self.rows > 1 { (squares / (self.rows - 1) as f64).sqrt() } else { 0.0 };
        let column =
            |j: usize| Summary { mean: self.mean[j], sd: spread(self.squares[j]), min: self.min[j], max: self.max[j] };
        (0..self.columns).map(column).collect()
    }

    fn add_block(&mut self, block: &[f64]) {
        let rows = block.len() / self.columns;
        if rows == 0 {
            return;
        }
        let mut mean = vec![0.0; self.columns];
        for row in block.chunks_exact(self.columns) {
            for (j, value) in row.iter().enumerate() {
                // Dividing each value first cannot overflow where the mean itself does not.
                mean[j] += value / rows as f64;
                self.min[j] = self.min[j].min(*value);
                self.max[j] = self.max[j].max(*value);
            }
        }
        let mut squares = vec![0.0; self.columns];
        for row in block.chunks_exact(self.columns) {
            for (j, value) in row.iter().enumerate() {
                squares[j] += (value - mean[j]).powi(2);
            }
        }
        let (before, after) = (self.rows as f64, (self.rows + rows) as f64);
        for j in 0..self.columns {
            let step = mean[j] - self.mean[j];
            self.mean[j] += step * (rows as f64 / after);
            self.squares[j] += squares[j] + step * step * (before * rows as f64 / after);
        }
        self.rows += rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_give_the_same_bits_as_the_whole() {
        let values: Vec<f64> = (0..3 * 5000).map(|i| (i as f64 * 0.7).sin() + 1e6).collect();
        let mut whole = ColumnMoments::new(3);
        whole.add(&values);
        let mut pieces = ColumnMoments::new(3);
        values.chunks(3 * 777).for_each(|piece| pieces.add(piece));
        assert_eq!(whole.finish(), pieces.finish());
    }

    #[test]
    fn a_large_mean_does_not_hide_the_spread() {
        let values: Vec<f64> = (0..10_000).map(|i| 1e9 + f64::from(i % 2)).collect();
        let mut moments = ColumnMoments::new(1);
        moments.add(&values);
        let got = moments.finish()[0];
        assert!((got.mean - (1e9 + 0.5)).abs() < 1e-5, "{got:?}");
        // Half of the values 0.5 above, half below: sd^2 = 0.25 n/(n-1).
        assert!((got.sd - (0.25f64 * 10_000.0 / 9_999.0).sqrt()).abs() < 1e-9, "{got:?}");
        assert_eq!((got.min, got.max), (1e9, 1e9 + 1.0));
    }
}
