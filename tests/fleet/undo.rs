//! A run is undone over SSH: files, packages, services, settings and accounts are as before, as the host itself says.

use crate::support::{Fleet, Node, Project};

const RECIPE: &str = r#"
recipe: shop
summary: Changes of many kinds
steps:
  - name: package
    package: { name: forge-demo, version: 2.0-1 }
  - name: folder
    directory: { path: /etc/shop, mode: "0750" }
  - name: new file
    file: { path: /etc/shop/new.conf, content: "{{ params.text }}\n" }
  - name: file
    file: { path: /etc/old.conf, content: "{{ params.text }}\n", owner: root, mode: "0644" }
  - name: one line
    line: { path: /etc/lines.conf, line: "second" }
  - name: block
    block: { path: /etc/lines.conf, name: third, content: "third\n" }
  - name: link
    link: { path: /etc/current, target: /srv/b }
  - name: removed
    absent: { path: /etc/leftover }
  - name: setting
    sysctl: { key: net.ipv4.conf.lo.forwarding, value: "1" }
  - name: group
    group: { name: shop, gid: 4711 }
  - name: account
    user: { name: shopper, group: shop, create_home: false }
  - name: unit
    unit:
      name: shop.service
      content: |
        [Service]
        ExecStart=/bin/sleep infinity
        [Install]
        WantedBy=multi-user.target
  - name: service
    service: { name: shop, enabled: true }
  - name: running
    restart_on: [file]
    service: { name: until-now }
params:
  text: { type: text, default: after }
"#;

const BEFORE: &str = r#"
set -e
printf 'before\n' >/etc/old.conf; chown daemon:mail /etc/old.conf; chmod 0640 /etc/old.conf
printf 'first\n' >/etc/lines.conf
ln -s /srv/a /etc/current
printf 'kept\n' >/etc/leftover; chmod 0600 /etc/leftover
printf '[Service]\nExecStart=/bin/sh -c "cat /etc/old.conf >/run/until-now; exec sleep infinity"\n' >/etc/systemd/system/until-now.service
systemctl daemon-reload; systemctl start until-now
DEBIAN_FRONTEND=noninteractive apt-get install -qqy --allow-downgrades forge-demo=1.0-1 >/dev/null </dev/null
"#;

/// What the host says about everything that the recipe changes.
const STATE: &str = r#"
for path in /etc/old.conf /etc/lines.conf /etc/current /etc/leftover /etc/shop /etc/shop/new.conf \
  /etc/systemd/system/shop.service /etc/sysctl.d/90-forge-net.ipv4.conf.lo.forwarding.conf; do
  stat -c '%n %F %a %U:%G' "$path" 2>/dev/null || echo "$path missing"
  if [ -L "$path" ]; then readlink "$path"; elif [ -f "$path" ]; then sha256sum <"$path"; fi
done
dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' forge-demo
cat /proc/sys/net/ipv4/conf/lo/forwarding
getent group shop || echo no group; getent passwd shopper || echo no account
systemctl is-active shop until-now; systemctl is-enabled shop 2>/dev/null
cat /run/until-now
"#;

fn state(node: &Node) -> String {
    node.must(&format!("{{ {STATE} }} 2>&1 || :"))
}

fn records(node: &Node) -> String {
    node.must("ls /var/lib/forge/applied")
}

