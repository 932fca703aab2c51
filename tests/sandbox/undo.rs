//! An undo takes back what the run changed, and no more. The host is the witness.

use super::host::{Lab, Who};

const INVENTORY: &str =
    "cluster: lab\nconnect: { transport: sandbox }\nhosts: { a: }\napply:\n  - { recipe: r, on: all }\n";

fn lab(recipe: &str) -> Option<Lab> {
    match Lab::new(Who::all()[0], &[("inventory.yaml", INVENTORY), ("recipes/r.yaml", recipe)]) {
        Ok(lab) => Some(lab),
        Err(why) => {
            eprintln!("skipped: a sandbox: {why}");
            None
        }
    }
}

#[test]
fn mount_that_the_run_found_stays() {
    let recipe = "recipe: r\nsteps:\n  - name: bind\n    mount: { path: /mnt/own, source: /srv/own, fstype: none, options: [bind] }\n";
    let Some(lab) = lab(recipe) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    inside("mkdir -p /srv/own /mnt/own; echo data >/srv/own/f; mount --bind /srv/own /mnt/own");
    let before = inside("cat /etc/fstab; cat /mnt/own/f");
    let applied = lab.forge(&["apply", "--yes"]);
    assert!(applied.starts_with("exit 0\n"), "{applied}");
    assert!(inside("cat /etc/fstab").contains("/mnt/own"));
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(inside("cat /etc/fstab; cat /mnt/own/f"), before, "{undone}");
    lab.nothing_is_left();
}

/// A file of somebody else keeps a directory; everything else is undone, and its records are as before.
#[test]
fn change_that_cannot_be_undone_keeps_no_other() {
    let recipe = "recipe: r\nsteps:\n  - { name: other, file: { path: /etc/other, content: x } }\n  \
        - { name: dir, directory: { path: /srv/dd } }\n  - { name: file, file: { path: /srv/dd/f, content: x } }\n";
    let Some(lab) = lab(recipe) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    inside("touch /srv/dd/foreign");
    // The last change is undone first, so the directory is in the middle.
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 3\n") && undone.contains("`/srv/dd` is not empty"), "{undone}");
    assert!(!undone.contains("generated/") && !undone.contains("recursive"), "the user writes no recipe: {undone}");
    assert_eq!(
        inside("ls /srv/dd /etc/other 2>/dev/null; ls /var/lib/forge/applied"),
        "/srv/dd:\nforeign\nlab@r%2Fdir.json\n"
    );
    let drift = lab.forge(&["drift"]);
    assert!(!drift.contains("the machine changed"), "{drift}");
    lab.nothing_is_left();
}

/// The directory is removed after its files, and systemd's folder of the drop-in with the drop-in.
#[test]
fn directories_that_the_run_made_are_removed_with_their_files() {
    let recipe = "recipe: r\nsteps:\n  - { name: dir, directory: { path: /srv/dd } }\n  \
        - { name: a, file: { path: /srv/dd/a, content: x } }\n  - { name: b, file: { path: /srv/dd/b, content: x } }\n  \
        - { name: unit, unit: { name: u.service, drop_in: { name: d, content: \"[Service]\\nNice=5\\n\" } } }\n";
    let Some(lab) = lab(recipe) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    inside("printf '[Service]\\nExecStart=/bin/sleep 4713\\n' >/usr/lib/systemd/system/u.service");
    let units = inside("ls /etc/systemd/system");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert!(undone.contains("`/srv/dd` is not empty; earlier steps may empty it\n"), "{undone}");
    assert_eq!(inside("ls /srv; ls /etc/systemd/system"), units, "{undone}");
    lab.nothing_is_left();
}

/// A change before it makes the removal a prediction, but what is lost exists now.
#[test]
fn predicted_removal_is_marked_as_lost() {
    let recipe = "recipe: r\nsteps:\n  - { name: cmd, command: { check: test -e /srv/done, apply: touch /srv/done } }\n  \
        - { name: user, when: 'false', otherwise: absent, user: { name: ann } }\n";
    let Some(lab) = lab(recipe) else { return };
    lab.inside("inventory.yaml", "a", "useradd -p '$6$a$b' ann");
    let plan = lab.forge(&["plan"]);
    let lost = "(cannot be undone: the password of `ann` is not kept)";
    assert!(plan.contains("? predicted") && plan.contains(lost), "{plan}");
    lab.nothing_is_left();
}

