//! All that a run carries from one iteration to the next: what a checkpoint holds.

use crate::automatic::Phase;
use crate::config::Config;
use crate::error::Error;
use crate::estimate::trick::Coefficients;
use crate::family::{Full, Gaussian, Mixture, Precision};
use crate::method::Method;
use crate::noise::{Noise, Purpose};
use crate::rule::Rule;
use crate::rule::adam::AdamState;
use crate::stop::History;
use crate::target::Shape;

/// A run between two iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) mixture: Mixture,
    pub(crate) iteration: u64,
    pub(crate) evals: u64,
    pub(crate) dropped: u64,
    pub(crate) seconds: f64,
    /// Iterations in a row, and points in them, without a single usable one.
    pub(crate) barren: (u64, u64),
    pub(crate) history: History,
    pub(crate) best: Option<Best>,
    pub(crate) carried: Vec<Carried>,
    /// Where an automatic run stands.
    pub(crate) automatic: Option<Phase>,
}

/// What one component carries along.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Carried {
    /// KL bound of the trust region.
    pub bound: f64,
    /// Own objective `E_k[b] + log w_k` of the previous iteration; NaN before the first.
    pub objective: f64,
    pub trick: Coefficients,
    /// Momentum, if the rule has any.
    pub velocity: Vec<f64>,
    pub adam: AdamState,
}

impl Carried {
    fn new(mixture: &Mixture, config: &Config) -> Self {
        let (dim, shape) = (mixture.dim(), mixture.shape());
        Self {
            bound: config.trust_region,
            objective: f64::NAN,
            trick: config.entropy_trick.start(config, dim),
            velocity: vec![0.0; if config.rule == Rule::Momentum { dim } else { 0 }],
            adam: match config.rule {
                Rule::Adam => AdamState::new(dim, shape.len(dim)),
                _ => AdamState { first: Vec::new(), second: Vec::new() },
            },
        }
    }
}

/// Standard errors that are taken off an ELBO before it counts as the best: a maximum over many noisy estimates would
/// otherwise be mostly noise.
const CAUTION: f64 = 4.0;

/// The best mixture met, by the ELBO that its own points gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    pub mixture: Mixture,
    pub elbo: f64,
    pub se: f64,
}

/// Points below which an iteration's own error is not trusted.
const FEW_POINTS: u64 = 500;

impl State {
    /// A fresh state around a first mixture.
    pub(crate) fn new(mixture: Mixture, config: &Config) -> Self {
        let carried = Carried::new(&mixture, config);
        Self {
            carried: vec![carried; mixture.len()],
            mixture,
            iteration: 0,
            evals: 0,
            dropped: 0,
            seconds: 0.0,
            barren: (0, 0),
            history: History::default(),
            best: None,
            automatic: None,
        }
    }

    /// Whether the state carries what the rule of `config` needs.
    pub(crate) fn fits(&self, config: &Config) -> bool {
        let fresh = Carried::new(&self.mixture, config);
        let sizes = |c: &Carried| [c.velocity.len(), c.adam.first.len(), c.adam.second.len()];
        self.automatic.is_some() == (config.method == Method::Auto)
            && self.carried.len() == self.mixture.len()
            && self.carried.iter().all(|c| sizes(c) == sizes(&fresh))
    }

    /// The mixture as it stands.
    pub fn mixture(&self) -> &Mixture {
        &self.mixture
    }
    /// Iterations done.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }
    /// Points at which the target was evaluated.
    pub fn evals(&self) -> u64 {
        self.evals
    }

    /// Takes in the ELBO estimate of the present mixture from so many points. The mean of the latest estimates stands for it,
    /// with the spread that they showed, where its error cannot be trusted: with minibatches it knows nothing of the rows
    /// that were left out, and from few points nothing of the tails, so that of many iterations the luckiest would win.
    pub(crate) fn judge(&mut self, elbo: f64, se: f64, points: u64, minibatch: bool) {
        self.history.push(elbo, se);
        match (minibatch || points < FEW_POINTS, self.history.recent()) {
            (false, _) => self.keep_best(elbo, se),
            (true, Some((elbo, se))) => self.keep_best(elbo, se),
            (true, None) => {}
        }
    }

