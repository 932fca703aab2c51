//! Formats an event as one line of text.

use super::{ProgressDetail, windows};
use crate::engine::{Event, StepResult, VerifyResult};
use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
use crate::view::fold::fold;
use crate::view::style::{BAD, CHANGE, DIM, DISRUPT, UNKNOWN, paint};
use crate::view::{count, escape, size, took};
use indexmap::IndexMap;
use std::time::Duration;

const LINE_CHARS: usize = 200;

/// A line with the minimum detail level at which it is shown.
#[derive(Debug, PartialEq)]
pub struct ProgressLine {
    pub from: ProgressDetail,
    pub text: String,
}

impl ProgressLine {
    pub fn new(from: ProgressDetail, text: String) -> Option<Self> {
        Some(Self { from, text })
    }
}

/// Returns the line for an event, if it has one.
pub fn line(event: &Event) -> Option<ProgressLine> {
    use ProgressDetail::{Normal, Quiet, Verbose};
    match event {
        Event::ObserveStarted { hosts: 0 } => ProgressLine::new(Normal, "observing the cluster".to_owned()),
        Event::ObserveStarted { hosts } => ProgressLine::new(Normal, format!("observing {}", count(*hosts, "host"))),
        Event::ExecStarted { hosts } => ProgressLine::new(Normal, format!("running on {}", count(*hosts, "host"))),
        Event::Connecting { host } => ProgressLine::new(Verbose, of(host, "connecting")),
        Event::Observed { host, trips, took: time } => ProgressLine::new(
            Verbose,
            of(host, &format!("observed in {} ({})", count(*trips as usize, "round trip"), took(*time))),
        ),
        Event::Unreachable { host, why } => ProgressLine::new(Quiet, of(host, &bad("unreachable", &why.why))),
        Event::Retrying { host, why, attempt } => {
            ProgressLine::new(Normal, of(host, &format!("retrying (attempt {attempt}): {}", shown(why))))
        }
        Event::ApplyStarted { run, steps: 0, .. } => ProgressLine::new(Verbose, started(run, 0, 0)),
        Event::ApplyStarted { run, hosts, steps } => ProgressLine::new(Normal, started(run, *hosts, *steps)),
        Event::HostStarted { host, steps } => {
            ProgressLine::new(Verbose, of(host, &format!("{} to run", count(*steps, "step"))))
        }
        Event::AwaitingCanaries { hosts, canaries } => ProgressLine::new(Normal, awaiting(hosts, canaries)),
        Event::Reattached { host, what, .. } => ProgressLine::new(
            Normal,
            of(host, &format!("waits for {}, still running from an earlier run", shown(what))),
        ),
        Event::Waiting { host, step, what } => {
            ProgressLine::new(Verbose, of(host, &format!("{} waits for {}", id(step), shown(what))))
        }
        Event::StepStarted { host, step, title, long } => started_step(host, step, title, *long),
        Event::StepCommands { host, step, script } => {
            ProgressLine::new(ProgressDetail::Commands, block(host, step, "$", script))
        }
        Event::StepPrinted { host, step, output } => {
            ProgressLine::new(ProgressDetail::Output, block(host, step, "|", output))
        }
        Event::StepOutput { host, step, line } => {
            ProgressLine::new(Verbose, of(host, &format!("{} {} {}", id(step), paint(DIM, "|"), shown(line))))
        }
        Event::Fetching { what, done, total } => ProgressLine::new(Verbose, fetching(what, *done, *total)),
        Event::Fetched { what, bytes, took: time } => {
            ProgressLine::new(Normal, format!("fetched {} ({}, {})", shown(what), size(*bytes), took(*time)))
        }
        Event::Sending { host, step, done, total } => {
            ProgressLine::new(Verbose, of(host, &sending(step, *done, *total)))
        }
        Event::StepFinished { host, title, result, took, step, .. } => step_finished(host, step, title, result, *took),
        Event::AwaitingVerification { host, recipe, name, why } => {
            let what = format!("waits for {}: {}", escape::line(recipe), escape::line(name));
            ProgressLine::new(Normal, of(host, &format!("{what}: {}", shown(why))))
        }
        Event::Verified { host, recipe, name, result, .. } => verified(host, recipe, name, result),
        Event::HostFinished { host, outcome, reason } => host_finished(host, *outcome, reason),
        Event::AwaitingWindow { .. }
        | Event::Busy { .. }
        | Event::WindowOpened { .. }
        | Event::WindowClosed { .. }
        | Event::WindowLeftOpen { .. }
        | Event::WindowShut { .. }
        | Event::Node { .. }
        | Event::Rebooting { .. }
        | Event::Rebooted { .. }
        | Event::Evicted { .. } => windows::line(event),
        Event::Stopping { in_flight } => ProgressLine::new(Quiet, stopping(in_flight)),
        Event::Detached { in_flight } => ProgressLine::new(Quiet, detached(in_flight)),
        Event::NoHistory { why } => ProgressLine::new(Normal, format!("no history for this run: {}", shown(why))),
        Event::RecordsMoved { host, object } => {
            ProgressLine::new(Normal, of(host, &format!("moved {}", shown(object))))
        }
        Event::BudgetSpent { failed, allowed } => ProgressLine::new(Quiet, budget(*failed, *allowed)),
    }
}

