//! Resources that a host's records list for its cluster and that no step declares any more: the step is gone, or it is
//! about another resource now. forge only reports them: a removal must be declared.

use super::declared_digest::{digest_desired, digest_presence};
use super::host_context::{HostContext, StepInstance};
use super::model::{StepPlan, UndeclaredResource};
use super::recorded_resources::{
    self, OwnedClaims, RecordedClaim, RecordedResource, list_recorded_resources, resource_identity,
};
use super::removal_record::{is_kept_record, is_removal_record};
use crate::config::{ExpandedStep, ExpansionInputs, ExpansionState, ExportedValues, FactSource, InapplicableReason};
use crate::graph::DependencyKind;
use crate::model::{StepId, Value};
use crate::probe::Probe;
use std::collections::{BTreeMap, BTreeSet};

/// The declarations for a host, whether or not this run observes them.
#[derive(Default)]
struct DeclaredClaims {
    steps: BTreeMap<String, StepDeclaration>,
    owned: OwnedClaims,
}

/// What a step declares for a host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepDeclaration {
    /// A resource.
    Known,
    /// A resource that is not known yet, a step that the host's present state excludes, or one whose work stays (`keep`).
    Open,
    /// Nothing: its condition is false, and reads only what people declare.
    Dropped,
}

impl DeclaredClaims {
    fn from_context(case: &HostContext<'_>) -> Self {
        let mut declared = Self::default();
        let turns = case.expand_declared_steps();
        turns.iter().flat_map(|turns| turns.iter()).for_each(|turn| declared.add_instance(case, turn));
        declared
    }

    fn add_instance(&mut self, case: &HostContext<'_>, turn: &ExpandedStep) {
        let declaration = match &turn.state {
            ExpansionState::Resource(resource) => {
                self.owned.add_identity(&resource_identity(resource.as_ref()));
                StepDeclaration::Known
            }
            _ if is_dropped(case, turn) && !keeps_its_work(case, turn) => StepDeclaration::Dropped,
            _ => StepDeclaration::Open,
        };
        self.steps.insert(turn.id.to_string(), declaration);
    }
}

/// Reports whether the work of a step stays on the host without the step.
fn keeps_its_work(case: &HostContext<'_>, turn: &ExpandedStep) -> bool {
    let own = case.instances().iter().find(|instance| *instance.recipe.name == *turn.id.recipe);
    own.is_some_and(|own| own.recipe.steps.iter().any(|step| *step.name == *turn.id.step && step.keep))
}

/// Reports whether the condition of a step is false because of what people declare. A condition on facts or on exported
/// values may be false because the step did its work, or because the host has a fault.
fn is_dropped(case: &HostContext<'_>, turn: &ExpandedStep) -> bool {
    let is_excluded =
        |turn: &ExpandedStep| matches!(turn.state, ExpansionState::NotApplicable(InapplicableReason::WhenFalse));
    if !is_excluded(turn) || !turn.reads.is_empty() {
        return false;
    }
    let Some(index) = case.graph.find_step(&turn.id.recipe, &turn.id.step) else { return false };
    if !case.graph.incoming_edges(index).any(|edge| edge.why == DependencyKind::Export) {
        return true;
    }
    // The step reads exported values; its condition may not. This is rare enough to evaluate it once more.
    let declared = ExpansionInputs { facts: FactSource::NotYet, exports: &ExportedValues::new() };
    let instances = case.instances().iter().filter(|instance| *instance.recipe.name == *turn.id.recipe);
    let mut steps = instances.flat_map(|own| own.recipe.steps.iter().map(move |step| (own, step)));
    let Some((own, step)) = steps.find(|(_, step)| *step.name == *turn.id.step) else { return false };
    let again = case.ground.expander.expand_step(case.host, own, step, &declared);
    again.iter().any(|again| again.id == turn.id && is_excluded(again))
}

/// Returns what the record of a step of the cluster names, the step does not declare any more, and another step declares:
/// also a step that the filter excludes. A step of the same kind that is not known yet may declare all of it.
pub(super) fn list_moved_claims(case: &HostContext<'_>, turn: &StepInstance<'_>) -> BTreeSet<RecordedClaim> {
    let step = &turn.expanded;
    let ExpansionState::Resource(resource) = &step.state else { return BTreeSet::new() };
    if !turn.step.traits().in_cluster {
        return BTreeSet::new();
    }
    let former = recorded_resources::list_former_claims(case, &step.id, &resource_identity(resource.as_ref()));
    // Usually there are none, and then the other steps need not be expanded.
    if former.is_empty() {
        return former;
    }
    let mut owned = OwnedClaims::default();
    let declared = case.expand_declared_steps();
    let others = declared.iter().flat_map(|steps| steps.iter()).filter(|other| other.id != step.id && !other.absent);
    for other in others {
        match &other.state {
            ExpansionState::Resource(resource) => owned.add_identity(&resource_identity(resource.as_ref())),
            ExpansionState::Deferred(deferred) if deferred.kind == resource.kind() => return former,
            _ => {}
        }
    }
    former.into_iter().filter(|claim| owned.contains(claim)).collect()
}

/// Returns the resources in the records of this cluster that are not declared here any more, and that no step of the
/// plan removes.
pub(super) fn list_undeclared(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    steps: &[StepPlan],
) -> Vec<UndeclaredResource> {
    let applied = |step: &str| case.instances().iter().any(|i| step.split('/').next() == Some(&*i.recipe.name));
    let told = |memory: &RecordedResource| UndeclaredResource {
        step: memory.step.as_str().into(),
        applied: applied(&memory.step),
        kind: memory.kind.as_str().into(),
        title: memory.title.as_str().into(),
    };
    list_orphaned_resources(case, turns, steps).0.iter().map(told).collect()
}

