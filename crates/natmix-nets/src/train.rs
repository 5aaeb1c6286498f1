//! Training of large networks: VOGN, IVON or Adam on minibatches, in single precision, for all components at once.
//!
//! Each component has a mean, a diagonal precision and a velocity; a step draws weights from it, runs a forward and backward pass
//! on a minibatch and moves it (see `kernels.rs`). Components are coupled through the terms of `log q` only; networks of
//! realistic size do not overlap, so those terms are checked only occasionally and left out while they are zero.
//!
//! The same seed gives the same bits for any number of threads: products run in fixed panels, noise depends on the index of
//! a weight, and sums run in a fixed order. A run resumed from a saved state gives the same bits.
//!
//! ```
//! use natmix_nets::train::{TrainConfig, Trainer};
//! use natmix_nets::{Activation, Examples, NetworkLikelihood, Network};
//! let x: Vec<f32> = (0..64).map(|i| i as f32 / 32.0 - 1.0).collect();
//! let y = x.iter().map(|x| f32::from(*x > 0.0)).collect();
//! let data = Examples::new(x, 1, y).unwrap();
//! let network = Network::new(1, &[8], Activation::Tanh, NetworkLikelihood::Bernoulli).unwrap();
//! let config = TrainConfig { components: 2, epochs: 20, batch: 16, ..TrainConfig::for_data(&network, 64) };
//! let mut trainer = Trainer::new(&network, &data, config).unwrap();
//! while let Some(epoch) = trainer.epoch().unwrap() {
//!     assert!(epoch.elbo.is_finite());
//! }
//! let posterior = trainer.mixture().unwrap();
//! assert_eq!((posterior.len(), posterior.dim()), (2, network.weights()));
//! ```

mod blocks;
mod checkpoint;
mod component;
mod config;
pub(crate) mod kernels;
pub(crate) mod noise;
mod overlap;
mod panel;
mod team;
#[cfg(test)]
mod tests;
pub(crate) mod timing;

pub use checkpoint::TrainState;
pub use config::{CurvatureKind, Optimiser, Schedule, TrainConfig, WeightStep};
pub use natmix::evaluate::with_threads;
pub use team::{Decision, Team};
pub use timing::TrainingWork;

use super::examples::Examples;
use super::network::Network;
use blocks::{BlockSums, RowBlock};
use component::{ComponentWork, Step};
use natmix::Error;
use natmix::family::{Diag, Gaussian, Mixture};
use natmix::rule::weights::trust_region_step;
use noise::{Stream, StreamPurpose, shuffle};
use overlap::OverlapMonitor;
use rayon::prelude::*;
use std::sync::Mutex;
use team::Failure;
use timing::TrainingTimer;

/// A training run in progress.
pub struct Trainer<'a> {
    network: &'a Network,
    data: &'a Examples,
    config: TrainConfig,
    state: TrainState,
    work: Vec<ComponentWork>,
    batch: Vec<RowBlock>,
    /// Gradients and curvatures by block, where processes share the blocks.
    sums: BlockSums,
    /// The processes that share the training.
    team: Option<Team>,
    failure: Option<Failure>,
    order: Vec<u32>,
    ordered: Option<u64>,
    monitor: OverlapMonitor,
    /// One buffer per thread, for the gradient and curvature of a panel.
    panels: Vec<Mutex<Vec<f32>>>,
    /// Time of work shared by the components.
    timer: TrainingTimer,
}

/// Results of an epoch.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Epoch {
    /// Completed epochs.
    pub epoch: usize,
    /// Completed steps.
    pub iteration: u64,
    /// Mean over the epoch's draws of the log likelihood of all rows, minus the KL divergence at its end. A running estimate: the
    /// weights change during the epoch.
    pub elbo: f64,
    /// Mean log likelihood of a row while it was trained on.
    pub log_likelihood: f64,
    /// KL divergence of the mixture from the prior.
    pub kl: f64,
    /// Weights of the components.
    pub weights: Vec<f64>,
}

