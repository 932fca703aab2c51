//! Judges the clocks of the GPUs of a host under load: compared with each other, and without slowdowns.

use super::comparison::find_median;
use super::verdict::{TestVerdict, format_number};
use crate::facts::command::gpu_clocks::{GpuClockRun, GpuClockSample, SLOWDOWNS, parse_gpu_clocks};
use std::collections::BTreeMap;

/// A GPU has work if kernels run for this share of a sample's time, in percent. The clock of an idle GPU says nothing.
const LOADED_PERCENT: f64 = 90.0;

/// Fewer loaded samples show how a load starts.
const LEAST_SAMPLES: usize = 3;

/// Fewer GPUs have no median that one of them could differ from.
const LEAST_COMPARED: usize = 3;

/// The samples of a GPU under load.
struct LoadedGpu<'s> {
    name: String,
    samples: Vec<&'s GpuClockSample>,
    /// The median of its SM clock.
    clock: Option<f64>,
}

/// Judges a run. `below` is the share that a clock may be below the median of the GPUs; `failure` says how the program
/// failed, if it did.
pub fn judge_gpu_clocks(output: &str, failure: Option<&str>, below: Option<f64>) -> TestVerdict {
    let Some(below) = below.filter(|below| (0.0..1.0).contains(below)) else {
        return TestVerdict::not_measured("the parameter `below` is not a share from 0 to 1");
    };
    let run = parse_gpu_clocks(output);
    let gpus = collect_loaded(&run);
    let clocks: Vec<f64> = gpus.iter().filter_map(|gpu| gpu.clock).collect();
    let slowest = clocks.iter().copied().reduce(f64::min);
    let median = find_median(&clocks).filter(|_| clocks.len() >= LEAST_COMPARED);
    let faults: Vec<String> = gpus.iter().filter_map(|gpu| describe_fault(gpu, median, below, clocks.len())).collect();
    if !faults.is_empty() {
        return TestVerdict::Fail { value: slowest, reason: faults.join("; ") };
    }
    match (find_missing(&run, &gpus, failure), slowest) {
        (Some(why), _) => TestVerdict::not_measured(why),
        (None, None) => TestVerdict::not_measured("the output has no clocks of GPUs"),
        (None, Some(value)) => TestVerdict::Pass { value, expected: describe_pass(median, below, gpus.len()) },
    }
}

fn describe_pass(median: Option<f64>, below: f64, gpus: usize) -> String {
    match median {
        Some(median) => format!(
            "no slowdown, at least {:.0} MHz ({} % below the median of {gpus} GPUs)",
            median * (1.0 - below),
            format_number(below * 100.0)
        ),
        None => format!("no slowdown; fewer than {LEAST_COMPARED} GPUs: not compared with each other"),
    }
}

fn collect_loaded(run: &GpuClockRun) -> Vec<LoadedGpu<'_>> {
    let mut gpus: BTreeMap<u32, LoadedGpu<'_>> = BTreeMap::new();
    for sample in &run.samples {
        let name = format!("GPU {} ({})", sample.index, sample.bus);
        let gpu = gpus.entry(sample.index).or_insert(LoadedGpu { name, samples: Vec::new(), clock: None });
        let is_loaded = sample.utilization.is_some_and(|percent| percent >= LOADED_PERCENT);
        gpu.samples.extend(is_loaded.then_some(sample));
    }
    for gpu in gpus.values_mut() {
        let clocks: Vec<f64> = gpu.samples.iter().filter_map(|sample| sample.sm_mhz).collect();
        gpu.clock = find_median(&clocks).filter(|_| clocks.len() >= LEAST_SAMPLES);
    }
    gpus.into_values().collect()
}

/// Names what slows a GPU down, and how far its clock is below the median.
fn describe_fault(gpu: &LoadedGpu<'_>, median: Option<f64>, below: f64, compared: usize) -> Option<String> {
    let count = |at: usize| gpu.samples.iter().filter(|sample| sample.slowdowns[at] == Some(true)).count();
    let slowdowns = SLOWDOWNS.iter().enumerate().map(|(at, name)| (name, count(at))).filter(|(_, count)| *count > 0);
    let mut parts: Vec<String> =
        slowdowns.map(|(name, count)| format!("{name} in {count} of {} samples", gpu.samples.len())).collect();
    if let (Some(clock), Some(median)) = (gpu.clock, median)
        && clock < median * (1.0 - below)
    {
        let percent = (1.0 - clock / median) * 100.0;
        parts.insert(0, format!("{clock:.0} MHz, {percent:.0} % below the median {median:.0} of {compared} GPUs"));
    }
    (!parts.is_empty()).then(|| format!("{}: {}", gpu.name, parts.join(", ")))
}

