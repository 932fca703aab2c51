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
    /// Whether its processes are suspended (`FreezerState`). False before systemd 246, which cannot freeze units.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// Whether they are suspended with the slice that contains the unit (since systemd 256).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen_by_parent: bool,
    /// `UnitFileState`: `enabled`, `disabled`, `static`, `masked`, … empty if there is none.
    pub file_state: String,
    /// The targets of the `[Install]` section of an enabled unit that do not start it, because a link is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlinked: Vec<String>,
    /// The targets with a link to an enabled unit, if none of them exists: no boot starts it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_targets: Vec<String>,
    /// The units that are enabled and disabled together with it (`Also=`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<RelatedUnit>,
    /// The active units that systemd stops together with it: they require it, or are a part of it, or of one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<RelatedUnit>,
    /// The active units that systemd stops to start it (`Conflicts=`), with those that stop together with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicting: Vec<RelatedUnit>,
    /// Whether one of these units could not be read, so that some may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub related_unread: bool,
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
    /// Seconds by which the clock of the host was set since the start; negative if it was set back. 0 also if this is not
    /// known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_change: f64,
    /// The time of the query by the clock of the host, seconds since the epoch; `None` in a container, and if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<f64>,
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
    /// `EnvironmentFile=`: paths and patterns of files that systemd reads when it starts the unit, and only then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment_files: Vec<String>,
    /// `NRestarts`: how often systemd restarted the service by itself since its last start by request.
    #[serde(default, skip_serializing_if = "is_zero_count")]
    pub restarts: u32,
    /// Seconds since the last of these restarts; `None` if there was none, or its age is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_ago: Option<f64>,
    /// Seconds for which the last main process ran, if it has ended and systemd restarted the service before; `None` if
    /// it runs, and if the time is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_for: Option<f64>,
}

/// A unit that changes together with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelatedUnit {
    /// The name with its type.
    pub name: String,
    /// `UnitFileState`.
    pub file_state: String,
}

impl RelatedUnit {
    /// Reports whether it starts at boot, by links of its own.
    pub fn is_enabled(&self) -> bool {
        self.file_state == "enabled"
    }

    /// Reports whether it was made without a file, by `systemd-run` for example: it is gone when it stops.
    pub fn is_transient(&self) -> bool {
        self.file_state == "transient"
    }
}

impl UnitState {
    /// Reports whether `EnvironmentFile=` names the file, by its path or by a pattern (`glob(7)`).
    pub fn reads_environment_from(&self, path: &str) -> bool {
        let matches = |pattern: &String| {
            let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build();
            pattern == path || glob.is_ok_and(|glob| glob.compile_matcher().is_match(path))
        };
        self.environment_files.iter().any(matches)
    }

    /// Reports whether a change may have been made after the start at `started`, which is [`UnitState::active_since`] or
    /// [`UnitState::main_started`]. `ctime` is its time, by the clock of the host at that moment.
    ///
    /// If the clock was set since the start, the change has a time of the former clock or of the present one. With a
    /// known present time, either covers only as many seconds as have passed since the start.
    pub fn may_precede(&self, started: f64, ctime: f64) -> bool {
        let by_present_clock = started + self.clock_change;
        let age = self.now.map_or(f64::INFINITY, |now| now - by_present_clock + TIME_MARGIN_S);
        [started, by_present_clock].iter().any(|start| ctime > *start && ctime <= start + age)
    }

    /// Reports whether a time is later than the present time of the host's clock: the clock was set back since.
    pub fn is_in_future(&self, time: f64) -> bool {
        self.now.is_some_and(|now| time > now + TIME_MARGIN_S)
    }
}

/// What may pass between the query of a unit and that of a file, and the rounding of the boot's time.
const TIME_MARGIN_S: f64 = 5.0;

fn is_zero_count(value: &u32) -> bool {
    *value == 0
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
