//! Raw texts about a finding. Each format escapes them for its own grammar.

use crate::drift::{DriftCause, DriftFinding, DriftReport, FindingAspect, LastApplied, UndecidedItem};
use crate::model::{DisruptionClass, HostName, StepVerdict, UntrustedText};
use crate::plan::{HostReachability, HostWarning, UnreachableReason};
use crate::view::format_count;
use crate::view::text::drift::change_source;
use crate::view::text::group;
use indexmap::IndexSet;

/// A labelled line of text.
pub type FindingDetail = (&'static str, String);

/// Returns the subject of a finding: `file /etc/motd`, or the name of a verification.
pub fn describe_subject(finding: &DriftFinding) -> String {
    match finding.aspect {
        FindingAspect::Verification => finding.step.raw().to_owned(),
        FindingAspect::Health | FindingAspect::Node | FindingAspect::Window | FindingAspect::Proof => {
            finding.title.raw().to_owned()
        }
        FindingAspect::Step | FindingAspect::Undeclared => {
            format!("{} {}", finding.kind.raw(), finding.title.raw()).trim().to_owned()
        }
    }
}

/// Returns `recipe/step`.
pub fn format_step_name(recipe: &UntrustedText, step: &UntrustedText) -> String {
    format!("{}/{}", recipe.raw(), step.raw())
}

/// Returns `recipe/step`, with the attribute if there is one.
pub fn format_finding_name(finding: &DriftFinding) -> String {
    let name = format_step_name(&finding.recipe, &finding.step);
    match &finding.attribute {
        Some(attribute) => format!("{name}: {attribute}"),
        None => name,
    }
}

/// Returns the cause and the reason. `findings` are the findings of one step, one for each attribute.
pub fn explain_cause(findings: &[&DriftFinding]) -> String {
    let mut reasons: Vec<&str> = findings.iter().map(|finding| finding.reason.raw()).collect();
    reasons.retain(|reason| !reason.is_empty());
    reasons.dedup();
    let reason = reasons.join(", ");
    let Some(first) = findings.first() else { return reason };
    let cause = match first.uncompared {
        true => format!("{}; whether the machine changed too is not known", first.cause.describe()),
        false => first.cause.describe().to_owned(),
    };
    let head = match (first.cause, first.verdict) {
        (DriftCause::NoLongerDeclared | DriftCause::HardwareFault, _) if !reason.is_empty() => return reason,
        (_, StepVerdict::Blocked(class)) => format!("blocked ({}), {cause}", class.name()),
        _ => cause,
    };
    match reason.is_empty() {
        true => head,
        false => format!("{head}: {reason}"),
    }
}

/// The label of the row with a command line. It is quoted exactly, while other rows are sentences.
pub const SOURCE_LABEL: &str = "who";

/// Returns the other rows about findings that differ only in host and times. `now` is the start time of the run.
pub fn list_details(findings: &[&DriftFinding], now: &str) -> Vec<FindingDetail> {
    let Some(first) = findings.first() else { return Vec::new() };
    let mut rows = Vec::new();
    let mut row =
        |label, text: Option<String>| rows.extend(text.filter(|text| !text.is_empty()).map(|text| (label, text)));
    row("cause", Some(first.cause.name().to_owned()));
    row(SOURCE_LABEL, describe_sources(findings));
    row("since", describe_first_seen(findings, now));
    row("also", (first.also > 0).then(|| format!("{} of the recipe", format_count(first.also, "more step"))));
    row("hint", first.hint.clone());
    row("next", first.action.map(|action| format!("{}: {}", action.name(), action.describe())));
    row("repair", (first.disruption > DisruptionClass::D0).then(|| describe_disruption(first.disruption)));
    row("last applied", describe_last_applied(findings));
    row("declared at", (!first.place.is_empty()).then(|| first.place.clone()));
    rows
}

/// Returns the sources of the change, each once. Only a few are named.
fn describe_sources(findings: &[&DriftFinding]) -> Option<String> {
    const ANSWERS: usize = 3;
    let lines = findings.iter().filter_map(|finding| finding.culprit.as_ref()).map(change_source::format_source);
    let lines: IndexSet<String> = lines.map(escape_unpaired_backticks).collect();
    let shown: Vec<&str> = lines.iter().take(ANSWERS).map(String::as_str).collect();
    match lines.len().saturating_sub(ANSWERS) {
        0 => (!shown.is_empty()).then(|| shown.join("; ")),
        more => Some(format!("{}; and {}", shown.join("; "), format_count(more, "more source"))),
    }
}

/// Makes backticks visible if one has no pair: it would pair with that of another source.
fn escape_unpaired_backticks(line: String) -> String {
    match line.matches('`').count().is_multiple_of(2) {
        true => line,
        false => line.replace('`', "\\x60"),
    }
}

fn describe_disruption(class: DisruptionClass) -> String {
    format!("{class}: {}", class.meaning())
}

/// Returns since when the finding exists and how often it occurred. Returns nothing if it is new in this run.
fn describe_first_seen(findings: &[&DriftFinding], now: &str) -> Option<String> {
    let first = findings.iter().map(|finding| finding.first_seen.as_str()).min().unwrap_or(now);
    let times = findings.iter().map(|finding| finding.times).max().unwrap_or(1);
    match (first == now, times) {
        (true, 0 | 1) => None,
        (_, 0 | 1) => Some(first.to_owned()),
        _ => Some(format!("{first}, occurred {times} times within a day")),
    }
}

/// Returns who applied the step last, and when.
fn describe_last_applied(findings: &[&DriftFinding]) -> Option<String> {
    let last = findings.iter().filter_map(|finding| finding.last_applied.as_ref());
    last.max_by(|a, b| a.time.cmp(&b.time)).map(|last| {
        let LastApplied { time, user, controller, run, .. } = last;
        format!("{} by {} on {} (run {})", time.raw(), user.raw(), controller.raw(), run.raw())
    })
}

/// How one attribute differs.
pub enum AttributeDifference<'a> {
    /// The finding has no attribute, or its reason is complete.
    Said,
    Secret,
    /// A unified diff (minus observed, plus declared). The values are shown instead of a note if one of them is absent.
    Diff {
        diff: &'a str,
        observed: Option<&'a str>,
        desired: Option<&'a str>,
    },
    /// The observed and the declared value, and the last applied value if it differs from the declared one.
    Pair {
        observed: Option<&'a str>,
        desired: Option<&'a str>,
        applied: Option<&'a str>,
    },
}

