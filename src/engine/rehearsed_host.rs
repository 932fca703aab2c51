//! The rehearsal of one host: the results of its steps in the view, compared with the plan of the real host.

use super::event::{StepResult, VerifyResult};
use super::host_session::describe_transport_error;
use super::report::{HostReport, RunReport, StepReport, VerifyReport};
use crate::model::{HostName, HostOutcome, StepId, StepVerdict, UntrustedText};
use crate::plan::{
    DeclaredEffects, HostPlan, HostReachability, HostRehearsal, OngoingWork, Plan, RELEASE_HINT, RehearsedResult,
    RehearsedStep, RehearsedVerification, StepPlan, ViewChanges, find_undeclared_effects,
};
use crate::transport::TransportError;
use std::collections::BTreeMap;
use std::time::Duration;

/// The run in the views.
pub(super) struct RehearsedRun {
    /// The plan of the views.
    pub plan: Plan,
    pub report: RunReport,
    pub declared: BTreeMap<HostName, DeclaredEffects>,
}

/// Reports a host whose steps ran in its view.
pub(super) fn report_rehearsal(
    plan: &HostPlan,
    run: &RehearsedRun,
    changes: &Result<ViewChanges, String>,
    runs_systemd: bool,
    took: Duration,
) -> HostRehearsal {
    let Some(done) = run.report.hosts.iter().find(|host| host.host == plan.host) else { return report_cancelled(plan) };
    let in_view = run.plan.hosts.iter().find(|host| host.host == plan.host);
    let steps = compare_steps(plan, in_view, done);
    let verify: Vec<RehearsedVerification> = done.verify.iter().filter_map(read_verification).collect();
    let mut host = HostRehearsal { steps, verify, took, ..HostRehearsal::new(&plan.host, HostOutcome::Ok) };
    host.outcome = compute_outcome(&host);
    if matches!(
        done.outcome,
        HostOutcome::Unreachable | HostOutcome::Failed | HostOutcome::Blocked | HostOutcome::Locked
    ) {
        host.reason = done.reason.clone();
        host.hint = done.hint.clone();
    }
    if !runs_systemd {
        host.notes.push("systemd does not run on the host: its units are simulated in the view".into());
    }
    match changes {
        Ok(changes) => add_changes(&mut host, changes, run.declared.get(&plan.host)),
        Err(why) => {
            host.outcome = HostOutcome::Unknown;
            host.reason = format!("what changed in the view could not be read: {why}").into();
        }
    }
    host
}

fn add_changes(host: &mut HostRehearsal, changes: &ViewChanges, declared: Option<&DeclaredEffects>) {
    let nothing = DeclaredEffects::default();
    host.beyond = find_undeclared_effects(changes, declared.unwrap_or(&nothing));
    host.installed = changes.installed.clone();
    host.space = changes.space;
    if let Some(space) = changes.space.filter(|space| space.used_kib + space.size_kib / 50 >= space.size_kib) {
        host.notes.push(format!("the view is full: {} of {} KiB", space.used_kib, space.size_kib).into());
    }
    for (path, kind) in changes.hidden.iter().filter(|(_, kind)| kind != "tmpfs" && kind != "overlay") {
        host.notes.push(format!("`{path}` ({kind}) is empty in the view").into());
    }
}

/// Reports whether a step has to be in the report: it changes something, or the plan could not decide.
fn concerns_rehearsal(step: &StepPlan) -> bool {
    step.will_run() || matches!(step.verdict, StepVerdict::Change | StepVerdict::Blocked(_) | StepVerdict::Unknown)
}

/// Returns the steps of the plan with their results in the view, and steps that acted in the view only.
fn compare_steps(plan: &HostPlan, in_view: Option<&HostPlan>, done: &HostReport) -> Vec<RehearsedStep> {
    let planned = plan.steps.iter().filter(|step| concerns_rehearsal(step));
    let mut steps: Vec<RehearsedStep> = planned.clone().map(|step| compare_step(step, in_view, done)).collect();
    let is_planned = |id: &StepId| planned.clone().any(|step| step.id == *id);
    let others = done.steps.iter().filter(|step| !is_planned(&step.id));
    steps.extend(others.filter_map(|step| {
        let (result, reason, output) = read_result(&step.result);
        let acted = matches!(result, RehearsedResult::Changed | RehearsedResult::Failed);
        acted.then(|| build_step(step, (result, reason, output), true))
    }));
    steps
}

