//! Parses `tests:` and the files of tests.

use super::selector::SelectorUniverse;
use crate::acceptance::{BASELINE_DROP, check_floor, parse_floors};
use crate::config::builtin_data::{builtin_tables, find_builtin_test};
use crate::config::load_context::LoadContext;
use crate::config::test_suite::{
    DeclaredLimit, DeclaredTest, PairSelection, TestDefinition, TestOutput, TestPrograms, TestSuite,
};
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlKey, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::HostName;
use camino::Utf8PathBuf;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys of an entry of a set.
pub(in crate::config) const ENTRY_KEYS: [&str; 13] = [
    "test", "on", "with", "rails", "least", "most", "share", "of", "floor", "peers", "baseline", "schedule", "at_once",
];
/// Keys of the file of a test.
const TEST_KEYS: [&str; 9] = ["test", "about", "scope", "output", "limit", "parameters", "server", "client", "command"];
const LIMIT_KEYS: [&str; 5] = ["least", "most", "share", "floor", "peers"];
const DEFAULT_LIMIT_S: u64 = 300;

/// Reads the declared sets, and the built-in sets that the inventory does not declare.
pub(in crate::config) fn read_test_suite(
    declared: Option<&YamlNode>,
    universe: &SelectorUniverse<'_>,
    hosts: &[HostName],
    cx: &mut LoadContext<'_>,
) -> TestSuite {
    let mut suite = TestSuite::default();
    for (name, node) in yaml_table::expect_entries(declared, "tests", &mut cx.diags) {
        let entries = read_set(name, node, universe, hosts, cx);
        suite.sets.insert(name.text.clone(), entries);
    }
    suite
}

/// Returns a built-in set; `None` if there is none of that name.
pub(in crate::config) fn read_builtin_set(
    name: &str,
    universe: &SelectorUniverse<'_>,
    hosts: &[HostName],
    cx: &mut LoadContext<'_>,
) -> Option<Vec<DeclaredTest>> {
    let text = find_builtin_test("sets")?;
    let (_, node) = cx.parse_yaml(&shown_builtin("sets"), text.to_owned())?;
    let entries = yaml_table::expect_entries(Some(&node), "tests", &mut cx.diags);
    let (key, node) = entries.iter().find(|(key, _)| key.text == name)?;
    Some(read_set(key, node, universe, hosts, cx))
}

fn shown_builtin(name: &str) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{}/tests/{name}.yaml", crate::config::builtin_data::BUILTIN_PATH))
}

fn read_set(
    name: &YamlKey,
    node: &YamlNode,
    universe: &SelectorUniverse<'_>,
    hosts: &[HostName],
    cx: &mut LoadContext<'_>,
) -> Vec<DeclaredTest> {
    let items = yaml_table::expect_items(node, &name.text, &mut cx.diags);
    items.into_iter().filter_map(|node| read_entry(node, universe, hosts, cx)).collect()
}

fn read_entry(
    node: &YamlNode,
    universe: &SelectorUniverse<'_>,
    hosts: &[HostName],
    cx: &mut LoadContext<'_>,
) -> Option<DeclaredTest> {
    let table = YamlTable::open(node, "an entry of `tests`", &ENTRY_KEYS, &mut cx.diags)?;
    let test = table.require_value("test", &mut cx.diags)?;
    let name = yaml_table::expect_text(test, "test", &mut cx.diags)?;
    let definition = read_definition(&name, test.span, cx)?;
    let selected = select_hosts(&table, universe, hosts, cx)?;
    let parameters = read_parameters(&table, &definition, cx);
    let expected = read_limit(&table, &definition, cx)?;
    let rails = table.get_items("rails", &mut cx.diags);
    Some(DeclaredTest {
        hosts: selected,
        parameters,
        rails: rails.into_iter().filter_map(|node| yaml_table::expect_text(node, "rails", &mut cx.diags)).collect(),
        expected,
        baseline_drop: read_optional_share(&table, "baseline", cx).unwrap_or(BASELINE_DROP),
        pairs: read_pair_selection(&table, cx),
        at_once: table.get_int("at_once", 0, 100_000, &mut cx.diags).map_or(0, |count| count as usize),
        span: node.span,
        definition: Arc::new(definition),
    })
}

fn select_hosts(
    table: &YamlTable<'_>,
    universe: &SelectorUniverse<'_>,
    hosts: &[HostName],
    cx: &mut LoadContext<'_>,
) -> Option<Vec<HostName>> {
    let on = table.require_value("on", &mut cx.diags)?;
    let text = yaml_table::expect_text(on, "on", &mut cx.diags)?;
    match universe.select(&text, Some(on.span)) {
        Ok(found) => Some(found.into_iter().filter_map(|at| hosts.get(at).cloned()).collect()),
        Err(diag) => {
            cx.push_diag(*diag);
            None
        }
    }
}

