//! Attributes changes of files, from sudo commands at the file's own timestamps.

use super::clock;
use super::context::{AttributionContext, is_single_user};
use super::evidence::FileTimestamps;
use super::model::{AttributionCertainty, ChangeSource};
use super::path_effects::PathEffect;
use super::sudo::SudoCommand;
use crate::resource::ChangeAspect;
use jiff::Timestamp;

/// Uids below this are system accounts.
const FIRST_USER_UID: u32 = 1000;

pub fn attribute_file_change(case: &AttributionContext<'_>, path: &str) -> ChangeSource {
    // If an object was observed but the usual path is empty, the finding is about another path.
    let is_seen = |sign: &FileTimestamps| sign.there || case.finding.observed.is_none();
    let Some(sign) = case.seen.file_timestamps(path).filter(is_seen) else {
        return case.without_match_at("the file at its path could not be read", None);
    };
    let times: Vec<Timestamp> =
        list_candidate_times(case, &sign).into_iter().filter(|time| *time >= case.since).collect();
    let Some(&first) = times.first() else {
        return ChangeSource::without_match("it was not modified since it was applied");
    };
    let explains = |sudo: &SudoCommand| {
        sudo.path_effects(path).iter().any(|effect| effect.explains(case.finding.mark.aspect, !sign.there))
    };
    for &time in &times {
        let named: Vec<&SudoCommand> =
            case.recent_sudo_commands().filter(|sudo| sudo.covers_time(time) && explains(sudo)).collect();
        if let Some(sudo) = named.first() {
            let sure = if is_single_user(&named) { AttributionCertainty::Named } else { AttributionCertainty::Near };
            return ChangeSource::from_sudo(sure, sudo, time);
        }
    }
    find_concurrent_change(case, path, &times)
        .or_else(|| attribute_to_owner(case, &sign, first))
        .unwrap_or_else(|| case.without_match_at(explain_missing_command(case, path), Some(first)))
}

/// Returns why no command explains the change.
fn explain_missing_command(case: &AttributionContext<'_>, path: &str) -> &'static str {
    let late = |sudo: &&SudoCommand| sudo.ended.unwrap_or(sudo.began) >= case.since;
    let mut about = case.seen.sudo.iter().filter(late).filter(|sudo| !sudo.path_effects(path).is_empty()).peekable();
    match (about.peek().is_some(), about.all(|sudo| reads_only(sudo, path))) {
        (false, _) => "no command in the journal refers to it",
        (true, true) => "the commands in the journal that refer to it only read it",
        (true, false) => "the commands in the journal that may have changed it ran at other times",
    }
}

/// Reports whether a command is known to read the path, and to do nothing else with it.
fn reads_only(sudo: &SudoCommand, path: &str) -> bool {
    sudo.path_effects(path).into_iter().eq([PathEffect::Reads])
}

/// Returns when the change may have happened: for content, the mtime, which any user can set; and the ctime, which no
/// user can set.
fn list_candidate_times(case: &AttributionContext<'_>, sign: &FileTimestamps) -> Vec<Timestamp> {
    let of_content =
        matches!(case.finding.mark.aspect, ChangeAspect::Whole | ChangeAspect::Existence | ChangeAspect::Content);
    match (sign.there, of_content && sign.modified <= sign.changed && sign.modified != sign.changed) {
        // A removal modifies the folder of the file.
        (false, _) => vec![sign.modified],
        (true, true) => vec![sign.modified, sign.changed],
        (true, false) => vec![sign.changed],
    }
}

/// Finds other events at that time: package runs, and sudo commands that are not known to write the file, unless they
/// only read it.
fn find_concurrent_change(case: &AttributionContext<'_>, path: &str, times: &[Timestamp]) -> Option<ChangeSource> {
    let at = |covers: &dyn Fn(Timestamp) -> bool| times.iter().copied().find(|time| covers(*time));
    let by_run = case.recent_package_runs().find_map(|run| Some((run, at(&|time| run.covers_time(time))?)));
    if let Some((run, time)) = by_run {
        let culprit = case.attribute_to_run(run, time);
        return Some(match culprit.sure {
            AttributionCertainty::Named => ChangeSource { sure: AttributionCertainty::Near, ..culprit },
            _ => culprit,
        });
    }
    let mut others = case.recent_sudo_commands().filter(|sudo| !reads_only(sudo, path));
    let (sudo, time) = others.find_map(|sudo| Some((sudo, at(&|time| sudo.covers_time(time))?)))?;
    Some(ChangeSource::from_sudo(AttributionCertainty::Near, sudo, time))
}

/// Returns the owner of a file, who can change it without a log entry.
fn attribute_to_owner(case: &AttributionContext<'_>, sign: &FileTimestamps, time: Timestamp) -> Option<ChangeSource> {
    let own = sign.there && sign.uid >= FIRST_USER_UID && case.finding.mark.aspect != ChangeAspect::Owner;
    own.then(|| ChangeSource {
        user: Some(sign.owner.as_str().into()),
        program: Some("owner".into()),
        time: Some(clock::format_time(time)),
        source: Some("the file's owner".into()),
        ..ChangeSource::with_certainty(AttributionCertainty::Near)
    })
}
