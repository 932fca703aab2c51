//! Building blocks of the schemas.

use crate::model::{DURATION_PATTERN, Value};
use serde_json::{Map, json};

/// Names that templates can read with a dot.
pub(super) const IDENTIFIER_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// Names that are also used as file names.
pub(super) const LABEL_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";

pub(super) fn build_root_schema(title: &str, description: &str, schema: Value) -> Value {
    let mut root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
    });
    if let (Some(root), Value::Object(schema)) = (root.as_object_mut(), schema) {
        root.extend(schema);
    }
    root
}

/// Returns the schema of a map with exactly these keys.
pub(super) fn object_schema(keys: &[&str], of: fn(&str) -> Value, required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), of(key))).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

pub(super) fn with_description(description: &str, mut schema: Value) -> Value {
    schema["description"] = json!(description);
    schema
}

/// Returns the schema of text. Plain numbers and booleans are valid text: scalars keep their text.
pub(super) fn text_schema() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

pub(super) fn text_list_schema() -> Value {
    json!({ "type": "array", "items": text_schema() })
}

pub(super) fn nullable_schema(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

pub(super) fn map_schema(schema: Value) -> Value {
    json!({ "type": "object", "additionalProperties": schema })
}

pub(super) fn list_schema(schema: Value) -> Value {
    json!({ "type": "array", "items": schema })
}

pub(super) fn share_schema() -> Value {
    json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+%?$" }] })
}

pub(super) fn duration_schema() -> Value {
    json!({ "type": "string", "pattern": DURATION_PATTERN, "minLength": 2 })
}

pub(super) fn vars_schema() -> Value {
    json!({ "type": "object", "propertyNames": { "pattern": IDENTIFIER_PATTERN } })
}

pub(super) fn secret_schema() -> Value {
    let one_of = |source: &str, value: Value, options: &[(&str, Value)]| {
        let options = options.iter().map(|(key, schema)| ((*key).to_owned(), schema.clone()));
        let properties: serde_json::Map<_, _> = options.chain([(source.to_owned(), value)]).collect();
        json!({ "properties": properties, "required": [source], "additionalProperties": false })
    };
    let timeout = || ("timeout", duration_schema());
    let words = || json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
    json!({
        "description": "Source of a secret: an environment variable, a file, a file that age or sops decrypts, or a command.",
        "type": "object",
        "oneOf": [
            one_of("env", text_schema(), &[]),
            one_of("file", text_schema(), &[]),
            one_of("age", text_schema(), &[("identity", text_schema()), timeout()]),
            one_of("sops", text_schema(), &[("key", json!({ "anyOf": [text_schema(), words()] })), timeout()]),
            one_of("command", words(), &[timeout()]),
        ],
    })
}
