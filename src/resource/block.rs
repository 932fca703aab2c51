//! `block`: several lines of a file that others own too, between two markers.

use super::edit::{BACKUP, CREATE, Edited, Found, Outcome, VALIDATE};
use super::lines::{AFTER, Anchor, BEFORE, Lines, no_secret, numbered};
use super::support::{bad_value, required, sha256_hex};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::{Code, Diag};
use crate::model::Value;
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "block",
    summary: "Lines between two markers in a text file whose other lines are somebody else's.",
    example: include_str!("examples/block.yaml"),
    doc: "\
The block stands between `# BEGIN forge NAME` and `# END forge NAME`; `comment` and `comment_end` say what makes these
lines comments in that file.

**Compared** are the lines between the markers. Nothing to do reads `the block is as declared`. Where the block stands
does not matter; a new one is inserted after the last line that matches `after`, before the first that matches
`before`, else at the end. An anchor that matches nothing blocks the step.

**Broken markers** block the step and are named: one without the other, several of one, an end before its
beginning, markers of another block inside. What was between them is not known then, and nothing is guessed.

**A change** works as with [`line`](line.md): the diff of the whole file is shown, the new body gets owner, mode, ACLs
and extended attributes of the old one, is judged by `validate` and renamed over it. The same limits hold: UTF-8 text, at
most 64 KiB, no symbolic link, no secrets.

**Removal** removes the block with its markers. The file stays, also when it is empty then.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("path", Type::Path, "The file."),
    Field::required("name", Type::Name, "Tells this block from others of the file."),
    Field::optional("content", Type::Text, "The lines of the block. Excludes `template`."),
    Field::optional("template", Type::LocalFile, "A file of the inventory's tree whose rendered text is the block."),
    Field::optional("comment", Type::Line, "What begins a comment in that file. Default `#`."),
    Field::optional("comment_end", Type::Line, "What ends a comment in that file (`-->`). Default: nothing."),
    AFTER,
    BEFORE,
    CREATE,
    VALIDATE,
    BACKUP,
];

#[derive(Debug)]
struct Block {
    file: Edited,
    name: String,
    content: String,
    begin: String,
    end: String,
    anchor: Anchor,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
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
        return Err(bad_value("the block holds a line that reads like a marker of a block"));
    }
    Ok(Box::new(Block {
        file: Edited::fields(fields, "block")?,
        name: name.to_owned(),
        begin: marker("BEGIN"),
        end: marker("END"),
        content,
        anchor: Anchor::fields(fields)?,
        absent,
    }))
}

fn is_marker(line: &str) -> bool {
    line.contains(" BEGIN forge ") || line.contains(" END forge ")
}

/// Where the markers of a block stand.
enum Markers {
    None,
    /// Indices of the two marker lines.
    Pair(usize, usize),
    Broken(String),
}

impl Block {
    fn markers(&self, lines: &Lines) -> Markers {
        let at = |marker: &str| lines.find(|line| line.trim() == marker);
        let (begins, ends) = (at(&self.begin), at(&self.end));
        match (begins.as_slice(), ends.as_slice()) {
            ([], []) => Markers::None,
            ([begin], [end]) if begin > end => {
                Markers::Broken(format!("the block ends in line {} before it begins in line {}", end + 1, begin + 1))
            }
            ([begin], [end]) => match lines.slice(begin + 1..*end).iter().position(|line| is_marker(line)) {
                None => Markers::Pair(*begin, *end),
                Some(inside) => Markers::Broken(format!(
                    "line {} inside of the block is a marker of another one",
                    begin + inside + 2
                )),
            },
            ([], some) => {
                Markers::Broken(format!("`{}` stands in {}, without `{}`", self.end, numbered(some), self.begin))
            }
            (some, []) => {
                Markers::Broken(format!("`{}` stands in {}, without `{}`", self.begin, numbered(some), self.end))
            }
            (begins, ends) => Markers::Broken(format!(
                "the block begins in {} and ends in {}: one of each is expected",
                numbered(begins),
                numbered(ends)
            )),
        }
    }

