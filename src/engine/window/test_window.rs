//! A node of Kubernetes or Slurm that is out of service only while acceptance tests measure its host.
//!
//! Nothing on the host changes in such a window. So a later run may close it without a verification, whoever left it
//! open: the mark on the host says so, and is written before the node is drained.

use super::host_service::build_window_mark;
use super::kubernetes_drain::KubernetesDrain;
use super::slurm::{self, SlurmNode};
use super::slurm_drain::{SlurmDrain, SlurmHost, read_slurm_node};
use super::window_node::NodeDrainRun;
use super::window_purpose::WindowPurpose;
use super::window_refusal::WindowRefusal;
use super::window_scripts;
use super::window_turn::check_window_hours;
use crate::engine::cancel::StopLevel;
use crate::engine::host_session::{HostSession, SHORT_SCRIPT_LIMIT, describe_transport_error, summarize_stderr};
use crate::model::{HostName, SecretStore, UntrustedText, Value};
use crate::plan::HostWindow;
use crate::script::ShellFragment;
use crate::transport::TransportError;
use std::collections::BTreeSet;

/// The window of a tested host.
pub(in crate::engine) struct TestWindow<'r> {
    run: NodeDrainRun<'r>,
    window: HostWindow,
    slurm: SlurmDrain<'r>,
    kubernetes: KubernetesDrain<'r>,
    /// Whether the host has the mark of such a window.
    is_marked: bool,
}

impl<'r> TestWindow<'r> {
    /// `window` says of which workload manager the host is a node, and `purpose` what measures it.
    pub fn new(run: NodeDrainRun<'r>, host: &'r HostName, window: HostWindow, purpose: WindowPurpose) -> Self {
        let (slurm, kubernetes) = (SlurmDrain::new(run, host), KubernetesDrain::new(run, host, purpose));
        Self { run, window, slurm, kubernetes, is_marked: false }
    }

    /// Takes over a window that an earlier run of tests left open. `mark` is the mark of the host.
    ///
    /// # Errors
    /// The window belongs to a run that changed the host.
    pub fn adopt(&mut self, mark: &UntrustedText) -> Result<(), UntrustedText> {
        self.is_marked = Self::is_left_by_tests(mark);
        match self.is_marked {
            true => {
                self.slurm.take_over();
                Ok(())
            }
            false => Err("a run left its window open while it changed the host: run `forge apply`".into()),
        }
    }

    /// Returns whether jobs of the host end before it is measured: forge waits for them.
    pub fn awaits_jobs(&self) -> bool {
        self.window.slurm && self.run.project.rollout.busy_wait_s.is_some()
    }

    /// Returns whether the host may be out of service.
    pub fn is_open(&self) -> bool {
        self.is_marked
    }

    /// Returns whether the mark of a host says that tests left its window open.
    pub fn is_left_by_tests(mark: &UntrustedText) -> bool {
        let mark: Value = serde_json::from_str(mark.raw()).unwrap_or_default();
        mark.get("purpose").and_then(Value::as_str) == Some(WindowPurpose::Test.name())
    }

    /// Marks the host, and drains its node.
    ///
    /// # Errors
    /// The node stays in service, unless the reason says otherwise.
    pub async fn open(&mut self, link: &dyn HostSession) -> Result<(), UntrustedText> {
        let opened = self.mark_and_drain(link).await;
        let Err(refusal) = opened else { return Ok(()) };
        let why = describe_refusal(&refusal);
        match self.close(link, None).await {
            Ok(()) => Err(why),
            Err(stuck) => Err(join_reasons(&why, &stuck)),
        }
    }

    async fn mark_and_drain(&mut self, link: &dyn HostSession) -> Result<(), WindowRefusal> {
        check_window_hours(self.run.project, self.run.options)?;
        let mark = build_window_mark(self.run.project, self.run.options, None, WindowPurpose::Test);
        // Without an answer the mark may still have been written.
        self.is_marked = true;
        let mut host = TestedHost { link, secrets: &self.run.project.secrets };
        host.run_script(window_scripts::build_open_script(&mark, &[], &[])).await?;
        self.slurm.drain_node(&mut host, &self.window).await?;
        self.kubernetes.drain_node(&self.window).await
    }

    /// Gives the node back. After a stop request it does not wait until the node offers everything declared: its host
    /// did not change. `boot` is the host's boot id.
    ///
    /// # Errors
    /// The node may still be out of service: the reason.
    pub async fn close(&mut self, link: &dyn HostSession, boot: Option<&str>) -> Result<(), UntrustedText> {
        if !self.is_marked {
            return Ok(());
        }
        let closed = self.release_and_unmark(link, boot).await;
        self.is_marked = closed.is_err();
        closed.map_err(|refusal| describe_refusal(&refusal))
    }

    async fn release_and_unmark(&mut self, link: &dyn HostSession, boot: Option<&str>) -> Result<(), WindowRefusal> {
        if boot.is_some() && self.run.cancel.level() == StopLevel::No {
            match self.kubernetes.await_ready(&self.window, boot).await {
                Ok(()) | Err(WindowRefusal::Stopped) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        self.kubernetes.release_node(&self.window).await?;
        let mut host = TestedHost { link, secrets: &self.run.project.secrets };
        // Slurm may not know a node that was not drained.
        if self.slurm.is_drained() {
            self.slurm.resume_node(&mut host, &self.window).await?;
        }
        host.run_script(window_scripts::build_close_script()).await
    }
}

/// The session of a tested host.
struct TestedHost<'s> {
    link: &'s dyn HostSession,
    secrets: &'s SecretStore,
}

impl TestedHost<'_> {
    async fn run_script(&self, body: ShellFragment) -> Result<(), WindowRefusal> {
        let done =
            self.link.run_acting_script(body, SHORT_SCRIPT_LIMIT.into(), self.secrets).await.map_err(to_refusal)?;
        match done.finished.status {
            0 => Ok(()),
            _ => Err(WindowRefusal::Failed(summarize_stderr(&done.finished.stderr))),
        }
    }
}

impl SlurmHost for TestedHost<'_> {
    async fn query_node(&mut self) -> Result<SlurmNode, WindowRefusal> {
        let seen = self.link.observe(&BTreeSet::from([slurm::build_node_probe()]), self.secrets).await;
        read_slurm_node(&seen.map_err(to_refusal)?)
    }

    async fn update_node(&mut self, script: ShellFragment) -> Result<(), WindowRefusal> {
        self.run_script(script).await
    }
}

fn to_refusal(error: TransportError) -> WindowRefusal {
    WindowRefusal::Failed(describe_transport_error(&error).raw().to_owned())
}

/// Joins why a host is not tested with why it may still be out of service.
pub(in crate::engine) fn join_reasons(why: &UntrustedText, stuck: &UntrustedText) -> UntrustedText {
    format!("{}; not given back: {}", why.raw(), stuck.raw()).into()
}

fn describe_refusal(refusal: &WindowRefusal) -> UntrustedText {
    refusal.describe_reason().unwrap_or_else(|| "stopped".into())
}
