//! Services that systemd restarts again and again.

use super::declaration::ServiceResource;
use super::diff::ServiceDiff;
use crate::model::BlockClass;
use crate::probe::UnitState;
use crate::resource::Assessment;
use serde_json::json;

/// The number of restarts from which a service keeps ending. Fewer have another cause: the toolkit of the GPU operator,
/// for example, signals containerd to end and be restarted by systemd whenever its container starts.
const MIN_RESTARTS: u32 = 3;

/// How long a service has to stay up for each restart by systemd, in seconds. One that ended a few times soon counts as
/// recovered, while one that ends every few seconds never does.
const SECONDS_PER_RESTART: f64 = 10.0;

/// The longest time that a restarted service has to stay up, in seconds.
const MAX_WAIT_S: f64 = 60.0;

/// Reports whether systemd restarted the service, and it has not stayed up since then for long enough, or has ended again
/// before.
pub(super) fn keeps_restarting(unit: &UnitState) -> bool {
    let up = if waits_for_restart(unit) { unit.ran_for } else { unit.restarted_ago };
    unit.restarts >= MIN_RESTARTS && up.is_some_and(|seconds| seconds < time_to_stay_up(unit))
}

/// Reports whether its process has ended and systemd is about to start it again (`RestartSec=`).
pub(super) fn waits_for_restart(unit: &UnitState) -> bool {
    unit.active == "activating" && unit.sub.starts_with("auto-restart")
}

fn time_to_stay_up(unit: &UnitState) -> f64 {
    (f64::from(unit.restarts) * SECONDS_PER_RESTART).min(MAX_WAIT_S)
}

/// Returns the assessment of a service that keeps ending. Another restart does not help: systemd has just made one, or is
/// about to. The basis excludes times, numbers and the state, which differ from query to query.
pub(super) fn block_restarting(want: &ServiceResource, unit: &UnitState) -> Assessment<ServiceDiff> {
    let times = unit.restarts;
    let last = match (waits_for_restart(unit), unit.ran_for) {
        (true, Some(seconds)) => format!("and it then ran for {} s", seconds as u64),
        _ => format!("last {}", format_age(unit.restarted_ago.unwrap_or_default())),
    };
    let reason = format!("its process keeps ending: systemd restarted it {times} times, {last}");
    let basis = json!({ "load": unit.load, "restarting": true });
    Assessment::blocked(BlockClass::Host, reason, basis).hint(format!(
        "run `journalctl -u {}` on the host; list the step that repairs it in `restart_on`. It counts as running once it \
         has stayed up for {} s",
        want.unit,
        time_to_stay_up(unit)
    ))
}

/// Returns the note about earlier restarts of a service that runs.
pub(super) fn describe_past(unit: &UnitState) -> String {
    let ago = unit.restarted_ago.map(format_age);
    match (unit.restarts, ago) {
        (0, _) => String::new(),
        (1, Some(ago)) => format!("; systemd restarted it {ago}"),
        (1, None) => "; systemd restarted it once".to_owned(),
        (times, Some(ago)) => format!("; systemd restarted it {times} times, last {ago}"),
        (times, None) => format!("; systemd restarted it {times} times"),
    }
}

/// Returns `3 s ago`, `5 min ago`, `2 h ago` or `7 d ago`.
fn format_age(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..120 => format!("{whole} s ago"),
        120..7_200 => format!("{} min ago", whole / 60),
        7_200..172_800 => format!("{} h ago", whole / 3_600),
        _ => format!("{} d ago", whole / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restarted(restarts: u32, restarted_ago: Option<f64>) -> UnitState {
        UnitState { restarts, restarted_ago, ..UnitState::default() }
    }

    #[test]
    fn service_has_to_stay_up_longer_the_more_often_it_ended() {
        let cases = [
            (0, None, false),
            (1, Some(0.5), false),
            (2, Some(0.5), false),
            (3, Some(29.0), true),
            (3, Some(30.0), false),
            (17, Some(59.0), true),
            (17, Some(60.0), false),
            (17, None, false),
        ];
        for (times, ago, keeps) in cases {
            assert_eq!(keeps_restarting(&restarted(times, ago)), keeps, "{times} times, {ago:?}");
        }
    }

    /// With a long `RestartSec=`, a service that keeps ending is mostly seen between two starts.
    #[test]
    fn run_before_the_wait_for_a_restart_counts() {
        let waiting = |restarts, ran_for, sub: &str| UnitState {
            ran_for: Some(ran_for),
            active: "activating".to_owned(),
            sub: sub.to_owned(),
            ..restarted(restarts, Some(700.0))
        };
        assert!(keeps_restarting(&waiting(4, 2.0, "auto-restart")));
        assert!(keeps_restarting(&waiting(4, 2.0, "auto-restart-queued")), "systemd 254 and later");
        assert!(!keeps_restarting(&waiting(2, 2.0, "auto-restart")));
        assert!(!keeps_restarting(&waiting(4, 86_400.0, "auto-restart")), "it was up for a day");
        assert!(!keeps_restarting(&waiting(4, 2.0, "start")), "it starts now");
    }

    #[test]
    fn past_restarts_are_noted_with_their_age() {
        assert_eq!(describe_past(&restarted(0, None)), "");
        assert_eq!(describe_past(&restarted(1, Some(604_800.0))), "; systemd restarted it 7 d ago");
        assert_eq!(describe_past(&restarted(2, Some(125.0))), "; systemd restarted it 2 times, last 2 min ago");
        assert_eq!(describe_past(&restarted(4, Some(7_300.0))), "; systemd restarted it 4 times, last 2 h ago");
        assert_eq!(describe_past(&restarted(4, None)), "; systemd restarted it 4 times");
    }
}
