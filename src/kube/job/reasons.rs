//! Reasons for the state of a workload: its own status, its group, its pods, and their events.

use super::proofs::pod_collection;
use crate::kube::ClusterApi;
use crate::kube::request_error::ApiRequestError;
use crate::kube::served_kinds::{ApiCollection, ApiKindCache};
use crate::model::Value;
use crate::object::ObjectId;

/// Maximum number of reasons that are reported.
const MAX_REASONS: usize = 6;

/// The observed state of a workload.
#[derive(Debug, Default)]
pub(super) struct WorkloadSnapshot {
    pub object: Value,
    pub pods: Vec<Value>,
}

impl WorkloadSnapshot {
    /// Returns a pod that has started.
    pub fn find_started_pod(&self) -> Option<&Value> {
        let phase = |pod: &&Value| matches!(text_at(pod, "/status/phase"), "Running" | "Succeeded" | "Failed");
        self.pods.iter().find(phase)
    }

    /// Returns the nodes of its pods.
    pub fn node_names(&self) -> Vec<String> {
        let mut nodes: Vec<String> = self.pods.iter().map(|pod| text_at(pod, "/spec/nodeName").to_owned()).collect();
        nodes.retain(|node| !node.is_empty());
        nodes.sort();
        nodes.dedup();
        nodes
    }

    /// Returns a short progress description.
    pub fn summarize_state(&self) -> String {
        let own = ["/status/state/phase", "/status/phase"].map(|pointer| text_at(&self.object, pointer));
        let own = own.into_iter().find(|phase| !phase.is_empty()).unwrap_or("made");
        let count = |wanted: &str| self.pods.iter().filter(|pod| text_at(pod, "/status/phase") == wanted).count();
        let told = ["Pending", "Running", "Succeeded", "Failed"].map(|phase| (count(phase), phase.to_lowercase()));
        let pods: Vec<String> =
            told.iter().filter(|(count, _)| *count > 0).map(|(count, phase)| format!("{count} {phase}")).collect();
        match pods.is_empty() {
            true => format!("{}, no pods yet", own.to_lowercase()),
            false => format!("{}, pods: {}", own.to_lowercase(), pods.join(", ")),
        }
    }
}

