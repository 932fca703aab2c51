//! `forge test`.

use super::atomic_file;
use super::backend::{Backend, ObservePurpose, SetRequest};
use super::confirm;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::{ResultRenderer, VerbOutput};
use super::report_files::{self, ReportTarget};
use super::shared_args::{InventoryArg, OutputFormat};
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use crate::acceptance::{FabricLayout, SlurmLaunch};
use crate::config::{DeclaredTest, PlannedRounds, Project, TestLaunch, TestPrograms};
use crate::engine::{AcceptanceReport, BaselineError, DrainBudget, SkippedHost, VerifyReport, VerifyResult};
use crate::model::{ExitCode, HostName, HostOutcome, UntrustedText};
use crate::object::TestJobLaunch;
use crate::view::{JsonWriter, ResultWriter, TextWriter, acceptance as formats, escape, fold, format_count};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Measure hosts and the network between them, and find the part that is slow
///
/// Runs a set of acceptance tests: `quick` (default), `burn-in`, `full`, or a set of the inventory's `tests:`. The tests
/// occupy devices and links: hosts whose devices are in use, that are locked, or that are not verified are not tested.
/// Failed measurements are compared, repeated with other pairs, and explained by the host, adapter or network that is
/// bad. Results are compared with the last accepted run of the set. Exits 5 if a test failed, 4 if a host could not be
/// reached, 9 if something was not measured.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge test cluster.yaml                                   the set `quick`
  forge test cluster.yaml --set burn-in --on rack_a --yes
  forge test cluster.yaml --dry-run                         show what would run
  forge test cluster.yaml --drain --yes                     drain nodes first, give them back afterwards
  forge test cluster.yaml --yes --report junit=tests.xml --report html=tests.html
  forge test cluster.yaml --against last --format json | jq '.tests.tests[].faults'")]
pub struct TestArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Set of tests to run
    #[arg(long, value_name = "NAME", default_value = "quick")]
    pub set: String,
    /// Show which tests would run on which hosts; contacts nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Compare with this run of tests: its name, a prefix, or `last`; defaults to the last accepted run of the set. A
    /// wrong name lists the newest runs
    #[arg(long, value_name = "RUN")]
    pub against: Option<String>,
    /// Also test hosts that are not verified
    #[arg(long)]
    pub unverified: bool,
    /// Drain the nodes of the tested hosts first, as `rollout.drain` declares for Kubernetes or Slurm, at most
    /// `max_unavailable` at a time, and give them back afterwards
    #[arg(long, conflicts_with = "dry_run")]
    pub drain: bool,
    /// Also write the results to a file: text, json, markdown, junit or html; repeatable
    #[arg(long, value_name = "FORMAT=FILE", conflicts_with = "dry_run")]
    pub report: Vec<ReportTarget>,
    /// Skip the confirmation prompt; JSON output never implies this
    #[arg(long)]
    pub yes: bool,
}

pub fn run_test<B: Backend>(cx: &VerbContext<'_, B>, args: &TestArgs) -> VerbResult {
    check_reports(&args.report)?;
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project_with(&target, B::load_for_tests)?;
    let tests = find_set(cx.backend.project(&loaded.0), &args.set)?;
    if args.drain {
        check_drain(cx.backend.project(&loaded.0), tests)?;
    }
    if args.dry_run {
        return show_tests(cx, &output, (cx.backend.project(&loaded.0), tests), &loaded.1);
    }
    if !args.yes && !cx.console.can_ask {
        let error = CliError::usage("tests require confirmation, but there is no terminal");
        return Err(error.hint("pass `--yes` to skip the confirmation, or `--dry-run` to see what would run"));
    }
    block_on(test_hosts(cx, args, &output, &loaded))
}

/// Checks that nodes can be drained, and that a pair of hosts may be out of service.
fn check_drain(project: &Project, tests: &[DeclaredTest]) -> Result<(), CliError> {
    if project.rollout.kubernetes.is_none() && project.rollout.slurm.is_none() {
        let error = CliError::usage("`--drain` needs the group of the nodes");
        return Err(error.hint("declare it: `rollout: { drain: { kubernetes: GROUP } }`, or `slurm: GROUP`"));
    }
    if let Some(test) = tests.iter().find(|test| test.launch.as_slurm().is_some()) {
        let message = format!("test `{}` runs as a job of Slurm, and drained nodes take no jobs", test.definition.name);
        return Err(CliError::usage(message).hint("leave `--drain` out: the job has its nodes for itself"));
    }
    let by_job = tests.iter().find(|test| test.launch.as_kubernetes().is_some());
    if let (Some(job), true) = (by_job, tests.iter().any(|test| test.launch.as_kubernetes().is_none())) {
        let message = format!(
            "`--drain` removes the pods of the GPU operator, and test `{}`, which runs as a job, needs them",
            job.definition.name
        );
        return Err(CliError::usage(message).hint("declare the tests that run as jobs in a set of their own"));
    }
    let paired = tests.iter().find(|test| !test.definition.programs.are_of_one_host());
    match paired.filter(|_| DrainBudget::from_rollout(project).limit() < 2) {
        Some(test) => {
            let message =
                format!("test `{}` needs two nodes out of service, and `max_unavailable` is 1", test.definition.name);
            Err(CliError::usage(message).hint("raise `rollout.max_unavailable`, or test hosts that are not in service"))
        }
        None => Ok(()),
    }
}

