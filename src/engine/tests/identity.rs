//! Hosts whose identity differs from the inventory.

use super::simulated_project::SimulatedProject;
use crate::model::HostOutcome;

const APPLY: &str = "apply:\n  - { recipe: r, on: all }\n";
const RECIPE: &str = "steps:\n  - name: make\n    file: { path: '@root/made', content: x, @own }\n";

fn set_identity(stage: &SimulatedProject, host: &str, machine: &str, hostname: &str) {
    std::fs::write(stage.host_root(host).join(".sim/machine-id"), format!("{machine}\n")).unwrap();
    std::fs::write(stage.host_root(host).join(".sim/hostname"), format!("{hostname}\n")).unwrap();
}

#[test]
fn hosts_that_share_one_machine_are_blocked() {
    let stage = SimulatedProject::new(3, APPLY, &[("r", RECIPE)]);
    set_identity(&stage, "n1", "aa", "box");
    set_identity(&stage, "n2", "bb", "other");
    set_identity(&stage, "n3", "aa", "box");
    let ran = stage.run_once();
    assert_eq!(
        ["n1", "n2", "n3"].map(|host| ran.host_outcome(host)),
        [HostOutcome::Blocked, HostOutcome::Changed, HostOutcome::Blocked]
    );
    assert!(ran.describe_step("n1", "r/make").contains("is the same machine as `n3`: machine id aa, boot "));
    assert_eq!(["n1", "n2", "n3"].map(|host| stage.has_file(host, "made")), [false, true, false]);
    assert!(!stage.has_file("n1", "state"), "not even a record");
    assert_eq!(ran.exit_code(), 3);
}

#[test]
fn hostname_of_another_host_is_only_a_warning() {
    let stage = SimulatedProject::new(2, APPLY, &[("r", RECIPE)]);
    set_identity(&stage, "n1", "aa", "n2");
    set_identity(&stage, "n2", "bb", "of-its-own");
    let ran = stage.run_once();
    let warned: Vec<usize> = ran.plan.hosts.iter().map(|host| host.warnings.len()).collect();
    assert_eq!((warned, ran.exit_code()), (vec![1, 0], 0));
}
