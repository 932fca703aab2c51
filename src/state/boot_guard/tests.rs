//! The scripts of a reboot's guard, run by the shell on a folder of the test in place of `/`.

use super::*;
use secrecy::ExposeSecret;
use std::path::Path;
use std::process::{Command, Output};

/// Programs in place of those of a booted host. `systemctl` logs its arguments.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "systemctl",
        "echo \"$*\" >>\"$ROOT/calls\"\ncase $1 in is-system-running) cat \"$ROOT/state\" ;; list-jobs) echo '7 hang.service start running' ;; esac\n\
         case $* in '--quiet is-active'*) grep -qxF -- \"$(eval echo \\${$#})\" \"$ROOT/active\" ;; esac",
    ),
    ("ip", "echo 'default via 192.0.2.1 dev eth0'"),
    ("ping", "eval \"last=\\${$#}\"; [ -e \"$ROOT/answers-$last\" ]"),
    ("sleep", "exit 0"),
    ("grub-reboot", "echo \"grub-reboot $*\" >>\"$ROOT/calls\""),
    ("grub-editenv", "echo \"grub-editenv $2 $3\" >>\"$ROOT/calls\""),
    ("update-grub", "echo update-grub >>\"$ROOT/calls\""),
    ("timeout", "shift; exec \"$@\""),
];

struct TestHost {
    folder: tempfile::TempDir,
}

impl TestHost {
    fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        let make = |name: &str| std::fs::create_dir_all(host.path(name)).unwrap();
        ["bin", "etc/systemd/system", "var/lib/forge/applied/.new", "boot/grub", "run", "proc"]
            .into_iter()
            .for_each(make);
        for (name, body) in PROGRAMS {
            let path = host.path(&format!("bin/{name}"));
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        host.write("boot_id", "one\n").write("state", "running\n").write("active", "ssh.service\n");
        host.write("answers-192.0.2.1", "").write("calls", "").write("proc/cmdline", CMDLINE);
        host
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        std::fs::write(self.path(name), text).unwrap();
        self
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// Replaces the paths of a host by those of the folder.
    fn localize(&self, text: &str) -> String {
        let root = self.folder.path().to_str().unwrap();
        let places = ["/etc/", "/var/lib/forge", "/boot/", "/proc/sys/kernel/random/", "/proc/cmdline", "/run/"];
        let own = places.iter().fold(text.to_owned(), |text, place| {
            let local = match *place {
                "/proc/sys/kernel/random/" => format!("{root}/"),
                _ => format!("{root}{place}"),
            };
            text.replace(place, &local)
        });
        own.replace("PATH=/usr/local/sbin:", &format!("PATH={root}/bin:/usr/local/sbin:"))
    }

    fn sh(&self, text: &str) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let mut sh = Command::new("sh");
        sh.args(["-c", text]).env("PATH", path).env("ROOT", self.folder.path());
        sh.output().unwrap()
    }

