//! The result of a rehearsal as a value, and its exit code.

use super::view_space::ViewSpace;
use crate::model::{ExitCode, HostName, HostOutcome, StepId, UntrustedText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The format version of a rehearsal's report.
pub const REHEARSAL_VERSION: u32 = 1;

/// The result of `rehearse`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RehearsalReport {
    /// The version of the report's format, 1.
    pub version: u32,
    /// The name of the cluster in the inventory.
    pub cluster: String,
    /// The path of the inventory, as given on the command line.
    pub inventory: String,
    /// The id of the plan of the real hosts, whose steps were rehearsed.
    pub plan: String,
    /// One entry per host, in the order of the inventory.
    pub hosts: Vec<HostRehearsal>,
    /// Parts of the plan that a rehearsal leaves out on every host: lowercase fragments.
    pub left_out: Vec<String>,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Duration of the rehearsal.
    pub took: Duration,
}

/// The rehearsal of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostRehearsal {
    /// The host.
    pub host: HostName,
    /// `ok` if the plan has no changes, `changed` if its steps ran in the view, `failed`, `unknown` if a step was not
    /// rehearsed, `unreachable`, or `cancelled`.
    pub outcome: HostOutcome,
    /// Why, if the outcome needs a reason; empty otherwise.
    pub reason: UntrustedText,
    /// What to do next, if forge knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<UntrustedText>,
    /// The steps of the plan that change something, in the order of the plan, and steps that acted in the view only.
    pub steps: Vec<RehearsedStep>,
    /// Verifications that failed in the view or could not be evaluated there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<RehearsedVerification>,
    /// What would change beyond what the plan says.
    pub beyond: UndeclaredEffects,
    /// How many files of each package changed that was installed, upgraded or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub installed: Vec<InstalledFiles>,
    /// The memory that the view used for what was written; absent if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<ViewSpace>,
    /// How the view differed from the host in a way that may matter: lowercase fragments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<UntrustedText>,
    /// Duration on this host, with making and reading the view.
    pub took: Duration,
}

/// A step in a rehearsal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RehearsedStep {
    /// The step: recipe, name, and the key of its repetition.
    pub id: StepId,
    /// The resource that the step manages.
    pub title: UntrustedText,
    /// How it ended in the view.
    pub result: RehearsedResult,
    /// Why it failed or was not rehearsed: a lowercase fragment. Empty if there is nothing to add.
    pub reason: UntrustedText,
    /// The last lines that a failed step printed.
    #[serde(default, skip_serializing_if = "UntrustedText::is_empty")]
    pub output: UntrustedText,
    /// Whether the plan of the real host has no change here: the view differs from the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_in_view: bool,
    /// Duration of its actions in the view. Steps that ran in one script each have the duration of the script.
    pub took: Duration,
}

/// How a step ended in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RehearsedResult {
    /// It changed the view as declared.
    Changed,
    /// It changed the view as declared, and takes effect by a reload or a reboot.
    Pending,
    /// An earlier step of the plan had done its work already.
    Unchanged,
    /// Its commands failed, or the state did not match after them.
    Failed,
    /// It did not run in the view.
    NotRehearsed,
}

/// A verification that did not pass in a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RehearsedVerification {
    /// The recipe that declares it.
    pub recipe: String,
    /// Its name in the recipe.
    pub name: String,
    /// Whether it could not be evaluated; otherwise it failed.
    pub unknown: bool,
    /// Why: a lowercase fragment.
    pub reason: UntrustedText,
}

/// Everything that changed in a view and that no step of the plan declares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndeclaredEffects {
    /// Services and other units.
    pub units: Vec<UnitEffect>,
    /// Packages that were installed, changed or removed in addition.
    pub packages: Vec<PackageEffect>,
    /// Users and groups.
    pub accounts: Vec<AccountEffect>,
    /// Files and directories. A new directory stands for everything in it.
    pub files: Vec<FileEffect>,
    /// The number of changed logs, caches and databases of package managers, which are not listed.
    pub bookkeeping: usize,
    /// The number of changed files that are not listed, because there are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Files of a package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstalledFiles {
    /// The package.
    pub package: UntrustedText,
    /// The number of its files that were created, changed or removed.
    pub files: usize,
}

/// A change of a unit that no step declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitEffect {
    /// The unit, with its suffix.
    pub unit: UntrustedText,
    /// What happened to it.
    pub action: UnitAction,
    /// The step during which it happened, if one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<UntrustedText>,
    /// The package whose script did it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<UntrustedText>,
    /// The script of the package: `postinst`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<UntrustedText>,
    /// The program that called systemctl, if it was not the script of a package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<UntrustedText>,
    /// The type of a unit that a view cannot start: it only counts as started there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_started: Option<UntrustedText>,
}

/// What happened to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnitAction {
    /// It was down before.
    Started,
    /// It was up before.
    Stopped,
    /// It was up before and after.
    Restarted,
    /// It was asked to read its configuration again.
    Reloaded,
    /// It starts at boot from now on.
    Enabled,
    /// It does not start at boot any more.
    Disabled,
    /// It cannot be started any more.
    Masked,
    /// It can be started again.
    Unmasked,
    /// A start, restart or reload failed.
    Failed,
}

