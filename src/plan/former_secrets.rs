//! Whether the content of a resource may be secret, although its step declares no secret any longer.

use super::canonical_json::to_canonical_json;
use super::host_context::HostContext;
use super::secret_claims::is_keyed;
use crate::model::{SecretStore, StepId};
use crate::resource::Resource;

/// Returns whether what the host has in place of the resource may contain a secret, or what the step puts there.
pub fn may_hold_secret(case: &HostContext<'_>, step: &StepId, resource: &dyn Resource) -> bool {
    declares_secret(resource) || held_secret(case, step, resource)
}

pub(super) fn declares_secret(resource: &dyn Resource) -> bool {
    SecretStore::has_placeholder(&to_canonical_json(&resource.desired_value()))
}

/// Returns whether what the host has in place of the resource may contain a secret that nothing declares now: the step
/// declared one when it was applied, another step did so for the same object, or an undo restores one.
pub(super) fn held_secret(case: &HostContext<'_>, step: &StepId, resource: &dyn Resource) -> bool {
    let claimed = || {
        let claims = resource.exclusive_claims().into_iter().chain(resource.shared_claims());
        let mut claims = claims.map(|(kind, name)| (kind.to_owned(), SecretStore::mask_placeholders(&name)));
        claims.any(|claim| case.seen.secret_claims.contains(&claim))
    };
    resource.withholds_content()
        || case.find_record(step).is_some_and(is_keyed)
        || !case.seen.secret_claims.is_empty() && claimed()
}
