//! Text output of diagnostics: code, location, excerpt with a caret, notes and hint.

use super::{Diag, DiagSeverity, FileId, SourceMap, Span};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use std::ops::Range;

/// Locations in one file that are at most this many lines apart share an excerpt.
const MAX_EXCERPT_GAP: usize = 30;
/// Layout width of excerpts and messages, whatever the terminal, so that a pipe gets the same text.
const RENDER_WIDTH: usize = 120;

/// Renders one diagnostic as several lines, without a trailing newline. Characters that could act on a terminal (escape
/// sequences, bidi overrides) are shown as `\u{1b}`, in messages and in excerpts.
pub fn render_diag(diag: &Diag, sources: &SourceMap, color: bool) -> String {
    let layout = |renderer: Renderer| renderer.decor_style(DecorStyle::Ascii).term_width(RENDER_WIDTH);
    let excerpts = collect_excerpts(diag, sources);
    let level = match diag.severity {
        DiagSeverity::Error => Level::ERROR,
        DiagSeverity::Warning => Level::WARNING,
    };
    let mut group = level
        .primary_title(escape_control(&diag.message))
        .id(diag.code.id())
        .elements(excerpts.iter().map(SourceExcerpt::to_snippet));
    for note in &diag.notes {
        group = group.element(Level::NOTE.message(escape_control(note)));
    }
    if let Some(hint) = &diag.hint {
        group = group.element(Level::HELP.with_name("hint").message(escape_control(hint)));
    }
    let report: &[Group<'_>] = &[group];
    let plain = layout(Renderer::plain()).render(report);
    let text = if color { layout(Renderer::styled()).render(report) } else { plain.clone() };
    // A bare gutter without an excerpt is noise.
    let bare = |line: &str| excerpts.is_empty() && line.trim() == "|";
    let lines = text.lines().zip(plain.lines()).filter(|(_, plain)| !bare(plain));
    lines.map(|(line, _)| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Lines of a file with marks.
struct SourceExcerpt {
    path: String,
    first_line: usize,
    text: String,
    marks: Vec<ExcerptMark>,
}

struct ExcerptMark {
    kind: AnnotationKind,
    range: Range<usize>,
    label: Option<String>,
}

impl SourceExcerpt {
    fn to_snippet(&self) -> Snippet<'_, Annotation<'_>> {
        let marks = self.marks.iter().map(|mark| mark.kind.span(mark.range.clone()).label(mark.label.as_deref()));
        Snippet::source(self.text.as_str()).path(self.path.as_str()).line_start(self.first_line).annotations(marks)
    }
}

/// A location and its line, before locations are grouped.
struct LabeledSpan {
    span: Span,
    kind: AnnotationKind,
    label: Option<String>,
    line: usize,
}

fn collect_excerpts(diag: &Diag, sources: &SourceMap) -> Vec<SourceExcerpt> {
    let mut groups: Vec<Vec<LabeledSpan>> = Vec::new();
    for place in collect_labeled_spans(diag, sources) {
        let near = |group: &&mut Vec<LabeledSpan>| group.iter().any(|other| share_excerpt(other, &place));
        match groups.iter_mut().find(near) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups.iter().map(|group| build_excerpt(group, sources)).collect()
}

fn share_excerpt(a: &LabeledSpan, b: &LabeledSpan) -> bool {
    a.span.file == b.span.file && a.line.abs_diff(b.line) <= MAX_EXCERPT_GAP
}

fn collect_labeled_spans(diag: &Diag, sources: &SourceMap) -> Vec<LabeledSpan> {
    let place = |span: Span, kind, label: Option<&String>| LabeledSpan {
        span,
        kind,
        label: label.map(|text| escape_control(text)),
        line: sources.line_col(span).0,
    };
    let primary = diag.span.map(|span| place(span, AnnotationKind::Primary, diag.label.as_ref()));
    let others = diag.others.iter().map(|(span, label)| place(*span, AnnotationKind::Context, Some(label)));
    primary.into_iter().chain(others).collect()
}

fn build_excerpt(group: &[LabeledSpan], sources: &SourceMap) -> SourceExcerpt {
    let file = group[0].span.file;
    let whole = sources.text(file);
    let start = group.iter().map(|place| find_line_start(whole, place.span.start as usize)).min().unwrap_or(0);
    let end = group.iter().map(|place| find_line_end(whole, place.span.start as usize)).max().unwrap_or(0);
    let lines = ExcerptLines { file, start, text: &whole[start..end], sources };
    let marks = group.iter().map(|place| lines.build_mark(place, whole)).collect();
    let first_line = group.iter().map(|place| place.line).min().unwrap_or(1);
    SourceExcerpt { path: escape_control(file_path(sources, file)), first_line, text: lines.show_before(end), marks }
}

fn file_path(sources: &SourceMap, file: FileId) -> &str {
    sources.path(file).as_str()
}

/// What a secret in plain text is shown as, whatever its length.
const HIDDEN_TEXT: &str = "***";

struct ExcerptLines<'t> {
    file: FileId,
    start: usize,
    text: &'t str,
    sources: &'t SourceMap,
}

impl ExcerptLines<'_> {
    /// Marks only the first line of a location: a caret under a whole map is not helpful.
    fn build_mark(&self, place: &LabeledSpan, whole: &str) -> ExcerptMark {
        let start = place.span.start as usize;
        let end = (place.span.end as usize).clamp(start, find_line_end(whole, start));
        let shifted = |at: usize| self.show_before(at).len();
        ExcerptMark { kind: place.kind, range: shifted(start)..shifted(end), label: place.label.clone() }
    }

    /// Returns the text before byte `at` of the file as it is shown: escaped, and without hidden text. Line ends stay, so
    /// that the numbers of the lines do.
    fn show_before(&self, at: usize) -> String {
        let mut hiding = false;
        let shown = &self.text[..at - self.start];
        shown.char_indices().fold(String::with_capacity(shown.len()), |mut out, (index, c)| {
            let (begins, hidden) = (!hiding, self.sources.is_hidden(self.file, self.start + index));
            hiding = hidden;
            match hidden && c != '\n' {
                true if begins => out.push_str(HIDDEN_TEXT),
                true => {}
                false => out = push_escaped(out, c, c != '\n' && is_unsafe_char(c)),
            }
            out
        })
    }
}

fn find_line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn find_line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline)
}