#[test]
fn run_is_undone_and_so_is_the_undo() {
    let Some(nodes) = Fleet::take(2) else { return };
    let node = &nodes[0];
    nodes.iter().for_each(|node| drop(node.must(BEFORE)));
    let project = Project::new(&nodes).inventory("apply: [{ recipe: shop, on: all }]\n").recipe("shop", RECIPE);
    let before = state(node);
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    let (after, written) = (state(node), records(node));
    assert!(after.contains("2.0-1") && after.ends_with("\nactive\nactive\nenabled\nafter"), "{after}");

    let undo =
        |arguments: &[&str]| project.forge(["undo", "last", "-i", "inventory.yaml"].iter().chain(arguments).copied());
    let shown = undo(&["--dry-run"]);
    assert!(shown.code == 0 && shown.stdout.contains("restore /etc/old.conf"), "{shown}");
    assert_eq!(state(node), after, "a dry run changes nothing");
    // Saved, reviewed and applied like any other plan.
    let saved = undo(&["-o", "undo.json"]);
    assert!(saved.code == 0 && saved.stdout.contains("next: forge apply undo.json"), "{saved}");
    let undone = project.forge(["apply", "undo.json", "--yes"]);
    assert_eq!(undone.code, 0, "{undone}");
    assert_eq!(state(node), before, "{undone}");
    assert_eq!(records(node), "", "nothing of the run is recorded as applied");
    let again = undo(&["--dry-run", "--partial"]);
    assert_eq!(again.code, 0, "{again}");

    let redone = undo(&["--yes", "--partial"]);
    assert_eq!(redone.code, 0, "{redone}");
    assert_eq!((state(node), records(node)), (after.clone(), written), "{redone}");
    let matching = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(matching.code, 0, "the records are valid again: {matching}");

    // A change by hand is not overwritten unless that is wanted, and it concerns its host only.
    let changed = project.forge(["apply", "inventory.yaml", "--yes", "--step", "shop/file"]);
    assert_eq!(changed.code, 0, "{changed}");
    let text = RECIPE.replace("default: after", "default: later");
    let project = project.recipe("shop", &text);
    let later = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(later.code, 0, "{later}");
    node.must("echo 'by hand' >> /etc/old.conf");
    let undo = |arguments: &[&str]| {
        project.forge(["undo", "last", "-i", "inventory.yaml", "--yes"].iter().chain(arguments).copied())
    };
    let refused = undo(&[]);
    let why = format!("shop/file: `/etc/old.conf` was changed after the run (on {})", node.name);
    assert!(refused.code == 3 && refused.stderr.contains(&why), "{refused}");
    assert_eq!(node.read("/etc/old.conf"), b"later\nby hand\n");
    let forced = undo(&["--overwrite"]);
    assert_eq!(forced.code, 0, "{forced}");
    assert_eq!(node.read("/etc/old.conf"), b"after\n");
    assert_eq!(state(node), after, "{forced}");
}

const WALL: &str = r#"
recipe: wall
summary: A table of the packet filter
params:
  port: { type: text, default: "22" }
steps:
  - name: table
    nftables:
      name: wall
      rules: |
        chain input {
          type filter hook input priority 20; policy accept;
          tcp dport {{ params.port }} counter accept
        }
"#;

/// What the host says about the table: its rules in the kernel, its files and its unit.
const WALL_STATE: &str = r#"
nft -s list table inet wall
cd /etc && sha256sum nftables.d/forge-inet-wall.nft systemd/system/forge-nftables-inet-wall.service
stat -c '%n %a %U:%G' nftables.d/forge-inet-wall.nft systemd/system/forge-nftables-inet-wall.service
systemctl is-enabled forge-nftables-inet-wall; systemctl is-active forge-nftables-inet-wall
ls /etc/nftables.d
"#;

#[test]
fn changed_and_removed_table_is_loaded_as_before() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let state = || node.must(&format!("{{ {WALL_STATE} }} 2>&1 || :"));
    let entry = |rest: &str| format!("undo: {{ runs: 3 }}\napply: [{{ recipe: wall, on: all{rest} }}]\n");
    let project = Project::new(&nodes).inventory(&entry("")).recipe("wall", WALL);
    let run = |project: &Project, arguments: &[&str]| {
        let out = project.forge(arguments.iter().copied());
        assert_eq!(out.code, 0, "{out}");
        out
    };
    let undo: &[&str] = &["undo", "last", "-i", "inventory.yaml", "--yes"];
    let none = state();
    run(&project, &["apply", "inventory.yaml", "--yes"]);
    let first = state();
    assert!(first.contains("tcp dport 22") && first.ends_with("forge-inet-wall.nft"), "{first}");
    run(&project, undo);
    assert_eq!(state(), none.replace("ls: cannot access '/etc/nftables.d': No such file or directory", "").trim());
    run(&project, &["apply", "inventory.yaml", "--yes"]);
    assert_eq!(state(), first);

    let project = project.inventory(&entry(", with: { port: \"443\" }"));
    run(&project, &["apply", "inventory.yaml", "--yes"]);
    let second = state();
    assert!(second.contains("tcp dport 443"), "{second}");
    run(&project, undo);
    assert_eq!(state(), first);
    run(&project, undo);
    assert_eq!(state(), second, "an undo is undone");

    let project = project.inventory(&entry(", ensure: absent"));
    run(&project, &["apply", "inventory.yaml", "--yes"]);
    assert!(!state().contains("tcp dport"), "{}", state());
    run(&project, undo);
    assert_eq!(state(), second);
    assert_eq!(node.must("ls /var/lib/forge/undo | wc -l"), "3", "the declared number of runs");
}

