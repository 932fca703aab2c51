//! Past runs: the list, one run with its report, and the comparison of two runs.

use super::TextWriter;
use super::graph::fold_hosts;
use super::report::format_not_undone;
use crate::engine::{AcceptanceReport, OutcomeDifference, PastRun, RunComparison, StepInFlight};
use crate::model::{HostName, HostOutcome};
use crate::state::{RunInfo, begin_from_run_id};
use crate::view::style::{BAD, CHANGE, DIM, GOOD, HEAD, paint};
use crate::view::{ListedRun, escape, format_count, formatting};
use indexmap::IndexMap;
use std::io::{self, Write};

/// Writes one row per run.
pub fn write_runs(runs: &[ListedRun], out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<[String; 6]> = runs.iter().map(run_row).collect();
    let head = ["run", "started (UTC)", "verb", "by", "cluster", "result"].map(str::to_owned);
    let all = || std::iter::once(&head).chain(&rows);
    let width = |at: usize| all().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    for (at, row) in all().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let line = format!("{}  {}", cells.join("  "), row[5]);
        match at {
            0 => writeln!(out, "{}", paint(HEAD, line.trim_end()))?,
            _ => writeln!(out, "{}", line.trim_end())?,
        }
    }
    writeln!(out, "\n{} {}", paint(HEAD, "runs:"), runs.len())
}

fn run_row(listed: &ListedRun) -> [String; 6] {
    match listed {
        ListedRun::Read(run) => {
            let [id, began, verb, by, cluster] = run_info_cells(&run.info);
            [id, began, verb, by, cluster, format_result(run)]
        }
        ListedRun::Tests(report) => {
            let info = RunInfo {
                run: report.run.clone(),
                verb: "test".to_owned(),
                cluster: report.cluster.clone(),
                began: begin_from_run_id(&report.run),
                ..RunInfo::default()
            };
            let [id, began, verb, _, cluster] = run_info_cells(&info);
            // The report does not name its author.
            [id, began, verb, String::new(), cluster, format_test_result(report)]
        }
        ListedRun::Broken { run, cluster, why } => {
            let cell = |text: &str| escape::escape_line(text).into_owned();
            [
                cell(run),
                String::new(),
                String::new(),
                String::new(),
                cell(cluster),
                format!("unreadable: {}", cell(why)),
            ]
        }
    }
}

fn run_info_cells(info: &RunInfo) -> [String; 5] {
    let cell = |text: &str| escape::escape_line(text).into_owned();
    let by = match (info.user.is_empty(), info.controller.is_empty()) {
        (true, _) => "unknown".to_owned(),
        (false, true) => cell(&info.user),
        (false, false) => cell(&format!("{}@{}", info.user, info.controller)),
    };
    // Seconds suffice for a table. The JSON output has the exact time.
    let began: String = info.began.chars().take(19).collect();
    [cell(&info.run), cell(&began.replace('T', " ")), cell(&info.verb), by, cell(&info.cluster)]
}

/// The result of a run whose state folder could not be written.
const UNRECORDED: &str = "no records: its hosts and results are unknown";

fn format_result(run: &PastRun) -> String {
    let outcomes: Vec<_> =
        HostOutcome::ALL.iter().map(|outcome| (run.report.count_hosts(*outcome), outcome.name())).collect();
    let hosts = format!(
        "{}: {}",
        formatting::summarize_hosts(run.report.hosts.iter().map(|host| &host.host)),
        formatting::join_counts(&outcomes)
    );
    let exit = run.report.exit_code();
    let left = format_not_undone(&run.report).map(|left| format!("; {left}")).unwrap_or_default();
    let hosts = format!("{}{left}", hosts.trim_end_matches(": "));
    match (run.finished, run.active) {
        (true, _) => format!("exit {}, {hosts}", exit.code()),
        (false, true) => format!("in progress, {hosts}"),
        (false, false) if run.is_unrecorded() => UNRECORDED.to_owned(),
        (false, false) => format!("not finished, {hosts}"),
    }
}

