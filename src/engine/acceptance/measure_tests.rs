//! Measurements on hosts whose answers are given.

use super::measure::{MeasureContext, TestMeasurement};
use super::test_host::TestHost;
use crate::acceptance::TestVerdict;
use crate::config::{self, LoadOptions, Project};
use crate::engine::cancel::CancelSignal;
use crate::engine::host_session::{HostLockAttempt, HostScriptOutput, HostSession, LeftoverWork, host_side_error};
use crate::engine::read_only_session::{ReadOnlySession, SessionClosing, SessionFuture};
use crate::model::{HostName, SecretStore};
use crate::probe::{Observation, Probe, ProbeReading, RecordsState};
use crate::script::{ScriptToken, ShellFragment};
use crate::transport::{LockOwner, ScriptOutput, TransportError, TransportErrorKind};
use camino::Utf8Path;
use secrecy::ExposeSecret;
use std::collections::BTreeSet;
use std::time::Duration;

type Answer = Result<ScriptOutput, TransportError>;

/// A host that answers each script by its text.
struct AnsweringHost<F>(F);

impl<F: Fn(&str) -> Answer + Send + Sync> ReadOnlySession for AnsweringHost<F> {
    fn observe<'s>(&'s self, _: &'s BTreeSet<Probe>, _: &'s SecretStore) -> SessionFuture<'s, Observation> {
        let running = vec![("forge-test-r0-0-0-0.service".to_owned(), "Sat 09:30".into())];
        let state = RecordsState { running, ..RecordsState::default() };
        let mut observation = Observation::default();
        observation.insert(Probe::Records, Ok(ProbeReading::Records(Box::new(state))));
        Box::pin(async { Ok(observation) })
    }

    fn close(self: Box<Self>) -> SessionClosing {
        Box::pin(async {})
    }
}

impl<F: Fn(&str) -> Answer + Send + Sync> HostSession for AnsweringHost<F> {
    fn take_lock<'s>(&'s mut self, _: &'s LockOwner) -> SessionFuture<'s, HostLockAttempt> {
        Box::pin(async { Ok(HostLockAttempt::Ours) })
    }

    fn run_script<'s>(
        &'s self,
        body: ShellFragment,
        _: Duration,
        secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        let text = body.render(secrets).unwrap().expose_secret().to_owned();
        let answer = (self.0)(&text).map(|finished| HostScriptOutput { finished, token: ScriptToken::new("t") });
        Box::pin(async { answer })
    }
}

fn link_lost_error() -> TransportError {
    let message = "the connection to the host was lost".to_owned();
    TransportError { kind: TransportErrorKind::LinkLost, ..host_side_error(message) }
}

fn answer(status: i32, stdout: &str) -> Answer {
    Ok(ScriptOutput { status, stdout: stdout.into(), stderr: Vec::new(), dropped: 0 })
}

/// Two hosts, and in the set `quick` a test of one host, one of a pair, one of an adapter, and `rping`.
fn load_tests() -> Project {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    std::fs::create_dir(dir.path().join("tests")).unwrap();
    write("tests/early.yaml", "test: early\nscope: host\noutput: number\nlimit: 6s\ncommand: [sh, -c, 'echo 5']\n");
    let pair = "server: [serve, '{port}']\nclient: [ask, '{address}']\n";
    write("tests/pair.yaml", &format!("test: pair\nscope: pair\noutput: number\nparameters: {{ port: 1 }}\n{pair}"));
    write(
        "tests/loop.yaml",
        &format!("test: loop\nscope: loopback\noutput: number\nparameters: {{ port: 1 }}\n{pair}"),
    );
    let limited = ["early", "pair", "loop"].map(|test| format!("    - {{ test: {test}, on: all, least: 1 }}\n"));
    let entries = limited.concat() + "    - { test: rping, on: all, with: { count: 2 } }\n";
    write("inventory.yaml", &format!("cluster: c\nhosts:\n  n[1:2]: {{}}\ntests:\n  quick:\n{entries}"));
    let inventory = Utf8Path::from_path(dir.path()).unwrap().join("inventory.yaml");
    let options = LoadOptions { trust: true, embedded: &[], env: &|_| None, programs: config::SecretPrograms::Skip };
    let (project, diags, _) = config::load_for_tests(&inventory, &options);
    project.unwrap_or_else(|| panic!("{diags:?}"))
}

