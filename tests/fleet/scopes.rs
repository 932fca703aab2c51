//! Steps across hosts: scopes `one`, `host` and `fleet`, barriers, and two runs that exclude each other.

use crate::support::{Fleet, Output, Project};

#[track_caller]
fn expect(out: &Output, code: i32) {
    assert_eq!(out.code, code, "{out}");
}

const MESH: &str = r#"
recipe: mesh
summary: One host creates a key pair, every host accepts it
steps:
  - name: key
    scope: one
    command:
      check: test -s /root/mesh
      apply: ssh-keygen -q -t ed25519 -N '' -C mesh -f /root/mesh
    export:
      public: { read: cat /root/mesh.pub }
  - name: accept
    file: { path: /root/accepted, content: "{{ exports['mesh'].public }}\n", mode: "0600" }
"#;

#[test]
fn one_host_makes_a_key_and_every_host_installs_it() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = Project::new(&nodes).recipe("mesh", MESH).inventory("apply:\n  - { recipe: mesh, on: all }\n");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    expect(&plan, 2);
    assert!(plan.stdout.contains('?'), "the plan shows a key before it exists: {plan}");
    expect(&project.forge(["apply", "inventory.yaml", "--yes"]), 0);
    let makers: Vec<_> = nodes.iter().filter(|n| n.exists("/root/mesh")).collect();
    assert_eq!(makers.len(), 1, "exactly one host creates the key");
    let key = makers[0].must("cat /root/mesh.pub");
    for node in nodes.iter() {
        assert_eq!(node.must("cat /root/accepted"), key);
    }
    expect(&project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]), 0);
    // The key stays on its host, even if another host is observed first.
    let again = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert!(again.stdout.contains("no changes:"), "{again}");
}

const EACH: &str = r#"
recipe: keys
summary: Every host has a name file, every host lists all
steps:
  - name: own
    command: { check: test -s /root/own, apply: "hostname > /root/own" }
    export:
      name: { read: cat /root/own }
  - name: list
    file: { path: /root/all, content: "{% for host, name in exports['keys'].name | items %}{{ host }}={{ name }}\n{% endfor %}" }
"#;

#[test]
fn exports_of_all_hosts_are_collected_before_use() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = Project::new(&nodes).recipe("keys", EACH).inventory("apply:\n  - { recipe: keys, on: all }\n");
    expect(&project.forge(["apply", "inventory.yaml", "--yes"]), 0);
    let lists: Vec<String> = nodes.iter().map(|n| n.must("cat /root/all")).collect();
    assert_eq!(lists[0].lines().count(), 3, "{lists:?}");
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
    expect(&project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]), 0);
}

const BARRIER: &str = r#"
recipe: second
summary: Continues once enough hosts are ready
needs:
  first: { of: selected, least: 100% }
steps:
  - name: go
    file: { path: /srv/second, content: x }
"#;

#[test]
fn barrier_skips_the_step_and_names_missing_hosts() {
    let Some(nodes) = Fleet::take(3) else { return };
    let first = "recipe: first\nsummary: Fails on one host\nsteps:\n  - name: try\n    command: { check: test -e /srv/first, apply: \"test ! -e /srv/bad && touch /srv/first\" }\n";
    let project = Project::new(&nodes)
        .recipe("first", first)
        .recipe("second", BARRIER)
        .inventory("apply:\n  - { recipe: first, on: all }\n  - { recipe: second, on: all }\n");
    nodes[2].must("touch /srv/bad");
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    expect(&out, 3);
    assert!(!nodes[0].exists("/srv/second"), "{out}");
    assert!(out.stdout.contains(&format!("missing: {}", nodes[2].name)), "{out}");
    nodes[2].must("rm /srv/bad");
    expect(&project.forge(["apply", "inventory.yaml", "--yes"]), 0);
    assert!(nodes.iter().all(|n| n.exists("/srv/second")));
}

#[test]
fn second_concurrent_apply_fails_because_the_host_is_locked() {
    let Some(nodes) = Fleet::take(1) else { return };
    let slow = "recipe: slow\nsummary: Takes its time\nsteps:\n  - name: wait\n    command: { check: test -e /srv/done, apply: \"touch /srv/begun; sleep 4; touch /srv/done\" }\n";
    let project = Project::new(&nodes).recipe("slow", slow).inventory("apply:\n  - { recipe: slow, on: all }\n");
    let first = project.begin_heard();
    nodes[0].until_exists("/srv/begun");
    let second = project.forge(["apply", "inventory.yaml", "--yes"]);
    expect(&second, 7);
    assert!(second.to_string().contains("this host is locked by another run"), "{second}");
    expect(&first.finish(), 0);
    expect(&project.forge(["apply", "inventory.yaml", "--yes"]), 0);
}

const FLEET: &str = r#"
recipe: same
summary: Every host must run the same
steps:
  - name: version
    command: { check: test -e /srv/version, apply: "echo 1 > /srv/version" }
    export:
      found: { read: cat /srv/version }
  - name: agree
    scope: fleet
    command:
      check: test 1 = "{{ exports['same'].found | items | map('last') | unique | length }}"
  - name: go
    file: { path: /srv/agreed, content: x }
"#;

#[test]
fn fleet_step_runs_only_if_all_hosts_agree() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = Project::new(&nodes).recipe("same", FLEET).inventory("apply:\n  - { recipe: same, on: all }\n");
    expect(&project.forge(["apply", "inventory.yaml", "--yes"]), 0);
    assert!(nodes.iter().all(|n| n.exists("/srv/agreed")));
    expect(&project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]), 0);
    nodes[1].must("echo 2 > /srv/version");
    for node in nodes.iter() {
        node.must("rm /srv/agreed");
    }
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_ne!(out.code, 0, "{out}");
    assert!(nodes.iter().all(|n| !n.exists("/srv/agreed")), "a host continued: {out}");
}
