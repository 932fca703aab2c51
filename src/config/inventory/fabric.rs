//! Parses `fabric:`: the leaf of each adapter, declared or read from the output of `ibnetdiscover`.

use super::range::RangePattern;
use super::selector::SelectorUniverse;
use crate::acceptance::FabricLayout;
use crate::config::file_access::read_text_file;
use crate::config::identifier::is_label;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{Host, YamlData, YamlKey, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::facts::command::ibnetdiscover::{DiscoveredSwitch, parse_ibnetdiscover};
use crate::model::HostName;
use indexmap::IndexMap;
use std::collections::HashMap;

/// Keys of `fabric`.
pub(in crate::config) const KEYS: [&str; 3] = ["leaves", "spines", "ibnetdiscover"];

/// Keys of a leaf.
pub(in crate::config) const LEAF_KEYS: [&str; 2] = ["hosts", "rails"];

/// A layout whose leaves have the places of their declarations.
#[derive(Default)]
struct DeclaredLayout {
    layout: FabricLayout,
    spans: Vec<Span>,
    names: HashMap<String, Span>,
}

/// Reads `fabric`; an empty layout without it.
pub(in crate::config) fn read_fabric(
    node: Option<&YamlNode>,
    universe: &SelectorUniverse<'_>,
    hosts: &IndexMap<HostName, Host>,
    cx: &mut LoadContext<'_>,
) -> FabricLayout {
    let Some(table) = node.and_then(|node| YamlTable::open(node, "`fabric`", &KEYS, &mut cx.diags)) else {
        return FabricLayout::default();
    };
    if let Some(file) = table.get("ibnetdiscover") {
        if let Some(key) = table.find_key("leaves").or_else(|| table.find_key("spines")) {
            let message = format!("`ibnetdiscover` and `{}` exclude each other", key.text);
            let diag = Diag::error(DiagCode::Exclusive, message).with_span(key.span);
            cx.push_diag(diag.with_other_span(file.span, "the fabric is read from this file"));
        }
        return read_discovered_fabric(file, hosts, cx).unwrap_or_default();
    }
    if table.get("leaves").is_none() {
        let diag = Diag::error(DiagCode::MissingKey, "`fabric` declares no leaves").with_span(table.span);
        cx.push_diag(diag.hint("write `leaves: { leaf-01: { hosts: \"gpu-[01:32]\" } }` or `ibnetdiscover: FILE`"));
    }
    let mut declared = DeclaredLayout::default();
    for (key, node) in yaml_table::expect_entries(table.get("leaves"), "leaves", &mut cx.diags) {
        declared.read_leaves(key, node, universe, hosts, cx);
    }
    let spines = read_names(table.get("spines"), "spines", cx);
    spines.iter().for_each(|(name, span)| declared.claim_name(name, *span, cx));
    declared.layout.set_spines(spines.into_iter().map(|(name, _)| name).collect());
    declared.layout
}

impl DeclaredLayout {
    /// Reads one entry of `leaves`. A range in the name expands in step with the adapters.
    fn read_leaves(
        &mut self,
        key: &YamlKey,
        node: &YamlNode,
        universe: &SelectorUniverse<'_>,
        hosts: &IndexMap<HostName, Host>,
        cx: &mut LoadContext<'_>,
    ) {
        let names = expand_names(&key.text, "leaf", key.span, cx);
        let Some(table) = YamlTable::open(node, "a leaf", &LEAF_KEYS, &mut cx.diags) else { return };
        let rails = read_names(table.get("rails"), "rails", cx);
        let Some(selected) = read_hosts(&table, universe, cx) else { return };
        if names.len() > 1 && rails.len() != names.len() {
            let message = format!("`{}` expands to {} leaves, and `rails` to {}", key.text, names.len(), rails.len());
            let diag = Diag::error(DiagCode::BadRange, message).with_span(key.span);
            cx.push_diag(diag.hint("each leaf of a range has one adapter of each host: `rails: \"mlx5_[0:7]\"`"));
            return;
        }
        for (at, name) in names.iter().enumerate() {
            self.claim_name(name, key.span, cx);
            let leaf = self.layout.add_leaf(name);
            self.spans.push(key.span);
            let own = if names.len() > 1 { &rails[at..=at] } else { &rails[..] };
            for host in selected.iter().filter_map(|at| hosts.get_index(*at)).map(|(host, _)| host) {
                self.place_host(host, own, leaf, cx);
            }
        }
    }

    fn place_host(&mut self, host: &HostName, rails: &[(String, Span)], leaf: usize, cx: &mut LoadContext<'_>) {
        let own = rails.iter().map(|(rail, _)| Some(rail.as_str()));
        let all = rails.is_empty().then_some(None);
        for rail in own.chain(all) {
            let Err(other) = self.layout.place_adapter(host, rail, leaf) else { continue };
            let (here, there) = (self.spans[leaf], self.spans[other]);
            // One report per pair of leaves: ranges would repeat it for every host.
            let is_same = |diag: &Diag| diag.span == Some(here) && diag.others.iter().any(|(span, _)| *span == there);
            if cx.diags.0.iter().any(is_same) {
                continue;
            }
            let message = match rail {
                Some(rail) => format!("adapter `{rail}` of host `{host}` is on two leaves"),
                None => format!("the adapters of host `{host}` are on two leaves"),
            };
            let diag = Diag::error(DiagCode::Duplicate, message).with_span(here).label("declared again here");
            cx.push_diag(diag.with_other_span(there, "first declared here"));
        }
    }

    fn claim_name(&mut self, name: &str, span: Span, cx: &mut LoadContext<'_>) {
        match self.names.get(name) {
            Some(first) => {
                let message = format!("switch `{name}` is declared twice");
                let diag = Diag::error(DiagCode::Duplicate, message).with_span(span).label("declared again here");
                cx.push_diag(diag.with_other_span(*first, "first declared here"));
            }
            None => _ = self.names.insert(name.to_owned(), span),
        }
    }
}

fn read_hosts(table: &YamlTable<'_>, universe: &SelectorUniverse<'_>, cx: &mut LoadContext<'_>) -> Option<Vec<usize>> {
    let node = table.require_value("hosts", &mut cx.diags)?;
    let text = yaml_table::expect_text(node, "hosts", &mut cx.diags)?;
    universe.select(&text, Some(node.span)).map_err(|diag| cx.push_diag(*diag)).ok()
}

/// Reads a pattern of names, or a list of them.
fn read_names(node: Option<&YamlNode>, key: &str, cx: &mut LoadContext<'_>) -> Vec<(String, Span)> {
    let Some(node) = node else { return Vec::new() };
    let items = match &node.data {
        YamlData::Seq(items) => items.iter().collect(),
        _ => vec![node],
    };
    let mut names = Vec::new();
    for item in items {
        let Some(text) = yaml_table::expect_text(item, key, &mut cx.diags) else { continue };
        names.extend(expand_names(&text, key, item.span, cx).into_iter().map(|name| (name, item.span)));
    }
    names
}

fn expand_names(text: &str, what: &str, span: Span, cx: &mut LoadContext<'_>) -> Vec<String> {
    let names = match RangePattern::parse(text) {
        Ok(pattern) => pattern.expand(),
        Err(why) => {
            cx.push_diag(Diag::error(DiagCode::BadRange, format!("{what} `{text}`: {why}")).with_span(span));
            return Vec::new();
        }
    };
    if let Some(bad) = names.iter().find(|name| !is_label(name)) {
        let message = format!("invalid name in `{what}`: `{}`", scalar::shorten_text(bad));
        let diag = Diag::error(DiagCode::BadValue, message).with_span(span);
        cx.push_diag(diag.hint("use letters, digits, `.`, `_` and `-`, starting with a letter or digit"));
        return Vec::new();
    }
    names
}

/// Reads the file that `ibnetdiscover` wrote.
fn read_discovered_fabric(
    node: &YamlNode,
    hosts: &IndexMap<HostName, Host>,
    cx: &mut LoadContext<'_>,
) -> Option<FabricLayout> {
    let file = yaml_table::expect_text(node, "ibnetdiscover", &mut cx.diags)?;
    let path = cx.confine_path(&file, node.span).map_err(|diag| cx.push_diag(*diag)).ok()?;
    let read = read_text_file(&path).and_then(|text| parse_ibnetdiscover(&text));
    let placed = read.and_then(|switches| place_switches(&switches, hosts));
    placed
        .map_err(|why| {
            let diag = Diag::error(DiagCode::BadValue, format!("`{file}`: {why}")).with_span(node.span);
            cx.push_diag(diag.hint("write the file with `ibnetdiscover > FILE` on a host of the fabric"));
        })
        .ok()
}

/// Returns the layout of the inventory's hosts.
///
/// # Errors
/// No adapter belongs to a host of the inventory, or one is connected to two switches.
fn place_switches(switches: &[DiscoveredSwitch], hosts: &IndexMap<HostName, Host>) -> Result<FabricLayout, String> {
    let known = HostNames::new(hosts);
    let mut layout = FabricLayout::default();
    let mut names: Vec<String> = Vec::new();
    for switch in switches {
        let own: Vec<(&HostName, Option<&str>)> = switch
            .adapters
            .iter()
            .filter_map(|adapter| Some((known.find(&adapter.host)?, adapter.device.as_deref())))
            .collect();
        if own.is_empty() {
            continue;
        }
        // Switches without a management system have the same description.
        let is_unique = switches.iter().filter(|other| other.name == switch.name).count() == 1;
        let name = if is_unique { switch.name.clone() } else { format!("switch {}", switch.guid) };
        let leaf = layout.add_leaf(&name);
        names.push(name);
        for (host, device) in own {
            layout.place_adapter(host, device, leaf).map_err(|other| {
                let device = device.unwrap_or("its adapters");
                format!("`{device}` of host `{host}` is connected to `{}` and to `{}`", names[other], names[leaf])
            })?;
        }
    }
    match layout.is_empty() {
        true => Err("no adapter has the name of a host of the inventory".to_owned()),
        false => Ok(layout),
    }
}

/// Hosts by the names that descriptions of adapters may use: the name and the address, with and without a domain.
struct HostNames<'h>(HashMap<&'h str, &'h HostName>);

impl<'h> HostNames<'h> {
    fn new(hosts: &'h IndexMap<HostName, Host>) -> Self {
        let mut names = HashMap::new();
        for (name, host) in hosts {
            let all = [name.as_str(), host.connect.address.as_str()];
            all.into_iter().flat_map(|text| [text, cut_domain(text)]).for_each(|text| {
                names.entry(text).or_insert(name);
            });
        }
        Self(names)
    }

    fn find(&self, described: &str) -> Option<&'h HostName> {
        self.0.get(described).or_else(|| self.0.get(cut_domain(described))).copied()
    }
}

fn cut_domain(name: &str) -> &str {
    name.split_once('.').map_or(name, |(first, _)| first)
}

#[cfg(test)]
#[path = "fabric_tests.rs"]
mod tests;
