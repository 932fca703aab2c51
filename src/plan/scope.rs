//! What spans hosts: who runs a `one` step, and the values that steps export.

use super::HostSeen;
use super::case::{Case, Chosen, Ground, Turn};
use super::demand::export_probes;
use super::judge::{Ahead, judge};
use crate::config::{Export, Exports};
use crate::graph::StepIndex;
use crate::model::{HostName, Scope, SecretStore, StepId, Value, Verdict};
use crate::probe::Reading;
use secrecy::SecretString;
use std::collections::{BTreeMap, BTreeSet};

/// Hosts that could run a step of a selection, each with whether the step is as desired there.
type Candidates = BTreeMap<(StepIndex, Vec<HostName>), Vec<(HostName, bool)>>;

/// Chooses the host of each `one` and `fleet` step of each selection: the first observed one where the
/// step already is as desired (so that a key that was made stays the key), else the first observed one.
pub fn choose(ground: Ground<'_>, seen: &[HostSeen]) -> Chosen {
    let mut candidates = Candidates::new();
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = Case::new(ground, &seen.host, seen) else { continue };
        if !case.steps().iter().any(|(_, _, step)| matches!(step.scope, Scope::One | Scope::Fleet)) {
            continue;
        }
        let turns = case.candidate_turns();
        for (index, instance, step) in case.steps() {
            if !matches!(step.scope, Scope::One | Scope::Fleet) {
                continue;
            }
            let entry = candidates.entry((index, instance.selection.to_vec())).or_default();
            entry.push((seen.host.clone(), is_settled(&case, index, &turns)));
        }
    }
    let mut chosen = Chosen::new();
    for ((index, _), hosts) in candidates {
        let pick = hosts.iter().find(|(_, settled)| *settled).or(hosts.first());
        chosen.entry(index).or_default().extend(pick.map(|(host, _)| host.clone()));
    }
    chosen
}

fn is_settled(case: &Case<'_>, index: StepIndex, turns: &[Turn<'_>]) -> bool {
    let mut own = turns.iter().filter(|turn| turn.index == index).peekable();
    own.peek().is_some() && own.all(|turn| judge(case, turn, turns, &Ahead::default()).judgement.verdict == Verdict::Ok)
}

/// Returns the recipes with an exporting step that is going to change on some host.
pub fn exporters(ground: Ground<'_>, seen: &[HostSeen]) -> BTreeSet<String> {
    let mut recipes = BTreeSet::new();
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = Case::new(ground, &seen.host, seen) else { continue };
        if !case.steps().iter().any(|(_, _, step)| !step.exports.is_empty()) {
            continue;
        }
        let turns = case.turns();
        let acting = turns.iter().filter(|turn| {
            !turn.step.exports.is_empty()
                && !recipes.contains(&*turn.expanded.id.recipe)
                && judge(&case, turn, &turns, &Ahead::default()).judgement.verdict == Verdict::Change
        });
        let names: Vec<String> = acting.map(|turn| turn.expanded.id.recipe.to_string()).collect();
        recipes.extend(names);
    }
    recipes
}

/// Every exported value by host, as it is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published(BTreeMap<(String, String), Slot>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Slot {
    /// Of scope `host`: every host has a value of its own.
    each: bool,
    by_host: BTreeMap<HostName, Option<Value>>,
}

impl Published {
    pub fn put(&mut self, turn: &Turn<'_>, name: &str, host: &HostName, value: Option<Value>) {
        let slot = self.0.entry((turn.expanded.id.recipe.to_string(), name.to_owned())).or_default();
        slot.each = turn.step.scope == Scope::Host;
        slot.by_host.insert(host.clone(), value);
    }

    /// A host is out of the run: others no longer wait for what it did not make.
    pub fn leave(&mut self, host: &HostName) {
        for slot in self.0.values_mut().filter(|slot| slot.each) {
            if slot.by_host.get(host).is_some_and(Option::is_none) {
                slot.by_host.remove(host);
            }
        }
    }

    /// Returns the values as templates see them. A value of a `one` or `fleet` step is that value; a value
    /// of a `host` step is a map from host name to value, unmade while any host that is to make it has not.
    pub fn exports(&self) -> Exports {
        let mut exports = Exports::new();
        for ((recipe, name), slot) in &self.0 {
            exports.entry(recipe.clone()).or_default().insert(name.clone(), slot.value());
        }
        exports
    }
}

impl Slot {
    fn value(&self) -> Option<Value> {
        if !self.each {
            return self.by_host.values().flatten().next().cloned();
        }
        let pairs = self.by_host.iter().map(|(host, value)| Some((host.to_string(), value.clone()?)));
        pairs.collect::<Option<serde_json::Map<_, _>>>().map(Value::Object)
    }
}

/// Reads the exported values out of what was seen of hosts.
pub fn published(ground: Ground<'_>, seen: &[HostSeen], secrets: &mut SecretStore) -> Published {
    let mut published = Published::default();
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = Case::new(ground, &seen.host, seen) else { continue };
        if !case.steps().iter().any(|(_, _, step)| !step.exports.is_empty()) {
            continue;
        }
        for turn in case.turns().iter().filter(|turn| !turn.step.exports.is_empty()) {
            read_turn(&case, turn, secrets, &mut published);
        }
    }
    published
}

/// Reads what one turn exports out of the last observation of its host.
pub fn read_turn(case: &Case<'_>, turn: &Turn<'_>, secrets: &mut SecretStore, published: &mut Published) {
    for (name, probe) in export_probes(case, turn) {
        let Some(export) = turn.step.exports.get(&name) else { continue };
        let text = match case.seen.observation.get(&probe) {
            Ok(Reading::Output(output)) if output.status == 0 => {
                Some(output.stdout.raw().trim_end_matches('\n').to_owned())
            }
            _ => None,
        };
        let value = text.map(|text| exported(export, &turn.expanded.id, &case.host.name, text, secrets));
        published.put(turn, &name, &case.host.name, value);
    }
    for (name, _) in turn.step.exports.iter().filter(|(_, export)| export.stdout) {
        published.put(turn, name, &case.host.name, None);
    }
}

/// Returns the value as templates see it: a placeholder when it is secret.
pub fn exported(export: &Export, id: &StepId, host: &HostName, text: String, secrets: &mut SecretStore) -> Value {
    if export.secret {
        let name = format!("export {} of {id} on {host}", export.name);
        return Value::from(secrets.insert(&name, SecretString::from(text)).0);
    }
    Value::from(text)
}
