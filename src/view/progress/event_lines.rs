//! Formats an event as one line of text.

use super::progress_line::{ProgressLine, format_failure, format_step_id, format_untrusted, prefix_host, prefix_lines};
use super::time_left::format_estimate;
use super::{ProgressDetail, windows};
use crate::engine::{Event, StepResult, VerifyResult};
use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
use crate::view::fold::fold_names;
use crate::view::style::{BAD, CHANGE, DIM, DISRUPT, UNKNOWN, paint};
use crate::view::{escape, format_count, format_duration, format_size};
use indexmap::IndexMap;
use std::time::Duration;

/// Returns `ib-write-bw on mlx5_0, 4 measurements` for a round of tests.
pub fn format_test_round(event: &Event) -> Option<String> {
    let Event::TestRound { test, rail, measurements, .. } = event else { return None };
    let rail = rail.as_ref().map(|rail| format!(" on {}", escape::escape_line(rail))).unwrap_or_default();
    Some(format!("{}{rail}, {}", escape::escape_line(test), format_count(*measurements, "measurement")))
}

/// Returns the line for an event, if it has one.
pub fn event_line(event: &Event) -> Option<ProgressLine> {
    use ProgressDetail::{Normal, Quiet, Verbose};
    match event {
        Event::ObserveStarted { hosts: 0 } => ProgressLine::new(Normal, "observing the cluster".to_owned()),
        Event::ObserveStarted { hosts } => {
            ProgressLine::new(Normal, format!("observing {}", format_count(*hosts, "host")))
        }
        Event::AwaitingWorkers { limit } => ProgressLine::new(
            Normal,
            format!("waiting up to {} for the workers of an earlier run on this machine", format_duration(*limit)),
        ),
        Event::ExecStarted { hosts } => {
            ProgressLine::new(Normal, format!("running on {}", format_count(*hosts, "host")))
        }
        Event::TestRound { done, total, left, isolation, .. } => {
            let left = left.map(|left| format!(", about {} left", format_estimate(left))).unwrap_or_default();
            let what = format_test_round(event).unwrap_or_default();
            let line = match isolation {
                true => format!("searching for the bad part: {what}"),
                false => format!("round {} of {total}: {what}{left}", done + 1),
            };
            ProgressLine::new(Normal, line)
        }
        Event::Connecting { host } => ProgressLine::new(Verbose, prefix_host(host, "connecting")),
        Event::Observed { host, trips, took: time } => ProgressLine::new(
            Verbose,
            prefix_host(
                host,
                &format!("observed in {} ({})", format_count(*trips as usize, "round trip"), format_duration(*time)),
            ),
        ),
        Event::Unreachable { host, why } => {
            ProgressLine::new(Quiet, prefix_host(host, &format_failure("unreachable", &why.why)))
        }
        Event::Retrying { host, step, why, attempt } => {
            let what = format!("retrying {} (attempt {attempt}): {}", format_step_id(step), format_untrusted(why));
            ProgressLine::new(Normal, prefix_host(host, &what))
        }
        Event::ApplyStarted { run, steps: 0, .. } => ProgressLine::new(Verbose, run_started_line(run, 0, 0)),
        Event::ApplyStarted { run, hosts, steps } => ProgressLine::new(Normal, run_started_line(run, *hosts, *steps)),
        Event::HostStarted { host, steps } => {
            ProgressLine::new(Verbose, prefix_host(host, &format!("{} to run", format_count(*steps, "step"))))
        }
        Event::AwaitingCanaries { hosts, canaries } => {
            ProgressLine::new(Normal, awaiting_canaries_line(hosts, canaries))
        }
        Event::Reattached { host, what, .. } => ProgressLine::new(
            Normal,
            prefix_host(host, &format!("waits for {}, still running from an earlier run", format_untrusted(what))),
        ),
        Event::Waiting { host, step, what } => ProgressLine::new(
            Verbose,
            prefix_host(host, &format!("{} waits for {}", format_step_id(step), format_untrusted(what))),
        ),
        Event::StepStarted { host, step, title, long } => step_started_line(host, step, title, *long),
        Event::StepCommands { host, step, script } => {
            ProgressLine::new(ProgressDetail::Commands, prefix_lines(host, step, "$", script))
        }
        Event::StepPrinted { host, step, output } => {
            ProgressLine::new(ProgressDetail::Output, prefix_lines(host, step, "|", output))
        }
        Event::StepOutput { host, step, line } => ProgressLine::new(
            Verbose,
            prefix_host(host, &format!("{} {} {}", format_step_id(step), paint(DIM, "|"), format_untrusted(line))),
        ),
        Event::Fetching { what, done, total } => ProgressLine::new(Verbose, fetching_line(what, *done, *total)),
        Event::Fetched { what, bytes, took: time } => ProgressLine::new(
            Normal,
            format!("fetched {} ({}, {})", format_untrusted(what), format_size(*bytes), format_duration(*time)),
        ),
        Event::Sending { host, step, done, total } => {
            ProgressLine::new(Verbose, prefix_host(host, &sending_line(step, *done, *total)))
        }
        Event::StepFinished { host, title, result, took, step, .. } => {
            step_finished_line(host, step, title, result, *took)
        }
        Event::AwaitingVerification { host, recipe, name, why } => {
            let what = format!("waits for {}: {}", escape::escape_line(recipe), escape::escape_line(name));
            ProgressLine::new(Normal, prefix_host(host, &format!("{what}: {}", format_untrusted(why))))
        }
        Event::Verified { host, recipe, name, result, .. } => verification_line(host, recipe, name, result),
        Event::HostFinished { host, outcome, reason } => host_finished_line(host, *outcome, reason),
        Event::AwaitingWindow { .. }
        | Event::Busy { .. }
        | Event::WindowOpened { .. }
        | Event::ReturnTestsStarted { .. }
        | Event::ReturnTestRound { .. }
        | Event::ReturnTestsFinished { .. }
        | Event::WindowClosed { .. }
        | Event::WindowLeftOpen { .. }
        | Event::WindowShut { .. }
        | Event::Node { .. }
        | Event::Rebooting { .. }
        | Event::Rebooted { .. }
        | Event::Evicted { .. } => windows::window_event_line(event),
        Event::Stopping { in_flight } => ProgressLine::new(Quiet, stopping_line(in_flight)),
        Event::Detached { in_flight } => ProgressLine::new(Quiet, detached_line(in_flight)),
        Event::NoHistory { why } => {
            ProgressLine::new(Quiet, format!("no history for this run: {}", format_untrusted(why)))
        }
        Event::RecordsMoved { host, object } => {
            ProgressLine::new(Normal, prefix_host(host, &format!("moved {}", format_untrusted(object))))
        }
        Event::BudgetSpent { failed, allowed, canary } => {
            ProgressLine::new(Quiet, budget_spent_line(*failed, *allowed, canary.as_ref()))
        }
    }
}

