//! Evaluates a workload: whether its current declaration is proven, and whether runs left objects behind.

use super::declaration::JobResource;
use crate::model::{DisruptionClass, StepVerdict, Value};
use crate::object::{
    ClusterCall, LeftoverObject, ObjectId, ObjectState, ProofState, ProvenRun, collect_images, find_image_source,
};
use crate::probe::Observation;
use crate::resource::cluster::object::{DesiredObjects, assess_objects, creation_change, render_object};
use crate::resource::shared::support::{object_state, proof};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ResourceDiff};
use serde::Serialize;
use serde_json::json;

/// How the proof of a workload differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct JobDiff {
    id: ObjectId,
    /// Objects that killed runs left behind: they may hold devices.
    left: Vec<LeftoverObject>,
    proof: ProofChange,
}

/// What happens to the recorded proof.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum ProofChange {
    Keep,
    /// The workload runs. `before` is a proof of another declaration; the text is that of the object, without secrets.
    Run {
        before: Option<ProvenRun>,
        text: String,
    },
    Discard {
        before: ProvenRun,
    },
}

impl ResourceDiff for JobDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let left = self.left.iter().map(|left| AttributeChange::new(&left.id.to_string(), Some("exists"), None));
        let proof = match &self.proof {
            ProofChange::Keep => None,
            ProofChange::Run { text, .. } => Some(creation_change(&self.id.to_string(), text)),
            ProofChange::Discard { before } => Some(AttributeChange::new("proof", Some(&before.time), None)),
        };
        left.chain(proof).collect()
    }
}

impl JobDiff {
    fn is_empty(&self) -> bool {
        self.left.is_empty() && self.proof == ProofChange::Keep
    }

    fn describe(&self) -> String {
        let left = self.left.iter().map(|left| format!("{} of run {} was not deleted", left.id, left.run));
        let id = &self.id;
        let proof = match &self.proof {
            ProofChange::Keep => None,
            ProofChange::Run { before: Some(proven), .. } => {
                Some(format!("{id} was proven for another declaration ({})", format_run(proven)))
            }
            ProofChange::Run { before: None, .. } => Some(format!("{id} is not proven")),
            ProofChange::Discard { before } => Some(format!("{id} was proven ({})", format_run(before))),
        };
        left.chain(proof).collect::<Vec<_>>().join("; ")
    }

    /// Returns the calls that delete leftovers, and run the workload or discard its proof.
    pub(super) fn build_calls(&self, job: &JobResource) -> Vec<ClusterCall> {
        let delete = |left: &LeftoverObject| ClusterCall::Delete { id: left.id.clone(), uid: left.uid.clone() };
        let proof = match &self.proof {
            ProofChange::Keep => None,
            ProofChange::Run { .. } => Some(ClusterCall::Job(Box::new(job.job_call()))),
            ProofChange::Discard { .. } => Some(ClusterCall::Unprove { id: self.id.clone() }),
        };
        self.left.iter().map(delete).chain(proof).collect()
    }
}

pub(super) fn assess_job(job: &JobResource, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<JobDiff> {
    let assessment = match proof(seen, &job.probe()) {
        Ok(state) if job.absent => return assess_removal(job, state),
        Ok(state) => assess_presence(job, state, seen, cx),
        Err(why) => Assessment::unknown(&why),
    };
    let images = if job.absent { Vec::new() } else { collect_images([&job.declared.object]) };
    let source = |image: &String| Some((image.clone(), find_image_source(&job.mirrors, image)?));
    let image_sources = images.iter().filter_map(source).collect();
    Assessment { images, image_sources, ..assessment }
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
) -> Assessment<JobDiff> {
    let mut diff = JobDiff { id: job.declared.id.clone(), left: state.left.clone(), proof: ProofChange::Keep };
    let mut predicted = false;
    match &state.proven {
        Some(proven) if proven.digest == job.proof_digest() => {
            if diff.is_empty() {
                return Assessment::ok(describe_proof(job, proven), proof_basis(state));
            }
        }
        before => {
            let possible = assess_feasibility(job, seen, cx);
            if possible.verdict != StepVerdict::Ok && possible.verdict != StepVerdict::Change {
                return Assessment { basis: proof_basis(state), ..possible };
            }
            predicted = possible.predicted;
            let text = render_object(&job.declared.object, cx.secrets);
            diff.proof = ProofChange::Run { before: before.clone(), text };
        }
    }
    let judgement = Assessment::differs(diff.describe(), diff, DisruptionClass::D0, proof_basis(state));
    Assessment { predicted, ..judgement }
}

/// Evaluates whether the workload could be created: its kind, its namespace, the API's dry run.
fn assess_feasibility(job: &JobResource, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<JobDiff> {
    let objects = std::slice::from_ref(&job.declared);
    let want =
        DesiredObjects { objects, absent: false, wait: None, disruption: DisruptionClass::D0, keeps_additions: false };
    // An object that another user created under this very name is unrelated: each run uses its own name.
    if let Ok(ObjectState::Known(info)) = object_state(seen, &job.declared.probe())
        && info.live.is_some()
    {
        return Assessment::ok("it could be created", Value::Null);
    }
    let alone = AssessmentContext { record: None, ..cx.clone() };
    assess_objects(&want, seen, &alone).with_diff(None)
}

fn assess_removal(job: &JobResource, state: &ProofState) -> Assessment<JobDiff> {
    let proof = match &state.proven {
        Some(proven) => ProofChange::Discard { before: proven.clone() },
        None => ProofChange::Keep,
    };
    let diff = JobDiff { id: job.declared.id.clone(), left: state.left.clone(), proof };
    match diff.is_empty() {
        true => Assessment::ok(format!("nothing is left of {}", job.declared.id), proof_basis(state)),
        false => Assessment::differs(diff.describe(), diff, DisruptionClass::D0, proof_basis(state)),
    }
}

fn describe_proof(job: &JobResource, proven: &ProvenRun) -> String {
    format!("{} {}, {}", job.declared.id, proven.said, format_run(proven))
}

fn format_run(proven: &ProvenRun) -> String {
    format!("run {} at {}", proven.run, proven.time)
}
