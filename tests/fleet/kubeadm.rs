//! A kubeadm cluster with stand-ins for Kubernetes and the real containerd: one host initializes it, a second control
//! host and later a worker join with keys that are never shown, and nothing is done twice.

use crate::distribution::Distribution;
use crate::proof;
use crate::support::{Fleet, Node, Output, Project};
use std::path::Path;

/// Adds the package source, and binds files of the node over kernel settings that belong to the machine.
const BEFORE: &str = "
mount -o remount,rw /sys && mkdir -p /sys/module/overlay /sys/module/br_netfilter
for setting in kernel/panic kernel/panic_on_oops vm/overcommit_memory; do
  mkdir -p /srv/settings/${setting%/*} && echo 0 >/srv/settings/$setting && mount --bind /srv/settings/$setting /proc/sys/$setting
done
echo 'deb [trusted=yes] file:/srv/forge-repo/trade ./' >/etc/apt/sources.list.d/trade.list
apt-get -qq update";

/// Returns the address of the API: a second address of the first host, as a virtual address would be.
fn endpoint(first: &Node) -> String {
    let (network, last) = first.address.rsplit_once('.').expect("an address");
    format!("{network}.{}", last.parse::<u8>().expect("a number") + 100)
}

/// The first two nodes are control hosts, and the others workers.
fn inventory(nodes: &[Node]) -> String {
    let shared = format!("endpoint: \"{}:6443\", image_repository: mirror.example/k8s", endpoint(&nodes[0]));
    let vip = "vip_interface: host0, vip_image: \"mirror.example/kube-vip:v1.2.3\"";
    let list = |nodes: &[Node]| nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
    let workers = match nodes.get(2..).filter(|workers| !workers.is_empty()) {
        Some(workers) => {
            format!("  - {{ recipe: kubeadm, on: [{}], with: {{ role: worker, {shared} }} }}\n", list(workers))
        }
        None => String::new(),
    };
    format!(
        "apply:
  - {{ recipe: containerd, on: all, with: {{ memlock: 4M }} }}
  - {{ recipe: kubernetes-prereq, on: all, with: {{ version: 1.30.6-1.1 }} }}
  - {{ recipe: kubeadm, on: [{}], with: {{ role: control, {shared}, {vip} }} }}
{workers}",
        list(&nodes[..2])
    )
}

#[track_caller]
fn expect(out: &Output, code: i32) {
    assert_eq!(out.code, code, "{out}");
}

fn apply(project: &Project, plan: &str) -> Output {
    let out = project.forge(["apply", plan, "--yes", "-vvv", "--json-into", "report.json"]);
    expect(&out, 0);
    out
}

/// Returns every token that was ever created.
fn tokens(control: &Node) -> Vec<String> {
    let lines = control.must("cut -d' ' -f1 /var/lib/etcd/tokens");
    lines.lines().map(str::to_owned).collect()
}

/// Returns the tokens, and the key of the certificates that were uploaded for control hosts.
fn keys(control: &Node) -> Vec<String> {
    let key = control.must("cut -d' ' -f1 /var/lib/etcd/certificates");
    tokens(control).into_iter().chain([key]).collect()
}

/// Returns the contents of all files below a folder of the controller.
fn written(folder: &Path) -> String {
    let entries = fs_err::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let texts = entries.map(|path| match path.is_dir() {
        true => written(&path),
        false => String::from_utf8_lossy(&fs_err::read(&path).unwrap_or_default()).into_owned(),
    });
    texts.collect()
}

/// Asserts that no token is on the controller or on a host, except in the cluster's own store and in the file for hosts
/// that are about to join.
fn secret(project: &Project, nodes: &[Node], outputs: &[&Output]) {
    let kept = written(&project.path(""));
    for token in keys(&nodes[0]) {
        for out in outputs {
            assert!(!out.stdout.contains(&token) && !out.stderr.contains(&token), "{out}");
        }
        assert!(!kept.contains(&token), "the project has a token");
        for node in nodes {
            let found = node.sh(&format!(
                "grep -rlF {token} /var/lib/forge /var/log /etc /root /tmp /run --exclude=forge-kubeadm-join --exclude=forge-kubeadm-certificates 2>/dev/null; journalctl -o cat | grep -F {token}"
            ));
            assert_eq!(found.stdout, "", "{}", node.name);
        }
    }
}

#[test]
fn kubeadm_hosts_join_with_tokens_that_are_never_shown() {
    join_with_secret_tokens(Distribution::Debian12);
}

/// Not on Debian 11, whose containerd the recipe refuses.
#[test]
fn kubeadm_hosts_join_on_debian_13() {
    join_with_secret_tokens(Distribution::Debian13);
}

fn join_with_secret_tokens(distribution: Distribution) {
    let Some(nodes) = Fleet::take_on(distribution, 3) else { return };
    nodes.iter().for_each(|node| proof::stand_in(node, "kubernetes"));
    nodes.iter().for_each(|node| _ = node.must(BEFORE));
    nodes[0].must(&format!("ip address add {}/24 dev host0", endpoint(&nodes[0])));
    let project = Project::new(&nodes[..2]).inventory(&inventory(&nodes[..2]));
    let plan = project.forge(["plan", "inventory.yaml", "-o", "plan.json"]);
    expect(&plan, 0);
    let first = apply(&project, "plan.json");
    assert_eq!(nodes[0].must("kubectl --kubeconfig /etc/kubernetes/admin.conf get --raw=/readyz"), "ok");
    nodes[1]
        .must("systemctl -q is-active kubelet && grep -q topology-manager-policy=best-effort /run/kubelet/arguments");
    assert_eq!(tokens(&nodes[0]).len(), 2, "one token of the initialization, and one for the host that joined");
    lives_half_an_hour(&nodes[0]);
    // The second control host has a control plane of its own; only one host began the cluster.
    nodes[1].must("[ -e /etc/kubernetes/manifests/kube-apiserver.yaml ] && [ -e /etc/kubernetes/admin.conf ]");
    nodes[0].must("grep -q '\"imageRepository\": \"mirror.example/k8s\"' /etc/kubernetes/forge-kubeadm.yaml");
    assert!(nodes.iter().take(2).all(|node| !node.exists("/etc/kubernetes/forge-unfinished")));
    // The rights of admin.conf are granted after kube-vip is needed, on the host that initializes the cluster.
    let conf = |name: &str, file: &str| format!("grep -qF '\"path\": \"/etc/kubernetes/{name}.conf\"' {file}");
    nodes[0].must(&conf("super-admin", "/srv/kube-vip-at-init.yaml"));
    for node in nodes.iter().take(2) {
        node.must(&conf("admin", "/etc/kubernetes/manifests/kube-vip.yaml"));
    }
    let uploaded = keys(&nodes[0]);
    let again = apply(&project, "inventory.yaml");
    assert!(again.stdout.contains("no changes:"), "{again}");
    assert_eq!(keys(&nodes[0]), uploaded, "no host is about to join");
    secret(&project, &nodes[..2], &[&plan, &first, &again]);
    stopped(&project, &nodes);
    interrupted(&project, &nodes);
    expires(&project, &nodes);
    joins_later(&nodes);
    kubelet_follows_the_api(&nodes);
    proof::mark_on(distribution, "profiles/kubeadm");
}

fn lives_half_an_hour(control: &Node) {
    control.must("now=$(date +%s); while read -r token ends; do [ $((ends - now)) -le 1800 ] || exit 1; done </var/lib/etcd/tokens");
}

/// Drift finds a stopped kubelet, and apply starts it again; the host does not join a second time.
fn stopped(project: &Project, nodes: &[Node]) {
    nodes[1].must("systemctl stop kubelet");
    expect(&project.forge(["verify", "inventory.yaml"]), 5);
    let found = project.forge(["drift", "inventory.yaml", "--plan-out", "repair.json"]);
    expect(&found, 2);
    assert!(found.stdout.contains("kubeadm/kubelet"), "{found}");
    apply(project, "repair.json");
    nodes[1].must("systemctl -q is-active kubelet");
    expect(&project.forge(["drift", "inventory.yaml"]), 0);
    assert_eq!(tokens(&nodes[0]).len(), 2, "no host joined");
}

/// A control host whose join was interrupted is reset and joins again, with certificates that are uploaded anew.
fn interrupted(project: &Project, nodes: &[Node]) {
    let (tokens, uploaded) = (tokens(&nodes[0]).len(), keys(&nodes[0]).pop());
    nodes[1].must("touch /etc/kubernetes/forge-unfinished; rm /etc/kubernetes/admin.conf");
    nodes[0].must("touch -d '90 minutes ago' /run/forge-kubeadm-join /run/forge-kubeadm-certificates; rm /var/lib/etcd/certificates");
    apply(project, "inventory.yaml");
    nodes[1].must("[ -e /etc/kubernetes/admin.conf ] && systemctl -q is-active kubelet");
    nodes[1].must("[ -e /etc/kubernetes/manifests/kube-vip.yaml ]");
    assert_eq!(self::tokens(&nodes[0]).len(), tokens + 1);
    assert_ne!(keys(&nodes[0]).pop(), uploaded);
}

/// Certificates that expire soon fail the verification, and apply renews them.
fn expires(project: &Project, nodes: &[Node]) {
    nodes[0].must("echo 12d >/srv/certificates-left");
    let found = project.forge(["verify", "inventory.yaml"]);
    assert!(found.code == 5 && found.stdout.contains("certificates are valid for 30 days"), "{found}");
    apply(project, "inventory.yaml");
    nodes[0].must("[ ! -e /srv/certificates-left ]");
}

/// Neither a control host nor a worker gets packages of a minor release that its API does not have yet.
fn kubelet_follows_the_api(nodes: &[Node]) {
    let project = Project::new(nodes).inventory(&inventory(nodes).replace("1.30.6-1.1", "1.31.0-1.1"));
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    let why = "this host is a node with Kubernetes v1.30.6, and its kubelet must not be newer than the API: install \
               kubeadm 1.31.0-1.1 on the control hosts, run `kubeadm upgrade` there, and apply again";
    assert!(out.code == 3 && out.stdout.contains(why), "{out}");
    for at in [0, 2] {
        assert_eq!(nodes[at].must("kubelet --version").trim(), "Kubernetes v1.30.6");
    }
    // The API has the release: the worker's packages follow. There are none here.
    nodes.iter().take(2).for_each(|node| {
        _ = node.must(
            "sed -i s/v1.30.6/v1.31.0/ /usr/lib/stand-ins/apiserver /etc/kubernetes/manifests/kube-apiserver.yaml",
        );
    });
    let out = project.forge(["plan", "inventory.yaml", "-vv"]);
    assert!(!out.stdout.contains("check exited with 1"), "{out}");
}

/// A worker gets its own token; hosts in the cluster are unchanged.
fn joins_later(nodes: &[Node]) {
    let project = Project::new(nodes).inventory(&inventory(nodes));
    nodes[0].must("touch -d '20 minutes ago' /run/forge-kubeadm-join");
    let (known, before_keys) = (tokens(&nodes[0]).len(), keys(&nodes[0]).pop());
    let before = [0, 1].map(|at| nodes[at].must("systemctl show -P InvocationID kubelet"));
    let out = apply(&project, "inventory.yaml");
    nodes[2].must("[ -e /etc/kubernetes/kubelet.conf ] && systemctl -q is-active kubelet");
    assert_eq!(before, [0, 1].map(|at| nodes[at].must("systemctl show -P InvocationID kubelet")));
    assert_eq!(tokens(&nodes[0]).len(), known + 1, "{out}");
    assert_eq!(keys(&nodes[0]).pop(), before_keys, "a worker needs no certificates of the control plane");
    secret(&project, nodes, &[&out]);
}
