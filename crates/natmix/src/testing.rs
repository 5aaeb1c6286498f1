//! Checks of a target's derivatives, for tests of your own targets.
//!
//! ```
//! use natmix::testing::{check_target, CheckOptions};
//! use natmix::target::ClosureTarget;
//! let wrong = ClosureTarget::new(1, |z: &[f64], grad: Option<&mut [f64]>| {
//!     if let Some(grad) = grad { grad[0] = z[0]; }      // the sign is wrong
//!     -0.5 * z[0] * z[0]
//! }).unwrap();
//! let report = check_target(&wrong, &CheckOptions::default()).unwrap();
//! assert!(!report.passed());
//! assert!(report.to_string().contains("gradient"));
//! ```

use crate::error::Error;
use crate::noise::{Noise, Purpose};
use crate::target::{Curvature, CurvatureSums, EvalOut, Points, Rows, Shape, Target};
use crate::workspace::Scratch;
use std::fmt;

/// Where and how closely a target is checked.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Centre of the points.
    pub centre: f64,
    /// Spread of the points.
    pub spread: f64,
    /// Number of points.
    pub points: usize,
    /// Largest relative error of a first derivative.
    pub gradient_tolerance: f64,
    /// Largest relative error of a second derivative.
    pub curvature_tolerance: f64,
    /// Seed of the points.
    pub seed: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { centre: 0.0, spread: 1.0, points: 7, gradient_tolerance: 1e-6, curvature_tolerance: 1e-5, seed: 0 }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckReport {
    /// Each check with its largest relative error, its limit, and where the error was.
    pub checks: Vec<Check>,
    /// Points at which the target was not finite; they are left out.
    pub not_finite: usize,
}

/// One check.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// Largest relative error.
    pub error: f64,
    /// Largest error that passes.
    pub limit: f64,
    /// Where it occurred.
    pub place: String,
}

impl CheckReport {
    /// Whether every check passed, and at least one was made.
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.error <= check.limit)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let mark = if check.error <= check.limit { "ok  " } else { "FAIL" };
            writeln!(
                f,
                "{mark} {}: error {:.1e} (limit {:.0e}) {}",
                check.name, check.error, check.limit, check.place
            )?;
        }
        if self.not_finite > 0 {
            writeln!(f, "     {} points were not finite and left out", self.not_finite)?;
        }
        Ok(())
    }
}

/// Compares a target's gradient with differences of its values, its exact curvature with differences of its
/// gradients, batches with single points, diagonals with full matrices, and minibatches with the whole data.
pub fn check_target(target: &dyn Target, options: &CheckOptions) -> Result<CheckReport, Error> {
    let mut checker = Checker { target, scratch: Scratch::default() };
    let d = target.dim();
    if d == 0 {
        return Err(Error::InvalidInput("the target has dimension 0".into()));
    }
    let mut points = vec![0.0; options.points.max(1) * d];
    Noise::new(options.seed, Purpose::Check, 0, 0, 0).normals(&mut points);
    points.iter_mut().for_each(|x| *x = options.centre + options.spread * *x);

    let mut report = CheckReport { checks: Vec::new(), not_finite: 0 };
    let values = checker.values(Rows::All, &points)?;
    let finite: Vec<usize> = (0..values.len()).filter(|&i| values[i].is_finite()).collect();
    report.not_finite = values.len() - finite.len();
    let points: Vec<f64> = finite.iter().flat_map(|&i| points[i * d..(i + 1) * d].to_vec()).collect();
    if points.is_empty() {
        return Ok(report);
    }
    let n = finite.len();

    let mut batch = Worst::new("values of a batch against single points", 1e-9);
    for (i, z) in points.chunks_exact(d).enumerate() {
        let alone = checker.values(Rows::All, z)?[0];
        batch.compare(alone, values[finite[i]], 0.0, || format!("point {i}"));
    }
    report.checks.push(batch.check());

    if target.has_gradient() {
        let mut worst = Worst::new("gradient against differences of log p", options.gradient_tolerance);
        let gradients = checker.gradients(Rows::All, &points)?;
        for (i, z) in points.chunks_exact(d).enumerate() {
            let gradient = &gradients[i * d..(i + 1) * d];
            let size = gradient.iter().fold(0.0_f64, |m, g| m.max(g.abs()));
            for (j, slope) in gradient.iter().enumerate() {
                let estimate =
                    checker.slope(z, j, options.spread, |checker, z| Ok(checker.values(Rows::All, z)?[0]))?;
                worst.compare(*slope, estimate, size, || format!("point {i}, coordinate {j}"));
            }
        }
        report.checks.push(worst.check());
        for &(kind, shape) in target.curvatures() {
            report.checks.extend(checker.curvature(&points, n, kind, shape, options)?);
        }
        report.checks.extend(checker.shapes(&points, n)?);
    }
    if let Some(rows) = target.num_rows().filter(|rows| *rows >= 2) {
        report.checks.extend(checker.minibatches(&points, rows)?);
    }
    Ok(report)
}

