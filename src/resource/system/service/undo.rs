//! Undoes the change of a service.

use super::declaration::ServiceResource;
use super::diff::{EnablementChange, ProcessChange, ServiceDiff};
use crate::model::{BootUndo, UndoDeclaration, UndoEffect, UnitAtBoot};
use serde_json::json;

/// Declares the observed state before: whether the unit ran and whether it started at boot. A process that was
/// restarted or reloaded does so again once its inputs are as they were.
pub(super) fn undo_service(service: &ServiceResource, diff: &ServiceDiff) -> UndoEffect {
    if diff.masked {
        return UndoEffect::irreversible(&format!("`{}` was masked, which a step cannot declare", service.unit));
    }
    if diff.file_missing {
        let lost = Some(format!("the links that enabled `{}`, whose file does not exist", service.unit));
        return UndoEffect { lost, ..UndoEffect::default() };
    }
    let was_enabled = match diff.enabled.as_ref() {
        Some(change) => match change.from.as_deref() {
            // The unit did not exist, or has nothing to enable.
            None | Some("") => Some(false),
            Some(state) => Some(state == "enabled"),
        },
        None => service.enabled,
    };
    let ran = match diff.process.as_ref() {
        Some(ProcessChange::Start { .. }) => false,
        Some(ProcessChange::Stop { .. } | ProcessChange::Restart { .. } | ProcessChange::Reload { .. }) => true,
        Some(ProcessChange::Thaw) | None => service.running,
    };
    let run_state = match (service.any_state, ran) {
        (true, _) => "any",
        (false, true) => "running",
        (false, false) => "stopped",
    };
    let mut state = UndoDeclaration { restarts: ran, ..declare_unit(&service.unit, run_state, was_enabled) };
    if service.reload {
        state.fields["reload"] = json!(true);
    }
    let also = diff.also.iter().map(|other| declare_unit(&other.name, "any", Some(other.is_enabled())));
    // After the unit that they depend on, or that conflicts with them.
    let (transient, stopped): (Vec<_>, Vec<_>) = diff.stops.iter().partition(|other| other.is_transient());
    let stopped = stopped
        .into_iter()
        .map(|other| UndoDeclaration { follows: true, ..declare_unit(&other.name, "running", None) });
    let steps = [state].into_iter().chain(also).chain(stopped).collect();
    let at_boot = diff.enabled.as_ref().and(was_enabled);
    let units = at_boot.map(|enabled| UnitAtBoot { name: service.unit.clone(), enabled }).into_iter().collect();
    let effect = UndoEffect::declare(steps).with_boot(BootUndo { units, ..BootUndo::default() });
    let effect = match diff.process {
        Some(ProcessChange::Thaw) => {
            effect.leaving(format!("`{}` goes on running: a step cannot declare that it is frozen", service.unit))
        }
        _ => effect,
    };
    let was_partial = |change: &&EnablementChange| was_enabled == Some(true) && !change.missing_in.is_empty();
    let lost = diff.enabled.as_ref().filter(was_partial).map(|change| match change.to {
        true => format!("`{}` stays enabled in all of its targets", service.unit),
        false => format!("the links that enabled `{}` were not those of its `[Install]` section", service.unit),
    });
    let gone = || transient.first().map(|other| format!("`{}` stays stopped: it was transient", other.name));
    UndoEffect { lost: lost.or_else(gone), ..effect }
}

fn declare_unit(name: &str, state: &str, enabled: Option<bool>) -> UndoDeclaration {
    let mut fields = json!({ "name": name, "state": state });
    if let Some(enabled) = enabled {
        fields["enabled"] = json!(enabled);
    }
    UndoDeclaration::present("service", fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(diff: ServiceDiff) -> UndoDeclaration {
        undo_service(&declare_nginx(), &diff).steps.pop().unwrap()
    }

    fn declare_nginx() -> ServiceResource {
        ServiceResource {
            unit: "nginx.service".into(),
            running: true,
            any_state: false,
            enabled: Some(true),
            reload: false,
        }
    }

    #[test]
    fn started_service_is_stopped_and_disabled() {
        let enabled = Some(EnablementChange { from: Some("disabled".into()), missing_in: Vec::new(), to: true });
        let process = Some(ProcessChange::Start { from: Some("inactive".into()) });
        let undone = undo(ServiceDiff { enabled, process, ..ServiceDiff::default() });
        assert_eq!(undone.fields, json!({ "name": "nginx.service", "state": "stopped", "enabled": false }));
        assert!(!undone.restarts);
    }

    #[test]
    fn service_that_was_enabled_until_the_next_boot_is_disabled() {
        let enabled = Some(EnablementChange { from: Some("enabled-runtime".into()), missing_in: Vec::new(), to: true });
        let undone = undo(ServiceDiff { enabled, ..ServiceDiff::default() });
        assert_eq!(undone.fields["enabled"], json!(false));
    }

    #[test]
    fn links_that_enabling_does_not_make_are_lost() {
        for (to, missing_in, expected) in [
            (true, vec!["a.target".to_owned()], Some("`nginx.service` stays enabled in all of its targets")),
            (
                false,
                vec!["a.target".to_owned()],
                Some("the links that enabled `nginx.service` were not those of its `[Install]` section"),
            ),
            (false, Vec::new(), None),
        ] {
            let enabled = Some(EnablementChange { from: Some("enabled".into()), missing_in, to });
            let effect = undo_service(&declare_nginx(), &ServiceDiff { enabled, ..ServiceDiff::default() });
            assert_eq!(effect.lost.as_deref(), expected);
        }
    }

    #[test]
    fn restarted_service_restarts_again() {
        let process = Some(ProcessChange::Restart { reasons: vec!["a file changed".into()] });
        let undone = undo(ServiceDiff { process, ..ServiceDiff::default() });
        assert_eq!(undone.fields, json!({ "name": "nginx.service", "state": "running", "enabled": true }));
        assert!(undone.restarts);
    }
}
