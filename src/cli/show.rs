//! `forge show`.

use super::atomic_file::read_text;
use super::backend::Backend;
use super::error::CliError;
use super::inventory::quote_argument;
use super::output::VerbOutput;
use super::past_runs;
use super::saved_plan::ALTERED_PLAN;
use super::shared_args::OutputFormat;
use super::verb_context::{VerbContext, VerbResult};
use crate::engine::{self, RunReport, SAVED_PLAN_RESULT, SavedPlan};
use crate::model::{ExitCode, Value};
use crate::plan::Plan;
use crate::state::RunFolder;
use crate::view::RecordingFile;
use camino::Utf8Path;

/// Print a past run, or a saved plan or report
///
/// Prints a run as `forge apply` or `forge test` printed it; `last` is the newest one of `apply` and similar verbs. A
/// file is an output of `--json-into` or `plan -o`, or a plan or report from the state directory. Exits 0 whatever the
/// outcome of the run; its exit code is in the text and in `run.exit` of the document.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge show last                                the newest run
  forge show 20261121T1046                       by a unique prefix of its name
  forge show last --format json | jq '.run.exit'
  forge show plan.json                           a plan saved by `plan -o plan.json`, as `plan` printed it
  forge show plan.json --images                  list the required container images, for a mirror")]
pub struct ShowArgs {
    /// Run (`last`, a name or a unique prefix), or path of a JSON file
    pub run: Option<String>,
    /// Print the container images of a plan instead, one per line, to fill a registry mirror
    #[arg(long)]
    pub images: bool,
}

/// Content of a file.
enum ShownFile {
    Plan(Plan),
    /// A plan with all its inputs.
    Saved(Box<SavedPlan>),
    Report(RunReport),
}

pub fn run_show<B: Backend>(cx: &VerbContext<'_, B>, args: &ShowArgs) -> VerbResult {
    let output = VerbOutput { console: cx.console, settings: cx.settings, target: None, resume: None };
    let Some(named) = &args.run else {
        return Err(
            CliError::usage("no run given").hint("`forge show last` shows the newest run, `forge runs` lists all")
        );
    };
    let path = Utf8Path::new(named);
    let is_file = !path.is_dir() && (path.is_file() || named.contains('/') || named.ends_with(".json"));
    if cx.settings.format == OutputFormat::Markdown && !is_file {
        return Err(plans_only_error("`--format markdown`"));
    }
    if args.images && !is_file {
        return Err(plans_only_error("`--images`"));
    }
    if path.is_dir() {
        let run = past_runs::read_run(&to_run_folder(path))?;
        output.write_result(&|writer, out| writer.write_run(&run, out))?;
    } else if is_file {
        show_file(cx, path, args.images)?;
    } else {
        let folders = past_runs::list_run_folders(cx)?;
        match past_runs::find_test_report(cx, &folders, named)? {
            Some(report) => {
                output.write_result(&|writer, out| writer.write_acceptance(&report, report.exit_code(), out))?
            }
            None => {
                let run = past_runs::find_run(cx, &folders, named)?;
                output.write_result(&|writer, out| writer.write_run(&run, out))?;
            }
        }
    }
    Ok(ExitCode::Done)
}

fn plans_only_error(option: &str) -> CliError {
    CliError::usage(format!("{option} is only supported for plans"))
        .hint("show a run as text or JSON, or pass the file of a plan")
}

fn to_run_folder(path: &Utf8Path) -> RunFolder {
    let name = |path: Option<&Utf8Path>| path.and_then(Utf8Path::file_name).unwrap_or_default().to_owned();
    let cluster = path.parent().and_then(Utf8Path::parent);
    RunFolder { cluster: name(cluster), run: name(Some(path)), path: path.to_owned() }
}

fn show_file<B: Backend>(cx: &VerbContext<'_, B>, path: &Utf8Path, images: bool) -> Result<(), CliError> {
    let output = &VerbOutput { console: cx.console, settings: cx.settings, target: None, resume: None };
    let text = read_text(path).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file".to_owned(),
            _ => error.to_string(),
        };
        CliError::input(format!("cannot read `{path}`: {why}")).hint("`forge runs` lists past runs")
    })?;
    match parse_shown_file(&text).map_err(|why| CliError::input(format!("cannot show `{path}`: {why}")))? {
        ShownFile::Saved(saved) if images => output.write_images(&saved.plan, saved.plan.exit_code(false)),
        ShownFile::Plan(plan) if images => output.write_images(&plan, plan.exit_code(false)),
        ShownFile::Report(_) if images => Err(plans_only_error("`--images`")),
        ShownFile::Saved(saved) => show_saved_plan(cx, path, &saved),
        ShownFile::Plan(plan) => output.write_plan(&plan, plan.exit_code(false), None, &[]),
        ShownFile::Report(_) if output.settings.format == OutputFormat::Markdown => {
            Err(plans_only_error("`--format markdown`"))
        }
        ShownFile::Report(report) => {
            output.write_result(&|writer, out| writer.write_report(&report, report.exit_code(), out))
        }
    }
}

