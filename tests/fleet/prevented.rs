//! What could not work on the host is refused before it is changed. The programs that would run it are the witness.

use crate::support::{Fleet, Node, Output, Project};

fn project(nodes: &[Node], step: &str) -> Project {
    let recipe = format!("recipe: r\nsummary: One step\nsteps:\n  {step}\n");
    Project::new(nodes).recipe("r", &recipe).inventory("apply:\n  - { recipe: r, on: all }\n")
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes"])
}

/// A second `ExecStart=` makes a service invalid: it would run on, and never start again.
#[test]
fn drop_in_that_breaks_its_unit_is_not_installed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.write("/etc/systemd/system/steady.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    node.must("systemctl daemon-reload; systemctl start steady");
    let drop_in = |content: &str| {
        project(
            &nodes,
            &format!("- {{ name: u, unit: {{ name: steady, drop_in: {{ name: x, content: \"{content}\" }} }} }}"),
        )
    };
    let broken = drop_in("[Service]\\nExecStart=/bin/sleep 5\\n");
    for _ in 0..2 {
        let refused = apply(&broken);
        assert_eq!(refused.code, 3, "{refused}");
        assert!(refused.stdout.contains("more than one ExecStart"), "{refused}");
    }
    node.must("test ! -e /etc/systemd/system/steady.service.d/x.conf && systemctl restart steady");
    let whole = drop_in("[Service]\\nExecStart=\\nExecStart=/bin/sleep 5000\\n");
    let applied = apply(&whole);
    assert_eq!(applied.code, 0, "{applied}");
    assert!(node.must("systemctl restart steady && systemctl show -P ExecStart steady").contains("sleep 5000"));
    // Another drop-in that breaks the unit afterwards is named as such.
    node.write("/etc/systemd/system/steady.service.d/y.conf", "[Service]\nExecStart=/bin/sleep 6\n");
    node.must("systemctl daemon-reload");
    let planned = whole.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 3 && planned.stdout.contains("systemd rejects `steady.service`"), "{planned}");
}

/// systemd loads the unit without lines that it cannot read, and only warns about them. `systemctl show` is the witness.
#[test]
fn unit_with_lines_that_systemd_ignores_is_not_installed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.write("/etc/systemd/system/steady.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    node.must("systemctl daemon-reload");
    for (line, says) in [("LimitMEMLOCK=lots", "ignoring: lots"), ("LimitMEMLOK=infinity", "'LimitMEMLOK'")] {
        let drop_in = format!("name: steady, drop_in: {{ name: x, content: \"[Service]\\n{line}\\n\" }}");
        let whole = format!("name: whole, content: \"[Service]\\nExecStart=/bin/sleep 9\\n{line}\\n\"");
        for unit in [drop_in, whole] {
            let refused = apply(&project(&nodes, &format!("- {{ name: u, unit: {{ {unit} }} }}")));
            assert!(refused.code == 3 && refused.stdout.contains(says), "{refused}");
        }
        // Without the check, systemd would run both with its own default.
        node.write("/etc/systemd/system/other.service", format!("[Service]\nExecStart=/bin/sleep 9\n{line}\n"));
        node.must("systemctl daemon-reload && systemctl start other && systemctl stop other");
        assert_ne!(node.must("systemctl show -P LimitMEMLOCK other"), "infinity");
    }
    node.must("test ! -e /etc/systemd/system/steady.service.d/x.conf && test ! -e /etc/systemd/system/whole.service");
    let good =
        "- { name: u, unit: { name: steady, drop_in: { name: x, content: \"[Service]\\nLimitMEMLOCK=64M\\n\" } } }";
    let applied = apply(&project(&nodes, good));
    assert_eq!(applied.code, 0, "{applied}");
    assert_eq!(node.must("systemctl show -P LimitMEMLOCK steady"), "67108864");
}

