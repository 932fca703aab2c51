//! Detects reboots that did not make a step effective: another one would not either, and takes the host out of service.

use super::declared_digest::digest_desired;
use super::host_context::{HostContext, StepInstance};
use crate::model::{StepVerdict, Value};
use crate::resource::{Assessment, Resource};

const HINT: &str =
    "find out why it is not effective; if a repair outside of forge needs a reboot, reboot the host yourself";

/// Marks a pending step if the host rebooted since the step was applied, and nothing of its recipe was applied since.
pub(super) fn mark_failed_reboot(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    resource: &dyn Resource,
    judgement: Assessment,
) -> Assessment {
    let by_reboot = judgement.by_reboot
        || turn.step.effective.as_ref().is_some_and(|effective| effective.by.iter().any(|way| way == "reboot"));
    if judgement.verdict != StepVerdict::Pending || !by_reboot || !has_rebooted_since(case, turn, resource) {
        return judgement;
    }
    let reason = format!("{}; the host rebooted since, to no effect", judgement.reason.raw());
    let hint = judgement.hint.clone().unwrap_or_else(|| HINT.to_owned());
    Assessment { reboot_failed: true, reason: reason.into(), ..judgement }.hint(hint)
}

/// Returns whether the records show the step's present declaration as applied in an earlier boot, and no step of its
/// recipe as applied in this one.
fn has_rebooted_since(case: &HostContext<'_>, turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
    let text = |record: &Value, key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
    let (Some(record), Some(boot)) = (case.find_record(&turn.expanded.id), case.seen.facts.boot_id()) else {
        return false;
    };
    let digest = digest_desired(resource, case.ground.secrets, case.seen.key.as_deref());
    let earlier = text(record, "boot").is_some_and(|applied| applied != boot);
    let of_recipe = |step: &str| step.split_once('/').is_some_and(|(recipe, _)| *recipe == *turn.expanded.id.recipe);
    let own = case.seen.records.iter().filter(|(step, _)| of_recipe(step)).flat_map(|(_, records)| records);
    earlier
        && text(record, "digest") == Some(digest)
        && !own.into_iter().any(|other| text(other, "boot").as_deref() == Some(boot))
}
