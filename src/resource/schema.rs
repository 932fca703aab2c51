//! JSON Schema (draft 2020-12) of a kind's fields, generated from its table.

use crate::model::Value;
use crate::resource::{FieldSpec, FieldType, ResourceKind};
use serde_json::{Map, json};

/// Pattern of text that contains a template, which is rendered before it is checked.
const TEMPLATE: &str = r"\{\{|\{%";

/// Returns the schema of the value of the kind's key in a step.
pub fn kind_schema(kind: &ResourceKind) -> Value {
    let mut schema = table_schema(kind.fields);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(kind.name);
    schema["description"] = json!(kind.summary);
    schema
}

fn table_schema(fields: &[FieldSpec]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|f| (f.name.to_owned(), field_schema(f))).collect();
    let required: Vec<&str> = fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn field_schema(field: &FieldSpec) -> Value {
    let mut schema = type_schema(&field.ty);
    schema["description"] = json!(field.doc);
    schema
}

/// Returns the schema of a type. Every scalar also allows text that contains a template.
fn type_schema(ty: &FieldType) -> Value {
    match ty {
        FieldType::Text
        | FieldType::Line
        | FieldType::LocalFile
        | FieldType::LocalPath
        | FieldType::LocalDocuments
        | FieldType::Secret => {
            json!({ "type": "string" })
        }
        FieldType::Version => json!({ "type": ["string", "number"] }),
        FieldType::Path => pattern_schema("^/"),
        FieldType::Mode => pattern_schema("^[0-7]{3,4}$"),
        FieldType::Duration | FieldType::Wait => pattern_schema(crate::model::DURATION_PATTERN),
        FieldType::Name => pattern_schema("^[A-Za-z0-9_.@:+][A-Za-z0-9_.@:+-]*$"),
        FieldType::Bool => json!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "pattern": TEMPLATE }] }),
        FieldType::Int { min, max } => json!({
            "anyOf": [
                { "type": "integer", "minimum": min, "maximum": max },
                { "type": "string", "pattern": TEMPLATE },
            ],
        }),
        FieldType::Enum(values) => json!({ "anyOf": [{ "enum": values }, { "type": "string", "pattern": TEMPLATE }] }),
        FieldType::List(item) => json!({
            "anyOf": [{ "type": "array", "items": type_schema(item) }, { "type": "string", "pattern": TEMPLATE }],
        }),
        FieldType::Map(value) => json!({
            "anyOf": [
                { "type": "object", "additionalProperties": type_schema(value) },
                { "type": "string", "pattern": TEMPLATE },
            ],
        }),
        FieldType::Any => json!({}),
        FieldType::Table(fields) => table_schema(fields),
    }
}

fn pattern_schema(pattern: &str) -> Value {
    json!({ "type": "string", "anyOf": [{ "pattern": pattern }, { "pattern": TEMPLATE }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_schema_rejects_unknown_fields() {
        let schema = kind_schema(crate::resource::find_kind("unit").unwrap());
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["drop_in"]["required"], json!(["name", "content"]));
        assert_eq!(schema["properties"]["backup"]["anyOf"][0], json!({ "type": "boolean" }));
    }

    #[test]
    fn every_schema_field_has_a_description() {
        for kind in crate::resource::all_kinds() {
            for (name, property) in kind_schema(kind)["properties"].as_object().unwrap() {
                assert!(property["description"].as_str().is_some_and(|d| d.ends_with('.')), "{}.{name}", kind.name);
            }
        }
    }
}
