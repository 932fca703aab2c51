//! What a declaration of a command may say.

use super::*;

fn build_error(fields: &[(&'static str, Value)], absent: bool) -> Diag {
    build(&FieldValues(fields.iter().cloned().collect()), absent).unwrap_err()
}

#[test]
fn command_requires_check_or_creates_and_apply() {
    let diag = build_error(&[("apply", json!("true"))], false);
    assert_eq!((diag.code.id(), diag.message.as_str()), ("F0311", "a command needs `check` or `creates`"));
    assert_eq!(build_error(&[("check", json!("true"))], false).message, "a command needs `apply`");
    let empty = [("check", json!("# true\n")), ("apply", json!("x"))];
    assert_eq!(build_error(&empty, false).message, "`check` is empty or only a comment, so it would always pass");
    let both = [("check", json!("true")), ("creates", json!("/a")), ("apply", json!(""))];
    assert_eq!(build_error(&both, false).message, "`check` and `creates` exclude each other");
}

#[test]
fn removal_requires_the_remove_field() {
    let fields = [("check", json!("true")), ("apply", json!("true"))];
    assert_eq!(build_error(&fields, true).message, "a command without `remove` cannot be removed");
}

#[test]
fn invalid_environment_variable_name_is_rejected() {
    let fields = [("creates", json!("/a")), ("apply", json!("")), ("env", json!({ "A B": "x" }))];
    assert_eq!(build_error(&fields, false).message, "`A B` is not a valid environment variable name");
}

#[test]
fn images_are_listed_with_their_sources_even_if_nothing_changes() {
    let assess = |images: &str| {
        let fields = [("creates", json!("/a")), ("apply", json!("x")), ("images", json!(images))];
        let command = build(&FieldValues(fields.into_iter().collect()), false).unwrap();
        command.assess(&Observation::default(), &AssessmentContext::default())
    };
    let known = assess("m/a:1 r/a:1\n\n  r/b:2\n");
    assert_eq!((&known.images[..], known.runs_unknown_images), (&["m/a:1".to_owned(), "r/b:2".into()][..], false));
    assert_eq!(known.image_sources, [("m/a:1".to_owned(), "r/a:1".to_owned())].into());
    assert!(assess("\n").runs_unknown_images);
}

#[test]
fn line_of_images_has_an_image_and_at_most_its_source() {
    let fields = [("creates", json!("/a")), ("apply", json!("x")), ("images", json!("m/a:1 < r/a:1"))];
    assert_eq!(build_error(&fields, false).message, "`images` has the line `m/a:1 < r/a:1`");
}

#[test]
fn oversized_script_is_rejected() {
    let fields = [("creates", json!("/a")), ("apply", json!("x".repeat(SCRIPT_CAP + 1)))];
    assert_eq!(build_error(&fields, false).message, "`apply` has 98305 bytes, the maximum is 98304");
}
