//! From text to a statement.

use super::error::{StatementError, StatementProblem};
use super::{Chain, FUNCTIONS, Quantity, Relation, Statement, Step};
use crate::error::nearest::nearest;
use crate::formula::error::Span;
use crate::formula::lexer::{self, continues_name, is_plain, starts_name};

/// How deep parentheses, functions and powers may be nested.
const DEEPEST: usize = 60;
/// Longest statement, in bytes.
const LONGEST: usize = 20_000;

/// Reads a whole statement.
pub(super) fn parse(text: &str, names: &[String]) -> Result<Statement, StatementError> {
    let mut parser = Parser { text, names, at: 0, depth: 0, without: None };
    parser.whole().map_err(|Fault { span, problem }| StatementError { statement: text.into(), span, problem })
}

/// A problem with its place.
struct Fault {
    span: Span,
    problem: StatementProblem,
}

struct Parser<'a> {
    text: &'a str,
    names: &'a [String],
    at: usize,
    depth: usize,
    /// A name that is not to be understood as a whole.
    without: Option<usize>,
}

impl<'a> Parser<'a> {
    fn fault<T>(&self, length: usize, problem: StatementProblem) -> Result<T, Fault> {
        Err(Fault { span: Span { start: self.at, end: self.at + length }, problem })
    }

