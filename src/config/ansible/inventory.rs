//! An inventory of Ansible as read, and the log of what its conversion changes.

use super::template;
use crate::diag::{Diag, DiagList, FileId, SourceMap, Span};
use crate::model::Value;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// A difference between the Ansible inventory and its conversion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnsibleDifference {
    /// Description, a lowercase fragment.
    pub what: String,
    /// Origin: `hosts.ini:12`, or names of hosts and groups.
    pub at: Vec<String>,
}

/// State of reading an inventory: sources, errors and differences.
#[derive(Default)]
pub(super) struct AnsibleImportLog {
    pub(super) diags: DiagList,
    pub(super) sources: SourceMap,
    pub(super) differences: Vec<AnsibleDifference>,
    /// Index and locations of each difference, by its description.
    pub(super) listed: HashMap<String, (usize, HashSet<String>)>,
    /// Offsets of line ends per file. Cached because every line of a file may have a difference.
    line_ends: RefCell<HashMap<FileId, Vec<usize>>>,
}

impl AnsibleImportLog {
    pub(super) fn push_diag(&mut self, diag: Diag) {
        self.diags.0.push(diag);
    }

    /// Lists a difference. Equal differences are merged, with all their locations.
    pub(super) fn record_difference(&mut self, what: impl Into<String>, at: impl Into<String>) {
        let (what, at) = (what.into(), at.into());
        match self.listed.get_mut(&what) {
            Some((known, places)) => {
                if places.insert(at.clone()) {
                    self.differences[*known].at.push(at);
                }
            }
            None => {
                self.listed.insert(what.clone(), (self.differences.len(), HashSet::from([at.clone()])));
                self.differences.push(AnsibleDifference { what, at: vec![at] });
            }
        }
    }

    /// Formats a location as `hosts.ini:12`.
    pub(super) fn format_location(&self, span: Span) -> String {
        let find = || self.sources.text(span.file).match_indices('\n').map(|(at, _)| at).collect();
        let mut files = self.line_ends.borrow_mut();
        let ends: &Vec<usize> = files.entry(span.file).or_insert_with(find);
        let line = ends.partition_point(|end| *end < span.start as usize) + 1;
        format!("{}:{line}", self.sources.path(span.file))
    }
}

/// A variable in Ansible.
#[derive(Clone, Debug)]
pub(super) struct AnsibleVar {
    pub(super) value: AnsibleValue,
    pub(super) span: Span,
}

/// The value of a variable, if it can be converted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AnsibleValue {
    Value(Value),
    /// A value that contains templates, which other variables may resolve.
    Template(Value),
    /// Why it cannot be converted: a lowercase fragment that follows the variable's name.
    Lost(String),
}

impl AnsibleValue {
    /// Classifies a parsed value.
    pub(super) fn from_value(value: Value) -> Self {
        match find_unsupported_reason(&value) {
            Some(why) => Self::Lost(why.to_owned()),
            None if template::has_template(&value) => Self::Template(value),
            None => Self::Value(value),
        }
    }
}

pub(super) type AnsibleVars = IndexMap<String, AnsibleVar>;

/// Hosts and groups in Ansible.
#[derive(Debug, Default)]
pub(super) struct AnsibleInventory {
    pub(super) hosts: IndexMap<String, AnsibleVars>,
    pub(super) groups: IndexMap<String, AnsibleGroup>,
    pub(super) group_files: IndexMap<String, AnsibleVars>,
    pub(super) host_files: IndexMap<String, AnsibleVars>,
}

#[derive(Debug)]
pub(super) struct AnsibleGroup {
    pub(super) hosts: Vec<String>,
    pub(super) children: Vec<String>,
    pub(super) vars: AnsibleVars,
    pub(super) priority: i64,
}

impl Default for AnsibleGroup {
    fn default() -> Self {
        Self { hosts: Vec::new(), children: Vec::new(), vars: AnsibleVars::new(), priority: 1 }
    }
}

