//! A file of which a step declares only a part. Shared by `line` and `block`: reads the whole file, changes it with a
//! pure function, and writes it back atomically if the file has not changed since it was read.

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, UndoEffect, UntrustedText, Value};
use crate::probe::{BODY_CAP, Observation, PathInfo, PathState, PathType, Probe, ProbeReading, UnansweredReason};
use crate::resource::shared::diff;
use crate::resource::shared::file_target::{ParentState, check_parent, describe_type, resolve_link_target, type_basis};
use crate::resource::shared::shell::{self, FileRewriteSpec};
use crate::resource::shared::support::{path_state, required_text, sha256_hex, will_be_provided};
use crate::resource::shared::text_lines::TextLines;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeAspect, FieldSpec, FieldType,
    FieldValues, ProvidedItem, ResourceDiff, ValueChange,
};
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const CREATE_FIELD: FieldSpec = FieldSpec::optional(
    "create",
    FieldType::Bool,
    "Create a missing file, owned by root with mode 0644. Default `false`: the file must exist.",
);
pub(in crate::resource) const VALIDATE_FIELD: FieldSpec = FieldSpec::optional(
    "validate",
    FieldType::Text,
    "Shell command that must exit 0 before the new content is installed. `$FORGE_FILE` is the path of the candidate: \
     next to the target, or below `/run` if users other than root can replace part of the path.",
);
pub(in crate::resource) const BACKUP_FIELD: FieldSpec = FieldSpec::optional(
    "backup",
    FieldType::Bool,
    "Keep a backup of the previous content on the host. Default `true`.",
);

/// Matches no digest, so that the host always sends the content.
const NO_DIGEST: &str = "any";

/// A file of which a part is declared.
#[derive(Debug)]
pub(in crate::resource) struct EditedFile {
    pub path: String,
    /// Name of the part in changes: `line`, `block`.
    pub part: &'static str,
    pub create: bool,
    validate: String,
    backup: bool,
}

/// Result of comparing a part of a file.
pub(in crate::resource) struct EditOutcome {
    pub reason: String,
    /// The compared part of the file, never the whole file, because other steps declare other parts.
    pub basis: Value,
    pub found: EditFinding,
}

pub(in crate::resource) enum EditFinding {
    AsDeclared,
    Differs {
        from: Option<String>,
        to: Option<String>,
        /// The complete new content.
        text: String,
    },
    /// Impossible with the current content. `to` is the desired part, set if an earlier step may change the content so
    /// that it becomes possible.
    Blocked {
        hint: String,
        to: Option<String>,
    },
}

/// How the declared part of a file differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) enum EditedFileDiff {
    /// The part differs, and with it the content of the file.
    Rewrite { part: &'static str, change: ValueChange<String>, edit: Box<FileEdit> },
    /// An earlier step writes the file or what the part needs in it, so that the new content is not known yet.
    Later { part: &'static str, change: ValueChange<String> },
}

impl ResourceDiff for EditedFileDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let change = match self {
            Self::Rewrite { part, change, edit } => {
                AttributeChange { diff: edit.unified_diff(), ..change.render_change(part) }
            }
            Self::Later { part, change } => change.render_change(part),
        };
        vec![change.with_aspect(ChangeAspect::Content)]
    }

    fn reading_after(&self) -> Option<(Probe, ProbeReading)> {
        match self {
            Self::Rewrite { edit, .. } => Some(edit.reading_after()),
            Self::Later { .. } => None,
        }
    }
}

/// New content based on the observed content. Steps of one script build on each other's edits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) struct FileEdit {
    /// The file as observed, with its content; `None` if it does not exist.
    pub before: Option<PathInfo>,
    /// The complete new content.
    pub body: String,
    /// The probe that the file was evaluated from, and its reading after the change.
    pub probe: Probe,
    pub becomes: ProbeReading,
}

