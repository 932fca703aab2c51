//! The processor time of tests that limit work: wall-clock time also measures other load on the machine.

use std::time::Duration;

/// Returns the processor time of this thread, which other load on the machine does not increase.
pub(super) fn thread_cpu_time() -> Duration {
    const TICK_MS: u64 = 10;
    let stat = fs_err::read_to_string("/proc/thread-self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * TICK_MS)
}
