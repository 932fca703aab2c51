//! Hosts on hold, over SSH and from two controllers.

use crate::support::{Fleet, Nodes, Project};

const RECIPE: &str = "recipe: held\nsteps: [{ name: f, file: { path: /etc/held.conf, content: \"x\\n\" } }]\n";

fn controller(nodes: &Nodes) -> Project {
    Project::new(nodes).inventory("apply: [{ recipe: held, on: all }]\n").recipe("held", RECIPE)
}

#[test]
fn host_on_hold_is_left_alone_by_every_controller() {
    let Some(nodes) = Fleet::take(2) else { return };
    let (first, other) = (controller(&nodes), controller(&nodes));
    let name = nodes[0].name.as_str();
    let held = first.forge(["hold", name, "-i", "inventory.yaml", "--why", "ticket 7", "--until", "1h"]);
    assert_eq!(held.code, 0, "{held}");
    let applied = other.forge(["apply", "inventory.yaml", "--yes"]);
    assert!(applied.code == 10 && applied.stdout.contains("ticket 7"), "{applied}");
    assert!(!nodes[0].exists("/etc/held.conf") && !nodes[0].exists("/var/lib/forge/applied"), "{applied}");
    assert_eq!(nodes[1].read("/etc/held.conf"), b"x\n");
    assert_eq!(nodes[0].must("stat -c '%a %U' /var/lib/forge/hold.json"), "600 root");

    let released = other.forge(["release", name, "-i", "inventory.yaml"]);
    assert!(released.code == 0 && released.stdout.contains("released"), "{released}");
    let rest = other.forge(["apply", "inventory.yaml", "--yes", "--on", "@unfinished"]);
    assert!(rest.code == 0 && !rest.stdout.contains(nodes[1].name.as_str()), "{rest}");
    assert_eq!(nodes[0].read("/etc/held.conf"), b"x\n");
    assert!(!nodes[0].exists("/var/lib/forge/hold.json"));
}
