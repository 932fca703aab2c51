//! `forge sign`.

use super::error::CliError;
use super::file;
use super::interrupt::Interrupts;
use super::run::{Cx, Ending, block_on};
use super::saved;
use crate::model::ExitCode;
use crate::transport;
use crate::view::progress::Detail;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Write;

/// Sign a saved plan, for those who carry it out
///
/// Writes a detached signature beside the plan, as `ssh-keygen -Y sign -n forge-plan` makes it. `forge apply
/// --require-signature ALLOWED_SIGNERS` carries out a plan only if somebody of that list signed it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge sign plan.json --key ~/.ssh/id_ed25519      writes plan.json.sig
  forge apply plan.json --require-signature signers carries it out if it was signed by one of them

A line of the list of allowed signers: alice@example.com namespaces=\"forge-plan\" ssh-ed25519 AAAA…")]
pub struct Args {
    /// The plan that `forge plan -o` kept
    pub plan: Utf8PathBuf,
    /// A private key, or a public one whose private part ssh-agent holds
    #[arg(long, value_name = "FILE")]
    pub key: Utf8PathBuf,
}

pub fn run<B>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let text =
        file::read_text(&args.plan).map_err(|error| CliError::input(format!("the plan cannot be read: {error}")))?;
    saved::parse(&args.plan, &text)?;
    let place = beside(&args.plan);
    file::check(&place)?;
    block_on(async {
        let mut stop = Interrupts::catch()?;
        let signed = tokio::select! {
            signed = transport::sign(text.as_bytes(), &args.key) => signed,
            () = stop.next() => return Err(CliError::interrupted("interrupted; nothing was signed")),
        };
        let signature = signed.map_err(|error| CliError::unexpected(error.why).hint(error.hint))?;
        file::replace(&place, |out| out.write_all(&signature))?;
        if cx.settings.detail > Detail::Quiet {
            // A stderr that is gone leaves nobody to tell.
            let _ = writeln!((cx.console.err)(), "signature written to {place}");
        }
        Ok(ExitCode::Done)
    })
}

fn beside(plan: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{plan}.sig"))
}

/// Checks that somebody of a list signed a plan, and says who.
///
/// # Errors
/// Nobody of the list did.
pub async fn required<B>(cx: &Cx<'_, B>, plan: &Utf8Path, text: &str, allowed: &Utf8Path) -> Result<(), CliError> {
    let signature = beside(plan);
    if !allowed.is_file() {
        return Err(CliError::usage(format!("there is no list of allowed signers `{allowed}`"))
            .hint("each line is a name, `namespaces=\"forge-plan\"` and a public key, as ssh-keygen(1) says"));
    }
    if !signature.is_file() {
        return Err(CliError::input(format!(
            "`{plan}` is not signed: there is no `{signature}`; nothing was contacted"
        ))
        .hint(format!("review it, then `forge sign {plan} --key FILE`")));
    }
    let signer = transport::verify(text.as_bytes(), &signature, allowed).await;
    let signer = signer.map_err(|error| {
        CliError::input(format!("`{plan}` is not signed by anybody who may: {}", error.why))
            .note("nothing was contacted")
            .hint(error.hint)
    })?;
    if cx.settings.detail > Detail::Quiet {
        // A stderr that is gone leaves nobody to tell.
        let _ = writeln!((cx.console.err)(), "signed by {}", crate::view::escape::line(&signer));
    }
    Ok(())
}
