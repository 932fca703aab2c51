//! How the change of a step is undone. A plan marks the changes that cannot be; the host keeps the effect before it
//! changes.

use super::host_context::StepInstance;
use crate::model::{DisruptionClass, UndoEffect};
use crate::resource::{Assessment, Resource, find_declaration_error, kind_traits};

/// Returns how the change that `judgement` found is undone.
pub fn derive_undo_effect(turn: &StepInstance<'_>, resource: &dyn Resource, judgement: &Assessment) -> UndoEffect {
    let declared = turn.step.disruption.filter(|_| !judgement.notes_only);
    let mut effect = limit_cluster_effect(resource, resource.undo_effect(judgement));
    if !kind_traits(resource.kind()).in_cluster && effect.irreversible.is_none() {
        effect.irreversible = effect.steps.iter().find_map(find_declaration_error);
    }
    match describe_window_need(judgement.disruption, declared.unwrap_or_default()) {
        Some(why) => effect.keep_for_boot(&why),
        None => effect,
    }
}

/// Returns why an undo cannot take back a change that was made in a window: its kind found the disruption, or its step
/// declares it.
fn describe_window_need(found: DisruptionClass, declared: DisruptionClass) -> Option<String> {
    let cause = match (found >= DisruptionClass::D2, declared >= DisruptionClass::D2) {
        (true, _) => "it reloads modules or reboots, which".to_owned(),
        (false, true) => format!("its step declares disruption {declared}, which"),
        (false, false) => return None,
    };
    Some(format!("{cause} needs the window of its recipe: declare the former value and apply"))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose step declares D2 reloads no module.
    #[test]
    fn declared_disruption_is_not_called_a_reload() {
        use DisruptionClass::{D0, D1, D2, D3};
        let rest = "needs the window of its recipe: declare the former value and apply";
        let declared = |class: &str| Some(format!("its step declares disruption {class}, which {rest}"));
        assert_eq!(describe_window_need(D0, D2), declared("D2"));
        assert_eq!(describe_window_need(D1, D3), declared("D3"));
        let reloads = Some(format!("it reloads modules or reboots, which {rest}"));
        assert_eq!((describe_window_need(D2, D0), describe_window_need(D3, D2)), (reloads.clone(), reloads));
        assert_eq!(describe_window_need(D1, D1), None);
    }
}
