//! The values of `gpu_state`, read from the listing of `nvidia-smi`. Each has the path of its XML element first, then the
//! one in the text that older recordings have, and names of earlier branches.

use super::command::nvidia_smi::{SmiCell, SmiGpu};
use super::snippet_output::unknown_part;
use crate::model::Value;
use serde_json::json;

type CellPaths<'a> = [&'a str];

const ECC_MODE: &CellPaths<'static> = &["ecc_mode / current_ecc", "ECC Mode / Current"];
const FABRIC_STATE: &CellPaths<'static> = &["fabric / state", "Fabric / State"];
const RECOVERY: &CellPaths<'static> = &["gpu_recovery_action", "GPU Recovery Action"];
const REMAPS: &CellPaths<'static> = &["remapped_rows", "Remapped Rows"];

/// The listing's sections in which an unreadable cell says that the GPU itself does not answer properly.
const VITAL_SECTIONS: [&str; 14] = [
    "persistence_mode",
    "ecc_mode",
    "ecc_errors",
    "mig_mode",
    "remapped_rows",
    "fabric",
    "gpu_recovery_action",
    "Persistence Mode",
    "ECC Mode",
    "ECC Errors",
    "MIG Mode",
    "Remapped Rows",
    "Fabric",
    "GPU Recovery Action",
];

/// Conditions of the fabric's health: XML element and text.
const FABRIC_CONDITIONS: [(&str, &str); 5] = [
    ("bandwidth", "Bandwidth"),
    ("route_recovery_in_progress", "Route Recovery in progress"),
    ("route_unhealthy", "Route Unhealthy"),
    ("access_timeout_recovery", "Access Timeout Recovery"),
    ("incorrect_configuration", "Incorrect Configuration"),
];

/// Reasons for lower clocks: the name in XML, and the text.
const CLOCK_EVENTS: [(&str, &str); 9] = [
    ("gpu_idle", "Idle"),
    ("applications_clocks_setting", "Applications Clocks Setting"),
    ("sw_power_cap", "SW Power Cap"),
    ("hw_slowdown", "HW Slowdown"),
    ("hw_thermal_slowdown", "HW Slowdown / HW Thermal Slowdown"),
    ("hw_power_brake_slowdown", "HW Slowdown / HW Power Brake Slowdown"),
    ("sync_boost", "Sync Boost"),
    ("sw_thermal_slowdown", "SW Thermal Slowdown"),
    ("display_clocks_setting", "Display Clock Setting"),
];

/// Returns the state of one GPU of the listing.
pub(super) fn build_gpu_state(gpu: &SmiGpu) -> Value {
    json!({
        "bdf": gpu.bdf,
        "uuid": read_text(gpu, &["uuid", "GPU UUID"]),
        "model": read_text(gpu, &["product_name", "Product Name"]),
        "vbios": read_text(gpu, &["vbios_version", "VBIOS Version"]),
        "persistence": read_flag(gpu, &["persistence_mode", "Persistence Mode"]),
        "ecc": read_modes(gpu, ECC_MODE, &["ecc_mode / pending_ecc", "ECC Mode / Pending"]),
        "ecc_uncorrected": read_uncorrected(gpu),
        "sram_threshold_exceeded": read_optional_flag(
            gpu,
            &["ecc_errors / aggregate / sram_threshold_exceeded", "ECC Errors / Aggregate / SRAM Threshold Exceeded"],
        ),
        "mig": read_modes(
            gpu,
            &["mig_mode / current_mig", "MIG Mode / Current"],
            &["mig_mode / pending_mig", "MIG Mode / Pending"],
        ),
        "remaps": read_remaps(gpu),
        "fabric": read_fabric(gpu),
        "recovery": read_text(gpu, RECOVERY),
        "reset_required": read_optional_flag(
            gpu,
            &["gpu_reset_status / reset_required", "GPU Reset Status / Reset Required"],
        ),
        "gsp_firmware": read_text(gpu, &["gsp_firmware_version", "GSP Firmware Version"]),
        "pcie": read_pcie(gpu),
        "power": read_power(gpu),
        "temperature": read_temperature(gpu),
        "clock_events": read_clock_events(gpu),
        "unreadable": list_unreadable_cells(gpu),
    })
}

