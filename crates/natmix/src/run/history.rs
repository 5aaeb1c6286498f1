//! The ELBO over the iterations, and its drift against its own Monte-Carlo error.
//!
//! The second half of the history is split in two. The drift is the difference of their means, with the standard
//! error that follows from the larger of the reported and the observed noise. What is still to be gained is taken as
//! three times the drift, as for a distance that falls with one over the iterations. The run has converged when that gain
//! plus the error is below the tolerance, or when the gain is lost in an error of at most five tolerances: noise alone
//! cannot end a run, it only makes it longer.

/// Most bins that the history keeps; beyond that, neighbours are merged, so memory stays bounded.
const MAX_BINS: usize = 128;
/// Fewest bins from which a drift is computed.
const MIN_BINS: usize = 16;
/// Gain that is still ahead, in units of the drift.
const GAIN_PER_DRIFT: f64 = 3.0;
/// Tolerances of Monte-Carlo error at which a drift that is smaller than its error counts as none.
const MAX_NOISE: f64 = 5.0;
/// Iterations whose mean stands for an iterate when the best one is chosen.
const WINDOW: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    count: f64,
    mean: f64,
    /// Sum of squared distances from the mean. Sums of plain squares would lose their digits after a start that is far
    /// worse than the end.
    spread: f64,
    /// Sum of the reported variances.
    reported: f64,
}

impl Bin {
    fn of(elbo: f64, se: f64) -> Self {
        Self { count: 1.0, mean: elbo, spread: 0.0, reported: se * se }
    }

    /// Both together.
    fn with(self, other: Self) -> Self {
        let count = self.count + other.count;
        if count == 0.0 {
            return self;
        }
        let gap = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + gap * (other.count / count),
            spread: self.spread + other.spread + gap * gap * (self.count * other.count / count),
            reported: self.reported + other.reported,
        }
    }
}

/// ELBO estimates so far, in bins of equal numbers of iterations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History {
    width: u64,
    filled: u64,
    bins: Vec<Bin>,
    /// The latest estimates, oldest first.
    recent: Vec<(f64, f64)>,
}

impl Default for History {
    fn default() -> Self {
        Self { width: 1, filled: 0, bins: Vec::with_capacity(MAX_BINS), recent: Vec::with_capacity(WINDOW) }
    }
}

impl History {
    /// Adds the estimate of an iteration, if it is finite. An infinite error is an unknown one: the spread of the
    /// estimates takes its place.
    pub fn push(&mut self, elbo: f64, se: f64) {
        if !elbo.is_finite() || se.is_nan() {
            return;
        }
        let se = if se.is_finite() { se } else { 0.0 };
        if self.recent.len() == WINDOW {
            self.recent.remove(0);
        }
        self.recent.push((elbo, se));
        if self.filled == 0 {
            if self.bins.len() == MAX_BINS {
                for i in 0..MAX_BINS / 2 {
                    self.bins[i] = self.bins[2 * i].with(self.bins[2 * i + 1]);
                }
                self.bins.truncate(MAX_BINS / 2);
                self.width *= 2;
            }
            self.bins.push(Bin::default());
        }
        if let Some(bin) = self.bins.last_mut() {
            *bin = bin.with(Bin::of(elbo, se));
        }
        self.filled = (self.filled + 1) % self.width;
    }

    /// Drift and its standard error, once there are enough estimates.
    pub fn drift(&self) -> Option<(f64, f64)> {
        // An unfinished bin is left out.
        let whole = self.bins.len() - usize::from(self.filled != 0);
        if whole < MIN_BINS {
            return None;
        }
        let (early, late) = self.bins[whole / 2..whole].split_at((whole - whole / 2) / 2);
        let pool = |bins: &[Bin]| Pool::of(bins.iter().copied());
        let (early, late) = (pool(early), pool(late));
        Some((late.mean - early.mean, (early.variance + late.variance).sqrt()))
    }

    pub fn converged(&self, tolerance: f64) -> bool {
        self.drift().is_some_and(|(drift, se)| {
            let gain = GAIN_PER_DRIFT * drift.abs();
            gain + se <= tolerance || gain <= se && se <= MAX_NOISE * tolerance
        })
    }

    /// Whether a run whose evaluations are spent may pass for converged: at a tolerance as much larger as noise may be.
    pub fn nearly_converged(&self, tolerance: f64) -> bool {
        self.converged(MAX_NOISE * tolerance)
    }

    /// Whether expected gain and its error are below the tolerance: stricter than [`History::converged`], which also accepts
    /// a gain that is lost in the noise.
    pub fn surely_converged(&self, tolerance: f64) -> bool {
        self.drift().is_some_and(|(drift, se)| GAIN_PER_DRIFT * drift.abs() + se <= tolerance)
    }

