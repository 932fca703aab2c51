//! The forms in which the output of programs and APIs shows a secret: as it is, escaped, or encoded.

use super::secret_lines::list_secret_parts;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use secrecy::SecretString;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The shortest value, in bytes, that is replaced: shorter ones occur in ordinary text.
const SHORTEST_VALUE: usize = 4;

/// How often a value may be quoted in a quotation: JSON in a string of JSON, which an error quotes.
const QUOTING_DEPTH: usize = 3;

/// Returns every text that shows `value`. None for a value that is too short to be told apart from ordinary text.
pub(super) fn list_secret_forms(value: &str) -> Vec<SecretString> {
    let mut forms = BTreeSet::new();
    if value.len() < SHORTEST_VALUE {
        return Vec::new();
    }
    add_quoted_forms(value, &mut forms);
    add_encoded_forms(value, &mut forms);
    let line = value.trim();
    if line.contains('\n') {
        // Output is often shown by line, and YAML indents the lines of a block.
        list_secret_parts(value).into_iter().for_each(|part| add_quoted_forms(part, &mut forms));
    } else if line != value && line.len() >= SHORTEST_VALUE {
        // A file of one line ends with a newline, which output lacks.
        add_quoted_forms(line, &mut forms);
        add_encoded_forms(line, &mut forms);
    }
    forms.into_iter().map(SecretString::from).collect()
}

fn add_encoded_forms(value: &str, forms: &mut BTreeSet<String>) {
    forms.extend([BASE64_STANDARD.encode(value), BASE64_STANDARD_NO_PAD.encode(value)]);
    forms.extend([BASE64_URL_SAFE_NO_PAD.encode(value), encode_for_url(value), value.replace('\'', r"'\''")]);
}

/// Adds a text and its quotations.
fn add_quoted_forms(text: &str, forms: &mut BTreeSet<String>) {
    let mut latest = BTreeSet::from([text.to_owned()]);
    for _ in 0..QUOTING_DEPTH {
        let quoted: BTreeSet<String> =
            latest.iter().flat_map(|text| QuotingStyle::ALL.map(|style| style.escape_text(text))).collect();
        forms.append(&mut latest);
        latest = quoted.into_iter().filter(|form| !forms.contains(form)).collect();
    }
    forms.append(&mut latest);
}

/// How a language writes a text between quotes.
#[derive(Clone, Copy, PartialEq)]
enum QuotingStyle {
    /// JSON as most programs write it, and YAML in double quotes.
    Json,
    /// JSON as Go and so Kubernetes and Helm write it: safe in HTML.
    JsonForHtml,
    /// JSON in ASCII, as Python writes it.
    JsonInAscii,
    /// `strconv.Quote` of Go, with which the Kubernetes API shows a rejected value.
    Go,
    /// `repr` of Python in single quotes, and `$'…'` of shells.
    SingleQuoted,
}

impl QuotingStyle {
    const ALL: [Self; 5] = [Self::Json, Self::JsonForHtml, Self::JsonInAscii, Self::Go, Self::SingleQuoted];

    fn escape_text(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.escape_char(c, &mut out);
        }
        out
    }

    fn escape_char(self, c: char, out: &mut String) {
        match c {
            '\\' => out.push_str(r"\\"),
            '\n' => out.push_str(r"\n"),
            '\r' => out.push_str(r"\r"),
            '\t' => out.push_str(r"\t"),
            '"' if self != Self::SingleQuoted => out.push_str("\\\""),
            '\'' if self == Self::SingleQuoted => out.push_str(r"\'"),
            '\u{7}' if self == Self::Go => out.push_str(r"\a"),
            '\u{b}' if self == Self::Go => out.push_str(r"\v"),
            '\u{8}' => out.push_str(r"\b"),
            '\u{c}' => out.push_str(r"\f"),
            _ if c.is_ascii_control() => self.escape_control(c, out),
            '<' | '>' | '&' if self == Self::JsonForHtml => escape_units(c, out),
            '\u{2028}' | '\u{2029}' if self == Self::JsonForHtml => escape_units(c, out),
            _ if self == Self::JsonInAscii && !c.is_ascii() => escape_units(c, out),
            _ => out.push(c),
        }
    }

    fn escape_control(self, c: char, out: &mut String) {
        let code = u32::from(c);
        // Writing to a `String` does not fail.
        let _ = match self {
            Self::Go | Self::SingleQuoted => write!(out, "\\x{code:02x}"),
            // JSON does not escape DEL.
            _ if code == 0x7f => write!(out, "{c}"),
            _ => write!(out, "\\u{code:04x}"),
        };
    }
}

/// Writes a character as one or two escapes of UTF-16, as JSON does.
fn escape_units(c: char, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a `String` does not fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// Returns a value as in the address of a URL: everything but letters, digits and `-._~` is encoded.
fn encode_for_url(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            // Writing to a `String` does not fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn has_form(value: &str, form: &str) -> bool {
        list_secret_forms(value).iter().any(|one| one.expose_secret() == form)
    }

    /// Each form is the output of the named program for this value.
    #[test]
    fn forms_are_those_that_programs_print() {
        let value = "Hun\"ter2 Sec\\ret<&>\t\u{e9}\u{1b}'x";
        let table = [
            ("jq", r#"Hun\"ter2 Sec\\ret<&>\té\u001b'x"#),
            ("encoding/json of Go", r#"Hun\"ter2 Sec\\ret\u003c\u0026\u003e\té\u001b'x"#),
            ("json.dumps of Python", r#"Hun\"ter2 Sec\\ret<&>\t\u00e9\u001b'x"#),
            ("%q of Go", r#"Hun\"ter2 Sec\\ret<&>\té\x1b'x"#),
            ("repr of Python", r#"Hun"ter2 Sec\\ret<&>\té\x1b\'x"#),
            ("a shell", "Hun\"ter2 Sec\\ret<&>\té\u{1b}'\\''x"),
            ("a URL", "Hun%22ter2%20Sec%5Cret%3C%26%3E%09%C3%A9%1B%27x"),
            ("JSON in JSON of Go", r#"Hun\\\"ter2 Sec\\\\ret\\u003c\\u0026\\u003e\\té\\u001b'x"#),
        ];
        for (program, form) in table {
            assert!(has_form(value, form), "{program}: {form}");
        }
        assert!(has_form("hunter2", "aHVudGVyMg==") && has_form("hunter2", "aHVudGVyMg"));
        assert!(!has_form("abc", "abc"), "too short");
    }

    #[test]
    fn long_lines_of_a_key_are_forms() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nshort\n-----END KEY-----\n";
        assert!(has_form(key, "MIIEvQIBADANBgkqhkiG9w0BAQ"));
        assert!(!has_form(key, "short") && !has_form(key, "-----BEGIN KEY-----"));
    }

    /// Its last newline is not in the output that shows it.
    #[test]
    fn value_of_one_line_has_the_forms_of_its_line() {
        assert!(has_form("hunter2\n", "hunter2") && has_form("hunter2\n", "aHVudGVyMg=="));
        assert!(!has_form("abc\n", "abc"), "too short");
    }

    /// Ordinary values do not cost more than a few searches.
    #[test]
    fn plain_value_has_few_forms() {
        assert_eq!(list_secret_forms("correct-horse").len(), 3);
    }
}
