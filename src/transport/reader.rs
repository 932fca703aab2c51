//! The reading half: accepts only scripts made of probes, and may therefore retry.

use super::backoff::retry_backoff;
use super::conversation::{OutputChunk, OutputSink, ScriptOutput};
use super::error::link_lost_error;
use super::output_buffer::OutputLimit;
use super::session::ScriptRequest;
use super::shell_wrapper::ShellWrapper;
use super::{TransportError, TransportErrorKind, TransportSession};
use crate::model::SecretStore;
use crate::probe::{self, CompiledProbes, FrameError, Observation};
use crate::script::ShellScript;
use backon::Retryable;

/// Maximum bytes of an answer.
const ANSWER_CAP: usize = 32 * 1024 * 1024;
/// Maximum retries of a read after the transport failed.
const RETRIES: usize = 2;

/// A session that accepts only probes, used by plan, verify, facts and drift. It cannot be converted into one that
/// acts.
#[derive(Debug)]
pub struct ProbeSession(HostReader);

impl ProbeSession {
    /// Wraps a session that was just opened.
    pub fn new(session: TransportSession) -> Self {
        Self(HostReader::new(session))
    }

    /// Runs the compiled probes on the host, like [`HostReader::observe_host`].
    ///
    /// # Errors
    /// Those of [`HostReader::observe_host`].
    pub async fn observe_host(
        &self,
        asked: &CompiledProbes,
        secrets: &SecretStore,
    ) -> Result<Observation, TransportError> {
        self.0.observe_host(asked, secrets).await
    }

    /// Closes the session and its connection; an ssh connection may be kept for the next run.
    pub async fn close(self) {
        self.0.0.close().await;
    }
}

/// The reading end of a session that may take the writer lock later: apply uses it until then.
#[derive(Clone, Debug)]
pub struct HostReader(TransportSession);

impl HostReader {
    /// Wraps a session that was just opened.
    pub fn new(session: TransportSession) -> Self {
        Self(session)
    }

    /// Returns the session, which runs any script.
    pub fn session(&self) -> &TransportSession {
        &self.0
    }

    /// Runs the compiled probes on the host. Device probes run at the same time on a separate channel; if that channel
    /// hangs or breaks, they are unknown, which is not an error. A transport that fails is retried twice.
    ///
    /// # Errors
    /// The transport failed each time, or permanently; the answer is garbled or too large.
    pub async fn observe_host(
        &self,
        asked: &CompiledProbes,
        secrets: &SecretStore,
    ) -> Result<Observation, TransportError> {
        let once = || self.observe_once(asked, secrets);
        once.retry(retry_backoff(RETRIES)).when(|error: &TransportError| error.retryable).await
    }

    async fn observe_once(&self, asked: &CompiledProbes, secrets: &SecretStore) -> Result<Observation, TransportError> {
        let device = async { Ok::<_, TransportError>(self.run_device_script(asked.device.as_ref(), secrets).await) };
        let (finished, device) = tokio::try_join!(self.run_probes(&asked.script, secrets, None), device)?;
        probe::parse_output(asked, &finished.stdout, device.as_deref()).map_err(|error| match error {
            FrameError::Cut => link_lost_error().with_sent(true),
            FrameError::Malformed(_) => {
                TransportError::new(TransportErrorKind::Garbled, error.to_string()).with_sent(true)
            }
        })
    }

    /// Runs a script of probes. If its shell is killed, the answer is cut off, as if the link were lost.
    async fn run_probes(
        &self,
        script: &ShellScript,
        secrets: &SecretStore,
        sink: Option<OutputSink<'_>>,
    ) -> Result<ScriptOutput, TransportError> {
        let ask =
            ScriptRequest { boot: ShellWrapper::Observing, keep: OutputLimit::All(ANSWER_CAP), limit: script.limit };
        self.0.run_request(ask, script, secrets, sink).await.map_err(|error| match error.kind {
            TransportErrorKind::Killed => link_lost_error().with_sent(true),
            _ => error,
        })
    }

    /// Runs a read-only script and returns its whole stdout.
    ///
    /// # Errors
    /// The connection or sudo failed, the script exceeded its limit, or its output is too large.
    pub async fn run_read_only(&self, script: &ShellScript, secrets: &SecretStore) -> Result<Vec<u8>, TransportError> {
        let ask =
            ScriptRequest { boot: ShellWrapper::Reading, keep: OutputLimit::All(ANSWER_CAP), limit: script.limit };
        Ok(self.0.run_request(ask, script, secrets, None).await?.stdout)
    }

    /// Runs the device script and returns its output, complete or not.
    async fn run_device_script(&self, script: Option<&ShellScript>, secrets: &SecretStore) -> Option<Vec<u8>> {
        let script = script?;
        let mut heard = Vec::new();
        let mut sink = |chunk: OutputChunk<'_>| {
            if let OutputChunk::Stdout(bytes) = chunk {
                heard.extend_from_slice(bytes);
            }
        };
        if let Err(error) = self.run_probes(script, secrets, Some(&mut sink)).await {
            tracing::debug!(host = %self.0.host(), kind = ?error.kind, "device probes broke off");
        }
        Some(heard)
    }
}