fn started(run: &str, hosts: usize, steps: usize) -> String {
    let on = if hosts == 0 && steps > 0 { "the cluster".to_owned() } else { count(hosts, "host") };
    format!("run {}: {} on {on}", escape::line(run), count(steps, "step"))
}

/// Returns `n[02:10] wait for the canary n01`.
fn awaiting(hosts: &[HostName], canaries: &[HostName]) -> String {
    let verb = if hosts.len() == 1 { "waits" } else { "wait" };
    format!("{} {verb} for {}", names(hosts), the_canaries(canaries))
}

/// Returns `the canary n01`, or `the canaries n[01:02]`.
pub fn the_canaries(canaries: &[HostName]) -> String {
    format!("the {} {}", if canaries.len() == 1 { "canary" } else { "canaries" }, names(canaries))
}

fn names(hosts: &[HostName]) -> String {
    escape::line(&fold(hosts.iter().map(HostName::as_str))).into_owned()
}

/// Returns `fetching https://… | 12.0 of 400.2 MB`.
fn fetching(what: &UntrustedText, done: u64, total: Option<u64>) -> String {
    format!("fetching {} {} {}", shown(what), paint(DIM, "|"), fetched(done, total))
}

/// Returns `12.0 of 400.2 MB`, or only the received amount if the total is unknown.
pub fn fetched(done: u64, total: Option<u64>) -> String {
    total.map_or_else(|| size(done), |total| part(done, total))
}

/// Returns `base/driver | 12.0 of 400.2 MB sent`.
fn sending(step: &StepId, done: u64, total: u64) -> String {
    format!("{} {} {}", id(step), paint(DIM, "|"), sent(done, total))
}

/// Returns `12.0 of 400.2 MB sent`.
pub fn sent(done: u64, total: u64) -> String {
    format!("{} sent", part(done, total))
}

fn part(done: u64, total: u64) -> String {
    let whole = size(total);
    match whole.strip_suffix(" MB") {
        Some(_) => format!("{:.1} of {whole}", done as f64 / 1e6),
        None => format!("{} of {whole}", size(done)),
    }
}

fn started_step(host: &HostName, step: &StepId, title: &UntrustedText, long: bool) -> Option<ProgressLine> {
    let from = if long { ProgressDetail::Normal } else { ProgressDetail::Verbose };
    ProgressLine::new(from, of(host, &format!("started {} ({})", id(step), shown(title))))
}

fn step_finished(
    host: &HostName,
    step: &StepId,
    title: &UntrustedText,
    result: &StepResult,
    time: Duration,
) -> Option<ProgressLine> {
    let (from, word) = step_word(result);
    let text = format!("{word} {} ({}, {})", id(step), shown(title), took(time));
    ProgressLine::new(from, of(host, &format!("{text}{}", reason(result))))
}

fn step_word(result: &StepResult) -> (ProgressDetail, String) {
    let (from, style, word) = match result {
        StepResult::Changed => (ProgressDetail::Normal, CHANGE, "changed"),
        StepResult::AlreadyOk { .. } => (ProgressDetail::Verbose, DIM, "ok"),
        StepResult::Pending { .. } => (ProgressDetail::Normal, UNKNOWN, "pending"),
        StepResult::Blocked { .. } => (ProgressDetail::Quiet, BAD, "blocked"),
        StepResult::Unknown { .. } => (ProgressDetail::Quiet, UNKNOWN, "unknown"),
        StepResult::Stale { .. } => (ProgressDetail::Quiet, BAD, "stale"),
        // The reason was shown for the whole window.
        StepResult::Held { .. } => (ProgressDetail::Verbose, UNKNOWN, "held back"),
        StepResult::Failed { .. } => (ProgressDetail::Quiet, BAD, "failed"),
        // The failed dependency was shown, and the report lists all skipped steps.
        StepResult::Skipped { .. } => (ProgressDetail::Verbose, DIM, "skipped"),
        StepResult::NotApplicable { .. } => (ProgressDetail::Verbose, DIM, "not applicable"),
        StepResult::Cancelled => (ProgressDetail::Verbose, DIM, "cancelled"),
    };
    (from, paint(style, word).to_string())
}

