//! The structure of JSON documents, and that they parse to the original text.

use super::*;
use crate::diag::{Diag, DiagCode, DiagList, FileId, SourceMap, Span};
use crate::view::escape::{self, tests::HOSTILE};
use crate::view::{CheckedInventory, sample};

fn render_json(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> (String, Value) {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    (text, value)
}

#[test]
fn plan_json_has_counts_and_exit_code() {
    let plan = sample::rich_plan();
    let (_, value) = render_json(|out| JsonWriter::default().write_plan(&plan, ExitCode::Changes, out));
    let keys: Vec<_> = value.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["version", "result", "forge", "exit", "counts", "plan"]);
    assert_eq!(value["result"], "plan");
    assert_eq!(value["exit"], serde_json::json!({"code": 2, "name": "changes"}));
    assert_eq!(value["counts"]["change"], 45);
    assert_eq!(value["plan"]["hosts"][0]["host"], "gpu02");
}

#[test]
fn plan_json_round_trips() {
    let plan = sample::rich_plan();
    let (_, value) = render_json(|out| JsonWriter::default().write_plan(&plan, ExitCode::Done, out));
    assert_eq!(serde_json::from_value::<Plan>(value["plan"].clone()).unwrap(), plan);
}

#[test]
fn report_json_lists_each_step() {
    let report = sample::rich_report();
    let (_, value) = render_json(|out| JsonWriter::default().write_report(&report, report.exit_code(), out));
    assert_eq!(value["exit"]["code"], 3);
    let step = &value["report"]["hosts"][1]["steps"][1];
    assert_eq!(step["result"], "failed");
    assert_eq!(step["failure"]["why"], "exit status 100");
}

#[test]
fn report_json_says_why_the_run_has_no_history() {
    let report = sample::rich_report();
    let why = crate::model::UntrustedText::from("state folder `/s` is not writable: No space left on device");
    let write =
        |why| render_json(|out| JsonWriter::default().write_apply_report(&report, why, report.exit_code(), out)).1;
    assert_eq!(write(Some(&why))["no_history"], why.raw());
    assert!(write(None).get("no_history").is_none());
}

#[test]
fn refused_undo_json_lists_each_change() {
    let refused = [crate::engine::UndoRefusal {
        host: sample::host("a"),
        step: Some(crate::model::StepId::new("r", "dir")),
        why: "the step is gone".to_owned(),
    }];
    let list = UndoRefusalList { run: "20261121T093015-4f2a", refused: &refused };
    let (_, value) = render_json(|out| JsonWriter::default().write_undo_refusal(&list, ExitCode::HostsFailed, out));
    assert_eq!(value["result"], "undo_refusal");
    assert_eq!(value["exit"]["code"], 3);
    let change = serde_json::json!({"host": "a", "step": {"recipe": "r", "step": "dir"}, "why": "the step is gone"});
    assert_eq!(value["refusal"], serde_json::json!({"run": "20261121T093015-4f2a", "changes": [change]}));
}

#[test]
fn facts_json_has_a_value_or_a_reason() {
    let mut seen = ObservedHost::from_observation(&sample::host("a"), Default::default(), 1);
    seen.facts.0.insert("kernel", Ok("6.1".into()));
    seen.facts.0.insert("gpus", Err(crate::probe::UnansweredReason::new("timed out after 10 s")));
    let (_, value) =
        render_json(|out| JsonWriter::default().write_facts(std::slice::from_ref(&seen), ExitCode::Unknown, out));
    let expected = serde_json::json!({
        "gpus": {"unknown": {"why": "timed out after 10 s", "said": null}},
        "kernel": {"value": "6.1"},
    });
    assert_eq!(value["facts"][0]["facts"], expected);
    assert_eq!(value["facts"][0]["reach"], "observed");
}

#[test]
fn diagnostics_have_file_line_and_column() {
    let mut sources = SourceMap::default();
    sources.add_file("inventory.yaml", "hosts:\n  ä: {}\n  a: {}\n");
    let span = |start, end| Span { file: FileId(0), start, end };
    let diag = Diag::error(DiagCode::Duplicate, "host `a` is named twice")
        .with_span(span(18, 19))
        .label("again")
        .with_other_span(span(9, 11), "first")
        .hint("rename one");
    let checked = CheckedInventory { path: "inventory.yaml".into(), diags: DiagList(vec![diag]), sources, size: None };
    let validation = ValidationResult { inventories: vec![checked] };
    let (_, value) = render_json(|out| JsonWriter::default().write_validation(&validation, ExitCode::Input, out));
    let expected = serde_json::json!({
        "path": "inventory.yaml",
        "valid": false,
        "diagnostics": [{
            "code": "F0103",
            "severity": "error",
            "message": "host `a` is named twice",
            "place": {"file": "inventory.yaml", "line": 3, "column": 3, "label": "again"},
            "others": [{"file": "inventory.yaml", "line": 2, "column": 3, "label": "first"}],
            "notes": [],
            "hint": "rename one",
        }],
    });
    assert_eq!(value["inventories"][0], expected);
}

#[test]
fn hostile_text_is_escaped_and_parses_back_unchanged() {
    for (raw, _) in HOSTILE {
        let plan = sample::hostile_plan(raw);
        let (text, value) = render_json(|out| JsonWriter::default().write_plan(&plan, ExitCode::Done, out));
        assert!(!text.chars().any(escape::is_hidden_char), "{raw:?} came through in {text}");
        let shown = crate::model::SecretStore::mask_placeholders(raw);
        assert_eq!(value["plan"]["hosts"][0]["steps"][0]["reason"], shown.as_str());
        let report = sample::hostile_report(raw);
        let (text, _) = render_json(|out| JsonWriter::default().write_report(&report, ExitCode::Done, out));
        assert!(!text.chars().any(escape::is_hidden_char), "{raw:?} came through in {text}");
    }
}

#[test]
fn drift_json_round_trips() {
    let drift = sample::rich_drift();
    let (_, value) = render_json(|out| JsonWriter::default().write_drift(&drift, drift.exit_code(), out));
    assert_eq!(value["exit"]["code"], 4);
    assert_eq!(value["counts"]["by_cause"]["machine-changed"], 5);
    assert_eq!(serde_json::from_value::<DriftReport>(value["drift"].clone()).unwrap(), drift);
}

#[test]
fn drift_messages_begin_with_the_version_and_end_with_the_exit_code() {
    for (raw, _) in HOSTILE {
        let mut drift = sample::rich_drift();
        drift.findings[0].observed = Some((*raw).into());
        let mut out = Vec::new();
        JsonWriter::default().write_drift_messages(&drift, drift.exit_code(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.chars().any(escape::is_hidden_char), "{text:?}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |kind: &str| lines.iter().filter(|line| line["message"] == kind).count();
        assert_eq!((&lines[0]["message"], &lines[0]["version"]), (&"version".into(), &1.into()));
        assert_eq!((of("host"), of("finding"), of("unknown")), (4, drift.findings.len(), 1));
        assert_eq!(lines[5]["observed"], crate::model::SecretStore::mask_placeholders(raw));
        let last = lines.last().unwrap();
        assert_eq!((&last["message"], &last["exit"]["code"]), (&"end".into(), &4.into()));
    }
}
