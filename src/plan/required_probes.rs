//! Determines the probes that a host runs.

use super::host_context::{HostContext, StepInstance};
use super::undeclared;
use crate::config::{ConditionOutcome, ExpansionState, RecipeInstance, RecipeVerification};
use crate::model::{HostName, StepId};
use crate::probe::{CheckProbe, Probe};
use crate::resource::Resource;
use crate::resource::apply_trace::trace_path;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns every probe that can be built from what is known now. Called again once the facts are known, it also returns
/// the probes whose text depends on facts.
pub fn collect_probes(case: &HostContext<'_>, facts: &BTreeSet<String>) -> BTreeSet<Probe> {
    let mut probes = collect_host_probes(&case.host.name, facts);
    let turns = case.expand_candidate_steps();
    for turn in &turns {
        probes.extend(list_step_probes(case, turn, &turns));
    }
    for instance in case.instances() {
        probes.extend(list_verify_probes(case, instance));
    }
    probes.extend(undeclared::list_undeclared_probes(case, &turns));
    probes
}

/// Returns the probes of a host that do not depend on its steps.
pub fn collect_host_probes(host: &HostName, facts: &BTreeSet<String>) -> BTreeSet<Probe> {
    let facts = facts.iter().filter_map(|name| crate::facts::fact_probe(host, name));
    facts.chain([Probe::Records, Probe::Account]).collect()
}

fn list_verify_probes(case: &HostContext<'_>, instance: &Arc<RecipeInstance>) -> Vec<Probe> {
    let admitted = |verify: &&RecipeVerification| case.ground.filter.admits_level(verify.level);
    let entries = instance.recipe.verify.iter().filter(|_| !instance.absent).filter(admitted);
    entries.filter_map(|verify| build_verify_probe(case, instance, verify)).collect()
}

/// Returns the probe of a verification, if it has one.
fn build_verify_probe(
    case: &HostContext<'_>,
    instance: &Arc<RecipeInstance>,
    verify: &RecipeVerification,
) -> Option<Probe> {
    let (expander, known) = (case.ground.expander, case.known_values());
    match expander.resolve_verify_objects(case.host, instance, verify, &known) {
        Some(asked) => Some(Probe::Objects(Box::new(asked.ok()?))),
        None => {
            let judged = expander.evaluate_verify(case.host, instance, verify, &known);
            build_check_probe(&verify_probe_id(&instance.recipe.name, &verify.name), &judged, None)
        }
    }
}

/// Returns the probes of the verifications of one recipe, including those of the facts that they read.
pub fn collect_verify_probes(case: &HostContext<'_>, recipe: &str) -> BTreeSet<Probe> {
    let own = case.instances().iter().filter(|instance| instance.recipe.name == recipe);
    let checks = own.clone().flat_map(|instance| list_verify_probes(case, instance));
    let expected = own.flat_map(|instance| &instance.recipe.verify).flat_map(list_verify_fact_probes(case));
    checks.chain(expected).collect()
}

/// Returns the facts that the expression of a verification reads; none if it has no expression, or may read any fact.
pub fn list_verified_facts(case: &HostContext<'_>, recipe: &str, name: &str) -> BTreeSet<String> {
    let own = case.instances().iter().filter(|instance| instance.recipe.name == recipe);
    let mut verify = own.flat_map(|instance| &instance.recipe.verify).filter(|verify| verify.name == name);
    let expect = verify.find_map(|verify| verify.expect.as_ref());
    expect.and_then(|expect| case.ground.project.collect_expression_facts(&expect.source)).unwrap_or_default()
}

/// Returns the probes of the facts that a verification names.
fn list_verify_fact_probes<'c>(case: &'c HostContext<'_>) -> impl Fn(&RecipeVerification) -> Vec<Probe> + 'c {
    |verify| {
        let texts = verify.expect.iter().map(|expect| &expect.source).chain(verify.shows.iter().map(|(text, _)| text));
        texts.flat_map(|text| list_fact_probes(case, text)).collect()
    }
}

/// Returns the probes of the facts that an expression names.
fn list_fact_probes(case: &HostContext<'_>, source: &str) -> Vec<Probe> {
    let named = crate::facts::fact_names().filter(|name| source.contains(&format!("facts.{name}")));
    named.filter_map(|name| crate::facts::fact_probe(&case.host.name, name)).collect()
}

