//! Empty, nested and multi-line fields, and fields with backticks, in every writer: no sentence has a gap or a stray
//! mark, and no content is omitted.

use super::tests::render_drift_report;
use super::{write_html, write_junit, write_markdown, write_prometheus, write_sarif};
use crate::drift::{
    AttributionCertainty, ChangeSource, DriftCause, DriftFinding, DriftReport, FindingAspect, FindingSeverity,
};
use crate::model::{ExitCode, StepVerdict, UntrustedText};
use crate::plan::{Plan, StepPlan};
use crate::resource::AttributeChange;
use crate::view::markdown::tests::text_outside_fences;
use crate::view::{JsonWriter, ResultWriter, TextWriter, sample};
use proptest::prelude::*;

/// Texts that hosts and authors may put into fields.
const FIELD_TEXTS: [&str; 7] =
    ["", "plain", "`sudo`", "no file at `/etc/x`", "one\ntwo", "{\"a\":{\"b\":[1,null]}}", "odd ` one"];

pub(in crate::view) fn any_text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(FIELD_TEXTS.to_vec())
}

pub(in crate::view) fn optional_text() -> impl Strategy<Value = Option<UntrustedText>> {
    prop::option::of(any_text().prop_map(UntrustedText::from))
}

fn any_change_source() -> impl Strategy<Value = Option<ChangeSource>> {
    let sure = prop::sample::select(vec![
        AttributionCertainty::Named,
        AttributionCertainty::Near,
        AttributionCertainty::Nobody,
        AttributionCertainty::Unknown,
    ]);
    let culprit = (sure, optional_text(), optional_text(), optional_text(), optional_text(), optional_text()).prop_map(
        |(sure, user, program, command, source, why)| ChangeSource {
            sure,
            user,
            program,
            command,
            time: None,
            source,
            why,
        },
    );
    prop::option::of(culprit)
}

fn any_finding() -> impl Strategy<Value = DriftFinding> {
    let values =
        (optional_text(), optional_text(), prop::option::of(prop::sample::select(vec!["", "@@ -1 +1 @@\n-`a`\n+b\n"])));
    let about = (any_text(), prop::option::of(any_text()), any_change_source());
    let cause = prop::sample::select(DriftCause::ALL.to_vec());
    let aspect = prop::sample::select(vec![FindingAspect::Step, FindingAspect::Undeclared, FindingAspect::Health]);
    (values, about, cause, aspect).prop_map(|((desired, observed, diff), (reason, hint, culprit), cause, aspect)| {
        DriftFinding {
            aspect,
            attribute: Some("groups".into()),
            desired,
            observed,
            diff: diff.map(UntrustedText::from),
            reason: reason.into(),
            hint: hint.map(str::to_owned),
            culprit,
            ..sample::finding("gpu01", "motd", cause, FindingSeverity::Medium)
        }
    })
}

fn any_step() -> impl Strategy<Value = StepPlan> {
    (optional_text(), optional_text(), any_text(), prop::option::of(any_text())).prop_map(|(from, to, reason, hint)| {
        let change = AttributeChange { from, to, ..AttributeChange::new("groups", None, None) };
        StepPlan {
            changes: vec![change],
            hint: hint.map(str::to_owned),
            ..sample::step("user", "user", "alice", StepVerdict::Change, reason)
        }
    })
}

/// Patterns of a sentence with a missing value, reason or name.
const GAP_MARKS: [&str; 14] = [
    ": ,",
    ": ;",
    "observed ,",
    "declared ,",
    ", ,",
    " ()",
    "()",
    ": :",
    ":  (",
    "(, ",
    "→ \n",
    "declared \n",
    "observed \n",
    "hint: \n",
];

#[track_caller]
pub(in crate::view) fn assert_no_gaps(writer: &str, text: &str) {
    let lines = format!("{text}\n");
    let hole = GAP_MARKS.iter().find(|hole| lines.contains(**hole));
    assert_eq!(hole, None, "{writer}:\n{text}");
    for line in text.lines().filter(|line| line.trim_end().ends_with(':')) {
        // A diff follows on separate lines.
        assert!(line.contains("groups:") || !line.starts_with("    "), "{writer}: {line:?} in\n{text}");
    }
}

/// Removes elements whose content is a verbatim value.
fn remove_elements(page: &str, element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let mut parts = page.split(&open);
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once(&close).map_or("", |(_, rest)| rest)).collect::<String>()
}

/// Returns the findings section of a page.
fn findings_section(page: &str) -> &str {
    page.split("<section id=\"findings\">").nth(1).and_then(|rest| rest.split("</section>").next()).unwrap_or_default()
}

