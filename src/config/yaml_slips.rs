//! Recognizes common slips behind a syntax error of YAML, whose parser only sees where it cannot go on.

use serde_saphyr::granit_parser::ErrorKind;

/// A slip that explains a syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlSlip {
    /// Its byte offset, if it is not where the parser stopped.
    pub offset: Option<usize>,
    /// How to correct it.
    pub hint: String,
}

impl YamlSlip {
    fn here(hint: impl Into<String>) -> Self {
        Self { offset: None, hint: hint.into() }
    }
}

/// Returns the slip behind the syntax error `kind` at a byte offset of `text`, if it looks like a known one.
pub(super) fn find_yaml_slip(text: &str, offset: usize, kind: &ErrorKind) -> Option<YamlSlip> {
    if let Some(place) = find_hard_blank(text, offset) {
        let hint =
            "this is a non-breaking space (U+00A0), which YAML does not read as a blank: replace it with a space";
        return Some(YamlSlip { offset: Some(place), hint: hint.to_owned() });
    }
    if let Some(range) = find_range_in_line(text, offset) {
        return Some(YamlSlip::here(format!("quote a range inside `{{ }}`: `\"…{range}\"`")));
    }
    if find_bare_template(text, offset) {
        return Some(YamlSlip::here("quote a value that contains `{{`"));
    }
    if let Some((key, value)) = find_unspaced_key(text, offset) {
        return Some(YamlSlip::here(format!("a colon needs a blank after it: `{key}: {value}`")));
    }
    match kind {
        ErrorKind::TabInPlainScalar => {
            Some(YamlSlip { offset: find_indenting_tab(text, offset), hint: "indent with spaces".to_owned() })
        }
        ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation => {
            Some(YamlSlip::here("indent with spaces"))
        }
        ErrorKind::InvalidTrailingDoubleQuotedScalar => Some(YamlSlip::here(
            "the text ends at the `\"` before this: put the whole text into single quotes, or write `\\\"` inside it",
        )),
        ErrorKind::InvalidTrailingSingleQuotedScalar => Some(YamlSlip::here(
            "the text ends at the `'` before this: put the whole text into double quotes, or write `''` inside it",
        )),
        _ if is_colon_in_text(text, offset) => Some(YamlSlip::here(
            "`: ` ends a key: quote the text, or write `|` and the text on the next line, indented",
        )),
        ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => {
            Some(YamlSlip::here("check the indentation: entries of one map or list start in the same column"))
        }
        _ => None,
    }
}

/// Returns the line that contains the byte at `offset`, and the offset of its start.
fn line_around(text: &str, offset: usize) -> Option<(usize, &str)> {
    let start = text.get(..offset)?.rfind('\n').map_or(0, |at| at + 1);
    Some((start, text[start..].lines().next().unwrap_or_default()))
}

/// Returns the offset of a non-breaking space where YAML expects a blank: in the indentation or after a dash or a colon,
/// in the line of the error or the one above.
fn find_hard_blank(text: &str, offset: usize) -> Option<usize> {
    let (start, line) = line_around(text, offset)?;
    let above = start.checked_sub(1).and_then(|end| line_around(text, end));
    above.into_iter().chain([(start, line)]).find_map(|(start, line)| {
        let mut blanks = line.match_indices('\u{a0}').map(|(at, _)| at);
        let is_structure = |at: &usize| {
            let before = &line[..*at];
            let marks = |c: char| c == ' ' || c == '-' || c == '\u{a0}';
            before.chars().all(marks) || (before.ends_with(':') && !before.contains(['"', '\'', '#']))
        };
        blanks.find(is_structure).map(|at| start + at)
    })
}

/// Returns a range like `[31:40]` after other text in the line of an error: inside braces, YAML reads its bracket as a
/// list.
fn find_range_in_line(text: &str, offset: usize) -> Option<&str> {
    let (_, line) = line_around(text, offset)?;
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let open = line
        .match_indices('[')
        .map(|(at, _)| at)
        .find(|at| line[..*at].ends_with(word) && line[..*at].contains('{'))?;
    let range = &line[open..=open + line[open..].find(']')?];
    range.contains(':').then_some(range)
}

