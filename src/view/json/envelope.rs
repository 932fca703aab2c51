//! The schema of all documents that verbs write with `--format json`: the common keys, and the keys of each result.

use super::{
    DoctorBody, ExecBody, ExitInfo, FactsBody, FetchBody, ImagesBody, InitBody, OutliersBody, PlanBody, ReportBody,
    SandboxesBody, VERSION, drift, offline, validation,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

type BodySchema = fn(&mut SchemaGenerator) -> Value;

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    T::json_schema(generator).into()
}

/// Every value of `result`, with the other keys of its document.
const RESULTS: &[(&str, BodySchema)] = &[
    ("plan", body::<PlanBody<'_>>),
    ("images", body::<ImagesBody<'_>>),
    ("report", body::<ReportBody<'_>>),
    ("facts", body::<FactsBody<'_>>),
    ("outliers", body::<OutliersBody<'_>>),
    ("sandboxes", body::<SandboxesBody<'_>>),
    ("validation", body::<validation::ValidationBody<'_>>),
    ("graph", body::<offline::GraphBody<'_>>),
    ("recipes", body::<offline::RecipesBody<'_>>),
    ("recipe", body::<offline::RecipeBody<'_>>),
    ("values", body::<offline::ValueBody<'_>>),
    ("step", body::<offline::StepBody<'_>>),
    ("code", body::<offline::CodeBody>),
    ("page", body::<offline::PageBody<'_>>),
    ("runs", body::<offline::RunsBody<'_>>),
    ("run", body::<offline::RunBody<'_>>),
    ("comparison", body::<offline::ComparisonBody<'_>>),
    ("doctor", body::<DoctorBody<'_>>),
    ("drift", body::<drift::DriftBody<'_>>),
    ("drift_history", body::<drift::HistoryBody<'_>>),
    ("exec", body::<ExecBody<'_>>),
    ("fetch", body::<FetchBody<'_>>),
    ("init", body::<InitBody<'_>>),
];

/// Returns the schema of all documents: one alternative per `result`, without additional keys.
pub fn document_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let exit: Value = generator.subschema_for::<ExitInfo>().into();
    let alternatives: Vec<Value> =
        RESULTS.iter().map(|(result, body)| alternative(result, body(&mut generator), &exit)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Document",
        "description": "The output of a command with `--format json`. `result` names the kind of the document.",
        "oneOf": alternatives,
        "$defs": generator.take_definitions(true),
    })
}

fn alternative(result: &str, mut body: Value, exit: &Value) -> Value {
    let mut properties = Map::new();
    properties.insert("version".to_owned(), json!({ "const": VERSION }));
    properties.insert("result".to_owned(), json!({ "const": result }));
    properties.insert("forge".to_owned(), json!({ "type": "string", "description": "The version of forge." }));
    properties.insert("exit".to_owned(), exit.clone());
    let mut required: Vec<Value> = properties.keys().map(|key| json!(key)).collect();
    if let Some(Value::Object(own)) = body.get_mut("properties").map(Value::take) {
        properties.extend(own);
    }
    if let Some(Value::Array(own)) = body.get_mut("required").map(Value::take) {
        required.extend(own);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
