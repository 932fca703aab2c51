//! A process must have read its declared files; if that is unknown, it is restarted or reloaded. The simulated
//! `systemctl` copies `etc/demo.conf` when it starts or reloads the unit: that copy is the content the process has
//! read.

use super::edges::programs;
use super::simulated_project::{SimulatedProject, SimulatedRun};

const HOST: &str = "n1";
const APPLY: &str = "apply:\n  - { recipe: demo, on: all }\n";

/// The first step represents a package whose scripts start the service.
const STEPS: &str = "steps:
  - name: installed
    command: { check: 'test -e @root/installed', apply: 'touch @root/installed && systemctl start demo.service' }
  - { name: old, absent: { path: '@root/etc/old.conf' } }
  - { name: config, file: { path: '@root/etc/demo.conf', content: \"one\\n\", validate: 'test ! -e @root/refuse', @own } }
  - name: service
    restart_on: [installed, old, config]
    service: { name: demo.service, state: running, reload: RELOAD }
";

fn renewal_project(reload: bool) -> SimulatedProject {
    let stage = SimulatedProject::new(1, APPLY, &[("demo", &STEPS.replace("RELOAD", &reload.to_string()))]);
    programs::install_programs(&stage, HOST);
    stage
}

/// Returns the content that the process has read.
fn read_loaded(stage: &SimulatedProject) -> String {
    stage.read_file(HOST, "units/demo.service").lines().skip(2).collect()
}

fn read_start(stage: &SimulatedProject) -> String {
    stage.read_file(HOST, "units/demo.service").lines().take(2).collect()
}

fn run_systemctl(stage: &SimulatedProject, verb: &str) {
    let program = stage.host_root(HOST).join(".sim/bin/systemctl");
    assert!(std::process::Command::new(program).args([verb, "demo.service"]).status().unwrap().success());
}

/// The kernel's clock for file times advances every few milliseconds.
fn await_next_ctime() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

fn edit_config(stage: &SimulatedProject, text: &str) {
    await_next_ctime();
    std::fs::write(stage.host_root(HOST).join("etc/demo.conf"), text).unwrap();
}

#[track_caller]
fn expect_no_changes(stage: &SimulatedProject) {
    let before = read_start(stage);
    let ran = stage.run_once();
    let counts = ran.plan.count_steps();
    assert_eq!((ran.exit_code(), counts.change, counts.awaited), (0, 0, 0), "{:#?}", ran.plan);
    assert_eq!(read_start(stage), before, "the same start");
}

#[track_caller]
fn expect_done(ran: &SimulatedRun) {
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
}

/// Returns the plan's reason for the service.
fn describe_planned_service(ran: &SimulatedRun) -> String {
    let step = ran.plan.hosts[0].steps.iter().find(|step| &*step.id.step == "service").unwrap();
    format!("{}: {}", step.verdict.name(), step.reason.raw())
}

#[test]
fn service_restarts_once_its_missing_config_is_written() {
    let stage = renewal_project(false);
    stage.write_host_file(HOST, "refuse", "");
    let failed = stage.run_once();
    assert!(failed.describe_step(HOST, "demo/config").starts_with("failed: "), "{:#?}", failed.report);
    assert!(failed.describe_step(HOST, "demo/service").starts_with("skipped: "), "{:#?}", failed.report);
    assert!(stage.has_file(HOST, "units/demo.service") && read_loaded(&stage).is_empty(), "it runs, without its file");
    assert!(!stage.has_record(HOST, "demo/service"), "a step that was skipped has no record");
    std::fs::remove_file(stage.host_root(HOST).join("refuse")).unwrap();
    await_next_ctime();
    expect_done(&stage.run_once());
    assert_eq!(read_loaded(&stage), "one");
    expect_no_changes(&stage);
}

/// A matching step between them, in the same script, does not hide the failure.
#[test]
fn service_keeps_its_process_if_its_input_could_not_be_repaired() {
    let stage = renewal_project(false);
    let order = STEPS.replace("RELOAD", "false").replace(
        "  - name: service\n",
        "  - { name: between, file: { path: '@root/etc/other.conf', content: x, @own } }\n  - name: service\n",
    );
    stage.write_recipe("demo", &order);
    expect_done(&stage.run_once());
    edit_config(&stage, "bad\n");
    stage.write_host_file(HOST, "refuse", "");
    let before = read_start(&stage);
    let ran = stage.run_once();
    assert!(ran.describe_step(HOST, "demo/config").starts_with("failed: "), "{:#?}", ran.report);
    assert!(ran.describe_step(HOST, "demo/between").starts_with("ok"), "{:#?}", ran.report);
    let why = "skipped: needs `demo/config`, which did not succeed";
    assert_eq!(ran.describe_step(HOST, "demo/service"), why, "the step that failed is named");
    assert_eq!((read_start(&stage), read_loaded(&stage)), (before, "one".to_owned()));
}

#[test]
fn predicted_restart_above_max_disruption_is_held() {
    let mut stage = renewal_project(false);
    expect_done(&stage.run_once());
    edit_config(&stage, "two\n");
    let before = read_start(&stage);
    stage.policy = crate::plan::PlanPolicy {
        max_disruption: crate::model::DisruptionClass::D0,
        ..crate::plan::PlanPolicy::default()
    };
    let ran = stage.run_once();
    assert_eq!(ran.describe_step(HOST, "demo/config"), "changed");
    assert_eq!(ran.describe_step(HOST, "demo/service"), "held: is D1, and `--max-disruption` is D0");
    assert_eq!((ran.exit_code(), read_start(&stage)), (10, before), "{:#?}", ran.report);
}

#[test]
fn start_record_lists_only_inputs_that_match() {
    let stage = renewal_project(false);
    stage.write_host_file(HOST, "etc/demo.conf", "one\n");
    stage.write_host_file(HOST, "refuse", "");
    // A failing input of another recipe does not stop this one.
    stage.write_recipe("other", "steps:\n  - { name: more, command: { check: 'false', apply: 'false' } }\n");
    stage.write_recipe(
        "demo",
        &STEPS.replace("RELOAD", "false").replace("[installed, old,", "[other/more, installed, old,"),
    );
    stage.replace_apply("apply:\n  - { recipe: other, on: all }\n  - { recipe: demo, on: all }\n");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step(HOST, "demo/service"), "changed", "{:#?}", ran.report);
    let record = stage.read_file(HOST, "state/applied/test@demo%2Fservice.json");
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let inputs: serde_json::Value = serde_json::from_str(record["started"]["inputs"].as_str().unwrap()).unwrap();
    let named: Vec<&String> = inputs.as_object().unwrap().keys().collect();
    assert_eq!(named, ["demo/config", "demo/installed", "demo/old"]);
}

/// Edits the file and lets the process read it; forge restores the file.
fn tamper_is_repaired_in_the_process(reload: bool) {
    let stage = renewal_project(reload);
    expect_done(&stage.run_once());
    expect_no_changes(&stage);
    for round in ["by a reload", "and again"] {
        edit_config(&stage, "tampered\n");
        run_systemctl(&stage, "reload");
        assert_eq!(read_loaded(&stage), "tampered");
        let before = read_start(&stage);
        let ran = stage.run_once();
        expect_done(&ran);
        assert!(describe_planned_service(&ran).starts_with("change: `"), "{}", describe_planned_service(&ran));
        assert_eq!(read_loaded(&stage), "one", "{round}: {}", describe_planned_service(&ran));
        assert_eq!(read_start(&stage) == before, reload, "the remedy");
        expect_no_changes(&stage);
    }
    // Read and restored by the same user: only the file's ctime shows it.
    edit_config(&stage, "tampered\n");
    run_systemctl(&stage, "reload");
    edit_config(&stage, "one\n");
    let ran = stage.run_once();
    expect_done(&ran);
    assert!(
        describe_planned_service(&ran).contains("the process may have read other content"),
        "{}",
        describe_planned_service(&ran)
    );
    assert_eq!(read_loaded(&stage), "one");
    expect_no_changes(&stage);
}

#[test]
fn restart_reverts_manually_reloaded_config() {
    tamper_is_repaired_in_the_process(false);
}

#[test]
fn reload_reverts_manually_reloaded_config() {
    tamper_is_repaired_in_the_process(true);
}

/// A run that was killed between the repair and the reload: the mark of an earlier reload proves nothing.
#[test]
fn config_repaired_by_a_killed_run_is_still_reloaded() {
    let stage = renewal_project(true);
    expect_done(&stage.run_once());
    edit_config(&stage, "other\n");
    expect_done(&stage.run_once());
    edit_config(&stage, "tampered\n");
    run_systemctl(&stage, "reload");
    // The first script prepares the host, the second one repairs the file.
    assert!(stage.run_killed_before(HOST, 2).is_none(), "it is killed before the reload");
    assert_eq!((stage.read_file(HOST, "etc/demo.conf").trim(), read_loaded(&stage).as_str()), ("one", "tampered"));
    expect_done(&stage.run_once());
    assert_eq!(read_loaded(&stage), "one");
    expect_no_changes(&stage);
}

/// A removed file has no ctime, and neither have the effects of a command.
#[test]
fn removed_file_or_repeated_command_restarts_the_service() {
    let stage = renewal_project(false);
    expect_done(&stage.run_once());
    for (what, file) in [("removed", "etc/old.conf"), ("run again", "")] {
        await_next_ctime();
        match file {
            "" => std::fs::remove_file(stage.host_root(HOST).join("installed")).unwrap(),
            file => stage.write_host_file(HOST, file, "x"),
        }
        let before = read_start(&stage);
        expect_done(&stage.run_once());
        assert_ne!(read_start(&stage), before, "{what}");
        expect_no_changes(&stage);
    }
}
