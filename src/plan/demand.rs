//! Determines the probes that a host runs.

use super::case::{HostContext, StepInstance};
use super::undeclared;
use crate::config::{ConditionOutcome, ExpansionState, RecipeInstance, RecipeVerification};
use crate::model::StepId;
use crate::probe::Probe;
use crate::resource::Resource;
use crate::resource::trace::trace_path;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns every probe that can be built from what is known now. Called again once the facts are known, it also returns
/// the probes whose text depends on facts.
pub fn demand(case: &HostContext<'_>, facts: &BTreeSet<String>) -> BTreeSet<Probe> {
    let mut probes: BTreeSet<Probe> =
        facts.iter().filter_map(|name| crate::facts::question(&case.host.name, name)).collect();
    probes.extend([Probe::Records, Probe::Account]);
    let turns = case.candidate_turns();
    for turn in &turns {
        probes.extend(of_turn(case, turn, &turns));
    }
    for instance in case.instances() {
        probes.extend(of_verify(case, instance));
    }
    probes.extend(undeclared::probes(case, &turns));
    probes
}

fn of_verify(case: &HostContext<'_>, instance: &Arc<RecipeInstance>) -> Vec<Probe> {
    let admitted = |verify: &&RecipeVerification| case.ground.filter.admits_level(verify.level);
    let entries = instance.recipe.verify.iter().filter(|_| !instance.absent).filter(admitted);
    entries.filter_map(|verify| verify_probe(case, instance, verify)).collect()
}

/// Returns the probe of a verification, if it has one.
fn verify_probe(case: &HostContext<'_>, instance: &Arc<RecipeInstance>, verify: &RecipeVerification) -> Option<Probe> {
    let (expander, known) = (case.ground.expander, case.known());
    match expander.about(case.host, instance, verify, &known) {
        Some(asked) => Some(Probe::Objects(Box::new(asked.ok()?))),
        None => {
            let judged = expander.verify(case.host, instance, verify, &known);
            check_probe(&verify_id(&instance.recipe.name, &verify.name), &judged, None)
        }
    }
}

/// Returns the probes of the verifications of one recipe, including those of the facts that they read.
pub fn verify_probes(case: &HostContext<'_>, recipe: &str) -> BTreeSet<Probe> {
    let own = case.instances().iter().filter(|instance| instance.recipe.name == recipe);
    let checks = own.clone().flat_map(|instance| of_verify(case, instance));
    let expected = own.flat_map(|instance| &instance.recipe.verify).flat_map(verify_facts(case));
    checks.chain(expected).collect()
}

/// Returns the probes of the facts that a verification names.
fn verify_facts<'c>(case: &'c HostContext<'_>) -> impl Fn(&RecipeVerification) -> Vec<Probe> + 'c {
    |verify| {
        let texts = verify.expect.iter().map(|expect| &expect.source).chain(verify.shows.iter().map(|(text, _)| text));
        texts.flat_map(|text| facts_named(case, text)).collect()
    }
}

/// Returns the probes of the facts that an expression names.
fn facts_named(case: &HostContext<'_>, source: &str) -> Vec<Probe> {
    let named = crate::facts::names().filter(|name| source.contains(&format!("facts.{name}")));
    named.filter_map(|name| crate::facts::question(&case.host.name, name)).collect()
}

/// Returns the probes of one step instance, including those of its `restart_on` inputs. Its own change, or that of
/// another step, may change the facts that show whether it is effective: these are probed again.
pub fn of_turn(case: &HostContext<'_>, turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> Vec<Probe> {
    let mut probes = Vec::new();
    if let ExpansionState::Resource(resource) = &turn.expanded.state {
        probes.extend(resource.probes());
        probes.extend(case.record(&turn.expanded.id).into_iter().flat_map(|record| resource.former(record)));
        probes.extend(input_paths(turn, turns).into_iter().map(|path| Probe::Path { path, want: None }));
    }
    if let Some(effective) = turn.step.effective.as_ref().filter(|_| !turn.expanded.absent) {
        probes.extend(effective_probe(case, turn));
        probes.extend(effective.expect.iter().flat_map(|expect| facts_named(case, &expect.source)));
    }
    probes.extend(export_probes(case, turn).into_iter().map(|(_, probe)| probe));
    let values = turn.step.exports.values().filter_map(|export| export.value.as_ref());
    probes.extend(values.flat_map(|value| facts_named(case, &value.source)));
    probes
}

