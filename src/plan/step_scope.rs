//! The host that runs a `one` or `fleet` step.

use super::ObservedHost;
use super::assessment::{StepPredictions, assess_step};
use super::host_context::{ChosenHosts, HostContext, PlanContext, StepInstance};
use super::rule_assessment::assess_rules;
use crate::config::{ExpansionState, PendingInput, Project, RecipeInstance, RecipeStep};
use crate::graph::StepIndex;
use crate::model::{HostName, StepScope, StepVerdict};
use std::collections::{BTreeMap, BTreeSet};

/// How suitable a host is to run a `one` step, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostFitness {
    /// The step matches there, where it was applied: an existing key stays the key.
    Settled,
    /// The step matches there, and forge has not applied it there.
    Matching,
    /// The step was applied there once.
    Recorded,
    /// The step may match there: no other host makes a second one.
    Unknown,
    Able,
    Blocked,
}

/// Hosts that could run a step of a selection; the memory address identifies a selection.
type HostCandidates<'a> = BTreeMap<(StepIndex, usize), Vec<(HostFitness, &'a HostName)>>;

/// Chooses the host of each `one` and `fleet` step of each selection: the most suitable of the observed hosts, or the
/// first of equally suitable ones. The plan decides whether a `one` step may run there while other hosts do not answer.
pub fn choose_hosts(ground: PlanContext<'_>, seen: &[ObservedHost]) -> ChosenHosts {
    if !has_choice(ground.project) {
        return ChosenHosts::new();
    }
    let mut candidates = HostCandidates::new();
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = HostContext::new(ground, &seen.host, seen) else { continue };
        if !case.list_steps().iter().any(|(_, instance, step)| needs_choice(instance, step)) {
            continue;
        }
        let turns = case.expand_candidate_steps();
        for (index, instance, step) in case.list_steps() {
            if !needs_choice(instance, step) {
                continue;
            }
            let selection = std::sync::Arc::as_ptr(&instance.selection) as usize;
            let fitness = rate_fitness(&case, index, &turns);
            candidates.entry((index, selection)).or_default().push((fitness, &seen.host));
        }
    }
    let mut chosen = ChosenHosts::new();
    for ((index, _), hosts) in candidates {
        let pick = hosts.iter().min_by_key(|(fitness, _)| *fitness);
        chosen.entry(index).or_default().extend(pick.map(|(_, host)| (*host).clone()));
    }
    chosen
}

/// Returns the steps whose host cannot be chosen before exported values are known: all their candidates are observed
/// with those values first, because the values may decide which of them is suitable.
pub fn list_deferred_choices(ground: PlanContext<'_>, seen: &[ObservedHost]) -> BTreeSet<StepIndex> {
    let mut deferred = BTreeSet::new();
    if !has_choice(ground.project) {
        return deferred;
    }
    for seen in seen.iter().filter(|s| s.is_observed()) {
        let Some(case) = HostContext::new(ground, &seen.host, seen) else { continue };
        if !case.list_steps().iter().any(|(_, instance, step)| needs_choice(instance, step)) {
            continue;
        }
        let turns = case.expand_candidate_steps();
        let waits = |turn: &&StepInstance<'_>| {
            needs_choice(turn.instance, turn.step)
                && matches!(
                    &turn.expanded.state,
                    ExpansionState::Deferred(deferred) if matches!(deferred.need, PendingInput::Export { .. })
                )
        };
        deferred.extend(turns.iter().filter(waits).map(|turn| turn.index));
    }
    deferred
}

/// Reports whether a host has to be chosen for some step of the project.
fn has_choice(project: &Project) -> bool {
    project.recipes.values().flat_map(|recipe| &recipe.steps).any(|step| is_of_one_host(step))
}

fn is_of_one_host(step: &RecipeStep) -> bool {
    matches!(step.scope, StepScope::One | StepScope::Fleet)
}

/// Returns whether one host is chosen for a step. For a removal none is: it runs on every host.
fn needs_choice(instance: &RecipeInstance, step: &RecipeStep) -> bool {
    !instance.absent && is_of_one_host(step)
}

fn rate_fitness(case: &HostContext<'_>, index: StepIndex, turns: &[StepInstance<'_>]) -> HostFitness {
    let own: Vec<&StepInstance<'_>> = turns.iter().filter(|turn| turn.index == index).collect();
    let verdict =
        |turn: &&StepInstance<'_>| assess_step(case, turn, turns, &StepPredictions::default()).judgement.verdict;
    let verdicts: Vec<StepVerdict> = own.iter().map(verdict).collect();
    let recorded = |turn: &&StepInstance<'_>| case.was_applied(&turn.expanded.id);
    match own.first().map(|turn| assess_rules(case, turn.instance)) {
        None => HostFitness::Blocked,
        Some(_) if verdicts.iter().all(|verdict| *verdict == StepVerdict::Ok) => match own.iter().any(recorded) {
            true => HostFitness::Settled,
            false => HostFitness::Matching,
        },
        // Its `when` selects another host, such as the one that ran an earlier step.
        Some(_) if verdicts.iter().all(|verdict| *verdict == StepVerdict::NotApplicable) => HostFitness::Blocked,
        Some(_) if own.iter().any(recorded) => HostFitness::Recorded,
        Some(Some(_)) => HostFitness::Blocked,
        Some(None) if verdicts.contains(&StepVerdict::Unknown) => HostFitness::Unknown,
        // Without root, its records may be unreadable.
        Some(None) if case.seen.account.is_some() => HostFitness::Unknown,
        Some(None) if verdicts.iter().any(|verdict| matches!(verdict, StepVerdict::Blocked(_))) => HostFitness::Blocked,
        Some(None) => HostFitness::Able,
    }
}
