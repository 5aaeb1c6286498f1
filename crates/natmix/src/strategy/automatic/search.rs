//! Finding the modes: climbs from many starts, merged by what they cover.
//!
//! The starts are drawn from the start distribution, in batches that double. Narrow modes beside wide ones attract few starts,
//! so that only their number says what could be seen: it follows from the budget alone. The share of starts whose mode has
//! been met only once (Good and Turing) estimates the chance that the next start finds a new mode: a share of starts, not of
//! posterior mass.

use super::along::BestPlaces;
use super::ascent::{Summit, climb};
use super::evaluate::LimitedEvaluator;
use super::laplace::laplace;
use super::tuning::Tuning;
use crate::error::Error;
use crate::family::{CovarianceKind, Gaussian};
use crate::noise::{Noise, Purpose};
use serde::{Deserialize, Serialize};

/// Share of the mass found from which on a mode must have a component.
const HEAVY_SHARE: f64 = 0.01;
/// Known modes with which climbs are compared on their way: those met most often save most evaluations, and each costs time.
const MAX_KNOWN: usize = 32;
/// Dimension up to which the paths of climbs are kept: beyond, they take too much memory.
const MOST_PATH_DIM: usize = 2_000;
/// Squared distance, in a mode's own metric, beyond which a climb is not compared with the mode: its curvature says nothing
/// about a place so far away.
const FAR_DISTANCE: f64 = 1e4;

/// What a search has found, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// Starts made.
    pub starts: u64,
    /// Different modes that they ended in.
    pub modes: u64,
    /// Modes that hold at least 1% of the mass found, by Laplace's estimate.
    #[serde(default)]
    pub heavy_modes: u64,
    /// Modes that only one start ended in.
    pub singles: u64,
    /// Starts from which the climb did not end: they are where they were given up.
    #[serde(default)]
    pub unfinished: u64,
    /// Share of the mass found (by Laplace's estimate) that lies in modes which both halves of the starts have met: how
    /// far independent restarts agree.
    pub agreement: f64,
    /// Whether the target says that it is log-concave: then there is one mode, and one start finds it.
    pub log_concave: bool,
}

impl SearchSummary {
    /// Share of starts that ended in a mode met only once (Good-Turing): the chance that one more start would have found
    /// a new mode. Not a share of posterior mass.
    pub fn share_of_singles(&self) -> f64 {
        if self.starts == 0 { 1.0 } else { self.singles as f64 / self.starts as f64 }
    }

    /// Share of starts that must lead to a mode for it to have been found with 99% probability: `1 - (1 - share)^starts`
    /// is 0.99.
    pub fn visible_share(&self) -> f64 {
        if self.log_concave { 0.0 } else { 1.0 - 0.01_f64.powf(1.0 / self.starts as f64) }
    }

    /// Whether most climbs did not end, so that more starts would not have helped.
    pub fn climbs_do_not_end(&self) -> bool {
        2 * self.unfinished > self.starts
    }
}

/// A mode that some climb ended in.
#[derive(Clone, Debug)]
pub(crate) struct FoundMode {
    /// The Gaussian with the mode's place and curvature.
    pub gaussian: Gaussian,
    pub log_p: f64,
    /// The gradient there: not zero, since climbs end a little before the top.
    pub grad: Vec<f64>,
    /// Starts with even and with odd numbers that ended here.
    pub hits: [u64; 2],
}

impl FoundMode {
    /// Whether its parabola has the value `log_p` at `z`, up to an error in nats and as a share of the drop.
    fn predicts(&self, z: &[f64], log_p: f64, error: f64) -> bool {
        let slope: f64 = z.iter().zip(self.gaussian.mean()).zip(&self.grad).map(|((z, m), g)| (z - m) * g).sum();
        let drop = 0.5 * self.gaussian.squared_distance(z);
        (self.log_p + slope - drop - log_p).abs() <= error * (1.0 + drop)
    }

    /// Laplace's estimate of the log of the mass.
    pub fn log_mass(&self) -> f64 {
        self.log_p - self.gaussian.log_norm()
    }
}