/// Measures one host, or a pair if there are two.
async fn measure(hosts: &[TestHost<'_>], cancel: &CancelSignal) -> TestVerdict {
    measure_fully(hosts, cancel).await.verdict
}

async fn measure_fully(hosts: &[TestHost<'_>], cancel: &CancelSignal) -> TestMeasurement {
    let project = load_tests();
    let test = &project.tests.sets["quick"][hosts.len() - 1];
    let context = MeasureContext { project: &project, test, run: "r", cancel, cluster: None };
    match hosts {
        [host] => context.measure_host(host, None, 0).await,
        [server, client] => context.measure_pair(server, client, None, 0).await,
        _ => panic!("one host or two"),
    }
}

/// `systemctl stop` makes `systemd-run --wait` succeed, and a program may have printed a number before.
#[tokio::test]
async fn stopped_program_is_not_measured_whatever_its_output_and_status() {
    for (status, output) in [(0, "5\n"), (0, ""), (0, "half of it"), (1, "5\n"), (143, "")] {
        let cancel = CancelSignal::default();
        let host = TestHost::answering("n1", AnsweringHost(move |_: &str| answer(status, output)));
        assert!(status != 0 || output != "5\n" || measure(&[host], &cancel).await.value() == Some(5.0));
        let stop = cancel.clone();
        let stopped = move |_: &str| {
            stop.raise_level();
            answer(status, output)
        };
        let host = TestHost::answering("n1", AnsweringHost(stopped));
        assert_eq!(measure(&[host], &cancel).await, TestVerdict::not_measured("stopped"), "{status} {output:?}");
    }
}

#[tokio::test]
async fn pair_is_stopped_with_its_client_and_while_its_server_starts() {
    for (stopped_script, status) in [("'ask'", 0), ("'serve'", 124)] {
        let cancel = CancelSignal::default();
        let build = |name| {
            let stop = cancel.clone();
            TestHost::answering(
                name,
                AnsweringHost(move |text: &str| match text.contains(stopped_script) {
                    true => {
                        stop.raise_level();
                        answer(status, "5\n")
                    }
                    false => answer(0, ""),
                }),
            )
        };
        let verdict = measure(&[build("n1"), build("n2")], &cancel).await;
        assert_eq!(verdict, TestVerdict::not_measured("stopped"), "{stopped_script}");
    }
}

/// The program ended before the request: its value counts.
#[tokio::test]
async fn result_from_before_a_stop_request_counts() {
    let cancel = CancelSignal::default();
    let client = TestHost::answering("n2", AnsweringHost(|_: &str| answer(0, "5\n")));
    let stop = cancel.clone();
    let server = TestHost::answering(
        "n1",
        AnsweringHost(move |text: &str| {
            if !text.contains("'serve'") {
                stop.raise_level();
            }
            answer(0, "")
        }),
    );
    assert_eq!(measure(&[server, client], &cancel).await.value(), Some(5.0));
}

/// `systemd-run --wait` exits 1 for a unit that its limit stopped, like for a program that fails with 1.
#[tokio::test]
async fn limit_that_stopped_a_program_is_named() {
    let limit = "the limit of 6 s stopped the program";
    let ends = [
        ("timeout TERM\n", limit),
        ("timeout\n", limit),
        ("exit-code 1\n", "exit status 1: printed"),
        ("signal KILL\n", "ended by signal KILL"),
        ("", "exit status 1: printed"),
    ];
    for (result, why) in ends {
        let host = TestHost::answering(
            "n1",
            AnsweringHost(move |text: &str| match text.contains("systemd-run") {
                true => answer(1, "printed\n"),
                false => answer(0, result),
            }),
        );
        let cancel = CancelSignal::default();
        assert_eq!(measure(&[host], &cancel).await, TestVerdict::not_measured(why), "{result:?}");
    }
}

/// A program may print a password that its recipe wrote to a file.
#[tokio::test]
async fn secrets_that_a_program_prints_are_replaced() {
    let mut project = load_tests();
    project.secrets.insert("token", "hunter2-hunter2".into());
    let cancel = CancelSignal::default();
    let context = MeasureContext {
        project: &project,
        test: &project.tests.sets["quick"][0],
        run: "r",
        cancel: &cancel,
        cluster: None,
    };
    let host = AnsweringHost(|text: &str| {
        let status = i32::from(text.contains("systemd-run"));
        let stderr = b"login with hunter2-hunter2 failed".to_vec();
        Ok(ScriptOutput { status, stdout: "hunter2-hunter2\n".into(), stderr, dropped: 0 })
    });
    let measured = context.measure_host(&TestHost::answering("n1", host), None, 0).await;
    let why = "exit status 1: login with (secret token) failed";
    assert_eq!(measured.verdict, TestVerdict::not_measured(why));
    assert_eq!(measured.outputs, ["(secret token)\nlogin with (secret token) failed".into()]);
}

/// A server behind a cut cable: its client ends with an error of its own.
#[tokio::test]
async fn host_that_is_lost_during_a_measurement_is_named() {
    let lost_server = AnsweringHost(|text: &str| match text.contains("'serve'") {
        true => answer(0, ""),
        false => Err(link_lost_error()),
    });
    let client = AnsweringHost(|text: &str| answer(i32::from(text.contains("'ask'")), ""));
    let hosts = [TestHost::answering("n1", lost_server), TestHost::answering("n2", client)];
    let measured = measure_fully(&hosts, &CancelSignal::default()).await;
    assert_eq!(measured.verdict, TestVerdict::not_measured("exit status 1"));
    assert_eq!(measured.lost, [HostName::new("n1")]);

    let server = AnsweringHost(|_: &str| answer(0, ""));
    let lost_client = AnsweringHost(|_: &str| Err(link_lost_error()));
    let hosts = [TestHost::answering("n1", server), TestHost::answering("n2", lost_client)];
    let measured = measure_fully(&hosts, &CancelSignal::default()).await;
    assert_eq!(measured.verdict, TestVerdict::not_measured("`n2`: the connection to the host was lost"));
    assert_eq!(measured.lost, [HostName::new("n2")]);

    let failed = AnsweringHost(|_: &str| Err(host_side_error("no shell".to_owned())));
    let measured = measure_fully(&[TestHost::answering("n1", failed)], &CancelSignal::default()).await;
    assert_eq!((measured.verdict, measured.lost), (TestVerdict::not_measured("no shell"), Vec::new()));
}

/// What a client measures with a server that failed is not the speed of the two hosts.
#[tokio::test]
async fn number_of_a_client_whose_server_failed_is_not_measured() {
    for (status, ended, expected) in [
        (123, "exit-code 3\n", Err("the server on `n1`: exit status 3: bind() failed")),
        (123, "oom-kill KILL\n", Err("the server on `n1`: ended by signal KILL: out of memory: bind() failed")),
        (0, "", Ok(5.0)),
    ] {
        let server = AnsweringHost(move |text: &str| match text.contains("'serve'") {
            true => answer(0, ""),
            false => {
                let stderr = ended.into();
                Ok(ScriptOutput { status, stdout: "bind() failed\n".into(), stderr, dropped: 0 })
            }
        });
        let client = AnsweringHost(|_: &str| answer(0, "5\n"));
        let hosts = [TestHost::answering("n1", server), TestHost::answering("n2", client)];
        let measured = measure_fully(&hosts, &CancelSignal::default()).await;
        match expected {
            Ok(value) => assert_eq!(measured.verdict.value(), Some(value)),
            Err(why) => assert_eq!(measured.verdict, TestVerdict::not_measured(why)),
        }
        assert_eq!(measured.outputs[0].raw(), "bind() failed\n", "without the line about its end");
    }
}

#[tokio::test]
async fn both_ends_of_a_loopback_run_on_one_host() {
    let (project, cancel) = (load_tests(), CancelSignal::default());
    let scripts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = scripts.clone();
    let host = AnsweringHost(move |text: &str| {
        seen.lock().unwrap().push(text.to_owned());
        answer(0, if text.contains("'ask'") { "5\n" } else { "" })
    });
    let context = MeasureContext {
        project: &project,
        test: &project.tests.sets["quick"][2],
        run: "r",
        cancel: &cancel,
        cluster: None,
    };
    let measured = context.measure_host(&TestHost::answering("n1", host), None, 0).await;
    assert_eq!(
        (measured.verdict.value(), measured.outputs.len()),
        (Some(5.0), 2),
        "the server's output and the client's"
    );
    let scripts = scripts.lock().unwrap();
    let (first, last) = (&scripts[0], &scripts[2]);
    assert!(first.contains("'serve'") && scripts[1].contains("'ask' '127.0.0.1'"), "{scripts:?}");
    assert!(last.contains("forge-test-r-0-server") && !last.contains("'ask'"), "the server is stopped: {last}");
}

/// The client binds to the address of its own adapter, and connects to that of the server's.
#[tokio::test]
async fn connection_is_made_between_adapters_and_judged_at_both_ends() {
    let (project, cancel) = (load_tests(), CancelSignal::default());
    let test = &project.tests.sets["quick"][3];
    let context = MeasureContext { project: &project, test, run: "r", cancel: &cancel, cluster: None };
    let build = |name: &str, address: &str, served: &'static str| {
        let gids = serde_json::json!([{ "index": 3, "ipv4": address }]);
        let port = serde_json::json!({ "state": "ACTIVE", "class": "roce", "roce_gid_index": 3, "gids": gids });
        let rdma = serde_json::json!([{ "name": "mlx5_0", "ports": [port] }]);
        let facts = crate::facts::Facts([("rdma".to_owned(), Ok(rdma))].into());
        let host = AnsweringHost(move |text: &str| {
            let is_client = text.contains("'-I' '10.9.0.2' '-a' '10.9.0.1'");
            let starts_server = text.contains("'rdma' 7174") && text.contains("'rping' '-s' '-v' '-a' '10.9.0.1'");
            match (is_client, starts_server) {
                (true, _) => answer(0, include_str!("../../../tests/samples/rping-client.txt")),
                (_, true) => answer(0, ""),
                (false, false) => answer(0, served),
            }
        });
        TestHost::answering(name, host).with_facts(facts)
    };
    let client = build("n2", "10.9.0.2", "");
    let server = build("n1", "10.9.0.1", include_str!("../../../tests/samples/rping-server.txt"));
    let passed = context.measure_pair(&server, &client, Some("mlx5_0"), 0).await.verdict;
    let expected = "each came back unchanged".to_owned();
    assert_eq!(passed, TestVerdict::Pass { value: 2.0, expected });
    let silent = build("n1", "10.9.0.1", "");
    let other = context.measure_pair(&silent, &client, Some("mlx5_0"), 0).await.verdict;
    assert_eq!(other, TestVerdict::not_measured("the client printed 2 pings, and the server 0 of them"));
    let without = TestHost::answering("n1", AnsweringHost(|_: &str| answer(0, "")));
    let other = context.measure_pair(&without, &client, Some("mlx5_0"), 0).await.verdict;
    assert_eq!(other, TestVerdict::not_measured("n1: fact `rdma` was not read"));
}

#[tokio::test]
async fn unit_of_an_earlier_run_is_named_with_its_start() {
    let host = TestHost::answering("n1", AnsweringHost(|_: &str| answer(0, "")));
    let project = load_tests();
    for (unit, expected) in [
        ("forge-test-r0-0-0-0", "a test of another run", "unit `forge-test-r0-0-0-0.service`, since Sat 09:30"),
        ("forge-r1-0001", "a step of another run", "unit `forge-r1-0001`"),
    ]
    .map(|(unit, what, name)| (unit, format!("{what} is still running on this host: {name}")))
    {
        assert_eq!(host.describe_leftover(&project, &LeftoverWork::Unit(unit.into())).await.raw(), expected);
    }
}
