//! Removal on real hosts: a service, its package, its files and its account are removed in a working order.

use crate::support::{Fleet, Project};

const WEB: &str = include_str!("recipes/web.yaml");

#[test]
fn ensure_absent_removes_everything_and_then_has_no_changes() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    // The daemon runs as the account and in its folder: neither can be removed before the daemon.
    let limits = "LimitNOFILE=4096\\nUser=webber\\nWorkingDirectory=/srv/web\\n";
    let web = WEB.replace("LimitNOFILE=4096\\n", limits);
    assert!(web.contains("User=webber"), "`web.yaml` has changed: its limits were not replaced");
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
        assert!(!node.sh(left).ok(), "not removed: {left}");
    }
    let again = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(again.code, 0, "{again}");
    assert!(again.stdout.contains("no changes:"), "{again}");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "{plan}");

    // Things that a run removed are not leftovers of an entry that is deleted later.
    project = project.inventory("");
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(!plan.stdout.contains("no longer declared"), "{plan}");
}

const MOVED: &str = "recipe: moved
steps:
  - name: page
    file: { path: /etc/forge-one, content: one }
  - name: people
    user: { name: forgeone }
  - name: unit
    unit: { name: forge-one.service, content: \"[Service]\\nExecStart=/bin/sleep 6000\\n\" }
  - name: service
    restart_on: [page]
    service: { name: forge-one.service, state: running }
  - name: job
    cron: { name: forge-one, schedule: \"@daily\", command: \"true\" }
";

/// Every step now manages another thing: plans list the former ones until the host shows that they are gone, or a step
/// removes them.
#[test]
fn former_resources_of_steps_are_listed_until_removed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkdir -p /etc/cron.d");
    let apply = "apply:\n  - { recipe: moved, on: all }\n";
    let mut project = Project::new(&nodes).recipe("moved", MOVED).inventory(apply);
    let made = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert!([0, 10].contains(&made.code), "{made}");

    // A plan from the recording of a host with records equals the live plan: nothing changed in between.
    let live = project.forge(["plan", "inventory.yaml", "--record", "seen.json"]);
    let again = project.forge(["plan", "inventory.yaml", "--observed", "seen.json"]);
    let plan = |said: &str| said.split("\nplan: ").next().unwrap_or_default().to_owned();
    assert_eq!(plan(again.after_recordings()), plan(&live.stdout));
    assert!(!live.stdout.contains("\n~ "), "{live}");

    let job = "cron: { name: forge-one, schedule: \"@daily\", command: \"true\" }";
    let timer = "timer: { name: forge-three, calendar: daily, command: \"true\" }";
    let moved = MOVED.replace(job, timer).replace("forge-one", "forge-two").replace("forgeone", "forgetwo");
    project = project.recipe("moved", &moved);
    let left = [
        "- cron forge-one  moved/job",
        "- file /etc/forge-one  moved/page",
        "- user forgeone  moved/people",
        "- service forge-one  moved/service",
        "- unit forge-one.service  moved/unit",
    ];
    for verb in [&["plan", "inventory.yaml"][..], &["apply", "inventory.yaml", "--yes"], &["plan", "inventory.yaml"]] {
        let said = project.forge(verb);
        assert_eq!(said.code, 0, "{said}");
        left.iter().for_each(|line| assert!(said.stdout.contains(line), "{line}: {said}"));
    }
    node.must(
        "systemctl stop forge-one; rm /etc/systemd/system/forge-one.service; systemctl daemon-reload; userdel forgeone",
    );
    let removing = "  - name: old page\n    when: \"false\"\n    otherwise: absent\n    file: { path: /etc/forge-one, content: x }\n";
    project = project.recipe("moved", &format!("{moved}{removing}"));
    let said = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(said.code, 0, "{said}");
    project = project.recipe("moved", &moved);
    let said = project.forge(["plan", "inventory.yaml"]);
    assert!(!node.exists("/etc/forge-one") && said.stdout.contains(left[0]), "{said}");
    left[1..].iter().for_each(|line| assert!(!said.stdout.contains(line), "{line}: {said}"));
}
