//! A table with a regression of one of its columns, as fitted by the command line and Python.
//!
//! The posterior is on the scale of the fit (features centred and scaled by default); as a target a study
//! reports its parameters on the user's own scale, and its density is that of the outcome as given.
//!
//! ```
//! use natmix::target::Target;
//! use natmix_models::{DesignOptions, OutcomeKind, Study, Table};
//! let names = ["age", "ill"].map(String::from).to_vec();
//! let table = Table::from_values("memory", names, vec![30.0, 0.0, 50.0, 1.0, 40.0, 1.0]).unwrap();
//! let options = DesignOptions { outcome: Some("ill".into()), ..DesignOptions::default() };
//! let study = Study::new(table, &options, OutcomeKind::Logistic, 2.5, None).unwrap();
//! assert_eq!(study.parameter_names(), ["(intercept)", "age"]);
//! ```

use crate::conditional::{ConditionalEffect, TypicalRow, class_by_class, middle_90, middle_90_of_classes};
use crate::design::{Design, DesignOptions, Encoding, OutcomeKind};
use crate::draws::{CoefficientDraws, Inputs};
use crate::error::DataError;
use crate::formula::{Formula, FormulaError, FormulaOptions, Located};
use crate::observations::{Dataset, Observations};
use crate::predict::average_shares;
use crate::ranks::{About, Disagreement, Ranks, SharedRows};
use crate::regression::{Regression, RegressionKind};
use crate::row_file;
use crate::table::{Table, TableFacts, TableFile};
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Reduction, Rows, Target, TargetError};
use natmix::{Error, Scratch};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Prior standard deviation of the intercept, as a multiple of that of the other coefficients.
const INTERCEPT_PRIOR: f64 = 10.0;

/// A regression with its data; a target whose parameters are on the user's own scale.
#[derive(Clone, Debug)]
pub struct Study {
    /// The regression.
    pub regression: Regression,
    /// How columns became features, to be stored for predictions.
    pub memory: RegressionMemory,
    /// Warnings about the data.
    pub warnings: Vec<String>,
    /// What was found while the table was read, and what the outcome's levels mean.
    pub notes: Vec<String>,
    /// What was found while the table was read.
    pub facts: TableFacts,
    log_scale: f64,
    /// The columns with their typical values.
    typical: TypicalRow,
    reduction: OnceLock<Option<Reduction>>,
}

/// What must be stored with a posterior for predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegressionMemory {
    /// The kind of regression.
    pub kind: RegressionKind,
    /// How columns became features.
    pub encoding: Encoding,
}

impl RegressionMemory {
    /// Writes coefficients on the user's own scale.
    pub fn to_user_scale(&self, z: &[f64], out: &mut [f64]) {
        let noise = usize::from(self.kind == RegressionKind::Linear { noise_sd: None });
        let coefficients = z.len() - noise;
        self.encoding.to_user_scale(&z[..coefficients], &mut out[..coefficients]);
        if noise == 1 {
            let scale = self.encoding.outcome.as_ref().map_or(1.0, |outcome| outcome.scale);
            out[coefficients] = z[coefficients].exp() * scale;
        }
    }
}

