//! Hardware faults that no apply repairs, with the next action.
//!
//! Thresholds and actions follow the vendor's documents on row remapping and error containment. Counters count only by
//! their increase within one boot.

use super::counters::{CounterGrowth, CounterValues};
use super::model::RepairAction;
use crate::facts::Facts;
use crate::model::Value;

/// Number of spare rows of a GPU's memory: a GPU that has used them up is replaced.
const SPARE_ROWS: u64 = 512;

/// Counters of a port whose every increase is a link error.
const LINK_ERRORS: [&str; 6] = [
    "link_downed",
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
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
}

/// Facts with faults, and the facts of which the project must use at least one: hosts without GPUs are not queried
/// about them.
pub const HEALTH_FACTS: [(&str, &[&str]); 4] = [
    ("gpus", GPU_FACTS),
    ("gpu_state", GPU_FACTS),
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

/// Returns the boot ID, within which counters are comparable.
pub fn read_boot_id(facts: &Facts) -> Option<String> {
    let id = facts.0.get("boot")?.as_ref().ok()?.get("id")?;
    id.as_str().map(str::to_owned)
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
    [check_remapped_rows(gpu), check_ecc_errors(gpu), check_recovery_action(gpu)]
        .into_iter()
        .flatten()
        .map(|told| build_gpu_fault(gpu, told))
        .collect()
}

fn build_gpu_fault(gpu: &Value, (aspect, reason, action): GpuFault) -> HostFault {
    let part = text_field(gpu, "bdf").unwrap_or("unknown address").to_owned();
    HostFault { kind: "gpu", part, aspect: aspect.to_owned(), reason, action }
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
    })
}

fn fault_from_counter(((port, counter), (grown, since)): (&(String, String), &(u64, String))) -> HostFault {
    let reason = format!("`{counter}` increased by {grown} since {since}");
    HostFault { kind: "port", part: port.clone(), aspect: counter.clone(), reason, action: RepairAction::Inspect }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(gpu: Value) -> Vec<(String, RepairAction)> {
        let mut facts = Facts::default();
        facts.0.insert("gpu_state".into(), Ok(json!([gpu])));
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
            facts.0.insert("gpus".into(), Ok(json!([gpu])));
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
        facts.0.insert("gpu_state".into(), Err(crate::probe::UnansweredReason::new("timed out after 45 s")));
        assert_eq!(detect_faults(&facts, &CounterGrowth::new()), []);
        assert_eq!(read_port_counters(&facts), CounterValues::new());
    }

    #[test]
    fn only_link_error_counters_are_compared() {
        let mut facts = Facts::default();
        let port = json!({ "name": "mlx5_0", "port": 1, "counters": { "link_downed": 2, "port_xmit_data": 9 } });
        facts.0.insert("rdma_counters".into(), Ok(json!([port])));
        let key = |name: &str| ("mlx5_0/1".to_owned(), name.to_owned());
        assert_eq!(read_port_counters(&facts), CounterValues::from([(key("link_downed"), 2)]));
        let grown = CounterGrowth::from([
            (key("link_downed"), (2, "09:00".to_owned())),
            (key("port_xmit_data"), (9, "09:00".to_owned())),
        ]);
        let found: Vec<String> = detect_faults(&facts, &grown).into_iter().map(|fault| fault.reason).collect();
        assert_eq!(found, ["`link_downed` increased by 2 since 09:00"]);
    }
}
