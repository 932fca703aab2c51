//! The plan as a value: what would change where, why, and what it disturbs. It carries no command that changes anything.

use super::window::class;
use super::{Reach, Refused, Relied, Rollout, Stage, Window};
use crate::model::{Disruption, ExitCode, HostName, Level, Scope, StepId, Untrusted, Verdict};
use crate::resource::Change;
use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A plan for a selection of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Of the plan's form; see `schemas/plan.json`.
    pub version: u32,
    pub forge: String,
    pub cluster: String,
    pub inventory: String,
    /// Digest over everything below and the inputs: the plan's identity.
    pub id: String,
    /// Hosts that are not real: sandboxes on the machine that forge ran on, and hosts whose hardware is a stand-in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    pub hosts: Vec<HostPlan>,
    /// In which portions it goes out.
    #[serde(default)]
    pub rollout: Rollout,
}

/// How much a run may disturb, beside what the inventory says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What disturbs more stays planned and is left alone.
    pub max_disruption: Disruption,
    /// Whether changing steps tell what they rest on, for a plan that is kept.
    pub bases: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { max_disruption: Disruption::D3, bases: false }
    }
}

/// What would happen on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostPlan {
    pub host: HostName,
    pub reach: Reach,
    /// Why apply would change nothing on this host, although it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// In the order they would run within their stage; earlier stages come first.
    pub steps: Vec<StepPlan>,
    /// What takes the host out of service, if something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    pub verify: Vec<VerifyPlan>,
    /// What makes one doubt that this is the host that is meant, and what rules of recipes advise against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What was applied once and is declared by no step of the cluster any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeclared: Vec<LeftBehind>,
}

/// Something that a step made, as the host remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// The step that made it: `recipe/step[key]`. It may be declared still, and be about something else now.
    pub step: Untrusted,
    pub kind: Untrusted,
    /// What it is about: `/etc/motd`, `nginx`.
    pub title: Untrusted,
    /// Whether the recipe of the step is still declared for the host.
    pub applied: bool,
}

/// Something odd about a host that keeps nothing from running.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A lowercase fragment.
    pub why: Untrusted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One step on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepPlan {
    pub id: StepId,
    #[schemars(with = "String")]
    pub kind: CompactString,
    /// What the resource is about: `/etc/motd`, `nginx`.
    pub title: Untrusted,
    pub verdict: Verdict,
    pub reason: Untrusted,
    /// What to do about it, when the judge knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    pub disruption: Disruption,
    pub scope: Scope,
    pub level: Level,
    /// Digest of the judged attributes as seen and the facts that were read.
    pub basis: String,
    /// For changing steps of a plan that is kept: what the basis is made of. Empty where a secret is declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Relied>,
    /// For changing steps of a plan that is kept: the digest of what is declared, as the host's record of the step will
    /// hold it. Absent where that is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// For what cannot be judged before an earlier step ran: what the step may do at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    /// Whether only a reboot brings into force what is pending, or what its change makes: the kind says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_reboot: bool,
    /// The container images that it runs, as far as they are known: what a mirror has to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// When it runs: before its host's window opens, inside it, or after it.
    #[serde(default, skip_serializing_if = "Stage::is_before")]
    pub stage: Stage,
    /// Why it is left alone although it could run: what the user allows of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The step this one will be skipped for: needed, but blocked, unknown or pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// `file:line:col` of the step in its recipe.
    #[schemars(with = "String")]
    pub place: CompactString,
    pub long: bool,
}

impl StepPlan {
    /// Returns whether it could not be told what it comes to, or not what it would change.
    pub fn is_open(&self) -> bool {
        let open = |envelope: &Envelope| envelope.foresight == Foresight::Predicted && self.changes.is_empty();
        self.verdict == Verdict::Unknown || (self.acts() && self.envelope.as_ref().is_some_and(open))
    }

    /// Returns whether it acts, and what it does is only predicted.
    pub fn is_predicted(&self) -> bool {
        let uncertain = |envelope: &Envelope| envelope.foresight != Foresight::Certain;
        self.acts() && self.envelope.as_ref().is_some_and(uncertain)
    }

