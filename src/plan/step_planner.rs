//! One pass over the step instances of a host, in order, that carries the predicted effects of earlier ones.

use super::assessment::{PackageListsAge, StepAssessment, StepPredictions, assess_step, unknown_assessment};
use super::check_run::find_step_check;
use super::cross_host::{CrossHostStatus, CrossHostView, PlannedStepStatus};
use super::cross_host_edges::{list_needed_recipes, resolve_predecessor};
use super::guard::{find_guard_time, find_unfinished_run};
use super::host_context::{HostContext, StepInstance};
use super::missing_cluster::ClusterMaker;
use super::model::{ChangeCertainty, PredictedEffects, StepPlan};
use super::preconditions;
use super::rule_assessment::assess_rules;
use super::step_names::{describe_resource, step_title};
use super::undo_effect::derive_undo_effect;
use super::unmet_dependency::{DependencyShortfall, UnmetDependency};
use super::verify::find_failed_verification;
use super::window::{self, StepStage, WindowScope};
use crate::config::{self, ExpansionState, RecipeInstance, StepConflict};
use crate::graph::{DependencyKind, GraphEdge, StepIndex};
use crate::model::{
    BlockClass, DisruptionClass, HostName, SecretStore, StepId, StepPhase, StepScope, StepVerdict, Value,
};
use crate::probe::Probe;
use crate::resource::{Assessment, EffectReach, PackageChanges, ProvidedItem};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) struct StepPlanner<'w, 'a> {
    case: &'w HostContext<'a>,
    turns: &'w [StepInstance<'a>],
    outside: &'w CrossHostView<'w>,
    ahead: StepPredictions,
    /// Step instances that will change and whose effects are not fully declared.
    opaque: BTreeSet<StepId>,
    /// Step instances that will change packages, and how.
    packages: BTreeMap<StepId, PackageChanges>,
    /// Step instances that match now and are checked again.
    precautions: BTreeSet<StepId>,
    /// Steps whose change is only a note of the package manager.
    noted: Vec<StepId>,
    /// Step instances that will wait and change nothing.
    waits: BTreeSet<StepId>,
    /// The status of each step: the worst of its instances.
    status: BTreeMap<StepIndex, PlannedStepStatus>,
    /// For steps that match but depend on a stopped step: the stopped step.
    behind: BTreeMap<StepIndex, UnmetDependency>,
    /// Steps that the hold of the host holds back.
    on_hold: BTreeSet<String>,
    /// Recipes that a rule, or the identity of the host, blocks here.
    ruled: BTreeMap<String, Assessment>,
    /// Steps that another step of the host contradicts.
    contradicted: BTreeMap<StepId, Assessment>,
    /// The known state of the host's window.
    window: &'w WindowScope,
}