/// No recipe declares an owner without a name.
#[test]
fn owner_without_a_name_keeps_no_other_change_from_its_undo() {
    let recipe = "recipe: r\nsteps:\n  - { name: other, file: { path: /etc/other, content: x } }\n  \
        - { name: dir, directory: { path: /srv/dd } }\n";
    let Some(lab) = lab(recipe) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    inside("mkdir /srv/dd; chown 5555 /srv/dd");
    let why = "no recipe can declare the state before: `owner` is a number, not a name";
    let plan = lab.forge(&["plan"]);
    assert!(plan.contains(&format!("(cannot be undone: {why})")), "{plan}");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    let refused = lab.forge(&["undo", "last", "--yes"]);
    assert!(refused.starts_with("exit 3\n") && refused.contains(&format!("note: r/dir: {why} (on a)")), "{refused}");
    let document = lab.forge(&["undo", "last", "--dry-run", "--format", "json"]);
    assert!(document.starts_with("exit 3\n") && document.contains("\"result\": \"undo_refusal\""), "{document}");
    assert_eq!(inside("cat /etc/other"), "x");
    let undone = lab.forge(&["undo", "last", "--partial", "--yes"]);
    assert!(undone.starts_with("exit 0\n") && undone.contains("1 change not undone"), "{undone}");
    assert_eq!(inside("ls /etc/other 2>&1 | grep -c 'No such'; stat -c %u /srv/dd"), "1\n0\n");
    lab.nothing_is_left();
}

#[test]
fn run_that_changed_nothing_is_not_undone_but_the_one_before_is_named() {
    let Some(lab) = lab("recipe: r\nsteps:\n  - { name: other, file: { path: /etc/other, content: x } }\n") else {
        return;
    };
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    let changed = newest_run(&lab);
    assert!(lab.forge(&["apply", "--yes"]).contains("no changes"));
    let undone = lab.forge(&["undo", "last", "--yes"]);
    let note = format!("note: the newest run before it that changed something: {changed}");
    assert!(undone.starts_with("exit 64\n") && undone.contains(&note), "{undone}");
    lab.nothing_is_left();
}

/// The process has read the restored file, and the timer started with the restored schedule.
#[test]
fn undone_reload_and_timer_are_as_before() {
    let recipe = |v: u32| {
        format!(
            "recipe: r\nsteps:\n  - {{ name: conf, file: {{ path: /etc/appd.conf, content: 'a={v}' }} }}\n  \
             - {{ name: unit, unit: {{ name: appd.service, content: \"[Service]\\nExecStart=/bin/sleep 7777\\n\
             ExecReload=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n\" }} }}\n  \
             - {{ name: run, restart_on: [conf, unit], service: {{ name: appd, enabled: true, reload: true }} }}\n  \
             - {{ name: tick, timer: {{ name: tick, every: {v}h, command: /bin/true }} }}\n"
        )
    };
    let Some(lab) = lab(&recipe(1)) else { return };
    let pid = || lab.inside("inventory.yaml", "a", "systemctl show -p MainPID appd");
    let started = || lab.inside("inventory.yaml", "a", "systemctl show -p InvocationID tick.timer");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    let process = pid();
    lab.file("recipes/r.yaml", &recipe(2));
    assert!(lab.forge(&["apply", "--yes"]).contains("3 steps changed"));
    let second = started();
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_ne!(started(), second, "the timer has the restored schedule: {undone}");
    assert_eq!(pid(), process, "a reload keeps the process");
    lab.file("recipes/r.yaml", &recipe(1));
    let plan = lab.forge(&["plan"]);
    assert!(plan.contains("no changes: 1 host, 4 steps match"), "{plan}");
    let drift = lab.forge(&["drift"]);
    assert!(drift.starts_with("exit 0\n"), "{drift}");
    lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
    lab.nothing_is_left();
}

