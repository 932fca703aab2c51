//! Output of a verb's result: stdout in the requested format, and optionally a JSON file.

use super::console::Console;
use super::error::CliError;
use super::settings::CliSettings;
use super::shared_args::OutputFormat;
use crate::diag::{self, Diag, DiagList, SourceMap};
use crate::model::{ExitCode, HostName};
use crate::plan::{Plan, RehearsalReport};
use crate::view::progress::{
    LiveProgress, PlainProgress, ProgressDetail, ProgressDisplay, ProgressState, TerminalSize,
};
use crate::view::{self, JsonWriter, ResultWriter, TextWriter};
use camino::Utf8Path;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::time::Instant;

/// The outputs of one verb.
pub struct VerbOutput<'a> {
    pub console: &'a Console,
    pub settings: &'a CliSettings,
    /// The arguments that a suggested next command repeats.
    pub target: Option<String>,
    /// The same for `forge resume`, which does not take the inventory as an argument.
    pub resume: Option<String>,
}

/// Writes one result with one writer.
pub type ResultRenderer<'r> = &'r dyn Fn(&dyn ResultWriter, &mut dyn Write) -> io::Result<()>;

impl VerbOutput<'_> {
    /// Writes the result to stdout, and to the file of `--json-into`.
    ///
    /// # Errors
    /// A stream or file cannot be written. A closed pipe is not an error.
    pub fn write_result(&self, render: ResultRenderer<'_>) -> Result<(), CliError> {
        let mut out = (self.console.out)();
        let written = match self.settings.format {
            OutputFormat::Json => render(&self.json_writer(), &mut out),
            // `drawn` writes formats with their own grammar; verbs that do not support a format have rejected it.
            _ => render(&self.text_writer(), &mut out),
        };
        check_stdout_write(written.and_then(|()| out.flush()))?;
        self.write_json_file(render)
    }

    /// Writes a format with its own grammar (drawings, scripts, schemas) to stdout.
    ///
    /// # Errors
    /// The stream cannot be written. A closed pipe is not an error.
    pub fn write_raw(&self, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
        let mut out = (self.console.out)();
        check_stdout_write(write(&mut out).and_then(|()| out.flush()))
    }

    /// Writes a plan, also as Markdown for a review; `digest` is that of the file that it is saved in, and `recordings`
    /// describes the recordings that it is from.
    ///
    /// # Errors
    /// A stream or file cannot be written. A closed pipe is not an error.
    pub fn write_plan(
        &self,
        plan: &Plan,
        exit: ExitCode,
        digest: Option<&str>,
        recordings: &[String],
    ) -> Result<(), CliError> {
        let render: ResultRenderer<'_> = &|writer, out| writer.write_plan(plan, exit, out);
        match self.settings.format {
            OutputFormat::Markdown => {
                self.write_raw(&|out| view::markdown::write_plan(plan, digest, recordings, out))?;
                self.write_json_file(render)
            }
            _ => self.write_result(render),
        }
    }

    /// Writes a rehearsal, also as Markdown for a review.
    ///
    /// # Errors
    /// A stream or file cannot be written. A closed pipe is not an error.
    pub fn write_rehearsal(&self, report: &RehearsalReport, exit: ExitCode) -> Result<(), CliError> {
        let render: ResultRenderer<'_> = &|writer, out| writer.write_rehearsal(report, exit, out);
        match self.settings.format {
            OutputFormat::Markdown => {
                self.write_raw(&|out| view::markdown::write_rehearsal(report, out))?;
                self.write_json_file(render)
            }
            _ => self.write_result(render),
        }
    }

    /// Writes the rehearsal of a saved plan after the plan. A JSON document has one result: the file of the plan itself
    /// contains the rehearsal.
    ///
    /// # Errors
    /// The stream cannot be written. A closed pipe is not an error.
    pub fn write_added_rehearsal(&self, report: Option<&RehearsalReport>) -> Result<(), CliError> {
        let Some(report) = report else { return Ok(()) };
        match self.settings.format {
            OutputFormat::Markdown => self.write_raw(&|out| {
                writeln!(out)?;
                view::markdown::write_rehearsal(report, out)
            }),
            OutputFormat::Text => self.write_raw(&|out| {
                writeln!(out, "\nrehearsal of this plan, before it was saved:")?;
                self.text_writer().write_rehearsal(report, ExitCode::Done, out)
            }),
            _ => Ok(()),
        }
    }

    /// Writes the container images of a plan, and reports on stderr which images are missing from the list.
    ///
    /// # Errors
    /// The format is not supported, or a stream or file cannot be written.
    pub fn write_images(&self, plan: &Plan, exit: ExitCode) -> Result<(), CliError> {
        if self.settings.format == OutputFormat::Markdown {
            return Err(CliError::usage("`--images` does not support `--format markdown`")
                .hint("omit one of them, or use `--format json`"));
        }
        let images = plan.list_images();
        let render: ResultRenderer<'_> = &|writer, out| writer.write_images(&images, exit, out);
        match self.settings.format {
            OutputFormat::Skopeo => {
                self.write_raw(&|out| view::skopeo::write_sync_file(&images, out))?;
                self.write_json_file(render)?;
            }
            _ => self.write_result(render)?,
        }
        let mut err = (self.console.err)();
        if images.images.is_empty() && images.open.is_empty() && !images.silent && images.unseen.is_empty() {
            check_stderr_write(writeln!(err, "no step of this plan runs a container image"))?;
        }
        if images.silent {
            check_stderr_write(writeln!(
                err,
                "images of charts are missing from the list: the cluster's API did not answer; \
                 `forge plan --images --kubernetes VERSION` does not ask it"
            ))?;
        }
        if !images.unseen.is_empty() {
            let unseen = view::fold::fold_names(images.unseen.iter().map(HostName::as_str));
            check_stderr_write(writeln!(err, "images of steps on {unseen} may be missing: not reached"))?;
        }
        let open: Vec<String> = images.open.iter().map(|step| format!("`{step}`")).collect();
        if !open.is_empty() {
            let open = open.join(", ");
            let lacks = format!("images of {open} are missing from the list: not known yet; see `forge plan`");
            check_stderr_write(writeln!(err, "{lacks}"))?;
        }
        Ok(())
    }

    /// Writes the result only to the file of `--json-into`.
    pub fn write_json_file(&self, render: ResultRenderer<'_>) -> Result<(), CliError> {
        match &self.settings.json_into {
            None => Ok(()),
            Some(path) => super::atomic_file::replace_file(path, |out| render(&self.json_writer(), out)),
        }
    }

    /// Writes human-readable text: to stdout, or to stderr if stdout carries JSON.
    pub fn write_for_people(&self, render: ResultRenderer<'_>) -> Result<(), CliError> {
        let text = TextWriter { target: None, resume: None, ..self.text_writer() };
        let write = |mut out: Box<dyn Write>| render(&text, &mut out).and_then(|()| out.flush());
        match self.settings.format {
            OutputFormat::Json => check_stderr_write(write(Box::new((self.console.err)()))),
            _ => check_stdout_write(write(Box::new((self.console.out)()))),
        }
    }

    fn json_writer(&self) -> JsonWriter {
        JsonWriter::new(&self.settings.recordings)
    }

    /// Returns the writer for human-readable text.
    pub fn text_writer(&self) -> TextWriter {
        TextWriter { verbose: self.settings.verbose, target: self.target.clone(), resume: self.resume.clone() }
    }

    /// Writes diagnostics to stderr.
    pub fn write_diags(&self, diags: &DiagList, sources: &SourceMap) -> Result<(), CliError> {
        diags.0.iter().try_for_each(|diag| self.write_diag(diag, sources))
    }

    pub fn write_diag(&self, diag: &Diag, sources: &SourceMap) -> Result<(), CliError> {
        let mut err = (self.console.err)();
        // The stream strips colors if they are disabled.
        check_stderr_write(writeln!(err, "{}\n", diag::render_diag(diag, sources, true)))
    }

    /// Writes a failed load: diagnostics to stderr, and a JSON document if requested.
    pub fn report_failed_load(
        &self,
        path: &Utf8Path,
        diags: DiagList,
        sources: SourceMap,
    ) -> Result<CliError, CliError> {
        let errors = view::format_count(diags.count_errors(), "error");
        self.write_diags(&diags, &sources)?;
        let checked = view::CheckedInventory { path: path.to_owned(), diags, sources, size: None };
        let validation = view::ValidationResult { inventories: vec![checked] };
        let render: ResultRenderer<'_> = &|writer, out| writer.write_validation(&validation, ExitCode::Input, out);
        match self.settings.format {
            OutputFormat::Json => self.write_result(render)?,
            _ => self.write_json_file(render)?,
        }
        Ok(CliError::input(format!("{errors} in `{path}`; nothing was contacted")))
    }

    /// Returns the progress display for the console and the requested level of detail.
    pub fn create_progress(&self, state: ProgressState) -> Box<dyn ProgressDisplay> {
        let detail = self.settings.detail;
        // Logs would corrupt live lines, so the display is plain when logs are enabled.
        if self.console.live && detail > ProgressDetail::Quiet && self.settings.verbose < 2 {
            return Box::new(LiveProgress::new(
                Box::new(io::stderr()),
                Box::new(terminal_size),
                state,
                detail,
                self.console.live_colour,
            ));
        }
        Box::new(PlainProgress::new((self.console.err)(), state, detail, time_of_day))
    }

    /// Reports an invalid selector and returns it as a usage error.
    pub fn report_selection_error(&self, diag: &Diag, sources: &SourceMap) -> CliError {
        match self.write_diag(diag, sources) {
            Ok(()) => CliError::already_reported(ExitCode::Usage),
            Err(error) => error,
        }
    }
}

