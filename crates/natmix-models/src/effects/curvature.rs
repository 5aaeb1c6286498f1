//! Weighted sums of exact Hessians: row by row, where a row touches few coordinates.
//!
//! With `J_r` the slope of the predictor in the coordinates, `l` the log likelihood of a row and `a` the parameters beside the predictor,
//! a row adds `l'' J_r J_r'` and the derivatives in `a`. Effects are products of standard deviations, the factor of the correlations
//! and standardised coordinates, so that `sum_r l' hess eta_r` is left; it needs only the slopes summed by level.

use super::auxiliary::over_exp_m1;
use super::family::Family;
use super::group_curvature::{GroupAt, Hessian};
use super::groups::Group;
use super::model::EffectsModel;
use super::second_derivatives::{Second, at_row, logistic};
use super::sharing::Picked;
use crate::ranks::Turn;
use natmix::Scratch;
use natmix::target::{CurvatureShape, CurvatureSums, Points, Rows, TargetError};

impl EffectsModel {
    /// Overwrites the sums with those of the exact Hessians at all points.
    pub(super) fn sum_hessians(
        &self,
        (rows, turn): (Rows<'_>, Option<&Turn<'_>>),
        (scale, totals): (f64, &[f64]),
        points: Points<'_>,
        request: &mut CurvatureSums<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        let (n, dim, shape) = (points.len(), points.dim(), request.shape);
        request.sums.fill(0.0);
        let each = self.effects() + self.base.family.cuts();
        let (mut entries, mut slopes) = (scratch.take_used(shape.len(dim)), scratch.take(n * each));
        // A point of weight zero adds nothing, whatever its curvature.
        let add_weighted = |sums: &mut [f64], entries: &[f64], i: usize| {
            let weights = request.weights.chunks_exact(n).map(|weights| weights[i]);
            for (sum, weight) in sums.chunks_exact_mut(shape.len(dim)).zip(weights).filter(|(_, w)| *w != 0.0) {
                sum.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += weight * entry);
            }
        };
        // The rows of a single section are added between what goes before and after them; those of others apart.
        let together = self.in_one_section(rows);
        self.sum_rows((rows, turn), [&mut *request.sums, &mut slopes], scratch, |rows, [sums, slopes], _| {
            for (i, z) in points.iter().enumerate() {
                entries.fill(0.0);
                let mut hessian = Hessian { entries: &mut entries, shape, dim };
                let slopes = &mut slopes[i * each..(i + 1) * each];
                if together {
                    self.add_priors(z, &mut hessian);
                }
                self.add_rows(rows, scale, z, &mut hessian, slopes);
                if together {
                    self.add_others((scale, totals), z, &mut hessian, slopes);
                }
                add_weighted(sums, &entries, i);
            }
        })?;
        for (i, z) in points.iter().enumerate().filter(|_| !together) {
            entries.fill(0.0);
            let mut hessian = Hessian { entries: &mut entries, shape, dim };
            self.add_priors(z, &mut hessian);
            self.add_others((scale, totals), z, &mut hessian, &slopes[i * each..(i + 1) * each]);
            add_weighted(request.sums, &entries, i);
        }
        scratch.give(entries);
        scratch.give(slopes);
        Ok(())
    }

    fn add_priors(&self, z: &[f64], hessian: &mut Hessian<'_>) {
        for (j, prior) in self.priors.iter().enumerate() {
            hessian.add(j, j, prior.at(z[j])[2]);
        }
    }

    /// The groups at a point.
    fn groups_at<'a>(&'a self, z: &'a [f64]) -> Vec<GroupAt<'a>> {
        let groups = self.groups.iter().zip(self.effects_at(z));
        let at = |(group, effects): (&'a Group, Vec<f64>)| GroupAt {
            group,
            z: &z[group.first..group.first + group.shape.dim()],
            effects,
        };
        groups.map(at).collect()
    }

    /// Adds rows, and to `slopes` their slopes in the effects of all groups and then in the cut points.
    fn add_rows(&self, rows: Picked<'_>, scale: f64, z: &[f64], hessian: &mut Hessian<'_>, slopes: &mut [f64]) {
        let p = self.priors.len();
        let own = &z[p..p + self.auxiliary.dim()];
        let (groups, cuts) = (self.groups_at(z), self.cuts_at(own));
        let effects = self.effects_at(z);
        let (by_effect, by_cut) = slopes.split_at_mut(slopes.len() - cuts.len());
        let mut touched = Vec::new();
        for row in rows.iter() {
            let weight = scale * self.outcomes.weight(row);
            touched.clear();
            touched.extend(self.x[row * p..(row + 1) * p].iter().copied().enumerate());
            groups.iter().for_each(|group| group.push_slopes(row, &mut touched));
            let (y, eta) = (self.outcomes.y[row], self.predictor_at(row, z, &effects));
            let slope = if cuts.is_empty() {
                let other = self.outcomes.other.get(row).copied().unwrap_or(0.0);
                let second = at_row(self.base.family, y, other, eta, own);
                self.add_row(weight, &second, &touched, p, hessian);
                second.slope
            } else {
                self.add_category(weight, (y as usize, eta), (&cuts, own), &mut touched, (hessian, by_cut))
            };
            let mut first = 0;
            for group in &self.groups {
                let at = first + group.level_of_row[row] as usize * group.q;
                let columns = &group.z[row * group.q..(row + 1) * group.q];
                let slopes = &mut by_effect[at..at + group.q];
                slopes.iter_mut().zip(columns).for_each(|(sum, x)| *sum += weight * slope * x);
                first += group.shape.effects();
            }
        }
    }

    /// Adds what needs the slopes of all rows, and no single row.
    fn add_others(&self, (scale, totals): (f64, &[f64]), z: &[f64], hessian: &mut Hessian<'_>, slopes: &[f64]) {
        let p = self.priors.len();
        let own = &z[p..p + self.auxiliary.dim()];
        let mut rest = slopes;
        for group in self.groups_at(z) {
            let (by_effect, others) = rest.split_at(group.effects.len());
            group.add_own(by_effect, hessian);
            rest = others;
        }
        for (k, second) in self.auxiliary.second(scale, totals, own).into_iter().enumerate() {
            hessian.add(p + k, p + k, second);
        }
        self.add_cuts(scale, totals, (&self.cuts_at(own), own), rest, hessian);
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
        let cuts = (0..self.base.family.cuts()).map(|k| {
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
        let Family::Ordinal { .. } = self.base.family else { return };
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
