//! The runs in a state folder: listed, found by the prefix of a name, read as text.

use crate::model::HostName;
use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a run's journal in its folder.
pub const JOURNAL: &str = "journal.ndjson";

/// The folder of the reports of tests, in the folder of a cluster.
pub const TESTS: &str = "tests";

/// The format version of `run.json`; see `schemas/run.json`.
pub const RUN_VERSION: u32 = 1;

/// The author, time and origin of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Format version; see `schemas/run.json`.
    pub version: u32,
    /// The run ID: time and random text, `20261121T093015-4f2a`. It is the name of the run's folder.
    pub run: String,
    /// The command that made the run: `apply`.
    pub verb: String,
    /// The name of the cluster in the inventory.
    pub cluster: String,
    /// The inventory as given on the command line.
    pub inventory: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub began: String,
    /// The user who started forge.
    pub user: String,
    /// The machine that forge ran on.
    pub controller: String,
    /// Hosts of the inventory that are not real: sandboxes on the controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// The hosts of its plan: in a run that was killed, some have no events. Empty in runs of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostName>,
    /// The saved plan that the run applied; absent if it planned itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<RunPlanFile>,
}

/// The saved plan that a run applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunPlanFile {
    /// The path of its file on the controller.
    pub path: String,
    /// The digest of the plan, by which it is recognized.
    pub digest: String,
}

/// The folder of a past run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    /// The name of the cluster's folder.
    pub cluster: String,
    /// The run ID, which is the name of the folder.
    pub run: String,
    /// The path of the folder.
    pub path: Utf8PathBuf,
}

/// Lists the runs of all clusters of a state folder, newest first. A missing folder has no runs.
///
/// # Errors
/// The folder exists and cannot be read.
pub fn list_runs(state: &Utf8Path) -> std::io::Result<Vec<RunFolder>> {
    let mut found = Vec::new();
    for cluster in list_folders(state)? {
        for path in list_folders(&cluster.join("runs"))? {
            let (cluster, run) = (folder_name(&cluster), folder_name(&path));
            found.push(RunFolder { cluster, run, path });
        }
    }
    // A run's name begins with its time in seconds. Within one second, the folder created later is the later run.
    let begun = |of: &RunFolder| {
        let second = of.run.split('-').next().unwrap_or_default().to_owned();
        let made = of.path.metadata().and_then(|about| about.created()).ok();
        (second, made, of.run.clone())
    };
    found.sort_by_cached_key(|of| (std::cmp::Reverse(begun(of)), of.cluster.clone()));
    Ok(found)
}

/// The report of a run of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestReportFile {
    /// The name of the cluster's folder.
    pub cluster: String,
    /// The ID of the run, which is the name of the file.
    pub run: String,
    /// The path of the file.
    pub path: Utf8PathBuf,
}

/// Lists the reports of tests of all clusters of a state folder, newest first. A missing folder has none.
///
/// # Errors
/// The folder exists and cannot be read.
pub fn list_test_reports(state: &Utf8Path) -> std::io::Result<Vec<TestReportFile>> {
    let mut found = Vec::new();
    for cluster in list_folders(state)? {
        for path in list_entries(&cluster.join(TESTS))? {
            if let Some(run) = path.file_name().and_then(|name| name.strip_suffix(".json")) {
                found.push(TestReportFile { cluster: folder_name(&cluster), run: run.to_owned(), path: path.clone() });
            }
        }
    }
    found.sort_by(|a, b| b.run.cmp(&a.run));
    Ok(found)
}

/// Returns when a run began, by its ID: RFC 3339, UTC; empty if the ID has no time.
pub fn begin_from_run_id(run: &str) -> String {
    let began = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", run.split('-').next().unwrap_or(""));
    began.map(|time| format!("{time}Z")).unwrap_or_default()
}

fn folder_name(path: &Utf8Path) -> String {
    path.file_name().unwrap_or_default().to_owned()
}

fn list_folders(of: &Utf8Path) -> std::io::Result<Vec<Utf8PathBuf>> {
    Ok(list_entries(of)?.into_iter().filter(|path| path.is_dir()).collect())
}

fn list_entries(of: &Utf8Path) -> std::io::Result<Vec<Utf8PathBuf>> {
    let entries = match of.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(std::io::Error::new(error.kind(), format!("`{of}`: {error}"))),
    };
    entries.map(|entry| Ok(entry?.into_path())).collect()
}

impl RunFolder {
    /// Returns the run's metadata. A run of a version that did not write it has only a name and a time.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read_info(&self) -> Result<RunInfo, String> {
        let Some(text) = self.read_file("run.json")? else { return Ok(self.info_from_name()) };
        let info: RunInfo = serde_json::from_str(&text).map_err(|error| format!("`run.json` is invalid: {error}"))?;
        match info.version {
            RUN_VERSION => Ok(info),
            other => Err(format!("`run.json` has version {other}; this forge supports version {RUN_VERSION}")),
        }
    }

    fn info_from_name(&self) -> RunInfo {
        RunInfo {
            version: RUN_VERSION,
            run: self.run.clone(),
            verb: "apply".to_owned(),
            cluster: self.cluster.clone(),
            began: begin_from_run_id(&self.run),
            ..RunInfo::default()
        }
    }

    /// Reports whether a process on this machine is still writing the journal of the run.
    pub fn is_active(&self) -> bool {
        let Ok(journal) = fs_err::File::open(self.path.join(JOURNAL)) else { return false };
        matches!(journal.file().try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
    }

    /// Returns the text of a file of the run; `None` if it does not exist.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read_file(&self, name: &str) -> Result<Option<String>, String> {
        let path = self.path.join(name);
        match fs_err::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_listed_newest_first_or_empty_without_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(dir.path()).unwrap();
        assert_eq!(list_runs(&state.join("gone")).unwrap(), []);
        for run in ["b/runs/20260102T000000-aaaa", "a/runs/20260103T000000-aaaa", "a/runs/20260101T000000-ffff"] {
            std::fs::create_dir_all(state.join(run)).unwrap();
        }
        let found = list_runs(state).unwrap();
        let names: Vec<_> = found.iter().map(|run| (run.cluster.as_str(), &run.run[..8])).collect();
        assert_eq!(names, [("a", "20260103"), ("b", "20260102"), ("a", "20260101")]);
        assert_eq!(found[0].read_info().unwrap().began, "2026-01-03T00:00:00Z");
    }
}
