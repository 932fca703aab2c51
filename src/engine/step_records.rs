//! Determines the records that a run writes: of proven steps, and of steps that already matched without a record.

use super::event::StepResult;
use super::host_link::HostLink;
use super::host_session::{SHORT_SCRIPT_LIMIT, host_side_error, summarize_stderr};
use super::host_view::HostView;
use super::run_context::ApplyContext;
use super::run_options::RunOptions;
use super::step_results::StepResults;
use crate::config::ExpansionState;
use crate::model::{SecretStore, StepId, Value};
use crate::plan::{self, HostContext, HostPlan, ObservedHost, StepInstance, digest_desired, to_canonical_json};
use crate::resource::{Resource, refresh_recorded_start};
use crate::script::ShellFragment;
use crate::state::{FormerRecord, StepRecord, UndoScripts, UndoneStep};
use crate::transport::TransportError;
use std::collections::{BTreeMap, BTreeSet};

/// Returns whether the host has matching steps without a valid record: then even an apply without changes writes
/// records.
pub(super) fn has_adoptable_steps(run: &ApplyContext<'_>, plan: &HostPlan, seen: &ObservedHost) -> bool {
    let shared = run.board.shared_values();
    let case = run.host_context(&shared, &plan.host, seen);
    case.is_some_and(|case| lacks_records(run.options, &case, plan))
}

/// Returns whether matching steps of a host have no valid record.
pub(super) fn lacks_records(options: &RunOptions, case: &HostContext<'_>, plan: &HostPlan) -> bool {
    case.expand_local_steps().iter().any(|turn| needs_record(options, case, plan, turn))
        || (options.undo.is_none() && !plan::list_kept_records(case).is_empty())
}

/// Reports whether a turn matches in the plan while its record is missing or belongs to another declaration.
fn needs_record(options: &RunOptions, case: &HostContext<'_>, plan: &HostPlan, turn: &StepInstance<'_>) -> bool {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return false };
    let settled = plan.steps.iter().any(|s| s.id == turn.expanded.id && s.verdict == crate::model::StepVerdict::Ok);
    settled && !has_current_record(options, case, turn, resource.as_ref())
}

fn has_current_record(
    options: &RunOptions,
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    resource: &dyn Resource,
) -> bool {
    // An undo has no records of its own: it writes those of the steps that it undoes.
    if let Some(undo) = &options.undo {
        return !undo.restores_change(&case.host.name, &turn.expanded.id);
    }
    let Some(record) = case.find_record(&turn.expanded.id) else { return false };
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    let digest = digest_desired(resource, case.ground.secrets, case.seen.key.as_deref());
    // Old records without a cluster or an identity are rewritten, and those that name a failure or a removal that kept
    // the resource.
    let flawed = ["failed_boot", "unverified", "kept"].iter().any(|failure| record.get(*failure).is_some());
    let whole = record.get("identity").is_some() && !flawed;
    whole && text("cluster") == Some(&*case.ground.project.cluster) && text("digest") == Some(&*digest)
}

/// Returns a record that an undo restores. The files that it names have other times than when it was written.
fn refresh_record(former: &FormerRecord, case: &HostContext<'_>) -> FormerRecord {
    let mut restored = former.clone();
    if let Some(record) = &mut restored.body {
        refresh_recorded_start(record, &case.seen.observation);
    }
    restored
}

/// The records of verified steps that are not written yet.
pub(super) struct RecordQueue<'r> {
    run: &'r ApplyContext<'r>,
    records: Vec<(StepId, StepRecord)>,
    /// Records that an undo restores.
    restored: Vec<FormerRecord>,
    /// Steps whose change an undo took back.
    undone: Vec<UndoneStep>,
    /// The steps of an undo that are proven.
    proven: BTreeSet<StepId>,
    /// The steps whose undo is complete.
    completed: BTreeSet<StepId>,
}

impl<'r> RecordQueue<'r> {
    pub fn new(run: &'r ApplyContext<'r>) -> Self {
        Self {
            run,
            records: Vec::new(),
            restored: Vec::new(),
            undone: Vec::new(),
            proven: BTreeSet::new(),
            completed: BTreeSet::new(),
        }
    }