impl FileEdit {
    /// Returns the SHA-256 of the observed content, empty if the file does not exist.
    pub fn digest_before(&self) -> &str {
        self.before.as_ref().and_then(|info| info.sha256.as_deref()).unwrap_or_default()
    }

    /// Returns the unified diff of the whole content.
    pub fn unified_diff(&self) -> Option<UntrustedText> {
        let old = self.before.as_ref().and_then(|info| info.body.as_ref()).map(UntrustedText::raw).unwrap_or_default();
        diff::unified_diff(old.as_bytes(), self.body.as_bytes()).map(UntrustedText::from)
    }

    pub fn reading_after(&self) -> (Probe, ProbeReading) {
        (self.probe.clone(), self.becomes.clone())
    }
}

impl EditedFile {
    /// Returns how an edit of the file is undone.
    pub fn undo_edit(&self) -> UndoEffect {
        match self.backup {
            true => UndoEffect::restore_paths([&self.path]),
            false => UndoEffect::irreversible("the step declares `backup: false`"),
        }
    }

    pub fn from_fields(fields: &FieldValues, part: &'static str) -> Result<Self, Diag> {
        Ok(Self {
            path: required_text(fields, "path")?.to_owned(),
            part,
            create: fields.get_bool("create").unwrap_or(false),
            validate: fields.get_text("validate").unwrap_or_default().to_owned(),
            backup: fields.get_bool("backup").unwrap_or(true),
        })
    }

    fn probe(&self) -> Probe {
        Probe::Path { path: self.path.clone(), want: Some(NO_DIGEST.to_owned()) }
    }

