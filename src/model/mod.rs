//! Plain values that every module uses. Nothing here does I/O or prints.

mod artifact;
mod content_pool;
mod digest;
mod disruption;
mod duration;
mod exit_code;
mod guard;
mod hardware_board;
mod hex;
mod http_url;
mod name;
mod parallel;
mod path_links;
mod phase;
mod record_identity;
mod secret;
mod secret_forms;
mod secret_lines;
mod secret_program;
mod secret_search;
mod smtp_encryption;
mod undo;
mod untrusted;
mod verdict;
mod yaml_text;

pub use artifact::{Artifact, ArtifactCredentials, ArtifactSource};
pub use content_pool::ContentPool;
pub use digest::Sha256Digest;
pub use disruption::DisruptionClass;
pub use duration::{DURATION_FORM, DURATION_PATTERN, parse_duration};
pub use exit_code::ExitCode;
pub use guard::{
    GUARD_DEFAULT_S, GuardEffect, GuardedTables, GuardedUnit, StepGuard, format_guard_time, is_access_path,
    is_access_unit,
};
pub use hardware_board::{BOARDS, HardwareBoard};
pub use hex::{push_hex, to_hex};
pub use http_url::HttpUrl;
pub use name::{HostName, StepId, findings_file_name, proofs_file_name, record_file_name, record_file_prefix};
pub use parallel::{map_large_parallel, map_parallel};
pub use path_links::{list_directories, resolve_directories};
pub use phase::{StepPhase, StepScope, VerifyLevel};
pub use record_identity::{EarlierDeclaration, FormerIdentity, RecordIdentity, RecordedStart};
pub use secret::{PLACEHOLDER_CLOSE, PLACEHOLDER_OPEN, SecretPlaceholder, SecretStore};
pub use secret_program::{SecretProgram, SecretProgramError};
pub use smtp_encryption::SmtpEncryption;
pub use undo::{BootMenuUndo, BootUndo, UndoDeclaration, UndoEffect, UndoRetention, UnitAtBoot};
pub use untrusted::UntrustedText;
pub use verdict::{BlockClass, HostOutcome, StepVerdict};
pub use yaml_text::{render_yaml_block, render_yaml_line};

/// A value as written in files and read by templates. It contains secrets only as placeholders.
pub use serde_json::Value;
