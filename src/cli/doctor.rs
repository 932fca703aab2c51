//! `forge doctor`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::error::CliError;
use super::interrupt::Interrupts;
use super::run::{Cx, Ending, block_on};

/// Say whether hosts can be reached and worked on, and what to do where not; change nothing
///
/// Looks at this machine (ssh, control sockets, state folder, terminal), at the cluster's API where one is declared (does
/// it answer, what may be done there, helm), and at every host: name, port, host key and
/// key, root or sudo, the programs that forge uses (a POSIX shell and coreutils; no Python), room, clock, writer lock,
/// package manager, and which of the facts that recipes read would be unknown. Ends with 3 where a host is not ready,
/// 4 where one cannot be reached, 9 where something could not be told.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge doctor cluster.yaml
  forge doctor cluster.yaml --on gpu -v      also what is in order
  forge doctor cluster.yaml --format json | jq -r '.doctor.hosts[] | select(.reach != \"observed\") | .host'
  forge doctor cluster.yaml -q && forge apply cluster.yaml --yes")]
pub struct Args {
    #[command(flatten)]
    pub inventory: InventoryArg,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let target = cx.target(&args.inventory)?;
    let output = cx.output(&target);
    let (project, hosts) = cx.load(&target)?;
    block_on(async {
        let mut stop = Interrupts::catch()?;
        let can_ask = cx.console.can_ask;
        let work = cx.shown(&output, |events| cx.backend.doctor(&project, &hosts, can_ask, cx.settings, events));
        let checkup = tokio::select! {
            checkup = work => checkup,
            () = stop.next() => return Err(CliError::interrupted("interrupted while looking; nothing was changed")),
        };
        let exit = checkup.exit_code();
        output.result(&|writer, out| writer.doctor(&checkup, exit, out))?;
        Ok(exit)
    })
}
