//! What was found before: since when something is not as declared, how often it came, what was put right meanwhile.
//!
//! A history is a list of entries, one a run. Each tells only what is new, changed or put right in its run; now and then one
//! begins with all that was open before, so that the last of them are enough to go on from.

use super::find::EVERY_STEP;
use super::model::{Drift, Finding, Severity, Standing};
use super::{Cause, Found};
use crate::model::{ExitCode, HostName, Untrusted};
use crate::plan::Reach;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The form of an entry. Additions keep it; anything else raises it.
pub const ENTRY_VERSION: u32 = 1;

/// What comes again within this time was not gone: it flaps.
const FLAPPING: SignedDuration = SignedDuration::from_hours(24);

/// What names a finding over time: host, recipe, step, attribute.
pub(super) type Key = (HostName, String, String, String);

/// One run of `drift`: a line of its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub version: u32,
    pub run: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub time: String,
    pub took_ms: u64,
    pub hosts: usize,
    /// Hosts that did not answer: what was found there before is neither there nor gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<HostName>,
    /// How many findings there were, and how much could not be told.
    pub findings: usize,
    pub unknown: usize,
    pub exit: u8,
    /// What was open before this run, where the entry begins a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Snapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<Known>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Known>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<Known>,
    /// What nobody looks for any more: it is ignored now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Known>,
}

/// All that was open at one time, and what was put right within the day before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    pub open: Vec<Known>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<Known>,
}

/// A finding as history knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Known {
    pub host: HostName,
    pub recipe: Untrusted,
    pub step: Untrusted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    pub cause: Cause,
    pub severity: Severity,
    /// RFC 3339, UTC.
    pub first_seen: String,
    /// When it came last; after `first_seen` where it flaps.
    pub since: String,
    /// How often it came within a day.
    pub times: u32,
    /// Digest over what was desired and seen: another one is a change.
    pub print: String,
    /// When it was found to be gone. RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
}

/// What a history comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    open: BTreeMap<Key, Known>,
    /// Put right not long ago.
    recent: BTreeMap<Key, Known>,
}

impl Known {
    pub(super) fn key(&self) -> Key {
        let attribute = self.attribute.clone().unwrap_or_default();
        (self.host.clone(), self.recipe.raw().to_owned(), self.step.raw().to_owned(), attribute)
    }
}

impl Finding {
    fn key(&self) -> Key {
        let attribute = self.attribute.clone().unwrap_or_default();
        (self.host.clone(), self.recipe.raw().to_owned(), self.step.raw().to_owned(), attribute)
    }

    /// Returns the digest over all that makes it another finding if it changes.
    fn print(&self) -> String {
        let text = |text: &Option<Untrusted>| text.as_ref().map(|text| text.raw().to_owned());
        let seen = (text(&self.desired), text(&self.observed), text(&self.diff), self.verdict, self.cause);
        // Text and names always serialize.
        let bytes = serde_json::to_vec(&seen).unwrap_or_default();
        crate::model::hex(&Sha256::digest(&bytes)[..8])
    }

    fn known(&self) -> Known {
        Known {
            host: self.host.clone(),
            recipe: self.recipe.clone(),
            step: self.step.clone(),
            attribute: self.attribute.clone(),
            cause: self.cause,
            severity: self.severity,
            first_seen: self.first_seen.clone(),
            since: self.last_seen.clone(),
            times: self.times,
            print: self.print(),
            resolved: None,
        }
    }
}

/// Reads lines of a history. What is no entry is passed over: a run that was killed leaves half a line.
pub fn entries<'l>(lines: impl IntoIterator<Item = &'l str>) -> Vec<Entry> {
    let read = |line: &str| serde_json::from_str::<Entry>(line).ok();
    lines.into_iter().filter_map(read).filter(|entry| entry.version == ENTRY_VERSION).collect()
}

impl Past {
    /// Adds up entries, oldest first.
    pub fn of(entries: &[Entry]) -> Self {
        let mut past = Self::default();
        entries.iter().for_each(|entry| past.add(entry));
        past
    }

