//! The RDMA recipes of the cluster on a real API. No pod runs there: the test simulates kubelets and operators. The
//! plugin's objects are the real ones; the chart of the network operator is a stand-in (`tests/cluster/charts`).

use super::helm::copy;
use super::support::{Cluster, Helm, Site, pod_path};
use crate::support::Output;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/charts");

/// A node with its simulated kubelet: pods run as soon as they exist, and end when they are deleted. The node offers
/// `tokens`.
struct Kubelet {
    tokens: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Kubelet {
    /// Creates a node with the namespace's name, and a label with that name.
    fn of(api: &'static Cluster, namespace: &str, tokens: u64) -> Kubelet {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": namespace, "labels": { (format!("test/{namespace}")): "true" }, "annotations": { "projectcalico.org/IPv4Address": "10.0.14.31/24" } },
        });
        api.kubectl_with(&["apply", "-f", "-"], &node.to_string());
        let (tokens, over) = (Arc::new(AtomicU64::new(tokens)), Arc::new(AtomicBool::new(false)));
        let (offered, stop, name) = (tokens.clone(), over.clone(), namespace.to_owned());
        beat(api, &name, offered.load(Ordering::Relaxed));
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                beat(api, &name, offered.load(Ordering::Relaxed));
                pods(api, &name);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Kubelet { tokens, over, thread: Some(thread) }
    }

    fn offers(&self, tokens: u64) {
        self.tokens.store(tokens, Ordering::Relaxed);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Sends the status that a kubelet sends every few seconds; without it, the node counts as lost.
fn beat(api: &Cluster, node: &str, tokens: u64) {
    let now = jiff::Timestamp::now().to_string();
    let ready = json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now, "lastTransitionTime": now });
    let counts = json!({ "cpu": "64", "memory": "512Gi", "pods": "110", "rdma/ib": tokens.to_string() });
    api.tell(
        &format!("/api/v1/nodes/{node}"),
        &json!({ "conditions": [ready], "capacity": counts, "allocatable": counts }),
    );
}

fn pods(api: &Cluster, namespace: &str) {
    for pod in &api.pods(namespace) {
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            api.end_pod(pod);
        } else if pod["spec"]["nodeName"].is_null() {
            api.bind_pod(pod, namespace);
        } else if pod["status"]["phase"] == "Pending" {
            let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": pod["metadata"]["creationTimestamp"] });
            api.tell(&pod_path(pod), &json!({ "phase": "Running", "conditions": [ready] }));
        }
    }
}

/// A site of one sandbox whose cluster, namespace and node have the name `name`.
struct Trial {
    api: &'static Cluster,
    site: Site,
    name: String,
}

impl Trial {
    fn new(api: &'static Cluster, name: &str, helm: Helm) -> Trial {
        let site = Site::new(api, &api.kubeconfig, "test", helm);
        std::fs::create_dir(site.path("recipes")).expect("a folder");
        Trial { api, site, name: name.to_owned() }
    }

    /// Copies a built-in recipe with shorter waits, changed by `change`.
    fn own(&self, recipe: &str, change: impl Fn(String) -> String) {
        let all = forge::config::builtin_data::BUILTIN_RECIPES;
        let (_, text) = all.iter().find(|(name, _)| *name == recipe).expect("a built-in recipe");
        // No operator runs in these tests.
        let text = text.replace("settle: 60s", "settle: 1s");
        let text = ["15m", "10m", "5m", "2m"]
            .iter()
            .fold(text, |text, long| text.replace(&format!("within: {long}"), "within: 60s"));
        self.site.write(&format!("recipes/{recipe}.yaml"), &change(text));
    }

    fn declare(&self, entries: &str) {
        self.site.write(
            "inventory.yaml",
            &format!(
                "cluster: {}\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\nkubernetes: {{ kubeconfig: {}, context: test }}\n\
                 apply: [{entries}]\n",
                self.name,
                self.api.kubeconfig.display()
            ),
        );
    }

    fn forge(&self, args: &[&str]) -> Output {
        self.site.forge(args)
    }

    #[track_caller]
    fn must_apply(&self) -> Output {
        let out = self.forge(&["apply", "--yes"]);
        assert_eq!(out.code, 0, "{out}");
        out
    }

    /// Checks that a second apply has no changes, and that there is no drift.
    #[track_caller]
    fn is_settled(&self) {
        has(&self.must_apply(), "no changes:");
        let drift = self.forge(&["drift"]);
        assert_eq!(drift.code, 0, "{drift}");
    }

