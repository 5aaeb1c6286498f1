//! A run that was interrupted while chains finish its fit goes on with them, to the same bits as an uninterrupted one.

mod folder;

use folder::Folder;
use natmix::checkpoint::{Checkpoint, Checkpointer, read_checkpoint_bytes};
use natmix::config::{Automatic, Finish, OrAuto};
use natmix::family::{Gaussian, Mixture};
use natmix::observe::{ChainsUnderWay, Finishing, Iteration, Observer};
use natmix::stop::StopReason;
use natmix::target::ClosureTarget;
use natmix::{Config, Error, Fit, Fitted, State};
use std::ops::ControlFlow;

/// Schools, centred: their mean, the log of their standard deviation, and their effects, each with one observation.
fn schools() -> ClosureTarget<'static> {
    const DATA: [f64; 8] = [2.8, 0.8, -0.3, 0.7, -0.1, 0.1, 1.8, 1.2];
    let density = |z: &[f64], grad: Option<&mut [f64]>| {
        let (mean, log_sd, effects) = (z[0], z[1], &z[2..]);
        let precision = (-2.0 * log_sd).exp();
        let mut log_p = -0.5 * (mean / 5.0).powi(2) - 0.5 * (log_sd / 0.7).powi(2);
        let mut slopes = vec![-mean / 25.0, -log_sd / 0.49];
        for (effect, y) in effects.iter().zip(DATA) {
            let off = effect - mean;
            log_p -= 0.5 * off * off * precision + log_sd + 0.5 * (effect - y).powi(2);
            slopes[0] += off * precision;
            slopes[1] += off * off * precision - 1.0;
            slopes.push(y - effect - off * precision);
        }
        if let Some(grad) = grad {
            grad.copy_from_slice(&slopes);
        }
        log_p
    };
    ClosureTarget::new(10, density).unwrap()
}

/// One Gaussian, so that there is one run of chains.
fn settings(threads: usize) -> Config {
    let one = Automatic { components: OrAuto::Is(1), ..Automatic::default() };
    Config { threads, seed: 3, finish: Finish::Always, max_iterations: 10, ..Config::from(one) }
}

/// Counts iterations of the fit and of the chains, and asks to stop after one of these.
#[derive(Default)]
struct Watching {
    fitted: u64,
    first: Option<u64>,
    last: u64,
    stop_at: u64,
}

impl Watching {
    fn until(stop_at: u64) -> Self {
        Self { stop_at, ..Self::default() }
    }
}

impl Observer for Watching {
    fn finishing(&mut self, finishing: &Finishing) -> ControlFlow<()> {
        self.last = finishing.chains.iteration;
        self.first.get_or_insert(self.last);
        if self.last == self.stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.fitted += 1;
        Ok(ControlFlow::Continue(()))
    }
}

/// The same state, by way of the bytes of a file.
fn reread(state: State, config: &Config) -> State {
    let bytes = Checkpoint { state, config: config.clone() }.to_bytes().unwrap();
    let read = read_checkpoint_bytes(&bytes).unwrap();
    assert_eq!(read.to_bytes().unwrap(), bytes, "a second trip through the file");
    read.state
}

fn assert_same(resumed: &Fitted, unbroken: &Fitted, case: &str) {
    let numbers = |fitted: &Fitted| {
        let chains = fitted.chains.as_ref().unwrap();
        let all = chains.draws.iter().chain(&chains.log_p).chain(&chains.energy);
        all.map(|x| x.to_bits()).collect::<Vec<u64>>()
    };
    assert!(numbers(resumed) == numbers(unbroken), "{case}: draws");
    let delivered = |fitted: &Fitted| fitted.chains.as_ref().unwrap().delivered();
    assert!(delivered(resumed) == delivered(unbroken), "{case}: delivered draws");
    let rest = |fitted: &Fitted| {
        let counts = (fitted.iterations, fitted.evals, fitted.diagnostic_evals, fitted.chain_evals, fitted.dropped);
        (fitted.mixture.clone(), fitted.stop, counts, fitted.state.has_chains())
    };
    assert_eq!(rest(resumed), rest(unbroken), "{case}");
    // As text: some figures may be NaN.
    let diagnostics = |fitted: &Fitted| format!("{:?}", fitted.diagnostics);
    assert!(diagnostics(resumed) == diagnostics(unbroken), "{case}: diagnostics");
    let weights = |fitted: &Fitted| fitted.weighted.as_ref().map(|weighted| weighted.weights());
    assert_eq!(weights(resumed), weights(unbroken), "{case}");
}

