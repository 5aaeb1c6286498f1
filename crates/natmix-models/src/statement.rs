//! Statements about parameters: `age > 0`, `0 < a < 1 and b < a`, and quantities such as `a / b`.
//!
//! ```text
//! statement    chain (('and' | ',' | '&') chain)*
//! chain        sum (('<' | '<=' | '>' | '>=') sum)* | '(' statement ')'
//! sum          product (('+' | '-') product)*
//! product      signed (('*' | '/') signed)*
//! signed       ('+' | '-') signed | power
//! power        atom [('^' | '**') signed]
//! atom         number | parameter | function '(' sum ')' | '(' sum ')'
//! function     log | exp | sqrt | abs
//! ```
//!
//! Parameters have the names of the fit. Those that are not plain, such as `sd(g, x)` or `x1:x2`, stand in backquotes, or without them
//! where they can mean nothing else. Values are computed by a small stack machine, so that long sums need no deep recursion.
//!
//! ```
//! use natmix_models::statement::Statement;
//! let names = ["age", "b", "sd(g, x)"].map(String::from);
//! let claim = Statement::parse("age - b > 0.1 and sd(g,x) < 2", &names).unwrap();
//! assert_eq!(claim.holds(&[1.0, 0.5, 1.0]), Some(true));
//! let ratio = Statement::parse("age / b", &names).unwrap();
//! assert_eq!(ratio.values(&[1.0, 0.5, 1.0]), [2.0]);
//! let message = Statement::parse("agee > 0", &names).unwrap_err().to_string();
//! assert_eq!(message, "there is no parameter `agee`; did you mean `age`?\n  agee > 0\n  ^^^^");
//! ```

mod error;
mod parser;

pub use error::{StatementError, StatementProblem};

/// A statement about parameters, or a quantity computed from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Comparisons that must all hold; a single sum without a comparison is a quantity.
    chains: Vec<Chain>,
}

/// Sums that are compared from left to right.
#[derive(Clone, Debug, PartialEq)]
struct Chain {
    sums: Vec<Quantity>,
    /// Between each sum and the next.
    relations: Vec<Relation>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A computation in postfix order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Quantity(Vec<Step>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Number(f64),
    Parameter(usize),
    Negative,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Log,
    Exp,
    Sqrt,
    Abs,
}

/// The functions.
const FUNCTIONS: [(&str, Step); 4] = [("log", Step::Log), ("exp", Step::Exp), ("sqrt", Step::Sqrt), ("abs", Step::Abs)];

impl Statement {
    /// Reads a statement about parameters of these names.
    pub fn parse(text: &str, names: &[String]) -> Result<Self, StatementError> {
        parser::parse(text, names)
    }

    /// Whether it can be true or false; otherwise it is a quantity.
    pub fn is_claim(&self) -> bool {
        self.chains.iter().any(|chain| !chain.relations.is_empty())
    }

    /// The values of all sums in it, from left to right, for one draw of the parameters.
    pub fn values(&self, draw: &[f64]) -> Vec<f64> {
        self.chains.iter().flat_map(|chain| &chain.sums).map(|sum| sum.value(draw)).collect()
    }

    /// Whether it holds for one draw; `None` where a value is not a number.
    pub fn holds(&self, draw: &[f64]) -> Option<bool> {
        let mut holds = true;
        for chain in &self.chains {
            let values: Vec<f64> = chain.sums.iter().map(|sum| sum.value(draw)).collect();
            if values.iter().any(|value| value.is_nan()) {
                return None;
            }
            holds &= values.windows(2).zip(&chain.relations).all(|(pair, relation)| match relation {
                Relation::Less => pair[0] < pair[1],
                Relation::LessOrEqual => pair[0] <= pair[1],
                Relation::Greater => pair[0] > pair[1],
                Relation::GreaterOrEqual => pair[0] >= pair[1],
            });
        }
        Some(holds)
    }

    /// The difference between the two sides of each comparison, for one draw: their signs decide whether the statement holds.
    pub fn margins(&self, draw: &[f64]) -> Vec<f64> {
        let of_chain = |chain: &Chain| -> Vec<f64> {
            let values: Vec<f64> = chain.sums.iter().map(|sum| sum.value(draw)).collect();
            values.windows(2).map(|pair| pair[0] - pair[1]).collect()
        };
        self.chains.iter().flat_map(of_chain).collect()
    }
}

impl Quantity {
    fn value(&self, draw: &[f64]) -> f64 {
        let mut stack = Vec::with_capacity(8);
        for step in &self.0 {
            let last = match step {
                Step::Number(value) => *value,
                Step::Parameter(at) => draw.get(*at).copied().unwrap_or(f64::NAN),
                _ => {
                    let top = stack.pop().unwrap_or(f64::NAN);
                    let mut below = || stack.pop().unwrap_or(f64::NAN);
                    match step {
                        Step::Add => below() + top,
                        Step::Subtract => below() - top,
                        Step::Multiply => below() * top,
                        Step::Divide => below() / top,
                        Step::Power => below().powf(top),
                        Step::Negative => -top,
                        Step::Log => top.ln(),
                        Step::Exp => top.exp(),
                        Step::Sqrt => top.sqrt(),
                        _ => top.abs(),
                    }
                }
            };
            stack.push(last);
        }
        stack.pop().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests;
