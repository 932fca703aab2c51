//! Decides whether a step may run: compares the state seen just before the change with the plan.

use super::event::StepResult;
use super::host_report::report_as_planned;
use super::own_effects::OwnEffects;
use super::planned_steps::PlannedSteps;
use super::report::StepReport;
use crate::config::{ExpansionState, PendingInput};
use crate::model::{StepScope, StepVerdict};
use crate::plan::{self, HostContext, PredictedEffects, StepAssessment, StepInstance, StepPlan};
use crate::resource::{Assessment, AttributeChange};

/// Compares the current state with the state that the plan assumed.
pub(super) fn decide_action(
    planned: &PlannedSteps<'_>,
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    ruling: &StepAssessment,
    own: &OwnEffects<'_>,
) -> StepDecision {
    if let ExpansionState::Deferred(deferred) = &turn.expanded.state
        && let need @ PendingInput::Export { recipe, name, missing } = &deferred.need
    {
        return StepDecision::Leave(match missing.is_empty() {
            true => StepResult::Skipped { reason: format!("`{name}` of `{recipe}` was not exported").into() },
            false => StepResult::Unknown { reason: need.describe().into() },
        });
    }
    let judgement = &ruling.judgement;
    let reason = judgement.reason.clone();
    match judgement.verdict {
        StepVerdict::Ok => StepDecision::Leave(StepResult::AlreadyOk { reason }),
        StepVerdict::NotApplicable => StepDecision::Leave(StepResult::NotApplicable { reason }),
        StepVerdict::Pending => StepDecision::Leave(StepResult::Pending { reason }),
        StepVerdict::Blocked(class) => StepDecision::Leave(StepResult::Blocked { class, reason }),
        StepVerdict::Unknown => StepDecision::Leave(StepResult::Unknown { reason }),
        StepVerdict::Change => compare_with_plan(planned, case, turn, ruling, own),
    }
}

fn compare_with_plan(
    planned: &PlannedSteps<'_>,
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    ruling: &StepAssessment,
    own: &OwnEffects<'_>,
) -> StepDecision {
    let stale = |why: String| StepDecision::Leave(StepResult::Stale { reason: why.into() });
    let now = describe_changes(&ruling.judgement.changes);
    let Some(planned) = planned.find_instance(turn) else {
        return stale(format!("the plan does not contain this step; it would change {now}"));
    };
    match &planned.envelope {
        // A step that the plan holds back does not run, whatever it predicted of it.
        _ if planned.waits_for.is_some() || planned.held.is_some() => {
            StepDecision::Leave(report_as_planned(planned).result)
        }
        Some(envelope) if planned.verdict == StepVerdict::Change => {
            match describe_envelope_breach(planned, envelope, turn, ruling) {
                Some(why) => stale(format!("{why} ({now})")),
                // The plan shows other changes, and no step of it explains the difference.
                None if !planned.changes.is_empty()
                    && !own.may_concern(turn, planned)
                    && !own.are_planned(&planned.changes, &ruling.judgement.changes) =>
                {
                    stale(format!("planned: {}; now: {now}", describe_changes(&planned.changes)))
                }
                None => StepDecision::Act,
            }
        }
        // The cause may be on other hosts: only the plan, which sees all of them, can evaluate it.
        _ if turn.step.scope == StepScope::One && planned.verdict == StepVerdict::Unknown => {
            StepDecision::Leave(report_as_planned(planned).result)
        }
        // Only the plan of an undo expects nothing new in repositories. What the step found is still there; the obstacle
        // is not looked for again.
        _ if case.ground.project.generated
            && let StepVerdict::Blocked(class) = planned.verdict
            && planned.basis == ruling.basis =>
        {
            let reason = format!("in the plan: {}", planned.reason.raw()).into();
            StepDecision::Leave(StepResult::Blocked { class, reason })
        }
        _ if !planned.will_run() => {
            stale(format!("was `{}` in the plan; now it would change {now}", planned.verdict.name()))
        }
        _ if planned.basis == ruling.basis => StepDecision::Act,
        _ => stale(
            match plan::describe_changed_preconditions(
                &planned.before,
                &plan::collect_preconditions(case, turn, &ruling.judgement),
            ) {
                Some(moved) if !planned.before.is_empty() => moved,
                _ if describe_changes(&planned.changes) == now => format!("{now}: changed since the plan"),
                _ => format!("planned: {}; now: {now}", describe_changes(&planned.changes)),
            },
        ),
    }
}

