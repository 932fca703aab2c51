//! Errors of the command line: message, notes, hint and exit code.

use crate::model::ExitCode;
use crate::view::escape;
use std::io::{self, Write};

/// The reason why a verb failed.
#[derive(Debug)]
pub struct CliError {
    pub exit: ExitCode,
    /// A lowercase fragment; `None` if the error was already reported.
    message: Option<String>,
    notes: Vec<String>,
    hint: Option<String>,
}

impl CliError {
    fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self { exit, message: Some(message.into()), notes: Vec::new(), hint: None }
    }

    /// Invalid command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// Invalid input file; nothing was contacted.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Input, message)
    }

    /// An artifact is unavailable or does not match its declared digest.
    pub fn artifact(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Artifact, message)
    }

    /// Something could not be evaluated, and the user required that everything can be.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Unknown, message)
    }

    /// A bug, or a failure of the environment, with its chain of causes. Every other error has a constructor of its own,
    /// because it has an exit code of its own.
    pub fn unexpected(error: impl Into<anyhow::Error>) -> Self {
        Self::new(ExitCode::Unexpected, format!("{:#}", error.into()))
    }

    /// The requested action ran on the host and failed there.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ExitCode::HostsFailed, message)
    }

    /// What a saved plan relies on has changed.
    pub fn stale(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Stale, message)
    }

    /// No host could be reached.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Unreachable, message)
    }

    /// The user interrupted the run.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Interrupted, message)
    }

    /// The error was already reported, for example as diagnostics.
    pub fn already_reported(exit: ExitCode) -> Self {
        Self { message: None, ..Self::new(exit, "") }
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the message; `None` if the error was already reported.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the notes and the hint.
    #[cfg(test)]
    pub fn advice(&self) -> (&[String], Option<&str>) {
        (&self.notes, self.hint.as_deref())
    }

    /// Writes the error as text.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(message) = &self.message else { return Ok(()) };
        let style = anstyle::AnsiColor::Red.on_default().bold();
        writeln!(out, "{style}error:{style:#} {}", escape::escape_line(message))?;
        self.notes.iter().try_for_each(|note| writeln!(out, "  note: {}", escape::escape_line(note)))?;
        self.hint.iter().try_for_each(|hint| writeln!(out, "  hint: {}", escape::escape_line(hint)))
    }
}
