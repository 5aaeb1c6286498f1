//! Values and gradients, eight points at a time: row after row, so that the data are read once for all of them.
//!
//! An evaluation has three passes for each group of points: priors, effects and what rows need; sums over the rows; and what follows from
//! these sums. Sums over all rows are made section by section ([`Sections`]), so that processes can share the rows.

use super::auxiliary::At;
use super::lanes::{LANES, Lane, add, add_product, lane, lane_mut};
use super::likelihood::{Terms, WORK, add_block, add_sums, factor_of, lanes_of};
use super::model::EffectsModel;
use super::series::{Cell, Series};
use super::sharing::Picked;
use crate::ranks::{Request, Turn};
use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows, TargetError};
use pulp::{Arch, Simd, WithSimd};

/// Rows whose predictors are computed before the likelihood is.
const ROWS: usize = 64;

/// What the rows read of one group of points, and what they do not need: runs of lanes.
struct PointRoom<'a> {
    z: &'a mut [f64],
    /// Slopes of the priors; at the end the gradient but for the coefficients.
    grad: &'a mut [f64],
    /// Effects of all groups.
    effects: &'a mut [f64],
    /// Standard deviations and factors of all groups.
    factors: &'a mut [f64],
    params: &'a mut [f64],
}

/// Sums over rows for one group of points: runs of lanes.
struct RowSums<'a> {
    value: &'a mut [f64],
    sums: &'a mut [f64],
    by_coefficients: &'a mut [f64],
    by_effects: &'a mut [f64],
}

/// Priors, and what rows need: parameters of the family and effects of the groups.
struct Forward<'a> {
    model: &'a EffectsModel,
    room: PointRoom<'a>,
    sums: RowSums<'a>,
}

impl WithSimd for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { model, room, sums } = self;
        let mut value = [0.0; LANES];
        for (j, prior) in model.priors.iter().enumerate() {
            for (c, value) in value.iter_mut().enumerate() {
                let [log, slope, _] = prior.at(room.z[j * LANES + c]);
                *value += log;
                sums.by_coefficients[j * LANES + c] = slope;
            }
        }
        model.auxiliary.prepare(&room.z[model.priors.len() * LANES..], room.params);
        let (mut factors, mut effects) = (room.factors, room.effects);
        for group in &model.groups {
            let (factor, of_group);
            (factor, factors) = factors.split_at_mut(group.factor_len());
            (of_group, effects) = effects.split_at_mut(group.shape.effects() * LANES);
            let of_coordinates = group.first * LANES..(group.first + group.shape.dim()) * LANES;
            let grad = &mut room.grad[of_coordinates.clone()];
            group.forward((room.z, &room.z[of_coordinates]), factor, of_group, &mut value, grad);
        }
        *lane_mut(sums.value, 0) = value;
        sums.by_effects.fill(0.0);
        sums.sums.fill(0.0);
    }
}

/// Adds rows to the sums of one group of points.
struct OfRows<'a> {
    model: &'a EffectsModel,
    rows: Picked<'a>,
    scale: f64,
    want_grad: bool,
    z: &'a [f64],
    effects: &'a [f64],
    params: &'a [f64],
    sums: RowSums<'a>,
    eta: &'a mut [f64],
    work: &'a mut [f64],
    /// What stands for all rows of a large table, with room for powers and for what some points keep.
    series: Option<&'a Series>,
    powers: &'a mut [f64],
    kept: &'a mut [f64],
}

impl WithSimd for OfRows<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let mut value = *lane(self.sums.value, 0);
        match (self.series, self.rows) {
            (Some(series), _) => self.add_cells(series, &mut value),
            (None, Picked::Run { first, count }) => self.add_rows(count, &mut value, |i| first + i),
            (None, Picked::Some(subset)) => self.add_rows(subset.len(), &mut value, |i| subset[i] as usize),
        }
        *lane_mut(self.sums.value, 0) = value;
    }
}

