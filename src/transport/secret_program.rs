//! Runs a program of the inventory on this machine and takes what it prints as a secret.

use super::program_environment::ProgramEnvironment;
use crate::model::{SecretProgram, SecretProgramError};
use camino::Utf8PathBuf;
use secrecy::SecretString;
use secrecy::zeroize::{Zeroize, Zeroizing};
use std::collections::BTreeSet;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// A secret is a key, a password or a certificate. Bytes.
const MAX_SECRET: u64 = 1 << 20;
/// Standard error that is read; the rest is discarded. Bytes.
const MAX_ERRORS: u64 = 64 << 10;
/// Lines of standard error in a message.
const SHOWN_LINES: usize = 5;

/// Returns the standard output of a program, without one trailing newline. No shell is used, and standard input is
/// empty; a program that asks for a passphrase does so on the terminal, because it stays in forge's process group.
/// `withheld` are the environment variables of secrets, which the program does not get.
///
/// # Errors
/// The program cannot be started, fails, does not end in time, or prints nothing, no text or too much.
pub async fn run_secret_program(
    program: &SecretProgram,
    withheld: &Arc<BTreeSet<String>>,
) -> Result<SecretString, SecretProgramError> {
    let mut child = start_program(program, withheld)?;
    let work = collect_output(&mut child);
    let Ok(ended) = tokio::time::timeout(program.limit, work).await else {
        // Dropping the child kills it.
        return Err(SecretProgramError::new(format!("timed out after {} s", program.limit.as_secs_f64())));
    };
    let ended = ended.map_err(|error| SecretProgramError::new(error.to_string()))?;
    match ended.status.success() || ended.printed_too_much() {
        true => ended.read_value(),
        false => Err(SecretProgramError { printed: ended.list_errors(), ..describe_status(ended.status) }),
    }
}

fn start_program(program: &SecretProgram, withheld: &Arc<BTreeSet<String>>) -> Result<Child, SecretProgramError> {
    let first = program.words.first().map(String::as_str).unwrap_or_default();
    // How a relative path relates to the working directory of a new process depends on the system.
    let path = if first.contains('/') { program.folder.join(first) } else { Utf8PathBuf::from(first) };
    let mut command = Command::new(path);
    command.args(program.words.iter().skip(1)).current_dir(&program.folder);
    ProgramEnvironment { withheld: withheld.clone(), ..ProgramEnvironment::default() }.remove_secrets(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => SecretProgramError {
            missing: true,
            ..SecretProgramError::new(format!("`{first}` not found on this machine"))
        },
        _ => SecretProgramError::new(format!("`{first}` cannot be started: {error}")),
    })
}

/// What a program left.
struct EndedProgram {
    status: ExitStatus,
    stdout: Zeroizing<Vec<u8>>,
    stderr: Vec<u8>,
}

async fn collect_output(child: &mut Child) -> std::io::Result<EndedProgram> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::join!(read_limited(stdout, MAX_SECRET + 1), read_limited(stderr, MAX_ERRORS));
    let (stdout, stderr) = (Zeroizing::new(stdout?), stderr?);
    // A program that prints too much would wait for a reader.
    let mut ended = EndedProgram { status: ExitStatus::default(), stdout, stderr };
    if ended.printed_too_much() {
        child.start_kill()?;
    }
    ended.status = child.wait().await?;
    Ok(ended)
}

