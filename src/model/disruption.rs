//! Disruption classes of changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The disruption class of a change, ordered from none to a reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionClass {
    /// No disruption.
    #[default]
    D0,
    /// A service is interrupted: it restarts or stops, or loses what it uses, such as a mount or a package.
    D1,
    /// A kernel module reloads, a link flaps or running CUDA work aborts.
    D2,
    /// The host reboots.
    D3,
}

impl DisruptionClass {
    /// Returns the description of the class.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::D0 => "none",
            Self::D1 => "a service is interrupted",
            Self::D2 => "a module reloads or a link flaps",
            Self::D3 => "the host reboots",
        }
    }

    /// Returns the class that `text` names (`D0` to `D3`).
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "D0" => Self::D0,
            "D1" => Self::D1,
            "D2" => Self::D2,
            "D3" => Self::D3,
            _ => return None,
        })
    }
}

impl fmt::Display for DisruptionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