/// A folder of drop-ins that is new, and a unit that precedes one in memory: systemd does not see them until a reload, and
/// says that none is needed. The limits of the process are the witness.
#[test]
fn unit_files_that_systemd_has_not_read_are_loaded_and_the_service_restarts() {
    const LIMITS: &str = "[Service]\nLimitMEMLOCK=4M\n";
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let whole = "[Service]\nExecStart=/bin/sleep infinity\nLimitMEMLOCK=4M\n";
    for (path, text, fields) in [
        ("/etc/systemd/system/steady.service.d/x.conf", LIMITS, "drop_in: { name: x, content"),
        ("/etc/systemd/system/steady.service", whole, "content"),
    ] {
        let end = if fields.starts_with("drop_in") { "}" } else { "" };
        let unit = format!("- {{ name: u, unit: {{ name: steady, {fields}: {text:?} {end} }} }}");
        let service = "- { name: s, restart_on: [u], service: { name: steady, state: running } }";
        node.reset();
        node.write("/usr/lib/systemd/system/steady.service", "[Service]\nExecStart=/bin/sleep infinity\n");
        node.must("systemctl daemon-reload && systemctl start steady");
        node.must(&format!("mkdir -p {}", path.rsplit_once('/').expect("a path").0));
        node.write(path, text);
        // The process starts after the file was written, and without it.
        node.must("systemctl restart steady");
        assert_eq!(node.must("systemctl show -P NeedDaemonReload steady"), "no", "{path}");
        let limit = || node.must("awk '/locked memory/ {print $4}' /proc/$(systemctl show -P MainPID steady)/limits");
        assert_ne!(limit(), "4194304");
        let project = project(&nodes, &format!("{unit}\n  {service}"));
        let planned = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        assert!(planned.code == 2 && planned.stdout.contains("systemd has not loaded it"), "{planned}");
        let applied = apply(&project);
        assert!(applied.code == 0 && limit() == "4194304", "{} {applied}", limit());
        let again = project.forge(["drift", "inventory.yaml"]);
        assert_eq!(again.code, 0, "{again}");
    }
}

/// A drop-in of someone else makes a reload necessary. The timer itself is the declared one, and keeps running.
#[test]
fn timer_with_an_unread_drop_in_is_reloaded() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = project(&nodes, "- { name: t, timer: { name: job, command: /bin/true, calendar: daily } }");
    let applied = apply(&project);
    assert_eq!(applied.code, 0, "{applied}");
    node.must("mkdir /etc/systemd/system/job.timer.d && systemctl daemon-reload");
    node.write("/etc/systemd/system/job.timer.d/x.conf", "[Timer]\nAccuracySec=1h\n");
    assert_eq!(node.must("systemctl show -P NeedDaemonReload job.timer"), "yes");
    let start = node.must("systemctl show -P ActiveEnterTimestampMonotonic job.timer");
    let applied = apply(&project);
    assert!(applied.code == 0 && applied.stdout.contains("1 changed"), "{applied}");
    assert_eq!(node.must("systemctl show -P NeedDaemonReload -P AccuracyUSec job.timer"), "1h\nno");
    assert_eq!(node.must("systemctl show -P ActiveEnterTimestampMonotonic job.timer"), start);
    project.forge(["drift", "inventory.yaml"]).must_exit(0);
}

/// cron ignores the whole file, and systemd does not start the command.
#[test]
fn jobs_of_a_missing_account_are_blocked() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let jobs = "- { name: c, cron: { name: job, schedule: '* * * * *', command: 'true', user: nobody2 } }\n  \
                - { name: t, timer: { name: job, every: 1h, command: 'true', user: nobody2 } }";
    let without = project(&nodes, jobs);
    let planned = without.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(planned.code, 3, "{planned}");
    assert!(planned.stdout.contains("account `nobody2` does not exist: cron ignores the file"), "{planned}");
    node.must("test ! -e /etc/cron.d/job && test ! -e /etc/systemd/system/job.timer");
    let with = project(&nodes, &format!("- {{ name: u, user: {{ name: nobody2 }} }}\n  {jobs}"));
    let applied = apply(&with);
    assert!(applied.code != 3 && node.exists("/etc/cron.d/job"), "the step before creates it: {applied}");
    node.must("systemctl start job.service && userdel nobody2");
    assert!(!node.sh("systemctl start job.service").ok());
    let planned = without.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(planned.code, 3, "{planned}");
}

