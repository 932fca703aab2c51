//! Results of acceptance tests: what failed first, with the parts that are bad; passed measurements as one line.

use crate::acceptance::{TestVerdict, format_number};
use crate::engine::{AcceptanceReport, MeasuredScope, TestReport, TestRow};
use crate::model::{ExitCode, HostName};
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::{escape, fold, format_count, format_duration};
use std::io::{self, Write};

/// Up to this number of passed measurements of a test are listed one by one.
const LISTED_PASSES: usize = 12;

/// Writes each test with its measurements, then skipped hosts and the counts.
pub fn write_acceptance(report: &AcceptanceReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    report.tests.iter().try_for_each(|test| write_test(test, out))?;
    for skipped in &report.skipped {
        let reason = escape::escape_untrusted(&skipped.reason);
        writeln!(out, "{} {}: {reason}", paint(UNKNOWN, "not tested"), escape::escape_line(skipped.host.as_str()))?;
    }
    write_closing(report, exit, out)
}

fn write_test(test: &TestReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{}  {}",
        paint(HEAD, escape::escape_line(&test.test)),
        paint(DIM, escape::escape_line(&test.about))
    )?;
    let (passed, others): (Vec<&TestRow>, Vec<&TestRow>) = test.rows.iter().partition(|row| is_good(row));
    others.iter().try_for_each(|row| write_row(test, row, out))?;
    match passed.len() {
        0..=LISTED_PASSES => passed.iter().try_for_each(|row| write_row(test, row, out))?,
        _ => write_pass_summary(test, &passed, out)?,
    }
    for fault in &test.faults {
        writeln!(out, "  {} {}", paint(BAD, "bad:"), escape::escape_line(&fault.part))?;
        for line in &fault.evidence {
            writeln!(out, "       {}", paint(DIM, escape::escape_line(line)))?;
        }
    }
    if !test.suspects.is_empty() {
        let suspects: Vec<_> = test.suspects.iter().map(|part| escape::escape_line(part)).collect();
        writeln!(out, "  {} {}", paint(UNKNOWN, "one of these is bad:"), suspects.join("; "))?;
    }
    writeln!(out)
}

fn is_good(row: &TestRow) -> bool {
    matches!(row.verdict, TestVerdict::Pass { .. }) && row.worse.is_none()
}

fn write_row(test: &TestReport, row: &TestRow, out: &mut dyn Write) -> io::Result<()> {
    let (word, style) = match (&row.verdict, &row.worse) {
        (TestVerdict::Pass { .. }, None) => ("pass", GOOD),
        (TestVerdict::Pass { .. }, Some(_)) => ("worse", BAD),
        (TestVerdict::Fail { .. }, _) => ("fail", BAD),
        (TestVerdict::NotMeasured { .. }, _) => ("not measured", UNKNOWN),
    };
    let text = match (&row.verdict, &row.worse) {
        (TestVerdict::Pass { value, .. }, Some(worse)) => format!("{} {}: {worse}", format_number(*value), test.unit),
        (TestVerdict::Pass { value, expected }, None) => {
            format!("{} {}, {expected}", format_number(*value), test.unit)
        }
        (TestVerdict::Fail { reason, .. } | TestVerdict::NotMeasured { reason }, _) => reason.clone(),
    };
    let place = escape::escape_line(&name_measurement(test, row)).into_owned();
    writeln!(out, "  {} {place}  {}", paint(style, format_args!("{word:<4}")), escape::escape_line(&text))
}

/// Returns the hosts and the rail. For a pair, the direction of the data: from the client to the server.
fn name_measurement(test: &TestReport, row: &TestRow) -> String {
    let hosts = match (test.scope, row.hosts.as_slice()) {
        (MeasuredScope::Pair, [server, client]) => format!("{} → {}", client.as_str(), server.as_str()),
        (_, hosts) => fold::fold_names(hosts.iter().map(HostName::as_str)),
    };
    match &row.rail {
        Some(rail) => format!("{hosts} {rail}"),
        None => hosts,
    }
}

fn write_pass_summary(test: &TestReport, passed: &[&TestRow], out: &mut dyn Write) -> io::Result<()> {
    let values = || passed.iter().filter_map(|row| row.verdict.value());
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let count = format_count(passed.len(), "measurement");
    let range = format!("{} to {} {}", format_number(least), format_number(most), test.unit);
    writeln!(out, "  {} {count}  {range}", paint(GOOD, "pass"))
}

fn write_closing(report: &AcceptanceReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<&TestRow> = report.tests.iter().flat_map(|test| &test.rows).collect();
    let count = |wanted: fn(&TestVerdict) -> bool| rows.iter().filter(|row| wanted(&row.verdict)).count();
    let good = rows.iter().filter(|row| is_good(row)).count();
    let worse = count(|verdict| matches!(verdict, TestVerdict::Pass { .. })) - good;
    let failed = count(|verdict| matches!(verdict, TestVerdict::Fail { .. }));
    let missing = count(|verdict| matches!(verdict, TestVerdict::NotMeasured { .. }));
    let word = if exit == ExitCode::Done { paint(GOOD, "accepted:") } else { paint(BAD, "not accepted:") };
    let mut counts = vec![format!("{good} passed")];
    counts.extend((worse > 0).then(|| format!("{worse} worse")));
    counts.extend((failed > 0).then(|| format!("{failed} failed")));
    counts.extend((missing > 0).then(|| format!("{missing} not measured")));
    counts.extend(
        (!report.skipped.is_empty()).then(|| format!("{} not tested", format_count(report.skipped.len(), "host"))),
    );
    writeln!(
        out,
        "{word} set `{}`, {} ({}), run {}",
        escape::escape_line(&report.set),
        counts.join(", "),
        format_duration(report.took),
        report.run
    )?;
    match &report.against {
        Some(run) => writeln!(out, "{}", paint(DIM, format!("compared with run {run}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    #[test]
    fn failed_measurements_and_bad_parts_come_first() {
        let mut out = Vec::new();
        let report = sample::acceptance_report();
        write_acceptance(&report, report.exit_code(), &mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(
            text,
            "ucx-bandwidth  Bandwidth of UCX\n  \
               fail a → b  0.1 Gb/s, expected at least 1 Gb/s (declared)\n  \
               not measured c  exit status 127: command not found\n  \
               pass c → a  9.5 Gb/s, at least 1 Gb/s (declared)\n  \
               bad: host `a`, its adapter or its cable\n       \
                    a, b: 0.1\n\n\
             not tested d: in use: pid 7\n\
             not accepted: set `quick`, 1 passed, 1 failed, 1 not measured, 1 host not tested (2.0 s), run r2\n\
             compared with run r1\n"
        );
    }
}
