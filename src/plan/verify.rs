//! Evaluates the `verify` entries of a host's recipes against the observed state.

use super::assessment::read_check_status;
use super::check_run::read_check_run;
use super::declared_digest::digest_desired;
use super::host_context::{HostContext, StepInstance};
use super::model::{CheckRun, HostPlan, StepPlan, VerifyPlan};
use super::required_probes::{build_check_probe, verify_probe_id};
use crate::config::{
    ConditionOutcome, ExpansionInputs, ExpansionState, ExportedValues, FactSource, PendingInput, RecipeInstance,
    RecipeVerification, VerifyTarget, list_recipes_read_by,
};
use crate::model::{StepVerdict, Value};
use crate::probe::{ObjectsQuery, Probe, ProbeReading};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Evaluates the `verify` entries of every recipe of a host. They stay pending for a recipe with steps that do not
/// match, and if they read parameters or exports of such a recipe.
pub(super) fn assess_verifications(case: &HostContext<'_>, steps: &[StepPlan]) -> Vec<VerifyPlan> {
    let mut list = Vec::new();
    // A note of the package manager changes nothing that a verification reads.
    let is_note = |s: &StepPlan| s.verdict == StepVerdict::Change && s.notes_only;
    let open: Vec<&StepPlan> = steps.iter().filter(|s| !s.verdict.is_settled() && !is_note(s)).collect();
    for instance in case.instances().iter().filter(|i| !i.absent) {
        let name = &instance.recipe.name;
        if !case.ground.filter.admits_recipe(name) {
            continue;
        }
        let (own, others): (Vec<&StepPlan>, Vec<&StepPlan>) =
            open.iter().copied().partition(|step| *step.id.recipe == **name);
        for verify in instance.recipe.verify.iter().filter(|v| case.ground.filter.admits_level(v.level)) {
            let awaited = own.iter().copied().chain(list_read_steps(case, verify, &own, &others));
            let (pending, stops): (Vec<&StepPlan>, Vec<&StepPlan>) =
                awaited.partition(|step| step.verdict == StepVerdict::Pending);
            let pending = pending.first().map(|step| step.id.to_string());
            let judged = match stops.first() {
                Some(_) if is_excluded(case, instance, verify) => {
                    (StepVerdict::NotApplicable, "`when` is false".to_owned())
                }
                Some(step) => (StepVerdict::Pending, format!("evaluated after `{}` is done", step.id)),
                None if case.seen.missing.is_some() => {
                    (StepVerdict::Pending, "evaluated once the cluster exists".to_owned())
                }
                None => adjust_for_pending(pending.as_deref(), assess_verification(case, instance, verify)),
            };
            list.push(VerifyPlan {
                recipe: name.as_str().into(),
                name: verify.name.as_str().into(),
                verdict: judged.0,
                reason: judged.1.into(),
                check: build_check_run(case, instance, verify, judged.0),
                level: verify.level,
                place: case.ground.project.sources.format_location(verify.span).into(),
            });
        }
    }
    list
}

/// Returns those of `others`, the steps of other recipes that do not match, whose recipe the verification reads. What
/// it reads is only looked up if its own recipe does not hold it back.
fn list_read_steps<'s>(
    case: &HostContext<'_>,
    verify: &RecipeVerification,
    own: &[&StepPlan],
    others: &[&'s StepPlan],
) -> Vec<&'s StepPlan> {
    if others.is_empty() || own.iter().any(|step| step.verdict != StepVerdict::Pending) {
        return Vec::new();
    }
    let read = list_recipes_read_by(verify, case.ground.project);
    others.iter().copied().filter(|step| read.contains(&*step.id.recipe)).collect()
}

/// Reports whether the condition of a verification is false whatever the host reports: no step of the plan changes
/// that.
fn is_excluded(case: &HostContext<'_>, instance: &Arc<RecipeInstance>, verify: &RecipeVerification) -> bool {
    let declared = ExpansionInputs { facts: FactSource::NotYet, exports: &ExportedValues::new() };
    let judged = || case.ground.expander.evaluate_verify(case.host, instance, verify, &declared);
    verify.when.is_some() && matches!(judged(), ConditionOutcome::NotApplicable)
}