/// Returns why clocks without a fault are no pass.
fn find_missing(run: &GpuClockRun, gpus: &[LoadedGpu<'_>], failure: Option<&str>) -> Option<String> {
    if let Some(why) = failure {
        return Some(why.to_owned());
    }
    let idle = gpus.iter().find(|gpu| gpu.samples.len() < LEAST_SAMPLES);
    let load = match run.load_status {
        None => Some("the load did not end".to_owned()),
        Some(0) => None,
        Some(status) => Some(format!("the load ended with exit status {status}")),
    };
    if let Some(gpu) = idle {
        let found = format!("{} was under load in {} samples (least {LEAST_SAMPLES})", gpu.name, gpu.samples.len());
        return Some(load.map_or(found.clone(), |load| format!("{load}; {found}")));
    }
    let unread = gpus.iter().find_map(|gpu| {
        let at = (0..SLOWDOWNS.len()).find(|at| gpu.samples.iter().any(|sample| sample.slowdowns[*at].is_none()));
        match (gpu.clock, at) {
            (None, _) => Some(format!("the SM clock of {} cannot be read", gpu.name)),
            (_, at) => at.map(|at| format!("`{}` of {} cannot be read", SLOWDOWNS[at], gpu.name)),
        }
    });
    load.filter(|_| !gpus.is_empty()).or(unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: &str = include_str!("../../tests/samples/gpu-clocks-load.txt");

    /// The same host without its hot GPU's faults.
    fn healthy() -> String {
        LOADED
            .replace("Not Active", "-")
            .replace("Active", "-")
            .replace("-,", "Not Active,")
            .replace("-\n", "Not Active\n")
            .replace("1215,", "1740,")
            .replace("1200,", "1755,")
            .replace("1185,", "1740,")
    }

    fn judge(output: &str) -> TestVerdict {
        judge_gpu_clocks(output, None, Some(0.1))
    }

    #[test]
    fn slow_gpu_is_named_with_its_clock_and_reasons() {
        let reason = "GPU 2 (00000000:3A:00.0): 1208 MHz, 31 % below the median 1751 of 4 GPUs, \
                      hw_slowdown in 3 of 4 samples, hw_thermal_slowdown in 3 of 4 samples";
        assert_eq!(judge(LOADED), TestVerdict::Fail { value: Some(1207.5), reason: reason.to_owned() });
        let brake = healthy().replacen(
            "Not Active, Not Active\n1, 00000000:2A:00.0, 100",
            "Active, Not Active\n1, 00000000:2A:00.0, 100",
            1,
        );
        let reason = "GPU 0 (00000000:18:00.0): hw_power_brake_slowdown in 1 of 4 samples".to_owned();
        assert_eq!(judge(&brake), TestVerdict::Fail { value: Some(1747.5), reason });
    }

    #[test]
    fn equal_clocks_without_slowdowns_pass() {
        let expected = "no slowdown, at least 1576 MHz (10 % below the median of 4 GPUs)".to_owned();
        assert_eq!(judge(&healthy()), TestVerdict::Pass { value: 1747.5, expected });
        let one: Vec<String> =
            healthy().lines().filter(|line| !line.starts_with(['1', '2', '3'])).map(str::to_owned).collect();
        let expected = "no slowdown; fewer than 3 GPUs: not compared with each other".to_owned();
        assert_eq!(judge(&one.join("\n")), TestVerdict::Pass { value: 1755.0, expected });
    }

    #[test]
    fn clocks_without_a_load_are_not_measured() {
        let idle = healthy().replace(", 100, ", ", 3, ").replace("status 0", "status 226");
        let why = "the load ended with exit status 226; GPU 0 (00000000:18:00.0) was under load in 0 samples (least 3)";
        assert_eq!(judge(&idle), TestVerdict::not_measured(why));
        let half = healthy().replace("status 0", "status 226");
        assert_eq!(judge(&half), TestVerdict::not_measured("the load ended with exit status 226"));
        let cut = healthy().replace("load ended with exit status 0\n", "");
        assert_eq!(judge(&cut), TestVerdict::not_measured("the load did not end"));
        let missing = "exit status 127: the program `dcgmi` is not installed";
        assert_eq!(judge_gpu_clocks("", Some(missing), Some(0.1)), TestVerdict::not_measured(missing));
        assert_eq!(
            judge("load ended with exit status 0\n"),
            TestVerdict::not_measured("the output has no clocks of GPUs")
        );
        let hidden = healthy().replace("Not Active", "[N/A]");
        let why = "`hw_slowdown` of GPU 0 (00000000:18:00.0) cannot be read";
        assert_eq!(judge(&hidden), TestVerdict::not_measured(why));
        let share = TestVerdict::not_measured("the parameter `below` is not a share from 0 to 1");
        assert_eq!(
            (judge_gpu_clocks(LOADED, None, None), judge_gpu_clocks(LOADED, None, Some(10.0))),
            (share.clone(), share)
        );
    }

    #[test]
    fn fault_counts_although_the_load_failed() {
        let failed = LOADED.replace("status 0", "status 226");
        assert!(matches!(judge(&failed), TestVerdict::Fail { .. }), "DCGM also fails because of a hot GPU");
    }
}
