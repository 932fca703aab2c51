//! Checks this machine's prerequisites: for reaching hosts and for keeping history.

use super::super::run_options::RunOptions;
use super::finding::{DoctorFinding, DoctorSeverity};
use crate::config::{Project, TransportKind};
use crate::model::HostName;
use crate::transport;
use camino::Utf8Path;
use std::io::{ErrorKind, Write};

/// Bytes of the file that is written to check a folder: a page, which a full file system does not have.
const TRIAL_BYTES: usize = 4096;

/// Returns the findings, in the order in which the checks build on each other.
pub async fn check_controller(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    state: &Utf8Path,
    can_ask: bool,
) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    let by_ssh =
        |host: &&HostName| project.hosts.get(*host).is_some_and(|h| matches!(h.connect.transport, TransportKind::Ssh));
    if hosts.iter().any(|host| by_ssh(&host)) {
        found.push(check_ssh().await);
        found.push(check_control_sockets(options));
    }
    found.push(check_history_folder(state));
    found.push(check_terminal(can_ask));
    found
}

async fn check_ssh() -> DoctorFinding {
    match transport::ssh_version().await {
        Ok(version) => DoctorFinding::new(DoctorSeverity::Ok, "ssh", version),
        Err(error) => DoctorFinding::new(DoctorSeverity::Problem, "ssh", error.message.clone())
            .with_hint(error.hint.unwrap_or_default()),
    }
}

fn check_control_sockets(options: &RunOptions) -> DoctorFinding {
    match transport::check_control_dir(&options.control_dir) {
        Ok(()) => DoctorFinding::new(DoctorSeverity::Ok, "sockets", format!("`{}` is private", options.control_dir)),
        Err(error) => DoctorFinding::new(DoctorSeverity::Problem, "sockets", error.message.clone())
            .with_hint(error.hint.unwrap_or_default()),
    }
}

/// Runs continue without a history, so a folder that is not writable is only a note.
pub(super) fn check_history_folder(state: &Utf8Path) -> DoctorFinding {
    let there = state.ancestors().find(|path| path.exists() || path.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let there = if there.as_str().is_empty() { Utf8Path::new(".") } else { there };
    match try_to_write(there) {
        Ok(()) => DoctorFinding::new(DoctorSeverity::Ok, "history", format!("`{state}` is writable")),
        Err(error) => {
            let what = format!("`{state}` is not writable, so no history is kept: {error}");
            let hint = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                    "free up space, or set another folder with `--state` or `FORGE_STATE`"
                }
                _ => "set another folder with `--state` or `FORGE_STATE`",
            };
            DoctorFinding::new(DoctorSeverity::Note, "history", what).with_hint(hint)
        }
    }
}

/// Writes a file in `folder` and removes it again: permissions do not show that a file system is full, and `/proc` takes
/// no files of anyone.
fn try_to_write(folder: &Utf8Path) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".forge-doctor-").tempfile_in(folder)?;
    file.write_all(&[0; TRIAL_BYTES])?;
    // A file system may allocate, and refuse, only when the data leaves the cache.
    file.as_file().sync_data()?;
    file.close()
}

fn check_terminal(can_ask: bool) -> DoctorFinding {
    match can_ask {
        true => DoctorFinding::new(DoctorSeverity::Ok, "terminal", "interactive: confirmation prompts are possible"),
        false => DoctorFinding::new(DoctorSeverity::Note, "terminal", "not interactive: no confirmation prompts")
            .with_hint("`apply`, and `exec` on more than one host, need `--yes` here"),
    }
}
