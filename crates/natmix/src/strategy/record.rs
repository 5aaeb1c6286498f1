//! The record of a run: the ELBO so far, the best mixture, and whether anything could be evaluated.

use crate::error::Error;
use crate::family::Mixture;
use crate::run::history::{History, HistoryParts};
use crate::run::stop::StopReason;
use crate::save::bundle::{Layout, Tensors};
use crate::save::parts::{Outline, add_mixture, check_all, take_mixture};
use serde::{Deserialize, Serialize};

/// Iterations in a row without a single usable point after which a run gives up.
const MOST_WITHOUT_POINTS: u64 = 20;
/// Numbers in a bin of the history, and in one of its latest estimates.
const BIN: usize = 4;
const PAIR: usize = 2;
/// No run counts this far, and sums of smaller counts cannot overflow.
pub(crate) const MOST_COUNT: u64 = 1 << 53;

/// Standard errors that are taken off an ELBO before it counts as the best: a maximum over many noisy estimates would
/// otherwise be mostly noise.
const CAUTION: f64 = 4.0;

/// The best mixture so far, by the ELBO from its own points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    pub mixture: Mixture,
    pub elbo: f64,
    pub se: f64,
}

/// Points below which an iteration's own error is not trusted.
const FEW_POINTS: u64 = 500;

/// The record of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub history: History,
    pub best: Option<Best>,
    pub without_points: WithoutPoints,
}

/// The latest iterations in a row without a single usable point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WithoutPoints {
    pub iterations: u64,
    /// Points that they tried.
    pub points: u64,
}

/// The ELBO of a mixture, from the points of one iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimated {
    /// Not finite if no point was usable.
    pub elbo: f64,
    pub se: f64,
    /// How many points there were.
    pub points: u64,
    /// Whether some data rows were left out.
    pub minibatch: bool,
}

impl Record {
    /// Records the ELBO estimate of the current mixture. Fails when no point has been usable for long, and there is no
    /// earlier mixture to return to.
    ///
    /// The mean of the latest estimates stands for the last, with the spread that they showed, where its error cannot be
    /// trusted: with minibatches it knows nothing of the rows that were left out, and from few points nothing of the
    /// tails, so that of many iterations the luckiest would win.
    pub fn enter(&mut self, mixture: &Mixture, estimated: Estimated) -> Result<(), Error> {
        let Estimated { elbo, se, points, minibatch } = estimated;
        let without = &mut self.without_points;
        if elbo.is_finite() {
            *without = WithoutPoints::default();
        } else {
            without.iterations += 1;
            without.points += points;
            if without.iterations >= MOST_WITHOUT_POINTS && self.best.is_none() {
                return Err(Error::NowhereFinite { points: without.points, iterations: MOST_WITHOUT_POINTS as usize });
            }
        }
        self.history.push(elbo, se);
        match (minibatch || points < FEW_POINTS, self.history.recent()) {
            (false, _) => self.keep_best(mixture, elbo, se),
            (true, Some((elbo, se))) => self.keep_best(mixture, elbo, se),
            (true, None) => {}
        }
        Ok(())
    }

    /// The reason to stop if the run has moved to where nothing can be evaluated.
    pub fn lost_support(&self) -> Option<StopReason> {
        (self.without_points.iterations >= MOST_WITHOUT_POINTS).then_some(StopReason::LostSupport)
    }

    /// Remembers `mixture`, whose ELBO has just been estimated, if it is the best so far.
    fn keep_best(&mut self, mixture: &Mixture, elbo: f64, se: f64) {
        if !(elbo.is_finite() && se.is_finite()) {
            return;
        }
        match &mut self.best {
            Some(best) if elbo - CAUTION * se > best.elbo - CAUTION * best.se => {
                if best.mixture.len() == mixture.len() {
                    best.mixture.copy_from(mixture);
                } else {
                    best.mixture.clone_from(mixture);
                }
                (best.elbo, best.se) = (elbo, se);
            }
            Some(_) => {}
            None => self.best = Some(Best { mixture: mixture.clone(), elbo, se }),
        }
    }

