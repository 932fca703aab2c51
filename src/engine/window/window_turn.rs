//! Waits until a host may be taken out of service: its wave, the budget, the permitted hours.

use super::window_refusal::WindowRefusal;
use crate::config::Project;
use crate::engine::board_link::WindowDenial;
use crate::engine::cancel::StopLevel;
use crate::engine::event::Event;
use crate::engine::host_start::{check_failure_budget, describe_held_canary, find_held_canary, stop_new_windows};
use crate::engine::report::HeldBackBy;
use crate::engine::run_context::ApplyContext;
use crate::engine::run_options::RunOptions;
use crate::model::HostName;
use crate::plan::ClosedHours;
use jiff::tz::TimeZone;

/// Returns when the host may be taken out of service. From then on it counts as unavailable.
///
/// # Errors
/// The host does not get its turn in this run.
pub(super) async fn await_window_turn(run: &ApplyContext<'_>, host: &HostName) -> Result<(), WindowRefusal> {
    let board = run.board;
    check_hours_of(run, host)?;
    let wave = run.rollout.find_wave(host).unwrap_or_default();
    if board.must_await_window(host, wave) {
        run.emit_event(Event::AwaitingWindow { host: host.clone(), wave });
    }
    // A waiting host gives up its place among the active hosts; otherwise hosts of earlier waves might never start.
    run.times.pause(host);
    run.window.add_permits(1);
    let entered = tokio::select! {
        biased;
        () = run.cancel.wait_for_level(StopLevel::Finish) => Err(WindowRefusal::Stopped),
        entered = board.enter_window(host, wave) => entered.map_err(|denial| note_denial(run, host, denial)),
    };
    if let Ok(permit) = run.window.acquire().await {
        permit.forget();
    }
    run.times.resume(host);
    if let Err(WindowRefusal::Never(why)) = &entered {
        stop_new_windows(run, why);
    }
    entered?;
    let allowed = match check_failure_budget(run, host) {
        Some(why) => Err(WindowRefusal::Never(why)),
        None => check_hours_of(run, host),
    };
    if allowed.is_err() {
        board.give_up_window(host);
    }
    allowed
}

/// Records what holds back the window of a host, if a canary is held back.
fn note_denial(run: &ApplyContext<'_>, host: &HostName, denial: WindowDenial) -> WindowRefusal {
    match denial.held_back_by {
        Some(by) => {
            run.board.hold_back(host, by);
            WindowRefusal::Held(denial.why)
        }
        None => WindowRefusal::Never(denial.why),
    }
}

/// Checks the hours, and that no canary was held back before. Records what holds back the window of the host.
fn check_hours_of(run: &ApplyContext<'_>, host: &HostName) -> Result<(), WindowRefusal> {
    let (checked, by) = match find_held_canary(run, host) {
        Some((canary, by)) => (Err(WindowRefusal::Held(describe_held_canary(&canary, by))), by),
        None => (check_window_hours(run.project, run.options), HeldBackBy::Hours),
    };
    if checked.is_err() {
        run.board.hold_back(host, by);
    }
    checked
}

/// Checks the hours in which windows may open.
pub(super) fn check_window_hours(project: &Project, options: &RunOptions) -> Result<(), WindowRefusal> {
    match (project.rollout.hours, find_closed_hours(project, options)) {
        (Some(hours), Some(ClosedHours { at, .. })) => {
            Err(WindowRefusal::Held(format!("windows open {hours}; it is now {at}")))
        }
        _ => Ok(()),
    }
}

/// Returns the current time and when windows open next, if no window may open now.
pub(in crate::engine) fn find_closed_hours(project: &Project, options: &RunOptions) -> Option<ClosedHours> {
    let hours = project.rollout.hours?;
    let now = (options.clock)().to_zoned(TimeZone::system());
    // Hour and minute are below 24 and 60.
    let minute = now.hour() as u16 * 60 + now.minute() as u16;
    let at = || format!("{:02}:{:02}", now.hour(), now.minute());
    (!hours.contains_minute(minute)).then(|| ClosedHours { at: at(), opens: hours.format_start() })
}
