//! Draws as a Zarr store (format 2, uncompressed) that xarray and ArviZ open, and that natmix reads back.
//!
//! A store is a folder of JSON documents and raw arrays, so no library is needed to write one.
//!
//! An array has the name of its folder. Names that no folder can have, or that are taken, are changed, and end with `~` and a
//! number; the attribute `long_name` always has the original one.

use natmix::Error;
use natmix::save::checksum::Checksum;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Arrays that number chains and draws in each group.
pub const COORDINATES: [&str; 2] = ["chain", "draw"];

/// A store that is being filled; nothing is written before [`Store::write`].
#[derive(Debug, Default)]
pub struct Store {
    documents: Map<String, Value>,
    arrays: Vec<(String, Vec<u8>)>,
    /// Folders of the arrays.
    taken: BTreeSet<String>,
}

/// Values of an array.
pub enum ZarrValues<'a> {
    /// Floating point.
    Float(&'a [f64]),
    /// Whole numbers.
    Int(&'a [i64]),
    /// True or false.
    Bool(&'a [bool]),
    /// Names.
    Text(&'a [String]),
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
        let path = self.free_path(group, name);
        let (dtype, fill, bytes): (String, Value, Vec<u8>) = match values {
            ZarrValues::Float(x) => ("<f8".into(), json!("NaN"), x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            ZarrValues::Int(x) => ("<i8".into(), Value::Null, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            ZarrValues::Text(x) => text(x),
            ZarrValues::Bool(x) => ("|b1".into(), Value::Null, x.iter().map(|x| u8::from(*x)).collect()),
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
        let attributes = json!({"_ARRAY_DIMENSIONS": dims, "long_name": name, "checksum": Checksum::of(&bytes)});
        self.documents.insert(format!("{path}/.zattrs"), attributes);
        let chunk = vec!["0"; shape.len()].join(".");
        self.arrays.push((format!("{path}/{chunk}"), bytes));
    }

    /// The folder for a new array.
    fn free_path(&mut self, group: &str, name: &str) -> String {
        let safe = file_name(name);
        let changed = (1_u64..).map(|n| format!("{group}/{safe}~{n}"));
        let kept = (safe == name).then(|| format!("{group}/{safe}"));
        let path = kept.into_iter().chain(changed).find(|path| !self.taken.contains(path)).unwrap_or_default();
        self.taken.insert(path.clone());
        path
    }

    /// Writes the store to `dir`, replacing an existing one.
    pub fn write(mut self, dir: &Path) -> Result<(), Error> {
        let part = dir.with_extension("zarr.part");
        let _ = fs::remove_dir_all(&part);
        let consolidated = json!({"metadata": self.documents.clone(), "zarr_consolidated_format": 1});
        self.documents.insert(".zmetadata".into(), consolidated);
        let mut created = BTreeSet::new();
        let mut put = |name: &str, bytes: &[u8]| -> Result<(), Error> {
            let path = part.join(name);
            let folder = path.parent().unwrap_or(&part);
            if created.insert(folder.to_owned()) {
                fs::create_dir_all(folder).map_err(|error| io(folder, error))?;
            }
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

/// Type, fill value and bytes of texts of the same length in UTF-32.
fn text(texts: &[String]) -> (String, Value, Vec<u8>) {
    let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let padded = |text: &String| -> Vec<u8> {
        let codes = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(longest);
        codes.flat_map(u32::to_le_bytes).collect()
    };
    (format!("<U{longest}"), json!(""), texts.iter().flat_map(padded).collect())
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io { file: path.display().to_string(), source }
}

fn bad(path: &Path, problem: String) -> Error {
    Error::BadFile { file: path.display().to_string(), problem }
}

/// Most bytes of a folder's name before `~`: systems allow 255 in all.
const MOST_BYTES: usize = 100;

/// A character that names of folders can have on every system.
fn safe(c: char) -> char {
    if c.is_control() || "/\\:*?\"<>|".contains(c) { '_' } else { c }
}

/// A name that a folder can have on every system.
fn file_name(name: &str) -> String {
    let (mut short, mut safe) = (String::new(), name.chars().map(safe).peekable());
    // Hidden folders, and those of the file system.
    if safe.peek().is_none_or(|first| *first == '.') {
        short.push('_');
    }
    short.extend(safe.scan(1, |bytes, c| {
        *bytes += c.len_utf8();
        (*bytes <= MOST_BYTES).then_some(c)
    }));
    short
}

/// The folders of the arrays in a group, by the original names of the arrays. More than one array may have the same name.
pub fn folders(dir: &Path, group: &str) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let path = dir.join(".zmetadata");
    let text = fs::read_to_string(&path).map_err(|error| io(&path, error))?;
    let all: Value = serde_json::from_str(&text).map_err(|_| bad(&path, "is damaged".into()))?;
    let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, about) in all["metadata"].as_object().into_iter().flatten() {
        let folder = key.strip_prefix(group).and_then(|key| key.strip_prefix('/')?.strip_suffix("/.zattrs"));
        if let (Some(folder), Some(name)) = (folder, about["long_name"].as_str()) {
            folders.entry(name.to_owned()).or_default().push(folder.to_owned());
        }
    }
    // In the order in which they were added.
    folders.values_mut().for_each(|folders| folders.sort_by_key(|folder| (folder.len(), folder.clone())));
    Ok(folders)
}

/// The folder that version 0.1 gave to an array.
pub fn first_file_name(name: &str) -> String {
    let safe: String = name.chars().map(safe).collect();
    match safe.as_str() {
        "" | "." | ".." => "_".into(),
        _ if safe.starts_with('.') => format!("_{safe}"),
        _ => safe,
    }
}

/// Reads the floating-point array in the folder `group/folder` of a store that natmix wrote: shape and values.
pub fn read_array(dir: &Path, group: &str, folder: &str) -> Result<(Vec<usize>, Vec<f64>), Error> {
    let (shape, bytes) = read_bytes(dir, group, folder, ("<f8", 8))?;
    Ok((shape, bytes.as_chunks().0.iter().copied().map(f64::from_le_bytes).collect()))
}

/// Reads an array of whole numbers.
pub fn read_whole(dir: &Path, group: &str, folder: &str) -> Result<Vec<i64>, Error> {
    let bytes = read_bytes(dir, group, folder, ("<i8", 8))?.1;
    Ok(bytes.as_chunks().0.iter().copied().map(i64::from_le_bytes).collect())
}

/// Reads an array of true and false.
pub fn read_flags(dir: &Path, group: &str, folder: &str) -> Result<Vec<bool>, Error> {
    Ok(read_bytes(dir, group, folder, ("|b1", 1))?.1.into_iter().map(|byte| byte != 0).collect())
}

/// The bytes of an array whose numbers have this type and width.
fn read_bytes(
    dir: &Path,
    group: &str,
    folder: &str,
    (dtype, width): (&str, usize),
) -> Result<(Vec<usize>, Vec<u8>), Error> {
    let folder: PathBuf = dir.join(group).join(folder);
    let read = |name: &str| -> Result<Value, Error> {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).map_err(|error| io(&path, error))?;
        serde_json::from_str(&text).map_err(|_| bad(&path, "is damaged".into()))
    };
    let (about, attributes) = (read(".zarray")?, read(".zattrs")?);
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
    if count.and_then(|n| n.checked_mul(width)) != Some(bytes.len()) {
        return Err(bad(&chunk, format!("has {} bytes, which does not fit its shape {shape:?}", bytes.len())));
    }
    // Version 0.1 wrote none.
    if attributes["checksum"].as_str().is_some_and(|stated| stated != Checksum::of(&bytes)) {
        return Err(bad(&chunk, "is damaged (its checksum does not match its contents): fit again".into()));
    }
    Ok((shape, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("natmix-zarr-{test}-{}.zarr", std::process::id()))
    }

    #[test]
    fn arrays_are_read_back_unchanged() {
        let dir = folder("read");
        let mut store = Store::new(json!({"a": 1}));
        store.group("posterior", json!({}));
        let values = [1.0, f64::NAN, -0.5, 1e300, 2.0, 3.0];
        store.array("posterior", "beta/1", &["chain", "draw"], &[2, 3], ZarrValues::Float(&values));
        store.write(&dir).unwrap();
        assert_eq!(folders(&dir, "posterior").unwrap()["beta/1"], ["beta_1~1"]);
        let (shape, read) = read_array(&dir, "posterior", "beta_1~1").unwrap();
        assert_eq!(shape, [2, 3]);
        assert_eq!(read.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), values.map(f64::to_bits));
        let chunk = dir.join("posterior/beta_1~1/0.0");
        let mut bytes = fs::read(&chunk).unwrap();
        bytes[47] ^= 0x80;
        fs::write(&chunk, &bytes).unwrap();
        assert!(read_array(&dir, "posterior", "beta_1~1").unwrap_err().to_string().contains("checksum"));
        fs::write(&chunk, b"short").unwrap();
        assert!(read_array(&dir, "posterior", "beta_1~1").unwrap_err().to_string().contains("5 bytes"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn every_name_has_a_folder_of_its_own() {
        let dir = folder("names");
        let long = ["x".repeat(300), "x".repeat(301), "\u{e9}".repeat(200)];
        let names = ["a/b", "a_b", "a:b", "a", "a", "draw", "chain", "", ".", "..", "\u{1b}[31m", "A", "../../etc"];
        let names: Vec<&str> = names.into_iter().chain(long.iter().map(String::as_str)).collect();
        let mut store = Store::new(json!({}));
        store.group("posterior", json!({}));
        store.array("posterior", "chain", &["chain"], &[1], ZarrValues::Int(&[0]));
        store.array("posterior", "draw", &["draw"], &[1], ZarrValues::Int(&[0]));
        for (i, name) in names.iter().enumerate() {
            store.array("posterior", name, &["chain", "draw"], &[1, 1], ZarrValues::Float(&[i as f64]));
        }
        store.write(&dir).unwrap();
        let folders = folders(&dir, "posterior").unwrap();
        for (i, name) in names.iter().enumerate() {
            let earlier = names[..i].iter().filter(|other| *other == name).count();
            let reserved = usize::from(["chain", "draw"].contains(name));
            let folder = &folders[*name][earlier + reserved];
            assert_eq!(read_array(&dir, "posterior", folder).unwrap().1, [i as f64], "{name}");
            assert!(folder.len() < 110 && !folder.contains(['/', '\u{1b}']) && !folder.starts_with('.'), "{folder}");
        }
        // Names that need no change have none.
        for name in ["a", "a_b", "A"] {
            assert_eq!(folders[name][0], name);
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn names_become_safe_folder_names() {
        assert_eq!(file_name("../x"), "_.._x");
        assert_eq!(file_name(".."), "_..");
        assert_eq!(file_name("(intercept)"), "(intercept)");
        assert_eq!(first_file_name(".."), "_");
    }
}
