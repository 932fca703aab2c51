//! Runs of the past, as they are named on the command line.

use super::error::CliError;
use super::run::Cx;
use crate::diag::did_you_mean;
use crate::engine::{self, PastRun};
use crate::state::{self, RunFolder};
use crate::view::Listed;
use camino::{Utf8Path, Utf8PathBuf};

/// Lists the runs of the state folder, newest first.
///
/// # Errors
/// The folder is there and cannot be read.
pub fn folders<B>(cx: &Cx<'_, B>) -> Result<Vec<RunFolder>, CliError> {
    let state = state_folder(cx);
    state::runs(&state).map_err(|error| {
        CliError::unexpected(format!("the state folder `{state}` cannot be read: {error}"))
            .hint("name another with `--state`")
    })
}

/// The inventory only says where the folder lies: it need not be valid, nor there any more.
fn state_folder<B>(cx: &Cx<'_, B>) -> Utf8PathBuf {
    let inventory = cx.typed.inventory_flag.as_deref().or(cx.environment.inventory.as_deref());
    cx.settings.state(inventory.unwrap_or(Utf8Path::new("inventory.yaml")))
}

/// Reads a run for a list.
pub fn listed(folder: &RunFolder) -> Listed {
    match engine::read_run(folder) {
        Ok(run) => Listed::Read(Box::new(run)),
        Err(why) => Listed::Broken { run: folder.run.clone(), cluster: folder.cluster.clone(), why },
    }
}

/// Finds a run by its name, the beginning of it, or `last`, and reads it.
///
/// # Errors
/// Usage: no run has that name, or several. Unexpected: it cannot be read.
pub fn one<B>(cx: &Cx<'_, B>, folders: &[RunFolder], name: &str) -> Result<PastRun, CliError> {
    let folder = find(folders, name).map_err(|error| match folders.is_empty() {
        true => error.note(format!("there are no runs in `{}`", state_folder(cx))),
        false => error,
    })?;
    read(folder)
}

pub fn read(folder: &RunFolder) -> Result<PastRun, CliError> {
    let read = engine::read_run(folder);
    read.map_err(|why| CliError::unexpected(format!("the run `{}` cannot be read: {why}", folder.run)))
}

fn find<'f>(folders: &'f [RunFolder], name: &str) -> Result<&'f RunFolder, CliError> {
    if let ("last", Some(newest)) = (name, folders.first()) {
        return Ok(newest);
    }
    let found: Vec<&RunFolder> = folders.iter().filter(|folder| folder.run.starts_with(name)).collect();
    match (found.iter().find(|folder| folder.run == name), found.as_slice()) {
        (Some(exact), _) => Ok(exact),
        (None, [one]) => Ok(one),
        (None, []) => Err(unknown(folders, name)),
        (None, [first, second, ..]) => {
            let message = format!("several runs begin with `{name}`: `{}`, `{}` …", second.run, first.run);
            Err(CliError::usage(message).hint("write more of the name"))
        }
    }
}

fn unknown(folders: &[RunFolder], name: &str) -> CliError {
    let error = CliError::usage(format!("there is no run `{name}`"));
    match did_you_mean(name, folders.iter().map(|folder| folder.run.as_str())) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`forge runs` lists them; `last` is the newest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(run: &str) -> RunFolder {
        RunFolder { cluster: "c".into(), run: run.into(), path: run.into() }
    }

    #[test]
    fn a_run_is_found_by_the_beginning_of_its_name() {
        let folders = [folder("20260103T0000-b"), folder("20260103T0000"), folder("20260101T0000-a")];
        let run = |name| find(&folders, name).ok().map(|folder| folder.run.as_str());
        assert_eq!(run("last"), Some("20260103T0000-b"));
        assert_eq!(run("20260101"), Some("20260101T0000-a"));
        assert_eq!(run("20260103T0000"), Some("20260103T0000"), "a whole name is not the beginning of another");
        assert_eq!(run("20260103"), None, "two begin so");
        assert_eq!(run("2027"), None);
    }
}