fn compare_step(planned: &StepPlan, in_view: Option<&HostPlan>, done: &HostReport) -> RehearsedStep {
    match done.steps.iter().find(|step| step.id == planned.id) {
        Some(step) => build_step(step, read_result(&step.result), false),
        None => RehearsedStep {
            id: planned.id.clone(),
            title: planned.title.clone(),
            result: RehearsedResult::NotRehearsed,
            reason: in_view
                .and_then(|plan| plan.steps.iter().find(|step| step.id == planned.id))
                .map_or_else(|| "it is not part of the plan of the view".into(), |step| step.reason.clone()),
            output: UntrustedText::default(),
            only_in_view: false,
            took: Duration::ZERO,
        },
    }
}

type ReadResult = (RehearsedResult, UntrustedText, UntrustedText);

fn build_step(step: &StepReport, (result, reason, output): ReadResult, only_in_view: bool) -> RehearsedStep {
    RehearsedStep {
        id: step.id.clone(),
        title: step.title.clone(),
        result,
        reason,
        output,
        only_in_view,
        took: step.took,
    }
}

/// Converts the result of a step in a view: a step that did not run there is not rehearsed, whatever the reason.
fn read_result(result: &StepResult) -> ReadResult {
    let none = UntrustedText::default;
    let left = |word: &str, reason: &UntrustedText| {
        (RehearsedResult::NotRehearsed, format!("{word}: {}", reason.raw()).into(), none())
    };
    match result {
        StepResult::Changed => (RehearsedResult::Changed, none(), none()),
        StepResult::Pending { reason } => (RehearsedResult::Pending, reason.clone(), none()),
        StepResult::AlreadyOk { reason } => (RehearsedResult::Unchanged, reason.clone(), none()),
        StepResult::Failed { failure } => (RehearsedResult::Failed, failure.why.clone(), failure.tail.clone()),
        StepResult::Blocked { reason, .. } => left("blocked", reason),
        StepResult::Unknown { reason } => left("unknown", reason),
        StepResult::Stale { reason } => left("stale", reason),
        StepResult::Skipped { reason } => left("skipped", reason),
        StepResult::Held { reason } => left("held back", reason),
        StepResult::NotApplicable { reason } => left("not applicable", reason),
        StepResult::Cancelled => (RehearsedResult::NotRehearsed, "the rehearsal ended before its turn".into(), none()),
    }
}

fn read_verification(verify: &VerifyReport) -> Option<RehearsedVerification> {
    let (unknown, reason) = match &verify.result {
        VerifyResult::Held | VerifyResult::NotApplicable { .. } | VerifyResult::Skipped { .. } => return None,
        VerifyResult::Failed { reason } => (false, reason),
        VerifyResult::Unknown { reason } => (true, reason),
    };
    let (recipe, name) = (verify.recipe.clone(), verify.name.clone());
    Some(RehearsedVerification { recipe, name, unknown, reason: reason.clone() })
}

fn compute_outcome(host: &HostRehearsal) -> HostOutcome {
    let any = |result| host.steps.iter().any(|step| step.result == result);
    match () {
        () if any(RehearsedResult::Failed) || host.verify.iter().any(|verify| !verify.unknown) => HostOutcome::Failed,
        () if any(RehearsedResult::NotRehearsed) || !host.verify.is_empty() => HostOutcome::Unknown,
        () if any(RehearsedResult::Changed) || any(RehearsedResult::Pending) => HostOutcome::Changed,
        () => HostOutcome::Ok,
    }
}

/// Reports a host of which no view could be made.
pub(super) fn report_no_view(plan: &HostPlan, error: &TransportError) -> HostRehearsal {
    let outcome = if error.is_unreachable() { HostOutcome::Unreachable } else { HostOutcome::Failed };
    let mut host = HostRehearsal::new(&plan.host, outcome);
    host.reason = describe_transport_error(error);
    host.hint = error.hint.as_deref().map(UntrustedText::from);
    host
}

/// Reports a host without changes. What its plan could not decide or holds back is not rehearsed either.
fn report_undecided_steps(plan: &HostPlan) -> HostRehearsal {
    let undecided = plan.steps.iter().filter(|step| concerns_rehearsal(step)).map(|step| RehearsedStep {
        id: step.id.clone(),
        title: step.title.clone(),
        result: RehearsedResult::NotRehearsed,
        reason: describe_undecided(plan, step),
        output: UntrustedText::default(),
        only_in_view: false,
        took: Duration::ZERO,
    });
    let mut host = HostRehearsal { steps: undecided.collect(), ..HostRehearsal::new(&plan.host, HostOutcome::Ok) };
    host.outcome = compute_outcome(&host);
    if let Some(hold) = plan.hold.as_ref().filter(|_| host.outcome != HostOutcome::Ok) {
        host.reason = hold.describe().into();
        host.hint = Some(RELEASE_HINT.into());
    }
    host
}

