//! Reports of acceptance tests in the state folder of the cluster: `tests/RUN.json`.

use super::report::{ACCEPTANCE_VERSION, AcceptanceReport};
use crate::state::{StateStore, TESTS};
use camino::{Utf8Path, Utf8PathBuf};

fn tests_folder(state: &Utf8Path, cluster: &str) -> Utf8PathBuf {
    StateStore::new(state, cluster).root().join(TESTS)
}

/// Stores a report and returns its path.
///
/// # Errors
/// The state folder cannot be written: the reason.
pub fn store_acceptance(state: &Utf8Path, report: &AcceptanceReport) -> Result<Utf8PathBuf, String> {
    let name = format!("{}.json", report.run);
    StateStore::new(state, &report.cluster).write_json(TESTS, &name, report).map_err(|error| error.to_string())
}

/// Why the run to compare with was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineError {
    /// The failure, a lowercase fragment.
    pub why: String,
    /// The runs that can be named; `None` if there are none.
    pub hint: Option<String>,
}

/// Up to this number of runs are suggested.
const SUGGESTED_RUNS: usize = 5;

/// Reads the report of a run of `set`: its name, a unique prefix of it, or `last`, the newest run of this set.
///
/// # Errors
/// No such run, one of another set, or its report cannot be read: the reason, with the newest runs of the set.
pub fn read_acceptance(
    state: &Utf8Path,
    cluster: &str,
    set: &str,
    run: &str,
) -> Result<AcceptanceReport, BaselineError> {
    let folder = tests_folder(state, cluster);
    let names = list_runs(&folder);
    find_report(&folder, &names, set, run)
        .map_err(|why| BaselineError { why, hint: suggest_runs(&folder, &names, set) })
}

/// Returns the newest runs of a set with their results.
fn suggest_runs(folder: &Utf8Path, names: &[String], set: &str) -> Option<String> {
    let reports = names.iter().rev().filter_map(|name| read_test_report(&folder.join(format!("{name}.json"))).ok());
    let of_set = reports.filter(|report| report.set == set).take(SUGGESTED_RUNS);
    let listed: Vec<String> = of_set
        .map(|report| {
            let result = if report.is_accepted() { "accepted" } else { "not accepted" };
            format!("`{}` ({result})", report.run)
        })
        .collect();
    (!listed.is_empty()).then(|| format!("the set `{set}` ran before as {}", listed.join(", ")))
}

fn find_report(folder: &Utf8Path, names: &[String], set: &str, run: &str) -> Result<AcceptanceReport, String> {
    let read = |name: &str| read_test_report(&folder.join(format!("{name}.json")));
    if run == "last" {
        let found =
            names.iter().rev().map(|name| read(name)).find(|report| !matches!(report, Ok(other) if other.set != set));
        return found.unwrap_or_else(|| Err(format!("no run of the set `{set}` in `{folder}`")));
    }
    let found: Vec<&String> = names.iter().filter(|name| name.starts_with(run)).collect();
    match found.as_slice() {
        [name] => match read(name)? {
            report if report.set != set => {
                Err(format!("run `{name}` tested the set `{}`, and this run tests `{set}`", report.set))
            }
            report => Ok(report),
        },
        [] => Err(format!("run of tests `{run}` not found in `{folder}`")),
        _ => Err(format!("several runs of tests begin with `{run}`")),
    }
}

/// Returns the newest run of that set in which everything passed.
pub fn find_baseline(state: &Utf8Path, cluster: &str, set: &str) -> Option<AcceptanceReport> {
    let folder = tests_folder(state, cluster);
    let reports = list_runs(&folder).into_iter().rev();
    reports
        .filter_map(|name| read_test_report(&folder.join(format!("{name}.json"))).ok())
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

/// Reads a stored report.
///
/// # Errors
/// The file cannot be read, is not a report of tests, or has an unsupported version: a lowercase fragment.
pub fn read_test_report(path: &Utf8Path) -> Result<AcceptanceReport, String> {
    let text = fs_err::read_to_string(path).map_err(|error| error.to_string())?;
    let report: AcceptanceReport =
        serde_json::from_str(&text).map_err(|error| format!("`{path}` is not a report of tests: {error}"))?;
    match report.version {
        ACCEPTANCE_VERSION => Ok(report),
        other => Err(format!("`{path}` has version {other}, this forge supports version {ACCEPTANCE_VERSION}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    #[test]
    fn wrong_name_of_a_run_is_answered_with_the_runs_of_the_set() {
        let dir = tempfile::tempdir().unwrap();
        let state = Utf8Path::from_path(dir.path()).unwrap();
        let read = |run: &str| read_acceptance(state, "c", "quick", run).map(|report| report.run);
        assert_eq!(read("r9").unwrap_err().hint, None, "no runs yet");
        for (run, set) in [("r1", "quick"), ("r2", "quick"), ("s1", "full")] {
            let mut report = sample::acceptance_report();
            (report.run, report.set) = (run.to_owned(), set.to_owned());
            if run == "r1" {
                report.skipped.clear();
                report.tests[0].rows.truncate(1);
            }
            store_acceptance(state, &report).unwrap();
        }
        let hint = "the set `quick` ran before as `r2` (not accepted), `r1` (accepted)";
        let wrong = read("r9").unwrap_err();
        assert!(wrong.why.starts_with("run of tests `r9` not found in `"), "{}", wrong.why);
        assert_eq!(wrong.hint.as_deref(), Some(hint));
        assert_eq!(read("s1").unwrap_err().hint.as_deref(), Some(hint), "a run of another set");
        assert_eq!((read("last"), read("r1")), (Ok("r2".to_owned()), Ok("r1".to_owned())));
    }
}
