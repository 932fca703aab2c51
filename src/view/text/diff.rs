//! A unified diff, each line coloured by its first character.

use crate::model::UntrustedText;
use crate::view::escape;
use crate::view::style::{ADD, REMOVE, UNKNOWN, paint};
use std::io::{self, Write};

/// Writes `diff` with `indent` before each line.
pub fn write_diff(diff: &UntrustedText, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    write_diff_lines(diff.raw(), indent, out)
}

/// Writes raw text like [`write`].
pub fn write_diff_lines(diff: &str, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    escape::escape_block(diff).try_for_each(|line| match line.as_bytes().first() {
        Some(b'+') => writeln!(out, "{indent}{}", paint(ADD, line)),
        Some(b'-') => writeln!(out, "{indent}{}", paint(REMOVE, line)),
        Some(b'@') => writeln!(out, "{indent}{}", paint(UNKNOWN, line)),
        _ => writeln!(out, "{indent}{line}"),
    })
}
