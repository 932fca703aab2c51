//! History of findings: since when each is open, how often it appeared, and what was resolved.
//!
//! A history is a list of entries, one for each run. An entry has only what is new, changed or resolved in its run;
//! some entries start with a snapshot of all open findings, so that older entries are not needed.

use super::detect::EVERY_STEP;

use super::known_finding::{FindingKey, KnownFinding};
use super::model::{DriftFinding, DriftReport, FindingAspect, FindingNovelty};
use super::{DetectedDrift, DriftCause};
use crate::model::{ExitCode, HostName, StepVerdict, UntrustedText};
use crate::plan::HostReachability;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Version of an entry. Compatible additions keep it; any other change increments it.
pub const ENTRY_VERSION: u32 = 1;

/// A finding that reappears within this time flaps.
const FLAP_WINDOW: SignedDuration = SignedDuration::from_hours(24);

/// One run of `drift`: one line of its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftHistoryEntry {
    /// Format version; see `schemas/drift-entry.json`.
    pub version: u32,
    /// The run ID: time and random text, `20261121T093015-4f2a`.
    pub run: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// Duration of the observation of all hosts, in milliseconds.
    pub took_ms: u64,
    /// Number of checked hosts, without the cluster's API.
    pub hosts: usize,
    /// Unreachable hosts: their earlier findings are neither confirmed nor resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<HostName>,
    /// Number of findings, and of steps and verifications that could not be evaluated.
    pub findings: usize,
    /// Number of steps and verifications that could not be evaluated.
    pub unknown: usize,
    /// The exit code of the run.
    pub exit: u8,
    /// The open findings before this run, if the entry is the first one of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<DriftHistorySnapshot>,
    /// Findings that appeared in this run, or reappeared after they were resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<KnownFinding>,
    /// Findings that were open before, with another value or another cause now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<KnownFinding>,
    /// Findings that were open before this run and were not found again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<KnownFinding>,
    /// Findings that are no longer tracked because they are ignored now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<KnownFinding>,
}

/// All findings open at one time, and those resolved within the day before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftHistorySnapshot {
    /// The open findings.
    pub open: Vec<KnownFinding>,
    /// Findings resolved within the last day, to recognize those that flap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<KnownFinding>,
}

/// The state that a history results in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindingHistory {
    open: BTreeMap<FindingKey, KnownFinding>,
    /// Recently resolved findings.
    recent: BTreeMap<FindingKey, KnownFinding>,
}

impl DriftFinding {
    /// Returns host, recipe and step.
    fn step_key(&self) -> (HostName, String, String) {
        (self.host.clone(), self.recipe.raw().to_owned(), self.step.raw().to_owned())
    }

    fn finding_key(&self) -> FindingKey {
        let attribute = self.attribute.clone().unwrap_or_default();
        (self.host.clone(), self.recipe.raw().to_owned(), self.step.raw().to_owned(), attribute)
    }

    /// Returns when its step was last applied.
    fn applied_time(&self) -> Option<Timestamp> {
        self.last_applied.as_ref()?.time.raw().parse().ok()
    }

    /// Returns when its step was last applied and matched, in whole seconds, if that was after an earlier finding. A
    /// pending step is applied, too. Times of findings are whole seconds, so the time of the apply before the earlier
    /// finding decides, if it is known.
    fn applied_since(&self, known: &KnownFinding) -> Option<String> {
        let last = self.applied_time()?;
        let before = known.applied.as_ref().unwrap_or(&known.since).parse::<Timestamp>().ok()?;
        let matched = self.aspect == FindingAspect::Step && self.cause != DriftCause::Pending;
        (last > before && matched).then(|| last.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }

    /// Returns the digest of everything whose change makes it a changed finding.
    fn compute_fingerprint(&self) -> String {
        let text = |text: &Option<UntrustedText>| text.as_ref().map(|text| text.raw().to_owned());
        let seen = (text(&self.desired), text(&self.observed), text(&self.diff), self.verdict, self.cause);
        // Strings and names always serialize.
        let bytes = serde_json::to_vec(&seen).unwrap_or_default();
        crate::model::to_hex(&Sha256::digest(&bytes)[..8])
    }

    fn to_known_finding(&self) -> KnownFinding {
        KnownFinding {
            host: self.host.clone(),
            recipe: self.recipe.clone(),
            step: self.step.clone(),
            attribute: self.attribute.clone(),
            cause: self.cause,
            severity: self.severity,
            first_seen: self.first_seen.clone(),
            since: self.last_seen.clone(),
            applied: self.applied_time().map(|time| time.to_string()),
            times: self.times,
            print: self.compute_fingerprint(),
            resolved: None,
        }
    }
}

/// Parses lines of a history. Invalid lines are skipped: a killed run may leave half a line.
pub fn parse_history_entries<'l>(lines: impl IntoIterator<Item = &'l str>) -> Vec<DriftHistoryEntry> {
    let read = |line: &str| serde_json::from_str::<DriftHistoryEntry>(line).ok();
    lines.into_iter().filter_map(read).filter(|entry| entry.version == ENTRY_VERSION).collect()
}