fn format_test_result(report: &AcceptanceReport) -> String {
    let set = escape::escape_line(&report.set);
    let tests = format_count(report.tests.len(), "test");
    let accepted = if report.is_accepted() { "accepted" } else { "not accepted" };
    format!("exit {}, set `{set}`, {tests}: {accepted}", report.exit_code().code())
}

/// Writes the run's id, verb, cluster, start time and user, then its report.
pub fn write_run(text: &TextWriter, run: &PastRun, out: &mut dyn Write) -> io::Result<()> {
    let [id, began, verb, by, cluster] = run_info_cells(&run.info);
    writeln!(out, "{}  {verb} of {cluster}, started {began} UTC, by {by}\n", paint(HEAD, id))?;
    if run.finished {
        return super::report::write_report(text, &run.report, run.report.exit_code(), out);
    }
    if run.is_unrecorded() {
        let why = "nothing was written after its directory was created; the file system may have been full";
        return writeln!(out, "{}; {why}", paint(CHANGE, UNRECORDED));
    }
    super::shared_lines::write_simulated(&run.report.simulated, out)?;
    super::problems::write_problems(&run.report, out)?;
    super::host_rows::write_rows(&run.report, out)?;
    write_in_flight(run, out)?;
    let (word, why) = match run.active {
        true => ("in progress:", "on this machine; results are from its journal"),
        false => (
            "not finished:",
            "not in progress on this machine; its controller was stopped, or is another machine; results are from its journal",
        ),
    };
    writeln!(out, "{} {why}", paint(CHANGE, word))
}

/// Writes the steps in flight at the end of the journal.
fn write_in_flight(run: &PastRun, out: &mut dyn Write) -> io::Result<()> {
    if run.in_flight.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "in flight"))?;
    for StepInFlight { host, step, since } in &run.in_flight {
        let since = since.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let since = since.map(|time| format!(" since {} UTC", time.strftime("%Y-%m-%d %H:%M:%S"))).unwrap_or_default();
        let (host, step) = (host.to_string(), step.to_string());
        writeln!(out, "  {}  {}{since}", escape::escape_line(&host), escape::escape_line(&step))?;
    }
    writeln!(out)
}

/// A changed result: the step or verification (`None` for the host), the old and the new result.
type RunDifference<'c> = (&'c Option<String>, Option<&'c str>, Option<&'c str>);

/// Writes the differences between two runs, equal ones once with all their hosts.
pub fn write_comparison(comparison: &RunComparison, out: &mut dyn Write) -> io::Result<()> {
    for (word, run) in [("from", &comparison.from), ("to", &comparison.to)] {
        let [id, began, verb, by, _] = run_info_cells(run);
        writeln!(out, "{word:<4} {}  {}", paint(HEAD, id), paint(DIM, format!("{verb}, {began} UTC, by {by}")))?;
    }
    writeln!(out)?;
    let mut groups: IndexMap<RunDifference<'_>, Vec<HostName>> = IndexMap::new();
    for OutcomeDifference { host, what, from, to } in &comparison.differences {
        groups.entry((what, *from, *to)).or_default().push(host.clone());
    }
    for ((what, from, to), hosts) in &groups {
        let what = what.as_deref().unwrap_or("host");
        let change = format!("{} → {}", from.unwrap_or("missing"), to.unwrap_or("missing"));
        let hosts = escape::escape_line(&fold_hosts(hosts)).into_owned();
        writeln!(
            out,
            "{}: {}  {}",
            escape::escape_line(what),
            paint(result_style(*to), change),
            paint(DIM, format!("on {hosts}"))
        )?;
    }
    let differences = format_count(comparison.differences.len(), "difference");
    writeln!(out, "{} {differences}, {} equal", paint(HEAD, "compared:"), comparison.equal)
}

fn result_style(to: Option<&str>) -> anstyle::Style {
    match to {
        Some("ok" | "changed" | "held") => GOOD,
        Some("failed" | "blocked" | "unreachable" | "stale" | "locked" | "unknown") => BAD,
        _ => CHANGE,
    }
}
