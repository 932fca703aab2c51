//! `forge runs`.

use super::output::VerbOutput;
use super::past_runs;
use super::verb_context::{VerbContext, VerbResult};
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

pub fn run_runs<B>(cx: &VerbContext<'_, B>, args: &RunsArgs) -> VerbResult {
    let output = VerbOutput { console: cx.console, settings: cx.settings, target: None };
    let folders = past_runs::list_run_folders(cx)?;
    if let [from, to] = args.compare.as_slice() {
        let (from, to) = (past_runs::find_run(cx, &folders, from)?, past_runs::find_run(cx, &folders, to)?);
        let comparison = engine::compare_runs(&from, &to);
        output.write_result(&|writer, out| writer.write_comparison(&comparison, out))?;
        return Ok(ExitCode::Done);
    }
    let shown = folders.iter().take(args.last.unwrap_or(usize::MAX));
    let runs: Vec<_> = shown.map(past_runs::read_listed_run).collect();
    output.write_result(&|writer, out| writer.write_runs(&runs, out))?;
    Ok(ExitCode::Done)
}
