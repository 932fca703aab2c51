//! Converts an Ansible inventory to a forge inventory. Values stay at their groups if forge's precedence rules yield
//! the same value for every host, and move to the hosts otherwise.

use super::inventory::{AnsibleImportLog, AnsibleInventory};
use super::layers::{AnsibleLayer, AnsibleLayers, collect_outer_groups};
use super::var_meaning::SettingSlot;
use crate::config::identifier::is_label;
use crate::config::inventory::is_address;
use crate::config::starter_inventory::{StarterConnect, StarterGroup, StarterHost, StarterInventory};
use crate::model::Value;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Converts an inventory and lists the differences from Ansible.
pub(super) fn convert_inventory(
    inventory: &AnsibleInventory,
    cluster: &str,
    reading: &mut AnsibleImportLog,
) -> StarterInventory {
    let mut layout = InventoryLayout::new(inventory, reading);
    layout.spread_to_hosts(reading);
    let names = ConvertedNames::new(inventory, reading);
    let hosts = drop_duplicate_machines(layout.build_hosts(&names), reading);
    let groups = layout.build_groups(&names, &hosts);
    if hosts.is_empty() {
        reading.record_difference("the inventory has no hosts", "the inventory");
    }
    StarterInventory { cluster: cluster.to_owned(), hosts, groups }
}

struct InventoryLayout<'i> {
    inventory: &'i AnsibleInventory,
    layers: AnsibleLayers,
    /// Ancestors of each group.
    outer: BTreeMap<String, BTreeSet<String>>,
    groups: BTreeMap<String, AnsibleLayer>,
    hosts: IndexMap<String, AnsibleLayer>,
}

impl<'i> InventoryLayout<'i> {
    fn new(inventory: &'i AnsibleInventory, reading: &mut AnsibleImportLog) -> Self {
        let layers = AnsibleLayers::new(inventory, reading);
        let groups = inventory.groups.keys().map(|name| (name.clone(), layers.group_layer(name))).collect();
        let hosts = inventory.hosts.keys().map(|name| (name.clone(), layers.host_layer(name))).collect();
        Self { inventory, layers, outer: collect_outer_groups(inventory), groups, hosts }
    }

    /// Moves the slots that forge would resolve differently from Ansible to the hosts.
    fn spread_to_hosts(&mut self, reading: &mut AnsibleImportLog) {
        let slots: BTreeSet<SettingSlot> = self.groups.values().flat_map(|layer| layer.keys().cloned()).collect();
        for slot in slots {
            let same = |host: &String| {
                let resolved = self.resolve_slot(host, &slot);
                resolved.is_ok_and(|value| value.as_ref() == self.layers.effective_value(host, &slot))
            };
            if slot == SettingSlot::Address || !self.hosts.keys().all(same) {
                self.move_to_hosts(&slot, reading);
            }
        }
    }

    /// Returns the value that forge resolves for a slot: the host's own, else that of the innermost groups. Fails if
    /// they disagree.
    fn resolve_slot(&self, host: &str, slot: &SettingSlot) -> Result<Option<Value>, ()> {
        let all = "all".to_owned();
        let groups = self.layers.groups_of_host(host).iter().chain(std::iter::once(&all));
        let with: Vec<&String> = groups
            .filter(|name| self.groups.get(*name).is_some_and(|layer| layer.get(slot).is_some_and(Option::is_some)))
            .collect();
        let beaten =
            |name: &&String| with.iter().any(|inner| self.outer.get(*inner).is_some_and(|outer| outer.contains(*name)));
        let mut values =
            with.iter().filter(|name| !beaten(name)).filter_map(|name| self.groups.get(*name)?.get(slot)?.as_ref());
        let first = values.next();
        if values.any(|value| Some(value) != first) {
            return Err(());
        }
        match self.hosts.get(host).and_then(|layer| layer.get(slot)) {
            Some(Some(own)) => Ok(Some(own.clone())),
            Some(None) | None => Ok(first.cloned()),
        }
    }

    fn move_to_hosts(&mut self, slot: &SettingSlot, reading: &mut AnsibleImportLog) {
        let from: Vec<String> =
            self.groups.iter().filter(|(_, layer)| layer.contains_key(slot)).map(|(name, _)| name.clone()).collect();
        self.groups.values_mut().for_each(|layer| drop(layer.shift_remove(slot)));
        for (host, layer) in &mut self.hosts {
            layer.shift_remove(slot);
            if let Some(value) = self.layers.effective_layer(host).and_then(|layer| layer.get(slot)) {
                layer.insert(slot.clone(), value.clone());
            }
        }
        let what = match slot {
            SettingSlot::Var(name) => format!("`{name}`"),
            SettingSlot::Connect(key) => format!("the setting `{key}`"),
            SettingSlot::Address => "the address".to_owned(),
        };
        let why = match from.iter().any(|group| self.layers.has_template(group, slot)) {
            true => "is set on each host: its template reads variables from other sources",
            false => "is set on each host: forge resolves conflicts between groups by other rules",
        };
        from.into_iter().for_each(|group| reading.record_difference(format!("{what} {why}"), format!("group {group}")));
    }

