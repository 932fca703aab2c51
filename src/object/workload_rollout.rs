//! Whether every pod of a workload runs with its last change, as `kubectl rollout status` determines it. In addition, it must
//! want one pod at least.
//!
//! Source: `kubectl/pkg/polymorphichelpers/rollout_status.go` and the API reference of apps/v1.

use super::cleanup::{find_condition, find_status_lag};
use serde_json::Value;

/// The reason of the condition `Progressing` when a Deployment gave up.
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

/// Checks that the pods of a Deployment, StatefulSet or DaemonSet run with its last change, all that it wants, and that
/// it wants one at least.
///
/// # Errors
/// The reason, as a lowercase fragment.
pub(crate) fn check_rollout(workload: &Value) -> Result<(), String> {
    if workload.pointer("/status/observedGeneration").is_none() || find_status_lag(workload, &Value::Null).is_some() {
        return Err("its controller has not seen its last change".to_owned());
    }
    match read_count(workload, "/status/desiredNumberScheduled") {
        Some(wanted) => check_daemon_set(workload, wanted),
        None => check_replicas(workload),
    }
}

fn read_count(workload: &Value, pointer: &str) -> Option<u64> {
    workload.pointer(pointer)?.as_u64()
}

fn check_daemon_set(set: &Value, wanted: u64) -> Result<(), String> {
    let count = |field: &str| read_count(set, &format!("/status/{field}")).unwrap_or_default();
    match (count("updatedNumberScheduled"), count("numberAvailable")) {
        _ if wanted == 0 => Err("no node is to run it".to_owned()),
        (updated, _) if updated < wanted => Err(format!("{updated} of {wanted} pods have its last change")),
        (_, up) if up < wanted => Err(format!("{up} of {wanted} pods are available")),
        _ => Ok(()),
    }
}

fn check_replicas(workload: &Value) -> Result<(), String> {
    let count = |field: &str| read_count(workload, &format!("/status/{field}")).unwrap_or_default();
    // The API sets the default.
    let wanted = read_count(workload, "/spec/replicas").unwrap_or(1);
    // Of a StatefulSet, `kubectl` counts the ready pods; before 1.22 it reports no others.
    let is_stateful = workload.pointer("/status/updateRevision").is_some();
    let up = count(if is_stateful { "readyReplicas" } else { "availableReplicas" });
    let (all, updated) = (count("replicas"), count("updatedReplicas"));
    let gave_up = find_condition(workload, "Progressing").filter(|one| one["reason"] == DEADLINE_EXCEEDED);
    match gave_up.map(|condition| condition["message"].as_str().unwrap_or_default()) {
        _ if wanted == 0 => Err("it is scaled to 0 pods".to_owned()),
        Some(message) => Err(format!("its rollout exceeded its deadline: {message}")),
        None if updated < wanted => Err(format!("{updated} of {wanted} pods have its last change")),
        None if all > updated => Err(format!("{} pods of an earlier change are left", all - updated)),
        None if up < wanted => Err(format!("{up} of {wanted} pods are available")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(spec: Value, status: Value) -> String {
        let workload = json!({ "metadata": { "generation": 3 }, "spec": spec, "status": status });
        check_rollout(&workload).err().unwrap_or_default()
    }

    #[test]
    fn daemon_set_runs_its_last_change_on_every_node() {
        let status = |observed: u64, wanted: u64, updated: u64, ready: u64| {
            told(
                json!({}),
                json!({ "observedGeneration": observed, "desiredNumberScheduled": wanted,
                    "updatedNumberScheduled": updated, "numberAvailable": ready }),
            )
        };
        assert_eq!(status(3, 2, 2, 2), "");
        assert_eq!(status(2, 2, 2, 2), "its controller has not seen its last change");
        assert_eq!(status(3, 0, 0, 0), "no node is to run it");
        // The pods of the earlier change are ready.
        assert_eq!(status(3, 2, 1, 2), "1 of 2 pods have its last change");
        assert_eq!(status(3, 2, 2, 1), "1 of 2 pods are available");
        assert_eq!(
            told(json!({}), json!({ "desiredNumberScheduled": 2 })),
            "its controller has not seen its last change"
        );
    }

    #[test]
    fn deployment_runs_its_last_change_with_all_pods() {
        let status = |wanted: u64, [all, updated, up]: [u64; 3]| {
            told(
                json!({ "replicas": wanted }),
                json!({ "observedGeneration": 3, "replicas": all, "updatedReplicas": updated, "availableReplicas": up }),
            )
        };
        assert_eq!(status(2, [2, 2, 2]), "");
        // The controller leaves out counts of 0.
        assert_eq!(
            told(json!({ "replicas": 1 }), json!({ "observedGeneration": 3 })),
            "0 of 1 pods have its last change"
        );
        assert_eq!(status(2, [3, 1, 2]), "1 of 2 pods have its last change");
        assert_eq!(status(2, [3, 2, 2]), "1 pods of an earlier change are left");
        assert_eq!(status(2, [2, 2, 1]), "1 of 2 pods are available");
        assert_eq!(status(0, [0, 0, 0]), "it is scaled to 0 pods");
        let stuck = json!({ "observedGeneration": 3, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1,
            "conditions": [{ "type": "Progressing", "status": "False", "reason": DEADLINE_EXCEEDED, "message": "timed out" }] });
        assert_eq!(told(json!({ "replicas": 1 }), stuck), "its rollout exceeded its deadline: timed out");
        let stateful = |ready: u64| {
            let status = json!({ "observedGeneration": 3, "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready,
                "updateRevision": "a-2" });
            told(json!({ "replicas": 1 }), status)
        };
        assert_eq!([stateful(1), stateful(0)], ["", "0 of 1 pods are available"]);
    }
}
