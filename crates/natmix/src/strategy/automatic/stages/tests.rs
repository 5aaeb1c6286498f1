use super::super::state::AutomaticState;
use super::super::{IterationBuffers, SearchSummary};
use super::*;
use crate::config::{Automatic, Config, OrAuto};
use crate::evaluate::{Evaluator, Limits, Spent, of_target};
use crate::family::{Gaussian, Mixture};
use crate::workspace::ScratchPool;

const BUDGET: u64 = 100_000;

/// A run with components of equal weight in a row, ten points each, whose residual has this variance.
fn run_with(count: usize, components: OrAuto<usize>, residual_variance: f64) -> AutomaticStrategy {
    let settings = Automatic { components, ..Automatic::default() };
    let row = (0..count).map(|k| Gaussian::isotropic(vec![10.0 * k as f64, 0.0], 1.0)).collect();
    let mixture = Mixture::new(&vec![1.0; count], row).unwrap();
    let mut state = AutomaticState::new(mixture, SearchSummary::default(), 1.0, 10);
    state.phase.residual_variance.fill(residual_variance);
    let config = Config { strategy: settings.clone().into(), max_evals: Some(BUDGET), ..Config::default() };
    AutomaticStrategy { config, settings, state, searched: true, work: IterationBuffers::default() }
}

impl AutomaticStrategy {
    /// The same run after iterations with these ELBOs.
    fn after(mut self, elbos: impl IntoIterator<Item = f64>) -> Self {
        elbos.into_iter().for_each(|elbo| self.state.record.history.push(elbo, 0.0));
        self
    }

    /// The same run, planned after `iteration` iterations and `evals` evaluations.
    fn planned(mut self, iteration: u64, evals: u64) -> Self {
        let target = Mixture::single(Gaussian::isotropic(vec![0.0, 0.0], 1.0));
        let (scratch, mut always) = (ScratchPool::new(1), |_: &dyn Evaluator| true);
        let spent = Spent { evals, dropped: 0 };
        let mut whole = of_target(&target, &scratch, Limits { spent, ..Limits::default() });
        let has_time = &|_| true;
        let mut tools = Tools {
            target: &target,
            evaluator: &mut *whole,
            scratch: &scratch,
            iteration,
            go_on: &mut always,
            has_time,
        };
        self.plan(iteration, &mut tools).unwrap();
        self
    }

    /// Number of components, splits, and whether the run settles.
    fn stands(&self) -> (usize, u64, bool) {
        (self.state.mixture.len(), self.state.phase.stage, self.state.phase.settling_left.is_some())
    }
}

fn flat() -> [f64; 20] {
    [-1.0; 20]
}

fn rising(count: usize) -> impl Iterator<Item = f64> {
    (0..count).map(|i| -100.0 + i as f64)
}

#[test]
fn a_converged_stage_with_a_misfit_ends_in_a_split() {
    let run = run_with(2, OrAuto::Auto, 1.0).after(flat()).planned(20, 1000);
    let (count, stage, settles) = run.stands();
    assert!(count > 2 && stage == 1 && !settles, "{count}");
    let phase = &run.state.phase;
    assert_eq!((phase.stage_start, phase.previous_elbo), (20, -1.0));
    // The new stage has a history of its own.
    assert!(run.state.record.history.last().is_none());
}

#[test]
fn a_converged_run_without_a_misfit_settles() {
    let run = run_with(2, OrAuto::Auto, 1e-6).after(flat()).planned(20, 1000);
    assert_eq!(run.stands(), (2, 0, true));
    let phase = &run.state.phase;
    assert_eq!((phase.settling_left, phase.converged), (Some(16), true));
    // Two components get four times the points; a plan that settles does nothing more.
    assert_eq!((phase.settling_factor, &phase.draws[..]), (4, &[40, 40][..]));
    assert_eq!(run.planned(21, 1080).state.phase.draws, [40, 40]);
}

#[test]
fn a_rising_elbo_goes_on() {
    let run = run_with(2, OrAuto::Auto, 1.0).after(rising(20)).planned(20, 1000);
    assert_eq!(run.stands(), (2, 0, false));
}

#[test]
fn the_first_stage_ends_after_its_most_iterations_or_when_the_elbo_stops_rising() {
    let run =
        |iteration, elbos: Vec<f64>| run_with(2, OrAuto::Auto, 1.0).after(elbos).planned(iteration, 1000).stands();
    assert_eq!(run(29, rising(20).collect()).1, 0);
    assert_eq!(run(30, rising(20).collect()).1, 1);
    // Eight estimates cannot show convergence, but that the ELBO rises no more.
    assert_eq!(run(11, vec![-1.0; 8]).1, 0);
    assert_eq!(run(12, vec![-1.0; 8]).1, 1);
}

#[test]
fn a_spent_budget_forces_the_settling() {
    let plan = |evals| run_with(2, OrAuto::Auto, 1.0).after(rising(20)).planned(20, evals);
    // Sixteen iterations with four times twenty points.
    let needed = 16 * 80;
    assert_eq!(plan(BUDGET - needed).stands(), (2, 0, false));
    let run = plan(BUDGET - needed + 1);
    assert_eq!(run.stands(), (2, 0, true));
    assert!(!run.state.phase.converged);
}

