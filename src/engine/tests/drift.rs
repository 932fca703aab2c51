//! Drift on hosts that were changed without forge, with the reported sources of the changes.

use super::simulated_project::SimulatedProject;
use crate::drift::{
    AttributionCertainty, ChangeSource, DriftCause, DriftFinding, DriftReport, FindingAspect, FindingNovelty,
    FindingSeverity,
};
use crate::engine::{RunReport, VerifyResult};
use crate::model::ExitCode;
use crate::resource::ChangedObject;
use std::collections::BTreeMap;

const BASE: &str = "steps:
  - name: page
    file: { path: '@root/page', content: 'one\\n', mode: '0644', @own }
  - name: other
    file: { path: '@root/other', content: 'x', @own }
verify:
  - { name: readable, check: 'test -r @root/page' }
";

pub(super) fn drift_project() -> SimulatedProject {
    SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", BASE)])
}

/// Returns each finding as its step, attribute and cause.
fn list_findings(drift: &DriftReport) -> Vec<(String, String, DriftCause)> {
    let one = |finding: &DriftFinding| {
        let attribute = finding.attribute.clone().unwrap_or_default();
        (finding.step.raw().to_owned(), attribute, finding.cause)
    };
    drift.findings.iter().map(one).collect()
}

fn expected_finding(step: &str, attribute: &str, cause: DriftCause) -> (String, String, DriftCause) {
    (step.to_owned(), attribute.to_owned(), cause)
}

#[test]
fn applied_state_has_no_drift_and_detection_changes_nothing() {
    let stage = drift_project();
    assert_eq!(stage.run_once().exit_code(), 0);
    let before = stage.list_host_files("n1");
    let drift = stage.detect_drift();
    assert_eq!((list_findings(&drift), drift.exit_code()), (vec![], ExitCode::Done), "{drift:#?}");
    assert_eq!(drift.hosts[0].settled, 3);
    assert_eq!(stage.list_host_files("n1"), before);
}

#[test]
fn never_applied_host_has_findings_of_unknown_cause() {
    let drift = drift_project().detect_drift();
    let expected = [
        expected_finding("page", "exists", DriftCause::Unknown),
        expected_finding("other", "exists", DriftCause::Unknown),
    ];
    assert_eq!((list_findings(&drift), drift.exit_code()), (expected.to_vec(), ExitCode::Changes));
}

/// Tools that sort findings by file do not have to parse titles.
fn has_path_of(found: &DriftFinding, stage: &SimulatedProject, name: &str) -> bool {
    found.path.as_ref().map(|path| path.raw().to_owned()) == Some(stage.host_root("n1").join(name).into_string())
}

#[test]
fn machine_changes_are_reported_per_attribute() {
    let stage = drift_project();
    stage.run_once();
    stage.write_host_file("n1", "page", "two\n");
    let drift = stage.detect_drift();
    let moved = |attribute| expected_finding("page", attribute, DriftCause::MachineChanged);
    assert_eq!(list_findings(&drift), [moved("content"), moved("mode")]);
    let content = &drift.findings[0];
    assert!(content.diff.as_ref().is_some_and(|diff| diff.raw().contains("-two\n+one")), "{content:#?}");
    let last = content.last_applied.as_ref().unwrap();
    assert_eq!((last.value.as_ref(), last.user.raw()), (content.desired.as_ref(), "test"));
    assert_eq!((content.severity, content.place.as_str()), (FindingSeverity::Medium, content.place.as_str()));
    assert!(content.place.contains("recipes/base.yaml:"), "{}", content.place);
    assert!(drift.findings.iter().all(|found| has_path_of(found, &stage, "page")), "{:#?}", drift.findings);
    assert_eq!(stage.run_once().exit_code(), 0);
    assert_eq!(list_findings(&stage.detect_drift()), []);
}

#[test]
fn missing_file_is_a_single_finding() {
    let stage = drift_project();
    stage.run_once();
    std::fs::remove_file(stage.host_root("n1").join("page")).unwrap();
    let drift = stage.detect_drift();
    let expected = [
        expected_finding("page", "exists", DriftCause::MachineChanged),
        expected_finding("readable", "", DriftCause::MachineChanged),
    ];
    assert_eq!(list_findings(&drift), expected);
    assert!(drift.findings[0].observed.is_none() && has_path_of(&drift.findings[0], &stage, "page"));
}

