//! Past runs, as the command line names them.

use super::error::CliError;
use super::verb_context::VerbContext;
use crate::config::read_cluster_name;
use crate::diag::did_you_mean;
use crate::engine::{self, AcceptanceReport, PastRun};
use crate::model::HostOutcome;
use crate::state::{self, RunFolder, StateStore, TestReportFile};
use crate::view::ListedRun;
use anyhow::anyhow;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Write as _;

/// Lists the runs of the state folder, newest first; with `-i`, those of the inventory's cluster.
///
/// # Errors
/// The directory exists but cannot be read.
pub fn list_run_folders<B>(cx: &VerbContext<'_, B>) -> Result<Vec<RunFolder>, CliError> {
    match &cx.typed.inventory_flag {
        Some(inventory) => list_cluster_runs(cx, inventory),
        None => list_all_runs(&state_folder(cx)),
    }
}

/// Lists the runs of an inventory's cluster, newest first. If the name of the cluster cannot be read, lists those of all
/// clusters next to the inventory.
///
/// # Errors
/// The directory exists but cannot be read.
pub fn list_cluster_runs<B>(cx: &VerbContext<'_, B>, inventory: &Utf8Path) -> Result<Vec<RunFolder>, CliError> {
    let state = cx.settings.state_folder(inventory);
    let mut folders = list_all_runs(&state)?;
    if let Some(cluster) = read_cluster_name(inventory) {
        let own = StateStore::new(&state, &cluster);
        folders.retain(|folder| own.root().file_name() == Some(&folder.cluster));
    }
    Ok(folders)
}

fn list_all_runs(state: &Utf8Path) -> Result<Vec<RunFolder>, CliError> {
    state::list_runs(state).map_err(|error| unreadable_state_error(state, error))
}

fn unreadable_state_error(state: &Utf8Path, error: std::io::Error) -> CliError {
    CliError::unexpected(anyhow::Error::new(error).context(format!("cannot read state directory `{state}`")))
        .hint("pass another one with `--state`")
}

/// Lists the reports of tests, newest first; with an inventory, those of its cluster.
///
/// # Errors
/// The directory exists but cannot be read.
pub fn list_test_reports<B>(
    cx: &VerbContext<'_, B>,
    inventory: Option<&Utf8Path>,
) -> Result<Vec<TestReportFile>, CliError> {
    let folder = inventory.map_or_else(|| state_folder(cx), |inventory| cx.settings.state_folder(inventory));
    let mut files = state::list_test_reports(&folder).map_err(|error| unreadable_state_error(&folder, error))?;
    if let Some(cluster) = inventory.and_then(read_cluster_name) {
        let own = StateStore::new(&folder, &cluster);
        files.retain(|file| own.root().file_name() == Some(&file.cluster));
    }
    Ok(files)
}

