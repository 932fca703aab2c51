//! Which changes belong to a host's window.

use super::{Stop, is_open};
use crate::config::{Project, Reboots};
use crate::model::{Disruption, StepId};
use crate::plan::{Case, Policy, StepPlan, Turn};
use std::collections::{BTreeMap, BTreeSet};

/// What a first look at a host's steps found of its window. The second look needs it: services that stop meanwhile
/// must start again, and what is tied to a change that is held back is held back with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// Recipes whose changes belong to the window because of the version that they share with another one.
    pub tied: BTreeSet<String>,
    /// Units that stop, with the recipe that changes meanwhile.
    pub stops: Vec<Stop>,
    /// Recipes that must have the version of one with a change that the policy holds back, with that change.
    pub shut: BTreeMap<String, StepId>,
}

impl Scope {
    /// Returns what the steps of a first look call for.
    pub fn of(case: &Case<'_>, steps: &[StepPlan], policy: Policy) -> Self {
        let project = case.ground.project;
        let shut = shut(project, steps, policy);
        let goes = |step: &&StepPlan| step.acts() && !shut.contains_key(&*step.id.recipe);
        let heavy = steps.iter().filter(|step| goes(step) && class(step) >= Disruption::D2);
        let core: BTreeSet<String> = heavy.map(|step| step.id.recipe.to_string()).collect();
        let tied = &closure(project, &core) - &core;
        let changing = steps.iter().filter(|step| goes(step) && tied.contains(&*step.id.recipe));
        let changing: BTreeSet<&str> =
            changing.map(|step| &*step.id.recipe).chain(core.iter().map(String::as_str)).collect();
        let stops = stops(case, &changing).0;
        Self { tied, stops, shut }
    }

    /// Returns whether the second look comes to something else than the first.
    pub fn matters(&self) -> bool {
        !self.stops.is_empty() || !self.shut.is_empty()
    }

    /// Returns the recipe that changes while a unit is stopped.
    pub fn stopped_during(&self, unit: &str) -> Option<&str> {
        self.stops.iter().find(|stop| stop.name == unit).map(|stop| stop.during.as_str())
    }
}

/// Returns the recipes that must have the version of one that the policy holds back a step of.
fn shut(project: &Project, steps: &[StepPlan], policy: Policy) -> BTreeMap<String, StepId> {
    let mut shut = BTreeMap::new();
    // Of what is held back in this look, only the class says so: nothing is tied yet.
    let over = |step: &&StepPlan| (step.acts() || step.held.is_some()) && class(step) > policy.max_disruption;
    for step in steps.iter().filter(over).filter(|step| class(step) >= Disruption::D2) {
        let own = step.id.recipe.to_string();
        for recipe in closure(project, &BTreeSet::from([own.clone()])).into_iter().filter(|recipe| *recipe != own) {
            shut.entry(recipe).or_insert_with(|| step.id.clone());
        }
    }
    shut
}

/// Returns `core` and the recipes that must have the version of one of it, be it through others.
fn closure(project: &Project, core: &BTreeSet<String>) -> BTreeSet<String> {
    let mut all = core.clone();
    loop {
        let more = project.ties.iter().filter(|(name, of)| !all.contains(*name) && !of.is_disjoint(&all));
        let more: Vec<String> = more.map(|(name, _)| name.clone()).collect();
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

/// Returns the most that a step may disturb.
pub fn class(step: &StepPlan) -> Disruption {
    step.envelope.as_ref().map_or(step.disruption, |envelope| envelope.disruption.max(step.disruption))
}

/// Returns what a step declares to bring it into force.
pub fn ways<'t>(turn: &'t Turn<'_>) -> impl Iterator<Item = &'t str> {
    turn.step.effective.iter().flat_map(|effective| effective.by.iter().map(String::as_str))
}

/// Returns whether a reboot brings a step into force: the step declares it, or its kind says so.
pub fn is_by_reboot(turn: &Turn<'_>, step: &StepPlan) -> bool {
    step.by_reboot || (!turn.expanded.absent && ways(turn).any(|way| way == "reboot"))
}

/// Returns whether what a step is about is configured first and in force only later.
pub fn waits_for_effect(turn: &Turn<'_>, step: &StepPlan) -> bool {
    step.by_reboot || (!turn.expanded.absent && turn.step.effective.is_some())
}

/// The steps of one host, seen from its window.
pub(super) struct Members<'m> {
    scope: &'m Scope,
    /// Whether the policy lets a reboot bring steps into force.
    reboots: bool,
}

impl<'m> Members<'m> {
    pub fn new(case: &Case<'_>, scope: &'m Scope) -> Self {
        Self { scope, reboots: may_reboot(case.ground.project, case.ground.policy) }
    }

    /// Whether a step takes its host out of service, or must have the version of one that does.
    pub fn is_member(&self, turn: &Turn<'_>, step: &StepPlan) -> bool {
        let tied = || self.scope.tied.contains(&turn.instance.recipe.name);
        step.acts() && (class(step) >= Disruption::D2 || tied())
    }

    /// Whether a reboot is to bring a step into force.
    pub fn awaits(&self, turn: &Turn<'_>, step: &StepPlan) -> bool {
        self.reboots && is_open(step) && is_by_reboot(turn, step)
    }
}

/// Returns whether hosts may reboot in this run.
pub(in crate::plan) fn may_reboot(project: &Project, policy: Policy) -> bool {
    project.rollout.reboot == Reboots::Allow && policy.max_disruption >= Disruption::D3
}

/// Returns the units that stop and the modules that are unloaded while `changing` recipes change.
pub(super) fn stops(case: &Case<'_>, changing: &BTreeSet<&str>) -> (Vec<Stop>, Vec<Stop>) {
    let (mut units, mut modules) = (Vec::new(), Vec::new());
    let present = case.instances().iter().filter(|instance| !instance.absent);
    for during in present.flat_map(|instance| instance.recipe.needs_during()) {
        if changing.contains(during.recipe.as_str()) {
            add(&during.stopped, &during.recipe, &mut units);
            add(&during.unloaded, &during.recipe, &mut modules);
        }
    }
    (units, modules)
}

fn add(names: &[String], during: &str, into: &mut Vec<Stop>) {
    for name in names {
        if !into.iter().any(|stop| stop.name == *name) {
            into.push(Stop { name: name.clone(), during: during.to_owned() });
        }
    }
}

/// Returns whether the host is declared to be a node of Slurm.
pub(super) fn is_slurm_node(case: &Case<'_>) -> bool {
    let slurm = case.ground.project.rollout.slurm.as_ref();
    slurm.is_some_and(|(group, _)| group == "all" || case.host.groups.contains(group))
}
