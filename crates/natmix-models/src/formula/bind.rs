//! From the factors of a formula to how they are calculated from the columns of a table.

use super::basis::{Basis, HIGHEST_DEGREE, different};
use super::encoding::FactorKind;
use super::error::{Fault, FormulaError, FormulaProblem};
use super::levels::{Labels, labels};
use super::numeric::{Arithmetic, Function, Numeric};
use super::syntax::{Argument, Expr, Node, Operator};
use crate::error::Names;
use crate::error::nearest::nearest;
use crate::table::Table;
use std::collections::BTreeMap;

/// Most levels of a column of numbers that is used as categories with fixed coefficients.
const MOST_NUMBER_LEVELS: usize = 1000;

/// B-splines of a smooth, unless `k` says otherwise or there are fewer different values.
const SMOOTH_FUNCTIONS: usize = 10;

/// Most B-splines of `s` and `bs`.
const MOST_FUNCTIONS: usize = 200;

/// Functions that are whole terms.
const TERMS: [&str; 7] = ["poly", "s", "bs", "C", "factor", "offset", "I"];

/// Names of other packages for what has another name here, and what to write.
const ELSEWHERE: [(&str, &str); 15] = [
    ("ln", "log"),
    ("centre", "center"),
    ("standardize", "scale"),
    ("as.factor", "factor"),
    ("relevel", "C(x, ref=\"level\")"),
    ("Treatment", "C(x, ref=\"level\")"),
    ("ordered", "factor"),
    ("ns", "bs or s"),
    ("te", "s(x) + s(z)"),
    ("ti", "s(x) + s(z)"),
    ("t2", "s(x) + s(z)"),
    ("gp", "s(x)"),
    ("cr", "s(x)"),
    ("cbind", "successes | trials(n)"),
    ("cens", "time | event(e)"),
];

pub(super) struct Binder<'a> {
    pub table: &'a Table,
    /// The formula as given, for errors.
    pub formula: &'a str,
    /// Reference levels by column.
    pub references: &'a BTreeMap<String, String>,
}

