//! The exit codes of forge, computed from the printed result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Exit code of the process. Several may apply; [`ExitCode::pick_worst`] selects one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitCode {
    /// 0: no changes needed, or all changes applied and verified.
    Done,
    /// 1: unexpected error: a bug or the environment.
    Unexpected,
    /// 2: changes pending (`plan --detailed-exitcode`), or drift found, or a rehearsal that changed more than planned.
    Changes,
    /// 3: finished, some hosts failed or were blocked.
    HostsFailed,
    /// 4: some hosts unreachable.
    Unreachable,
    /// 5: applied, but verification failed.
    VerifyFailed,
    /// 6: something a step relied on changed since the plan, or the saved plan already ran there.
    Stale,
    /// 7: locked by another run.
    Locked,
    /// 8: stopped by the limits of the rollout.
    Budget,
    /// 9: something could not be evaluated.
    Unknown,
    /// 10: applied, but a reload or reboot that the policy does not allow is pending.
    Pending,
    /// 64: invalid command line.
    Usage,
    /// 65: the inventory, a recipe, a plan file or a rule that needs no facts is invalid.
    Input,
    /// 69: artifact unavailable, or its checksum does not match.
    Artifact,
    /// 130: interrupted, or the confirmation was declined.
    Interrupted,
}

impl ExitCode {
    /// Every code, worst first.
    pub const WORST_FIRST: [ExitCode; 15] = [
        Self::Interrupted,
        Self::Unexpected,
        Self::Usage,
        Self::Input,
        Self::Artifact,
        Self::Budget,
        Self::HostsFailed,
        Self::VerifyFailed,
        Self::Stale,
        Self::Locked,
        Self::Unreachable,
        Self::Unknown,
        Self::Pending,
        Self::Changes,
        Self::Done,
    ];

    /// Returns the numeric exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unexpected => 1,
            Self::Changes => 2,
            Self::HostsFailed => 3,
            Self::Unreachable => 4,
            Self::VerifyFailed => 5,
            Self::Stale => 6,
            Self::Locked => 7,
            Self::Budget => 8,
            Self::Unknown => 9,
            Self::Pending => 10,
            Self::Usage => 64,
            Self::Input => 65,
            Self::Artifact => 69,
            Self::Interrupted => 130,
        }
    }

    /// Returns the worst of `codes`, `Done` if there are none.
    pub fn pick_worst(codes: impl IntoIterator<Item = ExitCode>) -> ExitCode {
        let rank = |code: &ExitCode| Self::WORST_FIRST.iter().position(|c| c == code);
        codes.into_iter().min_by_key(rank).unwrap_or(Self::Done)
    }

    /// Returns a one-line description, as the reference prints it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "no changes needed, or all changes applied and verified",
            Self::Unexpected => "unexpected error: a bug or the environment",
            Self::Changes => {
                "changes pending (--detailed-exitcode of plan), changes beyond it (of rehearse), or drift found"
            }
            Self::HostsFailed => "finished, some hosts failed or were blocked",
            Self::Unreachable => "some hosts unreachable",
            Self::VerifyFailed => "applied, but verification failed",
            Self::Stale => "something a step relied on changed since the plan, or the saved plan already ran there",
            Self::Locked => "locked by another run",
            Self::Budget => "stopped by the limits of the rollout: its canary, `max_failed` or `max_unavailable`",
            Self::Unknown => "something could not be evaluated",
            Self::Pending => "changes are held back, or a reload or reboot that the policy does not allow is pending",
            Self::Usage => "invalid command line",
            Self::Input => "the inventory, a recipe or a plan file is invalid; nothing was contacted",
            Self::Artifact => "artifact unavailable, or its checksum does not match",
            Self::Interrupted => "interrupted, or the confirmation was declined",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.code())
    }
}
