//! Why a window does not open, does not reboot its host, or stays open.

use crate::engine::event::{StepFailure, StepResult};
use crate::engine::host_link::LinkLost;
use crate::model::{BlockClass, StepId, UntrustedText};

/// A step that an earlier step was to make possible, and that is blocked after it.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedStep {
    pub id: StepId,
    pub class: BlockClass,
    pub reason: UntrustedText,
    pub hint: Option<String>,
}

/// Why a window's changes are not made.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowRefusal {
    /// Policy: outside the permitted hours.
    Held(String),
    /// A step that was to change meanwhile is blocked: `step`, and why the host is not taken out of service.
    Blocked { step: Box<BlockedStep>, why: String },
    /// The budget: the host does not get its turn in this run.
    Never(String),
    /// This run may not reboot the host.
    Refused(String),
    /// Another user's work holds the host's devices.
    Busy(String),
    /// Use of the host's devices could not be determined.
    Unknown(String),
    /// The host could not be taken out of service, or could not be rebooted.
    Failed(String),
    /// The host is not brought back into service.
    Open(String),
    /// The run was stopped, or the connection to the host was lost.
    Stopped,
}

impl WindowRefusal {
    /// Returns the reason in one line; `None` if the run was stopped.
    pub fn describe_reason(&self) -> Option<UntrustedText> {
        match self {
            Self::Held(why)
            | Self::Blocked { why, .. }
            | Self::Never(why)
            | Self::Refused(why)
            | Self::Unknown(why)
            | Self::Failed(why)
            | Self::Open(why) => Some(why.as_str().into()),
            Self::Busy(why) => Some(format!("busy: {why}").into()),
            Self::Stopped => None,
        }
    }

    /// Returns the result of step `id`. `failed` says that another step already reports the failure.
    pub fn step_result(&self, id: &StepId, failed: bool) -> StepResult {
        match self {
            Self::Blocked { step, .. } if step.id == *id => {
                StepResult::Blocked { class: step.class, reason: step.reason.clone() }
            }
            Self::Held(why) | Self::Blocked { why, .. } => StepResult::Held { reason: why.as_str().into() },
            Self::Never(why) | Self::Open(why) => StepResult::Skipped { reason: why.as_str().into() },
            Self::Busy(why) => StepResult::Blocked { class: BlockClass::Busy, reason: why.as_str().into() },
            Self::Refused(why) => StepResult::Blocked { class: BlockClass::Rule, reason: why.as_str().into() },
            Self::Unknown(why) => StepResult::Unknown { reason: why.as_str().into() },
            Self::Failed(why) if failed => StepResult::Skipped { reason: why.as_str().into() },
            Self::Failed(why) => StepResult::Failed {
                failure: StepFailure {
                    why: why.as_str().into(),
                    tail: UntrustedText::default(),
                    hint: None,
                    log: None,
                    artifact: false,
                },
            },
            Self::Stopped => StepResult::Cancelled,
        }
    }

    /// Returns the hint of the result of step `id`.
    pub fn step_hint(&self, id: &StepId) -> Option<&str> {
        match self {
            Self::Blocked { step, .. } if step.id == *id => step.hint.as_deref(),
            _ => None,
        }
    }
}

/// A lost connection ends the window as a stopped run does.
impl From<LinkLost> for WindowRefusal {
    fn from(_: LinkLost) -> Self {
        Self::Stopped
    }
}
