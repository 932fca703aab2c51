//! `ib_write_bw`, `ib_read_lat` and similar tools: bandwidth and latency between two adapters.
//!
//! Columns are found by the header, not by position. The unit in the header is checked against the message rate: a
//! server that was not started with the option for gigabits prints its client's gigabits under a header of megabytes.

/// One row of a bandwidth test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandwidthRow {
    /// Message size in bytes.
    pub bytes: u64,
    /// Number of messages; `None` if the test does not print it.
    pub iterations: Option<u64>,
    /// Average in Gb/s. `None` if neither unit fits the message rate.
    pub gbits: Option<f64>,
}

/// One row of a latency test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyRow {
    /// Message size in bytes.
    pub bytes: u64,
    /// The typical latency, in µs.
    pub typical: f64,
    /// 99 % of all messages were at most this slow, in µs. `None` if the test does not print it.
    pub percentile_99: Option<f64>,
}

/// The largest message size that measures latency: above it, the transfer takes most of the time.
const MAX_LATENCY_BYTES: u64 = 64;

impl LatencyRow {
    /// Returns whether the row measures latency.
    pub fn is_small_message(&self) -> bool {
        self.bytes <= MAX_LATENCY_BYTES
    }
}

/// Returns every row of a bandwidth test; lines about the processor's clock in between are skipped.
pub fn parse_bandwidth(text: &str) -> Vec<BandwidthRow> {
    parse_rows(text).iter().filter_map(|row| row.to_bandwidth()).collect()
}

/// Returns every row of a latency test.
pub fn parse_latency(text: &str) -> Vec<LatencyRow> {
    parse_rows(text).iter().filter_map(|row| row.to_latency()).collect()
}

/// Numbers by their column headers.
struct PerftestRow<'a>(Vec<(String, &'a str)>);

fn parse_rows(text: &str) -> Vec<PerftestRow<'_>> {
    let mut heads: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines().map(str::trim) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("#bytes") {
            heads = join_heads(&cells);
        } else if !heads.is_empty()
            && cells.len() == heads.len()
            && cells.iter().all(|cell| cell.parse::<f64>().is_ok())
        {
            rows.push(PerftestRow(heads.iter().cloned().zip(cells).collect()));
        }
    }
    rows
}

/// Joins column headers of two words: `BW peak[Gb/sec]`, `99% percentile[usec]`.
fn join_heads(words: &[&str]) -> Vec<String> {
    let mut heads: Vec<String> = Vec::new();
    for word in words {
        match heads.last_mut().filter(|head| *head == "BW" || head.ends_with('%')) {
            Some(head) => *head = format!("{head} {word}"),
            None => heads.push((*word).to_owned()),
        }
    }
    heads
}

impl PerftestRow<'_> {
    fn find_column(&self, start: &str) -> Option<(&str, f64)> {
        let (head, cell) = self.0.iter().find(|(head, _)| head.starts_with(start))?;
        Some((head, cell.parse().ok()?))
    }

    fn message_size(&self) -> Option<u64> {
        self.0.iter().find(|(head, _)| head == "#bytes")?.1.parse().ok()
    }

    fn to_bandwidth(&self) -> Option<BandwidthRow> {
        let bytes = self.message_size()?;
        let (head, average) = self.find_column("BW average")?;
        let declared = if head.contains("Gb/sec") { average } else { average * 1_048_576.0 * 8.0 / 1e9 };
        let gbits = match self.find_column("MsgRate") {
            None => Some(declared),
            Some((_, rate)) => {
                let sent = rate * 1e6 * bytes as f64 * 8.0 / 1e9;
                [declared, average].into_iter().find(|gbits| (gbits - sent).abs() <= sent * 0.01)
            }
        };
        let iterations = self.find_column("#iterations").map(|(_, count)| count as u64);
        Some(BandwidthRow { bytes, iterations, gbits })
    }

    fn to_latency(&self) -> Option<LatencyRow> {
        let (_, typical) = self.find_column("t_typical")?;
        let percentile_99 = self.find_column("99% ").map(|(_, value)| value);
        Some(LatencyRow { bytes: self.message_size()?, typical, percentile_99 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_rows_are_found_among_clock_warnings() {
        let rows = parse_bandwidth(include_str!("../../../tests/samples/ib_write_bw.txt"));
        assert_eq!(rows, [BandwidthRow { bytes: 65536, iterations: Some(5000), gbits: Some(92.40) }]);
    }

    #[test]
    fn bandwidth_unit_is_checked_against_message_rate() {
        let server = parse_bandwidth(include_str!("../../../tests/samples/ib_write_bw-server.txt"));
        let expected = BandwidthRow { bytes: 8_388_608, iterations: Some(5000), gbits: Some(375.31) };
        assert_eq!(server, [expected], "gigabits under a header of MB");
        let megabytes = parse_bandwidth(include_str!("../../../tests/samples/ib_write_bw-mb.txt"));
        let gbits = megabytes[0].gbits.expect("fits the rate");
        assert!((gbits - 87.25).abs() < 0.01, "{gbits}");
        let odd = include_str!("../../../tests/samples/ib_write_bw.txt").replace("0.176230", "0.276230");
        assert_eq!(parse_bandwidth(&odd)[0].gbits, None, "its unit is unknown");
    }

    #[test]
    fn large_message_time_is_not_a_latency() {
        let small = parse_latency(include_str!("../../../tests/samples/ib_read_lat.txt"));
        assert_eq!(small, [LatencyRow { bytes: 2, typical: 1.90, percentile_99: Some(2.24) }]);
        assert!(small[0].is_small_message());
        let large = parse_latency(include_str!("../../../tests/samples/ib_read_lat-8m.txt"));
        assert_eq!((large[0].typical, large[0].is_small_message()), (196.02, false));
    }

    #[test]
    fn sends_and_atomics_print_what_writes_print() {
        let send = parse_latency(include_str!("../../../tests/samples/ib_send_lat.txt"));
        assert_eq!(send, [LatencyRow { bytes: 2, typical: 0.88, percentile_99: Some(0.94) }]);
        let atomic = parse_latency(include_str!("../../../tests/samples/ib_atomic_lat.txt"));
        assert_eq!(atomic, [LatencyRow { bytes: 8, typical: 1.46, percentile_99: Some(1.52) }]);
        let rate = parse_bandwidth(include_str!("../../../tests/samples/ib_atomic_bw.txt"));
        assert_eq!((rate.len(), rate[0].bytes, rate[0].iterations), (1, 8, Some(210_853_400)));
        let gbits = rate[0].gbits.expect("fits the rate of messages");
        assert!((gbits - 1.405510 * 64.0 / 1000.0).abs() < 0.0001, "{gbits}");
        // A test by time prints the average only: it has no typical latency.
        assert_eq!(parse_latency(include_str!("../../../tests/samples/ib_atomic_lat-duration.txt")), []);
    }

    #[test]
    fn bandwidth_and_latency_outputs_are_not_confused() {
        assert_eq!(parse_latency(include_str!("../../../tests/samples/ib_write_bw.txt")), []);
        assert_eq!(parse_bandwidth(include_str!("../../../tests/samples/ib_read_lat.txt")), []);
        assert_eq!(parse_bandwidth("Couldn't connect to 10.0.0.2:18515\n"), []);
    }
}