    fn run(&self, script: ShellFragment) -> String {
        let text = script.render(&Default::default()).unwrap();
        let done = self.sh(&self.localize(text.expose_secret()));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.is_empty(), "{said}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Lets the timer elapse in another boot.
    fn elapse(&self) {
        self.write("boot_id", "two\n");
        let program = self.read(&format!("{GUARD}/restore")).unwrap();
        let done = self.sh(&program);
        assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    }

    fn exists(&self, name: &str) -> bool {
        Path::new(&self.path(name)).symlink_metadata().is_ok()
    }
}

const GUARD: &str = "var/lib/forge/guard/r1-boot";
const TIMER: &str = "etc/systemd/system/forge-boot-guard.timer";

fn guard(host: &TestHost) -> BootGuard {
    let copy = |name: &str| format!("/var/lib/forge/undo/r1/{name}");
    std::fs::create_dir_all(host.path("var/lib/forge/undo/r1")).unwrap();
    host.write("var/lib/forge/undo/r1/0-0", "before\n").write("etc/conf", "after\n").write("etc/new", "made\n");
    host.write("boot/initrd.img-6.1", "new image\n").write("boot/initrd.img-6.1.forge-r1", "old image\n");
    host.write(&format!("var/lib/forge/applied/{}", StepId::new("web", "page").record_name("lab")), "{\"new\":1}");
    let file = |path: &str, state, copy| FormerFile { path: path.to_owned(), state, copy };
    let step = StepId::new("web", "page");
    let restoration = BootRestoration {
        steps: vec![step.clone()],
        files: vec![
            file("/etc/conf", FormerState::File, copy("0-0")),
            file("/etc/new", FormerState::Nothing, copy("0-1")),
            file("/etc/lost", FormerState::File, copy("0-2")),
        ],
        units: vec![
            UnitAtBoot { name: "hang.service".into(), enabled: false },
            UnitAtBoot { name: "gone.service".into(), enabled: true },
        ],
        images: vec![("/boot/initrd.img-6.1".into(), "/boot/initrd.img-6.1.forge-r1".into())],
        menu: vec![BootMenuUndo::UpdateGrub, BootMenuUndo::UpdateGrub],
        records: vec![FormerRecord { step, body: None }],
    };
    BootGuard::new("lab", "r1", 600, restoration)
}

#[test]
fn confirmed_boot_leaves_nothing_of_its_guard() {
    let host = TestHost::new();
    let guard = guard(&host);
    assert_eq!(host.run(guard.build_arm_script()), "");
    assert!(host.exists(TIMER) && host.exists("etc/systemd/system/sysinit.target.wants/forge-boot-guard.timer"));
    assert!(host.read(TIMER).unwrap().contains("OnActiveSec=600\n"));
    assert_eq!(host.read(&format!("{GUARD}/gateway")).as_deref(), Some("192.0.2.1\n"));
    host.write("boot_id", "two\n");
    let said = host.run(guard.build_confirm_script());
    assert_eq!(parse_boot_answer(&said), Some(BootGuardAnswer::Confirmed));
    assert!(!host.exists(GUARD) && !host.exists(TIMER), "{said}");
    assert!(!host.exists("etc/systemd/system/sysinit.target.wants/forge-boot-guard.timer"));
    assert_eq!(host.read("etc/conf").as_deref(), Some("after\n"));
    assert_eq!(parse_boot_answer(&host.run(guard.build_confirm_script())), Some(BootGuardAnswer::Missing));
}

#[test]
fn boot_that_does_not_finish_is_taken_back() {
    let host = TestHost::new();
    let guard = guard(&host);
    host.run(guard.build_arm_script());
    host.write("state", "starting\n").write("calls", "");
    host.elapse();
    assert_eq!(host.read("etc/conf").as_deref(), Some("before\n"));
    assert!(!host.exists("etc/new") && !host.exists(TIMER));
    assert_eq!(host.read("boot/initrd.img-6.1").as_deref(), Some("old image\n"));
    let calls = host.read("calls").unwrap();
    let order = ["disable -- hang.service", "enable -- gone.service", "update-grub", "--no-block reboot"];
    let found: Vec<usize> =
        order.iter().map(|call| calls.find(call).unwrap_or_else(|| panic!("{call}: {calls}"))).collect();
    assert!(found.is_sorted() && calls.matches("update-grub").count() == 1, "{calls}");
    assert_eq!(std::fs::read_dir(host.path("var/lib/forge/applied")).unwrap().count(), 1, "the record is removed");
    let said = host.run(guard.build_confirm_script());
    let Some(BootGuardAnswer::Restored(outcome)) = parse_boot_answer(&said) else { panic!("{said}") };
    assert_eq!(outcome.why.raw(), "systemd reports `starting` and waits for hang.service");
    assert_eq!(outcome.problems.raw(), host.localize("there is no copy of /etc/lost"));
    assert!(!host.exists(GUARD));
}

#[test]
fn host_without_its_gateway_or_logins_takes_the_boot_back() {
    for (hidden, why) in [("gateway", "the gateway 192.0.2.1 does not answer"), ("login", "none of ssh.service runs")] {
        let host = TestHost::new();
        let guard = guard(&host);
        host.run(guard.build_arm_script());
        match hidden {
            "gateway" => std::fs::remove_file(host.path("answers-192.0.2.1")).unwrap(),
            _ => std::fs::write(host.path("active"), "cron.service\n").unwrap(),
        }
        host.elapse();
        assert_eq!(host.read("etc/conf").as_deref(), Some("before\n"), "{why}");
        assert_eq!(host.read(&format!("{GUARD}/why")).as_deref(), Some(format!("{why}\n").as_str()));
    }
}

#[test]
fn host_that_came_back_keeps_its_boot_without_forge() {
    let host = TestHost::new();
    let guard = guard(&host);
    host.run(guard.build_arm_script());
    host.write("state", "degraded\n").write("calls", "");
    host.elapse();
    assert_eq!(host.read("etc/conf").as_deref(), Some("after\n"));
    assert!(host.exists(&format!("{GUARD}/confirmed")) && !host.read("calls").unwrap().contains("reboot"));
    host.run(build_earlier_boot_script());
    assert!(!host.exists(GUARD) && !host.exists(TIMER));
}

#[test]
fn guard_whose_reboot_did_not_happen_restores_nothing() {
    let host = TestHost::new();
    let guard = guard(&host);
    host.run(guard.build_arm_script());
    let program = host.read(&format!("{GUARD}/restore")).unwrap();
    host.write("state", "starting\n");
    host.sh(&program);
    assert_eq!(host.read("etc/conf").as_deref(), Some("after\n"));
    host.run(build_earlier_boot_script());
    assert!(!host.exists(GUARD) && !host.exists(TIMER));
}

#[test]
fn groups_of_this_boot_are_printed() {
    let host = TestHost::new();
    std::fs::create_dir_all(host.path("var/lib/forge/undo/r1")).unwrap();
    for (number, boot) in [(0, "zero"), (1, "one")] {
        host.write(&format!("var/lib/forge/undo/r1/{number}.boot"), &format!("{boot}\n"));
        host.write(&format!("var/lib/forge/undo/r1/{number}.json"), &format!("{{\"n\":{number}}}"));
        host.write(&format!("var/lib/forge/undo/r1/{number}.before"), "before\0file /etc/motd\0");
    }
    let script =
        READ_BOOT_GROUPS.replace("[ -d /run/systemd/system ] && [ ! -e /run/forge-sandbox.kind ] || exit 0", "");
    let said = host.run(ShellFragment::new().code(Box::leak(script.into_boxed_str())));
    assert_eq!(said, "group\x001\0json\0{\"n\":1}\0before\0file /etc/motd\0");
}

const CMDLINE: &str = "BOOT_IMAGE=/vmlinuz-6.1 root=UUID=64ef ro console=ttyS0,115200 panic=5\n";

/// The parts of a menu that `grub-mkconfig` of Debian 12 generates which concern the fallback.
const MENU: &str = r#"if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="0"
fi
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-64ef' {
	load_video
	search --no-floppy --fs-uuid --set=root 64ef
	echo	'Loading Linux 6.1 ...'
	linux	/vmlinuz-6.1 root=UUID=64ef ro console=ttyS0,115200 panic=5 iommu=pt
	initrd	/early.img /initrd.img-6.1
}
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
fi
"#;

