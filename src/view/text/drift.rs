//! Drift: findings, worst first and equal ones once. One line if there are none.

pub(in crate::view) mod change_source;
pub(in crate::view) mod entry;
mod history;
mod names;

use super::{TextWriter, plan_sections};
use crate::drift::{DriftCounts, DriftReport, FindingSeverity, UndecidedItem};

use super::shared_lines::format_hosts;
use crate::plan::HostReachability;
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::text::{group, outliers};
use crate::view::{escape, format_count, format_duration, formatting};
use entry::DriftEntry;
pub use history::write_history;
use names::format_step_name;
use std::io::{self, Write};

/// Writes the whole result.
pub fn write_drift(text: &TextWriter, drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    super::shared_lines::write_simulated(&drift.simulated, out)?;
    let entries = entry::group_entries(&drift.findings);
    let (faults, rest): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.first().is_hardware_fault());
    write_section("hardware faults: apply cannot repair them", &faults, text, drift, out)?;
    for (severity, head) in SEVERITY_HEADINGS {
        let of: Vec<&DriftEntry<'_>> =
            rest.iter().copied().filter(|entry| entry.first().severity == severity).collect();
        write_section(head, &of, text, drift, out)?;
    }
    write_unknown(&drift.unknown, out)?;
    write_unreachable(drift, out)?;
    write_warnings(drift, out)?;
    history::write_resolved(&drift.resolved, text.verbose > 0, out)?;
    history::write_ignored(&drift.ignored, text.verbose > 0, out)?;
    write_no_history(drift, out)?;
    write_outliers(text, drift, out)?;
    writeln!(out, "{}", closing_line(drift))?;
    write_next_step(text, drift, out)
}

const SEVERITY_HEADINGS: [(FindingSeverity, &str); 4] = [
    (FindingSeverity::Critical, "critical"),
    (FindingSeverity::High, "high"),
    (FindingSeverity::Medium, "medium"),
    (FindingSeverity::Low, "low"),
];

fn write_section(
    head: &str,
    entries: &[&DriftEntry<'_>],
    text: &TextWriter,
    drift: &DriftReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, head))?;
    entries.iter().try_for_each(|entry| entry::write_entry(entry, text.verbose > 0, &drift.time, out))?;
    writeln!(out)
}

fn write_unknown(unsure: &[UndecidedItem], out: &mut dyn Write) -> io::Result<()> {
    if unsure.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "unknown: could not be evaluated, even after a retry"))?;
    let all = unsure.iter().map(|unsure| (&unsure.host, unsure));
    for (unsure, hosts) in group::group_equal(all, |u| (&u.recipe, &u.step, &u.reason, &u.hint)).values() {
        writeln!(out, "{} {}", paint(UNKNOWN, "?"), format_step_name(&unsure.recipe, &unsure.step))?;
        writeln!(out, "    {}", escape::escape_untrusted(&unsure.reason))?;
        unsure.hint.iter().try_for_each(|hint| writeln!(out, "    hint: {}", escape::escape_line(hint)))?;
        writeln!(out, "    {}", paint(DIM, format_hosts(hosts)))?;
    }
    writeln!(out)
}

fn write_unreachable(drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    let silent = drift.hosts.iter().filter_map(|host| match &host.reach {
        HostReachability::Observed => None,
        HostReachability::Unreachable(why) => Some((&host.host, why)),
    });
    let groups = group::group_unreachable(silent);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "unreachable"))?;
    for (why, hosts) in &groups {
        plan_sections::write_unreachable_group(why, hosts, out)?;
    }
    writeln!(out)
}

fn write_warnings(drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    let all = drift.hosts.iter().flat_map(|host| host.warnings.iter().map(move |warning| (&host.host, warning)));
    let groups = group::group_equal(all, |warning| warning);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "warnings"))?;
    for (warning, hosts) in groups.values() {
        plan_sections::write_warning_group(warning, hosts, out)?;
    }
    writeln!(out)
}

fn write_no_history(drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    match &drift.no_history {
        None => Ok(()),
        Some(why) => writeln!(out, "no history, so all findings are reported as new: {}\n", escape::escape_line(why)),
    }
}

fn write_outliers(text: &TextWriter, drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    match &drift.outliers {
        None => Ok(()),
        Some(outliers) => outliers::write_outlier_section(outliers, text.verbose > 0, out),
    }
}

/// Returns the summary line: no drift, or the counts of findings.
fn closing_line(drift: &DriftReport) -> String {
    let counts = drift.count_findings();
    let time = format_duration(drift.took);
    let hosts = formatting::summarize_hosts(drift.hosts.iter().map(|host| &host.host));
    if counts.findings + counts.unknown + counts.unreachable == 0 {
        let settled = formatting::matching(counts.settled, "check");
        let aside = format_aside(&counts);
        return format!("{} {hosts}, {settled}{aside} ({time})", paint(GOOD, "no drift:"));
    }
    let severities: Vec<(usize, &str)> = FindingSeverity::WORST_FIRST
        .iter()
        .map(|severity| (counts.by_severity.get(severity.name()).copied().unwrap_or(0), severity.name()))
        .collect();
    let found = match counts.findings {
        0 => match formatting::summarize_answers(drift.hosts.iter().map(|host| (&host.host, &host.reach))) {
            Some(observed) => format!("no findings on {observed}"),
            None => "no host answered".to_owned(),
        },
        some => format!(
            "{} on {}: {}",
            format_count(some, "finding"),
            formatting::format_drifted_hosts(drift, &counts),
            formatting::join_counts(&severities)
        ),
    };
    let open = formatting::join_counts(&[(counts.unknown, "unknown"), (counts.unreachable, "unreachable")]);
    let mut parts = vec![found];
    parts.extend((!open.is_empty()).then_some(open));
    let style = if counts.findings == 0 { UNKNOWN } else { BAD };
    format!("{} {}{} ({time})", paint(style, "drift:"), parts.join("; "), format_aside(&counts))
}

/// Returns the counts of what waits for another step, and of ignored and resolved findings.
fn format_aside(counts: &DriftCounts) -> String {
    let aside =
        [(counts.follow, "waiting for another step"), (counts.ignored, "ignored"), (counts.resolved, "resolved")];
    match formatting::join_counts(&aside) {
        some if some.is_empty() => some,
        some => format!("; {some}"),
    }
}

fn write_next_step(text: &TextWriter, drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    match drift.findings.iter().any(|finding| finding.is_repairable()) {
        true => text.write_next_command("plan", out),
        false => Ok(()),
    }
}
