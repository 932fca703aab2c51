//! The plan as a value: the changes, their hosts, reasons and disruption. It contains no command that changes anything.

use super::host_hold::HostHold;
use super::missing_cluster::MissingCluster;
use super::shared_list::SharedList;
use super::unmet_dependency::UnmetDependency;
use super::{HostReachability, HostRefusal, HostWindow, RolloutPlan, StepStage};
use crate::model::{DisruptionClass, ExitCode, HostName, StepId, StepScope, StepVerdict, UntrustedText, VerifyLevel};
use crate::resource::AttributeChange;
use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A plan for a selection of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Version of the plan's format; see `schemas/plan.json`.
    pub version: u32,
    /// The version of forge that made the plan.
    pub forge: String,
    /// The name of the cluster in the inventory.
    pub cluster: String,
    /// The path of the inventory, as given on the command line.
    pub inventory: String,
    /// The plan's identity: a digest over everything below and the inputs.
    pub id: String,
    /// Hosts that are not real: sandboxes on the machine that forge ran on, and hosts whose hardware is simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// The plan of each selected host, in inventory order.
    pub hosts: Vec<HostPlan>,
    /// The canaries, waves and limits of its rollout.
    #[serde(default)]
    pub rollout: RolloutPlan,
}

/// How much a run may disturb, in addition to the limits of the inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanPolicy {
    /// Changes above this class are planned but skipped.
    pub max_disruption: DisruptionClass,
    /// Whether changing steps list the values that they depend on, for a plan that is saved.
    pub bases: bool,
    /// Whether the hosts are a part of those of an earlier plan, which has chosen where steps of one host run.
    pub is_part: bool,
}

impl Default for PlanPolicy {
    fn default() -> Self {
        Self { max_disruption: DisruptionClass::D3, bases: false, is_part: false }
    }
}

/// The plan of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostPlan {
    /// The host, or `kubernetes` for the cluster's API.
    pub host: HostName,
    /// Whether the host was observed, or why not: an unreachable host has no steps.
    pub reach: HostReachability,
    /// Why apply would change nothing on this host, although it is reachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<HostRefusal>,
    /// The hold because of which apply leaves the host alone: its changes are held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HostHold>,
    /// Whether an earlier run left the host out of service and this plan does not bring it back because of its hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// For a cluster that does not exist yet: the steps of this plan that create it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingCluster>,
    /// In execution order within their stage; earlier stages come first.
    #[schemars(with = "Vec<StepPlan>")]
    pub steps: SharedList<StepPlan>,
    /// The window in which the host is out of service, if it needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<HostWindow>,
    /// The verifications of its recipes.
    #[schemars(with = "Vec<VerifyPlan>")]
    pub verify: SharedList<VerifyPlan>,
    /// Signs that this may not be the intended host, and warnings of the recipes' rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<HostWarning>,
    /// Broken rules that the inventory accepts, each with the declared reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<HostWarning>,
    /// Resources that were applied once and that no step of the cluster declares any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeclared: Vec<UndeclaredResource>,
}

/// A resource that a step made, according to the host's records.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UndeclaredResource {
    /// The step that made it: `recipe/step[key]`. The step may still be declared, but for another resource.
    pub step: UntrustedText,
    /// The kind of resource at the last apply: `file`, `package` …
    pub kind: UntrustedText,
    /// The resource: `/etc/motd`, `nginx`.
    pub title: UntrustedText,
    /// Whether the recipe of the step is still declared for the host.
    pub applied: bool,
}

/// A problem of a host that does not prevent any step from running.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct HostWarning {
    /// A lowercase fragment.
    pub why: UntrustedText,
    /// How to correct the problem; absent if there is no advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One step on one host.
