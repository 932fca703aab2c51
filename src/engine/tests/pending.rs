//! Steps that are configured but not effective yet, and the other results next to them.

use super::simulated_project::SimulatedProject;
use crate::engine::VerifyResult;
use crate::model::{HostOutcome, StepVerdict};

const BASE: &str = "steps:
  - name: option
    file: { path: '@root/option', content: x, @own }
    effective: { by: [reboot], check: 'test -e @root/in-force' }
verify:
  - { name: written, check: 'test -e @root/option' }
  - { name: in force, check: 'test -e @root/in-force' }
";

fn list_verify_results(report: &crate::engine::RunReport) -> Vec<(String, VerifyResult)> {
    report.hosts[0].verify.iter().map(|verify| (verify.name.clone(), verify.result.clone())).collect()
}

/// No step changes what people declare.
#[test]
fn verification_of_other_hosts_does_not_wait_for_a_step() {
    let recipe = "steps:
  - { name: page, file: { path: '@root/page', content: x, @own } }
verify:
  - { name: elsewhere, when: \"host.name == 'n2'\", check: 'false' }
  - { name: later, when: facts.os.id == 'none', check: 'false' }
";
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", recipe)]);
    let plan = stage.run_once().plan;
    let verdicts: Vec<StepVerdict> = plan.hosts[0].verify.iter().map(|verify| verify.verdict).collect();
    assert_eq!(verdicts, [StepVerdict::NotApplicable, StepVerdict::Pending]);
}

/// A pending step does not affect a verification that passes; one that fails may pass later.
#[test]
fn pending_step_postpones_only_failing_verifications() {
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", BASE)]);
    let waits = || VerifyResult::Skipped { reason: "the check exited 1; `base/option` is pending".into() };
    for turn in ["changed now", "found so"] {
        let ran = stage.run_once();
        assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Pending, 10), "{turn}");
        assert_eq!(ran.report.hosts[0].steps[0].has_changed_host(), turn == "changed now", "{turn}");
        let held = ("written".to_owned(), VerifyResult::Held);
        assert_eq!(list_verify_results(&ran.report), [held, ("in force".to_owned(), waits())], "{turn}");
    }
    stage.create_host_file("n1", "in-force");
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Ok, 0));
}
