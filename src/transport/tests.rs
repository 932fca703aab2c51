//! End-to-end tests on this machine: local and command carriers, lock, long steps.

use super::*;
use crate::model::{HostName, SecretStore};
use crate::script::{ScriptToken, ShellFragment, ShellScript};
use std::time::Duration;

fn build_script(code: &'static str) -> ShellScript {
    ShellScript {
        body: ShellFragment::new().code(code),
        token: ScriptToken::new("tok"),
        limit: Duration::from_secs(20),
    }
}

/// A target with its own lock and folders.
fn local_target(folder: &tempfile::TempDir) -> ConnectionTarget {
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    ConnectionTarget {
        kind: ConnectionKind::Local,
        paths: HostPaths { lock: at("lock/forge"), run: at("run"), log: at("log") },
        ..ConnectionTarget::default()
    }
}

/// Waits for other tests that take a host's lock, where systemd runs: units belong to the machine, whatever folder a
/// test uses, so a long step of one test would keep the others from taking their lock.
fn lock_test_host() -> Option<std::fs::File> {
    std::path::Path::new("/run/systemd/system").is_dir().then(|| {
        let name = format!("forge-transport-tests-{}.lock", rustix::process::getuid().as_raw());
        let file = fs_err::File::create(std::env::temp_dir().join(name)).unwrap().into_file();
        file.lock().unwrap();
        file
    })
}

async fn open_test_session(target: &ConnectionTarget) -> TransportSession {
    open_session(&HostName::new("here"), target, &SecretStore::default()).await.unwrap()
}

async fn run_code(target: &ConnectionTarget, code: &'static str) -> Result<ScriptOutput, TransportError> {
    open_test_session(target).await.run_script(&build_script(code), &SecretStore::default(), None).await
}

fn lock_owner(run: &str) -> LockOwner {
    LockOwner {
        run: run.into(),
        user: "me".into(),
        controller: "c1".into(),
        pid: 1,
        process: None,
        since: "now".into(),
        what: "forge apply".into(),
    }
}

fn carrier_targets(folder: &tempfile::TempDir) -> [ConnectionTarget; 2] {
    let command = ConnectionKind::Command(vec!["env".into(), "sh".into()]);
    [local_target(folder), ConnectionTarget { kind: command, ..local_target(folder) }]
}

#[tokio::test]
async fn output_and_status_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    for target in carrier_targets(&folder) {
        let done = run_code(&target, r"printf 'a\001\000\377'; printf err >&2; exit 7").await.unwrap();
        assert_eq!(
            done,
            ScriptOutput { status: 7, stdout: b"a\x01\0\xff".to_vec(), stderr: b"err".to_vec(), dropped: 0 }
        );
    }
}

#[tokio::test]
async fn script_of_5_mb_is_transferred_completely() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    for target in carrier_targets(&folder) {
        let body = ShellFragment::new().code("printf %s").data(bytes.clone()).code(" | base64 -d | sha256sum");
        let script = ShellScript { body, ..build_script("") };
        let done = open_test_session(&target).await.run_script(&script, &SecretStore::default(), None).await.unwrap();
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&bytes);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(String::from_utf8(done.stdout).unwrap(), format!("{hex}  -\n"));
    }
}

#[tokio::test]
async fn background_process_holding_stdout_does_not_block_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let started = std::time::Instant::now();
    let done = run_code(&local_target(&folder), "sleep 30 & echo started").await.unwrap();
    assert_eq!(done.stdout, b"started\n");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn endless_script_times_out() {
    let folder = tempfile::tempdir().unwrap();
    let slow = ShellScript { limit: Duration::from_millis(300), ..build_script("sleep 30") };
    let error = open_test_session(&local_target(&folder))
        .await
        .run_script(&slow, &SecretStore::default(), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::Timeout);
    assert_eq!(error.message, "the script timed out after 0.3 s");
    assert!(error.sent_anything && !error.retryable);
}

#[tokio::test]
async fn killed_wrapper_is_an_error_not_an_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let error = run_code(&local_target(&folder), "echo why >&2; kill -9 $PPID; sleep 1").await.unwrap_err();
    assert_eq!((error.kind, error.sent_anything), (TransportErrorKind::Killed, true));
    let done = run_code(&local_target(&folder), "kill -9 $$").await.unwrap();
    assert_eq!(done.status, 137);
}