/// Reads the newest apply, except those that changed nothing because hosts were locked; `None` if there is none.
///
/// # Errors
/// A newer run cannot be read.
pub fn find_newest_apply(folders: &[RunFolder]) -> Result<Option<PastRun>, CliError> {
    for folder in folders {
        let run = read_run(folder)?;
        if is_counted_apply(&run) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Reports whether a run is an apply, and not one that changed nothing because hosts were locked.
pub fn is_counted_apply(run: &PastRun) -> bool {
    let hosts = &run.report.hosts;
    let is_kept_out = hosts.iter().any(|host| host.outcome == HostOutcome::Locked)
        && hosts.iter().all(|host| matches!(host.outcome, HostOutcome::Locked | HostOutcome::Ok));
    run.info.verb == "apply" && !is_kept_out
}

/// Reports whether a text has the form of a run's ID, `20261121T093015-4f2a`: it becomes a path on hosts.
pub fn is_run_id(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    plain && text.len() >= 17 && text.as_bytes()[8] == b'T'
}

/// Returns the state directory. The inventory only determines its location; it need not be valid or exist.
fn state_folder<B>(cx: &VerbContext<'_, B>) -> Utf8PathBuf {
    let inventory = cx.typed.inventory_flag.as_deref().or(cx.environment.inventory.as_deref());
    cx.settings.state_folder(inventory.unwrap_or(Utf8Path::new("inventory.yaml")))
}

/// Reads a run for a list.
pub fn read_listed_run(folder: &RunFolder) -> ListedRun {
    match engine::read_run(folder) {
        Ok(run) => ListedRun::Read(Box::new(run)),
        Err(why) => ListedRun::Broken { run: folder.run.clone(), cluster: folder.cluster.clone(), why },
    }
}

/// Reads the report of a run of tests for a list.
pub fn read_listed_tests(file: &TestReportFile) -> ListedRun {
    match engine::read_test_report(&file.path) {
        Ok(report) => ListedRun::Tests(Box::new(report)),
        Err(why) => ListedRun::Broken { run: file.run.clone(), cluster: file.cluster.clone(), why },
    }
}

/// Finds a run by its name, a unique prefix of it or `last`, and reads it.
///
/// # Errors
/// Usage: the name matches no run, several, or a run of tests. Unexpected: the run cannot be read.
pub fn find_run<B>(cx: &VerbContext<'_, B>, folders: &[RunFolder], name: &str) -> Result<PastRun, CliError> {
    let error = match find_run_folder(folders, name) {
        Ok(folder) => return read_run(folder),
        Err(error) => error,
    };
    if let Some(report) = find_test_report(cx, folders, name)? {
        let error = CliError::usage(format!("`{}` is a run of tests", report.run));
        let hint = format!("`forge test --set {} --against {}` compares with it", report.set, report.run);
        return Err(error.hint(hint));
    }
    Err(match folders.is_empty() {
        true => error.note(describe_missing_runs(cx)?),
        false => error,
    })
}

/// Reports on stderr where no run was found.
pub fn report_missing_runs<B>(cx: &VerbContext<'_, B>) -> Result<(), CliError> {
    let missing = describe_missing_runs(cx)?;
    // Ignore a closed stderr: no other stream could report it.
    let _ = writeln!((cx.console.err)(), "{missing}");
    Ok(())
}

/// Says where no run was found, and that there are runs of tests.
fn describe_missing_runs<B>(cx: &VerbContext<'_, B>) -> Result<String, CliError> {
    let inventory = cx.typed.inventory_flag.as_deref().or(cx.environment.inventory.as_deref());
    let of_cluster = inventory.map(|inventory| format!(" of the cluster of `{inventory}`")).unwrap_or_default();
    let tests = match list_test_reports(cx, inventory)?.is_empty() {
        true => "",
        false => ", except runs of tests",
    };
    let elsewhere = match inventory {
        None => "; an inventory elsewhere has its history next to it: pass it with `-i`",
        Some(_) => "",
    };
    Ok(format!("no runs{of_cluster} in `{}`{tests}{elsewhere}", state_folder(cx)))
}

/// Finds a run of tests by its name or a unique prefix of it, unless a run in `folders` has that prefix, and reads its
/// report.
///
/// # Errors
/// The prefix is that of several runs of tests, or the report cannot be read.
pub fn find_test_report<B>(
    cx: &VerbContext<'_, B>,
    folders: &[RunFolder],
    name: &str,
) -> Result<Option<AcceptanceReport>, CliError> {
    if folders.iter().any(|folder| folder.run.starts_with(name)) {
        return Ok(None);
    }
    let files = list_test_reports(cx, cx.typed.inventory_flag.as_deref())?;
    let found: Vec<&TestReportFile> = files.iter().filter(|file| file.run.starts_with(name)).collect();
    match found.as_slice() {
        [] => Ok(None),
        [file] => engine::read_test_report(&file.path).map(Some).map_err(|why| CliError::unexpected(anyhow!(why))),
        [first, second, ..] => {
            let message = format!("run `{name}` is ambiguous: `{}`, `{}` …", second.run, first.run);
            Err(CliError::usage(message).hint("pass a longer prefix of the name"))
        }
    }
}

pub fn read_run(folder: &RunFolder) -> Result<PastRun, CliError> {
    let read = engine::read_run(folder);
    read.map_err(|why| CliError::unexpected(anyhow!("cannot read run `{}`: {why}", folder.run)))
}

/// Finds a run by its name, a unique prefix of it or `last`.
///
/// # Errors
/// Usage: the name matches no run, or several.
pub fn find_run_folder<'f>(folders: &'f [RunFolder], name: &str) -> Result<&'f RunFolder, CliError> {
    if let ("last", Some(newest)) = (name, folders.first()) {
        return Ok(newest);
    }
    let found: Vec<&RunFolder> = folders.iter().filter(|folder| folder.run.starts_with(name)).collect();
    match (found.iter().find(|folder| folder.run == name), found.as_slice()) {
        (Some(exact), _) => Ok(exact),
        (None, [one]) => Ok(one),
        (None, []) => Err(unknown_run_error(folders, name)),
        (None, [first, second, ..]) => {
            let message = format!("run `{name}` is ambiguous: `{}`, `{}` …", second.run, first.run);
            Err(CliError::usage(message).hint("pass a longer prefix of the name"))
        }
    }
}

fn unknown_run_error(folders: &[RunFolder], name: &str) -> CliError {
    let error = CliError::usage(format!("run `{name}` not found"));
    let last = folders.first().map(|_| "last");
    match did_you_mean(name, folders.iter().map(|folder| folder.run.as_str()).chain(last)) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`forge runs` lists all runs; `last` is the newest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(run: &str) -> RunFolder {
        RunFolder { cluster: "c".into(), run: run.into(), path: run.into() }
    }

    #[test]
    fn run_is_found_by_a_unique_prefix() {
        let folders = [folder("20260103T0000-b"), folder("20260103T0000"), folder("20260101T0000-a")];
        let run = |name| find_run_folder(&folders, name).ok().map(|folder| folder.run.as_str());
        assert_eq!(run("last"), Some("20260103T0000-b"));
        assert_eq!(run("20260101"), Some("20260101T0000-a"));
        assert_eq!(run("20260103T0000"), Some("20260103T0000"), "a full name takes precedence over a prefix");
        assert_eq!(run("20260103"), None, "the prefix is ambiguous");
        assert_eq!(run("2027"), None);
        let check = |folders: &[RunFolder], hint: &str| {
            assert_eq!(find_run_folder(folders, "lst").unwrap_err().advice().1, Some(hint));
        };
        check(&folders, "did you mean `last`?");
        check(&[], "`forge runs` lists all runs; `last` is the newest");
    }
}
