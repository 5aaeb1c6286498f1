//! Posterior predictive checks: data sets drawn from the fitted model, compared with the data by a few statistics.
//!
//! For every posterior draw `z_s` a data set `y_s` is drawn from the model at the same rows. A statistic `T` of the data
//! is compared with its values `T(y_s)`; a discrepancy `T(y, z)`, which depends on the draw, with `T(y_s, z_s)` draw by
//! draw. The p-value is the share of draws where the replicated value is larger, ties counting one half: near 0 or 1 the
//! model does not reproduce that feature of the data. Gelman, Meng, Stern (1996), *Statistica Sinica* 6.
//!
//! | model | statistics |
//! |---|---|
//! | linear | mean, sd, smallest and largest outcome, largest residual in units of the noise; with known noise the dispersion |
//! | poisson | mean, sd, share of zeros, largest count, dispersion `mean (y - m)^2 / m` |
//! | logistic | share of outcomes 1, calibration |
//! | softmax | share of rows in their likeliest class, calibration |
//!
//! Calibration is `mean_g (O_g - E_g)^2 / V_g` over ten groups of rows of increasing predicted probability, with the number
//! of events `O_g`, its expectation and its variance. Every row counts once; of more than 20,000 rows, evenly spaced ones
//! are used. Counts with a mean above 100 are drawn by a normal approximation that is corrected for skewness.

mod outcome;

use crate::draws::{CoefficientDraws, Inputs};
use crate::observations::Dataset;
use crate::predict::{Predictions, predict};
use crate::regression::RegressionKind;
use crate::scores::spaced;
use natmix::Error;
use rayon::prelude::*;
use std::f64::consts::TAU;

/// Most rows that are compared.
pub const MOST_ROWS: usize = 20_000;
/// Rows whose predictors are in memory at once.
const BLOCK: usize = 256;
/// Groups of rows for calibration.
const GROUPS: usize = 10;
/// Mean above which counts are drawn by the normal approximation.
const LARGE_MEAN: f64 = 100.0;

/// One statistic of the data and of replicated data.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictiveCheck {
    /// Its name: `mean`, `sd`, `zeros`, `smallest`, `largest`, `largest residual`, `dispersion`, `ones`, `likeliest` or
    /// `calibration`.
    pub statistic: &'static str,
    /// Its value for the data; the mean over draws if it depends on them.
    pub observed: f64,
    /// Its value for the data set of each draw.
    pub replicated: Vec<f64>,
    /// Share of draws with a larger replicated value.
    pub p: f64,
}

pub use outcome::OutcomeBars;
pub(crate) use outcome::OutcomeBins;

/// Replicated data beside the data.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicatedData {
    /// Statistics.
    pub statistics: Vec<PredictiveCheck>,
    /// How often the outcome has which value; none if it does not vary, or for many classes.
    pub outcome: Option<OutcomeBars>,
}

/// Most classes whose shares are compared.
const MOST_CLASSES: usize = 30;

/// Checks a regression with these draws. `units` are the centre and the scale of the outcome.
pub fn predictive_checks(
    draws: &CoefficientDraws,
    table: &Dataset,
    units: (f64, f64),
    seed: u64,
) -> Result<ReplicatedData, Error> {
    let rows = table.take(&spaced(table.rows(), MOST_ROWS).collect::<Vec<_>>())?;
    let inputs = Inputs::from(&rows);
    let events = Events::of(draws, inputs, rows.outcome())?;
    let (count, predictors) = (draws.len(), draws.kind().predictors());
    let width = count * predictors;
    let mut eta = vec![0.0; rows.rows().min(BLOCK) * width];
    let whole = !matches!(draws.kind(), RegressionKind::Linear { .. });
    let many = matches!(draws.kind(), RegressionKind::Softmax { classes } if classes > MOST_CLASSES);
    let bins = OutcomeBins::of(rows.outcome(), whole).filter(|_| !many);
    let mut pairs: Vec<Pair> = (0..count).map(|draw| Pair::new(seed, draw)).collect();
    pairs.iter_mut().for_each(|pair| pair.tally = bins.map_or(Vec::new(), |bins| bins.tally()));
    for first in (0..rows.rows()).step_by(BLOCK) {
        let last = (first + BLOCK).min(rows.rows());
        let eta = &mut eta[..(last - first) * width];
        draws.for_rows(inputs.slice(first..last), width, eta, |_, predictors, out| out.copy_from_slice(predictors))?;
        let eta = &*eta;
        pairs.par_iter_mut().enumerate().for_each(|(draw, pair)| {
            for row in first..last {
                let at = (row - first) * width + draw * predictors;
                let of_row = &eta[at..at + predictors];
                let sigma = draws.sigma().get(draw).copied();
                let drawn = pair.add(draws.kind(), rows.outcome()[row], of_row, sigma, &events, row);
                if let Some(bins) = bins {
                    bins.add(&mut pair.tally, drawn);
                }
            }
        });
    }
    let statistics = statistics(draws.kind()).iter().map(|statistic| compare(statistic, &pairs, units)).collect();
    let tallies: Vec<Vec<u32>> = pairs.into_iter().map(|pair| pair.tally).collect();
    let mut outcome = bins.map(|bins| bins.bars(rows.outcome(), &tallies));
    if let Some(bars) = outcome.as_mut().filter(|_| !whole) {
        bars.edges.iter_mut().for_each(|edge| *edge = units.0 + units.1 * *edge);
    }
    Ok(ReplicatedData { statistics, outcome })
}