impl AnsibleInventory {
    /// Returns an inventory with the groups that always exist.
    pub(super) fn new() -> Self {
        let mut inventory = Self::default();
        inventory.add_group("all");
        inventory.add_group("ungrouped");
        inventory.add_child("all", "ungrouped");
        inventory
    }

    pub(super) fn add_group(&mut self, name: &str) {
        self.groups.entry(name.to_owned()).or_default();
    }

    /// Adds a group to another. Returns false if that would create a cycle.
    pub(super) fn add_child(&mut self, outer: &str, inner: &str) -> bool {
        if outer == inner || self.contains_group(inner, outer) {
            return false;
        }
        self.add_group(inner);
        let children = &mut self.groups.entry(outer.to_owned()).or_default().children;
        if !children.iter().any(|child| child == inner) {
            children.push(inner.to_owned());
        }
        true
    }

    fn contains_group(&self, outer: &str, wanted: &str) -> bool {
        let children = self.groups.get(outer).map(|group| group.children.as_slice()).unwrap_or_default();
        children.iter().any(|child| child == wanted || self.contains_group(child, wanted))
    }

    /// Adds hosts with their variables to a group. A port applies only where the host is first mentioned.
    pub(super) fn add_hosts(
        &mut self,
        names: &[String],
        port: Option<u16>,
        vars: &AnsibleVars,
        group: &str,
        span: Span,
    ) {
        for name in names {
            if !self.hosts.contains_key(name) {
                let port = port.map(|port| AnsibleVar { value: AnsibleValue::Value(Value::from(port)), span });
                let own = port.map(|port| ("ansible_port".to_owned(), port)).into_iter().collect();
                self.hosts.insert(name.clone(), own);
            }
            let members = &mut self.groups.entry(group.to_owned()).or_default().hosts;
            if !members.contains(name) {
                members.push(name.clone());
            }
            for (key, var) in vars {
                self.set_var(name, key, var.clone());
            }
        }
    }

    /// Sets a variable. A name of both a group and a host refers to the group, as in Ansible.
    pub(super) fn set_var(&mut self, of: &str, key: &str, var: AnsibleVar) {
        if let Some(group) = self.groups.get_mut(of) {
            match (key, &var.value) {
                ("ansible_group_priority", AnsibleValue::Value(value)) => group.priority = parse_priority(value),
                _ => drop(group.vars.insert(key.to_owned(), var)),
            }
        } else if let Some(host) = self.hosts.get_mut(of) {
            host.insert(key.to_owned(), var);
        }
    }

    /// Completes the inventory: groups without a parent join `all`, hosts without a group join `ungrouped`.
    pub(super) fn complete_groups(&mut self) {
        let names: Vec<String> = self.groups.keys().filter(|name| *name != "all").cloned().collect();
        for name in &names {
            if !self.groups.values().any(|group| group.children.contains(name)) {
                self.add_child("all", name);
            }
        }
        let grouped = |host: &String, groups: &IndexMap<String, AnsibleGroup>| {
            groups.iter().any(|(name, group)| name != "all" && name != "ungrouped" && group.hosts.contains(host))
        };
        let lone: Vec<String> = self.hosts.keys().filter(|host| !grouped(host, &self.groups)).cloned().collect();
        if let Some(all) = self.groups.get_mut("all") {
            all.hosts.clear();
        }
        if let Some(ungrouped) = self.groups.get_mut("ungrouped") {
            ungrouped.hosts = lone;
        }
    }
}

pub(super) fn parse_priority(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok()).unwrap_or(1)
}

/// Returns why a value, or any value in it, cannot be converted.
pub(super) fn find_unsupported_reason(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) if text.contains(['\0', '\u{e000}', '\u{e001}']) => {
            Some("contains a character that forge does not support")
        }
        Value::Array(items) => items.iter().find_map(find_unsupported_reason),
        Value::Object(map) => map.values().find_map(find_unsupported_reason),
        _ => None,
    }
}
