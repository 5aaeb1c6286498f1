//! Weighted sums of exact Hessians: row by row, where a row touches few coordinates.
//!
//! With `J_r` the slope of the predictor in the coordinates, `l` the log likelihood of a row and `a` the parameters beside the predictor,
//! a row adds `l'' J_r J_r'` and the derivatives in `a`. Effects are products of standard deviations, the factor of the correlations
//! and standardised coordinates, so that `sum_r l' hess eta_r` is left; it needs only the slopes summed by level.

use super::auxiliary::over_exp_m1;
use super::family::Family;
use super::groups::Group;
use super::model::EffectsModel;
use super::second_derivatives::{Second, at_row, logistic};
use natmix::Scratch;
use natmix::target::{CurvatureShape, CurvatureSums, Points, Rows};

/// A Hessian under construction: whole (its lower and upper triangle) or its diagonal.
struct Hessian<'a> {
    entries: &'a mut [f64],
    shape: CurvatureShape,
    dim: usize,
}

impl Hessian<'_> {
    /// Adds `x` at `(i, j)`, and at `(j, i)` if that is another entry.
    fn add(&mut self, i: usize, j: usize, x: f64) {
        match self.shape {
            CurvatureShape::Diag if i == j => self.entries[i] += x,
            CurvatureShape::Diag => {}
            CurvatureShape::Full => {
                self.entries[i * self.dim + j] += x;
                if i != j {
                    self.entries[j * self.dim + i] += x;
                }
            }
        }
    }

    /// Adds `factor * v v'` for a vector with few entries, each of which stands for another coordinate.
    fn add_square(&mut self, factor: f64, v: &[(usize, f64)]) {
        for (at, (i, x)) in v.iter().enumerate() {
            self.add(*i, *i, factor * x * x);
            if self.shape == CurvatureShape::Full {
                v[..at].iter().for_each(|(j, y)| self.add(*i, *j, factor * x * y));
            }
        }
    }
}

/// A group at one point.
struct GroupAt<'a> {
    group: &'a Group,
    /// The coordinates of the group.
    z: &'a [f64],
    effects: Vec<f64>,
    /// Sums over rows of slopes times columns, level by level.
    slopes: Vec<f64>,
}

