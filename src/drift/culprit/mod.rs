//! Attributes changes that forge did not make to users, from a host's own logs.
//!
//! Architecture Invariant: a guess is never reported as a fact. Evidence about the changed object itself *names* a
//! user; an event at the same time is reported as *near*; unreadable evidence means unknown, which differs from nobody.

mod accounts;
mod apt;
mod attribution;
mod boots;
mod clock;
mod context;
mod dnf;
mod dpkg;
mod evidence;
mod files;
mod journal;
mod model;
mod packages;
mod path_effects;
mod programs;
mod shell_script;
mod subject;
mod sudo;
mod units;

pub use model::{AttributionCertainty, ChangeSource};

use super::cause::DriftCause;
use super::model::{DriftFinding, FindingAspect};
use crate::model::{HostName, SecretStore};
use crate::probe::{EvidenceState, Probe};
use crate::resource::ChangedObject;
use context::AttributionContext;
use evidence::HostEvidence;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// Maximum number of objects of one host that are queried by name.
const MAX_NAMES: usize = 200;
/// Maximum age of evidence, before the run.
const LOG_LOOKBACK: SignedDuration = SignedDuration::from_hours(24 * 90);
/// Clock differences up to this many seconds are ignored.
const CLOCK_TOLERANCE_S: i64 = 2;

/// Returns when the object last matched, if a user may have caused the finding.
fn last_unchanged_time(finding: &DriftFinding) -> Option<Timestamp> {
    let moved = matches!(finding.cause, DriftCause::MachineChanged | DriftCause::Both | DriftCause::Pending);
    let time = || finding.last_applied.as_ref()?.time.raw().parse().ok();
    time().filter(|_| moved && finding.aspect != FindingAspect::Health)
}

/// Returns the hosts with a finding that a user may have caused.
pub fn list_changed_hosts(findings: &[DriftFinding]) -> BTreeSet<HostName> {
    findings
        .iter()
        .filter(|finding| last_unchanged_time(finding).is_some())
        .map(|finding| finding.host.clone())
        .collect()
}

/// Returns the evidence probe for a host; `None` if it has no findings to attribute. `now` is the time of the run.
pub fn build_evidence_probe(host: &HostName, findings: &[DriftFinding], now: Timestamp) -> Option<Probe> {
    let own = || findings.iter().filter(|finding| finding.host == *host && last_unchanged_time(finding).is_some());
    let first = own().filter_map(last_unchanged_time).min()?.max(now.checked_sub(LOG_LOOKBACK).unwrap_or(now));
    let (mut units, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for object in own().map(|finding| finding.object.clone()) {
        match object {
            ChangedObject::Unit(unit) => drop(units.insert(unit)),
            ChangedObject::Path(path) => drop(paths.insert(path)),
            _ => {}
        }
    }
    let some = |names: BTreeSet<String>| names.into_iter().take(MAX_NAMES).collect();
    Some(Probe::Evidence { since: subtract_one_hour(first), units: some(units), paths: some(paths) })
}

/// Returns seconds since the epoch. One hour covers commands that began before the apply ended, and clock differences.
fn subtract_one_hour(first: Timestamp) -> u64 {
    u64::try_from(first.as_second() - 3600).unwrap_or(0)
}

/// The result of the probe from [`build_evidence_probe`].
pub enum EvidenceAnswer<'a> {
    /// The host answered: its logs and its clock.
    Evidence(&'a EvidenceState),
    /// Why there is no evidence.
    Unknown(&'a str),
}

/// Adds the culprit to each finding of a host. `asked` is the time from the probe's start to its end, by the
/// controller's clock.
pub fn attribute_host_changes(
    host: &HostName,
    findings: &mut [DriftFinding],
    answer: &EvidenceAnswer<'_>,
    asked: (Timestamp, Timestamp),
    secrets: &SecretStore,
) {
    let evidence = match answer {
        EvidenceAnswer::Evidence(state) => Ok(HostEvidence::from_state(state)),
        EvidenceAnswer::Unknown(why) => Err(*why),
    };
    for finding in findings.iter_mut().filter(|finding| finding.host == *host) {
        let Some(since) = last_unchanged_time(finding) else { continue };
        let culprit = match &evidence {
            Err(why) => Some(ChangeSource::without_evidence(why)).filter(|_| finding.cause != DriftCause::Pending),
            Ok(seen) => attribute_one_finding(finding, seen, since, asked),
        };
        finding.culprit = culprit.map(|culprit| culprit.redact_secrets(secrets));
    }
}

fn attribute_one_finding(
    finding: &DriftFinding,
    seen: &HostEvidence<'_>,
    since: Timestamp,
    (asked, answered): (Timestamp, Timestamp),
) -> Option<ChangeSource> {
    if let Some(account) = seen.unprivileged_account() {
        let why = format!("forge connects as `{account}`, and only root can read the logs");
        return Some(ChangeSource::without_evidence(&why)).filter(|_| finding.cause != DriftCause::Pending);
    }
    // The record has the controller's time; all other times are the host's.
    let now = seen.now.map_or(asked.as_second(), Timestamp::as_second);
    // A slow answer is no clock difference.
    let ahead = now - now.clamp(asked.as_second(), answered.as_second().max(asked.as_second()));
    let skew = if ahead.abs() > CLOCK_TOLERANCE_S { ahead } else { 0 };
    let since = clock::add_seconds(since, skew);
    // Logs have whole seconds.
    let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
    attribution::attribute_finding(&AttributionContext { finding, seen, since })
}

#[cfg(test)]
mod tests;
