//! Pareto-smoothed importance sampling: smooths the weights `p/q` of a set of draws and tells whether they are usable.
//!
//! Input: `n` log ratios `log p(z_i) - log q(z_i)`, up to a common constant. With `x_i` the ratios less their largest:
//!
//! 1. The tail is every `x_i` strictly above the cutoff `c`, the `(M + 1)`-th largest, `M = ceil(min(n/5, 3 sqrt n))`,
//!    but `c` is at least the log of the smallest normal double.
//! 2. A generalised Pareto distribution with shape `k` and scale `s` is fitted to the exceedances `e^x_i - e^c` by
//!    [`gpd_fit`]; its shape is `k_hat`.
//! 3. The j-th smallest of the `m` tail weights becomes `e^c + s ((1 - u)^-k - 1) / k`, `u = (j - 1/2) / m`, but at most
//!    the largest raw weight.
//! 4. The weights are normalised.
//!
//! Vehtari, Simpson, Gelman, Yao, Gabry (2024), *Pareto smoothed importance sampling*, JMLR 25(72); the fit is Zhang and
//! Stephens (2009), *Technometrics* 51(3). The numbers are those of `arviz.psislw` 0.23 with `reff = 1`. The newer
//! `arviz-stats` differs: it takes `floor` instead of `ceil` in step 1 and keeps ties of the cutoff in the tail.
//!
//! # Where we differ from ArviZ
//!
//! | input | here | ArviZ 0.23 |
//! |---|---|---|
//! | empty | `k_hat` = inf, no weights, `ess` = 0 | raises |
//! | at most 4 tail points | `k_hat` = inf, raw weights | the same |
//! | all ratios equal, to within 1e-8 | `k_hat` = 0, raw weights | k = inf, or a fit to rounding errors |
//! | some ratios -inf | weight zero | the same |
//! | all -inf, or any NaN or +inf | `k_hat`, `ess` and every weight NaN | k = inf, NaN weights |
//! | the fit is not finite | `k_hat` = NaN, raw weights | NaN weights with a finite k |
//!
//! Equal ratios are what an exact `q` gives, so they must be trusted and `k_hat` must be finite: 0 says "no heavier
//! than exponential", which is all that a tail without length can show. A NaN or +inf ratio is a failed evaluation of the
//! target; dropping it would hide that, so nothing is returned that could be mistaken for an answer.
//!
//! Tied tail ratios get different smoothed weights, in the order of their positions.
//!
//! ```
//! use natmix::psis::{smooth, trust_threshold};
//!
//! // Exponential quantiles: weights e^x with P(weight > t) = 1/t, a tail of shape 1, too heavy to use.
//! let ratios: Vec<f64> = (0..1000).map(|i| -(1.0 - (i as f64 + 0.5) / 1000.0f64).ln()).collect();
//! let psis = smooth(&ratios);
//! assert!((psis.k_hat - 0.9311).abs() < 1e-4);
//! assert!((trust_threshold(1000) - 2.0 / 3.0).abs() < 1e-15 && !psis.trusted());
//! ```

/// Log ratios closer together than this are equal: they differ by the rounding errors of `log p` and `log q`, whose
/// few distinct values have no tail to fit.
const EQUAL_RATIOS: f64 = 1e-8;
/// Fewest tail points to fit two parameters to.
const MIN_TAIL: usize = 5;
/// The fit's shape is averaged with this many pseudo-observations of [`PRIOR_SHAPE`].
const PRIOR_COUNT: f64 = 10.0;
const PRIOR_SHAPE: f64 = 0.5;

/// Smoothed importance weights and how far to trust them.
#[derive(Debug, Clone, PartialEq)]
pub struct Psis {
    /// Shape of the tail of the weights: moments of order below `1 / k_hat` exist. Not finite: no answer, no trust.
    pub k_hat: f64,
    /// Smoothed log weights in the order of the ratios, normalised: their log-sum-exp is zero.
    pub log_weights: Vec<f64>,
    /// Effective sample size, `1 / sum w_i^2` of the smoothed normalised weights.
    pub ess: f64,
}

