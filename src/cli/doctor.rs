//! `forge doctor`.

use super::backend::Backend;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};

/// Check connectivity and prerequisites of every host (read-only)
///
/// Checks this machine (ssh, control sockets, terminal, and the state directory by writing a file that it removes
/// again), the cluster's API if one is declared (reachability, permissions, helm), and every host: name, port, host key
/// and user key, root or sudo, required programs (a POSIX shell and coreutils; no Python), disk space and read-only file
/// systems, clock, writer lock, package manager, and facts that recipes read but that would be unknown. Exits 3 if a host
/// is not ready, 4 if a host is unreachable, 9 if a check could not be evaluated.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge doctor cluster.yaml
  forge doctor cluster.yaml --on gpu -v      also show passed checks
  forge doctor cluster.yaml --format json | jq -r '.doctor.hosts[] | select(.reach != \"observed\") | .host'
  forge doctor cluster.yaml -q && forge apply cluster.yaml --yes")]
pub struct DoctorArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
}

pub fn run_doctor<B: Backend>(cx: &VerbContext<'_, B>, args: &DoctorArgs) -> VerbResult {
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let (project, hosts) = cx.load_project(&target)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let can_ask = cx.console.can_ask;
        let work = cx.run_with_progress(&output, |events| {
            cx.backend.check_hosts(&project, &hosts, can_ask, cx.settings, events)
        });
        let checkup = tokio::select! {
            checkup = work => checkup,
            () = stop.next_interrupt() => return Err(CliError::interrupted("interrupted during the checks; nothing was changed")),
        };
        let exit = checkup.exit_code();
        output.write_result(&|writer, out| writer.write_checkup(&checkup, exit, out))?;
        Ok(exit)
    })
}