#[test]
fn recipe_changes_are_distinguished_from_machine_changes() {
    let stage = drift_project();
    stage.run_once();
    stage.write_recipe("base", &BASE.replace("one", "three"));
    assert_eq!(list_findings(&stage.detect_drift()), [expected_finding("page", "content", DriftCause::RecipeChanged)]);
    stage.write_host_file("n1", "page", "two\n");
    let expected = [
        expected_finding("page", "content", DriftCause::Both),
        expected_finding("page", "mode", DriftCause::MachineChanged),
    ];
    assert_eq!(list_findings(&stage.detect_drift()), expected);
}

/// Another copy of the inventory was applied since: a plan of this one takes that back.
#[test]
fn declaration_of_an_earlier_run_is_named() {
    let stage = drift_project();
    let warnings = |stage: &SimulatedProject| -> Vec<String> {
        let drift = stage.detect_drift();
        drift.hosts[0].warnings.iter().map(|warning| warning.why.raw().to_owned()).collect()
    };
    stage.run_once();
    stage.write_recipe("base", &BASE.replace("one", "three"));
    assert_eq!(warnings(&stage), <[String; 0]>::default(), "a declaration that no run had");
    stage.run_once();
    stage.write_recipe("base", BASE);
    let says = "takes back what run 20261121T093015-4f2a by test on test declared for `base/page`: the declaration here is \
                that of an earlier run";
    assert_eq!(warnings(&stage), [says]);
    // The step alone that differs; once it is applied, it is the last one.
    stage.run_once();
    assert_eq!(warnings(&stage), <[String; 0]>::default());
    stage.write_recipe("base", &BASE.replace("one", "three"));
    assert_eq!(warnings(&stage), [says]);
}

/// The object that the step declares now was never applied, so the host did not change.
#[test]
fn other_path_of_a_step_is_a_recipe_change() {
    let stage = drift_project();
    stage.run_once();
    stage.write_recipe("base", &BASE.replace("@root/page", "@root/sheet"));
    let former = stage.host_root("n1").join("page").into_string();
    let left = expected_finding("page", &former, DriftCause::NoLongerDeclared);
    let moved = expected_finding("page", "exists", DriftCause::RecipeChanged);
    assert_eq!(list_findings(&stage.detect_drift()), [moved, left]);
}

