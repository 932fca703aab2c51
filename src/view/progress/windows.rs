//! Formats events of windows and reboots as one line each.

use super::ProgressDetail;
use super::progress_line::{ProgressLine, format_failure, format_step_id, format_untrusted, prefix_host};
use super::time_left::format_estimate;
use crate::acceptance::{TestVerdict, format_measure};
use crate::engine::{CompletedReboot, Event, NodeDrainEvent, ReturnTest};
use crate::model::{HostName, StepId, UntrustedText};
use crate::view::formatting::list_names;
use crate::view::style::{BAD, DISRUPT, paint};
use crate::view::{escape, format_count, format_duration};

/// Returns the line for an event of a window.
pub fn window_event_line(event: &Event) -> Option<ProgressLine> {
    use ProgressDetail::{Normal, Quiet, Verbose};
    match event {
        Event::AwaitingWindow { host, wave } => {
            ProgressLine::new(Normal, prefix_host(host, &format!("waits for its window (wave {})", wave + 1)))
        }
        Event::Busy { host, holders } => {
            ProgressLine::new(Normal, prefix_host(host, &format!("waits: busy: {}", join_holders(holders))))
        }
        Event::WindowOpened { host, stops } => ProgressLine::new(Normal, window_opened_line(host, stops)),
        Event::ReturnTestsStarted { host, tests } => ProgressLine::new(
            Normal,
            prefix_host(host, &format!("is tested before its return: {}", escape::escape_line(&list_names(tests)))),
        ),
        Event::ReturnTestRound { host, .. } => {
            ProgressLine::new(Verbose, prefix_host(host, &format!("is tested: {}", format_return_round(event)?)))
        }
        Event::ReturnTestsFinished { host, tests } => {
            let results: Vec<String> = tests.iter().map(format_return_test).collect();
            ProgressLine::new(Normal, prefix_host(host, &format!("tested: {}", results.join("; "))))
        }
        Event::WindowClosed { host } => ProgressLine::new(Normal, prefix_host(host, "is back in service")),
        Event::WindowLeftOpen { host, why } => {
            ProgressLine::new(Quiet, prefix_host(host, &format_failure("stays out of service, window left open", why)))
        }
        Event::WindowShut { host, why } => {
            ProgressLine::new(Quiet, prefix_host(host, &format_failure("window not opened", why)))
        }
        Event::Node { host, node, news } => self::node_event_line(host, node, news),
        Event::Rebooting { host, steps } => ProgressLine::new(Normal, rebooting_line(host, steps)),
        Event::Rebooted { host, reboot } => ProgressLine::new(Normal, prefix_host(host, &format_reboot(reboot))),
        Event::Evicted { host, holders, why } => {
            let head = paint(BAD, "ended processes that held its devices");
            ProgressLine::new(
                Quiet,
                prefix_host(host, &format!("{head} ({}): {}", escape::escape_line(why), join_holders(holders))),
            )
        }
        _ => None,
    }
}

fn window_opened_line(host: &HostName, stops: &[String]) -> String {
    let head = paint(DISRUPT, "is taken out of service");
    match stops {
        [] => prefix_host(host, &head.to_string()),
        stops => prefix_host(host, &format!("{head}; stopped: {}", escape::escape_line(&stops.join(", ")))),
    }
}

fn node_event_line(host: &HostName, node: &UntrustedText, news: &NodeDrainEvent) -> Option<ProgressLine> {
    use ProgressDetail::{Normal, Quiet};
    let node = format!("Kubernetes node {}", format_untrusted(node));
    match news {
        NodeDrainEvent::Absent => {
            ProgressLine::new(Quiet, prefix_host(host, "is not a Kubernetes node: nothing to drain"))
        }
        NodeDrainEvent::NoCluster => ProgressLine::new(Quiet, prefix_host(host, "no cluster yet: nothing to drain")),
        NodeDrainEvent::Waits { pods } => {
            ProgressLine::new(Normal, prefix_host(host, &format!("waits for {node}: {}", join_holders(pods))))
        }
        NodeDrainEvent::Drained { pods, cordoned } => {
            let who = if *cordoned { "" } else { ", already cordoned by another user" };
            ProgressLine::new(
                Normal,
                prefix_host(host, &format!("{node} drained ({} evicted{who})", format_count(*pods, "pod"))),
            )
        }
        NodeDrainEvent::Lacks { what } => ProgressLine::new(
            Normal,
            prefix_host(host, &format!("{node} not uncordoned yet; missing: {}", join_holders(what))),
        ),
        NodeDrainEvent::Returned { cordoned: false } => {
            ProgressLine::new(Normal, prefix_host(host, &format!("{node} schedulable again")))
        }
        NodeDrainEvent::Returned { cordoned: true } => {
            ProgressLine::new(Quiet, prefix_host(host, &format!("{node} stays cordoned: cordoned by another user")))
        }
    }
}

fn rebooting_line(host: &HostName, steps: &[StepId]) -> String {
    let steps: Vec<String> = steps.iter().map(format_step_id).collect();
    prefix_host(host, &format!("{} for {}", paint(DISRUPT, "reboots"), steps.join(", ")))
}

/// Returns `rebooted (1 min 05 s, boot id … → …)`.
pub fn format_reboot(reboot: &CompletedReboot) -> String {
    let (from, to) = (format_untrusted(&reboot.from), format_untrusted(&reboot.to));
    format!("rebooted ({}, boot id {from} → {to})", format_duration(reboot.took))
}

/// Returns `dcgm-diag, round 2 of 3, about 1 min left` for a test of a host that is to be brought back.
pub fn format_return_round(event: &Event) -> Option<String> {
    let Event::ReturnTestRound { test, rail, done, total, left, .. } = event else { return None };
    let rail = rail.as_ref().map(|rail| format!(" on {}", escape::escape_line(rail))).unwrap_or_default();
    let left = left.map(|left| format!(", about {} left", format_estimate(left))).unwrap_or_default();
    Some(format!("{}{rail}, round {} of {total}{left}", escape::escape_line(test), done + 1))
}

/// Returns `fio-read passed: 2.1 GB/s, at least 1 GB/s (declared)`.
fn format_return_test(test: &ReturnTest) -> String {
    let rail = test.rail.iter().map(|rail| format!(" of {rail}")).collect::<String>();
    let result = match &test.verdict {
        TestVerdict::Pass { value, expected } => {
            format!("passed: {}, {expected}", format_measure(*value, &test.unit))
        }
        TestVerdict::Fail { reason, .. } => format!("failed: {reason}"),
        TestVerdict::NotMeasured { reason } => format!("not measured: {reason}"),
    };
    escape::escape_line(&format!("{}{rail} {result}", test.test)).into_owned()
}

fn join_holders(holders: &[UntrustedText]) -> String {
    holders.iter().map(format_untrusted).collect::<Vec<_>>().join("; ")
}
