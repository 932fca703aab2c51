//! Outliers: values that differ from the majority, rarest first, and values that could not be compared.

use super::facts;
use super::{TextWriter, simulated};
use crate::facts::outliers::{FactOutlier, HostClass, OutlierReport, OutlierValue};
use crate::model::{HostName, Value};
use crate::plan::ObservedHost;
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::{count, escape, fold, odd, words};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Longer values are cut. The JSON output has the complete value.
const VALUE_CHARS: usize = 100;
/// Number of lines about one fact of the same hosts. More are counted, unless `-v` is given.
const FEW: usize = 5;

/// Writes the result of `facts --outliers`.
pub fn write(
    text: &TextWriter,
    seen: &[ObservedHost],
    outliers: &OutlierReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    simulated(seen.iter().filter(|host| host.simulated).map(|host| &host.host), out)?;
    section(outliers, text.verbose > 0, out)?;
    facts::unreachable(seen, out)
}

/// Writes the section of a report, including its summary line.
pub fn section(outliers: &OutlierReport, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let with_odd: BTreeSet<usize> = outliers.odd.iter().map(|odd| odd.class).collect();
    for (index, class) in outliers.classes.iter().enumerate().filter(|(index, _)| all || with_odd.contains(index)) {
        let odd: Vec<&FactOutlier> = outliers.odd.iter().filter(|odd| odd.class == index).collect();
        writeln!(out, "{}", paint(HEAD, head(class)))?;
        odd_ones(&odd, all, out)?;
    }
    aside(outliers, all, out)?;
    writeln!(out, "{}", closing(outliers))
}

fn head(class: &HostClass) -> String {
    let groups = match class.groups.len() {
        0 => String::new(),
        _ => format!("; in {}", words::some(&class.groups)),
    };
    let hardware = escape::short(class.hardware.raw(), VALUE_CHARS);
    format!(
        "{} ({hardware}{}): {}",
        count(class.hosts.len(), "similar host"),
        escape::line(&groups),
        folded(&class.hosts)
    )
}

fn folded(hosts: &[HostName]) -> String {
    escape::line(&odd::folded(hosts)).into_owned()
}

/// Writes the outliers. Lines about one fact of the same hosts mostly have one cause, so only the first ones are shown.
fn odd_ones(odd: &[&FactOutlier], all: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut shown: IndexMap<(&str, Vec<&HostName>), usize> = IndexMap::new();
    for one in odd {
        let hosts = one.odd.iter().flat_map(|value| &value.hosts).collect();
        let seen = shown.entry((&one.fact, hosts)).or_default();
        *seen += 1;
        if all || *seen <= FEW {
            writeln!(out, "  {}", line(one))?;
        }
    }
    for ((fact, hosts), lines) in shown.iter().filter(|(_, lines)| !all && **lines > FEW) {
        let hosts = fold::fold(hosts.iter().map(|host| host.as_str()));
        let more = format!("and {} more of `{}` on {}", lines - FEW, escape::line(fact), escape::line(&hosts));
        writeln!(out, "  {}", paint(DIM, format!("{more} (-v shows them)")))?;
    }
    Ok(())
}

fn line(one: &FactOutlier) -> String {
    let values: Vec<String> = one.odd.iter().map(|value| odd_value(&one.common, value)).collect();
    let untold = match one.unknown {
        0 => String::new(),
        some => format!("; unknown on {some}"),
    };
    let common = show(&one.common);
    let path = escape::text(&one.path);
    format!("{path}: {common} — {}; {} {}{untold}", count(one.hosts, "host"), paint(BAD, "outlier:"), values.join("; "))
}

fn odd_value(common: &Value, value: &OutlierValue) -> String {
    format!("{} — {}", escape::short(&odd::told(common, &value.value), VALUE_CHARS), folded(&value.hosts))
}

fn show(value: &Value) -> String {
    escape::short(&odd::show(value), VALUE_CHARS)
}

/// Writes values and hosts that could not be compared. `all` lists each with its reason.
fn aside(outliers: &OutlierReport, all: bool, out: &mut dyn Write) -> io::Result<()> {
    for class in &outliers.alone {
        let few = format!("not compared, fewer than {} similar hosts", crate::facts::outliers::LEAST);
        writeln!(
            out,
            "{}",
            paint(
                DIM,
                format!("{few}: {} ({})", folded(&class.hosts), escape::short(class.hardware.raw(), VALUE_CHARS))
            )
        )?;
    }
    for undecided in outliers.undecided.iter().filter(|_| all) {
        let values = count(undecided.values, "value");
        writeln!(
            out,
            "no majority: {}: {values} on {}",
            escape::text(&undecided.path),
            count(undecided.hosts, "host")
        )?;
    }
    for untold in outliers.unknown.iter().filter(|untold| all || untold.class.is_none()) {
        let why = escape::short(untold.why.raw(), VALUE_CHARS);
        writeln!(
            out,
            "{} {}: {why} — {}",
            paint(UNKNOWN, "unknown:"),
            escape::text(&untold.path),
            folded(&untold.hosts)
        )?;
    }
    Ok(())
}

/// Returns the summary line: the number of outliers, and of values that could not be compared.
fn closing(outliers: &OutlierReport) -> String {
    let (word, rest) = odd::closing(outliers);
    let style = match word {
        _ if odd::compared(outliers) == 0 => UNKNOWN,
        _ if outliers.odd.is_empty() => GOOD,
        _ => BAD,
    };
    format!("{} {rest}", paint(style, word))
}
