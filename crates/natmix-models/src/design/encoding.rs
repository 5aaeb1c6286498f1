//! How columns are encoded: enough to encode new rows, and to report coefficients on the user's scale.
//!
//! With features `x_j = (v_j - c_j)/s_j` and outcome `y = (u - c)/s` a linear predictor `z_0 + sum z_j x_j` on the fitted scale is
//! `b_0 + sum b_j v_j` on the user's, with `b_j = s z_j/s_j` and `b_0 = c + s z_0 - sum b_j c_j`.

use super::DesignOptions;
use crate::conditional::TypicalRow;
use crate::error::{DataError, Names, shown};
use crate::formula::FormulaFeatures;
use crate::regression::RegressionKind;
use crate::table::moments::Summary;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// Name of the intercept among the coefficients.
pub const INTERCEPT: &str = "(intercept)";

/// How the columns of a table become the columns of a design, and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    /// Whether the first coefficient is an intercept.
    pub intercept: bool,
    /// The features in the order of their coefficients.
    pub features: Vec<Feature>,
    /// What makes the columns instead of `features`, offset and weights, if the model was given by a formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<Box<FormulaFeatures>>,
    /// The outcome column.
    pub outcome: Option<OutcomeColumn>,
    /// Column added to the linear predictor.
    pub offset: Option<String>,
    /// Column whose logarithm is added to the linear predictor.
    pub exposure: Option<String>,
    /// Column of row weights.
    pub weights: Option<String>,
    /// Columns that were left out of the fit on request: new rows may have them. A formula says itself what it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A column that is a feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Name of the column.
    pub column: String,
    /// How it is encoded.
    pub coding: Coding,
}

/// How a feature is encoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Coding {
    /// One column, `(value - centre)/scale`.
    Number {
        /// Subtracted from the value.
        centre: f64,
        /// Divisor of the difference.
        scale: f64,
    },
    /// One 0/1 column per level.
    Levels {
        /// The levels, the reference first.
        levels: Vec<String>,
        /// Whether the first level has no column, because the intercept represents it.
        first_dropped: bool,
    },
}

/// The outcome column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeColumn {
    /// Name of the column.
    pub column: String,
    /// Its levels, if it is categorical: the outcome is then the index of the level.
    pub levels: Option<Vec<String>>,
    /// Subtracted for the fit.
    pub centre: f64,
    /// Divisor of the difference.
    pub scale: f64,
}

/// Information about the columns of a table that decides how they are encoded.
pub(super) struct Columns<'a> {
    pub file: &'a Path,
    pub names: &'a [String],
    pub rows: usize,
    pub levels: &'a BTreeMap<usize, Vec<String>>,
    pub summaries: &'a [Summary],
    /// Columns of the file that are not used.
    pub left_out: &'a [String],
}

impl Columns<'_> {
    /// The columns of a design with their typical values.
    pub(super) fn typical(&self, encoding: &Encoding) -> TypicalRow {
        let columns = self.names.iter().zip(self.summaries).enumerate();
        TypicalRow::of_design(encoding, columns.map(|(j, (name, summary))| (name, summary, self.levels.get(&j))))
    }
}

impl Encoding {
    /// The columns of the table that it reads, the outcome first; those of the design if a formula makes it.
    pub fn columns(&self) -> Vec<String> {
        let outcome = self.outcome.iter().map(|outcome| outcome.column.clone());
        let roles = [&self.offset, &self.exposure, &self.weights].into_iter().flatten().cloned();
        match self.formula {
            Some(_) => outcome.chain(self.names()).collect(),
            None => outcome.chain(self.features.iter().map(|feature| feature.column.clone())).chain(roles).collect(),
        }
    }

