//! The programs of a guard in a directory of their own, without systemd: a process waits instead of a timer.

use super::*;
use secrecy::ExposeSecret;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

struct TestHost(tempfile::TempDir);

impl TestHost {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(host.0.path().join("forge/applied/.new")).unwrap();
        host
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.0.path().to_str().unwrap())
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// Runs a script with this directory in place of the host's own.
    fn run(&self, script: ShellFragment) -> std::process::Output {
        let text = script.render(&Default::default()).unwrap();
        let text = text.expose_secret().replace("/var/lib/forge", &self.path("forge"));
        let text = text.replace("/run/systemd/system", "/nowhere").replace("/run/forge", &self.path("run"));
        let text =
            text.replace("/run/lock/forge.act", "/nowhere").replace("has_systemctl() {", "has_systemctl() { return 1;");
        let text = text.replace("PATH=/usr/local/sbin:", &format!("PATH={}:/usr/local/sbin:", self.path("bin")));
        let path = format!("{}:{}", self.path("bin"), std::env::var("PATH").unwrap());
        Command::new("sh").arg("-c").arg(text).env("PATH", path).output().unwrap()
    }

    fn add_program(&self, name: &str, body: &str) {
        std::fs::create_dir_all(self.path("bin")).unwrap();
        let path = self.path(&format!("bin/{name}"));
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn arm(&self, guard: &HostGuard) {
        let done = self.run(guard.build_arm_script());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn confirm(&self, guard: &HostGuard) -> GuardAnswer {
        let done = self.run(guard.build_confirm_script());
        parse_guard_answer(&String::from_utf8(done.stdout).unwrap()).unwrap()
    }

    /// Waits until the guard restored the state before.
    fn await_restored(&self, guard: &HostGuard) {
        let state = guard.folder().replace("/var/lib/forge", &self.path("forge")) + "/restored";
        let end = Instant::now() + Duration::from_secs(30);
        while !Path::new(&state).exists() {
            assert!(Instant::now() < end, "not restored");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn guard(&self, number: u64, seconds: u64, step: &str, paths: &[&str], until: &[&str]) -> HostGuard {
        let id = |name: &&str| StepId::new("base", name);
        let paths = paths.iter().map(|name| self.path(name));
        let step_guard = GuardedStep {
            effect: GuardEffect::restore_paths(paths),
            until: until.iter().map(id).collect(),
            records: vec![FormerRecord { step: id(&step), body: None }],
            ..GuardedStep::default()
        };
        HostGuard::new("lab", "r1", number, seconds, vec![(id(&step), step_guard)])
    }
}

/// A program that sets up the filter by `iptables` leaves rules that `nft` cannot load.
#[test]
fn rules_of_iptables_are_taken_back() {
    let host = TestHost::new();
    host.add_program("iptables-save", &format!("cat {}", host.path("rules4")));
    host.add_program("ip6tables-save", ":");
    host.add_program("iptables-restore", &format!("cat >{}", host.path("rules4")));
    host.add_program("ip6tables-restore", &format!("cat >{}", host.path("rules6")));
    let open = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    std::fs::write(host.path("rules4"), open).unwrap();
    let effect = GuardEffect { tables: GuardedTables::Iptables, ..GuardEffect::default() };
    let step = GuardedStep { effect, ..GuardedStep::default() };
    let guard = HostGuard::new("lab", "r1", 0, 1, vec![(StepId::new("base", "ufw"), step)]);
    host.arm(&guard);
    std::fs::write(host.path("rules4"), "*filter\n:INPUT DROP [0:0]\nCOMMIT\n").unwrap();
    host.await_restored(&guard);
    assert_eq!(host.read("rules4").as_deref(), Some(open));
    let none = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
    assert_eq!(host.read("rules6").as_deref(), Some(none), "there was no rule, so its policy is restored");
}

/// `iptables-restore` leaves tables that its text does not have.
#[test]
fn table_of_iptables_that_the_change_made_is_emptied() {
    let host = TestHost::new();
    for (tool, rules) in [("iptables", "rules4"), ("ip6tables", "rules6")] {
        host.add_program(&format!("{tool}-save"), &format!("cat {}", host.path(rules)));
        host.add_program(&format!("{tool}-restore"), &format!("cat >{0}.new; mv {0}.new {0}", host.path(rules)));
    }
    let open = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n";
    let with_nat = |rules: &str| {
        format!(
            "{rules}# Generated\n*nat\n:PREROUTING DROP [1:60]\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n"
        )
    };
    std::fs::write(host.path("rules4"), open).unwrap();
    std::fs::write(host.path("rules6"), with_nat(open)).unwrap();
    let effect = GuardEffect { tables: GuardedTables::Iptables, ..GuardEffect::default() };
    let step = GuardedStep { effect, ..GuardedStep::default() };
    let guard = HostGuard::new("lab", "r1", 0, 1, vec![(StepId::new("base", "ufw"), step)]);
    host.arm(&guard);
    let closed = "*filter\n:INPUT DROP [0:0]\n:NEW - [0:0]\nCOMMIT\n";
    std::fs::write(host.path("rules4"), with_nat(closed)).unwrap();
    std::fs::write(host.path("rules6"), with_nat(closed)).unwrap();
    host.await_restored(&guard);
    let emptied = format!("{open}*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n");
    assert_eq!(host.read("rules4"), Some(emptied));
    assert_eq!(host.read("rules6"), Some(with_nat(open)), "the table existed before");
}

#[test]
fn unconfirmed_change_is_taken_back() {
    let host = TestHost::new();
    std::fs::write(host.path("it's old"), "before\n").unwrap();
    std::os::unix::fs::symlink("a", host.path("link")).unwrap();
    std::fs::create_dir(host.path("folder")).unwrap();
    let guard = host.guard(0, 1, "x", &["it's old", "new", "link", "folder"], &[]);
    host.arm(&guard);
    host.arm(&guard);
    std::fs::write(host.path("it's old"), "after\n").unwrap();
    std::fs::write(host.path("new"), "made\n").unwrap();
    std::fs::remove_file(host.path("link")).unwrap();
    std::fs::remove_dir(host.path("folder")).unwrap();
    let record = host.path(&format!("forge/applied/{}", StepId::new("base", "x").record_name("lab")));
    std::fs::write(&record, "{}").unwrap();
    host.await_restored(&guard);
    assert_eq!(host.read("it's old").as_deref(), Some("before\n"));
    assert_eq!(host.read("new"), None);
    assert_eq!(std::fs::read_link(host.path("link")).unwrap(), Path::new("a"));
    assert!(Path::new(&host.path("folder")).is_dir());
    assert!(!Path::new(&record).exists(), "what is restored is not recorded as applied");
    assert_eq!(host.confirm(&guard), GuardAnswer::Restored(GuardOutcome::default()));
    host.run(guard.build_forget_script());
    assert_eq!(host.confirm(&guard), GuardAnswer::Missing);
}

#[test]
fn confirmed_change_stays() {
    let host = TestHost::new();
    std::fs::write(host.path("file"), "before\n").unwrap();
    let guard = host.guard(0, 1, "x", &["file"], &[]);
    host.arm(&guard);
    std::fs::write(host.path("file"), "after\n").unwrap();
    assert_eq!(host.confirm(&guard), GuardAnswer::Confirmed);
    assert_eq!(host.confirm(&guard), GuardAnswer::Confirmed, "an answer may be lost");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(host.read("file").as_deref(), Some("after\n"));
    host.run(guard.build_forget_script());
    assert!(!host.0.path().join("forge/guard/r1-0000").exists());
    assert_eq!(std::fs::read_dir(host.path("run")).unwrap().count(), 0, "no lock is left");
}

/// A file is confirmed before the service that reads it is reloaded: the service's guard restores both.
#[test]
fn guard_takes_back_what_its_step_put_into_effect() {
    let host = TestHost::new();
    std::fs::write(host.path("config"), "before\n").unwrap();
    let file = host.guard(0, 60, "config", &["config"], &["service"]);
    host.arm(&file);
    std::fs::write(host.path("config"), "after\n").unwrap();
    assert_eq!(host.confirm(&file), GuardAnswer::Confirmed);
    host.run(file.build_forget_script());
    let other = host.guard(1, 1, "unrelated", &[], &[]);
    host.arm(&other);
    host.await_restored(&other);
    assert_eq!(host.read("config").as_deref(), Some("after\n"));
    let service = host.guard(2, 1, "service", &[], &[]);
    host.arm(&service);
    host.await_restored(&service);
    assert_eq!(host.read("config").as_deref(), Some("before\n"));
    let GuardAnswer::Restored(outcome) = host.confirm(&service) else { panic!("not restored") };
    assert_eq!(outcome.also, ["base/config".to_owned()].into());
    assert!(!host.0.path().join("forge/guard/r1-0000").exists());
}

#[test]
fn answer_is_parsed_completely_or_not_at_all() {
    assert_eq!(parse_guard_answer("confirmed\n"), Some(GuardAnswer::Confirmed));
    let outcome = GuardOutcome { also: ["a/b c".to_owned()].into(), problems: "x y\nz".into() };
    let printed = "restored\nalso a/b c\nproblem x y\nproblem z\n";
    assert_eq!(parse_guard_answer(printed), Some(GuardAnswer::Restored(outcome)));
    assert_eq!(
        [parse_guard_answer(""), parse_guard_answer("restored\nx y\n"), parse_guard_answer("hm")],
        [None, None, None]
    );
}
