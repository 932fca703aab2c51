//! The final proof: observes the whole host once more and evaluates every step and every `verify` with the same rules.

use super::event::{Event, StepFailure, StepResult, VerifyResult};
use super::exports::refresh_exports;
use super::host_link::LinkLost;
use super::host_report::to_verify_result;
use super::host_view::StepFinding;
use super::host_work::HostWork;
use super::recipe_verification::RecipeVerification;
use super::report::{StepReport, VerifyReport};
use super::unsettled_recipes::UnsettledRecipes;
use crate::model::{StepId, StepVerdict, UntrustedText};
use crate::plan::{self, HostContext};
use crate::probe::Probe;
use std::collections::{BTreeMap, BTreeSet};

/// A step may read a value that another one exports, and so on: each needs an observation of its own.
const MAX_OBSERVATIONS: usize = 8;

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
        let applied = self.work.view.digest_declarations();
        RecipeVerification::new(self.work).await_all_hosts().await;
        if self.work.host().is_cluster() {
            // What hosts did meanwhile may have changed what was observed in the cluster.
            self.work.forget_ahead();
        }
        if self.observe_everything().await.is_err() {
            return Vec::new();
        }
        let findings: BTreeMap<StepId, StepFinding> =
            self.work.view.assess_steps(|_| true).into_iter().map(|finding| (finding.id.clone(), finding)).collect();
        let declared = self.work.view.digest_declarations();
        self.revise_step_results(&findings, |id| applied.get(id) != declared.get(id));
        self.report_new_steps(&findings);
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

    /// Observes the host again. The answers may change facts and exported values, and with them what the steps declare: what
    /// only that asks for is observed as well.
    async fn observe_everything(&mut self) -> Result<(), LinkLost> {
        let mut asked = BTreeSet::from([Probe::Records, Probe::Account]);
        // A recipe's own check may take long: if it just ran, and this run changed nothing here since, it does not run again.
        asked.extend(self.work.fresh_probes().into_iter().flatten().filter(|probe| is_check(probe)).cloned());
        for _ in 0..MAX_OBSERVATIONS {
            let shared = self.work.run.board.shared_values();
            let Some(case) = self.work.view.context(&shared) else { return Ok(()) };
            let probes: BTreeSet<Probe> =
                plan::collect_probes(&case, self.work.run.facts).difference(&asked).cloned().collect();
            if probes.is_empty() {
                break;
            }
            self.work.observe(&probes, &shared.secrets).await?;
            asked.extend(probes);
            refresh_exports(self.work.run, &self.work.view);
        }
        Ok(())
    }

    /// Reports steps that the plan does not have or called not applicable, and that have a change now: what their
    /// condition or their items read has changed during the run. They were not shown, so they did not run.
    fn report_new_steps(&mut self, findings: &BTreeMap<StepId, StepFinding>) {
        let stale = |finding: &StepFinding| StepResult::Stale {
            reason: format!(
                "it applies since a value that it reads has changed during the run: {}",
                finding.reason.raw()
            )
            .into(),
        };
        let is_due = |finding: &&StepFinding| finding.verdict == StepVerdict::Change;
        self.work.results.revise_results(|report, _| match report.result {
            StepResult::NotApplicable { .. } => findings.get(&report.id).filter(is_due).map(stale),
            _ => None,
        });
        // The items of a step that the run did not reach are left to the next run.
        let reports = self.work.results.reports();
        let is_new = |finding: &&StepFinding| {
            let mut own = reports.iter().filter(|report| report.id.is_same_step(&finding.id)).peekable();
            own.peek().is_some() && own.all(|report| report.id != finding.id && is_complete(&report.result))
        };
        let new = findings.values().filter(is_due).filter(is_new);
        let new: Vec<StepReport> =
            new.filter_map(|finding| self.work.view.build_report(&finding.id, stale(finding))).collect();
        new.into_iter().for_each(|report| self.work.results.add_report(report));
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
    ///
    /// `is_redeclared` tells whether a step declares something else since a value that it reads has changed.
    fn revise_step_results(
        &mut self,
        findings: &BTreeMap<StepId, StepFinding>,
        is_redeclared: impl Fn(&StepId) -> bool,
    ) {
        self.work.results.revise_results(|report, changed| {
            let StepFinding { verdict, reason, .. } = findings.get(&report.id)?;
            match &report.result {
                StepResult::Changed | StepResult::AlreadyOk { .. } => {
                    result_if_undone(*verdict, reason, is_redeclared(&report.id))
                }
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

fn is_check(probe: &Probe) -> bool {
    matches!(probe, Probe::Check(_))
}

fn list_settled(findings: &BTreeMap<StepId, StepFinding>) -> Vec<StepId> {
    let matching = findings.values().filter(|finding| finding.verdict == StepVerdict::Ok);
    matching.map(|finding| finding.id.clone()).collect()
}

fn is_complete(result: &StepResult) -> bool {
    matches!(
        result,
        StepResult::Changed
            | StepResult::AlreadyOk { .. }
            | StepResult::NotApplicable { .. }
            | StepResult::Stale { .. }
    )
}

/// Returns the result of a completed step that has another verdict at the end of the run.
fn result_if_undone(verdict: StepVerdict, reason: &UntrustedText, is_redeclared: bool) -> Option<StepResult> {
    let reason = reason.clone();
    let (what, hint) = match is_redeclared {
        true => ("a value that it reads has changed during the run", Some("apply again".into())),
        false => ("no longer matches at the end of the run", None),
    };
    match verdict {
        StepVerdict::Ok | StepVerdict::NotApplicable => None,
        StepVerdict::Unknown => Some(StepResult::Unknown { reason }),
        StepVerdict::Pending => Some(StepResult::Pending { reason }),
        StepVerdict::Change | StepVerdict::Blocked(_) => {
            let why = format!("{what}: {}", reason.raw()).into();
            Some(StepResult::Failed {
                failure: StepFailure { why, tail: UntrustedText::default(), hint, log: None, artifact: false },
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
            let (result, check) = match unsettled.describe_stop(recipe) {
                Some(why) => (VerifyResult::Skipped { reason: why.into() }, None),
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
