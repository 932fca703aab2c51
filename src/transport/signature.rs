//! Detached signatures with SSH keys, by `ssh-keygen -Y`: a file is signed by who reviewed it, and checked against a
//! list of those who may.

use super::Surroundings;
use camino::Utf8Path;
use std::process::{ExitStatus, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What a signature is for. One that was made for something else does not count.
pub const NAMESPACE: &str = "forge-plan";

/// Why there is no signature, or none that counts: a lowercase fragment, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct SignatureError {
    pub why: String,
    pub hint: String,
}

/// Signs bytes with a private key, or with a public one whose private part an agent holds. A passphrase is asked for on
/// the terminal.
///
/// # Errors
/// There is no `ssh-keygen`, or it does not sign.
pub async fn sign(bytes: &[u8], key: &Utf8Path) -> Result<Vec<u8>, SignatureError> {
    let said = keygen(&["sign", "-n", NAMESPACE, "-f", key.as_str()], bytes).await?;
    match said.status.success() && said.stdout.starts_with(b"-----BEGIN SSH SIGNATURE-----") {
        true => Ok(said.stdout),
        false => Err(SignatureError {
            why: format!("`{key}` does not sign: {}", said.why()),
            hint: "name a private key, or a public one whose private part `ssh-agent` holds".to_owned(),
        }),
    }
}

/// Returns who signed bytes, by the list of allowed signers (`ssh-keygen(1)`).
///
/// # Errors
/// The signature is of other bytes, for something else, broken, or by nobody of the list.
pub async fn verify(bytes: &[u8], signature: &Utf8Path, allowed: &Utf8Path) -> Result<String, SignatureError> {
    let (signature, allowed) = (signature.as_str(), allowed.as_str());
    let found = keygen(&["find-principals", "-s", signature, "-f", allowed], b"").await?;
    let principals = String::from_utf8_lossy(&found.stdout).into_owned();
    let Some(principal) = principals.lines().next().filter(|_| found.status.success()) else {
        return Err(SignatureError {
            why: format!("nobody in `{allowed}` made the signature `{signature}`: {}", found.why()),
            hint: "have somebody of that list sign it with `forge sign`, or add the signer's key to the list"
                .to_owned(),
        });
    };
    let arguments = ["verify", "-n", NAMESPACE, "-I", principal, "-s", signature, "-f", allowed];
    let said = keygen(&arguments, bytes).await?;
    match said.status.success() {
        true => Ok(principal.to_owned()),
        false => Err(SignatureError {
            why: format!("the signature `{signature}` of `{principal}` does not hold: {}", said.why()),
            hint: "the plan was changed after it was signed, or signed for something else: review it and sign it anew"
                .to_owned(),
        }),
    }
}

/// What `ssh-keygen` said.
struct Said {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Said {
    /// The last line that says something; a failed verification is told on stdout.
    fn why(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let all = format!("{}\n{}", text(&self.stdout), text(&self.stderr));
        let last = all.lines().rev().find(|line| !line.trim().is_empty());
        last.map_or_else(|| "it does not say why".to_owned(), |line| line.trim().to_owned())
    }
}

async fn keygen(arguments: &[&str], input: &[u8]) -> Result<Said, SignatureError> {
    let failed = |error: std::io::Error| SignatureError {
        why: format!("`ssh-keygen` cannot be run: {error}"),
        hint: "install the OpenSSH client, version 8.2 or later".to_owned(),
    };
    let mut command = Command::new("ssh-keygen");
    Surroundings::default().give_ssh(&mut command);
    command.arg("-Y").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that reads nothing, or has ended, says why itself.
        let _ = stdin.write_all(input).await;
    }
    let output = child.wait_with_output().await.map_err(failed)?;
    Ok(Said { status: output.status, stdout: output.stdout, stderr: output.stderr })
}
