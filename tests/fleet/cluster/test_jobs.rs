//! Collectives that run as jobs of a real API: measured by the log of their launcher, without a result for each reason
//! that pods have, and deleted in every case.
//!
//! No pod runs there. The test plays the MPI operator, the scheduler and the kubelets: it creates the pods of each job,
//! binds them to the nodes that they ask for, reports their state, and serves recorded output of nccl-tests as their log.

use super::support::{Cluster, pod_path};
use crate::running_forge::RunningForge;
use crate::support::{Fleet, Node, Output, Project};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const LISTING: &str = include_str!("../../samples/all_reduce_perf.txt");
const OVER_IB: &str = include_str!("../../samples/nccl-log-ib.txt");
const OVER_SOCKETS: &str = include_str!("../../samples/nccl-log-socket.txt");
const JOBS: &str = "/apis/kubeflow.org/v2beta1/namespaces/test-jobs/mpijobs";

/// The kind of the MPI operator.
const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: mpijobs.kubeflow.org }
spec:
  group: kubeflow.org
  scope: Namespaced
  names: { kind: MPIJob, plural: mpijobs, singular: mpijob }
  versions:
    - name: v2beta1
      served: true
      storage: true
      subresources: { status: {} }
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
";

/// What happens to the pods of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Succeed,
    /// No node is free.
    StayPending,
    /// The image of the workers does not exist.
    NoImage,
    /// A worker uses too much memory, and the job fails.
    RunOutOfMemory,
    Run,
}

/// Operator, scheduler and kubelets.
struct Stage {
    fate: Arc<Mutex<Fate>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    logs: tempfile::TempDir,
    server: Child,
}

impl Stage {
    fn begin(api: &'static Cluster, nodes: &[Node]) -> Self {
        let logs = tempfile::tempdir().expect("a folder");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/cluster/log_server.py");
        let mut command = Command::new("python3");
        let mut server =
            command.arg(script).arg(logs.path()).stdout(Stdio::piped()).spawn().expect("python3 with its module ssl");
        let mut port = String::new();
        BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut port).expect("the port");
        let port: u16 = port.trim().parse().expect("a port");
        nodes.iter().for_each(|node| register(api, node, port));
        let (fate, stop) = (Arc::new(Mutex::new(Fate::Succeed)), Arc::new(AtomicBool::new(false)));
        let (shown, ends) = (fate.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let fate = *shown.lock().expect("a lock");
                play(api, fate);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let stage = Self { fate, stop, thread: Some(thread), logs, server };
        stage.write_log("worker", "");
        stage
    }

    fn set(&self, fate: Fate) {
        *self.fate.lock().expect("a lock") = fate;
    }

    fn write_log(&self, role: &str, text: &str) {
        std::fs::write(self.logs.path().join(format!("{role}.log")), text).expect("a file");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            drop(thread.join());
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn register(api: &Cluster, node: &Node, port: u16) {
    api.forget(&node.name);
    let object = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": node.name },
        "spec": { "taints": [{ "key": "forge.test/jobs", "effect": "NoSchedule" }] },
    });
    api.kubectl_with(&["create", "-f", "-"], &object.to_string());
    let status = json!({
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
    });
    api.tell(&format!("/api/v1/nodes/{}", node.name), &status);
}

fn play(api: &Cluster, fate: Fate) {
    let pods = api.pods("test-jobs");
    for job in api.list(JOBS) {
        let name = text(&job, "/metadata/name");
        let own: Vec<&Value> = pods.iter().filter(|pod| text(pod, "/metadata/labels/job-name") == name).collect();
        match own.as_slice() {
            [] if job["metadata"]["deletionTimestamp"].is_null() => create_pods(api, &job, fate),
            [] => {}
            own => report(api, &job, own, fate),
        }
    }
    pods.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).for_each(|pod| api.end_pod(pod));
}