// A hundred thousand hosts have millions of them: equal ones are shared ([`SharedList`]), and rare parts are boxed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct StepPlan {
    /// The step: recipe, step and item of an `each`.
    pub id: StepId,
    /// The kind of resource: `file`, `package` …
    #[schemars(with = "String")]
    pub kind: CompactString,
    /// The resource: `/etc/motd`, `nginx`.
    pub title: UntrustedText,
    /// The assessment of the step on this host.
    pub verdict: StepVerdict,
    /// Why the verdict is as it is: a lowercase fragment. Empty if there is nothing to add.
    pub reason: UntrustedText,
    /// How to fix it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The attributes that differ, each with its value now and afterwards. Empty if none differs or none is known yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<AttributeChange>,
    /// The check that reports the change, if a script does and the change is not only predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<CheckRun>>,
    /// How much the change disturbs the host: the class that `--max-disruption` limits.
    pub disruption: DisruptionClass,
    /// Why `forge undo` cannot undo the change: a lowercase fragment. Absent if it can, and for changes that are only
    /// predicted, except for removals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreversible: Option<UntrustedText>,
    /// Whether `irreversible` is about a part of the change, and `forge undo` undoes the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partly_reversible: bool,
    /// Where the step runs: on each host, on one, for all, or against the cluster's API.
    pub scope: StepScope,
    /// The depth of verification that the step belongs to.
    pub level: VerifyLevel,
    /// Digest of the observed attributes that were evaluated and of the facts that were read.
    pub basis: String,
    /// For changing steps of a saved plan: the values behind the basis. Empty if a secret is declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Precondition>,
    /// For changing steps of a saved plan: the digest of the declared state, as the host's record of the step will
    /// contain it. Absent if that is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// For a step that cannot be evaluated before an earlier step has run: the most that it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Box<PredictedEffects>>,
    /// Whether its change, or its pending state, takes effect only by a reboot, according to its kind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_reboot: bool,
    /// Whether forge rebooted the host for the step, and it is still not effective: the reboot is not repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reboot_failed: bool,
    /// Whether its change concerns only a note of the package manager, such as a hold: everything in force stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notes_only: bool,
    /// Whether its change installs an artifact, which must be available before any host is changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub installs_artifact: bool,
    /// The container images that it runs, as far as they are known: a mirror must contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// For images in a mirror, the images that they are copies of, as far as they are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_sources: BTreeMap<String, String>,
    /// Whether it also runs container images that the declaration does not determine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_unknown_images: bool,
    /// How many hosts may run it at once, if its recipe limits that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<usize>,
    /// Seconds after which the host restores the state before its change unless a new session confirms it, if the change
    /// is guarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_s: Option<u64>,
    /// When it runs: before its host's window opens, inside it, or after it.
    #[serde(default, skip_serializing_if = "StepStage::is_before")]
    pub stage: StepStage,
    /// Why it is skipped although it could run: a limit of this run, such as `--max-disruption`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The step because of which this one will be skipped: it is needed, but blocked, unknown or pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Box<UnmetDependency>>,
    /// `file:line:col` of the step in its recipe.
    pub place: Arc<str>,
    /// Whether its process outlives the connection (`long: true`): a later run follows it instead of starting it again.
    pub long: bool,
}

impl StepPlan {
    /// Returns whether its verdict or its changes could not be determined.
    pub fn is_undetermined(&self) -> bool {
        let open =
            |envelope: &PredictedEffects| envelope.foresight == ChangeCertainty::Predicted && self.changes.is_empty();
        self.verdict == StepVerdict::Unknown || (self.will_run() && self.envelope.as_deref().is_some_and(open))
    }

    /// Returns whether it acts and its changes are only predicted.
    pub fn is_predicted(&self) -> bool {
        let uncertain = |envelope: &PredictedEffects| envelope.foresight != ChangeCertainty::Certain;
        self.will_run() && self.envelope.as_deref().is_some_and(uncertain)
    }

    /// Returns whether it cannot run regardless of the steps that it needs: such a step is never reported as waiting.
    pub fn is_blocked_or_unknown(&self) -> bool {
        matches!(self.verdict, StepVerdict::Blocked(_) | StepVerdict::Unknown)
    }

    /// Returns whether only the steps that it needs keep it from running.
    pub fn is_waiting(&self) -> bool {
        self.waits_for.is_some() && !self.is_blocked_or_unknown()
    }

    /// Returns whether apply would act on it.
    pub fn will_run(&self) -> bool {
        self.verdict == StepVerdict::Change && self.waits_for.is_none() && self.held.is_none()
    }
}

/// The most that a step may do that could not be evaluated yet. If its changes exceed this, the step is stale.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PredictedEffects {
    /// What must happen before it can be evaluated.
    pub until: UntrustedText,
    /// The highest disruption class that its change may have.
    pub disruption: DisruptionClass,
    /// `file /etc/motd`
    pub resource: UntrustedText,
    /// How well the change is known beforehand.
    #[serde(default, skip_serializing_if = "ChangeCertainty::is_predicted")]
    pub foresight: ChangeCertainty,
}

/// How well a change is known before earlier steps have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCertainty {
    /// It depends on the effects of earlier steps.
    #[default]
    Predicted,
    /// It is needed exactly as shown: earlier steps do not touch the resource, as far as the effects of packages and
    /// commands can be known.
    Certain,
    /// The resource matches now; an earlier package may change that.
    Precaution,
}

impl ChangeCertainty {
    fn is_predicted(&self) -> bool {
        *self == Self::Predicted
    }
}

