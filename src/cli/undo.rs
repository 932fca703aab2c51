//! `forge undo`.

use super::backend::{Backend, ObservePurpose};
use super::error::CliError;
use super::execute_plan::{check_can_ask, confirm_apply, execute_plan};
use super::interrupt::InterruptSignals;
use super::inventory::{InventoryTarget, quote_argument};
use super::output::VerbOutput;
use super::past_runs;
use super::saved_plan::PlanOutputArgs;
use super::settings::CliSettings;
use super::shared_args::InventoryArg;
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use crate::config::{Project, StepFilter};
use crate::engine::{ChangedSteps, GeneratedUndo, UndoRefusal, UndoScope, UndoSelection};
use crate::model::{ExitCode, HostName, UndoRetention};
use crate::plan::{HostPlan, Plan};
use crate::view::fold::fold_names;
use crate::view::{UndoRefusalList, escape, format_count, format_host_count};
use camino::Utf8Path;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Undo the changes of a run
///
/// Before a run changes a host, it stores there what it replaces: files with owner and mode, versions of packages, states
/// of services, settings, accounts. Before it changes the Kubernetes API, it stores labels and taints of nodes, fields of
/// objects and revisions of releases in the cluster. This verb declares that state, shows the plan, asks for confirmation, applies and
/// verifies it, last change first. It does not change the inventory: unless you do, the next apply makes the changes
/// again.
///
/// If a change cannot be undone (a command without `remove`, a removed directory, a change that needs a window), or a
/// file or object was changed after the run, nothing is undone, and the error lists each reason. `--partial` undoes the rest.
///
/// With `-o FILE` the plan is saved instead, for a review, `forge sign` and `forge apply FILE`. An undo is a run too, and
/// can be undone. Hosts keep the last runs that changed them, 20 unless the inventory declares another number.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge undo last                                        the newest run of this machine
  forge undo 20261121T093015-4f2a -i cluster.yaml --on gpu-07
  forge undo last --step nginx/config --dry-run          show the plan only
  forge undo last -o undo.json                           save the plan, for a review and `forge apply undo.json`
  forge undo last --partial --yes                        skip changes that cannot be undone")]
pub struct UndoArgs {
    /// The run: `last`, or an ID that `forge runs` lists
    pub run: String,
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Skip the confirmation prompt; JSON output never implies this
    #[arg(long)]
    pub yes: bool,
    /// Show the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub keep: PlanOutputArgs,
    /// Skip changes that cannot be undone
    #[arg(long)]
    pub partial: bool,
    /// Also restore files and objects that were changed after the run; those changes are lost
    #[arg(long)]
    pub overwrite: bool,
}

pub fn run_undo<B: Backend>(cx: &VerbContext<'_, B>, args: &UndoArgs) -> VerbResult {
    let target = cx.resolve_target(&args.inventory)?;
    let output = VerbOutput { target: None, resume: None, ..cx.output_for(&target) };
    // The steps of the run may be gone from the inventory.
    let mut any_step = cx.settings.clone();
    any_step.filter = StepFilter::default();
    let loaded = cx.with_settings(&any_step).load_project(&target)?;
    let only_plan = args.dry_run || args.keep.output.is_some();
    let run = NamedRun::read(cx, cx.backend.project(&loaded.0), find_run(cx, &args.run)?)?;
    if !only_plan {
        check_can_ask(cx.console, "undo", args.yes)?;
    }
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let undo = read_undo(cx, &mut stop, &output, &loaded, run.select(&cx.settings.filter, args.overwrite)).await?;
        let (run, kept) = (&run.id, cx.backend.project(&loaded.0).undo);
        if undo.changes == 0 && undo.silent.is_empty() && undo.refused.len() == undo.forgotten {
            let error = explain_nothing(&undo, run, kept);
            let earlier = find_earlier_change(cx, cx.backend.project(&loaded.0), run);
            return Err(match earlier {
                Some(earlier) => error.note(format!("the newest run before it that changed something: {earlier}")),
                None => error,
            });
        }
        if let Err(error) = check_refusals(&undo, run, args.partial) {
            let refusal = UndoRefusalList { run, refused: &undo.refused };
            output.write_result(&|writer, out| writer.write_undo_refusal(&refusal, error.exit, out))?;
            return Err(error);
        }
        report_unchanged(cx, &undo);
        if undo.changes == 0 {
            return Err(CliError::failed(format!("no change of run {run} can be undone; nothing was changed")));
        }
        let mut settings = args.keep.apply_to_settings(&any_step)?;
        settings.undo = Some(Arc::new(undo.into_request()));
        let cx = &cx.with_settings(&settings);
        let loaded = cx.load_project(&target)?;
        let suggested = args.keep.output.as_ref().map(|path| quote_argument(path.as_str()));
        let output = VerbOutput { settings: cx.settings, target: suggested, resume: None, console: cx.console };
        let ask = if only_plan { ObservePurpose::Declared } else { ObservePurpose::Change };
        let seen = cx.observe_hosts(&mut stop, &output, &loaded, ask).await?;
        let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
        match only_plan {
            true => write_undo_plan(cx, args, &output, &loaded, &seen, &plan).await,
            false => {
                output.write_for_people(&|writer, out| writer.write_plan(&plan, ExitCode::Done, out))?;
                if plan.hosts.iter().any(HostPlan::will_run) {
                    confirm_apply(cx, args.yes, &format_question(&plan), &mut stop).await?;
                }
                execute_plan(cx, &mut stop, &output, &loaded, &plan, seen).await
            }
        }
    })
}

