//! The schema of recipes and stacks.

use super::checks::{rule_property, verify_property};
use super::edges::{during_schema, edges_schema};
use super::parts::{
    IDENTIFIER_PATTERN, LABEL_PATTERN, build_root_schema, list_schema, map_schema, object_schema, text_list_schema,
    text_schema, vars_schema, with_description,
};
use super::step::step_schema;
use crate::config::recipe::{KEY_TYPES, PARAM_TYPES, RECIPE_KEYS, RULE_KEYS, VERIFY_KEYS};
use crate::model::Value;
use serde_json::json;

/// Returns the schema of a recipe or stack, the fields of every kind of resource included.
pub fn recipe_schema() -> Value {
    let mut schema = object_schema(&RECIPE_KEYS, recipe_property, &["recipe"]);
    schema["anyOf"] = json!([{ "required": ["steps"] }, { "required": ["verify"] }, { "required": ["uses"] }]);
    build_root_schema("recipe", "Steps that configure one component, and their verification.", schema)
}

fn recipe_property(key: &str) -> Value {
    match key {
        "recipe" => with_description("Name of the recipe.", json!({ "type": "string", "pattern": LABEL_PATTERN })),
        "summary" => with_description("One-line summary.", text_schema()),
        "params" => with_description("Typed parameters.", params_schema()),
        "needs" => with_description("Dependencies that must succeed before any step of the recipe.", edges_schema()),
        "after" => with_description(
            "Recipes and steps that run before the recipe; their success is not required.",
            edges_schema(),
        ),
        "during" => during_schema(),
        "supports" => with_description(
            "Distributions on which the recipe works: `ID` of `/etc/os-release`, with its releases. An empty list is every release. Default: every distribution.",
            map_schema(list_schema(text_schema())),
        ),
        "rules" => with_description(
            "Conditions on parameters and facts.",
            list_schema(object_schema(&RULE_KEYS, rule_property, &["require", "else"])),
        ),
        "steps" => with_description("Steps, in execution order.", list_schema(step_schema())),
        "verify" => with_description(
            "Checks that must pass once the recipe is applied.",
            list_schema(object_schema(&VERIFY_KEYS, verify_property, &["name"])),
        ),
        "fails_as" => with_description(
            "Known failure messages of programs, with their causes.",
            list_schema(object_schema(&["text", "cause"], fails_as_property, &["text", "cause"])),
        ),
        "uses" => with_description(
            "Recipes that a stack uses.",
            list_schema(object_schema(&["recipe", "when", "with"], uses_property, &["recipe"])),
        ),
        _ => json!({}),
    }
}

fn params_schema() -> Value {
    let param = object_schema(&["type", "of", "keys", "values", "default", "doc"], param_property, &["type"]);
    json!({ "type": "object", "propertyNames": { "pattern": IDENTIFIER_PATTERN }, "additionalProperties": param })
}

fn param_property(key: &str) -> Value {
    match key {
        "type" => with_description("Type of the parameter.", json!({ "enum": PARAM_TYPES })),
        "of" => {
            let types: Vec<&str> = PARAM_TYPES.iter().copied().chain(["any"]).collect();
            with_description("Type of the elements of a list or map. Default: text.", json!({ "enum": types }))
        }
        "keys" => with_description("Type of the keys of a map. Default: text.", json!({ "enum": KEY_TYPES })),
        "values" => {
            with_description("Allowed values of an enum. Quote `on`, `off`, `yes` and `no`.", text_list_schema())
        }
        "default" => with_description("Default value.", json!({})),
        "doc" => with_description("Description.", text_schema()),
        _ => json!({}),
    }
}

fn fails_as_property(key: &str) -> Value {
    match key {
        "text" => with_description("Part of a line that the program prints. `…` matches any text.", text_schema()),
        "cause" => with_description("Cause of the failure, and how to fix it.", text_schema()),
        _ => json!({}),
    }
}

fn uses_property(key: &str) -> Value {
    match key {
        "recipe" => with_description("Name of a recipe.", text_schema()),
        "when" => with_description("Expression: whether the recipe is used.", text_schema()),
        "with" => with_description("Parameters to pass.", vars_schema()),
        _ => json!({}),
    }
}
