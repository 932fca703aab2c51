//! Hosts that are nodes of a real API: cordoned, drained, changed and uncordoned, also after a kill.
//!
//! Nothing runs pods there, so the test simulates the kubelet: it reports pods as running, and ends those that are
//! being deleted.

use super::support::Cluster;
use crate::support::{Fleet, Node, Output, Project};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const CLAIM: &str = "forge/cordoned";

const DRIVER: &str = "recipe: driver
summary: A change that takes the host out of service
params:
  version: { type: version, default: 1.0-1 }
steps:
  - name: slow
    disruption: D2
    command: { check: 'test \"$(cat /etc/driver 2>/dev/null)\" = {{ params.version }}', apply: 'date +%s%N >/etc/began; sleep 2; echo {{ params.version }} >/etc/driver; date +%s%N >/etc/ended' }
";

/// Ends pods that are being deleted, like the kubelets of their nodes, and counts the nodes that are cordoned at once.
pub struct Kubelet {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Kubelet {
    pub fn of(api: &'static Cluster, nodes: &[Node]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (ends, names) = (stop.clone(), nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>());
        let thread = std::thread::spawn(move || {
            let mut most = 0;
            while !ends.load(Ordering::Relaxed) {
                let pods = api.list("/api/v1/pods");
                for pod in pods.iter().filter(|pod| names.iter().any(|name| pod["spec"]["nodeName"] == **name)) {
                    if !pod["metadata"]["deletionTimestamp"].is_null() {
                        api.end_pod(pod);
                    }
                }
                let cordoned = api.nodes().into_iter().filter(|node| {
                    names.iter().any(|name| node["metadata"]["name"] == **name) && node["spec"]["unschedulable"] == true
                });
                most = most.max(cordoned.count());
                std::thread::sleep(Duration::from_millis(100));
            }
            most
        });
        Self { stop, thread: Some(thread) }
    }

    /// Returns the maximum number of nodes that were cordoned at the same time.
    pub fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("it ends")
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Creates nodes for the hosts, and a namespace for the test.
pub fn join(api: &Cluster, nodes: &[Node], namespace: &str) {
    for node in nodes {
        api.forget(&node.name);
        // Other tests share the API, and one of them starts a scheduler: their pods must not come here.
        let object = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": node.name },
            "spec": { "taints": [{ "key": "forge.test/drain", "effect": "NoSchedule" }] },
        });
        api.kubectl_with(&["create", "-f", "-"], &object.to_string());
    }
    api.kubectl_with(&["create", "namespace", namespace], "");
    api.until(&["-n", namespace, "get", "serviceaccount", "default"]);
}

/// Runs a pod on every node that is recreated after its deletion: a real ReplicaSet with as many pods as nodes.
pub fn run(api: &Cluster, nodes: &[Node], namespace: &str) {
    let labels = json!({ "app": "train" });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "train", "namespace": namespace },
        "spec": {
            "replicas": nodes.len(), "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "none:1" }] } },
        },
    });
    api.kubectl_with(&["create", "-f", "-"], &set.to_string());
    let mut pods = Vec::new();
    for _ in 0..100 {
        pods = api.pods(namespace);
        if pods.len() == nodes.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(pods.len(), nodes.len());
    for (pod, node) in pods.iter().zip(nodes) {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node.name },
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
        api.kubectl_with(&["create", "--raw", &path, "-f", "-"], &binding.to_string());
        let running = json!({ "status": { "phase": "Running" } }).to_string();
        api.kubectl_with(
            &["-n", namespace, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", &running],
            "",
        );
    }
}

fn project(api: &Cluster, nodes: &[Node], drain: &str) -> Project {
    let name = format!("drain-{}", nodes[0].name);
    Project::new(nodes).called(&name).recipe("driver", DRIVER).inventory(&inventory(api, drain, "1.0-1"))
}

fn inventory(api: &Cluster, drain: &str, version: &str) -> String {
    format!(
        "rollout: {{ max_unavailable: 1, drain: {{ kubernetes: {{ group: all, {drain} }} }} }}\n\
         kubernetes: {{ kubeconfig: {}, context: test }}\n\
         apply:\n  - {{ recipe: driver, on: all, with: {{ version: {version} }} }}\n",
        api.kubeconfig.display()
    )
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes", "--json-into", "report.json"])
}

/// Returns whether a node is cordoned, and whether it has forge's annotation.
pub fn inspect_node(api: &Cluster, node: &Node) -> (bool, bool) {
    let all = api.nodes();
    let found = all.iter().find(|found| found["metadata"]["name"] == *node.name).expect("the node");
    (found["spec"]["unschedulable"] == true, !found["metadata"]["annotations"][CLAIM].is_null())
}

