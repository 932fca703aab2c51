//! `forge resume`.

use super::apply_args::{ApplyArgs, ApplyOptions};
use super::backend::Backend;
use super::engine_args::EngineArgs;
use super::error::CliError;
use super::inventory::{InventoryTarget, quote_argument};
use super::output::VerbOutput;
use super::secret_programs::SecretNeed;
use super::shared_args::{InventoryArg, OutputFormat};
use super::verb_context::{VerbContext, VerbResult};
use super::{apply, apply_saved, past_runs, saved_plan};
use crate::config::RecipeStep;
use crate::engine::{HostReport, PastRun, SavedPlan};
use crate::graph::DependencyKind;
use crate::model::{ExitCode, HostName, HostOutcome, StepScope};
use crate::plan::StepTable;
use crate::view::progress::ProgressDetail;
use crate::view::{escape, format_count};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;
use std::io::Write;

/// Resume a run on the hosts that it did not finish
///
/// Plans again for the hosts of the run that failed, were unreachable, were not started, or did not reach the declared
/// state for another reason; shows the plan, asks for confirmation, applies and verifies it. Without RUN: the newest apply
/// of this cluster in the history of this machine. `--on` limits the hosts further. The run may have been stopped, killed
/// or have failed. forge waits for steps that are still running on a host. If the newest apply is finished, but one of the
/// 50 runs before failed on hosts that no later one included, exits 3 and names that run.
///
/// If the run applied a saved plan whose file and inputs are unchanged, that plan is applied again on the hosts that it
/// did not finish, or on all of them if steps wait for other hosts or for the cluster. With `--step` or `--skip`, or if it
/// does not hold any more, a new plan is made and shown.
///
/// If steps of these hosts depend on other hosts (scope `one`, exported values, barriers), all hosts of the run are
/// planned, unless `--on` is given.
///
/// Where the history has no such run, as on another machine, all hosts are planned: those in the declared state do not
/// change.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge resume                                the newest apply of ./inventory.yaml
  forge resume -i cluster.yaml --yes          skip the confirmation, for scripts
  forge resume 20261121T093015-4f2a --on gpu  only hosts of the group gpu
  forge resume --dry-run                      show the plan only")]
pub struct ResumeArgs {
    /// The run: `last`, a name or a unique prefix; defaults to the newest apply of the cluster
    pub run: Option<String>,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub options: ApplyOptions,
}

/// How many earlier runs are searched for hosts that were left.
const SEARCHED_RUNS: usize = 50;

/// The selector of the hosts that a run did not finish.
const UNFINISHED: &str = "@unfinished";

pub fn run_resume<B: Backend>(cx: &VerbContext<'_, B>, args: &ResumeArgs) -> VerbResult {
    if let Some(file) = args.run.as_deref().filter(|run| run.ends_with(".yaml") || run.ends_with(".yml")) {
        let hint = format!("pass the inventory as `-i {}`", quote_argument(file));
        return Err(CliError::usage(format!("`{file}` is not a run")).hint(hint));
    }
    let target = cx.resolve_target(&InventoryArg::default())?;
    let Some(run) = find_resumed_run(cx, &target.path, args.run.as_deref())? else {
        print_note(cx, "this machine has no such run in its history: all hosts are planned");
        return apply::run_apply(cx, &build_apply_args(args, None));
    };
    if run.is_unrecorded() {
        print_note(cx, &format!("run {} left no records: all hosts are planned", run.info.run));
        return apply::run_apply(cx, &build_apply_args(args, None));
    }
    let (id, all) = (&run.info.run, run.report.hosts.len());
    let unfinished = run.report.hosts.iter().filter(|host| host.is_unfinished()).count();
    if unfinished == 0 {
        check_selection(cx, &target)?;
        print_note(cx, &format!("nothing to resume: run {id} finished on {}", format_count(all, "host")));
        let ended = show_finished_run(&cx.output_for(&target), &run)?;
        // With a selection or a run, the user means no other hosts.
        if args.run.is_some() || cx.settings.on.is_some() {
            return Ok(ended);
        }
        let left = find_left_hosts(cx, &target.path, &run)?;
        left.iter().for_each(|(left, hosts)| print_note(cx, &describe_left_hosts(left, hosts)));
        return Ok(if left.is_some() { ExitCode::HostsFailed } else { ended });
    }
    print_note(cx, &format!("resuming run {id}: {unfinished} of {} unfinished", format_count(all, "host")));
    if let Some(ending) = resume_saved_plan(cx, args, &run, list_finished_hosts(cx, &target.path, &run)) {
        return ending;
    }
    if cx.settings.on.is_none() && depends_on_other_hosts(cx, &target.path, &run) {
        print_note(cx, "steps there depend on other hosts: all hosts of the run are planned");
        let names: Vec<&str> = run.report.hosts.iter().map(|host| host.host.as_str()).collect();
        let settings = cx.settings.with_selection(&names.join(","));
        return apply::run_apply(&cx.with_settings(&settings), &build_apply_args(args, None));
    }
    let on = cx.settings.on.as_ref().map_or_else(|| UNFINISHED.to_owned(), |on| format!("{on}:&{UNFINISHED}"));
    let mut settings = cx.settings.clone();
    (settings.on, settings.past_run) = (Some(on), Some(id.clone()));
    apply::run_apply(&cx.with_settings(&settings), &build_apply_args(args, None))
}

