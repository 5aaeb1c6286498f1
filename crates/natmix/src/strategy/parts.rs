//! The composed methods: draws, estimator and rule in any combination, such as every method of the paper.
//!
//! An iteration draws points of each component, has them evaluated, estimates the moments of every component under the
//! mixture that drew the points, and then moves components and weights.

pub(crate) mod carried;
mod minibatch;
mod saved;
mod step;

use super::record::{Estimated, Record};
use super::start::{check_start, first_mixture};
use super::{Outcome, Progress, Strategy, StrategyKind, Tools, need_gradient};
use crate::config::{Config, Parts, Source};
use crate::draws::Key;
use crate::error::Error;
use crate::estimate::cell::{Cell, Draw, elbo, reduce};
use crate::estimate::trick::Coefficients;
use crate::estimate::{Moments, Setup, request};
use crate::evaluate::{Batch, Part};
use crate::family::Mixture;
use crate::noise::{Noise, Purpose};
use crate::rule::{self, Rule, Skipped, StepInfo, WeightRule};
use crate::run::stop::StopReason;
use crate::save::bundle::{Layout, Tensors};
use crate::target::{Curvature, CurvatureShape, Target};
use crate::workspace::ScratchPool;
use carried::ComponentState;
use minibatch::Minibatches;
use rayon::prelude::*;
use serde_json::Value;
use step::Step;

/// Most numbers for which room is reserved in advance, for draws that may never be needed.
const MOST_RESERVED: usize = 1 << 23;

/// Most coordinates of all points of an iteration: 64 GB of them.
const MOST_NUMBERS: u64 = 1 << 33;

/// The composed method that settings describe.
pub(crate) struct PartsKind<'a> {
    pub config: &'a Config,
    pub settings: &'a Parts,
}

impl StrategyKind for PartsKind<'_> {
    fn name(&self) -> &'static str {
        "parts"
    }

    fn check(&self, target: &dyn Target) -> Result<(), Error> {
        self.check_support(target)?;
        let (components, draws, dim) = (self.settings.components, self.settings.draws_per_component, target.dim());
        let points = self.settings.plan().count(draws) as u64;
        let numbers = (components as u64).checked_mul(points).and_then(|n| n.checked_mul(dim as u64));
        if numbers.is_none_or(|n| n > MOST_NUMBERS) {
            return Err(Error::InvalidInput(format!(
                "{components} components with {draws} draws each in dimension {dim} do not fit into memory"
            )));
        }
        Ok(())
    }

    fn budget(&self) -> Option<u64> {
        self.config.max_evals
    }

    fn begin(&self, dim: usize, start: Option<Mixture>) -> Result<Box<dyn Strategy>, Error> {
        let count = self.settings.components;
        let mixture = match start {
            None => first_mixture(self.config, count, dim)?,
            Some(mixture) => {
                check_start(&mixture, self.config, dim, Some(count))?;
                mixture
            }
        };
        let carried = vec![ComponentState::new(&mixture, self.settings); mixture.len()];
        Ok(Box::new(self.strategy(mixture, Record::default(), carried)))
    }

    fn layout(&self, document: &Value) -> Result<Layout, String> {
        saved::layout(self, document)
    }

    fn load(&self, document: &Value, tensors: Tensors) -> Result<Box<dyn Strategy>, String> {
        Ok(Box::new(saved::load(self, document, tensors)?))
    }
}

