//! Pods that really run: a kubelet of the tests' Kubernetes with Debian's containerd on a host of the fleet, and the real
//! scheduler, on an API of their own. Other tests simulate kubelets; this one shows that the real one says the same.

use super::support::{Cluster, Helm, Site};
use super::{demo, worker_pods};
use crate::support::{Fleet, Node, Output};
use std::path::Path;

/// Installs containerd and starts the kubelet on a node, until it is ready to run pods.
fn join_node(api: &Cluster, node: &Node) {
    node.must(
        "echo 'deb [trusted=yes] file:/srv/forge-repo/trade ./' >/etc/apt/sources.list.d/trade.list && apt-get -qq update && \
         DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends containerd && \
         systemctl disable --now containerd && mkdir -p /srv/kubelet",
    );
    node.write("/srv/kubelet/node.tar", api.node_files());
    let (name, address) = (&node.name, &node.address);
    node.must(&format!(
        "cd /srv/kubelet && tar xf node.tar && rm node.tar && \
         systemd-run --quiet --unit=kubelet --property=Delegate=yes /srv/kubelet/kubelet {name} {address}"
    ));
    api.until(&["wait", "--for=condition=Ready", "--timeout=30s", &format!("node/{name}")]);
    // What a device plugin would report.
    api.kubectl(&[
        "patch",
        "node",
        name,
        "--type=merge",
        "-p",
        r#"{"status":{"capacity":{"nvidia.com/gpu":"8","rdma/ib":"110"}}}"#,
        "--subresource=status",
    ]);
    api.wait(|| {
        let offered = ["get", "node", name, "-o", "jsonpath={.status.allocatable.nvidia\\.com/gpu}"];
        api.kubectl(&offered) == "8"
    });
}

/// Returns a recipe with a Job of one container that runs this script.
fn job(script: &str, image: &str, more: &str, gpus: u32) -> String {
    format!(
        "recipe: smoke\nsummary: A workload\nsteps:\n  - name: space\n    namespace: {{ name: pods }}\n  - name: smoke\n    \
         level: L4\n    job:\n      namespace: pods\n      {more}\n      object:\n        apiVersion: batch/v1\n        kind: Job\n        \
         metadata: {{ name: smoke }}\n        spec:\n          backoffLimit: 0\n          template:\n            spec:\n              \
         automountServiceAccountToken: false\n              containers:\n                - name: main\n                  image: {image}\n                  \
         command: [sh, -c, \"{script}\"]\n                  resources: {{ limits: {{ nvidia.com/gpu: \"{gpus}\" }} }}\n"
    )
}

const TOOLS: &str = "test.example/tools:1";

fn apply(site: &Site, recipe: &str) -> Output {
    site.write("recipes/smoke.yaml", recipe);
    site.forge(&["apply", "inventory.yaml", "--yes"])
}

fn has(out: &Output, text: &str) {
    assert!(out.to_string().contains(text), "no `{text}` in: {out}");
}

