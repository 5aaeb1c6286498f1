//! The result of a fit by any method, and the record built from it.

use crate::Error;
use crate::networks;
use crate::networks::verdict::LossTrend;
use crate::problem::Problem;
use crate::record::FitRecord;
use crate::saved::{ExternalMemory, SavedModel, SavedPosterior};
use crate::settings::Settings;
use crate::stan::log_lik;
use crate::summary::{self, DRAWS, DeliveredSample};
use crate::time::ResultsTime;
use natmix::Fitted;
use natmix::answer::delivered::DeliveredDraws;
use natmix::answer::level::Level;
use natmix::automatic::SearchSummary;
use natmix::chains::certificate::ChainAccuracy;
use natmix::chains::draws::ChainDraws;
use natmix::diagnose::Diagnostics;
use natmix::family::Mixture;
use natmix::observe::TraceRow;
use natmix::stop::StopReason;
use natmix_report::formation::Formation;
use natmix_report::{
    ChainsSummary, ComponentSummary, Evals, ModelSummary, Parameter, Report, ReportedEstimate, StopSummary,
    VerdictSummary,
};
use serde_json::{Value, json};

/// k-hat below which weighted draws are better than none, and effective draws that they need for it.
const USABLE_K_HAT: f64 = 1.0;
/// The same for R-hat of chains.
const USABLE_R_HAT: f64 = 1.1;
const USABLE_EFFECTIVE: f64 = 200.0;

/// The result of a fit.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The mixture.
    pub mixture: Mixture,
    /// One row per iteration or epoch.
    pub trace: Vec<TraceRow>,
    /// The draws that the fit delivers; networks draw their own.
    pub sample: Option<DeliveredSample>,
    /// How the mixture formed, if requested.
    pub formation: Option<Formation>,
    pub(crate) iterations: u64,
    pub(crate) evals: u64,
    pub(crate) diagnostic_evals: u64,
    pub(crate) chain_evals: u64,
    pub(crate) seconds: f64,
    pub(crate) stop: StopSummary,
    pub(crate) elbo: ReportedEstimate,
    /// Diagnostics, if the engine made the fit.
    pub(crate) diagnostics: Option<Diagnostics>,
    /// The draws of chains or of the diagnostics, if they are the answer.
    pub(crate) answer: Option<DeliveredDraws>,
    /// About the chains, if there were any.
    pub(crate) chains: Option<ChainsSummary>,
    pub(crate) search: Option<SearchSummary>,
    /// How the training loss of a network ended, if it was trained for long enough to judge.
    pub(crate) loss: Option<LossTrend>,
    /// Whether components are point estimates, as those of plain networks are.
    pub(crate) points: bool,
    /// The resolved settings.
    pub(crate) config: Value,
    /// Remarks on what the posterior is.
    pub(crate) notes: Vec<String>,
    /// The time for results, if it is limited.
    pub(crate) time: Option<ResultsTime>,
}

/// How to describe an external function or a Stan program, and its variables.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Name of the model.
    pub kind: String,
    /// One line for display.
    pub summary: String,
    /// Its variables.
    pub memory: ExternalMemory,
    /// Names of its variables, and the values of the finished sample in them, one draw after another.
    pub own_scale: Option<(Vec<String>, Vec<f64>)>,
}

impl Finished {
    /// From a fit of the engine.
    pub(crate) fn of_fitted(fitted: Fitted, trace: Vec<TraceRow>) -> Result<Self, Error> {
        if let Some(error) = fitted.observer_error.or(fitted.diagnostics_error) {
            return Err(error.into());
        }
        let Some(diagnostics) = fitted.diagnostics else {
            return Err(Error::Invalid("no diagnostics were measured".into()));
        };
        let by_chains = fitted.chains.as_ref().filter(|chains| deliver_chains(&diagnostics, chains));
        let chains = fitted.chains.as_ref().map(|chains| ChainsSummary {
            count: chains.chains,
            per_start: chains.per_start,
            iterations: chains.log_p.len() / chains.chains.max(1),
            diverged: chains.certificate.diverged,
            delivered: by_chains.is_some(),
        });
        let by_chains = by_chains.map(ChainDraws::delivered);
        let weighted = fitted.weighted.filter(|drawn| deliver_weighted(&diagnostics, drawn.psis.ess));
        let answer = by_chains.or_else(|| weighted.map(|weighted| weighted.delivered()));
        Ok(Self {
            trace,
            sample: None,
            formation: None,
            iterations: fitted.iterations,
            evals: fitted.evals,
            diagnostic_evals: fitted.diagnostic_evals,
            chain_evals: fitted.chain_evals,
            seconds: fitted.seconds,
            stop: StopSummary { reason: fitted.stop.reason.name().to_owned(), converged: fitted.stop.converged },
            elbo: ReportedEstimate { mean: diagnostics.elbo.mean, se: diagnostics.elbo.se },
            diagnostics: Some(diagnostics),
            answer,
            chains,
            search: fitted.search,
            loss: None,
            points: false,
            // The number of threads never changes a result, so it is not recorded.
            config: json!(natmix::Config { threads: 0, ..fitted.config }),
            notes: Vec::new(),
            time: None,
            mixture: fitted.mixture,
        })
    }

