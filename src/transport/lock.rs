//! The writer lock of a host: taken and held by a channel of the session, released with it.

use super::conversation::{ConversationEnd, ScriptOutput, ShellConversation};
use super::lease::LEASE_S;
use super::output_buffer::OutputLimit;
use super::process_mark::ProcessMark;
use super::shell_wrapper::ShellWrapper;
use super::unit_name::UnitName;
use super::{ConnectionTarget, TransportError, TransportErrorKind, TransportSession, random};
use crate::model::UntrustedText;
use crate::script::ScriptToken;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// The lock holder, as reported to other runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOwner {
    /// The run ID.
    pub run: String,
    /// The user who started forge.
    pub user: String,
    /// The machine that forge runs on.
    pub controller: String,
    /// The process ID of forge on `controller`.
    pub pid: u32,
    /// Identifies the process, so that a later run on that machine can check whether it has ended; `None` if the system
    /// does not provide enough data.
    pub process: Option<ProcessMark>,
    /// Start time, as text for people.
    pub since: String,
    /// `forge apply inventory.yaml`.
    pub what: String,
}

impl LockOwner {
    /// Returns one `key: value` per line; control characters become `?`, so that a value cannot forge a line.
    pub fn to_text(&self) -> String {
        let clean = |text: &str| text.replace(char::is_control, "?");
        let by = format!("{}@{} (pid {})", clean(&self.user), clean(&self.controller), self.pid);
        let process = self.process.as_ref().map(|mark| format!("process: {mark}\n")).unwrap_or_default();
        let (run, since, what) = (clean(&self.run), clean(&self.since), clean(&self.what));
        format!("run: {run}\nby: {by}\nsince: {since}\nwhat: {what}\n{process}")
    }

    /// Returns the process that an owner text names, if it ran on this machine and has ended: it cannot release the
    /// lock itself.
    pub fn find_ended_process(text: &UntrustedText) -> Option<ProcessMark> {
        let mark = text.raw().lines().find_map(|line| ProcessMark::parse(line.strip_prefix("process: ")?))?;
        mark.has_ended().then_some(mark)
    }

    /// Formats the output of [`to_text`](Self::to_text) as one line for people; other text is joined into one line unchanged.
    pub fn describe_owner(text: &UntrustedText) -> UntrustedText {
        let of = |key: &str| text.raw().lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        match (of("run"), of("by"), of("since"), of("what")) {
            (Some(run), Some(by), Some(since), Some(what)) => {
                format!("`{what}` by {by}, since {since}, run {run}").into()
            }
            _ => {
                text.raw().lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ").into()
            }
        }
    }
}

/// Why the writer lock could not be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Another run holds it. The text is [`LockOwner::to_text`] as the other run wrote it.
    #[error("another run holds the writer lock")]
    Held {
        /// The holder.
        owner: UntrustedText,
    },
    /// The lock is free, but a script of an earlier run is still running.
    #[error("a script of an earlier run is still running on the host")]
    Acting {
        /// The earlier run, in the same format as for `Held`.
        owner: UntrustedText,
    },
    /// The lock is free, but long steps of an earlier run are still running: unit names without `.service`.
    #[error("a long step of an earlier run is still running on the host")]
    Units {
        /// The units that are still running; at least one.
        units: Vec<UntrustedText>,
    },
    /// The connection failed, so that it is not known who holds the lock.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// Timeout of taking the lock.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(60);
/// How long releasing it may take before forge goes on.
const RELEASE_LIMIT: Duration = Duration::from_secs(3);
/// Maximum bytes of owner text read.
const OWNER_CAP: usize = 64 * 1024;

