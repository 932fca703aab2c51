//! Phases, scopes and verification levels of a step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The three phases of a step: configured, effective, verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepPhase {
    /// The declared state is written on the host; running programs may not use it yet.
    Configured,
    /// The declared state is in use: reloads, restarts and reboots that it needs are done.
    Effective,
    /// The step was observed again after the change, and it matches its declaration.
    Verified,
}

impl StepPhase {
    /// Every phase, in the order in which a step passes through them.
    pub const ALL: [StepPhase; 3] = [StepPhase::Configured, StepPhase::Effective, StepPhase::Verified];

    /// Returns the name in recipes and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Effective => "effective",
            Self::Verified => "verified",
        }
    }

    /// Parses the name of a phase; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == text)
    }
}

/// Where a step runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepScope {
    /// On every host of the selection.
    #[default]
    Host,
    /// On one healthy host of the selection.
    One,
    /// Evaluates the observations of all hosts of the selection; may only verify or publish.
    Fleet,
    /// Against a cluster's API.
    Cluster,
}

impl StepScope {
    /// Every scope.
    pub const ALL: [StepScope; 4] = [StepScope::Host, StepScope::One, StepScope::Fleet, StepScope::Cluster];

    /// Returns the name in recipes and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::One => "one",
            Self::Fleet => "fleet",
            Self::Cluster => "cluster",
        }
    }

    /// Parses the name of a scope; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == text)
    }
}

/// Depth of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum VerifyLevel {
    /// Present.
    #[default]
    L0,
    /// Coherent versions.
    L1,
    /// Loaded and active.
    L2,
    /// Hardware: fabric, link rate and width, ECC, remaps.
    L3,
    /// Allocatable in Kubernetes.
    L4,
    /// Performance against declared thresholds.
    L5,
}

impl VerifyLevel {
    /// Parses `L0` to `L5`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "L0" => Self::L0,
            "L1" => Self::L1,
            "L2" => Self::L2,
            "L3" => Self::L3,
            "L4" => Self::L4,
            "L5" => Self::L5,
            _ => return None,
        })
    }
}
