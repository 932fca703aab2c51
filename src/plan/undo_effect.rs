//! How the change of a step is undone. A plan marks the changes that cannot be; the host keeps the effect before it
//! changes.

use super::host_context::StepInstance;
use crate::model::{DisruptionClass, UndoEffect};
use crate::resource::{Assessment, Resource};

const NEEDS_WINDOW: &str =
    "it reloads modules or reboots, which needs the window of its recipe: declare the former value and apply";

/// Returns how the change that `judgement` found is undone.
pub fn derive_undo_effect(turn: &StepInstance<'_>, resource: &dyn Resource, judgement: &Assessment) -> UndoEffect {
    let disruption = judgement.disruption.max(turn.step.disruption.unwrap_or_default());
    match disruption >= DisruptionClass::D2 {
        true => UndoEffect::irreversible(NEEDS_WINDOW),
        false => resource.undo_effect(judgement),
    }
}
