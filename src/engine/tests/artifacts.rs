//! Artifacts on simulated hosts: sending, resuming, and reporting those that are not available.

use super::simulated_project::{SimulatedProject, SimulatedRun};
use crate::model::{HostOutcome, StepVerdict};
use sha2::Digest;

const ALL: &str = "apply:\n  - { recipe: r, on: all }\n";
const BODY: &str = "the body of a driver";

fn hex_digest(text: &str) -> String {
    sha2::Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn artifact_project(hosts: usize) -> SimulatedProject {
    let steps = format!(
        "steps:\n  - {{ name: x, artifact: {{ path: '@root/x', file: files/x, sha256: {}, @own }} }}\n",
        hex_digest(BODY)
    );
    let stage = SimulatedProject::new(hosts, ALL, &[("r", &steps)]);
    stage.write_input_file("recipes/files/x", BODY);
    stage
}

#[test]
fn sent_artifact_matches_on_the_next_run() {
    let stage = artifact_project(2);
    let ran = stage.run_once();
    assert_eq!(
        (ran.describe_step("n1", "r/x").as_str(), ran.exit_code()),
        ("changed", 0),
        "{}",
        ran.host_message("n1")
    );
    assert_eq!((stage.read_file("n1", "x"), stage.read_file("n2", "x")), (BODY.to_owned(), BODY.to_owned()));
    assert_eq!(stage.run_once().host_outcome("n1"), HostOutcome::Ok);
}

/// Only these artifacts are fetched before the first host is changed.
#[test]
fn plan_names_the_steps_that_install_an_artifact() {
    let steps = format!(
        "steps:\n  - {{ name: x, artifact: {{ path: '@root/x', file: files/x, sha256: {}, @own }} }}\n  \
         - {{ name: y, file: {{ path: '@root/y', content: y, @own }} }}\n",
        hex_digest(BODY)
    );
    let stage = SimulatedProject::new(1, ALL, &[("r", &steps)]);
    stage.write_input_file("recipes/files/x", BODY);
    let planned = |ran: &SimulatedRun| -> Vec<(String, StepVerdict, bool)> {
        let steps = ran.plan.hosts[0].steps.iter();
        steps.map(|step| (step.id.step.to_string(), step.verdict, step.installs_artifact)).collect()
    };
    let [x, y] = ["x".to_owned(), "y".to_owned()];
    let first = planned(&stage.run_once());
    assert_eq!(first, [(x.clone(), StepVerdict::Change, true), (y.clone(), StepVerdict::Change, false)]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(stage.host_root("n1").join("x"), mode).unwrap();
    let second = planned(&stage.run_once());
    assert_eq!(second, [(x, StepVerdict::Change, false), (y, StepVerdict::Ok, false)], "only the mode differs");
}

#[test]
fn interrupted_artifact_transfer_is_resumed() {
    let stage = artifact_project(2);
    let part = format!(".x.forge-{}.part", &hex_digest(BODY)[..16]);
    for (host, came) in [("n1", &BODY[..8]), ("n2", "of another")] {
        std::fs::create_dir(stage.host_root(host).join(&part)).unwrap();
        std::fs::write(stage.host_root(host).join(&part).join("x"), came).unwrap();
    }
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{}", ran.host_message("n1"));
    assert_eq!((stage.read_file("n1", "x"), stage.read_file("n2", "x")), (BODY.to_owned(), BODY.to_owned()));
    assert_eq!(stage.read_file("n1", ".sim/behind"), BODY[8..], "only the rest was sent");
    assert_eq!(stage.read_file("n2", ".sim/behind"), BODY);
    assert!(!stage.has_file("n1", &part));
}

#[test]
fn artifact_with_a_wrong_checksum_is_not_sent() {
    let stage = artifact_project(1);
    stage.write_input_file("recipes/files/x", "another body");
    let ran = stage.run_once();
    let (found, declared) = (hex_digest("another body"), hex_digest(BODY));
    let told = ran.describe_step("n1", "r/x");
    assert!(told.ends_with(&format!("has the sha256 {found}, declared is {declared}")), "{told}");
    assert_eq!((ran.exit_code(), ran.host_outcome("n1")), (69, HostOutcome::Failed));
    assert!(!stage.has_file("n1", "x") && !stage.has_file("n1", ".sim/behind"));
}

#[test]
fn each_step_instance_sends_its_own_artifact() {
    let steps = format!(
        "steps:\n  - name: x\n    each: '[\"a\", \"b\"]'\n    artifact: {{ path: '@root/{{{{ item }}}}', file: files/x, sha256: {}, @own }}\n",
        hex_digest(BODY)
    );
    let stage = SimulatedProject::new(1, ALL, &[("r", &steps)]);
    stage.write_input_file("recipes/files/x", BODY);
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{}", ran.host_message("n1"));
    assert_eq!((stage.read_file("n1", "a"), stage.read_file("n1", "b")), (BODY.to_owned(), BODY.to_owned()));
}

#[test]
fn recorded_artifact_digest_is_trusted_until_the_file_changes() {
    let stage = artifact_project(1);
    assert_eq!(stage.run_once().describe_step("n1", "r/x"), "changed");
    let notes = stage.host_root("n1").join("state/artifacts");
    let note = std::fs::read_dir(notes).unwrap().next().unwrap().unwrap().path();
    let noted = std::fs::read_to_string(&note).unwrap();
    assert!(noted.ends_with(&format!(" {}\n", hex_digest(BODY))), "{noted}");
    // The recorded digest was used, not the file.
    std::fs::write(&note, noted.replace(&hex_digest(BODY), &"1".repeat(64))).unwrap();
    assert_eq!(stage.run_once().describe_step("n1", "r/x"), "changed");
    std::fs::write(stage.host_root("n1").join("x"), BODY.replace("body", "BODY")).unwrap();
    assert_eq!(stage.run_once().describe_step("n1", "r/x"), "changed");
    assert_eq!((stage.read_file("n1", "x"), stage.run_once().host_outcome("n1")), (BODY.to_owned(), HostOutcome::Ok));
}
