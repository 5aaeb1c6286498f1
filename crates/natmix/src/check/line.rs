//! One line of the gradient check: the slope that the gradient says against differences of log p, at several steps.

/// Discrepancy, as a share of the slope's size, that is never called wrong: it would do no harm.
const TOLERANCE: f64 = 3e-4;
/// Discrepancy from which on more lines are measured: an error may nearly cancel along a line.
const SUSPICION: f64 = 1e-5;
/// Times as much as what a step cannot resolve that a discrepancy must be.
const SAFETY: f64 = 2.0;
/// Rounding errors of log p, in units of its last place.
const ROUNDING: f64 = 8.0;
/// Change of log p, relative to its size, that a density in single precision may not show at all.
const INVISIBLE: f64 = 1e-5;
/// What a step cannot resolve, as a share of the slope's size, if it is to count as agreement.
const RESOLUTION: f64 = 0.02;
/// How far discrepancies at different steps may differ if they are to be the same, as a share.
const SAME: f64 = 0.15;
/// Steps in a row that must show the same discrepancy.
const STEADY: usize = 3;

/// The target at one point.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub z: Vec<f64>,
    pub log_p: f64,
    pub grad: Vec<f64>,
}

/// What a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Right,
    Wrong,
    Unsure,
    /// No step had finite values.
    Nothing,
}

/// One step; all numbers are per unit of `t`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineStep {
    pub h: f64,
    /// The difference quotient of log p.
    pub quotient: f64,
    /// The gradient's slope less the quotient.
    pub gap: f64,
    /// Gap that kinks, high derivatives, noise in the gradient and rounding can explain.
    doubt: f64,
    /// Sum of the coordinates' slopes without their signs.
    size: f64,
}

impl LineStep {
    fn exceeds(&self, tolerance: f64) -> bool {
        self.gap.abs() > self.doubt + tolerance * self.size
    }

    fn is_significant(&self) -> bool {
        self.exceeds(TOLERANCE)
    }

    /// Close agreement is no accident, whatever the step could resolve.
    fn agrees(&self, tolerance: f64) -> bool {
        self.gap.abs() <= tolerance * self.size
    }

    /// Agreement as far as the step lets one see, which is far enough.
    fn roughly_agrees(&self) -> bool {
        let visible = if self.is_significant() { self.gap.abs() + self.doubt } else { self.doubt };
        visible <= RESOLUTION * self.size
    }

    fn same_gap(&self, other: &Self) -> bool {
        (self.gap - other.gap).abs() <= SAME * self.gap.abs().max(other.gap.abs())
    }
}

/// A line through a draw.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub middle: Sample,
    pub direction: Vec<f64>,
    /// Longest first; only those with finite values.
    pub steps: Vec<LineStep>,
}

impl Line {
    pub fn point(&self, t: f64) -> impl Iterator<Item = f64> {
        self.middle.z.iter().zip(&self.direction).map(move |(z, u)| z + t * u)
    }

    /// Adds what the two ends of a step show, if everything is finite there.
    pub fn add_step(&mut self, h: f64, low: &Sample, high: &Sample) {
        if !(low.log_p.is_finite() && high.log_p.is_finite()) {
            return;
        }
        let (mut slope, mut bend, mut size) = (0.0, 0.0, 0.0);
        for i in 0..self.direction.len() {
            // As rounded: this may differ from the intended width.
            let width = high.z[i] - low.z[i];
            let (a, b, c) = (low.grad[i], self.middle.grad[i], high.grad[i]);
            slope += (a + 4.0 * b + c) / 6.0 * width;
            bend += ((0.5 * (a + c) - b) * width).abs();
            size += a.abs().max(b.abs()).max(c.abs()) * width.abs();
        }
        let change = high.log_p - low.log_p;
        let magnitude = high.log_p.abs() + low.log_p.abs();
        let single = [low, &self.middle, high].iter().all(|sample| f64::from(sample.log_p as f32) == sample.log_p);
        let mut rounding = ROUNDING * if single { f64::from(f32::EPSILON) } else { f64::EPSILON } * magnitude;
        if change == 0.0 && slope.abs() <= INVISIBLE * magnitude {
            rounding += slope.abs();
        }
        let each = 1.0 / (2.0 * h);
        let step = LineStep {
            h,
            quotient: change * each,
            gap: (slope - change) * each,
            doubt: (SAFETY * bend + rounding) * each,
            size: size * each,
        };
        if step.gap.is_finite() && step.doubt.is_finite() && step.size.is_finite() {
            self.steps.push(step);
            self.steps.sort_by(|a, b| b.h.total_cmp(&a.h));
        }
    }

    /// Whether more steps are needed.
    pub fn is_suspicious(&self) -> bool {
        let close = self.steps.iter().any(|step| step.agrees(SUSPICION));
        !close && self.steps.iter().any(|step| step.exceeds(SUSPICION))
    }

    /// Neighbouring steps that show the same discrepancy, beyond what they cannot resolve.
    fn steady(&self) -> Option<&[LineStep]> {
        self.steps
            .windows(STEADY)
            .rfind(|steps| steps.iter().all(|a| a.is_significant() && steps.iter().all(|b| a.same_gap(b))))
    }

    pub fn finding(&self) -> Finding {
        if self.steps.is_empty() {
            Finding::Nothing
        } else if self.steps.iter().any(|step| step.agrees(TOLERANCE)) {
            Finding::Right
        } else if self.steady().is_some() {
            Finding::Wrong
        } else if self.steps.iter().any(LineStep::roughly_agrees) {
            Finding::Right
        } else {
            Finding::Unsure
        }
    }

    /// The middle one of the steady steps.
    fn middle_step(&self) -> Option<&LineStep> {
        self.steady().and_then(|steps| steps.get(STEADY / 2)).or(self.steps.last())
    }

    /// The step at which the discrepancy is best seen.
    pub fn best_step(&self) -> f64 {
        self.middle_step().map_or(0.03125, |step| step.h)
    }

    /// The discrepancy there, as a share of the slope's size.
    pub fn discrepancy(&self) -> f64 {
        self.middle_step().map_or(0.0, |step| step.gap.abs() / step.size)
    }

    /// The gap there, and the difference quotient.
    pub fn gap_and_quotient(&self) -> (f64, f64) {
        self.middle_step().map_or((f64::NAN, f64::NAN), |step| (step.gap, step.quotient))
    }
}
