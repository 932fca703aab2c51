//! `nodes`: every node of the cluster as reported by its API.

use super::fact::ClusterFact;
use super::quantity;
use crate::facts::fact::FactShape;
use crate::model::Value;
use crate::probe::UnansweredReason;
use serde_json::json;

pub(super) const FACT: ClusterFact = ClusterFact {
    name: "nodes",
    doc: "The nodes of the cluster, by name. The node of a host has the host's name or one of its addresses.",
    shape: FactShape::List,
    fields: &[
        ("name", "its name"),
        (
            "ready",
            "whether its kubelet reports that it is ready; also false if the API has not heard from the kubelet for long",
        ),
        ("schedulable", "whether it accepts new pods: false while it is cordoned"),
        ("labels", "its labels, a map"),
        ("annotations", "its annotations, a map"),
        ("taints", "its taints: `key`, `value` (empty if it has none) and `effect`"),
        (
            "capacity",
            "amount of each resource, a map of whole numbers: `1k` is 1000, `1Ki` 1024; a fractional amount is unknown",
        ),
        ("allocatable", "amount of it that pods may request: `nvidia.com/gpu`, `rdma/ib`"),
        ("kubelet", "version of the kubelet: `v1.30.6`"),
        ("runtime", "the container runtime: `containerd://1.7.22`"),
        ("kernel", "the kernel under which the kubelet was started"),
        ("boot_id", "the boot in which the kubelet was started: `facts.boot.id` of the host"),
        ("addresses", "its addresses of the type `InternalIP`"),
    ],
    path: "/api/v1/nodes",
    parse,
};

fn parse(told: &Value) -> Result<Value, UnansweredReason> {
    let nodes = told.as_array().ok_or_else(|| UnansweredReason::new("the API did not answer with a list"))?;
    let mut nodes = nodes.iter().map(build_node).collect::<Result<Vec<Value>, UnansweredReason>>()?;
    nodes.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    Ok(Value::Array(nodes))
}

fn build_node(told: &Value) -> Result<Value, UnansweredReason> {
    let text = |pointer: &str| told.pointer(pointer).and_then(Value::as_str);
    let map = |pointer: &str| told.pointer(pointer).filter(|map| map.is_object()).cloned().unwrap_or(json!({}));
    let list = |pointer: &str| told.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let name = text("/metadata/name").ok_or_else(|| UnansweredReason::new("a node has no name"))?;
    let ready = list("/status/conditions").any(|one| one["type"] == "Ready" && one["status"] == "True");
    let taints = list("/spec/taints").map(|taint| {
        json!({ "key": taint["key"], "value": taint["value"].as_str().unwrap_or_default(), "effect": taint["effect"] })
    });
    let addresses = list("/status/addresses").filter(|address| address["type"] == "InternalIP");
    let info = |key: &str| text(&format!("/status/nodeInfo/{key}"));
    Ok(json!({
        "name": name,
        "ready": ready,
        "schedulable": told.pointer("/spec/unschedulable") != Some(&Value::Bool(true)),
        "labels": map("/metadata/labels"),
        "annotations": map("/metadata/annotations"),
        "taints": taints.collect::<Vec<_>>(),
        "capacity": quantity::parse_quantities(told.pointer("/status/capacity")),
        "allocatable": quantity::parse_quantities(told.pointer("/status/allocatable")),
        "kubelet": info("kubeletVersion"),
        "runtime": info("containerRuntimeVersion"),
        "kernel": info("kernelVersion"),
        "boot_id": info("bootID"),
        "addresses": addresses.map(|address| address["address"].clone()).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_quantities_are_integers() {
        // origin: reconstructed after a kubelet 1.33 and the node object of the API's reference
        let told = json!([{
            "metadata": { "name": "gpu-2" },
            "spec": { "unschedulable": true },
            "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
        }, {
            "metadata": { "name": "gpu-1", "labels": { "a": "b" }, "annotations": { "c": "d" } },
            "spec": { "taints": [{ "key": "nvidia.com/gpu", "effect": "NoSchedule" }] },
            "status": {
                "capacity": { "nvidia.com/gpu": "8", "rdma/ib": "1k", "memory": "2113430056Ki" },
                "allocatable": { "nvidia.com/gpu": "7", "cpu": "3920m" },
                "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": "True" }],
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }, { "type": "Hostname", "address": "gpu-1" }],
                "nodeInfo": {
                    "kubeletVersion": "v1.30.6", "containerRuntimeVersion": "containerd://1.7.22", "bootID": "b-1",
                    "kernelVersion": "5.15.0-130-generic",
                },
            },
        }]);
        let nodes = parse(&told).unwrap();
        let expected = json!({
            "name": "gpu-1", "ready": true, "schedulable": true, "labels": { "a": "b" }, "annotations": { "c": "d" },
            "taints": [{ "key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule" }],
            "capacity": { "nvidia.com/gpu": 8, "rdma/ib": 1000, "memory": 2_164_152_377_344_i64 },
            "allocatable": { "nvidia.com/gpu": 7, "cpu": { "unknown": "`3920m` is not a whole number" } },
            "kubelet": "v1.30.6", "runtime": "containerd://1.7.22", "kernel": "5.15.0-130-generic", "boot_id": "b-1",
            "addresses": ["10.0.0.1"],
        });
        assert_eq!(nodes[0], expected);
        let other = ["name", "ready", "schedulable", "capacity", "kubelet"].map(|key| nodes[1][key].clone());
        assert_eq!(json!(other), json!(["gpu-2", false, false, {}, null]), "nodes are sorted by name");
    }

    #[test]
    fn invalid_node_list_makes_fact_unknown() {
        assert_eq!(parse(&json!([])), Ok(json!([])));
        assert_eq!(parse(&json!({})).unwrap_err().why, "the API did not answer with a list");
        assert_eq!(parse(&json!([{}])).unwrap_err().why, "a node has no name");
    }
}
