//! Parses `rollout:`.

use crate::config::load_context::LoadContext;
use crate::config::read_share::read_share;
use crate::config::rollout::{
    DRAIN_LIMIT_S, NodeDrain, NodeReturnCondition, RETURN_LIMIT_S, RebootPolicy, ResourceOffer, RolloutHours,
    RolloutPolicy,
};
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{DeclaredLimit, TestPrograms, TestSuite, YamlData, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::object::{DrainAllowedLosses, is_label_name};

/// Keys of `rollout`.
pub(in crate::config) const KEYS: [&str; 12] = [
    "canary",
    "max_unavailable",
    "max_failed",
    "max_restarting",
    "quorum",
    "reboot",
    "reboot_timeout",
    "reboot_guard",
    "hours",
    "busy",
    "return_tests",
    "drain",
];

/// Keys of `drain`.
pub(in crate::config) const DRAIN_KEYS: [&str; 2] = ["slurm", "kubernetes"];

/// Keys of `drain.kubernetes`.
pub(in crate::config) const NODE_KEYS: [&str; 8] = [
    "group",
    "timeout",
    "grace",
    "delete_emptydir_data",
    "delete_unmanaged",
    "returns",
    "returns_within",
    "test_labels",
];

/// A group name and its location.
type SpannedGroupName = (String, Span);

pub(super) fn read_rollout(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RolloutPolicy> {
    let table = YamlTable::open(node, "`rollout`", &KEYS, &mut cx.diags)?;
    let plain = RolloutPolicy::default();
    let mut get = |key| table.get(key).and_then(|node| read_share(node, key, cx));
    let (canary, max_failed) = (get("canary"), get("max_failed"));
    let (max_unavailable, max_restarting) = (get("max_unavailable"), get("max_restarting"));
    for (key, found) in [("max_unavailable", max_unavailable), ("max_restarting", max_restarting)] {
        if found.is_some_and(|share| share.resolve_count(1) == 0) {
            cx.push_diag(build_zero_limit_diag(key, table.get(key).map_or(node.span, |node| node.span)));
        }
    }
    let (slurm, kubernetes) = table.get("drain").and_then(|node| read_drain(node, cx)).unwrap_or_default();
    let reboot_timeout_s = table.get_limit("reboot_timeout", &mut cx.diags).unwrap_or(plain.reboot_timeout_s);
    let reboot_guard_s = read_reboot_guard(&table, reboot_timeout_s, cx).unwrap_or(plain.reboot_guard_s);
    Some(RolloutPolicy {
        canary,
        max_failed,
        max_unavailable: max_unavailable.unwrap_or(plain.max_unavailable),
        max_restarting,
        quorum: read_spanned_names(&table, "quorum", cx),
        reboot: table.get("reboot").and_then(|node| read_reboot_policy(node, cx)).unwrap_or_default(),
        reboot_timeout_s,
        reboot_guard_s,
        hours: table.get("hours").and_then(|node| read_hours(node, cx)),
        busy_wait_s: table.get("busy").and_then(|node| read_busy_wait(node, cx)),
        return_tests: table.get("return_tests").and_then(|node| read_spanned_name(node, "return_tests", cx)),
        slurm,
        kubernetes,
        span: Some(node.span),
    })
}

/// Reads `reboot_guard`: a duration, or `off`. A host that takes a boot back has to return within the timeout too.
fn read_reboot_guard(table: &YamlTable<'_>, timeout_s: u64, cx: &mut LoadContext<'_>) -> Option<Option<u64>> {
    let node = table.get("reboot_guard")?;
    if matches!(&node.data, YamlData::Scalar { text, .. } if text == "off") {
        return Some(None);
    }
    let seconds = table.get_limit("reboot_guard", &mut cx.diags)?;
    if seconds >= timeout_s {
        let message = "`reboot_guard` is not shorter than `reboot_timeout`: forge would give the host up before";
        let hint = "the timeout must also leave time for the second boot";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint(hint));
    }
    Some(Some(seconds))
}

fn build_zero_limit_diag(key: &str, span: Span) -> Diag {
    Diag::error(DiagCode::BadValue, format!("`{key}` is 0: no host could ever change"))
        .with_span(span)
        .hint("set it to at least 1")
}

/// Reads a list of names, each with its place.
fn read_spanned_names(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Vec<(String, Span)> {
    let items = table.get_items(key, &mut cx.diags);
    items.into_iter().filter_map(|node| read_spanned_name(node, key, cx)).collect()
}

fn read_spanned_name(node: &YamlNode, key: &str, cx: &mut LoadContext<'_>) -> Option<(String, Span)> {
    Some((yaml_table::expect_text(node, key, &mut cx.diags)?, node.span))
}

fn read_reboot_policy(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RebootPolicy> {
    let text = yaml_table::expect_text(node, "reboot", &mut cx.diags)?;
    let policy = RebootPolicy::parse(&text);
    if policy.is_none() {
        let diag =
            Diag::error(DiagCode::BadValue, format!("`{}` is not a valid reboot policy", scalar::shorten_text(&text)));
        cx.push_diag(diag.with_span(node.span).suggest_name(&text, RebootPolicy::ALL.map(RebootPolicy::name)));
    }
    policy
}

fn read_hours(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RolloutHours> {
    let text = yaml_table::expect_text(node, "hours", &mut cx.diags)?;
    let hours = RolloutHours::parse(&text);
    if hours.is_none() {
        let found = scalar::shorten_text(&text);
        let diag = Diag::error(DiagCode::BadValue, format!("`hours` must be a time range, found `{found}`"));
        cx.push_diag(
            diag.with_span(node.span)
                .hint("write it like \"22:00-05:00\", in the local time of the machine that runs forge"),
        );
    }
    hours
}

fn read_busy_wait(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<u64> {
    let table = YamlTable::open(node, "`busy`", &["wait"], &mut cx.diags)?;
    table.require_value("wait", &mut cx.diags)?;
    table.get_duration("wait", &mut cx.diags)
}

fn read_drain(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<(Option<SpannedGroupName>, Option<NodeDrain>)> {
    let table = YamlTable::open(node, "`drain`", &DRAIN_KEYS, &mut cx.diags)?;
    let slurm = table.get("slurm").and_then(|node| read_spanned_name(node, "slurm", cx));
    let kubernetes = table.get("kubernetes").and_then(|node| read_node_drain(node, cx));
    if DRAIN_KEYS.iter().all(|key| table.get(key).is_none()) {
        let diag = Diag::error(DiagCode::MissingKey, "`drain` names no nodes to drain").with_span(node.span);
        cx.push_diag(diag.hint("name the group of the nodes: `slurm: GROUP` or `kubernetes: GROUP`"));
    }
    Some((slurm, kubernetes))
}

/// Parses `drain.kubernetes`: a group name, or a map with `group`.
fn read_node_drain(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<NodeDrain> {
    let plain = |group: SpannedGroupName| NodeDrain {
        group,
        timeout_s: DRAIN_LIMIT_S,
        grace_s: None,
        manner: DrainAllowedLosses::default(),
        returns: None,
        test_labels: Vec::new(),
    };
    if !matches!(node.data, crate::config::YamlData::Map(_)) {
        return Some(plain((yaml_table::expect_text(node, "kubernetes", &mut cx.diags)?, node.span)));
    }
    let table = YamlTable::open(node, "`kubernetes`", &NODE_KEYS, &mut cx.diags)?;
    let group = table.require_value("group", &mut cx.diags);
    let group = group.and_then(|node| read_spanned_name(node, "group", cx));
    let mut may = |key| table.get_bool(key, &mut cx.diags).unwrap_or(false);
    let manner = DrainAllowedLosses { emptydir: may("delete_emptydir_data"), unmanaged: may("delete_unmanaged") };
    let timeout_s = table.get_limit("timeout", &mut cx.diags).unwrap_or(DRAIN_LIMIT_S);
    let grace_s = table.get_duration("grace", &mut cx.diags);
    let returns = read_returns(&table, cx);
    let test_labels = read_spanned_names(&table, "test_labels", cx);
    Some(NodeDrain { timeout_s, grace_s, manner, returns, test_labels, ..plain(group?) })
}

/// Parses the resources that a node must offer before it is uncordoned: a count of each, or its full capacity.
fn read_returns(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<NodeReturnCondition> {
    let within = table.get_limit("returns_within", &mut cx.diags);
    let Some(node) = table.get("returns") else {
        if let Some(key) = table.find_key("returns_within") {
            let diag = Diag::error(DiagCode::MissingKey, "`returns_within` needs `returns`").with_span(key.span);
            cx.push_diag(diag.hint("list the resources that a node must offer: `returns: { nvidia.com/gpu: 8 }`"));
        }
        return None;
    };
    let entries = yaml_table::expect_entries(Some(node), "returns", &mut cx.diags);
    let offers = entries.iter().filter_map(|(key, node)| Some((key.text.clone(), read_offer(&key.text, node, cx)?)));
    Some(NodeReturnCondition { offers: offers.collect(), within_s: within.unwrap_or(RETURN_LIMIT_S) })
}

fn read_offer(name: &str, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<ResourceOffer> {
    let text = yaml_table::expect_text(node, name, &mut cx.diags)?;
    let found = match text.as_str() {
        "capacity" => Some(ResourceOffer::Capacity),
        text => crate::facts::parse_whole_quantity(text).ok().filter(|count| *count > 0).map(ResourceOffer::Count),
    };
    if found.is_none() {
        let found = scalar::shorten_text(&text);
        let diag = Diag::error(DiagCode::BadValue, format!("`{name}` must be greater than 0, found `{found}`"));
        cx.push_diag(diag.with_span(node.span).hint("write a count, or `capacity` for the node's full capacity"));
    }
    found
}

/// Reports `drain.kubernetes` in an inventory without `kubernetes`.
pub(super) fn report_missing_cluster(rollout: Option<&RolloutPolicy>, named: bool, cx: &mut LoadContext<'_>) {
    let Some(nodes) = rollout.and_then(|rollout| rollout.kubernetes.as_ref()).filter(|_| !named) else { return };
    let diag =
        Diag::error(DiagCode::BadValue, "`drain.kubernetes` needs a cluster, but the inventory has no `kubernetes`");
    cx.push_diag(
        diag.with_span(nodes.group.1)
            .hint("add a cluster: `kubernetes: { kubeconfig: ~/.kube/config, context: NAME }`"),
    );
}

/// Reports unknown groups in a rollout.
pub(in crate::config) fn report_unknown_groups<'g>(
    rollout: &RolloutPolicy,
    groups: impl Iterator<Item = &'g String> + Clone,
    cx: &mut LoadContext<'_>,
) {
    let nodes = rollout.kubernetes.iter().map(|nodes| &nodes.group);
    for (name, span) in rollout.quorum.iter().chain(&rollout.slurm).chain(nodes) {
        if !groups.clone().any(|group| group == name) {
            let diag = Diag::error(DiagCode::BadValue, format!("group `{name}` not found")).with_span(*span);
            cx.push_diag(diag.suggest_name(name, groups.clone().map(String::as_str)));
        }
    }
}

/// Reports sets of tests that `tests:` does not declare, or that cannot be used as `rollout` uses them.
pub(in crate::config) fn check_test_sets(rollout: &RolloutPolicy, tests: &TestSuite, cx: &mut LoadContext<'_>) {
    check_test_labels(rollout, tests, cx);
    let Some((set, span)) = &rollout.return_tests else { return };
    let Some(entries) = tests.sets.get(set) else { return report_unknown_set(set, *span, tests, cx) };
    for test in entries {
        let name = &test.definition.name;
        let (message, hint) = match (&test.definition.programs, &test.expected) {
            (TestPrograms::Host(_) | TestPrograms::Loopback { .. }, DeclaredLimit::Peers(_)) => (
                format!("`return_tests`: `{name}` of set `{set}` compares hosts with each other"),
                "a host is tested alone before it is brought back: declare `least`, `share`, `floor` or `most`",
            ),
            (TestPrograms::Host(_) | TestPrograms::Loopback { .. }, _) => continue,
            (TestPrograms::Pair { .. } | TestPrograms::Group(_), _) => (
                format!("`return_tests`: `{name}` of set `{set}` needs several hosts"),
                "a host is tested alone before it is brought back: name a set with tests of scope `host` or `loopback`",
            ),
        };
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(*span).hint(hint));
    }
}

fn report_unknown_set(set: &str, span: Span, tests: &TestSuite, cx: &mut LoadContext<'_>) {
    let diag = Diag::error(DiagCode::BadValue, format!("set `{set}` not found in `tests`")).with_span(span);
    let diag = diag.hint("declare the set: also a built-in set needs its entries in the inventory");
    cx.push_diag(diag.suggest_name(set, tests.sets.keys().map(String::as_str)));
}

/// Reports sets in `test_labels` that are not declared, or whose names cannot be a part of a label.
fn check_test_labels(rollout: &RolloutPolicy, tests: &TestSuite, cx: &mut LoadContext<'_>) {
    for (set, span) in rollout.kubernetes.iter().flat_map(|nodes| &nodes.test_labels) {
        if !tests.sets.contains_key(set) {
            report_unknown_set(set, *span, tests, cx);
        } else if !is_label_name(set) {
            let message = format!("the name of set `{set}` cannot be a part of a label");
            let diag = Diag::error(DiagCode::BadValue, message).with_span(*span);
            cx.push_diag(diag.hint("use letters, digits and `-`, at most 58 characters"));
        }
    }
}
