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

/// Commands that start a unit.
const START_VERBS: [&str; 7] =
    ["start", "restart", "reload-or-restart", "try-restart", "isolate", "force-start", "force-restart"];

/// Commands that stop a unit.
const STOP_VERBS: [&str; 4] = ["stop", "kill", "isolate", "force-stop"];

/// Commands that stop a unit and start it again.
const RESTART_VERBS: [&str; 4] = ["restart", "reload-or-restart", "try-restart", "force-restart"];

pub fn attribute_unit_change(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    match case.finding.mark.aspect {
        ChangeAspect::Enablement => attribute_enablement(case, unit),
        _ => attribute_state_change(case, unit),
    }
}

/// Reports whether a command names a unit, also by an alias.
fn mentions_unit(case: &AttributionContext<'_>, sudo: &SudoCommand, unit: &str) -> bool {
    let named = |unit: &str| sudo.has_token(unit) || sudo.has_token(unit.strip_suffix(".service").unwrap_or(unit));
    UNIT_MANAGERS.contains(&sudo.program()) && (named(unit) || case.seen.unit_names(unit).any(named))
}

fn attribute_enablement(case: &AttributionContext<'_>, unit: &str) -> ChangeSource {
    let verbs: &[&str] = match case.finding.observed.as_ref().map(|seen| seen.raw()) {
        Some("enabled") => &["enable", "reenable", "unmask", "preset"],
        Some("masked") => &["mask"],
        _ => &["disable", "mask", "preset"],
    };
    let named = |sudo: &&SudoCommand| mentions_unit(case, sudo, unit) && verbs.iter().any(|verb| sudo.has_token(verb));
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
    let change = UnitStateChange { unit, time, asked, is_active, said };
    let named: Vec<&SudoCommand> = case.recent_sudo_commands().filter(|sudo| change.is_due_to(case, sudo)).collect();
    if let Some(sudo) = named.first() {
        let sure = if is_single_user(&named) { AttributionCertainty::Named } else { AttributionCertainty::Near };
        return ChangeSource::from_sudo(sure, sudo, change.cause_time(case, sudo));
    }
    match change.find_own_end() {
        Some(entry) => attribute_process_exit(case, unit, entry),
        None => attribute_concurrent_change(case, &change),
    }
}

/// A unit that stopped or started, with systemd's entries about it.
struct UnitStateChange<'c> {
    unit: &'c str,
    time: Timestamp,
    /// When the job began.
    asked: Timestamp,
    /// Whether it runs now.
    is_active: bool,
    said: Vec<&'c SystemJournalEntry>,
}

impl UnitStateChange<'_> {
    fn has_job(&self) -> bool {
        self.said.iter().any(|entry| !entry.job.is_empty())
    }

    /// Reports whether a command requested the change: it names the unit, ran then, and leads to the observed state.
    fn is_due_to(&self, case: &AttributionContext<'_>, sudo: &SudoCommand) -> bool {
        if !mentions_unit(case, sudo, self.unit) {
            return false;
        }
        let covers = sudo.covers_time(self.time) || sudo.covers_time(self.asked);
        let leads = match self.is_active {
            true => has_verb(sudo, &START_VERBS) || has_verb(sudo, &["enable"]) && sudo.has_token("--now"),
            // A process that was killed left no job: then no stop was requested.
            false => stops_unit(sudo) && (self.has_job() || self.said.is_empty() || has_verb(sudo, &["kill"])),
        };
        leads && covers || !self.is_active && self.failed_restart(case, sudo).is_some()
    }

    /// Returns when a restart stopped the unit without starting it again, if the command requested it.
    fn failed_restart(&self, case: &AttributionContext<'_>, sudo: &SudoCommand) -> Option<Timestamp> {
        if !has_verb(sudo, &RESTART_VERBS) {
            return None;
        }
        let before = |entry: &&SystemJournalEntry| entry.time <= clock::add_seconds(self.time, 1);
        let jobs: Vec<&SystemJournalEntry> =
            entries_of_unit(case, self.unit).filter(before).filter(|entry| !entry.job.is_empty()).collect();
        let at = jobs.iter().rposition(|entry| entry.job == "restart")?;
        let goes_on = |entry: &&SystemJournalEntry| entry.job == "start" && entry.result != "done";
        let begins = jobs[..=at].iter().rposition(|entry| entry.job != "restart").map_or(0, |before| before + 1);
        let first = jobs[begins].time;
        (jobs[at + 1..].iter().all(goes_on) && sudo.covers_time(first)).then_some(first)
    }

    fn cause_time(&self, case: &AttributionContext<'_>, sudo: &SudoCommand) -> Timestamp {
        let restart = if self.is_active { None } else { self.failed_restart(case, sudo) };
        restart.unwrap_or(self.asked)
    }

    /// Returns systemd's entry about the end of the process, if no job ended it.
    fn find_own_end(&self) -> Option<&SystemJournalEntry> {
        if self.has_job() || self.is_active {
            return None;
        }
        let exit = self.said.iter().find(|entry| entry.message.contains("exited, code="));
        // A process that ends with success leaves this entry only.
        exit.or_else(|| self.said.iter().rfind(|entry| entry.message.contains("Deactivated successfully"))).copied()
    }

    /// Reports whether a command about the unit is known to lead to the other state.
    fn is_opposite(&self, case: &AttributionContext<'_>, sudo: &SudoCommand) -> bool {
        mentions_unit(case, sudo, self.unit) && sudo.program() == "systemctl" && !self.is_due_to(case, sudo)
    }
}

