//! Coordinates in which a hierarchy is easier to walk: others are measured in units of a scale that depends on a few of them.
//!
//! Where some coordinates (log standard deviations of groups, say) determine how far others spread, no single metric fits: the
//! density is a funnel. Draws show it: the log of the squared distance of `z_i` from what the others predict for it then rises
//! with `z_s`. Given its scale, a coordinate of a hierarchy is about normal, with a precision that has a part that depends on the
//! scale and one that does not (prior and data, or the other way round), and a mean that lies between the two accordingly. With
//! `u` the standardised `z_s`, and `k` the standard deviation of the log scale:
//!
//! ```text
//! centred:      E = e^(-2ku),  precision ~ P = w E + 1 - w,  A = w E / P,  B = A
//! non-centred:  E = e^(+2ku),  precision ~ P = w E + 1 - w,  A = w E / P,  B = A e^(-ku)
//! mean m_i = a + (b + sum_g h_g (z_g - mean of z_g)) B
//! ```
//!
//! The `z_g` are locations, such as the mean of the groups, around which the others shrink. The chains move in `y`:
//!
//! ```text
//! z_s = y_s,    z_i = m_i + P^(-1/2) (y_i - l_i),    log det = sum_i -1/2 log P_i
//! ```
//!
//! where `l_i` is what is linear in `m_i`. This is a partly non-centred parametrisation whose degree `w` is read off the draws,
//! for each coordinate. Around the mean it is the identity, so that the metric can stay as it is; everywhere it is one to one, so
//! that a poor choice makes chains slow, not wrong.

mod find;
mod stored;

pub(super) use stored::ScaleCounts;

/// Most coordinates that others take their scale from, and most that they shrink around.
const MOST_SCALES: usize = 6;
const MOST_LOCATIONS: usize = 4;
/// Bound of exponents, and of `u` in what is linear.
const MOST_EXPONENT: f64 = 200.0;
const REACH: f64 = 3.0;

/// Which coordinates take their scale from which.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scales {
    d: usize,
    from: Vec<Scale>,
    /// The locations, with their means.
    around: Vec<(usize, f64)>,
    scaled: Vec<Scaled>,
}

/// A coordinate that others take their scale from.
#[derive(Clone, Debug, PartialEq)]
struct Scale {
    coordinate: usize,
    mean: f64,
    sd: f64,
    /// Standard deviation of the log scale.
    k: f64,
}

/// A coordinate that takes its scale from another.
#[derive(Clone, Debug, PartialEq)]
struct Scaled {
    coordinate: usize,
    /// Which of the scales it is.
    scale: usize,
    form: Form,
    /// `a`, `b` and the `h_g`.
    centre: f64,
    along: f64,
    shift: Vec<f64>,
}

/// How mean and precision of a coordinate depend on its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Form {
    centred: bool,
    /// The share `w`.
    share: f64,
    k: f64,
}

/// A form at one point.
struct Shape {
    /// `P`, `A`, `B` and its derivative by `u`.
    precision: f64,
    share: f64,
    mean: f64,
    rise: f64,
}

impl Form {
    /// `shrink` is `e^(-ku)`.
    fn at(&self, shrink: f64) -> Shape {
        let Self { centred, share: w, k } = *self;
        let (sign, e) = if centred { (1.0, shrink * shrink) } else { (-1.0, (shrink * shrink).recip()) };
        let precision = w * e + 1.0 - w;
        let share = w * e / precision;
        let change = -2.0 * sign * k * share * (1.0 - w) / precision;
        match centred {
            true => Shape { precision, share, mean: share, rise: change },
            false => Shape { precision, share, mean: share * shrink, rise: (change - k * share) * shrink },
        }
    }

    fn sign(&self) -> f64 {
        if self.centred { 1.0 } else { -1.0 }
    }
}

/// What scales and locations are at one point. Of fixed length, since it is made for every step of every chain; what there is
/// no scale or location for is zero.
#[derive(Default)]
struct Here {
    /// `e^(-ku)`.
    shrink: [f64; MOST_SCALES],
    /// `u`, bounded, and its derivative.
    t: [f64; MOST_SCALES],
    rise: [f64; MOST_SCALES],
    /// Distances from the means of the locations.
    off: [f64; MOST_LOCATIONS],
}

impl Scales {
    /// The coordinates that take their scale from another.
    pub fn scaled(&self) -> impl Iterator<Item = usize> {
        self.scaled.iter().map(|one| one.coordinate)
    }

    /// The coordinates from which most that take their scale from them do so in the centred form: one end of them is the neck of a
    /// funnel.
    pub fn necks(&self) -> impl Iterator<Item = usize> {
        let centred = |which: usize| {
            let each = self.scaled.iter().filter(|one| one.scale == which);
            each.map(|one| if one.form.centred { 1 } else { -1 }).sum::<i64>() > 0
        };
        self.from.iter().enumerate().filter(move |(which, _)| centred(*which)).map(|(_, scale)| scale.coordinate)
    }

