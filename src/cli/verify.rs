//! `forge verify`.

use super::args::InventoryArg;
use super::backend::{Backend, ObservePurpose};
use super::interrupt::InterruptSignals;
use super::recorded::ReplayArgs;
use super::run::{VerbContext, VerbResult, block_on};

/// Verify the declared state (read-only)
///
/// Evaluates every step and every verification of the recipes. A result that could not be evaluated is unknown and
/// counts as not verified.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge verify cluster.yaml
  forge verify cluster.yaml --on gpu[01:08] --json-into proof.json")]
pub struct VerifyArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    #[command(flatten)]
    pub from: ReplayArgs,
}

pub fn run<B: Backend>(cx: &VerbContext<'_, B>, args: &VerifyArgs) -> VerbResult {
    let settings = args.from.settings(cx.settings)?;
    let cx = &VerbContext { settings: &settings, ..*cx };
    let target = cx.target(&args.inventory)?;
    let output = cx.output(&target);
    let loaded = cx.load(&target)?;
    block_on(async {
        let mut stop = InterruptSignals::catch()?;
        let seen = cx.observe(&mut stop, &output, &loaded, ObservePurpose::Declared).await?;
        let cancel = B::Cancel::default();
        let work = cx.shown(&output, |events| cx.backend.verify(&loaded.0, seen, cx.settings, events, cancel.clone()));
        let report = cx.stoppable(&mut stop, work, &cancel).await;
        let exit = report.exit_code();
        output.result(&|writer, out| writer.report(&report, exit, out))?;
        Ok(exit)
    })
}
