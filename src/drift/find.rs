//! Derives findings from a plan and the records of its hosts.

use super::cause::DriftCause;
use super::counters::CounterGrowth;
use super::explain::{attributes, declared, explain, of_recipe, tell};
use super::health::{self, HostFault};
use super::last::AppliedRecordView;
use super::model::{
    DriftFinding, FindingAspect, FindingNovelty, FindingSeverity, HostDrift, IgnoreRuleResult, UndecidedItem,
};
use super::passing::IgnoreRuleMatcher;
use crate::config::{ExpansionState, StepExpander};
use crate::model::{DisruptionClass, HostName, StepVerdict, UntrustedText, VerifyLevel};
use crate::plan::{
    self, HostContext, HostPlan, HostReachability, ObservedHost, ObservedNode, Plan, PlanInputs, StepAssessment,
    StepInstance, StepPlan, StepPredictions, UndeclaredResource, VerifyPlan,
};
use crate::probe::UnansweredReason;
use crate::resource::Assessment;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The result of a drift check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectedDrift {
    pub hosts: Vec<HostDrift>,
    pub findings: Vec<DriftFinding>,
    pub unknown: Vec<UndecidedItem>,
    /// Steps and verifications without a certain result: their findings are neither confirmed nor resolved.
    pub undecided: BTreeSet<(HostName, String, String)>,
    /// Steps and verifications with an ignored finding.
    pub ignored_steps: BTreeSet<(HostName, String, String)>,
    pub ignored: Vec<IgnoreRuleResult>,
}

/// The inputs of a drift check in addition to the plan.
pub struct DetectionContext<'l> {
    /// Duration of the observation of each host.
    pub took: &'l BTreeMap<HostName, Duration>,
    /// Increases of the counters of each host.
    pub grown: &'l BTreeMap<HostName, CounterGrowth>,
    /// RFC 3339, UTC.
    pub now: &'l str,
}

