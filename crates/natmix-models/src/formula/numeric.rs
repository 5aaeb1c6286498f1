//! Arithmetic with columns, as stored with a fit: a number for every row.

use super::syntax::written;
use crate::error::{DataError, Names, shown};
use crate::table::Table;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number calculated from the columns of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Numeric {
    /// The same for all rows.
    Constant(f64),
    /// The value of a column.
    Column(String),
    /// A function.
    Function {
        /// Which one.
        function: Function,
        /// Of what.
        of: Box<Numeric>,
    },
    /// `(x - centre)/scale`, with the mean and standard deviation of the fitted data.
    Scaled {
        /// Of what.
        of: Box<Numeric>,
        /// Its mean.
        centre: f64,
        /// Its standard deviation; none for `center(x)`.
        scale: Option<f64>,
    },
    /// Two numbers and an operator.
    Binary {
        /// The operator.
        operator: Arithmetic,
        /// Left of it.
        left: Box<Numeric>,
        /// Right of it.
        right: Box<Numeric>,
    },
}

/// Functions of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Function {
    Log,
    Log2,
    Log10,
    Log1p,
    Exp,
    Sqrt,
    Abs,
    Negative,
}

/// Operators between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

impl Function {
    /// Those with a name, and the name.
    pub(super) const NAMED: [(&'static str, Function); 7] = [
        ("log", Function::Log),
        ("log2", Function::Log2),
        ("log10", Function::Log10),
        ("log1p", Function::Log1p),
        ("exp", Function::Exp),
        ("sqrt", Function::Sqrt),
        ("abs", Function::Abs),
    ];

    fn value(self, x: f64) -> f64 {
        match self {
            Function::Log => x.ln(),
            Function::Log2 => x.log2(),
            Function::Log10 => x.log10(),
            Function::Log1p => x.ln_1p(),
            Function::Exp => x.exp(),
            Function::Sqrt => x.sqrt(),
            Function::Abs => x.abs(),
            Function::Negative => -x,
        }
    }

    /// Why a number has no value.
    fn problem(self) -> &'static str {
        match self {
            Function::Log | Function::Log2 | Function::Log10 => {
                "is not positive, so it has no logarithm (log1p(x) takes 0; or correct or remove the row)"
            }
            Function::Log1p => "is not above -1, so log1p has no value (correct or remove the row)",
            Function::Sqrt => "is negative, so it has no square root (correct or remove the row)",
            Function::Exp => "is too large for exp (divide the column first: exp(x / 10))",
            Function::Abs | Function::Negative => "is not finite",
        }
    }
}

impl Arithmetic {
    fn value(self, left: f64, right: f64) -> f64 {
        match self {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide => left / right,
            Arithmetic::Power => left.powf(right),
        }
    }
}

impl Numeric {
    /// The value in every row, all finite.
    pub(super) fn values(&self, table: &Table) -> Result<Vec<f64>, DataError> {
        let refuse = |row: usize, column: &Numeric, value: f64, problem: &str| DataError::BadValue {
            file: table.origin.file.clone(),
            place: table.origin.place(row),
            column: column.to_string(),
            value,
            problem: problem.into(),
        };
        match self {
            Numeric::Constant(value) => Ok(vec![*value; table.rows]),
            Numeric::Column(name) => Ok(table.column(number_column(table, name)?).collect()),
            Numeric::Function { function, of } => {
                let mut values = of.values(table)?;
                for (row, x) in values.iter_mut().enumerate() {
                    let value = function.value(*x);
                    if !value.is_finite() {
                        return Err(refuse(row, of, *x, function.problem()));
                    }
                    *x = value;
                }
                Ok(values)
            }
            Numeric::Scaled { of, centre, scale } => {
                let mut values = of.values(table)?;
                let scale = scale.unwrap_or(1.0);
                values.iter_mut().for_each(|x| *x = (*x - centre) / scale);
                Ok(values)
            }
            Numeric::Binary { operator, left, right } => {
                let mut values = left.values(table)?;
                // Constants are not written out for every row.
                let right_values = match **right {
                    Numeric::Constant(_) => Vec::new(),
                    _ => right.values(table)?,
                };
                let constant = if let Numeric::Constant(value) = **right { value } else { 0.0 };
                for (row, x) in values.iter_mut().enumerate() {
                    let y = right_values.get(row).copied().unwrap_or(constant);
                    let value = operator.value(*x, y);
                    if !value.is_finite() {
                        let problem = match operator {
                            Arithmetic::Divide if y == 0.0 => "is a division by zero (correct or remove the row)",
                            Arithmetic::Power if *x < 0.0 => {
                                "is a power of a negative number (correct or remove the row)"
                            }
                            _ => "is not finite (correct or remove the row)",
                        };
                        return Err(refuse(row, self, value, problem));
                    }
                    *x = value;
                }
                Ok(values)
            }
        }
    }

