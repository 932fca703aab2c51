//! Cluster recipes on a real API: applied, applied again, changed by another user, repaired, removed. Third-party
//! charts are stand-ins (`tests/cluster/charts`) with the keys, kinds and hooks of the real ones.

use super::helm::copy;
use super::support::{Cluster, Helm, Site, pod_path};
use crate::support::Output;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
/// The upstream registry of the images of Volcano, NVIDIA and others in the stand-ins.
const UPSTREAM: &str = "upstream.example";
/// The time that a busy machine needs until a pod is reported as ready, with a large margin.
const PATIENT: &str = "120s";
/// The timeout of verifications that cannot pass.
const SHORT: &str = "4s";

/// Simulates a kubelet: reports pods of jobs as succeeded, all others as ready.
struct Kubelet {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Kubelet {
    fn of(api: &'static Cluster, namespace: &str) -> Kubelet {
        let (over, namespace) = (Arc::new(AtomicBool::new(false)), namespace.to_owned());
        let stop = over.clone();
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                pods(api, &namespace);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Kubelet { over, thread: Some(thread) }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn pods(api: &Cluster, namespace: &str) {
    for pod in api.pods(namespace).iter().filter(|pod| pod["status"]["phase"] == "Pending") {
        let status = match pod.pointer("/metadata/ownerReferences/0/kind").and_then(|kind| kind.as_str()) {
            Some("Job") => json!({ "phase": "Succeeded" }),
            _ => {
                let since = &pod["metadata"]["creationTimestamp"];
                let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": since });
                json!({ "phase": "Running", "conditions": [ready] })
            }
        };
        api.tell(&pod_path(pod), &status);
    }
}

/// A site whose cluster and state have the name `name`, with its own recipes.
struct Trial {
    api: &'static Cluster,
    site: Site,
    name: String,
}

impl Trial {
    fn new(api: &'static Cluster, name: &str, helm: Helm) -> Trial {
        let site = Site::new(api, &api.kubeconfig, "test", helm);
        for folder in ["recipes", "recipes/files", "charts"] {
            std::fs::create_dir(site.path(folder)).expect("a folder");
        }
        Trial { api, site, name: name.to_owned() }
    }

    /// Copies a stand-in for a chart next to the inventory, and next to the site's own recipes.
    fn chart(&self, chart: &str) {
        for folder in ["charts", "recipes/charts"] {
            let from = format!("{TESTS}/cluster/charts/{chart}");
            copy(Path::new(&from), &self.site.path(&format!("{folder}/{chart}")), chart);
        }
    }

    /// Copies a built-in recipe without its rule on the server's release, which is too old for it. Its verifications
    /// wait for `within`: [`PATIENT`] if they should pass, [`SHORT`] if they should fail.
    fn own(&self, recipe: &str, within: &str) {
        let (_, text) = forge::config::builtin_data::BUILTIN_RECIPES
            .iter()
            .find(|(name, _)| *name == recipe)
            .expect("a built-in recipe");
        let mut kept = Vec::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line == "  - scope: cluster" && lines.peek().is_some_and(|next| next.contains("kubernetes_version")) {
                while lines.next_if(|next| next.starts_with("    ")).is_some() {}
            } else {
                kept.push(line);
            }
        }
        // No operator runs in these tests.
        let text = kept.join("\n").replace("settle: 60s", "settle: 1s");
        let text = ["15m", "5m", "2m"]
            .iter()
            .fold(text, |text, long| text.replace(&format!("within: {long}"), &format!("within: {within}")));
        self.site.write(&format!("recipes/{recipe}.yaml"), &(text + "\n"));
    }

    fn declare(&self, apply: &str) {
        self.site.write(
            "inventory.yaml",
            &format!(
                "cluster: {}\nhosts: {{ box: {{ connect: {{ transport: sandbox }} }} }}\n\
                 kubernetes: {{ kubeconfig: {}, context: test }}\napply:\n{apply}",
                self.name,
                self.api.kubeconfig.display()
            ),
        );
    }

    fn forge(&self, args: &[&str]) -> Output {
        self.site.forge(&[args, &["inventory.yaml"]].concat())
    }

    fn apply(&self) -> Output {
        self.forge(&["apply", "--yes"])
    }

    #[track_caller]
    fn must_apply(&self) {
        let out = self.apply();
        assert_eq!(out.code, 0, "{out}");
    }

    /// Checks that a second apply has no changes, and that there is no drift.
    #[track_caller]
    fn is_settled(&self) {
        let again = self.apply();
        assert!(again.code == 0 && again.stdout.contains("no changes:"), "{again}");
        let drift = self.forge(&["drift"]);
        assert_eq!(drift.code, 0, "{drift}");
    }

    /// Runs kubectl as another user, and checks that drift reports the change with `told` and apply repairs it.
    #[track_caller]
    fn mends(&self, args: &[&str], told: &str) {
        self.api.kubectl(args);
        let drift = self.forge(&["drift"]);
        assert!(drift.code == 2 && drift.stdout.contains(told), "no `{told}` in {drift}");
        self.must_apply();
        self.is_settled();
    }

    /// Removes everything.
    #[track_caller]
    fn goes(&self, apply: &str) {
        self.declare(apply);
        self.must_apply();
        self.is_settled();
    }

    fn revisions(&self, namespace: &str) -> String {
        let each = "jsonpath={range .items[*]}{.metadata.labels.version}={.metadata.labels.status} {end}";
        self.api.kubectl(&["get", "secret", "-n", namespace, "-l", "owner=helm", "-o", each])
    }

    fn get(&self, args: &[&str]) -> String {
        self.api.kubectl(&[&["get"], args].concat())
    }
}

/// Creates a node without a kubelet.
fn node(api: &Cluster, name: &str, labels: &str, gpus: (u32, u32)) {
    let object = format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","labels":{labels}}}}}"#);
    api.kubectl_with(&["apply", "-f", "-"], &object);
    let status = format!(
        r#"{{"status":{{"capacity":{{"nvidia.com/gpu":"{}"}},"allocatable":{{"nvidia.com/gpu":"{}"}}}}}}"#,
        gpus.0, gpus.1
    );
    api.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status]);
}

