//! Derives findings from a plan and the records of its hosts.

use super::applied_record::AppliedRecordView;
use super::cause::DriftCause;
use super::counters::CounterGrowth;
use super::explain::{
    DeclaredStep, VerificationCause, classify_verification_cause, explain_cause, fill_attribute,
    list_changed_attributes,
};
use super::finding_severity::FindingSeverity;
use super::health::{self, HostFault};
use super::ignore_rules::IgnoreRuleMatcher;
use super::model::{DriftFinding, FindingAspect, HostDrift, IgnoreRuleResult, UndecidedItem};
use super::test_proofs::{DueTests, list_due_tests};
use crate::config::{ExpansionState, StepExpander};
use crate::model::{DisruptionClass, HostName, StepVerdict, VerifyLevel};
use crate::plan::{
    self, HostContext, HostHold, HostPlan, HostReachability, HostWarning, ObservedHost, ObservedNode, Plan, PlanInputs,
    RELEASE_HINT, StepAssessment, StepInstance, StepPlan, StepPredictions, UndeclaredResource, VerifyPlan,
};
use crate::probe::UnansweredReason;
use crate::resource::{Assessment, ChangeMark, ChangedObject};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The result of a drift check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectedDrift {
    /// The check of each host, in the order of the plan.
    pub hosts: Vec<HostDrift>,
    /// The differences, by host in the order of the plan.
    pub findings: Vec<DriftFinding>,
    /// Steps, verifications and hardware facts that could not be evaluated.
    pub unknown: Vec<UndecidedItem>,
    /// Steps and verifications without a certain result: their findings are neither confirmed nor resolved.
    pub undecided: BTreeSet<(HostName, String, String)>,
    /// Steps and verifications with an ignored finding.
    pub ignored_steps: BTreeSet<(HostName, String, String)>,
    /// Hosts without any record, or with one that cannot be read: not all resources that are no longer declared are found
    /// on them.
    pub unrecorded: BTreeSet<HostName>,
    /// The entries of `drift.ignore` that matched something or have expired.
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
pub fn compute_drift(inputs: &PlanInputs<'_>, plan: &Plan, look: &DetectionContext<'_>) -> DetectedDrift {
    let expander = StepExpander::new(inputs.project);
    let ground = inputs.plan_context(&expander);
    let seen: BTreeMap<&HostName, &ObservedHost> = inputs.seen.iter().map(|seen| (&seen.host, seen)).collect();
    let mut passing = IgnoreRuleMatcher::new(inputs.project, look.now);
    let mut found = DetectedDrift::default();
    for host in &plan.hosts {
        let took = look.took.get(&host.host).copied().unwrap_or_default();
        let is_worked_on = seen.get(&host.host).is_some_and(|seen| seen.activity.is_some());
        let drift = start_host_drift(host, took);
        let (found, passing, now) = (&mut found, &mut passing, look.now);
        let mut of_one = HostDriftCollector { found, passing, plan: host, is_worked_on, now, drift };
        if let Some(case) = seen.get(&host.host).and_then(|seen| HostContext::new(ground, &host.host, seen)) {
            of_one.collect_findings(&case, look.grown.get(&host.host).unwrap_or(&CounterGrowth::new()));
        }
        let HostDriftCollector { found, drift, .. } = of_one;
        found.hosts.push(drift);
    }
    found.ignored = passing.list_rule_results();
    found
}

fn start_host_drift(plan: &HostPlan, took: Duration) -> HostDrift {
    let own = plan.hold.as_ref().map(warn_hold);
    HostDrift {
        host: plan.host.clone(),
        reach: plan.reach.clone(),
        settled: 0,
        follow: 0,
        warnings: plan.warnings.iter().cloned().chain(own).collect(),
        took,
    }
}

/// Returns the hint for the record of a step that was deleted from its recipe.
fn explain_how_to_forget(record: &AppliedRecordView<'_>) -> Option<String> {
    let file = record.file_name()?;
    Some(format!(
        "declare its removal; if it left nothing on the host, delete its record `/var/lib/forge/applied/{file}`"
    ))
}

/// Reports whether a recipe of the host has the step. Its record is then also about what the step declares now.
fn is_declared_step(case: &HostContext<'_>, recipe: &str, step: &str) -> bool {
    let name = step.split('[').next().unwrap_or(step);
    let own = case.instances().iter().filter(|instance| *instance.recipe.name == *recipe);
    own.flat_map(|instance| &instance.recipe.steps).any(|declared| *declared.name == *name)
}

fn warn_hold(hold: &HostHold) -> HostWarning {
    HostWarning { why: hold.describe().into(), hint: Some(RELEASE_HINT.to_owned()) }
}

/// The check of one host.
struct HostDriftCollector<'l, 'p> {
    found: &'l mut DetectedDrift,
    passing: &'l mut IgnoreRuleMatcher<'p>,
    plan: &'l HostPlan,
    /// Whether another run may be changing the host.
    is_worked_on: bool,
    now: &'l str,
    drift: HostDrift,
}

impl HostDriftCollector<'_, '_> {
    fn collect_findings(&mut self, case: &HostContext<'_>, grown: &CounterGrowth) {
        if self.plan.reach != HostReachability::Observed {
            return;
        }
        if case.seen.records.is_empty()
            || !plan::list_unreadable_records(case.seen, &case.ground.project.cluster).is_empty()
        {
            self.found.unrecorded.insert(self.plan.host.clone());
        }
        // Most of ten thousand hosts match; nothing more is evaluated for them.
        let quiet = self.plan.steps.iter().all(|step| step.verdict.is_settled() && step.envelope.is_none());
        let turns = if quiet { Vec::new() } else { case.expand_local_steps() };
        self.plan.steps.iter().for_each(|step| self.check_step(case, &turns, step));
        let changed = plan::list_changed_recipes(case, &turns, self.plan);
        for verify in &self.plan.verify {
            let judged = self.reassess_verification(case, &changed, verify);
            self.check_verification(case, judged.as_ref().unwrap_or(verify));
        }
        self.plan.undeclared.iter().for_each(|left| self.add_undeclared(case, left));
        if let Some(why) = case.seen.records_failure().filter(|_| !case.host.name.is_cluster()) {
            self.add_unread_records(case, &why);
        }
        for (fact, _) in health::HEALTH_FACTS {
            if let Some(Err(why)) = case.seen.facts.0.get(fact) {
                self.add_unreadable_fact(fact, why);
            }
        }
        self.check_node(case);
        self.check_window(case);
        if case.ground.filter.is_empty() {
            list_due_tests(case.ground.project, case.seen).into_iter().for_each(|due| self.add_due_tests(due));
        }
        for fault in health::detect_faults(&case.seen.facts, grown) {
            self.add_hardware_fault(fault);
        }
    }

    /// Adds a finding, unless it is ignored, or another run may be about to change that.
    fn push_finding(&mut self, finding: DriftFinding, paths: &[String]) {
        if self.is_worked_on && finding.aspect.is_changed_by_apply() {
            return self.defer_finding(finding, paths);
        }
        let (recipe, step) = (finding.recipe.raw(), finding.step.raw());
        match self.passing.try_ignore(recipe, step, paths) {
            true => self.record_ignored_step(recipe, step),
            false => self.found.findings.push(finding),
        }
    }

    /// Leaves a difference undecided: an alarm about what a run is about to change would be false. A step with
    /// several differences is listed once.
    fn defer_finding(&mut self, finding: DriftFinding, paths: &[String]) {
        let DriftFinding { host, recipe, step, aspect, reason, place, .. } = finding;
        self.mark_undecided(recipe.raw(), step.raw());
        let last = self.found.unknown.last();
        if last.is_some_and(|last| last.host == host && last.recipe == recipe && last.step == step) {
            return;
        }
        let reason = format!("not judged while a run works on the host: {}", reason.raw()).into();
        self.push_undecided(UndecidedItem { host, recipe, step, aspect, reason, hint: None, place }, paths);
    }

    fn push_undecided(&mut self, unsure: UndecidedItem, paths: &[String]) {
        let (recipe, step) = (unsure.recipe.raw(), unsure.step.raw());
        match self.passing.try_ignore(recipe, step, paths) {
            true => self.record_ignored_step(recipe, step),
            false => self.found.unknown.push(unsure),
        }
    }

    fn record_ignored_step(&mut self, recipe: &str, step: &str) {
        self.found.ignored_steps.insert((self.plan.host.clone(), recipe.to_owned(), step.to_owned()));
    }

    /// Without the records of a host it is not known whether something is left that is not declared any more.
    fn add_unread_records(&mut self, case: &HostContext<'_>, why: &UnansweredReason) {
        self.found.unrecorded.insert(self.plan.host.clone());
        self.mark_undecided(RECORDS, EVERY_STEP);
        let unsure = UndecidedItem {
            host: self.plan.host.clone(),
            recipe: RECORDS.into(),
            step: "host".into(),
            aspect: FindingAspect::Undeclared,
            reason: <Assessment>::unknown(why).reason,
            hint: case.seen.refusal_reason().map(|refused| refused.hint.raw().to_owned()),
            place: String::new(),
        };
        self.push_undecided(unsure, &[]);
    }

    fn add_unreadable_fact(&mut self, fact: &str, why: &UnansweredReason) {
        self.mark_undecided(HARDWARE, EVERY_STEP);
        let unsure = UndecidedItem {
            host: self.plan.host.clone(),
            recipe: HARDWARE.into(),
            step: fact.into(),
            aspect: FindingAspect::Health,
            reason: <Assessment>::unknown(why).reason,
            hint: None,
            place: String::new(),
        };
        self.push_undecided(unsure, &[]);
    }

    /// Reports a node that a run drained and did not uncordon: it takes no pods, even if every step matches.
    fn check_node(&mut self, case: &HostContext<'_>) {
        match case.seen.node.as_ref() {
            Some(ObservedNode::Node { name, left: Some(run), .. }) => {
                let finding = DriftFinding {
                    title: format!("node {} of Kubernetes", name.raw()).into(),
                    verdict: StepVerdict::Pending,
                    reason: format!("still drained by run {}", run.raw()).into(),
                    hint: Some("run `forge apply`: a successful apply uncordons it".to_owned()),
                    cause: DriftCause::Pending,
                    ..self.blank_finding(KUBERNETES, NODE, FindingAspect::Node)
                };
                self.push_finding(finding, &[]);
            }
            Some(ObservedNode::Unknown { why }) => {
                self.mark_undecided(KUBERNETES, NODE);
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
                self.push_undecided(unsure, &[]);
            }
            _ => {}
        }
    }

    /// Reports a host that a run did not bring back into service, unless its node is reported already.
    fn check_window(&mut self, case: &HostContext<'_>) {
        let is_reported = matches!(case.seen.node, Some(ObservedNode::Node { left: Some(_), .. }));
        let left = plan::left_open_by(case.seen, &case.ground.project.cluster).filter(|_| !is_reported);
        let Some(run) = left else { return };
        let finding = DriftFinding {
            title: "maintenance window".into(),
            verdict: StepVerdict::Pending,
            reason: format!("the window that run {} opened is still open", run.raw()).into(),
            hint: Some("run `forge apply`: it closes the window if the whole host matches and verifies".to_owned()),
            cause: DriftCause::Pending,
            ..self.blank_finding(ROLLOUT, WINDOW, FindingAspect::Window)
        };
        self.push_finding(finding, &[]);
    }

    /// Reports a set of acceptance tests whose results no longer hold, or are missing although required.
    fn add_due_tests(&mut self, due: DueTests) {
        if due.reasons.is_empty() {
            self.mark_undecided(TESTS, &due.set);
            let unsure = UndecidedItem {
                host: self.plan.host.clone(),
                recipe: TESTS.into(),
                step: due.set.as_str().into(),
                aspect: FindingAspect::Proof,
                reason: due.unknown.join("; ").into(),
                hint: None,
                place: String::new(),
            };
            return self.push_undecided(unsure, &[]);
        }
        let finding = DriftFinding {
            title: format!("tests `{}`", due.set).into(),
            verdict: StepVerdict::Pending,
            reason: due.reasons.join("; ").into(),
            hint: Some(format!("run `forge test --set {}`", due.set)),
            cause: DriftCause::TestDue,
            severity: if due.is_lapsed { FindingSeverity::Medium } else { FindingSeverity::Low },
            ..self.blank_finding(TESTS, &due.set, FindingAspect::Proof)
        };
        self.push_finding(finding, &[]);
    }

    fn add_hardware_fault(&mut self, fault: HostFault) {
        let finding = DriftFinding {
            kind: fault.kind.into(),
            title: format!("{} {}", fault.kind, fault.part).into(),
            reason: fault.reason.into(),
            cause: DriftCause::HardwareFault,
            severity: fault.severity,
            level: VerifyLevel::L3,
            action: Some(fault.action),
            attribute: Some(fault.aspect),
            ..self.blank_finding(HARDWARE, &format!("{} {}", fault.kind, fault.part), FindingAspect::Health)
        };
        self.push_finding(finding, &[]);
    }

    fn check_step(&mut self, case: &HostContext<'_>, turns: &[StepInstance<'_>], step: &StepPlan) {
        let turn = turns.iter().find(|turn| turn.expanded.id == step.id);
        let judged = match (&step.envelope, turn) {
            // A prediction of a plan is not an observation: assess the step by what was observed only.
            (Some(_), Some(turn)) => {
                let ruling = plan::assess_step(case, turn, turns, &StepPredictions::default());
                let check = plan::find_step_check(case, turn, &ruling);
                step_as_observed(step, &ruling).map(|step| StepPlan { check, ..step })
            }
            (Some(_), None) => None,
            (None, _) => Some(step.clone()),
        };
        match judged {
            None => self.count_follow_up(step),
            Some(step) => self.add_assessed_step(case, turn, &step),
        }
    }

    fn count_follow_up(&mut self, step: &StepPlan) {
        self.drift.follow += 1;
        self.mark_undecided(&step.id.recipe, &format_step_name(step));
    }

    fn add_assessed_step(&mut self, case: &HostContext<'_>, turn: Option<&StepInstance<'_>>, step: &StepPlan) {
        match step.verdict {
            StepVerdict::Ok => self.drift.settled += 1,
            StepVerdict::NotApplicable => {}
            StepVerdict::Unknown => self.add_undecided_step(turn, step),
            StepVerdict::Blocked(_) if self.merge_repeated_block(step) => {}
            StepVerdict::Change | StepVerdict::Pending | StepVerdict::Blocked(_) => {
                self.add_step_findings(case, turn, step)
            }
        }
    }

    fn add_undecided_step(&mut self, turn: Option<&StepInstance<'_>>, step: &StepPlan) {
        self.mark_undecided(&step.id.recipe, &format_step_name(step));
        let unsure = UndecidedItem {
            host: self.plan.host.clone(),
            recipe: (*step.id.recipe).into(),
            step: format_step_name(step).into(),
            aspect: FindingAspect::Step,
            reason: step.reason.clone(),
            hint: step.hint.clone(),
            place: step.place.to_string(),
        };
        self.push_undecided(unsure, &list_paths(turn));
    }

    fn mark_undecided(&mut self, recipe: &str, step: &str) {
        self.found.undecided.insert((self.plan.host.clone(), recipe.to_owned(), step.to_owned()));
    }

    /// Reports whether an earlier step of the recipe is blocked for the same reason: it is listed once, with a count.
    fn merge_repeated_block(&mut self, step: &StepPlan) -> bool {
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
        let name = format_step_name(step);
        self.mark_undecided(&step.id.recipe, &name);
        true
    }

    fn add_step_findings(&mut self, case: &HostContext<'_>, turn: Option<&StepInstance<'_>>, step: &StepPlan) {
        let record = case.find_record(&step.id).map(AppliedRecordView::new);
        let declared = turn.map(|turn| DeclaredStep::from_instance(case, turn)).unwrap_or_default();
        let paths = list_paths(turn);
        for change in list_changed_attributes(step) {
            let mut finding = self.build_step_finding(step);
            finding.path = paths.first().map(|path| path.as_str().into());
            fill_attribute(&mut finding, change.as_ref());
            finding.object = find_changed_object(turn, &finding.mark);
            explain_cause(&mut finding, step, change.as_ref(), &declared, record.as_ref());
            self.push_finding(finding, &paths);
        }
    }

    fn build_step_finding(&self, step: &StepPlan) -> DriftFinding {
        DriftFinding {
            kind: step.kind.as_str().into(),
            title: step.title.clone(),
            verdict: step.verdict,
            reason: step.reason.clone(),
            hint: step.hint.clone(),
            check: step.check.clone(),
            disruption: if step.by_reboot { DisruptionClass::D3 } else { step.disruption },
            level: step.level,
            place: step.place.to_string(),
            ..self.blank_finding(&step.id.recipe, &format_step_name(step), FindingAspect::Step)
        }
    }

    fn check_verification(&mut self, case: &HostContext<'_>, verify: &VerifyPlan) {
        match verify.verdict {
            StepVerdict::Ok => self.drift.settled += 1,
            StepVerdict::NotApplicable => {}
            // It is evaluated once the steps of its recipe match.
            StepVerdict::Pending => {
                self.drift.follow += 1;
                self.mark_undecided(&verify.recipe, &verify.name);
            }
            StepVerdict::Unknown => self.add_undecided_verification(verify),
            StepVerdict::Change | StepVerdict::Blocked(_) => {
                let finding = self.build_verification_finding(case, verify);
                self.push_finding(finding, &[]);
            }
        }
    }

    /// Evaluates a verification with the observed answers if only ignored findings keep it waiting, or if its recipe
    /// and those that it reads are declared as applied: the host changed since, and one change must not hide another.
    fn reassess_verification(
        &self,
        case: &HostContext<'_>,
        changed: &BTreeSet<&str>,
        verify: &VerifyPlan,
    ) -> Option<VerifyPlan> {
        let is_open = |recipe: &&str| self.has_open_step(recipe);
        let open: BTreeSet<&str> = changed.iter().copied().filter(is_open).collect();
        let waits = open.contains(&*verify.recipe) || plan::reads_recipes(case, verify, &open);
        if verify.verdict != StepVerdict::Pending || waits {
            return None;
        }
        let judged = plan::assess_waiting_verification(case, verify);
        // What cannot be asked now, such as a stopped service, can be once the steps match.
        judged.filter(|judged| judged.verdict != StepVerdict::Unknown || !self.has_open_step(&verify.recipe))
    }

    /// Reports whether a step of the recipe differs on this host without being ignored, or could not be evaluated.
    fn has_open_step(&self, recipe: &str) -> bool {
        let host = &self.plan.host;
        let found = self.found.findings.iter().rev().take_while(|finding| finding.host == *host);
        let first = (host.clone(), recipe.to_owned(), String::new());
        let undecided = self.found.undecided.range(first..).next();
        found.into_iter().any(|finding| finding.recipe.raw() == recipe && finding.aspect == FindingAspect::Step)
            || undecided.is_some_and(|(of, name, _)| of == host && name == recipe)
    }

    fn add_undecided_verification(&mut self, verify: &VerifyPlan) {
        self.mark_undecided(&verify.recipe, &verify.name);
        let unsure = UndecidedItem {
            host: self.plan.host.clone(),
            recipe: verify.recipe.as_str().into(),
            step: verify.name.as_str().into(),
            aspect: FindingAspect::Verification,
            reason: verify.reason.clone(),
            hint: None,
            place: verify.place.to_string(),
        };
        self.push_undecided(unsure, &[]);
    }

    /// Builds the finding of a verification. It has no record of its own: the records of its recipe show the cause.
    fn build_verification_finding(&self, case: &HostContext<'_>, verify: &VerifyPlan) -> DriftFinding {
        let VerificationCause { cause, last_applied, failed_in } =
            classify_verification_cause(case, &verify.recipe, &verify.name);
        let reason = match failed_in {
            Some(run) => format!("{}; it did not pass in run {} either", verify.reason.raw(), run.raw()).into(),
            None => verify.reason.clone(),
        };
        DriftFinding {
            verdict: verify.verdict,
            reason,
            check: verify.check.clone().map(Box::new),
            level: verify.level,
            place: verify.place.to_string(),
            object: find_verified_object(case, verify),
            cause,
            last_applied,
            severity: if cause == DriftCause::RecipeChanged { FindingSeverity::Low } else { FindingSeverity::High },
            ..self.blank_finding(&verify.recipe, &verify.name, FindingAspect::Verification)
        }
    }

    fn add_undeclared(&mut self, case: &HostContext<'_>, left: &UndeclaredResource) {
        let whole = left.step.raw();
        let (recipe, step) = whole.split_once('/').unwrap_or(("", whole));
        let record = case.seen.find_record(&case.ground.project.cluster, whole).map(AppliedRecordView::new);
        let is_path = record.as_ref().is_some_and(|record| record.is_about_path(left.title.raw()));
        let finding = DriftFinding {
            kind: left.kind.clone(),
            title: left.title.clone(),
            path: is_path.then(|| left.title.clone()),
            reason: "was applied and is no longer declared".into(),
            hint: record
                .as_ref()
                .filter(|_| !case.host.name.is_cluster() && !is_declared_step(case, recipe, step))
                .and_then(explain_how_to_forget),
            cause: DriftCause::NoLongerDeclared,
            severity: FindingSeverity::Low,
            last_applied: record.map(|record| record.to_last_applied(None)),
            // A step may have managed several objects over time.
            attribute: Some(left.title.raw().to_owned()),
            ..self.blank_finding(recipe, step, FindingAspect::Undeclared)
        };
        let paths = [left.title.raw().to_owned()];
        self.push_finding(finding, &paths);
    }

    fn blank_finding(&self, recipe: &str, step: &str, aspect: FindingAspect) -> DriftFinding {
        DriftFinding::blank(&self.plan.host, (recipe, step), aspect, self.now)
    }
}

