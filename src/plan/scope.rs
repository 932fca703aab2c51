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

/// Chooses the host of each `one` and `fleet` step of each selection: the first observed one where the
/// step already is as desired (so that a key that was made stays the key), else the first observed one.
pub fn choose(ground: Ground<'_>, seen: &[HostSeen]) -> Chosen {
    let mut candidates: BTreeMap<(StepIndex, Vec<HostName>), Vec<(HostName, bool)>> = BTreeMap::new();
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

/// Reads the exported values out of what was seen. A value of a `one` or `fleet` step is that value; a
/// value of a `host` step is a map from host name to value over the hosts that were observed, and unmade
/// while any of them lacks it.
pub fn exports(ground: Ground<'_>, seen: &[HostSeen], secrets: &mut SecretStore) -> Exports {
    let mut exports = Exports::new();
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = Case::new(ground, &seen.host, seen) else { continue };
        for turn in case.turns().iter().filter(|turn| !turn.step.exports.is_empty()) {
            read_turn(&case, turn, secrets, &mut exports);
        }
    }
    exports
}

fn read_turn(case: &Case<'_>, turn: &Turn<'_>, secrets: &mut SecretStore, exports: &mut Exports) {
    for (name, probe) in export_probes(case, turn) {
        let Some(export) = turn.step.exports.get(&name) else { continue };
        let text = match case.seen.observation.get(&probe) {
            Ok(Reading::Output(output)) if output.status == 0 => Some(output.stdout.raw().trim_end_matches('\n').to_owned()),
            _ => None,
        };
        let value = text.map(|text| exported(export, &turn.expanded.id, &case.host.name, text, secrets));
        put(exports, turn, &name, &case.host.name, value);
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

/// Enters a value where templates look for it.
pub fn put(exports: &mut Exports, turn: &Turn<'_>, name: &str, host: &HostName, value: Option<Value>) {
    let slot = exports.entry(turn.expanded.id.recipe.to_string()).or_default();
    if turn.step.scope != Scope::Host {
        slot.insert(name.to_owned(), value);
        return;
    }
    let current = slot.entry(name.to_owned()).or_insert_with(|| Some(Value::Object(Default::default())));
    match (current.as_mut(), value) {
        (Some(Value::Object(map)), Some(value)) => {
            map.insert(host.to_string(), value);
        }
        _ => *current = None,
    }
}
