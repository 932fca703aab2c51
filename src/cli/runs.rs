//! `forge runs`.

use super::output::VerbOutput;
use super::past;
use super::run::{VerbContext, VerbResult};
use crate::engine;
use crate::model::ExitCode;

/// List past runs, or compare two
///
/// Runs are stored in the state directory: --state, else $FORGE_STATE, else .forge next to the inventory. Lists the
/// newest first. A run without a report is still in progress, or its controller was stopped.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge runs                                     all runs
  forge runs --last 5 --format json | jq '.runs[].run.info.run'
  forge runs --compare 20261121T1046 last        differences per host and step")]
pub struct RunsArgs {
    /// List only the newest N runs
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,
    /// Compare two runs: names, unique prefixes, or `last`
    #[arg(long, num_args = 2, value_names = ["RUN", "RUN"], conflicts_with = "last")]
    pub compare: Vec<String>,
}

pub fn run<B>(cx: &VerbContext<'_, B>, args: &RunsArgs) -> VerbResult {
    let output = VerbOutput { console: cx.console, settings: cx.settings, target: None };
    let folders = past::folders(cx)?;
    if let [from, to] = args.compare.as_slice() {
        let (from, to) = (past::one(cx, &folders, from)?, past::one(cx, &folders, to)?);
        let comparison = engine::compare(&from, &to);
        output.result(&|writer, out| writer.comparison(&comparison, out))?;
        return Ok(ExitCode::Done);
    }
    let shown = folders.iter().take(args.last.unwrap_or(usize::MAX));
    let runs: Vec<_> = shown.map(past::listed).collect();
    output.result(&|writer, out| writer.runs(&runs, out))?;
    Ok(ExitCode::Done)
}
