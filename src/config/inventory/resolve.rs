//! Resolves the variables, with their origin, and the connection of each host from its groups and its own settings.

use super::groups::{self, GroupTree, RawGroup};
use super::selector::SelectorUniverse;
use super::{RawInventory, connect};
use super::{apply, apply::ApplyEntry};
use crate::config::load_context::LoadContext;
use crate::config::{ConnectSettings, GroupVars, Host, SourcedValue, TransportKind, ValueSource, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::HostName;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// A variable of a host and its syntax tree: values are checked against the type of a parameter later.
#[derive(Clone, Debug)]
pub(in crate::config) struct HostVar {
    pub node: Rc<YamlNode>,
    /// Its group or the host.
    pub from: Rc<ValueSource>,
}

/// Variables by host position.
pub(in crate::config) type HostVars = Vec<Rc<BTreeMap<String, HostVar>>>;

/// Resolved hosts and groups.
pub(in crate::config) struct ResolvedInventory {
    pub hosts: IndexMap<HostName, Host>,
    /// Variables by host position.
    pub vars: HostVars,
    pub groups: IndexMap<String, Vec<HostName>>,
    pub group_vars: IndexMap<String, GroupVars>,
    pub entries: Vec<ApplyEntry>,
}

/// Resolves groups, variables, connections and selections.
pub(in crate::config) fn resolve_inventory(inventory: RawInventory, cx: &mut LoadContext<'_>) -> ResolvedInventory {
    let mut universe = SelectorUniverse::new(inventory.hosts.keys().map(String::as_str));
    report_shared_names(&inventory, cx);
    let tree = groups::build_group_tree(&inventory.groups, &universe, cx);
    for ((name, _), members) in inventory.groups.iter().zip(&tree.members) {
        universe.groups.insert(name, members.clone());
    }
    let layers = GroupLayers::new(&inventory, &tree);
    let (hosts, vars) = resolve_hosts(&inventory, &layers, cx);
    report_duplicate_machines(&hosts, cx);
    report_misplaced_hardware(&hosts, cx);
    let groups = collect_group_members(&universe, &hosts);
    let group_vars = layers.collect_group_vars();
    let entries = apply::select_entry_hosts(inventory.apply, &universe, cx);
    ResolvedInventory { hosts, vars, groups, group_vars, entries }
}

fn report_shared_names(inventory: &RawInventory, cx: &mut LoadContext<'_>) {
    for (name, group) in &inventory.groups {
        if let Some(host) = inventory.hosts.get(name) {
            let diag =
                Diag::error(DiagCode::Duplicate, format!("`{name}` is both a group and a host")).with_span(group.span);
            cx.push_diag(diag.label("group declared here").with_other_span(host.span, "host declared here"));
        }
    }
}

/// Reports `hardware` on hosts that are not sandboxes: forge can simulate cards only in a sandbox that it creates.
fn report_misplaced_hardware(hosts: &IndexMap<HostName, Host>, cx: &mut LoadContext<'_>) {
    let real = |host: &&Host| host.connect.hardware.is_some() && host.connect.transport != TransportKind::Sandbox;
    if let Some(host) = hosts.values().find(real) {
        let message = format!("`hardware` is set for `{}`, which is not a sandbox", host.name);
        let hint = "set `transport: sandbox` on this host, or move `hardware` to a group of sandboxes";
        cx.push_diag(Diag::error(DiagCode::BadConnect, message).with_span(host.span).hint(hint));
    }
}

/// Reports two hosts with the same address, port and jump hosts: they are the same machine, and each would undo the
/// changes of the other.
fn report_duplicate_machines(hosts: &IndexMap<HostName, Host>, cx: &mut LoadContext<'_>) {
    let mut seen: HashMap<(&str, u16, &[String]), &Host> = HashMap::new();
    for host in hosts.values().filter(|host| host.connect.transport == TransportKind::Ssh) {
        let connect = &host.connect;
        let way = (connect.address.as_str(), connect.port.unwrap_or(22), connect.jump.as_slice());
        match seen.get(&way) {
            Some(first) => {
                let (one, other, at) = (&first.name, &host.name, way.0);
                let message = format!("`{one}` and `{other}` are the same machine: both use address `{at}`");
                let diag = Diag::error(DiagCode::Duplicate, message).with_span(host.span);
                cx.push_diag(diag.with_other_span(first.span, format!("`{}` is declared here", first.name)));
            }
            None => {
                seen.insert(way, host);
            }
        }
    }
}

fn collect_group_members(
    universe: &SelectorUniverse<'_>,
    hosts: &IndexMap<HostName, Host>,
) -> IndexMap<String, Vec<HostName>> {
    let name = |at: &usize| hosts.get_index(*at).map(|(name, _)| name.clone());
    let mut groups: IndexMap<String, Vec<HostName>> = universe
        .groups
        .iter()
        .map(|(group, members)| ((*group).to_owned(), members.iter().filter_map(name).collect()))
        .collect();
    groups.insert("all".to_owned(), hosts.keys().cloned().collect());
    groups
}

/// Values that groups set, resolved once per combination of groups: thousands of hosts share few combinations.
struct GroupLayers<'i> {
    inventory: &'i RawInventory,
    tree: &'i GroupTree,
    /// Groups by host position.
    of_host: Vec<BTreeSet<usize>>,
}

