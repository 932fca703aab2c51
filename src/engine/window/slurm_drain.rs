//! The host as a Slurm node.

use super::own_script::run_own_script;
use super::slurm::{self, SlurmNode};
use super::window_node::{NODE_POLL_INTERVAL, NodeDrainRun};
use super::window_refusal::WindowRefusal;
use crate::engine::cancel::StopLevel;
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::host_work::HostWork;
use crate::model::HostName;
use crate::plan::HostWindow;
use crate::probe::{Observation, ProbeReading};
use crate::script::ShellFragment;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A host on which `scontrol` runs.
pub(super) trait SlurmHost {
    /// Returns the host's node as Slurm reports it.
    async fn query_node(&mut self) -> Result<SlurmNode, WindowRefusal>;

    /// Runs a script that changes the node.
    async fn update_node(&mut self, script: ShellFragment) -> Result<(), WindowRefusal>;
}

/// The drain of a host's Slurm node.
pub(super) struct SlurmDrain<'r> {
    run: NodeDrainRun<'r>,
    host: &'r HostName,
    /// Whether forge may have drained the node.
    drained: bool,
}

impl<'r> SlurmDrain<'r> {
    pub fn new(run: NodeDrainRun<'r>, host: &'r HostName) -> Self {
        Self { run, host, drained: false }
    }

    /// Returns whether forge may have drained the node.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Notes that an earlier run may have drained the node.
    pub fn take_over(&mut self) {
        self.drained = true;
    }

    /// Drains the node and waits for its running jobs as long as `busy_wait` permits. Returns the node's previous state
    /// if forge drained it.
    ///
    /// # Errors
    /// Jobs are still running, or Slurm did not answer. In both cases the node's state is restored.
    pub async fn drain_node(
        &mut self,
        host: &mut impl SlurmHost,
        window: &HostWindow,
    ) -> Result<Option<String>, WindowRefusal> {
        if !window.slurm {
            return Ok(None);
        }
        let before = host.query_node().await?;
        if before.is_drained() && !before.is_drained_by_forge() {
            tracing::info!(host = %self.host, by = slurm::describe_other_drainer(&before).raw(), "already drained");
            return self.await_idle_node(host, before, false).await.map(|()| None);
        }
        // Without an answer the node may still have been drained.
        self.drained = true;
        if !before.is_drained() {
            host.update_node(slurm::build_drain_script(&before, &self.run.options.run)).await?;
        }
        let state = before.state.clone();
        self.await_idle_node(host, before, true).await?;
        Ok(Some(state))
    }

    /// Waits until no job runs on the node. If that takes too long, a node drained by this run (`ours`) is resumed.
    async fn await_idle_node(
        &mut self,
        host: &mut impl SlurmHost,
        mut node: SlurmNode,
        ours: bool,
    ) -> Result<(), WindowRefusal> {
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
            node = host.query_node().await?;
        }
        if ours {
            node = host.query_node().await?;
            host.update_node(slurm::build_resume_script(&node)).await?;
            self.drained = false;
        }
        Err(WindowRefusal::Busy(format!("Slurm jobs still run on node {} ({})", node.name, node.state)))
    }

    /// Resumes the node if forge drained it.
    pub async fn resume_node(&mut self, host: &mut impl SlurmHost, window: &HostWindow) -> Result<(), WindowRefusal> {
        if !window.slurm {
            return Ok(());
        }
        let node = host.query_node().await?;
        if node.is_drained_by_forge() {
            host.update_node(slurm::build_resume_script(&node)).await?;
        }
        self.drained = false;
        Ok(())
    }
}

impl SlurmHost for HostWork<'_> {
    async fn query_node(&mut self) -> Result<SlurmNode, WindowRefusal> {
        let shared = self.run.board.shared_values();
        let observation = self.link.observe(&BTreeSet::from([slurm::build_node_probe()]), &shared.secrets).await?;
        read_slurm_node(&observation)
    }

    async fn update_node(&mut self, script: ShellFragment) -> Result<(), WindowRefusal> {
        run_own_script(self, script, SHORT_SCRIPT_LIMIT).await.map(drop)
    }
}

/// Reads the answer to [`slurm::build_node_probe`].
pub(super) fn read_slurm_node(observation: &Observation) -> Result<SlurmNode, WindowRefusal> {
    match observation.get(&slurm::build_node_probe()) {
        Ok(ProbeReading::Output(output)) => slurm::parse_node(output).map_err(WindowRefusal::Unknown),
        Ok(_) => Err(WindowRefusal::Unknown("unexpected type of answer from `scontrol`".to_owned())),
        Err(why) => Err(WindowRefusal::Unknown(format!("the node in Slurm: {}", why.why))),
    }
}
