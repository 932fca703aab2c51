//! The final proof: observes the whole host once more and evaluates every step and every `verify` with the same rules.

use super::event::{Event, StepFailure, StepResult, VerifyResult};
use super::host_report::to_verify_result;
use super::host_view::StepFinding;
use super::host_work::HostWork;
use super::recipe_verification::RecipeVerification;
use super::report::VerifyReport;
use super::unsettled_recipes::UnsettledRecipes;
use crate::model::{StepId, StepVerdict, UntrustedText};
use crate::plan::{self, HostContext};
use crate::probe::Probe;
use std::collections::BTreeMap;

/// The proof of a host at the end of its run.
pub(super) struct FinalProof<'h, 'r> {
    work: &'h mut HostWork<'r>,
}

impl<'h, 'r> FinalProof<'h, 'r> {
    pub fn new(work: &'h mut HostWork<'r>) -> Self {
        Self { work }
    }

    /// Observes the host again and evaluates everything that is declared for it.
    pub async fn run(mut self) -> Vec<VerifyReport> {
        RecipeVerification::new(self.work).await_all_hosts().await;
        let shared = self.work.run.board.shared_values();
        let probes = {
            let Some(case) = self.work.view.context(&shared) else { return Vec::new() };
            let mut probes = plan::collect_probes(&case, self.work.run.facts);
            probes.remove(&Probe::Records);
            probes.remove(&Probe::Account);
            probes
        };
        if self.work.observe(&probes, &shared.secrets).await.is_err() {
            return Vec::new();
        }
        let findings: BTreeMap<StepId, StepFinding> =
            self.work.view.assess_steps(|_| true).into_iter().map(|finding| (finding.id.clone(), finding)).collect();
        self.revise_step_results(&findings);
        self.adopt_matching_steps(&findings);
        RecipeVerification::new(self.work).await_passed(None).await;
        match self.work.link.is_lost() {
            false => {
                let reports = self.report_verifications();
                self.record_failures(&findings, &reports);
                reports
            }
            true => Vec::new(),
        }
    }

    /// Queues records that name the verifications that did not pass.
    fn record_failures(&mut self, findings: &BTreeMap<StepId, StepFinding>, reports: &[VerifyReport]) {
        if self.is_only_read() {
            return;
        }
        let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for report in reports {
            match report.result {
                VerifyResult::Held => drop(failed.entry(report.recipe.clone()).or_default()),
                VerifyResult::Failed { .. } | VerifyResult::Unknown { .. } => {
                    failed.entry(report.recipe.clone()).or_default().push(report.name.clone());
                }
                VerifyResult::Skipped { .. } | VerifyResult::NotApplicable { .. } => {}
            }
        }
        self.work.records.queue_unverified(&self.work.view, &list_settled(findings), &failed);
    }

    /// Reports whether nothing is written: a cluster that is only evaluated is not locked.
    fn is_only_read(&self) -> bool {
        self.work.host().is_cluster() && self.work.link.cluster_writer().is_none()
    }

    /// Fails a step that was reported as done and no longer matches, whatever undid it. Clears a step that was pending
    /// on a restart which a later part of the run made.
    fn revise_step_results(&mut self, findings: &BTreeMap<StepId, StepFinding>) {
        self.work.results.revise_results(|report, changed| {
            let StepFinding { verdict, reason, .. } = findings.get(&report.id)?;
            match &report.result {
                StepResult::Changed | StepResult::AlreadyOk { .. } => result_if_undone(*verdict, reason),
                StepResult::Pending { .. } if *verdict == StepVerdict::Ok => Some(match changed {
                    true => StepResult::Changed,
                    false => StepResult::AlreadyOk { reason: reason.clone() },
                }),
                _ => None,
            }
        });
    }

    /// Queues records for steps that match and have no valid record.
    fn adopt_matching_steps(&mut self, findings: &BTreeMap<StepId, StepFinding>) {
        if self.is_only_read() {
            return;
        }
        self.work.records.adopt_matching(&self.work.view, &self.work.results, &list_settled(findings));
        self.work.records.queue_kept(&self.work.view);
    }

    fn report_verifications(&self) -> Vec<VerifyReport> {
        let run = self.work.run;
        let shared = run.board.shared_values();
        let Some(case) = self.work.view.context(&shared) else { return Vec::new() };
        let reports = report_all_verifications(&case, &UnsettledRecipes::from_reports(self.work.results.reports()));
        for report in &reports {
            run.emit_event(Event::Verified {
                host: self.work.host().clone(),
                recipe: report.recipe.clone(),
                name: report.name.clone(),
                result: report.result.clone(),
                check: report.check.clone(),
            });
        }
        reports
    }
}

fn list_settled(findings: &BTreeMap<StepId, StepFinding>) -> Vec<StepId> {
    let matching = findings.values().filter(|finding| finding.verdict == StepVerdict::Ok);
    matching.map(|finding| finding.id.clone()).collect()
}

/// Returns the result of a completed step that has another verdict at the end of the run.
fn result_if_undone(verdict: StepVerdict, reason: &UntrustedText) -> Option<StepResult> {
    let reason = reason.clone();
    match verdict {
        StepVerdict::Ok | StepVerdict::NotApplicable => None,
        StepVerdict::Unknown => Some(StepResult::Unknown { reason }),
        StepVerdict::Pending => Some(StepResult::Pending { reason }),
        StepVerdict::Change | StepVerdict::Blocked(_) => {
            let why = format!("no longer matches at the end of the run: {}", reason.raw()).into();
            Some(StepResult::Failed {
                failure: StepFailure { why, tail: UntrustedText::default(), hint: None, log: None, artifact: false },
            })
        }
    }
}

/// Evaluates every `verify` of a host's recipes. Those of recipes with failed steps are skipped, with the reason.
fn report_all_verifications(case: &HostContext<'_>, unsettled: &UnsettledRecipes) -> Vec<VerifyReport> {
    let mut reports = Vec::new();
    for instance in case.instances().iter().filter(|i| !i.absent) {
        let recipe = &instance.recipe.name;
        if !case.ground.filter.admits_recipe(recipe) {
            continue;
        }
        for verify in &instance.recipe.verify {
            let judged = || plan::assess_verification(case, instance, verify);
            let pending = unsettled.pending_step(recipe);
            let (result, check) = match unsettled.stopped_step(recipe) {
                Some(step) => (VerifyResult::Skipped { reason: format!("`{step}` did not succeed").into() }, None),
                None => {
                    let judged = plan::adjust_for_pending(pending, judged());
                    let check = plan::build_check_run(case, instance, verify, judged.0);
                    (to_verify_result(judged), check)
                }
            };
            let place = case.ground.project.sources.format_location(verify.span);
            reports.push(VerifyReport {
                recipe: recipe.clone(),
                name: verify.name.clone(),
                result,
                check,
                of_step: false,
                place,
            });
        }
    }
    reports
}