impl GroupAt<'_> {
    fn is_correlated(&self) -> bool {
        self.group.correlations() > 0
    }

    /// Entry `(k, j)` of the factor, differentiated in each partial correlation of row `k` that `by` names.
    fn factor(&self, k: usize, j: usize, by: &[usize]) -> f64 {
        if !self.is_correlated() {
            return f64::from(u8::from(k == j && by.is_empty()));
        }
        let y = |m: usize| self.z[self.group.q + k * k.saturating_sub(1) / 2 + m];
        if by.iter().any(|m| *m > j) {
            return 0.0;
        }
        let last = if j < k { j + 1 } else { k };
        (0..last)
            .map(|m| {
                let (r, c) = (y(m).tanh(), 1.0 / y(m).cosh());
                match (m == j, by.iter().filter(|by| **by == m).count()) {
                    (true, 0) => r,
                    (true, 1) => c * c,
                    (true, _) => -2.0 * r * c * c,
                    (false, 0) => c,
                    (false, 1) => -r * c,
                    (false, _) => c * (1.0 - 2.0 * c * c),
                }
            })
            .product()
    }

    /// Row `k` of the (differentiated) factor times the coordinates of a level.
    fn factor_times(&self, k: usize, v: &[f64], by: &[usize]) -> f64 {
        (0..=k).map(|j| self.factor(k, j, by) * v[j]).sum()
    }

    fn coordinates(&self, level: usize) -> &[f64] {
        let q = self.group.q;
        &self.z[q + self.group.correlations() + level * q..][..q]
    }

    /// Adds the slope of the predictor of a row in the coordinates of the group.
    fn push_slopes(&self, row: usize, into: &mut Vec<(usize, f64)>) {
        let (group, q) = (self.group, self.group.q);
        let level = group.data.level_of_row[row] as usize;
        let v = self.coordinates(level);
        let x = &group.data.z[row * q..(row + 1) * q];
        let first = group.first + q + group.correlations() + level * q;
        if group.centred[level] {
            into.extend(x.iter().enumerate().map(|(k, x)| (first + k, *x)));
            return;
        }
        for k in 0..q {
            into.push((group.first + k, x[k] * self.effects[level * q + k]));
        }
        if self.is_correlated() {
            for k in 1..q {
                let sd = self.z[k].exp();
                for m in 0..k {
                    let at = group.first + q + k * (k - 1) / 2 + m;
                    into.push((at, x[k] * sd * self.factor_times(k, v, &[m])));
                }
            }
        }
        for j in 0..q {
            into.push((first + j, (j..q).map(|k| x[k] * self.z[k].exp() * self.factor(k, j, &[])).sum()));
        }
    }

    /// Adds `sum_r l' hess eta_r` and the curvature of the priors.
    fn add_own(&self, hessian: &mut Hessian<'_>) {
        let (group, q) = (self.group, self.group.q);
        let of_correlations = group.first + q;
        for (k, prior) in group.sd_priors.iter().enumerate() {
            hessian.add(group.first + k, group.first + k, prior.at_log(self.z[k])[2]);
        }
        for k in 1..if self.is_correlated() { q } else { 0 } {
            for j in 0..k {
                let at = k * (k - 1) / 2 + j;
                let c = 1.0 / self.z[q + at].cosh();
                hessian.add(of_correlations + at, of_correlations + at, -2.0 * group.beta(j) * c * c);
            }
        }
        for level in 0..group.levels() {
            let first = of_correlations + group.correlations() + level * q;
            let v = self.coordinates(level);
            if group.centred[level] {
                self.add_centred(first, v, hessian);
                continue;
            }
            for k in 0..q {
                let (slope, sd) = (self.slopes[level * q + k], self.z[k].exp());
                let of_sd = group.first + k;
                hessian.add(first + k, first + k, -1.0);
                hessian.add(of_sd, of_sd, slope * self.effects[level * q + k]);
                for j in 0..=k {
                    hessian.add(of_sd, first + j, slope * sd * self.factor(k, j, &[]));
                }
                for m in 0..if self.is_correlated() { k } else { 0 } {
                    let of_m = of_correlations + k * (k - 1) / 2 + m;
                    hessian.add(of_sd, of_m, slope * sd * self.factor_times(k, v, &[m]));
                    for j in 0..=k {
                        hessian.add(first + j, of_m, slope * sd * self.factor(k, j, &[m]));
                    }
                    for n in 0..=m {
                        let of_n = of_correlations + k * (k - 1) / 2 + n;
                        hessian.add(of_m, of_n, slope * sd * self.factor_times(k, v, &[m, n]));
                    }
                }
            }
        }
    }
}

impl GroupAt<'_> {
    /// The inverse of the factor times `x`.
    fn solve_factor(&self, mut x: Vec<f64>) -> Vec<f64> {
        for i in 0..x.len() {
            let known: f64 = (0..i).map(|j| self.factor(i, j, &[]) * x[j]).sum();
            x[i] = (x[i] - known) / self.factor(i, i, &[]);
        }
        x
    }

    /// Row `k` of the factor, differentiated in its partial correlations `by`, times `x`; the other rows are zero.
    fn row_times(&self, k: usize, by: &[usize], x: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; x.len()];
        product[k] = self.factor_times(k, x, by);
        product
    }

    /// The prior of a centred level, `-|u|^2 / 2 - log det(S L)` with `u = (S L)^-1 b`, whose coordinates begin at `first`.
    fn add_centred(&self, first: usize, b: &[f64], hessian: &mut Hessian<'_>) {
        let (group, q) = (self.group, self.group.q);
        let correlations = if self.is_correlated() { q } else { 0 };
        let unit = |k: usize, x: f64| -> Vec<f64> { (0..q).map(|j| if j == k { x } else { 0.0 }).collect() };
        let negative = |x: Vec<f64>| -> Vec<f64> { x.into_iter().map(|x| -x).collect() };
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let whitened: Vec<f64> = (0..q).map(|k| b[k] * (-self.z[k]).exp()).collect();
        let u = self.solve_factor(whitened.clone());
        // Slopes of u: in the effects, the log standard deviations, and the partial correlations with their row and column.
        let by_b: Vec<Vec<f64>> = (0..q).map(|k| self.solve_factor(unit(k, (-self.z[k]).exp()))).collect();
        let by_sd: Vec<Vec<f64>> = (0..q).map(|k| self.solve_factor(unit(k, -whitened[k]))).collect();
        let pairs: Vec<(usize, usize)> = (1..correlations).flat_map(|k| (0..k).map(move |m| (k, m))).collect();
        let by_y: Vec<Vec<f64>> =
            pairs.iter().map(|&(k, m)| self.solve_factor(negative(self.row_times(k, &[m], &u)))).collect();
        let add = |hessian: &mut Hessian<'_>, i, j, slopes: (&[f64], &[f64]), second: f64| {
            hessian.add(i, j, -dot(slopes.0, slopes.1) - second);
        };
        for k in 0..q {
            let (of_b, of_sd) = (first + k, group.first + k);
            for j in 0..=k {
                add(hessian, of_b, first + j, (&by_b[k], &by_b[j]), 0.0);
                let second = if j == k { -dot(&u, &by_sd[k]) } else { 0.0 };
                add(hessian, of_sd, group.first + j, (&by_sd[k], &by_sd[j]), second);
            }
            for j in 0..q {
                let second = if j == k { -dot(&u, &by_b[k]) } else { 0.0 };
                add(hessian, of_b, group.first + j, (&by_b[k], &by_sd[j]), second);
            }
        }
        for (at, &(k, m)) in pairs.iter().enumerate() {
            let of_y = group.first + q + at;
            let c = 1.0 / self.z[q + at].cosh();
            hessian.add(of_y, of_y, c * c);
            for j in 0..q {
                for (of, by) in [(first + j, &by_b[j]), (group.first + j, &by_sd[j])] {
                    let second = -dot(&u, &self.solve_factor(self.row_times(k, &[m], by)));
                    add(hessian, of_y, of, (&by_y[at], by), second);
                }
            }
            for (other, &(l, n)) in pairs[..=at].iter().enumerate() {
                let mut sum = self.row_times(k, &[m], &by_y[other]);
                sum[l] += self.factor_times(l, &by_y[at], &[n]);
                if k == l {
                    sum[k] += self.factor_times(k, &u, &[m, n]);
                }
                add(hessian, of_y, group.first + q + other, (&by_y[at], &by_y[other]), -dot(&u, &self.solve_factor(sum)));
            }
        }
    }
}

