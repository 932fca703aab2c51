//! Plain values that every module uses. Nothing here does I/O or prints.

mod disruption;
mod duration;
mod exit;
mod hex;
mod name;
mod phase;
mod secret;
mod untrusted;
mod verdict;

pub use disruption::Disruption;
pub use duration::{DURATION_FORM, DURATION_PATTERN, parse_duration};
pub use exit::ExitCode;
pub use hex::{hex, push_hex};
pub use name::{HostName, StepId, kept_name};
pub use phase::{Level, Phase, Scope};
pub use secret::{PLACEHOLDER_CLOSE, PLACEHOLDER_OPEN, Placeholder, SecretStore};
pub use untrusted::Untrusted;
pub use verdict::{BlockClass, Outcome, Verdict};

/// A value as written in files and read by templates. It contains secrets only as placeholders.
pub use serde_json::Value;