const DRIVER: &str = "recipe: nvidia-driver\nsummary: A driver.\nsteps:\n  - name: installed\n    file: { path: /etc/driver, content: \"x\\n\" }\n";

/// Reports whether the server's release is older than all releases in the tables.
fn is_old(api: &Cluster) -> bool {
    let version = api.version();
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor < 21)
}

#[test]
fn unsupported_releases_are_blocked_on_an_old_server() {
    let Some(api) = Cluster::require() else { return };
    if !is_old(api) {
        eprintln!("skipped: {} is new enough for all of them", api.version());
        return;
    }
    let trial = Trial::new(api, "old", Helm::Four);
    trial.site.write("recipes/nvidia-driver.yaml", DRIVER);
    for (chart, recipe, version, said) in [
        (
            "gpu-operator",
            "gpu-operator",
            "v24.9.1",
            "this release of the GPU operator does not support this cluster's minor release of Kubernetes",
        ),
        ("volcano", "volcano", "1.13.0", "this release of Volcano does not support this cluster's minor release"),
        ("kubeflow-trainer", "trainer", "2.0.0", "this release of Kubeflow Trainer needs a newer minor release"),
    ] {
        trial.chart(chart);
        trial.declare(&format!(
            "  - {{ recipe: nvidia-driver, on: all }}\n  - {{ recipe: {recipe}, on: all, with: {{ version: {version}, namespace: old, chart: {{ path: charts/{chart} }} }} }}\n"
        ));
        let out = trial.apply();
        assert!(out.code == 3 && out.to_string().contains(said), "no `{said}` in {out}");
        assert_eq!(trial.get(&["ns", "old", "--ignore-not-found"]), "", "{recipe}");
    }
}

fn gpu_operator(rest: &str) -> String {
    format!(
        "  - {{ recipe: nvidia-driver, on: all }}\n  - {{ recipe: gpu-operator, on: all, with: {{ version: v24.9.1, chart: {{ path: charts/gpu-operator }}, mirror: mirror.example/gpu }}{rest} }}\n"
    )
}

