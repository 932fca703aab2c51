//! The parsed evidence of a host: commands by user, package changes, and times of units and files.

use super::journal::{self, SystemJournalEntry};
use super::packages::PackageManagerRun;
use super::sudo::{self, SudoCommand};
use super::{apt, clock, dnf, dpkg};
use crate::probe::{EvidenceState, JOURNAL_CAP, JOURNAL_ENTRIES};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// The evidence of one host.
pub struct HostEvidence<'e> {
    state: &'e EvidenceState,
    /// The host's clock.
    pub now: Option<Timestamp>,
    /// When this boot started.
    pub booted: Option<Timestamp>,
    /// The ID of this boot, without hyphens.
    pub boot: String,
    /// The start of the available journal. `None` if the journal was not read.
    pub journal_since: Option<Timestamp>,
    pub entries: Vec<SystemJournalEntry>,
    pub sudo: Vec<SudoCommand>,
    /// Runs of all package managers, oldest first.
    pub packages: Vec<PackageManagerRun>,
    /// Output of `systemctl show`, by name and alias of the unit.
    units: BTreeMap<String, BTreeMap<String, String>>,
    zone: TimeZone,
}

/// The times and the owner of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTimestamps {
    /// Whether the file exists. If not, the times are those of the nearest existing parent folder.
    pub there: bool,
    pub modified: Timestamp,
    pub changed: Timestamp,
    pub owner: String,
    pub uid: u32,
}

impl<'e> HostEvidence<'e> {
    pub fn from_state(state: &'e EvidenceState) -> Self {
        let text = |name: &str| state.parts.get(name).map_or("", |part| part.text.raw());
        let zone = clock::parse_zone(text("zone"));
        let entries = journal::parse_entries(text("journal"));
        let users = parse_users(text("users"));
        let (manager, units) = parse_units(text("units"));
        let stamp = |key: &str| manager.get(key).and_then(|time| clock::parse_systemd_time(time));
        Self {
            state,
            now: clock::parse_epoch(text("now")),
            booted: stamp("UserspaceTimestamp"),
            boot: text("boot").trim().replace('-', ""),
            journal_since: find_journal_start(text("journal"), text("oldest"), &entries),
            sudo: sudo::parse_commands(&entries, &users),
            packages: parse_package_runs(&text, &zone),
            entries,
            units,
            zone,
        }
    }

    /// Returns why evidence of that kind was not read; `None` if it was.
    pub fn missing_reason(&self, part: &str) -> Option<&str> {
        match self.state.parts.get(part) {
            None => Some("was not read in time"),
            Some(part) => Some(part.lack.as_str()).filter(|lack| !lack.is_empty()),
        }
    }

    /// Returns the account of the session, if it is not root: only root can read most logs.
    pub fn unprivileged_account(&self) -> Option<&str> {
        self.state.parts.get("account").map(|part| part.text.raw()).filter(|name| !name.is_empty())
    }

    /// Returns a timestamp of a unit from systemd: `InactiveEnterTimestamp`.
    pub fn unit_time(&self, unit: &str, key: &str) -> Option<Timestamp> {
        clock::parse_systemd_time(self.unit_property(unit, key)?)
    }

    pub fn unit_property(&self, unit: &str, key: &str) -> Option<&str> {
        self.units.get(unit)?.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the names of a unit: its own, and its aliases.
    pub fn unit_names(&self, unit: &str) -> impl Iterator<Item = &str> {
        ["Id", "Names"].into_iter().filter_map(|key| self.unit_property(unit, key)).flat_map(str::split_whitespace)
    }

    /// Returns the file at a path, or its nearest existing parent folder.
    pub fn file_timestamps(&self, path: &str) -> Option<FileTimestamps> {
        let part = |kind: &str| self.state.parts.get(&format!("{kind}:{path}")).map(|part| (kind == "file", part));
        let (there, part) = part("file").or_else(|| part("gone"))?;
        let mut words = part.text.raw().split_whitespace();
        let (modified, changed) = (clock::parse_epoch(words.next()?)?, clock::parse_epoch(words.next()?)?);
        let uid = words.next()?.parse().ok()?;
        Some(FileTimestamps { there, modified, changed, uid, owner: words.next()?.to_owned() })
    }

    /// Returns the times of reboots in the log of unattended-upgrades.
    pub fn unattended_reboots(&self) -> Vec<Timestamp> {
        let text = self.state.parts.get("unattended").map_or("", |part| part.text.raw());
        let asks = |line: &&str| {
            line.contains("rebooting") || line.contains("Rebooting") || line.contains("Shutdown scheduled")
        };
        // `2026-11-22 03:10:04,123 WARNING Found /var/run/reboot-required, rebooting`
        let time = |line: &str| clock::parse_local_time(line.split_once(',')?.0, &self.zone);
        text.lines().filter(asks).filter_map(time).collect()
    }
}

fn parse_users(text: &str) -> BTreeMap<String, String> {
    let one = |line: &str| line.split_once(':').map(|(name, uid)| (uid.to_owned(), name.to_owned()));
    text.lines().filter_map(one).collect()
}

/// Parses the properties of the systemd manager, and those of each unit by all of its names.
fn parse_units(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, BTreeMap<String, String>>) {
    let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    let blocks = text.split("\n\n").map(|block| block.lines().filter_map(pair).collect::<BTreeMap<_, _>>());
    let (mut manager, mut units) = (BTreeMap::new(), BTreeMap::new());
    for block in blocks {
        match block.get("Id").cloned() {
            Some(id) => {
                let aliases = block.get("Names").cloned().unwrap_or_default();
                units.extend(aliases.split_whitespace().map(|alias| (alias.to_owned(), block.clone())));
                units.insert(id, block);
            }
            None => manager.extend(block),
        }
    }
    (manager, units)
}

/// Returns the start of the available journal: later than that of the journal itself if the output was truncated.
fn find_journal_start(text: &str, oldest: &str, entries: &[SystemJournalEntry]) -> Option<Timestamp> {
    let oldest = journal::parse_first_time(oldest)?;
    let cut = entries.len() >= JOURNAL_ENTRIES || text.len() as u64 >= JOURNAL_CAP - 4096;
    match entries.first() {
        Some(first) if cut => Some(first.time.max(oldest)),
        _ => Some(oldest),
    }
}

fn parse_package_runs<'t>(text: &dyn Fn(&str) -> &'t str, zone: &TimeZone) -> Vec<PackageManagerRun> {
    let apt = apt::parse_history(text("apt"), zone);
    let mut runs = dpkg::exclude_apt_runs(dpkg::parse_log(text("dpkg"), zone), &apt);
    runs.extend(apt);
    runs.extend(dnf::parse_logs(text("dnf"), text("rpm")));
    runs.sort_by_key(|run| run.began);
    runs
}
