//! The header: names of the columns, all different.

use super::decode;
use super::number;
use super::records::Records;
use crate::error::{DataError, shown};
use std::collections::HashMap;
use std::path::Path;

/// Names of the columns, and whether they had to be decoded. A column without a name has the name "": its values tell what it is.
pub(super) fn read_header(path: &Path, records: &mut Records) -> Result<(Vec<String>, bool), DataError> {
    let file = || path.to_path_buf();
    loop {
        if !records.advance()? {
            return Err(DataError::Empty { file: file() });
        }
        if !records.record().is_blank() {
            break;
        }
    }
    let mut names = Vec::with_capacity(records.record().field_count());
    let (mut numbers, mut decoded) = (0, false);
    let is_number = |field: &[u8]| {
        number::parse(field).is_some() || field.contains(&b',') && number::leading(field, b',').is_some()
    };
    records.record().for_each(|field| {
        numbers += usize::from(is_number(field));
        let (name, was_decoded) = decode::text(field.trim_ascii());
        decoded |= was_decoded;
        names.push(name.into_owned());
    });
    if numbers > 0 && names.iter().all(|name| is_number(name.as_bytes()) || number::is_missing(name.as_bytes())) {
        let first_line = shown(names.join(char::from(records.dialect.separator).to_string().as_str()).as_bytes());
        return Err(DataError::NoHeader { file: file(), first_line, columns: names.len() });
    }
    let mut seen = HashMap::new();
    for (i, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        if let Some(first) = seen.insert(name.as_str(), i) {
            let column = shown(name.as_bytes());
            return Err(DataError::DuplicateColumn { file: file(), column, first: first + 1, second: i + 1 });
        }
    }
    match records.first_row {
        // The header alone ends with a separator.
        Some((fields, _)) if fields + 1 == names.len() && names.last().is_some_and(String::is_empty) => {
            names.pop();
        }
        // The rows do: a column without name and values.
        Some((fields, true)) if fields == names.len() + 1 && fields > 2 => names.push(String::new()),
        _ => {}
    }
    Ok((names, decoded))
}