#[test]
fn a_run_cancelled_within_its_chains_goes_on_with_them() {
    let target = schools();
    let mut watching = Watching::default();
    let unbroken = Fit::new(&target, settings(1)).observe(&mut watching).run().unwrap();
    let chains = unbroken.chains.as_ref().unwrap();
    assert!(chains.scaled && chains.certificate.reasons.is_empty() && !unbroken.state.has_chains());
    let last = watching.last;
    assert!(last > 120, "{last}");
    // In the short trajectories, at the end of a window and in one, while iterations are kept, and at the very end.
    for at in [1, 32, 41, 75, last - 40, last] {
        let mut watching = Watching::until(at);
        let broken = Fit::new(&target, settings(1)).observe(&mut watching).run().unwrap();
        assert_eq!((broken.stop.reason, watching.last), (StopReason::Cancelled, at));
        assert!(broken.state.has_chains() && broken.evals == unbroken.evals);
        let state = reread(broken.state, &settings(1));
        let mut watching = Watching::default();
        let resumed = Fit::new(&target, settings(2)).resume(state).observe(&mut watching).run().unwrap();
        assert_same(&Fitted { config: unbroken.config.clone(), ..resumed }, &unbroken, &format!("at {at}"));
        assert_eq!((watching.fitted, watching.first), (0, (at < last).then_some(at + 1)), "nothing is repeated");
    }
}

/// Logs of gamma variables with shape 3, and at a distance their mirror image with a third of the mass. All coordinates but the
/// first two are normal.
fn two_modes(distance: f64) -> ClosureTarget<'static> {
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        let of = |sign: f64, place: f64| {
            let x = [sign * (z[0] - place), sign * (z[1] - place)];
            x.iter().map(|x| 3.0 * x - x.exp()).sum::<f64>()
        };
        let logs = [0.75f64.ln() + of(1.0, 0.0), 0.25f64.ln() + of(-1.0, distance)];
        let largest = logs[0].max(logs[1]);
        let all = largest + logs.iter().map(|log| (log - largest).exp()).sum::<f64>().ln();
        if let Some(grad) = grad {
            let r = [(logs[0] - all).exp(), (logs[1] - all).exp()];
            let slope = |z: f64, r: f64, sign: f64, place: f64| match r > 0.0 {
                true => r * sign * (3.0 - (sign * (z - place)).exp()),
                false => 0.0,
            };
            for (g, z) in grad.iter_mut().zip(&z[..2]) {
                *g = slope(*z, r[0], 1.0, 0.0) + slope(*z, r[1], -1.0, distance);
            }
            grad[2..].iter_mut().zip(&z[2..]).for_each(|(g, z)| *g = -z);
        }
        all - 0.5 * z[2..].iter().map(|z| z * z).sum::<f64>()
    };
    ClosureTarget::new(4, density).unwrap()
}

/// One Gaussian in each of the two modes.
fn rough_modes(distance: f64) -> Mixture {
    let at = |x: f64| Gaussian::isotropic(vec![x, x, 0.0, 0.0], 0.8);
    Mixture::new(&[0.5, 0.5], vec![at(0.9), at(distance - 0.9)]).unwrap()
}

