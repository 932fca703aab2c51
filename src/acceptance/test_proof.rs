//! Proofs: which acceptance tests a host passed, kept on the host, and whether they still hold.

use super::proof_basis::{ObservedBasis, ProofBasis};
use crate::model::UntrustedText;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the file. Compatible additions keep it; any other change increments it.
const PROOFS_VERSION: u32 = 1;

/// The file of one cluster on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProofs {
    version: u32,
    cluster: String,
    /// By set and test: `quick/ib-write-bw`.
    pub tests: BTreeMap<String, TestProof>,
}

impl HostProofs {
    /// Returns a file without proofs.
    pub fn new(cluster: &str) -> Self {
        Self { version: PROOFS_VERSION, cluster: cluster.to_owned(), tests: BTreeMap::new() }
    }

    /// Parses the file of a host.
    ///
    /// # Errors
    /// Returns why it cannot be used: a lowercase fragment.
    pub fn parse(text: &str, cluster: &str) -> Result<Self, String> {
        let proofs: Self = serde_json::from_str(text).map_err(|error| format!("the proofs cannot be read: {error}"))?;
        if proofs.version != PROOFS_VERSION {
            let version = proofs.version;
            return Err(format!("the proofs have version {version}, this forge supports version {PROOFS_VERSION}"));
        }
        let times = proofs.tests.values().flat_map(|test| test.passed.iter().chain(&test.failed));
        if proofs.cluster != cluster || times.into_iter().any(|end| end.time.parse::<Timestamp>().is_err()) {
            return Err("the proofs cannot be read: another cluster, or an invalid time".to_owned());
        }
        Ok(proofs)
    }

    /// Returns the cluster whose tests these are.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> String {
        // Strings, numbers and names always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The last results of one test on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestProof {
    /// When it passed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<TestEnd>,
    /// When it failed, if that was later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<TestEnd>,
}

/// One result of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestEnd {
    /// The run of tests: `20261121T093015-4f2a`.
    pub run: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// The digest of the test's declaration.
    pub declaration: String,
    /// What the result rests on.
    pub basis: ProofBasis,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<UntrustedText>,
}

impl TestEnd {
    /// Returns the day: `2026-11-21`.
    fn day(&self) -> &str {
        self.time.get(..10).unwrap_or_default()
    }
}

/// Whether a host is proven by a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProofState {
    /// It passed, and nothing that the result rests on has moved.
    Proven,
    /// It passed once, and must be tested again: the reasons.
    Lapsed(Vec<String>),
    /// It has never passed; if it failed, with the reason.
    Unproven(Option<String>),
    /// Something could not be compared: the reasons.
    Unknown(Vec<String>),
}

impl TestProof {
    /// Adds a result: a pass ends an earlier failure, and a failure keeps what passed before.
    pub fn add_result(&mut self, end: TestEnd) {
        match end.why {
            None => *self = Self { passed: Some(end), failed: None },
            Some(_) => self.failed = Some(end),
        }
    }

    /// Compares with the declaration of the test and with what the host shows now.
    pub fn assess(&self, declaration: &str, now: &ObservedBasis) -> ProofState {
        // A failure of another declaration says nothing about this one.
        let failed = self.failed.as_ref().filter(|failed| failed.declaration == declaration).map(|failed| {
            let why = failed.why.as_ref().map_or("", UntrustedText::raw);
            format!("the test of {} failed: {why}", failed.day())
        });
        match (&self.passed, failed) {
            (None, failed) => ProofState::Unproven(failed),
            (Some(_), Some(failed)) => ProofState::Lapsed(vec![failed]),
            (Some(passed), None) => passed.assess(declaration, now),
        }
    }
}

