//! `forge undo`.

use super::backend::{Backend, ObservePurpose};
use super::error::CliError;
use super::execute_plan::{check_apply_can_ask, confirm_apply, execute_plan};
use super::interrupt::InterruptSignals;
use super::inventory::{InventoryTarget, quote_argument};
use super::output::VerbOutput;
use super::past_runs;
use super::saved_plan::PlanOutputArgs;
use super::settings::CliSettings;
use super::shared_args::InventoryArg;
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use crate::config::StepFilter;
use crate::engine::{GeneratedUndo, UndoRefusal, UndoScope};
use crate::model::{ExitCode, HostName};
use crate::plan::HostPlan;
use crate::view::fold::fold_names;
use crate::view::{escape, format_count, format_host_count};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Take the changes of a run back
///
/// Before a run changes a host, it keeps there what it replaces: files with owner and mode, versions of packages, states
/// of services, settings, accounts. This verb declares that state, shows the plan, asks for confirmation, applies and
/// verifies it, last change first. The inventory is not changed: unless you change it too, the next apply brings the
/// changes back.
///
/// It is refused as a whole if a change cannot be taken back (a command, a removed directory, a change that needs a
/// window) or if a file was changed after the run; the message names each of them. `--partial` takes back the others.
///
/// With `-o FILE` the plan is saved instead, for a review, `forge sign` and `forge apply FILE`. An undo is a run as well:
/// it can be taken back. Hosts keep the last 20 runs that changed them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge undo last                                        the newest run of this machine
  forge undo 20261121T093015-4f2a -i cluster.yaml --on gpu-07
  forge undo last --step nginx/config --dry-run          show the plan only
  forge undo last -o undo.json                           save the plan, for a review and `forge apply undo.json`
  forge undo last --partial --yes                        leave out what cannot be taken back")]
pub struct UndoArgs {
    /// The run: `last`, or an ID that `forge runs` lists
    pub run: String,
    /// Skip the confirmation prompt; JSON output never implies this
    #[arg(long)]
    pub yes: bool,
    /// Show the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub keep: PlanOutputArgs,
    /// Take back what can be taken back, and leave the rest
    #[arg(long)]
    pub partial: bool,
    /// Put files back that were changed after the run; those changes are lost
    #[arg(long)]
    pub overwrite: bool,
}

pub fn run_undo<B: Backend>(cx: &VerbContext<'_, B>, args: &UndoArgs) -> VerbResult {
    let target = cx.resolve_target(&InventoryArg::default())?;
    let output = VerbOutput { target: None, ..cx.output_for(&target) };
    // The steps of the run may be gone from the inventory.
    let mut any_step = cx.settings.clone();
    any_step.filter = StepFilter::default();
    let loaded = cx.with_settings(&any_step).load_project(&target)?;
    let only_plan = args.dry_run || args.keep.output.is_some();
    if !only_plan {
        check_apply_can_ask(cx.console, args.yes)?;
    }
    let run = find_run(cx, &args.run)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let undo = read_undo(cx, &mut stop, &output, &loaded, &run, args.overwrite).await?;
        check_refusals(&undo, &run, args.partial)?;
        report_remains(cx, &undo);
        if undo.changes == 0 {
            return Err(explain_nothing(&undo, &run));
        }
        let mut settings = args.keep.apply_to_settings(&any_step)?;
        settings.undo = Some(Arc::new(undo.request));
        let cx = &cx.with_settings(&settings);
        let loaded = cx.load_project(&target)?;
        match only_plan {
            true => plan_undo(cx, args, &mut stop, &output, &loaded).await,
            false => plan_and_undo(cx, args, &mut stop, &output, &loaded).await,
        }
    })
}

/// Returns the settings with what a saved plan takes back, read from the hosts again: a plan contains no steps.
pub fn reload_undo<B: Backend>(
    cx: &VerbContext<'_, B>,
    target: &InventoryTarget,
    scope: &UndoScope,
) -> Result<CliSettings, CliError> {
    let output = VerbOutput { target: None, ..cx.output_for(target) };
    let loaded = cx.load_project(target)?;
    let mut settings = cx.settings.clone();
    settings.filter = StepFilter::new(&scope.step, &scope.skip);
    let scoped = cx.with_settings(&settings);
    let mut found = None;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        found = Some(read_undo(&scoped, &mut stop, &output, &loaded, &scope.run, scope.overwrite).await?);
        Ok(ExitCode::Done)
    })?;
    let mut settings = cx.settings.clone();
    settings.undo = found.map(|undo| Arc::new(undo.request));
    Ok(settings)
}

/// Returns the ID of the run. An ID that this machine does not know may be one of another controller.
fn find_run<B>(cx: &VerbContext<'_, B>, named: &str) -> Result<String, CliError> {
    let folders = past_runs::list_run_folders(cx)?;
    match past_runs::find_run_folder(&folders, named) {
        Ok(folder) => Ok(folder.run.clone()),
        Err(_) if is_run_id(named) => Ok(named.to_owned()),
        Err(error) => Err(error),
    }
}

