//! Builds the names that templates read on one host, limited to those that are read.

use super::expanded_step::ExpansionInputs;
use super::template_reads::TemplateReads;
use crate::config::instances::{build_host_tree, build_sourced_tree};
use crate::config::template::{TemplateBindings, TemplateRoot, build_exports, build_facts, build_map, build_tree};
use crate::config::{FactSource, Host, Project, RecipeInstance};
use crate::facts::Facts;
use crate::model::HostName;
use hashbrown::HashMap;
use minijinja::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};

/// Builds the names for one project. Names that hosts share are built once.
pub(super) struct BindingsBuilder<'p> {
    pub project: &'p Project,
    params: RwLock<HashMap<usize, Value>>,
    hosts: RwLock<HashMap<usize, Value>>,
}

impl<'p> BindingsBuilder<'p> {
    pub fn new(project: &'p Project) -> Self {
        Self { project, params: RwLock::default(), hosts: RwLock::default() }
    }

    pub fn build_bindings(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        reads: &TemplateReads,
        known: &ExpansionInputs<'_>,
    ) -> TemplateBindings {
        TemplateBindings {
            params: Some(self.build_params(instance)),
            vars: reads.has_root(TemplateRoot::Vars).then(|| build_sourced_tree("vars", &host.vars)),
            recipes: reads.has_root(TemplateRoot::Recipes).then(|| self.build_recipes(host, instance)),
            host: reads.has_root(TemplateRoot::Host).then(|| build_host_tree(host)),
            hosts: reads.has_root(TemplateRoot::Hosts).then(|| self.build_selection(instance)),
            members: reads.has_root(TemplateRoot::Members).then(|| self.build_members(instance)),
            exports: reads
                .has_root(TemplateRoot::Exports)
                .then(|| build_exports(self.project.recipes.keys().map(String::as_str), known.exports)),
            facts: reads.has_root(TemplateRoot::Facts).then(|| select_facts(known.facts, reads.facts.as_ref())),
            ..TemplateBindings::default()
        }
    }

    fn build_params(&self, instance: &Arc<RecipeInstance>) -> Value {
        get_or_build_value(&self.params, Arc::as_ptr(instance) as usize, || {
            build_sourced_tree("params", &instance.params)
        })
    }

    /// Returns the recipes of the host. Only a recipe that is being removed itself sees other recipes that are being
    /// removed.
    fn build_recipes(&self, host: &Host, of: &RecipeInstance) -> Value {
        if host.name.is_cluster() {
            return self.build_all_recipes();
        }
        let instances = self.project.instances.get(&host.name).map(Vec::as_slice).unwrap_or_default();
        let there = instances.iter().filter(|instance| of.absent || !instance.absent);
        build_map("recipes", there.map(|instance| (instance.recipe.name.clone(), self.build_params(instance))))
    }

    /// Returns every recipe that is applied to some host, with the parameters that are equal on all its hosts.
    fn build_all_recipes(&self) -> Value {
        let mut all: BTreeMap<&str, Vec<&Arc<RecipeInstance>>> = BTreeMap::new();
        for instance in self.project.instances.values().flatten().filter(|instance| !instance.absent) {
            let own = all.entry(&instance.recipe.name).or_default();
            if !own.iter().any(|known| Arc::ptr_eq(known, instance)) {
                own.push(instance);
            }
        }
        let same = |own: &[&Arc<RecipeInstance>], name: &str| {
            own.iter()
                .all(|other| other.params.get(name).map(|p| &p.value) == own[0].params.get(name).map(|p| &p.value))
        };
        build_map(
            "recipes",
            all.into_iter().map(|(recipe, own)| {
                let params = own[0].params.iter().filter(|(name, _)| same(&own, name));
                let params = params.map(|(name, param)| (name.clone(), param.clone())).collect();
                (recipe.to_owned(), build_sourced_tree("params", &params))
            }),
        )
    }

    fn build_selection(&self, instance: &Arc<RecipeInstance>) -> Value {
        get_or_build_value(&self.hosts, Arc::as_ptr(&instance.selection) as usize, || {
            build_tree("hosts", &instance.selection.iter().filter_map(|name| self.describe_host(name)).collect())
        })
    }

    /// Returns the hosts to which some entry applies the same recipe, without those where it is being removed.
    fn build_members(&self, of: &RecipeInstance) -> Value {
        let same = |instance: &Arc<RecipeInstance>| instance.recipe.name == of.recipe.name && !instance.absent;
        let members = self.project.instances.iter().filter(|(_, own)| own.iter().any(same));
        build_tree("members", &members.filter_map(|(name, _)| self.describe_host(name)).collect())
    }

    fn describe_host(&self, name: &HostName) -> Option<serde_json::Value> {
        let host = self.project.hosts.get(name)?;
        Some(serde_json::json!({ "name": host.name.as_str(), "address": host.connect.address }))
    }
}

fn get_or_build_value(map: &RwLock<HashMap<usize, Value>>, key: usize, build: impl FnOnce() -> Value) -> Value {
    if let Some(value) = map.read().ok().and_then(|map| map.get(&key).cloned()) {
        return value;
    }
    let value = build();
    if let Ok(mut map) = map.write() {
        map.insert(key, value.clone());
    }
    value
}

/// Converts only the facts that are read to template values, because some facts are large.
fn select_facts(source: FactSource<'_>, names: Option<&BTreeSet<String>>) -> Value {
    match (source, names) {
        (FactSource::Known(known), Some(names)) => {
            build_facts(FactSource::Known(&Facts(known.0.select(|name| names.contains(name)))))
        }
        _ => build_facts(source),
    }
}
