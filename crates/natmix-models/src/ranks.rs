//! Several processes that share the rows of one fit, as under MPI: rank 0 leads, the others answer.
//!
//! Every rank reads the table and keeps its own rows. All then build the same model; sums over rows that this takes are
//! made by all of them together. After that rank 0 fits, and whenever it needs a sum over all rows, it says at which points: each rank
//! computes the sums of its sections, and rank 0 adds them up in their order. Results have the same bits for any number of ranks,
//! and the same as without any.
//!
//! How messages travel is up to a [`Communicator`]. [`channels`] connects threads of one process; MPI is another one.
//!
//! ```
//! use natmix_models::ranks::{Ranks, channels};
//! let mut both = channels(2).into_iter().map(Ranks::new);
//! let (leader, other) = (both.next().unwrap(), both.next().unwrap());
//! let agreed = std::thread::scope(|scope| {
//!     scope.spawn(|| other.agree(Ok("columns a, b")));
//!     leader.agree(Ok("columns a, c"))
//! });
//! assert!(agreed.unwrap_err().to_string().contains("process 1 has other data or settings"));
//! ```

mod channels;
mod request;
mod rows;

pub use channels::{Channels, channels};
pub(crate) use request::Request;
pub use rows::SharedRows;

use natmix::target::{Target, TargetError};
use natmix::{Scratch, target::Rows};
use request::Order;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Carries messages between the processes of a fit. Messages from one process to another arrive in the order in which they were sent.
pub trait Communicator: Debug + Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn ranks(&self) -> usize;

    /// Sends a message to another process.
    fn send(&self, to: usize, message: &[f64]) -> Result<(), Lost>;

    /// Waits for the next message from another process, and replaces `message` by it.
    fn receive(&self, from: usize, message: &mut Vec<f64>) -> Result<(), Lost>;
}

/// The other side of a message has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "process {0} has ended before the fit was complete (see its own messages; --resume continues from the last checkpoint)"
)]
pub struct Lost(pub usize);

impl From<Lost> for TargetError {
    fn from(lost: Lost) -> Self {
        TargetError(Box::new(lost))
    }
}

/// Why the processes cannot begin a fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// This process or another one could not read its data.
    #[error("process {rank}: {problem}")]
    Failed {
        /// Which process.
        rank: usize,
        /// What it says.
        problem: String,
    },
    /// A process runs another version of natmix.
    #[error("process {rank} runs natmix {other}, process 0 {own}: start the same version everywhere")]
    Version {
        /// Which process.
        rank: usize,
        /// Its version.
        other: String,
        /// That of process 0.
        own: String,
    },
    /// A process has read something else.
    #[error(
        "process {rank} has other data or settings than process 0: every machine needs the same files, with the same columns and \
         rows"
    )]
    Data {
        /// Which process.
        rank: usize,
    },
    /// A process has ended.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// The processes of a fit, as one of them sees them.
#[derive(Debug)]
pub struct Ranks {
    communicator: Box<dyn Communicator>,
    /// Held while messages are exchanged, which several threads of rank 0 may want at the same time.
    turn: Mutex<()>,
    agreed: AtomicBool,
}

impl Ranks {
    /// Processes that this communicator connects.
    pub fn new(communicator: impl Communicator + 'static) -> Self {
        Self { communicator: Box::new(communicator), turn: Mutex::default(), agreed: AtomicBool::new(false) }
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// How many processes there are.
    pub fn ranks(&self) -> usize {
        self.communicator.ranks()
    }

    /// Whether this process leads: it fits, and writes results.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// Whether the processes have [agreed](Ranks::agree) or disagreed.
    pub fn have_agreed(&self) -> bool {
        self.agreed.load(Ordering::Relaxed)
    }

    /// Waits until every process has read its data, and makes sure that all have read the same: `about` says what, in any words that
    /// are the same for the same data and settings, or why it could not be read. All processes get the same answer.
    pub fn agree(&self, about: Result<&str, String>) -> Result<(), Disagreement> {
        self.agree_as(env!("CARGO_PKG_VERSION"), about)
    }

    fn agree_as(&self, version: &str, about: Result<&str, String>) -> Result<(), Disagreement> {
        let _turn = self.turn();
        self.agreed.store(true, Ordering::Relaxed);
        let own = [version, about.as_ref().map_or("", |about| *about), about.as_ref().err().map_or("", String::as_str)];
        let mut message = Vec::new();
        if !self.leads() {
            self.communicator.send(0, &letter(&own))?;
            self.communicator.receive(0, &mut message)?;
            return read_letter(&message).map_or(Ok(()), |[rank, problem, _]| {
                Err(Disagreement::Failed { rank: rank.parse().unwrap_or(0), problem })
            });
        }
        let mut found = about.as_ref().err().map(|problem| Disagreement::Failed { rank: 0, problem: problem.clone() });
        for rank in 1..self.ranks() {
            self.communicator.receive(rank, &mut message)?;
            let [version, about, problem] = read_letter(&message).unwrap_or_default();
            found = found.or(if version != own[0] {
                Some(Disagreement::Version { rank, other: version, own: own[0].into() })
            } else if !problem.is_empty() {
                Some(Disagreement::Failed { rank, problem })
            } else {
                (about != own[1]).then_some(Disagreement::Data { rank })
            });
        }
        let answer = found.as_ref().map_or(Vec::new(), |found| letter(&["0", &found.to_string(), ""]));
        (1..self.ranks()).try_for_each(|rank| self.communicator.send(rank, &answer))?;
        found.map_or(Ok(()), Err)
    }

    /// Answers rank 0 until it says that the fit is over. `target` is the model that every rank has built, `rows` its rows.
    pub fn serve(&self, target: &dyn Target, rows: &SharedRows) -> Result<(), TargetError> {
        let (mut message, mut scratch) = (Vec::new(), Scratch::default());
        loop {
            self.communicator.receive(0, &mut message)?;
            match Order::read(&message) {
                Some(Order::Stop) => return Ok(()),
                Some(Order::Evaluate(request)) => request
                    .with_room(&mut scratch, |points, out, scratch| target.eval(Rows::All, points, out, scratch))?,
                Some(Order::Send(wanted)) => self.communicator.send(0, &rows.own_records(wanted)?)?,
                None => return Err("process 0 has sent a message that makes no sense".into()),
            }
        }
    }

    /// Tells the other ranks that the fit is over; those that have ended need not be told.
    pub fn stop(&self) {
        let _turn = self.turn();
        for rank in 1..self.ranks() {
            let _ = self.communicator.send(rank, &Order::STOP);
        }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Text as a message.
fn letter(parts: &[&str; 3]) -> Vec<f64> {
    let lens = parts.iter().map(|part| part.len() as f64);
    lens.chain(parts.iter().flat_map(|part| part.bytes().map(f64::from))).collect()
}

/// The text of a message; none in an empty one.
fn read_letter(message: &[f64]) -> Option<[String; 3]> {
    let (lens, mut text) = message.split_at_checked(3)?;
    let mut parts = [const { String::new() }; 3];
    for (part, len) in parts.iter_mut().zip(lens) {
        let (own, rest) = text.split_at_checked(*len as usize)?;
        *part = String::from_utf8_lossy(&own.iter().map(|byte| *byte as u8).collect::<Vec<_>>()).into_owned();
        text = rest;
    }
    Some(parts)
}

#[cfg(test)]
mod tests;
