//! `forge apply`.

use super::args::{InventoryArg, OutputFormat, PolicyArgs};
use super::backend::{Backend, ObservePurpose};
use super::confirm;
use super::console::Console;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::VerbOutput;
use super::plan;
use super::recording_args::RecordingArgs;
use super::saved_plan::PlanOutputArgs;
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use super::{apply_saved, saved_plan};
use crate::engine::{ArtifactFetchState, ArtifactReport, PlanWorkload, RunReport};
use crate::model::ExitCode;
use crate::plan::{HostPlan, Plan};
use crate::view::progress::ProgressState;
use crate::view::{format_count, format_host_count};
use camino::Utf8PathBuf;

/// Apply the declared state and verify it
///
/// Plans, shows the plan, asks for confirmation, applies the changes in order and verifies every step. A failing host
/// does not stop the others. Ctrl-C stops after the running steps; a second Ctrl-C leaves them running on their hosts,
/// where the next run resumes them. A closed terminal counts as one Ctrl-C.
///
/// Accepts a saved plan instead of an inventory. It is applied only if its inputs are unchanged (otherwise exits 65
/// before contacting a host), and only on hosts whose state has not changed since the plan: the others are stale, are
/// skipped and reported (exit code 6). A saved plan runs once on each host.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge apply cluster.yaml                    plan, confirm, apply, verify
  forge apply cluster.yaml --yes              skip the confirmation, for scripts
  forge apply cluster.yaml --on 'gpu:!canary' --step nvidia-driver
  forge apply cluster.yaml --offline          use cached artifacts only
  forge apply cluster.yaml --dry-run          show the plan only
  forge apply plan.json                       the plan saved by `forge plan cluster.yaml -o plan.json`")]
pub struct ApplyArgs {
    /// Inventory file or saved plan; defaults to -i, then $FORGE_INVENTORY, then ./inventory.yaml
    #[arg(value_name = "INVENTORY|PLAN")]
    pub given: Option<Utf8PathBuf>,
    /// Skip the confirmation prompt; JSON output never implies this
    #[arg(long)]
    pub yes: bool,
    /// Use cached artifacts only; fail if one is missing
    #[arg(long)]
    pub offline: bool,
    /// Show the plan and exit, as `forge plan` does
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Fail if any step or verification could not be evaluated, or a host is unreachable
    #[arg(long)]
    pub no_unknown: bool,
    /// Apply a saved plan again on hosts where it already ran
    #[arg(long)]
    pub replay: bool,
    /// Apply a saved plan only if a key of this allowed-signers file signed it: see `forge sign`
    #[arg(long, value_name = "ALLOWED_SIGNERS")]
    pub require_signature: Option<Utf8PathBuf>,
    /// Terminate processes that hold GPU or RDMA devices before a window opens; the reason is recorded with the run
    #[arg(long, value_name = "WHY", value_parser = parse_reason)]
    pub evict_busy: Option<String>,
}

/// Parses the reason that a forced action requires.
fn parse_reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a reason is required".to_owned()),
        why => Ok(why.to_owned()),
    }
}

pub fn run_apply<B: Backend>(cx: &VerbContext<'_, B>, args: &ApplyArgs) -> VerbResult {
    let given = args.given.as_deref();
    if let Some((path, text)) = given.zip(saved_plan::read_given_plan(given)) {
        return apply_saved::run_saved_plan(cx, args, path, &text);
    }
    let flags = [(args.replay, "--replay"), (args.require_signature.is_some(), "--require-signature")];
    if let Some((_, flag)) = flags.iter().find(|(given, _)| *given) {
        return Err(CliError::usage(format!("`{flag}` requires a saved plan"))
            .hint("save one with `forge plan INVENTORY -o FILE`, then run `forge apply FILE`"));
    }
    let inventory = InventoryArg { inventory: args.given.clone() };
    if args.dry_run {
        let policy = args.policy.clone();
        let (recorded, keep) = (RecordingArgs::default(), PlanOutputArgs::default());
        return plan::run_plan(
            cx,
            &plan::PlanArgs { inventory, detailed_exitcode: false, images: false, policy, recorded, keep },
        );
    }
    let settings = cx.settings.with_policy(args.policy.to_policy(), args.evict_busy.clone());
    let cx = &cx.with_settings(&settings);
    let settings = cx.settings.with_offline(args.offline);
    let cx = &VerbContext { settings: &settings, ..*cx };
    let target = cx.resolve_target(&inventory)?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project(&target)?;
    check_apply_can_ask(cx.console, args.yes)?;
    block_on(plan_and_apply(cx, args, &output, &loaded))
}

