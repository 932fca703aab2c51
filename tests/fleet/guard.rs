//! Changes that cut forge off are taken back by the host itself. The witness is a login of the test's own, and the state
//! that the host's own programs print.

use crate::support::{Fleet, Node, Output, Project, limited};
use std::time::{Duration, Instant};

/// Logs in over a new connection, as `ssh` itself does.
fn log_in(node: &Node) -> Output {
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let mut ssh = limited("ssh");
    ssh.arg("-F").arg(&fleet.ssh_config).args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=2", &node.name, "true"]);
    Output::of(&mut ssh, b"")
}

/// What the packet filter, the files and the timers of forge are on the host.
const STATE: &str = r#"
nft -s list ruleset
find /etc/nftables.d /etc/ssh /etc/sudoers.d /etc/systemd/system -type f -exec sha256sum {} + | sort
find /etc/nftables.d /etc/ssh /etc/sudoers.d /etc/systemd/system -printf '%p %m %U:%G %l\n' | sort
sshd -T | grep -i allowusers
systemctl list-timers --all --no-legend 'forge-*'; systemctl list-units --all --no-legend 'forge-*'
"#;

fn state(node: &Node) -> String {
    node.must(&format!("{{ {STATE} }} 2>&1 || :"))
}

fn await_timers_gone(node: &Node) {
    node.until("! systemctl list-timers --all --no-legend 'forge-guard-*' | grep -q .", 60);
}

/// Drops every packet of ssh, also of established connections.
const SHUT: &str = r#"
recipe: filter
summary: A packet filter without ssh
steps:
  - name: before
    file: { path: /srv/before, content: "x\n" }
  - name: table
    guard: 8s
    nftables:
      name: shut
      rules: |
        chain input {
          type filter hook input priority 0; policy accept;
          tcp dport 22 drop
        }
  - name: after
    needs: [table]
    file: { path: /srv/after, content: "x\n" }
"#;

#[test]
fn packet_filter_that_drops_ssh_is_taken_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkdir -p /etc/nftables.d; nft add table ip other && nft add chain ip other keep");
    let project = Project::new(&nodes).recipe("filter", SHUT).inventory("apply: [{ recipe: filter, on: all }]\n");
    let planned = project.forge(["plan", "inventory.yaml"]);
    let line = "guard: 8s (restores the state before unless a new login succeeds)";
    assert!(planned.code == 0 && planned.stdout.contains(line), "{planned}");
    let before = state(node);
    let began = Instant::now();
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 3, "{applied}");
    assert!(applied.stdout.contains("guard restored the state before: no new session within 8s"), "{applied}");
    assert!(began.elapsed() > Duration::from_secs(8), "{applied}");
    let login = log_in(node);
    assert!(login.ok(), "{login}\n{applied}");
    await_timers_gone(node);
    assert_eq!(state(node), before, "{applied}");
    assert!(node.exists("/srv/before") && !node.exists("/srv/after"), "{applied}");
    assert!(!node.must("ls /var/lib/forge/applied").contains("table"), "it is not recorded as applied");
    assert_eq!(node.must("ls -A /var/lib/forge/guard"), "");
    let again = project.forge(["plan", "inventory.yaml"]);
    assert!(again.stdout.contains("nftables inet shut") && !again.stdout.contains("the guard of run"), "{again}");
}

const SSHD: &str = r#"
recipe: sshd
summary: The settings of sshd
params:
  users: { type: text }
steps:
  - name: config
    guard: 15s
    file:
      path: /etc/ssh/sshd_config.d/access.conf
      content: "AllowUsers {{ params.users }}\n"
      validate: sshd -t -f "$FORGE_FILE"
  - name: service
    restart_on: [config]
    service: { name: ssh, reload: true }
"#;

fn sshd_entry(users: &str) -> String {
    format!("apply: [{{ recipe: sshd, on: all, with: {{ users: {users} }} }}]\n")
}

/// The file is confirmed before the reload puts it into effect. The guard of the reload takes both back.
#[test]
fn sshd_that_admits_nobody_is_taken_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("sshd", SSHD).inventory(&sshd_entry("root"));
    let good = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(good.code, 0, "{good}");
    assert!(log_in(node).ok(), "{good}");
    let before = state(node);
    assert!(before.contains("allowusers root"), "{before}");
    let records = |node: &Node| node.must("cat /var/lib/forge/applied/*.json | sort | sha256sum");
    let recorded = records(node);
    project.rewrite(&sshd_entry("nobody"));
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 3, "{applied}");
    let why = "guard restored the state before: no new session within 15s (the host accepted no key of `root`";
    assert!(applied.stdout.contains(why), "{applied}");
    assert!(applied.stdout.contains("the guard of `sshd/service` restored the state before"), "{applied}");
    let login = log_in(node);
    assert!(login.ok(), "{login}\n{applied}");
    await_timers_gone(node);
    assert_eq!(state(node), before, "{applied}");
    assert_eq!(records(node), recorded, "{applied}");
    project.rewrite(&sshd_entry("root"));
    let matching = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(matching.code, 0, "{matching}");
}

