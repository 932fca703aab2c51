//! The schema of steps.

use super::checks::verify_property;
use super::edges::{during_schema, edges_schema};
use super::parts::{duration_schema, map_schema, object_schema, text_list_schema, text_schema, with_description};
use crate::config::recipe::STEP_KEYS;
use crate::model::{StepScope, Value};
use crate::resource::all_kinds;
use crate::resource::schema::kind_schema;
use serde_json::json;

/// Returns the schema of a step: common keys, and exactly one resource.
pub(super) fn step_schema() -> Value {
    let mut schema = object_schema(&STEP_KEYS, step_property, &["name"]);
    for kind in all_kinds() {
        let mut fields = kind_schema(kind);
        if let Some(fields) = fields.as_object_mut() {
            fields.remove("$schema");
        }
        schema["properties"][kind.name] = fields;
    }
    schema["oneOf"] = all_kinds().iter().map(|kind| json!({ "required": [kind.name] })).collect();
    schema
}

fn step_property(key: &str) -> Value {
    match key {
        "name" => with_description(
            "Short name without `/`, `@`, brackets and braces.",
            json!({ "type": "string", "maxLength": 100 }),
        ),
        "when" => with_description("Expression: whether the step applies.", text_schema()),
        "otherwise" => with_description("Remove the resource if `when` is false.", json!({ "enum": ["absent"] })),
        "each" => with_description("Expression: repeat the step for each item of a list or map.", text_schema()),
        "key" => with_description("Expression: name of each repetition.", text_schema()),
        "needs" => with_description("Dependencies that must succeed before the step.", edges_schema()),
        "after" => with_description(
            "Recipes and steps that run before the step; their success is not required.",
            edges_schema(),
        ),
        "effective" => with_description(
            "How the step takes effect, and how to verify that.",
            object_schema(&["by", "expect", "check"], verify_property, &[]),
        ),
        "during" => during_schema(),
        "restart_on" => with_description(
            "Steps whose change restarts this service, reboots the host, or reruns this command's check.",
            text_list_schema(),
        ),
        "provides" => with_description(
            "Resources that it provides.",
            object_schema(&["files", "units", "users", "packages", "cluster"], provides_property, &[]),
        ),
        "export" => with_description(
            "Values that other steps read.",
            map_schema(object_schema(&["read", "stdout", "value", "secret", "partial"], export_property, &[])),
        ),
        "disruption" => with_description("Maximum disruption class.", json!({ "enum": ["D0", "D1", "D2", "D3"] })),
        "scope" => with_description("Where the step runs.", json!({ "enum": StepScope::ALL.map(StepScope::name) })),
        "level" => {
            with_description("Verification level of the step.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] }))
        }
        "timeout" => with_description("Timeout of its commands.", duration_schema()),
        "retries" => with_description(
            "Number of retries of a failed change, 2 s apart; not of `long` commands.",
            json!({ "type": "integer", "minimum": 0, "maximum": 10 }),
        ),
        "at_once" => with_description(
            "How many hosts may run its action at once.",
            json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
        ),
        "guard" => with_description(
            "Time in which a new session must confirm the change; otherwise the host restores the state before. `off`: no guard.",
            json!({ "anyOf": [duration_schema(), { "enum": ["off"] }] }),
        ),
        "long" => with_description("Keep the command running if the connection is lost.", json!({ "type": "boolean" })),
        "keep" => with_description("Leave what the step did when the recipe is removed.", json!({ "type": "boolean" })),
        _ => json!({}),
    }
}

fn provides_property(key: &str) -> Value {
    match key {
        "cluster" => with_description("Whether it creates the cluster of the inventory.", json!({ "type": "boolean" })),
        _ => with_description(&format!("Names of {key}."), text_list_schema()),
    }
}

fn export_property(key: &str) -> Value {
    match key {
        "read" => with_description("Read-only command whose output is the value.", text_schema()),
        "stdout" => with_description("Use the output of the step as the value.", json!({ "type": "boolean" })),
        "value" => with_description("Expression over facts that is the value.", text_schema()),
        "secret" => with_description("Whether the value is secret.", json!({ "type": "boolean" })),
        "partial" => with_description(
            "Whether steps that read the values of all hosts go on without those of the hosts that cannot report one.",
            json!({ "type": "boolean" }),
        ),
        _ => json!({}),
    }
}
