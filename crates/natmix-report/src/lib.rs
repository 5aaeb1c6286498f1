//! Pictures and the page of a fit, from its report, trace and draws.
//!
//! The plain types that a page is made from ([`Report`], [`Draws`], [`Formation`](formation::Formation)) are the input
//! of this package and therefore defined here: packages that fit fill them in, and drawing does not depend on fitting.
#![forbid(unsafe_code)]

mod coefficients;
pub mod comparison;
pub mod figure;
mod figures;
pub mod formation;
pub mod html;
pub mod number;
pub mod page;
mod replicated;

pub use coefficients::{ClassCoefficients, ClassEffect, Coefficients, ConditionalEffect, GroupEffects};
use natmix::answer::delivered::DeliveredChains;
pub use replicated::{ClassPredictions, GroupEstimates, OutcomeCheck, SurvivalCheck};
use serde::{Deserialize, Serialize};

/// `report.json`. Numbers that are not finite are written as `null` and read as NaN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The verdict.
    pub verdict: VerdictSummary,
    /// ELBO from fresh draws.
    pub elbo: ReportedEstimate,
    /// Log evidence: from the same draws, or by bridge sampling between chains and proposals fitted to them.
    pub log_evidence: ReportedEstimate,
    /// Shape of the tail of the importance weights.
    #[serde(with = "nullable")]
    pub k_hat: f64,
    /// k-hat below which the weights can be trusted.
    #[serde(with = "nullable")]
    pub k_threshold: f64,
    /// Effective sample size of the smoothed weights.
    #[serde(with = "nullable")]
    pub ess: f64,
    /// Which draws the fit delivers, and how accurate they are; none for networks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<AnswerSummary>,
    /// Number of modes of the mixture.
    pub modes: usize,
    /// What the search for modes found, where there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub search: Option<natmix::automatic::SearchSummary>,
    /// The mixture, in the space that was fitted.
    pub components: Vec<ComponentSummary>,
    /// The parameters on the user's own scale.
    pub parameters: Vec<Parameter>,
    /// What was fitted, in words and numbers.
    pub model: ModelSummary,
    /// Evaluations of the target.
    pub evals: Evals,
    /// Iterations.
    pub iterations: u64,
    /// Seconds.
    pub seconds: f64,
    /// Why the run ended.
    pub stop: StopSummary,
    /// Seed.
    pub seed: u64,
    /// Version of natmix.
    pub version: String,
    /// Every setting, resolved.
    pub config: serde_json::Value,
    /// Scores on the training data, for models with data.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub train: Option<Scores>,
    /// Scores on the test data.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test: Option<Scores>,
    /// Scores on the validation rows of a network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation: Option<Scores>,
    /// How well out-of-distribution rows are detected.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ood: Option<Ood>,
    /// Leave-one-out cross-validation by importance sampling.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loo: Option<Loo>,
    /// Statistics of the data and of data drawn from the fitted model, for regressions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub model_checks: Vec<ModelCheck>,
    /// The distribution of the outcome in the data and in data drawn from the fitted model, for regressions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome_check: Option<OutcomeCheck>,
    /// Predicted classes beside those that came, for regressions of classes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class_predictions: Option<ClassPredictions>,
    /// The coefficients of groups beside those that each group has alone, for regressions with varying effects.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub group_estimates: Vec<GroupEstimates>,
    /// Survival in the data and in data drawn from the fitted model, for regressions of times.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub survival_check: Option<SurvivalCheck>,
    /// The expected outcome as one column varies, for regressions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub conditional_effects: Vec<ConditionalEffect>,
    /// Remarks on the model and its data, each with a remedy. They are not about the fit and do not change the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub model_notes: Vec<String>,
}

/// Whether to trust the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictSummary {
    /// Whether to trust it; `None` if nothing was measured that could tell.
    pub trusted: Option<bool>,
    /// One sentence: what was fitted, how many modes it has, and whether to trust it.
    pub sentence: String,
    /// Reasons against trusting it, each with a remedy to try.
    pub reasons: Vec<String>,
    /// Remarks that do not count against it.
    pub notes: Vec<String>,
}

