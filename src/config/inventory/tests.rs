//! Parses `tests:`: the sets and their entries.

use super::selector::SelectorUniverse;
use super::test_definition::{locate_builtin, read_definition, scalar_text};
use super::test_launch::{LaunchCluster, read_launch};
use crate::acceptance::{BASELINE_DROP, FabricLayout, FloorScope, RequiredTransport, check_floor, parse_floors};
use crate::config::builtin_data::{builtin_tables, find_builtin_test};
use crate::config::load_context::LoadContext;
use crate::config::test_suite::{
    DeclaredLimit, DeclaredTest, PairSelection, TestDefinition, TestOutput, TestPrograms, TestSuite,
};
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlKey, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span, did_you_mean};
use crate::model::HostName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keys of an entry of a set.
pub(in crate::config) const ENTRY_KEYS: [&str; 18] = [
    "test",
    "on",
    "with",
    "rails",
    "least",
    "most",
    "share",
    "of",
    "floor",
    "peers",
    "baseline",
    "schedule",
    "at_once",
    "group_size",
    "network",
    "gpudirect",
    "required",
    "launch",
];
const LIMIT_KEYS: [&str; 5] = ["least", "most", "share", "floor", "peers"];

/// What entries of a set refer to.
pub(in crate::config) struct TestScope<'s> {
    pub universe: &'s SelectorUniverse<'s>,
    pub hosts: &'s [HostName],
    pub fabric: &'s FabricLayout,
    pub cluster: &'s LaunchCluster,
    /// Whether the set is built in: it fits every cluster, and measures nothing where there are too few hosts.
    pub is_builtin: bool,
}

/// Reads the declared sets, and the built-in sets that the inventory does not declare.
pub(in crate::config) fn read_test_suite(
    declared: Option<&YamlNode>,
    scope: &TestScope<'_>,
    cx: &mut LoadContext<'_>,
) -> TestSuite {
    let mut suite = TestSuite::default();
    for (name, node) in yaml_table::expect_entries(declared, "tests", &mut cx.diags) {
        let entries = read_set(name, node, scope, cx);
        suite.sets.insert(name.text.clone(), entries);
    }
    suite
}

/// Returns a built-in set; `None` if there is none of that name.
pub(in crate::config) fn read_builtin_set(
    name: &str,
    scope: &TestScope<'_>,
    cx: &mut LoadContext<'_>,
) -> Option<Vec<DeclaredTest>> {
    let text = find_builtin_test("sets")?;
    let (_, node) = cx.parse_yaml(&locate_builtin("sets"), text.to_owned())?;
    let entries = yaml_table::expect_entries(Some(&node), "tests", &mut cx.diags);
    let (key, node) = entries.iter().find(|(key, _)| key.text == name)?;
    Some(read_set(key, node, &TestScope { is_builtin: true, ..*scope }, cx))
}

fn read_set(name: &YamlKey, node: &YamlNode, scope: &TestScope<'_>, cx: &mut LoadContext<'_>) -> Vec<DeclaredTest> {
    let items = yaml_table::expect_items(node, &name.text, &mut cx.diags);
    items.into_iter().filter_map(|node| read_entry(node, scope, cx)).collect()
}

fn read_entry(node: &YamlNode, scope: &TestScope<'_>, cx: &mut LoadContext<'_>) -> Option<DeclaredTest> {
    let table = YamlTable::open(node, "an entry of `tests`", &ENTRY_KEYS, &mut cx.diags)?;
    let test = table.require_value("test", &mut cx.diags)?;
    let name = yaml_table::expect_text(test, "test", &mut cx.diags)?;
    let definition = read_definition(&name, test.span, cx)?;
    let selected = select_hosts(&table, scope, cx)?;
    let parameters = read_parameters(&table, &definition, cx);
    let expected = read_limit(&table, &definition, cx)?;
    let rails = table.get_items("rails", &mut cx.diags);
    let group_size = table.get_int("group_size", 2, 100_000, &mut cx.diags).map_or(0, |count| count as usize);
    if !scope.is_builtin {
        check_host_count(&table, &definition, selected.len(), group_size, cx);
    }
    let launch = read_launch(&table, (&definition, &parameters), (scope.cluster, &selected), cx);
    Some(DeclaredTest {
        pairs: read_pair_selection(&table, &selected, scope.fabric, cx),
        hosts: selected,
        parameters,
        rails: rails.into_iter().filter_map(|node| yaml_table::expect_text(node, "rails", &mut cx.diags)).collect(),
        expected,
        baseline_drop: read_optional_share(&table, "baseline", cx).unwrap_or(BASELINE_DROP),
        at_once: table.get_int("at_once", 1, 100_000, &mut cx.diags).map_or(0, |count| count as usize),
        group_size,
        required: read_required_transport(&table, &definition, cx),
        launch,
        proof_required: table.get_bool("required", &mut cx.diags).unwrap_or(false),
        span: node.span,
        definition: Arc::new(definition),
    })
}

