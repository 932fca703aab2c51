//! The number of findings over time, as an SVG.

use super::escape::html_line;
use crate::drift::DriftRunSummary;
use jiff::Timestamp;
use std::fmt::Write as _;

/// Maximum number of drawn runs. The latest are drawn.
const MAX_RUNS: usize = 400;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;
/// Space for the numbers to the left, the dates below, and above the lines.
const LEFT_MARGIN: f64 = 40.0;
const BOTTOM_MARGIN: f64 = 18.0;
const TOP_MARGIN: f64 = 8.0;

/// A drawn line: its class, its name, and its value in a run.
type TrendLine = (&'static str, &'static str, fn(&DriftRunSummary) -> usize);

const TREND_LINES: [TrendLine; 3] = [
    ("findings", "findings", |run| run.findings),
    ("unknown", "unknown", |run| run.unknown),
    ("unreachable", "unreachable hosts", |run| run.unreachable),
];

/// Returns the drawing, or a sentence if there are fewer than two runs.
pub fn render_trend(runs: &[DriftRunSummary]) -> String {
    let points = select_points(runs);
    match points.len() {
        0 | 1 => {
            "<section id=\"trend\"><h2>trend</h2><p>No trend yet: it needs the history of two runs.</p></section>\n"
                .to_owned()
        }
        _ => draw_chart(&points),
    }
}

/// Returns the latest runs with a valid time. Omits runs on at most half as many hosts (`--on`), which would look as if
/// findings had been resolved.
fn select_points(runs: &[DriftRunSummary]) -> Vec<(f64, &DriftRunSummary)> {
    let late = &runs[runs.len().saturating_sub(MAX_RUNS)..];
    let most = late.iter().map(|run| run.hosts).max().unwrap_or(0);
    let timed = late.iter().filter(|run| run.hosts * 2 > most);
    timed.filter_map(|run| Some((run.time.parse::<Timestamp>().ok()?.as_second() as f64, run))).collect()
}

fn draw_chart(points: &[(f64, &DriftRunSummary)]) -> String {
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let highest = |of: fn(&DriftRunSummary) -> usize| points.iter().map(|(_, run)| of(run)).max().unwrap_or(0);
    let top = TREND_LINES.iter().map(|(.., of)| highest(*of)).max().unwrap_or(0).max(1);
    let span = (last - first).max(1.0);
    let x = |time: f64| LEFT_MARGIN + (time - first) / span * (WIDTH - LEFT_MARGIN - 6.0);
    let y = |number: usize| TOP_MARGIN + (1.0 - number as f64 / top as f64) * (HEIGHT - TOP_MARGIN - BOTTOM_MARGIN);
    let mut out = format!(
        "<section id=\"trend\"><h2>trend</h2>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        html_line(&describe_trend(points))
    );
    for (number, label) in [(top, top.to_string()), (0, "0".to_owned())] {
        let y = y(number);
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT_MARGIN} {y:.1}H{WIDTH}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT_MARGIN - 6.0,
            y + 4.0
        );
    }
    for (class, _, of) in TREND_LINES.iter().filter(|(class, _, of)| *class == "findings" || highest(*of) > 0) {
        let path: Vec<String> = points.iter().map(|(time, run)| format!("{:.1} {:.1}", x(*time), y(of(run)))).collect();
        let _ = writeln!(out, "<path class=\"line {class}\" d=\"M{}\"/>", path.join("L"));
    }
    for (at, anchor) in [(0, "start"), (points.len() - 1, "end")] {
        let place = if at == 0 { LEFT_MARGIN } else { WIDTH };
        let day = html_line(points[at].1.time.get(..16).unwrap_or(&points[at].1.time)).replace('T', " ");
        let _ = writeln!(out, "<text x=\"{place}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{day}</text>", HEIGHT - 4.0);
    }
    out + "</svg>\n" + &render_legend(points) + "</section>\n"
}

/// Returns the text alternative of the drawing.
fn describe_trend(points: &[(f64, &DriftRunSummary)]) -> String {
    let (first, last) = (points[0].1, points[points.len() - 1].1);
    format!("findings of {} runs, from {} to {}", points.len(), first.findings, last.findings)
}

fn render_legend(points: &[(f64, &DriftRunSummary)]) -> String {
    let last = points[points.len() - 1].1;
    let item = |(class, name, of): &TrendLine| format!("<span class=\"key {class}\">{name}: {} now</span>", of(last));
    let items: Vec<String> = TREND_LINES.iter().map(item).collect();
    format!("<p>{} <span>{} runs</span></p>\n", items.join(" "), points.len())
}
