//! Compares the unpacked members with the declared archive.

use super::{ArchiveResource, ArchiveSource};
use crate::model::{BlockClass, DisruptionClass, StepVerdict};
use crate::probe::{Observation, PathInfo, PathState, PathType, UnansweredReason};
use crate::resource::shared::file_target::{ParentState, check_parent, describe_type, path_probe, type_basis};
use crate::resource::shared::support::{output, path_state, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ProvidedItem};
use serde_json::json;

/// Number of digest characters in messages.
const SHOWN_DIGITS: usize = 12;

/// Maximum number of entries listed in a plan.
const MAX_NAMED: usize = 5;

/// The state of the last unpacking on the host.
#[derive(Debug, Default, PartialEq)]
struct UnpackedState {
    /// First line of the stamp file: digest and options.
    stamp: Option<String>,
    members: usize,
    /// Members that are missing or were modified after unpacking.
    differing: Vec<String>,
    /// Entries that are not part of the archive.
    strangers: Vec<String>,
    /// Whether the list of differences was truncated.
    more: bool,
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
                ("more", _) => state.more = true,
                _ => return None,
            }
        }
        // A modified member appears in both lists; it is not a stranger.
        there.retain(|name| !state.differing.contains(name));
        state.strangers = there;
        Some(state)
    }
}

/// Returns the name in a record; the record of a link appends ` -> TARGET`.
fn strip_link_target(name: &str) -> String {
    name.split(" -> ").next().unwrap_or(name).to_owned()
}