    /// The coordinate that others take most of their scale from.
    pub fn first(&self) -> usize {
        self.from[0].coordinate
    }

    /// Turns points (one after another) from the coordinates of the chains into those of the target.
    pub fn forward(&self, points: &mut [f64]) {
        for y in points.chunks_exact_mut(self.d) {
            let here = self.here(y);
            for one in &self.scaled {
                let shape = one.form.at(here.shrink[one.scale]);
                let at = &mut y[one.coordinate];
                *at = one.mean(&shape, &here) + (*at - one.low(&here)) / shape.precision.sqrt();
            }
        }
    }

    /// The inverse of [`Scales::forward`].
    pub fn backward(&self, points: &mut [f64]) {
        for z in points.chunks_exact_mut(self.d) {
            let here = self.here(z);
            for one in &self.scaled {
                let shape = one.form.at(here.shrink[one.scale]);
                let at = &mut z[one.coordinate];
                *at = one.low(&here) + (*at - one.mean(&shape, &here)) * shape.precision.sqrt();
            }
        }
    }

    /// Turns log densities and gradients at points of the target into those at the points `y` of the chains.
    pub fn pull_back(&self, y: &[f64], log_p: &mut [f64], grad: &mut [f64]) {
        for ((y, log_p), grad) in y.chunks_exact(self.d).zip(log_p).zip(grad.chunks_exact_mut(self.d)) {
            let here = self.here(y);
            let mut along = [0.0; MOST_SCALES];
            let mut shifted = [0.0; MOST_LOCATIONS];
            for one in &self.scaled {
                let Form { share: w, k, .. } = one.form;
                let shape = one.form.at(here.shrink[one.scale]);
                *log_p -= 0.5 * shape.precision.ln();
                let (scale, g) = (shape.precision.sqrt().recip(), &mut grad[one.coordinate]);
                let slope = one.form.sign() * k * shape.share;
                let mean_rise = (one.along + one.shifted(&here)) * shape.rise;
                let low_rise = one.along * one.form.at(1.0).rise * here.rise[one.scale];
                let stretched = scale * (y[one.coordinate] - one.low(&here));
                along[one.scale] += slope + *g * (mean_rise + slope * stretched - scale * low_rise);
                for (shifted, h) in shifted.iter_mut().zip(&one.shift) {
                    *shifted += *g * h * (shape.mean - scale * w);
                }
                *g *= scale;
            }
            for ((g, _), shifted) in self.around.iter().zip(shifted) {
                grad[*g] += shifted;
            }
            for (scale, along) in self.from.iter().zip(along) {
                grad[scale.coordinate] += along / scale.sd;
            }
        }
    }

    /// What [`Scales::pull_back`] adds to the log density at each point.
    pub fn log_det(&self, y: &[f64]) -> Vec<f64> {
        let at = |y: &[f64]| {
            let here = self.here(y);
            let each = self.scaled.iter().map(|one| one.form.at(here.shrink[one.scale]).precision.ln());
            -0.5 * each.sum::<f64>()
        };
        y.chunks_exact(self.d).map(at).collect()
    }

    fn here(&self, y: &[f64]) -> Here {
        let mut here = Here::default();
        for (at, scale) in self.from.iter().enumerate() {
            let u = (y[scale.coordinate] - scale.mean) / scale.sd;
            here.shrink[at] = shrinking(scale.k, u);
            here.t[at] = REACH * (u / REACH).tanh();
            here.rise[at] = 1.0 - (here.t[at] / REACH).powi(2);
        }
        for (off, &(g, mean)) in here.off.iter_mut().zip(&self.around) {
            *off = y[g] - mean;
        }
        here
    }
}

impl Scaled {
    fn shifted(&self, here: &Here) -> f64 {
        self.shift.iter().zip(&here.off).map(|(h, off)| h * off).sum()
    }

    /// `m_i`.
    fn mean(&self, shape: &Shape, here: &Here) -> f64 {
        self.centre + (self.along + self.shifted(here)) * shape.mean
    }

    /// `l_i`: at the mean of the scale `B` is `w`.
    fn low(&self, here: &Here) -> f64 {
        let Form { share: w, .. } = self.form;
        self.centre + (self.along + self.shifted(here)) * w + self.along * self.form.at(1.0).rise * here.t[self.scale]
    }
}

/// `e^(-ku)`, kept finite.
fn shrinking(k: f64, u: f64) -> f64 {
    (-k * u).clamp(-MOST_EXPONENT, MOST_EXPONENT).exp()
}

#[cfg(test)]
mod tests;
