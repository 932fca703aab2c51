//! The final proof: observes the whole host once more and evaluates every step and every `verify` with the same rules.

use super::event::{Event, StepFailure, StepResult, VerifyResult};
use super::host_run::HostRun;
use super::read_only_session::ObservationSession;
use super::report::{StepReport, VerifyReport};
use crate::model::{StepId, StepVerdict, UntrustedText};
use crate::plan::{self, HostContext, StepPredictions, VerifyPlan};
use crate::probe::Probe;
use std::collections::{BTreeMap, BTreeSet};

impl HostRun<'_> {
    /// Observes the host again and evaluates everything that is declared for it.
    pub(super) async fn run_final_proof(&mut self) -> Vec<VerifyReport> {
        self.await_all_hosts().await;
        let shared = self.run.board.shared_values();
        let probes = {
            let Some(case) = self.run.host_context(&shared, self.host(), &self.seen) else { return Vec::new() };
            let mut probes = plan::collect_probes(&case, self.run.facts);
            probes.remove(&Probe::Records);
            probes.remove(&Probe::Account);
            probes
        };
        match self.link.observe(&probes, &shared.secrets).await {
            Ok(observation) => self.seen.merge_observation(observation),
            Err(error) => {
                self.lost = Some(error);
                return Vec::new();
            }
        }
        let verdicts = self.assess_all_steps();
        self.revise_step_results(&verdicts);
        let settled: Vec<StepId> =
            verdicts.iter().filter(|(_, (v, _))| *v == StepVerdict::Ok).map(|(id, _)| id.clone()).collect();
        self.adopt_matching_steps(&settled);
        self.await_verification(None).await;
        match self.lost {
            None => self.report_verifications(),
            Some(_) => Vec::new(),
        }
    }

    /// Evaluates the verification of a recipe after its last step, if steps of other recipes wait for it.
    pub(super) async fn publish_verification(&mut self, recipe: &str) {
        if self.lost.is_some() || !self.run.proofs.contains(recipe) {
            return;
        }
        let why = self.find_failed_verification(recipe).await;
        if self.lost.is_none() {
            self.run.board.record_verification(self.run.list_recipe_steps(recipe), self.host(), why.as_deref());
        }
    }

    /// Evaluates the verification of a recipe and returns why it fails, if it does. A connection lost meanwhile is
    /// noted and gives no result.
    pub(super) async fn find_failed_verification(&mut self, recipe: &str) -> Option<String> {
        let shared = self.run.board.shared_values();
        let probes = plan::collect_verify_probes(&self.run.host_context(&shared, self.host(), &self.seen)?, recipe);
        if !probes.is_empty() {
            match self.link.observe(&probes, &shared.secrets).await {
                Ok(observation) => self.seen.merge_observation(observation),
                Err(error) => {
                    self.lost = Some(error);
                    return None;
                }
            }
        }
        self.await_verification(Some(recipe)).await;
        let case = self.run.host_context(&shared, self.host(), &self.seen)?;
        let instance = case.instances().iter().find(|i| i.recipe.name == recipe && !i.absent)?;
        plan::find_failed_verification(&case, instance)
    }

    fn assess_all_steps(&self) -> BTreeMap<StepId, (StepVerdict, UntrustedText)> {
        let shared = self.run.board.shared_values();
        let Some(case) = self.run.host_context(&shared, self.host(), &self.seen) else { return BTreeMap::new() };
        let turns = case.expand_local_steps();
        let judge = |turn: &plan::StepInstance<'_>| {
            plan::assess_step(&case, turn, &turns, &StepPredictions::default()).judgement
        };
        turns
            .iter()
            .map(|turn| {
                let judgement = judge(turn);
                (turn.expanded.id.clone(), (judgement.verdict, judgement.reason))
            })
            .collect()
    }

    /// Fails a step that was reported as done and no longer matches, whatever undid it. Clears a step that was pending
    /// on a restart which a later part of the run made.
    fn revise_step_results(&mut self, verdicts: &BTreeMap<StepId, (StepVerdict, UntrustedText)>) {
        for report in &mut self.steps {
            let Some((verdict, reason)) = verdicts.get(&report.id) else { continue };
            let result = match &report.result {
                StepResult::Changed | StepResult::AlreadyOk { .. } => result_if_undone(*verdict, reason),
                StepResult::Pending { .. } if *verdict == StepVerdict::Ok => {
                    Some(match self.changed.contains(&report.id) {
                        true => StepResult::Changed,
                        false => StepResult::AlreadyOk { reason: reason.clone() },
                    })
                }
                _ => None,
            };
            report.result = result.unwrap_or_else(|| report.result.clone());
        }
    }

    fn report_verifications(&self) -> Vec<VerifyReport> {
        let shared = self.run.board.shared_values();
        let Some(case) = self.run.host_context(&shared, self.host(), &self.seen) else { return Vec::new() };
        let reports = report_all_verifications(&case, &UnsettledRecipes::from_reports(&self.steps));
        for report in &reports {
            self.run.emit_event(Event::Verified {
                host: self.host().clone(),
                recipe: report.recipe.clone(),
                name: report.name.clone(),
                result: report.result.clone(),
                check: report.check.clone(),
            });
        }
        reports
    }
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

