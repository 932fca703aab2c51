//! Differences of a step by attribute, and their cause.

use super::applied_record::{AppliedRecordView, attribute_text, to_comparable_value, value_text};
use super::cause::{
    self, AppliedAttribute, AttributeValue, DesiredAttribute, DriftCause, ObservedAttribute, rate_severity,
};
use super::model::{DriftFinding, LastApplied};
use crate::config::ExpansionState;
use crate::graph::{DependencyKind, GraphEdge};
use crate::model::{RecordIdentity, StepVerdict, UntrustedText, Value};
use crate::plan::{self, HostContext, StepInstance, StepPlan};
use crate::probe::KEY_LEFT_OUT;
use crate::resource::{AttributeChange, ChangeAspect, ChangeMark, RecordedValue};

/// Returns the differing attributes. A missing object is one finding, not one for each attribute. Of several objects,
/// each that is missing is a finding that names it.
pub(super) fn list_changed_attributes(step: &StepPlan) -> Vec<Option<AttributeChange>> {
    let missing = |change: &AttributeChange| change.from.is_none() && change.to.is_some() && !change.secret;
    match step.changes.as_slice() {
        [] => vec![None],
        [first, _, ..] if !first.whole && step.changes.iter().all(missing) => {
            let whole = AttributeChange {
                diff: first.diff.clone(),
                ..AttributeChange::new("exists", None, Some(PRESENT_VALUE)).with_aspect(ChangeAspect::Existence)
            };
            vec![Some(whole)]
        }
        changes => changes.iter().cloned().map(Some).collect(),
    }
}

/// The declared value of `exists`.
const PRESENT_VALUE: &str = "present";

/// Adds an attribute and its values to a finding.
pub(super) fn fill_attribute(finding: &mut DriftFinding, change: Option<&AttributeChange>) {
    let Some(change) = change else {
        finding.mark = ChangeMark { aspect: ChangeAspect::Whole, ..ChangeMark::default() };
        return;
    };
    finding.mark = change.mark.clone();
    finding.attribute = Some(change.attribute.to_string());
    finding.secret = change.secret;
    if !change.secret {
        finding.desired = change.to.clone();
        finding.observed = change.from.clone();
        finding.diff = change.diff.clone();
    }
}

/// Adds cause, severity and last apply to a finding.
pub(super) fn explain_cause(
    finding: &mut DriftFinding,
    step: &StepPlan,
    change: Option<&AttributeChange>,
    declared: &DeclaredStep,
    record: Option<&AppliedRecordView<'_>>,
) {
    let value = record.and_then(|record| last_applied_value(record, change, declared));
    finding.cause = classify_change(step.verdict, change, declared, (record, value.as_deref()));
    finding.severity = rate_severity(finding.cause, finding.verdict, finding.disruption);
    let is_known = value.is_some() || record.is_some_and(AppliedRecordView::is_removal);
    finding.uncompared = finding.cause == DriftCause::RecipeChanged && !is_known;
    finding.last_applied = record.map(|record| record.to_last_applied(value));
}

/// Returns the cause of a difference. The last argument is the record, with the value of the attribute in it.
fn classify_change(
    verdict: StepVerdict,
    change: Option<&AttributeChange>,
    declared: &DeclaredStep,
    (record, value): (Option<&AppliedRecordView<'_>>, Option<&str>),
) -> DriftCause {
    let (to, from) = match change.filter(|change| !change.secret) {
        Some(change) => (to_attribute_value(change.to.as_ref()), to_attribute_value(change.from.as_ref())),
        None => (AttributeValue::Untold, AttributeValue::Untold),
    };
    let is_run_state = change.is_some_and(|change| change.mark.aspect == ChangeAspect::RunState);
    let to = match to {
        AttributeValue::Value(word) if is_run_state => AttributeValue::Value(systemd_run_state(word)),
        to => to,
    };
    let desired = DesiredAttribute { digest: declared.digest.as_deref(), value: to, has_exports: declared.has_exports };
    let seen = ObservedAttribute { verdict, value: from };
    // The observed state of a command is a description: no value can be compared with it.
    let is_described = change.is_some_and(|change| {
        change.mark.aspect != ChangeAspect::Existence && !change.secret && !declared.is_comparable(change)
    });
    let last = record.map(|record| AppliedAttribute {
        digest: record.digest(),
        value: if is_described { AttributeValue::Untold } else { to_applied_value(record, value) },
    });
    cause::classify_cause(&desired, &seen, last.as_ref())
}

fn to_attribute_value(value: Option<&UntrustedText>) -> AttributeValue<'_> {
    to_comparable_value(value.map(UntrustedText::raw))
}

