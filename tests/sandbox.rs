//! Sandboxes from a user's view: the real binary, the demo, and this machine compared before and after.
//!
//! Each test runs as root if possible, and, if it is root, also as an unprivileged user. On a machine without
//! namespaces the tests are skipped with a message.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a panic fails the test"
)]

#[path = "sandbox/detached.rs"]
mod detached;
#[path = "sandbox/documents.rs"]
mod documents;
#[path = "sandbox/engine.rs"]
mod engine;
#[path = "sandbox/engine_seeds.rs"]
mod engine_seeds;
#[path = "sandbox/guard.rs"]
mod guard;
#[path = "sandbox/hold.rs"]
mod hold;
#[path = "sandbox/host.rs"]
mod host;
#[path = "sandbox/machine.rs"]
mod machine;
#[path = "sandbox/past.rs"]
mod past;
#[path = "sandbox/rdma_mode.rs"]
mod rdma_mode;
#[path = "sandbox/redirected.rs"]
mod redirected;
#[path = "sandbox/rehearsal.rs"]
mod rehearsal;
#[path = "common/remove_keys.rs"]
mod remove_keys;
#[path = "sandbox/repair.rs"]
mod repair;
#[path = "sandbox/saved.rs"]
mod saved;
#[path = "sandbox/secrets.rs"]
mod secrets;
#[path = "sandbox/tour.rs"]
mod tour;
#[path = "sandbox/trial.rs"]
mod trial;
#[path = "sandbox/tutorial.rs"]
mod tutorial;
#[path = "sandbox/undo.rs"]
mod undo;

use host::{Lab, Who};
use machine::Machine;

const ONE: &str =
    "cluster: lab\nconnect: { transport: sandbox }\nhosts:\n  a:\n  b:\napply:\n  - { recipe: r, on: all }\n";
const RECIPE: &str =
    "recipe: r\nsummary: a file\nsteps:\n  - name: f\n    file: { path: /etc/lab, content: \"lab\\n\" }\n";

/// Runs a test once as each user that this process can become.
fn as_everybody(test: impl Fn(&Lab)) {
    Who::all().into_iter().for_each(|who| run_as(who, &test));
}

/// Runs a test as a user, if this process can become that user.
fn run_as(who: Who, test: impl Fn(&Lab)) {
    if !Who::all().contains(&who) {
        return eprintln!("skipped: a sandbox as {who:?}: this process cannot become that user");
    }
    match Lab::new(who, &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => test(&lab),
        Err(why) => eprintln!("skipped: a sandbox as {who:?}: {why}"),
    }
}

#[test]
fn demo_runs_and_leaves_the_machine_unchanged() {
    as_everybody(|lab| {
        let before = Machine::look();
        lab.copy("inventories", "inventories");
        let demo = "inventories/demo.yaml";
        let plan = lab.forge(&["plan", demo, "--detailed-exitcode"]);
        assert!(plan.starts_with("exit 2\nsimulated, no real hardware: gpu-[01:02],login-01\n"), "{plan}");
        let apply = lab.forge(&["apply", demo, "--yes"]);
        assert!(apply.starts_with("exit 0\n"), "{apply}");
        let again = lab.forge(&["apply", demo, "--yes"]);
        assert!(again.contains("\nno changes: 3 hosts, "), "{again}");
        let drift = lab.forge(&["drift", demo]);
        assert!(drift.starts_with("exit 0\n") && drift.contains("\nno drift: 3 hosts, "), "{drift}");
        lab.inside(demo, "gpu-02", "echo interval=1h >/etc/gpu-agent.conf; systemctl stop gpu-agent");
        the_readme_shows(lab);
        let json = lab.forge(&["verify", demo, "--format", "json", "--on", "login-01"]);
        assert!(json.contains("\"simulated\": [\n      \"login-01\"\n    ]"), "{json}");
        let reset = lab.forge(&["sandbox", "reset", "-i", demo]);
        assert_eq!(reset, "exit 0\ngpu-01    ended\ngpu-02    ended\nlogin-01  ended\n3 sandboxes ended\n");
        lab.nothing_is_left();
        before.is_unchanged();
    });
}

