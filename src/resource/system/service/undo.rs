//! Undoes the change of a service.

use super::declaration::ServiceResource;
use super::diff::{ProcessChange, ServiceDiff};
use crate::model::{BootUndo, UndoDeclaration, UndoEffect, UnitAtBoot};
use serde_json::json;

/// Declares the observed state before: whether the unit ran and whether it started at boot. A process that was
/// restarted or reloaded does so again once its inputs are as they were.
pub(super) fn undo_service(service: &ServiceResource, diff: &ServiceDiff) -> UndoEffect {
    if diff.masked {
        return UndoEffect::irreversible(&format!("`{}` was masked, which a step cannot declare", service.unit));
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
    let mut fields = json!({ "name": service.unit, "state": if ran { "running" } else { "stopped" } });
    if let Some(enabled) = was_enabled {
        fields["enabled"] = json!(enabled);
    }
    if service.reload {
        fields["reload"] = json!(true);
    }
    let state = UndoDeclaration { restarts: ran, ..UndoDeclaration::present("service", fields) };
    let at_boot = diff.enabled.as_ref().and(was_enabled);
    let units = at_boot.map(|enabled| UnitAtBoot { name: service.unit.clone(), enabled }).into_iter().collect();
    let effect = UndoEffect::declare(vec![state]).with_boot(BootUndo { units, ..BootUndo::default() });
    let effect = match diff.process {
        Some(ProcessChange::Thaw) => {
            effect.leaving(format!("`{}` goes on running: a step cannot declare that it is frozen", service.unit))
        }
        _ => effect,
    };
    match diff.enabled.as_ref().map(|change| change.missing_in.as_slice()) {
        Some([_, ..]) => effect.leaving(format!("`{}` stays enabled in all of its targets", service.unit)),
        _ => effect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::system::service::diff::EnablementChange;

    fn undo(diff: ServiceDiff) -> UndoDeclaration {
        let service =
            ServiceResource { unit: "nginx.service".into(), running: true, enabled: Some(true), reload: false };
        undo_service(&service, &diff).steps.pop().unwrap()
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
    fn restarted_service_restarts_again() {
        let process = Some(ProcessChange::Restart { reasons: vec!["a file changed".into()] });
        let undone = undo(ServiceDiff { process, ..ServiceDiff::default() });
        assert_eq!(undone.fields, json!({ "name": "nginx.service", "state": "running", "enabled": true }));
        assert!(undone.restarts);
    }
}
