//! `toml`: declared keys of a TOML file that other programs also write to.

mod toml_keys;

use self::toml_keys::{TomlDocument, TomlKeyPath, TomlKeys, find_unsupported_value, format_key_path};
use crate::diag::{Diag, DiagCode};
use crate::model::{UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::edited_file::{
    BACKUP_FIELD, CREATE_FIELD, EditFinding, EditOutcome, EditedFile, EditedFileDiff, VALIDATE_FIELD,
};
use crate::resource::shared::support::{bad_value, join_words};
use crate::resource::shared::text_lines::{TextLines, reject_secret_edit};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use serde_json::json;
use std::collections::BTreeMap;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "toml",
    summary: "Declared keys of a TOML file; forge does not change the other keys.",
    example: include_str!("../../examples/toml.yaml"),
    doc: "\
For a file that has several writers, such as containerd's configuration, which the GPU operator's container toolkit also
edits.

**Compares** the value of each key in `content`, not its layout, order or comments. Keys that are not declared do not
count. An unchanged step reports `the 4 declared keys match; the file has 12 others`. A key of `defaults` only counts if
the file does not have it: any other value is left unchanged. A list is one value and is compared as a whole.

**A key that was declared and no longer is** is removed if it still has the value of the last verified apply, which the
record on the host shows; tables that become empty are removed too. If another program changed the value since, the key
now belongs to that program and is left unchanged.

**A change** keeps other keys, their order and comments. It works as for [`line`](line.md): the plan shows the diff of
the whole file, the new content must pass `validate`, and the same limits apply. A file that is not valid TOML blocks the
step. Dates, `inf` and `nan` cannot be declared. One step declares all keys of a file.

**Removal** removes the declared keys, whatever their values, and tables that become empty. The file stays.",
    fields: FIELDS,
    build,
    traits: KindTraits { explains_secrets: true, ..KindTraits::WRITES_FILES },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("path", FieldType::Path, "Path of the file."),
    FieldSpec::optional("content", FieldType::Text, "The declared keys, as TOML. Excludes `template`."),
    FieldSpec::optional(
        "template",
        FieldType::LocalFile,
        "Template in the inventory's tree; its output is the declared keys.",
    ),
    FieldSpec::optional(
        "defaults",
        FieldType::Text,
        "Keys, as TOML, that are set only if the file does not have them.",
    ),
    CREATE_FIELD,
    VALIDATE_FIELD,
    BACKUP_FIELD,
];

#[derive(Debug)]
struct TomlResource {
    file: EditedFile,
    content: TomlKeys,
    defaults: TomlKeys,
    absent: bool,
}

/// The edits that a file needs.
#[derive(Debug, Default)]
struct TomlEdits {
    /// Keys that are missing or have another value.
    set: BTreeMap<TomlKeyPath, Value>,
    remove: Vec<TomlKeyPath>,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secret_edit(KIND.name, fields)?;
    let (name, content) = match (fields.get_text("content"), fields.get_text("template")) {
        (Some(_), Some(_)) => {
            return Err(Diag::error(DiagCode::Exclusive, "`content` and `template` exclude each other"));
        }
        (Some(text), None) => ("content", text),
        (None, Some(text)) => ("template", text),
        (None, None) => return Err(Diag::error(DiagCode::MissingKey, "`toml` needs `content` or `template`")),
    };
    Ok(Box::new(TomlResource {
        file: EditedFile::from_fields(fields, "keys")?,
        content: parse_declared_keys(name, content)?,
        defaults: parse_declared_keys("defaults", fields.get_text("defaults").unwrap_or_default())?,
        absent,
    }))
}

fn parse_declared_keys(field: &'static str, text: &str) -> Result<TomlKeys, Diag> {
    let document = TomlDocument::parse(text).map_err(|why| {
        bad_value(format!("`{field}` is not valid TOML: {why}")).with_field(field).hint("forge renders templates first")
    })?;
    match find_unsupported_value(&document) {
        Some(key) => Err(bad_value(format!("`{field}` declares `{key}` with a date, `inf` or `nan`"))
            .with_field(field)
            .hint("declare the whole file with a `file` step")),
        None => Ok(document.keys()),
    }
}

impl TomlResource {
    fn edit_document(&self, lines: &TextLines, record: Option<&Value>) -> EditOutcome {
        let mut document = match TomlDocument::parse(&lines.to_text()) {
            Ok(document) => document,
            Err(why) => return self.reject_file(&why),
        };
        let found = document.keys();
        let edits = match self.absent {
            true => self.find_removals(&found),
            false => self.find_edits(&found, record),
        };
        let basis = self.describe_basis(&found, &edits);
        if edits.set.is_empty() && edits.remove.is_empty() {
            return EditOutcome { reason: self.describe_match(&found), basis, found: EditFinding::AsDeclared };
        }
        for path in &edits.remove {
            document.remove(path);
        }
        for (path, value) in &edits.set {
            document.set(path, value);
        }
        let matching = self.content.0.iter().filter(|(path, value)| has_value(&found, path, value)).count();
        let exists = self.content.0.keys().any(|path| is_present(&found, path));
        let to = (!self.absent).then(|| count_keys(self.content.0.len()));
        EditOutcome {
            reason: self.describe_edits(&found, &edits),
            basis,
            found: EditFinding::Differs {
                from: exists.then(|| format!("{matching} of {}", count_keys(self.content.0.len()))),
                to,
                text: document.to_text(),
            },
        }
    }

