//! Judges the output of perftest and nccl-tests: whether the numbers mean something first, then whether they are good.

use super::verdict::{ExpectedValue, TestVerdict};
use crate::facts::command::nccl_log::NcclTransport;
use crate::facts::command::nccl_tests::{NcclTestRow, NcclTestRun};
use crate::facts::command::perftest::{BandwidthRow, LatencyRow, parse_bandwidth, parse_latency};

/// A shorter transfer measures the start of a test, not its speed.
const LEAST_TRANSFER_SECONDS: f64 = 0.5;

/// Judges a bandwidth of `messages` of `bytes`: it must be long enough for its rate.
pub(super) fn judge_transfer(messages: Option<f64>, bytes: u64, gbits: f64, expected: &ExpectedValue) -> TestVerdict {
    let seconds = messages.map(|messages| messages * bytes as f64 * 8.0 / (gbits * 1e9));
    match (messages, seconds) {
        (Some(messages), Some(seconds)) if seconds < LEAST_TRANSFER_SECONDS => TestVerdict::not_measured(format!(
            "{messages} messages of {bytes} bytes take {seconds:.4} s at this rate: too short to measure (least \
             {LEAST_TRANSFER_SECONDS} s)"
        )),
        _ => expected.judge(gbits),
    }
}

/// Judges a bandwidth test by its row of `bytes`.
///
/// The row must be long enough for its rate: 1000 messages of 64 KiB take a millisecond at 400 Gb/s. Its unit must agree
/// with the message rate.
pub fn judge_bandwidth(output: &str, bytes: u64, expected: &ExpectedValue) -> TestVerdict {
    let rows = parse_bandwidth(output);
    let Some(row) = rows.iter().find(|row| row.bytes == bytes) else {
        return TestVerdict::not_measured(describe_missing_row(&rows, bytes));
    };
    let Some(gbits) = row.gbits else {
        return TestVerdict::not_measured("the bandwidth does not agree with the message rate: its unit is unknown");
    };
    judge_transfer(row.iterations.map(|iterations| iterations as f64), bytes, gbits, expected)
}

fn describe_missing_row(rows: &[BandwidthRow], bytes: u64) -> String {
    match rows.len() {
        0 => "the output has no bandwidth".to_owned(),
        _ => format!("the output has no row for messages of {bytes} bytes"),
    }
}

/// Judges a latency test by its smallest message: with large messages, the transfer takes most of the time.
pub fn judge_latency(output: &str, expected: &ExpectedValue) -> TestVerdict {
    let rows = parse_latency(output);
    let Some(row) = rows.iter().min_by_key(|row| row.bytes) else {
        return TestVerdict::not_measured("the output has no latency");
    };
    match row.is_small_message() {
        true => expected.judge(row.typical),
        false => TestVerdict::not_measured(describe_large_row(row)),
    }
}

fn describe_large_row(row: &LatencyRow) -> String {
    format!(
        "{} us is the transfer time of {} bytes, not a latency; measure 2 or 8 bytes",
        super::verdict::format_number(row.typical),
        row.bytes
    )
}

/// What a collective must use between hosts. Nothing by default, as within one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequiredTransport {
    /// Whether the network must be RDMA.
    pub rdma: bool,
    /// Whether adapters must read the memory of GPUs (GPUDirect RDMA).
    pub gdr: bool,
}

/// Which bus bandwidth of a collective is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectiveValue {
    /// That of the largest size.
    #[default]
    LargestSize,
    /// The mean of all sizes, which must be those from `begin` to `end`, in bytes: other sizes give another mean.
    Average {
        /// The smallest size.
        begin: u64,
        /// The largest size.
        end: u64,
    },
}

impl CollectiveValue {
    fn read(self, run: &NcclTestRun, largest: &NcclTestRow) -> Result<f64, String> {
        let Self::Average { begin, end } = self else { return Ok(largest.busbw) };
        let smallest = run.rows.iter().map(|row| row.bytes).min().unwrap_or_default();
        match (smallest, largest.bytes) == (begin, end) {
            true => Ok(run.rows.iter().map(|row| row.busbw).sum::<f64>() / run.rows.len() as f64),
            false => Err(format!(
                "the floor is an average of the sizes from {begin} to {end} bytes, and the test measured {smallest} to {}",
                largest.bytes
            )),
        }
    }
}

/// Returns the failure of a collective that received wrong values; nccl-tests ends with an error then.
pub fn judge_wrong_values(run: &NcclTestRun) -> Option<TestVerdict> {
    let row = run.largest_row().filter(|_| run.ranks != 1)?;
    let is_wrong = run.sound == Some(false) || row.wrong.is_some_and(|wrong| wrong > 0);
    is_wrong.then(|| TestVerdict::Fail { value: Some(row.busbw), reason: "values are wrong".to_owned() })
}

