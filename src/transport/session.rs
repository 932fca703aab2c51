//! A session: one host, one connection, a few concurrent channels, scripts on the stdin of `sh`.

use super::boot::{Boot, Via};
use super::channel::Channel;
use super::kept::Keep;
use super::payload::Payload;
use super::sandbox::Holder;
use super::ssh::Link;
use super::talk::{Answer, Cut, Ending, Finished, START_LIMIT, Sink, Talk};
use super::{ErrorKind, Kind, Sudo, Target, TransportError, random, sudo};
use crate::model::{HostName, SecretStore};
use crate::script::Script;
use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};

/// Maximum channels that a session holds open. sshd allows ten by default (`MaxSessions`); the writer lock takes one of
/// these.
const CHANNELS: usize = 4;
/// Bytes kept of each output stream of a script whose output is not parsed.
const TAIL: usize = 1024 * 1024;

/// A connection to one host. Cheap to clone; all clones share the connection.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    host: HostName,
    target: Target,
    password: Option<SecretString>,
    proof: Mutex<Proof>,
    channels: Arc<Semaphore>,
    carrier: Carrier,
}

enum Carrier {
    Ssh(Link),
    Local,
    Command(Vec<String>),
    Sandbox(Holder),
}

/// Whether the sudo password works. It is tried on one channel first: several failed attempts at once could lock the
/// account.
enum Proof {
    Untried,
    Good,
    Bad(TransportError),
}

/// How to run a script.
pub(super) struct Ask<'a> {
    pub boot: Boot<'a>,
    pub keep: Keep,
    pub limit: Duration,
}

/// Connects to `host`. When this returns, an ssh login is complete, or a sandbox runs; `local` and `command` start
/// nothing yet.
///
/// # Errors
/// Every way in which a login fails, distinguished by [`ErrorKind`]. Nothing was run on the host.
pub async fn open(host: &HostName, target: &Target, secrets: &SecretStore) -> Result<Session, TransportError> {
    let carrier = match &target.kind {
        Kind::Ssh => Carrier::Ssh(Link::connect(host, target).await?),
        Kind::Local => Carrier::Local,
        Kind::Command(argv) => Carrier::Command(argv.clone()),
        Kind::Sandbox(dir, board) => Carrier::Sandbox(Holder::find_or_start(dir, host, *board).await?),
    };
    let password = match &target.sudo {
        Sudo::Password(placeholder) => Some(secrets.reveal(placeholder)),
        Sudo::None | Sudo::NoPassword => None,
    };
    let channels = Arc::new(Semaphore::new(CHANNELS));
    let proof = Mutex::new(Proof::Untried);
    Ok(Session(Arc::new(Inner { host: host.clone(), target: target.clone(), password, proof, channels, carrier })))
}

impl Session {
    pub fn host(&self) -> &HostName {
        &self.0.host
    }

    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// Runs a script and returns how it ended. Keeps the last MiB of each output stream; `sink` receives everything.
    ///
    /// # Errors
    /// The connection or sudo failed, or the script exceeded its limit. A script that fails is not an error: check its
    /// status.
    pub async fn run(
        &self,
        script: &Script,
        secrets: &SecretStore,
        sink: Option<Sink<'_>>,
    ) -> Result<Finished, TransportError> {
        let ask = Ask { boot: Boot::Reading, keep: Keep::Tail(TAIL), limit: script.limit };
        self.ask(ask, script, secrets, sink).await
    }

    /// Runs a script with the options in `ask`.
    pub(super) async fn ask(
        &self,
        ask: Ask<'_>,
        script: &Script,
        secrets: &SecretStore,
        sink: Option<Sink<'_>>,
    ) -> Result<Finished, TransportError> {
        let text = script.text(secrets).map_err(unsendable)?;
        let mut talk = self.talk(ask.boot, ask.keep, sink).await?;
        talk.send(text, self.0.target.sudo != Sudo::None);
        let (ending, sent) = talk.finish(ask.limit).await;
        self.judge(ending, ask.limit).await.map_err(|error| error.sent(sent))
    }

