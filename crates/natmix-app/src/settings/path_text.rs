//! Paths as text in files of settings, whatever their bytes.
//!
//! A path in UTF-8 stands for itself. Any other is written like a URL, with its bytes behind percent signs:
//! `file:///data/caf%E9.csv`, or `file:caf%E9.csv` where it is relative; so is one that begins with `file:` itself.

use std::path::{Path, PathBuf};

const SCHEME: &str = "file:";

/// The path as text.
pub(crate) fn written(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) if !text.starts_with(SCHEME) => path.to_owned(),
        _ => {
            let slashes = if path.is_absolute() { "//" } else { "" };
            let escaped: String = bytes_of(path).iter().map(|byte| escape(*byte)).collect();
            format!("{SCHEME}{slashes}{escaped}").into()
        }
    }
}

/// The path that was written as `text`.
pub(crate) fn read(text: PathBuf) -> PathBuf {
    let Some(rest) = text.to_str().and_then(|text| text.strip_prefix(SCHEME)) else { return text };
    let rest = if rest.starts_with("///") { &rest[2..] } else { rest };
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let Some((&first, others)) = left.split_first() {
        let code = others.get(..2).and_then(|two| std::str::from_utf8(two).ok()?.parse::<HexByte>().ok());
        match code.filter(|_| first == b'%') {
            Some(HexByte(byte)) => {
                bytes.push(byte);
                left = &others[2..];
            }
            None => {
                bytes.push(first);
                left = others;
            }
        }
    }
    path_of(bytes).unwrap_or(text)
}

/// A byte as two hexadecimal digits.
struct HexByte(u8);

impl std::str::FromStr for HexByte {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(text, 16).ok().filter(|_| digits).map(Self).ok_or(())
    }
}

fn escape(byte: u8) -> String {
    if byte.is_ascii_graphic() && byte != b'%' { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

#[cfg(unix)]
fn bytes_of(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes)))
}

/// Elsewhere a path has no bytes of its own: what is not text is lost.
#[cfg(not(unix))]
fn bytes_of(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself() {
        for text in ["data.csv", "/a b/ü%41.csv", "C:\\x", "", "files:x"] {
            assert_eq!(written(Path::new(text)), Path::new(text));
            assert_eq!(read(text.into()), Path::new(text));
        }
        let strange = Path::new("file:%41");
        assert_eq!(read(written(strange)), strange);
        // What is no code stays.
        assert_eq!(read("file:a%4%+1%zz%".into()), Path::new("a%4%+1%zz%"));
    }

    #[cfg(unix)]
    #[test]
    fn any_bytes_come_back() {
        let path = |bytes: &[u8]| path_of(bytes.to_vec()).unwrap();
        let every: Vec<u8> = (1..=255).collect();
        for bytes in [&b"/d\xff\xe9 %.csv"[..], b"r\xff", b"//x\xff", b"file:\xfe", &every] {
            let text = written(&path(bytes));
            assert!(text.to_str().is_some_and(|text| text.starts_with("file:") && text.is_ascii()), "{text:?}");
            assert_eq!(bytes_of(&read(text)), bytes);
        }
        assert_eq!(written(&path(b"/caf\xe9.csv")), Path::new("file:///caf%E9.csv"));
    }
}
