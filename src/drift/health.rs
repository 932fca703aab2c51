//! Hardware faults that no apply repairs, with the next action.
//!
//! Thresholds and actions follow the vendor's documents on row remapping and error containment. Counters count only by
//! their increase within one boot.

use super::counters::{CounterGrowth, CounterValues};
use super::finding_severity::FindingSeverity;
use super::model::RepairAction;
use crate::facts::Facts;
use crate::model::Value;

/// Number of spare rows of a GPU's memory: a GPU that has used them up is replaced.
const SPARE_ROWS: u64 = 512;

/// Counters of a port whose every increase is a link error.
const LINK_ERRORS: [&str; 8] = [
    "link_downed",
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    // Of Ethernet: frames that found no buffer, although the network is to pause instead, and links that went down.
    "rx_discards_phy",
    "link_down_events_phy",
];

/// One fault of a part of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFault {
    /// `gpu`, `port`, `nvswitch`, `pci`, `processor`, `memory`.
    pub kind: &'static str,
    /// The part: an address, `mlx5_0/1`.
    pub part: String,
    /// The aspect of the part: `remaps`, `ecc`, `recovery`, the name of a counter, `xid 79`.
    pub aspect: String,
    /// A lowercase fragment.
    pub reason: String,
    /// The next action that repairs the fault.
    pub action: RepairAction,
    /// Critical, unless the part works but does less than it could.
    pub severity: FindingSeverity,
}

/// Facts with faults, and the facts of which the project must use at least one: hosts without GPUs are not queried
/// about them.
pub const HEALTH_FACTS: [(&str, &[&str]); 5] = [
    ("gpus", GPU_FACTS),
    ("gpu_state", GPU_FACTS),
    ("nvlinks", GPU_FACTS),
    ("hardware_errors", GPU_FACTS),
    ("rdma_counters", &["rdma", "rdma_counters", "ofed", "roce"]),
];

const GPU_FACTS: &[&str] = &["gpus", "gpu_state", "driver", "fabricmanager", "nvswitch"];

/// Returns the faults of a host. `grown` has the increases of its counters since the last read within this boot.
pub fn detect_faults(facts: &Facts, grown: &CounterGrowth) -> Vec<HostFault> {
    let slots = list_fact(facts, "gpus")
        .filter_map(|gpu| Some((gpu, check_slot(gpu)?)))
        .map(|(gpu, told)| build_gpu_fault(gpu, told));
    let gpus = slots.chain(list_fact(facts, "gpu_state").flat_map(detect_gpu_faults));
    let gpus = gpus.chain(list_fact(facts, "nvlinks").filter_map(|gpu| {
        let sliced = is_sliced(facts, gpu);
        (!sliced).then(|| check_links(gpu)).flatten().map(|told| build_gpu_fault(gpu, told))
    }));
    let ports = grown.iter().filter(|((_, name), _)| LINK_ERRORS.contains(&name.as_str())).map(fault_from_counter);
    gpus.chain(list_logged_events(facts).filter_map(fault_from_event)).chain(ports).collect()
}

/// Returns the compared counters of a host's ports.
pub fn read_port_counters(facts: &Facts) -> CounterValues {
    let mut ports = CounterValues::new();
    for port in list_fact(facts, "rdma_counters") {
        let (Some(name), Some(number)) = (text_field(port, "name"), port.get("port").and_then(Value::as_u64)) else {
            continue;
        };
        for counter in LINK_ERRORS {
            if let Some(value) = port.pointer(&format!("/counters/{counter}")).and_then(Value::as_u64) {
                ports.insert((format!("{name}/{number}"), counter.to_owned()), value);
            }
        }
    }
    ports
}

fn list_fact<'f>(facts: &'f Facts, name: &str) -> impl Iterator<Item = &'f Value> {
    let items = facts.0.get(name).and_then(|fact| fact.as_ref().ok()).and_then(Value::as_array);
    items.into_iter().flatten()
}

