//! Parses times in a host's logs: some have a zone, others are in the host's local time.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Parses the zone of `/etc/localtime`, printed as hex; UTC if it is missing, like the C library.
pub fn parse_zone(hex: &str) -> TimeZone {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::try_from(pair.first()?.to_digit(16)? * 16 + pair.get(1)?.to_digit(16)?).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.and_then(|bytes| TimeZone::tzif("host", &bytes).ok()).unwrap_or(TimeZone::UTC)
}

/// Parses the local time `2026-11-22  03:10:04` in that zone.
pub fn parse_local_time(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let mut words = text.split_whitespace();
    let (day, time) = (words.next()?, words.next()?);
    let civil = DateTime::strptime("%Y-%m-%d %H:%M:%S", format!("{day} {time}")).ok()?;
    Some(civil.to_zoned(zone.clone()).ok()?.timestamp())
}

/// Parses `2026-11-22T03:10:04+0000`, also with `Z` or `+00`.
pub fn parse_iso_time(text: &str) -> Option<Timestamp> {
    let whole = match text.strip_suffix('Z') {
        Some(time) => format!("{time}+0000"),
        None if text.len() == "2026-11-22T03:10:04+00".len() => format!("{text}00"),
        None => text.to_owned(),
    };
    Timestamp::strptime("%Y-%m-%dT%H:%M:%S%z", whole).ok()
}

/// Parses systemd's format with `TZ=UTC`: `Sun 2026-11-22 03:04:30 UTC`.
pub fn parse_systemd_time(text: &str) -> Option<Timestamp> {
    let (_, rest) = text.trim().split_once(' ')?;
    parse_local_time(rest.strip_suffix(" UTC")?, &TimeZone::UTC)
}

/// Parses seconds since the epoch.
pub fn parse_epoch(text: &str) -> Option<Timestamp> {
    Timestamp::from_second(text.trim().parse().ok()?).ok()
}

/// Adds seconds to a time; returns it unchanged on overflow.
pub fn add_seconds(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(time)
}

/// Formats a time for display: RFC 3339, UTC, whole seconds.
pub fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: Option<Timestamp>) -> String {
        time.map_or_else(|| "none".to_owned(), format_time)
    }

    #[test]
    fn all_log_time_formats_are_parsed() {
        assert_eq!(at(parse_local_time("2026-11-22  03:10:04", &TimeZone::UTC)), "2026-11-22T03:10:04Z");
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(at(parse_local_time("2026-11-22 03:10:04", &berlin)), "2026-11-22T02:10:04Z");
        for text in
            ["2026-03-01T10:00:00+0000", "2026-03-01T10:00:00+00", "2026-03-01T10:00:00Z", "2026-03-01T07:00:00-0300"]
        {
            assert_eq!(at(parse_iso_time(text)), "2026-03-01T10:00:00Z", "{text}");
        }
        assert_eq!(at(parse_systemd_time("Sun 2026-11-22 03:04:30 UTC")), "2026-11-22T03:04:30Z");
        assert_eq!(at(parse_epoch("1795316353\n")), "2026-11-22T02:59:13Z");
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "yesterday",
            "2026-13-01 00:00:00",
            "2026-11-22",
            "Sun 2026-11-22 03:04:30 CET",
            "99999999999999999999",
        ] {
            assert_eq!(
                (
                    parse_local_time(text, &TimeZone::UTC),
                    parse_iso_time(text),
                    parse_systemd_time(text),
                    parse_epoch(text)
                ),
                (None, None, None, None),
                "{text}"
            );
        }
    }

    /// `/etc/localtime` of a node in Asia/Kolkata contains the rules of the zone, without its name.
    #[test]
    fn time_zone_is_parsed_from_localtime_rules() {
        // origin: `head -c 16384 /etc/localtime | od -An -v -tx1` with Etc/UTC on a Debian 12 node of the test fleet
        let utc = include_str!("../../../tests/samples/culprit/zone-utc.txt");
        let kolkata = include_str!("../../../tests/samples/culprit/zone-kolkata.txt");
        assert_eq!(at(parse_local_time("2026-11-22 03:10:04", &parse_zone(utc))), "2026-11-22T03:10:04Z");
        assert_eq!(at(parse_local_time("2026-11-22 03:10:04", &parse_zone(kolkata))), "2026-11-21T21:40:04Z");
        for garbage in ["", "zz", "54 5a", "54 5"] {
            assert_eq!(
                at(parse_local_time("2026-11-22 03:10:04", &parse_zone(garbage))),
                "2026-11-22T03:10:04Z",
                "{garbage}"
            );
        }
    }
}
