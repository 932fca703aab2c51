//! What is new since somebody was told: found anew, changed, put right. From the history alone, so that what could not be
//! told is told with the next run.

use super::history::{Entry, Known, Past};
use super::model::{Drift, Finding};
use crate::model::{HostName, Untrusted};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of a notice. Additions keep it; anything else raises it.
pub const NOTICE_VERSION: u32 = 1;

/// What comes and goes is told to be gone once it stayed away for this time.
const GONE: SignedDuration = SignedDuration::from_hours(24);

/// What somebody is told: how what was found differs from what they were told before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// Of the form; see `schemas/drift-notice.json`.
    pub version: u32,
    pub forge: String,
    /// `CLUSTER/RUN`. The same notice that arrives twice, because an answer was lost, has the same id.
    pub id: String,
    pub cluster: String,
    pub run: String,
    /// When the hosts had been looked at. RFC 3339, UTC.
    pub time: String,
    /// Up to which run the recipient knew everything; absent where nothing was told before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Hosts that are not real.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    pub new: Vec<Item>,
    pub changed: Vec<Item>,
    pub resolved: Vec<Item>,
    /// How much is open now, that of before included.
    pub open: usize,
    /// How much came and went since: it was never told.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub passed: usize,
    /// How many lines of the lists did not fit.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub left_out: usize,
}

/// A finding as somebody is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    pub known: Known,
    /// What is not as declared; absent for what is gone, and for what a later run found too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<Untrusted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Untrusted>,
    /// `file:line:col` of the declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// What there is to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    Tell(Box<Notice>),
    /// Something is gone that comes and goes: it is told once it stayed away.
    Waiting,
    Nothing,
}

/// Returns what is new in `entries`, oldest first, since the run `told`. A run that is not among them is so long ago that it
/// is forgotten: then it is what is known of the time after it.
pub fn news(entries: &[Entry], told: &str, drift: &Drift) -> News {
    let now = Past::of(entries);
    let Some(last) = entries.last() else { return News::Nothing };
    let from = entries.iter().rposition(|entry| entry.run == told).map_or(0, |at| at + 1);
    let before = match from {
        0 => Past::begin(entries.first()),
        from => Past::of(&entries[..from]),
    };
    let notice = Notice {
        version: NOTICE_VERSION,
        forge: env!("CARGO_PKG_VERSION").to_owned(),
        id: format!("{}/{}", drift.cluster, last.run),
        cluster: drift.cluster.clone(),
        run: last.run.clone(),
        time: last.time.clone(),
        since: Some(told.to_owned()).filter(|told| !told.is_empty()),
        simulated: drift.simulated.clone(),
        new: items(now.open().filter(|(key, _)| !before.has(key)).map(|(_, known)| known), drift),
        changed: items(now.open().filter(|(key, known)| before.differs(key, known)).map(|(_, known)| known), drift),
        resolved: resolved(&before, &now, &entries[from..]),
        open: now.open().count(),
        passed: passed(&before, &now, &entries[from..]),
        left_out: 0,
    };
    match (notice.is_empty(), notice.is_worth_telling()) {
        (true, _) => News::Nothing,
        (false, true) => News::Tell(Box::new(notice)),
        (false, false) => News::Waiting,
    }
}

fn items<'a>(known: impl Iterator<Item = &'a Known>, drift: &Drift) -> Vec<Item> {
    let detail: BTreeMap<(&HostName, &Untrusted, &Untrusted, Option<&str>), &Finding> =
        drift.findings.iter().map(|f| ((&f.host, &f.recipe, &f.step, f.attribute.as_deref()), f)).collect();
    let item = |known: &Known| {
        let finding = detail.get(&(&known.host, &known.recipe, &known.step, known.attribute.as_deref()));
        Item {
            known: known.clone(),
            reason: finding.map(|finding| finding.reason.clone()),
            desired: finding.and_then(|finding| finding.desired.clone()),
            observed: finding.and_then(|finding| finding.observed.clone()),
            place: finding.map(|finding| finding.place.clone()).filter(|place| !place.is_empty()),
        }
    };
    known.map(item).collect()
}

/// Returns what was open before and is not now. What nobody looks for any more is not put right: it is left out.
fn resolved(before: &Past, now: &Past, since: &[Entry]) -> Vec<Item> {
    let gone = |known: &&Known| before.has(&known.key()) && !now.has(&known.key());
    let latest: BTreeMap<_, &Known> =
        since.iter().flat_map(|entry| &entry.resolved).filter(gone).map(|known| (known.key(), known)).collect();
    let item = |known: &Known| Item { known: known.clone(), reason: None, desired: None, observed: None, place: None };
    latest.into_values().map(item).collect()
}

fn passed(before: &Past, now: &Past, since: &[Entry]) -> usize {
    let blip = |known: &&Known| !before.has(&known.key()) && !now.has(&known.key());
    let keys = since.iter().flat_map(|entry| &entry.resolved).filter(blip).map(Known::key);
    keys.collect::<std::collections::BTreeSet<_>>().len()
}

impl Notice {
    /// What comes and goes is told once that it does, and that it is gone only when it stayed away.
    fn is_worth_telling(&self) -> bool {
        let gone = |item: &Item| item.known.times < 2 || stayed_away(&item.known, &self.time);
        !self.new.is_empty() || !self.changed.is_empty() || self.resolved.iter().any(gone)
    }

    /// Returns how much is told.
    pub fn len(&self) -> usize {
        self.new.len() + self.changed.len() + self.resolved.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn stayed_away(known: &Known, now: &str) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    match (known.resolved.as_deref().and_then(time), time(now)) {
        (Some(gone), Some(now)) => now.duration_since(gone) > GONE,
        // A time that cannot be read keeps nothing back.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
