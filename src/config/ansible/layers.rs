//! What a host's variables come to in Ansible: which layer wins.

use super::settings::{Meaning, Slot, meaning};
use super::{Inventory, Known, Reading, Var, Vars, template};
use crate::model::Value;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};

/// Values by where they go; `None` is one that cannot be carried and still hides what lies below.
pub(super) type Layer = IndexMap<Slot, Option<Value>>;

/// A value of one layer.
#[derive(Clone, Debug)]
enum LayerValue {
    Value(Option<Value>),
    /// A variable whose value has templates, by its name.
    Template(String, Var),
}

/// A layer as it is written: templates are resolved when it is known for whom.
type WrittenLayer = IndexMap<Slot, LayerValue>;

/// Every layer of an inventory, in forge's terms.
pub(super) struct Layers {
    /// By group: what the inventory itself says, and what `group_vars` says.
    groups: BTreeMap<String, (WrittenLayer, WrittenLayer)>,
    hosts: BTreeMap<String, WrittenLayer>,
    /// Every group of a host but `all`, the weakest first.
    of_host: BTreeMap<String, Vec<String>>,
}

impl Layers {
    /// Translates all variables; what cannot be carried is listed.
    pub fn new(inventory: &Inventory, reading: &mut Reading) -> Self {
        let mut layer = |vars: Option<&Vars>| vars.map(|vars| layer(vars, reading)).unwrap_or_default();
        let of_group = |layer: &mut dyn FnMut(Option<&Vars>) -> WrittenLayer, name: &String| {
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
        let layers = Self { groups, hosts, of_host: of_hosts(inventory) };
        layers.list_unresolved(reading);
        layers
    }

    /// Returns what a host itself says. Its templates read all that holds for it.
    pub fn host(&self, name: &str) -> Layer {
        let effective = self.effective(name);
        let value = |slot: &Slot, held: &LayerValue| match held {
            LayerValue::Value(value) => value.clone(),
            LayerValue::Template(..) => effective.get(slot).cloned().flatten(),
        };
        let written = self.hosts.get(name).into_iter().flatten();
        written.map(|(slot, held)| (slot.clone(), value(slot, held))).collect()
    }

    /// Returns what a group says by itself. Its templates read its own variables.
    pub fn group(&self, name: &str) -> Layer {
        resolve(self.written_of_group(name))
    }

    fn written_of_group(&self, name: &str) -> WrittenLayer {
        let Some((own, files)) = self.groups.get(name) else { return WrittenLayer::new() };
        let mut written = own.clone();
        written.extend(files.clone());
        written
    }

    /// Returns whether a group gives a slot by a template.
    pub fn has_template(&self, group: &str, slot: &Slot) -> bool {
        matches!(self.written_of_group(group).get(slot), Some(LayerValue::Template(..)))
    }

    /// Lists the templates that some host needs and that are not resolved there; those that no host needs, where their own
    /// group does not resolve them.
    fn list_unresolved(&self, reading: &mut Reading) {
        let mut resolved: BTreeMap<(String, String), bool> = BTreeMap::new();
        let mut judge = |written: &WrittenLayer, only_new: bool| {
            let layer = resolve(written.clone());
            for (slot, held) in written {
                let LayerValue::Template(name, var) = held else { continue };
                let key = (name.clone(), reading.place(var.span));
                let is_resolved = layer.get(slot).is_some_and(Option::is_some);
                match resolved.get_mut(&key) {
                    Some(known) if !only_new => *known &= is_resolved,
                    Some(_) => {}
                    None => drop(resolved.insert(key, is_resolved)),
                }
            }
        };
        self.hosts.keys().for_each(|host| judge(&self.written_effective(host), false));
        self.groups.keys().for_each(|group| judge(&self.written_of_group(group), true));
        for ((name, place), _) in resolved.into_iter().filter(|(_, resolved)| !resolved) {
            reading.differs(format!("`{name}` {}", template::NOT_CARRIED), place);
        }
    }

    /// Returns the groups of a host but `all`, direct and outer ones.
    pub fn groups_of(&self, host: &str) -> &[String] {
        self.of_host.get(host).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns what holds for a host in the end. All of the inventory's own group variables come before those of
    /// `group_vars`, so that even those of `all` in a file beat those of an inner group in the inventory.
    pub fn effective(&self, host: &str) -> Layer {
        resolve(self.written_effective(host))
    }

    fn written_effective(&self, host: &str) -> WrittenLayer {
        let groups = self.groups_of(host);
        let mut layer = WrittenLayer::new();
        let all = "all".to_owned();
        let own = std::iter::once(&all).chain(groups).filter_map(|name| self.groups.get(name)).map(|(own, _)| own);
        let files =
            std::iter::once(&all).chain(groups).filter_map(|name| self.groups.get(name)).map(|(_, files)| files);
        own.chain(files).chain(self.hosts.get(host)).for_each(|next| layer.extend(next.clone()));
        layer
    }
}

/// Resolves templates by the values of their own layer, those that read others after these.
fn resolve(written: WrittenLayer) -> Layer {
    let (mut layer, mut open) = (Layer::new(), Vec::new());
    for (slot, held) in written {
        let value = match held {
            LayerValue::Value(value) => value,
            LayerValue::Template(name, var) => {
                open.push((slot.clone(), name, var));
                None
            }
        };
        layer.insert(slot, value);
    }
    loop {
        let before = open.len();
        open.retain(|(slot, name, var)| match resolve_one(name, var, &layer) {
            Some(value) => layer.insert(slot.clone(), Some(value)).is_none(),
            None => true,
        });
        if open.len() == before {
            return layer;
        }
    }
}

fn resolve_one(name: &str, var: &Var, layer: &Layer) -> Option<Value> {
    let Known::Template(value) = &var.value else { return None };
    let find = |name: &str| layer.get(&Slot::Var(name.to_owned()))?.clone().filter(|value| !is_fraction(value));
    let value = Known::Value(template::resolve(value, &find)?);
    match meaning(name, &Var { value, span: var.span }) {
        Meaning::Is(_, value) => value,
        _ => None,
    }
}

/// Returns whether a text may be a fraction, which forge keeps as it was typed and Ansible writes out in its own way.
fn is_fraction(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<i64>().is_err() && text.replace('_', "").parse::<f64>().is_ok())
}

fn layer(vars: &Vars, reading: &mut Reading) -> WrittenLayer {
    let mut layer = WrittenLayer::new();
    for (name, var) in vars {
        match meaning(name, var) {
            // Of two names of one setting the newer one wins.
            Meaning::Is(slot, _) if name.starts_with("ansible_ssh_") && layer.contains_key(&slot) => {}
            Meaning::Is(slot, value) => drop(layer.insert(slot, LayerValue::Value(value))),
            Meaning::Lost(slot, _) if matches!(var.value, Known::Template(_)) => {
                layer.insert(slot, LayerValue::Template(name.clone(), var.clone()));
            }
            Meaning::Lost(slot, why) => {
                reading.differs(format!("`{name}` {why}"), reading.place(var.span));
                layer.insert(slot, LayerValue::Value(None));
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
