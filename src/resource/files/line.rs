//! `line`: one line of a file that also has other owners.

use crate::diag::{Diag, DiagCode};
use crate::model::{UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::edited_file::{
    BACKUP_FIELD, CREATE_FIELD, EditFinding, EditOutcome, EditedFile, EditedFileDiff, VALIDATE_FIELD,
};
use crate::resource::shared::support::bad_value;
use crate::resource::shared::text_lines::{
    AFTER_FIELD, BEFORE_FIELD, InsertAnchor, LinePattern, TextLines, format_line_numbers, reject_secret_edit,
};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "line",
    summary: "One line of a text file that also has other owners.",
    example: include_str!("../examples/line.yaml"),
    doc: "\
For a file that a package or an administrator owns. Declare a file that you own completely with `file`, so that forge
detects every difference in it.

**Compared** are the lines that equal `line` or match the regular expression `match` (Rust's `regex`, searched anywhere
in the line, without its line ending). If exactly one such line exists and equals `line`, nothing changes; an unchanged
step reports `line 12 matches`. A line that differs is replaced in place. If there is none, the line is inserted: after
the last line that matches `after`, before the first line that matches `before`, otherwise at the end. The position of
an existing line does not matter. An anchor without a match blocks the step.

**Several lines** that match, of which at least one differs, block the step; the reason names them. Which of them takes
effect depends on the program that reads the file. With `duplicates: remove` the first becomes the line and the others
are removed. Identical copies of the line are not changed.

**A change** is computed for the whole body and shown as a diff. forge writes the new body in a directory next to the
file that only root can enter, copies owner, mode, ACLs and extended attributes from the old file, runs `validate` as
for [`file`](file.md), syncs the new file and renames it over the old one, provided that the old one has not changed
since it was observed. Line endings are preserved: in a file with CRLF the new line gets CRLF too. A missing newline at
the end of the file is added only if a line is appended. The previous body is saved under
`/var/lib/forge/backups/RUN/PATH` unless `backup: false`.

**Limits.** The file must be UTF-8 text of at most 64 KiB and not a symbolic link; anything else blocks the step.
Secrets are rejected, because the file is shown as a diff. Several steps may declare lines and blocks of one file, but
not together with a `file` step that declares the whole file.

**Removal** removes every line that equals `line`; a step that has only `match` removes the lines that match. The file
remains, even if it becomes empty.",
    fields: FIELDS,
    build,
    traits: KindTraits { explains_secrets: true, ..KindTraits::WRITES_FILES },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("path", FieldType::Path, "The file."),
    FieldSpec::optional("line", FieldType::Line, "The line. Required, except for removal by `match`."),
    FieldSpec::optional(
        "match",
        FieldType::Line,
        "A regular expression that finds the line to replace: `^#?PermitRootLogin\\b`.",
    ),
    AFTER_FIELD,
    BEFORE_FIELD,
    FieldSpec::optional(
        "duplicates",
        FieldType::Enum(&["refuse", "remove"]),
        "What to do if several lines match. Default `refuse`.",
    ),
    CREATE_FIELD,
    VALIDATE_FIELD,
    BACKUP_FIELD,
];

#[derive(Debug)]
struct LineResource {
    file: EditedFile,
    line: Option<String>,
    pattern: Option<LinePattern>,
    anchor: InsertAnchor,
    merge: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secret_edit(KIND.name, fields)?;
    let line = fields.get_text("line").map(str::to_owned);
    if line.as_ref().is_some_and(String::is_empty) {
        return Err(bad_value("`line` is empty").with_field("line"));
    }
    let pattern = LinePattern::from_field(fields, "match")?;
    match (&line, &pattern, absent) {
        (None, _, false) => return Err(Diag::error(DiagCode::MissingKey, "`line` is required")),
        (None, None, true) => {
            return Err(Diag::error(DiagCode::MissingKey, "`line` or `match` is required to remove a line"));
        }
        _ => {}
    }
    let merge = fields.get_text("duplicates") == Some("remove");
    let (file, anchor) = (EditedFile::from_fields(fields, "line")?, InsertAnchor::from_fields(fields)?);
    Ok(Box::new(LineResource { file, line, pattern, anchor, merge, absent }))
}

impl LineResource {
    fn wanted_line(&self) -> &str {
        self.line.as_deref().unwrap_or_default()
    }