pub fn pods_of(api: &Cluster, node: &Node) -> usize {
    let is_daemon = |pod: &Value| pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet";
    let own = |pod: &&Value| pod["spec"]["nodeName"] == *node.name && !is_daemon(pod);
    api.list("/api/v1/pods").iter().filter(own).count()
}

fn as_declared(project: &Project) {
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "{plan}");
}

#[test]
fn nodes_are_drained_one_at_a_time_and_user_cordons_are_kept() {
    let Some(nodes) = Fleet::take(3) else { return };
    let Some(api) = Cluster::require() else { return };
    join(api, &nodes, "drain-three");
    run(api, &nodes, "drain-three");
    api.kubectl_with(&["cordon", &nodes[1].name], "");
    let project = project(api, &nodes, "timeout: 60s");
    let plan = project.forge(["plan", "inventory.yaml"]);
    let told = format!("drain: Kubernetes node {} first", nodes[0].name);
    assert!(plan.stdout.contains(&told), "{plan}");
    assert_eq!(inspect_node(api, &nodes[0]), (false, false), "a plan changes nothing");

    let kubelet = Kubelet::of(api, &nodes);
    let out = apply(&project);
    let most = kubelet.end();
    assert_eq!(out.code, 0, "{out}");
    // The node that a person cordoned, and one more.
    assert_eq!(most, 2, "{out}");
    for (at, node) in nodes.iter().enumerate() {
        assert_eq!((inspect_node(api, node), pods_of(api, node)), ((at == 1, false), 0), "{}", node.name);
        assert_eq!(node.must("cat /etc/driver"), "1.0-1");
        assert!(!node.exists("/var/lib/forge/window.json"));
    }
    let mut spans: Vec<(u64, u64)> = nodes
        .iter()
        .map(|node| {
            let at = |file: &str| node.must(&format!("cat {file}")).parse().expect("nanoseconds");
            (at("/etc/began"), at("/etc/ended"))
        })
        .collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0), "{spans:?}");
    let report: Value =
        serde_json::from_str(&fs_err::read_to_string(project.path("report.json")).expect("a report")).expect("JSON");
    let first = &report["report"]["hosts"][0]["node"];
    assert_eq!(*first, json!({ "name": nodes[0].name, "pods": 1, "returned": true }));
    assert!(out.to_string().contains("stays cordoned: cordoned by another user"), "{out}");
    as_declared(&project);
}

/// Reports a status like the kubelet and the device plugins of a node.
fn offer(api: &Cluster, node: &Node, gpus: &str) {
    let boot = node.must("cat /proc/sys/kernel/random/boot_id");
    let (now, offer) = (api_time(), json!({ "nvidia.com/gpu": gpus, "rdma/ib": "1000" }));
    let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now });
    let status = json!({ "status": {
        "nodeInfo": {
            "bootID": boot.trim(), "architecture": "amd64", "containerRuntimeVersion": "containerd://1.7.22", "kernelVersion": "6.1",
            "kubeProxyVersion": "", "kubeletVersion": "v1.20.2", "machineID": "m", "operatingSystem": "linux", "osImage": "", "systemUUID": "u",
        },
        "conditions": [ready], "capacity": offer, "allocatable": offer,
    } });
    let patch = status.to_string();
    api.kubectl_with(&["patch", "node", &node.name, "--subresource=status", "--type=merge", "-p", &patch], "");
}

fn api_time() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[test]
fn node_is_uncordoned_only_once_its_devices_return() {
    let Some(nodes) = Fleet::take(1) else { return };
    let Some(api) = Cluster::require() else { return };
    let node = &nodes[0];
    join(api, &nodes, "drain-returns");
    offer(api, node, "7");
    let project = project(api, &nodes, "timeout: 60s, returns: { nvidia.com/gpu: 8, rdma/ib: 63 }, returns_within: 3s");
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("uncordoned once the node has nvidia.com/gpu 8, rdma/ib 63"), "{plan}");
    let out = apply(&project);
    let why = format!("Kubernetes node {} stays cordoned: missing after 3 s: nvidia.com/gpu (7 of 8)", node.name);
    assert!(out.code == 3 && out.stdout.contains(&why), "{out}");
    assert_eq!((inspect_node(api, node), node.must("cat /etc/driver").trim()), ((true, true), "1.0-1"));
    assert!(node.exists("/var/lib/forge/window.json"), "it is back in service");
    offer(api, node, "8");
    let out = apply(&project);
    assert_eq!((out.code, inspect_node(api, node)), (0, (false, false)), "{out}");
    as_declared(&project);
}

