//! Windows and reboots that take hosts out of service, and the waves of the rollout.

use super::group;
use super::shared_lines::format_hosts;
use crate::model::HostName;
use crate::plan::{ClosedHours, HostPlan, HostWindow, ObservedNode, Plan, PlannedReboot, RolloutPlan, WindowStop};
use crate::view::fold::fold_names;
use crate::view::style::{DIM, DISRUPT, HEAD, paint};
use crate::view::{escape, format_count, formatting};
use std::io::{self, Write};

/// Number of waves shown. The JSON output has all of them.
const MAX_SHOWN_WAVES: usize = 12;

/// Writes the windows of a plan, equal ones once, then the rollout waves.
pub fn write_windows(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    write_window_groups(plan, out)?;
    write_rollout(plan, out)
}

fn write_window_groups(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let hosts = plan.hosts.iter().filter_map(|host| Some((&host.host, (host, host.window.as_ref()?))));
    let groups = group::group_equal(hosts, |(host, window)| window_lines(host, window));
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "windows: hosts taken out of service"))?;
    for (lines, (_, hosts)) in &groups {
        for (at, line) in lines.iter().enumerate() {
            match at {
                0 => writeln!(out, "{} {}", paint(DISRUPT, "!"), escape::escape_line(line))?,
                _ => writeln!(out, "    {}", escape::escape_line(line))?,
            }
        }
        writeln!(out, "    {}", paint(DIM, format_hosts(hosts)))?;
    }
    writeln!(out)
}

/// Returns the lines that describe a window.
fn window_lines(host: &HostPlan, window: &HostWindow) -> Vec<String> {
    let names: Vec<String> = window.steps.iter().map(ToString::to_string).collect();
    let what = match (names.is_empty(), window.reboots.is_empty()) {
        (true, true) => "no changes".to_owned(),
        (true, false) => "only changes that need a reboot".to_owned(),
        (false, _) => formatting::list_names(&names),
    };
    let mut lines = vec![format!("{}: {what}", host.worst_case_disruption())];
    lines.extend(
        window
            .left_open
            .iter()
            .map(|run| format!("left open by run {}; closed if the whole host matches and verifies", run.raw())),
    );
    lines.extend(window.slurm.then(|| "drained in Slurm first, resumed afterwards if forge drained it".to_owned()));
    lines.extend(window.kubernetes.as_ref().map(format_node));
    lines.extend(
        (!window.returns.is_empty()).then(|| format!("uncordoned once the node has {}", window.returns.join(", "))),
    );
    lines.extend(
        (!window.return_tests.is_empty())
            .then(|| format!("back in service once it passes {}", formatting::list_names(&window.return_tests))),
    );
    lines.extend(window.stops.iter().map(|stop| format_stop("stops", stop)));
    lines.extend(window.unloads.iter().map(|stop| format_stop("unloads", stop)));
    lines.extend(window.reboots.iter().map(format_reboot));
    let guard_s = window.reboots.iter().find_map(|reboot| reboot.guard_s);
    lines.extend(guard_s.map(formatting::describe_reboot_guard));
    lines
}

fn format_node(node: &ObservedNode) -> String {
    match node {
        ObservedNode::Node { name, .. } => {
            format!("drain: Kubernetes node {} first; uncordoned afterwards if forge cordoned it", name.raw())
        }
        ObservedNode::NoCluster => "drain: no cluster yet, nothing to drain".to_owned(),
        ObservedNode::Absent => "drain: not a Kubernetes node yet, nothing to drain".to_owned(),
        ObservedNode::Unknown { why } => {
            format!("drain: Kubernetes node unknown, the host stays in service until it is known: {}", why.raw())
        }
    }
}

fn format_stop(verb: &str, stop: &WindowStop) -> String {
    format!("{verb} {} while {} changes", stop.name, stop.during)
}

fn format_reboot(reboot: &PlannedReboot) -> String {
    let steps: Vec<String> = reboot.steps.iter().map(ToString::to_string).collect();
    let unless = if reboot.certain { "" } else { ", unless a reload makes them effective first" };
    format!("reboots for {}{unless}", formatting::list_names(&steps))
}

fn write_rollout(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let rollout = &plan.rollout;
    if rollout.waves.is_empty() {
        return write_canaries(plan, out);
    }
    writeln!(out, "{}", paint(HEAD, "rollout"))?;
    writeln!(out, "  {}", escape::escape_line(&format_budgets(rollout)))?;
    for (at, wave) in rollout.waves.iter().enumerate().take(MAX_SHOWN_WAVES) {
        let canaries = wave.iter().all(|host| rollout.canaries.contains(host));
        let names = escape::escape_line(&fold_hosts(wave)).into_owned();
        writeln!(out, "  wave {}: {names}{}", at + 1, if canaries { " (canary)" } else { "" })?;
    }
    if rollout.waves.len() > MAX_SHOWN_WAVES {
        writeln!(out, "  and {} more waves", rollout.waves.len() - MAX_SHOWN_WAVES)?;
    }
    writeln!(out)
}

