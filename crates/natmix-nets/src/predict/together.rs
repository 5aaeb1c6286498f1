//! Predictions that several processes share: each predicts some of the rows, which all have.
//!
//! Rows are cut where tasks are, so that the bits are those of one process.

use super::{Averaging, NetworkPredictions, ROWS, RowSums, gather, predict, sums_of_rows};
use crate::network::Network;
use natmix::Error;
use natmix::family::{AnyCovariance, Diag, Gaussian, Mixture};
use natmix::target::TargetError;
use natmix_models::ranks::{Lost, Ranks};
use std::ops::Range;

/// How a request begins.
const REQUEST: f64 = 10.0;
/// Numbers of a request before those of the mixture.
const HEAD: usize = 7;

fn lost(lost: Lost) -> Error {
    TargetError::from(lost).into()
}

/// The rows that a process predicts.
fn share(ranks: &Ranks, rank: usize, rows: usize) -> Range<usize> {
    let first = |rank: usize| ((rank * rows.div_ceil(ROWS)).div_ceil(ranks.ranks()) * ROWS).min(rows);
    first(rank)..first(rank + 1)
}

/// The same as [`predict`], for rank 0; the others [help](help). `which` of the tables that all have has the rows `x`.
pub fn predict_together(
    ranks: &Ranks,
    which: usize,
    network: &Network,
    q: &Mixture,
    x: &[f32],
    averaging: Averaging,
) -> Result<NetworkPredictions, Error> {
    let ids = q.ids().iter().copied().eq(0..q.len() as u64);
    let Some(mut message) = request(which, q, averaging).filter(|_| ids && q.dim() == network.weights()) else {
        return predict(network, q, x, averaging);
    };
    ranks.spread(&mut message).map_err(lost)?;
    let question = Question::read(&message, network.weights())?;
    let own = share(ranks, 0, x.len() / network.inputs());
    let mut rows = question.answer(network, x, own);
    let mut sound = true;
    let heard = |_: usize, message: &[f64]| {
        let likelihood = network.likelihood();
        let width = RowSums::new(likelihood, question.weights.len()).numbers(question.weights.len());
        sound &= message.len().is_multiple_of(width);
        rows.extend(message.chunks_exact(width).map(|row| RowSums::read(likelihood, row)));
    };
    ranks.gather(&[], heard).map_err(lost)?;
    if !sound || rows.len() != x.len() / network.inputs() {
        return Err(lost(Lost(0)));
    }
    Ok(gather(network.likelihood(), rows, question.weights))
}

/// Answers rank 0 until it says that the fit is over. `tables` are the rows that all processes have.
pub fn help(ranks: &Ranks, network: &Network, tables: &[Option<&[f32]>]) -> Result<(), Error> {
    let mut message = Vec::new();
    loop {
        ranks.spread(&mut message).map_err(lost)?;
        if message.first() != Some(&REQUEST) {
            return Ok(());
        }
        let question = Question::read(&message, network.weights())?;
        let x = tables.get(question.which).copied().flatten().unwrap_or_default();
        let own = share(ranks, ranks.rank(), x.len() / network.inputs());
        let mut answer = Vec::new();
        question.answer(network, x, own).iter().for_each(|row| row.write(&mut answer));
        ranks.gather(&answer, |_, _| {}).map_err(lost)?;
    }
}

/// What rank 0 asks, as a message; none if a component has not a diagonal covariance.
fn request(which: usize, q: &Mixture, averaging: Averaging) -> Option<Vec<f64>> {
    let (draws, seed) = match averaging {
        Averaging::Means => (0, 0),
        Averaging::Draws { each, seed } => (each, seed),
    };
    let halves = [seed >> 32, seed & u64::from(u32::MAX)].map(|half| half as f64);
    let mut message = vec![REQUEST, which as f64, draws as f64, halves[0], halves[1], q.len() as f64, q.dim() as f64];
    message.extend(q.weights());
    for component in q.components() {
        let AnyCovariance::Diag(prec) = component.precision() else { return None };
        message.extend_from_slice(component.mean());
        message.extend_from_slice(prec.entries());
    }
    (draws > 0 || averaging == Averaging::Means).then_some(message)
}

/// What rank 0 asks.
struct Question {
    which: usize,
    averaging: Averaging,
    parts: Vec<(usize, f64)>,
    /// Of each draw.
    weights: Vec<f64>,
    q: Mixture,
}