/// What the hosts keep now for the undo of a saved plan.
pub struct ReloadedUndo {
    /// Why changes are not undone: a line each.
    refusals: Vec<String>,
    run: String,
}

impl ReloadedUndo {
    /// Returns the error of a plan that differs from the undo that would be planned now. `difference` says how.
    pub fn explain_difference(&self, path: &Utf8Path, difference: Option<String>) -> CliError {
        let run = &self.run;
        let message =
            format!("`{path}` differs from the undo of run {run} that the hosts allow now; nothing was changed");
        let reasons = self.refusals.iter().map(|refusal| format!("not undone now: {refusal}"));
        let error = reasons.chain(difference).fold(CliError::stale(message), CliError::note);
        error.hint(self.advise_new_plan())
    }

    /// Returns how to make a new plan.
    pub fn advise_new_plan(&self) -> String {
        format!("make a new plan with `forge undo {} -o FILE` and have it reviewed", self.run)
    }
}

/// Returns the settings for the undo of a saved plan, read from the hosts again: a plan contains no steps.
pub fn reload_undo<B: Backend>(
    cx: &VerbContext<'_, B>,
    target: &InventoryTarget,
    scope: &UndoScope,
) -> Result<(CliSettings, ReloadedUndo), CliError> {
    let output = VerbOutput { target: None, resume: None, ..cx.output_for(target) };
    let loaded = cx.load_project(target)?;
    let mut settings = cx.settings.clone();
    settings.filter = StepFilter::new(&scope.step, &scope.skip);
    let scoped = cx.with_settings(&settings);
    let mut found = None;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let run = NamedRun::read(cx, cx.backend.project(&loaded.0), scope.run.clone())?;
        let selection = run.select(&scoped.settings.filter, scope.overwrite);
        let undo = read_undo(&scoped, &mut stop, &output, &loaded, selection).await?;
        found = Some(undo);
        Ok(ExitCode::Done)
    })?;
    let (mut settings, undo) = (cx.settings.clone(), found.unwrap_or_default());
    let refusals = fold_refusals(&undo.refused).into_iter().chain(list_silent_hosts(&undo)).collect();
    settings.undo = Some(Arc::new(undo.into_request()));
    Ok((settings, ReloadedUndo { refusals, run: scope.run.clone() }))
}

/// The run to undo, with what this machine knows of it.
struct NamedRun {
    id: String,
    /// `None` if this machine does not have its report.
    changed: Option<ChangedSteps>,
}

impl NamedRun {
    /// Reads the report of a run. A run of another cluster changed nothing of this one.
    fn read<B>(cx: &VerbContext<'_, B>, project: &Project, id: String) -> Result<Self, CliError> {
        let folders = past_runs::list_run_folders(cx)?;
        let folder = folders.iter().find(|folder| folder.run == id);
        let past = folder.map(past_runs::read_run).transpose()?.filter(|past| !past.is_unrecorded());
        let changed = past.map(|past| match past.info.cluster == project.cluster {
            true => ChangedSteps::from_run(&past),
            false => ChangedSteps::default(),
        });
        Ok(Self { id, changed })
    }

