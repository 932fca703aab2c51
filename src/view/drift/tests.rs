//! Every report format, written from the same drift and read by a parser of the format, also with hostile texts.

use super::*;
use crate::drift::{DriftCause, DriftReport, DriftRunSummary, FindingSeverity};
use crate::view::sample::{self, finding, rich_drift};
use std::io::{self, Write};

pub fn past_runs() -> Vec<DriftRunSummary> {
    let run = |(at, findings): (usize, usize)| DriftRunSummary {
        run: format!("r{at}"),
        time: format!("2026-11-2{at}T09:30:00Z"),
        hosts: 4,
        unreachable: at % 2,
        findings,
        unknown: 1,
        new: 0,
        changed: 0,
        resolved: 0,
        exit: 9,
        took_ms: 1200,
    };
    [2, 9, 5, 11].into_iter().enumerate().map(run).collect()
}

pub type DriftReportWriter = fn(&DriftReportInput<'_>, &mut dyn Write) -> io::Result<()>;

pub fn render_drift_report(drift: &DriftReport, writer: DriftReportWriter) -> String {
    let runs = past_runs();
    let told = DriftReportInput {
        drift,
        exit: drift.exit_code(),
        runs: &runs,
        last_success: "2026-11-21T09:15:00Z".parse().ok(),
        recordings: &[],
    };
    let mut out = Vec::new();
    writer(&told, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_format_names_the_recordings() {
    let (drift, recorded) = (rich_drift(), "2026-11-11T09:15:00Z");
    let files = [RecordingFile { path: "seen.json".into(), recorded: recorded.parse().ok() }];
    let render = |writer: DriftReportWriter| {
        let told = DriftReportInput {
            drift: &drift,
            exit: drift.exit_code(),
            runs: &[],
            last_success: None,
            recordings: &files,
        };
        let mut out = Vec::new();
        writer(&told, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    for writer in [write_markdown as DriftReportWriter, write_junit, write_sarif, write_html] {
        let page = render(writer);
        for part in ["rom recorded answers; no host was contacted", "seen.json  2026-11-11T09:15:00Z (", " days ago)"] {
            assert!(page.contains(part), "no `{part}` in {page}");
        }
    }
    assert!(!render(write_junit).contains(r#"name="answers""#), "no host answered now");
    let metrics = render(write_prometheus);
    let time = recorded.parse::<Timestamp>().unwrap().as_second();
    let line = metrics.lines().find(|line| line.starts_with("forge_drift_last_run_timestamp_seconds{")).unwrap();
    assert!(line.ends_with(&format!(" {time}")), "{line}");
}

#[test]
fn markdown_report_matches_snapshot() {
    insta::assert_snapshot!(render_drift_report(&rich_drift(), write_markdown));
}

/// Every page for people lists the outliers.
#[test]
fn outliers_are_listed_when_hosts_were_compared() {
    let odd = DriftReport { outliers: Some(sample::outliers("5.15.0-130-generic")), ..rich_drift() };
    for (writer, heading, line) in [
        (
            write_markdown as DriftReportWriter,
            "**outliers:** 10 of 312 values on 4 of 6 hosts differ; 1 without a majority, 1 unknown on some hosts",
            "- **outlier** ` driver.loaded `: ` 550.54.15 ` on ` gpu02 `; ` none ` on ` gpu05 `; ` 560.35.03 ` on 4 hosts",
        ),
        (
            write_html,
            "<p><b>outliers:</b> 10 of 312 values on 4 of 6 hosts differ; 1 without a majority, 1 unknown on some hosts</p>",
            "<li><code>driver.loaded</code>: <b>550.54.15</b> on gpu02; <b>none</b> on gpu05; 560.35.03 on 4 hosts",
        ),
    ] {
        let page = render_drift_report(&odd, writer);
        assert!(page.contains(heading) && page.contains(line), "{page}");
        assert!(!render_drift_report(&rich_drift(), writer).contains(heading));
    }
    let mut none = sample::outliers("x");
    none.odd.clear();
    let page = render_drift_report(&DriftReport { outliers: Some(none), ..rich_drift() }, write_markdown);
    assert!(
        page.contains("**no outliers:** 6 hosts, 312 values compared; 1 without a majority, 1 unknown on some hosts"),
        "{page}"
    );
}

#[test]
fn junit_report_matches_snapshot_and_counts() {
    let text = render_drift_report(&rich_drift(), write_junit);
    let xml = roxmltree::Document::parse(&text).unwrap();
    let number = |node: &roxmltree::Node<'_, '_>, name: &str| node.attribute(name).unwrap().parse::<usize>().unwrap();
    let root = xml.root_element();
    let of = |node: &roxmltree::Node<'_, '_>, name: &str| node.descendants().filter(|n| n.has_tag_name(name)).count();
    for node in [root].into_iter().chain(root.children().filter(|node| node.has_tag_name("testsuite"))) {
        assert_eq!(number(&node, "tests"), of(&node, "testcase"), "{node:?}");
        assert_eq!(number(&node, "failures"), of(&node, "failure"), "{node:?}");
        assert_eq!(number(&node, "errors"), of(&node, "error"), "{node:?}");
    }
    assert_eq!((number(&root, "failures"), number(&root, "errors")), (11, 2), "one unknown, one unreachable");
    insta::assert_snapshot!(text);
}

#[test]
fn sarif_report_matches_snapshot() {
    let text = render_drift_report(&rich_drift(), write_sarif);
    insta::assert_snapshot!(text);
}

#[test]
fn sarif_results_point_to_the_declaration() {
    let mut drift = sample::drift(&["a"], vec![finding("a", "motd", DriftCause::Both, FindingSeverity::High)]);
    drift.findings[0].place = "recipes/my base.yaml:7:5".into();
    let value: serde_json::Value = serde_json::from_str(&render_drift_report(&drift, write_sarif)).unwrap();
    let result = &value["runs"][0]["results"][0];
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "recipes/my%20base.yaml");
    assert_eq!(place["region"], serde_json::json!({ "startLine": 7, "startColumn": 5 }));
    assert_eq!((result["level"].as_str(), result["baselineState"].as_str()), (Some("error"), Some("new")));
    assert_eq!(value["runs"][0]["invocations"][0]["executionSuccessful"], true, "findings are no error: {value:#}");
}

#[test]
fn sarif_run_with_unknown_hosts_is_not_successful() {
    let value: serde_json::Value = serde_json::from_str(&render_drift_report(&rich_drift(), write_sarif)).unwrap();
    let run = &value["runs"][0]["invocations"][0];
    assert_eq!((&run["executionSuccessful"], &run["exitCode"]), (&false.into(), &4.into()));
    assert_eq!(run["toolExecutionNotifications"].as_array().unwrap().len(), 2, "one unreachable, one unknown");
}

/// The schema is the part of the standard's schema that forge uses, and allows no other keys.
#[test]
fn sarif_report_matches_its_schema() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("sarif.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut drift = rich_drift();
    for drift in [drift.clone(), hostile_drift(), sample::drift(&[], Vec::new()), {
        drift.no_history = None;
        drift
    }] {
        let value = serde_json::from_str(&render_drift_report(&drift, write_sarif)).unwrap();
        let wrong: Vec<String> =
            validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!(wrong, [""; 0]);
    }
    let bent = serde_json::json!({ "version": "2.1.0", "runs": [{ "tool": { "driver": {} } }] });
    assert!(!validator.is_valid(&bent), "a driver needs a name");
}

#[test]
fn prometheus_metrics_match_snapshot() {
    insta::assert_snapshot!(render_drift_report(&rich_drift(), write_prometheus));
}

#[test]
fn cluster_api_is_not_counted_as_a_host() {
    let on = |host: &str| sample::finding(host, "motd", DriftCause::MachineChanged, FindingSeverity::Medium);
    let drift = sample::drift(&["gpu01", "gpu02", HostName::CLUSTER], vec![on("gpu01"), on(HostName::CLUSTER)]);
    let page = render_drift_report(&drift, write_html);
    assert!(page.contains("<h2>2 findings on 1 of 2 hosts and the cluster</h2>"), "{page}");
    assert!(page.contains("1 host and the cluster: ") && page.contains("no drift on 1 host: gpu02"), "{page}");
    assert!(render_drift_report(&drift, write_markdown).contains(" on 1 host and the cluster: "));
    let file = render_drift_report(&drift, write_prometheus);
    let value = |metric: &str, outcome: &str| {
        let head = format!("{metric}{{cluster=\"{}\",outcome=\"{outcome}\"}} ", drift.cluster);
        file.lines().find_map(|line| line.strip_prefix(&head)).map(str::to_owned)
    };
    let outcomes = |metric| ["as-declared", "drifted", "unreachable"].map(|outcome| value(metric, outcome));
    assert_eq!(outcomes("forge_drift_hosts"), ["1", "1", "0"].map(|n| Some(n.to_owned())), "{file}");
    assert_eq!(outcomes("forge_drift_cluster_api"), ["0", "1", "0"].map(|n| Some(n.to_owned())), "{file}");
    assert!(
        !render_drift_report(&rich_drift(), write_prometheus).contains("cluster_api"),
        "no cluster API was observed"
    );
    assert_eq!(drift.count_findings().hosts, 2);
}

#[test]
fn last_success_is_parsed_from_the_previous_metrics_file() {
    let text = render_drift_report(&rich_drift(), write_prometheus);
    let time = "2026-11-21T09:15:00Z".parse().ok();
    assert_eq!(parse_last_success(&text, "h100-prod"), time);
    assert_eq!(parse_last_success(&text, "h100"), None, "another cluster");
    assert_eq!(
        parse_last_success("forge_drift_last_success_timestamp_seconds{cluster=\"h100-prod\"} soon\n", "h100-prod"),
        None
    );
    let mut drift = rich_drift();
    drift.cluster = "a\"b\\c\nd".into();
    assert_eq!(parse_last_success(&render_drift_report(&drift, write_prometheus), &drift.cluster), time);
}

#[test]
fn recipes_with_equal_truncated_names_share_one_sample() {
    let long = "x".repeat(200);
    let named = |end: &str| crate::drift::DriftFinding {
        recipe: format!("{long}{end}").into(),
        ..finding("a", "motd", DriftCause::Both, FindingSeverity::Low)
    };
    let text = render_drift_report(&sample::drift(&["a"], vec![named("1"), named("2")]), write_prometheus);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("forge_drift_findings{")).collect();
    assert_eq!(lines.len(), 4, "a line for each severity: {lines:#?}");
    assert!(lines.iter().any(|line| line.contains("severity=\"low\"") && line.ends_with(" 2")), "{lines:#?}");
}

#[test]
fn html_report_matches_snapshot() {
    insta::assert_snapshot!(html_without_assets(&rich_drift()));
}

/// Returns the page without its style and its script, which are separate files.
fn html_without_assets(drift: &DriftReport) -> String {
    let page = render_drift_report(drift, write_html);
    let cut = |text: String, from: &str, to: &str| {
        let start = text.find(from).unwrap() + from.len();
        let end = start + text[start..].find(to).unwrap();
        format!("{}…{}", &text[..start], &text[end..])
    };
    let page = cut(page, "<style>", "</style>");
    let page = cut(page, "<script>", "</script>");
    cut(page, "content=\"default-src", "\">")
}

#[test]
fn content_security_policy_allows_only_own_style_and_script() {
    use base64::Engine;
    use sha2::Digest;
    let page = render_drift_report(&rich_drift(), write_html);
    let inside = |from: &str, to: &str| page.split(from).nth(1).unwrap().split(to).next().unwrap().to_owned();
    let digest = |text: String| base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(text.as_bytes()));
    let policy = inside("Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.contains(&format!("style-src 'sha256-{}'", digest(inside("<style>", "</style>")))), "{policy}");
    assert!(policy.contains(&format!("script-src 'sha256-{}'", digest(inside("<script>", "</script>")))), "{policy}");
    for active in ["unsafe", "onclick=", " style=", "http:", "https:", "innerHTML", "eval("] {
        assert!(!page.contains(active), "`{active}` is in the page");
    }
}

/// Returns drift with markup of every format in every text from a host.
pub fn hostile_drift() -> DriftReport {
    const TEXT: &str = "\u{1b}[31m\u{1b}]0;x\u{7}<script>alert(1)</script>]]>\"'`&amp;\n# x\r\0\u{8}\u{202e}\u{2066}\u{fffe}\u{ffff}[a](javascript:b) {label=\"} {0} | \\ --> <!-- \t```";
    let mut drift = rich_drift();
    drift.cluster = TEXT.into();
    drift.hosts[0].host = crate::model::HostName::new(TEXT);
    for finding in &mut drift.findings {
        if finding.host.as_str() == "gpu01" {
            finding.host = crate::model::HostName::new(TEXT);
        }
        for text in [&mut finding.recipe, &mut finding.step, &mut finding.title, &mut finding.kind, &mut finding.reason]
        {
            *text = TEXT.into();
        }
        finding.attribute = finding.attribute.as_ref().map(|_| TEXT.to_owned());
        for text in [&mut finding.desired, &mut finding.observed] {
            *text = text.as_ref().map(|_| TEXT.into());
        }
        finding.diff = finding.diff.as_ref().map(|_| format!("-{TEXT}\n+{TEXT}\n").as_str().into());
        finding.check = Some(Box::new(crate::plan::CheckRun {
            command: TEXT.into(),
            status: 1,
            output: format!("{TEXT}\n{TEXT}").into(),
        }));
        finding.hint = Some(TEXT.into());
        finding.place = format!("{TEXT}:1:1");
    }
    drift.unknown[0].reason = TEXT.into();
    drift.outliers = Some(sample::outliers(TEXT));
    drift
}

/// Asserts that no character acts on a terminal, reorders text or is invisible.
#[track_caller]
fn assert_harmless(text: &str) {
    let found: Vec<char> = text.chars().filter(|c| crate::view::escape::is_hidden_char(*c)).collect();
    assert_eq!(found, [' '; 0]);
}

/// Checks the formats for which a parser is available. `tests/browser` checks the others.
#[test]
fn hostile_host_text_is_escaped_in_every_format() {
    let drift = hostile_drift();
    let shown = crate::view::escape::escape_line(&drift.cluster).into_owned();
    for writer in [write_markdown, write_junit, write_sarif, write_prometheus, write_html] {
        assert_harmless(&render_drift_report(&drift, writer));
    }
    let xml = render_drift_report(&drift, write_junit);
    let xml = roxmltree::Document::parse(&xml).unwrap();
    let suite = xml.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
    assert_eq!(suite.attribute("hostname"), Some(shown.as_str()));
    let value: serde_json::Value = serde_json::from_str(&render_drift_report(&drift, write_sarif)).unwrap();
    assert_eq!(
        value["runs"][0]["results"][0]["properties"]["host"], drift.cluster,
        "parsed, it is the host's exact text"
    );
    let message = value["runs"][0]["results"][0]["message"]["text"].as_str().unwrap();
    assert!(!message.contains("]("), "no link: {message}");
    let page = render_drift_report(&drift, write_html);
    assert_eq!(page.matches("<script").count(), 2, "the data and the page's own script");
    assert_eq!(page.matches("<!--").count(), 0);
    let lines = render_drift_report(&drift, write_prometheus);
    assert!(lines.lines().all(|line| line.starts_with("forge_drift_") || line.starts_with("# ")), "{lines}");
}
