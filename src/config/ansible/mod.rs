//! Ansible inventories, read as Ansible reads them and laid out as forge's own.
//!
//! Architecture Invariant: the rules are Ansible's (ansible-core 2.19), also where they surprise; what a host's variables come to
//! is worked out first, and how they are spread over groups and hosts here follows from that. What cannot be carried
//! is listed, never dropped in silence. Only `files` reads files; everything else is text in, value out.

mod address;
mod convert;
mod files;
mod ini;
mod layers;
mod literal;
mod resolve11;
mod settings;
mod shlex;
mod sources;
mod template;
#[cfg(test)]
mod tests;
mod yaml;

use super::starting::Starting;
use crate::diag::{Diag, Diags, FileId, Sources, Span};
use crate::model::Value;
use camino::Utf8Path;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Something that is other than in the Ansible inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// A lowercase fragment.
    pub what: String,
    /// Where it comes from: `hosts.ini:12`, or names of hosts and groups.
    pub at: Vec<String>,
}

/// What became of an Ansible inventory.
#[derive(Debug)]
pub struct Converted {
    /// `None` when something is wrong in what was read.
    pub starting: Option<Starting>,
    pub differences: Vec<Difference>,
    pub diags: Diags,
    pub sources: Sources,
}

/// Reads the inventory at `path`, a file or a folder, with `group_vars` and `host_vars` beside it, and lays it out.
/// `cluster` names the result.
pub fn from_ansible(path: &Utf8Path, cluster: &str) -> Converted {
    let mut reading = Reading::default();
    let files = files::read(path, &mut reading);
    let inventory = sources::read(&files, &mut reading);
    let starting = match reading.diags.has_errors() {
        true => None,
        false => Some(convert::convert(&inventory, cluster, &mut reading)),
    };
    Converted { starting, differences: reading.differences, diags: reading.diags, sources: reading.sources }
}

/// What comes up while an inventory is read.
#[derive(Default)]
struct Reading {
    diags: Diags,
    sources: Sources,
    differences: Vec<Difference>,
    /// Where in the list each difference stands, with the places that it names.
    listed: HashMap<String, (usize, HashSet<String>)>,
    /// Where the lines of each file end: a file may have a difference in each of its lines.
    line_ends: RefCell<HashMap<FileId, Vec<usize>>>,
}

impl Reading {
    fn wrong(&mut self, diag: Diag) {
        self.diags.0.push(diag);
    }

    /// Lists a difference. The same one in another place is told once, with both.
    fn differs(&mut self, what: impl Into<String>, at: impl Into<String>) {
        let (what, at) = (what.into(), at.into());
        match self.listed.get_mut(&what) {
            Some((known, places)) => {
                if places.insert(at.clone()) {
                    self.differences[*known].at.push(at);
                }
            }
            None => {
                self.listed.insert(what.clone(), (self.differences.len(), HashSet::from([at.clone()])));
                self.differences.push(Difference { what, at: vec![at] });
            }
        }
    }

    /// Returns `hosts.ini:12`.
    fn place(&self, span: Span) -> String {
        let find = || self.sources.text(span.file).match_indices('\n').map(|(at, _)| at).collect();
        let mut files = self.line_ends.borrow_mut();
        let ends: &Vec<usize> = files.entry(span.file).or_insert_with(find);
        let line = ends.partition_point(|end| *end < span.start as usize) + 1;
        format!("{}:{line}", self.sources.path(span.file))
    }
}

/// A variable as Ansible holds it.
#[derive(Clone, Debug)]
struct Var {
    value: Known,
    span: Span,
}

/// The value of a variable, as far as it can be carried.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Value(Value),
    /// A value with templates in it, which other variables may resolve.
    Template(Value),
    /// Why it cannot be carried: a lowercase fragment that follows the variable's name.
    Lost(String),
}

impl Known {
    /// Returns a value that was read as what can be carried of it.
    fn of(value: Value) -> Self {
        match unfit(&value) {
            Some(why) => Self::Lost(why.to_owned()),
            None if template::is_in(&value) => Self::Template(value),
            None => Self::Value(value),
        }
    }
}

type Vars = IndexMap<String, Var>;

/// Hosts and groups as Ansible holds them.
#[derive(Debug, Default)]
struct Inventory {
    hosts: IndexMap<String, Vars>,
    groups: IndexMap<String, Group>,
    group_files: IndexMap<String, Vars>,
    host_files: IndexMap<String, Vars>,
}

#[derive(Debug)]
struct Group {
    hosts: Vec<String>,
    children: Vec<String>,
    vars: Vars,
    priority: i64,
}

impl Default for Group {
    fn default() -> Self {
        Self { hosts: Vec::new(), children: Vec::new(), vars: Vars::new(), priority: 1 }
    }
}

impl Inventory {
    /// Returns an inventory with the groups that are always there.
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

    /// Puts a group into another. Returns whether that closes no circle.
    fn add_child(&mut self, outer: &str, inner: &str) -> bool {
        if outer == inner || self.contains(inner, outer) {
            return false;
        }
        self.add_group(inner);
        let children = &mut self.groups.entry(outer.to_owned()).or_default().children;
        if !children.iter().any(|child| child == inner) {
            children.push(inner.to_owned());
        }
        true
    }

    fn contains(&self, outer: &str, wanted: &str) -> bool {
        let children = self.groups.get(outer).map(|group| group.children.as_slice()).unwrap_or_default();
        children.iter().any(|child| child == wanted || self.contains(child, wanted))
    }

    /// Adds hosts to a group, each with its variables. A port counts only where it makes the host known.
    fn add_hosts(&mut self, names: &[String], port: Option<u16>, vars: &Vars, group: &str, span: Span) {
        for name in names {
            if !self.hosts.contains_key(name) {
                let port = port.map(|port| Var { value: Known::Value(Value::from(port)), span });
                let own = port.map(|port| ("ansible_port".to_owned(), port)).into_iter().collect();
                self.hosts.insert(name.clone(), own);
            }
            let members = &mut self.groups.entry(group.to_owned()).or_default().hosts;
            if !members.contains(name) {
                members.push(name.clone());
            }
            for (key, var) in vars {
                self.set(name, key, var.clone());
            }
        }
    }

    /// Sets a variable. A name of both a group and a host means the group, as in Ansible.
    fn set(&mut self, of: &str, key: &str, var: Var) {
        if let Some(group) = self.groups.get_mut(of) {
            match (key, &var.value) {
                ("ansible_group_priority", Known::Value(value)) => group.priority = priority(value),
                _ => drop(group.vars.insert(key.to_owned(), var)),
            }
        } else if let Some(host) = self.hosts.get_mut(of) {
            host.insert(key.to_owned(), var);
        }
    }

    /// Ends reading: groups without another one stand in `all`, hosts without a group in `ungrouped`.
    fn settle(&mut self) {
        let names: Vec<String> = self.groups.keys().filter(|name| *name != "all").cloned().collect();
        for name in &names {
            if !self.groups.values().any(|group| group.children.contains(name)) {
                self.add_child("all", name);
            }
        }
        let grouped = |host: &String, groups: &IndexMap<String, Group>| {
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

fn priority(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok()).unwrap_or(1)
}

/// Returns why a value cannot be carried, wherever in it the reason stands.
fn unfit(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) if text.contains(['\0', '\u{e000}', '\u{e001}']) => {
            Some("holds a character that forge does not carry")
        }
        Value::Array(items) => items.iter().find_map(unfit),
        Value::Object(map) => map.values().find_map(unfit),
        _ => None,
    }
}
