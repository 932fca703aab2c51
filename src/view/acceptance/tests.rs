//! File formats of a report with each end of a measurement, a bad part and a host that was not tested.

use super::{MeasurementEnd, write_html, write_junit, write_markdown, write_text};
use crate::acceptance::TestVerdict;
use crate::engine::AcceptanceReport;
use crate::view::sample;
use std::io::{self, Write};

type AcceptanceWriter = fn(&AcceptanceReport, &mut dyn Write) -> io::Result<()>;

fn render(report: &AcceptanceReport, writer: AcceptanceWriter) -> String {
    let mut out = Vec::new();
    writer(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn rich_report() -> AcceptanceReport {
    let mut report = sample::acceptance_report();
    let rows = &mut report.tests[0].rows;
    let mut worse = rows[0].clone();
    worse.worse = Some("9.5 is 8 % worse than 10.3 of the earlier run (limit 5 %)".into());
    rows[1].outputs = vec!["server <1>\n".into(), "client: `0.1`\u{1b}[1m\n".into()];
    rows.push(worse);
    report
}

#[test]
fn junit_counts_what_was_not_measured_as_errors() {
    let text = render(&rich_report(), write_junit);
    let xml = roxmltree::Document::parse(&text).unwrap();
    let root = xml.root_element();
    let of = |node: &roxmltree::Node<'_, '_>, name: &str| node.descendants().filter(|n| n.has_tag_name(name)).count();
    for node in [root].into_iter().chain(root.children().filter(|node| node.has_tag_name("testsuite"))) {
        for (attribute, element) in [("tests", "testcase"), ("failures", "failure"), ("errors", "error")] {
            assert_eq!(node.attribute(attribute), Some(of(&node, element).to_string().as_str()), "{node:?}");
        }
    }
    let count = |name: &str| root.attribute(name);
    assert_eq!((count("tests"), count("failures"), count("errors")), (Some("5"), Some("2"), Some("2")));
    assert_eq!(of(&root, "skipped"), 0, "pipelines count skipped cases as success");
    let names: Vec<_> =
        root.descendants().filter(|node| node.has_tag_name("testcase")).map(|node| node.attribute("name")).collect();
    let different: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), different.len(), "{names:?}");
    insta::assert_snapshot!(text);
}

/// A host decides the exit code also if its measurement passed before it was lost.
#[test]
fn lost_host_is_named_in_every_format() {
    let mut report = sample::acceptance_report();
    let row = report.tests[0].rows.iter_mut().find(|row| MeasurementEnd::of(row) == MeasurementEnd::Pass).unwrap();
    row.lost = vec![crate::model::HostName::new("n7")];
    let before = render(&sample::acceptance_report(), write_junit).matches("<error").count();
    let junit = render(&report, write_junit);
    assert_eq!(junit.matches("<error").count(), before + 1, "{junit}");
    let write_text: AcceptanceWriter = |report, out| write_text(report, report.exit_code(), out);
    for text in [junit, render(&report, write_text), render(&report, write_markdown), render(&report, write_html)] {
        assert!(text.contains("lost during the measurement: n7"), "{text}");
    }
    assert!(render(&report, write_text).contains("1 host lost"));
}

/// Also a host that was not tested: its devices are not real either.
#[test]
fn simulated_hosts_come_before_results() {
    let mut report = sample::acceptance_report();
    let write_text: AcceptanceWriter = |report, out| write_text(report, report.exit_code(), out);
    for writer in [write_text, write_markdown, write_html] {
        assert!(!render(&report, writer).to_lowercase().contains("simulated"), "each host is real");
    }
    report.simulated = ["gpu-1", "gpu-2"].map(crate::model::HostName::new).into();
    let text = render(&report, write_text);
    assert!(text.starts_with("simulated, no real hardware: gpu-[1:2]\n\n"), "{text}");
    let markdown = render(&report, write_markdown);
    assert!(markdown.contains("\n> **Simulated, no real hardware:** ` gpu-[1:2] `\n"), "{markdown}");
    let html = render(&report, write_html);
    assert!(html.contains("<p class=\"open\">Simulated, no real hardware: gpu-[1:2]</p>"), "{html}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["simulated"], serde_json::json!(["gpu-1", "gpu-2"]));
}

#[test]
fn run_without_measurements_is_an_error_in_junit() {
    let mut report = sample::acceptance_report();
    report.tests[0].rows.clear();
    report.skipped.clear();
    let text = render(&report, write_junit);
    assert!(text.contains("errors=\"1\"") && text.contains("message=\"nothing was measured\""), "{text}");
    report.tests[0].rows = sample::acceptance_report().tests[0].rows[..1].to_vec();
    report.interrupted = true;
    let text = render(&report, write_junit);
    assert!(text.contains("errors=\"1\"") && text.contains("type=\"interrupted\""), "{text}");
}

#[test]
fn markdown_report_matches_snapshot() {
    insta::assert_snapshot!(render(&rich_report(), write_markdown));
}

#[test]
fn html_report_matches_snapshot() {
    insta::assert_snapshot!(render(&rich_report(), write_html));
}

#[test]
fn text_of_hosts_has_no_effect_in_any_format() {
    let hostile = "<script>x()</script> ]]> **b** @user | `c` \u{202e}d \u{0}&amp;\n# e";
    let mut report = rich_report();
    report.tests[0].rows[1].verdict = TestVerdict::not_measured(hostile);
    report.tests[0].rows[1].outputs = vec![hostile.into()];
    report.tests[0].faults[0].part = hostile.into();
    report.skipped[0].reason = hostile.into();
    for writer in [write_junit as AcceptanceWriter, write_html, write_markdown] {
        let text = render(&report, writer);
        assert!(!text.contains('\u{202e}') && !text.contains('\0'), "{text}");
    }
    assert!(!render(&report, write_markdown).contains("\n# e"));
    assert!(!render(&report, write_html).contains("<script"));
    let xml = render(&report, write_junit);
    assert!(roxmltree::Document::parse(&xml).is_ok(), "{xml}");
}

/// Two entries of a set may measure different things with one test: bandwidths to and from GPUs.
#[test]
fn entries_of_one_test_are_named_by_what_differs() {
    let mut report = rich_report();
    let parameters =
        |case: &str| [("program", "p"), ("testcase", case)].map(|(name, value)| (name.into(), value.into()));
    let mut second = report.tests[0].clone();
    report.tests[0].parameters = parameters("to").into();
    second.parameters = parameters("from").into();
    report.tests.push(second);
    let junit = render(&report, write_junit);
    let xml = roxmltree::Document::parse(&junit).unwrap();
    let suites = xml.descendants().filter(|node| node.has_tag_name("testsuite"));
    let suites: Vec<_> = suites.filter_map(|node| node.attribute("name")).collect();
    assert_eq!(suites[..2], ["ucx-bandwidth testcase=to", "ucx-bandwidth testcase=from"]);
    for writer in [write_html as AcceptanceWriter, write_markdown] {
        let text = render(&report, writer);
        assert!(text.contains("ucx-bandwidth testcase=to") && text.contains("ucx-bandwidth testcase=from"), "{text}");
    }
}