struct Checker<'a> {
    target: &'a dyn Target,
    scratch: Scratch,
}

impl Checker<'_> {
    fn values(&mut self, rows: Rows<'_>, points: &[f64]) -> Result<Vec<f64>, Error> {
        let d = self.target.dim();
        let mut log_p = vec![0.0; points.len() / d];
        let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
        self.target.eval(rows, Points::new(points, d), out, &mut self.scratch)?;
        Ok(log_p)
    }

    fn gradients(&mut self, rows: Rows<'_>, points: &[f64]) -> Result<Vec<f64>, Error> {
        let d = self.target.dim();
        let (mut log_p, mut grad) = (vec![0.0; points.len() / d], vec![0.0; points.len()]);
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
        self.target.eval(rows, Points::new(points, d), out, &mut self.scratch)?;
        Ok(grad)
    }

    fn sums(
        &mut self,
        rows: Rows<'_>,
        points: &[f64],
        weights: &[f64],
        kind: Curvature,
        shape: Shape,
    ) -> Result<Vec<f64>, Error> {
        let d = self.target.dim();
        let n = points.len() / d;
        let mut sums = vec![f64::NAN; weights.len() / n * shape.len(d)];
        let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * d]);
        let curv = CurvatureSums { kind, shape, weights, sums: &mut sums };
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
        self.target.eval(rows, Points::new(points, d), out, &mut self.scratch)?;
        Ok(sums)
    }

    /// Derivative of `f` along coordinate `j`: central differences, extrapolated once (Richardson).
    fn slope<F>(&mut self, z: &[f64], j: usize, spread: f64, mut f: F) -> Result<f64, Error>
    where
        F: FnMut(&mut Self, &[f64]) -> Result<f64, Error>,
    {
        let mut moved = z.to_vec();
        let mut central = |checker: &mut Self, h: f64| -> Result<f64, Error> {
            moved[j] = z[j] + h;
            let up = f(checker, &moved)?;
            let high = moved[j];
            moved[j] = z[j] - h;
            let down = f(checker, &moved)?;
            Ok((up - down) / (high - moved[j]))
        };
        let h = 2e-3 * spread.min(1.0).max(1e-3 * z[j].abs());
        Ok((4.0 * central(self, 0.5 * h)? - central(self, h)?) / 3.0)
    }

    fn curvature(
        &mut self,
        points: &[f64],
        n: usize,
        kind: Curvature,
        shape: Shape,
        options: &CheckOptions,
    ) -> Result<Vec<Check>, Error> {
        let d = self.target.dim();
        let label = format!("{} curvature ({})", kind.name(), shape.name());
        let len = shape.len(d);
        // Sums are linear in the weights, and each matrix is that of its own point.
        let identity: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect();
        let single = self.sums(Rows::All, points, &identity, kind, shape)?;
        let weights: Vec<f64> = (0..n).map(|i| 0.5 - i as f64).collect();
        let together = self.sums(Rows::All, points, &weights, kind, shape)?;
        let size = single.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        let mut linear = Worst::new(format!("{label}: weighted sum against single points"), 1e-9);
        for at in 0..len {
            let sum: f64 = (0..n).map(|i| weights[i] * single[i * len + at]).sum();
            linear.compare(together[at], sum, size, || format!("entry {at}"));
        }
        let mut checks = vec![linear.check()];
        if kind == Curvature::Exact {
            let mut worst =
                Worst::new(format!("{label} against differences of the gradient"), options.curvature_tolerance);
            for (i, z) in points.chunks_exact(d).enumerate() {
                for j in 0..d {
                    let entries: Vec<usize> = if shape == Shape::Diag { vec![j] } else { (0..d).collect() };
                    for l in entries {
                        let estimate =
                            self.slope(z, j, options.spread, |checker, z| Ok(checker.gradients(Rows::All, z)?[l]))?;
                        let at = if shape == Shape::Diag { j } else { l + j * d };
                        worst.compare(single[i * len + at], estimate, size, || format!("point {i}, entry ({l}, {j})"));
                    }
                }
            }
            checks.push(worst.check());
        }
        Ok(checks)
    }

    /// Batches that cover all rows once must average to the whole: values, gradients and curvature alike.
    fn minibatches(&mut self, points: &[f64], rows: usize) -> Result<Vec<Check>, Error> {
        let half = rows / 2;
        let (first, second): (Vec<u32>, Vec<u32>) = (0..rows as u32).partition(|row| *row < half as u32);
        let share = half as f64 / rows as f64;
        let (first, second) = (Rows::Subset(&first), Rows::Subset(&second));
        let average = |name: String, [whole, a, b]: [Vec<f64>; 3]| {
            let size = whole.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            let mut worst = Worst::new(name, 1e-9);
            for (i, whole) in whole.iter().enumerate() {
                worst.compare(share * a[i] + (1.0 - share) * b[i], *whole, size, || format!("entry {i}"));
            }
            worst.check()
        };
        let all = [Rows::All, first, second];
        let mut results: Vec<Vec<f64>> = all.iter().map(|rows| self.values(*rows, points)).collect::<Result<_, _>>()?;
        let take = |results: &mut Vec<Vec<f64>>| [0, 1, 2].map(|i| std::mem::take(&mut results[i]));
        let mut checks = vec![average("minibatches against all rows: log p".into(), take(&mut results))];
        if self.target.has_gradient() {
            results = all.iter().map(|rows| self.gradients(*rows, points)).collect::<Result<_, _>>()?;
            checks.push(average("minibatches against all rows: gradient".into(), take(&mut results)));
            let weights: Vec<f64> = (0..points.len() / self.target.dim()).map(|i| 1.0 - 0.3 * i as f64).collect();
            let target = self.target;
            for &(kind, shape) in target.curvatures() {
                let sums = all.iter().map(|rows| self.sums(*rows, points, &weights, kind, shape));
                results = sums.collect::<Result<_, _>>()?;
                let name = format!("minibatches against all rows: {} curvature ({})", kind.name(), shape.name());
                checks.push(average(name, take(&mut results)));
            }
        }
        Ok(checks)
    }

    /// The diagonal of a full sum must be the diagonal sum, for every kind that is offered in both shapes; and every
    /// kind but the exact one must not be positive.
    fn shapes(&mut self, points: &[f64], n: usize) -> Result<Vec<Check>, Error> {
        let (d, weights) = (self.target.dim(), vec![1.0; n]);
        let mut checks = Vec::new();
        let target = self.target;
        for kind in [Curvature::Exact, Curvature::GaussNewton, Curvature::EmpiricalFisher] {
            let offers = |shape| target.curvatures().contains(&(kind, shape));
            if !(offers(Shape::Full) && offers(Shape::Diag)) {
                continue;
            }
            let full = self.sums(Rows::All, points, &weights, kind, Shape::Full)?;
            let diag = self.sums(Rows::All, points, &weights, kind, Shape::Diag)?;
            let size = diag.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            let mut same = Worst::new(format!("{} curvature: diag against full", kind.name()), 1e-9);
            let mut sign = Worst::new(format!("{} curvature: sign", kind.name()), 1e-9);
            for i in 0..d {
                same.compare(diag[i], full[i * (d + 1)], size, || format!("entry {i}"));
                sign.compare(diag[i].max(0.0), 0.0, size, || format!("entry {i}, which must not be positive"));
            }
            checks.push(same.check());
            if kind != Curvature::Exact {
                checks.push(sign.check());
            }
        }
        Ok(checks)
    }
}

/// The largest error so far.
struct Worst {
    name: String,
    limit: f64,
    error: f64,
    place: String,
}

impl Worst {
    fn new(name: impl Into<String>, limit: f64) -> Self {
        Self { name: name.into(), limit, error: 0.0, place: String::new() }
    }

    /// Relative to the larger of the two, to `size`, and to one.
    fn compare(&mut self, a: f64, b: f64, size: f64, place: impl FnOnce() -> String) {
        let error = (a - b).abs() / a.abs().max(b.abs()).max(size).max(1.0);
        // A NaN is an error, too.
        if error.is_nan() || error > self.error {
            self.error = if error.is_nan() { f64::INFINITY } else { error };
            self.place = format!("at {}: {a} against {b}", place());
        }
    }

    fn check(self) -> Check {
        Check { name: self.name, error: self.error, limit: self.limit, place: self.place }
    }
}
