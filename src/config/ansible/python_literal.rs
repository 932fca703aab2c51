//! Parses values of INI inventories: literals that Python's `ast.literal_eval` accepts, and plain text otherwise.

use super::inventory::AnsibleValue;
use super::yaml11_scalar::format_fraction_note;
use crate::model::Value;

/// Limit of nested brackets in Python's parser.
const MAX_BRACKET_LEVELS: usize = 200;

/// Parses `text` into a value, with a note if forge represents it differently.
pub(super) fn parse_literal(text: &str) -> (AnsibleValue, Option<String>) {
    let mut reader =
        PythonLiteralReader { rest: text.trim_start_matches([' ', '\t']), level: 0, note: None, lost: None };
    match reader.parse_whole() {
        Some(_) if reader.lost.is_some() => (AnsibleValue::Lost(reader.lost.unwrap_or_default()), None),
        Some(value) => (AnsibleValue::Value(value), reader.note),
        None => (AnsibleValue::Value(Value::from(text)), None),
    }
}

/// Parses a literal from the start of a text. `None` means "not a literal", which makes the whole text plain text.
struct PythonLiteralReader<'t> {
    rest: &'t str,
    /// Number of open brackets.
    level: usize,
    note: Option<String>,
    lost: Option<String>,
}

impl<'t> PythonLiteralReader<'t> {
    fn parse_whole(&mut self) -> Option<Value> {
        let value = match self.parse_value()? {
            value if self.take_char(',') => self.parse_tuple(value)?,
            value => value,
        };
        self.skip_blanks();
        (self.rest.is_empty() || self.rest.starts_with('#')).then_some(value)
    }

    fn parse_tuple(&mut self, first: Value) -> Option<Value> {
        let mut items = vec![first];
        while !self.is_at_end() {
            items.push(self.parse_value()?);
            if !self.take_char(',') {
                break;
            }
        }
        Some(Value::Array(items))
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_blanks();
        self.rest.is_empty() || self.rest.starts_with('#')
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\u{c}']);
    }

    fn take_char(&mut self, c: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn parse_value(&mut self) -> Option<Value> {
        self.skip_blanks();
        let first = self.rest.chars().next()?;
        let is_open = matches!(first, '[' | '(' | '{');
        if is_open && self.level == MAX_BRACKET_LEVELS {
            return None;
        }
        // A failure ends parsing, so the level needs no reset.
        self.level += usize::from(is_open);
        let value = self.parse_value_from(first)?;
        self.level -= usize::from(is_open);
        Some(value)
    }

    fn parse_value_from(&mut self, first: char) -> Option<Value> {
        match first {
            '[' => self.parse_list('[', ']').map(|(items, _)| Value::Array(items)),
            '(' => self.parse_list('(', ')').map(|(mut items, commas)| match (items.len(), commas) {
                (1, 0) => items.remove(0),
                _ => Value::Array(items),
            }),
            '{' => self.parse_map(),
            '+' | '-' | '.' | '0'..='9' => self.parse_number(),
            _ => self.parse_string().or_else(|| self.parse_keyword()),
        }
    }

    /// Returns the items and the number of commas.
    fn parse_list(&mut self, open: char, close: char) -> Option<(Vec<Value>, usize)> {
        self.take_char(open);
        let (mut items, mut commas) = (Vec::new(), 0);
        while !self.take_char(close) {
            items.push(self.parse_value()?);
            match self.take_char(',') {
                true => commas += 1,
                false if self.take_char(close) => break,
                false => return None,
            }
        }
        Some((items, commas))
    }

    fn parse_map(&mut self) -> Option<Value> {
        self.take_char('{');
        let mut map = serde_json::Map::new();
        while !self.take_char('}') {
            let key = self.parse_value()?;
            match self.take_char(':') {
                true => drop(map.insert(format_key(&key), self.parse_value()?)),
                false => self.lost = Some("is not converted: forge does not support Python sets".to_owned()),
            }
            if !self.take_char(',') {
                return self.take_char('}').then_some(Value::Object(map));
            }
        }
        Some(Value::Object(map))
    }

    fn parse_keyword(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let value = match &self.rest[..end] {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "None" => Value::Null,
            _ => return None,
        };
        self.rest = &self.rest[end..];
        Some(value)
    }

    fn parse_number(&mut self) -> Option<Value> {
        let text = self.rest;
        let mut negative = false;
        while let Some(sign) = self.rest.chars().next().filter(|c| matches!(c, '+' | '-')) {
            negative ^= sign == '-';
            self.rest = self.rest[1..].trim_start_matches([' ', '\t']);
        }
        let digits = scan_number_length(self.rest);
        let (number, rest) = self.rest.split_at(digits);
        let typed = &text[..text.len() - rest.len()];
        self.rest = rest;
        if number.is_empty() || rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.') {
            return None;
        }
        match parse_integer(number)? {
            Ok(value) => Some(Value::from(if negative { -value } else { value })),
            Err(UnsupportedNumber::Fraction) => {
                self.note = Some(format_fraction_note(typed));
                Some(Value::from(typed))
            }
            Err(UnsupportedNumber::TooLarge) => {
                self.lost = Some("is not converted: the number is too large for forge".to_owned());
                Some(Value::Null)
            }
        }
    }

