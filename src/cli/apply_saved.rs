//! `forge apply PLAN`: checks a saved plan against its inputs, then against its hosts, then applies it.

use super::apply_args::ApplyArgs;
use super::backend::{Backend, ObservePurpose};
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::VerbOutput;
use super::settings::CliSettings;
use super::shared_args::InventoryArg;
use super::undo::{self, ReloadedUndo};
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use super::{execute_plan, saved_plan, sign};
use crate::config::StepFilter;
use crate::diag::SourceMap;
use crate::engine::SavedPlan;
use crate::model::{DisruptionClass, ExitCode, HostName};
use crate::plan::{HostPlan, ObservedHost, Plan};
use crate::state::RunPlanFile;
use crate::view::fold::fold_names;
use crate::view::{escape, format_count};
use camino::Utf8Path;
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Applies the plan in `text`, which was read from `path`.
pub fn run_saved_plan<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &ApplyArgs,
    path: &Utf8Path,
    text: &str,
) -> VerbResult {
    let saved = saved_plan::parse_saved_plan(path, text)?;
    check_signature(cx, args, path, text)?;
    reject_selection_flags(cx, args, &saved)?;
    check_no_unknown(&saved.plan, args.options.no_unknown)?;
    if !args.options.dry_run {
        execute_plan::check_can_ask(cx.console, "apply", args.options.yes)?;
    }
    let settings = saved_plan_settings(cx.settings, args, path, &saved);
    let cx = &cx.with_settings(&settings);
    let target = cx.resolve_target(&find_inventory(cx, path, &saved)?)?;
    let (settings, undo) = match &saved.selection.undo {
        Some(scope) => {
            let (settings, undo) = undo::reload_undo(cx, &target, scope)?;
            (settings, Some(undo))
        }
        None => (cx.settings.clone(), None),
    };
    let cx = &cx.with_settings(&settings);
    let output = VerbOutput { target: Some(target.arguments.clone()), ..cx.output_for(&target) };
    let loaded = cx.load_project(&target)?;
    block_on(bind_and_apply(cx, args, &output, loaded, path, (saved, undo)))
}

/// Checks the signature if one is required.
fn check_signature<B>(cx: &VerbContext<'_, B>, args: &ApplyArgs, path: &Utf8Path, text: &str) -> Result<(), CliError> {
    let Some(allowed) = &args.options.require_signature else { return Ok(()) };
    block_on(async { sign::verify_plan_signature(cx, path, text, allowed).await.map(|()| ExitCode::Done) }).map(drop)
}

/// Rejects flags that would change the reviewed plan: a saved plan has its own steps and policy. `--on` only leaves out
/// hosts.
fn reject_selection_flags<B>(cx: &VerbContext<'_, B>, args: &ApplyArgs, saved: &SavedPlan) -> Result<(), CliError> {
    let flags = [
        (!cx.typed.step.is_empty(), "--step"),
        (!cx.typed.skip.is_empty(), "--skip"),
        (
            ![DisruptionClass::D3, saved.selection.max_disruption].contains(&args.options.policy.max_disruption),
            "--max-disruption",
        ),
    ];
    match flags.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, flag)) => {
            Err(CliError::usage(format!("`{flag}` cannot be used with a saved plan, which sets it itself"))
                .hint(format!("make a new plan with `forge plan {flag} … -o FILE`")))
        }
    }
}

/// Refuses a plan with unknown results if `wanted`.
///
/// # Errors
/// Unknown: the number of unknown results and the first five.
pub fn check_no_unknown(plan: &Plan, wanted: bool) -> Result<(), CliError> {
    let unknown = if wanted { plan.list_unknowns() } else { Vec::new() };
    if unknown.is_empty() {
        return Ok(());
    }
    let error =
        CliError::unknown(format!("{} of the plan could not be evaluated", format_count(unknown.len(), "item")));
    let noted = unknown.iter().take(5).fold(error, |error, one| error.note(one.clone()));
    let more = unknown.len().saturating_sub(5);
    let noted = if more > 0 { noted.note(format!("and {more} more")) } else { noted };
    Err(noted.hint("run `forge plan -v` for details, or omit `--no-unknown`"))
}

fn saved_plan_settings(settings: &CliSettings, args: &ApplyArgs, path: &Utf8Path, saved: &SavedPlan) -> CliSettings {
    let selection = &saved.selection;
    let mut settings =
        settings.with_policy(saved.policy(), args.options.evict_busy.clone()).with_offline(args.options.offline);
    settings.on = selection.on.clone();
    let path = camino::absolute_utf8(path).unwrap_or_else(|_| path.to_owned());
    settings.plan_file = Some(RunPlanFile { path: path.into_string(), digest: saved.digest.clone() });
    settings.filter = StepFilter::new(&selection.step, &selection.skip);
    settings
}

