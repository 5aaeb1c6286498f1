//! Values and gradients, eight points at a time: row after row, so that the data are read once for all of them.

use super::auxiliary::At;
use super::lanes::{LANES, Lane, add, add_product, lane, lane_mut};
use super::likelihood::{Terms, WORK, add_block, add_sums, factor_of, lanes_of};
use super::model::EffectsModel;
use super::series::{Cell, Series};
use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows};
use pulp::{Arch, Simd, WithSimd};

/// Rows whose predictors are computed before the likelihood is.
const ROWS: usize = 64;

/// Everything about one group of points. The buffers are runs of lanes.
struct Pass<'a> {
    model: &'a EffectsModel,
    rows: Rows<'a>,
    scale: f64,
    totals: &'a [f64],
    want_grad: bool,
    z: &'a [f64],
    grad: &'a mut [f64],
    value: &'a mut Lane,
    /// Effects of all groups, and the gradient in them.
    effects: &'a mut [f64],
    by_effects: &'a mut [f64],
    /// Standard deviations and factors of all groups.
    factors: &'a mut [f64],
    params: &'a mut [f64],
    sums: &'a mut [f64],
    eta: &'a mut [f64],
    work: &'a mut [f64],
    /// For the series of a large table: powers, and what some points keep.
    powers: &'a mut [f64],
    kept: &'a mut [f64],
}

impl WithSimd for Pass<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let (model, p) = (self.model, self.model.priors.len());
        self.forward();
        match self.rows {
            Rows::All => match &model.series {
                Some(series) => self.add_cells(series),
                None => self.add_rows(model.rows, |i| i),
            },
            Rows::Subset(subset) => self.add_rows(subset.len(), |i| subset[i] as usize),
        }
        let end = p + model.auxiliary.dim();
        let at = At {
            z: &self.z[p * LANES..end * LANES],
            totals: self.totals,
            scale: self.scale,
            params: self.params,
            sums: self.sums,
        };
        model.auxiliary.finish(&at, self.value, &mut self.grad[p * LANES..end * LANES]);
        if self.want_grad {
            self.backward();
        }
    }
}

impl Pass<'_> {
    /// Priors, and what rows need: parameters of the family and effects of the groups.
    #[inline(always)]
    fn forward(&mut self) {
        let model = self.model;
        *self.value = [0.0; LANES];
        for (j, prior) in model.priors.iter().enumerate() {
            for c in 0..LANES {
                let [log, slope, _] = prior.at(self.z[j * LANES + c]);
                self.value[c] += log;
                self.grad[j * LANES + c] = slope;
            }
        }
        model.auxiliary.prepare(&self.z[model.priors.len() * LANES..], self.params);
        let (mut factors, mut effects) = (&mut *self.factors, &mut *self.effects);
        for group in &model.groups {
            let (factor, of_group);
            (factor, factors) = factors.split_at_mut(group.factor_len());
            (of_group, effects) = effects.split_at_mut(group.shape.effects() * LANES);
            let of_coordinates = group.first * LANES..(group.first + group.shape.dim()) * LANES;
            let grad = &mut self.grad[of_coordinates.clone()];
            group.forward((self.z, &self.z[of_coordinates]), factor, of_group, self.value, grad);
        }
        self.by_effects.fill(0.0);
        self.sums.fill(0.0);
    }

    /// Adds cell after cell: by its series where a point is near enough, and row by row where it is not.
    #[inline(always)]
    fn add_cells(&mut self, series: &Series) {
        for cell in &series.cells {
            let (distances, inside) = series.distances(cell, self.z, self.effects);
            let (some, all) = (inside.contains(&true), !inside.contains(&false));
            if !all {
                if some {
                    self.touched(series, cell, |kept, own| *kept = *own);
                }
                self.add_rows(cell.rows.len(), |i| cell.rows.start + i);
                // A point gets the same number whatever points it comes with.
                let back = |kept: &mut Lane, own: &mut Lane| {
                    for c in 0..LANES {
                        own[c] = if inside[c] { kept[c] } else { own[c] };
                    }
                };
                if some {
                    self.touched(series, cell, back);
                }
            }
            if some {
                let mut sums = series.sums(cell, &distances, self.powers);
                sums.keep(&inside);
                let factor = factor_of(self.model.base.family, self.params);
                add_product(self.value, &factor, &sums.value);
                add_sums(self.model.base.family, &factor, &sums.value, self.sums);
                for column in (0..series.columns()).filter(|_| self.want_grad) {
                    let slope = sums.slope(series, cell, column);
                    let into = match series.touched(cell, column) {
                        (false, at) => lane_mut(self.grad, at),
                        (true, at) => lane_mut(self.by_effects, at),
                    };
                    add_product(into, &factor, &slope);
                }
            }
        }
    }

    /// Calls `f` with everything that the rows of a cell add to, and with room to keep it.
    #[inline(always)]
    fn touched(&mut self, series: &Series, cell: &Cell, f: impl Fn(&mut Lane, &mut Lane)) {
        let mut kept = self.kept.as_chunks_mut::<LANES>().0.iter_mut();
        let sums = self.sums.as_chunks_mut::<LANES>().0;
        for (own, kept) in std::iter::once(&mut *self.value).chain(sums).zip(&mut kept) {
            f(kept, own);
        }
        for (column, kept) in (0..series.columns()).zip(kept) {
            match series.touched(cell, column) {
                (false, at) => f(kept, lane_mut(self.grad, at)),
                (true, at) => f(kept, lane_mut(self.by_effects, at)),
            }
        }
    }

    #[inline(always)]
    fn add_rows(&mut self, count: usize, index: impl Fn(usize) -> usize + Copy) {
        for first in (0..count).step_by(ROWS) {
            let index = |i: usize| index(first + i);
            let rows = ROWS.min(count - first);
            self.predictors(rows, index);
            let mut terms = Terms {
                outcomes: &self.model.outcomes,
                scale: self.scale,
                params: self.params,
                sums: self.sums,
                value: self.value,
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
                add(lane_mut(self.grad, j), *x, slope);
            }
            let mut first = 0;
            for group in &model.groups {
                let at = first + group.level_of_row[row] as usize * group.q;
                for (k, z) in group.z[row * group.q..(row + 1) * group.q].iter().enumerate() {
                    add(lane_mut(self.by_effects, at + k), *z, slope);
                }
                first += group.shape.effects();
            }
        }
    }

    #[inline(always)]
    fn backward(&mut self) {
        let (mut factors, mut first) = (&mut *self.factors, 0);
        for group in &self.model.groups {
            let factor;
            (factor, factors) = factors.split_at_mut(group.factor_len());
            let of_group = first * LANES..(first + group.shape.effects()) * LANES;
            first += group.shape.effects();
            let (by_coefficients, grad) = self.grad.split_at_mut(group.first * LANES);
            group.backward(
                &self.z[group.first * LANES..(group.first + group.shape.dim()) * LANES],
                factor,
                (&self.effects[of_group.clone()], &self.by_effects[of_group]),
                (by_coefficients, &mut grad[..group.shape.dim() * LANES]),
            );
        }
    }
}

