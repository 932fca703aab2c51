//! Who drained a node: what forge notes at one that it takes out of service, and gives back by that note alone.
//!
//! Architecture Invariant: note and change are one patch of the object as it was read. So there is no cordon of forge's
//! without its note, and none is noted that somebody else made.

use super::Node;
use crate::model::Value;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The annotation that holds the note.
pub const CLAIM: &str = "forge/cordoned";

/// The label by which the GPU operator takes its pods from a node.
pub const OPERANDS: &str = "nvidia.com/gpu.deploy.operands";

/// What forge notes at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub version: u32,
    pub run: String,
    /// `user@controller`.
    pub controller: String,
    /// When the run drained it. RFC 3339, UTC.
    pub time: String,
    /// Whether forge made it take no new pods. Else somebody had done so before, and it stays.
    pub cordoned: bool,
    /// What the label of the GPU operator was before forge set it, if forge did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<Before>,
}

/// A value that was there before, if one was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    pub was: Option<String>,
}

impl Claim {
    /// Returns the note of a node. One that cannot be read is one all the same, of a run that is not known.
    pub fn of(node: &Node) -> Option<Self> {
        let text = node.annotations.get(CLAIM)?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| Self {
            version: 1,
            run: "that is not known".to_owned(),
            controller: String::new(),
            time: String::new(),
            cordoned: true,
            operands: None,
        }))
    }

    /// Returns what this run notes at a node as it was read: what an earlier run changed is still forge's.
    pub fn of_run(node: &Node, run: &str, controller: &str, time: &str) -> Self {
        let before = Self::of(node);
        Self {
            version: 1,
            run: run.to_owned(),
            controller: controller.to_owned(),
            time: time.to_owned(),
            cordoned: !node.unschedulable || before.as_ref().is_some_and(|before| before.cordoned),
            operands: before.and_then(|before| before.operands),
        }
    }

    /// Returns the patch by which a node takes no new pods.
    pub fn cordon(&self) -> Value {
        json!({ "metadata": { "annotations": { CLAIM: self.text() } }, "spec": { "unschedulable": true } })
    }

    /// Returns the patch by which the GPU operator takes its pods from a node.
    pub fn put_aside(&self, node: &Node) -> Value {
        let was = node.labels.get(OPERANDS).cloned();
        let operands = self.operands.clone().or(Some(Before { was }));
        let noted = Self { operands, ..self.clone() };
        json!({ "metadata": { "annotations": { CLAIM: noted.text() }, "labels": { OPERANDS: "false" } } })
    }

    /// Returns the patch by which the GPU operator brings its pods back to a node that is not given back yet; `None` where it may
    /// already. The note still says what the label was.
    pub fn let_back(&self, node: &Node) -> Option<Value> {
        let before = self.operands.as_ref()?;
        let aside =
            node.labels.get(OPERANDS).is_some_and(|now| now == "false") && before.was.as_deref() != Some("false");
        aside.then(|| json!({ "metadata": { "labels": { OPERANDS: before.was } } }))
    }

    /// Returns the patch that gives a node back. What somebody changed again meanwhile stays as they left it.
    pub fn give_back(&self, node: &Node) -> Value {
        let mut patch = json!({ "metadata": { "annotations": { CLAIM: null } } });
        if self.cordoned {
            patch["spec"] = json!({ "unschedulable": null });
        }
        if let Some(before) = &self.operands
            && node.labels.get(OPERANDS).is_some_and(|now| now == "false")
        {
            patch["metadata"]["labels"] = json!({ OPERANDS: before.was });
        }
        patch
    }

    fn text(&self) -> String {
        // Text and truth values always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(unschedulable: bool, claim: Option<&str>, operands: Option<&str>) -> Node {
        let owned = |key: &str, value: Option<&str>| value.map(|value| (key.to_owned(), value.to_owned()));
        Node {
            unschedulable,
            annotations: owned(CLAIM, claim).into_iter().collect(),
            labels: owned(OPERANDS, operands).into_iter().collect(),
            ..Node::default()
        }
    }

    fn claim(cordoned: bool, operands: Option<Option<&str>>) -> Claim {
        let operands = operands.map(|was| Before { was: was.map(str::to_owned) });
        Claim { operands, cordoned, ..Claim::of_run(&Node::default(), "r2", "me@here", "2026") }
    }

    #[test]
    fn the_operator_comes_back_before_the_node_does() {
        let aside = node(true, None, Some("false"));
        let patch = json!({ "metadata": { "labels": { OPERANDS: null } } });
        assert_eq!(claim(true, Some(None)).let_back(&aside), Some(patch));
        assert_eq!(claim(true, None).let_back(&aside), None, "somebody else put them aside");
        assert_eq!(claim(true, Some(Some("true"))).let_back(&node(true, None, Some("true"))), None);
        assert_eq!(claim(true, Some(Some("false"))).let_back(&aside), None, "it was so before");
    }

    #[test]
    fn forge_owns_what_it_cordoned_and_nothing_else() {
        let ours = claim(true, Some(Some("true"))).text();
        let theirs = claim(false, None).text();
        // (cordoned already, note there, ours now)
        let cases = [
            (false, None, true),
            (true, None, false),
            (true, Some(ours.as_str()), true),
            (true, Some(theirs.as_str()), false),
            // Somebody let it take pods in between: from now on it is forge again that keeps it from that.
            (false, Some(ours.as_str()), true),
            (false, Some(theirs.as_str()), true),
            (true, Some("garbage"), true),
        ];
        for (cordoned, note, owned) in cases {
            let claim = Claim::of_run(&node(cordoned, note, None), "r3", "me@here", "2026");
            assert_eq!((claim.cordoned, claim.run.as_str()), (owned, "r3"), "{cordoned} {note:?}");
        }
        let again = Claim::of_run(&node(true, Some(&ours), Some("false")), "r3", "me@here", "2026");
        assert_eq!(again.operands, Some(Before { was: Some("true".to_owned()) }), "what was before is not forgotten");
        let unread = Claim::of(&node(true, Some("garbage"), None)).unwrap();
        assert_eq!(unread.run, "that is not known");
    }

    #[test]
    fn what_was_before_comes_back() {
        let cases = [
            (
                claim(true, None),
                None,
                json!({ "metadata": { "annotations": { CLAIM: null } }, "spec": { "unschedulable": null } }),
            ),
            (claim(false, None), None, json!({ "metadata": { "annotations": { CLAIM: null } } })),
            (
                claim(false, Some(Some("true"))),
                Some("false"),
                json!({ "metadata": { "annotations": { CLAIM: null }, "labels": { OPERANDS: "true" } } }),
            ),
            (
                claim(false, Some(None)),
                Some("false"),
                json!({ "metadata": { "annotations": { CLAIM: null }, "labels": { OPERANDS: null } } }),
            ),
            // Somebody set it anew: it is theirs.
            (claim(false, Some(None)), Some("true"), json!({ "metadata": { "annotations": { CLAIM: null } } })),
        ];
        for (claim, label, patch) in cases {
            assert_eq!(claim.give_back(&node(true, None, label)), patch);
        }
    }

    #[test]
    fn the_label_of_before_is_noted_once() {
        let patch = claim(true, None).put_aside(&node(true, None, Some("true")));
        assert_eq!(patch["metadata"]["labels"], json!({ OPERANDS: "false" }));
        let noted = |patch: &Value| {
            let text = patch["metadata"]["annotations"][CLAIM].as_str().unwrap().to_owned();
            serde_json::from_str::<Claim>(&text).unwrap().operands
        };
        assert_eq!(noted(&patch), Some(Before { was: Some("true".to_owned()) }));
        let again = claim(true, Some(None)).put_aside(&node(true, None, Some("false")));
        assert_eq!(noted(&again), Some(Before { was: None }));
    }
}