/// Where starts are drawn from.
#[derive(Clone, Copy)]
pub(crate) struct StartFrom<'a> {
    pub centre: &'a [f64],
    pub sd: &'a [f64],
    pub seed: u64,
}

/// The modes found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    pub modes: Vec<FoundMode>,
    starts: u64,
    log_concave: bool,
    /// Climbs that joined a mode, and those of them at which its parabola predicts `log p`.
    joined: u64,
    predicted: u64,
    /// Whether Gaussians along climbs are compared, and the best so far.
    along: bool,
    pub places: BestPlaces,
    /// Starts without a finite value, and those whose climb did not end.
    failed: u64,
    unfinished: u64,
}

impl Search {
    /// Searches from as many starts as the limit of `evaluator` allows, up to a number. Ends early where the target declares
    /// itself log-concave, where climbs do not end, and with as many modes as there may be components. Where one parabola
    /// explains every climb it goes on: a narrow mode may hide there too, and such climbs cost two or three evaluations.
    pub fn run(
        evaluator: &mut LimitedEvaluator<'_>,
        from: StartFrom<'_>,
        kind: CovarianceKind,
        tuning: &Tuning,
    ) -> Result<Self, Error> {
        let (log_concave, d) = (evaluator.is_log_concave(), from.centre.len());
        let along = !log_concave && (tuning.one_gaussian_dim..=MOST_PATH_DIM).contains(&d);
        let mut search = Self { log_concave, along, ..Self::default() };
        let mut batch = if search.log_concave { 1 } else { tuning.search_first_starts };
        while evaluator.may_spend(4 * batch) {
            let before = evaluator.evals();
            search.batch(evaluator, from, kind, batch, tuning)?;
            if search.is_over(tuning) {
                break;
            }
            let cost = ((evaluator.evals() - before) / batch as u64).max(1);
            let affordable = evaluator.limit.saturating_sub(evaluator.evals()) / cost;
            let made = search.starts as usize;
            let second = made == tuning.search_first_starts;
            let next = if second { second_batch(tuning) } else { made };
            batch = next.min(tuning.search_max_starts - made).min(affordable as usize);
            if batch < 2 {
                break;
            }
        }
        Ok(search)
    }

    /// Whether there is no point in more starts.
    fn is_over(&self, tuning: &Tuning) -> bool {
        let starts = self.starts as usize;
        let first = if self.along { 0 } else { second_batch(tuning) };
        let judged = starts >= tuning.search_first_starts + first;
        // Most climbs did not end: what they would find is unknown, and they use up the budget.
        let endless = judged && 2 * self.unfinished > self.starts;
        let enough = starts >= tuning.search_max_starts || self.modes.len() >= 2 * tuning.max_components;
        self.log_concave || enough || endless
    }

    fn batch(
        &mut self,
        evaluator: &mut LimitedEvaluator<'_>,
        from: StartFrom<'_>,
        kind: CovarianceKind,
        count: usize,
        tuning: &Tuning,
    ) -> Result<(), Error> {
        let d = from.centre.len();
        let mut starts = vec![0.0; count * d];
        for (z, number) in starts.chunks_exact_mut(d).zip(self.starts..) {
            // The very first start is the centre itself.
            if number > 0 {
                Noise::new(from.seed, Purpose::Start, number, 0, 0).normals(z);
            }
            for ((z, centre), sd) in z.iter_mut().zip(from.centre).zip(from.sd) {
                *z = centre + sd * *z;
            }
        }
        let mut order: Vec<usize> = (0..self.modes.len()).collect();
        order.sort_by_key(|&mode| std::cmp::Reverse(self.modes[mode].hits.iter().sum::<u64>()));
        order.truncate(MAX_KNOWN);
        let known: Vec<Gaussian> = order.iter().map(|&mode| self.modes[mode].gaussian.clone()).collect();
        let paths = self.along && (self.starts as usize) < tuning.search_first_starts + second_batch(tuning);
        let summits = climb(evaluator, &starts, from.sd, &known, paths, tuning)?;
        self.failed += (count - summits.len()) as u64;
        for (number, mut summit) in (self.starts..).zip(summits) {
            self.places.look(evaluator, &summit, (from.sd, kind, from.seed))?;
            summit.joins = summit.joins.map(|known| order[known]);
            self.add(evaluator, summit, number, (from.sd, kind), tuning)?;
        }
        self.starts += count as u64;
        Ok(())
    }

