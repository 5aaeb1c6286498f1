//! Helpers for tests of the readers: a temporary folder, gzip, messages, file contents, and a count of memory.
#![allow(dead_code)] // Each test file uses its own share of these.

use flate2::{Compression, write::GzEncoder};
use natmix_models::error::DataError;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The system's allocator, which records the largest single request of this thread.
struct LargestRequest;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code)]
unsafe impl GlobalAlloc for LargestRequest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: LargestRequest = LargestRequest;

/// Runs `work`; also returns the size of the largest single allocation that it requested, in bytes.
pub fn largest_allocation<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let result = work();
    (result, LARGEST.get())
}

/// A temporary folder for one test, removed at its end.
pub struct ReaderFolder(pub PathBuf);

impl ReaderFolder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("natmix-readers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        ReaderFolder(path)
    }

    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for ReaderFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn strings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(String::from).to_vec()
}

/// The message without the path of the file.
pub fn message<T: std::fmt::Debug>(path: &Path, result: Result<T, DataError>) -> String {
    let text = result.unwrap_err().to_string();
    text.strip_prefix(&format!("{}: ", path.display())).unwrap_or_else(|| panic!("no file in: {text}")).to_string()
}

/// The bytes of an IDX file.
pub fn idx(sizes: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    bytes.extend(values);
    bytes
}

/// The bytes of a `.npy` file with this header and `follow` zero bytes after it.
pub fn npy_bytes(version: u8, header: &str, follow: usize) -> Vec<u8> {
    let mut bytes = [b"\x93NUMPY", &[version, 0][..]].concat();
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.bytes());
    bytes.extend(vec![0; follow]);
    bytes
}