/// An exported value comes from a host: another value does not show that the recipe changed.
#[test]
fn changed_export_is_not_reported_as_a_recipe_change() {
    let recipe = "steps:
  - name: id
    command: { check: 'test -s @root/id', apply: 'echo 4 >@root/id' }
    export: { v: { read: 'cat @root/id' } }
  - name: page
    file: { path: '@root/page', content: \"id {{ exports.base.v[host.name] }}\\n\", @own }
";
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", recipe)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.write_host_file("n1", "id", "5\n");
    assert_eq!(list_findings(&stage.detect_drift()), [expected_finding("page", "content", DriftCause::Unknown)]);
}

#[test]
fn configured_but_not_effective_step_is_a_drift_finding() {
    let pending = "steps:
  - name: option
    file: { path: '@root/option', content: x, @own }
    effective: { by: [reboot], check: 'test -e @root/in-force' }
";
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", pending)]);
    stage.run_once();
    let drift = stage.detect_drift();
    assert_eq!(
        (list_findings(&drift), drift.exit_code()),
        (vec![expected_finding("option", "", DriftCause::Pending)], ExitCode::Changes)
    );
}

#[test]
fn step_no_longer_declared_is_a_drift_finding() {
    let stage = drift_project();
    stage.run_once();
    stage.replace_apply("");
    let drift = stage.detect_drift();
    let causes: Vec<_> = drift.findings.iter().map(|f| (f.step.raw(), f.aspect, f.cause)).collect();
    let left = |step| (step, FindingAspect::Undeclared, DriftCause::NoLongerDeclared);
    assert_eq!(causes, [left("other"), left("page")]);
    assert!(drift.findings.iter().all(|found| has_path_of(found, &stage, found.step.raw())), "{:#?}", drift.findings);
    // Who follows the hint has one finding less.
    let hint = drift.findings[0].hint.as_deref().unwrap_or_default();
    let record = hint.split('`').nth(1).and_then(|path| path.strip_prefix("/var/lib/forge/")).unwrap_or_default();
    std::fs::remove_file(stage.host_root("n1").join("state").join(record)).unwrap();
    let steps: Vec<_> = stage.detect_drift().findings.iter().map(|found| found.step.raw().to_owned()).collect();
    assert_eq!(steps, ["page"]);
}

#[test]
fn failed_verification_is_a_separate_drift_finding() {
    let recipe = format!("{BASE}  - {{ name: fit, check: 'test ! -e @root/broken' }}\n");
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", &recipe)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.create_host_file("n1", "broken");
    let drift = stage.detect_drift();
    assert_eq!(list_findings(&drift), [expected_finding("fit", "", DriftCause::MachineChanged)]);
    assert_eq!(
        (drift.findings[0].aspect, drift.findings[0].severity),
        (FindingAspect::Verification, FindingSeverity::High)
    );
}

/// Logs are searched for the object of a finding: for a verification, the facts that it reads tell it, not its words.
#[test]
fn verification_is_about_the_kernel_if_it_reads_its_facts() {
    let recipe = format!(
        "{BASE}  - {{ name: release, expect: 'facts.kernel.release == \"0\"' }}\n  \
         - {{ name: spoken, check: 'echo the kernel is wrong >&2; false' }}\n  \
         - {{ name: system, expect: 'facts.os.id == \"kernel\"' }}\n"
    );
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", &recipe)]);
    stage.run_once();
    let drift = stage.detect_drift();
    let objects: Vec<_> = drift.findings.iter().map(|finding| (finding.step.raw(), finding.object.clone())).collect();
    let nameless = |step| (step, ChangedObject::Nameless);
    assert_eq!(objects, [("release", ChangedObject::Kernel), nameless("spoken"), nameless("system")]);
}

/// A failed check's output is reported, so that no shell on the host is needed.
#[test]
fn failed_check_reports_its_command_exit_status_and_output() {
    let check =
        "  - { name: fit, check: 'echo found $(ls @root/broken 2>/dev/null); echo why >&2; test ! -e @root/broken' }\n";
    let stage =
        SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", &format!("{BASE}{check}"))]);
    stage.create_host_file("n1", "broken");
    let ran = stage.run_once();
    let broken = stage.host_root("n1").join("broken");
    let failed = ran.report.hosts[0].verify.iter().find(|verify| verify.name == "fit").unwrap();
    let run = failed.check.as_ref().unwrap();
    assert!(run.command.raw().starts_with("echo found") && run.command.raw().contains(broken.as_str()), "{run:?}");
    assert_eq!((run.status, run.output.raw().to_owned()), (1, format!("found {broken}\nwhy")));
    let held = ran.report.hosts[0].verify.iter().find(|verify| verify.name == "readable").unwrap();
    assert_eq!(held.check, None, "what holds needs no explanation");
}

/// Predictions are not observations: they are reported as a count, and the changed step as the only finding.
#[test]
fn derived_steps_are_not_reported_twice() {
    let recipe = "steps:
  - name: first
    command: { creates: '@root/first', apply: 'touch @root/first' }
  - name: folder
    directory: { path: '@root/first.d', @own }
  - name: inside
    file: { path: '@root/first.d/x', content: x, @own }
";
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", recipe)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    std::fs::remove_dir_all(stage.host_root("n1").join("first.d")).unwrap();
    let drift = stage.detect_drift();
    assert_eq!(list_findings(&drift), [expected_finding("folder", "exists", DriftCause::MachineChanged)]);
    assert_eq!(drift.hosts[0].follow, 1);
}

#[test]
fn unreadable_steps_and_unreachable_hosts_are_not_drift() {
    let recipe = format!("{BASE}  - {{ name: broken, check: 'exit 2' }}\n");
    let stage = SimulatedProject::new(2, "apply:\n  - { recipe: base, on: all }\n", &[("base", &recipe)]);
    stage.create_host_file("n2", ".sim/refuse");
    stage.run_once();
    let drift = stage.detect_drift();
    assert_eq!((list_findings(&drift), drift.exit_code()), (vec![], ExitCode::Unreachable), "{drift:#?}");
    assert_eq!(drift.unknown.len(), 1);
    assert_eq!(drift.unknown[0].step.raw(), "broken");
}

/// No finding contains a secret, whether the machine or the recipe changed.
#[test]
fn drift_findings_contain_no_secrets() {
    let token = "params:
  token: { type: secret }
steps:
  - name: token
    file: { path: '@root/token', content: '{{ params.token }}', mode: '0700', @own }
";
    let apply = "apply:\n  - { recipe: base, on: all, with: { token: { file: token } } }\n";
    let stage = SimulatedProject::new(1, apply, &[("base", token)]);
    stage.write_input_file("token", "hunter2");
    assert_eq!(stage.run_once().exit_code(), 0);
    for cause in [DriftCause::MachineChanged, DriftCause::RecipeChanged] {
        match cause {
            DriftCause::MachineChanged => stage.write_host_file("n1", "token", "swordfish"),
            _ => stage.write_input_file("token", "correct horse"),
        }
        let drift = stage.detect_drift();
        // Rewriting the file in this test also makes it readable for all.
        assert_eq!(
            list_findings(&drift),
            [expected_finding("token", "content", cause), expected_finding("token", "mode", cause)]
        );
        assert!(drift.findings[0].secret);
        let text = serde_json::to_string(&drift).unwrap();
        assert!(!["hunter2", "swordfish", "horse"].iter().any(|secret| text.contains(secret)), "{text}");
    }
}

/// What the check printed names the file, the adapter or the package; a status does not.
#[test]
fn findings_have_the_output_of_the_failed_check() {
    let recipe = "params:
  token: { type: secret }
steps:
  - name: limits
    command:
      check: 'test ! -e @root/bad || { echo \"$TOKEN: @root/bad:1: memlock 64\" >&2; exit 1; }'
      apply: 'true'
      env: { TOKEN: '{{ params.token }}' }
verify:
  - { name: no other line, check: 'test ! -e @root/worse || { echo worse: line 7; exit 1; }' }
";
    let apply = "apply:\n  - { recipe: base, on: all, with: { token: { file: token } } }\n";
    let stage = SimulatedProject::new(1, apply, &[("base", recipe)]);
    stage.write_input_file("token", "hunter2");
    let printed = || {
        let drift = stage.detect_drift();
        let output = |finding: &DriftFinding| finding.check.as_ref().map(|check| check.output.raw().to_owned());
        drift.findings.iter().map(output).collect::<Vec<_>>()
    };
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.write_host_file("n1", "worse", "");
    assert_eq!(printed(), [Some("worse: line 7".to_owned())]);
    stage.write_host_file("n1", "bad", "");
    let found = printed().remove(0).expect("the output of the step's check");
    assert!(found.ends_with("/bad:1: memlock 64") && !found.contains("hunter2"), "{found}");
}

fn list_standings(drift: &DriftReport) -> Vec<(FindingNovelty, u32)> {
    drift.findings.iter().map(|finding| (finding.standing, finding.times)).collect()
}

#[test]
fn known_findings_keep_first_seen_and_are_resolved_once() {
    let stage = drift_project();
    stage.run_once();
    stage.write_host_file("n1", "other", "y");
    std::fs::set_permissions(stage.host_root("n1").join("other"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    assert_eq!(list_standings(&stage.detect_drift()), [(FindingNovelty::New, 1)]);
    let again = stage.detect_drift();
    assert_eq!(list_standings(&again), [(FindingNovelty::Same, 1)]);
    assert!(again.findings[0].first_seen < again.findings[0].last_seen, "{:#?}", again.findings[0]);
    stage.run_once();
    let mended = stage.detect_drift();
    assert_eq!((list_standings(&mended), mended.resolved.len(), mended.exit_code()), (vec![], 1, ExitCode::Done));
    assert_eq!(stage.detect_drift().resolved, []);
}

#[test]
fn drift_detection_continues_without_a_writable_history() {
    let stage = drift_project();
    stage.run_once();
    stage.write_input_file(".forge/test/drift", "a file where the folder should be");
    let drift = stage.detect_drift();
    assert!(drift.no_history.as_deref().is_some_and(|why| why.contains("is not writable")), "{drift:#?}");
    assert_eq!(drift.exit_code(), ExitCode::Done);
}

/// Ignored findings are counted, and are findings again when the rule is removed.
#[test]
fn ignored_findings_are_counted_until_the_rule_expires() {
    let stage = drift_project();
    stage.run_once();
    stage.write_host_file("n1", "page", "two\n");
    stage.write_host_file("n1", "other", "y");
    let root = stage.host_root("n1");
    let ignore = |what: &str, until: &str| {
        let entry = format!("drift: {{ unconfined: true, ignore: [{{ {what}, why: testing, until: {until} }}] }}");
        stage.replace_drift(&entry);
        let drift = stage.detect_drift();
        let steps: std::collections::BTreeSet<String> =
            drift.findings.iter().map(|f| f.step.raw().to_owned()).collect();
        let ignored: Vec<_> = drift.ignored.iter().map(|line| (line.count, line.expired)).collect();
        (steps.into_iter().collect::<Vec<_>>().join(" "), ignored)
    };
    // The clock of these tests begins in 1970.
    let late = "1999-12-31";
    assert_eq!(ignore(&format!("path: {root}/page"), late), ("other".to_owned(), vec![(2, false)]));
    assert_eq!(ignore(&format!("path: {root}/*"), late), (String::new(), vec![(4, false)]));
    assert_eq!(ignore("step: base/other", late), ("page".to_owned(), vec![(2, false)]));
    assert_eq!(ignore("step: base", late), (String::new(), vec![(4, false)]));
    assert_eq!(ignore("step: base/nothing", late), ("other page".to_owned(), vec![]));
    assert_eq!(ignore("step: base", "1969-12-31"), ("other page".to_owned(), vec![(0, true)]));
}

/// A change of the host hides no other one. A verification waits only if the declaration differs from the applied one:
/// then it is about the state after the next apply.
#[test]
fn verification_is_evaluated_unless_its_recipe_changed() {
    let stage = drift_project();
    let list = |drift: &DriftReport| {
        let steps =
            drift.findings.iter().map(|found| (found.step.raw().to_owned(), found.severity)).collect::<Vec<_>>();
        (steps, drift.count_findings().follow)
    };
    let (medium, high) = (FindingSeverity::Medium, FindingSeverity::High);
    let never_applied = (vec![("page".to_owned(), medium), ("other".to_owned(), medium)], 1);
    assert_eq!(list(&stage.detect_drift()), never_applied, "nothing was applied");
    stage.run_once();
    stage.write_host_file("n1", "other", "y");
    let low = list(&stage.detect_drift());
    assert_eq!(low, (vec![("other".to_owned(), medium); 2], 0), "the page is readable");
    std::fs::remove_file(stage.host_root("n1").join("page")).unwrap();
    let (found, follow) = list(&stage.detect_drift());
    assert_eq!((&found[found.len() - 1], follow), (&("readable".to_owned(), high), 0), "{found:?}");
    let results = list_verify_results(&stage.verify_hosts());
    assert!(matches!(results["readable"], VerifyResult::Failed { .. }), "{results:?}");
    stage.write_recipe("base", &BASE.replace("one", "three"));
    let (found, follow) = list(&stage.detect_drift());
    assert!(found.iter().all(|(step, _)| step != "readable") && follow == 1, "{found:?}");
    let results = list_verify_results(&stage.verify_hosts());
    assert!(matches!(results["readable"], VerifyResult::Skipped { .. }), "{results:?}");
}

pub(super) fn list_verify_results(report: &RunReport) -> BTreeMap<String, VerifyResult> {
    report.hosts[0].verify.iter().map(|one| (one.name.clone(), one.result.clone())).collect()
}

/// An ignored difference does not hide a verification of its recipe, even if the recipe changed; any other difference
/// makes it wait then.
#[test]
fn verification_behind_an_ignored_finding_is_evaluated() {
    let stage = drift_project();
    stage.run_once();
    std::fs::remove_file(stage.host_root("n1").join("page")).unwrap();
    stage.write_recipe("base", &BASE.replace("one", "three").replace("'x'", "'z'"));
    let drift = stage.detect_drift();
    assert_eq!((drift.count_findings().findings, drift.count_findings().follow), (2, 1), "{drift:#?}");
    stage.replace_drift("drift: { unconfined: true, ignore: [{ step: base/other, why: testing, until: 1999-12-31 }] }");
    let drift = stage.detect_drift();
    assert_eq!((drift.findings[0].step.raw(), drift.count_findings().follow), ("page", 1), "{drift:#?}");
    let both = "drift: { unconfined: true, ignore: [{ step: base/other, why: testing, until: 1999-12-31 }, \
                { step: base/page, why: testing, until: 1999-12-31 }] }";
    stage.replace_drift(both);
    let drift = stage.detect_drift();
    let found: Vec<_> = drift.findings.iter().map(|found| (found.step.raw(), found.aspect)).collect();
    assert_eq!(
        (found, drift.count_findings().follow),
        (vec![("readable", FindingAspect::Verification)], 0),
        "{drift:#?}"
    );
}

/// A single failed read is neither a finding nor unknown: it is retried once.
#[test]
fn failed_read_is_retried_once() {
    let recipe = |check: &str| format!("{BASE}  - {{ name: flaky, check: '{check}' }}\n");
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", &recipe("true"))]);
    assert_eq!(stage.run_once().exit_code(), 0);
    let stage = SimulatedProject { timeout: Some(std::time::Duration::from_secs(1)), ..stage };
    // The check, and the number of unknown results after the second attempt.
    let table = [
        ("test -e @root/tried || { touch @root/tried; exit 2; }", 0),
        ("test -e @root/hung || { touch @root/hung; sleep 5; }", 0),
        ("exit 2", 1),
        ("sleep 5", 1),
    ];
    for (check, unknown) in table {
        stage.write_recipe("base", &recipe(check));
        let drift = stage.detect_drift();
        let exit = if unknown == 0 { ExitCode::Done } else { ExitCode::Unknown };
        assert_eq!((drift.unknown.len(), drift.findings.len(), drift.exit_code()), (unknown, 0, exit), "{check}");
    }
}

#[test]
fn checks_deeper_than_the_level_are_not_run() {
    let recipe = format!("{BASE}  - {{ name: fast, level: L5, check: 'touch @root/occupied; false' }}\n");
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", BASE)]);
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.write_recipe("base", &recipe);
    let drift = stage.detect_drift();
    assert_eq!((list_findings(&drift), stage.has_file("n1", "occupied")), (vec![], false));
}

fn list_sources(drift: &DriftReport) -> Vec<(AttributionCertainty, String)> {
    let why = |culprit: &ChangeSource| culprit.why.as_ref().map_or("", |why| why.raw()).to_owned();
    drift.findings.iter().filter_map(|finding| finding.culprit.as_ref()).map(|one| (one.sure, why(one))).collect()
}

/// Hosts that match are not probed again, and an unreachable host names no source.
#[test]
fn change_source_is_unknown_if_the_host_does_not_answer() {
    let stage = SimulatedProject::new(2, "apply:\n  - { recipe: base, on: all }\n", &[("base", BASE)]);
    stage.run_once();
    stage.write_host_file("n1", "page", "two\n");
    let faults = |fault: &'static str| {
        let drift = stage.detect_attributed_drift(|| {
            ["n1", "n2"].iter().for_each(|host| stage.create_host_file(host, &format!(".sim/{fault}")))
        });
        ["n1", "n2"]
            .iter()
            .for_each(|host| std::fs::remove_file(stage.host_root(host).join(".sim").join(fault)).unwrap());
        drift
    };
    for fault in ["refuse", "deaf"] {
        let drift = faults(fault);
        let told = list_sources(&drift);
        assert_eq!(drift.findings.len(), 2, "{drift:#?}");
        assert!(
            told.len() == 2 && told.iter().all(|(sure, why)| *sure == AttributionCertainty::Unknown && !why.is_empty()),
            "{told:?}"
        );
        assert!(drift.findings.iter().all(|finding| finding.host.as_str() == "n1"));
    }
    assert_eq!(list_sources(&stage.detect_drift()), []);
}

/// A change of the declaration has no author on the host.
#[test]
fn recipe_change_has_no_change_source() {
    let stage = drift_project();
    stage.run_once();
    stage.write_recipe("base", &BASE.replace("one", "three"));
    let drift = stage.detect_attributed_drift(|| stage.create_host_file("n1", ".sim/refuse"));
    assert_eq!((drift.findings.len(), list_sources(&drift)), (1, vec![]));
}

/// A test of each host that rests on the kernel and a package.
const DISK: &str = "test: disk
scope: host
output: number
command: [cat, /opt/speed]
rests_on: [kernel, 'package:forge-no-such-package']
";

/// Tests of two hosts: one must be passed, and the other need not.
const PROVEN: &str = "tests:
  quick:
    - { test: disk, on: all, least: 2, required: true }
  slow:
    - { test: disk, on: all, least: 1 }
apply: []
";

/// Returns each due set with its host, as drift reports it.
fn list_due_sets(drift: &DriftReport) -> Vec<String> {
    let due = drift.findings.iter().filter(|finding| finding.aspect == FindingAspect::Proof);
    due.map(|finding| format!("{} {}: {}", finding.host, finding.title.raw(), finding.reason.raw())).collect()
}

#[test]
fn result_that_no_longer_holds_is_drift() {
    let stage = SimulatedProject::new(2, PROVEN, &[]);
    stage.write_input_file("tests/disk.yaml", DISK);
    let untested = stage.detect_drift();
    assert_eq!(list_due_sets(&untested), ["n1 tests `quick`: not tested yet", "n2 tests `quick`: not tested yet"]);
    assert_eq!((untested.findings[0].cause, untested.exit_code()), (DriftCause::TestDue, ExitCode::Changes));
    assert_eq!(untested.findings[0].hint.as_deref(), Some("run `forge test --set quick`"));

    let project = stage.load_project();
    let digest = |set: &str| project.tests.sets[set][0].digest_declaration();
    let release = rustix::system::uname().release().to_str().unwrap().to_owned();
    let write = |host: &str, kernel: &str, digests: [String; 2]| {
        let end = |digest: String| {
            let basis = serde_json::json!({"kernel": {"kernel": kernel}, "packages": {"package forge-no-such-package": "none"}});
            serde_json::json!({"passed": {"run": "r", "time": "2026-11-20T08:00:00Z", "declaration": digest, "basis": basis}})
        };
        let [quick, slow] = digests.map(end);
        let tests = serde_json::json!({"quick/disk": quick, "slow/disk": slow});
        let text = serde_json::json!({"version": 1, "cluster": "test", "tests": tests}).to_string();
        stage.write_host_file(host, "state/applied/test@@proofs.json", &text);
    };
    write("n1", &release, [digest("quick"), digest("slow")]);
    write("n2", "5.15.0-130-generic", [digest("quick"), digest("slow")]);
    let moved = stage.detect_drift();
    let reason = format!("kernel 5.15.0-130-generic -> {release} since the test of 2026-11-20");
    assert_eq!(
        list_due_sets(&moved),
        [format!("n2 tests `quick`: {reason}"), format!("n2 tests `slow`: {reason}")],
        "a test that passed once is due, even if it is not required"
    );
    assert_eq!(moved.findings[0].severity, FindingSeverity::Medium);

    // Another limit is another test.
    write("n2", &release, [digest("quick"), digest("quick")]);
    let other = stage.detect_drift();
    assert_eq!(list_due_sets(&other), ["n2 tests `slow`: declared differently since the test of 2026-11-20"]);

    // What cannot be read is neither proven nor due.
    stage.write_host_file("n2", "state/applied/test@@proofs.json", "{");
    let unread = stage.detect_drift();
    assert_eq!((list_due_sets(&unread), unread.unknown.len()), (Vec::new(), 2), "{unread:#?}");
    assert!(unread.unknown[0].reason.raw().starts_with("the proofs cannot be read: EOF"), "{:#?}", unread.unknown);
    assert_eq!(unread.exit_code(), ExitCode::Unknown);
}
