//! `frames.json`: how a mixture formed, moment by moment, in the one or two most informative coordinates.

mod view;

use crate::nullable;
use natmix::Error;
use natmix::family::Mixture;
use natmix::observe::Frame;
use natmix::target::Target;
use serde::{Deserialize, Serialize};
use view::FormationView;

/// Fewest and most moments that can be requested: there are a first and a last one, and the page must stay small.
pub const MOMENTS: std::ops::RangeInclusive<usize> = 2..=500;

/// Moments of a run, including the first one and the final mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Formation {
    /// Names of the coordinates shown, one or two.
    pub names: Vec<String>,
    /// Whether they are on the scale that was fitted, not on the user's own.
    pub fitted_scale: bool,
    /// First to last.
    #[serde(rename = "frames")]
    pub moments: Vec<Moment>,
}

/// The mixture at one moment, in the coordinates shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Iterations done.
    pub iteration: u64,
    /// Points at which the target was evaluated so far.
    pub evals: u64,
    /// ELBO; for the last moment, from fresh draws.
    #[serde(with = "nullable")]
    pub elbo: f64,
    /// Weights, one per component.
    pub weights: Vec<f64>,
    /// Means, one per component.
    pub means: Vec<Vec<f64>>,
    /// Covariances, one per component.
    pub covariances: Vec<Vec<Vec<f64>>>,
}

impl Formation {
    /// From the frames of a run and its result `last`, at most `most` moments spread over all iterations. `earlier` is
    /// the formation of the interrupted run that this one resumes.
    pub fn new(target: &dyn Target, frames: &[Frame], last: &Frame, earlier: Option<Self>, most: usize) -> Self {
        let frames = || frames.iter().filter(|frame| frame.iteration < last.iteration).chain([last]);
        let mixtures: Vec<&Mixture> = frames().map(|frame| &frame.mixture).collect();
        let view = FormationView::choose(target, &mixtures, earlier.as_ref().map(|earlier| &earlier.names[..]));
        let first = frames().next().map_or(last.iteration, |frame| frame.iteration);
        let mut moments = match earlier {
            Some(earlier) if earlier.names == view.names && earlier.fitted_scale == view.fitted_scale => {
                earlier.moments
            }
            _ => Vec::new(),
        };
        moments.retain(|moment| moment.iteration < first);
        moments.extend(frames().map(|frame| view.moment(frame)));
        Self { names: view.names, fitted_scale: view.fitted_scale, moments: spread(moments, most) }
    }

    /// Reads `frames.json`; `file` is its name in messages.
    pub fn read(text: &str, file: &str) -> Result<Self, Error> {
        let bad = |problem: String| Error::BadFile { file: file.into(), problem };
        let formation: Self =
            serde_json::from_str(text).map_err(|error| bad(format!("was not written by natmix ({error})")))?;
        let dim = formation.names.len();
        if !(1..=2).contains(&dim) || !formation.moments.iter().all(|moment| moment.is_sound(dim)) {
            return Err(bad("is damaged: its moments do not match its names".into()));
        }
        Ok(formation)
    }
}

impl Moment {
    fn is_sound(&self, dim: usize) -> bool {
        let count = self.weights.len();
        let row = |row: &Vec<f64>| row.len() == dim && row.iter().all(|x| x.is_finite());
        let matrix = |rows: &Vec<Vec<f64>>| rows.len() == dim && rows.iter().all(row);
        self.means.len() == count
            && self.covariances.len() == count
            && self.weights.iter().all(|w| (0.0..=1.0).contains(w))
            && self.means.iter().all(row)
            && self.covariances.iter().all(matrix)
    }
}

/// At most `most` of the moments, spread as evenly over the iterations as possible; the first and last are kept.
fn spread(moments: Vec<Moment>, most: usize) -> Vec<Moment> {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return moments };
    if moments.len() <= most {
        return moments;
    }
    let (start, end) = (first.iteration as f64, last.iteration as f64);
    let places = most.max(2) - 1;
    let nearest = |place: usize| {
        let goal = start + (end - start) * place as f64 / places as f64;
        let distance = |i: &usize| (moments[*i].iteration as f64 - goal).abs();
        (0..moments.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    let mut kept: Vec<usize> = (0..=places).map(nearest).collect();
    kept.dedup();
    let mut at = 0..;
    moments.into_iter().filter(|_| at.next().is_some_and(|i| kept.binary_search(&i).is_ok())).collect()
}

#[cfg(test)]
mod tests;
