//! The final proof of a host: which checks run again for it.

use super::simulated_project::SimulatedProject;
use crate::model::HostOutcome;

/// A check that a recipe declares may take long. The one that proved the last change proves the host too; one that ran
/// before another action runs again.
#[test]
fn check_runs_again_for_the_final_proof_only_if_something_acted_since() {
    let check = "check: 'echo x >>@root/ran; test -e @root/marker'";
    let marker = format!("  - name: marker\n    command: {{ {check}, apply: 'touch @root/marker' }}\n");
    let file = "  - name: file\n    file: { path: '@root/file', content: a, @own }\n";
    let count = |steps: &str| {
        let project =
            SimulatedProject::new(1, "apply:\n  - { recipe: r, on: all }\n", &[("r", &format!("steps:\n{steps}"))]);
        let run = project.run_once();
        assert!(run.report.hosts.iter().all(|host| host.outcome == HostOutcome::Changed));
        project.read_file("n1", "ran").lines().count()
    };
    // The plan, before the action, and after it.
    assert_eq!(count(&marker), 3);
    assert_eq!(count(&format!("{file}{marker}")), 3);
    // The file is written after the check.
    assert_eq!(count(&format!("{marker}{file}")), 4);
}