/// Returns the last applied value of an attribute, in the words in which it was observed; `None` if it is not known.
fn last_applied_value(
    record: &AppliedRecordView<'_>,
    change: Option<&AttributeChange>,
    declared: &DeclaredStep,
) -> Option<String> {
    let change = change.filter(|change| !change.secret && declared.is_recorded(record, &change.mark))?;
    match change.mark.aspect {
        ChangeAspect::Existence => (!record.is_removal()).then(|| PRESENT_VALUE.to_owned()),
        _ if !declared.is_comparable(change) => None,
        _ => recorded_value(record, change, declared).map(|value| match change.mark.aspect {
            ChangeAspect::RunState => systemd_run_state(&value).to_owned(),
            _ => value,
        }),
    }
}

/// Returns the recorded value of an attribute of which the declaration has the value in the words of the observation.
fn recorded_value(record: &AppliedRecordView<'_>, change: &AttributeChange, declared: &DeclaredStep) -> Option<String> {
    match change.mark.recorded {
        RecordedValue::Named => record.attribute_value(&change.attribute),
        RecordedValue::At(pointer) => record.value_at(pointer),
        RecordedValue::ImpliedBy(pointers) => {
            let is_same = pointers.iter().all(|pointer| record.is_equal_at(pointer, &declared.value));
            let declared = change.to.as_ref().filter(|_| is_same);
            declared.map(|to| to.raw().to_owned())
        }
    }
}

/// Returns the word of systemd, which observations have, for one of a declaration.
fn systemd_run_state(declared: &str) -> &str {
    match declared {
        "running" => "active",
        "stopped" => "inactive",
        other => other,
    }
}

fn to_applied_value<'v>(record: &AppliedRecordView<'_>, value: Option<&'v str>) -> AttributeValue<'v> {
    match value {
        _ if record.is_removal() => AttributeValue::Nothing,
        Some(value) => AttributeValue::Value(value),
        None => AttributeValue::Untold,
    }
}

/// The declaration of a step, for the comparison with its record.
#[derive(Clone, Debug, Default)]
pub(super) struct DeclaredStep {
    /// `None` if it cannot be computed.
    digest: Option<String>,
    /// Whether the declaration contains values that steps export.
    has_exports: bool,
    /// The declared value; `Null` if it is not known.
    value: Value,
    /// The objects that it declares; `None` if they are not known.
    identity: Option<RecordIdentity>,
}

impl DeclaredStep {
    pub(super) fn from_instance(case: &HostContext<'_>, turn: &StepInstance<'_>) -> Self {
        let exports = |edge: &GraphEdge| edge.why == DependencyKind::Export;
        let has_exports = case.graph.incoming_edges(turn.index).any(exports);
        let resource = match &turn.expanded.state {
            ExpansionState::Resource(resource) => Some(resource.as_ref()),
            _ => None,
        };
        Self {
            digest: digest_declared(case, turn),
            has_exports,
            value: resource.map(|resource| resource.desired_value()).unwrap_or_default(),
            identity: resource.map(plan::resource_identity),
        }
    }

    /// Reports whether the record is about the object of a change, and not about another one that the step declared
    /// before: another path, another package.
    fn is_recorded(&self, record: &AppliedRecordView<'_>, mark: &ChangeMark) -> bool {
        let (Some(now), Some(then)) = (&self.identity, record.identity()) else { return true };
        let listed = |claim: &(String, String)| then.claims.contains(claim) || then.part_of.contains(claim);
        match &mark.member {
            Some(member) => then.claims.iter().any(|(_, name)| **name == **member),
            None => now.claims.iter().chain(&now.part_of).all(listed),
        }
    }

    /// Reports whether a record has the attribute in the words of the observation: the declaration does, and both come
    /// from the kind in the same form. `enabled: true` is not comparable with `disabled`.
    fn is_comparable(&self, change: &AttributeChange) -> bool {
        let declared = match change.mark.recorded {
            RecordedValue::Named => attribute_text(&self.value, &change.attribute),
            RecordedValue::At(pointer) => self.value.pointer(pointer).and_then(value_text),
            RecordedValue::ImpliedBy(_) => return change.to.is_some(),
        };
        to_comparable_value(declared.as_deref()) == to_attribute_value(change.to.as_ref())
    }
}

/// Returns the digest of a declaration, in the form used in records.
fn digest_declared(case: &HostContext<'_>, turn: &StepInstance<'_>) -> Option<String> {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return None };
    let digest = plan::digest_desired(resource.as_ref(), case.ground.secrets, case.seen.key.as_deref());
    let left_out = case.seen.key.as_deref().is_none_or(|key| key == KEY_LEFT_OUT);
    (!digest.starts_with("keyed:") || !left_out).then_some(digest)
}

/// Why a verification does not pass, by all records of its recipe.
pub(super) struct VerificationCause {
    pub cause: DriftCause,
    /// The latest record of the recipe.
    pub last_applied: Option<LastApplied>,
    /// The run that applied the recipe and in which the verification did not pass either.
    pub failed_in: Option<UntrustedText>,
}