fn select_hosts(table: &YamlTable<'_>, scope: &TestScope<'_>, cx: &mut LoadContext<'_>) -> Option<Vec<HostName>> {
    let on = table.require_value("on", &mut cx.diags)?;
    let text = yaml_table::expect_text(on, "on", &mut cx.diags)?;
    match scope.universe.select(&text, Some(on.span)) {
        Ok(found) => Some(found.into_iter().filter_map(|at| scope.hosts.get(at).cloned()).collect()),
        Err(diag) => {
            cx.push_diag(*diag);
            None
        }
    }
}

/// Reports an entry that its hosts are too few for: nothing would be measured, or nothing compared. A pair or a group of one
/// host is none: the inventory may get more. Two hosts have two results, one in each direction.
fn check_host_count(
    table: &YamlTable<'_>,
    definition: &TestDefinition,
    hosts: usize,
    group_size: usize,
    cx: &mut LoadContext<'_>,
) {
    let (key, needed, why) = match &definition.programs {
        TestPrograms::Group(_) if hosts < group_size => ("group_size", group_size, "a group"),
        programs if programs.are_of_one_host() && hosts < 3 && table.get("peers").is_some() => {
            ("peers", 3, "a comparison with the median of the hosts")
        }
        TestPrograms::Pair { .. } if hosts < 3 && table.get("peers").is_some() => {
            ("peers", 3, "a comparison with the median of the pairs")
        }
        _ => return,
    };
    let span = table.get(key).map_or(table.span, |node| node.span);
    let message = format!("{why} needs {needed} hosts or more, and this entry selects {hosts}");
    cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(span));
}

fn read_parameters(
    table: &YamlTable<'_>,
    definition: &TestDefinition,
    cx: &mut LoadContext<'_>,
) -> BTreeMap<String, String> {
    let mut parameters = definition.parameters.clone();
    // The error of the misspelled name is enough.
    let mut misspelled = BTreeSet::new();
    for (key, node) in yaml_table::expect_entries(table.get("with"), "with", &mut cx.diags) {
        let is_known = parameters.contains_key(&key.text) || definition.needed.contains(&key.text);
        match is_known {
            true => drop(parameters.insert(key.text.clone(), scalar_text(node, &key.text, cx).unwrap_or_default())),
            false => {
                let message = format!("test `{}` has no parameter `{}`", definition.name, key.text);
                let known = || definition.parameters.keys().chain(&definition.needed).map(String::as_str);
                misspelled.extend(did_you_mean(&key.text, known()));
                cx.push_diag(
                    Diag::error(DiagCode::UnknownKey, message).with_span(key.span).suggest_name(&key.text, known()),
                );
            }
        }
    }
    let needed: Vec<&String> = definition.needed.iter().filter(|name| !parameters.contains_key(*name)).collect();
    for name in needed.into_iter().filter(|name| !misspelled.contains(name.as_str())) {
        let message = format!("test `{}` needs the parameter `{name}`", definition.name);
        let diag = Diag::error(DiagCode::BadValue, message).with_span(table.span);
        cx.push_diag(diag.hint(format!("set it: `with: {{ {name}: … }}`")));
    }
    parameters
}

fn read_pair_selection(
    table: &YamlTable<'_>,
    hosts: &[HostName],
    fabric: &FabricLayout,
    cx: &mut LoadContext<'_>,
) -> PairSelection {
    let Some(node) = table.get("schedule") else { return PairSelection::Ring };
    let Some(text) = yaml_table::expect_text(node, "schedule", &mut cx.diags) else { return PairSelection::Ring };
    let Some(pairs) = PairSelection::ALL.into_iter().find(|pairs| pairs.name() == text) else {
        let known = PairSelection::ALL.map(|pairs| format!("`{}`", pairs.name())).join(", ");
        let message = format!("`schedule` must be one of {known}, found `{}`", scalar::shorten_text(&text));
        let hint = "`ring` tests each host with two neighbours, `all` with each other host, `leaf` within a leaf, \
                    `across` with each other leaf";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint(hint));
        return PairSelection::Ring;
    };
    let unplaced = hosts.iter().find(|host| pairs.needs_fabric() && !fabric.has_host(host));
    if let Some(host) = unplaced {
        let message = format!("`schedule: {}` needs the leaf of each host, and `{host}` is on none", pairs.name());
        let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span);
        cx.push_diag(diag.hint("declare it: `fabric: { leaves: { leaf-01: { hosts: \"gpu-[01:32]\" } } }`"));
    }
    pairs
}