impl EffectsModel {
    /// Values and gradients of all points.
    pub(super) fn evaluate(&self, rows: Rows<'_>, points: Points<'_>, mut out: EvalOut<'_>, scratch: &mut Scratch) {
        let (d, effects) = (points.dim(), self.groups.iter().map(|group| group.shape.effects()).sum::<usize>());
        let (params, sums) = lanes_of(self.base.family);
        let mut z = scratch.take_used(d * LANES);
        let mut grad = scratch.take_used(d * LANES);
        let mut of_effects = scratch.take_used(effects * LANES);
        let mut by_effects = scratch.take_used(effects * LANES);
        let mut factors = scratch.take_used(self.groups.iter().map(|group| group.factor_len()).sum());
        let mut params = scratch.take_used(params * LANES);
        let mut sums = scratch.take_used(sums * LANES);
        let mut eta = scratch.take_used(ROWS * LANES);
        let mut work = scratch.take_used(WORK * ROWS * LANES);
        let series = self.series.as_ref().filter(|_| matches!(rows, Rows::All));
        let mut powers = scratch.take_used(series.map_or(0, |series| series.room()) * LANES);
        let mut kept = scratch.take_used(series.map_or(0, |series| 1 + sums.len() / LANES + series.columns()) * LANES);
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
            self.sum_hessians(rows, (scale, totals), points, request, scratch);
        }
        for first in (0..points.len()).step_by(LANES) {
            // The last group is filled up with its last point.
            let count = LANES.min(points.len() - first);
            for c in 0..LANES {
                let point = points.point(first + c.min(count - 1));
                z.iter_mut().skip(c).step_by(LANES).zip(point).for_each(|(z, x)| *z = *x);
            }
            let mut value = [0.0; LANES];
            Arch::new().dispatch(Pass {
                model: self,
                rows,
                scale,
                totals,
                want_grad: out.grad.is_some(),
                z: &z,
                grad: &mut grad,
                value: &mut value,
                effects: &mut of_effects,
                by_effects: &mut by_effects,
                factors: &mut factors,
                params: &mut params,
                sums: &mut sums,
                eta: &mut eta,
                work: &mut work,
                powers: &mut powers,
                kept: &mut kept,
            });
            for c in 0..count {
                // Vectorised functions may lose a NaN.
                let usable = value[c] < f64::INFINITY && points.point(first + c).iter().all(|x| x.is_finite());
                out.log_p[first + c] = if usable { value[c] } else { f64::NAN };
                if let Some(out) = &mut out.grad {
                    let of_point = grad.iter().skip(c).step_by(LANES);
                    out[(first + c) * d..(first + c + 1) * d].iter_mut().zip(of_point).for_each(|(g, x)| *g = *x);
                }
            }
        }
        for buffer in [z, grad, of_effects, by_effects, factors, params, sums, eta, work, powers, kept, of_subset] {
            scratch.give(buffer);
        }
    }
}
