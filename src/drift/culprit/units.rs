//! Attributes changes of units, from systemd's entries and sudo commands at that time.

use super::boots;
use super::clock;
use super::journal::SystemJournalEntry;
use super::judge::{AttributionContext, JOURNAL, one_user};
use super::model::{AttributionCertainty, ChangeSource};
use super::sudo::SudoCommand;
use jiff::Timestamp;

/// Programs with which users control systemd.
const MANAGERS: [&str; 6] = ["systemctl", "service", "invoke-rc.d", "sh", "bash", "dash"];

/// Commands that start or stop a unit.
const VERBS: [&str; 12] = [
    "stop",
    "start",
    "restart",
    "kill",
    "reload-or-restart",
    "try-restart",
    "isolate",
    "disable",
    "mask",
    "enable",
    "force-stop",
    "force-restart",
];

pub fn judge(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    match case.finding.attribute.as_deref().and_then(|attribute| attribute.rsplit(' ').next()) {
        Some("enabled" | "mask") => configured(case, unit),
        _ => moved(case, unit),
    }
}

/// Reports whether a command names a unit.
fn names(sudo: &SudoCommand, unit: &str) -> bool {
    let short = unit.strip_suffix(".service").unwrap_or(unit);
    MANAGERS.contains(&sudo.program()) && (sudo.says(unit) || sudo.says(short))
}

fn configured(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    let verbs: &[&str] = match case.finding.observed.as_ref().map(|seen| seen.raw()) {
        Some("enabled") => &["enable", "reenable", "unmask", "preset"],
        Some("masked") => &["mask"],
        _ => &["disable", "mask", "preset"],
    };
    let named = |sudo: &&SudoCommand| names(sudo, unit) && verbs.iter().any(|verb| sudo.says(verb));
    match case.sudo().find(named) {
        Some(sudo) => ChangeSource::by_sudo(AttributionCertainty::Named, sudo, sudo.began),
        None => case.nobody("no command in the journal refers to it", None),
    }
}

/// Returns who stopped the unit, or started it although it should not run.
fn moved(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    let is_active = case.seen.unit(unit, "ActiveState") == Some("active");
    let key = if is_active { "InactiveExitTimestamp" } else { "InactiveEnterTimestamp" };
    let time = case.seen.unit_time(unit, key).filter(|time| *time >= case.since);
    let time = time.or_else(|| if is_active { None } else { stopped(case, unit) });
    let Some(time) = time else { return never(case, is_active) };
    let said: Vec<&SystemJournalEntry> = said(case, unit, time, is_active);
    // A stop may take long: the command ran when it began.
    let asked = said.iter().find(|entry| !entry.job.is_empty()).map_or(time, |entry| entry.time);
    let covers = |sudo: &SudoCommand| sudo.covers(time) || sudo.covers(asked);
    let tells = |sudo: &&SudoCommand| names(sudo, unit) && VERBS.iter().any(|verb| sudo.says(verb)) && covers(sudo);
    let named: Vec<&SudoCommand> = case.sudo().filter(tells).collect();
    if let Some(sudo) = named.first() {
        let sure = if one_user(&named) { AttributionCertainty::Named } else { AttributionCertainty::Near };
        return ChangeSource::by_sudo(sure, sudo, asked);
    }
    let job = said.iter().any(|entry| entry.job == "stop" || entry.job == "restart" || entry.job == "start");
    let by_itself = said.iter().find(|entry| entry.message.contains("exited, code=")).filter(|_| !job);
    match by_itself {
        Some(entry) => died(case, unit, entry),
        None => around(case, asked),
    }
}

/// Returns when a unit stopped, from the journal: systemd forgets inactive units that nothing refers to.
fn stopped(case: &AttributionContext<'_>, unit: &str) -> Option<Timestamp> {
    let ends = |entry: &SystemJournalEntry| {
        entry.job == "stop"
            || ["Deactivated", "exited, code=", "Failed with"].iter().any(|end| entry.message.contains(end))
    };
    let of_unit = |entry: &&SystemJournalEntry| {
        entry.pid == "1" && entry.uid == "0" && entry.unit == unit && entry.boot == case.seen.boot
    };
    case.seen
        .entries
        .iter()
        .rev()
        .filter(of_unit)
        .find(|entry| ends(entry))
        .map(|entry| entry.time)
        .filter(|time| *time >= case.since)
}

/// Returns systemd's entries about a state change of a unit, including the start of a slow stop.
fn said<'c>(
    case: &'c AttributionContext<'_>,
    unit: &str,
    time: Timestamp,
    started: bool,
) -> Vec<&'c SystemJournalEntry> {
    let jobs: &[&str] = if started { &["start", "restart"] } else { &["stop", "restart"] };
    let of_unit = |entry: &&SystemJournalEntry| {
        entry.pid == "1" && entry.uid == "0" && entry.unit == unit && entry.time >= case.since
    };
    let fits = |entry: &&SystemJournalEntry| entry.job.is_empty() || jobs.contains(&entry.job.as_str());
    let before = case.seen.entries.iter().filter(of_unit).filter(|entry| entry.time <= clock::after(time, 1));
    let all: Vec<&SystemJournalEntry> = before.collect();
    // Entries before the previous opposite change belong to that one.
    let last = if started { "stop" } else { "start" };
    let from = all.iter().rposition(|entry| entry.job == last).map_or(0, |at| at + 1);
    all[from..].iter().copied().filter(fits).collect()
}

/// Handles a unit without a state change in this boot: it was never started, so the reboot stopped it.
fn never(case: &AttributionContext<'_>, is_active: bool) -> ChangeSource {
    match boots::reboot(case).filter(|_| !is_active) {
        Some(boot) => boot,
        None => case.nobody("its state has not changed since it was applied", None),
    }
}

/// Handles a process that ended without a systemd job. No log records the sender of a signal.
fn died(case: &AttributionContext<'_>, unit: &str, entry: &SystemJournalEntry) -> ChangeSource {
    let killers = ["kill", "pkill", "killall", "skill", "fuser"];
    let by = |sudo: &&SudoCommand| killers.contains(&sudo.program()) && sudo.covers(entry.time);
    match case.sudo().find(by).filter(|_| entry.message.contains("code=killed")) {
        Some(sudo) => ChangeSource::by_sudo(AttributionCertainty::Near, sudo, entry.time),
        None => ChangeSource {
            program: Some(unit.into()),
            command: Some(
                entry.message.strip_prefix(unit).unwrap_or(&entry.message).trim_start_matches([':', ' ']).into(),
            ),
            time: Some(clock::told(entry.time)),
            source: Some(JOURNAL.into()),
            ..ChangeSource::blank(AttributionCertainty::Named)
        },
    }
}

fn around(case: &AttributionContext<'_>, time: Timestamp) -> ChangeSource {
    if let Some(run) = case.runs().find(|run| run.covers(time)) {
        let culprit = case.by_run(run, time);
        return match culprit.sure {
            AttributionCertainty::Named => ChangeSource { sure: AttributionCertainty::Near, ..culprit },
            _ => culprit,
        };
    }
    match case.sudo().find(|sudo| sudo.covers(time)) {
        Some(sudo) => ChangeSource::by_sudo(AttributionCertainty::Near, sudo, time),
        None => case.nobody("systemd received a request, but the journal does not show from whom", Some(time)),
    }
}
