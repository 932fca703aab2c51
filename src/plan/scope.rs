//! What spans hosts: who runs a `one` step, and the values that steps export.

use super::HostSeen;
use super::case::{Case, Chosen, Ground, Turn};
use super::demand::export_probes;
use super::judge::{Ahead, judge};
use super::walk::rule;
use crate::config::{Export, Exports, Instance, State, Step};
use crate::graph::StepIndex;
use crate::model::{HostName, Scope, SecretStore, StepId, Value, Verdict};
use crate::probe::Reading;
use secrecy::SecretString;
use std::collections::BTreeMap;

/// How fit a host is to run a `one` step, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fitness {
    /// The step is as desired there: a key that was made stays the key.
    Settled,
    /// It was as desired there once.
    Recorded,
    /// It may be as desired there: nobody else makes a second one.
    Unknown,
    Able,
    Blocked,
}

/// Hosts that could run a step of a selection; selections are told apart by where they lie in memory.
type Candidates<'a> = BTreeMap<(StepIndex, usize), Vec<(Fitness, &'a HostName)>>;

/// Chooses the host of each `one` and `fleet` step of each selection: of the observed ones the fittest, of equally
/// fit ones the first. Whether a `one` step may run there while others do not answer is the plan's to say.
pub fn choose(ground: Ground<'_>, seen: &[HostSeen]) -> Chosen {
    let mut candidates = Candidates::new();
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = Case::new(ground, &seen.host, seen) else { continue };
        if !case.steps().iter().any(|(_, instance, step)| is_chosen(instance, step)) {
            continue;
        }
        let turns = case.candidate_turns();
        for (index, instance, step) in case.steps() {
            if !is_chosen(instance, step) {
                continue;
            }
            let selection = std::sync::Arc::as_ptr(&instance.selection) as usize;
            let fitness = fitness(&case, index, &turns);
            candidates.entry((index, selection)).or_default().push((fitness, &seen.host));
        }
    }
    let mut chosen = Chosen::new();
    for ((index, _), hosts) in candidates {
        let pick = hosts.iter().min_by_key(|(fitness, _)| *fitness);
        chosen.entry(index).or_default().extend(pick.map(|(_, host)| (*host).clone()));
    }
    chosen
}

/// Whether one host is chosen for a step. Nobody is to remove what was made.
fn is_chosen(instance: &Instance, step: &Step) -> bool {
    !instance.absent && matches!(step.scope, Scope::One | Scope::Fleet)
}

fn fitness(case: &Case<'_>, index: StepIndex, turns: &[Turn<'_>]) -> Fitness {
    let own: Vec<&Turn<'_>> = turns.iter().filter(|turn| turn.index == index).collect();
    let verdict = |turn: &&Turn<'_>| judge(case, turn, turns, &Ahead::default()).judgement.verdict;
    let verdicts: Vec<Verdict> = own.iter().map(verdict).collect();
    let recorded = |turn: &&Turn<'_>| case.made(&turn.expanded.id);
    match own.first().map(|turn| rule(case, turn.instance)) {
        None => Fitness::Blocked,
        Some(_) if verdicts.iter().all(|verdict| *verdict == Verdict::Ok) => Fitness::Settled,
        Some(_) if own.iter().any(recorded) => Fitness::Recorded,
        Some(Some(_)) => Fitness::Blocked,
        Some(None) if verdicts.contains(&Verdict::Unknown) => Fitness::Unknown,
        // Its records may not be read.
        Some(None) if case.seen.account.is_some() => Fitness::Unknown,
        Some(None) if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Blocked(_))) => Fitness::Blocked,
        Some(None) => Fitness::Able,
    }
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

    /// What a turn exports on a host will not be made: others no longer wait for it.
    pub fn give_up(&mut self, turn: &Turn<'_>, host: &HostName) {
        self.forget(&turn.expanded.id.recipe, turn.step, host);
    }

    /// As [`give_up`](Self::give_up), for a step of `recipe`.
    ///
    /// What facts come to is kept waiting: a host that cannot tell it is not a host without it.
    pub fn forget(&mut self, recipe: &str, step: &Step, host: &HostName) {
        for (name, _) in step.exports.iter().filter(|(_, export)| export.value.is_none()) {
            let slot = self.0.get_mut(&(recipe.to_owned(), name.clone())).filter(|slot| slot.each);
            if let Some(slot) = slot.filter(|slot| slot.by_host.get(host).is_some_and(Option::is_none)) {
                slot.by_host.remove(host);
            }
        }
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
        // Nobody is left who made it: that is no empty map.
        if self.by_host.is_empty() {
            return None;
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
        let turns = case.turns();
        for turn in turns.iter().filter(|turn| !turn.step.exports.is_empty()) {
            read_turn(&case, turn, secrets, &mut published);
            if !makes(&case, turn, &turns) {
                published.give_up(turn, &seen.host);
            }
        }
    }
    published
}

/// Whether a host may still make what a turn exports: others wait for no value that cannot come.
fn makes(case: &Case<'_>, turn: &Turn<'_>, turns: &[Turn<'_>]) -> bool {
    let verdict = || judge(case, turn, turns, &Ahead::default()).judgement.verdict;
    let deferred = matches!(turn.expanded.state, State::Deferred(_));
    rule(case, turn.instance).is_none() && (deferred || verdict() == Verdict::Change)
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
    for (name, export) in &turn.step.exports {
        if export.stdout {
            published.put(turn, name, &case.host.name, None);
        } else if let Some(value) = &export.value {
            let value = case.ground.expander.export_value(case.host, turn.instance, value, &case.known());
            published.put(turn, name, &case.host.name, value);
        }
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
