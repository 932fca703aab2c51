//! What a host's variables come to in Ansible: which layer wins.

use super::settings::{Meaning, Slot, meaning};
use super::{Inventory, Reading, Vars};
use crate::model::Value;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Values by where they go; `None` is one that cannot be carried and still hides what lies below.
pub(super) type Layer = IndexMap<Slot, Option<Value>>;

/// Every layer of an inventory, in forge's terms.
pub(super) struct Layers {
    /// By group: what the inventory itself says, and what `group_vars` says.
    groups: BTreeMap<String, (Layer, Layer)>,
    hosts: BTreeMap<String, Layer>,
    /// Every group of a host but `all`, the weakest first.
    of_host: BTreeMap<String, Vec<String>>,
}

impl Layers {
    /// Translates all variables; what cannot be carried is listed.
    pub fn new(inventory: &Inventory, reading: &mut Reading) -> Self {
        let mut layer = |vars: Option<&Vars>| vars.map(|vars| layer(vars, reading)).unwrap_or_default();
        let of_group = |layer: &mut dyn FnMut(Option<&Vars>) -> Layer, name: &String| {
            let own = layer(inventory.groups.get(name).map(|group| &group.vars));
            (own, layer(inventory.group_files.get(name)))
        };
        let groups = inventory.groups.keys().map(|name| (name.clone(), of_group(&mut layer, name))).collect();
        let hosts = inventory.hosts.iter().map(|(name, vars)| {
            let mut own = layer(Some(vars));
            own.extend(layer(inventory.host_files.get(name)));
            (name.clone(), own)
        });
        let hosts = hosts.collect();
        Self { groups, hosts, of_host: of_hosts(inventory) }
    }

    /// Returns what a host itself says.
    pub fn host(&self, name: &str) -> Layer {
        self.hosts.get(name).cloned().unwrap_or_default()
    }

    /// Returns what a group says by itself.
    pub fn group(&self, name: &str) -> Layer {
        let Some((own, files)) = self.groups.get(name) else { return Layer::new() };
        let mut layer = own.clone();
        layer.extend(files.clone());
        layer
    }

    /// Returns the groups of a host but `all`, direct and outer ones.
    pub fn groups_of(&self, host: &str) -> &[String] {
        self.of_host.get(host).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns what holds for a host in the end. All of the inventory's own group variables come before those of
    /// `group_vars`, so that even those of `all` in a file beat those of an inner group in the inventory.
    pub fn effective(&self, host: &str) -> Layer {
        let groups = self.groups_of(host);
        let mut layer = Layer::new();
        let all = "all".to_owned();
        let own = std::iter::once(&all).chain(groups).filter_map(|name| self.groups.get(name)).map(|(own, _)| own);
        let files =
            std::iter::once(&all).chain(groups).filter_map(|name| self.groups.get(name)).map(|(_, files)| files);
        own.chain(files).chain(self.hosts.get(host)).for_each(|next| layer.extend(next.clone()));
        layer
    }
}

fn layer(vars: &Vars, reading: &mut Reading) -> Layer {
    let mut layer = Layer::new();
    for (name, var) in vars {
        match meaning(name, var) {
            // Of two names of one setting the newer one wins.
            Meaning::Is(slot, _) if name.starts_with("ansible_ssh_") && layer.contains_key(&slot) => {}
            Meaning::Is(slot, value) => drop(layer.insert(slot, value)),
            Meaning::Lost(slot, why) => {
                reading.differs(format!("`{name}` {why}"), reading.place(var.span));
                layer.insert(slot, None);
            }
            Meaning::Nowhere(why) => reading.differs(format!("`{name}` {why}"), reading.place(var.span)),
            Meaning::Anyway => {}
        }
    }
    layer
}

/// Sorts the groups of every host by depth, priority and name, as Ansible merges them.
fn of_hosts(inventory: &Inventory) -> BTreeMap<String, Vec<String>> {
    let depths = depths(inventory);
    let outer = outer(inventory);
    let mut of_host: BTreeMap<String, BTreeSet<(usize, i64, String)>> = BTreeMap::new();
    for (name, group) in &inventory.groups {
        let names = std::iter::once(name).chain(outer.get(name).into_iter().flatten()).filter(|name| *name != "all");
        let ranked: Vec<_> = names
            .filter_map(|name| Some((*depths.get(name)?, inventory.groups.get(name)?.priority, name.clone())))
            .collect();
        for host in &group.hosts {
            of_host.entry(host.clone()).or_default().extend(ranked.iter().cloned());
        }
    }
    of_host.into_iter().map(|(host, groups)| (host, groups.into_iter().map(|(_, _, name)| name).collect())).collect()
}

/// Returns the length of the longest way from `all` to each group.
fn depths(inventory: &Inventory) -> BTreeMap<String, usize> {
    let mut depths: BTreeMap<String, usize> = inventory.groups.keys().map(|name| (name.clone(), 0)).collect();
    // Groups have no circles, so that as many rounds as there are groups settle it.
    for _ in 0..inventory.groups.len() {
        let mut moved = false;
        for (name, group) in &inventory.groups {
            let below = depths.get(name).copied().unwrap_or(0) + 1;
            for child in &group.children {
                if let Some(depth) = depths.get_mut(child).filter(|depth| **depth < below) {
                    (*depth, moved) = (below, true);
                }
            }
        }
        if !moved {
            break;
        }
    }
    depths
}

/// Returns all groups that contain a group, directly or through others.
pub(super) fn outer(inventory: &Inventory) -> BTreeMap<String, BTreeSet<String>> {
    let mut outer: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in inventory.groups.keys() {
        let mut open = vec![name];
        while let Some(at) = open.pop() {
            for child in inventory.groups.get(at).into_iter().flat_map(|group| &group.children) {
                if outer.entry(child.clone()).or_default().insert(name.clone()) {
                    open.push(child);
                }
            }
        }
    }
    outer
}