#[test]
fn gpu_operator_uses_one_mirror_and_reports_missing_gpus() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "gpu", Helm::Four);
    trial.chart("gpu-operator");
    trial.site.write("recipes/nvidia-driver.yaml", DRIVER);
    trial.own("gpu-operator", SHORT);
    trial.declare(&gpu_operator(""));
    node(api, "box", r#"{"nvidia.com/gpu.present":"true"}"#, (8, 7));
    foreign(&trial);
    let _kubelet = Kubelet::of(api, "gpu-operator");
    // Nothing reports it as ready, and a GPU is missing.
    let out = trial.apply();
    assert_ne!(out.code, 0, "{out}");
    for said in
        ["the state of `cluster-policy` is `not reported yet`", "8 GPUs declared; allocatable of capacity: box 7 of 8"]
    {
        assert!(out.to_string().contains(said), "no `{said}` in {out}");
    }
    trial.own("gpu-operator", PATIENT);
    node(api, "box", r#"{"nvidia.com/gpu.present":"true"}"#, (8, 8));
    let ready = r#"{"status":{"state":"ready"}}"#;
    api.kubectl(&["patch", "clusterpolicy", "cluster-policy", "--subresource=status", "--type=merge", "-p", ready]);
    trial.is_settled();
    assert_eq!(trial.revisions("gpu-operator"), "1=deployed");
    assert_eq!(
        trial.get(&["ns", "gpu-operator", "-o", r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}"]),
        "privileged"
    );
    let everything = trial.get(&["clusterpolicy,deployment,daemonset", "-n", "gpu-operator", "-o", "yaml"]);
    assert!(everything.contains("mirror.example/gpu") && !everything.contains(UPSTREAM), "{everything}");
    let off = "jsonpath={.spec.driver.enabled} {.spec.toolkit.enabled} {.spec.mig.strategy} {.spec.migManager.enabled}";
    assert_eq!(trial.get(&["clusterpolicy", "cluster-policy", "-o", off]), "false true none false");
    let edit = r#"{"spec":{"driver":{"enabled":true}}}"#;
    trial.mends(&["patch", "clusterpolicy", "cluster-policy", "--type=merge", "-p", edit], "kubectl-patch");
    assert_eq!(trial.revisions("gpu-operator"), "1=deployed");
    trial.goes(&gpu_operator(", ensure: absent"));
    assert_eq!(trial.get(&["ns", "gpu-operator", "--ignore-not-found"]), "");
    api.kubectl(&["delete", "node", "box"]);
    crate::proof::mark_api("profiles/gpu-operator");
}

/// A release with a generated name belongs to another user, and blocks a second one.
fn foreign(trial: &Trial) {
    let helm = |args: &[&str]| {
        let mut command = crate::support::limited(trial.api.helm(Helm::Four).expect("a helm").to_str().expect("text"));
        command.args(args).args(["-n", "by-hand", "--kube-context", "test", "--kubeconfig"]).arg(&trial.api.kubeconfig);
        let out = Output::of(command.env("HOME", trial.site.path("home")), b"");
        assert!(out.ok(), "{out}");
    };
    let chart = trial.site.path("charts/gpu-operator").display().to_string();
    helm(&["install", "gpu-operator-1733809653", &chart, "--create-namespace", "--no-hooks"]);
    let out = trial.forge(&["plan"]);
    let said =
        "chart `gpu-operator` is already installed as release `by-hand/gpu-operator-1733809653` (v24.9.1, deployed)";
    assert!(out.stdout.contains(said), "no `{said}` in {out}");
    helm(&["uninstall", "gpu-operator-1733809653", "--no-hooks"]);
}

#[test]
fn tiny_operator_passes_its_lifecycle_with_both_helm_majors() {
    let Some(api) = Cluster::require() else { return };
    for (helm, name) in [(Helm::Three, "tiny3"), (Helm::Four, "tiny4")] {
        eprintln!("with {helm:?}");
        let trial = Trial::new(api, name, helm);
        copy(super::helm::CHART.as_ref(), &trial.site.path("recipes/charts/tiny"), name);
        let recipe = std::fs::read_to_string(format!("{TESTS}/recipes/tiny-operator/tiny-operator.yaml"));
        trial.site.write("recipes/tiny-operator.yaml", &recipe.expect("a recipe"));
        let apply = |rest: &str, more: &str| {
            format!(
                "  - {{ recipe: tiny-operator, on: all, with: {{ namespace: {name}, group: {name}.forge.test{rest} }}{more} }}\n"
            )
        };
        trial.declare(&apply(", version: 0.2.0", ""));
        let out = trial.apply();
        let said = "this release of the tiny operator is not for the minor release of this cluster";
        assert!(out.code == 3 && out.to_string().contains(said), "{out}");
        let gadgets = format!("gadgets.{name}.forge.test");
        trial.declare(&apply("", ""));
        std::thread::scope(|scope| {
            let _kubelet = Kubelet::of(api, name);
            // The operator reports its state only once its object exists.
            scope.spawn(|| {
                let ready = r#"{"status":{"state":"ready"}}"#;
                let patch = [
                    "patch",
                    &gadgets,
                    "-n",
                    name,
                    "tiny-operator",
                    "--subresource=status",
                    "--type=merge",
                    "-p",
                    ready,
                ];
                api.until(&patch);
            });
            trial.must_apply();
            trial.is_settled();
            assert_eq!(trial.revisions(name), "1=deployed");
            let edit = r#"{"spec":{"driver":{"enabled":true}}}"#;
            trial.mends(&["patch", &gadgets, "-n", name, "tiny-operator", "--type=merge", "-p", edit], "kubectl-patch");
            assert_eq!(trial.revisions(name), "1=deployed");
            // A failed state is not a difference from the declaration: apply changes nothing, and verify reports it.
            let failed = r#"{"status":{"state":"failed"}}"#;
            api.kubectl(&[
                "patch",
                &gadgets,
                "-n",
                name,
                "tiny-operator",
                "--subresource=status",
                "--type=merge",
                "-p",
                failed,
            ]);
            let out = trial.forge(&["verify"]);
            assert!(out.code != 0 && out.to_string().contains("its state is `failed`"), "{out}");
            trial.goes(&apply("", ", ensure: absent"));
        });
        assert_eq!(trial.get(&["ns", name, "--ignore-not-found"]), "");
    }
}

#[test]
fn volcano_requires_an_open_queue_and_is_repaired() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "gangs", Helm::Four);
    trial.chart("volcano");
    trial.own("volcano", SHORT);
    let apply = |rest: &str| {
        format!(
            "  - {{ recipe: volcano, on: all, with: {{ version: 1.13.0, chart: {{ path: charts/volcano }} }}{rest} }}\n"
        )
    };
    trial.declare(&apply(""));
    let _kubelet = Kubelet::of(api, "volcano-system");
    let out = trial.apply();
    assert_ne!(out.code, 0, "no queue is open: {out}");
    trial.own("volcano", PATIENT);
    // The scheduler creates the queue.
    let queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: { name: default }\n";
    api.kubectl_with(&["create", "-f", "-"], queue);
    let open = r#"{"status":{"state":"Open"}}"#;
    api.kubectl(&[
        "patch",
        "queues.scheduling.volcano.sh",
        "default",
        "--subresource=status",
        "--type=merge",
        "-p",
        open,
    ]);
    trial.is_settled();
    let images = trial.get(&[
        "deployment",
        "-n",
        "volcano-system",
        "-o",
        "jsonpath={.items[*].spec.template.spec.containers[*].image}",
    ]);
    assert!(images.split(' ').count() == 3 && images.split(' ').all(|image| image.ends_with(":v1.13.0")), "{images}");
    let edit = r#"{"data":{"volcano-scheduler.conf":"actions: \"allocate\""}}"#;
    trial.mends(
        &["patch", "configmap", "-n", "volcano-system", "volcano-scheduler-configmap", "--type=merge", "-p", edit],
        "kubectl-patch",
    );
    assert_eq!(trial.revisions("volcano-system"), "1=deployed");
    // Tags that other releases reuse are rejected before any request.
    trial.declare(&apply("").replace("1.13.0,", "1.13.0, tag: latest,"));
    let out = trial.apply();
    assert!(out.to_string().contains("`latest` and `master` can be another program tomorrow"), "{out}");
    // The kinds are in the chart's templates: helm deletes them with their objects.
    trial.declare(&apply(", ensure: absent"));
    let out = trial.apply();
    let said = "uninstalling deletes CustomResourceDefinitions with all their objects: `queues.scheduling.volcano.sh` (1 object)";
    assert!(out.code != 0 && out.to_string().contains(said), "no `{said}` in {out}");
    trial.goes(&apply(", ensure: absent").replace("1.13.0,", "1.13.0, definitions: delete,"));
    assert_eq!(trial.get(&["ns", "volcano-system", "--ignore-not-found"]), "");
    crate::proof::mark_api("profiles/volcano");
}

