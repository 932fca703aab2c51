//! Test workloads on a real API: proven once, reported with the reason if they fail, deleted in each case.
//!
//! No pod runs there, so the test simulates kubelet and scheduler: it writes the status of the pods.

use super::support::{Cluster, Helm, Site, pod_path};
use crate::running_forge::RunningForge;
use crate::support::Output;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Writes the same status to each pod of a namespace, and ends pods that are being deleted.
struct Kubelet {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    fn says(api: &'static Cluster, namespace: &str, status: Value) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (ends, namespace) = (stop.clone(), namespace.to_owned());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                for pod in api.pods(&namespace) {
                    match pod["metadata"]["deletionTimestamp"].is_null() {
                        true => api.tell(&pod_path(&pod), &status),
                        false => api.end_pod(&pod),
                    }
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            drop(thread.join());
        }
    }
}

fn succeeded() -> Value {
    json!({ "phase": "Succeeded" })
}

fn recipe(namespace: &str, more: &str, object: &str) -> String {
    format!(
        "recipe: smoke\nsummary: A workload.\nsteps:\n  - name: space\n    namespace: {{ name: {namespace} }}\n\
         \x20 - name: smoke\n    level: L4\n    job: {{ namespace: {namespace}{more}, object: {object} }}\n"
    )
}

const JOB: &str = "{ apiVersion: batch/v1, kind: Job, metadata: { name: smoke }, spec: { template: { spec: { containers: [{ name: main, image: 'x:1' }] } } } }";
const POD: &str = "{ apiVersion: v1, kind: Pod, metadata: { name: too-large }, spec: { containers: [{ name: main, image: 'x:1' }] } }";

fn site(api: &Cluster, name: &str, recipe: &str) -> Site {
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    let kubeconfig = api.kubeconfig.display();
    site.write(
        "inventory.yaml",
        &format!(
            "cluster: {name}\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\nkubernetes: {{ kubeconfig: {kubeconfig}, context: test }}\napply: [{{ recipe: smoke, on: all }}]\n"
        ),
    );
    site.write("recipes/smoke.yaml", recipe);
    // Pods need the service account that a controller creates.
    api.kubectl(&["create", "namespace", name]);
    api.until(&["-n", name, "get", "serviceaccount", "default"]);
    site
}

fn apply(site: &Site) -> Output {
    site.forge(&["apply", "inventory.yaml", "--yes"])
}

fn nothing_is_left(api: &Cluster, namespace: &str) {
    assert_eq!(api.kubectl(&["get", "jobs,pods", "-n", namespace, "-o", "name"]), "");
}

#[test]
fn workload_runs_once_and_again_if_its_declaration_changes() {
    let Some(api) = Cluster::require() else { return };
    let with = |driver: &str| recipe("job-proven", &format!(", within: 120s, for: {{ driver: '{driver}' }}"), JOB);
    let site = site(api, "job-proven", &with("550"));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("Job job-proven/smoke is not proven"), "{plan}");
    let _kubelet = Kubelet::says(api, "job-proven", succeeded());
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    nothing_is_left(api, "job-proven");
    let again = apply(&site);
    assert!(again.stdout.contains("no changes:"), "{again}");
    let why = site.forge(&["plan", "inventory.yaml", "-v"]);
    assert!(why.to_string().contains("Job job-proven/smoke succeeded after "), "{why}");
    let drift = site.forge(&["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 0, "{drift}");
    site.write("recipes/smoke.yaml", &with("560"));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("was proven for another declaration"), "{plan}");
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    nothing_is_left(api, "job-proven");
    assert!(apply(&site).stdout.contains("no changes:"));
    crate::proof::mark_api("job");
}

