//! How a table is to be read: which columns, which of them are categories, and what happens to rows with missing values.

use super::levels::Levels;
use super::rows::ColumnKind;
use crate::design::DesignOptions;
use crate::error::{DataError, Names, shown};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;

/// What happens to rows with missing values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingRows {
    /// They are an error that counts the missing values.
    #[default]
    Error,
    /// They are dropped.
    Drop,
}

/// How a table is to be read. By default all columns are; those of text are categories, and missing values are an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Columns that hold categories even if they look like numbers.
    pub categorical: Vec<String>,
    /// What happens to rows with missing values in a column that is used.
    pub missing: MissingRows,
    /// The columns that are used, besides those with a role; none means all.
    pub only: Option<Vec<String>>,
    /// The columns that a formula names: they are always used.
    pub named: Vec<String>,
    /// Whether the formula needs no others, so that `only` does not matter. Where one that it names is missing all are read, and the
    /// formula says which.
    pub named_only: bool,
    /// Columns that are not used.
    pub without: Vec<String>,
    /// Reference levels of categories, by column: the first level instead of the one that comes first in order.
    pub reference: Vec<(String, String)>,
    /// Columns with a role besides that of a feature, and the role; only the outcome may hold text.
    pub(super) roles: Vec<(String, &'static str)>,
}

const OUTCOME: &str = "the outcome";

impl ReadOptions {
    /// With these categorical columns.
    pub fn with_categorical(categorical: &[String]) -> Self {
        ReadOptions { categorical: categorical.to_vec(), ..Self::default() }
    }

    /// For a design: names of columns with a role are checked before the rows are read, and these columns are always used.
    pub fn for_design(self, options: &DesignOptions) -> Self {
        let DesignOptions { outcome, offset, exposure, weights, .. } = options;
        let roles = [(outcome, OUTCOME), (offset, "the offset"), (exposure, "the exposure"), (weights, "the weights")];
        let roles = roles.into_iter().filter_map(|(name, role)| Some((name.clone()?, role))).collect();
        ReadOptions { roles, ..self }
    }

    /// Whether a column has a role besides that of a feature.
    pub(super) fn has_role(&self, name: &str) -> bool {
        self.roles.iter().any(|(other, _)| other == name)
    }

    /// The reference level of a column.
    pub(super) fn reference_of(&self, name: &str) -> Option<&str> {
        self.reference.iter().rev().find(|(column, _)| column == name).map(|(_, level)| level.as_str())
    }

    /// How each column is read. Columns without a name have the name "".
    pub(super) fn kinds(&self, file: &Path, names: &[String]) -> Result<Vec<ColumnKind>, DataError> {
        let known: HashSet<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let only = self.only.as_deref().unwrap_or_default();
        let with = |list: &'_ [String], role| list.iter().map(|name| (name.clone(), role)).collect::<Vec<_>>();
        let references = self.reference.iter().map(|(name, _)| (name.clone(), "a column with a reference level"));
        let wanted = self.roles.iter().cloned().chain(with(&self.categorical, "categorical"));
        let wanted = wanted.chain(with(only, "a column to use")).chain(with(&self.without, "a column to leave out"));
        for (name, role) in wanted.chain(references) {
            if !known.contains(name.as_str()) {
                let column = shown(name.as_bytes());
                let columns = Names(names.iter().filter(|name| !name.is_empty()).cloned().collect());
                return Err(DataError::UnknownColumn { file: file.into(), column, role, columns });
            }
        }
        let bad = |column: &str, problem: &str| {
            Err(DataError::BadColumn { file: file.into(), column: column.into(), problem: problem.into() })
        };
        let without: HashSet<&str> = self.without.iter().map(String::as_str).collect();
        if let Some(name) = only.iter().find(|name| without.contains(name.as_str())) {
            return bad(name, "cannot be both used (--only) and left out (--without)");
        }
        if let Some((name, role)) = self.roles.iter().find(|(name, _)| without.contains(name.as_str())) {
            return bad(name, &format!("is {role}, so it cannot be left out (--without)"));
        }
        let only: Option<HashSet<&str>> = self.only.as_ref().map(|only| only.iter().map(String::as_str).collect());
        let named: HashSet<&str> = self.named.iter().map(String::as_str).collect();
        let named_exist = named.iter().all(|name| known.contains(name));
        let categorical: HashSet<&str> = self.categorical.iter().map(String::as_str).collect();
        let kind = |name: &String| {
            let name = name.as_str();
            let role = self.roles.iter().find(|(other, _)| other == name).map(|(_, role)| *role);
            let other = match self.named_only {
                true => !named_exist,
                false => only.as_ref().is_none_or(|only| only.contains(name)),
            };
            let chosen = other || named.contains(name) || role.is_some();
            match role {
                _ if name.is_empty() => ColumnKind::Unnamed { values: 0, first: 0 },
                _ if without.contains(name) || !chosen => ColumnKind::Skip,
                _ if categorical.contains(name) => ColumnKind::Category(Levels::named()),
                None | Some(OUTCOME) => ColumnKind::Open,
                Some(_) => ColumnKind::Number,
            }
        };
        let kinds: Vec<ColumnKind> = names.iter().map(kind).collect();
        let skipped = |name: &str| names.iter().zip(&kinds).any(|(other, kind)| other == name && !kind.is_kept());
        if let Some((name, _)) = self.reference.iter().find(|(name, _)| skipped(name)) {
            return bad(name, "is not used, so it has no reference level (leave out its --reference)");
        }
        if !kinds.iter().any(ColumnKind::is_kept) {
            let problem = "no column is left to use (name columns in the header, or leave out fewer)".into();
            return Err(DataError::BadTable { file: file.into(), problem });
        }
        Ok(kinds)
    }
}
