//! What a terminating object waits for, as the API reports it.

use crate::model::Value;

/// What a terminating object waits for.
#[derive(Debug, PartialEq)]
pub(super) struct DeletionBlocker {
    pub text: String,
    /// Whether it waits for controllers that set finalizers.
    pub finalizers: bool,
}

/// The condition of a terminating namespace whose objects have finalizers.
const NAMESPACE_FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// Returns what a terminating object waits for. A namespace reports that in its conditions: each true one blocks it.
pub(super) fn find_blocker(object: &Value) -> Option<DeletionBlocker> {
    object.pointer("/metadata/deletionTimestamp")?;
    let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let blocking: Vec<&Value> = list("/status/conditions")
        .filter(|one| object["kind"] == "Namespace" && one["status"] == "True" && one["message"].is_string())
        .collect();
    let finalizers: Vec<String> =
        list("/metadata/finalizers").filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
    match (blocking.is_empty(), finalizers.is_empty()) {
        (false, _) => Some(DeletionBlocker {
            text: blocking.iter().filter_map(|one| one["message"].as_str()).collect::<Vec<_>>().join("; "),
            finalizers: blocking.iter().any(|one| one["type"] == NAMESPACE_FINALIZERS),
        }),
        (true, false) => Some(DeletionBlocker {
            text: format!("waiting for finalizers {}", finalizers.join(", ")),
            finalizers: true,
        }),
        (true, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deletion_blocker_names_the_finalizers() {
        let mut map = json!({ "kind": "ConfigMap", "metadata": { "finalizers": ["test/slow", "b"] } });
        assert_eq!(find_blocker(&map), None, "it is not being deleted");
        map["metadata"]["deletionTimestamp"] = json!("2026-11-22T19:00:00Z");
        assert_eq!(find_blocker(&map).unwrap().text, "waiting for finalizers `test/slow`, `b`");
        map["metadata"]["finalizers"] = json!([]);
        assert_eq!(find_blocker(&map), None);
    }

    #[test]
    fn deletion_blocker_of_a_namespace_lists_remaining_content() {
        let namespace = json!({
            "kind": "Namespace", "metadata": { "deletionTimestamp": "2026-11-22T19:00:00Z" }, "status": { "phase": "Terminating", "conditions": [
                { "type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "All resources successfully discovered" },
                { "type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: configmaps. has 1 resource instances" },
                { "type": "NamespaceFinalizersRemaining", "status": "True",
                  "message": "Some content in the namespace has finalizers remaining: test/slow in 1 resource instances" },
            ] },
        });
        let blocker = find_blocker(&namespace).unwrap();
        assert!(blocker.finalizers);
        assert_eq!(
            blocker.text,
            "Some resources are remaining: configmaps. has 1 resource instances; \
             Some content in the namespace has finalizers remaining: test/slow in 1 resource instances"
        );
    }
}
