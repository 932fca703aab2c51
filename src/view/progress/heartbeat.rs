//! A status line for logs in which no other line was written for a while.

use super::state::{ActivityKind, HostActivity, ProgressPhase, ProgressState};
use super::{frame, progress_line, time_left};
use crate::view::escape;
use crate::view::fold::fold_names;
use crate::view::formatting::list_names;
use indexmap::IndexMap;
use std::time::{Duration, Instant};

/// Returns `12/40 steps, 1m 05s, about 3m left: base/driver on n[01:03] (1m 02s)`, the longest activity first. Returns
/// `None` if nothing is running.
pub fn format_heartbeat(state: &mut ProgressState, now: Instant) -> Option<String> {
    let sums = frame::render_summary_text(state, now);
    let mut doing: IndexMap<String, (Vec<&str>, Duration)> = IndexMap::new();
    for (host, own) in state.activities() {
        let elapsed = now.saturating_duration_since(own.since);
        let (hosts, longest) = doing.entry(describe_doing(own)).or_default();
        hosts.push(host.as_str());
        *longest = elapsed.max(*longest);
    }
    let each = doing.into_iter().map(|(what, (hosts, longest))| {
        format!("{what} on {} ({})", escape::escape_line(&fold_names(hosts)), time_left::format_elapsed(longest))
    });
    let transfers = state
        .transfers
        .iter()
        .map(|(what, how)| format!("{} {}", escape::escape_line(what), progress_line::format_untrusted(how)));
    let each: Vec<String> = each.chain(transfers).collect();
    match each.is_empty() {
        // The summary names the running test.
        true => matches!(state.phase(), ProgressPhase::Testing { .. }).then_some(sums),
        false => Some(format!("{sums}: {}", list_names(&each))),
    }
}

fn describe_doing(own: &HostActivity) -> String {
    match &own.doing {
        ActivityKind::Steps(step, _) => progress_line::format_step_id(step),
        ActivityKind::Other(what) | ActivityKind::Waiting(what) => progress_line::format_untrusted(what),
    }
}
