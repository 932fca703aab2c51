//! Built-in recipes on real hosts, as far as such hosts can prove them: one file of `tests/fleet/library` each.
//! `FORGE_RECIPE` selects one.

use crate::proof;

#[test]
fn built_in_recipes_are_applied_tampered_with_repaired_and_removed() {
    proof::carry_out("library", "recipes/", "FORGE_RECIPE");
}
