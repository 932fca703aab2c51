//! Judges tests of one host: `fio`, `sysbench` and `nvbandwidth`.

use super::verdict::{ExpectedValue, TestVerdict};
use crate::facts::command::fio::parse_fio;
use crate::facts::command::nvbandwidth::{GpuCopyTest, parse_nvbandwidth};
use crate::facts::command::sysbench::parse_sysbench_memory;

/// A shorter run measures how a disk starts to read.
const LEAST_READ_MS: u64 = 500;

/// Judges `fio --output-format=json` by what its jobs read, in GB/s.
pub fn judge_fio(output: &str, expected: &ExpectedValue) -> TestVerdict {
    let Some(read) = parse_fio(output) else {
        return TestVerdict::not_measured("the output is not that of `fio --output-format=json`");
    };
    match (read.error, read.milliseconds) {
        (0, time) if time < LEAST_READ_MS => {
            TestVerdict::not_measured(format!("read for {time} ms: too short to measure (least {LEAST_READ_MS} ms)"))
        }
        (0, _) => expected.judge(read.bytes_per_second / 1e9),
        (error, _) => TestVerdict::not_measured(format!("a job of fio ended with error {error}")),
    }
}

/// Each thread reads one block again and again: a smaller one may stay in the part of the last-level cache that a core of a
/// server gets.
const LEAST_BLOCK_BYTES: u64 = 32 << 20;

/// Judges `sysbench memory` by what its threads read, in GB/s.
pub fn judge_sysbench(output: &str, expected: &ExpectedValue) -> TestVerdict {
    match parse_sysbench_memory(output) {
        None => TestVerdict::not_measured("the output is not that of `sysbench memory --memory-oper=read`"),
        Some(read) if read.seconds < 0.5 => {
            TestVerdict::not_measured(format!("read for {} s: too short to measure (least 0.5 s)", read.seconds))
        }
        Some(read) if read.block_bytes < LEAST_BLOCK_BYTES => TestVerdict::not_measured(format!(
            "blocks of {} bytes may be read from the caches (least 32M)",
            read.block_bytes
        )),
        Some(read) => expected.judge(read.bytes_per_second / 1e9),
    }
}

/// Judges a test case of `nvbandwidth` by its slowest copy, in GB/s: one bad link must not hide in a sum.
pub fn judge_nvbandwidth(output: &str, testcase: &str, expected: &ExpectedValue) -> TestVerdict {
    let run = parse_nvbandwidth(output);
    let Some(test) = run.tests.iter().find(|test| test.name == testcase) else {
        return TestVerdict::not_measured(match run.problem.as_deref() {
            Some(problem) => describe_problem(problem, testcase),
            None => format!("the output has no test case `{testcase}`"),
        });
    };
    match test.copies.iter().min_by(|one, other| one.gbytes.total_cmp(&other.gbytes)) {
        None => TestVerdict::not_measured(describe_missing_copies(test)),
        Some(slowest) => match expected.judge(slowest.gbytes) {
            TestVerdict::Fail { value, reason } => {
                let slow = test.copies.iter().filter(|copy| is_slow(copy.gbytes, expected)).count();
                let more =
                    if slow > 1 { format!("; {slow} of {} copies are slow", test.copies.len()) } else { String::new() };
                let reason = format!("{} and {}: {reason}{more}", slowest.row, slowest.column);
                TestVerdict::Fail { value, reason }
            }
            verdict => verdict,
        },
    }
}

fn is_slow(gbytes: f64, expected: &ExpectedValue) -> bool {
    matches!(expected.judge(gbytes), TestVerdict::Fail { .. })
}

fn describe_missing_copies(test: &GpuCopyTest) -> String {
    match &test.problem {
        Some(problem) => describe_problem(problem, &test.name),
        None => format!("test case `{}` printed no bandwidth", test.name),
    }
}