#[tokio::test]
async fn program_that_opens_no_shell_is_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let with = |argv: &[&str]| ConnectionTarget {
        kind: ConnectionKind::Command(argv.iter().map(|a| (*a).into()).collect()),
        ..local_target(&folder)
    };
    let error = run_code(&with(&["/nonexistent/x"]), "true").await.unwrap_err();
    assert_eq!(error.message, "cannot run `/nonexistent/x`: No such file or directory (os error 2)");
    let error = run_code(&with(&["sh", "-c", "echo no such container >&2"]), "true").await.unwrap_err();
    assert_eq!((error.kind, error.sent_anything), (TransportErrorKind::Shell, false));
    assert_eq!(error.said.unwrap().raw(), "no such container");
    // `nologin` ends without a shell, after the script was sent.
    let nologin = with(&["sh", "-c", "sleep 1; echo this account is not available; exit 1"]);
    let error = run_code(&nologin, "true").await.unwrap_err();
    assert_eq!((error.kind, error.sent_anything), (TransportErrorKind::Shell, false));
}

#[tokio::test]
async fn lock_is_held_by_one_writer_at_a_time() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let reader = HostReader::new(open_test_session(&local_target(&folder)).await);
    let first = reader.acquire_lock(&lock_owner("r1"), None).await.unwrap();
    let other = HostReader::new(open_test_session(&local_target(&folder)).await);
    match other.acquire_lock(&lock_owner("r2"), None).await {
        Err(LockError::Held { owner: text }) => assert_eq!(text.raw(), lock_owner("r1").to_text().trim_end()),
        other => panic!("the lock was given twice: {:?}", other.err()),
    }
    assert_eq!(
        first.run_acting_script(&build_script("echo did"), &SecretStore::default(), None).await.unwrap().stdout,
        b"did\n"
    );
    first.release_lock().await;
    assert!(other.acquire_lock(&lock_owner("r2"), None).await.is_ok());
}

/// Its host has not noticed yet that the run is gone.
#[tokio::test]
async fn lock_of_an_ended_local_run_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let own = ProcessMark::current_process().unwrap();
    let ended = ProcessMark::parse(&format!("{} 1", own.to_string().rsplit_once(' ').unwrap().0));
    let left = HostReader::new(open_test_session(&local_target(&folder)).await);
    let next = HostReader::new(open_test_session(&local_target(&folder)).await);
    let first = left.acquire_lock(&LockOwner { process: ended, ..lock_owner("r1") }, None).await.unwrap();
    let second = next.acquire_lock(&LockOwner { process: Some(own), ..lock_owner("r2") }, None).await.unwrap();
    let error = first.run_acting_script(&build_script("echo did"), &SecretStore::default(), None).await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::LockLost);
    assert_eq!(
        second.run_acting_script(&build_script("echo did"), &SecretStore::default(), None).await.unwrap().stdout,
        b"did\n"
    );
    match left.acquire_lock(&lock_owner("r3"), None).await {
        Err(LockError::Held { owner }) => assert!(owner.raw().starts_with("run: r2\n"), "{owner:?}"),
        other => panic!("taken from a run that lives: {:?}", other.err()),
    }
}

#[tokio::test]
async fn acting_script_does_not_run_without_the_lock() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let target = local_target(&folder);
    let reader = HostReader::new(open_test_session(&target).await);
    let writer = reader.acquire_lock(&lock_owner("r1"), None).await.unwrap();
    std::fs::write(&target.paths.lock, "somebody else\n1\n").unwrap();
    let touch = ShellFragment::new().code("touch").word(folder.path().join("touched").to_str().unwrap());
    let error = writer
        .run_acting_script(&ShellScript { body: touch, ..build_script("") }, &SecretStore::default(), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::LockLost);
    assert!(!folder.path().join("touched").exists());
}