/// Checks before contacting a host that the user can be asked for confirmation.
pub fn check_apply_can_ask(console: &Console, yes: bool) -> Result<(), CliError> {
    match yes || console.can_ask {
        true => Ok(()),
        false => Err(CliError::usage("apply requires confirmation, but there is no terminal")
            .hint("pass `--yes` to skip the confirmation, or `--dry-run` to show the plan")),
    }
}

fn format_question(plan: &Plan) -> String {
    let counts = plan.count_steps();
    let changes = match counts.change {
        1 => "this change".to_owned(),
        many => format!("these {}", format_count(many, "change")),
    };
    format!("apply {changes} to {}?", format_host_count(counts.changing, counts.cluster_changing))
}

async fn plan_and_apply<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &ApplyArgs,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
) -> VerbResult {
    let mut stop = InterruptSignals::start_listening()?;
    let seen = cx.observe_hosts(&mut stop, output, loaded, ObservePurpose::Change).await?;
    let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
    output.write_for_people(&|writer, out| writer.write_plan(&plan, ExitCode::Done, out))?;
    apply_saved::check_no_unknown(&plan, args.no_unknown)?;
    if plan.hosts.iter().any(HostPlan::will_run) {
        confirm_apply(cx, args, &mut stop, &plan).await?;
    }
    execute_plan(cx, &mut stop, output, loaded, &plan, seen).await
}

/// Asks for confirmation, unless `--yes` was given.
///
/// # Errors
/// Interrupted: the answer is not yes.
pub async fn confirm_apply<B>(
    cx: &VerbContext<'_, B>,
    args: &ApplyArgs,
    stop: &mut InterruptSignals,
    plan: &Plan,
) -> Result<(), CliError> {
    match args.yes || confirm::ask_yes_no(stop, cx.console, &format_question(plan)).await? {
        true => Ok(()),
        false => Err(CliError::interrupted("not applied; nothing was changed")),
    }
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
    let work = cx.run_with_progress_from(state, output, |events| {
        cx.backend.apply(&loaded.0, plan, seen, cx.settings, events, cancel.clone())
    });
    let report = cx.run_stoppable(stop, work, &cancel).await;
    write_apply_report(cx, output, plan, &report)
}

/// Fetches every artifact that the plan sends, before a host is changed.
async fn fetch_missing_artifacts<B: Backend>(
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

fn add_artifact_note(error: CliError, lacking: &ArtifactReport) -> CliError {
    let ArtifactFetchState::Failed { why, .. } = &lacking.had else { return error };
    let steps: Vec<String> = lacking.steps.iter().map(|step| format!("`{step}`")).collect();
    error.note(format!(
        "{}; needed by {} on {}",
        why.raw(),
        steps.join(", "),
        format_count(lacking.hosts.len(), "host")
    ))
}

/// Writes the report; skips the text form after a plan without changes, which already printed the result.
fn write_apply_report<B>(
    cx: &VerbContext<'_, B>,
    output: &VerbOutput<'_>,
    plan: &Plan,
    report: &RunReport,
) -> VerbResult {
    let exit = report.exit_code();
    let said = exit == ExitCode::Done && plan.count_steps().change == 0 && cx.settings.format == OutputFormat::Text;
    match said {
        true => output.write_json_file(&|writer, out| writer.write_report(report, exit, out))?,
        false => output.write_result(&|writer, out| writer.write_report(report, exit, out))?,
    }
    Ok(exit)
}
