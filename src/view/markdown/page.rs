//! A Markdown page of limited size, and escaping of text for it.

use crate::view::escape;
use std::fmt::Write as _;

/// Maximum length of a page in bytes. A GitHub comment has at most 65,536 characters, and the tool that posts it may
/// add a marker. GitLab allows more.
pub const MAX_PAGE_BYTES: usize = 65_000;

/// Bytes reserved for the line about omitted parts.
const CUT_NOTICE_BYTES: usize = 512;

/// Maximum lines of a block. More are counted.
const MAX_BLOCK_LINES: usize = 200;
/// Maximum bytes of a line of a block.
const MAX_LINE_BYTES: usize = 400;

/// A page that is written from start to end.
#[derive(Debug, Default)]
pub struct MarkdownPage {
    text: String,
    /// Number of parts that did not fit, by kind.
    cut: Vec<(&'static str, usize)>,
    /// Bytes reserved for a later part.
    reserved: usize,
}

impl MarkdownPage {
    /// Appends the first form of a part that fits; shorter forms come later in `forms`. If none fits, counts `what`.
    pub fn push_section(&mut self, what: &'static str, forms: &[String]) {
        let room = MAX_PAGE_BYTES.saturating_sub(CUT_NOTICE_BYTES + self.reserved + self.text.len());
        match forms.iter().position(|form| form.len() < room) {
            Some(0) => self.text += &forms[0],
            Some(at) => {
                self.text += &forms[at];
                self.count_cut("detail");
            }
            None => self.count_cut(what),
        }
    }

    /// Reserves bytes for a later part. 0 releases them.
    pub fn reserve(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    fn count_cut(&mut self, what: &'static str) {
        match self.cut.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => self.cut.push((what, 1)),
        }
    }

    /// Returns the page. If parts were cut, adds their counts and `whole`, which says where the complete data is.
    pub fn finish(mut self, whole: &str) -> String {
        if !self.cut.is_empty() {
            let parts: Vec<String> = self.cut.iter().map(|(what, n)| crate::view::format_count(*n, what)).collect();
            // Writing to a `String` cannot fail.
            let _ = writeln!(self.text, "\n**Cut to fit a comment: {}.** {whole}", parts.join(", "));
        }
        self.text
    }
}

/// Returns one line as a Markdown code span, cut after `limit` characters. Entities, tags, links and mentions have no
/// effect in it.
pub fn code_span(raw: &str, limit: usize) -> String {
    let text = escape::escape_truncated(raw, limit);
    let fence = "`".repeat(longest_backtick_run(&text) + 1);
    // Markdown strips one space next to each fence. The added spaces protect spaces and backticks of the text.
    match text.is_empty() {
        true => "(empty)".to_owned(),
        false => format!("{fence} {text} {fence}"),
    }
}

/// Returns a sentence as [`code_span`], with its backticks around names replaced by quotes.
pub fn prose_span(raw: &str, limit: usize) -> String {
    code_span(&raw.replace('`', "'"), limit)
}

/// Returns one line as HTML `<code>`. Everything except letters, digits and plain punctuation becomes an entity.
pub fn html_code(raw: &str, limit: usize) -> String {
    let mut out = String::from("<code>");
    for c in escape::escape_truncated(raw, limit).chars() {
        match c {
            c if c.is_ascii_alphanumeric() || " ,/;?-".contains(c) || !c.is_ascii() => out.push(c),
            // Writing to a `String` cannot fail.
            c => drop(write!(out, "&#{};", u32::from(c))),
        }
    }
    out + "</code>"
}

/// Returns a fenced block. Its fence is longer than any fence in the text. Lines beyond a limit are counted.
pub fn code_block(language: &str, raw: &str) -> String {
    fence_block(language, raw, MAX_BLOCK_LINES)
}

/// Returns a fenced block with all lines of a text.
pub fn uncut_code_block(language: &str, raw: &str) -> String {
    fence_block(language, raw, usize::MAX)
}

fn fence_block(language: &str, raw: &str, limit: usize) -> String {
    let lines: Vec<String> = escape::escape_block(raw).map(|line| clip_line(&line)).collect();
    let longest = lines.iter().map(|line| longest_backtick_run(line)).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let mut out = format!("{fence}{language}\n");
    for line in lines.iter().take(limit) {
        out += line;
        out.push('\n');
    }
    if lines.len() > limit {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "({} more lines)", lines.len() - limit);
    }
    out + &fence + "\n"
}

fn clip_line(line: &str) -> String {
    match line.char_indices().find(|(at, _)| *at >= MAX_LINE_BYTES) {
        None => line.to_owned(),
        Some((at, _)) => format!("{}… ({} more characters)", &line[..at], line[at..].chars().count()),
    }
}

/// Returns the length of the longest run of backticks.
fn longest_backtick_run(line: &str) -> usize {
    line.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_code_escapes_markup() {
        let hostile = "<img src=x onerror=a()> **b** [c](d) @user #1 `e` | &amp; http://g www.h.i \u{202e}j\n# k";
        let code = html_code(hostile, 500);
        let inside = code.strip_prefix("<code>").and_then(|rest| rest.strip_suffix("</code>")).unwrap();
        for active in ['<', '>', '*', '[', ']', '(', ')', '@', '`', '|', '\n', '\u{202e}', ':', '.'] {
            assert!(!inside.contains(active), "{active:?} in {inside}");
        }
        assert!(!inside.contains("&amp;"), "an entity in host text is plain text: {inside}");
    }

    #[test]
    fn code_span_cannot_be_closed_by_its_content() {
        assert_eq!(code_span("a", 9), "` a `");
        assert_eq!(code_span("`a``b", 9), "``` `a``b ```");
        assert_eq!(code_span("a\n\u{1b}", 9), "` a\\n\\x1b `");
        assert_eq!(code_span(&"abc".repeat(9), 1), "` a… (26 more characters) `");
        assert_eq!(code_span("", 9), "(empty)");
    }

    #[test]
    fn code_fence_cannot_be_closed_by_its_content() {
        let block = code_block("diff", "+```\n+````\n+</details>\n");
        assert!(block.starts_with("`````diff\n") && block.ends_with("\n`````\n"), "{block}");
    }

    #[test]
    fn omitted_sections_are_counted() {
        let mut page = MarkdownPage::default();
        let long = "x".repeat(MAX_PAGE_BYTES / 4);
        (0..6).for_each(|_| page.push_section("change", &[format!("{long}{long}"), long.clone()]));
        let text = page.finish("It is whole there.");
        assert!(text.len() <= MAX_PAGE_BYTES, "{}", text.len());
        assert!(
            text.ends_with("**Cut to fit a comment: 1 detail, 4 changes.** It is whole there.\n"),
            "{}",
            &text[text.len() - 120..]
        );
    }

    #[test]
    fn long_blocks_and_lines_are_truncated_with_a_count() {
        let block = code_block("", &format!("{}\n{}", "y".repeat(500), "z\n".repeat(300)));
        assert!(block.contains("… (100 more characters)") && block.contains("\n(101 more lines)\n"), "{block}");
    }
}