/// One verification of a recipe on one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct VerifyPlan {
    /// The name of the recipe that declares the verification.
    #[schemars(with = "String")]
    pub recipe: CompactString,
    /// The name of the verification within its recipe.
    #[schemars(with = "String")]
    pub name: CompactString,
    /// `Ok`: passed. `Change`: failed. `Unknown`: could not be evaluated. `Pending`: evaluated after changes.
    pub verdict: StepVerdict,
    /// Why it failed or could not be evaluated: a lowercase fragment. Empty if there is nothing to add.
    pub reason: UntrustedText,
    /// The output of its command, if the command ran and the verification failed or could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckRun>,
    /// The depth of the verification.
    pub level: VerifyLevel,
    /// `file:line:col` of the verification in its recipe.
    #[schemars(with = "String")]
    pub place: CompactString,
}

/// The run of a recipe's read-only command on a host. Secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    /// The script of the command. Secrets are shown as `(secret NAME)`.
    pub command: UntrustedText,
    /// Exit status; 128 + n for signal n.
    pub status: i32,
    /// The last lines that it printed: stdout, then stderr.
    pub output: UntrustedText,
}

/// The totals of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanCounts {
    /// Hosts of the plan, without the cluster's API.
    pub hosts: usize,
    /// Unreachable ones among the hosts and the cluster's API.
    pub unreachable: usize,
    /// Hosts with at least one change.
    pub changing: usize,
    /// Whether something is to change through the cluster's API, in addition to the hosts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster_changing: bool,
    /// Those with changes on which apply would change nothing.
    pub refused: usize,
    /// Steps on hosts, by verdict. A blocked or unknown step counts as such even if it needs another one that is
    /// blocked or unknown.
    pub ok: usize,
    /// Steps that will be changed.
    pub change: usize,
    /// Steps that are configured and not yet effective.
    pub pending: usize,
    /// Steps that are impossible on their host.
    pub blocked: usize,
    /// Steps that could not be evaluated.
    pub unknown: usize,
    /// Steps that do not apply to their host.
    pub not_applicable: usize,
    /// Changes that depend on a prediction or an envelope.
    pub predicted: usize,
    /// Steps that are skipped only because of the steps that they need.
    pub waiting: usize,
    /// Steps that could run and are held back.
    pub held: usize,
    /// Hosts that are taken out of service, and the maximum number of reboots.
    pub windows: usize,
    /// The maximum number of reboots of all hosts together.
    pub reboots: usize,
    /// Pending steps that take effect by a planned reboot.
    pub awaited: usize,
    /// Verifications that failed on the observed state.
    pub verify_failed: usize,
    /// Verifications that could not be evaluated.
    pub verify_unknown: usize,
}

impl Plan {
    /// Returns the plan without its hosts and their rollout.
    pub fn clone_header(&self) -> Self {
        Self {
            version: self.version,
            forge: self.forge.clone(),
            cluster: self.cluster.clone(),
            inventory: self.inventory.clone(),
            id: self.id.clone(),
            simulated: self.simulated.clone(),
            hosts: Vec::new(),
            rollout: RolloutPlan::default(),
        }
    }

    /// Computes the totals of the plan.
    pub fn count_steps(&self) -> PlanCounts {
        let machines = self.hosts.iter().filter(|host| !host.host.is_cluster()).count();
        let mut counts = PlanCounts { hosts: machines, ..PlanCounts::default() };
        for host in &self.hosts {
            counts.unreachable += usize::from(host.reach != HostReachability::Observed);
            match host.host.is_cluster() {
                true => counts.cluster_changing |= host.has_changes(),
                false => counts.changing += usize::from(host.has_changes()),
            }
            counts.refused += usize::from(host.has_changes() && host.refused.is_some());
            host.steps.iter().for_each(|step| counts.count_step(step));
            counts.count_window(host);
            host.verify.iter().for_each(|verify| counts.count_verification(verify));
        }
        counts
    }

    /// Returns everything that could not be evaluated, as lowercase fragments: the `?` of a plan.
    pub fn list_unknowns(&self) -> Vec<String> {
        self.hosts.iter().flat_map(HostPlan::list_unknowns).collect()
    }

