//! Parses `groups:`, rejects cycles and resolves members.

use super::connect::{self, SpannedConnectSettings};
use super::selector::SelectorUniverse;
use super::vars::{RawVars, read_vars};
use crate::config::identifier::is_label;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlData, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A parsed group.
pub(in crate::config) struct RawGroup {
    pub span: Span,
    /// Patterns of host names.
    pub hosts: Vec<(String, Span)>,
    /// Child groups.
    pub groups: Vec<(String, Span)>,
    pub vars: Rc<RawVars>,
    pub connect: Rc<SpannedConnectSettings>,
}

pub(super) fn read_groups(node: Option<&YamlNode>, cx: &mut LoadContext<'_>) -> IndexMap<String, RawGroup> {
    let entries = yaml_table::expect_entries(node, "groups", &mut cx.diags);
    entries.iter().filter_map(|(key, node)| Some((key.text.clone(), read_group(key, node, cx)?))).collect()
}

fn read_group(key: &YamlKey, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RawGroup> {
    if !is_label(&key.text) {
        let diag =
            Diag::error(DiagCode::BadValue, format!("`{}` is not a valid group name", key.text)).with_span(key.span);
        cx.push_diag(diag.hint("use letters, digits, `.`, `_` and `-`, starting with a letter or digit"));
        return None;
    }
    let empty = YamlNode { span: key.span, data: YamlData::Map(Vec::new()) };
    let node = if matches!(node.data, YamlData::Null) { &empty } else { node };
    let known: &[&str] = if key.text == "all" { &["vars", "connect"] } else { &["hosts", "groups", "vars", "connect"] };
    if let YamlData::Seq(_) = node.data {
        let diag = yaml_table::build_wrong_type_diag(node, "a group", "a map");
        cx.push_diag(diag.hint(format!("write `{}: {{ hosts: […] }}`", key.text)));
        return None;
    }
    let table = YamlTable::open(node, "a group", known, &mut cx.diags)?;
    Some(RawGroup {
        span: key.span,
        hosts: read_names(&table, "hosts", cx),
        groups: read_names(&table, "groups", cx),
        vars: read_vars(table.get("vars"), cx),
        connect: connect::read_optional_connect(table.get("connect"), cx),
    })
}

fn read_names(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Vec<(String, Span)> {
    let items = table.get_items(key, &mut cx.diags);
    items.into_iter().filter_map(|node| Some((yaml_table::expect_text(node, key, &mut cx.diags)?, node.span))).collect()
}

/// Groups with their members and ancestors.
pub(super) struct GroupTree {
    /// Positions of member hosts per group, direct and indirect, in inventory order.
    pub members: Vec<Vec<usize>>,
    /// Ancestors of each group, direct and indirect.
    pub outer: Vec<BTreeSet<usize>>,
}

/// Limit of nesting levels.
const MAX_LEVELS: usize = 100;
/// Limit of pairs of a group and a group or host that it contains, directly or indirectly: 10,000 hosts in 50 groups
/// each are half a million.
const MAX_PAIRS: usize = 2_000_000;

/// Resolves members and nesting. Reports unknown names, cycles and groups that exceed a limit.
pub(super) fn build_group_tree(
    groups: &IndexMap<String, RawGroup>,
    hosts: &SelectorUniverse<'_>,
    cx: &mut LoadContext<'_>,
) -> GroupTree {
    let mut inner: Vec<Vec<usize>> = groups.values().map(|group| resolve_children(group, groups, cx)).collect();
    let mut pairs = 0;
    if !report_cycles(groups, &inner, cx) {
        report_depth(groups, &mut inner, cx);
    }
    let reach: Vec<BTreeSet<usize>> = (0..groups.len())
        .map(|at| {
            let reach = match pairs > MAX_PAIRS {
                true => BTreeSet::from([at]),
                false => collect_reachable(at, &inner),
            };
            count_pairs(&mut pairs, reach.len(), &groups[at], cx);
            reach
        })
        .collect();
    let own: Vec<Vec<usize>> = groups
        .iter()
        .map(|(name, group)| match pairs > MAX_PAIRS {
            true => Vec::new(),
            false => {
                let own = select_own_hosts(name, group, groups, hosts, cx);
                count_pairs(&mut pairs, own.len(), group, cx);
                own
            }
        })
        .collect();
    let members = reach
        .iter()
        .enumerate()
        .map(|(at, reach)| {
            let inside = reach.iter().map(|at| own[*at].len()).sum();
            match pairs > MAX_PAIRS {
                true => return Vec::new(),
                false => count_pairs(&mut pairs, inside, &groups[at], cx),
            }
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
    GroupTree { members, outer }
}

fn resolve_children(group: &RawGroup, groups: &IndexMap<String, RawGroup>, cx: &mut LoadContext<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    for (name, span) in &group.groups {
        match groups.get_index_of(name.as_str()) {
            Some(at) => found.push(at),
            None => {
                let diag = Diag::error(DiagCode::BadSelector, format!("group `{name}` not found")).with_span(*span);
                cx.push_diag(diag.suggest_name(name, groups.keys().map(String::as_str)));
            }
        }
    }
    found
}

fn collect_reachable(from: usize, inner: &[Vec<usize>]) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if seen.insert(at) {
            open.extend(&inner[at]);
        }
    }
    seen
}

/// Adds to the count of pairs, and reports the group that exceeds the limit.
fn count_pairs(pairs: &mut usize, more: usize, group: &RawGroup, cx: &mut LoadContext<'_>) {
    let before = *pairs;
    *pairs += more;
    if before <= MAX_PAIRS && *pairs > MAX_PAIRS {
        let message = format!("groups contain more than {MAX_PAIRS} groups and hosts, counted once per group");
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(group.span).hint("split the inventory"));
    }
}

/// Reports groups that are nested too deeply, and drops their children. Requires an acyclic graph.
fn report_depth(groups: &IndexMap<String, RawGroup>, inner: &mut [Vec<usize>], cx: &mut LoadContext<'_>) {
    let mut above = vec![0usize; inner.len()];
    inner.iter().flatten().for_each(|child| above[*child] += 1);
    let mut level = vec![1usize; inner.len()];
    let mut open: Vec<usize> = (0..inner.len()).filter(|at| above[*at] == 0).collect();
    let mut deep = Vec::new();
    while let Some(at) = open.pop() {
        deep.extend((level[at] > MAX_LEVELS).then_some(at));
        for child in &inner[at] {
            level[*child] = level[*child].max(level[at] + 1);
            above[*child] -= 1;
            open.extend((above[*child] == 0).then_some(*child));
        }
    }
    if let Some(first) = deep.iter().copied().min_by_key(|at| (level[*at], *at)) {
        let message = format!("groups are nested more than {MAX_LEVELS} levels deep");
        cx.push_diag(
            Diag::error(DiagCode::BadValue, message)
                .with_span(groups[first].span)
                .hint("list the innermost groups directly"),
        );
    }
    deep.into_iter().for_each(|at| inner[at].clear());
}

/// Reports groups that contain each other. Returns whether there are any.
fn report_cycles(groups: &IndexMap<String, RawGroup>, inner: &[Vec<usize>], cx: &mut LoadContext<'_>) -> bool {
    let cycles = find_cycles(inner);
    for cycle in &cycles {
        let name = |at: &usize| groups.get_index(*at).map_or("", |(name, _)| name.as_str());
        let names: Vec<String> = cycle.iter().map(|at| format!("`{}`", name(at))).collect();
        let mut diag = Diag::error(DiagCode::GroupCycle, format!("groups contain each other: {}", names.join(", ")));
        for (at, group) in cycle.iter().map(|at| (at, &groups[*at])) {
            diag = match diag.span {
                None => diag.with_span(group.span),
                Some(_) => diag.with_other_span(group.span, format!("`{}` is part of the cycle", name(at))),
            };
        }
        cx.push_diag(diag);
    }
    !cycles.is_empty()
}

/// Returns the groups of each cycle, in order: strongly connected components by two graph traversals (Kosaraju), in
/// linear time and without recursion.
fn find_cycles(inner: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
    let mut outer = vec![Vec::new(); inner.len()];
    for (at, children) in inner.iter().enumerate() {
        children.iter().for_each(|child| outer[*child].push(at));
    }
    let mut left = Vec::new();
    let mut seen = vec![false; inner.len()];
    (0..inner.len()).for_each(|at| visit_postorder(at, inner, &mut seen, &mut left));
    let mut seen = vec![false; inner.len()];
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for at in left.into_iter().rev() {
        let mut component = Vec::new();
        visit_postorder(at, &outer, &mut seen, &mut component);
        let itself = component.iter().any(|at| inner[*at].contains(at));
        if component.len() > 1 || itself {
            found.push(component.into_iter().collect());
        }
    }
    found.sort();
    found
}

/// Appends every unseen group that is reachable from `at`, in postorder.
fn visit_postorder(at: usize, next: &[Vec<usize>], seen: &mut [bool], left: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[at], true) {
        return;
    }
    let mut path = vec![(at, next[at].iter())];
    while let Some((at, children)) = path.last_mut() {
        match children.find(|child| !seen[**child]) {
            Some(child) => {
                seen[*child] = true;
                path.push((*child, next[*child].iter()));
            }
            None => {
                left.push(*at);
                path.pop();
            }
        }
    }
}

fn select_own_hosts(
    name: &str,
    group: &RawGroup,
    groups: &IndexMap<String, RawGroup>,
    hosts: &SelectorUniverse<'_>,
    cx: &mut LoadContext<'_>,
) -> Vec<usize> {
    if name == "all" {
        return (0..hosts.hosts.len()).collect();
    }
    let mut found = Vec::new();
    for (text, span) in &group.hosts {
        match hosts.select(text, Some(*span)) {
            Ok(members) => found.extend(members),
            Err(_) if groups.contains_key(text.as_str()) => {
                let diag =
                    Diag::error(DiagCode::BadSelector, format!("`{text}` is a group, not a host")).with_span(*span);
                cx.push_diag(diag.hint(format!("write `groups: [{text}]` inside `{name}`")));
            }
            Err(diag) => cx.push_diag(*diag),
        }
    }
    found
}