/// Checks that `--on` names hosts of the inventory: no apply follows that would. Hosts of the last run may be none.
fn check_selection<B: Backend>(cx: &VerbContext<'_, B>, target: &InventoryTarget) -> Result<(), CliError> {
    if cx.settings.on.as_deref().is_none_or(|on| on.contains('@')) {
        return Ok(());
    }
    let mut settings = cx.settings.clone();
    settings.secrets = SecretNeed::No;
    cx.with_settings(&settings).load_project(target).map(|_| ())
}

/// Finds the newest earlier apply that failed on hosts which no later one included, as after `resume --on HOST`.
fn find_left_hosts<B: Backend>(
    cx: &VerbContext<'_, B>,
    inventory: &Utf8Path,
    newest: &PastRun,
) -> Result<Option<(PastRun, Vec<HostName>)>, CliError> {
    let Some(mut open) = list_inventory_hosts(cx, inventory) else { return Ok(None) };
    let exclude = |open: &mut BTreeSet<HostName>, run: &PastRun| {
        open.retain(|host| run.report.hosts.iter().all(|done| done.host != *host));
    };
    exclude(&mut open, newest);
    for folder in past_runs::list_cluster_runs(cx, inventory)?.iter().take(SEARCHED_RUNS) {
        if open.is_empty() {
            break;
        }
        // What an undo took back is not missing. A run that cannot be read does not hide the others.
        let Ok(run) = past_runs::read_run(folder) else { continue };
        if run.info.verb == "undo" {
            exclude(&mut open, &run);
        }
        if !past_runs::is_counted_apply(&run) || run.active || run.info.run >= newest.info.run {
            continue;
        }
        // What options of that run held back did not fail.
        let failed = |host: &&HostReport| host.is_unfinished() && host.outcome != HostOutcome::Pending;
        let left = run.report.hosts.iter().filter(|host| open.contains(&host.host)).filter(failed);
        let left: Vec<HostName> = left.map(|host| host.host.clone()).collect();
        if !left.is_empty() {
            return Ok(Some((run, left)));
        }
        exclude(&mut open, &run);
    }
    Ok(None)
}

/// Returns the hosts of the inventory; `None` if it has errors, which are left to the verb that needs it.
fn list_inventory_hosts<B: Backend>(cx: &VerbContext<'_, B>, inventory: &Utf8Path) -> Option<BTreeSet<HostName>> {
    let project = load_without_secrets(cx, inventory)?;
    Some(cx.backend.project(&project).hosts.keys().cloned().collect())
}

fn describe_left_hosts(run: &PastRun, hosts: &[HostName]) -> String {
    let (id, count) = (&run.info.run, format_count(hosts.len(), "host"));
    let names: Vec<&str> = hosts.iter().map(HostName::as_str).collect();
    let names = names.join(",");
    format!("run {id} left {count} unfinished, which no later run included: `forge resume {id} --on {names}`")
}

/// Returns the hosts that a run of a saved plan finished, and that nothing in the plan needs again: none if a step waits
/// for other hosts or for the cluster, since the plan counts all of them.
fn list_finished_hosts<B: Backend>(cx: &VerbContext<'_, B>, inventory: &Utf8Path, run: &PastRun) -> Vec<HostName> {
    let Some(project) = load_without_secrets(cx, inventory) else { return Vec::new() };
    let project = cx.backend.project(&project);
    let table = StepTable::new(project);
    let crosses = |recipe: &str, step: &RecipeStep| {
        let index = project.graph.find_step(recipe, &step.name);
        matches!(step.scope, StepScope::One | StepScope::Fleet)
            || index.is_some_and(|index| project.graph.incoming_edges(index).any(|edge| table.crosses_hosts(edge)))
    };
    let instances = run.report.hosts.iter().filter_map(|host| project.instances.get(&host.host)).flatten();
    if instances.into_iter().any(|own| own.recipe.steps.iter().any(|step| crosses(&own.recipe.name, step))) {
        return Vec::new();
    }
    let finished = run.report.hosts.iter().filter(|host| !host.is_unfinished() && !host.host.is_cluster());
    let finished: Vec<HostName> = finished.map(|host| host.host.clone()).collect();
    // Without a machine, only the cluster is left: the plan of all hosts reaches it.
    let machines = run.report.hosts.iter().filter(|host| !host.host.is_cluster()).count();
    if finished.len() == machines { Vec::new() } else { finished }
}