impl FindingHistory {
    /// Replays entries, oldest first.
    pub fn from_entries(entries: &[DriftHistoryEntry]) -> Self {
        let mut past = Self::default();
        entries.iter().for_each(|entry| past.add_entry(entry));
        past
    }

    fn add_entry(&mut self, entry: &DriftHistoryEntry) {
        let keyed = |list: &[KnownFinding]| list.iter().map(|known| (known.finding_key(), known.clone())).collect();
        if let Some(before) = &entry.before {
            (self.open, self.recent) = (keyed(&before.open), keyed(&before.recent));
        }
        // A finding that an apply resolved may have appeared again in the same run.
        for known in &entry.resolved {
            self.open.remove(&known.finding_key());
            self.recent.insert(known.finding_key(), known.clone());
        }
        for known in entry.new.iter().chain(&entry.changed) {
            self.recent.remove(&known.finding_key());
            self.open.insert(known.finding_key(), known.clone());
        }
        for known in &entry.dropped {
            self.open.remove(&known.finding_key());
        }
    }

    /// Returns the open findings before the first available entry.
    pub(super) fn before_first_entry(first: Option<&DriftHistoryEntry>) -> Self {
        let mut past = Self::default();
        let before = first.and_then(|first| first.before.clone()).unwrap_or_default();
        past.open = before.open.into_iter().map(|known| (known.finding_key(), known)).collect();
        past
    }

    pub(super) fn iter_open(&self) -> impl Iterator<Item = (&FindingKey, &KnownFinding)> {
        self.open.iter()
    }

    /// Adds an unknown finding; returns whether it was added.
    pub(super) fn insert_missing(&mut self, known: &KnownFinding) -> bool {
        let news = !self.open.contains_key(&known.finding_key());
        self.open.entry(known.finding_key()).or_insert_with(|| known.clone());
        news
    }

    pub(super) fn is_open(&self, key: &FindingKey) -> bool {
        self.open.contains_key(key)
    }

    /// Reports whether the finding was open with another value or another cause.
    pub(super) fn has_changed(&self, key: &FindingKey, known: &KnownFinding) -> bool {
        self.open.get(key).is_some_and(|before| before.print != known.print)
    }

    /// Returns a snapshot for the first entry of a file, without findings resolved more than a day before `now`.
    pub fn to_snapshot(&self, now: &str) -> DriftHistorySnapshot {
        let recent = self.recent.values().filter(|known| is_recent(known.resolved.as_deref(), now));
        DriftHistorySnapshot { open: self.open.values().cloned().collect(), recent: recent.cloned().collect() }
    }
}

/// The scope of a run: earlier findings outside of it are neither confirmed nor resolved.
pub struct DetectionScope<'s> {
    /// Reports whether a step or verification was in scope.
    pub admits: &'s dyn Fn(&str, &str) -> bool,
    /// The result of the run, with its ignored and undecided steps.
    pub found: &'s DetectedDrift,
}