    fn reject_file(&self, why: &str) -> EditOutcome {
        EditOutcome {
            reason: format!("`{}` is not valid TOML: {why}", self.file.path),
            basis: json!({ "broken": true }),
            found: EditFinding::Blocked {
                hint: "fix or remove the file; the programs that read it cannot use it either".into(),
                to: (!self.absent).then(|| count_keys(self.content.0.len())),
            },
        }
    }

    /// Returns the edits for the declared keys, and for those that only the last apply declared.
    fn find_edits(&self, found: &TomlKeys, record: Option<&Value>) -> TomlEdits {
        let declared = self.content.0.iter().filter(|(path, value)| !has_value(found, path, value));
        let missing = self.defaults.0.iter().filter(|(path, _)| !is_present(found, path));
        let set = declared.chain(missing).map(|(path, value)| (path.clone(), value.clone())).collect();
        let applied = record.and_then(|record| record.get("value")?.get("content"));
        let former = applied.map(TomlKeys::from_tree).unwrap_or_default();
        let obsolete =
            former.0.iter().filter(|(path, value)| !self.declares(path) && found.0.get(*path) == Some(*value));
        TomlEdits { set, remove: obsolete.map(|(path, _)| path.clone()).collect() }
    }

    fn find_removals(&self, found: &TomlKeys) -> TomlEdits {
        let remove = self.content.0.keys().filter(|path| found.0.contains_key(*path)).cloned().collect();
        TomlEdits { remove, ..TomlEdits::default() }
    }

    fn declares(&self, path: &TomlKeyPath) -> bool {
        is_present(&self.content, path) || is_present(&self.defaults, path)
    }

    /// Returns the values of the keys that decide, `null` for missing ones. Other programs change the others at any time.
    fn describe_basis(&self, found: &TomlKeys, edits: &TomlEdits) -> Value {
        let paths = self.content.0.keys().chain(edits.set.keys()).chain(&edits.remove);
        let values: BTreeMap<String, Value> =
            paths.map(|path| (format_key_path(path), found.0.get(path).cloned().unwrap_or_default())).collect();
        json!({ "keys": values })
    }

    fn describe_match(&self, found: &TomlKeys) -> String {
        if self.absent {
            return "the keys do not exist".to_owned();
        }
        let count = self.content.0.len();
        let others = found.0.keys().filter(|path| !self.content.0.contains_key(*path)).count();
        let matching = match count {
            1 => "the declared key matches".to_owned(),
            _ => format!("the {count} declared keys match"),
        };
        match others {
            0 => matching,
            1 => format!("{matching}; the file has 1 other"),
            _ => format!("{matching}; the file has {others} others"),
        }
    }

    fn describe_edits(&self, found: &TomlKeys, edits: &TomlEdits) -> String {
        let (different, missing): (Vec<_>, Vec<_>) = edits.set.keys().partition(|path| is_present(found, path));
        let obsolete: Vec<&TomlKeyPath> = edits.remove.iter().collect();
        let removal =
            if self.absent { ("exists", "exist") } else { ("is no longer declared", "are no longer declared") };
        let parts = [
            describe_keys(&different, ("differs", "differ")),
            describe_keys(&missing, ("is missing", "are missing")),
            describe_keys(&obsolete, removal),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Returns whether a document has the key, as a value or as a table with keys.
fn is_present(keys: &TomlKeys, path: &TomlKeyPath) -> bool {
    keys.0.range(path.clone()..).next().is_some_and(|(first, _)| first.starts_with(path))
}

/// Returns whether a key has a value. A declared empty table only has to exist.
fn has_value(keys: &TomlKeys, path: &TomlKeyPath, value: &Value) -> bool {
    let found = keys.0.get(path);
    found == Some(value) || (value == &json!({}) && found.is_none() && is_present(keys, path))
}

/// Returns a sentence about some keys, which names at most three of them.
fn describe_keys(paths: &[&TomlKeyPath], (one, many): (&str, &str)) -> Option<String> {
    const NAMED: usize = 3;
    let mut words: Vec<String> = paths.iter().take(NAMED).map(|path| format!("`{}`", format_key_path(path))).collect();
    if paths.len() > NAMED {
        words.push(format!("{} more", paths.len() - NAMED));
    }
    let verb = if paths.len() == 1 { one } else { many };
    (!paths.is_empty()).then(|| format!("{} {verb}", join_words(&words)))
}

fn count_keys(count: usize) -> String {
    format!("{count} {}", if count == 1 { "key" } else { "keys" })
}

impl DeclaredResource for TomlResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.file.path.clone()
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.file.path.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        self.file.probes()
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.file.path, "content": self.content.to_tree(), "absent": true }),
            false => json!({
                "path": self.file.path,
                "content": self.content.to_tree(),
                "defaults": self.defaults.to_tree(),
            }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent && self.file.create).then(|| ProvidedItem::Path(self.file.path.clone())).into_iter().collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.file.path.clone()]
    }

    fn shared_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.file.path.clone())]
    }
}

impl TypedResource for TomlResource {
    type Diff = EditedFileDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<EditedFileDiff> {
        self.file.assess(seen, cx, self.absent, |lines| self.edit_document(lines, cx.record))
    }

    fn act(&self, diff: &EditedFileDiff, cx: &AssessmentContext<'_>) -> Action {
        self.file.act(diff, cx)
    }

    fn undo(&self, _diff: &EditedFileDiff) -> UndoEffect {
        self.file.undo_edit()
    }
}

#[cfg(test)]
mod tests;
