//! Formats numbers for display: as many digits as their error allows, a true minus sign, powers of ten instead of many
//! zeros.

/// Shown in place of an unknown number.
pub const UNKNOWN: &str = "–";

/// A number with a fixed number of decimals.
pub fn fixed(x: f64, decimals: usize) -> String {
    if x.is_infinite() {
        return if x > 0.0 { "∞".into() } else { "−∞".into() };
    }
    if x.is_nan() {
        return UNKNOWN.into();
    }
    let text = format!("{x:.decimals$}");
    // Numbers that round to zero have no sign.
    if text.chars().all(|c| matches!(c, '-' | '0' | '.')) { text.replace('-', "") } else { text.replace('-', "−") }
}

/// A number with `digits` significant digits.
pub fn significant(x: f64, digits: usize) -> String {
    if !x.is_finite() || x == 0.0 {
        return fixed(x, 0);
    }
    let size = magnitude(x);
    if !(-4..7).contains(&size) {
        return power(x, digits.saturating_sub(1));
    }
    fixed(x, (digits as i32 - 1 - size).max(0) as usize)
}

/// A number with two digits of its error, as a power of ten where the error is below 0.0001.
pub fn rounded(x: f64, error: f64) -> String {
    let error = error.abs();
    if !x.is_finite() || !error.is_finite() || error == 0.0 {
        return significant(x, 4);
    }
    if x == 0.0 {
        return fixed(0.0, (1 - magnitude(error)).clamp(0, 4) as usize);
    }
    let (size, fine) = (magnitude(x), magnitude(error));
    if size >= 7 || fine < -4 {
        return power(x, (size - fine + 1).clamp(1, 7) as usize);
    }
    if fine > 1 {
        // Digits below the error are noise before the decimal point too.
        let unit = 10f64.powi(fine - 1);
        return fixed((x / unit).round() * unit, 0);
    }
    fixed(x, (1 - fine) as usize)
}

/// A count with thousands separators.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return UNKNOWN.into();
    }
    let whole = seconds.round() as u64;
    match seconds {
        s if s < 0.001 => "< 1 ms".into(),
        s if s < 1.0 => format!("{} ms", fixed(1000.0 * s, 0)),
        s if s < 99.5 => format!("{} s", significant(s, 3)),
        s if s < 3600.0 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.001 {
        return "< 0.1%".into();
    }
    fixed(100.0 * share, usize::from(share.abs() < 0.0995)) + if share.is_finite() { "%" } else { "" }
}

fn magnitude(x: f64) -> i32 {
    x.abs().log10().floor() as i32
}

/// A number as a power of ten.
pub fn power(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$e}");
    let Some((front, exponent)) = text.split_once('e') else { return text };
    format!("{}×10{}", front.replace('-', "−"), superscript(exponent))
}

/// The digits as superscripts.
pub const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// Digits and minus sign as superscripts.
pub fn superscript(number: &str) -> String {
    number
        .chars()
        .filter_map(|c| if c == '-' { Some('⁻') } else { RAISED.get(c.to_digit(10)? as usize).copied() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_error() {
        assert_eq!(rounded(0.12345, 0.03), "0.123");
        assert_eq!(rounded(-585.1312, 0.0123), "−585.131");
        assert_eq!(rounded(12345.6, 120.0), "12350");
        assert_eq!(rounded(-0.0001, 0.1), "0.00");
        assert_eq!(rounded(3.0, 0.0), "3.000");
        assert_eq!(rounded(1.5e9, 1e8), "1.50×10⁹");
        assert_eq!(rounded(1.5e-9, 1e-10), "1.50×10⁻⁹");
        assert_eq!(rounded(4.0e-6, 2.3e-5), "4.0×10⁻⁶");
        assert_eq!(rounded(f64::NAN, 1.0), "–");
        assert_eq!(rounded(f64::NEG_INFINITY, 1.0), "−∞");
        assert_eq!(rounded(2.0, f64::NAN), "2.000");
    }

    #[test]
    fn counts_times_and_shares_read_well() {
        assert_eq!([count(0), count(999), count(1000), count(1234567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(duration(0.4321), "432 ms");
        assert_eq!(duration(7.0), "7.00 s");
        assert_eq!(duration(725.0), "12 min 5 s");
        assert_eq!(duration(9000.0), "2 h 30 min");
        assert_eq!(duration(f64::NAN), "–");
        assert_eq!(
            [percent(0.931), percent(0.0512), percent(0.0001), percent(f64::NAN)],
            ["93%", "5.1%", "< 0.1%", "–"]
        );
        assert_eq!(significant(0.000012345, 3), "1.23×10⁻⁵");
    }
}