    fn build_hosts(&self, names: &ConvertedNames) -> IndexMap<String, StarterHost> {
        let one = |(name, layer): (&String, &AnsibleLayer)| {
            let new = names.host_name(name);
            let (connect, vars) = split_layer(layer);
            let given = layer
                .get(&SettingSlot::Address)
                .cloned()
                .flatten()
                .and_then(|address| address.as_str().map(str::to_owned));
            let old = (new != name && is_address(name)).then(|| name.clone());
            (new.to_owned(), StarterHost { address: given.or(old).filter(|address| address != new), connect, vars })
        };
        self.hosts.iter().map(one).collect()
    }

    fn build_groups(
        &self,
        names: &ConvertedNames,
        hosts: &IndexMap<String, StarterHost>,
    ) -> IndexMap<String, StarterGroup> {
        let mut groups = IndexMap::new();
        for (name, group) in &self.inventory.groups {
            let (connect, vars) = self.groups.get(name).map(split_layer).unwrap_or_default();
            let is_all = name == "all";
            let members: Vec<String> = group
                .hosts
                .iter()
                .map(|host| names.host_name(host).to_owned())
                .filter(|host| hosts.contains_key(host))
                .collect();
            let inner = group.children.iter().map(|child| names.group_name(child).to_owned());
            let starting = StarterGroup {
                hosts: if is_all { Vec::new() } else { members },
                groups: if is_all { Vec::new() } else { inner.collect() },
                connect,
                vars,
            };
            let is_bare = starting == StarterGroup::default();
            if !(is_bare && matches!(name.as_str(), "all" | "ungrouped")) {
                groups.insert(names.group_name(name).to_owned(), starting);
            }
        }
        groups
    }
}

fn split_layer(layer: &AnsibleLayer) -> (StarterConnect, IndexMap<String, Value>) {
    let (mut connect, mut vars) = (StarterConnect::new(), IndexMap::new());
    for (slot, value) in layer {
        match (slot, value) {
            (SettingSlot::Connect(key), Some(value)) => drop(connect.insert(*key, value.clone())),
            (SettingSlot::Var(name), Some(value)) => drop(vars.insert(name.clone(), value.clone())),
            (SettingSlot::Address, _) | (_, None) => {}
        }
    }
    (connect, vars)
}

/// Keeps one host per machine: forge rejects two names of one machine, as each would undo the changes of the other.
fn drop_duplicate_machines(
    hosts: IndexMap<String, StarterHost>,
    reading: &mut AnsibleImportLog,
) -> IndexMap<String, StarterHost> {
    let mut seen: HashMap<(String, String, String), String> = HashMap::new();
    let mut kept = IndexMap::new();
    for (name, host) in hosts {
        let setting = |key: &str| host.connect.get(key).map(Value::to_string).unwrap_or_default();
        let way = (host.address.clone().unwrap_or_else(|| name.clone()), setting("port"), setting("jump"));
        let is_local = host.connect.get("transport").is_some_and(|transport| transport == "local");
        match seen.get(&way).filter(|_| !is_local) {
            Some(first) => {
                let what = format!("is skipped: it is the same machine as `{first}` (`{}`)", way.0);
                reading.record_difference(what, format!("host {name}"));
            }
            None => {
                if !is_local {
                    seen.insert(way, name.clone());
                }
                kept.insert(name, host);
            }
        }
    }
    kept
}

/// New names of hosts and groups whose names forge does not allow.
struct ConvertedNames {
    hosts: HashMap<String, String>,
    groups: HashMap<String, String>,
}

impl ConvertedNames {
    fn new(inventory: &AnsibleInventory, reading: &mut AnsibleImportLog) -> Self {
        let mut taken: BTreeSet<String> = inventory.hosts.keys().chain(inventory.groups.keys()).cloned().collect();
        let mut hosts = HashMap::new();
        for name in inventory.hosts.keys().filter(|name| !is_label(name) || *name == "all") {
            let new = choose_free_name(name, "host-", &mut taken);
            reading.record_difference(
                format!("is renamed to `{new}`: names allow only letters, digits, `.`, `_` and `-`"),
                format!("host {name}"),
            );
            hosts.insert(name.clone(), new);
        }
        let mut groups = HashMap::new();
        for name in inventory.groups.keys() {
            let both = inventory.hosts.contains_key(name);
            if is_label(name) && !both {
                continue;
            }
            let new = if both {
                choose_free_name(&format!("{name}_group"), "group-", &mut taken)
            } else {
                choose_free_name(name, "group-", &mut taken)
            };
            let why =
                if both { "a host has the same name" } else { "names allow only letters, digits, `.`, `_` and `-`" };
            reading.record_difference(format!("is renamed to `{new}`: {why}"), format!("group {name}"));
            groups.insert(name.clone(), new);
        }
        Self { hosts, groups }
    }

    fn host_name<'n>(&'n self, name: &'n str) -> &'n str {
        self.hosts.get(name).map_or(name, String::as_str)
    }

    fn group_name<'n>(&'n self, name: &'n str) -> &'n str {
        self.groups.get(name).map_or(name, String::as_str)
    }
}

/// Returns a name that is allowed and unused.
fn choose_free_name(name: &str, prefix: &str, taken: &mut BTreeSet<String>) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut new: String = name.chars().take(100).map(|c| if fits(c) { c } else { '-' }).collect();
    if !is_label(&new) || new == "all" {
        new = format!("{prefix}{new}");
    }
    let base = new.clone();
    let mut number = 2;
    while !taken.insert(new.clone()) {
        new = format!("{base}-{number}");
        number += 1;
    }
    new
}
