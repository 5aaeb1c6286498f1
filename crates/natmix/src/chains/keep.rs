//! The rounds of chains: iterations are kept until the certificate holds twice in a row.

use super::certificate::{CONFIRMING_RISK, Certificate, ChainLimits, MOST_DIVERGED, MOST_RISK, certify};
use super::draws::ChainDraws;
use super::run::{CAREFUL_EVERY, CHAINS, FEW_DIMENSIONS, PER_START, Run};
use crate::answer::accuracy::multiple_for;
use crate::error::Error;
use crate::target::Points;
use serde::{Deserialize, Serialize};

/// Iterations to settle the step before the first round.
const SETTLING: u64 = 8;
/// Length of a trajectory, in standard deviations. A quarter of a circle, half of pi, is best where the metric fits; a little more
/// helps parameters that it does not fit.
const TRAJECTORY: f64 = 2.0;
/// Kept iterations per round, and rounds before the first certificate and before a new warm-up.
const ROUND: u64 = 15;
const FEWEST_ROUNDS: u64 = 3;
const MOST_ROUNDS: u64 = 8;
/// Parameters that are judged first.
const RISKIEST: usize = 8;

/// A round of one of the attempts to get a certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Round {
    /// The first attempt is one, and so is the first round of each.
    pub attempt: u64,
    pub number: u64,
    /// Iterations to settle the step done, and those of this round.
    pub settled: u64,
    pub done: u64,
    /// The round to judge next, and rounds before a new attempt.
    pub next: u64,
    pub most: u64,
    /// Whether the certificate held when it was last judged, and whether the first draws were left out since.
    pub held: bool,
    pub left_out: bool,
    /// Whether the attempt before this one was merely slow, so that its later half counts, too.
    #[serde(default)]
    pub continues: bool,
    /// Parameters that were worst when all were last judged.
    pub worst: Option<Vec<usize>>,
}

impl Round {
    /// The first round of an attempt.
    fn first(attempt: u64, most: u64, continues: bool) -> Self {
        let (number, settled, done, next, held, left_out, worst) = (1, 0, 0, FEWEST_ROUNDS, false, false, None);
        Self { attempt, number, settled, done, next, most, held, left_out, continues, worst }
    }
}

impl Default for Round {
    fn default() -> Self {
        Self::first(1, MOST_ROUNDS, false)
    }
}

/// What was kept of the chains: see [`ChainDraws`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub draws: Vec<f64>,
    pub log_p: Vec<f64>,
    pub energy: Vec<f64>,
    pub diverged: Vec<bool>,
}

impl Kept {
    /// The later half, which is no longer on its way, and then others.
    fn later_half_and(&self, others: &Self) -> Self {
        let (count, d) = (self.log_p.len(), self.draws.len() / self.log_p.len().max(1));
        let first = count / CHAINS / 2 * CHAINS;
        Self {
            draws: [&self.draws[first * d..], &others.draws].concat(),
            log_p: [&self.log_p[first..], &others.log_p].concat(),
            energy: [&self.energy[first..], &others.energy].concat(),
            diverged: [&self.diverged[first..], &others.diverged].concat(),
        }
    }

    /// Forgets the first draws.
    fn leave_out(&mut self, first: usize, d: usize) {
        self.draws.drain(..first * d);
        self.log_p.drain(..first);
        self.energy.drain(..first);
        self.diverged.drain(..first);
    }
}

impl Run<'_, '_> {
    /// Goes on to keep rounds of iterations, until the certificate holds twice or time is over.
    pub(super) fn keep(mut self) -> Result<ChainDraws, Error> {
        loop {
            while self.state.round.settled < SETTLING && !self.is_over() {
                self.iterate(TRAJECTORY, true)?;
                self.state.round.settled += 1;
                self.tell();
            }
            while self.state.round.done < ROUND && !self.is_over() {
                self.keep_iteration()?;
                self.tell();
            }
            let exhausted = self.is_over();
            if self.state.round.number >= self.state.round.next || exhausted {
                let mut certificate = self.judge_round(exhausted);
                // In the round that confirms both count, too: they are more.
                if (!certificate.reasons.is_empty() || self.state.round.held)
                    && let Some((both, of_both)) = self.judge_both_attempts(exhausted)
                {
                    if self.state.round.held || exhausted {
                        self.state.kept = both;
                        return Ok(self.finished(of_both));
                    }
                    (certificate, self.state.round.next) = (of_both, self.state.round.number + 1);
                }
                if certificate.reasons.is_empty() && self.state.round.held {
                    return Ok(self.finished(certificate));
                }
                if exhausted {
                    return Ok(self.exhausted(certificate));
                }
                if let Some(continues) = self.wants_another_attempt(&certificate) {
                    self.begin_attempt(continues)?;
                    continue;
                }
            }
            let round = &mut self.state.round;
            (round.number, round.done) = (round.number + 1, 0);
        }
    }

