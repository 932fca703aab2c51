//! The schema of dependencies and of requirements while other recipes change.

use super::parts::{
    map_schema, nullable_schema, object_schema, share_schema, text_list_schema, text_schema, with_description,
};
use crate::model::{StepPhase, Value};
use serde_json::json;

/// Returns the schema of edges: one edge, a list, or a map from edges to barriers.
pub(super) fn edges_schema() -> Value {
    let long = object_schema(&["recipe", "step", "phase", "optional", "of", "least"], edge_property, &[]);
    let barrier = object_schema(&["of", "least", "phase"], edge_property, &[]);
    json!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "anyOf": [{ "type": "string" }, long] } },
        { "type": "object", "additionalProperties": nullable_schema(barrier) },
    ] })
}

fn edge_property(key: &str) -> Value {
    match key {
        "recipe" => with_description("Name of a recipe.", text_schema()),
        "step" => with_description("One of its steps. Default: all steps.", text_schema()),
        "phase" => with_description("Phase to wait for.", json!({ "enum": StepPhase::ALL.map(StepPhase::name) })),
        "optional" => {
            with_description("Ignore the edge if that recipe is not applied (`name?`).", json!({ "type": "boolean" }))
        }
        "of" => with_description("Makes the edge a barrier across hosts.", json!({ "enum": ["selected"] })),
        "least" => with_description("How many of the hosts must have reached the phase.", share_schema()),
        _ => json!({}),
    }
}

pub(super) fn during_schema() -> Value {
    with_description(
        "Requirements while other recipes change.",
        map_schema(object_schema(&["stopped", "unloaded"], during_property, &[])),
    )
}

fn during_property(key: &str) -> Value {
    match key {
        "stopped" => with_description("Units that must be stopped.", text_list_schema()),
        "unloaded" => with_description("Kernel modules that must be unloaded.", text_list_schema()),
        _ => json!({}),
    }
}
