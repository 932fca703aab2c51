//! Compares the unpacked members with the declared archive.

use super::declaration::{ArchiveResource, ArchiveSource, INTO_MODE};
use super::diff::{ArchiveDiff, EntryNames, UnpackDiff};
use crate::model::{BlockClass, DisruptionClass, StepVerdict};
use crate::probe::{Observation, PathInfo, PathState, PathType, UnansweredReason};
use crate::resource::shared::file_target::{
    OwnershipDiff, ParentState, add_ownership_basis, check_parent, describe_differences, describe_type, path_probe,
    type_basis,
};
use crate::resource::shared::support::{output, path_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, ProvidedItem, ValueChange};
use serde_json::json;

/// The state of the last unpacking on the host.
#[derive(Debug, Default, PartialEq)]
struct UnpackedState {
    /// First line of the stamp file: digest and options.
    stamp: Option<String>,
    members: usize,
    /// Members that are missing or were modified after unpacking.
    differing: Vec<String>,
    /// Those of them that exist.
    modified: Vec<String>,
    /// Entries that are not part of the archive.
    strangers: Vec<String>,
    /// Whether more members differ than `differing` lists.
    more_members: bool,
    /// Whether more entries exist that differ than `modified` and `strangers` list.
    more_entries: bool,
}

impl UnpackedState {
    /// Parses the output of the probe: the stamp line, the member count, and one line per difference. `- RECORD` is
    /// an unpacked member that is missing or modified, `+ RECORD` is an entry that differs from what was unpacked.
    /// The last word of a record is the name.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let stamp = lines.next()?.strip_prefix("stamp ")?;
        let members = lines.next()?.strip_prefix("members ")?.parse().ok()?;
        let mut state = Self { stamp: Some(stamp.to_owned()).filter(|s| !s.is_empty()), members, ..Self::default() };
        let mut there = Vec::new();
        for line in lines {
            let name = line.splitn(7, ' ').nth(6);
            match (line.split(' ').next()?, name) {
                ("-", Some(name)) => state.differing.push(strip_link_target(name)),
                ("+", Some(name)) => there.push(strip_link_target(name)),
                ("more", _) if line.ends_with('+') => state.more_entries = true,
                ("more", _) => state.more_members = true,
                _ => return None,
            }
        }
        // A modified member appears in both lists; it is not a stranger.
        (state.modified, state.strangers) = there.into_iter().partition(|name| state.differing.contains(name));
        Some(state)
    }

    /// Reports whether there is nothing but unchanged members. Some may be missing: a removal that was interrupted has
    /// taken them.
    fn is_unchanged(&self) -> bool {
        self.strangers.is_empty() && self.modified.is_empty() && !self.more_entries
    }

    fn differing_names(&self) -> EntryNames {
        EntryNames { names: self.differing.clone(), more: self.more_members }
    }

    fn stranger_names(&self) -> EntryNames {
        EntryNames { names: self.strangers.clone(), more: self.more_entries }
    }
}

/// Returns the name in a record; the record of a link appends ` -> TARGET`.
fn strip_link_target(name: &str) -> String {
    name.split(" -> ").next().unwrap_or(name).to_owned()
}

impl ArchiveResource {
    fn read_unpacked_state(&self, seen: &Observation) -> Result<UnpackedState, UnansweredReason> {
        let output = output(seen, &self.unpacked_probe())?;
        let failed = || {
            let why = format!("members under `{}` could not be read (exit status {})", self.into, output.status);
            UnansweredReason::new(why).with_message(output.stderr.clone())
        };
        if output.status != 0 || output.truncated {
            return Err(failed());
        }
        UnpackedState::parse(output.stdout.raw()).ok_or_else(failed)
    }

