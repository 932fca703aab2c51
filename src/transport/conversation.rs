//! The dialogue with a started command: prompt, readiness, script, output, end.

use super::channel::CommandChannel;
use super::marker::{MarkerScanner, StreamPiece};
use super::output_buffer::{OutputBuffer, OutputLimit};
use super::payload::FilePayload;
use super::stdin_queue::StdinQueue;
use super::{TransportError, TransportErrorKind};
use crate::script::ScriptToken;
use secrecy::SecretString;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// A piece of a script's output, as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputChunk<'a> {
    /// Bytes that the script wrote to stdout.
    Stdout(&'a [u8]),
    /// Bytes that the script wrote to stderr.
    Stderr(&'a [u8]),
}

/// Receives output as it arrives. The bytes may contain secrets that the host printed.
pub type OutputSink<'a> = &'a mut (dyn FnMut(OutputChunk<'_>) + Send);

/// Output and status of a script that ran to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptOutput {
    /// Exit status; 128 + n for signal n.
    pub status: i32,
    /// The retained bytes of stdout; the last ones if some were dropped.
    pub stdout: Vec<u8>,
    /// The retained bytes of stderr; the last ones if some were dropped.
    pub stderr: Vec<u8>,
    /// Bytes of both streams that were dropped before the retained ones.
    pub dropped: u64,
}

/// How a dialogue ended.
pub(super) enum ConversationEnd {
    Finished(ScriptOutput),
    /// The wrapper refused to run the script and gave this word as the reason.
    Refused(String),
    /// The streams ended without an end marker.
    Cut(BrokenConversation),
    /// A second prompt: the password was wrong.
    Prompted,
    /// No shell started within [`START_LIMIT`].
    NoStart(BrokenConversation),
    TimedOut,
    TooLarge,
}

/// The state of a dialogue that broke off.
pub(super) struct BrokenConversation {
    pub begun: bool,
    /// Output before the script started, or the script's stderr.
    pub said: Vec<u8>,
}

/// Timeout for the login shell and sudo to start a script's shell.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);
/// How long stderr may lag behind the end marker on stdout.
const STDERR_LAG: Duration = Duration::from_secs(2);
/// Bytes kept of the output of login shells and sudo.
const NOISE_CAP: usize = 16 * 1024;
/// Bytes per read.
const READ_SIZE: usize = 64 * 1024;

/// The password that answers a prompt.
pub(super) struct PromptAnswer {
    pub prompt: String,
    pub password: SecretString,
}

/// One dialogue.
pub(super) struct ShellConversation<'s> {
    channel: CommandChannel,
    outbox: StdinQueue,
    script: Option<SecretString>,
    /// Whether stdin stays open after the script, which then reads heartbeats.
    keeps_stdin: bool,
    answer: Option<PromptAnswer>,
    prompts: usize,
    out: OutputStream,
    err: OutputStream,
    sink: Option<OutputSink<'s>>,
    ending: Option<ConversationEnd>,
    status: Option<i32>,
}

/// One output stream.
struct OutputStream {
    scanner: MarkerScanner,
    noise: OutputBuffer,
    /// The start of the same noise, searched for prompts.
    heard: Vec<u8>,
    kept: OutputBuffer,
    buffer: Vec<u8>,
    eof: bool,
}

impl OutputStream {
    fn new(mark: &ScriptToken, keep: OutputLimit) -> Self {
        Self {
            scanner: MarkerScanner::new(mark.as_str()),
            noise: OutputBuffer::new(OutputLimit::Tail(NOISE_CAP)),
            heard: Vec::new(),
            kept: OutputBuffer::new(keep),
            buffer: vec![0; READ_SIZE],
            eof: false,
        }
    }

    /// Reports whether no more data is expected.
    fn is_done(&self) -> bool {
        self.eof || self.scanner.has_ended()
    }
}

impl<'s> ShellConversation<'s> {
    pub(super) fn new(
        mut channel: CommandChannel,
        mark: &ScriptToken,
        keep: OutputLimit,
        sink: Option<OutputSink<'s>>,
    ) -> Self {
        let mut outbox = StdinQueue::default();
        if let Some(preface) = channel.preface.take() {
            outbox.push_text(SecretString::from(preface));
        }
        Self {
            channel,
            outbox,
            script: None,
            keeps_stdin: false,
            answer: None,
            prompts: 0,
            out: OutputStream::new(mark, keep),
            err: OutputStream::new(mark, keep),
            sink,
            ending: None,
            status: None,
        }
    }

    /// Sends `script` at once, or when the wrapper is ready if another program reads stdin before it.
    pub(super) fn send_script(&mut self, script: SecretString, when_ready: bool) {
        match !self.has_begun() && (when_ready || self.outbox.has_work()) {
            true => self.script = Some(script),
            false => self.queue_script(script),
        }
    }

    /// Leaves stdin open after the script. Call it before the script is sent.
    pub(super) fn keep_stdin_open(&mut self) {
        self.keeps_stdin = true;
    }

    fn queue_script(&mut self, script: SecretString) {
        match self.keeps_stdin {
            true => self.outbox.push_text(script),
            false => self.outbox.push_script(script),
        }
    }

    /// Sends a file after the script.
    pub(super) fn send_payload(&mut self, payload: FilePayload) {
        self.outbox.push_payload(payload);
    }

    /// Answers the first prompt.
    pub(super) fn set_prompt_answer(&mut self, answer: Option<PromptAnswer>) {
        self.answer = answer;
    }

    /// Runs the dialogue to its end, for at most `limit`.
    pub(super) async fn run_to_end(mut self, limit: Duration) -> (ConversationEnd, bool) {
        let ending = self.run_until(limit, |_| false).await.unwrap_or(ConversationEnd::TimedOut);
        if matches!(ending, ConversationEnd::TimedOut | ConversationEnd::TooLarge) {
            self.channel.kill_process_group();
        }
        self.channel.wait_for_exit().await;
        (ending, self.outbox.has_sent_script())
    }

    /// Writes a line that is ignored, as a heartbeat.
    pub(super) fn send_heartbeat(&mut self) {
        self.outbox.push_text(SecretString::from("\n".to_owned()));
    }

    /// Closes stdin and waits at most `limit` until the other side ends.
    pub(super) async fn hang_up(mut self, limit: Duration) {
        self.outbox.clear();
        self.channel.stdin = None;
        let _ = self.run_until(limit, |_| false).await;
        self.channel.wait_for_exit().await;
    }

    /// Reports whether the script's shell has started.
    pub(super) fn has_begun(&self) -> bool {
        self.out.scanner.has_begun()
    }

    /// Returns the stdout kept so far.
    pub(super) fn stdout_so_far(&self) -> &[u8] {
        self.out.kept.bytes()
    }

    /// Runs the dialogue until `enough` returns true; returns `None` then, or how the dialogue ended before that.
    pub(super) async fn run_until(
        &mut self,
        limit: Duration,
        enough: impl Fn(&Self) -> bool,
    ) -> Option<ConversationEnd> {
        let started = Instant::now();
        let mut lag = None;
        loop {
            if let Some(ending) = self.ending.take() {
                return Some(ending);
            }
            if enough(self) {
                return None;
            }
            if self.out.is_done() && lag.is_none() {
                lag = Some(Instant::now() + STDERR_LAG);
            }
            if self.out.is_done() && self.err.is_done() {
                return Some(self.build_ending());
            }
            let deadline = self.next_deadline(started, limit, lag);
            if tokio::time::timeout_at(deadline, self.transfer_once()).await.is_err() {
                return Some(self.handle_deadline(lag.is_some()));
            }
        }
    }

    fn next_deadline(&self, started: Instant, limit: Duration, lag: Option<Instant>) -> Instant {
        let begun = self.has_begun();
        lag.unwrap_or(started + if begun { limit } else { limit.min(START_LIMIT) })
    }

    /// Returns the ending for a deadline that passed without data.
    fn handle_deadline(&mut self, lagging: bool) -> ConversationEnd {
        match (lagging, self.out.scanner.has_begun()) {
            (true, _) => self.build_ending(),
            (false, true) => ConversationEnd::TimedOut,
            (false, false) => ConversationEnd::NoStart(self.build_cut()),
        }
    }

    /// Performs the first I/O operation that is ready: a read or a write.
    async fn transfer_once(&mut self) {
        let (out_open, err_open) = (!self.out.is_done(), !self.err.is_done());
        let has_work = self.outbox.has_work();
        tokio::select! {
            read = read_or_end(&mut self.channel.stdout, &mut self.out.buffer), if out_open => self.handle_stdout(read),
            read = read_or_end(&mut self.channel.stderr, &mut self.err.buffer), if err_open => self.handle_stderr(read),
            wrote = self.outbox.write_next(&mut self.channel.stdin), if has_work => if wrote.is_err() {
                // The reader of stdin is gone; the output says why.
                self.outbox.clear();
                self.channel.stdin = None;
            },
        }
    }

    fn handle_stdout(&mut self, count: usize) {
        self.out.eof = count == 0;
        let pieces = match count {
            0 => self.out.scanner.finish_stream(),
            _ => self.out.scanner.feed_bytes(&self.out.buffer[..count]),
        };
        for piece in pieces {
            match piece {
                StreamPiece::Noise(bytes) => drop(self.out.noise.push(&bytes)),
                StreamPiece::Begin => self.release_script(),
                StreamPiece::Data(bytes) => self.keep_stdout(&bytes),
                StreamPiece::End(status) => self.status = Some(status),
                StreamPiece::Refused(word) => self.ending = Some(ConversationEnd::Refused(word)),
            }
        }
    }

    fn handle_stderr(&mut self, count: usize) {
        self.err.eof = count == 0;
        let pieces = match count {
            0 => self.err.scanner.finish_stream(),
            _ => self.err.scanner.feed_bytes(&self.err.buffer[..count]),
        };
        for piece in pieces {
            match piece {
                StreamPiece::Noise(bytes) => self.handle_stderr_noise(&bytes),
                StreamPiece::Data(bytes) => self.keep_stderr(&bytes),
                StreamPiece::Begin | StreamPiece::End(_) | StreamPiece::Refused(_) => {}
            }
        }
    }

    /// The wrapper is ready: from now on, only it reads stdin.
    fn release_script(&mut self) {
        if let Some(script) = self.script.take() {
            self.queue_script(script);
        }
    }

    fn keep_stdout(&mut self, bytes: &[u8]) {
        if let Some(sink) = &mut self.sink {
            sink(OutputChunk::Stdout(bytes));
        }
        if !self.out.kept.push(bytes) {
            self.ending = Some(ConversationEnd::TooLarge);
        }
    }

    fn keep_stderr(&mut self, bytes: &[u8]) {
        if let Some(sink) = &mut self.sink {
            sink(OutputChunk::Stderr(bytes));
        }
        if !self.err.kept.push(bytes) {
            self.ending = Some(ConversationEnd::TooLarge);
        }
    }

    /// Searches for the prompt. Only the first one is answered: a second one means that the password is wrong.
    fn handle_stderr_noise(&mut self, bytes: &[u8]) {
        self.err.noise.push(bytes);
        let Some(answer) = &self.answer else { return };
        if self.out.scanner.has_begun() || self.err.heard.len() > NOISE_CAP {
            return;
        }
        self.err.heard.extend_from_slice(bytes);
        let prompt = answer.prompt.as_bytes();
        let seen = self.err.heard.windows(prompt.len()).filter(|window| *window == prompt).count();
        if self.prompts == 0 && seen > 0 {
            self.outbox.push_text(password_line(&answer.password));
        } else if seen > 1 {
            self.ending = Some(ConversationEnd::Prompted);
        }
        self.prompts = seen;
    }

    fn build_ending(&mut self) -> ConversationEnd {
        match self.status {
            None => ConversationEnd::Cut(self.build_cut()),
            Some(status) => {
                let (stdout, dropped_out) = self.out.kept.take_bytes();
                let (stderr, dropped_err) = self.err.kept.take_bytes();
                ConversationEnd::Finished(ScriptOutput { status, stdout, stderr, dropped: dropped_out + dropped_err })
            }
        }
    }

    /// Returns what login shells and sudo printed, without the prompt, which is forge's own text.
    fn take_stderr_noise(&mut self) -> Vec<u8> {
        let noise = self.err.noise.take_bytes().0;
        match &self.answer {
            Some(answer) => remove_text(&noise, answer.prompt.as_bytes()),
            None => noise,
        }
    }

    fn build_cut(&mut self) -> BrokenConversation {
        let begun = self.out.scanner.has_begun();
        let said = match begun {
            true => self.err.kept.take_bytes().0,
            false => [self.out.noise.take_bytes().0, self.take_stderr_noise()].concat(),
        };
        BrokenConversation { begun, said }
    }
}

/// Returns `bytes` without each occurrence of `text`, which is not empty.
fn remove_text(bytes: &[u8], text: &[u8]) -> Vec<u8> {
    let mut rest = bytes;
    let mut kept = Vec::with_capacity(bytes.len());
    while let Some(at) = rest.windows(text.len()).position(|window| window == text) {
        kept.extend_from_slice(&rest[..at]);
        rest = &rest[at + text.len()..];
    }
    kept.extend_from_slice(rest);
    kept
}

/// A read error on a pipe is treated as its end.
async fn read_or_end(from: &mut (dyn AsyncRead + Send + Unpin), buffer: &mut [u8]) -> usize {
    from.read(buffer).await.unwrap_or(0)
}

fn password_line(password: &SecretString) -> SecretString {
    use secrecy::ExposeSecret;
    SecretString::from(format!("{}\n", password.expose_secret()))
}

impl ConversationEnd {
    /// Reports whether the other side ended, on a connection that still works, before the wrapper took a script: the
    /// wrapper reports its start before it reads one.
    pub(super) fn ended_before_script(&self) -> bool {
        match self {
            Self::Cut(cut) => !cut.begun,
            Self::Refused(_) | Self::Prompted => true,
            Self::Finished(_) | Self::NoStart(_) | Self::TimedOut | Self::TooLarge => false,
        }
    }

    /// Returns the error of an ending that does not depend on the link or on sudo.
    pub(super) fn plain_error(&self, limit: Duration) -> Option<TransportError> {
        match self {
            ConversationEnd::TimedOut => Some(TransportError::new(
                TransportErrorKind::Timeout,
                format!("the script timed out after {} s", limit.as_secs_f64()),
            )),
            ConversationEnd::TooLarge => {
                Some(TransportError::new(TransportErrorKind::TooLarge, "the host's output exceeds forge's limit"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_removed_from_what_sudo_printed() {
        assert_eq!(remove_text(b"forge-9:opsa is not\nforge-9:", b"forge-9:"), b"opsa is not\n");
        assert_eq!(remove_text(b"sudo: no", b"forge-9:"), b"sudo: no");
    }
}
