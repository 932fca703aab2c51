//! The host as a node of Slurm.

use super::Shut;
use super::slurm::{self, Node};
use crate::engine::cancel::Stop;
use crate::engine::glance::Asked;
use crate::engine::host::HostRun;
use crate::engine::link::SHORT;
use crate::plan::Window;
use crate::probe::Reading;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long it is waited between two looks at a node.
pub(super) const PAUSE: Duration = Duration::from_secs(5);

impl HostRun<'_> {
    /// Lets the node take no new work, and waits for what runs on it as long as a window waits for anybody. Returns
    /// the state that it had, if it is a node that forge drained.
    ///
    /// # Errors
    /// Work is still running, or Slurm did not answer. Then the node is as it was.
    pub(super) async fn drain(&mut self, window: &Window) -> Result<Option<String>, Shut> {
        if !window.slurm {
            return Ok(None);
        }
        let before = self.node().await?;
        if before.is_drained() && !before.is_ours() {
            tracing::info!(host = %self.host(), by = slurm::others(&before).raw(), "drained already");
            return self.idle(before, false).await.map(|()| None);
        }
        if !before.is_drained() {
            self.own_script(slurm::drain(&before, &self.run.options.run), SHORT).await?;
        }
        self.drained = true;
        let state = before.state.clone();
        self.idle(before, true).await?;
        Ok(Some(state))
    }

    /// Waits until nothing runs on the node. One that is `ours` takes work again when that does not come.
    async fn idle(&mut self, mut node: Node, ours: bool) -> Result<(), Shut> {
        let until = Instant::now() + Duration::from_secs(self.run.project.rollout.busy_wait_s.unwrap_or(0));
        loop {
            if !node.works() {
                return Ok(());
            }
            let stopped = tokio::select! {
                () = tokio::time::sleep(PAUSE.min(until.saturating_duration_since(Instant::now()))) => false,
                () = self.run.cancel.reached(Stop::Finish) => true,
            };
            if stopped || Instant::now() >= until {
                break;
            }
            node = self.node().await?;
        }
        if ours {
            node = self.node().await?;
            self.own_script(slurm::resume(&node), SHORT).await?;
            self.drained = false;
        }
        Err(Shut::Busy(format!("Slurm still runs work on node {} ({})", node.name, node.state)))
    }

    /// Lets the node take work again, if it was forge who drained it.
    pub(super) async fn undrain(&mut self, window: &Window) -> Result<(), Shut> {
        if !window.slurm {
            return Ok(());
        }
        let node = self.node().await?;
        if node.is_ours() {
            self.own_script(slurm::resume(&node), SHORT).await?;
        }
        self.drained = false;
        Ok(())
    }

    async fn node(&mut self) -> Result<Node, Shut> {
        let shared = self.run.board.shared();
        let probe = slurm::probe();
        let observation = match self.link.observe(&BTreeSet::from([probe.clone()]), &shared.secrets).await {
            Ok(observation) => observation,
            Err(error) => {
                self.lost = Some(error);
                return Err(Shut::Stopped);
            }
        };
        match observation.get(&probe) {
            Ok(Reading::Output(output)) => slurm::read(output).map_err(Shut::Unknown),
            Ok(_) => Err(Shut::Unknown("`scontrol` was answered with something else".to_owned())),
            Err(why) => Err(Shut::Unknown(format!("the node in Slurm: {}", why.why))),
        }
    }
}
