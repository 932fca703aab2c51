//! Determines which changes belong to a host's window.

use super::host_window::WindowStop;
use crate::config::{Project, RebootPolicy};
use crate::model::{DisruptionClass, StepId, StepScope, StepVerdict};
use crate::plan::model::{is_changing_or_pending, step_disruption};
use crate::plan::{HostContext, HostHold, ObservedHost, PlanPolicy, StepInstance, StepPlan};
use std::collections::{BTreeMap, BTreeSet};

/// The state of a host's window after a first pass over its steps. The second pass needs it: services that stop
/// meanwhile must start again, and a change that is tied to a held-back change is held back with it.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowScope {
    /// Recipes whose changes belong to the window because of the version that they share with another one.
    pub tied: BTreeSet<String>,
    /// Units that stop, with the recipe that changes meanwhile.
    pub stops: Vec<WindowStop>,
    /// Modules that are unloaded, with the recipe that changes meanwhile.
    pub unloads: Vec<WindowStop>,
    /// Recipes that must have the version of a recipe with a held-back change, with that change.
    pub shut: BTreeMap<String, StepId>,
    /// A step because of which the window could not close again, so that it is not opened, and what is wrong with the
    /// step.
    pub futile: Option<(StepId, &'static str)>,
    /// Why nothing may change on the host, if it is on hold.
    pub hold: Option<String>,
    /// The highest disruption that is not held back.
    most: DisruptionClass,
}

impl WindowScope {
    /// Returns the state before the first pass.
    pub fn from_policy(policy: PlanPolicy, seen: &ObservedHost) -> Self {
        Self {
            tied: BTreeSet::new(),
            stops: Vec::new(),
            unloads: Vec::new(),
            shut: BTreeMap::new(),
            futile: None,
            hold: describe_hold(seen),
            most: policy.max_disruption,
        }
    }

    /// Returns the state that the steps of the first pass require.
    pub fn from_steps(
        case: &HostContext<'_>,
        turns: &[StepInstance<'_>],
        steps: &[StepPlan],
        policy: PlanPolicy,
    ) -> Self {
        let scope = Self::limited_to(case, steps, policy.max_disruption);
        match scope.find_stuck_step(case, turns, steps) {
            Some(step) => Self {
                futile: stuck_state(step).map(|word| (step.id.clone(), word)),
                ..Self::limited_to(case, steps, policy.max_disruption.min(DisruptionClass::D1))
            },
            None => scope,
        }
    }

    fn limited_to(case: &HostContext<'_>, steps: &[StepPlan], most: DisruptionClass) -> Self {
        let project = case.ground.project;
        let shut = find_held_recipes(project, steps, most);
        let goes =
            |step: &&StepPlan| step.will_run() && step_disruption(step) <= most && !shut.contains_key(&*step.id.recipe);
        let heavy = steps.iter().filter(|step| goes(step) && step_disruption(step) >= DisruptionClass::D2);
        let core: BTreeSet<String> = heavy.map(|step| step.id.recipe.to_string()).collect();
        let tied = &expand_tied_recipes(project, &core) - &core;
        let changing = steps.iter().filter(|step| goes(step) && tied.contains(&*step.id.recipe));
        let changing: BTreeSet<&str> =
            changing.map(|step| &*step.id.recipe).chain(core.iter().map(String::as_str)).collect();
        let (stops, unloads) = list_stops(case, &changing);
        Self { tied, stops, unloads, shut, futile: None, hold: describe_hold(case.seen), most }
    }

    /// Returns a step because of which the window could not close again. After a reboot the whole host must be proven,
    /// otherwise only the recipes of the window. If an earlier run left a window open, the host is already out of
    /// service, so no step counts.
    fn find_stuck_step<'s>(
        &self,
        case: &HostContext<'_>,
        turns: &[StepInstance<'_>],
        steps: &'s [StepPlan],
    ) -> Option<&'s StepPlan> {
        let stuck = |step: &&StepPlan| stuck_state(step).is_some();
        if super::left_open_by(case.seen, &case.ground.project.cluster).is_some()
            || !steps.iter().any(|step| stuck(&step))
        {
            return None;
        }
        let members = WindowMembers::new(case, self);
        let inside: Vec<_> = turns.iter().zip(steps).filter(|(turn, step)| members.is_member(turn, step)).collect();
        let reboots = inside.iter().any(|(_, step)| step_disruption(step) >= DisruptionClass::D3)
            || turns.iter().zip(steps).any(|(turn, step)| members.awaits_reboot(turn, step));
        let recipes: BTreeSet<&str> = inside.iter().map(|(_, step)| &*step.id.recipe).collect();
        let of_window = |step: &&StepPlan| recipes.contains(&*step.id.recipe) || self.tied.contains(&*step.id.recipe);
        let counts = |step: &&StepPlan| reboots || (!recipes.is_empty() && of_window(step));
        steps.iter().filter(stuck).find(counts)
    }

