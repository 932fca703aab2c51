//! The schema of rules and verifications.

use super::parts::{duration_schema, list_schema, map_schema, object_schema, text_schema, with_description};
use crate::config::recipe::{OBJECT_KEYS, OBJECT_LIST_KEYS};
use crate::model::Value;
use serde_json::json;

pub(super) fn rule_property(key: &str) -> Value {
    match key {
        "when" => with_description("Expression: whether the rule applies.", text_schema()),
        "require" => with_description("Expression that must be true.", text_schema()),
        "else" => with_description("Message if it is false. Plain text.", text_schema()),
        "shows" => with_description("Template that shows the relevant values if it is false on a host.", text_schema()),
        "class" => with_description(
            "Why a host that breaks the rule is blocked. `warning` does not block.",
            json!({ "enum": ["rule", "hardware", "host", "warning"] }),
        ),
        "scope" => scope_schema(),
        "accept" => with_description(
            "Text parameter of the recipe. If it is not empty, the rule only warns, with this text as the reason.",
            text_schema(),
        ),
        _ => json!({}),
    }
}

fn scope_schema() -> Value {
    with_description(
        "Evaluate it on each host or on the cluster. Default: `host`.",
        json!({ "enum": ["host", "cluster"] }),
    )
}

pub(super) fn verify_property(key: &str) -> Value {
    match key {
        "name" => with_description("Name of the check.", text_schema()),
        "when" => with_description("Expression: whether the check applies.", text_schema()),
        "scope" => scope_schema(),
        "object" => with_description(
            "One object of the cluster, which `expect` reads as `object`.",
            object_schema(&OBJECT_KEYS, object_key_property, &["api_version", "kind", "name"]),
        ),
        "objects" => with_description(
            "Objects of the cluster, which `expect` reads as the list `objects`.",
            object_schema(&OBJECT_LIST_KEYS, object_key_property, &["api_version", "kind"]),
        ),
        "shows" => with_description("Template that shows the relevant values if the check fails.", text_schema()),
        "within" => {
            with_description("How long an apply waits for the check to pass on the cluster.", duration_schema())
        }
        "settle" => with_description(
            "Time after a change of the recipe in which the check may pass because of the state before: an apply accepts it \
             only later.",
            duration_schema(),
        ),
        "expect" => with_description("Expression over facts.", text_schema()),
        "check" => with_description("Read-only command that must exit 0.", text_schema()),
        "level" => with_description("Verification level.", json!({ "enum": ["L0", "L1", "L2", "L3", "L4", "L5"] })),
        "by" => with_description("What makes the change effective.", list_schema(text_schema())),
        _ => json!({}),
    }
}

fn object_key_property(key: &str) -> Value {
    match key {
        "api_version" => with_description("`v1`, `apps/v1`.", text_schema()),
        "kind" => with_description("Kind of the objects.", text_schema()),
        "namespace" => with_description("Namespace. Default: all namespaces.", text_schema()),
        "name" => with_description("Name of the object.", text_schema()),
        "labels" => with_description("Labels that the objects must have.", map_schema(text_schema())),
        _ => json!({}),
    }
}
