//! The transport against real sshd and sudo: logins, sudo, dropped links, the writer lock, long steps.

use crate::support::{Fleet, Node, PASSWORD};
use camino::Utf8PathBuf;
use forge::model::{HostName, SecretStore, StepId};
use forge::script::{ScriptToken, ShellFragment, ShellScript};
use forge::transport::{
    ConnectionSudo, ConnectionTarget, HostKeyCheck, HostReader, LockError, LockOwner, LongStep, LongStepStart,
    ScriptOutput, TransportError, TransportErrorKind, TransportSession, UnitName, open_session,
};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn utf8(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.to_owned()).unwrap()
}

/// Returns a target that connects to `node` as `user`, with its own folder for sockets.
fn target(node: &Node, user: &str, folder: &tempfile::TempDir) -> ConnectionTarget {
    let fleet = Fleet::require().unwrap();
    ConnectionTarget {
        address: node.address.clone(),
        user: Some(user.into()),
        identity: Some(utf8(&fleet.key)),
        known_hosts: Some(utf8(&fleet.known_hosts)),
        config: Some("/dev/null".into()),
        control_dir: utf8(&folder.path().join("c")),
        ..ConnectionTarget::default()
    }
}

fn script(body: ShellFragment) -> ShellScript {
    ShellScript { body, token: ScriptToken::new("tok"), limit: Duration::from_secs(60) }
}

fn code(code: &'static str) -> ShellScript {
    script(ShellFragment::new().code(code))
}

async fn connect(target: &ConnectionTarget) -> Result<TransportSession, TransportError> {
    open_session(&HostName::new("h"), target, &SecretStore::default()).await
}

async fn run(session: &TransportSession, text: &'static str) -> Result<ScriptOutput, TransportError> {
    session.run_script(&code(text), &SecretStore::default(), None).await
}

/// Connects, runs and returns stdout.
async fn output(target: &ConnectionTarget, text: &'static str) -> Result<String, TransportError> {
    Ok(String::from_utf8(run(&connect(target).await?, text).await?.stdout).unwrap())
}

fn owner(run: &str) -> LockOwner {
    LockOwner {
        run: run.into(),
        user: "me".into(),
        controller: "c1".into(),
        pid: std::process::id(),
        process: None,
        since: "now".into(),
        what: "forge apply".into(),
    }
}

