//! `forge sign`.

use super::atomic_file;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::saved_plan;
use super::verb_context::{VerbContext, VerbResult, block_on};
use crate::model::ExitCode;
use crate::transport;
use crate::view::progress::ProgressDetail;
use anyhow::anyhow;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Write;

/// Sign a saved plan
///
/// Writes a detached signature next to the plan, in the format of `ssh-keygen -Y sign -n forge-plan`. With
/// `--require-signature ALLOWED_SIGNERS`, `forge apply` applies a plan only if a key of that file signed it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge sign plan.json --key ~/.ssh/id_ed25519      writes plan.json.sig
  forge apply plan.json --require-signature signers applies it if one of the signers signed it

Example line of an allowed-signers file: alice@example.com namespaces=\"forge-plan\" ssh-ed25519 AAAA…")]
pub struct SignArgs {
    /// Plan saved by `forge plan -o`
    pub plan: Utf8PathBuf,
    /// Private key, or a public key whose private key ssh-agent holds
    #[arg(long, value_name = "FILE")]
    pub key: Utf8PathBuf,
}

pub fn run_sign<B>(cx: &VerbContext<'_, B>, args: &SignArgs) -> VerbResult {
    let text = atomic_file::read_text(&args.plan)
        .map_err(|error| CliError::input(format!("cannot read the plan: {error}")))?;
    saved_plan::parse_saved_plan(&args.plan, &text)?;
    let place = signature_path(&args.plan);
    atomic_file::check_writable(&place)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let signed = tokio::select! {
            signed = transport::sign_bytes(text.as_bytes(), &args.key) => signed,
            () = stop.next_interrupt() => return Err(CliError::interrupted("interrupted; nothing was signed")),
        };
        let signature = signed.map_err(|error| CliError::unexpected(anyhow!(error.why)).hint(error.hint))?;
        atomic_file::replace_file(&place, |out| out.write_all(&signature))?;
        if cx.settings.detail > ProgressDetail::Quiet {
            // Ignore a closed stderr: no other stream could report it.
            let _ = writeln!((cx.console.err)(), "signature written to {place}");
        }
        Ok(ExitCode::Done)
    })
}

fn signature_path(plan: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{plan}.sig"))
}

/// Checks that an allowed signer signed the plan, and prints the signer.
///
/// # Errors
/// A file is missing, or no allowed signer signed the plan.
pub async fn verify_plan_signature<B>(
    cx: &VerbContext<'_, B>,
    plan: &Utf8Path,
    text: &str,
    allowed: &Utf8Path,
) -> Result<(), CliError> {
    let signature = signature_path(plan);
    if !allowed.is_file() {
        return Err(CliError::usage(format!("allowed-signers file `{allowed}` not found"))
            .hint("each line is a name, `namespaces=\"forge-plan\"` and a public key; see ssh-keygen(1)"));
    }
    if !signature.is_file() {
        return Err(CliError::input(format!("`{plan}` is not signed: `{signature}` not found; nothing was contacted"))
            .hint(format!("review it, then run `forge sign {plan} --key FILE`")));
    }
    let signer = transport::verify_signature(text.as_bytes(), &signature, allowed).await;
    let signer = signer.map_err(|error| {
        CliError::input(format!("no allowed signer signed `{plan}`: {}", error.why))
            .note("nothing was contacted")
            .hint(error.hint)
    })?;
    if cx.settings.detail > ProgressDetail::Quiet {
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!((cx.console.err)(), "signed by {}", crate::view::escape::escape_line(&signer));
    }
    Ok(())
}
