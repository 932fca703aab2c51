//! From a plan and the records of its hosts to findings.

use super::cause::{self, Cause, Desired, Last, Seen, Told, severity};
use super::last::{Applied, comparable};
use super::model::{Aspect, Finding, HostDrift, LastApplied, Severity, Unsure};
use crate::config::{Expander, State};
use crate::model::{Disruption, HostName, Level, Untrusted, Verdict};
use crate::plan::{
    self, Ahead, Case, Ground, HostPlan, HostSeen, Inputs, LeftBehind, Plan, Reach, Ruling, StepPlan, Turn, VerifyPlan,
};
use crate::probe::KEY_LEFT_OUT;
use crate::resource::Change;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a look at hosts found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub hosts: Vec<HostDrift>,
    pub findings: Vec<Finding>,
    pub unknown: Vec<Unsure>,
    /// Steps and verifications that were not judged for certain: a finding of theirs is neither there nor gone.
    pub undecided: BTreeSet<(HostName, String, String)>,
}

/// Returns what is not as declared, and why. `plan` was made from `inputs`; `took` says how long each host was looked
/// at. Findings are as of `now`, RFC 3339: what was found before is told later.
pub fn find(inputs: &Inputs<'_>, plan: &Plan, took: &BTreeMap<HostName, Duration>, now: &str) -> Found {
    let expander = Expander::new(inputs.project);
    let ground = Ground {
        project: inputs.project,
        expander: &expander,
        filter: inputs.filter,
        exports: inputs.exports,
        chosen: inputs.chosen,
        secrets: inputs.secrets,
        policy: inputs.policy,
    };
    let seen: BTreeMap<&HostName, &HostSeen> = inputs.seen.iter().map(|seen| (&seen.host, seen)).collect();
    let mut found = Found::default();
    for host in &plan.hosts {
        let took = took.get(&host.host).copied().unwrap_or_default();
        let mut look = Look { found: &mut found, plan: host, now, drift: of_host(host, took) };
        if let Some(case) = seen.get(&host.host).and_then(|seen| Case::new(ground, &host.host, seen)) {
            look.all(&case);
        }
        let drift = look.drift;
        found.hosts.push(drift);
    }
    found
}

fn of_host(plan: &HostPlan, took: Duration) -> HostDrift {
    HostDrift {
        host: plan.host.clone(),
        reach: plan.reach.clone(),
        settled: 0,
        follow: 0,
        warnings: plan.warnings.clone(),
        took,
    }
}

/// One host that is looked through.
struct Look<'l> {
    found: &'l mut Found,
    plan: &'l HostPlan,
    now: &'l str,
    drift: HostDrift,
}

