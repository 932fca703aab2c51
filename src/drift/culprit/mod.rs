//! Who did it: what a host's own logs say of a change behind forge's back.
//!
//! Architecture Invariant: a guess is never told as a fact. Evidence that speaks of the very thing *names* somebody; what
//! only happened at the same time is told as *near*; what cannot be read is unknown, which is not the same as nobody.

mod apt;
mod boots;
mod clock;
mod dnf;
mod dpkg;
mod evidence;
mod files;
mod journal;
mod judge;
mod model;
mod packages;
mod subject;
mod sudo;
mod units;

pub use model::{Culprit, Sure};

use super::cause::Cause;
use super::model::{Aspect, Finding};
use crate::model::{HostName, SecretStore};
use crate::probe::{EvidenceState, Probe};
use evidence::Evidence;
use jiff::{SignedDuration, Timestamp};
use judge::Case;
use std::collections::BTreeSet;
use subject::Subject;

/// Things of one host that are looked for by name; of more only the first are.
const NAMES: usize = 200;
/// How far back logs are read at most, before the run.
const REACH: SignedDuration = SignedDuration::from_hours(24 * 90);
/// Clocks that differ by less are taken for the same. Seconds.
const SAME_CLOCK: i64 = 2;

/// Returns whether somebody may have done what a finding tells, and when it was still as declared.
fn since(finding: &Finding) -> Option<Timestamp> {
    let moved = matches!(finding.cause, Cause::MachineChanged | Cause::Both | Cause::Pending);
    let time = || finding.last_applied.as_ref()?.time.raw().parse().ok();
    time().filter(|_| moved && finding.aspect != Aspect::Health)
}

/// Returns the hosts with a finding that somebody may have made.
pub fn suspects(findings: &[Finding]) -> BTreeSet<HostName> {
    findings.iter().filter(|finding| since(finding).is_some()).map(|finding| finding.host.clone()).collect()
}

/// Returns what to ask a host for, to tell who made its findings; `None` where nobody did. `now` is the time of the run.
pub fn question(host: &HostName, findings: &[Finding], now: Timestamp) -> Option<Probe> {
    let own = || findings.iter().filter(|finding| finding.host == *host && since(finding).is_some());
    let first = own().filter_map(since).min()?.max(now.checked_sub(REACH).unwrap_or(now));
    let (mut units, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for subject in own().map(Subject::of) {
        match subject {
            Subject::Unit(unit) => drop(units.insert(unit)),
            Subject::Path(path) => drop(paths.insert(path)),
            _ => {}
        }
    }
    let some = |names: BTreeSet<String>| names.into_iter().take(NAMES).collect();
    Some(Probe::Evidence { since: an_hour_before(first), units: some(units), paths: some(paths) })
}

/// Seconds since the epoch: what began before the apply ended, and clocks that are not set alike, lie well within the hour.
fn an_hour_before(first: Timestamp) -> u64 {
    u64::try_from(first.as_second() - 3600).unwrap_or(0)
}

/// What a host answered to [`question`].
pub enum Answer<'a> {
    Evidence(&'a EvidenceState),
    /// Why there is none.
    Unknown(&'a str),
}

/// Tells of each finding of a host who made it. `asked` is when the host answered, by the controller's clock.
pub fn accuse(host: &HostName, findings: &mut [Finding], answer: &Answer<'_>, asked: Timestamp, secrets: &SecretStore) {
    let evidence = match answer {
        Answer::Evidence(state) => Ok(Evidence::of(state)),
        Answer::Unknown(why) => Err(*why),
    };
    for finding in findings.iter_mut().filter(|finding| finding.host == *host) {
        let Some(since) = since(finding) else { continue };
        let culprit = match &evidence {
            Err(why) => Some(Culprit::unknown(why)).filter(|_| finding.cause != Cause::Pending),
            Ok(seen) => of_one(finding, seen, since, asked),
        };
        finding.culprit = culprit.map(|culprit| culprit.harmless(secrets));
    }
}

fn of_one(finding: &Finding, seen: &Evidence<'_>, since: Timestamp, asked: Timestamp) -> Option<Culprit> {
    if let Some(account) = seen.account() {
        let why = format!("forge is `{account}` there, and its logs are root's");
        return Some(Culprit::unknown(&why)).filter(|_| finding.cause != Cause::Pending);
    }
    // The record's time is the controller's, all others are the host's.
    let ahead = seen.now.map_or(0, |now| now.as_second() - asked.as_second());
    let skew = if ahead.abs() > SAME_CLOCK { ahead } else { 0 };
    let since = clock::after(since, skew);
    // Logs tell whole seconds.
    let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
    judge::judge(&Case { finding, seen, since })
}

#[cfg(test)]
mod tests;
