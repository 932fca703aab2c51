//! What a drift check leaves undecided: verifications that wait, and hosts whose records cannot be read.

use super::drift::{drift_project, list_verify_results};
use super::simulated_project::SimulatedProject;
use crate::drift::DriftReport;
use crate::engine::{StepResult, VerifyResult};
use crate::model::ExitCode;
use crate::plan::CheckRun;
use std::os::unix::ffi::OsStrExt;

fn list_findings(drift: &DriftReport) -> Vec<&str> {
    drift.findings.iter().map(|found| found.step.raw()).collect()
}

const SITE: &str = "params:
  text: { type: text, default: one }
steps:
  - name: page
    file: { path: '@root/page', content: '{{ params.text }}', mode: '0644', @own }
";

const READER: &str = "steps:
  - name: note
    file: { path: '@root/note', content: 'n', mode: '0644', @own }
verify:
  - { name: page is the site's, check: 'grep -qx {{ recipes.site.text | quote }} @root/page' }
";

/// A verification that reads another recipe waits for a change of that one's declaration, although its own recipe
/// matches.
#[test]
fn verification_waits_for_the_recipes_that_it_reads() {
    let entries = |text: &str| {
        format!(
            "apply:\n  - {{ recipe: site, on: all, with: {{ text: {text} }} }}\n  - {{ recipe: reader, on: all }}\n"
        )
    };
    let stage = SimulatedProject::new(1, &entries("one"), &[("site", SITE), ("reader", READER)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    let name = "page is the site's";
    stage.write_host_file("n1", "page", "by hand");
    let results = list_verify_results(&stage.verify_hosts());
    assert!(matches!(results[name], VerifyResult::Failed { .. }), "the host changed: {results:?}");
    let drift = stage.detect_drift();
    assert!(list_findings(&drift).contains(&name), "{:?}", list_findings(&drift));
    stage.write_host_file("n1", "page", "one");
    stage.replace_apply(&entries("two"));
    let results = list_verify_results(&stage.verify_hosts());
    assert!(matches!(results[name], VerifyResult::Skipped { .. }), "the declaration changed: {results:?}");
    let drift = stage.detect_drift();
    assert!(!list_findings(&drift).contains(&name), "{:?}", list_findings(&drift));
    assert_eq!(drift.count_findings().follow, 1);
    // An ignored difference of that recipe hides nothing.
    stage.replace_drift("drift: { unconfined: true, ignore: [{ step: site/page, why: testing, until: 1999-12-31 }] }");
    assert_eq!(list_findings(&stage.detect_drift()), [name]);
    let done = stage.run_once();
    assert_eq!(done.exit_code(), 0, "{:#?}", done.report);
}

const LIMIT: &str = "steps:
  - name: limit
    file: { path: '@root/limit', content: 'l', mode: '0644', @own }
    effective: { by: [restart], check: 'echo process 812 has the old limit >&2; exit 1' }
";

#[test]
fn failed_check_of_a_pending_step_is_shown() {
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: limit, on: all }\n", &[("limit", LIMIT)]);
    let printed = |check: Option<&CheckRun>| check.map(|check| (check.status, check.output.raw().to_owned()));
    let expected = Some((1, "process 812 has the old limit".to_owned()));
    for run in 0..2 {
        let done = stage.run_once();
        let step = &done.report.hosts[0].steps[0];
        assert!(matches!(step.result, StepResult::Pending { .. }), "{step:?}");
        assert_eq!(printed(step.check.as_deref()), expected, "run {run}");
        assert!(step.hint.as_deref().is_some_and(|hint| hint.starts_with("restart the service")), "{step:?}");
        let planned = printed(done.plan.hosts[0].steps[0].check.as_deref());
        assert_eq!(planned, expected.clone().filter(|_| run == 1), "the first plan changes the file");
    }
    assert_eq!(printed(stage.detect_drift().findings[0].check.as_deref()), expected);
}

/// What is left of former declarations, and whether the host is on hold, is unknown then.
#[test]
fn host_whose_records_cannot_be_read_is_unknown_unless_that_is_ignored() {
    let stage = drift_project();
    stage.run_once();
    // Names of records are UTF-8.
    let odd = std::ffi::OsStr::from_bytes(b"state/applied/\xff.json");
    std::fs::write(stage.host_root("n1").as_std_path().join(odd), "{}").unwrap();
    let drift = stage.detect_drift();
    let unknown: Vec<String> =
        drift.unknown.iter().map(|item| format!("{}/{}", item.recipe.raw(), item.step.raw())).collect();
    assert_eq!((unknown, drift.exit_code()), (vec!["records/host".to_owned()], ExitCode::Unknown), "{drift:#?}");
    stage.replace_drift(
        "drift: { unconfined: true, ignore: [{ step: records/host, why: testing, until: 1999-12-31 }] }",
    );
    let drift = stage.detect_drift();
    assert_eq!((drift.unknown.len(), drift.exit_code()), (0, ExitCode::Done), "{drift:#?}");
    assert_eq!(drift.ignored.iter().map(|line| line.count).collect::<Vec<_>>(), [1]);
}
