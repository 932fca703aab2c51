//! A view of a host, kept by a channel of a session: it ends with the channel.

use super::conversation::ConversationEnd;
use super::error::TransportErrorKind;
use super::lock::send_heartbeats;
use super::output_buffer::OutputLimit;
use super::sandbox::{HostView, render_view_start};
use super::session::unsendable_script_error;
use super::shell_wrapper::ShellWrapper;
use super::{TransportError, TransportSession};
use crate::model::SecretStore;
use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Timeout of making a view.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Maximum bytes of output while a view is made.
const OUTPUT_CAP: usize = 64 * 1024;

/// A view that is up. Dropping it ends the view: its process 1 reads the channel, and everything in the view ends with
/// that process. If forge or the link dies, the host closes the channel, at the latest when heartbeats stop.
pub struct KeptView {
    view: HostView,
    lost: Arc<AtomicBool>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl KeptView {
    /// Makes a view of the session's host.
    ///
    /// # Errors
    /// The connection or sudo failed, or the host cannot make a view; the hint says what to do.
    pub async fn start(session: &TransportSession) -> Result<Self, TransportError> {
        let script = render_view_start().render(&SecretStore::default()).map_err(unsendable_script_error)?;
        let line = base64::engine::general_purpose::STANDARD.encode(script.expose_secret());
        let mut talk = session.start_conversation(ShellWrapper::Keeping, OutputLimit::Tail(OUTPUT_CAP), None).await?;
        talk.keep_stdin_open();
        talk.send_script(SecretString::from(line + "\n"), true);
        let is_up = |said: &[u8]| HostView::parse(&String::from_utf8_lossy(said)).filter(|_| said.ends_with(b"\n"));
        match talk.run_until(START_LIMIT, |talk| is_up(talk.stdout_so_far()).is_some()).await {
            None => {
                let view = is_up(talk.stdout_so_far()).ok_or_else(|| view_error(""))?;
                let lost = Arc::new(AtomicBool::new(false));
                let (stop, stopped) = oneshot::channel();
                let task = tokio::spawn(send_heartbeats(talk, stopped, lost.clone()));
                Ok(Self { view, lost, stop, task })
            }
            Some(ConversationEnd::Finished(done)) => Err(view_error(&String::from_utf8_lossy(&done.stderr))),
            Some(ending) => match session.interpret_ending(ending, START_LIMIT).await {
                Ok(done) => Err(view_error(&String::from_utf8_lossy(&done.stderr))),
                Err(error) => Err(error),
            },
        }
    }

    /// Returns the view, to enter it.
    pub fn view(&self) -> &HostView {
        &self.view
    }

    /// Reports whether the view is known to have ended.
    pub fn has_ended(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Ends the view and waits until the host has done so, or a few seconds.
    pub async fn end(self) {
        drop(self.stop);
        // The task ends by itself within its own limit; if it panicked, nothing is left to do.
        let _ = self.task.await;
    }
}

/// Builds the error from the script's output: the reason, then a line with `hint:`.
fn view_error(said: &str) -> TransportError {
    let (why, hint) = said.split_once("\nhint: ").unwrap_or((said, ""));
    let why = if why.trim().is_empty() { "no answer" } else { why.trim() };
    let kind = if why == "root is required" { TransportErrorKind::NotRoot } else { TransportErrorKind::Shell };
    let error = TransportError::new(kind, format!("cannot make a view of the host: {why}"));
    match hint.lines().next() {
        Some(hint) if !hint.is_empty() => error.hint(hint),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_error_is_split_into_message_and_hint() {
        let error = view_error("root is required\nhint: log in as root\n");
        assert_eq!((error.kind, error.hint.as_deref()), (TransportErrorKind::NotRoot, Some("log in as root")));
        assert_eq!(error.message, "cannot make a view of the host: root is required");
        assert_eq!(view_error("").message, "cannot make a view of the host: no answer");
    }
}