/// Completes a stale step: what it would change now, when its host was observed, and which steps of this run acted on
/// the host since then. Names no cause, as it was not observed.
pub(super) fn complete_stale_result(
    result: StepResult,
    judgement: &Assessment,
    earlier: &[StepReport],
    observed: Option<jiff::Timestamp>,
) -> (StepResult, Vec<AttributeChange>) {
    let StepResult::Stale { reason } = result else { return (result, Vec::new()) };
    let acted = |step: &&StepReport| matches!(step.result, StepResult::Changed | StepResult::Failed { .. });
    let ran: Vec<&StepReport> = earlier.iter().filter(acted).collect();
    let reason = match ran.is_empty() {
        true => reason,
        false => {
            format!("{}; {} this run ran {}", reason.raw(), format_observed_since(observed), list_latest_steps(&ran))
                .into()
        }
    };
    (StepResult::Stale { reason }, judgement.changes.clone())
}

fn format_observed_since(observed: Option<jiff::Timestamp>) -> String {
    match observed {
        Some(time) => format!("observed at {}, since then", time.strftime("%Y-%m-%dT%H:%M:%SZ")),
        None => "before it".to_owned(),
    }
}

/// Names the steps that ran last, in order, and counts the earlier ones.
fn list_latest_steps(ran: &[&StepReport]) -> String {
    const NAMED: usize = 3;
    let before = ran.len().saturating_sub(NAMED);
    let names: Vec<String> = ran[before..].iter().map(|step| format!("`{}`", step.id)).collect();
    match before {
        0 => names.join(", "),
        more => format!("{} and {more} earlier", names.join(", ")),
    }
}

/// Returns how a change exceeds the plan's predicted effects, if it does.
fn describe_envelope_breach(
    planned: &StepPlan,
    envelope: &PredictedEffects,
    turn: &StepInstance<'_>,
    ruling: &StepAssessment,
) -> Option<String> {
    let (most, now) = (envelope.disruption.max(planned.disruption), ruling.judgement.disruption);
    if now > most {
        return Some(format!("the plan allows {most}, the change is now {now}"));
    }
    // A step went by its own name until its values were known.
    let resource = plan::describe_resource(turn);
    let open = format!("{} {}", turn.step.kind, turn.step.name);
    let same = envelope.resource.raw() == resource || envelope.resource.raw() == open;
    (!same).then(|| format!("the plan is for {}, this is {resource}", envelope.resource.raw()))
}

/// The action to take for a turn.
pub(super) enum StepDecision {
    Act,
    Leave(StepResult),
}

/// Returns the attributes of changes in one line: `content, mode "0600" → "0644"`.
pub(super) fn describe_changes(changes: &[crate::resource::AttributeChange]) -> String {
    let one = |change: &crate::resource::AttributeChange| match (&change.from, &change.to) {
        (Some(from), Some(to)) if change.diff.is_none() => {
            format!("{} {:?} → {:?}", change.attribute, from.raw(), to.raw())
        }
        (None, Some(to)) if change.diff.is_none() => format!("{} → {:?}", change.attribute, to.raw()),
        _ => change.attribute.to_string(),
    };
    match changes {
        [] => "unnamed changes".to_owned(),
        some => some.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DisruptionClass, StepId, Value};

    #[test]
    fn stale_step_names_steps_run_since_its_observation() {
        let change = AttributeChange::new("mode", Some("0600"), Some("0644"));
        let judgement = Assessment::change("mode differs", vec![change.clone()], DisruptionClass::D0, Value::Null);
        let stale = || StepResult::Stale { reason: "`mode` moved".into() };
        let ended = |name: &str, result| StepReport {
            id: StepId::new("web", name),
            title: name.into(),
            result,
            hint: None,
            check: None,
            changes: Vec::new(),
            took: Default::default(),
            place: String::new(),
        };
        let ok = || StepResult::AlreadyOk { reason: "unchanged".into() };
        let alone = complete_stale_result(stale(), &judgement, &[ended("a", ok())], None);
        assert_eq!(alone, (stale(), vec![change.clone()]), "nothing of this run acted");
        let told = |earlier: &[StepReport], observed| {
            let (StepResult::Stale { reason }, changes) = complete_stale_result(stale(), &judgement, earlier, observed)
            else {
                panic!()
            };
            assert_eq!(changes, std::slice::from_ref(&change));
            reason.raw().to_owned()
        };
        let earlier = [ended("nginx", StepResult::Changed), ended("a", ok())];
        assert_eq!(told(&earlier, None), "`mode` moved; before it this run ran `web/nginx`");
        let observed = Some("2026-11-20T12:01:03.5Z".parse().unwrap());
        let many: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| ended(name, StepResult::Changed)).into();
        assert_eq!(
            told(&many, observed),
            "`mode` moved; observed at 2026-11-20T12:01:03Z, since then this run ran `web/c`, `web/d`, `web/e` and \
             2 earlier"
        );
        assert_eq!(
            complete_stale_result(ok(), &judgement, &earlier, observed),
            (ok(), vec![]),
            "only stale steps get the addition"
        );
    }
}
