//! Escapes text for HTML: markup becomes entities, control and invisible characters become visible escapes.

use crate::view::escape;
use std::fmt::Write as _;

/// Escapes one line of text for content and quoted attributes.
pub fn html_line(raw: &str) -> String {
    escape_entities(&escape::escape_line(raw))
}

/// Escapes one line of text, cut after `limit` characters, with the number of omitted characters.
pub fn html_truncated(raw: &str, limit: usize) -> String {
    escape_entities(&escape::escape_truncated(raw, limit))
}

/// Returns a value in `<code>`, cut like [`html_truncated`]. An empty value is shown as such.
pub fn html_value(raw: &str, limit: usize) -> String {
    match raw.is_empty() {
        true => format!("<em>{}</em>", escape::EMPTY_VALUE),
        false => format!("<code>{}</code>", html_truncated(raw, limit)),
    }
}

/// Escapes a sentence, cut like [`html_truncated`]. Text between backticks becomes code.
pub fn html_prose(raw: &str, limit: usize) -> String {
    let text = html_truncated(raw, limit);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text.replace('`', "&#96;");
    }
    let part = |(at, part): (usize, &&str)| match (at % 2, part.is_empty()) {
        (0, _) => (*part).to_owned(),
        (_, true) => String::new(),
        (_, false) => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

fn escape_entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// Percent-encodes text for a URL fragment in a quoted attribute: everything except ASCII letters, digits and `-._`.
pub fn encode_fragment(raw: &str) -> String {
    let mut out = String::new();
    for byte in raw.bytes() {
        match byte {
            b'-' | b'.' | b'_' => out.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            // Writing to a `String` cannot fail.
            byte => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::escape::tests::HOSTILE;
    use proptest::prelude::*;

    fn decode_entities(text: &str) -> String {
        let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
    }

    #[test]
    fn hostile_text_is_escaped_in_html() {
        for (raw, shown) in HOSTILE {
            assert_eq!(decode_entities(&html_line(raw)), *shown);
        }
    }

    proptest! {
        #[test]
        fn escaped_text_cannot_close_an_element_or_attribute(raw in any::<String>()) {
            let escaped = html_line(&raw);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'', '\n', '\0']), "{escaped}");
            prop_assert_eq!(decode_entities(&escaped), crate::view::escape::escape_line(&raw).into_owned());
        }

        #[test]
        fn every_ampersand_starts_a_generated_entity(raw in "[&;a-z#0-9<]{0,20}") {
            for rest in html_line(&raw).split('&').skip(1) {
                prop_assert!(["amp;", "lt;"].iter().any(|entity| rest.starts_with(entity)), "{rest}");
            }
        }

        #[test]
        fn url_fragment_has_only_safe_characters(raw in any::<String>()) {
            prop_assert!(encode_fragment(&raw).chars().all(|c| c.is_ascii_alphanumeric() || "%-._".contains(c)));
        }
    }
}
