//! Pods of a node: which of them a drain evicts, and which PodDisruptionBudgets cover them.

use crate::model::Value;
use crate::object::DrainAllowedLosses;
use k8s_openapi::api::core::v1;
use std::collections::BTreeMap;

/// Prefix of the node labels that the GPU operator selects its nodes by.
const OPERAND_LABEL_PREFIX: &str = "nvidia.com/gpu.deploy.";

/// The fields of a pod that a drain needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod, unique within its namespace.
    pub name: String,
    /// The uid of the pod: a pod of the same name that was recreated has another one.
    pub uid: String,
    /// The labels of the pod, which budgets select pods by.
    pub labels: BTreeMap<String, String>,
    /// The kind of the controller that would recreate it; `None` if there is none.
    pub owner: Option<String>,
    /// Whether it is a mirror of a static pod: the kubelet runs it from a file on the node.
    pub mirror: bool,
    /// Whether it has `emptyDir` data, which is lost with it.
    pub emptydir: bool,
    /// Whether it has finished.
    pub finished: bool,
    /// Whether it is terminating.
    pub ending: bool,
    /// Whether it is an operand of the GPU operator, which a node label removes.
    pub operand: bool,
}

/// What a drain does with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodDrainAction {
    /// It stays: it belongs to the node.
    Stays,
    /// It is evicted.
    Goes,
    /// It is terminating; the drain waits for it.
    Ends,
    /// It would be lost; the key that allows this.
    Lost(&'static str),
}

/// The inventory key `delete_emptydir_data`.
pub const EMPTYDIR_KEY: &str = "delete_emptydir_data";
/// The inventory key `delete_unmanaged`.
pub const UNMANAGED_KEY: &str = "delete_unmanaged";

impl Pod {
    pub(super) fn from_api(pod: v1::Pod) -> Self {
        let meta = pod.metadata;
        let spec = pod.spec.unwrap_or_default();
        let owners = meta.owner_references.unwrap_or_default();
        let selects = spec.node_selector.unwrap_or_default();
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        Self {
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            owner: owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.kind),
            mirror: meta.annotations.is_some_and(|notes| notes.contains_key("kubernetes.io/config.mirror")),
            emptydir: spec.volumes.iter().flatten().any(|volume| volume.empty_dir.is_some()),
            finished: phase == "Succeeded" || phase == "Failed",
            ending: meta.deletion_timestamp.is_some(),
            operand: selects.keys().any(|key| key.starts_with(OPERAND_LABEL_PREFIX)),
        }
    }

    /// Decides what a drain does with the pod, by the rules of `kubectl drain --ignore-daemonsets`.
    pub fn drain_action(&self, manner: DrainAllowedLosses) -> PodDrainAction {
        match self.owner.as_deref() {
            _ if self.mirror => PodDrainAction::Stays,
            Some("DaemonSet") => PodDrainAction::Stays,
            _ if self.ending => PodDrainAction::Ends,
            _ if self.finished => PodDrainAction::Goes,
            None if !manner.unmanaged => PodDrainAction::Lost(UNMANAGED_KEY),
            _ if self.emptydir && !manner.emptydir => PodDrainAction::Lost(EMPTYDIR_KEY),
            _ => PodDrainAction::Goes,
        }
    }

    /// Returns `namespace/name`.
    pub fn qualified_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct PodBudget {
    /// The name of the budget in its namespace.
    pub name: String,
    /// The number of covered pods that may be evicted now.
    pub allowed: i64,
    /// The selector as the API returned it.
    pub(super) selector: Value,
    /// Whether an empty selector matches every pod, as in policy/v1. In policy/v1beta1 it matches none.
    pub(super) empty_is_all: bool,
}

impl PodBudget {
    /// Reports whether the budget covers pods with these labels.
    pub fn covers_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = self.selector["matchLabels"].as_object();
        let rules = self.selector["matchExpressions"].as_array();
        if equal.is_none_or(|equal| equal.is_empty()) && rules.is_none_or(Vec::is_empty) {
            return self.selector.is_object() && self.empty_is_all;
        }
        let same = |(key, value): (&String, &Value)| labels.get(key).map(String::as_str) == value.as_str();
        equal.into_iter().flatten().all(same) && rules.into_iter().flatten().all(|rule| matches_rule(rule, labels))
    }
}

