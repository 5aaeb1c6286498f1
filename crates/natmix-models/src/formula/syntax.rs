//! The syntax tree of a formula, and how it is written.

use super::error::Span;
use super::lexer::is_plain;
use std::fmt;

/// A part of a formula, with its place; two are equal if they say the same, wherever they stand.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub node: Node,
    /// Where it stands.
    pub span: Span,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.node == other.node
    }
}

impl Expr {
    /// Adds the names of its columns; says whether there are no others, as `.` would mean. Every function has one column, or
    /// arithmetic of columns: its first argument or the one called `x`. The others are settings, such as `raw=TRUE`.
    pub(super) fn collect_columns(&self, columns: &mut Vec<String>) -> bool {
        match &self.node {
            Node::Number(_) | Node::Text(_) => true,
            Node::Others => false,
            Node::Column(name) => {
                columns.push(name.clone());
                true
            }
            Node::Call { arguments, .. } => {
                let is_column = |(i, argument): &(usize, &Argument)| match &argument.name {
                    None => *i == 0,
                    Some(name) => name == "x",
                };
                let mut all = true;
                for (_, argument) in arguments.iter().enumerate().filter(is_column) {
                    all &= argument.value.collect_columns(columns);
                }
                all
            }
            Node::Negative(of) => of.collect_columns(columns),
            Node::Chain { first, rest } => {
                let mut all = first.collect_columns(columns);
                for (_, part) in rest {
                    all &= part.collect_columns(columns);
                }
                all
            }
            Node::Power(a, b) | Node::Varying { effects: a, group: b, .. } => {
                let all = a.collect_columns(columns);
                b.collect_columns(columns) && all
            }
        }
    }
}

/// The kinds of parts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Node {
    /// A number.
    Number(f64),
    /// Text in quotes: an argument of a function.
    Text(String),
    /// The name of a column.
    Column(String),
    /// `.`: all other columns.
    Others,
    /// A function with its arguments.
    Call {
        /// Its name.
        function: String,
        /// What stands in its parentheses.
        arguments: Vec<Argument>,
    },
    /// `-x`.
    Negative(Box<Expr>),
    /// Operators of the same rank, from left to right. They are kept in one list so that long sums do not make deep trees.
    Chain {
        /// The first operand.
        first: Box<Expr>,
        /// The operators, each with the operand after it.
        rest: Vec<(Operator, Expr)>,
    },
    /// `x^2`.
    Power(Box<Expr>, Box<Expr>),
    /// `(1 + x | g)`.
    Varying {
        /// What varies.
        effects: Box<Expr>,
        /// Over what.
        group: Box<Expr>,
        /// False for `||`.
        correlated: bool,
    },
}

/// An argument of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name, in `name=value`.
    pub name: Option<String>,
    /// Its value.
    pub value: Expr,
}

/// Operators that are read from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Remove,
    /// `*`
    Cross,
    /// `/`
    Nest,
    /// `%in%`
    In,
    /// `:`
    Interact,
}

/// How tightly parts hold together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Sum,
    Product,
    In,
    Interaction,
    Power,
    Atom,
}

impl Rank {
    /// The next tighter one.
    pub fn tighter(self) -> Rank {
        match self {
            Rank::Sum => Rank::Product,
            Rank::Product => Rank::In,
            Rank::In => Rank::Interaction,
            Rank::Interaction => Rank::Power,
            Rank::Power | Rank::Atom => Rank::Atom,
        }
    }
}

impl Operator {
    pub(super) fn rank(self) -> Rank {
        match self {
            Operator::Add | Operator::Remove => Rank::Sum,
            Operator::Cross | Operator::Nest => Rank::Product,
            Operator::In => Rank::In,
            Operator::Interact => Rank::Interaction,
        }
    }

    fn written(self) -> &'static str {
        match self {
            Operator::Add => " + ",
            Operator::Remove => " - ",
            Operator::Cross => " * ",
            Operator::Nest => "/",
            Operator::In => " %in% ",
            Operator::Interact => ":",
        }
    }
}

/// The name of a column as a formula has to write it.
pub(super) fn quoted(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { format!("`{name}`") }
}

impl Expr {
    fn rank(&self) -> Rank {
        match &self.node {
            Node::Chain { rest, .. } => rest.first().map_or(Rank::Sum, |(operator, _)| operator.rank()),
            Node::Negative(_) => Rank::Sum,
            Node::Power(..) => Rank::Power,
            _ => Rank::Atom,
        }
    }

    /// Writes the part where `least` is the loosest rank that needs no parentheses.
    fn write(&self, f: &mut fmt::Formatter<'_>, least: Rank) -> fmt::Result {
        if self.rank() < least {
            f.write_str("(")?;
            self.write(f, Rank::Sum)?;
            return f.write_str(")");
        }
        match &self.node {
            Node::Number(value) => f.write_str(&written(*value)),
            Node::Text(text) => {
                let quote = if text.contains('"') { '\'' } else { '"' };
                write!(f, "{quote}{text}{quote}")
            }
            Node::Column(name) => f.write_str(&quoted(name)),
            Node::Others => f.write_str("."),
            Node::Call { function, arguments } => {
                write!(f, "{function}(")?;
                for (i, Argument { name, value }) in arguments.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    if let Some(name) = name {
                        write!(f, "{name}=")?;
                    }
                    value.write(f, Rank::Sum)?;
                }
                f.write_str(")")
            }
            Node::Negative(of) => {
                f.write_str("-")?;
                of.write(f, Rank::Product)
            }
            Node::Chain { first, rest } => {
                let rank = self.rank();
                // `-a + b` starts with a sign; in any other place a sign stands in parentheses.
                let leading = if matches!(first.node, Node::Negative(_)) { rank } else { rank.tighter() };
                first.write(f, leading)?;
                for (operator, part) in rest {
                    f.write_str(operator.written())?;
                    part.write(f, rank.tighter())?;
                }
                Ok(())
            }
            Node::Power(base, exponent) => {
                base.write(f, Rank::Atom)?;
                f.write_str("^")?;
                exponent.write(f, Rank::Power)
            }
            Node::Varying { effects, group, correlated } => {
                f.write_str("(")?;
                effects.write(f, Rank::Sum)?;
                f.write_str(if *correlated { " | " } else { " || " })?;
                group.write(f, Rank::Sum)?;
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Rank::Sum)
    }
}

/// A number as short as it can be written.
pub(super) fn written(value: f64) -> String {
    if value.abs() < 1e15 && value.fract() == 0.0 { format!("{value}") } else { format!("{value:?}") }
}