/// While a recipe is being edited, users can still list and discard the sandboxes.
#[test]
fn sandboxes_are_listed_and_discarded_whatever_the_recipes_say() {
    as_everybody(|lab| {
        assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
        lab.file("recipes/r.yaml", "recipe: r\nsteps: [\n");
        let listed = lab.forge(&["sandbox", "list"]);
        assert!(listed.starts_with("exit 0\na  running, process ") && listed.ends_with("\n2 sandboxes\n"), "{listed}");
        assert_eq!(lab.forge(&["sandbox", "reset"]), "exit 0\na  ended\nb  ended\n2 sandboxes ended\n");
        lab.nothing_is_left();
    });
}

/// A closed terminal is an interrupt: running steps finish, no further step starts, and the report is written.
#[test]
fn closed_terminal_interrupts_a_run_cleanly() {
    const SLOW: &str = "recipe: r
summary: two steps
steps:
  - { name: first, command: { check: test -e /srv/t/one, apply: 'mkdir /srv/t; touch /srv/t/begun; until test -e /srv/t/go; do sleep 0.1; done; touch /srv/t/one' } }
  - { name: second, command: { check: test -e /srv/t/two, apply: touch /srv/t/two } }
";
    let files = [("inventory.yaml", ONE), ("recipes/r.yaml", SLOW)];
    let lab = match Lab::new(Who::all()[0], &files) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    // The kernel sends SIGHUP to the session leader only, and to the other processes when the leader exits: the inner
    // shell ignores it and outlives the leader.
    let apply = "./forge apply inventory.yaml --yes --on a --json-into report.json";
    let mut terminal = lab.on_a_terminal(&format!("sh -c 'trap : HUP; {apply}; echo $? >code'; true"));
    while !lab.inside("inventory.yaml", "a", "ls /srv/t").contains("begun") {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    lab.inside("inventory.yaml", "a", "touch /srv/t/go");
    assert_eq!(lab.comes("code"), "130\n");
    assert!(lab.comes("report.json").contains("\"interrupted\": true"));
    assert_eq!(lab.inside("inventory.yaml", "a", "ls /srv/t"), "begun\ngo\none\n");
    lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
    lab.nothing_is_left();
}

#[test]
fn machine_snapshot_detects_changes() {
    for part in ["files", "kernel", "names"] {
        let lie = Machine::look().with_a_lie(part);
        let panic = std::panic::catch_unwind(|| lie.is_unchanged()).unwrap_err();
        let said = panic.downcast_ref::<String>().unwrap();
        assert!(said.starts_with(&format!("{part}: changed [\n")), "{said}");
    }
}

/// `setns` into a mount namespace sets the root directory to that of the namespace, which is outside the chroot: a
/// command that enters only the namespace runs on the machine outside the chroot.
#[test]
fn sandbox_does_not_escape_a_chroot() {
    if Who::all()[0] != Who::Root {
        return eprintln!("skipped: only root can make a chroot");
    }
    let lab = Lab::new(Who::Root, &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]).expect("sandboxes of root");
    lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
    let before = Machine::look();
    let applied = lab.inside_a_chroot(&["-q", "apply", "inventory.yaml", "--yes", "--on", "a"]);
    let inside = "cat /etc/lab /run/forge-sandbox.kind";
    let seen = lab.inside_a_chroot(&["sandbox", "enter", "a", "-i", "inventory.yaml", "--", "sh", "-c", inside]);
    lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
    before.is_unchanged();
    assert_eq!(seen, "lab\nsandbox\n", "{applied}");
}

