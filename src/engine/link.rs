//! The engine's side of a session: read-only at first, writable once the host's lock is taken.

use super::api;
use super::glance::Asked;
use super::run::Options;
use crate::config::{Connect, HostKeyPolicy, Project, Sudo, TransportKind};
use crate::facts;
use crate::kube;
use crate::model::{HostName, SecretStore, Untrusted};
use crate::probe::{self, Checks, Compiled, Observation, Probe};
use crate::script::{Fragment, Script, Token};
use crate::transport::{
    self, ErrorKind, Finished, HostKey, Kind, LockError, LongStep, Owner, Payload, Reader, Session, Surroundings,
    Target, TransportError, UnitName, Writer,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Timeout of forge's own short scripts.
pub(super) const SHORT: Duration = Duration::from_secs(60);

/// A session on one host.
pub(super) struct Link {
    end: End,
    questions: Questions,
}

enum End {
    Reading(Reader),
    Writing(Writer),
    /// The cluster's API, read-only.
    Asking(kube::Onlooker),
    /// The cluster's API, with its lock.
    Ruling(Box<kube::Writer>),
    /// No session: a host's recorded answers.
    Recorded(Observation),
    #[cfg(test)]
    Simulated(super::sim::Sim),
}

/// The result of taking the writer lock.
pub(super) enum Locked {
    Ours,
    /// Another run holds the lock: its description of itself.
    Held(Untrusted),
    /// A job of an earlier run is still active.
    Busy(Busy),
}

/// A job that is active on a host although no run holds the lock.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Busy {
    /// A script: its owner's description of itself.
    Script(Untrusted),
    /// A long step: its unit.
    Unit(Untrusted),
}

/// The result of a script, with the token that frames its output.
pub(super) struct Done {
    pub finished: Finished,
    pub token: Token,
}

/// The result of a long step.
pub(super) struct LongEnd {
    pub status: i32,
    pub tail: Untrusted,
}

/// The settings for probes that do not depend on the session.
pub(super) struct Questions {
    checks: Checks,
    /// Whether raw answers are stored.
    keep: bool,
    clock: fn() -> jiff::Timestamp,
}

impl Questions {
    pub fn of(options: &Options) -> Self {
        let checks = Checks { limit: options.timeout, confined: options.confined };
        Self { checks, keep: options.replay.record || options.replay.keep, clock: options.clock }
    }

    pub fn keeps(&self) -> bool {
        self.keep
    }

    pub fn compile(&self, probes: &BTreeSet<Probe>) -> Result<Compiled, TransportError> {
        let compiled = probe::compile(probes, &facts::snippets(), transport::token()?, self.checks);
        Ok(if self.keep { compiled.keeping() } else { compiled })
    }

    /// Sends the probes compiled by `ask` and records the times.
    pub async fn put(
        &self,
        ask: impl Future<Output = Result<Observation, TransportError>>,
    ) -> Result<Observation, TransportError> {
        let began = (self.clock)();
        let mut observation = ask.await?;
        observation.stamp(began, (self.clock)());
        Ok(observation)
    }
}

/// The kind of connection to a host.
pub(super) enum Way {
    Host(Session),
    Cluster(Box<kube::Onlooker>),
    /// No connection: a host's recorded answers.
    Recorded(Observation),
    #[cfg(test)]
    Simulated(super::sim::Sim),
}

/// Opens a connection to a host or its substitute.
pub(super) async fn way(
    project: &Project,
    options: &Options,
    host: &HostName,
    secrets: &SecretStore,
) -> Result<Way, TransportError> {
    if let Some(recording) = &options.replay.observed {
        return recording.answers(host).map(Way::Recorded);
    }
    if host.is_cluster() {
        return api::look(project, options).await.map(|looker| Way::Cluster(Box::new(looker)));
    }
    #[cfg(test)]
    if let Some(sim) = super::sim::Sim::of(&declared(project, host)) {
        return Ok(Way::Simulated(sim?));
    }
    session(project, options, host, secrets).await.map(Way::Host)
}