    /// Whether the latest estimates have stopped rising, as far as a few of them can tell: enough for a stage that another
    /// one follows.
    pub fn stopped_rising(&self, tolerance: f64) -> bool {
        let (early, late) = self.recent.split_at(self.recent.len() / 2);
        let pool = |part: &[(f64, f64)]| Pool::of(part.iter().map(|&(elbo, se)| Bin::of(elbo, se)));
        let (early, late) = (pool(early), pool(late));
        let se = (early.variance + late.variance).sqrt();
        self.recent.len() >= 6 && late.mean - early.mean <= tolerance.max(se)
    }

    /// Mean of the latest estimates (two at least) and its standard error, from the larger of the reported and the
    /// observed noise.
    pub fn recent(&self) -> Option<(f64, f64)> {
        let Pool { mean, variance } = Pool::of(self.recent.iter().map(|&(elbo, se)| Bin::of(elbo, se)));
        (self.recent.len() >= 2).then(|| (mean, variance.sqrt()))
    }

    /// The latest estimate.
    pub fn last(&self) -> Option<(f64, f64)> {
        self.recent.last().copied()
    }
}

/// A history as plain numbers, for checkpoints.
pub(crate) struct HistoryParts {
    pub width: u64,
    pub filled: u64,
    pub bins: Vec<[f64; 4]>,
    pub recent: Vec<[f64; 2]>,
}

impl History {
    pub fn to_parts(&self) -> HistoryParts {
        HistoryParts {
            width: self.width,
            filled: self.filled,
            bins: self.bins.iter().map(|bin| [bin.count, bin.mean, bin.spread, bin.reported]).collect(),
            recent: self.recent.iter().map(|&(elbo, se)| [elbo, se]).collect(),
        }
    }

    /// The inverse of [`History::to_parts`]; none for parts that no run can produce.
    pub fn from_parts(parts: HistoryParts) -> Option<Self> {
        let HistoryParts { width, filled, bins, recent } = parts;
        let sizes = bins.len() <= MAX_BINS && recent.len() <= WINDOW && (filled == 0 || !bins.is_empty());
        let mut history = Self { width, filled, ..Self::default() };
        history.bins.extend(bins.iter().map(|&[count, mean, spread, reported]| Bin { count, mean, spread, reported }));
        history.recent.extend(recent.iter().map(|&[elbo, se]| (elbo, se)));
        (sizes && width.is_power_of_two() && width < 1 << 53 && filled < width).then_some(history)
    }
}

/// The mean of several bins and its variance.
struct Pool {
    mean: f64,
    variance: f64,
}

impl Pool {
    fn of(bins: impl Iterator<Item = Bin>) -> Self {
        let all = bins.fold(Bin::default(), Bin::with);
        let observed = all.spread / (all.count - 1.0).max(1.0);
        Self { mean: all.mean, variance: observed.max(all.reported / all.count) / all.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_line_converges_at_once_and_a_slope_does_not() {
        let (mut flat, mut slope) = (History::default(), History::default());
        for i in 0..MIN_BINS {
            flat.push(-3.0, 0.0);
            slope.push(-1e6 + 0.1 * i as f64, 0.0);
        }
        assert!(flat.converged(1e-12));
        assert!(!slope.converged(0.01));
        let (drift, _) = slope.drift().unwrap();
        assert!((drift - 0.4).abs() < 1e-9, "{drift}");
    }

    #[test]
    fn noise_delays_but_does_not_fake_convergence() {
        let mut history = History::default();
        let mut first = None;
        for i in 0..20_000 {
            // A deterministic wobble of size one.
            history.push((i as f64 * 2.399_963).sin(), 0.7);
            if first.is_none() && history.converged(0.05) {
                first = Some(i);
            }
        }
        assert!(first.is_some_and(|i| i > 60), "{first:?}");
    }

    #[test]
    fn a_terrible_start_does_not_hide_the_noise() {
        let mut history = History::default();
        history.push(-1e12, 1e11);
        for i in 0..999 {
            history.push(-500.0 + 0.01 * (i as f64 * 2.399_963).sin(), 0.0);
        }
        let (drift, se) = history.drift().unwrap();
        // A wobble of standard deviation 0.01 / sqrt 2 over two quarters of about 250.
        assert!(drift.abs() < 1e-3 && (4e-4..8e-4).contains(&se), "{drift} {se}");
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let mut history = History::default();
        for i in 0..1_000 {
            history.push(f64::from(i), 0.1);
        }
        assert!(history.bins.len() <= MAX_BINS);
        assert_eq!(history.bins.iter().map(|bin| bin.count).sum::<f64>(), 1000.0);
        assert_eq!(history.recent().unwrap().0, 995.5);
        history.push(f64::NAN, 1.0);
        assert_eq!(history.recent().unwrap().0, 995.5);
    }
}