    /// Remembers the present mixture, whose ELBO has just been estimated, if it is the best so far.
    fn keep_best(&mut self, elbo: f64, se: f64) {
        if !(elbo.is_finite() && se.is_finite()) {
            return;
        }
        match &mut self.best {
            Some(best) if elbo - CAUTION * se > best.elbo - CAUTION * best.se => {
                if best.mixture.len() == self.mixture.len() {
                    best.mixture.copy_from(&self.mixture);
                } else {
                    best.mixture.clone_from(&self.mixture);
                }
                (best.elbo, best.se) = (elbo, se);
            }
            Some(_) => {}
            None => self.best = Some(Best { mixture: self.mixture.clone(), elbo, se }),
        }
    }

    /// The present mixture, unless an earlier one was better beyond the noise; with ELBO and standard error.
    pub(crate) fn choose(&self) -> (&Mixture, (f64, f64)) {
        let now = self.history.recent();
        match (&self.best, now) {
            // Where nothing can be evaluated, any mixture that could be is better.
            (Some(best), _) if self.barren.0 > 0 => (&best.mixture, (best.elbo, best.se)),
            (Some(best), Some((elbo, se))) => {
                // The mean of the latest lags behind a climb, the last one alone may be a bad draw: take the better.
                let (last, last_se) = self.history.last().unwrap_or((elbo, se));
                let now = (elbo + 2.0 * se).max(last + 2.0 * last_se);
                if best.elbo - CAUTION * best.se > now {
                    (&best.mixture, (best.elbo, best.se))
                } else {
                    (&self.mixture, (elbo, se))
                }
            }
            (_, now) => (&self.mixture, now.unwrap_or((f64::NAN, f64::NAN))),
        }
    }
}

/// Centre and spread of the start, in each of `dim` coordinates.
pub(crate) fn spread_out(config: &Config, dim: usize) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let expand = |setting: &'static str, list: &[f64]| match list.len() {
        1 => Ok(vec![list[0]; dim]),
        n if n == dim => Ok(list.to_vec()),
        n => Err(Error::Config { setting, problem: format!("has {n} numbers, but the target has dimension {dim}") }),
    };
    Ok((expand("init_mean", &config.init_mean)?, expand("init_sd", &config.init_sd)?))
}

/// The first mixture: one component sits at the centre of the start, several are drawn around it.
pub(crate) fn first_mixture(config: &Config, dim: usize) -> Result<Mixture, Error> {
    let (centre, sd) = spread_out(config, dim)?;
    let components = (0..config.components).map(|k| {
        let mut mean = vec![0.0; dim];
        if config.components > 1 {
            Noise::new(config.seed, Purpose::Start, k as u64, 0, 0).normals(&mut mean);
        }
        for ((m, centre), sd) in mean.iter_mut().zip(&centre).zip(&sd) {
            *m = centre + sd * *m;
        }
        Ok(Gaussian::new(mean, precision_from_sd(&sd, config.covariance)?))
    });
    Mixture::new(&vec![1.0; config.components], components.collect::<Result<_, Error>>()?)
}

pub(crate) fn precision_from_sd(sd: &[f64], shape: Shape) -> Result<Precision, Error> {
    let wrong = |i: usize| Error::Config { setting: "init_sd", problem: format!("{} has no finite square", sd[i]) };
    match shape {
        Shape::Diag => {
            let prec = crate::family::Diag::new(sd.iter().map(|x| (x * x).recip()).collect());
            prec.map(Precision::Diag).map_err(wrong)
        }
        Shape::Full => {
            let mut factor = vec![0.0; sd.len() * sd.len()];
            factor.iter_mut().step_by(sd.len() + 1).zip(sd).for_each(|(l, sd)| *l = sd.recip());
            Ok(Precision::Full(Full::from_factor(sd.len(), factor)))
        }
    }
}
