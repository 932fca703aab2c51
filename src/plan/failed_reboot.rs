//! Finds reboots that did not make a step effective: they are not repeated, as each one takes the host out of service.

use super::declared_digest::digest_desired;
use super::host_context::{HostContext, StepInstance};
use crate::model::{StepVerdict, Value};
use crate::resource::{Assessment, Resource};

const HINT: &str =
    "find out why it is not effective; if a repair outside of forge needs a reboot, reboot the host yourself";

/// Marks a pending step that was still not effective after a reboot of forge, if the host runs in that boot and no later
/// run applied a step of its recipe.
pub(super) fn mark_failed_reboot(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    resource: &dyn Resource,
    judgement: Assessment,
) -> Assessment {
    if judgement.verdict != StepVerdict::Pending || !has_failed_reboot(case, turn, resource) {
        return judgement;
    }
    let reason = format!("{}; the reboot for it had no effect", judgement.reason.raw());
    let hint_for_host = judgement.hint.is_none() || judgement.hint_for_host;
    let hint = judgement.hint.clone().unwrap_or_else(|| HINT.to_owned());
    Assessment { reboot_failed: true, reason: reason.into(), hint: Some(hint), hint_for_host, ..judgement }
}

fn has_failed_reboot(case: &HostContext<'_>, turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
    fn text<'r>(record: &'r Value, key: &str) -> Option<&'r str> {
        record.get(key).and_then(Value::as_str)
    }
    let (Some(record), Some(boot)) = (case.find_record(&turn.expanded.id), case.seen.facts.boot_id()) else {
        return false;
    };
    if text(record, "failed_boot") != Some(boot) {
        return false;
    }
    let digest = digest_desired(resource, case.ground.secrets, case.seen.key.as_deref());
    let of_recipe = |step: &str| step.split_once('/').is_some_and(|(recipe, _)| *recipe == *turn.expanded.id.recipe);
    let mut own = case.seen.records.iter().filter(|(step, _)| of_recipe(step)).flat_map(|(_, records)| records);
    // The ID of a run begins with its time.
    text(record, "digest") == Some(&*digest) && !own.any(|other| text(other, "run") > text(record, "run"))
}
