//! Detached signatures with SSH keys, made by `ssh-keygen -Y`: a reviewer signs a file, and the signature is verified
//! against a list of allowed signers.

use super::ProgramEnvironment;
use camino::Utf8Path;
use std::process::{ExitStatus, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Namespace of the signatures. A signature made for another purpose is invalid.
pub const NAMESPACE: &str = "forge-plan";

/// Why signing or verifying failed: a lowercase fragment, and a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct SignatureError {
    /// The failure, as a lowercase fragment.
    pub why: String,
    /// How to correct the problem.
    pub hint: String,
}

/// Signs bytes with a private key, or with a public key whose private part an agent holds. `ssh-keygen` asks for a
/// passphrase on the terminal.
///
/// # Errors
/// `ssh-keygen` is not installed, or it cannot sign.
pub async fn sign_bytes(bytes: &[u8], key: &Utf8Path) -> Result<Vec<u8>, SignatureError> {
    let said = run_ssh_keygen(&["sign", "-n", NAMESPACE, "-f", key.as_str()], bytes).await?;
    match said.status.success() && said.stdout.starts_with(b"-----BEGIN SSH SIGNATURE-----") {
        true => Ok(said.stdout),
        false => Err(SignatureError {
            why: format!("cannot sign with `{key}`: {}", said.failure_reason()),
            hint: "name a private key, or a public key whose private part is in `ssh-agent`".to_owned(),
        }),
    }
}

/// Returns who signed the bytes, according to the list of allowed signers (`ssh-keygen(1)`).
///
/// # Errors
/// The signature is for other bytes or another purpose, is broken, or its signer is not in the list.
pub async fn verify_signature(
    bytes: &[u8],
    signature: &Utf8Path,
    allowed: &Utf8Path,
) -> Result<String, SignatureError> {
    let (signature, allowed) = (signature.as_str(), allowed.as_str());
    let found = run_ssh_keygen(&["find-principals", "-s", signature, "-f", allowed], b"").await?;
    let principals = String::from_utf8_lossy(&found.stdout).into_owned();
    let Some(principal) = principals.lines().next().filter(|_| found.status.success()) else {
        return Err(SignatureError {
            why: format!("no signer in `{allowed}` matches the signature `{signature}`: {}", found.failure_reason()),
            hint: "have a listed signer sign it with `forge sign`, or add the signer's key to the list".to_owned(),
        });
    };
    let arguments = ["verify", "-n", NAMESPACE, "-I", principal, "-s", signature, "-f", allowed];
    let said = run_ssh_keygen(&arguments, bytes).await?;
    match said.status.success() {
        true => Ok(principal.to_owned()),
        false => Err(SignatureError {
            why: format!("the signature `{signature}` of `{principal}` is invalid: {}", said.failure_reason()),
            hint: match is_signed_for_plans(bytes, signature).await? {
                true => format!(
                    "the signature matches the plan, but `{allowed}` does not permit it: `namespaces` of \
                     `{principal}` must include `{NAMESPACE}`, and the key must be valid now"
                ),
                false => "the plan was changed after it was signed, or signed for another purpose: review it and \
                          sign it again"
                    .to_owned(),
            },
        }),
    }
}

/// Reports whether the signature is for these bytes and this purpose, whoever made it. `verify` fails with the same
/// status if the bytes differ and if the list does not permit the signer; this ignores the list.
async fn is_signed_for_plans(bytes: &[u8], signature: &str) -> Result<bool, SignatureError> {
    let said = run_ssh_keygen(&["check-novalidate", "-n", NAMESPACE, "-s", signature], bytes).await?;
    Ok(said.status.success())
}

/// The output of `ssh-keygen`.
struct KeygenOutput {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl KeygenOutput {
    /// Returns the last non-empty line; `ssh-keygen` reports a failed verification on stdout.
    fn failure_reason(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let all = format!("{}\n{}", text(&self.stdout), text(&self.stderr));
        let last = all.lines().rev().find(|line| !line.trim().is_empty());
        last.map_or_else(|| "no reason given".to_owned(), |line| line.trim().to_owned())
    }
}

async fn run_ssh_keygen(arguments: &[&str], input: &[u8]) -> Result<KeygenOutput, SignatureError> {
    let failed = |error: std::io::Error| SignatureError {
        why: format!("cannot run `ssh-keygen`: {error}"),
        hint: "install the OpenSSH client, version 8.2 or later".to_owned(),
    };
    let mut command = Command::new("ssh-keygen");
    ProgramEnvironment::default().set_ssh_variables(&mut command);
    command.arg("-Y").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // An `ssh-keygen` that reads no input or has exited reports the reason itself.
        let _ = stdin.write_all(input).await;
    }
    let output = child.wait_with_output().await.map_err(failed)?;
    Ok(KeygenOutput { status: output.status, stdout: output.stdout, stderr: output.stderr })
}