fn find_set<'p>(project: &'p Project, set: &str) -> Result<&'p [DeclaredTest], CliError> {
    let sets = &project.tests.sets;
    sets.get(set).map(Vec::as_slice).ok_or_else(|| {
        let known: Vec<String> = sets.keys().map(|name| format!("`{name}`")).collect();
        CliError::usage(format!("set `{set}` not found")).hint(format!("the sets are {}", known.join(", ")))
    })
}

fn show_tests<B: Backend>(
    cx: &VerbContext<'_, B>,
    output: &VerbOutput<'_>,
    (project, tests): (&Project, &[DeclaredTest]),
    selected: &[HostName],
) -> VerbResult {
    if cx.settings.format != OutputFormat::Text {
        return Err(CliError::usage("`--dry-run` writes text only"));
    }
    output.write_raw(&|out| tests.iter().try_for_each(|test| write_test_plan(test, &project.fabric, selected, out)))?;
    Ok(ExitCode::Done)
}

fn write_test_plan(
    test: &DeclaredTest,
    fabric: &FabricLayout,
    selected: &[HostName],
    out: &mut dyn Write,
) -> io::Result<()> {
    let hosts: Vec<&HostName> = test.hosts.iter().filter(|host| selected.contains(host)).collect();
    let names = fold::fold_names(hosts.iter().map(|host| host.as_str()));
    let definition = &test.definition;
    writeln!(out, "{}  {}", escape::escape_line(&definition.name), escape::escape_line(&definition.about))?;
    writeln!(out, "  on {}: {}", format_count(hosts.len(), "host"), escape::escape_line(&names))?;
    match &definition.programs {
        TestPrograms::Host(command) => write_program("each", command, out)?,
        TestPrograms::Loopback { server, client } => {
            writeln!(out, "  both ends on one host, each adapter")?;
            write_program("server", server, out)?;
            write_program("client", client, out)?;
        }
        TestPrograms::Pair { server, client } => {
            writeln!(out, "  {}", describe_pairs(test, fabric, &hosts))?;
            write_program("server", server, out)?;
            write_program("client", client, out)?;
        }
        TestPrograms::Group(command) => {
            writeln!(out, "  {}", describe_groups(test, fabric, &hosts))?;
            match &test.launch {
                TestLaunch::Kubernetes(launch) => write_job(launch, test, out)?,
                TestLaunch::Slurm(launch) => write_slurm_job(launch, test, out)?,
                TestLaunch::Command => write_program("launch", command, out)?,
            }
        }
    }
    let parameters: Vec<String> =
        test.list_parameters().iter().map(|(name, value)| format!("{name}={value}")).collect();
    writeln!(out, "  {}, at most {} s each", escape::escape_line(&parameters.join(" ")), definition.limit_s)
}

/// Writes the essentials of a job of Slurm: its nodes, the site's options, and what each process runs.
fn write_slurm_job(launch: &SlurmLaunch, test: &DeclaredTest, out: &mut dyn Write) -> io::Result<()> {
    let wait = launch.start_within_s;
    writeln!(out, "  job of Slurm: the nodes of a group, for itself, within {wait} s")?;
    let options: Vec<String> = launch.list_site_options().iter().map(|word| show_word(word)).collect();
    if !options.is_empty() {
        writeln!(out, "  options: {}", escape::escape_line(&options.join(" ")))?;
    }
    write_program("process", &test.definition.rank_command, out)
}