/// Returns the drift from the declared state with its causes. `plan` was made from `inputs`. History is added later.
pub fn find(inputs: &PlanInputs<'_>, plan: &Plan, look: &DetectionContext<'_>) -> DetectedDrift {
    let expander = StepExpander::new(inputs.project);
    let ground = inputs.ground(&expander);
    let seen: BTreeMap<&HostName, &ObservedHost> = inputs.seen.iter().map(|seen| (&seen.host, seen)).collect();
    let mut passing = IgnoreRuleMatcher::new(inputs.project, look.now);
    let mut found = DetectedDrift::default();
    for host in &plan.hosts {
        let took = look.took.get(&host.host).copied().unwrap_or_default();
        let drift = of_host(host, took);
        let mut of_one =
            HostDriftCollector { found: &mut found, passing: &mut passing, plan: host, now: look.now, drift };
        if let Some(case) = seen.get(&host.host).and_then(|seen| HostContext::new(ground, &host.host, seen)) {
            of_one.all(&case, look.grown.get(&host.host).unwrap_or(&CounterGrowth::new()));
        }
        let drift = of_one.drift;
        found.hosts.push(drift);
    }
    found.ignored = passing.lines();
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

/// The check of one host.
struct HostDriftCollector<'l, 'p> {
    found: &'l mut DetectedDrift,
    passing: &'l mut IgnoreRuleMatcher<'p>,
    plan: &'l HostPlan,
    now: &'l str,
    drift: HostDrift,
}

impl HostDriftCollector<'_, '_> {
    fn all(&mut self, case: &HostContext<'_>, grown: &CounterGrowth) {
        if self.plan.reach != HostReachability::Observed {
            return;
        }
        // Most of ten thousand hosts match; nothing more is evaluated for them.
        let quiet = self.plan.steps.iter().all(|step| step.verdict.is_settled() && step.envelope.is_none());
        let turns = if quiet { Vec::new() } else { case.turns() };
        for step in &self.plan.steps {
            self.step(case, &turns, step);
        }
        for verify in &self.plan.verify {
            self.verify(case, verify);
        }
        for left in &self.plan.undeclared {
            self.undeclared(case, left);
        }
        for (fact, _) in health::FACTS {
            if let Some(Err(why)) = case.seen.facts.0.get(fact) {
                self.unhealthy(fact, why);
            }
        }
        self.node(case);
        for fault in health::faults(&case.seen.facts, grown) {
            self.fault(fault);
        }
    }

    /// Adds a finding, unless it is ignored.
    fn push(&mut self, finding: DriftFinding, paths: &[String]) {
        let (recipe, step) = (finding.recipe.raw(), finding.step.raw());
        match self.passing.passes(recipe, step, paths) {
            true => self.pass(recipe, step),
            false => self.found.findings.push(finding),
        }
    }

    fn push_unsure(&mut self, unsure: UndecidedItem, paths: &[String]) {
        let (recipe, step) = (unsure.recipe.raw(), unsure.step.raw());
        match self.passing.passes(recipe, step, paths) {
            true => self.pass(recipe, step),
            false => self.found.unknown.push(unsure),
        }
    }

    fn pass(&mut self, recipe: &str, step: &str) {
        self.found.ignored_steps.insert((self.plan.host.clone(), recipe.to_owned(), step.to_owned()));
    }

    fn unhealthy(&mut self, fact: &str, why: &UnansweredReason) {
        self.undecided(HARDWARE, EVERY_STEP);
        let unsure = UndecidedItem {
            host: self.plan.host.clone(),
            recipe: HARDWARE.into(),
            step: fact.into(),
            aspect: FindingAspect::Health,
            reason: Assessment::unknown(why).reason,
            hint: None,
            place: String::new(),
        };
        self.push_unsure(unsure, &[]);
    }

    /// Reports a node that a run drained and did not uncordon: it takes no pods, even if every step matches.
    fn node(&mut self, case: &HostContext<'_>) {
        match case.seen.node.as_ref() {
            Some(ObservedNode::Node { name, left: Some(run) }) => {
                let finding = DriftFinding {
                    title: format!("node {} of Kubernetes", name.raw()).into(),
                    verdict: StepVerdict::Pending,
                    reason: format!("still drained by run {}", run.raw()).into(),
                    hint: Some("run `forge apply`: a successful apply uncordons it".to_owned()),
                    cause: DriftCause::Pending,
                    ..self.blank(KUBERNETES, NODE, FindingAspect::Node)
                };
                self.push(finding, &[]);
            }
            Some(ObservedNode::Unknown { why }) => {
                self.undecided(KUBERNETES, NODE);
                let reason = format!("its node of Kubernetes could not be determined: {}", why.raw()).into();
                let host = self.plan.host.clone();
                let (recipe, step) = (KUBERNETES.into(), NODE.into());
                let unsure = UndecidedItem {
                    host,
                    recipe,
                    step,
                    aspect: FindingAspect::Node,
                    reason,
                    hint: None,
                    place: String::new(),
                };
                self.push_unsure(unsure, &[]);
            }
            _ => {}
        }
    }

    fn fault(&mut self, fault: HostFault) {
        let finding = DriftFinding {
            kind: fault.kind.into(),
            title: format!("{} {}", fault.kind, fault.part).into(),
            reason: fault.reason.into(),
            cause: DriftCause::HardwareFault,
            severity: FindingSeverity::Critical,
            level: VerifyLevel::L3,
            action: Some(fault.action),
            attribute: Some(fault.aspect),
            ..self.blank(HARDWARE, &format!("{} {}", fault.kind, fault.part), FindingAspect::Health)
        };
        self.push(finding, &[]);
    }

    fn step(&mut self, case: &HostContext<'_>, turns: &[StepInstance<'_>], step: &StepPlan) {
        let turn = turns.iter().find(|turn| turn.expanded.id == step.id);
        let judged = match (&step.envelope, turn) {
            // A prediction of a plan is not an observation: assess the step by what was observed only.
            (Some(_), Some(turn)) => alone(step, &plan::judge(case, turn, turns, &StepPredictions::default())),
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

    fn judged(&mut self, case: &HostContext<'_>, turn: Option<&StepInstance<'_>>, step: &StepPlan) {
        match step.verdict {
            StepVerdict::Ok => self.drift.settled += 1,
            StepVerdict::NotApplicable => {}
            StepVerdict::Unknown => self.unsure(turn, step),
            StepVerdict::Blocked(_) if self.again(step) => {}
            StepVerdict::Change | StepVerdict::Pending | StepVerdict::Blocked(_) => self.differs(case, turn, step),
        }
    }

    fn unsure(&mut self, turn: Option<&StepInstance<'_>>, step: &StepPlan) {
        self.undecided(&step.id.recipe, &name(step));
        let unsure = UndecidedItem {
            host: self.plan.host.clone(),
            recipe: (*step.id.recipe).into(),
            step: name(step).into(),
            aspect: FindingAspect::Step,
            reason: step.reason.clone(),
            hint: step.hint.clone(),
            place: step.place.to_string(),
        };
        self.push_unsure(unsure, &paths(turn));
    }

    fn undecided(&mut self, recipe: &str, step: &str) {
        self.found.undecided.insert((self.plan.host.clone(), recipe.to_owned(), step.to_owned()));
    }

    /// Reports whether an earlier step of the recipe is blocked for the same reason: it is listed once, with a count.
    fn again(&mut self, step: &StepPlan) -> bool {
        let (host, recipe) = (&self.plan.host, &*step.id.recipe);
        let same = |told: &&mut DriftFinding| {
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

    fn differs(&mut self, case: &HostContext<'_>, turn: Option<&StepInstance<'_>>, step: &StepPlan) {
        let record = case.record(&step.id).map(AppliedRecordView::new);
        let digest = turn.and_then(|turn| declared(case, turn));
        let paths = paths(turn);
        for change in attributes(step) {
            let mut finding = self.of_step(step);
            finding.path = paths.first().map(|path| path.as_str().into());
            tell(&mut finding, change.as_ref());
            explain(&mut finding, step, change.as_ref(), digest.as_deref(), record.as_ref());
            self.push(finding, &paths);
        }
    }

    fn of_step(&self, step: &StepPlan) -> DriftFinding {
        DriftFinding {
            kind: step.kind.as_str().into(),
            title: step.title.clone(),
            verdict: step.verdict,
            reason: step.reason.clone(),
            hint: step.hint.clone(),
            disruption: if step.by_reboot { DisruptionClass::D3 } else { step.disruption },
            level: step.level,
            place: step.place.to_string(),
            ..self.blank(&step.id.recipe, &name(step), FindingAspect::Step)
        }
    }

    fn verify(&mut self, case: &HostContext<'_>, verify: &VerifyPlan) {
        match verify.verdict {
            StepVerdict::Ok => self.drift.settled += 1,
            StepVerdict::NotApplicable => {}
            // It runs once the steps of its recipe match.
            StepVerdict::Pending => self.undecided(&verify.recipe, &verify.name),
            StepVerdict::Unknown => self.unsure_verify(verify),
            StepVerdict::Change | StepVerdict::Blocked(_) => {
                let finding = self.of_verify(case, verify);
                self.push(finding, &[]);
            }
        }
    }

    fn unsure_verify(&mut self, verify: &VerifyPlan) {
        self.undecided(&verify.recipe, &verify.name);
        let unsure = UndecidedItem {
            host: self.plan.host.clone(),
            recipe: verify.recipe.as_str().into(),
            step: verify.name.as_str().into(),
            aspect: FindingAspect::Verification,
            reason: verify.reason.clone(),
            hint: None,
            place: verify.place.clone(),
        };
        self.push_unsure(unsure, &[]);
    }

    /// Builds the finding of a verification. It has no record of its own: the records of its recipe show the cause.
    fn of_verify(&self, case: &HostContext<'_>, verify: &VerifyPlan) -> DriftFinding {
        let (cause, last_applied) = of_recipe(case, &verify.recipe);
        DriftFinding {
            verdict: verify.verdict,
            reason: verify.reason.clone(),
            level: verify.level,
            place: verify.place.clone(),
            cause,
            last_applied,
            severity: if cause == DriftCause::RecipeChanged { FindingSeverity::Low } else { FindingSeverity::High },
            ..self.blank(&verify.recipe, &verify.name, FindingAspect::Verification)
        }
    }

    fn undeclared(&mut self, case: &HostContext<'_>, left: &UndeclaredResource) {
        let whole = left.step.raw();
        let (recipe, step) = whole.split_once('/').unwrap_or(("", whole));
        let record = case.seen.record(&case.ground.project.cluster, whole).map(AppliedRecordView::new);
        let is_path = record.as_ref().is_some_and(|record| record.is_about_path(left.title.raw()));
        let finding = DriftFinding {
            kind: left.kind.clone(),
            title: left.title.clone(),
            path: is_path.then(|| left.title.clone()),
            reason: "was applied and is no longer declared".into(),
            cause: DriftCause::NoLongerDeclared,
            severity: FindingSeverity::Low,
            last_applied: record.map(|record| record.told(None)),
            // A step may have managed several objects over time.
            attribute: Some(left.title.raw().to_owned()),
            ..self.blank(recipe, step, FindingAspect::Undeclared)
        };
        let paths = [left.title.raw().to_owned()];
        self.push(finding, &paths);
    }

    fn blank(&self, recipe: &str, step: &str, aspect: FindingAspect) -> DriftFinding {
        DriftFinding {
            host: self.plan.host.clone(),
            recipe: recipe.into(),
            step: step.into(),
            aspect,
            attribute: None,
            kind: UntrustedText::default(),
            title: UntrustedText::default(),
            path: None,
            verdict: StepVerdict::Change,
            reason: UntrustedText::default(),
            hint: None,
            desired: None,
            observed: None,
            diff: None,
            secret: false,
            last_applied: None,
            cause: DriftCause::Unknown,
            culprit: None,
            severity: FindingSeverity::Medium,
            disruption: DisruptionClass::D0,
            level: VerifyLevel::L0,
            action: None,
            place: String::new(),
            standing: FindingNovelty::New,
            first_seen: self.now.to_owned(),
            last_seen: self.now.to_owned(),
            times: 1,
            also: 0,
        }
    }
}

/// Marks every step of a recipe as undecided.
pub(super) const EVERY_STEP: &str = "*";

/// The recipe name in findings about hardware.
const HARDWARE: &str = "hardware";

/// The recipe and step names in findings about the host's node.
const KUBERNETES: &str = "kubernetes";
const NODE: &str = "node";

/// Returns the paths that a step instance manages, completely or in part.
fn paths(turn: Option<&StepInstance<'_>>) -> Vec<String> {
    let Some(ExpansionState::Resource(resource)) = turn.map(|turn| &turn.expanded.state) else { return Vec::new() };
    let claims = resource.claims().into_iter().chain(resource.shares());
    claims.filter(|(kind, _)| *kind == "path").map(|(_, path)| path).collect()
}

/// Returns the step's name with its key.
fn name(step: &StepPlan) -> String {
    match &step.id.key {
        Some(key) => format!("{}[{key}]", step.id.step),
        None => step.id.step.to_string(),
    }
}

/// Returns the step as assessed by what was observed only; `None` if that is not conclusive: it cannot be assessed
/// before an earlier step has run.
fn alone(step: &StepPlan, ruling: &StepAssessment) -> Option<StepPlan> {
    let judged = &ruling.judgement;
    let certain = matches!(
        judged.verdict,
        StepVerdict::Ok | StepVerdict::NotApplicable | StepVerdict::Change | StepVerdict::Pending
    );
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