    /// Runs kubectl as another user, and checks that drift reports the user and apply repairs the change.
    #[track_caller]
    fn tampered(&self, args: &[&str]) {
        self.kubectl(args);
        let drift = self.forge(&["drift"]);
        assert_eq!(drift.code, 2, "{drift}");
        has(&drift, "kubectl-patch");
        self.must_apply();
        self.is_settled();
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.api.kubectl(&[&["-n", &self.name], args].concat())
    }

    fn asked(&self, what: &[&str], path: &str) -> String {
        self.kubectl(&[&["get"], what, &["-o", &format!("jsonpath={path}")]].concat())
    }
}

#[track_caller]
fn has(out: &Output, text: &str) {
    assert!(out.stdout.contains(text), "no `{text}` in {out}");
}

fn plugin(name: &str, more: &str) -> String {
    format!(
        "{{ recipe: rdma-shared-device-plugin, on: all, with: {{ image: forge.local/rdma-plugin, namespace: {name}, \
         nodes: {{ test/{name}: 'true' }}, resources: {{ ib: 1000 }}{more} }} }}"
    )
}

/// Returns the names of the ConfigMap and the DaemonSet.
fn names(via: &str) -> (&'static str, &'static str) {
    match via {
        "chart" => ("rdma-shared-device-plugin", "rdma-shared-device-plugin"),
        _ => ("rdma-devices", "rdma-shared-dp-ds"),
    }
}

const CONFIG: &str = r#"{"periodicUpdateInterval": 60, "configList": [{"resourceName": "ib", "rdmaHcaMax": 1000, "selectors": {"vendors": ["15b3"], "linkTypes": ["infiniband"]}}]}"#;

/// Applied from scratch until there are no changes, tampered with, repaired, changed and removed, with each helm and
/// without.
#[test]
fn shared_plugin_is_applied_repaired_and_removed() {
    let Some(api) = Cluster::require() else { return };
    for (helm, name, via) in [
        (Helm::Three, "plugin3", "chart"),
        (Helm::Four, "plugin4", "chart"),
        (Helm::No, "plugin0", "manifest, helm: false"),
    ] {
        eprintln!("with {helm:?}");
        kept(api, helm, name, via);
    }
    crate::proof::mark_api("recipes/rdma-shared-device-plugin");
}

fn kept(api: &'static Cluster, helm: Helm, name: &str, via: &str) {
    let trial = Trial::new(api, name, helm);
    trial.own("rdma-shared-device-plugin", |text| text);
    let entry = plugin(name, &format!(", via: {via}"));
    trial.declare(&entry);
    let (config, set) = names(via);
    let kubelet = Kubelet::of(api, name, 1000);
    trial.must_apply();
    assert_eq!(trial.asked(&["configmap", config], r"{.data.config\.json}"), CONFIG);
    let annotations = "{.spec.template.metadata.annotations}";
    let read = trial.asked(&["daemonset", set], annotations);
    let image = "{.spec.template.spec.containers[0].image}";
    assert_eq!(trial.asked(&["daemonset", set], image), "forge.local/rdma-plugin:v1.5.3");
    trial.is_settled();
    // A user sets another number, which the running plugin does not read.
    let edited = CONFIG.replace("1000", "1024").replace('"', "\\\"");
    let patch = format!(r#"{{"data":{{"config.json":"{edited}","mine":"1"}}}}"#);
    trial.tampered(&["patch", "configmap", config, "--type=merge", "-p", &patch]);
    assert_eq!(trial.asked(&["configmap", config], r"{.data.config\.json}"), CONFIG);
    // A declared change restarts the plugin.
    trial.declare(&entry.replace("ib: 1000", "ib: 63"));
    kubelet.offers(63);
    trial.must_apply();
    assert_ne!(trial.asked(&["daemonset", set], annotations), read);
    trial.is_settled();
    trial.declare(&entry.replace("on: all", "on: all, ensure: absent"));
    // The namespace is removed once the pods have ended.
    api.wait(|| trial.forge(&["apply", "--yes"]).code == 0);
    has(&trial.must_apply(), "no changes:");
    let left = api.try_kubectl(&["-n", name, "get", "daemonset,configmap", "-o", "name"], "");
    assert!(!left.stdout.contains("rdma-"), "{left}");
}

#[test]
fn shared_plugin_switches_install_method_in_one_run() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "pluginways", Helm::Four);
    trial.own("rdma-shared-device-plugin", |text| text);
    let _kubelet = Kubelet::of(api, "pluginways", 1000);
    for via in ["chart", "manifest", "chart"] {
        trial.declare(&plugin("pluginways", &format!(", via: {via}")));
        trial.must_apply();
        trial.is_settled();
        let left = trial.kubectl(&["get", "daemonset", "-o", "name"]);
        assert_eq!(left, format!("daemonset.apps/{}", names(via).1));
    }
}