    /// Parses adjacent strings, which Python concatenates.
    fn parse_string(&mut self) -> Option<Value> {
        let mut text = self.parse_string_token()?;
        loop {
            self.skip_blanks();
            let before = self.rest;
            match self.parse_string_token() {
                Some(more) => text.push_str(&more),
                None if self.rest == before => return Some(Value::from(text)),
                None => return None,
            }
        }
    }

    fn parse_string_token(&mut self) -> Option<String> {
        let prefix = self.rest.find(['\'', '"']).filter(|at| *at <= 2)?;
        let kind = self.rest[..prefix].to_ascii_lowercase();
        if !matches!(kind.as_str(), "" | "r" | "u" | "b" | "br" | "rb") {
            return None;
        }
        let quote = &self.rest[prefix..=prefix];
        let triple = quote.repeat(3);
        let quote = if self.rest[prefix..].starts_with(&triple) { triple.as_str() } else { quote };
        let body = &self.rest[prefix + quote.len()..];
        let end = find_closing_quote(body, quote)?;
        self.rest = &body[end + quote.len()..];
        if kind.contains('r') { Some(body[..end].to_owned()) } else { unescape_string(&body[..end]) }
    }
}

fn format_key(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn find_closing_quote(body: &str, quote: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &body[at..];
        if rest.starts_with(quote) {
            return Some(at);
        }
        let mut chars = rest.chars();
        let first = chars.next()?;
        let second = if first == '\\' { chars.next()?.len_utf8() } else { 0 };
        at += first.len_utf8() + second;
    }
}

fn unescape_string(body: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest[at + 1..].chars().next()?;
        rest = &rest[at + 1 + code.len_utf8()..];
        match code {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'v' => out.push('\u{b}'),
            '\\' | '\'' | '"' => out.push(code),
            'x' => rest = push_char_code(rest, 2, 16, &mut out)?,
            'u' => rest = push_char_code(rest, 4, 16, &mut out)?,
            'U' => rest = push_char_code(rest, 8, 16, &mut out)?,
            'N' => return None,
            '0'..='7' => {
                let octal = &body[body.len() - rest.len() - 1..];
                let length = octal.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
                rest = push_char_code(octal, length, 8, &mut out)?;
            }
            other => out.extend(['\\', other]),
        }
    }
    out.push_str(rest);
    Some(out)
}

fn push_char_code<'r>(rest: &'r str, length: usize, radix: u32, out: &mut String) -> Option<&'r str> {
    let digits = rest.get(..length)?;
    out.push(char::from_u32(u32::from_str_radix(digits, radix).ok()?)?);
    Some(&rest[length..])
}

/// Returns the length of the number at the start of `text`, in bytes.
fn scan_number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let based = bytes.first() == Some(&b'0') && bytes.get(1).is_some_and(|b| b"xXoObB".contains(b));
    let mut at = if based { 2 } else { 0 };
    while let Some(byte) = bytes.get(at) {
        let exponent = !based && at > 0 && matches!(bytes[at - 1], b'e' | b'E') && matches!(byte, b'+' | b'-');
        let fits = byte.is_ascii_digit()
            || *byte == b'_'
            || exponent
            || if based { byte.is_ascii_hexdigit() } else { matches!(byte, b'.' | b'e' | b'E') };
        if !fits {
            break;
        }
        at += 1;
    }
    at
}

enum UnsupportedNumber {
    Fraction,
    TooLarge,
}