/// Returns the size of the terminal on stderr, or 80 by 24 if it reports none.
fn terminal_size() -> TerminalSize {
    let (columns, lines) = rustix::termios::tcgetwinsize(io::stderr())
        .map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)))
        .unwrap_or_default();
    let or = |told: usize, default: usize| if told == 0 { default } else { told };
    TerminalSize { columns: or(columns, 80), lines: or(lines, 24) }
}

/// Returns the time of day of an event, which may be of a run that another process started.
#[expect(clippy::disallowed_methods, reason = "only the timestamp of a progress line reads the clock here")]
fn time_of_day(then: Instant) -> String {
    let now = jiff::Zoned::now();
    let then = now.checked_sub(then.elapsed()).unwrap_or(now);
    then.strftime("%H:%M:%S").to_string()
}

fn check_stdout_write(written: io::Result<()>) -> Result<(), CliError> {
    ignore_closed_stream(written, is_char_device(io::stdout()))
}

fn check_stderr_write(written: io::Result<()>) -> Result<(), CliError> {
    ignore_closed_stream(written, is_char_device(io::stderr()))
}

/// Ignores a closed pipe (`forge plan | head`) and a closed terminal: neither changes the outcome of the run.
fn ignore_closed_stream(written: io::Result<()>, device: bool) -> Result<(), CliError> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) if is_closed_terminal(&error, device) => Ok(()),
        Err(error) => Err(CliError::unexpected(anyhow::Error::new(error).context("cannot write the output"))),
        Ok(()) => Ok(()),
    }
}

/// Reports whether `error` comes from a closed terminal: it returns EIO and is no longer recognized as a terminal. A
/// broken disk returns EIO too, but is not a character device.
fn is_closed_terminal(error: &io::Error, device: bool) -> bool {
    device && error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

fn is_char_device(stream: impl AsFd) -> bool {
    let own = stream.as_fd().try_clone_to_owned().map(std::fs::File::from);
    own.and_then(|file| file.metadata()).is_ok_and(|found| found.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_error_is_not_a_closed_terminal() {
        let closed = io::Error::from_raw_os_error(5);
        assert!(is_closed_terminal(&closed, true) && !is_closed_terminal(&closed, false));
        assert!(!is_closed_terminal(&io::Error::from_raw_os_error(28), true), "a full disk");
        assert!(is_char_device(fs_err::File::open("/dev/null").unwrap().file()));
        assert!(!is_char_device(fs_err::File::open("Cargo.toml").unwrap().file()));
    }
}
