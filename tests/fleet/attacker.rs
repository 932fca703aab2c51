//! An unprivileged user of a host attacks forge: every kind that writes works in a directory of that user, while the
//! user's program replaces everything that appears there with links to root's files. Results are checked on the host,
//! not by forge.

use crate::support::{Fleet, Node, Nodes, Output, Project};
use std::fmt::Write as _;
use std::process::Command;

/// How often all steps run against the attacker.
const ROUNDS: usize = 3;

/// Steps of one kind in a run.
const EACH: usize = 4;

const TOOL: &str = "d5a4d9788655cd454b3067d18b475a2fa811a474ccb00980f1a85fb1538c29b7";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDyQrJIcu9fm6FWdSJJKP5oA5sBgPbzPhjtF5uNlDC9J one@desk";

/// The digest of a program that root would run; the attacker swaps it for another one.
const PROGRAM: &str = "a17fcf0a2f50e2d495e4f90ce263410edc183add6c62699a2facbccf60410f74";

/// Creates the account, root's files that it wants to reach, and the files that recipes find in its home.
const BEFORE: &str = r#"
useradd --create-home --shell /bin/sh mallory
mkdir -p /srv/vault/tree /srv/vault/.ssh /srv/build/bin
for f in file tree/file x edited authorized_keys .ssh/authorized_keys; do echo root > /srv/vault/$f; done
for i in 0 1 2 3; do
  mkdir -p /srv/vault/tree$i /srv/vault/old$i
  for f in x$i edited$i tree$i/file old$i/file; do echo root > /srv/vault/$f; done
done
find /srv/vault -type f -exec chmod 600 {} +
echo tool > /srv/build/bin/tool; tar -czf /srv/tool.tar.gz -C /srv/build bin
echo secret of root > /srv/build/secret; tar -czf /srv/vault/secret.tar.gz -C /srv/build secret; chmod 600 /srv/vault/secret.tar.gz
rm /srv/build/secret; mkdir /srv/vault/point; mkdir -p /srv/vault/shown
su mallory -c 'cd; umask 022; mkdir p .ssh; ln -s /srv/vault p.flip; ln -s /srv/vault link; ln -s /srv/vault .ssh.flip; chmod 700 .ssh'
"#;

/// Restores the files for steps that run only once.
const AGAIN: &str = r#"
su mallory -c 'cd; for i in 0 1 2 3; do
  rm -rf tree$i owned$i made$i; mkdir -p tree$i/deep made$i; echo x > tree$i/deep/x; echo x > gone$i
  echo constant > owned$i; ln -sf /srv/vault/file owned$i.flip; ln -sfn /srv/vault/tree made$i.flip
  [ -e edited$i ] || echo first > edited$i; ln -sf /srv/vault/edited edited$i.flip
  rm -rf source$i.tar.gz* program$i* package$i* point$i* shown$i*
  cp /srv/tool.tar.gz source$i.tar.gz; ln -s /srv/vault/secret.tar.gz source$i.tar.gz.flip
  echo true > program$i; echo id \> /run/ran-by-root > program$i.flip
  cp /srv/forge-repo/forge-tool_1.0_all.deb package$i.deb; cp package$i.deb package$i.deb.flip
  mkdir point$i shown$i; ln -s /srv/vault/point point$i.flip; ln -s /srv/vault/shown shown$i.flip
done'
rm -rf /home/mallory/.got-*
"#;

