//! Rehearsals on this machine over the local transport: what they find, and that they leave the machine unchanged.

use super::host::{Lab, Who};
use super::machine::Machine;
use super::{ONE, RECIPE};

const INVENTORY: &str = "cluster: lab
connect: { transport: local }
hosts:
  me:
apply:
  - { recipe: base, on: all }
  - { recipe: ssh-access, on: all }
  - { recipe: gpu-host, on: all, with: { hugepages: 512 } }
";

/// Stands for sshd, which not every machine has.
const SSH: &str = "recipe: ssh-access
summary: a unit named ssh
steps:
  - name: unit
    unit: { name: ssh.service, content: \"[Service]\\nExecStart=/bin/sleep 4711\\n[Install]\\nWantedBy=multi-user.target\\n\" }
  - name: service
    service: { name: ssh.service, enabled: true, state: running }
";

/// The script of the demo's package: it restarts ssh, adds a user, and edits a file of another package. The machine's
/// own package sources are removed in the view, so that the test needs no network.
const PLANTED: &str = r#"printf '%s\n' '#!/bin/sh' 'systemctl restart ssh' 'useradd --system planted' 'echo planted >>/etc/issue' >"$work/DEBIAN/postinst"
        chmod 755 "$work/DEBIAN/postinst"
        rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
        dpkg-deb --root"#;

/// What [`Machine`] does not list: caches and logs of package managers.
const CACHES: &str =
    "find /var/cache/apt /var/log/apt /var/log/dpkg.log /var/cache/debconf -printf '%p %y %m %U %G %s %C@\n' 2>&1";

/// Returns a folder with the demo's recipes on this machine, or prints why the test is skipped.
fn take_lab() -> Option<Lab> {
    if Who::all()[0] != Who::Root {
        eprintln!("skipped: a rehearsal of this machine needs root");
        return None;
    }
    match Lab::new(Who::Root, &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => Some(lab),
        Err(why) => {
            eprintln!("skipped: a view of this machine: {why}");
            None
        }
    }
}

fn write_demo(lab: &Lab) {
    lab.file("rehearsal.yaml", INVENTORY);
    lab.file("recipes/ssh-access.yaml", SSH);
    lab.file("recipes/base.yaml", include_str!("../../inventories/recipes/base.yaml"));
    let host = include_str!("../../inventories/recipes/gpu-host.yaml");
    let planted = host.replace("dpkg-deb --root", PLANTED).replace("needs: [base]", "needs: [base, ssh-access]");
    assert_ne!(planted, host);
    lab.file("recipes/gpu-host.yaml", &planted);
}

/// Fails if the view in which a step made `path` is still there, or if a mount of a view is visible on this machine.
/// Other tests have views at the same time.
fn no_view_is_left(lab: &Lab, path: &str) {
    let left = "for i in $(seq 50); do l=$(grep forge-rehearsal /proc/self/mounts
        for p in $(pgrep -f '[f]orge-rehearsal'); do [ ! -e /proc/$p/root/PATH ] || echo $p; done)
        [ -n \"$l\" ] || break; sleep 0.1; done; echo \"$l\"";
    assert_eq!(lab.shell(&left.replace("PATH", path)), "\n");
}

#[test]
fn rehearsal_finds_what_a_planted_maintainer_script_does() {
    let Some(lab) = take_lab() else { return };
    write_demo(&lab);
    let look = || (Machine::look(), lab.shell(CACHES));
    let before = look();
    let said = lab.forge(&["rehearse", "rehearsal.yaml", "--on", "me"]);
    before.0.is_unchanged();
    assert_eq!(lab.shell(CACHES), before.1);
    no_view_is_left(&lab, "srv/packages");
    assert!(said.starts_with("exit 0\nme: rehearsed\n"), "{said}");
    for step in
        ["base/login banner", "ssh-access/service", "gpu-host/huge pages", "gpu-host/agent", "gpu-host/agent service"]
    {
        assert!(said.contains(&format!("  ok {step} (")), "{step}: {said}");
    }
    for found in [
        "unit     `ssh.service` restarted by postinst of package `gpu-agent` during `gpu-host/agent`\n",
        "user     `planted` created\n",
        "file     `/etc/issue` changed (of package `base-files`) during `gpu-host/agent`\n",
        "file     `/srv/packages` created with 1 entry during `gpu-host/package repository`\n",
        "not listed: 1 file of package `gpu-agent`",
    ] {
        assert!(said.contains(found), "{found}: {said}");
    }
    for declared in ["/etc/ssh/banner", "gpu-agent.service`", "`train`", "/etc/gpu-agent.conf", "`gpu-agent:all`"] {
        let (_, beyond) = said.split_once("beyond the plan:\n").unwrap();
        assert!(!beyond.contains(declared), "{declared}: {said}");
    }
    let runs = lab.forge(&["runs", "-i", "rehearsal.yaml"]);
    assert!(runs.contains("runs: 0\n"), "no run is recorded: {runs}");
    let code = lab.forge(&["rehearse", "rehearsal.yaml", "--on", "me", "--detailed-exitcode", "--format", "json"]);
    assert!(code.starts_with("exit 2\n") && code.contains("\"result\": \"rehearsal\""), "{code}");
    let save = ["rehearse", "rehearsal.yaml", "--on", "me", "--format", "markdown", "-o", "plan.json"];
    let markdown = lab.forge(&save);
    let line = "- beyond the plan, unit: ` 'ssh.service' restarted by postinst of package 'gpu-agent' during 'gpu-host/agent' `\n";
    assert!(markdown.contains(line), "{markdown}");
    let shown = lab.forge(&["show", "plan.json"]);
    let (plan, rehearsal) = shown.split_once("\nrehearsal of this plan, before it was saved:\n").expect(&shown);
    assert!(plan.contains("gpu-host/agent") && rehearsal.contains("`ssh.service` restarted by postinst"), "{shown}");
    let altered = lab.shell("sed -i 's/restarted/started/' plan.json; ./forge -q apply plan.json --yes; echo exit $?");
    assert!(
        altered.contains("altered after it was saved: digest mismatch") && altered.contains("exit 65\n"),
        "{altered}"
    );
    before.0.is_unchanged();
}

/// Steps that fail, and attempts to leave the view.
const HOSTILE: &str = "recipe: r
summary: leaves the view
steps:
  - name: leave
    command:
      creates: /srv/done
      apply: |
        touch /srv/hostile
        echo 1 >/proc/sys/vm/swappiness
        echo 1 2>/dev/null >/sys/kernel/profiling && echo '/sys can be written to' >&2
        [ -z \"$(find / -xdev -type s 2>/dev/null)\" ] || echo 'a socket is here' >&2
        mknod /dev/disk b 8 0 2>/dev/null && echo 'a device can be made' >&2
        ip addr 2>/dev/null | grep -v -e '^1: lo' -e '^ ' >&2
        rm -rf /usr/share/doc /var/lib/dpkg /home
        kill -9 -1
        touch /srv/done
  - name: fails
    needs: [leave]
    command: { check: test -e /srv/never, apply: echo broken >&2; exit 7 }
";

#[test]
fn hostile_step_is_contained_and_reported() {
    let Some(lab) = take_lab() else { return };
    lab.file("hostile.yaml", &INVENTORY.replace("base", "r").lines().take(6).collect::<Vec<_>>().join("\n"));
    lab.file("recipes/r.yaml", HOSTILE);
    let before = Machine::look();
    let said = lab.forge(&["rehearse", "hostile.yaml", "--on", "me"]);
    before.is_unchanged();
    no_view_is_left(&lab, "srv/hostile");
    assert!(!said.starts_with("exit 0\n"), "{said}");
    for escape in ["can be written", "a socket is here", "a device can be made", "eth0"] {
        assert!(!said.contains(escape), "{said}");
    }
}

const NAMED: &str = "recipe: r
summary: a script that names what it changes
steps:
  - { name: account, command: { check: 'grep -q ^named: /etc/passwd', apply: useradd --system named } }
";

/// The words of a script declare nothing, so that the account is beyond the plan.
#[test]
fn account_named_in_the_script_of_a_command_is_reported() {
    let Some(lab) = take_lab() else { return };
    lab.file("named.yaml", &INVENTORY.replace("base", "r").lines().take(6).collect::<Vec<_>>().join("\n"));
    lab.file("recipes/r.yaml", NAMED);
    let said = lab.forge(&["rehearse", "named.yaml", "--on", "me"]);
    assert!(said.starts_with("exit 0\n") && said.contains("user     `named` created\n"), "{said}");
    assert!(lab.shell("getent passwd named || echo none").contains("none"));
}

/// `mount` and `umount` create `/run/mount` for their own notes, so the rehearsal runs with a `/run` without it.
#[test]
fn view_is_made_without_a_trace_in_run() {
    let Some(lab) = take_lab() else { return };
    lab.file("named.yaml", &INVENTORY.replace("base", "r").lines().take(6).collect::<Vec<_>>().join("\n"));
    lab.file("recipes/r.yaml", NAMED);
    let script =
        "mount -n -t tmpfs none /run && mkdir -m 1777 /run/lock && ./forge -q rehearse named.yaml --on me; ls /run";
    let said = lab.shell(&format!("unshare --mount sh -c '{script}'"));
    assert!(said.contains("1 step rehearsed on 1 host") && !said.contains("mount"), "{said}");
}

const SLOW: &str = "recipe: r
summary: a step that does not end
steps:
  - { name: slow, command: { creates: /srv/done, apply: touch /srv/slow; sleep 765.4321 } }
";

/// Starts a rehearsal whose step does not end, sends forge a signal, and prints forge's exit code and whether the step
/// ended within some seconds.
const STOPPED: &str = "./forge -q rehearse slow.yaml --on me >said 2>&1 & pid=$!
for i in $(seq 600); do pgrep -f '[s]leep 765.4321' >/dev/null && break; sleep 0.1; done
pgrep -f '[s]leep 765.4321' >/dev/null || echo 'did not start'
kill -SIGNAL $pid; wait $pid 2>/dev/null; echo \"exit $?\"
for i in $(seq 100); do pgrep -f '[s]leep 765.4321' >/dev/null || { echo ended; break; }; sleep 0.1; done";

#[test]
fn view_ends_with_forge() {
    let Some(lab) = take_lab() else { return };
    lab.file("slow.yaml", &INVENTORY.replace("base", "r").lines().take(6).collect::<Vec<_>>().join("\n"));
    lab.file("recipes/r.yaml", SLOW);
    let before = Machine::look();
    for (signal, exit) in [("INT", 130), ("KILL", 137)] {
        let said = lab.shell(&STOPPED.replace("SIGNAL", signal));
        assert_eq!(said, format!("exit {exit}\nended\n"), "{signal}: {}", lab.shell("cat said"));
        no_view_is_left(&lab, "srv/slow");
    }
    before.is_unchanged();
}

#[test]
fn rehearsal_needs_named_hosts_that_are_no_views() {
    let Some(mut lab) = take_lab() else { return };
    lab.file("local.yaml", &INVENTORY.replace("base", "r").lines().take(6).collect::<Vec<_>>().join("\n"));
    let no_selection = lab.forge(&["rehearse", "local.yaml"]);
    assert!(no_selection.starts_with("exit 64\nerror: rehearse requires `--on`\n"), "{no_selection}");
    let sandbox = lab.forge(&["rehearse", "inventory.yaml", "--on", "a"]);
    assert!(sandbox.starts_with("exit 64\nerror: cannot rehearse on sandboxes: a\n"), "{sandbox}");
    let user = lab.forge_as(Who::User, &["rehearse", "local.yaml", "--on", "me"]);
    let refused = "me: failed: cannot make a view of the host: root is required\n    hint: set `connect: { sudo: … }` or log in as root\n";
    assert!(user.starts_with("exit 3\n") && user.contains(refused), "{user}");
    // A step that the plan holds back counts as not rehearsed, also if nothing else changes.
    lab.file(
        "twice.yaml",
        "cluster: twice\nconnect: { transport: local }\nhosts: [one, two]\napply: [{ recipe: r, on: all }]\n",
    );
    let blocked = lab.forge(&["rehearse", "twice.yaml", "--on", "all"]);
    assert!(blocked.starts_with("exit 9\none: not rehearsed\n  not rehearsed r/"), "{blocked}");
    assert!(blocked.contains("`one` is the same machine as `two`"), "{blocked}");
}
