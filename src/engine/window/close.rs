//! Closes a window: brings the host back into service if everything succeeded.

use super::{STOP_UNITS_LIMIT, WindowRefusal, window_scripts};
use crate::engine::event::{Event, StepFailure, StepResult};
use crate::engine::host_run::HostRun;
use crate::engine::host_session::SHORT_SCRIPT_LIMIT;
use crate::engine::report::StepReport;
use crate::plan::{HostWindow, StepStage};
use std::collections::BTreeSet;

impl HostRun<'_> {
    /// Brings the host back into service. Services and holds were restored by the steps that declare them.
    ///
    /// # Errors
    /// A step of the window did not succeed: the window stays open, and the next successful run closes it.
    pub(super) async fn close_window(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        match self.find_window_failure(window).await {
            Some(why) => Err(WindowRefusal::Open(why)),
            None => self.return_to_service(window).await,
        }
    }

    async fn return_to_service(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        if self.lost.is_some() {
            return Err(WindowRefusal::Stopped);
        }
        if !self.passage.stopped.is_empty() {
            self.run_own_script(window_scripts::build_start_script(&self.passage.stopped), STOP_UNITS_LIMIT).await?;
        }
        self.await_node_ready(window).await?;
        self.release_kubernetes_node(window).await?;
        self.resume_slurm_node(window).await?;
        self.run_own_script(window_scripts::build_close_script(), SHORT_SCRIPT_LIMIT).await?;
        self.passage.open = false;
        self.run.board.leave_window(self.host());
        self.run.emit_event(Event::WindowClosed { host: self.host().clone() });
        Ok(())
    }

    /// Returns the first failure in the window, if any. For a window left open by an earlier run, the steps that
    /// belonged to it are not known: then the whole host must match.
    async fn find_window_failure(&mut self, window: &HostWindow) -> Option<String> {
        if window.left_open.is_some() && !self.run.options.filter.is_empty() {
            return Some("it was opened by an earlier run, and `--step` or `--skip` may exclude its steps".to_owned());
        }
        let own = |report: &&StepReport| {
            let stage = self.plan.steps.iter().find(|step| step.id == report.id).map(|step| step.stage);
            window.left_open.is_some() || !matches!(stage, Some(StepStage::Before))
        };
        if let Some(why) = self.steps.iter().filter(own).find_map(describe_unfinished_step) {
            return Some(why);
        }
        for recipe in self.list_recipes_to_verify(window) {
            if let Some(why) = self.find_failed_verification(&recipe).await {
                return Some(format!("`{recipe}`: {why}"));
            }
        }
        None
    }

    /// Returns the recipes whose verification must pass before the host is back in service: those that changed, and all
    /// after a reboot, since a GPU lost in it shows in other recipes. Recipes with steps that wait for other hosts are
    /// verified later.
    fn list_recipes_to_verify(&self, window: &HostWindow) -> BTreeSet<String> {
        let mut recipes: BTreeSet<String> = window.list_recipes().into_iter().map(str::to_owned).collect();
        if !self.passage.reboots.is_empty() {
            recipes.extend(self.plan.verify.iter().map(|verify| verify.recipe.to_string()));
        }
        for late in self.plan.steps.iter().filter(|step| step.stage == StepStage::After) {
            recipes.remove(&*late.id.recipe);
        }
        recipes
    }
}

fn describe_unfinished_step(report: &StepReport) -> Option<String> {
    let why = match &report.result {
        StepResult::Failed { failure: StepFailure { why, .. } } => why.raw(),
        StepResult::Blocked { reason, .. }
        | StepResult::Unknown { reason }
        | StepResult::Stale { reason }
        | StepResult::Held { reason }
        | StepResult::Skipped { reason } => reason.raw(),
        StepResult::Cancelled => "not started",
        _ => return None,
    };
    Some(format!("`{}` did not succeed: {why}", report.id))
}