impl<'a> Trainer<'a> {
    /// Starts a new run.
    pub fn new(network: &'a Network, data: &'a Examples, config: TrainConfig) -> Result<Self, Error> {
        config.validate(network, data.rows())?;
        let state = TrainState::new(network, &config);
        Self::resume(network, data, config, state)
    }

    /// Resumes from a state. With the same settings and data the result has the same bits as an uninterrupted run.
    pub fn resume(
        network: &'a Network,
        data: &'a Examples,
        config: TrainConfig,
        state: TrainState,
    ) -> Result<Self, Error> {
        data.check(network)?;
        config.validate(network, data.rows())?;
        if !state.fits(network, &config) {
            return Err(Error::InvalidInput(
                "the saved state belongs to a network of another shape or to other settings".into(),
            ));
        }
        let largest = network.layers().iter().map(|layer| layer.inputs * super::pass::panel_width(layer.outputs)).max();
        // Gradient and curvature, those of one block, the gradient of one draw for Stein's identity, and derivatives of the panel's
        // units.
        let of_block = if config.blocks() > 1 { 2 } else { 0 };
        let parts = 2 + of_block + usize::from(config.optimiser == Optimiser::Ivon);
        let room = parts * largest.unwrap_or(0) + 2 * config.batch.min(blocks::MOST_ROWS) * super::pass::PANEL;
        Ok(Self {
            work: (0..config.components).map(|_| ComponentWork::new(network, &config)).collect(),
            batch: RowBlock::all(network, &config),
            sums: BlockSums::default(),
            team: None,
            failure: None,
            order: vec![0; data.rows()],
            ordered: None,
            monitor: OverlapMonitor::new(config.components),
            panels: (0..rayon::current_num_threads()).map(|_| Mutex::new(vec![0.0; room])).collect(),
            timer: TrainingTimer::default(),
            network,
            data,
            config,
            state,
        })
    }

    /// Shares the training with other processes, each of which calls this: all continue from the state of rank 0.
    pub fn share(mut self, team: Team) -> Result<Self, Error> {
        team.spread_state(&mut self.state)?;
        let own = team.own_components();
        self.work.iter_mut().enumerate().filter(|(k, _)| !own.contains(k)).for_each(|(_, work)| {
            *work = ComponentWork::elsewhere();
        });
        if team.own_blocks(self.batch.len()).is_some() {
            self.sums = BlockSums::new(self.network.weights(), self.batch.len());
        }
        self.team = Some(team);
        Ok(self)
    }

    /// Lets the processes that share the training meet before a step, if they do so: all get the decision of rank 0. Rank 0 then has the
    /// state of all components if it is to be saved.
    pub fn meet(&mut self, wish: Decision) -> Result<Decision, Error> {
        let first = self.state.iteration.is_multiple_of(self.steps_per_epoch());
        let overlapping = self.monitor.overlapping();
        let Some(team) = &self.team else { return Ok(wish) };
        if !team.meets(self.state.iteration, first, overlapping) {
            return Ok(Decision::default());
        }
        let decision = team.meet(wish, self.failure)?;
        if decision.save || decision.stop {
            team.gather_state(&mut self.state)?;
        }
        Ok(decision)
    }

