//! Removal on real hosts: a service with its package, its files and its account goes in the order that works.

use crate::support::{Fleet, Project};

const WEB: &str = include_str!("recipes/web.yaml");

#[test]
fn what_was_applied_is_removed_whole_and_then_there_is_nothing_to_do() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    // The daemon runs as the account and in its folder: neither can be taken away before it.
    let limits = "LimitNOFILE=4096\\nUser=webber\\nWorkingDirectory=/srv/web\\n";
    let web = WEB.replace("LimitNOFILE=4096\\n", limits);
    assert!(web.contains("User=webber"), "the recipe has changed");
    let mut project = Project::new(&nodes).recipe("web", &web).inventory("apply:\n  - { recipe: web, on: all }\n");
    let made = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(made.code, 0, "{made}");
    assert_eq!(node.must("systemctl show -P User forge-demo"), "webber");

    project = project.inventory("apply:\n  - { recipe: web, on: all, ensure: absent }\n");
    let gone = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(gone.code, 0, "{gone}");
    for left in [
        "getent passwd webber",
        "test -e /srv/web",
        "test -e /etc/forge-demo.conf",
        "test -e /etc/systemd/system/forge-demo.service.d",
        "systemctl is-active forge-demo",
        "dpkg-query -W -f '${db:Status-Status}' forge-demo | grep -qx installed",
    ] {
        assert!(!node.sh(left).ok(), "still there: {left}");
    }
    let again = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(again.code, 0, "{again}");
    assert!(again.stdout.contains("nothing to do"), "{again}");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "{plan}");

    // What was removed and seen to be gone is no leftover of an entry that is taken out.
    project = project.inventory("");
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(!plan.stdout.contains("no longer declared"), "{plan}");
}