    fn add(&mut self, entry: &Entry) {
        let keyed = |list: &[Known]| list.iter().map(|known| (known.key(), known.clone())).collect();
        if let Some(before) = &entry.before {
            (self.open, self.recent) = (keyed(&before.open), keyed(&before.recent));
        }
        for known in entry.new.iter().chain(&entry.changed) {
            self.recent.remove(&known.key());
            self.open.insert(known.key(), known.clone());
        }
        for known in &entry.resolved {
            self.open.remove(&known.key());
            self.recent.insert(known.key(), known.clone());
        }
        for known in &entry.dropped {
            self.open.remove(&known.key());
        }
    }

    /// Returns what was open before the first of the entries that are kept.
    pub(super) fn begin(first: Option<&Entry>) -> Self {
        let mut past = Self::default();
        let before = first.and_then(|first| first.before.clone()).unwrap_or_default();
        past.open = before.open.into_iter().map(|known| (known.key(), known)).collect();
        past
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (&Key, &Known)> {
        self.open.iter()
    }

    /// Adds what is not known; returns whether it was not.
    pub(super) fn learn(&mut self, known: &Known) -> bool {
        let news = !self.open.contains_key(&known.key());
        self.open.entry(known.key()).or_insert_with(|| known.clone());
        news
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.open.contains_key(key)
    }

    /// Returns whether it was open too, and was another value or had another cause.
    pub(super) fn differs(&self, key: &Key, known: &Known) -> bool {
        self.open.get(key).is_some_and(|before| before.print != known.print)
    }

    /// Returns all of it, for the entry that begins a file, without what was put right longer than a day before `now`.
    pub fn snapshot(&self, now: &str) -> Snapshot {
        let recent = self.recent.values().filter(|known| is_recent(known.resolved.as_deref(), now));
        Snapshot { open: self.open.values().cloned().collect(), recent: recent.cloned().collect() }
    }
}

/// What a run looked at: a finding of before that lies outside is neither there nor gone.
pub struct Scope<'s> {
    /// Whether a step or verification was judged at all.
    pub admits: &'s dyn Fn(&str, &str) -> bool,
    pub found: &'s Found,
}

/// Tells each finding since when it is there and how often it came, and returns the entry of this run.
pub fn settle(drift: &mut Drift, past: &Past, scope: &Scope<'_>) -> Entry {
    let mut entry = blank(drift);
    let mut here = BTreeSet::new();
    for finding in &mut drift.findings {
        let key = finding.key();
        note(finding, past, &key, &mut entry);
        here.insert(key);
    }
    let looked: BTreeSet<&HostName> =
        drift.hosts.iter().filter(|h| h.reach == Reach::Observed).map(|h| &h.host).collect();
    for (key, known) in &past.open {
        let step = (key.0.clone(), key.1.clone(), key.2.clone());
        let recipe = (key.0.clone(), key.1.clone(), EVERY_STEP.to_owned());
        if here.contains(key) || !looked.contains(&key.0) || !(scope.admits)(&key.1, &key.2) {
            continue;
        }
        match (
            scope.found.ignored_steps.contains(&step),
            scope.found.undecided.contains(&step) || scope.found.undecided.contains(&recipe),
        ) {
            (true, _) => entry.dropped.push(known.clone()),
            (false, true) => {}
            (false, false) => entry.resolved.push(Known { resolved: Some(drift.time.clone()), ..known.clone() }),
        }
    }
    drift.resolved = entry.resolved.clone();
    entry
}

