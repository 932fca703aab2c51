//! How the change of a step is undone. A plan marks the changes that cannot be; the host keeps the effect before it
//! changes.

use super::host_context::StepInstance;
use crate::model::{DisruptionClass, UndoEffect};
use crate::resource::{Assessment, Resource, find_declaration_error, kind_traits};

const NEEDS_WINDOW: &str =
    "it reloads modules or reboots, which needs the window of its recipe: declare the former value and apply";

/// Returns how the change that `judgement` found is undone.
pub fn derive_undo_effect(turn: &StepInstance<'_>, resource: &dyn Resource, judgement: &Assessment) -> UndoEffect {
    let declared = turn.step.disruption.filter(|_| !judgement.notes_only);
    let disruption = judgement.disruption.max(declared.unwrap_or_default());
    let mut effect = limit_cluster_effect(resource, resource.undo_effect(judgement));
    if !kind_traits(resource.kind()).in_cluster && effect.irreversible.is_none() {
        effect.irreversible = effect.steps.iter().find_map(find_declaration_error);
    }
    match disruption >= DisruptionClass::D2 {
        true => effect.keep_for_boot(NEEDS_WINDOW),
        false => effect,
    }
}

/// The most that the journal of the cluster keeps of one step, in bytes. An object of the API holds 1 MiB.
const MAX_CLUSTER_BYTES: usize = 700 * 1024;

fn limit_cluster_effect(resource: &dyn Resource, effect: UndoEffect) -> UndoEffect {
    if !kind_traits(resource.kind()).in_cluster {
        return effect;
    }
    // Serialization of a struct of text and JSON cannot fail.
    let size = serde_json::to_string(&effect).map_or(0, |text| text.len());
    match size > MAX_CLUSTER_BYTES {
        true => UndoEffect::irreversible(&format!(
            "the state before it has {} kB, and the journal keeps at most {} kB of a step",
            size / 1024,
            MAX_CLUSTER_BYTES / 1024
        )),
        false => effect,
    }
}