#[test]
fn training_operator_is_applied_from_its_manifest_file() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "training", Helm::No);
    let file = std::fs::read_to_string(format!("{TESTS}/cluster/manifests/training-operator.yaml")).expect("a file");
    trial.site.write("recipes/files/training.yaml", &file);
    trial.own("training-operator", PATIENT);
    let apply = |rest: &str| {
        format!(
            "  - {{ recipe: training-operator, on: all, with: {{ manifests: files/training.yaml, gang: volcano }}{rest} }}\n"
        )
    };
    trial.declare(&apply(""));
    let _kubelet = Kubelet::of(api, "kubeflow");
    trial.must_apply();
    trial.is_settled();
    // The file is upstream's, whose operator knows no gang scheduler.
    let args = "jsonpath={.spec.template.spec.containers[0].args}";
    let operator = ["deployment", "-n", "kubeflow", "training-operator", "-o", args];
    assert_eq!(trial.get(&operator), r#"["--gang-scheduler-name=volcano"]"#);
    trial.mends(
        &[
            "set",
            "image",
            "-n",
            "kubeflow",
            "deployment/training-operator",
            "training-operator=kubeflow/training-operator:v0",
        ],
        "kubectl-set",
    );
    // Without the scheduler's name, gangs would not be scheduled together.
    let bare = r#"[{"op":"replace","path":"/spec/template/spec/containers/0/args","value":["-v"]}]"#;
    trial.mends(
        &["patch", "deployment", "-n", "kubeflow", "training-operator", "--type=json", "-p", bare],
        "kubectl-patch",
    );
    assert_eq!(trial.get(&operator), r#"["--gang-scheduler-name=volcano"]"#);
    let job = "{ apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: { name: theirs, namespace: default }, \
               spec: { pytorchReplicaSpecs: {} } }";
    api.kubectl_with(&["apply", "-f", "-"], job);
    trial.declare(&apply(", ensure: absent"));
    let out = trial.apply();
    let said = "objects of CustomResourceDefinition pytorchjobs.kubeflow.org exist: PyTorchJob default/theirs";
    assert!(out.code != 0 && out.to_string().contains(said), "no `{said}` in {out}");
    trial.goes(&apply(", ensure: absent").replace("gang: volcano", "gang: volcano, definitions: delete"));
    assert_eq!(trial.get(&["ns", "kubeflow", "--ignore-not-found"]), "");
    crate::proof::mark_api("profiles/training-operator");
}

#[test]
fn nfd_verifies_the_feature_labels_of_every_host() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "labels", Helm::Four);
    trial.chart("node-feature-discovery");
    trial.own("nfd", SHORT);
    let apply = |rest: &str| {
        format!(
            "  - {{ recipe: nfd, on: all, with: {{ version: 0.18.3, chart: {{ path: charts/node-feature-discovery }}, wait: false, image: mirror.example/nfd }}{rest} }}\n"
        )
    };
    trial.declare(&apply(""));
    let inventory = std::fs::read_to_string(trial.site.path("inventory.yaml")).expect("an inventory");
    trial.site.write("inventory.yaml", &inventory.replace("hosts: { box:", "hosts: { labelled:"));
    let label = "feature.node.kubernetes.io";
    node(
        api,
        "labelled",
        &format!(r#"{{"{label}/pci-10de.present":"true","{label}/custom-rdma.capable":"true"}}"#),
        (8, 8),
    );
    let _kubelet = Kubelet::of(api, "node-feature-discovery");
    let out = trial.apply();
    assert!(out.code != 0 && out.to_string().contains(&format!("labelled lacks `{label}/pci-15b3.present`")), "{out}");
    trial.own("nfd", PATIENT);
    api.kubectl(&["label", "node", "labelled", &format!("{label}/pci-15b3.present=true")]);
    let again = trial.apply();
    assert!(again.code == 0 && again.stdout.contains("no changes:"), "{again}");
    let image = "jsonpath={.items[0].spec.template.spec.containers[0].image}";
    assert_eq!(trial.get(&["daemonset", "-n", "node-feature-discovery", "-o", image]), "mirror.example/nfd:v0.18.3");
    let edit = r#"{"data":{"nfd-worker.conf":"sources: {}"}}"#;
    api.kubectl(&["patch", "configmap", "-n", "node-feature-discovery", "nfd-worker-conf", "--type=merge", "-p", edit]);
    let drift = trial.forge(&["drift"]);
    assert!(drift.code == 2 && drift.stdout.contains("kubectl-patch"), "{drift}");
    let out = trial.apply();
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(trial.revisions("node-feature-discovery"), "1=deployed");
    let inventory = std::fs::read_to_string(trial.site.path("inventory.yaml")).expect("an inventory");
    trial.site.write("inventory.yaml", &inventory.replace("on: all,", "on: all, ensure: absent,"));
    let out = trial.apply();
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(trial.get(&["ns", "node-feature-discovery", "--ignore-not-found"]), "");
    api.kubectl(&["delete", "node", "labelled"]);
    crate::proof::mark_api("profiles/nfd");
}

