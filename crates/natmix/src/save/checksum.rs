//! Checksums of files: 64 bits that change with any bit of what they cover.
//!
//! Words of eight bytes enter one after another by `h -> mix(h xor word)`, where `mix` multiplies by an odd number, folds the
//! upper half into the lower and multiplies again. Each step is one-to-one in the word and in `h`, so a change within one word
//! is always noticed; any other goes unnoticed once in 2^64. This is no protection against somebody who changes a file on
//! purpose.

/// A checksum in progress.
#[derive(Clone, Debug)]
pub struct Checksum {
    hash: u64,
    length: u64,
    /// Bytes that do not fill a word yet.
    partial: [u8; 8],
}

impl Default for Checksum {
    fn default() -> Self {
        Self { hash: 0x9e37_79b9_7f4a_7c15, length: 0, partial: [0; 8] }
    }
}

impl Checksum {
    /// Digits of a checksum as text.
    pub const DIGITS: usize = 16;

    /// The checksum of `bytes`, as text.
    pub fn of(bytes: &[u8]) -> String {
        let mut checksum = Self::default();
        checksum.update(bytes);
        checksum.text()
    }

    /// Adds bytes; how they are divided into calls does not matter.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let filled = (self.length % 8) as usize;
        self.length += bytes.len() as u64;
        if filled > 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(8 - filled));
            self.partial[filled..filled + first.len()].copy_from_slice(first);
            if filled + first.len() < 8 {
                return;
            }
            self.add(u64::from_le_bytes(self.partial));
            bytes = rest;
        }
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        self.partial = [0; 8];
        self.partial[..rest.len()].copy_from_slice(rest);
    }

    fn add(&mut self, word: u64) {
        let product = (self.hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        // One multiplication would carry the highest bit on as a single bit, which another change can cancel.
        self.hash = (product ^ (product >> 32)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    }

    /// The checksum as text.
    pub fn text(&self) -> String {
        let mut last = self.clone();
        last.add(u64::from_le_bytes(self.partial));
        last.add(self.length);
        last.add(0);
        format!("{:016x}", last.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_changes_it() {
        let bytes: Vec<u8> = (0..45).map(|i| (i * 37) as u8).collect();
        let whole = Checksum::of(&bytes);
        let mut seen = vec![whole];
        for at in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            seen.push(Checksum::of(&flipped));
        }
        // The signs of two numbers, and zeros at the end.
        let mut signs = bytes.clone();
        signs[7] ^= 0x80;
        signs[15] ^= 0x80;
        seen.push(Checksum::of(&signs));
        seen.push(Checksum::of(&[&bytes[..], &[0]].concat()));
        seen.push(Checksum::of(&[]));
        seen.push(Checksum::of(&[0]));
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
        assert!(seen.iter().all(|text| text.len() == Checksum::DIGITS));
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..40).collect();
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let mut checksum = Checksum::default();
                for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    checksum.update(piece);
                }
                assert_eq!(checksum.text(), Checksum::of(&bytes), "{first} {second}");
            }
        }
    }
}
