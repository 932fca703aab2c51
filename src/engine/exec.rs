//! Runs one command on many hosts, as typed: evaluates and records nothing.
//!
//! Does not take the host's writer lock: most commands only read and must work during a run. The command needs no space
//! on the host's disk: a full disk is a common reason for inspecting a host.

use super::cancel::{CancelSignal, StopLevel};
use super::event::{Event, EventSender};
use super::host_session::{HostScriptOutput, HostSession, describe_transport_error};
use super::run_options::{RunOptions, SessionRequest};
use super::session_connector::OpenSession;
use crate::config::Project;
use crate::model::{ExitCode, HostName, HostOutcome, SecretStore, UntrustedText};
use crate::script::ShellFragment;
use crate::transport::{TransportError, TransportErrorKind};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The command to run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecCommand {
    /// A program with its arguments, each passed on as typed.
    Words(Vec<String>),
    /// Text for `sh -c`.
    Shell(String),
}

/// The result of a command on all hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExecReport {
    /// The command that ran, as typed.
    pub command: ExecCommand,
    /// In the order of the inventory.
    pub hosts: Vec<ExecHostResult>,
    /// Hosts that are sandboxes, not machines.
    pub simulated: Vec<HostName>,
    /// Whether the user requested a stop. Hosts that had not started are `cancelled`.
    pub interrupted: bool,
    /// Duration of the whole run.
    pub took: Duration,
}

/// The result on one host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExecHostResult {
    /// The host that the command ran on.
    pub host: HostName,
    /// `ok`, `failed`, `unreachable` or `cancelled`.
    pub outcome: HostOutcome,
    /// The exit status, 128 + n for signal n; `None` if the command did not end by itself.
    pub status: Option<i32>,
    /// What the command printed to stdout, with known secrets masked. Only the last part of a long output is kept.
    pub stdout: UntrustedText,
    /// What the command printed to stderr, with known secrets masked.
    pub stderr: UntrustedText,
    /// Bytes of output before the part that is kept.
    pub left_out: u64,
    /// Why the command did not run or did not finish, if that is so.
    pub reason: UntrustedText,
    /// How to fix it; `None` if nothing failed, or if forge has no advice.
    pub hint: Option<UntrustedText>,
    /// Duration on this host, including the connection.
    pub took: Duration,
}

/// The default timeout.
pub const EXEC_LIMIT: Duration = Duration::from_secs(600);

/// Time after the command's timeout in which forge waits for its end: TERM, five seconds, KILL.
const STOP_GRACE: Duration = Duration::from_secs(15);

impl ExecReport {
    /// Returns the exit code for the hosts' results.
    pub fn exit_code(&self) -> ExitCode {
        let of_host = |host: &ExecHostResult| match host.outcome {
            HostOutcome::Ok => ExitCode::Done,
            HostOutcome::Unreachable => ExitCode::Unreachable,
            HostOutcome::Cancelled => ExitCode::Interrupted,
            _ => ExitCode::HostsFailed,
        };
        let interrupted = self.interrupted.then_some(ExitCode::Interrupted);
        ExitCode::pick_worst(self.hosts.iter().map(of_host).chain(interrupted))
    }

    /// Returns the number of hosts with that outcome.
    pub fn count_hosts(&self, outcome: HostOutcome) -> usize {
        self.hosts.iter().filter(|host| host.outcome == outcome).count()
    }
}

/// Runs `command` on `hosts` in parallel within the window. A first stop request lets running commands finish; a second
/// one leaves them running.
pub async fn exec(
    project: &Project,
    hosts: &[HostName],
    command: &ExecCommand,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> ExecReport {
    let began = Instant::now();
    let run = ExecRun { project, command, options, events, cancel };
    run.emit_event(Event::ExecStarted { hosts: hosts.len() });
    let turns = hosts.iter().cloned().enumerate().map(|(at, host)| run.run_host_turn(at, host));
    let window = options.parallel.max(1);
    let mut done: Vec<(usize, ExecHostResult)> =
        futures_util::stream::iter(turns).buffer_unordered(window).collect().await;
    done.sort_by_key(|(at, _)| *at);
    ExecReport {
        command: command.clone(),
        hosts: done.into_iter().map(|(_, host)| host).collect(),
        simulated: hosts.iter().filter(|host| project.is_simulated(host)).cloned().collect(),
        interrupted: cancel.level() > StopLevel::No,
        took: began.elapsed(),
    }
}

struct ExecRun<'a> {
    project: &'a Project,
    command: &'a ExecCommand,
    options: &'a RunOptions,
    events: &'a EventSender,
    cancel: &'a CancelSignal,
}

