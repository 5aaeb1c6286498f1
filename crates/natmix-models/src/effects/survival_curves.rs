//! Survival in the data beside survival in data sets drawn from the model, which are censored as the data are.
//!
//! A drawn time is censored where the row is, if it is longer. Of a row whose event was seen it is not known when it would have been
//! censored: that time is drawn, for every data set anew, from the Kaplan-Meier estimate of censoring, given that it is later than the
//! event. Every row counts once.

use super::draws::{CENSORING, EffectsDraws, stream};
use super::family::Family;
use super::outcome::uniform;
use super::rows::EffectsRows;
use crate::checks::MOST_ROWS;
use crate::conditional::middle_90;
use crate::kaplan_meier::KaplanMeier;
use crate::scores::spaced;
use rayon::prelude::*;

/// Steps along the axis of time.
const GRID: usize = 160;
/// Rows that are drawn at once.
const BLOCK: usize = 256;

/// Shares of rows without the event, along time.
#[derive(Clone, Debug, PartialEq)]
pub struct SurvivalCurves {
    /// Evenly spaced, from zero to the longest time of the data.
    pub times: Vec<f64>,
    /// The Kaplan-Meier estimate of the data between the bounds of its middle 90%.
    pub observed: Vec<[f64; 3]>,
    /// The same estimate of drawn data sets: 5% quantile, median and 95% quantile over draws.
    pub replicated: Vec<[f64; 3]>,
    /// Rows that were compared.
    pub rows: usize,
    /// How many of them are censored.
    pub censored: usize,
}

