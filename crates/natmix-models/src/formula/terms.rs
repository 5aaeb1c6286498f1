//! From the syntax tree to terms: what `+ - * / : ^ %in% .` mean.
//!
//! A term is a set of factors that are multiplied; the empty one is the intercept. A formula is an ordered set of terms, sorted
//! by how many factors they have, as in R.

use super::error::{Fault, FormulaProblem, Span};
use super::syntax::{Expr, Node, Operator, Rank};
use std::collections::{HashMap, HashSet};

/// Most terms that a formula may have, which also limits the work for `(a + b + c)^20`.
const MOST_TERMS: usize = 10_000;

/// Largest exponent of `(a + b + c)^2`.
const LARGEST_POWER: f64 = 20.0;

/// Indices of factors, in order of appearance.
pub(super) type Term = Vec<usize>;

/// What a formula says, with every operator carried out.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// The factors: columns and functions of them.
    pub factors: Vec<Expr>,
    /// Terms with fixed coefficients.
    pub fixed: Vec<Term>,
    /// Effects that vary over groups.
    pub varying: Vec<VaryingTerm>,
    /// Calls of `s`.
    pub smooths: Vec<Expr>,
    /// Arguments of `offset`.
    pub offsets: Vec<Expr>,
    pub warnings: Vec<String>,
}

/// `(effects | group)`; `a/b` as the group gives two of these.
#[derive(Debug)]
pub(super) struct VaryingTerm {
    pub effects: Vec<Term>,
    /// The columns whose combinations are the groups.
    pub group: Vec<(String, Span)>,
    pub correlated: bool,
    pub span: Span,
}

/// Carries out the operators; `others` are the columns that `.` stands for.
pub(super) fn expand(formula: &Expr, others: &[String]) -> Result<Terms, Fault> {
    let mut expansion = Expansion { others, index: HashMap::new(), terms: Terms::default() };
    let mut start = TermSet::default();
    start.insert(Vec::new());
    let fixed = expansion.sum(formula, start, true)?;
    expansion.terms.fixed = fixed.by_degree();
    Ok(expansion.terms)
}

/// The columns with a role of their own after `~`, which `.` does not stand for: offsets and groups.
pub(super) fn special_columns<'a>(expr: &'a Expr, found: &mut HashSet<&'a str>) {
    match &expr.node {
        Node::Call { function, arguments } if function == "offset" => {
            arguments.iter().for_each(|argument| columns(&argument.value, found));
        }
        Node::Varying { group, .. } => columns(group, found),
        _ => children(expr, &mut |child| special_columns(child, found)),
    }
}

/// All columns that a part names.
pub(super) fn columns<'a>(expr: &'a Expr, found: &mut HashSet<&'a str>) {
    match &expr.node {
        Node::Column(name) => {
            found.insert(name);
        }
        _ => children(expr, &mut |child| columns(child, found)),
    }
}

fn children<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    match &expr.node {
        Node::Number(_) | Node::Text(_) | Node::Column(_) | Node::Others => {}
        Node::Call { arguments, .. } => arguments.iter().for_each(|argument| visit(&argument.value)),
        Node::Negative(of) => visit(of),
        Node::Chain { first, rest } => {
            visit(first);
            rest.iter().for_each(|(_, part)| visit(part));
        }
        Node::Power(base, exponent) => {
            visit(base);
            visit(exponent);
        }
        Node::Varying { effects, group, .. } => {
            visit(effects);
            visit(group);
        }
    }
}

/// An ordered set of terms. Two terms are the same if they have the same factors in any order.
#[derive(Clone, Default)]
struct TermSet {
    terms: Vec<Term>,
    keys: HashSet<Term>,
}

impl TermSet {
    fn of(term: Term) -> Self {
        let mut set = TermSet::default();
        set.insert(term);
        set
    }

    fn insert(&mut self, term: Term) {
        if self.keys.insert(key(&term)) {
            self.terms.push(term);
        }
    }

    fn extend(&mut self, other: TermSet) {
        other.terms.into_iter().for_each(|term| self.insert(term));
    }

    /// Removes the terms of `other`; whether there were any.
    fn remove(&mut self, other: &TermSet) -> bool {
        let before = self.terms.len();
        self.terms.retain(|term| !other.keys.contains(&key(term)));
        self.keys.retain(|key| !other.keys.contains(key));
        self.terms.len() < before
    }

