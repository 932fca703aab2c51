//! Connections: host keys, sudo with and without a password, jump hosts, unreachable hosts.

use crate::support::{Fleet, Node, Output, PASSWORD, Project};

const MOTD: &str = "recipe: motd\nsummary: A message\nsteps:\n  - name: text\n    file: { path: /etc/motd, content: \"by forge\\n\" }\n";
const APPLY: &str = "apply:\n  - { recipe: motd, on: all }\n";

#[track_caller]
fn expect(out: &Output, code: i32) {
    assert_eq!(out.code, code, "{out}");
}

fn inventory(nodes: &[Node], connect: &str) -> String {
    let mut text = format!("cluster: fleet\nconnect: {connect}\nhosts:\n");
    for node in nodes {
        text += &format!("  {}: {{ address: {} }}\n", node.name, node.address);
    }
    text + APPLY
}

/// Returns the `connect` keys that every test shares.
fn keys() -> String {
    let fleet = Fleet::require().expect("nodes come from a fleet");
    format!("identity: {}, known_hosts: {}", fleet.key.display(), fleet.known_hosts.display())
}

fn with_connect(nodes: &[Node], connect: &str) -> Project {
    Project::new(nodes).recipe("motd", MOTD).file("inventory.yaml", &inventory(nodes, connect))
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes"])
}

#[test]
fn sudo_works_without_a_password() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = with_connect(&nodes, &format!("{{ user: deploy, sudo: true, {} }}", keys()));
    expect(&apply(&project), 0);
    assert_eq!(nodes[0].must("stat -c '%U:%G %a' /etc/motd; cat /etc/motd"), "root:root 644\nby forge");
    expect(&project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]), 0);
}

/// The connection of the run survives such a change, and no later one is possible.
#[test]
fn account_change_that_bars_the_login_fails_and_stops_the_rollout() {
    let Some(nodes) = Fleet::take(2) else { return };
    let connect = format!("{{ user: deploy, sudo: true, {} }}\nrollout: {{ canary: 1, max_failed: 1 }}", keys());
    let shell = "recipe: motd\nsummary: A shell\nsteps:\n  - name: text\n    user: { name: deploy, shell: /usr/sbin/nologin }\n";
    let project = with_connect(&nodes, &connect).recipe("motd", shell);
    let applied = apply(&project);
    expect(&applied, 8);
    let why = "since this change forge cannot log in to the host again: ";
    assert!(applied.stdout.contains(why), "{applied}");
    let shells: Vec<String> = nodes.iter().map(|node| node.must("getent passwd deploy | cut -d: -f7")).collect();
    assert_eq!(shells.iter().filter(|shell| shell.ends_with("nologin")).count(), 1, "only the canary: {shells:?}");
    let home = "recipe: motd\nsummary: A home\nsteps:\n  - name: text\n    guard: 10s\n    directory: { path: /home/deploy, owner: deploy, group: deploy, mode: \"0777\" }\n";
    let untouched = nodes.iter().find(|node| !node.must("getent passwd deploy").trim_end().ends_with("nologin"));
    let left = [untouched.expect("a host")];
    let before = left[0].must("stat -c %a /home/deploy");
    let names = left[0].name.clone();
    let applied = project.recipe("motd", home).forge(["apply", "inventory.yaml", "--on", &names, "--yes"]);
    expect(&applied, 3);
    assert!(applied.stdout.contains("guard restored the state before"), "{applied}");
    assert_eq!(left[0].must("stat -c %a /home/deploy"), before);
}

#[test]
fn sudo_password_is_never_exposed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let connect = format!("{{ user: admin, sudo: {{ password: {{ env: FORGE_TEST_SUDO }} }}, {} }}", keys());
    let project = with_connect(&nodes, &connect);
    let run = |password: &str, args: &[&str]| {
        let output = project.command(args).env("FORGE_TEST_SUDO", password).output().expect("forge runs");
        Output {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    };
    let wrong = run("not it at all", &["plan", "inventory.yaml"]);
    expect(&wrong, 4);
    assert!(wrong.to_string().contains("sudo refused the password"), "{wrong}");
    let right = run(PASSWORD, &["apply", "inventory.yaml", "--yes", "-vvv"]);
    expect(&right, 0);
    assert_eq!(nodes[0].must("cat /etc/motd"), "by forge");
    assert!(!right.to_string().contains(PASSWORD), "the password is in the output: {right}");
    let state = project.path("state");
    let found = std::process::Command::new("grep").arg("-r").arg(PASSWORD).arg(&state).output().expect("grep runs");
    assert!(found.stdout.is_empty(), "the password is in the state folder");
    let kept = nodes[0].sh(&format!("grep -rs '{PASSWORD}' /var/lib/forge /run/forge /var/log /tmp"));
    assert!(kept.stdout.is_empty() && !kept.ok(), "the password is on the host: {kept}");
}

