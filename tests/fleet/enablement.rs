//! Whether a unit starts at boot: systemd calls it `enabled` if any link of its `[Install]` section exists.

use crate::support::{Fleet, Project};

const RECIPE: &str = r#"
recipe: boot
summary: Services that start at boot
steps:
  - name: unit
    unit:
      name: early
      content: |
        [Service]
        ExecStart=/bin/sleep infinity
        [Install]
        WantedBy=multi-user.target
        Alias=first.service
  - { name: early, service: { name: early, enabled: true } }
  - { name: sshd, service: { name: ssh, enabled: true } }
"#;

/// Both units have an alias, so that systemd still calls them enabled without the link that starts them.
#[test]
fn missing_link_of_a_target_is_a_difference() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("boot", RECIPE).inventory("apply:\n  - { recipe: boot, on: all }\n");
    let plan = || project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    let apply = || project.forge(["apply", "inventory.yaml", "--yes"]);
    let first = apply();
    assert_eq!((first.code, plan().code), (0, 0), "{first}");
    let links = "cd /etc/systemd/system/multi-user.target.wants && readlink -e early.service ssh.service";
    let before = node.must(links);
    node.must(
        "cd /etc/systemd/system/multi-user.target.wants && rm early.service ssh.service && systemctl daemon-reload",
    );
    assert_eq!(node.must("systemctl is-enabled early ssh"), "enabled\nenabled");
    let planned = plan();
    assert_eq!(planned.code, 2, "{planned}");
    let told = "enabled, but not started by multi-user.target";
    assert_eq!(planned.stdout.matches(&format!("enabled: {told} → enabled")).count(), 2, "{planned}");
    let drift = project.forge(["drift", "inventory.yaml"]);
    assert!(drift.code == 2 && drift.stdout.contains(told), "{drift}");
    let repaired = apply();
    assert_eq!((repaired.code, node.must(links), plan().code), (0, before, 0), "{repaired}");
}

/// Changes of links on disk are seen, although systemd has the former state in memory until it is reloaded.
#[test]
fn links_are_compared_without_a_reload_of_systemd() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("boot", RECIPE).inventory("apply:\n  - { recipe: boot, on: all }\n");
    let repair = |told: &str| {
        let planned = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        assert!(planned.code == 2 && planned.stdout.contains(told), "no `{told}`: {planned}");
        let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!((applied.code, node.must("systemctl is-enabled early").as_str()), (0, "enabled"), "{applied}");
    };
    project.forge(["apply", "inventory.yaml", "--yes"]).must_exit(0);
    node.must("systemctl disable --no-reload early");
    assert_eq!(node.must("systemctl show -P UnitFileState early"), "enabled", "systemd's memory");
    repair("enabled, but not started by multi-user.target");
    node.must("systemctl disable ssh; systemctl mask --no-reload ssh");
    repair("it is masked");
    assert_eq!(node.must("systemctl is-enabled ssh"), "enabled");
    // The other way round: systemd calls a unit disabled that the next boot starts.
    let off = RECIPE.replace("{ name: early, enabled: true }", "{ name: early, enabled: false }");
    let project = project.recipe("boot", &off);
    project.forge(["apply", "inventory.yaml", "--yes"]).must_exit(0);
    node.must("systemctl enable --no-reload early");
    let planned = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 2 && planned.stdout.contains("enabled → disabled"), "{planned}");
}

/// A mask in `/run` goes as one in `/etc` does.
#[test]
fn mask_until_the_next_boot_is_removed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = "recipe: unmasked\nsummary: A service\nsteps:\n  \
                  - { name: package, package: { name: forge-demo } }\n  \
                  - { name: service, service: { name: forge-demo, enabled: true } }\n";
    let project =
        Project::new(&nodes).recipe("unmasked", recipe).inventory("apply:\n  - { recipe: unmasked, on: all }\n");
    let apply = || project.forge(["apply", "inventory.yaml", "--yes"]);
    apply().must_exit(0);
    for mask in ["--runtime", "--no-reload"] {
        node.must(&format!("systemctl stop forge-demo; systemctl mask {mask} forge-demo; systemctl daemon-reload"));
        assert!(node.sh("systemctl is-enabled forge-demo").stdout.starts_with("masked"));
        let applied = apply();
        assert_eq!(applied.code, 0, "{applied}");
        assert_eq!(node.must("systemctl is-enabled forge-demo; systemctl is-active forge-demo"), "enabled\nactive");
    }
}

/// The plan names the targets that a unit gets in the same run, and the apply starts the unit there.
#[test]
fn new_target_of_a_unit_is_planned_with_its_service() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("boot", RECIPE).inventory("apply:\n  - { recipe: boot, on: all }\n");
    project.forge(["apply", "inventory.yaml", "--yes"]).must_exit(0);
    let project = project.recipe("boot", &RECIPE.replace("multi-user.target", "multi-user.target timers.target"));
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    let told = "an earlier step installs it in timers.target";
    assert!(plan.code == 2 && plan.stdout.contains(told), "{plan}");
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    let links =
        "cd /etc/systemd/system && readlink -e multi-user.target.wants/early.service timers.target.wants/early.service";
    assert_eq!((out.code, node.must(links).lines().count()), (0, 2), "{out}");
    // A change of another line leaves the service alone.
    let project =
        project.recipe("boot", &RECIPE.replace("infinity", "1d").replace("multi-user", "multi-user.target timers"));
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(plan.code == 2 && !plan.stdout.contains("installs it"), "{plan}");
}

/// A target that the unit names no longer does not start it at the next boot, and an undo links it again.
#[test]
fn links_of_former_targets_are_removed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("boot", RECIPE).inventory("apply:\n  - { recipe: boot, on: all }\n");
    project.forge(["apply", "inventory.yaml", "--yes"]).must_exit(0);
    let list = "cd /etc/systemd/system && find . -name early.service -o -name first.service | sort";
    let before = node.must(list);
    let other = RECIPE.replace("multi-user.target", "timers.target").replace("        Alias=first.service\n", "");
    let project = project.recipe("boot", &other);
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("- link: /etc/systemd/system/multi-user.target.wants/early.service"), "{plan}");
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(
        (out.code, node.must(list).as_str()),
        (0, "./early.service\n./timers.target.wants/early.service"),
        "{out}"
    );
    assert!(!node.must("systemctl show -P Wants multi-user.target").contains("early.service"));
    let again = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(again.code, 0, "{again}");
    let undone = project.forge(["undo", "last", "-i", "inventory.yaml", "--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!((node.must(list), node.must("systemctl is-enabled early")), (before, "enabled".to_owned()), "{undone}");
}
