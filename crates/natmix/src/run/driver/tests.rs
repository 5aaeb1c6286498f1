use super::*;
use crate::evaluate::{Batch, Limits, Part, Request, Spent, of_target};
use crate::family::{Gaussian, Mixture};
use crate::rule::StepInfo;
use crate::save::bundle::Tensors;
use crate::strategy::Outcome;
use serde_json::{Value, json};

/// Prepares once, then evaluates three points per iteration; converges after a given number.
#[derive(Debug)]
struct Scripted {
    mixture: Mixture,
    prepared: bool,
    done: u64,
    last: u64,
}

impl Scripted {
    fn boxed(done: u64, last: u64) -> Box<dyn Strategy> {
        let mixture = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
        Box::new(Self { mixture, prepared: done > 0, done, last })
    }
}

impl Strategy for Scripted {
    fn iterate(&mut self, tools: &mut Tools<'_>) -> Result<Progress, Error> {
        let request = Request::default();
        let evaluate = |tools: &mut Tools<'_>| {
            let part = Part::new(&[0.0, 1.0, 2.0], 1, 2, &request);
            let ticket = tools.evaluator.submit(Batch { request: request.clone(), parts: vec![part] });
            tools.evaluator.collect(ticket).map(|_| ())
        };
        if !self.prepared {
            while (tools.go_on)(tools.evaluator) && tools.evaluator.spent().evals < 6 {
                evaluate(tools)?;
            }
            self.prepared = true;
            return Ok(Progress::Prepared);
        }
        assert_eq!(tools.iteration, self.done);
        evaluate(tools)?;
        self.done += 1;
        Ok(Progress::Iterated { elbo: -1.0 / self.done as f64, se: 0.0 })
    }
    fn mixture(&self) -> &Mixture {
        &self.mixture
    }
    fn steps(&self) -> &[StepInfo] {
        &[]
    }
    fn next_cost(&self) -> u64 {
        if self.prepared { 3 } else { 0 }
    }
    fn finished(&self) -> Option<StopReason> {
        (self.done >= self.last).then_some(StopReason::Converged)
    }
    fn outcome(&self) -> Outcome {
        Outcome { mixture: self.mixture.clone(), running_elbo: (0.0, 0.0), search: None }
    }
    fn save(&self, _: &mut Tensors) -> Result<Value, Error> {
        Ok(json!(self.done))
    }
}

/// Records what it is told; fails or stops at a given iteration.
#[derive(Default)]
struct ScriptedObserver {
    searched: Vec<u64>,
    elbos: Vec<f64>,
    enough_at: Option<u64>,
    fails_at: Option<u64>,
    /// Ends a search at once.
    impatient: bool,
}

