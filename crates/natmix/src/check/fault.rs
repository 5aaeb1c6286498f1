//! What is wrong with a gradient, from its coordinates: a factor, a sign, a shift, and more.

use super::line::{Line, Sample};
use std::fmt;

/// How far ratios, and other figures that should be equal, may differ.
const EQUAL: f64 = 0.03;
/// Relative error from which on a coordinate counts as wrong.
const WRONG: f64 = 0.005;
/// Share of the largest contribution from which on a coordinate says something about ratios.
const INFORMATIVE: f64 = 0.01;
/// Digits to which ratios are shown: they are not known better.
pub(crate) const RATIO_DIGITS: usize = 3;
/// How well a shift must predict the discrepancy along other lines.
const PREDICTED: f64 = 0.1;

/// What is wrong with a gradient, as far as it can be recognised.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GradientFault {
    /// It has the wrong sign.
    Sign,
    /// It is this many times too large.
    Factor(f64),
    /// It differs by the same vector everywhere, as if the density were shifted.
    Shift,
    /// It is zero in these coordinates, where the density is not constant.
    Zero(Vec<String>),
    /// These two coordinates are swapped.
    Swapped(String, String),
    /// It is wrong in some coordinates.
    Some {
        /// How many are wrong.
        wrong: usize,
        /// Of how many.
        of: usize,
    },
}

impl fmt::Display for GradientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sign => f.write_str("it has the wrong sign"),
            Self::Factor(ratio) if *ratio < 0.0 => {
                write!(f, "it has the wrong sign and is {} times too large", short(-ratio, RATIO_DIGITS))
            }
            Self::Factor(ratio) if *ratio < 1.0 => {
                write!(f, "it is {} times too small", short(1.0 / ratio, RATIO_DIGITS))
            }
            Self::Factor(ratio) => write!(f, "it is {} times too large", short(*ratio, RATIO_DIGITS)),
            Self::Shift => f.write_str("it differs by the same vector everywhere, as if the density were shifted"),
            Self::Zero(names) => write!(f, "it is zero in {}, but log p is not constant there", listed(names)),
            Self::Swapped(a, b) => write!(f, "the coordinates `{a}` and `{b}` are swapped"),
            Self::Some { wrong, of } if wrong == of => f.write_str("it is wrong in every coordinate"),
            Self::Some { wrong, of } => write!(f, "it is wrong in {wrong} of {of} coordinates"),
        }
    }
}

/// Some names; the first few if there are many.
fn listed(names: &[String]) -> String {
    const MOST: usize = 4;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A number with about this many digits.
pub(crate) fn short(x: f64, digits: usize) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let exponent = x.abs().log10().floor();
    if !(-4.0..6.0).contains(&exponent) {
        return format!("{x:.*e}", digits - 1);
    }
    let text = format!("{x:.*}", (digits as f64 - 1.0 - exponent).max(0.0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The slope of log p along one coordinate between two points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slopes {
    /// By the gradient: the mean of its values at both points.
    pub gradient: f64,
    /// By the difference of log p.
    pub difference: f64,
    /// Largest change of any coordinate of the gradient between the two points.
    change: f64,
}

impl Slopes {
    /// Between two points that differ in coordinate `i` alone.
    pub fn between(from: &Sample, to: &Sample, i: usize) -> Self {
        let width = to.z[i] - from.z[i];
        let change = from.grad.iter().zip(&to.grad).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
        Self { gradient: 0.5 * (from.grad[i] + to.grad[i]), difference: (to.log_p - from.log_p) / width, change }
    }

    pub fn gap(&self) -> f64 {
        let gap = self.gradient - self.difference;
        if gap.is_finite() { gap } else { 0.0 }
    }

    fn size(&self) -> f64 {
        let size = self.gradient.abs().max(self.difference.abs());
        if size.is_finite() { size } else { 0.0 }
    }

    fn is_wrong(&self) -> bool {
        self.gap().abs() > WRONG * self.size()
    }

    fn ratio(&self) -> f64 {
        self.gradient / self.difference
    }
}

fn equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= EQUAL * a.abs().max(b.abs())
}

/// Recognises what is wrong from the slopes of all coordinates at one draw, and the lines at other draws.
pub(super) fn name_fault(slopes: &[Slopes], direction: &[f64], others: &[&Line], names: &[String]) -> GradientFault {
    let contribution = |i: usize| slopes[i].size() * direction[i].abs();
    let largest = (0..slopes.len()).map(contribution).fold(0.0, f64::max);
    let informative: Vec<usize> = (0..slopes.len()).filter(|&i| contribution(i) > INFORMATIVE * largest).collect();
    let wrong: Vec<usize> = informative.iter().copied().filter(|&i| slopes[i].is_wrong()).collect();
    let name = |i: usize| names.get(i).cloned().unwrap_or_else(|| format!("z{i}"));

    let mut ratios: Vec<f64> = informative.iter().map(|&i| slopes[i].ratio()).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
    let on_lines = || others.iter().map(|line| line.gap_and_quotient()).all(|(gap, q)| equal(gap + q, ratio * q));
    if ratio != 0.0 && ratios.iter().all(|other| equal(*other, ratio)) && on_lines() {
        return if equal(ratio, -1.0) { GradientFault::Sign } else { GradientFault::Factor(ratio) };
    }
    if !wrong.is_empty() && wrong.iter().all(|&i| slopes[i].gradient == 0.0) {
        return GradientFault::Zero(wrong.into_iter().map(name).collect());
    }
    let across = |a: usize, b: usize| {
        // The two slopes belong to different steps.
        let (x, y) = (slopes[a].gradient, slopes[b].difference);
        (x - y).abs() <= EQUAL * x.abs().max(y.abs()) + slopes[a].change + slopes[b].change
    };
    if let [a, b] = wrong[..]
        && across(a, b)
        && across(b, a)
    {
        return GradientFault::Swapped(name(a), name(b));
    }
    let predicted = |line: &&Line| {
        let gap: f64 = slopes.iter().zip(&line.direction).map(|(slopes, u)| slopes.gap() * u).sum();
        let seen = line.gap_and_quotient().0;
        (gap - seen).abs() <= PREDICTED * seen.abs()
    };
    if !others.is_empty() && others.iter().all(predicted) {
        return GradientFault::Shift;
    }
    GradientFault::Some { wrong: wrong.len().max(1), of: slopes.len() }
}
