//! Parses an inventory: hosts, groups, variables, connections and the recipes that apply to each host.

mod apply;
mod connect;
mod connect_keys;
mod drift;
mod fabric;
mod groups;
mod hosts;
mod kubernetes;
pub(crate) mod range;
mod resolve;
mod rollout;
pub(crate) mod selector;
pub(super) mod slurm_launch;
pub(super) mod smtp;
mod test_definition;
pub(super) mod test_launch;
pub(super) mod tests;
mod undo;
mod vars;
mod worker_pods;

pub(super) use apply::{ApplyEntry, RawApplyEntry};
pub(super) use connect_keys::KEYS as CONNECT_KEYS;
pub(super) mod notify;
pub(super) use super::identifier::is_address;
pub(super) use drift::{IGNORE_KEYS, KEYS as DRIFT_KEYS};
pub(super) use fabric::{KEYS as FABRIC_KEYS, LEAF_KEYS, read_fabric};
pub(super) use kubernetes::KEYS as KUBERNETES_KEYS;
pub(super) use resolve::{HostVar, ResolvedInventory, resolve_inventory};
pub(super) use rollout::check_test_sets;
pub(super) use rollout::{DRAIN_KEYS, KEYS as ROLLOUT_KEYS, NODE_KEYS, report_unknown_groups as check_rollout};
pub(super) use undo::KEYS as UNDO_KEYS;
pub(super) use vars::RawVars;
pub(super) use worker_pods::{KEYS as WORKER_PODS_KEYS, VOLUME_KEYS as WORKER_VOLUME_KEYS};

