//! Data still to be written to a channel's stdin.

use super::payload::FilePayload;
use secrecy::{ExposeSecret, SecretString};
use std::collections::VecDeque;
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// A queue of texts for a stdin, each possibly secret, followed by an optional file.
#[derive(Default)]
pub(super) struct StdinQueue {
    parts: VecDeque<(SecretString, bool)>,
    payload: Option<FilePayload>,
    /// Bytes of the first part that are already written.
    at: usize,
    close: bool,
    sent_script: bool,
}

impl StdinQueue {
    /// Queues data other than the script: the wrapper's command, a password.
    pub(super) fn push_text(&mut self, text: SecretString) {
        self.parts.push_back((text, false));
    }

    /// Queues the script; stdin is closed after it.
    pub(super) fn push_script(&mut self, text: SecretString) {
        self.parts.push_back((text, true));
        self.close = true;
    }

    /// Queues the file that follows the script.
    pub(super) fn push_payload(&mut self, payload: FilePayload) {
        self.payload = Some(payload);
    }

    /// Reports whether any byte of the script was written.
    pub(super) fn has_sent_script(&self) -> bool {
        self.sent_script
    }

    pub(super) fn has_work(&self) -> bool {
        self.close || !self.parts.is_empty()
    }

    /// Discards the queue: the other side no longer reads.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.payload = None;
        self.close = false;
    }

    /// Writes once, or closes `stdin` if everything is written. Cancel-safe.
    pub(super) async fn write_next(
        &mut self,
        stdin: &mut Option<Box<dyn AsyncWrite + Send + Unpin>>,
    ) -> io::Result<()> {
        if let (true, true, Some(payload), Some(pipe)) =
            (self.parts.is_empty(), self.close, &mut self.payload, stdin.as_mut())
            && payload.write_next(pipe).await?
        {
            return Ok(());
        }
        let (Some((text, is_script)), Some(pipe)) = (self.parts.front(), stdin.as_mut()) else {
            self.clear();
            *stdin = None;
            return Ok(());
        };
        let bytes = text.expose_secret().as_bytes();
        let written = pipe.write(&bytes[self.at..]).await?;
        self.at += written;
        self.sent_script |= *is_script && written > 0;
        if self.at >= bytes.len() {
            self.parts.pop_front();
            self.at = 0;
        }
        Ok(())
    }
}
