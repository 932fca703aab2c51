//! The verification of recipes during a run: evaluated after a recipe's last step, and repeated until it passes where
//! it may take a while.

use super::cancel::StopLevel;
use super::event::{Event, StepResult};
use super::host_work::HostWork;
use super::run_context::ApplyContext;
use super::run_state::RunStateData;
use super::unsettled_recipes::UnsettledRecipes;
use crate::model::{StepVerdict, UntrustedText};
use crate::plan::{self, HostPlan};
use crate::probe::Probe;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Initial interval between two evaluations; it grows with each.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(500);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Why a verification that passes is not accepted yet.
const UNSETTLED_REASON: &str = "it passes, perhaps still because of the state before the change";

/// A verification that has not passed yet and may take a while, or that may pass only because of the state before.
struct UnmetVerification {
    recipe: String,
    name: String,
    within: Duration,
    why: String,
}

/// Returns whether the cluster's verification may have another result after this run although nothing changes on the
/// cluster: because hosts change, or because it may take a while.
pub(super) fn can_verdict_change(run: &ApplyContext<'_>, plan: &HostPlan) -> bool {
    let open = |recipe: &str, name: &str| {
        plan.verify.iter().any(|one| (&*one.recipe, &*one.name) == (recipe, name) && !one.verdict.is_settled())
    };
    run.project.instances.get(&plan.host).into_iter().flatten().map(|own| &own.recipe).any(|recipe| {
        recipe
            .verify
            .iter()
            .filter(|verify| verify.of_cluster)
            .any(|verify| run.hosts_change || verify.within_s.is_some() && open(&recipe.name, &verify.name))
    })
}

/// The verification of one host's recipes.
pub(super) struct RecipeVerification<'h, 'r> {
    work: &'h mut HostWork<'r>,
}

impl<'h, 'r> RecipeVerification<'h, 'r> {
    pub fn new(work: &'h mut HostWork<'r>) -> Self {
        Self { work }
    }

    /// Evaluates the verification of a recipe after its last step, if steps of other recipes wait for it.
    pub async fn publish_result(&mut self, recipe: &str) {
        let run = self.work.run;
        if self.work.link.is_lost() || !run.proofs.contains(recipe) {
            return;
        }
        let why = self.find_failure(recipe).await;
        if !self.work.link.is_lost() {
            run.board.record_verification(run.list_recipe_steps(recipe), self.work.host(), why.as_deref());
        }
    }

    /// Evaluates the verification of a recipe and returns why it fails, if it does. A connection lost meanwhile is
    /// noted and gives no result.
    pub async fn find_failure(&mut self, recipe: &str) -> Option<String> {
        let shared = self.work.run.board.shared_values();
        let probes = plan::collect_verify_probes(&self.work.view.context(&shared)?, recipe);
        if !probes.is_empty() {
            self.work.observe(&probes, &shared.secrets).await.ok()?;
        }
        self.await_passed(Some(recipe)).await;
        let case = self.work.view.context(&shared)?;
        let instance = case.instances().iter().find(|i| i.recipe.name == recipe && !i.absent)?;
        plan::find_failed_verification(&case, instance)
    }

    /// Waits until every host of the run is done, if the cluster's verification depends on them.
    pub async fn await_all_hosts(&self) {
        let verified = self.work.run.project.instances.get(self.work.host()).into_iter().flatten();
        if !self.work.host().is_cluster() || verified.flat_map(|own| &own.recipe.verify).next().is_none() {
            return;
        }
        let hosts: Vec<_> = self.work.run.spans.members.iter().filter(|host| !host.is_cluster()).collect();
        let done = |standing: &RunStateData| hosts.iter().all(|host| standing.is_finished(host)).then_some(());
        self.work.run.board.wait_until(done).await;
    }

