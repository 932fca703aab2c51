//! The test for each trap of Helm: a missing test fails here.

/// Unexpected behaviour of Helm, and the tests that show how forge handles it.
const TRAPS: &[(&str, &[&str])] = &[
    ("an upgrade without a change creates a revision and runs hooks", &["no_change_makes_no_revision"]),
    (
        "charts with random text or lookups render differently each time",
        &["a_chart_with_random_text_is_recognised", "what_a_chart_looks_up_is_no_difference"],
    ),
    (
        "a dry run cannot plan a first install with CustomResourceDefinitions",
        &["a_first_install_with_definitions_is_looked_at_and_carried_out"],
    ),
    ("a dry run detects neither drift nor conflicts", &["a_conflict_is_seen_before_it_fails_an_upgrade"]),
    (
        "drift is found with a field manager that owns nothing",
        &["drift_of_ordinary_and_custom_objects_is_mended_without_a_revision"],
    ),
    ("helm 3 keeps drift of custom objects", &["an_upgrade_leaves_no_drift_of_a_custom_object"]),
    ("every upgrade keeps added fields", &["fields_added_by_hand_are_found_and_taken_out"]),
    (
        "a list shows only the last status, and helm 4 has no --all",
        &["a_failed_release_is_told_and_repaired", "both_majors_are_read"],
    ),
    (
        "a killed helm leaves a lock",
        &[
            "what_a_killed_helm_left_is_rolled_back_and_gone_on_with",
            "what_a_killed_first_install_left_is_taken_away",
            "a_helm_that_changes_something_is_never_ended",
        ],
    ),
    ("hooks wait even without --wait", &["hooks_are_named_and_have_a_limit"]),
    ("flags were renamed between the major versions", &["flags_are_those_of_the_major"]),
    ("a rollback on failure", &["an_upgrade_that_does_not_become_ready_is_rolled_back"]),
    ("an uninstall keeps CustomResourceDefinitions", &["an_uninstall_leaves_definitions"]),
    (
        "a missing kubeconfig is replaced by localhost",
        &["the_cluster_is_named_in_each_call_and_warnings_are_no_answer"],
    ),
    (
        "stderr is noisy on success",
        &["the_cluster_is_named_in_each_call_and_warnings_are_no_answer", "the_last_error_is_told_and_no_warning"],
    ),
    (
        "no values are printed as null, and a manifest ends differently",
        &[
            "no_values_are_null_for_helm",
            "no_values_and_empty_values_are_the_same",
            "a_trailing_newline_is_no_difference",
        ],
    ),
    ("answers are large", &["an_endless_answer_is_not_read_to_its_end"]),
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
