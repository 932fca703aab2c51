//! The values that steps export, by host, and why a host has none.

use super::ObservedHost;
use super::assessment::{StepPredictions, assess_step};
use super::host_context::{HostContext, PlanContext, StepInstance};
use super::required_probes::list_export_probes;
use super::rule_assessment::assess_rules;
use crate::config::{
    ExpansionInputs, ExpansionState, ExportedValue, ExportedValues, FactSource, MissingExport, RecipeInstance,
    RecipeStep, StepExport,
};
use crate::model::{HostName, SecretStore, StepId, StepScope, StepVerdict, Value};
use crate::probe::{Probe, ProbeReading};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The exported values by host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostExports(BTreeMap<(String, String), ExportSlot>);

#[derive(Clone, Debug, Default, PartialEq)]
struct ExportSlot {
    /// Scope `host`: every host has its own value.
    each: bool,
    /// Readers go on without the hosts whose value is missing.
    partial: bool,
    by_host: BTreeMap<HostName, HostExport>,
}

/// The value that one host exports.
#[derive(Clone, Debug, PartialEq)]
enum HostExport {
    Known(Value),
    /// Readers wait.
    Pending,
    /// Readers wait for the change of the step, which may bring another value. The value is the one before.
    Withdrawn(Value),
    /// Readers do not wait: this run does not make it.
    Missing(MissingExport),
}

/// What one host exports under one name, as a coordinator and its workers tell each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportEntry {
    /// The recipe that exports the value.
    pub recipe: String,
    /// The name of the value.
    pub name: String,
    /// The host.
    pub host: HostName,
    /// Whether every host has a value of its own.
    pub each: bool,
    /// Whether readers go on without the hosts whose value is missing.
    pub partial: bool,
    /// The value.
    pub value: ExportEntryValue,
}

/// The value of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportEntryValue {
    /// It exists.
    Known(Value),
    /// Readers wait for it.
    Pending,
    /// Readers do not wait: this run does not make it, or it is not passed on.
    Missing(MissingExport),
}

impl ExportEntry {
    /// Reports whether the value exists and is passed on.
    pub fn is_known(&self) -> bool {
        matches!(self.value, ExportEntryValue::Known(_))
    }

    /// Returns the entry without its value if that contains a secret: a placeholder, or text of one.
    pub fn without_secret(self, secrets: &SecretStore) -> Self {
        match &self.value {
            ExportEntryValue::Known(value) if has_secret(value, secrets) => {
                Self { value: ExportEntryValue::Missing(MissingExport::Secret), ..self }
            }
            _ => self,
        }
    }
}

fn has_secret(value: &Value, secrets: &SecretStore) -> bool {
    let is_secret = |text: &str| secrets.occurs_in(text);
    match value {
        Value::String(text) => is_secret(text),
        Value::Array(list) => list.iter().any(|value| has_secret(value, secrets)),
        Value::Object(fields) => fields.iter().any(|(key, value)| is_secret(key) || has_secret(value, secrets)),
        other => is_secret(&other.to_string()),
    }
}

impl HostExports {
    fn open_slot(&mut self, recipe: &str, step: &RecipeStep, export: &StepExport) -> &mut ExportSlot {
        let slot = self.0.entry((recipe.to_owned(), export.name.clone())).or_default();
        (slot.each, slot.partial) = (step.scope == StepScope::Host, export.partial);
        slot
    }

    /// Sets the value that a step instance exports on a host; readers of it wait while it is `None`.
    pub fn set_value(&mut self, turn: &StepInstance<'_>, export: &StepExport, host: &HostName, value: Option<Value>) {
        let value = value.map_or(HostExport::Pending, HostExport::Known);
        self.open_slot(&turn.expanded.id.recipe, turn.step, export).by_host.insert(host.clone(), value);
    }

    /// Records that a host takes no part in a run, so that what it exports is not known.
    fn mark_unobserved(&mut self, recipe: &str, step: &RecipeStep, host: &HostName, why: MissingExport) {
        for export in step.exports.values().filter(|_| step.scope == StepScope::Host) {
            let slot = self.open_slot(recipe, step, export);
            slot.by_host.entry(host.clone()).or_insert(HostExport::Missing(why));
        }
    }