    fn select<'r>(&'r self, filter: &'r StepFilter, overwrite: bool) -> UndoSelection<'r> {
        UndoSelection { run: &self.id, filter, overwrite, changed: self.changed.as_ref() }
    }
}

/// Returns the ID of the run. An ID that this machine does not know may be one of another controller.
fn find_run<B>(cx: &VerbContext<'_, B>, named: &str) -> Result<String, CliError> {
    let folders = past_runs::list_run_folders(cx)?;
    match past_runs::find_run_folder(&folders, named) {
        Ok(folder) => Ok(folder.run.clone()),
        Err(_) if past_runs::is_run_id(named) => Ok(named.to_owned()),
        Err(error) => Err(error),
    }
}

async fn read_undo<B: Backend>(
    cx: &VerbContext<'_, B>,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    (project, hosts): &LoadedProject<B::Project>,
    selection: UndoSelection<'_>,
) -> Result<GeneratedUndo, CliError> {
    let members = list_members(cx, project, hosts);
    let cancel = B::Cancel::default();
    let work = cx.run_with_progress(output, |events| {
        cx.backend.read_undo(project, &members, selection, cx.settings, events, cancel.clone())
    });
    let mut undo = cx.run_stoppable(stop, work, &cancel).await;
    if cx.settings.on.is_none() {
        undo.refuse_missing_hosts(selection, &members);
    }
    match undo.silent.as_slice() {
        [(host, why), ..] if undo.silent.len() == members.len() => Err(CliError::unreachable(format!(
            "no host answered; nothing was changed: {host}: {}",
            escape::escape_line(why)
        ))),
        _ => Ok(undo),
    }
}

/// Returns the hosts to ask, and the cluster if it is selected. Without `--on` it is, although the inventory may have no
/// step of the cluster any more.
fn list_members<B: Backend>(cx: &VerbContext<'_, B>, project: &B::Project, hosts: &[HostName]) -> Vec<HostName> {
    let mut members = hosts.to_vec();
    let has_cluster = cx.backend.project(project).kubernetes.is_some();
    if has_cluster && cx.settings.on.is_none() && !members.iter().any(HostName::is_cluster) {
        members.push(HostName::cluster_api());
    }
    members
}

/// Rejects an undo that would skip changes, unless `partial`.
fn check_refusals(undo: &GeneratedUndo, run: &str, partial: bool) -> Result<(), CliError> {
    if undo.refused.is_empty() || partial {
        return Ok(());
    }
    let refusals = fold_refusals(&undo.refused);
    let error = CliError::failed(format!(
        "{} of run {run} cannot be undone; nothing was changed",
        format_count(refusals.len(), "change")
    ));
    let noted = refusals.iter().take(10).fold(error, |error, refusal| error.note(refusal.as_str()));
    let more = refusals.len().saturating_sub(10);
    let noted = if more > 0 { noted.note(format!("and {more} more")) } else { noted };
    Err(noted.hint("`--partial` undoes the rest; `--overwrite` also restores what was changed after the run"))
}

/// Returns a line for each change that cannot be undone: `nginx/config: REASON (on gpu-[01:08])`.
fn fold_refusals(refused: &[UndoRefusal]) -> Vec<String> {
    let mut folded: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for UndoRefusal { host, step, why } in refused {
        let step = step.as_ref().map_or_else(|| "the whole run".to_owned(), ToString::to_string);
        folded.entry((step, why.as_str())).or_default().push(host.as_str());
    }
    let line = |((step, why), hosts): (&(String, &str), &Vec<&str>)| {
        let hosts = fold_names(hosts.iter().copied());
        format!("{}: {} (on {})", escape::escape_line(step), escape::escape_line(why), escape::escape_line(&hosts))
    };
    folded.iter().map(line).collect()
}

