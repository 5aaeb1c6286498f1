//! Prior distributions by name: densities with two derivatives, their text form, and draws.
//!
//! | text | density | support |
//! |---|---|---|
//! | `normal(mean, sd)` | | numbers |
//! | `student_t(df, location, scale)` | | numbers |
//! | `cauchy(location, scale)` | | numbers |
//! | `laplace(location, scale)` | `exp(-abs(x - location)/scale) / (2 scale)` | numbers |
//! | `logistic(location, scale)` | | numbers |
//! | `half_normal(scale)`, `half_cauchy(scale)` | twice the density at 0 and above | positive numbers |
//! | `exponential(rate)` | `rate exp(-rate x)` | positive numbers |
//! | `gamma(shape, rate)` | proportional to `x^(shape - 1) exp(-rate x)` | positive numbers |
//! | `inverse_gamma(shape, scale)` | proportional to `x^(-shape - 1) exp(-scale/x)` | positive numbers |
//! | `lognormal(location, scale)` | `log x ~ normal(location, scale)` | positive numbers |
//! | `lkj(shape)` | `det(R)^(shape - 1)` | correlation matrices |
//!
//! ```
//! use natmix_models::effects::PriorDensity;
//! let prior: PriorDensity = "student_t(3, 0, 2.5)".parse().unwrap();
//! assert_eq!(prior.to_string(), "student_t(3, 0, 2.5)");
//! let [value, slope, _] = PriorDensity::Normal { mean: 1.0, sd: 2.0 }.at(3.0);
//! assert!((value + (2.0 * std::f64::consts::TAU.sqrt()).ln() + 0.5).abs() < 1e-14 && slope == -0.5);
//! assert!("normal(0, -1)".parse::<PriorDensity>().unwrap_err().to_string().contains("sd"));
//! ```

use crate::prior::{LOG_TAU, usable_sd};
use natmix::Error;
use natmix::autodiff::special::ln_gamma;
use rand::Rng;
use rand_distr::{Distribution, Gamma, Open01, StandardNormal};
use std::f64::consts::{LN_2, PI};
use std::fmt;
use std::str::FromStr;

/// A prior distribution. See the [module page](self).
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // The fields are those of the table above.
pub enum PriorDensity {
    Normal { mean: f64, sd: f64 },
    StudentT { df: f64, location: f64, scale: f64 },
    Cauchy { location: f64, scale: f64 },
    Laplace { location: f64, scale: f64 },
    Logistic { location: f64, scale: f64 },
    HalfNormal { scale: f64 },
    HalfCauchy { scale: f64 },
    Exponential { rate: f64 },
    Gamma { shape: f64, rate: f64 },
    InverseGamma { shape: f64, scale: f64 },
    LogNormal { location: f64, scale: f64 },
    Lkj { shape: f64 },
}

/// What a prior is a distribution of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// All numbers.
    Real,
    /// Positive numbers.
    Positive,
    /// Correlation matrices.
    Correlations,
}

impl Support {
    fn name(self) -> &'static str {
        match self {
            Support::Real => "numbers",
            Support::Positive => "positive numbers",
            Support::Correlations => "correlation matrices",
        }
    }
}

/// Names in text form, with those of the arguments.
const NAMES: [(&str, &[&str]); 12] = [
    ("normal", &["mean", "sd"]),
    ("student_t", &["df", "location", "scale"]),
    ("cauchy", &["location", "scale"]),
    ("laplace", &["location", "scale"]),
    ("logistic", &["location", "scale"]),
    ("half_normal", &["scale"]),
    ("half_cauchy", &["scale"]),
    ("exponential", &["rate"]),
    ("gamma", &["shape", "rate"]),
    ("inverse_gamma", &["shape", "scale"]),
    ("lognormal", &["location", "scale"]),
    ("lkj", &["shape"]),
];

