//! A change that leads a path or an account elsewhere: later steps that match now are evaluated again after it, in the
//! same apply. The host is the witness.

use super::host::{Lab, Who};

const INVENTORY: &str =
    "cluster: lab\nconnect: { transport: sandbox }\nhosts: { a: }\napply:\n  - { recipe: r, on: all }\n";

/// Applies `before`, then `after`, which must converge at once.
fn converges(before: &str, after: &str, expected: &str, witness: &str) {
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", INVENTORY), ("recipes/r.yaml", before)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let first = lab.forge(&["apply", "--yes"]);
    assert!(first.starts_with("exit 0\n"), "{first}");
    lab.file("recipes/r.yaml", after);
    let plan = lab.forge(&["plan"]);
    assert!(plan.contains("may change that") && plan.contains("predicted"), "{plan}");
    let second = lab.forge(&["apply", "--yes"]);
    assert!(second.starts_with("exit 0\n"), "{second}");
    assert_eq!(lab.inside("inventory.yaml", "a", witness), expected, "{second}");
    let again = lab.forge(&["plan", "--detailed-exitcode"]);
    assert!(again.starts_with("exit 0\n"), "{again}");
    lab.nothing_is_left();
}

#[test]
fn files_below_a_link_follow_its_new_target() {
    let recipe = |version: &str| {
        format!(
            "recipe: r\nsteps:\n  - {{ name: release, directory: {{ path: /srv/rel-{version} }} }}\n  \
             - {{ name: current, link: {{ path: /srv/current, target: /srv/rel-{version} }} }}\n  \
             - {{ name: conf, file: {{ path: /srv/current/conf, content: same }} }}\n"
        )
    };
    converges(&recipe("1"), &recipe("2"), "/srv/rel-1/conf\n/srv/rel-2/conf\n", "ls /srv/rel-1/* /srv/rel-2/*");
}

#[test]
fn keys_of_an_account_follow_its_new_home() {
    let recipe = |home: &str| {
        format!(
            "recipe: r\nsteps:\n  - {{ name: account, user: {{ name: alice, home: {home} }} }}\n  \
             - {{ name: home, directory: {{ path: {home}, owner: alice, group: alice, mode: '0700' }} }}\n  \
             - name: key\n    ssh_authorized_key:\n      user: alice\n      \
             key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl k\n"
        )
    };
    let witness = "for home in /srv/one /srv/two; do grep -c ed25519 $home/.ssh/authorized_keys; done";
    converges(&recipe("/srv/one"), &recipe("/srv/two"), "1\n1\n", witness);
}

#[test]
fn files_of_an_account_follow_its_new_number() {
    let recipe = |uid: u32| {
        format!(
            "recipe: r\nsteps:\n  - {{ name: account, user: {{ name: svc, uid: {uid} }} }}\n  \
             - {{ name: data, file: {{ path: /srv/data, content: x, owner: svc }} }}\n"
        )
    };
    converges(&recipe(1600), &recipe(1700), "1700\n", "stat -c %u /srv/data");
}

/// The link belongs to an account that the step does not declare.
#[test]
fn link_with_a_new_target_keeps_its_owner() {
    let recipe = |target: &str| {
        format!("recipe: r\nsteps:\n  - {{ name: current, link: {{ path: /srv/current, target: {target} }} }}\n")
    };
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", INVENTORY), ("recipes/r.yaml", &recipe("/one"))]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let stat = || lab.inside("inventory.yaml", "a", "stat -c '%U:%G %N' /srv/current");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(stat(), "root:root '/srv/current' -> '/one'\n");
    lab.inside("inventory.yaml", "a", "chown -h daemon:mail /srv/current");
    lab.file("recipes/r.yaml", &recipe("/two"));
    let changed = lab.forge(&["apply", "--yes"]);
    assert!(changed.starts_with("exit 0\n"), "{changed}");
    assert_eq!(stat(), "daemon:mail '/srv/current' -> '/two'\n");
    lab.nothing_is_left();
}

/// The file exists below the mount point, too.
#[test]
fn files_on_a_new_mount_are_not_those_below_it() {
    let page = "  - { name: page, file: { path: /mnt/s/f, content: x } }\n";
    let mount = "  - { name: mount, mount: { path: /mnt/s, source: tmpfs, fstype: tmpfs } }\n";
    let before = format!("recipe: r\nsteps:\n  - {{ name: folder, directory: {{ path: /mnt/s }} }}\n{page}");
    let after = format!("recipe: r\nsteps:\n{mount}{page}");
    converges(&before, &after, "tmpfs\nx", "stat -f -c %T /mnt/s; cat /mnt/s/f");
}

/// The archive replaces its directory as a whole, so that it removes a file that another step declares there.
#[test]
fn file_in_the_directory_of_an_archive_is_written_again_after_it() {
    let recipe = |version: u32| {
        format!(
            "recipe: r\nsteps:\n  - {{ name: tool, archive: {{ path: /srv/tool-{version}.tar, into: /opt/tool }} }}\n  \
             - {{ name: conf, file: {{ path: /opt/tool/conf, content: same }} }}\n"
        )
    };
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", INVENTORY), ("recipes/r.yaml", &recipe(1))]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    inside("cd /srv; for v in 1 2; do echo $v >run; tar -cf tool-$v.tar run; done");
    let first = lab.forge(&["apply", "--yes"]);
    assert!(first.starts_with("exit 0\n"), "{first}");
    lab.file("recipes/r.yaml", &recipe(2));
    let plan = lab.forge(&["plan"]);
    assert!(plan.contains("content, owner and mode match; `r/tool` may change that"), "{plan}");
    let second = lab.forge(&["apply", "--yes"]);
    assert!(second.starts_with("exit 0\n"), "{second}");
    assert_eq!(inside("cat /opt/tool/run; cat /opt/tool/conf"), "2\nsame", "{second}");
    assert!(lab.forge(&["plan", "--detailed-exitcode"]).starts_with("exit 0\n"));
    lab.nothing_is_left();
}

/// A removal would reach into the other file system: the plan says what the action would refuse.
#[test]
fn removal_of_a_directory_with_a_mount_is_blocked_in_the_plan() {
    let recipe = "recipe: r\nsteps:\n  - { name: old, absent: { path: /srv/old, recursive: true } }\n";
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", INVENTORY), ("recipes/r.yaml", recipe)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    inside("mkdir -p '/srv/old/a b' /srv/data; touch /srv/data/kept; mount --bind /srv/data '/srv/old/a b'");
    let plan = lab.forge(&["plan"]);
    assert!(plan.contains("a file system is mounted at `/srv/old/a b`, in `/srv/old`: nothing is removed"), "{plan}");
    assert!(plan.contains("unmount `/srv/old/a b` first"), "{plan}");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 3\n"));
    assert_eq!(inside("ls '/srv/old/a b'; umount '/srv/old/a b'"), "kept\n");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(inside("ls /srv"), "data\n");
    lab.nothing_is_left();
}