/// Marks a field of the listing that has no value, with the reason.
fn unknown_cell(path: &str, cell: SmiCell<'_>) -> Value {
    unknown_part(match cell {
        SmiCell::Missing => format!("`nvidia-smi` does not report `{path}`"),
        SmiCell::Absent => format!("`nvidia-smi` reports `{path}` as not available"),
        SmiCell::Failed(said) | SmiCell::Value(said) => format!("`nvidia-smi` reports `{said}` for `{path}`"),
    })
}

/// Reads text; a value that the GPU does not have or the branch does not report is null.
fn read_text(gpu: &SmiGpu, paths: &CellPaths<'_>) -> Value {
    match gpu.find_cell(paths) {
        (_, SmiCell::Value(text)) => text.into(),
        (_, SmiCell::Absent | SmiCell::Missing) => Value::Null,
        (path, cell @ SmiCell::Failed(_)) => unknown_cell(path, cell),
    }
}

/// Reads a flag; a value that is neither yes nor no is unknown, never false.
fn read_flag(gpu: &SmiGpu, paths: &CellPaths<'_>) -> Value {
    match gpu.find_cell(paths) {
        (_, SmiCell::Value("Enabled" | "Yes")) => true.into(),
        (_, SmiCell::Value("Disabled" | "No")) => false.into(),
        (path, cell) => unknown_cell(path, cell),
    }
}

/// Reads a flag that not every GPU and branch reports. Later branches call a field deprecated that another one replaced.
fn read_optional_flag(gpu: &SmiGpu, paths: &CellPaths<'_>) -> Value {
    match gpu.find_cell(paths).1 {
        SmiCell::Absent | SmiCell::Missing => Value::Null,
        SmiCell::Failed(said) if said.ends_with("has been deprecated") => Value::Null,
        _ => read_flag(gpu, paths),
    }
}

fn read_count(gpu: &SmiGpu, paths: &CellPaths<'_>) -> Value {
    let (path, cell) = gpu.find_cell(paths);
    parse_count(cell).map_or_else(|| unknown_cell(path, cell), Value::from)
}

fn parse_count(cell: SmiCell<'_>) -> Option<u64> {
    match cell {
        SmiCell::Value(text) => text.parse().ok(),
        _ => None,
    }
}

/// Reads a number with its unit; null if the GPU does not measure it.
fn read_measure<T: std::str::FromStr + Into<Value>>(gpu: &SmiGpu, unit: &str, paths: &CellPaths<'_>) -> Value {
    match gpu.find_cell(paths) {
        (_, SmiCell::Absent | SmiCell::Missing) => Value::Null,
        (path, cell @ SmiCell::Failed(_)) => unknown_cell(path, cell),
        (path, cell @ SmiCell::Value(text)) => {
            let number = text.strip_suffix(unit).and_then(|number| number.trim().parse::<T>().ok());
            number.map_or_else(|| unknown_cell(path, cell), Into::into)
        }
    }
}

/// Returns the two modes of a feature, null if the GPU does not have it.
fn read_modes(gpu: &SmiGpu, current: &CellPaths<'_>, pending: &CellPaths<'_>) -> Value {
    match gpu.find_cell(current).1 {
        SmiCell::Absent => Value::Null,
        _ => json!({ "current": read_flag(gpu, current), "pending": read_flag(gpu, pending) }),
    }
}

fn read_remaps(gpu: &SmiGpu) -> Value {
    match gpu.find_cell(REMAPS).1 {
        SmiCell::Absent => Value::Null,
        _ => json!({
            "correctable": read_count(gpu, &["remapped_rows / remapped_row_corr", "Remapped Rows / Correctable Error"]),
            "uncorrectable": read_count(gpu, &["remapped_rows / remapped_row_unc", "Remapped Rows / Uncorrectable Error"]),
            "pending": read_flag(gpu, &["remapped_rows / remapped_row_pending", "Remapped Rows / Pending"]),
            "failure": read_flag(
                gpu,
                &["remapped_rows / remapped_row_failure", "Remapped Rows / Remapping Failure Occurred"],
            ),
        }),
    }
}

