//! Values that a manifest sets in objects of a vendor's file.

use crate::diag::Diag;
use crate::model::Value;
use crate::resource::cluster::object::DeclaredObject;
use crate::resource::shared::support::bad_value;
use crate::resource::{FieldSpec, FieldType, FieldValues};

pub(super) const PATCH_FIELDS: &[FieldSpec] = &[
    FieldSpec::required("object", FieldType::Line, "The object: `Deployment/web/api`, `ClusterRole/reader`."),
    FieldSpec::required(
        "path",
        FieldType::Line,
        "JSON pointer of the value: `/spec/template/spec/containers/0/image`. Everything but its last part exists in \
         the object.",
    ),
    FieldSpec::optional("value", FieldType::Any, "The value. Excludes `append`."),
    FieldSpec::optional(
        "append",
        FieldType::List(&FieldType::Any),
        "Items that are added to the list at `path`, unless it already has them. A list that does not exist is created.",
    ),
];

/// Applies `patches` in their order.
pub(super) fn apply_patches(objects: &mut [DeclaredObject], fields: &FieldValues) -> Result<(), Diag> {
    let patches = fields.0.get("patches").and_then(Value::as_array);
    patches.into_iter().flatten().try_for_each(|patch| apply_patch(objects, patch))
}

fn apply_patch(objects: &mut [DeclaredObject], patch: &Value) -> Result<(), Diag> {
    let text = |key: &str| patch.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, path) = (text("object"), text("path"));
    let Some(declared) = objects.iter_mut().find(|declared| declared.id.to_path() == name) else {
        return Err(patch_error(format!("`{name}` is not an object of the manifest"))
            .hint("write `KIND/NAME`, or `KIND/NAMESPACE/NAME`"));
    };
    let spot = declared.object.as_object_mut().and_then(|object| find_spot(object, path));
    let Some(spot) = spot else {
        return Err(patch_error(format!("`{path}` is not a place in {}", declared.id))
            .hint("begin with `/`; each part but the last is a key or a position that exists"));
    };
    match (patch.get("value"), patch.get("append").and_then(Value::as_array)) {
        (Some(value), None) => {
            *spot = value.clone();
            Ok(())
        }
        (None, Some(items)) => {
            append_items(spot, items).ok_or_else(|| patch_error(format!("`{path}` of {} is not a list", declared.id)))
        }
        _ => Err(patch_error("a patch needs either `value` or `append`".to_owned())),
    }
}

fn patch_error(message: String) -> Diag {
    bad_value(message).with_field("patches")
}

/// Returns the value at a JSON pointer, which is created if only its last key does not exist.
fn find_spot<'v>(object: &'v mut serde_json::Map<String, Value>, path: &str) -> Option<&'v mut Value> {
    let (parent, last) = path.rsplit_once('/')?;
    let key = last.replace("~1", "/").replace("~0", "~");
    if parent.is_empty() {
        return Some(object.entry(key).or_insert(Value::Null));
    }
    let mut parts = parent.strip_prefix('/')?.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
    let first = object.get_mut(&parts.next()?)?;
    let parent = parts.try_fold(first, |value, part| match value {
        Value::Object(map) => map.get_mut(&part),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    })?;
    match parent {
        Value::Object(map) => Some(map.entry(key).or_insert(Value::Null)),
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    }
}

fn append_items(spot: &mut Value, items: &[Value]) -> Option<()> {
    if spot.is_null() {
        *spot = Value::Array(Vec::new());
    }
    let list = spot.as_array_mut()?;
    items.iter().for_each(|item| {
        if !list.contains(item) {
            list.push(item.clone());
        }
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectId;
    use serde_json::json;

    fn patched(patch: Value) -> Result<Value, String> {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "operator", "namespace": "kubeflow" },
            "spec": { "template": { "spec": { "containers": [{ "command": ["/manager"], "image": "a:1" }] } } },
        });
        let mut objects = [DeclaredObject { id: ObjectId::from_object(&object).unwrap(), object }];
        let fields = FieldValues([("patches", json!([patch]))].into_iter().collect());
        apply_patches(&mut objects, &fields).map_err(|diag| diag.message)?;
        Ok(objects[0].object["spec"]["template"]["spec"]["containers"][0].clone())
    }

    fn patch(path: &str, more: &Value) -> Value {
        let mut patch = more.clone();
        patch["object"] = json!("Deployment/kubeflow/operator");
        patch["path"] = json!(format!("/spec/template/spec/containers/{path}"));
        patch
    }

    #[test]
    fn values_are_set_and_items_are_appended_once() {
        let image = patched(patch("0/image", &json!({ "value": "b:2" }))).unwrap();
        assert_eq!(image, json!({ "command": ["/manager"], "image": "b:2" }));
        let flag = json!({ "append": ["--gang-scheduler-name=volcano"] });
        let created = patched(patch("0/args", &flag)).unwrap();
        assert_eq!(created["args"], json!(["--gang-scheduler-name=volcano"]));
        let appended = patched(patch("0/command", &json!({ "append": ["/manager", "-v"] }))).unwrap();
        assert_eq!(appended["command"], json!(["/manager", "-v"]));
    }

    #[test]
    fn patch_that_fits_no_object_is_rejected() {
        let error = |patch: Value| patched(patch).unwrap_err();
        let mut other = patch("0/image", &json!({ "value": "b:2" }));
        assert_eq!(
            error(patch("1/image", &json!({ "value": 1 }))),
            "`/spec/template/spec/containers/1/image` is not a place in Deployment kubeflow/operator"
        );
        assert_eq!(
            error(patch("0/image", &json!({ "append": [1] }))),
            "`/spec/template/spec/containers/0/image` of Deployment kubeflow/operator is not a list"
        );
        assert_eq!(error(patch("0/image", &json!({}))), "a patch needs either `value` or `append`");
        other["object"] = json!("Deployment/operator");
        assert_eq!(error(other), "`Deployment/operator` is not an object of the manifest");
    }
}
