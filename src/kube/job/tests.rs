//! Runs against a server that stores objects, and reports the workload and pod status that the test defines.

use crate::artifact::server::{Reply, Request};
use crate::kube::tests::{json_reply, lock_cluster, start_api, status_reply};
use crate::kube::{ClusterReader, KubeError};
use crate::model::{SecretStore, Value};
use crate::object::ClusterCall;
use crate::object::{JobCall, JobEndPredicates, JobGoal, JobLogRules};
use crate::object::{ObjectId, ProofState};
use crate::probe::{Probe, ProbeReading};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The status that the API reports for a workload once it exists.
#[derive(Clone, Default)]
pub(super) struct SimulatedWorkload {
    pub status: Value,
    pub pods: Vec<Value>,
    pub groups: Vec<Value>,
    pub log: &'static str,
}

pub(super) type StoredObjects = Arc<Mutex<BTreeMap<String, Value>>>;

pub(super) fn reply_to(request: &Request, play: &SimulatedWorkload, kept: &StoredObjects) -> Reply {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut kept = kept.lock().unwrap();
    let list = |items: Value| json_reply(200, &json!({ "kind": "List", "metadata": {}, "items": items }));
    let running = kept.keys().any(|path| path.contains("/namespaces/ml/jobs/"));
    match (request.method.as_str(), path) {
        ("GET", "/apis/batch.volcano.sh/v1alpha1") => kinds_reply("jobs", "Job"),
        ("GET", "/apis/scheduling.volcano.sh/v1beta1") => kinds_reply("podgroups", "PodGroup"),
        ("GET", "/api/v1/namespaces/ml/pods") if running => list(json!(play.pods)),
        ("GET", "/api/v1/namespaces/ml/pods") => list(json!([])),
        ("GET", path) if path.ends_with("/log") => Reply { body: play.log.into(), ..Reply::status(200) },
        ("GET", path) if path.ends_with("/podgroups") => list(json!(play.groups)),
        ("GET", path) if path.ends_with("/jobs") => {
            assert!(query.contains("labelSelector=forge%2Fjob%3D"), "{query}");
            list(kept.iter().filter(|(key, _)| key.contains("/jobs/")).map(|(_, object)| object.clone()).collect())
        }
        ("GET", path) if path.ends_with("/events") => list(json!([])),
        ("GET", path) => match kept.get(path) {
            Some(object) => json_reply(200, &with_status(object, path, play)),
            None => status_reply(404, "not found", json!({})),
        },
        ("POST", path) => {
            let mut object: Value = serde_json::from_str(&request.body).unwrap();
            object["metadata"]["uid"] = json!("u1");
            object["metadata"]["resourceVersion"] = json!("1");
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            kept.insert(format!("{path}/{name}"), object.clone());
            json_reply(201, &object)
        }
        ("PATCH", path) => {
            let patch: Value = serde_json::from_str(&request.body).unwrap();
            let object = kept.entry(path.to_owned()).or_insert_with(|| json!({ "data": {} }));
            for (key, value) in patch["data"].as_object().cloned().unwrap_or_default() {
                object["data"][key] = value;
            }
            json_reply(200, object)
        }
        ("DELETE", path) => {
            kept.remove(path);
            json_reply(200, &json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
        }
        other => panic!("{other:?}"),
    }
}

fn kinds_reply(plural: &str, kind: &str) -> Reply {
    let resource = json!({ "name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["list"] });
    json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "x/v1", "resources": [resource] }))
}

fn with_status(object: &Value, path: &str, play: &SimulatedWorkload) -> Value {
    let mut object = object.clone();
    if path.contains("/jobs/") {
        object["status"] = play.status.clone();
    }
    object
}

fn id() -> ObjectId {
    ObjectId {
        api_version: "batch.volcano.sh/v1alpha1".to_owned(),
        kind: "Job".to_owned(),
        namespace: Some("ml".to_owned()),
        name: "gang".to_owned(),
    }
}

fn call(logs: JobLogRules, aim: impl FnOnce(JobEndPredicates) -> JobGoal) -> ClusterCall {
    let id = id();
    let signs = JobEndPredicates::for_kind(&id.api_version, &id.kind).unwrap();
    let metadata = json!({ "name": id.name, "namespace": "ml" });
    let object = json!({ "apiVersion": id.api_version, "kind": id.kind, "metadata": metadata, "spec": {} });
    ClusterCall::Job(Box::new(JobCall { id, object, digest: "sha256:d".to_owned(), aim: aim(signs), logs }))
}

fn goal_ends(signs: JobEndPredicates) -> JobGoal {
    JobGoal::Ends { signs, within_s: 2 }
}

fn pod(name: &str, phase: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "ml", "uid": name },
        "spec": { "nodeName": "gpu-1", "containers": [{ "name": "main" }] }, "status": { "phase": phase },
    })
}

struct JobRunResult {
    said: Result<String, KubeError>,
    /// Number of workloads that exist afterwards.
    left: usize,
    proof: ProofState,
}