impl PriorDensity {
    fn from_parts(name: &str, a: &[f64]) -> Option<Self> {
        Some(match (name, a) {
            ("normal", &[mean, sd]) => Self::Normal { mean, sd },
            ("student_t", &[df, location, scale]) => Self::StudentT { df, location, scale },
            ("cauchy", &[location, scale]) => Self::Cauchy { location, scale },
            ("laplace", &[location, scale]) => Self::Laplace { location, scale },
            ("logistic", &[location, scale]) => Self::Logistic { location, scale },
            ("half_normal", &[scale]) => Self::HalfNormal { scale },
            ("half_cauchy", &[scale]) => Self::HalfCauchy { scale },
            ("exponential", &[rate]) => Self::Exponential { rate },
            ("gamma", &[shape, rate]) => Self::Gamma { shape, rate },
            ("inverse_gamma", &[shape, scale]) => Self::InverseGamma { shape, scale },
            ("lognormal", &[location, scale]) => Self::LogNormal { location, scale },
            ("lkj", &[shape]) => Self::Lkj { shape },
            _ => return None,
        })
    }

    fn parts(self) -> (&'static str, Vec<f64>) {
        match self {
            Self::Normal { mean, sd } => ("normal", vec![mean, sd]),
            Self::StudentT { df, location, scale } => ("student_t", vec![df, location, scale]),
            Self::Cauchy { location, scale } => ("cauchy", vec![location, scale]),
            Self::Laplace { location, scale } => ("laplace", vec![location, scale]),
            Self::Logistic { location, scale } => ("logistic", vec![location, scale]),
            Self::HalfNormal { scale } => ("half_normal", vec![scale]),
            Self::HalfCauchy { scale } => ("half_cauchy", vec![scale]),
            Self::Exponential { rate } => ("exponential", vec![rate]),
            Self::Gamma { shape, rate } => ("gamma", vec![shape, rate]),
            Self::InverseGamma { shape, scale } => ("inverse_gamma", vec![shape, scale]),
            Self::LogNormal { location, scale } => ("lognormal", vec![location, scale]),
            Self::Lkj { shape } => ("lkj", vec![shape]),
        }
    }

    /// What it is a distribution of.
    pub fn support(self) -> Support {
        match self {
            Self::Normal { .. }
            | Self::StudentT { .. }
            | Self::Cauchy { .. }
            | Self::Laplace { .. }
            | Self::Logistic { .. } => Support::Real,
            Self::Lkj { .. } => Support::Correlations,
            _ => Support::Positive,
        }
    }

