//! `block`: managed lines between two markers, in a file that also has other content.

use super::edit::{BACKUP, CREATE, EditFinding, EditOutcome, EditedFile, VALIDATE};
use super::lines::{AFTER, BEFORE, InsertAnchor, TextLines, no_secret, numbered};
use super::support::{bad_value, required, sha256_hex};
use super::{
    Action, Assessment, AssessmentContext, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceKind,
};
use crate::diag::{Code, Diag};
use crate::model::Value;
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: ResourceKind = ResourceKind {
    name: "block",
    summary: "Managed lines between two markers in a text file; forge does not change the other lines.",
    example: include_str!("examples/block.yaml"),
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
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("path", FieldType::Path, "Path of the file."),
    FieldSpec::required("name", FieldType::Name, "Name of the block, unique in the file."),
    FieldSpec::optional("content", FieldType::Text, "Lines of the block. Excludes `template`."),
    FieldSpec::optional("template", FieldType::LocalFile, "Template in the inventory's tree; its output is the block."),
    FieldSpec::optional("comment", FieldType::Line, "Start of a comment in the file. Default `#`."),
    FieldSpec::optional("comment_end", FieldType::Line, "End of a comment in the file (`-->`). Default: empty."),
    AFTER,
    BEFORE,
    CREATE,
    VALIDATE,
    BACKUP,
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
    no_secret(KIND.name, fields)?;
    let name = required(fields, "name")?;
    let content = match (fields.text("content"), fields.text("template")) {
        (Some(_), Some(_)) => return Err(Diag::error(Code::Exclusive, "`content` and `template` exclude each other")),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) if absent => String::new(),
        (None, None) => return Err(Diag::error(Code::MissingKey, "a block needs `content` or `template`")),
    };
    let marker = |word: &str| {
        let open = fields.text("comment").unwrap_or("#");
        let close = fields.text("comment_end").unwrap_or_default();
        format!("{open} {word} forge {name} {close}").trim().to_owned()
    };
    if content.lines().any(is_marker) {
        return Err(bad_value("`content` must not contain a block marker"));
    }
    Ok(Box::new(BlockResource {
        file: EditedFile::fields(fields, "block")?,
        name: name.to_owned(),
        begin: marker("BEGIN"),
        end: marker("END"),
        content,
        anchor: InsertAnchor::fields(fields)?,
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
    fn markers(&self, lines: &TextLines) -> BlockMarkers {
        let at = |marker: &str| lines.find(|line| line.trim() == marker);
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
                numbered(some),
                self.begin
            )),
            (some, []) => BlockMarkers::Broken(format!(
                "`{}` is in {}, but `{}` is missing",
                self.begin,
                numbered(some),
                self.end
            )),
            (begins, ends) => BlockMarkers::Broken(format!(
                "duplicate markers: begin markers in {}, end markers in {}",
                numbered(begins),
                numbered(ends)
            )),
        }
    }

    fn edit(&self, lines: &TextLines) -> EditOutcome {
        match (self.markers(lines), self.absent) {
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
            (BlockMarkers::None, false) => self.insert(lines),
            (BlockMarkers::Pair(begin, end), true) => self.remove(lines, begin, end),
            (BlockMarkers::Pair(begin, end), false) => self.compare(lines, begin, end),
        }
    }

    fn describe(&self) -> String {
        let count = self.content.lines().count();
        format!("{count} {}", if count == 1 { "line" } else { "lines" })
    }

    fn insert(&self, lines: &TextLines) -> EditOutcome {
        let to = Some(self.describe());
        match self.anchor.place(lines) {
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
                    found: EditFinding::Differs { from: None, to, text: new.text() },
                }
            }
        }
    }

    fn compare(&self, lines: &TextLines, begin: usize, end: usize) -> EditOutcome {
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
            found: EditFinding::Differs { from: Some(place), to: Some(self.describe()), text: new.text() },
        }
    }

    fn remove(&self, lines: &TextLines, begin: usize, end: usize) -> EditOutcome {
        let inside = lines.slice(begin + 1..end).join("\n");
        let mut new = lines.clone();
        (begin..=end).rev().for_each(|at| new.remove(at));
        let place = format!("lines {} to {}", begin + 1, end + 1);
        EditOutcome {
            reason: format!("the block exists in {place}"),
            basis: json!({ "block": sha256_hex(inside.as_bytes()) }),
            found: EditFinding::Differs { from: Some(place), to: None, text: new.text() },
        }
    }
}

impl Resource for BlockResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        format!("{} of {}", self.name, self.file.path)
    }

    fn probes(&self) -> Vec<Probe> {
        self.file.probes()
    }

    fn judge(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment {
        self.file.judge(seen, cx, self.absent, |lines| self.edit(lines))
    }

    fn act(&self, judgement: &Assessment, cx: &AssessmentContext<'_>) -> Action {
        self.file.act(judgement, cx)
    }

    fn desired(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.file.path, "block": self.begin, "absent": true }),
            false => json!({ "path": self.file.path, "block": self.begin, "content": self.content }),
        }
    }

    fn provides(&self) -> Vec<ProvidedItem> {
        (!self.absent && self.file.create).then(|| ProvidedItem::Path(self.file.path.clone())).into_iter().collect()
    }

    fn inputs(&self) -> Vec<String> {
        vec![self.file.path.clone()]
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![("block", self.title())]
    }

    fn shares(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.file.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[(&'static str, Value)]) -> String {
        let fields = fields.iter().cloned().chain([("path", json!("/f")), ("name", json!("x"))]);
        build(&FieldValues(fields.collect()), false).unwrap_err().message
    }

    #[test]
    fn what_cannot_be_a_block_is_refused() {
        assert_eq!(refused(&[]), "a block needs `content` or `template`");
        assert_eq!(
            refused(&[("content", json!("")), ("template", json!(""))]),
            "`content` and `template` exclude each other"
        );
        assert_eq!(refused(&[("content", json!("a\n# END forge y\n"))]), "`content` must not contain a block marker");
    }
}
