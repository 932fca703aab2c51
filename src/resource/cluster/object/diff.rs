//! How the objects of a step differ, and the calls that make them match.

use super::DeclaredObject;
use super::field_diff::{ObjectFieldChange, creation_change, qualify_field, render_fields};
use super::former::{FormerObject, derive_undo};
use crate::model::{UndoEffect, Value, render_yaml_line};
use crate::object::{ClusterCall, ListOrder, ObjectId};
use crate::resource::{AttributeChange, ResourceDiff};
use serde::Serialize;

/// Seconds that the API has to serve a new kind.
const ESTABLISH_LIMIT_S: u64 = 60;

/// How the objects of a step differ, in the order of the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::resource) struct ObjectsDiff {
    pub objects: Vec<ObjectDiff>,
    /// Each changed object before the change.
    pub former: Vec<FormerObject>,
}

/// One difference of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) struct ObjectDiff {
    pub id: ObjectId,
    /// Whether fields are shown with the name of the object, since the step has several.
    pub named: bool,
    pub what: ObjectDifference,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) enum ObjectDifference {
    /// It does not exist. Its text is without secrets.
    Missing { text: String },
    /// Fields that an apply changes.
    Fields { fields: Vec<ObjectFieldChange> },
    /// Undeclared fields of the object with that version.
    Additions { version: String, fields: Vec<UndeclaredField> },
    /// Lists whose declared items are in another order.
    Order { lists: Vec<ListOrder> },
    /// The condition is not true, or not known before the change.
    Condition { condition: String, limit_s: u64, observed: ObservedCondition },
    /// It exists and is to be deleted. An obsolete one is not declared any more; its step is.
    Present { uid: String, obsolete: bool },
}

/// A condition before the change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) enum ObservedCondition {
    /// The object is changed first: its condition until then does not matter.
    BeforeChange,
    /// Its status; `None` if it is not reported yet, or only of an earlier version of the object.
    Status(Option<String>),
}

/// A field that was added by hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) struct UndeclaredField {
    pub field: String,
    /// The field's place in the object: a JSON pointer.
    pub pointer: String,
    /// `None` if it is secret.
    pub value: Option<Value>,
    pub secret: bool,
}

impl UndeclaredField {
    fn render_removal(&self, of: &str) -> AttributeChange {
        let found = match (self.secret, &self.value) {
            (true, _) => None,
            (false, Some(value)) => Some(render_yaml_line(value)),
            (false, None) => Some("present".to_owned()),
        };
        let change = AttributeChange::new(&qualify_field(of, &self.field), found.as_deref(), None);
        AttributeChange { secret: self.secret, ..change }
    }
}

impl ObjectDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let title = self.id.to_string();
        let of = if self.named { title.as_str() } else { "" };
        match &self.what {
            ObjectDifference::Missing { text } => vec![creation_change(&title, text)],
            ObjectDifference::Fields { fields } => {
                render_fields(of, fields).into_iter().map(AttributeChange::mark_inner).collect()
            }
            ObjectDifference::Additions { fields, .. } => {
                fields.iter().map(|field| field.render_removal(of).mark_inner()).collect()
            }
            ObjectDifference::Order { lists } => {
                lists.iter().filter(|list| !list.after_apply).map(|list| render_order(of, list)).collect()
            }
            ObjectDifference::Condition { condition, observed: ObservedCondition::Status(status), .. } => {
                vec![AttributeChange::new(&format!("{title} {condition}"), status.as_deref(), Some("True"))]
            }
            ObjectDifference::Condition { observed: ObservedCondition::BeforeChange, .. } => Vec::new(),
            ObjectDifference::Present { obsolete, .. } => {
                let change = AttributeChange::new(&title, Some("exists"), None).with_member(&self.id.to_claim());
                // The other objects of the step stay.
                vec![if *obsolete { change.mark_inner() } else { change }]
            }
        }
    }
}

