//! Formats events of windows and reboots as one line each.

use super::ProgressDetail;
use super::words::{ProgressLine, bad, id, of, shown};
use crate::engine::{CompletedReboot, Event, NodeDrainEvent};
use crate::model::{HostName, StepId, UntrustedText};
use crate::view::style::{BAD, DISRUPT, paint};
use crate::view::{count, escape, took};

/// Returns the line for an event of a window.
pub fn line(event: &Event) -> Option<ProgressLine> {
    use ProgressDetail::{Normal, Quiet};
    match event {
        Event::AwaitingWindow { host, wave } => {
            ProgressLine::new(Normal, of(host, &format!("waits for its window (wave {})", wave + 1)))
        }
        Event::Busy { host, holders } => ProgressLine::new(Normal, of(host, &format!("waits: busy: {}", all(holders)))),
        Event::WindowOpened { host, stops } => ProgressLine::new(Normal, opened(host, stops)),
        Event::WindowClosed { host } => ProgressLine::new(Normal, of(host, "is back in service")),
        Event::WindowLeftOpen { host, why } => {
            ProgressLine::new(Quiet, of(host, &bad("stays out of service, window left open", why)))
        }
        Event::WindowShut { host, why } => ProgressLine::new(Quiet, of(host, &bad("window not opened", why))),
        Event::Node { host, node, news } => self::node(host, node, news),
        Event::Rebooting { host, steps } => ProgressLine::new(Normal, rebooting(host, steps)),
        Event::Rebooted { host, reboot } => ProgressLine::new(Normal, of(host, &rebooted(reboot))),
        Event::Evicted { host, holders, why } => {
            let head = paint(BAD, "ended processes that held its devices");
            ProgressLine::new(Quiet, of(host, &format!("{head} ({}): {}", escape::line(why), all(holders))))
        }
        _ => None,
    }
}

fn opened(host: &HostName, stops: &[String]) -> String {
    let head = paint(DISRUPT, "is taken out of service");
    match stops {
        [] => of(host, &head.to_string()),
        stops => of(host, &format!("{head}; stopped: {}", escape::line(&stops.join(", ")))),
    }
}

fn node(host: &HostName, node: &UntrustedText, news: &NodeDrainEvent) -> Option<ProgressLine> {
    use ProgressDetail::{Normal, Quiet};
    let node = format!("Kubernetes node {}", shown(node));
    match news {
        NodeDrainEvent::Absent => ProgressLine::new(Quiet, of(host, "is not a Kubernetes node: nothing to drain")),
        NodeDrainEvent::Waits { pods } => {
            ProgressLine::new(Normal, of(host, &format!("waits for {node}: {}", all(pods))))
        }
        NodeDrainEvent::Drained { pods, cordoned } => {
            let who = if *cordoned { "" } else { ", already cordoned by another user" };
            ProgressLine::new(Normal, of(host, &format!("{node} drained ({} evicted{who})", count(*pods, "pod"))))
        }
        NodeDrainEvent::Lacks { what } => {
            ProgressLine::new(Normal, of(host, &format!("{node} not uncordoned yet; missing: {}", all(what))))
        }
        NodeDrainEvent::Returned { cordoned: false } => {
            ProgressLine::new(Normal, of(host, &format!("{node} schedulable again")))
        }
        NodeDrainEvent::Returned { cordoned: true } => {
            ProgressLine::new(Quiet, of(host, &format!("{node} stays cordoned: cordoned by another user")))
        }
    }
}

fn rebooting(host: &HostName, steps: &[StepId]) -> String {
    let steps: Vec<String> = steps.iter().map(id).collect();
    of(host, &format!("{} for {}", paint(DISRUPT, "reboots"), steps.join(", ")))
}

/// Returns `rebooted (1 min 05 s, boot id … → …)`.
pub fn rebooted(reboot: &CompletedReboot) -> String {
    let (from, to) = (shown(&reboot.from), shown(&reboot.to));
    format!("rebooted ({}, boot id {from} → {to})", took(reboot.took))
}

fn all(holders: &[UntrustedText]) -> String {
    holders.iter().map(shown).collect::<Vec<_>>().join("; ")
}
