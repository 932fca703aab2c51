//! Built-in recipes on real hosts, as far as such hosts can prove them: one file of `tests/fleet/library` each.
//! `FORGE_RECIPE` selects one, `FORGE_DISTRIBUTION` one release, `FORGE_CLAIM` one distribution that
//! hosts claim to be.

use crate::distribution::Distribution;
use crate::proof_matrix;

#[test]
fn built_in_recipes_are_applied_tampered_with_repaired_and_removed() {
    proof_matrix::carry_out("library", "recipes/", "FORGE_RECIPE", &[Distribution::Debian12]);
}

#[test]
fn built_in_recipes_are_applied_repaired_and_removed_on_other_releases() {
    proof_matrix::carry_out("library", "recipes/", "FORGE_RECIPE", &Distribution::OTHERS);
}

#[test]
fn built_in_recipes_are_applied_repaired_and_removed_on_claimed_distributions() {
    proof_matrix::carry_out_claims("library", "recipes/", "FORGE_RECIPE");
}
