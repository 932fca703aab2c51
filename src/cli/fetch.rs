//! `forge fetch`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::error::CliError;
use super::interrupt::Interrupts;
use super::run::{Cx, Ending, block_on};

/// Fetch the artifacts that are declared into the cache; no host is contacted
///
/// Each is fetched once and compared with its SHA-256; what lies in the cache is read again. A download whose connection
/// broke goes on where it stopped. What depends on facts of hosts is named: `forge apply` fetches it. Ends with 69 where an
/// artifact cannot be had or is not what is declared.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge fetch cluster.yaml
  forge fetch cluster.yaml --on canary --step nvidia-driver
  forge fetch cluster.yaml --lock        note digests that steps leave out, in cluster.yaml.lock
  forge fetch cluster.yaml --offline     look whether the cache has everything
  forge fetch cluster.yaml && forge apply cluster.yaml --offline")]
pub struct Args {
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Take digests that are not declared from what comes, and write them into INVENTORY.lock
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
    let (project, hosts) = match args.lock {
        true => cx.load_with(&target, B::load_to_learn)?,
        false => cx.load(&target)?,
    };
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
