//! Records which run drained a node: forge annotates each node that it takes out of service, and restores only what the
//! annotation records.
//!
//! Architecture Invariant: annotation and change are one patch of the object as it was read. So every cordon by forge
//! has its annotation, and forge never claims a cordon made by another user.

use crate::model::Value;
use crate::object::{ClusterNode, OPERANDS_LABEL};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The annotation with the claim.
pub const CORDON_ANNOTATION: &str = "forge/cordoned";

/// The content of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CordonRecord {
    /// Format version of the annotation.
    pub version: u32,
    /// The ID of the run that drained the node.
    pub run: String,
    /// `user@controller`.
    pub controller: String,
    /// When the run drained it. RFC 3339, UTC.
    pub time: String,
    /// Whether forge cordoned the node. If not, it was cordoned before and stays so.
    pub cordoned: bool,
    /// The value of the GPU operator's label before forge set it, if forge set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<PreviousLabelValue>,
}

/// A previous value; `None` if there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousLabelValue {
    pub was: Option<String>,
}

impl CordonRecord {
    /// Returns the claim on a node. An unreadable annotation counts as a claim by an unknown run.
    pub fn from_node(node: &ClusterNode) -> Option<Self> {
        let text = node.annotations.get(CORDON_ANNOTATION)?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| Self {
            version: 1,
            run: "that is not known".to_owned(),
            controller: String::new(),
            time: String::new(),
            cordoned: true,
            operands: None,
        }))
    }

    /// Returns the claim of this run on a node as it was read. What an earlier run changed still belongs to forge.
    pub fn for_run(node: &ClusterNode, run: &str, controller: &str, time: &str) -> Self {
        let before = Self::from_node(node);
        Self {
            version: 1,
            run: run.to_owned(),
            controller: controller.to_owned(),
            time: time.to_owned(),
            cordoned: !node.unschedulable || before.as_ref().is_some_and(|before| before.cordoned),
            operands: before.and_then(|before| before.operands),
        }
    }

    /// Returns the patch that cordons a node.
    pub fn cordon_patch(&self) -> Value {
        json!({ "metadata": { "annotations": { CORDON_ANNOTATION: self.to_json() } }, "spec": { "unschedulable": true } })
    }

    /// Returns the patch that makes the GPU operator remove its pods from a node.
    pub fn remove_operands_patch(&self, node: &ClusterNode) -> Value {
        let was = node.labels.get(OPERANDS_LABEL).cloned();
        let operands = self.operands.clone().or(Some(PreviousLabelValue { was }));
        let noted = Self { operands, ..self.clone() };
        json!({ "metadata": { "annotations": { CORDON_ANNOTATION: noted.to_json() }, "labels": { OPERANDS_LABEL: "false" } } })
    }

    /// Returns the patch that lets the GPU operator restore its pods on a node that is still cordoned; `None` if it is
    /// not needed. The claim still records the previous label.
    pub fn restore_operands_patch(&self, node: &ClusterNode) -> Option<Value> {
        let before = self.operands.as_ref()?;
        let aside =
            node.labels.get(OPERANDS_LABEL).is_some_and(|now| now == "false") && before.was.as_deref() != Some("false");
        aside.then(|| json!({ "metadata": { "labels": { OPERANDS_LABEL: before.was } } }))
    }

    /// Returns the patch that restores a node. Changes that another user made in the meantime stay.
    pub fn uncordon_patch(&self, node: &ClusterNode) -> Value {
        let mut patch = json!({ "metadata": { "annotations": { CORDON_ANNOTATION: null } } });
        if self.cordoned {
            patch["spec"] = json!({ "unschedulable": null });
        }
        if let Some(before) = &self.operands
            && node.labels.get(OPERANDS_LABEL).is_some_and(|now| now == "false")
        {
            patch["metadata"]["labels"] = json!({ OPERANDS_LABEL: before.was });
        }
        patch
    }

    fn to_json(&self) -> String {
        // Strings and booleans always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_node(unschedulable: bool, claim: Option<&str>, operands: Option<&str>) -> ClusterNode {
        let owned = |key: &str, value: Option<&str>| value.map(|value| (key.to_owned(), value.to_owned()));
        ClusterNode {
            unschedulable,
            annotations: owned(CORDON_ANNOTATION, claim).into_iter().collect(),
            labels: owned(OPERANDS_LABEL, operands).into_iter().collect(),
            ..ClusterNode::default()
        }
    }

    fn sample_record(cordoned: bool, operands: Option<Option<&str>>) -> CordonRecord {
        let operands = operands.map(|was| PreviousLabelValue { was: was.map(str::to_owned) });
        CordonRecord { operands, cordoned, ..CordonRecord::for_run(&ClusterNode::default(), "r2", "me@here", "2026") }
    }

    #[test]
    fn operands_are_restored_only_if_forge_removed_them() {
        let aside = sample_node(true, None, Some("false"));
        let patch = json!({ "metadata": { "labels": { OPERANDS_LABEL: null } } });
        assert_eq!(sample_record(true, Some(None)).restore_operands_patch(&aside), Some(patch));
        assert_eq!(sample_record(true, None).restore_operands_patch(&aside), None, "another user removed them");
        assert_eq!(
            sample_record(true, Some(Some("true"))).restore_operands_patch(&sample_node(true, None, Some("true"))),
            None
        );
        assert_eq!(
            sample_record(true, Some(Some("false"))).restore_operands_patch(&aside),
            None,
            "the label was set before"
        );
    }

    #[test]
    fn record_claims_only_nodes_that_forge_cordoned() {
        let ours = sample_record(true, Some(Some("true"))).to_json();
        let theirs = sample_record(false, None).to_json();
        // (cordoned already, note there, ours now)
        let cases = [
            (false, None, true),
            (true, None, false),
            (true, Some(ours.as_str()), true),
            (true, Some(theirs.as_str()), false),
            // Another user uncordoned it in the meantime: now forge cordons it again.
            (false, Some(ours.as_str()), true),
            (false, Some(theirs.as_str()), true),
            (true, Some("garbage"), true),
        ];
        for (cordoned, note, owned) in cases {
            let claim = CordonRecord::for_run(&sample_node(cordoned, note, None), "r3", "me@here", "2026");
            assert_eq!((claim.cordoned, claim.run.as_str()), (owned, "r3"), "{cordoned} {note:?}");
        }
        let again = CordonRecord::for_run(&sample_node(true, Some(&ours), Some("false")), "r3", "me@here", "2026");
        assert_eq!(
            again.operands,
            Some(PreviousLabelValue { was: Some("true".to_owned()) }),
            "the previous label is kept"
        );
        let unread = CordonRecord::from_node(&sample_node(true, Some("garbage"), None)).unwrap();
        assert_eq!(unread.run, "that is not known");
    }

    #[test]
    fn uncordon_restores_the_previous_node_state() {
        let cases = [
            (
                sample_record(true, None),
                None,
                json!({ "metadata": { "annotations": { CORDON_ANNOTATION: null } }, "spec": { "unschedulable": null } }),
            ),
            (sample_record(false, None), None, json!({ "metadata": { "annotations": { CORDON_ANNOTATION: null } } })),
            (
                sample_record(false, Some(Some("true"))),
                Some("false"),
                json!({ "metadata": { "annotations": { CORDON_ANNOTATION: null }, "labels": { OPERANDS_LABEL: "true" } } }),
            ),
            (
                sample_record(false, Some(None)),
                Some("false"),
                json!({ "metadata": { "annotations": { CORDON_ANNOTATION: null }, "labels": { OPERANDS_LABEL: null } } }),
            ),
            // Another user changed the label: it stays.
            (
                sample_record(false, Some(None)),
                Some("true"),
                json!({ "metadata": { "annotations": { CORDON_ANNOTATION: null } } }),
            ),
        ];
        for (claim, label, patch) in cases {
            assert_eq!(claim.uncordon_patch(&sample_node(true, None, label)), patch);
        }
    }

    #[test]
    fn previous_operands_label_is_recorded_once() {
        let patch = sample_record(true, None).remove_operands_patch(&sample_node(true, None, Some("true")));
        assert_eq!(patch["metadata"]["labels"], json!({ OPERANDS_LABEL: "false" }));
        let noted = |patch: &Value| {
            let text = patch["metadata"]["annotations"][CORDON_ANNOTATION].as_str().unwrap().to_owned();
            serde_json::from_str::<CordonRecord>(&text).unwrap().operands
        };
        assert_eq!(noted(&patch), Some(PreviousLabelValue { was: Some("true".to_owned()) }));
        let again = sample_record(true, Some(None)).remove_operands_patch(&sample_node(true, None, Some("false")));
        assert_eq!(noted(&again), Some(PreviousLabelValue { was: None }));
    }
}