    /// Returns the digest of the archive to unpack, or the judgement that decides the step if the archive is unusable.
    fn resolve_digest(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Result<String, Box<Assessment<ArchiveDiff>>>, UnansweredReason> {
        let (ArchiveSource::Host(path), Some(probe)) = (&self.from, self.archive_probe()) else {
            let ArchiveSource::Tree(_, digest) = &self.from else {
                return Err(UnansweredReason::new("archive not found"));
            };
            return Ok(Ok(digest.clone()));
        };
        let basis = json!({ "archive": "absent" });
        match path_state(seen, &probe)? {
            PathState::Absent if will_be_provided(cx.predicted, &ProvidedItem::Path(path.clone())) => {
                let diff = ArchiveDiff::Await { path: path.clone() };
                let reason = format!("archive `{path}` does not exist yet");
                Ok(Err(Box::new(Assessment::differs(reason, diff, DisruptionClass::D0, basis).mark_predicted())))
            }
            PathState::Absent => {
                let reason = format!("archive `{path}` does not exist");
                let blocked = Assessment::blocked(BlockClass::Host, reason, basis);
                Ok(Err(Box::new(blocked.hint("add a step that provides it before this one"))))
            }
            PathState::Present(info) if info.kind == PathType::File => match &info.sha256 {
                Some(digest) => Ok(self.check_pinned_digest(path, digest)),
                None => Err(UnansweredReason::new(format!("`{path}` could not be read"))),
            },
            PathState::Present(info) => {
                let reason = format!("`{path}` is a {}, not an archive", describe_type(info));
                Ok(Err(Box::new(Assessment::blocked(BlockClass::Host, reason, type_basis(info)))))
            }
        }
    }

    fn check_pinned_digest(&self, path: &str, digest: &str) -> Result<String, Box<Assessment<ArchiveDiff>>> {
        match &self.pinned {
            Some(pinned) if pinned != digest => {
                let reason = format!("`{path}` has SHA-256 {digest}, which does not match `sha256`");
                let blocked = Assessment::blocked(BlockClass::Host, reason, json!({ "archive": digest }));
                Err(Box::new(blocked.host_hint("the archive is a different one or is damaged; nothing was unpacked")))
            }
            _ => Ok(digest.to_owned()),
        }
    }

    pub(super) fn assess_present(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<ArchiveDiff>, UnansweredReason> {
        let state = self.read_unpacked_state(seen)?;
        // With a pinned digest the archive may be deleted once it is unpacked.
        let kept =
            self.pinned.as_ref().filter(|pinned| self.matches_stamp(&state, pinned) && state.differing.is_empty());
        let digest = match (self.resolve_digest(seen, cx)?, kept) {
            (Ok(digest), _) => digest,
            (Err(_), Some(pinned)) => pinned.clone(),
            (Err(judgement), None) => return Ok(*judgement),
        };
        match path_state(seen, &path_probe(&self.into))? {
            PathState::Absent => Ok(match check_parent(&self.into, seen, cx.predicted)? {
                ParentState::There => self.assess_missing(&digest, true),
                ParentState::Comes => self.assess_missing(&digest, true).mark_predicted(),
                ParentState::Blocks(parent) => parent.block(),
            }),
            PathState::Present(info) if info.kind != PathType::Directory => {
                let reason = format!("`{}` is a {}, not a directory", self.into, describe_type(info));
                Ok(Assessment::blocked(BlockClass::Host, reason, type_basis(info)))
            }
            PathState::Present(_) if state.stamp.is_none() && state.strangers.is_empty() => {
                Ok(self.assess_missing(&digest, false))
            }
            PathState::Present(_) if state.stamp.is_none() => Ok(self.block_foreign_content(&state)),
            PathState::Present(info) => Ok(self.assess_unpacked(&digest, &state, info)),
        }
    }

    /// Records the size of an archive on the host, which limits how much is copied.
    pub(super) fn add_archive_size(
        &self,
        mut judgement: Assessment<ArchiveDiff>,
        seen: &Observation,
    ) -> Assessment<ArchiveDiff> {
        let Some(probe) = self.archive_probe().filter(|_| judgement.verdict == StepVerdict::Change) else {
            return judgement;
        };
        if let Ok(PathState::Present(info)) = path_state(seen, &probe) {
            judgement.basis["bytes"] = json!(info.size);
            if let Some(ArchiveDiff::Unpack(diff)) = &mut judgement.diff {
                diff.bytes = info.size;
            }
        }
        judgement
    }

    fn matches_stamp(&self, state: &UnpackedState, digest: &str) -> bool {
        state.stamp.as_deref() == Some(&format!("{digest} {}", self.stamp_options()))
    }

    fn assess_missing(&self, digest: &str, creates: bool) -> Assessment<ArchiveDiff> {
        let basis = json!({ "archive": digest, "unpacked": null });
        let archive = Some(ValueChange::create(digest.to_owned()));
        let diff =
            ArchiveDiff::Unpack(UnpackDiff { wanted: digest.to_owned(), archive, creates, ..UnpackDiff::default() });
        Assessment::differs(format!("`{}` is not unpacked", self.into), diff, DisruptionClass::D0, basis)
    }

    fn block_foreign_content(&self, state: &UnpackedState) -> Assessment<ArchiveDiff> {
        let reason = match state.stranger_names().describe() {
            none if none.is_empty() => format!("`{}` is an empty directory without a record of an archive", self.into),
            what => format!("`{}` contains entries that forge did not unpack: {what}", self.into),
        };
        Assessment::blocked(BlockClass::Host, reason, json!({ "unpacked": "by others" }))
            .hint("`into` is replaced as a whole: choose a dedicated directory, or empty this one")
    }

    fn block_changed_content(&self, state: &UnpackedState) -> Assessment<ArchiveDiff> {
        let strangers = (!state.strangers.is_empty()).then(|| {
            // A modified member is recognised by its name among the listed members.
            let of_others = if state.more_members {
                "entries that forge did not unpack, or that were modified"
            } else {
                "entries that forge did not unpack"
            };
            format!("contains {of_others}: {}", state.stranger_names().describe())
        });
        let modified = EntryNames { names: state.modified.clone(), more: state.more_entries };
        let changed = (!state.modified.is_empty()).then(|| format!("has modified members: {}", modified.describe()));
        let what: Vec<String> = strangers.into_iter().chain(changed).collect();
        let basis = json!({ "unpacked": state.stamp, "differing": state.differing, "others": state.strangers });
        Assessment::blocked(BlockClass::Host, format!("`{}` {}", self.into, what.join(", and ")), basis)
            .host_hint("copy the entries that you need; an undo with `--overwrite` removes them with the directory")
    }

    fn assess_unpacked(&self, digest: &str, state: &UnpackedState, into: &PathInfo) -> Assessment<ArchiveDiff> {
        let noted = state.stamp.as_deref().unwrap_or_default();
        let (old, options) = noted.split_once(' ').unwrap_or((noted, ""));
        let mut basis = json!({ "archive": digest, "unpacked": noted, "differing": state.differing });
        let directory = OwnershipDiff::compare(into, &self.owner, &self.group, INTO_MODE);
        if !directory.is_empty() {
            add_ownership_basis(&mut basis, into);
        }
        let wanted = self.stamp_options();
        let diff = UnpackDiff {
            wanted: digest.to_owned(),
            bytes: 0,
            archive: (old != digest).then(|| ValueChange::new(old.to_owned(), digest.to_owned())),
            options: (options != wanted).then(|| ValueChange::new(options.to_owned(), wanted)),
            members: state.differing_names(),
            lost: state.stranger_names(),
            creates: false,
            directory,
        };
        if diff.is_empty() && diff.directory.is_empty() {
            return Assessment::ok(describe_intact(state.members), basis);
        }
        if diff.is_empty() {
            let reason = format!("of `{}`, {}", self.into, describe_differences(&diff.directory.render_changes()));
            return Assessment::differs(reason, ArchiveDiff::Ownership(diff.directory), DisruptionClass::D0, basis);
        }
        let reason = describe_differences(&diff.render_differences());
        Assessment::differs(reason, ArchiveDiff::Unpack(diff), DisruptionClass::D0, basis)
    }

    pub(super) fn assess_absent(&self, seen: &Observation) -> Result<Assessment<ArchiveDiff>, UnansweredReason> {
        let state = self.read_unpacked_state(seen)?;
        Ok(match path_state(seen, &path_probe(&self.into))? {
            PathState::Absent => {
                let reason = format!("`{}` does not exist", self.into);
                Assessment::ok(reason, json!({ "unpacked": null }))
            }
            PathState::Present(info) if info.kind != PathType::Directory => {
                let reason = format!("`{}` is a {}, not a directory", self.into, describe_type(info));
                Assessment::blocked(BlockClass::Host, reason, type_basis(info))
            }
            PathState::Present(_) if state.stamp.is_none() => self.block_foreign_content(&state),
            PathState::Present(_) if self.only_unchanged && !state.is_unchanged() => self.block_changed_content(&state),
            PathState::Present(_) => {
                let diff = ArchiveDiff::Remove {
                    members: state.members,
                    changed: state.differing_names(),
                    lost: state.stranger_names(),
                };
                let reason = format!("`{}` exists and is removed with its contents", self.into);
                Assessment::differs(reason, diff, DisruptionClass::D0, json!({ "unpacked": state.stamp }))
            }
        })
    }
}

fn describe_intact(members: usize) -> String {
    match members {
        1 => "the only member matches".to_owned(),
        several => format!("{several} members match"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_and_unknown_entries_are_parsed_separately() {
        let text = "stamp abc strip=0 own=root:root\nmembers 3\n- f 644 0:0 3 1.5 bin/a b\n+ f 755 0:0 3 1.5 bin/a b\n\
                    - l 777 0:0 1 1.5 x -> y\n+ f 644 0:0 9 2.5 cache/z\nmore -\n";
        let state = UnpackedState::parse(text).unwrap();
        assert_eq!(state.stamp.as_deref(), Some("abc strip=0 own=root:root"));
        assert_eq!((state.differing, state.strangers), (vec!["bin/a b".into(), "x".into()], vec!["cache/z".into()]));
        assert!(state.more_members && !state.more_entries);
        assert_eq!(UnpackedState::parse("stamp \nmembers 0\n"), Some(UnpackedState::default()));
        assert_eq!(UnpackedState::parse("stamp x\n"), None);
        assert_eq!(UnpackedState::parse("stamp x\nmembers 1\n- cut"), None);
    }
}
