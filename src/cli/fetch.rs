//! `forge fetch`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::error::CliError;
use super::interrupt::Interrupts;
use super::run::{Cx, Ending, block_on};

/// Fetch the artifacts and charts that are declared into the cache; no host is contacted
///
/// Each is fetched once and compared with its SHA-256; what lies in the cache is read again. A download whose connection
/// broke goes on where it stopped. What depends on facts of hosts is named: `forge apply` fetches it.
///
/// If an artifact has no SHA-256, it is computed from the download, and the line to paste into the inventory is printed
/// with the address that the bytes came from. Exits 65 then, since nothing is applied without a declared digest; with
/// --lock the digest is written to INVENTORY.lock instead. Exits 69 if an artifact is not available or does not match
/// its digest.
///
/// Charts of repositories and registries are fetched with `helm`. Their `sha256` may be left out: the line is printed all
/// the same, and never written to the lock file.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge fetch cluster.yaml
  forge fetch cluster.yaml --on canary --step nvidia-driver
  forge fetch cluster.yaml --lock        write missing digests to cluster.yaml.lock
  forge fetch cluster.yaml --offline     look whether the cache has everything
  forge fetch cluster.yaml && forge apply cluster.yaml --offline")]
pub struct Args {
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Write the computed digests of artifacts that declare none to INVENTORY.lock
    #[arg(long)]
    pub lock: bool,
    /// Fetch nothing: what is not in the cache is an error
    #[arg(long)]
    pub offline: bool,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let settings = cx.settings.offline(args.offline);
    let cx = &Cx { settings: &settings, ..*cx };
    let target = cx.target(&args.inventory)?;
    let output = cx.output(&target);
    let (project, hosts) = cx.load_with(&target, B::load_to_learn)?;
    block_on(async {
        let mut stop = Interrupts::catch()?;
        let work = cx.shown(&output, |events| cx.backend.fetch(&project, &hosts, args.lock, cx.settings, events));
        let report = tokio::select! {
            report = work => report.map_err(CliError::unexpected)?,
            () = stop.next() => {
                let error = CliError::interrupted("interrupted while fetching");
                return Err(error.hint("run it again: it goes on where it stopped"));
            }
        };
        let exit = report.exit_code();
        output.result(&|writer, out| writer.fetch(&report, exit, out))?;
        Ok(exit)
    })
}