impl UnitAction {
    /// Returns its past participle.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Restarted => "restarted",
            Self::Reloaded => "reloaded",
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Masked => "masked",
            Self::Unmasked => "unmasked",
            Self::Failed => "failed",
        }
    }
}

/// A change of a package that no step declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackageEffect {
    /// The name, with the architecture: `libc6:amd64`.
    pub name: UntrustedText,
    /// The version before; absent if it was not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<UntrustedText>,
    /// The version afterwards; absent if it is not installed any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<UntrustedText>,
}

/// A change of an account that no step declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountEffect {
    /// Whether it is a group; otherwise a user.
    pub group: bool,
    /// The name.
    pub name: UntrustedText,
    /// What happened to it.
    pub change: AccountChange,
}

/// What happened to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccountChange {
    /// It did not exist before.
    Created,
    /// It has other values, such as another shell or other members.
    Changed,
    /// It does not exist any more.
    Removed,
}

impl AccountChange {
    /// Returns its past participle.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// A change of a file or a directory that no step declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileEffect {
    /// The path on the host.
    pub path: UntrustedText,
    /// What happened to it.
    pub change: FileChange,
    /// For a new directory, the number of files and directories in it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub entries: usize,
    /// The change of mode or owner: `mode 644 to 600`. Empty if these are the same.
    #[serde(default, skip_serializing_if = "UntrustedText::is_empty")]
    pub detail: UntrustedText,
    /// The package that the file belongs to, if the plan does not change that package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<UntrustedText>,
    /// The last step that had started when the file was changed, by the clock of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<UntrustedText>,
}

/// What happened to a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It did not exist before.
    Created,
    /// Its content, its type or the target of a link.
    Changed,
    /// Only its mode or owner.
    Attributes,
    /// It does not exist any more.
    Removed,
}

/// The totals of a rehearsal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RehearsalSummary {
    /// Hosts.
    pub hosts: usize,
    /// Steps that ran in a view as declared.
    pub rehearsed: usize,
    /// Steps that failed in a view.
    pub failed: usize,
    /// Steps that did not run in a view.
    pub not_rehearsed: usize,
    /// Verifications that did not pass.
    pub verify: usize,
    /// Units, packages, accounts and files that changed beyond the plan.
    pub beyond: usize,
}

impl UndeclaredEffects {
    /// Returns the number of findings.
    pub fn count(&self) -> usize {
        self.units.len() + self.packages.len() + self.accounts.len() + self.files.len() + self.unlisted
    }
}

impl RehearsalReport {
    /// Computes the totals.
    pub fn summarize(&self) -> RehearsalSummary {
        let mut sum = RehearsalSummary { hosts: self.hosts.len(), ..RehearsalSummary::default() };
        for host in &self.hosts {
            sum.verify += host.verify.len();
            sum.beyond += host.beyond.count();
            for step in &host.steps {
                match step.result {
                    RehearsedResult::Changed | RehearsedResult::Pending | RehearsedResult::Unchanged => {
                        sum.rehearsed += 1
                    }
                    RehearsedResult::Failed => sum.failed += 1,
                    RehearsedResult::NotRehearsed => sum.not_rehearsed += 1,
                }
            }
        }
        sum
    }

    /// Returns the exit code. What changed beyond the plan counts only with `detailed`.
    pub fn exit_code(&self, detailed: bool) -> ExitCode {
        let interrupted = self.interrupted.then_some(ExitCode::Interrupted);
        let beyond = (detailed && self.summarize().beyond > 0).then_some(ExitCode::Changes);
        let of_hosts = self.hosts.iter().flat_map(HostRehearsal::list_exit_codes);
        ExitCode::pick_worst(of_hosts.chain(interrupted).chain(beyond))
    }
}

impl HostRehearsal {
    /// Returns the rehearsal of a host without any result yet.
    pub fn new(host: &HostName, outcome: HostOutcome) -> Self {
        Self {
            host: host.clone(),
            outcome,
            reason: UntrustedText::default(),
            hint: None,
            steps: Vec::new(),
            verify: Vec::new(),
            beyond: UndeclaredEffects::default(),
            installed: Vec::new(),
            space: None,
            notes: Vec::new(),
            took: Duration::ZERO,
        }
    }

    fn list_exit_codes(&self) -> impl Iterator<Item = ExitCode> + '_ {
        let outcome = match self.outcome {
            HostOutcome::Unreachable => Some(ExitCode::Unreachable),
            HostOutcome::Failed if self.steps.is_empty() => Some(ExitCode::HostsFailed),
            HostOutcome::Cancelled => Some(ExitCode::Interrupted),
            HostOutcome::Unknown => Some(ExitCode::Unknown),
            _ => None,
        };
        let steps = self.steps.iter().filter_map(|step| match step.result {
            RehearsedResult::Failed => Some(ExitCode::HostsFailed),
            RehearsedResult::NotRehearsed => Some(ExitCode::Unknown),
            _ => None,
        });
        let verify = self.verify.iter().map(|verify| match verify.unknown {
            true => ExitCode::Unknown,
            false => ExitCode::VerifyFailed,
        });
        outcome.into_iter().chain(steps).chain(verify)
    }
}
