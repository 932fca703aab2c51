//! Stores on hosts which tests they passed, and what these results rest on.

use super::report::{SkippedHost, TestReport, TestRow};
use super::test_host::TestHost;
use crate::acceptance::{HostProofs, TestEnd, TestVerdict};
use crate::config::Project;
use crate::drift::holds_test_set;
use crate::engine::host_session::{SHORT_SCRIPT_LIMIT, describe_transport_error, summarize_stderr};
use crate::engine::run_options::RunOptions;
use crate::model::{HostName, SecretStore, UntrustedText, proofs_file_name};
use crate::state::build_kept_file_script;
use futures_util::StreamExt;

/// What a test says about one host.
#[derive(Clone, Debug, PartialEq)]
enum HostTestResult {
    Passed,
    Failed(String),
    /// Something was not measured: an earlier result remains.
    Open,
}

/// The outcome of storing a host's results.
pub(super) struct StoredProofs {
    pub host: HostName,
    /// Whether the host has passed every test of the set, in this run or before, and nothing has moved since.
    pub holds_set: bool,
    /// Why its results could not be stored.
    pub failed: Option<UntrustedText>,
}

impl StoredProofs {
    /// Returns the host with the reason, if its results could not be stored.
    pub fn into_failure(self) -> Option<SkippedHost> {
        Some(SkippedHost { host: self.host, reason: self.failed?, unreachable: false })
    }
}

