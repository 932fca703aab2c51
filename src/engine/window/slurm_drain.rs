//! The host as a Slurm node.

use super::own_script::run_own_script;
use super::slurm::{self, SlurmNode};
use super::window_refusal::WindowRefusal;
use crate::engine::cancel::StopLevel;
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::host_work::HostWork;
use crate::plan::HostWindow;
use crate::probe::ProbeReading;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Interval between two observations of a node.
pub(super) const NODE_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The drain of a host's Slurm node.
#[derive(Debug, Default)]
pub(super) struct SlurmDrain {
    /// Whether forge drained the node.
    drained: bool,
}

impl SlurmDrain {
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Drains the node and waits for its running jobs as long as `busy_wait` permits. Returns the node's previous state
    /// if forge drained it.
    ///
    /// # Errors
    /// Jobs are still running, or Slurm did not answer. In both cases the node's state is restored.
    pub async fn drain_node(
        &mut self,
        work: &mut HostWork<'_>,
        window: &HostWindow,
    ) -> Result<Option<String>, WindowRefusal> {
        if !window.slurm {
            return Ok(None);
        }
        let before = query_slurm_node(work).await?;
        if before.is_drained() && !before.is_drained_by_forge() {
            tracing::info!(host = %work.host(), by = slurm::describe_other_drainer(&before).raw(), "already drained");
            return self.await_idle_node(work, before, false).await.map(|()| None);
        }
        if !before.is_drained() {
            run_own_script(work, slurm::build_drain_script(&before, &work.run.options.run), SHORT_SCRIPT_LIMIT).await?;
        }
        self.drained = true;
        let state = before.state.clone();
        self.await_idle_node(work, before, true).await?;
        Ok(Some(state))
    }

    /// Waits until no job runs on the node. If that takes too long, a node drained by this run (`ours`) is resumed.
    async fn await_idle_node(
        &mut self,
        work: &mut HostWork<'_>,
        mut node: SlurmNode,
        ours: bool,
    ) -> Result<(), WindowRefusal> {
        let until = Instant::now() + Duration::from_secs(work.run.project.rollout.busy_wait_s.unwrap_or(0));
        loop {
            if !node.is_working() {
                return Ok(());
            }
            let stopped = tokio::select! {
                () = tokio::time::sleep(NODE_POLL_INTERVAL.min(until.saturating_duration_since(Instant::now()))) => false,
                () = work.run.cancel.wait_for_level(StopLevel::Finish) => true,
            };
            if stopped || Instant::now() >= until {
                break;
            }
            node = query_slurm_node(work).await?;
        }
        if ours {
            node = query_slurm_node(work).await?;
            run_own_script(work, slurm::build_resume_script(&node), SHORT_SCRIPT_LIMIT).await?;
            self.drained = false;
        }
        Err(WindowRefusal::Busy(format!("Slurm jobs still run on node {} ({})", node.name, node.state)))
    }

    /// Resumes the node if forge drained it.
    pub async fn resume_node(&mut self, work: &mut HostWork<'_>, window: &HostWindow) -> Result<(), WindowRefusal> {
        if !window.slurm {
            return Ok(());
        }
        let node = query_slurm_node(work).await?;
        if node.is_drained_by_forge() {
            run_own_script(work, slurm::build_resume_script(&node), SHORT_SCRIPT_LIMIT).await?;
        }
        self.drained = false;
        Ok(())
    }
}

async fn query_slurm_node(work: &mut HostWork<'_>) -> Result<SlurmNode, WindowRefusal> {
    let shared = work.run.board.shared_values();
    let probe = slurm::build_node_probe();
    let observation = work.link.observe(&BTreeSet::from([probe.clone()]), &shared.secrets).await?;
    match observation.get(&probe) {
        Ok(ProbeReading::Output(output)) => slurm::parse_node(output).map_err(WindowRefusal::Unknown),
        Ok(_) => Err(WindowRefusal::Unknown("unexpected type of answer from `scontrol`".to_owned())),
        Err(why) => Err(WindowRefusal::Unknown(format!("the node in Slurm: {}", why.why))),
    }
}
