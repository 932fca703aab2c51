//! Converts Ansible inventories to forge inventories, with Ansible's parsing and precedence rules.
//!
//! Architecture Invariant: the rules are those of ansible-core 2.19, even where they surprise. The effective variables
//! of each host are computed first; their distribution over groups and hosts follows from them. A value that cannot be
//! converted is listed, never dropped silently. Only `files` reads files; every other module maps text to values.

mod convert;
mod files;
mod host_patterns;
mod ini;
mod layers;
mod python_literal;
mod settings;
mod shlex;
mod sources;
mod template;
#[cfg(test)]
mod tests;
mod yaml;
mod yaml11_scalar;

use super::starter_inventory::StarterInventory;
use crate::diag::{Diag, DiagList, FileId, SourceMap, Span};
use crate::model::Value;
use camino::Utf8Path;
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

/// Result of converting an Ansible inventory.
#[derive(Debug)]
pub struct AnsibleConversion {
    /// `None` if there are errors.
    pub starting: Option<StarterInventory>,
    pub differences: Vec<AnsibleDifference>,
    pub diags: DiagList,
    pub sources: SourceMap,
}

/// Converts the inventory at `path`, a file or a folder, with the `group_vars` and `host_vars` next to it. `cluster` is
/// the cluster name of the result.
pub fn convert_ansible_inventory(path: &Utf8Path, cluster: &str) -> AnsibleConversion {
    let mut reading = AnsibleImportLog::default();
    let files = files::read_ansible_files(path, &mut reading);
    let inventory = sources::read_ansible_inventory(&files, &mut reading);
    let starting = match reading.diags.has_errors() {
        true => None,
        false => Some(convert::convert_inventory(&inventory, cluster, &mut reading)),
    };
    AnsibleConversion { starting, differences: reading.differences, diags: reading.diags, sources: reading.sources }
}

/// State of reading an inventory: sources, errors and differences.
#[derive(Default)]
struct AnsibleImportLog {
    diags: DiagList,
    sources: SourceMap,
    differences: Vec<AnsibleDifference>,
    /// Index and locations of each difference, by its description.
    listed: HashMap<String, (usize, HashSet<String>)>,
    /// Offsets of line ends per file. Cached because every line of a file may have a difference.
    line_ends: RefCell<HashMap<FileId, Vec<usize>>>,
}

impl AnsibleImportLog {
    fn push_diag(&mut self, diag: Diag) {
        self.diags.0.push(diag);
    }

    /// Lists a difference. Equal differences are merged, with all their locations.
    fn record_difference(&mut self, what: impl Into<String>, at: impl Into<String>) {
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
    fn format_location(&self, span: Span) -> String {
        let find = || self.sources.text(span.file).match_indices('\n').map(|(at, _)| at).collect();
        let mut files = self.line_ends.borrow_mut();
        let ends: &Vec<usize> = files.entry(span.file).or_insert_with(find);
        let line = ends.partition_point(|end| *end < span.start as usize) + 1;
        format!("{}:{line}", self.sources.path(span.file))
    }
}

/// A variable in Ansible.
#[derive(Clone, Debug)]
struct AnsibleVar {
    value: AnsibleValue,
    span: Span,
}

/// The value of a variable, if it can be converted.
#[derive(Clone, Debug, PartialEq)]
enum AnsibleValue {
    Value(Value),
    /// A value that contains templates, which other variables may resolve.
    Template(Value),
    /// Why it cannot be converted: a lowercase fragment that follows the variable's name.
    Lost(String),
}

impl AnsibleValue {
    /// Classifies a parsed value.
    fn from_value(value: Value) -> Self {
        match find_unsupported_reason(&value) {
            Some(why) => Self::Lost(why.to_owned()),
            None if template::has_template(&value) => Self::Template(value),
            None => Self::Value(value),
        }
    }
}

type AnsibleVars = IndexMap<String, AnsibleVar>;

/// Hosts and groups in Ansible.
#[derive(Debug, Default)]
struct AnsibleInventory {
    hosts: IndexMap<String, AnsibleVars>,
    groups: IndexMap<String, AnsibleGroup>,
    group_files: IndexMap<String, AnsibleVars>,
    host_files: IndexMap<String, AnsibleVars>,
}

#[derive(Debug)]
struct AnsibleGroup {
    hosts: Vec<String>,
    children: Vec<String>,
    vars: AnsibleVars,
    priority: i64,
}

impl Default for AnsibleGroup {
    fn default() -> Self {
        Self { hosts: Vec::new(), children: Vec::new(), vars: AnsibleVars::new(), priority: 1 }
    }
}

impl AnsibleInventory {
    /// Returns an inventory with the groups that always exist.
    fn new() -> Self {
        let mut inventory = Self::default();
        inventory.add_group("all");
        inventory.add_group("ungrouped");
        inventory.add_child("all", "ungrouped");
        inventory
    }

    fn add_group(&mut self, name: &str) {
        self.groups.entry(name.to_owned()).or_default();
    }

    /// Adds a group to another. Returns false if that would create a cycle.
    fn add_child(&mut self, outer: &str, inner: &str) -> bool {
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
    fn add_hosts(&mut self, names: &[String], port: Option<u16>, vars: &AnsibleVars, group: &str, span: Span) {
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
    fn set_var(&mut self, of: &str, key: &str, var: AnsibleVar) {
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
    fn complete_groups(&mut self) {
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

fn parse_priority(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok()).unwrap_or(1)
}

/// Returns why a value, or any value in it, cannot be converted.
fn find_unsupported_reason(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) if text.contains(['\0', '\u{e000}', '\u{e001}']) => {
            Some("contains a character that forge does not support")
        }
        Value::Array(items) => items.iter().find_map(find_unsupported_reason),
        Value::Object(map) => map.values().find_map(find_unsupported_reason),
        _ => None,
    }
}
