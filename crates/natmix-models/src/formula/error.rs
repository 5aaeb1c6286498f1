//! Errors in formulas: what is wrong, where, and what to write instead.
//!
//! ```
//! use natmix_models::formula::Formula;
//! let message = Formula::parse("income ~ (age").unwrap_err().to_string();
//! assert_eq!(message, "this parenthesis is not closed\n  income ~ (age\n           ^");
//! ```

use crate::error::nearest::did_you_mean;
use crate::error::{DataError, Names, shown};
use std::fmt;

/// A place in a formula: bytes from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it starts.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Why a formula cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    /// Something in the formula itself.
    #[error(transparent)]
    Formula(#[from] Box<Located>),
    /// Something in the table.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// A problem of a formula with its place.
#[derive(Debug)]
pub struct Located {
    /// The formula as it was given.
    pub formula: String,
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub problem: FormulaProblem,
}

impl std::error::Error for Located {}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        point_at(f, &self.problem, &self.formula, self.span)
    }
}

/// Writes what is wrong, and below it the part of a text around the place.
pub(crate) fn point_at(f: &mut fmt::Formatter<'_>, problem: &dyn fmt::Display, whole: &str, span: Span) -> fmt::Result {
    /// Characters that are shown on either side of the place, if the text is long.
    const AROUND: usize = 40;
    let text: Vec<(usize, char)> = whole.char_indices().collect();
    let first = text.iter().take_while(|(byte, _)| *byte < span.start).count();
    let length = text.iter().filter(|(byte, _)| (span.start..span.end).contains(byte)).count().max(1);
    let length = length.min(2 * AROUND);
    let from = if first > AROUND && text.len() > 2 * AROUND { first - AROUND } else { 0 };
    let to = text.len().min((first + length + AROUND).max(2 * AROUND));
    let part: String =
        text[from..to].iter().map(|(_, c)| if c.is_control() || c.is_whitespace() { ' ' } else { *c }).collect();
    let (before, after) = (if from > 0 { "... " } else { "" }, if to < text.len() { " ..." } else { "" });
    let indent = " ".repeat(before.len() + first - from);
    write!(f, "{problem}\n  {before}{part}{after}\n  {indent}{}", "^".repeat(length))
}

/// A problem with its place, before the formula is known.
#[derive(Debug)]
pub(super) struct Fault {
    pub span: Span,
    pub problem: FormulaProblem,
}

impl Fault {
    pub fn within(self, formula: &str) -> FormulaError {
        FormulaError::Formula(Box::new(Located { formula: formula.into(), span: self.span, problem: self.problem }))
    }
}

