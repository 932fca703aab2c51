//! How the API says that a worker ended: its Job and the pods of the Job, without I/O.

use super::reasons::{pod_reasons, text_at, workload_reasons};
use crate::model::Value;
use std::collections::BTreeMap;

/// Characters of a reason that are reported.
const MAX_REASON: usize = 500;

/// What the API says about the Jobs of a run, by name.
pub type WorkerJobStates = BTreeMap<String, WorkerJobState>;

/// What the API says about one Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerJobState {
    /// The Job; `None` if it does not exist.
    pub job: Option<Value>,
    /// Its pods.
    pub pods: Vec<Value>,
}

impl WorkerJobState {
    /// Returns how the worker ended, as a lowercase fragment; `None` while it may work or wait. `claimed` is the pod that
    /// does the task: another pod of the Job does nothing, whatever becomes of it.
    pub fn find_end(&self, name: &str, claimed: Option<&str>) -> Option<String> {
        let Some(job) = &self.job else { return Some(format!("its Job {name} was deleted")) };
        let own = |pod: &&Value| claimed.is_none_or(|claimed| text_at(pod, "/metadata/name") == claimed);
        let own: Vec<&Value> = self.pods.iter().filter(own).collect();
        let is_active = |pod: &&&Value| !matches!(text_at(pod, "/status/phase"), "Succeeded" | "Failed");
        if own.iter().any(|pod| is_active(&pod)) {
            return None;
        }
        let reasons = || self.list_reasons(&own);
        match (own.first(), claimed) {
            (Some(pod), _) => Some(join_reasons(reasons(), || {
                let (name, phase) = (text_at(pod, "/metadata/name"), text_at(pod, "/status/phase"));
                format!("its pod {name} ended: {}", phase.to_lowercase())
            })),
            (None, Some(pod)) => Some(join_reasons(workload_reasons(job), || format!("its pod {pod} was deleted"))),
            // The pod has not been created yet, or the API ended the Job first.
            (None, None) => is_failed(job).then(|| join_reasons(reasons(), || format!("its Job {name} failed"))),
        }
    }

    /// Returns what keeps the worker from starting, or why it ended.
    pub(super) fn list_reasons(&self, pods: &[&Value]) -> Vec<String> {
        let own = pods.iter().flat_map(|pod| pod_reasons(pod));
        // What the pods say comes first: the Job only says that a pod failed.
        own.chain(self.job.iter().flat_map(workload_reasons)).collect()
    }
}

fn is_failed(job: &Value) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|found| found["type"] == "Failed" && found["status"] == "True")
}

/// Joins reasons into one line.
pub(super) fn join_reasons(reasons: Vec<String>, default: impl FnOnce() -> String) -> String {
    let all: Vec<String> = reasons
        .iter()
        .map(|reason| reason.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|reason| !reason.is_empty())
        .collect();
    match all.is_empty() {
        true => default(),
        false => all.join("; ").chars().take(MAX_REASON).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, status: Value) -> Value {
        json!({ "metadata": { "name": name }, "status": status })
    }

    fn state(job: Value, pods: &[Value]) -> WorkerJobState {
        WorkerJobState { job: Some(json!({ "status": job })), pods: pods.to_vec() }
    }

    #[test]
    fn end_of_a_worker_is_what_the_api_says() {
        let running = pod("w-a", json!({ "phase": "Running" }));
        let terminated = json!({ "exitCode": 137, "reason": "OOMKilled" });
        let killed = json!({ "phase": "Failed", "containerStatuses": [{ "name": "worker", "state": { "terminated": terminated } }] });
        let evicted =
            json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." });
        let limit = json!({ "conditions": [{ "type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline" }] });
        let cases = [
            (state(json!({}), &[]), None, None),
            (state(json!({}), std::slice::from_ref(&running)), None, None),
            (state(json!({}), &[running.clone(), pod("w-b", killed.clone())]), Some("w-a"), None),
            (
                state(json!({}), &[running, pod("w-b", killed)]),
                Some("w-b"),
                Some("container worker of pod w-b exited with code 137: OOMKilled"),
            ),
            (
                state(json!({}), &[pod("w-a", evicted)]),
                None,
                Some("pod w-a failed: Evicted: The node was low on resource: memory."),
            ),
            (
                state(json!({}), &[pod("w-a", json!({ "phase": "Succeeded" }))]),
                Some("w-a"),
                Some("its pod w-a ended: succeeded"),
            ),
            (state(json!({}), &[]), Some("w-a"), Some("its pod w-a was deleted")),
            (state(limit, &[]), None, Some("DeadlineExceeded: Job was active longer than specified deadline")),
            (WorkerJobState::default(), None, Some("its Job forge-1 was deleted")),
        ];
        for (state, claimed, expected) in cases {
            assert_eq!(state.find_end("forge-1", claimed).as_deref(), expected, "{state:?} {claimed:?}");
        }
    }
}