/// The program waives what the hardware cannot do, mostly without a reason.
fn describe_problem(problem: &str, testcase: &str) -> String {
    match problem.strip_prefix("Waived").map(|rest| rest.trim_matches([':', ' '])) {
        Some("") => format!("nvbandwidth waived test case `{testcase}` without a reason"),
        Some(reason) => format!("nvbandwidth waived test case `{testcase}`: {reason}"),
        None => problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::format_number;
    use super::*;

    #[test]
    fn disk_is_judged_by_what_was_read() {
        let recorded = include_str!("../../tests/samples/fio-read.json");
        let limit = |least| ExpectedValue::at_least(least, "GB/s", "declared");
        let value = judge_fio(recorded, &limit(1.0)).value().unwrap();
        assert_eq!(format_number(value), "1.27");
        let reason = "1.27 GB/s, expected at least 3 GB/s (declared)".to_owned();
        assert_eq!(judge_fio(recorded, &limit(3.0)), TestVerdict::Fail { value: Some(value), reason });
        let short = recorded.replace("\"runtime\" : 1026", "\"runtime\" : 26");
        let reason = "read for 26 ms: too short to measure (least 500 ms)";
        assert_eq!(judge_fio(&short, &limit(1.0)), TestVerdict::not_measured(reason));
        let failed = recorded.replace("\"error\" : 0", "\"error\" : 5");
        assert_eq!(judge_fio(&failed, &limit(1.0)), TestVerdict::not_measured("a job of fio ended with error 5"));
        let other = TestVerdict::not_measured("the output is not that of `fio --output-format=json`");
        assert_eq!(judge_fio("bandwidth: 3 GB/s", &limit(1.0)), other);
    }

    #[test]
    fn memory_is_judged_by_what_was_read_outside_of_the_caches() {
        let recorded = include_str!("../../tests/samples/sysbench-memory-read.txt");
        let limit = |least| ExpectedValue::at_least(least, "GB/s", "declared");
        assert!(matches!(judge_sysbench(recorded, &limit(1.0)), TestVerdict::Pass { .. }));
        assert!(matches!(judge_sysbench(recorded, &limit(1000.0)), TestVerdict::Fail { .. }));
        let cached = recorded.replace("block size: 65536KiB", "block size: 1KiB");
        let reason = "blocks of 1024 bytes may be read from the caches (least 32M)";
        assert_eq!(judge_sysbench(&cached, &limit(1.0)), TestVerdict::not_measured(reason));
        let other = TestVerdict::not_measured("the output is not that of `sysbench memory --memory-oper=read`");
        assert_eq!(judge_sysbench("FATAL: Invalid value for --threads: 0.\n", &limit(1.0)), other);
    }

    #[test]
    fn slowest_copy_decides_and_is_named() {
        let peers = include_str!("../../tests/samples/nvbandwidth-p2p.txt");
        let judge = |text: &str, name: &str, least| {
            judge_nvbandwidth(text, name, &ExpectedValue::at_least(least, "GB/s", "declared"))
        };
        let name = "device_to_device_memcpy_read_ce";
        assert_eq!(judge(peers, name, 21.8).value(), Some(21.8));
        let reason = "GPU 0 and GPU 5: 21.8 GB/s, expected at least 21.81 GB/s (declared)".to_owned();
        assert_eq!(judge(peers, name, 21.81), TestVerdict::Fail { value: Some(21.8), reason });
        let many = judge(peers, name, 22.0);
        let TestVerdict::Fail { reason, .. } = many else { panic!("{many:?}") };
        assert!(reason.ends_with("(declared); 8 of 30 copies are slow"), "{reason}");
        let missing = TestVerdict::not_measured("the output has no test case `host_to_device_memcpy_ce`");
        assert_eq!(judge(peers, "host_to_device_memcpy_ce", 1.0), missing);
        let wrong = judge(include_str!("../../tests/samples/nvbandwidth-assert.txt"), name, 1.0);
        assert!(matches!(wrong, TestVerdict::NotMeasured { reason } if reason.starts_with("ASSERT in expression")));
        let waived = judge(include_str!("../../tests/samples/nvbandwidth-waived.txt"), name, 1.0);
        let reason = format!("nvbandwidth waived test case `{name}` without a reason");
        assert_eq!(waived, TestVerdict::not_measured(reason));
        let unknown = judge(include_str!("../../tests/samples/nvbandwidth-unknown-case.txt"), "no_such_case", 1.0);
        assert_eq!(unknown, TestVerdict::not_measured("ERROR: Testcase no_such_case not found!"));
    }
}