impl EffectsModel {
    /// Overwrites the sums with those of the exact Hessians at all points.
    pub(super) fn sum_hessians(
        &self,
        rows: Rows<'_>,
        (scale, totals): (f64, &[f64]),
        points: Points<'_>,
        request: &mut CurvatureSums<'_>,
        scratch: &mut Scratch,
    ) {
        let (n, dim, shape) = (points.len(), points.dim(), request.shape);
        request.sums.fill(0.0);
        let mut entries = scratch.take_used(shape.len(dim));
        for (i, z) in points.iter().enumerate() {
            entries.fill(0.0);
            self.add_hessian(rows, (scale, totals), z, Hessian { entries: &mut entries, shape, dim });
            // A point of weight zero adds nothing, whatever its curvature.
            let weights = request.weights.chunks_exact(n).map(|weights| weights[i]);
            for (sum, weight) in request.sums.chunks_exact_mut(shape.len(dim)).zip(weights).filter(|(_, w)| *w != 0.0) {
                sum.iter_mut().zip(&entries).for_each(|(sum, entry)| *sum += weight * entry);
            }
        }
        scratch.give(entries);
    }

    fn add_hessian(&self, rows: Rows<'_>, (scale, totals): (f64, &[f64]), z: &[f64], mut hessian: Hessian<'_>) {
        let p = self.priors.len();
        let own = &z[p..p + self.auxiliary.dim()];
        for (j, prior) in self.priors.iter().enumerate() {
            hessian.add(j, j, prior.at(z[j])[2]);
        }
        let mut groups: Vec<GroupAt<'_>> = self
            .groups
            .iter()
            .map(|group| {
                let z = &z[group.first..group.first + group.dim()];
                let mut effects = vec![0.0; group.effects()];
                group.effects_at(z, &mut effects);
                GroupAt { group, z, slopes: vec![0.0; effects.len()], effects }
            })
            .collect();
        let cuts = self.cuts_at(own);
        let mut by_cut = vec![0.0; cuts.len()];
        let eta = self.predictors_at(z);
        let mut touched = Vec::new();
        let count = if let Rows::Subset(subset) = rows { subset.len() } else { self.rows };
        for at in 0..count {
            let row = if let Rows::Subset(subset) = rows { subset[at] as usize } else { at };
            let weight = scale * self.outcomes.weight(row);
            touched.clear();
            touched.extend(self.x[row * p..(row + 1) * p].iter().copied().enumerate());
            groups.iter().for_each(|group| group.push_slopes(row, &mut touched));
            let y = self.outcomes.y[row];
            let slope = if cuts.is_empty() {
                let other = self.outcomes.other.get(row).copied().unwrap_or(0.0);
                let second = at_row(self.family, y, other, eta[row], own);
                self.add_row(weight, &second, &touched, p, &mut hessian);
                second.slope
            } else {
                self.add_category(weight, (y as usize, eta[row]), (&cuts, own), &mut touched, (&mut hessian, &mut by_cut))
            };
            for group in &mut groups {
                let q = group.group.q;
                let level = group.group.data.level_of_row[row] as usize;
                let columns = &group.group.data.z[row * q..(row + 1) * q];
                let slopes = &mut group.slopes[level * q..(level + 1) * q];
                slopes.iter_mut().zip(columns).for_each(|(sum, x)| *sum += weight * slope * x);
            }
        }
        groups.iter().for_each(|group| group.add_own(&mut hessian));
        for (k, second) in self.auxiliary.second(scale, totals, own).into_iter().enumerate() {
            hessian.add(p + k, p + k, second);
        }
        self.add_cuts(scale, totals, (&cuts, own), &by_cut, &mut hessian);
    }