/// Turns a failed verification into pending while a step of the recipe is configured but not yet effective: it may pass
/// later.
pub fn adjust_for_pending(pending: Option<&str>, judged: (StepVerdict, String)) -> (StepVerdict, String) {
    match (pending, judged) {
        (Some(step), (StepVerdict::Change, why)) => (StepVerdict::Pending, format!("{why}; `{step}` is pending")),
        (_, judged) => judged,
    }
}

/// Returns the recipes with a pending step, or with one that does not match and is not declared as the host's record
/// says it was applied. In each other recipe, the host changed and not the declaration: what its verifications read now
/// is part of that change.
pub fn list_changed_recipes<'s>(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    plan: &'s HostPlan,
) -> BTreeSet<&'s str> {
    let mut recipes = BTreeSet::new();
    for step in plan.steps.iter().filter(|step| !step.verdict.is_settled()) {
        let turn = turns.iter().find(|turn| turn.expanded.id == step.id);
        let as_applied = || turn.is_some_and(|turn| is_as_applied(case, turn));
        if !recipes.contains(&*step.id.recipe) && (step.verdict == StepVerdict::Pending || !as_applied()) {
            recipes.insert(&*step.id.recipe);
        }
    }
    recipes
}

/// Reports whether a verification reads parameters or exports of one of these recipes.
pub fn reads_recipes(case: &HostContext<'_>, verify: &VerifyPlan, recipes: &BTreeSet<&str>) -> bool {
    let declared = find_declaration(case, verify).filter(|_| !recipes.is_empty());
    let read = declared.map(|(_, declared)| list_recipes_read_by(declared, case.ground.project)).unwrap_or_default();
    read.iter().any(|recipe| recipes.contains(recipe.as_str()))
}

fn find_declaration<'c>(
    case: &'c HostContext<'_>,
    verify: &VerifyPlan,
) -> Option<(&'c Arc<RecipeInstance>, &'c RecipeVerification)> {
    let instance = case.instances().iter().find(|instance| instance.recipe.name == verify.recipe)?;
    Some((instance, instance.recipe.verify.iter().find(|declared| declared.name == verify.name)?))
}

fn is_as_applied(case: &HostContext<'_>, turn: &StepInstance<'_>) -> bool {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return false };
    let digest = || digest_desired(resource.as_ref(), case.ground.secrets, case.seen.key.as_deref());
    let record = case.find_record(&turn.expanded.id).and_then(|record| record.get("digest")?.as_str());
    record.is_some_and(|recorded| recorded == digest())
}

/// Evaluates a verification that a plan leaves for later with the present observation. `None` without an answer.
pub fn assess_waiting_verification(case: &HostContext<'_>, verify: &VerifyPlan) -> Option<VerifyPlan> {
    if verify.verdict != StepVerdict::Pending || case.seen.missing.is_some() {
        return None;
    }
    let (instance, declared) = find_declaration(case, verify)?;
    let (verdict, reason) = assess_verification(case, instance, declared);
    let check = build_check_run(case, instance, declared, verdict);
    (verdict != StepVerdict::Pending).then(|| VerifyPlan { verdict, reason: reason.into(), check, ..verify.clone() })
}

