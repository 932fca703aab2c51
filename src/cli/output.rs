//! Where the result of a verb goes: stdout in the format that was asked for, and a file as JSON.

use super::args::Format;
use super::console::Console;
use super::error::CliError;
use super::settings::Settings;
use crate::diag::{self, Diag, Diags, Sources};
use crate::model::ExitCode;
use crate::plan::Plan;
use crate::view::progress::{Detail, Live, Plain, Progress, RunState, Size};
use crate::view::{self, Json, Text, Writer};
use camino::Utf8Path;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

/// The outputs of one verb.
pub struct Output<'a> {
    pub console: &'a Console,
    pub settings: &'a Settings,
    /// The arguments that a next command repeats.
    pub target: Option<String>,
}

/// Writes one result with one writer.
pub type Render<'r> = &'r dyn Fn(&dyn Writer, &mut dyn Write) -> io::Result<()>;

impl Output<'_> {
    /// Writes the result to stdout, and to the file of `--json-into`.
    ///
    /// # Errors
    /// A stream or file that cannot be written; a reader that went away is none.
    pub fn result(&self, render: Render<'_>) -> Result<(), CliError> {
        let mut out = (self.console.out)();
        let written = match self.settings.format {
            Format::Json => render(&Json, &mut out),
            // What has a grammar of its own is written by `drawn`; verbs without it were refused.
            _ => render(&self.text(), &mut out),
        };
        to_stdout(written.and_then(|()| out.flush()))?;
        self.file_beside(render)
    }

    /// Writes what has a grammar of its own (drawings, scripts, schemas) to stdout.
    ///
    /// # Errors
    /// A stream that cannot be written; a reader that went away is none.
    pub fn drawn(&self, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
        let mut out = (self.console.out)();
        to_stdout(write(&mut out).and_then(|()| out.flush()))
    }

    /// Writes a plan, also for a review; `digest` is that of the file it is kept in.
    ///
    /// # Errors
    /// A stream or file that cannot be written; a reader that went away is none.
    pub fn plan(&self, plan: &Plan, exit: ExitCode, digest: Option<&str>) -> Result<(), CliError> {
        let render: Render<'_> = &|writer, out| writer.plan(plan, exit, out);
        match self.settings.format {
            Format::Markdown => {
                self.drawn(&|out| view::markdown::plan(plan, digest, out))?;
                self.file_beside(render)
            }
            _ => self.result(render),
        }
    }

    /// Writes the container images of a plan; what the list lacks is said on stderr.
    ///
    /// # Errors
    /// A format that has no such list, or a stream or file that cannot be written.
    pub fn images(&self, plan: &Plan, exit: ExitCode) -> Result<(), CliError> {
        if self.settings.format == Format::Markdown {
            return Err(CliError::usage("`--images` is a list, and `--format markdown` is for plans")
                .hint("leave one of them out, or take `--format json`"));
        }
        let images = plan.images();
        self.result(&|writer, out| writer.images(&images, exit, out))?;
        let mut err = (self.console.err)();
        if images.images.is_empty() && images.open.is_empty() && !images.silent {
            to_stderr(writeln!(err, "no step of this plan runs a container image"))?;
        }
        if images.silent {
            to_stderr(writeln!(err, "the list lacks the images of charts: the cluster's API did not answer"))?;
        }
        let open: Vec<String> = images.open.iter().map(|step| format!("`{step}`")).collect();
        if !open.is_empty() {
            let open = open.join(", ");
            let lacks = format!("the list lacks the images of {open}: they could not be told yet; see `forge plan`");
            to_stderr(writeln!(err, "{lacks}"))?;
        }
        Ok(())
    }

    /// Writes the result to the file of `--json-into` only.
    pub fn file_beside(&self, render: Render<'_>) -> Result<(), CliError> {
        match &self.settings.json_into {
            None => Ok(()),
            Some(path) => super::file::replace(path, |out| render(&Json, out)),
        }
    }

    /// Writes for people: to stdout, or to stderr where stdout carries JSON.
    pub fn people(&self, render: Render<'_>) -> Result<(), CliError> {
        let text = Text { target: None, ..self.text() };
        let write = |mut out: Box<dyn Write>| render(&text, &mut out).and_then(|()| out.flush());
        match self.settings.format {
            Format::Json => to_stderr(write(Box::new((self.console.err)()))),
            _ => to_stdout(write(Box::new((self.console.out)()))),
        }
    }

    /// Returns the writer for people.
    pub fn text(&self) -> Text {
        Text { verbose: self.settings.verbose, target: self.target.clone() }
    }

    /// Writes diagnostics to stderr.
    pub fn diags(&self, diags: &Diags, sources: &Sources) -> Result<(), CliError> {
        diags.0.iter().try_for_each(|diag| self.diag(diag, sources))
    }

    pub fn diag(&self, diag: &Diag, sources: &Sources) -> Result<(), CliError> {
        let mut err = (self.console.err)();
        // The stream takes the colours away where none are wanted.
        to_stderr(writeln!(err, "{}\n", diag::render(diag, sources, true)))
    }

    /// Writes a load that failed: diagnostics to stderr, and a document where JSON was asked for.
    pub fn failed_load(&self, path: &Utf8Path, diags: Diags, sources: Sources) -> Result<CliError, CliError> {
        let errors = view::count(diags.errors(), "error");
        self.diags(&diags, &sources)?;
        let checked = view::CheckedInventory { path: path.to_owned(), diags, sources, size: None };
        let validation = view::Validation { inventories: vec![checked] };
        let render: Render<'_> = &|writer, out| writer.validation(&validation, ExitCode::Input, out);
        match self.settings.format {
            Format::Json => self.result(render)?,
            _ => self.file_beside(render)?,
        }
        Ok(CliError::input(format!("{errors} in `{path}`; nothing was contacted")))
    }

    /// Returns the progress that fits the console and the detail that was asked for.
    pub fn progress(&self, state: RunState) -> Box<dyn Progress> {
        let detail = self.settings.detail;
        // Logs would tear live lines, so with them there are only plain ones.
        if self.console.live && detail > Detail::Quiet && self.settings.verbose < 2 {
            return Box::new(Live::new(
                Box::new(io::stderr()),
                Box::new(terminal_size),
                state,
                detail,
                self.console.live_colour,
            ));
        }
        Box::new(Plain::new((self.console.err)(), state, detail, time_of_day))
    }

    /// Says what is wrong with a selector, and returns the usage error it is.
    pub fn selection_error(&self, diag: &Diag, sources: &Sources) -> CliError {
        match self.diag(diag, sources) {
            Ok(()) => CliError::said(ExitCode::Usage),
            Err(error) => error,
        }
    }
}