fn local(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

fn refused(result: Result<TransportSession, TransportError>) -> TransportError {
    match result {
        Ok(_) => panic!("connected"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_keys_are_checked() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = nodes[0].address.as_str();
    let known = folder.path().join("known hosts");
    let mut target = ConnectionTarget { known_hosts: Some(utf8(&known)), ..target(&nodes[0], "root", &folder) };

    let error = refused(connect(&target).await);
    assert_eq!(error.kind, TransportErrorKind::HostKeyUnknown, "{error:?}");
    assert_eq!(error.message, format!("unknown host key of `{address}`"));
    let command = format!("ssh-keyscan {address} >> '{}'", known.display());
    assert_eq!(
        error.hint.unwrap(),
        format!("verify its fingerprint and add it with `{command}`, or set `host_key: accept_new`")
    );
    assert!(!known.exists(), "a refused key was saved");
    local("sh", &["-c", &command]);
    assert_eq!(output(&target, "id -un").await.unwrap(), "root\n");

    std::fs::remove_file(&known).unwrap();
    target.host_key = HostKeyCheck::AcceptNew;
    assert_eq!(output(&target, "id -un").await.unwrap(), "root\n");
    target.host_key = HostKeyCheck::Strict;
    assert_eq!(output(&target, "id -un").await.unwrap(), "root\n");

    local("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", folder.path().join("other").to_str().unwrap()]);
    let other = std::fs::read_to_string(folder.path().join("other.pub")).unwrap();
    std::fs::write(&known, format!("# one\n{address} {other}")).unwrap();
    for policy in [HostKeyCheck::Strict, HostKeyCheck::AcceptNew] {
        target.host_key = policy;
        let error = refused(connect(&target).await);
        assert_eq!(error.kind, TransportErrorKind::HostKeyChanged, "{error:?}");
        let known = known.display();
        assert_eq!(
            error.message,
            format!("the host key of `{address}` has changed: line 2 of `{known}` has a different key")
        );
        assert!(error.hint.unwrap().contains(&format!("`ssh-keygen -f '{known}' -R {address}`")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_failures_have_distinct_error_kinds() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let right = target(&nodes[0], "root", &folder);
    let with = |name: &str| ConnectionTarget { identity: Some(utf8(&folder.path().join(name))), ..right.clone() };
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();

    local("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path("other")]);
    let error = refused(connect(&with("other")).await);
    assert_eq!(
        (error.kind, error.retryable, error.sent_anything),
        (TransportErrorKind::Auth, false, false),
        "{error:?}"
    );
    assert_eq!(error.message, "the host accepted no key of `root`");

    local("cp", &[right.identity.as_ref().unwrap().as_str(), &path("locked")]);
    local("ssh-keygen", &["-q", "-p", "-P", "", "-N", "secret", "-f", &path("locked")]);
    let error = refused(connect(&with("locked")).await);
    assert_eq!(error.kind, TransportErrorKind::KeyLocked, "{error:?}");
    assert_eq!(error.message, format!("the key `{}` is protected by a passphrase", path("locked")));
    assert_eq!(error.hint.unwrap(), format!("add it to the ssh agent with `ssh-add {}`", path("locked")));

    let error = refused(connect(&with("missing")).await);
    assert_eq!(error.kind, TransportErrorKind::Auth);
    assert!(error.message.starts_with(&format!("the key `{}` cannot be read", path("missing"))), "{error}");

    local("cp", &[right.identity.as_ref().unwrap().as_str(), &path("open")]);
    local("chmod", &["644", &path("open")]);
    let error = refused(connect(&with("open")).await);
    assert_eq!(error.message, format!("ssh ignores the key `{}`: other users can read it", path("open")));

    let error = refused(connect(&ConnectionTarget { port: Some(2), ..right.clone() }).await);
    assert_eq!((error.kind, error.retryable), (TransportErrorKind::Refused, true), "{error:?}");
    let error = refused(connect(&ConnectionTarget { address: "no.such.host.invalid".into(), ..right.clone() }).await);
    assert_eq!(error.kind, TransportErrorKind::Dns, "{error:?}");
    let error = refused(connect(&ConnectionTarget { address: "-oProxyCommand=touch x".into(), ..right.clone() }).await);
    assert_eq!(error.kind, TransportErrorKind::SshConfig, "{error:?}");

    nodes[0].must("usermod -s /usr/sbin/nologin plain");
    let error = output(&target(&nodes[0], "plain", &folder), "true").await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::Shell, "{error:?}");
    assert_eq!(error.message, "no shell started for `plain`");
    assert!(!error.sent_anything, "nothing read the script");
    assert_eq!(error.said.unwrap().raw(), "This account is currently not available.");

    nodes[0].link(false);
    let started = Instant::now();
    let config = folder.path().join("config");
    std::fs::write(&config, "ConnectTimeout 1\n").unwrap();
    let own = ConnectionTarget { config: Some(utf8(&config)), ..right };
    // The inventory takes precedence over the user's configuration, which takes precedence over the default.
    for (target, seconds) in [(ConnectionTarget { timeout: Duration::from_secs(2), ..own.clone() }, 2), (own, 1)] {
        let error = refused(connect(&target).await);
        assert_eq!(error.kind, TransportErrorKind::ConnectTimeout, "{error:?}");
        assert_eq!(error.message, format!("`{}` did not answer within {seconds} s", nodes[0].address));
    }
    assert!(started.elapsed() < Duration::from_secs(6));
    nodes[0].link(true);
}

#[tokio::test(flavor = "multi_thread")]
async fn jump_hosts_are_used_and_their_failures_named() {
    let Some(nodes) = Fleet::take(3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (format!("root@{}:22", nodes[0].address), format!("root@{}", nodes[1].address));
    let base = target(&nodes[2], "root", &folder);
    let through =
        |jump: &[&String]| ConnectionTarget { jump: jump.iter().map(|j| (*j).clone()).collect(), ..base.clone() };

    let seen = output(&through(&[&first, &second]), "echo $SSH_CONNECTION; hostname").await.unwrap();
    assert!(
        seen.starts_with(&format!("{} ", nodes[1].address)) && seen.ends_with(&format!("{}\n", nodes[2].name)),
        "{seen}"
    );

    let nobody = format!("nobody-here@{}", nodes[0].address);
    let error = refused(connect(&through(&[&nobody])).await);
    assert_eq!(error.kind, TransportErrorKind::Jump, "{error:?}");
    let failed = format!("the connection through jump host `{nobody}` failed: ");
    assert!(error.message.starts_with(&failed), "{error}");

    let closed = format!("root@{}:2", nodes[0].address);
    let error = refused(connect(&through(&[&closed])).await);
    assert_eq!((error.kind, error.retryable), (TransportErrorKind::Jump, true), "{error:?}");

    let error = refused(connect(&ConnectionTarget { port: Some(2), ..through(&[&first]) }).await);
    assert_eq!(error.kind, TransportErrorKind::Jump, "{error:?}");

    let known = folder.path().join("known");
    let line = format!("^{} ", nodes[0].address);
    let all = std::fs::read_to_string(base.known_hosts.as_ref().unwrap()).unwrap();
    let without: String =
        all.lines().filter(|l| !l.contains(nodes[0].address.as_str())).map(|l| format!("{l}\n")).collect();
    std::fs::write(&known, without).unwrap();
    let error = refused(connect(&ConnectionTarget { known_hosts: Some(utf8(&known)), ..through(&[&first]) }).await);
    assert_eq!(error.kind, TransportErrorKind::Jump, "{line} {error:?}");
    assert!(error.message.contains("failed: unknown host key of `"), "{error}");
}

fn with_password(password: &str) -> (SecretStore, ConnectionSudo) {
    let mut secrets = SecretStore::default();
    let placeholder = secrets.insert("sudo", password.to_owned().into());
    (secrets, ConnectionSudo::Password(placeholder.0))
}

#[tokio::test(flavor = "multi_thread")]
async fn sudo_runs_scripts_as_root_or_reports_the_cause() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = HostName::new("h");
    let as_user = |user: &str, sudo: ConnectionSudo| ConnectionTarget { sudo, ..target(&nodes[0], user, &folder) };
    let none = SecretStore::default();

    assert_eq!(
        output(&as_user("deploy", ConnectionSudo::NoPassword), "id -un; echo $HOME").await.unwrap(),
        "root\n/root\n"
    );
    assert_eq!(output(&as_user("deploy", ConnectionSudo::None), "id -un").await.unwrap(), "deploy\n");

    let (secrets, sudo) = with_password(PASSWORD);
    let session = open_session(&host, &as_user("admin", sudo.clone()), &secrets).await.unwrap();
    // The password is not in any process's arguments or environment while a script runs.
    let look = "id -un; cat >/dev/null; for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do \
                tr '\\0' ' ' <$f 2>/dev/null | grep -l 'correct[ ]horse' ; done";
    let done = session.run_script(&code(look), &secrets, None).await.unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "root\n");
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "", "sudo's prompt or lecture is in the script's output");

    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let large = script(ShellFragment::new().code("printf %s").data(bytes.clone()).code(" | base64 -d; exit 5"));
    let mut heard = Vec::new();
    let mut sink = |chunk: forge::transport::OutputChunk<'_>| {
        if let forge::transport::OutputChunk::Stdout(bytes) = chunk {
            heard.extend_from_slice(bytes);
        }
    };
    let done = session.run_script(&large, &secrets, Some(&mut sink)).await.unwrap();
    assert_eq!((done.status, heard == bytes), (5, true));
    assert_eq!(done.dropped as usize + done.stdout.len(), bytes.len());

    nodes[0].must("echo 'Defaults:deploy requiretty' >/etc/sudoers.d/zz; chmod 440 /etc/sudoers.d/zz");
    let (wrong, wrong_sudo) = with_password("wrong");
    let cases = [
        (
            as_user("admin", wrong_sudo.clone()),
            &wrong,
            TransportErrorKind::SudoPassword,
            "sudo refused the password for `admin`",
        ),
        (
            as_user("admin", ConnectionSudo::NoPassword),
            &none,
            TransportErrorKind::SudoNeedsPassword,
            "sudo requires a password for `admin`",
        ),
        (
            as_user("deploy", ConnectionSudo::NoPassword),
            &none,
            TransportErrorKind::SudoDenied,
            "sudo requires a terminal for `deploy`",
        ),
    ];
    for (target, secrets, kind, message) in cases {
        let error = open_session(&host, &target, secrets)
            .await
            .unwrap()
            .run_script(&code("id"), secrets, None)
            .await
            .unwrap_err();
        assert_eq!((error.kind, error.message.as_str(), error.sent_anything), (kind, message, false), "{error:?}");
    }

    let session = open_session(&host, &as_user("admin", wrong_sudo.clone()), &wrong).await.unwrap();
    nodes[0].must("journalctl --rotate -q; journalctl --vacuum-time=1s -q; sleep 1");
    let id = code("id");
    let both = tokio::join!(session.run_script(&id, &wrong, None), session.run_script(&id, &wrong, None));
    assert!(both.0.is_err_and(|e| e.kind == TransportErrorKind::SudoPassword) && both.1.is_err());
    let failures =
        nodes[0].must("sleep 1; journalctl -q --no-pager | grep -c 'sudo:auth.*authentication failure'; true");
    assert_eq!(failures, "1", "a wrong password is tried only once");

    nodes[0].must("echo 'plain:correct horse' | chpasswd");
    let (secrets, sudo) = with_password(PASSWORD);
    let plain = open_session(&host, &as_user("plain", sudo.clone()), &secrets).await.unwrap();
    let error = plain.run_script(&code("id"), &secrets, None).await.unwrap_err();
    assert_eq!(error.message, "sudo does not allow `plain` to become root", "{error:?}");

    let (secrets, sudo) = with_password(PASSWORD);
    let reader = HostReader::new(open_session(&host, &as_user("admin", sudo), &secrets).await.unwrap());
    let writer = reader.acquire_lock(&owner("r1"), None).await.unwrap();
    let done = writer.run_acting_script(&code("id -un"), &secrets, None).await.unwrap();
    assert_eq!(done.stdout, b"root\n");
    writer.release_lock().await;
    nodes[0].sh("flock -n /run/lock/forge true").must_exit(0);

    nodes[0].must("mv /usr/bin/sudo /usr/bin/sudo.gone");
    let error = output(&as_user("deploy", ConnectionSudo::NoPassword), "id").await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (TransportErrorKind::SudoMissing, "the host has no working sudo"));
}

#[tokio::test(flavor = "multi_thread")]
async fn login_shell_noise_and_path_do_not_affect_scripts() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    nodes[0].must("for h in /root /home/deploy; do printf 'echo welcome; echo warning >&2\\n' >$h/.bashrc; done; \
                   sed -i 's/^UsePAM.*/UsePAM yes\\nBanner \\/etc\\/issue.net/' /etc/ssh/sshd_config; systemctl reload ssh; sleep 0.5");
    // A world-writable folder in the login's PATH: forge runs nothing from it, above all not as root.
    nodes[0].must("mkdir /srv/planted; for p in sh cat sed env sudo flock id stat; do \
                   printf '#!/bin/sh\\necho \"$0\" >>/srv/planted/ran\\n' >/srv/planted/$p; done; chmod -R 777 /srv/planted; \
                   for h in /root /home/deploy; do echo 'PATH=/srv/planted:$PATH' >>$h/.bashrc; done");
    for (user, sudo) in [("root", ConnectionSudo::None), ("deploy", ConnectionSudo::NoPassword)] {
        let session = connect(&ConnectionTarget { sudo, ..target(&nodes[0], user, &folder) }).await.unwrap();
        let done = run(&session, "printf out; printf err >&2").await.unwrap();
        assert_eq!((done.stdout.as_slice(), done.stderr.as_slice()), (&b"out"[..], &b"err"[..]), "{user}");
        let writer = HostReader::new(session).acquire_lock(&owner("r1"), None).await.unwrap();
        let done = writer.run_acting_script(&code("id -un"), &SecretStore::default(), None).await.unwrap();
        assert_eq!(done.stdout, b"root\n", "{user}");
        writer.release_lock().await;
    }
    assert!(!nodes[0].exists("/srv/planted/ran"), "{}", nodes[0].must("cat /srv/planted/ran"));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_scripts_share_at_most_four_channels() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let session = connect(&target(&nodes[0], "root", &folder)).await.unwrap();
    let most = "echo 1 >/tmp/n.$$; ls /tmp/n.* | wc -l; sleep 0.2; rm /tmp/n.$$; head -c 100000 /dev/zero";
    let all = futures_util::future::join_all((0..12).map(|_| run(&session, most))).await;
    for done in all {
        let done = done.unwrap();
        assert!((1..=4).contains(&(done.stdout[0] - b'0')));
        assert_eq!(done.stdout.len(), 100_002);
    }
    session.close().await;
    assert_eq!(std::fs::read_dir(folder.path().join("c")).unwrap().count(), 0, "a socket is left");
}

