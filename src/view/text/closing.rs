//! The summary line of a plan: counts, hosts and maximum disruption.

use crate::model::DisruptionClass;
use crate::plan::{HostPlan, Plan, PlanCounts};
use crate::view::style::{GOOD, HEAD, paint};
use crate::view::{count, words};
use std::io::{self, Write};

/// Reports whether the plan has no changes and no pending, blocked, unknown or waiting items.
pub fn settled(counts: &PlanCounts) -> bool {
    let steps = counts.change + counts.pending + counts.blocked + counts.unknown + counts.waiting + counts.held;
    steps + counts.windows + counts.unreachable + counts.verify_failed + counts.verify_unknown == 0
}

/// Writes the closing line.
pub fn write(plan: &Plan, counts: &PlanCounts, out: &mut dyn Write) -> io::Result<()> {
    if settled(counts) {
        return nothing(plan, counts, out);
    }
    let mut parts = vec![changes(counts)];
    parts.extend(open(counts));
    parts.extend(windows(plan, counts));
    parts.extend(disruption(plan));
    writeln!(out, "{} {}", paint(HEAD, "plan:"), parts.join("; "))
}

fn nothing(plan: &Plan, counts: &PlanCounts, out: &mut dyn Write) -> io::Result<()> {
    let cluster = plan.hosts.iter().any(|host| host.host.is_cluster());
    let (hosts, steps) = (words::places(counts.hosts, cluster), words::matching(counts.ok, "step"));
    let elsewhere = match counts.not_applicable {
        0 => String::new(),
        some => format!(", {some} not applicable"),
    };
    writeln!(out, "{} {hosts}, {steps}{elsewhere}", paint(GOOD, "no changes:"))
}

fn changes(counts: &PlanCounts) -> String {
    if counts.change == 0 {
        return "no changes".to_owned();
    }
    let predicted = match counts.predicted {
        0 => String::new(),
        some => format!(" ({some} predicted)"),
    };
    let (changes, changing) = (count(counts.change, "change"), counts.changing);
    let cluster = if counts.cluster_changing { " and the cluster" } else { "" };
    match counts.hosts {
        _ if changing == 0 && counts.cluster_changing => format!("{changes}{predicted} on the cluster"),
        1 => format!("{changes}{predicted} on 1 host{cluster}"),
        hosts => format!("{changes}{predicted} on {changing} of {hosts} hosts{cluster}"),
    }
}

fn open(counts: &PlanCounts) -> Vec<String> {
    let steps = words::counts(&[
        (counts.ok, "unchanged"),
        (counts.waiting, "waiting"),
        (counts.held, "held back"),
        (counts.pending, "pending"),
        (counts.blocked, "blocked"),
        (counts.unknown, "unknown"),
    ]);
    let verify = words::counts(&[(counts.verify_failed, "failed"), (counts.verify_unknown, "unknown")]);
    let hosts = words::counts(&[(counts.unreachable, "unreachable"), (counts.refused, "refused")]);
    let all = [("steps: ", steps), ("verification: ", verify), ("hosts: ", hosts)];
    all.into_iter().filter(|(_, text)| !text.is_empty()).map(|(head, text)| format!("{head}{text}")).collect()
}

/// Returns `windows: 4 hosts in 2 waves, at most 4 reboots`.
fn windows(plan: &Plan, counts: &PlanCounts) -> Option<String> {
    if counts.windows == 0 {
        return None;
    }
    let waves = count(plan.rollout.waves.len(), "wave");
    let reboots = match counts.reboots {
        0 => "no reboots".to_owned(),
        some => format!("at most {}", count(some, "reboot")),
    };
    Some(format!("windows: {} in {waves}, {reboots}", count(counts.windows, "host")))
}

fn disruption(plan: &Plan) -> Option<String> {
    let highest = plan.hosts.iter().map(HostPlan::disruption).max().filter(|d| *d > DisruptionClass::D0)?;
    let hosts = plan.hosts.iter().filter(|host| host.disruption() == highest).map(|host| &host.host);
    Some(format!("disruption: {highest} on {} ({})", words::places_of(hosts), highest.meaning()))
}