    /// Returns the exit code of `plan`. Changes count only with `detailed`.
    pub fn exit_code(&self, detailed: bool) -> ExitCode {
        let counts = self.count_steps();
        let holds = [
            (counts.blocked + counts.refused > 0, ExitCode::HostsFailed),
            (counts.unreachable > 0, ExitCode::Unreachable),
            (counts.unknown + counts.verify_unknown > 0, ExitCode::Unknown),
            (detailed && counts.verify_failed > 0, ExitCode::VerifyFailed),
            (detailed && counts.pending > counts.awaited, ExitCode::Pending),
            // A change that is held back does not happen now: apply exits with the same code.
            (detailed && counts.held > 0, ExitCode::Pending),
            (detailed && counts.windows > 0 && self.rollout.closed.is_some(), ExitCode::Pending),
            (detailed && counts.change + counts.waiting + counts.windows > 0, ExitCode::Changes),
        ];
        ExitCode::pick_worst(holds.into_iter().filter(|(holds, _)| *holds).map(|(_, code)| code))
    }
}

impl PlanCounts {
    fn count_step(&mut self, step: &StepPlan) {
        match step.verdict {
            _ if step.is_waiting() => self.waiting += 1,
            _ if step.held.is_some() => self.held += 1,
            StepVerdict::Ok => self.ok += 1,
            StepVerdict::Change => self.change += 1,
            StepVerdict::Pending => self.pending += 1,
            StepVerdict::Blocked(_) => self.blocked += 1,
            StepVerdict::Unknown => self.unknown += 1,
            StepVerdict::NotApplicable => self.not_applicable += 1,
        }
        self.predicted += usize::from(step.is_predicted());
    }

    fn count_window(&mut self, host: &HostPlan) {
        let Some(window) = &host.window else { return };
        let awaited = |step: &&StepPlan| step.verdict == StepVerdict::Pending && window.has_reboot_for(&step.id);
        self.windows += 1;
        self.reboots += window.reboots.len();
        self.awaited += host.steps.iter().filter(awaited).count();
    }

    fn count_verification(&mut self, verify: &VerifyPlan) {
        match verify.verdict {
            StepVerdict::Change | StepVerdict::Blocked(_) => self.verify_failed += 1,
            StepVerdict::Unknown => self.verify_unknown += 1,
            StepVerdict::Ok | StepVerdict::Pending | StepVerdict::NotApplicable => {}
        }
    }
}

impl HostPlan {
    /// Returns whether the host has changes: steps to run, a reboot, a window to close.
    pub fn has_changes(&self) -> bool {
        self.window.is_some() || self.steps.iter().any(StepPlan::will_run)
    }

    /// Returns whether apply would act on the host.
    pub fn will_run(&self) -> bool {
        self.refused.is_none() && self.has_changes()
    }

    /// Returns everything about the host that could not be evaluated, as lowercase fragments.
    fn list_unknowns(&self) -> Vec<String> {
        let host = &self.host;
        let steps =
            self.steps.iter().filter(|step| step.is_undetermined()).map(|step| format!("`{}` on {host}", step.id));
        let verify = self.verify.iter().filter(|verify| verify.verdict == StepVerdict::Unknown);
        let verify = verify.map(|verify| format!("verification `{}` of `{}` on {host}", verify.name, verify.recipe));
        let silent = (self.reach != HostReachability::Observed).then(|| format!("{host}, which did not answer"));
        silent.into_iter().chain(steps).chain(verify).collect()
    }

    /// Returns the highest disruption of the planned changes.
    pub fn planned_disruption(&self) -> DisruptionClass {
        let steps = self.steps.iter().filter(|step| step.will_run()).map(|step| step.disruption);
        steps.chain(self.has_reboots().then_some(DisruptionClass::D3)).max().unwrap_or_default()
    }

    /// Returns the highest possible disruption, including steps that cannot be evaluated yet.
    pub fn worst_case_disruption(&self) -> DisruptionClass {
        let steps = self.steps.iter().filter(|step| step.will_run()).map(step_disruption);
        steps.chain(self.has_reboots().then_some(DisruptionClass::D3)).max().unwrap_or_default()
    }

    fn has_reboots(&self) -> bool {
        self.window.as_ref().is_some_and(|window| !window.reboots.is_empty())
    }
}

/// One value that a step depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Precondition {
    /// `facts.kernel.release`, or an attribute under the name that its kind uses: `version`.
    #[schemars(with = "String")]
    pub what: CompactString,
    /// As JSON. A long value is replaced by its digest; a secret value is left out.
    pub value: UntrustedText,
}

/// Returns the highest disruption that a step may cause.
pub fn step_disruption(step: &StepPlan) -> DisruptionClass {
    step.envelope.as_ref().map_or(step.disruption, |envelope| envelope.disruption.max(step.disruption))
}

/// Returns whether a step waits to become effective, or will.
pub(super) fn is_changing_or_pending(step: &StepPlan) -> bool {
    step.will_run() || (step.verdict == StepVerdict::Pending && step.waits_for.is_none())
}