#[test]
fn a_run_interrupted_within_its_second_mode_goes_on_there() {
    let (target, config) = (two_modes(12.0), |threads| Config { threads, seed: 8, ..Config::default() });
    let mut watching = Watching::default();
    let fit = Fit::new(&target, config(1)).start(rough_modes(12.0));
    let unbroken = fit.observe(&mut watching).finish().unwrap();
    let modes = unbroken.chains.as_ref().unwrap().modes.as_ref().unwrap();
    assert!(modes.shares.len() == 2 && (modes.shares[0].mean - 0.75).abs() < 0.02, "{modes:?}");
    let last = watching.last;
    // Where the second mode begins: two runs of chains take about as long.
    for at in [10, last / 2 + 20, last - 1, last] {
        let mut watching = Watching::until(at);
        let fit = Fit::new(&target, config(1)).start(rough_modes(12.0));
        let broken = fit.observe(&mut watching).finish().unwrap();
        assert_eq!((broken.stop.reason, watching.last), (StopReason::Cancelled, at));
        let state = reread(broken.state, &broken.config);
        let mut watching = Watching::default();
        let resumed = Fit::new(&target, config(2)).resume(state).observe(&mut watching).finish().unwrap();
        assert_same(&Fitted { config: unbroken.config.clone(), ..resumed }, &unbroken, &format!("at {at} of {last}"));
        assert_eq!(watching.first, (at < last).then_some(at + 1), "nothing is repeated");
    }
}

#[test]
fn modes_that_have_proved_to_be_connected_are_not_walked_again() {
    // One wide Gaussian, which two components have divided between them.
    let at = |x: f64| Gaussian::isotropic(vec![x, 0.0, 0.0, 0.0], 1.0);
    let rough = || Mixture::new(&[0.5, 0.5], vec![at(-3.0), at(3.0)]).unwrap();
    let density = |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.iter_mut().zip(z).enumerate().for_each(|(i, (g, z))| *g = if i == 0 { -z / 9.0 } else { -z });
        }
        -0.5 * z.iter().enumerate().map(|(i, z)| if i == 0 { z * z / 9.0 } else { z * z }).sum::<f64>()
    };
    let (target, config) = (ClosureTarget::new(4, density).unwrap(), Config { seed: 2, ..Config::default() });
    let mut watching = Watching::default();
    let fit = Fit::new(&target, config.clone()).start(rough());
    let unbroken = fit.observe(&mut watching).finish().unwrap();
    let chains = unbroken.chains.as_ref().unwrap();
    // Those of the first mode, from their first iteration on, and then those of the whole.
    assert!(chains.modes.is_none() && watching.first == Some(1));
    let mut watching = Restarting::default();
    let fit = Fit::new(&target, config.clone()).start(rough());
    let broken = fit.observe(&mut watching).finish().unwrap();
    assert_eq!((broken.stop.reason, watching.restarts), (StopReason::Cancelled, 1));
    let state = reread(broken.state, &broken.config);
    let mut watching = Watching::default();
    let resumed = Fit::new(&target, config.clone()).resume(state).observe(&mut watching).finish().unwrap();
    assert_same(&resumed, &unbroken, "connected");
    assert_eq!(watching.first, Some(AFTER_RESTART + 1), "nothing is repeated");
}

/// Asks to stop so many iterations after the chains have begun for a second time.
#[derive(Default)]
struct Restarting {
    last: u64,
    restarts: u64,
}

const AFTER_RESTART: u64 = 30;