/// The most harmful commands for a real machine. They run only in a sandbox.
const HARM: &str = r#"
[ "$(cat /run/forge-sandbox.kind 2>/dev/null)" = sandbox ] || { echo 'this is not a sandbox'; exit 1; }
hostname harmed
sysctl -qw vm.swappiness=1 kernel.pid_max=4194303 2>/dev/null || { echo 1 >/proc/sys/vm/swappiness; echo 4194303 >/proc/sys/kernel/pid_max; }
[ "$(cat /proc/sys/vm/swappiness) $(cat /proc/sys/kernel/pid_max)" = '1 4194303' ] || echo 'sysctl did not take'
useradd -r harmed || echo 'no user'
rm -rf /usr/share/doc /usr/lib/os-release /opt /var/lib/dpkg
[ -z "$(find /usr/share/doc -type f 2>/dev/null)" ] || echo 'files are still there'
echo harmed >/etc/passwd; echo harmed >/root/x; echo harmed >/home/x; echo harmed >/usr/bin/harmed; echo harmed >/srv/x
[ -z "$(find / -xdev -type s 2>/dev/null)" ] || echo 'a socket of the machine is here'
[ "$(ls /home)$(ls -A /root)" = xx ] || echo 'a home of the machine is here'
[ /proc/sysrq-trigger -ef /dev/null ] || [ ! -e /proc/sysrq-trigger ] || echo 'sysrq is real'
if touch /sys/kernel/x 2>/dev/null || echo 1 2>/dev/null >/sys/kernel/profiling; then echo '/sys can be written to'; fi
mknod /dev/disk b 8 0 2>/dev/null && echo 'a device can be made'
kill -9 -1
sleep 0.2
"#;

#[test]
fn sandbox_contains_destructive_commands() {
    as_everybody(|lab| {
        let before = Machine::look();
        let mut witness = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(lab.inside("inventory.yaml", "a", HARM), "");
        assert_eq!(lab.inside("inventory.yaml", "a", "cat /etc/passwd; hostname"), "harmed\nharmed\n");
        assert_eq!(lab.inside("inventory.yaml", "b", "hostname; ls /srv | grep -cx x"), "b\n0\n");
        assert!(witness.try_wait().unwrap().is_none(), "a process of this machine was killed");
        witness.kill().unwrap();
        witness.wait().unwrap();
        lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
        before.is_unchanged();
    });
}

/// Six simulated nodes, two of which are changed by the test, and one node of another model.
const ALIKE: &str = "cluster: lab\nconnect: { transport: sandbox, hardware: h100x8-ndr }\nhosts:\n  gpu-[01:06]:\n  spare: { connect: { hardware: a100x8 } }\n\
                     groups: { gpu: { hosts: [\"gpu-*\"] } }\n";

#[test]
fn outliers_among_similar_hosts_are_reported() {
    as_everybody(|lab| {
        lab.file("alike.yaml", ALIKE);
        let head = "exit 0\nsimulated, no real hardware: gpu-[01:06],spare\n\n";
        let alone = "not compared, fewer than 3 similar hosts: spare (A100)\n";
        let quiet = lab.forge(&["facts", "alike.yaml", "--outliers"]);
        assert!(quiet.starts_with(&format!("{head}{alone}no outliers: 6 hosts, ")), "{quiet}");
        let card = "d=/sys/bus/pci/devices/0000:1b:00.0; echo 8 >$d/current_link_width; rm -r /sys/bus/pci/devices/0000:9d:00.0
                    echo 1 >/proc/sys/kernel/numa_balancing; echo here";
        assert_eq!(lab.inside("alike.yaml", "gpu-03", card), "here\n");
        assert_eq!(lab.inside("alike.yaml", "gpu-05", "echo 0 >/proc/sys/kernel/numa_balancing; echo here"), "here\n");
        let told = lab.forge(&["facts", "alike.yaml", "--outliers"]);
        let odd = "6 similar hosts (H100 SXM; in gpu): gpu-[01:06]\n  \
                   pci[0x10de 0x2330 -]: 8 — 5 hosts; outlier: 7 — gpu-03\n  \
                   gpus: 8 entries — 5 hosts; outlier: without 0000:9d:00.0 — gpu-03\n  \
                   gpus[0000:1b:00.0].pcie.width: 16 — 5 hosts; outlier: 8 — gpu-03\n  \
                   governor.numa_balancing: true — 5 hosts; outlier: false — gpu-05\n";
        assert!(told.starts_with(&format!("{head}{odd}{alone}outliers: 4 of ")), "{told}");
        lab.forge(&["sandbox", "reset", "-i", "alike.yaml"]);
        lab.nothing_is_left();
    });
}

