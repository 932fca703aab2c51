//! The observed state of objects, and the predicted result of an apply.

use super::{FormerFields, ListOrder};
use crate::model::Value;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The API's answer about an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectState {
    /// The API does not serve this kind.
    Unserved,
    /// The API serves the kind: the object, or that it does not exist.
    Known(Box<ObjectInfo>),
}

/// An object, and the predicted result of an apply. Secret values are withheld.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// The live object, without fields that are internal to the API; `None` if it does not exist.
    pub live: Option<Value>,
    /// The uid of the live object; empty if it does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The `resourceVersion` of the live object; empty if it does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Whether it is being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// What its deletion waits for, if the API reports it: finalizers, or the remaining contents of a namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Which manager set which of its fields, according to the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<FieldManager>,
    /// The predicted result of applying the declaration, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry: Option<ObjectDryRun>,
    /// Whether `dry` was computed from the live object, because the account may not ask for a dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub computed: bool,
    /// Fields that another manager set to a different value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ObjectFieldConflict>,
    /// Undeclared fields that were added by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<AddedField>,
    /// Fields that were added by hand and that the API refuses to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<AddedField>,
    /// The number of such fields beyond those that were tried one by one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untried: usize,
    /// Fields that the API forbids to change, according to the causes of its refusal: `data`, `immutable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<String>,
    /// Why fields that were added by hand cannot be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// Lists whose declared items are not in their declared order, now or after the predicted apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<ListOrder>,
    /// Why the API refuses to change the order of these lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_refused: Option<String>,
    /// The fields that the predicted apply may change, if it changes the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<Box<FormerFields>>,
    /// The conditions of the object's status; empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ObjectCondition>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A manager that set fields of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldManager {
    /// The program's own name: `forge`, `kubectl-edit`.
    pub manager: String,
    /// Its last change. RFC 3339, by the API's clock; empty if the API does not record it.
    pub time: String,
    /// `.spec.replicas`, `.spec.containers[name=main].image`.
    pub fields: Vec<String>,
}

/// The predicted result of an apply, according to the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectDryRun {
    /// The object after the apply.
    Becomes(Value),
    /// Its namespace does not exist.
    NoNamespace,
    /// A webhook does not support dry runs, so the API answers none: its message.
    Unsupported(String),
    /// The API would reject it, with this message.
    Refused(String),
    /// An admission rule would reject it, such as a quota, a limit, a policy or a webhook, with this message. The account
    /// has the permission.
    Rejected(String),
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectFieldConflict {
    /// The path of the field, as the API reports it: `.spec.replicas`.
    pub field: String,
    /// The manager that owns the field: `kubectl-edit`; empty if the API does not name it.
    pub manager: String,
    /// Same format as [`FieldManager::time`].
    pub time: String,
}

/// A field that was added by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedField {
    /// The path of the field, for people: `.spec.replicas`.
    pub field: String,
    /// The field's place in the object: a JSON pointer.
    pub pointer: String,
    /// The manager that added the field: `kubectl-edit`.
    pub manager: String,
    /// Same format as [`FieldManager::time`].
    pub time: String,
}

/// A condition of an object's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectCondition {
    /// The `type` of the condition: `Ready`, `Complete`.
    pub name: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// The API's text about the condition, for people; may be empty.
    pub message: String,
    /// Set if its controller evaluated an earlier version of the object: whether the condition holds is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<StatusLag>,
}

/// A status that its controller has not renewed since the object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusLag {
    /// The generation that the controller evaluated.
    pub observed: i64,
    /// The generation of the object.
    pub generation: i64,
}

impl fmt::Display for StatusLag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { observed, generation } = self;
        write!(f, "its controller has not evaluated generation {generation} yet (status of generation {observed})")
    }
}

/// The objects in a namespace, except those that every namespace has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceContents {
    /// The first few: `Deployment front`.
    pub first: Vec<String>,
    /// Whether there are more.
    pub more: bool,
    /// Those that no other one of them owns: with these, all are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
}