impl Observer for Restarting {
    fn finishing(&mut self, finishing: &Finishing) -> ControlFlow<()> {
        let now = finishing.chains.iteration;
        self.restarts += u64::from(now < self.last);
        self.last = now;
        if self.restarts == 1 && now == AFTER_RESTART { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn a_run_killed_within_its_chains_goes_on_from_its_last_checkpoint() {
    let target = schools();
    let folder = Folder::new("resume-chains");
    let path = folder.file("checkpoint");
    let mut watching = Watching::default();
    // To its end: what the file holds is what a killed run leaves.
    let mut checkpointer = Checkpointer::new(&path, 30).with_data(Some("0123456789abcdef".into()));
    let fit = Fit::new(&target, settings(1)).observe(&mut checkpointer).observe(&mut watching);
    let unbroken = fit.run().unwrap();
    assert!(checkpointer.has_chains());
    let Checkpoint { state, config } = Checkpoint::load(&path).unwrap();
    assert!(state.has_chains() && state.data() == Some("0123456789abcdef") && state.iteration() == unbroken.iterations);
    assert_eq!(config, settings(1));
    let at = watching.last / 30 * 30;
    let mut watching = Watching::default();
    let resumed = Fit::new(&target, config).resume(state).observe(&mut watching).run().unwrap();
    assert_same(&resumed, &unbroken, "killed");
    assert_eq!(watching.first, (at < watching.last).then_some(at + 1));
}

#[test]
fn a_given_mixture_is_finished_from_where_it_was() {
    let target = Mixture::single(Gaussian::isotropic(vec![1.0, -2.0, 0.5], 0.5));
    let rough = || Mixture::single(Gaussian::isotropic(vec![0.5, -1.0, 0.0], 1.5));
    let config = || Config { seed: 5, ..Config::default() };
    let unbroken = Fit::new(&target, config()).start(rough()).finish().unwrap();
    let mut watching = Watching::until(50);
    let broken = Fit::new(&target, config()).start(rough()).observe(&mut watching).finish().unwrap();
    let mut watching = Watching::default();
    let resumed = Fit::new(&target, config()).resume(broken.state).observe(&mut watching).finish().unwrap();
    assert_same(&resumed, &unbroken, "given");
    assert_eq!(watching.first, Some(51));
}

/// Limits may change: where they let the fit itself go on, its chains are those of its new end.
#[test]
fn chains_of_a_fit_that_goes_on_start_again() {
    let target = schools();
    let limited = |max_iterations| Config { max_iterations, ..settings(1) };
    let unbroken = Fit::new(&target, limited(9)).run().unwrap();
    let broken = Fit::new(&target, limited(6)).observe(&mut Watching::until(20)).run().unwrap();
    assert!(broken.state.has_chains() && broken.iterations == 6 && unbroken.iterations == 9);
    let mut watching = Watching::default();
    let resumed = Fit::new(&target, limited(9)).resume(broken.state).observe(&mut watching).run().unwrap();
    assert_same(&resumed, &unbroken, "longer");
    assert_eq!(watching.first, Some(1));
}

/// Fails when it is to save chains.
struct Unwritable;

impl Observer for Unwritable {
    fn chains_under_way(&mut self, chains: &ChainsUnderWay<'_>) -> Result<(), Error> {
        match chains.progress().iteration {
            14 => Err(Error::InvalidInput("full".into())),
            _ => Ok(()),
        }
    }

    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn chains_that_cannot_be_saved_end_the_run_but_keep_its_result() {
    let target = schools();
    let mut watching = Watching::default();
    let fitted = Fit::new(&target, settings(1)).observe(&mut Unwritable).observe(&mut watching).run().unwrap();
    assert_eq!((fitted.stop.reason, watching.last), (StopReason::ObserverFailed, 14));
    assert!(matches!(fitted.observer_error, Some(Error::InvalidInput(message)) if message == "full"));
    assert!(fitted.diagnostics.is_some() && fitted.state.has_chains());
}

#[test]
fn damaged_checkpoints_with_chains_are_refused() {
    let target = schools();
    let broken = Fit::new(&target, settings(1)).observe(&mut Watching::until(3)).run().unwrap();
    let bytes = Checkpoint { state: broken.state, config: settings(1) }.to_bytes().unwrap();
    let mut unsealed = bytes.clone();
    let name = br#"\"checksum\":"#;
    let at = bytes.windows(name.len()).position(|part| part == name).unwrap() + name.len();
    unsealed[at..at + 20].copy_from_slice(b"null                ");
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in (0..bytes.len()).step_by(29) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(matches!(read_checkpoint_bytes(&damaged), Err(Error::BadFile { .. })), "{at}");
    }
    for at in 0..header {
        // Without a checksum it may be valid after all.
        let mut damaged = unsealed.clone();
        damaged[at] ^= 1;
        match read_checkpoint_bytes(&damaged) {
            Ok(checkpoint) => assert!(checkpoint.to_bytes().is_ok(), "{at}"),
            Err(error) => assert!(matches!(error, Error::BadFile { .. }), "{at}: {error}"),
        }
    }
}