impl<'i> GroupLayers<'i> {
    fn new(inventory: &'i RawInventory, tree: &'i GroupTree) -> Self {
        let mut of_host = vec![BTreeSet::new(); inventory.hosts.len()];
        for (group, members) in tree.members.iter().enumerate() {
            members.iter().for_each(|host| {
                of_host[*host].insert(group);
            });
        }
        Self { inventory, tree, of_host }
    }

    /// Returns the group at a position. Positions come from this map, so indexing cannot fail.
    fn get_group(&self, at: usize) -> (&'i str, &'i RawGroup) {
        let name = self.inventory.groups.get_index(at).map_or("", |(name, _)| name.as_str());
        (name, &self.inventory.groups[at])
    }

    fn collect_group_vars(&self) -> IndexMap<String, GroupVars> {
        let one = |at: usize| {
            let (name, raw) = self.get_group(at);
            let sourced = |node: &YamlNode| SourcedValue {
                value: scalar::node_to_value(node),
                span: Some(node.span),
                from: ValueSource::Group(name.to_owned()),
            };
            let vars = raw.vars.iter().map(|(name, (_, node))| (name.clone(), sourced(node))).collect();
            (name.to_owned(), GroupVars { vars, depth: self.tree.outer[at].len() })
        };
        (0..self.inventory.groups.len()).map(one).collect()
    }

    /// Returns the groups of `with` that contain no other group of `with`: inner groups take precedence.
    fn keep_innermost(&self, with: Vec<usize>) -> Vec<usize> {
        let beaten: BTreeSet<usize> = with.iter().flat_map(|at| self.tree.outer[*at].iter().copied()).collect();
        with.into_iter().filter(|at| !beaten.contains(at)).collect()
    }

    fn resolve_vars(&self, set: &BTreeSet<usize>, host: &str, cx: &mut LoadContext<'_>) -> BTreeMap<String, HostVar> {
        let names: BTreeSet<&String> = set.iter().flat_map(|at| self.get_group(*at).1.vars.keys()).collect();
        let mut vars = BTreeMap::new();
        for name in names {
            let with = set.iter().copied().filter(|at| self.get_group(*at).1.vars.contains_key(name)).collect();
            let found: Vec<_> = self
                .keep_innermost(with)
                .into_iter()
                .map(|at| (self.get_group(at).0, &self.get_group(at).1.vars[name]))
                .collect();
            let Some(((group, (_, node)), rest)) = found.split_first() else { continue };
            if let Some((other, (_, again))) =
                rest.iter().find(|(_, (_, other))| scalar::node_to_value(other) != scalar::node_to_value(node))
            {
                let what = format!("variable `{name}`");
                cx.push_diag(build_conflict_diag(&what, host, (group, node.span), (other, again.span)));
            }
            vars.insert(
                name.clone(),
                HostVar { node: node.clone(), from: ValueSource::Group((*group).to_owned()).into() },
            );
        }
        vars
    }