    /// Returns whether readers wait for a value that a step instance exports on a host.
    fn lacks_value(&self, turn: &StepInstance<'_>, host: &HostName) -> bool {
        let slot = |export: &StepExport| self.0.get(&(turn.expanded.id.recipe.to_string(), export.name.clone()));
        let mut slots = turn.step.exports.values().filter_map(slot);
        slots.any(|slot| slot.by_host.get(host) == Some(&HostExport::Pending))
    }

    /// Records of values that were abandoned and that a recording leaves out that they exist.
    fn mark_withheld(&mut self, case: &HostContext<'_>, turn: &StepInstance<'_>) {
        let probes = list_export_probes(case, turn).into_iter();
        let is_withheld = |probe: &Probe| case.seen.observation.get(probe).is_err_and(|unknown| unknown.withheld);
        for (name, _) in probes.filter(|(_, probe)| is_withheld(probe)) {
            let slot = self.0.get_mut(&(turn.expanded.id.recipe.to_string(), name));
            if let Some(value @ HostExport::Missing(_)) = slot.and_then(|slot| slot.by_host.get_mut(&case.host.name)) {
                *value = HostExport::Missing(MissingExport::Secret);
            }
        }
    }

    /// Drops what a step instance would export, as it does not apply to a host.
    fn drop_instance(&mut self, turn: &StepInstance<'_>, host: &HostName) {
        for export in turn.step.exports.values().filter(|export| export.value.is_none()) {
            let slot = self.open_slot(&turn.expanded.id.recipe, turn.step, export);
            if slot.each && slot.by_host.get(host) == Some(&HostExport::Pending) {
                slot.by_host.remove(host);
            }
        }
    }

    /// Withdraws the values of a host whose step will change: the change may bring another value, so readers wait for
    /// the step. Returns whether a value was withdrawn.
    pub(super) fn withdraw_values(&mut self, turn: &StepInstance<'_>, host: &HostName) -> bool {
        let mut is_withdrawn = false;
        for export in turn.step.exports.values().filter(|export| export.read.is_some()) {
            let slot = self.open_slot(&turn.expanded.id.recipe, turn.step, export);
            let Some(value) = slot.by_host.get_mut(host) else { continue };
            if let HostExport::Known(before) = value {
                *value = HostExport::Withdrawn(std::mem::take(before));
                is_withdrawn = true;
            }
        }
        is_withdrawn
    }

    /// Records that the missing exports of a step of `recipe` will not be made on a host: other steps no longer wait for
    /// them. What was withdrawn counts again.
    ///
    /// Exports that are computed from facts stay: a host that cannot report a value may still have one.
    pub fn abandon_step(&mut self, recipe: &str, step: &RecipeStep, host: &HostName) {
        for export in step.exports.values().filter(|export| export.value.is_none()) {
            if let Some(slot) = self.0.get_mut(&(recipe.to_owned(), export.name.clone())) {
                slot.abandon_host(host);
            }
        }
    }

    /// Records that nothing tells any more which values a host exports: what readers wait for has no answer, and it is not
    /// known either whether the host still has a value that was withdrawn. `acted`: something acted on the host and died, so
    /// that nothing is known of its other values either.
    pub fn lose_host(&mut self, host: &HostName, acted: bool) {
        for value in self.0.values_mut().filter_map(|slot| slot.by_host.get_mut(host)) {
            let is_known = matches!(value, HostExport::Known(_));
            if matches!(value, HostExport::Pending | HostExport::Withdrawn(_)) || acted && is_known {
                *value = HostExport::Missing(MissingExport::NoAnswer);
            }
        }
    }

    /// Records that a host left the run: other steps no longer wait for its exports.
    pub fn abandon_host(&mut self, host: &HostName) {
        self.0.values_mut().for_each(|slot| slot.abandon_host(host));
    }

    /// Returns whether a value that exists has another one in `fresh`.
    pub fn differs_from(&self, fresh: &HostExports) -> bool {
        self.list_changed(fresh).next().is_some()
    }

