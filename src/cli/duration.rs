//! Durations of flags: as in files ([`crate::model::parse_duration`]), and longer than nothing.

use crate::model::{DURATION_FORM, parse_duration};
use std::time::Duration;

/// Reads a duration.
///
/// # Errors
/// A lowercase fragment that says what is allowed.
pub fn parse(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(Duration::ZERO) => Err("a duration must be longer than zero".to_owned()),
        Some(duration) => Ok(duration),
        None => Err(format!("not a duration: {DURATION_FORM}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_take_what_files_take_but_not_zero() {
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("0s"), Err("a duration must be longer than zero".to_owned()));
        assert_eq!(parse("10"), Err("not a duration: write it like `30s`, `10m`, `4h`, `1h30m` or `2d`".to_owned()));
    }
}
