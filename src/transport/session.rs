//! A session: one host, one connection, a few concurrent channels, scripts on the stdin of `sh`.

use super::carrier::HostCarrier;
use super::channel::CommandChannel;
use super::command_carrier::CommandCarrier;
use super::conversation::{
    BrokenConversation, ConversationEnd, OutputSink, PromptAnswer, START_LIMIT, ScriptOutput, ShellConversation,
};
use super::error::link_lost_error;
use super::local_carrier::LocalCarrier;
use super::output_buffer::OutputLimit;
use super::payload::FilePayload;
use super::sandbox::{HostView, SandboxProcess};
use super::shell_wrapper::{RootAccess, ShellWrapper};
use super::ssh::SshConnection;
use super::{ConnectionKind, ConnectionSudo, ConnectionTarget, TransportError, TransportErrorKind, random, sudo};
use crate::model::{HostName, SecretStore};
use crate::script::ShellScript;
use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};

/// Maximum channels that a session holds open. sshd allows ten by default (`MaxSessions`); the writer lock takes one of
/// these.
const MAX_CHANNELS: usize = 4;
/// Bytes kept of each output stream of a script whose output is not parsed.
const OUTPUT_TAIL: usize = 1024 * 1024;

/// A connection to one host. Cheap to clone; all clones share the connection.
#[derive(Clone)]
pub struct TransportSession(Arc<SessionInner>);

struct SessionInner {
    host: HostName,
    target: ConnectionTarget,
    password: Option<SecretString>,
    proof: Mutex<SudoPasswordState>,
    channels: Arc<Semaphore>,
    carrier: Arc<dyn HostCarrier>,
    /// The view of the host in which commands run, instead of on the host itself.
    view: Option<HostView>,
}

/// Whether the sudo password works. It is tried on one channel first: several failed attempts at once could lock the
/// account.
enum SudoPasswordState {
    Untried,
    Good,
    Bad(TransportError),
}

/// How to run a script.
pub(super) struct ScriptRequest<'a> {
    pub boot: ShellWrapper<'a>,
    pub keep: OutputLimit,
    pub limit: Duration,
}

/// Connects to `host`. When this returns, an ssh login is complete, or a sandbox runs; `local` and `command` start
/// nothing yet.
///
/// # Errors
/// Every way in which a login fails, distinguished by [`TransportErrorKind`]. Nothing was run on the host.
pub async fn open_session(
    host: &HostName,
    target: &ConnectionTarget,
    secrets: &SecretStore,
) -> Result<TransportSession, TransportError> {
    let carrier: Arc<dyn HostCarrier> = match &target.kind {
        ConnectionKind::Ssh => Arc::new(SshConnection::connect(host, target).await?),
        ConnectionKind::Local => Arc::new(LocalCarrier),
        ConnectionKind::Command(argv) => Arc::new(CommandCarrier(argv.clone())),
        ConnectionKind::Sandbox(dir, board) => Arc::new(SandboxProcess::find_or_start(dir, host, *board).await?),
    };
    let password = match &target.sudo {
        ConnectionSudo::Password(placeholder) => Some(secrets.reveal_placeholders(placeholder)),
        ConnectionSudo::None | ConnectionSudo::NoPassword => None,
    };
    let channels = Arc::new(Semaphore::new(MAX_CHANNELS));
    let proof = Mutex::new(SudoPasswordState::Untried);
    Ok(TransportSession(Arc::new(SessionInner {
        host: host.clone(),
        target: target.clone(),
        password,
        proof,
        channels,
        carrier,
        view: None,
    })))
}

impl TransportSession {
    /// Returns the name of the host in the inventory.
    pub fn host(&self) -> &HostName {
        &self.0.host
    }

    /// Returns how the host is reached.
    pub fn target(&self) -> &ConnectionTarget {
        &self.0.target
    }

    /// Returns a session over the same connection whose commands run in a view of the host. It does not close the
    /// connection.
    pub fn enter_view(&self, view: &HostView) -> TransportSession {
        let own = &self.0;
        TransportSession(Arc::new(SessionInner {
            host: own.host.clone(),
            target: own.target.clone(),
            password: own.password.clone(),
            proof: Mutex::new(SudoPasswordState::Untried),
            channels: Arc::new(Semaphore::new(MAX_CHANNELS)),
            carrier: own.carrier.clone(),
            view: Some(view.clone()),
        }))
    }

    /// Runs a script and returns how it ended. Keeps the last MiB of each output stream; `sink` receives everything.
    ///
    /// # Errors
    /// The connection or sudo failed, or the script exceeded its limit. A script that fails is not an error: check its
    /// status.
    pub async fn run_script(
        &self,
        script: &ShellScript,
        secrets: &SecretStore,
        sink: Option<OutputSink<'_>>,
    ) -> Result<ScriptOutput, TransportError> {
        let ask =
            ScriptRequest { boot: ShellWrapper::Reading, keep: OutputLimit::Tail(OUTPUT_TAIL), limit: script.limit };
        self.run_request(ask, script, secrets, sink).await
    }

