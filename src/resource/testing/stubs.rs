//! Runs actions with stand-ins for apt, dpkg, dnf, systemctl, mount and modprobe, which log their calls: order, holds
//! and behaviour on failure. The fleet tests cover the real programs.

#![expect(clippy::disallowed_methods, reason = "tests run programs and read their own files")]

mod boot;
mod files;
mod rpm;

use crate::model::{SecretStore, StepVerdict, Value};
use crate::resource::testing::recorded_cases::{RUN, build_observation, checked_fields};
use crate::resource::{Assessment, AssessmentContext, Resource, RestartInput, find_kind};
use secrecy::ExposeSecret;
use serde_json::json;
use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory of stand-ins and the log of their calls.
struct CommandStubs {
    dir: tempfile::TempDir,
    /// Variables that the script of a group sets for the action.
    variables: Vec<(&'static str, &'static str)>,
}

impl CommandStubs {
    /// Each stand-in logs its name and arguments and then runs its own code.
    fn new(programs: &[(&str, &str)]) -> Self {
        let stubs = Self { dir: tempfile::tempdir().unwrap(), variables: Vec::new() };
        for (name, code) in programs {
            let path = stubs.dir.path().join(name);
            let log = stubs.log_path();
            let text = format!("#!/bin/sh\nprintf '%s\\n' \"{name} $*\" >> '{}'\n{code}\n", log.display());
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        stubs
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Returns the calls that make changes, in order.
    fn logged_calls(&self, quiet: &[&str]) -> Vec<String> {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let loud = |line: &&str| !quiet.iter().any(|prefix| line.starts_with(prefix));
        log.lines().filter(loud).map(str::to_owned).collect()
    }

    /// Runs the action of the change that the kind finds with these answers, written as in recorded cases.
    fn run_observed(&self, name: &str, written: Value, absent: bool, answers: Value) -> Output {
        let kind = find_kind(name).unwrap();
        let resource = (kind.build)(&checked_fields(kind.fields, &written), absent).unwrap();
        let seen = build_observation(resource.as_ref(), &[], None, &answers, &json!(name));
        let judgement = resource.assess(&seen, &AssessmentContext::default());
        assert_eq!(judgement.verdict, StepVerdict::Change, "{}", judgement.reason.raw());
        self.run_judgement(resource.as_ref(), &judgement)
    }

    fn run_judgement(&self, resource: &dyn Resource, judgement: &Assessment) -> Output {
        let action = resource.render_action(judgement, &AssessmentContext { run: RUN, ..AssessmentContext::default() });
        let text = action.into_script().body.render(&SecretStore::default()).unwrap();
        let own = |place: &str| self.dir.path().join(place).to_str().unwrap().to_owned();
        let text = text
            .expose_secret()
            .replace("/var/lib/forge", &own("forge-state"))
            .replace("/var/lib/dpkg", &own("dpkg-state"))
            .replace("/var/lib/apt", &own("apt-state"))
            .replace("/var/lib/dnf", &own("dnf-state"))
            .replace("/var/cache/dnf", &own("dnf-cache"))
            .replace("/run/forge", &own("run"))
            .replace("/etc/fstab", &own("fstab"));
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.dir.path().display());
        let mut shell = Command::new("dash");
        shell.args(["-u", "-c", &text]).env_clear().env("PATH", path).envs(self.variables.iter().copied());
        shell.output().unwrap()
    }
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const QUIET: [&str; 3] = ["dpkg-query", "apt-cache", "systemctl show"];
const APT: &str = "apt-get -y -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confdef \
                   -o Dpkg::Options::=--force-confold";

/// dpkg without unfinished packages, and apt that offers version 1 of every package.
fn apt_stubs(get: &'static str, mark: &'static str, query: &'static str) -> CommandStubs {
    CommandStubs::new(&[
        ("apt-get", get),
        ("apt-mark", mark),
        ("apt-cache", "printf ' %s | 1 | somewhere\\n' \"$3\""),
        ("dpkg-query", query),
        ("dpkg", ""),
    ])
}

/// Runs the change of the packages of `written`; `states` are their observed states.
fn run_packages(stubs: &CommandStubs, written: Value, absent: bool, states: &[(&str, Value)]) -> Output {
    let answers = states.iter().map(|(name, state)| (format!("package {name}"), state.clone()));
    stubs.run_observed("package", written, absent, Value::Object(answers.collect()))
}

/// A package that apt offers in the versions 1 and 2.
fn missing_package() -> Value {
    json!({ "status": "not-installed", "candidate": "2", "available": ["2", "1"] })
}

fn installed_package(version: &str) -> Value {
    json!({ "status": "installed", "version": version, "candidate": "2", "available": ["2", "1"] })
}

fn held_package(version: &str) -> Value {
    let mut state = installed_package(version);
    state["held"] = json!(true);
    state
}

const FINISHED: &str = "echo 'ii |nginx'";
const NGINX_HELD: &str = "case $* in *Status-Want*) echo 'hold nginx' ;; *) echo 'hi |nginx' ;; esac";

#[test]
fn apt_installs_all_packages_in_one_transaction() {
    let stubs = apt_stubs("", "", FINISHED);
    let written = json!({ "names": ["nginx", "g++"], "version": "1" });
    let states = [("nginx", missing_package()), ("g++", installed_package("1"))];
    let output = run_packages(&stubs, written, false, &states);
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(stubs.logged_calls(&QUIET), [format!("{APT} install --no-remove -- nginx=1 g++=1")]);
}

#[test]
fn first_step_installs_the_packages_of_later_steps_too() {
    let run = |variable, apt, query| {
        let stubs = CommandStubs { variables: vec![variable], ..apt_stubs(apt, "", query) };
        let written = json!({ "name": "nginx", "version": "1" });
        let output = run_packages(&stubs, written, false, &[("nginx", missing_package())]);
        (output.status.success(), stubs.logged_calls(&QUIET))
    };
    let also = ("FORGE_ALSO", "g++=1 vim");
    let together = format!("{APT} install --no-remove -- nginx=1 g++=1 vim");
    let alone = format!("{APT} install --no-remove -- nginx=1");
    assert_eq!(run(also, "", FINISHED), (true, vec![together.clone()]));
    // A package of another step cannot be installed: this step is not blamed for it.
    let refuses = "case $* in *vim*) exit 100 ;; esac";
    assert_eq!(run(also, refuses, FINISHED), (true, vec![together, alone.clone()]));
    // A package of another step cannot be configured, and apt fails as long as it is there.
    let fails = "exit 100";
    assert_eq!(
        run(also, fails, "echo 'ii 1'"),
        (true, vec![format!("{APT} install --no-remove -- nginx=1 g++=1 vim")])
    );
    assert!(!run(also, fails, "echo 'ii 2'").0, "its own package has another version");
    assert!(!run(("FORGE_ALSO", ""), fails, "echo 'ii 1'").0, "nothing is shared");
    let joined = ("FORGE_JOINED", "yes");
    assert_eq!(run(joined, "", "echo 'ii 1'"), (true, vec![]));
    for other in ["echo 'ii 2'", "exit 1"] {
        assert_eq!(run(joined, "", other), (true, vec![alone.clone()]), "{other}");
    }
}

#[test]
fn hold_is_restored_even_if_apt_fails() {
    let stubs = apt_stubs("exit 100", "", NGINX_HELD);
    let states = [("nginx", missing_package()), ("other", installed_package("1"))];
    let output = run_packages(&stubs, json!({ "names": ["nginx", "other"] }), false, &states);
    assert!(!output.status.success());
    assert_eq!(
        stubs.logged_calls(&QUIET),
        [
            "apt-mark unhold -- nginx".to_owned(),
            format!("{APT} install --no-remove -- nginx other"),
            "apt-mark hold -- nginx".to_owned()
        ]
    );
}

#[test]
fn declared_apt_hold_is_set_or_released_last() {
    let run = |stubs: &CommandStubs, hold: bool, state: Value| {
        run_packages(stubs, json!({ "name": "nginx", "version": "1", "hold": hold }), false, &[("nginx", state)])
    };
    let stubs = apt_stubs("", "", NGINX_HELD);
    let output = run(&stubs, false, held_package("1"));
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(stubs.logged_calls(&QUIET), ["apt-mark unhold -- nginx"]);
    let stubs = apt_stubs("", "", FINISHED);
    run(&stubs, true, missing_package());
    assert_eq!(
        stubs.logged_calls(&QUIET),
        [format!("{APT} install --no-remove -- nginx=1"), "apt-mark hold -- nginx".to_owned()]
    );
    let stubs = apt_stubs("", "", NGINX_HELD);
    run(&stubs, false, held_package("0.9"));
    assert_eq!(stubs.logged_calls(&QUIET).last().unwrap(), "apt-mark unhold -- nginx");
}

#[test]
fn apt_downgrade_is_allowed_only_for_a_downgrade_change() {
    for (found, option) in [("2", "--allow-downgrades "), ("0.9", "")] {
        let stubs = apt_stubs("", "", FINISHED);
        let written = json!({ "name": "nginx", "version": "1" });
        run_packages(&stubs, written, false, &[("nginx", installed_package(found))]);
        assert_eq!(stubs.logged_calls(&QUIET), [format!("{APT} install --no-remove {option}-- nginx=1")]);
    }
}

#[test]
fn apt_lists_are_updated_only_for_unknown_versions() {
    let run = |stubs: &CommandStubs, update: &str| {
        let written = json!({ "name": "nginx", "version": "2", "update": update });
        run_packages(stubs, written, false, &[("nginx", missing_package())])
    };
    let stubs = apt_stubs("", "", FINISHED);
    let output = run(&stubs, "if-missing");
    assert!(stderr_text(&output).contains("forge: apt does not know nginx=2: updating its lists\n"));
    assert_eq!(stubs.logged_calls(&QUIET), [format!("{APT} update"), format!("{APT} install --no-remove -- nginx=2")]);
    let stubs = apt_stubs("", "", FINISHED);
    run(&stubs, "never");
    assert_eq!(stubs.logged_calls(&QUIET), [format!("{APT} install --no-remove -- nginx=2")]);
}

/// dpkg reports `half-configured` until `dpkg --configure -a` has run.
#[test]
fn interrupted_dpkg_is_configured_before_install() {
    let query = "if grep -q 'dpkg --force' \"${0%/*}/log\"; then echo 'ii |nginx'; else echo 'iF |nginx'; fi";
    let stubs = apt_stubs("", "", query);
    let unfinished = json!({ "version": "1", "status": "half-configured", "candidate": "1", "available": ["1"] });
    let output = run_packages(&stubs, json!({ "name": "nginx" }), false, &[("nginx", unfinished)]);
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(
        stubs.logged_calls(&QUIET),
        [
            "dpkg --force-confdef --force-confold --configure -a".to_owned(),
            format!("{APT} install --no-remove -- nginx")
        ]
    );
}

#[test]
fn packages_that_require_reinstallation_are_reinstalled() {
    let stubs = apt_stubs("", "", "echo 'iHR|libfoo'; echo 'ii |nginx'");
    run_packages(&stubs, json!({ "name": "nginx" }), false, &[("nginx", missing_package())]);
    assert!(stubs.logged_calls(&QUIET).contains(&format!("{APT} install --reinstall --no-remove -- libfoo")));
    assert!(stubs.logged_calls(&QUIET).contains(&format!("{APT} -f install --no-remove")));
}

#[test]
fn apt_removal_fails_if_it_would_remove_other_packages() {
    let stubs = apt_stubs("case $* in '-s '*) echo 'Remv nginx:amd64 [1]'; echo 'Remv site [2]' ;; esac", "", FINISHED);
    let output = run_packages(&stubs, json!({ "name": "nginx" }), true, &[("nginx", installed_package("1"))]);
    assert!(!output.status.success());
    assert_eq!(stderr_text(&output), "forge: apt would also remove site: declare their removal too, or keep nginx\n");
    assert_eq!(stubs.logged_calls(&QUIET), ["apt-get -s -q remove -- nginx"]);
    let stubs = apt_stubs("case $* in '-s '*) echo 'Purg nginx [1]' ;; esac", "", NGINX_HELD);
    let written = json!({ "name": "nginx", "purge": true });
    let output = run_packages(&stubs, written, true, &[("nginx", held_package("1"))]);
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(
        stubs.logged_calls(&QUIET),
        [
            "apt-mark unhold -- nginx".to_owned(),
            "apt-get -s -q purge -- nginx".to_owned(),
            format!("{APT} purge -- nginx")
        ]
    );
}

/// The test process holds the lock, so the action must print its pid and give up at the timeout.
#[test]
fn dpkg_lock_holder_is_reported_and_wait_times_out() {
    let stubs = apt_stubs("", "", FINISHED);
    let folder = stubs.dir.path().join("dpkg-state");
    std::fs::create_dir(&folder).unwrap();
    let lock = std::fs::File::create(folder.join("lock-frontend")).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let written = json!({ "name": "nginx", "lock_timeout": "2s" });
    let output = run_packages(&stubs, written, false, &[("nginx", missing_package())]);
    let text = stderr_text(&output);
    let me = format!("pid {} (", std::process::id());
    assert!(text.starts_with(&format!("forge: waiting for the package manager's lock, held by {me}")), "{text}");
    assert!(text.contains(&format!("forge: gave up after 2 s: the package manager's lock is held by {me}")), "{text}");
    assert!(stubs.logged_calls(&QUIET).is_empty());
}

/// apt holds `lock-frontend` and its dpkg `lock`: apt is named, in whatever order the two are found. This process
/// plays dpkg, and a child plays apt.
#[test]
fn apt_is_named_as_lock_holder_before_its_dpkg() {
    let stubs = apt_stubs("", "", FINISHED);
    let folder = stubs.dir.path().join("dpkg-state");
    std::fs::create_dir(&folder).unwrap();
    let lock = std::fs::File::create(folder.join("lock")).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    // `F_SETLK` with a `struct flock` of 64 bits.
    let locks = "open F, '+>', $ARGV[0] or die; my $l = pack('s s x4 q q i x4', 1, 0, 0, 0, 0); fcntl(F, 6, $l) or die; $| = 1; print qq(held\\n); sleep 60";
    let mut apt = Command::new("perl");
    let mut apt = apt.args(["-e", locks]).arg(folder.join("lock-frontend")).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufReader::new(apt.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let written = json!({ "name": "nginx", "lock_timeout": "1s" });
    let text = stderr_text(&run_packages(&stubs, written, false, &[("nginx", missing_package())]));
    let wanted = format!("forge: waiting for the package manager's lock, held by pid {} (perl -e ", apt.id());
    apt.kill().unwrap();
    apt.wait().unwrap();
    assert!(text.starts_with(&wanted), "{said}{text}");
}

/// A file that is open but not locked does not block.
#[test]
fn open_lock_file_without_a_lock_does_not_block() {
    let stubs = apt_stubs("", "", FINISHED);
    let folder = stubs.dir.path().join("dpkg-state");
    std::fs::create_dir(&folder).unwrap();
    let _open = std::fs::File::create(folder.join("lock")).unwrap();
    let written = json!({ "name": "nginx", "lock_timeout": "2s" });
    let output = run_packages(&stubs, written, false, &[("nginx", missing_package())]);
    assert_eq!((output.status.code(), stderr_text(&output).as_str()), (Some(0), ""));
}

/// A systemctl whose unit reports the given states, one per query; the last one repeats.
fn systemctl_stubs(states: &str) -> CommandStubs {
    let code = format!(
        r#"case $* in
*NeedDaemonReload*) echo no ;;
*ActiveState*)
  n=$(cat "${{0%/*}}/n" 2>/dev/null || echo 0); echo $((n + 1)) > "${{0%/*}}/n"
  set -- {states}
  if [ "$n" -lt $# ]; then shift "$n"; else shift $(($# - 1)); fi
  printf 'ActiveState=%s\nSubState=auto-restart\nInvocationID=aa11\n' "$1" ;;
*InvocationID*) echo aa11 ;;
*Result*) echo exit-code ;;
--version) echo 'systemd 252 (252.39)' ;;
esac"#
    );
    CommandStubs::new(&[("systemctl", Box::leak(code.into_boxed_str())), ("journalctl", "echo 'the last log line'")])
}

