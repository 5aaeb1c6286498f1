use super::*;
use crate::evaluate::{Limits, of_target};
use crate::family::{Diag, Gaussian};
use crate::target::ClosureTarget;
use crate::workspace::ScratchPool;

/// A density of standardised coordinates; writes its gradient.
type Density = fn(&[f64], &mut [f64]) -> f64;

/// Correlated Gaussian.
fn gaussian(y: &[f64], grad: &mut [f64]) -> f64 {
    let mut log_p = 0.0;
    for i in 0..y.len() {
        log_p -= 0.5 * y[i] * y[i];
        grad[i] = -y[i];
        if i > 0 {
            log_p += 0.4 * y[i] * y[i - 1];
            grad[i] += 0.4 * y[i - 1];
            grad[i - 1] += 0.4 * y[i];
        }
    }
    log_p
}

/// Logistic regression on 40 rows of fixed numbers with a normal prior.
fn logistic(y: &[f64], grad: &mut [f64]) -> f64 {
    let mut log_p = -0.05 * y.iter().map(|y| y * y).sum::<f64>();
    grad.iter_mut().zip(y).for_each(|(g, y)| *g = -0.1 * y);
    for row in 0..40 {
        let feature = |i: usize| ((row * 37 + i * 101 + 13) % 23) as f64 / 11.0 - 1.0;
        let sign = if row * 7 % 5 < 2 { 1.0 } else { -1.0 };
        let x = sign * (0..y.len()).map(|i| feature(i) * y[i]).sum::<f64>();
        log_p -= (-x.abs()).exp().ln_1p() + (-x).max(0.0);
        for (i, g) in grad.iter_mut().enumerate() {
            *g += sign * feature(i) / (1.0 + x.exp());
        }
    }
    log_p
}

fn funnel(y: &[f64], grad: &mut [f64]) -> f64 {
    let (neck, rest) = (y[0], &y[1..]);
    let (squares, precision) = (rest.iter().map(|y| y * y).sum::<f64>(), (-neck).exp());
    grad[0] = -neck / 9.0 + 0.5 * squares * precision - 0.5 * rest.len() as f64;
    grad[1..].iter_mut().zip(rest).for_each(|(g, y)| *g = -y * precision);
    -neck * neck / 18.0 - 0.5 * squares * precision - 0.5 * rest.len() as f64 * neck
}

fn student(y: &[f64], grad: &mut [f64]) -> f64 {
    grad.iter_mut().zip(y).for_each(|(g, y)| *g = -4.0 * y / (3.0 + y * y));
    y.iter().map(|y| -2.0 * (1.0 + y * y / 3.0).ln()).sum()
}

/// Two modes, at -2 and 2 in every coordinate together.
fn two_modes(y: &[f64], grad: &mut [f64]) -> f64 {
    let quadratic = |centre: f64| -0.5 * y.iter().map(|y| (y - centre).powi(2)).sum::<f64>();
    let (a, b) = (quadratic(2.0), quadratic(-2.0));
    let share = 1.0 / (1.0 + (b - a).exp());
    grad.iter_mut().zip(y).for_each(|(g, y)| *g = -(y + 2.0 - 4.0 * share));
    a.max(b) + (-(a - b).abs()).exp().ln_1p()
}

fn laplace(y: &[f64], grad: &mut [f64]) -> f64 {
    grad.iter_mut().zip(y).for_each(|(g, y)| *g = -y.signum());
    -y.iter().map(|y| y.abs()).sum::<f64>()
}

const SMOOTH: [(&str, Density); 5] = [
    ("gaussian", gaussian),
    ("logistic", logistic),
    ("funnel", funnel),
    ("student", student),
    ("two modes", two_modes),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Arithmetic {
    Double,
    Single,
    /// Relative noise of that size in values and gradients.
    Noisy(f64),
}

/// A number in [-1, 1) that depends on every bit of its arguments.
fn scramble(z: &[f64], salt: u64) -> f64 {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for z in z {
        state = (state ^ z.to_bits()).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^= state >> 29;
    }
    state as f64 / u64::MAX as f64 * 2.0 - 1.0
}

/// What is done to a gradient, in standardised coordinates.
type Damage = dyn Fn(&[f64], &mut [f64]) + Sync;

struct Case<'a> {
    density: Density,
    scale: Vec<f64>,
    offset: f64,
    arithmetic: Arithmetic,
    damage: &'a Damage,
}