impl Psis {
    /// Whether estimates made with these weights can be relied on: `k_hat` finite and below [`trust_threshold`].
    pub fn trusted(&self) -> bool {
        self.k_hat.is_finite() && self.k_hat < trust_threshold(self.log_weights.len())
    }

    fn normalised(k_hat: f64, mut log_weights: Vec<f64>) -> Self {
        let log_total = log_weights.iter().map(|x| x.exp()).sum::<f64>().ln();
        log_weights.iter_mut().for_each(|x| *x -= log_total);
        let ess = 1.0 / log_weights.iter().map(|x| (2.0 * x).exp()).sum::<f64>();
        Self { k_hat, log_weights, ess }
    }
}

/// The largest `k_hat` to trust with `n` draws: `min(1 - 1/log10 n, 0.7)`; minus infinity below two draws.
pub fn trust_threshold(n: usize) -> f64 {
    if n < 2 { f64::NEG_INFINITY } else { (1.0 - 1.0 / (n as f64).log10()).min(0.7) }
}

/// Smooths the importance weights whose logs are `log_ratios`; a constant added to all of them changes nothing.
///
/// Never panics; the table above says what unusual inputs give.
pub fn smooth(log_ratios: &[f64]) -> Psis {
    let n = log_ratios.len();
    let Some(mut x) = less_largest(log_ratios) else {
        return match n {
            0 => Psis { k_hat: f64::INFINITY, log_weights: Vec::new(), ess: 0.0 },
            _ => Psis { k_hat: f64::NAN, log_weights: vec![f64::NAN; n], ess: f64::NAN },
        };
    };
    let tail = match Tail::of(&x) {
        Ok(tail) => tail,
        Err(k_hat) => return Psis::normalised(k_hat, x),
    };
    for (j, &i) in tail.members.iter().enumerate() {
        let level = (j as f64 + 0.5) / tail.members.len() as f64;
        x[i] = (tail.cutoff.exp() + gpd_quantile(level, tail.shape, tail.scale)).ln().min(0.0);
    }
    Psis::normalised(tail.shape, x)
}

/// The `k_hat` of [`smooth`], without the weights, which take longer.
pub(crate) fn k_hat(log_ratios: &[f64]) -> f64 {
    match less_largest(log_ratios) {
        Some(x) => Tail::of(&x).map_or_else(|k_hat| k_hat, |tail| tail.shape),
        None if log_ratios.is_empty() => f64::INFINITY,
        None => f64::NAN,
    }
}

/// The ratios less their largest; nothing where there are none, or where they cannot be used.
fn less_largest(log_ratios: &[f64]) -> Option<Vec<f64>> {
    let largest = log_ratios.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let usable = largest.is_finite() && !log_ratios.iter().any(|x| x.is_nan());
    usable.then(|| log_ratios.iter().map(|r| r - largest).collect())
}

/// The tail of weights, with the distribution fitted to it.
struct Tail {
    /// Positions, in ascending order of the weights.
    members: Vec<usize>,
    /// Log of the weight at which it begins.
    cutoff: f64,
    shape: f64,
    scale: f64,
}

impl Tail {
    /// Fails with `k_hat` where the weights stay as they are.
    fn of(x: &[f64]) -> Result<Self, f64> {
        let n = x.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&i, &j| x[i].total_cmp(&x[j]));
        if x[order[0]] >= -EQUAL_RATIOS {
            return Err(0.0);
        }
        // n >= 2 here, as one finite ratio equals itself; so the tail is shorter than n.
        let tail_length = (n as f64 / 5.0).min(3.0 * (n as f64).sqrt()).ceil() as usize;
        let cutoff = x[order[n - tail_length - 1]].max(f64::MIN_POSITIVE.ln());
        let members = order.split_off(order.partition_point(|&i| x[i] <= cutoff));
        if members.len() < MIN_TAIL {
            return Err(f64::INFINITY);
        }
        // e^x - e^c, without cancellation where the ratios are nearly equal.
        let exceedances: Vec<f64> = members.iter().map(|&i| cutoff.exp() * (x[i] - cutoff).exp_m1()).collect();
        let (shape, scale) = gpd_fit(&exceedances);
        if shape.is_finite() && scale.is_finite() { Ok(Self { members, cutoff, shape, scale }) } else { Err(f64::NAN) }
    }
}

