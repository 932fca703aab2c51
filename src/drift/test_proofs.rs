//! Acceptance tests that are due: a host that passed one, and on which something moved that the result rests on.

use crate::acceptance::{HostProofs, ObservedBasis, ProofState};
use crate::config::{DeclaredTest, Project};
use crate::facts::Facts;
use crate::model::{HostName, proofs_file_name};
use crate::plan::ObservedHost;
use crate::probe::{Observation, Probe, ProbeReading};

/// A set of tests that is due on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DueTests {
    /// The name of the set.
    pub set: String,
    /// Why, each reason once.
    pub reasons: Vec<String>,
    /// Whether a test has failed or an earlier result no longer holds; otherwise it has not run.
    pub is_lapsed: bool,
    /// Why it is not known whether results still hold.
    pub unknown: Vec<String>,
}

/// Returns the facts that results rest on: drift reads them if the inventory declares tests.
pub fn list_proof_facts(project: &Project) -> impl Iterator<Item = &'static str> {
    project.tests.sets.values().flatten().flat_map(|test| test.definition.rests_on.fact_names())
}

/// Returns the sets of tests that are due on a host. A host that has never passed a test counts only if the test is
/// required. A sandbox cannot be measured.
pub(super) fn list_due_tests(project: &Project, seen: &ObservedHost) -> Vec<DueTests> {
    let is_of_host = |test: &&DeclaredTest| test.hosts.contains(&seen.host);
    let is_tested = project.tests.sets.values().flatten().any(|test| is_of_host(&test));
    if !is_tested || project.is_simulated(&seen.host) {
        return Vec::new();
    }
    let proofs = read_host_proofs(project, &seen.observation);
    let sets = project.tests.sets.keys().map(|set| match &proofs {
        Ok(proofs) => assess_set(project, set, proofs, seen),
        Err(why) => {
            let unknown = project.tests.sets[set].iter().any(|test| is_of_host(&test)).then(|| why.clone());
            DueTests { set: set.clone(), unknown: unknown.into_iter().collect(), ..DueTests::default() }
        }
    });
    sets.filter(|due| !due.reasons.is_empty() || !due.unknown.is_empty()).collect()
}

/// Returns which tests a host has passed, from its records.
///
/// # Errors
/// They could not be read: the reason, as a lowercase fragment.
pub fn read_host_proofs(project: &Project, observation: &Observation) -> Result<HostProofs, String> {
    let state = match observation.get(&Probe::Records) {
        Ok(ProbeReading::Records(state)) => state,
        Ok(_) => return Err("unexpected type of answer".to_owned()),
        Err(why) => return Err(format!("the proofs could not be read: {}", why.why)),
    };
    match state.records.get(&proofs_file_name(&project.cluster)) {
        Some(text) => HostProofs::parse(text.raw(), &project.cluster),
        None => Ok(HostProofs::new(&project.cluster)),
    }
}

/// Returns whether a host has passed every test that a set has for it, and nothing has moved that the results rest on.
/// A set without tests for the host proves nothing.
pub fn holds_test_set(project: &Project, set: &str, host: &HostName, proofs: &HostProofs, facts: &Facts) -> bool {
    let tests = project.tests.list_proof_names(set).into_iter();
    let mut own = tests.filter(|(_, test)| test.hosts.contains(host)).peekable();
    own.peek().is_some()
        && own.all(|(name, test)| {
            let now = ObservedBasis::read(&test.definition.rests_on, facts);
            let kept = proofs.tests.get(&name);
            kept.is_some_and(|kept| kept.assess(&test.digest_declaration(), &now) == ProofState::Proven)
        })
}

fn assess_set(project: &Project, set: &str, proofs: &HostProofs, seen: &ObservedHost) -> DueTests {
    let mut due = DueTests { set: set.to_owned(), ..DueTests::default() };
    for (name, test) in project.tests.list_proof_names(set) {
        if !test.hosts.contains(&seen.host) {
            continue;
        }
        let now = ObservedBasis::read(&test.definition.rests_on, &seen.facts);
        let kept = proofs.tests.get(&name).cloned().unwrap_or_default();
        match kept.assess(&test.digest_declaration(), &now) {
            ProofState::Proven => {}
            ProofState::Lapsed(reasons) => {
                due.is_lapsed = true;
                reasons.into_iter().for_each(|reason| add_once(&mut due.reasons, reason));
            }
            ProofState::Unproven(failed) if test.proof_required => {
                due.is_lapsed |= failed.is_some();
                add_once(&mut due.reasons, failed.unwrap_or_else(|| "not tested yet".to_owned()));
            }
            ProofState::Unproven(_) => {}
            ProofState::Unknown(reasons) => {
                reasons.into_iter().for_each(|reason| add_once(&mut due.unknown, reason));
            }
        }
    }
    due
}

fn add_once(reasons: &mut Vec<String>, reason: String) {
    if !reasons.contains(&reason) {
        reasons.push(reason);
    }
}
