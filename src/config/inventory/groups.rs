//! `groups:`, nested, with cycles refused and members found.

use super::connect::{self, Settings};
use super::selector::Universe;
use super::{Vars, is_label, vars};
use crate::config::cx::Cx;
use crate::config::table::{self, Table};
use crate::config::{Data, Key, Node};
use crate::diag::{Code, Diag, Span};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A group as written.
pub(in crate::config) struct RawGroup {
    pub span: Span,
    /// Patterns over host names.
    pub hosts: Vec<(String, Span)>,
    /// Groups inside this one.
    pub groups: Vec<(String, Span)>,
    pub vars: Rc<Vars>,
    pub connect: Rc<Settings>,
}

pub(super) fn read(node: Option<&Node>, cx: &mut Cx<'_>) -> IndexMap<String, RawGroup> {
    let entries = table::entries(node, "groups", &mut cx.diags);
    entries.iter().filter_map(|(key, node)| Some((key.text.clone(), group(key, node, cx)?))).collect()
}

fn group(key: &Key, node: &Node, cx: &mut Cx<'_>) -> Option<RawGroup> {
    if !is_label(&key.text) {
        let diag = Diag::error(Code::BadValue, format!("`{}` cannot name a group", key.text)).at(key.span);
        cx.push(diag.hint("use letters, digits, `.`, `_` and `-`, beginning with a letter or digit"));
        return None;
    }
    let empty = Node { span: key.span, data: Data::Map(Vec::new()) };
    let node = if matches!(node.data, Data::Null) { &empty } else { node };
    let known: &[&str] = if key.text == "all" { &["vars", "connect"] } else { &["hosts", "groups", "vars", "connect"] };
    let table = Table::open(node, "a group", known, &mut cx.diags)?;
    Some(RawGroup {
        span: key.span,
        hosts: texts(&table, "hosts", cx),
        groups: texts(&table, "groups", cx),
        vars: vars(table.get("vars"), cx),
        connect: connect::read_optional(table.get("connect"), cx),
    })
}

fn texts(table: &Table<'_>, key: &str, cx: &mut Cx<'_>) -> Vec<(String, Span)> {
    let items = table.items(key, &mut cx.diags);
    items.into_iter().filter_map(|node| Some((table::text(node, key, &mut cx.diags)?, node.span))).collect()
}

/// Groups with what they contain, directly or through others.
pub(super) struct Tree {
    /// Positions of hosts per group, in inventory order.
    pub members: Vec<Vec<usize>>,
    /// Groups that contain a group, directly or through others.
    pub outer: Vec<BTreeSet<usize>>,
}

/// Finds members and nesting. Unknown names and cycles are reported.
pub(super) fn tree(groups: &IndexMap<String, RawGroup>, hosts: &Universe<'_>, cx: &mut Cx<'_>) -> Tree {
    let inner: Vec<Vec<usize>> = groups.values().map(|group| children(group, groups, cx)).collect();
    report_cycles(groups, &inner, cx);
    let reach: Vec<BTreeSet<usize>> = (0..groups.len()).map(|at| reachable(at, &inner)).collect();
    let own: Vec<Vec<usize>> = groups.iter().map(|(name, group)| own_hosts(name, group, groups, hosts, cx)).collect();
    let members = reach
        .iter()
        .map(|reach| {
            reach.iter().flat_map(|at| own[*at].iter().copied()).collect::<BTreeSet<_>>().into_iter().collect()
        })
        .collect();
    let mut outer = vec![BTreeSet::new(); groups.len()];
    for (at, reach) in reach.iter().enumerate() {
        reach.iter().filter(|inner| **inner != at).for_each(|inner| {
            outer[*inner].insert(at);
        });
    }
    if let Some(all) = groups.get_index_of("all") {
        (0..groups.len()).filter(|at| *at != all).for_each(|at| {
            outer[at].insert(all);
        });
    }
    Tree { members, outer }
}

fn children(group: &RawGroup, groups: &IndexMap<String, RawGroup>, cx: &mut Cx<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    for (name, span) in &group.groups {
        match groups.get_index_of(name.as_str()) {
            Some(at) => found.push(at),
            None => {
                let diag = Diag::error(Code::BadSelector, format!("`{name}` is not a group")).at(*span);
                cx.push(diag.suggest(name, groups.keys().map(String::as_str)));
            }
        }
    }
    found
}

fn reachable(from: usize, inner: &[Vec<usize>]) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if seen.insert(at) {
            open.extend(&inner[at]);
        }
    }
    seen
}

fn report_cycles(groups: &IndexMap<String, RawGroup>, inner: &[Vec<usize>], cx: &mut Cx<'_>) {
    let mut told = BTreeSet::new();
    for at in 0..groups.len() {
        let cycle: BTreeSet<usize> = reachable(at, inner)
            .into_iter()
            .filter(|other| reachable_from_children(*other, at, inner) && reachable_from_children(at, *other, inner))
            .collect();
        if cycle.is_empty() || !told.insert(cycle.clone()) {
            continue;
        }
        let name = |at: &usize| groups.get_index(*at).map_or("", |(name, _)| name.as_str());
        let names: Vec<String> = cycle.iter().map(|at| format!("`{}`", name(at))).collect();
        let mut diag = Diag::error(Code::GroupCycle, format!("groups contain each other: {}", names.join(", ")))
            .at(groups[at].span);
        for (other, group) in cycle.iter().map(|at| (*at, &groups[*at])).filter(|(other, _)| *other != at) {
            diag = diag.also(group.span, format!("`{}` is part of the circle", name(&other)));
        }
        cx.push(diag);
    }
}

fn reachable_from_children(from: usize, to: usize, inner: &[Vec<usize>]) -> bool {
    inner[from].iter().any(|child| reachable(*child, inner).contains(&to))
}

fn own_hosts(
    name: &str,
    group: &RawGroup,
    groups: &IndexMap<String, RawGroup>,
    hosts: &Universe<'_>,
    cx: &mut Cx<'_>,
) -> Vec<usize> {
    if name == "all" {
        return (0..hosts.hosts.len()).collect();
    }
    let mut found = Vec::new();
    for (text, span) in &group.hosts {
        match hosts.select(text, Some(*span)) {
            Ok(members) => found.extend(members),
            Err(_) if groups.contains_key(text.as_str()) => {
                let diag = Diag::error(Code::BadSelector, format!("`{text}` is a group, not a host")).at(*span);
                cx.push(diag.hint(format!("write `groups: [{text}]` inside `{name}`")));
            }
            Err(diag) => cx.push(*diag),
        }
    }
    found
}
