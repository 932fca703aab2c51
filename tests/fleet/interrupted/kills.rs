//! forge is killed at random moments of a run, many times over one host: every next run converges.
//!
//! `FORGE_KILLS=200 FORGE_KILLS_SEED=1 cargo test --test fleet interrupted::kills -- --ignored --nocapture`

use super::reader::FileReader;
use super::results::{Seed, describe_machine, record_kills};
use crate::support::{Fleet, Node, Project};
use std::time::{Duration, Instant};

/// Many kinds, and a command that notes if it runs twice for one version, or while it is still running.
const RECIPE: &str = r#"
recipe: shop
summary: Changes of many kinds
params:
  version: { type: version, default: 1.0-1 }
steps:
  - name: page
    file: { path: /srv/page, content: "{{ (params.version ~ ' ') * 40000 }}end\n" }
  - name: own line
    line: { path: /etc/shop.lines, line: "version {{ params.version }}", match: "^version ", create: true }
  - name: block
    block: { path: /etc/shop.lines, name: own, content: "{{ (params.version ~ '\n') * 200 }}" }
  - name: link
    link: { path: /etc/shop.current, target: "/srv/{{ params.version }}" }
  - name: setting
    sysctl: { key: net.ipv4.conf.lo.forwarding, value: "{{ '1' if params.version == '1.0-1' else '0' }}" }
  - name: package
    package: { name: forge-demo, version: "{{ params.version }}" }
  - name: config
    file: { path: /etc/forge-demo.conf, content: "greeting={{ params.version }}\n" }
  - name: service
    restart_on: [package, config]
    service: { name: forge-demo.service, enabled: true }
  - name: account
    user: { name: shopper, create_home: false, comment: "version {{ params.version }}" }
  - name: unit
    unit:
      name: shop.timer
      content: "[Timer]\nOnActiveSec={{ '1h' if params.version == '1.0-1' else '2h' }}\nUnit=forge-demo.service\n[Install]\nWantedBy=timers.target\n"
  - name: once
    command:
      check: cat /srv/once | grep -qx {{ params.version }}
      apply: |
        grep -qsx {{ params.version }} /srv/once && echo "{{ params.version }} runs again" >>/srv/witness
        mkdir /run/once || echo "{{ params.version }} runs twice at once" >>/srv/witness
        sleep 0.1
        echo {{ params.version }} >/srv/once.new && mv /srv/once.new /srv/once
        rmdir /run/once
"#;

fn count() -> u32 {
    std::env::var("FORGE_KILLS").map_or(200, |text| text.parse().expect("FORGE_KILLS is a number"))
}

fn version(round: u32) -> &'static str {
    if round.is_multiple_of(2) { "1.0-1" } else { "1.1-1" }
}

/// Sets the version that the project declares.
fn declare(project: &Project, version: &str) {
    project.rewrite(&format!("apply:\n  - {{ recipe: shop, on: all, with: {{ version: {version} }} }}\n"));
}

/// What the host itself says once a version is applied.
fn check(node: &Node, version: &str, when: &str) {
    assert_eq!(
        node.must("dpkg --audit; dpkg-query -W -f '${Status} ${Version}' forge-demo"),
        format!("install ok installed {version}"),
        "{when}"
    );
    let loaded =
        node.must("cat /run/forge-demo/loaded; readlink /etc/shop.current; getent passwd shopper | cut -d: -f5");
    assert_eq!(loaded, format!("version={version} greeting={version}\n/srv/{version}\nversion {version}"), "{when}");
    let page = node.read("/srv/page");
    assert_eq!(page, page_of(version), "{when}");
    assert_eq!(node.must("grep -c . /etc/shop.lines"), "203", "{when}");
    let left = node.must(super::case::CLEAN);
    assert!(left.is_empty(), "{when}: left behind: {left}");
    assert!(!node.exists("/srv/witness"), "{when}: {}", node.must("cat /srv/witness"));
}

fn page_of(version: &str) -> Vec<u8> {
    (format!("{version} ").repeat(40_000) + "end\n").into_bytes()
}

#[test]
#[ignore = "takes an hour: tests/faults/run"]
fn every_next_run_converges_after_a_kill_at_a_random_moment() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("shop", RECIPE);
    declare(&project, version(1));
    let first = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(first.code, 0, "{first}");
    declare(&project, version(0));
    let began = Instant::now();
    let second = project.forge(["apply", "inventory.yaml", "--yes"]);
    let whole = began.elapsed();
    assert_eq!(second.code, 0, "{second}");
    check(node, version(0), "without a kill");
    let pages: Vec<Vec<u8>> = (0..2).map(|round| page_of(version(round))).collect();
    let mut seed = Seed::from_environment("FORGE_KILLS_SEED");
    let (mut running, began, count) = (0, Instant::now(), count());
    for round in 1..=count {
        let version = version(round);
        declare(&project, version);
        let reader = FileReader::start(node.disk(), vec!["srv/page".to_owned()]);
        let after = Duration::from_millis(seed.below(whole.as_millis() as u64));
        let mut child = project.begin();
        std::thread::sleep(after);
        running += u32::from(!child.has_ended());
        child.kill();
        let when = format!("round {round}, killed after {after:?} of {whole:?}");
        let next = project.forge_elsewhere(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(next.code, 0, "{when}: {next}");
        check(node, version, &when);
        let plan = project.forge_elsewhere(["plan", "inventory.yaml", "--detailed-exitcode"]);
        assert_eq!(plan.code, 0, "{when}: {plan}");
        let torn = reader.finish()["srv/page"].iter().filter(|bytes| !pages.contains(bytes)).count();
        assert_eq!(torn, 0, "{when}: a reader saw a partial file");
        println!("{when}: converged");
        record_kills(&format!("{round} {running} {} {}", began.elapsed().as_secs(), describe_machine()));
    }
    println!("{count} kills, {running} of them while forge ran: every next run converged");
}
