//! A reboot: triggered on the host and proven by another boot id over a new session.

use super::device_holders::DeviceHolderCheck;
use super::own_script::run_own_script;
use super::reboot_guard::{arm_reboot_guard, confirm_boot, report_restoration};
use super::window_checks::{check_next_kernel, check_no_failed_step, check_not_controller, observe_probes};
use super::window_refusal::WindowRefusal;
use super::window_scripts::{self, BOOT_ID_PATH};
use crate::engine::event::{CompletedReboot, Event};
use crate::engine::host_report::phase_from_verdict;
use crate::engine::host_session::{
    HostLockAttempt, HostSession, SHORT_SCRIPT_LIMIT, describe_transport_error, host_side_error,
};
use crate::engine::host_work::HostWork;
use crate::engine::session_connector::OpenSession;
use crate::facts::Facts;
use crate::model::{StepId, StepVerdict};
use crate::plan::{self, HostWindow};
use crate::probe::{CheckProbe, Probe, ProbeReading};
use crate::state::{BootGuard, BootGuardAnswer, BootGuardOutcome};
use crate::transport::TransportError;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Timeout for the end of the session from before the reboot.
const OLD_SESSION_GRACE: Duration = Duration::from_secs(5);

/// The reboots of a host in its window.
#[derive(Debug, Default)]
pub(super) struct HostReboots {
    done: Vec<CompletedReboot>,
}

impl HostReboots {
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Returns the completed reboots, for the report.
    pub fn take_completed(&mut self) -> Vec<CompletedReboot> {
        std::mem::take(&mut self.done)
    }

    /// Reboots the host if any step still waits for it.
    ///
    /// # Errors
    /// The host is not rebooted, or did not come back.
    pub async fn reboot_if_pending(
        &mut self,
        work: &mut HostWork<'_>,
        window: &HostWindow,
        round: usize,
        in_service: bool,
    ) -> Result<(), WindowRefusal> {
        let Some(reboot) = window.reboots.get(round) else { return Ok(()) };
        let waiting = find_pending_steps(work, &reboot.steps).await?;
        if !waiting.is_empty() {
            check_may_reboot(work, window, in_service).await?;
            work.flush_records().await;
            let guard = arm_reboot_guard(work, &waiting).await?;
            let restored = self.reboot_host(work, &waiting, guard.as_ref()).await?;
            observe_everything(work).await?;
            if let Some((guard, outcome)) = guard.zip(restored) {
                return Err(report_restoration(work, &guard, &outcome));
            }
            let ineffective = list_pending_steps(work, &waiting);
            work.records.queue_ineffective(&work.view, &ineffective);
        }
        publish_reboot_phases(work, &reboot.steps);
        Ok(())
    }

    /// Reboots the host and waits until it is back. Returns what its guard did if it restored the state before.
    async fn reboot_host(
        &mut self,
        work: &mut HostWork<'_>,
        steps: &[StepId],
        guard: Option<&BootGuard>,
    ) -> Result<Option<BootGuardOutcome>, WindowRefusal> {
        let (run, host, began) = (work.run, work.host(), Instant::now());
        run.in_flight.set_steps(host, steps.iter().cloned());
        run.emit_event(Event::Rebooting { host: host.clone(), steps: steps.to_vec() });
        let rebooted = reboot_and_reconnect(work, steps, guard, began).await;
        if let Ok((reboot, _)) = &rebooted {
            run.emit_event(Event::Rebooted { host: host.clone(), reboot: reboot.clone() });
        }
        run.in_flight.remove_host(host);
        let (reboot, restored) = rebooted?;
        self.done.push(reboot);
        Ok(restored)
    }
}

/// Checks that a reboot is permitted. Foreign work is not evicted.
async fn check_may_reboot(work: &mut HostWork<'_>, window: &HostWindow, in_service: bool) -> Result<(), WindowRefusal> {
    check_no_failed_step(work, "rebooted")?;
    check_not_controller(work).await?;
    check_next_kernel(work).await?;
    DeviceHolderCheck { window, reboots: true, pods_leave: false, in_service }.await_free_devices(work).await
}