    /// Replaces the values that exist and have another one in `fresh`.
    pub fn replace_values(&mut self, fresh: &HostExports) {
        let changed: Vec<_> =
            self.list_changed(fresh).map(|(key, host, value)| (key.clone(), host.clone(), value.clone())).collect();
        for (key, host, value) in changed {
            self.0.entry(key).or_default().by_host.insert(host, value);
        }
    }

    /// Returns the entries that `admits` accepts, by recipe, name and host.
    pub fn list_entries(&self, admits: impl Fn(&str, &str, &HostName) -> bool) -> Vec<ExportEntry> {
        let of_slot = |((recipe, name), slot): (&(String, String), &ExportSlot)| {
            let admitted = slot.by_host.iter().filter(|(host, _)| admits(recipe, name, host));
            admitted.map(|(host, value)| slot.build_entry((recipe, name), host, value)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_slot).collect()
    }

    /// Returns the entries of a host, without a look at those of other hosts.
    pub fn list_host_entries(&self, host: &HostName) -> Vec<ExportEntry> {
        let own = self.0.iter().filter_map(|((recipe, name), slot)| {
            let value = slot.by_host.get(host)?;
            Some(slot.build_entry((recipe, name), host, value))
        });
        own.collect()
    }

    /// Takes over an entry.
    pub fn set_entry(&mut self, entry: ExportEntry) {
        let slot = self.0.entry((entry.recipe, entry.name)).or_default();
        (slot.each, slot.partial) = (entry.each, entry.partial);
        let value = match entry.value {
            ExportEntryValue::Known(value) => HostExport::Known(value),
            // What was withdrawn is what the host still has.
            ExportEntryValue::Pending if matches!(slot.by_host.get(&entry.host), Some(HostExport::Withdrawn(_))) => {
                return;
            }
            ExportEntryValue::Pending => HostExport::Pending,
            ExportEntryValue::Missing(why) => HostExport::Missing(why),
        };
        slot.by_host.insert(entry.host, value);
    }

    /// Takes over an entry of another observation: it replaces a value that is known. That a value contains a secret, only
    /// an observation of the host itself shows, not a recording of it.
    pub fn replace_observed(&mut self, entry: ExportEntry) {
        let known =
            self.0.get(&(entry.recipe.clone(), entry.name.clone())).and_then(|slot| slot.by_host.get(&entry.host));
        let is_replaced = match (known, &entry.value) {
            (Some(HostExport::Known(_)), ExportEntryValue::Known(_)) => true,
            (Some(HostExport::Known(_) | HostExport::Missing(_)), ExportEntryValue::Missing(why)) => {
                *why == MissingExport::Secret
            }
            _ => false,
        };
        if is_replaced {
            self.set_entry(entry);
        }
    }

    fn list_changed<'f>(
        &self,
        fresh: &'f HostExports,
    ) -> impl Iterator<Item = (&'f (String, String), &'f HostName, &'f HostExport)> {
        let exists =
            |key: &(String, String), host: &HostName| self.0.get(key).and_then(|slot| slot.by_host.get(host)).cloned();
        let values =
            fresh.0.iter().flat_map(|(key, slot)| slot.by_host.iter().map(move |(host, value)| (key, host, value)));
        values.filter(move |(key, host, value)| match (exists(key, host), value) {
            (Some(HostExport::Known(old)), HostExport::Known(new)) => old != *new,
            _ => false,
        })
    }

    /// Returns the values as templates see them.
    pub fn to_exports(&self) -> ExportedValues {
        let mut exports = ExportedValues::new();
        for ((recipe, name), slot) in &self.0 {
            exports.entry(recipe.clone()).or_default().insert(name.clone(), slot.to_value());
        }
        exports
    }
}

impl ExportSlot {
    fn build_entry(&self, (recipe, name): (&str, &str), host: &HostName, value: &HostExport) -> ExportEntry {
        ExportEntry {
            recipe: recipe.to_owned(),
            name: name.to_owned(),
            host: host.clone(),
            each: self.each,
            partial: self.partial,
            value: match value {
                HostExport::Known(value) => ExportEntryValue::Known(value.clone()),
                // Readers wait for both.
                HostExport::Pending | HostExport::Withdrawn(_) => ExportEntryValue::Pending,
                HostExport::Missing(why) => ExportEntryValue::Missing(*why),
            },
        }
    }

