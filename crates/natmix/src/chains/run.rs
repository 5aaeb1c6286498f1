//! Chains from the draws of a mixture to draws with a certificate.
//!
//! 64 chains start in 8 groups, each at one draw of the widened mixture. They warm up in windows after each of which the metric
//! is estimated again from all of them, until that gains nothing, while the length of their steps follows the share of
//! accepted trajectories. Then iterations are kept, in rounds, until the [certificate](super::certificate) holds twice in a
//! row. If it does not for long, what was kept becomes one more window of the warm-up, and twice as many are tried.

use super::certificate::{CONFIRMING_RISK, Certificate, ChainLimits, MOST_DIVERGED, MOST_RISK, certify};
use super::draws::ChainDraws;
use super::scales::Scales;
use super::walkers::{Group, Moves};
use super::{Metric, Walkers};
use crate::answer::accuracy::multiple_for;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::Mixture;
use crate::noise::{Noise, Purpose};
use crate::target::Target;

/// Chains, and how many of them start at one point.
const CHAINS: usize = 64;
const PER_START: usize = 8;
/// Groups of chains that start at one point each.
const GROUPS: usize = CHAINS / PER_START;
/// How much wider than the mixture the first points lie, so that chains which have forgotten them show that they have.
const WIDENED: f64 = 1.5;
/// First step, times the fourth root of the dimension.
const FIRST_STEP: f64 = 0.8;
/// Iterations with short trajectories, of each window, and to settle the step at the end; fewest and most windows.
const SHORT: u64 = 12;
const WINDOW: u64 = 20;
const WINDOWS: (usize, usize) = (2, 6);
const SETTLING: u64 = 8;
/// Length of a trajectory, in standard deviations, and while warming up. A quarter of a circle, half of pi, is best where the metric
/// fits; a little more helps parameters that it does not fit.
const TRAJECTORY: f64 = 2.0;
const WARMING_TRAJECTORY: f64 = 1.5;
const SHORT_TRAJECTORY: f64 = 0.5;
/// Shortest and longest trajectory, as a share of their length.
const JITTER: (f64, f64) = (0.6, 1.4);
/// Where trajectories diverge, every so many iterations have steps that are shorter by a factor.
const CAREFUL_EVERY: u64 = 8;
const CAREFUL: f64 = 0.25;
/// Most steps of a trajectory, and while warming up, when the metric may be poor.
const MOST_STEPS: usize = 128;
const WARMING_MOST_STEPS: usize = 16;
/// Share of accepted trajectories that steps aim at: their harmonic mean, so that chains which are stuck count.
const ACCEPTED: f64 = 0.65;
const LEAST_ACCEPTANCE: f64 = 0.05;
/// What is left of its distance from one where steps prove to be too long.
const CLOSER: f64 = 0.3;
/// Kept iterations per round, and rounds before the first certificate and before a new warm-up.
const ROUND: u64 = 15;
const FEWEST_ROUNDS: usize = 3;
const MOST_ROUNDS: usize = 8;
/// Dimension up to which chains finish what many components could not fit, and are judged more strictly.
pub(crate) const FEW_DIMENSIONS: usize = 40;
/// Parameters that are judged first.
const RISKIEST: usize = 8;
/// Iterations per independent one, about, while warming up.
const CORRELATED: f64 = 3.0;

/// Where chains are, for those who watch them.
#[derive(Clone, Copy, Debug)]
pub struct ChainProgress {
    /// Iterations done, the warm-up included.
    pub iteration: u64,
    /// Iterations kept.
    pub kept: u64,
    /// Largest R-hat, once it is known.
    pub r_hat: f64,
}

/// Is told about every iteration; says whether to go on.
pub(crate) type Watch<'a> = dyn FnMut(&ChainProgress, &dyn Evaluator) -> bool + 'a;

/// What chains are to do.
pub(crate) struct Plan<'a> {
    pub target: &'a dyn Target,
    /// Where they start, and in which metric.
    pub mixture: &'a Mixture,
    pub seed: u64,
    /// Most evaluations.
    pub most: u64,
}

/// Chains with their adaptation.
struct Run<'a, 'w> {
    target: &'a dyn Target,
    evaluator: &'a mut dyn Evaluator,
    watch: &'a mut Watch<'w>,
    stopped: bool,
    walkers: Walkers,
    metric: Metric,
    log_step: f64,
    /// Share of accepted trajectories that steps aim at.
    accepted: f64,
    /// Whether some iterations have shorter steps than the others.
    careful: bool,
    /// Whether coordinates were ever found that set the scale of others.
    scaled: bool,
    /// Iterations done, and those since the metric changed.
    progress: ChainProgress,
    adapted: u64,
    seed: u64,
    /// Evaluations at which to stop.
    limit: u64,
}

