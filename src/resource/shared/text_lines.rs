//! The text of a file as lines with their endings, and the position of a new line.

use crate::diag::{Diag, DiagCode};
use crate::model::SecretStore;
use crate::resource::shared::support::bad_value;
use crate::resource::{FieldSpec, FieldType, FieldValues};
use regex::Regex;

/// One line and its ending: `\n`, `\r\n`, or none.
#[derive(Clone, Debug, PartialEq)]
struct TextLine {
    text: String,
    end: &'static str,
}

/// A text that is edited line by line; untouched lines are preserved byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::resource) struct TextLines {
    lines: Vec<TextLine>,
    /// Ending of new lines, the same as the first line's.
    end: &'static str,
}

impl TextLines {
    pub fn parse(text: &str) -> Self {
        let lines: Vec<TextLine> = text.split_inclusive('\n').map(parse_line).collect();
        let end = lines.first().map(|line| line.end).filter(|end| !end.is_empty()).unwrap_or("\n");
        Self { lines, end }
    }

    pub fn to_text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.text.as_str(), line.end]).collect()
    }

    /// Returns the indices of lines for which `wanted` is true.
    pub fn find_indices(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        self.lines.iter().enumerate().filter(|(_, line)| wanted(&line.text)).map(|(at, _)| at).collect()
    }

    pub fn get(&self, at: usize) -> &str {
        self.lines.get(at).map_or("", |line| &line.text)
    }

    /// Returns the lines of `range`, each without its ending.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Vec<&str> {
        self.lines.get(range).unwrap_or_default().iter().map(|line| line.text.as_str()).collect()
    }

    pub fn replace(&mut self, at: usize, text: &str) {
        if let Some(line) = self.lines.get_mut(at) {
            text.clone_into(&mut line.text);
        }
    }

    pub fn remove(&mut self, at: usize) {
        if at < self.lines.len() {
            self.lines.remove(at);
        }
    }

    /// Inserts lines before index `at`, or at the end. Every new line gets an ending, and so does the line before it.
    pub fn insert<'t>(&mut self, at: usize, texts: impl IntoIterator<Item = &'t str>) {
        let at = at.min(self.lines.len());
        if let Some(before) = at.checked_sub(1).and_then(|before| self.lines.get_mut(before))
            && before.end.is_empty()
        {
            before.end = self.end;
        }
        let new = texts.into_iter().map(|text| TextLine { text: text.to_owned(), end: self.end });
        self.lines.splice(at..at, new);
    }
}

fn parse_line(whole: &str) -> TextLine {
    let (text, end) = match whole.strip_suffix('\n') {
        None => (whole, ""),
        Some(text) => text.strip_suffix('\r').map_or((text, "\n"), |text| (text, "\r\n")),
    };
    TextLine { text: text.to_owned(), end }
}

/// A declared regular expression for one line, with its source text.
#[derive(Clone, Debug)]
pub(in crate::resource) struct LinePattern(Regex);

impl LinePattern {
    pub fn from_field(fields: &FieldValues, name: &'static str) -> Result<Option<Self>, Diag> {
        let Some(text) = fields.get_text(name) else { return Ok(None) };
        Regex::new(text).map(Self).map(Some).map_err(|error| {
            let message = error.to_string();
            let why = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            bad_value(format!("`{name}` is not a valid regular expression: {why}"))
                .with_field(name)
                .hint("use the syntax of the Rust crate `regex`, without look-around and back-references")
        })
    }

    pub fn is_match(&self, line: &str) -> bool {
        self.0.is_match(line)
    }

    pub fn source(&self) -> &str {
        self.0.as_str()
    }
}

/// Position of a new line or block.
#[derive(Clone, Debug)]
pub(in crate::resource) enum InsertAnchor {
    End,
    /// After the last line that matches.
    After(LinePattern),
    /// Before the first line that matches.
    Before(LinePattern),
}

pub(in crate::resource) const AFTER_FIELD: FieldSpec =
    FieldSpec::optional("after", FieldType::Line, "A regular expression: insert after the last line that matches.");
pub(in crate::resource) const BEFORE_FIELD: FieldSpec =
    FieldSpec::optional("before", FieldType::Line, "A regular expression: insert before the first line that matches.");