/// Returns a line for each host that did not answer.
fn list_silent_hosts(undo: &GeneratedUndo) -> impl Iterator<Item = String> {
    undo.silent.iter().map(|(host, why)| {
        format!("the whole run: {} (on {})", escape::escape_line(why), escape::escape_line(host.as_str()))
    })
}

/// Reports changes and hosts without an undo, and what the undo leaves unchanged.
fn report_unchanged<B>(cx: &VerbContext<'_, B>, undo: &GeneratedUndo) {
    for refusal in fold_refusals(&undo.refused).into_iter().chain(list_silent_hosts(undo)) {
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!((cx.console.err)(), "not undone: {refusal}");
    }
    for remains in list_remains(undo) {
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!((cx.console.err)(), "{remains}");
    }
}

/// Returns a line for each thing that the undo leaves unchanged.
fn list_remains(undo: &GeneratedUndo) -> impl Iterator<Item = String> {
    undo.remains.iter().map(|(what, hosts)| {
        let hosts = fold_names(hosts.iter().map(HostName::as_str));
        format!("unchanged: {} (on {})", escape::escape_line(what), escape::escape_line(&hosts))
    })
}

/// Returns the newest run before `run` that changed something in the cluster, as far as this machine knows.
fn find_earlier_change<B>(cx: &VerbContext<'_, B>, project: &Project, run: &str) -> Option<String> {
    let folders = past_runs::list_run_folders(cx).ok()?;
    let earlier =
        folders.iter().filter(|folder| *folder.run < *run).filter_map(|folder| past_runs::read_run(folder).ok());
    let mut changed =
        earlier.filter(|past| past.info.cluster == project.cluster && !ChangedSteps::from_run(past).is_empty());
    changed.next().map(|past| past.info.run)
}

/// Returns the error of an undo without a change to undo; changes that the hosts have forgotten are named.
fn explain_nothing(undo: &GeneratedUndo, run: &str, kept: UndoRetention) -> CliError {
    let days = kept.days.map(|days| format!(", for {}", format_count(days as usize, "day"))).unwrap_or_default();
    const LIST: &str = "`forge runs` lists the runs of this machine";
    let error = CliError::usage(format!("no changes of run {run} to undo on these hosts"));
    let error = list_remains(undo).fold(error, CliError::note);
    match fold_refusals(&undo.refused) {
        none if none.is_empty() && !undo.remains.is_empty() => error.hint(LIST),
        none if none.is_empty() => error.hint(format!("its selected steps changed nothing there; {LIST}")),
        forgotten => forgotten.into_iter().fold(error, CliError::note).hint(format!(
            "hosts keep the last {} that changed them{days}; {LIST}",
            format_count(kept.runs as usize, "run")
        )),
    }
}

/// Shows the plan, and saves it with `-o`.
async fn write_undo_plan<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &UndoArgs,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
    seen: &B::HostObservations,
    plan: &Plan,
) -> VerbResult {
    let exit = plan.exit_code(false);
    let saved = args.keep.build_saved_plan(cx, loaded, seen, plan).await;
    args.keep.write_saved_plan(saved.as_ref())?;
    output.write_plan(plan, exit, saved.as_ref().map(|saved| saved.digest.as_str()), &[])?;
    args.keep.report_saved_plan(cx, saved.as_ref());
    Ok(exit)
}

fn format_question(plan: &Plan) -> String {
    let counts = plan.count_steps();
    let hosts = format_host_count(counts.changing, counts.cluster_changing);
    format!("undo {} on {hosts}?", format_count(counts.change, "change"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_of_which_everything_stays_is_not_said_to_have_changed_nothing() {
        let explain = |undo: &GeneratedUndo| explain_nothing(undo, "r1", UndoRetention::default());
        let mut undo = GeneratedUndo::default();
        let unchanged = "its selected steps changed nothing there; `forge runs` lists the runs of this machine";
        assert_eq!(explain(&undo).advice(), (&[][..], Some(unchanged)));
        undo.remains.insert("`/srv/data` stays".to_owned(), vec![HostName::new("gpu-01"), HostName::new("gpu-02")]);
        let noted = ["unchanged: `/srv/data` stays (on gpu-[01:02])".to_owned()];
        assert_eq!(explain(&undo).advice(), (&noted[..], Some("`forge runs` lists the runs of this machine")));
    }
}
