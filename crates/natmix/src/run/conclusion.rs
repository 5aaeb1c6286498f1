//! The end of a run: its result is chosen and measured with fresh draws.

use super::checkpoint::{Beginning, Counts, State};
use super::driver::Ended;
use super::observe::Observer;
use super::stop::{Stop, StopReason};
use super::time_left::TimeLeft;
use super::under_way::{ChainWatch, Halt};
use crate::answer::diagnose::{Diagnostics, Estimate, Plan, WeightedDraws, diagnose_with};
use crate::answer::level::Level;
use crate::answer::tails::{self, FitFacts};
use crate::chains::draws::ChainDraws;
use crate::chains::earlier::Earlier;
use crate::chains::modes::{ModeShares, Modes};
use crate::chains::run::{self, ChainProgress, FEW_DIMENSIONS, Watch};
use crate::chains::second_opinion::{self, SecondOpinion};
use crate::chains::state::ChainState;
use crate::chains::{evidence, visits};
use crate::config::{Config, Finish};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::Mixture;
use crate::strategy::automatic::{DEFAULT_EVALS, SearchSummary};
use crate::strategy::{Outcome, kind_of};
use crate::target::Target;
use crate::target::coordinate_names;
use crate::target::reduction::Subspace;
use crate::workspace::ScratchPool;
use std::sync::Arc;
use std::time::Instant;

/// Most evaluations of chains, in multiples of the budget of a fit: in few dimensions, and in many.
const CHAIN_TIMES: (u64, u64) = (4, 6);

/// Evaluations for which there must be time where chains within several modes may run: they do not get far with fewer.
const WITHIN_MODES: usize = 5_000;

/// Largest R-hat in few dimensions.
const FEW_DIMENSIONS_R_HAT: f64 = 1.005;
/// Effective draws from which on weighted draws can confirm chains there.
const CONFIRMING: f64 = 1_000.0;
/// k-hat of weighted draws below which they can refute chains.
const REFUTING_K_HAT: f64 = 0.5;

/// A finished fit.
#[derive(Debug)]
pub struct Fitted {
    /// The last mixture, unless an earlier one was better beyond the noise.
    pub mixture: Mixture,
    /// ELBO from the points of the last iterations, and its standard error. The diagnostics have a fresh one.
    pub running_elbo: (f64, f64),
    /// Measured with fresh draws, unless switched off.
    pub diagnostics: Option<Diagnostics>,
    /// The draws that the diagnostics were measured with, and their weights.
    pub weighted: Option<WeightedDraws>,
    /// The draws of chains, if there were any.
    pub chains: Option<ChainDraws>,
    /// Why the run ended.
    pub stop: Stop,
    /// Iterations done.
    pub iterations: u64,
    /// Points at which the target was evaluated, diagnostics not counted.
    pub evals: u64,
    /// Points at which it was evaluated for the diagnostics.
    pub diagnostic_evals: u64,
    /// Points at which it was evaluated for the chains.
    pub chain_evals: u64,
    /// Points that could not be used.
    pub dropped: u64,
    /// Seconds, diagnostics included.
    pub seconds: f64,
    /// The settings.
    pub config: Config,
    /// What an observer failed with; the result stands all the same.
    pub observer_error: Option<Error>,
    /// What the target failed with while the diagnostics were measured; the result stands all the same.
    pub diagnostics_error: Option<Error>,
    /// What the search for modes found, in an automatic run.
    pub search: Option<SearchSummary>,
    /// The state at the end, to resume from.
    pub state: State,
    /// Where the fit ran, if it was in [fewer dimensions](crate::target::reduction): state, and what observers saw, are in these
    /// coordinates.
    pub subspace: Option<Arc<Subspace>>,
}