async fn run_workload(call: &ClusterCall, play: SimulatedWorkload, stopped: bool) -> JobRunResult {
    let kept = StoredObjects::default();
    kept.lock().unwrap().insert("/api/v1/namespaces/forge-provisioner".to_owned(), json!({ "metadata": {} }));
    let (shown, own) = (kept.clone(), kept.clone());
    let (cluster, _server) = start_api(move |request| reply_to(request, &play, &shown)).await;
    let looker = ClusterReader::new(cluster, "lab");
    let writer = lock_cluster(&looker).await;
    let secrets = SecretStore::default();
    let said = writer.execute_call(call, Duration::from_secs(60), &secrets, &|_: &str| {}, &|| stopped).await;
    let left = own.lock().unwrap().keys().filter(|path| path.contains("/jobs/")).count();
    let probe = Probe::Proof { id: Box::new(id()) };
    let answers = looker.observe_probes(&[probe].into(), &secrets).await.unwrap();
    let Ok(ProbeReading::Proof(proof)) = answers.into_iter().next().unwrap().1 else { panic!("no proof") };
    JobRunResult { said, left, proof: *proof }
}

fn state(phase: &str) -> Value {
    json!({ "state": { "phase": phase } })
}

fn expect_log(text: &str) -> JobLogRules {
    JobLogRules { expect: vec![text.to_owned()], each: true, tail: 5, ..JobLogRules::default() }
}

#[tokio::test]
async fn successful_run_is_recorded_and_its_workload_deleted() {
    let play = SimulatedWorkload {
        status: state("Completed"),
        pods: vec![pod("a", "Succeeded")],
        log: "x: all well\n",
        ..SimulatedWorkload::default()
    };
    let done = run_workload(&call(expect_log("all well"), goal_ends), play, false).await;
    let said = done.said.unwrap();
    assert!(said.starts_with("Job ml/gang succeeded after ") && said.ends_with(" s on gpu-1"), "{said}");
    let proven = done.proof.proven.unwrap();
    assert_eq!(
        (proven.digest.as_str(), proven.run.as_str(), proven.time.as_str()),
        ("sha256:d", "r1", "1970-01-01T00:00:00Z")
    );
    assert_eq!((done.left, done.proof.left.len()), (0, 0));
}

#[tokio::test]
async fn succeeded_job_fails_if_its_logs_do_not_match() {
    let play = SimulatedWorkload {
        status: state("Completed"),
        pods: vec![pod("a", "Succeeded")],
        log: "NCCL INFO Using network Socket\n",
        ..SimulatedWorkload::default()
    };
    let done = run_workload(&call(expect_log("Using network IB"), goal_ends), play, false).await;
    let error = done.said.unwrap_err();
    assert!(error.message.contains("it succeeded, but `Using network IB` not found in the log of pod a"), "{error}");
    assert_eq!(error.said.as_deref(), Some("pod a, container main:\n  NCCL INFO Using network Socket\n"));
    assert_eq!((done.left, done.proof.proven), (0, None));
}

#[tokio::test]
async fn pending_gang_times_out_with_a_reason_and_is_deleted() {
    let message = "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable";
    let condition =
        json!({ "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message });
    let group =
        json!({ "metadata": { "ownerReferences": [{ "uid": "u1" }] }, "status": { "conditions": [condition] } });
    let other =
        json!({ "metadata": { "ownerReferences": [{ "uid": "u2" }] }, "status": { "conditions": [condition] } });
    let play = |groups: Vec<Value>| SimulatedWorkload {
        status: state("Pending"),
        pods: vec![pod("a", "Pending")],
        groups,
        ..SimulatedWorkload::default()
    };
    let done = run_workload(&call(JobLogRules::default(), goal_ends), play(vec![group.clone()]), false).await;
    let told = done.said.unwrap_err().message;
    assert!(
        told.ends_with(&format!("not finished within 2 s: pod group not scheduled: NotEnoughResources: {message}")),
        "{told}"
    );
    assert_eq!(done.left, 0);
    // The other way round, this is the expected outcome; another job's group gives no reason.
    let waits = |signs| JobGoal::StaysPending { signs, for_s: 1 };
    let done = run_workload(&call(JobLogRules::default(), waits), play(vec![group]), false).await;
    assert_eq!(
        done.said.unwrap(),
        format!("Job ml/gang stayed pending for 1 s: pod group not scheduled: NotEnoughResources: {message}")
    );
    assert!(done.proof.proven.is_some() && done.left == 0);
    let done = run_workload(&call(JobLogRules::default(), waits), play(vec![other]), false).await;
    assert!(done.said.unwrap_err().message.contains("it stays pending and no reason is reported"));
    let running =
        SimulatedWorkload { pods: vec![pod("a", "Running")], status: state("Running"), ..SimulatedWorkload::default() };
    let done = run_workload(&call(JobLogRules::default(), waits), running, false).await;
    assert!(done.said.unwrap_err().message.contains("expected to stay pending, but pod a started"));
    assert_eq!(done.left, 0);
}

#[tokio::test]
async fn stopped_job_is_deleted() {
    let play = SimulatedWorkload {
        status: state("Running"),
        pods: vec![pod("a", "Running")],
        log: "1\n2\n",
        ..SimulatedWorkload::default()
    };
    let logs = JobLogRules { tail: 1, ..JobLogRules::default() };
    let done = run_workload(&call(logs, |signs| JobGoal::Ends { signs, within_s: 600 }), play, true).await;
    let error = done.said.unwrap_err();
    assert!(error.message.contains("stopped with the run"), "{error}");
    assert_eq!(error.said.as_deref(), Some("pod a, container main:\n  2\n"));
    assert_eq!((done.left, done.proof.proven), (0, None));
}
