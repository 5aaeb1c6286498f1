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
//! use natmix_models::ranks::{About, Ranks, channels};
//! let mut both = channels(2).into_iter().map(Ranks::new);
//! let (leader, other) = (both.next().unwrap(), both.next().unwrap());
//! let about = |columns: [&str; 2]| About { columns: columns.map(String::from).to_vec(), ..About::default() };
//! let agreed = std::thread::scope(|scope| {
//!     scope.spawn(|| other.agree(Ok(&about(["a", "b"]))));
//!     leader.agree(Ok(&about(["a", "c"])))
//! });
//! let problem = agreed.unwrap_err().to_string();
//! assert!(problem.contains("process 1 has read other columns than process 0 (`b`, but not `c`)"));
//! ```

mod channels;
mod request;
mod rows;
mod sharing;

pub use channels::{Channels, channels};
pub(crate) use request::Request;
pub use rows::SharedRows;
pub(crate) use sharing::{Sharing, Turn};

use crate::error::shown;
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
    /// A process was started with other settings.
    #[error("process {rank} has other settings than process 0: start all with the same arguments")]
    Settings {
        /// Which process.
        rank: usize,
    },
    /// A process has read other columns.
    #[error("process {rank} has read other columns than process 0 ({difference}): every machine needs the same files")]
    Columns {
        /// Which process.
        rank: usize,
        /// The first ones that differ, in words.
        difference: String,
    },
    /// A process has read the same columns, but other rows.
    #[error("process {rank} has read other rows than process 0: every machine needs the same files")]
    Data {
        /// Which process.
        rank: usize,
    },
    /// A process has ended.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// What a process has been told and what it has read: the same words for the same settings and data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The settings.
    pub settings: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Everything else about the data.
    pub rows: String,
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

    /// Waits until every process has read its data, and makes sure that all have read the same: `about` says what, or why it could not be
    /// read. All processes get the same answer.
    pub fn agree(&self, about: Result<&About, String>) -> Result<(), Disagreement> {
        self.agree_as(env!("CARGO_PKG_VERSION"), about)
    }

    fn agree_as(&self, version: &str, about: Result<&About, String>) -> Result<(), Disagreement> {
        let _turn = self.turn();
        self.agreed.store(true, Ordering::Relaxed);
        let (nothing, problem) = (About::default(), about.as_ref().err().map_or("", String::as_str));
        let About { settings, columns, rows } = about.as_ref().map_or(&nothing, |about| *about);
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut message = Vec::new();
        if !self.leads() {
            self.communicator.send(0, &letter(&[&[version, problem, settings, rows], &names[..]].concat()))?;
            self.communicator.receive(0, &mut message)?;
            return match read_letter(&message).unwrap_or_default().as_slice() {
                [rank, problem] => {
                    Err(Disagreement::Failed { rank: rank.parse().unwrap_or(0), problem: problem.clone() })
                }
                _ => Ok(()),
            };
        }
        let mut found = about.as_ref().err().map(|problem| Disagreement::Failed { rank: 0, problem: problem.clone() });
        for rank in 1..self.ranks() {
            self.communicator.receive(rank, &mut message)?;
            let mut theirs = read_letter(&message).unwrap_or_default().into_iter();
            let mut next = || theirs.next().unwrap_or_default();
            let [other, problem, their_settings, their_rows] = [(); 4].map(|()| next());
            let their_columns: Vec<String> = theirs.collect();
            found = found.or(if other != version {
                Some(Disagreement::Version { rank, other, own: version.into() })
            } else if !problem.is_empty() {
                Some(Disagreement::Failed { rank, problem })
            } else if their_settings != *settings {
                Some(Disagreement::Settings { rank })
            } else if their_columns != *columns {
                Some(Disagreement::Columns { rank, difference: difference(&their_columns, columns) })
            } else {
                (their_rows != *rows).then_some(Disagreement::Data { rank })
            });
        }
        let answer = found.as_ref().map_or(Vec::new(), |found| letter(&["0", &found.to_string()]));
        (1..self.ranks()).try_for_each(|rank| self.communicator.send(rank, &answer))?;
        found.map_or(Ok(()), Err)
    }

    /// Answers rank 0 until it says that the fit is over. `target` is the model that every rank has built, `rows` its rows if rank 0 may
    /// ask for some.
    pub fn serve(&self, target: &dyn Target, rows: Option<&SharedRows>) -> Result<(), TargetError> {
        let (mut message, mut scratch) = (Vec::new(), Scratch::default());
        loop {
            self.communicator.receive(0, &mut message)?;
            match Order::read(&message) {
                Some(Order::Stop) => return Ok(()),
                Some(Order::Evaluate(request)) => request
                    .with_room(&mut scratch, |points, out, scratch| target.eval(Rows::All, points, out, scratch))?,
                Some(Order::Send(wanted)) => {
                    let rows = rows.ok_or("process 0 wants rows of a table that is not kept")?;
                    self.communicator.send(0, &rows.own_records(wanted)?)?;
                }
                None => return Err("process 0 has sent a message that makes no sense".into()),
            }
        }
    }

    /// Lets rank 0 hear what the others have to say, in their order.
    pub fn gather(&self, own: &[f64], mut hear: impl FnMut(usize, &[f64])) -> Result<(), Lost> {
        let _turn = self.turn();
        if !self.leads() {
            return self.communicator.send(0, own);
        }
        let mut message = Vec::new();
        for rank in 1..self.ranks() {
            self.communicator.receive(rank, &mut message)?;
            hear(rank, &message);
        }
        Ok(())
    }

    /// Gives every rank the message of rank 0.
    pub fn spread(&self, message: &mut Vec<f64>) -> Result<(), Lost> {
        let _turn = self.turn();
        match self.leads() {
            true => (1..self.ranks()).try_for_each(|rank| self.communicator.send(rank, message)),
            false => self.communicator.receive(0, message),
        }
    }

    /// Lets every rank hear what all others have to say, in their order, as long as `hear` says that it makes sense.
    pub fn exchange(&self, own: &[f64], mut hear: impl FnMut(usize, &[f64]) -> bool) -> Result<(), Lost> {
        let _turn = self.turn();
        let mut message = Vec::new();
        for other in (0..self.ranks()).filter(|other| *other != self.rank()) {
            // The lower one of two ranks sends first: both would wait for room otherwise.
            if self.rank() < other {
                self.communicator.send(other, own)?;
            }
            self.communicator.receive(other, &mut message)?;
            if !hear(other, &message) {
                return Ok(());
            }
            if self.rank() > other {
                self.communicator.send(other, own)?;
            }
        }
        Ok(())
    }

    /// Waits until rank 0 says that the fit is over.
    pub fn wait(&self) -> Result<(), Lost> {
        let mut message = Vec::new();
        while !matches!(Order::read(&message), Some(Order::Stop)) {
            self.communicator.receive(0, &mut message)?;
        }
        Ok(())
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

fn unexpected(rank: usize, message: &[f64]) -> TargetError {
    format!("process {rank} has sent {} numbers, which is not what it was asked for", message.len()).into()
}

/// In which columns two tables differ.
fn difference(theirs: &[String], ours: &[String]) -> String {
    let first = |one: &[String], other: &[String]| {
        one.iter().find(|name| !other.contains(name)).map(|name| shown(name.as_bytes()))
    };
    match (first(theirs, ours), first(ours, theirs)) {
        (Some(only), Some(missing)) => format!("`{only}`, but not `{missing}`"),
        (Some(only), None) => format!("also `{only}`"),
        (None, Some(missing)) => format!("not `{missing}`"),
        (None, None) => "in another order".into(),
    }
}

/// Texts as a message.
fn letter(parts: &[&str]) -> Vec<f64> {
    let lens = parts.iter().map(|part| part.len() as f64);
    let text = parts.iter().flat_map(|part| part.bytes().map(f64::from));
    std::iter::once(parts.len() as f64).chain(lens).chain(text).collect()
}

/// The texts of a message; none in an empty one.
fn read_letter(message: &[f64]) -> Option<Vec<String>> {
    let (count, rest) = message.split_first()?;
    let (lens, mut text) = rest.split_at_checked(*count as usize)?;
    let part = |len: &f64| {
        let (own, rest) = text.split_at_checked(*len as usize)?;
        text = rest;
        Some(String::from_utf8_lossy(&own.iter().map(|byte| *byte as u8).collect::<Vec<_>>()).into_owned())
    };
    lens.iter().map(part).collect()
}

#[cfg(test)]
mod tests;