/// Lists the first few of `names`.
fn join_first(names: &[String], more: bool) -> String {
    let mut shown: Vec<String> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MAX_NAMED) {
        _ if more => shown.push("others".to_owned()),
        0 => {}
        rest => shown.push(format!("{rest} more")),
    }
    crate::resource::shared::support::join_words(&shown)
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
    ) -> Result<Result<String, Box<Assessment>>, UnansweredReason> {
        let (ArchiveSource::Host(path), Some(probe)) = (&self.from, self.archive_probe()) else {
            let ArchiveSource::Tree(_, digest) = &self.from else {
                return Err(UnansweredReason::new("archive not found"));
            };
            return Ok(Ok(digest.clone()));
        };
        let basis = json!({ "archive": "absent" });
        match path_state(seen, &probe)? {
            PathState::Absent if will_be_provided(cx.predicted, &ProvidedItem::Path(path.clone())) => {
                let changes = vec![AttributeChange::new("archive", None, Some(path))];
                let reason = format!("archive `{path}` does not exist yet");
                Ok(Err(Box::new(Assessment::change(reason, changes, DisruptionClass::D0, basis).mark_predicted())))
            }
            PathState::Absent => {
                let reason = format!("archive `{path}` does not exist");
                let blocked = Assessment::blocked(BlockClass::Host, reason, basis);
                Ok(Err(Box::new(blocked.hint("add a step that provides it before this one"))))
            }
            PathState::Present(PathInfo { kind: PathType::File, sha256: Some(digest), .. }) => {
                Ok(self.check_pinned_digest(path, digest))
            }
            PathState::Present(info) if info.kind == PathType::File => {
                Err(UnansweredReason::new(format!("`{path}` could not be read")))
            }
            PathState::Present(info) => {
                let reason = format!("`{path}` is a {}, not an archive", describe_type(info));
                Ok(Err(Box::new(Assessment::blocked(BlockClass::Host, reason, type_basis(info)))))
            }
        }
    }

    fn check_pinned_digest(&self, path: &str, digest: &str) -> Result<String, Box<Assessment>> {
        match &self.pinned {
            Some(pinned) if pinned != digest => {
                let reason = format!("`{path}` has SHA-256 {digest}, which does not match `sha256`");
                let blocked = Assessment::blocked(BlockClass::Host, reason, json!({ "archive": digest }));
                Err(Box::new(blocked.hint("the archive is a different one or is damaged; nothing was unpacked")))
            }
            _ => Ok(digest.to_owned()),
        }
    }

    pub(super) fn assess_present(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment, UnansweredReason> {
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
                ParentState::There => self.assess_missing(&digest),
                ParentState::Comes => self.assess_missing(&digest).mark_predicted(),
                ParentState::Blocks(parent) => parent.block(),
            }),
            PathState::Present(info) if info.kind != PathType::Directory => {
                let reason = format!("`{}` is a {}, not a directory", self.into, describe_type(info));
                Ok(Assessment::blocked(BlockClass::Host, reason, type_basis(info)))
            }
            PathState::Present(_) if state.stamp.is_none() && state.strangers.is_empty() => {
                Ok(self.assess_missing(&digest))
            }
            PathState::Present(_) if state.stamp.is_none() => Ok(self.block_foreign_content(&state)),
            PathState::Present(_) => Ok(self.assess_unpacked(&digest, &state)),
        }
    }

    /// Records the size of an archive on the host, which limits how much is copied.
    pub(super) fn add_archive_size(&self, mut judgement: Assessment, seen: &Observation) -> Assessment {
        let Some(probe) = self.archive_probe().filter(|_| judgement.verdict == StepVerdict::Change) else {
            return judgement;
        };
        if let Ok(PathState::Present(info)) = path_state(seen, &probe) {
            judgement.basis["bytes"] = json!(info.size);
        }
        judgement
    }

    fn matches_stamp(&self, state: &UnpackedState, digest: &str) -> bool {
        state.stamp.as_deref() == Some(&format!("{digest} {}", self.stamp_options()))
    }

    fn assess_missing(&self, digest: &str) -> Assessment {
        let changes = vec![AttributeChange::new("archive", None, Some(&format_digest(digest)))];
        let basis = json!({ "archive": digest, "unpacked": null });
        Assessment::change(format!("`{}` is not unpacked", self.into), changes, DisruptionClass::D0, basis)
    }

    fn block_foreign_content(&self, state: &UnpackedState) -> Assessment {
        let what = join_first(&state.strangers, state.more);
        let reason = format!("`{}` contains entries that forge did not unpack: {what}", self.into);
        Assessment::blocked(BlockClass::Host, reason, json!({ "unpacked": "by others" }))
            .hint("`into` is replaced as a whole: choose a dedicated directory, or empty this one")
    }

    fn assess_unpacked(&self, digest: &str, state: &UnpackedState) -> Assessment {
        let noted = state.stamp.as_deref().unwrap_or_default();
        let (old, options) = noted.split_once(' ').unwrap_or((noted, ""));
        let basis = json!({ "archive": digest, "unpacked": noted, "differing": state.differing });
        let mut changes = Vec::new();
        if old != digest {
            changes.push(AttributeChange::new("archive", Some(&format_digest(old)), Some(&format_digest(digest))));
        }
        if options != self.stamp_options() {
            changes.push(AttributeChange::new("options", Some(options), Some(&self.stamp_options())));
        }
        if !state.differing.is_empty() {
            let what = join_first(&state.differing, state.more);
            changes.push(AttributeChange::new("members", Some(&what), Some("as in the archive")));
        }
        if changes.is_empty() {
            return Assessment::ok(describe_intact(state.members), basis);
        }
        let reason = crate::resource::shared::file_target::describe_differences(&changes);
        if !state.strangers.is_empty() {
            changes.push(AttributeChange::new("lost", Some(&join_first(&state.strangers, state.more)), None));
        }
        Assessment::change(reason, changes, DisruptionClass::D0, basis)
    }

    pub(super) fn assess_absent(&self, seen: &Observation) -> Result<Assessment, UnansweredReason> {
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
            PathState::Present(_) => {
                let from = format!("{} of the archive", state.members);
                let mut changes = vec![AttributeChange::new("members", Some(&from), None)];
                if !state.strangers.is_empty() {
                    changes.push(AttributeChange::new("lost", Some(&join_first(&state.strangers, state.more)), None));
                }
                let reason = format!("`{}` exists and is removed with its contents", self.into);
                Assessment::change(reason, changes, DisruptionClass::D0, json!({ "unpacked": state.stamp }))
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

fn format_digest(digest: &str) -> String {
    format!("sha256 {}", digest.get(..SHOWN_DIGITS).unwrap_or(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_and_unknown_entries_are_parsed_separately() {
        let text = "stamp abc strip=0 own=root:root\nmembers 3\n- f 644 0:0 3 1.5 bin/a b\n+ f 755 0:0 3 1.5 bin/a b\n\
                    - l 777 0:0 1 1.5 x -> y\n+ f 644 0:0 9 2.5 cache/z\nmore\n";
        let state = UnpackedState::parse(text).unwrap();
        assert_eq!(state.stamp.as_deref(), Some("abc strip=0 own=root:root"));
        assert_eq!((state.differing, state.strangers), (vec!["bin/a b".into(), "x".into()], vec!["cache/z".into()]));
        assert!(state.more);
        assert_eq!(UnpackedState::parse("stamp \nmembers 0\n"), Some(UnpackedState::default()));
        assert_eq!(UnpackedState::parse("stamp x\n"), None);
        assert_eq!(UnpackedState::parse("stamp x\nmembers 1\n- cut"), None);
    }

    #[test]
    fn long_lists_show_the_first_five_names() {
        let names: Vec<String> = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).to_vec();
        assert_eq!(join_first(&names[..2], false), "`a` and `b`");
        assert_eq!(join_first(&names, false), "`a`, `b`, `c`, `d`, `e` and 2 more");
        assert_eq!(join_first(&names[..1], true), "`a` and others");
    }
}
