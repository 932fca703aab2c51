//! `sysbench memory`: how fast memory was read.

/// What all threads of a run read together.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRead {
    /// Bytes per second, of all threads.
    pub bytes_per_second: f64,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// The size of a block in bytes: a block that fits into a cache is read from there.
    pub block_bytes: u64,
}

/// Parses the output of a run with `--memory-oper=read`; `None` if it is not one.
pub fn parse_sysbench_memory(text: &str) -> Option<MemoryRead> {
    let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    if field("operation:")? != "read" {
        return None;
    }
    let block_kib: u64 = field("block size:")?.strip_suffix("KiB")?.parse().ok()?;
    let seconds: f64 = field("total time:")?.strip_suffix('s')?.parse().ok()?;
    let (_, rate) = text.lines().find_map(|line| line.trim().split_once(" MiB transferred ("))?;
    let mib_per_second: f64 = rate.strip_suffix(" MiB/sec)")?.parse().ok()?;
    Some(MemoryRead { bytes_per_second: mib_per_second * 1_048_576.0, seconds, block_bytes: block_kib * 1024 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("../../../tests/samples/sysbench-memory-read.txt");

    #[test]
    fn speed_and_block_of_a_run_are_parsed() {
        let read = parse_sysbench_memory(RECORDED).unwrap();
        assert_eq!((read.block_bytes, read.seconds), (64 << 20, 2.0423));
        assert!((read.bytes_per_second / 1_048_576.0 - 4501.97).abs() < 1e-9, "{read:?}");
    }

    #[test]
    fn other_output_has_no_speed() {
        assert_eq!(parse_sysbench_memory("FATAL: Invalid value for --threads: 0.\n"), None);
        assert_eq!(parse_sysbench_memory(&RECORDED.replace("operation: read", "operation: write")), None);
        let cut = RECORDED.split("General statistics").next().unwrap();
        assert_eq!(parse_sysbench_memory(cut), None, "a truncated output");
    }
}