/// Reports whether `{{` outside of quotes begins before the error, or at it, in its line.
fn find_bare_template(text: &str, offset: usize) -> bool {
    let Some((start, line)) = line_around(text, offset) else { return false };
    let mut open = None;
    for (at, c) in line.char_indices().take_while(|(at, _)| start + at <= offset) {
        match (c, open) {
            ('"' | '\'', None) if line[..at].ends_with([' ', '[', '{', ',']) => open = Some(c),
            (c, Some(quote)) if c == quote => open = None,
            ('{', None) if line[at..].starts_with("{{") => return true,
            _ => {}
        }
    }
    false
}

/// Returns key and value of a line like `cluster:lab`, which YAML reads as text: the line of an error, or the one above.
fn find_unspaced_key(text: &str, offset: usize) -> Option<(&str, &str)> {
    let end = text.get(offset..)?.find('\n').map_or(text.len(), |at| offset + at);
    let lines = text[..end].lines().rev().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.take(2).find_map(|line| {
        let (key, value) = line.trim_start_matches("- ").split_once(':')?;
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_key && value.starts_with(|c: char| c.is_ascii_alphanumeric())).then_some((key, value))
    })
}

/// Returns the offset of the tab that begins the line after a text that starts at `offset`, where the parser stops.
fn find_indenting_tab(text: &str, offset: usize) -> Option<usize> {
    let rest = text.get(offset..)?;
    let tab = rest.find('\t')?;
    let (_, before) = rest[..tab].rsplit_once('\n')?;
    before.chars().all(|c| c == ' ').then_some(offset + tab)
}

/// Reports whether the error is at a colon inside the text of a value.
fn is_colon_in_text(text: &str, offset: usize) -> bool {
    let at_colon = text.get(offset..).is_some_and(|rest| rest.starts_with(": "));
    at_colon && line_around(text, offset).is_some_and(|(start, line)| line[..offset - start].contains(": "))
}

#[cfg(test)]
mod tests {
    use crate::config::yaml::parse;
    use crate::diag::FileId;

    /// Returns the text from the place of the first error to the end of its line, and the hint.
    fn find_error(text: &str) -> (&str, String) {
        let mut diags = Vec::new();
        parse(FileId(0), text, &mut diags);
        let diag = diags.into_iter().next().expect("an error");
        let start = diag.span.expect("a place").start as usize;
        (text[start..].split('\n').next().unwrap_or_default(), diag.hint.unwrap_or_default())
    }

    fn check_hint(text: &str, place: &str, hint: &str) {
        let (found, said) = find_error(text);
        assert_eq!((found, said.as_str()), (place, hint), "{text}");
    }

    #[test]
    fn bare_template_after_other_text_gets_a_hint() {
        let quote = "quote a value that contains `{{`";
        let (_, hint) = find_error("file: { path: /etc/two-{{ item }}, content: \"{{ item }}\\n\" }\n");
        assert_eq!(hint, quote);
        let (_, hint) = find_error("file: { content: \"{{ item }}\", path: /etc/two: x }\n");
        assert_ne!(hint, quote, "it is quoted");
    }

    #[test]
    fn quote_inside_a_quoted_text_gets_a_hint() {
        let double =
            "the text ends at the `\"` before this: put the whole text into single quotes, or write `\\\"` inside it";
        check_hint("run: \"echo \"hi\"\"\n", "hi\"\"", double);
        let single =
            "the text ends at the `'` before this: put the whole text into double quotes, or write `''` inside it";
        check_hint("run: 'echo 'hi''\n", "hi''", single);
    }

    #[test]
    fn colon_in_a_command_gets_a_hint() {
        let hint = "`: ` ends a key: quote the text, or write `|` and the text on the next line, indented";
        check_hint("run: curl -H Host: x http://y\n", ": x http://y", hint);
        check_hint("command: { run: grep -q a: b /etc/x }\n", ": b /etc/x }", hint);
    }

    #[test]
    fn tab_is_reported_where_it_is() {
        check_hint("- name: one\n\tfile: x\n", "\tfile: x", "indent with spaces");
        check_hint("- name: one\n  file:\n\t  path: /x\n", "path: /x", "indent with spaces");
    }

    #[test]
    fn non_breaking_space_is_named_and_pointed_at() {
        let hint =
            "this is a non-breaking space (U+00A0), which YAML does not read as a blank: replace it with a space";
        check_hint("-\u{a0}name: one\n  file: x\n", "\u{a0}name: one", hint);
        check_hint("- name: one\n \u{a0}file: x\n", "\u{a0}file: x", hint);
        let (_, other) = find_error("a: \"x\u{a0}y\"\nb: [1\n");
        assert_ne!(other, hint, "part of a text");
    }
}