impl OfRows<'_> {
    /// Adds cell after cell: by its series where a point is near enough, and row by row where it is not.
    #[inline(always)]
    fn add_cells(&mut self, series: &Series, value: &mut Lane) {
        for cell in &series.cells {
            let (distances, inside) = series.distances(cell, self.z, self.effects);
            let (some, all) = (inside.contains(&true), !inside.contains(&false));
            if !all {
                if some {
                    self.touched(series, cell, value, |kept, own| *kept = *own);
                }
                self.add_rows(cell.rows.len(), value, |i| cell.rows.start + i);
                // A point gets the same number whatever points it comes with.
                let back = |kept: &mut Lane, own: &mut Lane| {
                    for c in 0..LANES {
                        own[c] = if inside[c] { kept[c] } else { own[c] };
                    }
                };
                if some {
                    self.touched(series, cell, value, back);
                }
            }
            if some {
                let mut sums = series.sums(cell, &distances, self.powers);
                sums.keep(&inside);
                let factor = factor_of(self.model.base.family, self.params);
                add_product(value, &factor, &sums.value);
                add_sums(self.model.base.family, &factor, &sums.value, self.sums.sums);
                for column in (0..series.columns()).filter(|_| self.want_grad) {
                    let slope = sums.slope(series, cell, column);
                    let into = match series.touched(cell, column) {
                        (false, at) => lane_mut(self.sums.by_coefficients, at),
                        (true, at) => lane_mut(self.sums.by_effects, at),
                    };
                    add_product(into, &factor, &slope);
                }
            }
        }
    }

    /// Calls `f` with everything that the rows of a cell add to, and with room to keep it.
    #[inline(always)]
    fn touched(&mut self, series: &Series, cell: &Cell, value: &mut Lane, f: impl Fn(&mut Lane, &mut Lane)) {
        let mut kept = self.kept.as_chunks_mut::<LANES>().0.iter_mut();
        let sums = self.sums.sums.as_chunks_mut::<LANES>().0;
        for (own, kept) in std::iter::once(value).chain(sums).zip(&mut kept) {
            f(kept, own);
        }
        for (column, kept) in (0..series.columns()).zip(kept) {
            match series.touched(cell, column) {
                (false, at) => f(kept, lane_mut(self.sums.by_coefficients, at)),
                (true, at) => f(kept, lane_mut(self.sums.by_effects, at)),
            }
        }
    }

    #[inline(always)]
    fn add_rows(&mut self, count: usize, value: &mut Lane, index: impl Fn(usize) -> usize + Copy) {
        for first in (0..count).step_by(ROWS) {
            let index = |i: usize| index(first + i);
            let rows = ROWS.min(count - first);
            self.predictors(rows, index);
            let mut terms = Terms {
                outcomes: &self.model.outcomes,
                scale: self.scale,
                params: self.params,
                sums: self.sums.sums,
                value,
                work: self.work,
            };
            add_block(self.model.base.family, &mut terms, &mut self.eta[..rows * LANES], index);
            if self.want_grad {
                self.slopes(rows, index);
            }
        }
    }

    #[inline(always)]
    fn predictors(&mut self, rows: usize, index: impl Fn(usize) -> usize) {
        let model = self.model;
        let p = model.priors.len();
        for (i, eta) in self.eta[..rows * LANES].as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let row = index(i);
            let mut sum = [model.offset.as_ref().map_or(0.0, |offset| offset[row]); LANES];
            for (j, x) in model.x[row * p..(row + 1) * p].iter().enumerate() {
                add(&mut sum, *x, lane(self.z, j));
            }
            let mut first = 0;
            for group in &model.groups {
                let at = first + group.level_of_row[row] as usize * group.q;
                for (k, z) in group.z[row * group.q..(row + 1) * group.q].iter().enumerate() {
                    add(&mut sum, *z, lane(self.effects, at + k));
                }
                first += group.shape.effects();
            }
            *eta = sum;
        }
    }

    /// Adds what the slopes in the predictors say about coefficients and effects.
    #[inline(always)]
    fn slopes(&mut self, rows: usize, index: impl Fn(usize) -> usize) {
        let model = self.model;
        let p = model.priors.len();
        for (i, slope) in self.eta[..rows * LANES].as_chunks::<LANES>().0.iter().enumerate() {
            let row = index(i);
            for (j, x) in model.x[row * p..(row + 1) * p].iter().enumerate() {
                add(lane_mut(self.sums.by_coefficients, j), *x, slope);
            }
            let mut first = 0;
            for group in &model.groups {
                let at = first + group.level_of_row[row] as usize * group.q;
                for (k, z) in group.z[row * group.q..(row + 1) * group.q].iter().enumerate() {
                    add(lane_mut(self.sums.by_effects, at + k), *z, slope);
                }
                first += group.shape.effects();
            }
        }
    }
}