    /// Returns whether it cannot run whatever becomes of the steps that it needs: that is its own, and never told as waiting.
    pub fn is_hindered(&self) -> bool {
        matches!(self.verdict, Verdict::Blocked(_) | Verdict::Unknown)
    }

    /// Returns whether nothing but what it needs keeps it from running.
    pub fn is_waiting(&self) -> bool {
        self.waits_for.is_some() && !self.is_hindered()
    }

    /// Returns whether apply would act on it.
    pub fn acts(&self) -> bool {
        self.verdict == Verdict::Change && self.waits_for.is_none() && self.held.is_none()
    }
}

/// What a step may do that could not be judged yet. Outside of it the step is stale.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// What has to happen before it can be judged.
    pub until: Untrusted,
    pub disruption: Disruption,
    /// `file /etc/motd`
    pub resource: Untrusted,
    /// How well the change is known beforehand.
    #[serde(default, skip_serializing_if = "Foresight::is_predicted")]
    pub foresight: Foresight,
}

/// How well a change is known before earlier steps ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Foresight {
    /// It depends on what earlier steps bring about.
    #[default]
    Predicted,
    /// It is due just as shown: earlier steps do not touch what it is about, as far as packages and commands can be known.
    Certain,
    /// It is as declared now; an earlier package may change that.
    Precaution,
}

impl Foresight {
    fn is_predicted(&self) -> bool {
        *self == Self::Predicted
    }
}

/// One verification of a recipe on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyPlan {
    pub recipe: String,
    pub name: String,
    /// `Ok` holds, `Change` does not hold, `Unknown` could not be told, `Pending` is judged after changes.
    pub verdict: Verdict,
    pub reason: Untrusted,
    /// What its command printed, where it ran and does not hold or could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckRun>,
    pub level: Level,
    pub place: String,
}

/// A read-only command of a recipe, as a host ran it. Secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    pub command: Untrusted,
    /// Exit status; 128 + n for signal n.
    pub status: i32,
    /// The last lines that it printed: stdout, then stderr.
    pub output: Untrusted,
}

/// How many of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub hosts: usize,
    /// Of these and the cluster's API.
    pub unreachable: usize,
    /// Hosts with at least one change.
    pub changing: usize,
    /// Whether something is to change through the cluster's API, beside them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster_changing: bool,
    /// Those of them that apply would change nothing on.
    pub refused: usize,
    /// Steps on hosts, by verdict. Each blocked or unknown one counts as that, also where it needs another one that is.
    pub ok: usize,
    pub change: usize,
    pub pending: usize,
    pub blocked: usize,
    pub unknown: usize,
    pub not_applicable: usize,
    /// Changes that rest on a prediction or an envelope.
    pub predicted: usize,
    /// Steps that nothing but what they need keeps from running: they are skipped for it.
    pub waiting: usize,
    /// Steps that could run and are held back.
    pub held: usize,
    /// Hosts that are taken out of service, and how often hosts reboot at most.
    pub windows: usize,
    pub reboots: usize,
    /// Pending steps that a planned reboot brings into force.
    pub awaited: usize,
    pub verify_failed: usize,
    pub verify_unknown: usize,
}

impl Plan {
    pub fn counts(&self) -> Counts {
        let machines = self.hosts.iter().filter(|host| !host.host.is_cluster()).count();
        let mut counts = Counts { hosts: machines, ..Counts::default() };
        for host in &self.hosts {
            counts.unreachable += usize::from(host.reach != Reach::Observed);
            match host.host.is_cluster() {
                true => counts.cluster_changing |= host.changes(),
                false => counts.changing += usize::from(host.changes()),
            }
            counts.refused += usize::from(host.changes() && host.refused.is_some());
            host.steps.iter().for_each(|step| counts.step(step));
            counts.window(host);
            host.verify.iter().for_each(|verify| counts.verify(verify));
        }
        counts
    }