use super::identifier::is_label;
use super::load_context::LoadContext;
use super::yaml_table::{self, YamlTable};
use super::{DriftPolicy, RolloutPolicy, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::UndoRetention;
use crate::object::{ClusterAccess, WorkerPods};
use connect::SpannedConnectSettings;
use indexmap::IndexMap;
use std::rc::Rc;

/// Top-level keys of an inventory.
pub(super) const KEYS: [&str; 13] = [
    "cluster",
    "connect",
    "hosts",
    "groups",
    "recipes",
    "apply",
    "rollout",
    "drift",
    "undo",
    "kubernetes",
    "worker_pods",
    "fabric",
    "tests",
];

/// A parsed inventory whose parts are checked one by one, but not yet against each other.
#[derive(Default)]
pub(super) struct RawInventory {
    pub cluster: String,
    pub connect: Rc<SpannedConnectSettings>,
    pub hosts: IndexMap<String, hosts::RawHost>,
    pub groups: IndexMap<String, groups::RawGroup>,
    pub apply: Vec<apply::RawApplyEntry>,
    /// Recipe folders; `None` if `recipes` is not set.
    pub recipes: Option<Vec<(String, Span)>>,
    pub rollout: Option<RolloutPolicy>,
    pub drift: Option<DriftPolicy>,
    pub undo: Option<UndoRetention>,
    pub kubernetes: Option<ClusterAccess>,
    pub worker_pods: Option<WorkerPods>,
    /// Whether the inventory has a `kubernetes` key, valid or not.
    pub names_api: bool,
}

/// Parses the root of an inventory. Pushes errors to `cx` and returns every part that could be parsed.
pub(super) fn read_inventory(root: &YamlNode, cx: &mut LoadContext<'_>) -> RawInventory {
    let other =
        diagnose_recipe_root(root).or_else(|| diagnose_result_root(root)).or_else(|| diagnose_ansible_root(root));
    if let Some(diag) = other {
        cx.push_diag(diag);
        return RawInventory::default();
    }
    let Some(table) = YamlTable::open(root, "an inventory", &KEYS, &mut cx.diags) else {
        return RawInventory::default();
    };
    let mut inventory = RawInventory {
        cluster: read_cluster_name(&table, cx),
        connect: connect::read_optional_connect(table.get("connect"), cx),
        hosts: hosts::read_hosts(table.get("hosts"), cx),
        groups: groups::read_groups(table.get("groups"), cx),
        apply: apply::read_apply(&table, cx),
        recipes: table.get("recipes").map(|node| read_recipe_folders(node, cx)),
        rollout: table.get("rollout").and_then(|node| rollout::read_rollout(node, cx)),
        drift: table.get("drift").and_then(|node| drift::read_drift_policy(node, cx)),
        undo: table.get("undo").and_then(|node| undo::read_undo_retention(node, cx)),
        kubernetes: None,
        worker_pods: None,
        names_api: table.get("kubernetes").is_some(),
    };
    rollout::report_missing_cluster(inventory.rollout.as_ref(), table.get("kubernetes").is_some(), cx);
    inventory.kubernetes =
        table.get("kubernetes").and_then(|node| kubernetes::read_kubernetes_access(node, &inventory.hosts, cx));
    let workers = table.get("worker_pods");
    inventory.worker_pods =
        workers.and_then(|node| worker_pods::read_worker_pods(node, inventory.kubernetes.as_ref(), cx));
    report_reserved_name(&inventory, table.find_key("kubernetes"), cx);
    if inventory.hosts.is_empty() && !cx.diags.has_errors() {
        cx.push_diag(Diag::error(DiagCode::NoHosts, "the inventory has no hosts").with_span(to_start_span(root)));
    }
    inventory
}

/// Reports a host or a group whose name is reserved for the cluster's API.
fn report_reserved_name(inventory: &RawInventory, kubernetes: Option<&YamlKey>, cx: &mut LoadContext<'_>) {
    let name = crate::model::HostName::CLUSTER;
    if let Some(host) = inventory.hosts.get(name) {
        let diag = Diag::error(DiagCode::Duplicate, format!("host name `{name}` is reserved for the cluster's API"));
        cx.push_diag(diag.with_span(host.span).hint("rename the host"));
    }
    if let (Some(group), Some(key)) = (inventory.groups.get(name), kubernetes) {
        let diag = Diag::error(DiagCode::Duplicate, format!("group name `{name}` is reserved for the cluster's API"));
        cx.push_diag(
            diag.with_span(group.span).with_other_span(key.span, "the API is declared here").hint("rename the group"),
        );
    }
}

/// Returns an error if the file is a recipe: otherwise each of its keys would be reported as unknown.
fn diagnose_recipe_root(root: &YamlNode) -> Option<Diag> {
    let crate::config::YamlData::Map(entries) = &root.data else { return None };
    let has = |name: &str| entries.iter().any(|(key, _)| key.text == name);
    let key = entries.iter().map(|(key, _)| key).find(|key| key.text == "recipe")?;
    let is_one = !has("hosts") && !has("cluster") && (has("steps") || has("uses"));
    let diag = Diag::error(DiagCode::BadValue, "this is a recipe, not an inventory").with_span(key.span);
    is_one.then(|| diag.hint("pass the inventory that applies this recipe"))
}

/// Returns an error if the file is a saved plan or another result that forge wrote.
fn diagnose_result_root(root: &YamlNode) -> Option<Diag> {
    let crate::config::YamlData::Map(entries) = &root.data else { return None };
    let key = |name: &str| entries.iter().map(|(key, _)| key).find(|key| key.text == name);
    let (Some(result), Some(_)) = (key("result"), key("forge")) else { return None };
    let diag = Diag::error(DiagCode::BadValue, "this is a result that forge wrote, not an inventory");
    let hint = "`forge show FILE` shows a saved plan or a report, `forge apply FILE` applies a saved plan";
    Some(diag.with_span(result.span).hint(hint))
}

/// Advice for an inventory of Ansible.
pub(super) const CONVERT_INVENTORY_HINT: &str =
    "`forge init --from-ansible FILE --into inventory.yaml` converts inventories of Ansible";

/// Returns an error if the file is an inventory of Ansible: each key is a group, which has only keys of Ansible.
fn diagnose_ansible_root(root: &YamlNode) -> Option<Diag> {
    let crate::config::YamlData::Map(entries) = &root.data else { return None };
    let is_group = |node: &YamlNode| match &node.data {
        crate::config::YamlData::Map(keys) => {
            !keys.is_empty() && keys.iter().all(|(key, _)| matches!(key.text.as_str(), "hosts" | "children" | "vars"))
        }
        _ => false,
    };
    let (first, _) = entries.first()?;
    let is_ansible = entries.iter().all(|(key, node)| !KEYS.contains(&key.text.as_str()) && is_group(node));
    let diag = Diag::error(DiagCode::BadValue, "this is an inventory of Ansible").with_span(first.span);
    is_ansible.then(|| diag.hint(CONVERT_INVENTORY_HINT))
}

fn to_start_span(root: &YamlNode) -> Span {
    Span { end: root.span.start, ..root.span }
}

fn read_cluster_name(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> String {
    let Some(node) = table.require_value("cluster", &mut cx.diags) else {
        return String::new();
    };
    let name = yaml_table::expect_text(node, "cluster", &mut cx.diags).unwrap_or_default();
    if !name.is_empty() && !is_label(&name) {
        let diag = Diag::error(DiagCode::BadValue, format!("`{name}` is not a valid cluster name"));
        cx.push_diag(
            diag.with_span(node.span).hint("use letters, digits, `.`, `_` and `-`, starting with a letter or digit"),
        );
    }
    name
}

fn read_recipe_folders(node: &YamlNode, cx: &mut LoadContext<'_>) -> Vec<(String, Span)> {
    let folders = yaml_table::expect_items(node, "recipes", &mut cx.diags);
    folders
        .into_iter()
        .filter_map(|node| Some((yaml_table::expect_text(node, "recipes", &mut cx.diags)?, node.span)))
        .collect()
}
