//! News since the last notification: new, changed and resolved findings. It is computed from the history alone, so that
//! a failed notification is included in the next one.

use super::history::{DriftHistoryEntry, FindingHistory};
use super::known_finding::KnownFinding;
use super::model::{DriftFinding, DriftReport};
use crate::model::{HostName, UntrustedText};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of a notice. Compatible additions keep it; any other change increments it.
pub const NOTICE_VERSION: u32 = 1;

/// A flapping finding is reported as resolved once it stayed away for this time.
const RESOLVED_DELAY: SignedDuration = SignedDuration::from_hours(24);

/// A notification: the differences between the current findings and those in the previous notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftNotice {
    /// Format version; see `schemas/drift-notice.json`.
    pub version: u32,
    /// The version of forge that made the notice.
    pub forge: String,
    /// `CLUSTER/RUN`. A notice that is sent twice because the response was lost has the same id.
    pub id: String,
    /// The name of the cluster in the inventory.
    pub cluster: String,
    /// The ID of the run that the notice reports up to.
    pub run: String,
    /// When the observation of the hosts ended. RFC 3339, UTC.
    pub time: String,
    /// The last run that the recipient was notified of; absent for the first notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Simulated hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// Findings that are open now and were not open at the previous notification.
    pub new: Vec<DriftNoticeItem>,
    /// Findings that were open at the previous notification, with another value or another cause now.
    pub changed: Vec<DriftNoticeItem>,
    /// Findings that were open at the previous notification and are resolved now.
    pub resolved: Vec<DriftNoticeItem>,
    /// Number of open findings, including earlier ones.
    pub open: usize,
    /// Number of findings that appeared and disappeared since, without a notification.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub passed: usize,
    /// Number of list items that did not fit.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub left_out: usize,
}

/// A finding in a notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftNoticeItem {
    /// The finding as the history records it.
    pub known: KnownFinding,
    /// The difference; absent for resolved findings, and if a later run found it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<UntrustedText>,
    /// The declared value; absent for the same reasons as `reason`, and if values are withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<UntrustedText>,
    /// The observed value; absent like `desired`, and if the object does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<UntrustedText>,
    /// `file:line:col` of the declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// The decision on a notification.
#[derive(Clone, Debug, PartialEq)]
pub enum NoticeDecision {
    /// There is news: send this notice.
    Tell(Box<DriftNotice>),
    /// A flapping finding is resolved: the notification waits until it stays away.
    Waiting,
    /// There is no news: send nothing.
    Nothing,
}

/// Returns the news in `entries`, oldest first, since the run `told`. If the history no longer has that run, the news
/// covers the whole available history.
pub fn build_notice(entries: &[DriftHistoryEntry], told: &str, drift: &DriftReport) -> NoticeDecision {
    let now = FindingHistory::from_entries(entries);
    let Some(last) = entries.last() else { return NoticeDecision::Nothing };
    let from = entries.iter().rposition(|entry| entry.run == told).map_or(0, |at| at + 1);
    let before = match from {
        0 => FindingHistory::before_first_entry(entries.first()),
        from => FindingHistory::from_entries(&entries[..from]),
    };
    let notice = DriftNotice {
        version: NOTICE_VERSION,
        forge: env!("CARGO_PKG_VERSION").to_owned(),
        id: format!("{}/{}", drift.cluster, last.run),
        cluster: drift.cluster.clone(),
        run: last.run.clone(),
        time: last.time.clone(),
        since: Some(told.to_owned()).filter(|told| !told.is_empty()),
        simulated: drift.simulated.clone(),
        new: build_items(now.iter_open().filter(|(key, _)| !before.is_open(key)).map(|(_, known)| known), drift),
        changed: build_items(
            now.iter_open().filter(|(key, known)| before.has_changed(key, known)).map(|(_, known)| known),
            drift,
        ),
        resolved: list_resolved(&before, &now, &entries[from..]),
        open: now.iter_open().count(),
        passed: count_transient(&before, &now, &entries[from..]),
        left_out: 0,
    };
    match (notice.is_empty(), notice.is_worth_sending()) {
        (true, _) => NoticeDecision::Nothing,
        (false, true) => NoticeDecision::Tell(Box::new(notice)),
        (false, false) => NoticeDecision::Waiting,
    }
}

fn build_items<'a>(known: impl Iterator<Item = &'a KnownFinding>, drift: &DriftReport) -> Vec<DriftNoticeItem> {
    let detail: BTreeMap<(&HostName, &UntrustedText, &UntrustedText, Option<&str>), &DriftFinding> =
        drift.findings.iter().map(|f| ((&f.host, &f.recipe, &f.step, f.attribute.as_deref()), f)).collect();
    let item = |known: &KnownFinding| {
        let finding = detail.get(&(&known.host, &known.recipe, &known.step, known.attribute.as_deref()));
        DriftNoticeItem {
            known: known.clone(),
            reason: finding.map(|finding| finding.reason.clone()),
            desired: finding.and_then(|finding| finding.desired.clone()),
            observed: finding.and_then(|finding| finding.observed.clone()),
            place: finding.map(|finding| finding.place.clone()).filter(|place| !place.is_empty()),
        }
    };
    known.map(item).collect()
}

/// Returns the findings that were open before and are not now. Ignored findings are not resolved: they are left out.
fn list_resolved(before: &FindingHistory, now: &FindingHistory, since: &[DriftHistoryEntry]) -> Vec<DriftNoticeItem> {
    let gone = |known: &&KnownFinding| before.is_open(&known.finding_key()) && !now.is_open(&known.finding_key());
    let latest: BTreeMap<_, &KnownFinding> =
        since.iter().flat_map(|entry| &entry.resolved).filter(gone).map(|known| (known.finding_key(), known)).collect();
    let item = |known: &KnownFinding| DriftNoticeItem {
        known: known.clone(),
        reason: None,
        desired: None,
        observed: None,
        place: None,
    };
    latest.into_values().map(item).collect()
}

fn count_transient(before: &FindingHistory, now: &FindingHistory, since: &[DriftHistoryEntry]) -> usize {
    let blip = |known: &&KnownFinding| !before.is_open(&known.finding_key()) && !now.is_open(&known.finding_key());
    let keys = since.iter().flat_map(|entry| &entry.resolved).filter(blip).map(KnownFinding::finding_key);
    keys.collect::<std::collections::BTreeSet<_>>().len()
}

impl DriftNotice {
    /// Reports whether there is news: a flapping finding counts once when it appears, and when it stays resolved.
    fn is_worth_sending(&self) -> bool {
        let gone = |item: &DriftNoticeItem| item.known.times < 2 || has_stayed_resolved(&item.known, &self.time);
        !self.new.is_empty() || !self.changed.is_empty() || self.resolved.iter().any(gone)
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.new.len() + self.changed.len() + self.resolved.len()
    }

    /// Reports whether there are no new, changed and resolved findings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn has_stayed_resolved(known: &KnownFinding, now: &str) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    match (known.resolved.as_deref().and_then(time), time(now)) {
        (Some(gone), Some(now)) => now.duration_since(gone) > RESOLVED_DELAY,
        // An invalid time does not delay the notification.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
