//! The `verify` entries of a host's recipes, judged from what was seen.

use super::case::Case;
use super::demand::{check_probe, verify_id};
use super::judge::check_status;
use super::model::{StepPlan, VerifyPlan};
use crate::config::{Instance, Judged};
use crate::model::Verdict;
use std::sync::Arc;

/// Judges the `verify` entries of every recipe of a host whose steps all are as desired.
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
                Some(step) => (Verdict::Pending, format!("judged once `{}` is done", step.id)),
                None => despite(pending.as_deref(), verification(case, instance, verify)),
            };
            list.push(VerifyPlan {
                recipe: name.clone(),
                name: verify.name.clone(),
                verdict: judged.0,
                reason: judged.1.into(),
                level: verify.level,
                place: case.ground.project.sources.place(verify.span),
            });
        }
    }
    list
}

/// What does not hold while a step of the recipe is configured and not yet effective may hold later.
pub fn despite(pending: Option<&str>, judged: (Verdict, String)) -> (Verdict, String) {
    match (pending, judged) {
        (Some(step), (Verdict::Change, why)) => (Verdict::Pending, format!("{why}; `{step}` is pending")),
        (_, judged) => judged,
    }
}

/// Judges one `verify` entry from what was seen.
pub fn verification(case: &Case<'_>, instance: &Arc<Instance>, verify: &crate::config::Verify) -> (Verdict, String) {
    let judged = case.ground.expander.verify(case.host, instance, verify, &case.known());
    let id = verify_id(&instance.recipe.name, &verify.name);
    match &judged {
        Judged::Holds { .. } => (Verdict::Ok, "holds".to_owned()),
        Judged::NotApplicable => (Verdict::NotApplicable, "its `when` is false here".to_owned()),
        Judged::Fails { .. } => {
            let expect = verify.expect.as_ref().map(|e| e.source.trim().to_owned()).unwrap_or_default();
            (Verdict::Change, format!("does not hold: {expect}"))
        }
        Judged::Unknown { why, .. } => (Verdict::Unknown, why.clone()),
        Judged::Check { .. } => match check_probe(&id, &judged, None).map(|probe| check_status(case, &probe)) {
            Some(Ok(true)) | None => (Verdict::Ok, "the check exited 0".to_owned()),
            Some(Ok(false)) => (Verdict::Change, "the check exited 1".to_owned()),
            Some(Err(why)) => (Verdict::Unknown, why),
        },
    }
}

/// Returns the first verification of a recipe that does not hold, and why.
pub fn unproven(case: &Case<'_>, instance: &Arc<Instance>) -> Option<String> {
    instance.recipe.verify.iter().find_map(|verify| match verification(case, instance, verify) {
        (verdict, _) if verdict.is_settled() => None,
        (_, why) => Some(format!("verification `{}`: {why}", verify.name)),
    })
}
