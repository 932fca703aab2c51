//! Rejected declarations and rendered source files.

use super::*;

const KEY: &str = include_str!("../../../../tests/fixtures/openpgp/fleet.asc");
const FINGERPRINT: &str = "7CFE583D26F951011FC314E53AA93CBCF0D184F9";

fn make_fields(more: &[(&'static str, Value)]) -> FieldValues {
    let mut fields = FieldValues::default();
    let usual = [
        ("name", json!("extra")),
        ("uris", json!(["https://deb.example/debian"])),
        ("suites", json!(["stable"])),
        ("components", json!(["main"])),
        ("key_text", json!(KEY)),
    ];
    for (name, value) in usual.iter().chain(more) {
        if value.is_null() {
            fields.0.shift_remove(name);
        } else {
            fields.0.insert(name, value.clone());
        }
    }
    fields
}

fn build_error(more: &[(&'static str, Value)]) -> String {
    build(&make_fields(more), false).unwrap_err().message
}

#[test]
fn invalid_source_fields_are_rejected() {
    assert_eq!(build_error(&[("name", json!("a@b"))]), "`a@b` is not a valid source name: apt would ignore its file");
    assert_eq!(build_error(&[("uris", json!([]))]), "a repository needs `uris`");
    assert_eq!(build_error(&[("uris", json!(["/srv"]))]), "`/srv` is not a valid URI");
    assert_eq!(build_error(&[("components", Value::Null)]), "a repository needs `components`");
    let exact = "a suite that ends with `/` is an exact path and cannot have components";
    assert_eq!(build_error(&[("suites", json!(["./"]))]), exact);
    assert_eq!(build_error(&[("suites", json!(["a b"]))]), "`a b` is not valid in `suites`");
    let account = "`uris` contains credentials, but the file is readable by every user on the host";
    assert_eq!(build_error(&[("uris", json!(["https://me:pass@deb.example/"]))]), account);
}

#[test]
fn exactly_one_source_of_trust_is_required() {
    assert_eq!(build_error(&[("key_text", Value::Null)]), "a repository needs `key`, `key_text` or `key_path`");
    assert_eq!(build_error(&[("trusted", json!(true))]), "`trusted` and a key exclude each other");
    assert_eq!(build_error(&[("key_path", json!("/k"))]), "`key_text` and `key_path` exclude each other");
    assert_eq!(
        build_error(&[("key_text", json!("hello"))]),
        "`key_text` is not a key: malformed or truncated OpenPGP data"
    );
    let open = [("key_text", Value::Null), ("trusted", json!(true)), ("fingerprint", json!(FINGERPRINT))];
    assert_eq!(build_error(&open), "`fingerprint` needs a key");
}

#[test]
fn key_must_match_the_pinned_fingerprint() {
    let spaced = "7cfe 583d 26f9 5101 1fc3  14e5 3aa9 3cbc f0d1 84f9";
    assert!(build(&make_fields(&[("fingerprint", json!(spaced))]), false).is_ok());
    let other = "0850D95DCCDA652376EA1B00325FE59685CAC6B3";
    let expected = format!("the key does not match `fingerprint`: found {FINGERPRINT}, expected {other}");
    assert_eq!(build_error(&[("fingerprint", json!(other))]), expected);
    let both = format!("{FINGERPRINT}, {other}");
    assert!(build_error(&[("fingerprint", json!(both))]).starts_with("the key does not match `fingerprint`"));
    assert_eq!(build_error(&[("fingerprint", json!("F0D184F9"))]), "`F0D184F9` is not a valid fingerprint");
}

#[test]
fn source_file_contains_the_declared_fields() {
    let what = parse_source_spec(&make_fields(&[("architectures", json!(["amd64", "arm64"]))])).unwrap();
    assert_eq!(
        what.render_source(Some("/etc/apt/keyrings/extra.asc")),
        "# Written by forge.\nTypes: deb\nURIs: https://deb.example/debian\nSuites: stable\nComponents: main\n\
         Architectures: amd64 arm64\nSigned-By: /etc/apt/keyrings/extra.asc\n"
    );
}

#[test]
fn removal_requires_only_the_name() {
    assert!(build(&FieldValues([("name", json!("extra"))].into_iter().collect()), true).is_ok());
}
