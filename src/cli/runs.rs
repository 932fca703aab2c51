//! `forge runs`.

use super::error::CliError;
use super::inventory::duplicate_inventory_error;
use super::output::VerbOutput;
use super::past_runs;
use super::verb_context::{VerbContext, VerbResult};
use super::watch_run::watch_run;
use crate::engine;
use crate::model::ExitCode;
use crate::state::{RunFolder, TestReportFile};
use crate::view::ListedRun;
use camino::Utf8PathBuf;

/// List past runs, compare two, or watch one in progress
///
/// Runs are stored in the state directory: --state, else $FORGE_STATE, else .forge next to the inventory. Lists the
/// newest first, runs of `forge test` included; with an inventory, those of its cluster. A run without a report is still
/// in progress, or its controller was stopped.
///
/// `--watch` shows the newest run that this machine is working on as `apply` shows it: the steps in flight on each host,
/// and since when. On a terminal, it is redrawn, elsewhere each event is a line. When the run ends, it prints its report, as
/// `forge show` does. Ctrl-C ends only the watching.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge runs                                     all runs
  forge runs cluster.yaml                        runs of its cluster
  forge runs --watch                             what the run in progress does
  forge runs --last 5 --format json | jq '.runs[].run.info.run'
  forge runs --compare 20261121T1046 last        differences per host and step")]
pub struct RunsArgs {
    /// Inventory file: only runs of its cluster
    pub inventory: Option<Utf8PathBuf>,
    /// List only the newest N runs
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,
    /// Compare two runs: names, unique prefixes, or `last`
    #[arg(long, num_args = 2, value_names = ["RUN", "RUN"], conflicts_with = "last")]
    pub compare: Vec<String>,
    /// Watch the newest run in progress until it ends
    #[arg(long, conflicts_with_all = ["last", "compare"])]
    pub watch: bool,
}

pub fn run_runs<B>(cx: &VerbContext<'_, B>, args: &RunsArgs) -> VerbResult {
    let output = VerbOutput { console: cx.console, settings: cx.settings, target: None, resume: None };
    let folders = match (&args.inventory, &cx.typed.inventory_flag) {
        (Some(argument), Some(flag)) => return Err(duplicate_inventory_error(argument, flag)),
        (Some(inventory), None) if !inventory.exists() => {
            let error = CliError::usage(format!("`{inventory}` does not exist"));
            return Err(error.hint("`forge runs` without an inventory lists the runs of all clusters"));
        }
        (Some(inventory), None) => past_runs::list_cluster_runs(cx, inventory)?,
        (None, _) => past_runs::list_run_folders(cx)?,
    };
    if args.watch {
        return watch_run(cx, &output, &folders);
    }
    if let [from, to] = args.compare.as_slice() {
        let (from, to) = (past_runs::find_run(cx, &folders, from)?, past_runs::find_run(cx, &folders, to)?);
        let comparison = engine::compare_runs(&from, &to);
        output.write_result(&|writer, out| writer.write_comparison(&comparison, out))?;
        return Ok(ExitCode::Done);
    }
    let inventory = args.inventory.as_ref().or(cx.typed.inventory_flag.as_ref());
    let tests = past_runs::list_test_reports(cx, inventory.map(|path| path.as_path()))?;
    let runs = read_newest(&folders, &tests, args.last.unwrap_or(usize::MAX));
    output.write_result(&|writer, out| writer.write_runs(&runs, out))?;
    if runs.is_empty() && args.inventory.is_none() {
        past_runs::report_missing_runs(cx)?;
    }
    Ok(ExitCode::Done)
}

/// Reads the newest runs and runs of tests, both sorted with the newest first. The ID of a run begins with its time.
fn read_newest(folders: &[RunFolder], tests: &[TestReportFile], limit: usize) -> Vec<ListedRun> {
    let (mut folders, mut tests) = (folders.iter().peekable(), tests.iter().peekable());
    let next = || {
        let is_test = match (folders.peek(), tests.peek()) {
            (Some(run), Some(test)) => test.run > run.run,
            (run, _) => run.is_none(),
        };
        match is_test {
            true => tests.next().map(past_runs::read_listed_tests),
            false => folders.next().map(past_runs::read_listed_run),
        }
    };
    std::iter::from_fn(next).take(limit).collect()
}
