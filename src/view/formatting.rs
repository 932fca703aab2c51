//! Formats counts, lists and durations for people.

use crate::config::{ChartEdge, ChartStep};
use crate::drift::{DriftCounts, DriftReport};
use crate::graph::DependencyKind;
use crate::model::HostName;
use crate::plan::{HostReachability, StepPlan};
use std::time::Duration;

/// Describes the guard of a reboot.
pub fn describe_reboot_guard(seconds: u64) -> String {
    let time = crate::model::format_guard_time(seconds);
    format!("guard: {time} (a boot that has not brought the host back by then is taken back by the host itself)")
}

/// Returns the mark of a change that cannot be undone, or only in part.
pub fn describe_reversibility(step: &StepPlan) -> &'static str {
    if step.partly_reversible { "cannot be undone completely" } else { "cannot be undone" }
}

/// Describes a guard: `guard: 5m (restores the state before unless a new login succeeds)`.
pub fn describe_guard(seconds: u64) -> String {
    let time = crate::model::format_guard_time(seconds);
    format!("guard: {time} (restores the state before unless a new login succeeds)")
}

/// Returns `1 host`, `3 hosts`.
pub fn format_count(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {}", pluralize_noun(one)),
    }
}

/// Returns `1 step matches`, `3 steps match`.
pub fn matching(number: usize, one: &str) -> String {
    format!("{} {}", format_count(number, one), if number == 1 { "matches" } else { "match" })
}

fn pluralize_noun(one: &str) -> String {
    match one {
        one if one.ends_with('y') => format!("{}ies", &one[..one.len() - 1]),
        one if one.ends_with(['s', 'x']) => format!("{one}es"),
        one => format!("{one}s"),
    }
}

/// Returns `3 hosts`, `3 hosts and the cluster` or `the cluster`. The API of the cluster does not count as a host.
pub fn format_host_count(hosts: usize, cluster: bool) -> String {
    match (hosts, cluster) {
        (0, true) => "the cluster".to_owned(),
        (some, true) => format!("{} and the cluster", format_count(some, "host")),
        (some, false) => format_count(some, "host"),
    }
}

/// Formats the hosts that answered, like [`summarize_hosts`]: only these are known to have no changes. `None` if no host
/// answered.
pub fn summarize_answers<'h>(hosts: impl IntoIterator<Item = (&'h HostName, &'h HostReachability)>) -> Option<String> {
    let (observed, silent): (Vec<_>, Vec<_>) =
        hosts.into_iter().partition(|(_, reach)| **reach == HostReachability::Observed);
    let names = summarize_hosts(observed.iter().map(|(host, _)| *host));
    match (observed.is_empty(), silent.is_empty()) {
        (true, false) => None,
        (_, true) => Some(names),
        (false, false) => Some(format!("{names} that answered")),
    }
}

/// Formats host names like [`format_host_count`].
pub fn summarize_hosts<'h>(names: impl Iterator<Item = &'h HostName>) -> String {
    let (clusters, hosts): (Vec<&HostName>, Vec<&HostName>) = names.partition(|name| name.is_cluster());
    format_host_count(hosts.len(), !clusters.is_empty())
}

/// Returns where a plan changes something: `2 of 3 hosts`, `2 of 3 hosts and the cluster`, `the cluster`.
pub fn format_changing_hosts(counts: &crate::plan::PlanCounts) -> String {
    let cluster = if counts.cluster_changing { " and the cluster" } else { "" };
    match counts.changing {
        0 if counts.cluster_changing => "the cluster".to_owned(),
        changing => format!("{changing} of {}{cluster}", format_count(counts.hosts, "host")),
    }
}

/// Returns where drift was found: `2 of 3 hosts`, `2 of 3 hosts and the cluster`, `the cluster`.
pub fn format_drifted_hosts(drift: &DriftReport, counts: &DriftCounts) -> String {
    let hosts = format!("{} of {}", counts.drifted, format_count(counts.hosts, "host"));
    match (counts.drifted, drift.findings.iter().any(|finding| finding.host.is_cluster())) {
        (0, true) => "the cluster".to_owned(),
        (_, true) => format!("{hosts} and the cluster"),
        (_, false) => hosts,
    }
}

/// Returns a duration for people: `0.3 s`, `12 s`, `3 min 05 s`, `2 h 07 min`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds.round() as u64 {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        whole @ ..60 => format!("{whole} s"),
        whole @ ..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        whole => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Returns an amount of bytes for people: `812 bytes`, `41 kB`, `412.3 MB`.
