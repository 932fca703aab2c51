//! `block`: managed lines between two markers, in a file that also has other content.

use crate::diag::{Diag, DiagCode};
use crate::model::{UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::edited_file::{
    BACKUP_FIELD, CREATE_FIELD, EditFinding, EditOutcome, EditedFile, EditedFileDiff, VALIDATE_FIELD,
};
use crate::resource::shared::support::{bad_value, required_text, sha256_hex};
use crate::resource::shared::text_lines::{
    AFTER_FIELD, BEFORE_FIELD, InsertAnchor, TextLines, format_line_numbers, reject_secret_edit,
};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "block",
    summary: "Managed lines between two markers in a text file; forge does not change the other lines.",
    example: include_str!("../examples/block.yaml"),
    doc: "\
The block is between the marker lines `# BEGIN forge NAME` and `# END forge NAME`; `comment` and `comment_end` set the
comment syntax of the file.

**Compares** the lines between the markers. An unchanged step reports `the block matches`. The position of an existing
block is not compared. A new block is inserted after the last line that matches `after`, before the first line that
matches `before`, or at the end of the file. An anchor without a match blocks the step.

**Broken markers** block the step and are listed: one marker without the other, duplicates, an end before its beginning,
or markers of another block inside. In that case the extent of the block is unknown and forge changes nothing.

**A change** works as for [`line`](line.md): the plan shows the diff of the whole file; the new content gets owner,
mode, ACLs and extended attributes of the old file, must pass `validate`, and is renamed over it. The same limits apply:
UTF-8 text, at most 64 KiB, no symbolic links, no secrets.

**Removal** removes the block with its markers. The file stays, even if it becomes empty.",
    fields: FIELDS,
    build,
    traits: KindTraits { explains_secrets: true, ..KindTraits::WRITES_FILES },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("path", FieldType::Path, "Path of the file."),
    FieldSpec::required("name", FieldType::Name, "Name of the block, unique in the file."),
    FieldSpec::optional("content", FieldType::Text, "Lines of the block. Excludes `template`."),
    FieldSpec::optional("template", FieldType::LocalFile, "Template in the inventory's tree; its output is the block."),
    FieldSpec::optional("comment", FieldType::Line, "Start of a comment in the file. Default `#`."),
    FieldSpec::optional("comment_end", FieldType::Line, "End of a comment in the file (`-->`). Default: empty."),
    AFTER_FIELD,
    BEFORE_FIELD,
    CREATE_FIELD,
    VALIDATE_FIELD,
    BACKUP_FIELD,
];

#[derive(Debug)]
struct BlockResource {
    file: EditedFile,
    name: String,
    content: String,
    begin: String,
    end: String,
    anchor: InsertAnchor,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secret_edit(KIND.name, fields)?;
    let name = required_text(fields, "name")?;
    let content = match (fields.get_text("content"), fields.get_text("template")) {
        (Some(_), Some(_)) => {
            return Err(Diag::error(DiagCode::Exclusive, "`content` and `template` exclude each other"));
        }
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) if absent => String::new(),
        (None, None) => return Err(Diag::error(DiagCode::MissingKey, "a block needs `content` or `template`")),
    };
    let marker = |word: &str| {
        let open = fields.get_text("comment").unwrap_or("#");
        let close = fields.get_text("comment_end").unwrap_or_default();
        format!("{open} {word} forge {name} {close}").trim().to_owned()
    };
    if content.lines().any(is_marker) {
        return Err(bad_value("`content` must not contain a block marker").with_field("content"));
    }
    Ok(Box::new(BlockResource {
        file: EditedFile::from_fields(fields, "block")?,
        name: name.to_owned(),
        begin: marker("BEGIN"),
        end: marker("END"),
        content,
        anchor: InsertAnchor::from_fields(fields)?,
        absent,
    }))
}

fn is_marker(line: &str) -> bool {
    line.contains(" BEGIN forge ") || line.contains(" END forge ")
}

/// Positions of the markers of a block.
enum BlockMarkers {
    None,
    /// Indices of the two marker lines.
    Pair(usize, usize),
    Broken(String),
}

impl BlockResource {
    fn find_markers(&self, lines: &TextLines) -> BlockMarkers {
        let at = |marker: &str| lines.find_indices(|line| line.trim() == marker);
        let (begins, ends) = (at(&self.begin), at(&self.end));
        match (begins.as_slice(), ends.as_slice()) {
            ([], []) => BlockMarkers::None,
            ([begin], [end]) if begin > end => BlockMarkers::Broken(format!(
                "the block ends in line {}, before it begins in line {}",
                end + 1,
                begin + 1
            )),
            ([begin], [end]) => match lines.slice(begin + 1..*end).iter().position(|line| is_marker(line)) {
                None => BlockMarkers::Pair(*begin, *end),
                Some(inside) => BlockMarkers::Broken(format!(
                    "line {} inside the block is a marker of another block",
                    begin + inside + 2
                )),
            },
            ([], some) => BlockMarkers::Broken(format!(
                "`{}` is in {}, but `{}` is missing",
                self.end,
                format_line_numbers(some),
                self.begin
            )),
            (some, []) => BlockMarkers::Broken(format!(
                "`{}` is in {}, but `{}` is missing",
                self.begin,
                format_line_numbers(some),
                self.end
            )),
            (begins, ends) => BlockMarkers::Broken(format!(
                "duplicate markers: begin markers in {}, end markers in {}",
                format_line_numbers(begins),
                format_line_numbers(ends)
            )),
        }
    }

