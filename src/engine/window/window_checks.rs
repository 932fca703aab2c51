//! Checks before a host is taken out of service or rebooted.

use super::own_script::run_own_script;
use super::window_refusal::{BlockedStep, WindowRefusal};
use super::window_scripts;
use crate::engine::event::StepResult;
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::host_work::HostWork;
use crate::engine::report::{HeldBackBy, StepReport};
use crate::model::{StepId, StepScope, StepVerdict};
use crate::plan::{self, HostHold, HostWindow, PackageListsAge, StepStage};
use crate::probe::{HoldMark, Probe, ProbeReading};
use crate::resource::{PackageListing, kind_traits, update_package_lists};
use std::collections::BTreeSet;
use std::time::Duration;

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

/// Checks that no package of the window lacks the version to install. The plan could only predict that where a step before
/// the window adds a repository, or where apt's lists are old.
pub(super) async fn check_packages_offered(work: &mut HostWork<'_>, window: &HostWindow) -> Result<(), WindowRefusal> {
    if window.left_open.is_some() {
        return Ok(());
    }
    if !work.results.changed().is_empty() {
        observe_all_steps(work).await?;
    }
    let mut blocked = find_blocked_package(work, PackageListsAge::Unknown);
    if blocked.is_none() && find_blocked_package(work, PackageListsAge::Updated).is_some() {
        match run_own_script(work, update_package_lists(LOCK_TIMEOUT_S), UPDATE_LIMIT).await {
            Err(WindowRefusal::Failed(why)) => {
                return Err(WindowRefusal::Failed(format!("not taken out of service: {why}")));
            }
            updated => drop(updated?),
        }
        observe_all_steps(work).await?;
        blocked = find_blocked_package(work, PackageListsAge::Updated);
    }
    match blocked {
        Some(step) => {
            let why = format!("not taken out of service: `{}` is blocked", step.id);
            Err(WindowRefusal::Blocked { why, step: Box::new(step) })
        }
        None => Ok(()),
    }
}

/// How long an update of apt's lists waits for another package manager, in seconds.
const LOCK_TIMEOUT_S: u64 = 600;

/// Maximum time of an update of apt's lists.
const UPDATE_LIMIT: Duration = Duration::from_secs(1200);

async fn observe_all_steps(work: &mut HostWork<'_>) -> Result<(), WindowRefusal> {
    let shared = work.run.board.shared_values();
    let probes = work.view.list_step_probes(&shared, |_| true);
    observe_probes(work, &probes).await
}

/// Returns a package step of the window that is blocked on the last observation. Steps of other kinds may be blocked only
/// until a reboot, and steps after a reboot only until that.
fn find_blocked_package(work: &HostWork<'_>, lists: PackageListsAge) -> Option<BlockedStep> {
    let shared = work.run.board.shared_values();
    let case = work.view.context(&shared)?;
    let is_next = |id: &StepId| {
        let mut planned = work.plan.steps.iter().filter(|step| step.id == *id && step.scope != StepScope::One);
        planned.any(|step| {
            let installs = kind_traits(&step.kind).packages == PackageListing::Listed;
            installs && step.will_run() && step.stage == StepStage::Inside(0)
        })
    };
    let all = plan::list_blocked_steps(&case, work.run.spans, lists).into_iter();
    all.filter(|step| is_next(&step.id)).find_map(|step| match step.verdict {
        StepVerdict::Blocked(class) => Some(BlockedStep { id: step.id, class, reason: step.reason, hint: step.hint }),
        _ => None,
    })
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

/// Checks that the host was not put on hold since the run began there: it may have waited for hours.
pub(super) async fn check_not_on_hold(work: &mut HostWork<'_>) -> Result<(), WindowRefusal> {
    let printed = run_own_script(work, window_scripts::build_hold_script(), SHORT_SCRIPT_LIMIT).await?;
    let mark = printed.split_once('\n').map(|(now, text)| HoldMark { text: text.into(), now: now.parse().ok() });
    match mark.as_ref().and_then(HostHold::from_mark) {
        Some(hold) => {
            work.run.board.hold_back(work.host(), HeldBackBy::Hold);
            Err(WindowRefusal::Held(hold.describe()))
        }
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
