//! Names of steps for people.

use super::host_context::StepInstance;
use crate::config::ExpansionState;
use crate::model::{SecretStore, UntrustedText};

/// Returns the resource that an envelope names: `file /etc/motd`.
pub fn describe_resource(turn: &StepInstance<'_>) -> String {
    format!("{} {}", turn.step.kind, step_title(turn).raw())
}

/// Returns the resource of a step instance, as far as it is known.
pub fn step_title(turn: &StepInstance<'_>) -> UntrustedText {
    let text = match &turn.expanded.state {
        ExpansionState::Resource(resource) => resource.title(),
        ExpansionState::Deferred(deferred) => deferred.title.clone().unwrap_or_else(|| turn.step.name.clone()),
        _ => turn.step.name.clone(),
    };
    SecretStore::mask_placeholders(&text).into()
}
