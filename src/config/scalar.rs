//! Parsers for the text of scalars: one per type, shared by inventory, recipes and checks.

use super::{YamlData, YamlNode};
use crate::model::{SecretStore, Value};

/// Describes the value of `node`, for "expected …, found …".
pub(super) fn describe_node(node: &YamlNode) -> String {
    match &node.data {
        YamlData::Null => "nothing".to_owned(),
        YamlData::Seq(_) => "a list".to_owned(),
        YamlData::Map(_) => "a map".to_owned(),
        YamlData::Unknown(_) => "a value that is not known yet".to_owned(),
        YamlData::Scalar { text, quoted } => describe_scalar(text, *quoted),
    }
}

fn describe_scalar(text: &str, quoted: bool) -> String {
    let shown = shorten_text(text);
    match (quoted, parse_plain_scalar(text)) {
        (false, Value::Bool(_)) => format!("the boolean `{shown}`"),
        (false, Value::Number(_)) => format!("the number `{shown}`"),
        _ => format!("the text `{shown}`"),
    }
}

/// Shortens a value that a message quotes: a whole file body would hide the message. Shows secrets by their names.
pub(super) fn shorten_text(text: &str) -> String {
    const MAX: usize = 40;
    let text = SecretStore::mask_placeholders(text);
    match text.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Returns the value of a plain scalar. forge has no floating point numbers, and only integers in their shortest form
/// are numbers: `560.10`, `0644` and `1e3` stay text as typed.
pub(super) fn parse_plain_scalar(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => parse_int(text).map_or_else(|| Value::from(text), Value::from),
    }
}

/// Parses an integer in its shortest decimal form.
pub(super) fn parse_int(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// Parses `true` or `false`; `yes` and `on` are text.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Returns the boolean that a YAML 1.1 parser would have read.
pub(super) fn guess_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// Parses a duration in whole seconds. Fractions of a second are invalid: every limit in a file is in whole seconds.
pub(super) fn parse_whole_seconds(text: &str) -> Option<u64> {
    let duration = crate::model::parse_duration(text)?;
    (duration.subsec_nanos() == 0).then_some(duration.as_secs())
}

/// Parses permission bits from octal text of three or four digits.
pub(super) fn parse_mode(text: &str) -> Option<u32> {
    let octal = matches!(text.len(), 3 | 4) && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
    octal.then(|| u32::from_str_radix(text, 8).ok()).flatten()
}

/// Returns whether `text` is a valid name of a user, group, unit or package. Such names become command-line arguments.
pub(super) fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'@' | b':' | b'+' | b'-');
    !text.is_empty() && text.len() <= 255 && !text.starts_with('-') && text.bytes().all(inner)
}

/// Returns the normalised form of an absolute path on a host.
///
/// # Errors
/// Why the path is invalid, as a lowercase fragment.
pub(super) fn normalize_host_path(text: &str) -> Result<String, &'static str> {
    if !text.starts_with('/') {
        return Err("must be absolute");
    }
    if text.chars().any(char::is_control) {
        return Err("must not contain control characters");
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    match parts.contains(&"..") {
        true => Err("must not contain `..`"),
        false => Ok(format!("/{}", parts.join("/"))),
    }
}

/// Returns whether `text` contains template syntax.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

/// Returns the value of a tree as typed, for variables and defaults.
pub(super) fn node_to_value(node: &YamlNode) -> Value {
    match &node.data {
        YamlData::Null | YamlData::Unknown(_) => Value::Null,
        YamlData::Scalar { text, quoted: true } => Value::from(text.as_str()),
        YamlData::Scalar { text, quoted: false } => parse_plain_scalar(text),
        YamlData::Seq(items) => items.iter().map(node_to_value).collect(),
        YamlData::Map(entries) => {
            Value::Object(entries.iter().map(|(key, node)| (key.text.clone(), node_to_value(node))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_integers_become_numbers() {
        assert_eq!(parse_plain_scalar("535"), Value::from(535));
        assert_eq!(parse_plain_scalar("-1"), Value::from(-1));
        for text in ["560.10", "0644", "1e3", "+1", "0x10", "1_000", "yes", "-0", "99999999999999999999"] {
            assert_eq!(parse_plain_scalar(text), Value::from(text));
        }
    }

    #[test]
    fn file_durations_must_be_whole_seconds() {
        assert_eq!(parse_whole_seconds("1h30m"), Some(5400));
        assert_eq!(
            (parse_whole_seconds("1500ms"), parse_whole_seconds("2000ms"), parse_whole_seconds("30")),
            (None, Some(2), None)
        );
    }

    #[test]
    fn modes_names_and_paths_are_validated() {
        assert_eq!(parse_mode("0644"), Some(0o644));
        assert_eq!(parse_mode("4755"), Some(0o4755));
        assert!(["64", "0o644", "00644", "0888", ""].iter().all(|text| parse_mode(text).is_none()));
        assert!(is_name("getty@tty1.service") && !is_name("-x") && !is_name("a b") && !is_name(""));
        assert_eq!(normalize_host_path("/etc//x/./y/"), Ok("/etc/x/y".to_owned()));
        assert_eq!(normalize_host_path("/"), Ok("/".to_owned()));
        assert_eq!(normalize_host_path("etc/x"), Err("must be absolute"));
        assert_eq!(normalize_host_path("/etc/../x"), Err("must not contain `..`"));
    }
}