/// Values and gradients, from the sums over rows.
struct Backward<'a> {
    model: &'a EffectsModel,
    scale: f64,
    totals: &'a [f64],
    want_grad: bool,
    room: PointRoom<'a>,
    sums: RowSums<'a>,
}

impl WithSimd for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { model, scale, totals, want_grad, room, sums } = self;
        let p = model.priors.len();
        let end = p + model.auxiliary.dim();
        let mut value = *lane(sums.value, 0);
        let at = At { z: &room.z[p * LANES..end * LANES], totals, scale, params: room.params, sums: sums.sums };
        model.auxiliary.finish(&at, &mut value, &mut room.grad[p * LANES..end * LANES]);
        *lane_mut(sums.value, 0) = value;
        if !want_grad {
            return;
        }
        room.grad[..p * LANES].copy_from_slice(sums.by_coefficients);
        let (mut factors, mut first) = (room.factors, 0);
        for group in &model.groups {
            let factor;
            (factor, factors) = factors.split_at_mut(group.factor_len());
            let of_group = first * LANES..(first + group.shape.effects()) * LANES;
            first += group.shape.effects();
            let (by_coefficients, grad) = room.grad.split_at_mut(group.first * LANES);
            group.backward(
                &room.z[group.first * LANES..(group.first + group.shape.dim()) * LANES],
                factor,
                (&room.effects[of_group.clone()], &sums.by_effects[of_group]),
                (by_coefficients, &mut grad[..group.shape.dim() * LANES]),
            );
        }
    }
}

/// Buffers for some groups of points: each has a part of the same length for every group.
struct Buffers {
    groups: usize,
    z: Vec<f64>,
    grad: Vec<f64>,
    effects: Vec<f64>,
    factors: Vec<f64>,
    params: Vec<f64>,
}

/// The part of group `g`.
fn part(buffer: &mut [f64], g: usize, groups: usize) -> &mut [f64] {
    let len = buffer.len() / groups;
    &mut buffer[g * len..][..len]
}

fn sums_of<'a>(sums: &'a mut [&mut [f64]; 4], g: usize, groups: usize) -> RowSums<'a> {
    let [value, sums, by_coefficients, by_effects] = sums.each_mut().map(|sums| part(sums, g, groups));
    RowSums { value, sums, by_coefficients, by_effects }
}

impl Buffers {
    fn room(&mut self, g: usize) -> PointRoom<'_> {
        let Self { groups, z, grad, effects, factors, params, .. } = self;
        let [z, grad, effects, factors, params] =
            [z, grad, effects, factors, params].map(|buffer| part(buffer, g, *groups));
        PointRoom { z, grad, effects, factors, params }
    }
}

impl EffectsModel {
    /// Values, gradients and curvature of all points.
    pub(super) fn evaluate(
        &self,
        rows: Rows<'_>,
        points: Points<'_>,
        mut out: EvalOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        if points.is_empty() {
            return Ok(());
        }
        let turn = match (&self.sharing, rows) {
            (None, _) => None,
            (Some(sharing), Rows::All) => Some(sharing.ask(Request::of(points, &out), scratch)?),
            (Some(_), Rows::Subset(_)) => return Err("processes that share the rows have no minibatches".into()),
        };
        let mut of_subset = Vec::new();
        let (mut scale, mut totals) = (1.0, self.auxiliary.totals());
        if let Rows::Subset(subset) = rows {
            scale = self.rows as f64 / subset.len() as f64;
            of_subset = scratch.take(self.auxiliary.totals_len());
            let subset = subset.iter().map(|row| *row as usize);
            self.auxiliary.add_totals(&mut of_subset, &self.outcomes, subset);
            totals = &of_subset;
        }
        if let Some(request) = &mut out.curv {
            self.sum_hessians((rows, turn.as_ref()), (scale, totals), points, request, scratch)?;
        }
        let result = self.evaluate_points((rows, turn.as_ref()), (scale, totals), points, out, scratch);
        scratch.give(of_subset);
        result
    }