/// Returns those of `steps` that are not effective yet.
async fn find_pending_steps(work: &mut HostWork<'_>, steps: &[StepId]) -> Result<Vec<StepId>, WindowRefusal> {
    let shared = work.run.board.shared_values();
    let probes = work.view.list_step_probes(&shared, |turn| names_step(steps, &turn.expanded.id));
    observe_probes(work, &probes).await?;
    Ok(list_pending_steps(work, steps))
}

/// Returns those of `steps` that are not effective in the last observation.
fn list_pending_steps(work: &HostWork<'_>, steps: &[StepId]) -> Vec<StepId> {
    let findings = work.view.assess_steps(|id| names_step(steps, id)).into_iter();
    findings.filter(|finding| finding.verdict == StepVerdict::Pending).map(|finding| finding.id).collect()
}

async fn reboot_and_reconnect(
    work: &mut HostWork<'_>,
    steps: &[StepId],
    guard: Option<&BootGuard>,
    began: Instant,
) -> Result<(CompletedReboot, Option<BootGuardOutcome>), WindowRefusal> {
    let from = match (trigger_reboot(work, steps).await, guard) {
        (Err(refused), Some(guard)) if !work.link.is_lost() => {
            // The host is still in the boot before: this removes the guard. If it fails, the next apply does so.
            let _ = confirm_boot(work, guard).await;
            return Err(refused);
        }
        (triggered, _) => triggered?,
    };
    let mut last = from.clone();
    loop {
        let to = match await_boot(work, &last, began).await {
            Ok(to) => to,
            Err(error) => return Err(work.link.mark_lost(error).into()),
        };
        let answer = match guard {
            Some(guard) => confirm_boot(work, guard).await,
            None => Ok(BootGuardAnswer::Confirmed),
        };
        let reboot = CompletedReboot { from: from.as_str().into(), to: to.as_str().into(), took: began.elapsed() };
        match answer {
            Ok(BootGuardAnswer::Restored(outcome)) => return Ok((reboot, Some(outcome))),
            Ok(BootGuardAnswer::Confirmed | BootGuardAnswer::Missing) => return Ok((reboot, None)),
            // The host takes this boot back, and reboots.
            Ok(BootGuardAnswer::Busy) => last = to,
            // The host reboots again, or only the session ended: then it is still in this boot, and is asked again.
            Err(WindowRefusal::Stopped) if guard.is_some() => work.link.clear_loss(),
            Err(refused) => return Err(refused),
        }
    }
}

/// Returns the boot id from before the reboot. A session that ends under the script is not a failure once the id is
/// known.
async fn trigger_reboot(work: &mut HostWork<'_>, steps: &[StepId]) -> Result<String, WindowRefusal> {
    let known = work.view.boot_id();
    // From here on the host may be down, whatever the result is.
    work.results.mark_changed(steps.iter().cloned());
    let script = window_scripts::build_reboot_script(work.run.options.boot_id.as_deref());
    let said = match (run_own_script(work, script, SHORT_SCRIPT_LIMIT).await, known) {
        (Ok(said), _) => said,
        (Err(WindowRefusal::Stopped), Some(known)) => {
            work.link.clear_loss();
            known
        }
        (Err(shut), _) => return Err(shut),
    };
    match said.lines().next().map(str::trim).filter(|id| !id.is_empty()) {
        Some(id) => Ok(id.to_owned()),
        None => Err(WindowRefusal::Failed(format!("not rebooted: `{BOOT_ID_PATH}` could not be read"))),
    }
}

/// Waits for another boot id over a new session and then for systemd, and takes the lock again.
async fn await_boot(work: &mut HostWork<'_>, from: &str, began: Instant) -> Result<String, TransportError> {
    let limit = Duration::from_secs(work.run.project.rollout.reboot_timeout_s);
    loop {
        tokio::time::sleep(work.link.reconnect_interval()).await;
        match try_reconnect(work, from).await {
            Ok((session, to)) => {
                let old = work.link.replace_session(session);
                // The session ended with the host; this only waits for the local process to end.
                let _ = tokio::time::timeout(OLD_SESSION_GRACE, old.close()).await;
                retake_lock(work).await?;
                return Ok(to);
            }
            Err(why) if began.elapsed() >= limit => {
                let limit = format_time_limit(limit.as_secs());
                return Err(host_side_error(format!("did not come back within {limit} after its reboot: {why}")));
            }
            Err(_) => {}
        }
    }
}

