//! Evaluates a repository: its files, key, index, and other files that declare the same source.

use super::apt_lists;
use super::declaration::AptRepositoryResource;
use super::diff::{AptRepositoryDiff, RemovedFile, RepositoryFile, RepositoryPartsDiff, StaleIndex};
use super::openpgp::check_pinned;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, Value};
use crate::probe::{AptEntry, KeyFileState, Observation, PathState, Probe, ProbeReading, UnansweredReason};
use crate::resource::shared::file_target::{FileDiff, path_probe};
use crate::resource::shared::support::{join_words, key_state, path_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, ProvidedItem};
use serde_json::json;

type AssessmentResult = Result<Assessment<AptRepositoryDiff>, UnansweredReason>;

pub(super) fn assess_presence(
    want: &AptRepositoryResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> AssessmentResult {
    let sources = want.sources.assess(seen, cx, true);
    let key = want.keyring.as_ref().map(|key| key.assess(seen, cx, true));
    // A directory in the way or an unreadable file decides the result alone.
    for judgement in [Some(&sources), key.as_ref()].into_iter().flatten() {
        if matches!(judgement.verdict, StepVerdict::Blocked(_) | StepVerdict::Unknown) {
            return Ok(judgement.clone().with_diff(None));
        }
    }
    let index = find_stale_index(want, seen)?;
    let mut basis = json!({ "sources": sources.basis, "index": index.as_ref().map(StaleIndex::to_string) });
    if let Some(key) = &key {
        basis["key"] = key.basis.clone();
    }
    let reasons = collect_reasons(&sources, key.as_ref(), index.as_ref());
    let parts = RepositoryPartsDiff { sources: sources.diff, key: key.and_then(|key| key.diff), index };
    let diff = (!reasons.is_empty()).then(|| AptRepositoryDiff::Install(Box::new(parts)));
    match find_obstacle(want, seen, cx)? {
        None => Ok(conclude_files(want, reasons, diff, basis)),
        Some(RepositoryObstacle::Blocks(reason, hint)) => {
            Ok(Assessment::blocked(BlockClass::Rule, reason, basis).hint(hint))
        }
        Some(RepositoryObstacle::MayGo(reason)) => {
            let diff = diff.unwrap_or_else(|| AptRepositoryDiff::Unblock { key: want.signed_by().map(str::to_owned) });
            let reasons: Vec<String> = reasons.into_iter().chain([reason]).collect();
            Ok(Assessment::differs(reasons.join("; "), diff, DisruptionClass::D0, basis).mark_predicted())
        }
    }
}

/// Returns the judgement of a repository without an obstacle.
fn conclude_files(
    want: &AptRepositoryResource,
    reasons: Vec<String>,
    diff: Option<AptRepositoryDiff>,
    basis: Value,
) -> Assessment<AptRepositoryDiff> {
    match diff {
        Some(diff) => Assessment::differs(reasons.join("; "), diff, DisruptionClass::D0, basis),
        None if want.signed_by().is_some() => Assessment::ok("the source, its key and its index match", basis),
        None => Assessment::ok("the source and its index match", basis),
    }
}

/// Returns why the files differ; the index counts only if they match, because it follows from them.
fn collect_reasons(
    sources: &Assessment<FileDiff>,
    key: Option<&Assessment<FileDiff>>,
    index: Option<&StaleIndex>,
) -> Vec<String> {
    let sources = sources.diff.is_some().then(|| sources.reason.raw().to_owned());
    let key = key.and_then(|judgement| {
        // The reason of a new file names its path.
        let prefix = if judgement.diff.as_ref()?.is_creation() { "" } else { "key " };
        Some(format!("{prefix}{}", judgement.reason.raw()))
    });
    let files: Vec<String> = sources.into_iter().chain(key).collect();
    match files.is_empty() {
        true => index.map(StaleIndex::to_string).into_iter().collect(),
        false => files,
    }
}

/// Returns apt's first index of the repository that is missing or outdated, `None` if all are current. The index must not be
/// older than the content of the source and the key; owner and mode do not affect it.
fn find_stale_index(want: &AptRepositoryResource, seen: &Observation) -> Result<Option<StaleIndex>, UnansweredReason> {
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
        let suite = want.what.suites[number % want.what.suites.len()].clone();
        let found = match fetched {
            None => StaleIndex::Missing { suite },
            Some(fetched) if fetched < written => StaleIndex::OlderThanSource { suite },
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
        None => find_wrong_key(want.key_path.as_deref(), want.fingerprints.as_deref(), seen, cx)?,
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
    let hint = advise_removal(&other.file, others.filter(|entry| entry.file == other.file).count());
    Ok(Some((reason, hint)))
}

/// Returns how to remove one of the sources in `file`, which has `entries` of them, without the others.
fn advise_removal(file: &str, entries: usize) -> String {
    match (file.ends_with(".list"), entries) {
        (true, _) => format!(
            "remove this line from `{file}` in a step before this one: `line: {{ path: {file}, … }}` with `when: \"false\"` \
             and `otherwise: absent`"
        ),
        (false, 1) => format!("remove that file in a step before this one: `absent: {{ path: {file} }}`"),
        (false, _) => format!("remove only this source from `{file}` on the host: the file has others"),
    }
}

fn is_same_suite(want: &AptRepositoryResource, entry: &AptEntry) -> bool {
    let bare = |text: &String| simplify_local_uri(text.trim_end_matches('/'));
    let meets = |ours: &[String], theirs: &[String]| ours.iter().any(|a| theirs.iter().any(|b| bare(a) == bare(b)));
    meets(&want.what.uris, &entry.uris) && meets(&want.what.suites, &entry.suites)
}

/// Writes a local URI as apt reads it: `file:///srv` and `file:/srv` are one source.
fn simplify_local_uri(uri: &str) -> String {
    match uri.split_once(":///") {
        Some((scheme @ ("file" | "copy"), path)) => format!("{scheme}:/{path}"),
        _ => uri.to_owned(),
    }
}

/// Returns why the declared key on the host is missing, invalid or not pinned, with a hint.
pub(in crate::resource::packages) fn find_wrong_key(
    path: Option<&str>,
    pinned: Option<&[String]>,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Option<(String, String)>, UnansweredReason> {
    let Some(path) = path else { return Ok(None) };
    let bytes = match key_state(seen, &Probe::Key { path: path.to_owned() })? {
        KeyFileState::Present(bytes) => bytes,
        KeyFileState::Absent if will_be_provided(cx.predicted, &ProvidedItem::Path(path.to_owned())) => {
            return Ok(None);
        }
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
    let Some(pinned) = pinned else { return Ok(None) };
    let wrong = check_pinned(bytes, pinned).err();
    let hint = "verify the origin of the key before you change `fingerprint`".to_owned();
    Ok(wrong.map(|why| (format!("key `{path}` does not match `fingerprint`: {why}"), hint)))
}

pub(super) fn assess_removal(want: &AptRepositoryResource, seen: &Observation) -> AssessmentResult {
    let mut files = Vec::new();
    for target in want.removal_targets() {
        let judgement = target.assess_absent(seen);
        match (judgement.verdict, &judgement.diff) {
            (StepVerdict::Ok, _) => {}
            (StepVerdict::Change, Some(FileDiff::Remove { before })) => {
                let part = if target.path == want.sources.path { RepositoryFile::Source } else { RepositoryFile::Key };
                files.push(RemovedFile { path: target.path, part, before: before.label.clone() });
            }
            _ => return Ok(judgement.with_diff(None)),
        }
    }
    let found: Vec<String> = files.iter().map(|file| format!("`{}`", file.path)).collect();
    let basis = json!({ "there": found });
    if files.is_empty() {
        return Ok(Assessment::ok("neither source nor key exists", basis));
    }
    let verb = if found.len() == 1 { "exists" } else { "exist" };
    let reason = format!("{} {verb}", join_words(&found));
    Ok(Assessment::differs(reason, AptRepositoryDiff::Remove(files), DisruptionClass::D0, basis))
}