    fn times(&self, other: &TermSet, span: Span) -> Result<TermSet, Fault> {
        let mut product = TermSet::default();
        for left in &self.terms {
            for right in &other.terms {
                product.insert(multiply(left, right));
                product.check(span)?;
            }
        }
        Ok(product)
    }

    fn check(&self, span: Span) -> Result<(), Fault> {
        if self.terms.len() > MOST_TERMS {
            return Err(FormulaProblem::TooManyTerms { most: MOST_TERMS }.at(span));
        }
        Ok(())
    }

    fn by_degree(mut self) -> Vec<Term> {
        self.terms.sort_by_key(Vec::len);
        self.terms
    }
}

fn key(term: &Term) -> Term {
    let mut key = term.clone();
    key.sort_unstable();
    key
}

fn multiply(left: &Term, right: &Term) -> Term {
    let mut product = left.clone();
    product.extend(right.iter().filter(|factor| !left.contains(factor)));
    product
}

struct Expansion<'a> {
    others: &'a [String],
    /// Index of each factor by how it is written.
    index: HashMap<String, usize>,
    terms: Terms,
}

impl Expansion<'_> {
    fn factor(&mut self, expr: &Expr) -> usize {
        let factors = &mut self.terms.factors;
        *self.index.entry(expr.to_string()).or_insert_with(|| {
            factors.push(expr.clone());
            factors.len() - 1
        })
    }

    /// Adds and removes the parts of a sum. `special` says whether offsets, smooths and varying effects can be among them.
    fn sum(&mut self, expr: &Expr, start: TermSet, special: bool) -> Result<TermSet, Fault> {
        let mut set = start;
        for (adds, part) in parts(expr) {
            let (adds, terms) = match part.node {
                Node::Number(0.0) => (!adds, TermSet::of(Vec::new())),
                _ => (adds, self.special_or_terms(part, adds, special)?),
            };
            if adds {
                set.extend(terms);
                set.check(part.span)?;
            } else if !set.remove(&terms) && !terms.keys.contains(&Vec::new()) {
                self.terms.warnings.push(format!("`- {part}` removes nothing: the formula has no such term before it"));
            }
        }
        Ok(set)
    }

    fn special_or_terms(&mut self, part: &Expr, adds: bool, special: bool) -> Result<TermSet, Fault> {
        match &part.node {
            Node::Chain { rest, .. } if rest[0].0.rank() == Rank::Sum => {
                self.sum(part, TermSet::default(), special && adds)
            }
            Node::Varying { .. } if special && adds => {
                self.varying(part)?;
                Ok(TermSet::default())
            }
            Node::Call { function, arguments } if special && adds && function == "offset" => {
                match arguments.as_slice() {
                    [only] if only.name.is_none() => self.terms.offsets.push(only.value.clone()),
                    _ => {
                        let problem = "takes one argument: offset(x), or offset(log(x)) for an exposure";
                        return Err(FormulaProblem::arguments("offset", problem).at(part.span));
                    }
                }
                Ok(TermSet::default())
            }
            // The straight line that the smooth departs from has a fixed coefficient.
            Node::Call { function, arguments } if special && adds && function == "s" => {
                let Some(x) = arguments.first().filter(|argument| argument.name.is_none()) else {
                    return Err(FormulaProblem::arguments("s", "needs a column: s(x) or s(x, k=10)").at(part.span));
                };
                self.terms.smooths.push(part.clone());
                Ok(TermSet::of(vec![self.factor(&x.value)]))
            }
            _ => self.terms_of(part),
        }
    }

    fn terms_of(&mut self, expr: &Expr) -> Result<TermSet, Fault> {
        match &expr.node {
            Node::Number(1.0) => Ok(TermSet::of(Vec::new())),
            Node::Number(value) => Err(FormulaProblem::NumberAsTerm(*value).at(expr.span)),
            Node::Text(_) => Err(FormulaProblem::TextAsTerm.at(expr.span)),
            Node::Negative(_) => Err(FormulaProblem::NegativeTerm.at(expr.span)),
            Node::Varying { .. } => Err(FormulaProblem::OnlyAdded("varying effects").at(expr.span)),
            Node::Call { function, .. } if function == "offset" => {
                Err(FormulaProblem::OnlyAdded("an offset").at(expr.span))
            }
            Node::Call { function, .. } if function == "s" => Err(FormulaProblem::OnlyAdded("a smooth").at(expr.span)),
            Node::Column(_) | Node::Call { .. } => Ok(TermSet::of(vec![self.factor(expr)])),
            Node::Others => {
                let others = self.others;
                if others.is_empty() {
                    return Err(FormulaProblem::NoOthers.at(expr.span));
                }
                let mut set = TermSet::default();
                for name in others {
                    let column = Expr { node: Node::Column(name.clone()), span: expr.span };
                    set.insert(vec![self.factor(&column)]);
                }
                set.check(expr.span)?;
                Ok(set)
            }
            Node::Power(base, exponent) => {
                let times = match exponent.node {
                    Node::Number(value) if value.fract() == 0.0 && (1.0..=LARGEST_POWER).contains(&value) => value,
                    _ => return Err(FormulaProblem::Exponent { largest: LARGEST_POWER }.at(exponent.span)),
                };
                let base_terms = self.terms_of(base)?;
                if base_terms.terms.len() == 1 && times > 1.0 {
                    let written = base.to_string();
                    return Err(FormulaProblem::PowerOfOne { written, power: times }.at(expr.span));
                }
                (1..times as usize).try_fold(base_terms.clone(), |set, _| set.times(&base_terms, expr.span))
            }
            Node::Chain { rest, .. } if rest[0].0.rank() == Rank::Sum => self.sum(expr, TermSet::default(), false),
            Node::Chain { first, rest } => {
                let mut set = self.terms_of(first)?;
                for (operator, part) in rest {
                    let right = self.terms_of(part)?;
                    set = match operator {
                        Operator::Cross => {
                            let product = set.times(&right, expr.span)?;
                            set.extend(right);
                            set.extend(product);
                            set
                        }
                        Operator::Nest => {
                            let parents = set.terms.iter().fold(Vec::new(), |all, term| multiply(&all, term));
                            let nested = TermSet::of(parents).times(&right, expr.span)?;
                            set.extend(nested);
                            set
                        }
                        _ => set.times(&right, expr.span)?,
                    };
                    set.check(expr.span)?;
                }
                Ok(set)
            }
        }
    }

    fn varying(&mut self, expr: &Expr) -> Result<(), Fault> {
        let Node::Varying { effects, group, correlated } = &expr.node else { return Ok(()) };
        let effects = self.sum(effects, TermSet::of(Vec::new()), false)?.by_degree();
        if effects.is_empty() {
            return Err(FormulaProblem::NothingVaries.at(expr.span));
        }
        for group in groups(group)? {
            let (effects, correlated, span) = (effects.clone(), *correlated, expr.span);
            self.terms.varying.push(VaryingTerm { effects, group, correlated, span });
        }
        Ok(())
    }
}

