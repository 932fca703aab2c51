//! `file`: a regular file with content, owner and mode.

use crate::diag::{Diag, DiagCode};
use crate::model::{UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::file_target::{FileBody, FileDiff, FileTarget, path_probe};
use crate::resource::shared::mounted_paths::{mounts_probe, refuse_mounted_paths};
use crate::resource::shared::shell;
use crate::resource::shared::support::{
    GROUP_FIELD, OWNER_FIELD, format_mode, parent_path, parse_owner_and_group, require_file_path,
};
use crate::resource::shared::system_directories::check_writable;
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionBatch, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource,
    FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "file",
    summary: "A regular file with content, owner and mode.",
    example: include_str!("../examples/file.yaml"),
    doc: "\
The content is `content` (inline), `template` (a file next to the recipe, rendered) or `source` (a file next to the
recipe, copied byte for byte, text or binary).

**Compares** type, SHA-256 of the content, owner, group and mode. An unchanged step reports
`content, owner and mode match`. Content with a secret is compared by digest and never shown. Its default mode lets only
the owner read the file; `validate` warns if the declared mode lets every user read it.

**A change** writes the new file in a directory `.NAME.forge-RUN` next to the target, which only root can enter, sets
owner and mode, runs `validate`, syncs the file and renames it over the target: readers see the complete old or new
file. Leftovers of killed runs are removed. If only owner or mode differ, the content is not rewritten, unless users
other than root can write to the directory. Several new files are written as `.NAME.forge-RUN.new` next to their targets
where only root can change the directories, synced together, and renamed one after the other.

**`validate`** finds the candidate at `$FORGE_FILE`, with its final owner and mode, and must not modify it. The
candidate is `.NAME.forge-RUN.new` next to the target, so that relative includes resolve to the same files as in the
target. A systemd unit keeps its name, in the directory `.NAME.forge-RUN`. If users other than root can replace part of
the path, the candidate is a copy with the file's own name, alone in a directory below `/run` that only root can enter:
relative includes do not resolve there.

A symbolic link or special file at the path is replaced by the file, and the plan shows it. A directory is never
replaced. The previous content is backed up to `/var/lib/forge/backups/RUN/PATH` unless `backup: false`. Hard links,
ACLs and extended attributes of the old file are not preserved.

**The parent directory** must exist or be created by an earlier step; forge does not create parents.

**Removal** (`ensure: absent`, `otherwise: absent`) removes files, links and special files, never directories.",
    fields: FIELDS,
    build,
    traits: KindTraits::WRITES_FILES,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("path", FieldType::Path, "Path of the file on the host."),
    FieldSpec::optional("content", FieldType::Text, "Inline content. Excludes `template` and `source`.")
        .passing_secrets(),
    FieldSpec::optional(
        "template",
        FieldType::LocalFile,
        "Template in the inventory's tree; its output is the content.",
    )
    .passing_secrets(),
    FieldSpec::optional("source", FieldType::LocalFile, "File in the inventory's tree; its bytes are the content."),
    OWNER_FIELD,
    GROUP_FIELD,
    FieldSpec::optional(
        "mode",
        FieldType::Mode,
        "Permission bits. Default `\"0644\"`, or `\"0600\"` if the content contains a secret.",
    ),
    FieldSpec::optional(
        "validate",
        FieldType::Text,
        "Shell command that must exit 0 before the new content is installed. `$FORGE_FILE` is the path of the \
         candidate: next to the target, or below `/run` if users other than root can replace part of the path. \
         Examples: `visudo -cf \"$FORGE_FILE\"`, `sshd -t -f \"$FORGE_FILE\"`.",
    ),
    FieldSpec::optional(
        "backup",
        FieldType::Bool,
        "Keep a backup of the previous content on the host. Default `true`.",
    ),
];

/// Hints for texts in the output of an action.
pub(in crate::resource) const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("invalid user", "the owner does not exist on the host: add a `user` step before this one"),
    ("invalid group", "the group does not exist on the host: add a `group` step before this one"),
    ("No space left on device", "the file system is full; the old file is unchanged"),
    ("I/O error", "the file system may be full, or its disk fails: run `df` and `dmesg` on the host"),
    ("Device or resource busy", "the path is a mount point of its own: unmount it, or declare what is mounted there"),
    ("Read-only file system", "the file system is mounted read-only; check the kernel log for I/O errors"),
    ("Operation not permitted", "the file may be immutable; check with `lsattr`"),
];

#[derive(Debug)]
struct FileResource {
    target: FileTarget,
    validate: String,
    backup: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let path = require_file_path(fields)?;
    check_writable(&path)?;
    let (owner, group) = parse_owner_and_group(fields)?;
    let body = parse_body(fields, absent)?;
    let mode = fields.get_mode("mode").unwrap_or(if body.is_secret() { 0o600 } else { 0o644 });
    Ok(Box::new(FileResource {
        target: FileTarget { path, body, owner, group, mode },
        validate: fields.get_text("validate").unwrap_or_default().to_owned(),
        backup: fields.get_bool("backup").unwrap_or(true),
        absent,
    }))
}

/// Reads the one field that holds the content; a removal needs none.
fn parse_body(fields: &FieldValues, absent: bool) -> Result<FileBody, Diag> {
    const BODIES: [&str; 3] = ["content", "template", "source"];
    let given: Vec<&str> = BODIES.into_iter().filter(|name| fields.contains(name)).collect();
    match given.as_slice() {
        [] if absent => Ok(FileBody::new("")),
        [] => Err(Diag::error(DiagCode::MissingKey, "a file needs `content`, `template` or `source`")
            .hint("for an empty file, set `content: \"\"`")),
        [one] => FileBody::from_value(one, &fields.0[*one]),
        more => Err(Diag::error(
            DiagCode::Exclusive,
            format!("{} exclude each other", crate::resource::shared::support::join_quoted(more)),
        )),
    }
}

