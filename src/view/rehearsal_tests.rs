//! A rehearsal in all formats.

use super::{JsonWriter, ResultWriter, TextWriter, markdown, sample};
use crate::model::ExitCode;

fn render(write: impl Fn(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

#[test]
fn rehearsal_as_text_and_markdown() {
    let report = sample::rehearsal_report(&sample::plan(Vec::new()));
    let text = TextWriter { verbose: 0, target: None, resume: None };
    insta::assert_snapshot!(render(|out| text.write_rehearsal(&report, report.exit_code(false), out)));
    let page = render(|out| markdown::write_rehearsal(&report, out));
    assert!(!page.contains('\x1b'), "{page}");
    insta::assert_snapshot!(page);
}

#[test]
fn long_list_of_findings_is_cut_in_text() {
    let mut report = sample::rehearsal_report(&sample::plan(Vec::new()));
    let beyond = &mut report.hosts[0].beyond;
    beyond.packages = std::iter::repeat_n(beyond.packages[0].clone(), 53).collect();
    let text = render(|out| {
        TextWriter { verbose: 0, target: None, resume: None }.write_rehearsal(&report, ExitCode::Done, out)
    });
    assert_eq!(text.matches("    package  `libagent:amd64`").count(), 50, "{text}");
    assert!(text.contains("    package  and 3 more: see `--format json`\n    user     `agent` created\n"), "{text}");
}

#[test]
fn rehearsal_document_keeps_the_report() {
    let report = sample::rehearsal_report(&sample::plan(Vec::new()));
    let text = render(|out| JsonWriter::default().write_rehearsal(&report, ExitCode::HostsFailed, out));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let read: crate::plan::RehearsalReport = serde_json::from_value(document["rehearsal"].clone()).unwrap();
    assert_eq!(read, report);
    assert_eq!(document["summary"]["beyond"], 12);
}
