//! The script of a command, run by this machine's shells, and the meaning of exit statuses.

use super::*;
use crate::model::SecretStore;
use crate::script::{ScriptToken, ShellScript};
use crate::transport::ScriptOutput;
use secrecy::ExposeSecret;

fn run_with_shell(shell: &str, command: &ExecCommand, limit: Duration) -> std::process::Output {
    let script = ShellScript { body: build_command_script(command, limit), token: ScriptToken::new("t"), limit };
    let text = script.render_text(&SecretStore::default()).unwrap();
    std::process::Command::new(shell).arg("-c").arg(text.expose_secret()).output().unwrap()
}

fn word_command(words: &[&str]) -> ExecCommand {
    ExecCommand::Words(words.iter().map(|word| (*word).to_owned()).collect())
}

fn run_in_both_shells(command: &ExecCommand) -> (i32, String, String) {
    let each = ["dash", "bash"].map(|shell| {
        let out = run_with_shell(shell, command, Duration::from_secs(20));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
    });
    assert_eq!(each[0], each[1]);
    each[0].clone()
}

#[test]
fn command_arguments_are_not_interpreted_by_the_shell() {
    let out = run_in_both_shells(&word_command(&["printf", "%s|", "a b", "$HOME", "it's", "*", ""]));
    assert_eq!(out, (0, "a b|$HOME|it's|*||".into(), String::new()));
}

#[test]
fn shell_command_text_is_interpreted_by_the_shell() {
    let command =
        ExecCommand::Shell("echo out; echo err >&2; printf '%s\\n' a b | wc -l; echo \"[$unset]\"; exit 7".into());
    assert_eq!(run_in_both_shells(&command), (7, "out\n2\n[]\n".into(), "err\n".into()));
}

#[test]
fn command_exit_status_is_distinguished_from_a_timeout() {
    for status in [1, 124, 137, 143, 255] {
        assert_eq!(run_in_both_shells(&ExecCommand::Shell(format!("exit {status}"))).0, status);
    }
    assert_eq!(run_in_both_shells(&ExecCommand::Shell("kill -9 $$".into())).0, 137);
    assert_eq!(run_in_both_shells(&word_command(&["no-such-program"])).0, 127);
    assert_eq!(run_in_both_shells(&word_command(&["exit", "5"])), (5, String::new(), String::new()));
    let replaced = run_in_both_shells(&word_command(&["exec", "sh", "-c", "echo x; exit 3"]));
    assert_eq!(replaced, (3, "x\n".into(), String::new()));
    // The command kills the shell that would report its status; forge does not report a timeout.
    let killed = run_with_shell("dash", &word_command(&["sh", "-c", "kill -9 $PPID"]), Duration::from_secs(20));
    assert_eq!((killed.status.code(), killed.stderr.ends_with(b"stopped")), (Some(137), false), "{killed:?}");
    let began = Instant::now();
    let out =
        run_with_shell("dash", &ExecCommand::Shell("echo begun; sleep 60 & sleep 60".into()), Duration::from_secs(1));
    assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(124), &b"begun\n"[..]));
    assert!(out.stderr.ends_with(b"t stopped"), "{out:?}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn background_process_does_not_delay_the_result() {
    let began = Instant::now();
    let out = run_with_shell(
        "dash",
        &ExecCommand::Shell("sleep 30 >/dev/null 2>&1 & echo done".into()),
        Duration::from_secs(20),
    );
    assert_eq!(out.stdout, b"done\n");
    assert!(began.elapsed() < Duration::from_secs(10));
}

fn finished_host(name: &str, status: i32) -> ExecHostResult {
    ended_host(name, status, b"")
}

fn ended_host(name: &str, status: i32, stderr: &[u8]) -> ExecHostResult {
    let finished = ScriptOutput { status, stderr: stderr.to_vec(), ..ScriptOutput::default() };
    let done = HostScriptOutput { finished, token: ScriptToken::new("t") };
    build_host_result(&HostName::new(name), done, Duration::from_secs(5), &SecretStore::default())
}

fn exit_code_of(hosts: Vec<ExecHostResult>, interrupted: bool) -> ExitCode {
    ExecReport { command: word_command(&["true"]), hosts, simulated: Vec::new(), interrupted, took: Duration::ZERO }
        .exit_code()
}

#[test]
fn exit_code_reflects_the_worst_host() {
    let away = || empty_host_result(&HostName::new("c"), HostOutcome::Unreachable, "no route");
    assert_eq!(exit_code_of(vec![finished_host("a", 0), finished_host("b", 0)], false), ExitCode::Done);
    assert_eq!(exit_code_of(vec![finished_host("a", 0), away()], false), ExitCode::Unreachable);
    assert_eq!(exit_code_of(vec![finished_host("a", 1), away()], false), ExitCode::HostsFailed);
    assert_eq!(exit_code_of(vec![finished_host("a", 0)], true), ExitCode::Interrupted);
}

#[test]
fn timed_out_command_has_a_hint_and_no_exit_status() {
    let late = ended_host("a", 124, b"err\nt stopped");
    assert_eq!((late.status, late.outcome, late.stderr.raw()), (None, HostOutcome::Failed, "err\n"));
    assert_eq!(ended_host("a", 124, b"stopped").status, Some(124));
    assert_eq!(late.reason.raw(), "timed out after 5 s and was stopped");
    assert_eq!(late.hint.unwrap().raw(), "set a longer `--timeout`");
}

#[test]
fn lost_connection_reports_that_the_command_may_have_run() {
    let mut error = super::super::host_session::host_side_error("the connection was lost".to_owned());
    assert_eq!(
        build_failed_result(&HostName::new("a"), &error).reason.raw(),
        "the connection was lost; the command may have run"
    );
    error.sent_anything = false;
    assert_eq!(build_failed_result(&HostName::new("a"), &error).outcome, HostOutcome::Unreachable);
}
