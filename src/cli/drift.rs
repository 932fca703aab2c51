//! `forge drift`.

use super::backend::{Backend, ObservePurpose};
use super::shared_args::{InventoryArg, OutputFormat};
use anyhow::{Context as _, anyhow};

use super::engine_args::EngineArgs;
use super::error::CliError;
use super::history_start::HistoryStart;
use super::interrupt::InterruptSignals;
use super::notify::{self, NotifyArgs};
use super::output::{ResultRenderer, VerbOutput};
use super::recording_args::RecordingArgs;
use super::report_files::{self, DriftReportSource, ReportTarget};
use super::saved_plan::PlanOutputArgs;
use super::secret_programs::SecretNeed;
use super::timer::{self, TimerArgs};
use super::verb_context::{VerbContext, VerbResult, block_on};
use crate::config::OutlierMode;
use crate::drift::DriftReport;
use crate::engine;
use crate::model::{ExitCode, HostName, StepVerdict, VerifyLevel};
use crate::plan::Plan;
use crate::view::escape;
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;
use std::io::Write as _;

/// Detect drift from the declared state and report its cause (read-only)
///
/// Compares the declared state with the state of the hosts and with their records of the last apply, which
/// distinguishes a changed machine from a changed recipe. Prints one line if there is no drift. Exits 0 if there is no
/// drift, 2 if there is. Pending and blocked steps count as drift.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge drift cluster.yaml                     drift, identical findings grouped
  forge drift cluster.yaml -v                  also who applied it last and when, and the declaration
  forge drift cluster.yaml --on gpu --format json
  forge drift cluster.yaml --format ndjson     one message per line, the version first
  forge drift cluster.yaml --report html=drift.html --report prometheus=/var/lib/node_exporter/forge.prom
  forge drift cluster.yaml --history --since 7d   past findings, their duration, most affected hosts
  forge drift cluster.yaml --plan-out fix.json    save the repair plan for `forge apply fix.json`
  forge drift cluster.yaml --outliers          also hosts that differ from their peers
  forge drift cluster.yaml --notify-dry-run    print the notifications without sending them
  forge drift cluster.yaml --install-timer     run every 15 minutes from a systemd timer on this machine
  forge drift cluster.yaml --record seen.json  also record the hosts' answers for `plan --observed`")]
pub struct DriftArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    #[command(flatten)]
    pub recorded: RecordingArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Save the plan that would repair the drift to this file, for `forge apply FILE`; secrets are left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["history", "install_timer"])]
    pub plan_out: Option<Utf8PathBuf>,
    /// Also write the findings to a file: text, json, ndjson, markdown, junit, sarif, prometheus or html; repeatable
    #[arg(long, value_name = "FORMAT=FILE", conflicts_with = "history")]
    pub report: Vec<ReportTarget>,
    /// Deepest level to check: L0 present, L1 versions, L2 active, L3 hardware, L4 Kubernetes, L5 performance
    #[arg(long, value_name = "LEVEL", default_value = "L4", value_parser = parse_level)]
    pub level: VerifyLevel,
    /// Show the findings of earlier runs; no host is contacted
    #[arg(long, conflicts_with_all = ["record", "observed"])]
    pub history: bool,
    /// With --history: start of the period: 12h, 7d, or a date such as 2026-11-21
    #[arg(long, value_name = "TIME", requires = "history")]
    pub since: Option<HistoryStart>,
    /// Also show how outliers differ from the majority of their peers; `count` counts outliers as drift (exit code 2)
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "show")]
    pub outliers: Option<OutlierMode>,
    #[command(flatten)]
    pub notify: NotifyArgs,
    #[command(flatten)]
    pub timer: TimerArgs,
}

impl DriftArgs {
    /// Returns the secrets that this run of drift needs.
    pub fn secret_need(&self) -> SecretNeed {
        match (self.history || self.timer.install_timer, self.notify.no_notify || self.notify.notify_dry_run) {
            (true, _) => SecretNeed::No,
            (false, true) => SecretNeed::Hosts,
            (false, false) => SecretNeed::HostsAndNotify,
        }
    }
}

fn parse_level(text: &str) -> Result<VerifyLevel, String> {
    VerifyLevel::parse(text).ok_or_else(|| "expected `L0`, `L1`, `L2`, `L3`, `L4` or `L5`".to_owned())
}