#[test]
fn sandbox_has_its_own_boot_id_and_persists_until_reset() {
    as_everybody(|lab| {
        let boot = |host: &str| lab.inside("inventory.yaml", host, "cat /proc/sys/kernel/random/boot_id");
        let (a, b) = (boot("a"), boot("b"));
        let real = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert!(a != b && a != real && b != real, "{a} {b} {real}");
        lab.inside("inventory.yaml", "a", "echo kept >/etc/kept");
        assert_eq!(
            lab.inside("inventory.yaml", "a", "cat /etc/kept; ls /proc | grep -c '^[0-9]*$'").lines().next(),
            Some("kept")
        );
        assert_eq!(boot("a"), a);
        assert_eq!(
            lab.forge(&["sandbox", "reset", "a", "-i", "inventory.yaml"]),
            "exit 0\na  ended\n1 sandbox ended\n"
        );
        let listed = lab.forge(&["sandbox", "list", "-i", "inventory.yaml"]);
        assert!(listed.starts_with("exit 0\nb  running, process "), "{listed}");
        assert_ne!(boot("a"), a);
        assert_eq!(lab.inside("inventory.yaml", "a", "ls /etc/kept 2>/dev/null; uname -n"), "a\n");
        let facts = lab.forge(&["facts", "inventory.yaml", "--on", "a"]);
        assert!(facts.starts_with("exit 0\nsimulated, no real hardware: a\n"), "{facts}");
        let facts = lab.forge(&["facts", "inventory.yaml", "--on", "a", "--format", "json"]);
        assert!(facts.contains("\"simulated\": true,"), "{facts}");
        let none = lab.forge(&["sandbox", "reset", "c", "-i", "inventory.yaml"]);
        assert_eq!(none, "exit 64\nerror: sandbox `c` not found\n  hint: list sandboxes with `forge sandbox list`\n");
    });
}

/// Runs the commands of the README's screen in the lab.
fn the_readme_shows(lab: &Lab) {
    const PAGE: &str = "README.md";
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (until, rest) = page.split_once("<!-- screen -->\n```\n").unwrap();
    let (screen, after) = rest.split_once("```\n").unwrap();
    let told: String =
        screen.lines().filter(|line| line.starts_with("$ ")).map(|line| tutorial::run(line, lab)).collect();
    if std::env::var_os("FORGE_BLESS").is_some() {
        std::fs::write(PAGE, format!("{until}<!-- screen -->\n```\n{told}```\n{after}")).unwrap();
    } else {
        assert!(told == screen, "the README's screen is outdated: run with FORGE_BLESS=1 and review the diff\n{told}");
    }
}

#[test]
fn recipe_tutorial_output_matches_a_real_run() {
    as_everybody(|lab| {
        const PAGE: &str = "docs/recipes.md";
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (until, rest) = page.split_once("\n## From nothing to a tested recipe\n").unwrap();
        let (lesson, after) = rest.split_once("\n## ").unwrap();
        // The page writes its own inventory over this one.
        lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
        let told = tutorial::follow(lesson, lab);
        let told = told.trim_end();
        if std::env::var_os("FORGE_BLESS").is_some() {
            let page = format!("{until}\n## From nothing to a tested recipe\n{told}\n\n## {after}");
            std::fs::write(PAGE, page).unwrap();
        } else {
            assert!(
                told == lesson.trim_end(),
                "the page is outdated: run with FORGE_BLESS=1 and review the diff\n{told}"
            );
        }
    });
}

#[test]
fn user_cannot_reset_a_sandbox_of_root() {
    if Who::all() != [Who::Root, Who::User] {
        eprintln!("skipped: a sandbox of another user: needs root");
        return;
    }
    let mut lab = match Lab::new(Who::Root, &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox as Root: {why}"),
    };
    let refused = lab.forge_as(Who::User, &["sandbox", "reset", "-i", "inventory.yaml"]);
    let (head, rest) = refused.split_once("cannot end process ").unwrap_or_else(|| panic!("{refused}"));
    assert_eq!(head, "exit 1\nerror: ");
    let after = ", which keeps sandbox `a`: Operation not permitted (os error 1)\n  \
                 hint: run this as the user who created the sandbox, or with sudo\n";
    assert!(rest.ends_with(after), "{refused}");
}

