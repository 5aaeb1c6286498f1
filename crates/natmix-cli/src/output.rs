//! Standard output.

use anyhow::{Context, Result};
use std::io::Write;

/// Prints to standard output. A reader that closes the pipe early (`| head`) is not an error.
pub fn print(text: &str) -> Result<()> {
    printed(std::io::stdout().lock().write_all(text.as_bytes()))
}

/// Handles the result of writing to standard output.
pub fn printed(result: std::io::Result<()>) -> Result<()> {
    match result.and_then(|()| std::io::stdout().lock().flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