/// Returns the probes that show whether resources that are not declared any more still exist, and whether a declared path
/// leads to one of them through links.
pub(super) fn list_undeclared_probes(case: &HostContext<'_>, turns: &[StepInstance<'_>]) -> BTreeSet<Probe> {
    let (orphaned, owned) = list_orphaned_resources(case, turns, &[]);
    let links = orphaned.iter().flat_map(|memory| owned.list_link_probes(memory));
    recorded_resources::list_claim_probes(orphaned.iter()).into_iter().chain(links).collect()
}

/// Returns the resources that are not declared any more, and those that are declared.
fn list_orphaned_resources(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    steps: &[StepPlan],
) -> (Vec<RecordedResource>, OwnedClaims) {
    if case.seen.records.is_empty() || case.ground.project.generated {
        return <_>::default();
    }
    let (mut declared, all) = (DeclaredClaims::from_context(case), list_recorded_resources(case));
    declared.owned.add_removed_members(steps);
    let gone = |memory: &&RecordedResource| !memory.removed && is_undeclared(case, turns, memory, &declared, &all);
    let orphaned = all.iter().filter(gone).cloned().collect();
    (orphaned, declared.owned)
}

fn is_undeclared(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    memory: &RecordedResource,
    declared: &DeclaredClaims,
    all: &[RecordedResource],
) -> bool {
    let nameless = memory.identity.as_ref().is_none_or(|identity| identity.claims.is_empty());
    match declared.steps.get(&memory.step) {
        // A resource without a name is identified by its step alone.
        Some(StepDeclaration::Known | StepDeclaration::Open) if nameless => false,
        // Assume that the resource is the same.
        Some(StepDeclaration::Open) if memory.latest => false,
        None if memory.latest && is_step_declared(case, turns, &memory.step) => false,
        Some(StepDeclaration::Dropped) | None if nameless => !is_declared_elsewhere(case, memory),
        _ => memory.is_orphaned(case, all, &declared.owned),
    }
}

/// Returns the records of steps that the removal of their recipe keeps, and that do not say so yet.
pub fn list_kept_records<'a>(case: &HostContext<'a>) -> Vec<(StepId, &'a Value)> {
    if case.seen.records.is_empty() || case.ground.project.generated {
        return Vec::new();
    }
    let is_kept = |turn: &&StepInstance<'_>| {
        matches!(turn.expanded.state, ExpansionState::NotApplicable(InapplicableReason::Kept))
    };
    let turns = case.expand_local_steps();
    let kept: Vec<StepId> = turns.iter().filter(is_kept).map(|turn| turn.expanded.id.clone()).collect();
    let identify = |step: &String| kept.iter().find_map(|id| identify_instance(id, step));
    let steps = case.seen.records.keys().filter_map(|step| Some((step, identify(step)?)));
    let records = steps.filter_map(|(step, id)| Some((id, case.seen.find_record(&case.ground.project.cluster, step)?)));
    records.filter(|(_, record)| !is_removal_record(record) && !is_kept_record(record)).collect()
}

/// Returns the identity of the instance of `step` that a record names `text`; `None` if it is of another step.
fn identify_instance(step: &StepId, text: &str) -> Option<StepId> {
    let key = match text.strip_prefix(&step.to_string())? {
        "" => None,
        key => Some(key.strip_prefix('[')?.strip_suffix(']')?.into()),
    };
    Some(StepId { key, ..step.clone() })
}

/// Returns whether another step declares the same as the record of a resource without a name, such as a command, or its
/// removal: its step or recipe was renamed.
fn is_declared_elsewhere(case: &HostContext<'_>, memory: &RecordedResource) -> bool {
    let is_same = |turn: &ExpandedStep| match &turn.state {
        ExpansionState::Resource(resource) if resource.kind() == memory.kind => {
            let key = case.seen.key.as_deref();
            let digests = [digest_desired, digest_presence].map(|digest| digest(&**resource, case.ground.secrets, key));
            digests.contains(&memory.digest)
        }
        _ => false,
    };
    case.expand_declared_steps().iter().flat_map(|turns| turns.iter()).any(is_same)
}

/// Returns whether a step is still declared although it has no such instance now: the filter excludes it, it runs on
/// another host, or its instances are not known yet.
fn is_step_declared(case: &HostContext<'_>, turns: &[StepInstance<'_>], record: &str) -> bool {
    let mut steps = case.instances().iter().flat_map(|i| i.recipe.steps.iter().map(move |step| (&i.recipe, step)));
    steps.any(|(recipe, step)| {
        let Some(key) = record.strip_prefix(&format!("{}/{}", recipe.name, step.name)) else { return false };
        match &step.each {
            None => key.is_empty(),
            Some(_) => key.starts_with('[') && !are_instances_known(case, turns, &recipe.name, &step.name),
        }
    })
}

fn are_instances_known(case: &HostContext<'_>, turns: &[StepInstance<'_>], recipe: &str, step: &str) -> bool {
    let mut own = turns.iter().filter(|t| *t.expanded.id.recipe == *recipe && *t.expanded.id.step == *step).peekable();
    own.peek().is_some()
        && own.all(|turn| match turn.expanded.state {
            ExpansionState::Deferred(_) | ExpansionState::Invalid(_) => false,
            ExpansionState::NotApplicable(InapplicableReason::WhenFalse) if turn.expanded.id.key.is_none() => {
                is_dropped(case, &turn.expanded)
            }
            ExpansionState::NotApplicable(InapplicableReason::Kept) => false,
            _ => true,
        })
}