    /// Checks the arguments: finite, and positive but for means and locations.
    pub fn check(self) -> Result<(), Error> {
        let (name, values) = self.parts();
        let arguments = NAMES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, arguments)| arguments);
        for (argument, x) in arguments.iter().zip(values) {
            let (good, wanted) = match *argument {
                "mean" | "location" => (x.is_finite(), "a finite number"),
                _ => (usable_sd(x), "a positive number whose square is finite"),
            };
            if !good {
                return Err(Error::InvalidInput(format!("prior `{self}`: {argument} is {x}, not {wanted}")));
            }
        }
        Ok(())
    }

    /// Checks that this is a valid prior for `what`.
    pub fn check_for(self, what: &str, support: Support) -> Result<(), Error> {
        self.check()?;
        if self.support() == support {
            return Ok(());
        }
        let names = NAMES.iter().filter(|(name, arguments)| {
            Self::from_parts(name, &vec![1.0; arguments.len()]).is_some_and(|prior| prior.support() == support)
        });
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        let (has, wanted) = (self.support().name(), support.name());
        let problem = format!("`{self}` is a distribution of {has}, but {what} needs one of {wanted}");
        Err(Error::InvalidInput(format!("{problem} (try {})", names.join(", "))))
    }

    /// `log f(x)`, its slope and its second derivative. For a prior of positive numbers, `x` has to be positive.
    ///
    /// # Panics
    /// For the prior of a correlation matrix, whose density is not one of a number.
    pub fn at(self, x: f64) -> [f64; 3] {
        match self {
            Self::Normal { mean, sd } => {
                let u = (x - mean) / sd;
                [-0.5 * (LOG_TAU + u * u) - sd.ln(), -u / sd, -1.0 / (sd * sd)]
            }
            Self::StudentT { df, location, scale } => {
                let u = (x - location) / scale;
                let constant = ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * PI).ln() - scale.ln();
                let (sum, half) = (df + u * u, 0.5 * (df + 1.0));
                let slope = -2.0 * half * u / sum;
                let curv = -2.0 * half * (df - u * u) / (sum * sum);
                [constant - half * (u * u / df).ln_1p(), slope / scale, curv / (scale * scale)]
            }
            Self::Cauchy { location, scale } => Self::StudentT { df: 1.0, location, scale }.at(x),
            Self::Laplace { location, scale } => {
                let u = (x - location) / scale;
                [-u.abs() - LN_2 - scale.ln(), if u == 0.0 { 0.0 } else { -u.signum() / scale }, 0.0]
            }
            Self::Logistic { location, scale } => {
                let u = (x - location) / scale;
                let t = (-u.abs()).exp();
                let slope = -u.signum() * (1.0 - t) / (1.0 + t);
                let curv = -2.0 * t / ((1.0 + t) * (1.0 + t));
                [-u.abs() - 2.0 * t.ln_1p() - scale.ln(), slope / scale, curv / (scale * scale)]
            }
            Self::Lkj { .. } => panic!("the density of a correlation matrix is not one of a number"),
            _ => {
                // In the logarithm of x, without the Jacobian.
                let [value, slope, curv] = self.at_log(x.ln());
                [value - x.ln(), (slope - 1.0) / x, (curv - (slope - 1.0)) / (x * x)]
            }
        }
    }

    /// The logarithm of the density of `t = log x` (with the Jacobian), its slope and its second derivative: for positive numbers.
    ///
    /// # Panics
    /// If this is not a prior of positive numbers.
    pub fn at_log(self, t: f64) -> [f64; 3] {
        match self {
            Self::HalfNormal { scale } => {
                let square = (2.0 * (t - scale.ln())).exp();
                [LN_2 - 0.5 * LOG_TAU - scale.ln() - 0.5 * square + t, 1.0 - square, -2.0 * square]
            }
            Self::HalfCauchy { scale } => {
                let x = 2.0 * (t - scale.ln());
                let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
                // The share u / (1 + u) of u = (x / scale)^2.
                let share = (x - softplus).exp();
                let value = (2.0 / (PI * scale)).ln() + t - softplus;
                [value, 1.0 - 2.0 * share, -4.0 * share * (-softplus).exp()]
            }
            Self::Exponential { rate } => Self::Gamma { shape: 1.0, rate }.at_log(t),
            Self::Gamma { shape, rate } => {
                let linear = rate * t.exp();
                [shape * (rate.ln() + t) - ln_gamma(shape) - linear, shape - linear, -linear]
            }
            Self::InverseGamma { shape, scale } => {
                let [value, slope, curv] = Self::Gamma { shape, rate: scale }.at_log(-t);
                [value, -slope, curv]
            }
            Self::LogNormal { location, scale } => Self::Normal { mean: location, sd: scale }.at(t),
            other => panic!("`{other}` is not a prior of positive numbers"),
        }
    }

    /// The distribution of `factor x + shift` where `x` has this one: in other units. Only a prior of all numbers can be shifted.
    ///
    /// # Panics
    /// If the factor is not positive, or the shift not zero for a prior of positive numbers.
    pub fn rescaled(self, factor: f64, shift: f64) -> Self {
        assert!(factor > 0.0 && (shift == 0.0 || self.support() == Support::Real), "cannot be rescaled");
        let to = |location: f64| factor * location + shift;
        match self {
            Self::Normal { mean, sd } => Self::Normal { mean: to(mean), sd: factor * sd },
            Self::StudentT { df, location, scale } => {
                Self::StudentT { df, location: to(location), scale: factor * scale }
            }
            Self::Cauchy { location, scale } => Self::Cauchy { location: to(location), scale: factor * scale },
            Self::Laplace { location, scale } => Self::Laplace { location: to(location), scale: factor * scale },
            Self::Logistic { location, scale } => Self::Logistic { location: to(location), scale: factor * scale },
            Self::HalfNormal { scale } => Self::HalfNormal { scale: factor * scale },
            Self::HalfCauchy { scale } => Self::HalfCauchy { scale: factor * scale },
            Self::Exponential { rate } => Self::Exponential { rate: rate / factor },
            Self::Gamma { shape, rate } => Self::Gamma { shape, rate: rate / factor },
            Self::InverseGamma { shape, scale } => Self::InverseGamma { shape, scale: factor * scale },
            Self::LogNormal { location, scale } => Self::LogNormal { location: location + factor.ln(), scale },
            Self::Lkj { shape } => Self::Lkj { shape },
        }
    }

    /// [`PriorDensity::rescaled`] for the prior of `what`; an error if its arguments cannot be used in the other units.
    ///
    /// # Panics
    /// As [`PriorDensity::rescaled`].
    pub fn rescaled_for(self, what: &str, factor: f64, shift: f64) -> Result<Self, Error> {
        let other = self.rescaled(factor, shift);
        other.check().map(|()| other).map_err(|_| {
            let problem = format!("prior `{self}` of {what} overflows in the units of the fit");
            let units = format!("{factor:e} times those given, shifted by {shift:e}");
            let hint = "change the units of the outcome or of the column, or the prior";
            Error::InvalidInput(format!("{problem}, which are {units} ({hint})"))
        })
    }

    /// Whether the density is log-concave in `x`, for a prior of all numbers.
    pub fn is_log_concave(self) -> bool {
        matches!(self, Self::Normal { .. } | Self::Laplace { .. } | Self::Logistic { .. })
    }

    /// A draw.
    ///
    /// # Panics
    /// For the prior of a correlation matrix, or if [`PriorDensity::check`] fails.
    pub(super) fn draw(self, rng: &mut impl Rng) -> f64 {
        let normal = |rng: &mut _| -> f64 { StandardNormal.sample(rng) };
        let uniform = |rng: &mut _| -> f64 { Open01.sample(rng) };
        match self {
            Self::Normal { mean, sd } => mean + sd * normal(rng),
            Self::StudentT { df, location, scale } => {
                location + scale * normal(rng) * (0.5 * df / standard_gamma(rng, 0.5 * df)).sqrt()
            }
            Self::Cauchy { location, scale } => location + scale * (PI * (uniform(rng) - 0.5)).tan(),
            Self::Laplace { location, scale } => {
                let u = 2.0 * uniform(rng) - 1.0;
                location - scale * u.signum() * (-u.abs()).ln_1p()
            }
            Self::Logistic { location, scale } => {
                let u = uniform(rng);
                location + scale * (u / (1.0 - u)).ln()
            }
            Self::HalfNormal { scale } => scale * normal(rng).abs(),
            Self::HalfCauchy { scale } => scale * (0.5 * PI * uniform(rng)).tan(),
            Self::Exponential { rate } => -uniform(rng).ln() / rate,
            Self::Gamma { shape, rate } => standard_gamma(rng, shape) / rate,
            Self::InverseGamma { shape, scale } => scale / standard_gamma(rng, shape),
            Self::LogNormal { location, scale } => (location + scale * normal(rng)).exp(),
            Self::Lkj { .. } => panic!("a correlation matrix is not a number"),
        }
    }
}

