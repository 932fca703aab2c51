//! Transport: the only module that opens sessions on hosts.
//!
//! Architecture Invariants: each round trip sends one script on the stdin of `sh`. Markers of random text separate the
//! script's bytes from the output of login shells, and distinguish a script that ended from a lost link. A sudo
//! password is written only in answer to a prompt that contains a random token. [`ProbeSession`] accepts only probes;
//! acting scripts need a [`HostWriter`], which holds the host's writer lock. Nothing in this module prints.

mod backoff;
mod carrier;
mod channel;
mod command_carrier;
mod control_sockets;
mod conversation;
mod error;
mod follow_long_step;
mod jump_host;
mod kept_view;
mod lease;
mod local_carrier;
mod lock;
mod long_step;
mod marker;
mod mux_exit;
mod output_buffer;
mod payload;
mod process_mark;
mod program_environment;
mod random;
mod reader;
mod runtime_folder;
mod sandbox;
mod secret_program;
mod session;
mod shell_wrapper;
mod signature;
mod ssh;
mod ssh_arguments;
mod ssh_config_files;
mod ssh_diagnosis;
mod ssh_program;
mod ssh_user_config;
mod stdin_queue;
mod sudo;
mod target;
mod unit_name;
mod worker_process;
mod writer;

#[cfg(test)]
mod long_step_races;
#[cfg(test)]
mod tests;

pub use control_sockets::check_control_dir;
pub use conversation::{OutputChunk, OutputSink, ScriptOutput};
pub use error::{TransportError, TransportErrorKind};
pub use follow_long_step::{LogSink, LongStepEnd};
pub use kept_view::KeptView;
pub use lock::{LockError, LockOwner};
pub use long_step::{LongStep, LongStepStart};
pub use payload::{FilePayload, PayloadProgress};
pub use process_mark::ProcessMark;
pub use program_environment::{ProgramEnvironment, SSH_VARIABLES};
pub use random::random_token;
pub use reader::{HostReader, ProbeSession};
pub use runtime_folder::control_dir;
pub use sandbox::{
    HostView, Sandbox, VIEW_GUARD_MESSAGE, build_view_report, enter_sandbox, list_sandboxes, reset_sandbox,
    sandbox_folder,
};
pub use secret_program::run_secret_program;
pub use session::{TransportSession, open_session};
pub use shell_wrapper::is_own_shell;
pub use signature::{NAMESPACE, SignatureError, sign_bytes, verify_signature};
pub use ssh::ssh_version;
pub use target::{ConnectionKind, ConnectionSudo, ConnectionTarget, HostKeyCheck, HostPaths};
pub use unit_name::UnitName;
pub use worker_process::WorkerProcess;
pub use writer::HostWriter;