    /// Repeats verifications that may take a while, of one recipe or of all, until they pass or their time limit ends.
    pub async fn await_passed(&mut self, recipe: Option<&str>) {
        let (began, mut pause) = (Instant::now(), FIRST_RETRY_PAUSE);
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        loop {
            let left = |open: &UnmetVerification| open.within.saturating_sub(began.elapsed());
            let open: Vec<UnmetVerification> =
                self.list_unmet_verifications(recipe).into_iter().filter(|open| !left(open).is_zero()).collect();
            let Some(longest) = open.iter().map(left).max().filter(|_| !self.work.link.is_lost()) else {
                return self.note_settled(recipe);
            };
            open.iter().for_each(|open| self.report_unmet_verification(open, &mut told));
            tokio::select! {
                () = tokio::time::sleep(pause.min(longest)) => {}
                () = self.work.run.cancel.wait_for_level(StopLevel::Finish) => return,
            }
            pause = (pause * 2).min(MAX_RETRY_PAUSE);
            self.observe_verifications(&open).await;
        }
    }

    fn note_settled(&mut self, recipe: Option<&str>) {
        let changed = self.list_changed_recipes().into_iter().filter(|one| recipe.is_none_or(|recipe| recipe == one));
        self.work.settled_recipes.extend(changed.collect::<Vec<_>>());
    }

    /// Returns the recipes of which this run changed a step.
    fn list_changed_recipes(&self) -> BTreeSet<String> {
        let changed = self.work.results.reports().iter().filter(|step| matches!(step.result, StepResult::Changed));
        changed.map(|step| step.id.recipe.to_string()).collect()
    }

    /// Returns the verifications that have not passed yet, and those whose result may be of before a change. Those of
    /// recipes with failed steps are excluded.
    fn list_unmet_verifications(&self, only: Option<&str>) -> Vec<UnmetVerification> {
        let shared = self.work.run.board.shared_values();
        let Some(case) = self.work.view.context(&shared) else { return Vec::new() };
        let unsettled = UnsettledRecipes::from_reports(self.work.results.reports());
        let changed = self.list_changed_recipes();
        let mut open = Vec::new();
        for instance in case.instances().iter().filter(|i| !i.absent && only.is_none_or(|only| only == i.recipe.name)) {
            let recipe = &instance.recipe.name;
            if unsettled.has_stopped(recipe) || !self.work.run.options.filter.admits_recipe(recipe) {
                continue;
            }
            for verify in &instance.recipe.verify {
                // What no host of the run can report does not come however long it is waited for.
                let within_s = verify.within_s.filter(|_| !plan::lacks_export(&case, instance, verify));
                let is_new = changed.contains(recipe) && !self.work.settled_recipes.contains(recipe);
                let settle_s = verify.settle_s.filter(|_| is_new);
                if within_s.is_none() && settle_s.is_none() {
                    continue;
                }
                let (verdict, why) = plan::assess_verification(&case, instance, verify);
                let (limit_s, why) = match verdict {
                    StepVerdict::Change | StepVerdict::Unknown => (within_s.max(settle_s), why),
                    StepVerdict::Ok => (settle_s, UNSETTLED_REASON.to_owned()),
                    _ => (None, String::new()),
                };
                if let Some(limit_s) = limit_s {
                    let (recipe, name) = (recipe.clone(), verify.name.clone());
                    open.push(UnmetVerification { recipe, name, within: Duration::from_secs(limit_s), why });
                }
            }
        }
        open
    }

    /// Reports the pending verifications, each time their reason changes.
    fn report_unmet_verification(&self, open: &UnmetVerification, told: &mut BTreeMap<String, String>) {
        let why = self.work.run.board.shared_values().secrets.scrub_secrets(&open.why);
        if told.insert(format!("{}: {}", open.recipe, open.name), why.clone()).as_ref() != Some(&why) {
            let (recipe, name, host) = (open.recipe.clone(), open.name.clone(), self.work.host().clone());
            self.work.run.emit_event(Event::AwaitingVerification { host, recipe, name, why: UntrustedText::from(why) });
        }
    }

    async fn observe_verifications(&mut self, open: &[UnmetVerification]) {
        let shared = self.work.run.board.shared_values();
        let probes: BTreeSet<Probe> = {
            let Some(case) = self.work.view.context(&shared) else { return };
            let recipes: BTreeSet<&str> = open.iter().map(|open| open.recipe.as_str()).collect();
            recipes.into_iter().flat_map(|recipe| plan::collect_verify_probes(&case, recipe)).collect()
        };
        // A connection lost meanwhile is noted.
        let _ = self.work.observe(&probes, &shared.secrets).await;
    }
}