fn list_logged_events(facts: &Facts) -> impl Iterator<Item = &Value> {
    let fact = facts.0.get("hardware_errors").and_then(|fact| fact.as_ref().ok());
    fact.and_then(|fact| fact.get("events")?.as_array()).into_iter().flatten()
}

fn text_field<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn detect_gpu_faults(gpu: &Value) -> Vec<HostFault> {
    let faults = [
        check_remapped_rows(gpu),
        check_ecc_errors(gpu),
        check_sram_threshold(gpu),
        check_recovery_action(gpu),
        check_required_reset(gpu),
        check_fabric(gpu),
        check_unreadable_cells(gpu),
    ];
    let slowed = check_slow_clocks(gpu)
        .map(|told| HostFault { severity: FindingSeverity::Medium, ..build_gpu_fault(gpu, told) });
    faults.into_iter().flatten().map(|told| build_gpu_fault(gpu, told)).chain(slowed).collect()
}

fn build_gpu_fault(gpu: &Value, (aspect, reason, action): GpuFault) -> HostFault {
    let part = text_field(gpu, "bdf").unwrap_or("unknown address").to_owned();
    let severity = FindingSeverity::Critical;
    HostFault { kind: "gpu", part, aspect: aspect.to_owned(), reason, action, severity }
}

/// Checks the slot: whether the GPU responds, and its lane count. Link speed is not checked: an idle GPU reduces it.
fn check_slot(gpu: &Value) -> Option<GpuFault> {
    if gpu.get("answers").and_then(Value::as_bool) == Some(false) {
        return Some((
            "bus",
            "fell off the bus: its configuration reads as all ones".to_owned(),
            RepairAction::PowerCycle,
        ));
    }
    let lanes = |key: &str| gpu.pointer(&format!("/pcie/{key}")).and_then(Value::as_u64);
    let (width, most) = (lanes("width")?, lanes("max_width")?);
    (width < most).then(|| ("pcie", format!("uses {width} of {most} PCIe lanes"), RepairAction::Inspect))
}

