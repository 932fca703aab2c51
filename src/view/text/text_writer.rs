//! The writer for people, and its options.

use crate::view::escape;
use std::io::{self, Write};

/// Writes for a terminal. Always writes colours; pass a stream that strips them if they are not wanted.
#[derive(Clone, Debug, Default)]
pub struct TextWriter {
    /// 1 or more also shows unchanged steps, and the reason and source location of every step.
    pub verbose: u8,
    /// Arguments of the suggested next command (`inventory.yaml --on gpu`), quoted for a shell.
    /// `None` suppresses the suggestion.
    pub target: Option<String>,
    /// The same for a suggested `forge resume`.
    pub resume: Option<String>,
}

impl TextWriter {
    pub(super) fn write_next_command(&self, verb: &str, out: &mut dyn Write) -> io::Result<()> {
        write_command(verb, self.target.as_deref(), out)
    }

    /// Suggests to finish the run; to apply again, if the arguments of `resume` are not known.
    pub(super) fn write_resume_command(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.resume {
            Some(resume) => write_command("resume", Some(resume), out),
            None => self.write_next_command("apply", out),
        }
    }
}

fn write_command(verb: &str, arguments: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    match arguments {
        None => Ok(()),
        Some("") => writeln!(out, "next: forge {verb}"),
        Some(arguments) => writeln!(out, "next: forge {verb} {}", escape::escape_line(arguments)),
    }
}
