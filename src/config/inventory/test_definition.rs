//! Parses the file of a test: its programs, their parameters, and how their output is read.

use crate::acceptance::{BasisSource, DeclaredBasis};
use crate::config::builtin_data::find_builtin_test;
use crate::config::load_context::LoadContext;
use crate::config::test_suite::{self, ServerListening, TestDefinition, TestOutput, TestPrograms};
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span, did_you_mean};
use camino::Utf8PathBuf;
use std::collections::{BTreeMap, BTreeSet};

/// Keys of the file of a test.
const TEST_KEYS: [&str; 14] = [
    "test",
    "about",
    "scope",
    "output",
    "limit",
    "parameters",
    "server",
    "client",
    "listens",
    "command",
    "mesh",
    "rank_command",
    "collective",
    "rests_on",
];
const DEFAULT_LIMIT_S: u64 = 300;

/// Returns the path that messages show for a built-in test.
pub(super) fn locate_builtin(name: &str) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{}/tests/{name}.yaml", crate::config::builtin_data::BUILTIN_PATH))
}

/// Reads a map of names and scalars, as texts.
pub(super) fn read_texts(
    table: &YamlTable<'_>,
    key: &'static str,
    cx: &mut LoadContext<'_>,
) -> BTreeMap<String, String> {
    let entries = yaml_table::expect_entries(table.get(key), key, &mut cx.diags);
    entries.iter().filter_map(|(name, node)| Some((name.text.clone(), scalar_text(node, key, cx)?))).collect()
}

/// Returns text, a number or a boolean as it is written to an argument.
pub(super) fn scalar_text(node: &YamlNode, key: &str, cx: &mut LoadContext<'_>) -> Option<String> {
    match scalar::node_to_value(node) {
        crate::model::Value::String(text) => Some(text),
        value @ (crate::model::Value::Number(_) | crate::model::Value::Bool(_)) => Some(value.to_string()),
        _ => yaml_table::expect_text(node, key, &mut cx.diags),
    }
}

/// Reads a test: `tests/NAME.yaml` next to the inventory, or a built-in one.
pub(super) fn read_definition(name: &str, span: Span, cx: &mut LoadContext<'_>) -> Option<TestDefinition> {
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
        (false, Some(text)) => cx.parse_yaml(&locate_builtin(name), text.to_owned())?.1,
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
    let (mut parameters, mut needed) = (BTreeMap::new(), BTreeSet::new());
    for (key, node) in yaml_table::expect_entries(table.get("parameters"), "parameters", &mut cx.diags) {
        if scalar::node_to_value(node).is_null() {
            needed.insert(key.text.clone());
            continue;
        }
        parameters.insert(key.text.clone(), scalar_text(node, &key.text, cx).unwrap_or_default());
    }
    if let Some(programs) = &programs {
        let names = parameters.keys().chain(&needed).map(String::as_str).collect();
        check_placeholders(programs, &names, &table, cx);
    }
    let rests_on = read_basis(&table, cx);
    if let (Some(output), Some(TestPrograms::Host(_) | TestPrograms::Group(_))) = (output, &programs)
        && output.needs_two_ends()
    {
        let message = format!("output `{}` needs a test with a server: scope `loopback` or `pair`", output.name());
        let node = table.get("output").map(|node| node.span);
        if let Some(span) = node {
            cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(span));
        }
    }
    let is_group = matches!(programs, Some(TestPrograms::Group(_)));
    let (rank_command, collective) = read_job_programs(&table, is_group, cx);
    let listens = read_listening(&table, programs.as_ref(), cx);
    Some(TestDefinition {
        name: name.to_owned(),
        about: table.get_text("about", &mut cx.diags).unwrap_or_default(),
        programs: programs?,
        rests_on: rests_on.or_else(|| output.map(TestOutput::default_basis)).unwrap_or_default(),
        output: output?,
        limit_s: table.get_limit("limit", &mut cx.diags).unwrap_or(DEFAULT_LIMIT_S),
        parameters,
        needed,
        listens,
        mesh: table.get_text("mesh", &mut cx.diags),
        rank_command,
        collective,
    })
}

/// Reads what processes run if the test starts as a job of the cluster: `rank_command` and `collective`.
fn read_job_programs(table: &YamlTable<'_>, is_group: bool, cx: &mut LoadContext<'_>) -> (Vec<String>, Option<String>) {
    for node in ["rank_command", "collective"].into_iter().filter_map(|key| table.get(key)).filter(|_| !is_group) {
        let message = "`rank_command` and `collective` need a test of scope `group`";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
    }
    let words = table.get("rank_command").and_then(|_| read_words(table, "rank_command", cx)).unwrap_or_default();
    let collective = table.get("collective").and_then(|node| {
        let text = yaml_table::expect_text(node, "collective", &mut cx.diags)?;
        if TestDefinition::COLLECTIVES.contains(&text.as_str()) {
            return Some(text);
        }
        let diag = Diag::error(DiagCode::BadValue, format!("unknown collective `{}`", scalar::shorten_text(&text)));
        let known = TestDefinition::COLLECTIVES.map(|name| format!("`{name}`")).join(", ");
        let diag = diag.with_span(node.span).suggest_name(&text, TestDefinition::COLLECTIVES);
        cx.push_diag(diag.hint(format!("the collectives are {known}")));
        None
    });
    (words, collective)
}

