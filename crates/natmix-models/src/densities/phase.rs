//! Phases of radio waves through the ionosphere: a posterior with one ridge for each turn of the phase.
//!
//! A signal of frequency `f_i` arrives with phase `phi_i = a_i tec + const`, `a_i = -8.4479745e6 / f_i`, where `tec` is the
//! electron content along its path in thousandths of the usual unit (10^16 per square metre). Cosine and sine of each phase are
//! read with noise of variance `v`; `tec` and `const` are uniform between bounds:
//!
//! ```text
//! log p(tec, const) = sum_i log N((cos_i, sin_i); (cos phi_i, sin phi_i), v I) - log(widths of the bounds)
//! d/dphi_i   = (sin_i cos phi_i - cos_i sin phi_i) / v
//! d2/dphi_i2 = -(cos_i cos phi_i + sin_i sin phi_i) / v
//! ```
//!
//! A full turn of all phases changes nothing, so the density has several parallel ridges in `const` and `tec`, cut
//! off by the bounds. Fits use [`PhaseDensity::unconstrained`]: the same density over unbounded coordinates.
//!
//! ```
//! use natmix::target::Target;
//! use natmix::target::log_p_at;
//! use natmix_models::densities::PhaseDensity;
//!
//! let (cos, sin) = (vec![1.0], vec![0.0]);
//! let phase = PhaseDensity::new(&[150e6], &cos, &sin, 0.5, [-100.0, 100.0], [-3.0, 3.0]).unwrap();
//! let pi = std::f64::consts::PI;
//! assert!((log_p_at(&phase, &[0.0, 0.0]).unwrap() + pi.ln() + 200f64.ln() + 6f64.ln()).abs() < 1e-12);
//! assert_eq!(phase.unconstrained().unwrap().parameter_names(), ["tec", "const"]);
//! ```

use super::check;
use crate::prior::LOG_TAU;
use natmix::Error;
use natmix::target::pointwise::Hessian;
use natmix::transform::{Block, Constraint, Transformed};

/// Phase in radians, times the frequency in hertz, per thousandth of a unit of electron content.
const TURN: f64 = -8.4479745e6;

/// One frequency: the slope `a_i` of its phase in `tec`, and the observed cosine and sine.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    slope: f64,
    cos: f64,
    sin: f64,
}

/// Electron content and phase offset given noisy phases, prior times likelihood with all constants.
/// See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseDensity {
    readings: Vec<Reading>,
    noise_variance: f64,
    tec: [f64; 2],
    offset: [f64; 2],
}

impl PhaseDensity {
    /// The posterior after reading `cos` and `sin` at `frequencies` (in hertz), with noise of variance `noise_variance`
    /// on each, where `tec` and the offset `const` have uniform priors between their bounds.
    pub fn new(
        frequencies: &[f64],
        cos: &[f64],
        sin: &[f64],
        noise_variance: f64,
        tec: [f64; 2],
        offset: [f64; 2],
    ) -> Result<Self, Error> {
        if frequencies.is_empty() {
            return check::invalid("frequencies are empty, expected at least one".into());
        }
        check::positive("frequencies", frequencies, frequencies.len())?;
        check::finite("cos", cos, frequencies.len())?;
        check::finite("sin", sin, frequencies.len())?;
        check::positive("noise_variance", &[noise_variance], 1)?;
        for (name, bounds) in [("bounds of tec", tec), ("bounds of const", offset)] {
            check::finite(name, &bounds, 2)?;
            let width = bounds[1] - bounds[0];
            if !(width > 0.0 && width.is_finite()) {
                return check::invalid(format!("{name} are {bounds:?}, expected a lower and a higher one"));
            }
        }
        let reading = |((f, cos), sin): ((&f64, &f64), &f64)| Reading { slope: TURN / f, cos: *cos, sin: *sin };
        let readings = frequencies.iter().zip(cos).zip(sin).map(reading).collect();
        Ok(Self { readings, noise_variance, tec, offset })
    }

    /// The same density over unconstrained coordinates, reported as `tec` and `const`.
    pub fn unconstrained(self) -> Result<Transformed<Self>, Error> {
        let block = |name: &str, [low, high]: [f64; 2]| Block {
            name: name.into(),
            size: 1,
            constraint: Constraint::Interval { low, high },
        };
        let blocks = vec![block("tec", self.tec), block("const", self.offset)];
        Transformed::new(self, blocks)
    }

