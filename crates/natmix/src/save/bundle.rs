//! Named tensors and one JSON document in a safetensors file, written whole or not at all.
//!
//! The document stands under the single metadata key `natmix`, so that equal contents give equal bytes:
//!
//! ```text
//! {"format": 1, "kind": "posterior", "checksum": "0123456789abcdef", "content": {...}}
//! ```
//!
//! The [checksum](super::checksum) covers the whole file, with zeros in its own place. Files of version 0.1 have none.
//!
//! Files are not trusted: the length, header, kind and the type, shape and place of every tensor are checked before
//! memory is taken for the numbers, and the numbers before anything is made of them.

use super::checksum::Checksum;
use crate::error::Error;
use safetensors::tensor::{Dtype, Metadata, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Metadata key of the document.
const KEY: &str = "natmix";
/// Bytes of the header's length field.
const PREFIX: u64 = 8;
/// Longest header.
const MOST_HEADER: u64 = 16 << 20;
/// What stands in a header just before the checksum: the document is a string there, so its quotes are escaped.
const BEFORE_CHECKSUM: &[u8] = br#"\"checksum\":\""#;
/// What stands in the place of the checksum while it is computed.
const NO_CHECKSUM: &str = "0000000000000000";

/// Names and shapes of the tensors in a file.
pub type Layout = Vec<(String, Vec<usize>)>;

/// What can be kept in a file.
pub trait Stored: Sized {
    /// Its name in files and messages.
    const KIND: &'static str;
    /// Version of the format that this program writes, and the only one that it reads.
    const FORMAT: u64 = 1;
    /// All but the tensors.
    type Document: Serialize + DeserializeOwned;
    /// The tensors that a document calls for; fails with what is wrong in the document.
    fn layout(document: &Self::Document) -> Result<Layout, String>;
    /// Puts the whole together; the tensors have the shapes of the layout. Fails with what is wrong in them.
    fn assemble(document: Self::Document, tensors: Tensors) -> Result<Self, String>;
}

/// Named tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors(BTreeMap<String, Tensor>);

#[derive(Clone, Debug, PartialEq)]
struct Tensor {
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Tensors {
    /// Adds a tensor, row after row.
    pub fn add(&mut self, name: &str, shape: Vec<usize>, data: Vec<f64>) {
        self.0.insert(name.to_owned(), Tensor { shape, data });
    }
    /// Whether these are the tensors of `layout` and no others.
    pub fn check(&self, layout: &Layout) -> Result<(), String> {
        for (name, shape) in layout {
            if self.0.get(name).is_none_or(|tensor| tensor.shape != *shape) {
                return Err(format!("tensor `{name}` is missing or has another shape"));
            }
        }
        if self.0.len() > layout.len() { Err("it has more tensors than it should".into()) } else { Ok(()) }
    }
    /// Takes the tensors of `layout` out of these.
    pub(crate) fn split_off(&mut self, layout: &Layout) -> Self {
        Self(layout.iter().filter_map(|(name, _)| self.0.remove_entry(name)).collect())
    }
    /// Adds tensors of other names.
    pub(crate) fn join(&mut self, others: &Self) {
        self.0.extend(others.0.clone());
    }
    /// The numbers of a tensor.
    pub(crate) fn get(&self, name: &str) -> &[f64] {
        self.0.get(name).map_or(&[], |tensor| &tensor.data)
    }
    /// The numbers of a tensor of the layout.
    pub fn take(&mut self, name: &str) -> Vec<f64> {
        self.0.remove(name).map(|tensor| tensor.data).unwrap_or_default()
    }
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        Dtype::F64
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        self.data.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into()
    }
    fn data_len(&self) -> usize {
        8 * self.data.len()
    }
}

/// The part of the document that every version has.
#[derive(Deserialize)]
struct Label {
    format: u64,
    kind: String,
}

// A damaged name of the checksum must not pass for a file without one.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a, T> {
    format: u64,
    kind: Cow<'a, str>,
    // Before the content, which may have a field of the same name.
    #[serde(default)]
    checksum: Option<Cow<'a, str>>,
    content: T,
}

/// Why a file could not be read.
enum ReadFailure {
    Io(io::Error),
    /// Not such a file: a sentence.
    Foreign(String),
    /// Such a file, but broken: where.
    Damaged(String),
}

