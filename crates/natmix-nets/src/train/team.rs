//! Training that several processes share: by components, each trained by one process, or by the blocks of a minibatch.
//!
//! Every process has all rows, visits them in the same order and draws the same numbers.
//!
//! **By components**, if there are several. Processes look at each other's components when one process would look at them, too: every
//! [`EVERY`] steps while they are apart, and at every step while they overlap. In between they train without a message.
//!
//! **By blocks**, if there is one component and minibatches have several blocks of rows. Each process computes the gradients of some
//! blocks; all exchange them at every step, add them up in the order of the blocks, and make the same step.
//!
//! Either way results have the same bits as in one process. Processes *meet* at the beginning of each epoch, every [`EVERY`] steps and
//! while components overlap at each: rank 0 then says whether to stop or to save, and whoever has failed says so.

use super::blocks::{BlockSums, MOST_ROWS};
use super::checkpoint::TrainState;
use super::component::{ComponentWork, NetworkComponent};
use super::config::TrainConfig;
use super::overlap::EVERY;
use natmix::Error;
use natmix::target::TargetError;
use natmix_models::ranks::{Lost, Ranks};
use std::ops::Range;
use std::sync::Arc;

/// The processes of a training, as one of them sees them.
#[derive(Clone, Debug)]
pub struct Team {
    ranks: Arc<Ranks>,
    components: usize,
    blocks: usize,
    draws: usize,
}

/// What rank 0 decides at a meeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// To end the training.
    pub stop: bool,
    /// To save the state.
    pub save: bool,
}

/// A component whose log likelihood is not a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Failure {
    pub iteration: u64,
    pub component: usize,
    pub value: f64,
}

impl From<Failure> for Error {
    fn from(Failure { iteration, component, value }: Failure) -> Self {
        Error::InvalidInput(format!(
            "component {component}: the log likelihood is {value} at step {iteration} (try a smaller rate, or a larger first precision)",
        ))
    }
}

fn lost(lost: Lost) -> Error {
    TargetError::from(lost).into()
}

impl Team {
    /// Processes that share a training with these settings.
    pub fn new(ranks: Arc<Ranks>, config: &TrainConfig) -> Result<Self, Error> {
        let team = Self { ranks, components: config.components, blocks: config.blocks(), draws: config.draws };
        if team.components < 2 && team.blocks < 2 {
            return Err(Error::InvalidInput(format!(
                "one component with minibatches of {} rows cannot be shared by several processes: give --components, or a \
                 --minibatch of more than {} rows, or start one process",
                config.batch, MOST_ROWS
            )));
        }
        Ok(team)
    }

    /// Whether this process leads.
    pub fn leads(&self) -> bool {
        self.ranks.leads()
    }

    fn by_components(&self) -> bool {
        self.components > 1
    }

    fn share(&self, things: usize, rank: usize) -> Range<usize> {
        let ranks = self.ranks.ranks();
        (rank * things).div_ceil(ranks)..((rank + 1) * things).div_ceil(ranks)
    }

    fn components_of(&self, rank: usize) -> Range<usize> {
        if self.by_components() { self.share(self.components, rank) } else { 0..self.components }
    }

    /// The components that this process trains.
    pub(super) fn own_components(&self) -> Range<usize> {
        self.components_of(self.ranks.rank())
    }

    /// The blocks of a minibatch whose gradients this process computes, of so many; none if it computes all of them.
    pub(super) fn own_blocks(&self, blocks: usize) -> Option<Range<usize>> {
        (!self.by_components()).then(|| self.share(blocks, self.ranks.rank()))
    }

    /// Whether processes meet before this step.
    pub(super) fn meets(&self, iteration: u64, first_of_epoch: bool, overlapping: bool) -> bool {
        first_of_epoch || overlapping || iteration.is_multiple_of(EVERY)
    }

    /// Rank 0 says what it wants, whoever has failed says so, and all hear it.
    pub(super) fn meet(&self, wish: Decision, failure: Option<Failure>) -> Result<Decision, Error> {
        let words = |failure: Option<Failure>| match failure {
            None => [f64::INFINITY, 0.0, 0.0],
            Some(Failure { iteration, component, value }) => [iteration as f64, component as f64, value],
        };
        let mut first = words(failure);
        self.ranks
            .gather(&first.clone(), |_, theirs| {
                if let [iteration, component, _] = *theirs
                    && (iteration, component) < (first[0], first[1])
                {
                    first.copy_from_slice(theirs);
                }
            })
            .map_err(lost)?;
        let [iteration, component, value] = first;
        let wish = [f64::from(u8::from(wish.stop)), f64::from(u8::from(wish.save))];
        let mut answer = vec![iteration, component, value, wish[0], wish[1]];
        self.ranks.spread(&mut answer).map_err(lost)?;
        match answer[..] {
            [f64::INFINITY, _, _, stop, save] => Ok(Decision { stop: stop == 1.0, save: save == 1.0 }),
            [iteration, component, value, ..] => {
                Err(Failure { iteration: iteration as u64, component: component as usize, value }.into())
            }
            _ => Err(lost(Lost(0))),
        }
    }

