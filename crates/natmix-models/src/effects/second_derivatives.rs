//! Second derivatives of each family's log likelihood, row by row.
//!
//! What [`super::likelihood`] leaves to totals over rows is added by [`super::auxiliary`] here, too.

use super::family::Family;

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
