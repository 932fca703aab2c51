//! Attributes changes of accounts, from the entries of the programs that change them.

use super::clock;
use super::context::AttributionContext;
use super::journal::SystemJournalEntry;
use super::model::{AttributionCertainty, ChangeSource, JOURNAL_SOURCE};

/// Programs that change accounts.
pub(super) const ACCOUNT_PROGRAMS: [&str; 17] = [
    "adduser", "addgroup", "bash", "chage", "chfn", "chsh", "deluser", "delgroup", "gpasswd", "groupadd", "groupdel",
    "groupmod", "passwd", "sh", "useradd", "userdel", "usermod",
];

/// Those of them that remove accounts.
pub(super) const REMOVAL_PROGRAMS: [&str; 4] = ["userdel", "deluser", "groupdel", "delgroup"];

/// Returns the source by the latest entry about an account, first by one with the observed value. `None` if there is no
/// entry. A command that ran with sudo at that time may have called the program.
pub fn attribute_account_change(case: &AttributionContext<'_>, name: &str) -> Option<ChangeSource> {
    let about = |entry: &&SystemJournalEntry| entry.time >= case.since && is_entry_about(entry, name);
    let observed = case.finding.observed.as_ref().map(|seen| seen.raw());
    let entries = || case.seen.entries.iter().rev().filter(about);
    let explains = |entry: &&SystemJournalEntry| leads_to_value(entry, observed);
    let (entry, sure) = match entries().find(explains) {
        Some(entry) => (entry, AttributionCertainty::Named),
        None => (entries().next()?, AttributionCertainty::Near),
    };
    if let Some(run) = case.recent_package_runs().find(|run| run.covers_time(entry.time)) {
        let culprit = case.attribute_to_run(run, entry.time);
        return Some(match culprit.sure {
            AttributionCertainty::Named => ChangeSource { sure: AttributionCertainty::Near, ..culprit },
            _ => culprit,
        });
    }
    if let Some(sudo) = case.recent_sudo_commands().find(|sudo| sudo.covers_time(entry.time)) {
        return Some(ChangeSource::from_sudo(AttributionCertainty::Near, sudo, entry.time));
    }
    Some(ChangeSource {
        user: Some("root".into()),
        program: Some(entry.identifier.as_str().into()),
        command: Some(entry.message.as_str().into()),
        time: Some(clock::format_time(entry.time)),
        source: Some(JOURNAL_SOURCE.into()),
        ..ChangeSource::with_certainty(sure)
    })
}

/// Reports whether root ran such a program on an account. The kernel records the user ID; the program's own name is
/// missing if it ended before the journal looked.
fn is_entry_about(entry: &SystemJournalEntry, name: &str) -> bool {
    let genuine = entry.uid == "0" && (entry.comm.is_empty() || entry.comm == entry.identifier);
    genuine
        && ACCOUNT_PROGRAMS.contains(&entry.identifier.as_str())
        && split_message(&entry.message).any(|word| word == name)
}

/// Reports whether an entry tells of a change to the observed value; `None` if the account is gone. Messages about a
/// change have the new value last: `change user 'bob' UID from '3001' to '4001'`.
fn leads_to_value(entry: &SystemJournalEntry, observed: Option<&str>) -> bool {
    let removal = REMOVAL_PROGRAMS.contains(&entry.identifier.as_str());
    let news = entry.message.rsplit_once(" to '").map_or(entry.message.as_str(), |(_, value)| value);
    match observed {
        Some(value) => !removal && split_message(news).any(|word| word == value),
        None => removal,
    }
}

fn split_message(message: &str) -> impl Iterator<Item = &str> {
    let quoted = message.split(|c: char| c.is_whitespace() || "'\",()=:".contains(c));
    // `web/990` has a group and its ID; a path has no name before its first slash.
    quoted.flat_map(|word| [word, word.split('/').next().unwrap_or_default()]).filter(|word| !word.is_empty())
}