/// Chooses the mixture to return, and measures it. `from` are the chains that an interrupted run has left.
pub(crate) fn conclude(
    ended: Ended,
    config: Config,
    target: &dyn Target,
    evaluator: &mut dyn Evaluator,
    (scratch, time): (&ScratchPool, &mut TimeLeft),
    (beginning, observers): (&Beginning, &mut [&mut dyn Observer]),
    mut from: Option<ChainState>,
) -> Result<Fitted, Error> {
    let clock = Instant::now();
    let Ended { strategy, counts, mut reason, mut observer_error } = ended;
    let answer_holds = reason == StopReason::AnswerHolds;
    let converged = answer_holds || reason == StopReason::Converged;
    let Outcome { mixture, running_elbo, search } = strategy.outcome();
    let (mut diagnostics, mut weighted, mut chains, mut diagnostics_error) = (None, None, None, None);
    let (mut chain_evals, mut halted) = (0, None);
    if config.diagnostic_draws > 0 {
        let start_sd = &beginning.sd[..];
        let run = FinishedRun { target, config: &config, mixture: &mixture, converged, answer_holds, start_sd };
        let cancelled = reason == StopReason::Cancelled;
        let (config, strategy) = (&config, &*strategy);
        let mut chain_watch = ChainWatch { observers, config, strategy, beginning, counts, reason, clock, halt: None };
        let mut watch = |progress: &ChainProgress, state: &ChainState, evaluator: &dyn Evaluator| {
            chain_watch.tell(progress, state, evaluator)
        };
        let watch = (!cancelled).then_some(&mut watch as &mut Watch<'_>);
        let measured = run.measure(evaluator, (scratch, time), counts.spent.evals, (watch, &mut from));
        if let Some(Halt { reason: halt, error, state }) = chain_watch.halt {
            (reason, halted) = (halt, state);
            observer_error = observer_error.or(error);
        }
        match measured {
            Ok(measured) => {
                let Measured { diagnostics: mut found, .. } = measured;
                chain_evals = measured.chain_evals;
                if let Some(search) = &search {
                    // Chains within modes have not looked for others.
                    let within = measured.chains.as_ref().is_some_and(|chains| chains.modes.is_some());
                    let by_chains = (found.level == Level::Chains || found.around_chains) && !within;
                    found.verdict.add_search(search, mixture.len(), by_chains);
                }
                (diagnostics, weighted, chains) = (Some(found), Some(measured.weighted), measured.chains);
            }
            // The fit stands: hours of work must not be lost to one evaluation at the end.
            Err(error) => diagnostics_error = Some(error),
        }
    }
    let state = halted.map_or_else(|| State::of(&*strategy, (counts, beginning), &config), Ok)?;
    let Counts { iteration: iterations, spent, seconds } = counts;
    Ok(Fitted {
        mixture,
        running_elbo,
        diagnostics,
        weighted,
        chains,
        stop: Stop { reason, converged },
        iterations,
        evals: spent.evals,
        diagnostic_evals: 0,
        chain_evals,
        dropped: spent.dropped,
        seconds: seconds + clock.elapsed().as_secs_f64(),
        config,
        observer_error,
        diagnostics_error,
        search,
        state,
        subspace: None,
    })
}

/// A run whose result is measured.
struct FinishedRun<'a> {
    target: &'a dyn Target,
    config: &'a Config,
    mixture: &'a Mixture,
    converged: bool,
    /// Whether the run ended because the answer was seen to hold.
    answer_holds: bool,
    /// Standard deviation of the start, in each coordinate.
    start_sd: &'a [f64],
}

/// What is found about a result.
struct Measured {
    diagnostics: Diagnostics,
    weighted: WeightedDraws,
    chains: Option<ChainDraws>,
    chain_evals: u64,
}

