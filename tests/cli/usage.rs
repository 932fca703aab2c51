//! What is typed wrongly ends with 64 and says what to do.

use super::support::Place;

fn said(arguments: &[&str]) -> String {
    Place::new().forge(arguments)
}

#[test]
fn without_a_verb_the_help_is_shown() {
    let said = said(&[]);
    assert!(said.starts_with("exit 64\n--- stdout\n--- stderr\nDeclarative provisioning"), "{said}");
}

#[test]
fn an_unknown_verb() {
    insta::assert_snapshot!(said(&["aply"]));
}

#[test]
fn an_unknown_flag() {
    insta::assert_snapshot!(said(&["plan", "--onn", "gpu"]));
}

#[test]
fn a_bad_duration() {
    insta::assert_snapshot!(said(&["plan", "--timeout", "10"]));
}

#[test]
fn no_window_at_all() {
    insta::assert_snapshot!(said(&["plan", "--parallel", "0"]));
}

#[test]
fn quiet_and_verbose() {
    insta::assert_snapshot!(said(&["plan", "-q", "-v"]));
}

#[test]
fn no_inventory_names_what_was_tried() {
    insta::assert_snapshot!(said(&["plan"]));
}

#[test]
fn the_variable_names_the_inventory() {
    let said = Place::new().env("FORGE_INVENTORY", "there.yaml").forge(&["validate"]);
    assert!(said.starts_with("exit 65\n") && said.contains("there.yaml"), "{said}");
}

#[test]
fn the_folders_own_inventory_comes_last() {
    let said = Place::new().file("inventory.yaml", "").forge(&["validate"]);
    assert!(said.starts_with("exit 65\n") && said.contains("inventory.yaml"), "{said}");
}

#[test]
fn two_inventories() {
    insta::assert_snapshot!(said(&["plan", "a.yaml", "-i", "b.yaml"]));
}

#[test]
fn apply_without_a_terminal_needs_yes() {
    insta::assert_snapshot!(said(&["apply", "a.yaml"]));
}

#[test]
fn json_never_implies_yes() {
    let said = said(&["apply", "a.yaml", "--format", "json"]);
    assert!(said.starts_with("exit 64\n--- stdout\n--- stderr\nerror: apply asks"), "{said}");
}
