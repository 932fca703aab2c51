//! A drifted step, verification or hardware part, for all hosts on which it is equal.

use super::change_source;
use super::names::{distinct_hosts, format_step_name};
use crate::drift::{DriftCause, DriftFinding, FindingAspect, RepairAction};
use crate::model::{DisruptionClass, HostName};
use crate::view::drift::finding_details;
use crate::view::style::{BAD, CHANGE, DIM, DISRUPT, HEAD, REMOVE, UNKNOWN, paint};
use crate::view::text::check_output::CheckOutput;
use crate::view::text::diff;
use crate::view::text::shared_lines::format_hosts;
use crate::view::{escape, format_count};
use anstyle::Style;
use indexmap::IndexMap;
use std::hash::Hash;
use std::io::{self, Write};

/// Longer values are cut. The JSON output has the complete value.
const VALUE_CHARS: usize = 160;

/// The differences of one step, and the hosts that share them. Holds the findings of all hosts for each attribute.
pub struct DriftEntry<'a> {
    attributes: Vec<Vec<&'a DriftFinding>>,
}

impl<'a> DriftEntry<'a> {
    /// Returns the first finding. All findings share its displayed fields.
    pub fn first(&self) -> &'a DriftFinding {
        // An entry has at least one finding of at least one host.
        self.attributes[0][0]
    }

    /// Returns the next action: the strongest, since a part can have several faults.
    fn action(&self) -> Option<RepairAction> {
        self.attributes.iter().filter_map(|findings| findings[0].action).max()
    }

    /// Returns the findings of each differing attribute.
    pub fn attributes(&self) -> &[Vec<&'a DriftFinding>] {
        &self.attributes
    }

    /// Returns all findings.
    pub fn iter_findings(&self) -> impl Iterator<Item = &'a DriftFinding> {
        self.attributes.iter().flatten().copied()
    }

    /// Returns what the check that reports the difference printed, if there is one and it printed something.
    pub fn check_output(&self) -> Option<CheckOutput<'a>> {
        CheckOutput::from_runs(self.attributes[0].iter().map(|finding| (&finding.host, finding.check.as_deref())))
    }

    /// Returns the hosts, in order of first appearance.
    pub fn hosts(&self) -> Vec<&'a HostName> {
        distinct_hosts(self.attributes.iter().flatten().map(|finding| &finding.host))
    }
}

/// Groups the findings by object, step and host, then groups hosts with equal findings.
pub fn group_entries(findings: &[DriftFinding]) -> Vec<DriftEntry<'_>> {
    let mut steps: IndexMap<_, Vec<&DriftFinding>> = IndexMap::new();
    for finding in findings {
        // A step may have left several objects behind.
        let step = (&finding.recipe, &finding.step, &finding.kind, &finding.title);
        let key = (&finding.host, step, finding.aspect, finding.severity, (finding.cause, finding.uncompared));
        steps.entry(key).or_default().push(finding);
    }
    let mut groups: IndexMap<Vec<_>, DriftEntry<'_>> = IndexMap::new();
    for found in steps.into_values() {
        let key = found.iter().map(|finding| shown_fields(finding)).collect();
        match groups.entry(key) {
            indexmap::map::Entry::Occupied(mut known) => {
                known.get_mut().attributes.iter_mut().zip(found).for_each(|(list, finding)| list.push(finding));
            }
            indexmap::map::Entry::Vacant(new) => {
                new.insert(DriftEntry { attributes: found.into_iter().map(|finding| vec![finding]).collect() });
            }
        }
    }
    groups.into_values().collect()
}

/// Returns the displayed fields that hosts of one entry share. Times are excluded: they are shown as a span.
fn shown_fields(finding: &DriftFinding) -> impl Hash + Eq + use<'_> {
    let what = (&finding.recipe, &finding.step, finding.aspect, &finding.attribute, &finding.kind, &finding.title);
    let why = (finding.verdict, &finding.reason, &finding.hint, finding.cause, finding.severity, finding.action);
    let last = finding.last_applied.as_ref().and_then(|last| last.value.as_ref());
    (
        what,
        why,
        (&finding.desired, &finding.observed, &finding.diff, finding.secret, finding.disruption, finding.also, last),
    )
}

/// Writes one entry. `now` is the start time of the run.
pub fn write_entry(entry: &DriftEntry<'_>, verbose: bool, now: &str, out: &mut dyn Write) -> io::Result<()> {
    let first = entry.first();
    let (style, symbol) = cause_symbol(first.cause);
    writeln!(out, "{} {}", paint(style, symbol), format_entry_head(first))?;
    writeln!(out, "    {}{}", describe_cause(entry), format_since(entry, now))?;
    entry.check_output().iter().try_for_each(|printed| printed.write_lines(out))?;
    let mut hints = first.hint.iter().filter(|hint| !hint.is_empty());
    hints.try_for_each(|hint| writeln!(out, "    hint: {}", escape::escape_line(hint)))?;
    entry.action().iter().try_for_each(|action| {
        writeln!(out, "    {} {}: {}", paint(BAD, "next:"), action.name(), escape::escape_line(action.describe()))
    })?;
    entry.attributes.iter().try_for_each(|findings| write_attribute(findings[0], out))?;
    change_source::write_sources(entry.iter_findings(), verbose, out)?;
    if first.disruption > DisruptionClass::D0 {
        writeln!(out, "    {} {}: {}", paint(DISRUPT, "!"), first.disruption, first.disruption.meaning())?;
    }
    // It tells whose declaration was applied.
    if verbose || matches!(first.cause, DriftCause::RecipeChanged | DriftCause::Both) {
        write_last_applied(entry, out)?;
    }
    if verbose && !first.place.is_empty() {
        writeln!(out, "    {}", paint(DIM, format!("at {}", escape::escape_line(&first.place))))?;
    }
    writeln!(out, "    {}", paint(DIM, format_hosts(&entry.hosts())))
}

