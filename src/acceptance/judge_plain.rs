//! Judges the output of `ucx_perftest`, and of programs that print one number.

use super::judge::judge_transfer;
use super::verdict::{ExpectedValue, TestVerdict};

/// Reports whether `ucx_perftest` printed a row: one each second, and one at the end.
pub fn has_ucx_row(output: &str) -> bool {
    output.lines().any(|line| parse_row(line).is_some())
}

/// Judges `ucx_perftest -t tag_bw` by its last row, in Gb/s: of all messages until then. It prints MB/s of 1,048,576 bytes;
/// the message rate must agree, and the transfer must be long enough for its rate.
pub fn judge_ucx(output: &str, bytes: u64, expected: &ExpectedValue) -> TestVerdict {
    let Some(cells) = output.lines().rev().find_map(parse_row) else {
        return TestVerdict::not_measured("the output has no row");
    };
    let [messages, .., bandwidth, _, rate] = cells;
    let (gbits, sent) = (bandwidth * 1_048_576.0 * 8.0 / 1e9, rate * bytes as f64 * 8.0 / 1e9);
    // Both are rounded: the rate to whole messages, the bandwidth to 0.01.
    match (gbits - sent).abs() <= (sent * 0.01).max(bytes as f64 * 8.0 / 1e9) {
        true => judge_transfer(Some(messages), bytes, gbits, expected),
        false => TestVerdict::not_measured("the bandwidth does not agree with the message rate"),
    }
}

/// Returns iterations, three times, two bandwidths and two message rates, which follow `[thread 0]` or `Final:`, or nothing.
fn parse_row(line: &str) -> Option<[f64; 8]> {
    let line = line.trim().trim_start_matches("Final:").trim_start_matches("[thread 0]");
    let cells: Option<Vec<f64>> = line.split_whitespace().map(|cell| cell.parse().ok()).collect();
    cells?.try_into().ok()
}

/// Judges a program whose last line is a number.
pub fn judge_number(output: &str, expected: &ExpectedValue) -> TestVerdict {
    let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty());
    match last.and_then(|line| line.parse::<f64>().ok()).filter(|number| number.is_finite()) {
        Some(number) => expected.judge(number),
        None => TestVerdict::not_measured("the last line is not a number"),
    }
}

/// Returns a number of bytes: `65536`, `64K`, `16G`.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ucx_bandwidth_is_checked_against_the_message_rate() {
        let text = include_str!("../../tests/samples/ucx_perftest-tag_bw.txt");
        let expected = ExpectedValue::at_least(1.0, "Gb/s", "declared");
        let judged = judge_ucx(text, 65536, &expected);
        assert!(matches!(judged, TestVerdict::Pass { value, .. } if (value - 1.375).abs() < 0.001), "{judged:?}");
        let other_size = judge_ucx(text, 1 << 20, &expected);
        assert_eq!(other_size, TestVerdict::not_measured("the bandwidth does not agree with the message rate"));
        // The same rate with fewer messages: 0.5 s need 1312 of them.
        let short = judge_ucx(&text.replace("Final:                  3000", "Final: 1311"), 65536, &expected);
        let reason = "1311 messages of 65536 bytes take 0.4998 s at this rate: too short to measure (least 0.5 s)";
        assert_eq!(short, TestVerdict::not_measured(reason));
        // The limit stopped it after the first second.
        let (cut, _) = text.split_once("Final:").unwrap();
        let judged = judge_ucx(cut, 65536, &expected);
        assert!(matches!(judged, TestVerdict::Pass { value, .. } if (value - 1.208).abs() < 0.001), "{judged:?}");
        assert!(has_ucx_row(cut) && !has_ucx_row(cut.split_once("[thread 0]").unwrap().0));
        let refused = judge_ucx("client failed. connect() failed: Connection refused\n", 65536, &expected);
        assert_eq!(refused, TestVerdict::not_measured("the output has no row"));
    }

    #[test]
    fn last_line_is_the_number() {
        let expected = ExpectedValue::at_least(10.0, "", "declared");
        assert_eq!(judge_number("log\n12.5\n\n", &expected).value(), Some(12.5));
        assert_eq!(judge_number("12.5 GB/s\n", &expected), TestVerdict::not_measured("the last line is not a number"));
        assert_eq!(judge_number("inf\n", &expected).value(), None);
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(
            ["8", "64K", "16G", "1T", "", "K"].map(parse_size),
            [Some(8), Some(65536), Some(16 << 30), None, None, None]
        );
    }
}