impl Look<'_> {
    fn all(&mut self, case: &Case<'_>) {
        if self.plan.reach != Reach::Observed {
            return;
        }
        let turns = case.turns();
        for step in &self.plan.steps {
            self.step(case, &turns, step);
        }
        for verify in &self.plan.verify {
            self.verify(case, verify);
        }
        for left in &self.plan.undeclared {
            self.undeclared(case, left);
        }
    }

    fn step(&mut self, case: &Case<'_>, turns: &[Turn<'_>], step: &StepPlan) {
        let turn = turns.iter().find(|turn| turn.expanded.id == step.id);
        let judged = match (&step.envelope, turn) {
            // What a plan predicts is no observation: it is judged by what is seen alone.
            (Some(_), Some(turn)) => alone(step, &plan::judge(case, turn, turns, &Ahead::default())),
            (Some(_), None) => None,
            (None, _) => Some(step.clone()),
        };
        match judged {
            None => self.follows(step),
            Some(step) => self.judged(case, turn, &step),
        }
    }

    fn follows(&mut self, step: &StepPlan) {
        self.drift.follow += 1;
        self.undecided(&step.id.recipe, &name(step));
    }

    fn judged(&mut self, case: &Case<'_>, turn: Option<&Turn<'_>>, step: &StepPlan) {
        match step.verdict {
            Verdict::Ok => self.drift.settled += 1,
            Verdict::NotApplicable => {}
            Verdict::Unknown => self.unsure(step),
            Verdict::Blocked(_) if self.again(step) => {}
            Verdict::Change | Verdict::Pending | Verdict::Blocked(_) => self.differs(case, turn, step),
        }
    }

    fn unsure(&mut self, step: &StepPlan) {
        self.undecided(&step.id.recipe, &name(step));
        self.found.unknown.push(Unsure {
            host: self.plan.host.clone(),
            recipe: (*step.id.recipe).into(),
            step: name(step).into(),
            aspect: Aspect::Step,
            reason: step.reason.clone(),
            hint: step.hint.clone(),
            place: step.place.to_string(),
        });
    }

    fn undecided(&mut self, recipe: &str, step: &str) {
        self.found.undecided.insert((self.plan.host.clone(), recipe.to_owned(), step.to_owned()));
    }

    /// Whether a recipe is blocked for a reason that an earlier step of it has told: it is told once, with how many more.
    fn again(&mut self, step: &StepPlan) -> bool {
        let (host, recipe) = (&self.plan.host, &*step.id.recipe);
        let same = |told: &&mut Finding| {
            told.host == *host
                && told.recipe.raw() == recipe
                && told.verdict == step.verdict
                && told.reason == step.reason
        };
        match self.found.findings.iter_mut().rev().take(self.plan.steps.len()).find(same) {
            Some(told) => told.also += 1,
            None => return false,
        }
        let name = name(step);
        self.undecided(&step.id.recipe, &name);
        true
    }

    fn differs(&mut self, case: &Case<'_>, turn: Option<&Turn<'_>>, step: &StepPlan) {
        let record = case.record(&step.id).map(Applied::new);
        let digest = turn.and_then(|turn| declared(case, turn));
        for change in attributes(step) {
            let mut finding = self.of_step(step);
            tell(&mut finding, step, change.as_ref());
            explain(&mut finding, step, change.as_ref(), digest.as_deref(), record.as_ref());
            self.found.findings.push(finding);
        }
    }

    fn of_step(&self, step: &StepPlan) -> Finding {
        Finding {
            kind: step.kind.as_str().into(),
            title: step.title.clone(),
            verdict: step.verdict,
            reason: step.reason.clone(),
            hint: step.hint.clone(),
            disruption: if step.by_reboot { Disruption::D3 } else { step.disruption },
            level: step.level,
            place: step.place.to_string(),
            ..self.blank(&step.id.recipe, &name(step), Aspect::Step)
        }
    }

    fn verify(&mut self, case: &Case<'_>, verify: &VerifyPlan) {
        match verify.verdict {
            Verdict::Ok => self.drift.settled += 1,
            Verdict::NotApplicable => {}
            // It is judged once the steps of its recipe are as declared.
            Verdict::Pending => self.undecided(&verify.recipe, &verify.name),
            Verdict::Unknown => self.unsure_verify(verify),
            Verdict::Change | Verdict::Blocked(_) => {
                let finding = self.of_verify(case, verify);
                self.found.findings.push(finding);
            }
        }
    }

    fn unsure_verify(&mut self, verify: &VerifyPlan) {
        self.undecided(&verify.recipe, &verify.name);
        self.found.unknown.push(Unsure {
            host: self.plan.host.clone(),
            recipe: verify.recipe.as_str().into(),
            step: verify.name.as_str().into(),
            aspect: Aspect::Verification,
            reason: verify.reason.clone(),
            hint: None,
            place: verify.place.clone(),
        });
    }

    /// A verification has no record of its own: what was applied of its recipe tells who moved.
    fn of_verify(&self, case: &Case<'_>, verify: &VerifyPlan) -> Finding {
        let (cause, last_applied) = of_recipe(case, &verify.recipe);
        Finding {
            verdict: verify.verdict,
            reason: verify.reason.clone(),
            level: verify.level,
            place: verify.place.clone(),
            cause,
            last_applied,
            severity: if cause == Cause::RecipeChanged { Severity::Low } else { Severity::High },
            ..self.blank(&verify.recipe, &verify.name, Aspect::Verification)
        }
    }

    fn undeclared(&mut self, case: &Case<'_>, left: &LeftBehind) {
        let whole = left.step.raw();
        let (recipe, step) = whole.split_once('/').unwrap_or(("", whole));
        let record = case.seen.record(&case.ground.project.cluster, whole).map(Applied::new);
        let finding = Finding {
            kind: left.kind.clone(),
            title: left.title.clone(),
            reason: "was applied once and is declared no more".into(),
            cause: Cause::NoLongerDeclared,
            severity: Severity::Low,
            last_applied: record.map(|record| record.told(None)),
            // One step may have been about several things, one after the other.
            attribute: Some(left.title.raw().to_owned()),
            ..self.blank(recipe, step, Aspect::Undeclared)
        };
        self.found.findings.push(finding);
    }

    fn blank(&self, recipe: &str, step: &str, aspect: Aspect) -> Finding {
        Finding {
            host: self.plan.host.clone(),
            recipe: recipe.into(),
            step: step.into(),
            aspect,
            attribute: None,
            kind: Untrusted::default(),
            title: Untrusted::default(),
            verdict: Verdict::Change,
            reason: Untrusted::default(),
            hint: None,
            desired: None,
            observed: None,
            diff: None,
            secret: false,
            last_applied: None,
            cause: Cause::Unknown,
            severity: Severity::Medium,
            disruption: Disruption::D0,
            level: Level::L0,
            action: None,
            place: String::new(),
            first_seen: self.now.to_owned(),
            last_seen: self.now.to_owned(),
            times: 1,
            also: 0,
        }
    }
}

/// Returns the step's name with the key of its turn.
fn name(step: &StepPlan) -> String {
    match &step.id.key {
        Some(key) => format!("{}[{key}]", step.id.step),
        None => step.id.step.to_string(),
    }
}

