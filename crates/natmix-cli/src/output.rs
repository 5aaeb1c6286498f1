//! Standard output and standard error. Text from files, such as names of columns, cannot control the terminal.

use anyhow::{Context, Result};
use std::borrow::Cow;
use std::io::{IsTerminal, Write};

/// Prints to standard output. A reader that closes the pipe early (`| head`) is not an error.
pub fn print(text: &str) -> Result<()> {
    printed(std::io::stdout().lock().write_all(visible(text).as_bytes()))
}

/// Handles the result of writing to standard output.
pub fn printed(result: std::io::Result<()>) -> Result<()> {
    match result.and_then(|()| std::io::stdout().lock().flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Prints a line to standard error. If that fails there is nowhere to say so, and the work goes on.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(text));
}

/// Names for the first line of a table on standard output: as they are, unless it is a terminal.
pub fn header(names: Vec<String>) -> Vec<String> {
    match std::io::stdout().is_terminal() {
        true => names.iter().map(|name| visible(name).into_owned()).collect(),
        false => names,
    }
}

/// Text with its control characters spelled out, as JSON does it; line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(hidden) {
        return text.into();
    }
    let spell = |c: char| if hidden(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    text.chars().map(spell).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(visible("a\u{1b}[31mb\u{7f}\u{9b}2J\r\n\tc"), "a\\u001b[31mb\\u007f\\u009b2J\\u000d\n\tc");
        assert!(matches!(visible("größe\n"), Cow::Borrowed("größe\n")));
    }
}
