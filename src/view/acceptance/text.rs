//! Results of acceptance tests: what failed first, with the parts that are bad; passed measurements as one line.

use super::{
    MeasurementEnd, describe_comparison, describe_counts, describe_end, describe_range, name_measurement, name_test,
    split_rows,
};
use crate::engine::{AcceptanceReport, TestReport, TestRow};
use crate::model::ExitCode;
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::text::shared_lines::write_simulated;
use crate::view::{escape, format_count, format_duration};
use std::io::{self, Write};

/// Up to this number of passed measurements of a test are listed one by one.
const LISTED_PASSES: usize = 12;

/// Up to this number of measurements that lack a result for the same reason are named after the first.
const NAMED_OTHERS: usize = 6;

/// Writes simulated hosts, then each test with its measurements, then skipped hosts and the counts.
pub fn write_text(report: &AcceptanceReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    write_simulated(&report.simulated, out)?;
    report.tests.iter().try_for_each(|test| write_test(&name_test(report, test), test, out))?;
    for skipped in &report.skipped {
        let reason = escape::escape_untrusted(&skipped.reason);
        writeln!(out, "{} {}: {reason}", paint(UNKNOWN, "not tested"), escape::escape_line(skipped.host.as_str()))?;
    }
    for (state, unfinished) in report.list_unfinished_hosts() {
        let reason = escape::escape_untrusted(&unfinished.reason);
        let host = escape::escape_line(unfinished.host.as_str()).into_owned();
        writeln!(out, "{} on {host}: {reason}", paint(BAD, state))?;
    }
    write_closing(report, exit, out)
}

fn write_test(name: &str, test: &TestReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}  {}", paint(HEAD, escape::escape_line(name)), paint(DIM, escape::escape_line(&test.about)))?;
    let (others, passed) = split_rows(test);
    group_equal_rows(&others).iter().try_for_each(|group| write_group(test, group, out))?;
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