/// A file system that the administrator declared in fstab, and forge only mounted: its undo keeps the entry.
#[test]
fn undo_of_a_mount_keeps_an_entry_that_was_there_before() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkdir /srv/data; echo 'tmpfs /srv/data tmpfs size=1m,noauto 0 0' >>/etc/fstab");
    let before = node.must("cat /etc/fstab");
    let recipe = "recipe: data\nsummary: A mount\nsteps:\n  - name: mount\n    \
        mount: { path: /srv/data, source: tmpfs, fstype: tmpfs, options: [size=1m, noauto] }\n";
    let project = Project::new(&nodes).recipe("data", recipe).inventory("apply: [{ recipe: data, on: all }]\n");
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!((out.code, node.must("findmnt -no FSTYPE /srv/data").as_str()), (0, "tmpfs"), "{out}");
    assert_eq!(node.must("cat /etc/fstab"), before);
    let out = project.forge(["undo", "last", "--yes"]);
    assert_eq!((out.code, node.must("cat /etc/fstab; findmnt /srv/data || true")), (0, before), "{out}");
}

/// What somebody changed after the run in the units of a timer, or put into the directory of an archive, stays there,
/// unless the undo is told to overwrite it.
#[test]
fn changed_units_and_unpacked_files_are_removed_only_with_overwrite() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("cd /srv && mkdir tool && echo a >tool/a && tar -cf tool.tar -C tool .");
    let recipe = "recipe: tools\nsummary: A timer and an archive\nsteps:\n  \
        - { name: scrub, timer: { name: scrub, every: 10m, command: /bin/true } }\n  \
        - { name: tool, archive: { into: /opt/tool, path: /srv/tool.tar } }\n";
    let project = Project::new(&nodes).recipe("tools", recipe).inventory("apply: [{ recipe: tools, on: all }]\n");
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!((applied.code, node.must("cat /opt/tool/a").as_str()), (0, "a"), "{applied}");
    let run = newest_run(&project);
    node.must(
        "echo '# mine' >>/etc/systemd/system/scrub.service; echo keep >/opt/tool/mine; echo changed >/opt/tool/a",
    );
    let changed = || node.must("tail -n 1 /etc/systemd/system/scrub.service; cat /opt/tool/mine /opt/tool/a");

    let refused = project.forge(["undo", &run, "inventory.yaml", "--yes"]);
    let why = "`/etc/systemd/system/scrub.service` was changed after the run";
    assert!(refused.code == 3 && refused.stderr.contains(why), "{refused}");
    let partial = project.forge(["undo", &run, "--yes", "--partial"]);
    let why = "`/opt/tool` contains entries that forge did not unpack: `mine`, and has modified members: `a`";
    assert!(partial.code == 3 && partial.stdout.contains(why), "{partial}");
    assert_eq!(changed(), "# mine\nkeep\nchanged");

    let overwritten = project.forge(["undo", &run, "--yes", "--overwrite"]);
    assert_eq!(overwritten.code, 0, "{overwritten}");
    assert_eq!(node.must("ls /opt/tool /etc/systemd/system/scrub.* 2>/dev/null || true"), "");
}