const SYSTEMD_QUIET: [&str; 2] = ["systemctl show", "systemctl --version"];

/// The answers of a host on which nginx runs, with other values for some properties.
fn nginx_answers(other: Value) -> Value {
    let mut unit = json!({
        "load": "loaded", "active": "active", "sub": "running", "file_state": "enabled", "invocation": "aa11",
        "main_pid": 812, "active_since": 1000.5, "main_started": 1000.25, "can_reload": true,
    });
    for (property, value) in other.as_object().unwrap() {
        unit[property] = value.clone();
    }
    json!({ "unit nginx.service": unit })
}

#[test]
fn service_is_unmasked_enabled_and_started() {
    let stubs = systemctl_stubs("deactivating reloading active");
    let answers = nginx_answers(json!({ "load": "masked", "active": "inactive", "file_state": "masked" }));
    let output = stubs.run_observed("service", json!({ "name": "nginx", "enabled": true }), false, answers);
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(
        stubs.logged_calls(&SYSTEMD_QUIET),
        [
            "systemctl unmask -- nginx.service",
            "systemctl unmask --runtime -- nginx.service",
            "systemctl enable -- nginx.service",
            "systemctl reset-failed -- nginx.service",
            "systemctl start -- nginx.service"
        ]
    );
}

#[test]
fn service_that_dies_after_restart_fails_with_its_log() {
    for (states, why) in [
        ("active activating", "nginx.service started and died"),
        ("active failed", "nginx.service did not stay up: it is failed (exit-code)"),
    ] {
        let answers = nginx_answers(json!({ "deleted": ["/usr/sbin/nginx"] }));
        let stubs = systemctl_stubs(states);
        let output = stubs.run_observed("service", json!({ "name": "nginx" }), false, answers);
        assert!(!output.status.success());
        let calls = stubs.logged_calls(&["systemctl"]);
        let [log] = calls.as_slice() else { panic!("{calls:?}") };
        let since = log.strip_prefix("journalctl -q --no-pager -o short-iso -n 20 --since=-");
        let since = since.and_then(|rest| rest.strip_suffix("s -u nginx.service"));
        let seconds: u32 = since.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{log}"));
        assert!((1..60).contains(&seconds), "lines of earlier starts are left out: {log}");
        assert_eq!(stderr_text(&output), format!("the last log line\nforge: {why}\n"));
    }
}