    fn add_row(&self, weight: f64, second: &Second, touched: &[(usize, f64)], p: usize, hessian: &mut Hessian<'_>) {
        hessian.add_square(weight * second.eta, touched);
        let parameters = self.auxiliary.priors.len();
        for k in 0..parameters {
            if hessian.shape == CurvatureShape::Full {
                touched.iter().for_each(|(i, x)| hessian.add(*i, p + k, weight * second.crossed[k] * x));
            }
            for j in 0..=k {
                hessian.add(p + k, p + j, weight * second.own[j + k]);
            }
        }
    }

    fn cuts_at(&self, own: &[f64]) -> Vec<f64> {
        let mut cut = 0.0;
        let cuts = (0..self.family.cuts()).map(|k| {
            cut = if k == 0 { own[0] } else { cut + own[k].exp() };
            cut
        });
        cuts.collect()
    }

    /// Pushes the slopes of cut point `k` in its coordinates.
    fn push_cut(&self, k: usize, own: &[f64], into: &mut Vec<(usize, f64)>) {
        let p = self.priors.len();
        into.extend((0..=k).map(|m| (p + m, if m == 0 { 1.0 } else { own[m].exp() })));
    }

    /// Adds a row of the ordinal family, and its slopes in the cut points; returns that in the predictor.
    fn add_category(
        &self,
        weight: f64,
        (category, eta): (usize, f64),
        (cuts, own): (&[f64], &[f64]),
        touched: &mut Vec<(usize, f64)>,
        (hessian, by_cut): (&mut Hessian<'_>, &mut [f64]),
    ) -> f64 {
        let predictor = touched.len();
        let mut slope = 0.0;
        for (k, sign) in [(Some(category), 1.0), (category.checked_sub(1), -1.0)] {
            let Some((k, cut)) = k.and_then(|k| cuts.get(k).map(|cut| (k, *cut))) else { continue };
            let (share, _, variance) = logistic(sign * (eta - cut));
            by_cut[k] += sign * weight * share;
            slope -= sign * share;
            touched[..predictor].iter_mut().for_each(|(_, x)| *x = -*x);
            self.push_cut(k, own, touched);
            hessian.add_square(-weight * variance, touched);
            touched.truncate(predictor);
            touched.iter_mut().for_each(|(_, x)| *x = -*x);
        }
        slope
    }

    /// Adds what the cut points contribute beside the rows.
    fn add_cuts(
        &self,
        scale: f64,
        totals: &[f64],
        (cuts, own): (&[f64], &[f64]),
        by_cut: &[f64],
        hessian: &mut Hessian<'_>,
    ) {
        let Family::Ordinal { .. } = self.family else { return };
        let (p, mut from_here_on) = (self.priors.len(), 0.0);
        for k in (0..cuts.len()).rev() {
            let [_, slope, curv] = self.auxiliary.cut_prior.at(cuts[k]);
            let mut touched = Vec::with_capacity(k + 1);
            self.push_cut(k, own, &mut touched);
            hessian.add_square(curv, &touched);
            from_here_on += slope + by_cut[k];
            if k > 0 {
                let gap = own[k].exp();
                let share = over_exp_m1(gap);
                // The derivative of gap / (exp(gap) - 1) in the logarithm of the gap.
                let bend = if gap < 1e-8 { -0.5 * gap } else { share * (1.0 + gap / (-gap).exp_m1()) };
                let weight = scale * self.auxiliary.category_weight(totals, k);
                hessian.add(p + k, p + k, gap * from_here_on + weight * bend);
            }
        }
    }
}
