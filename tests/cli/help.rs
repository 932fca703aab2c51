//! Help and version: printed to stdout, exit code 0.

use super::support::Place;

fn said(arguments: &[&str]) -> String {
    Place::new().forge(arguments)
}

#[test]
fn version_flag_prints_the_version() {
    assert_eq!(said(&["--version"]), format!("exit 0\n--- stdout\nforge {}\n--- stderr\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn long_help_lists_every_exit_code() {
    insta::assert_snapshot!(said(&["--help"]));
}

#[test]
fn apply_help_has_examples() {
    insta::assert_snapshot!(said(&["apply", "--help"]));
}

#[test]
fn help_of_every_verb_has_examples() {
    for verb in [
        "init",
        "doctor",
        "exec",
        "plan",
        "apply",
        "verify",
        "drift",
        "validate",
        "facts",
        "graph",
        "recipes",
        "explain",
        "runs",
        "show",
        "schema",
        "completions",
        "man",
    ] {
        let said = said(&[verb, "--help"]);
        assert!(said.starts_with("exit 0\n") && said.contains("\nExamples:\n  forge "), "{verb}: {said}");
    }
}

#[test]
fn colors_are_off_in_a_pipe() {
    assert!(!said(&["--help"]).contains('\u{1b}'));
    assert!(!said(&["plan"]).contains('\u{1b}'));
}

#[test]
fn color_always_enables_colors() {
    assert!(said(&["plan", "--color", "always"]).contains("\u{1b}["));
}