    fn add(
        &mut self,
        evaluator: &mut LimitedEvaluator<'_>,
        summit: Summit,
        number: u64,
        (sd, kind): (&[f64], CovarianceKind),
        tuning: &Tuning,
    ) -> Result<(), Error> {
        let half = (number % 2) as usize;
        self.unfinished += u64::from(!summit.finished);
        if self.along && !summit.finished {
            // Neither a mode nor worth a component.
            return Ok(());
        }
        if let Some(mode) = summit.joins {
            self.joined += 1;
            let predicted = self.modes[mode].predicts(&summit.z, summit.log_p, tuning.climb_tolerance);
            self.predicted += u64::from(predicted);
        }
        let same = tuning.search_same_distance;
        let near = || self.modes.iter().position(|mode| mode.gaussian.squared_distance(&summit.z) <= same);
        if let Some(mode) = summit.joins.or_else(near) {
            self.modes[mode].hits[half] += 1;
        } else if let Some(gaussian) = laplace(evaluator, &summit, sd, kind, tuning)? {
            let mut hits = [0, 0];
            hits[half] = 1;
            self.modes.push(FoundMode { gaussian, log_p: summit.log_p, grad: summit.grad, hits });
        }
        Ok(())
    }

    /// Whether one parabola predicts the log density wherever the search has been: a Gaussian, as far as it can tell.
    pub fn is_gaussian(&self, tuning: &Tuning) -> bool {
        // As many as the second batch, the first that can join a mode, is likely to bring.
        let enough = self.joined >= second_batch(tuning) as u64;
        self.modes.len() == 1 && self.failed == 0 && enough && self.predicted == self.joined
    }

    fn singles(&self) -> u64 {
        self.modes.iter().filter(|mode| mode.hits.iter().sum::<u64>() == 1).count() as u64
    }

    /// The search in numbers.
    pub fn summary(&self) -> SearchSummary {
        let most = self.modes.iter().map(FoundMode::log_mass).fold(f64::NEG_INFINITY, f64::max);
        let (mut both, mut all) = (0.0, 0.0);
        let masses: Vec<f64> = self.modes.iter().map(|mode| (mode.log_mass() - most).exp()).collect();
        for (mode, mass) in self.modes.iter().zip(&masses) {
            all += mass;
            both += if mode.hits.iter().all(|hits| *hits > 0) { *mass } else { 0.0 };
        }
        SearchSummary {
            starts: self.starts,
            modes: self.modes.len() as u64,
            heavy_modes: masses.iter().filter(|mass| **mass >= HEAVY_SHARE * all).count() as u64,
            singles: self.singles(),
            unfinished: self.unfinished,
            agreement: if self.log_concave && all > 0.0 {
                1.0
            } else if all > 0.0 {
                both / all
            } else {
                0.0
            },
            log_concave: self.log_concave,
        }
    }
}

/// Starts of the second batch, which makes four times as many in all; later batches double the number.
fn second_batch(tuning: &Tuning) -> usize {
    3 * tuning.search_first_starts
}

/// Whether the parabola of a mode predicts the gradient at `z`: a Newton step with its curvature would end within its own
/// width.
pub(crate) fn leads_to(mode: &Gaussian, z: &[f64], grad: &[f64], tuning: &Tuning) -> bool {
    let delta: Vec<f64> = z.iter().zip(mode.mean()).map(|(a, b)| a - b).collect();
    let mut miss = vec![0.0; z.len()];
    mode.precision().times(&delta, &mut miss);
    if delta.iter().zip(&miss).map(|(a, b)| a * b).sum::<f64>() > FAR_DISTANCE {
        return false;
    }
    miss.iter_mut().zip(grad).for_each(|(miss, g)| *miss += g);
    let mut landing = miss.clone();
    mode.precision().solve(&mut landing);
    miss.iter().zip(&landing).map(|(a, b)| a * b).sum::<f64>() <= 0.25 * tuning.search_same_distance
}