#[test]
fn next_apply_uncordons_a_node_after_a_kill() {
    let Some(nodes) = Fleet::take(1) else { return };
    let Some(api) = Cluster::require() else { return };
    let node = &nodes[0];
    join(api, &nodes, "drain-killed");
    run(api, &nodes, "drain-killed");
    let project = project(api, &nodes, "timeout: 60s");
    // The plan says what a drain would wait for.
    let budget = json!({
        "apiVersion": api.evictions(), "kind": "PodDisruptionBudget",
        "metadata": { "name": "all-ranks", "namespace": "drain-killed" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "train" } } },
    });
    api.kubectl_with(&["create", "-f", "-"], &budget.to_string());
    let held = format!("the drain of node {} is held up: cannot evict pod drain-killed/train-", node.name);
    api.wait(|| project.forge(["plan", "inventory.yaml"]).stdout.contains(&held));
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains(" now: disruption budget drain-killed/all-ranks allows 0 disruptions"), "{plan}");
    api.kubectl(&["-n", "drain-killed", "delete", "poddisruptionbudget", "all-ranks"]);
    // Killed during the eviction: without a kubelet, no pod ends.
    let mut child = project.begin();
    api.wait(|| inspect_node(api, node) == (true, true));
    child.kill();
    assert!(!node.exists("/var/lib/forge/window.json"), "the window was not open yet");
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("left open by run "), "{plan}");
    let drift = project.forge(["drift", "inventory.yaml"]);
    assert!(drift.stdout.contains("still drained by run "), "{drift}");
    // Killed during the change of the host.
    let kubelet = Kubelet::of(api, &nodes);
    let mut child = project.begin();
    node.until_exists("/etc/began");
    child.kill();
    assert_eq!(inspect_node(api, node), (true, true));
    assert!(node.exists("/var/lib/forge/window.json"));
    node.until_exists("/etc/ended");
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(inspect_node(api, node), (false, false));
    kubelet.end();
    as_declared(&project);
    // Left by a run without any other traces.
    let claim = json!({ "version": 1, "run": "r7", "controller": "a@b", "time": "t", "cordoned": true }).to_string();
    let patch =
        json!({ "metadata": { "annotations": { CLAIM: claim } }, "spec": { "unschedulable": true } }).to_string();
    api.kubectl_with(&["patch", "node", &node.name, "--type=merge", "-p", &patch], "");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(
        plan.code == 2 && plan.stdout.contains("left open by run r7; closed if the whole host matches and verifies"),
        "{plan}"
    );
    let out = apply(&project);
    assert_eq!((out.code, inspect_node(api, node)), (0, (false, false)), "{out}");
    as_declared(&project);
}

#[test]
fn blocking_disruption_budget_is_named_and_node_uncordoned() {
    let Some(nodes) = Fleet::take(1) else { return };
    let Some(api) = Cluster::require() else { return };
    let node = &nodes[0];
    join(api, &nodes, "drain-budget");
    run(api, &nodes, "drain-budget");
    let version = api.evictions();
    let budget = json!({
        "apiVersion": version, "kind": "PodDisruptionBudget", "metadata": { "name": "all-ranks", "namespace": "drain-budget" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "train" } } },
    });
    api.kubectl_with(&["create", "-f", "-"], &budget.to_string());
    let generation =
        &["-n", "drain-budget", "get", "poddisruptionbudgets", "-o", "jsonpath={.items[0].status.observedGeneration}"];
    let seen = || api.kubectl(generation) == "1";
    api.wait(seen);
    let project = project(api, &nodes, "timeout: 3s");
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    let told =
        format!("Kubernetes node {} was not drained within 3 s: cannot evict pod drain-budget/train-", node.name);
    let blocker = ": disruption budget drain-budget/all-ranks allows 0 disruptions";
    assert!(out.stdout.contains(&told) && out.stdout.contains(blocker), "{out}");
    assert_eq!((inspect_node(api, node), pods_of(api, node)), ((false, false), 1));
    assert!(!node.exists("/etc/driver") && !node.exists("/var/lib/forge/window.json"));
    // The owner of the pods removes the budget.
    api.kubectl_with(&["-n", "drain-budget", "delete", "poddisruptionbudget", "all-ranks"], "");
    let kubelet = Kubelet::of(api, &nodes);
    let out = apply(&project);
    assert_eq!((out.code, inspect_node(api, node)), (0, (false, false)), "{out}");
    kubelet.end();
    // The last Kubernetes with the old policy API is 1.21.
    let old = api
        .version()
        .split_once("v1.")
        .and_then(|(_, minor)| minor.split('.').next()?.parse::<u32>().ok())
        .expect("a version")
        < 22;
    assert_eq!(version, if old { "policy/v1beta1" } else { "policy/v1" });
}
