//! Errors of the command line: a message, what to do, and the exit code each means.

use crate::model::ExitCode;
use crate::view::escape;
use std::io::{self, Write};

/// Why a verb did not get to its result.
#[derive(Debug)]
pub struct CliError {
    pub exit: ExitCode,
    /// A lowercase fragment; `None` when all was said already.
    message: Option<String>,
    notes: Vec<String>,
    hint: Option<String>,
}

impl CliError {
    fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self { exit, message: Some(message.into()), notes: Vec::new(), hint: None }
    }

    /// What was typed makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// What people wrote is wrong; nothing was contacted.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Input, message)
    }

    /// An artifact cannot be had, or is not what is declared.
    pub fn artifact(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Artifact, message)
    }

    /// Something could not be evaluated, and it was asked that all could be.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Unknown, message)
    }

    /// A bug or the environment.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Unexpected, message)
    }

    /// What was asked for was done on the host, and failed there.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ExitCode::HostsFailed, message)
    }

    /// The user stopped it.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Interrupted, message)
    }

    /// What is wrong was written already, for example as diagnostics.
    pub fn said(exit: ExitCode) -> Self {
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

    /// Writes the error for people.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(message) = &self.message else { return Ok(()) };
        let style = anstyle::AnsiColor::Red.on_default().bold();
        writeln!(out, "{style}error:{style:#} {}", escape::line(message))?;
        self.notes.iter().try_for_each(|note| writeln!(out, "  note: {}", escape::line(note)))?;
        self.hint.iter().try_for_each(|hint| writeln!(out, "  hint: {}", escape::line(hint)))
    }
}