/// Runs chains until their certificate holds, their evaluations are used up, or `watch` says so.
pub(crate) fn run(plan: &Plan<'_>, evaluator: &mut dyn Evaluator, watch: &mut Watch<'_>) -> Result<ChainDraws, Error> {
    let Plan { target, mixture, seed, most } = *plan;
    let d = mixture.dim();
    let limit = evaluator.spent().evals.saturating_add(most);
    let points = first_points(evaluator, mixture, seed)?;
    let walkers = Walkers::start(evaluator, points)?;
    let log_step = (FIRST_STEP * (d as f64).powf(-0.25)).ln();
    let metric = Metric::of_mixture(mixture);
    let progress = ChainProgress { iteration: 0, kept: 0, r_hat: f64::NAN };
    let (stopped, careful, scaled, adapted, accepted) = (false, false, false, 0, ACCEPTED);
    let mut run = Run {
        target,
        evaluator,
        watch,
        stopped,
        walkers,
        metric,
        log_step,
        accepted,
        careful,
        scaled,
        progress,
        adapted,
        seed,
        limit,
    };
    run.warm_up()?;
    run.keep()
}

/// One point for each group of chains; the mixture's mean where the density cannot be evaluated there.
fn first_points(evaluator: &mut dyn Evaluator, mixture: &Mixture, seed: u64) -> Result<Vec<f64>, Error> {
    let (d, mean) = (mixture.dim(), mixture.mean());
    let found = Walkers::start(evaluator, widened_draws(mixture, seed))?;
    let usable = |i: usize| found.log_p[i].is_finite() && found.grad[i * d..(i + 1) * d].iter().all(|g| g.is_finite());
    let each = (0..GROUPS).map(|i| if usable(i) { &found.z[i * d..(i + 1) * d] } else { &mean[..] });
    Ok(each.flat_map(|z| z.repeat(PER_START)).collect())
}

/// Draws of the widened mixture, one for each group of chains.
pub(super) fn widened_draws(mixture: &Mixture, seed: u64) -> Vec<f64> {
    let (d, mean) = (mixture.dim(), mixture.mean());
    let mut points = vec![0.0; GROUPS * d];
    mixture.draw(&mut points, seed, Purpose::Chains, 4);
    for z in points.chunks_exact_mut(d) {
        z.iter_mut().zip(&mean).for_each(|(z, m)| *z = m + WIDENED * (*z - m));
    }
    points
}

impl Run<'_, '_> {
    fn warm_up(&mut self) -> Result<(), Error> {
        for _ in 0..SHORT {
            if !self.is_over() {
                self.iterate(SHORT_TRAJECTORY, true)?;
            }
        }
        let mut draws = Vec::new();
        for window in 1..=WINDOWS.1 {
            // The last two windows say more than one, and the first was on its way.
            if window > 2 {
                draws.drain(..draws.len() / 2);
            } else {
                draws.clear();
            }
            let mut diverged = 0;
            for _ in 0..WINDOW {
                if self.is_over() {
                    return Ok(());
                }
                let moves = self.iterate(WARMING_TRAJECTORY, true)?;
                diverged += self.diverged(&moves).filter(|diverged| *diverged).count();
                draws.extend(self.walkers.points());
            }
            // The first window may still have been on its way.
            let counted = WINDOW / if self.careful { CAREFUL_EVERY } else { 1 };
            let too_long = window > 1 && diverged as f64 > MOST_DIVERGED * (counted as usize * CHAINS) as f64;
            if too_long {
                self.shorten_steps();
            }
            if !self.adapt(draws.clone())? && !too_long && window >= WINDOWS.0 {
                break;
            }
        }
        for _ in 0..SETTLING {
            self.iterate(TRAJECTORY, true)?;
        }
        Ok(())
    }

    /// Shorter steps can enter what longer ones cannot: those of all iterations, and much shorter ones of some.
    fn shorten_steps(&mut self) {
        self.accepted = 1.0 - CLOSER * (1.0 - self.accepted);
        self.careful = true;
    }

    /// Whether this iteration has shorter steps than others.
    fn is_careful(&self) -> bool {
        self.careful && self.progress.iteration.is_multiple_of(CAREFUL_EVERY)
    }