/// Fits a generalised Pareto distribution `P(Y > y) = (1 + k y / s)^(-1/k)` to positive values in ascending order;
/// returns `(k, s)`, or NaNs if the values allow no fit (none, not positive, not finite).
///
/// With `b = -k / s`, the likelihood maximised over `k` at given `b` is in closed form, `k(b) = mean log(1 - b y)` and
/// `l(b) = n (log(-b / k) - k - 1)`. The estimate of `b` is its mean under `e^l` over the `30 + floor(sqrt n)` points
/// `1 / y_n + (1 - sqrt(m / (i - 1/2))) / (3 y_q)`, `y_q` the lower quartile: quantiles of a weak prior. The shape is
/// then shrunk to 1/2 with the weight of 10 observations, which steadies it for short tails; the scale is not.
///
/// ```
/// let values: Vec<f64> = (0..200).map(|i| -3.0 * (1.0 - (i as f64 + 0.5) / 200.0f64).ln()).collect();
/// let (shape, scale) = natmix::psis::gpd_fit(&values); // exponential: shape 0, scale 3
/// assert!(shape.abs() < 0.05 && (scale - 3.0).abs() < 0.2);
/// ```
pub fn gpd_fit(sorted_exceedances: &[f64]) -> (f64, f64) {
    let y = sorted_exceedances;
    let Some(&largest) = y.last() else { return (f64::NAN, f64::NAN) };
    let n = y.len() as f64;
    let quartile = y[((n / 4.0 + 0.5) as usize).saturating_sub(1)];
    let shape_at = |b: f64| y.iter().map(|&v| (-b * v).ln_1p()).sum::<f64>() / n;
    // -k/b is 0/0 at b = 0, where the fit is the exponential distribution.
    let scale_at = |b: f64, k: f64| if b == 0.0 { y.iter().sum::<f64>() / n } else { -k / b };

    let grid_size = 30 + n.sqrt() as usize;
    let grid: Vec<(f64, f64)> = (0..grid_size)
        .map(|i| {
            let spread = 1.0 - (grid_size as f64 / (i as f64 + 0.5)).sqrt();
            let b = 1.0 / largest + spread / (3.0 * quartile);
            let k = shape_at(b);
            (b, n * (-scale_at(b, k).ln() - k - 1.0))
        })
        .collect();
    if !(quartile > 0.0 && grid.iter().all(|(b, l)| b.is_finite() && l.is_finite())) {
        return (f64::NAN, f64::NAN);
    }
    let best = grid.iter().fold(f64::NEG_INFINITY, |a, &(_, l)| a.max(l));
    let total: f64 = grid.iter().map(|(_, l)| (l - best).exp()).sum();
    // Points of negligible posterior weight are left out, as their b can be enormous.
    let (mut weight_sum, mut b_sum) = (0.0, 0.0);
    for &(b, l) in &grid {
        let weight = (l - best).exp() / total;
        if weight >= 10.0 * f64::EPSILON {
            weight_sum += weight;
            b_sum += weight * b;
        }
    }
    let b = b_sum / weight_sum;
    let k = shape_at(b);
    ((n * k + PRIOR_COUNT * PRIOR_SHAPE) / (n + PRIOR_COUNT), scale_at(b, k))
}

fn gpd_quantile(level: f64, shape: f64, scale: f64) -> f64 {
    let log_survival = (-level).ln_1p();
    if shape.abs() < f64::EPSILON { -scale * log_survival } else { scale * (-shape * log_survival).exp_m1() / shape }
}