#[test]
fn reload_records_unit_state_and_time() {
    let stubs = systemctl_stubs("active");
    let kind = find_kind("service").unwrap();
    let written = json!({ "name": "nginx", "reload": true });
    let service = (kind.build)(&checked_fields(kind.fields, &written), false).unwrap();
    let changing = RestartInput {
        step: "web/site".to_owned(),
        paths: Vec::new(),
        trace: None,
        digest: "sha256:new".to_owned(),
        changing: true,
        is_read_at_start: false,
    };
    let inputs = [changing];
    let mut answers = nginx_answers(json!({}));
    answers["path /run/forge/reloaded/nginx.service"] = json!("absent");
    let seen = build_observation(service.as_ref(), &inputs, None, &answers, &json!("reload"));
    let judgement = service.assess(&seen, &AssessmentContext { inputs: &inputs, ..AssessmentContext::default() });
    let output = stubs.run_judgement(service.as_ref(), &judgement);
    assert!(output.status.success(), "{}", stderr_text(&output));
    let mark = std::fs::read_to_string(stubs.dir.path().join("run/reloaded/nginx.service")).unwrap();
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let words: Vec<&str> = mark.split_whitespace().collect();
    assert_eq!(words[..2], ["aa11", empty]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - 60.0..=now).contains(&words[2].parse().unwrap()), "when the reload began: {mark}");
}