fn run_started_line(run: &str, hosts: usize, steps: usize) -> String {
    let on = if hosts == 0 && steps > 0 { "the cluster".to_owned() } else { format_count(hosts, "host") };
    format!("run {}: {} on {on}", escape::escape_line(run), format_count(steps, "step"))
}

/// Returns `n[02:10] wait for the canary n01`.
fn awaiting_canaries_line(hosts: &[HostName], canaries: &[HostName]) -> String {
    let verb = if hosts.len() == 1 { "waits" } else { "wait" };
    format!("{} {verb} for {}", fold_hosts(hosts), format_canaries(canaries))
}

/// Returns `the canary n01`, or `the canaries n[01:02]`.
pub fn format_canaries(canaries: &[HostName]) -> String {
    format!("the {} {}", if canaries.len() == 1 { "canary" } else { "canaries" }, fold_hosts(canaries))
}

fn fold_hosts(hosts: &[HostName]) -> String {
    escape::escape_line(&fold_names(hosts.iter().map(HostName::as_str))).into_owned()
}

/// Returns `fetching https://… | 12.0 of 400.2 MB`.
fn fetching_line(what: &UntrustedText, done: u64, total: Option<u64>) -> String {
    format!("fetching {} {} {}", format_untrusted(what), paint(DIM, "|"), format_fetched(done, total))
}

/// Returns `12.0 of 400.2 MB`, or only the received amount if the total is unknown.
pub fn format_fetched(done: u64, total: Option<u64>) -> String {
    total.map_or_else(|| format_size(done), |total| format_transferred(done, total))
}

/// Returns `base/driver | 12.0 of 400.2 MB sent`.
fn sending_line(step: &StepId, done: u64, total: u64) -> String {
    format!("{} {} {}", format_step_id(step), paint(DIM, "|"), format_sent(done, total))
}

/// Returns `12.0 of 400.2 MB sent`.
pub fn format_sent(done: u64, total: u64) -> String {
    format!("{} sent", format_transferred(done, total))
}

fn format_transferred(done: u64, total: u64) -> String {
    let whole = format_size(total);
    match whole.strip_suffix(" MB") {
        Some(_) => format!("{:.1} of {whole}", done as f64 / 1e6),
        None => format!("{} of {whole}", format_size(done)),
    }
}

fn step_started_line(host: &HostName, step: &StepId, title: &UntrustedText, long: bool) -> Option<ProgressLine> {
    let from = if long { ProgressDetail::Normal } else { ProgressDetail::Verbose };
    ProgressLine::new(
        from,
        prefix_host(host, &format!("started {} ({})", format_step_id(step), format_untrusted(title))),
    )
}

fn step_finished_line(
    host: &HostName,
    step: &StepId,
    title: &UntrustedText,
    result: &StepResult,
    time: Duration,
) -> Option<ProgressLine> {
    let (from, word) = step_result_word(result);
    let text = format!("{word} {} ({}, {})", format_step_id(step), format_untrusted(title), format_duration(time));
    ProgressLine::new(from, prefix_host(host, &format!("{text}{}", format_reason(result))))
}

