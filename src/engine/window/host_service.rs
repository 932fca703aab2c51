//! A host in or out of service: drained and its units stopped when its window opens, brought back when it closes.

use super::device_holders::DeviceHolderCheck;
use super::kubernetes_drain::KubernetesDrain;
use super::own_script::{STOP_UNITS_LIMIT, run_own_script};
use super::slurm_drain::SlurmDrain;
use super::window_checks::{check_not_on_hold, check_packages_offered};
use super::window_node::NodeDrainRun;
use super::window_purpose::WindowPurpose;
use super::window_refusal::WindowRefusal;
use super::window_scripts;
use super::window_turn::await_window_turn;
use crate::config::Project;
use crate::engine::event::{DrainedNode, Event};
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::host_work::HostWork;
use crate::engine::run_context::ApplyContext;
use crate::engine::run_options::RunOptions;
use crate::model::HostName;
use crate::plan::{HostWindow, WindowStop};
use serde_json::json;

/// Whether a host is in service, and what this run did to take it out.
pub(super) struct HostService<'r> {
    /// Whether the host was taken out of service and not brought back.
    open: bool,
    /// Units that this run stopped.
    stopped: Vec<String>,
    slurm: SlurmDrain<'r>,
    node: KubernetesDrain<'r>,
}

impl<'r> HostService<'r> {
    pub fn new(run: &'r ApplyContext<'r>, host: &'r HostName) -> Self {
        let drain = NodeDrainRun::from_apply(run);
        let (slurm, node) = (SlurmDrain::new(drain, host), KubernetesDrain::new(drain, host, WindowPurpose::Change));
        Self { open: false, stopped: Vec::new(), slurm, node }
    }

    /// Reports whether the host was taken out of service and not brought back.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Reports whether nothing was done yet to take the host out of service.
    pub fn is_in_service(&self) -> bool {
        !self.open && !self.slurm.is_drained() && !self.node.is_cordoned()
    }

    /// Returns this run's changes to the host's Kubernetes node, for the report.
    pub fn take_node_summary(&mut self) -> Option<DrainedNode> {
        self.node.take_summary()
    }

    /// Takes the host out of service when it is its turn: checks that no other users' work is on it, drains it, marks
    /// its window as open, and stops the units that must not run meanwhile.
    ///
    /// # Errors
    /// The host stays in service.
    pub async fn take_out(&mut self, work: &mut HostWork<'_>, window: &HostWindow) -> Result<(), WindowRefusal> {
        await_window_turn(work.run, work.host()).await?;
        let opened = self.drain_and_stop(work, window).await;
        if opened.is_err() && !self.open {
            work.run.board.give_up_window(work.host());
        }
        opened
    }

    async fn drain_and_stop(&mut self, work: &mut HostWork<'_>, window: &HostWindow) -> Result<(), WindowRefusal> {
        check_not_on_hold(work).await?;
        check_packages_offered(work, window).await?;
        // Holders of devices are reported before the node is drained, unless forge waits for them. Pods leave when the
        // node is drained.
        if work.run.project.rollout.busy_wait_s.is_none() || !window.slurm {
            self.await_free_devices(work, window, window.kubernetes.is_some()).await?;
        }
        let slurm = self.slurm.drain_node(work, window).await?;
        match self.drain_node_and_stop(work, window, slurm).await {
            Err(shut) if !work.link.is_lost() => Err(self.undo_drains(work, window, shut).await),
            opened => opened,
        }
    }

    /// Continues after the node is drained in Slurm.
    async fn drain_node_and_stop(
        &mut self,
        work: &mut HostWork<'_>,
        window: &HostWindow,
        slurm: Option<String>,
    ) -> Result<(), WindowRefusal> {
        self.node.drain_node(window).await?;
        if window.slurm || window.kubernetes.is_some() {
            self.await_free_devices(work, window, false).await?;
        }
        if window.slurm || window.kubernetes.is_some() || work.run.project.rollout.busy_wait_s.is_some() {
            // Jobs and pods may have taken hours to end.
            check_not_on_hold(work).await?;
        }
        self.stop_units(work, window, slurm).await
    }

