//! The inventories that ship with forge, rewritten for one host of the fleet.

use crate::support::Node;
use serde_json::{Value, json};
use std::path::Path;

/// Where the mirror that an inventory names is on a host, and what it is there.
const MIRROR: (&str, &str) = ("https://mirror.example/", "file:/srv/mirror/");

/// An inventory of the folder `inventories`. All that it declares for hosts stays as it is, except addresses of
/// repositories; what it declares for the cluster's API is left out.
pub(super) struct ShippedInventory {
    document: Value,
    left_out: &'static [&'static str],
}

impl ShippedInventory {
    /// Reads a file, without the entries of the recipes `left_out`.
    ///
    /// # Panics
    /// If the file has entries of other recipes than `recipes`: a new one must not go unproven.
    pub(super) fn read(name: &str, recipes: &[&str], left_out: &'static [&'static str]) -> ShippedInventory {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("inventories").join(name);
        let text = fs_err::read_to_string(path).expect("an inventory").replace(MIRROR.0, MIRROR.1);
        let document: Value = serde_saphyr::from_str(&text).expect("YAML");
        let found: Vec<&str> = entries(&document).iter().filter_map(|entry| entry["recipe"].as_str()).collect();
        assert_eq!(found, recipes, "{name} declares other recipes than this test knows");
        ShippedInventory { document, left_out }
    }

    /// Returns a parameter of the first entry, which is the stack.
    pub(super) fn parameter(&self, name: &str) -> &str {
        self.document["apply"][0]["with"][name].as_str().unwrap_or_else(|| panic!("the stack declares no `{name}`"))
    }

    /// Returns what follows the hosts, for one host, with a version of the driver.
    pub(super) fn with_driver(&self, node: &Node, driver: &str) -> String {
        let mut apply = self.applied();
        apply[0]["with"]["driver"] = driver.into();
        self.text(node, &apply)
    }

    /// Returns the same, as the removal of all entries.
    pub(super) fn removed(&self, node: &Node) -> String {
        let mut apply = self.applied();
        apply.iter_mut().for_each(|entry| entry["ensure"] = "absent".into());
        self.text(node, &apply)
    }

    /// Returns the recipes of its entries.
    pub(super) fn recipes(&self) -> Vec<String> {
        self.applied().iter().filter_map(|entry| entry["recipe"].as_str().map(str::to_owned)).collect()
    }

    fn applied(&self) -> Vec<Value> {
        let kept = |entry: &&Value| entry["recipe"].as_str().is_none_or(|name| !self.left_out.contains(&name));
        entries(&self.document).iter().filter(kept).cloned().collect()
    }

    fn text(&self, node: &Node, apply: &[Value]) -> String {
        let mut rollout = self.document["rollout"].clone();
        rollout.as_object_mut().expect("a rollout").remove("drain");
        let groups: Vec<&String> = self.document["groups"].as_object().expect("groups").keys().collect();
        let groups: Value = groups.into_iter().map(|name| (name.clone(), json!({ "hosts": [node.name] }))).collect();
        // JSON is YAML.
        format!("groups: {groups}\nrollout: {rollout}\napply: {}\n", json!(apply))
    }
}

fn entries(document: &Value) -> &Vec<Value> {
    document["apply"].as_array().expect("a list of entries")
}
