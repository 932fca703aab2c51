//! The main promise: a bare host converges, a second apply has no changes, and every change made without forge is found
//! and repaired on its own.

use crate::distribution::Distribution;
use crate::support::{Fleet, Node, Output, Project};

const WEB: &str = include_str!("recipes/web.yaml");

fn web(nodes: &[Node]) -> Project {
    Project::new(nodes).recipe("web", WEB).inventory("apply:\n  - { recipe: web, on: all }\n")
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes"])
}

fn plan(project: &Project) -> Output {
    project.forge(["plan", "inventory.yaml", "--detailed-exitcode"])
}

#[track_caller]
fn expect(out: &Output, code: i32) {
    assert_eq!(out.code, code, "{out}");
}

#[test]
fn bare_hosts_converge_in_one_apply_and_stay_unchanged() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = web(&nodes);
    expect(&plan(&project), 2);
    let first = apply(&project);
    expect(&first, 0);
    for node in nodes.iter() {
        assert_eq!(node.must("cat /run/forge-demo/loaded"), "version=1.1-1 greeting=hello");
        assert_eq!(node.must("cat /srv/web/page"), format!("hello from {}", node.name));
        assert_eq!(node.must("stat -c '%U %a' /srv/web/page"), "webber 640");
        assert_eq!(node.must("apt-mark showhold"), "forge-demo");
        assert_eq!(node.must("systemctl show -P LimitNOFILE forge-demo"), "4096");
        assert_eq!(node.must("systemctl is-enabled forge-demo"), "enabled");
    }
    let invocation = nodes[0].must("systemctl show -P InvocationID forge-demo");
    let second = apply(&project);
    expect(&second, 0);
    assert!(second.stdout.contains("no changes:"), "{second}");
    expect(&plan(&project), 0);
    expect(&project.forge(["verify", "inventory.yaml"]), 0);
    assert_eq!(nodes[0].must("systemctl show -P InvocationID forge-demo"), invocation, "restarted without a change");
}

/// A change made without forge: the command that makes it, the step that the plan must report, and a check after the
/// repair.
struct Tamper {
    what: &'static str,
    step: &'static str,
    repaired: &'static str,
}

const TAMPERS: [Tamper; 12] = [
    Tamper { what: "echo edited > /srv/web/page", step: "web/page", repaired: "grep -q hello /srv/web/page" },
    Tamper { what: "chmod 666 /srv/web/page", step: "web/page", repaired: "test $(stat -c %a /srv/web/page) = 640" },
    Tamper {
        what: "chown root /srv/web/page",
        step: "web/page",
        repaired: "test $(stat -c %U /srv/web/page) = webber",
    },
    Tamper { what: "chmod 777 /srv/web", step: "web/folder", repaired: "test $(stat -c %a /srv/web) = 750" },
    Tamper {
        what: "usermod -s /bin/bash webber",
        step: "web/account",
        repaired: "getent passwd webber | grep -q nologin",
    },
    Tamper {
        what: "apt-mark unhold forge-demo",
        step: "web/package",
        repaired: "apt-mark showhold | grep -q forge-demo",
    },
    Tamper {
        what: "DEBIAN_FRONTEND=noninteractive apt-get install -qqy --allow-change-held-packages --allow-downgrades -o Dpkg::Options::=--force-confold forge-demo=1.0-1 </dev/null",
        step: "web/package",
        repaired: "test $(dpkg-query -W -f '${Version}' forge-demo) = 1.1-1",
    },
    Tamper { what: "systemctl stop forge-demo", step: "web/service", repaired: "systemctl is-active forge-demo" },
    Tamper { what: "systemctl disable forge-demo", step: "web/service", repaired: "systemctl is-enabled forge-demo" },
    Tamper {
        what: "echo '[Service]' > /etc/systemd/system/forge-demo.service.d/limits.conf",
        step: "web/limits",
        repaired: "test $(systemctl show -P LimitNOFILE forge-demo) = 4096",
    },
    Tamper { what: "rm /srv/web/marked", step: "web/marker", repaired: "test -e /srv/web/marked" },
    Tamper {
        what: "sed -i s/hello/tampered/ /etc/forge-demo.conf; systemctl restart forge-demo",
        step: "web/config",
        repaired: "grep -qx 'version=1.1-1 greeting=hello' /run/forge-demo/loaded",
    },
];

#[test]
fn each_change_made_without_forge_is_planned_and_repaired() {
    repair_each_change(Distribution::Debian12);
}

#[test]
fn each_change_made_without_forge_is_repaired_on_other_releases() {
    Distribution::OTHERS.into_iter().for_each(repair_each_change);
}

