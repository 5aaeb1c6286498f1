//! Second derivatives of a group at one point: of the products that its effects are, and of its priors.

use super::groups::Group;
use natmix::target::CurvatureShape;

/// A Hessian under construction: whole (its lower and upper triangle) or its diagonal.
pub(super) struct Hessian<'a> {
    pub entries: &'a mut [f64],
    pub shape: CurvatureShape,
    pub dim: usize,
}

impl Hessian<'_> {
    /// Adds `x` at `(i, j)`, and at `(j, i)` if that is another entry.
    pub fn add(&mut self, i: usize, j: usize, x: f64) {
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
    pub fn add_square(&mut self, factor: f64, v: &[(usize, f64)]) {
        for (at, (i, x)) in v.iter().enumerate() {
            self.add(*i, *i, factor * x * x);
            if self.shape == CurvatureShape::Full {
                v[..at].iter().for_each(|(j, y)| self.add(*i, *j, factor * x * y));
            }
        }
    }
}

impl Hessian<'_> {
    /// Adds the second derivative `x` in two quantities, each of which is linear in some coordinates with these slopes; or in one
    /// quantity, which is given twice.
    fn add_linear(&mut self, a: &[(usize, f64)], b: &[(usize, f64)], same: bool, x: f64) {
        for (at, (i, s)) in a.iter().enumerate() {
            for (j, t) in &b[..if same { at + 1 } else { b.len() }] {
                let both = if i == j && !same { 2.0 } else { 1.0 };
                self.add(*i, *j, both * s * t * x);
            }
        }
    }
}

/// A group at one point.
pub(super) struct GroupAt<'a> {
    pub group: &'a Group,
    /// The coordinates of the group.
    pub z: &'a [f64],
    pub effects: Vec<f64>,
}

impl GroupAt<'_> {
    fn is_correlated(&self) -> bool {
        self.group.shape.correlations() > 0
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

    /// The standard deviation of column `k`.
    fn sd(&self, k: usize) -> f64 {
        self.z[self.group.shape.sd_of(k)].exp()
    }

    fn coordinates(&self, level: usize) -> &[f64] {
        let q = self.group.q;
        &self.z[self.group.shape.scales() + level * q..][..q]
    }

    /// Adds the slope of the predictor of a row in the coordinates of the group to those in the coefficients, which come first.
    pub fn push_slopes(&self, row: usize, into: &mut Vec<(usize, f64)>) {
        let (group, q) = (self.group, self.group.q);
        let level = group.level_of_row[row] as usize;
        let v = self.coordinates(level);
        let x = &group.z[row * q..(row + 1) * q];
        let first = group.first + group.shape.scales() + level * q;
        if group.shape.centred[level] {
            for (k, x) in x.iter().enumerate() {
                group.shape.around.parts(level * q + k).for_each(|(j, factor)| into[j].1 -= x * factor);
                into.push((first + k, *x));
            }
            return;
        }
        for (k, (x, effect)) in x.iter().zip(&self.effects[level * q..]).enumerate() {
            match into.last_mut() {
                // A standard deviation that columns share.
                Some((_, slope)) if k > 0 && group.shape.sd_of(k) == 0 => *slope += x * effect,
                _ => into.push((group.first + k, x * effect)),
            }
        }
        if self.is_correlated() {
            for (k, x) in x.iter().enumerate() {
                let (of_row, sd) = (group.first + q + k * k.saturating_sub(1) / 2, self.sd(k));
                into.extend((0..k).map(|m| (of_row + m, x * sd * self.factor_times(k, v, &[m]))));
            }
        }
        for j in 0..q {
            into.push((first + j, (j..q).map(|k| x[k] * self.sd(k) * self.factor(k, j, &[])).sum()));
        }
    }

    /// Adds `sum_r l' hess eta_r` and the curvature of the priors. `slopes` are sums over rows of slopes times columns, level by level.
    pub fn add_own(&self, slopes: &[f64], hessian: &mut Hessian<'_>) {
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
        for level in 0..group.shape.levels.len() {
            let first = group.first + group.shape.scales() + level * q;
            let v = self.coordinates(level);
            if group.shape.centred[level] {
                self.add_centred(level, first, hessian);
                continue;
            }
            for k in 0..q {
                let (slope, sd) = (slopes[level * q + k], self.sd(k));
                let of_sd = group.first + group.shape.sd_of(k);
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
    fn add_centred(&self, level: usize, first: usize, hessian: &mut Hessian<'_>) {
        let (group, q) = (self.group, self.group.q);
        let b = &self.effects[level * q..][..q];
        // Coordinates in which each effect is linear, with its slopes.
        let of_effect = |k: usize| -> Vec<(usize, f64)> {
            let around = group.shape.around.parts(level * q + k).map(|(j, factor)| (j, -factor));
            [(first + k, 1.0)].into_iter().chain(around).collect()
        };
        let of_effects: Vec<Vec<(usize, f64)>> = (0..q).map(of_effect).collect();
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
            let of_sd = group.first + k;
            for j in 0..=k {
                hessian.add_linear(&of_effects[k], &of_effects[j], k == j, -dot(&by_b[k], &by_b[j]));
                let second = if j == k { -dot(&u, &by_sd[k]) } else { 0.0 };
                add(hessian, of_sd, group.first + j, (&by_sd[k], &by_sd[j]), second);
            }
            for (j, by_sd) in by_sd.iter().enumerate() {
                let second = if j == k { -dot(&u, &by_b[k]) } else { 0.0 };
                for (of_b, slope) in &of_effects[k] {
                    hessian.add(*of_b, group.first + j, slope * (-dot(&by_b[k], by_sd) - second));
                }
            }
        }
        for (at, &(k, m)) in pairs.iter().enumerate() {
            let of_y = group.first + q + at;
            let c = 1.0 / self.z[q + at].cosh();
            hessian.add(of_y, of_y, c * c);
            for j in 0..q {
                let of_sd = [(group.first + j, 1.0)];
                for (of, by) in [(&of_effects[j][..], &by_b[j]), (&of_sd[..], &by_sd[j])] {
                    let second = -dot(&u, &self.solve_factor(self.row_times(k, &[m], by)));
                    for (of, slope) in of {
                        hessian.add(of_y, *of, slope * (-dot(&by_y[at], by) - second));
                    }
                }
            }
            for (other, &(l, n)) in pairs[..=at].iter().enumerate() {
                let mut sum = self.row_times(k, &[m], &by_y[other]);
                sum[l] += self.factor_times(l, &by_y[at], &[n]);
                if k == l {
                    sum[k] += self.factor_times(k, &u, &[m, n]);
                }
                add(
                    hessian,
                    of_y,
                    group.first + q + other,
                    (&by_y[at], &by_y[other]),
                    -dot(&u, &self.solve_factor(sum)),
                );
            }
        }
    }
}