/// Writes the essentials of the job: its kind, and what each pod gets.
fn write_job(launch: &TestJobLaunch, test: &DeclaredTest, out: &mut dyn Write) -> io::Result<()> {
    let (api_version, kind) = launch.kind.api_kind();
    let join = |map: &BTreeMap<String, String>| {
        map.iter().map(|(name, value)| format!("{name}={}", show_word(value))).collect::<Vec<_>>().join(" ")
    };
    let mut lines = vec![
        format!("job: {kind} of {api_version} in namespace {}, deleted afterwards", launch.namespace),
        format!("pods: one per host, {}, image {}", join(&launch.resources), launch.image),
    ];
    lines.extend((!launch.annotations.is_empty()).then(|| format!("annotations: {}", join(&launch.annotations))));
    lines.push(format!("environment: {}", join(&launch.list_variables())));
    lines.push(format!("start within {} s", launch.start_within_s));
    lines.iter().try_for_each(|line| writeln!(out, "  {}", escape::escape_line(line)))?;
    match (launch.kind.has_launcher(), &test.definition.collective) {
        (false, Some(collective)) => writeln!(out, "  each process: {collective} of PyTorch"),
        _ => write_program("each process", &test.definition.rank_command, out),
    }
}

fn describe_groups(test: &DeclaredTest, fabric: &FabricLayout, hosts: &[&HostName]) -> String {
    match (test.group_size, test.plan_group_rounds(fabric, hosts)) {
        (2, _) => count_pairs(test, fabric, hosts),
        (_, Ok(plan)) => count_measurements(&plan, "group"),
        (_, Err(why)) => why,
    }
}

fn describe_pairs(test: &DeclaredTest, fabric: &FabricLayout, hosts: &[&HostName]) -> String {
    format!("{}, both directions, each adapter", count_pairs(test, fabric, hosts))
}

/// Counts the pairs of one adapter: the first declared one, if the leaves decide.
fn count_pairs(test: &DeclaredTest, fabric: &FabricLayout, hosts: &[&HostName]) -> String {
    let rail = test.rails.first().map(String::as_str);
    test.plan_pair_rounds(fabric, hosts, rail).map_or_else(|why| why, |plan| count_measurements(&plan, "pair"))
}

fn count_measurements<T>(plan: &PlannedRounds<T>, what: &str) -> String {
    let count = plan.rounds.iter().map(Vec::len).sum();
    let alone = match plan.alone.len() {
        0 => String::new(),
        alone => format!(" ({} in none)", format_count(alone, "host")),
    };
    format!("{} in {}{alone}", format_count(count, what), format_count(plan.rounds.len(), "round"))
}

fn write_program(role: &str, words: &[String], out: &mut dyn Write) -> io::Result<()> {
    let shown: Vec<String> = words.iter().map(|word| show_word(word)).collect();
    writeln!(out, "  {role}: {}", escape::escape_line(&shown.join(" ")))
}

/// Returns an argument as a shell reads it; braces stay as the file has them.
fn show_word(word: &str) -> String {
    match word.contains(|c: char| c.is_whitespace() || c == '\'' || c == '"') || word.is_empty() {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => word.to_owned(),
    }
}

async fn test_hosts<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &TestArgs,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
) -> VerbResult {
    let (project, hosts) = loaded;
    let mut stop = InterruptSignals::start_listening()?;
    let names = fold::fold_names(hosts.iter().map(HostName::as_str));
    let names = escape::escape_truncated(&names, 100);
    let drain = if args.drain { "drain the nodes and " } else { "" };
    let question = format!("{drain}run the tests of `{}` on {}: {names}?", args.set, format_count(hosts.len(), "host"));
    if !args.yes && !confirm::ask_yes_no(&mut stop, cx.console, &question).await? {
        return Err(CliError::interrupted("not run; nothing was contacted"));
    }
    let skipped = match args.unverified {
        true => Vec::new(),
        false => find_unverified_hosts(cx, &mut stop, output, loaded).await?,
    };
    let cancel = B::Cancel::default();
    let work = cx.run_with_progress(output, |events| {
        let against = args.against.as_deref();
        let request = SetRequest { set: &args.set, hosts, skipped, against, drain: args.drain };
        cx.backend.run_tests(project, request, cx.settings, events, cancel.clone())
    });
    let report = cx.run_stoppable(&mut stop, work, &cancel).await;
    let report = report.map_err(baseline_error)?;
    let exit = report.exit_code();
    write_results(cx, output, &report)?;
    let text = output.text_writer();
    let write = |target: &ReportTarget| {
        atomic_file::replace_file(&target.path, |out| write_report(target.format, &report, &text, out))
    };
    // Every report is written, even after one fails.
    let written: Vec<_> = args.report.iter().map(write).collect();
    written.into_iter().collect::<Result<(), _>>()?;
    Ok(exit)
}

/// Returns the error of `--against`.
pub fn baseline_error(error: BaselineError) -> CliError {
    let BaselineError { why, hint } = error;
    hint.into_iter().fold(CliError::usage(why), CliError::hint)
}