impl Observer for ScriptedObserver {
    fn searching(&mut self, searching: &Searching) -> ControlFlow<()> {
        self.searched.push(searching.evals);
        if self.impatient { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.elbos.push(it.elbo);
        if self.fails_at == Some(it.iteration) {
            return Err(Error::InvalidInput("full".into()));
        }
        Ok(if self.enough_at == Some(it.iteration) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Runs from `done` of at most `last` iterations.
fn run(config: &Config, max_evals: u64, steps: (u64, u64), counts: Counts, watch: &mut ScriptedObserver) -> Ended {
    run_in_time(config, max_evals, steps, (counts, false), watch)
}

/// The same, perhaps after a run that had no more time for iterations.
fn run_in_time(
    config: &Config,
    max_evals: u64,
    (done, last): (u64, u64),
    (counts, out_of_time): (Counts, bool),
    watch: &mut ScriptedObserver,
) -> Ended {
    let target = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
    let scratch = ScratchPool::new(1);
    let mut evaluator = of_target(&target, &scratch, Limits { spent: counts.spent, max_evals });
    let mut observers: [&mut dyn Observer; 1] = [watch];
    let driver = Driver {
        target: &target,
        strategy: Scripted::boxed(done, last),
        evaluator: &mut *evaluator,
        scratch: &scratch,
        config,
        observers: &mut observers,
        counts,
        out_of_time,
        beginning: &Beginning { sd: vec![1.0], remark: None },
    };
    driver.run().unwrap()
}

fn fresh(config: &Config, max_evals: u64, watch: &mut ScriptedObserver) -> Ended {
    run(config, max_evals, (0, 5), Counts::default(), watch)
}

#[test]
fn the_strategy_ends_a_run_by_its_own_rule() {
    let mut watch = ScriptedObserver::default();
    let ended = fresh(&Config::default(), u64::MAX, &mut watch);
    assert_eq!((ended.reason, ended.counts.iteration), (StopReason::Converged, 5));
    assert_eq!(ended.counts.spent, Spent { evals: 6 + 15, dropped: 0 });
    assert_eq!((watch.searched, watch.elbos.len()), (vec![0, 3, 6], 5));
}

#[test]
fn limits_end_a_run_before_they_are_passed() {
    let mut watch = ScriptedObserver::default();
    let ended = fresh(&Config::default(), 13, &mut watch);
    assert_eq!((ended.reason, ended.counts.iteration, ended.counts.spent.evals), (StopReason::MaxEvals, 2, 12));
    let ended = fresh(&Config { max_iterations: 3, ..Config::default() }, u64::MAX, &mut watch);
    assert_eq!((ended.reason, ended.counts.iteration), (StopReason::MaxIterations, 3));
    let ended = fresh(&Config { max_seconds: Some(1e-300), ..Config::default() }, u64::MAX, &mut watch);
    // The clock ends what is prepared, too.
    assert_eq!((ended.reason, ended.counts.iteration, ended.counts.spent.evals), (StopReason::MaxSeconds, 0, 0));
}

#[test]
fn observers_cancel_and_fail() {
    let mut watch = ScriptedObserver { enough_at: Some(2), impatient: true, ..ScriptedObserver::default() };
    let ended = fresh(&Config::default(), u64::MAX, &mut watch);
    assert_eq!((ended.reason, ended.counts.iteration, ended.counts.spent.evals), (StopReason::Cancelled, 2, 6));
    let ended =
        fresh(&Config::default(), u64::MAX, &mut ScriptedObserver { fails_at: Some(4), ..ScriptedObserver::default() });
    assert_eq!((ended.reason, ended.counts.iteration), (StopReason::ObserverFailed, 4));
    assert!(matches!(ended.observer_error, Some(Error::InvalidInput(message)) if message == "full"));
}

#[test]
fn a_resumed_run_counts_on() {
    let mut first = ScriptedObserver { enough_at: Some(2), ..ScriptedObserver::default() };
    let broken = fresh(&Config::default(), u64::MAX, &mut first);
    let mut second = ScriptedObserver::default();
    let resumed = run(&Config::default(), u64::MAX, (2, 5), broken.counts, &mut second);
    assert_eq!((resumed.reason, resumed.counts.iteration), (StopReason::Converged, 5));
    assert_eq!(resumed.counts.spent.evals, 21);
    assert!(resumed.counts.seconds >= broken.counts.seconds && second.searched.is_empty());
    assert_eq!([first.elbos, second.elbos].concat(), [-1.0, -0.5, -1.0 / 3.0, -0.25, -0.2]);
}

#[test]
fn a_run_that_had_no_more_time_has_none_when_it_is_resumed() {
    let counts = Counts { iteration: 2, spent: Spent { evals: 12, dropped: 0 }, seconds: 90.0 };
    // There would be time, but the next iteration would have taken too long.
    let config = Config { max_seconds: Some(100.0), diagnostic_draws: 0, ..Config::default() };
    for (out_of_time, expected) in [(true, (StopReason::MaxSeconds, 2)), (false, (StopReason::Converged, 5))] {
        let mut watch = ScriptedObserver::default();
        let ended = run_in_time(&config, u64::MAX, (2, 5), (counts, out_of_time), &mut watch);
        assert_eq!((ended.reason, ended.counts.iteration), expected);
    }
}