impl ReadFailure {
    fn into_error(self, file: String) -> Error {
        match self {
            ReadFailure::Io(source) => Error::Io { file, source },
            ReadFailure::Foreign(problem) => Error::BadFile { file, problem },
            ReadFailure::Damaged(what) => {
                Error::BadFile { file, problem: format!("is damaged ({what}): use a copy of it, or run the fit again") }
            }
        }
    }
}

fn foreign(what: &str) -> ReadFailure {
    ReadFailure::Foreign(format!("is not a file that natmix wrote, or is damaged ({what}): give one that `save` wrote"))
}

/// The bytes of a file. Fails on what could not be read again.
pub fn encode<S: Stored>(document: &S::Document, tensors: &Tensors) -> Result<Vec<u8>, Error> {
    let refuse = |what: String| Error::InvalidInput(format!("this {} cannot be saved: {what}", S::KIND));
    let checksum = Some(NO_CHECKSUM.into());
    let envelope = Envelope { format: S::FORMAT, kind: S::KIND.into(), checksum, content: document };
    let text = serde_json::to_string(&envelope).map_err(|error| refuse(error.to_string()))?;
    let metadata = HashMap::from([(KEY.to_owned(), text)]);
    let mut bytes = safetensors::serialize(&tensors.0, Some(metadata)).map_err(|error| refuse(error.to_string()))?;
    if let Some(place) = checksum_place(&bytes) {
        let checksum = Checksum::of(&bytes);
        bytes[place].copy_from_slice(checksum.as_bytes());
    }
    match read::<S>(&bytes[..], bytes.len() as u64) {
        Ok(_) => Ok(bytes),
        Err(ReadFailure::Foreign(what) | ReadFailure::Damaged(what)) => Err(refuse(what)),
        Err(ReadFailure::Io(error)) => Err(refuse(error.to_string())),
    }
}

/// Where the digits of the checksum are, in a header or in a whole file.
fn checksum_place(bytes: &[u8]) -> Option<Range<usize>> {
    let start = bytes.windows(BEFORE_CHECKSUM.len()).position(|part| part == BEFORE_CHECKSUM)? + BEFORE_CHECKSUM.len();
    Some(start..start + Checksum::DIGITS).filter(|place| place.end <= bytes.len())
}

/// Writes a file by way of a temporary one beside it: readers see the old file or the new one, never a part.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".natmix-{}-{now}-{count}.tmp", std::process::id()));
    write_and_rename(&temporary, path, bytes).map_err(|source| {
        // It may never have been created.
        let _ = fs::remove_file(&temporary);
        Error::Io { file: path.display().to_string(), source }
    })?;
    // The new name survives a power failure only after this; not every system supports it.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn write_and_rename(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, path)
}

/// Reads a file.
pub fn read_file<S: Stored>(path: &Path) -> Result<S, Error> {
    let open = || {
        // Asked before opening: a pipe would wait for its writer.
        if !fs::metadata(path).map_err(ReadFailure::Io)?.is_file() {
            return Err(ReadFailure::Foreign(format!("is not a regular file: give the {} file itself", S::KIND)));
        }
        let file = File::open(path).map_err(ReadFailure::Io)?;
        let len = file.metadata().map_err(ReadFailure::Io)?.len();
        read(io::BufReader::new(file), len)
    };
    open().map_err(|problem| problem.into_error(path.display().to_string()))
}

/// Reads the bytes of a file; `name` is used in messages.
pub fn read_bytes<S: Stored>(bytes: &[u8], name: &str) -> Result<S, Error> {
    read(bytes, bytes.len() as u64).map_err(|problem| problem.into_error(name.to_owned()))
}