/// What a guarded service reads is restored with it, whatever its path. `INPUT` is the step before.
const INPUTS: &str = r#"
recipe: inputs
summary: A service and a file that it reads
steps:
  - name: input
    INPUT
  - name: service
    guard: 15s
    restart_on: [input]
    service: { name: SERVICE, state: running, enabled: true }
"#;

/// Applies a change that cuts forge off, and expects the host as it was.
fn expect_taken_back(node: &Node, project: &Project) {
    let files = "sha256sum /etc/default/ssh";
    let files = format!("{{ {files}; }} 2>&1 || :");
    let (before, files_before) = (state(node), node.must(&files));
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 3, "{applied}");
    assert!(applied.stdout.contains("guard restored the state before: no new session within 15s"), "{applied}");
    assert!(applied.stdout.contains("the guard of `inputs/service` restored the state before"), "{applied}");
    assert!(log_in(node).ok(), "{applied}");
    await_timers_gone(node);
    assert_eq!((state(node), node.must(&files)), (before, files_before), "{applied}");
}

#[test]
fn inputs_of_a_guarded_service_are_taken_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = |input: &str, service: &str| INPUTS.replace("INPUT", input).replace("SERVICE", service);
    node.must("mkdir -p /etc/systemd/system/ssh.service.d");
    let drop_in = "[Service]\\nExecStart=\\nExecStart=/usr/sbin/sshd -D -p2222\\n";
    for input in [
        r#"file: { path: /etc/default/ssh, content: "SSHD_OPTS=-p2222\n" }"#.to_owned(),
        format!("unit: {{ name: ssh, drop_in: {{ name: port, content: \"{drop_in}\" }} }}"),
    ] {
        let project = Project::new(&nodes).recipe("inputs", &recipe(&input, "ssh"));
        let project = project.inventory("apply: [{ recipe: inputs, on: all }]\n");
        let planned = project.forge(["plan", "inventory.yaml"]);
        assert_eq!(planned.stdout.matches("guard: 15s").count(), 2, "{planned}");
        expect_taken_back(node, &project);
    }
}

/// The file holds forge's own key; its only login is with that key.
#[test]
fn keys_without_that_of_forge_are_taken_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl other";
    let file = format!("file: {{ path: /root/.ssh/authorized_keys, content: \"{other}\\n\", mode: \"0600\" }}");
    let whole = format!("ssh_authorized_key: {{ user: root, key: \"{other}\", exclusive: true }}");
    let keys = "cat /root/.ssh/authorized_keys; stat -c '%a %U:%G' /root/.ssh /root/.ssh/authorized_keys";
    let before = node.must(keys);
    for step in [&file, &whole] {
        let recipe =
            |guard: &str| format!("recipe: keys\nsummary: Keys\nsteps:\n  - {{ name: keys, {guard}{step} }}\n");
        let text = "apply: [{ recipe: keys, on: all }]\n";
        let project = Project::new(&nodes).recipe("keys", &recipe("")).inventory(text);
        let planned = project.forge(["plan", "inventory.yaml"]);
        let line = "guard: 5m (restores the state before unless a new login succeeds)";
        assert!(planned.code == 0 && planned.stdout.contains(line), "{planned}");
        let project = project.recipe("keys", &recipe("guard: 8s, "));
        let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(applied.code, 3, "{applied}");
        assert!(applied.stdout.contains("guard restored the state before: no new session within 8s"), "{applied}");
        let login = log_in(node);
        assert!(login.ok(), "{login}\n{applied}");
        assert_eq!(node.must(keys), before, "{applied}");
    }
    // A key more locks nobody out, and one that is added needs no second login.
    let more = format!(
        "recipe: keys\nsummary: Keys\nsteps:\n  - name: keys\n    ssh_authorized_key: {{ user: root, key: \"{other}\" }}\n"
    );
    let project = Project::new(&nodes).recipe("keys", &more).inventory("apply: [{ recipe: keys, on: all }]\n");
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert!(applied.code == 0 && !applied.stdout.contains("guard:"), "{applied}");
    assert!(log_in(node).ok() && node.must(keys).contains("other"), "{applied}");
}

/// A login succeeds, but root cannot be reached any more: this too is cut off.
#[test]
fn sudo_rule_that_locks_forge_out_is_taken_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = r#"
recipe: sudo
summary: A rule of sudo
steps:
  - name: rule
    guard: 8s
    file: { path: /etc/sudoers.d/zz-last, content: "deploy ALL=(ALL) !ALL\n", mode: "0440" }
