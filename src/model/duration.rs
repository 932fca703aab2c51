//! Durations in files and on the command line: `500ms`, `30s`, `10m`, `1h30m`, `2d`.

use std::time::Duration;

/// Valid forms of a duration, for messages.
pub const DURATION_FORM: &str = "write it like `30s`, `10m`, `4h`, `1h30m` or `2d`";

/// The same as a regular expression, for schemas. Only the parser checks that units descend and do not repeat.
pub const DURATION_PATTERN: &str = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";

/// Units from longest to shortest, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses whole numbers, each with its unit, the longest unit first. Returns `None` for anything else.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = 0u64;
    let mut units = UNITS.iter();
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, next) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let (_, millis) = units.find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*millis)?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(Duration::from_millis(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_only_in_canonical_form() {
        let cases = [
            ("500ms", 500),
            ("30s", 30_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "30",
            "s",
            "1m1h",
            "1m1m",
            "-1s",
            "1.5h",
            "1 s",
            "1w",
            "1é",
            "99999999999999999999s",
            "9999999999999999d",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
