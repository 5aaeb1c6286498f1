//! Weighted sums of exact Hessians: row by row, where a row touches few coordinates.
//!
//! With `J_r` the slope of the predictor in the coordinates, `l` the log likelihood of a row and `a` the parameters beside the predictor,
//! a row adds `l'' J_r J_r'` and the derivatives in `a`. Effects are products of standard deviations, the factor of the correlations
//! and standardised coordinates, so that `sum_r l' hess eta_r` is left; it needs only the slopes summed by level.

use super::auxiliary::over_exp_m1;
use super::family::Family;
use super::group_curvature::{GroupAt, Hessian};
use super::model::EffectsModel;
use super::second_derivatives::{Second, at_row, logistic};
use natmix::Scratch;
use natmix::target::{CurvatureShape, CurvatureSums, Points, Rows};

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
                let own = &z[group.first..group.first + group.shape.dim()];
                let mut effects = vec![0.0; group.shape.effects()];
                group.shape.effects_at(z, own, &mut effects);
                GroupAt { group, z: own, slopes: vec![0.0; effects.len()], effects }
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
                let second = at_row(self.base.family, y, other, eta[row], own);
                self.add_row(weight, &second, &touched, p, &mut hessian);
                second.slope
            } else {
                self.add_category(
                    weight,
                    (y as usize, eta[row]),
                    (&cuts, own),
                    &mut touched,
                    (&mut hessian, &mut by_cut),
                )
            };
            for group in &mut groups {
                let q = group.group.q;
                let level = group.group.level_of_row[row] as usize;
                let columns = &group.group.z[row * q..(row + 1) * q];
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