impl Case<'_> {
    fn at(&self, z: &[f64], grad: &mut [f64]) -> f64 {
        let y: Vec<f64> = z.iter().zip(&self.scale).map(|(z, scale)| z / scale).collect();
        let mut log_p = (self.density)(&y, grad) + self.offset;
        (self.damage)(&y, grad);
        grad.iter_mut().zip(&self.scale).for_each(|(g, scale)| *g /= scale);
        match self.arithmetic {
            Arithmetic::Double => {}
            Arithmetic::Single => {
                log_p = f64::from(log_p as f32);
                grad.iter_mut().for_each(|g| *g = f64::from(*g as f32));
            }
            Arithmetic::Noisy(size) => {
                log_p *= 1.0 + size * scramble(z, 1);
                grad.iter_mut().enumerate().for_each(|(i, g)| *g *= 1.0 + size * scramble(z, 2 + i as u64));
            }
        }
        log_p
    }

    /// Checks it from a start that is `width` times as wide as the scale, and counts evaluations.
    fn check(&self, width: &dyn Fn(usize) -> f64, seed: u64) -> (Result<Option<String>, Error>, u64) {
        let d = self.scale.len();
        let target = ClosureTarget::new(d, |z: &[f64], grad: Option<&mut [f64]>| match grad {
            Some(grad) => self.at(z, grad),
            None => self.at(z, &mut vec![0.0; d]),
        })
        .unwrap();
        let precisions = (0..d).map(|i| (width(i) * self.scale[i]).powi(-2)).collect();
        let start = Mixture::single(Gaussian::new(vec![0.0; d], Diag::new(precisions).unwrap()));
        let scratch = ScratchPool::new(1);
        let mut evaluator = of_target(&target, &scratch, Limits::default());
        let names = || (0..d).map(|i| format!("z{i}")).collect();
        let found = check_gradient(&mut *evaluator, &start, &names, seed);
        (found, evaluator.spent().evals)
    }
}

fn uniform(key: &[u64]) -> f64 {
    let key: Vec<f64> = key.iter().map(|k| *k as f64 + 0.5).collect();
    0.5 + 0.5 * scramble(&key, 9)
}

fn scales(wide: bool, d: usize, seed: u64) -> Vec<f64> {
    (0..d).map(|i| if wide { 10f64.powf(12.0 * uniform(&[seed, i as u64]) - 6.0) } else { 1.0 }).collect()
}

/// The kinds of faults, each with words that its message must have on a Gaussian.
fn faults() -> Vec<(&'static str, Box<Damage>, &'static str)> {
    fn times(factor: f64) -> Box<Damage> {
        Box::new(move |_, grad| grad.iter_mut().for_each(|g| *g *= factor))
    }
    fn shifted(by: f64) -> Box<Damage> {
        Box::new(move |_, grad| grad.iter_mut().for_each(|g| *g += by))
    }
    vec![
        ("half", times(0.5), "it is 2 times too small"),
        ("twice", times(2.0), "it is 2 times too large"),
        ("sign", times(-1.0), "wrong sign"),
        ("shifted a little", shifted(0.15), "shifted"),
        ("shifted", shifted(1.0), "shifted"),
        ("zero in one", Box::new(|_, grad| grad[0] = 0.0), "it is zero in `z0`"),
        ("swapped", Box::new(|_, grad| grad.swap(0, grad.len() - 1)), "are swapped"),
        ("chain", Box::new(|y, grad| grad[0] *= y[0].exp()), "`z0`"),
    ]
}

#[test]
fn right_gradients_raise_no_alarm() {
    let right: &Damage = &|_, _| {};
    let arithmetics = [Arithmetic::Double, Arithmetic::Single, Arithmetic::Noisy(1e-6)];
    let (mut checked, mut unsure) = (0, 0);
    for (name, density) in SMOOTH.into_iter().chain([("laplace", laplace as Density)]) {
        for d in [1, 2, 20, 200] {
            for arithmetic in arithmetics {
                for wide in [false, true] {
                    for offset in [0.0, -1e6] {
                        for (which, width) in [1.0, 1e3, 1e-3, f64::NAN].into_iter().enumerate() {
                            let seed = 7 * checked + which as u64;
                            let scale = scales(wide, d, seed);
                            let width = move |i: usize| {
                                let any = 10f64.powf(6.0 * uniform(&[seed, i as u64, 1]) - 3.0);
                                if width.is_nan() { any } else { width }
                            };
                            let case = Case { density, scale, offset, arithmetic, damage: right };
                            let (found, evals) = case.check(&width, seed);
                            let what = format!("{name}, d = {d}, {arithmetic:?}, {wide}, {offset}, start {which}");
                            let note = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                            assert!(evals <= 60, "{what}: {evals} evaluations");
                            if arithmetic == Arithmetic::Double && offset == 0.0 && which == 0 && name != "laplace" {
                                assert_eq!((note.as_deref(), evals), (None, EVALUATIONS), "{what}");
                            }
                            checked += 1;
                            unsure += u64::from(note.is_some());
                        }
                    }
                }
            }
        }
    }
    // Most of these are hopeless: |log p| of a million in single precision.
    assert!(checked > 1000 && unsure < checked / 2, "{unsure} of {checked}");
}

