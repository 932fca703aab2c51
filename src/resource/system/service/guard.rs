//! What a guard restores after the change of a service.

use super::declaration::ServiceResource;
use super::diff::{ProcessChange, ServiceDiff};
use crate::model::{GuardEffect, GuardedUnit};

/// Returns the unit in its state before: whether it ran and whether it started at boot. A unit that ran reads its
/// restored files again.
pub(super) fn guard_service(service: &ServiceResource, diff: &ServiceDiff) -> GuardEffect {
    let ran = match &diff.process {
        Some(ProcessChange::Start { .. }) => false,
        Some(ProcessChange::Stop { .. } | ProcessChange::Restart { .. } | ProcessChange::Reload { .. }) => true,
        Some(ProcessChange::Thaw) | None => service.running,
    };
    let enabled = diff.enabled.as_ref().map(|change| change.from.as_deref() == Some("enabled"));
    GuardEffect::restore_unit(GuardedUnit {
        name: service.unit.clone(),
        acts: diff.process.as_ref().is_some_and(|process| *process != ProcessChange::Thaw),
        ran,
        reloads: service.reload,
        enabled,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::system::service::diff::EnablementChange;

    fn guarded_unit(unit: &str, diff: ServiceDiff) -> GuardEffect {
        let service =
            ServiceResource { unit: unit.into(), running: true, any_state: false, enabled: Some(true), reload: true };
        guard_service(&service, &diff)
    }

    #[test]
    fn reloaded_daemon_of_access_reloads_again() {
        let process = Some(ProcessChange::Reload { reasons: Vec::new() });
        let effect = guarded_unit("ssh.service", ServiceDiff { process, ..ServiceDiff::default() });
        let unit = &effect.units[0];
        assert!(effect.concerns_access() && unit.ran && unit.reloads && unit.enabled.is_none(), "{effect:?}");
    }

    #[test]
    fn started_unit_is_stopped_and_disabled_again() {
        let enabled = Some(EnablementChange { from: Some("disabled".into()), missing_in: Vec::new(), to: true });
        let process = Some(ProcessChange::Start { from: Some("inactive".into()) });
        let effect = guarded_unit("firewalld.service", ServiceDiff { enabled, process, ..ServiceDiff::default() });
        assert!(!effect.units[0].ran && effect.units[0].enabled == Some(false) && effect.concerns_access());
    }

    #[test]
    fn enablement_alone_needs_no_guard() {
        let enabled = Some(EnablementChange { from: Some("disabled".into()), missing_in: Vec::new(), to: true });
        let effect = guarded_unit("ssh.service", ServiceDiff { enabled, ..ServiceDiff::default() });
        assert!(!effect.concerns_access());
    }
}
