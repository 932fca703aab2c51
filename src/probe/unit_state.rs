//! The typed answer about a systemd unit.

use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};

/// The state of one systemd unit, from `systemctl show`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnitState {
    /// `LoadState`: `loaded`, `not-found`, `masked`, `error` …
    pub load: String,
    /// `ActiveState`: `active`, `inactive`, `failed`, `activating` …
    pub active: String,
    /// `SubState`.
    pub sub: String,
    /// `UnitFileState`: `enabled`, `disabled`, `static`, `masked`, … empty if there is none.
    pub file_state: String,
    /// The targets of the `[Install]` section of an enabled unit that do not start it, because a link is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlinked: Vec<String>,
    /// `NeedDaemonReload`.
    pub need_daemon_reload: bool,
    /// `InvocationID`, empty if the unit was never started.
    pub invocation: String,
    /// `FragmentPath`, the file that defines the unit; empty if there is none.
    pub fragment: String,
    /// `DropInPaths`, in the order in which systemd reads them.
    pub drop_ins: Vec<String>,
    /// `MainPID`; 0 if no main process runs.
    pub main_pid: u32,
    /// When the unit became active, seconds since the epoch; 0 if never.
    pub active_since: f64,
    /// When the main process started, seconds since the epoch; 0 if there is none.
    pub main_started: f64,
    /// Whether these times are whole seconds, rounded down (systemd before 248): events within the same second may have
    /// happened before or after.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coarse_times: bool,
    /// Executable or mapped libraries of the main process that are deleted on disk.
    pub deleted: Vec<UntrustedText>,
    /// Whether the mapped files of the main process could not be read: `deleted` is then meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maps_unread: bool,
    /// `Result`, `success` if there was no failure.
    pub result: String,
    /// `Type`: `simple`, `oneshot`, …
    pub service_type: String,
    /// `RemainAfterExit`: the unit stays active after its processes have ended.
    pub remain_after_exit: bool,
    /// `CanReload`: the unit can read its configuration again without a restart.
    pub can_reload: bool,
    /// Next elapse time of a timer by the clock, seconds since the epoch; 0 if it has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_elapse: f64,
    /// `NRestarts`: how often systemd restarted the service by itself since its last start by request.
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub restarts: u32,
    /// Seconds since the last of these restarts; `None` if there was none, or its age is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_ago: Option<f64>,
}

fn is_zero_count(value: &u32) -> bool {
    *value == 0
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
