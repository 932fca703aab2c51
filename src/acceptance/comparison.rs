//! Compares values with an earlier run of the same machines, and with those of their peers: a slow part is found
//! without a declared limit.

use super::verdict::{ExpectedValue, format_number};

/// How far a value may be below the last accepted one (microsoft/superbench-results, `rule.yaml`).
pub const BASELINE_DROP: f64 = 0.05;

/// Returns why a value is worse than an earlier one by more than `drop`; `None` if it is not.
pub fn compare_with_baseline(value: f64, baseline: f64, more_is_better: bool, drop: f64) -> Option<String> {
    let limit = if more_is_better { baseline * (1.0 - drop) } else { baseline * (1.0 + drop) };
    let is_worse = if more_is_better { value < limit } else { value > limit };
    let loss = (value / baseline - 1.0).abs();
    (is_worse && baseline > 0.0).then(|| {
        format!(
            "{} is {:.1} % worse than {} of the earlier run (limit {} %)",
            format_number(value),
            loss * 100.0,
            format_number(baseline),
            format_number(drop * 100.0)
        )
    })
}

/// Returns the median; `None` without values.
pub(super) fn find_median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Returns the expectation for each value: not worse than the median of all by more than `drop`.
///
/// # Errors
/// Why values cannot be compared: fewer than three above 0 have no majority, and programs that print 0 measured nothing.
pub fn expect_peers(values: &[f64], more_is_better: bool, drop: f64, unit: &str) -> Result<ExpectedValue, String> {
    let measured: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
    let Some(median) = find_median(&measured).filter(|_| measured.len() >= 3) else {
        let above = if measured.len() < values.len() { " above 0" } else { "" };
        return Err(format!("fewer than three results{above}: too few to compare"));
    };
    let side = if more_is_better { "below" } else { "above" };
    let percent = format_number(drop * 100.0);
    let origin = format!("{percent} % {side} the median {} of {} results", format_number(median), measured.len());
    Ok(match more_is_better {
        true => ExpectedValue::at_least(median * (1.0 - drop), unit, &origin),
        false => ExpectedValue::at_most(median * (1.0 + drop), unit, &origin),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_below_the_baseline_is_reported() {
        assert_eq!(compare_with_baseline(361.0, 380.0, true, BASELINE_DROP), None);
        let worse = compare_with_baseline(360.0, 380.0, true, BASELINE_DROP).unwrap();
        assert_eq!(worse, "360 is 5.3 % worse than 380 of the earlier run (limit 5 %)");
        assert_eq!(compare_with_baseline(390.0, 380.0, true, BASELINE_DROP), None);
        assert_eq!(compare_with_baseline(2.0, 2.2, false, BASELINE_DROP), None);
        assert!(compare_with_baseline(2.4, 2.2, false, BASELINE_DROP).is_some(), "a latency that grew");
    }

    #[test]
    fn slow_peer_is_found_without_a_floor() {
        let rail = [392.0, 391.0, 350.0, 393.0, 300.0];
        let expected = expect_peers(&rail, true, 0.05, "Gb/s").unwrap();
        assert_eq!(expected.to_string(), "at least 371.45 Gb/s (5 % below the median 391 of 5 results)");
        let latency = expect_peers(&[1.9, 1.8, 2.6], false, 0.05, "us").unwrap();
        assert_eq!(latency.to_string(), "at most 1.99 us (5 % above the median 1.9 of 3 results)");
        let why = |values: &[f64]| expect_peers(values, true, 0.05, "Gb/s").unwrap_err();
        assert_eq!(why(&[392.0, 300.0]), "fewer than three results: too few to compare");
        let nothing = "fewer than three results above 0: too few to compare";
        assert_eq!((why(&[0.0, 0.0, 12.0]), why(&[-100.0; 3])), (nothing.to_owned(), nothing.to_owned()));
        let without = expect_peers(&[0.0, 391.0, 392.0, 390.0], true, 0.05, "Gb/s").unwrap();
        assert_eq!(without, expect_peers(&[391.0, 392.0, 390.0], true, 0.05, "Gb/s").unwrap());
        assert_eq!((find_median(&[]), find_median(&[1.0, 4.0])), (None, Some(2.5)));
    }
}
