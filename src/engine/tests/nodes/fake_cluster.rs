//! A cluster API for tests: stores nodes and pods, rejects conflicting updates, and logs changes.

use crate::artifact::server::{Reply, Request, Server};
use camino::Utf8PathBuf;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub const CLAIM: &str = "forge/cordoned";
pub const OPERANDS: &str = "nvidia.com/gpu.deploy.operands";

/// The API's content and behavior.
#[derive(Default)]
pub struct FakeClusterState {
    pub nodes: BTreeMap<String, Value>,
    /// By `namespace/name`.
    pub pods: BTreeMap<String, Value>,
    /// By `namespace/name`.
    pub budgets: BTreeMap<String, Value>,
    /// `v1`, or `v1beta1` as before Kubernetes 1.22.
    pub policy: &'static str,
    /// The number of updates to reject with a conflict.
    pub conflicts: u32,
    /// Whether evicted pods stay until the test deletes them.
    pub lingers: bool,
    /// Whether the API is unavailable.
    pub away: bool,
    /// The changes, in order.
    pub log: Vec<String>,
    /// Maximum number of nodes that were cordoned at the same time.
    pub most: usize,
    /// Files to which each node's state is also written.
    mirror: BTreeMap<String, Utf8PathBuf>,
    version: u64,
}

/// The API as a server that lives as long as the test's process.
#[derive(Clone)]
pub struct FakeClusterApi(Arc<Mutex<FakeClusterState>>);

impl FakeClusterApi {
    /// Starts the API with nodes of these names. Also returns the text of a kubeconfig.
    pub fn start(nodes: &[String]) -> (Self, String) {
        let mut state = FakeClusterState { policy: "v1", ..FakeClusterState::default() };
        for name in nodes {
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "resourceVersion": "1" }, "spec": {},
                "status": { "addresses": [{ "type": "InternalIP", "address": format!("10.0.0.{name}") }] },
            });
            state.nodes.insert(name.clone(), node);
        }
        let api = Self(Arc::new(Mutex::new(state)));
        let own = api.clone();
        let server = Server::start(move |request| own.with_state(|state| state.answer_request(request)));
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{ "name": "c", "cluster": { "server": server.url("") } }],
            "users": [{ "name": "u", "user": { "token": "hunter2" } }],
            "contexts": [{ "name": "test", "context": { "cluster": "c", "user": "u" } }],
        });
        (api, kubeconfig.to_string())
    }

    pub fn with_state<T>(&self, with: impl FnOnce(&mut FakeClusterState) -> T) -> T {
        with(&mut self.0.lock().unwrap())
    }

    pub fn log(&self) -> Vec<String> {
        self.with_state(|state| state.log.clone())
    }

    /// Also writes each node's state to a file of its host.
    pub fn mirror_node(&self, node: &str, path: Utf8PathBuf) {
        self.with_state(|state| {
            state.mirror.insert(node.to_owned(), path);
            state.write_mirror(node);
        });
    }

    pub fn add_pod(&self, node: &str, name: &str, more: Value) {
        let (namespace, plain) = name.split_once('/').unwrap();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": namespace, "name": plain, "uid": format!("uid-{plain}"), "labels": { "app": plain },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true }],
            },
            "spec": { "nodeName": node, "containers": [] },
            "status": { "phase": "Running" },
        });
        merge_patch(&mut pod, &more);
        self.with_state(|state| state.pods.insert(name.to_owned(), pod));
    }

    pub fn add_budget(&self, name: &str, pod: &str, allowed: i64) {
        let plain = name.split_once('/').unwrap().1;
        let budget = json!({
            "metadata": { "name": plain }, "spec": { "selector": { "matchLabels": { "app": pod } } },
            "status": { "disruptionsAllowed": allowed },
        });
        self.with_state(|state| state.budgets.insert(name.to_owned(), budget));
    }

    /// Changes a node as a user would.
    pub fn patch_as_person(&self, node: &str, patch: Value) {
        self.with_state(|state| state.apply_patch(node, &patch));
    }

    /// Returns whether a node is cordoned, and whether it has forge's annotation.
    pub fn node_status(&self, node: &str) -> (bool, bool) {
        self.with_state(|state| {
            (state.is_cordoned(node), !state.nodes[node]["metadata"]["annotations"][CLAIM].is_null())
        })
    }

    pub fn operand_label(&self, node: &str) -> Option<String> {
        self.with_state(|state| state.nodes[node]["metadata"]["labels"][OPERANDS].as_str().map(str::to_owned))
    }
}