/// What the plan shows as a change must be possible: chown, useradd, usermod, gpasswd and mount are the witnesses, which
/// fail without the account, the group or the directory.
#[test]
fn change_that_needs_something_missing_is_blocked() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("useradd -u 4242 holder; useradd worker; groupadd there; mkdir -p /srv/a; touch /srv/file");
    let ghost = "does not exist and no earlier step creates it";
    let cases = [
        ("file: { path: /srv/f, content: x, owner: ghost }", format!("account `ghost` {ghost}")),
        ("file: { path: /srv/file, content: '', group: ghosts }", format!("group `ghosts` {ghost}")),
        ("directory: { path: /srv/d, owner: ghost }", format!("account `ghost` {ghost}")),
        ("directory: { path: /srv/a, group: ghosts }", format!("group `ghosts` {ghost}")),
        ("user: { name: new, uid: 4242 }", "uid 4242 belongs to account `holder`".to_owned()),
        ("user: { name: worker, uid: 4242 }", "uid 4242 belongs to account `holder`".to_owned()),
        ("user: { name: new, group: ghosts }", format!("group `ghosts` {ghost}")),
        ("user: { name: new, groups: [there, ghosts] }", format!("group `ghosts` {ghost}")),
        ("user: { name: worker, groups: [ghosts], append: true }", format!("group `ghosts` {ghost}")),
        ("group: { name: there, members: [worker, ghost] }", format!("account `ghost` {ghost}")),
        (
            "mount: { path: /srv/none/m, source: tmpfs, fstype: tmpfs }",
            "nothing is mounted, and directory /srv/none does not exist".to_owned(),
        ),
        (
            "mount: { path: /srv/file/m, source: tmpfs, fstype: tmpfs }",
            "nothing is mounted, and /srv/file is not a directory".to_owned(),
        ),
        ("mount: { path: /srv/file, source: tmpfs, fstype: tmpfs }", "/srv/file is not a directory".to_owned()),
        (
            "mount: { path: /srv/m, source: /srv/none, fstype: none, options: [bind] }",
            "the source /srv/none does not exist".to_owned(),
        ),
    ];
    let steps: Vec<String> =
        cases.iter().enumerate().map(|(at, (step, _))| format!("- {{ name: s{at}, {step} }}")).collect();
    for (step, (_, reason)) in steps.iter().zip(&cases) {
        let planned = project(&nodes, step).forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        assert!(planned.code == 3 && planned.stdout.contains(reason.as_str()), "{step}\n{planned}");
    }
    // Without a plan, the programs fail as it says.
    for fails in [
        "chown ghost /srv/file",
        "chgrp ghosts /srv/file",
        "useradd -u 4242 new",
        "usermod -u 4242 worker",
        "useradd -g ghosts new",
        "usermod -aG ghosts worker",
        "gpasswd -M worker,ghost there",
        "mount -t tmpfs tmpfs /srv/none/m",
        "mount -t tmpfs tmpfs /srv/file/m",
    ] {
        assert!(!node.sh(fails).ok(), "{fails}");
    }
}

/// What an earlier step creates is no obstacle.
#[test]
fn change_that_needs_what_an_earlier_step_creates_is_applied() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("useradd -u 4243 former; mkdir -p /srv/source");
    let steps = "- { name: group, group: { name: team } }\n  \
         - { name: former, user: { name: former, uid: 4300 } }\n  \
         - { name: user, user: { name: app, uid: 4243, groups: [team, app], append: true } }\n  \
         - { name: file, file: { path: /srv/f, content: x, owner: app, group: team } }\n  \
         - { name: directory, directory: { path: /srv/d, owner: app, group: app } }\n  \
         - { name: members, group: { name: more, members: [app] } }\n  \
         - { name: above, directory: { path: /srv/above } }\n  \
         - { name: mount, mount: { path: /srv/above/m, source: tmpfs, fstype: tmpfs } }";
    let all = project(&nodes, steps);
    let planned = all.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(planned.code, 2, "{planned}");
    let applied = apply(&all);
    assert_eq!(applied.code, 0, "{applied}");
    assert_eq!(node.must("stat -c %U:%G /srv/f /srv/d"), "app:team\napp:app");
    assert_eq!(node.must("id -u app; id -u former; id -Gn app"), "4243\n4300\napp team more");
    node.must("mountpoint -q /srv/above/m");
    let again = all.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(again.code, 0, "{again}");
}

/// systemd does not mount a masked unit of fstab at boot; the mount of now hides that.
#[test]
fn masked_mount_unit_is_unmasked() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let mount = project(&nodes, "- { name: m, mount: { path: /srv/my-data, source: tmpfs, fstype: tmpfs } }");
    apply(&mount).must_exit(0);
    let unit = "'srv-my\\x2ddata.mount'";
    node.must(&format!("systemctl mask {unit} && mountpoint -q /srv/my-data"));
    let planned = mount.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 2 && planned.stdout.contains("is masked: it is not mounted at boot"), "{planned}");
    let applied = apply(&mount);
    assert_eq!(applied.code, 0, "{applied}");
    node.must(&format!("umount /srv/my-data && systemctl start {unit} && mountpoint -q /srv/my-data"));
    mount.forge(["plan", "inventory.yaml", "--detailed-exitcode"]).must_exit(0);
}

