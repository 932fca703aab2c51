//! Attributes a reboot, from the last journal entries of the previous boot.

use super::clock;
use super::context::{AttributionContext, is_single_user};
use super::journal::SystemJournalEntry;
use super::model::{AttributionCertainty, ChangeSource, JOURNAL_SOURCE};
use super::sudo::SudoCommand;
use jiff::Timestamp;

/// Maximum time between a reboot command and the next boot, in seconds.
const SHUTDOWN_LEAD_S: i64 = 900;

/// Returns who rebooted the host since the last match; `None` if there was no reboot.
pub fn attribute_reboot(case: &AttributionContext<'_>) -> Option<ChangeSource> {
    let booted = case.seen.booted.filter(|booted| *booted > case.since)?;
    let recent =
        |time: Timestamp| clock::add_seconds(time, SHUTDOWN_LEAD_S) >= booted && time <= clock::add_seconds(booted, 1);
    let before: Vec<&SystemJournalEntry> =
        case.seen.entries.iter().filter(|entry| entry.boot != case.seen.boot).collect();
    let asked: Vec<&SudoCommand> = case
        .seen
        .sudo
        .iter()
        .rev()
        .filter(|sudo| sudo.boot != case.seen.boot && recent(sudo.began) && is_reboot_command(sudo))
        .collect();
    if let Some(sudo) = asked.first() {
        let sure = if is_single_user(&asked) { AttributionCertainty::Named } else { AttributionCertainty::Near };
        return Some(ChangeSource::from_sudo(sure, sudo, sudo.began));
    }
    let by_itself = case.seen.unattended_reboots().into_iter().rfind(|time| recent(*time));
    if let Some(time) = by_itself {
        return Some(ChangeSource {
            user: Some("root".into()),
            program: Some("unattended-upgrades".into()),
            command: Some("reboot".into()),
            time: Some(clock::format_time(time)),
            source: Some("/var/log/unattended-upgrades/unattended-upgrades.log".into()),
            ..ChangeSource::with_certainty(AttributionCertainty::Named)
        });
    }
    Some(attribute_unexplained_reboot(case, booted, &before))
}

/// Reports whether a command ends a boot.
fn is_reboot_command(sudo: &SudoCommand) -> bool {
    const PROGRAMS: [&str; 6] = ["reboot", "shutdown", "poweroff", "halt", "kexec", "telinit"];
    const VERBS: [&str; 6] = ["reboot", "poweroff", "halt", "kexec", "soft-reboot", "emergency"];
    PROGRAMS.contains(&sudo.program())
        || sudo.program() == "init" && ["0", "6"].iter().any(|level| sudo.has_token(level))
        || sudo.program() == "systemctl" && VERBS.iter().any(|verb| sudo.has_token(verb))
        || ["sh", "bash", "dash"].contains(&sudo.program()) && PROGRAMS.iter().any(|program| sudo.has_token(program))
}

/// Returns the result for a reboot without a named user: an orderly shutdown, a crash, or no journal of that boot.
fn attribute_unexplained_reboot(
    case: &AttributionContext<'_>,
    booted: Timestamp,
    before: &[&SystemJournalEntry],
) -> ChangeSource {
    let kept = case.seen.missing_reason("journal").is_none()
        && case.seen.journal_since.is_some_and(|since| since < clock::add_seconds(booted, -1));
    let last = before.last().map(|entry| entry.boot.as_str());
    let of_last = || before.iter().filter(|entry| Some(entry.boot.as_str()) == last);
    let orderly = of_last().any(|entry| is_shutdown_entry(entry));
    let culprit = match (kept, orderly) {
        (false, _) => {
            ChangeSource::without_evidence("the host was rebooted, and the journal has no entries of the previous boot")
        }
        (true, true) => ChangeSource::without_match(
            "the host was shut down in order, and the journal does not show which user did it",
        ),
        (true, false) => {
            ChangeSource::without_match("the previous boot ended without a shutdown: crash, reset or power loss")
        }
    };
    ChangeSource { time: Some(clock::format_time(booted)), source: Some(JOURNAL_SOURCE.into()), ..culprit }
}

fn is_shutdown_entry(entry: &SystemJournalEntry) -> bool {
    let by_systemd = entry.pid == "1" && entry.uid == "0" && entry.unit.ends_with(".target");
    let by_logind = entry.comm == "systemd-logind" && entry.uid == "0" && entry.message.starts_with("System is ");
    by_systemd || by_logind
}