    async fn await_free_devices(
        &self,
        work: &mut HostWork<'_>,
        window: &HostWindow,
        pods_leave: bool,
    ) -> Result<(), WindowRefusal> {
        let (reboots, in_service) = (window.has_certain_reboot(), self.is_in_service());
        DeviceHolderCheck { window, reboots, pods_leave, in_service }.await_free_devices(work).await
    }

    /// Resumes a node that was drained in vain. The result keeps the reason why the window does not open.
    async fn undo_drains(
        &mut self,
        work: &mut HostWork<'_>,
        window: &HostWindow,
        shut: WindowRefusal,
    ) -> WindowRefusal {
        let mut shut = shut;
        if self.slurm.is_drained() {
            shut = append_stuck_node(shut, "drained in Slurm", self.slurm.resume_node(work, window).await);
        }
        // A node that an earlier run left out of service stays so: this run did not drain it.
        if self.node.is_cordoned() && work.view.seen().window.is_none() {
            shut = append_stuck_node(shut, "cordoned in Kubernetes", self.node.release_node(window).await);
        }
        shut
    }

    async fn stop_units(
        &mut self,
        work: &mut HostWork<'_>,
        window: &HostWindow,
        slurm: Option<String>,
    ) -> Result<(), WindowRefusal> {
        let script = window_scripts::build_open_script(
            &build_window_mark(work.run.project, work.run.options, slurm, WindowPurpose::Change),
            &collect_stop_names(&window.stops),
            &collect_stop_names(&window.unloads),
        );
        let stopped = run_own_script(work, script, STOP_UNITS_LIMIT).await?;
        self.open = true;
        let stops: Vec<String> = stopped.lines().map(str::to_owned).collect();
        self.stopped.clone_from(&stops);
        work.run.emit_event(Event::WindowOpened { host: work.host().clone(), stops });
        Ok(())
    }

    /// Starts the units again that this run stopped. Programs that test the host may need them.
    ///
    /// # Errors
    /// A unit does not start.
    pub async fn start_stopped_units(&mut self, work: &mut HostWork<'_>) -> Result<(), WindowRefusal> {
        if !self.stopped.is_empty() {
            run_own_script(work, window_scripts::build_start_script(&self.stopped), STOP_UNITS_LIMIT).await?;
            self.stopped.clear();
        }
        Ok(())
    }

    /// Brings the host back into service. Services and holds were restored by the steps that declare them.
    ///
    /// # Errors
    /// The host stays out of service.
    pub async fn bring_back(&mut self, work: &mut HostWork<'_>, window: &HostWindow) -> Result<(), WindowRefusal> {
        if work.link.is_lost() {
            return Err(WindowRefusal::Stopped);
        }
        self.start_stopped_units(work).await?;
        self.node.await_ready(window, work.view.boot_id().as_deref()).await?;
        self.node.release_node(window).await?;
        self.slurm.resume_node(work, window).await?;
        run_own_script(work, window_scripts::build_close_script(), SHORT_SCRIPT_LIMIT).await?;
        self.open = false;
        work.run.board.leave_window(work.host());
        work.run.emit_event(Event::WindowClosed { host: work.host().clone() });
        Ok(())
    }
}

/// Returns the mark of an open window: who opened it, and the node's state in Slurm before it was drained.
pub(super) fn build_window_mark(
    project: &Project,
    options: &RunOptions,
    slurm: Option<String>,
    purpose: WindowPurpose,
) -> String {
    let mark = json!({
        "version": 1,
        "cluster": project.cluster,
        "run": options.run,
        "controller": options.controller,
        "user": options.user,
        "time": (options.clock)().to_string(),
        "slurm": slurm,
        "purpose": purpose.name(),
    });
    mark.to_string()
}

fn append_stuck_node(shut: WindowRefusal, how: &str, given_back: Result<(), WindowRefusal>) -> WindowRefusal {
    let Err(WindowRefusal::Failed(why) | WindowRefusal::Unknown(why)) = given_back else { return shut };
    let both = |shut: &str| format!("{shut}; the node also stays {how}: {why}");
    match shut {
        WindowRefusal::Busy(shut) => WindowRefusal::Busy(both(&shut)),
        WindowRefusal::Unknown(shut) => WindowRefusal::Unknown(both(&shut)),
        shut => shut,
    }
}

fn collect_stop_names(stops: &[WindowStop]) -> Vec<&str> {
    stops.iter().map(|stop| stop.name.as_str()).collect()
}