    /// Queues records for `proven` steps; they are written with the next script.
    pub fn queue_proven(&mut self, view: &HostView<'_>, proven: &[StepId]) {
        let shared = self.run.board.shared_values();
        let Some(case) = view.context(&shared) else { return };
        let turns = case.expand_local_steps();
        if let Some(undo) = &self.run.options.undo {
            self.proven.extend(proven.iter().cloned());
            for change in undo.list_changes(&case.host.name) {
                if change.generated.is_subset(&self.proven) && self.completed.insert(change.step.clone()) {
                    self.restored.extend(change.records.iter().map(|record| refresh_record(record, &case)));
                    let (run, by) = (undo.scope.run.clone(), self.run.options.run.clone());
                    self.undone.push(UndoneStep { run, step: change.step.clone(), by });
                }
            }
            return;
        }
        let records: Vec<_> = turns
            .iter()
            .filter(|turn| proven.contains(&turn.expanded.id))
            .filter_map(|turn| Some((turn.expanded.id.clone(), self.build_record(&case, turn, &turns)?)))
            .collect();
        self.records.extend(records);
    }

    /// Queues records of steps that are still not effective after the reboot for them: no later run repeats it.
    pub fn queue_ineffective(&mut self, view: &HostView<'_>, steps: &[StepId]) {
        let first = self.records.len();
        self.queue_proven(view, steps);
        self.records.iter_mut().skip(first).for_each(|(_, record)| record.failed_boot = view.boot_id());
    }

    /// Notes which verifications did not pass, on the record of one step of each recipe: a later drift must not report that
    /// the host changed since. `settled` are the steps that match; `failed` has every recipe whose verifications were
    /// evaluated, with the names of those that did not pass.
    pub fn queue_unverified(
        &mut self,
        view: &HostView<'_>,
        settled: &[StepId],
        failed: &BTreeMap<String, Vec<String>>,
    ) {
        // An undo has no records of its own.
        if self.run.options.undo.is_some() {
            return;
        }
        for (recipe, names) in failed {
            let own = self.records.iter_mut().filter(|(id, _)| *id.recipe == **recipe);
            own.for_each(|(_, record)| record.unverified.clear());
            let Some(step) = settled.iter().rfind(|id| *id.recipe == **recipe).filter(|_| !names.is_empty()) else {
                continue;
            };
            self.records.retain(|(id, _)| id != step);
            let first = self.records.len();
            self.queue_proven(view, std::slice::from_ref(step));
            self.records.iter_mut().skip(first).for_each(|(_, record)| record.unverified.clone_from(names));
        }
    }