/// Marks every step of a recipe as undecided.
pub(super) const EVERY_STEP: &str = "*";

/// The recipe name in findings about hardware.
const HARDWARE: &str = "hardware";

/// The recipe name of what the records of a host do not show.
const RECORDS: &str = "records";

/// The recipe name in findings about acceptance tests; the step is the set.
const TESTS: &str = "tests";

/// The recipe and step names in findings about the host's window.
const ROLLOUT: &str = "rollout";
const WINDOW: &str = "window";

/// The recipe and step names in findings about the host's node.
const KUBERNETES: &str = "kubernetes";
const NODE: &str = "node";

/// Returns the paths that a step instance manages, completely or in part.
fn list_paths(turn: Option<&StepInstance<'_>>) -> Vec<String> {
    let Some(ExpansionState::Resource(resource)) = turn.map(|turn| &turn.expanded.state) else { return Vec::new() };
    let claims = resource.exclusive_claims().into_iter().chain(resource.shared_claims());
    claims.filter(|(kind, _)| *kind == "path").map(|(_, path)| path).collect()
}

fn find_changed_object(turn: Option<&StepInstance<'_>>, mark: &ChangeMark) -> ChangedObject {
    match turn.map(|turn| &turn.expanded.state) {
        Some(ExpansionState::Resource(resource)) => resource.changed_object(mark),
        _ => ChangedObject::Nameless,
    }
}

/// Returns the object that a verification is about. It declares none: one that reads a fact of the kernel is about the
/// kernel.
fn find_verified_object(case: &HostContext<'_>, verify: &VerifyPlan) -> ChangedObject {
    let facts = plan::list_verified_facts(case, &verify.recipe, &verify.name);
    match facts.iter().any(|name| crate::facts::is_kernel_fact(name)) {
        true => ChangedObject::Kernel,
        false => ChangedObject::Nameless,
    }
}

/// Returns the step's name with its key.
fn format_step_name(step: &StepPlan) -> String {
    match &step.id.key {
        Some(key) => format!("{}[{key}]", step.id.step),
        None => step.id.step.to_string(),
    }
}

/// Returns the step as assessed by what was observed only; `None` if that is not conclusive: it cannot be assessed
/// before an earlier step has run.
fn step_as_observed(step: &StepPlan, ruling: &StepAssessment) -> Option<StepPlan> {
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
