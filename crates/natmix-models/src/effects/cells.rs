//! Cells: the rows that belong to the same level of every grouping. In a large table they stand next to each other.
//!
//! Within a cell the predictor is linear in very few quantities: a shift `s_0` that all of its rows share, and slopes `s_i` of those
//! columns that vary within cells, where a column and a multiple of it count once:
//! `eta_r = offset_r + s_0 + sum_i (w_ri - mean of w_i) s_i`.

use super::data::EffectsData;
use super::model::EffectsModel;
use std::ops::Range;

/// Fewest rows of a table that is sorted: a smaller one takes no time as it is.
pub(super) const LARGE: usize = 20_000;
/// Error of a multiple of a column, relative to its largest entry, up to which it is rounding.
const ROUNDING: f64 = 1e-12;

impl EffectsData {
    /// Sorts the rows of a large table by their levels. Returns where each of them was, if there was anything to sort.
    pub(super) fn sort_by_levels(&mut self) -> Option<Vec<u32>> {
        let rows = self.rows();
        if rows < LARGE || self.groupings.is_empty() || u32::try_from(rows).is_err() {
            return None;
        }
        let levels = |row: u32| self.groupings.iter().map(move |grouping| grouping.level_of_row[row as usize]);
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_by(|a, b| levels(*a).cmp(levels(*b)));
        sort(&mut self.y, 1, &order);
        sort(&mut self.x, self.names.len(), &order);
        for column in [&mut self.trials, &mut self.offset, &mut self.weights].into_iter().flatten() {
            sort(column, 1, &order);
        }
        self.event.iter_mut().for_each(|event| sort(event, 1, &order));
        for grouping in &mut self.groupings {
            sort(&mut grouping.level_of_row, 1, &order);
            sort(&mut grouping.z, grouping.columns.len(), &order);
        }
        Some(order)
    }
}

fn sort<T: Copy>(values: &mut Vec<T>, width: usize, order: &[u32]) {
    let row = |row: &u32| values[*row as usize * width..(*row as usize + 1) * width].iter().copied();
    *values = order.iter().flat_map(row).collect();
}

/// A column that has a coefficient, or an effect for each level of a grouping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// The grouping, if effects vary.
    pub group: Option<usize>,
    /// Which of the columns with a coefficient, or of those of the grouping.
    pub at: usize,
    /// What it is a multiple of, with the factor, but for a constant within each cell.
    pub direction: Option<(usize, f64)>,
}

impl Column {
    pub fn value(&self, model: &EffectsModel, row: usize) -> f64 {
        match self.group {
            None => model.x[row * model.priors.len() + self.at],
            Some(group) => model.groups[group].z[row * model.groups[group].q + self.at],
        }
    }
}

/// The cells of a table, and what varies within them.
#[derive(Debug)]
pub(super) struct Cells {
    /// Rows of each cell.
    pub rows: Vec<Range<usize>>,
    /// All columns.
    pub columns: Vec<Column>,
    /// A column for each direction; those whose slopes differ from cell to cell come first.
    pub directions: Vec<Column>,
    /// How many these are.
    pub varying: usize,
}

impl Cells {
    /// The cells of a model whose rows are sorted; none if more than so many directions vary within them.
    pub fn of(model: &EffectsModel, most: usize) -> Option<Self> {
        let same = |a: usize, b: usize| model.groups.iter().all(|group| group.level_of_row[a] == group.level_of_row[b]);
        let mut rows = Vec::new();
        let mut first = 0;
        for row in 1..=model.rows {
            if row == model.rows || !same(first, row) {
                rows.push(first..row);
                first = row;
            }
        }
        let of_group = |(group, q): (usize, usize)| (0..q).map(move |at| (Some(group), at));
        let varying = model.groups.iter().map(|group| group.q).enumerate().flat_map(of_group);
        let all = varying.chain((0..model.priors.len()).map(|at| (None, at)));
        let mut cells = Self { rows, columns: Vec::new(), directions: Vec::new(), varying: 0 };
        for (group, at) in all {
            let column = Column { group, at, direction: None };
            let direction = cells.direction_of(&column, model);
            if direction.is_some_and(|(direction, _)| direction == cells.directions.len()) {
                if cells.directions.len() == most {
                    return None;
                }
                cells.directions.push(column);
                cells.varying += usize::from(group.is_some());
            }
            cells.columns.push(Column { direction, ..column });
        }
        Some(cells)
    }

    /// The direction of a column, which may be a new one, with its factor; none if the column is constant within all cells.
    fn direction_of(&self, column: &Column, model: &EffectsModel) -> Option<(usize, f64)> {
        let value = |row: usize| column.value(model, row);
        let constant = |rows: &Range<usize>| rows.clone().all(|row| value(row) == value(rows.start));
        if self.rows.iter().all(constant) {
            return None;
        }
        let multiple = |known: &Column| {
            let of_known = |row: usize| known.value(model, row);
            let by_value = |a: &usize, b: &usize| of_known(*a).total_cmp(&of_known(*b));
            let (low, high) = ((0..model.rows).min_by(by_value)?, (0..model.rows).max_by(by_value)?);
            let factor = (value(high) - value(low)) / (of_known(high) - of_known(low));
            let most = value(low).abs().max(value(high).abs());
            let rest = |row: usize| value(row) - value(low) - factor * (of_known(row) - of_known(low));
            (0..model.rows).all(|row| rest(row).abs() <= ROUNDING * most).then_some(factor)
        };
        let known = self.directions.iter().enumerate().find_map(|(at, known)| Some((at, multiple(known)?)));
        Some(known.unwrap_or((self.directions.len(), 1.0)))
    }

    /// Means of the directions over the rows of a cell.
    pub fn means(&self, model: &EffectsModel, cell: usize) -> Vec<f64> {
        self.directions.iter().map(|direction| mean(direction, model, &self.rows[cell])).collect()
    }
}

/// Mean of a column over some rows.
pub(super) fn mean(column: &Column, model: &EffectsModel, rows: &Range<usize>) -> f64 {
    let count = rows.len() as f64;
    rows.clone().map(|row| column.value(model, row) / count).sum()
}
