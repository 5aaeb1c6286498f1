//! Data and draws in files, compressed or not.

use crate::battery::sample::{SortedColumn, WeightedSample};
use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use std::fs;
use std::io::Read;
use std::path::Path;

/// The text of a file, decompressed if its name ends with `.gz`.
pub fn read_text(path: &Path) -> Result<String> {
    let read = || -> std::io::Result<String> {
        let bytes = fs::read(path)?;
        let mut text = String::new();
        match path.extension().is_some_and(|ending| ending == "gz") {
            true => MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).map(|_| text),
            false => String::from_utf8(bytes).map_err(std::io::Error::other),
        }
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// Draws in a table with a header.
pub struct DrawsFile(WeightedSample);

impl DrawsFile {
    /// Reads a table of numbers.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&read_text(path)?).with_context(|| format!("{} is not a table of draws", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let header = lines.next().context("it is empty")?;
        // Names such as "Sigma[1,2]" contain commas, and are in quotation marks then.
        let names: Vec<String> = split_header(header);
        let mut values = Vec::new();
        for (i, line) in lines.enumerate() {
            for field in line.split(',') {
                let value: f64 = field.parse().with_context(|| format!("row {}: `{field}` is not a number", i + 1))?;
                ensure!(value.is_finite(), "row {}: `{field}` is not finite", i + 1);
                values.push(value);
            }
            ensure!(values.len() == (i + 1) * names.len(), "row {} does not have {} numbers", i + 1, names.len());
        }
        Ok(Self(WeightedSample { names, values, weights: None }))
    }

    /// The draws of a parameter.
    pub fn column(&self, name: &str) -> Result<SortedColumn> {
        let j = self.0.names.iter().position(|known| known == name);
        Ok(self.0.column(j.with_context(|| format!("there are no draws of {name}"))?))
    }
}

impl From<DrawsFile> for WeightedSample {
    fn from(file: DrawsFile) -> Self {
        file.0
    }
}

fn split_header(line: &str) -> Vec<String> {
    let (mut names, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(String::new()),
            c => names.last_mut().into_iter().for_each(|name| name.push(c)),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_draws_are_checked() {
        let table = DrawsFile::parse("a,\"S[1,2]\"\n1,2\n3,4\n").unwrap();
        assert_eq!(table.column("S[1,2]").unwrap().moments().mean, 3.0);
        assert!(table.column("b").err().unwrap().to_string().contains("no draws of b"));
        for (text, problem) in
            [("", "empty"), ("a,b\n1\n", "2 numbers"), ("a\nx\n", "`x` is not a number"), ("a\nNaN\n", "not finite")]
        {
            let error = DrawsFile::parse(text).err().unwrap();
            assert!(format!("{error:#}").contains(problem), "{error:#}");
        }
        let error = read_text(Path::new("nowhere.json")).unwrap_err();
        assert!(error.to_string().contains("nowhere.json"));
    }
}
