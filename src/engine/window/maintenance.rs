//! The progress of a host through its window.

use super::host_reboots::HostReboots;
use super::host_service::HostService;
use super::refused_steps::{refuse_group, report_awaiting_steps};
use super::return_check::ReturnCheck;
use super::window_checks::{check_all_decided, check_no_failed_step, check_no_other_window, check_not_controller};
use super::window_failure::find_window_failure;
use super::window_refusal::WindowRefusal;
use crate::engine::cancel::StopLevel;
use crate::engine::event::{Event, ReturnTest};
use crate::engine::host_work::HostWork;
use crate::engine::report::HostReport;
use crate::engine::run_context::ApplyContext;
use crate::engine::step_groups::HostStepGroup;
use crate::graph::StepIndex;
use crate::model::{HostOutcome, UntrustedText};
use crate::plan::{HostPlan, HostWindow, StepStage};

/// A host's maintenance window: the stage it is in, and why it does not continue.
pub(in crate::engine) struct MaintenanceWindow<'r> {
    run: &'r ApplyContext<'r>,
    plan: &'r HostPlan,
    stage: StepStage,
    shut: Option<WindowRefusal>,
    service: HostService<'r>,
    reboots: HostReboots,
    returns: &'r dyn ReturnCheck,
    /// The tests before the host was brought back.
    return_tests: Vec<ReturnTest>,
}

impl<'r> MaintenanceWindow<'r> {
    pub fn new(run: &'r ApplyContext<'r>, plan: &'r HostPlan, returns: &'r dyn ReturnCheck) -> Self {
        let service = HostService::new(run, &plan.host);
        let (stage, reboots) = (StepStage::default(), HostReboots::default());
        Self { run, plan, stage, shut: None, service, reboots, returns, return_tests: Vec::new() }
    }

    /// Reports whether the host was taken out of service and not brought back.
    pub fn is_open(&self) -> bool {
        self.service.is_open()
    }

    /// Reports whether the window does not continue: its changes are not made.
    pub fn is_shut(&self) -> bool {
        self.shut.is_some()
    }

    /// Advances the host to a stage: takes it out of service, reboots it, brings it back, as the plan declares. If that
    /// stops, the steps that wait for it report the reason.
    pub async fn advance_to_stage(&mut self, work: &mut HostWork<'r>, stage: StepStage) {
        let Some(window) = self.plan.window.as_ref() else { return };
        while self.stage < stage && self.shut.is_none() {
            if work.link.is_lost() || self.run.cancel.level() > StopLevel::No {
                return;
            }
            // Each stage of the window may change the host.
            work.forget_ahead();
            let (next, passed) = match self.stage {
                StepStage::Before if is_close_only(window) => (StepStage::Inside(0), Ok(())),
                StepStage::Before => (StepStage::Inside(0), self.open(work, window).await),
                StepStage::Inside(round) if (round as usize) < window.reboots.len() => {
                    (StepStage::Inside(round + 1), self.reboot(work, window, round as usize).await)
                }
                StepStage::Inside(_) | StepStage::After => (StepStage::After, self.close(work, window).await),
            };
            match passed {
                Ok(()) => self.stage = next,
                Err(shut) => self.refuse(work, shut),
            }
        }
    }

    /// Opens the window, if the work in it can be finished; otherwise the host is not taken out of service.
    async fn open(&mut self, work: &mut HostWork<'r>, window: &HostWindow) -> Result<(), WindowRefusal> {
        check_no_failed_step(work, "taken out of service")?;
        check_no_other_window(work)?;
        check_all_decided(work, window)?;
        if window.has_certain_reboot() {
            check_not_controller(work).await?;
        }
        self.service.take_out(work, window).await
    }

    async fn reboot(
        &mut self,
        work: &mut HostWork<'r>,
        window: &HostWindow,
        round: usize,
    ) -> Result<(), WindowRefusal> {
        let in_service = self.service.is_in_service();
        self.reboots.reboot_if_pending(work, window, round, in_service).await
    }

    /// Closes the window. If a step of it did not succeed or a test did not pass, it stays open, and the next successful
    /// run closes it.
    async fn close(&mut self, work: &mut HostWork<'r>, window: &HostWindow) -> Result<(), WindowRefusal> {
        if let Some(why) = find_window_failure(work, window, !self.reboots.is_empty()).await {
            return Err(WindowRefusal::Open(why));
        }
        self.service.start_stopped_units(work).await?;
        let (tests, passed) = self.returns.check_host(work, window).await;
        self.return_tests = tests;
        passed?;
        self.service.bring_back(work, window).await
    }

    /// Records and reports why the window does not continue.
    fn refuse(&mut self, work: &mut HostWork<'r>, shut: WindowRefusal) {
        if let Some(why) = shut.describe_reason() {
            let host = work.host().clone();
            self.run.emit_event(match self.is_open() || self.stage > StepStage::Before {
                true => Event::WindowLeftOpen { host, why },
                false => Event::WindowShut { host, why },
            });
        }
        report_awaiting_steps(work, &shut);
        self.shut = Some(shut);
    }

    /// Completes the steps of a group of a window that is shut.
    pub fn refuse_group(&self, work: &mut HostWork<'r>, group: &HostStepGroup) {
        if let Some(shut) = &self.shut {
            refuse_group(work, group, shut);
        }
    }

    /// Returns whether a later reboot of this run makes a step effective.
    pub fn awaits_reboot(&self, index: StepIndex) -> bool {
        let done = match self.stage {
            _ if self.shut.is_some() => return false,
            StepStage::Before => 0,
            StepStage::Inside(round) => round as usize,
            StepStage::After => return false,
        };
        let id = self.run.project.graph.step_id(index);
        let later = self.plan.window.iter().flat_map(|window| window.reboots.iter().skip(done));
        later.flat_map(|reboot| &reboot.steps).any(|step| step.recipe == id.recipe && step.step == id.step)
    }

    /// Adds the window's results to the host's report.
    pub fn complete_report(&mut self, report: &mut HostReport) {
        report.reboots = self.reboots.take_completed();
        report.return_tests = std::mem::take(&mut self.return_tests);
        report.node = self.service.take_node_summary();
    }

    /// Returns why the host is not back in service, although no step failed. `outcome` is that of the steps and
    /// verifications.
    pub fn describe_failed_return(&self, outcome: HostOutcome) -> Option<UntrustedText> {
        let why = match (&self.shut, outcome) {
            (
                Some(WindowRefusal::Failed(why) | WindowRefusal::Unknown(why)),
                HostOutcome::Ok | HostOutcome::Changed,
            ) if self.stage > StepStage::Before => why,
            // The verification of a recipe with a pending step does not count as failed.
            (
                Some(WindowRefusal::Failed(why) | WindowRefusal::Unknown(why) | WindowRefusal::Open(why)),
                HostOutcome::Pending,
            ) if self.stage > StepStage::Before => why,
            _ => return None,
        };
        Some(format!("not brought back into service: {why}").into())
    }
}

/// Returns whether the only thing to do is to close a window that was left open.
fn is_close_only(window: &HostWindow) -> bool {
    window.steps.is_empty() && window.reboots.is_empty()
}
