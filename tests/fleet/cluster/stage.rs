//! Simulates the scheduler and the kubelets: the API is real and has its controllers, but nothing runs pods.
//!
//! The simulation follows from the state of the servers and the API: a server is a node once it has joined, a pod of a
//! DaemonSet runs on the node that the set assigns, and a node offers GPUs and adapters while the pod of their device
//! plugin runs there and the driver is loaded.

use super::support::{Cluster, pod_path};
use crate::support::Node;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The file that marks a joined server.
const JOINED: &str = "/etc/kubernetes/kubelet.conf";
/// The label that makes the GPU operator remove its pods from a node.
const OPERANDS: &str = "nvidia.com/gpu.deploy.operands";
/// The label that makes it run its device plugin on a node.
const PLUGIN: &str = "nvidia.com/gpu.deploy.device-plugin";

/// Runs the simulation until it is dropped.
pub struct Stage {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

struct Play {
    api: &'static Cluster,
    servers: Vec<Node>,
    /// The namespace of the pods that it runs.
    namespace: String,
}

impl Stage {
    /// Starts the simulation. `namespace` contains the DaemonSets: `gpus` is the device plugin of GPUs,
    /// `rdma-shared-device-plugin` that of adapters.
    pub fn begin(api: &'static Cluster, nodes: &[Node], namespace: &str) -> Self {
        // Servers that joined in another test are not nodes yet in this one.
        nodes.iter().for_each(|node| api.forget(&node.name));
        let play = Play { api, servers: nodes.to_vec(), namespace: namespace.to_owned() };
        let (stop, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ends, counts) = (stop.clone(), most.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                counts.fetch_max(play.turn(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Self { stop, most, thread: Some(thread) }
    }

    /// Ends the simulation. Returns the maximum number of nodes that were cordoned at the same time.
    pub fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("it ends");
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // `end` reports a panic of the thread.
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Play {
    /// Does one round of the simulation. Returns the number of cordoned nodes.
    fn turn(&self) -> usize {
        let nodes: BTreeMap<String, Value> =
            self.api.nodes().into_iter().map(|node| (text(&node, "/metadata/name"), node)).collect();
        let pods = self.pods();
        for server in &self.servers {
            match nodes.get(&server.name) {
                Some(node) => self.tend(server, node, &pods),
                None if server.exists(JOINED) => self.register(server),
                None => {}
            }
        }
        pods.iter().for_each(|pod| self.play(pod));
        let own =
            nodes.values().filter(|node| self.servers.iter().any(|server| text(node, "/metadata/name") == server.name));
        own.filter(|node| node["spec"]["unschedulable"] == true).count()
    }

    fn pods(&self) -> Vec<Value> {
        self.api.pods(&self.namespace)
    }

    fn register(&self, server: &Node) {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": server.name, "labels": { "stage": self.namespace } } });
        self.api.kubectl_with(&["create", "-f", "-"], &node.to_string());
    }

    /// Acts as kubelet, device plugins and operator of a node.
    fn tend(&self, server: &Node, node: &Value, pods: &[Value]) {
        let aside = node["metadata"]["labels"][OPERANDS] == "false";
        let placed = if aside { Value::Null } else { json!("true") };
        if node["metadata"]["labels"].get(PLUGIN).cloned().unwrap_or_default() != placed {
            let label = json!({ "metadata": { "labels": { PLUGIN: placed } } });
            self.api.ask("PATCH", &node_path(&server.name), &label);
        }
        let runs = |set: &str| {
            pods.iter().any(|pod| of_set(pod, set) && text(pod, "/spec/nodeName") == server.name && is_ready(pod))
        };
        let loaded = server.sh("test -e /sys/module/nvidia/version && cat /proc/sys/kernel/random/boot_id");
        let gpus = if loaded.ok() && runs("gpus") { 8 } else { 0 };
        let mut offers = json!({ "nvidia.com/gpu": gpus.to_string(), "cpu": "8", "memory": "64Gi", "pods": "110" });
        let plugged = runs("rdma-shared-device-plugin");
        for (name, count) in self.tokens() {
            offers[name] = (if plugged { count } else { 0 }).to_string().into();
        }
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = if loaded.ok() { "True" } else { "False" };
        let status = json!({
            "capacity": offers, "allocatable": offers,
            "addresses": [{ "type": "InternalIP", "address": server.address }],
            "conditions": [{ "type": "Ready", "status": ready, "reason": "KubeletReady", "message": "played", "lastHeartbeatTime": now, "lastTransitionTime": now }],
            "nodeInfo": {
                "bootID": loaded.stdout.trim(), "kubeletVersion": "v1.30.6", "machineID": "m", "systemUUID": "u", "kernelVersion": "6.1", "osImage": "Debian",
                "containerRuntimeVersion": "containerd://1.6.20", "kubeProxyVersion": "v1.30.6", "operatingSystem": "linux", "architecture": "amd64",
            },
        });
        self.api.tell(&node_path(&server.name), &status);
    }

    /// Returns the number of tokens per resource, from the configuration that the plugin read at its start.
    fn tokens(&self) -> Vec<(String, u64)> {
        let path = format!("/api/v1/namespaces/{}/configmaps/rdma-shared-device-plugin", self.namespace);
        let map = self.api.ask("GET", &path, &Value::Null).unwrap_or_default();
        let config: Value = serde_json::from_str(&text(&map, "/data/config.json")).unwrap_or_default();
        let all = config["configList"].as_array().cloned().unwrap_or_default();
        let one = |own: &Value| Some((format!("rdma/{}", own["resourceName"].as_str()?), own["rdmaHcaMax"].as_u64()?));
        all.iter().filter_map(one).collect()
    }

    /// Acts as scheduler and kubelet of a pod.
    fn play(&self, pod: &Value) {
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            self.api.end_pod(pod);
        } else if text(pod, "/spec/nodeName").is_empty() {
            self.bind(pod);
        } else if !is_ready(pod) && pod["status"]["phase"] != "Succeeded" {
            self.run(pod);
        }
    }

    fn bind(&self, pod: &Value) {
        let meant = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
        let meant = text(pod, meant);
        // A DaemonSet names the node; any other pod goes to a schedulable node, or stays pending if there is none.
        let Some(node) = (if meant.is_empty() { self.taking() } else { Some(meant) }) else { return };
        if self.servers.iter().any(|server| server.name == node) {
            self.api.bind_pod(pod, &node);
        }
    }

    /// Returns a schedulable node.
    fn taking(&self) -> Option<String> {
        let nodes = self.api.list(&format!("/api/v1/nodes?labelSelector=stage%3D{}", self.namespace));
        nodes.iter().find(|node| node["spec"]["unschedulable"] != true).map(|node| text(node, "/metadata/name"))
    }

    fn run(&self, pod: &Value) {
        let job = pod["metadata"]["ownerReferences"][0]["kind"] == "Job";
        let status = match job {
            true => json!({ "phase": "Succeeded" }),
            false => json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] }),
        };
        self.api.tell(&pod_path(pod), &status);
    }
}

fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn of_set(pod: &Value, set: &str) -> bool {
    pod["metadata"]["ownerReferences"][0]["name"] == *set
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}
