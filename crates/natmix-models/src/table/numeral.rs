//! Numbers as people write them: with decimal commas and thousands marks, where these can be told apart.
//!
//! Where columns are separated by commas, decimals have points. Elsewhere the first number that shows its decimals decides for the
//! whole file, and numbers that show another mark are refused: read as the other kind they would be wrong by powers of ten.
//! A thousands mark is read where it can be nothing else: a space or an apostrophe between groups of three digits, or a point or
//! comma that occurs twice or is followed by the other one. `1,234` alone is a number with a decimal comma where
//! semicolons separate columns, because programs write semicolons only where commas mark decimals; elsewhere it is refused unless
//! another number of the file shows that its decimals have commas. So is `1.234` where other separators than commas are used,
//! unless another number shows that decimals have points.

use super::number;

/// What stands before the decimals of a file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decimal {
    Point,
    Comma,
    /// No number has shown it yet.
    Unknown,
}

impl Decimal {
    /// The byte before decimals. While it is not known this is a digit, which never follows the digits of a number: only whole
    /// numbers are read without a closer look.
    pub fn mark(self) -> u8 {
        match self {
            Decimal::Point => b'.',
            Decimal::Comma => b',',
            Decimal::Unknown => b'0',
        }
    }
}

/// A number, and what it says about the marks of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numeral {
    pub value: f64,
    /// The mark that it shows.
    pub decimal: Decimal,
    /// Whether its mark can be nothing but that of decimals.
    pub sure: bool,
}

/// Why a field is not read as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotNumeral {
    /// It is something else.
    Other,
    /// Its decimals have another mark than those of earlier numbers.
    OtherMark,
    /// Its mark may be that of thousands or of decimals.
    Ambiguous,
    /// It has a decimal comma, but commas separate the columns.
    CommaInCommas,
}

/// Reads a field of a file whose columns have this separator and whose decimals have this mark, as far as is known.
pub(crate) fn read(field: &[u8], separator: u8, known: Decimal) -> Result<Numeral, NotNumeral> {
    let field = field.trim_ascii();
    let found = |value, decimal, sure| Ok(Numeral { value, decimal, sure });
    if let Some(value) = number::parse(field) {
        return match (field.contains(&b'.'), known) {
            (false, _) => found(value, Decimal::Unknown, true),
            (true, Decimal::Comma) if is_one_group(field, b'.') => Err(NotNumeral::Ambiguous),
            (true, Decimal::Comma) => Err(NotNumeral::OtherMark),
            (true, _) => found(value, Decimal::Point, separator == b',' || !is_one_group(field, b'.')),
        };
    }
    let allowed = |decimal: Decimal| match (known, decimal) {
        (_, Decimal::Unknown) | (Decimal::Unknown, _) => Ok(()),
        (known, decimal) if known == decimal => Ok(()),
        _ => Err(NotNumeral::OtherMark),
    };
    // A minus sign as text processors write it.
    if let Some(rest) =
        field.strip_prefix("\u{2212}".as_bytes()).filter(|rest| rest.first().is_some_and(u8::is_ascii_digit))
    {
        return read(&[b"-", rest].concat(), separator, known);
    }
    if let Some(value) = with_comma(field) {
        if separator == b',' {
            return Err(if is_one_group(field, b',') { NotNumeral::Ambiguous } else { NotNumeral::CommaInCommas });
        }
        if known == Decimal::Point && is_one_group(field, b',') {
            return Err(NotNumeral::Ambiguous);
        }
        allowed(Decimal::Comma)?;
        return found(value, Decimal::Comma, separator == b';' || !is_one_group(field, b','));
    }
    let (value, decimal) = grouped(field).ok_or(NotNumeral::Other)?;
    allowed(decimal)?;
    found(value, decimal, true)
}

/// A number with a decimal comma and without other marks.
fn with_comma(field: &[u8]) -> Option<f64> {
    let comma = field.iter().position(|byte| *byte == b',')?;
    if field.iter().any(|byte| !byte.is_ascii_digit() && !b"+-,eE".contains(byte)) {
        return None;
    }
    let mut text = field.to_vec();
    text[comma] = b'.';
    number::parse(&text)
}

/// Whether this is one to three digits, the mark and three digits, like a number of thousands: `1,234`, but not `0,123`.
fn is_one_group(field: &[u8], mark: u8) -> bool {
    let digits = field.strip_prefix(b"-").or(field.strip_prefix(b"+")).unwrap_or(field);
    let mut parts = digits.split(|byte| *byte == mark);
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let all_digits = digits.iter().all(|byte| byte.is_ascii_digit() || *byte == mark);
    all_digits && parts.next().is_none() && (1..=3).contains(&first.len()) && first[0] != b'0' && second.len() == 3
}

