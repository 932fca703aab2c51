//! Differences of a step by attribute, and their cause.

use super::cause::{self, Cause, Desired, Last, Seen, Told, severity};
use super::last::{Applied, comparable};
use super::model::{Finding, LastApplied};
use crate::config::State;
use crate::model::Untrusted;
use crate::plan::{self, Case, StepPlan, Turn};
use crate::probe::KEY_LEFT_OUT;
use crate::resource::Change;

/// Returns the differing attributes. A missing object is one finding, not one for each attribute.
pub(super) fn attributes(step: &StepPlan) -> Vec<Option<Change>> {
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

/// The declared value of `exists`.
const PRESENT: &str = "present";

/// Adds an attribute and its values to a finding.
pub(super) fn tell(finding: &mut Finding, change: Option<&Change>) {
    let Some(change) = change else { return };
    finding.attribute = Some(change.attribute.to_string());
    finding.secret = change.secret;
    if !change.secret {
        finding.desired = change.to.clone();
        finding.observed = change.from.clone();
        finding.diff = change.diff.clone();
    }
}

/// Adds cause, severity and last apply to a finding.
pub(super) fn explain(
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

/// Returns the digest of a declaration, in the form used in records.
pub(super) fn declared(case: &Case<'_>, turn: &Turn<'_>) -> Option<String> {
    let State::Resource(resource) = &turn.expanded.state else { return None };
    let digest = plan::desired_digest(resource.as_ref(), case.ground.secrets, case.seen.key.as_deref());
    let left_out = case.seen.key.as_deref().is_none_or(|key| key == KEY_LEFT_OUT);
    (!digest.starts_with("keyed:") || !left_out).then_some(digest)
}

/// Returns the cause by all records of a recipe, and the latest record.
pub(super) fn of_recipe(case: &Case<'_>, recipe: &str) -> (Cause, Option<LastApplied>) {
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
