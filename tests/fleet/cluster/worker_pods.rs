//! Workers in pods that really run, on the node of `pods`: the coordinator runs there too, so that it sees the volume at
//! the same path.

use super::support::Cluster;
use super::workers::GATED;
use crate::support::{Fleet, Node, limited};
use std::path::PathBuf;

/// The volume: a file system of its own, because the disk of a node is small.
pub const VOLUME: &str = "/srv/forge";
const NAMESPACE: &str = "worker-pods";

/// Mounts the volume. Before the kubelet starts, which has mounts of its own.
pub fn mount_volume(node: &Node) {
    node.must(&format!("mkdir -p {VOLUME} && mount -t tmpfs -o size=160m,mode=0700 volume {VOLUME}"));
}

/// Returns forge without debug information, which would not fit on the volume.
fn strip_forge() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let small: PathBuf = folder.path().join("forge");
    let stripped = limited("strip").arg("-o").arg(&small).arg(env!("CARGO_BIN_EXE_forge")).status().expect("strip");
    assert!(stripped.success());
    std::fs::read(small).expect("a program")
}

/// Writes forge on the volume.
pub fn install_forge(node: &Node) {
    node.must(&format!("mkdir -p {VOLUME}/bin"));
    node.write(&format!("{VOLUME}/bin/forge"), strip_forge());
    node.must(&format!("chmod 755 {VOLUME}/bin {VOLUME}/bin/forge"));
}

fn inventory(node: &Node) -> String {
    let folder = |path: &str, on: &str| format!("{{ name: {path}, hostPath: {{ path: {on} }} }}");
    // The image has no libraries and no ssh: those of the node serve.
    let parts = [("usr", "/usr"), ("lib", "/usr/lib"), ("lib64", "/usr/lib64"), ("etc", "/etc")];
    let volumes: Vec<String> = parts.iter().map(|(name, on)| folder(name, on)).collect();
    let mounts: Vec<String> =
        parts.iter().map(|(name, _)| format!("{{ name: {name}, mountPath: /{name}, readOnly: true }}")).collect();
    format!(
        "cluster: {NAMESPACE}\nconnect: {{ user: root, identity: {VOLUME}/key, known_hosts: {VOLUME}/known_hosts }}\n\
         hosts: {{ target: {{ address: {} }} }}\napply: [{{ recipe: count, on: all }}]\nworker_pods:\n  \
         kubeconfig: /srv/kubelet/kubeconfig\n  context: test\n  namespace: {NAMESPACE}\n  image: test.example/tools:1\n  \
         volume: {{ host_path: {VOLUME}, path: {VOLUME} }}\n  start_within: 60s\n  \
         pod: {{ hostNetwork: true, volumes: [{}] }}\n  \
         container: {{ env: [{{ name: PATH, value: '{VOLUME}/bin:/usr/bin:/bin' }}], volumeMounts: [{}] }}\n",
        node.address,
        volumes.join(", "),
        mounts.join(", ")
    )
}

/// A worker pod is killed in the middle of a step: another one finishes the host, and the step runs once. After
/// [`install_forge`].
pub fn killed_pod_is_replaced(api: &Cluster, node: &Node) {
    let fleet = Fleet::require().expect("nodes come from a fleet");
    api.kubectl(&["create", "namespace", NAMESPACE]);
    api.until(&["-n", NAMESPACE, "get", "serviceaccount", "default"]);
    node.must(&format!("mkdir -p {VOLUME}/project/recipes"));
    node.write(&format!("{VOLUME}/key"), std::fs::read(&fleet.key).expect("a key"));
    node.write(&format!("{VOLUME}/known_hosts"), std::fs::read(&fleet.known_hosts).expect("a file"));
    node.write(&format!("{VOLUME}/project/inventory.yaml"), inventory(node));
    node.write(&format!("{VOLUME}/project/recipes/count.yaml"), GATED);
    node.must(&format!("chmod 600 {VOLUME}/key"));
    node.must(&format!(
        "systemd-run --quiet --unit=coordinator --remain-after-exit --property=WorkingDirectory={VOLUME}/project \
         --property=StandardOutput=file:{VOLUME}/said --property=StandardError=file:{VOLUME}/said --setenv=HOME=/root \
         {VOLUME}/bin/forge apply inventory.yaml --yes -q --engine kubernetes --workers 1"
    ));
    let ended = "systemctl show coordinator --property=SubState --value | grep -qx -e exited -e failed";
    node.until(&format!("test -e /srv/started || {ended}"), 60);
    assert!(node.exists("/srv/started"), "{}", node.must(&format!("cat {VOLUME}/said")));
    let pods = || api.kubectl(&["get", "pods", "-n", NAMESPACE, "-l", "forge/worker=apply", "-o", "name"]);
    let first = pods();
    assert_eq!(first.lines().count(), 1, "{first}");
    // The process of the container, not the coordinator.
    node.must("kill -9 $(pgrep -f '[f]orge worker .* --pod forge-apply-')");
    api.wait(|| !pods().is_empty() && pods() != first);
    node.must("touch /srv/go");
    node.until(ended, 120);
    let said = node.must(&format!("cat {VOLUME}/said"));
    assert_eq!(node.must("systemctl show coordinator --property=ExecMainStatus --value"), "0", "{said}");
    assert_eq!(node.must("wc -l </srv/count"), "1", "{said}");
    assert_eq!(api.kubectl(&["get", "jobs,pods", "-n", NAMESPACE, "-o", "name"]), "", "{said}");
    // Another lease, and a mount that the next test does not expect.
    node.must(&format!("systemctl stop coordinator; umount -l {VOLUME}"));
}
