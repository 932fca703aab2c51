//! What a coordinator and a worker say to each other. All of it is JSON with a version, since a worker may run in a pod.

use super::host_keys::HostKeys;
use super::worker_role::OutsideState;
use crate::config::{InputFile, Project};
use crate::engine::board_link::{BoardAnswer, HostNews};
use crate::engine::event::Event;
use crate::model::{DisruptionClass, HostName};
use crate::plan::{ExportEntry, Plan};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of tasks, orders and messages. A worker rejects a task of another version.
pub const WORKER_VERSION: u32 = 6;

/// The work of one worker. A file of the store; the store is the folder above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTask {
    /// [`WORKER_VERSION`].
    pub version: u32,
    /// The version of forge that wrote the task: a worker of another version plans differently.
    pub forge: String,
    /// The run that the task belongs to. Hosts record it.
    pub run: String,
    /// The path of the inventory.
    pub inventory: String,
    /// The files that the coordinator read.
    pub inputs: Vec<InputFile>,
    /// Settings from the command line of the coordinator.
    pub settings: WorkerSettings,
    /// The hosts to work on, in the order of the inventory; among them the cluster's API, if the worker observes it.
    pub hosts: Vec<HostName>,
    /// What to do with them.
    pub job: WorkerJob,
    /// How many workers have worked on the hosts in this run before, and died.
    pub replaced: u32,
}

/// The settings of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// The state folder: artifacts and sandboxes.
    pub state: String,
    /// Whether the inventory may run programs.
    pub trust: bool,
    /// How many hosts the worker works on in parallel.
    pub parallel: usize,
    /// The default timeout of checks and steps.
    pub timeout: Option<Duration>,
    /// Whether artifacts come from the cache only.
    pub offline: bool,
    /// The patterns of `--step`.
    pub step: Vec<String>,
    /// The patterns of `--skip`.
    pub skip: Vec<String>,
    /// The class of `--max-disruption`.
    pub max_disruption: DisruptionClass,
    /// Whether plans list the values that steps depend on.
    pub bases: bool,
    /// Whether all facts are probed, for a recording.
    pub all_facts: bool,
    /// The reason to evict processes that hold devices.
    pub evict_busy: Option<String>,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkerJob {
    /// Observes the hosts and stores a recording.
    Observe {
        /// What is read.
        kind: ObservationKind,
        /// What is known of the values that hosts of other workers export.
        outside: OutsideState,
    },
    /// Carries out the plan on the hosts and stores a report of each.
    Apply {
        /// The digest of a [`ShardPlan`] in the store.
        plan: String,
        /// How many hosts of the run had failed when the task was made.
        failed: usize,
    },
}

/// What an observation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ObservationKind {
    /// What declared steps and verifications need.
    Declared,
    /// Also the state of the hardware, for drift.
    Drift {
        /// Whether to read the facts by which hosts are compared.
        outliers: bool,
    },
}

/// The part of a plan that a worker carries out. The identity in it is that of the whole plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardPlan {
    /// [`WORKER_VERSION`].
    pub version: u32,
    /// The plan, limited to the hosts of the task. Its rollout admits these hosts and counts those that are out of
    /// service elsewhere.
    pub plan: Plan,
    /// What the plan says about hosts of other workers.
    pub outside: OutsideState,
    /// Whether a host on which another run carried out the plan is stale, as a saved plan demands.
    pub once: bool,
}

/// A line that a worker reads from its standard input, or from the orders of its channel. Their end counts as `Stop`: the
/// coordinator is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order", deny_unknown_fields)]
pub enum WorkerOrder {
    /// Begin. A worker waits for it: one whose coordinator died before must not begin.
    Begin,
    /// Start no further host.
    HoldBack {
        /// Why, as a lowercase fragment.
        why: String,
    },
    /// Do not start these hosts: a canary is held back. Those that have started go on.
    HoldHosts {
        /// The hosts.
        hosts: Vec<HostName>,
        /// Why, as a lowercase fragment.
        why: String,
    },
    /// Finish running steps and start no others; the second time, leave them running on their hosts.
    Stop,
    /// What a host has asked for is decided.
    Answer {
        /// The host.
        host: HostName,
        /// The decision.
        answer: BoardAnswer,
    },
    /// Hosts of other workers export values that hosts of this one read.
    Exports {
        /// Without those that contain secrets.
        values: Vec<ExportEntry>,
    },
    /// Nothing new: the coordinator is alive.
    Alive,
}

/// A line that a worker writes to its standard output, or to the messages of its channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message", deny_unknown_fields)]
pub enum WorkerMessage {
    /// It has read its task and waits for the order to begin.
    Ready {
        /// [`WORKER_VERSION`].
        version: u32,
    },
    /// Progress.
    Event {
        /// What happened.
        event: Event,
    },
    /// News of a host that concern other hosts.
    News {
        /// The host.
        host: HostName,
        /// What is new.
        news: HostNews,
    },
    /// A host is done.
    HostDone {
        /// The host.
        host: HostName,
        /// The digest of its report in the store.
        report: String,
        /// Whether the host is out of service, as far as is known.
        down: bool,
    },
    /// The observation is done.
    Recorded {
        /// The digest of the recording in the store.
        recording: String,
        /// The keys of its hosts, which it leaves out.
        #[serde(default)]
        keys: HostKeys,
    },
    /// It does not do the task, and nothing was contacted.
    Refused {
        /// Why, as a lowercase fragment.
        why: String,
    },
    /// It has done the task. A worker that ends without this message has failed.
    Finished,
}

/// Returns the path of an inventory for a worker, which may have another working directory.
pub(super) fn absolute_inventory(project: &Project) -> String {
    let path = camino::absolute_utf8(&project.inventory);
    path.unwrap_or_else(|_| project.inventory.clone()).into_string()
}

impl WorkerTask {
    /// Returns why this forge cannot do the task, if it cannot.
    pub fn check_version(&self) -> Result<(), String> {
        let own = env!("CARGO_PKG_VERSION");
        match (self.version, self.forge.as_str()) {
            (WORKER_VERSION, forge) if forge == own => Ok(()),
            (WORKER_VERSION, forge) => Err(format!("the task is of forge {forge}; this is forge {own}")),
            (version, _) => {
                Err(format!("the task has version {version}; this forge supports version {WORKER_VERSION}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_their_json() {
        let event = Event::HostStarted { host: HostName::new("a"), steps: 2 };
        let line = serde_json::to_string(&WorkerMessage::Event { event }).unwrap();
        assert_eq!(line, r#"{"message":"event","event":{"event":"host_started","host":"a","steps":2}}"#);
        let read: WorkerMessage = serde_json::from_str(&line).unwrap();
        assert!(matches!(read, WorkerMessage::Event { event: Event::HostStarted { steps: 2, .. } }), "{read:?}");
        assert_eq!(serde_json::to_string(&WorkerOrder::Begin).unwrap(), r#"{"order":"begin"}"#);
        let opened = WorkerOrder::Answer { host: HostName::new("a"), answer: BoardAnswer::WindowOpened };
        let line = serde_json::to_string(&opened).unwrap();
        assert_eq!(line, r#"{"order":"answer","host":"a","answer":{"kind":"window_opened"}}"#);
        assert_eq!(serde_json::from_str::<WorkerOrder>(&line).unwrap(), opened);
        let finished: WorkerMessage = serde_json::from_str(r#"{"message":"finished"}"#).unwrap();
        assert!(matches!(finished, WorkerMessage::Finished));
    }
}