fn reason(result: &StepResult) -> String {
    match result {
        StepResult::Changed | StepResult::Cancelled => String::new(),
        StepResult::Failed { failure } => format!(": {}", shown(&failure.why)),
        StepResult::Blocked { reason, .. }
        | StepResult::AlreadyOk { reason }
        | StepResult::Pending { reason }
        | StepResult::Unknown { reason }
        | StepResult::Stale { reason }
        | StepResult::Held { reason }
        | StepResult::Skipped { reason }
        | StepResult::NotApplicable { reason } => format!(": {}", shown(reason)),
    }
}

fn verified(host: &HostName, recipe: &str, name: &str, result: &VerifyResult) -> Option<ProgressLine> {
    let what = format!("{}: {}", escape::line(recipe), escape::line(name));
    let (from, text) = match result {
        VerifyResult::Held => (ProgressDetail::Verbose, format!("passed: {what}")),
        VerifyResult::Failed { reason } => {
            (ProgressDetail::Quiet, format!("{}: {}", paint(BAD, format!("failed: {what}")), shown(reason)))
        }
        VerifyResult::Unknown { reason } => {
            (ProgressDetail::Quiet, format!("{}: {}", paint(UNKNOWN, format!("unknown: {what}")), shown(reason)))
        }
        VerifyResult::Skipped { reason } => {
            (ProgressDetail::Verbose, format!("not verified: {what}: {}", shown(reason)))
        }
        VerifyResult::NotApplicable { reason } => {
            (ProgressDetail::Verbose, format!("not applicable: {what}: {}", shown(reason)))
        }
    };
    ProgressLine::new(from, of(host, &text))
}

/// Returns the last line of a host. Failures of steps and connections were shown when they happened.
fn host_finished(host: &HostName, outcome: HostOutcome, reason: &UntrustedText) -> Option<ProgressLine> {
    let (from, style) = match outcome {
        HostOutcome::Ok => (ProgressDetail::Verbose, DIM),
        HostOutcome::Changed | HostOutcome::Pending | HostOutcome::Skipped | HostOutcome::Cancelled => {
            (ProgressDetail::Normal, CHANGE)
        }
        _ => (ProgressDetail::Quiet, BAD),
    };
    let reason = match reason.is_empty() {
        true => String::new(),
        false => format!(": {}", shown(reason)),
    };
    ProgressLine::new(from, of(host, &format!("done, {}{reason}", paint(style, outcome.name()))))
}

fn stopping(in_flight: &[(HostName, StepId)]) -> String {
    let head = paint(DISRUPT, "stopping");
    match in_flight.is_empty() {
        true => format!("{head}: no steps are running"),
        false => format!("{head} after the running steps ({}); interrupt again to leave them running", list(in_flight)),
    }
}

fn detached(in_flight: &[(HostName, StepId)]) -> String {
    let head = paint(DISRUPT, "detached");
    match in_flight.is_empty() {
        true => format!("{head}: no steps were running"),
        false => format!("{head}: still running on the hosts: {}; the next run picks them up", list(in_flight)),
    }
}

/// Names each step once, with the hosts it runs on.
fn list(in_flight: &[(HostName, StepId)]) -> String {
    let mut by_step: IndexMap<&StepId, Vec<&str>> = IndexMap::new();
    for (host, step) in in_flight {
        by_step.entry(step).or_default().push(host.as_str());
    }
    let each = by_step.iter().map(|(step, hosts)| format!("{} on {}", id(step), escape::line(&fold(hosts.clone()))));
    each.collect::<Vec<_>>().join(", ")
}

fn budget(failed: usize, allowed: usize) -> String {
    let failed = count(failed, "host");
    format!("{}: {failed} failed, {allowed} allowed; no more hosts are started", paint(BAD, "failure budget spent"))
}

pub fn of(host: &HostName, what: &str) -> String {
    format!("{} {what}", escape::line(host.as_str()))
}

pub fn bad(word: &str, why: &UntrustedText) -> String {
    format!("{}: {}", paint(BAD, word), shown(why))
}

pub fn id(step: &StepId) -> String {
    escape::line(&step.to_string()).into_owned()
}

pub fn shown(text: &UntrustedText) -> String {
    escape::short(text.raw(), LINE_CHARS)
}

/// Prefixes each line of a text with host, step and a mark.
fn block(host: &HostName, step: &StepId, mark: &str, text: &UntrustedText) -> String {
    let one = |line: &str| of(host, &format!("{} {} {}", id(step), paint(DIM, mark), escape::line(line)));
    text.raw().lines().filter(|line| !line.trim().is_empty()).map(one).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_step_are_folded() {
        let running = |host: &str, step: &str| (HostName::new(host), StepId::new("base", step));
        let all = [running("n01", "a"), running("n02", "a"), running("n03", "b")];
        assert_eq!(list(&all), "base/a on n[01:02], base/b on n03");
    }
}