/// The statistics of a model.
fn statistics(kind: RegressionKind) -> &'static [&'static str] {
    match kind {
        RegressionKind::Linear { noise_sd: None } => &["mean", "sd", "smallest", "largest", "largest residual"],
        RegressionKind::Linear { noise_sd: Some(_) } => {
            &["mean", "sd", "smallest", "largest", "largest residual", "dispersion"]
        }
        RegressionKind::Poisson => &["mean", "sd", "zeros", "largest", "dispersion"],
        RegressionKind::Logistic => &["ones", "calibration"],
        RegressionKind::Softmax { .. } => &["likeliest", "calibration"],
    }
}

fn compare(statistic: &'static str, pairs: &[Pair], (centre, scale): (f64, f64)) -> PredictiveCheck {
    let value = |sums: &Sums| {
        let n = sums.rows;
        let mean = sums.sum / n;
        match statistic {
            "mean" => centre + scale * mean,
            "sd" => scale * (sums.squares / n - mean * mean).max(0.0).sqrt(),
            "smallest" => centre + scale * sums.smallest,
            "largest" => centre + scale * sums.largest,
            "largest residual" => sums.largest_residual,
            "dispersion" => sums.residual_squares / n,
            "calibration" => {
                let filled = sums.groups.iter().filter(|group| group.2 > 0.0);
                let count = filled.clone().count().max(1) as f64;
                filled.map(|(events, expected, variance)| (events - expected).powi(2) / variance).sum::<f64>() / count
            }
            "zeros" => sums.zeros / n,
            _ => sums.events / n,
        }
    };
    let (mut larger, mut observed) = (0.0, 0.0);
    let mut replicated = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let (of_data, drawn) = (value(&pair.data), value(&pair.replicated));
        larger += if drawn > of_data { 1.0 } else { 0.5 * f64::from(u8::from(drawn == of_data)) };
        observed += of_data;
        replicated.push(drawn);
    }
    let count = pairs.len() as f64;
    PredictiveCheck { statistic, observed: observed / count, replicated, p: larger / count }
}

/// What counts as an event in a row of classes: outcome 1, or the class that is the likeliest on average. Rows are
/// grouped by its probability.
struct Events {
    class: Vec<usize>,
    group: Vec<u8>,
}

impl Events {
    fn of(draws: &CoefficientDraws, inputs: Inputs<'_>, outcome: &[f64]) -> Result<Self, Error> {
        let (class, probability): (Vec<usize>, Vec<f64>) = match draws.kind() {
            RegressionKind::Logistic | RegressionKind::Softmax { .. } => match predict(draws, inputs)? {
                Predictions::Binary { probability, .. } => (vec![1; outcome.len()], probability),
                Predictions::Classes { classes, probability, .. } => {
                    let likeliest = |p: &[f64]| {
                        let best = (1..p.len()).fold(0, |best, c| if p[c] > p[best] { c } else { best });
                        (best, p[best])
                    };
                    probability.chunks_exact(classes).map(likeliest).unzip()
                }
                _ => (Vec::new(), Vec::new()),
            },
            _ => return Ok(Self { class: Vec::new(), group: Vec::new() }),
        };
        let mut order: Vec<usize> = (0..probability.len()).collect();
        order.sort_by(|&a, &b| probability[a].total_cmp(&probability[b]));
        let mut group = vec![0; order.len()];
        for (rank, &row) in order.iter().enumerate() {
            group[row] = (rank * GROUPS / order.len()) as u8;
        }
        Ok(Self { class, group })
    }
}