/// Reads up to `most` bytes. Of standard error, the rest is read too, so that the program does not wait.
async fn read_limited(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(pipe) = pipe else { return Ok(bytes) };
    let mut limited = pipe.take(most);
    limited.read_to_end(&mut bytes).await?;
    if most == MAX_ERRORS {
        tokio::io::copy(limited.get_mut(), &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

fn describe_status(status: ExitStatus) -> SecretProgramError {
    use std::os::unix::process::ExitStatusExt;
    SecretProgramError::new(match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "unknown exit status".to_owned(),
    })
}

impl EndedProgram {
    fn printed_too_much(&self) -> bool {
        self.stdout.len() as u64 > MAX_SECRET
    }

    fn read_value(&self) -> Result<SecretString, SecretProgramError> {
        if self.printed_too_much() {
            return Err(SecretProgramError::new(format!("printed more than {} MiB", MAX_SECRET >> 20)));
        }
        let text = std::str::from_utf8(&self.stdout).map_err(|error| {
            SecretProgramError::new(format!("byte {} of its output is not UTF-8", error.valid_up_to()))
        })?;
        match text.strip_suffix('\n').unwrap_or(text) {
            // An empty password on a host would be worse than none.
            "" => Err(SecretProgramError::new("printed nothing")),
            value => Ok(SecretString::from(value)),
        }
    }

    /// Returns the last lines of standard error. A program may repeat there what it printed: that is masked.
    fn list_errors(&self) -> Vec<String> {
        let mut text = String::from_utf8_lossy(&self.stderr).into_owned();
        for line in String::from_utf8_lossy(&self.stdout).lines().filter(|line| line.len() >= 4) {
            let masked = text.replace(line, "(secret)");
            std::mem::replace(&mut text, masked).zeroize();
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES)).map(|line| shorten_line(line)).collect()
    }
}

fn shorten_line(line: &str) -> String {
    const MAX: usize = 300;
    match line.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;
    use std::time::Duration;

    async fn run(words: &[&str], limit_ms: u64) -> Result<String, SecretProgramError> {
        let program = SecretProgram {
            label: "test".to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            folder: "/".into(),
            limit: Duration::from_millis(limit_ms),
            identity: None,
        };
        let withheld = Arc::new(BTreeSet::from(["PATH".to_owned()]));
        run_secret_program(&program, &withheld).await.map(|value| value.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn value_is_the_output_without_one_newline() {
        assert_eq!(run(&["printf", "%s\\n", "a b\n"], 5000).await, Ok("a b\n".to_owned()));
        assert_eq!(run(&["printf", "x"], 5000).await, Ok("x".to_owned()));
        assert_eq!(run(&["/bin/pwd"], 5000).await, Ok("/".to_owned()), "it starts in the folder of the inventory");
        let environment = run(&["/usr/bin/env"], 5000).await.unwrap();
        assert!(!environment.contains("\nPATH=") && !environment.starts_with("PATH="), "{environment}");
    }

    #[tokio::test]
    async fn error_shows_stderr_and_status_but_no_output() {
        let error = run(&["/bin/sh", "-c", "echo hunter2; echo 'no hunter2 today' >&2; echo >&2; exit 3"], 5000).await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.why.as_str(), error.printed.as_slice()),
            ("exit status 3", &["no (secret) today".to_owned()][..])
        );
        assert_eq!(run(&["/bin/sh", "-c", "kill -9 $$"], 5000).await.unwrap_err().why, "killed by signal 9");
        assert_eq!(run(&["/bin/sh", "-c", "echo"], 5000).await.unwrap_err().why, "printed nothing");
        assert_eq!(run(&["printf", "\\377"], 5000).await.unwrap_err().why, "byte 0 of its output is not UTF-8");
        let gone = run(&["no-such-program"], 5000).await.unwrap_err();
        assert!(gone.missing && gone.why == "`no-such-program` not found on this machine", "{gone:?}");
    }

    #[tokio::test]
    async fn endless_programs_are_stopped() {
        assert_eq!(run(&["/bin/sleep", "30"], 200).await.unwrap_err().why, "timed out after 0.2 s");
        let much = run(&["/bin/sh", "-c", "yes"], 20_000).await.unwrap_err();
        assert_eq!(much.why, "printed more than 1 MiB");
        let noisy = run(&["/bin/sh", "-c", "head -c 300000 /dev/zero >&2; echo ok"], 20_000).await;
        assert_eq!(noisy, Ok("ok".to_owned()), "its errors do not block it");
    }
}