    /// Ends the wait for a host. A value that was withdrawn is what the host still has.
    fn abandon_host(&mut self, host: &HostName) {
        match self.by_host.get_mut(host) {
            Some(value @ HostExport::Pending) if self.each => *value = HostExport::Missing(MissingExport::NoValue),
            Some(HostExport::Withdrawn(before)) => {
                let before = std::mem::take(before);
                self.by_host.insert(host.clone(), HostExport::Known(before));
            }
            _ => {}
        }
    }

    fn to_value(&self) -> ExportedValue {
        let known = self.by_host.iter().filter_map(|(host, value)| match value {
            HostExport::Known(value) => Some((host.to_string(), value.clone())),
            _ => None,
        });
        if !self.each {
            return ExportedValue::Single(known.map(|(_, value)| value).next());
        }
        let is_awaited = |value: &HostExport| matches!(value, HostExport::Pending | HostExport::Withdrawn(_));
        let pending = self.by_host.iter().filter(|(_, value)| is_awaited(value));
        // A value that exists and is only not passed on is not left out.
        let counts = |why: &MissingExport| !self.partial || *why == MissingExport::Secret;
        let missing = self.by_host.iter().filter_map(|(host, value)| match value {
            HostExport::Missing(why) if counts(why) => Some((host.to_string(), *why)),
            _ => None,
        });
        ExportedValue::ByHost {
            known: known.collect(),
            pending: pending.map(|(host, _)| host.to_string()).collect(),
            missing: missing.collect(),
        }
    }
}

/// Reads the exported values from the observations of hosts.
pub fn read_exported_values(
    ground: PlanContext<'_>,
    seen: &[ObservedHost],
    others: OtherHosts<'_>,
    secrets: &mut SecretStore,
) -> HostExports {
    let mut published = HostExports::default();
    if !ground.project.exports_values() {
        return published;
    }
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = HostContext::new(ground, &seen.host, seen) else { continue };
        if !case.list_steps().iter().any(|(_, _, step)| !step.exports.is_empty()) {
            continue;
        }
        let turns = case.expand_local_steps();
        for turn in turns.iter().filter(|turn| exports_values(turn)) {
            read_step_exports(&case, turn, secrets, &mut published);
            if matches!(turn.expanded.state, ExpansionState::NotApplicable(_)) {
                published.drop_instance(turn, &seen.host);
                continue;
            }
            if published.lacks_value(turn, &seen.host) && !may_export(&case, turn, &turns) {
                published.abandon_step(&turn.expanded.id.recipe, turn.step, &seen.host);
                published.mark_withheld(&case, turn);
            }
        }
    }
    mark_unobserved_hosts(ground, seen, others, &mut published);
    published
}

/// Who observes the hosts that an observation leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherHosts<'h> {
    /// Nothing observes them: their exports are not known.
    Unknown,
    /// Another worker of the run, or the plan of a rehearsal, observes them.
    ObservedElsewhere {
        /// Those that nothing observes again.
        done: &'h [HostName],
    },
}

/// Returns whether a step instance exports values: one that is being removed does not.
pub fn exports_values(turn: &StepInstance<'_>) -> bool {
    !turn.step.exports.is_empty() && !turn.instance.absent
}

/// Marks the exports of the hosts that the run leaves out, and of those that did not answer, except of steps that do not
/// apply to them whatever they report.
fn mark_unobserved_hosts(
    ground: PlanContext<'_>,
    seen: &[ObservedHost],
    others: OtherHosts<'_>,
    published: &mut HostExports,
) {
    let mut seen: BTreeMap<&HostName, bool> = seen.iter().map(|seen| (&seen.host, seen.is_observed())).collect();
    if let OtherHosts::ObservedElsewhere { done } = others {
        for host in done {
            seen.entry(host).or_insert(false);
        }
    }
    for (host, instances) in &ground.project.instances {
        let why = match seen.get(host) {
            Some(true) => continue,
            Some(false) => MissingExport::NoAnswer,
            None if others != OtherHosts::Unknown => continue,
            None => MissingExport::NotInRun,
        };
        for instance in instances.iter().filter(|instance| !instance.absent) {
            for step in instance.recipe.steps.iter().filter(|step| !step.exports.is_empty()) {
                if !is_excluded(ground, host, instance, step) {
                    published.mark_unobserved(&instance.recipe.name, step, host, why);
                }
            }
        }
    }
}