impl FakeClusterState {
    fn answer_request(&mut self, request: &Request) -> Reply {
        if self.away {
            return status_reply(503, json!({ "message": "away" }));
        }
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["api", "v1"]) => ok_reply(json!({
                "kind": "APIResourceList", "groupVersion": "v1",
                "resources": [{
                    "name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction", "verbs": ["create"],
                    "group": "policy", "version": self.policy,
                }],
            })),
            ("GET", ["api", "v1", "nodes"]) => ok_reply(build_list("NodeList", self.nodes.values())),
            ("GET", ["api", "v1", "nodes", name]) => match self.nodes.get(*name) {
                Some(node) => ok_reply(node.clone()),
                None => status_reply(404, json!({ "message": "no such node" })),
            },
            ("PATCH", ["api", "v1", "nodes", name]) => self.patch_node(name, &request.body),
            ("GET", ["api", "v1", "pods"]) => {
                let node =
                    query.split('&').find_map(|part| part.strip_prefix("fieldSelector=spec.nodeName%3D")).unwrap();
                ok_reply(build_list("PodList", self.pods.values().filter(|pod| pod["spec"]["nodeName"] == node)))
            }
            ("POST", ["api", "v1", "namespaces", namespace, "pods", name, "eviction"]) => {
                self.evict_pod(&format!("{namespace}/{name}"), &request.body)
            }
            ("GET", ["apis", "policy", version, "namespaces", namespace, "poddisruptionbudgets"])
                if *version == self.policy =>
            {
                let own = |(name, _): &(&String, &Value)| name.starts_with(&format!("{namespace}/"));
                ok_reply(build_list(
                    "PodDisruptionBudgetList",
                    self.budgets.iter().filter(own).map(|(_, budget)| budget),
                ))
            }
            _ => status_reply(404, json!({ "message": format!("{} {path} is not served", request.method) })),
        }
    }

    fn patch_node(&mut self, name: &str, body: &str) -> Reply {
        let patch: Value = serde_json::from_str(body).unwrap();
        let now = self.nodes[name]["metadata"]["resourceVersion"].clone();
        if self.conflicts > 0 {
            self.conflicts -= 1;
            self.apply_patch(name, &json!({}));
            return status_reply(409, json!({ "message": "the object has been modified" }));
        }
        if patch["metadata"]["resourceVersion"] != now {
            return status_reply(409, json!({ "message": "the object has been modified" }));
        }
        let (was, label) = (self.is_cordoned(name), self.nodes[name]["metadata"]["labels"][OPERANDS].clone());
        self.apply_patch(name, &patch);
        let word = match (was, self.is_cordoned(name)) {
            (false, true) => "cordon",
            (true, false) => "uncordon",
            _ => "note",
        };
        self.log.push(format!("{word} {name}"));
        let aside = &self.nodes[name]["metadata"]["labels"][OPERANDS];
        if *aside != label {
            self.log.push(format!("operands {name} {}", aside.as_str().unwrap_or("-")));
        }
        self.most = self.most.max(self.nodes.keys().filter(|node| self.is_cordoned(node)).count());
        ok_reply(self.nodes[name].clone())
    }

    fn apply_patch(&mut self, name: &str, patch: &Value) {
        self.version += 1;
        let node = self.nodes.get_mut(name).unwrap();
        merge_patch(node, patch);
        node["metadata"]["resourceVersion"] = format!("v{}", self.version).into();
        if node["metadata"]["labels"][OPERANDS] == "false" {
            self.pods.retain(|_, pod| pod["spec"]["nodeSelector"].is_null() || pod["spec"]["nodeName"] != name);
        }
        self.write_mirror(name);
    }

    fn write_mirror(&self, name: &str) {
        if let Some(path) = self.mirror.get(name) {
            std::fs::write(path, if self.is_cordoned(name) { "cordoned\n" } else { "free\n" }).unwrap();
        }
    }

    fn is_cordoned(&self, name: &str) -> bool {
        self.nodes[name]["spec"]["unschedulable"] == true
    }

    fn evict_pod(&mut self, name: &str, body: &str) -> Reply {
        let eviction: Value = serde_json::from_str(body).unwrap();
        if eviction["apiVersion"] != format!("policy/{}", self.policy) {
            return status_reply(400, json!({ "message": "no such version" }));
        }
        let Some(pod) = self.pods.get_mut(name) else { return status_reply(404, json!({ "message": "gone" })) };
        if eviction["deleteOptions"]["preconditions"]["uid"] != pod["metadata"]["uid"] {
            return status_reply(409, json!({ "message": "another pod" }));
        }
        let app = pod["metadata"]["labels"]["app"].clone();
        let covers = |budget: &&Value| budget["spec"]["selector"]["matchLabels"]["app"] == app;
        if self.budgets.values().filter(covers).any(|budget| budget["status"]["disruptionsAllowed"] == 0) {
            return status_reply(
                429,
                json!({ "message": "Cannot evict pod as it would violate the pod's disruption budget." }),
            );
        }
        self.log.push(format!("evict {name}"));
        match self.lingers {
            true => pod["metadata"]["deletionTimestamp"] = "2026-11-22T07:00:00Z".into(),
            false => drop(self.pods.remove(name)),
        }
        status_reply(201, json!({ "status": "Success" }))
    }
}

fn build_list<'v>(kind: &str, items: impl Iterator<Item = &'v Value>) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": {}, "items": items.collect::<Vec<_>>() })
}

fn ok_reply(body: Value) -> Reply {
    json_reply(200, &body)
}

fn status_reply(code: u16, mut more: Value) -> Reply {
    merge_patch(&mut more, &json!({ "kind": "Status", "apiVersion": "v1", "code": code }));
    if code >= 400 {
        more["status"] = "Failure".into();
    }
    json_reply(code, &more)
}

fn json_reply(code: u16, body: &Value) -> Reply {
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    Reply { body: body.to_string().into_bytes(), headers, ..Reply::status(code) }
}

/// Merges as defined by RFC 7396.
fn merge_patch(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let into = into.as_object_mut().unwrap();
    for (key, value) in patch {
        match value.is_null() {
            true => drop(into.remove(key)),
            false => merge_patch(into.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}
