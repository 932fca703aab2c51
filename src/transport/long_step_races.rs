//! Long steps on a slow machine: a slow stand-in for a program widens each window between two of their states.

#![expect(clippy::disallowed_methods, reason = "a test may start programs and wait")]

use super::follow_long_step::{LongStepPoll, LongStepState, POLL_SCRIPT};
use super::long_step::{RUNNER_SCRIPT, START_SCRIPT};
use super::shell_wrapper::LOCKING_WRAPPER;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const UNIT: &str = "forge-r1-test";

/// A host with stand-ins for some programs, with or without systemd.
struct SlowHost {
    folder: tempfile::TempDir,
}

impl SlowHost {
    fn new(systemd: bool, stand_ins: &[(&str, &str)]) -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        for dir in ["bin", "lock"] {
            fs_err::create_dir(host.folder.path().join(dir)).unwrap();
        }
        if systemd {
            fs_err::create_dir(host.path("systemd")).unwrap();
        }
        for (name, code) in stand_ins {
            let path = host.path(&format!("bin/{name}"));
            fs_err::write(&path, format!("#!/bin/sh\n{code}\n")).unwrap();
            fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        host
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn run_shell(&self, code: &str, arguments: &[&str]) -> Output {
        let code = code.replace("/run/systemd/system", &self.path("systemd"));
        let code = code.replace("/run/systemd/transient", &self.path("transient"));
        let mut sh = Command::new("/bin/sh");
        sh.args(["-c", &code, "forge"]).args(arguments).stdin(Stdio::null());
        sh.env("PATH", format!("{}:{PROGRAMS}", self.path("bin"))).output().unwrap()
    }

    fn start_step(&self, step: &str) -> Output {
        let (run, log) = (self.path(&format!("run/{UNIT}")), self.path("log/x.log"));
        self.run_shell(START_SCRIPT, &[&run, &log, "20", UNIT, step, RUNNER_SCRIPT])
    }

    fn start_step_successfully(&self, step: &str) {
        let done = self.start_step(step);
        assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    }

    /// Looks once, without waiting for news.
    fn poll_step(&self) -> (LongStepState, Option<i32>) {
        let (run, log) = (self.path(&format!("run/{UNIT}")), self.path("log/x.log"));
        let done = self.run_shell(POLL_SCRIPT, &[&run, &log, "999", UNIT, "999", "0"]);
        let look = LongStepPoll::parse(&done.stdout).unwrap_or_else(|| panic!("{done:?}"));
        (look.life, look.result)
    }

    /// Looks repeatedly until there is a result; fails if the step is reported as gone before that.
    #[track_caller]
    fn wait_for_status(&self) -> i32 {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            match self.poll_step() {
                (_, Some(status)) => return status,
                (LongStepState::Over, None) => panic!("gone without a result after {:?}", began.elapsed()),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        panic!("no result");
    }

    /// Returns the answer to another run that requests the lock.
    fn request_lock(&self) -> String {
        let arguments = ["MARK", "token", &self.path("lock/forge"), "run: r2", "", &self.path("run"), "", ""];
        String::from_utf8(self.run_shell(LOCKING_WRAPPER, &arguments).stdout).unwrap()
    }
}

const HELD_BY_STEP: &str = "\u{1}MARK<unit\nforge-r1-test\u{1}MARK>0.";

#[test]
fn step_with_a_late_process_counts_as_running() {
    let host = SlowHost::new(false, &[("setsid", "sleep 1; exec /usr/bin/setsid \"$@\"")]);
    host.start_step_successfully("exit 3");
    assert_eq!(host.poll_step(), (LongStepState::Running, None));
    assert_eq!(host.request_lock(), HELD_BY_STEP);
    assert_eq!(host.wait_for_status(), 3);
    assert!(host.request_lock().contains("<got\n"));
}

#[test]
fn late_result_of_a_step_is_awaited() {
    let host =
        SlowHost::new(false, &[("rm", "sleep 0.5; exec /bin/rm \"$@\""), ("mv", "sleep 0.5; exec /bin/mv \"$@\"")]);
    host.start_step_successfully("exit 4");
    assert_eq!(host.wait_for_status(), 4);
}

#[test]
fn killed_step_is_over_even_if_its_child_lives() {
    let host = SlowHost::new(false, &[]);
    host.start_step_successfully("sleep 2 & kill -9 \"$(cat \"${0%/*}/pid\")\"; sleep 2");
    let began = Instant::now();
    while host.poll_step() == (LongStepState::Running, None) {
        assert!(began.elapsed() < Duration::from_secs(2), "its children hold the lock");
    }
    assert_eq!(host.poll_step(), (LongStepState::Over, None));
}

/// `systemd-run` returns once the unit is active; the runner is scheduled later.
const LATE_UNIT: (&str, &str) = (
    "systemd-run",
    "while [ \"$1\" != /bin/sh ]; do shift; done; (sleep 0.7; exec \"$@\") >/dev/null 2>&1 & echo $! >\"${0%/*}/../main\"",
);
const ALIVE: (&str, &str) = (
    "systemctl",
    "read -r p <\"${0%/*}/../main\" && if kill -0 \"$p\" 2>/dev/null; then echo active; else echo inactive; fi",
);

#[test]
fn unit_with_a_late_runner_counts_as_running() {
    let host = SlowHost::new(true, &[LATE_UNIT, ALIVE]);
    host.start_step_successfully("exit 5");
    assert_eq!(host.poll_step(), (LongStepState::Running, None));
    assert_eq!(host.wait_for_status(), 5);
}

#[test]
fn systemctl_failure_leaves_the_step_state_unknown() {
    let host = SlowHost::new(true, &[LATE_UNIT, ("systemctl", "echo 'Failed to connect to bus' >&2; exit 1")]);
    host.start_step_successfully("exit 6");
    assert_eq!(host.poll_step(), (LongStepState::Unknown, None));
    fs_err::create_dir(host.path("transient")).unwrap();
    fs_err::write(host.path(&format!("transient/{UNIT}.service")), "").unwrap();
    assert_eq!(host.request_lock(), HELD_BY_STEP);
    assert_eq!(host.wait_for_status(), 6);
}

/// systemd-run stops waiting while its job is queued, and the unit starts anyway.
#[test]
fn unit_that_starts_late_is_not_reported_as_failed() {
    let late = format!("{}\nexit 1", LATE_UNIT.1);
    let host = SlowHost::new(true, &[("systemd-run", &late), ALIVE]);
    host.start_step_successfully("exit 7");
    assert_eq!(host.wait_for_status(), 7);
    let host =
        SlowHost::new(true, &[("systemd-run", "echo 'no such property' >&2; exit 1"), ("systemctl", "echo inactive")]);
    let done = host.start_step("exit 8");
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(1), "no such property\n"));
    assert!(!std::path::Path::new(&host.path(&format!("run/{UNIT}"))).exists());
}
