//! `forge facts`.

use super::backend::{Backend, ObservePurpose};
use super::interrupt::InterruptSignals;
use super::recording_args::RecordingArgs;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};
use crate::engine;
use crate::model::ExitCode;
use crate::plan::ObservedHost;

/// Show the facts of hosts (read-only)
///
/// Prints one line per value, with the hosts that share it. A fact that could not be read is shown as unknown, with the
/// reason; it is never shown as empty.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge facts cluster.yaml --on gpu
  forge facts cluster.yaml --outliers          hosts that differ from their peers, and how
  forge facts cluster.yaml -v                  show long lists in full
  forge facts cluster.yaml --record seen.json  save the raw answers for --observed
  forge facts cluster.yaml --format json | jq '.facts[] | {host, kernel: .facts.kernel.value}'")]
pub struct FactsArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    #[command(flatten)]
    pub recorded: RecordingArgs,
    /// Show how outliers differ from the majority of their peers, rarest first
    #[arg(long)]
    pub outliers: bool,
}

pub fn run_facts<B: Backend>(cx: &VerbContext<'_, B>, args: &FactsArgs) -> VerbResult {
    let settings = args.recorded.apply_to_settings(cx.settings)?;
    let cx = &VerbContext { settings: &settings, ..*cx };
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project(&target)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let seen = cx.observe_hosts(&mut stop, &output, &loaded, ObservePurpose::Facts).await?;
        args.recorded.write_recording(cx.backend, &loaded.0, &seen)?;
        let seen = seen.as_ref();
        let exit = facts_exit_code(seen);
        cx.write_recordings(&output)?;
        if args.outliers {
            let outliers = engine::find_host_outliers(cx.backend.project(&loaded.0), seen);
            output.write_result(&|writer, out| writer.write_outliers(seen, &outliers, exit, out))?;
            return Ok(exit);
        }
        output.write_result(&|writer, out| writer.write_facts(seen, exit, out))?;
        Ok(exit)
    })
}

/// Returns the exit code for the shown facts.
pub fn facts_exit_code(seen: &[ObservedHost]) -> ExitCode {
    // An unknown fact is shown with its reason, which is a complete answer, so it does not change the exit code.
    let of_host = |host: &ObservedHost| match host.is_observed() {
        false => ExitCode::Unreachable,
        true => ExitCode::Done,
    };
    ExitCode::pick_worst(seen.iter().map(of_host))
}