fn render_plain(write: impl Fn(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

/// Reports whether a line is `name{label="value",…} number` without empty values. Prometheus ignores empty labels.
fn is_prometheus_sample(line: &str) -> bool {
    let Some((name, rest)) = line.split_once('{') else { return false };
    let Some((labels, value)) = rest.rsplit_once("} ") else { return false };
    let bare = labels.replace("\\\\", "").replace("\\\"", "");
    // The remaining quotes enclose values: every second part is a value.
    let parts: Vec<&str> = bare.split('"').collect();
    let whole = parts.len() % 2 == 1 && parts.iter().skip(1).step_by(2).all(|value| !value.is_empty());
    !name.contains(' ') && value.parse::<f64>().is_ok() && whole
}

/// Checks the recipe label with every text: the file shows no other field of a finding.
fn assert_samples_complete(drift: &DriftReport) {
    let mut drift = drift.clone();
    drift.findings.iter_mut().for_each(|finding| finding.recipe = finding.reason.clone());
    let file = render_drift_report(&drift, write_prometheus);
    for line in file.lines().filter(|line| !line.starts_with("# ")) {
        assert!(is_prometheus_sample(line), "{line:?} in\n{file}");
    }
    let recipes: std::collections::BTreeSet<&str> = drift.findings.iter().map(|finding| finding.recipe.raw()).collect();
    let shown = file.lines().filter(|line| line.starts_with("forge_drift_findings{")).count();
    assert_eq!(shown, recipes.len() * FindingSeverity::WORST_FIRST.len(), "{file}");
}

fn assert_drift_complete(drift: &DriftReport) {
    assert_samples_complete(drift);
    for (name, writer) in [("JUnit", write_junit as super::tests::DriftReportWriter), ("SARIF", write_sarif)] {
        let text = render_drift_report(drift, writer);
        assert!(!text.contains("observed ,") && !text.contains("declared ,") && !text.contains("()"), "{name}: {text}");
    }
    assert_no_gaps(
        "text",
        &render_plain(|out| {
            TextWriter { verbose: 1, target: None, resume: None }.write_drift(drift, ExitCode::Done, out)
        }),
    );
    let page = render_drift_report(drift, write_markdown);
    let outside = text_outside_fences(&page);
    assert_no_gaps("Markdown", &page);
    assert!(!outside.contains('`'), "a backtick outside of code:\n{outside}\nof\n{page}");
    let html = render_drift_report(drift, write_html);
    let shown = findings_section(&html);
    for hole in ["<code></code>", "<p></p>", "<dd></dd>", "observed ,", "declared ,", ": <", "()"] {
        let shown = shown.replace(": <code>", "").replace(": <em>", "");
        assert!(!shown.contains(hole), "{hole} in {shown}");
    }
    let prose = remove_elements(&remove_elements(shown, "code"), "pre");
    assert!(!prose.contains('`'), "a backtick outside of code: {prose}");
    let json = render_plain(|out| JsonWriter::default().write_drift(drift, ExitCode::Done, out));
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["drift"]["findings"].as_array().map(Vec::len), Some(drift.findings.len()));
}

fn assert_plan_complete(plan: &Plan) {
    assert_no_gaps(
        "text",
        &render_plain(|out| {
            TextWriter { verbose: 1, target: None, resume: None }.write_plan(plan, ExitCode::Done, out)
        }),
    );
    let page = render_plain(|out| crate::view::markdown::write_plan(plan, None, &[], out));
    let outside = text_outside_fences(&page);
    assert_no_gaps("Markdown", &page);
    assert!(!outside.contains('`'), "a backtick outside of code:\n{outside}\nof\n{page}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn empty_drift_fields_leave_no_gaps_in_reports(findings in prop::collection::vec(any_finding(), 1..4)) {
        assert_drift_complete(&sample::drift(&["gpu01"], findings));
    }

    #[test]
    fn empty_plan_fields_leave_no_gaps_in_output(steps in prop::collection::vec(any_step(), 1..4)) {
        assert_plan_complete(&sample::plan(vec![sample::observed_host("gpu01", steps)]));
    }
}

/// Each of two sources has one backtick.
#[test]
fn unpaired_backticks_of_two_sources_do_not_become_code() {
    let source = |program: &str| ChangeSource {
        sure: AttributionCertainty::Near,
        user: None,
        program: Some(program.into()),
        command: None,
        time: None,
        source: None,
        why: None,
    };
    let finding = |host: &str, program: &str| DriftFinding {
        culprit: Some(source(program)),
        ..sample::finding(host, "user", DriftCause::MachineChanged, FindingSeverity::Medium)
    };
    let findings = vec![finding("gpu01", "one `"), finding("gpu02", "` two")];
    let html = render_drift_report(&sample::drift(&["gpu01", "gpu02"], findings), write_html);
    let shown = findings_section(&html);
    assert!(shown.contains("one \\x60; at about that time, possibly unrelated: \\x60 two"), "{shown}");
}

/// Sentences with gaps that users reported.
#[test]
fn empty_and_missing_values_are_labelled() {
    let value = |observed: Option<&str>, desired: Option<&str>, diff: Option<&str>| {
        let finding = DriftFinding {
            attribute: Some("groups".into()),
            observed: observed.map(UntrustedText::from),
            desired: desired.map(UntrustedText::from),
            diff: diff.map(UntrustedText::from),
            ..sample::finding("gpu01", "user", DriftCause::MachineChanged, FindingSeverity::Medium)
        };
        let shown = render_plain(|out| {
            TextWriter::default().write_drift(&sample::drift(&["gpu01"], vec![finding.clone()]), ExitCode::Done, out)
        });
        shown.lines().find(|line| line.contains("groups")).unwrap().trim().to_owned()
    };
    assert_eq!(value(Some(""), Some("sudo"), None), "groups: observed (empty), declared sudo");
    assert_eq!(value(None, Some("present"), Some("@@ -0,0 +1 @@\n+x\n")), "groups: observed missing, declared present");
    assert_eq!(value(Some("a"), Some("b"), Some("@@ -1 +1 @@\n-a\n+b\n")), "groups: differs (- observed, + declared)");
}
