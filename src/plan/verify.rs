//! Evaluates the `verify` entries of a host's recipes against the observed state.

use super::case::Case;
use super::demand::{check_probe, verify_id};
use super::judge::check_status;
use super::model::{CheckRun, StepPlan, VerifyPlan};
use crate::config::{About, Instance, Judged, Verify};
use crate::model::{SecretStore, Untrusted, Value, Verdict};
use crate::probe::{ObjectsAsked, Probe, Reading};
use std::sync::Arc;

/// Evaluates the `verify` entries of every recipe of a host. They stay pending for a recipe with steps that do not
/// match.
pub(super) fn verifications(case: &Case<'_>, steps: &[StepPlan]) -> Vec<VerifyPlan> {
    let mut list = Vec::new();
    for instance in case.instances().iter().filter(|i| !i.absent) {
        let name = &instance.recipe.name;
        if !case.ground.filter.admits_recipe(name) {
            continue;
        }
        let unsettled = |s: &&StepPlan| *s.id.recipe == **name && !s.verdict.is_settled();
        let pending = |s: &&StepPlan| s.verdict == Verdict::Pending;
        let stops = steps.iter().filter(unsettled).find(|step| !pending(step));
        let pending = steps.iter().filter(unsettled).find(pending).map(|step| step.id.to_string());
        for verify in instance.recipe.verify.iter().filter(|v| case.ground.filter.admits_level(v.level)) {
            let judged = match stops {
                Some(step) => (Verdict::Pending, format!("evaluated after `{}` is done", step.id)),
                None => despite(pending.as_deref(), verification(case, instance, verify)),
            };
            list.push(VerifyPlan {
                recipe: name.clone(),
                name: verify.name.clone(),
                verdict: judged.0,
                reason: judged.1.into(),
                check: check_run(case, instance, verify, judged.0),
                level: verify.level,
                place: case.ground.project.sources.place(verify.span),
            });
        }
    }
    list
}

/// Turns a failed verification into pending while a step of the recipe is configured but not yet effective: it may pass
/// later.
pub fn despite(pending: Option<&str>, judged: (Verdict, String)) -> (Verdict, String) {
    match (pending, judged) {
        (Some(step), (Verdict::Change, why)) => (Verdict::Pending, format!("{why}; `{step}` is pending")),
        (_, judged) => judged,
    }
}

/// Evaluates one `verify` entry against the observed state.
pub fn verification(case: &Case<'_>, instance: &Arc<Instance>, verify: &Verify) -> (Verdict, String) {
    let (expander, known) = (case.ground.expander, case.known());
    let judged = match expander.about(case.host, instance, verify, &known) {
        Some(Ok(asked)) => match found(case, verify, asked) {
            Ok(found) => expander.verify_found(case.host, instance, verify, &known, found),
            Err(judged) => return judged,
        },
        Some(Err(judged)) => judged,
        None => expander.verify(case.host, instance, verify, &known),
    };
    let id = verify_id(&instance.recipe.name, &verify.name);
    match &judged {
        Judged::Holds { .. } => (Verdict::Ok, "passed".to_owned()),
        Judged::NotApplicable => (Verdict::NotApplicable, "`when` is false".to_owned()),
        Judged::Fails { shown, .. } => (Verdict::Change, fails(verify, shown.as_deref())),
        Judged::Unknown { why, .. } => (Verdict::Unknown, why.clone()),
        Judged::Check { .. } => match check_probe(&id, &judged, None).map(|probe| check_status(case, &probe)) {
            Some(Ok(true)) | None => (Verdict::Ok, "the check exited 0".to_owned()),
            Some(Ok(false)) => (Verdict::Change, "the check exited 1".to_owned()),
            Some(Err(why)) => (Verdict::Unknown, why),
        },
    }
}

/// Returns the output of a verification's command if that explains its verdict.
pub fn check_run(case: &Case<'_>, instance: &Arc<Instance>, verify: &Verify, verdict: Verdict) -> Option<CheckRun> {
    if !matches!(verdict, Verdict::Change | Verdict::Unknown) || verify.about.is_some() {
        return None;
    }
    let judged = case.ground.expander.verify(case.host, instance, verify, &case.known());
    let probe = check_probe(&verify_id(&instance.recipe.name, &verify.name), &judged, None)?;
    let (Probe::Check { script, .. }, Ok(Reading::Output(output))) = (&probe, case.seen.observation.get(&probe)) else {
        return None;
    };
    let printed = [&output.stdout, &output.stderr].map(|text| text.raw().trim_end()).join("\n");
    Some(CheckRun {
        command: SecretStore::mask(script.trim()).into(),
        status: output.status,
        output: Untrusted::new(case.ground.secrets.scrub(printed.trim_matches('\n'))).last_lines(),
    })
}

fn fails(verify: &Verify, shown: Option<&str>) -> String {
    let expect = verify.expect.as_ref().map(|expect| expect.source.trim().to_owned()).unwrap_or_default();
    let shown = shown.filter(|shown| !shown.is_empty()).map(|shown| format!(" ({shown})"));
    format!("expectation failed: {expect}{}", shown.unwrap_or_default())
}

/// Returns the objects that a verification is about.
///
/// # Errors
/// The verdict without them: the verification fails if the object does not exist or the API does not serve its kind.
fn found<'c>(case: &'c Case<'_>, verify: &Verify, asked: ObjectsAsked) -> Result<&'c [Value], (Verdict, String)> {
    let (kind, version, told) = (asked.kind.clone(), asked.api_version.clone(), asked.to_string());
    match case.seen.observation.get(&Probe::Objects(Box::new(asked))) {
        Ok(Reading::Objects(Some(found))) if found.is_empty() && matches!(verify.about, Some(About::One(_))) => {
            Err((Verdict::Change, format!("{told} not found")))
        }
        Ok(Reading::Objects(Some(found))) => Ok(found),
        Ok(Reading::Objects(None)) => Err((Verdict::Change, format!("the API serves no `{kind}` of `{version}`"))),
        Ok(_) => Err((Verdict::Unknown, "unexpected type of answer".to_owned())),
        Err(unknown) => Err((Verdict::Unknown, unknown.why)),
    }
}

/// Returns the first verification of a recipe that does not pass, with the reason.
pub fn unproven(case: &Case<'_>, instance: &Arc<Instance>) -> Option<String> {
    instance.recipe.verify.iter().find_map(|verify| match verification(case, instance, verify) {
        (verdict, _) if verdict.is_settled() => None,
        (_, why) => Some(format!("verification `{}`: {why}", verify.name)),
    })
}