    /// Queues records for steps that matched in the final proof and have no valid record.
    pub fn adopt_matching(&mut self, view: &HostView<'_>, results: &StepResults<'_>, settled: &[StepId]) {
        let written: Vec<StepId> = self.records.iter().map(|(id, _)| id.clone()).collect();
        let missing: Vec<StepId> = {
            let shared = self.run.board.shared_values();
            let Some(case) = view.context(&shared) else { return };
            let turns = case.expand_local_steps();
            let lacks = |turn: &&StepInstance<'_>| match &turn.expanded.state {
                ExpansionState::Resource(resource) => {
                    !has_current_record(self.run.options, &case, turn, resource.as_ref())
                }
                _ => false,
            };
            turns.iter().filter(lacks).map(|turn| turn.expanded.id.clone()).collect()
        };
        // A step that this run did not reach is recorded by the next run, with everything it depends on.
        let reached = |id: &StepId| {
            results.reports().iter().all(|report| report.id != *id || is_effective_result(&report.result))
        };
        let due: Vec<StepId> = missing
            .into_iter()
            .filter(|id| {
                settled.contains(id) && !written.contains(id) && !results.changed().contains(id) && reached(id)
            })
            .collect();
        self.queue_proven(view, &due);
    }

    /// Queues the records of steps that the removal of their recipe kept: they are not declared afterwards, and are not
    /// left behind by mistake.
    pub fn queue_kept(&mut self, view: &HostView<'_>) {
        let shared = self.run.board.shared_values();
        let Some(case) = view.context(&shared).filter(|_| self.run.options.undo.is_none()) else { return };
        for (id, record) in plan::list_kept_records(&case) {
            let Ok(mut record) = serde_json::from_value::<StepRecord>(record.clone()) else { continue };
            self.records.retain(|(other, _)| *other != id);
            record.kept = true;
            record.cluster = Some(self.run.project.cluster.clone());
            self.records.push((id, record));
        }
    }

    fn build_record(
        &self,
        case: &HostContext<'_>,
        turn: &StepInstance<'_>,
        turns: &[StepInstance<'_>],
    ) -> Option<StepRecord> {
        let ExpansionState::Resource(resource) = &turn.expanded.state else { return None };
        let desired = resource.desired_value();
        let secret = SecretStore::has_placeholder(&to_canonical_json(&desired));
        let digest = digest_desired(resource.as_ref(), case.ground.secrets, case.seen.key.as_deref());
        let title = SecretStore::mask_placeholders(&resource.title());
        let (cluster, value) = (&case.ground.project.cluster, (!secret).then_some(desired));
        let mut record = StepRecord::new(cluster, &turn.expanded.id, resource.kind(), &title, digest, value);
        record.absent = turn.expanded.absent;
        record.run = self.run.options.run.clone();
        record.plan = Some(self.run.plan.to_owned());
        record.controller = self.run.options.controller.clone();
        record.user = self.run.options.user.clone();
        record.time = (self.run.options.clock)().to_string();
        let inputs = plan::collect_settled_inputs(case, turn, turns);
        let identity = plan::resource_identity(resource.as_ref());
        record.left = plan::collect_former_resources(case, &turn.expanded.id, &identity);
        record.identity = Some(identity);
        record.earlier = plan::list_earlier_declarations(case, &turn.expanded.id, &record.digest);
        // Until the verifications of the recipe are evaluated again, as they are not for a part of its steps.
        let unverified = case.find_record(&turn.expanded.id).and_then(|last| last.get("unverified")?.as_array());
        record.unverified =
            unverified.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        record.started =
            resource.started_record(&case.seen.observation, &plan::build_resource_context(case, turn, &inputs, None));
        Some(record)
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.restored.is_empty() && self.undone.is_empty()
    }

    /// Returns the script that writes the queued records before a group of actions, and what the group keeps for an undo:
    /// both are synced at once.
    pub fn build_script_with(&self, undo: &UndoScripts) -> (ShellFragment, UndoScripts) {
        match self.restored.is_empty() && self.undone.is_empty() {
            true => undo.place_records(&self.records),
            false => (self.build_script(), undo.clone()),
        }
    }

    /// Returns the script that writes the queued records.
    pub fn build_script(&self) -> ShellFragment {
        let script = match (self.records.is_empty(), self.restored.is_empty()) {
            (false, _) => crate::state::build_records_script(&self.records),
            (true, false) => crate::state::build_former_records_script(&self.run.project.cluster, &self.restored),
            // What is undone had no record.
            (true, true) => ShellFragment::new(),
        };
        script.append_fragment(crate::state::build_undone_script(&self.undone))
    }

    /// Drops the records of steps that failed after they were proven.
    pub fn drop_failed(&mut self, steps: &[StepId]) {
        self.records.retain(|(id, _)| !steps.contains(id));
    }

    /// Empties the queue: its records are written.
    pub fn mark_written(&mut self) {
        self.records.clear();
        self.restored.clear();
        self.undone.clear();
    }

    /// Writes the queued records.
    pub async fn flush(&mut self, link: &mut HostLink) {
        if self.is_empty() || link.is_lost() {
            return;
        }
        if let Some(writer) = link.cluster_writer() {
            let named = |(id, record): &(StepId, StepRecord)| {
                (id.record_name(record.cluster.as_deref().unwrap_or_default()), Some(record.to_value().to_string()))
            };
            let former = |record: &FormerRecord| {
                (record.step.record_name(&self.run.project.cluster), record.body.as_ref().map(Value::to_string))
            };
            let records: Vec<(String, Option<String>)> =
                self.records.iter().map(named).chain(self.restored.iter().map(former)).collect();
            let written = match writer.write_records(&records).await {
                Ok(()) => writer.mark_undone(&self.undone).await,
                refused => refused,
            };
            match written {
                Ok(()) => self.mark_written(),
                Err(error) => {
                    link.mark_lost(host_side_error(format!("records could not be written: {}", error.message)));
                }
            }
            return;
        }
        let shared = self.run.board.shared_values();
        let Ok(done) = link.run_acting_script(self.build_script(), SHORT_SCRIPT_LIMIT, &shared.secrets).await else {
            return;
        };
        match done.finished.status {
            0 => self.mark_written(),
            _ => {
                link.mark_lost(record_write_error(&done.finished.stderr));
            }
        }
    }
}

fn is_effective_result(result: &StepResult) -> bool {
    matches!(result, StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. })
}

/// The error of a failed script that writes records.
pub(super) fn record_write_error(stderr: &[u8]) -> TransportError {
    host_side_error(format!("records could not be written: {}", summarize_stderr(stderr)))
}