/// Stores the results of a finished batch on the hosts. `set` has the names of the set and of the run.
pub(super) async fn store_proofs(
    project: &Project,
    hosts: &[TestHost<'_>],
    set: (&str, &str),
    results: &[TestReport],
    options: &RunOptions,
) -> Vec<StoredProofs> {
    let time = (options.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let writes = hosts.iter().map(|host| {
        let time = &time;
        async move {
            let (proofs, is_changed) = update_proofs(project, host, set, results, time);
            let failed = if is_changed { write_proofs(host, &proofs).await.err() } else { None };
            let holds = holds_test_set(project, set.0, &host.name, &proofs, host.facts());
            StoredProofs { host: host.name.clone(), holds_set: holds && failed.is_none(), failed }
        }
    });
    futures_util::stream::iter(writes).buffered(options.parallel.max(1)).collect().await
}

async fn write_proofs(host: &TestHost<'_>, proofs: &HostProofs) -> Result<(), UntrustedText> {
    let script = build_kept_file_script(&proofs_file_name(proofs.cluster()), Some(proofs.to_json()));
    let done = host.link.run_acting_script(script, SHORT_SCRIPT_LIMIT.into(), &SecretStore::default()).await;
    let done = done.map_err(|error| describe_transport_error(&error))?;
    match done.finished.status {
        0 => Ok(()),
        status => Err(format!("exited with {status}: {}", summarize_stderr(&done.finished.stderr)).into()),
    }
}

/// Returns the proofs of a host with the results of a run, and whether that has any.
fn update_proofs(
    project: &Project,
    host: &TestHost<'_>,
    (set, run): (&str, &str),
    results: &[TestReport],
    time: &str,
) -> (HostProofs, bool) {
    // Proofs that cannot be read prove nothing: they are replaced.
    let kept = host.proofs.as_ref().and_then(|text| HostProofs::parse(text.raw(), &project.cluster).ok());
    let mut proofs = kept.unwrap_or_else(|| HostProofs::new(&project.cluster));
    let names = project.tests.list_proof_names(set);
    let mut is_changed = false;
    for (test, (name, declared)) in results.iter().zip(names) {
        let why = match judge_host(test, &host.name) {
            HostTestResult::Passed => None,
            HostTestResult::Failed(why) => Some(why.into()),
            HostTestResult::Open => continue,
        };
        let (run, time, declaration) = (run.to_owned(), time.to_owned(), declared.digest_declaration());
        let basis = host.read_basis(&declared.definition.rests_on);
        proofs.tests.entry(name).or_default().add_result(TestEnd { run, time, declaration, basis, why });
        is_changed = true;
    }
    (proofs, is_changed)
}

/// Judges a host by its measurements. One that failed because of another host, which was named, says nothing about it.
fn judge_host(test: &TestReport, host: &HostName) -> HostTestResult {
    let named = |name: &HostName| test.faults.iter().find(|fault| fault.host.as_ref() == Some(name));
    if let Some(fault) = named(host) {
        return HostTestResult::Failed(format!("bad: {}", fault.part));
    }
    let is_of_host = |row: &&TestRow| row.hosts.contains(host) && !row.hosts.iter().any(|other| named(other).is_some());
    let rows: Vec<&TestRow> = test.rows.iter().filter(is_of_host).collect();
    if let Some(why) = rows.iter().find_map(|row| describe_failure(row)) {
        return HostTestResult::Failed(why);
    }
    match rows.is_empty() || rows.iter().any(|row| matches!(row.verdict, TestVerdict::NotMeasured { .. })) {
        true => HostTestResult::Open,
        false => HostTestResult::Passed,
    }
}

fn describe_failure(row: &TestRow) -> Option<String> {
    match (&row.verdict, &row.worse) {
        (TestVerdict::Fail { reason, .. }, _) => Some(reason.clone()),
        (TestVerdict::Pass { .. }, Some(worse)) => Some(worse.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{FabricFault, MeasuredScope};
    use super::*;

    fn row(hosts: &[&str], verdict: TestVerdict) -> TestRow {
        let hosts = hosts.iter().map(|name| HostName::new(*name)).collect();
        TestRow {
            hosts,
            rail: None,
            round: 1,
            isolation: false,
            verdict,
            worse: None,
            outputs: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn pass() -> TestVerdict {
        TestVerdict::Pass { value: 9.0, expected: "at least 1".into() }
    }

    fn fail() -> TestVerdict {
        TestVerdict::Fail { value: Some(0.1), reason: "0.1 Gb/s, expected at least 1 Gb/s (declared)".into() }
    }

    fn judge(rows: &[TestRow], bad: Option<&str>, host: &str) -> HostTestResult {
        let fault = |name: &str| FabricFault {
            part: format!("host `{name}`"),
            host: Some(HostName::new(name)),
            evidence: Vec::new(),
        };
        let report = TestReport {
            test: "t".into(),
            parameters: std::collections::BTreeMap::new(),
            about: String::new(),
            scope: MeasuredScope::Pair,
            unit: "Gb/s".into(),
            rows: rows.to_vec(),
            faults: bad.into_iter().map(fault).collect(),
            suspects: Vec::new(),
            comparison: Default::default(),
        };
        judge_host(&report, &HostName::new(host))
    }

    #[test]
    fn neighbours_of_a_named_host_are_judged_by_their_other_measurements() {
        let ring = [row(&["a", "b"], fail()), row(&["b", "c"], fail()), row(&["a", "c"], pass())];
        assert_eq!(judge(&ring, Some("b"), "b"), HostTestResult::Failed("bad: host `b`".into()));
        assert_eq!(judge(&ring, Some("b"), "a"), HostTestResult::Passed);
        assert_eq!(judge(&ring[..1], Some("b"), "a"), HostTestResult::Open, "it was in no other measurement");
        let why = "0.1 Gb/s, expected at least 1 Gb/s (declared)".to_owned();
        assert_eq!(judge(&ring, None, "a"), HostTestResult::Failed(why), "no host was named");
        assert_eq!(judge(&ring, None, "d"), HostTestResult::Open);
    }

    #[test]
    fn unmeasured_or_worse_result_is_no_pass() {
        let missing = row(&["a"], TestVerdict::not_measured("command not found"));
        assert_eq!(judge(&[row(&["a"], pass()), missing.clone()], None, "a"), HostTestResult::Open);
        let mut worse = row(&["a"], pass());
        worse.worse = Some("9 is 10 % worse than 10".into());
        assert_eq!(judge(&[missing, worse], None, "a"), HostTestResult::Failed("9 is 10 % worse than 10".into()));
    }
}