/// A case from the field: 128 tokens, although the configuration says 1024.
#[test]
fn outdated_plugin_resource_count_is_reported_with_its_node() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "pluginold", Helm::Four);
    trial.own("rdma-shared-device-plugin", |text| text.replace("within: 60s", "within: 3s"));
    trial.declare(&plugin("pluginold", "").replace("ib: 1000", "ib: 1024"));
    let kubelet = Kubelet::of(api, "pluginold", 128);
    let out = trial.forge(&["apply", "--yes"]);
    assert_ne!(out.code, 0, "{out}");
    has(&out, "pluginold: rdma/ib 128 of 1024");
    kubelet.offers(1024);
    api.wait(|| trial.forge(&["verify"]).code == 0);
    kubelet.offers(128);
    api.wait(|| trial.forge(&["verify"]).stdout.contains("pluginold: rdma/ib 128 of 1024"));
}

#[test]
fn configuration_that_is_not_json_is_rejected() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "plugincomment", Helm::Four);
    trial.own("rdma-shared-device-plugin", |text| {
        text.replace(r#"{"periodicUpdateInterval""#, "# seconds\n              {\"periodicUpdateInterval\"")
    });
    for via in ["chart", "manifest"] {
        trial.declare(&plugin("plugincomment", &format!(", via: {via}")));
        let refused = trial.forge(&["plan"]);
        assert_eq!(refused.code, 65, "{refused}");
        assert!(
            refused.to_string().contains("`config.json` of ConfigMap plugincomment/rdma-devices is not JSON"),
            "{refused}"
        );
    }
    // The site needs a valid inventory to remove its sandboxes.
    trial.declare("");
}

#[test]
fn calico_is_checked_but_never_changed() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "calico", Helm::No);
    trial.own("calico-check", |text| text.replace("within: 60s", "within: 2s"));
    trial.declare("{ recipe: calico-check, on: all, with: { network: 10.0.14.0/24, namespace: calico, operator: false, nodes: { test/calico: 'true' } } }");
    let _kubelet = Kubelet::of(api, "calico", 0);
    api.kubectl(&["create", "namespace", "calico"]);
    let labels = json!({ "app": "calico-node" });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "calico-node", "namespace": "calico" },
        "spec": { "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels },
            "spec": { "nodeSelector": { "test/calico": "true" }, "containers": [{ "name": "node", "image": "forge.local/calico:1" }] },
        } },
    });
    api.kubectl_with(&["apply", "-f", "-"], &set.to_string());
    api.wait(|| trial.forge(&["verify"]).code == 0);
    has(&trial.must_apply(), "no changes:");
    trial.forge(&["drift"]).must_exit(0);
    // Calico's detection chose the address of another network.
    api.kubectl(&["annotate", "node", "calico", "--overwrite", "projectcalico.org/IPv4Address=192.168.100.31/24"]);
    let drift = trial.forge(&["drift"]);
    assert_eq!(drift.code, 2, "{drift}");
    has(&drift, "calico: 192.168.100.31/24");
    assert_ne!(trial.forge(&["apply", "--yes"]).code, 0);
    let kept = api.kubectl(&[
        "get",
        "node",
        "calico",
        "-o",
        r"jsonpath={.metadata.annotations.projectcalico\.org/IPv4Address}",
    ]);
    assert_eq!(kept, "192.168.100.31/24");
    crate::proof::mark_api("recipes/calico-check");
}

