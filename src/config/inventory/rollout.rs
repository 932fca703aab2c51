//! `rollout:` as written.

use super::share;
use crate::config::cx::Cx;
use crate::config::rollout::{Hours, Reboots, Rollout};
use crate::config::table::{self, Table};
use crate::config::{Node, scalar};
use crate::diag::{Code, Diag, Span};

/// Keys of `rollout`.
pub(in crate::config) const KEYS: [&str; 10] = [
    "canary",
    "max_unavailable",
    "max_failed",
    "max_restarting",
    "quorum",
    "reboot",
    "reboot_timeout",
    "hours",
    "busy",
    "drain",
];

pub(super) fn read(node: &Node, cx: &mut Cx<'_>) -> Option<Rollout> {
    let table = Table::open(node, "`rollout`", &KEYS, &mut cx.diags)?;
    let plain = Rollout::default();
    let mut get = |key| table.get(key).and_then(|node| share(node, key, cx));
    let (canary, max_failed) = (get("canary"), get("max_failed"));
    let (max_unavailable, max_restarting) = (get("max_unavailable"), get("max_restarting"));
    for (key, found) in [("max_unavailable", max_unavailable), ("max_restarting", max_restarting)] {
        if found.is_some_and(|share| share.of(1) == 0) {
            cx.push(nothing_moves(key, table.get(key).map_or(node.span, |node| node.span)));
        }
    }
    Some(Rollout {
        canary,
        max_failed,
        max_unavailable: max_unavailable.unwrap_or(plain.max_unavailable),
        max_restarting,
        quorum: quorum(&table, cx),
        reboot: table.get("reboot").and_then(|node| reboot(node, cx)).unwrap_or_default(),
        reboot_timeout_s: table.duration("reboot_timeout", &mut cx.diags).unwrap_or(plain.reboot_timeout_s),
        hours: table.get("hours").and_then(|node| hours(node, cx)),
        busy_wait_s: table.get("busy").and_then(|node| busy(node, cx)),
        slurm: table.get("drain").and_then(|node| drain(node, cx)),
        span: Some(node.span),
    })
}

fn nothing_moves(key: &str, span: Span) -> Diag {
    Diag::error(Code::BadValue, format!("with `{key}` of 0 no host could ever change"))
        .at(span)
        .hint("allow at least 1")
}

fn quorum(table: &Table<'_>, cx: &mut Cx<'_>) -> Vec<(String, Span)> {
    let items = table.items("quorum", &mut cx.diags);
    items.into_iter().filter_map(|node| Some((table::text(node, "quorum", &mut cx.diags)?, node.span))).collect()
}

fn reboot(node: &Node, cx: &mut Cx<'_>) -> Option<Reboots> {
    let text = table::text(node, "reboot", &mut cx.diags)?;
    let policy = Reboots::parse(&text);
    if policy.is_none() {
        let diag = Diag::error(Code::BadValue, format!("`{}` is no policy for reboots", scalar::shorten(&text)));
        cx.push(diag.at(node.span).suggest(&text, Reboots::ALL.map(Reboots::name)));
    }
    policy
}

fn hours(node: &Node, cx: &mut Cx<'_>) -> Option<Hours> {
    let text = table::text(node, "hours", &mut cx.diags)?;
    let hours = Hours::parse(&text);
    if hours.is_none() {
        let found = scalar::shorten(&text);
        let diag = Diag::error(Code::BadValue, format!("`hours` must be a span of the day, found `{found}`"));
        cx.push(
            diag.at(node.span).hint("write it like \"22:00-05:00\", by the clock of the machine that forge runs on"),
        );
    }
    hours
}

fn busy(node: &Node, cx: &mut Cx<'_>) -> Option<u64> {
    let table = Table::open(node, "`busy`", &["wait"], &mut cx.diags)?;
    table.require("wait", &mut cx.diags)?;
    table.duration("wait", &mut cx.diags)
}

fn drain(node: &Node, cx: &mut Cx<'_>) -> Option<(String, Span)> {
    let table = Table::open(node, "`drain`", &["slurm"], &mut cx.diags)?;
    let node = table.require("slurm", &mut cx.diags)?;
    Some((table::text(node, "slurm", &mut cx.diags)?, node.span))
}

/// Reports groups of a rollout that do not exist.
pub(in crate::config) fn check<'g>(
    rollout: &Rollout,
    groups: impl Iterator<Item = &'g String> + Clone,
    cx: &mut Cx<'_>,
) {
    for (name, span) in rollout.quorum.iter().chain(&rollout.slurm) {
        if !groups.clone().any(|group| group == name) {
            let diag = Diag::error(Code::BadValue, format!("there is no group `{name}`")).at(*span);
            cx.push(diag.suggest(name, groups.clone().map(String::as_str)));
        }
    }
}