/// Returns the state of the fabric. `In Progress` has no status yet.
fn read_fabric(gpu: &SmiGpu) -> Value {
    match gpu.find_cell(FABRIC_STATE) {
        (_, SmiCell::Absent) => Value::Null,
        (_, SmiCell::Value(state)) => json!({
            "state": state,
            "status": read_text(gpu, &["fabric / status", "Fabric / Status"]),
            "health": read_text(gpu, &["fabric / health / summary", "Fabric / Health / Summary"]),
            "conditions": read_fabric_conditions(gpu),
        }),
        (path, cell) => unknown_cell(path, cell),
    }
}

/// Returns the conditions that lower the fabric's health.
fn read_fabric_conditions(gpu: &SmiGpu) -> Vec<String> {
    let read = |(element, text): (&str, &str)| {
        let paths = [format!("fabric / health / {element}"), format!("Fabric / Health / {text}")];
        match gpu.find_cell(&[&paths[0], &paths[1]]).1 {
            SmiCell::Value("Full" | "False" | "None") | SmiCell::Absent | SmiCell::Missing => None,
            SmiCell::Value(said) | SmiCell::Failed(said) => Some(format!("{text}: {said}")),
        }
    };
    FABRIC_CONDITIONS.into_iter().filter_map(read).collect()
}

fn read_pcie(gpu: &SmiGpu) -> Value {
    let link = |element: &str, text: &str| {
        let paths = [format!("pci / pci_gpu_link_info / {element}"), format!("PCI / GPU Link Info / {text}")];
        match gpu.find_cell(&[&paths[0], &paths[1]]) {
            (_, SmiCell::Absent | SmiCell::Missing) => Value::Null,
            (path, cell @ SmiCell::Failed(_)) => unknown_cell(path, cell),
            (path, cell @ SmiCell::Value(said)) => {
                let number = said.trim_end_matches('x').parse::<u64>().ok();
                number.map_or_else(|| unknown_cell(path, cell), Value::from)
            }
        }
    };
    json!({
        "generation": link("pcie_gen / current_link_gen", "PCIe Generation / Current"),
        "max_generation": link("pcie_gen / max_link_gen", "PCIe Generation / Max"),
        "width": link("link_widths / current_link_width", "Link Width / Current"),
        "max_width": link("link_widths / max_link_width", "Link Width / Max"),
    })
}

/// Returns power limits in watts. Branches before 535 have one section for all of them.
fn read_power(gpu: &SmiGpu) -> Value {
    let limit = |element: &str, old: &str, text: &str, old_text: &str| {
        let paths = [
            format!("gpu_power_readings / {element}"),
            format!("power_readings / {old}"),
            format!("GPU Power Readings / {text}"),
            format!("Power Readings / {old_text}"),
        ];
        read_measure::<f64>(gpu, "W", &paths.each_ref().map(String::as_str))
    };
    json!({
        "limit": limit("current_power_limit", "enforced_power_limit", "Current Power Limit", "Enforced Power Limit"),
        "default": limit("default_power_limit", "default_power_limit", "Default Power Limit", "Default Power Limit"),
        "max": limit("max_power_limit", "max_power_limit", "Max Power Limit", "Max Power Limit"),
    })
}

/// Returns temperatures in degrees Celsius.
fn read_temperature(gpu: &SmiGpu) -> Value {
    let read = |paths: &CellPaths<'_>| read_measure::<i64>(gpu, "C", paths);
    json!({
        "gpu": read(&["temperature / gpu_temp", "Temperature / GPU Current Temp"]),
        "memory": read(&["temperature / memory_temp", "Temperature / Memory Current Temp"]),
        "margin": read(&["temperature / gpu_temp_tlimit", "Temperature / GPU T.Limit Temp"]),
    })
}