/// Creates the pods as the operator does: from the templates, with the job as their owner.
fn create_pods(api: &Cluster, job: &Value, fate: Fate) {
    let name = text(job, "/metadata/name");
    let specs = &job["spec"]["mpiReplicaSpecs"];
    let workers = specs["Worker"]["replicas"].as_u64().expect("a number") as usize;
    let names = (0..workers).map(|at| ("Worker", format!("worker-{at}"))).chain([("Launcher", "launcher".to_owned())]);
    let targets = list_targets(&specs["Worker"]["template"]);
    for (at, (replica, suffix)) in names.enumerate() {
        let mut pod = specs[replica]["template"].clone();
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        pod["metadata"]["name"] = json!(format!("{name}-{suffix}"));
        pod["metadata"]["labels"]["job-name"] = json!(name);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": job["apiVersion"], "kind": job["kind"], "name": name, "uid": job["metadata"]["uid"], "controller": true,
        }]);
        let made = api.ask("POST", "/api/v1/namespaces/test-jobs/pods", &pod).expect("a pod that the API accepts");
        if fate != Fate::StayPending {
            api.bind_pod(&made, &targets[at % workers]);
        }
    }
}

/// Returns the nodes that a template permits.
fn list_targets(template: &Value) -> Vec<String> {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = template.pointer(terms).and_then(Value::as_array).expect("terms");
    terms.iter().map(|term| text(term, "/matchFields/0/values/0")).collect()
}

fn report(api: &Cluster, job: &Value, pods: &[&Value], fate: Fate) {
    let state = |state: Value| json!([{ "name": "main", "image": "x:1", "imageID": "", "ready": false, "restartCount": 0, "state": state }]);
    for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
        let is_launcher = text(pod, "/metadata/name").ends_with("-launcher");
        let is_first = text(pod, "/metadata/name").ends_with("-worker-0");
        let status = match fate {
            Fate::Succeed if is_launcher => json!({ "phase": "Succeeded" }),
            Fate::Succeed | Fate::Run => json!({ "phase": "Running" }),
            Fate::StayPending => {
                let message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.";
                json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message }] })
            }
            Fate::NoImage if is_launcher => json!({ "phase": "Running" }),
            Fate::NoImage => {
                json!({ "phase": "Pending", "containerStatuses": state(json!({ "waiting": { "reason": "ImagePullBackOff", "message": "not found" } })) })
            }
            Fate::RunOutOfMemory if is_first => {
                json!({ "phase": "Failed", "containerStatuses": state(json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } })) })
            }
            Fate::RunOutOfMemory => json!({ "phase": "Running" }),
        };
        api.tell(&pod_path(pod), &status);
    }
    let end = match fate {
        Fate::Succeed => "Succeeded",
        Fate::RunOutOfMemory => "Failed",
        Fate::StayPending | Fate::NoImage | Fate::Run => return,
    };
    let path = format!("{JOBS}/{}", text(job, "/metadata/name"));
    api.tell(
        &path,
        &json!({ "conditions": [{ "type": end, "status": "True", "reason": "MPIJobEnded", "message": "" }] }),
    );
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn project(api: &Cluster, nodes: &[Node]) -> Project {
    let entry = |set: &str, kind: &str, limit: &str| {
        let job = format!(
            "kind: {kind}, namespace: test-jobs, image: 'x:1', resources: {{ nvidia.com/gpu: 8, rdma/ib: 1 }}, \
             adapters: [mlx5_0], tolerations: [{{ key: forge.test/jobs, operator: Exists }}], start_within: 4s"
        );
        format!(
            "  {set}:\n    - {{ test: {limit}, on: all, least: 340, gpudirect: true, launch: {{ kubernetes: {{ {job} }} }} }}\n"
        )
    };
    let sets = [
        entry("quick", "MPIJob", "nccl-all-reduce-hosts"),
        entry("short", "MPIJob", "short"),
        entry("torch", "PyTorchJob", "nccl-all-reduce-hosts"),
    ];
    let short = "test: short\nscope: group\noutput: nccl\nlimit: 3s\nrank_command: [all_reduce_perf]\n\
                 command: [mpirun, --host, '{hosts}', 'env {mark} orted']\n";
    let inventory =
        format!("kubernetes: {{ kubeconfig: {}, context: test }}\ntests:\n{}", api.kubeconfig.display(), sets.concat());
    let name = format!("test-jobs-{}", nodes[0].name);
    Project::new(nodes).called(&name).inventory(&inventory).file("tests/short.yaml", short)
}

fn test(project: &Project, set: &str) -> (Output, Value) {
    let out = project.forge(["test", "inventory.yaml", "--yes", "--format", "json", "--set", set]);
    let report: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out}"));
    (out, report["tests"]["tests"][0]["rows"].clone())
}