/// Sums over the rows of the data, or of a replicated data set.
#[derive(Clone, Default)]
struct Sums {
    rows: f64,
    sum: f64,
    squares: f64,
    zeros: f64,
    smallest: f64,
    largest: f64,
    largest_residual: f64,
    residual_squares: f64,
    events: f64,
    /// Events, their expectation and variance.
    groups: [(f64, f64, f64); GROUPS],
}

impl Sums {
    fn add(&mut self, y: f64, residual: f64) {
        if self.rows == 0.0 {
            (self.smallest, self.largest) = (y, y);
        }
        self.rows += 1.0;
        self.sum += y;
        self.squares += y * y;
        self.zeros += f64::from(u8::from(y == 0.0));
        self.smallest = self.smallest.min(y);
        self.largest = self.largest.max(y);
        self.largest_residual = self.largest_residual.max(residual.abs());
        self.residual_squares += residual * residual;
    }

    fn add_event(&mut self, happened: bool, probability: f64, group: usize) {
        let event = f64::from(u8::from(happened));
        self.rows += 1.0;
        self.events += event;
        let (events, expected, variance) = &mut self.groups[group];
        *events += event;
        *expected += probability;
        *variance += probability * (1.0 - probability);
    }
}

/// The data and the data set of one draw, with its own random numbers.
struct Pair {
    data: Sums,
    replicated: Sums,
    /// Replicated outcomes by their value.
    tally: Vec<u32>,
    state: u64,
}

impl Pair {
    fn new(seed: u64, draw: usize) -> Self {
        let state = mix(seed ^ mix(draw as u64 + 1));
        Self { data: Sums::default(), replicated: Sums::default(), tally: Vec::new(), state }
    }

    /// Adds a row, and returns the replicated outcome.
    fn add(
        &mut self,
        kind: RegressionKind,
        y: f64,
        eta: &[f64],
        sigma: Option<f64>,
        events: &Events,
        row: usize,
    ) -> f64 {
        match kind {
            RegressionKind::Linear { .. } => {
                let (mean, sigma, z) = (eta[0], sigma.unwrap_or(1.0), self.normal());
                self.data.add(y, (y - mean) / sigma);
                self.replicated.add(mean + sigma * z, z);
                mean + sigma * z
            }
            RegressionKind::Poisson => {
                let mean = eta[0].exp().clamp(f64::MIN_POSITIVE, 1e15);
                let drawn = self.count(mean);
                let residual = |y: f64| (y - mean) / mean.sqrt();
                self.data.add(y, residual(y));
                self.replicated.add(drawn, residual(drawn));
                drawn
            }
            RegressionKind::Logistic | RegressionKind::Softmax { .. } => {
                let (class, group) = (events.class[row], usize::from(events.group[row]));
                let most = eta.iter().fold(0.0_f64, |most, eta| most.max(*eta));
                let total = (-most).exp() + eta.iter().map(|eta| (eta - most).exp()).sum::<f64>();
                let of_class = |class: usize| {
                    let own = if class == 0 { 0.0 } else { eta[class - 1] };
                    (own - most).exp() / total
                };
                let probability = of_class(class);
                self.data.add_event(y == class as f64, probability, group);
                let drawn = self.uniform();
                self.replicated.add_event(drawn < probability, probability, group);
                if drawn < probability {
                    return class as f64;
                }
                // The others share the rest in turn; rounding leaves it to the last of them.
                let (mut left, mut last) = (drawn - probability, class);
                for other in (0..=eta.len()).filter(|other| *other != class) {
                    last = other;
                    left -= of_class(other);
                    if left < 0.0 {
                        break;
                    }
                }
                last as f64
            }
        }
    }

    /// Uniform on (0, 1).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((mix(self.state) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), TAU * self.uniform());
        radius * angle.cos()
    }

    /// A Poisson count.
    fn count(&mut self, mean: f64) -> f64 {
        if mean > LARGE_MEAN {
            let z = self.normal();
            return (mean + mean.sqrt() * z + (z * z - 1.0) / 6.0).round().max(0.0);
        }
        let u = self.uniform();
        let (mut count, mut p) = (0.0, (-mean).exp());
        let mut below = p;
        // Ends: the terms fall below the resolution of `below`.
        while u > below && count < 10.0 * LARGE_MEAN {
            count += 1.0;
            p *= mean / count;
            below += p;
        }
        count
    }
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the input.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests;