/// A held lock. Dropping it releases the lock.
pub(super) struct HeldLock {
    pub token: ScriptToken,
    lost: Arc<AtomicBool>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl HeldLock {
    /// Takes the lock. `ours` is a long step of this run; `earlier` is the token of a hold that this run lost. A hold
    /// of a run of this machine that has ended is taken over: its host has not noticed yet that the run is gone.
    pub(super) async fn acquire_lock(
        session: &TransportSession,
        owner: &LockOwner,
        ours: Option<&UnitName>,
        earlier: Option<&ScriptToken>,
    ) -> Result<Self, LockError> {
        match Self::request_lock(session, owner, ours, earlier, None).await {
            Err(LockError::Held { owner: other }) => match LockOwner::find_ended_process(&other) {
                Some(ended) => Self::request_lock(session, owner, ours, earlier, Some(ended)).await,
                None => Err(LockError::Held { owner: other }),
            },
            answer => answer,
        }
    }

    async fn request_lock(
        session: &TransportSession,
        owner: &LockOwner,
        ours: Option<&UnitName>,
        earlier: Option<&ScriptToken>,
        ended: Option<ProcessMark>,
    ) -> Result<Self, LockError> {
        let token = random::random_token()?;
        let boot = ShellWrapper::Locking {
            token: &token,
            owner: &owner.to_text(),
            ours: ours.map_or("", UnitName::as_str),
            earlier: earlier.map_or("", ScriptToken::as_str),
            ended: &ended.map(|mark| mark.to_string()).unwrap_or_default(),
        };
        let mut talk = session.start_conversation(boot, OutputLimit::Tail(OWNER_CAP), None).await?;
        match talk.run_until(ACQUIRE_LIMIT, |talk| talk.stdout_so_far().starts_with(b"got\n")).await {
            None => Ok(Self::start_heartbeat(token, talk)),
            Some(ConversationEnd::Finished(finished)) => Err(parse_refusal(&finished, session.target())),
            Some(ending) => match session.interpret_ending(ending, ACQUIRE_LIMIT).await {
                Ok(finished) => Err(parse_refusal(&finished, session.target())),
                Err(error) => Err(error.into()),
            },
        }
    }

    fn start_heartbeat(token: ScriptToken, talk: ShellConversation<'static>) -> Self {
        let lost = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(send_heartbeats(talk, stopped, lost.clone()));
        Self { token, lost, stop, task }
    }

    /// Reports whether the channel that holds the lock is known to be gone.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Releases the lock and waits until the host has done so, or a few seconds.
    pub(super) async fn release_lock(self) {
        drop(self.stop);
        // The task ends by itself within its own limit; if it panicked, nothing is left to do.
        let _ = self.task.await;
    }
}

/// Sends heartbeats until stopped, or until the channel ends.
pub(super) async fn send_heartbeats(
    mut talk: ShellConversation<'static>,
    mut stopped: oneshot::Receiver<()>,
    lost: Arc<AtomicBool>,
) {
    let pause = Duration::from_secs(LEASE_S / 4);
    loop {
        tokio::select! {
            _ = &mut stopped => return talk.hang_up(RELEASE_LIMIT).await,
            ending = talk.run_until(pause, |_| false) => match ending {
                Some(ConversationEnd::TimedOut) | None => talk.send_heartbeat(),
                Some(_) => return lost.store(true, Ordering::Relaxed),
            },
        }
    }
}

/// Parses the wrapper's `WORD\nTEXT`.
fn parse_refusal(finished: &ScriptOutput, target: &ConnectionTarget) -> LockError {
    let text = String::from_utf8_lossy(&finished.stdout);
    let (word, rest) = text.split_once('\n').unwrap_or((&text, ""));
    match word {
        "held" => LockError::Held { owner: rest.into() },
        "acting" => LockError::Acting { owner: rest.into() },
        "unit" => LockError::Units { units: rest.lines().map(UntrustedText::from).collect() },
        "foreign" => foreign_lock_error(rest, &target.paths.lock).into(),
        _ => TransportError::new(TransportErrorKind::Garbled, "invalid answer from the host about the writer lock")
            .with_output(&finished.stderr)
            .into(),
    }
}

/// Returns the error for a lock file of another user: one that forge logged in as before it became root, or a person.
/// `found` is `link`, or the file type and owner from `stat`.
fn foreign_lock_error(found: &str, lock: &str) -> TransportError {
    let plain = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let owner = found.trim().rsplit_once(" by ").filter(|(what, _)| what.starts_with("regular"));
    let (what, work) = match owner.map(|(_, name)| name).filter(plain) {
        Some(owner) => (format!("belongs to `{owner}`"), format!(" as `{owner}`")),
        None => ("is not a regular file of the user that forge runs as".to_owned(), String::new()),
    };
    TransportError::new(TransportErrorKind::LockForeign, format!("the writer lock `{lock}` on the host {what}"))
        .hint(format!("if no forge run is active there{work}, remove it as root: `rm -f {lock} {lock}.act`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_lock_error_names_its_owner_and_the_fix() {
        let told = |found: &str| {
            let error = foreign_lock_error(found, "/run/lock/forge");
            (error.message, error.hint.unwrap())
        };
        let (message, hint) = told("regular file by plain\n");
        assert_eq!(message, "the writer lock `/run/lock/forge` on the host belongs to `plain`");
        let remove = "remove it as root: `rm -f /run/lock/forge /run/lock/forge.act`";
        assert_eq!(hint, format!("if no forge run is active there as `plain`, {remove}"));
        for found in ["link", "directory by root", "regular file by a`b", ""] {
            let (message, hint) = told(found);
            let what = "is not a regular file of the user that forge runs as";
            assert_eq!(message, format!("the writer lock `/run/lock/forge` on the host {what}"));
            assert_eq!(hint, format!("if no forge run is active there, {remove}"));
        }
    }

    #[test]
    fn lock_owner_is_described_in_one_line() {
        let text =
            "run: 20261121T093015-4f2a\nby: root@c1 (pid 7)\nsince: 2026-11-21T09:30:15Z\nwhat: forge apply x.yaml";
        let told = "`forge apply x.yaml` by root@c1 (pid 7), since 2026-11-21T09:30:15Z, run 20261121T093015-4f2a";
        assert_eq!(LockOwner::describe_owner(&text.into()).raw(), told);
        assert_eq!(LockOwner::describe_owner(&"made\n\n by hand ".into()).raw(), "made, by hand");
    }

    #[test]
    fn newlines_in_values_cannot_forge_owner_lines() {
        let owner = LockOwner {
            run: "20261121T093015-4f2a".into(),
            user: "eve\nrun: x".into(),
            controller: "c1".into(),
            pid: 7,
            process: None,
            since: "2026-11-21T09:30:15Z".into(),
            what: "forge apply".into(),
        };
        assert_eq!(
            owner.to_text(),
            "run: 20261121T093015-4f2a\nby: eve?run: x@c1 (pid 7)\nsince: 2026-11-21T09:30:15Z\nwhat: forge apply\n"
        );
        assert_eq!(LockOwner::find_ended_process(&owner.to_text().into()), None);
        let process = ProcessMark::current_process();
        assert!(process.is_some());
        let text = LockOwner { process, ..owner }.to_text();
        assert_eq!(LockOwner::find_ended_process(&text.as_str().into()), None, "it lives: {text}");
    }
}