/// Returns the change of the order of a list.
pub(super) fn render_order(of: &str, list: &ListOrder) -> AttributeChange {
    let attribute = qualify_field(of, &format!("{} order", list.field));
    AttributeChange::new(&attribute, Some(&list.current.join(", ")), Some(&list.declared.join(", ")))
}

impl ResourceDiff for ObjectsDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        self.objects.iter().flat_map(ObjectDiff::render_changes).collect()
    }
}

impl ObjectsDiff {
    pub(super) fn push(&mut self, id: &ObjectId, named: bool, what: ObjectDifference) {
        self.objects.push(ObjectDiff { id: id.clone(), named, what });
    }

    /// Notes an object before its change.
    pub(super) fn note_former(&mut self, former: FormerObject) {
        self.former.push(former);
    }

    /// Returns how the changes are undone.
    pub(in crate::resource) fn derive_undo(&self) -> UndoEffect {
        derive_undo(&self.former)
    }

    /// Reports whether the object gets a new version: it is applied, or undeclared fields are removed.
    pub(super) fn changes_object(&self, id: &ObjectId) -> bool {
        let strips = |object: &ObjectDiff| matches!(object.what, ObjectDifference::Additions { .. });
        self.applies_object(id) || self.objects.iter().any(|object| object.id == *id && strips(object))
    }

    /// Reports whether the object is applied.
    pub(super) fn applies_object(&self, id: &ObjectId) -> bool {
        let applies = |what: &ObjectDifference| {
            matches!(
                what,
                ObjectDifference::Missing { .. } | ObjectDifference::Fields { .. } | ObjectDifference::Order { .. }
            )
        };
        self.objects.iter().any(|object| object.id == *id && applies(&object.what))
    }

    /// Returns the calls that make the `declared` objects match: undeclared fields go first, deletions follow in
    /// reverse order of creation, and conditions come last.
    pub(in crate::resource) fn build_calls(&self, declared: &[DeclaredObject]) -> Vec<ClusterCall> {
        let (mut strips, mut applies, mut deletes, mut waits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ObjectDiff { id, what, .. } in &self.objects {
            match what {
                ObjectDifference::Additions { version, fields } => {
                    let pointers = fields.iter().map(|field| field.pointer.clone()).collect();
                    strips.push(ClusterCall::Strip { id: id.clone(), version: version.clone(), pointers });
                }
                ObjectDifference::Missing { .. } | ObjectDifference::Fields { .. } => {
                    declared.iter().filter(|own| own.id == *id).for_each(|own| applies.extend(apply_calls(own)));
                }
                ObjectDifference::Order { .. } => {
                    // Later versions of the API restore the order with the apply.
                    let is_applied = |call: &ClusterCall| matches!(call, ClusterCall::Apply { object } if ObjectId::from_object(object).as_ref() == Some(id));
                    let own: Vec<&DeclaredObject> = declared.iter().filter(|own| own.id == *id).collect();
                    if !applies.iter().any(is_applied) {
                        own.iter().for_each(|own| applies.extend(apply_calls(own)));
                    }
                    applies.extend(own.iter().map(|own| ClusterCall::Order { object: own.object.clone() }));
                }
                ObjectDifference::Present { uid, .. } => {
                    deletes.push(ClusterCall::Delete { id: id.clone(), uid: uid.clone() });
                }
                ObjectDifference::Condition { condition, limit_s, .. } => {
                    waits.push(ClusterCall::Await { id: id.clone(), condition: condition.clone(), limit_s: *limit_s });
                }
            }
        }
        deletes.reverse();
        [strips, applies, deletes, waits].concat()
    }
}

/// Returns the calls that apply an object. Objects of a new kind can only be applied once the kind is served.
fn apply_calls(declared: &DeclaredObject) -> Vec<ClusterCall> {
    let wait = declared.served_kind().map(|_| ClusterCall::Await {
        id: declared.id.clone(),
        condition: "Established".to_owned(),
        limit_s: ESTABLISH_LIMIT_S,
    });
    [ClusterCall::Apply { object: declared.object.clone() }].into_iter().chain(wait).collect()
}