/// Returns why a step is not rehearsed. The hold of the whole host is the reason of the host.
fn describe_undecided(plan: &HostPlan, step: &StepPlan) -> UntrustedText {
    match &step.held {
        Some(held) if plan.hold.is_none() => format!("held back: {held}").into(),
        _ => step.reason.clone(),
    }
}

/// Reports a host without changes, or one that did not answer when it was planned.
pub(super) fn report_without_changes(plan: &HostPlan) -> HostRehearsal {
    match &plan.reach {
        HostReachability::Observed => report_undecided_steps(plan),
        HostReachability::Unreachable(why) => {
            let mut host = HostRehearsal::new(&plan.host, HostOutcome::Unreachable);
            host.reason = why.why.clone();
            host.hint = why.hint.clone();
            host
        }
    }
}

/// Reports a host whose rehearsal was stopped.
pub(super) fn report_cancelled(plan: &HostPlan) -> HostRehearsal {
    let mut host = HostRehearsal::new(&plan.host, HostOutcome::Cancelled);
    host.reason = "the rehearsal was stopped before its result was read".into();
    host
}

/// Leaves a host undecided on which another run worked when it was planned: that run changes the files below the view,
/// so it may have caused any result.
pub(super) fn defer_to_run(mut host: HostRehearsal, work: &OngoingWork) -> HostRehearsal {
    if !matches!(host.outcome, HostOutcome::Ok | HostOutcome::Changed | HostOutcome::Failed | HostOutcome::Unknown) {
        return host;
    }
    for step in host.steps.iter_mut().filter(|step| step.result == RehearsedResult::Failed) {
        step.result = RehearsedResult::NotRehearsed;
        step.reason = OngoingWork::defer_reason(&step.reason);
    }
    for verify in host.verify.iter_mut().filter(|verify| !verify.unknown) {
        verify.unknown = true;
        verify.reason = OngoingWork::defer_reason(&verify.reason);
    }
    host.outcome = HostOutcome::Unknown;
    host.notes.extend(Some(std::mem::replace(&mut host.reason, work.describe().into())).filter(|why| !why.is_empty()));
    host.hint = Some("the files below the view change meanwhile: wait for its end, then rehearse again".into());
    host
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExitCode;
    use crate::plan::{HostHold, REHEARSAL_VERSION, RehearsalReport};
    use crate::view::sample;

    /// The run may have caused the failure, or a result that looks good.
    #[test]
    fn nothing_is_certain_while_another_run_works_on_the_host() {
        let work = OngoingWork::Unit { name: "forge-r1-0001.service".to_owned(), since: "".into() };
        let host = |result| {
            let steps = vec![sample::step("p", "file", "/etc/p", StepVerdict::Change, "content differs")];
            let mut host = report_without_changes(&sample::observed_host("a", steps));
            host.steps[0].result = result;
            host.outcome = compute_outcome(&host);
            host
        };
        for (result, then) in [
            (RehearsedResult::Changed, RehearsedResult::Changed),
            (RehearsedResult::Failed, RehearsedResult::NotRehearsed),
        ] {
            let host = defer_to_run(host(result), &work);
            assert_eq!((host.outcome, host.steps[0].result), (HostOutcome::Unknown, then));
            assert_eq!(host.reason.raw(), work.describe());
            let report = RehearsalReport {
                version: REHEARSAL_VERSION,
                cluster: "c".into(),
                inventory: "i".into(),
                plan: sample::plan(Vec::new()).id,
                hosts: vec![host],
                left_out: Vec::new(),
                interrupted: false,
                took: Duration::ZERO,
            };
            assert_eq!(report.exit_code(true), ExitCode::Unknown);
        }
        let unreachable = HostRehearsal::new(&HostName::new("a"), HostOutcome::Unreachable);
        assert_eq!(defer_to_run(unreachable.clone(), &work), unreachable);
    }

    #[test]
    fn hold_is_named_as_the_reason_why_a_host_is_not_rehearsed() {
        let held = StepPlan {
            held: Some("the limit".into()),
            ..sample::step("p", "file", "/etc/p", StepVerdict::Change, "content differs")
        };
        let plan = sample::observed_host("a", vec![held]);
        let limited = report_without_changes(&plan);
        assert_eq!(limited.steps[0].reason.raw(), "held back: the limit");
        let hold = HostHold { why: "RMA 17".into(), by: "ann@ops".into(), since: "today".into(), until: None };
        let report = report_without_changes(&HostPlan { hold: Some(hold), ..plan });
        assert_eq!(report.reason.raw(), "on hold by ann@ops since today: RMA 17");
        assert_eq!(report.hint.unwrap().raw(), "`forge release` ends the hold");
        assert_eq!((report.outcome, report.steps[0].reason.raw()), (HostOutcome::Unknown, "content differs"));
    }
}