/// Returns the step as it is judged by what is seen alone; `None` where that tells nothing: it cannot be judged before an
/// earlier step has run.
fn alone(step: &StepPlan, ruling: &Ruling) -> Option<StepPlan> {
    let judged = &ruling.judgement;
    let certain = matches!(judged.verdict, Verdict::Ok | Verdict::NotApplicable | Verdict::Change | Verdict::Pending);
    (certain && !judged.predicted).then(|| StepPlan {
        verdict: judged.verdict,
        reason: judged.reason.clone(),
        hint: judged.hint.clone(),
        changes: judged.changes.clone(),
        disruption: judged.disruption,
        envelope: None,
        ..step.clone()
    })
}

/// Returns the attributes that differ. What is missing as a whole is one finding, not one for each of its attributes.
fn attributes(step: &StepPlan) -> Vec<Option<Change>> {
    let missing = |change: &Change| change.from.is_none() && change.to.is_some() && !change.secret;
    match step.changes.as_slice() {
        [] => vec![None],
        [first, _, ..] if step.changes.iter().all(missing) => {
            let whole = Change { diff: first.diff.clone(), ..Change::new("exists", None, Some(PRESENT)) };
            vec![Some(whole)]
        }
        changes => changes.iter().cloned().map(Some).collect(),
    }
}

/// What `exists` is to be.
const PRESENT: &str = "present";

fn tell(finding: &mut Finding, step: &StepPlan, change: Option<&Change>) {
    let Some(change) = change else { return };
    finding.attribute = Some(change.attribute.to_string());
    finding.secret = change.secret;
    if !change.secret {
        finding.desired = change.to.clone();
        finding.observed = change.from.clone();
        finding.diff = change.diff.clone();
    }
    // The reason speaks of the step as a whole; where others differ too, the attribute says enough.
    if step.changes.len() > 1 && change.attribute != "exists" {
        finding.reason = format!("{} differs", change.attribute).into();
    }
}

fn explain(
    finding: &mut Finding,
    step: &StepPlan,
    change: Option<&Change>,
    digest: Option<&str>,
    record: Option<&Applied<'_>>,
) {
    let value = record.and_then(|record| last_value(record, change));
    let (to, from) = match change.filter(|change| !change.secret) {
        Some(change) => (told(change.to.as_ref()), told(change.from.as_ref())),
        None => (Told::Untold, Told::Untold),
    };
    let desired = Desired { digest, value: to };
    let seen = Seen { verdict: step.verdict, value: from };
    let last = record.map(|record| Last { digest: record.digest(), value: last_told(record, value.as_deref()) });
    finding.cause = cause::cause(&desired, &seen, last.as_ref());
    finding.severity = severity(finding.cause, finding.verdict, finding.disruption);
    finding.last_applied = record.map(|record| record.told(value));
}

fn told(value: Option<&Untrusted>) -> Told<'_> {
    comparable(value.map(Untrusted::raw))
}

fn last_value(record: &Applied<'_>, change: Option<&Change>) -> Option<String> {
    let change = change.filter(|change| !change.secret)?;
    match change.attribute.as_str() {
        "exists" => (!record.is_removal()).then(|| PRESENT.to_owned()),
        attribute => record.value(attribute),
    }
}

fn last_told<'v>(record: &Applied<'_>, value: Option<&'v str>) -> Told<'v> {
    match value {
        _ if record.is_removal() => Told::Nothing,
        Some(value) => Told::Value(value),
        None => Told::Untold,
    }
}

/// Returns the digest over what a turn declares, as a record of it would hold it.
fn declared(case: &Case<'_>, turn: &Turn<'_>) -> Option<String> {
    let State::Resource(resource) = &turn.expanded.state else { return None };
    let digest = plan::desired_digest(resource.as_ref(), case.ground.secrets, case.seen.key.as_deref());
    let left_out = case.seen.key.as_deref().is_none_or(|key| key == KEY_LEFT_OUT);
    (!digest.starts_with("keyed:") || !left_out).then_some(digest)
}

/// Returns who moved by all that was applied of a recipe, with the latest of its records.
fn of_recipe(case: &Case<'_>, recipe: &str) -> (Cause, Option<LastApplied>) {
    let turns = case.turns();
    let own = turns.iter().filter(|turn| *turn.expanded.id.recipe == *recipe);
    let (mut latest, mut moved): (Option<LastApplied>, bool) = (None, false);
    for turn in own {
        let Some(record) = case.record(&turn.expanded.id).map(Applied::new) else { continue };
        moved |= declared(case, turn).is_some_and(|digest| digest != record.digest());
        let told = record.told(None);
        if latest.as_ref().is_none_or(|latest| latest.time < told.time) {
            latest = Some(told);
        }
    }
    let cause = match (&latest, moved) {
        (None, _) => Cause::Unknown,
        (Some(_), true) => Cause::RecipeChanged,
        (Some(_), false) => Cause::MachineChanged,
    };
    (cause, latest)
}