    /// What follows, without spaces.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    /// A word that is not the beginning of a longer one.
    fn take_word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let whole = rest.strip_prefix(word).is_some_and(|after| !after.starts_with(continues_name));
        whole && self.take(word)
    }

    /// Runs `inner` one level deeper.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEEPEST {
            return self.fault(1, StatementProblem::TooDeep { deepest: DEEPEST });
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn whole(&mut self) -> Result<Statement, Fault> {
        if self.text.len() > LONGEST {
            return self.fault(1, StatementProblem::TooLong { longest: LONGEST });
        }
        if self.rest().is_empty() {
            return self.fault(1, StatementProblem::Empty);
        }
        let chains = self.claims()?;
        if self.rest().is_empty() { Ok(Statement { chains }) } else { self.unexpected() }
    }

    /// What to say about something that cannot stand here.
    fn unexpected<T>(&mut self) -> Result<T, Fault> {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return self.fault(1, StatementProblem::Ends) };
        let word = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
        let problem = match c {
            ')' => StatementProblem::StrayClose,
            '=' | '!' => StatementProblem::Equality,
            '|' => StatementProblem::Or,
            _ if ["or", "not"].contains(&&rest[..word]) => return self.fault(word, StatementProblem::Or),
            '(' | '`' => StatementProblem::MissingOperator,
            _ if starts_name(rest) || c.is_ascii_digit() => {
                return self.fault(word.max(1), StatementProblem::MissingOperator);
            }
            _ if "+-*/^<>,&".contains(c) => StatementProblem::NoOperand,
            _ => StatementProblem::Character(c),
        };
        self.fault(c.len_utf8(), problem)
    }

    fn claims(&mut self) -> Result<Vec<Chain>, Fault> {
        self.rest();
        let mut starts = vec![self.at];
        let mut chains = self.chain()?;
        let mut parts = 1;
        while self.take_word("and") || self.take("&&") || self.take("&") || self.take(",") {
            self.rest();
            starts.push(self.at);
            chains.extend(self.chain()?);
            parts += 1;
        }
        let no_claim = chains.iter().position(|chain| chain.relations.is_empty());
        match no_claim.filter(|_| parts > 1) {
            Some(at) => {
                let start = starts.get(at).copied().unwrap_or(0);
                let end = self.text[start..].find(['&', ',']).map_or(self.at, |length| start + length);
                Err(Fault { span: Span { start, end: end.max(start + 1) }, problem: StatementProblem::NotClaim })
            }
            None => Ok(chains),
        }
    }

    fn chain(&mut self) -> Result<Vec<Chain>, Fault> {
        // Arithmetic has no comparisons: parentheses around one hold a claim.
        if self.rest().starts_with('(') && self.name_here().is_none() && self.has_comparison_inside() {
            let open = self.at;
            self.at += 1;
            let inside = self.deeper(Self::claims)?;
            self.close(open)?;
            return Ok(inside);
        }
        let mut sums = vec![self.sum()?];
        let mut relations = Vec::new();
        while let Some(relation) = self.relation()? {
            relations.push(relation);
            sums.push(self.sum()?);
        }
        Ok(vec![Chain { sums, relations }])
    }

    /// Whether a comparison stands inside the parentheses that begin here.
    fn has_comparison_inside(&self) -> bool {
        let (mut depth, mut quoted) = (0, false);
        for c in self.text[self.at..].chars() {
            match c {
                '`' => quoted = !quoted,
                _ if quoted => {}
                '(' => depth += 1,
                ')' if depth == 1 => return false,
                ')' => depth -= 1,
                '<' | '>' => return true,
                _ => {}
            }
        }
        false
    }

    fn relation(&mut self) -> Result<Option<Relation>, Fault> {
        let signs = [
            ("<=", Relation::LessOrEqual),
            (">=", Relation::GreaterOrEqual),
            ("<", Relation::Less),
            (">", Relation::Greater),
        ];
        if self.rest().starts_with(['=', '!']) {
            return self.fault(1, StatementProblem::Equality);
        }
        Ok(signs.into_iter().find_map(|(sign, relation)| self.take(sign).then_some(relation)))
    }

    fn sum(&mut self) -> Result<Quantity, Fault> {
        let mut steps = Quantity::default();
        self.sum_into(&mut steps)?;
        Ok(steps)
    }

    fn sum_into(&mut self, to: &mut Quantity) -> Result<(), Fault> {
        self.product(to)?;
        loop {
            let step = match self.rest().chars().next() {
                Some('+') => Step::Add,
                Some('-') => Step::Subtract,
                _ => return Ok(()),
            };
            self.at += 1;
            self.product(to)?;
            to.0.push(step);
        }
    }

    fn product(&mut self, to: &mut Quantity) -> Result<(), Fault> {
        self.signed(to)?;
        loop {
            let rest = self.rest();
            let step = match rest.chars().next() {
                Some('*') if !rest.starts_with("**") => Step::Multiply,
                Some('/') => Step::Divide,
                _ => return Ok(()),
            };
            self.at += 1;
            self.signed(to)?;
            to.0.push(step);
        }
    }

    fn signed(&mut self, to: &mut Quantity) -> Result<(), Fault> {
        if self.take("-") {
            self.deeper(|parser| parser.signed(to))?;
            to.0.push(Step::Negative);
            return Ok(());
        }
        if self.take("+") {
            return self.deeper(|parser| parser.signed(to));
        }
        self.atom(to)?;
        if self.take("^") || self.take("**") {
            self.deeper(|parser| parser.signed(to))?;
            to.0.push(Step::Power);
        }
        Ok(())
    }

    fn atom(&mut self, to: &mut Quantity) -> Result<(), Fault> {
        let rest = self.rest();
        if let Some((name, length)) = self.name_here() {
            let function = FUNCTIONS.iter().find(|(function, _)| *function == self.names[name]);
            if function.is_none_or(|_| !rest[length..].trim_start().starts_with('(')) {
                self.check_ambiguous(name, length)?;
                self.at += length;
                to.0.push(Step::Parameter(name));
                return Ok(());
            }
        }
        match rest.chars().next() {
            None => self.fault(1, StatementProblem::Ends),
            Some('`') => self.quoted(to),
            Some('(') => {
                let open = self.at;
                self.at += 1;
                self.deeper(|parser| parser.sum_into(to))?;
                self.close(open)
            }
            Some(c) if c.is_ascii_digit() || (c == '.' && !starts_name(rest)) => match lexer::number(rest) {
                Ok((lexer::Token::Number(value), length)) => {
                    self.at += length;
                    to.0.push(Step::Number(value));
                    Ok(())
                }
                Ok(_) => self.fault(1, StatementProblem::NoOperand),
                Err((length, problem)) => self.fault(length.max(1), StatementProblem::Formula(problem)),
            },
            Some(_) if starts_name(rest) => self.function(to),
            Some(_) => self.unexpected(),
        }
    }

    /// The parameter with the longest name that stands here, and how long it is.
    fn name_here(&self) -> Option<(usize, usize)> {
        let rest = &self.text[self.at..];
        let found = self.names.iter().enumerate().filter(|(i, _)| self.without != Some(*i));
        found
            .filter_map(|(i, name)| Some((i, length_of(name, rest)?)))
            .max_by_key(|(i, length)| (*length, usize::MAX - i))
    }

    /// Refuses a name that is not plain where it could also be a computation, such as `log(x)` beside `x`.
    fn check_ambiguous(&self, name: usize, length: usize) -> Result<(), Fault> {
        if self.without.is_some() || is_plain(&self.names[name]) {
            return Ok(());
        }
        let text = &self.text[self.at..self.at + length];
        let mut other = Parser { text, names: self.names, at: 0, depth: 0, without: Some(name) };
        match other.sum().is_ok() && other.rest().is_empty() {
            true => self.fault(length, StatementProblem::Ambiguous(self.names[name].clone())),
            false => Ok(()),
        }
    }

    fn quoted(&mut self, to: &mut Quantity) -> Result<(), Fault> {
        let rest = self.rest();
        let (name, length) = match lexer::quoted(rest, '`') {
            Ok((lexer::Token::Name(name, _), length)) => (name, length),
            Ok((_, length)) => return self.fault(length, StatementProblem::NoOperand),
            Err((length, problem)) => return self.fault(length, StatementProblem::Formula(problem)),
        };
        let whole = |known: &String| length_of(known, &name) == Some(name.len());
        let exact = self.names.iter().position(|known| *known == name);
        let Some(at) = exact.or_else(|| self.names.iter().position(whole)) else {
            let nearest = self.nearest(&name);
            return self.fault(length, StatementProblem::Unknown { name, nearest });
        };
        self.at += length;
        to.0.push(Step::Parameter(at));
        Ok(())
    }

    /// A function; or a name that is none.
    fn function(&mut self, to: &mut Quantity) -> Result<(), Fault> {
        let rest = self.rest();
        let length = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        let opens = after.trim_start().chars().next().filter(|c| ['(', '['].contains(c));
        if let (Some((_, step)), Some('(')) = (FUNCTIONS.iter().find(|(function, _)| *function == name), opens) {
            self.at += length;
            self.rest();
            let open = self.at;
            self.at += 1;
            self.deeper(|parser| parser.sum_into(to))?;
            self.close(open)?;
            to.0.push(*step);
            return Ok(());
        }
        if ["and", "or", "not"].contains(&name) && opens.is_none() {
            let problem = if name == "and" { StatementProblem::NoOperand } else { StatementProblem::Or };
            return self.fault(length, problem);
        }
        let Some(open) = opens else {
            let nearest = self.nearest(name);
            return self.fault(length, StatementProblem::Unknown { name: name.into(), nearest });
        };
        // Up to the end of the parentheses: what the name of a parameter may look like.
        let (mut depth, close) = (0, if open == '(' { ')' } else { ']' });
        let ends = |(_, c): &(usize, char)| {
            depth += i32::from(*c == open) - i32::from(*c == close);
            *c == close && depth == 0
        };
        let end = rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at + 1);
        let name = rest[..end].to_owned();
        let nearest = self.nearest(&name);
        self.fault(
            end,
            if open == '(' {
                StatementProblem::UnknownFunction { name, nearest }
            } else {
                StatementProblem::Unknown { name, nearest }
            },
        )
    }

    fn nearest(&self, name: &str) -> Vec<String> {
        nearest(name, self.names.iter().map(String::as_str))
    }

    fn close(&mut self, open: usize) -> Result<(), Fault> {
        if self.take(")") {
            return Ok(());
        }
        if self.rest().is_empty() || self.rest().starts_with(['<', '>', '=']) {
            return Err(Fault { span: Span { start: open, end: open + 1 }, problem: StatementProblem::NotClosed });
        }
        self.unexpected()
    }
}

/// How much of the beginning of `text` is this name, whatever its spaces; `None` if it is not, or if a longer word stands there.
fn length_of(name: &str, text: &str) -> Option<usize> {
    let mut rest = text;
    for c in name.chars().filter(|c| !c.is_whitespace()) {
        rest = rest.trim_start().strip_prefix(c)?;
    }
    let ends_as_name = name.chars().next_back().is_some_and(continues_name);
    let length = text.len() - rest.len();
    (length > 0 && !(ends_as_name && rest.starts_with(continues_name))).then_some(length)
}
