//! What drift finds on hosts that were changed behind forge's back, and whom it says to have moved.

use super::stage::Stage;
use crate::drift::{Aspect, Cause, Drift, Finding, Severity};
use crate::model::ExitCode;

const BASE: &str = "steps:
  - name: page
    file: { path: '@root/page', content: 'one\\n', mode: '0644', @own }
  - name: other
    file: { path: '@root/other', content: 'x', @own }
verify:
  - { name: readable, check: 'test -r @root/page' }
";

fn stage() -> Stage {
    Stage::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", BASE)])
}

/// Returns each finding as its step, attribute and cause.
fn told(drift: &Drift) -> Vec<(String, String, Cause)> {
    let one = |finding: &Finding| {
        let attribute = finding.attribute.clone().unwrap_or_default();
        (finding.step.raw().to_owned(), attribute, finding.cause)
    };
    drift.findings.iter().map(one).collect()
}

fn found(step: &str, attribute: &str, cause: Cause) -> (String, String, Cause) {
    (step.to_owned(), attribute.to_owned(), cause)
}

#[test]
fn what_was_applied_is_no_drift_and_the_host_is_as_it_was() {
    let stage = stage();
    assert_eq!(stage.run().code(), 0);
    let before = stage.snapshot("n1");
    let drift = stage.drift();
    assert_eq!((told(&drift), drift.exit_code()), (vec![], ExitCode::Done), "{drift:#?}");
    assert_eq!(drift.hosts[0].settled, 3);
    assert_eq!(stage.snapshot("n1"), before);
}

#[test]
fn a_host_that_forge_never_applied_to_has_causes_that_nobody_knows() {
    let drift = stage().drift();
    let expected = [found("page", "exists", Cause::Unknown), found("other", "exists", Cause::Unknown)];
    assert_eq!((told(&drift), drift.exit_code()), (expected.to_vec(), ExitCode::Changes));
}

#[test]
fn a_machine_that_was_changed_is_told_by_attribute() {
    let stage = stage();
    stage.run();
    stage.write("n1", "page", "two\n");
    let drift = stage.drift();
    let moved = |attribute| found("page", attribute, Cause::MachineChanged);
    assert_eq!(told(&drift), [moved("content"), moved("mode")]);
    let content = &drift.findings[0];
    assert!(content.diff.as_ref().is_some_and(|diff| diff.raw().contains("-two\n+one")), "{content:#?}");
    let last = content.last_applied.as_ref().unwrap();
    assert_eq!((last.value.as_ref(), last.user.raw()), (content.desired.as_ref(), "test"));
    assert_eq!((content.severity, content.place.as_str()), (Severity::Medium, content.place.as_str()));
    assert!(content.place.contains("recipes/base.yaml:"), "{}", content.place);
    assert_eq!(stage.run().code(), 0);
    assert_eq!(told(&stage.drift()), []);
}

#[test]
fn what_is_missing_as_a_whole_is_one_finding() {
    let stage = stage();
    stage.run();
    std::fs::remove_file(stage.root("n1").join("page")).unwrap();
    let drift = stage.drift();
    assert_eq!(told(&drift), [found("page", "exists", Cause::MachineChanged)]);
    assert!(drift.findings[0].observed.is_none());
}

#[test]
fn a_recipe_that_was_changed_is_told_from_a_machine_that_was() {
    let stage = stage();
    stage.run();
    stage.recipe("base", &BASE.replace("one", "three"));
    assert_eq!(told(&stage.drift()), [found("page", "content", Cause::RecipeChanged)]);
    stage.write("n1", "page", "two\n");
    let expected = [found("page", "content", Cause::Both), found("page", "mode", Cause::MachineChanged)];
    assert_eq!(told(&stage.drift()), expected);
}

