//! The host as a Slurm node.

use super::WindowRefusal;
use super::slurm::{self, SlurmNode};
use crate::engine::cancel::StopLevel;
use crate::engine::host_run::HostRun;
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::read_only_session::ObservationSession;
use crate::plan::HostWindow;
use crate::probe::ProbeReading;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interval between two observations of a node.
pub(super) const NODE_POLL_INTERVAL: Duration = Duration::from_secs(5);

impl HostRun<'_> {
    /// Drains the node and waits for its running jobs as long as `busy_wait` permits. Returns the node's previous state
    /// if forge drained it.
    ///
    /// # Errors
    /// Jobs are still running, or Slurm did not answer. In both cases the node's state is restored.
    pub(super) async fn drain_slurm_node(&mut self, window: &HostWindow) -> Result<Option<String>, WindowRefusal> {
        if !window.slurm {
            return Ok(None);
        }
        let before = self.query_slurm_node().await?;
        if before.is_drained() && !before.is_drained_by_forge() {
            tracing::info!(host = %self.host(), by = slurm::describe_other_drainer(&before).raw(), "already drained");
            return self.await_idle_slurm_node(before, false).await.map(|()| None);
        }
        if !before.is_drained() {
            self.run_own_script(slurm::build_drain_script(&before, &self.run.options.run), SHORT_SCRIPT_LIMIT).await?;
        }
        self.drained = true;
        let state = before.state.clone();
        self.await_idle_slurm_node(before, true).await?;
        Ok(Some(state))
    }

    /// Waits until no job runs on the node. If that takes too long, a node drained by this run (`ours`) is resumed.
    async fn await_idle_slurm_node(&mut self, mut node: SlurmNode, ours: bool) -> Result<(), WindowRefusal> {
        let until = Instant::now() + Duration::from_secs(self.run.project.rollout.busy_wait_s.unwrap_or(0));
        loop {
            if !node.is_working() {
                return Ok(());
            }
            let stopped = tokio::select! {
                () = tokio::time::sleep(NODE_POLL_INTERVAL.min(until.saturating_duration_since(Instant::now()))) => false,
                () = self.run.cancel.wait_for_level(StopLevel::Finish) => true,
            };
            if stopped || Instant::now() >= until {
                break;
            }
            node = self.query_slurm_node().await?;
        }
        if ours {
            node = self.query_slurm_node().await?;
            self.run_own_script(slurm::build_resume_script(&node), SHORT_SCRIPT_LIMIT).await?;
            self.drained = false;
        }
        Err(WindowRefusal::Busy(format!("Slurm jobs still run on node {} ({})", node.name, node.state)))
    }

    /// Resumes the node if forge drained it.
    pub(super) async fn resume_slurm_node(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        if !window.slurm {
            return Ok(());
        }
        let node = self.query_slurm_node().await?;
        if node.is_drained_by_forge() {
            self.run_own_script(slurm::build_resume_script(&node), SHORT_SCRIPT_LIMIT).await?;
        }
        self.drained = false;
        Ok(())
    }

    async fn query_slurm_node(&mut self) -> Result<SlurmNode, WindowRefusal> {
        let shared = self.run.board.shared_values();
        let probe = slurm::build_node_probe();
        let observation = match self.link.observe(&BTreeSet::from([probe.clone()]), &shared.secrets).await {
            Ok(observation) => observation,
            Err(error) => {
                self.lost = Some(error);
                return Err(WindowRefusal::Stopped);
            }
        };
        match observation.get(&probe) {
            Ok(ProbeReading::Output(output)) => slurm::parse_node(output).map_err(WindowRefusal::Unknown),
            Ok(_) => Err(WindowRefusal::Unknown("unexpected type of answer from `scontrol`".to_owned())),
            Err(why) => Err(WindowRefusal::Unknown(format!("the node in Slurm: {}", why.why))),
        }
    }
}
