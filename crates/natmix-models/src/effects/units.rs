//! Units of the fit: columns and outcomes, centred and scaled, and parameters back in the units of the data.

use super::data::EffectsData;
use super::family::Family;
use serde::{Deserialize, Serialize};

/// The normal distribution's interquartile range in standard deviations.
const QUARTILES: f64 = 1.348_979_500_392_163_4;

/// Centre and scale of a column or of the outcome: the fit works with `(x - centre) / scale`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unit {
    pub centre: f64,
    pub scale: f64,
}

impl Unit {
    pub const NONE: Self = Self { centre: 0.0, scale: 1.0 };

    fn new(centre: f64, scale: f64) -> Self {
        // Squares of scales and their inverses are used, too.
        let usable = centre.is_finite() && crate::prior::usable_sd(scale);
        if usable { Self { centre, scale } } else { Self::NONE }
    }

    /// Of a column of `x` or `z`: mean and standard deviation, but a column of zeros and ones stays as it is.
    pub fn of_column(values: impl Iterator<Item = f64> + Clone, centred: bool) -> Self {
        if values.clone().all(|x| x == 0.0 || x == 1.0) {
            return Self::NONE;
        }
        let (mean, sd) = moments(values);
        Self::new(if centred { mean } else { 0.0 }, sd)
    }

    /// Of the outcome.
    pub fn of_outcome(family: Family, data: &EffectsData, centred: bool) -> Self {
        let centre = |x: f64| if centred { x } else { 0.0 };
        match family {
            Family::Linear => {
                let (mean, sd) = moments(data.y.iter().copied());
                Self::new(centre(mean), sd)
            }
            Family::Robust => {
                // Outliers must not decide.
                let mut sorted = data.y.clone();
                sorted.sort_by(f64::total_cmp);
                let quantile = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
                let spread = (quantile(0.75) - quantile(0.25)) / QUARTILES;
                let scale = if spread > 0.0 { spread } else { moments(data.y.iter().copied()).1 };
                Self::new(centre(quantile(0.5)), scale)
            }
            Family::Gamma | Family::Survival => Self::new(centre(moments(data.y.iter().map(|y| y.ln())).0), 1.0),
            _ => Self::NONE,
        }
    }
}

/// Mean and standard deviation (divisor n - 1), which is zero if all values are the same.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    // The sum of equal values is rounded: they would have a tiny standard deviation.
    let mut others = values.clone();
    if let Some(first) = others.next().filter(|first| others.all(|x| x == *first)) {
        return (first, 0.0);
    }
    let n = values.clone().count() as f64;
    let mean = values.clone().map(|x| x / n).sum::<f64>();
    let square = values.map(|x| (x - mean) * (x - mean)).sum::<f64>();
    (mean, (square / (n - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_values() {
        let of = |values: &[f64], centred| Unit::of_column(values.iter().copied(), centred);
        assert_eq!(of(&[1.0, 3.0, 5.0], true), Unit { centre: 3.0, scale: 2.0 });
        assert_eq!(of(&[1.0, 3.0, 5.0], false), Unit { centre: 0.0, scale: 2.0 });
        for plain in [&[0.0, 1.0, 1.0][..], &[1.0, 1.0], &[7.0, 7.0], &[3.0]] {
            assert_eq!(of(plain, true), Unit::NONE, "{plain:?}");
        }
        // Ten times 0.1 is not quite one when added up.
        let constant = [0.1; 10];
        let data = |y: &[f64]| EffectsData { y: y.to_vec(), ..EffectsData::default() };
        for centred in [true, false] {
            assert_eq!(of(&constant, centred), Unit::NONE);
            for family in [Family::Linear, Family::Robust] {
                assert_eq!(Unit::of_outcome(family, &data(&constant), centred), Unit::NONE, "{family:?}");
            }
        }
        let robust = Unit::of_outcome(Family::Robust, &data(&[0.0, 1.0, 2.0, 3.0, 1e9]), true);
        assert_eq!(robust, Unit { centre: 2.0, scale: 2.0 / QUARTILES });
        let gamma = Unit::of_outcome(Family::Gamma, &data(&[1.0, 100.0]), true);
        assert!((gamma.centre - 10f64.ln()).abs() < 1e-15 && gamma.scale == 1.0);
        assert_eq!(Unit::of_outcome(Family::Poisson, &data(&[1.0, 100.0]), true), Unit::NONE);
    }
}