/// Returns a new session and the boot id read over it.
///
/// # Errors
/// The host is not up yet: its current state.
async fn try_reconnect(work: &HostWork<'_>, from: &str) -> Result<(Box<dyn HostSession>, String), String> {
    let shared = work.run.board.shared_values();
    let opened = <dyn HostSession>::open(work.run.session_request(work.host(), &shared.secrets)).await;
    let link = opened.map_err(|error| describe_transport_error(&error).raw().to_owned())?;
    let state = build_systemd_probe();
    let probes = BTreeSet::from([Probe::Fact { name: "boot".to_owned() }, state.clone()]);
    let seen = link.observe(&probes, &shared.secrets).await;
    let (id, state) = match &seen {
        Ok(observation) => {
            (Facts::from_observation(observation).boot_id().map(str::to_owned), observation.get(&state).cloned())
        }
        Err(error) => return Err(describe_transport_error(error).raw().to_owned()),
    };
    match (id, state) {
        (None, _) => Err("the boot id could not be read".to_owned()),
        (Some(id), _) if id == from => Err(format!("boot id is still {from}")),
        (Some(id), Ok(ProbeReading::Output(output))) if is_system_up(output.stdout.raw().trim()) => Ok((link, id)),
        (Some(_), Ok(ProbeReading::Output(output))) => {
            Err(format!("booted; systemd reports `{}`", output.stdout.raw().trim()))
        }
        (Some(_), _) => Err("booted; systemd does not answer".to_owned()),
    }
}

async fn retake_lock(work: &mut HostWork<'_>) -> Result<(), TransportError> {
    let owner = work.run.options.build_lock_owner("apply", work.run.project);
    match work.link.take_lock(&owner).await? {
        HostLockAttempt::Ours => Ok(()),
        HostLockAttempt::Held(other) => {
            Err(host_side_error(format!("after the reboot another run holds the lock: {}", other.raw())))
        }
        HostLockAttempt::Busy(_) => {
            Err(host_side_error("after the reboot a job of an earlier run is still active".to_owned()))
        }
    }
}

/// Observes the whole host: a boot may change undeclared state too. Facts come first, as other observations use
/// them.
async fn observe_everything(work: &mut HostWork<'_>) -> Result<(), WindowRefusal> {
    let facts = work.run.facts.iter().filter_map(|name| crate::facts::fact_probe(work.host(), name)).collect();
    observe_probes(work, &facts).await?;
    let shared = work.run.board.shared_values();
    let rest: BTreeSet<Probe> = match work.view.context(&shared) {
        Some(case) => plan::collect_probes(&case, work.run.facts).difference(&facts).cloned().collect(),
        None => BTreeSet::new(),
    };
    observe_probes(work, &rest).await
}

/// Publishes the phase reached by the steps that waited for a reboot.
fn publish_reboot_phases(work: &HostWork<'_>, steps: &[StepId]) {
    let mut reached = BTreeMap::new();
    for finding in work.view.assess_steps(|id| names_step(steps, id)) {
        let own = phase_from_verdict(finding.verdict);
        let least = reached.entry(finding.index).or_insert(own);
        *least = own.min(*least);
    }
    reached.into_iter().for_each(|(index, reached)| work.run.board.record_phase(index, work.host(), reached));
}

fn format_time_limit(seconds: u64) -> String {
    match seconds % 60 {
        0 => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

/// Reports whether one of `steps` has that name. A step whose list was not known at plan time was planned as one.
fn names_step(steps: &[StepId], id: &StepId) -> bool {
    steps.iter().any(|s| s.recipe == id.recipe && s.step == id.step && (s.key == id.key || s.key.is_none()))
}

/// Returns the probe for the end of the host's boot.
fn build_systemd_probe() -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: "the state of systemd".to_owned(),
        script: "command -v systemctl >/dev/null || { echo none; exit 0; }; systemctl is-system-running; exit 0"
            .to_owned(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(10),
    }))
}

/// Reports whether the host is up. A host without systemd is up when it answers; `maintenance` and `starting` are not
/// up.
fn is_system_up(state: &str) -> bool {
    matches!(state, "running" | "degraded" | "none" | "offline")
}