/// Returns the probes of one step instance, including those of its `restart_on` inputs. Its own change, or that of
/// another step, may change the facts that show whether it is effective: these are probed again.
pub fn list_step_probes(case: &HostContext<'_>, turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> Vec<Probe> {
    let mut probes = Vec::new();
    if let ExpansionState::Resource(resource) = &turn.expanded.state {
        probes.extend(resource.probes());
        probes.extend(
            case.find_record(&turn.expanded.id).into_iter().flat_map(|record| resource.obsolete_probes(record)),
        );
        probes.extend(list_input_paths(turn, turns).into_iter().map(|path| Probe::Path { path, want: None }));
    }
    if let Some(effective) = turn.step.effective.as_ref().filter(|_| !turn.expanded.absent) {
        probes.extend(build_effective_probe(case, turn));
        probes.extend(effective.expect.iter().flat_map(|expect| list_fact_probes(case, &expect.source)));
    }
    probes.extend(list_export_probes(case, turn).into_iter().map(|(_, probe)| probe));
    let values = turn.step.exports.values().filter_map(|export| export.value.as_ref());
    probes.extend(values.flat_map(|value| list_fact_probes(case, &value.source)));
    probes
}

/// Returns whether the `restart_on` of another step instance names this one.
pub fn is_restart_input(turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> bool {
    let names = |other: &StepInstance<'_>| {
        find_restart_inputs(other, turns).iter().any(|input| input.expanded.id == turn.expanded.id)
    };
    turns.iter().any(names)
}

/// Returns the step instances that the `restart_on` of `turn` names.
pub fn find_restart_inputs<'t, 'a>(
    turn: &StepInstance<'_>,
    turns: &'t [StepInstance<'a>],
) -> Vec<&'t StepInstance<'a>> {
    if turn.step.restart_on.is_empty() {
        return Vec::new();
    }
    turns.iter().filter(|other| names_restart_input(turn, other)).collect()
}

/// Reports whether the `restart_on` of `turn` names `other`.
pub(super) fn names_restart_input(turn: &StepInstance<'_>, other: &StepInstance<'_>) -> bool {
    turn.step.restart_on.iter().any(|(name, _)| {
        let (recipe, step) = name.split_once('/').unwrap_or((&turn.expanded.id.recipe, name));
        *step == *other.expanded.id.step && *recipe == *other.expanded.id.recipe
    })
}

fn list_input_paths(turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> Vec<String> {
    find_restart_inputs(turn, turns)
        .into_iter()
        .filter_map(|input| match &input.expanded.state {
            ExpansionState::Resource(resource) => {
                let paths = resource.restart_input_paths();
                let trace = find_trace_path_among(&paths, input, resource.as_ref());
                Some(paths.into_iter().chain(trace))
            }
            _ => None,
        })
        .flatten()
        .collect()
}

/// Returns the trace file, whose time shows when a step was applied if its own paths may not show that.
pub fn find_trace_path(turn: &StepInstance<'_>, resource: &dyn Resource) -> Option<String> {
    find_trace_path_among(&resource.restart_input_paths(), turn, resource)
}

/// Does the same as [`find_trace_path`] with a list of the step's own paths: building that list costs memory, and most plans do
/// it for each step of each host.
pub(super) fn find_trace_path_among(
    paths: &[String],
    turn: &StepInstance<'_>,
    resource: &dyn Resource,
) -> Option<String> {
    trace_path(&turn.expanded.id, resource.kind(), paths, turn.expanded.absent)
}

/// Returns the probe of a step's `effective: { check }`.
pub fn build_effective_probe(case: &HostContext<'_>, turn: &StepInstance<'_>) -> Option<Probe> {
    turn.step.effective.as_ref().filter(|_| !turn.expanded.absent)?;
    let judged = case.ground.expander.evaluate_effective(
        case.host,
        turn.instance,
        turn.step,
        &turn.expanded.id,
        &case.known_values(),
    );
    build_check_probe(&format!("effective {}", turn.expanded.id), &judged, turn.step.timeout_s)
}

/// Returns the probes of the `export: { read }` of a step instance, by the export's name.
pub fn list_export_probes(case: &HostContext<'_>, turn: &StepInstance<'_>) -> Vec<(String, Probe)> {
    let mut probes = Vec::new();
    for (name, export) in &turn.step.exports {
        let Some(read) = &export.read else { continue };
        let Ok(script) =
            case.ground.expander.render_export_command(case.host, turn.instance, read, &case.known_values())
        else {
            continue;
        };
        probes.push((
            name.clone(),
            new_check_probe(export_probe_id(&turn.expanded.id, name), script, turn.step.timeout_s),
        ));
    }
    probes
}

pub fn build_check_probe(id: &str, judged: &ConditionOutcome, timeout_s: Option<u64>) -> Option<Probe> {
    match judged {
        ConditionOutcome::Check { script } => Some(new_check_probe(id.to_owned(), script.clone(), timeout_s)),
        _ => None,
    }
}

fn new_check_probe(id: String, script: String, timeout_s: Option<u64>) -> Probe {
    Probe::Check(Box::new(CheckProbe { id, script, user: None, cwd: None, env: Vec::new(), timeout_s }))
}

pub fn verify_probe_id(recipe: &str, name: &str) -> String {
    format!("verify {recipe}: {name}")
}

fn export_probe_id(step: &StepId, name: &str) -> String {
    format!("export {name} of {step}")
}