/// Groups measurements that lack a result for the same reason, in the order of the first of each.
fn group_equal_rows<'r>(rows: &[&'r TestRow]) -> Vec<Vec<&'r TestRow>> {
    let mut groups: Vec<Vec<&TestRow>> = Vec::new();
    for &row in rows {
        let lacks_result = MeasurementEnd::of(row) == MeasurementEnd::NotMeasured;
        let is_equal = |other: &&TestRow| other.verdict == row.verdict && other.lost == row.lost;
        match groups.iter_mut().find(|own| lacks_result && own.iter().any(is_equal)) {
            Some(own) => own.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Writes the first measurement, and names the others.
fn write_group(test: &TestReport, group: &[&TestRow], out: &mut dyn Write) -> io::Result<()> {
    let Some((first, others)) = group.split_first() else { return Ok(()) };
    write_row(test, first, out)?;
    let mut names: Vec<_> = others
        .iter()
        .take(NAMED_OTHERS)
        .map(|row| escape::escape_line(&name_measurement(test, row)).into_owned())
        .collect();
    names.extend(others.len().checked_sub(NAMED_OTHERS + 1).map(|more| format!("{} more", more + 1)));
    match names.is_empty() {
        true => Ok(()),
        false => writeln!(out, "  {}", paint(DIM, format!("= the same: {}", names.join(", ")))),
    }
}

fn write_row(test: &TestReport, row: &TestRow, out: &mut dyn Write) -> io::Result<()> {
    let end = MeasurementEnd::of(row);
    let style = match end {
        MeasurementEnd::Pass => GOOD,
        MeasurementEnd::Worse | MeasurementEnd::Fail => BAD,
        MeasurementEnd::NotMeasured => UNKNOWN,
    };
    // Empty if no host is left.
    let mut place = escape::escape_line(&name_measurement(test, row)).into_owned();
    place.push_str(if place.is_empty() { "" } else { "  " });
    let text = describe_end(test, row);
    writeln!(out, "  {} {place}{}", paint(style, format_args!("{:<4}", end.word())), escape::escape_line(&text))
}

fn write_pass_summary(test: &TestReport, passed: &[&TestRow], out: &mut dyn Write) -> io::Result<()> {
    let count = format_count(passed.len(), "measurement");
    writeln!(out, "  {} {count}  {}", paint(GOOD, "pass"), describe_range(test, passed))
}

fn write_closing(report: &AcceptanceReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    let word = if exit == ExitCode::Done { paint(GOOD, "accepted:") } else { paint(BAD, "not accepted:") };
    writeln!(
        out,
        "{word} set `{}`, {} ({}), run {}",
        escape::escape_line(&report.set),
        describe_counts(report),
        format_duration(report.took),
        report.run
    )?;
    match &report.against {
        Some(run) => writeln!(out, "{}", paint(DIM, describe_comparison(run, report.count_compared()))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ComparedValues;
    use crate::view::sample;

    #[test]
    fn measurements_without_a_result_are_folded_by_reason() {
        let mut report = sample::acceptance_report();
        let rows = &mut report.tests[0].rows;
        let lacking = rows.iter().find(|row| MeasurementEnd::of(row) == MeasurementEnd::NotMeasured).unwrap().clone();
        rows.extend((0..8).map(|_| lacking.clone()));
        let mut out = Vec::new();
        write_text(&report, report.exit_code(), &mut out).unwrap();
        let out = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(out.matches("exit status 127: command not found").count(), 1, "{out}");
        assert!(out.contains("  = the same: c, c, c, c, c, c, 2 more\n"), "{out}");
        assert!(out.contains(" 9 not measured"), "{out}");
    }

    #[test]
    fn comparison_without_a_compared_value_says_why() {
        let closing = |comparison| {
            let mut report = sample::acceptance_report();
            report.tests[0].comparison = comparison;
            let mut out = Vec::new();
            write_text(&report, report.exit_code(), &mut out).unwrap();
            let out = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            out.lines().last().unwrap_or_default().to_owned()
        };
        let counts = |compared, other_parameters| ComparedValues { compared, other_parameters, without_earlier: 0 };
        assert_eq!(closing(counts(0, 0)), "not compared with run r1: no measured value");
        let changed = "not compared with run r1: 3 values measured there with other parameters";
        assert_eq!(closing(counts(0, 3)), changed);
        assert_eq!(closing(counts(6, 0)), "compared with run r1: 6 values");
    }

    #[test]
    fn worse_measurements_are_counted_apart() {
        let mut report = sample::acceptance_report();
        let rows = &mut report.tests[0].rows;
        rows.extend((0..3).map(|_| rows[0].clone()).collect::<Vec<_>>());
        rows[0].worse = Some("9.5 is 8 % worse than 10.3 of the earlier run (limit 5 %)".into());
        rows[3].worse = rows[0].worse.clone();
        let mut out = Vec::new();
        write_text(&report, report.exit_code(), &mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        let counts = "2 passed, 2 worse, 1 failed, 1 not measured, 1 host not tested (2.0 s)";
        assert!(text.contains(&format!("not accepted: set `quick`, {counts}, run r2\n")), "{text}");
        let worse = "  worse c → a  9.5 Gb/s: 9.5 is 8 % worse than 10.3 of the earlier run (limit 5 %)\n";
        assert_eq!(text.matches(worse).count(), 2, "{text}");
        report.tests[0].rows.retain(|row| row.worse.is_some());
        report.skipped.clear();
        assert_eq!(report.exit_code(), ExitCode::VerifyFailed, "worse alone is not accepted");
    }

    #[test]
    fn host_that_did_not_store_its_results_is_named() {
        let mut report = sample::acceptance_report();
        report.tests[0].rows.retain(|row| matches!(row.verdict, crate::acceptance::TestVerdict::Pass { .. }));
        report.unstored = std::mem::take(&mut report.skipped);
        assert_eq!(report.exit_code(), ExitCode::Unexpected);
        let mut out = Vec::new();
        write_text(&report, report.exit_code(), &mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert!(
            text.contains("\nresults not stored on d: in use: pid 7\nnot accepted: set `quick`, 1 passed ("),
            "{text}"
        );
    }

    #[test]
    fn failed_measurements_and_bad_parts_come_first() {
        let mut out = Vec::new();
        let report = sample::acceptance_report();
        write_text(&report, report.exit_code(), &mut out).unwrap();
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
             compared with run r1: 1 value; not compared: 1 value not measured there\n"
        );
    }
}