    fn matches_pattern(&self, line: &str) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(line))
    }

    fn edit_lines(&self, lines: &TextLines) -> EditOutcome {
        match self.absent {
            true => self.remove_line(lines),
            false => self.put_line(lines),
        }
    }

    fn put_line(&self, lines: &TextLines) -> EditOutcome {
        let own = lines.find_indices(|line| line == self.wanted_line() || self.matches_pattern(line));
        let found: Vec<&str> = own.iter().map(|at| lines.get(*at)).collect();
        let basis = json!({ "lines": found });
        match own.as_slice() {
            [] => self.insert_line(lines),
            all if found.iter().all(|line| *line == self.wanted_line()) => {
                let verb = if all.len() == 1 { "matches" } else { "match" };
                EditOutcome {
                    reason: format!("{} {verb}", format_line_numbers(all)),
                    basis,
                    found: EditFinding::AsDeclared,
                }
            }
            [one] => self.replace_line(lines, *one, &[], format!("{} differs", format_line_numbers(&[*one])), basis),
            [first, others @ ..] if self.merge => {
                let reason = format!("{} are merged into one", format_line_numbers(&own));
                self.replace_line(lines, *first, others, reason, basis)
            }
            several => EditOutcome {
                reason: format!("{} match, but not all equal the declared line", format_line_numbers(several)),
                basis,
                found: EditFinding::Blocked {
                    hint:
                        "make `match` narrower, or set `duplicates: remove` to replace the first and remove the others"
                            .to_owned(),
                    to: None,
                },
            },
        }
    }

    fn insert_line(&self, lines: &TextLines) -> EditOutcome {
        let to = Some(self.wanted_line().to_owned());
        match self.anchor.insertion_index(lines) {
            Err(reason) => EditOutcome {
                reason,
                basis: json!({ "lines": [], "anchor": false }),
                found: EditFinding::Blocked { hint: "fix the anchor, or omit it".into(), to },
            },
            Ok(at) => {
                let mut new = lines.clone();
                new.insert(at, [self.wanted_line()]);
                let reason = match &self.pattern {
                    None => "the line is missing".to_owned(),
                    Some(pattern) => format!("no line matches `{}`", pattern.source()),
                };
                let found = EditFinding::Differs { from: None, to, text: new.to_text() };
                EditOutcome { reason, basis: json!({ "lines": [], "anchor": true }), found }
            }
        }
    }

    fn replace_line(
        &self,
        lines: &TextLines,
        at: usize,
        others: &[usize],
        reason: String,
        basis: Value,
    ) -> EditOutcome {
        let mut new = lines.clone();
        new.replace(at, self.wanted_line());
        others.iter().rev().for_each(|other| new.remove(*other));
        let (from, to) = (Some(lines.get(at).to_owned()), Some(self.wanted_line().to_owned()));
        EditOutcome { reason, basis, found: EditFinding::Differs { from, to, text: new.to_text() } }
    }

    fn remove_line(&self, lines: &TextLines) -> EditOutcome {
        let own = lines.find_indices(|line| match &self.line {
            Some(wanted) => line == wanted,
            None => self.matches_pattern(line),
        });
        let found: Vec<&str> = own.iter().map(|at| lines.get(*at)).collect();
        let basis = json!({ "lines": found });
        if own.is_empty() {
            return EditOutcome { reason: "the line does not exist".into(), basis, found: EditFinding::AsDeclared };
        }
        let mut new = lines.clone();
        own.iter().rev().for_each(|at| new.remove(*at));
        let verb = if own.len() == 1 { "exists" } else { "exist" };
        let found = EditFinding::Differs { from: Some(found.join("\n")), to: None, text: new.to_text() };
        EditOutcome { reason: format!("{} still {verb}", format_line_numbers(&own)), basis, found }
    }
}

impl DeclaredResource for LineResource {
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
        let pattern = self.pattern.as_ref().map(LinePattern::source);
        match self.absent {
            true => json!({ "path": self.file.path, "line": self.line, "match": pattern, "absent": true }),
            false => json!({ "path": self.file.path, "line": self.line, "match": pattern }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent && self.file.create).then(|| ProvidedItem::Path(self.file.path.clone())).into_iter().collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.file.path.clone()]
    }

    /// Two steps claim the same line if they have the same expression, or the same line.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        let own = self.pattern.as_ref().map_or(self.wanted_line(), LinePattern::source);
        vec![("line", format!("{} of {}", own, self.file.path))]
    }

    fn shared_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.file.path.clone())]
    }
}

impl TypedResource for LineResource {
    type Diff = EditedFileDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<EditedFileDiff> {
        self.file.assess(seen, cx, self.absent, |lines| self.edit_lines(lines))
    }

    fn act(&self, diff: &EditedFileDiff, cx: &AssessmentContext<'_>) -> Action {
        self.file.act(diff, cx)
    }

    fn undo(&self, _diff: &EditedFileDiff) -> UndoEffect {
        self.file.undo_edit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)], absent: bool) -> String {
        let fields = fields.iter().cloned().chain([("path", json!("/f"))]);
        build(&FieldValues(fields.collect()), absent).unwrap_err().message
    }

    #[test]
    fn invalid_line_fields_are_rejected() {
        assert_eq!(build_error(&[], false), "`line` is required");
        assert_eq!(build_error(&[], true), "`line` or `match` is required to remove a line");
        assert_eq!(build_error(&[("line", json!(""))], false), "`line` is empty");
        assert_eq!(
            build_error(&[("line", json!("a")), ("match", json!("*"))], false),
            "`match` is not a valid regular expression: repetition operator missing expression"
        );
        assert_eq!(
            build_error(&[("line", json!("a")), ("after", json!("x")), ("before", json!("y"))], false),
            "`after` and `before` exclude each other"
        );
        let mut secrets = crate::model::SecretStore::default();
        let token = secrets.insert("token", secrecy::SecretString::from("x".to_owned()));
        assert_eq!(
            build_error(&[("line", json!(token.0))], false),
            "`line` of a `line` contains a secret, and the file is shown as a diff"
        );
    }
}
