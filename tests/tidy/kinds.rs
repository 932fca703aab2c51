//! `config`, `plan` and `engine` decide by the traits and methods of a kind (`KindTraits`, `DeclaredResource`), never by
//! its name: a new kind states what it is in one place.

use super::{Source, assert_none, code, mentions};
use forge::resource::all_kinds;

const ROOMS: [&str; 3] = ["config/", "plan/", "engine/"];

/// Files that name kinds as text: misspelt keys with what was meant, and the import from another tool.
const TABLES: [&str; 2] = ["config/unknown_keys.rs", "config/ansible/"];

/// Names of kinds that are also keys of inventories and recipes, fields of JSON, or their values. They are allowed,
/// except where code considers a kind.
const ALSO_KEYS: [&str; 10] =
    ["absent", "command", "file", "group", "link", "namespace", "reboot", "secret", "unit", "user"];

/// Returns the kinds that the code of a file names, each with its line.
fn find_named_kinds<'k>(source: &Source, kinds: &[&'k str]) -> Vec<(usize, &'k str)> {
    let mut found = Vec::new();
    let mut considers = KindContext::default();
    for (number, line) in source.code() {
        let about_kinds = considers.read_line(line);
        let named = kinds.iter().filter(|kind| line.contains(&format!("\"{kind}\"")));
        found.extend(named.filter(|kind| about_kinds || !ALSO_KEYS.contains(kind)).map(|kind| (number, *kind)));
    }
    found
}

/// Follows which lines consider a kind: those with a variable or field `kind`, the line after one, and the arms of a
/// `match` on one.
#[derive(Default)]
struct KindContext {
    /// Indentation of the `match`.
    arms: Option<usize>,
    after_mention: bool,
}

impl KindContext {
    fn read_line(&mut self, line: &str) -> bool {
        let indentation = line.len() - line.trim_start().len();
        if self.arms.is_some_and(|outer| indentation <= outer && !line.trim().is_empty()) {
            self.arms = None;
        }
        let about_kinds = mentions(line, "kind");
        if about_kinds && mentions(line, "match") && self.arms.is_none() {
            self.arms = Some(indentation);
        }
        // `step.kind,` as an argument, not `kind: …` as a field.
        let continues = std::mem::replace(&mut self.after_mention, about_kinds && line.ends_with("kind,"));
        about_kinds || continues || self.arms.is_some()
    }
}

#[test]
fn kinds_are_not_named_above_their_module() {
    let kinds: Vec<&str> = all_kinds().iter().map(|kind| kind.name).collect();
    let starts = |source: &Source, prefixes: &[&str]| prefixes.iter().any(|prefix| source.path.starts_with(prefix));
    let mut found = Vec::new();
    for source in code().iter().filter(|source| starts(source, &ROOMS) && !starts(source, &TABLES)) {
        found.extend(find_named_kinds(source, &kinds).into_iter().map(|(number, kind)| {
            format!("src/{}:{number}: names the kind `{kind}`: use a trait of the kind", source.path)
        }));
    }
    assert_none(&found);
}

#[test]
fn kind_check_detects_names_and_accepts_keys() {
    let find = |text: &str| {
        let source = Source { path: "plan/x.rs".into(), text: text.to_owned() };
        find_named_kinds(&source, &["service", "user", "file", "absent"])
    };
    assert_eq!(find("if name == \"service\" {"), [(1, "service")]);
    assert_eq!(find("if step.kind == \"user\" {"), [(1, "user")]);
    assert_eq!(find("match resource.kind() {\n    \"absent\" => 1,\n    _ => 2,\n}"), [(2, "absent")]);
    assert_eq!(find("    matches!(\n        step.kind,\n        \"file\"\n    )"), [(3, "file")]);
    assert_eq!(find("match key {\n    \"user\" => 1,\n}"), []);
    assert_eq!(find("table.get(\"file\");\n// `service` is \"service\""), []);
    assert_eq!(find("match step.kind {\n    _ => 2,\n}\ntable.get(\"file\");"), []);
}