    /// The `present` mixture, unless an earlier one was better beyond the noise; with ELBO and standard error.
    pub fn choose<'a>(&'a self, present: &'a Mixture) -> (&'a Mixture, (f64, f64)) {
        let now = self.history.recent();
        match (&self.best, now) {
            // Where nothing can be evaluated, any mixture that could be is better.
            (Some(best), _) if self.without_points.iterations > 0 => (&best.mixture, (best.elbo, best.se)),
            (Some(best), Some((elbo, se))) => {
                // The mean of the latest lags behind a climb, the last one alone may be a bad draw: take the better.
                let (last, last_se) = self.history.last().unwrap_or((elbo, se));
                let now = (elbo + 2.0 * se).max(last + 2.0 * last_se);
                if best.elbo - CAUTION * best.se > now {
                    (&best.mixture, (best.elbo, best.se))
                } else {
                    (present, (elbo, se))
                }
            }
            (_, now) => (present, now.unwrap_or((f64::NAN, f64::NAN))),
        }
    }
}

/// The description of a record in a document.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordOutline {
    width: u64,
    filled: u64,
    bins: usize,
    recent: usize,
    best: Option<Outline>,
    without_points: WithoutPoints,
}

impl Record {
    /// Adds the numbers to `tensors`, and returns the rest.
    pub fn save(&self, tensors: &mut Tensors) -> RecordOutline {
        let HistoryParts { width, filled, bins, recent } = self.history.to_parts();
        if let Some(best) = &self.best {
            add_mixture(tensors, "best_", &best.mixture);
            tensors.add("best_elbo", vec![PAIR], vec![best.elbo, best.se]);
        }
        let outline = RecordOutline {
            width,
            filled,
            bins: bins.len(),
            recent: recent.len(),
            best: self.best.as_ref().map(|best| Outline::of(&best.mixture)),
            without_points: self.without_points,
        };
        tensors.add("history_bins", vec![bins.len(), BIN], bins.concat());
        tensors.add("history_recent", vec![recent.len(), PAIR], recent.concat());
        outline
    }
}

impl RecordOutline {
    /// Adds the tensors of the record of a run that has reached the mixture `present`; its number of components may have
    /// changed on the way if it `varies`.
    pub fn add_layout(&self, layout: &mut Layout, present: &Outline, varies: bool) -> Result<(), String> {
        if [self.without_points.iterations, self.without_points.points].iter().any(|count| *count > MOST_COUNT) {
            return Err("a counter is out of range".into());
        }
        if let Some(best) = &self.best {
            let number = varies || best.ids.len() == present.ids.len();
            if (best.dim, best.covariance) != (present.dim, present.covariance) || !number {
                return Err("the best mixture differs from the present one in size or shape".into());
            }
            layout.extend(best.layout("best_")?);
            layout.push(("best_elbo".into(), vec![PAIR]));
        }
        layout.push(("history_bins".into(), vec![self.bins, BIN]));
        layout.push(("history_recent".into(), vec![self.recent, PAIR]));
        Ok(())
    }

    /// The record that was saved.
    pub fn load(self, tensors: &mut Tensors) -> Result<Record, String> {
        // Sums of squares may have overflowed.
        let bins = take(tensors, "history_bins", |x| !x.is_nan())?.as_chunks().0.to_vec();
        let recent = take(tensors, "history_recent", f64::is_finite)?.as_chunks().0.to_vec();
        let parts = HistoryParts { width: self.width, filled: self.filled, bins, recent };
        let history = History::from_parts(parts).ok_or("its history cannot be that of a run")?;
        let best = match self.best {
            None => None,
            Some(outline) => {
                let elbo = take(tensors, "best_elbo", |x| !x.is_nan())?;
                let mixture = take_mixture(tensors, "best_", outline)?;
                Some(Best { mixture, elbo: elbo[0], se: elbo[1] })
            }
        };
        Ok(Record { history, best, without_points: self.without_points })
    }
}

/// The numbers of a tensor, all of which must be `fine`.
pub(crate) fn take(tensors: &mut Tensors, name: &str, fine: fn(f64) -> bool) -> Result<Vec<f64>, String> {
    let data = tensors.take(name);
    check_all(name, &data, fine)?;
    Ok(data)
}
