//! One frame of the live display: lines of text from the state, the time and the terminal size.

use super::state::{ActivityKind, HostActivity, ProgressPhase, ProgressState};
use super::time_left::{format_elapsed, format_estimate};
use super::{event_lines, progress_line};
use crate::view::style::{BAD, DIM, paint};
use crate::view::{escape, format_count};
use anstyle::Style;
use std::time::Instant;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns and lines of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// The width in columns.
    pub columns: usize,
    /// The height in lines.
    pub lines: usize,
}

/// Cells of the progress bar, and the minimum terminal width at which it is shown.
const BAR_CELLS: usize = 20;
const MIN_COLUMNS_FOR_BAR: usize = 80;
/// Longer host names are cut.
const MAX_NAME_COLUMNS: usize = 30;
const NOTE_CHARS: usize = 200;

/// Returns the lines to show: as many activities as fit, and the summary below. Each line fits the terminal, because a
/// wrapped line could not be overwritten.
pub fn render_frame(state: &mut ProgressState, now: Instant, size: TerminalSize) -> Vec<String> {
    if matches!(state.phase(), ProgressPhase::Idle) && state.transfers.is_empty() {
        return Vec::new();
    }
    // The last column is left free: some terminals wrap there.
    let columns = size.columns.saturating_sub(1).max(1);
    let mut lines = render_rows(state, now, columns, size.lines.saturating_sub(2));
    lines.push(render_summary_line(state, now, columns));
    lines
}

/// Returns a line per active host, and the number of hosts that do not fit.
fn render_rows(state: &ProgressState, now: Instant, columns: usize, most: usize) -> Vec<String> {
    let all = state.active_count() + state.transfers.len();
    // One line is needed for the number of others.
    let shown = if all > most { most.saturating_sub(1) } else { all };
    let hosts: Vec<_> =
        state.activities().take(shown).map(|(host, own)| (escape::escape_line(host.as_str()), own)).collect();
    let width = hosts.iter().map(|(name, _)| name.width()).max().unwrap_or(0).min(MAX_NAME_COLUMNS);
    let mut rows: Vec<String> = hosts
        .iter()
        .map(|(name, own)| {
            let elapsed = format_elapsed(now.saturating_duration_since(own.since));
            truncate_columns(
                &format!("{elapsed:>7}  {}  {}", pad_columns(name, width), describe_activity(own)),
                columns,
            )
        })
        .collect();
    let room = shown - rows.len();
    let fetching = |(what, done): (&String, &_)| {
        format!("fetching {}: {}", escape::escape_line(what), progress_line::format_untrusted(done))
    };
    rows.extend(
        state
            .transfers
            .iter()
            .take(room)
            .map(|transfer| truncate_columns(&format!("  {}", fetching(transfer)), columns)),
    );
    if all > shown && most > 0 {
        rows.push(truncate_columns(&format!("  … and {} more", all - shown), columns));
    }
    rows
}

/// Returns the activity of a host as text.
pub fn describe_activity(own: &HostActivity) -> String {
    let what = match &own.doing {
        ActivityKind::Steps(step, 0) => progress_line::format_step_id(step),
        ActivityKind::Steps(step, more) => format!("{} (+{more} more)", progress_line::format_step_id(step)),
        ActivityKind::Other(what) | ActivityKind::Waiting(what) => progress_line::format_untrusted(what),
    };
    match &own.note {
        Some(note) => format!("{what} | {}", escape::escape_truncated(note.raw(), NOTE_CHARS)),
        None => what,
    }
}

/// A part of the summary line.
struct FrameSegment {
    text: String,
    style: Style,
    /// Parts with the highest rank are dropped first if the line is too long.
    rank: u8,
}

fn new_segment(rank: u8, text: String) -> FrameSegment {
    FrameSegment { text, style: Style::new(), rank }
}

/// Returns `[====>     ] 12/40 steps, 2 failed, 1m 05s, about 3m left`.
fn render_summary_line(state: &mut ProgressState, now: Instant, columns: usize) -> String {
    let bar = count_progress(state)
        .filter(|_| columns >= MIN_COLUMNS_FOR_BAR - 1)
        .map(|(done, total)| render_bar(done, total));
    let mut parts = collect_segments(state, now);
    let room = columns.saturating_sub(bar.as_ref().map_or(0, |bar| bar.len() + 1));
    let width =
        |parts: &[FrameSegment]| parts.iter().map(|part| part.text.width() + 2).sum::<usize>().saturating_sub(2);
    while width(&parts) > room && parts.len() > 1 {
        let last = parts.iter().enumerate().max_by_key(|(_, part)| part.rank).map_or(0, |(at, _)| at);
        parts.remove(last);
    }
    let parts: Vec<String> =
        parts.iter().map(|part| paint(part.style, truncate_columns(&part.text, room)).to_string()).collect();
    let parts = parts.join(", ");
    bar.map_or(parts.clone(), |bar| format!("{bar} {parts}"))
}