/// Escapes control and bidi characters, newlines included, as `\u{…}`.
pub fn escape_control(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |out, c| push_escaped(out, c, is_unsafe_char(c)))
}

fn push_escaped(mut out: String, c: char, escaped: bool) -> String {
    match (c, escaped) {
        ('\t', _) => out.push_str("    "),
        (_, true) => out.extend(c.escape_unicode()),
        (_, false) => out.push(c),
    }
    out
}

/// Reports whether a character could move the cursor, or reorder or hide text.
fn is_unsafe_char(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{61c}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')
        || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::DiagCode;

    fn sources(text: &str) -> (SourceMap, FileId) {
        let mut sources = SourceMap::default();
        let file = sources.add_file("inventory.yaml", text);
        (sources, file)
    }

    fn span(file: FileId, start: u32, end: u32) -> Span {
        Span { file, start, end }
    }

    #[test]
    fn span_is_rendered_with_its_hint() {
        let (sources, file) = sources("cluster: a\nhosst:\n  x: ~\n");
        let diag = Diag::error(DiagCode::UnknownKey, "unknown key `hosst` in an inventory")
            .with_span(span(file, 11, 16))
            .hint("did you mean `hosts`?");
        assert_eq!(
            render_diag(&diag, &sources, false),
            "error[F0104]: unknown key `hosst` in an inventory\n --> inventory.yaml:2:1\n  |\n2 | hosst:\n  | ^^^^^\n  |\n  = hint: did you mean `hosts`?"
        );
    }

    #[test]
    fn distant_spans_are_rendered_separately() {
        let text = format!("a: 1\n{}a: 2\n", "# filler\n".repeat(40));
        let (sources, file) = sources(&text);
        let at = text.len() as u32 - 5;
        let diag = Diag::error(DiagCode::Duplicate, "`a` is named twice")
            .with_span(span(file, at, at + 1))
            .label("again")
            .with_other_span(span(file, 0, 1), "first");
        let text = render_diag(&diag, &sources, false);
        assert!(text.contains("42 | a: 2\n   | ^ again"), "{text}");
        assert!(text.contains(" 1 | a: 1\n   | - first"), "{text}");
    }

    #[test]
    fn control_characters_are_escaped() {
        let (sources, file) = sources("\u{202e}key\u{1b}[31m: 1\n");
        let diag = Diag::error(DiagCode::UnknownKey, "bad \u{1b}[2J\nkey").with_span(span(file, 3, 6));
        let text = render_diag(&diag, &sources, false);
        assert!(text.contains("bad \\u{1b}[2J\\u{a}key"), "{text}");
        assert!(text.contains("\\u{202e}key\\u{1b}[31m: 1"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }

    /// The other mark is behind the secret: it still points to its own word, which the shorter text moves.
    #[test]
    fn hidden_text_is_in_no_excerpt() {
        let (mut sources, file) = sources("a: { b: hunter2hunter2, c: { evn: X } }\nd: |\n  hunter2\n  hunter2\n");
        sources.hide_span(span(file, 8, 22));
        sources.hide_span(span(file, 43, 64));
        let diag = Diag::error(DiagCode::BadValue, "bad").with_span(span(file, 8, 22));
        let diag = diag.with_other_span(span(file, 29, 32), "here").with_other_span(span(file, 62, 63), "there");
        assert_eq!(
            render_diag(&diag, &sources, false),
            "error[F0107]: bad\n --> inventory.yaml:1:9\n  |\n1 | a: { b: ***, c: { evn: X } }\n  |         ^^^       --- here\n2 | d: ***\n3 |\n  | - there"
        );
    }

    #[test]
    fn span_at_end_of_file_is_rendered() {
        let (sources, file) = sources("a: [1,");
        let text = render_diag(&Diag::error(DiagCode::Yaml, "unclosed").with_span(span(file, 6, 6)), &sources, false);
        assert!(text.starts_with("error[F0102]: unclosed\n --> inventory.yaml:1:7"), "{text}");
    }
}