/// Returns the cause for a verification. One that did not pass in the apply either says nothing about what changed since.
pub(super) fn classify_verification_cause(case: &HostContext<'_>, recipe: &str, name: &str) -> VerificationCause {
    let turns = case.expand_local_steps();
    let own = turns.iter().filter(|turn| *turn.expanded.id.recipe == *recipe);
    let (mut latest, mut moved, mut unsure): (Option<LastApplied>, bool, bool) = (None, false, false);
    let mut failed_in = None;
    for turn in own {
        let Some(record) = case.find_record(&turn.expanded.id).map(AppliedRecordView::new) else { continue };
        let declared = DeclaredStep::from_instance(case, turn);
        let differs = declared.digest.is_some_and(|digest| digest != record.digest());
        moved |= differs && !declared.has_exports;
        unsure |= differs && declared.has_exports;
        let told = record.to_last_applied(None);
        if record.lacks_verification(name) {
            failed_in = Some(told.run.clone());
        }
        if latest.as_ref().is_none_or(|latest| latest.time < told.time) {
            latest = Some(told);
        }
    }
    let cause = match (&latest, moved, unsure || failed_in.is_some()) {
        (None, ..) | (Some(_), false, true) => DriftCause::Unknown,
        (Some(_), true, _) => DriftCause::RecipeChanged,
        (Some(_), false, false) => DriftCause::MachineChanged,
    };
    VerificationCause { cause, last_applied: latest, failed_in }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Declarations and systemd have other words for the state of a service.
    #[test]
    fn state_of_a_service_is_compared_in_the_words_of_systemd() {
        let record = json!({ "digest": "sha256:a", "value": { "state": "running", "enabled": true } });
        let record = AppliedRecordView::new(&record);
        let cause = |declared: &str, from: &str, to: &str, aspect: ChangeAspect| {
            let value = json!({ "state": declared, "enabled": declared == "running" });
            let declared = DeclaredStep { digest: Some("sha256:b".into()), value, ..DeclaredStep::default() };
            let attribute = if aspect == ChangeAspect::RunState { "state" } else { "enabled" };
            let change = AttributeChange::new(attribute, Some(from), Some(to)).with_aspect(aspect);
            let last = last_applied_value(&record, Some(&change), &declared);
            classify_change(StepVerdict::Change, Some(&change), &declared, (Some(&record), last.as_deref()))
        };
        let state = |declared, from| cause(declared, from, declared, ChangeAspect::RunState);
        assert_eq!(state("stopped", "active"), DriftCause::RecipeChanged);
        assert_eq!(state("running", "inactive"), DriftCause::MachineChanged, "another attribute was declared anew");
        assert_eq!(state("stopped", "failed"), DriftCause::Both);
        assert_eq!(cause("stopped", "enabled", "disabled", ChangeAspect::Enablement), DriftCause::RecipeChanged);
    }

    /// The value in the kernel is recorded as `value`; whether something is mounted follows from `state`.
    #[test]
    fn values_with_another_name_in_records_are_compared() {
        let record = json!({ "digest": "sha256:a", "value": { "value": "11", "state": "mounted" } });
        let record = AppliedRecordView::new(&record);
        let cause = |recorded: RecordedValue, from: Option<&str>, to: &str| {
            let value = json!({ "value": "12", "state": "mounted" });
            let declared = DeclaredStep { digest: Some("sha256:b".into()), value, ..DeclaredStep::default() };
            let change = AttributeChange::new("loaded", from, Some(to)).recorded(recorded);
            let last = last_applied_value(&record, Some(&change), &declared);
            classify_change(StepVerdict::Change, Some(&change), &declared, (Some(&record), last.as_deref()))
        };
        let at = RecordedValue::At("/value");
        assert_eq!(cause(at, Some("11"), "12"), DriftCause::RecipeChanged);
        assert_eq!(cause(at, Some("77"), "12"), DriftCause::Both);
        let implied = RecordedValue::ImpliedBy(&["/state"]);
        assert_eq!(cause(implied, None, "tmpfs (tmpfs)"), DriftCause::MachineChanged);
        assert_eq!(
            cause(RecordedValue::ImpliedBy(&["/state", "/entry"]), None, "x"),
            DriftCause::RecipeChanged,
            "not recorded"
        );
        assert_eq!(cause(RecordedValue::Named, Some("77"), "12"), DriftCause::RecipeChanged);
    }

    #[test]
    fn command_that_is_declared_again_after_its_removal_is_a_change_of_the_recipe() {
        let record = json!({ "digest": "sha256:a", "absent": true, "value": { "absent": true } });
        let record = AppliedRecordView::new(&record);
        let value = json!({ "check": "test -e /x", "apply": "touch /x", "content": "x" });
        let declared = DeclaredStep { digest: Some("sha256:b".into()), value, ..DeclaredStep::default() };
        let cause = |attribute: &str, from: &str, to: &str| {
            let change = AttributeChange::new(attribute, Some(from), Some(to));
            classify_change(StepVerdict::Change, Some(&change), &declared, (Some(&record), None))
        };
        assert_eq!(cause("command", "the check exited 1", "touch /x"), DriftCause::RecipeChanged);
        assert_eq!(cause("content", "by hand", "x"), DriftCause::Both, "a file that forge did not write");
    }
}
