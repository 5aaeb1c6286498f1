//! Second derivatives of each family's log likelihood, row by row.
//!
//! What [`super::likelihood`] leaves to totals over rows is added by [`super::auxiliary`] here, too.

use super::family::Family;
use super::outcome::Observed;

/// Derivatives at one row: in the predictor `eta`, and in the coordinates of the family's positive parameters, at most two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    /// The slope in the predictor.
    pub slope: f64,
    /// The second derivative in the predictor.
    pub eta: f64,
    /// Those in the predictor and a parameter.
    pub crossed: [f64; 2],
    /// Those in two parameters: first and first, first and second, second and second.
    pub own: [f64; 3],
}

/// `1/(1 + exp(-x))`, `log(1 + exp x)` and `s(x) s(-x)`.
pub(super) fn logistic(x: f64) -> (f64, f64, f64) {
    let t = (-x.abs()).exp();
    let share = if x >= 0.0 { 1.0 } else { t } / (1.0 + t);
    (share, x.max(0.0) + t.ln_1p(), t / ((1.0 + t) * (1.0 + t)))
}

/// At a row of any family but the ordinal one, with the coordinates `z` of the family's parameters.
pub(super) fn at_row(family: Family, y: f64, other: f64, eta: f64, z: &[f64]) -> Second {
    match family {
        Family::Linear => {
            let (prec, residual) = ((-2.0 * z[0]).exp(), y - eta);
            let slope = prec * residual;
            Second { slope, eta: -prec, crossed: [-2.0 * slope, 0.0], own: [-2.0 * slope * residual, 0.0, 0.0] }
        }
        Family::Logistic | Family::Binomial => {
            let (success, _, variance) = logistic(eta);
            let trials = y + other;
            Second { slope: y - trials * success, eta: -trials * variance, ..Second::default() }
        }
        Family::Poisson => Second { slope: y - eta.exp(), eta: -eta.exp(), ..Second::default() },
        Family::NegativeBinomial => {
            let shape = z[0].exp();
            let (success, softplus, variance) = logistic(eta - z[0]);
            let curv = -(y + shape) * variance;
            Second {
                slope: y - (y + shape) * success,
                eta: curv,
                crossed: [-curv - shape * success, 0.0],
                own: [curv + shape * (2.0 * success - softplus), 0.0, 0.0],
            }
        }
        Family::Robust => {
            let (df, prec, residual) = (z[1].exp(), (-2.0 * z[0] - z[1]).exp(), y - eta);
            let square = prec * residual * residual;
            let inverse = 1.0 / (1.0 + square);
            let (share, steep) = (square * inverse, square * inverse * inverse);
            let pull = prec * residual * inverse;
            Second {
                slope: (df + 1.0) * pull,
                eta: -(df + 1.0) * prec * inverse * (1.0 - 2.0 * share),
                crossed: [-2.0 * (df + 1.0) * pull * inverse, pull * (df - (df + 1.0) * inverse)],
                own: [
                    -2.0 * (df + 1.0) * steep,
                    df * share - (df + 1.0) * steep,
                    -0.5 * df * square.ln_1p() + df * share - 0.5 * (df + 1.0) * steep,
                ],
            }
        }
        Family::Gamma => {
            let (shape, above) = (z[0].exp(), y - eta);
            let slope = shape * above.exp_m1();
            Second { slope, eta: -shape * above.exp(), crossed: [slope, 0.0], own: [shape * above - slope, 0.0, 0.0] }
        }
        Family::Survival => {
            let shape = z[0].exp();
            let u = shape * (y - eta);
            let hazard = u.exp();
            let slope = shape * (hazard - other);
            Second {
                slope,
                eta: -shape * shape * hazard,
                crossed: [slope + shape * u * hazard, 0.0],
                own: [u * (other - hazard) - u * u * hazard, 0.0, 0.0],
            }
        }
        // Between two cut points: see `super::curvature`.
        Family::Ordinal { .. } => Second::default(),
    }
}

/// Derivatives of the log density of one outcome in its predictor, everything being in the units of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfOutcome {
    pub slope: f64,
    /// Minus the second derivative.
    pub information: f64,
    /// A number that is never negative, with which steps never lose: the same for log-concave densities.
    pub metric: f64,
}

/// At an outcome of any family, given the family's own parameters.
pub(super) fn at_observed(family: Family, own: &[f64], eta: f64, observed: Observed) -> OfOutcome {
    let Observed { y, trials, seen } = observed;
    if let Family::Ordinal { .. } = family {
        let k = y as usize;
        let beyond = |x: Option<f64>| x.map_or((0.0, 0.0), |x| (logistic(x).0, logistic(x).2));
        let (above, first) = beyond(own.get(k).map(|cut| eta - cut));
        let (below, second) = beyond(k.checked_sub(1).and_then(|k| own.get(k)).map(|cut| cut - eta));
        return OfOutcome { slope: below - above, information: first + second, metric: first + second };
    }
    let (y, other) = match family {
        Family::Logistic | Family::Binomial => (y, trials - y),
        Family::Gamma | Family::Survival => (y.ln(), f64::from(u8::from(seen))),
        _ => (y, 0.0),
    };
    let mut z = [0.0; 2];
    z.iter_mut().zip(own).for_each(|(z, x)| *z = x.ln());
    let Second { slope, eta: curv, .. } = at_row(family, y, other, eta, &z);
    let metric = match family {
        // The weight of its residual as a normal one: Student's density lies above the normal one that touches it.
        Family::Robust if y != eta => slope / (y - eta),
        _ => -curv,
    };
    OfOutcome { slope, information: -curv, metric }
}

#[cfg(test)]
mod tests {
    use super::super::tests::FAMILIES;
    use super::*;

    #[test]
    fn derivatives_of_single_outcomes_are_those_of_their_density() {
        for family in FAMILIES {
            let (own, y): (&[f64], f64) = match family {
                Family::Linear | Family::Robust => (&[1.3, 4.0], 2.1),
                Family::Ordinal { .. } => (&[-0.8, 0.3, 1.4, 2.0], 1.0),
                Family::Gamma | Family::Survival => (&[1.7], 2.6),
                _ => (&[2.5], 1.0),
            };
            let own = if let Family::Ordinal { categories } = family { &own[..categories - 1] } else { own };
            for (eta, seen, y) in [(0.4, true, y), (-1.1, false, y), (0.7, true, 0.0), (2.0, true, 2.0)] {
                let y = match family {
                    Family::Gamma | Family::Survival => y.max(0.1),
                    Family::Logistic => y.min(1.0),
                    _ => y,
                };
                let observed = Observed { y, trials: if family == Family::Binomial { 5.0 } else { 1.0 }, seen };
                let h = 1e-4;
                let value = |eta: f64| family.log_density(own, eta, observed);
                let slope = (value(eta + h) - value(eta - h)) / (2.0 * h);
                let curv = (value(eta + h) - 2.0 * value(eta) + value(eta - h)) / (h * h);
                let at = at_observed(family, own, eta, observed);
                assert!((at.slope - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{family:?}: {} {slope}", at.slope);
                assert!((at.information + curv).abs() < 1e-5 * (1.0 + curv.abs()), "{family:?}: {}", at.information);
                assert!(at.metric >= 0.0 && at.metric >= at.information - 1e-12, "{family:?}");
            }
        }
    }
}
