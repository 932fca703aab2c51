//! Another forge process on this machine, which works for this one: orders go to its standard input, one per line, and
//! its messages come from its standard output.

use std::io;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Bytes of standard error that are kept: the end, where a process says why it failed.
const KEPT_ERRORS: usize = 4 << 10;

/// A running worker. Dropping it closes its standard input, which tells it to stop.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    errors: Option<JoinHandle<Vec<u8>>>,
}

impl WorkerProcess {
    /// Starts this forge with other arguments. It gets the environment of this process, but not its terminal's signals:
    /// whoever started it forwards interrupts, so that each counts once.
    ///
    /// # Errors
    /// The program of this process is gone, or no process can be started.
    pub fn start(arguments: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the process has no pipes");
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stdin = child.stdin.take();
        let errors = child.stderr.take().map(|mut pipe| {
            tokio::spawn(async move {
                let (mut kept, mut buffer) = (Vec::new(), vec![0; 4096]);
                while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
                    kept.extend_from_slice(&buffer[..count]);
                    kept.drain(..kept.len().saturating_sub(KEPT_ERRORS));
                }
                kept
            })
        });
        Ok(Self { child, stdin, lines: BufReader::new(stdout).lines(), errors })
    }

    /// Returns the next line of its output; `None` once it has ended. Can be dropped and called again.
    pub async fn next_line(&mut self) -> Option<String> {
        self.lines.next_line().await.ok().flatten()
    }

    /// Sends a line. A process that has ended does not read it; [`next_line`](Self::next_line) shows that.
    pub async fn send_line(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let sent = async {
                stdin.write_all(line.as_bytes()).await?;
                stdin.write_all(b"\n").await?;
                stdin.flush().await
            };
            let _ = sent.await;
        }
    }

    /// Waits for its end. Returns `exit status 65: error: …`, with the last line of its standard error if there is one.
    pub async fn wait_for_end(mut self) -> String {
        drop(self.stdin.take());
        let status = match self.child.wait().await {
            Ok(status) => describe_end(status),
            Err(error) => error.to_string(),
        };
        let errors = match self.errors.take() {
            Some(task) => task.await.unwrap_or_default(),
            None => Vec::new(),
        };
        let errors = String::from_utf8_lossy(&errors);
        match errors.lines().rfind(|line| !line.trim().is_empty()) {
            Some(last) => format!("{status}: {}", last.trim()),
            None => status,
        }
    }
}

fn describe_end(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "unknown exit status".to_owned(),
    }
}