fn reason(rows: &Value) -> String {
    rows[0]["verdict"].to_string()
}

/// Deletes the nodes that other tests left for these hosts. forge finds a node by its name or by its address.
fn delete_nodes(api: &Cluster, hosts: &[Node]) {
    for node in api.list("/api/v1/nodes") {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        let addresses: Vec<&str> = addresses.filter_map(|address| address["address"].as_str()).collect();
        if hosts.iter().any(|host| host.name == name || addresses.contains(&host.address.as_str())) {
            api.kubectl(&["delete", "node", &name]);
        }
    }
}

fn assert_nothing_left(api: &Cluster) {
    assert_eq!((api.list(JOBS).len(), api.pods("test-jobs").len()), (0, 0));
}

/// Starts a measurement that goes on until it is stopped, and returns once its pods run.
fn begin(api: &Cluster, project: &Project) -> RunningForge {
    let mut command = project.command(["test", "inventory.yaml", "--yes", "--set", "quick"]);
    let forge = RunningForge::start_heard(&mut command);
    api.wait(|| api.pods("test-jobs").iter().filter(|pod| pod["status"]["phase"] == "Running").count() == 3);
    forge
}

#[test]
fn collective_runs_as_a_job_and_leaves_nothing() {
    let Some(nodes) = Fleet::take(2) else { return };
    let Some(api) = Cluster::require() else { return };
    api.kubectl(&["create", "namespace", "test-jobs"]);
    api.until(&["-n", "test-jobs", "get", "serviceaccount", "default"]);
    let project = project(api, &nodes);
    delete_nodes(api, &nodes);
    let (out, rows) = test(&project, "quick");
    assert!(out.code == 9 && reason(&rows).contains("is not a node of the cluster"), "{out}");
    api.kubectl_with(&["apply", "-f", "-"], DEFINITION);
    api.until(&["get", "mpijobs", "-n", "test-jobs"]);
    let stage = Stage::begin(api, &nodes);
    // Its operator is not installed.
    let (out, rows) = test(&project, "torch");
    assert!(out.code == 9 && reason(&rows).contains("the cluster has no kind PyTorchJob of kubeflow.org/v1"), "{out}");

    stage.write_log("launcher", &format!("{OVER_IB}{LISTING}"));
    let (out, rows) = test(&project, "quick");
    assert!(out.code == 0 && reason(&rows).contains("360.97"), "{out}");
    assert_nothing_left(api);
    stage.write_log("launcher", &format!("{OVER_SOCKETS}{LISTING}"));
    let (out, rows) = test(&project, "quick");
    assert!(out.code == 5 && reason(&rows).contains("NCCL used sockets, not RDMA"), "{out}");
    stage.write_log("launcher", &format!("{OVER_IB}{LISTING}"));

    for (fate, set, why) in [
        (Fate::StayPending, "quick", "2 Insufficient nvidia.com/gpu"),
        (Fate::NoImage, "quick", "ImagePullBackOff: not found"),
        (Fate::RunOutOfMemory, "quick", "exited with code 137: OOMKilled"),
        (Fate::Run, "short", "the limit of 3 s stopped the job"),
    ] {
        stage.set(fate);
        let (out, rows) = test(&project, set);
        assert!(out.code == 9 && reason(&rows).contains(why), "{why}: {out}");
        assert_nothing_left(api);
    }

    stage.set(Fate::Run);
    let forge = begin(api, &project);
    forge.interrupt();
    let ended = forge.finish();
    assert_eq!(ended.code, 130, "{ended}");
    assert_nothing_left(api);

    // A killed forge leaves its job, which has a limit; the next run of tests on these hosts deletes it first.
    let mut forge = begin(api, &project);
    forge.kill();
    let left = api.list(JOBS);
    assert_eq!(left[0]["spec"]["runPolicy"]["activeDeadlineSeconds"], 664, "4 s to start, 600 s, and a minute");
    stage.set(Fate::Succeed);
    let (out, rows) = test(&project, "quick");
    assert!(out.code == 0 && reason(&rows).contains("360.97"), "{out}");
    assert_nothing_left(api);
    drop(stage);
    api.kubectl(&["delete", "crd", "mpijobs.kubeflow.org"]);
    nodes.iter().for_each(|node| api.forget(&node.name));
}