#[test]
fn job_is_proven_by_a_pod_that_really_ran() {
    if Cluster::require().is_none() {
        return;
    }
    let Some(nodes) = Fleet::take(1) else { return };
    let api = Cluster::start_own("pods", 20);
    api.start_scheduler();
    worker_pods::mount_volume(&nodes[0]);
    join_node(&api, &nodes[0]);
    let site = Site::new(&api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    let apply_smoke = "apply: [{ recipe: smoke, on: all }]\n";
    site.write("inventory.yaml", &format!("{inventory}{apply_smoke}"));
    pod_runs_and_its_log_is_read(&api, &nodes[0], &site);
    causes_of_pods_that_do_not_run_are_reported(&api, &site);
    slow_job_is_diagnosed_from_its_pods(&api, &nodes[0], &site, &inventory);
    rdma_pod_fails_without_adapters(&nodes[0], &site, &inventory);
    demo::plan_review_apply_and_drift_run_in_pods(&api, &nodes[0]);
    worker_pods::killed_pod_is_replaced(&api, &nodes[0]);
}

fn pod_runs_and_its_log_is_read(api: &Cluster, node: &Node, site: &Site) {
    let expects = "within: 120s\n      logs: { expect: [\"^bandwidth: 42 GB/s on [a-z0-9-]+$\"] }";
    let script = "mkdir -p /tmp; echo bandwidth: 42 GB/s on $(hostname)";
    let out = apply(site, &job(script, TOOLS, expects, 8));
    assert_eq!(out.code, 0, "{out}");
    // containerd recorded its container on the host.
    let started = node.must("grep -c 'StartContainer for .* returns successfully' /srv/kubelet/containerd.log");
    assert_ne!(started, "0");
    assert_eq!(api.kubectl(&["get", "jobs,pods", "-n", "pods", "-o", "name"]), "");
    let again = site.forge(&["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(again.code, 0, "{again}");
}

fn causes_of_pods_that_do_not_run_are_reported(api: &Cluster, site: &Site) {
    let out = apply(site, &job("echo no adapter; exit 3", TOOLS, "within: 120s", 1));
    assert_eq!(out.code, 3, "{out}");
    has(&out, "it failed: BackoffLimitExceeded");
    has(&out, "exited with code 3: Error");
    has(&out, "no adapter");

    let out = apply(site, &job("true", "test.example/missing:1", "within: 15s", 1));
    assert_eq!(out.code, 3, "{out}");
    has(&out, "not finished within 15 s: container main of pod smoke-");
    has(&out, "Failed to pull image \"test.example/missing:1\": ");

    let out = apply(site, &job("true", TOOLS, "within: 10s", 16));
    assert_eq!(out.code, 3, "{out}");
    has(&out, "not finished within 10 s: pod smoke-");
    has(&out, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.");
    assert_eq!(api.kubectl(&["get", "jobs,pods", "-n", "pods", "-o", "name"]), "");
}

/// The pod and its log are real. The host is a sandbox with the name of the node: it answers the questions about hosts.
fn slow_job_is_diagnosed_from_its_pods(api: &Cluster, node: &Node, site: &Site, inventory: &str) {
    let name = &node.name;
    let job = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{ name: train, namespace: pods }}\nspec:\n  backoffLimit: 0\n  template:\n    \
         spec:\n      restartPolicy: Never\n      automountServiceAccountToken: false\n      containers:\n        - name: main\n          \
         image: {TOOLS}\n          command: [sh, -c, 'echo \"$(hostname):7:7 [0] NCCL INFO Using network Socket\"; sleep 600']\n          \
         env: [{{ name: NCCL_IB_DISABLE, value: '1' }}]\n          resources: {{ limits: {{ nvidia.com/gpu: 8 }} }}\n"
    );
    site.write("train.yaml", &job);
    api.kubectl(&["apply", "-f", site.path("train.yaml").to_str().expect("a path")]);
    api.until(&["wait", "--for=condition=Ready", "--timeout=30s", "-n", "pods", "pods", "-l", "job-name=train"]);
    api.wait(|| api.kubectl(&["logs", "-n", "pods", "-l", "job-name=train"]).contains("Using network Socket"));
    site.write("slow.yaml", &inventory.replace("hosts: { box: {", &format!("hosts: {{ other: {{}}, {name}: {{")));
    let asked = |job: &str| site.forge(&["why-slow", "slow.yaml", "--seconds", "1", "--job", job]);
    let out = asked("pods/train");
    assert_eq!(out.code, 2, "{out}");
    has(&out, "uses sockets");
    has(&out, "requests no RDMA resource");
    has(&out, "sets NCCL_IB_DISABLE=1");
    has(&out, "lacks the capability IPC_LOCK");
    assert!(!out.to_string().contains("other"), "a host without pods of the job is not asked: {out}");
    let none = asked("pods/none");
    assert_eq!(none.code, 64, "{none}");
    has(&none, "job `pods/none` has no pods");
    api.kubectl(&["delete", "job", "-n", "pods", "train", "--wait=false"]);
}

/// The pod's own checks run in a real container, which has no adapter here.
fn rdma_pod_fails_without_adapters(node: &Node, site: &Site, inventory: &str) {
    let name = &node.name;
    let apply_pod = format!(
        "apply: [{{ recipe: rdma-pod, on: all, with: {{ nodes: [{name}], image: '{TOOLS}', adapters: 4, within: 60s }} }}]\n"
    );
    site.write("inventory.yaml", &format!("{inventory}{apply_pod}"));
    let out = site.forge(&["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    has(&out, "forge: there is no /dev/infiniband/rdma_cm");
    assert!(!Path::new("/dev/infiniband").exists(), "this machine has adapters: the pod may see them");
}