/// The kernel shows for each bind mount which directory it is.
#[test]
fn other_directory_that_is_bound_is_named() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkdir -p /srv/a /srv/b /srv/m && mount --bind /srv/b /srv/m");
    let bind = project(&nodes, "- { name: m, mount: { path: /srv/m, source: /srv/a, fstype: none, options: [bind] } }");
    let planned = bind.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(planned.code, 3, "{planned}");
    assert!(planned.stdout.contains("/srv/b` of `") && planned.stdout.contains("not `/srv/a`"), "{planned}");
    node.must("umount /srv/m");
    apply(&bind).must_exit(0);
    node.must("findmnt -no SOURCE /srv/m | grep -q /srv/a");
    // A directory of a file system is not the file system.
    node.must("mount -t tmpfs tmpfs /srv/b && mkdir /srv/b/part /srv/whole && mount --bind /srv/b/part /srv/whole");
    let whole = project(&nodes, "- { name: m, mount: { path: /srv/whole, source: tmpfs, fstype: tmpfs } }");
    let planned = whole.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 3 && planned.stdout.contains("`/part` of `tmpfs` (tmpfs)"), "{planned}");
    node.must("umount /srv/whole /srv/b /srv/m");
}

/// cron ignores a file with several names (`stat` counts them).
#[test]
fn cron_file_with_several_links_is_replaced() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let job = project(&nodes, "- { name: c, cron: { name: job, schedule: '* * * * *', command: 'true' } }");
    let applied = apply(&job);
    assert!(node.exists("/etc/cron.d/job"), "{applied}");
    node.must("ln /etc/cron.d/job /etc/cron.d-copy");
    let planned = job.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.stdout.contains("the file has 2 hard links: cron ignores it"), "{planned}");
    apply(&job);
    assert_eq!(node.must("stat -c %h /etc/cron.d/job; cat /etc/cron.d/job"), "1\n* * * * * root true");
}

/// dpkg calls a package installed that it requires to be installed again.
#[test]
fn package_that_must_be_installed_again_is_repaired() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let package = project(&nodes, "- { name: p, package: { name: forge-demo } }");
    apply(&package).must_exit(0);
    node.must(
        "sed -i '/^Package: forge-demo$/,/^$/s/^Status: install ok/Status: install reinstreq/' /var/lib/dpkg/status",
    );
    assert!(node.must("dpkg -l forge-demo").contains("iiR"));
    let planned = package.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 2 && planned.stdout.contains("`forge-demo` is reinst-required"), "{planned}");
    let applied = apply(&package);
    assert_eq!(applied.code, 0, "{applied}");
    assert!(!node.must("dpkg -l forge-demo").contains("iiR"));
}

/// The kernel's table has the path without links: the mount would be invisible, and repeated by each apply.
#[test]
fn mount_through_a_link_is_blocked() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkdir /srv/real && ln -s /srv/real /srv/link");
    let mount = project(&nodes, "- { name: m, mount: { path: /srv/link/x, source: tmpfs, fstype: tmpfs } }");
    let planned = mount.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(planned.code, 3, "{planned}");
    assert!(planned.stdout.contains("leads through a symbolic link to `/srv/real/x`"), "{planned}");
    node.must("mkdir /srv/link/x && mount -t tmpfs tmpfs /srv/link/x && grep -q ' /srv/real/x ' /proc/mounts");
    node.must("umount /srv/real/x");
}

