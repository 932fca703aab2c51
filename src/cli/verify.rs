//! `forge verify`.

use super::backend::{Backend, ObservePurpose};
use super::engine_args::EngineArgs;
use super::interrupt::InterruptSignals;
use super::recording_args::ReplayArgs;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};

/// Verify the declared state (read-only)
///
/// Evaluates every step and every verification of the recipes. A result that could not be evaluated is unknown and
/// counts as not verified.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge verify cluster.yaml
  forge verify cluster.yaml --on gpu[01:08] --json-into proof.json
  forge verify cluster.yaml --engine local --workers 8   hosts are observed by worker processes")]
pub struct VerifyArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    #[command(flatten)]
    pub from: ReplayArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
}

pub fn run_verify<B: Backend>(cx: &VerbContext<'_, B>, args: &VerifyArgs) -> VerbResult {
    let settings = args.engine.apply_to_settings(&args.from.apply_to_settings(cx.settings)?)?;
    let cx = &VerbContext { settings: &settings, ..*cx };
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project(&target)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let seen = cx.observe_hosts(&mut stop, &output, &loaded, ObservePurpose::Declared).await?;
        let cancel = B::Cancel::default();
        let work = cx.run_with_progress(&output, |events| {
            cx.backend.verify(&loaded.0, seen, cx.settings, events, cancel.clone())
        });
        let report = cx.run_stoppable(&mut stop, work, &cancel).await;
        let exit = report.exit_code();
        cx.write_recordings(&output)?;
        output.write_result(&|writer, out| writer.write_report(&report, exit, out))?;
        Ok(exit)
    })
}