#[test]
fn grub_falls_back_to_the_boot_before() {
    let host = TestHost::new();
    host.write("boot/grub/grub.cfg", MENU);
    let guard = guard(&host);
    host.run(guard.build_arm_script());
    let expected = "# forge: boots as before run r1, unless the boot after it is confirmed.\n\
        menuentry 'forge: as before run r1' --unrestricted --id forge-fallback {\n\
        \tload_video\n\tsearch --no-floppy --fs-uuid --set=root 64ef\n\techo\t'Loading Linux 6.1 ...'\n\
        \tlinux /vmlinuz-6.1 'root=UUID=64ef' 'ro' 'console=ttyS0,115200' 'panic=5' 'forge.fallback=r1'\n\
        initrd /early.img /initrd.img-6.1.forge-r1\n}\n\
        if [ \"${boot_once}\" != \"true\" ]; then\n  set default=forge-fallback\nfi\n";
    assert_eq!(host.read("boot/grub/custom.cfg").unwrap(), expected);
    assert!(host.read("calls").unwrap().contains("grub-reboot 0\n"));
    // A session of the fallback confirms nothing; the host restores the state before and boots the regular menu.
    host.write("proc/cmdline", &format!("{} forge.fallback=r1\n", CMDLINE.trim_end()));
    assert_eq!(parse_boot_answer(&host.run(guard.build_confirm_script())), Some(BootGuardAnswer::Busy));
    host.elapse();
    assert!(!host.exists("boot/grub/custom.cfg"));
    assert!(host.read("calls").unwrap().contains("grub-editenv unset next_entry"));
    assert_eq!(host.read("etc/conf").as_deref(), Some("before\n"));
    host.write("proc/cmdline", CMDLINE);
    let said = host.run(guard.build_confirm_script());
    let Some(BootGuardAnswer::Restored(outcome)) = parse_boot_answer(&said) else { panic!("{said}") };
    let why = "the machine booted the fallback entry of GRUB, as before the run";
    assert_eq!(outcome.why.raw(), why);
}

#[test]
fn fallback_of_a_confirmed_boot_is_removed() {
    let host = TestHost::new();
    host.write("boot/grub/grub.cfg", MENU);
    let guard = guard(&host);
    host.run(guard.build_arm_script());
    assert!(host.exists("boot/grub/custom.cfg"));
    host.write("boot_id", "two\n");
    assert_eq!(parse_boot_answer(&host.run(guard.build_confirm_script())), Some(BootGuardAnswer::Confirmed));
    assert!(!host.exists("boot/grub/custom.cfg"));
}

/// A menu without the parts that the fallback needs, arguments that GRUB would change, and a `custom.cfg` of the user.
#[test]
fn machine_without_a_safe_fallback_keeps_its_menu() {
    let cases: [(&str, &str); 3] = [
        ("boot/grub/grub.cfg", "menuentry 'Linux' {\n\tlinux /vmlinuz-6.1\n}\n"),
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.1 ro dyndbg=\"file a +p\"\n"),
        ("boot/grub/custom.cfg", "# of the user\n"),
    ];
    for (name, text) in cases {
        let host = TestHost::new();
        host.write("boot/grub/grub.cfg", MENU).write(name, text);
        let guard = guard(&host);
        host.run(guard.build_arm_script());
        assert!(!host.read("calls").unwrap().contains("grub-reboot"), "{name}");
        let custom = (name == "boot/grub/custom.cfg").then(|| text.to_owned());
        assert_eq!(host.read("boot/grub/custom.cfg"), custom, "{name}");
    }
}