/// Parses an integer. Returns an error for a fraction or an integer that is too large, and `None` if Python rejects it.
fn parse_integer(text: &str) -> Option<Result<i64, UnsupportedNumber>> {
    let lower = text.to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = lower.strip_prefix(prefix) {
            let digits = strip_underscores(digits.strip_prefix('_').unwrap_or(digits))?;
            return Some(i64::from_str_radix(&digits, radix).map_err(|_| UnsupportedNumber::TooLarge))
                .filter(|_| digits.chars().all(|c| c.is_digit(radix)));
        }
    }
    if lower.contains(['.', 'e']) {
        let plain: Vec<_> = lower.split(['.', 'e', '+', '-']).map(strip_underscores).collect();
        let sound = plain.iter().all(|part| part.is_some()) || lower.starts_with('.') || lower.contains('.');
        let parsed = sound && lower.replace('_', "").parse::<f64>().is_ok();
        return (parsed && !lower.contains("__")).then_some(Err(UnsupportedNumber::Fraction));
    }
    let digits = strip_underscores(&lower)?;
    let zeros = digits.len() > 1 && digits.starts_with('0') && digits.bytes().any(|b| b != b'0');
    (!zeros).then(|| digits.parse().map_err(|_| UnsupportedNumber::TooLarge))
}

/// Removes single underscores between digits. Returns `None` for any other underscore.
fn strip_underscores(text: &str) -> Option<String> {
    let odd = text.is_empty() || text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!odd).then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn literals_parse_as_in_python() {
        // origin: source, what ast.literal_eval of Python 3.11 returns, and text where it refuses
        let cases = [
            ("1", json!(1)),
            ("-5", json!(-5)),
            ("- 5", json!(-5)),
            ("007", json!("007")),
            ("00", json!(0)),
            ("0x1f", json!(31)),
            ("0o17", json!(15)),
            ("1_000", json!(1000)),
            ("1__0", json!("1__0")),
            ("10.0.0.1", json!("10.0.0.1")),
            ("1.5", json!("1.5")),
            ("560.10", json!("560.10")),
            ("1e3", json!("1e3")),
            ("True", json!(true)),
            ("true", json!("true")),
            ("yes", json!("yes")),
            ("None", json!(null)),
            ("'a b'", json!("a b")),
            ("\"a\" 'b'", json!("ab")),
            ("r'a\\n'", json!("a\\n")),
            ("'a\\nb\\x41\\101'", json!("a\nbAA")),
            ("f'x'", json!("f'x'")),
            ("'open", json!("'open")),
            ("[1, 'x', True]", json!([1, "x", true])),
            ("[1, 2,]", json!([1, 2])),
            ("[1 2]", json!("[1 2]")),
            ("(1)", json!(1)),
            ("(1,)", json!([1])),
            ("1, 2", json!([1, 2])),
            ("{'a': 1, 'b': [2]}", json!({"a": 1, "b": [2]})),
            ("{1: 'x', True: 'y'}", json!({"1": "x", "true": "y"})),
            ("{}", json!({})),
            ("1 # a comment", json!(1)),
            ("foo # a comment", json!("foo # a comment")),
            ("", json!("")),
            ("a=b", json!("a=b")),
            ("1if", json!("1if")),
            ("22.", json!("22.")),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_literal(text).0, AnsibleValue::Value(expected), "{text}");
        }
        assert_eq!(
            parse_literal("1.5").1.as_deref(),
            Some("`1.5` is a fraction in Ansible; forge does not support fractions and keeps the text")
        );
        assert!(matches!(parse_literal("{1, 2}").0, AnsibleValue::Lost(_)));
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(matches!(parse_literal(&nested(200)).0, AnsibleValue::Value(Value::Array(_))));
        // Python rejects deeper nesting, which makes it text. No text may overflow forge's stack.
        for text in [nested(201), "[".repeat(1_000_000), "{1:(".repeat(1_000_000)] {
            assert_eq!(parse_literal(&text).0, AnsibleValue::Value(Value::from(text.as_str())));
        }
        assert!(matches!(parse_literal("99999999999999999999").0, AnsibleValue::Lost(_)));
    }

    proptest! {
        #[test]
        fn literal_parser_never_panics(text in r#"[\[\]{}(),:'"\\rbuxN0-9._eE+\-# aTFé]{0,40}"#) {
            parse_literal(&text);
        }
    }
}
