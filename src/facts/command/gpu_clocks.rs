//! Clocks of GPUs under load: repeated `nvidia-smi --query-gpu=… --format=csv`, and how the load ended.

use std::collections::BTreeMap;

/// What slows a GPU down although it has work, by the end of its name in `clocks_event_reasons` (before driver 535
/// `clocks_throttle_reasons`). The power limit (`sw_power_cap`) is not among them: a healthy GPU reaches it under load.
pub const SLOWDOWNS: [&str; 4] =
    ["hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"];

/// A line that the test prints after its load: `load ended with exit status 0`.
const LOAD_END: &str = "load ended with exit status ";

/// One GPU at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuClockSample {
    /// Its number, as `nvidia-smi` counts.
    pub index: u32,
    /// Its PCI address: `00000000:18:00.0`.
    pub bus: String,
    /// Share of the time in which a kernel ran, in percent.
    pub utilization: Option<f64>,
    /// The SM clock in MHz.
    pub sm_mhz: Option<f64>,
    /// Whether each of [`SLOWDOWNS`] was active; `None` for one that is not readable.
    pub slowdowns: [Option<bool>; SLOWDOWNS.len()],
}

/// All samples of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuClockRun {
    /// In the order of their output.
    pub samples: Vec<GpuClockSample>,
    /// The exit status of the load; `None` if it did not end.
    pub load_status: Option<i32>,
}

/// Parses the output of a run. Each table has its header: columns are found by their names.
pub fn parse_gpu_clocks(text: &str) -> GpuClockRun {
    let mut run = GpuClockRun::default();
    let mut header: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if let Some(status) = line.strip_prefix(LOAD_END) {
            run.load_status = status.parse().ok();
        } else if cells.first() == Some(&"index") {
            header = cells.into_iter().map(name_column).collect();
        } else if cells.len() == header.len() {
            run.samples.extend(read_sample(&header.iter().copied().zip(cells).collect()));
        }
    }
    run
}

/// Returns the name without its unit and the group that differs between drivers.
fn name_column(cell: &str) -> &str {
    let name = cell.split(" [").next().unwrap_or(cell);
    let groups = ["clocks_event_reasons.", "clocks_throttle_reasons."];
    groups.into_iter().find_map(|group| name.strip_prefix(group)).unwrap_or(name)
}

fn read_sample(row: &BTreeMap<&str, &str>) -> Option<GpuClockSample> {
    let number = |name: &str| row.get(name)?.split(' ').next()?.parse::<f64>().ok();
    let slowdown = |name: &str| match row.get(name).copied() {
        Some("Active") => Some(true),
        Some("Not Active") => Some(false),
        _ => None,
    };
    Some(GpuClockSample {
        index: row.get("index")?.parse().ok()?,
        bus: row.get("pci.bus_id").map(|bus| (*bus).to_owned()).unwrap_or_default(),
        utilization: number("utilization.gpu"),
        sm_mhz: number("clocks.current.sm").or_else(|| number("clocks.sm")),
        slowdowns: SLOWDOWNS.map(slowdown),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: &str = include_str!("../../../tests/samples/gpu-clocks-load.txt");

    #[test]
    fn samples_are_read_by_the_names_of_their_columns() {
        let run = parse_gpu_clocks(LOADED);
        assert_eq!((run.samples.len(), run.load_status), (20, Some(0)));
        let hot = &run.samples[10];
        assert_eq!((hot.index, hot.bus.as_str(), hot.sm_mhz), (2, "00000000:3A:00.0", Some(1215.0)));
        assert_eq!((hot.utilization, hot.slowdowns), (Some(99.0), [Some(true), Some(true), Some(false), Some(false)]));
        let older =
            LOADED.replace("clocks_event_reasons", "clocks_throttle_reasons").replace("clocks.current.sm", "clocks.sm");
        assert_eq!(parse_gpu_clocks(&older), run);
        let units = LOADED.replace(", 1215,", ", 1215 MHz,").replace(", 99,", ", 99 %,");
        assert_eq!(parse_gpu_clocks(&units), run);
    }

    #[test]
    fn values_that_are_not_printed_are_unknown() {
        let odd = LOADED.replacen("100, 1980, Not Active", "[N/A], [Unknown Error], [N/A]", 1);
        let sample = &parse_gpu_clocks(&odd).samples[4];
        assert_eq!((sample.utilization, sample.sm_mhz, sample.slowdowns[0]), (None, None, None));
        assert_eq!(parse_gpu_clocks("No devices were found\n"), GpuClockRun::default());
    }
}