/// Recipes with steps that do not match, and the first such step of each.
#[derive(Default)]
pub(super) struct UnsettledRecipes {
    /// Recipes with steps that failed or did not run.
    stopped: BTreeMap<String, String>,
    /// Recipes that are configured but not effective yet.
    pending: BTreeMap<String, String>,
}

impl UnsettledRecipes {
    /// Reports whether a recipe has steps that failed or did not run.
    pub fn has_stopped(&self, recipe: &str) -> bool {
        self.stopped.contains_key(recipe)
    }

    pub fn from_reports(steps: &[StepReport]) -> Self {
        let mut unsettled = Self::default();
        for report in steps {
            let recipes = match report.result {
                StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. } => continue,
                StepResult::Pending { .. } => &mut unsettled.pending,
                _ => &mut unsettled.stopped,
            };
            recipes.entry(report.id.recipe.to_string()).or_insert_with(|| report.id.to_string());
        }
        unsettled
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
            let pending = unsettled.pending.get(recipe).map(String::as_str);
            let (result, check) = match unsettled.stopped.get(recipe) {
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

fn to_verify_result((verdict, reason): (StepVerdict, String)) -> VerifyResult {
    let reason: UntrustedText = reason.into();
    match verdict {
        StepVerdict::Ok => VerifyResult::Held,
        StepVerdict::NotApplicable => VerifyResult::NotApplicable { reason },
        StepVerdict::Unknown => VerifyResult::Unknown { reason },
        StepVerdict::Pending => VerifyResult::Skipped { reason },
        StepVerdict::Change | StepVerdict::Blocked(_) => VerifyResult::Failed { reason },
    }
}

/// Returns the result that the plan's own observation proves.
pub(super) fn report_planned_verification(verify: &VerifyPlan) -> VerifyReport {
    VerifyReport {
        recipe: verify.recipe.clone(),
        name: verify.name.clone(),
        result: to_verify_result((verify.verdict, verify.reason.raw().to_owned())),
        check: verify.check.clone(),
        of_step: false,
        place: verify.place.clone(),
    }
}

/// Returns the names of the facts to probe: those that the project's templates read and those that tell hosts apart.
/// Returns all facts if the templates' reads cannot be determined beforehand.
pub fn list_facts_used(project: &crate::config::Project) -> BTreeSet<String> {
    let read = project.collect_read_facts();
    let always = |name: &str| matches!(name, "identity" | "boot" | "simulated");
    let used = |name: &&str| always(name) || read.as_ref().is_none_or(|read| read.contains(*name));
    crate::facts::fact_names().filter(used).map(str::to_owned).collect()
}
