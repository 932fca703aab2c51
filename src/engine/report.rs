//! The result of a run and its exit code.

use super::event::{CompletedReboot, DrainedNode, ReturnTest, StepResult, VerifyResult};
use crate::model::{ExitCode, HostName, HostOutcome, StepId, UntrustedText};
use crate::plan::{CheckRun, HostWarning, UndeclaredResource};
use crate::resource::AttributeChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The format version of a report.
pub(super) const REPORT_VERSION: u32 = 1;

/// The result of `apply` or `verify`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// The version of the report's format, 1.
    pub version: u32,
    /// The name of the run: time and random text, `20261121T093015-4f2a`.
    pub run: String,
    /// The command: `apply` or `verify`.
    pub verb: String,
    /// The name of the cluster, from the inventory.
    pub cluster: String,
    /// The id of the plan that was applied; `None` for `verify`, and for a run rebuilt from its journal.
    pub plan: Option<String>,
    /// Hosts that are not real: sandboxes on the machine that runs forge, and hosts with simulated hardware.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// One entry per host of the run, and one for the cluster's API if steps run through it.
    pub hosts: Vec<HostReport>,
    /// Whether the failure budget stopped the run.
    pub budget_spent: bool,
    /// Whether the user requested a stop.
    pub interrupted: bool,
    /// The user's reason for evicting holders of devices, if the user allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evict_busy: Option<String>,
    /// Duration of the run; 0 if it was rebuilt from its journal.
    pub took: Duration,
}

/// The result of a run on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// The host, or the cluster's API.
    pub host: HostName,
    /// The outcome of all its steps and verifications together.
    pub outcome: HostOutcome,
    /// Why, if the outcome needs a reason, such as the first failure; empty otherwise.
    pub reason: UntrustedText,
    /// What to do next, if forge knows.
    pub hint: Option<UntrustedText>,
    /// Its steps; empty for `verify`, which reports each step in `verify`.
    pub steps: Vec<StepReport>,
    /// Its verifications; for `verify` also its steps, marked by `of_step`.
    pub verify: Vec<VerifyReport>,
    /// The host's reboots in this run, each with its proof.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reboots: Vec<CompletedReboot>,
    /// The tests of the host before it was brought back into service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub return_tests: Vec<ReturnTest>,
    /// The run's changes to the host's Kubernetes node, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<DrainedNode>,
    /// Applied earlier and no longer declared by any step: not changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeclared: Vec<UndeclaredResource>,
    /// Broken rules that the inventory accepts, each with the declared reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<HostWarning>,
    /// Changes of the run that an undo leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_undone: Vec<NotUndoneChange>,
    /// What kept its window closed, or kept the run from working on it, although the plan did not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back_by: Option<HeldBackBy>,
    /// Working time of the host, excluding the time in which it waited for its wave, for its place among the active
    /// hosts, or for other hosts.
    pub took: Duration,
}

/// A change that an undo leaves as the run made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotUndoneChange {
    /// The step of the run; absent if the journal of the host could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Why it is not undone, a lowercase fragment.
    pub why: UntrustedText,
}

/// The result of a step on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// The step: recipe, name, and the key of its repetition.
    pub id: StepId,
    /// The resource that the step manages, such as a path or the names of packages.
    pub title: UntrustedText,
    /// How the step ended. In JSON its fields are fields of this object.
    #[serde(flatten)]
    pub result: StepResult,
    /// How to fix it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The check that says that its change is not effective yet, if it is pending and a check says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<CheckRun>>,
    /// Attributes that differed when its turn came, observed and desired; empty if none did.
    pub changes: Vec<AttributeChange>,
    /// Duration of its actions; 0 if it did not run. Steps that ran in one script each have the duration of the script.
    pub took: Duration,
    /// Where the step is declared, `file:line:col`; empty for a run rebuilt from its journal.
    pub place: String,
}

/// What holds back a host during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldBackBy {
    /// The hours of the rollout.
    Hours,
    /// A hold that began during the run.
    Hold,
}

/// The result of a verification on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReport {
    /// The recipe that declares it.
    pub recipe: String,
    /// Its name in the recipe; for a step, the step's name.
    pub name: String,
    /// Whether it passed, and why not. In JSON its fields are fields of this object.
    #[serde(flatten)]
    pub result: VerifyResult,
    /// The command's output, if it ran and the verification failed or could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckRun>,
    /// Whether this is a step that `forge verify` compares with its declaration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_step: bool,
    /// Where it is declared, `file:line:col`; empty for a run rebuilt from its journal.
    pub place: String,
}

impl StepReport {
    /// Returns whether it changed the host as declared. A step that is pending did so if it ran.
    pub fn has_changed_host(&self) -> bool {
        match self.result {
            StepResult::Changed => true,
            StepResult::Pending { .. } => !self.took.is_zero(),
            _ => false,
        }
    }
}

