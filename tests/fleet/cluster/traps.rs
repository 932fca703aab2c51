//! The test for each trap of Helm: a missing test fails here.

/// Unexpected behaviour of Helm, and the tests that show how forge handles it.
const TRAPS: &[(&str, &[&str])] = &[
    ("an upgrade without a change creates a revision and runs hooks", &["no_change_makes_no_revision"]),
    (
        "charts with random text or lookups render differently each time",
        &["chart_with_random_output_is_detected", "chart_lookups_do_not_cause_a_difference"],
    ),
    (
        "a dry run cannot plan a first install with CustomResourceDefinitions",
        &["first_install_with_crds_is_planned_and_applied"],
    ),
    ("a dry run detects neither drift nor conflicts", &["field_conflict_is_detected_before_the_upgrade"]),
    ("drift is found with a field manager that owns nothing", &["object_drift_is_repaired_without_a_new_revision"]),
    ("helm 3 keeps drift of custom objects", &["upgrade_repairs_drift_of_custom_objects"]),
    ("every upgrade keeps added fields", &["manually_added_fields_are_found_and_removed"]),
    (
        "a list shows only the last status, and helm 4 has no --all",
        &["failed_release_is_reported_and_repaired", "output_of_helm_3_and_4_is_parsed"],
    ),
    (
        "a killed helm leaves a lock",
        &[
            "killed_upgrade_is_rolled_back_before_the_next_upgrade",
            "killed_first_install_is_replaced_by_the_next_upgrade",
            "helm_change_is_not_killed_at_the_timeout",
        ],
    ),
    ("hooks wait even without --wait", &["hooks_are_listed_and_time_out"]),
    ("flags were renamed between the major versions", &["flags_match_the_helm_major_version"]),
    ("a rollback on failure", &["upgrade_that_does_not_become_ready_is_rolled_back"]),
    ("an uninstall keeps CustomResourceDefinitions", &["uninstall_keeps_crds"]),
    ("a missing kubeconfig is replaced by localhost", &["calls_name_the_cluster_and_warnings_stay_out_of_the_output"]),
    (
        "stderr is noisy on success",
        &["calls_name_the_cluster_and_warnings_stay_out_of_the_output", "last_error_is_reported_instead_of_warnings"],
    ),
    (
        "no values are printed as null, and a manifest ends differently",
        &[
            "null_values_are_read_as_an_empty_map",
            "no_values_and_empty_values_are_the_same",
            "trailing_newline_is_not_a_difference",
        ],
    ),
    ("answers are large", &["endless_helm_output_is_an_error"]),
];

#[test]
fn every_trap_of_helm_has_its_test() {
    let sources = concat!(
        include_str!("helm.rs"),
        include_str!("../../../src/kube/helm/tests.rs"),
        include_str!("../../../src/kube/helm/flags.rs")
    );
    for (trap, tests) in TRAPS {
        assert!(!tests.is_empty(), "{trap}");
        for test in *tests {
            assert!(sources.contains(&format!("fn {test}()")), "{trap}: test `{test}` not found");
        }
    }
}
