//! Rejected declarations, and edits that keep what other programs wrote.

use super::*;
use proptest::prelude::*;

fn make_resource(content: &str, defaults: &str, absent: bool) -> TomlResource {
    let mut fields = FieldValues::default();
    fields.0.insert("path", json!("/etc/x.toml"));
    TomlResource {
        file: EditedFile::from_fields(&fields, "keys").unwrap(),
        content: parse_declared_keys("content", content).unwrap(),
        defaults: parse_declared_keys("defaults", defaults).unwrap(),
        absent,
    }
}

/// Returns the reason and, if it differs, the new text.
fn edit(resource: &TomlResource, text: &str, record: Option<&Value>) -> (String, Option<String>) {
    let outcome = resource.edit_document(&TextLines::parse(text), record);
    let text = match outcome.found {
        EditFinding::Differs { text, .. } => Some(text),
        EditFinding::AsDeclared | EditFinding::Blocked { .. } => None,
    };
    (outcome.reason, text)
}

fn build_error(fields: &[(&'static str, &str)]) -> String {
    let mut values = FieldValues::default();
    values.0.insert("path", json!("/etc/x.toml"));
    values.0.extend(fields.iter().map(|(name, text)| (*name, json!(text))));
    build(&values, false).unwrap_err().message
}

#[test]
fn declarations_that_cannot_be_compared_are_rejected() {
    assert_eq!(build_error(&[]), "`toml` needs `content` or `template`");
    assert_eq!(
        build_error(&[("content", "a = 1\nb = = 2\n")]),
        "`content` is not valid TOML: line 2: extra `=`, expected nothing"
    );
    assert_eq!(
        build_error(&[("content", "[a]\n\"b.c\" = 1979-05-27\n")]),
        "`content` declares `a.\"b.c\"` with a date, `inf` or `nan`"
    );
    assert_eq!(build_error(&[("content", "a = [1.0, inf]\n")]), "`content` declares `a` with a date, `inf` or `nan`");
}

#[test]
fn undeclared_keys_layout_and_comments_are_kept() {
    let resource = make_resource("version = 2\n[plugins.\"a.b\"]\nsystemd = true\nnew = [\"x\"]\n", "", false);
    let before = "# Of the operator.\nversion = 2 # schema\n\n[plugins]\n  [plugins.\"a.b\"]\n    systemd = false # old\n    \
                  other = 1\n  [plugins.z]\n    keep = 'yes'\n";
    let (reason, after) = edit(&resource, before, None);
    assert_eq!(reason, "`plugins.\"a.b\".systemd` differs; `plugins.\"a.b\".new` is missing");
    let after = after.unwrap();
    assert_eq!(
        after,
        "# Of the operator.\nversion = 2 # schema\n\n[plugins]\n  [plugins.\"a.b\"]\n    systemd = true # old\n    \
         other = 1\nnew = [\"x\"]\n  [plugins.z]\n    keep = 'yes'\n"
    );
    assert_eq!(edit(&resource, &after, None), ("the 3 declared keys match; the file has 2 others".to_owned(), None));
}

#[test]
fn value_in_another_notation_matches() {
    let resource = make_resource("[a.b]\nc = \"x\"\nd = { e = 1 }\n", "", false);
    assert_eq!(edit(&resource, "a = { b = { d.e = 0x1, c = 'x' } }\n", None).1, None);
}

#[test]
fn default_applies_only_to_a_missing_key() {
    let resource = make_resource("version = 2", "imports = [\"/etc/conf.d/*.toml\"]", false);
    assert_eq!(
        edit(&resource, "version = 2\n", None),
        ("`imports` is missing".to_owned(), Some("version = 2\nimports = [\"/etc/conf.d/*.toml\"]\n".to_owned()))
    );
    assert_eq!(edit(&resource, "version = 2\nimports = [\"/etc/config.toml\"]\n", None).1, None);
}

#[test]
fn key_that_is_no_longer_declared_goes_unless_another_program_changed_it() {
    let record = json!({ "value": { "content": { "a": 1, "runtimes": { "nvidia": { "name": "ours" } } } } });
    let resource = make_resource("a = 1", "", false);
    let ours = "a = 1\n[runtimes.nvidia]\nname = \"ours\"\n";
    assert_eq!(
        edit(&resource, ours, Some(&record)),
        ("`runtimes.nvidia.name` is no longer declared".to_owned(), Some("a = 1\n".to_owned()))
    );
    let theirs = "a = 1\n[runtimes.nvidia]\nname = \"theirs\"\n";
    let reason = "the declared key matches; the file has 1 other".to_owned();
    assert_eq!(edit(&resource, theirs, Some(&record)), (reason, None));
}

#[test]
fn removal_keeps_other_keys() {
    let resource = make_resource("[a.b]\nc = 1\n[d]\ne = 1\n", "", true);
    assert_eq!(
        edit(&resource, "[a.b]\nc = 2\n[d]\ne = 1\nf = 1\n", None),
        ("`a.b.c` and `d.e` exist".to_owned(), Some("[d]\nf = 1\n".to_owned()))
    );
    assert_eq!(edit(&resource, "[d]\nf = 1\n", None), ("the keys do not exist".to_owned(), None));
}

#[test]
fn invalid_file_blocks() {
    let resource = make_resource("a = 1", "", false);
    let reason = "`/etc/x.toml` is not valid TOML: line 1: unclosed table, expected `]`";
    assert_eq!(edit(&resource, "[a\n", None), (reason.to_owned(), None));
}

proptest! {
    #[test]
    fn edited_document_matches_and_keeps_every_other_key(
        old in proptest::collection::btree_map(proptest::collection::vec("[ab.]", 1..4), 0..3i64, 0..6),
        new in proptest::collection::btree_map(proptest::collection::vec("[ab.]", 1..4), 0..3i64, 1..6),
    ) {
        let tree = |keys: &BTreeMap<TomlKeyPath, i64>| {
            let keys = keys.iter().map(|(path, number)| (path.clone(), json!(number))).collect();
            TomlKeys::from_tree(&TomlKeys(keys).to_tree())
        };
        let (old, new) = (tree(&old), tree(&new));
        let mut document = TomlDocument::parse("").unwrap();
        old.0.iter().for_each(|(path, value)| document.set(path, value));
        let text = document.to_text();
        prop_assert_eq!(&TomlDocument::parse(&text).unwrap().keys(), &old);
        let resource = TomlResource { content: new.clone(), ..make_resource("", "", false) };
        if let (_, Some(after)) = edit(&resource, &text, None) {
            let keys = TomlDocument::parse(&after).unwrap().keys();
            prop_assert!(new.0.iter().all(|(path, value)| keys.0.get(path) == Some(value)));
            let clashes = |path: &TomlKeyPath| new.0.keys().any(|p| p.starts_with(path) || path.starts_with(p));
            prop_assert!(old.0.iter().all(|(path, value)| clashes(path) || keys.0.get(path) == Some(value)));
            prop_assert_eq!(edit(&resource, &after, None).1, None);
        }
    }
}
