//! Hosts and cluster in one run: bare servers become verified nodes of a cluster with an operator and an RDMA plugin, a
//! person's changes are found and repaired, and a new driver is installed on one node after the other.
//!
//! The hosts are real, their GPUs and adapters are simulated; the API is real, its pods are simulated (`stage.rs`).

use super::helm::{CHART, copy};
use super::stage::Stage;
use super::support::{Cluster, Helm};
use crate::profile::{STACK, Stack, bare};
use crate::support::{Node, Output, Project};
use serde_json::Value;

const NAME: &str = "frombare";

/// A recipe that makes a host join once its driver runs.
const JOINED: &str = "recipe: joined
summary: Marks the host as a node, instead of kubeadm
needs: [nvidia-driver, nvidia-fabricmanager, ib-ports]
steps:
  - name: folder
    directory: { path: /etc/kubernetes }
  - name: kubelet
    file: { path: /etc/kubernetes/kubelet.conf, content: \"joined\\n\" }
";

/// An operator like the real one: a chart with a CustomResourceDefinition and a resource of that kind, and a plugin
/// that a label of the node selects.
const OPERATOR: &str = "recipe: operator
summary: An operator that offers GPUs
params:
  greeting: { type: text, default: hello }
steps:
  - name: chart
    needs: { joined: { of: selected, least: 100% } }
    helm_release: { name: operator, namespace: frombare, path: charts/tiny, version: 0.1.0, wait: false, hooks: false, values: { greeting: '{{ params.greeting }}' } }
  - name: plugin
    manifest:
      namespace: frombare
      objects:
        - apiVersion: apps/v1
          kind: DaemonSet
          metadata: { name: gpus }
          spec:
            selector: { matchLabels: { app: gpus } }
            template:
              metadata: { labels: { app: gpus } }
              spec:
                nodeSelector: { stage: frombare, nvidia.com/gpu.deploy.device-plugin: \"true\" }
                tolerations: [{ operator: Exists }]
                containers: [{ name: plugin, image: 'none.example/plugin:1' }]
verify:
  - name: every node offers its GPUs
    scope: cluster
    level: L3
    within: 2m
    expect: facts.nodes | selectattr('labels.stage', 'defined') | selectattr('labels.stage', 'eq', 'frombare') | map(attribute='allocatable') | map('attr', 'nvidia.com/gpu') | map('default', 0) | list == [8, 8, 8]
";

fn inventory(api: &Cluster, node: &Node, driver: &str) -> String {
    let kubernetes = format!("kubernetes: {{ kubeconfig: {}, context: test }}", api.kubeconfig.display());
    let drain = "drain: { kubernetes: { group: all, timeout: 120s, returns: { nvidia.com/gpu: 8, rdma/ib: 63 }, returns_within: 3m } }";
    format!(
        "{kubernetes}
rollout: {{ reboot: allow, max_unavailable: 1, {drain} }}
{}  - {{ recipe: joined, on: all }}
  - {{ recipe: operator, on: all }}
  - {{ recipe: rdma-shared-device-plugin, on: all, with: {{ image: none.example/rdma, max: 63, namespace: {NAME}, nodes: {{ stage: {NAME} }} }} }}
",
        Stack { driver, ..STACK }.applied(node)
    )
}

/// A project with some hosts and the API.
struct Run<'r> {
    api: &'static Cluster,
    nodes: &'r [Node],
    project: Project,
}

impl Run<'_> {
    fn forge(&self, args: &[&str]) -> Output {
        let mut command = self.project.command(args);
        let path = format!("{}:{}", self.project.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        Output::of(command.env("PATH", path), b"")
    }

    fn apply(&self) -> Output {
        let out = self.forge(&["apply", "inventory.yaml", "--yes", "--json-into", "report.json"]);
        assert_eq!(out.code, 0, "{out}");
        out
    }

    fn settled(&self) {
        let out = self.apply();
        assert!(out.stdout.contains("no changes:"), "{out}");
        let drift = self.forge(&["drift", "inventory.yaml"]);
        assert_eq!(drift.code, 0, "{drift}");
    }

    fn report(&self) -> Value {
        let text = fs_err::read_to_string(self.project.path("report.json")).expect("a report");
        serde_json::from_str::<Value>(&text).expect("JSON")["report"].clone()
    }

    /// Returns Helm's revisions with their status.
    fn revisions(&self) -> String {
        let labels = "jsonpath={range .items[*]}{.metadata.labels.version}={.metadata.labels.status} {end}";
        self.api.kubectl(&["-n", NAME, "get", "secret", "-l", "owner=helm,name=operator", "-o", labels])
    }

    fn driver(&self, node: &Node) -> String {
        node.must("cat /sys/module/nvidia/version")
    }

    /// Returns the resources that a node offers, and whether it is schedulable.
    fn offers(&self, node: &Node) -> (Value, Value, bool) {
        let all = self.api.nodes();
        let found = all.iter().find(|found| found["metadata"]["name"] == *node.name).expect("a node");
        let offered = |name: &str| found["status"]["allocatable"][name].clone();
        (offered("nvidia.com/gpu"), offered("rdma/ib"), found["spec"]["unschedulable"] != true)
    }
}

#[test]
fn bare_servers_become_nodes_and_upgrade_one_at_a_time() {
    let Some(nodes) = bare(3) else { return };
    let Some(api) = Cluster::require() else { return };
    let project = Project::new(&nodes)
        .called(NAME)
        .recipe("joined", JOINED)
        .recipe("operator", OPERATOR)
        .file("bin/.keep", "")
        .inventory(&inventory(api, &nodes[0], STACK.driver));
    copy(CHART.as_ref(), &project.path("recipes/charts/tiny"), NAME);
    std::os::unix::fs::symlink(api.helm(Helm::Four).expect("helm"), project.path("bin/helm")).expect("a link");
    api.kubectl_with(&["create", "namespace", NAME], "");
    let stage = Stage::begin(api, &nodes, NAME);
    let run = Run { api, nodes: &nodes, project };

    from_bare(&run);
    edited(&run);
    api.kubectl_with(&["cordon", &nodes[1].name], "");
    upgraded(&run);
    // The node that a person cordoned, and one more.
    assert_eq!(stage.end(), 2);
}

fn from_bare(run: &Run<'_>) {
    run.apply();
    let report = run.report();
    for (at, node) in run.nodes.iter().enumerate() {
        let told = &report["hosts"][at];
        assert_eq!(told["outcome"], "changed", "{told}");
        assert_eq!(told["reboots"].as_array().map(Vec::len), Some(1), "{told}");
        assert_eq!(run.offers(node), ("8".into(), "63".into(), true));
        assert_eq!(run.driver(node), STACK.driver);
    }
    run.settled();
    assert_eq!(run.revisions(), "1=deployed");
}

/// A person's change of the operator's resource is found with its field manager, and reverted without a new revision.
fn edited(run: &Run<'_>) {
    let patch = r#"{"spec":{"driver":{"enabled":true}}}"#;
    run.api.kubectl(&["-n", NAME, "patch", "gadgets.frombare.forge.test", "operator", "--type=merge", "-p", patch]);
    let drift = run.forge(&["drift", "inventory.yaml", "--plan-out", "repair.json"]);
    assert_eq!(drift.code, 2, "{drift}");
    assert!(drift.stdout.contains("spec.driver.enabled") && drift.stdout.contains("kubectl-patch"), "{drift}");
    let out = run.forge(&["apply", "repair.json", "--yes"]);
    assert_eq!((out.code, run.revisions().as_str()), (0, "1=deployed"), "{out}");
    run.settled();
}

/// Cordon, drain, upgrade, verify, uncordon: one node after the other, each with all resources that it offered before.
/// A node that a person cordoned stays cordoned.
fn upgraded(run: &Run<'_>) {
    let driver = "560.35.05";
    run.project.rewrite(&inventory(run.api, &run.nodes[0], driver));
    let boots: Vec<String> = run.nodes.iter().map(Node::boot_id).collect();
    let out = run.apply();
    for (at, node) in run.nodes.iter().enumerate() {
        assert_eq!(
            (run.driver(node).as_str(), run.offers(node)),
            (driver, ("8".into(), "63".into(), at != 1)),
            "{out}"
        );
        assert!(node.boot_id() != boots[at] && !node.exists("/var/lib/forge/window.json"), "{out}");
    }
    assert!(out.to_string().contains("stays cordoned: cordoned by another user"), "{out}");
    run.settled();
    assert_eq!(run.revisions(), "1=deployed");
}