    fn edit_lines(&self, lines: &TextLines) -> EditOutcome {
        match (self.find_markers(lines), self.absent) {
            (BlockMarkers::Broken(reason), _) => EditOutcome {
                basis: json!({ "broken": reason }),
                reason,
                found: EditFinding::Blocked { hint: "fix the markers manually, or remove both".into(), to: None },
            },
            (BlockMarkers::None, true) => EditOutcome {
                reason: format!("block `{}` does not exist", self.name),
                basis: json!({ "block": null }),
                found: EditFinding::AsDeclared,
            },
            (BlockMarkers::None, false) => self.insert_block(lines),
            (BlockMarkers::Pair(begin, end), true) => self.remove_block(lines, begin, end),
            (BlockMarkers::Pair(begin, end), false) => self.compare_block(lines, begin, end),
        }
    }

    fn describe_content(&self) -> String {
        let count = self.content.lines().count();
        format!("{count} {}", if count == 1 { "line" } else { "lines" })
    }

    fn insert_block(&self, lines: &TextLines) -> EditOutcome {
        let to = Some(self.describe_content());
        match self.anchor.insertion_index(lines) {
            Err(reason) => EditOutcome {
                reason,
                basis: json!({ "block": null, "anchor": false }),
                found: EditFinding::Blocked {
                    hint: "fix `after` or `before`, or remove it to append the block".into(),
                    to,
                },
            },
            Ok(at) => {
                let mut new = lines.clone();
                new.insert(
                    at,
                    [self.begin.as_str()].into_iter().chain(self.content.lines()).chain([self.end.as_str()]),
                );
                EditOutcome {
                    reason: format!("block `{}` does not exist", self.name),
                    basis: json!({ "block": null, "anchor": true }),
                    found: EditFinding::Differs { from: None, to, text: new.to_text() },
                }
            }
        }
    }

    fn compare_block(&self, lines: &TextLines, begin: usize, end: usize) -> EditOutcome {
        let inside = lines.slice(begin + 1..end);
        let basis = json!({ "block": sha256_hex(inside.join("\n").as_bytes()) });
        if inside.iter().copied().eq(self.content.lines()) {
            return EditOutcome { reason: "the block matches".into(), basis, found: EditFinding::AsDeclared };
        }
        let mut new = lines.clone();
        (begin + 1..end).rev().for_each(|at| new.remove(at));
        new.insert(begin + 1, self.content.lines());
        let place = format!("lines {} to {}", begin + 1, end + 1);
        let reason = format!("the block in {place} differs");
        EditOutcome {
            reason,
            basis,
            found: EditFinding::Differs { from: Some(place), to: Some(self.describe_content()), text: new.to_text() },
        }
    }

    fn remove_block(&self, lines: &TextLines, begin: usize, end: usize) -> EditOutcome {
        let inside = lines.slice(begin + 1..end).join("\n");
        let mut new = lines.clone();
        (begin..=end).rev().for_each(|at| new.remove(at));
        let place = format!("lines {} to {}", begin + 1, end + 1);
        EditOutcome {
            reason: format!("the block exists in {place}"),
            basis: json!({ "block": sha256_hex(inside.as_bytes()) }),
            found: EditFinding::Differs { from: Some(place), to: None, text: new.to_text() },
        }
    }
}

impl DeclaredResource for BlockResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        format!("{} of {}", self.name, self.file.path)
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.file.path.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        self.file.probes()
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.file.path, "block": self.begin, "absent": true }),
            false => json!({ "path": self.file.path, "block": self.begin, "content": self.content }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent && self.file.create).then(|| ProvidedItem::Path(self.file.path.clone())).into_iter().collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.file.path.clone()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("block", self.title())]
    }

    fn shared_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.file.path.clone())]
    }
}

impl TypedResource for BlockResource {
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

    fn build_error(fields: &[(&'static str, Value)]) -> String {
        let fields = fields.iter().cloned().chain([("path", json!("/f")), ("name", json!("x"))]);
        build(&FieldValues(fields.collect()), false).unwrap_err().message
    }

    #[test]
    fn invalid_block_fields_are_rejected() {
        assert_eq!(build_error(&[]), "a block needs `content` or `template`");
        assert_eq!(
            build_error(&[("content", json!("")), ("template", json!(""))]),
            "`content` and `template` exclude each other"
        );
        assert_eq!(
            build_error(&[("content", json!("a\n# END forge y\n"))]),
            "`content` must not contain a block marker"
        );
    }
}