/// Writes the plan for the confirmation, and its rehearsal if it has one.
fn write_review(output: &VerbOutput<'_>, plan: &Plan, saved: &SavedPlan) -> Result<(), CliError> {
    output.write_for_people(&|writer, out| {
        writer.write_plan(plan, ExitCode::Done, out)?;
        let Some(report) = &saved.rehearsal else { return Ok(()) };
        writeln!(out, "\nrehearsal of this plan, before it was saved:")?;
        writer.write_rehearsal(report, ExitCode::Done, out)
    })
}

/// Returns the inventory's path: that of `-i`, else the one recorded in the plan.
fn find_inventory<B>(cx: &VerbContext<'_, B>, path: &Utf8Path, saved: &SavedPlan) -> Result<InventoryArg, CliError> {
    if cx.typed.inventory_flag.is_some() {
        return Ok(InventoryArg::default());
    }
    let inventory = Utf8Path::new(&saved.plan.inventory);
    match inventory.is_file() {
        true => Ok(InventoryArg { inventory: Some(inventory.to_owned()) }),
        false => Err(CliError::input(format!("inventory `{inventory}` of plan `{path}` not found"))
            .hint("run from the directory where the plan was made, or pass the inventory with `-i FILE`")),
    }
}

/// Returns an error that lists the changed inputs, if any. The inputs of an undo are also on its hosts, which were asked.
fn reject_changed_inputs(path: &Utf8Path, changed: Vec<String>, undo: Option<&ReloadedUndo>) -> Result<(), CliError> {
    if changed.is_empty() {
        return Ok(());
    }
    let outcome = if undo.is_some() { "nothing was changed" } else { "nothing was contacted" };
    let hint = undo.map_or_else(
        || "make a new plan with `forge plan INVENTORY -o FILE` and have it reviewed".to_owned(),
        ReloadedUndo::advise_new_plan,
    );
    let error = CliError::input(format!("the inputs of `{path}` have changed; {outcome}"));
    Err(changed.into_iter().fold(error, CliError::note).hint(hint))
}

/// Returns an error if the plan made now from the same answers differs. That of an undo differs if the hosts keep
/// something else now, or if what they keep can no longer be restored.
fn reject_difference(
    path: &Utf8Path,
    saved: &SavedPlan,
    again: &Plan,
    (undo, has_secrets): (Option<&ReloadedUndo>, bool),
) -> Result<(), CliError> {
    match (saved.find_difference(again), undo) {
        (None, _) => Ok(()),
        (difference, Some(undo)) => Err(undo.explain_difference(path, difference)),
        (Some(what), None) => Err(CliError::input(format!(
            "`{path}` does not match the plan computed from its own inputs; nothing was contacted"
        ))
        .note(what)
        .hint(advise_after_difference(has_secrets))),
    }
}

/// Returns what may have caused a difference, and what to do. A plan does not list the values of its secrets: a changed
/// one shows only in the steps that use it.
fn advise_after_difference(has_secrets: bool) -> String {
    let causes = match has_secrets {
        true => {
            "a secret may have another value than when the plan was made, or the plan was altered or written by \
                 another build of forge"
        }
        false => "altered, or written by another build of forge",
    };
    format!("{causes}: make a new plan with `forge plan INVENTORY -o FILE`")
}

async fn bind_and_apply<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &ApplyArgs,
    output: &VerbOutput<'_>,
    mut loaded: LoadedProject<B::Project>,
    path: &Utf8Path,
    (mut saved, undo): (SavedPlan, Option<ReloadedUndo>),
) -> VerbResult {
    let mut stop = InterruptSignals::start_listening()?;
    let (then, again) = saved_plan::plan_from_recording(cx, &loaded, &Arc::new(saved.observed.clone())).await;
    let changed = cx.backend.list_changed_inputs(&loaded.0, &saved, &then, cx.settings);
    reject_changed_inputs(path, changed, undo.as_ref())?;
    let has_secrets = !cx.backend.project(&loaded.0).secrets.is_empty();
    reject_difference(path, &saved, &again, (undo.as_ref(), has_secrets))?;
    drop((then, again));
    let mut settings = cx.settings.clone();
    if let Some(on) = &cx.typed.on {
        settings.on = Some(on.clone());
        let hosts = (&args.finished[..], &mut saved.plan);
        loaded.1 = narrow_to_hosts(&cx.with_settings(&settings), output, &loaded.0, on, hosts)?;
    }
    if !args.finished.is_empty() {
        retain_hosts(&mut saved.plan, |host| !args.finished.contains(host));
        loaded.1.retain(|host| !args.finished.contains(host));
        if loaded.1.is_empty() {
            let error = CliError::usage("the run has finished on the selected hosts");
            return Err(error.hint("`forge apply INVENTORY` plans every host again"));
        }
    }
    let (cx, loaded) = (&cx.with_settings(&settings), &loaded);
    let mut seen = cx.observe_hosts(&mut stop, output, loaded, ObservePurpose::Change).await?;
    let plan = cx.backend.bind_saved_plan(&loaded.0, &saved, &mut seen, args.replay, cx.settings);
    // Where the plan has already run and nothing is left, it has no changes.
    write_review(output, &plan, &saved)?;
    // Otherwise the report lists the stale hosts.
    if args.options.dry_run || !args.options.yes {
        let stale = report_stale_hosts(output, seen.as_ref())?;
        if args.options.dry_run {
            return Ok(if stale > 0 { ExitCode::Stale } else { ExitCode::Done });
        }
    }
    execute_plan::check_engine(cx, &loaded.0, &plan, &seen)?;
    let left = exclude_stale_hosts(&plan, seen.as_ref());
    if left.hosts.iter().any(HostPlan::will_run) {
        execute_plan::confirm_apply(cx, args.options.yes, &execute_plan::format_question(&left), &mut stop).await?;
    }
    execute_plan::execute_plan(cx, &mut stop, output, loaded, &plan, seen).await
}

