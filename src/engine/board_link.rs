//! What a worker and its coordinator say to each other about the state that all hosts of a run share: news of the
//! worker's hosts, and the coordinator's answers to their requests.

use super::reached_phase::ReachedPhase;
use super::report::HeldBackBy;
use crate::graph::DependencyKind;
use crate::model::{HostName, StepId, StepPhase};
use crate::plan::ExportEntry;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};

/// What a worker tells about one of its hosts, because it concerns other hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum HostNews {
    /// It asks to be taken out of service. An answer follows.
    WindowRequested,
    /// An earlier run left its window open.
    WindowResumed,
    /// It is back in service.
    WindowClosed,
    /// It was not taken out of service, although its window was opened.
    WindowUnused,
    /// Its devices are in use: other hosts may go first until it asks again.
    WindowDeferred,
    /// It waits for a step of other hosts. An answer follows.
    StepAwaited {
        /// The step that waits.
        step: StepId,
        /// The step that it waits for.
        awaited: StepId,
        /// The phase that this one must reach.
        phase: StepPhase,
        /// The declaration that the wait results from.
        edge: DependencyKind,
    },
    /// A step that other hosts may wait for reached a phase.
    StepReached {
        /// The step.
        step: StepId,
        /// The phase.
        reached: ReachedPhase,
    },
    /// The recipe of a step that other hosts may wait for was verified.
    StepVerified {
        /// The step.
        step: StepId,
        /// Whether the verification passed.
        passed: bool,
    },
    /// The worker's observation shows these exported values.
    ValuesObserved {
        /// Without those that contain secrets.
        values: Vec<ExportEntry>,
    },
    /// Its steps export these values now.
    ValuesExported {
        /// Without those that contain secrets.
        values: Vec<ExportEntry>,
    },
    /// A step or a verification of it did not succeed.
    TroubleFound {
        /// Whether it failed.
        failed: bool,
    },
    /// It is held back.
    HeldBack {
        /// By what.
        by: HeldBackBy,
    },
}

impl HostNews {
    /// Reports whether the worker has begun with the host's steps: what an earlier worker has told about them counts no more.
    pub(super) fn shows_work(&self) -> bool {
        match self {
            // The host may turn out to be stale, or was put on hold. It has values also at its end.
            Self::ValuesObserved { .. } | Self::ValuesExported { .. } | Self::HeldBack { .. } => false,
            Self::WindowRequested
            | Self::WindowResumed
            | Self::WindowClosed
            | Self::WindowUnused
            | Self::WindowDeferred
            | Self::StepAwaited { .. }
            | Self::StepReached { .. }
            | Self::StepVerified { .. }
            | Self::TroubleFound { .. } => true,
        }
    }
}

/// Why a host does not get its turn to be taken out of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowDenial {
    /// A lowercase fragment.
    pub why: String,
    /// What holds back a canary, if that is why.
    pub held_back_by: Option<HeldBackBy>,
}

impl WindowDenial {
    /// Returns the denial for a reason of the rollout.
    pub fn new(why: String) -> Self {
        Self { why, held_back_by: None }
    }
}

/// What a coordinator answers to the request of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum BoardAnswer {
    /// The host may be, and counts as, out of service.
    WindowOpened,
    /// The host stays in service.
    WindowRefused(WindowDenial),
    /// The step that the host waits for is decided on all other hosts.
    StepDecided {
        /// Why the host lacks it, as a lowercase fragment; absent if it does not.
        lacks: Option<String>,
    },
}

/// What a coordinator tells a worker's run about the board.
#[derive(Clone, Debug, PartialEq)]
pub enum BoardUpdate {
    /// The answer to a request.
    Answered {
        /// The host that asked.
        host: HostName,
        /// The answer.
        answer: BoardAnswer,
    },
    /// Values that hosts of other workers export.
    Exported(Vec<ExportEntry>),
}

/// What a worker's run has not read yet of what its coordinator tells.
#[derive(Clone, Debug)]
pub struct UpdateInbox {
    sender: mpsc::UnboundedSender<BoardUpdate>,
    receiver: Arc<Mutex<mpsc::UnboundedReceiver<BoardUpdate>>>,
}

impl Default for UpdateInbox {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver: Arc::new(Mutex::new(receiver)) }
    }
}

impl UpdateInbox {
    /// Adds an update.
    pub fn deliver_update(&self, update: BoardUpdate) {
        // The receiver lives as long as the inbox.
        let _ = self.sender.send(update);
    }

    /// Hands each update to `accept`, also those that came before. Never returns.
    pub(super) async fn follow_updates(&self, accept: impl Fn(BoardUpdate)) {
        let mut receiver = self.receiver.lock().await;
        while let Some(update) = receiver.recv().await {
            accept(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_and_answers_have_a_stable_json() {
        let json = |news: &HostNews| serde_json::to_string(news).unwrap();
        assert_eq!(json(&HostNews::WindowRequested), r#"{"kind":"window_requested"}"#);
        assert_eq!(json(&HostNews::TroubleFound { failed: true }), r#"{"kind":"trouble_found","failed":true}"#);
        let denial = WindowDenial { why: "x".to_owned(), held_back_by: Some(HeldBackBy::Hours) };
        let refused = BoardAnswer::WindowRefused(denial);
        let json = serde_json::to_string(&refused).unwrap();
        assert_eq!(json, r#"{"kind":"window_refused","why":"x","held_back_by":"hours"}"#);
        assert_eq!(serde_json::from_str::<BoardAnswer>(&json).unwrap(), refused);
    }

    /// A replacement that finds the host on hold has done nothing: the failure that its predecessor saw still counts.
    #[test]
    fn hold_and_values_are_no_work() {
        assert!(!HostNews::HeldBack { by: HeldBackBy::Hold }.shows_work());
        assert!(!HostNews::ValuesObserved { values: Vec::new() }.shows_work());
        assert!(!HostNews::ValuesExported { values: Vec::new() }.shows_work());
        assert!(HostNews::TroubleFound { failed: false }.shows_work());
        assert!(HostNews::WindowRequested.shows_work());
    }

    #[tokio::test]
    async fn updates_that_came_early_are_kept() {
        let inbox = UpdateInbox::default();
        let update = BoardUpdate::Answered { host: HostName::new("a"), answer: BoardAnswer::WindowOpened };
        inbox.deliver_update(update.clone());
        let (seen, mut read) = mpsc::unbounded_channel();
        tokio::select! {
            () = inbox.follow_updates(|update| drop(seen.send(update))) => {}
            read = read.recv() => assert_eq!(read, Some(update)),
        }
    }
}
