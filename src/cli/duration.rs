//! Durations of flags: as in files ([`crate::model::parse_duration`]), but never zero.

use crate::model::{DURATION_FORM, parse_duration};
use std::time::Duration;

/// Parses a duration.
///
/// # Errors
/// Invalid or zero: a lowercase fragment that names the valid forms.
pub fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(Duration::ZERO) => Err("must be longer than zero".to_owned()),
        Some(duration) => Ok(duration),
        None => Err(format!("invalid duration: {DURATION_FORM}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_flags_accept_file_syntax_but_reject_zero() {
        assert_eq!(parse_positive_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_positive_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_positive_duration("0s"), Err("must be longer than zero".to_owned()));
        assert_eq!(
            parse_positive_duration("10"),
            Err("invalid duration: write it like `30s`, `10m`, `4h`, `1h30m` or `2d`".to_owned())
        );
    }
}
