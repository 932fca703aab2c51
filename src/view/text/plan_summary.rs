//! The summary line of a plan: counts, hosts and maximum disruption.

use crate::model::DisruptionClass;
use crate::plan::{HostPlan, Plan, PlanCounts};
use crate::view::style::{GOOD, HEAD, paint};
use crate::view::{format_count, formatting};
use std::io::{self, Write};

/// Reports whether the plan has no changes and no pending, blocked, unknown or waiting items.
pub fn is_settled(counts: &PlanCounts) -> bool {
    let steps = counts.change + counts.pending + counts.blocked + counts.unknown + counts.waiting + counts.held;
    steps + counts.windows + counts.unreachable + counts.verify_failed + counts.verify_unknown == 0
}

/// Writes the closing line.
pub fn write_summary(plan: &Plan, counts: &PlanCounts, out: &mut dyn Write) -> io::Result<()> {
    if is_settled(counts) {
        return write_no_changes(plan, counts, out);
    }
    let mut parts = vec![format_changes(plan, counts)];
    parts.extend(list_open_counts(counts));
    parts.extend(format_windows(plan, counts));
    parts.extend(format_disruption(plan));
    writeln!(out, "{} {}", paint(HEAD, "plan:"), parts.join("; "))
}

fn write_no_changes(plan: &Plan, counts: &PlanCounts, out: &mut dyn Write) -> io::Result<()> {
    let cluster = plan.hosts.iter().any(|host| host.host.is_cluster());
    let (hosts, steps) =
        (formatting::format_host_count(counts.hosts, cluster), formatting::matching(counts.ok, "step"));
    let elsewhere = match counts.not_applicable {
        0 => String::new(),
        some => format!(", {some} not applicable"),
    };
    writeln!(out, "{} {hosts}, {steps}{elsewhere}", paint(GOOD, "no changes:"))
}

fn format_changes(plan: &Plan, counts: &PlanCounts) -> String {
    if counts.change == 0 {
        let answers = plan.hosts.iter().map(|host| (&host.host, &host.reach));
        return match formatting::summarize_answers(answers) {
            None => "no host answered".to_owned(),
            Some(hosts) if counts.unreachable > 0 => format!("no changes on {hosts}"),
            // A window may reboot a host for a change that was made before.
            Some(_) if counts.windows > 0 => "no step changes".to_owned(),
            Some(_) => "no changes".to_owned(),
        };
    }
    let predicted = match counts.predicted {
        0 => String::new(),
        some => format!(" ({some} predicted)"),
    };
    let (changes, changing) = (format_count(counts.change, "change"), counts.changing);
    let cluster = if counts.cluster_changing { " and the cluster" } else { "" };
    match counts.hosts {
        _ if changing == 0 && counts.cluster_changing => format!("{changes}{predicted} on the cluster"),
        1 => format!("{changes}{predicted} on 1 host{cluster}"),
        hosts => format!("{changes}{predicted} on {changing} of {hosts} hosts{cluster}"),
    }
}

fn list_open_counts(counts: &PlanCounts) -> Vec<String> {
    let steps = formatting::join_counts(&[
        (counts.ok, "unchanged"),
        (counts.waiting, "waiting"),
        (counts.held, "held back"),
        (counts.pending, "pending"),
        (counts.blocked, "blocked"),
        (counts.unknown, "unknown"),
    ]);
    let verify = formatting::join_counts(&[(counts.verify_failed, "failed"), (counts.verify_unknown, "unknown")]);
    let hosts = formatting::join_counts(&[(counts.unreachable, "unreachable"), (counts.refused, "refused")]);
    let all = [("steps: ", steps), ("verification: ", verify), ("hosts: ", hosts)];
    all.into_iter().filter(|(_, text)| !text.is_empty()).map(|(head, text)| format!("{head}{text}")).collect()
}

/// Returns `windows: 4 hosts in 2 waves, at most 4 reboots`.
fn format_windows(plan: &Plan, counts: &PlanCounts) -> Option<String> {
    if counts.windows == 0 {
        return None;
    }
    let waves = format_count(plan.rollout.waves.len(), "wave");
    let reboots = match counts.reboots {
        0 => "no reboots".to_owned(),
        some => format!("at most {}", format_count(some, "reboot")),
    };
    Some(format!("windows: {} in {waves}, {reboots}", format_count(counts.windows, "host")))
}

fn format_disruption(plan: &Plan) -> Option<String> {
    let highest = plan.hosts.iter().map(HostPlan::planned_disruption).max().filter(|d| *d > DisruptionClass::D0)?;
    let hosts = plan.hosts.iter().filter(|host| host.planned_disruption() == highest).map(|host| &host.host);
    Some(format!("disruption: {highest} on {} ({})", formatting::summarize_hosts(hosts), highest.meaning()))
}