/// What can be wrong with a formula.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaProblem {
    /// A character that formulas do not use.
    #[error("`{}` has no meaning in a formula{}", .0.escape_debug(), character_advice(*.0))]
    Character(char),
    /// A quote without its partner.
    #[error("the closing {0} is missing")]
    Unclosed(char),
    /// Two backquotes with nothing between them.
    #[error("there is no name between these backquotes")]
    EmptyName,
    /// A number that is too large.
    #[error("{0} is not a finite number")]
    Number(String),
    /// Nothing at all.
    #[error("the formula is empty (write for example y ~ x1 + x2)")]
    Empty,
    /// A formula of unreasonable length.
    #[error("the formula is longer than {longest} bytes (use `.` for all columns)")]
    TooLong {
        /// The limit.
        longest: usize,
    },
    /// Too many nested parentheses.
    #[error("parentheses, functions or powers are nested more than {deepest} deep (write it in a simpler way)")]
    TooDeep {
        /// The limit.
        deepest: usize,
    },
    /// No `~`.
    #[error("there is no `~` between the outcome and what explains it (write for example y ~ x1 + x2)")]
    NoTilde,
    /// More than one `~`.
    #[error("there is more than one `~` (a formula has one: outcome ~ terms)")]
    SecondTilde,
    /// Nothing after `~`.
    #[error("nothing stands after `~` (write ~ 1 for an intercept alone, ~ . for all other columns)")]
    NothingExplains,
    /// The end, where something should follow.
    #[error("the formula ends where a column, number or function is expected")]
    Ends,
    /// An operator or comma where something else should stand.
    #[error("a column, number or function is expected here")]
    NoOperand,
    /// Two things side by side.
    #[error("an operator is missing before this (write `+` to add a term)")]
    MissingOperator,
    /// `()`.
    #[error("there is nothing between these parentheses")]
    EmptyParentheses,
    /// `(` without `)`.
    #[error("this parenthesis is not closed")]
    NotClosed,
    /// `)` without `(`.
    #[error("no parenthesis was opened for this one")]
    StrayClose,
    /// `|` outside parentheses.
    #[error(
        "`|` stands between parentheses: (1 | group) for effects that vary over groups; before `~` as in y | trials(n)"
    )]
    BareBar,
    /// `(a | b | c)`.
    #[error("there is a second `|` in these parentheses (write two terms: (1 | a) + (1 | b))")]
    SecondBar,
    /// `x (1 | g)`, which reads like a function.
    #[error("`{name}(` starts a function, in which `|` has no meaning (is a `+` missing before the parenthesis?)")]
    BarInFunction {
        /// What stands before the parenthesis.
        name: String,
    },
    /// A number that is not 0 or 1 as a term.
    #[error("{} cannot be a term: only 1 and 0 can, for an intercept and for none (write I(2 * x) to multiply a column)", super::syntax::written(*.0))]
    NumberAsTerm(f64),
    /// Text as a term.
    #[error("text in quotes cannot be a term (a column whose name is not plain stands in backquotes: `my column`)")]
    TextAsTerm,
    /// A minus sign in a product.
    #[error("a minus sign leaves a term out of a sum (write I(-x) for the negative of a column)")]
    NegativeTerm,
    /// Varying effects, an offset or a smooth within a product, or removed.
    #[error("{0} can only be added to a formula (+), not removed or multiplied")]
    OnlyAdded(&'static str),
    /// `.` without any other column.
    #[error("`.` stands for all other columns, but there is no other")]
    NoOthers,
    /// A power that is not a small whole number.
    #[error("the power of a sum of terms is a whole number from 1 to {largest} (write I(x^0.5) for arithmetic)")]
    Exponent {
        /// The limit.
        largest: f64,
    },
    /// The power of a single term.
    #[error(
        "as a term {written}^{power} would be the same as {written}, since powers combine terms (write I({written}^{power}) for the \
         power of the values, or poly({written}, {power}))"
    )]
    PowerOfOne {
        /// The term.
        written: String,
        /// The power.
        power: f64,
    },
    /// More terms than are reasonable.
    #[error("this stands for more than {most} terms (use a smaller power or fewer terms)")]
    TooManyTerms {
        /// The limit.
        most: usize,
    },
    /// An interaction of many categories.
    #[error("this has an interaction of more than {most} categories (leave some out)")]
    TooManyCategories {
        /// The limit.
        most: usize,
    },
    /// More coefficients than are reasonable.
    #[error(
        "the formula needs {columns} coefficients, more than {most} (is a column with many levels an identifier? Let it vary: (1 | column))"
    )]
    TooManyColumns {
        /// How many.
        columns: usize,
        /// The limit.
        most: usize,
    },
    /// `(0 | g)`.
    #[error("nothing varies here (write (1 | group) for intercepts, (1 + x | group) for intercepts and slopes)")]
    NothingVaries,
    /// The right of `|` is not a group.
    #[error(
        "groups are a column, a combination a:b, or nested columns a/b (write (1 | a) + (1 | b) for groups that cross)"
    )]
    Group,
    /// The same effect over the same groups twice.
    #[error(
        "`{effect}` varies twice over `{group}` (write 0 + in one of the terms: (1 | {group}) + (0 + x | {group}))"
    )]
    VariesTwice {
        /// The effect.
        effect: String,
        /// The groups.
        group: String,
    },
    /// Neither fixed nor varying effects.
    #[error("nothing is left to explain the outcome (write ~ 1 for an intercept alone)")]
    NoTerms,
    /// A function that does not exist.
    #[error("there is no function `{name}`{} (the functions are {})", did_you_mean(.nearest), .functions.join(", "))]
    UnknownFunction {
        /// Its name.
        name: String,
        /// What may have been meant.
        nearest: Vec<String>,
        /// All functions.
        functions: Vec<&'static str>,
    },
    /// A name of a column with parentheses after it.
    #[error("`{name}` is a column, not a function: an operator is missing after it")]
    ColumnCalled {
        /// The column.
        name: String,
    },
    /// Wrong arguments of a function.
    #[error("{function} {problem}")]
    Arguments {
        /// The function.
        function: String,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// A function that can only be a whole term, within arithmetic.
    #[error("{function}(...) gives several columns, so it cannot be calculated with (let it be a term of its own)")]
    NotArithmetic {
        /// The function.
        function: String,
    },
    /// An operator between terms, within arithmetic.
    #[error("`{0}` combines terms and cannot stand in arithmetic")]
    OperatorInArithmetic(&'static str),
    /// Arithmetic between terms on the left side.
    #[error("only one of `trials(n)` and `event(e)` can stand between `|` and `~`, as in y | trials(n) ~ x")]
    Addition,
    /// A column that the table does not have.
    #[error("there is no column `{}`{} (the columns are {columns})", shown(.name.as_bytes()), did_you_mean(.nearest))]
    UnknownColumn {
        /// Its name.
        name: String,
        /// What may have been meant.
        nearest: Vec<String>,
        /// All columns.
        columns: Names,
    },
    /// Text where numbers are needed.
    #[error("column `{column}` holds categories, and {user} needs numbers")]
    NeedsNumbers {
        /// The column.
        column: String,
        /// What needs numbers.
        user: String,
    },
    /// A reference level that does not occur.
    #[error("column `{column}` has no level `{level}` to be the reference (its levels are {levels})")]
    UnknownReference {
        /// The column.
        column: String,
        /// The level asked for.
        level: String,
        /// The levels.
        levels: Names,
    },
    /// The outcome among the terms.
    #[error("`{0}` is the outcome and cannot explain itself (leave it out)")]
    OutcomeExplains(String),
    /// Varying effects or smooths for a model that has none.
    #[error(
        "this model has fixed coefficients only: leave out (... | group) and s(...), or write poly or bs for a curve"
    )]
    OnlyFixed,
    /// No left side.
    #[error("there is no outcome before `~`")]
    NoOutcome,
    /// Trials or events for a model that has none.
    #[error("trials(...) and event(...) have no meaning for this model (leave them out)")]
    OtherModel,
    /// Two coefficients of one name.
    #[error("two coefficients would be named `{0}` (write each column in one way only, or rename it)")]
    SameName(String),
}

impl FormulaProblem {
    /// With the whole right side as its place.
    pub(crate) fn in_terms(self, formula: &super::Formula) -> FormulaError {
        self.at(formula.terms.span).within(formula.text())
    }

    pub(super) fn at(self, span: Span) -> Fault {
        Fault { span, problem: self }
    }

    pub(super) fn arguments(function: &str, problem: impl Into<String>) -> Self {
        FormulaProblem::Arguments { function: function.into(), problem: problem.into() }
    }
}

fn character_advice(c: char) -> &'static str {
    match c {
        '<' | '>' | '=' | '!' | '&' => ": it has no comparisons (make a column of it in the table)",
        '%' => ": did you mean %in%?",
        '[' | ']' | '{' | '}' => " (use parentheses)",
        '$' | '@' => ": columns are named without their table",
        '\u{2212}' | '\u{2013}' => " (write the minus sign of the keyboard: -)",
        '\u{d7}' | '\u{b7}' => " (write *)",
        _ => " (a column whose name is not plain stands in backquotes: `my column`)",
    }
}