#[test]
fn user_without_sudo_rights_is_rejected() {
    let Some(nodes) = Fleet::take(1) else { return };
    let out =
        with_connect(&nodes, &format!("{{ user: plain, sudo: true, {} }}", keys())).forge(["plan", "inventory.yaml"]);
    expect(&out, 4);
    assert!(out.to_string().contains("sudo"), "{out}");
}

/// What such a login mounts exists in its own namespace only: `/proc/1/mountinfo` would not have it.
#[test]
fn host_whose_logins_have_their_own_mounts_is_left_alone() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let scratch =
        "steps:\n  - { name: scratch, mount: { path: /mnt, source: tmpfs, fstype: tmpfs, options: [size=8m] } }\n";
    let project = Project::new(&nodes)
        .recipe("scratch", &format!("recipe: scratch\n{scratch}"))
        .inventory("apply:\n  - { recipe: scratch, on: all }\n");
    node.must(
        "mkdir -p /etc/systemd/system/ssh.service.d && cd /etc/systemd/system/ssh.service.d && \
         printf '[Service]\\nPrivateTmp=yes\\n' >own.conf && systemctl daemon-reload && systemctl restart ssh",
    );
    let told = "the shell of forge on the host has other mounts than process 1 of the host";
    for verb in [&["plan"][..], &["apply", "--yes"], &["verify"], &["drift"]] {
        let out = project.forge([&[verb[0], "inventory.yaml"], &verb[1..]].concat());
        assert!(out.code == 4 && out.to_string().contains(told), "{verb:?}: {out}");
    }
    let doctor = project.forge(["doctor", "inventory.yaml"]);
    assert!(doctor.code == 4 && doctor.to_string().contains("(`systemctl cat ssh` or `sshd`)"), "{doctor}");
    node.must("rm -r /etc/systemd/system/ssh.service.d && systemctl daemon-reload && systemctl restart ssh");
    expect(&apply(&project), 0);
    assert_eq!(node.must("grep -c ' /mnt ' /proc/1/mountinfo"), "1");
}

#[test]
fn host_is_reached_through_a_jump_host() {
    let Some(nodes) = Fleet::take(2) else { return };
    let fleet = Fleet::require().expect("nodes come from a fleet");
    // The target accepts ssh only from the jump host.
    nodes[1].must(
        "printf 'AllowUsers root@%s\\n' \"$0\" >> /etc/ssh/sshd_config".replace("$0", &nodes[0].address).as_str(),
    );
    nodes[1].must("systemctl restart ssh || systemctl restart sshd");
    let config = fleet.ssh_config.display();
    let connect = format!("{{ user: root, config: {config}, jump: {} }}", nodes[0].name);
    let project = with_connect(&nodes[1..], &connect);
    expect(&apply(&project), 0);
    assert_eq!(nodes[1].must("cat /etc/motd"), "by forge");
    let direct = with_connect(&nodes[1..], &format!("{{ user: root, config: {config} }}"));
    expect(&direct.forge(["plan", "inventory.yaml"]), 4);
}

#[test]
fn unknown_host_key_is_rejected_unless_accept_new_is_set() {
    let Some(nodes) = Fleet::take(1) else { return };
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let key = fleet.key.display();
    let strict =
        with_connect(&nodes, &format!("{{ user: root, identity: {key}, known_hosts: /tmp/forge-no-such-file }}"));
    let out = strict.forge(["plan", "inventory.yaml"]);
    expect(&out, 4);
    assert!(out.to_string().contains("host key") && out.to_string().contains("accept_new"), "{out}");
    let own = strict.path("known_hosts");
    let connect = format!("{{ user: root, identity: {key}, known_hosts: {}, host_key: accept_new }}", own.display());
    let accepting = with_connect(&nodes, &connect);
    expect(&apply(&accepting), 0);
    assert!(own.exists());
}

