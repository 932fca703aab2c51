//! Attributes a reboot, from the last journal entries of the previous boot.

use super::clock;
use super::journal::SystemJournalEntry;
use super::judge::{AttributionContext, JOURNAL, one_user};
use super::model::{AttributionCertainty, ChangeSource};
use super::sudo::SudoCommand;
use jiff::Timestamp;

/// Maximum time between a reboot command and the next boot, in seconds.
const LEAD: i64 = 900;

/// Returns who rebooted the host since the last match; `None` if there was no reboot.
pub fn reboot(case: &AttributionContext<'_>) -> Option<ChangeSource> {
    let booted = case.seen.booted.filter(|booted| *booted > case.since)?;
    let recent = |time: Timestamp| clock::after(time, LEAD) >= booted && time <= clock::after(booted, 1);
    let before: Vec<&SystemJournalEntry> =
        case.seen.entries.iter().filter(|entry| entry.boot != case.seen.boot).collect();
    let asked: Vec<&SudoCommand> = case
        .seen
        .sudo
        .iter()
        .rev()
        .filter(|sudo| sudo.boot != case.seen.boot && recent(sudo.began) && asks(sudo))
        .collect();
    if let Some(sudo) = asked.first() {
        let sure = if one_user(&asked) { AttributionCertainty::Named } else { AttributionCertainty::Near };
        return Some(ChangeSource::by_sudo(sure, sudo, sudo.began));
    }
    let by_itself = case.seen.unattended_reboots().into_iter().rfind(|time| recent(*time));
    if let Some(time) = by_itself {
        return Some(ChangeSource {
            user: Some("root".into()),
            program: Some("unattended-upgrades".into()),
            command: Some("reboot".into()),
            time: Some(clock::told(time)),
            source: Some("/var/log/unattended-upgrades/unattended-upgrades.log".into()),
            ..ChangeSource::blank(AttributionCertainty::Named)
        });
    }
    Some(silent(case, booted, &before))
}

/// Reports whether a command ends a boot.
fn asks(sudo: &SudoCommand) -> bool {
    const PROGRAMS: [&str; 6] = ["reboot", "shutdown", "poweroff", "halt", "kexec", "telinit"];
    const VERBS: [&str; 6] = ["reboot", "poweroff", "halt", "kexec", "soft-reboot", "emergency"];
    PROGRAMS.contains(&sudo.program())
        || sudo.program() == "init" && ["0", "6"].iter().any(|level| sudo.says(level))
        || sudo.program() == "systemctl" && VERBS.iter().any(|verb| sudo.says(verb))
        || ["sh", "bash", "dash"].contains(&sudo.program()) && PROGRAMS.iter().any(|program| sudo.says(program))
}

/// Returns the result for a reboot without a named user: an orderly shutdown, a crash, or no journal of that boot.
fn silent(case: &AttributionContext<'_>, booted: Timestamp, before: &[&SystemJournalEntry]) -> ChangeSource {
    let kept = case.seen.lacks("journal").is_none()
        && case.seen.journal_since.is_some_and(|since| since < clock::after(booted, -1));
    let last = before.last().map(|entry| entry.boot.as_str());
    let of_last = || before.iter().filter(|entry| Some(entry.boot.as_str()) == last);
    let orderly = of_last().any(|entry| is_ending(entry));
    let culprit = match (kept, orderly) {
        (false, _) => {
            ChangeSource::unknown("the host was rebooted, and the journal has no entries of the previous boot")
        }
        (true, true) => ChangeSource::nobody("the host was shut down in order, and the journal does not show by whom"),
        (true, false) => ChangeSource::nobody("the previous boot ended without a shutdown: crash, reset or power loss"),
    };
    ChangeSource { time: Some(clock::told(booted)), source: Some(JOURNAL.into()), ..culprit }
}

fn is_ending(entry: &SystemJournalEntry) -> bool {
    let by_systemd = entry.pid == "1" && entry.uid == "0" && entry.unit.ends_with(".target");
    let by_logind = entry.comm == "systemd-logind" && entry.uid == "0" && entry.message.starts_with("System is ");
    by_systemd || by_logind
}
