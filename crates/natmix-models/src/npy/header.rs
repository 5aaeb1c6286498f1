//! The header of a `.npy` file: a Python dictionary with three known keys.

use crate::error::{DataError, shown};
use std::path::Path;

/// The contents of the header.
#[derive(Debug)]
pub(super) struct Header {
    pub descr: String,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

impl Header {
    /// Parses the dictionary; accepts only types and shapes that this crate supports.
    pub fn parse(text: &[u8]) -> Result<Header, String> {
        let mut parser = Parser { rest: text };
        let damaged = || format!("the header is damaged: `{}`", shown(text));
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        parser.expect("{").ok_or_else(damaged)?;
        while parser.expect("}").is_none() {
            let key = parser.string().filter(|_| parser.expect(":").is_some()).ok_or_else(damaged)?;
            let (known, repeated) = match key.as_str() {
                "descr" => {
                    if parser.peek() == Some(b'[') {
                        return Err("arrays of records are not supported (save one field alone)".into());
                    }
                    (true, descr.replace(parser.string().ok_or_else(damaged)?).is_some())
                }
                "fortran_order" => (true, fortran_order.replace(parser.boolean().ok_or_else(damaged)?).is_some()),
                "shape" => (true, shape.replace(parser.tuple().ok_or_else(damaged)?).is_some()),
                _ => (false, false),
            };
            if !known || repeated {
                return Err(damaged());
            }
            if parser.expect(",").is_none() && parser.peek() != Some(b'}') {
                return Err(damaged());
            }
        }
        if !parser.rest.trim_ascii().is_empty() {
            return Err(damaged());
        }
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(damaged());
        };
        if !["<f8", "<f4", "<i8"].contains(&descr.as_str()) {
            let descr = shown(descr.as_bytes());
            return Err(format!("values of type `{descr}` are not supported (save with .astype('<f8'))"));
        }
        if !matches!(shape.len(), 1 | 2) {
            return Err(format!("the array has {} dimensions, but 1 or 2 are needed (use .reshape)", shape.len()));
        }
        Ok(Header { descr, fortran_order, shape })
    }

    /// Checks that exactly the announced number of bytes follows, before memory is allocated for them.
    pub fn check_length(&self, file: &Path, there: u64) -> Result<(), DataError> {
        let size = if self.descr == "<f4" { 4u64 } else { 8 };
        let needed = self.shape.iter().try_fold(size, |product, size| product.checked_mul(*size as u64));
        if needed == Some(there) {
            return Ok(());
        }
        let shape = self.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
        let needed = needed.map_or("more bytes than can be addressed".into(), |needed| format!("{needed} bytes"));
        let problem =
            format!("{shape} values of type {} take {needed}, but {there} bytes follow (save it again)", self.descr);
        Err(DataError::BadFile { file: file.into(), problem })
    }
}

/// Parses the dictionary from the front.
struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.peek();
        self.rest = self.rest.strip_prefix(token.as_bytes())?;
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'))?;
        let length = self.rest[1..].iter().position(|byte| *byte == quote)?;
        let text = std::str::from_utf8(&self.rest[1..=length]).ok()?.to_string();
        self.rest = &self.rest[length + 2..];
        Some(text)
    }

    fn boolean(&mut self) -> Option<bool> {
        match self.expect("True") {
            Some(()) => Some(true),
            None => self.expect("False").map(|()| false),
        }
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        self.expect("(")?;
        let mut sizes = Vec::new();
        while self.expect(")").is_none() {
            self.peek();
            let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            sizes.push(std::str::from_utf8(&self.rest[..digits]).ok()?.parse().ok()?);
            self.rest = &self.rest[digits..];
            // Python 2 wrote sizes as long integers.
            let _ = self.expect("L");
            if self.expect(",").is_none() && self.peek() != Some(b')') {
                return None;
            }
        }
        Some(sizes)
    }
}
