//! How often the outcome has which value, in the data and in replicated data.

/// Most bars: counts beyond this many are put together, whole widths at a time.
const MOST_BARS: usize = 30;
/// Bars of an outcome that is not whole.
const BARS: usize = 24;
/// Whole outcomes whose smallest value is below this start at zero.
const NEAR_ZERO: f64 = 4.0;

/// Shares of the rows by the value of the outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct OutcomeBars {
    /// Bounds, one more than there are bars. The first and the last bar also hold everything beyond.
    pub edges: Vec<f64>,
    /// Whether outcomes are counts or classes; bounds then lie halfway between them.
    pub whole: bool,
    /// Shares in the data.
    pub observed: Vec<f64>,
    /// 5% quantile, median and 95% quantile of the shares in replicated data.
    pub replicated: Vec<[f64; 3]>,
}

/// Equal parts of the range of an outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OutcomeBins {
    first: f64,
    width: f64,
    count: usize,
    whole: bool,
}

impl OutcomeBins {
    /// For these outcomes; none if they do not vary.
    pub fn of(outcomes: &[f64], whole: bool) -> Option<Self> {
        let mut sorted: Vec<f64> = outcomes.iter().copied().filter(|y| y.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (smallest, largest) = (*sorted.first()?, *sorted.last()?);
        let quantile = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        if smallest == largest {
            return None;
        }
        if whole {
            let low = if (0.0..NEAR_ZERO).contains(&smallest) { 0.0 } else { smallest };
            let values = quantile(0.995).max(low + 1.0) - low + 1.0;
            let width = (values / MOST_BARS as f64).ceil();
            return Some(Self { first: low - 0.5, width, count: (values / width).ceil() as usize, whole });
        }
        // A few values far away would leave all others in one bar.
        let (low, high) = (quantile(0.01), quantile(0.99));
        let room = 0.25 * (high - low);
        let (low, high) = (smallest.max(low - room), largest.min(high + room));
        let (low, high) = if high > low { (low, high) } else { (smallest, largest) };
        Some(Self { first: low, width: (high - low) / BARS as f64, count: BARS, whole })
    }

    /// No draws yet.
    pub fn tally(&self) -> Vec<u32> {
        vec![0; self.count]
    }

    /// Counts an outcome.
    pub fn add(&self, tally: &mut [u32], y: f64) {
        let place = ((y - self.first) / self.width).clamp(0.0, (self.count - 1) as f64);
        tally[place as usize] += 1;
    }

    /// The bars of outcomes and of replicated ones, from the tally of each draw.
    pub fn bars(&self, outcomes: &[f64], replicated: &[Vec<u32>]) -> OutcomeBars {
        let mut observed = self.tally();
        outcomes.iter().for_each(|y| self.add(&mut observed, *y));
        let rows = outcomes.len() as f64;
        let of_bar = |bar: usize| {
            let mut shares: Vec<u32> = replicated.iter().map(|tally| tally[bar]).collect();
            shares.sort_unstable();
            [0.05, 0.5, 0.95].map(|level| {
                let at = (level * (shares.len().max(1) - 1) as f64).round() as usize;
                f64::from(shares.get(at).copied().unwrap_or(0)) / rows
            })
        };
        OutcomeBars {
            edges: (0..=self.count).map(|i| self.first + i as f64 * self.width).collect(),
            whole: self.whole,
            observed: observed.iter().map(|count| f64::from(*count) / rows).collect(),
            replicated: (0..self.count).map(of_bar).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_all_outcomes() {
        let counts = [2.0, 2.0, 3.0, 5.0];
        let bins = OutcomeBins::of(&counts, true).unwrap();
        let mut drawn = bins.tally();
        [0.0, 1.0, 9.0, f64::INFINITY].iter().for_each(|y| bins.add(&mut drawn, *y));
        let bars = bins.bars(&counts, &[drawn]);
        assert_eq!(bars.edges, [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5]);
        assert_eq!(bars.observed, [0.0, 0.0, 0.5, 0.25, 0.0, 0.25]);
        assert_eq!(bars.replicated.iter().map(|share| share[1]).collect::<Vec<_>>(), [0.25, 0.25, 0.0, 0.0, 0.0, 0.5]);
        // Large counts share bars of whole width; one far away does not widen them.
        let many: Vec<f64> = (0..1000).map(|i| f64::from(i % 100)).chain([1e6]).collect();
        let bins = OutcomeBins::of(&many, true).unwrap();
        assert_eq!((bins.width, bins.first, bins.count), (4.0, -0.5, 25));
        let numbers: Vec<f64> = (0..1000).map(|i| f64::from(i) / 100.0).chain([1e9]).collect();
        let bins = OutcomeBins::of(&numbers, false).unwrap();
        assert!(bins.first == 0.0 && bins.first + bins.width * BARS as f64 <= 13.0, "{bins:?}");
        let bars = bins.bars(&numbers, &[]);
        assert!((bars.observed.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!((OutcomeBins::of(&[3.0, 3.0], true), OutcomeBins::of(&[], false)), (None, None));
    }
}
