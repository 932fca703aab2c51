//! Determines the records that a run writes: of proven steps, and of steps that already matched without a record.

use super::event::StepResult;
use super::host::HostRun;
use super::link::{SHORT, broken, said};
use super::run::ApplyContext;
use crate::config::ExpansionState;
use crate::model::{SecretStore, StepId, Value};
use crate::plan::{self, HostContext, HostPlan, ObservedHost, StepInstance, canonical, desired_digest};
use crate::resource::Resource;
use crate::state::StepRecord;
use crate::transport::TransportError;

/// Returns whether the host has matching steps without a valid record: then even an apply without changes writes
/// records.
pub(super) fn adoptable(run: &ApplyContext<'_>, plan: &HostPlan, seen: &ObservedHost) -> bool {
    let shared = run.board.shared();
    let Some(case) = run.case(&shared, &plan.host, seen) else { return false };
    let turns = case.turns();
    turns.iter().any(|turn| needs_record(&case, plan, turn))
}

/// Reports whether a turn matches in the plan while its record is missing or belongs to another declaration.
fn needs_record(case: &HostContext<'_>, plan: &HostPlan, turn: &StepInstance<'_>) -> bool {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return false };
    let settled = plan.steps.iter().any(|s| s.id == turn.expanded.id && s.verdict == crate::model::StepVerdict::Ok);
    settled && !recorded(case, turn, resource.as_ref())
}

fn recorded(case: &HostContext<'_>, turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
    let Some(record) = case.record(&turn.expanded.id) else { return false };
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    let digest = desired_digest(resource, case.ground.secrets, case.seen.key.as_deref());
    // Old records without a cluster or an identity are rewritten.
    let whole = record.get("identity").is_some();
    whole && text("cluster") == Some(&*case.ground.project.cluster) && text("digest") == Some(&*digest)
}

impl HostRun<'_> {
    /// Queues records for `proven` steps; they are written with the next script.
    pub(super) fn note_records(&mut self, proven: &[StepId]) {
        let shared = self.run.board.shared();
        let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return };
        let turns = case.turns();
        let records: Vec<_> = turns
            .iter()
            .filter(|turn| proven.contains(&turn.expanded.id))
            .filter_map(|turn| Some((turn.expanded.id.clone(), self.record(&case, turn, &turns)?)))
            .collect();
        self.records.extend(records);
    }

    /// Queues records for steps that matched in the final proof and have no valid record.
    pub(super) fn adopt(&mut self, settled: &[StepId]) {
        // A cluster that is only evaluated is not locked: nothing is written there.
        if self.host().is_cluster() && self.link.ruler().is_none() {
            return;
        }
        let written: Vec<StepId> = self.records.iter().map(|(id, _)| id.clone()).collect();
        let missing: Vec<StepId> = {
            let shared = self.run.board.shared();
            let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return };
            let turns = case.turns();
            let lacks = |turn: &&StepInstance<'_>| match &turn.expanded.state {
                ExpansionState::Resource(resource) => !recorded(&case, turn, resource.as_ref()),
                _ => false,
            };
            turns.iter().filter(lacks).map(|turn| turn.expanded.id.clone()).collect()
        };
        // A step that this run did not reach is recorded by the next run, with everything it depends on.
        let reached = |id: &StepId| self.steps.iter().all(|report| report.id != *id || got_through(&report.result));
        let due: Vec<StepId> = missing
            .into_iter()
            .filter(|id| settled.contains(id) && !written.contains(id) && !self.changed.contains(id) && reached(id))
            .collect();
        self.note_records(&due);
    }

    fn record(
        &self,
        case: &HostContext<'_>,
        turn: &StepInstance<'_>,
        turns: &[StepInstance<'_>],
    ) -> Option<StepRecord> {
        let ExpansionState::Resource(resource) = &turn.expanded.state else { return None };
        let desired = resource.desired();
        let secret = SecretStore::mentions(&canonical(&desired));
        let digest = desired_digest(resource.as_ref(), case.ground.secrets, case.seen.key.as_deref());
        let title = SecretStore::mask(&resource.title());
        let (cluster, value) = (&case.ground.project.cluster, (!secret).then_some(desired));
        let mut record = StepRecord::new(cluster, &turn.expanded.id, resource.kind(), &title, digest, value);
        record.absent = turn.expanded.absent;
        record.run = self.run.options.run.clone();
        record.plan = Some(self.run.plan.to_owned());
        record.controller = self.run.options.controller.clone();
        record.user = self.run.options.user.clone();
        record.time = (self.run.options.clock)().to_string();
        let inputs = plan::inputs_that_hold(case, turn, turns);
        let identity = plan::identity(resource.as_ref());
        record.left = plan::left(case, &turn.expanded.id, &identity);
        record.identity = Some(identity);
        record.started = resource.started(&case.seen.observation, &plan::context(case, turn, &inputs, None));
        Some(record)
    }

    /// Writes the queued records.
    pub(super) async fn flush_records(&mut self) {
        if self.records.is_empty() || self.lost.is_some() {
            return;
        }
        if let Some(writer) = self.link.ruler() {
            let named = |(id, record): &(StepId, StepRecord)| {
                (id.record_name(record.cluster.as_deref().unwrap_or_default()), record.to_value().to_string())
            };
            let records: Vec<(String, String)> = self.records.iter().map(named).collect();
            match writer.write_records(&records).await {
                Ok(()) => self.records.clear(),
                Err(error) => self.lost = Some(broken(format!("records could not be written: {}", error.message))),
            }
            return;
        }
        let secrets = self.run.board.shared();
        let done = self.link.act(crate::state::write(&self.records), SHORT, &secrets.secrets).await;
        match done.map(|done| done.finished) {
            Ok(done) if done.status == 0 => self.records.clear(),
            Ok(done) => self.lost = Some(unwritten(&done.stderr)),
            Err(error) => self.lost = Some(error),
        }
    }
}

fn got_through(result: &StepResult) -> bool {
    matches!(result, StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. })
}

/// The error of a failed script that writes records.
pub(super) fn unwritten(stderr: &[u8]) -> TransportError {
    broken(format!("records could not be written: {}", said(stderr)))
}