fn read<S: Stored>(mut source: impl Read, len: u64) -> Result<S, ReadFailure> {
    let mut raw = read_header(&mut source, len)?;
    let payload = len - PREFIX - raw.len() as u64;
    // Parsing checks that the tensors tile their part of the file, each as long as its shape says.
    let header: Metadata = serde_json::from_slice(&raw).map_err(|error| foreign(&error.to_string()))?;
    let (document, stated) = read_document::<S>(&header)?;
    let mut checksum = Checksum::default();
    checksum.update(&(raw.len() as u64).to_le_bytes());
    if let (Some(place), Some(_)) = (checksum_place(&raw), &stated) {
        raw[place].copy_from_slice(NO_CHECKSUM.as_bytes());
    }
    checksum.update(&raw);
    drop(raw);
    let layout = S::layout(&document).map_err(ReadFailure::Damaged)?;
    check_tensors(&header, &layout, payload)?;
    let mut tensors = Tensors::default();
    // In the order in which they lie in the file.
    for name in header.offset_keys() {
        let Some(info) = header.info(&name) else { continue };
        let bytes = read_exactly(&mut source, info.data_offsets.1 - info.data_offsets.0)?;
        checksum.update(&bytes);
        let data = bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        tensors.add(&name, info.shape.clone(), data);
    }
    if stated.is_some_and(|stated| stated != checksum.text()) {
        return Err(ReadFailure::Damaged("its checksum does not match its contents".into()));
    }
    S::assemble(document, tensors).map_err(ReadFailure::Damaged)
}

fn read_header(source: &mut impl Read, len: u64) -> Result<Vec<u8>, ReadFailure> {
    if len < PREFIX {
        return Err(foreign("it is too short"));
    }
    let mut size = [0; PREFIX as usize];
    source.read_exact(&mut size).map_err(ReadFailure::Io)?;
    let size = u64::from_le_bytes(size);
    if size > MOST_HEADER {
        return Err(foreign(&format!("its header claims {size} bytes, where {MOST_HEADER} is the most")));
    }
    if size > len - PREFIX {
        return Err(foreign(&format!("its header claims {size} bytes, but only {} are left", len - PREFIX)));
    }
    read_exactly(source, size as usize)
}

/// The document, and the checksum that it states.
fn read_document<S: Stored>(header: &Metadata) -> Result<(S::Document, Option<String>), ReadFailure> {
    let text = header.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
    let text = text.ok_or_else(|| foreign("a safetensors file without `natmix` in its metadata"))?;
    let label: Label = serde_json::from_str(text).map_err(|error| foreign(&error.to_string()))?;
    if label.kind != S::KIND {
        return Err(ReadFailure::Foreign(format!("holds a {}: give a {} instead", label.kind, S::KIND)));
    }
    if label.format != S::FORMAT {
        return Err(ReadFailure::Foreign(format!(
            "has format {}, but this natmix reads format {}: use the version of natmix that wrote it",
            label.format,
            S::FORMAT
        )));
    }
    let envelope: Envelope<'_, S::Document> =
        serde_json::from_str(text).map_err(|error| ReadFailure::Damaged(error.to_string()))?;
    Ok((envelope.content, envelope.checksum.map(Cow::into_owned)))
}

/// Whether a file has the tensors of the layout and nothing else, and they fill it to its last byte.
fn check_tensors(header: &Metadata, layout: &Layout, payload: u64) -> Result<(), ReadFailure> {
    let damaged = |what| Err(ReadFailure::Damaged(what));
    for (name, shape) in layout {
        match header.info(name) {
            None => return damaged(format!("tensor `{name}` is missing")),
            Some(info) if info.dtype != Dtype::F64 => return damaged(format!("tensor `{name}` is not of type F64")),
            Some(info) if info.shape != *shape => {
                return damaged(format!("tensor `{name}` has shape {:?} instead of {shape:?}", info.shape));
            }
            Some(_) => {}
        }
    }
    if let Some(name) = header.offset_keys().iter().find(|name| layout.iter().all(|(known, _)| known != *name)) {
        return damaged(format!("tensor `{name}` has no place in it"));
    }
    let wanted = header.data_len() as u64;
    if wanted != payload {
        return damaged(format!("its numbers should take {wanted} bytes, but there are {payload}"));
    }
    Ok(())
}

fn read_exactly(source: &mut impl Read, len: usize) -> Result<Vec<u8>, ReadFailure> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| ReadFailure::Io(io::ErrorKind::OutOfMemory.into()))?;
    source.take(len as u64).read_to_end(&mut bytes).map_err(ReadFailure::Io)?;
    if bytes.len() == len { Ok(bytes) } else { Err(ReadFailure::Damaged("it ended while it was read".into())) }
}