impl RunReport {
    /// Returns the exit code for the report.
    pub fn exit_code(&self) -> ExitCode {
        let of_hosts = self.hosts.iter().flat_map(HostReport::list_exit_codes);
        let of_run = [self.budget_spent.then_some(ExitCode::Budget), self.interrupted.then_some(ExitCode::Interrupted)];
        let worst = ExitCode::pick_worst(of_hosts.chain(of_run.into_iter().flatten()));
        // Undone work has a cause with its own code, unless that cause lies outside of this run.
        match worst {
            ExitCode::Done if self.hosts.iter().any(HostReport::has_undone_steps) => ExitCode::HostsFailed,
            worst => worst,
        }
    }

    /// Returns the number of changes that an undo leaves.
    pub fn count_not_undone(&self) -> usize {
        self.hosts.iter().map(|host| host.not_undone.len()).sum()
    }

    /// Returns the number of hosts with that outcome, counting the cluster's API as one.
    pub fn count_hosts(&self, outcome: HostOutcome) -> usize {
        self.hosts.iter().filter(|h| h.outcome == outcome).count()
    }
}

impl HostReport {
    fn list_exit_codes(&self) -> impl Iterator<Item = ExitCode> + '_ {
        let outcome = match self.outcome {
            HostOutcome::Ok | HostOutcome::Changed | HostOutcome::Skipped => None,
            HostOutcome::Cancelled | HostOutcome::Running => None,
            HostOutcome::Unknown => Some(ExitCode::Unknown),
            HostOutcome::Pending => Some(ExitCode::Pending),
            // A host that failed by its verification alone has its own code.
            HostOutcome::Failed if self.has_failed_by_verification() => None,
            HostOutcome::Blocked | HostOutcome::Failed => Some(ExitCode::HostsFailed),
            HostOutcome::Stale => Some(ExitCode::Stale),
            HostOutcome::Locked => Some(ExitCode::Locked),
            HostOutcome::Unreachable => Some(ExitCode::Unreachable),
        };
        let steps = self.steps.iter().filter_map(|s| s.result.exit_code());
        let verify = self.verify.iter().filter_map(|v| v.result.exit_code());
        outcome.into_iter().chain(steps).chain(verify)
    }

    fn has_undone_steps(&self) -> bool {
        let undone = |step: &StepReport| matches!(step.result, StepResult::Skipped { .. } | StepResult::Cancelled);
        self.outcome == HostOutcome::Cancelled || self.steps.iter().any(undone)
    }

    fn has_failed_by_verification(&self) -> bool {
        let step_failed = self.steps.iter().any(|s| matches!(s.result, StepResult::Failed { .. }));
        !step_failed && self.verify.iter().any(|v| v.result.exit_code() == Some(ExitCode::VerifyFailed))
    }

    /// Returns the combined outcome of steps and verifications. An unknown step makes a host `unknown`,
    /// never `ok` or `changed`.
    pub fn compute_outcome(steps: &[StepReport], verify: &[VerifyReport]) -> HostOutcome {
        let any = |test: fn(&StepResult) -> bool| steps.iter().any(|s| test(&s.result));
        let verify_failed = verify.iter().any(|v| v.result.exit_code() == Some(ExitCode::VerifyFailed));
        let unproven = verify.iter().any(|v| v.result.exit_code() == Some(ExitCode::Unknown));
        let unknown = unproven || any(|r| matches!(r, StepResult::Unknown { .. }));
        if any(|r| matches!(r, StepResult::Failed { .. })) || verify_failed {
            HostOutcome::Failed
        } else if any(|r| matches!(r, StepResult::Blocked { .. })) {
            HostOutcome::Blocked
        } else if any(|r| matches!(r, StepResult::Stale { .. })) {
            HostOutcome::Stale
        } else if any(|r| matches!(r, StepResult::Cancelled)) {
            HostOutcome::Cancelled
        } else if unknown {
            HostOutcome::Unknown
        } else if any(|r| matches!(r, StepResult::Skipped { .. })) {
            HostOutcome::Skipped
        } else if any(|r| matches!(r, StepResult::Pending { .. } | StepResult::Held { .. })) {
            HostOutcome::Pending
        } else if any(|r| matches!(r, StepResult::Changed)) {
            HostOutcome::Changed
        } else {
            HostOutcome::Ok
        }
    }
}

impl StepResult {
    /// Returns the exit code of this result alone, if it has one.
    pub fn exit_code(&self) -> Option<ExitCode> {
        match self {
            Self::Changed
            | Self::AlreadyOk { .. }
            | Self::NotApplicable { .. }
            | Self::Skipped { .. }
            | Self::Cancelled => None,
            Self::Pending { .. } | Self::Held { .. } => Some(ExitCode::Pending),
            Self::Failed { failure } if failure.artifact => Some(ExitCode::Artifact),
            Self::Blocked { .. } | Self::Failed { .. } => Some(ExitCode::HostsFailed),
            Self::Unknown { .. } => Some(ExitCode::Unknown),
            Self::Stale { .. } => Some(ExitCode::Stale),
        }
    }
}

impl VerifyResult {
    /// Returns the exit code of this result alone, if it has one.
    pub fn exit_code(&self) -> Option<ExitCode> {
        match self {
            Self::Held | Self::NotApplicable { .. } | Self::Skipped { .. } => None,
            Self::Failed { .. } => Some(ExitCode::VerifyFailed),
            Self::Unknown { .. } => Some(ExitCode::Unknown),
        }
    }
}