    pub fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.probe()];
        if self.create {
            probes.extend(
                crate::resource::shared::support::parent_path(&self.path)
                    .map(crate::resource::shared::file_target::path_probe),
            );
        }
        probes
    }

    /// Evaluates the part with `edit`, which gets the lines of the file; `absent` means that the part must be removed.
    pub fn assess(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
        absent: bool,
        edit: impl Fn(&TextLines) -> EditOutcome,
    ) -> Assessment<EditedFileDiff> {
        let judged = match path_state(seen, &self.probe()) {
            Err(unknown) => Err(unknown),
            Ok(PathState::Absent) if absent => {
                let reason = format!("file `{}` does not exist", self.path);
                Ok(Assessment::ok(reason, json!({ "type": "absent" })))
            }
            Ok(PathState::Absent) => self.assess_missing_file(seen, cx, edit),
            Ok(PathState::Present(info)) => self.assess_existing_file(info, cx, edit),
        };
        judged.unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn assess_missing_file(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
        edit: impl Fn(&TextLines) -> EditOutcome,
    ) -> Result<Assessment<EditedFileDiff>, UnansweredReason> {
        let basis = json!({ "type": "absent" });
        let comes = will_be_provided(cx.predicted, &ProvidedItem::Path(self.path.clone()));
        if !self.create && !comes {
            let reason = format!("file `{}` does not exist", self.path);
            return Ok(Assessment::blocked(BlockClass::Host, reason, basis)
                .hint("set `create: true`, or add a step that creates it before this one"));
        }
        let parent = match self.create {
            true => check_parent(&self.path, seen, cx.predicted)?,
            false => ParentState::Comes,
        };
        if let ParentState::Blocks(parent) = parent {
            return Ok(parent.block());
        }
        // A missing file has no anchor: the part becomes its first line.
        let (to, text) = match edit(&TextLines::parse("")).found {
            EditFinding::Differs { to, text, .. } => (to, Some(text)),
            EditFinding::Blocked { to, .. } => (to, None),
            EditFinding::AsDeclared => (None, None),
        };
        let Some(text) = text.filter(|_| !comes) else {
            let reason = format!("file `{}` does not exist yet", self.path);
            return Ok(self.predict_edit(reason, basis, to));
        };
        let reason = format!("file `{}` does not exist", self.path);
        let judgement = self.assess_edit(reason, basis, ValueChange { from: None, to }, None, text);
        Ok(if matches!(parent, ParentState::Comes) { judgement.mark_predicted() } else { judgement })
    }

    fn assess_existing_file(
        &self,
        info: &PathInfo,
        cx: &AssessmentContext<'_>,
        edit: impl Fn(&TextLines) -> EditOutcome,
    ) -> Result<Assessment<EditedFileDiff>, UnansweredReason> {
        if info.kind != PathType::File {
            return Ok(self.block_wrong_type(info));
        }
        let Some(body) = &info.body else { return self.block_unreadable_body(info) };
        let EditOutcome { reason, basis, found } = edit(&TextLines::parse(body.raw()));
        let basis = json!({ "type": "file", "found": basis });
        let after = cx.predicted.and_then(|p| p.after.as_deref());
        Ok(match (found, after) {
            (EditFinding::AsDeclared, _) => Assessment::ok(reason, basis),
            (EditFinding::Differs { from, to, text }, _) => {
                self.assess_edit(reason, basis, ValueChange { from, to }, Some(info), text)
            }
            (EditFinding::Blocked { to: Some(to), .. }, Some(step)) => {
                let reason = format!("{reason}, but `{step}` runs before and may change that");
                self.predict_edit(reason, basis, Some(to))
            }
            (EditFinding::Blocked { hint, .. }, _) => Assessment::blocked(BlockClass::Host, reason, basis).hint(hint),
        })
    }

    fn block_wrong_type(&self, info: &PathInfo) -> Assessment<EditedFileDiff> {
        let reason = format!("`{}` is a {}, not a file", self.path, describe_type(info));
        let judgement = Assessment::blocked(BlockClass::Host, reason, type_basis(info));
        match &info.target {
            Some(target) => {
                let target = resolve_link_target(&self.path, target.raw());
                judgement.hint(match target.split('/').any(|part| part == "..") {
                    true => format!("set `path` to the target of the link, which `readlink -f {}` prints", self.path),
                    false => format!("set `path` to the target of the link, `{target}`"),
                })
            }
            None => judgement,
        }
    }

    /// Evaluates a file whose content was not sent: too long, not UTF-8, or unreadable.
    fn block_unreadable_body(&self, info: &PathInfo) -> Result<Assessment<EditedFileDiff>, UnansweredReason> {
        let reason = match info.sha256 {
            None => return Err(UnansweredReason::new(format!("`{}` could not be read", self.path))),
            Some(_) if info.size > BODY_CAP => {
                format!(
                    "`{}` has {} bytes; the maximum for editing a part of a file is {BODY_CAP}",
                    self.path, info.size
                )
            }
            // Probes send the text of a file that all users may read (probe/path.rs).
            Some(_) if info.mode & 0o004 != 0 => format!("`{}` is not UTF-8 text", self.path),
            // Probes do not read root's private files in a directory that other users can write to (probe/path.rs).
            Some(_) => format!(
                "`{}` is not UTF-8 text, or is readable only by root in a directory that other users can write to",
                self.path
            ),
        };
        let basis = json!({ "type": "file", "unfit": true });
        Ok(Assessment::blocked(BlockClass::Host, reason, basis).hint("declare the whole file with a `file` step"))
    }

    fn assess_edit(
        &self,
        reason: String,
        basis: Value,
        change: ValueChange<String>,
        info: Option<&PathInfo>,
        text: String,
    ) -> Assessment<EditedFileDiff> {
        let edit = FileEdit {
            before: info.cloned(),
            becomes: ProbeReading::Path(PathState::Present(Box::new(self.predicted_path_info(info, &text)))),
            probe: self.probe(),
            body: text,
        };
        let diff = EditedFileDiff::Rewrite { part: self.part, change, edit: Box::new(edit) };
        Assessment::differs(reason, diff, DisruptionClass::D0, basis)
    }

    /// Evaluates a part whose file is written by an earlier step: `to` is the desired part.
    fn predict_edit(&self, reason: String, basis: Value, to: Option<String>) -> Assessment<EditedFileDiff> {
        let diff = EditedFileDiff::Later { part: self.part, change: ValueChange { from: None, to } };
        Assessment::differs(reason, diff, DisruptionClass::D0, basis).mark_predicted()
    }

    fn predicted_path_info(&self, info: Option<&PathInfo>, text: &str) -> PathInfo {
        PathInfo {
            size: text.len() as u64,
            sha256: Some(sha256_hex(text.as_bytes())),
            body: Some(text.into()),
            ..info.cloned().unwrap_or_else(PathInfo::root_file)
        }
    }

    /// Returns the action that writes the new content.
    pub fn act(&self, diff: &EditedFileDiff, cx: &AssessmentContext<'_>) -> Action {
        let body = match diff {
            EditedFileDiff::Rewrite { edit, .. } => shell::rewrite_file(&FileRewriteSpec {
                path: &self.path,
                old: edit.digest_before(),
                run: cx.run,
                backup: self.backup,
                validate: &self.validate,
                body: edit.body.as_bytes(),
            }),
            // It is evaluated again before it runs.
            EditedFileDiff::Later { .. } => shell::failing_action("the new content is not known"),
        };
        Action::Script(ActionScript { body, long: false, explain: EXPLAIN })
    }
}

