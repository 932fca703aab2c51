//! Resolves plain scalars like PyYAML, which implements YAML 1.1: `yes` is true, `0644` is 420, `1:30` is 90.

use crate::model::Value;

/// Resolves a plain scalar. Returns a note if forge would read a different value from the same text.
pub(super) fn resolve_plain_scalar(text: &str) -> (Value, Option<String>) {
    if let Some(truth) = parse_boolean(text) {
        return (Value::Bool(truth), None);
    }
    match parse_integer(text) {
        Some(Some(number)) if number.to_string() == text => return (Value::from(number), None),
        Some(Some(number)) => {
            let note = format!("`{text}` is the number {number} in Ansible and is converted to it");
            return (Value::from(number), Some(note));
        }
        Some(None) => {
            return (
                Value::from(text),
                Some(format!("`{text}` is a number in Ansible, but too large for forge, which keeps the text")),
            );
        }
        None => {}
    }
    let note = is_fraction(text).then(|| format_fraction_note(text));
    (Value::from(text), note)
}

/// Returns the note on a fraction.
pub(super) fn format_fraction_note(text: &str) -> String {
    format!("`{text}` is a fraction in Ansible; forge does not support fractions and keeps the text")
}

fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Parses an integer in any notation. The inner `None` means that it is too large.
fn parse_integer(text: &str) -> Option<Option<i64>> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let all = |digits: &str, radix: u32| !digits.is_empty() && digits.chars().all(|c| c == '_' || c.is_digit(radix));
    let read = |digits: &str, radix| i64::from_str_radix(&digits.replace('_', ""), radix).ok();
    let value = match digits {
        "0" => Some(0),
        _ if digits.starts_with("0b") && all(&digits[2..], 2) => read(&digits[2..], 2),
        _ if digits.starts_with("0x") && all(&digits[2..], 16) => read(&digits[2..], 16),
        _ if digits.starts_with('0') && all(&digits[1..], 8) => read(digits, 8),
        _ if digits.starts_with(|c: char| matches!(c, '1'..='9')) && all(digits, 10) => read(digits, 10),
        _ => return parse_sexagesimal(digits).map(|value| Some(if negative { -value } else { value })),
    };
    Some(value.map(|value| if negative { -value } else { value }))
}

/// Parses a base-60 integer: `1:30` is 90.
fn parse_sexagesimal(digits: &str) -> Option<i64> {
    let mut parts = digits.split(':');
    let first = parts.next().filter(|part| part.starts_with(|c: char| matches!(c, '1'..='9')))?;
    let first: i64 = first.replace('_', "").parse().ok()?;
    let rest: Vec<&str> = parts.collect();
    let fits = |part: &&str| matches!(part.len(), 1 | 2) && part.parse::<u8>().is_ok_and(|n| n < 60);
    if rest.is_empty() || !rest.iter().all(fits) {
        return None;
    }
    rest.iter().try_fold(first, |sum, part| sum.checked_mul(60)?.checked_add(part.parse().ok()?))
}

fn is_fraction(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let Some((whole, rest)) = digits.split_once('.') else { return false };
    let counts = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '_');
    let (decimals, exponent) = match rest.split_once(['e', 'E']) {
        Some((decimals, exponent)) => (decimals, exponent.strip_prefix(['+', '-'])),
        None => (rest, Some("0")),
    };
    let starts = match whole {
        "" => text.starts_with('.') && decimals.starts_with(|c: char| c.is_ascii_digit()),
        _ => whole.starts_with(|c: char| c.is_ascii_digit()),
    };
    let exponent = exponent.is_some_and(|e| !e.is_empty() && e.chars().all(|c| c.is_ascii_digit()));
    starts && counts(whole) && counts(decimals) && exponent
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_resolve_as_in_pyyaml() {
        // origin: source, what yaml.safe_load of PyYAML 6.0 returns
        let numbers = [
            ("1", 1),
            ("0644", 420),
            ("0x1F", 31),
            ("0b11", 3),
            ("1_000", 1000),
            ("1:30", 90),
            ("-1:30", -90),
            ("+7", 7),
            ("0", 0),
        ];
        for (text, number) in numbers {
            assert_eq!(resolve_plain_scalar(text).0, json!(number), "{text}");
        }
        let texts =
            ["0o17", "08", "1e3", "y", "n", "1.2.3", "1:99", "2024-01-01", "10.0.0.1", "x", "-", "+", ".", "1.5e3"];
        for text in texts {
            assert_eq!(resolve_plain_scalar(text), (json!(text), None), "{text}");
        }
        for text in ["560.10", "1.", ".5", "1.0e+3", ".inf", "-.inf", "6_0.1"] {
            assert_eq!(resolve_plain_scalar(text), (json!(text), Some(format_fraction_note(text))), "{text}");
        }
        assert_eq!(resolve_plain_scalar("off"), (json!(false), None));
        assert_eq!(
            resolve_plain_scalar("0644").1.as_deref(),
            Some("`0644` is the number 420 in Ansible and is converted to it")
        );
    }
}
