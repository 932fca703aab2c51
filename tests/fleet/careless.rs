//! Careless use: a login that is not root, lock files of other users, huge output, interrupted runs, unreachable hosts.

use crate::support::{Fleet, Node, Output, Project};
use std::time::{Duration, Instant};

const APPLY: &str = "apply:\n  - { recipe: r, on: all }\n";
const MOTD: &str = "  - { name: text, file: { path: /etc/motd, content: \"by forge\\n\" } }\n";

#[track_caller]
fn expect(out: &Output, code: i32) {
    assert_eq!(out.code, code, "{out}");
}

#[track_caller]
fn says(out: &Output, text: &str) {
    assert!(out.stdout.contains(text) || out.stderr.contains(text), "no `{text}` in {out}");
}

fn with(project: Project, steps: &str) -> Project {
    project.recipe("r", &format!("recipe: r\nsummary: Under test\nsteps:\n{steps}")).inventory(APPLY)
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes"])
}

/// The plan shows the file as new. `useradd` copies it from `/etc/skel` before the step of the file.
#[test]
fn account_and_a_file_that_its_home_comes_with_are_made_in_one_run() {
    let Some(nodes) = Fleet::take(1) else { return };
    let steps = "  - { name: account, user: { name: ann, shell: /bin/bash } }
  - { name: profile, file: { path: /home/ann/.profile, owner: ann, group: ann, content: \"umask 027\\n\" } }
";
    expect(&apply(&with(Project::new(&nodes), steps)), 0);
    assert_eq!(nodes[0].must("stat -c '%U %s' /home/ann/.profile; ls -A /home/ann | wc -l"), "ann 10\n3");
}

/// A hold of a package that is not installed yet blocks it. forge releases it for the change, and sets it again.
#[test]
fn held_package_is_installed_although_no_other_one_is_held() {
    let Some(nodes) = Fleet::take(1) else { return };
    nodes[0].must("apt-mark hold forge-tool >&2");
    expect(&apply(&with(Project::new(&nodes), "  - { name: tool, package: { name: forge-tool } }\n")), 0);
    let state = nodes[0].must("dpkg-query -W -f '${db:Status-Abbrev}\n' forge-tool; apt-mark showhold");
    assert_eq!(state, "hi \nforge-tool");
}

#[test]
fn non_root_login_is_rejected_and_writes_nothing() {
    let Some(nodes) = Fleet::take(1) else { return };
    let plain = with(Project::connecting_as("plain", &nodes), MOTD);
    let before = nodes[0].snapshot();
    let (why, hint) = ("runs as `plain`, but root is required", "hint: set `connect: { sudo: … }` or log in as root");
    for (verb, code) in [(&["plan"][..], 3), (&["apply", "--yes"], 3), (&["verify"], 5)] {
        let out = plain.forge(verb.iter().chain(&["inventory.yaml"]));
        expect(&out, code);
        assert!(out.stdout.contains(why) && out.stdout.contains(hint), "{out}");
    }
    assert!(!nodes[0].exists("/run/lock/forge") && !nodes[0].exists("/run/lock/forge.act"));
    assert_eq!(nodes[0].snapshot(), before, "something was written");
    let root = with(Project::new(&nodes), MOTD);
    expect(&apply(&root), 0);
    // The user cannot read root's file: the step is unknown, and the plan has no changes.
    let out = plain.forge(["plan", "inventory.yaml"]);
    expect(&out, 0);
    says(&out, why);
}

/// A lock file left behind by a forge that ran as `plain`, or by a person.
#[test]
fn lock_file_of_another_user_blocks_with_a_hint() {
    let Some(nodes) = Fleet::take(1) else { return };
    nodes[0].must("rm -f /run/lock/forge*; setpriv --reuid=plain --clear-groups touch /run/lock/forge");
    let root = with(Project::new(&nodes), MOTD);
    let out = apply(&root);
    expect(&out, 3);
    says(&out, "blocked: the writer lock `/run/lock/forge` on the host belongs to `plain`");
    says(
        &out,
        "if no forge run is active there as `plain`, remove it as root: `rm -f /run/lock/forge /run/lock/forge.act`",
    );
    assert_ne!(nodes[0].sh("grep -s 'by forge' /etc/motd").code, 0);
    nodes[0].must("rm -f /run/lock/forge /run/lock/forge.act");
    expect(&apply(&root), 0);
}

#[test]
fn huge_output_keeps_the_exit_code_and_last_lines() {
    let Some(nodes) = Fleet::take(1) else { return };
    let much = "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo at the end";
    let steps = format!(
        "  - {{ name: a, command: {{ check: test -e /srv/a, apply: \"{much}; touch /srv/a\" }} }}\n  - {{ name: b, command: {{ check: test -e /srv/b, apply: \"{much}; exit 3\" }} }}\n",
        much = much.replace('\\', "\\\\")
    );
    let out = apply(&with(Project::new(&nodes), &steps));
    expect(&out, 3);
    says(&out, "1 failed, 1 changed");
    says(&out, "exit status 3\n      | at the end\n");
    assert!(nodes[0].exists("/srv/a") && !out.to_string().contains("did not run"), "{out}");
}

/// Starts an apply, and sends two interrupts once `path` exists.
fn leave_at(project: &Project, node: &Node, path: &str) -> Output {
    let child = project.begin_heard();
    node.until_exists(path);
    for _ in 0..2 {
        child.interrupt();
        std::thread::sleep(Duration::from_millis(500));
    }
    child.finish()
}

const LEFT: &str = "  - { name: a, command: { check: test -e /srv/a, apply: touch /srv/a } }
  - name: b
    long: LONG
    command: { check: test -e /srv/b, apply: \"touch /srv/began; sleep 6; touch /srv/b\" }
  - { name: c, command: { check: test -e /srv/c, apply: touch /srv/c } }
";

#[track_caller]
fn is_left_and_taken_up(node: &Node, long: &str, waits: &str) {
    let project = with(Project::new(std::slice::from_ref(node)), &LEFT.replace("LONG", long));
    let out = leave_at(&project, node, "/srv/began");
    expect(&out, 130);
    says(&out, "forge exited before this host was done; steps: 1 changed, 1 in flight, 1 not started");
    says(&out, "hint: run again: the next run waits for running jobs first");
    says(&out, "was running when forge exited");
    says(&out, "1 step changed");
    let out = apply(&project);
    expect(&out, 0);
    says(&out, waits);
    assert!(node.exists("/srv/b") && node.exists("/srv/c"));
}

#[test]
fn detached_long_step_is_reported_and_awaited_by_next_run() {
    let Some(nodes) = Fleet::take(1) else { return };
    is_left_and_taken_up(&nodes[0], "true", "waits for `r/b` of run 20");
}

#[test]
fn detached_short_step_is_reported_and_awaited_by_next_run() {
    let Some(nodes) = Fleet::take(1) else { return };
    is_left_and_taken_up(&nodes[0], "false", "waits for a script of `forge apply inventory.yaml` by ");
}

#[test]
fn locked_host_names_the_run_that_holds_the_lock() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = with(Project::new(&nodes), &LEFT.replace("LONG", "false"));
    let mut first = project.begin();
    nodes[0].until_exists("/srv/began");
    let out = apply(&project);
    expect(&out, 7);
    let line = out.stdout.lines().find(|line| line.contains("is locked by another run")).unwrap_or_default();
    let holder = format!("(pid {}), since 20", first.id());
    assert!(line.contains("`forge apply inventory.yaml` by ") && line.contains(&holder), "{out}");
    assert!(!out.to_string().contains("\\n"), "{out}");
    assert!(first.wait().success());
}

/// A command that runs longer than its limit does not go on behind the back of the run that reports it as failed.
#[test]
fn command_is_ended_at_its_timeout() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let slow = "  - { name: a, timeout: 3s, command: { creates: /srv/a, apply: \"touch /srv/began; sleep 761; touch /srv/a\" } }\n";
    let project = with(Project::new(&nodes), slow);
    let out = apply(&project);
    expect(&out, 3);
    says(&out, "stopped: it ran longer than its limit of 3 s (`timeout` of the step, or `--timeout`)");
    assert!(node.exists("/srv/began") && !node.sh("pgrep -fx 'sleep 761'").ok(), "it runs: {out}");
    let project = with(project, &slow.replace("sleep 761", "sleep 0"));
    let began = Instant::now();
    expect(&apply(&project), 0);
    assert!(began.elapsed() < Duration::from_secs(20), "it waited for the earlier run: {:?}", began.elapsed());
}

#[test]
fn timeout_option_applies_to_checks() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = with(Project::new(&nodes), "  - { name: a, command: { check: sleep 30, apply: \"true\" } }\n");
    let began = Instant::now();
    let out = project.forge(["plan", "inventory.yaml", "--timeout", "2s"]);
    expect(&out, 9);
    says(&out, "timed out after 2 s");
    assert!(began.elapsed() < Duration::from_secs(15), "{out}");
}