/// Opens a session on a host.
pub(super) async fn session(
    project: &Project,
    options: &Options,
    host: &HostName,
    secrets: &SecretStore,
) -> Result<Session, TransportError> {
    let mut target = target(host, &declared(project, host), options);
    target.surroundings.withheld = project.secret_variables.clone();
    transport::open(host, &target, secrets).await
}

fn declared(project: &Project, host: &HostName) -> Connect {
    project.hosts.get(host).map(|host| host.connect.clone()).unwrap_or_default()
}

impl Asked for Link {
    async fn open(
        project: &Project,
        options: &Options,
        host: &HostName,
        secrets: &SecretStore,
    ) -> Result<Self, TransportError> {
        let end = match way(project, options, host, secrets).await? {
            Way::Host(session) => End::Reading(Reader::new(session)),
            Way::Cluster(looker) => End::Asking(*looker),
            Way::Recorded(answers) => End::Recorded(answers),
            #[cfg(test)]
            Way::Simulated(sim) => End::Simulated(sim),
        };
        Ok(Self { end, questions: Questions::of(options) })
    }

    async fn observe(&self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<Observation, TransportError> {
        if let End::Recorded(recorded) = &self.end {
            return Ok(probe::recall(recorded, probes, &facts::snippets()));
        }
        if let Some(looker) = self.looker() {
            return self.questions.put(api::observe(looker, probes, self.questions.keeps(), secrets)).await;
        }
        let compiled = self.questions.compile(probes)?;
        let ask = async {
            match &self.end {
                End::Reading(reader) => reader.observe(&compiled, secrets).await,
                End::Writing(writer) => writer.observe(&compiled, secrets).await,
                End::Recorded(_) | End::Asking(_) | End::Ruling(_) => Err(no_host()),
                #[cfg(test)]
                End::Simulated(sim) => sim.observe(&compiled, secrets).await,
            }
        };
        self.questions.put(ask).await
    }

    /// Releases the writer lock if it was taken, and closes the session.
    async fn close(self) {
        match self.end {
            End::Reading(reader) => reader.session().clone().close().await,
            End::Writing(writer) => writer.unlock().await.session().clone().close().await,
            End::Asking(looker) => looker.close().await,
            End::Ruling(writer) => writer.unlock().await.close().await,
            End::Recorded(_) => {}
            #[cfg(test)]
            End::Simulated(_) => {}
        }
    }
}

impl Link {
    /// Returns the reader of the cluster's API, if this is a connection to one.
    fn looker(&self) -> Option<&kube::Onlooker> {
        match &self.end {
            End::Asking(looker) => Some(looker),
            End::Ruling(writer) => Some(writer.looker()),
            _ => None,
        }
    }

    /// Returns the writer of the cluster, if this is a connection to one and its lock is held.
    pub fn ruler(&self) -> Option<&kube::Writer> {
        match &self.end {
            End::Ruling(writer) => Some(writer),
            _ => None,
        }
    }

    /// Runs a script once, without the writer lock. Its result is not evaluated.
    pub async fn run(&self, body: Fragment, limit: Duration, secrets: &SecretStore) -> Result<Done, TransportError> {
        let token = transport::token()?;
        let script = Script { body, token: token.clone(), limit };
        let finished = match &self.end {
            End::Reading(reader) => reader.session().run(&script, secrets, None).await?,
            End::Writing(writer) => writer.session().run(&script, secrets, None).await?,
            End::Recorded(_) => return Err(no_host()),
            End::Asking(_) | End::Ruling(_) => return Err(api::no_host()),
            #[cfg(test)]
            End::Simulated(sim) => sim.act(&script, secrets).await?,
        };
        Ok(Done { finished, token })
    }