/// Sets age and count of each finding, and returns the entry of this run.
pub fn compare_with_history(
    drift: &mut DriftReport,
    past: &FindingHistory,
    scope: &DetectionScope<'_>,
) -> DriftHistoryEntry {
    let mut entry = start_entry(drift);
    let mut here = BTreeSet::new();
    for finding in &mut drift.findings {
        let key = finding.finding_key();
        classify_finding(finding, past, &key, &mut entry);
        here.insert(key);
    }
    let looked: BTreeSet<&HostName> =
        drift.hosts.iter().filter(|h| h.reach == HostReachability::Observed).map(|h| &h.host).collect();
    // The attributes of a blocked step were not compared.
    let blocked = drift.findings.iter().filter(|finding| matches!(finding.verdict, StepVerdict::Blocked(_)));
    let blocked: BTreeSet<_> = blocked.map(DriftFinding::step_key).collect();
    for (key, known) in &past.open {
        let step = (key.0.clone(), key.1.clone(), key.2.clone());
        let recipe = (key.0.clone(), key.1.clone(), EVERY_STEP.to_owned());
        if here.contains(key) || !looked.contains(&key.0) || !(scope.admits)(&key.1, &key.2) {
            continue;
        }
        // A step that is pending as a whole does not match because one of its attributes differs now.
        if key.3.is_empty()
            && here.range(key..).next().is_some_and(|(h, r, s, _)| (h, r, s) == (&key.0, &key.1, &key.2))
        {
            continue;
        }
        // Only the records of a host show what is no longer declared.
        if known.cause == DriftCause::NoLongerDeclared && scope.found.unrecorded.contains(&key.0) {
            continue;
        }
        match (
            scope.found.ignored_steps.contains(&step),
            scope.found.undecided.contains(&step) || scope.found.undecided.contains(&recipe) || blocked.contains(&step),
        ) {
            (true, _) => entry.dropped.push(known.clone()),
            (false, true) => {}
            (false, false) => entry.resolved.push(KnownFinding { resolved: Some(drift.time.clone()), ..known.clone() }),
        }
    }
    let gone = entry.resolved.iter().filter(|known| !here.contains(&known.finding_key()));
    drift.resolved = gone.cloned().collect();
    entry
}

fn start_entry(drift: &DriftReport) -> DriftHistoryEntry {
    let silent = drift.hosts.iter().filter(|host| host.reach != HostReachability::Observed);
    DriftHistoryEntry {
        version: ENTRY_VERSION,
        run: drift.run.clone(),
        time: drift.time.clone(),
        took_ms: u64::try_from(drift.took.as_millis()).unwrap_or(u64::MAX),
        hosts: drift.count_findings().hosts,
        missed: silent.map(|host| host.host.clone()).collect(),
        findings: drift.findings.len(),
        unknown: drift.unknown.len(),
        exit: drift.exit_code().code(),
        before: None,
        new: Vec::new(),
        changed: Vec::new(),
        resolved: Vec::new(),
        dropped: Vec::new(),
    }
}

fn classify_finding(
    finding: &mut DriftFinding,
    past: &FindingHistory,
    key: &FindingKey,
    entry: &mut DriftHistoryEntry,
) {
    let known = past.open.get(key);
    // It matched when its step was applied: from then on, it is another occurrence.
    if let Some((known, applied)) = known.and_then(|known| Some((known, finding.applied_since(known)?))) {
        entry.resolved.push(KnownFinding { resolved: Some(applied), ..known.clone() });
    }
    let ended = entry.resolved.last().filter(|ended| ended.finding_key() == *key);
    match (known, ended.or_else(|| past.recent.get(key))) {
        (Some(known), _) if ended.is_none() => {
            finding.first_seen.clone_from(&known.first_seen);
            finding.times = known.times;
            if known.print == finding.compute_fingerprint() {
                finding.standing = FindingNovelty::Same;
                return;
            }
            finding.standing = FindingNovelty::Changed;
            entry.changed.push(KnownFinding { since: known.since.clone(), ..finding.to_known_finding() });
        }
        // It was resolved for less than a day: the same finding flaps.
        (_, Some(known)) if is_recent(known.resolved.as_deref(), &finding.last_seen) => {
            if finding.applied_since(known).is_none() {
                finding.first_seen.clone_from(&known.first_seen);
            }
            finding.times = known.times + 1;
            finding.standing = FindingNovelty::Again;
            entry.new.push(finding.to_known_finding());
        }
        _ => {
            finding.standing = FindingNovelty::New;
            entry.new.push(finding.to_known_finding());
        }
    }
}

fn is_recent(resolved: Option<&str>, now: &str) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    match (resolved.and_then(time), time(now)) {
        (Some(resolved), Some(now)) => now.duration_since(resolved) <= FLAP_WINDOW,
        _ => false,
    }
}

/// A history within a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftHistory {
    /// Format version; see `schemas/drift-history.json`.
    pub version: u32,
    /// The name of the cluster in the inventory.
    pub cluster: String,
    /// Start of the period. RFC 3339, UTC; absent for the complete history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Oldest first.
    pub runs: Vec<DriftRunSummary>,
    /// Findings that are open now, the oldest first.
    pub open: Vec<KnownFinding>,
    /// Findings resolved in the period, latest first.
    pub resolved: Vec<KnownFinding>,
    /// Mean time between the appearance and the resolution of findings, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_time_to_repair_s: Option<u64>,
    /// Hosts and steps with the most new findings in the period, most first.
    pub hosts: Vec<FindingCount>,
    /// Steps, as `recipe/step`, with the most new findings in the period, most first.
    pub steps: Vec<FindingCount>,
}

