//! Changes that take back a later apply of the same cluster: another copy of the inventory was applied since this
//! declaration, and the host's record names both.

use super::declared_digest::digest_desired;
use super::host_context::{HostContext, StepInstance};
use super::model::{HostWarning, StepPlan};
use crate::config::{ExpansionState, format_first_names};
use crate::graph::DependencyKind;
use crate::model::{EarlierDeclaration, StepId, UntrustedText, Value};
use crate::resource::Resource;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Number of earlier declarations that a record keeps.
const KEPT_DECLARATIONS: usize = 4;

/// Returns the earlier declarations that the next record of a step lists, which has a digest: the latest first, without
/// the one that is applied now.
pub fn list_earlier_declarations(case: &HostContext<'_>, step: &StepId, digest: &str) -> Vec<EarlierDeclaration> {
    let Some(last) = case.find_record(step) else { return Vec::new() };
    let latest = EarlierDeclaration { digest: text_field(last, "digest"), run: text_field(last, "run") };
    let known = [latest].into_iter().chain(read_earlier_declarations(last));
    known.filter(|earlier| earlier.digest != digest).take(KEPT_DECLARATIONS).collect()
}

fn read_earlier_declarations(record: &Value) -> Vec<EarlierDeclaration> {
    let listed = record.get("earlier").map(Vec::deserialize);
    listed.and_then(Result::ok).unwrap_or_default()
}

fn text_field(record: &Value, key: &str) -> String {
    record.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a warning for each run whose declaration the changes of a host replace by an earlier one.
pub(super) fn warn_later_applies(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    steps: &[StepPlan],
) -> Vec<HostWarning> {
    if case.ground.project.generated || case.seen.records.is_empty() {
        return Vec::new();
    }
    // The run to take back: its ID, user and controller.
    let mut found: BTreeMap<[String; 3], Vec<&StepId>> = BTreeMap::new();
    for turn in turns {
        let id = &turn.expanded.id;
        let Some(record) = case.find_record(id).filter(|record| record.get("earlier").is_some()) else { continue };
        if takes_back(case, turn, record) && steps.iter().any(|step| step.id == *id && step.will_run()) {
            found.entry(["run", "user", "controller"].map(|key| text_field(record, key))).or_default().push(id);
        }
    }
    found.into_iter().map(|(later, steps)| build_warning(&later, &steps)).collect()
}

/// Reports whether a step declares what an earlier apply had, and the last one had something else. A value that a step
/// exports may have changed instead of the declaration.
fn takes_back(case: &HostContext<'_>, turn: &StepInstance<'_>, record: &Value) -> bool {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return false };
    if case.graph.incoming_edges(turn.index).any(|edge| edge.why == DependencyKind::Export) {
        return false;
    }
    let resource: &dyn Resource = resource.as_ref();
    let digest = digest_desired(resource, case.ground.secrets, case.seen.key.as_deref());
    text_field(record, "digest") != digest && read_earlier_declarations(record).iter().any(|one| one.digest == digest)
}

fn build_warning([run, user, controller]: &[String; 3], steps: &[&StepId]) -> HostWarning {
    let named: Vec<String> = steps.iter().map(|step| format!("`{step}`")).collect();
    let named = format_first_names(&named.iter().map(String::as_str).collect::<Vec<_>>());
    let why = format!(
        "takes back what run {run} by {user} on {controller} declared for {named}: the declaration here is that of an earlier \
         run"
    );
    HostWarning {
        why: UntrustedText::from(why),
        hint: Some("if that is not intended, bring this copy of the inventory and its recipes up to date".to_owned()),
    }
}
