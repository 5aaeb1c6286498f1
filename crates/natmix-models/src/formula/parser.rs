//! From tokens to the syntax tree.
//!
//! ```text
//! formula      [sum ['|' sum]] '~' sum
//! sum          ['+' | '-'] product (('+' | '-') product)*
//! product      within (('*' | '/') within)*
//! within       interaction ('%in%' interaction)*
//! interaction  power (':' power)*
//! power        ['+' | '-'] atom ['^' power]
//! atom         number | text | name | '.' | name '(' [argument (',' argument)*] ')' | '(' sum [('|' | '||') sum] ')'
//! argument     [name '='] sum
//! ```

use super::error::{Fault, FormulaProblem, Span};
use super::lexer::{Token, tokens};
use super::syntax::{Argument, Expr, Node, Operator, Rank};

/// How deep parentheses, functions and powers may be nested.
const DEEPEST: usize = 60;

/// Longest formula, in bytes.
const LONGEST: usize = 200_000;

/// The three parts of a formula.
#[derive(Debug)]
pub(super) struct Parts {
    /// What stands before `~`, up to `|`.
    pub response: Option<Expr>,
    /// What stands between `|` and `~`.
    pub addition: Option<Expr>,
    /// What stands after `~`.
    pub terms: Expr,
}

/// Parses a whole formula.
pub(super) fn parse(text: &str) -> Result<Parts, Fault> {
    let end = Span { start: text.len(), end: text.len() };
    if text.len() > LONGEST {
        return Err(FormulaProblem::TooLong { longest: LONGEST }.at(end));
    }
    let tokens = tokens(text)?;
    let tildes: Vec<usize> = (0..tokens.len()).filter(|&i| tokens[i].0 == Token::Tilde).collect();
    match tildes[..] {
        _ if tokens.is_empty() => return Err(FormulaProblem::Empty.at(end)),
        [] => return Err(FormulaProblem::NoTilde.at(Span { start: 0, end: text.len() })),
        [_] => {}
        [_, second, ..] => return Err(FormulaProblem::SecondTilde.at(tokens[second].1)),
    }
    let mut parser = Parser { tokens: &tokens, at: 0, end, depth: 0 };
    let (mut response, mut addition) = (None, None);
    if tildes != [0] {
        response = Some(parser.sum()?);
        if parser.take(&Token::Bar) {
            addition = Some(parser.sum()?);
        }
    }
    if !parser.take(&Token::Tilde) {
        return Err(parser.unexpected());
    }
    if parser.at == tokens.len() {
        return Err(FormulaProblem::NothingExplains.at(tokens[tildes[0]].1));
    }
    let terms = parser.sum()?;
    match parser.peek() {
        None => Ok(Parts { response, addition, terms }),
        Some(Token::Bar | Token::DoubleBar) => Err(FormulaProblem::BareBar.at(parser.span())),
        Some(_) => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    tokens: &'a [(Token, Span)],
    at: usize,
    end: Span,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    /// Place of the next token.
    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(self.end, |(_, span)| *span)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    /// Runs `inner` one level deeper.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEEPEST {
            return Err(FormulaProblem::TooDeep { deepest: DEEPEST }.at(self.span()));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// What to say about a token that cannot stand where it does.
    fn unexpected(&self) -> Fault {
        let problem = match self.peek() {
            None => FormulaProblem::Ends,
            Some(Token::Close) => FormulaProblem::StrayClose,
            Some(Token::Bar | Token::DoubleBar) => FormulaProblem::BareBar,
            Some(Token::Number(_) | Token::Name(..) | Token::Text(_) | Token::Open | Token::Others) if self.at > 0 => {
                FormulaProblem::MissingOperator
            }
            Some(_) => FormulaProblem::NoOperand,
        };
        problem.at(self.span())
    }

    fn sum(&mut self) -> Result<Expr, Fault> {
        let start = self.span();
        let first = match self.peek() {
            Some(Token::Minus) => {
                self.at += 1;
                negative(start, self.chain(Rank::Product)?)
            }
            _ => {
                self.take(&Token::Plus);
                self.chain(Rank::Product)?
            }
        };
        self.continued(first, Rank::Sum)
    }

    /// Operands of this rank or tighter, joined by its operators.
    fn chain(&mut self, rank: Rank) -> Result<Expr, Fault> {
        if rank >= Rank::Power {
            return self.power();
        }
        let first = self.chain(rank.tighter())?;
        self.continued(first, rank)
    }

    fn continued(&mut self, first: Expr, rank: Rank) -> Result<Expr, Fault> {
        let mut rest = Vec::new();
        while let Some(operator) = self.peek().and_then(operator).filter(|operator| operator.rank() == rank) {
            self.at += 1;
            rest.push((operator, self.chain(rank.tighter())?));
        }
        let Some((_, last)) = rest.last() else { return Ok(first) };
        let span = Span { start: first.span.start, end: last.span.end };
        Ok(Expr { node: Node::Chain { first: Box::new(first), rest }, span })
    }

    fn power(&mut self) -> Result<Expr, Fault> {
        let start = self.span();
        if self.take(&Token::Minus) {
            return Ok(negative(start, self.deeper(Self::power)?));
        }
        if self.take(&Token::Plus) {
            return self.deeper(Self::power);
        }
        let base = self.atom()?;
        if !self.take(&Token::Power) {
            return Ok(base);
        }
        let exponent = self.deeper(Self::power)?;
        let span = Span { start: base.span.start, end: exponent.span.end };
        Ok(Expr { node: Node::Power(Box::new(base), Box::new(exponent)), span })
    }

    fn atom(&mut self) -> Result<Expr, Fault> {
        let (start, tokens) = (self.span(), self.tokens);
        let node = match self.peek() {
            Some(Token::Number(value)) => Node::Number(*value),
            Some(Token::Text(text)) => Node::Text(text.clone()),
            Some(Token::Others) => Node::Others,
            Some(Token::Name(name, false)) if matches!(tokens.get(self.at + 1), Some((Token::Open, _))) => {
                let function = name.clone();
                self.at += 2;
                let arguments = self.deeper(|parser| parser.arguments(start, &function))?;
                return Ok(Expr { node: Node::Call { function, arguments }, span: self.since(start) });
            }
            Some(Token::Name(name, _)) => Node::Column(name.clone()),
            Some(Token::Open) => {
                self.at += 1;
                return self.deeper(|parser| parser.parentheses(start));
            }
            Some(Token::Close) if self.at > 0 && tokens[self.at - 1].0 == Token::Open => {
                return Err(FormulaProblem::EmptyParentheses.at(self.since(tokens[self.at - 1].1)));
            }
            None => return Err(FormulaProblem::Ends.at(self.end)),
            Some(_) => return Err(FormulaProblem::NoOperand.at(start)),
        };
        self.at += 1;
        Ok(Expr { node, span: start })
    }

    /// From `start` to the end of the token before the next one.
    fn since(&self, start: Span) -> Span {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        Span { start: start.start, end: last.map_or(start.end, |(_, span)| span.end) }
    }

    /// What follows an opening parenthesis, up to its end.
    fn parentheses(&mut self, open: Span) -> Result<Expr, Fault> {
        let inside = self.sum()?;
        let correlated = match self.peek() {
            Some(Token::Bar) => true,
            Some(Token::DoubleBar) => false,
            _ => {
                self.close(open)?;
                return Ok(inside);
            }
        };
        self.at += 1;
        let group = Box::new(self.sum()?);
        self.close(open)?;
        let node = Node::Varying { effects: Box::new(inside), group, correlated };
        Ok(Expr { node, span: self.since(open) })
    }

    fn close(&mut self, open: Span) -> Result<(), Fault> {
        if self.take(&Token::Close) {
            return Ok(());
        }
        match self.peek() {
            None | Some(Token::Tilde) => Err(FormulaProblem::NotClosed.at(open)),
            Some(Token::Bar | Token::DoubleBar) => Err(FormulaProblem::SecondBar.at(self.span())),
            Some(_) => Err(self.unexpected()),
        }
    }

    fn arguments(&mut self, start: Span, function: &str) -> Result<Vec<Argument>, Fault> {
        let mut arguments = Vec::new();
        if self.take(&Token::Close) {
            return Ok(arguments);
        }
        loop {
            let name = match (self.peek(), self.tokens.get(self.at + 1)) {
                (Some(Token::Name(name, false)), Some((Token::Equals, _))) => Some(name.clone()),
                _ => None,
            };
            self.at += 2 * usize::from(name.is_some());
            arguments.push(Argument { name, value: self.sum()? });
            if let Some(Token::Bar | Token::DoubleBar) = self.peek() {
                return Err(FormulaProblem::BarInFunction { name: function.into() }.at(self.since(start)));
            }
            if !self.take(&Token::Comma) {
                self.close(start)?;
                return Ok(arguments);
            }
        }
    }
}

fn operator(token: &Token) -> Option<Operator> {
    match token {
        Token::Plus => Some(Operator::Add),
        Token::Minus => Some(Operator::Remove),
        Token::Star => Some(Operator::Cross),
        Token::Slash => Some(Operator::Nest),
        Token::In => Some(Operator::In),
        Token::Colon => Some(Operator::Interact),
        _ => None,
    }
}

fn negative(start: Span, of: Expr) -> Expr {
    let span = Span { start: start.start, end: of.span.end };
    Expr { node: Node::Negative(Box::new(of)), span }
}