/// One run of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftRunSummary {
    /// The run ID.
    pub run: String,
    /// When the observation of the hosts ended. RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// Number of checked hosts, without the cluster's API.
    pub hosts: usize,
    /// Number of hosts that could not be observed, including the cluster's API.
    pub unreachable: usize,
    /// Number of findings that were open in this run.
    pub findings: usize,
    /// Number of steps and verifications that could not be evaluated.
    pub unknown: usize,
    /// Number of findings that appeared or reappeared.
    pub new: usize,
    /// Number of findings with another value or another cause than before.
    pub changed: usize,
    /// Number of earlier findings that were resolved.
    pub resolved: usize,
    /// The exit code of the run.
    pub exit: u8,
    /// Duration of the observation of all hosts, in milliseconds.
    pub took_ms: u64,
}

/// A host or step with its number of new findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingCount {
    /// A host, or `recipe/step`.
    pub name: UntrustedText,
    /// Number of findings that appeared on it or in it during the period.
    pub count: usize,
}

/// Maximum number of offenders.
const MAX_FINDING_COUNTS: usize = 10;

/// Summarizes entries, oldest first, for the time from `since` on.
pub fn summarize_history(cluster: &str, all: &[DriftHistoryEntry], since: Option<Timestamp>) -> DriftHistory {
    let past = FindingHistory::from_entries(all);
    let late = |entry: &&DriftHistoryEntry| {
        since.is_none_or(|since| entry.time.parse::<Timestamp>().is_ok_and(|time| time >= since))
    };
    let told: Vec<&DriftHistoryEntry> = all.iter().filter(late).collect();
    let mut resolved: Vec<KnownFinding> = told.iter().flat_map(|entry| entry.resolved.iter().cloned()).collect();
    resolved.reverse();
    let mut open: Vec<KnownFinding> = past.open.into_values().collect();
    open.sort_by(|a, b| a.first_seen.cmp(&b.first_seen));
    let came = || told.iter().flat_map(|entry| &entry.new);
    DriftHistory {
        version: ENTRY_VERSION,
        cluster: cluster.to_owned(),
        since: since.map(|since| since.to_string()),
        mean_time_to_repair_s: compute_mean(resolved.iter().filter_map(repair_seconds)),
        hosts: count_most_frequent(came().map(|known| known.host.as_str().to_owned())),
        steps: count_most_frequent(came().map(|known| format!("{}/{}", known.recipe.raw(), known.step.raw()))),
        runs: told.iter().map(|entry| DriftRunSummary::from_entry(entry)).collect(),
        open,
        resolved,
    }
}

impl DriftRunSummary {
    fn from_entry(entry: &DriftHistoryEntry) -> Self {
        Self {
            run: entry.run.clone(),
            time: entry.time.clone(),
            hosts: entry.hosts,
            unreachable: entry.missed.len(),
            findings: entry.findings,
            unknown: entry.unknown,
            new: entry.new.len(),
            changed: entry.changed.len(),
            resolved: entry.resolved.len(),
            exit: entry.exit,
            took_ms: entry.took_ms,
        }
    }

    /// Reports whether the run reached every host and found no drift.
    pub fn is_clean(&self) -> bool {
        self.exit == ExitCode::Done.code()
    }
}

/// Returns the seconds from the last appearance to the resolution. If it flaps, earlier appearances do not count.
fn repair_seconds(known: &KnownFinding) -> Option<u64> {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let (since, resolved) = (time(&known.since)?, time(known.resolved.as_deref()?)?);
    u64::try_from(resolved.duration_since(since).as_secs()).ok()
}

fn compute_mean(all: impl Iterator<Item = u64>) -> Option<u64> {
    let (count, sum) = all.fold((0, 0), |(count, sum), seconds| (count + 1, sum + seconds));
    (count > 0).then(|| sum / count)
}

fn count_most_frequent(names: impl Iterator<Item = String>) -> Vec<FindingCount> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut list: Vec<_> = counts.into_iter().map(|(name, count)| FindingCount { name: name.into(), count }).collect();
    list.sort_by_key(|offender| std::cmp::Reverse(offender.count));
    list.truncate(MAX_FINDING_COUNTS);
    list
}

#[cfg(test)]
mod tests;
