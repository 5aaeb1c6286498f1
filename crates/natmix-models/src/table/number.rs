//! Decimal numbers, fast and exact.
//!
//! A number with digits `w <= 2^53` and a power of ten `|e| <= 22` is one correctly rounded product or quotient of two
//! exactly representable doubles, so it has the same bits as the general algorithm (Clinger 1990). Everything else goes to
//! `str::parse`.

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Most digits that always fit into 64 bits.
const MOST_DIGITS: usize = 19;

/// The number at the start of the text and its length, if it can be computed exactly without the general algorithm. `mark`
/// stands before the decimals.
#[inline]
pub(crate) fn leading(text: &[u8], mark: u8) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let (whole, mut at) = digits(text, sign, 0);
    let mut value = whole;
    let mut count = at - sign;
    let mut fraction = 0;
    if text.get(at) == Some(&mark) {
        let start = at + 1;
        (value, at) = digits(text, start, whole);
        fraction = at - start;
        count += fraction;
    }
    if count == 0 || count > MOST_DIGITS || value > 1 << 53 {
        return None;
    }
    let mut power = -(fraction as i64);
    if let Some(b'e' | b'E') = text.get(at) {
        let negative = text.get(at + 1) == Some(&b'-');
        let start = at + 1 + usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let (size, end) = digits(text, start, 0);
        if end == start || end - start > 4 {
            return None;
        }
        power += if negative { -(size as i64) } else { size as i64 };
        at = end;
    }
    let scale = POWERS.get(power.unsigned_abs() as usize)?;
    let size = if power < 0 { value as f64 / scale } else { value as f64 * scale };
    Some((if text[0] == b'-' { -size } else { size }, at))
}

/// Appends the digits from `at` on to `value`; wraps around if there are too many, which the caller detects by their number.
#[inline]
fn digits(text: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

/// A whole field as a number, spaces around it ignored. May be infinite or NaN, as `str::parse` reads those words.
pub(crate) fn parse(field: &[u8]) -> Option<f64> {
    let field = field.trim_ascii();
    match leading(field, b'.') {
        Some((value, length)) if length == field.len() => Some(value),
        _ => std::str::from_utf8(field).ok()?.parse().ok(),
    }
}

/// Whether the field marks a missing value.
pub(crate) fn is_missing(field: &[u8]) -> bool {
    let field = field.trim_ascii();
    field.is_empty() || [&b"na"[..], b"n/a", b"nan", b"null", b"?"].iter().any(|word| field.eq_ignore_ascii_case(word))
}

/// Whether the field marks a missing value unless it is known to be a level: a category may well be called `-`.
pub(crate) fn is_missing_or_level(field: &[u8]) -> bool {
    matches!(field.trim_ascii(), b"." | b"-" | b"--" | b"\xe2\x80\x93" | b"#N/A" | b"#n/a" | b"<NA>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_as_std(text: &str) {
        let expected = text.parse::<f64>().ok().map(f64::to_bits);
        assert_eq!(parse(text.as_bytes()).map(f64::to_bits), expected, "{text}");
        if let Some((value, length)) = leading(text.as_bytes(), b'.') {
            assert_eq!(Some(value.to_bits()), text[..length].parse().ok().map(f64::to_bits), "{text}");
        }
    }

    #[test]
    fn special_cases_have_the_bits_of_std() {
        for text in "0 -0 +0 1 -1 +1 1. .5 -.5 . - + e 1e 1e+ e5 .e5 1e5 1E+5 1e-5 0.1 0.3 123456789012345678901234567890 \
            9007199254740992 9007199254740993 9007199254740993e1 1e22 1e23 1e-22 1e-23 123e20 1e400 -1e400 1e-400 \
            00000000000000000000001 0.00000000000000000000001 inf nan infinity 1e00000005 1e12345 1e99999999999999999999 \
            1..2 1-2 --1 1e5.5 0x10 1_000 18446744073709551616 99999999999999999999 5e-324 2.2250738585072011e-308"
            .split_whitespace()
        {
            same_as_std(text);
        }
        same_as_std("");
        assert_eq!(parse(b" 2.5 "), Some(2.5));
    }

    #[test]
    fn random_numbers_have_the_bits_of_std() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..300_000 {
            let mut text = ["", "-", "+"][random(3) as usize].to_string();
            (0..random(12)).for_each(|_| text.push(char::from(b'0' + random(10) as u8)));
            if random(3) > 0 {
                text.push('.');
                (0..random(12)).for_each(|_| text.push(char::from(b'0' + random(10) as u8)));
            }
            if random(3) == 0 {
                text.push_str(["e", "E-", "e+"][random(3) as usize]);
                text.push_str(&random(40).to_string());
            }
            same_as_std(&text);
            same_as_std(&f64::from_bits(random(1 << 31) << 33 | random(1 << 31) << 2).to_string());
        }
    }

    #[test]
    fn words_for_missing_values() {
        for text in ["", " ", "NA", "na", "NaN", "null", "NULL", "N/A", " ? "] {
            assert!(is_missing(text.as_bytes()), "{text}");
        }
        for text in ["0", "none", "inf", "-"] {
            assert!(!is_missing(text.as_bytes()), "{text}");
        }
        for text in ["-", " . ", "#N/A", "<NA>", "\u{2013}"] {
            assert!(is_missing_or_level(text.as_bytes()), "{text}");
        }
        for text in ["-1", ".5", "none", "N"] {
            assert!(!is_missing_or_level(text.as_bytes()), "{text}");
        }
    }
}