/// Nodes, and the operator's findings, are simulated.
#[test]
fn calico_is_applied_repaired_and_removed() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "pods", Helm::Four);
    trial.chart("tigera-operator");
    trial.own("calico", PATIENT);
    let apply = |rest: &str| {
        format!(
            "  - {{ recipe: calico, on: all, with: {{ version: 3.30.3, chart: {{ path: charts/tigera-operator }}, \
             interface: eno1, pods: 10.244.0.0/16, mirror: mirror.example/calico }}{rest} }}\n"
        )
    };
    let declare = |rest: &str| {
        trial.declare(&apply(rest));
        let inventory = std::fs::read_to_string(trial.site.path("inventory.yaml")).expect("an inventory");
        trial.site.write("inventory.yaml", &inventory.replace("hosts: { box:", "hosts: { podded:"));
    };
    declare("");
    let images = trial.forge(&["plan", "--images"]);
    let listed: Vec<&str> = images.stdout.lines().filter(|line| line.contains("calico/")).collect();
    let expected = [
        "apiserver:v3.30.3",
        "cni:v3.30.3",
        "kube-controllers:v3.30.3",
        "node:v3.30.3",
        "operator:v1.38.6",
        "typha:v3.30.3",
    ];
    assert_eq!(listed, expected.map(|name| format!("mirror.example/calico/{name}")), "{images}");
    node(api, "podded", "{}", (8, 8));
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}"#;
    let _kubelet = Kubelet::of(api, "tigera-operator");
    std::thread::scope(|scope| {
        let applied = scope.spawn(|| trial.apply());
        api.until(&["get", "installations.operator.tigera.io", "default"]);
        api.kubectl_with(
            &["apply", "-f", "-"],
            r#"{"apiVersion":"operator.tigera.io/v1","kind":"TigeraStatus","metadata":{"name":"calico"},"spec":{}}"#,
        );
        let available = json!({ "conditions": [{ "type": "Available", "status": "True" }] });
        api.tell("/apis/operator.tigera.io/v1/tigerastatuses/calico", &available);
        api.kubectl(&["patch", "node", "podded", "--subresource=status", "--type=strategic", "-p", ready]);
        let out = applied.join().expect("it ends");
        assert_eq!(out.code, 0, "{out}");
    });
    let spec = trial.get(&["installations.operator.tigera.io", "default", "-o", "jsonpath={.spec.calicoNetwork}"]);
    assert!(spec.contains(r#""nodeAddressAutodetectionV4":{"interface":"eno1"}"#), "{spec}");
    // Another user sets the detection back to the first address.
    let first = r#"{"spec":{"calicoNetwork":{"nodeAddressAutodetectionV4":{"firstFound":true,"interface":null}}}}"#;
    api.kubectl(&["patch", "installations.operator.tigera.io", "default", "--type=merge", "-p", first]);
    let drift = trial.forge(&["drift"]);
    assert!(drift.code == 2 && drift.stdout.contains("kubectl-patch"), "{drift}");
    declare(", ensure: absent");
    trial.must_apply();
    let left = trial.get(&["installations.operator.tigera.io", "-o", "name"]);
    assert_eq!(left, "");
    assert_eq!(trial.get(&["ns", "tigera-operator", "--ignore-not-found"]), "");
    api.kubectl(&["delete", "node", "podded"]);
    crate::proof::mark_api("profiles/calico");
}

#[test]
fn trainer_is_applied_repaired_and_removed() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "trainer", Helm::Four);
    trial.chart("kubeflow-trainer");
    trial.own("trainer", PATIENT);
    let apply = |rest: &str| {
        format!(
            "  - {{ recipe: trainer, on: all, with: {{ version: 2.0.0, chart: {{ path: charts/kubeflow-trainer }} }}{rest} }}\n"
        )
    };
    trial.declare(&apply(""));
    let _kubelet = Kubelet::of(api, "kubeflow-system");
    trial.must_apply();
    trial.is_settled();
    assert_eq!(trial.revisions("kubeflow-system"), "1=deployed");
    trial.mends(
        &["set", "image", "-n", "kubeflow-system", "deployment/kubeflow-trainer-controller-manager", "manager=other:1"],
        "kubectl-set",
    );
    trial.goes(&apply(", ensure: absent"));
    assert_eq!(trial.get(&["ns", "kubeflow-system", "--ignore-not-found"]), "");
    crate::proof::mark_api("profiles/trainer");
}

