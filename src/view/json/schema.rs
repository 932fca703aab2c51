//! The schema of all documents that verbs write with `--format json`: the common keys, and the keys of each result.

use super::exit_info::ExitInfo;
use super::read_recording::ReadRecording;
use super::{
    AcceptanceBody, DOCUMENT_VERSION, DiagnosisBody, DoctorBody, ExecBody, FactsBody, FetchBody, HoldsBody, ImagesBody,
    InitBody, OutliersBody, PlanBody, RehearsalBody, ReportBody, SandboxesBody, UndoRefusalBody, drift, offline,
    validation,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

type BodySchema = fn(&mut SchemaGenerator) -> Value;

fn body_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    T::json_schema(generator).into()
}

/// Every value of `result`, with the other keys of its document.
const RESULT_SCHEMAS: &[(&str, BodySchema)] = &[
    ("plan", body_schema::<PlanBody<'_>>),
    ("images", body_schema::<ImagesBody<'_>>),
    ("report", body_schema::<ReportBody<'_>>),
    ("undo_refusal", body_schema::<UndoRefusalBody<'_>>),
    ("rehearsal", body_schema::<RehearsalBody<'_>>),
    ("facts", body_schema::<FactsBody<'_>>),
    ("outliers", body_schema::<OutliersBody<'_>>),
    ("sandboxes", body_schema::<SandboxesBody<'_>>),
    ("validation", body_schema::<validation::ValidationBody<'_>>),
    ("graph", body_schema::<offline::GraphBody<'_>>),
    ("recipes", body_schema::<offline::RecipesBody<'_>>),
    ("recipe", body_schema::<offline::RecipeBody<'_>>),
    ("values", body_schema::<offline::ValueBody<'_>>),
    ("step", body_schema::<offline::StepBody<'_>>),
    ("code", body_schema::<offline::CodeBody>),
    ("page", body_schema::<offline::PageBody<'_>>),
    ("runs", body_schema::<offline::RunsBody<'_>>),
    ("run", body_schema::<offline::RunBody<'_>>),
    ("comparison", body_schema::<offline::ComparisonBody<'_>>),
    ("doctor", body_schema::<DoctorBody<'_>>),
    ("drift", body_schema::<drift::DriftBody<'_>>),
    ("drift_history", body_schema::<drift::HistoryBody<'_>>),
    ("exec", body_schema::<ExecBody<'_>>),
    ("tests", body_schema::<AcceptanceBody<'_>>),
    ("holds", body_schema::<HoldsBody<'_>>),
    ("diagnosis", body_schema::<DiagnosisBody<'_>>),
    ("fetch", body_schema::<FetchBody<'_>>),
    ("init", body_schema::<InitBody<'_>>),
];

/// Returns the schema of all documents: one alternative per `result`, without additional keys.
pub fn document_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let exit: Value = generator.subschema_for::<ExitInfo>().into();
    let recording: Value = generator.subschema_for::<ReadRecording<'_>>().into();
    let alternatives = RESULT_SCHEMAS.iter().map(|(result, body)| {
        let own = body(&mut generator);
        result_alternative(result, own, (&exit, &recording))
    });
    let alternatives: Vec<Value> = alternatives.collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Document",
        "description": "The output of a command with `--format json`. `result` names the kind of the document.",
        "oneOf": alternatives,
        "$defs": generator.take_definitions(true),
    })
}

fn result_alternative(result: &str, mut body: Value, (exit, recording): (&Value, &Value)) -> Value {
    let mut properties = Map::new();
    properties.insert("version".to_owned(), json!({ "const": DOCUMENT_VERSION }));
    properties.insert("result".to_owned(), json!({ "const": result }));
    properties.insert("forge".to_owned(), json!({ "type": "string", "description": "The version of forge." }));
    properties.insert("exit".to_owned(), exit.clone());
    let mut required: Vec<Value> = properties.keys().map(|key| json!(key)).collect();
    let about = "The recordings from which the result is, with `--observed`; absent without it.";
    properties.insert("recordings".to_owned(), json!({ "type": "array", "items": recording, "description": about }));
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
