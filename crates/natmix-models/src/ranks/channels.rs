//! Ranks that are threads of one process.

use super::{Communicator, Lost};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// One of several threads that exchange messages. When it is dropped, those who wait for it hear that it has ended.
#[derive(Debug)]
pub struct Channels {
    rank: usize,
    to: Vec<Sender<Vec<f64>>>,
    from: Vec<Mutex<Receiver<Vec<f64>>>>,
}

/// A communicator for each of `ranks` threads.
pub fn channels(ranks: usize) -> Vec<Channels> {
    let mut all: Vec<Channels> = (0..ranks).map(|rank| Channels { rank, to: vec![], from: vec![] }).collect();
    for from in 0..ranks {
        for to in 0..ranks {
            let (sender, receiver) = channel();
            all[from].to.push(sender);
            all[to].from.push(Mutex::new(receiver));
        }
    }
    all
}

impl Communicator for Channels {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.to.len()
    }

    fn send(&self, to: usize, message: &[f64]) -> Result<(), Lost> {
        self.to[to].send(message.to_vec()).map_err(|_| Lost(to))
    }

    fn receive(&self, from: usize, message: &mut Vec<f64>) -> Result<(), Lost> {
        let receiver = self.from[from].lock().map_err(|_| Lost(from))?;
        *message = receiver.recv().map_err(|_| Lost(from))?;
        Ok(())
    }
}
