//! `--record` and `--observed`: save raw answers of hosts to a file, and read them back.

use super::atomic_file;
use super::backend::Backend;
use super::error::CliError;
use super::settings::CliSettings;
use crate::engine::{RecordedTwice, Recording, ReplayOptions};
use crate::model;
use crate::view::RecordingFile;
use camino::{Utf8Path, Utf8PathBuf};
use std::sync::Arc;

/// The source of answers.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ReplayArgs {
    /// Use the answers of this recording: no host is contacted, no program is started. Repeat it, or pass a folder of
    /// `.json` files, to combine recordings of different hosts
    #[arg(long, value_name = "FILE")]
    pub observed: Vec<Utf8PathBuf>,
}

/// The destination or source of answers.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RecordingArgs {
    /// Save the raw answers of hosts to this file, for --observed; secrets are left out, serial numbers replaced
    #[arg(long, value_name = "FILE", conflicts_with = "observed")]
    pub record: Option<Utf8PathBuf>,
    /// Keep machine ids, UUIDs and serial numbers in the file of --record
    #[arg(long, requires = "record")]
    pub no_redact: bool,
    #[command(flatten)]
    pub from: ReplayArgs,
}

impl ReplayArgs {
    /// Returns the settings of a verb that uses the answers of the recording, if one is given.
    ///
    /// # Errors
    /// The file cannot be read or is not a recording.
    pub fn apply_to_settings(&self, settings: &CliSettings) -> Result<CliSettings, CliError> {
        let mut settings = settings.clone();
        let observed = read_recordings(&self.observed, &mut settings.recordings)?;
        settings.replay = ReplayOptions { observed: observed.map(Arc::new), ..settings.replay };
        Ok(settings)
    }
}

impl RecordingArgs {
    /// Returns the settings of a verb that records answers or uses recorded ones.
    ///
    /// # Errors
    /// The recording cannot be read, or the file for it cannot be written.
    pub fn apply_to_settings(&self, settings: &CliSettings) -> Result<CliSettings, CliError> {
        self.record.iter().try_for_each(|path| atomic_file::check_writable(path))?;
        let mut settings = self.from.apply_to_settings(settings)?;
        settings.replay.record = self.record.is_some();
        Ok(settings)
    }

    /// Writes the recording if one was requested.
    ///
    /// # Errors
    /// The file cannot be written, or the search for identifiers fails.
    pub fn write_recording<B: Backend>(
        &self,
        backend: &B,
        project: &B::Project,
        seen: &B::HostObservations,
    ) -> Result<(), CliError> {
        let Some(path) = &self.record else { return Ok(()) };
        let mut recording = match self.no_redact {
            true => backend.build_recording(project, seen),
            false => backend
                .build_redacted_recording(project, seen)
                .map_err(anyhow::Error::msg)
                .map_err(CliError::unexpected)?,
        };
        recording.recorded =
            backend.current_time().round(jiff::Unit::Second).map_err(CliError::unexpected)?.to_string();
        atomic_file::replace_file(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &recording)?;
            writeln!(out)
        })
    }
}

/// Reads and combines recordings; `None` without any. Adds each of them to `read`.
fn read_recordings(paths: &[Utf8PathBuf], read: &mut Vec<RecordingFile>) -> Result<Option<Recording>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(list_recording_files(path)?);
    }
    // Parsing the answers of many hosts takes as long as planning.
    let recordings = model::map_large_parallel(&files, |path| read_recording(path));
    let recordings = files.iter().zip(recordings).map(|(path, recording)| Ok((path.as_str(), recording?)));
    let recordings = recordings.collect::<Result<Vec<_>, CliError>>()?;
    read.extend(
        recordings
            .iter()
            .map(|(path, recording)| RecordingFile { path: (*path).into(), recorded: recording.recorded.parse().ok() }),
    );
    Recording::merge(recordings).map_err(|twice| {
        let RecordedTwice { host, first, second } = twice;
        let error = CliError::input(format!("host `{host}` is in two recordings: `{first}` and `{second}`"));
        error.hint("pass one of them, or record each host once: `forge plan --on HOSTS --record FILE`")
    })
}

/// Returns the recordings of a folder, in the order of their names; a file stands for itself.
fn list_recording_files(path: &Utf8Path) -> Result<Vec<Utf8PathBuf>, CliError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error: std::io::Error| CliError::input(format!("cannot read folder `{path}`: {error}"));
    let mut files = Vec::new();
    for entry in path.read_dir_utf8().map_err(failed)? {
        files.push(entry.map_err(failed)?.into_path());
    }
    files.retain(|file| file.extension() == Some("json") && file.is_file());
    files.sort();
    match files.is_empty() {
        true => Err(CliError::input(format!("folder `{path}` contains no recording"))
            .hint("recordings are files whose names end in `.json`")),
        false => Ok(files),
    }
}

fn read_recording(path: &Utf8Path) -> Result<Recording, CliError> {
    let wrong = |why: String| {
        CliError::input(format!("cannot read recording `{path}`: {why}"))
            .hint("create one with `forge facts --record FILE` or `forge plan --record FILE`")
    };
    let text = atomic_file::read_text(path).map_err(|error| wrong(describe_io_error(&error)))?;
    Recording::parse(&text).map_err(wrong)
}

fn describe_io_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