    /// Which trajectories diverged for good: where some iterations have shorter steps, they go where others diverge.
    fn diverged<'m>(&self, moves: &'m Moves) -> impl Iterator<Item = bool> + 'm {
        let counts = !self.careful || self.is_careful();
        moves.diverged().map(move |diverged| counts && diverged)
    }

    fn is_over(&self) -> bool {
        self.stopped || self.evaluator.spent().evals >= self.limit
    }

    /// Takes coordinates and metric from draws; returns whether they have changed beyond the noise.
    fn adapt(&mut self, mut draws: Vec<f64>) -> Result<bool, Error> {
        let d = self.walkers.d;
        let effective = (draws.len() / d) as f64 / CORRELATED;
        let scales = Scales::of(&draws, d, effective, self.walkers.scales());
        let new = scales.is_some() && self.walkers.scales().is_none();
        self.scaled |= scales.is_some();
        self.walkers = self.walkers.clone().in_coordinates(self.evaluator, scales)?;
        self.walkers.to_coordinates(&mut draws);
        let (metric, changed) = self.metric.adapted(&draws, CHAINS, d);
        self.metric = metric;
        self.adapted = 0;
        Ok(changed || new)
    }

    /// One trajectory of every chain; while `warming` up, the step adapts.
    fn iterate(&mut self, length: f64, warming: bool) -> Result<Moves, Error> {
        self.progress.iteration += 1;
        let iteration = self.progress.iteration;
        let mut noise = Noise::new(self.seed, Purpose::Chains, 1, iteration, 1);
        let length = length * (JITTER.0 + (JITTER.1 - JITTER.0) * noise.uniform());
        let shorter = if self.is_careful() { CAREFUL } else { 1.0 };
        let (length, longest) = (shorter * length, shorter * self.log_step.exp());
        let left = self.limit.saturating_sub(self.evaluator.spent().evals) / CHAINS as u64;
        let most = if warming { WARMING_MOST_STEPS } else { MOST_STEPS };
        let most = most.min(usize::try_from(left).unwrap_or(most)).max(1);
        let steps = ((length / longest).ceil() as usize).clamp(1, most);
        let step = (length / steps as f64).min(longest);
        let groups = [Group { metric: &self.metric, chains: 0..self.walkers.len(), step }];
        let key = (self.seed, Purpose::Chains, iteration);
        let moves = self.walkers.advance(self.evaluator, &groups, steps, key)?;
        if warming && !self.is_careful() {
            self.adapted += 1;
            let inverse: f64 = moves.acceptance.iter().map(|a| 1.0 / a.max(LEAST_ACCEPTANCE)).sum();
            let harmonic = moves.acceptance.len() as f64 / inverse;
            self.log_step += (harmonic - self.accepted) / (self.adapted as f64).powf(0.4);
        } else if !warming {
            self.progress.kept += 1;
        }
        self.stopped |= !(self.watch)(&self.progress, &*self.evaluator);
        Ok(moves)
    }

    /// Keeps rounds of iterations until the certificate holds twice.
    fn keep(mut self) -> Result<ChainDraws, Error> {
        let (d, mut most_rounds) = (self.walkers.d, MOST_ROUNDS);
        // What an earlier attempt has left, in case that there is no time for another.
        let mut before: Option<Kept> = None;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (mut kept, mut worst) = (Kept::default(), None);
            let (mut held, mut left_out, mut next) = (false, false, FEWEST_ROUNDS);
            self.progress.kept = 0;
            for round in 1.. {
                for _ in 0..ROUND {
                    if self.is_over() {
                        break;
                    }
                    let moves = self.iterate(TRAJECTORY, false)?;
                    kept.diverged.extend(self.diverged(&moves));
                    kept.energy.extend_from_slice(&moves.energy);
                    kept.draws.extend(self.walkers.points());
                    kept.log_p.extend(self.walkers.log_densities());
                }
                let exhausted = self.is_over();
                if round < next && !exhausted {
                    continue;
                }
                let risk = if held { CONFIRMING_RISK } else { MOST_RISK };
                let judge = |kept: &Kept, first: usize, worst: &mut Option<Vec<usize>>| {
                    // If those that were worst before do not hold yet, all do not.
                    let some =
                        worst.as_deref().filter(|_| !exhausted).map(|some| self.certify(kept, first, risk, Some(some)));
                    if let Some(some) = some.filter(|some| !some.reasons.is_empty()) {
                        return some;
                    }
                    let all = self.certify(kept, first, risk, None);
                    *worst = Some(all.riskiest(RISKIEST));
                    all
                };
                let mut certificate = judge(&kept, 0, &mut worst);
                if !certificate.reasons.is_empty() && !left_out {
                    // Slow parameters may still have been on their way.
                    let first = kept.log_p.len() / CHAINS / 3 * CHAINS;
                    let later = judge(&kept, first, &mut worst);
                    if later.risk() < certificate.risk() {
                        kept.leave_out(first, d);
                        (certificate, left_out) = (later, true);
                    }
                }
                self.progress.r_hat = certificate.r_hat();
                let holds = certificate.reasons.is_empty();
                // Judging takes longer the more there are: a fifth more each time, but for the round that confirms.
                next = if holds { round + 1 } else { (round + 1).max(round * 6 / 5) };
                if holds && held {
                    return Ok(self.finished(kept, certificate));
                }
                if exhausted {
                    if let Some(before) = before.filter(|before| kept.log_p.len() < before.log_p.len() / 2) {
                        certificate = self.certify(&before, 0, MOST_RISK, None);
                        kept = before;
                    }
                    return Ok(self.finished(kept, certificate));
                }
                // In few dimensions there is time to look at a hierarchy a second time, in the coordinates that the first has shown.
                if holds && attempt == 1 && self.scaled && d <= FEW_DIMENSIONS {
                    before = Some(kept.clone());
                    break;
                }
                held = holds;
                if certificate.diverged > MOST_DIVERGED {
                    self.shorten_steps();
                    before = Some(kept.clone());
                    break;
                }
                if round >= most_rounds && !held {
                    if !certificate.is_on_its_way() {
                        before = Some(kept.clone());
                        break;
                    }
                    most_rounds *= 2;
                }
            }
            // The first half may still have been on its way.
            let later = kept.log_p.len() / 2;
            self.adapt(kept.draws.split_off(later * d))?;
            for _ in 0..SETTLING {
                if !self.is_over() {
                    self.iterate(TRAJECTORY, true)?;
                }
            }
            most_rounds *= 2;
        }
    }

    fn finished(self, kept: Kept, certificate: Certificate) -> ChainDraws {
        let Kept { draws, log_p, energy, diverged } = kept;
        ChainDraws {
            draws,
            log_p,
            energy,
            diverged,
            chains: CHAINS,
            per_start: PER_START,
            certificate,
            scaled: self.scaled,
            scales: self.walkers.scales().cloned(),
            stopped: self.stopped,
            modes: None,
        }
    }

    /// Judges what was kept from the draw `first` on: all parameters, or some of them.
    fn certify(&self, kept: &Kept, first: usize, most_risk: f64, some: Option<&[usize]>) -> Certificate {
        let (d, target) = (self.walkers.d, self.target);
        let (draws, diverged) = (&kept.draws[first * d..], &kept.diverged[first..]);
        let counted = diverged.len() as f64 / if self.careful { CAREFUL_EVERY as f64 } else { 1.0 };
        let diverged = diverged.iter().filter(|diverged| **diverged).count() as f64 / counted;
        let all = target.parameter_names();
        let which: Vec<usize> = some.map_or_else(|| (0..all.len()).collect(), <[usize]>::to_vec);
        let (mut row, count) = (vec![0.0; all.len()], draws.len() / d);
        let mut columns = vec![0.0; which.len() * count];
        for (at, z) in draws.chunks_exact(d).enumerate() {
            target.to_parameters(z, &mut row);
            which.iter().enumerate().for_each(|(column, &j)| columns[column * count + at] = row[j]);
        }
        let names: Vec<String> = which.iter().map(|&j| all[j].clone()).collect();
        let column = |j: usize| columns[j * count..(j + 1) * count].to_vec();
        let limits = ChainLimits { most_risk, multiple: multiple_for(all.len()) };
        certify(&names, (CHAINS, PER_START), &column, (diverged, limits))
    }
}

/// What was kept of the chains: see [`ChainDraws`].
#[derive(Clone, Debug, Default)]
struct Kept {
    draws: Vec<f64>,
    log_p: Vec<f64>,
    energy: Vec<f64>,
    diverged: Vec<bool>,
}

impl Kept {
    /// Forgets the first draws.
    fn leave_out(&mut self, first: usize, d: usize) {
        self.draws.drain(..first * d);
        self.log_p.drain(..first);
        self.energy.drain(..first);
        self.diverged.drain(..first);
    }
}
