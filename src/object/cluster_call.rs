//! Changes to a cluster as data: `kube` executes them, one after the other.

use super::{JobCall, NodeMarkChanges, ObjectId, ReleaseCall};
use crate::model::Value;

/// One change of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterCall {
    /// A server-side apply, which takes over fields from other managers. Placeholders stand for secrets.
    Apply {
        /// The declared object, with the fields to set.
        object: Value,
    },
    /// Removes the fields at these JSON pointers, if the object still has that version.
    Strip {
        /// The object to change.
        id: ObjectId,
        /// The `resourceVersion` that the object must still have; otherwise nothing is changed.
        version: String,
        /// JSON pointers to the fields to remove.
        pointers: Vec<String>,
    },
    /// Puts the items of its lists into their declared order, if they are in another one.
    Order {
        /// The declared object.
        object: Value,
    },
    /// Deletes the object with that uid and its dependents, and waits until it is gone.
    Delete {
        /// The object to delete.
        id: ObjectId,
        /// The uid that the object must have: a new object of the same name is not deleted.
        uid: String,
    },
    /// Waits until a condition of the object is true.
    Await {
        /// The object to wait for.
        id: ObjectId,
        /// The `type` of the condition in the object's status.
        condition: String,
        /// The longest wait, in seconds.
        limit_s: u64,
    },
    /// Sets and removes labels, annotations and taints of a node.
    Mark(Box<NodeMarkChanges>),
    /// Runs a workload as a proof, and deletes it.
    Job(Box<JobCall>),
    /// Discards the recorded success of such a workload.
    Unprove {
        /// The workload, by its declared name.
        id: ObjectId,
    },
    /// An action on a Helm release.
    Release(Box<ReleaseCall>),
}

impl ClusterCall {
    /// Returns a description of the call, for people.
    pub fn describe_call(&self) -> String {
        match self {
            Self::Apply { object } => match ObjectId::from_object(object) {
                Some(id) => format!("apply {id}"),
                None => "apply an unnamed object".to_owned(),
            },
            Self::Strip { id, pointers, .. } => format!("remove from {id}: {}", pointers.join(", ")),
            Self::Order { object } => match ObjectId::from_object(object) {
                Some(id) => format!("restore the order of list items in {id}"),
                None => "restore the order of list items in an unnamed object".to_owned(),
            },
            Self::Delete { id, .. } => format!("delete {id}"),
            Self::Await { id, condition, limit_s } => format!("wait until {id} is {condition}, at most {limit_s} s"),
            Self::Mark(marks) => marks.describe_changes(),
            Self::Job(call) => call.describe_job(),
            Self::Unprove { id } => format!("discard the recorded success of {id}"),
            Self::Release(call) => call.describe_release_call(),
        }
    }
}
