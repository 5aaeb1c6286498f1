//! Escapes untrusted text for HTML and SVG.

/// Text in which nothing can be mistaken for markup.
///
/// Control characters, which XML forbids, and characters that change the direction of text, which can disguise a name,
/// become the replacement character.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\n' | '\r' | '\t' => safe.push(' '),
            c if c.is_control() || is_unsafe(c) => safe.push('\u{FFFD}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A sentence with names in backticks: escaped, with the names as code.
pub fn prose(text: &str) -> String {
    let safe = escape(text);
    let parts: Vec<&str> = safe.split('`').collect();
    // An unpaired backtick stays.
    let pairs = (parts.len() - 1) / 2 * 2;
    let mut marked = parts[0].to_owned();
    for (i, part) in parts.iter().enumerate().skip(1) {
        marked += match (i <= pairs, i % 2) {
            (false, _) => "`",
            (true, 1) => "<code>",
            (true, _) => "</code>",
        };
        marked += part;
    }
    marked
}

/// Like [`prose`], with a capital first letter.
pub fn headline(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    prose(&(first + letters.as_str()))
}

fn is_unsafe(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Bytes in base64, for a `data:` URL.
pub fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().chain([0, 0].iter()).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        for place in 0..4 {
            let sign = char::from(SIGNS[bits >> (18 - 6 * place) & 63]);
            text.push(if place <= group.len() { sign } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64() {
        let texts = ["", "f", "fo", "foo", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYmFy"]);
    }

    #[test]
    fn names_in_backticks_become_code() {
        assert_eq!(prose("`a` on `<b>`"), "<code>a</code> on <code>&lt;b&gt;</code>");
        assert_eq!(prose("a ` alone"), "a ` alone");
        assert_eq!(prose("`a` and `"), "<code>a</code> and `");
        assert_eq!((headline("écart of `y`"), headline("")), ("Écart of <code>y</code>".into(), String::new()));
    }

    #[test]
    fn markup_and_unsafe_characters_are_escaped() {
        assert_eq!(escape("<b a='1' c=\"2\">&amp;"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
        assert_eq!(escape("a\u{0}b\u{202E}c\td"), "a\u{FFFD}b\u{FFFD}c d");
        assert_eq!(escape("größe µ 年齢"), "größe µ 年齢");
    }
}
