//! Evaluates a workload: whether its current declaration is proven, and whether runs left objects behind.

use super::Job;
use crate::kube::{Call, images};
use crate::model::{Disruption, Value, Verdict};
use crate::probe::{Left, ObjectState, Observation, ProofState, Proven};
use crate::resource::object::{Want, judge as judge_objects, made};
use crate::resource::support::{object_state, proof};
use crate::resource::{Change, Context, Judgement};
use serde_json::json;

pub(super) fn judge(job: &Job, seen: &Observation, cx: &Context<'_>) -> Judgement {
    let state = match proof(seen, &job.probe()) {
        Ok(state) => state,
        Err(why) => return Judgement { images: images_of(job), ..Judgement::unknown(&why) },
    };
    match job.absent {
        true => removal(job, state),
        false => Judgement { images: images_of(job), ..presence(job, state, seen, cx) },
    }
}

fn images_of(job: &Job) -> Vec<String> {
    if job.absent { Vec::new() } else { images([&job.declared.object]) }
}

fn basis(state: &ProofState) -> Value {
    let left: Vec<String> = state.left.iter().map(|left| left.id.to_string()).collect();
    json!({ "proven": state.proven.as_ref().map(|proven| &proven.digest), "left": left })
}

fn presence(job: &Job, state: &ProofState, seen: &Observation, cx: &Context<'_>) -> Judgement {
    let (mut reasons, mut changes, mut calls) = leftovers(&state.left);
    let mut predicted = false;
    match &state.proven {
        Some(proven) if proven.digest == job.digest() => {
            if reasons.is_empty() {
                return Judgement::ok(proved(job, proven), basis(state));
            }
        }
        before => {
            let possible = possible(job, seen, cx);
            if possible.verdict != Verdict::Ok && possible.verdict != Verdict::Change {
                return Judgement { basis: basis(state), ..possible };
            }
            predicted = possible.predicted;
            reasons.push(match before {
                Some(proven) => format!("{} was proven for another declaration ({})", job.declared.id, at(proven)),
                None => format!("{} is not proven", job.declared.id),
            });
            changes.push(made(&job.declared.id.to_string(), &job.declared.object));
            calls.push(Call::Job(Box::new(job.call())));
        }
    }
    let judgement = Judgement::change(reasons.join("; "), changes, Disruption::D0, basis(state));
    Judgement { calls, predicted, ..judgement }
}

/// Evaluates whether the workload could be created: its kind, its namespace, the API's dry run.
fn possible(job: &Job, seen: &Observation, cx: &Context<'_>) -> Judgement {
    let objects = std::slice::from_ref(&job.declared);
    let want = Want { objects, absent: false, wait: None, disruption: Disruption::D0 };
    // An object that another user created under this very name is unrelated: each run uses its own name.
    if let Ok(ObjectState::Known(info)) = object_state(seen, &job.declared.probe())
        && info.live.is_some()
    {
        return Judgement::ok("it could be created", Value::Null);
    }
    let alone = Context { record: None, ..cx.clone() };
    judge_objects(&want, seen, &alone)
}

fn removal(job: &Job, state: &ProofState) -> Judgement {
    let (mut reasons, mut changes, mut calls) = leftovers(&state.left);
    if let Some(proven) = &state.proven {
        reasons.push(format!("{} was proven ({})", job.declared.id, at(proven)));
        changes.push(Change::new("proof", Some(&proven.time), None));
        calls.push(Call::Unprove { id: job.declared.id.clone() });
    }
    match calls.is_empty() {
        true => Judgement::ok(format!("nothing is left of {}", job.declared.id), basis(state)),
        false => {
            let judgement = Judgement::change(reasons.join("; "), changes, Disruption::D0, basis(state));
            Judgement { calls, ..judgement }
        }
    }
}

/// Deletes objects that a killed run left behind, because they may hold devices.
fn leftovers(left: &[Left]) -> (Vec<String>, Vec<Change>, Vec<Call>) {
    let reason = |left: &Left| format!("{} of run {} was not deleted", left.id, left.run);
    let change = |left: &Left| Change::new(&left.id.to_string(), Some("exists"), None);
    let call = |left: &Left| Call::Delete { id: left.id.clone(), uid: left.uid.clone() };
    (left.iter().map(reason).collect(), left.iter().map(change).collect(), left.iter().map(call).collect())
}

fn proved(job: &Job, proven: &Proven) -> String {
    format!("{} {}, {}", job.declared.id, proven.said, at(proven))
}

fn at(proven: &Proven) -> String {
    format!("run {} at {}", proven.run, proven.time)
}