impl Binder<'_> {
    pub fn located(&self, fault: Fault) -> FormulaError {
        fault.within(self.formula)
    }

    fn fail<T>(&self, expr: &Expr, problem: FormulaProblem) -> Result<T, FormulaError> {
        Err(self.located(problem.at(expr.span)))
    }

    /// The factor of a term.
    pub fn factor(&self, expr: &Expr) -> Result<FactorKind, FormulaError> {
        let (function, arguments) = match &expr.node {
            Node::Column(name) if self.table.levels.contains_key(&self.position(expr, name)?) => {
                return self.levels(expr, name, None);
            }
            Node::Call { function, arguments } => (function.as_str(), arguments.as_slice()),
            _ => return Ok(FactorKind::Number(self.number(expr, "arithmetic")?)),
        };
        let arguments = |names: &[&str]| self.arguments(expr, function, arguments, names);
        match function {
            "C" | "factor" => {
                let given = arguments(&["x", "ref"])?;
                let Some(Expr { node: Node::Column(name), .. }) = given[0] else {
                    return self.wrong(expr, function, "takes a column: C(x), or C(x, ref=\"level\")");
                };
                self.levels(expr, name, given[1])
            }
            "poly" => {
                let given = arguments(&["x", "degree", "raw"])?;
                let of = self.argument(expr, function, given[0])?;
                let degree = self.whole(expr, function, "degree", given[1], 1..=HIGHEST_DEGREE)?.unwrap_or(1);
                let basis = if self.flag(expr, function, "raw", given[2])? {
                    Basis::RawPolynomial { degree }
                } else {
                    match Basis::polynomial(&of.values(self.table)?, degree) {
                        Ok(basis) => basis,
                        Err(different) => {
                            let problem = format!(
                                "of degree {degree} needs more than {degree} different values, and `{of}` has {different} (use a \
                                 smaller degree)"
                            );
                            return self.wrong(expr, function, problem);
                        }
                    }
                };
                self.basis(expr, of, basis)
            }
            "bs" => {
                let given = arguments(&["x", "df", "degree"])?;
                let of = self.argument(expr, function, given[0])?;
                let degree = self.whole(expr, function, "degree", given[2], 1..=HIGHEST_DEGREE)?.unwrap_or(3);
                let df = self.whole(expr, function, "df", given[1], degree..=MOST_FUNCTIONS)?.unwrap_or(degree);
                let x = of.values(self.table)?;
                if different(&x) < 2 {
                    return self.wrong(expr, function, format!("needs different values, and `{of}` has only one"));
                }
                self.basis(expr, of, Basis::spline(&x, df, degree))
            }
            _ => Ok(FactorKind::Number(self.number(expr, "arithmetic")?)),
        }
    }

    /// The columns of a smooth that depart from the straight line.
    pub fn smooth(&self, expr: &Expr) -> Result<FactorKind, FormulaError> {
        let Node::Call { function, arguments } = &expr.node else { return self.fail(expr, FormulaProblem::NoOperand) };
        if let Some(by) = arguments.iter().find(|argument| argument.name.as_deref() == Some("by")) {
            let problem = FormulaProblem::arguments("s", "has no `by` (write one smooth for all groups)");
            return self.fail(&by.value, problem);
        }
        if let [_, Argument { name: None, value: Expr { node: Node::Column(_), .. } }, ..] = arguments.as_slice() {
            return self.wrong(expr, "s", "takes one column (write s(x) + s(z), one smooth for each)");
        }
        let given = self.arguments(expr, function, arguments, &["x", "k"])?;
        let of = self.argument(expr, function, given[0])?;
        let x = of.values(self.table)?;
        let different = different(&x);
        if different < 4 {
            let problem = format!(
                "needs at least 4 different values, and `{of}` has {different} (use factor or the column itself)"
            );
            return self.wrong(expr, "s", problem);
        }
        let functions = match self.whole(expr, function, "k", given[1], 4..=MOST_FUNCTIONS)? {
            Some(k) if k > different => {
                let problem = format!(
                    "cannot have k={k}, since `{of}` has {different} different values (use k={different} or less)"
                );
                return self.wrong(expr, "s", problem);
            }
            Some(k) => k,
            None => SMOOTH_FUNCTIONS.min(different),
        };
        self.basis(expr, of, Basis::smooth(&x, functions))
    }

    fn basis(&self, expr: &Expr, of: Numeric, basis: Basis) -> Result<FactorKind, FormulaError> {
        if basis.is_sane() {
            return Ok(FactorKind::Basis { of, basis });
        }
        self.wrong(
            expr,
            &expr.to_string(),
            "has values too large or too close together (change the unit of the column)",
        )
    }

    /// A column as categories.
    fn levels(&self, expr: &Expr, name: &str, reference: Option<&Expr>) -> Result<FactorKind, FormulaError> {
        let at = self.position(expr, name)?;
        let Labels { labels: levels, numbers, .. } = labels(self.table, at)?;
        if numbers && levels.len() > MOST_NUMBER_LEVELS {
            let problem = format!(
                "has {} different numbers, too many for categories with a coefficient each (let them vary: (1 | {name}))",
                levels.len()
            );
            return self.wrong(expr, name, problem);
        }
        let wanted = match reference {
            Some(Expr { node: Node::Text(text) | Node::Column(text), .. }) => Some(text.clone()),
            Some(Expr { node: Node::Number(value), .. }) => Some(super::syntax::written(*value)),
            Some(other) => return self.wrong(other, "ref", "is a level: C(x, ref=\"level\")"),
            None => self.references.get(name).cloned(),
        };
        let reference = match wanted {
            None => 0,
            Some(level) => match levels.iter().position(|other| *other == level) {
                Some(at) => at,
                None => {
                    let (column, levels) = (name.to_string(), Names(levels));
                    return self
                        .fail(reference.unwrap_or(expr), FormulaProblem::UnknownReference { column, level, levels });
                }
            },
        };
        Ok(FactorKind::Levels { column: name.into(), numbers, levels, reference })
    }

    /// Arithmetic; `user` is what needs the number, for messages.
    pub fn number(&self, expr: &Expr, user: &str) -> Result<Numeric, FormulaError> {
        let unary = |function, of| Ok(Numeric::Function { function, of: Box::new(of) });
        match &expr.node {
            Node::Number(value) => Ok(Numeric::Constant(*value)),
            Node::Text(_) => self.fail(expr, FormulaProblem::TextAsTerm),
            Node::Others => self.fail(expr, FormulaProblem::OperatorInArithmetic(".")),
            Node::Varying { .. } => self.fail(expr, FormulaProblem::OperatorInArithmetic("|")),
            Node::Column(name) => {
                if self.table.levels.contains_key(&self.position(expr, name)?) {
                    let (column, user) = (name.clone(), user.to_string());
                    return self.fail(expr, FormulaProblem::NeedsNumbers { column, user });
                }
                Ok(Numeric::Column(name.clone()))
            }
            Node::Negative(of) => unary(Function::Negative, self.number(of, user)?),
            Node::Power(base, exponent) => {
                let (left, right) = (self.number(base, user)?, self.number(exponent, user)?);
                Ok(binary(Arithmetic::Power, left, right))
            }
            Node::Chain { first, rest } => {
                let mut sum = self.number(first, user)?;
                for (operator, part) in rest {
                    let operator = match operator {
                        Operator::Add => Arithmetic::Add,
                        Operator::Remove => Arithmetic::Subtract,
                        Operator::Cross => Arithmetic::Multiply,
                        Operator::Nest => Arithmetic::Divide,
                        Operator::In => return self.fail(part, FormulaProblem::OperatorInArithmetic("%in%")),
                        Operator::Interact => return self.fail(part, FormulaProblem::OperatorInArithmetic(":")),
                    };
                    sum = binary(operator, sum, self.number(part, user)?);
                }
                Ok(sum)
            }
            Node::Call { function, arguments } => {
                let one = || {
                    let given = self.arguments(expr, function, arguments, &["x"])?;
                    self.argument(expr, function, given[0])
                };
                if let Some((_, named)) = Function::NAMED.iter().find(|(name, _)| name == function) {
                    return unary(*named, one()?);
                }
                match function.as_str() {
                    "I" => one(),
                    "scale" | "center" => self.scaled(expr, one()?, function == "scale"),
                    name if TERMS.contains(&name) => {
                        self.fail(expr, FormulaProblem::NotArithmetic { function: name.into() })
                    }
                    name if self.table.position(name).is_some() => {
                        self.fail(expr, FormulaProblem::ColumnCalled { name: name.into() })
                    }
                    name => {
                        let functions: Vec<&str> = Function::NAMED
                            .iter()
                            .map(|(name, _)| *name)
                            .chain(["scale", "center"])
                            .chain(TERMS)
                            .collect();
                        let nearest = match ELSEWHERE.iter().find(|(other, _)| *other == name) {
                            Some((_, here)) => vec![here.to_string()],
                            None => nearest(name, functions.iter().copied()),
                        };
                        self.fail(expr, FormulaProblem::UnknownFunction { name: name.into(), nearest, functions })
                    }
                }
            }
        }
    }

    fn scaled(&self, expr: &Expr, of: Numeric, divide: bool) -> Result<Numeric, FormulaError> {
        let values = of.values(self.table)?;
        let rows = values.len() as f64;
        let centre = values.iter().map(|value| value / rows).sum::<f64>();
        let sd = (values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (rows - 1.0)).sqrt();
        if divide && !(sd.is_finite() && sd >= f64::MIN_POSITIVE && different(&values) > 1) {
            return self.wrong(expr, "scale", format!("needs values that differ, and `{of}` is always the same"));
        }
        Ok(Numeric::Scaled { of: Box::new(of), centre, scale: divide.then_some(sd) })
    }

    /// Position of a column.
    pub fn position(&self, expr: &Expr, name: &str) -> Result<usize, FormulaError> {
        match self.table.position(name) {
            Some(at) => Ok(at),
            None => {
                let names = &self.table.names;
                let nearest = nearest(name, names.iter().map(String::as_str));
                let columns = Names(names.clone());
                self.fail(expr, FormulaProblem::UnknownColumn { name: name.into(), nearest, columns })
            }
        }
    }

    fn wrong<T>(&self, expr: &Expr, function: &str, problem: impl Into<String>) -> Result<T, FormulaError> {
        self.fail(expr, FormulaProblem::arguments(function, problem))
    }

    /// The arguments of a call in the order of `names`, by position or by name.
    pub fn arguments<'e>(
        &self,
        expr: &Expr,
        function: &str,
        given: &'e [Argument],
        names: &[&str],
    ) -> Result<Vec<Option<&'e Expr>>, FormulaError> {
        let mut found = vec![None; names.len()];
        for (i, argument) in given.iter().enumerate() {
            let at = match &argument.name {
                None => Some(i).filter(|i| *i < names.len()),
                Some(name) => names.iter().position(|other| other == name),
            };
            let Some(at) = at.filter(|at| found[*at].is_none()) else {
                let known = names.join(", ");
                return self.wrong(
                    &argument.value,
                    function,
                    format!("does not take this argument (it takes {known})"),
                );
            };
            found[at] = Some(&argument.value);
        }
        if found[0].is_none() {
            return self.wrong(expr, function, format!("needs a column: {function}(x)"));
        }
        Ok(found)
    }

    fn argument(&self, expr: &Expr, function: &str, given: Option<&Expr>) -> Result<Numeric, FormulaError> {
        match given {
            Some(given) => self.number(given, function),
            None => self.wrong(expr, function, format!("needs a column: {function}(x)")),
        }
    }

    fn whole(
        &self,
        expr: &Expr,
        function: &str,
        name: &str,
        given: Option<&Expr>,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<Option<usize>, FormulaError> {
        match given.map(|given| &given.node) {
            None => Ok(None),
            Some(Node::Number(value)) if value.fract() == 0.0 && range.contains(&(*value as usize)) => {
                Ok(Some(*value as usize))
            }
            Some(_) => {
                let problem = format!("needs {name} to be a whole number from {} to {}", range.start(), range.end());
                self.wrong(given.unwrap_or(expr), function, problem)
            }
        }
    }

    fn flag(&self, expr: &Expr, function: &str, name: &str, given: Option<&Expr>) -> Result<bool, FormulaError> {
        match given.map(|given| &given.node) {
            None => Ok(false),
            Some(Node::Column(word)) if ["TRUE", "True", "true"].contains(&word.as_str()) => Ok(true),
            Some(Node::Column(word)) if ["FALSE", "False", "false"].contains(&word.as_str()) => Ok(false),
            Some(_) => self.wrong(given.unwrap_or(expr), function, format!("needs {name} to be TRUE or FALSE")),
        }
    }
}

fn binary(operator: Arithmetic, left: Numeric, right: Numeric) -> Numeric {
    Numeric::Binary { operator, left: Box::new(left), right: Box::new(right) }
}
