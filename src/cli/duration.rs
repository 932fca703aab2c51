//! Durations as they are typed: `30s`, `10m`, `4h`.

use std::time::Duration;

/// Reads a whole number with a unit: `ms`, `s`, `m`, `h`.
///
/// # Errors
/// A lowercase fragment that says what is allowed.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(allowed()),
    };
    let number: u64 = number.parse().map_err(|_| allowed())?;
    match number.checked_mul(millis) {
        None | Some(0) => Err(allowed()),
        Some(millis) => Ok(Duration::from_millis(millis)),
    }
}

fn allowed() -> String {
    "a duration is a whole number from 1 with a unit: `500ms`, `30s`, `10m` or `4h`".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse("4h"), Ok(Duration::from_secs(14_400)));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", "10", "s", "0s", "-1s", "1.5s", "1d", "1 s", "99999999999999999999s", "18446744073709551615h"]
        {
            assert_eq!(parse(text), Err(allowed()), "{text}");
        }
    }
}