#[test]
fn what_is_configured_and_not_effective_is_a_finding() {
    let pending = "steps:
  - name: option
    file: { path: '@root/option', content: x, @own }
    effective: { by: [reboot], check: 'test -e @root/in-force' }
";
    let stage = Stage::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", pending)]);
    stage.run();
    let drift = stage.drift();
    assert_eq!((told(&drift), drift.exit_code()), (vec![found("option", "", Cause::Pending)], ExitCode::Changes));
}

#[test]
fn what_is_declared_no_more_is_a_finding() {
    let stage = stage();
    stage.run();
    stage.declare("");
    let drift = stage.drift();
    let causes: Vec<_> = drift.findings.iter().map(|f| (f.step.raw(), f.aspect, f.cause)).collect();
    let left = |step| (step, Aspect::Undeclared, Cause::NoLongerDeclared);
    assert_eq!(causes, [left("other"), left("page")]);
}

#[test]
fn a_verification_that_does_not_hold_is_a_finding_by_itself() {
    let recipe = format!("{BASE}  - {{ name: fit, check: 'test ! -e @root/broken' }}\n");
    let stage = Stage::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", &recipe)]);
    assert_eq!(stage.run().code(), 0);
    stage.put("n1", "broken");
    let drift = stage.drift();
    assert_eq!(told(&drift), [found("fit", "", Cause::MachineChanged)]);
    assert_eq!((drift.findings[0].aspect, drift.findings[0].severity), (Aspect::Verification, Severity::High));
}

/// What a plan predicts is no observation: it is told as a count, and the step that moved is told alone.
#[test]
fn what_follows_from_a_finding_is_none_of_its_own() {
    let recipe = "steps:
  - name: first
    command: { creates: '@root/first', apply: 'touch @root/first' }
  - name: folder
    directory: { path: '@root/first.d', @own }
  - name: inside
    file: { path: '@root/first.d/x', content: x, @own }
";
    let stage = Stage::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", recipe)]);
    assert_eq!(stage.run().code(), 0);
    std::fs::remove_dir_all(stage.root("n1").join("first.d")).unwrap();
    let drift = stage.drift();
    assert_eq!(told(&drift), [found("folder", "exists", Cause::MachineChanged)]);
    assert_eq!(drift.hosts[0].follow, 1);
}

#[test]
fn what_cannot_be_read_is_unknown_and_a_host_that_is_silent_is_no_drift() {
    let recipe = format!("{BASE}  - {{ name: broken, check: 'exit 7' }}\n");
    let stage = Stage::new(2, "apply:\n  - { recipe: base, on: all }\n", &[("base", &recipe)]);
    stage.put("n2", ".sim/refuse");
    stage.run();
    let drift = stage.drift();
    assert_eq!((told(&drift), drift.exit_code()), (vec![], ExitCode::Unreachable), "{drift:#?}");
    assert_eq!(drift.unknown.len(), 1);
    assert_eq!(drift.unknown[0].step.raw(), "broken");
}

/// A secret stands in no finding, whether the machine or the recipe moved.
#[test]
fn secrets_are_not_told() {
    let token = "params:
  token: { type: secret }
steps:
  - name: token
    file: { path: '@root/token', content: '{{ params.token }}', mode: '0755', @own }
";
    let apply = "apply:\n  - { recipe: base, on: all, with: { token: { file: token } } }\n";
    let stage = Stage::new(1, apply, &[("base", token)]);
    stage.lay("token", "hunter2");
    assert_eq!(stage.run().code(), 0);
    for cause in [Cause::MachineChanged, Cause::RecipeChanged] {
        match cause {
            Cause::MachineChanged => stage.write("n1", "token", "swordfish"),
            _ => stage.lay("token", "correct horse"),
        }
        let drift = stage.drift();
        assert_eq!(told(&drift), [found("token", "content", cause)]);
        assert!(drift.findings[0].secret);
        let text = serde_json::to_string(&drift).unwrap();
        assert!(!["hunter2", "swordfish", "horse"].iter().any(|secret| text.contains(secret)), "{text}");
    }
}