impl TestEnd {
    fn assess(&self, declaration: &str, now: &ObservedBasis) -> ProofState {
        let found = self.basis.compare_with(now);
        let day = self.day();
        let mut reasons = Vec::new();
        if !found.moved.is_empty() {
            reasons.push(format!("{} since the test of {day}", found.moved.join(", ")));
        }
        if self.declaration != declaration {
            reasons.push(format!("declared differently since the test of {day}"));
        }
        match (reasons.is_empty(), found.unread.is_empty()) {
            (false, _) => ProofState::Lapsed(reasons),
            (true, false) => ProofState::Unknown(found.unread),
            (true, true) => ProofState::Proven,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::proof_basis::{BasisSource, DeclaredBasis};
    use super::*;
    use crate::facts::Facts;
    use serde_json::json;

    fn basis(driver: &str) -> ObservedBasis {
        let declared = DeclaredBasis { sources: [BasisSource::Driver].into(), ..DeclaredBasis::default() };
        let fact = json!({"loaded": driver, "flavor": "open", "userspace": null});
        ObservedBasis::read(&declared, &Facts([("driver".to_owned(), Ok(fact))].into()))
    }

    fn end(day: &str, declaration: &str, why: Option<&str>) -> TestEnd {
        TestEnd {
            run: "r".into(),
            time: format!("{day}T08:00:00Z"),
            declaration: declaration.into(),
            basis: basis("560.35.03").basis,
            why: why.map(UntrustedText::from),
        }
    }

    #[test]
    fn proof_lapses_with_what_it_rests_on() {
        let mut proof = TestProof::default();
        let old = basis("560.35.03");
        assert_eq!(proof.assess("d", &old), ProofState::Unproven(None));
        proof.add_result(end("2026-11-20", "d", None));
        assert_eq!(proof.assess("d", &old), ProofState::Proven);
        let moved = "driver 560.35.03 -> 565.57.01 since the test of 2026-11-20".to_owned();
        assert_eq!(proof.assess("d", &basis("565.57.01")), ProofState::Lapsed(vec![moved.clone()]));
        let other = "declared differently since the test of 2026-11-20".to_owned();
        assert_eq!(proof.assess("e", &old), ProofState::Lapsed(vec![other.clone()]));
        assert_eq!(proof.assess("e", &basis("565.57.01")), ProofState::Lapsed(vec![moved, other]));
        let unread = ProofState::Unknown(vec!["`driver` was not read".to_owned()]);
        let declared = DeclaredBasis { sources: [BasisSource::Driver].into(), ..DeclaredBasis::default() };
        assert_eq!(proof.assess("d", &ObservedBasis::read(&declared, &Facts::default())), unread);
    }

    #[test]
    fn failed_test_ends_a_proof_until_it_passes() {
        let mut proof = TestProof::default();
        proof.add_result(end("2026-11-19", "d", Some("slow")));
        let failed = |day: &str| format!("the test of {day} failed: slow");
        assert_eq!(proof.assess("d", &basis("560.35.03")), ProofState::Unproven(Some(failed("2026-11-19"))));
        proof.add_result(end("2026-11-20", "d", None));
        assert_eq!(proof.assess("d", &basis("560.35.03")), ProofState::Proven);
        proof.add_result(end("2026-11-21", "d", Some("slow")));
        assert_eq!(proof.assess("d", &basis("560.35.03")), ProofState::Lapsed(vec![failed("2026-11-21")]));
        // With another limit, only the test can say whether it fails.
        let other = "declared differently since the test of 2026-11-20".to_owned();
        assert_eq!(proof.assess("e", &basis("560.35.03")), ProofState::Lapsed(vec![other]));
    }

    #[test]
    fn invalid_proofs_are_unknown_and_not_missing() {
        let mut proofs = HostProofs::new("lab");
        proofs.tests.entry("quick/disk".into()).or_default().add_result(end("2026-11-20", "d", None));
        assert_eq!(HostProofs::parse(&proofs.to_json(), "lab"), Ok(proofs.clone()));
        let odd = "the proofs cannot be read: another cluster, or an invalid time".to_owned();
        assert_eq!(HostProofs::parse(&proofs.to_json(), "other"), Err(odd.clone()));
        assert_eq!(HostProofs::parse(&proofs.to_json().replace("2026-11-20T", "\\u001b[2J"), "lab"), Err(odd));
        assert!(HostProofs::parse("{", "lab").unwrap_err().starts_with("the proofs cannot be read: EOF"));
        let later = proofs.to_json().replace("\"version\":1", "\"version\":2");
        let reason = "the proofs have version 2, this forge supports version 1";
        assert_eq!(HostProofs::parse(&later, "lab"), Err(reason.to_owned()));
    }
}
