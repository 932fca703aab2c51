//! A reboot: triggered on the host and proven by another boot id over a new session.

use super::{BOOT_ID_PATH, WindowRefusal, window_scripts};
use crate::engine::event::{CompletedReboot, Event, StepResult};
use crate::engine::host_run::HostRun;
use crate::engine::host_session::{
    HostLockAttempt, HostSession, SHORT_SCRIPT_LIMIT, describe_transport_error, host_side_error,
};
use crate::engine::read_only_session::ObservationSession;
use crate::facts::Facts;
use crate::graph::StepIndex;
use crate::model::{StepId, StepVerdict};
use crate::plan::{self, HostWindow, StepPredictions};
use crate::probe::{Probe, ProbeReading};
use crate::transport::TransportError;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Interval between connection attempts. Simulated hosts are back at once.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 2000 });
/// Timeout for the end of the session from before the reboot.
const OLD_SESSION_GRACE: Duration = Duration::from_secs(5);

const UNKNOWN_INITRAMFS: &str = "could not determine whether the next kernel has an initramfs";

impl HostRun<'_> {
    /// Reboots the host if any step still waits for it.
    ///
    /// # Errors
    /// The host is not rebooted, or did not come back.
    pub(super) async fn reboot_if_pending(&mut self, window: &HostWindow, round: usize) -> Result<(), WindowRefusal> {
        let Some(reboot) = window.reboots.get(round) else { return Ok(()) };
        let waiting = self.find_pending_steps(&reboot.steps).await?;
        if !waiting.is_empty() {
            self.check_may_reboot(window).await?;
            self.flush_records().await;
            self.reboot_host(&waiting).await?;
            self.observe_everything().await?;
        }
        self.publish_reboot_phases(&reboot.steps);
        Ok(())
    }

    /// Checks that a reboot is permitted. Foreign work is not evicted.
    async fn check_may_reboot(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        self.check_no_failed_step("rebooted")?;
        self.check_not_controller().await?;
        self.check_next_kernel().await?;
        self.await_free_devices(window, true, false).await
    }

    /// Checks that the next kernel can boot. Without its initramfs the host would not come up and could not be repaired
    /// remotely.
    async fn check_next_kernel(&mut self) -> Result<(), WindowRefusal> {
        let probe = window_scripts::build_initramfs_probe();
        self.observe_probes(&BTreeSet::from([probe.clone()])).await?;
        match self.seen.observation.get(&probe) {
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

    /// Checks that no step failed. A host with a failed step is left unchanged for inspection.
    pub(super) fn check_no_failed_step(&self, what: &str) -> Result<(), WindowRefusal> {
        match self.steps.iter().find(|step| matches!(step.result, StepResult::Failed { .. })) {
            Some(failed) => Err(WindowRefusal::Failed(format!("not {what}: `{}` failed", failed.id))),
            None => Ok(()),
        }
    }

    /// Checks that forge does not run on this host: a reboot would end the run.
    pub(super) async fn check_not_controller(&mut self) -> Result<(), WindowRefusal> {
        if self.known_boot_id().is_none() {
            self.observe_probes(&BTreeSet::from([Probe::Fact { name: "boot".to_owned() }])).await?;
        }
        let own = self.run.options.boot_id.as_deref().is_some_and(|own| self.known_boot_id().as_deref() == Some(own));
        match own {
            true => Err(WindowRefusal::Refused(format!("not rebooted: {}", window_scripts::OWN_MACHINE_REASON))),
            false => Ok(()),
        }
    }

    /// Returns those of `steps` that are not effective yet.
    async fn find_pending_steps(&mut self, steps: &[StepId]) -> Result<Vec<StepId>, WindowRefusal> {
        let shared = self.run.board.shared_values();
        let probes: BTreeSet<Probe> = match self.run.host_context(&shared, self.host(), &self.seen) {
            Some(case) => {
                let turns = case.expand_local_steps();
                let own = turns.iter().filter(|turn| names_step(steps, &turn.expanded.id));
                own.flat_map(|turn| plan::list_step_probes(&case, turn, &turns)).collect()
            }
            None => return Ok(Vec::new()),
        };
        self.observe_probes(&probes).await?;
        let verdicts = self.assess_steps(steps);
        Ok(verdicts
            .into_iter()
            .filter(|(_, _, verdict)| *verdict == StepVerdict::Pending)
            .map(|(_, id, _)| id)
            .collect())
    }

    fn assess_steps(&self, steps: &[StepId]) -> Vec<(StepIndex, StepId, StepVerdict)> {
        let shared = self.run.board.shared_values();
        let Some(case) = self.run.host_context(&shared, self.host(), &self.seen) else { return Vec::new() };
        let turns = case.expand_local_steps();
        let own = turns.iter().filter(|turn| names_step(steps, &turn.expanded.id));
        own.map(|turn| {
            let judgement = plan::assess_step(&case, turn, &turns, &StepPredictions::default()).judgement;
            (turn.index, turn.expanded.id.clone(), judgement.verdict)
        })
        .collect()
    }

    async fn observe_probes(&mut self, probes: &BTreeSet<Probe>) -> Result<(), WindowRefusal> {
        if probes.is_empty() {
            return Ok(());
        }
        let shared = self.run.board.shared_values();
        match self.link.observe(probes, &shared.secrets).await {
            Ok(observation) => {
                self.seen.merge_observation(observation);
                Ok(())
            }
            Err(error) => {
                self.lost = Some(error);
                Err(WindowRefusal::Stopped)
            }
        }
    }

    /// Reboots the host and waits until it is back.
    async fn reboot_host(&mut self, steps: &[StepId]) -> Result<(), WindowRefusal> {
        let began = Instant::now();
        self.run.in_flight.set_steps(self.host(), steps.iter().cloned());
        self.run.emit_event(Event::Rebooting { host: self.host().clone(), steps: steps.to_vec() });
        let rebooted = self.reboot_and_reconnect(steps, began).await;
        self.run.in_flight.remove_host(self.host());
        rebooted
    }

    async fn reboot_and_reconnect(&mut self, steps: &[StepId], began: Instant) -> Result<(), WindowRefusal> {
        let from = self.trigger_reboot(steps).await?;
        match self.await_boot(&from, began).await {
            Ok(to) => {
                let reboot =
                    CompletedReboot { from: from.as_str().into(), to: to.as_str().into(), took: began.elapsed() };
                self.run.emit_event(Event::Rebooted { host: self.host().clone(), reboot: reboot.clone() });
                self.passage.reboots.push(reboot);
                Ok(())
            }
            Err(error) => {
                self.lost = Some(error);
                Err(WindowRefusal::Stopped)
            }
        }
    }

    /// Returns the boot id from before the reboot. A session that ends under the script is not a failure once the id is
    /// known.
    async fn trigger_reboot(&mut self, steps: &[StepId]) -> Result<String, WindowRefusal> {
        let known = self.known_boot_id();
        // From here on the host may be down, whatever the result is.
        self.changed.extend(steps.iter().cloned());
        let said = match (
            self.run_own_script(
                window_scripts::build_reboot_script(self.run.options.boot_id.as_deref()),
                SHORT_SCRIPT_LIMIT,
            )
            .await,
            known,
        ) {
            (Ok(said), _) => said,
            (Err(WindowRefusal::Stopped), Some(known)) => {
                self.lost = None;
                known
            }
            (Err(shut), _) => return Err(shut),
        };
        match said.lines().next().map(str::trim).filter(|id| !id.is_empty()) {
            Some(id) => Ok(id.to_owned()),
            None => Err(WindowRefusal::Failed(format!("not rebooted: `{BOOT_ID_PATH}` could not be read"))),
        }
    }

    pub(super) fn known_boot_id(&self) -> Option<String> {
        read_boot_id(&self.seen.facts)
    }

    /// Waits for another boot id over a new session and then for systemd, and takes the lock again.
    async fn await_boot(&mut self, from: &str, began: Instant) -> Result<String, TransportError> {
        let limit = Duration::from_secs(self.run.project.rollout.reboot_timeout_s);
        let mut last = format!("boot id is still {from}");
        loop {
            if began.elapsed() >= limit {
                let limit = format_time_limit(limit.as_secs());
                return Err(host_side_error(format!("did not come back within {limit} after its reboot: {last}")));
            }
            tokio::time::sleep(RECONNECT_INTERVAL).await;
            match self.try_reconnect(from).await {
                Ok((link, to)) => {
                    let old = std::mem::replace(&mut self.link, link);
                    // The session ended with the host; this only waits for the local process to end.
                    let _ = tokio::time::timeout(OLD_SESSION_GRACE, old.close()).await;
                    self.retake_lock().await?;
                    return Ok(to);
                }
                Err(why) => last = why,
            }
        }
    }

    /// Returns a new session and the boot id read over it.
    ///
    /// # Errors
    /// The host is not up yet: its current state.
    async fn try_reconnect(&self, from: &str) -> Result<(HostSession, String), String> {
        let shared = self.run.board.shared_values();
        let opened = HostSession::open(self.run.project, self.run.options, self.host(), &shared.secrets).await;
        let link = opened.map_err(|error| describe_transport_error(&error).raw().to_owned())?;
        let state = build_systemd_probe();
        let probes = BTreeSet::from([Probe::Fact { name: "boot".to_owned() }, state.clone()]);
        let seen = link.observe(&probes, &shared.secrets).await;
        let (id, state) = match &seen {
            Ok(observation) => (read_boot_id(&Facts::from_observation(observation)), observation.get(&state).cloned()),
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

    async fn retake_lock(&mut self) -> Result<(), TransportError> {
        let owner = crate::engine::host_run::build_lock_owner(self.run);
        match self.link.take_lock(&owner).await? {
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
    async fn observe_everything(&mut self) -> Result<(), WindowRefusal> {
        let facts = self.run.facts.iter().filter_map(|name| crate::facts::fact_probe(self.host(), name)).collect();
        self.observe_probes(&facts).await?;
        let shared = self.run.board.shared_values();
        let rest: BTreeSet<Probe> = match self.run.host_context(&shared, self.host(), &self.seen) {
            Some(case) => plan::collect_probes(&case, self.run.facts).difference(&facts).cloned().collect(),
            None => BTreeSet::new(),
        };
        self.observe_probes(&rest).await
    }

    /// Publishes the phase reached by the steps that waited for a reboot.
    fn publish_reboot_phases(&self, steps: &[StepId]) {
        let mut reached = BTreeMap::new();
        for (index, _, verdict) in self.assess_steps(steps) {
            let own = crate::engine::host_run::phase_from_verdict(verdict);
            let least = reached.entry(index).or_insert(own);
            *least = own.min(*least);
        }
        reached.into_iter().for_each(|(index, reached)| self.run.board.record_phase(index, self.host(), reached));
    }
}

fn read_boot_id(facts: &Facts) -> Option<String> {
    match facts.0.get("boot") {
        Some(Ok(boot)) => boot.get("id")?.as_str().map(str::to_owned),
        _ => None,
    }
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
    Probe::Check {
        id: "the state of systemd".to_owned(),
        script: "command -v systemctl >/dev/null || { echo none; exit 0; }; systemctl is-system-running; exit 0"
            .to_owned(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(10),
    }
}

/// Reports whether the host is up. A host without systemd is up when it answers; `maintenance` and `starting` are not
/// up.
fn is_system_up(state: &str) -> bool {
    matches!(state, "running" | "degraded" | "none" | "offline")
}
