//! Regression data sets with fixed splits into training and test rows, as the UCI experiments use them.
//!
//! A folder holds `data.txt.gz` (numbers, one row per line), `index_train.txt.gz` and `index_test.txt.gz` (one split
//! per line, rows counted from zero) and `meta.json`, which says what the columns are.

use natmix_models::DataError;
use natmix_models::source::{DataSource, read_error};
use serde::Deserialize;
use std::io::Read;
use std::path::Path;

/// A data set with its splits.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitSet {
    /// Features, one row after another.
    pub x: Vec<f64>,
    /// Number of features.
    pub features: usize,
    /// The outcome of each row.
    pub outcome: Vec<f64>,
    /// Training and test rows of each split.
    pub splits: Vec<(Vec<usize>, Vec<usize>)>,
}

#[derive(Deserialize)]
struct Meta {
    index_features: Vec<usize>,
    index_target: usize,
}

impl SplitSet {
    /// Reads a folder.
    pub fn read(folder: &Path) -> Result<Self, DataError> {
        let path = folder.join("meta.json");
        let bad = |path: &Path, problem: String| DataError::BadFile { file: path.into(), problem };
        let meta: Meta = serde_json::from_str(&text(&path)?).map_err(|error| bad(&path, error.to_string()))?;
        let path = folder.join("data.txt.gz");
        let rows = numbers::<f64>(&path)?;
        let columns = rows.first().map_or(0, Vec::len);
        let mut set =
            Self { x: Vec::new(), features: meta.index_features.len(), outcome: Vec::new(), splits: Vec::new() };
        for (line, row) in rows.iter().enumerate() {
            let at = |column: usize| row.get(column).copied().filter(|x| x.is_finite() && row.len() == columns);
            for &column in meta.index_features.iter().chain([&meta.index_target]) {
                let value =
                    at(column).ok_or_else(|| bad(&path, format!("line {}: no number in column {column}", line + 1)))?;
                if column == meta.index_target { set.outcome.push(value) } else { set.x.push(value) }
            }
        }
        let indices = |name: &str| -> Result<Vec<Vec<usize>>, DataError> {
            let path = folder.join(name);
            let splits = numbers::<usize>(&path)?;
            match splits.iter().flatten().find(|row| **row >= set.outcome.len()) {
                Some(row) => Err(bad(&path, format!("row {row}, but there are only {}", set.outcome.len()))),
                None => Ok(splits),
            }
        };
        let (train, test) = (indices("index_train.txt.gz")?, indices("index_test.txt.gz")?);
        if train.len() != test.len() || train.is_empty() || train.iter().chain(&test).any(Vec::is_empty) {
            return Err(bad(
                folder,
                format!("{} splits of training rows and {} of test rows", train.len(), test.len()),
            ));
        }
        set.splits = train.into_iter().zip(test).collect();
        Ok(set)
    }
}

fn text(path: &Path) -> Result<String, DataError> {
    let mut source = DataSource::open(path)?;
    let compressed = source.compressed;
    let mut text = String::new();
    source.reader.read_to_string(&mut text).map_err(|error| read_error(path, compressed, error))?;
    Ok(text)
}

/// Numbers separated by blanks; empty lines are skipped.
fn numbers<T: std::str::FromStr>(path: &Path) -> Result<Vec<Vec<T>>, DataError> {
    let text = text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(line, text): (usize, &str)| {
        let number = |word: &str| {
            word.parse().map_err(|_| DataError::BadFile {
                file: path.into(),
                problem: format!("line {}: `{word}` is not a number", line + 1),
            })
        };
        text.split_whitespace().map(number).collect()
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_and_damaged_files_are_refused() {
        let folder = std::env::temp_dir().join(format!("natmix-splits-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("meta.json", "{\"index_features\": [0, 2], \"index_target\": 1}");
        write("data.txt.gz", "1 2 3\n4 5 6\n\n7 8 9\n");
        write("index_train.txt.gz", "0 2\n1 2\n");
        write("index_test.txt.gz", "1\n0\n");
        let set = SplitSet::read(&folder).unwrap();
        assert_eq!((&set.x[..], &set.outcome[..]), (&[1.0, 3.0, 4.0, 6.0, 7.0, 9.0][..], &[2.0, 5.0, 8.0][..]));
        assert_eq!(set.splits[1], (vec![1, 2], vec![0]));
        let message = || SplitSet::read(&folder).unwrap_err().to_string();
        write("index_test.txt.gz", "1\n3\n");
        assert!(message().contains("row 3, but there are only 3"));
        write("data.txt.gz", "1 2 3\n4 5\n");
        assert!(message().contains("line 2"));
        write("data.txt.gz", "1 2 x\n");
        assert!(message().contains("`x` is not a number"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
