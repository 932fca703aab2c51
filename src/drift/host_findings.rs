//! Findings stored on the host itself, if this is declared: a runner without a history reads from them since when each
//! finding is open.
//!
//! Data from a host is never trusted: times and names in another form than forge's own are ignored.

use super::history::FindingHistory;
use super::known_finding::KnownFinding;
use crate::model::HostName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of the file. Compatible additions keep it; any other change increments it.
const HOST_FINDINGS_VERSION: u32 = 1;

/// The file of one cluster on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFindingsFile {
    version: u32,
    cluster: String,
    /// The open findings of the host, in order.
    open: Vec<KnownFinding>,
}

impl HostFindingsFile {
    /// Parses the file of a host. Files of another cluster and forged entries are ignored.
    pub fn parse(text: &str, cluster: &str, host: &HostName, now: &str) -> Option<Self> {
        let mut kept: Self = serde_json::from_str(text).ok()?;
        let now: Timestamp = now.parse().ok()?;
        kept.open.retain(|known| known.host == *host && is_plausible(known, now));
        (kept.version == HOST_FINDINGS_VERSION && kept.cluster == cluster).then_some(kept)
    }

    /// Reports whether the host has no open findings.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> String {
        // Strings, numbers and names always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Reports whether forge could have written the entry.
fn is_plausible(known: &KnownFinding, now: Timestamp) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().is_ok_and(|time| time <= now && text.len() <= 32);
    let attribute = known.attribute.as_deref().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    time(&known.first_seen)
        && time(&known.since)
        && known.resolved.is_none()
        && attribute.chars().all(plain)
        && known.print.chars().all(|c| c.is_ascii_hexdigit())
        && known.times > 0
}

impl FindingHistory {
    /// Adds findings that a host stored and this history does not have: a run with another history found them. Reports
    /// whether there were any.
    pub fn merge_host_findings(&mut self, kept: &HostFindingsFile) -> bool {
        kept.open.iter().fold(false, |news, known| self.insert_missing(known) | news)
    }

    /// Returns the findings for a host to store.
    pub fn to_host_file(&self, cluster: &str, host: &HostName) -> HostFindingsFile {
        let open = self.iter_open().filter(|((of, ..), _)| of == host).map(|(_, known)| known.clone());
        HostFindingsFile { version: HOST_FINDINGS_VERSION, cluster: cluster.to_owned(), open: open.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::{DriftCause, FindingSeverity};

    const NOW: &str = "2026-11-21T10:00:00Z";

    fn known() -> KnownFinding {
        KnownFinding {
            host: HostName::new("h"),
            recipe: "base".into(),
            step: "motd".into(),
            attribute: Some("mode".into()),
            cause: DriftCause::MachineChanged,
            severity: FindingSeverity::Medium,
            first_seen: "2026-11-21T09:00:00Z".into(),
            since: "2026-11-21T09:00:00Z".into(),
            applied: None,
            times: 1,
            print: "00ff".into(),
            resolved: None,
        }
    }

    /// Returns the number of findings that are accepted from a host's file with `known`.
    fn taken(known: KnownFinding, cluster: &str) -> Option<usize> {
        let file = HostFindingsFile { version: HOST_FINDINGS_VERSION, cluster: "lab".into(), open: vec![known] };
        HostFindingsFile::parse(&file.to_json(), cluster, &HostName::new("h"), NOW).map(|kept| kept.open.len())
    }

    #[test]
    fn host_findings_round_trip_without_overwriting_known_ones() {
        let file = HostFindingsFile { version: HOST_FINDINGS_VERSION, cluster: "lab".into(), open: vec![known()] };
        let mut past = FindingHistory::default();
        assert!(
            past.merge_host_findings(
                &HostFindingsFile::parse(&file.to_json(), "lab", &HostName::new("h"), NOW).unwrap()
            )
        );
        assert_eq!(past.to_host_file("lab", &HostName::new("h")), file);
        assert!(past.to_host_file("lab", &HostName::new("other")).is_empty());
        // Findings that this history already has stay unchanged.
        let other = HostFindingsFile {
            open: vec![KnownFinding { first_seen: "2026-11-21T01:00:00Z".into(), ..known() }],
            ..file.clone()
        };
        assert!(!past.merge_host_findings(&other));
        assert_eq!(past.to_host_file("lab", &HostName::new("h")), file);
    }

    #[test]
    fn forged_or_invalid_host_findings_are_rejected() {
        assert_eq!(taken(known(), "lab"), Some(1));
        assert_eq!(taken(known(), "other"), None);
        assert_eq!(HostFindingsFile::parse("{\"half\": ", "lab", &HostName::new("h"), NOW), None);
        for odd in [
            KnownFinding { host: HostName::new("other"), ..known() },
            KnownFinding { first_seen: "\u{1b}[2J".into(), ..known() },
            KnownFinding { first_seen: "2030-01-01T00:00:00Z".into(), ..known() },
            KnownFinding { attribute: Some("\u{202e}".into()), ..known() },
            KnownFinding { print: "<b>".into(), ..known() },
            KnownFinding { resolved: Some("x".into()), ..known() },
        ] {
            assert_eq!(taken(odd, "lab"), Some(0));
        }
    }
}
