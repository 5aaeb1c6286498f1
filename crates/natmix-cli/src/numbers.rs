//! Numbers for the terminal: rounded as on the page, in ASCII.

use natmix_report::number;

/// A number with two digits of its error.
pub fn rounded(x: f64, error: f64) -> String {
    ascii(&number::rounded(x, error))
}

/// A number with so many significant digits.
pub fn significant(x: f64, digits: usize) -> String {
    ascii(&number::significant(x, digits))
}

/// Signs and powers as programs write them.
fn ascii(text: &str) -> String {
    let plain = text.replace(number::UNKNOWN, "NaN").replace('−', "-").replace('∞', "inf");
    let Some((front, power)) = plain.split_once("×10") else { return plain };
    let digit = |c| match c {
        '⁻' => Some('-'),
        c => number::RAISED.iter().position(|raised| *raised == c).and_then(|d| char::from_digit(d as u32, 10)),
    };
    format!("{front}e{}", power.chars().filter_map(digit).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_error_in_plain_letters() {
        assert_eq!(rounded(-0.000_212_3, 0.000_204), "-0.00021");
        assert_eq!(rounded(1234.5678, 12.3), "1235");
        assert_eq!(rounded(4.0e-6, 2.3e-5), "4.0e-6");
        assert_eq!(rounded(-1.5e12, 1e11), "-1.50e12");
        assert_eq!([rounded(f64::NAN, 1.0), rounded(f64::NEG_INFINITY, 1.0)], ["NaN", "-inf"]);
        assert_eq!(significant(0.012_345, 2), "0.012");
    }
}
