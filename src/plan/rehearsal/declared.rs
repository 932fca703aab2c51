//! What the steps of a host declare: paths, packages, units and accounts that may change without being a finding.

use crate::config::ExpansionState;
use crate::plan::{HostContext, HostPlan, StepInstance};
use crate::probe::{Observation, PackageFileState, Probe, ProbeReading};
use crate::resource::{ProvidedItem, Resource};
use std::collections::BTreeSet;

/// What the steps of one host declare.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredEffects {
    pub(super) steps: Vec<DeclaredStep>,
}

/// What one step declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeclaredStep {
    /// `recipe/step[key]`, as the view's journal names it.
    pub id: String,
    pub paths: BTreeSet<String>,
    pub packages: BTreeSet<String>,
    /// With their suffixes.
    pub units: BTreeSet<String>,
    pub accounts: BTreeSet<String>,
}

/// Collects what the steps of a host declare. `plan` adds the titles of steps that could not be expanded yet, if they are
/// names: the title of a command is its script, whose words declare nothing.
pub fn collect_declared_effects(case: &HostContext<'_>, plan: &HostPlan) -> DeclaredEffects {
    let describe = |turn: &StepInstance<'_>| describe_instance(turn, &case.seen.observation);
    let mut steps: Vec<DeclaredStep> = case.expand_local_steps().iter().map(describe).collect();
    for step in &plan.steps {
        let id = step.id.to_string();
        if steps.iter().any(|known| known.id == id) {
            continue;
        }
        let mut declared = DeclaredStep { id, ..DeclaredStep::default() };
        if step.title.raw().split(", ").all(|name| !name.contains(char::is_whitespace)) {
            declared.add_name(step.title.raw());
        }
        steps.push(declared);
    }
    DeclaredEffects { steps }
}

fn describe_instance(turn: &StepInstance<'_>, seen: &Observation) -> DeclaredStep {
    let mut declared = DeclaredStep { id: turn.expanded.id.to_string(), ..DeclaredStep::default() };
    if let ExpansionState::Resource(resource) = &turn.expanded.state {
        declared.add_resource(resource.as_ref());
        declared.add_package_files(&resource.probes(), seen);
    }
    turn.step.provides.iter().cloned().for_each(|item| declared.add_item(item));
    declared
}

impl DeclaredStep {
    fn add_resource(&mut self, resource: &dyn Resource) {
        self.paths.extend(resource.labeled_paths());
        self.units.extend(resource.running_unit().map(full_unit_name));
        for (_, value) in resource.exclusive_claims().into_iter().chain(resource.shared_claims()) {
            self.add_name(&value);
        }
        resource.provided_items().into_iter().for_each(|item| self.add_item(item));
    }

    /// Adds the packages of files on the host, which their steps need not name.
    fn add_package_files(&mut self, probes: &[Probe], seen: &Observation) {
        for probe in probes {
            if let Ok(ProbeReading::PackageFile(state)) = seen.get(probe)
                && let PackageFileState::Present(info) = state.as_ref()
            {
                self.packages.insert(info.name.clone());
            }
        }
    }

    fn add_item(&mut self, item: ProvidedItem) {
        let (set, name) = match item {
            ProvidedItem::Path(path) => (&mut self.paths, path),
            ProvidedItem::Unit(unit) => (&mut self.units, full_unit_name(&unit)),
            ProvidedItem::User(name) | ProvidedItem::Group(name) => (&mut self.accounts, name),
            ProvidedItem::Package(package) => (&mut self.packages, package),
            ProvidedItem::Object(_) | ProvidedItem::Served(_) | ProvidedItem::Cluster => return,
        };
        set.insert(name);
    }

    /// Adds what a title or a claim names: a path, or names of packages, units or accounts.
    fn add_name(&mut self, text: &str) {
        if text.starts_with('/') {
            self.paths.insert(text.to_owned());
            return;
        }
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            let word = word.split('=').next().unwrap_or(word);
            self.packages.insert(word.to_owned());
            self.accounts.insert(word.to_owned());
            self.units.insert(full_unit_name(word));
        }
    }

    /// Reports whether it declares a path that contains this one.
    pub(super) fn declares_around(&self, path: &str) -> bool {
        self.paths.iter().any(|own| path.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// Returns a unit's name with its suffix.
pub(super) fn full_unit_name(name: &str) -> String {
    const SUFFIXES: [&str; 8] = [".service", ".socket", ".target", ".timer", ".mount", ".path", ".slice", ".automount"];
    match SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        true => name.to_owned(),
        false => format!("{name}.service"),
    }
}