    /// Runs a script with the options in `ask`, followed by a file.
    pub(super) async fn ask_with(
        &self,
        ask: Ask<'_>,
        script: &Script,
        payload: Payload,
        secrets: &SecretStore,
    ) -> Result<Finished, TransportError> {
        let text = script.text(secrets).map_err(unsendable)?;
        let line = base64::engine::general_purpose::STANDARD.encode(text.expose_secret());
        let mut talk = self.talk(ask.boot, ask.keep, None).await?;
        talk.send(SecretString::from(line + "\n"), true);
        talk.send_behind(payload);
        let (ending, sent) = talk.finish(ask.limit).await;
        self.judge(ending, ask.limit).await.map_err(|error| error.sent(sent))
    }

    /// Starts the wrapper of a script.
    pub(super) async fn talk<'s>(
        &self,
        boot: Boot<'_>,
        keep: Keep,
        sink: Option<Sink<'s>>,
    ) -> Result<Talk<'s>, TransportError> {
        if self.0.password.is_none() {
            return self.start(boot, keep, sink).await;
        }
        let mut proof = self.0.proof.lock().await;
        match &*proof {
            Proof::Good => {
                drop(proof);
                self.start(boot, keep, sink).await
            }
            Proof::Bad(error) => Err(error.clone()),
            Proof::Untried => {
                let mut talk = self.start(boot, keep, sink).await?;
                *proof = self.prove(&mut talk).await?;
                match &*proof {
                    Proof::Bad(error) => Err(error.clone()),
                    Proof::Good | Proof::Untried => Ok(talk),
                }
            }
        }
    }

    /// Waits until the sudo password is accepted or rejected. Failures unrelated to the password are errors.
    async fn prove(&self, talk: &mut Talk<'_>) -> Result<Proof, TransportError> {
        let Some(ending) = talk.until(START_LIMIT, Talk::begun).await else { return Ok(Proof::Good) };
        match self.judge(ending, START_LIMIT).await {
            Err(error) if error.kind == ErrorKind::SudoPassword => Ok(Proof::Bad(error)),
            Err(error) => Err(error),
            Ok(_) => Err(TransportError::new(ErrorKind::Garbled, "the host's shell exited before the script started")),
        }
    }

    async fn start<'s>(&self, boot: Boot<'_>, keep: Keep, sink: Option<Sink<'s>>) -> Result<Talk<'s>, TransportError> {
        let mark = random::token()?;
        let answer = match &self.0.password {
            Some(password) => {
                let prompt = format!("forge-{}:", random::token()?.as_str());
                Some(Answer { prompt, password: password.clone() })
            }
            None => None,
        };
        let via = match (&self.0.target.sudo, &answer) {
            (_, Some(answer)) => Via::SudoPrompt(&answer.prompt),
            (Sudo::NoPassword, None) => Via::SudoNoPassword,
            (Sudo::None | Sudo::Password(_), None) => Via::Direct,
        };
        let command = boot.command(&mark, via, &self.0.target.paths).map_err(unsendable)?;
        let channel = self.channel(&command).await?;
        let mut talk = Talk::new(channel, &mark, keep, sink);
        talk.answer(answer);
        Ok(talk)
    }

    async fn channel(&self, command: &str) -> Result<Channel, TransportError> {
        // The semaphore is never closed, so acquiring it cannot fail.
        let permit = self.0.channels.clone().acquire_owned().await.ok();
        let mut channel = match &self.0.carrier {
            Carrier::Ssh(link) => link.channel(&self.0.host, &self.0.target, command).await?,
            Carrier::Local => Channel::local(command)?,
            Carrier::Command(argv) => Channel::program(argv, command, &self.0.target.surroundings)?,
            Carrier::Sandbox(holder) => holder.channel(command)?,
        };
        channel.permit = permit;
        Ok(channel)
    }

    /// Converts an ending into a result.
    pub(super) async fn judge(&self, ending: Ending, limit: Duration) -> Result<Finished, TransportError> {
        if let Some(error) = ending.plain_error(limit) {
            return Err(error);
        }
        match ending {
            Ending::Finished(finished) => Ok(finished),
            Ending::Refused(word) => Err(refused(&word, &self.0.target)),
            Ending::Prompted => Err(sudo::wrong_password(&self.0.target)),
            Ending::NoStart(cut) => Err(self.no_shell(&cut)),
            Ending::Cut(cut) => Err(self.cut(&cut).await),
            Ending::TimedOut | Ending::TooLarge => unreachable!("has a plain error"),
        }
    }

    async fn cut(&self, cut: &Cut) -> TransportError {
        if let Carrier::Ssh(link) = &self.0.carrier
            && !link.is_alive().await
        {
            return lost().said(&cut.said);
        }
        match cut.begun {
            true => TransportError::new(ErrorKind::Killed, "the script's shell was killed on the host").said(&cut.said),
            false => self.no_shell(cut),
        }
    }

    fn no_shell(&self, cut: &Cut) -> TransportError {
        let (why, hint) = match &self.0.carrier {
            Carrier::Ssh(_) | Carrier::Local => (
                format!("no shell started for {}", self.0.target.user_name()),
                "the login shell must run `sh` without prompting",
            ),
            Carrier::Command(argv) => (
                format!("`{}` did not start a shell", argv.join(" ")),
                "the program must run a shell on its stdin, for example `docker exec -i NAME sh`",
            ),
            Carrier::Sandbox(_) => {
                ("cannot enter the sandbox".to_owned(), "run `forge sandbox reset`; the next run creates it again")
            }
        };
        sudo::refusal(&cut.said, &self.0.target)
            .unwrap_or_else(|| TransportError::new(ErrorKind::Shell, why).hint(hint).said(&cut.said))
    }

    /// Reconnects if the connection is lost.
    ///
    /// # Errors
    /// As [`open`].
    pub async fn reconnect(&self) -> Result<(), TransportError> {
        match &self.0.carrier {
            Carrier::Ssh(link) => link.reconnect(&self.0.host, &self.0.target).await,
            Carrier::Local | Carrier::Command(_) | Carrier::Sandbox(_) => Ok(()),
        }
    }

    /// Forwards connections to the returned address of this machine through the host to `to`, as long as the session is
    /// open. Returns `None` if the host is this machine: connect to `to` directly.
    ///
    /// # Errors
    /// The session does not use ssh, or its connection is lost. The first connection shows whether the host permits
    /// forwarding.
    pub async fn forward(&self, to: (&str, u16)) -> Result<Option<SocketAddr>, TransportError> {
        match &self.0.carrier {
            Carrier::Local => Ok(None),
            Carrier::Ssh(link) => {
                let here = free_port()?;
                link.forward(&self.0.host, &self.0.target, here, to).await?;
                Ok(Some(here))
            }
            Carrier::Command(_) | Carrier::Sandbox(_) => {
                let error =
                    TransportError::new(ErrorKind::Channel, "port forwarding requires a host with the ssh transport");
                Err(error.hint("name a host with the ssh transport, or this machine"))
            }
        }
    }

    /// Returns how many connections this session has made so far: a changed number means that one was lost in between.
    pub fn generation(&self) -> u64 {
        match &self.0.carrier {
            Carrier::Ssh(link) => link.generation(),
            Carrier::Local | Carrier::Command(_) | Carrier::Sandbox(_) => 1,
        }
    }

    /// Closes the connection, unless it is to be kept for the next run. Dropping the last clone does the same without
    /// waiting.
    pub async fn close(self) {
        if let Carrier::Ssh(link) = &self.0.carrier {
            link.close(&self.0.target).await;
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.0.host).finish()
    }
}