/// Returns the active reasons for lower clocks; null if the branch reports none of them.
fn read_clock_events(gpu: &SmiGpu) -> Value {
    let mut active = Vec::new();
    let mut is_reported = false;
    for (name, text) in CLOCK_EVENTS {
        let paths = [
            format!("clocks_event_reasons / clocks_event_reason_{name}"),
            format!("clocks_throttle_reasons / clocks_throttle_reason_{name}"),
            format!("Clocks Event Reasons / {text}"),
            format!("Clocks Throttle Reasons / {text}"),
        ];
        match gpu.find_cell(&paths.each_ref().map(String::as_str)) {
            (_, SmiCell::Missing | SmiCell::Absent) => continue,
            (_, SmiCell::Value("Active")) => active.push(name),
            (_, SmiCell::Value("Not Active")) => {}
            (path, cell) => return unknown_cell(path, cell),
        }
        is_reported = true;
    }
    if is_reported { active.into() } else { Value::Null }
}

/// Sums uncorrected errors by kind. Null only if the GPU has no error correction, or it is disabled.
fn read_uncorrected(gpu: &SmiGpu) -> Value {
    let kind = |element: &str, text: &str| {
        let paths = [format!("ecc_errors / {element}"), format!("ECC Errors / {text}")];
        let path = paths.iter().find(|path| gpu.cells_below(path).next().is_some()).unwrap_or(&paths[1]);
        sum_uncorrected(gpu, path)
    };
    let sums = (kind("volatile", "Volatile"), kind("aggregate", "Aggregate"));
    let is_failed = |sum: &CountSum<'_>| matches!(sum, Err((_, SmiCell::Failed(_))));
    match (gpu.find_cell(ECC_MODE), sums) {
        // A GPU in this state reports its counts as not available.
        ((path, cell @ SmiCell::Failed(_)), _) => unknown_cell(path, cell),
        ((_, SmiCell::Absent), (volatile, aggregate)) if !is_failed(&volatile) && !is_failed(&aggregate) => Value::Null,
        ((_, SmiCell::Value("Disabled")), (Ok(None), Ok(None))) => Value::Null,
        (_, (volatile, aggregate)) => json!({ "volatile": sum_value(volatile), "aggregate": sum_value(aggregate) }),
    }
}

/// A sum of counts, `None` if none of them is available, or the cell that has no number.
type CountSum<'a> = Result<Option<u64>, (String, SmiCell<'a>)>;

fn sum_value(sum: CountSum<'_>) -> Value {
    match sum {
        Ok(Some(sum)) => sum.into(),
        Ok(None) => unknown_part("`nvidia-smi` reports the counts of a GPU with error correction as not available"),
        Err((path, cell)) => unknown_cell(&path, cell),
    }
}

/// Sums the uncorrectable counts below a path: their names differ between branches.
fn sum_uncorrected<'a>(gpu: &'a SmiGpu, path: &str) -> CountSum<'a> {
    let mut cells =
        gpu.cells_below(path).filter(|(name, _)| is_uncorrected_count(name)).map(|(_, cell)| cell).peekable();
    if cells.peek().is_none() {
        return Err((path.to_owned(), SmiCell::Missing));
    }
    let counted = cells.filter(|cell| *cell != SmiCell::Absent);
    counted.into_iter().try_fold(None, |sum: Option<u64>, cell| {
        let added = parse_count(cell).and_then(|count| sum.unwrap_or(0).checked_add(count));
        added.map(Some).ok_or_else(|| (path.to_owned(), cell))
    })
}

/// GPUs before Ampere count double-bit errors in total, by older branches.
fn is_uncorrected_count(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("uncorrectable") || matches!(name.as_str(), "double bit / total" | "double_bit / total")
}

/// Lists cells that the driver could not read, with its words.
fn list_unreadable_cells(gpu: &SmiGpu) -> Vec<String> {
    let is_vital = |path: &str| VITAL_SECTIONS.contains(&path.split(" / ").next().unwrap_or(path));
    let is_fault = |said: &str| said != "Insufficient Permissions" && !said.starts_with("Requested functionality");
    let cells = gpu.failed_cells().filter(|(path, said)| is_vital(path) && is_fault(said));
    cells.map(|(path, said)| format!("{path}: {said}")).collect()
}