/// Judges a collective by its bus bandwidth. A run with wrong values, over sockets, or without
/// GPUDirect where it is declared, fails whatever its number.
pub fn judge_collective(
    run: &NcclTestRun,
    transport: &NcclTransport,
    required: RequiredTransport,
    (value, expected): (CollectiveValue, &ExpectedValue),
) -> TestVerdict {
    let Some(row) = run.largest_row() else {
        return TestVerdict::not_measured("the output has no bus bandwidth");
    };
    if run.tables > 1 {
        let why = format!("the program printed {} tables: it was built without MPI", run.tables);
        return TestVerdict::not_measured(why);
    }
    if run.ranks == 1 {
        // The program copies within the GPU, and prints 0 for some collectives and hundreds of thousands for others.
        return TestVerdict::not_measured(
            "only one GPU took part: it exchanges nothing, so no bus bandwidth was measured",
        );
    }
    let fail = |reason: &str| TestVerdict::Fail { value: Some(row.busbw), reason: reason.to_owned() };
    if let Some(wrong) = judge_wrong_values(run) {
        return wrong;
    }
    if required.rdma && transport.uses_sockets {
        return fail("NCCL used sockets, not RDMA");
    }
    if required.rdma && required.gdr && transport.channels_without_gdr > 0 {
        return fail("NCCL copied through the memory of the host: no GPUDirect RDMA");
    }
    if required.rdma && !transport.uses_rdma {
        return TestVerdict::not_measured("NCCL's log does not name the network; set NCCL_DEBUG=INFO");
    }
    if required.rdma && required.gdr && transport.gdr_channels == 0 {
        return TestVerdict::not_measured("NCCL's log does not show whether GPUDirect RDMA was used");
    }
    match (run.sound, value.read(run, row)) {
        (Some(_), Ok(value)) => expected.judge(value),
        (Some(_), Err(why)) => TestVerdict::not_measured(why),
        (None, _) => TestVerdict::not_measured("the test did not finish"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ceiling::expect_share;
    use super::*;
    use crate::facts::command::nccl_log::parse_nccl_log;
    use crate::facts::command::nccl_tests::parse_nccl_test;

    /// The manual's transcript: write 375.31 and read 354.93 Gb/s with 8 MiB, on NDR ports of 400 Gb/s.
    #[test]
    fn field_transcript_passes_its_declared_share_of_the_port() {
        let share = expect_share(400.0, 0.85, "Gb/s");
        let write = judge_bandwidth(include_str!("../../tests/samples/ib_write_bw-server.txt"), 8_388_608, &share);
        let expected = "at least 340 Gb/s (0.85 of 400)".to_owned();
        assert_eq!(write, TestVerdict::Pass { value: 375.31, expected: expected.clone() });
        let read = judge_bandwidth(include_str!("../../tests/samples/ib_read_bw-8m.txt"), 8_388_608, &share);
        assert_eq!(read, TestVerdict::Pass { value: 354.93, expected });
        let strict = judge_bandwidth(
            include_str!("../../tests/samples/ib_read_bw-8m.txt"),
            8_388_608,
            &expect_share(400.0, 0.9, "Gb/s"),
        );
        assert!(matches!(strict, TestVerdict::Fail { value: Some(354.93), .. }));
    }

    #[test]
    fn large_transfer_time_is_refused_as_a_latency() {
        let limit = ExpectedValue::at_most(200.0, "us", "declared");
        let read = judge_latency(include_str!("../../tests/samples/ib_read_lat-8m.txt"), &limit);
        let reason = "196.02 us is the transfer time of 8388608 bytes, not a latency; measure 2 or 8 bytes";
        assert_eq!(read, TestVerdict::not_measured(reason));
        let write = include_str!("../../tests/samples/ib_read_lat-8m.txt").replace("196.02", "184.13");
        assert!(matches!(judge_latency(&write, &limit), TestVerdict::NotMeasured { .. }));
        let small = judge_latency(include_str!("../../tests/samples/ib_read_lat.txt"), &limit);
        assert_eq!(small.value(), Some(1.9));
    }

    #[test]
    fn short_transfer_is_not_measured() {
        let text = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
                    65536      1000             391.20             390.10               0.744057\n";
        let expected = ExpectedValue::at_least(1.0, "Gb/s", "declared");
        let reason = "1000 messages of 65536 bytes take 0.0013 s at this rate: too short to measure (least 0.5 s)";
        assert_eq!(judge_bandwidth(text, 65536, &expected), TestVerdict::not_measured(reason));
        let long = text.replace("1000 ", "4000000 ");
        assert_eq!(judge_bandwidth(&long, 65536, &expected).value(), Some(390.1));
        let other = judge_bandwidth(text, 8, &expected);
        assert_eq!(other, TestVerdict::not_measured("the output has no row for messages of 8 bytes"));
        let odd = long.replace("0.744057", "0.844057");
        let unit = "the bandwidth does not agree with the message rate: its unit is unknown";
        assert_eq!(judge_bandwidth(&odd, 65536, &expected), TestVerdict::not_measured(unit));
        assert_eq!(judge_bandwidth("", 8, &expected), TestVerdict::not_measured("the output has no bandwidth"));
    }

    /// The program's numbers mean nothing with one GPU: the value of the largest size is 0, that of `sendrecv` is the speed of
    /// a copy.
    #[test]
    fn collective_of_one_gpu_is_not_measured() {
        let text = include_str!("../../tests/samples/all_reduce_perf-one-gpu.txt");
        let run = parse_nccl_test(text);
        assert_eq!((run.ranks, run.largest_row().map(|row| row.busbw), run.sound), (1, Some(0.0), Some(true)));
        let expected = ExpectedValue::at_least(340.0, "GB/s", "declared");
        let how = (CollectiveValue::LargestSize, &expected);
        let verdict = judge_collective(&run, &parse_nccl_log(text), RequiredTransport::default(), how);
        let why = "only one GPU took part: it exchanges nothing, so no bus bandwidth was measured";
        assert_eq!(verdict, TestVerdict::not_measured(why));
    }

    fn judge_sample(log: &str, gdr: bool) -> TestVerdict {
        let run = parse_nccl_test(include_str!("../../tests/samples/all_reduce_perf.txt"));
        let expected = ExpectedValue::at_least(340.0, "GB/s", "declared");
        let required = RequiredTransport { rdma: true, gdr };
        judge_collective(&run, &parse_nccl_log(log), required, (CollectiveValue::LargestSize, &expected))
    }

    #[test]
    fn collective_over_sockets_fails_whatever_its_number() {
        let failed = |reason: &str| TestVerdict::Fail { value: Some(360.97), reason: reason.to_owned() };
        let sockets = judge_sample(include_str!("../../tests/samples/nccl-log-socket.txt"), false);
        assert_eq!(sockets, failed("NCCL used sockets, not RDMA"));
        let bounced = include_str!("../../tests/samples/nccl-log-ib.txt").replace("/GDRDMA", "");
        let reason = "NCCL copied through the memory of the host: no GPUDirect RDMA";
        assert_eq!(judge_sample(&bounced, true), failed(reason));
        assert_eq!(judge_sample(&bounced, false).value(), Some(360.97));
        let good = judge_sample(include_str!("../../tests/samples/nccl-log-ib.txt"), true);
        assert!(matches!(good, TestVerdict::Pass { value: 360.97, .. }), "{good:?}");
        let silent = "NCCL's log does not name the network; set NCCL_DEBUG=INFO";
        assert_eq!(judge_sample("", true), TestVerdict::not_measured(silent));
    }

    #[test]
    fn average_needs_the_sizes_of_its_floor() {
        let run = parse_nccl_test(include_str!("../../tests/samples/all_reduce_perf.txt"));
        let expected = ExpectedValue::at_least(1.0, "GB/s", "declared");
        let judge =
            |value| judge_collective(&run, &NcclTransport::default(), RequiredTransport::default(), (value, &expected));
        let sizes = run.rows.iter().map(|row| row.bytes).collect::<Vec<_>>();
        let mean = run.rows.iter().map(|row| row.busbw).sum::<f64>() / 2.0;
        assert!(mean < 360.0, "the average includes the small size");
        assert_eq!(judge(CollectiveValue::Average { begin: sizes[0], end: sizes[1] }).value(), Some(mean));
        let other = judge(CollectiveValue::Average { begin: 1 << 30, end: 16 << 30 });
        let why = format!(
            "the floor is an average of the sizes from 1073741824 to 17179869184 bytes, and the test measured {} to {}",
            sizes[0], sizes[1]
        );
        assert_eq!(other, TestVerdict::not_measured(why));
    }

    #[test]
    fn program_without_mpi_is_not_a_collective() {
        let text = include_str!("../../tests/samples/all_reduce_perf.txt").repeat(2);
        let transport = parse_nccl_log(include_str!("../../tests/samples/nccl-log-ib.txt"));
        let expected = ExpectedValue::at_least(1.0, "GB/s", "declared");
        let required = RequiredTransport { rdma: true, gdr: false };
        let judged =
            judge_collective(&parse_nccl_test(&text), &transport, required, (CollectiveValue::LargestSize, &expected));
        assert_eq!(judged, TestVerdict::not_measured("the program printed 2 tables: it was built without MPI"));
    }

    #[test]
    fn collective_with_wrong_values_fails() {
        let text = include_str!("../../tests/samples/all_reduce_perf.txt").replace(": 0 OK", ": 3 FAILED");
        let transport = parse_nccl_log(include_str!("../../tests/samples/nccl-log-ib.txt"));
        let expected = ExpectedValue::at_least(1.0, "GB/s", "declared");
        let required = RequiredTransport { rdma: true, gdr: true };
        let judged =
            judge_collective(&parse_nccl_test(&text), &transport, required, (CollectiveValue::LargestSize, &expected));
        assert_eq!(judged, TestVerdict::Fail { value: Some(360.97), reason: "values are wrong".into() });
        let unfinished =
            judge_collective(&NcclTestRun::default(), &transport, required, (CollectiveValue::LargestSize, &expected));
        assert_eq!(unfinished, TestVerdict::not_measured("the output has no bus bandwidth"));
    }
}
