//! The pods of a workload that another tool started: where they run, what they may use, and their logs.

use crate::kube::served_kinds::ApiCollection;
use crate::kube::{ClusterApi, KubeError};
use crate::model::Value;
use std::collections::BTreeMap;

/// Labels with which controllers mark the pods of a workload, each with its name.
const JOB_LABELS: [&str; 6] = [
    "batch.kubernetes.io/job-name",
    "job-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
];

/// A pod of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadPod {
    /// Its name.
    pub name: String,
    /// The node that it runs on; `None` before it is scheduled.
    pub node: Option<String>,
    /// The RDMA resources that its containers request: `rdma/ib`.
    pub rdma_resources: Vec<String>,
    /// Whether a container has all devices of its host.
    pub privileged: bool,
    /// Whether a container may lock memory without a limit.
    pub may_lock_memory: bool,
    /// NCCL's variables with a value in the pod's definition, by name.
    pub environment: BTreeMap<String, String>,
    /// The logs of its containers, or why one could not be read.
    pub log: Result<String, String>,
}

impl ClusterApi {
    /// Reads the pods of a workload and their logs: of a Job, a PyTorchJob, a Volcano job, or a JobSet, or the pod of
    /// that name.
    ///
    /// # Errors
    /// The API does not answer in time, or refuses the request.
    pub async fn read_workload_pods(&self, namespace: &str, name: &str) -> Result<Vec<WorkloadPod>, KubeError> {
        let pods = self.list_objects(&ApiCollection::new("v1", "pods", true), Some(namespace), None, None).await;
        let mut pods = pods.map_err(|refusal| refusal.into_kube_error(self.server()))?;
        pods.retain(|pod| belongs_to(pod, name));
        let logs = self.read_pod_logs(&pods).await;
        let read = |pod: &Value| {
            let mut read = read_workload_pod(pod);
            let own = logs.iter().filter(|log| log.pod == read.name);
            let texts: Result<Vec<&str>, &String> = own.map(|log| log.text.as_deref()).collect();
            read.log = texts.map(|texts| texts.join("\n")).map_err(Clone::clone);
            read
        };
        Ok(pods.iter().map(read).collect())
    }
}

fn belongs_to(pod: &Value, workload: &str) -> bool {
    let meta = &pod["metadata"];
    meta["name"] == workload || JOB_LABELS.iter().any(|label| meta["labels"][*label] == workload)
}

fn read_workload_pod(pod: &Value) -> WorkloadPod {
    let containers = || pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let is_rdma = |resource: &&String| {
        resource.starts_with("rdma/")
            || (resource.starts_with("nvidia.com/") && resource.contains("rdma"))
            || resource.starts_with("nvidia.com/sriov")
            || resource.starts_with("nvidia.com/hostdev")
    };
    let requested =
        containers().flat_map(|one| one["resources"]["limits"].as_object().into_iter().flat_map(|map| map.keys()));
    let has_capability = |one: &Value| {
        let added = one.pointer("/securityContext/capabilities/add").and_then(Value::as_array);
        added.into_iter().flatten().any(|name| name == "IPC_LOCK" || name == "CAP_IPC_LOCK" || name == "ALL")
    };
    let variables = containers().flat_map(|one| one["env"].as_array().into_iter().flatten());
    WorkloadPod {
        name: text(&pod["metadata"]["name"]).unwrap_or_default(),
        node: text(&pod["spec"]["nodeName"]),
        rdma_resources: requested.filter(is_rdma).cloned().collect(),
        privileged: containers().any(|one| one["securityContext"]["privileged"] == true),
        may_lock_memory: containers().any(has_capability),
        environment: variables
            .filter_map(|one| Some((text(&one["name"])?, text(&one["value"])?)))
            .filter(|(name, _)| name.starts_with("NCCL_"))
            .collect(),
        log: Ok(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_of_a_workload_are_found_by_the_labels_of_their_controllers() {
        let pod = |label: &str| json!({"metadata": {"name": "x-0", "labels": {label: "train"}}});
        for label in JOB_LABELS {
            assert!(belongs_to(&pod(label), "train"), "{label}");
            assert!(!belongs_to(&pod(label), "trai"), "{label}");
        }
        assert!(!belongs_to(&pod("app"), "train"));
        assert!(belongs_to(&pod("app"), "x-0"));
    }

    #[test]
    fn devices_rights_and_variables_are_read_from_the_definition() {
        let pod = json!({"metadata": {"name": "x-0"}, "spec": {"nodeName": "gpu-1", "containers": [{
            "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "1"}},
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
            "env": [{"name": "NCCL_IB_DISABLE", "value": "1"}, {"name": "HOME", "value": "/"},
                {"name": "NCCL_SECRET", "valueFrom": {}}]}]}});
        let read = read_workload_pod(&pod);
        assert_eq!((read.node.as_deref(), read.may_lock_memory, read.privileged), (Some("gpu-1"), true, false));
        assert_eq!(read.rdma_resources, ["rdma/ib"]);
        assert_eq!(read.environment, BTreeMap::from([("NCCL_IB_DISABLE".to_owned(), "1".to_owned())]));
        let bare = read_workload_pod(&json!({"metadata": {"name": "x-1"}, "spec": {"containers": [{}]}}));
        assert_eq!((bare.node, bare.rdma_resources.len(), bare.may_lock_memory), (None, 0, false));
    }
}