    fn resolve_connect(&self, set: &BTreeSet<usize>, host: &str, cx: &mut LoadContext<'_>) -> ConnectSettings {
        let mut connect = connect::default_connect(String::new());
        self.inventory.connect.values().for_each(|(setting, _)| connect::apply_setting(&mut connect, setting));
        let keys: BTreeSet<&str> = set.iter().flat_map(|at| self.get_group(*at).1.connect.keys().copied()).collect();
        for key in keys {
            let with = set.iter().copied().filter(|at| self.get_group(*at).1.connect.contains_key(key)).collect();
            let found: Vec<_> = self
                .keep_innermost(with)
                .into_iter()
                .map(|at| (self.get_group(at).0, &self.get_group(at).1.connect[key]))
                .collect();
            let Some(((group, (setting, span)), rest)) = found.split_first() else { continue };
            if let Some((other, (_, again))) = rest.iter().find(|(_, (other, _))| other != setting) {
                let what = format!("connection setting `{key}`");
                cx.push_diag(build_conflict_diag(&what, host, (group, *span), (other, *again)));
            }
            connect::apply_setting(&mut connect, setting);
        }
        connect
    }
}

fn build_conflict_diag(what: &str, host: &str, (first, at): (&str, Span), (second, again): (&str, Span)) -> Diag {
    let message = format!("groups `{first}` and `{second}` set different values of {what} on host `{host}`");
    let diag = Diag::error(DiagCode::VarConflict, message)
        .with_span(again)
        .label(format!("from `{second}`"))
        .with_other_span(at, format!("from `{first}`"));
    diag.hint("nest one group in the other, or set the value on the host")
}

type GroupSetDefaults = (Rc<BTreeMap<String, HostVar>>, ConnectSettings);

fn resolve_hosts(
    inventory: &RawInventory,
    layers: &GroupLayers<'_>,
    cx: &mut LoadContext<'_>,
) -> (IndexMap<HostName, Host>, HostVars) {
    let mut bases: HashMap<&BTreeSet<usize>, GroupSetDefaults> = HashMap::new();
    let mut hosts = IndexMap::with_capacity(inventory.hosts.len());
    let mut all_vars = Vec::with_capacity(inventory.hosts.len());
    for (at, (name, raw)) in inventory.hosts.iter().enumerate() {
        let set = &layers.of_host[at];
        let base = bases
            .entry(set)
            .or_insert_with(|| (Rc::new(layers.resolve_vars(set, name, cx)), layers.resolve_connect(set, name, cx)));
        let vars = overlay_vars(&base.0, &raw.vars);
        let mut connect = base.1.clone();
        raw.connect.values().for_each(|(setting, _)| connect::apply_setting(&mut connect, setting));
        connect.address = raw.address.clone().unwrap_or_else(|| name.clone());
        let groups = set.iter().map(|at| layers.get_group(*at).0.to_owned()).collect();
        let name = HostName::new(name);
        let host = Host { name: name.clone(), connect, vars: to_sourced_vars(&vars), groups, span: raw.span };
        hosts.insert(name, host);
        all_vars.push(vars);
    }
    (hosts, all_vars)
}

fn overlay_vars(base: &Rc<BTreeMap<String, HostVar>>, own: &super::RawVars) -> Rc<BTreeMap<String, HostVar>> {
    if own.is_empty() {
        return base.clone();
    }
    let mut vars = BTreeMap::clone(base);
    for (name, (_, node)) in own {
        vars.insert(name.clone(), HostVar { node: node.clone(), from: ValueSource::Host.into() });
    }
    Rc::new(vars)
}

fn to_sourced_vars(vars: &BTreeMap<String, HostVar>) -> BTreeMap<String, SourcedValue> {
    let one = |var: &HostVar| SourcedValue {
        value: scalar::node_to_value(&var.node),
        span: Some(var.node.span),
        from: ValueSource::clone(&var.from),
    };
    vars.iter().map(|(name, var)| (name.clone(), one(var))).collect()
}
