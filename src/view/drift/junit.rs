//! Drift as JUnit XML: a host is a suite, a finding is a failed test, an unknown step is a test with an error.

use super::{DriftReportInput, finding_details};
use crate::drift::{DriftFinding, HostDrift, UndecidedItem};
use crate::model::HostName;
use crate::plan::{HostReachability, UnreachableReason};
use crate::view::escape;
use crate::view::formatting::matching;
use crate::view::junit_xml::{XmlWriter, start_document, write_test_problem, write_text_element};
use crate::view::recording_files::FROM_RECORDINGS;
use std::collections::HashMap;
use std::io::{self, Write};

/// Maximum characters of a value. The JSON output has the complete value.
const MAX_VALUE_CHARS: usize = 400;
/// Maximum lines of a diff.
const MAX_DIFF_LINES: usize = 200;

/// One host with its findings and unknown steps.
struct JunitSuite<'a> {
    host: &'a HostDrift,
    findings: Vec<&'a DriftFinding>,
    unknown: Vec<&'a UndecidedItem>,
}

/// Writes one document.
pub fn write_junit(told: &DriftReportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut xml = start_document(out)?;
    let suites = collect_suites(told);
    let recordings = told.list_recordings();
    let sum = |of: &dyn Fn(&JunitSuite<'_>) -> usize| suites.iter().map(of).sum::<usize>().to_string();
    let name = escape::escape_line(&format!("forge drift {}", told.drift.cluster)).into_owned();
    xml.create_element("testsuites")
        .with_attribute(("name", name.as_str()))
        .with_attribute(("tests", sum(&|suite| suite.count_tests()).as_str()))
        .with_attribute(("failures", sum(&|suite| suite.findings.len()).as_str()))
        .with_attribute(("errors", sum(&|suite| suite.count_errors()).as_str()))
        .with_attribute(("time", format!("{:.3}", told.drift.took.as_secs_f64()).as_str()))
        .write_inner_content(|xml| suites.iter().try_for_each(|each| write_suite(each, told, &recordings, xml)))?;
    writeln!(xml.into_inner())
}

fn collect_suites<'a>(told: &DriftReportInput<'a>) -> Vec<JunitSuite<'a>> {
    let mut findings: HashMap<&HostName, Vec<&DriftFinding>> = HashMap::new();
    told.drift.findings.iter().for_each(|one| findings.entry(&one.host).or_default().push(one));
    let mut unknown: HashMap<&HostName, Vec<&UndecidedItem>> = HashMap::new();
    told.drift.unknown.iter().for_each(|one| unknown.entry(&one.host).or_default().push(one));
    let mut of = |host: &'a HostDrift| JunitSuite {
        host,
        findings: findings.remove(&host.host).unwrap_or_default(),
        unknown: unknown.remove(&host.host).unwrap_or_default(),
    };
    told.drift.hosts.iter().map(&mut of).collect()
}

impl JunitSuite<'_> {
    fn count_errors(&self) -> usize {
        self.unknown.len() + usize::from(self.host.reach != HostReachability::Observed)
    }

    /// Returns the number of tests. Every host has one for its reachability, so no suite is empty.
    fn count_tests(&self) -> usize {
        self.findings.len() + self.unknown.len() + 1
    }
}

fn write_suite(
    suite: &JunitSuite<'_>,
    told: &DriftReportInput<'_>,
    recordings: &[String],
    xml: &mut XmlWriter<'_>,
) -> io::Result<()> {
    let name = escape::escape_line(suite.host.host.as_str());
    // The JUnit schema has timestamps without a time zone.
    let time = told.drift.time.trim_end_matches('Z');
    xml.create_element("testsuite")
        .with_attribute(("name", &*name))
        .with_attribute(("hostname", &*name))
        .with_attribute(("tests", suite.count_tests().to_string().as_str()))
        .with_attribute(("failures", suite.findings.len().to_string().as_str()))
        .with_attribute(("errors", suite.count_errors().to_string().as_str()))
        .with_attribute(("skipped", "0"))
        .with_attribute(("time", format!("{:.3}", suite.host.took.as_secs_f64()).as_str()))
        .with_attribute(("timestamp", &*escape::escape_line(time)))
        .write_inner_content(|xml| {
            write_reachability_test(suite.host, recordings, xml)?;
            suite.findings.iter().try_for_each(|finding| write_failed_test(finding, told, xml))?;
            suite.unknown.iter().try_for_each(|unsure| write_unknown_test(unsure, xml))
        })?;
    Ok(())
}

