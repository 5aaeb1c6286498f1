//! What can be wrong with a statement, where, and what to write instead.

use crate::error::nearest::did_you_mean;
use crate::error::shown;
use crate::formula::FormulaProblem;
use crate::formula::error::{Span, point_at};
use std::fmt;

/// A problem of a statement with its place.
#[derive(Debug)]
pub struct StatementError {
    /// The statement as it was given.
    pub statement: String,
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub problem: StatementProblem,
}

impl std::error::Error for StatementError {}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        point_at(f, &self.problem, &self.statement, self.span)
    }
}

/// What can be wrong with a statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatementProblem {
    /// A number or a name that cannot be read.
    #[error(transparent)]
    Formula(FormulaProblem),
    /// A character that statements do not use.
    #[error("`{}` has no meaning in a statement (they have + - * / ^ < <= > >= and parentheses)", .0.escape_debug())]
    Character(char),
    /// Nothing at all.
    #[error("the statement is empty (write for example 'age > 0')")]
    Empty,
    /// A statement of unreasonable length.
    #[error("the statement is longer than {longest} bytes")]
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
    /// The end, where something should follow.
    #[error("the statement ends where a parameter, a number or a function is expected")]
    Ends,
    /// Something else where a value should stand.
    #[error("a parameter, a number or a function is expected here")]
    NoOperand,
    /// Two values beside each other.
    #[error("an operator, a comparison or `and` is missing before this")]
    MissingOperator,
    /// A parenthesis without its end.
    #[error("this parenthesis is not closed")]
    NotClosed,
    /// A parenthesis without its beginning.
    #[error("this parenthesis was never opened")]
    StrayClose,
    /// A name that is not that of a parameter.
    #[error("there is no parameter `{}`{}", shown(.name.as_bytes()), did_you_mean(.nearest))]
    Unknown {
        /// The name.
        name: String,
        /// Those most like it.
        nearest: Vec<String>,
    },
    /// A function that does not exist.
    #[error("there is no function or parameter `{}`{} (the functions are log, exp, sqrt and abs)", shown(.name.as_bytes()), did_you_mean(.nearest))]
    UnknownFunction {
        /// What was written, with its parentheses.
        name: String,
        /// The parameters most like it.
        nearest: Vec<String>,
    },
    /// A name that can be read in two ways.
    #[error(
        "`{0}` is the name of a parameter, and can also be computed from others: put it in backquotes, or those others"
    )]
    Ambiguous(String),
    /// `=`, `==` or `!=`.
    #[error("single values of a continuous parameter have probability zero (ask for a range, such as -0.1 < a < 0.1)")]
    Equality,
    /// `or`, `|` or `not`.
    #[error(
        "only `and` joins comparisons (the probability that one of two holds is the sum of theirs less that of both)"
    )]
    Or,
    /// A part without a comparison beside others.
    #[error("this part is not true or false (compare it with something, such as > 0)")]
    NotClaim,
}