/// The network operator's policy, and a pod network whose kind its chart defines.
#[test]
fn network_operator_policy_and_pod_network_are_repaired() {
    let Some(api) = Cluster::require() else { return };
    let name = "netoperator";
    let trial = Trial::new(api, name, Helm::Four);
    copy(format!("{CHARTS}/network-operator").as_ref(), &trial.site.path("recipes/charts/network-operator"), name);
    // The server is too old for this release line of the operator, and the sandbox has no adapters.
    trial.own("network-operator", |text| without_rule(&text, "this line of the operator does not support"));
    trial.own("rdma-cni", |text| without_rule(&text, "is not an interface of a RoCE adapter"));
    let operator = format!(
        "{{ recipe: network-operator, on: all, with: {{ version: 26.4.0, chart: {{ path: charts/network-operator }}, images: forge.local/mellanox, \
         plugin: v1.5.3, namespace: {name}, networks: v26.4.0, resources: {{ ib: 1000 }}, wait: false }} }}"
    );
    let network = format!(
        "{{ recipe: rdma-cni, on: all, with: {{ namespace: {name}, rails: {{ roce: {{ master: ens1f0np0, range: 192.168.2.0/24 }}, \
         rail1: {{ master: ens2f0np0, range: 192.168.3.0/24, mtu: 4200 }} }} }} }}"
    );
    trial.declare(&format!("{operator}, {network}"));
    let _kubelet = Kubelet::of(api, name, 1000);
    let policy = |state: &str| {
        let parts = json!([{ "name": "state-OFED", "state": "ignore" }, { "name": "state-RDMA-device-plugin", "state": state }]);
        let path = "/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy";
        api.tell(path, &json!({ "state": state, "appliedStates": parts }));
    };
    std::thread::scope(|scope| {
        let apply = scope.spawn(|| trial.forge(&["apply", "--yes"]));
        api.until(&["get", "nicclusterpolicies.mellanox.com", "nic-cluster-policy"]);
        policy("ready");
        let out = apply.join().expect("it ends");
        assert_eq!(out.code, 0, "{out}");
    });
    trial.is_settled();
    let workers = trial.kubectl(&["get", "daemonset", "-o", "name"]);
    assert_eq!(workers, "", "node feature discovery must not be installed");
    let spec = api.kubectl(&["get", "nicclusterpolicies.mellanox.com", "nic-cluster-policy", "-o", "jsonpath={.spec}"]);
    assert!(!spec.contains("ofedDriver") && spec.contains("multus-cni"), "{spec}");
    let config = trial.asked(&["net-attach-def", "roce"], "{.spec.config}");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!((&config["type"], &config["ipam"]["range"]), (&json!("macvlan"), &json!("192.168.2.0/24")));
    let second = trial.asked(&["net-attach-def", "rail1"], "{.spec.config}");
    let second: Value = serde_json::from_str(&second).expect("JSON");
    assert_eq!((&second["master"], &second["mtu"]), (&json!("ens2f0np0"), &json!(4200)));
    trial.tampered(&["patch", "net-attach-def", "roce", "--type=merge", "-p", r#"{"spec":{"config":"{}"}}"#]);
    trial.tampered(&[
        "patch",
        "nicclusterpolicies.mellanox.com",
        "nic-cluster-policy",
        "--type=merge",
        "-p",
        r#"{"spec":{"ofedDriver":{"image":"doca-driver"}}}"#,
    ]);
    policy("notReady");
    let verify = trial.forge(&["verify"]);
    assert_ne!(verify.code, 0, "{verify}");
    has(&verify, "state-RDMA-device-plugin: notReady");
    trial.declare(&format!("{operator}, {network}").replace("on: all", "on: all, ensure: absent"));
    api.wait(|| trial.forge(&["apply", "--yes"]).code == 0);
    has(&trial.must_apply(), "no changes:");
    let left = api.try_kubectl(&["get", "nicclusterpolicies.mellanox.com", "-o", "name"], "");
    assert_eq!(left.stdout, "");
    crate::proof::mark_api("profiles/network-operator");
    crate::proof::mark_api("profiles/rdma-cni");
}

/// Removes the rule with this text.
fn without_rule(text: &str, says: &str) -> String {
    let start = text.lines().position(|line| line.contains(says)).expect("the rule");
    let lines: Vec<&str> = text.lines().collect();
    let first = (0..start).rev().find(|at| lines[*at].starts_with("  - ")).expect("its begin");
    let end = (start + 1..lines.len()).find(|at| !lines[*at].starts_with("    ")).expect("its end");
    lines
        .iter()
        .enumerate()
        .filter(|(at, _)| !(first..end).contains(at))
        .fold(String::new(), |all, (_, line)| all + line + "\n")
}