impl Question {
    fn read(message: &[f64], dim: usize) -> Result<Self, Error> {
        let bad = || Error::InvalidInput("process 0 has sent a message that makes no sense".into());
        let (head, rest) = message.split_at_checked(HEAD).ok_or_else(bad)?;
        let [which, draws, high, low, count, found] = [1, 2, 3, 4, 5, 6].map(|at| head[at] as u64);
        let (count, each) = (count as usize, (draws as usize).max(1));
        if found as usize != dim || rest.len() != count * (1 + 2 * dim) || count == 0 {
            return Err(bad());
        }
        let (shares, numbers) = rest.split_at(count);
        let component = |numbers: &[f64]| {
            let (mean, prec) = numbers.split_at(dim);
            Ok(Gaussian::new(mean.to_vec(), Diag::new(prec.to_vec()).map_err(|_| bad())?))
        };
        let components: Vec<Gaussian> = numbers.chunks_exact(2 * dim).map(component).collect::<Result<_, Error>>()?;
        Ok(Self {
            which: which as usize,
            averaging: match draws {
                0 => Averaging::Means,
                _ => Averaging::Draws { each, seed: high << 32 | low },
            },
            parts: shares.iter().copied().enumerate().collect(),
            weights: shares.iter().flat_map(|share| std::iter::repeat_n(share / each as f64, each)).collect(),
            // Whatever its weights: each draw has its own.
            q: Mixture::new(&vec![1.0; count], components)?,
        })
    }

    fn answer(&self, network: &Network, x: &[f32], rows: Range<usize>) -> Vec<RowSums> {
        let inputs = network.inputs();
        let x = &x[rows.start * inputs..rows.end * inputs];
        sums_of_rows(network, &self.q, (&self.parts, &self.weights), x, self.averaging)
    }
}

impl RowSums {
    /// How many numbers a row is sent as.
    fn numbers(&self, draws: usize) -> usize {
        self.sums.len() + 1 + if self.sums.is_empty() { 2 * draws } else { 0 }
    }

    fn write(&self, message: &mut Vec<f64>) {
        message.extend_from_slice(&self.sums);
        message.push(self.entropy);
        message.extend(self.outputs.iter().flat_map(|(output, noise)| [*output, *noise]));
    }

    fn read(likelihood: crate::NetworkLikelihood, message: &[f64]) -> Self {
        let mut row = Self::new(likelihood, 0);
        let (sums, rest) = message.split_at(row.sums.len());
        row.sums.copy_from_slice(sums);
        row.entropy = rest[0];
        row.outputs = rest[1..].as_chunks::<2>().0.iter().map(|[output, noise]| (*output, *noise)).collect();
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, NetworkLikelihood};
    use natmix_models::ranks::channels;
    use std::thread;

    #[test]
    fn several_processes_predict_the_same_bits() {
        for likelihood in
            [NetworkLikelihood::Bernoulli, NetworkLikelihood::Categorical { classes: 3 }, NetworkLikelihood::Gaussian]
        {
            let network = Network::new(2, &[4], Activation::Tanh, likelihood).unwrap();
            let n = network.weights();
            let part = |shift: f64| {
                let mean = (0..n).map(|i| (0.9 * i as f64 + shift).sin()).collect();
                Gaussian::new(mean, Diag::new((0..n).map(|i| 2.0 + i as f64).collect()).unwrap())
            };
            let q = Mixture::new(&[0.3, 0.7], vec![part(0.0), part(1.0)]).unwrap();
            let tables = [1_000, 10].map(|rows| (0..2 * rows).map(|i| (1.7 * i as f32).sin()).collect::<Vec<f32>>());
            let known: Vec<Option<&[f32]>> = tables.iter().map(|x| Some(&x[..])).collect();
            for averaging in [Averaging::Means, Averaging::Draws { each: 3, seed: u64::MAX - 5 }] {
                let found = thread::scope(|scope| {
                    let mut each = channels(3).into_iter().map(Ranks::new);
                    let leader = each.next().unwrap();
                    let (network, known) = (&network, &known);
                    each.for_each(|ranks| drop(scope.spawn(move || help(&ranks, network, known).unwrap())));
                    let found = [0, 1]
                        .map(|which| predict_together(&leader, which, network, &q, &tables[which], averaging).unwrap());
                    leader.stop();
                    found
                });
                for (found, x) in found.iter().zip(&tables) {
                    assert!(*found == predict(&network, &q, x, averaging).unwrap(), "{likelihood:?} {averaging:?}");
                }
            }
        }
    }
}