fn read_parameters(
    table: &YamlTable<'_>,
    definition: &TestDefinition,
    cx: &mut LoadContext<'_>,
) -> BTreeMap<String, String> {
    let mut parameters = definition.parameters.clone();
    for (key, node) in yaml_table::expect_entries(table.get("with"), "with", &mut cx.diags) {
        match parameters.get_mut(&key.text) {
            Some(value) => *value = scalar_text(node, &key.text, cx).unwrap_or_default(),
            None => {
                let message = format!("test `{}` has no parameter `{}`", definition.name, key.text);
                let known = definition.parameters.keys().map(String::as_str);
                cx.push_diag(
                    Diag::error(DiagCode::UnknownKey, message).with_span(key.span).suggest_name(&key.text, known),
                );
            }
        }
    }
    parameters
}

/// Returns text, a number or a boolean as it is written to an argument.
fn scalar_text(node: &YamlNode, key: &str, cx: &mut LoadContext<'_>) -> Option<String> {
    match scalar::node_to_value(node) {
        crate::model::Value::String(text) => Some(text),
        value @ (crate::model::Value::Number(_) | crate::model::Value::Bool(_)) => Some(value.to_string()),
        _ => yaml_table::expect_text(node, key, &mut cx.diags),
    }
}

fn read_pair_selection(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> PairSelection {
    let Some(node) = table.get("schedule") else { return PairSelection::Ring };
    match yaml_table::expect_text(node, "schedule", &mut cx.diags).as_deref() {
        Some("all") => PairSelection::All,
        Some("ring") | None => PairSelection::Ring,
        Some(other) => {
            let message = format!("`schedule` must be `ring` or `all`, found `{}`", scalar::shorten_text(other));
            let hint = "`ring` tests each host with two neighbours, `all` with each other host";
            cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint(hint));
            PairSelection::Ring
        }
    }
}

fn read_number(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<f64> {
    let node = table.get(key)?;
    // A decimal fraction is text: versions are written like it.
    let number = scalar_text(node, key, cx).and_then(|text| text.parse::<f64>().ok());
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    if number.is_none() {
        let message = format!("`{key}` must be a number greater than 0");
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
    }
    number
}

/// Reads which results are good. Exactly one key says it: without one, every number would pass.
fn read_limit(table: &YamlTable<'_>, definition: &TestDefinition, cx: &mut LoadContext<'_>) -> Option<DeclaredLimit> {
    let given: Vec<&str> = LIMIT_KEYS.into_iter().filter(|key| table.get(key).is_some()).collect();
    let [key] = given.as_slice() else {
        let message = "an entry of `tests` needs exactly one of `least`, `most`, `share`, `floor` and `peers`";
        let hint = "`share: 0.9` expects 90 % of the rate of the port; `peers: 0.05` compares hosts with each other";
        cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(table.span).hint(hint));
        return None;
    };
    let of = read_number(table, "of", cx);
    let limit = match *key {
        "floor" => read_floor(table, definition, cx)?,
        "least" => DeclaredLimit::Least(read_number(table, key, cx)?),
        "most" => DeclaredLimit::Most(read_number(table, key, cx)?),
        "share" => DeclaredLimit::Share { share: read_share(table, key, cx)?, of },
        _ => DeclaredLimit::Peers(read_share(table, key, cx)?),
    };
    check_ceiling(&limit, of, definition.output.unit(), table.span, cx);
    Some(limit)
}

fn read_share(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<f64> {
    let share = read_number(table, key, cx)?;
    if share > 1.0 {
        let message = format!("`{key}` is a share from 0 to 1");
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(table.span).hint("write `0.9` for 90 %"));
        return None;
    }
    Some(share)
}