    /// Runs a script with the options in `ask`.
    pub(super) async fn run_request(
        &self,
        ask: ScriptRequest<'_>,
        script: &ShellScript,
        secrets: &SecretStore,
        sink: Option<OutputSink<'_>>,
    ) -> Result<ScriptOutput, TransportError> {
        let text = ask.boot.complete_script(script.render_text(secrets).map_err(unsendable_script_error)?);
        let mut talk = self.start_conversation(ask.boot, ask.keep, sink).await?;
        talk.send_script(text, self.0.target.sudo != ConnectionSudo::None);
        let (ending, sent) = talk.run_to_end(ask.limit).await;
        self.conclude_script(ending, sent, ask.limit).await
    }

    /// Returns the result of a script. A login shell such as `nologin` reads no byte that was sent to it.
    async fn conclude_script(
        &self,
        ending: ConversationEnd,
        sent: bool,
        limit: Duration,
    ) -> Result<ScriptOutput, TransportError> {
        let unstarted = ending.ended_before_script();
        let done = self.interpret_ending(ending, limit).await;
        done.map_err(|error| {
            let may_run = sent && !(unstarted && error.kind != TransportErrorKind::LinkLost);
            error.with_sent(may_run)
        })
    }

    /// Runs a script with the options in `ask`, followed by a file.
    pub(super) async fn run_request_with_payload(
        &self,
        ask: ScriptRequest<'_>,
        script: &ShellScript,
        payload: FilePayload,
        secrets: &SecretStore,
    ) -> Result<ScriptOutput, TransportError> {
        let text = script.render_text(secrets).map_err(unsendable_script_error)?;
        let line = base64::engine::general_purpose::STANDARD.encode(text.expose_secret());
        let mut talk = self.start_conversation(ask.boot, ask.keep, None).await?;
        talk.send_script(SecretString::from(line + "\n"), true);
        talk.send_payload(payload);
        let (ending, sent) = talk.run_to_end(ask.limit).await;
        self.conclude_script(ending, sent, ask.limit).await
    }

