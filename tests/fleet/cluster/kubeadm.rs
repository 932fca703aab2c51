//! The recipe `kubeadm` with the real kubeadm, kubelet and control plane of the tests' Kubernetes on hosts of the fleet:
//! three control hosts and a worker, joins that are interrupted, a control host that is lost, certificates that end, nodes
//! that leave. Only kube-proxy and CoreDNS are images that do nothing.
//!
//! Runs on demand: `cargo test --test fleet cluster::kubeadm -- --ignored --nocapture`. It needs 8 GB of memory.

use super::support::Cluster;
use crate::support::{Fleet, Node, Output, Project, limited};
use serde_json::Value;
use std::thread::scope;

/// What is not part of the recipes: the packages of a mirror, and what a container lacks for containerd and a kubelet.
const PREPARE: &str = r#"
cd /srv/kubernetes && tar xf node.tar && rm node.tar && ./groups
mount -o remount,rw /sys && mkdir -p /sys/module/overlay /sys/module/br_netfilter
for source in /srv/forge-repo/trade /srv/kubernetes/packages; do echo "deb [trusted=yes] file:$source ./"; done >/etc/apt/sources.list.d/kubernetes.list
apt-get -qq update
mkdir -p /etc/containerd
cat >/etc/containerd/config.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  NoNewKeyring = true
END
"#;

