//! Evaluates a repository: its files, key, index, and other files that declare the same source.

use super::{AptRepositoryResource, apt_lists, check_pinned};
use crate::model::{BlockClass, DisruptionClass, StepVerdict};
use crate::probe::{AptEntry, KeyFileState, Observation, PathState, Probe, ProbeReading, UnansweredReason};
use crate::resource::shared::file_target::path_probe;
use crate::resource::shared::support::{join_words, key_state, path_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ProvidedItem};
use serde_json::json;

type AssessmentResult = Result<Assessment, UnansweredReason>;

pub(super) fn assess_presence(
    want: &AptRepositoryResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> AssessmentResult {
    let sources = want.sources.assess(seen, cx, true).erase_diff();
    let key = want.keyring.as_ref().map(|key| key.assess(seen, cx, true).erase_diff());
    // A directory in the way or an unreadable file decides the result alone.
    for judgement in [Some(&sources), key.as_ref()].into_iter().flatten() {
        if matches!(judgement.verdict, StepVerdict::Blocked(_) | StepVerdict::Unknown) {
            return Ok(judgement.clone());
        }
    }
    let stale = find_stale_index(want, seen)?;
    let mut basis = json!({ "sources": sources.basis, "index": stale });
    let (mut changes, mut reasons) = (Vec::new(), Vec::new());
    merge_file_changes(&mut changes, &mut reasons, "", &sources);
    if let Some(key) = &key {
        basis["key"] = key.basis.clone();
        merge_file_changes(&mut changes, &mut reasons, "key ", key);
    }
    changes.extend(stale.as_ref().map(|why| AttributeChange::new("index", Some(why), Some("fetched"))));
    reasons.extend(stale.filter(|_| reasons.is_empty()));
    let predicted = match find_obstacle(want, seen, cx)? {
        Some(RepositoryObstacle::Blocks(reason, hint)) => {
            return Ok(Assessment::blocked(BlockClass::Rule, reason, basis).hint(hint));
        }
        Some(RepositoryObstacle::MayGo(reason)) => {
            reasons.push(reason);
            true
        }
        None => false,
    };
    if changes.is_empty() && !predicted {
        let what =
            if want.signed_by().is_some() { "the source, its key and its index" } else { "the source and its index" };
        return Ok(Assessment::ok(format!("{what} match"), basis));
    }
    if changes.is_empty() {
        changes.push(AttributeChange::new("key", None, want.signed_by()));
    }
    let judgement = Assessment::change(reasons.join("; "), changes, DisruptionClass::D0, basis);
    Ok(if predicted { judgement.mark_predicted() } else { judgement })
}

/// Adds the differences of one file. A key is described by its digest only, because its text is not readable.
fn merge_file_changes(
    changes: &mut Vec<AttributeChange>,
    reasons: &mut Vec<String>,
    prefix: &str,
    judgement: &Assessment,
) {
    let told = |change: &&AttributeChange| prefix.is_empty() || change.from.is_some() || change.attribute == "content";
    for change in judgement.changes.iter().filter(told) {
        let diff = change.diff.clone().filter(|_| prefix.is_empty());
        changes.push(AttributeChange {
            attribute: format!("{prefix}{}", change.attribute).into(),
            diff,
            ..change.clone()
        });
    }
    if judgement.verdict == StepVerdict::Change {
        let new = judgement.changes.iter().any(|c| c.from.is_none());
        reasons.push(format!("{}{}", if new { "" } else { prefix }, judgement.reason.raw()));
    }
}

/// Returns why apt's index of the repository is missing or outdated, `None` if it is current. The index must not be
/// older than the content of the source and the key; owner and mode do not affect it.
fn find_stale_index(want: &AptRepositoryResource, seen: &Observation) -> Result<Option<String>, UnansweredReason> {
    let mut written: f64 = 0.0;
    for target in [Some(&want.sources), want.keyring.as_ref()].into_iter().flatten() {
        if let PathState::Present(info) = path_state(seen, &target.probe())? {
            written = written.max(info.mtime);
        }
    }
    let mut why = None;
    for (number, paths) in apt_lists::index_paths(&want.what).iter().enumerate() {
        let mut fetched: Option<f64> = None;
        for path in paths {
            if let PathState::Present(info) = path_state(seen, &path_probe(path))? {
                fetched = Some(fetched.unwrap_or_default().max(info.ctime));
            }
        }
        let suite = &want.what.suites[number % want.what.suites.len()];
        let found = match fetched {
            None => format!("apt index of `{suite}` is missing"),
            Some(fetched) if fetched < written => format!("apt index of `{suite}` is older than the source"),
            Some(_) => continue,
        };
        why.get_or_insert(found);
    }
    Ok(why)
}

/// An obstacle that prevents use of the repository.
enum RepositoryObstacle {
    /// The reason and a hint.
    Blocks(String, String),
    /// An earlier step may remove the obstacle.
    MayGo(String),
}

fn find_obstacle(
    want: &AptRepositoryResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Option<RepositoryObstacle>, UnansweredReason> {
    let found = match find_conflicting_source(want, seen)? {
        Some(found) => Some(found),
        None => find_wrong_key(want, seen, cx)?,
    };
    let may_go = cx.predicted.is_some_and(|p| p.after.is_some());
    Ok(found.map(|(reason, hint)| match may_go {
        true => RepositoryObstacle::MayGo(format!("{reason}; an earlier step may resolve this")),
        false => RepositoryObstacle::Blocks(reason, hint),
    }))
}

/// Returns the reason and a hint if another file declares a suite of the repository.
fn find_conflicting_source(
    want: &AptRepositoryResource,
    seen: &Observation,
) -> Result<Option<(String, String)>, UnansweredReason> {
    let ProbeReading::AptSources(entries) = seen.get(&Probe::AptSources)? else {
        return Err(UnansweredReason::new("the host answered another question"));
    };
    let others = entries.iter().filter(|entry| entry.file != want.sources.path);
    let Some(other) = others.clone().find(|entry| is_same_suite(want, entry)) else { return Ok(None) };
    let key = |entry: &AptEntry| entry.signed_by.split_whitespace().collect::<Vec<_>>().join(" ");
    let trusted = |entry: &AptEntry| matches!(entry.trusted.as_str(), "yes" | "true" | "1" | "on" | "with" | "enable");
    let agrees = key(other) == want.signed_by().unwrap_or_default() && trusted(other) == want.what.trusted;
    let why = if agrees { "" } else { " with a different key, which apt rejects" };
    let reason = format!("`{}` declares the same URI and suite{why}", other.file);
    let hint = format!("remove it in a step before this one: `file: {{ path: {} }}`, `ensure: absent`", other.file);
    Ok(Some((reason, hint)))
}

fn is_same_suite(want: &AptRepositoryResource, entry: &AptEntry) -> bool {
    let bare = |text: &String| text.trim_end_matches('/').to_owned();
    let meets = |ours: &[String], theirs: &[String]| ours.iter().any(|a| theirs.iter().any(|b| bare(a) == bare(b)));
    meets(&want.what.uris, &entry.uris) && meets(&want.what.suites, &entry.suites)
}

/// Returns why the declared key on the host is missing, invalid or not pinned, with a hint.
fn find_wrong_key(
    want: &AptRepositoryResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Option<(String, String)>, UnansweredReason> {
    let (Some(probe), Some(path)) = (want.key_probe(), &want.key_path) else { return Ok(None) };
    let bytes = match key_state(seen, &probe)? {
        KeyFileState::Present(bytes) => bytes,
        KeyFileState::Absent if will_be_provided(cx.predicted, &ProvidedItem::Path(path.clone())) => return Ok(None),
        KeyFileState::Absent => {
            return Ok(Some((
                format!("key `{path}` does not exist"),
                "add a step that installs it before this one".to_owned(),
            )));
        }
        KeyFileState::Unfit => {
            return Ok(Some((format!("`{path}` is not an OpenPGP key"), "set `key_path` to the key file".to_owned())));
        }
    };
    let Some(pinned) = &want.fingerprints else { return Ok(None) };
    let wrong = check_pinned(bytes, pinned).err();
    let hint = "verify the origin of the key before you change `fingerprint`".to_owned();
    Ok(wrong.map(|why| (format!("key `{path}` does not match `fingerprint`: {why}"), hint)))
}

pub(super) fn assess_removal(want: &AptRepositoryResource, seen: &Observation) -> AssessmentResult {
    let (mut changes, mut found) = (Vec::new(), Vec::new());
    for target in want.removal_targets() {
        let judgement = target.assess_absent(seen).erase_diff();
        match judgement.verdict {
            StepVerdict::Ok => {}
            StepVerdict::Change => {
                let from = judgement.changes.first().and_then(|c| c.from.as_ref()).map(|from| from.raw().to_owned());
                changes.push(AttributeChange::new(attribute_of_path(want, &target.path), from.as_deref(), None));
                found.push(format!("`{}`", target.path));
            }
            _ => return Ok(judgement),
        }
    }
    let basis = json!({ "there": found });
    if changes.is_empty() {
        return Ok(Assessment::ok("neither source nor key exists", basis));
    }
    let verb = if found.len() == 1 { "exists" } else { "exist" };
    Ok(Assessment::change(format!("{} {verb}", join_words(&found)), changes, DisruptionClass::D0, basis))
}

fn attribute_of_path(want: &AptRepositoryResource, path: &str) -> &'static str {
    if path == want.sources.path { "source" } else { "key" }
}
