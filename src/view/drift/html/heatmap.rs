//! The table of hosts by recipes, with the number and severity of findings.

use super::escape::{encode_fragment, html_line, html_truncated};
use super::page_data::PageData;
use crate::drift::{DriftReport, FindingSeverity};
use crate::model::HostName;
use crate::plan::HostReachability;
use crate::view::drift::fold_hosts;
use crate::view::formatting;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Maximum number of host rows. More hosts are counted.
const MAX_ROWS: usize = 2_000;

/// The findings of one recipe on one host.
#[derive(Default)]
struct HeatmapCell {
    findings: usize,
    worst: Option<FindingSeverity>,
    unknown: bool,
}

type HeatmapCells<'a> = BTreeMap<(usize, &'a str), HeatmapCell>;

/// Returns the table. Hosts without drift share a line below it.
pub fn render_heatmap<'a>(drift: &'a DriftReport, island: &mut PageData<'a>) -> String {
    let cells = collect_cells(drift, island);
    let recipes: BTreeSet<&str> = cells.keys().map(|(_, recipe)| *recipe).collect();
    island.set_columns(recipes.iter().copied());
    let told: BTreeSet<usize> = cells.keys().map(|(host, _)| *host).collect();
    let mut quiet: Vec<&HostName> = Vec::new();
    let mut rows: Vec<usize> = Vec::new();
    for (at, host) in drift.hosts.iter().enumerate() {
        match told.contains(&at) || host.reach != HostReachability::Observed {
            true => rows.push(at),
            false => quiet.push(&host.host),
        }
    }
    let mut out = String::from(
        "<section id=\"heat\"><h2>hosts by recipes</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>host</th>",
    );
    for recipe in &recipes {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "<th><span>{}</span></th>", html_truncated(recipe, 40));
    }
    out += "</tr></thead>\n<tbody>\n";
    rows.iter().take(MAX_ROWS).for_each(|at| push_row(*at, drift, &recipes, &cells, &mut out));
    out += "</tbody>\n</table></div>\n";
    let mut rest = |text: String| out += &format!("<p class=\"rest\">{text}</p>\n");
    if rows.len() > MAX_ROWS {
        let more = rows.iter().skip(MAX_ROWS).filter_map(|at| drift.hosts.get(*at)).map(|host| &host.host);
        rest(format!("{} more, see the JSON report", formatting::summarize_hosts(more)));
    }
    if !quiet.is_empty() {
        let on = formatting::summarize_hosts(quiet.iter().copied());
        rest(format!("no drift on {on}: {}", html_truncated(&fold_hosts(&quiet), 4_000)));
    }
    out + "</section>\n"
}

fn collect_cells<'a>(drift: &'a DriftReport, island: &PageData<'_>) -> HeatmapCells<'a> {
    let mut cells = HeatmapCells::new();
    for finding in &drift.findings {
        let Some(at) = island.host_index(&finding.host) else { continue };
        let cell = cells.entry((at, finding.recipe.raw())).or_default();
        cell.findings += 1;
        cell.worst = cell.worst.max(Some(finding.severity));
    }
    for unsure in &drift.unknown {
        let Some(at) = island.host_index(&unsure.host) else { continue };
        cells.entry((at, unsure.recipe.raw())).or_default().unknown = true;
    }
    cells
}

/// Writes a row. Optional end tags are omitted, because a thousand hosts have many cells.
fn push_row(at: usize, drift: &DriftReport, recipes: &BTreeSet<&str>, cells: &HeatmapCells<'_>, out: &mut String) {
    let host = &drift.hosts[at];
    let name = host.host.as_str();
    // Writing to a `String` cannot fail.
    let _ = write!(out, "<tr data-h=\"{at}\"><th><a href=\"#host={}\">{}</a>", encode_fragment(name), html_line(name));
    if host.reach != HostReachability::Observed {
        let _ = writeln!(out, "<td class=\"x\" colspan=\"{}\">unreachable", recipes.len().max(1));
        return;
    }
    for recipe in recipes {
        match cells.get(&(at, recipe)) {
            None => *out += "<td>",
            Some(cell) => push_cell(cell, out),
        }
    }
    out.push('\n');
}

fn push_cell(cell: &HeatmapCell, out: &mut String) {
    let class = match cell.worst {
        Some(FindingSeverity::Critical) => "c",
        Some(FindingSeverity::High) => "h",
        Some(FindingSeverity::Medium) => "m",
        Some(FindingSeverity::Low) => "l",
        None => "u",
    };
    let sign = if cell.unknown { "?" } else { "" };
    let number = if cell.findings > 0 { cell.findings.to_string() } else { String::new() };
    // Writing to a `String` cannot fail.
    let _ = write!(out, "<td class=\"{class}\">{number}{sign}");
}