    /// Starts the wrapper of a script.
    pub(super) async fn start_conversation<'s>(
        &self,
        boot: ShellWrapper<'_>,
        keep: OutputLimit,
        sink: Option<OutputSink<'s>>,
    ) -> Result<ShellConversation<'s>, TransportError> {
        if self.0.password.is_none() {
            return self.start_shell(boot, keep, sink).await;
        }
        let mut proof = self.0.proof.lock().await;
        match &*proof {
            SudoPasswordState::Good => {
                drop(proof);
                self.start_shell(boot, keep, sink).await
            }
            SudoPasswordState::Bad(error) => Err(error.clone()),
            SudoPasswordState::Untried => {
                let mut talk = self.start_shell(boot, keep, sink).await?;
                *proof = self.check_password(&mut talk).await?;
                match &*proof {
                    SudoPasswordState::Bad(error) => Err(error.clone()),
                    SudoPasswordState::Good | SudoPasswordState::Untried => Ok(talk),
                }
            }
        }
    }

    /// Waits until the sudo password is accepted or rejected. Failures unrelated to the password are errors.
    async fn check_password(&self, talk: &mut ShellConversation<'_>) -> Result<SudoPasswordState, TransportError> {
        let Some(ending) = talk.run_until(START_LIMIT, ShellConversation::has_begun).await else {
            return Ok(SudoPasswordState::Good);
        };
        match self.interpret_ending(ending, START_LIMIT).await {
            Err(error) if error.kind == TransportErrorKind::SudoPassword => Ok(SudoPasswordState::Bad(error)),
            Err(error) => Err(error),
            Ok(_) => Err(TransportError::new(
                TransportErrorKind::Garbled,
                "the host's shell exited before the script started",
            )),
        }
    }

    async fn start_shell<'s>(
        &self,
        boot: ShellWrapper<'_>,
        keep: OutputLimit,
        sink: Option<OutputSink<'s>>,
    ) -> Result<ShellConversation<'s>, TransportError> {
        let mark = random::random_token()?;
        let answer = match &self.0.password {
            Some(password) => {
                let prompt = format!("forge-{}:", random::random_token()?.as_str());
                Some(PromptAnswer { prompt, password: password.clone() })
            }
            None => None,
        };
        let via = match (&self.0.target.sudo, &answer) {
            (_, Some(answer)) => RootAccess::SudoPrompt(&answer.prompt),
            (ConnectionSudo::NoPassword, None) => RootAccess::SudoNoPassword,
            (ConnectionSudo::None | ConnectionSudo::Password(_), None) => RootAccess::Direct,
        };
        let (paths, view) = (&self.0.target.paths, self.0.view.as_ref());
        let command = boot.build_command(&mark, via, paths, view).map_err(unsendable_script_error)?;
        let channel = self.open_channel(&command).await?;
        let mut talk = ShellConversation::new(channel, &mark, keep, sink);
        talk.set_prompt_answer(answer);
        Ok(talk)
    }

    async fn open_channel(&self, command: &str) -> Result<CommandChannel, TransportError> {
        // The semaphore is never closed, so acquiring it cannot fail.
        let permit = self.0.channels.clone().acquire_owned().await.ok();
        let mut channel = self.0.carrier.open_channel(&self.0.host, &self.0.target, command).await?;
        channel.permit = permit;
        Ok(channel)
    }

    /// Converts an ending into a result.
    pub(super) async fn interpret_ending(
        &self,
        ending: ConversationEnd,
        limit: Duration,
    ) -> Result<ScriptOutput, TransportError> {
        if let Some(error) = ending.plain_error(limit) {
            return Err(error);
        }
        match ending {
            ConversationEnd::Finished(finished) => Ok(finished),
            ConversationEnd::Refused(word) => Err(refusal_error(&word, &self.0.target)),
            ConversationEnd::Prompted => Err(sudo::wrong_password_error(&self.0.target)),
            ConversationEnd::NoStart(cut) => Err(self.no_shell_error(&cut)),
            ConversationEnd::Cut(cut) => Err(self.explain_cut(&cut).await),
            ConversationEnd::TimedOut | ConversationEnd::TooLarge => unreachable!("has a plain error"),
        }
    }

    async fn explain_cut(&self, cut: &BrokenConversation) -> TransportError {
        if self.0.carrier.is_lost().await {
            return link_lost_error().with_output(&cut.said);
        }
        match cut.begun {
            true => TransportError::new(TransportErrorKind::Killed, "the script's shell was killed on the host")
                .with_output(&cut.said),
            false => self.no_shell_error(cut),
        }
    }

    fn no_shell_error(&self, cut: &BrokenConversation) -> TransportError {
        if self.0.view.is_some() {
            let error = TransportError::new(TransportErrorKind::Shell, "cannot enter the view of the host");
            return error.hint("run the rehearsal again").with_output(&cut.said);
        }
        let (why, hint) = self.0.carrier.describe_missing_shell(&self.0.target);
        let hint = find_shell_hint(&cut.said).unwrap_or(hint);
        sudo::find_sudo_refusal(&cut.said, &self.0.target)
            .unwrap_or_else(|| TransportError::new(TransportErrorKind::Shell, why).hint(hint).with_output(&cut.said))
    }

    /// Reconnects if the connection is lost.
    ///
    /// # Errors
    /// As [`open_session`].
    pub async fn reconnect(&self) -> Result<(), TransportError> {
        self.0.carrier.reconnect(&self.0.host, &self.0.target).await
    }

    /// Forwards connections to the returned address of this machine through the host to `to`, as long as the session is
    /// open. Returns `None` if the host is this machine: connect to `to` directly.
    ///
    /// # Errors
    /// The session does not use ssh, or its connection is lost. The first connection shows whether the host permits
    /// forwarding.
    pub async fn forward_port(&self, to: (&str, u16)) -> Result<Option<SocketAddr>, TransportError> {
        self.0.carrier.forward_port(&self.0.host, &self.0.target, to).await
    }

    /// Returns how many connections this session has made so far: a changed number means that one was lost in between.
    pub fn generation(&self) -> u64 {
        self.0.carrier.generation()
    }

    /// Closes the connection, unless it is to be kept for the next run. Dropping the last clone does the same without
    /// waiting.
    pub async fn close(self) {
        if self.0.view.is_some() {
            return;
        }
        self.0.carrier.close(&self.0.target).await;
    }
}

impl std::fmt::Debug for TransportSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.0.host).finish()
    }
}

pub(super) fn unsendable_script_error(error: crate::script::FragmentError) -> TransportError {
    TransportError::new(TransportErrorKind::Script, error.to_string())
}

/// Returns the hint for what a host printed instead of starting a shell. Any login prints that, with every method.
fn find_shell_hint(said: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(said);
    let must_change = text.contains("Password change required") || text.contains("You must change your password now");
    must_change
        .then_some("set a new password of the account: log in there with a terminal, or use `passwd USER` as root")
}

/// Converts the wrapper's refusal into an error.
fn refusal_error(word: &str, target: &ConnectionTarget) -> TransportError {
    let lock = &target.paths.lock;
    match word {
        "acting" => TransportError::new(
            TransportErrorKind::StillActing,
            "an earlier script of this run is still running on the host",
        ),
        "lost" => TransportError::new(
            TransportErrorKind::LockLost,
            format!("this run no longer holds the writer lock `{lock}` on the host"),
        ),
        "root" => TransportError::new(
            TransportErrorKind::NotRoot,
            format!("runs as {}, but root is required", target.user_name()),
        )
        .hint("set `connect: { sudo: … }` or log in as root"),
        "flock" => TransportError::new(TransportErrorKind::Shell, "`flock` not found on the host")
            .hint("install util-linux on the host"),
        _ => TransportError::new(TransportErrorKind::Garbled, "the host refused the script for an unknown reason"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from OpenSSH 9.2 on Debian 12, after `chage -d 0`.
    #[test]
    fn password_that_must_be_changed_has_its_own_hint() {
        let said = b"WARNING: Your password has expired.\nPassword change required but no TTY available.\n";
        assert!(find_shell_hint(said).is_some_and(|hint| hint.contains("`passwd USER` as root")));
        assert_eq!(find_shell_hint(b"This account is currently not available.\n"), None);
    }
}
