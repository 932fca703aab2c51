//! One run from no API to steps of its cluster: a step of a host creates the cluster, in place of `kubeadm init`, and
//! the steps of the cluster run in the same apply.
//!
//! The API is real and runs outside of the host; the step makes it reachable at the host's own port, and writes the
//! administrator's kubeconfig there, in kubeadm's order: the file first, the server later.

use super::support::Cluster;
use crate::support::{Fleet, Node, Nodes, Output, Project};

const CONFIG: &str = "/etc/kubernetes/admin.conf";

/// Like the recipe kubeadm, it notes that a creation has begun, so that an interrupted one is not taken for a cluster.
const MAKER: &str = "recipe: maker
summary: Creates the cluster, instead of kubeadm
needs: [driver]
steps:
  - name: begin
    long: true
    provides: { cluster: true }
    command:
      check: '[ -e /etc/kubernetes/admin.conf ] && [ ! -e /etc/kubernetes/begun ]'
      apply: |
        mkdir -p /etc/kubernetes
        echo . >>/srv/begun
        touch /etc/kubernetes/begun
        install -m 600 /srv/admin.conf /etc/kubernetes/admin.conf
        sleep 3
        systemctl start api.socket
        rm /etc/kubernetes/begun
";

/// A change that takes the host out of service, and so drains its node.
const DRIVER: &str = "recipe: driver
summary: Takes the host out of service
steps:
  - name: file
    disruption: D2
    file: { path: /srv/driver, content: x }
";

const INSIDE: &str = "recipe: inside
summary: Steps of the cluster
rules:
  - { scope: cluster, require: facts.kubernetes_version.minor >= 20, else: Kubernetes 1.20 or later is needed }
steps:
  - { name: space, namespace: { name: NAME } }
  - name: settings
    manifest:
      namespace: NAME
      objects: [{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, data: { made: here } }]
verify:
  - name: settings are there
    scope: cluster
    object: { api_version: v1, kind: ConfigMap, namespace: NAME, name: settings }
    expect: object.data.made == 'here'
";

/// A host without an API: only the program that will forward its port to the real one is prepared.
fn bare_host(name: &str) -> Option<(&'static Cluster, Nodes, Project)> {
    let nodes = Fleet::take(1)?;
    let api = Cluster::require()?;
    let node = &nodes[0];
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    node.write("/srv/admin.conf", text.replace(&api.server, "https://127.0.0.1:6443"));
    node.write("/etc/systemd/system/api.socket", "[Socket]\nListenStream=127.0.0.1:6443\n");
    let forward = format!("[Service]\nExecStart=/lib/systemd/systemd-socket-proxyd {}\n", api.address);
    node.write("/etc/systemd/system/api.service", forward);
    node.must("systemctl daemon-reload");
    let rest = format!(
        "kubernetes: {{ via: {}, kubeconfig: {CONFIG}, context: test }}
rollout: {{ drain: {{ kubernetes: {{ group: all, timeout: 60s }} }} }}
apply: [{{ recipe: driver, on: all }}, {{ recipe: maker, on: all }}, {{ recipe: inside, on: all }}]
",
        node.name
    );
    let project = Project::new(&nodes).called(name).inventory(&rest).recipe("maker", MAKER).recipe("driver", DRIVER);
    let project = project.recipe("inside", &INSIDE.replace("NAME", name));
    assert!(!exists(api, name) && !listens(node));
    Some((api, nodes, project))
}

/// Asks the API itself, not through the host.
fn exists(api: &Cluster, name: &str) -> bool {
    api.try_kubectl(&["-n", name, "get", "configmap", "settings"], "").ok()
}

/// Asks the host whether an API answers at its port.
fn listens(node: &Node) -> bool {
    node.sh("bash -c 'exec 3<>/dev/tcp/127.0.0.1/6443'").ok()
}

fn apply(project: &Project) -> Output {
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    out
}

fn expect_settled(project: &Project, api: &Cluster, node: &Node, name: &str) {
    assert!(exists(api, name) && listens(node));
    let again = apply(project);
    assert!(again.stdout.contains("no changes:"), "{again}");
    let drift = project.forge(["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 0, "{drift}");
    assert_eq!(node.must("cat /srv/begun"), ".", "the cluster was created once");
}

#[test]
fn one_apply_creates_a_cluster_and_runs_its_steps() {
    let Some((api, nodes, project)) = bare_host("newcluster") else { return };
    let plan = project.forge(["plan", "inventory.yaml", "-o", "plan.json"]);
    let host = &nodes[0].name;
    let told = format!(
        "the cluster does not exist yet\n? kubeconfig `{CONFIG}` not found on `{host}`\n    `maker/begin` on {host} creates \
         it\n    2 steps of the cluster run after that, in the same apply\n"
    );
    assert!(plan.code == 0 && plan.stdout.contains(&told), "{plan}");
    assert!(plan.stdout.contains("drain: no cluster yet, nothing to drain"), "{plan}");
    let verify = project.forge(["verify", "inventory.yaml"]);
    assert!(
        verify.stdout.contains(&format!("the cluster does not exist yet: kubeconfig `{CONFIG}` not found")),
        "{verify}"
    );
    let drift = project.forge(["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 4, "{drift}");
    assert!(drift.stdout.contains("the cluster does not exist yet: kubeconfig"), "{drift}");

    let out = project.forge(["apply", "plan.json", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    assert!(out.to_string().contains("no cluster yet: nothing to drain"), "{out}");
    expect_settled(&project, api, &nodes[0], "newcluster");
}

/// forge is killed while the cluster is created: the kubeconfig exists, the API does not answer yet.
#[test]
fn killed_run_continues_with_the_cluster_that_it_was_creating() {
    let Some((api, nodes, project)) = bare_host("newclusterkilled") else { return };
    let mut child = project.begin();
    nodes[0].until_exists(CONFIG);
    child.kill();
    assert!(!exists(api, "newclusterkilled"));
    apply(&project);
    expect_settled(&project, api, &nodes[0], "newclusterkilled");
}
