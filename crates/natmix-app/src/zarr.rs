//! Draws as a Zarr store (format 2, uncompressed) that xarray and ArviZ open, and that natmix reads back.
//!
//! A store is a folder of JSON documents and raw arrays, so no library is needed to write one.

use natmix::Error;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A store that is being filled; nothing is written before [`Store::write`].
#[derive(Debug, Default)]
pub struct Store {
    documents: Map<String, Value>,
    arrays: Vec<(String, Vec<u8>)>,
}

/// Values of an array.
pub enum ZarrValues<'a> {
    /// Floating point.
    Float(&'a [f64]),
    /// Whole numbers.
    Int(&'a [i64]),
}

impl Store {
    /// A store whose root carries `attributes`.
    pub fn new(attributes: Value) -> Self {
        let mut store = Self::default();
        store.documents.insert(".zgroup".into(), json!({"zarr_format": 2}));
        store.documents.insert(".zattrs".into(), attributes);
        store
    }

    /// Adds a group.
    pub fn group(&mut self, name: &str, attributes: Value) {
        self.documents.insert(format!("{name}/.zgroup"), json!({"zarr_format": 2}));
        self.documents.insert(format!("{name}/.zattrs"), attributes);
    }

    /// Adds an array in one chunk, with one named dimension for each length in `shape`.
    pub fn array(&mut self, group: &str, name: &str, dims: &[&str], shape: &[usize], values: ZarrValues<'_>) {
        let path = format!("{group}/{}", file_name(name));
        let (dtype, fill, bytes): (_, Value, Vec<u8>) = match values {
            ZarrValues::Float(x) => ("<f8", json!("NaN"), x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            ZarrValues::Int(x) => ("<i8", Value::Null, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
        };
        let about = json!({
            "chunks": shape,
            "compressor": null,
            "dtype": dtype,
            "fill_value": fill,
            "filters": null,
            "order": "C",
            "shape": shape,
            "zarr_format": 2,
        });
        self.documents.insert(format!("{path}/.zarray"), about);
        self.documents.insert(format!("{path}/.zattrs"), json!({"_ARRAY_DIMENSIONS": dims}));
        let chunk = vec!["0"; shape.len()].join(".");
        self.arrays.push((format!("{path}/{chunk}"), bytes));
    }

    /// Writes the store to `dir`, replacing an existing one.
    pub fn write(mut self, dir: &Path) -> Result<(), Error> {
        let part = dir.with_extension("zarr.part");
        let _ = fs::remove_dir_all(&part);
        let consolidated = json!({"metadata": self.documents.clone(), "zarr_consolidated_format": 1});
        self.documents.insert(".zmetadata".into(), consolidated);
        let put = |name: &str, bytes: &[u8]| -> Result<(), Error> {
            let path = part.join(name);
            let folder = path.parent().unwrap_or(&part);
            fs::create_dir_all(folder).map_err(|error| io(folder, error))?;
            fs::write(&path, bytes).map_err(|error| io(&path, error))
        };
        for (name, document) in &self.documents {
            put(name, serde_json::to_string_pretty(document).map_err(|error| io(dir, error.into()))?.as_bytes())?;
        }
        for (name, bytes) in &self.arrays {
            put(name, bytes)?;
        }
        let _ = fs::remove_dir_all(dir);
        fs::rename(&part, dir).map_err(|error| io(dir, error))
    }
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io { file: path.display().to_string(), source }
}

fn bad(path: &Path, problem: String) -> Error {
    Error::BadFile { file: path.display().to_string(), problem }
}

/// A name that is a valid folder name on every system; readers use these names too.
pub fn file_name(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_control() || "/\\:*?\"<>|".contains(c) { '_' } else { c }).collect();
    match safe.as_str() {
        "" | "." | ".." => "_".into(),
        _ if safe.starts_with('.') => format!("_{safe}"),
        _ => safe,
    }
}

/// Reads the floating-point array `group/name` of a store that natmix wrote: shape and values.
pub fn read_array(dir: &Path, group: &str, name: &str) -> Result<(Vec<usize>, Vec<f64>), Error> {
    let (shape, bytes) = read_bytes(dir, group, name, "<f8")?;
    Ok((shape, bytes.into_iter().map(f64::from_le_bytes).collect()))
}

/// Reads an array of whole numbers.
pub fn read_whole(dir: &Path, group: &str, name: &str) -> Result<Vec<i64>, Error> {
    Ok(read_bytes(dir, group, name, "<i8")?.1.into_iter().map(i64::from_le_bytes).collect())
}

fn read_bytes(dir: &Path, group: &str, name: &str, dtype: &str) -> Result<(Vec<usize>, Vec<[u8; 8]>), Error> {
    let folder: PathBuf = dir.join(group).join(file_name(name));
    let about = folder.join(".zarray");
    let text = fs::read_to_string(&about).map_err(|error| io(&about, error))?;
    let about: Value = serde_json::from_str(&text).map_err(|_| bad(&about, "is damaged".into()))?;
    let shape: Vec<usize> = about["shape"]
        .as_array()
        .and_then(|shape| shape.iter().map(|n| n.as_u64().map(|n| n as usize)).collect())
        .ok_or_else(|| bad(&folder, "has no shape".into()))?;
    if about["dtype"] != dtype || about["compressor"] != Value::Null || about["chunks"] != about["shape"] {
        return Err(bad(&folder, "was not written by natmix".into()));
    }
    let chunk = folder.join(vec!["0"; shape.len()].join("."));
    let bytes = fs::read(&chunk).map_err(|error| io(&chunk, error))?;
    let count = shape.iter().try_fold(1usize, |n, m| n.checked_mul(*m));
    if count.and_then(|n| n.checked_mul(8)) != Some(bytes.len()) {
        return Err(bad(&chunk, format!("has {} bytes, which does not fit its shape {shape:?}", bytes.len())));
    }
    Ok((shape, bytes.as_chunks().0.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_back_unchanged() {
        let dir = std::env::temp_dir().join(format!("natmix-zarr-{}.zarr", std::process::id()));
        let mut store = Store::new(json!({"a": 1}));
        store.group("posterior", json!({}));
        let values = [1.0, f64::NAN, -0.5, 1e300, 2.0, 3.0];
        store.array("posterior", "beta/1", &["chain", "draw"], &[2, 3], ZarrValues::Float(&values));
        store.write(&dir).unwrap();
        let (shape, read) = read_array(&dir, "posterior", "beta/1").unwrap();
        assert_eq!(shape, [2, 3]);
        assert_eq!(read.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), values.map(f64::to_bits));
        fs::write(dir.join("posterior/beta_1/0.0"), b"short").unwrap();
        assert!(read_array(&dir, "posterior", "beta/1").unwrap_err().to_string().contains("5 bytes"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn names_become_safe_folder_names() {
        assert_eq!(file_name("../x"), "_.._x");
        assert_eq!(file_name(".."), "_");
        assert_eq!(file_name("(intercept)"), "(intercept)");
    }
}