/// Each undo takes back one run more, as the hosts say; a change by hand in between is found.
#[test]
fn runs_are_undone_one_after_another() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must(BEFORE);
    let text = |text: &str| RECIPE.replace("default: after", &format!("default: {text}"));
    let mut project = Project::new(&nodes).inventory("apply: [{ recipe: shop, on: all }]\n");
    let before = state(node);
    let mut states = vec![before];
    let mut runs = Vec::new();
    for (version, own) in [("1.0-1", "one"), ("2.0-1", "two"), ("1.0-1", "three")] {
        let recipe = text(own).replace("version: 2.0-1", &format!("version: {version}"));
        project = project.recipe("shop", &recipe);
        let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(applied.code, 0, "{applied}");
        states.push(state(node));
        runs.push(newest_run(&project));
    }
    let undo = |run: &str| project.forge(["undo", run, "-i", "inventory.yaml", "--yes"]);
    let early = undo(&runs[1]);
    let why = format!("run {} changed it again: undo that run first", runs[2]);
    assert!(early.code == 3 && early.stderr.contains(&why), "{early}");
    for at in [2, 1] {
        let undone = undo(&runs[at]);
        assert_eq!(undone.code, 0, "{undone}");
        assert_eq!(state(node), states[at], "{undone}");
    }
    node.must("printf 'by hand\\n' >/etc/shop/new.conf");
    let refused = undo(&runs[0]);
    let why = "shop/new file: `/etc/shop/new.conf` was changed after the run";
    assert!(refused.code == 3 && refused.stderr.contains(why), "{refused}");
    let undone = project.forge(["undo", &runs[0], "-i", "inventory.yaml", "--yes", "--overwrite"]);
    assert_eq!(undone.code, 0, "{undone}");
    // The package matched in the first run: it has a record, and no change.
    assert_eq!((state(node), records(node).as_str()), (states[0].clone(), "fleet@shop%2Fpackage.json"), "{undone}");
}

const UPGRADE: &str = r#"
recipe: upgrade
summary: A new version, and a file
steps:
  - { name: package, package: { name: forge-demo, version: 2.0-1 } }
  - { name: file, file: { path: /etc/upgraded, content: x } }
"#;

/// Replaces the repository by one that has the newest version only.
const DROP_OLD_VERSIONS: &str = r#"
set -e
mkdir /srv/newest; cd /srv/newest; ln -s /srv/forge-repo/*.deb .
awk -v RS= -v ORS='\n\n' '!/(^|\n)Package: forge-demo\n/ || /\nVersion: 2.0-1/' /srv/forge-repo/Packages >Packages
echo 'deb [trusted=yes] file:/srv/newest ./' >/etc/apt/sources.list
apt-get -qq update
"#;

/// Repositories keep the newest version only. The plan of the undo says so, and the other changes are undone.
#[test]
fn version_that_no_repository_has_blocks_its_step_of_the_undo() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let version = || node.must("dpkg-query -W -f '${Version}' forge-demo");
    node.must("DEBIAN_FRONTEND=noninteractive apt-get install -qqy forge-demo=1.0-1 >/dev/null </dev/null");
    let project = Project::new(&nodes).inventory("apply: [{ recipe: upgrade, on: all }]\n").recipe("upgrade", UPGRADE);
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert!(applied.code == 0 && version() == "2.0-1", "{applied}");
    node.must(DROP_OLD_VERSIONS);
    let undo = |how: &str| project.forge(["undo", "last", "-i", "inventory.yaml", how]);
    let shown = undo("--dry-run");
    let why = "apt does not offer `forge-demo` 1.0-1; it offers 2.0-1: the former version cannot be installed";
    assert!(shown.stdout.contains(why) && shown.stdout.contains("/var/cache/apt/archives"), "{shown}");
    let undone = undo("--yes");
    assert!(undone.code == 3 && version() == "2.0-1", "{undone}");
    assert_eq!(node.must("ls /etc/upgraded 2>/dev/null || echo gone"), "gone", "{undone}");
    // By hand, as the hint says: the step of the undo then matches.
    node.must("dpkg --force-downgrade --force-confold -i /srv/forge-repo/forge-demo_1.0-1_*.deb >/dev/null 2>&1");
    let found = project.forge(["plan", "inventory.yaml"]);
    assert!(found.stdout.contains("`forge-demo` is 1.0-1, not 2.0-1"), "{found}");
}

/// Returns the ID of the newest run that changed something.
fn newest_run(project: &Project) -> String {
    let out = project.forge(["runs", "--format", "json"]);
    let runs: serde_json::Value = serde_json::from_str(&out.stdout).expect("JSON");
    runs["runs"][0]["run"]["info"]["run"].as_str().expect("a run").to_owned()
}
