//! The demo in `deploy/demo`: the commands of its page run as they are written. Coordinators and workers are real pods, on
//! the node of `pods`; the file on the host is the witness.

use super::support::{Cluster, Helm};
use super::worker_pods::{self, VOLUME};
use crate::support::{Fleet, Node, Output, limited};
use std::path::Path;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/demo");
/// The file that the demo declares.
const DECLARED: &str = "/etc/motd.forge";
/// The image has no libraries and no ssh: those of the node serve.
const PARTS: [(&str, &str, &str); 5] = [
    ("usr", "/usr", "/usr"),
    ("lib", "/usr/lib", "/lib"),
    ("lib64", "/usr/lib64", "/lib64"),
    ("etc", "/etc", "/etc"),
    ("bin", "/srv/forge/bin", "/opt/forge"),
];

fn list_volumes() -> String {
    let volumes = PARTS.map(|(name, on, _)| format!("{{ name: {name}, hostPath: {{ path: {on} }} }}"));
    format!("[{}]", volumes.join(", "))
}

fn list_mounts() -> String {
    let mounts = PARTS.map(|(name, _, at)| format!("{{ name: {name}, mountPath: {at}, readOnly: true }}"));
    format!("[{}]", mounts.join(", "))
}

const SEARCHED: &str = "[{ name: PATH, value: '/opt/forge:/usr/bin:/bin' }]";

/// Replaces text that the page tells its reader to replace.
fn fill_in(text: &str, placeholder: &str, value: &str) -> String {
    assert!(text.contains(placeholder), "no {placeholder}: {text}");
    text.replace(placeholder, value)
}

/// Copies the demo and the chart to a folder as its reader would, with the image, host and key of this node.
fn copy_demo(api: &Cluster, node: &Node, folder: &Path) {
    let copied = limited("cp").arg("-r").arg(DEMO).arg(format!("{DEMO}/../chart")).arg(folder).status();
    assert!(copied.expect("cp").success());
    let demo = folder.join("demo");
    let edit = |name: &str, edit: &dyn Fn(String) -> String| {
        let text = std::fs::read_to_string(demo.join(name)).expect("a file of the demo");
        std::fs::write(demo.join(name), edit(text)).expect("a file");
    };
    edit("inventory.yaml", &|text| {
        let text = fill_in(&text, "192.0.2.11", &node.address);
        format!(
            "{}  pod: {{ hostNetwork: true, volumes: {} }}\n  container: {{ env: {SEARCHED}, volumeMounts: {} }}\n",
            fill_in(&text, "registry.example/forge:0.1.0", "test.example/tools:1"),
            list_volumes(),
            list_mounts()
        )
    });
    edit("values.yaml", &|text| {
        let text = fill_in(&text, "registry.example/forge, tag: 0.1.0", "test.example/tools, tag: \"1\"");
        format!(
            "{text}server: https://{}\npod: {{ hostNetwork: true }}\nenv: {SEARCHED}\nvolumes: {}\nvolumeMounts: {}\n",
            api.address,
            list_volumes(),
            list_mounts()
        )
    });
    let fleet = Fleet::require().expect("nodes come from a fleet");
    for (from, to) in [(&fleet.key, "id_ed25519"), (&fleet.known_hosts, "known_hosts")] {
        std::fs::copy(from, demo.join(to)).expect("a file of the fleet");
    }
    let kubeconfig = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    std::fs::write(folder.join("kubeconfig"), format!("{kubeconfig}\ncurrent-context: test\n")).expect("a file");
    std::os::unix::fs::symlink(api.kubectl_program(), folder.join("kubectl")).expect("a link");
    std::os::unix::fs::symlink(api.helm(Helm::Four).expect("a helm"), folder.join("helm")).expect("a link");
}

/// Returns the blocks of commands of the page.
fn read_commands() -> Vec<String> {
    let page = std::fs::read_to_string(format!("{DEMO}/README.md")).expect("a page");
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().expect("a block").to_owned()).collect()
}