impl<'w, 'a> StepPlanner<'w, 'a> {
    /// `twin` is the judgement that blocks all steps of a machine with several names.
    pub fn new(
        case: &'w HostContext<'a>,
        turns: &'w [StepInstance<'a>],
        outside: &'w CrossHostView<'w>,
        twin: Option<Assessment>,
        window: &'w WindowScope,
    ) -> Self {
        let mut ahead = StepPredictions::default();
        ahead.predicted.exporters = outside.exporters().clone();
        ahead.predicted.is_undo = case.ground.project.generated;
        ahead.unfinished = find_unfinished_run(case.seen, case.ground.project.generated);
        let ruled = |i: &Arc<RecipeInstance>| twin.clone().or_else(|| assess_rules(case, i));
        let ruled = case.instances().iter().filter_map(|i| Some((i.recipe.name.clone(), ruled(i)?))).collect();
        let (opaque, packages) = (BTreeSet::new(), BTreeMap::new());
        let (precautions, waits) = (BTreeSet::new(), BTreeSet::new());
        let (status, behind) = (BTreeMap::new(), BTreeMap::new());
        let contradicted = assess_conflicts(turns);
        Self {
            case,
            turns,
            outside,
            ahead,
            opaque,
            packages,
            precautions,
            noted: Vec::new(),
            waits,
            status,
            behind,
            on_hold: BTreeSet::new(),
            ruled,
            contradicted,
            window,
        }
    }

    /// Sets whether apt's lists may be old.
    pub fn assume_package_lists(mut self, lists: PackageListsAge) -> Self {
        self.ahead.predicted.lists_updated = lists == PackageListsAge::Updated;
        self
    }

    /// Plans every step instance and publishes the status of the steps that other hosts wait for.
    pub fn plan_steps(mut self, told: &mut CrossHostStatus) -> Vec<StepPlan> {
        let turns = self.turns;
        let mut steps = Vec::with_capacity(turns.len());
        for turn in turns {
            let step = self.plan_step(turn);
            // A step that matches reads its values again, and an earlier change may bring what they are read from.
            let exports_later = step.will_run() || step.verdict.is_settled() && !self.ahead.changing.is_empty();
            if exports_later && !turn.step.exports.is_empty() && self.case.seen.account.is_none() {
                told.exporters.insert(step.id.recipe.to_string());
            }
            steps.push(step);
        }
        self.publish_status(told);
        steps
    }

    fn publish_status(&self, told: &mut CrossHostStatus) {
        let graph = self.case.graph;
        for (step, status) in &self.status {
            let Some(proof) = self.outside.needs_verification(*step) else { continue };
            let proven = proof
                && *status == PlannedStepStatus::Through
                && self.find_failed_verification(&graph.step_id(*step).recipe).is_none();
            let status = match proven {
                _ if self.is_refused(*step) => PlannedStepStatus::Stopped,
                true => PlannedStepStatus::Verified,
                false => *status,
            };
            told.status.entry(*step).or_default().insert(self.case.host.name.clone(), status);
        }
    }

    /// Returns whether a step is to change on a host where forge may change nothing: other steps wait for it in vain.
    fn is_refused(&self, step: StepIndex) -> bool {
        let id = self.case.ground.project.graph.step_id(step);
        let of_step = |other: &StepId| other.recipe == id.recipe && other.step == id.step;
        self.case.seen.account.is_some() && self.ahead.changing.iter().chain(&self.noted).any(of_step)
    }

    fn plan_step(&mut self, turn: &StepInstance<'a>) -> StepPlan {
        let needed = match self.ahead.changing.is_empty() {
            // No earlier step will change.
            true => Cow::default(),
            false => self.list_needed_recipes(turn),
        };
        // A wait does not affect the next wait, and a precaution usually changes nothing.
        let counts = |id: &StepId| {
            !self.precautions.contains(id) && (!turn.step.traits().only_waits || !self.waits.contains(id))
        };
        self.ahead.predicted.after = self.find_change_before(&needed, counts).map(ToString::to_string);
        self.ahead.opaque = self.find_change_before(&needed, |id| self.opaque.contains(id)).map(ToString::to_string);
        self.ahead.package = self.find_packages_before(turn, &needed);
        let refused = self.ruled.get(&turn.instance.recipe.name).or_else(|| self.contradicted.get(&turn.expanded.id));
        let ruling = match refused {
            Some(judgement) => StepAssessment {
                judgement: judgement.clone(),
                basis: String::new(),
                until: None,
                foresight: ChangeCertainty::Predicted,
            },
            None => self.check_unseen_hosts(turn, assess_step(self.case, turn, self.turns, &self.ahead)),
        };
        let ruling = window::restore_after_window(turn, ruling, self.window);
        let stopped = self.find_blocker(turn);
        // A step that matches does not wait for any step.
        let (behind, waits_for) = match ruling.judgement.verdict.is_settled() {
            true => (stopped, None),
            false => (None, stopped.filter(|stopped| !self.is_on_hold(stopped))),
        };
        let bases = self.collect_bases(turn, &ruling);
        let packages = PackageChanges::from_judgement(turn.step.kind, &ruling.judgement);
        let leads_elsewhere = ruling.judgement.leads_elsewhere();
        let others = ruling.judgement.other_changed_items();
        let stopped_units = ruling.judgement.stopped_units();
        let resource = turn.expanded.state.as_resource();
        let install = resource.and_then(|resource| resource.new_install(&self.case.seen.observation));
        let guard_s = find_guard_time(turn, self.turns, &ruling.judgement);
        let check = find_step_check(self.case, turn, &ruling);
        let mut step = build_step_plan(self.outside.spans.steps.find_location(turn.index), turn, ruling, waits_for);
        (step.before, step.after) = bases;
        (step.guard_s, step.check) = (guard_s, check);
        step.held = self.window.held_reason(&step);
        if step.held.is_some() && self.window.hold.is_some() {
            self.on_hold.insert(format!("{}/{}", step.id.recipe, step.id.step));
        }
        self.record_outcome(turn, &step, behind, (packages, install));
        if leads_elsewhere && step.will_run() {
            let moved = list_provisions(turn).into_iter().chain(list_former_path(turn));
            self.ahead.predicted.redirected.extend(moved.map(|item| (item, step.id.clone())));
        }
        if step.will_run() {
            self.ahead.predicted.redirected.extend(others.into_iter().map(|item| (item, step.id.clone())));
            self.ahead.predicted.will_stop.extend(stopped_units);
        }
        step
    }

    /// Reports whether a step is only held back because its host is on hold: then the steps after it are, too.
    fn is_on_hold(&self, stopped: &UnmetDependency) -> bool {
        stopped.shortfall.is_none() && self.on_hold.contains(&stopped.step)
    }

    /// Returns the values that a changing step depends on and the digest of its result, for a plan that is saved.
    fn collect_bases(
        &self,
        turn: &StepInstance<'_>,
        ruling: &StepAssessment,
    ) -> (Vec<super::model::Precondition>, Option<String>) {
        match self.case.ground.policy.bases && ruling.judgement.verdict == StepVerdict::Change {
            true => (
                preconditions::collect_preconditions(self.case, turn, &ruling.judgement),
                preconditions::digest_declared(turn),
            ),
            false => (Vec::new(), None),
        }
    }

    /// Makes a `one` step unknown that would run here but may have run already on a host that is unreachable or not in
    /// this run. A record that it ran here settles that.
    fn check_unseen_hosts(&self, turn: &StepInstance<'_>, mut ruling: StepAssessment) -> StepAssessment {
        let known = || self.case.was_applied(&turn.expanded.id);
        if turn.step.scope != StepScope::One
            || self.case.ground.policy.is_part
            || turn.instance.absent
            || ruling.judgement.verdict != StepVerdict::Change
            || known()
        {
            return ruling;
        }
        let members = self.outside.spans.members;
        let all = || turn.instance.selection.iter();
        let cut: Vec<HostName> = all().filter(|host| !members.contains(*host)).cloned().collect();
        let silent = all().filter(|host| members.contains(*host) && !self.outside.is_observed(host));
        let silent: Vec<HostName> = silent.cloned().collect();
        if let Some(judgement) = assess_done_elsewhere(&silent, &cut) {
            ruling.judgement = judgement;
            ruling.until = None;
        }
        ruling
    }

    /// Returns the recipes that a step instance depends on: its own, and those that it needs, sorted.
    fn list_needed_recipes(&self, turn: &StepInstance<'_>) -> Cow<'w, [Arc<str>]> {
        let (own, common) = (self.case.graph, &self.case.ground.project.graph);
        let known = match std::ptr::eq(own, common) {
            true => self.outside.spans.steps.list_needed_recipes(common, turn.index),
            // Recipes that are removed there have a graph of their own.
            false => None,
        };
        known.map_or_else(|| Cow::Owned(list_needed_recipes(own, turn.index).into_vec()), Cow::Borrowed)
    }

    /// Returns the last earlier step of the recipes `needed` that will change.
    fn find_change_before(&self, needed: &[Arc<str>], admits: impl Fn(&StepId) -> bool) -> Option<&StepId> {
        let builds_on = |id: &&StepId| needed.binary_search(&id.recipe).is_ok() && admits(id);
        self.ahead.changing.iter().rfind(builds_on)
    }

    /// Returns the last earlier step of the recipes `needed` that changes packages, and the changes of all such steps.
    /// A step that runs once for many hosts does not run again because of a package on one of them.
    fn find_packages_before(&self, turn: &StepInstance<'_>, needed: &[Arc<str>]) -> Option<(StepId, PackageChanges)> {
        if self.packages.is_empty() || turn.step.scope != StepScope::Host {
            return None;
        }
        let step = self.find_change_before(needed, |id| self.packages.contains_key(id))?;
        let own = self.packages.iter().filter(|(id, _)| needed.binary_search(&id.recipe).is_ok());
        Some((step.clone(), own.fold(PackageChanges::default(), |all, (_, one)| all.merge_with(*one))))
    }

    /// Returns the step that keeps `turn` from running.
    fn find_blocker(&self, turn: &StepInstance<'_>) -> Option<UnmetDependency> {
        let graph = self.case.graph;
        graph
            .incoming_edges(turn.index)
            .find_map(|edge| self.find_local_blocker(edge).or_else(|| self.find_remote_blocker(edge)))
            .or_else(|| self.find_stopped_maker())
    }

    /// Returns a step that would create this cluster but will not run.
    fn find_stopped_maker(&self) -> Option<UnmetDependency> {
        let mut makers = self.case.seen.missing.iter().flat_map(|missing| &missing.makers);
        let stopped = |maker: &&ClusterMaker| {
            let index = self.case.graph.find_step(&maker.step.recipe, &maker.step.step);
            index.is_some_and(|index| self.outside.is_stopped(index, &maker.host))
        };
        makers.find(stopped).map(|maker| UnmetDependency {
            shortfall: Some(DependencyShortfall::Hosts(format!("on {}", maker.host))),
            ..UnmetDependency::on_step(&maker.step)
        })
    }

    fn find_local_blocker(&self, edge: &GraphEdge) -> Option<UnmetDependency> {
        let graph = self.case.graph;
        let needed = match edge.why {
            DependencyKind::After | DependencyKind::Restart | DependencyKind::Export | DependencyKind::Barrier => {
                return None;
            }
            DependencyKind::Order => PlannedStepStatus::Configured,
            DependencyKind::Needs => PlannedStepStatus::required_for(edge.phase).max(PlannedStepStatus::Through),
        };
        let at = resolve_predecessor(graph, edge, |step| self.status.contains_key(&step))?;
        let from = graph.step_id(at);
        if *self.status.get(&at)? > needed {
            return Some(self.behind.get(&at).cloned().unwrap_or_else(|| UnmetDependency::on_step(from)));
        }
        let proof = edge.phase == StepPhase::Verified && from.recipe != graph.step_id(edge.to).recipe;
        let why = proof.then(|| self.find_failed_verification(&from.recipe)).flatten()?;
        let shortfall = Some(DependencyShortfall::Verification(why));
        Some(UnmetDependency { shortfall, ..UnmetDependency::on_step(from) })
    }

    fn find_remote_blocker(&self, edge: &GraphEdge) -> Option<UnmetDependency> {
        let shortfall = Some(self.outside.find_unmet_wait(&self.case.host.name, edge)?);
        let from = self.case.ground.project.graph.step_id(edge.from);
        Some(UnmetDependency { shortfall, ..UnmetDependency::on_step(from) })
    }

    /// Returns a verification of a recipe that does not pass here. If the recipe has changes, its verifications run
    /// after them and may pass.
    fn find_failed_verification(&self, recipe: &str) -> Option<String> {
        if self.ahead.changing.iter().any(|id| *id.recipe == *recipe) {
            return None;
        }
        let instance = self.case.instances().iter().find(|i| i.recipe.name == recipe && !i.absent)?;
        find_failed_verification(self.case, instance)
    }

    /// Records the result of a step instance. `behind` is the stopped step that a matching step depends on; the last
    /// argument says what the step does to packages, and a unit whose targets it changes.
    fn record_outcome(
        &mut self,
        turn: &StepInstance<'_>,
        step: &StepPlan,
        behind: Option<UnmetDependency>,
        (packages, install): (PackageChanges, Option<(String, Vec<String>)>),
    ) {
        let stopped = behind.is_some() || step.waits_for.is_some() || step.held.is_some();
        let status = match step.verdict {
            _ if stopped => PlannedStepStatus::Stopped,
            StepVerdict::Ok | StepVerdict::NotApplicable => PlannedStepStatus::Through,
            StepVerdict::Change | StepVerdict::Pending if self.will_be_effective(turn, step) => {
                PlannedStepStatus::Through
            }
            // Whether a reload makes a change effective is only known afterwards.
            StepVerdict::Change if window::has_delayed_effect(turn, step) => PlannedStepStatus::Configured,
            StepVerdict::Change => PlannedStepStatus::Through,
            StepVerdict::Pending => PlannedStepStatus::Configured,
            StepVerdict::Blocked(_) | StepVerdict::Unknown => PlannedStepStatus::Stopped,
        };
        let worst = self.status.entry(turn.index).or_insert(status);
        *worst = (*worst).max(status);
        if let Some(root) = behind {
            self.behind.insert(turn.index, root);
        }
        let will_change = step.verdict == StepVerdict::Change && !stopped;
        // A note of the package manager, such as a hold, changes no file that another step reads.
        if will_change && step.notes_only {
            self.noted.push(turn.expanded.id.clone());
        } else if will_change {
            self.ahead.changing.push(turn.expanded.id.clone());
            if let ExpansionState::Resource(resource) = &turn.expanded.state {
                self.ahead.predicted.will_touch.extend(resource.restart_input_paths());
            }
            if turn.step.traits().reach == EffectReach::Unknown {
                self.opaque.insert(turn.expanded.id.clone());
                self.ahead.predicted.is_opaque = true;
            }
            if turn.step.traits().may_touch_other_files() {
                self.ahead.predicted.may_touch_other_files = true;
                self.ahead.predicted.may_bring_files |= !turn.expanded.absent;
            }
            if packages.has_changes() {
                self.packages.insert(turn.expanded.id.clone(), packages);
            }
            if step.envelope.as_ref().is_some_and(|envelope| envelope.foresight == ChangeCertainty::Precaution) {
                self.precautions.insert(turn.expanded.id.clone());
            }
            if turn.step.traits().only_waits {
                self.waits.insert(turn.expanded.id.clone());
            }
            self.ahead.predicted.will_install.extend(install);
            self.record_removal(turn);
        }
        // Also if it waits for another step: steps that depend on it are not blocked by that.
        if step.verdict == StepVerdict::Change {
            self.ahead.predicted.will_exist.extend(list_provisions(turn));
        }
    }

    fn record_removal(&mut self, turn: &StepInstance<'_>) {
        let ExpansionState::Resource(resource) = &turn.expanded.state else { return };
        let predicted = &mut self.ahead.predicted;
        predicted.takes_more |= turn.step.traits().may_remove_more();
        if turn.expanded.absent || turn.step.traits().only_removes {
            let paths = resource.exclusive_claims().into_iter().filter(|(kind, _)| *kind == "path");
            predicted.will_go.extend(paths.map(|(_, path)| path));
        }
        predicted.will_go.extend(resource.absent_paths());
    }
}

