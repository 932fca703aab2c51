//! Opens a window: takes the host out of service.

use super::{STOP_UNITS_LIMIT, WindowRefusal, window_scripts};
use crate::engine::event::{Event, StepResult};
use crate::engine::host_run::HostRun;
use crate::engine::report::StepReport;
use crate::model::{StepId, StepScope};
use crate::plan::{self, HostWindow, WindowStop};
use serde_json::json;

impl HostRun<'_> {
    /// Takes the host out of service when it is its turn: checks that no other users' work is on it, drains it, marks
    /// its window as open, and stops the units that must not run meanwhile.
    ///
    /// # Errors
    /// The host stays in service.
    pub(super) async fn open_window(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        self.check_worth_opening(window).await?;
        self.await_window_turn().await?;
        let opened = self.take_out_of_service(window).await;
        if opened.is_err() && !self.passage.open {
            self.run.board.leave_window(self.host());
        }
        opened
    }

    async fn take_out_of_service(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        // Holders of devices are reported before the node is drained, unless forge waits for them. Pods leave when the
        // node is drained.
        if self.run.project.rollout.busy_wait_s.is_none() || !window.slurm {
            self.await_free_devices(window, window.has_certain_reboot(), window.kubernetes.is_some()).await?;
        }
        let slurm = self.drain_slurm_node(window).await?;
        match self.drain_and_stop_units(window, slurm).await {
            Err(shut) if self.lost.is_none() => Err(self.undo_drains(window, shut).await),
            opened => opened,
        }
    }

    /// Continues after the node is drained in Slurm.
    async fn drain_and_stop_units(&mut self, window: &HostWindow, slurm: Option<String>) -> Result<(), WindowRefusal> {
        self.drain_kubernetes_node(window).await?;
        if window.slurm || window.kubernetes.is_some() {
            self.await_free_devices(window, window.has_certain_reboot(), false).await?;
        }
        self.stop_units(window, slurm).await
    }

    /// Resumes a node that was drained in vain. The result keeps the reason why the window does not open.
    async fn undo_drains(&mut self, window: &HostWindow, shut: WindowRefusal) -> WindowRefusal {
        let mut shut = shut;
        if self.drained {
            shut = append_stuck_node(shut, "drained in Slurm", self.resume_slurm_node(window).await);
        }
        // A node that an earlier run left out of service stays so: this run did not drain it.
        if self.cordoned && self.seen.window.is_none() {
            shut = append_stuck_node(shut, "cordoned in Kubernetes", self.release_kubernetes_node(window).await);
        }
        shut
    }

    /// Checks that the work in the window can be finished; otherwise the host is not taken out of service.
    async fn check_worth_opening(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        self.check_no_failed_step("taken out of service")?;
        self.check_all_decided(window)?;
        match window.has_certain_reboot() {
            true => self.check_not_controller().await,
            false => Ok(()),
        }
    }

    /// After a reboot the whole host must be proven: one with a step that could not be evaluated would stay out of
    /// service.
    fn check_all_decided(&self, window: &HostWindow) -> Result<(), WindowRefusal> {
        let counts = |id: &StepId| self.plan.steps.iter().any(|step| step.id == *id && step.scope != StepScope::One);
        let open = self.steps.iter().filter(|report| counts(&report.id)).find_map(describe_undecided_step);
        match open {
            Some(why) if window.left_open.is_none() && !window.reboots.is_empty() => Err(WindowRefusal::Held(why)),
            _ => Ok(()),
        }
    }

    async fn stop_units(&mut self, window: &HostWindow, slurm: Option<String>) -> Result<(), WindowRefusal> {
        let options = &self.run.options;
        let mark = json!({
            "version": 1,
            "run": options.run,
            "controller": options.controller,
            "user": options.user,
            "time": (options.clock)().to_string(),
            "slurm": slurm,
        });
        let script = window_scripts::build_open_script(
            &mark.to_string(),
            &collect_stop_names(&window.stops),
            &collect_stop_names(&window.unloads),
        );
        let stopped = self.run_own_script(script, STOP_UNITS_LIMIT).await?;
        self.passage.open = true;
        let stops: Vec<String> = stopped.lines().map(str::to_owned).collect();
        self.passage.stopped.clone_from(&stops);
        self.run.emit_event(Event::WindowOpened { host: self.host().clone(), stops });
        Ok(())
    }
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

fn describe_undecided_step(report: &StepReport) -> Option<String> {
    let word = match &report.result {
        StepResult::Blocked { .. } => "blocked",
        StepResult::Unknown { .. } => "unknown",
        StepResult::Stale { .. } => "stale",
        _ => return None,
    };
    Some(plan::explain_unopened_window(&report.id, word))
}

fn collect_stop_names(stops: &[WindowStop]) -> Vec<&str> {
    stops.iter().map(|stop| stop.name.as_str()).collect()
}