/// Evaluates one `verify` entry against the observed state.
pub fn assess_verification(
    case: &HostContext<'_>,
    instance: &Arc<RecipeInstance>,
    verify: &RecipeVerification,
) -> (StepVerdict, String) {
    let (expander, known) = (case.ground.expander, case.known_values());
    let judged = match expander.resolve_verify_objects(case.host, instance, verify, &known) {
        Some(Ok(asked)) => match find_objects(case, verify, asked) {
            Ok(found) => expander.evaluate_verify_with_objects(case.host, instance, verify, &known, found),
            Err(judged) => return judged,
        },
        Some(Err(judged)) => judged,
        None => expander.evaluate_verify(case.host, instance, verify, &known),
    };
    let id = verify_probe_id(&instance.recipe.name, &verify.name);
    match &judged {
        ConditionOutcome::Holds { .. } => (StepVerdict::Ok, "passed".to_owned()),
        ConditionOutcome::NotApplicable => (StepVerdict::NotApplicable, "`when` is false".to_owned()),
        ConditionOutcome::Fails { shown, .. } => (StepVerdict::Change, describe_failure(verify, shown.as_deref())),
        ConditionOutcome::Unknown { why, .. } => (StepVerdict::Unknown, why.clone()),
        ConditionOutcome::Check { .. } => {
            match build_check_probe(&id, &judged, None).map(|probe| read_check_status(case, &probe)) {
                Some(Ok(0)) | None => (StepVerdict::Ok, "the check exited 0".to_owned()),
                Some(Ok(status)) => (StepVerdict::Change, format!("the check exited {status}")),
                Some(Err(why)) => (StepVerdict::Unknown, why),
            }
        }
    }
}

/// Reports whether a verification waits for an exported value that this run does not make.
pub fn lacks_export(case: &HostContext<'_>, instance: &Arc<RecipeInstance>, verify: &RecipeVerification) -> bool {
    let judged = case.ground.expander.evaluate_verify(case.host, instance, verify, &case.known_values());
    matches!(judged, ConditionOutcome::Unknown { need: Some(PendingInput::Export { missing, .. }), .. } if !missing.is_empty())
}

/// Returns the output of a verification's command if that explains its verdict.
pub fn build_check_run(
    case: &HostContext<'_>,
    instance: &Arc<RecipeInstance>,
    verify: &RecipeVerification,
    verdict: StepVerdict,
) -> Option<CheckRun> {
    if !matches!(verdict, StepVerdict::Change | StepVerdict::Unknown) || verify.about.is_some() {
        return None;
    }
    let judged = case.ground.expander.evaluate_verify(case.host, instance, verify, &case.known_values());
    read_check_run(case, &build_check_probe(&verify_probe_id(&instance.recipe.name, &verify.name), &judged, None)?)
}

fn describe_failure(verify: &RecipeVerification, shown: Option<&str>) -> String {
    let expect = verify.expect.as_ref().map(|expect| expect.source.trim().to_owned()).unwrap_or_default();
    let shown = shown.filter(|shown| !shown.is_empty()).map(|shown| format!(" ({shown})"));
    format!("expectation failed: {expect}{}", shown.unwrap_or_default())
}

/// Returns the objects that a verification is about.
///
/// # Errors
/// The verdict without them: the verification fails if the object does not exist or the API does not serve its kind.
fn find_objects<'c>(
    case: &'c HostContext<'_>,
    verify: &RecipeVerification,
    asked: ObjectsQuery,
) -> Result<&'c [Value], (StepVerdict, String)> {
    let (kind, version, told) = (asked.kind.clone(), asked.api_version.clone(), asked.to_string());
    match case.seen.observation.get(&Probe::Objects(Box::new(asked))) {
        Ok(ProbeReading::Objects(Some(found)))
            if found.is_empty() && matches!(verify.about, Some(VerifyTarget::One(_))) =>
        {
            Err((StepVerdict::Change, format!("{told} not found")))
        }
        Ok(ProbeReading::Objects(Some(found))) => Ok(found),
        Ok(ProbeReading::Objects(None)) => {
            Err((StepVerdict::Change, format!("the API serves no `{kind}` of `{version}`")))
        }
        Ok(_) => Err((StepVerdict::Unknown, "unexpected type of answer".to_owned())),
        Err(unknown) => Err((StepVerdict::Unknown, unknown.why)),
    }
}

/// Returns the first verification of a recipe that does not pass, with the reason.
pub fn find_failed_verification(case: &HostContext<'_>, instance: &Arc<RecipeInstance>) -> Option<String> {
    instance.recipe.verify.iter().find_map(|verify| match assess_verification(case, instance, verify) {
        (verdict, _) if verdict.is_settled() => None,
        (_, why) => Some(format!("verification `{}`: {why}", verify.name)),
    })
}