/// Writes the test that every host has: whether it is reachable.
fn write_reachability_test(host: &HostDrift, recordings: &[String], xml: &mut XmlWriter<'_>) -> io::Result<()> {
    let name = if recordings.is_empty() { "answers" } else { "has recorded answers" };
    let test = xml.create_element("testcase").with_attribute(("classname", "forge")).with_attribute(("name", name));
    let said = match &host.reach {
        HostReachability::Unreachable(UnreachableReason { why, hint, .. }) => {
            let why = why.raw();
            let hint = hint.as_ref().map_or_else(String::new, |hint| format!("hint: {}", hint.raw()));
            return test
                .write_inner_content(|xml| write_test_problem("error", "unreachable", why, &hint, xml))
                .map(drop);
        }
        HostReachability::Observed => matching(host.settled, "check"),
    };
    let said = match recordings.is_empty() {
        true => said,
        false => format!("{said}\n{FROM_RECORDINGS}: {}", escape::escape_line(&recordings.join(", "))),
    };
    test.write_inner_content(|xml| write_text_element(xml, "system-out", &said)).map(drop)
}

fn write_failed_test(finding: &DriftFinding, told: &DriftReportInput<'_>, xml: &mut XmlWriter<'_>) -> io::Result<()> {
    let (recipe, name) = (escape::escape_line(finding.recipe.raw()), finding_details::format_finding_name(finding));
    xml.create_element("testcase")
        .with_attribute(("classname", &*recipe))
        .with_attribute(("name", &*escape::escape_line(&name)))
        .write_inner_content(|xml| {
            let why = finding_details::explain_cause(&[finding]);
            write_test_problem("failure", finding.cause.name(), &why, &describe_finding(finding, &told.drift.time), xml)
        })?;
    Ok(())
}

fn write_unknown_test(unsure: &UndecidedItem, xml: &mut XmlWriter<'_>) -> io::Result<()> {
    let name = finding_details::format_step_name(&unsure.recipe, &unsure.step);
    let hint = unsure.hint.as_ref().map_or_else(String::new, |hint| format!("hint: {hint}\n"));
    xml.create_element("testcase")
        .with_attribute(("classname", &*escape::escape_line(unsure.recipe.raw())))
        .with_attribute(("name", &*escape::escape_line(&name)))
        .write_inner_content(|xml| {
            let body = format!("{hint}declared at: {}", unsure.place);
            write_test_problem("error", "unknown", unsure.reason.raw(), &body, xml)
        })?;
    Ok(())
}

/// Returns the texts about a finding, one per line, with the diff unchanged.
fn describe_finding(finding: &DriftFinding, now: &str) -> String {
    let mut lines =
        vec![format!("{} (severity {})", finding_details::describe_subject(finding), finding.severity.name())];
    let value = finding_details::attribute_difference(finding);
    let shown = finding_details::describe_difference(&value, |text| escape::escape_value(text, MAX_VALUE_CHARS));
    lines.extend((!shown.is_empty()).then(|| format!("{}: {shown}", finding.attribute.as_deref().unwrap_or_default())));
    if let finding_details::AttributeDifference::Diff { diff, .. } = value {
        let all: Vec<&str> = diff.trim_end_matches('\n').split('\n').collect();
        lines.extend(all.iter().take(MAX_DIFF_LINES).map(|line| (*line).to_owned()));
        lines.extend((all.len() > MAX_DIFF_LINES).then(|| format!("({} more lines)", all.len() - MAX_DIFF_LINES)));
    }
    if let Some(check) = finding.check.as_ref().filter(|check| !check.output.is_empty()) {
        lines.push("the check printed:".to_owned());
        lines.extend(escape::escape_block(check.output.raw()).map(|line| format!("| {line}")));
    }
    let rows = finding_details::list_details(&[finding], now)
        .into_iter()
        .map(|(label, text)| format!("{label}: {}", escape::escape_line(&text)));
    lines.extend(rows);
    lines.join("\n")
}
