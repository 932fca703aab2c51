//! Every kind on real hosts: one file of `tests/fleet/kinds` each. `FORGE_KIND` selects one.

use crate::proof;

#[test]
fn every_kind_is_applied_tampered_with_repaired_and_removed() {
    proof::carry_out("kinds", "", "FORGE_KIND");
}