/// Returns a free port of this machine's loopback address.
fn free_port() -> Result<SocketAddr, TransportError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map_err(|error| TransportError::new(ErrorKind::Controller, format!("no free port on this machine: {error}")))
}

pub(super) fn lost() -> TransportError {
    TransportError::new(ErrorKind::LinkLost, "the connection to the host was lost")
}

fn unsendable(error: crate::script::FragmentError) -> TransportError {
    TransportError::new(ErrorKind::Script, error.to_string())
}

/// Converts the wrapper's refusal into an error.
fn refused(word: &str, target: &Target) -> TransportError {
    let lock = &target.paths.lock;
    match word {
        "acting" => {
            TransportError::new(ErrorKind::StillActing, "an earlier script of this run is still running on the host")
        }
        "lost" => TransportError::new(
            ErrorKind::LockLost,
            format!("this run no longer holds the writer lock `{lock}` on the host"),
        ),
        "root" => {
            TransportError::new(ErrorKind::NotRoot, format!("runs as {}, but root is required", target.user_name()))
                .hint("set `connect: { sudo: … }` or log in as root")
        }
        "flock" => TransportError::new(ErrorKind::Shell, "`flock` not found on the host")
            .hint("install util-linux on the host"),
        _ => TransportError::new(ErrorKind::Garbled, "the host refused the script for an unknown reason"),
    }
}