fn read_optional_share(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<f64> {
    table.get(key).and_then(|_| read_share(table, key, cx))
}

fn check_ceiling(limit: &DeclaredLimit, of: Option<f64>, unit: &str, span: Span, cx: &mut LoadContext<'_>) {
    let floor = match limit {
        DeclaredLimit::Least(least) => Some(*least),
        DeclaredLimit::Floor(floor) => floor.least,
        _ => None,
    };
    if let (Some(floor), Some(of)) = (floor, of)
        && let Err(why) = check_floor(floor, of, unit)
    {
        cx.push_diag(Diag::error(DiagCode::BadValue, why).with_span(span).hint("lower the floor, or correct `of`"));
    }
}

fn read_floor(table: &YamlTable<'_>, definition: &TestDefinition, cx: &mut LoadContext<'_>) -> Option<DeclaredLimit> {
    let node = table.get("floor")?;
    let name = yaml_table::expect_text(node, "floor", &mut cx.diags)?;
    // A test ensures that the built-in table can be read.
    let rows = builtin_tables().iter().find(|data| data.name == "acceptance-floors").map(|data| &data.rows);
    let floors = rows.and_then(|rows| parse_floors(rows).ok()).unwrap_or_default();
    let Some(floor) = floors.iter().find(|floor| floor.name == name) else {
        let diag = Diag::error(DiagCode::BadValue, format!("floor `{}` not found", scalar::shorten_text(&name)));
        let known = floors.iter().map(|floor| floor.name.as_str());
        cx.push_diag(diag.with_span(node.span).suggest_name(&name, known));
        return None;
    };
    if floor.unit != definition.output.unit() {
        let message = format!(
            "floor `{name}` is in {}, and test `{}` measures {}",
            floor.unit,
            definition.name,
            definition.output.unit()
        );
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        return None;
    }
    Some(DeclaredLimit::Floor(Box::new(floor.clone())))
}

/// Reads a test: `tests/NAME.yaml` next to the inventory, or a built-in one.
fn read_definition(name: &str, span: Span, cx: &mut LoadContext<'_>) -> Option<TestDefinition> {
    if !crate::config::identifier::is_label(name) {
        let diag = Diag::error(DiagCode::BadValue, format!("invalid name of a test: `{}`", scalar::shorten_text(name)));
        cx.push_diag(diag.with_span(span));
        return None;
    }
    let own = Utf8PathBuf::from(format!("tests/{name}.yaml"));
    let node = match (cx.root.join(&own).exists(), find_builtin_test(name).filter(|_| name != "sets")) {
        (true, _) => match cx.confine_path(own.as_str(), span) {
            Ok(path) => cx.read_yaml(&path, &own, Some(span))?.1,
            Err(diag) => {
                cx.push_diag(*diag);
                return None;
            }
        },
        (false, Some(text)) => cx.parse_yaml(&shown_builtin(name), text.to_owned())?.1,
        (false, None) => {
            let diag = Diag::error(DiagCode::BadValue, format!("test `{name}` not found")).with_span(span);
            cx.push_diag(diag.hint(format!("write it to `{own}`, or use a built-in test: {}", list_builtin_tests())));
            return None;
        }
    };
    read_definition_file(&node, name, cx)
}

fn list_builtin_tests() -> String {
    let names = crate::config::builtin_data::builtin_test_names().filter(|name| *name != "sets");
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn read_definition_file(node: &YamlNode, name: &str, cx: &mut LoadContext<'_>) -> Option<TestDefinition> {
    let table = YamlTable::open(node, "a test", &TEST_KEYS, &mut cx.diags)?;
    let own = table.require_value("test", &mut cx.diags)?;
    let own_name = yaml_table::expect_text(own, "test", &mut cx.diags)?;
    if own_name != name {
        let message = format!("the file of test `{name}` names it `{}`", scalar::shorten_text(&own_name));
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(own.span));
    }
    let output = read_output(&table, cx);
    let programs = read_programs(&table, cx);
    let mut parameters = BTreeMap::new();
    for (key, node) in yaml_table::expect_entries(table.get("parameters"), "parameters", &mut cx.diags) {
        parameters.insert(key.text.clone(), scalar_text(node, &key.text, cx).unwrap_or_default());
    }
    Some(TestDefinition {
        name: name.to_owned(),
        about: table.get_text("about", &mut cx.diags).unwrap_or_default(),
        programs: programs?,
        output: output?,
        limit_s: table.get_limit("limit", &mut cx.diags).unwrap_or(DEFAULT_LIMIT_S),
        parameters,
    })
}

fn read_output(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<TestOutput> {
    let node = table.require_value("output", &mut cx.diags)?;
    let text = yaml_table::expect_text(node, "output", &mut cx.diags)?;
    let found = TestOutput::ALL.into_iter().find(|output| output.name() == text);
    if found.is_none() {
        let diag = Diag::error(DiagCode::BadValue, format!("unknown output `{}`", scalar::shorten_text(&text)));
        let known = TestOutput::ALL.iter().map(|output| output.name());
        cx.push_diag(diag.with_span(node.span).suggest_name(&text, known));
    }
    found
}

fn read_programs(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<TestPrograms> {
    let scope = table.require_value("scope", &mut cx.diags)?;
    match yaml_table::expect_text(scope, "scope", &mut cx.diags)?.as_str() {
        "host" => Some(TestPrograms::Host(read_words(table, "command", cx)?)),
        "pair" => {
            let (server, client) = (read_words(table, "server", cx), read_words(table, "client", cx));
            Some(TestPrograms::Pair { server: server?, client: client? })
        }
        other => {
            let message = format!("`scope` must be `host` or `pair`, found `{}`", scalar::shorten_text(other));
            cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(scope.span));
            None
        }
    }
}

fn read_words(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<Vec<String>> {
    let node = table.require_value(key, &mut cx.diags)?;
    let items = yaml_table::expect_items(node, key, &mut cx.diags);
    let words: Vec<String> = items.into_iter().filter_map(|item| scalar_text(item, key, cx)).collect();
    if words.is_empty() {
        cx.push_diag(Diag::error(DiagCode::BadValue, format!("`{key}` is empty")).with_span(node.span));
        return None;
    }
    Some(words)
}
