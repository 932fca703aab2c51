//! Every kind on real hosts: one file of `tests/fleet/kinds` each. `FORGE_KIND` selects one, `FORGE_DISTRIBUTION` one
//! release, `FORGE_CLAIM` one distribution that hosts claim to be.

use crate::distribution::Distribution;
use crate::proof_matrix;

#[test]
fn every_kind_is_applied_tampered_with_repaired_and_removed() {
    proof_matrix::carry_out("kinds", "", "FORGE_KIND", &[Distribution::Debian12]);
}

#[test]
fn every_kind_is_applied_repaired_and_removed_on_other_releases() {
    proof_matrix::carry_out("kinds", "", "FORGE_KIND", &Distribution::OTHERS);
}

#[test]
fn every_kind_is_applied_repaired_and_removed_on_claimed_distributions() {
    proof_matrix::carry_out_claims("kinds", "", "FORGE_KIND");
}
