//! A session: one host, one connection, a few channels at a time, scripts on the stdin of `sh`.

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

/// Channels that a session holds open at most. sshd allows ten by default (`MaxSessions`); the writer
/// lock takes one of these.
const CHANNELS: usize = 4;
/// Bytes kept of each output stream of a script whose output nobody parses.
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

/// What is known of the sudo password. It is tried on one channel first: several wrong tries at once could
/// lock the account.
enum Proof {
    Untried,
    Good,
    Bad(TransportError),
}

/// How a script is run.
pub(super) struct Ask<'a> {
    pub boot: Boot<'a>,
    pub keep: Keep,
    pub limit: Duration,
}

/// Connects to `host`. For ssh the login is done when this returns, and a sandbox runs; `local` and
/// `command` start nothing yet.
///
/// # Errors
/// Every way in which a login fails, told apart by [`ErrorKind`]. Nothing was run on the host.
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

    /// Runs a script and returns how it ended. Keeps the last MiB of each output stream; `sink` sees all.
    ///
    /// # Errors
    /// The connection, sudo, or the script's limit. A script that fails is not an error: see its status.
    pub async fn run(
        &self,
        script: &Script,
        secrets: &SecretStore,
        sink: Option<Sink<'_>>,
    ) -> Result<Finished, TransportError> {
        let ask = Ask { boot: Boot::Reading, keep: Keep::Tail(TAIL), limit: script.limit };
        self.ask(ask, script, secrets, sink).await
    }

    /// Runs a script as `ask` says.
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

    /// Runs a script as `ask` says, with a file behind it.
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

    /// Waits for what becomes of the password. Failures that say nothing of it are errors.
    async fn prove(&self, talk: &mut Talk<'_>) -> Result<Proof, TransportError> {
        let Some(ending) = talk.until(START_LIMIT, Talk::begun).await else { return Ok(Proof::Good) };
        match self.judge(ending, START_LIMIT).await {
            Err(error) if error.kind == ErrorKind::SudoPassword => Ok(Proof::Bad(error)),
            Err(error) => Err(error),
            Ok(_) => Err(TransportError::new(ErrorKind::Garbled, "the host's shell ended before it began")),
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
        // The semaphore is never closed, so waiting for it cannot fail.
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

    /// Says what an ending means.
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
                "the login must give a shell that runs `sh`, without questions",
            ),
            Carrier::Command(argv) => (
                format!("`{}` gave no shell", argv.join(" ")),
                "the program must run a shell on its stdin, as `docker exec -i NAME sh` does",
            ),
            Carrier::Sandbox(_) => (
                "the sandbox cannot be entered".to_owned(),
                "`forge sandbox reset` ends it, and the next run makes it anew",
            ),
        };
        sudo::refusal(&cut.said, &self.0.target)
            .unwrap_or_else(|| TransportError::new(ErrorKind::Shell, why).hint(hint).said(&cut.said))
    }

    /// Makes a new connection if the old one is gone.
    ///
    /// # Errors
    /// As [`open`].
    pub async fn reconnect(&self) -> Result<(), TransportError> {
        match &self.0.carrier {
            Carrier::Ssh(link) => link.reconnect(&self.0.host, &self.0.target).await,
            Carrier::Local | Carrier::Command(_) | Carrier::Sandbox(_) => Ok(()),
        }
    }

    /// Has what connects to the returned address of this machine come out on the host, towards `to`, for as long as the
    /// session is open. `None` where the host is this machine: `to` is reached as it is.
    ///
    /// # Errors
    /// If the session is none of ssh, or is lost. Whether the host lets anything through shows with the first connection.
    pub async fn forward(&self, to: (&str, u16)) -> Result<Option<SocketAddr>, TransportError> {
        match &self.0.carrier {
            Carrier::Local => Ok(None),
            Carrier::Ssh(link) => {
                let here = free_port()?;
                link.forward(&self.0.host, &self.0.target, here, to).await?;
                Ok(Some(here))
            }
            Carrier::Command(_) | Carrier::Sandbox(_) => {
                let error = TransportError::new(ErrorKind::Channel, "only a host behind ssh lets connections through");
                Err(error.hint("name a host that is reached by ssh, or this machine"))
            }
        }
    }

    /// Returns how many connections this session made so far: another number means that one was lost between.
    pub fn generation(&self) -> u64 {
        match &self.0.carrier {
            Carrier::Ssh(link) => link.generation(),
            Carrier::Local | Carrier::Command(_) | Carrier::Sandbox(_) => 1,
        }
    }

    /// Ends the connection, unless it is to be kept for the next run. Dropping the last clone does the
    /// same without waiting.
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

/// Returns an address of this machine alone, where nobody listens.
fn free_port() -> Result<SocketAddr, TransportError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map_err(|error| {
        TransportError::new(ErrorKind::Controller, format!("no port of this machine is free: {error}"))
    })
}

pub(super) fn lost() -> TransportError {
    TransportError::new(ErrorKind::LinkLost, "the connection to the host was lost")
}

fn unsendable(error: crate::script::FragmentError) -> TransportError {
    TransportError::new(ErrorKind::Script, error.to_string())
}

/// Returns what the wrapper's word means.
fn refused(word: &str, target: &Target) -> TransportError {
    let lock = &target.paths.lock;
    match word {
        "acting" => {
            TransportError::new(ErrorKind::StillActing, "an earlier script of this run is still at work on the host")
        }
        "lost" => TransportError::new(
            ErrorKind::LockLost,
            format!("the writer lock `{lock}` on the host is not ours any more"),
        ),
        "root" => {
            TransportError::new(ErrorKind::NotRoot, format!("acts as {}, and root is needed", target.user_name()))
                .hint("set `connect: { sudo: … }` or log in as root")
        }
        "flock" => {
            TransportError::new(ErrorKind::Shell, "the host has no `flock`").hint("install util-linux on the host")
        }
        _ => TransportError::new(ErrorKind::Garbled, "the host refused the script for a reason forge does not know"),
    }
}
