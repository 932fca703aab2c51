//! What runs on nodes, played: the API is a real one with its controllers, but there is neither a scheduler nor a kubelet.
//!
//! The play follows from what the servers and the API tell: a server is a node once it has joined, a pod of a set runs on the node that the set
//! means it for, and a node offers GPUs and adapters while the pod of their device plugin runs there and the driver is loaded.

use super::support::{Cluster, pod_path};
use crate::support::Node;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a server has once it joined.
const JOINED: &str = "/etc/kubernetes/kubelet.conf";
/// The label by which the operator of GPUs takes its pods from a node.
const OPERANDS: &str = "nvidia.com/gpu.deploy.operands";
/// The label by which it places its device plugin.
const PLUGIN: &str = "nvidia.com/gpu.deploy.device-plugin";

/// Plays until it is dropped.
pub struct Stage {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

struct Play {
    api: &'static Cluster,
    servers: Vec<Node>,
    /// The namespace whose pods it runs.
    namespace: String,
}

impl Stage {
    /// Begins. `namespace` holds the sets; its device plugin of GPUs is the set `gpus`, that of adapters `rdma-shared-device-plugin`.
    pub fn begin(api: &'static Cluster, nodes: &[Node], namespace: &str) -> Self {
        // Servers that another test made nodes are none yet.
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

    /// Ends it. Returns how many nodes were cordoned at once, at most.
    pub fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("it ends");
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic of the play is told by whoever ends it.
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Play {
    /// Does what is due. Returns how many nodes are cordoned.
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

    /// What kubelet, device plugins and operator do on a node.
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

    /// The tokens by resource, as the configuration says that the plugin read as it started.
    fn tokens(&self) -> Vec<(String, u64)> {
        let path = format!("/api/v1/namespaces/{}/configmaps/rdma-shared-device-plugin", self.namespace);
        let map = self.api.ask("GET", &path, &Value::Null).unwrap_or_default();
        let config: Value = serde_json::from_str(&text(&map, "/data/config.json")).unwrap_or_default();
        let all = config["configList"].as_array().cloned().unwrap_or_default();
        let one = |own: &Value| Some((format!("rdma/{}", own["resourceName"].as_str()?), own["rdmaHcaMax"].as_u64()?));
        all.iter().filter_map(one).collect()
    }

    /// What scheduler and kubelet do with a pod.
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
        // A set of daemons names the node; any other pod goes to one that takes pods, and waits where none does.
        let Some(node) = (if meant.is_empty() { self.taking() } else { Some(meant) }) else { return };
        if self.servers.iter().any(|server| server.name == node) {
            self.api.bind_pod(pod, &node);
        }
    }

    /// Returns a node that takes pods.
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