/// Which draws a fit delivers, and how accurate they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerSummary {
    /// Whether they are those of the mixture, have weights, or cannot be relied on.
    pub level: natmix::answer::level::Level,
    /// Number of draws.
    pub draws: usize,
    /// Effective number of draws; with chains, of the parameter that has fewest.
    #[serde(with = "nullable")]
    pub ess: f64,
    /// Largest R-hat of a parameter, if chains delivered the draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_hat: Option<f64>,
    /// About the chains, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chains: Option<ChainsSummary>,
    /// Lower bound for the share of the mass that lies beside the mixture, if it was sought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_mass: Option<ReportedEstimate>,
    /// One entry per parameter, if measured.
    pub accuracy: Vec<AccuracySummary>,
}

/// Chains that finished a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainsSummary {
    /// Number of chains.
    pub count: usize,
    /// Chains that have started at one point.
    pub per_start: usize,
    /// Iterations of each that were kept.
    pub iterations: usize,
    /// Share of trajectories that diverged.
    #[serde(with = "nullable")]
    pub diverged: f64,
    /// Whether their draws are those that the fit delivers.
    pub delivered: bool,
}

/// Estimated errors of the draws of one parameter, each with its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccuracySummary {
    /// Name of the parameter.
    pub name: String,
    /// Of the worst quantile, as a share of the distance from the 5% to the 95% quantile.
    pub quantile: ReportedEstimate,
    /// Of the mean, in standard deviations.
    pub mean: ReportedEstimate,
    /// Of the standard deviation, relative to it.
    pub sd: ReportedEstimate,
    /// Effective number of draws for the mean.
    #[serde(with = "nullable")]
    pub ess: f64,
    /// Whether the tails are so heavy that mean and standard deviation do not count.
    pub heavy_tails: bool,
    /// Whether all errors that count are within their limits.
    pub holds: bool,
}

/// An estimate with its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportedEstimate {
    /// The estimate.
    #[serde(with = "nullable")]
    pub mean: f64,
    /// Its standard error.
    #[serde(with = "nullable")]
    pub se: f64,
}

/// One component of the mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComponentSummary {
    /// Weight.
    pub weight: f64,
    /// Mean, in the space that was fitted.
    pub mean: Vec<f64>,
    /// Standard deviations, in the space that was fitted.
    pub sd: Vec<f64>,
}

/// One parameter on the user's own scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Posterior mean.
    pub mean: f64,
    /// Posterior standard deviation.
    pub sd: f64,
    /// 5% quantile.
    pub q05: f64,
    /// Median.
    pub q50: f64,
    /// 95% quantile.
    pub q95: f64,
    /// R-hat, if chains delivered the draws: how far the chains are from agreeing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_hat: Option<f64>,
    /// Effective draws, if chains delivered them: the fewest for the mean and the quantiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ess: Option<f64>,
}

impl Parameter {
    /// What its numbers are rounded by: the standard deviation, or that of a normal distribution with the same middle 90% where long
    /// tails make it larger.
    pub fn spread(&self) -> f64 {
        let middle = (self.q95 - self.q05) / 3.29;
        if middle > 0.0 { self.sd.min(middle) } else { self.sd }
    }
}

/// What was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// `logistic`, `linear`, `poisson`, `softmax`, `mlp` or `density`.
    pub kind: String,
    /// One line for display: data file, rows, columns.
    pub summary: String,
    /// Rows of the training data, if any.
    pub rows: Option<usize>,
    /// Priors in words, one line each.
    pub priors: Vec<String>,
    /// How the table was read: its columns of text, what was left out or dropped, and what the levels of the outcome mean.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub table: Option<serde_json::Value>,
    /// Which parameters are coefficients and effects of groups, for regressions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub coefficients: Option<Coefficients>,
}

/// Points at which the target was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evals {
    /// While fitting.
    pub points: u64,
    /// For the final diagnostics only.
    pub diagnostics: u64,
    /// For chains that finish the fit.
    #[serde(default)]
    pub chains: u64,
}

impl Evals {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.points + self.diagnostics + self.chains
    }
}

/// Why the run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopSummary {
    /// In one word.
    pub reason: String,
    /// Whether the run came to its own end: the ELBO had converged, or the answer was seen to hold.
    pub converged: bool,
}

