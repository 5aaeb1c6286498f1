//! The Kaplan-Meier estimate of survival: which share of times is longer, where some are only known to be longer than they say.

/// Quantile of the standard normal for the middle 90%.
const Z: f64 = crate::predict::LEVELS[2].1;

/// A step of the estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    time: f64,
    /// Share of times that are longer.
    share: f64,
    /// Greenwood's sum of `d / (n (n - d))`.
    spread: f64,
}

/// The estimate of a distribution of times.
#[derive(Clone, Debug, PartialEq)]
pub struct KaplanMeier(Vec<Step>);

impl KaplanMeier {
    /// From times, and whether the event was seen at them; others are censored. Of equal times, censored ones are later.
    pub fn new(times: Vec<(f64, bool)>) -> Self {
        Self::sorted(times, true)
    }

    /// The distribution of the times at which rows are censored.
    pub fn of_censoring(times: &[(f64, bool)]) -> Self {
        Self::sorted(times.iter().map(|(time, seen)| (*time, !seen)).collect(), false)
    }

    /// `events_first`: whether events are earlier than other times that are equal.
    fn sorted(mut times: Vec<(f64, bool)>, events_first: bool) -> Self {
        times.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut at_risk, mut share, mut spread) = (times.len() as f64, 1.0, 0.0);
        let mut steps = Vec::new();
        for equal in times.chunk_by(|a, b| a.0 == b.0) {
            let events = equal.iter().filter(|(_, event)| *event).count() as f64;
            let gone = equal.len() as f64 - events;
            let n = if events_first { at_risk } else { at_risk - gone };
            if events > 0.0 {
                share *= 1.0 - events / n;
                spread += events / (n * (n - events));
                steps.push(Step { time: equal[0].0, share, spread });
            }
            at_risk -= equal.len() as f64;
        }
        Self(steps)
    }

    /// The step that holds at a time; none before the first.
    fn last_step(&self, time: f64) -> Option<usize> {
        self.0.partition_point(|step| step.time <= time).checked_sub(1)
    }

    /// Share of times that are longer than this one.
    pub fn at(&self, time: f64) -> f64 {
        self.last_step(time).map_or(1.0, |at| self.0[at].share)
    }

    /// The same between the bounds of the middle 90%, by Greenwood's formula for `log(-log S)`. Where nothing is left the upper bound is
    /// the last one that is known.
    pub fn with_bounds(&self, time: f64) -> [f64; 3] {
        let Some(at) = self.last_step(time) else { return [1.0; 3] };
        let bounds = |step: &Step| {
            let width = Z * step.spread.sqrt() / step.share.ln().abs();
            [step.share.powf(width.exp()), step.share, step.share.powf((-width).exp())]
        };
        match self.0[at].share {
            share if share > 0.0 => bounds(&self.0[at]),
            _ => [0.0, 0.0, at.checked_sub(1).map_or(1.0, |before| bounds(&self.0[before])[2])],
        }
    }

    /// A time that is later than `time`, drawn by a number uniform on (0, 1); infinite beyond the last step.
    pub fn later_than(&self, time: f64, uniform: f64) -> f64 {
        let first = self.0.partition_point(|step| step.time <= time);
        let share = uniform * self.at(time);
        let later = &self.0[first..];
        later.get(later.partition_point(|step| step.share > share)).map_or(f64::INFINITY, |step| step.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remission times of leukaemia under 6-mercaptopurine (Freireich et al., 1963), with the estimates that textbooks list.
    #[test]
    fn estimates_of_a_textbook() {
        let (seen, censored) = ([6, 6, 6, 7, 10, 13, 16, 22, 23], [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]);
        let times = |all: &[i32], event| all.iter().map(|t| (f64::from(*t), event)).collect::<Vec<_>>();
        let all = [times(&seen, true), times(&censored, false)].concat();
        let found = KaplanMeier::new(all.clone());
        let expected =
            [(5.9, 1.0), (6.0, 0.857), (7.5, 0.807), (12.0, 0.753), (13.0, 0.690), (16.0, 0.627), (22.0, 0.538)];
        for (time, share) in expected.into_iter().chain([(23.0, 0.448), (99.0, 0.448)]) {
            assert!((found.at(time) - share).abs() < 5e-4, "{time}: {}", found.at(time));
        }
        // Greenwood's standard errors of the textbook are 0.0764 at 6 and 0.1346 at 23.
        for (time, se) in [(6.0, 0.0764), (23.0, 0.1346)] {
            let step = found.0[found.last_step(time).unwrap()];
            assert!((step.share * step.spread.sqrt() - se).abs() < 5e-5);
            let [low, share, high] = found.with_bounds(time);
            assert!(low < share && share < high && low > 0.0 && high < 1.0);
            assert!((0.5 * (high - low) / (Z * se) - 1.0).abs() < 0.1, "{low} {high}");
        }
        // 12 of 21 are censored, the first at 6, after the events there: 17 of 18 are left.
        let censoring = KaplanMeier::of_censoring(&all);
        assert!((censoring.at(6.0) - 17.0 / 18.0).abs() < 1e-12 && censoring.at(35.0) == 0.0);
    }

    #[test]
    fn times_that_are_all_seen_have_their_shares() {
        let found = KaplanMeier::new(vec![(1.0, true), (2.0, true), (2.0, true), (4.0, true)]);
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0].map(|time| found.at(time)), [1.0, 0.75, 0.25, 0.25, 0.0]);
        let [low, none, high] = found.with_bounds(4.0);
        assert_eq!([low, none, high], [0.0, 0.0, found.with_bounds(3.0)[2]]);
        // Later times have the probabilities of the estimate.
        assert_eq!([0.1, 0.9].map(|u| found.later_than(1.0, u)), [4.0, 2.0]);
        assert_eq!([found.later_than(4.0, 0.5), found.later_than(0.0, 0.99)], [f64::INFINITY, 1.0]);
        assert_eq!(KaplanMeier::new(Vec::new()).with_bounds(3.0), [1.0; 3]);
        let censored = KaplanMeier::new(vec![(1.0, false)]);
        assert_eq!((censored.at(5.0), censored.later_than(0.0, 0.5)), (1.0, f64::INFINITY));
    }
}
