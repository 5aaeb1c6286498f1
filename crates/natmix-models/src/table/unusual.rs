//! Values that are neither numbers nor names of categories, and what to do about them: dates, percentages, amounts of money.

/// English names of months, which their first three letters tell apart.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const CURRENCIES: [&str; 9] = ["$", "€", "£", "¥", "USD", "EUR", "GBP", "CHF", "JPY"];

/// What a value is, and what to do, if it is of such a kind.
pub(crate) fn advice(value: &str, column: &str) -> Option<String> {
    let value = value.trim();
    if is_date(value) {
        return Some(format!(
            "is a date or a time (write a number instead, such as days since a first day, or leave the column out with --without \
             {column}; with --categorical {column} each date is a category)"
        ));
    }
    let number = |text: &str| {
        let text = text.trim();
        text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().all(|byte| b"0123456789.,'+- ".contains(&byte))
    };
    if value.strip_suffix('%').is_some_and(number) {
        return Some("is a percentage (write the number without the sign, in all rows alike)".into());
    }
    let unsigned = value.trim_start_matches(['-', '+']);
    let mut amounts = CURRENCIES.iter().filter_map(|sign| unsigned.strip_prefix(sign).or(unsigned.strip_suffix(sign)));
    amounts.any(number).then(|| "is an amount of money (write the number without the currency)".into())
}

/// Whether this is a date, a time, or both, in a usual notation.
fn is_date(value: &str) -> bool {
    let (date, time) = match value.split_once(['T', ' ']) {
        Some((date, time)) if is_time(time.trim_end_matches('Z')) => (date, true),
        _ => (value, false),
    };
    if is_time(date) {
        return !time;
    }
    let numeric = |separator| {
        let parts: Vec<&str> = date.split(separator).collect();
        let number = |part: &&str| part.len() <= 4 && part.parse::<u16>().is_ok();
        let sizes: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        parts.iter().all(number) && matches!(sizes[..], [4, 1..=2, 1..=2] | [1..=2, 1..=2, 2 | 4])
            || separator == '-' && sizes == [4, 2] && parts.iter().all(number) && ("01"..="12").contains(&parts[1])
    };
    ['-', '/', '.'].into_iter().any(numeric) || has_month(date)
}

fn is_time(text: &str) -> bool {
    let text = text.trim_end_matches([' ', 'A', 'P', 'M', 'a', 'p', 'm']);
    let text = text.split(['+', '-']).next().unwrap_or(text);
    let parts: Vec<&str> = text.split(':').collect();
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = parts.get(2).is_none_or(|part| part.split('.').all(digits));
    matches!(parts.len(), 2 | 3) && parts[..2].iter().all(|part| digits(part) && part.len() <= 2) && seconds
}

/// Whether this is the name of a month with one or two numbers.
fn has_month(text: &str) -> bool {
    let is_month = |word: &str| {
        let word = word.to_ascii_lowercase();
        word.len() >= 3 && MONTHS.iter().any(|month| month.starts_with(&word) || word == "sept")
    };
    let words: Vec<&str> = text.split([' ', '-', '/', '.', ',']).filter(|word| !word.is_empty()).collect();
    let numbers = words.iter().filter(|word| word.len() <= 4 && word.parse::<u16>().is_ok()).count();
    matches!(numbers, 1 | 2) && words.len() == numbers + 1 && words.iter().any(|word| is_month(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times() {
        for text in [
            "2020-01-05",
            "5.1.2020",
            "05/01/20",
            "2020/1/5",
            "2020-01-05T12:30:00Z",
            "2020-01-05 12:30",
            "12:30",
            "7:05:30.25",
            "3 Jan 2020",
            "January 3, 2020",
            "3-Jan-20",
            "Mar 2021",
            "2020-07",
            "9:15 PM",
        ] {
            assert!(advice(text, "d").unwrap().contains("is a date"), "{text}");
        }
        for text in
            ["1.5", "2020", "1-2", "may", "10-20", "1.2.3.4", "A:B", "1:2:3:4", "May be 5 a", "2020-13", "555-1234"]
        {
            assert_eq!(advice(text, "d"), None, "{text}");
        }
    }

    #[test]
    fn percentages_and_money() {
        for (text, kind) in [
            ("12%", "percentage"),
            ("12.5 %", "percentage"),
            ("$5", "money"),
            ("-$1,234.50", "money"),
            ("3 €", "money"),
            ("EUR 20", "money"),
        ] {
            assert!(advice(text, "x").unwrap().contains(kind), "{text}");
        }
        for text in ["%", "a%", "$", "US", "€uro", "EUR"] {
            assert_eq!(advice(text, "x"), None, "{text}");
        }
    }
}
