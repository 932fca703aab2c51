//! Computes the effective variables of each host by Ansible's precedence of layers.

use super::inventory::{AnsibleImportLog, AnsibleInventory, AnsibleValue, AnsibleVar, AnsibleVars};
use super::settings::translate_var;
use super::ssh_args::NOT_CONVERTED;
use super::template::{self, NOT_CARRIED, TemplateBudget};
use super::var_meaning::{SettingSlot, VarMeaning};
use crate::diag::Span;
use crate::model::Value;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Values by slot. `None` is a value that cannot be converted, but still overrides lower layers.
pub(super) type AnsibleLayer = IndexMap<SettingSlot, Option<Value>>;

/// A value of one layer.
#[derive(Clone, Debug)]
enum LayerValue {
    Value(Option<Value>),
    /// The name and value of a variable whose value contains templates.
    Template(String, AnsibleVar),
}

/// A layer before templates are resolved, which depends on the host.
type WrittenLayer = IndexMap<SettingSlot, LayerValue>;

/// The name and location of a template variable, and why it could not be resolved, if so.
type TemplateOutcome = ((String, Span), Option<&'static str>);

/// Every layer of an inventory, keyed by forge's slots.
pub(super) struct AnsibleLayers {
    /// Per group: variables from the inventory itself, and variables from `group_vars`.
    groups: BTreeMap<String, (WrittenLayer, WrittenLayer)>,
    hosts: BTreeMap<String, WrittenLayer>,
    /// Every group of a host except `all`, in ascending precedence.
    of_host: BTreeMap<String, Vec<String>>,
    /// Effective values of each host. Resolved once, so that every use gets the same values within one budget.
    effective: BTreeMap<String, AnsibleLayer>,
    /// Values of each group by itself. Its templates read its own variables.
    of_group: BTreeMap<String, AnsibleLayer>,
}

impl AnsibleLayers {
    /// Translates all variables and lists those that cannot be converted.
    pub fn new(inventory: &AnsibleInventory, reading: &mut AnsibleImportLog) -> Self {
        let mut layer =
            |vars: Option<&AnsibleVars>| vars.map(|vars| translate_layer(vars, reading)).unwrap_or_default();
        let of_group = |layer: &mut dyn FnMut(Option<&AnsibleVars>) -> WrittenLayer, name: &String| {
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
        let (effective, of_group) = (BTreeMap::new(), BTreeMap::new());
        let mut layers = Self { groups, hosts, of_host: rank_groups_of_hosts(inventory), effective, of_group };
        layers.resolve_all_templates(reading);
        layers
    }

    /// Returns the values that a host itself sets. Its templates read its effective values.
    pub fn host_layer(&self, name: &str) -> AnsibleLayer {
        let value = |slot: &SettingSlot, held: &LayerValue| match held {
            LayerValue::Value(value) => value.clone(),
            LayerValue::Template(..) => self.effective_value(name, slot).cloned(),
        };
        let written = self.hosts.get(name).into_iter().flatten();
        written.map(|(slot, held)| (slot.clone(), value(slot, held))).collect()
    }

    /// Returns the values of a group by itself.
    pub fn group_layer(&self, name: &str) -> AnsibleLayer {
        self.of_group.get(name).cloned().unwrap_or_default()
    }

    fn written_group_layer(&self, name: &str) -> WrittenLayer {
        let Some((own, files)) = self.groups.get(name) else { return WrittenLayer::new() };
        let mut written = own.clone();
        written.extend(files.clone());
        written
    }

    /// Reports whether a group sets a slot by a template.
    pub fn has_template(&self, group: &str, slot: &SettingSlot) -> bool {
        let held = self.groups.get(group).and_then(|(own, files)| files.get(slot).or_else(|| own.get(slot)));
        matches!(held, Some(LayerValue::Template(..)))
    }

    /// Resolves the templates of all hosts and groups, and lists the unresolved ones: a template that hosts use if it
    /// is unresolved on any host, any other template if it is unresolved in its own group.
    fn resolve_all_templates(&mut self, reading: &mut AnsibleImportLog) {
        let mut budget = TemplateBudget::for_inventory();
        let mut outcomes: HashMap<(String, Span), Option<&'static str>> = HashMap::new();
        let (mut effective, mut of_group) = (BTreeMap::new(), BTreeMap::new());
        for host in self.hosts.keys() {
            let (layer, templates) = resolve_layer(self.written_effective_layer(host), &mut budget);
            for (template, lost) in templates {
                let known = outcomes.entry(template).or_insert(None);
                *known = known.or(lost);
            }
            effective.insert(host.clone(), layer);
        }
        for group in self.groups.keys() {
            let (layer, templates) = resolve_layer(self.written_group_layer(group), &mut budget);
            for (template, lost) in templates {
                outcomes.entry(template).or_insert(lost);
            }
            of_group.insert(group.clone(), layer);
        }
        (self.effective, self.of_group) = (effective, of_group);
        let lost = outcomes.into_iter().filter_map(|((name, span), lost)| Some((name, span, lost?)));
        let lost: BTreeSet<_> = lost.map(|(name, span, why)| (name, reading.format_location(span), why)).collect();
        lost.into_iter().for_each(|(name, place, why)| reading.record_difference(format!("`{name}` {why}"), place));
    }

    /// Returns the groups of a host except `all`, direct and indirect.
    pub fn groups_of_host(&self, host: &str) -> &[String] {
        self.of_host.get(host).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns all effective slots of a host; `None` is a value that cannot be converted.
    pub fn effective_layer(&self, host: &str) -> Option<&AnsibleLayer> {
        self.effective.get(host)
    }

    /// Returns the effective value of a slot, if it can be converted.
    pub fn effective_value(&self, host: &str, slot: &SettingSlot) -> Option<&Value> {
        self.effective.get(host)?.get(slot)?.as_ref()
    }

    /// Merges the layers of a host. All group variables of the inventory itself come before those of `group_vars`, so
    /// `group_vars/all` overrides even the variables of an inner group in the inventory.
    fn written_effective_layer(&self, host: &str) -> WrittenLayer {
        let groups = self.groups_of_host(host);
        let mut layer = WrittenLayer::new();
        let all = "all".to_owned();
        let own = std::iter::once(&all).chain(groups).filter_map(|name| self.groups.get(name)).map(|(own, _)| own);
        let files =
            std::iter::once(&all).chain(groups).filter_map(|name| self.groups.get(name)).map(|(_, files)| files);
        own.chain(files).chain(self.hosts.get(host)).for_each(|next| layer.extend(next.clone()));
        layer
    }
}

/// Resolves the templates of a layer from its own values, each once, after all templates that it reads.
fn resolve_layer(written: WrittenLayer, budget: &mut TemplateBudget) -> (AnsibleLayer, Vec<TemplateOutcome>) {
    let (mut layer, mut templates) = (AnsibleLayer::new(), Vec::new());
    for (slot, held) in written {
        let value = match held {
            LayerValue::Value(value) => value,
            LayerValue::Template(name, var) => {
                templates.push((slot.clone(), name, var));
                None
            }
        };
        layer.insert(slot, value);
    }
    let (readers, mut missing) = index_references(&templates);
    let mut lost = vec![Some(NOT_CARRIED); templates.len()];
    let mut ready: VecDeque<usize> = (0..templates.len()).filter(|at| missing[*at] == 0).collect();
    while let Some(at) = ready.pop_front() {
        let (slot, name, var) = &templates[at];
        match resolve_template_var(name, var, &layer, budget) {
            Ok(value) => {
                layer.insert(slot.clone(), Some(value));
                lost[at] = None;
            }
            // Templates that read it never become ready and are not converted either.
            Err(why) => {
                lost[at] = Some(why);
                continue;
            }
        }
        for reader in &readers[at] {
            missing[*reader] -= 1;
            if missing[*reader] == 0 {
                ready.push_back(*reader);
            }
        }
    }
    let outcomes = templates.into_iter().zip(lost).map(|((_, name, var), lost)| ((name, var.span), lost));
    (layer, outcomes.collect())
}

/// Returns the readers of each template, and the number of references that each template has to others.
fn index_references(templates: &[(SettingSlot, String, AnsibleVar)]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let place = |(at, (slot, ..)): (usize, &(SettingSlot, String, AnsibleVar))| match slot {
        SettingSlot::Var(name) => Some((name.clone(), at)),
        _ => None,
    };
    let places: HashMap<String, usize> = templates.iter().enumerate().filter_map(place).collect();
    let (mut readers, mut missing) = (vec![Vec::new(); templates.len()], vec![0; templates.len()]);
    let mut names = Vec::new();
    for (reader, (_, _, var)) in templates.iter().enumerate() {
        names.clear();
        if let AnsibleValue::Template(value) = &var.value {
            template::collect_names(value, &mut names);
        }
        for read in names.iter().filter_map(|name| places.get(*name)) {
            readers[*read].push(reader);
            missing[reader] += 1;
        }
    }
    (readers, missing)
}

fn resolve_template_var(
    name: &str,
    var: &AnsibleVar,
    layer: &AnsibleLayer,
    budget: &mut TemplateBudget,
) -> Result<Value, &'static str> {
    let AnsibleValue::Template(value) = &var.value else { return Err(NOT_CARRIED) };
    let known = |name: &str| layer.get(&SettingSlot::Var(name.to_owned()))?.as_ref();
    let find = |name: &str| known(name).filter(|value| !may_be_fraction(value));
    let mut names = Vec::new();
    template::collect_names(value, &mut names);
    if names.into_iter().filter_map(known).any(may_be_fraction) {
        return Err(READS_FRACTION);
    }
    let value = AnsibleValue::Value(template::resolve_templates(value, &find, budget)?);
    match translate_var(name, &AnsibleVar { value, span: var.span }) {
        VarMeaning::Is(_, Some(value)) => Ok(value),
        // A template of ssh arguments has the slot of the jump hosts.
        VarMeaning::Parts(parts, rest) if rest.is_empty() => match &parts[..] {
            [(SettingSlot::Connect("jump"), Some(value))] => Ok(value.clone()),
            _ => Err(NOT_CARRIED),
        },
        _ => Err(NOT_CARRIED),
    }
}

const READS_FRACTION: &str = "is not converted: its template reads a variable that may be a fraction, which Ansible writes \
                              in another form";

/// Reports whether a text may be a fraction, which forge keeps as typed and Ansible reformats.
fn may_be_fraction(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<i64>().is_err() && text.replace('_', "").parse::<f64>().is_ok())
}

fn translate_layer(vars: &AnsibleVars, reading: &mut AnsibleImportLog) -> WrittenLayer {
    let mut layer = WrittenLayer::new();
    for (name, var) in vars {
        match translate_var(name, var) {
            // Of two names of the same setting, the newer one takes precedence.
            VarMeaning::Is(slot, _) if name.starts_with("ansible_ssh_") && layer.contains_key(&slot) => {}
            VarMeaning::Parts(parts, rest) => {
                for part in rest {
                    let what = format!("`{name}`: `{part}` {NOT_CONVERTED}");
                    reading.record_difference(what, reading.format_location(var.span));
                }
                for (slot, value) in parts {
                    layer.entry(slot).or_insert(LayerValue::Value(value));
                }
            }
            VarMeaning::Is(slot, value) => drop(layer.insert(slot, LayerValue::Value(value))),
            VarMeaning::Lost(slot, _) if matches!(var.value, AnsibleValue::Template(_)) => {
                layer.insert(slot, LayerValue::Template(name.clone(), var.clone()));
            }
            VarMeaning::Lost(slot, why) => {
                reading.record_difference(format!("`{name}` {why}"), reading.format_location(var.span));
                layer.insert(slot, LayerValue::Value(None));
            }
            VarMeaning::Nowhere(why) => {
                reading.record_difference(format!("`{name}` {why}"), reading.format_location(var.span))
            }
            VarMeaning::Anyway => {}
        }
    }
    layer
}

/// Sorts the groups of every host by depth, priority and name, the order in which Ansible merges them.
fn rank_groups_of_hosts(inventory: &AnsibleInventory) -> BTreeMap<String, Vec<String>> {
    let depths = compute_depths(inventory);
    let outer = collect_outer_groups(inventory);
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

/// Returns the length of the longest path from `all` to each group.
fn compute_depths(inventory: &AnsibleInventory) -> BTreeMap<String, usize> {
    let mut depths: BTreeMap<String, usize> = inventory.groups.keys().map(|name| (name.clone(), 0)).collect();
    // Groups have no cycles, so as many rounds as there are groups are enough.
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

/// Returns the ancestors of every group.
pub(super) fn collect_outer_groups(inventory: &AnsibleInventory) -> BTreeMap<String, BTreeSet<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::cpu_time::thread_cpu_time;
    use crate::diag::FileId;
    use serde_json::json;

    fn template(name: &str, value: Value) -> (SettingSlot, LayerValue) {
        let var =
            AnsibleVar { value: AnsibleValue::from_value(value), span: Span { file: FileId(0), start: 0, end: 0 } };
        (SettingSlot::Var(name.to_owned()), LayerValue::Template(name.to_owned(), var))
    }

    fn value(name: &str, value: Value) -> (SettingSlot, LayerValue) {
        (SettingSlot::Var(name.to_owned()), LayerValue::Value(Some(value)))
    }

    /// Each template comes before the one that it needs: rescanning all templates after each would be quadratic.
    #[test]
    fn a_long_chain_of_templates_is_resolved_in_one_pass() {
        const LINKS: usize = 100_000;
        let chain = |link: &dyn Fn(usize) -> Value| -> WrittenLayer {
            let links = (0..LINKS).map(|at| template(&format!("a{at}"), link(at + 1)));
            links.chain([value(&format!("a{LINKS}"), json!("x"))]).collect()
        };
        let began = thread_cpu_time();
        let (layer, outcomes) =
            resolve_layer(chain(&|next| json!(format!("{{{{ a{next} }}}}"))), &mut TemplateBudget::for_inventory());
        assert_eq!((outcomes.len(), layer.len()), (LINKS, LINKS + 1));
        assert!(outcomes.iter().all(|(_, lost)| lost.is_none()));
        assert!(layer.values().all(|value| *value == Some(json!("x"))));
        // Each link adds a level: a value that nests too deeply is dropped, with every template that reads it.
        let (_, outcomes) =
            resolve_layer(chain(&|next| json!([format!("{{{{ a{next} }}}}")])), &mut TemplateBudget::for_inventory());
        let lost = |why| outcomes.iter().filter(|(_, lost)| *lost == why).count();
        assert_eq!((lost(None), lost(Some(template::TOO_DEEP)), lost(Some(NOT_CARRIED))), (55, 1, LINKS - 56));
        let took = thread_cpu_time() - began;
        assert!(took.as_secs() < 20, "{took:?}");
    }
}
