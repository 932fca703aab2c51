//! Splits a line into words like Python's `shlex.split(comments=True)`: a `#` outside quotes starts a comment, even
//! inside a word.

/// Splits a line into words.
///
/// # Errors
/// An unclosed quote or a trailing backslash, as a lowercase fragment.
pub(super) fn split_words(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut chars = line.chars();
    let mut word: Option<String> = None;
    while let Some(c) = chars.next() {
        match c {
            '#' => break,
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\'' | '"' => take_quoted(c, &mut chars, word.get_or_insert_default())?,
            '\\' => {
                let next = chars.next().ok_or("trailing backslash")?;
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads text up to the closing quote. A backslash escapes only in double quotes, and only `"` and itself.
fn take_quoted(quote: char, chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), &'static str> {
    const OPEN: &str = "unclosed quote";
    loop {
        match chars.next().ok_or(OPEN)? {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => {
                let next = chars.next().ok_or(OPEN)?;
                if next != '\\' && next != '"' {
                    word.push('\\');
                }
                word.push(next);
            }
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_split_as_in_python_shlex() {
        // origin: source, what shlex.split(TEXT, comments=True) of Python 3.11 returns
        let cases: &[(&str, &[&str])] = &[
            ("a b=1", &["a", "b=1"]),
            ("a b='x y' c=\"z\"", &["a", "b=x y", "c=z"]),
            ("a b=x#y c=1", &["a", "b=x"]),
            ("a # b", &["a"]),
            ("a 'b#c'", &["a", "b#c"]),
            (r#"a b="x\"y\n" c=x\ y"#, &["a", r#"b=x"y\n"#, "c=x y"]),
            ("a b=''", &["a", "b="]),
            ("a ''", &["a", ""]),
        ];
        for (line, words) in cases {
            assert_eq!(split_words(line).unwrap(), *words, "{line}");
        }
        assert_eq!(split_words("a 'b").unwrap_err(), "unclosed quote");
        assert_eq!(split_words("a b\\").unwrap_err(), "trailing backslash");
    }
}