#[test]
fn stop_only_disables_and_stops_the_unit() {
    let stubs = systemctl_stubs("active");
    let timer = json!({ "name": "a.timer", "state": "stopped", "enabled": false });
    let state = json!({ "load": "loaded", "active": "active", "sub": "waiting", "file_state": "enabled" });
    stubs.run_observed("service", timer, false, json!({ "unit a.timer": state }));
    assert_eq!(stubs.logged_calls(&SYSTEMD_QUIET), ["systemctl disable -- a.timer", "systemctl stop -- a.timer"]);
}

const SCRATCH: &str = "tmpfs /none tmpfs size=1m 0 0";

/// Runs the mount of a file system, or its remount if it is mounted with other options.
fn mount_scratch(stubs: &CommandStubs, mounted: bool) -> Output {
    let path = stubs.dir.path().join("point").to_str().unwrap().to_owned();
    let written = json!({ "path": path, "source": "tmpfs", "fstype": "tmpfs", "options": ["size=1m"] });
    let other = json!({
        "source": "tmpfs", "device": null, "fstype": "tmpfs", "options": ["rw", "size=2048k"], "root": "0:9 /",
    });
    let entry = json!({ "line": 1, "text": format!("tmpfs {path} tmpfs size=1m 0 0") });
    let state = if mounted { json!({ "mounts": [other], "fstab": [entry] }) } else { json!({ "mounts": [] }) };
    let unit = format!("unit {}.mount", path[1..].replace('/', "-"));
    let loaded = json!({ "load": "loaded", "active": "inactive", "sub": "dead" });
    stubs.run_observed("mount", written, false, json!({ format!("mount {path}"): state, unit: loaded }))
}

