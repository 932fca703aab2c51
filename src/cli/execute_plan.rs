//! Confirms a plan and applies it.

use super::confirm;
use crate::engine::{ArtifactFetchState, ArtifactReport, Event, PlanWorkload, RunReport};
use crate::model::{ExitCode, UntrustedText};
use crate::plan::Plan;
use crate::view::progress::ProgressState;
use crate::view::{format_count, format_host_count};

use super::backend::{Backend, VerbEvents};
use super::console::Console;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::VerbOutput;
use super::shared_args::OutputFormat;
use super::verb_context::{LoadedProject, VerbContext, VerbResult};
use tokio::sync::mpsc::UnboundedReceiver;

/// Checks before contacting a host that the user can be asked for confirmation.
pub fn check_can_ask(console: &Console, verb: &str, yes: bool) -> Result<(), CliError> {
    match yes || console.can_ask {
        true => Ok(()),
        false => Err(CliError::usage(format!("{verb} requires confirmation, but there is no terminal"))
            .hint("pass `--yes` to skip the confirmation, or `--dry-run` to show the plan")),
    }
}

pub(super) fn format_question(plan: &Plan) -> String {
    let counts = plan.count_steps();
    let changes = match counts.change {
        1 => "this change".to_owned(),
        many => format!("these {}", format_count(many, "change")),
    };
    format!("apply {changes} to {}?", format_host_count(counts.changing, counts.cluster_changing))
}

/// Asks `question`, unless `yes` was given.
///
/// # Errors
/// Interrupted: the answer is not yes.
pub async fn confirm_apply<B>(
    cx: &VerbContext<'_, B>,
    yes: bool,
    question: &str,
    stop: &mut InterruptSignals,
) -> Result<(), CliError> {
    match yes || confirm::ask_yes_no(stop, cx.console, question).await? {
        true => Ok(()),
        false => Err(CliError::interrupted("not applied; nothing was changed")),
    }
}

/// Checks that workers can carry out a plan, if they are to.
///
/// # Errors
/// Usage: a step of it depends on other hosts.
pub fn check_engine<B: Backend>(
    cx: &VerbContext<'_, B>,
    project: &B::Project,
    plan: &Plan,
    seen: &B::HostObservations,
) -> Result<(), CliError> {
    let Some(why) = cx.backend.refuse_engine(project, plan, seen, cx.settings) else { return Ok(()) };
    let error = CliError::usage(format!("`--engine` cannot carry out this plan yet: {why}; nothing was changed"));
    Err(error.hint("omit `--engine`, or leave the step out with `--skip`"))
}

/// Applies a confirmed plan and reports the result.
pub async fn execute_plan<B: Backend>(
    cx: &VerbContext<'_, B>,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
    plan: &Plan,
    seen: B::HostObservations,
) -> VerbResult {
    fetch_missing_artifacts(cx, stop, output, loaded, plan, &seen).await?;
    let cancel = B::Cancel::default();
    let past = cx.backend.read_past_durations(&loaded.0, cx.settings);
    let state = ProgressState::for_apply(PlanWorkload::new(plan, cx.settings.parallel, &past));
    let work = cx.run_with_progress_from(state, output, |events| async {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let work = cx.backend.apply(&loaded.0, plan, seen, cx.settings, sender, cancel.clone());
        tokio::join!(work, forward_events(receiver, events))
    });
    let (report, no_history) = cx.run_stoppable(stop, work, &cancel).await;
    write_apply_report(cx, output, plan, &report, no_history.as_ref())
}

/// Forwards events. Returns why the history of the run could not be written, if it could not.
async fn forward_events(mut from: UnboundedReceiver<Event>, to: VerbEvents) -> Option<UntrustedText> {
    let mut no_history = None;
    while let Some(event) = from.recv().await {
        if let Event::NoHistory { why } = &event {
            no_history.get_or_insert_with(|| why.clone());
        }
        // The receiver is closed only when the process is about to exit.
        let _ = to.send(event);
    }
    no_history
}

pub(super) fn add_artifact_note(error: CliError, lacking: &ArtifactReport) -> CliError {
    let ArtifactFetchState::Failed { why, .. } = &lacking.had else { return error };
    let steps: Vec<String> = lacking.steps.iter().map(|step| format!("`{step}`")).collect();
    error.note(format!(
        "{}; needed by {} on {}",
        why.raw(),
        steps.join(", "),
        format_count(lacking.hosts.len(), "host")
    ))
}

/// Writes the report; skips the text form after a plan without changes, which already printed the result. A window that
/// was closed is a result of its own.
fn write_apply_report<B>(
    cx: &VerbContext<'_, B>,
    output: &VerbOutput<'_>,
    plan: &Plan,
    report: &RunReport,
    no_history: Option<&UntrustedText>,
) -> VerbResult {
    let exit = report.exit_code();
    let is_complete = exit == ExitCode::Done && report.count_not_undone() == 0;
    let is_idle = plan.count_steps().change == 0 && plan.hosts.iter().all(|host| host.window.is_none());
    let said = is_complete && is_idle && cx.settings.format == OutputFormat::Text;
    match said {
        true => output.write_json_file(&|writer, out| writer.write_apply_report(report, no_history, exit, out))?,
        false => output.write_result(&|writer, out| writer.write_apply_report(report, no_history, exit, out))?,
    }
    Ok(exit)
}

/// Fetches every artifact that the plan sends, before a host is changed.
pub(super) async fn fetch_missing_artifacts<B: Backend>(
    cx: &VerbContext<'_, B>,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
    plan: &Plan,
    seen: &B::HostObservations,
) -> Result<(), CliError> {
    let work = cx.run_with_progress(output, |events| {
        cx.backend.fetch_plan_artifacts(&loaded.0, plan, seen, cx.settings, events)
    });
    let lacking = tokio::select! {
        lacking = work => lacking,
        () = stop.next_interrupt() => return Err(CliError::interrupted("interrupted while fetching; nothing was changed")),
    };
    let Some(first) = lacking.first() else { return Ok(()) };
    let what = format_count(lacking.len(), "artifact");
    let error =
        lacking.iter().fold(CliError::artifact(format!("{what} unavailable; nothing was changed")), add_artifact_note);
    Err(match &first.had {
        ArtifactFetchState::Failed { hint: Some(hint), .. } => error.hint(hint.raw()),
        _ => error,
    })
}
