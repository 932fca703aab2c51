//! Acceptance tests as JUnit XML: a test is a suite, a measurement a test case.
//!
//! A measurement without a value and a host that was not tested are errors, never skipped test cases: pipelines count
//! skipped ones as success.

use super::{MeasurementEnd, describe_comparison, describe_end, name_measurement, name_test};
use crate::engine::{AcceptanceReport, TestReport, TestRow};
use crate::model::ExitCode;
use crate::view::escape;
use crate::view::junit_xml::{XmlWriter, start_document, write_test_problem, write_text_element};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Name of the suite of what belongs to no test.
const RUN_SUITE: &str = "hosts";

/// A test case: its class, its name, and its element with the type and the texts.
struct JunitCase {
    name: String,
    end: Result<String, JunitProblem>,
}

struct JunitProblem {
    element: &'static str,
    class: &'static str,
    message: String,
    body: String,
}

struct JunitSuite {
    name: String,
    cases: Vec<JunitCase>,
    /// What the cases together show.
    note: Vec<String>,
}

/// Writes one document.
pub fn write_junit(report: &AcceptanceReport, out: &mut dyn Write) -> io::Result<()> {
    let mut suites: Vec<JunitSuite> = report.tests.iter().map(|test| collect_suite(report, test)).collect();
    let hosts = collect_hosts(report);
    if !hosts.is_empty() {
        suites.push(JunitSuite { name: RUN_SUITE.to_owned(), cases: hosts, note: Vec::new() });
    }
    let sum = |of: &dyn Fn(&JunitSuite) -> usize| suites.iter().map(of).sum::<usize>().to_string();
    let name = escape::escape_line(&format!("forge test {} {}", report.cluster, report.set)).into_owned();
    let mut xml = start_document(out)?;
    xml.create_element("testsuites")
        .with_attribute(("name", name.as_str()))
        .with_attribute(("tests", sum(&|suite| suite.cases.len()).as_str()))
        .with_attribute(("failures", sum(&|suite| suite.count("failure")).as_str()))
        .with_attribute(("errors", sum(&|suite| suite.count("error")).as_str()))
        .with_attribute(("time", format!("{:.3}", report.took.as_secs_f64()).as_str()))
        .write_inner_content(|xml| suites.iter().try_for_each(|suite| write_suite(suite, xml)))?;
    writeln!(xml.into_inner())
}

fn collect_suite(report: &AcceptanceReport, test: &TestReport) -> JunitSuite {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let mut build = |row: &TestRow| {
        let name = name_measurement(test, row);
        let count = named.entry(name.clone()).or_default();
        *count += 1;
        // A pair is measured again to isolate a fault. Readers merge cases with equal names.
        let name = if *count == 1 { name } else { format!("{name} ({count})") };
        JunitCase { name, end: build_end(test, row) }
    };
    let cases = test.rows.iter().map(&mut build).collect();
    let faults = test.faults.iter().flat_map(|fault| {
        let evidence = fault.evidence.iter().map(|line| format!("  {line}"));
        [format!("bad: {}", fault.part)].into_iter().chain(evidence)
    });
    let suspects = (!test.suspects.is_empty()).then(|| format!("one of these is bad: {}", test.suspects.join("; ")));
    let compared = report.against.as_ref().map(|run| describe_comparison(run, test.comparison));
    JunitSuite { name: name_test(report, test), cases, note: faults.chain(suspects).chain(compared).collect() }
}

fn build_end(test: &TestReport, row: &TestRow) -> Result<String, JunitProblem> {
    let (end, text) = (MeasurementEnd::of(row), describe_end(test, row));
    let element = match end {
        MeasurementEnd::Pass if row.lost.is_empty() => return Ok(text),
        MeasurementEnd::Worse | MeasurementEnd::Fail => "failure",
        MeasurementEnd::Pass | MeasurementEnd::NotMeasured => "error",
    };
    let body: Vec<&str> = row.outputs.iter().map(|output| output.raw()).collect();
    // As for a host that could not be reached before the tests.
    let class = if row.lost.is_empty() { end.word() } else { "unreachable" };
    Err(JunitProblem { element, class, message: text, body: body.join("\n") })
}

/// Returns the hosts that were not tested, and what makes a run without failed measurements incomplete.
fn collect_hosts(report: &AcceptanceReport) -> Vec<JunitCase> {
    let error = |name: &str, class, message: &str| JunitCase {
        name: name.to_owned(),
        end: Err(JunitProblem { element: "error", class, message: message.to_owned(), body: String::new() }),
    };
    let skipped = report.skipped.iter().map(|skipped| {
        let class = if skipped.unreachable { "unreachable" } else { "not tested" };
        error(skipped.host.as_str(), class, skipped.reason.raw())
    });
    let unfinished = report.list_unfinished_hosts();
    let unfinished = unfinished.map(|(class, host)| error(host.host.as_str(), class, host.reason.raw()));
    let interrupted = report.interrupted.then(|| error("run", "interrupted", ExitCode::Interrupted.meaning()));
    let nothing = report.tests.iter().all(|test| test.rows.is_empty());
    let nothing = nothing.then(|| error("run", "not measured", "nothing was measured"));
    skipped.chain(unfinished).chain(interrupted).chain(nothing).collect()
}

impl JunitSuite {
    fn count(&self, element: &str) -> usize {
        let is_it = |case: &&JunitCase| matches!(&case.end, Err(problem) if problem.element == element);
        self.cases.iter().filter(is_it).count()
    }
}

fn write_suite(suite: &JunitSuite, xml: &mut XmlWriter<'_>) -> io::Result<()> {
    let name = escape::escape_line(&suite.name);
    xml.create_element("testsuite")
        .with_attribute(("name", &*name))
        .with_attribute(("tests", suite.cases.len().to_string().as_str()))
        .with_attribute(("failures", suite.count("failure").to_string().as_str()))
        .with_attribute(("errors", suite.count("error").to_string().as_str()))
        .with_attribute(("skipped", "0"))
        .write_inner_content(|xml| {
            suite.cases.iter().try_for_each(|case| write_case(&name, case, xml))?;
            suite.note.iter().try_for_each(|line| write_text_element(xml, "system-out", line))
        })?;
    Ok(())
}

fn write_case(suite: &str, case: &JunitCase, xml: &mut XmlWriter<'_>) -> io::Result<()> {
    xml.create_element("testcase")
        .with_attribute(("classname", suite))
        .with_attribute(("name", &*escape::escape_line(&case.name)))
        .write_inner_content(|xml| match &case.end {
            Ok(text) => write_text_element(xml, "system-out", text),
            Err(problem) => write_test_problem(problem.element, problem.class, &problem.message, &problem.body, xml),
        })
        .map(drop)
}
