//! Formulas: `y ~ x1 * x2 + (1 + x1 | g)`, as users of R write them.
//!
//! A formula says which columns of a table explain which outcome. [`Formula::parse`] reads it, [`FormulaDesign::new`] makes the design
//! of a regression from it and a table, and [`FormulaEncoding`], which is stored with the posterior, gives new rows the same columns.
//!
//! | part | what it does |
//! |---|---|
//! | `lexer`, `parser`, [`syntax`] | from text to a syntax tree, and back |
//! | `terms` | carries out the operators between terms |
//! | `bind`, `numeric`, `basis`, `levels` | from terms to what is calculated from the columns of a table |
//! | `rank` | which categories go without a reference level |
//! | `plan`, `design`, `encoding`, `encode`, `response`, `alias`, `features` | the design, and the same for new rows |
//!
//! ```
//! use natmix_models::formula::{Formula, FormulaDesign, FormulaOptions};
//! use natmix_models::table::Table;
//! let names = ["y", "x", "group"].map(String::from).to_vec();
//! let mut table = Table::from_values("memory", names, vec![1.0, 2.0, 0.0, 3.0, 5.0, 1.0, 4.0, 4.0, 0.0]).unwrap();
//! table.levels.insert(2, vec!["a".into(), "b".into()]);
//! let formula = Formula::parse("y ~ x * group + (1 | group)").unwrap();
//! let design = FormulaDesign::new(&formula, &table, &FormulaOptions::default()).unwrap();
//! assert_eq!(design.names, ["(intercept)", "x", "group=b", "x:group=b"]);
//! assert_eq!(design.x[4..8], [1.0, 5.0, 1.0, 5.0]);
//! assert_eq!(design.groupings[0].level_of_row, [0, 1, 0]);
//! ```

mod alias;
mod basis;
mod bind;
mod design;
mod encode;
mod encoding;
pub(crate) mod error;
mod features;
mod levels;
pub(crate) mod lexer;
mod numeric;
mod parser;
mod plan;
mod rank;
mod response;
mod roles;
pub mod syntax;
mod terms;

pub use crate::grouping::{GroupCoefficients, Grouping};
pub use basis::Basis;
pub use design::{DroppedColumn, FormulaDesign, FormulaOptions};
pub use encode::{FormulaRows, GroupingRows};
pub use encoding::{
    Factor, FactorKind, FactorPart, FormulaColumn, FormulaEncoding, GroupingEncoding, GroupingKind, OutcomeEncoding,
    OutcomeForm,
};
pub use error::{FormulaError, FormulaProblem, Located, Span};
pub use features::FormulaFeatures;
pub use numeric::{Arithmetic, Function, Numeric};

use std::fmt;
use syntax::Expr;

/// A formula that was read without an error. Shown, it is in its shortest usual form; two are equal if these are.
#[derive(Clone, Debug)]
pub struct Formula {
    text: String,
    response: Option<Expr>,
    addition: Option<Expr>,
    terms: Expr,
}

impl Formula {
    /// Reads a formula.
    pub fn parse(text: &str) -> Result<Formula, FormulaError> {
        let parser::Parts { response, addition, terms } = parser::parse(text).map_err(|fault| fault.within(text))?;
        Ok(Formula { text: text.into(), response, addition, terms })
    }

    /// The formula as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The left side up to `|`; none for a formula that starts with `~`.
    pub fn response(&self) -> Option<&Expr> {
        self.response.as_ref()
    }

    /// What stands between `|` and `~`.
    pub fn addition(&self) -> Option<&Expr> {
        self.addition.as_ref()
    }

    /// The right side.
    pub fn terms(&self) -> &Expr {
        &self.terms
    }

    /// The columns that it names, and whether these are all: `.` stands for others as well.
    pub fn columns(&self) -> (Vec<String>, bool) {
        let (mut columns, mut all) = (Vec::new(), true);
        for part in [self.response.as_ref(), self.addition.as_ref(), Some(&self.terms)].into_iter().flatten() {
            all &= part.collect_columns(&mut columns);
        }
        (columns, all)
    }
}

impl PartialEq for Formula {
    fn eq(&self, other: &Formula) -> bool {
        (&self.response, &self.addition, &self.terms) == (&other.response, &other.addition, &other.terms)
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(response) = &self.response {
            write!(f, "{response} ")?;
        }
        if let Some(addition) = &self.addition {
            write!(f, "| {addition} ")?;
        }
        write!(f, "~ {}", self.terms)
    }
}

impl std::str::FromStr for Formula {
    type Err = FormulaError;

    fn from_str(text: &str) -> Result<Formula, FormulaError> {
        Formula::parse(text)
    }
}