pub fn format_size(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format_count(bytes as usize, "byte"),
        10_000..=999_999 => format!("{} kB", bytes / 1000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Joins counts such as `(3, "blocked")` and omits zero counts.
pub fn join_counts(parts: &[(usize, &str)]) -> String {
    let said: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    said.join(", ")
}

/// Maximum number of list entries that are named.
const MAX_NAMED_ITEMS: usize = 5;

/// Returns `a, b and c`. Long lists are cut, with the number of omitted entries.
pub fn list_names<T: AsRef<str>>(names: &[T]) -> String {
    let (shown, more) = match names.len() {
        len if len > MAX_NAMED_ITEMS + 1 => (MAX_NAMED_ITEMS, len - MAX_NAMED_ITEMS),
        len => (len, 0),
    };
    let mut parts: Vec<String> = names[..shown].iter().map(|name| name.as_ref().to_owned()).collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    match parts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Returns `a, b or c`.
pub fn join_with_or(words: &[String]) -> String {
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Returns the kind of a step, its scope if not the default, and its disruption class.
pub fn list_step_traits(step: &ChartStep) -> Vec<String> {
    let mut traits = vec![step.kind.to_owned()];
    traits.extend((step.scope != Default::default()).then(|| format!("scope {}", step.scope.name())));
    traits.extend(step.disruption.map(|class| format!("{class}")));
    traits
}

/// Returns the dependency of the step at the end of an edge, with its source location.
pub fn describe_dependency(edge: &ChartEdge) -> String {
    format!("{} {}{}", edge_verb(edge.why), edge.from.full_name(), edge_suffix(edge))
}

/// Returns the dependent step at the end of an edge.
pub fn describe_dependent(edge: &ChartEdge) -> String {
    format!("{} {} it{}", edge.to.full_name(), edge_verb(edge.why), edge_suffix(edge))
}

fn edge_verb(why: DependencyKind) -> &'static str {
    match why {
        DependencyKind::Order => "follows",
        DependencyKind::After => "runs after",
        DependencyKind::Restart => "restarts on changes of",
        DependencyKind::Export => "reads an export of",
        DependencyKind::Needs | DependencyKind::Barrier => "needs",
    }
}

fn edge_suffix(edge: &ChartEdge) -> String {
    let least = edge
        .least
        .as_ref()
        .map_or_else(String::new, |least| format!(" on {least} of the selected hosts (cross-host barrier)"));
    let phase = if edge.why == DependencyKind::Order { String::new() } else { format!("@{}", edge.phase.name()) };
    let place = edge.place.as_ref().map_or_else(String::new, |place| format!("  {place}"));
    format!("{phase}{least}{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_use_singular_and_plural() {
        assert_eq!(format_count(1, "host"), "1 host");
        assert_eq!(format_count(0, "host"), "0 hosts");
        assert_eq!(format_count(2, "verification"), "2 verifications");
        assert_eq!(format_count(2, "inventory"), "2 inventories");
    }

    #[test]
    fn sizes_use_a_unit_that_fits() {
        assert_eq!([1, 9_999, 10_000, 999_999].map(format_size), ["1 byte", "9999 bytes", "10 kB", "999 kB"]);
        assert_eq!(format_size(412_345_678), "412.3 MB");
    }

    #[test]
    fn durations_use_a_unit_that_fits() {
        let of = |ms| format_duration(Duration::from_millis(ms));
        assert_eq!(of(0), "0.0 s");
        assert_eq!(of(2_140), "2.1 s");
        assert_eq!(of(9_960), "10 s");
        assert_eq!(of(59_700), "1 min 00 s");
        assert_eq!(of(185_000), "3 min 05 s");
        assert_eq!(of(7_620_000), "2 h 07 min");
    }

    #[test]
    fn long_lists_are_truncated() {
        assert_eq!(list_names::<&str>(&[]), "");
        assert_eq!(list_names(&["a"]), "a");
        assert_eq!(list_names(&["a", "b"]), "a and b");
        assert_eq!(list_names(&["a", "b", "c", "d", "e", "f"]), "a, b, c, d, e and f");
        assert_eq!(list_names(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }

    #[test]
    fn zero_counts_are_omitted() {
        assert_eq!(join_counts(&[(2, "changed"), (0, "failed"), (1, "ok")]), "2 changed, 1 ok");
        assert_eq!(join_counts(&[]), "");
    }
}