/// Reports whether a step of the unfinished hosts runs on one host for all, waits for other hosts, or reads their exported
/// values: a plan of some hosts cannot know the state of the others. Errors of the inventory are left to the apply.
fn depends_on_other_hosts<B: Backend>(cx: &VerbContext<'_, B>, inventory: &Utf8Path, run: &PastRun) -> bool {
    let Some(project) = load_without_secrets(cx, inventory) else { return false };
    let project = cx.backend.project(&project);
    let is_shared = |recipe: &str, step: &RecipeStep| {
        let index = project.graph.find_step(recipe, &step.name);
        let crosses = |why: DependencyKind| matches!(why, DependencyKind::Export | DependencyKind::Barrier);
        matches!(step.scope, StepScope::One | StepScope::Fleet)
            || index.is_some_and(|index| project.graph.incoming_edges(index).any(|edge| crosses(edge.why)))
    };
    let open = run.report.hosts.iter().filter(|host| host.is_unfinished());
    let instances = open.filter_map(|host| project.instances.get(&host.host)).flatten();
    instances.into_iter().any(|own| own.recipe.steps.iter().any(|step| is_shared(&own.recipe.name, step)))
}

/// Loads the inventory. The programs of secrets run once per verb, for the apply.
fn load_without_secrets<B: Backend>(cx: &VerbContext<'_, B>, inventory: &Utf8Path) -> Option<B::Project> {
    let mut settings = cx.settings.clone();
    settings.secrets = SecretNeed::No;
    cx.backend.load_project(inventory, &settings).0
}

fn print_note<B>(cx: &VerbContext<'_, B>, text: &str) {
    if cx.settings.detail > ProgressDetail::Quiet {
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!((cx.console.err)(), "{}", escape::escape_line(text));
    }
}

fn build_apply_args(args: &ResumeArgs, plan: Option<Utf8PathBuf>) -> ApplyArgs {
    let (engine, options) = (args.engine.clone(), args.options.clone());
    ApplyArgs { replay: plan.is_some(), given: plan, finished: Vec::new(), engine, options }
}

fn show_finished_run(output: &VerbOutput<'_>, run: &PastRun) -> VerbResult {
    match output.settings.format {
        OutputFormat::Text => output.write_json_file(&|writer, out| writer.write_run(run, out))?,
        _ => output.write_result(&|writer, out| writer.write_run(run, out))?,
    }
    Ok(ExitCode::Done)
}

/// Returns the run to resume; `None` if the history has none.
///
/// # Errors
/// Usage: the name is ambiguous or names nothing, or the run cannot be resumed. Unexpected: it cannot be read.
fn find_resumed_run<B>(
    cx: &VerbContext<'_, B>,
    inventory: &Utf8Path,
    named: Option<&str>,
) -> Result<Option<PastRun>, CliError> {
    let folders = past_runs::list_cluster_runs(cx, inventory)?;
    let run = match named {
        Some("last") | None => past_runs::find_newest_apply(&folders)?,
        Some(named) => match past_runs::find_run_folder(&folders, named) {
            Ok(folder) => Some(past_runs::read_run(folder)?),
            // It may be a run of another machine.
            Err(_) if past_runs::is_run_id(named) => None,
            Err(error) => return Err(error),
        },
    };
    match run {
        Some(run) if run.info.verb != "apply" => {
            let error = CliError::usage(format!("run `{}` is not an apply: `{}`", run.info.run, run.info.verb));
            Err(error.hint("`forge undo RUN` takes up an undo"))
        }
        Some(run) if run.active => Err(CliError::usage(format!("run `{}` is still in progress", run.info.run))
            .hint("`forge runs --watch` shows what it does")),
        run => Ok(run),
    }
}

/// Applies the saved plan of the run again, if it had one that still holds, on the hosts that are not `finished`. Returns
/// `None` if a new plan is needed.
fn resume_saved_plan<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &ResumeArgs,
    run: &PastRun,
    finished: Vec<HostName>,
) -> Option<VerbResult> {
    let file = run.info.plan_file.as_ref()?;
    let path = Utf8Path::new(&file.path);
    if !cx.typed.step.is_empty() || !cx.typed.skip.is_empty() {
        print_note(cx, &format!("the saved plan `{path}` has steps of its own: making a new plan"));
        return None;
    }
    let same = |text: &String| SavedPlan::parse(text).is_ok_and(|saved| saved.digest == file.digest);
    let Some(text) = saved_plan::read_given_plan(Some(path)).filter(same) else {
        print_note(cx, &format!("the saved plan `{path}` is gone or another one: making a new plan"));
        return None;
    };
    let apply = ApplyArgs { finished, ..build_apply_args(args, Some(path.to_owned())) };
    let ending = apply_saved::run_saved_plan(cx, &apply, path, &text);
    let changed = ending.as_ref().err().filter(|error| error.exit == ExitCode::Input).and_then(CliError::message);
    // An error of the inventory is already reported, and a missing signature must not lead to another plan.
    match changed.filter(|_| args.options.require_signature.is_none()) {
        Some(why) => {
            print_note(cx, &format!("{why}: making a new plan"));
            None
        }
        None => Some(ending),
    }
}
