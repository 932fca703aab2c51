//! The reading half: takes scripts made of probes only, and may therefore try again.

use super::boot::Boot;
use super::kept::Keep;
use super::session::Ask;
use super::talk::Chunk;
use super::{ErrorKind, Session, TransportError, session};
use crate::model::SecretStore;
use crate::probe::{self, Compiled, FrameError, Observation};
use crate::script::Script;
use backon::{ExponentialBuilder, Retryable};
use std::time::Duration;

/// Bytes of an answer that forge keeps.
const ANSWER_CAP: usize = 32 * 1024 * 1024;
/// How often a reading is tried again after the transport failed.
const RETRIES: usize = 2;

/// A session that takes probes only: what plan, verify, facts and drift hold. There is no way from it to one that acts.
#[derive(Debug)]
pub struct Onlooker(Reader);

impl Onlooker {
    pub fn new(session: Session) -> Self {
        Self(Reader::new(session))
    }

    /// Asks the host what was compiled, as [`Reader::observe`] does.
    ///
    /// # Errors
    /// Those of [`Reader::observe`].
    pub async fn observe(&self, asked: &Compiled, secrets: &SecretStore) -> Result<Observation, TransportError> {
        self.0.observe(asked, secrets).await
    }

    pub async fn close(self) {
        self.0.0.close().await;
    }
}

/// The reading end of a session that may take the writer lock later: what apply holds until then.
#[derive(Clone, Debug)]
pub struct Reader(Session);

impl Reader {
    pub fn new(session: Session) -> Self {
        Self(session)
    }

    pub fn session(&self) -> &Session {
        &self.0
    }

    /// Asks the host what was compiled. Probes of devices run on a channel of their own beside the others;
    /// where that channel hangs or breaks they are unknown, which is not an error. A transport that fails is
    /// tried again twice.
    ///
    /// # Errors
    /// The transport failed each time, or in a way that does not pass; the answer is garbled or too large.
    pub async fn observe(&self, asked: &Compiled, secrets: &SecretStore) -> Result<Observation, TransportError> {
        let once = || self.observe_once(asked, secrets);
        once.retry(backoff(RETRIES)).when(|error: &TransportError| error.retryable).await
    }

    async fn observe_once(&self, asked: &Compiled, secrets: &SecretStore) -> Result<Observation, TransportError> {
        let device = async { Ok::<_, TransportError>(self.device(asked.device.as_ref(), secrets).await) };
        let (stdout, device) = tokio::try_join!(self.read(&asked.script, secrets), device)?;
        probe::parse(asked, &stdout, device.as_deref()).map_err(|error| match error {
            FrameError::Cut => session::lost().sent(true),
            FrameError::Malformed(_) => TransportError::new(ErrorKind::Garbled, error.to_string()).sent(true),
        })
    }

    /// Runs a read-only script and returns its stdout.
    pub(super) async fn read(&self, script: &Script, secrets: &SecretStore) -> Result<Vec<u8>, TransportError> {
        let ask = Ask { boot: Boot::Reading, keep: Keep::All(ANSWER_CAP), limit: script.limit };
        Ok(self.0.ask(ask, script, secrets, None).await?.stdout)
    }

    /// Runs the device script and returns what it printed, as far as it came.
    async fn device(&self, script: Option<&Script>, secrets: &SecretStore) -> Option<Vec<u8>> {
        let script = script?;
        let mut heard = Vec::new();
        let mut sink = |chunk: Chunk<'_>| {
            if let Chunk::Stdout(bytes) = chunk {
                heard.extend_from_slice(bytes);
            }
        };
        let ask = Ask { boot: Boot::Reading, keep: Keep::All(ANSWER_CAP), limit: script.limit };
        if let Err(error) = self.0.ask(ask, script, secrets, Some(&mut sink)).await {
            tracing::debug!(host = %self.0.host(), kind = ?error.kind, "device probes broke off");
        }
        Some(heard)
    }
}

/// Returns pauses as [`backoff`] does, for `total` altogether.
pub(super) fn backoff_for(total: Duration) -> ExponentialBuilder {
    backoff(usize::MAX).with_total_delay(Some(total))
}

/// Returns pauses of about 0.5 s, 1 s … with some chance in them, so that many hosts do not come back at once.
pub(super) fn backoff(times: usize) -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(15))
        .with_max_times(times)
        .with_jitter()
}
