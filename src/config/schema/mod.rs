//! JSON Schemas (draft 2020-12) of inventories and recipes, for editors. Keys come from the lists that the parsers use.

mod checks;
mod connection;
mod drift;
mod edges;
mod inventory;
mod parts;
mod recipe;
mod rollout;
mod step;
mod test_launch;
mod worker_pods;

pub use inventory::inventory_schema;
pub use recipe::recipe_schema;

#[cfg(test)]
mod tests {
    use super::step::step_schema;
    use super::*;
    use crate::model::Value;
    use crate::resource::all_kinds;
    use serde_json::json;

    /// Checks that every key has a description, so that new keys of the parsers are documented here.
    fn assert_described(schema: &Value, path: &str) {
        let Some(properties) = schema["properties"].as_object() else { return };
        for (key, property) in properties {
            assert!(property["description"].is_string(), "{path}.{key} has no description");
            assert_described(property, &format!("{path}.{key}"));
        }
    }

    #[test]
    fn every_key_is_described() {
        assert_described(&inventory_schema(), "inventory");
        assert_described(&recipe_schema(), "recipe");
        assert_described(&step_schema(), "step");
    }

    #[test]
    fn step_schema_covers_every_kind() {
        let step = step_schema();
        for kind in all_kinds() {
            assert_eq!(step["properties"][kind.name]["additionalProperties"], json!(false), "{}", kind.name);
        }
        assert_eq!(step["oneOf"].as_array().unwrap().len(), all_kinds().len());
    }
}