    /// Takes the writer lock.
    pub async fn lock(&mut self, owner: &Owner) -> Result<Locked, TransportError> {
        #[cfg(test)]
        if let End::Simulated(sim) = &self.end {
            return Ok(sim.lock());
        }
        if let End::Asking(looker) = &self.end {
            let (locked, writer) = api::lock(looker, owner, self.questions.clock).await?;
            if let Some(writer) = writer {
                self.end = End::Ruling(Box::new(writer));
            }
            return Ok(locked);
        }
        let reader = match &self.end {
            End::Reading(reader) => reader,
            End::Recorded(_) => return Err(no_host()),
            _ => return Ok(Locked::Ours),
        };
        match reader.lock(owner, None).await {
            Ok(writer) => {
                self.end = End::Writing(writer);
                Ok(Locked::Ours)
            }
            Err(LockError::Held { owner }) => Ok(Locked::Held(owner)),
            Err(LockError::Acting { owner }) => Ok(Locked::Busy(Busy::Script(owner))),
            Err(LockError::Units { units }) => {
                Ok(Locked::Busy(Busy::Unit(units.into_iter().next().unwrap_or_default())))
            }
            Err(LockError::Transport(error)) => Err(error),
        }
    }

    fn writer(&self) -> Result<&Writer, TransportError> {
        match &self.end {
            End::Writing(writer) => Ok(writer),
            _ => Err(broken("the host lock is not held".to_owned())),
        }
    }

    /// Runs an acting script once.
    pub async fn act(&self, body: Fragment, limit: Duration, secrets: &SecretStore) -> Result<Done, TransportError> {
        let token = transport::token()?;
        let script = Script { body, token: token.clone(), limit };
        #[cfg(test)]
        if let End::Simulated(sim) = &self.end {
            return Ok(Done { finished: sim.act(&script, secrets).await?, token });
        }
        let finished = self.writer()?.act(&script, secrets, None).await?;
        Ok(Done { finished, token })
    }

    /// Runs an acting script once, with a file as its input.
    pub async fn send(
        &self,
        body: Fragment,
        limit: Duration,
        payload: Payload,
        secrets: &SecretStore,
    ) -> Result<Done, TransportError> {
        let token = transport::token()?;
        let script = Script { body, token: token.clone(), limit };
        #[cfg(test)]
        if let End::Simulated(sim) = &self.end {
            return Ok(Done { finished: sim.send(&script, payload, secrets).await?, token });
        }
        let finished = self.writer()?.send(&script, payload, secrets).await?;
        Ok(Done { finished, token })
    }

    /// Runs a long step as a transient unit and follows its log until it ends. Reconnects if the connection is lost;
    /// the step continues meanwhile.
    pub async fn long(
        &mut self,
        unit: &UnitName,
        body: Fragment,
        limit: Duration,
        secrets: &SecretStore,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<LongEnd, TransportError> {
        let token = transport::token()?;
        #[cfg(test)]
        if let End::Simulated(sim) = &self.end {
            let finished = sim.act(&Script { body, token, limit }, secrets).await?;
            String::from_utf8_lossy(&finished.stdout).lines().for_each(say);
            return Ok(LongEnd {
                status: finished.status,
                tail: String::from_utf8_lossy(&finished.stdout).into_owned().into(),
            });
        }
        let step = LongStep { unit: unit.clone(), body, token: token.clone(), limit };
        let End::Writing(writer) = &mut self.end else {
            return Err(broken("the host lock is not held".to_owned()));
        };
        writer.start_long(&step, secrets).await?;
        let mut log = Lines::default();
        let mut sink = |_: u64, bytes: &[u8]| log.take(bytes, say);
        let end = writer.follow(unit, 0, secrets, &mut sink).await.map_err(unlocked)?;
        writer.forget_long(unit, &token, secrets).await?;
        Ok(LongEnd { status: end.status, tail: log.tail() })
    }
}

/// Splits a growing log into lines and keeps the last ones.
#[derive(Default)]
struct Lines {
    open: Vec<u8>,
    last: std::collections::VecDeque<String>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], say: &mut (dyn FnMut(&str) + Send)) {
        self.open.extend_from_slice(bytes);
        while let Some(end) = self.open.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.open.drain(..=end).collect();
            self.push(String::from_utf8_lossy(&line[..end]).into_owned(), say);
        }
    }

    fn push(&mut self, line: String, say: &mut (dyn FnMut(&str) + Send)) {
        const KEPT: usize = 200;
        say(&line);
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn tail(self) -> Untrusted {
        let open = String::from_utf8_lossy(&self.open).into_owned();
        let lines: Vec<String> = self.last.into_iter().chain((!open.is_empty()).then_some(open)).collect();
        lines.join("\n").into()
    }
}