fn check_reports(reports: &[ReportTarget]) -> Result<(), CliError> {
    let is_foreign = |format| matches!(format, OutputFormat::Ndjson | OutputFormat::Sarif | OutputFormat::Prometheus);
    if let Some(report) = reports.iter().find(|report| is_foreign(report.format)) {
        let error = CliError::usage(format!("`--report {}=…` is not supported by this verb", report.format.name()));
        return Err(error.hint("the formats of `forge test` are text, json, markdown, junit and html"));
    }
    report_files::check_report_files(reports)
}

/// Writes to stdout, and to the file of `--json-into`.
fn write_results<B>(
    cx: &VerbContext<'_, B>,
    output: &VerbOutput<'_>,
    report: &AcceptanceReport,
) -> Result<(), CliError> {
    let render: ResultRenderer<'_> = &|writer, out| writer.write_acceptance(report, report.exit_code(), out);
    match cx.settings.format {
        OutputFormat::Text | OutputFormat::Json => output.write_result(render),
        format => {
            output.write_raw(&|out| write_report(format, report, &output.text_writer(), out))?;
            output.write_json_file(render)
        }
    }
}

fn write_report(
    format: OutputFormat,
    report: &AcceptanceReport,
    text: &TextWriter,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        OutputFormat::Json => JsonWriter::default().write_acceptance(report, report.exit_code(), out),
        OutputFormat::Markdown => formats::write_markdown(report, out),
        OutputFormat::Junit => formats::write_junit(report, out),
        OutputFormat::Html => formats::write_html(report, out),
        _ => {
            let mut coloured = Vec::new();
            text.write_acceptance(report, report.exit_code(), &mut coloured)?;
            write!(out, "{}", anstream::adapter::strip_str(&String::from_utf8_lossy(&coloured)))
        }
    }
}

/// Returns the hosts that are not as declared: what they measure says nothing about the declared state.
async fn find_unverified_hosts<B: Backend>(
    cx: &VerbContext<'_, B>,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
) -> Result<Vec<SkippedHost>, CliError> {
    let seen = cx.observe_hosts(stop, output, loaded, ObservePurpose::Declared).await?;
    let cancel = B::Cancel::default();
    let report = cx
        .run_with_progress(output, |events| cx.backend.verify(&loaded.0, seen, cx.settings, events, cancel.clone()))
        .await;
    let skip = |host: crate::engine::HostReport| {
        let unreachable = host.outcome == HostOutcome::Unreachable;
        let reason = match unreachable {
            true => host.reason,
            false => describe_unverified(&host.verify),
        };
        SkippedHost { host: host.host, reason, unreachable }
    };
    Ok(report.hosts.into_iter().filter(|host| host.outcome != HostOutcome::Ok).map(skip).collect())
}

/// Names the first step or verification that did not pass, and counts the others.
fn describe_unverified(verified: &[VerifyReport]) -> UntrustedText {
    let failure = |verify: &VerifyReport| match &verify.result {
        VerifyResult::Failed { reason } => Some(reason.raw().to_owned()),
        VerifyResult::Unknown { reason } => Some(format!("unknown: {}", reason.raw())),
        VerifyResult::Held | VerifyResult::Skipped { .. } | VerifyResult::NotApplicable { .. } => None,
    };
    let failed: Vec<_> = verified.iter().filter_map(|verify| Some((verify, failure(verify)?))).collect();
    let Some(((first, why), others)) = failed.split_first() else {
        return "not verified: run `forge verify`, or pass `--unverified`".into();
    };
    let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
    // A plan has no verifications other than its steps.
    let verb = if first.of_step { "plan" } else { "verify" };
    let (recipe, name) = (&first.recipe, &first.name);
    format!("not verified: `{recipe}/{name}` {why}{more}; run `forge {verb}`, or pass `--unverified`").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unverified_host_names_the_first_difference() {
        let verified = |name: &str, result, of_step| VerifyReport {
            recipe: "bench".to_owned(),
            name: name.to_owned(),
            result,
            check: None,
            of_step,
            place: String::new(),
        };
        let differs = || VerifyResult::Failed { reason: "does not match: mode 0600 -> 0644".into() };
        let held = verified("tool", VerifyResult::Held, true);
        let one = [held.clone(), verified("probe", differs(), true)];
        let expected = "not verified: `bench/probe` does not match: mode 0600 -> 0644; run `forge plan`, or pass \
                        `--unverified`";
        assert_eq!(describe_unverified(&one).raw(), expected);
        let unknown = VerifyResult::Unknown { reason: "timeout".into() };
        let two = [verified("port", unknown, false), verified("probe", differs(), true)];
        let expected = "not verified: `bench/port` unknown: timeout, and 1 more; run `forge verify`, or pass \
                        `--unverified`";
        assert_eq!(describe_unverified(&two).raw(), expected);
        assert_eq!(describe_unverified(&[held]).raw(), "not verified: run `forge verify`, or pass `--unverified`");
    }
}