impl PartsKind<'_> {
    fn strategy(&self, mixture: Mixture, record: Record, carried: Vec<ComponentState>) -> PartsStrategy {
        let (config, settings) = (self.config.clone(), self.settings.clone());
        PartsStrategy { config, settings, mixture, record, carried, work: PartsBuffers::default() }
    }

    fn check_support(&self, target: &dyn Target) -> Result<(), Error> {
        let estimator = self.settings.estimator;
        if estimator.needs_gradient() {
            need_gradient(target)?;
        }
        if let Some(kind) = estimator.curvature() {
            let offered = target.curvatures();
            let needed = (kind, self.config.covariance.curvature_shape());
            if !offered.contains(&needed) {
                let name = |(kind, shape): &(Curvature, CurvatureShape)| format!("{} ({})", kind.name(), shape.name());
                let offered: Vec<String> = offered.iter().map(name).collect();
                let offered = if offered.is_empty() { "no curvature (try `ngvi`)".into() } else { offered.join(", ") };
                return Err(Error::Unsupported { needed: name(&needed) + " curvature", offered });
            }
        }
        if let Some(rows) = self.settings.minibatch {
            match target.num_rows() {
                None => {
                    return Err(Error::Unsupported {
                        needed: "data rows, for minibatches".into(),
                        offered: "none".into(),
                    });
                }
                Some(n) if rows > n => {
                    let problem = format!("must be at most the {n} rows there are, not {rows}");
                    return Err(Error::Config { setting: "minibatch", problem });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// A run of a composed method.
#[derive(Debug)]
pub(crate) struct PartsStrategy {
    config: Config,
    settings: Parts,
    mixture: Mixture,
    record: Record,
    carried: Vec<ComponentState>,
    work: PartsBuffers,
}

/// Buffers of an iteration; empty before the first.
#[derive(Debug, Default)]
struct PartsBuffers {
    minibatches: Option<Minibatches>,
    /// The points of all components: one part each.
    batch: Batch,
    cells: Vec<Cell>,
    moments: Vec<Moments>,
    steps: Vec<StepInfo>,
    /// Points of each component, before the draw plan rounds.
    counts: Vec<usize>,
    /// Components in the order of their ids.
    by_id: Vec<usize>,
    values: Vec<f64>,
    new_weights: Vec<f64>,
    tricks: Vec<Coefficients>,
}

impl PartsBuffers {
    fn new(settings: &Parts, mixture: &Mixture, carried: &[ComponentState]) -> Self {
        let (k, dim, shape) = (mixture.len(), mixture.dim(), mixture.curvature_shape());
        let mut by_id: Vec<usize> = (0..k).collect();
        by_id.sort_by_key(|&k| mixture.ids()[k]);
        let shared = settings.source == Source::Mixture;
        let mut batch = Batch {
            request: request(settings.estimator, shape, if shared { k } else { 1 }),
            parts: (0..k).map(|_| Part::default()).collect(),
        };
        let mut cells: Vec<Cell> = (0..k).map(|_| Cell::default()).collect();
        let most = k * settings.plan().count(settings.draws_per_component);
        if shared && k * most * dim <= MOST_RESERVED {
            // Any component may get all draws in a later iteration; reserving room now avoids allocations then.
            for (cell, part) in cells.iter_mut().zip(&mut batch.parts) {
                cell.resize(part, &batch.request, most, dim);
            }
        }
        Self {
            minibatches: None,
            batch,
            cells,
            moments: (0..k).map(|_| Moments::new(dim, shape)).collect(),
            steps: vec![StepInfo::default(); k],
            counts: vec![0; k],
            by_id,
            values: vec![0.0; k],
            new_weights: vec![0.0; k],
            tricks: carried.iter().map(|carried| carried.trick).collect(),
        }
    }
}

impl PartsStrategy {
    /// Points of each component, before the plan rounds: equally many, or at random in proportion to the weights.
    fn count_draws(&mut self, iteration: u64) {
        let (settings, mixture, work) = (&self.settings, &self.mixture, &mut self.work);
        if settings.source == Source::Component || mixture.len() == 1 {
            work.counts.fill(settings.draws_per_component);
            return;
        }
        work.counts.fill(0);
        let mut noise = Noise::new(self.config.seed, Purpose::Assignment, u64::MAX, iteration, 0);
        // Components are drawn in the order of their ids, so that relabelling changes nothing.
        for _ in 0..settings.components * settings.draws_per_component {
            let mut left = noise.uniform();
            let found = work.by_id.iter().find(|&&k| {
                left -= mixture.log_weights()[k].exp();
                left < 0.0
            });
            // Rounding may leave a remainder beyond the last one.
            let chosen = found.copied().unwrap_or(work.by_id[0]);
            work.counts[chosen] += 1;
        }
    }

    /// Sets the data rows of the next batch.
    fn choose_rows(&mut self, tools: &Tools<'_>) -> Result<(), Error> {
        let (Some(size), Some(rows)) = (self.settings.minibatch, tools.evaluator.num_rows()) else { return Ok(()) };
        let minibatches = match &mut self.work.minibatches {
            Some(minibatches) => minibatches,
            none => none.insert(Minibatches::new(rows, size, self.config.seed)?),
        };
        let chosen = self.work.batch.request.rows.get_or_insert_default();
        chosen.clear();
        chosen.extend_from_slice(minibatches.rows(tools.iteration));
        Ok(())
    }

    /// Draws points, has them evaluated, and estimates the moments of every component; returns the ELBO and its error.
    fn estimate(&mut self, tools: &mut Tools<'_>) -> Result<(f64, f64), Error> {
        let (seed, settings, work) = (self.config.seed, &self.settings, &mut self.work);
        let plan = settings.plan();
        let shared = settings.source == Source::Mixture;
        let setup = Setup { q: &self.mixture, estimator: settings.estimator, shared, scratch: tools.scratch };
        for (trick, carried) in work.tricks.iter_mut().zip(&self.carried) {
            *trick = carried.trick;
        }
        let (counts, tricks, iteration) = (&work.counts, &work.tricks, tools.iteration);
        let all: usize = counts.iter().sum();
        let Batch { request, parts } = &mut work.batch;
        work.cells.par_iter_mut().zip(parts).enumerate().for_each(|(k, (cell, part))| {
            // The share that was drawn: a plan that rounds its points up must not favour small components.
            let share = if shared { counts[k] as f64 / all as f64 } else { 1.0 };
            let key = Key { seed, id: setup.q.ids()[k], iteration };
            cell.draw(part, request, &setup, k, Draw { count: plan.count(counts[k]), share, plan, key });
        });
        let ticket = tools.evaluator.submit(std::mem::take(&mut work.batch));
        work.batch = tools.evaluator.collect(ticket)?;
        work.cells.par_iter_mut().zip(&work.batch.parts).enumerate().for_each(|(k, (cell, part))| {
            cell.estimate(part, &setup, k, tricks, plan.paired());
        });
        let cells = &work.cells;
        work.moments.par_iter_mut().enumerate().for_each(|(k, moments)| {
            setup.scratch.with(|scratch| reduce(moments, cells, &setup, k, tricks[k], scratch));
        });
        Ok(elbo(cells, setup.q, shared))
    }

    /// Moves every component, and the weights.
    fn update(&mut self, iteration: u64, scratch: &ScratchPool) {
        let (settings, work) = (&self.settings, &mut self.work);
        let rate = settings.rate * (iteration as f64).powf(-settings.decay);
        let (log_w, components) = self.mixture.parts_mut();
        let old_log_w = &*log_w;
        let (moments, cells) = (&work.moments, &work.cells);
        let tasks = components.par_iter_mut().zip(&mut self.carried).zip(&mut work.steps).zip(&mut work.values);
        tasks.enumerate().for_each(|(k, (((component, carried), info), value))| {
            let moments = &moments[k];
            *value = if moments.usable { moments.value } else { f64::NAN };
            *info = if !moments.usable {
                StepInfo::skipped(Skipped::NoPoints)
            } else {
                carried.trick = settings.entropy_trick.next(settings, carried.trick, &cells[k], component);
                scratch.with(|scratch| {
                    let (objective, noise) = (moments.value + old_log_w[k], cells[k].variance.sqrt());
                    let step = Step { settings, rate, iteration, objective, noise };
                    step.take(component, carried, moments, value, scratch)
                })
            };
        });
        if log_w.len() > 1 {
            match (settings.rule, settings.weight_rule) {
                (_, WeightRule::Fixed) => {}
                // Adam has already moved the logits.
                (Rule::Adam, _) => rule::weights::step(log_w, &work.values, 1.0),
                (_, WeightRule::Plain) => rule::weights::step(log_w, &work.values, settings.weight_rate),
                (_, WeightRule::TrustRegion) => {
                    let (rate, bound) = (settings.weight_rate, settings.weight_trust_region);
                    rule::weights::trust_region_step(log_w, &work.values, rate, bound, &mut work.new_weights);
                }
            }
        }
    }
}

impl Strategy for PartsStrategy {
    fn iterate(&mut self, tools: &mut Tools<'_>) -> Result<Progress, Error> {
        if self.work.cells.is_empty() {
            self.work = PartsBuffers::new(&self.settings, &self.mixture, &self.carried);
        }
        self.count_draws(tools.iteration);
        self.choose_rows(tools)?;
        let before = tools.evaluator.spent().evals;
        // First everything is estimated under the old mixture, then every component moves.
        let (elbo, se) = self.estimate(tools)?;
        let points = tools.evaluator.spent().evals - before;
        let minibatch = self.work.minibatches.is_some();
        self.record.enter(&self.mixture, Estimated { elbo, se, points, minibatch })?;
        self.update(tools.iteration + 1, tools.scratch);
        Ok(Progress::Iterated { elbo, se })
    }

    fn mixture(&self) -> &Mixture {
        &self.mixture
    }

    fn steps(&self) -> &[StepInfo] {
        &self.work.steps
    }

    fn next_cost(&self) -> u64 {
        let settings = &self.settings;
        // Under mixture draws each component's share is rounded up by at most two.
        let rounding = if settings.source == Source::Mixture { 2 } else { 0 };
        (settings.components * (settings.plan().count(settings.draws_per_component) + rounding)) as u64
    }

    fn finished(&self) -> Option<StopReason> {
        let converged = || self.record.history.converged(self.config.tolerance).then_some(StopReason::Converged);
        self.record.lost_support().or_else(converged)
    }

    fn outcome(&self) -> Outcome {
        let (mixture, running_elbo) = self.record.choose(&self.mixture);
        Outcome { mixture: mixture.clone(), running_elbo, search: None }
    }

    fn save(&self, tensors: &mut Tensors) -> Result<Value, Error> {
        saved::save(self, tensors)
    }
}