/// Prints a saved plan as `plan -o` did: the suggested next command applies the file.
fn show_saved_plan<B: Backend>(cx: &VerbContext<'_, B>, path: &Utf8Path, saved: &SavedPlan) -> Result<(), CliError> {
    let used = saved.made.recordings.iter();
    let recordings = used.map(|one| RecordingFile { path: (&one.path).into(), recorded: one.recorded.parse().ok() });
    let mut settings = cx.settings.clone();
    settings.recordings = recordings.collect();
    let cx = &cx.with_settings(&settings);
    let target = Some(quote_argument(path.as_str()));
    let output = VerbOutput { console: cx.console, settings: cx.settings, target, resume: None };
    cx.write_recordings(&output)?;
    let exit = saved.plan.exit_code(false);
    output.write_plan(&saved.plan, exit, Some(&saved.digest), &cx.list_recordings())?;
    output.write_added_rehearsal(saved.rehearsal.as_ref())
}

/// Parses the content of a file: a document of a verb, or a plan or report of the state directory.
fn parse_shown_file(text: &str) -> Result<ShownFile, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))?;
    match value.get("result").and_then(Value::as_str) {
        // Whoever reviews a plan by this verb must not read what `apply` refuses.
        Some(SAVED_PLAN_RESULT) => SavedPlan::parse(text).and_then(|saved| match saved.is_unaltered() {
            true => Ok(ShownFile::Saved(Box::new(saved))),
            false => Err(ALTERED_PLAN.to_owned()),
        }),
        Some("plan") => parse_plan(&value["plan"]),
        Some("report") => parse_report(&value["report"]),
        Some("run") => parse_report(&value["run"]["report"]),
        Some(other) => Err(format!("output of `forge {}`, which `forge show` does not support", find_verb(other))),
        None if value.get("inventory").is_some() && value.get("hosts").is_some() => parse_plan(&value),
        None if value.get("run").is_some() && value.get("hosts").is_some() => parse_report(&value),
        None => Err("neither a plan nor a report".to_owned()),
    }
}

fn find_verb(result: &str) -> &str {
    match result {
        "validation" => "validate",
        "recipe" => "recipes",
        "values" | "step" | "code" => "explain",
        "comparison" => "runs --compare",
        other => other,
    }
}

fn parse_plan(value: &Value) -> Result<ShownFile, String> {
    let plan: Plan = serde_json::from_value(value.clone()).map_err(|error| format!("invalid plan: {error}"))?;
    match plan.version {
        1 => Ok(ShownFile::Plan(plan)),
        other => Err(format!("the plan has version {other}, this forge supports version 1")),
    }
}

fn parse_report(value: &Value) -> Result<ShownFile, String> {
    engine::read_report(&value.to_string()).map(ShownFile::Report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{JsonWriter, ResultWriter, sample};

    fn describe_shown_file(text: &str) -> String {
        match parse_shown_file(text) {
            Ok(ShownFile::Saved(saved)) => format!("a kept plan of {}", saved.plan.cluster),
            Ok(ShownFile::Plan(plan)) => format!("a plan of {}", plan.cluster),
            Ok(ShownFile::Report(report)) => format!("a report of {}", report.cluster),
            Err(why) => why,
        }
    }

    fn write_document(write: impl Fn(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plans_and_reports_are_recognized_with_or_without_envelope() {
        let (plan, report) = (sample::rich_plan(), sample::rich_report());
        let of_plan = format!("a plan of {}", plan.cluster);
        let of_report = format!("a report of {}", report.cluster);
        assert_eq!(describe_shown_file(&serde_json::to_string(&plan).unwrap()), of_plan);
        assert_eq!(describe_shown_file(&serde_json::to_string(&report).unwrap()), of_report);
        assert_eq!(
            describe_shown_file(&write_document(|out| JsonWriter::default().write_plan(&plan, ExitCode::Done, out))),
            of_plan
        );
        assert_eq!(
            describe_shown_file(&write_document(|out| JsonWriter::default().write_report(
                &report,
                ExitCode::Done,
                out
            ))),
            of_report
        );
        assert_eq!(
            describe_shown_file(r#"{"result":"facts"}"#),
            "output of `forge facts`, which `forge show` does not support"
        );
        assert_eq!(describe_shown_file("{}"), "neither a plan nor a report");
        let later = serde_json::to_string(&RunReport { version: 2, ..report }).unwrap();
        assert_eq!(describe_shown_file(&later), "the report has version 2, this forge supports version 1");
    }

    #[test]
    fn report_round_trips_through_json() {
        let report = sample::rich_report();
        assert_eq!(engine::read_report(&serde_json::to_string(&report).unwrap()), Ok(report));
    }
}