impl InsertAnchor {
    pub fn from_fields(fields: &FieldValues) -> Result<Self, Diag> {
        match (LinePattern::from_field(fields, "after")?, LinePattern::from_field(fields, "before")?) {
            (None, None) => Ok(Self::End),
            (Some(after), None) => Ok(Self::After(after)),
            (None, Some(before)) => Ok(Self::Before(before)),
            (Some(_), Some(_)) => Err(Diag::error(DiagCode::Exclusive, "`after` and `before` exclude each other")),
        }
    }

    /// Returns the index of a new line, or the reason why there is none.
    pub fn insertion_index(&self, lines: &TextLines) -> Result<usize, String> {
        let missing = |name: &str, pattern: &LinePattern| format!("no line matches `{name}` (`{}`)", pattern.source());
        match self {
            Self::End => Ok(lines.lines.len()),
            Self::After(pattern) => {
                let last = lines.find_indices(|line| pattern.is_match(line)).pop();
                last.map(|at| at + 1).ok_or_else(|| missing("after", pattern))
            }
            Self::Before(pattern) => {
                let first = lines.find_indices(|line| pattern.is_match(line)).first().copied();
                first.ok_or_else(|| missing("before", pattern))
            }
        }
    }
}

/// Rejects secrets in edits of a file: forge transfers the body of that file and shows it as a diff.
pub(in crate::resource) fn reject_secret_edit(kind: &str, fields: &FieldValues) -> Result<(), Diag> {
    let held = fields.0.iter().find(|(_, value)| value.as_str().is_some_and(SecretStore::has_placeholder));
    held.map_or(Ok(()), |(name, _)| {
        Err(bad_value(format!("`{name}` of a `{kind}` contains a secret, and the file is shown as a diff"))
            .hint("declare the whole file with a `file` step: its body is compared by digest and never shown"))
    })
}

/// Returns line numbers, counted from 1: `line 3`, `lines 3 and 9`.
pub(in crate::resource) fn format_line_numbers(at: &[usize]) -> String {
    let numbers: Vec<String> = at.iter().map(|at| (at + 1).to_string()).collect();
    let word = if at.len() == 1 { "line" } else { "lines" };
    format!("{word} {}", crate::resource::shared::support::join_words(&numbers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #[test]
        fn unmodified_text_round_trips(text in "[ab\r\n]{0,20}") {
            prop_assert_eq!(TextLines::parse(&text).to_text(), text);
        }
    }

    fn insert_new_line(text: &str, at: usize) -> String {
        let mut lines = TextLines::parse(text);
        lines.insert(at, ["new"]);
        lines.to_text()
    }

    #[test]
    fn inserted_line_uses_the_existing_line_ending() {
        assert_eq!(insert_new_line("a\r\nb\r\n", 1), "a\r\nnew\r\nb\r\n");
        assert_eq!(insert_new_line("a\nb", 2), "a\nb\nnew\n");
        assert_eq!(insert_new_line("a\nb", 0), "new\na\nb");
        assert_eq!(insert_new_line("", 0), "new\n");
    }

    #[test]
    fn replaced_line_keeps_its_line_ending() {
        let mut lines = TextLines::parse("a\r\nb");
        lines.replace(0, "x");
        lines.replace(1, "y");
        assert_eq!(lines.to_text(), "x\r\ny");
    }

    #[test]
    fn invalid_regex_reports_the_parse_error() {
        let fields = FieldValues([("match", json!("a(b"))].into_iter().collect());
        let diag = LinePattern::from_field(&fields, "match").unwrap_err();
        assert_eq!(diag.message, "`match` is not a valid regular expression: unclosed group");
    }

    #[test]
    fn after_anchors_at_last_match_and_before_at_first() {
        let lines = TextLines::parse("x\ny\nx\n");
        let pattern = || LinePattern(Regex::new("x").unwrap());
        assert_eq!(InsertAnchor::After(pattern()).insertion_index(&lines), Ok(3));
        assert_eq!(InsertAnchor::Before(pattern()).insertion_index(&lines), Ok(0));
        let none = InsertAnchor::After(LinePattern(Regex::new("^z").unwrap()));
        assert_eq!(none.insertion_index(&lines), Err("no line matches `after` (`^z`)".to_owned()));
    }
}