    /// Returns everything that could not be told, as lowercase fragments: the `?` of a plan.
    pub fn unknown(&self) -> Vec<String> {
        self.hosts.iter().flat_map(HostPlan::unknown).collect()
    }

    /// Returns the exit code of `plan`. Changes count only with `detailed`.
    pub fn exit_code(&self, detailed: bool) -> ExitCode {
        let counts = self.counts();
        let holds = [
            (counts.blocked + counts.refused > 0, ExitCode::HostsFailed),
            (counts.unreachable > 0, ExitCode::Unreachable),
            (counts.unknown + counts.verify_unknown > 0, ExitCode::Unknown),
            (detailed && counts.verify_failed > 0, ExitCode::VerifyFailed),
            (detailed && counts.pending > counts.awaited, ExitCode::Pending),
            (detailed && counts.change + counts.held + counts.waiting + counts.windows > 0, ExitCode::Changes),
        ];
        ExitCode::worst(holds.into_iter().filter(|(holds, _)| *holds).map(|(_, code)| code))
    }
}

impl Counts {
    fn step(&mut self, step: &StepPlan) {
        match step.verdict {
            _ if step.is_waiting() => self.waiting += 1,
            _ if step.held.is_some() => self.held += 1,
            Verdict::Ok => self.ok += 1,
            Verdict::Change => self.change += 1,
            Verdict::Pending => self.pending += 1,
            Verdict::Blocked(_) => self.blocked += 1,
            Verdict::Unknown => self.unknown += 1,
            Verdict::NotApplicable => self.not_applicable += 1,
        }
        self.predicted += usize::from(step.is_predicted());
    }

    fn window(&mut self, host: &HostPlan) {
        let Some(window) = &host.window else { return };
        let awaited = |step: &&StepPlan| step.verdict == Verdict::Pending && window.reboots_for(&step.id);
        self.windows += 1;
        self.reboots += window.reboots.len();
        self.awaited += host.steps.iter().filter(awaited).count();
    }

    fn verify(&mut self, verify: &VerifyPlan) {
        match verify.verdict {
            Verdict::Change | Verdict::Blocked(_) => self.verify_failed += 1,
            Verdict::Unknown => self.verify_unknown += 1,
            Verdict::Ok | Verdict::Pending | Verdict::NotApplicable => {}
        }
    }
}

impl HostPlan {
    /// Returns whether there is something to do on the host: steps to run, a reboot, a window to close.
    pub fn changes(&self) -> bool {
        self.window.is_some() || self.steps.iter().any(StepPlan::acts)
    }

    /// Returns whether apply would act on the host.
    pub fn acts(&self) -> bool {
        self.refused.is_none() && self.changes()
    }

    /// Returns what could not be told of the host, as lowercase fragments.
    fn unknown(&self) -> Vec<String> {
        let host = &self.host;
        let steps = self.steps.iter().filter(|step| step.is_open()).map(|step| format!("`{}` on {host}", step.id));
        let verify = self.verify.iter().filter(|verify| verify.verdict == Verdict::Unknown);
        let verify = verify.map(|verify| format!("verification `{}` of `{}` on {host}", verify.name, verify.recipe));
        let silent = (self.reach != Reach::Observed).then(|| format!("{host}, which did not answer"));
        silent.into_iter().chain(steps).chain(verify).collect()
    }

    /// Returns the highest disruption of what would change.
    pub fn disruption(&self) -> Disruption {
        let steps = self.steps.iter().filter(|step| step.acts()).map(|step| step.disruption);
        steps.chain(self.reboots().then_some(Disruption::D3)).max().unwrap_or_default()
    }

    /// Returns the highest disruption there may be, what cannot be judged yet included.
    pub fn at_most(&self) -> Disruption {
        let steps = self.steps.iter().filter(|step| step.acts()).map(class);
        steps.chain(self.reboots().then_some(Disruption::D3)).max().unwrap_or_default()
    }

    fn reboots(&self) -> bool {
        self.window.as_ref().is_some_and(|window| !window.reboots.is_empty())
    }
}