fn blank(drift: &Drift) -> Entry {
    let silent = drift.hosts.iter().filter(|host| host.reach != Reach::Observed);
    Entry {
        version: ENTRY_VERSION,
        run: drift.run.clone(),
        time: drift.time.clone(),
        took_ms: u64::try_from(drift.took.as_millis()).unwrap_or(u64::MAX),
        hosts: drift.counts().hosts,
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

fn note(finding: &mut Finding, past: &Past, key: &Key, entry: &mut Entry) {
    match (past.open.get(key), past.recent.get(key)) {
        (Some(known), _) => {
            finding.first_seen.clone_from(&known.first_seen);
            finding.times = known.times;
            if known.print == finding.print() {
                finding.standing = Standing::Same;
                return;
            }
            finding.standing = Standing::Changed;
            entry.changed.push(Known { since: known.since.clone(), ..finding.known() });
        }
        // It was gone for less than a day: it is the same that comes and goes.
        (None, Some(known)) if is_recent(known.resolved.as_deref(), &finding.last_seen) => {
            finding.first_seen.clone_from(&known.first_seen);
            finding.times = known.times + 1;
            finding.standing = Standing::Again;
            entry.new.push(finding.known());
        }
        (None, _) => {
            finding.standing = Standing::New;
            entry.new.push(finding.known());
        }
    }
}

fn is_recent(resolved: Option<&str>, now: &str) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    match (resolved.and_then(time), time(now)) {
        (Some(resolved), Some(now)) => now.duration_since(resolved) <= FLAPPING,
        _ => false,
    }
}

/// What a history tells of a span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Of the form; see `schemas/drift-history.json`.
    pub version: u32,
    pub cluster: String,
    /// From when on it tells. RFC 3339, UTC; absent for all that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Oldest first.
    pub runs: Vec<RunLine>,
    /// What is open now, longest first.
    pub open: Vec<Known>,
    /// What was put right in that time, latest first.
    pub resolved: Vec<Known>,
    /// Seconds from when something was found first to when it was found to be gone, in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_time_to_repair_s: Option<u64>,
    /// Hosts and steps with the most that was found anew in that time, most first.
    pub hosts: Vec<Offender>,
    pub steps: Vec<Offender>,
}

/// One run in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunLine {
    pub run: String,
    pub time: String,
    pub hosts: usize,
    pub unreachable: usize,
    pub findings: usize,
    pub unknown: usize,
    pub new: usize,
    pub changed: usize,
    pub resolved: usize,
    pub exit: u8,
    pub took_ms: u64,
}

/// Who was found most often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offender {
    /// A host, or `recipe/step`.
    pub name: Untrusted,
    pub count: usize,
}

/// How many offenders are named.
const NAMED: usize = 10;

/// Tells what entries, oldest first, say of the time from `since` on.
pub fn history(cluster: &str, all: &[Entry], since: Option<Timestamp>) -> History {
    let past = Past::of(all);
    let late =
        |entry: &&Entry| since.is_none_or(|since| entry.time.parse::<Timestamp>().is_ok_and(|time| time >= since));
    let told: Vec<&Entry> = all.iter().filter(late).collect();
    let mut resolved: Vec<Known> = told.iter().flat_map(|entry| entry.resolved.iter().cloned()).collect();
    resolved.reverse();
    let mut open: Vec<Known> = past.open.into_values().collect();
    open.sort_by(|a, b| a.first_seen.cmp(&b.first_seen));
    let came = || told.iter().flat_map(|entry| &entry.new);
    History {
        version: ENTRY_VERSION,
        cluster: cluster.to_owned(),
        since: since.map(|since| since.to_string()),
        mean_time_to_repair_s: mean(resolved.iter().filter_map(repaired_within)),
        hosts: most(came().map(|known| known.host.as_str().to_owned())),
        steps: most(came().map(|known| format!("{}/{}", known.recipe.raw(), known.step.raw()))),
        runs: told.iter().map(|entry| RunLine::of(entry)).collect(),
        open,
        resolved,
    }
}

impl RunLine {
    fn of(entry: &Entry) -> Self {
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

    /// Returns whether the run looked at every host and found nothing.
    pub fn is_quiet(&self) -> bool {
        self.exit == ExitCode::Done.code()
    }
}

/// Returns the seconds from when it came to when it was gone; the times between, where it flaps, do not count.
fn repaired_within(known: &Known) -> Option<u64> {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let (since, resolved) = (time(&known.since)?, time(known.resolved.as_deref()?)?);
    u64::try_from(resolved.duration_since(since).as_secs()).ok()
}

fn mean(all: impl Iterator<Item = u64>) -> Option<u64> {
    let (count, sum) = all.fold((0, 0), |(count, sum), seconds| (count + 1, sum + seconds));
    (count > 0).then(|| sum / count)
}

fn most(names: impl Iterator<Item = String>) -> Vec<Offender> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut list: Vec<_> = counts.into_iter().map(|(name, count)| Offender { name: name.into(), count }).collect();
    list.sort_by_key(|offender| std::cmp::Reverse(offender.count));
    list.truncate(NAMED);
    list
}

#[cfg(test)]
mod tests;