/// Why a regression cannot be fitted to a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A problem with the table.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A problem with the formula.
    #[error(transparent)]
    Formula(#[from] Box<Located>),
    /// A problem with the regression.
    #[error(transparent)]
    Model(#[from] Error),
    /// The processes that share the table cannot begin.
    #[error(transparent)]
    Ranks(#[from] Disagreement),
}

impl From<FormulaError> for StudyError {
    fn from(error: FormulaError) -> Self {
        match error {
            FormulaError::Formula(error) => error.into(),
            FormulaError::Data(error) => error.into(),
        }
    }
}

impl Study {
    /// Encodes the table and prepares the regression of its outcome. `prior_sd` applies to the columns as they are fitted;
    /// the intercept's is ten times that. `noise_sd` is for linear regressions with known noise.
    pub fn new(
        table: Table,
        options: &DesignOptions,
        outcome: OutcomeKind,
        prior_sd: f64,
        noise_sd: Option<f64>,
    ) -> Result<Self, StudyError> {
        let design = Design::new(table, &with_outcome(options, outcome, noise_sd))?;
        Self::of_design(design, outcome, prior_sd, noise_sd)
    }

    /// The same for a formula without varying effects and smooths.
    pub fn by_formula(
        table: &Table,
        formula: &Formula,
        options: &FormulaOptions,
        standardize: bool,
        outcome: OutcomeKind,
        prior_sd: f64,
        noise_sd: Option<f64>,
    ) -> Result<Self, StudyError> {
        let standardize_outcome = standardizes_outcome(standardize, outcome, noise_sd);
        let design = Design::of_formula(table, formula, options, standardize, standardize_outcome)?;
        Self::of_design(design, outcome, prior_sd, noise_sd)
    }

    /// Keeps the rows of this process, where processes have read the same table and agreed on it.
    pub fn share(self, ranks: &Arc<Ranks>, prior_sd: f64) -> Result<Self, StudyError> {
        let Dataset::Memory(table) = self.regression.data() else { return Ok(self) };
        let (rows, names) = (table.rows(), table.names().to_vec());
        let has = (table.offset().is_some(), table.weights().is_some());
        let own: Vec<usize> = SharedRows::share(ranks, rows).collect();
        let own = (!own.is_empty()).then(|| table.take(&own));
        let shared = SharedRows::new(ranks.clone(), own, rows, names, has)?;
        let Self { memory, warnings, facts, typical, .. } = self;
        Self::of_data(shared.into(), memory.kind, memory.encoding, (warnings, facts, typical), prior_sd)
    }

    fn of_design(
        design: Design,
        outcome: OutcomeKind,
        prior_sd: f64,
        noise_sd: Option<f64>,
    ) -> Result<Self, StudyError> {
        let classes = design.check_outcome(outcome)?;
        let Design { names, dim, x, outcome: y, offset, weights, encoding, warnings, facts, typical, .. } = design;
        let mut observations = Observations::new(x, dim, y)?.with_names(names)?;
        if let Some(offset) = offset {
            observations = observations.with_offset(offset)?;
        }
        if let Some(weights) = weights {
            observations = observations.with_weights(weights)?;
        }
        let kind = kind_of(outcome, classes, noise_sd);
        Self::of_data(observations.into(), kind, encoding, (warnings, facts, typical), prior_sd)
    }

    /// The same for a table that stays on disk: its rows are encoded into an unlinked file in `folder`.
    pub fn stored(
        file: &TableFile,
        folder: &Path,
        options: &DesignOptions,
        outcome: OutcomeKind,
        prior_sd: f64,
        noise_sd: Option<f64>,
    ) -> Result<Self, StudyError> {
        let (encoding, warnings) = file.encoding(&with_outcome(options, outcome, noise_sd))?;
        let (rows, classes) = file.store(&encoding, outcome, folder)?;
        let found = (warnings, file.facts().clone(), file.typical(&encoding));
        Self::of_data(rows.into(), kind_of(outcome, classes, noise_sd), encoding, found, prior_sd)
    }

    /// The same for a table that several processes share: each calls this, and keeps its own rows. `settings` are words about
    /// everything else that must be the same for all of them.
    pub fn shared(
        file: &TableFile,
        ranks: &Arc<Ranks>,
        settings: &str,
        options: &DesignOptions,
        outcome: OutcomeKind,
        prior_sd: f64,
        noise_sd: Option<f64>,
    ) -> Result<Self, StudyError> {
        let (encoding, warnings) = file.encoding(&with_outcome(options, outcome, noise_sd))?;
        let (own, classes) = file.keep(&encoding, outcome, ranks)?;
        let rows = format!("{} rows, {classes} classes, {encoding:?}", file.rows());
        let about = About { settings: settings.into(), columns: encoding.columns(), rows };
        ranks.agree(Ok(&about))?;
        let rows = SharedRows::new(ranks.clone(), own, file.rows(), encoding.names(), row_file::has(&encoding))?;
        let found = (warnings, file.facts().clone(), file.typical(&encoding));
        Self::of_data(rows.into(), kind_of(outcome, classes, noise_sd), encoding, found, prior_sd)
    }

    fn of_data(
        data: Dataset,
        kind: RegressionKind,
        encoding: Encoding,
        (warnings, facts, typical): (Vec<String>, TableFacts, TypicalRow),
        prior_sd: f64,
    ) -> Result<Self, StudyError> {
        let of_intercept = |j: usize| if j == 0 && encoding.intercept { INTERCEPT_PRIOR } else { 1.0 };
        let prior_sd: Vec<f64> = (0..encoding.dim()).map(|j| prior_sd * of_intercept(j)).collect();
        let mut regression = Regression::new(kind, data, &prior_sd)?;
        let levels = encoding.outcome.as_ref().and_then(|outcome| outcome.levels.clone());
        if let (RegressionKind::Softmax { .. }, Some(levels)) = (kind, levels) {
            regression = regression.with_class_names(levels)?;
        }
        let scale = encoding.outcome.as_ref().map_or(1.0, |outcome| outcome.scale);
        let log_scale = if scale == 1.0 { 0.0 } else { -scale.ln() * total_weight(regression.data())? };
        let outcome = encoding.outcome.as_ref();
        let mut notes = facts.notes(outcome.map(|outcome| outcome.column.as_str()));
        notes.extend(outcome.and_then(|outcome| outcome.classes_in_words(kind)));
        let (memory, reduction) = (RegressionMemory { kind, encoding }, OnceLock::new());
        Ok(Self { regression, memory, warnings, notes, facts, log_scale, typical, reduction })
    }

    /// What the outcome is expected to be as one column varies, for at most `most` columns, in its own units: for a softmax the
    /// probability of each class.
    pub fn conditional_effects(
        &self,
        draws: &CoefficientDraws,
        most: usize,
    ) -> Result<Vec<ConditionalEffect>, StudyError> {
        let (kind, encoding) = (self.memory.kind, &self.memory.encoding);
        let (centre, scale) = encoding.outcome.as_ref().map_or((0.0, 1.0), |outcome| (outcome.centre, outcome.scale));
        let mean = |eta: f64| match kind {
            RegressionKind::Logistic => 1.0 / (1.0 + (-eta).exp()),
            RegressionKind::Poisson => eta.exp(),
            _ => centre + scale * eta,
        };
        let classes = if let RegressionKind::Softmax { classes } = kind { classes } else { 1 };
        self.typical.effects(most, |table| {
            let rows = encoding.encode(table)?;
            let inputs = Inputs::new(&rows.x, rows.dim, rows.offset.as_deref())?;
            let mut expected = vec![0.0; 3 * classes * rows.rows];
            draws.for_rows(inputs, 3 * classes, &mut expected, |_, eta, out| {
                if classes == 1 {
                    eta.iter_mut().for_each(|eta| *eta = mean(*eta));
                    out.copy_from_slice(&middle_90(eta));
                    return;
                }
                let mut of_draws = vec![0.0; classes * (eta.len() / (classes - 1))];
                for (eta, of_draw) in eta.chunks_exact(classes - 1).zip(of_draws.chunks_exact_mut(classes)) {
                    average_shares(eta, of_draw);
                }
                middle_90_of_classes(&of_draws, classes, out);
            })?;
            Ok(class_by_class(&expected, classes))
        })
    }

    /// Difference between the log density of the outcomes as given and that of the outcomes as fitted.
    pub fn log_scale(&self) -> f64 {
        self.log_scale
    }
}

fn total_weight(data: &Dataset) -> Result<f64, Error> {
    let mut total = 0.0;
    let totals = [std::slice::from_mut(&mut total)];
    data.sum(Rows::All, None, totals, &mut Scratch::default(), |block, [total], _| total[0] += block.total_weight())?;
    Ok(total)
}

/// Outcomes with unknown noise are standardised if the features are.
fn with_outcome(options: &DesignOptions, outcome: OutcomeKind, noise_sd: Option<f64>) -> DesignOptions {
    let standardize_outcome = standardizes_outcome(options.standardize, outcome, noise_sd);
    DesignOptions { standardize_outcome, ..options.clone() }
}

fn standardizes_outcome(standardize: bool, outcome: OutcomeKind, noise_sd: Option<f64>) -> bool {
    standardize && outcome == OutcomeKind::Linear && noise_sd.is_none()
}

fn kind_of(outcome: OutcomeKind, classes: usize, noise_sd: Option<f64>) -> RegressionKind {
    match outcome {
        OutcomeKind::Logistic => RegressionKind::Logistic,
        OutcomeKind::Poisson => RegressionKind::Poisson,
        OutcomeKind::Softmax => RegressionKind::Softmax { classes },
        OutcomeKind::Linear => RegressionKind::Linear { noise_sd },
    }
}

/// A target whose log density differs by a constant.
struct Shifted {
    target: Arc<dyn Target + Send>,
    by: f64,
}

impl Target for Shifted {
    fn dim(&self) -> usize {
        self.target.dim()
    }
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        eval_shifted(&*self.target, self.by, (rows, z), out, scratch)
    }
    fn is_log_concave(&self) -> bool {
        self.target.is_log_concave()
    }
    fn gradient_is_tested(&self) -> bool {
        self.target.gradient_is_tested()
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        self.target.curvatures()
    }
    fn num_rows(&self) -> Option<usize> {
        self.target.num_rows()
    }
}

fn eval_shifted(
    target: &dyn Target,
    by: f64,
    (rows, z): (Rows<'_>, Points<'_>),
    out: EvalOut<'_>,
    scratch: &mut Scratch,
) -> Result<(), TargetError> {
    let EvalOut { log_p, grad, curv } = out;
    target.eval(rows, z, EvalOut { log_p: &mut *log_p, grad, curv }, scratch)?;
    log_p.iter_mut().for_each(|log_p| *log_p += by);
    Ok(())
}

impl Target for Study {
    fn dim(&self) -> usize {
        self.regression.target().dim()
    }
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        eval_shifted(self.regression.target(), self.log_scale, (rows, z), out, scratch)
    }
    fn reduction(&self) -> Option<&Reduction> {
        let shifted = || {
            let Reduction { target, subspace } = self.regression.target().reduction()?.clone();
            Some(Reduction { target: Arc::new(Shifted { target, by: self.log_scale }), subspace })
        };
        self.reduction.get_or_init(shifted).as_ref()
    }
    fn is_log_concave(&self) -> bool {
        self.regression.target().is_log_concave()
    }
    fn gradient_is_tested(&self) -> bool {
        self.regression.target().gradient_is_tested()
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        self.regression.target().curvatures()
    }
    fn num_rows(&self) -> Option<usize> {
        self.regression.target().num_rows()
    }
    fn parameter_names(&self) -> Vec<String> {
        self.regression.target().parameter_names()
    }
    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.memory.to_user_scale(z, parameters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a single draw the expectation is the predictor of rows that differ in one column, with and without a formula.
    #[test]
    fn one_column_varies_and_the_others_stay() {
        let names = ["y", "x", "kind", "years"].map(String::from).to_vec();
        let row = |i: usize| [(i % 5) as f64, i as f64, (i % 3) as f64, 1.0 + (i % 2) as f64];
        let mut table = Table::from_values("memory", names, (0..12).flat_map(row).collect()).unwrap();
        table.levels.insert(2, ["a", "b", "c"].map(String::from).to_vec());
        let options =
            DesignOptions { outcome: Some("y".into()), exposure: Some("years".into()), ..DesignOptions::default() };
        let formula = Formula::parse("y ~ x + kind + offset(log(years))").unwrap();
        let kind = OutcomeKind::Poisson;
        let studies = [
            Study::new(table.clone(), &options, kind, 2.5, None).unwrap(),
            Study::by_formula(&table, &formula, &FormulaOptions::default(), true, kind, 2.5, None).unwrap(),
        ];
        for study in studies {
            let z: Vec<f64> = (0..study.dim()).map(|j| 0.3 - 0.2 * j as f64).collect();
            let mut own = vec![0.0; z.len()];
            study.to_parameters(&z, &mut own);
            let at = |name: &str| study.parameter_names().iter().position(|other| other == name).unwrap();
            let draws = CoefficientDraws::new(study.memory.kind, z.len(), &z).unwrap();
            let mut effects = study.conditional_effects(&draws, 10).unwrap();
            effects.sort_by(|one, other| one.column.cmp(&other.column));
            assert_eq!(effects.iter().map(|effect| effect.column.as_str()).collect::<Vec<_>>(), ["kind", "x"]);
            let expected = |x: f64, shift: f64| 1.5 * (own[0] + x * own[at("x")] + shift).exp();
            assert_eq!(effects[0].levels.as_deref().unwrap(), ["a", "b", "c"]);
            assert!((effects[0].expected[0][2][1] / expected(5.5, own[at("kind=c")]) - 1.0).abs() < 1e-12);
            assert_eq!((effects[1].values.len(), effects[1].values[40]), (41, 11.0));
            assert!((effects[1].expected[0][40][1] / expected(11.0, 0.0) - 1.0).abs() < 1e-12);
            assert_eq!(study.conditional_effects(&draws, 1).unwrap().len(), 1);
        }
    }

    /// Two draws of a softmax: at each the probabilities of the classes are those of its predictors.
    #[test]
    fn classes_have_their_probabilities() {
        let names = ["way", "x"].map(String::from).to_vec();
        let mut table =
            Table::from_values("memory", names, (0..9).flat_map(|i| [(i % 3) as f64, i as f64]).collect()).unwrap();
        table.levels.insert(0, ["bus", "car", "train"].map(String::from).to_vec());
        let options = DesignOptions { outcome: Some("way".into()), ..DesignOptions::default() };
        let study = Study::new(table, &options, OutcomeKind::Softmax, 2.5, None).unwrap();
        let z = [0.3, -0.8, 0.5, 0.2, -0.4, 1.1, 0.0, 0.6];
        let draws = CoefficientDraws::new(study.memory.kind, 2, &z).unwrap();
        let effects = study.conditional_effects(&draws, 10).unwrap();
        let [x] = &effects[..] else { panic!("one column") };
        assert_eq!((x.column.as_str(), x.expected.len(), x.expected[0].len()), ("x", 3, 41));
        let shares = |z: &[f64]| {
            let mut own = [0.0; 4];
            study.to_parameters(z, &mut own);
            let at = [0.0, own[0] + 8.0 * own[1], own[2] + 8.0 * own[3]].map(f64::exp);
            at.map(|share| share / at.iter().sum::<f64>())
        };
        let (one, other) = (shares(&z[..4]), shares(&z[4..]));
        for class in 0..3 {
            let [low, _, high] = x.expected[class][40];
            assert!(
                (low - one[class].min(other[class])).abs() < 1e-12
                    && (high - one[class].max(other[class])).abs() < 1e-12
            );
        }
    }

    /// Outcomes ten times as large have a density `10^-n` times as large, at the same coefficients on the scale of the fit.
    #[test]
    fn the_density_is_that_of_the_outcome_as_given() {
        let log_p = |factor: f64, shift: f64| {
            let rows = [[0.3, 1.2, 2.0], [1.1, -0.7, 1.0], [-0.4, 0.2, 3.0], [2.0, 3.1, 0.5]];
            let values = rows.iter().flat_map(|[x, y, w]| [*x, factor * y + shift, *w]).collect();
            let names = ["x", "y", "w"].map(String::from).to_vec();
            let table = Table::from_values("memory", names, values).unwrap();
            let options =
                DesignOptions { outcome: Some("y".into()), weights: Some("w".into()), ..DesignOptions::default() };
            let study = Study::new(table, &options, OutcomeKind::Linear, 2.5, None).unwrap();
            let (z, mut log_p) = (vec![0.1; study.dim()], [0.0]);
            let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
            study.eval(Rows::All, Points::new(&z, z.len()), out, &mut Scratch::default()).unwrap();
            log_p[0]
        };
        assert!((log_p(10.0, 3.0) - log_p(1.0, 0.0) + 6.5 * 10f64.ln()).abs() < 1e-9);
    }
}
