//! Outliers among similar hosts, declared or not, rarest first.

use super::escape::{html_line, html_truncated};
use crate::facts::outliers::{FactOutlier, OutlierReport};
use crate::view::drift::DriftReportInput;
use crate::view::outlier_text;
use std::fmt::Write as _;

/// Maximum characters of a path, of a value and of a list of hosts.
const MAX_NAME_CHARS: usize = 200;
const MAX_VALUE_CHARS: usize = 300;
const MAX_HOST_CHARS: usize = 1_000;
/// Maximum number of lines. More are counted.
const MAX_OUTLIER_LINES: usize = 200;

/// Returns the section, or nothing if hosts were not compared.
pub fn render_outliers(told: &DriftReportInput<'_>) -> String {
    let Some(outliers) = &told.drift.outliers else { return String::new() };
    let mut out = String::from("<section id=\"odd\"><h2>outliers</h2>\n");
    let (word, rest) = outlier_text::summarize_outliers(outliers);
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "<p><b>{word}</b> {}</p>", html_line(&rest));
    if !outliers.odd.is_empty() {
        out += "<ul>\n";
        outliers.odd.iter().take(MAX_OUTLIER_LINES).for_each(|odd| out += &render_outlier(odd, outliers));
        out += "</ul>\n";
    }
    if outliers.odd.len() > MAX_OUTLIER_LINES {
        let _ =
            writeln!(out, "<p class=\"rest\">{} more in the JSON report</p>", outliers.odd.len() - MAX_OUTLIER_LINES);
    }
    out + "</section>\n"
}

fn render_outlier(one: &FactOutlier, outliers: &OutlierReport) -> String {
    let values = one.odd.iter().map(|value| {
        let told = html_truncated(&outlier_text::format_odd_value(&one.common, &value.value), MAX_VALUE_CHARS);
        format!("<b>{told}</b> on {}", html_truncated(&outlier_text::fold_hosts(&value.hosts), MAX_HOST_CHARS))
    });
    let values: Vec<String> = values.collect();
    let class = outliers
        .classes
        .get(one.class)
        .map(|class| html_truncated(class.hardware.raw(), MAX_NAME_CHARS))
        .unwrap_or_default();
    format!(
        "<li><code>{}</code>: {}; {} on {} <small>{class}</small></li>\n",
        html_truncated(one.path.raw(), MAX_NAME_CHARS),
        values.join("; "),
        html_truncated(&outlier_text::format_value(&one.common), MAX_VALUE_CHARS),
        html_line(&outlier_text::format_majority(one)),
    )
}