    pub(super) fn new(columns: &Columns, options: &DesignOptions) -> Result<(Self, Vec<String>), DataError> {
        let file = || columns.file.to_path_buf();
        let bad = |problem: &str| Err(DataError::BadTable { file: file(), problem: problem.into() });
        if columns.rows == 0 {
            return Err(DataError::NoRows { file: file() });
        }
        if columns.rows == 1 && (options.standardize || options.standardize_outcome) {
            return bad(
                "there is only one row, so columns cannot be standardised (use --no-standardize, or more rows)",
            );
        }
        let used = columns.roles(options)?;
        let mut warnings = Vec::new();
        let mut features = Vec::new();
        for (j, name) in columns.names.iter().enumerate().filter(|(j, _)| !used.contains(j)) {
            let coding = match columns.levels.get(&j) {
                Some(levels) => {
                    if let [only] = levels.as_slice() {
                        warnings.push(format!(
                            "column `{name}` has only one level, `{}`: it explains nothing",
                            shown(only.as_bytes())
                        ));
                    }
                    Coding::Levels { levels: levels.clone(), first_dropped: options.intercept }
                }
                None => {
                    let constant = columns.summaries[j].min == columns.summaries[j].max;
                    if constant {
                        let value = columns.summaries[j].min;
                        warnings
                            .push(format!("column `{name}` is always {value}: it explains nothing, and is not scaled"));
                    }
                    let (centre, scale) = columns.centre_and_scale(j, options.standardize, options.intercept)?;
                    Coding::Number { centre, scale }
                }
            };
            features.push(Feature { column: name.clone(), coding });
        }
        let mut outcome = None;
        if let Some(name) = &options.outcome {
            let j = columns.find(name, "the outcome")?;
            let levels = columns.levels.get(&j).cloned();
            let (centre, scale) = match (&levels, options.standardize_outcome) {
                (Some(_), true) => {
                    let problem = "is categorical, so it cannot be standardised as the outcome".into();
                    return Err(DataError::BadColumn { file: file(), column: name.clone(), problem });
                }
                (_, standardize) => columns.centre_and_scale(j, standardize, options.intercept)?,
            };
            outcome = Some(OutcomeColumn { column: name.clone(), levels, centre, scale });
        }
        let encoding = Encoding {
            intercept: options.intercept,
            features,
            formula: None,
            outcome,
            offset: options.offset.clone(),
            exposure: options.exposure.clone(),
            weights: options.weights.clone(),
            left_out: columns.left_out.to_vec(),
        };
        if encoding.dim() == 0 {
            return bad(
                "no column is left as a feature and there is no intercept (add a column, or leave out --no-intercept)",
            );
        }
        let mut seen = HashSet::new();
        if let Some(twice) = encoding.names().into_iter().find(|name| !seen.insert(name.clone())) {
            return bad(&format!("two coefficients would be named `{}` (rename a column)", shown(twice.as_bytes())));
        }
        Ok((encoding, warnings))
    }

    /// Number of coefficients.
    pub fn dim(&self) -> usize {
        if let Some(formula) = &self.formula {
            return formula.encoding.dim();
        }
        usize::from(self.intercept) + self.features.iter().map(Feature::width).sum::<usize>()
    }

    /// Names of the coefficients.
    pub fn names(&self) -> Vec<String> {
        if let Some(formula) = &self.formula {
            return formula.encoding.names();
        }
        let mut names = Vec::with_capacity(self.dim());
        names.extend(self.intercept.then(|| INTERCEPT.to_string()));
        for Feature { column, coding } in &self.features {
            match coding {
                Coding::Number { .. } => names.push(column.clone()),
                Coding::Levels { levels, first_dropped } => {
                    names.extend(
                        levels.iter().skip(usize::from(*first_dropped)).map(|level| format!("{column}={level}")),
                    );
                }
            }
        }
        names
    }

    /// Converts coefficients from the scale of the fit to the scale of the table.
    ///
    /// The slices hold one block of coefficients, or several in sequence (one per class). Blocks for classes are contrasts
    /// of linear predictors, so a centred outcome makes sense with a single block only.
    ///
    /// # Panics
    /// If the lengths differ or are not a multiple of the number of coefficients.
    pub fn to_user_scale(&self, z: &[f64], out: &mut [f64]) {
        let (centre, scale) = self.outcome.as_ref().map_or((0.0, 1.0), |outcome| (outcome.centre, outcome.scale));
        self.for_each_block(z, out, |z, out, slopes| {
            let mut shift = 0.0;
            for (at, feature_centre, feature_scale) in slopes {
                out[at] = scale * z[at] / feature_scale;
                shift += out[at] * feature_centre;
            }
            if self.intercept {
                out[0] = centre + scale * z[0] - shift;
            }
        });
    }