#[test]
fn scope_one_step_does_not_move_off_an_unreachable_host() {
    let Some(nodes) = Fleet::take(2) else { return };
    let init = "  - { name: init, scope: one, command: { creates: /srv/init, apply: touch /srv/init } }\n";
    let project = with(Project::new(&nodes), init);
    expect(&apply(&project), 0);
    assert!(nodes[0].exists("/srv/init") && !nodes[1].exists("/srv/init"));
    nodes[0].stop();
    let out = apply(&project);
    expect(&out, 4);
    says(&out, &format!("`{}` is unreachable, and the step may have run there", nodes[0].name));
    assert!(!nodes[1].exists("/srv/init"), "{out}");
    nodes[0].start();
    expect(&apply(&project), 0);
    assert!(!nodes[1].exists("/srv/init"));
}

#[test]
fn progress_names_the_canary_and_verify_reports_its_duration() {
    let Some(nodes) = Fleet::take(2) else { return };
    let slow = "  - { name: a, command: { check: \"sleep 1; test -e /srv/a\", apply: touch /srv/a } }\n";
    let project = with(Project::new(&nodes), slow);
    let project = project.inventory(&format!("rollout: {{ canary: 1 }}\n{APPLY}"));
    let out = apply(&project);
    expect(&out, 0);
    says(&out, &format!("{} waits for the canary {}", nodes[1].name, nodes[0].name));
    let out = project.forge(["verify", "inventory.yaml"]);
    expect(&out, 0);
    let last = out.stdout.lines().find(|line| line.starts_with("verified:")).unwrap_or_default();
    assert!(last.contains(" s)") && !last.contains("(0."), "{out}");
}