#[test]
fn failed_mount_leaves_fstab_unchanged() {
    let stubs = CommandStubs::new(&[("mount", "echo 'wrong fs type, bad option' >&2; exit 32"), ("systemctl", "")]);
    std::fs::write(stubs.dir.path().join("fstab"), SCRATCH).unwrap();
    let output = mount_scratch(&stubs, false);
    assert!(!output.status.success());
    let said = stderr_text(&output);
    assert!(said.contains("wrong fs type, bad option\nforge: cannot mount tmpfs at "), "{said}");
    assert!(said.ends_with("(exit status 32): fstab is left as it was\n"), "{said}");
    assert_eq!(std::fs::read_to_string(stubs.dir.path().join("fstab")).unwrap(), SCRATCH);
}

#[test]
fn changed_mount_options_are_applied_by_remount() {
    let stubs = CommandStubs::new(&[("mount", ""), ("systemctl", "")]);
    let output = mount_scratch(&stubs, true);
    assert!(output.status.success(), "{}", stderr_text(&output));
    let point = stubs.dir.path().join("point");
    assert_eq!(stubs.logged_calls(&[]), [format!("mount -o remount,size=1m -- {}", point.display())]);
}

#[test]
fn modules_are_loaded_by_modprobe_and_unloaded_by_rmmod() {
    let stubs = CommandStubs::new(&[("modprobe", ""), ("rmmod", "echo 'Module dummy_x is in use' >&2; exit 1")]);
    let run = |loaded: bool, state: Value| {
        let answers = json!({
            "path /etc/modprobe.d/forge-dummy_x.conf": "absent",
            "path /etc/modules-load.d/forge-dummy_x.conf": "absent",
            "module dummy_x": state,
        });
        stubs.run_observed("kernel_module", json!({ "name": "dummy-x", "loaded": loaded }), false, answers)
    };
    assert!(run(true, json!({ "presence": "not-loaded", "available": true, "loadable": true })).status.success());
    let output = run(false, json!({ "presence": "loaded", "refcount": 0 }));
    assert!(!output.status.success());
    assert_eq!(stderr_text(&output), "Module dummy_x is in use\nforge: cannot unload module dummy_x\n");
    assert_eq!(stubs.logged_calls(&[]), ["modprobe -- dummy_x", "rmmod -- dummy_x"]);
}