/// The parts of a sum, and whether each is added.
fn parts(expr: &Expr) -> Vec<(bool, &Expr)> {
    fn signed(mut adds: bool, mut part: &Expr) -> (bool, &Expr) {
        while let Node::Negative(of) = &part.node {
            (adds, part) = (!adds, of);
        }
        (adds, part)
    }
    match &expr.node {
        Node::Chain { first, rest } if rest[0].0.rank() == Rank::Sum => {
            let rest = rest.iter().map(|(operator, part)| signed(*operator == Operator::Add, part));
            std::iter::once(signed(true, first)).chain(rest).collect()
        }
        _ => vec![signed(true, expr)],
    }
}

/// `g`, `a:b`, or `a/b`, which stands for `a` and `a:b`.
fn groups(expr: &Expr) -> Result<Vec<Vec<(String, Span)>>, Fault> {
    let bad = || Err(FormulaProblem::Group.at(expr.span));
    match &expr.node {
        Node::Column(name) => Ok(vec![vec![(name.clone(), expr.span)]]),
        Node::Chain { first, rest } => {
            let mut all = groups(first)?;
            for (operator, part) in rest {
                let next = groups(part)?;
                let (Some(last), [next]) = (all.last(), next.as_slice()) else { return bad() };
                let mut combined = last.clone();
                combined.extend(next.iter().filter(|(name, _)| !last.iter().any(|(other, _)| other == name)).cloned());
                match operator {
                    Operator::Interact if all.len() == 1 => all[0] = combined,
                    Operator::Nest => all.push(combined),
                    _ => return bad(),
                }
            }
            Ok(all)
        }
        _ => bad(),
    }
}