/// The removal took the directory of the drop-in, and the home of the account, with it.
#[test]
fn removed_drop_in_and_account_are_restored() {
    let recipe = "recipe: r\nsteps:\n  \
        - { name: unit, unit: { name: appd.service, content: \"[Service]\\nExecStart=/bin/sleep 7777\\n\" } }\n  \
        - { name: limits, unit: { name: appd.service, drop_in: { name: lim, content: \"[Service]\\nNice=5\\n\" } } }\n  \
        - { name: account, user: { name: ann, shell: /bin/bash } }\n  \
        - name: key\n    ssh_authorized_key: { user: ann, keys: [ssh-ed25519 \
        AAAAC3NzaC1lZDI1NTE5AAAAIBbYYq9mX8tNn0rYwKvh0Q7J3w4hS0kqkzN6k1m2o3p4 ann] }\n";
    let Some(lab) = lab(recipe) else { return };
    let state = "stat -c '%n %U %a' /etc/systemd/system/appd.service.d/lim.conf /home/ann/.ssh /home/ann/.ssh/*; \
        cat /home/ann/.ssh/authorized_keys; systemctl show -P Nice appd";
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    let applied = lab.forge(&["apply", "--yes"]);
    assert!(applied.starts_with("exit 0\n"), "{applied}");
    let before = inside(state);
    lab.file("inventory.yaml", &INVENTORY.replace("on: all }", "on: all, ensure: absent }"));
    let removed = lab.forge(&["apply", "--yes"]);
    assert!(removed.starts_with("exit 0\n"), "{removed}");
    assert_eq!(inside("ls -d /etc/systemd/system/appd.service.d || echo gone"), "gone\n");
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(inside(state), before, "{undone}");
    lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
    lab.nothing_is_left();
}

/// One host has forgotten the run: it is named, and never reported as undone.
#[test]
fn forgotten_change_is_refused_and_reported() {
    let recipe = "recipe: r\nsteps:\n  - { name: f, file: { path: /etc/f, content: x } }\n  \
        - { name: g, file: { path: /etc/g, content: x } }\n";
    let Some(lab) = lab(recipe) else { return };
    let inventory = INVENTORY.replace("{ a: }", "{ a: , b: }") + "undo: { runs: 1 }\n";
    lab.file("inventory.yaml", &inventory);
    assert!(lab.forge(&["apply", "--yes", "--step", "r/f"]).starts_with("exit 0\n"));
    let run = &newest_run(&lab);
    assert!(lab.forge(&["apply", "--yes", "--on", "b"]).starts_with("exit 0\n"));
    let why = "the state before the run is not kept there";
    let refused = lab.forge(&["undo", run, "--yes"]);
    assert!(refused.starts_with("exit 3\n") && refused.contains(&format!("r/f: {why} (on b)")), "{refused}");
    let nowhere = lab.forge(&["undo", run, "--yes", "--on", "b"]);
    assert!(nowhere.starts_with("exit 64\n") && nowhere.contains("hosts keep the last 1 run that"), "{nowhere}");
    assert!(nowhere.contains(&format!("r/f: {why} (on b)")), "{nowhere}");
    let partial = lab.forge(&["undo", run, "--yes", "--partial"]);
    assert!(partial.starts_with("exit 0\n") && partial.contains("1 changed, 1 skipped"), "{partial}");
    for output in [partial, lab.forge(&["show", "last"])] {
        assert!(output.contains(&format!("not undone\n. r/f\n    {why}\n    on b\n")), "{output}");
        assert!(output.contains("1 change not undone"), "{output}");
    }
    assert!(lab.forge(&["runs"]).contains("1 changed, 1 skipped; 1 change not undone"));
    assert_eq!(lab.inside("inventory.yaml", "b", "cat /etc/f"), "x");
    lab.nothing_is_left();
}

/// Returns the ID of the newest run.
fn newest_run(lab: &Lab) -> String {
    let runs = lab.forge(&["runs"]);
    let run = runs.lines().find_map(|line| line.split_whitespace().next().filter(|word| word.starts_with("20")));
    run.expect("a run").to_owned()
}