impl StepPlanner<'_, '_> {
    /// Returns whether the run itself makes a step effective: by a reboot, or because a later step loads it for the
    /// first time.
    fn will_be_effective(&self, turn: &StepInstance<'_>, step: &StepPlan) -> bool {
        let reboots = self.window.may_reboot(self.case.ground.project);
        let first_load = || window::list_effect_triggers(turn).any(|way| way == "first-load");
        (reboots && window::needs_reboot(turn, step)) || (step.verdict == StepVerdict::Change && first_load())
    }
}

/// Returns the judgement of a `one` step that may have run on hosts that were not observed.
fn assess_done_elsewhere(silent: &[HostName], cut: &[HostName]) -> Option<Assessment> {
    match (silent, cut) {
        ([], []) => None,
        ([], cut) => {
            let why = format!(
                "it may have run on hosts that are not in this run: {}",
                super::cross_host_edges::format_host_names(cut)
            );
            Some(
                unknown_assessment(&why)
                    .hint("a step of scope `one` runs once for all hosts of its entry: run without `--on`"),
            )
        }
        ([one], _) => {
            let why = format!("`{one}` is unreachable, and the step may have run there");
            Some(
                unknown_assessment(&why)
                    .hint(format!("bring `{one}` back; if the step never ran there, remove it from the entry's `on`")),
            )
        }
        (many, _) => {
            let names = super::cross_host_edges::format_host_names(many);
            let why = format!("hosts are unreachable, and the step may have run on one of them: {names}");
            Some(
                unknown_assessment(&why)
                    .hint("bring them back; if the step never ran there, remove them from the entry's `on`"),
            )
        }
    }
}