/// Returns the size of the terminal on stderr; that of old terminals where it does not tell one.
fn terminal_size() -> Size {
    let (columns, lines) = rustix::termios::tcgetwinsize(io::stderr())
        .map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)))
        .unwrap_or_default();
    let or = |told: usize, default: usize| if told == 0 { default } else { told };
    Size { columns: or(columns, 80), lines: or(lines, 24) }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time before a progress line is the one clock the command line reads"
)]
fn time_of_day() -> String {
    jiff::Zoned::now().strftime("%H:%M:%S").to_string()
}

fn to_stdout(written: io::Result<()>) -> Result<(), CliError> {
    ended(written, is_device(io::stdout()))
}

fn to_stderr(written: io::Result<()>) -> Result<(), CliError> {
    ended(written, is_device(io::stderr()))
}

/// A reader that went away (`forge plan | head`) does not change what the run came to, nor does a terminal that was closed.
fn ended(written: io::Result<()>, device: bool) -> Result<(), CliError> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) if is_closed_terminal(&error, device) => Ok(()),
        Err(error) => Err(CliError::unexpected(format!("the output cannot be written: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// A terminal that was closed answers with an error of input and output, and does not say any more that it is one; a disk
/// says the same where it is broken, but is no device of characters.
fn is_closed_terminal(error: &io::Error, device: bool) -> bool {
    device && error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

fn is_device(stream: impl AsFd) -> bool {
    let own = stream.as_fd().try_clone_to_owned().map(std::fs::File::from);
    own.and_then(|file| file.metadata()).is_ok_and(|found| found.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_disk_is_no_closed_terminal() {
        let closed = io::Error::from_raw_os_error(5);
        assert!(is_closed_terminal(&closed, true) && !is_closed_terminal(&closed, false));
        assert!(!is_closed_terminal(&io::Error::from_raw_os_error(28), true), "a full disk");
        assert!(is_device(fs_err::File::open("/dev/null").unwrap().file()));
        assert!(!is_device(fs_err::File::open("Cargo.toml").unwrap().file()));
    }
}