fn step_result_word(result: &StepResult) -> (ProgressDetail, String) {
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

fn format_reason(result: &StepResult) -> String {
    match result {
        StepResult::Changed | StepResult::Cancelled => String::new(),
        StepResult::Failed { failure } => format!(": {}", format_untrusted(&failure.why)),
        StepResult::Blocked { reason, .. }
        | StepResult::AlreadyOk { reason }
        | StepResult::Pending { reason }
        | StepResult::Unknown { reason }
        | StepResult::Stale { reason }
        | StepResult::Held { reason }
        | StepResult::Skipped { reason }
        | StepResult::NotApplicable { reason } => format!(": {}", format_untrusted(reason)),
    }
}

fn verification_line(host: &HostName, recipe: &str, name: &str, result: &VerifyResult) -> Option<ProgressLine> {
    let what = format!("{}: {}", escape::escape_line(recipe), escape::escape_line(name));
    let (from, text) = match result {
        VerifyResult::Held => (ProgressDetail::Verbose, format!("passed: {what}")),
        VerifyResult::Failed { reason } => {
            (ProgressDetail::Quiet, format!("{}: {}", paint(BAD, format!("failed: {what}")), format_untrusted(reason)))
        }
        VerifyResult::Unknown { reason } => (
            ProgressDetail::Quiet,
            format!("{}: {}", paint(UNKNOWN, format!("unknown: {what}")), format_untrusted(reason)),
        ),
        VerifyResult::Skipped { reason } => {
            (ProgressDetail::Verbose, format!("not verified: {what}: {}", format_untrusted(reason)))
        }
        VerifyResult::NotApplicable { reason } => {
            (ProgressDetail::Verbose, format!("not applicable: {what}: {}", format_untrusted(reason)))
        }
    };
    ProgressLine::new(from, prefix_host(host, &text))
}

/// Returns the last line of a host. Failures of steps and connections were shown when they happened.
fn host_finished_line(host: &HostName, outcome: HostOutcome, reason: &UntrustedText) -> Option<ProgressLine> {
    let (from, style) = match outcome {
        HostOutcome::Ok => (ProgressDetail::Verbose, DIM),
        HostOutcome::Changed
        | HostOutcome::Pending
        | HostOutcome::Unknown
        | HostOutcome::Skipped
        | HostOutcome::Cancelled => (ProgressDetail::Normal, CHANGE),
        _ => (ProgressDetail::Quiet, BAD),
    };
    let reason = match reason.is_empty() {
        true => String::new(),
        false => format!(": {}", format_untrusted(reason)),
    };
    ProgressLine::new(from, prefix_host(host, &format!("done, {}{reason}", paint(style, outcome.name()))))
}

fn stopping_line(in_flight: &[(HostName, StepId)]) -> String {
    let head = paint(DISRUPT, "stopping");
    match in_flight.is_empty() {
        true => format!("{head}: no steps are running"),
        false => format!(
            "{head} after the running steps ({}); interrupt again to leave them running",
            list_in_flight(in_flight)
        ),
    }
}

fn detached_line(in_flight: &[(HostName, StepId)]) -> String {
    let head = paint(DISRUPT, "detached");
    match in_flight.is_empty() {
        true => format!("{head}: no steps were running"),
        false => {
            format!("{head}: still running on the hosts: {}; the next run picks them up", list_in_flight(in_flight))
        }
    }
}

/// Names each step once, with the hosts it runs on.
fn list_in_flight(in_flight: &[(HostName, StepId)]) -> String {
    let mut by_step: IndexMap<&StepId, Vec<&str>> = IndexMap::new();
    for (host, step) in in_flight {
        by_step.entry(step).or_default().push(host.as_str());
    }
    let each = by_step.iter().map(|(step, hosts)| {
        format!("{} on {}", format_step_id(step), escape::escape_line(&fold_names(hosts.clone())))
    });
    each.collect::<Vec<_>>().join(", ")
}

fn budget_spent_line(failed: usize, allowed: usize, canary: Option<&HostName>) -> String {
    if let Some(canary) = canary {
        let what = format!("canary {} did not succeed", escape::escape_line(canary.as_str()));
        return format!("{}; no more hosts are started", paint(BAD, &what));
    }
    let failed = format_count(failed, "host");
    format!("{}: {failed} failed, {allowed} allowed; no more hosts are started", paint(BAD, "failure budget spent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_flight_hosts_of_one_step_are_folded() {
        let running = |host: &str, step: &str| (HostName::new(host), StepId::new("base", step));
        let all = [running("n01", "a"), running("n02", "a"), running("n03", "b")];
        assert_eq!(list_in_flight(&all), "base/a on n[01:02], base/b on n03");
    }
}
