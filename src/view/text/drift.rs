//! Drift: findings, worst first and equal ones once. One line if there are none.

pub(in crate::view) mod culprit;
pub(in crate::view) mod entry;
mod past;

use super::{TextWriter, sections};
use crate::drift::{DriftCounts, DriftReport, FindingSeverity, UndecidedItem};
use crate::model::{HostName, UntrustedText};
use crate::plan::HostReachability;
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::text::{group, on_hosts, outliers};
use crate::view::{count, escape, took, words};
use entry::DriftEntry;
pub use past::history;
use std::io::{self, Write};

/// Writes the whole result.
pub fn write(text: &TextWriter, drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    super::simulated(&drift.simulated, out)?;
    let entries = entry::entries(&drift.findings);
    let (faults, rest): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.first().is_fault());
    part("hardware faults: apply cannot repair them", &faults, text, drift, out)?;
    for (severity, head) in PARTS {
        let of: Vec<&DriftEntry<'_>> =
            rest.iter().copied().filter(|entry| entry.first().severity == severity).collect();
        part(head, &of, text, drift, out)?;
    }
    unknown(&drift.unknown, out)?;
    unreachable(drift, out)?;
    warnings(drift, out)?;
    past::resolved(&drift.resolved, text.verbose > 0, out)?;
    past::ignored(&drift.ignored, text.verbose > 0, out)?;
    no_history(drift, out)?;
    odd_ones(text, drift, out)?;
    writeln!(out, "{}", closing(drift))?;
    next(text, drift, out)
}

const PARTS: [(FindingSeverity, &str); 4] = [
    (FindingSeverity::Critical, "critical"),
    (FindingSeverity::High, "high"),
    (FindingSeverity::Medium, "medium"),
    (FindingSeverity::Low, "low"),
];

fn part(
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
    entries.iter().try_for_each(|entry| entry::write(entry, text.verbose > 0, &drift.time, out))?;
    writeln!(out)
}

fn unknown(unsure: &[UndecidedItem], out: &mut dyn Write) -> io::Result<()> {
    if unsure.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "unknown: could not be evaluated, even after a retry"))?;
    let all = unsure.iter().map(|unsure| (&unsure.host, unsure));
    for (unsure, hosts) in group::equal(all, |u| (&u.recipe, &u.step, &u.reason, &u.hint)).values() {
        writeln!(out, "{} {}", paint(UNKNOWN, "?"), named(&unsure.recipe, &unsure.step))?;
        writeln!(out, "    {}", escape::text(&unsure.reason))?;
        unsure.hint.iter().try_for_each(|hint| writeln!(out, "    hint: {}", escape::line(hint)))?;
        writeln!(out, "    {}", paint(DIM, on_hosts(hosts)))?;
    }
    writeln!(out)
}

/// Returns `recipe/step`.
fn named(recipe: &UntrustedText, step: &UntrustedText) -> String {
    format!("{}/{}", escape::text(recipe), escape::text(step))
}

fn unreachable(drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    let silent = drift.hosts.iter().filter_map(|host| match &host.reach {
        HostReachability::Observed => None,
        HostReachability::Unreachable(why) => Some((&host.host, why)),
    });
    let groups = group::silent(silent);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "unreachable"))?;
    for (why, hosts) in &groups {
        sections::unreachable_group(why, hosts, out)?;
    }
    writeln!(out)
}

fn warnings(drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    let all = drift.hosts.iter().flat_map(|host| host.warnings.iter().map(move |warning| (&host.host, warning)));
    let groups = group::equal(all, |warning| warning);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "warnings"))?;
    for (warning, hosts) in groups.values() {
        sections::warning_group(warning, hosts, out)?;
    }
    writeln!(out)
}

fn no_history(drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    match &drift.no_history {
        None => Ok(()),
        Some(why) => writeln!(out, "no history, so all findings are reported as new: {}\n", escape::line(why)),
    }
}

fn odd_ones(text: &TextWriter, drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    match &drift.outliers {
        None => Ok(()),
        Some(outliers) => outliers::section(outliers, text.verbose > 0, out),
    }
}

/// Returns the summary line: no drift, or the counts of findings.
fn closing(drift: &DriftReport) -> String {
    let counts = drift.counts();
    let time = took(drift.took);
    let hosts = words::places_of(drift.hosts.iter().map(|host| &host.host));
    if counts.findings + counts.unknown + counts.unreachable == 0 {
        let settled = words::matching(counts.settled, "check");
        let aside = aside(&counts);
        return format!("{} {hosts}, {settled}{aside} ({time})", paint(GOOD, "no drift:"));
    }
    let severities: Vec<(usize, &str)> = FindingSeverity::WORST_FIRST
        .iter()
        .map(|severity| (counts.by_severity.get(severity.name()).copied().unwrap_or(0), severity.name()))
        .collect();
    let found = match counts.findings {
        0 => format!("no findings on {hosts}"),
        some => format!(
            "{} on {}: {}",
            count(some, "finding"),
            words::of_places(drift, &counts),
            words::counts(&severities)
        ),
    };
    let open = words::counts(&[(counts.unknown, "unknown"), (counts.unreachable, "unreachable")]);
    let mut parts = vec![found];
    parts.extend((!open.is_empty()).then_some(open));
    let style = if counts.findings == 0 { UNKNOWN } else { BAD };
    format!("{} {}{} ({time})", paint(style, "drift:"), parts.join("; "), aside(&counts))
}

/// Returns the counts of ignored and resolved findings.
fn aside(counts: &DriftCounts) -> String {
    match words::counts(&[(counts.ignored, "ignored"), (counts.resolved, "resolved")]) {
        some if some.is_empty() => some,
        some => format!("; {some}"),
    }
}

fn next(text: &TextWriter, drift: &DriftReport, out: &mut dyn Write) -> io::Result<()> {
    match drift.findings.iter().any(|finding| finding.is_repairable()) {
        true => text.next("plan", out),
        false => Ok(()),
    }
}

/// Returns each host once, in order of first appearance.
fn distinct<'a>(hosts: impl IntoIterator<Item = &'a HostName>) -> Vec<&'a HostName> {
    let mut seen = std::collections::BTreeSet::new();
    hosts.into_iter().filter(|host| seen.insert(*host)).collect()
}