/// Returns the steps. Each gets its own recipe, so that a failed one does not stop the others.
fn steps(round: usize) -> Vec<String> {
    let mut steps = Vec::new();
    for i in 0..EACH {
        let mode = if round.is_multiple_of(2) { "0600" } else { "0640" };
        let folder = if round.is_multiple_of(2) { "0700" } else { "0750" };
        let own = "owner: mallory, group: mallory";
        let home = "/home/mallory";
        steps.extend([
            format!("file: {{ path: {home}/new{i}, content: round {round}, {own}, mode: \"0600\" }}"),
            format!("file: {{ path: {home}/owned{i}, content: \"constant\\n\", {own}, mode: \"{mode}\" }}"),
            format!("line: {{ path: {home}/edited{i}, line: round {round}, match: ^round }}"),
            format!("block: {{ path: {home}/edited{i}, name: x, content: round {round} }}"),
            format!("directory: {{ path: {home}/dir{round}-{i}, {own} }}"),
            format!("directory: {{ path: {home}/made{i}, {own}, mode: \"{folder}\" }}"),
            format!("absent: {{ path: {home}/tree{i}, recursive: true }}"),
            format!("absent: {{ path: {home}/gone{i} }}"),
            format!("link: {{ path: {home}/pointer{i}, target: /round/{round}, {own} }}"),
            format!("artifact: {{ path: {home}/tool{round}-{i}, file: files/tool, sha256: {TOOL}, {own} }}"),
            format!("archive: {{ path: /srv/tool.tar.gz, into: {home}/unpacked{round}-{i}, {own} }}"),
            format!("file: {{ path: {home}/p/x{i}, content: round {round} {i}, {own} }}"),
            format!("line: {{ path: {home}/p/edited{i}, line: round {round} {i}, create: true }}"),
            format!("directory: {{ path: {home}/p/tree{i}, {own}, mode: \"0777\" }}"),
            format!("absent: {{ path: {home}/p/old{i}, recursive: true }}"),
            format!("archive: {{ path: {home}/source{i}.tar.gz, into: {home}/brought{round}-{i}, {own} }}"),
        ]);
    }
    steps.push(format!("ssh_authorized_key: {{ user: mallory, key: {KEY}{round} }}"));
    steps
}

/// Returns steps that run, install or mount a path in the directory: forge refuses them, because another user can
/// replace the path.
fn refused() -> Vec<String> {
    let home = "/home/mallory";
    let of_one = |i: usize| {
        [
            format!("installer: {{ path: {home}/program{i}, sha256: {PROGRAM}, version: \"1\", probe: echo 0 }}"),
            format!("package_file: {{ path: {home}/package{i}.deb, name: forge-tool }}"),
            format!("mount: {{ path: {home}/point{i}, source: tmpfs, fstype: tmpfs }}"),
            format!("mount: {{ path: /srv/bound{i}, source: {home}/shown{i}, fstype: none, options: [bind] }}"),
        ]
    };
    (0..EACH).flat_map(of_one).collect()
}

fn recipes(project: &Project, steps: &[String]) {
    let mut apply = "apply:\n".to_owned();
    for (number, step) in steps.iter().enumerate() {
        let recipe = format!("recipe: r{number}\nsummary: Under attack\nsteps:\n  - name: step\n    {step}\n");
        fs_err::write(project.path(&format!("recipes/r{number}.yaml")), recipe).expect("a recipe");
        writeln!(apply, "  - {{ recipe: r{number}, on: all }}").expect("text");
    }
    project.rewrite(&apply);
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes"])
}

/// Returns the host with the attacker's program, which is built on this machine.
fn host() -> Option<Nodes> {
    let nodes = Fleet::take(1)?;
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("attacker");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/attacker/attacker.c");
    let built = Command::new("cc").args(["-O2", "-static", "-o"]).arg(&program).arg(source).status();
    assert!(built.expect("a C compiler").success());
    nodes[0].must(BEFORE);
    nodes[0].write("/usr/local/bin/attacker", fs_err::read(&program).expect("the program"));
    // What a boot writes late is not a gain of the attacker.
    nodes[0].settled();
    nodes[0].must("chmod 755 /usr/local/bin/attacker; touch /run/mark");
    Some(nodes)
}

fn project(nodes: &[Node]) -> Project {
    Project::new(nodes).file("recipes/files/tool", "#!/bin/sh\necho tool 1.2\n").file("recipes/.keep", "")
}

/// Lists every file of root that a link may lead to, with owner, mode, change time and digest.
fn vault(node: &Node) -> String {
    node.must(
        "find /srv/vault -printf '%p %U %G %m %C@\\n' | sort; find /srv/vault -type f -exec sha256sum {} + | sort",
    )
}

/// Lists the account's files outside of its home, and root's files that changed.
fn gained(node: &Node) -> String {
    node.must(
        "find / -xdev -user mallory -not -path '/home/mallory*' -not -path '/var/lib/forge/*' -not -path '/proc/*' -not -path '/run/attacked-*';
         find /etc /root /usr /srv /boot -cnewer /run/mark",
    )
}