/// Returns the complete summary, however long.
pub fn render_summary_text(state: &mut ProgressState, now: Instant) -> String {
    let parts: Vec<String> =
        collect_segments(state, now).iter().map(|part| paint(part.style, &part.text).to_string()).collect();
    parts.join(", ")
}

/// Returns the parts of the summary line in display order.
fn collect_segments(state: &mut ProgressState, now: Instant) -> Vec<FrameSegment> {
    let mut parts = vec![new_segment(0, format_progress(state))];
    parts.retain(|part| !part.text.is_empty());
    if state.failures() > 0 {
        parts.push(FrameSegment { style: BAD, ..new_segment(1, format!("{} failed", state.failures())) });
    }
    if let ProgressPhase::Applying(work) = state.phase()
        && work.not_run() > 0
    {
        parts.push(new_segment(5, format!("{} not run", work.not_run())));
    }
    parts.extend(state.stopping.then(|| FrameSegment { style: BAD, ..new_segment(2, "stopping".to_owned()) }));
    parts.push(new_segment(4, format_elapsed(state.elapsed(now))));
    let left = state.estimate_remaining(now).filter(|_| !state.stopping);
    parts.extend(left.map(|left| new_segment(3, format!("about {} left", format_estimate(left)))));
    parts.extend(
        describe_queue(state)
            .into_iter()
            .zip(6..)
            .map(|(text, rank)| FrameSegment { style: DIM, ..new_segment(rank, text) }),
    );
    parts
}

/// Returns the number of finished items and the total.
fn format_progress(state: &ProgressState) -> String {
    match state.phase() {
        ProgressPhase::Idle => String::new(),
        ProgressPhase::Observing { total: 0, .. } => "observing the cluster".to_owned(),
        ProgressPhase::Observing { done, total } => format!("{done}/{} observed", format_count(*total, "host")),
        ProgressPhase::Running { done, total } => format!("{done}/{}", format_count(*total, "host")),
        ProgressPhase::Testing { done, total, what, .. } => {
            format!("{done}/{}: {what}", format_count(*total, "round"))
        }
        ProgressPhase::Applying(work) if work.total() == 0 => "verifying".to_owned(),
        ProgressPhase::Applying(work) => format!("{}/{}", work.done(), format_count(work.total(), "step")),
    }
}

fn count_progress(state: &ProgressState) -> Option<(usize, usize)> {
    let counts = match state.phase() {
        ProgressPhase::Idle => return None,
        ProgressPhase::Observing { done, total }
        | ProgressPhase::Running { done, total }
        | ProgressPhase::Testing { done, total, .. } => (*done, *total),
        ProgressPhase::Applying(work) => (work.done(), work.total()),
    };
    (counts.1 > 0).then_some(counts)
}

/// Returns `[=====>              ]`.
fn render_bar(done: usize, total: usize) -> String {
    let full = (done.min(total) * BAR_CELLS) / total;
    let head = if full < BAR_CELLS { ">" } else { "" };
    format!("[{:<BAR_CELLS$}]", format!("{}{head}", "=".repeat(full)))
}

/// Returns `9 hosts queued`, and the canaries that they wait for.
fn describe_queue(state: &ProgressState) -> Vec<String> {
    let Some((hosts, canaries)) = state.queued_hosts() else { return Vec::new() };
    let mut parts = vec![format!("{} queued", format_count(hosts, "host"))];
    if !canaries.is_empty() {
        parts.push(format!("waiting for {}", event_lines::format_canaries(canaries)));
    }
    parts
}

/// Cuts a text to at most `columns`.
pub fn truncate_columns(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut kept, mut width) = (String::new(), 1);
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width > columns {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

fn pad_columns(text: &str, width: usize) -> String {
    let text = truncate_columns(text, width);
    let room = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(room))
}

#[cfg(test)]
mod tests;
