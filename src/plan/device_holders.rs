//! Processes that hold the devices of a host, which keep its window from opening.

use super::host_context::{HostContext, StepInstance};
use super::model::HostWarning;
use super::window::{HostWindow, declared_running_unit};
use crate::facts::Facts;
use crate::model::{UntrustedText, Value, format_guard_time};

/// A process that holds GPU or RDMA devices, as the fact `holders` reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceHolder {
    /// Its process id.
    pub pid: u32,
    /// Its systemd unit, if it is part of one.
    pub unit: Option<String>,
    /// Whether it is part of a pod.
    pub pod: bool,
    /// Description of the process in one line.
    pub description: UntrustedText,
}

/// Returns the holders of devices; `None` if the fact was not read.
///
/// # Errors
/// They could not be determined: the reason, as a lowercase fragment.
pub fn parse_device_holders(facts: &Facts) -> Option<Result<Vec<DeviceHolder>, String>> {
    let list = match facts.0.get("holders")? {
        Ok(list) => list.as_array(),
        Err(unknown) => return Some(Err(unknown.why.to_string())),
    };
    let Some(list) = list else { return Some(Err("unexpected type of answer".to_owned())) };
    Some(list.iter().map(|value| parse_holder(value).ok_or_else(|| "a holder has no pid".to_owned())).collect())
}

fn parse_holder(value: &Value) -> Option<DeviceHolder> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let pid = value.get("pid")?.as_u64()?.try_into().ok()?;
    let (pod, job, unit) = (text("pod"), text("slurm_job"), text("unit"));
    let whose = job.map(|job| format!(", Slurm job {job}"));
    let whose = whose.or_else(|| pod.map(|pod| format!(", pod {pod}"))).or_else(|| unit.map(|u| format!(", unit {u}")));
    let devices = value.get("devices")?.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let (command, user) = (text("command").unwrap_or("?"), text("user").unwrap_or("unknown user"));
    let line = format!("pid {pid} ({command}) of {user}{}, holds {devices}", whose.unwrap_or_default());
    Some(DeviceHolder { pid, unit: unit.map(str::to_owned), pod: pod.is_some(), description: line.into() })
}

/// Returns the warning for a host whose window does not open, or waits, while the processes that hold its devices run.
pub(super) fn warn_device_holders(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    window: &HostWindow,
) -> Option<HostWarning> {
    let holders = match parse_device_holders(&case.seen.facts)? {
        Ok(holders) => holders,
        Err(why) => {
            let why = format!("use of its devices could not be determined, so that its window will not open: {why}");
            return Some(HostWarning { why: why.into(), hint: None });
        }
    };
    // A reboot stops the declared services too.
    let is_declared =
        |unit: &str| turns.iter().any(|turn| declared_running_unit(turn).is_some_and(|declared| declared == unit));
    let stops = |unit: &str| {
        window.stops.iter().any(|stop| stop.name == unit) || window.has_certain_reboot() && is_declared(unit)
    };
    let leaves =
        |holder: &DeviceHolder| holder.unit.as_deref().is_some_and(stops) || holder.pod && window.kubernetes.is_some();
    let foreign: Vec<&str> =
        holders.iter().filter(|holder| !leaves(holder)).map(|holder| holder.description.raw()).collect();
    (!foreign.is_empty()).then(|| HostWarning {
        why: format!("its devices are in use: {}", foreign.join("; ")).into(),
        hint: Some(advise_wait(case.ground.project.rollout.busy_wait_s, window.slurm)),
    })
}

/// Returns what the window of a host does about processes that hold its devices, for a run that evicts none.
fn advise_wait(wait_s: Option<u64>, is_drained: bool) -> String {
    let Some(wait_s) = wait_s.filter(|wait_s| *wait_s > 0) else { return BUSY_HINT.to_owned() };
    let limit = format_guard_time(wait_s);
    match is_drained {
        true => format!("its window drains the node in Slurm first, then waits up to {limit} until they have ended"),
        false => format!("its window waits up to {limit} until they have ended; `apply --evict-busy WHY` ends them"),
    }
}

const BUSY_HINT: &str = "its window does not open while they run: end them, let it wait (`rollout: { busy: { wait: 4h } }`), \
     or use `apply --evict-busy WHY`";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn window_that_waits_says_how_long() {
        assert_eq!(advise_wait(None, true), BUSY_HINT);
        assert_eq!(advise_wait(Some(0), false), BUSY_HINT);
        let (drains, waits) = (advise_wait(Some(14_400), true), advise_wait(Some(90), false));
        assert!(drains.ends_with("in Slurm first, then waits up to 4h until they have ended"), "{drains}");
        assert!(waits.starts_with("its window waits up to 90s until"), "{waits}");
    }

    #[test]
    fn device_holder_description_names_process_and_workload() {
        let told = |value: &Value| parse_holder(value).map(|holder| holder.description.raw().to_owned());
        let job = json!({"pid": 4711, "user": "alice", "command": "python3", "devices": ["/dev/nvidia0", "/dev/nvidiactl"],
            "unit": null, "pod": null, "slurm_job": "123"});
        let line = "pid 4711 (python3) of alice, Slurm job 123, holds /dev/nvidia0, /dev/nvidiactl";
        assert_eq!(told(&job).as_deref(), Some(line));
        let pod = json!({"pid": 8, "user": "root", "command": "x", "devices": ["/dev/nvidia1"], "pod": "ml/train", "unit": "k.service"});
        assert_eq!(told(&pod).as_deref(), Some("pid 8 (x) of root, pod ml/train, holds /dev/nvidia1"));
        assert_eq!(told(&json!({"user": "root", "devices": []})), None);
    }
}