    fn edit(&self, lines: &Lines) -> Outcome {
        match (self.markers(lines), self.absent) {
            (Markers::Broken(reason), _) => Outcome {
                basis: json!({ "broken": reason }),
                reason,
                found: Found::Blocked { hint: "put the markers right by hand, or remove both".into(), to: None },
            },
            (Markers::None, true) => Outcome {
                reason: format!("there is no block `{}`, as declared", self.name),
                basis: json!({ "block": null }),
                found: Found::AsDeclared,
            },
            (Markers::None, false) => self.insert(lines),
            (Markers::Pair(begin, end), true) => self.remove(lines, begin, end),
            (Markers::Pair(begin, end), false) => self.compare(lines, begin, end),
        }
    }

    fn describe(&self) -> String {
        let count = self.content.lines().count();
        format!("{count} {}", if count == 1 { "line" } else { "lines" })
    }

    fn insert(&self, lines: &Lines) -> Outcome {
        let to = Some(self.describe());
        match self.anchor.place(lines) {
            Err(reason) => Outcome {
                reason,
                basis: json!({ "block": null, "anchor": false }),
                found: Found::Blocked {
                    hint: "the block has no place: correct the anchor, or leave it out".into(),
                    to,
                },
            },
            Ok(at) => {
                let mut new = lines.clone();
                new.insert(
                    at,
                    [self.begin.as_str()].into_iter().chain(self.content.lines()).chain([self.end.as_str()]),
                );
                Outcome {
                    reason: format!("there is no block `{}`", self.name),
                    basis: json!({ "block": null, "anchor": true }),
                    found: Found::Differs { from: None, to, text: new.text() },
                }
            }
        }
    }

    fn compare(&self, lines: &Lines, begin: usize, end: usize) -> Outcome {
        let inside = lines.slice(begin + 1..end);
        let basis = json!({ "block": sha256_hex(inside.join("\n").as_bytes()) });
        if inside.iter().copied().eq(self.content.lines()) {
            return Outcome { reason: "the block is as declared".into(), basis, found: Found::AsDeclared };
        }
        let mut new = lines.clone();
        (begin + 1..end).rev().for_each(|at| new.remove(at));
        new.insert(begin + 1, self.content.lines());
        let place = format!("lines {} to {}", begin + 1, end + 1);
        let reason = format!("the block in {place} differs");
        Outcome {
            reason,
            basis,
            found: Found::Differs { from: Some(place), to: Some(self.describe()), text: new.text() },
        }
    }

    fn remove(&self, lines: &Lines, begin: usize, end: usize) -> Outcome {
        let inside = lines.slice(begin + 1..end).join("\n");
        let mut new = lines.clone();
        (begin..=end).rev().for_each(|at| new.remove(at));
        let place = format!("lines {} to {}", begin + 1, end + 1);
        Outcome {
            reason: format!("the block is still there, in {place}"),
            basis: json!({ "block": sha256_hex(inside.as_bytes()) }),
            found: Found::Differs { from: Some(place), to: None, text: new.text() },
        }
    }
}

impl Resource for Block {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        format!("{} of {}", self.name, self.file.path)
    }

    fn probes(&self) -> Vec<Probe> {
        self.file.probes()
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        self.file.judge(seen, cx, self.absent, |lines| self.edit(lines))
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        self.file.act(judgement, cx)
    }

    fn desired(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.file.path, "block": self.begin, "absent": true }),
            false => json!({ "path": self.file.path, "block": self.begin, "content": self.content }),
        }
    }

    fn provides(&self) -> Vec<Provision> {
        (!self.absent && self.file.create).then(|| Provision::Path(self.file.path.clone())).into_iter().collect()
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
        build(&Fields(fields.collect()), false).unwrap_err().message
    }

    #[test]
    fn what_cannot_be_a_block_is_refused() {
        assert_eq!(refused(&[]), "a block needs `content` or `template`");
        assert_eq!(
            refused(&[("content", json!("")), ("template", json!(""))]),
            "`content` and `template` exclude each other"
        );
        assert_eq!(
            refused(&[("content", json!("a\n# END forge y\n"))]),
            "the block holds a line that reads like a marker of a block"
        );
    }
}