    /// Calls `visit` with every column.
    pub(super) fn columns<'a>(&'a self, visit: &mut dyn FnMut(&'a str)) {
        match self {
            Numeric::Constant(_) => {}
            Numeric::Column(name) => visit(name),
            Numeric::Function { of, .. } | Numeric::Scaled { of, .. } => of.columns(visit),
            Numeric::Binary { left, right, .. } => {
                left.columns(visit);
                right.columns(visit);
            }
        }
    }

    /// Whether the table has all of its columns.
    pub(super) fn is_in(&self, table: &Table) -> bool {
        let mut all = true;
        self.columns(&mut |name| all &= table.position(name).is_some());
        all
    }

    /// Whether all numbers in it are finite and all scales positive: it may come from a file.
    pub(super) fn is_sane(&self) -> bool {
        match self {
            Numeric::Constant(value) => value.is_finite(),
            Numeric::Column(_) => true,
            Numeric::Function { of, .. } => of.is_sane(),
            Numeric::Scaled { of, centre, scale } => {
                centre.is_finite() && scale.is_none_or(|scale| scale.is_finite() && scale > 0.0) && of.is_sane()
            }
            Numeric::Binary { left, right, .. } => left.is_sane() && right.is_sane(),
        }
    }
}

/// Position of a column that must hold numbers.
fn number_column(table: &Table, name: &str) -> Result<usize, DataError> {
    let at = column(table, name)?;
    if !table.levels.contains_key(&at) {
        return Ok(at);
    }
    let problem = "is categorical here, but the formula calculates with its numbers".into();
    Err(DataError::BadColumn { file: table.origin.file.clone(), column: name.into(), problem })
}

/// Position of a column that the formula names.
pub(super) fn column(table: &Table, name: &str) -> Result<usize, DataError> {
    table.position(name).ok_or_else(|| DataError::MissingColumn {
        file: table.origin.file.clone(),
        column: shown(name.as_bytes()),
        role: "a part of its formula",
        columns: Names(table.names.clone()),
    })
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numeric::Constant(value) => f.write_str(&written(*value)),
            Numeric::Column(name) => f.write_str(name),
            Numeric::Function { function: Function::Negative, of } => write!(f, "-{of}"),
            Numeric::Function { function, of } => {
                let name = Function::NAMED.iter().find(|(_, named)| named == function).map_or("", |(name, _)| name);
                write!(f, "{name}({of})")
            }
            Numeric::Scaled { of, scale, .. } => {
                write!(f, "{}({of})", if scale.is_some() { "scale" } else { "center" })
            }
            Numeric::Binary { operator, left, right } => {
                let sign = match operator {
                    Arithmetic::Add => " + ",
                    Arithmetic::Subtract => " - ",
                    Arithmetic::Multiply => " * ",
                    Arithmetic::Divide => " / ",
                    Arithmetic::Power => "^",
                };
                let part = |part: &Numeric| match part {
                    Numeric::Binary { .. } => format!("({part})"),
                    _ => part.to_string(),
                };
                write!(f, "{}{sign}{}", part(left), part(right))
            }
        }
    }
}
