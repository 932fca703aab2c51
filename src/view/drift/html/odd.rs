//! Outliers among similar hosts, declared or not, rarest first.

use super::escape::{line, short};
use crate::facts::outliers::{FactOutlier, OutlierReport};
use crate::view::drift::DriftReportInput;
use crate::view::odd;
use std::fmt::Write as _;

/// Maximum characters of a path, of a value and of a list of hosts.
const NAME: usize = 200;
const VALUE: usize = 300;
const HOSTS: usize = 1_000;
/// Maximum number of lines. More are counted.
const LINES: usize = 200;

/// Returns the section, or nothing if hosts were not compared.
pub fn section(told: &DriftReportInput<'_>) -> String {
    let Some(outliers) = &told.drift.outliers else { return String::new() };
    let mut out = String::from("<section id=\"odd\"><h2>outliers</h2>\n");
    let (word, rest) = odd::closing(outliers);
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "<p><b>{word}</b> {}</p>", line(&rest));
    if !outliers.odd.is_empty() {
        out += "<ul>\n";
        outliers.odd.iter().take(LINES).for_each(|odd| out += &item(odd, outliers));
        out += "</ul>\n";
    }
    if outliers.odd.len() > LINES {
        let _ = writeln!(out, "<p class=\"rest\">{} more in the JSON report</p>", outliers.odd.len() - LINES);
    }
    out + "</section>\n"
}

fn item(one: &FactOutlier, outliers: &OutlierReport) -> String {
    let values = one.odd.iter().map(|value| {
        let told = short(&odd::told(&one.common, &value.value), VALUE);
        format!("<b>{told}</b> on {}", short(&odd::folded(&value.hosts), HOSTS))
    });
    let values: Vec<String> = values.collect();
    let class = outliers.classes.get(one.class).map(|class| short(class.hardware.raw(), NAME)).unwrap_or_default();
    format!(
        "<li><code>{}</code>: {}; {} on {} <small>{class}</small></li>\n",
        short(one.path.raw(), NAME),
        values.join("; "),
        short(&odd::show(&one.common), VALUE),
        line(&odd::having(one)),
    )
}