type GpuFault = (&'static str, String, RepairAction);

fn check_remapped_rows(gpu: &Value) -> Option<GpuFault> {
    let of = |key: &str| gpu.pointer(&format!("/remaps/{key}"));
    let rows = of("uncorrectable").and_then(Value::as_u64).unwrap_or(0);
    let flag = |key: &str| of(key).and_then(Value::as_bool) == Some(true);
    if flag("failure") {
        return Some(("remaps", "row remapping failed for a row of its memory".to_owned(), RepairAction::Rma));
    }
    if rows > SPARE_ROWS {
        let reason = format!("{rows} rows of its memory are remapped, more than the {SPARE_ROWS} spare rows");
        return Some(("remaps", reason, RepairAction::Rma));
    }
    flag("pending").then(|| ("remaps", "a row remapping of its memory needs a reset".to_owned(), RepairAction::Reset))
}

/// Checks ECC errors since the driver was loaded. Corrected errors do not count.
fn check_ecc_errors(gpu: &Value) -> Option<GpuFault> {
    let count = gpu.pointer("/ecc_uncorrected/volatile").and_then(Value::as_u64).filter(|count| *count > 0)?;
    let errors = if count == 1 { "error" } else { "errors" };
    Some(("ecc", format!("{count} uncorrectable memory {errors} since the driver was loaded"), RepairAction::Drain))
}

fn check_recovery_action(gpu: &Value) -> Option<GpuFault> {
    let wanted = text_field(gpu, "recovery").filter(|wanted| *wanted != "None")?;
    let action = match wanted {
        "Reset" => RepairAction::Reset,
        "Reboot" => RepairAction::Reboot,
        _ => RepairAction::Drain,
    };
    Some(("recovery", format!("the driver requests `{wanted}`"), action))
}

/// Checks the SRAM of a GPU: it has no spare rows, so a GPU with too many errors is replaced.
fn check_sram_threshold(gpu: &Value) -> Option<GpuFault> {
    let exceeded = gpu.get("sram_threshold_exceeded").and_then(Value::as_bool) == Some(true);
    exceeded.then(|| {
        ("sram", "the uncorrectable errors of its SRAM exceed the limit for replacement".to_owned(), RepairAction::Rma)
    })
}

/// Checks whether the driver requires a reset. Later branches request it as the recovery action.
fn check_required_reset(gpu: &Value) -> Option<GpuFault> {
    let required = gpu.get("reset_required").and_then(Value::as_bool) == Some(true);
    let requested = text_field(gpu, "recovery").is_some_and(|wanted| wanted != "None");
    (required && !requested).then(|| ("reset", "the driver requires a reset".to_owned(), RepairAction::Reset))
}

/// Checks a GPU that is registered in the fabric. One that is not registered yet is a matter of the fabric manager.
fn check_fabric(gpu: &Value) -> Option<GpuFault> {
    let of = |key: &str| gpu.pointer(&format!("/fabric/{key}")).and_then(Value::as_str);
    if of("state") != Some("Completed") {
        return None;
    }
    if let Some(status) = of("status").filter(|status| *status != "Success") {
        return Some(("fabric", format!("its registration in the fabric ended with `{status}`"), RepairAction::Drain));
    }
    let conditions = gpu.pointer("/fabric/conditions").and_then(Value::as_array);
    let conditions: Vec<&str> = conditions.into_iter().flatten().filter_map(Value::as_str).collect();
    let health = of("health").filter(|health| *health != "Healthy");
    let reason = match (health, &conditions[..]) {
        (None, []) => return None,
        (Some(health), []) => format!("its fabric is `{health}`"),
        (None, conditions) => format!("its fabric reports `{}`", conditions.join(", ")),
        (Some(health), conditions) => format!("its fabric is `{health}`: `{}`", conditions.join(", ")),
    };
    Some(("fabric", reason, RepairAction::Drain))
}

/// Checks values that the driver could not read from the GPU.
fn check_unreadable_cells(gpu: &Value) -> Option<GpuFault> {
    let cells = gpu.get("unreadable").and_then(Value::as_array)?;
    let cells: Vec<&str> = cells.iter().filter_map(Value::as_str).collect();
    let more = if cells.len() > 1 { format!(" and {} more", cells.len() - 1) } else { String::new() };
    let reason = format!("the driver cannot read its state: `{}`{more}", cells.first()?);
    Some(("unreadable", reason, RepairAction::Reset))
}

/// Reasons for lower clocks that are no normal operation. A limit of its power (`sw_power_cap`) is.
const SLOWDOWNS: [(&str, &str, RepairAction); 4] = [
    ("hw_thermal_slowdown", "heat", RepairAction::Cool),
    ("sw_thermal_slowdown", "heat", RepairAction::Cool),
    ("hw_power_brake_slowdown", "the power brake of the server", RepairAction::Inspect),
    ("hw_slowdown", "heat or power", RepairAction::Inspect),
];

fn check_slow_clocks(gpu: &Value) -> Option<GpuFault> {
    let active = gpu.get("clock_events").and_then(Value::as_array)?;
    let (name, cause, action) = SLOWDOWNS.iter().find(|(name, ..)| active.iter().any(|event| event == name))?;
    Some(("clocks", format!("its clocks are lowered by {cause} (`{name}`)"), *action))
}

/// Checks the NVLinks of a GPU against those of its product, and against each other.
fn check_links(gpu: &Value) -> Option<GpuFault> {
    let count = |key: &str| gpu.get(key).and_then(Value::as_u64);
    let speed = |key: &str| gpu.get(key).and_then(Value::as_f64);
    if gpu.get("disabled") == Some(&Value::Bool(true)) {
        // A setting, which `apply` can change.
        return None;
    }
    if let (Some(missing @ 1..), Some(expected)) = (count("missing"), count("expected")) {
        let active = expected.saturating_sub(missing);
        return Some(("nvlink", format!("{active} of {expected} NVLinks are active"), RepairAction::Inspect));
    }
    let (slow, fast) = (speed("speed")?, speed("max_speed")?);
    (slow < fast)
        .then(|| ("nvlink", format!("an NVLink runs at {slow} GB/s, others at {fast} GB/s"), RepairAction::Inspect))
}

/// Returns whether the GPU is split into instances, which use no NVLinks.
fn is_sliced(facts: &Facts, gpu: &Value) -> bool {
    let own = list_fact(facts, "gpu_state").find(|state| state.get("bdf") == gpu.get("bdf"));
    own.and_then(|state| state.pointer("/mig/current")?.as_bool()) == Some(true)
}

/// Converts an event of the kernel log of this boot. It stays there until the next boot or the next load of the driver.
fn fault_from_event(event: &Value) -> Option<HostFault> {
    let (source, count) = (text_field(event, "source")?, event.get("count").and_then(Value::as_u64)?);
    let code = event.get("code").and_then(Value::as_u64);
    let action = match text_field(event, "class")? {
        "none" => return None,
        // Remapping of a row failed repeatedly.
        "reset" if source == "xid" && code == Some(64) && count > 1 => RepairAction::Rma,
        "reset" => RepairAction::Reset,
        "drain" => RepairAction::Drain,
        "reboot" => RepairAction::Reboot,
        "power-cycle" => RepairAction::PowerCycle,
        _ => RepairAction::Inspect,
    };
    let (kind, word) = match source {
        "xid" => ("gpu", "Xid"),
        "sxid" => ("nvswitch", "SXid"),
        "aer" => ("pci", "an uncorrected PCI error (AER)"),
        "mce" => ("processor", "a machine check"),
        _ => ("memory", "an uncorrected memory error (EDAC)"),
    };
    let number = code.map_or(String::new(), |code| format!(" {code}"));
    let meaning = text_field(event, "meaning").map_or(String::new(), |meaning| format!(" ({meaning})"));
    let times = if count == 1 { String::new() } else { format!(", {count} times") };
    Some(HostFault {
        kind,
        part: text_field(event, "bdf").unwrap_or("of the host").to_owned(),
        aspect: format!("{source}{number}"),
        reason: format!("the kernel's log has {word}{number}{meaning}{times}"),
        action,
        severity: FindingSeverity::Critical,
    })
}

fn fault_from_counter(((port, counter), (grown, since)): (&(String, String), &(u64, String))) -> HostFault {
    let reason = format!("`{counter}` increased by {grown} since {since}");
    HostFault {
        kind: "port",
        part: port.clone(),
        aspect: counter.clone(),
        reason,
        action: RepairAction::Inspect,
        severity: FindingSeverity::Critical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(gpu: Value) -> Vec<(String, RepairAction)> {
        let mut facts = Facts::default();
        facts.0.insert("gpu_state", Ok(json!([gpu])));
        detect_faults(&facts, &CounterGrowth::new()).into_iter().map(|fault| (fault.reason, fault.action)).collect()
    }

    fn gpu(remaps: Value, ecc: Value, recovery: Value) -> Value {
        json!({ "bdf": "0000:9b:00.0", "remaps": remaps, "ecc_uncorrected": ecc, "recovery": recovery })
    }

    fn rows(uncorrectable: u64, pending: bool, failure: bool) -> Value {
        json!({ "correctable": 7, "uncorrectable": uncorrectable, "pending": pending, "failure": failure })
    }

    #[test]
    fn gpu_faults_map_to_repair_actions() {
        let quiet = || (rows(3, false, false), json!({ "volatile": 0, "aggregate": 9 }), json!("None"));
        let table = [
            (gpu(quiet().0, quiet().1, quiet().2), vec![]),
            // Missing or unknown values of a GPU are not faults.
            (gpu(Value::Null, Value::Null, Value::Null), vec![]),
            (
                gpu(
                    json!({ "pending": { "unknown": "x" }, "uncorrectable": { "unknown": "x" } }),
                    quiet().1,
                    quiet().2,
                ),
                vec![],
            ),
            (gpu(rows(1, true, false), quiet().1, quiet().2), vec![RepairAction::Reset]),
            (gpu(rows(1, true, true), quiet().1, quiet().2), vec![RepairAction::Rma]),
            (gpu(rows(512, false, false), quiet().1, quiet().2), vec![]),
            (gpu(rows(513, false, false), quiet().1, quiet().2), vec![RepairAction::Rma]),
            (gpu(quiet().0, json!({ "volatile": 1, "aggregate": 1 }), quiet().2), vec![RepairAction::Drain]),
            (gpu(quiet().0, quiet().1, json!("Reset")), vec![RepairAction::Reset]),
            (gpu(quiet().0, quiet().1, json!("Reboot")), vec![RepairAction::Reboot]),
            (gpu(quiet().0, quiet().1, json!("Drain and Reset")), vec![RepairAction::Drain]),
            (
                gpu(rows(1, true, false), json!({ "volatile": 2 }), json!("Reset")),
                vec![RepairAction::Reset, RepairAction::Drain, RepairAction::Reset],
            ),
        ];
        for (gpu, actions) in table {
            let found: Vec<RepairAction> = of(gpu.clone()).into_iter().map(|(_, action)| action).collect();
            assert_eq!(found, actions, "{gpu}");
        }
    }

    #[test]
    fn state_of_a_gpu_maps_to_faults_with_their_reason() {
        let reasons = |change: Value| {
            let mut gpu = gpu(rows(0, false, false), json!({ "volatile": 0, "aggregate": 0 }), json!("None"));
            gpu.as_object_mut().expect("is a map").extend(change.as_object().expect("is a map").clone());
            of(gpu)
        };
        let fabric = |state: &str, status: Value, health: Value, conditions: Value| json!({ "fabric": { "state": state, "status": status, "health": health, "conditions": conditions } });
        let told = |reason: &str, action| vec![(reason.to_owned(), action)];
        assert_eq!(reasons(fabric("Completed", json!("Success"), json!("Healthy"), json!([]))), []);
        assert_eq!(reasons(fabric("Completed", json!("Success"), Value::Null, json!([]))), []);
        assert_eq!(
            reasons(fabric("In Progress", Value::Null, Value::Null, json!([]))),
            [],
            "the fabric manager's matter"
        );
        assert_eq!(
            reasons(fabric("Completed", json!("Success"), json!("Unhealthy"), json!(["Route Unhealthy: True"]))),
            told("its fabric is `Unhealthy`: `Route Unhealthy: True`", RepairAction::Drain)
        );
        // origin: field, a node in Azure/azhpc-images pull request 506
        assert_eq!(
            reasons(fabric("Completed", json!("Insufficient Resources"), Value::Null, json!([]))),
            told("its registration in the fabric ended with `Insufficient Resources`", RepairAction::Drain)
        );
        assert_eq!(
            reasons(
                json!({ "unreadable": ["ecc_mode / current_ecc: Unknown Error", "ecc_mode / pending_ecc: Unknown Error"] })
            ),
            told(
                "the driver cannot read its state: `ecc_mode / current_ecc: Unknown Error` and 1 more",
                RepairAction::Reset
            )
        );
        assert_eq!(reasons(json!({ "unreadable": [] })), []);
        assert_eq!(
            reasons(json!({ "reset_required": true })),
            told("the driver requires a reset", RepairAction::Reset)
        );
        assert_eq!(
            reasons(json!({ "reset_required": true, "recovery": "Drain and Reset" })),
            told("the driver requests `Drain and Reset`", RepairAction::Drain)
        );
        assert_eq!(
            reasons(json!({ "sram_threshold_exceeded": true })),
            told("the uncorrectable errors of its SRAM exceed the limit for replacement", RepairAction::Rma)
        );
    }

    #[test]
    fn gpu_that_is_slowed_down_is_less_than_critical() {
        let found = |events: Value| {
            let facts = Facts([("gpu_state".to_owned(), Ok(json!([{ "bdf": "b", "clock_events": events }])))].into());
            let faults = detect_faults(&facts, &CounterGrowth::new());
            faults.into_iter().map(|fault| (fault.reason, fault.severity, fault.action)).collect::<Vec<_>>()
        };
        let slowed =
            |by: &str, action| vec![(format!("its clocks are lowered by {by}"), FindingSeverity::Medium, action)];
        assert_eq!(found(json!(["gpu_idle"])), []);
        assert_eq!(found(json!(["sw_power_cap"])), [], "a limit that the GPU is to keep");
        assert_eq!(
            found(json!(["hw_slowdown", "hw_thermal_slowdown"])),
            slowed("heat (`hw_thermal_slowdown`)", RepairAction::Cool)
        );
        assert_eq!(
            found(json!(["hw_slowdown", "hw_power_brake_slowdown"])),
            slowed("the power brake of the server (`hw_power_brake_slowdown`)", RepairAction::Inspect)
        );
    }

    #[test]
    fn links_are_compared_with_those_of_the_product() {
        let found = |links: Value, mig: bool| {
            let mut gpu = json!({ "bdf": "b", "speed": 26.562, "max_speed": 26.562, "expected": 18 });
            gpu.as_object_mut().expect("is a map").extend(links.as_object().expect("is a map").clone());
            let state = json!([{ "bdf": "b", "mig": { "current": mig, "pending": mig } }]);
            let facts = [("nvlinks".to_owned(), Ok(json!([gpu]))), ("gpu_state".to_owned(), Ok(state))];
            let faults = detect_faults(&Facts(facts.into()), &CounterGrowth::new());
            faults.into_iter().map(|fault| fault.reason).collect::<Vec<_>>()
        };
        assert_eq!(found(json!({ "missing": 0 }), false), [""; 0]);
        assert_eq!(found(json!({ "missing": 2 }), false), ["16 of 18 NVLinks are active"]);
        assert_eq!(found(json!({ "missing": 18 }), true), [""; 0], "instances use no links");
        assert_eq!(found(json!({ "missing": 18, "disabled": true }), false), [""; 0], "switched off by an option");
        // origin: field, an H200 in a public health check's sample
        assert_eq!(
            found(json!({ "missing": 0, "speed": 1.0 }), false),
            ["an NVLink runs at 1 GB/s, others at 26.562 GB/s"]
        );
        assert_eq!(found(json!({ "missing": { "unknown": "x" }, "expected": { "unknown": "x" } }), false), [""; 0]);
    }

    #[test]
    fn hardware_errors_in_the_kernel_log_map_to_repair_actions() {
        let of = |event: Value| {
            let facts = Facts([("hardware_errors".to_owned(), Ok(json!({ "events": [event] })))].into());
            let found = detect_faults(&facts, &CounterGrowth::new()).pop();
            found.map(|fault| (format!("{} {}", fault.kind, fault.part), fault.aspect, fault.reason, fault.action))
        };
        let told = |whose: &str, aspect: &str, reason: &str, action| {
            Some((whose.to_owned(), aspect.to_owned(), format!("the kernel's log has {reason}"), action))
        };
        let xid = |code: u64, class: &str, meaning: &str, count: u64| json!({ "source": "xid", "code": code, "bdf": "0000:9b:00.0", "class": class, "meaning": meaning, "count": count });
        let gpu = "gpu 0000:9b:00.0";
        assert_eq!(of(xid(31, "none", "an application's fault", 9)), None);
        assert_eq!(
            of(xid(79, "power-cycle", "fell off the bus", 2)),
            told(gpu, "xid 79", "Xid 79 (fell off the bus), 2 times", RepairAction::PowerCycle)
        );
        assert_eq!(of(xid(64, "reset", "x", 1)), told(gpu, "xid 64", "Xid 64 (x)", RepairAction::Reset));
        assert_eq!(of(xid(64, "reset", "x", 2)), told(gpu, "xid 64", "Xid 64 (x), 2 times", RepairAction::Rma));
        assert_eq!(of(xid(74, "link", "x", 1)), told(gpu, "xid 74", "Xid 74 (x)", RepairAction::Inspect));
        assert_eq!(of(xid(48, "drain", "x", 1)), told(gpu, "xid 48", "Xid 48 (x)", RepairAction::Drain));
        assert_eq!(of(xid(154, "reboot", "x", 1)), told(gpu, "xid 154", "Xid 154 (x)", RepairAction::Reboot));
        let sxid = json!({ "source": "sxid", "code": 20034, "bdf": "0000:05:00.0", "class": "drain", "meaning": null, "count": 1 });
        assert_eq!(of(sxid), told("nvswitch 0000:05:00.0", "sxid 20034", "SXid 20034", RepairAction::Drain));
        let mce =
            json!({ "source": "mce", "code": null, "bdf": null, "class": "inspect", "meaning": null, "count": 1 });
        assert_eq!(of(mce), told("processor of the host", "mce", "a machine check", RepairAction::Inspect));
    }

    #[test]
    fn pcie_link_and_bus_faults_are_detected() {
        let of = |gpu: Value| {
            let mut facts = Facts::default();
            facts.0.insert("gpus", Ok(json!([gpu])));
            detect_faults(&facts, &CounterGrowth::new())
                .into_iter()
                .map(|fault| (fault.aspect, fault.action))
                .collect::<Vec<_>>()
        };
        let gpu = |answers: bool, pcie: Value| json!({ "bdf": "0000:9b:00.0", "answers": answers, "pcie": pcie });
        let lanes = |width: u64| json!({ "width": width, "max_width": 16, "speed": "2.5 GT/s PCIe", "max_speed": "32.0 GT/s PCIe" });
        assert_eq!(of(gpu(true, lanes(16))), [], "an idle GPU reduces its link speed");
        assert_eq!(of(gpu(true, lanes(8))), [("pcie".to_owned(), RepairAction::Inspect)]);
        assert_eq!(
            of(gpu(false, json!({ "unknown": "it does not answer" }))),
            [("bus".to_owned(), RepairAction::PowerCycle)]
        );
        assert_eq!(of(gpu(true, json!({ "unknown": "it cannot be read" }))), []);
    }

    #[test]
    fn unknown_fact_reports_no_fault() {
        let mut facts = Facts::default();
        facts.0.insert("gpu_state", Err(crate::probe::UnansweredReason::new("timed out after 45 s")));
        assert_eq!(detect_faults(&facts, &CounterGrowth::new()), []);
        assert_eq!(read_port_counters(&facts), CounterValues::new());
    }

    #[test]
    fn only_link_error_counters_are_compared() {
        let mut facts = Facts::default();
        let port = json!({ "name": "mlx5_0", "port": 1, "counters": { "link_downed": 2, "port_xmit_data": 9 } });
        facts.0.insert("rdma_counters", Ok(json!([port])));
        let key = |name: &str| ("mlx5_0/1".to_owned(), name.to_owned());
        assert_eq!(read_port_counters(&facts), CounterValues::from([(key("link_downed"), 2)]));
        let grown = CounterGrowth::from([
            (key("link_downed"), (2, "09:00".to_owned())),
            (key("port_xmit_data"), (9, "09:00".to_owned())),
        ]);
        let found: Vec<String> = detect_faults(&facts, &grown).into_iter().map(|fault| fault.reason).collect();
        assert_eq!(found, ["`link_downed` increased by 2 since 09:00"]);
    }

    #[test]
    fn growing_discards_of_an_ethernet_interface_are_a_fault() {
        let mut facts = Facts::default();
        let counters = json!({ "rx_discards_phy": 4, "rx_prio3_pause": 90 });
        facts.0.insert("rdma_counters", Ok(json!([{ "name": "ens9f1np1", "port": 1, "counters": counters }])));
        let key = ("ens9f1np1/1".to_owned(), "rx_discards_phy".to_owned());
        assert_eq!(read_port_counters(&facts), CounterValues::from([(key.clone(), 4)]), "pauses are no error");
        let grown = CounterGrowth::from([(key, (4, "09:00".to_owned()))]);
        let found: Vec<String> = detect_faults(&facts, &grown).into_iter().map(|fault| fault.reason).collect();
        assert_eq!(found, ["`rx_discards_phy` increased by 4 since 09:00"]);
    }
}