impl FinishedRun<'_> {
    fn measure(
        &self,
        evaluator: &mut dyn Evaluator,
        (scratch, time): (&ScratchPool, &mut TimeLeft),
        evals: u64,
        (watch, from): (Option<&mut Watch<'_>>, &mut Option<ChainState>),
    ) -> Result<Measured, Error> {
        let Self { target, config, mixture, converged, start_sd, .. } = *self;
        let budget = kind_of(config).budget();
        let possible = config.finish != Finish::Never && target.has_gradient() && watch.is_some();
        // A log-concave density has one mode, even if a mixture has bumps.
        let modes = if possible && !target.is_log_concave() { Modes::of(mixture) } else { None };
        let possible =
            possible && (config.finish == Finish::Always || modes.as_ref().is_none_or(Modes::can_be_weighed));
        // Where there are several modes chains take long: weights get all the draws that they need first.
        let chains_follow = possible && (config.finish == Finish::Always || modes.is_none());
        let mut plan = Plan::after_run((config.diagnostic_draws, config.seed), evals, budget, chains_follow);
        plan.seen_to_hold = self.answer_holds && mixture.dim() > FEW_DIMENSIONS;
        let (mut unjudged, mut weighted) = diagnose_with(target, evaluator, mixture, plan, (scratch, &mut *time))?;
        let holds = converged && unjudged.diagnostics.level.holds();
        let facts = FitFacts { has_gradient: target.has_gradient(), holds, start_sd };
        let tails = tails::examine(evaluator, mixture, facts, config.seed, time)?;
        let faults = tails.as_ref().map_or_else(Vec::new, |tails| tails.reasons(&coordinate_names(target)));
        let (always, level) = (config.finish == Finish::Always, unjudged.diagnostics.level);
        // Mass was found beside the mixture: chains within its modes would not get there, but chains of the whole may.
        let hidden = unjudged.diagnostics.missed_mass.is_some() && !level.holds();
        let modes = modes.filter(|modes| !hidden && modes.can_be_weighed());
        let affordable = modes.is_none() || time.allows(WITHIN_MODES);
        let needed = always || !level.holds() && faults.is_empty() && affordable;
        let before_chains = evaluator.spent().evals;
        let mut chains = match watch.filter(|_| needed && possible) {
            Some(watch) => {
                let found = (&weighted, modes.as_ref());
                Some(self.run_chains(evaluator, (budget, *time), found, (watch, from))?)
            }
            None => None,
        };
        if let Some(chains) = &mut chains {
            let around = self.second_opinion(evaluator, &weighted, chains)?;
            unjudged.finish(&chains.certificate);
            // Weighted draws do not depend on how far chains have gone into the neck of a hierarchy.
            let wanted = chains.scaled || !unjudged.diagnostics.level.holds();
            match around {
                Some(around) if wanted && !around.lacks_mass && unjudged.weigh_again(target, &around.weighted) => {
                    weighted = around.weighted;
                }
                _ => {}
            }
        }
        let mut notes: Vec<String> =
            chains.iter().filter_map(|chains| chains.modes.as_ref()).map(ModeShares::note).collect();
        if let (Some(chains), Level::Chains) = (&chains, unjudged.diagnostics.level) {
            let by_weights = Some(unjudged.diagnostics.log_evidence).filter(|_| weighted.psis.trusted());
            // Draws that hold must not be lost to an evaluation that fails here.
            let found = evidence::best(evaluator, (by_weights, chains), config.seed, time).unwrap_or(None);
            notes.extend(found.is_none().then(|| evidence::NOT_KNOWN.into()));
            unjudged.diagnostics.log_evidence = found.unwrap_or(Estimate { mean: f64::NAN, se: f64::NAN });
        }
        let chain_evals = evaluator.spent().evals - before_chains;
        let mut diagnostics = unjudged.judge(&target.parameter_names());
        diagnostics.verdict.notes.extend(notes);
        if tails.is_none() {
            diagnostics.verdict.notes.push("there was no time left to examine the tails of the density".into());
        }
        diagnostics.verdict.reasons.splice(0..0, faults);
        diagnostics.verdict.trusted = diagnostics.verdict.reasons.is_empty();
        if self.answer_holds && diagnostics.verdict.trusted {
            let note =
                "the run stopped because the answer holds, not because its ELBO had converged (--goal elbo goes on)";
            diagnostics.verdict.notes.push(note.into());
        }
        Ok(Measured { diagnostics, weighted, chains, chain_evals })
    }

    fn run_chains(
        &self,
        evaluator: &mut dyn Evaluator,
        (budget, time): (Option<u64>, TimeLeft),
        (weighted, modes): (&WeightedDraws, Option<&Modes>),
        (watch, from): (&mut Watch<'_>, &mut Option<ChainState>),
    ) -> Result<ChainDraws, Error> {
        let Self { target, config, mixture, .. } = *self;
        let times = if mixture.dim() <= FEW_DIMENSIONS { CHAIN_TIMES.0 } else { CHAIN_TIMES.1 };
        let most = times * budget.unwrap_or(DEFAULT_EVALS);
        let plan = run::Plan { target, mixture, seed: config.seed, most, earlier: &Earlier::default() };
        let mut watch = |progress: &ChainProgress, state: &ChainState, evaluator: &dyn Evaluator| {
            watch(progress, state, evaluator) && time.allows(1)
        };
        let before = evaluator.spent();
        let within = match modes {
            Some(modes) => modes.run(&plan, evaluator, (&mut watch, &time), from)?,
            None => None,
        };
        let mut chains = match within {
            Some(chains) => chains,
            None => {
                let spent = evaluator.spent().since(before);
                let (most, earlier) = (most.saturating_sub(spent.evals), Earlier { spent, ..Earlier::default() });
                run::run(&run::Plan { most, earlier: &earlier, ..plan }, evaluator, &mut watch, from)?
            }
        };
        let mut weights = weighted.weights();
        if let (Some(modes), Some(found)) = (modes, &chains.modes) {
            modes.with_shares(mixture, &weighted.draws, &mut weights, &found.shares);
        }
        let unvisited = visits::unvisited(mixture, (&weighted.draws, &weights), &chains.draws);
        if unvisited > visits::MOST_UNVISITED && !chains.draws.is_empty() {
            chains.certificate.reasons.push(format!(
                "the chains are hardly ever in parts of the mixture that hold {:.0}% of the mass",
                100.0 * unvisited
            ));
        }
        Ok(chains)
    }

    /// In few dimensions chains finish what many components could not fit: narrow places, and tails that they are slow to enter.
    /// There a hierarchy's own tail, or chains that barely agree, have been seen to pass for right. So draws around those of the
    /// chains, with importance weights, are asked as well, and chains are judged more strictly if these cannot confirm them.
    fn second_opinion(
        &self,
        evaluator: &mut dyn Evaluator,
        weighted: &WeightedDraws,
        chains: &mut ChainDraws,
    ) -> Result<Option<SecondOpinion>, Error> {
        let Self { target, config, mixture, .. } = *self;
        if mixture.dim() > FEW_DIMENSIONS || chains.stopped {
            return Ok(None);
        }
        let holds = |drawn: &WeightedDraws| drawn.hold(target);
        let mut around = second_opinion::weigh(evaluator, (mixture, weighted), chains, (config.seed, &holds))?;
        if !chains.certificate.reasons.is_empty() {
            return Ok(around);
        }
        let enough = |drawn: &WeightedDraws| drawn.psis.trusted() && drawn.psis.ess >= CONFIRMING;
        let usable = around.as_mut().filter(|around| enough(&around.weighted)).map(|around| {
            let differing = around.differs(target, chains);
            (&*around, differing)
        });
        let (r_hat, of_density) = (chains.certificate.r_hat(), chains.density_r_hat());
        let log_concave = evaluator.is_log_concave();
        let reason = match usable {
            // It has neither narrow peaks nor necks that chains could miss.
            _ if log_concave => None,
            // Weights with a heavier tail, or without mass where chains go, are further off than their errors say: they may confirm
            // chains, but not refute them.
            Some((around, Some(name))) if !around.lacks_mass && around.weighted.psis.k_hat < REFUTING_K_HAT => {
                Some(format!("the chains differ from draws with importance weights in {name}"))
            }
            Some((_, None)) => None,
            _ if chains.scaled => Some(
                "some parameters set the scale of others, and chains may not have gone far enough into where it is small \
                 (try a non-centred parametrisation)"
                    .into(),
            ),
            _ if r_hat >= FEW_DIMENSIONS_R_HAT => Some(format!(
                "the chains barely agree: R-hat is {r_hat:.3} (below {FEW_DIMENSIONS_R_HAT} is wanted in few dimensions)"
            )),
            // Chains that seldom find a narrow peak differ in how high they are.
            _ if of_density >= FEW_DIMENSIONS_R_HAT => Some(format!(
                "the chains disagree about how high the density is where they are: R-hat of log p is {of_density:.3}"
            )),
            _ => None,
        };
        chains.certificate.reasons.extend(reason);
        Ok(around)
    }
}