/// Reads `rests_on`: names of sources, and `package:NAME`.
fn read_basis(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<DeclaredBasis> {
    table.get("rests_on")?;
    let mut basis = DeclaredBasis::default();
    for node in table.get_items("rests_on", &mut cx.diags) {
        let Some(text) = yaml_table::expect_text(node, "rests_on", &mut cx.diags) else { continue };
        let source = BasisSource::NAMED.into_iter().find(|source| source.name() == text);
        match (source, text.strip_prefix("package:")) {
            (Some(source), _) => drop(basis.sources.insert(source)),
            (None, Some(name)) if !name.is_empty() => {
                basis.sources.insert(BasisSource::Packages);
                basis.packages.insert(name.to_owned());
            }
            _ => {
                let message = format!("invalid entry of `rests_on`: `{}`", scalar::shorten_text(&text));
                let known = BasisSource::NAMED.iter().map(|source| source.name());
                let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span).suggest_name(&text, known);
                cx.push_diag(
                    diag.hint("the entries are `kernel`, `driver`, `gpus`, `ofed`, `adapters`, `package:NAME`"),
                );
            }
        }
    }
    Some(basis)
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

/// Reads `listens`, which only a test with a server has.
fn read_listening(table: &YamlTable<'_>, programs: Option<&TestPrograms>, cx: &mut LoadContext<'_>) -> ServerListening {
    let Some(node) = table.get("listens") else { return ServerListening::default() };
    if matches!(programs, Some(TestPrograms::Host(_) | TestPrograms::Group(_))) {
        let message = "`listens` needs a test with a server: scope `loopback` or `pair`";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
    }
    let text = yaml_table::expect_text(node, "listens", &mut cx.diags).unwrap_or_default();
    ServerListening::ALL.into_iter().find(|listens| listens.name() == text).unwrap_or_else(|| {
        let message = format!("`listens` must be `tcp` or `rdma`, found `{}`", scalar::shorten_text(&text));
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        ServerListening::default()
    })
}

fn read_programs(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<TestPrograms> {
    let scope = table.require_value("scope", &mut cx.diags)?;
    match yaml_table::expect_text(scope, "scope", &mut cx.diags)?.as_str() {
        "host" => Some(TestPrograms::Host(read_words(table, "command", cx)?)),
        scope @ ("loopback" | "pair") => {
            let (server, client) = (read_words(table, "server", cx), read_words(table, "client", cx));
            let (server, client) = (server?, client?);
            Some(match scope {
                "loopback" => TestPrograms::Loopback { server, client },
                _ => TestPrograms::Pair { server, client },
            })
        }
        "group" => {
            let words = read_words(table, "command", cx)?;
            check_group_words(&words, table, cx);
            Some(TestPrograms::Group(words))
        }
        other => {
            let found = scalar::shorten_text(other);
            let message = format!("`scope` must be `host`, `loopback`, `pair` or `group`, found `{found}`");
            cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(scope.span));
            None
        }
    }
}

/// Reports misspelled placeholders, and a server without a port. Other text in braces belongs to the program: `awk`
/// has `{print}`.
fn check_placeholders(
    programs: &TestPrograms,
    parameters: &BTreeSet<&str>,
    table: &YamlTable<'_>,
    cx: &mut LoadContext<'_>,
) {
    let of_each = programs.list_supplied_names();
    let known: BTreeSet<&str> = of_each.iter().chain(parameters).copied().collect();
    for (key, words) in programs.list_keyed_programs() {
        let span = table.get(key).map_or(table.span, |node| node.span);
        for name in words
            .iter()
            .flat_map(|word| test_suite::find_placeholders(word))
            .map(|(_, name)| name)
            .filter(|name| !known.contains(name))
        {
            if let Some(meant) = did_you_mean(name, known.iter().copied()) {
                let diag = Diag::warning(DiagCode::BadValue, format!("this test has no parameter `{name}`"));
                cx.push_diag(diag.with_span(span).hint(format!("did you mean `{{{meant}}}`?")));
            }
        }
    }
    let scope = match programs {
        TestPrograms::Loopback { .. } => "loopback",
        TestPrograms::Pair { .. } => "pair",
        TestPrograms::Host(_) | TestPrograms::Group(_) => return,
    };
    if !parameters.contains("port") {
        let message = format!("a test of scope `{scope}` needs the parameter `port`");
        let hint = "declare `parameters: { port: 18515 }`, and let the server listen on `{port}`: forge waits for it";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(table.span).hint(hint));
    }
}

/// Requires the placeholders without which a program of a group would run on one host, or be left behind.
fn check_group_words(words: &[String], table: &YamlTable<'_>, cx: &mut LoadContext<'_>) {
    let has = |name: &str| words.iter().any(|word| word.contains(name));
    let wanted = [
        ("{hosts}", "`mpirun --host {hosts}` starts a program on every host of the group"),
        ("{mark}", "`env {mark} orted` marks the processes on other hosts: forge ends those that are left"),
    ];
    for (name, hint) in wanted.into_iter().filter(|(name, _)| !has(name)) {
        let span = table.get("command").map_or(table.span, |node| node.span);
        let diag = Diag::error(DiagCode::BadValue, format!("the command of a group needs `{name}`"));
        cx.push_diag(diag.with_span(span).hint(hint));
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
