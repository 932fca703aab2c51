//! The result of acceptance tests on all hosts.

use crate::acceptance::TestVerdict;
use crate::model::{ExitCode, HostName, UntrustedText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The version of stored reports.
pub const ACCEPTANCE_VERSION: u32 = 1;

/// The result of a set of tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptanceReport {
    /// Version of the format.
    pub version: u32,
    /// Name of the run: `20261121T093015-4f2a`.
    pub run: String,
    /// The cluster.
    pub cluster: String,
    /// The set that ran: `quick`.
    pub set: String,
    /// Simulated hosts, and hosts with simulated hardware, tested or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// Every test of the set, in its order.
    pub tests: Vec<TestReport>,
    /// Hosts that were not tested.
    pub skipped: Vec<SkippedHost>,
    /// Hosts on which the results could not be stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unstored: Vec<SkippedHost>,
    /// Hosts whose nodes may have a wrong label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mislabeled: Vec<SkippedHost>,
    /// Drained hosts whose nodes may still be out of service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_returned: Vec<SkippedHost>,
    /// The earlier run with which values were compared.
    pub against: Option<String>,
    /// Whether the user requested a stop.
    pub interrupted: bool,
    /// Duration of the whole run.
    pub took: Duration,
}

/// A host that was not tested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedHost {
    /// The host.
    pub host: HostName,
    /// Why it was not tested.
    pub reason: UntrustedText,
    /// Whether it could not be reached.
    pub unreachable: bool,
}

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    /// The test: `ib-write-bw`.
    pub test: String,
    /// Its parameters, by name. Values with other parameters are not comparable.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// What it measures.
    pub about: String,
    /// Which hosts a measurement has.
    #[serde(default)]
    pub scope: MeasuredScope,
    /// Unit of its values.
    pub unit: String,
    /// Each measurement, in the order in which they ran.
    pub rows: Vec<TestRow>,
    /// Parts that are bad, found by comparing measurements.
    pub faults: Vec<FabricFault>,
    /// Parts of which at least one is bad, if no measurement could separate them.
    pub suspects: Vec<String>,
    /// How many of its values were compared with the earlier run; all 0 without one.
    #[serde(default)]
    pub comparison: ComparedValues,
}

/// How many measured values were compared with the earlier run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedValues {
    /// Values that were compared.
    pub compared: usize,
    /// Values whose test ran there, but only with other parameters.
    pub other_parameters: usize,
    /// Other values for whose test, hosts and adapter it has none.
    pub without_earlier: usize,
}

impl std::ops::AddAssign for ComparedValues {
    fn add_assign(&mut self, other: Self) {
        self.compared += other.compared;
        self.other_parameters += other.other_parameters;
        self.without_earlier += other.without_earlier;
    }
}

/// Which hosts a measurement has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredScope {
    /// One host.
    Host,
    /// The server and the client.
    #[default]
    Pair,
    /// Several hosts that run a program together.
    Group,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestRow {
    /// The host, the server and then the client, or the hosts of a group.
    pub hosts: Vec<HostName>,
    /// The adapter, if the test runs on each.
    pub rail: Option<String>,
    /// The round, counted from 1. Measurements of a round run at the same time.
    pub round: usize,
    /// Whether it was made to isolate a fault, after the scheduled ones.
    pub isolation: bool,
    /// The result.
    pub verdict: TestVerdict,
    /// How it compares with the earlier run, if it is worse.
    pub worse: Option<String>,
    /// What the programs printed: the only one, or server and client.
    pub outputs: Vec<UntrustedText>,
    /// Its hosts that could not be reached any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<HostName>,
}

/// A part that is bad.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FabricFault {
    /// The part: ``host `gpu-03` ``, ``adapter `mlx5_1` of `gpu-03`, or its cable``.
    pub part: String,
    /// The host, if the part belongs to one.
    pub host: Option<HostName>,
    /// The measurements that show it.
    pub evidence: Vec<String>,
}

