//! Which changes are guarded: those that can cut forge off from their host, and those whose step declares it.

use super::assessment::UnfinishedRun;
use super::host_context::StepInstance;
use super::model::HostWarning;
use super::required_probes::{find_restart_inputs, names_restart_input};
use super::{ObservedHost, OngoingWork};
use crate::config::{ExpansionState, RecipeStep};
use crate::model::{
    GUARD_DEFAULT_S, GuardEffect, StepGuard, StepId, StepScope, StepVerdict, is_access_path, is_access_unit,
};
use crate::probe::{GuardState, GuardTrace};
use crate::resource::{Assessment, GuardSupport};

/// Returns the seconds after which the host restores the state before a change, if the change is guarded.
pub fn find_guard_time(turn: &StepInstance<'_>, turns: &[StepInstance<'_>], judgement: &Assessment) -> Option<u64> {
    if judgement.verdict != StepVerdict::Change || !may_guard(turn.step) {
        return None;
    }
    let concerned = find_guard_effect(turn, turns, judgement).concerns_access();
    match turn.step.guard {
        StepGuard::After(seconds) => Some(seconds),
        _ => find_input_guard(turn, turns)
            .max(find_dependent_guard(turn, turns))
            .or(concerned.then_some(GUARD_DEFAULT_S)),
    }
}

/// Returns what a guard of the change restores.
pub fn find_guard_effect(turn: &StepInstance<'_>, turns: &[StepInstance<'_>], judgement: &Assessment) -> GuardEffect {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return GuardEffect::default() };
    let effect = resource.guard_effect(judgement);
    GuardEffect { reruns: effect.reruns && !find_restart_inputs(turn, turns).is_empty(), ..effect }
}

/// Returns the guarded steps that put a change of `turn` into effect: what it changed can cut forge off only then.
pub fn list_guarded_dependents(turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> Vec<StepId> {
    let depends = |other: &&StepInstance<'_>| may_guard(other.step) && names_restart_input(other, turn);
    turns.iter().filter(depends).map(|other| other.expanded.id.clone()).collect()
}

/// Returns the longest guard among the steps that put a change of `turn` into effect: it restores that change, too. A
/// program reads any file: the environment file of sshd's unit, a drop-in of it.
fn find_dependent_guard(turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> Option<u64> {
    let guard_time = |other: &StepInstance<'_>| match (other.step.guard, &other.expanded.state) {
        (StepGuard::After(seconds), _) => Some(seconds),
        (StepGuard::Derived, ExpansionState::Resource(resource)) => {
            let names_access = |(_, name): &(_, String)| is_access_unit(name);
            resource.exclusive_claims().iter().any(names_access).then_some(GUARD_DEFAULT_S)
        }
        _ => None,
    };
    let dependents = turns.iter().filter(|other| names_restart_input(other, turn) && may_guard(other.step));
    dependents.filter_map(guard_time).max()
}

fn may_guard(step: &RecipeStep) -> bool {
    step.guard != StepGuard::Off
        && step.traits().guard != GuardSupport::None
        && matches!(step.scope, StepScope::Host | StepScope::One)
        && !step.long
}

/// Returns the longest guard among the inputs of a step: it puts their changes into effect.
fn find_input_guard(turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> Option<u64> {
    let input_time = |input: &StepInstance<'_>| match (input.step.guard, &input.expanded.state) {
        (StepGuard::After(seconds), _) => Some(seconds),
        (StepGuard::Derived, ExpansionState::Resource(resource)) if may_guard(input.step) => {
            resource.restart_input_paths().iter().any(|path| is_access_path(path)).then_some(GUARD_DEFAULT_S)
        }
        _ => None,
    };
    find_restart_inputs(turn, turns).into_iter().filter_map(input_time).max()
}

/// Returns what an earlier run still does on the host: a guard that will restore the state before, or its work. An undo
/// declares the state before a run, which that work may leave again.
pub(super) fn find_unfinished_run(seen: &ObservedHost, is_undo: bool) -> Option<UnfinishedRun> {
    let guard = seen.guards.iter().find(|guard| guard.state == GuardState::Armed).map(|guard| UnfinishedRun {
        what: format!("the guard of run {}", guard.run.raw()),
        restores: guard.steps.iter().map(|step| step.raw().to_owned()).collect(),
        may_change_all: is_undo,
    });
    let work = |work: &OngoingWork| UnfinishedRun { what: work.name(), restores: Vec::new(), may_change_all: is_undo };
    guard.or_else(|| seen.activity.as_ref().map(work))
}

/// Returns the warnings about guards of earlier runs that no session confirmed.
pub(super) fn warn_unconfirmed_guards(seen: &ObservedHost) -> impl Iterator<Item = HostWarning> + '_ {
    seen.guards.iter().map(warn_unconfirmed)
}

fn warn_unconfirmed(guard: &GuardTrace) -> HostWarning {
    let (run, steps, time) = (guard.run.raw(), guard.list_steps(), guard.time.raw());
    let (why, hint) = match guard.state {
        GuardState::Armed => (
            format!(
                "the guard of run {run} waits for a new session: the host restores the state before {steps} \
                 within {time}"
            ),
            "an apply waits for its end; a plan made after it shows the restored state",
        ),
        GuardState::Restored => (
            format!(
                "the guard of run {run} restored the state before {steps}: no new session confirmed it within {time}"
            ),
            "correct the declaration before the next apply: it makes the same change again",
        ),
    };
    HostWarning { why: why.into(), hint: Some(hint.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostName;
    use crate::probe::Observation;

    #[test]
    fn running_work_may_change_any_step_of_an_undo() {
        let unit = OngoingWork::Unit { name: "forge-r1-0001.service".to_owned(), since: "".into() };
        let seen = ObservedHost {
            activity: Some(unit),
            ..ObservedHost::from_observation(&HostName::new("a"), Observation::default(), 1)
        };
        let step = StepId::new("undo", "base slow");
        let may_change = |is_undo| find_unfinished_run(&seen, is_undo).is_some_and(|work| work.may_change(&step));
        assert!(may_change(true) && !may_change(false), "an apply declares what that work leaves");
    }

    #[test]
    fn unconfirmed_guards_are_named_with_run_and_step() {
        let trace = |state| GuardTrace {
            state,
            run: "20261121T093015-4f2a".into(),
            steps: vec!["base/sshd".into(), "base/ssh".into()],
            time: "5m".into(),
        };
        let why = |state| warn_unconfirmed(&trace(state)).why.raw().to_owned();
        assert_eq!(
            why(GuardState::Restored),
            "the guard of run 20261121T093015-4f2a restored the state before `base/sshd` and `base/ssh`: \
             no new session confirmed it within 5m"
        );
        assert!(why(GuardState::Armed).contains("waits for a new session"));
    }
}