impl ExecRun<'_> {
    fn emit_event(&self, event: Event) {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(event);
    }

    fn time_limit(&self) -> Duration {
        self.options.timeout.unwrap_or(EXEC_LIMIT)
    }

    async fn run_host_turn(&self, at: usize, host: HostName) -> (usize, ExecHostResult) {
        let began = Instant::now();
        let mut done = match self.cancel.level() {
            StopLevel::No => self.run_on_host(&host).await,
            _ => empty_host_result(&host, HostOutcome::Cancelled, "the run was stopped before its turn"),
        };
        done.took = began.elapsed();
        let reason = match (done.status, done.outcome) {
            (Some(status), HostOutcome::Failed) => format!("exit status {status}").into(),
            _ => done.reason.clone(),
        };
        self.emit_event(Event::HostFinished { host, outcome: done.outcome, reason });
        (at, done)
    }

    async fn run_on_host(&self, host: &HostName) -> ExecHostResult {
        self.emit_event(Event::Connecting { host: host.clone() });
        tokio::select! {
            done = self.run_command(host) => done.unwrap_or_else(|error| build_failed_result(host, &error)),
            () = self.cancel.wait_for_level(StopLevel::Detach) => {
                empty_host_result(host, HostOutcome::Cancelled, "forge exited before the command finished; it may still be running")
            }
        }
    }

    async fn run_command(&self, host: &HostName) -> Result<ExecHostResult, TransportError> {
        let link = <dyn HostSession>::open(SessionRequest {
            project: self.project,
            options: self.options,
            host,
            secrets: &self.project.secrets,
            logs_in: false,
        })
        .await?;
        let body = build_command_script(self.command, self.time_limit());
        let done = link.run_script(body, self.time_limit() + STOP_GRACE, &self.project.secrets).await;
        link.close().await;
        Ok(build_host_result(host, done?, self.time_limit(), &self.project.secrets))
    }
}

fn build_host_result(
    host: &HostName,
    done: HostScriptOutput,
    limit: Duration,
    secrets: &SecretStore,
) -> ExecHostResult {
    let HostScriptOutput { finished, token } = done;
    let text = |bytes: &[u8]| UntrustedText::new(secrets.scrub_secrets(&String::from_utf8_lossy(bytes)));
    let stderr = finished.stderr.strip_suffix(format!("{} stopped", token.as_str()).as_bytes());
    let late = stderr.is_some();
    let outcome = if finished.status == 0 { HostOutcome::Ok } else { HostOutcome::Failed };
    ExecHostResult {
        status: (!late).then_some(finished.status),
        stdout: text(&finished.stdout),
        stderr: text(stderr.unwrap_or(&finished.stderr)),
        left_out: finished.dropped,
        hint: late.then(|| "set a longer `--timeout`".into()),
        ..empty_host_result(host, outcome, &if late { format_timeout(limit) } else { Default::default() })
    }
}

fn format_timeout(limit: Duration) -> String {
    format!("timed out after {} s and was stopped", limit.as_secs_f64())
}

/// Reports a host after a failure. A host that was reached counts as failed; the reason says whether the command may
/// have run.
fn build_failed_result(host: &HostName, error: &TransportError) -> ExecHostResult {
    let began = error.sent_anything || error.kind == TransportErrorKind::Timeout;
    let why = describe_transport_error(error);
    let (outcome, why) = match began {
        true => (HostOutcome::Failed, format!("{}; the command may have run", why.raw())),
        false => (HostOutcome::Unreachable, why.raw().to_owned()),
    };
    ExecHostResult { hint: error.hint.as_deref().map(UntrustedText::from), ..empty_host_result(host, outcome, &why) }
}

fn empty_host_result(host: &HostName, outcome: HostOutcome, reason: &str) -> ExecHostResult {
    ExecHostResult {
        host: host.clone(),
        outcome,
        status: None,
        stdout: UntrustedText::default(),
        stderr: UntrustedText::default(),
        left_out: 0,
        reason: reason.into(),
        hint: None,
        took: Duration::ZERO,
    }
}

/// Runs the command in the home folder with the default umask; `timeout` stops it and its children. The inner shell
/// reports the exit status on its own descriptor, to distinguish the command's own 124 or 137 from a timeout. The command
/// runs in a subshell, as it may be one of the shell itself, such as `exit` or `exec`. A timeout is reported after all
/// other output with the token, which the command does not know; an inner shell that was killed before is none.
const EXEC_FUNCTION: &str = r#"umask 022
set +u
cd 2>/dev/null || cd /
forge_l=$1 forge_t=$FORGE_T
shift
unset FORGE_T
forge_up() { read -r forge_u forge_r </proc/uptime && forge_u=${forge_u%.*}; }
forge_up && forge_b=$forge_u || forge_b=
command -v timeout >/dev/null 2>&1 || { "$@"; return; }
{ forge_s=$(timeout -k 5 "$forge_l" sh -c '("$@") 3>&- 4>&-; s=$?; printf %s "$s" >&3; exit "$s"' sh "$@" 3>&1 >&4); forge_e=$?; } 4>&1
[ -z "$forge_s" ] || return "$forge_s"
case $forge_e in 124 | 137)
if [ -z "$forge_b" ] || ! forge_up || [ "$((forge_u - forge_b + 1))" -ge "$forge_l" ]; then printf '%s stopped' "$forge_t" >&2; fi ;;
esac
return "$forge_e"
"#;

fn build_command_script(command: &ExecCommand, limit: Duration) -> ShellFragment {
    let run = ShellFragment::new().code("forge_exec() {\n").code(EXEC_FUNCTION).code("}\nforge_exec");
    let run = run.number(limit.as_secs_f64().ceil() as u64);
    match command {
        ExecCommand::Words(words) => words.iter().fold(run, |run, word| run.word(word)),
        ExecCommand::Shell(text) => run.code(" sh -c").word(text),
    }
}

#[cfg(test)]
mod tests;