#[test]
fn a_nearly_converged_run_counts_as_converged_when_its_budget_is_spent() {
    // Rises by a hundredth of the tolerance per iteration, and stage 1 has no limit.
    let mut run = run_with(2, OrAuto::Auto, 1.0).after((0..40).map(|i| -1.0 + 1e-3 * f64::from(i)));
    run.state.phase.stage = 1;
    let run = run.planned(40, BUDGET);
    assert_eq!(run.stands(), (2, 1, true));
    assert!(run.state.phase.converged);
}

#[test]
fn there_is_no_split_if_the_last_stage_gained_nothing() {
    let plan = |stage, previous_elbo| {
        let mut run = run_with(2, OrAuto::Auto, 1.0).after(flat());
        (run.state.phase.stage, run.state.phase.previous_elbo) = (stage, previous_elbo);
        run.planned(20, 1000).stands()
    };
    assert_eq!(plan(2, -1.0), (2, 2, true));
    assert_eq!(plan(2, -1.01), (2, 2, true));
    assert_eq!(plan(2, -1.5).1, 3);
    // Nothing comes before the first split.
    assert_eq!(plan(0, f64::NEG_INFINITY).1, 1);
}

#[test]
fn a_fixed_number_of_components_is_reached_without_a_misfit() {
    let run = run_with(2, OrAuto::Is(7), 1e-6).after(flat()).planned(20, 1000);
    assert_eq!(run.stands(), (7, 1, false));
    // There it stays, whatever the misfit.
    let mut run = run.after(flat());
    run.state.phase.residual_variance.fill(3.0);
    assert_eq!(run.planned(40, 2000).stands(), (7, 1, true));
}

#[test]
fn a_fixed_number_below_the_number_of_modes_is_kept_by_deleting_the_lightest() {
    let run = run_with(5, OrAuto::Is(3), 1.0).after(flat()).planned(20, 1000);
    // These converge anew before the run settles, and the best mixture of another number is forgotten.
    assert_eq!(run.stands(), (3, 0, false));
    assert!(run.state.record.history.last().is_none() && run.state.record.best.is_none());
    let run = run.planned(21, 1030).after(rising(20)).planned(40, 1600);
    assert_eq!(run.stands(), (3, 0, false));
    assert_eq!(run.after([-81.0; 40]).planned(80, 2800).stands(), (3, 0, true));
}

#[test]
fn which_components_to_delete_is_not_decided_before_the_weights_have_had_time() {
    let run = |iteration, evals| run_with(5, OrAuto::Is(3), 1.0).after([-1.0; 8]).planned(iteration, evals).stands();
    assert_eq!(run(12, 1000), (5, 0, false));
    assert_eq!(run(30, 1000), (3, 0, false));
    // Unless there are no evaluations left for it.
    assert_eq!(run(12, BUDGET - 100), (3, 0, false));
}

#[test]
fn components_without_weight_are_deleted_without_a_new_start() {
    let mut run = run_with(4, OrAuto::Is(3), 1e-6).after(flat());
    run.state.mixture.parts_mut().0.copy_from_slice(&[-1.1, -1.1, -1.1, -9.0]);
    assert_eq!(run.planned(20, 1000).stands(), (3, 0, true));
}

#[test]
fn a_fixed_number_is_reached_even_at_the_end_of_the_budget() {
    let run = run_with(2, OrAuto::Is(7), 1.0).after(rising(20)).planned(20, BUDGET - 100);
    assert_eq!(run.stands(), (7, 1, false));
}

#[test]
fn the_budget_limits_the_number_of_components() {
    let plan = |evals| run_with(2, OrAuto::Auto, 4.0).after(flat()).planned(20, evals).stands().0;
    // Eighty iterations with eleven points per component.
    assert_eq!(plan(BUDGET - 80 * 11 * 9), 9);
    // Fewer iterations, where the number at most doubles.
    assert_eq!(plan(BUDGET - 30 * 11 * 4), 4);
}

#[test]
fn without_a_budget_the_number_of_components_grows_by_a_factor() {
    let grown = |count: usize| {
        let mut run = run_with(count, OrAuto::Auto, 4.0).after(flat());
        (run.config.max_evals, run.config.max_seconds) = (None, Some(60.0));
        run.planned(20, 1000).stands().0
    };
    assert_eq!((grown(2), grown(6)), (16, 24));
}

#[test]
fn a_mode_that_two_components_share_is_not_taken_for_two_light_ones() {
    let at = |x: f64| Gaussian::isotropic(vec![x, 0.0], 1.0);
    let run = |fixed| {
        let mut run = run_with(3, OrAuto::Is(fixed), 1.0).after(flat());
        run.state.mixture = Mixture::new(&[0.3, 0.4, 0.3], vec![at(-0.5), at(20.0), at(0.5)]).unwrap();
        let mixture = run.planned(20, 1000).state.mixture;
        (mixture.components().iter().map(|one| one.mean()[0]).collect::<Vec<f64>>(), mixture.weights())
    };
    assert_eq!(run(1).0, [-0.5]);
    let (means, weights) = run(2);
    assert_eq!(means, [-0.5, 20.0]);
    assert!((weights[0] - 0.6).abs() < 1e-12);
}