#[test]
fn concurrent_commands_share_one_sandbox() {
    as_everybody(|lab| {
        let boots: Vec<String> = std::thread::scope(|scope| {
            let one = || lab.inside("inventory.yaml", "a", "cat /proc/sys/kernel/random/boot_id");
            let started: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(boots.iter().all(|boot| *boot == boots[0]), "{boots:?}");
    });
}

/// The command transport enters a sandbox here, so that the host cannot be harmed.
#[test]
fn command_transport_requires_trust_and_a_shell() {
    as_everybody(|lab| {
        let forge = lab.binary();
        let inventory = format!(
            "cluster: c\nhosts:\n  box: {{ connect: {{ command: [{forge}, sandbox, enter, a, -i, inventory.yaml, --, sh] }} }}\n  \
             gone: {{ connect: {{ command: [no-such-program] }} }}\n  silent: {{ connect: {{ command: [\"true\"] }} }}\n\
             apply:\n  - {{ recipe: r, on: all }}\n"
        );
        lab.file("command.yaml", &inventory);
        let refused = lab.forge(&["plan", "command.yaml"]);
        assert!(refused.starts_with("exit 65\n"), "{refused}");
        assert!(
            refused.contains(
                "error[F0502]: the transport `no-such-program` runs a program on this machine\n --> command.yaml:4:31\n"
            ),
            "{refused}"
        );
        assert!(
            refused.contains("= hint: pass `--trust` if you trust this inventory as you trust a script"),
            "{refused}"
        );
        let apply = lab.forge(&["apply", "command.yaml", "--trust", "--yes"]);
        assert!(apply.starts_with("exit 4\n") && apply.contains("\nbox     changed "), "{apply}");
        assert!(apply.contains("cannot run `no-such-program`: No such file or directory"), "{apply}");
        assert!(
            apply.contains("`true` did not start a shell\n    hint: the program must run a shell on its stdin"),
            "{apply}"
        );
        assert_eq!(lab.inside("inventory.yaml", "a", "cat /etc/lab"), "lab\n");
        let again = lab.forge(&["apply", "command.yaml", "--trust", "--yes", "--on", "box"]);
        assert_eq!(again.lines().last(), Some("no changes: 1 host, 1 step matches"), "{again}");
    });
}

/// Creates two units, one of them enabled; a sysctl setting in a file and one in memory only; and files on disk and in
/// memory. Then it reboots.
const BEFORE: &str = r#"
mkdir -p /etc/systemd/system /etc/sysctl.d
for u in kept lost; do printf '[Service]\nExecStart=/bin/sleep 600\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/$u.service; done
systemctl enable --now kept; systemctl start lost
echo 1 >/proc/sys/vm/swappiness; echo vm.dirty_ratio = 7 >/etc/sysctl.d/z.conf
touch /run/here /tmp/here /etc/here /var/tmp/here
cat /proc/sys/kernel/random/boot_id
systemctl reboot; sleep 30; echo 'still here'
"#;
const AFTER: &str = "for t in $(seq 100); do [ \"$(cat /proc/sys/kernel/random/boot_id)\" = \"$B\" ] || ! systemctl is-system-running >/dev/null || break; sleep 0.1; done
systemctl is-active kept lost; cat /proc/sys/vm/dirty_ratio; [ \"$(cat /proc/sys/vm/swappiness)\" = 1 ] || echo again
ls /run/here /tmp/here /etc/here /var/tmp/here 2>/dev/null; cat /proc/sys/kernel/random/boot_id";

#[test]
fn reboot_ends_processes_and_keeps_files_on_disk() {
    as_everybody(|lab| {
        let before = lab.inside("inventory.yaml", "a", BEFORE);
        assert_eq!(before.lines().count(), 1, "{before}");
        let boot = before.trim();
        // A process that enters while the sandbox ends its processes is ended too.
        let ask = |_| lab.inside("inventory.yaml", "a", &format!("B={boot}; {AFTER}"));
        let after = (0..20).map(ask).find(|after| !after.is_empty()).unwrap_or_default();
        let (told, id) = after.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(told, "active\ninactive\n7\nagain\n/etc/here\n/var/tmp/here");
        assert!(id.len() == 36 && id != boot, "{before} {after}");
    });
}

/// Exercises the stand-in for systemctl with various units.
const UNITS: &str = r#"
unit() { printf '[Unit]\nDescription=%s\n[Service]\n%s\n[Install]\nWantedBy=multi-user.target\n' "$1" "$2" >"/etc/systemd/system/$1.service"; }
mkdir -p /etc/systemd/system
unit up 'ExecStart=/bin/sh -c "sleep 600 & wait"'
unit bad 'ExecStart=/bin/false'
unit gone 'ExecStart=/no/such/program'
unit once "$(printf 'Type=oneshot\nRemainAfterExit=yes\nExecStart=-/bin/false\nExecStart=/bin/sh -c "echo %%n >/run/once"')"
unit odd 'Type=dbus
ExecStart=/bin/true'
state() { printf '%s: %s %s\n' "$1" "$(systemctl show -p ActiveState --value "$1")" "$(systemctl show -p Result --value "$1")"; }
for u in up bad gone once odd nothing; do systemctl start "$u" 2>/dev/null; sleep 0.3; state "$u"; done
cat /run/once
id=$(systemctl show -p InvocationID --value up) pid=$(systemctl show -p MainPID --value up)
systemctl restart up
[ "$id" != "$(systemctl show -p InvocationID --value up)" ] && [ ! -e "/proc/$pid" ] && echo 'restarted'
systemctl is-enabled up; systemctl enable up; systemctl is-enabled up
mkdir /etc/systemd/system/up.service.d
printf '[Service]\nExecStart=\nExecStart=/bin/sleep 601\n' >/etc/systemd/system/up.service.d/a.conf
systemctl restart up; tr '\0' ' ' <"/proc/$(systemctl show -p MainPID --value up)/cmdline"; echo
systemctl stop up; state up; ps ax -o args= | grep -cx -e 'sleep 600' -e '/bin/sleep 601'
systemctl mask nothing; systemctl start nothing 2>&1
systemctl start some.timer 2>&1; touch /etc/systemd/system/some.timer; systemctl start some.timer 2>&1
printf '[Timer]\nOnCalendar=daily\n' >/etc/systemd/system/some.timer; systemctl start some.timer 2>&1
cp /etc/systemd/system/some.timer /etc/systemd/system/up.timer; systemctl stop up; systemctl start up.timer
systemctl show -p ActiveState,SubState,Type,MainPID up.timer; systemctl status up.timer | tail -n 2; state up
systemctl stop up.timer; state up.timer
systemctl start multi-user.target; systemctl stop multi-user.target; state multi-user.target
systemctl poweroff 2>&1
"#;

#[test]
fn simulated_systemctl_runs_units_and_rejects_invalid_calls() {
    as_everybody(|lab| {
        let said = lab.inside("inventory.yaml", "a", UNITS);
        let expected = "up: active success\nbad: failed exit-code\ngone: failed exit-code\nonce: active success\n\
                        odd: inactive success\nnothing: inactive success\nonce.service\nrestarted\ndisabled\nenabled\n\
                        /bin/sleep 601 \nup: inactive success\n0\n\
                        forge sandbox: unit nothing.service is masked\n\
                        forge sandbox: unit some.timer not found\n\
                        forge sandbox: some.timer has no time: its section [Timer] needs OnCalendar= or the like\n\
                        forge sandbox: some.timer cannot start: there is no unit some.service to trigger\n\
                        ActiveState=active\nSubState=waiting\n     Active: active (success), status=0\n    \
                        Trigger: never: nothing starts by itself in a sandbox\nup: inactive success\n\
                        up.timer: inactive success\nmulti-user.target: inactive success\n\
                        forge sandbox: `systemctl poweroff` is not simulated: `forge sandbox reset` ends a sandbox\n";
        assert_eq!(said, expected);
    });
}
