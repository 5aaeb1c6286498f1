//! What models print and complain about, each message once.
//!
//! A model may reject thousands of points for the same reason, with other numbers each time. Messages that differ only in
//! their numbers count as one; the first of them is kept.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Most messages that are kept: after that many, others are only counted.
const MOST: usize = 20;

/// A message and how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The first of its kind.
    pub text: String,
    /// How many of its kind came.
    pub count: u64,
}

/// Messages by kind, in the order in which they came first.
#[derive(Debug, Default)]
pub struct Messages(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    position: BTreeMap<String, usize>,
    messages: Vec<Message>,
}

impl Messages {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Kept { position: BTreeMap::new(), messages: Vec::new() }))
    }

    /// Adds a message.
    pub fn add(&self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let Kept { position, messages } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match position.get(&kind(text)) {
            Some(at) => messages[*at].count += 1,
            None if messages.len() < MOST => {
                position.insert(kind(text), messages.len());
                messages.push(Message { text: text.to_owned(), count: 1 });
            }
            None => {}
        }
    }

    /// Takes all messages.
    pub fn take(&self) -> Vec<Message> {
        let kept = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        kept.messages
    }
}

/// The message without its numbers. The place in the program, which Stan puts last, stays.
fn kind(text: &str) -> String {
    let (said, place) = text.split_at(text.rfind("(in '").unwrap_or(text.len()));
    let words = said.split_whitespace().map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '-' && c != '.');
        if bare.parse::<f64>().is_ok() { "#" } else { word }
    });
    let mut kind: Vec<&str> = words.collect();
    kind.push(place);
    kind.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_numbers_count_as_one() {
        let messages = Messages::new();
        let scale = |x: &str, line| {
            format!("normal_lpdf: Scale parameter is {x}, but must be positive! (in 'a.stan', line {line}, column 2)")
        };
        for x in ["-1.5", "0", "-3e-5", "inf", "nan"] {
            messages.add(&scale(x, 3));
        }
        messages.add(&scale("0", 4));
        messages.add(" \n");
        let taken = messages.take();
        assert_eq!(taken.iter().map(|message| message.count).collect::<Vec<_>>(), [5, 1]);
        assert_eq!(taken[0].text, scale("-1.5", 3));
        assert!(messages.take().is_empty());
    }

    #[test]
    fn only_so_many_are_kept() {
        let messages = Messages::new();
        (0..1000).for_each(|i| messages.add(&format!("kind{i}x")));
        assert_eq!(messages.take().len(), MOST);
    }
}