#[test]
fn dcgm_monitoring_requires_the_service_monitor_kind() {
    let Some(api) = Cluster::require() else { return };
    let trial = Trial::new(api, "metrics", Helm::No);
    trial.own("dcgm-monitoring", PATIENT);
    let apply = |rest: &str| {
        format!(
            "  - {{ recipe: dcgm-monitoring, on: all, with: {{ namespace: metrics, exporter_namespace: metrics }}{rest} }}\n"
        )
    };
    trial.declare(&apply(""));
    api.kubectl(&["create", "namespace", "metrics"]);
    let out = trial.apply();
    let said = "the API serves no `ServiceMonitor` of `monitoring.coreos.com/v1`";
    assert!(out.code != 0 && out.to_string().contains(said), "{out}");
    let kind = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: { name: servicemonitors.monitoring.coreos.com }\n\
                spec:\n  group: monitoring.coreos.com\n  scope: Namespaced\n  names: { kind: ServiceMonitor, plural: servicemonitors, singular: servicemonitor }\n\
                \x20 versions: [{ name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]\n";
    api.kubectl_with(&["create", "-f", "-"], kind);
    api.until(&["get", "servicemonitors.monitoring.coreos.com", "-A"]);
    let service = "apiVersion: v1\nkind: Service\nmetadata: { name: nvidia-dcgm-exporter, namespace: metrics, labels: { app: nvidia-dcgm-exporter } }\n\
                   spec: { ports: [{ name: gpu-metrics, port: 9400 }] }\n";
    api.kubectl_with(&["create", "-f", "-"], service);
    trial.must_apply();
    trial.is_settled();
    let edit = r#"{"data":{"gpu-rdma.json":"{}"}}"#;
    trial.mends(
        &["patch", "configmap", "-n", "metrics", "forge-gpu-rdma-dashboard", "--type=merge", "-p", edit],
        "kubectl-patch",
    );
    let edit = r#"{"spec":{"endpoints":[{"port":"other"}]}}"#;
    trial.mends(
        &["patch", "servicemonitor", "-n", "metrics", "forge-dcgm-exporter", "--type=merge", "-p", edit],
        "kubectl-patch",
    );
    trial.goes(&apply(", ensure: absent"));
    assert_eq!(trial.get(&["configmap,servicemonitor", "-n", "metrics", "-o", "name"]).matches("forge-").count(), 0);
    crate::proof::mark_api("profiles/dcgm-monitoring");
}
