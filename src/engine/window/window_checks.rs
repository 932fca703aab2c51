//! Checks before a host is taken out of service or rebooted.

use super::window_refusal::WindowRefusal;
use super::window_scripts;
use crate::engine::event::StepResult;
use crate::engine::host_work::HostWork;
use crate::engine::report::StepReport;
use crate::model::{StepId, StepScope};
use crate::plan::{self, HostWindow};
use crate::probe::{Probe, ProbeReading};
use std::collections::BTreeSet;

const UNKNOWN_INITRAMFS: &str = "could not determine whether the next kernel has an initramfs";

/// After a reboot the whole host must be proven: one with a step that could not be evaluated would stay out of
/// service.
pub(super) fn check_all_decided(work: &HostWork<'_>, window: &HostWindow) -> Result<(), WindowRefusal> {
    let counts = |id: &StepId| work.plan.steps.iter().any(|step| step.id == *id && step.scope != StepScope::One);
    let open = work.results.reports().iter().filter(|report| counts(&report.id)).find_map(describe_undecided_step);
    match open {
        Some(why) if window.left_open.is_none() && !window.reboots.is_empty() => Err(WindowRefusal::Held(why)),
        _ => Ok(()),
    }
}

/// Checks that no step failed. A host with a failed step is left unchanged for inspection.
pub(super) fn check_no_failed_step(work: &HostWork<'_>, what: &str) -> Result<(), WindowRefusal> {
    match work.results.find_failed() {
        Some(failed) => Err(WindowRefusal::Failed(format!("not {what}: `{}` failed", failed.id))),
        None => Ok(()),
    }
}

/// Checks that no other inventory has taken the host out of service: its mark must stay.
pub(super) fn check_no_other_window(work: &HostWork<'_>) -> Result<(), WindowRefusal> {
    match plan::find_other_window(work.view.seen(), &work.run.project.cluster) {
        Some(other) => Err(WindowRefusal::Busy(other.to_string())),
        None => Ok(()),
    }
}

/// Checks that forge does not run on this host: a reboot would end the run.
pub(super) async fn check_not_controller(work: &mut HostWork<'_>) -> Result<(), WindowRefusal> {
    if work.view.boot_id().is_none() {
        observe_probes(work, &BTreeSet::from([Probe::Fact { name: "boot".to_owned() }])).await?;
    }
    let own = work.run.options.boot_id.as_deref().is_some_and(|own| work.view.boot_id().as_deref() == Some(own));
    match own {
        true => Err(WindowRefusal::Refused(format!("not rebooted: {}", window_scripts::OWN_MACHINE_REASON))),
        false => Ok(()),
    }
}

/// Checks that the next kernel can boot. Without its initramfs the host would not come up and could not be repaired
/// remotely.
pub(super) async fn check_next_kernel(work: &mut HostWork<'_>) -> Result<(), WindowRefusal> {
    let probe = window_scripts::build_initramfs_probe();
    observe_probes(work, &BTreeSet::from([probe.clone()])).await?;
    match work.view.seen().observation.get(&probe) {
        Ok(ProbeReading::Output(output)) if output.status == 0 => match output.stdout.raw().trim() {
            "" => Ok(()),
            kernel => Err(WindowRefusal::Refused(format!(
                "not rebooted: the next kernel {kernel} has no initramfs; build it or set another default kernel"
            ))),
        },
        Ok(_) => Err(WindowRefusal::Unknown(UNKNOWN_INITRAMFS.to_owned())),
        Err(unknown) => Err(WindowRefusal::Unknown(format!("{UNKNOWN_INITRAMFS}: {}", unknown.why))),
    }
}

fn describe_undecided_step(report: &StepReport) -> Option<String> {
    let word = match &report.result {
        StepResult::Blocked { .. } => "blocked",
        StepResult::Unknown { .. } => "unknown",
        StepResult::Stale { .. } => "stale",
        _ => return None,
    };
    Some(plan::explain_unopened_window(&report.id, word))
}

/// Observes `probes`, if there are any.
pub(super) async fn observe_probes(work: &mut HostWork<'_>, probes: &BTreeSet<Probe>) -> Result<(), WindowRefusal> {
    if probes.is_empty() {
        return Ok(());
    }
    let shared = work.run.board.shared_values();
    work.observe(probes, &shared.secrets).await?;
    Ok(())
}
