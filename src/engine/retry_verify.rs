//! Waits for the cluster to converge: its verification is evaluated once hosts are done, and repeated until it passes.

use super::cancel::StopLevel;
use super::event::Event;
use super::final_proof::UnsettledRecipes;
use super::host_run::HostRun;
use super::read_only_session::ObservationSession;
use super::run_context::ApplyContext;
use crate::model::{StepVerdict, UntrustedText};
use crate::plan::{self, HostPlan};
use crate::probe::Probe;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Initial interval between two evaluations; it grows with each.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(500);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// A verification that has not passed yet and may take a while.
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

impl HostRun<'_> {
    /// Waits until every host of the run is done, if the cluster's verification depends on them.
    pub(super) async fn await_all_hosts(&self) {
        let verified = self.run.project.instances.get(self.host()).into_iter().flatten();
        if !self.host().is_cluster() || verified.flat_map(|own| &own.recipe.verify).next().is_none() {
            return;
        }
        let hosts: Vec<_> = self.run.spans.members.iter().filter(|host| !host.is_cluster()).collect();
        let done = |standing: &super::run_state::RunStateData| {
            hosts.iter().all(|host| standing.is_finished(host)).then_some(())
        };
        self.run.board.wait_until(done).await;
    }

    /// Repeats verifications that may take a while, of one recipe or of all, until they pass or their time limit ends.
    pub(super) async fn await_verification(&mut self, recipe: Option<&str>) {
        let (began, mut pause) = (Instant::now(), FIRST_RETRY_PAUSE);
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        loop {
            let left = |open: &UnmetVerification| open.within.saturating_sub(began.elapsed());
            let open: Vec<UnmetVerification> =
                self.list_unmet_verifications(recipe).into_iter().filter(|open| !left(open).is_zero()).collect();
            let Some(longest) = open.iter().map(left).max().filter(|_| self.lost.is_none()) else { return };
            open.iter().for_each(|open| self.report_unmet_verification(open, &mut told));
            tokio::select! {
                () = tokio::time::sleep(pause.min(longest)) => {}
                () = self.run.cancel.wait_for_level(StopLevel::Finish) => return,
            }
            pause = (pause * 2).min(MAX_RETRY_PAUSE);
            self.observe_verifications(&open).await;
        }
    }

    /// Returns the verifications that have not passed yet. Those of recipes with failed steps are excluded.
    fn list_unmet_verifications(&self, only: Option<&str>) -> Vec<UnmetVerification> {
        let shared = self.run.board.shared_values();
        let Some(case) = self.run.host_context(&shared, self.host(), &self.seen) else { return Vec::new() };
        let unsettled = UnsettledRecipes::from_reports(&self.steps);
        let mut open = Vec::new();
        for instance in case.instances().iter().filter(|i| !i.absent && only.is_none_or(|only| only == i.recipe.name)) {
            let recipe = &instance.recipe.name;
            if unsettled.has_stopped(recipe) || !self.run.options.filter.admits_recipe(recipe) {
                continue;
            }
            for verify in &instance.recipe.verify {
                let Some(within_s) = verify.within_s else { continue };
                if let (StepVerdict::Change | StepVerdict::Unknown, why) =
                    plan::assess_verification(&case, instance, verify)
                {
                    let (recipe, name) = (recipe.clone(), verify.name.clone());
                    open.push(UnmetVerification { recipe, name, within: Duration::from_secs(within_s), why });
                }
            }
        }
        open
    }

    /// Reports the pending verifications, each time their reason changes.
    fn report_unmet_verification(&self, open: &UnmetVerification, told: &mut BTreeMap<String, String>) {
        let why = self.run.board.shared_values().secrets.scrub_secrets(&open.why);
        if told.insert(format!("{}: {}", open.recipe, open.name), why.clone()).as_ref() != Some(&why) {
            let (recipe, name, host) = (open.recipe.clone(), open.name.clone(), self.host().clone());
            self.run.emit_event(Event::AwaitingVerification { host, recipe, name, why: UntrustedText::from(why) });
        }
    }

    async fn observe_verifications(&mut self, open: &[UnmetVerification]) {
        let shared = self.run.board.shared_values();
        let probes: BTreeSet<Probe> = {
            let Some(case) = self.run.host_context(&shared, self.host(), &self.seen) else { return };
            let recipes: BTreeSet<&str> = open.iter().map(|open| open.recipe.as_str()).collect();
            recipes.into_iter().flat_map(|recipe| plan::collect_verify_probes(&case, recipe)).collect()
        };
        match self.link.observe(&probes, &shared.secrets).await {
            Ok(observation) => self.seen.merge_observation(observation),
            Err(error) => self.lost = Some(error),
        }
    }
}
