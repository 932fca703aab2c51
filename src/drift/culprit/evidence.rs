//! All that a host's logs say, read: who ran what, what packages became, when units and files changed.

use super::journal::{self, Entry};
use super::packages::Run;
use super::sudo::{self, Sudo};
use super::{apt, clock, dnf, dpkg};
use crate::probe::{EvidenceState, JOURNAL_CAP, JOURNAL_ENTRIES};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// What one host's evidence comes to.
pub struct Evidence<'e> {
    state: &'e EvidenceState,
    /// The host's clock.
    pub now: Option<Timestamp>,
    /// When this boot began.
    pub booted: Option<Timestamp>,
    /// This boot, without hyphens.
    pub boot: String,
    /// From when on the journal was read. `None` where it was not.
    pub journal_since: Option<Timestamp>,
    pub entries: Vec<Entry>,
    pub sudo: Vec<Sudo>,
    /// Of every package manager, oldest first.
    pub packages: Vec<Run>,
    /// By name: what `systemctl show` says.
    units: BTreeMap<String, BTreeMap<String, String>>,
    zone: TimeZone,
}

/// When a file was changed, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// Whether it is there. Otherwise the times are those of the nearest folder that is.
    pub there: bool,
    pub modified: Timestamp,
    pub changed: Timestamp,
    pub owner: String,
    pub uid: u32,
}

impl<'e> Evidence<'e> {
    pub fn of(state: &'e EvidenceState) -> Self {
        let text = |name: &str| state.parts.get(name).map_or("", |part| part.text.raw());
        let zone = clock::zone(text("zone"));
        let entries = journal::parse(text("journal"));
        let users = users(text("users"));
        let (manager, units) = units(text("units"));
        let stamp = |key: &str| manager.get(key).and_then(|time| clock::of_systemd(time));
        Self {
            state,
            now: clock::epoch(text("now")),
            booted: stamp("UserspaceTimestamp"),
            boot: text("boot").trim().replace('-', ""),
            journal_since: journal_since(text("journal"), text("oldest"), &entries),
            sudo: sudo::parse(&entries, &users),
            packages: packages(&text, &zone),
            entries,
            units,
            zone,
        }
    }

    /// Returns why evidence of that kind was not read; `None` where it was.
    pub fn lacks(&self, part: &str) -> Option<&str> {
        match self.state.parts.get(part) {
            None => Some("was not read in time"),
            Some(part) => Some(part.lack.as_str()).filter(|lack| !lack.is_empty()),
        }
    }

    /// Returns the account that looked, where it is not root: most logs are not for everybody.
    pub fn account(&self) -> Option<&str> {
        self.state.parts.get("account").map(|part| part.text.raw()).filter(|name| !name.is_empty())
    }

    /// Returns a time that systemd tells of a unit: `InactiveEnterTimestamp`.
    pub fn unit_time(&self, unit: &str, key: &str) -> Option<Timestamp> {
        clock::of_systemd(self.unit(unit, key)?)
    }

    pub fn unit(&self, unit: &str, key: &str) -> Option<&str> {
        self.units.get(unit)?.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns what stands at a path, or above it.
    pub fn sign(&self, path: &str) -> Option<Sign> {
        let part = |kind: &str| self.state.parts.get(&format!("{kind}:{path}")).map(|part| (kind == "file", part));
        let (there, part) = part("file").or_else(|| part("gone"))?;
        let mut words = part.text.raw().split_whitespace();
        let (modified, changed) = (clock::epoch(words.next()?)?, clock::epoch(words.next()?)?);
        let uid = words.next()?.parse().ok()?;
        Some(Sign { there, modified, changed, uid, owner: words.next()?.to_owned() })
    }

    /// Returns lines of unattended-upgrades' own log that speak of a reboot, with their times.
    pub fn unattended_reboots(&self) -> Vec<Timestamp> {
        let text = self.state.parts.get("unattended").map_or("", |part| part.text.raw());
        let asks = |line: &&str| {
            line.contains("rebooting") || line.contains("Rebooting") || line.contains("Shutdown scheduled")
        };
        // `2026-11-22 03:10:04,123 WARNING Found /var/run/reboot-required, rebooting`
        let time = |line: &str| clock::local(line.split_once(',')?.0, &self.zone);
        text.lines().filter(asks).filter_map(time).collect()
    }
}

fn users(text: &str) -> BTreeMap<String, String> {
    let one = |line: &str| line.split_once(':').map(|(name, uid)| (uid.to_owned(), name.to_owned()));
    text.lines().filter_map(one).collect()
}

/// Returns what systemd says of itself, and of each unit by name.
fn units(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, BTreeMap<String, String>>) {
    let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    let blocks = text.split("\n\n").map(|block| block.lines().filter_map(pair).collect::<BTreeMap<_, _>>());
    let (mut manager, mut units) = (BTreeMap::new(), BTreeMap::new());
    for block in blocks {
        match block.get("Id").cloned() {
            Some(id) => drop(units.insert(id, block)),
            None => manager.extend(block),
        }
    }
    (manager, units)
}

/// Where not all fitted, what was read begins later than the journal does.
fn journal_since(text: &str, oldest: &str, entries: &[Entry]) -> Option<Timestamp> {
    let oldest = journal::parse(oldest).first()?.time;
    let cut = entries.len() >= JOURNAL_ENTRIES || text.len() as u64 >= JOURNAL_CAP - 4096;
    match entries.first() {
        Some(first) if cut => Some(first.time.max(oldest)),
        _ => Some(oldest),
    }
}

fn packages<'t>(text: &dyn Fn(&str) -> &'t str, zone: &TimeZone) -> Vec<Run> {
    let apt = apt::parse(text("apt"), zone);
    let mut runs = dpkg::alone(dpkg::parse(text("dpkg"), zone), &apt);
    runs.extend(apt);
    runs.extend(dnf::parse(text("dnf"), text("rpm")));
    runs.sort_by_key(|run| run.began);
    runs
}