/// Kills the sshd that serves logins, but not the listener.
/// OpenSSH names the process of a connection `sshd`, since 9.8 `sshd-session`.
const CUT: &str = "pkill -KILL -f '^sshd(-session)?: (root|admin)' ; true";

/// Cuts all connections of a node when this file exists there. Other futures of the task go on between the looks.
async fn cut_at(node: &Node, path: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while !node.exists(path) {
        assert!(Instant::now() < end, "{path} does not exist after 60 s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.must(CUT);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_connection_is_not_reported_as_script_failure() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let session = connect(&target(&nodes[0], "root", &folder)).await.unwrap();
    let slow = run(&session, "touch /tmp/begun; sleep 20; echo ended");
    let cut = cut_at(&nodes[0], "/tmp/begun");
    let (result, ()) = tokio::join!(slow, cut);
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind, error.retryable, error.sent_anything),
        (TransportErrorKind::LinkLost, true, true),
        "{error:?}"
    );
    assert_eq!(error.message, "the connection to the host was lost");
    assert_eq!(run(&session, "echo again").await.unwrap().stdout, b"again\n");
    assert_eq!(session.generation(), 2);

    assert_eq!(run(&session, "kill -9 $$").await.unwrap().status, 137);
    let error = run(&session, "kill -9 $PPID; sleep 1").await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::Killed, "{error:?}");
    assert_eq!(run(&session, "exit 127").await.unwrap().status, 127);
    assert_eq!(run(&session, "exit 255").await.unwrap().status, 255);

    nodes[0].must(CUT);
    assert_eq!(
        run(&session, "echo third").await.unwrap().stdout,
        b"third\n",
        "a script was sent on the dead connection"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn observation_survives_a_dropped_connection() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let reader = HostReader::new(connect(&target(&nodes[0], "root", &folder)).await.unwrap());
    let probe = forge::probe::Probe::Check(Box::new(forge::probe::CheckProbe {
        id: "slow".into(),
        script: "touch /tmp/begun; sleep 2; echo seen".into(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(20),
    }));
    let asked =
        forge::probe::compile_probes(&[probe.clone()].into(), &[], forge::transport::random_token().unwrap(), None);
    let cut = cut_at(&nodes[0], "/tmp/begun");
    let secrets = SecretStore::default();
    let (seen, ()) = tokio::join!(reader.observe_host(&asked, &secrets), cut);
    assert!(seen.unwrap().get(&probe).is_ok());
    assert_eq!(reader.session().generation(), 2);
}

/// Not a test: takes the lock and waits to be killed. The next test starts it.
#[tokio::test(flavor = "multi_thread")]
async fn helper_that_holds_the_lock() {
    let Ok(parts) = std::env::var("FORGE_TEST_HOLD") else { return };
    let [address, key, known, dir] = parts.split(' ').collect::<Vec<_>>()[..] else { panic!("{parts}") };
    let target = ConnectionTarget {
        address: address.into(),
        user: Some("root".into()),
        identity: Some(key.into()),
        known_hosts: Some(known.into()),
        config: Some("/dev/null".into()),
        control_dir: dir.into(),
        ..ConnectionTarget::default()
    };
    let reader = HostReader::new(connect(&target).await.unwrap());
    let writer = reader.acquire_lock(&owner("killed"), None).await.unwrap();
    writer
        .run_acting_script(
            &code("touch /tmp/acting; sleep 3; touch /tmp/acted; sleep 30"),
            &SecretStore::default(),
            None,
        )
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_controller_releases_the_lock() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let target = target(&nodes[0], "root", &folder);
    let parts = [
        target.address.as_str(),
        target.identity.as_ref().unwrap().as_str(),
        target.known_hosts.as_ref().unwrap().as_str(),
        target.control_dir.as_str(),
    ];
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "transport::helper_that_holds_the_lock", "--nocapture"])
        .env("FORGE_TEST_HOLD", parts.join(" "))
        .spawn()
        .unwrap();
    let reader = HostReader::new(connect(&target).await.unwrap());
    nodes[0].until_exists("/tmp/acting");
    match reader.acquire_lock(&owner("other"), None).await {
        Err(LockError::Held { owner }) => assert!(owner.raw().starts_with("run: killed\nby: me@c1"), "{owner:?}"),
        other => panic!("{:?}", other.err()),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The lock is free, but its script is still running: no other run may write yet.
    nodes[0].until("flock -n /run/lock/forge true", 20);
    match reader.acquire_lock(&owner("other"), None).await {
        Err(LockError::Acting { owner }) => assert!(owner.raw().starts_with("run: killed\n"), "{owner:?}"),
        other => panic!("{:?}", other.err()),
    }
    nodes[0].must("pkill -x sleep; sleep 0.5; pkill -x sleep; true");
    let mut writer = reader.acquire_lock(&owner("other"), None).await;
    for _ in 0..20 {
        if writer.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        writer = reader.acquire_lock(&owner("other"), None).await;
    }
    writer.unwrap().run_acting_script(&code("true"), &SecretStore::default(), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_on_a_dead_connection_is_reacquired() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let target = target(&nodes[0], "root", &folder);
    let reader = HostReader::new(connect(&target).await.unwrap());
    let mut writer = reader.acquire_lock(&owner("r1"), None).await.unwrap();
    // The local end of the connection dies and the host does not notice.
    nodes[0].must("pkill -STOP -f '^sshd(-session)?: root'");
    local("pkill", &["-KILL", "-f", &format!("ssh -M -N -f -S {}", target.control_dir)]);
    let other = HostReader::new(connect(&target).await.unwrap());
    assert!(matches!(other.acquire_lock(&owner("r2"), None).await, Err(LockError::Held { .. })));
    let end = Instant::now() + Duration::from_secs(20);
    while !writer.is_lock_lost() {
        assert!(Instant::now() < end, "the lost connection was not noticed within 20 s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    writer.reacquire_lock(None).await.unwrap();
    writer.run_acting_script(&code("true"), &SecretStore::default(), None).await.unwrap();
    assert!(matches!(other.acquire_lock(&owner("r2"), None).await, Err(LockError::Held { .. })));
    drop(writer);
}

fn long(text: &'static str, step: &str) -> LongStep {
    LongStep {
        unit: UnitName::new("r1", &StepId::new("test", step)),
        body: ShellFragment::new().code(text),
        token: ScriptToken::new("tok"),
        limit: Duration::from_secs(60),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_step_survives_a_dropped_connection() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let target = target(&nodes[0], "root", &folder);
    let secrets = SecretStore::default();
    let reader = HostReader::new(connect(&target).await.unwrap());
    let mut writer = reader.acquire_lock(&owner("r1"), None).await.unwrap();
    let step = long(
        "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; [ $i != 9 ] || touch /tmp/begun; sleep 0.1; done; exit 9",
        "count",
    );
    assert_eq!(writer.start_long_step(&step, &secrets).await.unwrap(), LongStepStart::New);
    assert_eq!(nodes[0].must(&format!("systemctl is-active {}.service", step.unit)), "active");
    assert_eq!(nodes[0].must("stat -c %a /run/forge /var/lib/forge/log"), "700\n700");

    let mut heard = Vec::new();
    let mut sink = |_: u64, bytes: &[u8]| heard.extend_from_slice(bytes);
    let cut = cut_at(&nodes[0], "/tmp/begun");
    let (end, ()) = tokio::join!(writer.follow_long_step(&step.unit, 0, &secrets, &mut sink), cut);
    assert_eq!(end.unwrap().status, 9);
    let expected: String = (1..=30).map(|i| format!("line {i}\n")).collect();
    assert_eq!(String::from_utf8(heard).unwrap(), expected);
    writer.run_acting_script(&code("true"), &secrets, None).await.unwrap();
    assert_eq!(nodes[0].read(&format!("/var/lib/forge/log/{}.log", step.unit)), expected.as_bytes());
    writer.forget_long_step(&step.unit, &step.token, &secrets).await.unwrap();
    assert_eq!(nodes[0].must("ls /run/forge"), "");

    // The next run finds a unit that the previous run left running, and one that the host lost.
    let step = long("sleep 30", "left");
    writer.start_long_step(&step, &secrets).await.unwrap();
    writer.release_lock().await;
    match reader.acquire_lock(&owner("r2"), None).await {
        Err(LockError::Units { units }) => assert_eq!(units[0].raw(), step.unit.as_str()),
        other => panic!("{:?}", other.err()),
    }
    drop(reader.acquire_lock(&owner("r2"), Some(&step.unit)).await.unwrap());
    nodes[0].must("systemctl reboot || true");
    let error = reader.follow_long_step(&step.unit, 0, &secrets, &mut |_, _| {}).await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::LongGone, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_connection_is_reused() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let target = ConnectionTarget { keep: Duration::from_secs(20), ..target(&nodes[0], "root", &folder) };
    let pid = "ps -o ppid= $PPID";
    let session = connect(&target).await.unwrap();
    let first = run(&session, pid).await.unwrap().stdout;
    session.close().await;
    let session = connect(&target).await.unwrap();
    assert_eq!(run(&session, pid).await.unwrap().stdout, first);
    nodes[0].must(CUT);
    assert_ne!(run(&session, pid).await.unwrap().stdout, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_session_takes_less_than_twice_plain_ssh() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let target = target(&nodes[0], "root", &folder);
    let (mut floor, mut ours) = (Duration::MAX, Duration::MAX);
    // On a busy machine a measured time includes waits for a processor: the minimum of many runs is the cost.
    for _ in 0..25 {
        let started = Instant::now();
        let config = Fleet::require().unwrap().ssh_config.to_str().unwrap();
        local("ssh", &["-F", config, &nodes[0].address, "true"]);
        floor = floor.min(started.elapsed());
        let started = Instant::now();
        let session = connect(&target).await.unwrap();
        run(&session, "true").await.unwrap();
        ours = ours.min(started.elapsed());
        session.close().await;
    }
    eprintln!("floor {floor:?}, open and one script {ours:?}");
    assert!(ours < floor * 2, "floor {floor:?}, open and one script {ours:?}");
}

#[tokio::test]
async fn non_root_session_does_not_touch_the_lock() {
    let Some(nodes) = Fleet::take(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (host, secrets) = (HostName::new(&nodes[0].name), SecretStore::default());
    let session = open_session(&host, &target(&nodes[0], "plain", &folder), &secrets).await.unwrap();
    let error = match HostReader::new(session).acquire_lock(&owner("r1"), None).await {
        Err(LockError::Transport(error)) => error,
        other => panic!("{:?}", other.err()),
    };
    assert_eq!((error.kind, &*error.message), (TransportErrorKind::NotRoot, "runs as `plain`, but root is required"));
    assert_eq!(error.hint.as_deref(), Some("set `connect: { sudo: … }` or log in as root"));
    assert!(!nodes[0].exists("/run/lock/forge") && !nodes[0].exists("/run/lock/forge.act"));
}