/// Scores of predictions on a set of rows; which ones are present depends on the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Rows.
    pub rows: usize,
    /// Weight draws per component that the predictions average over (networks).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub draws: Option<usize>,
    /// Mean negative log predictive density.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nll: Option<f64>,
    /// Share of rows predicted correctly.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accuracy: Option<f64>,
    /// Brier score.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub brier: Option<f64>,
    /// Expected calibration error, 15 bins.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ece: Option<f64>,
    /// Mean probability of the likeliest class (networks): above the accuracy, predictions are overconfident.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confidence: Option<f64>,
    /// The largest such error that chance explains: three standard deviations of the sampling of this many rows, and the
    /// error of the finite number of draws (networks).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ece_limit: Option<f64>,
    /// Share of rows inside the predicted 90% interval (networks that predict numbers).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub coverage: Option<f64>,
    /// Area under the ROC curve.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub auroc: Option<f64>,
    /// Mean entropy of a single draw's prediction, in nats (networks).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected_entropy: Option<f64>,
    /// Mean mutual information of class and weights, in nats (networks).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mutual_information: Option<f64>,
    /// Root mean squared error of the predictive mean.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rmse: Option<f64>,
    /// Calibration, one point per bin: (mean prediction, observed frequency, rows).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub calibration: Vec<(f64, f64, usize)>,
    /// ROC curve: (false positive rate, true positive rate), at most a few hundred points.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub roc: Vec<(f64, f64)>,
    /// Predicted mean and residual of at most a few hundred rows: standardised, or, for regressions of other outcomes than normal ones,
    /// a randomised quantile residual.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub residuals: Vec<(f64, f64)>,
}

/// How well the predictive entropy separates out-of-distribution rows from test rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ood {
    /// Number of out-of-distribution rows.
    pub rows: usize,
    /// Probability that such a row has larger entropy than a test row.
    pub auroc: f64,
    /// False positive rate: share of test rows above the entropy that 95% of such rows exceed.
    #[serde(with = "nullable")]
    pub fpr95: f64,
    /// Like `auroc`, with mutual information instead of entropy.
    #[serde(with = "nullable")]
    pub auroc_mutual_information: f64,
    /// Mean entropy of such rows, in nats.
    pub entropy: f64,
}

/// Leave-one-out cross-validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loo {
    /// Expected log predictive density, summed over rows.
    #[serde(with = "nullable")]
    pub elpd: f64,
    /// Its standard error; not known for a single row.
    #[serde(with = "nullable")]
    pub se: f64,
    /// Effective number of parameters.
    #[serde(with = "nullable")]
    pub p_loo: f64,
    /// Rows whose own k-hat is too large to trust their contribution.
    pub bad_rows: usize,
    /// The largest k-hat of a row.
    #[serde(with = "nullable")]
    pub max_k_hat: f64,
    /// The rows that are too influential, at most 20, those with the largest k-hat first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub influential: Vec<InfluentialRow>,
}

/// A row with much influence on the fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InfluentialRow {
    /// Its number; the first row of the table is 1.
    pub row: usize,
    /// Its k-hat.
    #[serde(with = "nullable")]
    pub k_hat: f64,
}

/// One statistic of the data, and of data sets drawn from the fitted model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCheck {
    /// Its name.
    pub statistic: String,
    /// Its value for the data.
    #[serde(with = "nullable")]
    pub observed: f64,
    /// Mean over the drawn data sets.
    #[serde(with = "nullable")]
    pub mean: f64,
    /// Their 5% quantile.
    #[serde(with = "nullable")]
    pub q05: f64,
    /// Their 95% quantile.
    #[serde(with = "nullable")]
    pub q95: f64,
    /// Share of them with a larger value: near 0 or 1 the model does not reproduce the statistic.
    pub p: f64,
    /// Smallest and largest value.
    pub range: (f64, f64),
    /// Share of the drawn data sets in each of equal parts of that range.
    pub bars: Vec<f64>,
}

/// Draws on the user's own scale, for marginals and pair plots.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// One name per parameter.
    pub names: Vec<String>,
    /// Values, one draw after another.
    pub values: Vec<f64>,
    /// The component that each draw came from.
    pub component: Vec<usize>,
    /// The chains that they are from, if they are: chain after chain.
    pub chains: Option<DeliveredChains>,
}

/// JSON has no NaN: `null` stands for every number that is not finite.
mod nullable {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(x: &f64, s: S) -> Result<S::Ok, S::Error> {
        if x.is_finite() { s.serialize_f64(*x) } else { s.serialize_none() }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(d)?.unwrap_or(f64::NAN))
    }
}
