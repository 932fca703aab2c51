//! Sandboxes on a machine with a running systemd whose root is already an overlay: the machine does not change.

use crate::support::Fleet;

const DEMO: &str = "cd /opt/demo && export FORGE_STATE=/run/demo FORGE=/opt/demo/forge && ";
/// Prints every service with its invocation, the writable kernel settings, the accounts and the mounts.
const SEEN: &str = r"systemctl list-units --all --plain --no-legend --type=service | while read -r u x; do
    printf '%s %s\n' $u $(systemctl show -p InvocationID --value $u); done
    grep -r '' /proc/sys/vm/swappiness /proc/sys/vm/nr_hugepages /proc/sys/kernel/pid_max /proc/sys/kernel/hostname
    sysctl -a 2>/dev/null | grep -E '^net\.(core|ipv4)\.' | grep -vE '\.(conf|neigh)\.'; getent passwd; findmnt -rno TARGET";

#[test]
fn demo_does_not_change_a_machine_running_systemd() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkdir -p /opt/demo/scripts /run/demo && chmod 777 /run/demo");
    node.write("/opt/demo/forge", std::fs::read(env!("CARGO_BIN_EXE_forge")).unwrap());
    for (path, text) in FILES {
        node.must(&format!("mkdir -p /opt/demo/$(dirname {path})"));
        node.write(&format!("/opt/demo/{path}"), text);
    }
    node.must("chmod 755 /opt/demo/forge");
    let look = || (node.snapshot(), node.must(SEEN));
    let before = look();
    for who in ["", "setpriv --reuid 65534 --regid 65534 --clear-groups "] {
        let tour = node.must(&format!("{DEMO} {who}bash scripts/demo 2>&1"));
        assert!(tour.contains("\nno changes: 3 hosts, ") && tour.contains("\nplan: 2 changes "), "{tour}");
        let inside = "sysctl -qw vm.swappiness=1 2>/dev/null || echo 1 >/proc/sys/vm/swappiness; kill -9 -1";
        node.sh(&format!("{DEMO} {who}./forge sandbox enter gpu-01 -i inventories/demo.yaml -- sh -c '{inside}'"));
        node.must(&format!("{DEMO} {who}bash scripts/demo reset && rm -rf /run/demo/demo"));
        assert_eq!(look(), before);
    }
}

const FILES: [(&str, &str); 5] = [
    ("scripts/demo", include_str!("../../scripts/demo")),
    ("inventories/demo.yaml", include_str!("../../inventories/demo.yaml")),
    ("inventories/recipes/base.yaml", include_str!("../../inventories/recipes/base.yaml")),
    ("inventories/recipes/gpu-host.yaml", include_str!("../../inventories/recipes/gpu-host.yaml")),
    ("inventories/recipes/directory.yaml", include_str!("../../inventories/recipes/directory.yaml")),
];