    /// Gives every process the state of rank 0.
    pub(super) fn spread_state(&self, state: &mut TrainState) -> Result<(), Error> {
        let mut about = vec![state.iteration as f64];
        about.extend(state.log_weights.iter().chain(&state.sums));
        self.ranks.spread(&mut about).map_err(lost)?;
        if about.len() != 1 + 2 * self.components {
            return Err(lost(Lost(0)));
        }
        state.iteration = about[0] as u64;
        let (log_weights, sums) = about[1..].split_at(self.components);
        state.log_weights.copy_from_slice(log_weights);
        state.sums.copy_from_slice(sums);
        for component in &mut state.components {
            let NetworkComponent { mean, prec, velocity } = component;
            let mut message = pack([&mean[..], prec, velocity]);
            self.ranks.spread(&mut message).map_err(lost)?;
            unpack(&message, [mean, prec, velocity]).ok_or(lost(Lost(0)))?;
        }
        Ok(())
    }

    /// Gives rank 0 the state of all components.
    pub(super) fn gather_state(&self, state: &mut TrainState) -> Result<(), Error> {
        if !self.by_components() {
            return Ok(());
        }
        let of_component =
            |NetworkComponent { mean, prec, velocity }: &NetworkComponent| pack([&mean[..], prec, velocity]);
        let own: Vec<f64> = state.components[self.own_components()].iter().flat_map(of_component).collect();
        let mut sound = true;
        self.ranks
            .gather(&own, |rank, message| {
                let components = &mut state.components[self.components_of(rank)];
                let each = message.len() / components.len().max(1);
                for (component, message) in components.iter_mut().zip(message.chunks(each.max(1))) {
                    let NetworkComponent { mean, prec, velocity } = component;
                    sound &= unpack(message, [mean, prec, velocity]).is_some();
                }
            })
            .map_err(lost)?;
        if sound { Ok(()) } else { Err(lost(Lost(0))) }
    }

    /// Shows every process the means and precisions of all components.
    pub(super) fn show_components(&self, components: &mut [NetworkComponent]) -> Result<(), Error> {
        let of_component = |NetworkComponent { mean, prec, .. }: &NetworkComponent| pack([&mean[..], prec]);
        let own: Vec<f64> = components[self.own_components()].iter().flat_map(of_component).collect();
        self.exchange(&own, |rank, message| {
            let components = &mut components[self.components_of(rank)];
            let each = message.len() / components.len().max(1);
            components.iter_mut().zip(message.chunks(each.max(1))).all(|(component, message)| {
                let NetworkComponent { mean, prec, .. } = component;
                unpack(message, [mean, prec]).is_some()
            })
        })
    }

    /// Tells every process the numbers of all components, of which there are `width` each.
    pub(super) fn tell(&self, numbers: &mut [f64], width: usize) -> Result<(), Error> {
        if !self.by_components() {
            return Ok(());
        }
        let of = |rank: usize| {
            let Range { start, end } = self.components_of(rank);
            start * width..end * width
        };
        let own = numbers[of(self.ranks.rank())].to_vec();
        self.exchange(&own, |rank, message| {
            let theirs = &mut numbers[of(rank)];
            let fits = theirs.len() == message.len();
            if fits {
                theirs.copy_from_slice(message);
            }
            fits
        })
    }

    /// Gives every process the derivatives of all blocks of which each has computed some, with their log likelihoods.
    pub(super) fn show_blocks(
        &self,
        blocks: usize,
        work: &mut ComponentWork,
        sums: &mut BlockSums,
    ) -> Result<(), Error> {
        let own = self.share(blocks, self.ranks.rank());
        let mut message = pack([&*sums.part(own.clone())]);
        message.extend(work.blocks[own].iter().flat_map(|block| block.numbers()));
        let width = 1 + self.draws;
        self.exchange(&message, |rank, message| {
            let theirs = self.share(blocks, rank);
            let Some((derivatives, others)) =
                message.split_at_checked(message.len().saturating_sub(theirs.len() * width))
            else {
                return false;
            };
            for (block, numbers) in work.blocks[theirs.clone()].iter_mut().zip(others.chunks_exact(width)) {
                block.set_numbers(numbers);
            }
            unpack(derivatives, [sums.part(theirs)]).is_some()
        })
    }

    fn exchange(&self, own: &[f64], mut each: impl FnMut(usize, &[f64]) -> bool) -> Result<(), Error> {
        let mut bad = None;
        let heard = |rank: usize, message: &[f64]| {
            let fits = each(rank, message);
            bad = bad.or((!fits).then_some(rank));
            fits
        };
        self.ranks.exchange(own, heard).map_err(lost)?;
        bad.map_or(Ok(()), |rank| Err(lost(Lost(rank))))
    }
}

/// Numbers in single precision as a message: two in each.
fn pack<const N: usize>(lists: [&[f32]; N]) -> Vec<f64> {
    let mut message = Vec::with_capacity(lists.iter().map(|list| list.len().div_ceil(2)).sum());
    for list in lists {
        let (pairs, rest) = list.as_chunks::<2>();
        let bits = |[a, b]: [f32; 2]| f64::from_bits(u64::from(a.to_bits()) | u64::from(b.to_bits()) << 32);
        message.extend(pairs.iter().map(|pair| bits(*pair)));
        message.extend(rest.first().map(|last| bits([*last, 0.0])));
    }
    message
}

/// Back again; none if the message has another length.
fn unpack<const N: usize>(message: &[f64], lists: [&mut [f32]; N]) -> Option<()> {
    let mut rest = message;
    for list in lists {
        let (own, others) = rest.split_at_checked(list.len().div_ceil(2))?;
        for (pair, x) in list.chunks_mut(2).zip(own) {
            let bits = x.to_bits();
            pair[0] = f32::from_bits(bits as u32);
            if let Some(second) = pair.get_mut(1) {
                *second = f32::from_bits((bits >> 32) as u32);
            }
        }
        rest = others;
    }
    rest.is_empty().then_some(())
}

#[cfg(test)]
mod tests;
