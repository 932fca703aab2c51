//! The examples of the README and of the demos are valid.

use super::support::Place;

const README: &str = include_str!("../../README.md");

/// Returns the YAML blocks of the README: an inventory, and the recipe that it applies.
fn blocks() -> Vec<&'static str> {
    README.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next()).collect()
}

#[test]
fn readme_example_is_valid() {
    let blocks = blocks();
    let place = Place::new().file("inventory.yaml", blocks[0]).file("recipes/greeting.yaml", blocks[1]);
    assert_eq!(
        place.forge(&["validate"]),
        "exit 0\n--- stdout\nvalid: inventory.yaml: 10 hosts, 1 recipe, 1 step\n--- stderr\n"
    );
}

#[test]
fn demo_inventories_are_valid() {
    for demo in [
        "demo/inventory.yaml",
        "inventories/demo.yaml",
        "inventories/b200.yaml",
        "inventories/h100-10node.yaml",
        "inventories/h100-sandbox.yaml",
        "inventories/roce-h200.yaml",
    ] {
        let path = format!("{}/{demo}", env!("CARGO_MANIFEST_DIR"));
        let said = Place::new().forge(&["validate", &path]);
        assert!(said.starts_with("exit 0\n--- stdout\nvalid: "), "{said}");
    }
}
