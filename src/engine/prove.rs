//! The final proof: observes the whole host once more and evaluates every step and every `verify` with the same rules.

use super::event::{Event, StepFailure, StepResult, VerifyResult};
use super::glance::ObservationSession;
use super::host::HostRun;
use super::report::{StepReport, VerifyReport};
use crate::model::{StepId, StepVerdict, UntrustedText};
use crate::plan::{self, HostContext, StepPredictions, VerifyPlan};
use crate::probe::Probe;
use std::collections::{BTreeMap, BTreeSet};

impl HostRun<'_> {
    /// Observes the host again and evaluates everything that is declared for it.
    pub(super) async fn prove(&mut self) -> Vec<VerifyReport> {
        self.await_hosts().await;
        let shared = self.run.board.shared();
        let probes = {
            let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return Vec::new() };
            let mut probes = plan::demand(&case, self.run.facts);
            probes.remove(&Probe::Records);
            probes.remove(&Probe::Account);
            probes
        };
        match self.link.observe(&probes, &shared.secrets).await {
            Ok(observation) => self.seen.update(observation),
            Err(error) => {
                self.lost = Some(error);
                return Vec::new();
            }
        }
        let verdicts = self.verdicts();
        self.revise(&verdicts);
        let settled: Vec<StepId> =
            verdicts.iter().filter(|(_, (v, _))| *v == StepVerdict::Ok).map(|(id, _)| id.clone()).collect();
        self.adopt(&settled);
        self.await_verification(None).await;
        match self.lost {
            None => self.verifications(),
            Some(_) => Vec::new(),
        }
    }

    /// Evaluates the verification of a recipe after its last step, if steps of other recipes wait for it.
    pub(super) async fn attest(&mut self, recipe: &str) {
        if self.lost.is_some() || !self.run.proofs.contains(recipe) {
            return;
        }
        let why = self.unproven(recipe).await;
        if self.lost.is_none() {
            self.run.board.attest(self.run.steps_of(recipe), self.host(), why.as_deref());
        }
    }

    /// Evaluates the verification of a recipe and returns why it fails, if it does. A connection lost meanwhile is
    /// noted and gives no result.
    pub(super) async fn unproven(&mut self, recipe: &str) -> Option<String> {
        let shared = self.run.board.shared();
        let probes = plan::verify_probes(&self.run.case(&shared, self.host(), &self.seen)?, recipe);
        if !probes.is_empty() {
            match self.link.observe(&probes, &shared.secrets).await {
                Ok(observation) => self.seen.update(observation),
                Err(error) => {
                    self.lost = Some(error);
                    return None;
                }
            }
        }
        self.await_verification(Some(recipe)).await;
        let case = self.run.case(&shared, self.host(), &self.seen)?;
        let instance = case.instances().iter().find(|i| i.recipe.name == recipe && !i.absent)?;
        plan::unproven(&case, instance)
    }

    fn verdicts(&self) -> BTreeMap<StepId, (StepVerdict, UntrustedText)> {
        let shared = self.run.board.shared();
        let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return BTreeMap::new() };
        let turns = case.turns();
        let judge =
            |turn: &plan::StepInstance<'_>| plan::judge(&case, turn, &turns, &StepPredictions::default()).judgement;
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
    fn revise(&mut self, verdicts: &BTreeMap<StepId, (StepVerdict, UntrustedText)>) {
        for report in &mut self.steps {
            let Some((verdict, reason)) = verdicts.get(&report.id) else { continue };
            let result = match &report.result {
                StepResult::Changed | StepResult::AlreadyOk { .. } => undone(*verdict, reason),
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

    fn verifications(&self) -> Vec<VerifyReport> {
        let shared = self.run.board.shared();
        let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return Vec::new() };
        let reports = verify_all(&case, &UnsettledRecipes::of(&self.steps));
        for report in &reports {
            self.run.say(Event::Verified {
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
fn undone(verdict: StepVerdict, reason: &UntrustedText) -> Option<StepResult> {
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

    pub fn of(steps: &[StepReport]) -> Self {
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
fn verify_all(case: &HostContext<'_>, unsettled: &UnsettledRecipes) -> Vec<VerifyReport> {
    let mut reports = Vec::new();
    for instance in case.instances().iter().filter(|i| !i.absent) {
        let recipe = &instance.recipe.name;
        if !case.ground.filter.admits_recipe(recipe) {
            continue;
        }
        for verify in &instance.recipe.verify {
            let judged = || plan::verification(case, instance, verify);
            let pending = unsettled.pending.get(recipe).map(String::as_str);
            let (result, check) = match unsettled.stopped.get(recipe) {
                Some(step) => (VerifyResult::Skipped { reason: format!("`{step}` did not succeed").into() }, None),
                None => {
                    let judged = plan::despite(pending, judged());
                    let check = plan::check_run(case, instance, verify, judged.0);
                    (result(judged), check)
                }
            };
            let place = case.ground.project.sources.place(verify.span);
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

fn result((verdict, reason): (StepVerdict, String)) -> VerifyResult {
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
pub(super) fn from_plan(verify: &VerifyPlan) -> VerifyReport {
    VerifyReport {
        recipe: verify.recipe.clone(),
        name: verify.name.clone(),
        result: result((verify.verdict, verify.reason.raw().to_owned())),
        check: verify.check.clone(),
        of_step: false,
        place: verify.place.clone(),
    }
}

/// Returns the names of the facts to probe: those that the project's templates read and those that tell hosts apart.
/// Returns all facts if the templates' reads cannot be determined beforehand.
pub fn facts_used(project: &crate::config::Project) -> BTreeSet<String> {
    let read = project.facts_read();
    let always = |name: &str| matches!(name, "identity" | "boot" | "simulated");
    let used = |name: &&str| always(name) || read.as_ref().is_none_or(|read| read.contains(*name));
    crate::facts::names().filter(used).map(str::to_owned).collect()
}