impl DeclaredResource for FileResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.target.path.clone()
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.target.path.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        match self.absent {
            true => vec![path_probe(&self.target.path), mounts_probe(std::slice::from_ref(&self.target.path))],
            false => self.target.probes(),
        }
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.target.path, "absent": true }),
            false => self.target.desired_value(),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::Path(self.target.path.clone())).into_iter().collect()
    }

    fn declaration_warning(&self) -> Option<Diag> {
        let open = !self.absent && self.target.body.is_secret() && self.target.mode & 0o004 != 0;
        open.then(|| {
            let (path, mode) = (&self.target.path, format_mode(self.target.mode));
            Diag::warning(
                DiagCode::BadValue,
                format!("`{path}` contains a secret, and mode {mode} lets every user read it"),
            )
            .hint("set `mode: \"0600\"`, or `\"0640\"` with a `group` of its readers")
        })
    }

    fn is_read_at_start(&self) -> bool {
        !self.absent && self.target.mode & 0o111 != 0
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.target.path.clone())]
    }
}

impl TypedResource for FileResource {
    type Diff = FileDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<FileDiff> {
        match self.absent {
            true => {
                let paths = std::slice::from_ref(&self.target.path);
                refuse_mounted_paths(self.target.assess_absent(seen), paths, seen, cx)
            }
            false => self.target.assess(seen, cx, false),
        }
    }

    fn act(&self, diff: &FileDiff, cx: &AssessmentContext<'_>) -> Action {
        let target = &self.target;
        let body = match diff {
            FileDiff::Remove { .. } => shell::remove_file(&target.path, cx.run, self.backup),
            FileDiff::Ownership(_) => target.render_ownership_change(cx),
            FileDiff::Write { .. } => target.render_write(cx, self.backup, &self.validate),
        };
        Action::Script(ActionScript { body, long: false, explain: EXPLAIN })
    }

    fn batch(&self, diff: &FileDiff, cx: &AssessmentContext<'_>) -> Option<ActionBatch> {
        let FileDiff::Write { other, .. } = diff else { return None };
        let directory = Some(parent_path(&self.target.path)?.to_owned());
        let creates = diff.is_creation() && other.is_none() && self.validate.is_empty();
        let new_path = creates.then(|| self.target.describe_new_file(cx));
        Some(ActionBatch { directory, new_path, ..ActionBatch::new("sync files") })
    }

    fn undo(&self, diff: &FileDiff) -> UndoEffect {
        self.target.undo_write(self.backup, diff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_fields(entries: &[(&'static str, Value)]) -> FieldValues {
        FieldValues(entries.iter().cloned().collect())
    }

    fn build_error(entries: &[(&'static str, Value)]) -> String {
        build(&make_fields(entries), false).unwrap_err().message
    }

    #[test]
    fn exactly_one_body_field_is_required() {
        assert_eq!(build_error(&[("path", json!("/a"))]), "a file needs `content`, `template` or `source`");
        assert_eq!(
            build_error(&[("path", json!("/a")), ("content", json!("")), ("source", json!(""))]),
            "`content` and `source` exclude each other"
        );
        assert!(build(&make_fields(&[("path", json!("/a"))]), true).is_ok());
    }

    #[test]
    fn file_with_a_secret_defaults_to_mode_0600() {
        let mut secrets = crate::model::SecretStore::default();
        let secret = json!(format!("key={}", secrets.insert("key", "hunter2".to_owned().into()).0));
        let built = |content: &Value, mode: Option<i64>| {
            let mut all = vec![("path", json!("/a")), ("content", content.clone())];
            all.extend(mode.map(|mode| ("mode", json!(mode))));
            let file = build(&make_fields(&all), false).unwrap();
            (
                file.desired_value()["mode"].as_str().unwrap().to_owned(),
                file.declaration_warning().map(|diag| diag.message),
            )
        };
        assert_eq!(built(&json!("plain"), None), ("0644".to_owned(), None));
        assert_eq!(built(&secret, None), ("0600".to_owned(), None));
        assert_eq!(built(&secret, Some(0o640)), ("0640".to_owned(), None));
        let why = "`/a` contains a secret, and mode 0644 lets every user read it";
        assert_eq!(built(&secret, Some(0o644)), ("0644".to_owned(), Some(why.to_owned())));
    }

    #[test]
    fn file_in_place_of_a_device_is_rejected() {
        let why = "`/dev/null` is below /dev, where the kernel and udev make the entries";
        assert_eq!(build_error(&[("path", json!("/dev/null")), ("content", json!(""))]), why);
        assert!(build(&make_fields(&[("path", json!("/dev/shm/a")), ("content", json!(""))]), false).is_ok());
    }

    #[test]
    fn root_directory_is_rejected_as_a_file_path() {
        assert_eq!(build_error(&[("path", json!("/")), ("content", json!(""))]), "`/` is not a file");
    }

    #[test]
    fn base64_source_is_decoded() {
        let binary = make_fields(&[("path", json!("/a")), ("source", json!({ "base64": "AP8=" }))]);
        assert_eq!(parse_body(&binary, false).unwrap().bytes(), b"\x00\xff");
        let broken = make_fields(&[("path", json!("/a")), ("source", json!({ "base64": "%" }))]);
        assert_eq!(parse_body(&broken, false).unwrap_err().message, "`source` is neither text nor base64");
    }
}
