//! Text in other encodings than UTF-8: UTF-16 by its mark, and bytes that cannot be UTF-8 as Windows-1252.
//!
//! Spreadsheets write UTF-16 as "Unicode text", and the encoding of western Windows as plain "CSV". The latter has no mark: it is assumed
//! for a name or a category that is not UTF-8. It gives every byte a character of its own, so categories that differ remain
//! different even where the file was in another encoding; a note says that names may be wrong then. ISO 8859-1 is a part of it.

use std::borrow::Cow;
use std::io::Read;

/// Characters of the bytes 0x80 to 0x9f in Windows-1252; those that it does not define remain as they are.
const UPPER: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// A field as text, and whether it had to be decoded.
pub(crate) fn text(field: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(field) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(_) => {
            let character = |byte: &u8| match byte {
                0x80..=0x9f => UPPER[usize::from(byte - 0x80)],
                byte => char::from(*byte),
            };
            (Cow::Owned(field.iter().map(character).collect()), true)
        }
    }
}

/// UTF-16 as UTF-8. Halves of pairs that stand alone become the replacement character.
pub(crate) struct Utf16<R> {
    from: R,
    big: bool,
    /// Bytes that are decoded, but not read yet, from `at` on.
    ready: Vec<u8>,
    at: usize,
    /// A byte or half of a pair whose other part is still to come.
    rest: Vec<u8>,
    ended: bool,
}

impl<R: Read> Utf16<R> {
    /// `big`: the higher byte comes first.
    pub fn new(from: R, big: bool) -> Self {
        Utf16 { from, big, ready: Vec::new(), at: 0, rest: Vec::new(), ended: false }
    }

    fn decode(&mut self, block: &[u8]) {
        self.rest.extend_from_slice(block);
        let mut units: Vec<u16> = self.rest.chunks_exact(2).map(|pair| self.unit(pair)).collect();
        let odd = self.rest.len() % 2;
        // The second half of a pair may be in the next block.
        let first_half = units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) && !self.ended;
        units.truncate(units.len() - usize::from(first_half));
        let kept = if self.ended { 0 } else { odd + 2 * usize::from(first_half) };
        self.rest.drain(..self.rest.len() - kept);
        (self.at, self.ready) = (0, Vec::with_capacity(units.len()));
        for character in char::decode_utf16(units) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.ready.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    fn unit(&self, pair: &[u8]) -> u16 {
        let bytes = [pair[0], pair[1]];
        if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.ready.len() {
            if self.ended {
                return Ok(0);
            }
            let mut block = [0; 8192];
            let count = self.from.read(&mut block)?;
            self.ended = count == 0;
            self.decode(&block[..count]);
        }
        let count = out.len().min(self.ready.len() - self.at);
        out[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(out.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn utf16_of_both_orders_in_pieces_of_any_size() {
        let text = "Größe;名前\r\n1,5;𝒳 €\n";
        for big in [false, true] {
            let bytes: Vec<u8> =
                text.encode_utf16().flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect();
            for size in [1, 2, 3, 7, 1000] {
                let mut decoded = String::new();
                Utf16::new(Slow(&bytes, size), big).read_to_string(&mut decoded).unwrap();
                assert_eq!(decoded, text, "{size}");
            }
        }
        let mut broken = String::new();
        Utf16::new(&[0x41, 0, 0, 0xd8, 0x42, 0, 0x43][..], false).read_to_string(&mut broken).unwrap();
        assert_eq!(broken, "A\u{fffd}B");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_windows_1252() {
        assert_eq!(text("Größe".as_bytes()), ("Größe".into(), false));
        assert_eq!(text(b"Gr\xf6\xdfe \x80 \x9f"), ("Größe € Ÿ".into(), true));
    }
}