fn cause_symbol(cause: DriftCause) -> (Style, &'static str) {
    match cause {
        DriftCause::HardwareFault => (BAD, "x"),
        DriftCause::MachineChanged | DriftCause::Both => (CHANGE, "~"),
        DriftCause::RecipeChanged => (CHANGE, "^"),
        DriftCause::Pending | DriftCause::TestDue => (UNKNOWN, "."),
        DriftCause::NoLongerDeclared => (REMOVE, "-"),
        DriftCause::Unknown => (UNKNOWN, "~"),
    }
}

/// Returns `file /etc/motd  base/banner`, or `base: page answers` for a verification.
fn format_entry_head(finding: &DriftFinding) -> String {
    let name = format_step_name(&finding.recipe, &finding.step);
    match finding.aspect {
        FindingAspect::Verification => paint(
            HEAD,
            format!("{}: {}", escape::escape_untrusted(&finding.recipe), escape::escape_untrusted(&finding.step)),
        )
        .to_string(),
        FindingAspect::Health | FindingAspect::Node | FindingAspect::Window | FindingAspect::Proof => {
            paint(HEAD, escape::escape_untrusted(&finding.title)).to_string()
        }
        FindingAspect::Step | FindingAspect::Undeclared => {
            format!("{}  {name}", paint(HEAD, escape::escape_line(&finding_details::describe_subject(finding))))
        }
    }
}

/// Returns the cause and the reason.
fn describe_cause(entry: &DriftEntry<'_>) -> String {
    let firsts: Vec<&DriftFinding> = entry.attributes.iter().map(|findings| findings[0]).collect();
    let more = match entry.first().also {
        0 => String::new(),
        some => format!(" (and {} of the recipe)", format_count(some, "more step")),
    };
    format!("{}{more}", escape::escape_line(&finding_details::explain_cause(&firsts)))
}

/// Returns since when the finding exists and how often it occurred. Returns nothing if it is new in this run.
fn format_since(entry: &DriftEntry<'_>, now: &str) -> String {
    let first = entry.iter_findings().map(|finding| finding.first_seen.as_str()).min().unwrap_or(now);
    let times = entry.iter_findings().map(|finding| finding.times).max().unwrap_or(1);
    let flapping = if times > 1 { format!(", occurred {times} times within a day") } else { String::new() };
    match first == now {
        true => flapping,
        false => format!(", since {}{flapping}", escape::escape_line(first)),
    }
}

/// Reports whether the head and the reason already show the whole attribute. This is the case for commands.
fn is_redundant(finding: &DriftFinding, attribute: &str) -> bool {
    attribute == finding.kind.raw() && !finding.secret && finding.desired.as_ref() == Some(&finding.title)
}

fn write_attribute(finding: &DriftFinding, out: &mut dyn Write) -> io::Result<()> {
    let Some(name) = finding.attribute.as_deref().filter(|_| finding.aspect == FindingAspect::Step) else {
        return Ok(());
    };
    if is_redundant(finding, name) {
        return Ok(());
    }
    let (name, value) = (escape::escape_line(name), finding_details::attribute_difference(finding));
    match finding_details::describe_difference(&value, |text| escape::escape_value(text, VALUE_CHARS)).as_str() {
        // The kind has no values: its reason is complete.
        "" => writeln!(out, "    {name}")?,
        shown => writeln!(out, "    {name}: {shown}")?,
    }
    match value {
        finding_details::AttributeDifference::Diff { diff, .. } => diff::write_diff_lines(diff, "      ", out),
        _ => Ok(()),
    }
}

/// Returns a time of a record without fractions of a second.
fn trim_subseconds(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, fraction)) if fraction.ends_with('Z') => format!("{}Z", escape::escape_line(whole)),
        _ => escape::escape_line(time).into_owned(),
    }
}

/// Writes who applied the step last, and when.
fn write_last_applied(entry: &DriftEntry<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut applied: Vec<_> = entry.iter_findings().filter_map(|finding| finding.last_applied.as_ref()).collect();
    applied.sort_by(|a, b| a.time.cmp(&b.time));
    if let (Some(first), Some(last)) = (applied.first(), applied.last()) {
        let who = |last: &crate::drift::LastApplied| {
            let (time, user) = (trim_subseconds(last.time.raw()), escape::escape_untrusted(&last.user));
            format!(
                "{time} by {user} on {} (run {})",
                escape::escape_untrusted(&last.controller),
                escape::escape_untrusted(&last.run)
            )
        };
        let earlier = match first == last {
            true => String::new(),
            false => format!(", earliest of these hosts {}", trim_subseconds(first.time.raw())),
        };
        writeln!(out, "    {}", paint(DIM, format!("last applied {}{earlier}", who(last))))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    #[test]
    fn strongest_action_of_a_part_with_several_faults_is_the_next_one() {
        let fault =
            sample::rich_drift().findings.into_iter().find(|finding| finding.action.is_some()).expect("a fault");
        let with = |attribute: &str, action| DriftFinding {
            attribute: Some(attribute.to_owned()),
            action: Some(action),
            ..fault.clone()
        };
        let findings = [with("xid 149", RepairAction::Inspect), with("xid 154", RepairAction::Drain)];
        let entries = group_entries(&findings);
        assert_eq!(entries.len(), 1, "one part");
        let mut out = Vec::new();
        write_entry(&entries[0], false, "2026-11-21T10:00:00Z", &mut out).expect("writes to memory");
        let text = String::from_utf8(out).expect("is text");
        assert!(text.contains("drain: drain the host, then reset its GPUs") && !text.contains("inspect"), "{text}");
    }
}