    /// The settings.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }
    /// The state needed to resume later.
    pub fn state(&self) -> &TrainState {
        &self.state
    }
    /// Adds a fingerprint of the data to the state.
    pub fn set_data(&mut self, fingerprint: Option<String>) {
        self.state.set_data(fingerprint);
    }
    /// Steps per epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        self.data.rows().div_ceil(self.config.batch) as u64
    }
    /// Completed epochs.
    pub fn epochs_done(&self) -> usize {
        (self.state.iteration / self.steps_per_epoch()) as usize
    }

    /// Seconds that the steps so far spent on one kind of work, summed over threads.
    pub fn seconds(&self, kind: TrainingWork) -> f64 {
        self.timer.seconds(kind) + self.work.iter().map(|work| work.timer.seconds(kind)).sum::<f64>()
    }

    /// Trains to the end of the current epoch; none when all epochs are complete.
    pub fn epoch(&mut self) -> Result<Option<Epoch>, Error> {
        if self.epochs_done() >= self.config.epochs {
            return Ok(None);
        }
        while self.step()? > 0 {}
        Ok(Some(self.finish_epoch()?))
    }

    /// Takes one step; returns how many are left in the epoch.
    pub fn step(&mut self) -> Result<u64, Error> {
        let per_epoch = self.steps_per_epoch();
        let (epoch, place) = (self.state.iteration / per_epoch, self.state.iteration % per_epoch);
        if self.ordered != Some(epoch) {
            shuffle(&mut self.order, Stream::new(self.config.seed, StreamPurpose::Order, 0, epoch, 0));
            self.ordered = Some(epoch);
        }
        if place == 0 {
            self.state.sums.fill(0.0);
        }
        let first = place as usize * self.config.batch;
        let rows = &self.order[first..(first + self.config.batch).min(self.order.len())];
        let scale = self.data.rows() as f64 / rows.len() as f64;
        let filled = RowBlock::gather(&mut self.batch, self.data, rows, &self.timer);

        let numbers = self.config.step_constants(self.state.iteration, per_epoch);
        let Self { network, config, state, work, batch, monitor, panels, team, sums, .. } = self;
        let (network, config, team, batch) = (*network, &*config, team.as_ref(), &batch[..filled]);
        let (seed, iteration) = (config.seed, state.iteration);
        let own = team.map_or(0..config.components, Team::own_components);
        let plain = config.optimiser == Optimiser::Adam;
        state.components[own.clone()].par_iter().zip(&mut work[own.clone()]).enumerate().for_each(
            |(at, (component, work))| {
                let stream = Stream::new(seed, StreamPurpose::Weights, (own.start + at) as u64, iteration, 0);
                work.draw(component, config, stream, plain);
            },
        );
        // Everything that depends on the old mixture is computed before any component moves.
        if monitor.is_due(config, iteration) {
            if let Some(team) = team {
                team.show_components(&mut state.components)?;
            }
            monitor.update(&state.components, &state.log_weights, work, team)?;
        }
        let of_step = |work| Step { network, config, work, batch, scale, numbers, panels };
        let blocks = team.and_then(|team| team.own_blocks(filled));
        if let (Some(team), Some(blocks)) = (team, blocks) {
            let (component, work) = (&mut state.components[0], &mut work[0]);
            work.evaluate(network, component, config, (batch, blocks.clone()));
            let before = Step { network, config, work, batch, scale, numbers, panels };
            component.derivatives(before, blocks, sums);
            team.show_blocks(filled, work, sums)?;
            work.add_up(filled);
            component.step(of_step(work), Some(sums), None);
        } else {
            state.components[own.clone()].par_iter_mut().zip(&mut work[own.clone()]).enumerate().for_each(
                |(at, (component, work))| {
                    work.evaluate(network, component, config, (batch, 0..filled));
                    work.add_up(filled);
                    component.step(of_step(work), None, monitor.terms(own.start + at));
                },
            );
        }
        for (k, work) in self.work.iter().enumerate().take(own.end).skip(own.start) {
            self.state.sums[k] += work.log_likelihood;
            if !work.log_likelihood.is_finite() && self.failure.is_none() {
                self.failure = Some(Failure { iteration, component: k, value: work.log_likelihood });
            }
        }
        // Others hear of it when they meet.
        if let (None, Some(failure)) = (&self.team, self.failure) {
            return Err(failure.into());
        }
        self.state.iteration += 1;
        Ok((per_epoch - 1) - place)
    }

    /// Results of the epoch after its last step; also updates the weights of the components. Where processes share them, rank 0 has the state
    /// of all components after that.
    pub fn finish_epoch(&mut self) -> Result<Epoch, Error> {
        let network = self.network;
        if let Some(team) = &self.team {
            // Before anything is made of numbers that are none.
            team.meet(Decision::default(), self.failure)?;
        }
        let own = self.team.as_ref().map_or(0..self.config.components, Team::own_components);
        let mut kls: Vec<f64> = (self.state.components.par_iter().enumerate())
            .map(|(k, component)| if own.contains(&k) { component.kl(network, &self.config) } else { 0.0 })
            .collect();
        if let Some(team) = &self.team {
            team.tell(&mut self.state.sums, 1)?;
            team.tell(&mut kls, 1)?;
            team.gather_state(&mut self.state)?;
        }
        let plain = self.config.optimiser == Optimiser::Adam;
        let values: Vec<f64> =
            (self.state.sums.iter().zip(&kls)).map(|(sum, kl)| if plain { *sum } else { sum - kl }).collect();
        match self.config.weight_step {
            _ if plain || self.config.components == 1 => {}
            WeightStep::Equal | WeightStep::Stacked => {}
            WeightStep::Bounded => {
                // The step increases the ELBO, in which -log w_k pulls weights together.
                let pulls: Vec<f64> = values.iter().zip(&self.state.log_weights).map(|(v, w)| v - w).collect();
                let mut room = vec![0.0; pulls.len()];
                trust_region_step(&mut self.state.log_weights, &pulls, 1.0, self.config.weight_bound, &mut room);
            }
            WeightStep::Tempered => {
                // The optimum if the entropy of the weights counted once per row.
                let per_row: Vec<f64> = values.iter().map(|v| v / self.data.rows() as f64).collect();
                let most = per_row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = per_row.iter().map(|v| (v - most).exp()).sum();
                for (w, v) in self.state.log_weights.iter_mut().zip(&per_row) {
                    *w = v - most - total.ln();
                }
            }
        }
        let weights: Vec<f64> = self.state.log_weights.iter().map(|w| w.exp()).collect();
        let mean = |values: &[f64]| weights.iter().zip(values).map(|(w, v)| w * v).sum::<f64>();
        // KL(q || prior) = sum_k w_k (KL_k + log w_k - E_k[log r_k]).
        let parts: Vec<f64> = kls
            .iter()
            .enumerate()
            .map(|(k, kl)| kl + self.state.log_weights[k] - self.monitor.mean_log_responsibility(k))
            .collect();
        let kl = if plain { 0.0 } else { mean(&parts) };
        let log_likelihood = mean(&self.state.sums);
        Ok(Epoch {
            epoch: self.epochs_done(),
            iteration: self.state.iteration,
            elbo: log_likelihood - kl,
            log_likelihood: log_likelihood / self.data.rows() as f64,
            kl,
            weights,
        })
    }

    /// The current posterior; plain networks are points, with the largest precision that draws can resolve.
    pub fn mixture(&self) -> Result<Mixture, Error> {
        mixture(self.state.components.iter().map(|c| (&c.mean, &c.prec)), &self.state.log_weights, &self.config)
    }

    /// The final posterior. Frees the memory of each component as it goes, because a mixture is in double precision.
    pub fn into_mixture(self) -> Result<Mixture, Error> {
        let Self { config, state, work, batch, sums, order, panels, .. } = self;
        drop((work, batch, sums, order, panels));
        let TrainState { components, log_weights, .. } = state;
        // Velocities are freed first.
        let components: Vec<_> = components.into_iter().map(|c| (c.mean, c.prec)).collect();
        mixture(components.into_iter(), &log_weights, &config)
    }
}

/// Means and precisions as a mixture; components passed by value are freed as they are converted.
fn mixture<V: AsRef<[f32]>>(
    components: impl Iterator<Item = (V, V)>,
    log_weights: &[f64],
    config: &TrainConfig,
) -> Result<Mixture, Error> {
    let wide = |x: V| -> Vec<f64> { x.as_ref().iter().map(|x| f64::from(*x)).collect() };
    let components = components.map(|(mean, prec)| {
        let mean = wide(mean);
        let prec = match config.optimiser {
            Optimiser::Adam => vec![POINT; mean.len()],
            _ => wide(prec),
        };
        let prec = Diag::new(prec).map_err(|i| {
            Error::InvalidInput(format!("the precision of weight {i} is not positive (try a smaller rate)"))
        })?;
        Ok(Gaussian::new(mean, prec))
    });
    let components: Vec<Gaussian> = components.collect::<Result<_, Error>>()?;
    let weights: Vec<f64> = log_weights.iter().map(|w| w.exp()).collect();
    Mixture::new(&weights, components)
}

/// Precision that represents a point.
pub const POINT: f64 = 1e12;
