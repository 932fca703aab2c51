//! Evaluates a workload: whether its current declaration is proven, and whether runs left objects behind.

use super::JobResource;
use crate::model::{DisruptionClass, StepVerdict, Value};
use crate::object::{ClusterCall, collect_images};
use crate::object::{LeftoverObject, ObjectState, ProofState, ProvenRun};
use crate::probe::Observation;
use crate::resource::cluster::object::{DesiredObjects, assess_objects as judge_objects, creation_change};
use crate::resource::shared::support::{object_state, proof};
use crate::resource::{Assessment, AssessmentContext, AttributeChange};
use serde_json::json;

pub(super) fn assess_job(job: &JobResource, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment {
    let state = match proof(seen, &job.probe()) {
        Ok(state) => state,
        Err(why) => return Assessment { images: job_images(job), ..Assessment::unknown(&why) },
    };
    match job.absent {
        true => assess_removal(job, state),
        false => Assessment { images: job_images(job), ..assess_presence(job, state, seen, cx) },
    }
}

fn job_images(job: &JobResource) -> Vec<String> {
    if job.absent { Vec::new() } else { collect_images([&job.declared.object]) }
}

fn proof_basis(state: &ProofState) -> Value {
    let left: Vec<String> = state.left.iter().map(|left| left.id.to_string()).collect();
    json!({ "proven": state.proven.as_ref().map(|proven| &proven.digest), "left": left })
}

fn assess_presence(
    job: &JobResource,
    state: &ProofState,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment {
    let (mut reasons, mut changes, mut calls) = leftover_changes(&state.left);
    let mut predicted = false;
    match &state.proven {
        Some(proven) if proven.digest == job.proof_digest() => {
            if reasons.is_empty() {
                return Assessment::ok(describe_proof(job, proven), proof_basis(state));
            }
        }
        before => {
            let possible = assess_feasibility(job, seen, cx);
            if possible.verdict != StepVerdict::Ok && possible.verdict != StepVerdict::Change {
                return Assessment { basis: proof_basis(state), ..possible };
            }
            predicted = possible.predicted;
            reasons.push(match before {
                Some(proven) => {
                    format!("{} was proven for another declaration ({})", job.declared.id, format_run(proven))
                }
                None => format!("{} is not proven", job.declared.id),
            });
            changes.push(creation_change(&job.declared.id.to_string(), &job.declared.object));
            calls.push(ClusterCall::Job(Box::new(job.job_call())));
        }
    }
    let judgement = Assessment::change(reasons.join("; "), changes, DisruptionClass::D0, proof_basis(state));
    Assessment { calls, predicted, ..judgement }
}

/// Evaluates whether the workload could be created: its kind, its namespace, the API's dry run.
fn assess_feasibility(job: &JobResource, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment {
    let objects = std::slice::from_ref(&job.declared);
    let want = DesiredObjects { objects, absent: false, wait: None, disruption: DisruptionClass::D0 };
    // An object that another user created under this very name is unrelated: each run uses its own name.
    if let Ok(ObjectState::Known(info)) = object_state(seen, &job.declared.probe())
        && info.live.is_some()
    {
        return Assessment::ok("it could be created", Value::Null);
    }
    let alone = AssessmentContext { record: None, ..cx.clone() };
    judge_objects(&want, seen, &alone)
}

fn assess_removal(job: &JobResource, state: &ProofState) -> Assessment {
    let (mut reasons, mut changes, mut calls) = leftover_changes(&state.left);
    if let Some(proven) = &state.proven {
        reasons.push(format!("{} was proven ({})", job.declared.id, format_run(proven)));
        changes.push(AttributeChange::new("proof", Some(&proven.time), None));
        calls.push(ClusterCall::Unprove { id: job.declared.id.clone() });
    }
    match calls.is_empty() {
        true => Assessment::ok(format!("nothing is left of {}", job.declared.id), proof_basis(state)),
        false => {
            let judgement = Assessment::change(reasons.join("; "), changes, DisruptionClass::D0, proof_basis(state));
            Assessment { calls, ..judgement }
        }
    }
}

/// Deletes objects that a killed run left behind, because they may hold devices.
fn leftover_changes(left: &[LeftoverObject]) -> (Vec<String>, Vec<AttributeChange>, Vec<ClusterCall>) {
    let reason = |left: &LeftoverObject| format!("{} of run {} was not deleted", left.id, left.run);
    let change = |left: &LeftoverObject| AttributeChange::new(&left.id.to_string(), Some("exists"), None);
    let call = |left: &LeftoverObject| ClusterCall::Delete { id: left.id.clone(), uid: left.uid.clone() };
    (left.iter().map(reason).collect(), left.iter().map(change).collect(), left.iter().map(call).collect())
}

fn describe_proof(job: &JobResource, proven: &ProvenRun) -> String {
    format!("{} {}, {}", job.declared.id, proven.said, format_run(proven))
}

fn format_run(proven: &ProvenRun) -> String {
    format!("run {} at {}", proven.run, proven.time)
}
