//! `forge drift`.

use super::args::{Format, InventoryArg};
use super::backend::{Ask, Backend};
use super::interrupt::Interrupts;
use super::recorded::Recorded;
use super::run::{Cx, Ending, block_on};
use crate::view;

/// Tell what is not as declared any more, why, and change nothing
///
/// Compares what is declared with what hosts show and with what they remember of the last apply: that tells a machine
/// that was changed from a recipe that was changed. Nothing is written on a host, and nothing is asked that would
/// change one. One line where everything is as declared. Ends with 0 when it is, 2 when something is not; what is
/// pending or blocked is not.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge drift cluster.yaml                     what moved, equal findings once
  forge drift cluster.yaml -v                  also who applied it last, when, and where it is declared
  forge drift cluster.yaml --on gpu --format json
  forge drift cluster.yaml --format ndjson     one message a line, the version first
  forge drift cluster.yaml --record seen.json  also keep what hosts answered; `plan --observed` reads it")]
pub struct Args {
    #[command(flatten)]
    pub inventory: InventoryArg,
    #[command(flatten)]
    pub recorded: Recorded,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let settings = args.recorded.settings(cx.settings)?;
    let cx = &cx.with(&settings);
    let target = cx.target(&args.inventory)?;
    let output = cx.output(&target);
    let loaded = cx.load(&target)?;
    block_on(async {
        let mut stop = Interrupts::catch()?;
        let seen = cx.observe(&mut stop, &output, &loaded, Ask::Declared).await?;
        args.recorded.write(cx.backend, &loaded.0, &seen)?;
        let drift = cx.backend.drift(&loaded.0, &seen, cx.settings);
        let exit = drift.exit_code();
        match cx.settings.format {
            Format::Ndjson => {
                output.drawn(&|out| view::drift_messages(&drift, exit, out))?;
                output.file_beside(&|writer, out| writer.drift(&drift, exit, out))?;
            }
            _ => output.result(&|writer, out| writer.drift(&drift, exit, out))?,
        }
        Ok(exit)
    })
}