    fn evaluate_points(
        &self,
        (rows, turn): (Rows<'_>, Option<&Turn<'_>>),
        (scale, totals): (f64, &[f64]),
        points: Points<'_>,
        mut out: EvalOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        let (d, p, want_grad) = (points.dim(), self.priors.len(), out.grad.is_some());
        let effects = self.effects();
        let (params, sums) = lanes_of(self.base.family);
        // Processes that share the rows exchange messages for all points at once.
        let groups = if turn.is_some() { points.len().div_ceil(LANES) } else { 1 };
        let mut take = |numbers: usize| scratch.take_used(groups * numbers);
        let factors = self.groups.iter().map(|group| group.factor_len()).sum::<usize>();
        let [mut value, mut sums, mut by_coefficients, mut by_effects] =
            [1, sums, p, effects].map(|lanes| take(lanes * LANES));
        let mut buffers = Buffers {
            groups,
            z: take(d * LANES),
            grad: take(d * LANES),
            effects: take(effects * LANES),
            factors: take(factors),
            params: take(params * LANES),
        };
        let (mut eta, mut work) = (scratch.take_used(ROWS * LANES), scratch.take_used(WORK * ROWS * LANES));
        let series = self.series.as_deref().filter(|_| matches!(rows, Rows::All));
        let mut powers = scratch.take_used(series.map_or(0, |series| series.room()) * LANES);
        let mut kept = scratch.take_used(series.map_or(0, |series| 1 + sums.len() / LANES + series.columns()) * LANES);
        for first in (0..points.len()).step_by(groups * LANES) {
            let mut sums = [&mut value[..], &mut sums, &mut by_coefficients, &mut by_effects];
            for g in 0..groups {
                let (first, room) = (first + g * LANES, buffers.room(g));
                for c in 0..LANES {
                    // The last group is filled up with its last point.
                    let point = points.point((first + c).min(points.len() - 1));
                    room.z.iter_mut().skip(c).step_by(LANES).zip(point).for_each(|(z, x)| *z = *x);
                }
                Arch::new().dispatch(Forward { model: self, room, sums: sums_of(&mut sums, g, groups) });
            }
            let totals_of_rows = sums.each_mut().map(|sums| &mut **sums);
            let mut of_rows = |rows: Picked<'_>, mut sums: [&mut [f64]; 4]| {
                for g in 0..groups {
                    let PointRoom { z, effects, params, .. } = buffers.room(g);
                    Arch::new().dispatch(OfRows {
                        model: self,
                        rows,
                        scale,
                        want_grad,
                        z,
                        effects,
                        params,
                        sums: sums_of(&mut sums, g, groups),
                        eta: &mut eta,
                        work: &mut work,
                        series,
                        powers: &mut powers,
                        kept: &mut kept,
                    });
                }
            };
            match series {
                // It stands for all rows at once.
                Some(_) => of_rows(Picked::Run { first: 0, count: self.rows }, totals_of_rows),
                None => self.sum_rows((rows, turn), totals_of_rows, scratch, |rows, sums, _| of_rows(rows, sums))?,
            }
            if turn.is_some_and(|turn| !turn.leads()) {
                break;
            }
            for g in 0..groups {
                let (room, sums_of_rows) = (buffers.room(g), sums_of(&mut sums, g, groups));
                Arch::new().dispatch(Backward { model: self, scale, totals, want_grad, room, sums: sums_of_rows });
                let (value, grad) = (lane(part(sums[0], g, groups), 0), part(&mut buffers.grad, g, groups));
                let first = first + g * LANES;
                for c in 0..LANES.min(points.len() - first) {
                    // Vectorised functions may lose a NaN.
                    let usable = value[c] < f64::INFINITY && points.point(first + c).iter().all(|x| x.is_finite());
                    out.log_p[first + c] = if usable { value[c] } else { f64::NAN };
                    if let Some(out) = &mut out.grad {
                        let of_point = grad.iter().skip(c).step_by(LANES);
                        out[(first + c) * d..(first + c + 1) * d].iter_mut().zip(of_point).for_each(|(g, x)| *g = *x);
                    }
                }
            }
        }
        let Buffers { z, grad, effects, factors, params, .. } = buffers;
        for buffer in
            [value, sums, by_coefficients, by_effects, z, grad, effects, factors, params, eta, work, powers, kept]
        {
            scratch.give(buffer);
        }
        Ok(())
    }
}