#[test]
fn unreachable_host_does_not_stop_other_hosts() {
    let Some(nodes) = Fleet::take(3) else { return };
    nodes[1].stop();
    let project = with_connect(&nodes, &format!("{{ user: root, timeout: 3s, {} }}", keys()));
    let out = apply(&project);
    expect(&out, 4);
    assert!(out.stdout.contains(&nodes[1].name), "{out}");
    for node in [&nodes[0], &nodes[2]] {
        assert_eq!(node.must("cat /etc/motd"), "by forge");
    }
    nodes[1].start();
    expect(&apply(&project), 0);
    assert_eq!(nodes[1].must("cat /etc/motd"), "by forge");
}

const SECRET: &str = "s3cr3t-c4n4ry-7f1e'\"$x";

const VAULT: &str = r#"
recipe: vault
summary: A secret in a file, in a command and in a failure
params:
  token: { type: secret }
steps:
  - name: file
    file: { path: /etc/token, content: "token={{ params.token }}\n", mode: "0600" }
  - name: command
    command: { check: test -e /srv/used, apply: "printf %s \"$TOKEN\" > /srv/used; echo \"used $TOKEN\"", env: { TOKEN: "{{ params.token }}" } }
  - name: failure
    command: { check: test -e /srv/never, apply: "echo \"said $TOKEN\" >&2; exit 4", env: { TOKEN: "{{ params.token }}" } }
"#;

/// The secret is a canary value: it must not appear in any output, state folder, process list or record.
#[test]
fn secret_does_not_leak_outside_its_file() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes)
        .recipe("vault", VAULT)
        .inventory("apply:\n  - { recipe: vault, on: all, with: { token: { env: FORGE_TEST_TOKEN } } }\n");
    node.must("mkdir -p /srv; (while :; do ps -eo args; sleep 0.02; done > /run/ps.log) >/dev/null 2>&1 & echo $! > /run/ps.pid");
    let run = |args: &[&str]| {
        let output = project.command(args).env("FORGE_TEST_TOKEN", SECRET).output().expect("forge runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains(SECRET) && !text.contains("s3cr3t-c4n4ry"), "{args:?}: {text}");
        (output.status.code().unwrap_or(-1), text)
    };
    run(&["plan", "inventory.yaml", "-vvv"]);
    run(&["plan", "inventory.yaml", "--format", "json", "--json-into", "plan.json"]);
    let (code, text) = run(&["apply", "inventory.yaml", "--yes", "-vvv", "--json-into", "report.json"]);
    assert_eq!(code, 3, "the last step fails: {text}");
    assert_eq!(node.must("cat /etc/token"), format!("token={SECRET}"));
    assert_eq!(node.must("cat /srv/used"), SECRET);
    node.must("echo 'token=tampered' > /etc/token");
    let (_, text) = run(&["plan", "inventory.yaml", "-v"]);
    assert!(text.contains("/etc/token") && !text.contains("tampered"), "the body of a secret file is shown: {text}");
    node.must("kill $(cat /run/ps.pid)");
    let found = std::process::Command::new("grep")
        .args(["-rl", "s3cr3t-c4n4ry"])
        .arg(project.path(""))
        .output()
        .expect("grep runs");
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    // `/run/ps.log` contains every command line since then.
    let argv = node.sh("grep -a s3cr3t-c4n4ry /run/ps.log | sort | uniq -c | cut -c1-400").stdout;
    assert_eq!(argv, "", "a command line contained it");
    let kept = node.sh("grep -rl --exclude-dir=proc s3cr3t-c4n4ry /run /tmp /var 2>/dev/null");
    assert_eq!(kept.stdout, "", "the secret is on the host: {kept}");
}

/// Every source of secrets, through every verb. `sops` is a stand-in that prints a value as sops 3.11 does, without a
/// newline; `tests/cli/secrets.rs` runs the real one.
const SOURCES: [(&str, &str, &str); 5] = [
    ("a", "k4n4ri-of-env", "{ env: FORGE_TEST_TOKEN }"),
    ("b", "k4n4ri-of-file", "{ file: vault/plain }"),
    ("c", "k4n4ri-of-age", "{ age: vault/token.age, identity: vault/key }"),
    ("d", "k4n4ri-of-sops", "{ sops: vault/plain, key: a.b }"),
    ("e", "k4n4ri-of-command", "{ command: [cat, vault/given] }"),
];

