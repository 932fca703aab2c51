//! forge is killed at arbitrary moments: the next apply converges, dpkg is consistent, and no reader sees a partial
//! file.

use crate::support::{Fleet, Project};
use std::time::{Duration, Instant};

const RECIPE: &str = r#"
recipe: web
summary: A package, a file that readers watch, and a service
params:
  version: { type: version, default: 1.0-1 }
steps:
  - name: page
    file: { path: /srv/page, content: "{{ (params.version ~ ' ') * 40000 }}end\n" }
  - name: package
    package: { name: forge-demo, version: "{{ params.version }}" }
  - name: config
    file: { path: /etc/forge-demo.conf, content: "greeting={{ params.version }}\n" }
  - name: service
    restart_on: [package, config]
    service: { name: forge-demo.service, enabled: true }
"#;

/// Reads the page as fast as it can and records every incomplete read.
const READER: &str = r#"
while :; do
  b=$(tail -c 4 /srv/page 2>/dev/null) || continue
  [ "$b" = end ] || echo torn >> /run/torn
done
"#;

#[test]
fn next_apply_recovers_from_a_kill_at_any_moment() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let mut project = Project::new(&nodes).recipe("web", RECIPE);
    node.must("echo 'first end' > /srv/page");
    node.write("/root/reader", READER);
    node.must("systemd-run --quiet --unit=reader sh /root/reader");
    let mut seed = 20_261_121_u64;
    for round in 0..20 {
        let version = if round % 2 == 0 { "1.0-1" } else { "1.1-1" };
        project =
            project.inventory(&format!("apply:\n  - {{ recipe: web, on: all, with: {{ version: {version} }} }}\n"));
        // A linear congruential generator: the moments vary, but are the same in every run.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let after = Duration::from_millis(50 + (seed >> 33) % 2500);
        kill_after(&project, after);
        let out = project.forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(out.code, 0, "round {round}, killed after {after:?}: {out}");
        assert_eq!(
            node.must("dpkg --audit; dpkg-query -W -f '${Status} ${Version}' forge-demo"),
            format!("install ok installed {version}")
        );
        assert_eq!(
            node.must("cat /run/forge-demo/loaded"),
            format!("version={version} greeting={version}"),
            "round {round}"
        );
        let after = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        assert_eq!(after.code, 0, "round {round}: {after}");
    }
    node.must("systemctl stop reader");
    assert!(!node.exists("/run/torn"), "a reader saw a partially written file");
    assert_eq!(node.must("ls -A /srv"), "forge-repo\npage", "a temporary file is left");
}

fn kill_after(project: &Project, after: Duration) {
    let mut child = project.begin();
    std::thread::sleep(after);
    child.kill();
}

#[test]
fn one_interrupt_finishes_the_running_step_and_names_it() {
    let Some(nodes) = Fleet::take(1) else { return };
    let recipe = "recipe: r\nsummary: Two steps\nsteps:\n  - name: first\n    command: { check: test -e /srv/one, apply: \"touch /srv/begun; sleep 3; touch /srv/one\" }\n  - name: second\n    command: { check: test -e /srv/two, apply: touch /srv/two }\n";
    let project = Project::new(&nodes).recipe("r", recipe).inventory("apply:\n  - { recipe: r, on: all }\n");
    let child = project.begin_heard();
    nodes[0].until_exists("/srv/begun");
    child.interrupt();
    let out = child.finish();
    let text = out.to_string();
    assert_eq!(out.code, 130, "{text}");
    assert!(nodes[0].exists("/srv/one"), "the running step did not finish: {text}");
    assert!(!nodes[0].exists("/srv/two"), "a new step started: {text}");
    assert!(text.contains("r/first") && text.contains(&nodes[0].name), "the step in flight is not named: {text}");
    project.forge(["apply", "inventory.yaml", "--yes"]).must_exit(0);
}

#[test]
fn two_interrupts_detach_and_the_next_apply_resumes_the_step() {
    let Some(nodes) = Fleet::take(1) else { return };
    let recipe = "recipe: r\nsummary: A slow package\nsteps:\n  - name: package\n    package: { name: forge-slow }\n";
    let project = Project::new(&nodes).recipe("r", recipe).inventory("apply:\n  - { recipe: r, on: all }\n");
    nodes[0].must("echo 6 > /etc/forge-slow-seconds");
    let child = project.begin_heard();
    nodes[0].until("pgrep -f '[f]orge-slow.postinst'", 20);
    for _ in 0..2 {
        child.interrupt();
        std::thread::sleep(Duration::from_millis(200));
    }
    let began = Instant::now();
    let out = child.finish();
    let text = out.to_string();
    assert_eq!(out.code, 130, "{text}");
    assert!(began.elapsed() < Duration::from_secs(4), "it did not exit at once: {text}");
    assert!(
        text.contains("r/package") && text.contains(&nodes[0].name),
        "the running step and its host are not named: {text}"
    );
    assert!(nodes[0].sh("pgrep -f '[f]orge-slow.postinst'").ok(), "the step does not run any more");
    let next = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(next.code, 0, "{next}");
    nodes[0].must("dpkg-query -W -f '${Status}' forge-slow | grep -q 'ok installed'");
    project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]).must_exit(0);
}
