//! Attributes changes of units, from systemd's entries and sudo commands at that time.

use super::context::{AttributionContext, is_single_user};
use super::journal::SystemJournalEntry;
use super::model::{AttributionCertainty, ChangeSource, JOURNAL_SOURCE};
use super::sudo::SudoCommand;
use super::{boots, clock};
use crate::resource::ChangeAspect;
use jiff::Timestamp;

/// Programs with which users control systemd.
const UNIT_MANAGERS: [&str; 6] = ["systemctl", "service", "invoke-rc.d", "sh", "bash", "dash"];

/// Commands that start or stop a unit.
const STATE_VERBS: [&str; 12] = [
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

pub fn attribute_unit_change(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    match case.finding.mark.aspect {
        ChangeAspect::Enablement => attribute_enablement(case, unit),
        _ => attribute_state_change(case, unit),
    }
}

/// Reports whether a command names a unit.
fn mentions_unit(sudo: &SudoCommand, unit: &str) -> bool {
    let short = unit.strip_suffix(".service").unwrap_or(unit);
    UNIT_MANAGERS.contains(&sudo.program()) && (sudo.has_token(unit) || sudo.has_token(short))
}

fn attribute_enablement(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    let verbs: &[&str] = match case.finding.observed.as_ref().map(|seen| seen.raw()) {
        Some("enabled") => &["enable", "reenable", "unmask", "preset"],
        Some("masked") => &["mask"],
        _ => &["disable", "mask", "preset"],
    };
    let named = |sudo: &&SudoCommand| mentions_unit(sudo, unit) && verbs.iter().any(|verb| sudo.has_token(verb));
    match case.recent_sudo_commands().find(named) {
        Some(sudo) => ChangeSource::from_sudo(AttributionCertainty::Named, sudo, sudo.began),
        None => case.without_match_at("no command in the journal refers to it", None),
    }
}

/// Returns who stopped the unit, or started it although it should not run.
fn attribute_state_change(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    let is_active = case.seen.unit_property(unit, "ActiveState") == Some("active");
    let key = if is_active { "InactiveExitTimestamp" } else { "InactiveEnterTimestamp" };
    let time = case.seen.unit_time(unit, key).filter(|time| *time >= case.since);
    let time = time.or_else(|| if is_active { None } else { find_stop_time(case, unit) });
    let Some(time) = time else { return attribute_unmoved_unit(case, unit, is_active) };
    let said: Vec<&SystemJournalEntry> = list_unit_entries(case, unit, time, is_active);
    // A stop may take long: the command ran when it began.
    let asked = said.iter().find(|entry| !entry.job.is_empty()).map_or(time, |entry| entry.time);
    let covers = |sudo: &SudoCommand| sudo.covers_time(time) || sudo.covers_time(asked);
    let tells = |sudo: &&SudoCommand| {
        mentions_unit(sudo, unit) && STATE_VERBS.iter().any(|verb| sudo.has_token(verb)) && covers(sudo)
    };
    let named: Vec<&SudoCommand> = case.recent_sudo_commands().filter(tells).collect();
    if let Some(sudo) = named.first() {
        let sure = if is_single_user(&named) { AttributionCertainty::Named } else { AttributionCertainty::Near };
        return ChangeSource::from_sudo(sure, sudo, asked);
    }
    let job = said.iter().any(|entry| entry.job == "stop" || entry.job == "restart" || entry.job == "start");
    let by_itself = said.iter().find(|entry| entry.message.contains("exited, code=")).filter(|_| !job);
    match by_itself {
        Some(entry) => attribute_process_exit(case, unit, entry),
        None => attribute_concurrent_change(case, asked),
    }
}

/// Returns when a unit stopped, from the journal: systemd forgets inactive units that nothing refers to.
fn find_stop_time(case: &AttributionContext<'_>, unit: &str) -> Option<Timestamp> {
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
fn list_unit_entries<'c>(
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
    let before = case.seen.entries.iter().filter(of_unit).filter(|entry| entry.time <= clock::add_seconds(time, 1));
    let all: Vec<&SystemJournalEntry> = before.collect();
    // Entries before the previous opposite change belong to that one.
    let last = if started { "stop" } else { "start" };
    let from = all.iter().rposition(|entry| entry.job == last).map_or(0, |at| at + 1);
    all[from..].iter().copied().filter(fits).collect()
}

/// Handles a unit without a state change in this boot: it was never started, so the reboot stopped it.
fn attribute_unmoved_unit(case: &AttributionContext<'_>, unit: &str, is_active: bool) -> ChangeSource {
    match boots::attribute_reboot(case).filter(|_| !is_active) {
        Some(boot) => boot,
        // systemd forgets a stopped unit that nothing refers to, and its times with it.
        None if !is_active && case.seen.unit_property(unit, "InactiveEnterTimestamp").is_none() => {
            case.without_match_at("systemd no longer knows when it stopped, and the journal does not show it", None)
        }
        None => case.without_match_at("its state has not changed since it was applied", None),
    }
}

/// Handles a process that ended without a systemd job. No log records the sender of a signal.
fn attribute_process_exit(case: &AttributionContext<'_>, unit: &str, entry: &SystemJournalEntry) -> ChangeSource {
    let killers = ["kill", "pkill", "killall", "skill", "fuser"];
    let by = |sudo: &&SudoCommand| killers.contains(&sudo.program()) && sudo.covers_time(entry.time);
    match case.recent_sudo_commands().find(by).filter(|_| entry.message.contains("code=killed")) {
        Some(sudo) => ChangeSource::from_sudo(AttributionCertainty::Near, sudo, entry.time),
        None => ChangeSource {
            program: Some(unit.into()),
            command: Some(
                entry.message.strip_prefix(unit).unwrap_or(&entry.message).trim_start_matches([':', ' ']).into(),
            ),
            time: Some(clock::format_time(entry.time)),
            source: Some(JOURNAL_SOURCE.into()),
            ..ChangeSource::with_certainty(AttributionCertainty::Named)
        },
    }
}

fn attribute_concurrent_change(case: &AttributionContext<'_>, time: Timestamp) -> ChangeSource {
    if let Some(run) = case.recent_package_runs().find(|run| run.covers_time(time)) {
        let culprit = case.attribute_to_run(run, time);
        return match culprit.sure {
            AttributionCertainty::Named => ChangeSource { sure: AttributionCertainty::Near, ..culprit },
            _ => culprit,
        };
    }
    match case.recent_sudo_commands().find(|sudo| sudo.covers_time(time)) {
        Some(sudo) => ChangeSource::from_sudo(AttributionCertainty::Near, sudo, time),
        None => {
            case.without_match_at("systemd received a request, but the journal does not show from whom", Some(time))
        }
    }
}
