//! The objects of a step before a change, and how the change is undone.

use crate::model::{UndoDeclaration, UndoEffect, Value};
use crate::object::{FormerFields, ObjectId, has_mask};
use serde::Serialize;
use serde_json::{Map, json};

/// The kind that restores objects.
pub(in crate::resource) const RESTORING_KIND: &str = "restore_object";

/// Kinds of which a new object is not the former one: it lacks the state that was lost with it.
const KINDS_WITH_STATE: [&str; 5] =
    ["CustomResourceDefinition", "Job", "PersistentVolume", "PersistentVolumeClaim", "Pod"];

/// One object before a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) enum FormerObject {
    /// It did not exist. `serves` is the API version and the kind that it makes the API serve.
    Missing { id: ObjectId, serves: Option<(String, String)> },
    /// An apply changes some of its fields; they are not known without a dry run.
    Changed { id: ObjectId, uid: String, fields: Option<Box<FormerFields>> },
    /// It is deleted.
    Deleted { id: ObjectId, object: Value },
}

/// Returns how changes of these objects are undone: deleted ones are created again, in the order in which they are
/// applied; then the others are restored, the last one first.
pub(super) fn derive_undo(former: &[FormerObject]) -> UndoEffect {
    let (deleted, others): (Vec<&FormerObject>, Vec<&FormerObject>) =
        former.iter().partition(|former| matches!(former, FormerObject::Deleted { .. }));
    let ordered = deleted.into_iter().chain(others.into_iter().rev());
    match ordered.map(FormerObject::declare_former).collect() {
        Ok(steps) => UndoEffect::declare(steps),
        Err(why) => UndoEffect { irreversible: Some(why), ..UndoEffect::default() },
    }
}

impl FormerObject {
    /// # Errors
    /// The object cannot be restored: a lowercase fragment.
    fn declare_former(&self) -> Result<UndoDeclaration, String> {
        let secret = |id: &ObjectId| format!("{id} contains secret values, which no journal keeps");
        let fraction = |id: &ObjectId| format!("{id} contains a number with a fraction, which no declaration holds");
        match self {
            Self::Missing { id, serves: None } if id.kind == "CustomResourceDefinition" => {
                Err(format!("{id} declares no version of which objects can be listed"))
            }
            Self::Missing { id, serves } => {
                let mut fields = json!({ "object": name_object(id) });
                if let Some((api_version, kind)) = serves {
                    fields["serves"] = json!({ "api_version": api_version, "kind": kind });
                }
                Ok(UndoDeclaration::absent(RESTORING_KIND, fields))
            }
            Self::Changed { id, fields: None, .. } => {
                Err(format!("which fields of {id} change is not known without a dry run"))
            }
            Self::Changed { id, uid, fields: Some(fields) } => {
                if has_mask(&fields.before) || has_mask(&fields.after) {
                    return Err(secret(id));
                }
                if has_fraction(&fields.before) || has_fraction(&fields.after) {
                    return Err(fraction(id));
                }
                let FormerFields { names, before, after } = fields.as_ref();
                let fields = json!({ "object": before, "uid": uid, "names": names, "after": after });
                Ok(UndoDeclaration::present(RESTORING_KIND, fields))
            }
            Self::Deleted { id, .. } if KINDS_WITH_STATE.contains(&id.kind.as_str()) => {
                Err(format!("a deleted {} loses more than its declaration", id.kind))
            }
            Self::Deleted { id, object } if has_mask(object) => Err(secret(id)),
            Self::Deleted { id, object } if has_fraction(object) => Err(fraction(id)),
            Self::Deleted { object, .. } => {
                Ok(UndoDeclaration::present(RESTORING_KIND, json!({ "object": strip_assigned_fields(object) })))
            }
        }
    }
}

/// Reports whether a value contains a number with a fraction, which a declaration cannot hold.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(map) => map.values().any(has_fraction),
        _ => false,
    }
}

/// Returns an object with nothing but its names.
fn name_object(id: &ObjectId) -> Value {
    let mut metadata = Map::from_iter([("name".to_owned(), json!(id.name))]);
    if let Some(namespace) = &id.namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    json!({ "apiVersion": id.api_version, "kind": id.kind, "metadata": metadata })
}

/// Returns the object without fields that controllers of the API assign to a new object.
fn strip_assigned_fields(object: &Value) -> Value {
    let mut object = object.clone();
    let assigned = match object["kind"].as_str() {
        Some("Namespace") => "spec",
        Some("ServiceAccount") => "secrets",
        _ => return object,
    };
    if let Some(map) = object.as_object_mut() {
        map.shift_remove(assigned);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId { api_version: "v1".into(), kind: kind.into(), namespace: None, name: name.into() }
    }

    #[test]
    fn deleted_objects_come_first_and_others_in_reverse_order() {
        let former = [
            FormerObject::Missing { id: id("Namespace", "n"), serves: None },
            FormerObject::Deleted {
                id: id("ServiceAccount", "s"),
                object: json!({ "kind": "ServiceAccount", "secrets": [] }),
            },
            FormerObject::Missing { id: id("ConfigMap", "c"), serves: None },
        ];
        let effect = derive_undo(&former);
        let kinds: Vec<&str> =
            effect.steps.iter().map(|step| step.fields["object"]["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ServiceAccount", "ConfigMap", "Namespace"]);
        assert_eq!(effect.steps[0].fields, json!({ "object": { "kind": "ServiceAccount" } }));
        assert!(effect.steps[1].absent && !effect.steps[0].absent);
    }

    #[test]
    fn secrets_and_state_are_not_restored() {
        let masked = json!({ "data": { "password": "(secret)" } });
        let fields = FormerFields { names: json!({}), before: masked.clone(), after: json!({}) };
        let why = |former| derive_undo(&[former]).irreversible.unwrap();
        let changed = |fields| FormerObject::Changed { id: id("ConfigMap", "c"), uid: "u".into(), fields };
        assert_eq!(why(changed(Some(Box::new(fields)))), "ConfigMap c contains secret values, which no journal keeps");
        assert_eq!(why(changed(None)), "which fields of ConfigMap c change is not known without a dry run");
        let deleted = |kind| FormerObject::Deleted { id: id(kind, "c"), object: masked.clone() };
        assert_eq!(why(deleted("Secret")), "Secret c contains secret values, which no journal keeps");
        assert_eq!(why(deleted("Pod")), "a deleted Pod loses more than its declaration");
    }
}