fn matches_rule(rule: &Value, labels: &BTreeMap<String, String>) -> bool {
    let own = rule["key"].as_str().and_then(|key| labels.get(key));
    let listed = |own: &String| rule["values"].as_array().is_some_and(|values| values.iter().any(|value| value == own));
    match rule["operator"].as_str() {
        Some("In") => own.is_some_and(listed),
        Some("NotIn") => !own.is_some_and(listed),
        Some("Exists") => own.is_some(),
        Some("DoesNotExist") => own.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn drain_evicts_the_same_pods_as_kubectl() {
        let owned = |kind: &str| Pod { owner: Some(kind.to_owned()), ..Pod::default() };
        let careful = DrainAllowedLosses::default();
        let bold = DrainAllowedLosses { emptydir: true, unmanaged: true };
        let cases = [
            (owned("ReplicaSet"), PodDrainAction::Goes, PodDrainAction::Goes),
            (owned("DaemonSet"), PodDrainAction::Stays, PodDrainAction::Stays),
            (Pod { emptydir: true, ..owned("DaemonSet") }, PodDrainAction::Stays, PodDrainAction::Stays),
            (Pod { mirror: true, ..owned("Node") }, PodDrainAction::Stays, PodDrainAction::Stays),
            (Pod { emptydir: true, ..owned("Job") }, PodDrainAction::Lost(EMPTYDIR_KEY), PodDrainAction::Goes),
            (Pod::default(), PodDrainAction::Lost(UNMANAGED_KEY), PodDrainAction::Goes),
            (Pod { finished: true, emptydir: true, ..Pod::default() }, PodDrainAction::Goes, PodDrainAction::Goes),
            (Pod { ending: true, emptydir: true, ..Pod::default() }, PodDrainAction::Ends, PodDrainAction::Ends),
        ];
        for (pod, carefully, boldly) in cases {
            assert_eq!((pod.drain_action(careful), pod.drain_action(bold)), (carefully, boldly), "{pod:?}");
        }
    }

    #[test]
    fn pod_is_parsed_from_its_api_object() {
        let pod = |value: Value| Pod::from_api(serde_json::from_value(value).unwrap());
        let read = pod(json!({
            "metadata": {
                "name": "a", "namespace": "ml", "uid": "u1", "labels": { "app": "x" }, "deletionTimestamp": "2026-11-22T07:00:00Z",
                "annotations": { "kubernetes.io/config.mirror": "h" },
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1" },
                    { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "controller": true },
                ],
            },
            "spec": {
                "containers": [], "nodeSelector": { "nvidia.com/gpu.deploy.dcgm-exporter": "true" },
                "volumes": [{ "name": "shm", "emptyDir": { "medium": "Memory" } }],
            },
            "status": { "phase": "Failed" },
        }));
        let expected = Pod {
            namespace: "ml".to_owned(),
            name: "a".to_owned(),
            uid: "u1".to_owned(),
            labels: BTreeMap::from([("app".to_owned(), "x".to_owned())]),
            owner: Some("ReplicaSet".to_owned()),
            mirror: true,
            emptydir: true,
            finished: true,
            ending: true,
            operand: true,
        };
        assert_eq!(read, expected);
        let bare =
            pod(json!({ "metadata": { "name": "b", "namespace": "ml", "uid": "u2" }, "spec": { "containers": [] } }));
        assert_eq!(
            bare,
            Pod { namespace: "ml".to_owned(), name: "b".to_owned(), uid: "u2".to_owned(), ..Pod::default() }
        );
    }

    #[test]
    fn budget_selectors_match_as_in_the_api() {
        let labels = BTreeMap::from([("app".to_owned(), "train".to_owned()), ("rank".to_owned(), "0".to_owned())]);
        let covers = |selector: Value, empty_is_all| {
            PodBudget { name: "b".to_owned(), allowed: 0, selector, empty_is_all }.covers_labels(&labels)
        };
        let rule = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        let cases = [
            (json!({ "matchLabels": { "app": "train" } }), true),
            (json!({ "matchLabels": { "app": "train", "rank": "1" } }), false),
            (rule("app", "In", &["x", "train"]), true),
            (rule("app", "In", &["x"]), false),
            (rule("app", "NotIn", &["train"]), false),
            (rule("zone", "NotIn", &["train"]), true),
            (rule("rank", "Exists", &[]), true),
            (rule("zone", "DoesNotExist", &[]), true),
            (rule("rank", "DoesNotExist", &[]), false),
            (rule("rank", "Unheard", &[]), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(covers(selector.clone(), true), expected, "{selector}");
        }
        assert_eq!(
            (covers(json!({}), true), covers(json!({}), false), covers(Value::Null, true)),
            (true, false, false)
        );
    }
}