/// A draw from the gamma distribution with rate one; the shape itself if it is too large or too small for one.
pub(super) fn standard_gamma(rng: &mut impl Rng, shape: f64) -> f64 {
    Gamma::new(shape, 1.0).map_or(shape, |gamma| gamma.sample(rng))
}

/// With a precision, `{:.4}`, numbers have at most so many significant digits.
impl fmt::Display for PriorDensity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, values) = self.parts();
        let shown = |x: &f64| match f.precision() {
            Some(digits) => format!("{x:.*e}", digits.saturating_sub(1)).parse().unwrap_or(*x).to_string(),
            None => x.to_string(),
        };
        let values: Vec<String> = values.iter().map(shown).collect();
        write!(f, "{name}({})", values.join(", "))
    }
}

impl FromStr for PriorDensity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |problem: String| Err(Error::InvalidInput(format!("prior `{}`: {problem}", text.trim())));
        let parts = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
        let Some((name, arguments)) = parts else {
            return bad("expected a name with numbers in parentheses, such as normal(0, 2.5)".into());
        };
        let name = name.trim().to_lowercase();
        let Some((_, expected)) = NAMES.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return bad(format!("there is no distribution `{name}` (there are {})", names.join(", ")));
        };
        let mut values = Vec::new();
        for argument in arguments.split(',') {
            match argument.trim().parse::<f64>() {
                Ok(x) => values.push(x),
                Err(_) => return bad(format!("`{}` is not a number", argument.trim())),
            }
        }
        match Self::from_parts(&name, &values) {
            Some(prior) => prior.check().map(|()| prior),
            None => bad(format!("expected {name}({}), not {} numbers", expected.join(", "), values.len())),
        }
    }
}

#[cfg(test)]
mod tests;