    fn keep_iteration(&mut self) -> Result<(), Error> {
        let moves = self.iterate(TRAJECTORY, false)?;
        let diverged = self.diverged(&moves);
        let state = &mut self.state;
        state.kept.diverged.extend(diverged);
        state.kept.energy.extend_from_slice(&moves.energy);
        state.kept.draws.extend(state.walkers.points());
        state.kept.log_p.extend(state.walkers.log_densities());
        state.round.done += 1;
        Ok(())
    }

    /// Judges what was kept; leaves the first draws out if the others are better by themselves.
    fn judge_round(&mut self, exhausted: bool) -> Certificate {
        let mut certificate = self.judge(0, exhausted);
        if !certificate.reasons.is_empty() && !self.state.round.left_out {
            // Slow parameters may still have been on their way.
            let first = self.state.kept.log_p.len() / CHAINS / 3 * CHAINS;
            let later = self.judge(first, exhausted);
            if later.risk() < certificate.risk() {
                self.state.kept.leave_out(first, self.state.walkers.d);
                (certificate, self.state.round.left_out) = (later, true);
            }
        }
        self.state.progress.r_hat = certificate.r_hat();
        let (round, holds) = (&mut self.state.round, certificate.reasons.is_empty());
        // Judging takes longer the more there are: a fifth more each time, but for the round that confirms.
        round.next = if holds { round.number + 1 } else { (round.number + 1).max(round.number * 6 / 5) };
        certificate
    }

    /// What the attempt before and this one have kept together, with its certificate, if that holds: the same chains go on, in other
    /// coordinates.
    fn judge_both_attempts(&self, exhausted: bool) -> Option<(Kept, Certificate)> {
        let round = &self.state.round;
        let before = self.state.before.as_ref().filter(|_| round.continues)?;
        let both = before.later_half_and(&self.state.kept);
        let diverged = self.diverged_share(&self.state.kept, 0);
        let holds = |some: Option<&[usize]>| {
            let certificate = self.certify(&both, (0, diverged), self.risk(), some);
            certificate.reasons.is_empty().then_some(certificate)
        };
        if let Some(some) = round.worst.as_deref().filter(|_| !exhausted) {
            holds(Some(some))?;
        }
        let certificate = holds(None)?;
        Some((both, certificate))
    }

    fn risk(&self) -> f64 {
        if self.state.round.held { CONFIRMING_RISK } else { MOST_RISK }
    }

    fn judge(&mut self, first: usize, exhausted: bool) -> Certificate {
        let (kept, round, risk) = (&self.state.kept, &self.state.round, self.risk());
        let first = (first, self.diverged_share(kept, first));
        // If those that were worst before do not hold yet, all do not.
        let some =
            round.worst.as_deref().filter(|_| !exhausted).map(|some| self.certify(kept, first, risk, Some(some)));
        if let Some(some) = some.filter(|some| !some.reasons.is_empty()) {
            return some;
        }
        let all = self.certify(kept, first, risk, None);
        self.state.round.worst = Some(all.riskiest(RISKIEST));
        all
    }