#[test]
fn failed_workload_reports_its_cause_and_is_deleted() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "job-failed", &recipe("job-failed", ", within: 120s", JOB));
    let broken = json!({ "name": "main", "image": "x:1", "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": { "exitCode": 3, "reason": "Error", "message": "no adapter" } } });
    let kubelet = Kubelet::says(api, "job-failed", json!({ "phase": "Failed", "containerStatuses": [broken] }));
    let out = apply(&site);
    assert_eq!(out.code, 3, "{out}");
    let text = out.to_string();
    assert!(text.contains("it failed: BackoffLimitExceeded"), "{out}");
    assert!(text.contains("exited with code 3: Error: no adapter"), "{out}");
    assert!(text.contains("(empty log)"), "a pod without a node has an empty log: {out}");
    nothing_is_left(api, "job-failed");
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("Job job-failed/smoke is not proven"), "{plan}");
    drop(kubelet);
    // A workload whose image cannot be pulled does not end.
    let waits = json!({ "name": "main", "image": "x:1", "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": { "reason": "ErrImagePull", "message": "no such image" } } });
    let _kubelet = Kubelet::says(api, "job-failed", json!({ "phase": "Pending", "containerStatuses": [waits] }));
    site.write(
        "recipes/smoke.yaml",
        &recipe("job-failed", ", within: 4s", &JOB.replace("template:", "activeDeadlineSeconds: 600, template:")),
    );
    let out = apply(&site);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.to_string().contains("not finished within 4 s: container main of pod smoke-"), "{out}");
    assert!(out.to_string().contains("is waiting: ErrImagePull: no such image"), "{out}");
    nothing_is_left(api, "job-failed");
}

#[test]
fn pending_workload_requires_a_scheduler_message() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "job-pending", &recipe("job-pending", ", stays_pending: 3s", POD));
    let out = apply(&site);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.to_string().contains("it stays pending and no reason is reported"), "{out}");
    let full = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
    let unplaced = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": full });
    let scheduler = Kubelet::says(api, "job-pending", json!({ "conditions": [unplaced] }));
    let out = apply(&site);
    assert_eq!(out.code, 0, "{out}");
    let told = site.forge(&["plan", "inventory.yaml", "-v"]);
    assert!(told.to_string().contains("stayed pending for 3 s: pod too-large-"), "{told}");
    assert!(told.to_string().contains(full), "{told}");
    nothing_is_left(api, "job-pending");
    drop(scheduler);
    let _kubelet = Kubelet::says(api, "job-pending", json!({ "phase": "Running" }));
    site.write("recipes/smoke.yaml", &recipe("job-pending", ", stays_pending: 20s", POD));
    let out = apply(&site);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.to_string().contains("expected to stay pending, but pod too-large-"), "{out}");
    nothing_is_left(api, "job-pending");
}

/// Starts an apply and returns it once its workload exists.
fn begun(api: &Cluster, site: &Site, namespace: &str) -> RunningForge {
    let mut command = site.command(&["apply", "inventory.yaml", "--yes"]);
    let forge = RunningForge::start_heard(&mut command);
    api.wait(|| !api.kubectl(&["get", "pods", "-n", namespace, "-o", "name"]).is_empty());
    forge
}

#[test]
fn workloads_of_stopped_and_killed_runs_are_deleted() {
    let Some(api) = Cluster::require() else { return };
    let site = site(api, "job-killed", &recipe("job-killed", ", within: 300s", JOB));
    let child = begun(api, &site, "job-killed");
    child.interrupt();
    let out = child.finish();
    assert!(out.to_string().contains("stopped with the run"), "{out}");
    nothing_is_left(api, "job-killed");

    let mut child = begun(api, &site, "job-killed");
    child.kill();
    assert!(api.kubectl(&["get", "jobs", "-n", "job-killed", "-o", "name"]).contains("job.batch/smoke-"));
    let plan = site.forge(&["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("was not deleted"), "{plan}");
    let _kubelet = Kubelet::says(api, "job-killed", succeeded());
    let mut out = apply(&site);
    for _ in 0..30 {
        if out.code != 7 {
            break;
        }
        std::thread::sleep(Duration::from_secs(2));
        out = apply(&site);
    }
    assert_eq!(out.code, 0, "{out}");
    nothing_is_left(api, "job-killed");
    assert!(apply(&site).stdout.contains("no changes:"));
}