/// Loads the images, which no registry serves here, and configures a pod network.
const SITE: &str = r#"recipe: site
summary: Images and a pod network
needs: [containerd]
steps:
  - name: images
    command:
      check: '[ "$(ctr -n k8s.io images ls -q | grep -c ^mirror.example/)" = 7 ]'
      apply: for image in /srv/kubernetes/images/*.tar; do ctr -n k8s.io images import "$image" || exit; done
  - name: network
    file:
      path: /etc/cni/net.d/10-bridge.conf
      content: '{ "cniVersion": "0.3.1", "name": "pods", "type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.244.{{ host.address | split(".") | last }}.0/24" }]] } }'
"#;

/// The hosts of each role, and nodes that leave.
struct Roles<'n> {
    control: &'n [&'n Node],
    worker: Option<&'n Node>,
    removed: &'n [&'n Node],
}

fn list(nodes: &[&Node]) -> String {
    nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns the address of the API: a second address of the first host, as a virtual address would be.
fn endpoint(first: &Node) -> String {
    let (network, last) = first.address.rsplit_once('.').expect("an address");
    format!("{network}.{}", last.parse::<u8>().expect("a number") + 100)
}

/// `more` is appended: entries for hosts that leave.
fn inventory(roles: &Roles<'_>, more: &str) -> String {
    let shared = format!(
        "version: v1.20.2, endpoint: \"{}:6443\", image_repository: mirror.example/k8s, ignore_preflight: [SystemVerification]",
        endpoint(roles.control[0])
    );
    let kubelet = r#"failSwapOn: false, evictionHard: { memory.available: 1Mi, nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%" }"#;
    let all: Vec<&Node> = roles.control.iter().copied().chain(roles.worker).collect();
    let (control, all, removed) = (list(roles.control), list(&all), list(roles.removed));
    let worker = roles.worker.map_or_else(String::new, |worker| {
        format!("  - {{ recipe: kubeadm, on: {}, with: {{ role: worker, {shared} }} }}\n", worker.name)
    });
    format!(
        "apply:
  - {{ recipe: containerd, on: [{all}], with: {{ memlock: 4M, sandbox_image: \"mirror.example/k8s/pause:3.2\" }} }}
  - {{ recipe: kubernetes-prereq, on: [{all}], with: {{ version: 1.20.2-1.1 }} }}
  - {{ recipe: site, on: [{all}] }}
  - {{ recipe: kubeadm, on: [{control}], with: {{ role: control, {shared}, removed: [{removed}], kubelet: {{ {kubelet} }} }} }}
{worker}{more}"
    )
}

fn prepare(node: &Node, files: &[u8]) {
    node.must("mkdir -p /srv/kubernetes && mount -t tmpfs kubernetes /srv/kubernetes");
    node.write("/srv/kubernetes/node.tar", files);
    node.must(PREPARE);
}

fn kubectl(control: &Node, args: &str) -> String {
    control.must(&format!("kubectl --kubeconfig /etc/kubernetes/admin.conf {args}"))
}

fn apply(project: &Project) -> Output {
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    out
}

/// A second apply changes nothing, and the cluster passes its verification.
fn assert_settled(project: &Project) {
    let again = apply(project);
    assert!(again.stdout.contains("no changes:"), "{again}");
    let verified = project.forge(["verify", "inventory.yaml"]);
    assert_eq!(verified.code, 0, "{verified}");
}

/// Ends forge, and kubeadm on the first of the hosts on which `started` exists. Returns that host.
fn interrupt<'n>(project: &Project, nodes: &[&'n Node], started: &str) -> &'n Node {
    let mut child = project.begin();
    let begun = (0..600).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(200));
        nodes.iter().find(|node| node.exists(started))
    });
    child.kill();
    let node = begun.expect("kubeadm began");
    node.must("pkill -KILL -x kubeadm");
    node.must("[ -e /etc/kubernetes/forge-unfinished ]");
    node
}

/// Returns the names of the nodes that are ready, as the API lists them.
fn ready_nodes(control: &Node) -> Vec<String> {
    let path = r#"{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.kubeletVersion}{"\n"}{end}"#;
    let said = kubectl(control, &format!("get nodes -o 'jsonpath={path}'"));
    said.lines().filter_map(|line| line.strip_suffix(" True v1.20.2")).map(str::to_owned).collect()
}

/// Returns the names of etcd's members, as etcd itself lists them. A member that has not started has no name.
fn etcd_members(control: &Node) -> Vec<String> {
    let pki = "/etc/kubernetes/pki/etcd";
    let said = control.must(&format!(
        "curl -sS --fail --cacert {pki}/ca.crt --cert {pki}/server.crt --key {pki}/server.key https://127.0.0.1:2379/v3/cluster/member/list -d '{{}}'"
    ));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let members = said["members"].as_array().expect("a list").iter();
    let mut names: Vec<String> = members.map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

fn names(nodes: &[&Node]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

#[test]
#[ignore = "builds kubeadm and runs three control planes, which takes minutes"]
fn real_kubeadm_makes_and_keeps_a_cluster() {
    let Some(nodes) = Fleet::take(4) else { return };
    let all: Vec<&Node> = nodes.iter().collect();
    let (control, worker) = (&all[..3], all[3]);
    let files = Cluster::kubeadm_files();
    scope(|scope| all.iter().for_each(|node| _ = scope.spawn(|| prepare(node, &files))));
    let project = Project::new(&nodes).called("kubeadm").recipe("site", SITE);
    one_host_begins_the_cluster(&project, control[0]);
    further_hosts_join(&project, control, worker);
    certificates_are_renewed(&project, control[1]);
    lost_control_host_is_replaced(&project, control, &files);
    releases_are_not_skipped(&project, &Roles { control, worker: Some(worker), removed: &[] });
    hosts_leave(&project, control, worker);
}

/// A control plane that was begun is reset: kubeadm refuses files that exist.
fn one_host_begins_the_cluster(project: &Project, first: &Node) {
    first.must(&format!("ip address add {}/24 dev host0", endpoint(first)));
    project.rewrite(&inventory(&Roles { control: &[first], worker: None, removed: &[] }, ""));
    interrupt(project, &[first], "/etc/kubernetes/manifests/etcd.yaml");
    apply(project);
    let url = format!("https://{}:6443/healthz", endpoint(first));
    assert_eq!(first.must(&format!("curl -sS --cacert /etc/kubernetes/pki/ca.crt {url}")), "ok");
    kubectl(first, "wait --for=condition=Ready node --all --timeout=60s");
    assert_eq!(ready_nodes(first), names(&[first]));
    // The program of the control plane runs in a container of this host.
    first.must(
        "ctr -n k8s.io containers ls | grep -q mirror.example/k8s/kube-apiserver:v1.20.2 && pgrep -x kube-apiserver",
    );
    assert_settled(project);
}

/// Control hosts join one at a time: a member of etcd that has not started stops the next one from joining.
fn further_hosts_join(project: &Project, control: &[&Node], worker: &Node) {
    project.rewrite(&inventory(&Roles { control, worker: Some(worker), removed: &[] }, ""));
    let interrupted = interrupt(project, &control[1..], "/etc/kubernetes/manifests/etcd.yaml");
    let waiting = control[1..].iter().find(|node| node.name != interrupted.name).expect("two hosts");
    assert!(!waiting.exists("/etc/kubernetes/forge-unfinished"), "{}: joins with another host", waiting.name);
    // As if its join had been interrupted: its node is ready, which kubeadm refuses.
    worker.until("[ -e /etc/kubernetes/kubelet.conf ] && [ ! -e /etc/kubernetes/forge-unfinished ]", 120);
    worker.must("touch /etc/kubernetes/forge-unfinished");
    let out = apply(project);
    let joins: Vec<&str> = out
        .stdout
        .lines()
        .chain(out.stderr.lines())
        .filter(|l| l.contains("kubeadm/join control plane") && (l.contains(" started ") || l.contains(" changed ")))
        .collect();
    let verbs: Vec<&str> = joins.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(verbs, ["started", "changed", "started", "changed"], "{joins:#?}");
    let all: Vec<&Node> = control.iter().copied().chain([worker]).collect();
    assert!(all.iter().all(|node| !node.exists("/etc/kubernetes/forge-unfinished")));
    kubectl(control[0], "wait --for=condition=Ready node --all --timeout=60s");
    assert_eq!(ready_nodes(control[2]), names(&all));
    assert_eq!(etcd_members(control[1]), names(control));
    assert_settled(project);
}

/// Gives the API of a host a certificate that ends in ten days.
const SHORT: &str = r#"
cd "$1"
openssl req -new -key apiserver.key -subj /CN=kube-apiserver -out new.csr
openssl x509 -in apiserver.crt -noout -ext subjectAltName | sed -n '2s/IP Address/IP/gp' | sed 's/^ */subjectAltName=/' >names
echo extendedKeyUsage=serverAuth >>names
openssl x509 -req -in new.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 10 -extfile names -out apiserver.crt
"#;