impl AcceptanceReport {
    /// Returns the exit code for all results.
    pub fn exit_code(&self) -> ExitCode {
        let rows = || self.tests.iter().flat_map(|test| &test.rows);
        let lost = rows().any(|row| !row.lost.is_empty()).then_some(ExitCode::Unreachable);
        let rows = rows().map(exit_of_row).chain(lost);
        let skipped = self.skipped.iter().map(|host| match host.unreachable {
            true => ExitCode::Unreachable,
            false => ExitCode::Unknown,
        });
        let empty = self.tests.iter().all(|test| test.rows.is_empty()).then_some(ExitCode::Unknown);
        let unstored = (!self.unstored.is_empty() || !self.mislabeled.is_empty()).then_some(ExitCode::Unexpected);
        let not_returned = (!self.not_returned.is_empty()).then_some(ExitCode::HostsFailed);
        let interrupted = self.interrupted.then_some(ExitCode::Interrupted);
        ExitCode::pick_worst(rows.chain(skipped).chain(empty).chain(unstored).chain(not_returned).chain(interrupted))
    }

    /// Returns the tested hosts with which something is left to do, with the state of each.
    pub fn list_unfinished_hosts(&self) -> impl Iterator<Item = (&'static str, &SkippedHost)> {
        let unstored = self.unstored.iter().map(|host| ("results not stored", host));
        let mislabeled = self.mislabeled.iter().map(|host| ("label of the node may be wrong", host));
        unstored.chain(mislabeled).chain(self.not_returned.iter().map(|host| ("node not given back", host)))
    }

    /// Returns how many values of all tests were compared with the earlier run.
    pub fn count_compared(&self) -> ComparedValues {
        let mut all = ComparedValues::default();
        self.tests.iter().for_each(|test| all += test.comparison);
        all
    }

    /// Returns whether every measurement passed and every host was tested.
    pub fn is_accepted(&self) -> bool {
        self.exit_code() == ExitCode::Done
    }
}

fn exit_of_row(row: &TestRow) -> ExitCode {
    match (&row.verdict, &row.worse) {
        (TestVerdict::Fail { .. }, _) | (TestVerdict::Pass { .. }, Some(_)) => ExitCode::VerifyFailed,
        (TestVerdict::Pass { .. }, None) => ExitCode::Done,
        (TestVerdict::NotMeasured { .. }, _) => ExitCode::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(verdicts: Vec<TestVerdict>) -> AcceptanceReport {
        let row = |verdict| TestRow {
            hosts: vec![HostName::new("a"), HostName::new("b")],
            rail: None,
            round: 1,
            isolation: false,
            verdict,
            worse: None,
            outputs: Vec::new(),
            lost: Vec::new(),
        };
        let test = TestReport {
            test: "ucx-bandwidth".into(),
            parameters: BTreeMap::new(),
            about: String::new(),
            scope: MeasuredScope::Pair,
            unit: "Gb/s".into(),
            rows: verdicts.into_iter().map(row).collect(),
            faults: Vec::new(),
            suspects: Vec::new(),
            comparison: ComparedValues::default(),
        };
        AcceptanceReport {
            version: ACCEPTANCE_VERSION,
            run: "r".into(),
            cluster: "c".into(),
            set: "quick".into(),
            simulated: Vec::new(),
            tests: vec![test],
            skipped: Vec::new(),
            unstored: Vec::new(),
            mislabeled: Vec::new(),
            not_returned: Vec::new(),
            against: None,
            interrupted: false,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn exit_code_distinguishes_failed_and_not_measured() {
        let pass = || TestVerdict::Pass { value: 1.0, expected: "at least 1".into() };
        let fail = || TestVerdict::Fail { value: None, reason: "slow".into() };
        let missing = || TestVerdict::not_measured("no program");
        assert_eq!(report_of(vec![pass(), pass()]).exit_code(), ExitCode::Done);
        assert_eq!(report_of(vec![pass(), missing()]).exit_code(), ExitCode::Unknown);
        assert_eq!(report_of(vec![missing(), fail()]).exit_code(), ExitCode::VerifyFailed);
        assert_eq!(report_of(Vec::new()).exit_code(), ExitCode::Unknown, "nothing was measured");
        let mut skipped = report_of(vec![pass()]);
        skipped.skipped.push(SkippedHost { host: HostName::new("c"), reason: "busy".into(), unreachable: false });
        assert_eq!((skipped.exit_code(), skipped.is_accepted()), (ExitCode::Unknown, false));
        let mut lost = report_of(vec![pass(), missing()]);
        lost.tests[0].rows[1].lost.push(HostName::new("b"));
        assert_eq!(lost.exit_code(), ExitCode::Unreachable, "a host that was lost during a measurement");
        let mut worse = report_of(vec![pass()]);
        worse.tests[0].rows[0].worse = Some("10 % worse".into());
        assert_eq!(worse.exit_code(), ExitCode::VerifyFailed);
    }
}