    /// Whether the user interrupted it.
    pub fn interrupted(&self) -> bool {
        self.stop.reason == StopReason::Cancelled.name()
    }

    /// Builds the record. `description` is for external functions.
    pub fn record(
        self,
        problem: &Problem,
        settings: &Settings,
        description: Option<Description>,
    ) -> Result<FitRecord, Error> {
        if let Problem::Network(network) = problem {
            return networks::record::record(self, &network.data, problem, settings);
        }
        let target = problem.target()?;
        let sample = self.delivered(settings.seed());
        let mut model = problem.memory(false);
        let (kind, summary, own_scale) = match description {
            None => (problem.kind().to_owned(), problem.summary(), None),
            Some(Description { kind, summary, memory, own_scale }) => {
                match &mut model {
                    SavedModel::External(known) => *known = memory,
                    SavedModel::Stan(known) => {
                        let named = memory.variables.into_iter().filter(|variable| !variable.dims.is_empty());
                        known.dims = named.map(|variable| (variable.name, variable.dims)).collect();
                        known.coords = memory.coords;
                    }
                    _ => {}
                }
                (kind, summary, own_scale)
            }
        };
        let draws = match own_scale {
            Some((names, values)) if values.len() == names.len() * sample.component.len() => {
                sample.with_values(names, values)
            }
            Some(_) => return Err(Error::Invalid("one row of values is needed per delivered draw".into())),
            None => sample.on_scale_of(target),
        };
        let mut parameters = summary::parameters(&draws, sample.weights.as_deref());
        let certificate = self.diagnostics.as_ref().and_then(|diagnostics| diagnostics.chains.as_ref());
        let mixing = summary::mixing(&draws, certificate);
        for (parameter, known) in parameters.iter_mut().zip(&mixing) {
            (parameter.r_hat, parameter.ess) = (Some(known.r_hat), Some(known.ess));
        }
        let draws = sample.equally_weighted(draws, settings.seed());
        let variables = match problem {
            Problem::Stan(stan) => {
                Some(stan.draws(&sample.equally_weighted_in_order(settings.seed()), settings.seed())?)
            }
            _ => None,
        };
        // A log-concave density has one mode, even if a mixture of several Gaussians has bumps.
        let log_concave = self.search.as_ref().is_some_and(|search| search.log_concave);
        let modes = if log_concave { 1 } else { self.mixture.modes().len() };
        let diagnostics = self.diagnostics.as_ref();
        let verdict = diagnostics.map(|d| summary::verdict(&summary, modes, self.mixture.len(), d));
        let parts = ReportParts {
            verdict: verdict.ok_or_else(|| Error::Invalid("no diagnostics were measured".into()))?,
            modes,
            components: components(&self.mixture, true),
            parameters,
            mixing,
            model: ModelSummary {
                kind,
                summary,
                rows: target.num_rows(),
                priors: problem.priors(),
                table: problem.table(),
                coefficients: problem.coefficients(),
            },
            config: ("engine", settings),
        };
        let mut report = self.report(parts);
        let loo_rows = variables.as_ref().and_then(|variables| log_lik::of_log_lik(variables).transpose());
        let loo_rows = loo_rows.transpose()?.map(|(loo, rows)| {
            report.loo = Some(loo);
            rows
        });
        let posterior = SavedPosterior {
            parameter_names: draws.names.clone(),
            settings: Some(settings.clone()),
            model,
            mixture: self.mixture,
            level: report.answer.as_ref().map(|answer| answer.level),
            answer: self.answer,
        };
        let (trace, formation) = (self.trace, self.formation);
        Ok(FitRecord { posterior, report, trace, draws, formation, log_likelihood: None, loo_rows, variables })
    }

