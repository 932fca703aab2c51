//! Arguments of `forge apply`.

use super::engine_args::EngineArgs;
use super::shared_args::PolicyArgs;
use crate::model::HostName;
use camino::Utf8PathBuf;

/// Apply the declared state and verify it
///
/// Plans, shows the plan, asks for confirmation, applies the changes in order and verifies every step. A failing host
/// does not stop the others. Ctrl-C stops after the running steps; a second Ctrl-C leaves them running on their hosts,
/// where the next run resumes them. A closed terminal counts as one Ctrl-C.
///
/// Accepts a saved plan instead of an inventory. It is applied only if its inputs are unchanged (otherwise exits 65
/// before contacting a host; for the plan of an undo, before changing one), and only on hosts whose state has not
/// changed since the plan: the others are stale, are skipped and reported (exit code 6). A saved plan runs once on each
/// host; `--on` applies it to some of its hosts.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge apply cluster.yaml                    plan, confirm, apply, verify
  forge apply cluster.yaml --yes              skip the confirmation, for scripts
  forge apply cluster.yaml --on 'gpu:!canary' --step nvidia-driver
  forge apply cluster.yaml --offline          use cached artifacts only
  forge apply cluster.yaml --dry-run          show the plan only
  forge apply cluster.yaml --engine local --workers 8   one plan, carried out by worker processes
  forge apply plan.json                       the plan saved by `forge plan cluster.yaml -o plan.json`
  forge apply plan.json --on node-01          only on this host; `forge apply plan.json` continues with the others")]
pub struct ApplyArgs {
    /// Inventory file or saved plan; defaults to -i, then $FORGE_INVENTORY, then ./inventory.yaml
    #[arg(value_name = "INVENTORY|PLAN")]
    pub given: Option<Utf8PathBuf>,
    /// Apply a saved plan again on hosts where it already ran
    #[arg(long)]
    pub replay: bool,
    /// Hosts that an earlier run of the saved plan has finished: they are left alone.
    #[arg(skip)]
    pub finished: Vec<HostName>,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub options: ApplyOptions,
}

/// Options of the verbs that apply a plan.
#[derive(Clone, Debug, clap::Args)]
pub struct ApplyOptions {
    /// Skip the confirmation prompt; JSON output never implies this
    #[arg(long)]
    pub yes: bool,
    /// Use cached artifacts only; fail if one is missing
    #[arg(long)]
    pub offline: bool,
    /// Show the plan and exit, as `forge plan` does
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Fail if any step or verification could not be evaluated, or a host is unreachable
    #[arg(long)]
    pub no_unknown: bool,
    /// Apply a saved plan only if a key of this allowed-signers file signed it: see `forge sign`
    #[arg(long, value_name = "ALLOWED_SIGNERS")]
    pub require_signature: Option<Utf8PathBuf>,
    /// Terminate processes that hold GPU or RDMA devices before a window opens; the reason is recorded with the run
    #[arg(long, value_name = "WHY", value_parser = parse_reason)]
    pub evict_busy: Option<String>,
}

/// Parses the reason that a forced action requires.
pub(super) fn parse_reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a reason is required".to_owned()),
        why => Ok(why.to_owned()),
    }
}