/// Writes who changes first where no host is taken out of service.
fn write_canaries(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let changing = plan.hosts.iter().filter(|host| host.will_run() && !host.host.is_cluster()).map(|host| &host.host);
    let (first, rest): (Vec<&HostName>, Vec<&HostName>) =
        changing.partition(|host| plan.rollout.canaries.contains(*host));
    if first.is_empty() || rest.is_empty() {
        return Ok(());
    }
    let word = if first.len() == 1 { "canary" } else { "canaries" };
    let names = fold_names(first.iter().map(|host| host.as_str()));
    writeln!(out, "{}", paint(HEAD, "rollout"))?;
    writeln!(
        out,
        "  {word} first: {}; the other hosts start afterwards, or when a canary waits for them\n",
        escape::escape_line(&names)
    )
}

/// Returns `at most 2 hosts out of service at once; …`.
fn format_budgets(rollout: &RolloutPlan) -> String {
    let mut parts = vec![format!("at most {} out of service at once", format_count(rollout.max_unavailable, "host"))];
    if !rollout.unavailable.is_empty() {
        parts.push(format!("already out of service: {}", fold_hosts(&rollout.unavailable)));
        if rollout.unavailable.len() >= rollout.max_unavailable {
            parts.push("no other host is taken out of service before one of them is back".to_owned());
        }
    }
    parts.extend(rollout.max_restarting.map(|most| match most {
        1 => "at most 1 host restarts one service at once".to_owned(),
        most => format!("at most {most} hosts restart one service at once"),
    }));
    parts.extend(rollout.max_failed.map(|most| format!("stops when more than {} fail", format_count(most, "host"))));
    parts.extend(rollout.hours.as_ref().map(|hours| format_hours(hours, rollout.closed.as_ref())));
    let quorum: Vec<&str> = rollout.quorum.iter().map(|quorum| quorum.group.as_str()).collect();
    if !quorum.is_empty() {
        parts.push(format!("one host per group at a time: {}", formatting::list_names(&quorum)));
    }
    if !rollout.unselected.is_empty() {
        let names = fold_hosts(&rollout.unselected);
        parts.push(format!("not selected, so it is not known whether they are in service: {names}"));
    }
    parts.join("; ")
}

/// Returns `windows open 22:00-05:00`, and that they are closed.
fn format_hours(hours: &str, closed: Option<&ClosedHours>) -> String {
    match closed {
        Some(ClosedHours { at, opens }) => {
            let now = format!("closed at {at}, the time of this plan");
            format!("windows open {hours}, and are {now}: apply holds them back until {opens}")
        }
        None => format!("windows open {hours}"),
    }
}

fn fold_hosts(hosts: &[HostName]) -> String {
    fold_names(hosts.iter().map(HostName::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    /// Only canaries that change something are named, and only if other hosts wait for them.
    #[test]
    fn canary_is_named_where_every_host_stays_in_service() {
        let changing = |name: &str| sample::observed_host(name, vec![sample::nginx_step()]);
        let same = |name: &str| sample::observed_host(name, vec![sample::unchanged_step("a")]);
        let told = |hosts: Vec<HostPlan>, canaries: &[&str]| {
            let mut plan = sample::plan(hosts);
            plan.rollout.canaries = canaries.iter().map(|name| sample::host(name)).collect();
            let mut out = Vec::new();
            write_rollout(&plan, &mut out).unwrap();
            anstream::adapter::strip_bytes(&out).into_vec()
        };
        let told = |hosts, canaries: &[&str]| String::from_utf8(told(hosts, canaries)).unwrap();
        let first = |names: &str| {
            format!("rollout\n  {names}; the other hosts start afterwards, or when a canary waits for them\n\n")
        };
        assert_eq!(told(vec![changing("a"), changing("b"), same("c")], &["a"]), first("canary first: a"));
        let two = vec![changing("n1"), changing("n2"), changing("n3")];
        assert_eq!(told(two, &["n1", "n2"]), first("canaries first: n[1:2]"));
        assert_eq!(told(vec![changing("a"), changing("b"), same("c")], &["c"]), "");
        assert_eq!(told(vec![changing("a"), same("b")], &["a"]), "");
        assert_eq!(told(vec![changing("a"), changing("b")], &[]), "");
    }

    #[test]
    fn hours_that_are_closed_name_the_time_and_the_next_opening() {
        let closed = Some(ClosedHours { at: "03:47".into(), opens: "22:00".into() });
        let hours = Some("22:00-03:00".to_owned());
        let rollout = RolloutPlan { max_unavailable: 1, hours, closed, ..RolloutPlan::default() };
        assert_eq!(
            format_budgets(&rollout),
            "at most 1 host out of service at once; windows open 22:00-03:00, and are closed at 03:47, the time of \
             this plan: apply holds them back until 22:00"
        );
        let open = RolloutPlan { closed: None, ..rollout };
        assert_eq!(format_budgets(&open), "at most 1 host out of service at once; windows open 22:00-03:00");
    }

    #[test]
    fn node_to_drain_is_named_or_reported_absent() {
        let known = ObservedNode::Node { name: "gpu-1".into(), left: None, obstacles: Vec::new() };
        assert_eq!(
            format_node(&known),
            "drain: Kubernetes node gpu-1 first; uncordoned afterwards if forge cordoned it"
        );
        assert_eq!(format_node(&ObservedNode::Absent), "drain: not a Kubernetes node yet, nothing to drain");
        assert_eq!(format_node(&ObservedNode::NoCluster), "drain: no cluster yet, nothing to drain");
        let away = ObservedNode::Unknown { why: "no answer".into() };
        let told = "drain: Kubernetes node unknown, the host stays in service until it is known: no answer";
        assert_eq!(format_node(&away), told);
    }
}
