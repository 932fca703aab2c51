//! Which test shows each trap of Helm: one that is missing fails here.

/// What Helm does that is not to be expected, and the tests that show what forge does about it.
const TRAPS: &[(&str, &[&str])] = &[
    ("an upgrade without a change makes a revision and runs hooks", &["no_change_makes_no_revision"]),
    (
        "charts with random text or lookups render otherwise each time",
        &["a_chart_with_random_text_is_recognised", "what_a_chart_looks_up_is_no_difference"],
    ),
    (
        "a rehearsal cannot plan a first install with definitions",
        &["a_first_install_with_definitions_is_looked_at_and_carried_out"],
    ),
    ("a rehearsal sees neither drift nor conflicts", &["a_conflict_is_seen_before_it_fails_an_upgrade"]),
    (
        "drift is found by a manager that owns nothing",
        &["drift_of_ordinary_and_custom_objects_is_mended_without_a_revision"],
    ),
    ("helm 3 leaves drift of custom objects", &["an_upgrade_leaves_no_drift_of_a_custom_object"]),
    ("added fields are left by every upgrade", &["fields_added_by_hand_are_found_and_taken_out"]),
    (
        "a list shows the last status alone, and helm 4 knows no --all",
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
    ("hooks wait without being asked to", &["hooks_are_named_and_have_a_limit"]),
    ("flags were renamed between the majors", &["flags_are_those_of_the_major"]),
    ("a rollback on failure", &["an_upgrade_that_does_not_become_ready_is_rolled_back"]),
    ("an uninstall leaves definitions", &["an_uninstall_leaves_definitions"]),
    (
        "a kubeconfig that is not there is replaced by localhost",
        &["the_cluster_is_named_in_each_call_and_warnings_are_no_answer"],
    ),
    (
        "stderr is noisy on success",
        &["the_cluster_is_named_in_each_call_and_warnings_are_no_answer", "the_last_error_is_told_and_no_warning"],
    ),
    (
        "no values are null, and a manifest ends otherwise",
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
            assert!(sources.contains(&format!("fn {test}()")), "{trap}: there is no test `{test}`");
        }
    }
}
