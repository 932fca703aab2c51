//! `all_reduce_perf` and similar tests: the speed of collective operations between GPUs.
//!
//! Columns are found by the header: builds differ in whether they have a root column, and whether they count errors or
//! wrong values.

/// The output of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NcclTestRun {
    /// One row for each message size, in the order of the listing.
    pub rows: Vec<NcclTestRow>,
    /// Whether no value was out of bounds; `None` if the run did not finish.
    pub sound: Option<bool>,
    /// Number of processes and GPUs that take part, by the listing of devices.
    pub ranks: usize,
    /// Number of listings: several if a launcher started a program that knows nothing of the others.
    pub tables: usize,
}

/// The out-of-place result for one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NcclTestRow {
    /// Message size in bytes.
    pub bytes: u64,
    /// Bus bandwidth in GB/s.
    pub busbw: f64,
    /// Number of wrong values; `None` if they were not checked, or only an error is reported.
    pub wrong: Option<u64>,
}

impl NcclTestRun {
    /// Returns the relevant row: that of the largest size. The printed average also includes small sizes.
    pub fn largest_row(&self) -> Option<&NcclTestRow> {
        self.rows.iter().max_by_key(|row| row.bytes)
    }
}

/// Parses the listing, also if a launcher prints the rank before each line.
pub fn parse_nccl_test(text: &str) -> NcclTestRun {
    let mut run = NcclTestRun::default();
    let mut heads: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.split_once("<stdout>:").map_or(line, |(_, line)| line).trim();
        let words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
        if let ["Rank", _, "Group", ..] = words.as_slice() {
            run.ranks += 1;
        } else if line.starts_with('#') && words.first() == Some(&"size") {
            heads = words;
            run.tables += 1;
        } else if let Some((_, verdict)) = line.split_once("Out of bounds values :") {
            run.sound = Some(verdict.trim() == "0 OK");
        } else if !line.starts_with('#') && words.len() == heads.len() {
            run.rows.extend(parse_row(&heads, &words));
        }
    }
    run
}

/// Finds a column by name. The first of several columns with a name is the out-of-place one.
fn parse_row(heads: &[&str], cells: &[&str]) -> Option<NcclTestRow> {
    let cell = |name: &str| cells.get(heads.iter().position(|head| *head == name)?).copied();
    let wrong = cell("#wrong").and_then(|cell| cell.parse().ok());
    Some(NcclTestRow { bytes: cell("size")?.parse().ok()?, busbw: cell("busbw")?.parse().ok()?, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_message_size_is_reported_not_the_average() {
        let run = parse_nccl_test(include_str!("../../../tests/samples/all_reduce_perf.txt"));
        assert_eq!((run.rows.len(), run.sound), (2, Some(true)));
        assert_eq!(run.largest_row(), Some(&NcclTestRow { bytes: 8_589_934_592, busbw: 360.97, wrong: Some(0) }));
    }

    #[test]
    fn header_determines_the_column_layout() {
        let old = parse_nccl_test(include_str!("../../../tests/samples/all_reduce_perf-old.txt"));
        assert_eq!(old.largest_row(), Some(&NcclTestRow { bytes: 134_217_728, busbw: 122.57, wrong: None }));
        assert_eq!(old.sound, Some(false));
    }

    /// Two columns have words that newer programs print instead of a number: `N/A`, and `1e+06` for a bandwidth.
    #[test]
    fn listing_of_one_gpu_with_the_log_of_nccl_is_read() {
        let run = parse_nccl_test(include_str!("../../../tests/samples/all_reduce_perf-one-gpu.txt"));
        assert_eq!((run.rows.len(), run.ranks, run.tables, run.sound), (3, 1, 1, Some(true)));
        assert_eq!(run.largest_row(), Some(&NcclTestRow { bytes: 1 << 30, busbw: 0.0, wrong: Some(0) }));
    }

    #[test]
    fn unchecked_row_has_no_error_count() {
        let text = include_str!("../../../tests/samples/alltoall_perf.txt");
        assert_eq!(
            parse_nccl_test(text).largest_row(),
            Some(&NcclTestRow { bytes: 8_589_934_592, busbw: 35.90, wrong: Some(0) })
        );
        let unchecked = text.replace("35.90       0", "35.90     N/A");
        assert_eq!(parse_nccl_test(&unchecked).largest_row().and_then(|row| row.wrong), None);
    }

    #[test]
    fn rank_prefix_of_launcher_is_ignored() {
        let text: String = include_str!("../../../tests/samples/all_reduce_perf.txt")
            .lines()
            .map(|line| format!("[1,0]<stdout>:{line}\n"))
            .collect();
        assert_eq!(parse_nccl_test(&text).rows.len(), 2);
        assert_eq!(parse_nccl_test("NCCL failure unhandled system error\n"), NcclTestRun::default());
    }
}
