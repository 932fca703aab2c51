//! Jobs on a server that stores objects, and reports the status of the job and of its pods that the test defines.

use super::super::tests::{SimulatedWorkload, StoredObjects, reply_to};
use super::*;
use crate::kube::tests::start_api;
use serde_json::json;

const VOLCANO: (&str, &str) = ("batch.volcano.sh/v1alpha1", "Job");

fn call((api_version, kind): (&str, &str)) -> TestJobCall {
    let metadata = json!({
        "name": "forge-test", "namespace": "ml", "annotations": { TEST_HOSTS_ANNOTATION: r#"["gpu-1","gpu-2"]"# },
    });
    TestJobCall {
        object: json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {} }),
        cluster: "lab".to_owned(),
        run: "r1-0-0-0".to_owned(),
        pod_count: 2,
        start_within_s: 1,
        limit_s: 1,
        poll_interval: Duration::from_millis(300),
    }
}

fn pod(role: TestPodRole, status: Value) -> Value {
    json!({
        "metadata": { "name": role.name(), "namespace": "ml", "uid": role.name(), "labels": { TEST_ROLE_LABEL: role.name() } },
        "spec": { "nodeName": "gpu-1", "containers": [{ "name": "main" }] }, "status": status,
    })
}

fn pods(launcher: Value, worker: Value) -> Vec<Value> {
    vec![pod(TestPodRole::Launcher, launcher), pod(TestPodRole::Worker, worker)]
}

fn phase(name: &str) -> Value {
    json!({ "phase": name })
}

fn play(state: &str, pods: Vec<Value>) -> SimulatedWorkload {
    let status = json!({ "state": { "phase": state } });
    SimulatedWorkload { status, pods, log: "the log\n", ..SimulatedWorkload::default() }
}

/// Returns the outcome, and how many jobs exist afterwards.
async fn run(call: &TestJobCall, play: SimulatedWorkload, stopped: bool) -> (TestJobOutcome, usize) {
    let kept = StoredObjects::default();
    let shown = kept.clone();
    let (cluster, _server) = start_api(move |request| reply_to(request, &play, &shown)).await;
    let outcome = cluster.run_test_job(call, &|| stopped).await;
    let left = kept.lock().unwrap().keys().filter(|path| path.contains("/jobs/")).count();
    (outcome, left)
}

#[tokio::test]
async fn log_of_the_launcher_is_read_before_the_job_is_deleted() {
    let done = play("Completed", pods(phase("Succeeded"), phase("Running")));
    let (outcome, left) = run(&call(VOLCANO), done, false).await;
    let log = TestPodLog { pod: "launcher".to_owned(), has_result: true, text: Ok("the log\n".to_owned()) };
    assert_eq!(outcome, TestJobOutcome { end: TestJobEnd::Succeeded, logs: vec![log], left: None });
    assert_eq!(left, 0);
}

/// Each way in which a job has no result ends with the reason of the pod, and without the job.
#[tokio::test]
async fn job_without_a_result_has_the_reason_of_its_pod_and_is_deleted() {
    let killed = json!({ "phase": "Failed", "containerStatuses": [{ "name": "main", "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] });
    let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." });
    let full = "0/3 nodes are available: 2 Insufficient nvidia.com/gpu.";
    let unplaced =
        json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "message": full }] });
    let unpulled = json!({ "phase": "Pending", "containerStatuses": [{ "name": "main", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } } }] });
    let cases = [
        (
            play("Aborted", pods(phase("Running"), killed)),
            TestJobEnd::Failed("container main of pod worker exited with code 137: OOMKilled".to_owned()),
        ),
        (
            play("Failed", pods(phase("Running"), evicted)),
            TestJobEnd::Failed("pod worker failed: Evicted: The node was low on resource: memory.".to_owned()),
        ),
        (play("Failed", Vec::new()), TestJobEnd::Failed("the job failed".to_owned())),
        (
            play("Pending", pods(phase("Running"), unplaced)),
            TestJobEnd::NotStarted(format!("pod worker not scheduled: {full}")),
        ),
        (
            play("Pending", pods(phase("Running"), unpulled)),
            TestJobEnd::NotStarted(
                "container main of pod worker is waiting: ImagePullBackOff: no such image".to_owned(),
            ),
        ),
        (
            play("Pending", Vec::new()),
            TestJobEnd::NotStarted("0 of 2 pods exist, and the API gives no reason".to_owned()),
        ),
        (play("Running", pods(phase("Running"), phase("Running"))), TestJobEnd::OutOfTime),
    ];
    for (play, expected) in cases {
        let (outcome, left) = run(&call(VOLCANO), play, false).await;
        assert_eq!((outcome.end, outcome.left, left), (expected, None, 0));
    }
}

#[tokio::test]
async fn stopped_job_is_deleted_and_keeps_a_result_that_it_has() {
    let running = || pods(phase("Running"), phase("Running"));
    let (outcome, left) = run(&call(VOLCANO), play("Running", running()), true).await;
    assert_eq!((outcome.end, outcome.logs.len(), left), (TestJobEnd::Stopped, 1, 0));
    let (outcome, left) = run(&call(VOLCANO), play("Completed", running()), true).await;
    assert_eq!((outcome.end, left), (TestJobEnd::Succeeded, 0), "it ended before the request");
}

#[tokio::test]
async fn kind_that_the_cluster_does_not_have_is_named_as_such() {
    let (outcome, _) = run(&call(("kubeflow.org/v1", "PyTorchJob")), SimulatedWorkload::default(), false).await;
    assert_eq!(outcome, TestJobOutcome { end: TestJobEnd::NoSuchKind, logs: Vec::new(), left: None });
}

#[tokio::test]
async fn job_of_a_killed_run_is_found_with_its_hosts_and_deleted() {
    let kept = StoredObjects::default();
    let (shown, workload) = (kept.clone(), play("Running", Vec::new()));
    let (cluster, _server) = start_api(move |request| reply_to(request, &workload, &shown)).await;
    let id = ObjectId::from_object(&call(VOLCANO).object).unwrap();
    let labels = RunLabels { job: job_label_value("lab", &id), run: "r0-0-0-0".to_owned() };
    let object = build_run_object(&call(VOLCANO).object, &labels);
    let place = cluster.find_collection(&id, &ApiKindCache::default()).await.unwrap().unwrap();
    cluster.create_workload(place, &object, &labels).await.unwrap();
    let left = cluster.list_test_jobs("lab", &id).await.unwrap();
    assert_eq!(left.iter().map(|job| job.hosts.join(" ")).collect::<Vec<_>>(), ["gpu-1 gpu-2"]);
    cluster.delete_test_job(&left[0]).await.unwrap();
    assert_eq!(cluster.list_test_jobs("lab", &id).await.unwrap().len(), 0);
    let missing = ObjectId { api_version: "kubeflow.org/v1".to_owned(), kind: "PyTorchJob".to_owned(), ..id };
    assert_eq!(cluster.list_test_jobs("lab", &missing).await.unwrap().len(), 0, "no kind, no job");
}