/// Blocks the steps that contradict each other with the facts of this host. Otherwise each run would undo what the one
/// before it did.
fn assess_conflicts(turns: &[StepInstance<'_>]) -> BTreeMap<StepId, Assessment> {
    let own: Vec<_> = turns.iter().map(|turn| (turn.step.as_ref(), &*turn.expanded)).collect();
    let mut blocked = BTreeMap::new();
    for StepConflict { steps, message, .. } in config::find_conflicts_by_facts(&own) {
        for step in steps {
            let judgement = Assessment::blocked(BlockClass::Declaration, message.as_str(), Value::Null)
                .hint("with the facts of this host both steps apply: let their conditions exclude each other");
            blocked.entry(step).or_insert(judgement);
        }
    }
    blocked
}

/// Returns what a step instance provides: by its resource, and by the `provides` of its step.
pub fn list_provisions(turn: &StepInstance<'_>) -> Vec<ProvidedItem> {
    if turn.expanded.absent {
        return Vec::new();
    }
    let mut provided = turn.step.provides.clone();
    if let ExpansionState::Resource(resource) = &turn.expanded.state {
        provided.extend(resource.provided_items());
    }
    provided
}

/// Returns the path of a mount point that a step unmounts: it provides nothing then.
fn list_former_path(turn: &StepInstance<'_>) -> Vec<ProvidedItem> {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return Vec::new() };
    resource
        .probes()
        .iter()
        .filter_map(|probe| match probe {
            Probe::Mount { path, .. } => Some(ProvidedItem::Path(path.clone())),
            _ => None,
        })
        .collect()
}

fn build_step_plan(
    place: Arc<str>,
    turn: &StepInstance<'_>,
    ruling: StepAssessment,
    waits_for: Option<UnmetDependency>,
) -> StepPlan {
    let title = step_title(turn);
    let mut judgement = ruling.judgement;
    // A list that grew by single changes has room for further ones, which never come.
    judgement.changes.shrink_to_fit();
    let installs_artifact = match &turn.expanded.state {
        ExpansionState::Resource(resource) => resource.artifact_delivery(&judgement).is_some(),
        _ => false,
    };
    let is_predicted = judgement.predicted || ruling.until.is_some() && ruling.foresight != ChangeCertainty::Certain;
    // A removal that is only predicted takes an object that exists now.
    let is_removal = turn.expanded.absent || turn.step.traits().only_removes;
    let (irreversible, lost) = match &turn.expanded.state {
        ExpansionState::Resource(resource) if judgement.diff.is_some() && (is_removal || !is_predicted) => {
            let effect = derive_undo_effect(turn, resource.as_ref(), &judgement);
            match effect.steps.is_empty() && effect.paths.is_empty() {
                true => (effect.irreversible.or(effect.lost), None),
                false => (effect.irreversible, effect.lost),
            }
        }
        _ => (None, None),
    };
    let envelope = ruling.until.map(|until| PredictedEffects {
        until: until.into(),
        disruption: worst_case_disruption(turn, &judgement, ruling.foresight),
        resource: describe_resource(turn).into(),
        foresight: ruling.foresight,
    });
    StepPlan {
        id: turn.expanded.id.clone(),
        kind: turn.step.kind.into(),
        title,
        verdict: judgement.verdict,
        reason: judgement.reason,
        hint: judgement.hint,
        changes: judgement.changes,
        check: None,
        disruption: judgement.disruption,
        partly_reversible: irreversible.is_none() && lost.is_some(),
        irreversible: irreversible.or(lost).map(|why| SecretStore::mask_placeholders(&why).into()),
        scope: turn.step.scope,
        level: turn.step.level,
        basis: ruling.basis,
        before: Vec::new(),
        after: None,
        envelope: envelope.map(Box::new),
        by_reboot: judgement.by_reboot,
        reboot_failed: judgement.reboot_failed,
        notes_only: judgement.notes_only,
        installs_artifact,
        images: judgement.images,
        image_sources: judgement.image_sources,
        runs_unknown_images: judgement.runs_unknown_images,
        at_once: turn.step.at_once,
        guard_s: None,
        stage: StepStage::Before,
        held: None,
        waits_for: waits_for.map(Box::new),
        place,
        long: turn.step.long,
    }
}

/// Returns the highest disruption of a step that cannot be evaluated yet. A unit that does not exist yet may already
/// run once its package is installed, and then restarts with its configuration: nothing uses it yet.
fn worst_case_disruption(
    turn: &StepInstance<'_>,
    judgement: &Assessment,
    foresight: ChangeCertainty,
) -> DisruptionClass {
    let restarts = !turn.expanded.absent && !turn.step.restart_on.is_empty();
    match turn.step.traits().may_restart && (restarts || foresight == ChangeCertainty::Precaution) {
        true => judgement.disruption.max(DisruptionClass::D1).max(turn.step.disruption.unwrap_or(DisruptionClass::D0)),
        false => judgement.disruption,
    }
}
