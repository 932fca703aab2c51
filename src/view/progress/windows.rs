//! Formats events of windows and reboots as one line each.

use super::Detail;
use super::words::{Line, bad, id, of, shown};
use crate::engine::{Event, NodeNews, Rebooted};
use crate::model::{HostName, StepId, Untrusted};
use crate::view::style::{BAD, DISRUPT, paint};
use crate::view::{count, escape, took};

/// Returns the line for an event of a window.
pub fn line(event: &Event) -> Option<Line> {
    use Detail::{Normal, Quiet};
    match event {
        Event::AwaitingWindow { host, wave } => {
            Line::new(Normal, of(host, &format!("waits for its window (wave {})", wave + 1)))
        }
        Event::Busy { host, holders } => Line::new(Normal, of(host, &format!("waits: busy: {}", all(holders)))),
        Event::WindowOpened { host, stops } => Line::new(Normal, opened(host, stops)),
        Event::WindowClosed { host } => Line::new(Normal, of(host, "is back in service")),
        Event::WindowLeftOpen { host, why } => {
            Line::new(Quiet, of(host, &bad("stays out of service, window left open", why)))
        }
        Event::WindowShut { host, why } => Line::new(Quiet, of(host, &bad("window not opened", why))),
        Event::Node { host, node, news } => self::node(host, node, news),
        Event::Rebooting { host, steps } => Line::new(Normal, rebooting(host, steps)),
        Event::Rebooted { host, reboot } => Line::new(Normal, of(host, &rebooted(reboot))),
        Event::Evicted { host, holders, why } => {
            let head = paint(BAD, "ended processes that held its devices");
            Line::new(Quiet, of(host, &format!("{head} ({}): {}", escape::line(why), all(holders))))
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

fn node(host: &HostName, node: &Untrusted, news: &NodeNews) -> Option<Line> {
    use Detail::{Normal, Quiet};
    let node = format!("Kubernetes node {}", shown(node));
    match news {
        NodeNews::Absent => Line::new(Quiet, of(host, "is not a Kubernetes node: nothing to drain")),
        NodeNews::Waits { pods } => Line::new(Normal, of(host, &format!("waits for {node}: {}", all(pods)))),
        NodeNews::Drained { pods, cordoned } => {
            let who = if *cordoned { "" } else { ", already cordoned by another user" };
            Line::new(Normal, of(host, &format!("{node} drained ({} evicted{who})", count(*pods, "pod"))))
        }
        NodeNews::Lacks { what } => {
            Line::new(Normal, of(host, &format!("{node} not uncordoned yet; missing: {}", all(what))))
        }
        NodeNews::Returned { cordoned: false } => Line::new(Normal, of(host, &format!("{node} schedulable again"))),
        NodeNews::Returned { cordoned: true } => {
            Line::new(Quiet, of(host, &format!("{node} stays cordoned: cordoned by another user")))
        }
    }
}

fn rebooting(host: &HostName, steps: &[StepId]) -> String {
    let steps: Vec<String> = steps.iter().map(id).collect();
    of(host, &format!("{} for {}", paint(DISRUPT, "reboots"), steps.join(", ")))
}

/// Returns `rebooted (1 min 05 s, boot id … → …)`.
pub fn rebooted(reboot: &Rebooted) -> String {
    let (from, to) = (shown(&reboot.from), shown(&reboot.to));
    format!("rebooted ({}, boot id {from} → {to})", took(reboot.took))
}

fn all(holders: &[Untrusted]) -> String {
    holders.iter().map(shown).collect::<Vec<_>>().join("; ")
}