/// Returns how the attribute of a finding differs.
pub fn attribute_difference(finding: &DriftFinding) -> AttributeDifference<'_> {
    let applied = finding.last_applied.as_ref().and_then(|last| last.value.as_ref());
    let applied = applied.filter(|applied| Some(*applied) != finding.desired.as_ref()).map(UntrustedText::raw);
    let observed = finding.observed.as_ref().map(UntrustedText::raw);
    let desired = finding.desired.as_ref().map(UntrustedText::raw);
    let diff = finding.diff.as_ref().map(UntrustedText::raw).filter(|diff| !diff.is_empty());
    match &finding.attribute {
        None => AttributeDifference::Said,
        Some(_) if finding.aspect != FindingAspect::Step => AttributeDifference::Said,
        Some(_) if finding.secret => AttributeDifference::Secret,
        Some(_) => match (diff, observed, desired) {
            (Some(diff), ..) => AttributeDifference::Diff { diff, observed, desired },
            (None, None, None) => AttributeDifference::Said,
            (None, ..) => AttributeDifference::Pair { observed, desired, applied },
        },
    }
}

/// Formats a value. `show` escapes and cuts each part for the grammar of the writer.
pub fn describe_difference(value: &AttributeDifference<'_>, show: impl Fn(&str) -> String) -> String {
    match value {
        AttributeDifference::Said => String::new(),
        AttributeDifference::Secret => "(secret, not shown)".to_owned(),
        AttributeDifference::Diff { observed: Some(_), desired: Some(_), .. }
        | AttributeDifference::Diff { observed: None, desired: None, .. } => {
            "differs (- observed, + declared)".to_owned()
        }
        AttributeDifference::Diff { observed, desired, .. } => describe_difference(
            &AttributeDifference::Pair { observed: *observed, desired: *desired, applied: None },
            show,
        ),
        AttributeDifference::Pair { observed, desired, applied } => {
            let is = observed.map_or_else(|| "missing".to_owned(), &show);
            let declared = desired.map_or_else(|| "absent".to_owned(), &show);
            let applied = applied.map_or_else(String::new, |applied| format!(", last applied {}", show(applied)));
            format!("observed {is}, declared {declared}{applied}")
        }
    }
}

/// Equal items with their hosts.
pub type HostGroups<'a, T> = Vec<(&'a T, Vec<&'a HostName>)>;

/// Returns the steps and verifications that could not be evaluated, equal ones once.
pub fn group_unknown(drift: &DriftReport) -> HostGroups<'_, UndecidedItem> {
    let all = drift.unknown.iter().map(|unsure| (&unsure.host, unsure));
    group::group_equal(all, |u| (&u.recipe, &u.step, &u.reason, &u.hint)).into_values().collect()
}

/// Returns the reasons why hosts are unreachable, equal ones once.
pub fn group_unreachable_hosts(drift: &DriftReport) -> Vec<(UnreachableReason, Vec<&HostName>)> {
    let silent = drift.hosts.iter().filter_map(|host| match &host.reach {
        HostReachability::Observed => None,
        HostReachability::Unreachable(why) => Some((&host.host, why)),
    });
    group::group_unreachable(silent)
}

/// Returns the warnings about hosts, such as an unexpected host name, equal ones once.
pub fn group_warnings(drift: &DriftReport) -> HostGroups<'_, HostWarning> {
    let all = drift.hosts.iter().flat_map(|host| host.warnings.iter().map(move |warning| (&host.host, warning)));
    group::group_equal(all, |warning| warning).into_values().collect()
}