/// Reads what a collective must use. Without `network: any`, a run over sockets fails.
fn read_required_transport(
    table: &YamlTable<'_>,
    definition: &TestDefinition,
    cx: &mut LoadContext<'_>,
) -> RequiredTransport {
    let is_group = matches!(definition.programs, TestPrograms::Group(_));
    let is_collective = is_group && definition.output == TestOutput::Nccl;
    for (key, fits, wanted) in [
        ("group_size", is_group, "scope `group`"),
        ("network", is_collective, "scope `group` and output `nccl`"),
        ("gpudirect", is_collective, "scope `group` and output `nccl`"),
    ] {
        if let (Some(node), false) = (table.get(key), fits) {
            let message = format!("`{key}` needs a test of {wanted}, and `{}` is another one", definition.name);
            cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        }
    }
    let gdr = table.get_bool("gpudirect", &mut cx.diags).unwrap_or(false);
    let network = table.get("network");
    let rdma = match network.and_then(|node| yaml_table::expect_text(node, "network", &mut cx.diags)).as_deref() {
        None | Some("rdma") => true,
        Some("any") => false,
        Some(other) => {
            let message = format!("`network` must be `rdma` or `any`, found `{}`", scalar::shorten_text(other));
            cx.push_diag(
                Diag::error(DiagCode::BadValue, message).with_span(network.map_or(table.span, |node| node.span)),
            );
            true
        }
    };
    if gdr && !rdma {
        let message = "`gpudirect: true` needs `network: rdma`";
        cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(table.span));
    }
    RequiredTransport { rdma: is_collective && rdma, gdr }
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
    if definition.output.has_own_verdict() {
        if let Some(node) = given.first().and_then(|key| table.get(key)) {
            let message = format!("test `{}` passes or fails by itself: it has no limit", definition.name);
            cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        }
        return Some(DeclaredLimit::OwnVerdict);
    }
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
        _ => DeclaredLimit::Peers(read_peers(table, key, definition.output.is_more_better(), cx)?),
    };
    let is_latency = definition.output == TestOutput::PerftestLatency;
    let measures_rate = !is_latency && definition.output != TestOutput::Number;
    let reversed = match *key {
        "least" | "share" if is_latency => Some(("a latency", "`most` is the highest good value")),
        "most" if measures_rate => Some(("a rate", "`least` is the lowest good value")),
        _ => None,
    };
    if let Some((what, hint)) = reversed {
        let message = format!("test `{}` measures {what}: `{key}` would accept bad values", definition.name);
        let span = table.get(key).map_or(table.span, |node| node.span);
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(span).hint(hint));
    }
    check_ceiling(&limit, of, definition.output.unit(), table.span, cx);
    Some(limit)
}

/// Reads how far a value may be from the median. All of it would accept every rate; a latency may be twice the median.
fn read_peers(table: &YamlTable<'_>, key: &str, is_rate: bool, cx: &mut LoadContext<'_>) -> Option<f64> {
    let share = read_number(table, key, cx)?;
    if share > 1.0 || share == 1.0 && is_rate {
        let message =
            format!("`{key}` is the share by which a value may be worse than the median: above 0 and below 1");
        let span = table.get(key).map_or(table.span, |node| node.span);
        let hint = "write `0.05` to accept values up to 5 % worse than the median";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(span).hint(hint));
        return None;
    }
    Some(share)
}

fn read_share(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<f64> {
    let share = read_number(table, key, cx)?;
    if share > 1.0 {
        let message = format!("`{key}` is a share from 0 to 1");
        let span = table.get(key).map_or(table.span, |node| node.span);
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(span).hint("write `0.9` for 90 %"));
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
    let fits = match (&definition.programs, floor.scope) {
        (TestPrograms::Group(_), FloorScope::TwoHosts) => {
            table.get_int("group_size", 2, 100_000, &mut cx.diags) == Some(2)
        }
        (TestPrograms::Host(_), scope) => matches!(scope, FloorScope::Host | FloorScope::Gpu),
        (TestPrograms::Loopback { .. } | TestPrograms::Pair { .. }, scope) => scope == FloorScope::Port,
        (TestPrograms::Group(_), _) => false,
    };
    if !fits {
        let scope = match floor.scope {
            FloorScope::Gpu => "the GPUs of a host, one by one",
            FloorScope::Port => "a port: it needs a test of scope `loopback` or `pair`",
            FloorScope::Host => "one host: it needs a test of scope `host`",
            FloorScope::TwoHosts => "two hosts: it needs a test of scope `group` and `group_size: 2`",
        };
        let message = format!("floor `{name}` is for {scope}");
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        return None;
    }
    Some(DeclaredLimit::Floor(Box::new(floor.clone())))
}
