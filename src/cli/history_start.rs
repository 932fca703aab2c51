//! The start of a period, as typed.

use super::duration;
use jiff::civil::Date;
use std::str::FromStr;
use std::time::Duration;

/// Start of the period that a history covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryStart {
    Ago(Duration),
    Day(Date),
}

impl FromStr for HistoryStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ago = duration::parse_positive_duration(text).map(Self::Ago);
        ago.or_else(|_| text.parse().map(Self::Day))
            .map_err(|_: jiff::Error| "expected a duration such as `7d` or a date such as `2026-11-21`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_start_is_a_duration_or_a_date() {
        assert_eq!("7d".parse(), Ok(HistoryStart::Ago(Duration::from_secs(7 * 86_400))));
        assert_eq!("12h".parse(), Ok(HistoryStart::Ago(Duration::from_secs(12 * 3600))));
        assert_eq!("2026-11-21".parse(), Ok(HistoryStart::Day(Date::constant(2026, 11, 21))));
        for text in ["", "7", "d", "yesterday", "-7d"] {
            assert!(text.parse::<HistoryStart>().is_err(), "{text}");
        }
    }
}