"#;
    let text = "apply: [{ recipe: sudo, on: all }]\n";
    let project = Project::connecting_as("deploy", &nodes).recipe("sudo", recipe).inventory(text);
    let project = project_with_sudo(project);
    node.must("printf 'deploy ALL=(ALL) NOPASSWD: ALL\\n' >/etc/sudoers.d/zz-last; chmod 0440 /etc/sudoers.d/zz-last");
    let before = node.must("sha256sum /etc/sudoers.d/zz-last; stat -c '%a %U:%G' /etc/sudoers.d/zz-last");
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_ne!(applied.code, 0, "{applied}");
    assert!(applied.stdout.contains("guard restored the state before: no new session within 8s"), "{applied}");
    assert_eq!(node.must("sha256sum /etc/sudoers.d/zz-last; stat -c '%a %U:%G' /etc/sudoers.d/zz-last"), before);
    node.must("su deploy -s /bin/sh -c 'sudo -n true'");
}

fn project_with_sudo(project: Project) -> Project {
    let text = std::fs::read_to_string(project.path("inventory.yaml")).expect("an inventory");
    project.file("inventory.yaml", &text.replacen("connect: { ", "connect: { sudo: true, ", 1))
}

/// A change that a new login confirms stays, and nothing of its guard is left. A kept connection is not enough.
#[test]
fn confirmed_change_stays_without_a_timer() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = SHUT.replace("tcp dport 22 drop", "tcp dport 23 drop");
    let project = Project::new(&nodes).recipe("filter", &recipe).inventory("apply: [{ recipe: filter, on: all }]\n");
    let text = std::fs::read_to_string(project.path("inventory.yaml")).expect("an inventory");
    let project = project.file("inventory.yaml", &text.replacen("connect: { ", "connect: { keep: 5m, ", 1));
    let logins = || node.must("journalctl -u ssh --no-pager | grep -c Accepted").parse::<u32>().expect("a number");
    assert_eq!(project.forge(["plan", "inventory.yaml"]).code, 0, "opens the connection that is kept");
    let before = logins();
    assert_eq!(project.forge(["plan", "inventory.yaml"]).code, 0, "uses it");
    assert_eq!(logins(), before, "a kept connection is no new login");
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert!(logins() > before, "a new login confirms the change: {applied}");
    assert_eq!(node.must("systemctl list-timers --all --no-legend 'forge-*'"), "");
    assert_eq!(node.must("ls -A /var/lib/forge/guard"), "");
    std::thread::sleep(Duration::from_secs(9));
    assert!(node.must("nft list table inet shut").contains("tcp dport 23 drop"), "{applied}");
    assert!(node.exists("/srv/after"), "{applied}");
}

#[test]
fn killed_run_is_taken_back_and_the_next_one_says_so() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = SHUT.replace("guard: 8s", "guard: 12s");
    let project = Project::new(&nodes).recipe("filter", &recipe).inventory("apply: [{ recipe: filter, on: all }]\n");
    let mut child = project.begin();
    node.until("nft list table inet shut 2>/dev/null | grep -q 'dport 22'", 60);
    child.kill();
    assert!(!log_in(node).ok(), "the change is in force");
    assert!(node.must("systemctl list-timers --all --no-legend 'forge-*'").contains("forge-guard-"));
    node.until("! nft list table inet shut 2>/dev/null", 60);
    assert!(log_in(node).ok());
    node.until("ls /var/lib/forge/guard/*/restored", 60);
    assert_eq!(node.must("find /etc/nftables.d -type f; ls /etc/systemd/system/forge-nftables-* 2>/dev/null || :"), "");
    let planned = project.forge(["plan", "inventory.yaml"]);
    assert!(planned.stdout.contains("restored the state before `filter/table`"), "{planned}");
    assert!(planned.stdout.contains("nftables inet shut"), "{planned}");
    let harmless = project.recipe("filter", &recipe.replace("tcp dport 22 drop", "tcp dport 23 drop"));
    let applied = harmless.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    let planned = harmless.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 0 && !planned.stdout.contains("guard of run"), "it is reported once: {planned}");
}

/// A guard that waits for its confirmation is a writer: another run does not act before its end.
#[test]
fn armed_guard_keeps_other_runs_away() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = "recipe: r\nsummary: One step\nsteps:\n  - name: step\n    command: { check: test -e /srv/done, apply: test -e /srv/restored && touch /srv/done }\n";
    let project = Project::new(&nodes).recipe("r", recipe).inventory("apply: [{ recipe: r, on: all }]\n");
    node.must(
        "mkdir -p /var/lib/forge/guard/20261121T093015-4f2a-0001; cd /var/lib/forge/guard/20261121T093015-4f2a-0001
        echo base/sshd >steps; echo 5m >time; : >armed
        systemd-run --quiet --unit=forge-guard-20261121T093015-4f2a-0001 --on-active=10 touch /srv/restored",
    );
    let planned = project.forge(["plan", "inventory.yaml"]);
    let why = "the guard of run 20261121T093015-4f2a waits for a new session";
    assert!(planned.stdout.contains(why), "{planned}");
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert!(node.exists("/srv/done"), "{applied}");
}