fn certificates_are_renewed(project: &Project, control: &Node) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for file in ["apiserver.key", "apiserver.crt", "ca.crt", "ca.key"] {
        fs_err::write(folder.path().join(file), control.read(&format!("/etc/kubernetes/pki/{file}"))).expect("a file");
    }
    let out = Output::of(limited("sh").args(["-ec", SHORT, "sh"]).arg(folder.path()), b"");
    assert!(out.ok(), "{out}");
    let short = fs_err::read(folder.path().join("apiserver.crt")).expect("a file");
    control.write("/etc/kubernetes/pki/apiserver.crt", short);
    let found = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(found.code == 2 && found.stdout.contains("kubeadm/certificate renewal"), "{found}");
    let before = control.must("pgrep -x kube-apiserver");
    apply(project);
    assert_ne!(control.must("pgrep -x kube-apiserver"), before, "it reads its certificates when it starts");
    // As clients see it.
    let url = format!("{}:6443", control.address);
    let script =
        format!("openssl s_client -connect {url} </dev/null 2>/dev/null | openssl x509 -noout -checkend 25920000");
    let long = Output::of(limited("sh").args(["-c", &script]), b"");
    assert!(long.ok(), "{long}");
    assert_settled(project);
}

/// The machine of a control host is replaced by an empty one: its old node and etcd member are removed, and it joins.
fn lost_control_host_is_replaced(project: &Project, control: &[&Node], files: &[u8]) {
    let lost = control[2];
    lost.reset();
    prepare(lost, files);
    assert_eq!(etcd_members(control[0]), names(control), "the lost member");
    apply(project);
    kubectl(control[0], "wait --for=condition=Ready node --all --timeout=60s");
    assert_eq!(etcd_members(lost), names(control));
    assert_eq!(ready_nodes(lost).len(), 4);
    assert_settled(project);
}

/// The packages of a node do not skip a minor release, and a control plane of another release than the declared one is
/// reported.
fn releases_are_not_skipped(project: &Project, roles: &Roles<'_>) {
    let declared = inventory(roles, "");
    project.rewrite(&declared.replace("version: 1.20.2-1.1", "version: 1.22.0-1.1"));
    let skipped = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(skipped.code, 3, "{skipped}");
    let why = "this host is a node with Kubernetes v1.20.2, and Kubernetes is upgraded one minor release at a time";
    assert!(skipped.stdout.contains(why), "{skipped}");
    project.rewrite(&declared.replace("version: v1.20.2", "version: v1.20.3"));
    let other = project.forge(["verify", "inventory.yaml"]);
    let failed = other.code == 5 && other.stdout.contains("the control plane has the declared release");
    assert!(failed, "{other}");
}

/// Nodes leave the cluster, and then their hosts are emptied.
fn hosts_leave(project: &Project, control: &[&Node], worker: &Node) {
    let leave = [control[2], worker];
    let rest = Roles { control: &control[..2], worker: None, removed: &leave };
    project.rewrite(&inventory(&rest, ""));
    apply(project);
    assert_eq!(ready_nodes(control[0]), names(&control[..2]));
    assert_eq!(etcd_members(control[0]), names(&control[..2]));
    let absent = format!(
        "  - {{ recipe: kubeadm, on: {}, ensure: absent, with: {{ role: control, endpoint: \"{end}:6443\" }} }}\n  \
         - {{ recipe: kubeadm, on: {}, ensure: absent, with: {{ role: worker, endpoint: \"{end}:6443\" }} }}\n",
        control[2].name,
        worker.name,
        end = endpoint(control[0]),
    );
    project.rewrite(&inventory(&rest, &absent));
    apply(project);
    for node in leave {
        node.must("! pgrep -x kubelet && ! pgrep -x kube-apiserver && [ ! -e /etc/kubernetes/kubelet.conf ] && [ ! -e /etc/kubernetes/admin.conf ]");
    }
    assert_eq!(ready_nodes(control[0]), names(&control[..2]));
    assert_settled(project);
}
