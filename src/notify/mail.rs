//! Mail by `sendmail -t`: the recipients are in the message.

use super::attempt::DeliveryAttemptError;
use camino::Utf8PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Exit code of `sendmail` for temporary failures (`sysexits.h`).
const TEMPFAIL: i32 = 75;

/// A message for `sendmail`.
pub struct MailMessage {
    /// The path of the mail program, called as `sendmail -t -oi`.
    pub program: Utf8PathBuf,
    /// The complete message: headers, an empty line, the text.
    pub text: String,
}

impl MailMessage {
    pub(super) async fn try_deliver(&self, limit: Duration) -> Result<(), DeliveryAttemptError> {
        let work = tokio::time::timeout(limit, self.run_sendmail());
        work.await.unwrap_or_else(|_| Err(DeliveryAttemptError::retryable(format!("`{}` timed out", self.program))))
    }

    /// Passes the message to the program. Dropping the future kills the program.
    async fn run_sendmail(&self) -> Result<(), DeliveryAttemptError> {
        let failed =
            |error: std::io::Error| DeliveryAttemptError::permanent(format!("cannot run `{}`: {error}", self.program));
        // The environment may contain secrets that the mail program does not need.
        let mut child = Command::new(&self.program)
            .args(["-t", "-oi"])
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // If the program does not read its input, its exit status shows the error.
            let _ = stdin.write_all(self.text.as_bytes()).await;
        }
        let output = child.wait_with_output().await.map_err(failed)?;
        self.check_exit_status(output.status, &output.stderr)
    }

    fn check_exit_status(&self, status: ExitStatus, stderr: &[u8]) -> Result<(), DeliveryAttemptError> {
        let said: String = String::from_utf8_lossy(stderr).trim().chars().take(200).collect();
        let why = || match (status.code(), said.is_empty()) {
            (None, _) => format!("`{}` was killed", self.program),
            (Some(code), true) => format!("`{}` exited with {code}", self.program),
            (Some(code), false) => format!("`{}` exited with {code}: {said}", self.program),
        };
        match status.code() {
            Some(0) => Ok(()),
            Some(TEMPFAIL) => Err(DeliveryAttemptError::retryable(why())),
            _ => Err(DeliveryAttemptError::permanent(why())),
        }
    }
}