/// Converts a failure to take the lock again after a lost connection.
fn unlocked(error: LockError) -> TransportError {
    match error {
        LockError::Transport(error) => error,
        other => broken(other.to_string()),
    }
}

/// Converts the declared connection into the transport's target.
fn target(host: &HostName, connect: &Connect, options: &Options) -> Target {
    Target {
        kind: match &connect.transport {
            TransportKind::Ssh => Kind::Ssh,
            TransportKind::Local => Kind::Local,
            TransportKind::Command(argv) => Kind::Command(argv.clone()),
            TransportKind::Sandbox => {
                Kind::Sandbox(transport::sandbox_folder(&options.sandboxes, host), connect.hardware)
            }
        },
        address: if connect.address.is_empty() { host.to_string() } else { connect.address.clone() },
        user: connect.user.clone(),
        port: connect.port,
        identity: connect.identity.clone(),
        config: connect.config.clone(),
        known_hosts: connect.known_hosts.clone(),
        jump: connect.jump.clone(),
        host_key: match connect.host_key {
            HostKeyPolicy::Strict => HostKey::Strict,
            HostKeyPolicy::AcceptNew => HostKey::AcceptNew,
        },
        sudo: match &connect.sudo {
            // In a sandbox forge runs as root from the start.
            _ if connect.transport == TransportKind::Sandbox => transport::Sudo::None,
            Sudo::None => transport::Sudo::None,
            Sudo::NoPassword => transport::Sudo::NoPassword,
            Sudo::Password(placeholder) => transport::Sudo::Password(placeholder.clone()),
        },
        timeout: Duration::from_secs(connect.timeout_s),
        keep: Duration::from_secs(connect.keep_s),
        control_dir: options.control_dir.clone(),
        surroundings: Surroundings { more: options.ssh_variables.clone(), ..Surroundings::default() },
        ..Target::default()
    }
}

/// The error of any action on a recording, which supports probes only.
pub(super) fn no_host() -> TransportError {
    broken("a recording is read-only: it is not a host".to_owned())
}

/// Returns an error caused by the host rather than by the transport.
pub(super) fn broken(message: String) -> TransportError {
    TransportError {
        kind: ErrorKind::Shell,
        message,
        hint: None,
        said: None,
        address: None,
        retryable: false,
        sent_anything: true,
    }
}

/// Returns the last lines of a script's stderr as one line, without repetitions.
pub(super) fn said(stderr: &[u8]) -> String {
    const LINES: usize = 3;
    let text = String::from_utf8_lossy(stderr);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lines.retain(|earlier| *earlier != line);
        lines.push(line);
    }
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

/// Returns the reason, with the host's own message.
pub(super) fn reason(error: &TransportError) -> Untrusted {
    match error.said.as_ref().and_then(|said| said.raw().lines().rev().find(|line| !line.trim().is_empty())) {
        Some(line) if !error.message.contains(line.trim()) => format!("{}: {}", error.message, line.trim()).into(),
        _ => error.message.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_three_times_is_told_once() {
        assert_eq!(said(b"mkdir: no\nmkdir: no\n\nmkdir: no\n"), "mkdir: no");
        assert_eq!(said(b"a\nb\nc\nd\n"), "b; c; d");
        assert_eq!(said(b""), "");
    }
}