/// Leaves only the hosts of `--on` in the plan, and returns them. They have to include the canaries, which the plan changes
/// first.
///
/// # Errors
/// Usage: the selection is wrong, has a host that is not in the plan, or lacks a canary.
fn narrow_to_hosts<B: Backend>(
    cx: &VerbContext<'_, B>,
    output: &VerbOutput<'_>,
    project: &B::Project,
    on: &str,
    (finished, plan): (&[HostName], &mut Plan),
) -> Result<Vec<HostName>, CliError> {
    let past = cx.find_past_hosts(project)?;
    let hosts = cx.backend.select_hosts(project, cx.settings, past.as_ref());
    let hosts = hosts.map_err(|diag| output.report_selection_error(&diag, &SourceMap::default()))?;
    let (planned, wanted): (BTreeSet<&HostName>, BTreeSet<&HostName>) =
        (plan.hosts.iter().map(|host| &host.host).collect(), hosts.iter().collect());
    let fold =
        |names: &[&HostName]| escape::escape_line(&fold_names(names.iter().map(|name| name.as_str()))).to_string();
    let foreign: Vec<_> = hosts.iter().filter(|host| !planned.contains(host)).collect();
    if !foreign.is_empty() {
        let error =
            CliError::usage(format!("`--on {on}` selects hosts that the plan does not contain: {}", fold(&foreign)));
        return Err(
            error.hint("`forge show FILE` lists the plan's hosts; make a new plan with `forge plan --on … -o FILE`")
        );
    }
    let is_missing = |host: &&HostName| !wanted.contains(host) && !finished.contains(host);
    let canaries: Vec<_> = plan.rollout.canaries.iter().filter(is_missing).collect();
    if !canaries.is_empty() {
        let error = CliError::usage(format!("`--on {on}` leaves out canaries of the plan: {}", fold(&canaries)));
        return Err(error.hint("add them: where the plan has run and nothing is left to change, nothing runs again"));
    }
    let wanted: BTreeSet<HostName> = hosts.iter().cloned().collect();
    retain_hosts(plan, |host| wanted.contains(host));
    Ok(hosts)
}

/// Leaves only some hosts in the plan. The order of their waves stays.
fn retain_hosts(plan: &mut Plan, is_wanted: impl Fn(&HostName) -> bool) {
    plan.simulated.retain(&is_wanted);
    plan.hosts.retain(|host| is_wanted(&host.host));
    plan.rollout.canaries.retain(&is_wanted);
    plan.rollout.waves.iter_mut().for_each(|wave| wave.retain(&is_wanted));
    plan.rollout.waves.retain(|wave| !wave.is_empty());
}

/// Prints the stale hosts with the reasons. Returns their number.
fn report_stale_hosts(output: &VerbOutput<'_>, seen: &[ObservedHost]) -> Result<usize, CliError> {
    let mut reasons: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for (host, stale) in seen.iter().filter_map(|seen| Some((&seen.host, seen.stale.as_ref()?))) {
        reasons.entry(stale.why.raw()).or_default().push(host.as_str());
    }
    output.write_for_people(&|_, out| {
        reasons.iter().try_for_each(|(why, hosts)| {
            writeln!(
                out,
                "stale on {}: {}",
                escape::escape_line(&fold_names(hosts.iter().copied())),
                escape::escape_line(why)
            )
        })
    })?;
    Ok(reasons.values().map(Vec::len).sum())
}

/// Returns the plan without stale hosts.
fn exclude_stale_hosts(plan: &Plan, seen: &[ObservedHost]) -> Plan {
    let stale: BTreeSet<_> = seen.iter().filter(|seen| seen.stale.is_some()).map(|seen| &seen.host).collect();
    let hosts = plan.hosts.iter().filter(|host| !stale.contains(&host.host));
    Plan { hosts: hosts.cloned().collect(), ..plan.clone() }
}
