//! Transport: the only module that opens sessions on hosts.
//!
//! Architecture Invariants: each round trip sends one script on the stdin of `sh`. Markers of random text separate the
//! script's bytes from the output of login shells, and distinguish a script that ended from a lost link. A sudo
//! password is written only in answer to a prompt that contains a random token. [`Onlooker`] accepts only probes;
//! acting scripts need a [`Writer`], which holds the host's writer lock. Nothing in this module prints.

mod arguments;
mod boot;
mod channel;
mod control;
mod diagnose;
mod error;
mod follow;
mod kept;
mod lock;
mod long;
mod marker;
mod outbox;
mod payload;
mod process;
mod random;
mod reader;
mod sandbox;
mod session;
mod signature;
mod ssh;
mod sudo;
mod surroundings;
mod talk;
mod target;
mod user_config;
mod writer;

#[cfg(test)]
mod races;
#[cfg(test)]
mod tests;

pub use boot::is_own_shell;
pub use control::{check_control_dir, control_dir};
pub use error::{TransportError, TransportErrorKind};
pub use follow::{LogSink, LongStepEnd};
pub use lock::{LockError, LockOwner};
pub use long::{LongStep, LongStepStart, UnitName};
pub use payload::{FilePayload, PayloadProgress};
pub use process::ProcessMark;
pub use random::random_token;
pub use reader::{HostReader, ProbeSession};
pub use sandbox::{BOARDS, HardwareBoard, Sandbox, enter_sandbox, list_sandboxes, reset_sandbox, sandbox_folder};
pub use session::{TransportSession, open_session};
pub use signature::{NAMESPACE, SignatureError, sign_bytes, verify_signature};
pub use ssh::ssh_version;
pub use surroundings::{ProgramEnvironment, SSH_VARIABLES};
pub use talk::{OutputChunk, OutputSink, ScriptOutput};
pub use target::{ConnectionKind, ConnectionSudo, ConnectionTarget, HostKeyCheck, HostPaths};
pub use writer::HostWriter;