/// The shell of the script before prints its end markers before it ends.
#[tokio::test]
async fn acting_script_waits_a_moment_for_the_one_before() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let target = local_target(&folder);
    let reader = HostReader::new(open_test_session(&target).await);
    let writer = reader.acquire_lock(&lock_owner("r1"), None).await.unwrap();
    let hold = |seconds: &str| {
        let mut flock = std::process::Command::new("flock");
        let held = flock.arg(format!("{}.act", target.paths.lock)).args(["-c", &format!("echo held; sleep {seconds}")]);
        let mut held = held.stdout(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(held.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
        held
    };
    let mut before = hold("0.5");
    let done = writer.run_acting_script(&build_script("echo did"), &SecretStore::default(), None).await.unwrap();
    assert_eq!(done.stdout, b"did\n");
    before.wait().unwrap();
    let mut before = hold("6");
    let error = writer.run_acting_script(&build_script("echo did"), &SecretStore::default(), None).await.unwrap_err();
    assert_eq!((error.kind, error.sent_anything), (TransportErrorKind::StillActing, false));
    before.wait().unwrap();
}

#[tokio::test]
async fn acting_script_that_ignores_sigterm_times_out() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let target = local_target(&folder);
    let reader = HostReader::new(open_test_session(&target).await);
    let writer = reader.acquire_lock(&lock_owner("r1"), None).await.unwrap();
    let slow = ShellScript { limit: Duration::from_secs(1), ..build_script("trap '' TERM; sleep 2") };
    let error = writer.run_acting_script(&slow, &SecretStore::default(), None).await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::Timeout);
    drop(writer);
}

#[tokio::test]
async fn stoppable_script_ends_at_its_limit() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let target = local_target(&folder);
    let reader = HostReader::new(open_test_session(&target).await);
    let writer = reader.acquire_lock(&lock_owner("r1"), None).await.unwrap();
    let slow = ShellScript { limit: Duration::from_secs(1), ..build_script("echo begun; sleep 617; echo ended") };
    let done = writer.run_stoppable_script(&slow, &SecretStore::default()).await.unwrap();
    assert_eq!((done.status, done.stdout.as_slice()), (124, &b"begun\n"[..]));
    // Nothing of it acts any more.
    let check = build_script("pgrep -fx 'sleep 617' || echo none");
    let next = writer.run_stoppable_script(&check, &SecretStore::default()).await.unwrap();
    assert_eq!(next.stdout, b"none\n");
}

#[tokio::test]
async fn symlinked_lock_file_is_refused() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let target = local_target(&folder);
    std::fs::create_dir(folder.path().join("lock")).unwrap();
    std::fs::write(folder.path().join("victim"), "precious").unwrap();
    std::os::unix::fs::symlink(folder.path().join("victim"), &target.paths.lock).unwrap();
    let reader = HostReader::new(open_test_session(&target).await);
    match reader.acquire_lock(&lock_owner("r1"), None).await {
        Err(LockError::Transport(error)) => {
            assert_eq!(error.kind, TransportErrorKind::LockForeign);
            let what = "on the host is not a regular file of the user that forge runs as";
            assert!(error.message.ends_with(what), "{error}");
        }
        _ => panic!("a link was taken for a lock"),
    }
    assert_eq!(std::fs::read(folder.path().join("victim")).unwrap(), b"precious");
}

#[tokio::test]
async fn hanging_device_probe_does_not_affect_other_facts() {
    use crate::probe::{FactSnippet, Probe, ProbeReading, compile_probes};
    let folder = tempfile::tempdir().unwrap();
    let snippet =
        |name, snippet, device| FactSnippet { name, snippet, timeout_s: 1, device, quick: false, builtin: false };
    let facts = [
        snippet("quick", "echo here", false),
        snippet("first", "echo there", true),
        snippet("second", "trap '' TERM; sleep 20 & wait; sleep 20", true),
    ];
    let probes = facts.iter().map(|fact| Probe::Fact { name: fact.name.into() }).collect();
    let asked = compile_probes(&probes, &facts, random_token().unwrap(), None);
    let reader = HostReader::new(open_test_session(&local_target(&folder)).await);
    let seen = reader.observe_host(&asked, &SecretStore::default()).await.unwrap();
    let said = |name: &str| match seen.get(&Probe::Fact { name: name.into() }) {
        Ok(ProbeReading::Output(output)) => Ok(output.stdout.raw().to_owned()),
        Ok(_) => panic!("another reading"),
        Err(unknown) => Err(unknown.why),
    };
    assert_eq!(said("quick"), Ok("here\n".to_owned()));
    assert_eq!(said("first"), Ok("there\n".to_owned()));
    assert_eq!(said("second"), Err("timed out after 1 s".to_owned()));
}