/// A number whose thousands are marked, and the mark of its decimals as far as it shows.
fn grouped(field: &[u8]) -> Option<(f64, Decimal)> {
    // No such number is long.
    let text = std::str::from_utf8(field).ok().filter(|text| text.len() <= 64)?;
    let text = text.replace(['\u{a0}', '\u{202f}', '\u{2009}'], " ").replace('\u{2019}', "'");
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(&text);
    let mark = unsigned.chars().find(|c| !c.is_ascii_digit())?;
    let (whole, decimals) = match unsigned.rfind(['.', ',']) {
        Some(at) if !unsigned[at..].starts_with(mark) => (&unsigned[..at], Some(&unsigned[at..])),
        _ => (unsigned, None),
    };
    let decimal = match (mark, decimals) {
        // One group, whose mark may be that of decimals.
        ('.' | ',', None) if whole.matches(mark).count() < 2 => return None,
        ('.', _) => Decimal::Comma,
        (',', _) => Decimal::Point,
        (' ' | '\'', None) => Decimal::Unknown,
        (' ' | '\'', Some(rest)) if rest.starts_with(',') => Decimal::Comma,
        (' ' | '\'', Some(_)) => Decimal::Point,
        _ => return None,
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split(mark);
    let first = groups.next().is_some_and(|group| (1..=3).contains(&group.len()) && digits(group));
    let fine = first && groups.all(|group| group.len() == 3 && digits(group));
    if !fine || !decimals.is_none_or(|rest| digits(&rest[1..])) {
        return None;
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let plain = format!("{sign}{}.{}", whole.replace(mark, ""), decimals.map_or("", |rest| &rest[1..]));
    Some((plain.parse().ok()?, decimal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, separator: u8, known: Decimal) -> Result<f64, NotNumeral> {
        read(text.as_bytes(), separator, known).map(|numeral| numeral.value)
    }

    #[test]
    fn decimal_commas_and_thousands() {
        for (text, expected) in [
            ("1,5", 1.5),
            ("-0,25", -0.25),
            (",5", 0.5),
            ("1,5e3", 1500.0),
            ("1.234,5", 1234.5),
            ("1.234.567", 1_234_567.0),
            ("1 234,5", 1234.5),
            ("1\u{a0}234\u{202f}567", 1_234_567.0),
            ("12'345.5", 12_345.5),
            ("1\u{2019}234", 1234.0),
            ("\u{2212}3,5", -3.5),
            ("\u{2212}4", -4.0),
            ("-1,234.5", -1234.5),
            ("1,234", 1.234),
            ("7", 7.0),
        ] {
            assert_eq!(value(text, b';', Decimal::Unknown), Ok(expected), "{text}");
        }
        for (text, expected) in [("1,234,567", 1_234_567.0), ("1,234.5", 1234.5), ("1 234", 1234.0), ("2.5", 2.5)] {
            assert_eq!(value(text, b',', Decimal::Point), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_may_be_two_numbers_is_none() {
        use NotNumeral::*;
        for (text, separator, known, expected) in [
            ("1,234", b',', Decimal::Point, Ambiguous),
            ("12,5", b',', Decimal::Point, CommaInCommas),
            ("1.234,5", b',', Decimal::Point, OtherMark),
            ("1,5", b';', Decimal::Point, OtherMark),
            ("1,234", b';', Decimal::Point, Ambiguous),
            ("1.5", b';', Decimal::Comma, OtherMark),
            ("1.234", b';', Decimal::Comma, Ambiguous),
            ("0.123", b';', Decimal::Comma, OtherMark),
            ("1,234.5", b';', Decimal::Comma, OtherMark),
        ] {
            assert_eq!(value(text, separator, known), Err(expected), "{text}");
        }
        for text in
            "1,2,3 12.34.56 1,2345,678 1'2 a , - 1-2 05.01.2020 1,5,5 1.234. 1\u{a0}23 \u{2212}- 1,234,56".split(' ')
        {
            assert_eq!(value(text, b';', Decimal::Unknown), Err(Other), "{text}");
        }
        let unsure = |text: &str, separator| !read(text.as_bytes(), separator, Decimal::Unknown).unwrap().sure;
        assert!(unsure("1,234", b'\t') && !unsure("1,234", b';') && !unsure("0,234", b'\t') && !unsure("1,23", b'|'));
        assert!(unsure("1.234", b'\t') && unsure("-12.345", b';') && !unsure("1.234", b','));
        assert!(!unsure("0.123", b';') && !unsure("12.5", b';') && !unsure("1234.567", b'|') && !unsure("1", b';'));
    }
}