    /// Returns whether hosts may reboot to make steps effective.
    pub fn may_reboot(&self, project: &Project) -> bool {
        self.hold.is_none() && project.rollout.reboot == RebootPolicy::Allow && self.most >= DisruptionClass::D3
    }

    /// Returns why a step that could run is held back.
    pub fn held_reason(&self, step: &StepPlan) -> Option<String> {
        let class = step_disruption(step);
        let most = self.most;
        match (&self.futile, self.shut.get(&*step.id.recipe)) {
            _ if !step.will_run() => None,
            _ if self.hold.is_some() => self.hold.clone(),
            (Some((id, word)), _) if class > most => Some(explain_unopened_window(id, word)),
            _ if class > most => Some(format!("is {class}, and `--max-disruption` is {most}")),
            (Some(_), Some(core)) => Some(format!("must have the version of `{core}`, which is held back")),
            (None, Some(core)) => {
                Some(format!("must have the version of `{core}`, which `--max-disruption` ({most}) holds back"))
            }
            (_, None) => None,
        }
    }

    /// Returns whether the second pass can differ from the first.
    pub fn needs_second_pass(&self) -> bool {
        !self.stops.is_empty() || !self.unloads.is_empty() || !self.shut.is_empty() || self.futile.is_some()
    }

    /// Returns the recipe that changes while a unit is stopped.
    pub fn stopped_during(&self, unit: &str) -> Option<&str> {
        find_stop_recipe(&self.stops, unit)
    }

    /// Returns the recipe that changes while a module is unloaded.
    pub fn unloaded_during(&self, module: &str) -> Option<&str> {
        find_stop_recipe(&self.unloads, module)
    }
}

fn describe_hold(seen: &ObservedHost) -> Option<String> {
    seen.hold.as_ref().map(HostHold::describe)
}

fn find_stop_recipe<'s>(stops: &'s [WindowStop], name: &str) -> Option<&'s str> {
    stops.iter().find(|stop| stop.name == name).map(|stop| stop.during.as_str())
}

/// Returns the recipes that must have the version of a recipe of which the policy holds back a step.
fn find_held_recipes(project: &Project, steps: &[StepPlan], most: DisruptionClass) -> BTreeMap<String, StepId> {
    let mut shut = BTreeMap::new();
    // In this pass, a step is held back only because of its class: nothing is tied yet.
    let over = |step: &&StepPlan| (step.will_run() || step.held.is_some()) && step_disruption(step) > most;
    for step in steps.iter().filter(over).filter(|step| step_disruption(step) >= DisruptionClass::D2) {
        let own = step.id.recipe.to_string();
        for recipe in
            expand_tied_recipes(project, &BTreeSet::from([own.clone()])).into_iter().filter(|recipe| *recipe != own)
        {
            shut.entry(recipe).or_insert_with(|| step.id.clone());
        }
    }
    shut
}