/// What the cluster gives to a reader: a volume, and a user with the image's number.
fn prepare_volume(api: &Cluster, node: &Node) {
    worker_pods::install_forge(node);
    node.must(&format!(
        "useradd --uid 10001 --no-create-home demo && mkdir -p /etc/forge/ssh {VOLUME}/demo && \
         chmod 711 {VOLUME} && chown 10001:10001 {VOLUME}/demo"
    ));
    let volume = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: demo }}\nspec:\n  capacity: {{ storage: 10Gi }}\n  \
         accessModes: [ReadWriteMany]\n  persistentVolumeReclaimPolicy: Retain\n  \
         claimRef: {{ namespace: forge, name: forge }}\n  hostPath: {{ path: {VOLUME}/demo }}\n"
    );
    api.kubectl_with(&["apply", "-f", "-"], &volume);
}

/// Starts the Job that a block of commands takes from the CronJob, and returns the other commands. The kubectl of the tests
/// does not know the CronJobs of Kubernetes before 1.21.
fn start_from_cron_job(api: &Cluster, block: &str) -> String {
    let (first, rest) = block.split_once('\n').expect("commands");
    let name = first
        .strip_prefix("kubectl -n forge create job ")
        .and_then(|rest| rest.strip_suffix(" --from=cronjob/forge-drift"));
    let name = name.unwrap_or_else(|| panic!("another command: {first}"));
    let read = ["get", "cronjob", "forge-drift", "-n", "forge", "-o", "jsonpath={.spec.jobTemplate.spec}"];
    let spec: serde_json::Value = serde_json::from_str(&api.kubectl(&read)).expect("JSON");
    let job =
        serde_json::json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
    api.kubectl_with(&["create", "-n", "forge", "-f", "-"], &job.to_string());
    rest.to_owned()
}

fn describe_pods(api: &Cluster) -> String {
    let pods = api.kubectl(&["get", "pods", "-n", "forge", "-o", "name"]);
    let log = |pod: &str| api.try_kubectl(&["logs", "-n", "forge", pod, "--timestamps"], "").to_string();
    pods.lines().map(|pod| format!("{pod}: {}\n", log(pod))).collect()
}

/// Runs the commands of the page in their order.
pub fn plan_review_apply_and_drift_run_in_pods(api: &Cluster, node: &Node) {
    prepare_volume(api, node);
    let folder = tempfile::tempdir().expect("a folder");
    copy_demo(api, node, folder.path());
    let blocks = read_commands();
    let [once, plan, review, apply, drift, drift_again, uninstall] = &blocks[..] else {
        panic!("the page has other steps: {blocks:?}")
    };
    let run = |block: &str| {
        let mut shell = limited("sh");
        let block = block.replace("--timeout=10m", "--timeout=60s").replace("--timeout=30m", "--timeout=60s");
        shell.args(["-e", "-c", &block]).current_dir(folder.path().join("demo")).env_clear();
        shell.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display())).env("HOME", folder.path());
        let out = Output::of(shell.env("KUBECONFIG", folder.path().join("kubeconfig")), b"");
        assert!(out.ok(), "{block}: {out}\n{}", describe_pods(api));
        out.stdout
    };
    run(once);
    run(plan);
    let shown = run(review);
    assert!(shown.contains("\n+ file /etc/motd.forge  motd/text\n"), "{shown}");
    assert!(shown.contains("plan saved to /srv/forge/plan.json, sha256:"), "{shown}");
    assert!(!node.exists(DECLARED), "{shown}");
    let applied = run(apply);
    assert!(applied.contains("\napplied: 1 host: 1 changed; 1 step changed"), "{applied}");
    assert_eq!(node.must(&format!("cat {DECLARED}")), "This host is managed by forge.", "{applied}");
    run(&start_from_cron_job(api, drift));
    node.must(&format!("echo by hand >>{DECLARED}"));
    let found = run(&start_from_cron_job(api, drift_again));
    assert!(found.contains(DECLARED), "{found}");
    let exit = "jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}";
    let ended = api.kubectl(&["get", "pods", "-n", "forge", "-l", "job-name=drift-again", "-o", exit]);
    assert_eq!(ended, "2", "{found}");
    run(uninstall);
    let left = api.kubectl(&["get", "cronjobs,jobs,roles,pvc", "-n", "forge", "-o", "name"]);
    let left: Vec<&str> = left.lines().filter(|name| !name.contains("/drift-")).collect();
    assert_eq!(left, ["persistentvolumeclaim/forge"]);
    node.must(&format!("rm -rf {VOLUME}/demo {DECLARED} && chmod 700 {VOLUME}"));
}
