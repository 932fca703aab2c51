//! `forge validate` on real files: text, JSON, and a JSON file in addition to the text.

use super::support::Place;

const VALID: &str = "cluster: c
hosts:
  node-[1:2]: {}
apply:
  - { recipe: motd, on: all }
";

const RECIPE: &str = "recipe: motd
summary: A greeting
steps:
  - name: greeting
    file: { path: /etc/motd, content: \"hello\\n\" }
";

fn place() -> Place {
    Place::new().file("inventory.yaml", VALID).file("recipes/motd.yaml", RECIPE)
}

#[test]
fn validate_prints_the_counts_of_a_valid_inventory() {
    assert_eq!(
        place().forge(&["validate"]),
        "exit 0\n--- stdout\nvalid: inventory.yaml: 2 hosts, 1 recipe, 1 step\n--- stderr\n"
    );
}

#[test]
fn quiet_validate_prints_only_errors() {
    assert_eq!(place().forge(&["validate", "-q"]), "exit 0\n--- stdout\n--- stderr\n");
    let broken = place().file("inventory.yaml", &VALID.replace("recipe: motd", "recipe: modt"));
    assert_eq!(broken.forge(&["validate", "-q"]), broken.forge(&["validate"]));
}

#[test]
fn invalid_inventory_error_shows_its_location() {
    let place = place().file("inventory.yaml", &VALID.replace("recipe: motd", "recipe: modt"));
    insta::assert_snapshot!(place.forge(&["validate"]));
}

#[test]
fn json_into_writes_the_validation_document() {
    let place = place();
    place.forge(&["validate", "--json-into", "out.json"]);
    let document: serde_json::Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert_eq!(document["inventories"][0]["declares"], serde_json::json!({"hosts": 2, "recipes": 1, "steps": 1}));
}

#[test]
fn undo_settings_out_of_range_are_rejected_with_their_place() {
    let check = |undo: &str| {
        let place = place().file("inventory.yaml", &format!("{VALID}undo: {undo}\n"));
        place.forge(&["validate"])
    };
    let said = check("{ runs: 50, days: 90 }");
    assert!(said.starts_with("exit 0\n"), "{said}");
    for (undo, message) in [
        ("{ runs: 0 }", "`runs` must be from 1 to 1000, found 0"),
        ("{ days: 4000 }", "`days` must be from 1 to 3650, found 4000"),
        ("{ keep: 5 }", "`keep`"),
    ] {
        let said = check(undo);
        assert!(said.starts_with("exit 65\n") && said.contains(message), "{undo}: {said}");
        assert!(said.contains(" --> inventory.yaml:6:"), "{undo}: {said}");
    }
}
