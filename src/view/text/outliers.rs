//! Outliers: values that differ from the majority, rarest first, and values that could not be compared.

use super::shared_lines::write_simulated;
use super::{TextWriter, facts};
use crate::facts::outliers::{FactOutlier, HostClass, OutlierReport, OutlierValue};
use crate::model::{HostName, Value};
use crate::plan::ObservedHost;
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::{escape, fold, format_count, formatting, outlier_text};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Longer values are cut. The JSON output has the complete value.
const VALUE_CHARS: usize = 100;
/// Number of lines about one fact of the same hosts. More are counted, unless `-v` is given.
const MAX_LINES_PER_FACT: usize = 5;

/// Writes the result of `facts --outliers`.
pub fn write_outliers(
    text: &TextWriter,
    seen: &[ObservedHost],
    outliers: &OutlierReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_simulated(seen.iter().filter(|host| host.simulated).map(|host| &host.host), out)?;
    write_outlier_section(outliers, text.verbose > 0, out)?;
    facts::write_unreachable(seen, out)
}

/// Writes the section of a report, including its summary line.
pub fn write_outlier_section(outliers: &OutlierReport, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let with_odd: BTreeSet<usize> = outliers.odd.iter().map(|odd| odd.class).collect();
    for (index, class) in outliers.classes.iter().enumerate().filter(|(index, _)| all || with_odd.contains(index)) {
        let odd: Vec<&FactOutlier> = outliers.odd.iter().filter(|odd| odd.class == index).collect();
        writeln!(out, "{}", paint(HEAD, class_heading(class)))?;
        write_odd_values(&odd, all, out)?;
    }
    write_uncompared(outliers, all, out)?;
    writeln!(out, "{}", closing_line(outliers))
}

fn class_heading(class: &HostClass) -> String {
    let groups = match class.groups.len() {
        0 => String::new(),
        _ => format!("; in {}", formatting::list_names(&class.groups)),
    };
    let hardware = escape::escape_truncated(class.hardware.raw(), VALUE_CHARS);
    format!(
        "{} ({hardware}{}): {}",
        format_count(class.hosts.len(), "similar host"),
        escape::escape_line(&groups),
        fold_hosts(&class.hosts)
    )
}

fn fold_hosts(hosts: &[HostName]) -> String {
    escape::escape_line(&outlier_text::fold_hosts(hosts)).into_owned()
}

/// Writes the outliers. Lines about one fact of the same hosts mostly have one cause, so only the first ones are shown.
fn write_odd_values(odd: &[&FactOutlier], all: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut shown: IndexMap<(&str, Vec<&HostName>), usize> = IndexMap::new();
    for one in odd {
        let hosts = one.odd.iter().flat_map(|value| &value.hosts).collect();
        let seen = shown.entry((&one.fact, hosts)).or_default();
        *seen += 1;
        if all || *seen <= MAX_LINES_PER_FACT {
            writeln!(out, "  {}", format_outlier(one))?;
        }
    }
    for ((fact, hosts), lines) in shown.iter().filter(|(_, lines)| !all && **lines > MAX_LINES_PER_FACT) {
        let hosts = fold::fold_names(hosts.iter().map(|host| host.as_str()));
        let more = format!(
            "and {} more of `{}` on {}",
            lines - MAX_LINES_PER_FACT,
            escape::escape_line(fact),
            escape::escape_line(&hosts)
        );
        writeln!(out, "  {}", paint(DIM, format!("{more} (-v shows them)")))?;
    }
    Ok(())
}

fn format_outlier(one: &FactOutlier) -> String {
    let values: Vec<String> = one.odd.iter().map(|value| format_odd_value(&one.common, value)).collect();
    let untold = match one.unknown {
        0 => String::new(),
        some => format!("; unknown on {some}"),
    };
    let common = format_value(&one.common);
    let path = escape::escape_untrusted(&one.path);
    format!(
        "{path}: {common} — {}; {} {}{untold}",
        format_count(one.hosts, "host"),
        paint(BAD, "outlier:"),
        values.join("; ")
    )
}

fn format_odd_value(common: &Value, value: &OutlierValue) -> String {
    format!(
        "{} — {}",
        escape::escape_truncated(&outlier_text::format_odd_value(common, &value.value), VALUE_CHARS),
        fold_hosts(&value.hosts)
    )
}

fn format_value(value: &Value) -> String {
    escape::escape_truncated(&outlier_text::format_value(value), VALUE_CHARS)
}

/// Writes values and hosts that could not be compared. `all` lists each with its reason.
fn write_uncompared(outliers: &OutlierReport, all: bool, out: &mut dyn Write) -> io::Result<()> {
    for class in &outliers.alone {
        let few = format!("not compared, fewer than {} similar hosts", crate::facts::outliers::MIN_CLASS_SIZE);
        writeln!(
            out,
            "{}",
            paint(
                DIM,
                format!(
                    "{few}: {} ({})",
                    fold_hosts(&class.hosts),
                    escape::escape_truncated(class.hardware.raw(), VALUE_CHARS)
                )
            )
        )?;
    }
    for undecided in outliers.undecided.iter().filter(|_| all) {
        let values = format_count(undecided.values, "value");
        writeln!(
            out,
            "no majority: {}: {values} on {}",
            escape::escape_untrusted(&undecided.path),
            format_count(undecided.hosts, "host")
        )?;
    }
    for untold in outliers.unknown.iter().filter(|untold| all || untold.class.is_none()) {
        let why = escape::escape_truncated(untold.why.raw(), VALUE_CHARS);
        writeln!(
            out,
            "{} {}: {why} — {}",
            paint(UNKNOWN, "unknown:"),
            escape::escape_untrusted(&untold.path),
            fold_hosts(&untold.hosts)
        )?;
    }
    Ok(())
}

/// Returns the summary line: the number of outliers, and of values that could not be compared.
fn closing_line(outliers: &OutlierReport) -> String {
    let (word, rest) = outlier_text::summarize_outliers(outliers);
    let style = match word {
        _ if outlier_text::count_compared_hosts(outliers) == 0 => UNKNOWN,
        _ if outliers.odd.is_empty() => GOOD,
        _ => BAD,
    };
    format!("{} {rest}", paint(style, word))
}