/// Reports whether a text has the form of a run's ID, `20261121T093015-4f2a`: it becomes a path on hosts.
fn is_run_id(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    plain && text.len() >= 17 && text.as_bytes()[8] == b'T'
}

async fn read_undo<B: Backend>(
    cx: &VerbContext<'_, B>,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    (project, hosts): &LoadedProject<B::Project>,
    run: &str,
    overwrite: bool,
) -> Result<GeneratedUndo, CliError> {
    let machines: Vec<HostName> = hosts.iter().filter(|host| !host.is_cluster()).cloned().collect();
    let cancel = B::Cancel::default();
    let work = cx.run_with_progress(output, |events| {
        cx.backend.read_undo(project, &machines, run, overwrite, cx.settings, events, cancel.clone())
    });
    let undo = cx.run_stoppable(stop, work, &cancel).await;
    match undo.silent.as_slice() {
        [(host, why), ..] if undo.silent.len() == machines.len() => Err(CliError::unreachable(format!(
            "no host answered; nothing was changed: {host}: {}",
            escape::escape_line(why)
        ))),
        _ => Ok(undo),
    }
}

/// Refuses an undo that would leave a part of the run, unless that is wanted.
fn check_refusals(undo: &GeneratedUndo, run: &str, partial: bool) -> Result<(), CliError> {
    if undo.refused.is_empty() || partial {
        return Ok(());
    }
    let mut folded: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for UndoRefusal { host, step, why } in &undo.refused {
        let step = step.as_ref().map_or_else(|| "the whole run".to_owned(), ToString::to_string);
        folded.entry((step, why.as_str())).or_default().push(host.as_str());
    }
    let error = CliError::failed(format!(
        "{} of run {run} cannot be taken back; nothing was changed",
        format_count(folded.len(), "change")
    ));
    let noted = folded.iter().take(10).fold(error, |error, ((step, why), hosts)| {
        error.note(format!(
            "{}: {} (on {})",
            escape::escape_line(step),
            escape::escape_line(why),
            escape::escape_line(&fold_names(hosts.iter().copied()))
        ))
    });
    let more = folded.len().saturating_sub(10);
    let noted = if more > 0 { noted.note(format!("and {more} more")) } else { noted };
    Err(noted
        .hint("`--partial` takes back the rest; `--overwrite` also puts back files that were changed after the run"))
}

/// Says what the undo leaves as it is.
fn report_remains<B>(cx: &VerbContext<'_, B>, undo: &GeneratedUndo) {
    for (host, why) in &undo.silent {
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!((cx.console.err)(), "not taken back on {host}: {}", escape::escape_line(why));
    }
    for (what, hosts) in &undo.remains {
        let hosts = fold_names(hosts.iter().map(HostName::as_str));
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!(
            (cx.console.err)(),
            "stays as it is: {} (on {})",
            escape::escape_line(what),
            escape::escape_line(&hosts)
        );
    }
}

fn explain_nothing(undo: &GeneratedUndo, run: &str) -> CliError {
    match undo.refused.is_empty() {
        true => CliError::usage(format!("run {run} left nothing on these hosts that can be taken back"))
            .hint("hosts keep the last 20 runs that changed them; `forge runs` lists the runs of this machine"),
        false => CliError::failed(format!("no change of run {run} can be taken back; nothing was changed"))
            .hint("run without `--partial` for the reasons"),
    }
}

/// Shows the plan, and saves it if that is wanted.
async fn plan_undo<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &UndoArgs,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
) -> VerbResult {
    let target = args.keep.output.as_ref().map(|path| quote_argument(path.as_str()));
    let output = VerbOutput { settings: cx.settings, target, console: output.console };
    let seen = cx.observe_hosts(stop, &output, loaded, ObservePurpose::Declared).await?;
    let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
    let exit = plan.exit_code(false);
    let saved = args.keep.build_saved_plan(cx, loaded, &seen, &plan).await;
    args.keep.write_saved_plan(saved.as_ref())?;
    output.write_plan(&plan, exit, saved.as_ref().map(|saved| saved.digest.as_str()))?;
    args.keep.report_saved_plan(cx, saved.as_ref());
    Ok(exit)
}

async fn plan_and_undo<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &UndoArgs,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
) -> VerbResult {
    let output = VerbOutput { settings: cx.settings, target: None, ..*output };
    let seen = cx.observe_hosts(stop, &output, loaded, ObservePurpose::Change).await?;
    let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
    output.write_for_people(&|writer, out| writer.write_plan(&plan, ExitCode::Done, out))?;
    let changing = plan.count_steps();
    if plan.hosts.iter().any(HostPlan::will_run) {
        let question = format!(
            "take back {} on {}?",
            format_count(changing.change, "change"),
            format_host_count(changing.changing, changing.cluster_changing)
        );
        confirm_apply(cx, args.yes, &question, stop).await?;
    }
    execute_plan(cx, stop, &output, loaded, &plan, seen).await
}
