//! How far components overlap, and the terms of `log q` that they then share.
//!
//! At a draw `w` of component `k`, with `a_j = S_j (m_j - w)` and responsibilities `r_j`, a step needs the derivatives of `log q`
//! minus those of the component itself:
//!
//! ```text
//! grad log q - a_k = sum_j r_j a_j - a_k
//! hess log q + S_k = sum_j r_j (a_j^2 - S_j) - (sum_j r_j a_j)^2 + S_k
//! ```
//!
//! Both vanish where `log r_k = 0`, as for networks of realistic size. So while all other components are far away, nothing is
//! computed, and the overlap is checked only every [`EVERY`] steps.

use super::component::{ComponentWork, NetworkComponent};
use super::config::{Optimiser, TrainConfig};
use super::kernels::Overlap;
use super::team::Team;
use super::timing::TrainingWork;
use natmix::Error;
use rayon::prelude::*;

/// Steps between two checks while components are apart.
pub(super) const EVERY: u64 = 50;
/// Components are apart if every other one has a log responsibility below minus this; `exp(-100)` is negligible.
const APART: f64 = 100.0;

/// Checks whether components overlap, and keeps the terms that they then share.
pub(crate) struct OverlapMonitor {
    checked: bool,
    apart: bool,
    log_responsibility: Vec<f64>,
    /// Gradient and Hessian terms of each component, where they overlap.
    terms: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Overlap<'_> {
    /// The terms of a range of weights.
    pub fn part(&self, first: usize, len: usize) -> Self {
        Self { grad: &self.grad[first..first + len], hess: &self.hess[first..first + len] }
    }
}

impl OverlapMonitor {
    pub fn new(components: usize) -> Self {
        Self { checked: false, apart: true, log_responsibility: vec![0.0; components], terms: Vec::new() }
    }

    /// Mean log responsibility of component `k` at its own latest draws.
    pub fn mean_log_responsibility(&self, k: usize) -> f64 {
        self.log_responsibility[k]
    }

    /// The terms of component `k`.
    pub fn terms(&self, k: usize) -> Option<Overlap<'_>> {
        (!self.apart).then(|| Overlap { grad: &self.terms[k].0, hess: &self.terms[k].1 })
    }

    /// Whether components overlapped when they were checked last.
    pub fn overlapping(&self) -> bool {
        !self.apart
    }

    /// Whether they are to be checked before this step.
    pub fn is_due(&self, config: &TrainConfig, iteration: u64) -> bool {
        let due = !self.checked || !self.apart || iteration.is_multiple_of(EVERY);
        due && config.components > 1 && config.optimiser != Optimiser::Adam
    }

    /// Checks them. Where processes share the components, those of others are as they were shown last.
    pub fn update(
        &mut self,
        components: &[NetworkComponent],
        log_w: &[f64],
        work: &[ComponentWork],
        team: Option<&Team>,
    ) -> Result<(), Error> {
        self.checked = true;
        let n = components[0].mean.len();
        let norms: Vec<f64> = components
            .par_iter()
            .zip(log_w)
            .zip(work)
            .map(|((c, w), work)| {
                let log_determinant = || c.prec.iter().map(|s| f64::from(*s).ln()).sum::<f64>();
                w + 0.5 * work.timer.measure(TrainingWork::Overlap, log_determinant)
            })
            .collect();
        // log r_j at each draw of each component of this process.
        let log_r: Vec<Vec<Vec<f64>>> = work
            .par_iter()
            .map(|work| {
                let each = || work.samples.chunks_exact(n).map(|w| responsibilities(components, &norms, w)).collect();
                work.timer.measure(TrainingWork::Overlap, each)
            })
            .collect();
        // Of each component: how near the nearest other one is, and the mean responsibility of its own.
        let of_component = |(k, draws): (usize, &Vec<Vec<f64>>)| {
            let others = draws.iter().flat_map(|log_r| log_r.iter().enumerate().filter(move |(j, _)| *j != k));
            // Not the largest: what is no number is not far away.
            let apart = others.fold(true, |apart, (_, r)| apart && *r < -APART);
            let own = draws.iter().map(|log_r| log_r[k]).sum::<f64>() / draws.len() as f64;
            [f64::from(u8::from(apart)), own]
        };
        let mut found: Vec<f64> = log_r.iter().enumerate().flat_map(of_component).collect();
        if let Some(team) = team {
            team.tell(&mut found, 2)?;
        }
        self.apart = found.iter().step_by(2).all(|apart| *apart == 1.0);
        self.log_responsibility = found.iter().skip(1).step_by(2).copied().collect();
        if self.apart {
            return Ok(());
        }
        self.terms.resize_with(components.len(), Default::default);
        self.terms.par_iter_mut().zip(work).zip(&log_r).enumerate().for_each(|(k, ((terms, work), log_r))| {
            if log_r.is_empty() {
                return;
            }
            work.timer.measure(TrainingWork::Overlap, || {
                for terms in [&mut terms.0, &mut terms.1] {
                    terms.clear();
                    terms.resize(n, 0.0);
                }
                let share = 1.0 / log_r.len() as f64;
                for (w, log_r) in work.samples.chunks_exact(n).zip(log_r) {
                    let r: Vec<f64> = log_r.iter().map(|r| r.exp()).collect();
                    for (i, w) in w.iter().enumerate() {
                        let w = f64::from(*w);
                        let (mut slope, mut curve) = (0.0, 0.0);
                        for (component, r) in components.iter().zip(&r) {
                            let s = f64::from(component.prec[i]);
                            let a = s * (f64::from(component.mean[i]) - w);
                            slope += r * a;
                            curve += r * (a * a - s);
                        }
                        let s = f64::from(components[k].prec[i]);
                        let own = s * (f64::from(components[k].mean[i]) - w);
                        terms.0[i] += (share * (slope - own)) as f32;
                        terms.1[i] += (share * (curve - slope * slope + s)) as f32;
                    }
                }
            });
        });
        Ok(())
    }
}

fn responsibilities(components: &[NetworkComponent], norms: &[f64], w: &[f32]) -> Vec<f64> {
    let mut log_r: Vec<f64> = components
        .iter()
        .zip(norms)
        .map(|(c, norm)| {
            let terms = c.mean.iter().zip(&c.prec).zip(w);
            norm - 0.5 * terms.map(|((m, s), w)| f64::from(*s) * f64::from(w - m).powi(2)).sum::<f64>()
        })
        .collect();
    let most = log_r.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = most + log_r.iter().map(|r| (r - most).exp()).sum::<f64>().ln();
    log_r.iter_mut().for_each(|r| *r -= total);
    log_r
}