pub fn run_drift<B: Backend>(cx: &VerbContext<'_, B>, args: &DriftArgs) -> VerbResult {
    let keep = PlanOutputArgs { output: args.plan_out.clone() };
    // The repair plan covers all levels, as every plan does.
    let settings = args.engine.apply_to_settings(&args.recorded.apply_to_settings(cx.settings)?)?;
    let repair = &keep.apply_to_settings(&settings)?;
    let mut settings = repair.clone();
    settings.filter = settings.filter.limit_to_level(args.level);
    let (repair, cx) = (&cx.with_settings(repair), &cx.with_settings(&settings));
    let target = cx.resolve_target(&args.inventory)?;
    report_files::check_report_files(&args.report)?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project(&target)?;
    args.notify.check_recipients(&cx.backend.project(&loaded.0).drift.notify)?;
    if args.timer.install_timer {
        return install_drift_timer(cx, &output, args, &target.path, &loaded.0);
    }
    if args.history {
        return show_history(cx, &output, &loaded.0, args.since);
    }
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let mode = args.outliers.or(cx.backend.project(&loaded.0).drift.outliers);
        let seen =
            cx.observe_hosts(&mut stop, &output, &loaded, ObservePurpose::Drift { outliers: mode.is_some() }).await?;
        args.recorded.write_recording(cx.backend, &loaded.0, &seen)?;
        let mut drift = cx.backend.detect_drift(&loaded.0, &seen, cx.settings);
        drift.outliers = mode.map(|_| engine::find_host_outliers(cx.backend.project(&loaded.0), seen.as_ref()));
        drift.outliers_count = mode == Some(OutlierMode::Count);
        tokio::select! {
            () = cx.backend.attribute_changes(&loaded.0, &seen, &mut drift, cx.settings) => {}
            () = stop.next_interrupt() => {
                return Err(CliError::interrupted("interrupted while collecting evidence; nothing was changed"));
            }
        }
        tokio::select! {
            unkept = cx.backend.store_findings(&loaded.0, &seen, cx.settings) => warn_unstored_findings(cx, &unkept),
            () = stop.next_interrupt() => return Err(CliError::interrupted("interrupted while storing findings on hosts")),
        }
        tokio::select! {
            notified = notify::notify_recipients(cx, args.notify, &loaded.0, &drift) => drift.notified = notified,
            () = stop.next_interrupt() => {
                let why = "interrupted while sending notifications; the next run sends the rest";
                return Err(CliError::interrupted(why));
            }
        }
        notify::report_notified(cx, &drift.notified);
        let formats = args.report.iter().map(|report| report.format).chain([cx.settings.format]);
        let found = DriftReportSource::new(cx, &loaded.0, drift, &formats.collect::<Vec<_>>());
        cx.write_recordings(&output)?;
        write_drift(cx, &output, &found)?;
        found.write_report_files(&args.report, &output.text_writer())?;
        if args.notify.notify_dry_run {
            write_text(cx, &notify::preview_notifications(cx, &loaded.0, &found.drift)?)?;
        }
        if keep.output.is_some() {
            let plan = repair.backend.plan(&loaded.0, &seen, repair.settings);
            let left_out = list_ignored_changes(&plan, &found.drift);
            if !left_out.is_empty() {
                let names = left_out.iter().map(|step| format!("`{}`", escape::escape_line(step))).collect::<Vec<_>>();
                // Ignore a closed stderr: no other stream could report it.
                let _ =
                    writeln!((cx.console.err)(), "not in the plan, as `drift.ignore` ignores it: {}", names.join(", "));
            }
            let mut settings = repair.settings.clone();
            settings.filter = settings.filter.skip_also(&left_out);
            let repair = &cx.with_settings(&settings);
            let plan = if left_out.is_empty() { plan } else { repair.backend.plan(&loaded.0, &seen, repair.settings) };
            let saved = keep.build_saved_plan(repair, &loaded, &seen, &plan).await;
            keep.write_saved_plan(saved.as_ref())?;
            keep.report_saved_plan(repair, saved.as_ref());
        }
        Ok(found.exit)
    })
}

/// Returns the steps of a repair plan whose every finding is ignored: they are to stay as they are.
fn list_ignored_changes(plan: &Plan, drift: &DriftReport) -> Vec<String> {
    let ignored = drift.list_ignored_steps();
    let steps = plan.hosts.iter().flat_map(|host| &host.steps).filter(|step| step.verdict == StepVerdict::Change);
    let names: BTreeSet<String> = steps.map(|step| format!("{}/{}", step.id.recipe, step.id.step)).collect();
    names.into_iter().filter(|name| ignored.contains(name)).collect()
}