#[test]
fn every_kind_of_fault_is_found_and_named() {
    let mut hidden = 0;
    for (name, density) in SMOOTH {
        for d in [2, 5, 20] {
            for (fault, damage, words) in faults() {
                for seed in 0..20 {
                    for width in [1.0, 4.0] {
                        let damage = &*damage;
                        let scale = scales(seed % 2 == 1, d, seed);
                        let case = Case { density, scale, offset: -50.0, arithmetic: Arithmetic::Double, damage };
                        let (found, evals) = case.check(&|_| width, seed);
                        let what = format!("{name}, d = {d}, {fault}, width {width}, seed {seed}");
                        let Err(error) = found else {
                            // Hardly wrong where z0 is near zero, or where both coordinates have the same gradient.
                            assert!(["chain", "swapped"].contains(&fault), "{what}: not found ({found:?})");
                            hidden += 1;
                            continue;
                        };
                        let message = error.to_string();
                        assert!(matches!(error, Error::WrongGradient { .. }), "{what}: {message}");
                        assert!(evals <= 60 + d as u64, "{what}: {evals} evaluations");
                        // Coordinates of different scales are not what they were when they are swapped.
                        if name == "gaussian" && (fault != "swapped" || seed % 2 == 0) {
                            assert!(message.contains(words), "{what}: {message}");
                        }
                    }
                }
            }
        }
    }
    assert!(hidden <= 3, "{hidden}");
}

#[test]
fn gross_faults_are_found_in_single_precision_and_high_dimension() {
    for (fault, damage, words) in faults() {
        for seed in 0..10 {
            for (d, arithmetic) in [(3, Arithmetic::Single), (200, Arithmetic::Double)] {
                if arithmetic == Arithmetic::Single && fault == "shifted a little" {
                    continue;
                }
                let case = Case { density: gaussian, scale: vec![1.0; d], offset: -30.0, arithmetic, damage: &*damage };
                let found = case.check(&|_| 1.0, seed).0;
                let Err(error) = &found else { panic!("{fault}, d = {d}, seed {seed}: {found:?}") };
                assert!(error.to_string().contains(words), "{fault}, d = {d}, seed {seed}: {error}");
            }
        }
    }
}

#[test]
fn one_dimension_is_enough_for_factor_sign_and_shift() {
    for (fault, damage, words) in faults().into_iter().take(6) {
        for seed in 0..20 {
            let arithmetic = Arithmetic::Double;
            let case = Case { density: gaussian, scale: vec![3.0], offset: 0.0, arithmetic, damage: &*damage };
            let message = case.check(&|_| 2.0, seed).0.unwrap_err().to_string();
            assert!(message.contains(words), "{fault}, seed {seed}: {message}");
        }
    }
}

#[test]
fn a_noisy_density_is_a_remark() {
    let right: &Damage = &|_, _| {};
    let remarks = (0..200).filter(|seed| {
        let (scale, arithmetic) = (vec![1.0; 3], Arithmetic::Noisy(0.3));
        let case = Case { density: gaussian, scale, offset: -10.0, arithmetic, damage: right };
        let (found, _) = case.check(&|_| 1.0, *seed);
        found.unwrap().is_some()
    });
    assert!(remarks.count() > 190);
}

#[test]
fn points_that_cannot_be_evaluated_are_skipped() {
    let positive = |wrong: f64| {
        move |y: &[f64], grad: &mut [f64]| {
            grad[0] = wrong * (1.0 / y[0] - 1.0);
            y[0].ln() - y[0]
        }
    };
    for seed in 0..20 {
        for wrong in [1.0, 1.5] {
            let target = ClosureTarget::new(1, |z: &[f64], grad: Option<&mut [f64]>| {
                positive(wrong)(z, grad.unwrap_or(&mut [0.0]))
            })
            .unwrap();
            let start = Mixture::single(Gaussian::isotropic(vec![0.3], 1.0));
            let scratch = ScratchPool::new(1);
            let mut evaluator = of_target(&target, &scratch, Limits::default());
            let found = check_gradient(&mut *evaluator, &start, &|| vec!["x".into()], seed);
            match found {
                Ok(None) => {}
                Ok(Some(_)) => assert!(wrong != 1.0),
                Err(error) => assert!(wrong != 1.0 && error.to_string().contains("1.5 times too large"), "{error}"),
            }
        }
        let nowhere = ClosureTarget::new(1, |_: &[f64], _: Option<&mut [f64]>| f64::NAN).unwrap();
        let scratch = ScratchPool::new(1);
        let mut evaluator = of_target(&nowhere, &scratch, Limits::default());
        let start = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
        assert_eq!(check_gradient(&mut *evaluator, &start, &Vec::new, seed).unwrap(), None);
    }
}

#[test]
fn numbers_are_short() {
    assert_eq!(
        [0.0, 2.0, -0.5, 1234.56, 1.23456e-9, 3e7].map(|x| short(x, 4)),
        ["0", "2", "-0.5", "1235", "1.235e-9", "3.000e7"]
    );
}