#[test]
fn symlink_race_of_a_user_gains_no_root_access() {
    let Some(nodes) = host() else { return };
    let node = &nodes[0];
    let project = project(&nodes);
    let before = vault(node);
    node.must("touch /run/attacked-mallory /run/attacked-p; chown mallory /run/attacked-*");
    let mut tries = 0;
    for round in 0..ROUNDS {
        node.must(AGAIN);
        let steps = [steps(round), refused()].concat();
        recipes(&project, &steps);
        tries += steps.len();
        node.must(
            "for d in /home/mallory /home/mallory/p; do setsid setpriv --reuid=mallory --regid=mallory --clear-groups \
             attacker $d /run/attacked-${d##*/} /srv/vault/file /srv/vault/tree /srv/vault >/dev/null 2>&1 </dev/null & done",
        );
        let out = apply(&project);
        node.must(
            "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" != attacker ] || kill -9 ${p#/proc/}; done",
        );
        let counts = node.must("cat /run/attacked-mallory");
        let flipped = counts.split_whitespace().last().and_then(|count| count.parse::<u64>().ok());
        assert!(flipped.is_some_and(|count| count > 100), "round {round}: grabs and flips: {counts}");
        assert!(!out.to_string().contains("panic"), "{out}");
        assert_eq!(vault(node), before, "round {round}: {out}");
        let led = node.must(
            "grep -rlF 'secret of root' /home/mallory; ls /run/ran-by-root 2>/dev/null; grep -e /home/mallory -e /srv/bound -e /srv/vault /proc/self/mountinfo;
             dpkg-query -W -f '${db:Status-Abbrev}' forge-tool 2>/dev/null; true",
        );
        assert_eq!(led, "", "round {round}: {out}");
    }
    recipes(&project, &steps(ROUNDS - 1));
    assert!(tries > 200, "{tries} tries");
    assert_eq!(gained(node), "");
    // Without the attacker, everything converges.
    node.must("cd /home/mallory && rm -rf .got-* .ssh .ssh.flip made* owned* edited* p p.flip *.flip source*");
    node.must("su mallory -c 'cd; mkdir p; for i in 0 1 2 3; do echo first > edited$i; cp /srv/tool.tar.gz source$i.tar.gz; done'");
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(vault(node), before);
}

/// A link that existed before: forge does nothing through it, and reports nothing behind it as matching.
#[test]
fn user_replaceable_symlink_is_not_followed() {
    let Some(nodes) = host() else { return };
    let node = &nodes[0];
    let project = project(&nodes);
    let before = vault(node);
    let at = "/home/mallory/link";
    let steps: Vec<String> = [
        format!("file: {{ path: {at}/new, content: theirs }}"),
        format!("file: {{ path: {at}/file, content: \"root\\n\", owner: mallory, mode: \"0600\" }}"),
        // It matches now, but the user could change that at any time.
        format!("file: {{ path: {at}/x, content: \"root\\n\", mode: \"0600\" }}"),
        format!("line: {{ path: {at}/edited, line: theirs }}"),
        format!("block: {{ path: {at}/edited, name: x, content: theirs }}"),
        format!("directory: {{ path: {at}/made, owner: mallory }}"),
        format!("directory: {{ path: {at}/tree, owner: mallory }}"),
        format!("absent: {{ path: {at}/.ssh, recursive: true }}"),
        format!("link: {{ path: {at}/pointer, target: /tmp }}"),
        format!("artifact: {{ path: {at}/tool, file: files/tool, sha256: {TOOL} }}"),
        format!("archive: {{ path: /srv/tool.tar.gz, into: {at}/unpacked }}"),
        format!("archive: {{ path: {at}/tool.tar.gz, into: /opt/unpacked }}"),
    ]
    .into();
    recipes(&project, &steps);
    let why = format!("{at} is a symbolic link that user mallory can replace: forge does not follow it");
    for verb in [&["plan"][..], &["apply", "--yes"], &["verify"], &["drift"]] {
        let out = project.forge(verb.iter().chain(&["inventory.yaml"]));
        assert!(out.stdout.contains(&why), "{out}");
        assert!(![0, 1].contains(&out.code), "{verb:?} {out}");
        assert_eq!(vault(node), before, "{out}");
    }
    let plan = project.forge(["plan", "inventory.yaml", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("JSON");
    let text = plan.to_string();
    assert_eq!(text.matches("\"verdict\":{\"blocked\":\"host\"}").count(), steps.len(), "{text}");
    assert_eq!(gained(node), "");
}