/// Returns whether a step does not apply to a host, whatever that reports.
fn is_excluded(
    ground: PlanContext<'_>,
    host: &HostName,
    instance: &Arc<RecipeInstance>,
    step: &Arc<RecipeStep>,
) -> bool {
    let declared = ExpansionInputs { facts: FactSource::NotYet, exports: &ExportedValues::new() };
    let Some(host) = ground.project.hosts.get(host) else { return false };
    let expanded = ground.expander.expand_step(host, instance, step, &declared);
    expanded.iter().all(|turn| matches!(turn.state, ExpansionState::NotApplicable(_)))
}

/// Returns whether a host may still export the values of a step instance: other steps do not wait for a value that
/// cannot come.
fn may_export(case: &HostContext<'_>, turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> bool {
    if case.seen.hold.is_some() || assess_rules(case, turn.instance).is_some() {
        return false;
    }
    // A step that matches is read again in its turn if a step that it builds on has changed.
    let builds_on = |other: &&StepInstance<'_>| {
        let is_needed = || case.graph.incoming_edges(turn.index).any(|edge| edge.from == other.index);
        other.expanded.id.recipe == turn.expanded.id.recipe || is_needed()
    };
    let mut before = turns.iter().take_while(|other| other.index != turn.index).filter(builds_on);
    let is_read = turn.step.exports.values().any(|export| export.read.is_some());
    may_change(case, turn, turns) || is_read && before.any(|other| may_change(case, other, turns))
}

/// Reports whether a step differs by itself, or reads a value that is not known yet.
pub(super) fn may_change(case: &HostContext<'_>, turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> bool {
    matches!(turn.expanded.state, ExpansionState::Deferred(_))
        || assess_step(case, turn, turns, &StepPredictions::default()).judgement.verdict == StepVerdict::Change
}

/// Reads the exports of one step instance from the last observation of its host.
pub fn read_step_exports(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    secrets: &mut SecretStore,
    published: &mut HostExports,
) {
    for (name, probe) in list_export_probes(case, turn) {
        let Some(export) = turn.step.exports.get(&name) else { continue };
        let text = match case.seen.observation.get(&probe) {
            Ok(ProbeReading::Output(output)) if output.status == 0 => {
                Some(output.stdout.raw().trim_end_matches('\n').to_owned())
            }
            _ => None,
        };
        let value = text.map(|text| to_exported_value(export, &turn.expanded.id, &case.host.name, text, secrets));
        published.set_value(turn, export, &case.host.name, value);
    }
    for export in turn.step.exports.values() {
        if export.stdout {
            published.set_value(turn, export, &case.host.name, None);
        } else if let Some(value) = &export.value {
            let value = case.ground.expander.evaluate_export(case.host, turn.instance, value, &case.known_values());
            published.set_value(turn, export, &case.host.name, value);
        }
    }
}