/// Writes to stdout, and to the file of `--json-into`.
fn write_drift<B>(cx: &VerbContext<'_, B>, output: &VerbOutput<'_>, found: &DriftReportSource) -> Result<(), CliError> {
    let render: ResultRenderer<'_> = &|writer, out| writer.write_drift(&found.drift, found.exit, out);
    match cx.settings.format {
        OutputFormat::Text | OutputFormat::Json => output.write_result(render),
        format => {
            output.write_raw(&|out| found.write_format(format, &output.text_writer(), out))?;
            output.write_json_file(render)
        }
    }
}

/// Warns about hosts that could not store their findings. The result is valid without; the next run tries again.
fn warn_unstored_findings<B>(cx: &VerbContext<'_, B>, unkept: &[(HostName, String)]) {
    let mut err = (cx.console.err)();
    for (host, why) in unkept {
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!(
            err,
            "warning: {host}: cannot store when its findings were first seen: {}",
            escape::escape_line(why)
        );
    }
}

/// Writes human-readable text: to stdout, or to stderr if stdout carries a machine-readable format.
fn write_text<B: Backend>(cx: &VerbContext<'_, B>, text: &str) -> Result<(), CliError> {
    let mut out = if cx.settings.format == OutputFormat::Text { (cx.console.out)() } else { (cx.console.err)() };
    let written = write!(out, "{text}").and_then(|()| out.flush());
    written.context("cannot write the output").map_err(CliError::unexpected)
}

fn show_history<B: Backend>(
    cx: &VerbContext<'_, B>,
    output: &VerbOutput<'_>,
    project: &B::Project,
    since: Option<HistoryStart>,
) -> VerbResult {
    let history = cx.backend.read_drift_history(project, since, cx.settings).map_err(|why| {
        CliError::unexpected(anyhow!("cannot read the drift history: {why}"))
            .hint("pass another state directory with `--state`")
    })?;
    match cx.settings.format {
        OutputFormat::Text | OutputFormat::Json => {
            output.write_result(&|writer, out| writer.write_drift_history(&history, out))?
        }
        format => {
            let error = CliError::usage(format!("`--format {}` is not supported with `--history`", format.name()));
            return Err(error.hint("use `--format text` or `--format json`"));
        }
    }
    Ok(ExitCode::Done)
}

fn install_drift_timer<B: Backend>(
    cx: &VerbContext<'_, B>,
    output: &VerbOutput<'_>,
    args: &DriftArgs,
    inventory: &Utf8Path,
    project: &B::Project,
) -> VerbResult {
    let command = build_timer_command(cx, args, inventory)?;
    let said = timer::install_units(cx, &args.timer, &cx.backend.project(project).cluster, &command)?;
    output.write_raw(&|out| timer::write_instructions(&said, out))?;
    Ok(ExitCode::Done)
}

/// Returns the command that the timer runs: this one, with absolute paths.
fn build_timer_command<B>(
    cx: &VerbContext<'_, B>,
    args: &DriftArgs,
    inventory: &Utf8Path,
) -> Result<Vec<String>, CliError> {
    let absolute = |path: &Utf8Path| {
        let path = camino::absolute_utf8(path);
        path.map(Utf8PathBuf::into_string).map_err(CliError::unexpected)
    };
    let program = std::env::current_exe().map_err(CliError::unexpected)?;
    let program = program.into_os_string().into_string();
    let program =
        program.map_err(|_| CliError::unexpected(anyhow!("the path of the forge executable is not valid UTF-8")))?;
    let mut words = vec![program, "drift".to_owned(), absolute(inventory)?, "--quiet".to_owned()];
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    flag("--state", absolute(&cx.settings.state_folder(inventory))?);
    let typed = cx.typed;
    typed.on.iter().for_each(|on| flag("--on", on.clone()));
    typed.step.iter().for_each(|step| flag("--step", step.clone()));
    typed.skip.iter().for_each(|skip| flag("--skip", skip.clone()));
    for (name, path) in [("--json-into", &typed.json_into), ("--record", &args.recorded.record)] {
        path.iter().try_for_each(|path| absolute(path).map(|path| flag(name, path)))?;
    }
    for report in &args.report {
        flag("--report", format!("{}={}", report.format.name(), absolute(&report.path)?));
    }
    if args.level != VerifyLevel::L4 {
        flag("--level", format!("{:?}", args.level));
    }
    words.extend(args.outliers.map(|mode| format!("--outliers={}", mode.name())));
    if args.notify.no_notify {
        words.push("--no-notify".to_owned());
    }
    if typed.trust {
        words.push("--trust".to_owned());
    }
    Ok(words)
}