    fn at(&self, x: &[f64], grad: Option<&mut [f64]>, hess: Option<&mut Hessian<'_>>) -> f64 {
        let precision = 1.0 / self.noise_variance;
        let mut squares = 0.0;
        let (mut slope_tec, mut slope_offset) = (0.0, 0.0);
        let (mut tec_tec, mut tec_offset, mut offset_offset) = (0.0, 0.0, 0.0);
        for &Reading { slope, cos, sin } in &self.readings {
            let (sin_phi, cos_phi) = (slope * x[0] + x[1]).sin_cos();
            squares += (cos - cos_phi).powi(2) + (sin - sin_phi).powi(2);
            let first = precision * (sin * cos_phi - cos * sin_phi);
            slope_tec += slope * first;
            slope_offset += first;
            let second = -precision * (cos * cos_phi + sin * sin_phi);
            tec_tec += slope * slope * second;
            tec_offset += slope * second;
            offset_offset += second;
        }
        if let Some(grad) = grad {
            grad.copy_from_slice(&[slope_tec, slope_offset]);
        }
        if let Some(hess) = hess {
            hess.add(0, 0, tec_tec);
            hess.add(0, 1, tec_offset);
            hess.add(1, 1, offset_offset);
        }
        let widths = (self.tec[1] - self.tec[0]).ln() + (self.offset[1] - self.offset[0]).ln();
        -0.5 * precision * squares - self.readings.len() as f64 * (LOG_TAU + self.noise_variance.ln()) - widths
    }
}

pointwise_target!(PhaseDensity, |_density| 2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::densities::derivatives::{Uniform, check_derivatives};
    use natmix::target::{Target, log_p_at};

    fn phase() -> PhaseDensity {
        let mut uniform = Uniform(8);
        let frequencies: Vec<f64> = (0..24).map(|i| 121e6 + 2e6 * f64::from(i)).collect();
        let mut readings = || (0..24).map(|_| 1.5 * uniform.next()).collect::<Vec<f64>>();
        let (cos, sin) = (readings(), readings());
        PhaseDensity::new(&frequencies, &cos, &sin, 0.5, [-100.0, 100.0], [-3.0, 3.0]).unwrap()
    }

    #[test]
    fn derivatives() {
        check_derivatives(&phase(), &Uniform(9).points(40, 2, 3.0), 1e-3);
        check_derivatives(&phase().unconstrained().unwrap(), &Uniform(10).points(40, 2, 3.0), 1e-3);
    }

    #[test]
    fn a_turn_of_the_phase_changes_nothing() {
        let phase = phase();
        for x in [[3.0, 1.0], [-40.0, -2.0]] {
            let turned = [x[0], x[1] + std::f64::consts::TAU];
            let values = [x, turned].map(|x| log_p_at(&phase, &x).unwrap());
            assert!((values[0] - values[1]).abs() < 1e-10, "{values:?}");
        }
    }

    /// The integral over unbounded coordinates equals the integral between the bounds.
    #[test]
    fn the_unconstrained_density_has_the_same_integral() {
        let (phase, n) = (phase(), 400);
        let cell = |range: [f64; 2], i: usize| range[0] + (range[1] - range[0]) * (i as f64 + 0.5) / n as f64;
        let integral = |target: &dyn Target, ranges: [[f64; 2]; 2]| -> f64 {
            let area: f64 = ranges.iter().map(|range| (range[1] - range[0]) / n as f64).product();
            let at = |i: usize| log_p_at(target, &[cell(ranges[0], i / n), cell(ranges[1], i % n)]).unwrap();
            (0..n * n).map(|i| at(i).exp()).sum::<f64>() * area
        };
        let inside = integral(&phase, [[-100.0, 100.0], [-3.0, 3.0]]);
        let everywhere = integral(&phase.unconstrained().unwrap(), [[-25.0, 25.0]; 2]);
        assert!((everywhere / inside - 1.0).abs() < 1e-3, "{everywhere:e}, expected {inside:e}");
    }

    #[test]
    fn bad_input_is_refused() {
        let make =
            |f: &[f64], cos: &[f64], v: f64, tec: [f64; 2]| PhaseDensity::new(f, cos, &[0.0], v, tec, [-3.0, 3.0]);
        let message = |result: Result<PhaseDensity, Error>| result.unwrap_err().to_string();
        let wide = [-1.0, 1.0];
        assert!(make(&[1e8], &[1.0], 0.5, wide).is_ok());
        assert!(message(make(&[], &[], 0.5, wide)).contains("frequencies are empty"));
        assert!(message(make(&[0.0], &[1.0], 0.5, wide)).contains("frequencies holds 0"));
        assert!(message(make(&[1e8], &[1.0, 2.0], 0.5, wide)).contains("cos, length: found 2, expected 1"));
        assert!(message(make(&[1e8], &[1.0], 0.0, wide)).contains("noise_variance"));
        assert!(message(make(&[1e8], &[1.0], 0.5, [1.0, 1.0])).contains("bounds of tec"));
        assert!(message(make(&[1e8], &[1.0], 0.5, [-f64::MAX, f64::MAX])).contains("bounds of tec"));
    }
}