const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("has changed since", "another process writes this file; run forge again"),
    ("No space left on device", "the file system is full; the old file is unchanged"),
    ("I/O error", "the file system may be full, or its disk fails: run `df` and `dmesg` on the host"),
    ("Device or resource busy", "the path is a mount point of its own: unmount it, or declare what is mounted there"),
    ("Read-only file system", "the file system is mounted read-only; check the kernel log for I/O errors"),
    ("Operation not permitted", "the file may be immutable; check with `lsattr`"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::EarlierStepEffects;

    fn make_file() -> EditedFile {
        let path = "/etc/x".to_owned();
        EditedFile { path, part: "line", create: false, validate: String::new(), backup: true }
    }

    fn assess_append(file: &EditedFile, state: PathState, comes: bool) -> Assessment {
        let mut seen = Observation::default();
        seen.insert(file.probe(), Ok(ProbeReading::Path(state)));
        let mut predicted = EarlierStepEffects::default();
        predicted.will_exist.extend(comes.then(|| ProvidedItem::Path(file.path.clone())));
        let cx = AssessmentContext { predicted: Some(&predicted), ..AssessmentContext::default() };
        let edit = |lines: &TextLines| EditOutcome {
            reason: "the line is missing".to_owned(),
            basis: Value::Null,
            found: EditFinding::Differs {
                from: None,
                to: Some("b".to_owned()),
                text: format!("{}b\n", lines.to_text()),
            },
        };
        file.assess(&seen, &cx, false, edit).erase_diff()
    }

    #[test]
    fn diff_knows_the_file_before_and_after() {
        let file = make_file();
        let before = PathInfo { mode: 0o600, body: Some("a\n".into()), ..PathInfo::root_file() };
        let judgement = assess_append(&file, PathState::Present(Box::new(before.clone())), false);
        let diff = judgement.diff.as_ref().unwrap().downcast().unwrap();
        let EditedFileDiff::Rewrite { edit, .. } = diff else { panic!("{diff:?}") };
        assert_eq!(edit.before.as_ref(), Some(&before));
        let (probe, reading) = judgement.reading_after().unwrap();
        assert_eq!(probe, file.probe());
        let ProbeReading::Path(PathState::Present(after)) = reading else { panic!("{reading:?}") };
        assert_eq!((after.body.unwrap().raw(), after.mode), ("a\nb\n", 0o600));
    }

    #[test]
    fn edit_of_a_file_that_an_earlier_step_writes_has_no_reading() {
        let file = make_file();
        let judgement = assess_append(&file, PathState::Absent, true);
        assert!(judgement.predicted && judgement.diff.is_some());
        assert_eq!(judgement.reading_after(), None);
    }
}