pub(super) fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items_at<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Formats a reason and its message.
fn join_reason(reason: &str, message: &str) -> String {
    match (reason, message) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

impl ClusterApi {
    /// Returns the reasons why it does not progress, or failed, the most important first.
    pub(super) async fn collect_reasons(&self, seen: &WorkloadSnapshot, namespace: &str) -> Vec<String> {
        let mut all = workload_reasons(&seen.object);
        all.extend(self.pod_group_reasons(&seen.object, namespace).await.unwrap_or_default());
        all.extend(seen.pods.iter().flat_map(pod_reasons));
        for about in std::iter::once(&seen.object).chain(seen.pods.iter().take(2)) {
            all.extend(self.event_reasons(about, namespace).await.unwrap_or_default());
        }
        let mut told: Vec<String> = Vec::new();
        for reason in all.into_iter().filter(|reason| !reason.is_empty()) {
            if !told.contains(&reason) && told.len() < MAX_REASONS {
                told.push(reason);
            }
        }
        told
    }

    /// Returns the reasons of Volcano's pod groups: a gang is scheduled as a group.
    async fn pod_group_reasons(&self, object: &Value, namespace: &str) -> Result<Vec<String>, ApiRequestError> {
        let group = ObjectId {
            api_version: "scheduling.volcano.sh/v1beta1".to_owned(),
            kind: "PodGroup".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: String::new(),
        };
        let Some(place) = self.find_collection(&group, &ApiKindCache::default()).await? else { return Ok(Vec::new()) };
        let groups = self.list_objects(&place, Some(namespace), None, None).await?;
        let uid = text_at(object, "/metadata/uid");
        let own = groups
            .iter()
            .filter(|group| items_at(group, "/metadata/ownerReferences").any(|owner| owner["uid"] == *uid));
        Ok(own.flat_map(unschedulable_reasons).collect())
    }

    async fn event_reasons(&self, about: &Value, namespace: &str) -> Result<Vec<String>, ApiRequestError> {
        let fields = format!("involvedObject.uid={},type=Warning", text_at(about, "/metadata/uid"));
        let events =
            self.list_objects(&ApiCollection::new("v1", "events", true), Some(namespace), None, Some(&fields)).await?;
        // All of them: the first one about an image names the cause, and later ones repeat the state of the container.
        Ok(events.iter().map(|event| join_reason(text_at(event, "/reason"), text_at(event, "/message"))).collect())
    }

    /// Lists its pods.
    pub(super) async fn list_pods_matching(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Value>, ApiRequestError> {
        self.list_objects(&pod_collection(), Some(namespace), Some(selector), None).await
    }
}

pub(super) fn workload_reasons(object: &Value) -> Vec<String> {
    let failed =
        items_at(object, "/status/conditions").filter(|found| found["type"] == "Failed" && found["status"] == "True");
    let mut all: Vec<String> =
        failed.map(|found| join_reason(text_at(found, "/reason"), text_at(found, "/message"))).collect();
    all.push(join_reason(text_at(object, "/status/state/reason"), text_at(object, "/status/state/message")));
    all
}

fn unschedulable_reasons(group: &Value) -> Vec<String> {
    let stuck = items_at(group, "/status/conditions")
        .filter(|found| found["type"] == "Unschedulable" && found["status"] == "True");
    stuck
        .map(|found| {
            format!("pod group not scheduled: {}", join_reason(text_at(found, "/reason"), text_at(found, "/message")))
        })
        .collect()
}

pub(super) fn pod_reasons(pod: &Value) -> Vec<String> {
    let name = text_at(pod, "/metadata/name");
    let unplaced = items_at(pod, "/status/conditions")
        .filter(|found| found["type"] == "PodScheduled" && found["status"] == "False");
    let mut all: Vec<String> =
        unplaced.map(|found| format!("pod {name} not scheduled: {}", text_at(found, "/message"))).collect();
    let containers = items_at(pod, "/status/initContainerStatuses").chain(items_at(pod, "/status/containerStatuses"));
    for status in containers {
        let container = text_at(status, "/name");
        let (reason, message) = (text_at(status, "/state/waiting/reason"), text_at(status, "/state/waiting/message"));
        if !matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            all.push(format!("container {container} of pod {name} is waiting: {}", join_reason(reason, message)));
        }
        let code = status.pointer("/state/terminated/exitCode").and_then(Value::as_i64).unwrap_or(0);
        if code != 0 {
            let (reason, message) =
                (text_at(status, "/state/terminated/reason"), text_at(status, "/state/terminated/message"));
            let why = join_reason(reason, message);
            all.push(format!("container {container} of pod {name} exited with code {code}: {why}"));
        }
    }
    if text_at(pod, "/status/phase") == "Failed" {
        let own = join_reason(text_at(pod, "/status/reason"), text_at(pod, "/status/message"));
        all.extend((!own.is_empty()).then(|| format!("pod {name} failed: {own}")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pod_reasons_list_scheduling_and_container_errors() {
        let pod = json!({
            "metadata": { "name": "a" },
            "status": {
                "phase": "Pending",
                "conditions": [{ "type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 Insufficient rdma/ib." }],
                "containerStatuses": [
                    { "name": "main", "state": { "waiting": { "reason": "ErrImagePull", "message": "not found" } } },
                    { "name": "side", "state": { "waiting": { "reason": "ContainerCreating" } } },
                    { "name": "last", "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } },
                ],
            },
        });
        let told = [
            "pod a not scheduled: 0/2 nodes are available: 2 Insufficient rdma/ib.",
            "container main of pod a is waiting: ErrImagePull: not found",
            "container last of pod a exited with code 137: OOMKilled",
        ];
        assert_eq!(pod_reasons(&pod), told);
    }

    #[test]
    fn unscheduled_gang_is_explained_by_its_pod_group() {
        let message = "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable";
        let group = json!({ "status": { "conditions": [{ "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message }] } });
        assert_eq!(unschedulable_reasons(&group), [format!("pod group not scheduled: NotEnoughResources: {message}")]);
        let scheduled = json!({ "status": { "conditions": [{ "type": "Unschedulable", "status": "False" }, { "type": "Scheduled", "status": "True" }] } });
        assert_eq!(unschedulable_reasons(&scheduled), Vec::<String>::new());
    }

    #[test]
    fn workload_state_counts_pods_by_phase() {
        let pod = |phase: &str| json!({ "status": { "phase": phase }, "spec": { "nodeName": "n1" } });
        let mut seen =
            WorkloadSnapshot { object: json!({ "status": { "state": { "phase": "Pending" } } }), pods: vec![] };
        assert_eq!(seen.summarize_state(), "pending, no pods yet");
        seen.pods = vec![pod("Pending"), pod("Running"), pod("Pending")];
        assert_eq!(seen.summarize_state(), "pending, pods: 2 pending, 1 running");
        assert_eq!((seen.node_names(), seen.find_started_pod().is_some()), (vec!["n1".to_owned()], true));
    }
}
