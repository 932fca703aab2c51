//! Reports of acceptance tests in the state folder of the cluster: `tests/RUN.json`.

use super::report::{ACCEPTANCE_VERSION, AcceptanceReport};
use crate::state::StateStore;
use camino::{Utf8Path, Utf8PathBuf};

/// The folder in the state folder of the cluster.
const FOLDER: &str = "tests";

fn tests_folder(state: &Utf8Path, cluster: &str) -> Utf8PathBuf {
    StateStore::new(state, cluster).root().join(FOLDER)
}

/// Stores a report and returns its path.
///
/// # Errors
/// The state folder cannot be written: the reason.
pub fn store_acceptance(state: &Utf8Path, report: &AcceptanceReport) -> Result<Utf8PathBuf, String> {
    let name = format!("{}.json", report.run);
    StateStore::new(state, &report.cluster).write_json(FOLDER, &name, report).map_err(|error| error.to_string())
}

/// Reads the report of a run: its name, a unique prefix of it, or `last`.
///
/// # Errors
/// No such run, or its report cannot be read: the reason.
pub fn read_acceptance(state: &Utf8Path, cluster: &str, run: &str) -> Result<AcceptanceReport, String> {
    let folder = tests_folder(state, cluster);
    let names = list_runs(&folder);
    let found: Vec<&String> = match run {
        "last" => names.last().into_iter().collect(),
        prefix => names.iter().filter(|name| name.starts_with(prefix)).collect(),
    };
    match found.as_slice() {
        [name] => read_report(&folder.join(format!("{name}.json"))),
        [] => Err(format!("no run of tests `{run}` in `{folder}`")),
        _ => Err(format!("several runs of tests begin with `{run}`")),
    }
}

/// Returns the newest run of that set in which everything passed.
pub fn find_baseline(state: &Utf8Path, cluster: &str, set: &str) -> Option<AcceptanceReport> {
    let folder = tests_folder(state, cluster);
    let reports = list_runs(&folder).into_iter().rev();
    reports
        .filter_map(|name| read_report(&folder.join(format!("{name}.json"))).ok())
        .find(|report| report.set == set && report.is_accepted())
}

/// Returns the names of the stored runs, the oldest first.
fn list_runs(folder: &Utf8Path) -> Vec<String> {
    let entries = folder.read_dir_utf8().map(|entries| entries.flatten().collect()).unwrap_or_else(|_| Vec::new());
    let mut names: Vec<String> =
        entries.iter().filter_map(|entry| Some(entry.file_name().strip_suffix(".json")?.to_owned())).collect();
    names.sort();
    names
}

fn read_report(path: &Utf8Path) -> Result<AcceptanceReport, String> {
    let text = fs_err::read_to_string(path).map_err(|error| error.to_string())?;
    let report: AcceptanceReport =
        serde_json::from_str(&text).map_err(|error| format!("`{path}` is not a report of tests: {error}"))?;
    match report.version {
        ACCEPTANCE_VERSION => Ok(report),
        other => Err(format!("`{path}` has version {other}, this forge supports version {ACCEPTANCE_VERSION}")),
    }
}
