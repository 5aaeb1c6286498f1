//! From the text of a formula to tokens.

use super::error::{Fault, FormulaProblem, Span};

/// A piece of a formula.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Number(f64),
    /// The name of a column or function; whether it stood in backquotes.
    Name(String, bool),
    /// Text in quotes.
    Text(String),
    Tilde,
    Plus,
    Minus,
    Star,
    Slash,
    In,
    Colon,
    Power,
    Bar,
    DoubleBar,
    Open,
    Close,
    Comma,
    Equals,
    /// A dot on its own: all other columns.
    Others,
}

/// Whether a name can be written without backquotes.
pub(crate) fn is_plain(name: &str) -> bool {
    starts_name(name) && name.chars().all(continues_name)
}

/// A name starts with a letter or underscore, or with dots before one.
pub(crate) fn starts_name(text: &str) -> bool {
    text.trim_start_matches('.').starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// What may follow in a name.
pub(crate) fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Splits a formula into tokens with their places.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Span)>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, length) = token(&text[at..], c).map_err(|(length, problem)| Fault {
            span: Span { start: at, end: at + length.max(c.len_utf8()) },
            problem,
        })?;
        tokens.push((token, Span { start: at, end: at + length }));
        at += length;
    }
    Ok(tokens)
}

/// The token at the start of `rest`, whose first character is `c`, and its length in bytes.
fn token(rest: &str, c: char) -> Result<(Token, usize), (usize, FormulaProblem)> {
    let follows = |text: &str| rest.starts_with(text);
    let simple = match c {
        '~' => Token::Tilde,
        '+' => Token::Plus,
        '-' => Token::Minus,
        '*' if follows("**") => return Ok((Token::Power, 2)),
        '*' => Token::Star,
        '/' => Token::Slash,
        '%' if follows("%in%") => return Ok((Token::In, 4)),
        ':' => Token::Colon,
        '^' => Token::Power,
        '|' if follows("||") => return Ok((Token::DoubleBar, 2)),
        '|' => Token::Bar,
        '(' => Token::Open,
        ')' => Token::Close,
        ',' => Token::Comma,
        '=' if !follows("==") => Token::Equals,
        '`' | '"' | '\'' => return quoted(rest, c),
        _ if starts_name(rest) => {
            let length = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
            return Ok((Token::Name(rest[..length].into(), false), length));
        }
        _ if rest.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit()) && !follows("..") => {
            return number(rest);
        }
        '.' => Token::Others,
        other => return Err((other.len_utf8(), FormulaProblem::Character(other))),
    };
    Ok((simple, 1))
}

/// Text between two quotes, and its length with them.
pub(crate) fn quoted(rest: &str, quote: char) -> Result<(Token, usize), (usize, FormulaProblem)> {
    let Some(length) = rest[1..].find(quote) else {
        return Err((rest.len(), FormulaProblem::Unclosed(quote)));
    };
    let inside = &rest[1..=length];
    match quote {
        '`' if inside.is_empty() => Err((2, FormulaProblem::EmptyName)),
        '`' => Ok((Token::Name(inside.into(), true), length + 2)),
        _ => Ok((Token::Text(inside.into()), length + 2)),
    }
}

/// A number, and its length.
pub(crate) fn number(rest: &str) -> Result<(Token, usize), (usize, FormulaProblem)> {
    let bytes = rest.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits((length + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    match rest[..length].parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Token::Number(value), length)),
        _ => Err((length, FormulaProblem::Number(rest[..length].into()))),
    }
}