/// Collects every command line and environment of this machine, except of the programs that print a secret: a test that
/// greps in them finds it there.
fn watch_processes(log: &std::path::Path) -> std::process::Child {
    let script = "while :; do for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/cmdline; [ $p = /proc/$1 ] || tr '\\0' '\\n' < $p/environ; done; sleep 0.05; done > \"$0\" 2>/dev/null";
    let mut watcher = std::process::Command::new("sh");
    watcher.args(["-c", script]).arg(log).arg(std::process::id().to_string()).spawn().expect("sh starts")
}

#[test]
fn secrets_of_all_sources_leak_through_no_verb() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let params: String = SOURCES.iter().map(|(name, ..)| format!("  {name}: {{ type: secret }}\n")).collect();
    let steps: String = SOURCES
        .iter()
        .map(|(name, ..)| format!("  - name: {name}\n    file: {{ path: /etc/token-{name}, content: \"{{{{ params.{name} }}}}\\n\", mode: \"0600\" }}\n"))
        .collect();
    let with: String = SOURCES.iter().map(|(name, _, source)| format!("      {name}: {source}\n")).collect();
    let project = Project::new(&nodes)
        .recipe("vault", &format!("recipe: vault\nsummary: Secrets\nparams:\n{params}steps:\n{steps}"))
        .file("vault/plain", SOURCES[1].1)
        .file("vault/given", SOURCES[4].1)
        .file("vault/age-plain", SOURCES[2].1)
        .file("bin/sops", &format!("#!/bin/sh\nprintf %s {}\n", SOURCES[3].1))
        .inventory(&format!("apply:\n  - recipe: vault\n    on: all\n    with:\n{with}"));
    let at = |name: &str| project.path(name).display().to_string();
    tool("chmod", &["+x", &at("bin/sops")]);
    tool("age-keygen", &["-o", &at("vault/key")]);
    let recipient = tool("age-keygen", &["-y", &at("vault/key")]);
    tool("age", &["--encrypt", "-r", recipient.trim(), "-o", &at("vault/token.age"), &at("vault/age-plain")]);
    let path = format!("{}:{}", at("bin"), std::env::var("PATH").expect("PATH"));
    let log = tempfile::NamedTempFile::new().expect("a file");
    let mut watcher = watch_processes(log.path());
    let run = |args: &[&str]| {
        let mut command = project.command([&["--trust"], args].concat());
        let output = command.env("FORGE_TEST_TOKEN", SOURCES[0].1).env("PATH", &path).output();
        let output = output.expect("forge runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("k4n4ri"), "{args:?}: {text}");
        (output.status.code().unwrap_or(-1), text)
    };
    run(&["validate", "inventory.yaml"]);
    assert_eq!(run(&["plan", "inventory.yaml", "-vvv", "-o", "plan.json"]).0, 0);
    assert_eq!(run(&["apply", "inventory.yaml", "--yes", "-vvv", "--json-into", "report.json"]).0, 0);
    for (name, value, _) in SOURCES {
        assert_eq!(node.must(&format!("cat /etc/token-{name}")), value);
    }
    for verb in ["verify", "drift", "graph", "plan"] {
        let (code, text) = run(&[verb, "inventory.yaml", "--format", "json"]);
        assert_eq!(code, 0, "{verb}: {text}");
    }
    assert_eq!(run(&["resume", "--yes"]).0, 0);
    run(&["facts", "inventory.yaml", "--record", "seen.json"]);
    run(&["doctor", "inventory.yaml"]);
    run(&["plan", "inventory.yaml", "--observed", "seen.json"]);
    run(&["explain", "vault.c"]);
    run(&["recipes", "vault"]);
    run(&["exec", "all", "--", "true"]);
    run(&["hold", "all", "--why", "test"]);
    run(&["release", "all"]);
    run(&["runs"]);
    run(&["show", "last", "--format", "json"]);
    // A rotated secret is a change without a value.
    fs_err::write(project.path("vault/given"), "k4n4ri-rotated").expect("a file");
    let (code, text) = run(&["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(code == 2 && text.contains("/etc/token-e") && text.contains("secret, not shown"), "{text}");
    assert!(!text.contains("/etc/token-d"), "only one was rotated: {text}");
    assert_eq!(run(&["apply", "inventory.yaml", "--yes"]).0, 0);
    assert_eq!(node.must("cat /etc/token-e"), "k4n4ri-rotated");
    run(&["undo", "last", "--yes", "-vvv"]);
    watcher.kill().expect("it runs");
    watcher.wait().expect("it ends");
    let seen = fs_err::read_to_string(log.path())
        .unwrap_or_else(|_| String::from_utf8_lossy(&fs_err::read(log.path()).expect("the log")).into_owned());
    assert!(seen.contains("--identity") || seen.contains("inventory.yaml"), "the watcher saw nothing");
    // forge itself has the variable that the user gave it, and no other program has.
    let leaks: Vec<&str> = seen.lines().filter(|line| line.contains("k4n4ri")).collect();
    assert!(leaks.iter().all(|line| *line == format!("FORGE_TEST_TOKEN={}", SOURCES[0].1)), "{leaks:?}");
    let found = std::process::Command::new("grep")
        .args(["-rl", "k4n4ri", "--exclude-dir=vault", "--exclude-dir=bin"])
        .arg(project.path(""))
        .output()
        .expect("grep runs");
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    let kept = node.sh("grep -rl --exclude-dir=proc k4n4ri /run /tmp /var/log 2>/dev/null");
    assert_eq!(kept.stdout, "", "the secret is on the host: {kept}");
}

fn tool(program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program).args(args).output().expect("the tool runs");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn ssh_certificate_authenticates_the_login() {
    let Some(nodes) = Fleet::take(1) else { return };
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let project = with_connect(&nodes, "{}");
    let (ca, key) = (project.path("ca"), project.path("id"));
    let text = |path: &std::path::Path| path.display().to_string();
    for key in [&ca, &key] {
        tool("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &text(key)]);
    }
    let connect = format!("{{ user: root, identity: {}, known_hosts: {} }}", text(&key), fleet.known_hosts.display());
    let project = project.file("inventory.yaml", &inventory(&nodes, &connect));
    let out = project.forge(["plan", "inventory.yaml"]);
    expect(&out, 4);
    nodes[0].write("/etc/ssh/ca.pub", std::fs::read(ca.with_extension("pub")).expect("the authority's key"));
    nodes[0].must("echo 'TrustedUserCAKeys /etc/ssh/ca.pub' >> /etc/ssh/sshd_config && systemctl restart ssh");
    tool("ssh-keygen", &["-q", "-s", &text(&ca), "-I", "forge", "-n", "root", &text(&key.with_extension("pub"))]);
    expect(&apply(&project), 0);
}

#[test]
fn ssh_agent_key_authenticates_the_login() {
    let Some(nodes) = Fleet::take(1) else { return };
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let project = with_connect(&nodes, &format!("{{ user: root, known_hosts: {} }}", fleet.known_hosts.display()));
    let socket = project.path("agent");
    let mut agent = std::process::Command::new("ssh-agent")
        .arg("-D")
        .arg("-a")
        .arg(&socket)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the agent starts");
    for _ in 0..500 {
        if socket.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(socket.exists(), "the agent did not create its socket within 10 s");
    let added = std::process::Command::new("ssh-add").arg("-q").arg(&fleet.key).env("SSH_AUTH_SOCK", &socket).status();
    let output = project.command(["apply", "inventory.yaml", "--yes"]).env("SSH_AUTH_SOCK", &socket).output();
    agent.kill().expect("the agent ends");
    agent.wait().expect("the agent ends");
    assert!(added.expect("ssh-add runs").success());
    let output = output.expect("forge runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn hosts_sharing_one_machine_are_not_changed() {
    let Some(nodes) = Fleet::take(2) else { return };
    let second = format!("{}.200", nodes[0].address.rsplit_once('.').unwrap().0);
    nodes[0].must(&format!("ip address add {second}/24 dev host0"));
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let connect = format!("{{ identity: {}, known_hosts: hosts, host_key: accept_new }}", fleet.key.display());
    let twin = Node { name: "another".to_owned(), address: second };
    let project = with_connect(&[nodes[0].clone(), nodes[1].clone(), twin], &connect);
    let before = nodes[0].must("cat /etc/motd");
    let out = apply(&project);
    expect(&out, 3);
    assert!(out.stdout.contains(&format!("is the same machine as `{}`", nodes[0].name)), "{out}");
    assert_eq!((nodes[0].must("cat /etc/motd"), nodes[1].must("cat /etc/motd")), (before, "by forge".to_owned()));
    assert!(!nodes[0].exists("/var/lib/forge"), "a record was written");
}