impl EffectsDraws {
    /// Survival curves of rows with known outcomes; none for other families.
    pub fn survival_curves(&self, rows: &EffectsRows) -> Option<SurvivalCurves> {
        let which: Vec<usize> = spaced(rows.rows, MOST_ROWS).collect();
        let data: Vec<(f64, bool)> = which.iter().map(|row| rows.observed(*row)).map(|of| (of.y, of.seen)).collect();
        let longest = data.iter().map(|(time, _)| *time).fold(0.0, f64::max);
        if self.layout().family() != Family::Survival || rows.outcome.is_none() || longest.is_nan() || longest <= 0.0 {
            return None;
        }
        let times: Vec<f64> = (0..=GRID).map(|i| longest * i as f64 / GRID as f64).collect();
        let censoring = KaplanMeier::of_censoring(&data);
        let (count, n) = (self.len(), which.len());
        // Draw by draw.
        let mut drawn = vec![0.0; count * n];
        for (first, which) in (0..n).step_by(BLOCK).zip(which.chunks(BLOCK)) {
            for (at, of_row) in self.replicated(rows, which).chunks_exact(count).enumerate() {
                of_row.iter().enumerate().for_each(|(draw, [.., time])| drawn[draw * n + first + at] = *time);
            }
        }
        let curve = |(draw, drawn): (usize, &[f64])| {
            let mut rng = stream(self.seed(), draw as u64, CENSORING);
            let censored = |(time, (own, seen)): (&f64, &(f64, bool))| {
                // One number for each row, so that rows do not depend on one another.
                let later = censoring.later_than(*own, uniform(&mut rng));
                let end = if *seen { later } else { *own };
                (time.min(end), *time <= end)
            };
            let found = KaplanMeier::new(drawn.iter().zip(&data).map(censored).collect());
            times.iter().map(|time| found.at(*time)).collect::<Vec<f64>>()
        };
        let curves: Vec<Vec<f64>> = drawn.par_chunks_exact(n).enumerate().map(curve).collect();
        let at_time = |i: usize| middle_90(&mut curves.iter().map(|curve| curve[i]).collect::<Vec<f64>>());
        let censored = data.iter().filter(|(_, seen)| !seen).count();
        let observed = KaplanMeier::new(data);
        Some(SurvivalCurves {
            observed: times.iter().map(|time| observed.with_bounds(*time)).collect(),
            replicated: (0..times.len()).map(at_time).collect(),
            times,
            rows: n,
            censored,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EffectsData, EffectsModel};
    use super::*;

    /// Times that the model itself has drawn, half of them censored at times that do not depend on them.
    #[test]
    fn curves_of_the_model_are_within_its_band_and_others_are_not() {
        let n = 400;
        let base = EffectsData {
            names: vec!["(intercept)".into(), "x".into()],
            x: (0..n).flat_map(|row| [1.0, f64::from(u8::from(row % 2 == 0))]).collect(),
            y: vec![1.0; n],
            ..EffectsData::default()
        };
        let z = [0.4, 0.8, 0.3];
        let layout = EffectsModel::new(Family::Survival, base.clone(), &[]).unwrap();
        let times = layout.outcomes_at(&z, 3);
        let ends: Vec<f64> = (0..n).map(|row| 0.2 + 0.01 * ((row * 7919) % n) as f64).collect();
        let observe = |stretch: f64| {
            let mut data = base.clone();
            let event = times.iter().zip(&ends).map(|(time, end)| stretch * time <= *end);
            data.event = Some(event.collect());
            data.y = times.iter().zip(&ends).map(|(time, end)| (stretch * time).min(*end)).collect();
            data
        };
        let outside = |data: &EffectsData| {
            let rows = EffectsRows::of_fit(data, Family::Survival);
            let draws = EffectsDraws::new(layout.layout(), &z.repeat(400), 5).unwrap();
            let found = draws.survival_curves(&rows).unwrap();
            assert_eq!((found.rows, found.times.len(), found.times[0]), (n, GRID + 1, 0.0));
            assert!(found.censored > n / 10 && found.censored < n, "{}", found.censored);
            assert!(found.replicated.windows(2).all(|two| two[1][1] <= two[0][1]));
            let outside = |(data, [low, _, high]): (&[f64; 3], &[f64; 3])| data[1] < *low || data[1] > *high;
            found.observed.iter().zip(&found.replicated).filter(|both| outside(*both)).count()
        };
        let (right, wrong) = (outside(&observe(1.0)), outside(&observe(2.0)));
        assert!(right <= GRID / 4 && wrong > GRID / 2, "{right} {wrong}");
        // Threads do not matter, and other families have no such curves.
        let rows = EffectsRows::of_fit(&observe(1.0), Family::Survival);
        let draws = EffectsDraws::new(layout.layout(), &z.repeat(50), 5).unwrap();
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(one.install(|| draws.survival_curves(&rows)), draws.survival_curves(&rows));
        let gamma = EffectsModel::new(Family::Gamma, base.clone(), &[]).unwrap();
        let draws = EffectsDraws::new(gamma.layout(), &z, 5).unwrap();
        assert!(draws.survival_curves(&EffectsRows::of_fit(&base, Family::Gamma)).is_none());
    }

    /// Without censoring the estimate is the share of drawn times that are longer, which is known for a Weibull distribution.
    #[test]
    fn the_median_curve_is_that_of_the_distribution() {
        let n = 2000;
        let data = EffectsData {
            names: vec!["(intercept)".into()],
            x: vec![1.0; n],
            y: (0..n).map(|row| 0.01 + 3.0 * row as f64 / n as f64).collect(),
            ..EffectsData::default()
        };
        let model = EffectsModel::new(Family::Survival, data.clone(), &[]).unwrap();
        let z = [0.2, 0.5];
        let mut own = [0.0; 2];
        natmix::target::Target::to_parameters(&model, &z, &mut own);
        let draws = EffectsDraws::new(model.layout(), &z.repeat(200), 5).unwrap();
        let found = draws.survival_curves(&EffectsRows::of_fit(&data, Family::Survival)).unwrap();
        for (time, [.., middle, _]) in found.times.iter().zip(&found.replicated) {
            let exact = (-(time * (-own[0]).exp()).powf(own[1])).exp();
            assert!((middle - exact).abs() < 0.006, "{time}: {middle} {exact}");
        }
    }
}
