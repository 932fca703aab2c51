//! Unified diffs of file contents.

use crate::probe::BODY_CAP;
use similar::TextDiff;

/// Lines of context around each change.
const CONTEXT: usize = 3;

/// Returns the unified diff of two bodies without file headers, `None` if one of them is binary or larger than
/// `BODY_CAP`.
///
/// Lines end at `\n` only, so that a changed line ending appears as a changed line: the `\r` stays in the line, and the
/// output escapes it.
pub(in crate::resource) fn unified_diff(old: &[u8], new: &[u8]) -> Option<String> {
    let (old, new) = (as_readable_text(old)?, as_readable_text(new)?);
    let (old, new) = (split_lines(old), split_lines(new));
    let diff = TextDiff::configure().newline_terminated(true).diff_slices(&old, &new);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        text.push_str(&hunk.to_string());
    }
    Some(text)
}

/// Returns the text of a body that can be shown line by line.
fn as_readable_text(body: &[u8]) -> Option<&str> {
    (body.len() as u64 <= BODY_CAP && !body.contains(&0)).then(|| std::str::from_utf8(body).ok()).flatten()
}

fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Reports whether `body` is binary.
pub(in crate::resource) fn is_binary(body: &[u8]) -> bool {
    body.contains(&0) || std::str::from_utf8(body).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_shows_three_lines_of_context() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        assert_eq!(unified_diff(old.as_bytes(), new.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn diff_marks_a_missing_final_newline() {
        assert_eq!(unified_diff(b"a\n", b"a").unwrap(), "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
    }

    #[test]
    fn diff_shows_changed_line_endings() {
        assert_eq!(unified_diff(b"a\r\nb\n", b"a\nb\n").unwrap(), "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n");
    }

    #[test]
    fn diff_of_a_new_file_adds_every_line() {
        assert_eq!(unified_diff(b"", b"x\ny\n").unwrap(), "@@ -0,0 +1,2 @@\n+x\n+y\n");
    }

    #[test]
    fn binary_and_oversized_bodies_have_no_diff() {
        assert_eq!(unified_diff(b"\0", b"a"), None);
        assert_eq!(unified_diff(b"a", b"\xff"), None);
        assert_eq!(unified_diff(b"a", &vec![b'x'; BODY_CAP as usize + 1]), None);
        assert!(is_binary(b"\xff") && is_binary(b"a\0") && !is_binary("ä".as_bytes()));
    }
}
