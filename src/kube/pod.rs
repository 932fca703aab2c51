//! Pods of a node: which of them go when it is drained, and which budgets of disruption they stand under.

use crate::model::Value;
use k8s_openapi::api::core::v1;
use std::collections::BTreeMap;

/// What the labels begin with by which the GPU operator places its pods.
const DEPLOY: &str = "nvidia.com/gpu.deploy.";

/// A pod, as far as draining is about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// The kind of what makes it anew when it is gone; `None` where nothing does.
    pub owner: Option<String>,
    /// Whether a file of the node makes it: the API shows it only.
    pub mirror: bool,
    /// Whether it has data that is gone with it.
    pub emptydir: bool,
    /// Whether it ended by itself.
    pub finished: bool,
    /// Whether it was told to end, and has not yet.
    pub ending: bool,
    /// Whether it is one of the GPU operator's, which leaves by a label of the node.
    pub operand: bool,
}

/// What may be deleted that does not come back elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Data in volumes of the kind `emptyDir`.
    pub emptydir: bool,
    /// Pods that nothing makes anew.
    pub unmanaged: bool,
}

/// What becomes of a pod when its node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is the node's own.
    Stays,
    Goes,
    /// It was told to go and is waited for.
    Ends,
    /// It would be lost: the key that allows it.
    Lost(&'static str),
}

/// `delete_emptydir_data`: the key of the inventory.
pub const EMPTYDIR_KEY: &str = "delete_emptydir_data";
/// `delete_unmanaged`: the key of the inventory.
pub const UNMANAGED_KEY: &str = "delete_unmanaged";

impl Pod {
    pub(super) fn of(pod: v1::Pod) -> Self {
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
            operand: selects.keys().any(|key| key.starts_with(DEPLOY)),
        }
    }

    /// Returns what becomes of it, by the rules of `kubectl drain --ignore-daemonsets`.
    pub fn fate(&self, manner: Manner) -> Fate {
        match self.owner.as_deref() {
            _ if self.mirror => Fate::Stays,
            Some("DaemonSet") => Fate::Stays,
            _ if self.ending => Fate::Ends,
            _ if self.finished => Fate::Goes,
            None if !manner.unmanaged => Fate::Lost(UNMANAGED_KEY),
            _ if self.emptydir && !manner.emptydir => Fate::Lost(EMPTYDIR_KEY),
            _ => Fate::Goes,
        }
    }

    /// Returns `namespace/name`.
    pub fn whole_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A budget of disruption.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    pub name: String,
    /// How many pods under it may go now.
    pub allowed: i64,
    /// As the API has it.
    pub(super) selector: Value,
    /// Whether an empty selector is meant for every pod, as from policy/v1 on, and not for none.
    pub(super) empty_is_all: bool,
}

impl Budget {
    /// Returns whether pods with such labels stand under it.
    pub fn covers(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = self.selector["matchLabels"].as_object();
        let rules = self.selector["matchExpressions"].as_array();
        if equal.is_none_or(|equal| equal.is_empty()) && rules.is_none_or(Vec::is_empty) {
            return self.selector.is_object() && self.empty_is_all;
        }
        let same = |(key, value): (&String, &Value)| labels.get(key).map(String::as_str) == value.as_str();
        equal.into_iter().flatten().all(same) && rules.into_iter().flatten().all(|rule| holds(rule, labels))
    }
}

fn holds(rule: &Value, labels: &BTreeMap<String, String>) -> bool {
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
    fn what_goes_and_what_stays_is_as_kubectl_has_it() {
        let owned = |kind: &str| Pod { owner: Some(kind.to_owned()), ..Pod::default() };
        let careful = Manner::default();
        let bold = Manner { emptydir: true, unmanaged: true };
        let cases = [
            (owned("ReplicaSet"), Fate::Goes, Fate::Goes),
            (owned("DaemonSet"), Fate::Stays, Fate::Stays),
            (Pod { emptydir: true, ..owned("DaemonSet") }, Fate::Stays, Fate::Stays),
            (Pod { mirror: true, ..owned("Node") }, Fate::Stays, Fate::Stays),
            (Pod { emptydir: true, ..owned("Job") }, Fate::Lost(EMPTYDIR_KEY), Fate::Goes),
            (Pod::default(), Fate::Lost(UNMANAGED_KEY), Fate::Goes),
            (Pod { finished: true, emptydir: true, ..Pod::default() }, Fate::Goes, Fate::Goes),
            (Pod { ending: true, emptydir: true, ..Pod::default() }, Fate::Ends, Fate::Ends),
        ];
        for (pod, carefully, boldly) in cases {
            assert_eq!((pod.fate(careful), pod.fate(bold)), (carefully, boldly), "{pod:?}");
        }
    }

    #[test]
    fn a_pod_is_read_as_the_api_tells_of_it() {
        let pod = |value: Value| Pod::of(serde_json::from_value(value).unwrap());
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
    fn selectors_of_budgets_are_read_as_the_api_does() {
        let labels = BTreeMap::from([("app".to_owned(), "train".to_owned()), ("rank".to_owned(), "0".to_owned())]);
        let covers = |selector: Value, empty_is_all| {
            Budget { name: "b".to_owned(), allowed: 0, selector, empty_is_all }.covers(&labels)
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