    /// The inverse of [`Encoding::to_user_scale`].
    ///
    /// # Panics
    /// If the lengths differ or are not a multiple of the number of coefficients.
    pub fn to_fitted_scale(&self, user: &[f64], out: &mut [f64]) {
        let (centre, scale) = self.outcome.as_ref().map_or((0.0, 1.0), |outcome| (outcome.centre, outcome.scale));
        self.for_each_block(user, out, |user, out, slopes| {
            let mut shift = 0.0;
            for (at, feature_centre, feature_scale) in slopes {
                out[at] = user[at] * feature_scale / scale;
                shift += user[at] * feature_centre;
            }
            if self.intercept {
                out[0] = (user[0] + shift - centre) / scale;
            }
        });
    }

    fn for_each_block<F>(&self, from: &[f64], to: &mut [f64], mut map: F)
    where
        F: FnMut(&[f64], &mut [f64], &mut dyn Iterator<Item = (usize, f64, f64)>),
    {
        let dim = self.dim();
        assert!(from.len() == to.len() && from.len().is_multiple_of(dim), "{} and {} for {dim}", from.len(), to.len());
        let first = usize::from(self.intercept);
        for (from, to) in from.chunks_exact(dim).zip(to.chunks_exact_mut(dim)) {
            if let Some(formula) = &self.formula {
                let slope = |column| {
                    let (centre, scale) = formula.centre_and_scale(column);
                    (column, centre, scale)
                };
                map(from, to, &mut (first..dim).map(slope));
                continue;
            }
            let slopes = self.features.iter().flat_map(|feature| {
                let (centre, scale) = match feature.coding {
                    Coding::Number { centre, scale } => (centre, scale),
                    Coding::Levels { .. } => (0.0, 1.0),
                };
                std::iter::repeat_n((centre, scale), feature.width())
            });
            map(from, to, &mut slopes.enumerate().map(|(i, (centre, scale))| (first + i, centre, scale)));
        }
    }

    /// Checks an encoding read from a file: finite centres, positive scales, distinct levels and columns.
    pub fn check(&self) -> Result<(), DataError> {
        let bad = |problem: String| Err(DataError::BadEncoding { problem });
        let sane = |centre: f64, scale: f64| centre.is_finite() && scale.is_finite() && scale > 0.0;
        let distinct = |levels: &[String]| levels.iter().collect::<HashSet<_>>().len() == levels.len();
        if let Some(formula) = &self.formula {
            formula.encoding.check()?;
            let others = [&self.offset, &self.exposure, &self.weights];
            if !self.features.is_empty() || others.iter().any(|other| other.is_some()) {
                return bad("it has both a formula and columns of its own".into());
            }
            if formula.encoding.intercept != self.intercept || !formula.encoding.groupings.is_empty() {
                return bad("its formula has other coefficients than it says".into());
            }
        }
        for feature in &self.features {
            let fine = match &feature.coding {
                Coding::Number { centre, scale } => sane(*centre, *scale),
                Coding::Levels { levels, first_dropped } => {
                    distinct(levels) && !levels.is_empty() && *first_dropped == self.intercept
                }
            };
            if !fine {
                return bad(format!(
                    "column `{}` has invalid levels, centre or scale",
                    shown(feature.column.as_bytes())
                ));
            }
        }
        let fine = |o: &OutcomeColumn| sane(o.centre, o.scale) && o.levels.as_deref().is_none_or(distinct);
        if let Some(OutcomeColumn { column, .. }) = self.outcome.as_ref().filter(|outcome| !fine(outcome)) {
            return bad(format!("outcome `{}` has invalid levels, centre or scale", shown(column.as_bytes())));
        }
        let special = [&self.offset, &self.exposure, &self.weights].into_iter().flatten();
        let mut all =
            self.features.iter().map(|f| &f.column).chain(self.outcome.iter().map(|o| &o.column)).chain(special);
        let mut seen = HashSet::new();
        if let Some(twice) = all.find(|name| !seen.insert(*name)) {
            return bad(format!("column `{}` occurs twice", shown(twice.as_bytes())));
        }
        if self.dim() == 0 {
            return bad("it has no coefficient".into());
        }
        Ok(())
    }

