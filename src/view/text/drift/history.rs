//! Earlier findings: resolved ones, ignored ones, and the history.

use super::names::format_step_name;
use crate::drift::{DriftHistory, DriftRunSummary, FindingCount, IgnoreRuleResult, KnownFinding};
use crate::model::{HostName, UntrustedText};
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::text::shared_lines::format_hosts;
use crate::view::{escape, format_count, format_duration, formatting};
use indexmap::IndexMap;
use std::io::{self, Write};
use std::time::Duration;

/// Number of resolved findings shown without `-v`.
const MAX_RESOLVED: usize = 10;

/// Number of runs listed in a history. More are counted.
const MAX_RUNS: usize = 20;

/// Writes the resolved findings: all if `verbose`, else the first ones.
pub fn write_resolved(list: &[KnownFinding], verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let steps = group_steps(list);
    if steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "resolved since the last run"))?;
    let shown = if verbose { steps.len() } else { steps.len().min(MAX_RESOLVED) };
    for (known, hosts) in &steps[..shown] {
        let since = escape::escape_line(&known.first().since);
        writeln!(out, "{} {}, since {since}  {}", paint(GOOD, "="), known.name(), paint(DIM, format_hosts(hosts)))?;
    }
    if steps.len() > shown {
        writeln!(out, "{} {} more", paint(DIM, "."), steps.len() - shown)?;
    }
    writeln!(out)
}

/// The findings of one step of one host at one time.
struct PastStep<'a>(Vec<&'a KnownFinding>);

impl<'a> PastStep<'a> {
    fn first(&self) -> &'a KnownFinding {
        // A step has at least one finding.
        self.0[0]
    }

    /// Returns `base/motd: content, mode`.
    fn name(&self) -> String {
        let name = format_step_name(&self.first().recipe, &self.first().step);
        let attributes: Vec<_> = self.0.iter().filter_map(|known| known.attribute.as_deref()).collect();
        match attributes.is_empty() {
            true => name,
            false => format!("{name}: {}", escape::escape_line(&attributes.join(", "))),
        }
    }
}

/// Groups findings by step and time, then groups hosts with equal findings, in input order.
fn group_steps(list: &[KnownFinding]) -> Vec<(PastStep<'_>, Vec<&HostName>)> {
    let mut steps: IndexMap<_, Vec<&KnownFinding>> = IndexMap::new();
    for known in list {
        let key = (&known.host, &known.recipe, &known.step, &known.first_seen, &known.resolved, known.cause);
        steps.entry(key).or_default().push(known);
    }
    let mut same: IndexMap<_, (PastStep<'_>, Vec<&HostName>)> = IndexMap::new();
    for known in steps.into_values() {
        let attributes: Vec<_> = known.iter().map(|known| (&known.attribute, known.times)).collect();
        let first = known[0];
        let key = (&first.recipe, &first.step, &first.first_seen, &first.resolved, first.cause, attributes);
        same.entry(key).or_insert_with(|| (PastStep(known), Vec::new())).1.push(&first.host);
    }
    same.into_values().collect()
}

/// Writes expired ignore rules. If `verbose`, also writes the rules that matched findings.
pub fn write_ignored(lines: &[IgnoreRuleResult], verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let told: Vec<&IgnoreRuleResult> = lines.iter().filter(|line| verbose || line.expired).collect();
    if told.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "ignored"))?;
    for line in told {
        let (what, why) = (escape::escape_line(&line.what), escape::escape_line(&line.why));
        let (until, place) = (escape::escape_line(&line.until), escape::escape_line(&line.place));
        match line.expired {
            true => {
                let head = format!("`{what}` is no longer ignored: the entry expired after {until} ({why})");
                writeln!(
                    out,
                    "{} {head}\n    hint: remove the entry at {place}, or extend its `until`",
                    paint(UNKNOWN, "!")
                )?;
            }
            false => writeln!(out, "{} `{what}` until {until}: {} ({why})", paint(DIM, "."), line.count)?,
        }
    }
    writeln!(out)
}

/// Writes a history.
pub fn write_history(history: &DriftHistory, out: &mut dyn Write) -> io::Result<()> {
    write_runs(&history.runs, out)?;
    write_known("open", &history.open, out)?;
    write_known("resolved", &history.resolved, out)?;
    write_offenders("found most often, by host", &history.hosts, out)?;
    write_offenders("found most often, by step", &history.steps, out)?;
    writeln!(out, "{}", closing_line(history))
}

fn write_runs(runs: &[DriftRunSummary], out: &mut dyn Write) -> io::Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "runs"))?;
    let more = runs.len().saturating_sub(MAX_RUNS);
    if more > 0 {
        writeln!(out, "{} {}", paint(DIM, "."), format_count(more, "earlier run"))?;
    }
    for run in &runs[more..] {
        let moved = formatting::join_counts(&[(run.new, "new"), (run.changed, "changed"), (run.resolved, "resolved")]);
        let found = formatting::join_counts(&[
            (run.findings, "found"),
            (run.unknown, "unknown"),
            (run.unreachable, "unreachable"),
        ]);
        let parts = [format_count(run.hosts, "host"), found, moved];
        let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect();
        let (style, symbol) = if run.is_clean() { (GOOD, "=") } else { (BAD, "~") };
        writeln!(
            out,
            "{} {}  {}, exit {}, {}",
            paint(style, symbol),
            escape::escape_line(&run.time),
            parts.join(", "),
            run.exit,
            format_duration(Duration::from_millis(run.took_ms))
        )?;
    }
    writeln!(out)
}

fn write_known(head: &str, list: &[KnownFinding], out: &mut dyn Write) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, head))?;
    for (step, hosts) in group_steps(list) {
        let known = step.first();
        let times = if known.times > 1 { format!(", {} times", known.times) } else { String::new() };
        let until =
            known.resolved.as_deref().map(|time| format!(" to {}", escape::escape_line(time))).unwrap_or_default();
        let span = format!("{}{until}{times}", escape::escape_line(&known.first_seen));
        writeln!(out, "{} {}  {span}  {}", known_symbol(known), step.name(), paint(DIM, known.cause.describe()))?;
        writeln!(out, "    {}", paint(DIM, format_hosts(&hosts)))?;
    }
    writeln!(out)
}

fn known_symbol(known: &KnownFinding) -> String {
    match known.resolved {
        Some(_) => paint(GOOD, "=").to_string(),
        None => paint(BAD, "~").to_string(),
    }
}

fn write_offenders(head: &str, list: &[FindingCount], out: &mut dyn Write) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, head))?;
    list.iter().try_for_each(|one| writeln!(out, "{:>5}  {}", one.count, escape_name(&one.name)))?;
    writeln!(out)
}

fn escape_name(name: &UntrustedText) -> String {
    escape::escape_untrusted(name).into_owned()
}

fn closing_line(history: &DriftHistory) -> String {
    let quiet = history.runs.iter().filter(|run| run.is_clean()).count();
    let mut parts = vec![format!("{} ({quiet} without drift)", format_count(history.runs.len(), "run"))];
    parts.push(format!("{} open, {} resolved", history.open.len(), history.resolved.len()));
    let repair = history.mean_time_to_repair_s;
    parts
        .extend(repair.map(|seconds| format!("mean time to repair {}", format_duration(Duration::from_secs(seconds)))));
    format!("{} {}", paint(HEAD, "history:"), parts.join("; "))
}