/// The answers of a host without the units of the timer `job`.
fn job_answers() -> Value {
    let missing = json!({ "load": "not-found", "active": "inactive", "sub": "dead" });
    json!({
        "path /etc/systemd/system/job.service": "absent",
        "path /etc/systemd/system/job.timer": "absent",
        "path /etc/systemd/system": { "kind": "directory", "mode": "0755" },
        "unit job.service": missing,
        "unit job.timer": missing,
    })
}

#[test]
fn invalid_calendar_is_rejected_before_writing() {
    let stubs = CommandStubs::new(&[("systemd-analyze", "exit 1"), ("systemctl", "")]);
    let timer = json!({ "name": "job", "command": "true", "calendar": "dayly" });
    let output = stubs.run_observed("timer", timer, false, job_answers());
    assert!(!output.status.success());
    let text = "forge: systemd does not understand the calendar 'dayly': nothing was written\n";
    assert_eq!(stderr_text(&output), text);
    assert_eq!(stubs.logged_calls(&[]), ["systemd-analyze calendar -- dayly"]);
}

#[test]
fn calendar_without_next_elapse_is_rejected() {
    let stubs = CommandStubs::new(&[
        ("systemd-analyze", "printf 'Normalized form: x\\n    Next elapse: never\\n'"),
        ("systemctl", ""),
    ]);
    let timer = json!({ "name": "job", "command": "true", "calendar": "2020-01-01" });
    let output = stubs.run_observed("timer", timer, false, job_answers());
    assert_eq!(stderr_text(&output), "forge: the calendar '2020-01-01' never comes again: nothing was written\n");
}