/// Returns whether the `restart_on` of another step instance names this one.
pub fn is_input(turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> bool {
    let names =
        |other: &StepInstance<'_>| inputs_of(other, turns).iter().any(|input| input.expanded.id == turn.expanded.id);
    turns.iter().any(names)
}

/// Returns the step instances that the `restart_on` of `turn` names.
pub fn inputs_of<'t, 'a>(turn: &StepInstance<'_>, turns: &'t [StepInstance<'a>]) -> Vec<&'t StepInstance<'a>> {
    if turn.step.restart_on.is_empty() {
        return Vec::new();
    }
    let named = |other: &&StepInstance<'_>| {
        turn.step.restart_on.iter().any(|(name, _)| {
            let (recipe, step) = name.split_once('/').unwrap_or((&turn.expanded.id.recipe, name));
            *step == *other.expanded.id.step && *recipe == *other.expanded.id.recipe
        })
    };
    turns.iter().filter(named).collect()
}

fn input_paths(turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> Vec<String> {
    inputs_of(turn, turns)
        .into_iter()
        .filter_map(|input| match &input.expanded.state {
            ExpansionState::Resource(resource) => {
                let paths = resource.inputs();
                let trace = trace_beside(&paths, input, resource.as_ref());
                Some(paths.into_iter().chain(trace))
            }
            _ => None,
        })
        .flatten()
        .collect()
}

/// Returns the trace file, whose time shows when a step was applied if its own paths may not show that.
pub fn trace(turn: &StepInstance<'_>, resource: &dyn Resource) -> Option<String> {
    trace_beside(&resource.inputs(), turn, resource)
}

/// Does the same as [`trace`] with a list of the step's own paths: building that list costs memory, and most plans do
/// it for each step of each host.
pub(super) fn trace_beside(paths: &[String], turn: &StepInstance<'_>, resource: &dyn Resource) -> Option<String> {
    trace_path(&turn.expanded.id, resource.kind(), paths, turn.expanded.absent)
}

/// Returns the probe of a step's `effective: { check }`.
pub fn effective_probe(case: &HostContext<'_>, turn: &StepInstance<'_>) -> Option<Probe> {
    turn.step.effective.as_ref().filter(|_| !turn.expanded.absent)?;
    let judged = case.ground.expander.effective(case.host, turn.instance, turn.step, &turn.expanded.id, &case.known());
    check_probe(&format!("effective {}", turn.expanded.id), &judged, turn.step.timeout_s)
}

/// Returns the probes of the `export: { read }` of a step instance, by the export's name.
pub fn export_probes(case: &HostContext<'_>, turn: &StepInstance<'_>) -> Vec<(String, Probe)> {
    let mut probes = Vec::new();
    for (name, export) in &turn.step.exports {
        let Some(read) = &export.read else { continue };
        let Ok(script) = case.ground.expander.export_read(case.host, turn.instance, read, &case.known()) else {
            continue;
        };
        probes.push((name.clone(), check(export_id(&turn.expanded.id, name), script, turn.step.timeout_s)));
    }
    probes
}

pub fn check_probe(id: &str, judged: &ConditionOutcome, timeout_s: Option<u64>) -> Option<Probe> {
    match judged {
        ConditionOutcome::Check { script } => Some(check(id.to_owned(), script.clone(), timeout_s)),
        _ => None,
    }
}

fn check(id: String, script: String, timeout_s: Option<u64>) -> Probe {
    Probe::Check { id, script, user: None, cwd: None, env: Vec::new(), timeout_s }
}

pub fn verify_id(recipe: &str, name: &str) -> String {
    format!("verify {recipe}: {name}")
}

fn export_id(step: &StepId, name: &str) -> String {
    format!("export {name} of {step}")
}