fn has_verb(sudo: &SudoCommand, verbs: &[&str]) -> bool {
    verbs.iter().any(|verb| sudo.has_token(verb))
}

/// Reports whether a command stops units. `disable` and `mask` do so only with `--now`.
fn stops_unit(sudo: &SudoCommand) -> bool {
    has_verb(sudo, &STOP_VERBS) || has_verb(sudo, &["disable", "mask"]) && sudo.has_token("--now")
}

/// Returns systemd's entries about a unit, under its own name.
fn entries_of_unit<'c>(case: &'c AttributionContext<'_>, unit: &str) -> impl Iterator<Item = &'c SystemJournalEntry> {
    let id = case.seen.unit_property(unit, "Id").unwrap_or(unit).to_owned();
    case.seen.entries.iter().filter(move |entry| entry.pid == "1" && entry.uid == "0" && entry.unit == id)
}

/// Returns when a unit stopped, from the journal: systemd forgets inactive units that nothing refers to.
fn find_stop_time(case: &AttributionContext<'_>, unit: &str) -> Option<Timestamp> {
    let ends = |entry: &SystemJournalEntry| {
        entry.job == "stop"
            || ["Deactivated", "exited, code=", "Failed with"].iter().any(|end| entry.message.contains(end))
    };
    let ended = entries_of_unit(case, unit).filter(|entry| entry.boot == case.seen.boot && ends(entry)).last();
    ended.map(|entry| entry.time).filter(|time| *time >= case.since)
}

/// Returns systemd's entries about a state change of a unit, including the start of a slow stop.
fn list_unit_entries<'c>(
    case: &'c AttributionContext<'_>,
    unit: &str,
    time: Timestamp,
    started: bool,
) -> Vec<&'c SystemJournalEntry> {
    let jobs: &[&str] = if started { &["start", "restart"] } else { &["stop", "restart"] };
    let fits = |entry: &&SystemJournalEntry| entry.job.is_empty() || jobs.contains(&entry.job.as_str());
    let near = |entry: &&SystemJournalEntry| case.since <= entry.time && entry.time <= clock::add_seconds(time, 1);
    let all: Vec<&SystemJournalEntry> = entries_of_unit(case, unit).filter(near).collect();
    // Entries before the previous opposite change belong to that one.
    let last = if started { "stop" } else { "start" };
    let from = all.iter().rposition(|entry| entry.job == last).map_or(0, |at| find_job_start(&all, at) + 1);
    all[from..].iter().copied().filter(fits).collect()
}

/// Returns the position of the first entry of a job. A oneshot ends before its start job does.
fn find_job_start(all: &[&SystemJournalEntry], at: usize) -> usize {
    let job = &all[at].job;
    let before = all[..at].iter().rposition(|entry| !entry.job.is_empty());
    before
        .filter(|before| !all[at].result.is_empty() && all[*before].job == *job && all[*before].result.is_empty())
        .unwrap_or(at)
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

/// Handles a process that ended without a systemd job. No log records the sender of a signal, and for systemd a process
/// that SIGTERM ended was deactivated successfully.
fn attribute_process_exit(case: &AttributionContext<'_>, unit: &str, entry: &SystemJournalEntry) -> ChangeSource {
    let killers = ["kill", "pkill", "killall", "skill", "fuser"];
    let by = |sudo: &&SudoCommand| killers.contains(&sudo.program()) && sudo.covers_time(entry.time);
    match case.recent_sudo_commands().find(by).filter(|_| !entry.message.contains("code=exited")) {
        Some(sudo) => ChangeSource::from_sudo(AttributionCertainty::Near, sudo, entry.time),
        None => ChangeSource {
            program: Some(unit.into()),
            command: Some(describe_end(entry).into()),
            time: Some(clock::format_time(entry.time)),
            source: Some(JOURNAL_SOURCE.into()),
            ..ChangeSource::with_certainty(AttributionCertainty::Named)
        },
    }
}

/// Returns systemd's message without the name of the unit.
fn describe_end(entry: &SystemJournalEntry) -> &str {
    let message = entry.message.strip_prefix(entry.unit.as_str()).unwrap_or(&entry.message);
    message.trim_start_matches([':', ' ']).trim_end_matches('.')
}

fn attribute_concurrent_change(case: &AttributionContext<'_>, change: &UnitStateChange<'_>) -> ChangeSource {
    let time = change.asked;
    if let Some(run) = case.recent_package_runs().find(|run| run.covers_time(time)) {
        let culprit = case.attribute_to_run(run, time);
        return match culprit.sure {
            AttributionCertainty::Named => ChangeSource { sure: AttributionCertainty::Near, ..culprit },
            _ => culprit,
        };
    }
    match case.recent_sudo_commands().find(|sudo| sudo.covers_time(time) && !change.is_opposite(case, sudo)) {
        Some(sudo) => ChangeSource::from_sudo(AttributionCertainty::Near, sudo, time),
        None => {
            case.without_match_at("systemd received a request, but the journal does not show from whom", Some(time))
        }
    }
}
