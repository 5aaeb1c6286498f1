//! The level of an answer: which draws of a fit may be relied on.
//!
//! | level | draws | holds if |
//! |---|---|---|
//! | mixture | those of the mixture itself | they agree with the weighted ones, within the limits, for every parameter |
//! | weighted | draws with Pareto-smoothed importance weights | k-hat is below its limit, and there are enough effective draws for every parameter |
//! | chains | those of Hamiltonian chains that started from the mixture | their [certificate](crate::chains::certificate) holds |
//! | none | the best there are | never: the answer is not to be trusted |
//!
//! The first level that holds is delivered.

use super::accuracy::{Accuracy, Judge};
use super::diagnose::WeightedDraws;
use super::psis;
use crate::target::{Points, Target};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Relative variance of the importance weights below which k-hat is ignored: they then hardly differ (an effective
/// sample size of 98%), and the shape of their tail says nothing about the fit.
pub(super) const NEARLY_EQUAL: f64 = 0.02;
/// Parameters whose values are held at a time, at least, and values if there are more; and points that are converted at a time.
const BLOCK: usize = 256;
const VALUES: usize = 1 << 22;
const POINTS: usize = 128;

/// The level of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The draws of the mixture itself.
    Mixture,
    /// Draws with importance weights.
    Weighted,
    /// Draws of Hamiltonian chains.
    Chains,
    /// No draws that can be relied on.
    None,
}

impl Level {
    /// Its name in files and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixture => "mixture",
            Self::Weighted => "weighted",
            Self::Chains => "chains",
            Self::None => "none",
        }
    }

    /// Whether the answer may be relied on.
    pub fn holds(self) -> bool {
        self != Self::None
    }
}

/// A level with the accuracy of every parameter at it.
pub(super) struct Decision {
    pub level: Level,
    pub accuracy: Vec<Accuracy>,
    /// Times as many draws that a weighted answer needs, about.
    pub needed: f64,
}

/// Seconds that judging takes per draw and parameter, measured on draws that are made up.
pub(super) fn seconds_per_value() -> f64 {
    const DRAWS: usize = 512;
    let (weights, began) = (vec![1.0 / DRAWS as f64; DRAWS], std::time::Instant::now());
    let values: Vec<f64> = (0..DRAWS).map(|i| (i * 197 % DRAWS) as f64).collect();
    std::hint::black_box(Judge { weights: &weights, k_hat: 0.0, parameters: 1 }.judge(&values));
    began.elapsed().as_secs_f64() / DRAWS as f64
}

/// Decides which draws to deliver. `variance` is the relative variance of the weights. If `more` draws than usual were made to
/// get a weighted answer, they are preferred.
pub(super) fn decide(target: &dyn Target, drawn: &WeightedDraws, variance: f64, more: bool) -> Decision {
    let nearly_equal = variance <= NEARLY_EQUAL;
    let k_hat = drawn.psis.k_hat;
    let usable = k_hat.is_finite() && (k_hat < psis::trust_threshold(drawn.psis.log_weights.len()) || nearly_equal);
    let weights = drawn.weights();
    let names = target.parameter_names().len();
    let judge =
        Judge { weights: &weights, k_hat: if nearly_equal || !usable { 0.0 } else { k_hat }, parameters: names };
    let (d, n) = (target.dim(), weights.len());
    let (mut mixture, mut weighted) = (Vec::with_capacity(names), Vec::with_capacity(names));
    let mut needed: f64 = 0.0;
    let block = BLOCK.max(VALUES / n.max(1));
    for first in (0..names).step_by(block) {
        let count = block.min(names - first);
        let mut columns = vec![0.0; count * n];
        let mut rows = vec![0.0; names * POINTS];
        for (at, points) in drawn.draws.chunks(POINTS * d).enumerate() {
            let points = Points::new(points, d);
            let rows = &mut rows[..names * points.len()];
            target.points_to_parameters(points, at * POINTS, rows);
            for (i, row) in rows.chunks_exact(names).enumerate() {
                let draw = at * POINTS + i;
                row[first..first + count].iter().enumerate().for_each(|(j, x)| columns[j * n + draw] = *x);
            }
        }
        let judged: Vec<_> = columns.par_chunks(n.max(1)).map(|column| judge.judge(column)).collect();
        for one in judged {
            mixture.push(one.mixture);
            weighted.push(one.weighted);
            needed = needed.max(one.needed);
        }
    }
    let all = |list: &[Accuracy]| usable && list.iter().all(|one| one.holds);
    let (level, accuracy) = match (all(&mixture), all(&weighted)) {
        (true, false) => (Level::Mixture, mixture),
        (true, true) if !more => (Level::Mixture, mixture),
        (_, true) => (Level::Weighted, weighted),
        (false, false) => (Level::None, if usable { weighted } else { mixture }),
    };
    Decision { level, accuracy, needed }
}