    /// Every column that is of use for new rows, and its levels if it is categorical.
    pub(super) fn wanted(&self) -> HashMap<&str, Option<&[String]>> {
        if let Some(formula) = &self.formula {
            return formula.encoding.wanted();
        }
        let special = [&self.offset, &self.exposure, &self.weights].into_iter().flatten();
        let features = self.features.iter().map(|feature| match &feature.coding {
            Coding::Levels { levels, .. } => (feature.column.as_str(), Some(&levels[..])),
            Coding::Number { .. } => (feature.column.as_str(), None),
        });
        let outcome = self.outcome.iter().map(|outcome| (outcome.column.as_str(), outcome.levels.as_deref()));
        special.map(|name| (name.as_str(), None)).chain(outcome).chain(features).collect()
    }
}

impl OutcomeColumn {
    /// Which of its levels a regression gives the probability of, or compares the others with.
    pub fn classes_in_words(&self, kind: RegressionKind) -> Option<String> {
        let column = shown(self.column.as_bytes());
        match (kind, self.levels.as_deref()?) {
            (RegressionKind::Logistic, [negative, positive]) => {
                let [negative, positive] = [negative, positive].map(|level| shown(level.as_bytes()));
                Some(format!(
                    "outcome `{column}`: `{positive}` is the positive class, `{negative}` the other (--reference {column}={positive} \
                     exchanges them)"
                ))
            }
            (RegressionKind::Softmax { .. }, [reference, ..]) => {
                let reference = shown(reference.as_bytes());
                Some(format!(
                    "outcome `{column}`: `{reference}` is the reference class (--reference {column}=CLASS chooses another)"
                ))
            }
            _ => None,
        }
    }
}

impl Feature {
    /// Number of its coefficients.
    pub fn width(&self) -> usize {
        match &self.coding {
            Coding::Number { .. } => 1,
            Coding::Levels { levels, first_dropped } => levels.len().saturating_sub(usize::from(*first_dropped)),
        }
    }
}

impl Columns<'_> {
    fn find(&self, name: &str, role: &'static str) -> Result<usize, DataError> {
        self.names.iter().position(|other| other == name).ok_or_else(|| DataError::UnknownColumn {
            file: self.file.into(),
            column: shown(name.as_bytes()),
            role,
            columns: Names(self.names.to_vec()),
        })
    }

    /// Positions of the columns that have another role, so are not features.
    fn roles(&self, options: &DesignOptions) -> Result<HashSet<usize>, DataError> {
        let wanted = [
            (&options.outcome, "the outcome"),
            (&options.offset, "the offset"),
            (&options.exposure, "the exposure"),
            (&options.weights, "the weights"),
        ];
        let mut roles: HashMap<usize, &str> = HashMap::new();
        for (name, role) in wanted {
            let Some(name) = name else { continue };
            let at = self.find(name, role)?;
            let bad = |problem| Err(DataError::BadColumn { file: self.file.into(), column: name.clone(), problem });
            if let Some(other) = roles.insert(at, role) {
                return bad(format!("cannot be both {other} and {role} (name another column)"));
            }
            if role != "the outcome" && self.levels.contains_key(&at) {
                return bad(format!("is categorical, but {role} must be numbers"));
            }
            if role == "the weights" && self.summaries[at].max <= 0.0 {
                return bad("has no positive value, so as weights it leaves no row".into());
            }
        }
        Ok(roles.into_keys().collect())
    }

    fn centre_and_scale(&self, j: usize, standardize: bool, centre: bool) -> Result<(f64, f64), DataError> {
        if !standardize {
            return Ok((0.0, 1.0));
        }
        let Summary { mean, sd, min, max } = self.summaries[j];
        if min == max {
            return Ok((if centre { min } else { 0.0 }, 1.0));
        }
        if !(mean.is_finite() && sd.is_finite() && sd >= f64::MIN_POSITIVE) {
            let problem =
                "has values too large or too small to be standardised (change its unit, or use --no-standardize)";
            return Err(DataError::BadColumn {
                file: self.file.into(),
                column: self.names[j].clone(),
                problem: problem.into(),
            });
        }
        Ok((if centre { mean } else { 0.0 }, sd))
    }
}
