//! Escapes text from hosts for a terminal: control and invisible characters become visible escapes.
//!
//! Backslashes are not escaped, so that paths and expressions stay readable. An escape typed in the text and one added
//! here look alike; both are inert.

use crate::model::{SecretStore, UntrustedText};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes `text` for a single line: line breaks and tabs are shown as `\n` and `\t`.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| c == '\n' || c == '\t' || is_hidden_char(c))
}

/// Escapes one line of a block like [`line`], but keeps tabs.
pub fn escape_block_line(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| c == '\n' || is_hidden_char(c))
}

/// Returns the escaped lines of a block. Trailing empty lines are omitted.
pub fn escape_block(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.trim_end_matches('\n').split('\n').map(escape_block_line)
}

/// The longest rest that is printed instead of the note about it, which is not shorter.
const SHORT_REST: usize = 24;

/// Escapes `text` for a single line, cut after `limit` characters, with the number of omitted characters. A rest that is
/// no longer than the note about it is not cut.
pub fn escape_truncated(text: &str, limit: usize) -> String {
    let masked = mask_secrets(text);
    match masked.char_indices().nth(limit) {
        Some((cut, _)) if masked[cut..].chars().nth(SHORT_REST).is_some() => {
            let left_out = masked[cut..].chars().count();
            format!("{}… ({left_out} more characters)", escape_line(&masked[..cut]))
        }
        _ => escape_line(&masked).into_owned(),
    }
}

/// Escapes `text` for a single line, cut at the last blank within `limit` characters. For texts that are shown in full
/// elsewhere.
pub fn escape_cut_at_word(text: &str, limit: usize) -> String {
    let masked = mask_secrets(text);
    match masked.char_indices().nth(limit) {
        None => escape_line(&masked).into_owned(),
        Some((end, _)) => {
            let cut = masked[..end].rfind(' ').unwrap_or(end);
            format!("{} …", escape_line(masked[..cut].trim_end_matches([' ', ',', ';', ':'])))
        }
    }
}

/// Escapes a value for a single line, cut like [`escape_truncated`]. An empty value is shown as [`EMPTY_VALUE`], so that sentences have
/// no gaps.
pub fn escape_value(text: &str, limit: usize) -> String {
    match text.is_empty() {
        true => EMPTY_VALUE.to_owned(),
        false => escape_truncated(text, limit),
    }
}

/// The text shown for an empty value.
pub const EMPTY_VALUE: &str = "(empty)";

/// Escapes untrusted text for a single line.
pub fn escape_untrusted(text: &UntrustedText) -> Cow<'_, str> {
    escape_line(text.raw())
}

/// Reports whether a character acts on a terminal, reorders text or is invisible. Line feed and tab are not included:
/// callers decide whether to keep them.
pub fn is_hidden_char(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{feff}' => true,
        '\u{180b}'..='\u{180f}' => true,
        // Zero width, marks of direction, line and paragraph separators, bidi embeddings and overrides.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        // Invisible operators, bidi isolates, deprecated format characters, interlinear marks, noncharacters.
        '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' => true,
        // Variation selectors, tags, private use.
        '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => true,
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        _ => false,
    }
}

fn escape_chars(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    let masked = mask_secrets(text);
    if !masked.chars().any(&acts) {
        return masked;
    }
    let mut out = String::with_capacity(masked.len() + 16);
    for c in masked.chars() {
        match acts(c) {
            true => push_escaped_char(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Replaces placeholders of secrets by their names.
fn mask_secrets(text: &str) -> Cow<'_, str> {
    match SecretStore::has_placeholder(text) {
        true => Cow::Owned(SecretStore::mask_placeholders(text)),
        false => Cow::Borrowed(text),
    }
}

fn push_escaped_char(out: &mut String, c: char) {
    // Writing to a `String` cannot fail.
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    };
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Texts that a hostile host might print, with their escaped single lines.
    pub(crate) const HOSTILE: &[(&str, &str)] = &[
        ("plain", "plain"),
        ("\u{1b}[2J\u{1b}[H", r"\x1b[2J\x1b[H"),
        ("\u{1b}]0;owned\u{7}", r"\x1b]0;owned\x07"),
        ("\u{1b}]8;;http://evil\u{1b}\\link", "\\x1b]8;;http://evil\\x1b\\link"),
        ("a\rb", r"a\rb"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\u{8}\u{8}rm", r"\x08\x08rm"),
        ("\u{7f}", r"\x7f"),
        ("\0", r"\x00"),
        ("\u{9b}31m", r"\u{9b}31m"),
        ("\u{85}", r"\u{85}"),
        ("\u{202e}txt.exe", r"\u{202e}txt.exe"),
        ("\u{2066}x\u{2069}", r"\u{2066}x\u{2069}"),
        ("\u{200b}\u{200d}\u{feff}\u{2060}", r"\u{200b}\u{200d}\u{feff}\u{2060}"),
        ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
        ("\u{f0000}\u{10fffd}", r"\u{f0000}\u{10fffd}"),
        ("\u{e0041}", r"\u{e0041}"),
        ("a\u{ad}b", r"a\u{ad}b"),
        ("\u{e000}forge-secret:pw\u{e001}!", "(secret pw)!"),
        ("\u{e000}", r"\u{e000}"),
        ("grün 日本 🦀", "grün 日本 🦀"),
    ];

    #[test]
    fn control_and_hidden_characters_are_escaped_in_a_line() {
        for (raw, shown) in HOSTILE {
            assert_eq!(escape_line(raw), *shown);
            assert!(!escape_line(raw).chars().any(|c| is_hidden_char(c) || c == '\n' || c == '\t'), "{raw:?}");
        }
    }

    #[test]
    fn block_keeps_lines_and_tabs() {
        let lines: Vec<_> = escape_block("a\tb\n\u{1b}[31m\r\n\n\n").collect();
        assert_eq!(lines, ["a\tb", "\\x1b[31m\\r"]);
        assert_eq!(escape_block("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn long_text_is_truncated_with_a_count() {
        assert_eq!(escape_truncated("abcdef", 6), "abcdef");
        assert_eq!(escape_cut_at_word("abc: def ghi", 12), "abc: def ghi");
        assert_eq!(escape_cut_at_word("abc: def ghi", 10), "abc: def …");
        assert_eq!(escape_cut_at_word("abc: def ghi", 7), "abc …");
        let rest = "d".repeat(25);
        assert_eq!(escape_truncated(&format!("ab\n{rest}"), 3), "ab\\n… (25 more characters)");
        let short = &rest[1..];
        assert_eq!(escape_truncated(&format!("ab\n{short}"), 3), format!("ab\\n{short}"), "the note is as long");
    }

    #[test]
    fn truncation_never_splits_a_secret_placeholder() {
        let text = format!("x\u{e000}forge-secret:pw\u{e001}{}", "y".repeat(20));
        assert_eq!(escape_truncated(&text, 4), "x(se… (28 more characters)");
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(escape_line("plain"), Cow::Borrowed(_)));
    }
}
