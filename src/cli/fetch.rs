//! `forge fetch`.

use super::backend::Backend;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};

/// Fetch the declared artifacts and charts into the cache; no host is contacted
///
/// Fetches each artifact once and checks its SHA-256; cached artifacts are checked again. An interrupted download is
/// resumed. Artifacts that depend on facts of hosts are listed: `forge apply` fetches them.
///
/// If an artifact declares no SHA-256, forge computes it from the download and prints the line to add to the
/// inventory, with the address that the bytes came from. It then exits 65, because only artifacts with a declared
/// digest are applied; with --lock it writes the digest to INVENTORY.lock instead. Exits 69 if an artifact is
/// unavailable or does not match its digest.
///
/// Charts of repositories and registries are fetched with `helm`. Their `sha256` is optional: forge still prints the
/// line, but never writes it to the lock file.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge fetch cluster.yaml
  forge fetch cluster.yaml --on canary --step nvidia-driver
  forge fetch cluster.yaml --lock        save missing digests to cluster.yaml.lock
  forge fetch cluster.yaml --offline     check that the cache is complete
  forge fetch cluster.yaml && forge apply cluster.yaml --offline")]
pub struct FetchArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Write computed digests of artifacts that declare none to INVENTORY.lock
    #[arg(long)]
    pub lock: bool,
    /// Use cached artifacts only; fail if one is missing
    #[arg(long)]
    pub offline: bool,
}

pub fn run_fetch<B: Backend>(cx: &VerbContext<'_, B>, args: &FetchArgs) -> VerbResult {
    let settings = cx.settings.with_offline(args.offline);
    let cx = &VerbContext { settings: &settings, ..*cx };
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let (project, hosts) = cx.load_project_with(&target, B::load_for_digests)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let work = cx.run_with_progress(&output, |events| {
            cx.backend.fetch_artifacts(&project, &hosts, args.lock, cx.settings, events)
        });
        let report = tokio::select! {
            report = work => report.map_err(anyhow::Error::msg).map_err(CliError::unexpected)?,
            () = stop.next_interrupt() => {
                let error = CliError::interrupted("interrupted while fetching");
                return Err(error.hint("run the command again to resume"));
            }
        };
        let exit = report.exit_code();
        output.write_result(&|writer, out| writer.write_fetch_report(&report, exit, out))?;
        Ok(exit)
    })
}
