//! What workers have told about steps: which are running, and which are done on hosts that have no report yet.

use crate::engine::event::Event;
use crate::engine::report::StepReport;
use crate::model::{HostName, StepId};
use std::collections::BTreeMap;

/// The steps of the hosts, from the events of workers.
#[derive(Debug, Default)]
pub(super) struct ShardJournal {
    running: BTreeMap<HostName, Vec<StepId>>,
    finished: BTreeMap<HostName, Vec<StepReport>>,
    /// The steps that were running when a worker died.
    interrupted: BTreeMap<HostName, Vec<StepId>>,
}

impl ShardJournal {
    /// Records an event.
    pub fn note_event(&mut self, event: &Event) {
        match event {
            Event::StepStarted { host, step, .. } => {
                self.running.entry(host.clone()).or_default().push(step.clone());
            }
            Event::StepFinished { host, step, title, result, hint, check, changes, took } => {
                if let Some(running) = self.running.get_mut(host) {
                    running.retain(|one| one != step);
                }
                self.finished.entry(host.clone()).or_default().push(StepReport {
                    id: step.clone(),
                    title: title.clone(),
                    result: result.clone(),
                    hint: hint.clone(),
                    check: check.clone(),
                    changes: changes.clone(),
                    took: *took,
                    place: String::new(),
                });
            }
            Event::HostFinished { host, .. } => drop(self.running.remove(host)),
            _ => {}
        }
    }

    /// Returns the running steps, each with its host.
    pub fn list_in_flight(&self) -> Vec<(HostName, StepId)> {
        let steps = self.running.iter().flat_map(|(host, steps)| steps.iter().map(move |step| (host, step)));
        steps.map(|(host, step)| (host.clone(), step.clone())).collect()
    }

    /// Returns the steps of a host that started and have no result.
    pub fn list_started(&self, host: &HostName) -> Vec<StepId> {
        let lists = [&self.running, &self.interrupted].map(|steps| steps.get(host));
        lists.into_iter().flatten().flatten().cloned().collect()
    }

    /// Reports whether a worker has begun with steps of a host.
    pub fn has_begun(&self, host: &HostName) -> bool {
        !self.list_started(host).is_empty() || self.finished.contains_key(host)
    }

    /// Records that the worker of the hosts died.
    pub fn note_death<'h>(&mut self, hosts: impl IntoIterator<Item = &'h HostName>) {
        for host in hosts {
            let running = self.running.remove(host).unwrap_or_default();
            self.interrupted.entry(host.clone()).or_default().extend(running);
        }
    }

    /// Returns the steps of a host that a worker had started when it died.
    pub fn list_interrupted(&self, host: &HostName) -> Vec<StepId> {
        self.interrupted.get(host).cloned().unwrap_or_default()
    }

    /// Returns the results of a host's steps.
    pub fn list_finished(&self, host: &HostName) -> Vec<StepReport> {
        self.finished.get(host).cloned().unwrap_or_default()
    }
}

/// Reports whether an event of a worker is one of the run. The others are about the worker: it observes its hosts again,
/// and its rollout is only a part.
pub(super) fn is_event_of_run(event: &Event) -> bool {
    !matches!(
        event,
        Event::ApplyStarted { .. }
            | Event::AwaitingCanaries { .. }
            | Event::ObserveStarted { .. }
            | Event::AwaitingWorkers { .. }
            | Event::Connecting { .. }
            | Event::Observed { .. }
            | Event::Unreachable { .. }
            | Event::Stopping { .. }
            | Event::Detached { .. }
            | Event::NoHistory { .. }
    )
}