fn build_long_step(code: &'static str, step: &str) -> LongStep {
    LongStep {
        unit: UnitName::new("r1", &crate::model::StepId::new("test", step)),
        body: ShellFragment::new().code(code),
        token: ScriptToken::new("tok"),
        limit: Duration::from_secs(20),
    }
}

/// Follows a step; returns its log and how it ended.
async fn follow_to_end(
    reader: &HostReader,
    unit: &UnitName,
    from: u64,
) -> (Vec<u8>, Result<LongStepEnd, TransportError>) {
    let mut heard = Vec::new();
    let mut sink = |_: u64, bytes: &[u8]| heard.extend_from_slice(bytes);
    let end = reader.follow_long_step(unit, from, &SecretStore::default(), &mut sink).await;
    (heard, end)
}

#[tokio::test]
async fn a_long_step_outlives_its_writer() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let target = local_target(&folder);
    let writer = HostReader::new(open_test_session(&target).await).acquire_lock(&lock_owner("r1"), None).await.unwrap();
    let mut secrets = SecretStore::default();
    let placeholder = secrets.insert("p", "hunter2".to_owned().into());
    let mut step = build_long_step("echo one; sleep 4; echo two >&2; return 3", "sleep");
    step.body = ShellFragment::new().code(":").word(placeholder.0).code("\n").append_fragment(step.body);
    assert_eq!(writer.start_long_step(&step, &secrets).await.unwrap(), LongStepStart::New);
    assert_eq!(writer.start_long_step(&step, &secrets).await.unwrap(), LongStepStart::Already);
    let kept = folder.path().join("run").join(step.unit.as_str());
    drop(writer);

    let reader = HostReader::new(open_test_session(&target).await);
    for _ in 0..20 {
        match reader.acquire_lock(&lock_owner("r2"), None).await {
            Err(LockError::Units { units }) => {
                assert_eq!(units, [step.unit.as_str().into()]);
                break;
            }
            Err(LockError::Held { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
            other => panic!("a running long step is a holder: {:?}", other.err()),
        }
    }
    let mut writer = reader.acquire_lock(&lock_owner("r2"), Some(&step.unit)).await.unwrap();
    let (heard, end) = follow_to_end(&reader, &step.unit, 2).await;
    assert_eq!((heard.as_slice(), end.unwrap()), (&b"e\ntwo\n"[..], LongStepEnd { status: 3, log_size: 8 }));
    assert!(!kept.join("script").exists(), "the script with its secret is gone");
    writer.reacquire_lock(None).await.unwrap();
    writer.forget_long_step(&step.unit, &ScriptToken::new("tok"), &secrets).await.unwrap();
    assert!(!kept.exists());
}

#[tokio::test]
async fn long_step_without_a_result_is_an_error() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let target = local_target(&folder);
    let writer = HostReader::new(open_test_session(&target).await).acquire_lock(&lock_owner("r1"), None).await.unwrap();
    let step = build_long_step("echo dying; kill -9 $(cat \"${0%/*}/pid\"); sleep 5", "dies");
    writer.start_long_step(&step, &SecretStore::default()).await.unwrap();
    let (heard, end) = follow_to_end(writer.reader(), &step.unit, 0).await;
    assert_eq!(heard, b"dying\n");
    let error = end.unwrap_err();
    assert_eq!((error.kind, error.retryable), (TransportErrorKind::LongGone, false));
    assert_eq!(error.message, format!("the unit `{}` ended without a result", step.unit));
}

#[tokio::test]
async fn long_step_is_stopped_at_its_timeout() {
    let _alone = lock_test_host();
    let folder = tempfile::tempdir().unwrap();
    let writer = HostReader::new(open_test_session(&local_target(&folder)).await)
        .acquire_lock(&lock_owner("r1"), None)
        .await
        .unwrap();
    let step = LongStep { limit: Duration::from_secs(1), ..build_long_step("sleep 60", "slow") };
    writer.start_long_step(&step, &SecretStore::default()).await.unwrap();
    let (_, end) = follow_to_end(writer.reader(), &step.unit, 0).await;
    assert_eq!(end.unwrap().status, 124);
}