/// Each inventory has its own records on a host. The file is the witness: the later apply wins, and both plans name the
/// other inventory.
#[test]
fn file_that_another_inventory_declares_is_named() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = |text: &str| {
        format!(
            "recipe: page\nsummary: A page\nsteps:\n  - {{ name: page, file: {{ path: /srv/page, content: {text} }} }}\n  \
             - {{ name: common, file: {{ path: /srv/common, content: same }} }}\n"
        )
    };
    let project = |cluster: &str, text: &str| {
        let project = Project::new(&nodes).called(cluster).recipe("page", &recipe(text));
        project.inventory("apply: [{ recipe: page, on: all }]\n")
    };
    let (blue, green) = (project("blue", "blue"), project("green", "green"));
    apply(&blue).must_exit(0);
    let drift = blue.forge(["drift", "inventory.yaml"]);
    assert!(drift.code == 0 && !drift.stdout.contains("with another declaration"), "{drift}");
    let planned = green.forge(["plan", "inventory.yaml"]);
    let says = "cluster `blue` was applied here with another declaration: path `/srv/page` by `page/page`, there by `page/page`, in run ";
    assert!(planned.stdout.contains(says) && !planned.stdout.contains("/srv/common` by"), "{planned}");
    apply(&green).must_exit(0);
    assert_eq!(node.must("cat /srv/page"), "green");
    let drift = blue.forge(["drift", "inventory.yaml"]);
    let says = "cluster `green` was applied here with another declaration: path `/srv/page` by `page/page`, there by `page/page`, applied after this one in run ";
    assert!(drift.code == 2 && drift.stdout.contains(says), "{drift}");
    // The hint says how to end it: another inventory that is no longer used.
    node.must("rm /var/lib/forge/applied/green@*");
    apply(&blue).must_exit(0);
    let planned = blue.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 0 && !planned.stdout.contains("with another declaration"), "{planned}");
}

/// Two people have a copy of one inventory. The plan of the older copy names the apply that it takes back; the file is the
/// witness.
#[test]
fn apply_from_another_copy_is_named_before_it_is_taken_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let copy =
        |text: &str| project(&nodes, &format!("- {{ name: page, file: {{ path: /srv/page, content: {text} }} }}"));
    let (ann, bob) = (copy("first"), copy("second"));
    apply(&ann).must_exit(0);
    let planned = bob.forge(["plan", "inventory.yaml"]);
    assert!(!planned.stdout.contains("takes back"), "a declaration that no run had: {planned}");
    apply(&bob).must_exit(0);
    assert_eq!(node.must("cat /srv/page"), "second");
    let planned = ann.forge(["plan", "inventory.yaml"]);
    let says = "the declaration here is that of an earlier run";
    assert!(planned.stdout.contains("takes back what run ") && planned.stdout.contains(says), "{planned}");
    let drift = ann.forge(["drift", "inventory.yaml"]);
    assert!(drift.code == 2 && drift.stdout.contains(says), "{drift}");
    // By their own choice.
    apply(&ann).must_exit(0);
    assert_eq!(node.must("cat /srv/page"), "first");
    let planned = ann.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 0 && !planned.stdout.contains("takes back"), "{planned}");
}

/// The kernel's table is the witness: a share of the memory is shown in bytes, a hidden mount is not what a path shows,
/// and a remount does not change the mode of a tmpfs.
#[test]
fn mount_shows_what_the_kernel_has() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let mount = |options: &str| {
        let fields = format!("path: /srv/a/m, source: tmpfs, fstype: tmpfs, options: [{options}]");
        let steps = format!("- {{ name: d, directory: {{ path: /srv/a }} }}\n  - {{ name: m, mount: {{ {fields} }} }}");
        project(&nodes, &steps)
    };
    let size = || node.must("findmnt -nbo SIZE /srv/a/m").trim().parse::<u64>().expect("a size");
    apply(&mount("'size=40%'")).must_exit(0);
    let before = size();
    let smaller = mount("'size=10%'");
    apply(&smaller).must_exit(0);
    assert!(size() < before / 3, "{} of {before}", size());
    smaller.forge(["plan", "inventory.yaml", "--detailed-exitcode"]).must_exit(0);
    let planned = mount("'size=10%', mode=0700").forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    let says = "a remount does not change it to `mode=0700`";
    assert!(planned.code == 3 && planned.stdout.contains(says), "{planned}");
    node.must("mount -o remount,mode=0700,size=10% /srv/a/m");
    assert_eq!(node.must("stat -c %a /srv/a/m"), "1777", "the reason is true");
    // A mount over the directory above hides it.
    node.must("mount -t tmpfs over /srv/a");
    let planned = smaller.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert!(planned.code == 2 && planned.stdout.contains("nothing is mounted"), "{planned}");
    let applied = apply(&smaller);
    assert_eq!(applied.code, 0, "{applied}");
    node.must("touch /srv/a/m/x && mountpoint -q /srv/a/m && umount /srv/a/m /srv/a && test ! -e /srv/a/m/x");
}