#[test]
fn removed_account_and_its_group_come_back() {
    let recipe = |groups: &str, members: &str| {
        format!(
            "recipe: r\nsteps:\n  - {{ name: group, group: {{ name: grp, gid: 1555 }} }}\n  \
             - {{ name: user, user: {{ name: eve, uid: 1778, groups: {groups}, append: true }} }}\n  \
             - {{ name: team, group: {{ name: team, gid: 1556, members: {members} }} }}\n"
        )
    };
    let Some(lab) = lab(&recipe("[grp]", "[eve]")) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    let state = || inside("id eve; getent passwd eve; getent group grp team");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    let before = state();
    // The account and a group share a membership: the first step of the undo changes what the second one compares.
    lab.file("recipes/r.yaml", &recipe("[adm]", "[daemon]").replace("append: true", "append: false"));
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    assert_ne!(state(), before);
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(state(), before, "{undone}");
    lab.file("recipes/r.yaml", &recipe("[grp]", "[eve]"));
    lab.file("inventory.yaml", &INVENTORY.replace("on: all", "on: all, ensure: absent"));
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(inside("getent passwd eve; getent group grp team; :"), "");
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(state(), before, "{undone}");
    // An account that was deleted by hand is not created again with other attributes.
    lab.file("inventory.yaml", INVENTORY);
    lab.file("recipes/r.yaml", &recipe("[grp]", "[eve]").replace("uid: 1778", "uid: 1778, comment: Eve"));
    assert!(lab.forge(&["apply", "--yes", "--step", "r/user"]).starts_with("exit 0\n"));
    inside("userdel eve");
    let refused = lab.forge(&["undo", "last", "--yes"]);
    assert!(refused.starts_with("exit 3\n") && refused.contains("account `eve` does not exist, and"), "{refused}");
    lab.nothing_is_left();
}

#[test]
fn command_that_failed_or_still_runs_is_undone() {
    let recipe = |apply: &str| {
        format!(
            "recipe: r\nsteps:\n  - name: install\n    command:\n      check: test -e /srv/app/done\n      \
             apply: {apply}\n      remove: rm -r /srv/app\n"
        )
    };
    let Some(lab) = lab(&recipe("mkdir -p /srv/app; exit 1")) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 3\n"));
    let run = newest_run(&lab);
    let undone = lab.forge(&["undo", &run, "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(inside("ls -A /srv"), "", "{undone}");
    let again = lab.forge(&["undo", &run, "--yes"]);
    assert!(again.starts_with("exit 0\n") && again.contains("no changes"), "`remove` runs once: {again}");

    lab.file("recipes/r.yaml", &recipe("mkdir -p /srv/app; sleep 5; touch /srv/app/done"));
    let apply = lab.start(&["apply", "--yes"]);
    while inside("ls -A /srv").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    lab.kill(apply.process_id());
    drop(apply.finish());
    let undone = lab.forge(&["undo", &newest_run(&lab), "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(inside("ls -A /srv"), "", "{undone}");
    lab.nothing_is_left();
}

#[test]
fn saved_undo_names_what_has_changed_since() {
    let recipe = |v: u32| {
        format!(
            "recipe: r\nsteps:\n  - {{ name: f, file: {{ path: /etc/f, content: '{v}' }} }}\n  \
             - {{ name: s, sysctl: {{ key: vm.swappiness, value: '1{v}' }} }}\n"
        )
    };
    let Some(lab) = lab(&recipe(1)) else { return };
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    let runs: Vec<String> = [2, 3]
        .map(|v| {
            lab.file("recipes/r.yaml", &recipe(v));
            assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
            newest_run(&lab)
        })
        .into();
    let saved = lab.forge(&["undo", "last", "-o", "undo.json"]);
    assert!(saved.contains("command printf '%s\\n' '12' >'/proc/sys/vm/swappiness'"), "{saved}");
    lab.inside("inventory.yaml", "a", "echo hand >/etc/f");
    let stale = lab.forge(&["apply", "undo.json", "--yes"]);
    assert!(stale.starts_with("exit 6\n"), "{stale}");
    assert!(stale.contains("note: not undone now: r/f: `/etc/f` was changed after the run (on a)"), "{stale}");
    assert!(stale.contains(&format!("hint: make a new plan with `forge undo {} -o FILE`", runs[1])), "{stale}");
    // The third run is undone at last: the undo of its undo was undone.
    lab.inside("inventory.yaml", "a", "printf 3 >/etc/f");
    for options in [&["--overwrite"][..], &[], &[]] {
        let undone = lab.forge(&[&["undo", "last", "--yes"], options].concat());
        assert!(undone.starts_with("exit 0\n"), "{undone}");
    }
    let undone = lab.forge(&["undo", &runs[0], "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(lab.inside("inventory.yaml", "a", "cat /etc/f"), "1", "{undone}");
    lab.nothing_is_left();
}
