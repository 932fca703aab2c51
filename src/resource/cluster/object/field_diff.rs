//! Renders the differences between an object's current state and its state after an apply.

use crate::model::{SecretStore, Value, render_yaml_block, render_yaml_line};
use crate::object::{FieldDifference, Redactor, find_differences};
use crate::resource::AttributeChange;
use crate::resource::shared::diff;
use serde::Serialize;

/// Maximum number of fields to list one by one.
const MAX_SHOWN_FIELDS: usize = 40;

/// One field of an object that differs. A secret one has no values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) struct ObjectFieldChange {
    pub field: FieldDifference,
    pub secret: bool,
}

impl ObjectFieldChange {
    /// Renders the change. `of` names the object if a step has several.
    fn render_change(&self, of: &str) -> AttributeChange {
        let attribute = qualify_field(of, &self.field.path.to_string());
        match self.secret {
            true => AttributeChange { secret: true, ..AttributeChange::new(&attribute, None, None) },
            false => value_change(&attribute, self.field.from.as_ref(), self.field.to.as_ref()),
        }
    }
}

/// Returns the fields that differ between the current state of an object and its state after an apply.
pub(super) fn diff_fields(redactor: &Redactor<'_>, live: &Value, becomes: &Value) -> Vec<ObjectFieldChange> {
    let redact = |found| {
        let (field, secret) = redactor.redact_difference(found);
        ObjectFieldChange { field, secret }
    };
    find_differences(live, becomes).into_iter().map(redact).collect()
}

/// Renders the fields that differ; of very many, the first ones.
pub(super) fn render_fields(of: &str, fields: &[ObjectFieldChange]) -> Vec<AttributeChange> {
    let mut changes: Vec<AttributeChange> =
        fields.iter().take(MAX_SHOWN_FIELDS).map(|field| field.render_change(of)).collect();
    let more = fields.len() - changes.len();
    if more > 0 {
        changes.push(AttributeChange::new(&qualify_field(of, "…"), Some(&format!("{more} more fields")), None));
    }
    changes
}

/// Returns the text of an object for people, without secrets.
pub(in crate::resource) fn render_object(object: &Value, secrets: Option<&SecretStore>) -> String {
    render_yaml_block(&Redactor::for_object(object, secrets).mask_object(object))
}

/// Returns the change that creates an object with this text.
pub(in crate::resource) fn creation_change(of: &str, text: &str) -> AttributeChange {
    AttributeChange {
        diff: diff::unified_diff(b"", text.as_bytes()).map(Into::into),
        ..AttributeChange::new(of, None, Some("declared"))
    }
}

pub(super) fn qualify_field(of: &str, field: &str) -> String {
    if of.is_empty() { field.to_owned() } else { format!("{of} {field}") }
}

fn value_change(attribute: &str, live: Option<&Value>, becomes: Option<&Value>) -> AttributeChange {
    let large =
        |value: &Value| value.is_object() || value.is_array() || value.as_str().is_some_and(|text| text.contains('\n'));
    if !live.into_iter().chain(becomes).any(large) {
        let text = |value: Option<&Value>| value.map(render_yaml_line);
        return AttributeChange::new(attribute, text(live).as_deref(), text(becomes).as_deref());
    }
    let text = |value: Option<&Value>| {
        value.map(|value| value.as_str().map_or_else(|| render_yaml_block(value), str::to_owned)).unwrap_or_default()
    };
    let unified = diff::unified_diff(text(live).as_bytes(), text(becomes).as_bytes());
    AttributeChange {
        diff: unified.map(Into::into),
        ..AttributeChange::new(attribute, live.map(|_| "current"), becomes.map(|_| "declared"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changed_fields_are_listed_individually() {
        let live = json!({ "spec": { "replicas": 1, "containers": [{ "name": "a", "image": "x:1" }, { "name": "b" }] }, "data": { "t": "(secret)", "m": "1\n" } });
        let becomes = json!({ "spec": { "replicas": 2, "containers": [{ "name": "a", "image": "x:2" }] }, "data": { "t": "(secret, another one)", "m": "2\n" } });
        let fields = diff_fields(&Redactor::for_object(&Value::Null, None), &live, &becomes);
        let told: Vec<(String, Option<String>, Option<String>, bool)> = render_fields("", &fields)
            .into_iter()
            .map(|c| {
                (
                    c.attribute.to_string(),
                    c.from.map(|t| t.raw().to_owned()),
                    c.to.map(|t| t.raw().to_owned()),
                    c.secret,
                )
            })
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            told,
            [
                (".spec.replicas".to_owned(), some("1"), some("2"), false),
                (".spec.containers[name=a].image".to_owned(), some("x:1"), some("x:2"), false),
                (".spec.containers[name=b]".to_owned(), some("current"), None, false),
                (".data.t".to_owned(), None, None, true),
                (".data.m".to_owned(), some("current"), some("declared"), false),
            ]
        );
    }

    #[test]
    fn diff_of_a_new_secret_hides_its_values() {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "MQ==" } });
        assert!(!render_object(&secret, None).contains("MQ=="));
    }
}