fn repair_each_change(distribution: Distribution) {
    let Some(nodes) = Fleet::take_on(distribution, 2) else { return };
    let project = web(&nodes);
    expect(&apply(&project), 0);
    for tamper in TAMPERS {
        nodes[1].must(tamper.what);
        let found = plan(&project);
        assert_eq!(found.code, 2, "{}: {found}", tamper.what);
        assert!(found.stdout.contains(tamper.step), "{}: {found}", tamper.what);
        assert!(!found.stdout.contains(&nodes[0].name), "the plan reports a host without a change: {found}");
        let repair = apply(&project);
        assert_eq!(repair.code, 0, "{}: {repair}", tamper.what);
        nodes[1].must(tamper.repaired);
        let after = plan(&project);
        assert_eq!(after.code, 0, "{}: {after}", tamper.what);
    }
    for kind in ["file", "directory", "package", "service", "unit", "user", "command"] {
        crate::proof::mark_on(distribution, kind);
    }
}

#[test]
fn plan_diff_shows_only_the_changed_line() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = web(&nodes);
    expect(&apply(&project), 0);
    nodes[0].must("echo greeting=bye > /etc/forge-demo.conf");
    let out = plan(&project);
    expect(&out, 2);
    assert!(out.stdout.contains("-greeting=bye") && out.stdout.contains("+greeting=hello"), "{out}");
}

#[test]
fn plan_verify_and_facts_write_nothing_on_the_host() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = web(&nodes);
    // `snapshot` skips the files that a login writes.
    let before = nodes[0].snapshot();
    expect(&plan(&project), 2);
    assert_eq!(nodes[0].snapshot(), before, "a plan of a bare host");
    expect(&apply(&project), 0);
    let before = nodes[0].snapshot();
    expect(&plan(&project), 0);
    expect(&project.forge(["verify", "inventory.yaml"]), 0);
    expect(&project.forge(["facts", "inventory.yaml"]), 0);
    assert_eq!(nodes[0].snapshot(), before, "plan, verify and facts of a host that matches");
}

#[test]
fn service_restarts_after_a_package_upgrade_with_old_mtimes() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = web(&nodes);
    expect(&apply(&project), 0);
    let recipe = WEB.replace("default: 1.1-1", "default: 2.0-1");
    let project = project.recipe("web", &recipe);
    // The upgrade happens without forge: its files are dated 2001, the daemon still runs the old program.
    nodes[0].must(
        "DEBIAN_FRONTEND=noninteractive apt-get install -qqy --allow-change-held-packages \
         -o Dpkg::Options::=--force-confold forge-demo=2.0-1 </dev/null && apt-mark hold forge-demo",
    );
    assert_eq!(nodes[0].must("cat /run/forge-demo/loaded"), "version=1.1-1 greeting=hello");
    let out = plan(&project);
    expect(&out, 2);
    assert!(out.stdout.contains("web/service"), "{out}");
    expect(&apply(&project), 0);
    assert_eq!(nodes[0].must("cat /run/forge-demo/loaded"), "version=2.0-1 greeting=hello");
    expect(&plan(&project), 0);
}

#[test]
fn package_upgrade_and_config_change_load_in_one_apply() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = web(&nodes);
    expect(&apply(&project), 0);
    let project = project.inventory("apply:\n  - { recipe: web, on: all, with: { greeting: moin, version: 2.0-1 } }\n");
    let out = plan(&project);
    expect(&out, 2);
    for step in ["web/page", "web/package", "web/config", "web/service"] {
        assert!(out.stdout.contains(step), "{step}: {out}");
    }
    expect(&apply(&project), 0);
    assert_eq!(nodes[0].must("cat /run/forge-demo/loaded"), "version=2.0-1 greeting=moin");
    expect(&plan(&project), 0);
}

#[test]
fn fact_templates_add_a_second_observation_round_trip() {
    let Some(nodes) = Fleet::take(1) else { return };
    let one = "recipe: r\nsummary: No facts\nsteps:\n  - name: text\n    file: { path: /etc/motd, content: x }\n";
    let two = "recipe: r\nsummary: Facts\nsteps:\n  - name: text\n    file: { path: \"/etc/motd-{{ facts.os.id }}\", content: x }\n";
    for (recipe, trips) in [(one, "in 1 round trip"), (two, "in 2 round trips")] {
        let project = Project::new(&nodes).recipe("r", recipe).inventory("apply:\n  - { recipe: r, on: all }\n");
        let out = project.forge(["plan", "inventory.yaml", "-v"]);
        assert!(out.stderr.contains(trips), "{trips}: {out}");
        expect(&project.forge(["apply", "inventory.yaml", "--yes"]), 0);
        expect(&plan(&project), 0);
    }
    assert!(nodes[0].exists("/etc/motd-debian"));
}