/// Returns the value as templates see it: a placeholder if it is secret. Templates rely on it that a secret is not empty.
pub fn to_exported_value(
    export: &StepExport,
    id: &StepId,
    host: &HostName,
    text: String,
    secrets: &mut SecretStore,
) -> Value {
    if export.secret && !text.is_empty() {
        let name = format!("export {} of {id} on {host}", export.name);
        return Value::from(secrets.insert(&name, SecretString::from(text)).0);
    }
    Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(value: Value) -> ExportEntry {
        ExportEntry {
            recipe: "r".to_owned(),
            name: "v".to_owned(),
            host: HostName::new("a"),
            each: true,
            partial: true,
            value: ExportEntryValue::Known(value),
        }
    }

    #[test]
    fn value_that_contains_a_secret_is_told_as_missing() {
        let mut secrets = SecretStore::default();
        let placeholder = secrets.insert("token", "tr0ub4dor".into());
        let number = secrets.insert("pin", "48151623".into());
        assert!(SecretStore::has_placeholder(&number.0));
        let open = [json!("tr0ub"), json!({ "a": ["b", 4815] })];
        for value in open {
            assert_eq!(entry(value.clone()).without_secret(&secrets), entry(value));
        }
        let secret = [
            json!("user=x tr0ub4dor"),
            json!({ "a": ["b", "tr0ub4dor"] }),
            json!({ "tr0ub4dor": 1 }),
            json!(48151623),
            json!(placeholder.0),
        ];
        for value in secret {
            let hidden = entry(value).without_secret(&secrets);
            assert_eq!(hidden.value, ExportEntryValue::Missing(MissingExport::Secret));
            let json = serde_json::to_string(&hidden).unwrap();
            assert!(!json.contains("tr0ub4dor") && !json.contains("48151623"), "{json}");
        }
    }

    /// Also if hosts without a value are left out: this one has a value.
    #[test]
    fn reader_waits_for_no_secret_and_does_not_go_on_without_it() {
        let mut exports = HostExports::default();
        let hidden = ExportEntry { value: ExportEntryValue::Missing(MissingExport::Secret), ..entry(json!(1)) };
        exports.set_entry(hidden.clone());
        assert_eq!(exports.list_entries(|_, _, _| true), [hidden]);
        let ExportedValue::ByHost { missing, pending, .. } = &exports.to_exports()["r"]["v"] else { panic!() };
        assert_eq!((missing.len(), pending.len()), (1, 0));
    }

    /// Only an observation of the host itself shows the secret.
    #[test]
    fn observed_secret_replaces_what_a_recording_shows() {
        let secret = ExportEntry { value: ExportEntryValue::Missing(MissingExport::Secret), ..entry(json!(1)) };
        let no_value = ExportEntry { value: ExportEntryValue::Missing(MissingExport::NoValue), ..secret.clone() };
        let pending = ExportEntry { value: ExportEntryValue::Pending, ..secret.clone() };
        let replace = |before: ExportEntry, observed: &ExportEntry| {
            let mut exports = HostExports::default();
            exports.set_entry(before);
            exports.replace_observed(observed.clone());
            exports.list_entries(|_, _, _| true)
        };
        assert_eq!(replace(entry(json!("x ***")), &secret), std::slice::from_ref(&secret));
        assert_eq!(replace(no_value.clone(), &secret), std::slice::from_ref(&secret));
        assert_eq!(replace(pending.clone(), &secret), [pending]);
        assert_eq!(replace(entry(json!("k")), &no_value), [entry(json!("k"))]);
    }

    #[test]
    fn lost_host_has_no_value_that_readers_wait_for() {
        let mut exports = HostExports::default();
        exports.set_entry(entry(json!("old")));
        let host = HostName::new("a");
        exports.lose_host(&host, false);
        assert_eq!(exports.list_entries(|_, _, _| true), [entry(json!("old"))], "nothing waits for it");
        let lost = [ExportEntry { value: ExportEntryValue::Missing(MissingExport::NoAnswer), ..entry(json!(1)) }];
        for before in [HostExport::Withdrawn(json!("old")), HostExport::Pending] {
            exports.0.get_mut(&("r".to_owned(), "v".to_owned())).unwrap().by_host.insert(host.clone(), before);
            exports.lose_host(&host, false);
            exports.abandon_host(&host);
            assert_eq!(exports.list_entries(|_, _, _| true), lost);
        }
        exports.set_entry(entry(json!("old")));
        exports.lose_host(&host, true);
        assert_eq!(exports.list_entries(|_, _, _| true), lost, "it may have changed");
    }

    #[test]
    fn pending_entry_keeps_what_was_withdrawn() {
        let mut exports = HostExports::default();
        exports.set_entry(entry(json!("old")));
        let key = ("r".to_owned(), "v".to_owned());
        exports.0.get_mut(&key).unwrap().by_host.insert(HostName::new("a"), HostExport::Withdrawn(json!("old")));
        exports.set_entry(ExportEntry { value: ExportEntryValue::Pending, ..entry(json!(1)) });
        exports.replace_observed(entry(json!("older")));
        exports.abandon_host(&HostName::new("a"));
        assert_eq!(exports.list_entries(|_, _, _| true), [entry(json!("old"))]);
        exports.replace_observed(entry(json!("new")));
        assert_eq!(exports.list_entries(|_, _, _| true), [entry(json!("new"))]);
    }
}