/// Returns `core` and the recipes that must have the version of one of its recipes, directly or through others.
fn expand_tied_recipes(project: &Project, core: &BTreeSet<String>) -> BTreeSet<String> {
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

/// Returns the ways in which a step declares to become effective.
pub fn list_effect_triggers<'t>(turn: &'t StepInstance<'_>) -> impl Iterator<Item = &'t str> {
    turn.step.effective.iter().flat_map(|effective| effective.by.iter().map(String::as_str))
}

/// Returns whether a reboot makes a step effective, according to the step's declaration or its kind; never if one failed
/// to do so.
pub fn needs_reboot(turn: &StepInstance<'_>, step: &StepPlan) -> bool {
    !step.reboot_failed
        && !step.notes_only
        && (step.by_reboot || (!turn.expanded.absent && list_effect_triggers(turn).any(|way| way == "reboot")))
}

/// Returns whether the resource of a step is configured first and effective only later.
pub fn has_delayed_effect(turn: &StepInstance<'_>, step: &StepPlan) -> bool {
    !step.notes_only && (step.by_reboot || (!turn.expanded.absent && turn.step.effective.is_some()))
}

/// Classifies the steps of one host with respect to its window.
pub(super) struct WindowMembers<'m> {
    scope: &'m WindowScope,
    /// Whether the policy allows a reboot to make steps effective.
    reboots: bool,
}

impl<'m> WindowMembers<'m> {
    pub fn new(case: &HostContext<'_>, scope: &'m WindowScope) -> Self {
        Self { scope, reboots: scope.may_reboot(case.ground.project) }
    }

    /// Returns whether a step takes its host out of service, or must have the version of one that does. The cluster
    /// itself has no window.
    pub fn is_member(&self, turn: &StepInstance<'_>, step: &StepPlan) -> bool {
        let tied = || self.scope.tied.contains(&turn.instance.recipe.name);
        step.scope != StepScope::Cluster && step.will_run() && (step_disruption(step) >= DisruptionClass::D2 || tied())
    }

    /// Returns whether a reboot is planned to make a step effective.
    pub fn awaits_reboot(&self, turn: &StepInstance<'_>, step: &StepPlan) -> bool {
        self.reboots && is_changing_or_pending(step) && needs_reboot(turn, step)
    }
}

/// Returns the word for the state that prevents a step in this run, even in a window. A `one` step that may have run on
/// hosts which are not in this run says nothing about this host.
fn stuck_state(step: &StepPlan) -> Option<&'static str> {
    let own = step.waits_for.is_none() && step.scope != crate::model::StepScope::One;
    match step.verdict {
        StepVerdict::Blocked(_) if own => Some("blocked"),
        StepVerdict::Unknown if own => Some("unknown"),
        _ => None,
    }
}

/// Returns why the window of a host is not opened if one of its steps cannot be completed.
pub fn explain_unopened_window(step: &StepId, word: &str) -> String {
    format!("not taken out of service: `{step}` is {word}, so the host would not come back")
}

/// Returns the units that stop and the modules that are unloaded while `changing` recipes change.
pub(super) fn list_stops(case: &HostContext<'_>, changing: &BTreeSet<&str>) -> (Vec<WindowStop>, Vec<WindowStop>) {
    let (mut units, mut modules) = (Vec::new(), Vec::new());
    let present = case.instances().iter().filter(|instance| !instance.absent);
    for during in present.flat_map(|instance| instance.recipe.during_requirements()) {
        if changing.contains(during.recipe.as_str()) {
            add_stops(&during.stopped, &during.recipe, &mut units);
            add_stops(&during.unloaded, &during.recipe, &mut modules);
        }
    }
    (units, modules)
}

fn add_stops(names: &[String], during: &str, into: &mut Vec<WindowStop>) {
    for name in names {
        if !into.iter().any(|stop| stop.name == *name) {
            into.push(WindowStop { name: name.clone(), during: during.to_owned() });
        }
    }
}