    /// Whether what was kept should become one more window of the warm-up; and if so, whether it was merely too slow.
    fn wants_another_attempt(&mut self, certificate: &Certificate) -> Option<bool> {
        let holds = certificate.reasons.is_empty();
        // In few dimensions there is time to look at a hierarchy a second time, in the coordinates that the first has shown.
        if holds && self.state.round.attempt == 1 && self.state.scaled && self.state.walkers.d <= FEW_DIMENSIONS {
            return Some(false);
        }
        self.state.round.held = holds;
        if certificate.diverged > MOST_DIVERGED {
            self.shorten_steps();
            return Some(false);
        }
        let round = &mut self.state.round;
        if round.number >= round.most && !holds {
            if !certificate.is_on_its_way() {
                // In few dimensions the attempts at a hierarchy are looks that confirm each other, and stay apart.
                return Some(!(self.state.scaled && self.state.walkers.d <= FEW_DIMENSIONS));
            }
            round.most = round.most.saturating_mul(2);
        }
        None
    }

    fn begin_attempt(&mut self, continues: bool) -> Result<(), Error> {
        let state = &mut self.state;
        let kept = std::mem::take(&mut state.kept);
        // The first half may still have been on its way.
        let later = kept.log_p.len() / 2 * state.walkers.d;
        let draws = kept.draws[later..].to_vec();
        state.before = Some(kept);
        state.round = Round::first(state.round.attempt + 1, state.round.most.saturating_mul(2), continues);
        state.progress.kept = 0;
        self.adapt(draws)?;
        Ok(())
    }

    /// The end for want of time: an earlier attempt counts if it is much longer.
    fn exhausted(mut self, certificate: Certificate) -> ChainDraws {
        let count = self.state.kept.log_p.len();
        let Some(before) = self.state.before.take().filter(|before| count < before.log_p.len() / 2) else {
            return self.finished(certificate);
        };
        let certificate = self.certify(&before, (0, self.diverged_share(&before, 0)), MOST_RISK, None);
        self.state.kept = before;
        self.finished(certificate)
    }

    fn finished(self, certificate: Certificate) -> ChainDraws {
        let Kept { draws, log_p, energy, diverged } = self.state.kept;
        ChainDraws {
            draws,
            log_p,
            energy,
            diverged,
            chains: CHAINS,
            per_start: PER_START,
            certificate,
            scaled: self.state.scaled,
            scales: self.state.walkers.scales().cloned(),
            stopped: self.stopped,
            modes: None,
        }
    }

    /// The share of trajectories that diverged among what was kept from the draw `first` on.
    fn diverged_share(&self, kept: &Kept, first: usize) -> f64 {
        let diverged = &kept.diverged[first..];
        let share = diverged.iter().filter(|diverged| **diverged).count() as f64 / diverged.len() as f64;
        let of_careful = share * CAREFUL_EVERY as f64;
        // What an earlier attempt has left may stem from before some iterations had shorter steps: then all of them count.
        if self.state.careful && of_careful <= 1.0 { of_careful } else { share }
    }

    /// Judges what was kept from the draw `first` on, of which a share `diverged`: all parameters, or some of them.
    fn certify(
        &self,
        kept: &Kept,
        (first, diverged): (usize, f64),
        most_risk: f64,
        some: Option<&[usize]>,
    ) -> Certificate {
        let (d, target) = (self.state.walkers.d, self.target);
        let draws = &kept.draws[first * d..];
        let all = target.parameter_names();
        let which: Vec<usize> = some.map_or_else(|| (0..all.len()).collect(), <[usize]>::to_vec);
        let (mut rows, count) = (vec![0.0; all.len() * CHAINS], draws.len() / d);
        let mut columns = vec![0.0; which.len() * count];
        for (iteration, points) in draws.chunks(CHAINS * d).enumerate() {
            let (points, before) = (Points::new(points, d), iteration * CHAINS);
            target.points_to_parameters(points, first + before, &mut rows[..points.len() * all.len()]);
            for (chain, row) in rows.chunks_exact(all.len().max(1)).enumerate().take(points.len()) {
                let at = before + chain;
                which.iter().enumerate().for_each(|(column, &j)| columns[column * count + at] = row[j]);
            }
        }
        let names: Vec<String> = which.iter().map(|&j| all[j].clone()).collect();
        let column = |j: usize| columns[j * count..(j + 1) * count].to_vec();
        let limits = ChainLimits { most_risk, multiple: multiple_for(all.len()) };
        certify(&names, (CHAINS, PER_START), &column, (diverged, limits))
    }
}

#[cfg(test)]
mod tests;