    /// Like [`Finished::record`], with scores and leave-one-out results for the rows of a regression.
    pub fn record_with_rows(self, problem: &Problem, settings: &Settings) -> Result<FitRecord, Error> {
        if !problem.predicts_rows() {
            return self.record(problem, settings, None);
        }
        let sample = self.delivered(settings.seed());
        let mut z = sample.equally_weighted_points(settings.seed());
        let time = self.time;
        let mut record = self.record(problem, settings, None)?;
        let q = &record.posterior.mixture;
        if let Some(time) = time {
            match problem.draws_within(&time, &z)? {
                Some(draws) => z.truncate(draws * q.dim()),
                None => {
                    let omitted = "there was no time left for scores, leave-one-out and checks of the model".to_owned();
                    record.report.verdict.notes.push(omitted);
                    return Ok(record);
                }
            }
        }
        if let Some(rows) = problem.judge_rows(q, (&z, sample.chains.is_some()), settings.seed())? {
            rows.add_to(&mut record.report);
            record.log_likelihood = rows.log_likelihood;
            record.loo_rows = Some(rows.loo_rows);
        }
        Ok(record)
    }

    /// The draws that the fit delivers.
    fn delivered(&self, seed: u64) -> DeliveredSample {
        self.sample.clone().unwrap_or_else(|| DeliveredSample::of(&self.mixture, self.answer.as_ref(), seed))
    }

    pub(crate) fn report(&self, parts: ReportParts<'_>) -> Report {
        let ReportParts { verdict, modes, components, parameters, mixing, model, config: (part, settings) } = parts;
        let diagnostics = self.diagnostics.as_ref();
        let unknown = f64::NAN;
        let draws = self.sample.as_ref().map_or(DRAWS, |sample| sample.component.len());
        Report {
            verdict,
            elbo: self.elbo,
            log_evidence: diagnostics.map_or(ReportedEstimate { mean: unknown, se: unknown }, |d| ReportedEstimate {
                mean: d.log_evidence.mean,
                se: d.log_evidence.se,
            }),
            k_hat: diagnostics.map_or(unknown, |d| d.k_hat),
            k_threshold: diagnostics.map_or(unknown, |d| d.k_threshold),
            ess: diagnostics.map_or(unknown, |d| d.ess),
            answer: diagnostics
                .map(|d| summary::answer(d, (self.answer.as_ref(), draws), &parameters, &mixing, self.chains.clone())),
            modes,
            search: self.search.clone(),
            components,
            parameters,
            model,
            evals: Evals { points: self.evals, diagnostics: self.diagnostic_evals, chains: self.chain_evals },
            iterations: self.iterations,
            seconds: self.seconds,
            stop: self.stop.clone(),
            seed: settings.seed(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: json!({"settings": settings, part: self.config}),
            train: None,
            test: None,
            validation: None,
            ood: None,
            loo: None,
            model_checks: Vec::new(),
            outcome_check: None,
            class_predictions: None,
            group_estimates: Vec::new(),
            survival_check: None,
            conditional_effects: Vec::new(),
            model_notes: Vec::new(),
        }
    }
}

/// Whether the draws of chains are the answer: at their level, and for want of anything better if they nearly agree.
fn deliver_chains(diagnostics: &Diagnostics, chains: &ChainDraws) -> bool {
    let agree = || chains.certificate.parameters.iter().all(|one| one.r_hat < USABLE_R_HAT);
    diagnostics.level == Level::Chains || diagnostics.level == Level::None && agree()
}

/// Whether the weighted draws are the answer: at their level, and for want of anything better if there are enough.
fn deliver_weighted(diagnostics: &Diagnostics, ess: f64) -> bool {
    match diagnostics.level {
        Level::Mixture | Level::Chains => false,
        Level::Weighted => true,
        Level::None => diagnostics.k_hat < USABLE_K_HAT && ess >= USABLE_EFFECTIVE,
    }
}

/// The parts of a report that do not follow from the fit alone.
pub(crate) struct ReportParts<'a> {
    pub verdict: VerdictSummary,
    pub modes: usize,
    pub components: Vec<ComponentSummary>,
    pub parameters: Vec<Parameter>,
    /// How well chains know each of them, if they have delivered the draws.
    pub mixing: Vec<ChainAccuracy>,
    pub model: ModelSummary,
    /// The name under which the resolved settings are stored, and the settings as given.
    pub config: (&'static str, &'a Settings),
}

/// The components for a report; their coordinates are listed if `named`.
pub(crate) fn components(q: &Mixture, named: bool) -> Vec<ComponentSummary> {
    let weights = q.weights();
    let parts = q.components().iter().zip(weights);
    parts
        .map(|(component, weight)| ComponentSummary {
            weight,
            mean: if named { component.mean().to_vec() } else { Vec::new() },
            sd: if named { component.sd() } else { Vec::new() },
        })
        .collect()
}
