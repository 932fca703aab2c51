//! Windows on simulated hosts: the order of hosts, reboots, skipped changes, and the reports about them.
//!
//! A simulated reboot replaces `loaded` by `configured` and writes another boot id; the simulated `systemctl` keeps
//! units as files.

use super::super::{Event, StepResult};
use super::simulated_project::{SimulatedProject, SimulatedRun};
use crate::model::{DisruptionClass, ExitCode, HostOutcome, StepVerdict};
use crate::plan::{PlanPolicy, StepStage as When};

pub(super) const SYSTEMCTL: &str = r#"#!/bin/sh
root=$(dirname "$0")/..
for unit in "$@"; do :; done
case $1 in
show) if [ -e "$root/units/$unit" ]; then echo active; else echo inactive; fi ;;
stop) rm -f "$root/units/$unit"; echo "stop $unit" >>"$root/log" ;;
start) mkdir -p "$root/units"; touch "$root/units/$unit"; echo "start $unit" >>"$root/log" ;;
is-active) test -e "$root/units/$unit" ;;
is-system-running) echo running ;;
esac
"#;

pub(super) const REBOOT: &str = r#"root=$(dirname "$0")/..
echo reboot >>"$root/log"
mkdir -p "$root/loaded"
cp "$root"/configured/* "$root/loaded/" 2>/dev/null
[ -e "$root/stays" ] || cat /proc/sys/kernel/random/uuid >"$root/.sim/boot-id"
"#;

/// The state that must be loaded before the driver changes.
pub(super) const EARLY: &str = "steps:
  - name: first
    command: { check: 'test -e @root/configured/first', apply: 'mkdir -p @root/configured; touch @root/configured/first' }
    effective: { by: [reboot], check: 'test -e @root/loaded/first' }
  - name: second
    command: { check: 'test -e @root/configured/second', apply: 'mkdir -p @root/configured; touch @root/configured/second' }
    effective: { by: [reboot], check: 'test -e @root/loaded/second' }
";

pub(super) const DRIVER: &str = "params:
  version: { type: version, default: 1.0-1 }
needs: [early]
steps:
  - name: packages
    disruption: D2
    command: { check: 'test -e @root/driver', apply: 'test ! -e @root/units/fm.service && test ! -e @root/bad && echo driver >>@root/log && touch @root/driver' }
";

/// A change that takes its host out of service, without related steps.
pub(super) const DRIVER_ALONE: &str = "steps:
  - name: packages
    disruption: D2
    command: { check: 'test -e @root/driver', apply: 'test ! -e @root/bad && touch @root/driver' }
";

const FM: &str = "needs: [driver]
during: { driver: { stopped: [fm] } }
steps:
  - name: package
    command: { check: 'test -e @root/fm-{{ recipes[\"driver\"].version }}', apply: 'echo fm >>@root/log; touch @root/fm-{{ recipes[\"driver\"].version }}' }
  - name: running
    command:
      check: 'test -e @root/units/fm.service && test -e @root/fm-{{ recipes[\"driver\"].version }}'
      apply: 'mkdir -p @root/units; touch @root/units/fm.service; echo start fm.service >>@root/log'
";

const MOTD: &str = "steps:\n  - { name: file, command: { check: 'test -e @root/motd', apply: 'echo motd >>@root/log; touch @root/motd' } }\n";

pub(super) fn window_project(hosts: usize, rollout: &str) -> SimulatedProject {
    let apply = ["motd", "early", "driver", "fm"].map(|name| format!("  - {{ recipe: {name}, on: all }}\n")).concat();
    let recipes = [("early", EARLY), ("driver", DRIVER), ("fm", FM), ("motd", MOTD)];
    let stage = SimulatedProject::new(hosts, &format!("rollout: {{ {rollout} }}\napply:\n{apply}"), &recipes);
    for host in &stage.hosts {
        stage.create_host_file(host, "units/fm.service");
        stage.write_host_file(host, ".sim/boot-id", "boot-1\n");
        stage.write_host_file(host, ".sim/reboot", REBOOT);
        stage.write_host_file(host, ".sim/systemctl", SYSTEMCTL);
    }
    stage
}

/// A driver with its dependents, none of which needs a reboot.
pub(super) fn driver_project() -> SimulatedProject {
    let driver = DRIVER.replace("needs: [early]\n", "");
    let apply = ["driver", "fm"].map(|name| format!("  - {{ recipe: {name}, on: all }}\n")).concat();
    let stage = SimulatedProject::new(1, &format!("apply:\n{apply}"), &[("driver", &driver), ("fm", FM)]);
    stage.create_host_file("n1", "units/fm.service");
    stage.write_host_file("n1", ".sim/systemctl", SYSTEMCTL);
    stage
}

pub(super) fn read_log(stage: &SimulatedProject, host: &str) -> Vec<String> {
    stage.read_file(host, "log").lines().map(str::to_owned).collect()
}

/// Returns the hosts in the order in which they were taken out of service, and the maximum number at the same time.
fn list_windows(ran: &SimulatedRun) -> (Vec<String>, usize) {
    let (mut order, mut open, mut most) = (Vec::new(), 0_usize, 0);
    for event in &ran.events {
        match event {
            Event::WindowOpened { host, .. } => {
                order.push(host.to_string());
                open += 1;
            }
            // A window that an earlier run left open was not opened in this run.
            Event::WindowClosed { .. } => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    (order, most)
}

#[test]
fn one_reboot_serves_all_pending_steps() {
    let stage = window_project(1, "reboot: allow");
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(read_log(&stage, "n1"), ["motd", "stop fm.service", "reboot", "driver", "fm", "start fm.service"]);
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert_eq!(window.reboots.len(), 1);
    assert_eq!(
        window.reboots[0].steps.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["early/first", "early/second"]
    );
    assert_eq!((window.reboots[0].certain, ran.plan.hosts[0].planned_disruption()), (true, DisruptionClass::D3));
    let reboots = &ran.report.hosts[0].reboots;
    assert_eq!((reboots.len(), reboots[0].from.raw()), (1, "boot-1"));
    assert_ne!(reboots[0].to.raw(), "boot-1");
    assert_eq!(ran.describe_step("n1", "early/first"), "changed");
    assert!(!stage.has_file("n1", "state/window.json"), "the window is closed");
    let again = stage.run_once();
    assert_eq!(
        (again.exit_code(), again.plan.count_steps().change, again.plan.hosts[0].window.is_none()),
        (0, 0, true)
    );
}

#[test]
fn plan_shows_when_each_step_runs() {
    let stage = window_project(1, "reboot: allow");
    let ran = stage.run_once();
    let stages: Vec<(String, When)> =
        ran.plan.hosts[0].steps.iter().map(|step| (step.id.to_string(), step.stage)).collect();
    let expected = [
        ("motd/file", When::Before),
        ("early/first", When::Before),
        ("early/second", When::Before),
        ("driver/packages", When::Inside(1)),
        ("fm/package", When::Inside(1)),
        ("fm/running", When::Inside(1)),
    ];
    let mut stages: Vec<(&str, When)> = stages.iter().map(|(name, stage)| (name.as_str(), *stage)).collect();
    stages.sort_by_key(|(name, _)| expected.iter().position(|(other, _)| other == name));
    assert_eq!(stages, expected);
    let driver = ran.plan.hosts[0].steps.iter().find(|step| &*step.id.recipe == "driver").unwrap();
    assert!(driver.envelope.is_some(), "it is evaluated again after the reboot");
}

#[test]
fn reboot_never_skips_steps_that_need_a_reboot() {
    let stage = window_project(1, "reboot: never");
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.host_outcome("n1")), (10, HostOutcome::Skipped));
    assert_eq!(read_log(&stage, "n1"), ["motd"]);
    assert_eq!(ran.describe_step("n1", "early/first"), "pending: needs reboot");
    assert_eq!(ran.describe_step("n1", "driver/packages"), "skipped: needs `early/first`, which did not succeed");
    assert_eq!(stage.read_file("n1", ".sim/boot-id"), "boot-1\n");
}

#[test]
fn step_above_max_disruption_is_held_without_stopping_units() {
    let mut stage = window_project(1, "reboot: allow");
    ["configured/first", "configured/second", "loaded/first", "loaded/second"]
        .iter()
        .for_each(|f| stage.create_host_file("n1", f));
    stage.policy = PlanPolicy { max_disruption: DisruptionClass::D1, ..PlanPolicy::default() };
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n1", "driver/packages"), "held: is D2, and `--max-disruption` is D1");
    assert_eq!(ran.describe_step("n1", "motd/file"), "changed");
    assert_eq!(
        (ran.exit_code(), ran.plan.count_steps().held, read_log(&stage, "n1")),
        (10, 1, vec!["motd".to_owned()])
    );
    assert!(stage.has_file("n1", "units/fm.service"), "nothing is stopped for it");
}

#[test]
fn step_tied_by_version_to_a_held_step_is_held() {
    let fm = FM.replace("needs: [driver]\n", "");
    let apply = "rollout: { reboot: allow }\napply:\n  - { recipe: driver, on: all }\n  - { recipe: fm, on: all }\n";
    let driver = DRIVER.replace("needs: [early]\n", "");
    let mut stage = SimulatedProject::new(1, apply, &[("driver", &driver), ("fm", &fm)]);
    stage.create_host_file("n1", "units/fm.service");
    stage.policy = PlanPolicy { max_disruption: DisruptionClass::D1, ..PlanPolicy::default() };
    let ran = stage.run_once();
    let why = "held: must have the version of `driver/packages`, which `--max-disruption` (D1) holds back";
    assert_eq!((ran.describe_step("n1", "fm/package").as_str(), ran.exit_code()), (why, 10));
    assert!(!stage.has_file("n1", "fm-1.0-1") && !stage.has_file("n1", "driver"));
}

#[test]
fn waves_never_exceed_max_unavailable() {
    let stage = window_project(5, "canary: 1, max_unavailable: 2, reboot: allow");
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0);
    let waves: Vec<usize> = ran.plan.rollout.waves.iter().map(Vec::len).collect();
    assert_eq!(waves, [1, 2, 2]);
    let (order, most) = list_windows(&ran);
    assert_eq!((order[0].as_str(), order.len(), most), ("n1", 5, 2));
    assert!(ran.find_host_finish("n1") < ran.find_host_start("n2"), "the canary has had all its changes first");
}

#[test]
fn quorum_hosts_are_never_out_of_service_together() {
    let stage = window_project(3, "max_unavailable: 3, quorum: [all], reboot: allow");
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), list_windows(&ran).1, ran.plan.rollout.waves.len()), (0, 1, 3));
}

/// The host whose driver fails stays out of service; with a budget of one, no other host is taken out.
#[test]
fn host_left_out_of_service_uses_up_max_unavailable() {
    let stage = window_project(3, "max_unavailable: 1, reboot: allow");
    stage.create_host_file("n1", "bad");
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 8));
    assert_eq!(ran.describe_step("n2", "driver/packages"), "skipped: `max_unavailable` (1) is used up by n1");
    assert_eq!(ran.describe_step("n2", "motd/file"), "changed", "what takes nothing out of service goes on");
    assert!(stage.has_file("n2", "units/fm.service") && stage.has_file("n1", "state/window.json"));
    assert_eq!(ran.describe_step("n1", "fm/running"), "skipped: needs `driver/packages`, which did not succeed");
    let hint = "its window is open and it is out of service; the next successful apply closes the window";
    assert!(ran.host_message("n1").ends_with(hint), "{}", ran.host_message("n1"));
    // After a manual repair the next run closes the window that was left open.
    std::fs::remove_file(stage.host_root("n1").join("bad")).unwrap();
    let ran = stage.run_once();
    assert_eq!(ran.plan.hosts[0].window.as_ref().unwrap().left_open.as_ref().unwrap().raw(), "20261121T093015-4f2a");
    assert_eq!(
        (ran.exit_code(), stage.has_file("n1", "state/window.json"), stage.has_file("n1", "units/fm.service")),
        (0, false, true)
    );
}

#[test]
fn unreachable_host_uses_up_max_unavailable() {
    let stage = window_project(2, "max_unavailable: 1, reboot: allow");
    stage.create_host_file("n1", ".sim/refuse");
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n2", "driver/packages"), "skipped: `max_unavailable` (1) is used up by n1");
    assert_eq!((ran.plan.rollout.unavailable.len(), ran.exit_code()), (1, 8));
}

#[test]
fn window_left_open_is_closed_without_changes() {
    let stage = window_project(1, "reboot: allow");
    stage.run_once();
    stage.write_host_file("n1", "state/window.json", "{\"run\": \"r7\"}");
    let ran = stage.run_once();
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert_eq!((window.left_open.as_ref().unwrap().raw(), window.steps.len()), ("r7", 0));
    assert_eq!((ran.exit_code(), stage.has_file("n1", "state/window.json"), list_windows(&ran).0.len()), (0, false, 0));
}

/// Another user's process holds a device: the host is not changed, the others finish.
#[test]
fn host_with_devices_in_use_is_blocked_unless_evicted() {
    let stage = window_project(2, "max_unavailable: 2, reboot: allow");
    stage.create_host_file("n1", "dev/nvidia0");
    let mut holder = hold_device(&stage, "n1");
    let ran = stage.run_once();
    let why = ran.describe_step("n1", "driver/packages");
    assert!(why.starts_with(&format!("blocked: pid {} (sleep) of ", holder.id())), "{why}");
    assert!(why.ends_with(", holds /dev/nvidia0"), "{why}");
    // A step that had run before says so: the next boot loads what it configured.
    let early = ran.describe_step("n1", "early/first");
    assert!(early.starts_with("blocked: needs reboot; pid "), "{early}");
    assert!(stage.has_file("n1", "configured/first"));
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Blocked, HostOutcome::Changed, 3)
    );
    assert_eq!(read_log(&stage, "n1"), ["motd"]);
    assert!(holder.try_wait().unwrap().is_none(), "it still runs");
    assert!(stage.has_file("n1", "units/fm.service") && !stage.has_file("n1", "state/window.json"));

    let evicting = SimulatedProject { evict_busy: Some("maintenance, announced".to_owned()), ..stage };
    let ran = evicting.run_once();
    assert_eq!((ran.exit_code(), ran.report.evict_busy.as_deref()), (0, Some("maintenance, announced")));
    let told = ran.events.iter().any(|event| matches!(event, Event::Evicted { why, .. } if why.contains("announced")));
    assert!(told && holder.wait().is_ok());
}

/// The plan says what will keep the window from opening, if the project is about GPUs.
#[test]
fn plan_of_a_host_with_devices_in_use_names_the_holders() {
    let stage = window_project(2, "max_unavailable: 2, reboot: allow");
    stage.write_recipe("motd", &MOTD.replace("name: file,", "name: file, when: facts.gpus | length >= 0,"));
    stage.create_host_file("n1", "dev/nvidia0");
    let mut holder = hold_device(&stage, "n1");
    let ran = stage.run_once();
    let warnings = |host: usize| &ran.plan.hosts[host].warnings;
    let why = warnings(0).iter().map(|warning| warning.why.raw()).collect::<String>();
    assert!(why.starts_with(&format!("its devices are in use: pid {} (sleep) of ", holder.id())), "{why}");
    assert!(why.ends_with(", holds /dev/nvidia0"), "{why}");
    assert!(warnings(1).is_empty(), "{:?}", warnings(1));
    holder.kill().unwrap();
    holder.wait().unwrap();
}

/// A process that starts while the window is open is detected before the reboot.
#[test]
fn devices_are_checked_again_before_a_reboot() {
    let stage = window_project(1, "reboot: allow");
    stage.create_host_file("n1", "dev/nvidia0");
    let mut holder = None;
    let path = stage.host_root("n1").join("dev/nvidia0");
    let ran = stage.run_with(
        |_| (),
        |event, _| {
            if matches!(event, Event::WindowOpened { .. }) {
                holder = Some(spawn_sleeper(path.as_std_path()));
            }
        },
    );
    let mut holder = holder.expect("the window opened");
    let blocked = ran.describe_step("n1", "early/first");
    assert!(blocked.starts_with("blocked: needs reboot; pid "), "{blocked}");
    assert_eq!(
        (ran.host_outcome("n1"), ran.exit_code(), stage.read_file("n1", ".sim/boot-id").as_str()),
        (HostOutcome::Blocked, 3, "boot-1\n")
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn host_that_does_not_come_back_from_its_reboot_fails() {
    let stage = window_project(2, "max_unavailable: 2, reboot: allow, reboot_timeout: 3s");
    stage.create_host_file("n1", "stays");
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Failed, HostOutcome::Changed, 3)
    );
    let why = "did not come back within 3 s after its reboot: boot id is still boot-1";
    assert!(ran.host_message("n1").starts_with(why), "{}", ran.host_message("n1"));
    assert_eq!(ran.describe_step("n1", "driver/packages"), "cancelled");
}

#[test]
fn host_with_a_failed_step_is_not_taken_out_of_service() {
    let stage = window_project(1, "reboot: allow");
    let failing =
        "recipe: motd\nsummary: Fails\nsteps:\n  - { name: file, command: { check: 'false', apply: 'exit 3' } }\n";
    stage.write_host_file("", "recipes/motd.yaml", failing);
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), stage.read_file("n1", ".sim/boot-id").as_str()), (3, "boot-1\n"));
    assert_eq!(ran.describe_step("n1", "driver/packages"), "skipped: not taken out of service: `motd/file` failed");
    assert!(
        ran.describe_step("n1", "early/first").starts_with("pending: "),
        "{}",
        ran.describe_step("n1", "early/first")
    );
    assert!(stage.has_file("n1", "units/fm.service") && !stage.has_file("n1", "state/window.json"));
}

/// The machine that forge runs on is never rebooted: neither by the plan nor by the script itself.
#[test]
fn the_machine_that_forge_runs_on_is_not_rebooted() {
    let stage = window_project(1, "reboot: allow");
    let own = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    stage.write_host_file("n1", ".sim/boot-id", &own);
    let ran = stage.run_once();
    let why = "blocked: needs reboot; not rebooted: forge runs on this machine; apply from another machine or reboot it \
               manually";
    assert_eq!((ran.describe_step("n1", "early/first").as_str(), ran.exit_code()), (why, 3));
    assert_eq!(read_log(&stage, "n1"), ["motd"], "nothing was stopped for it");
}

/// A run that was killed after all writes and before the reboot: the next one detects the pending steps.
#[test]
fn reboot_missed_by_a_killed_run_is_done_by_the_next_run() {
    let stage = window_project(1, "reboot: allow");
    ["configured/first", "configured/second", "motd"].iter().for_each(|file| stage.create_host_file("n1", file));
    let ran = stage.run_once();
    let planned = ran.plan.hosts[0].steps.iter().find(|step| step.id.to_string() == "early/first").unwrap();
    assert_eq!(
        (planned.verdict, planned.will_run()),
        (StepVerdict::Pending, false),
        "nothing is to be written any more"
    );
    assert_eq!(ran.plan.count_steps().awaited, 2);
    assert_eq!((ran.exit_code(), ran.report.hosts[0].reboots.len()), (0, 1));
    assert_eq!(read_log(&stage, "n1"), ["stop fm.service", "reboot", "driver", "fm", "start fm.service"]);
}

/// The connection is lost right before the reboot: the host stays out of service, and the next run continues.
#[test]
fn window_lost_with_its_connection_is_closed_by_the_next_run() {
    let stage = window_project(1, "reboot: allow, reboot_timeout: 3s");
    stage.write_host_file("n1", ".sim/reboot", "root=$(dirname \"$0\")/..\ntouch \"$root/.sim/lost\"\n");
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 3), "{:#?}", ran.report);
    assert!(stage.has_file("n1", "state/window.json") && !stage.has_file("n1", "units/fm.service"));
    stage.write_host_file("n1", ".sim/reboot", REBOOT);
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.report.hosts[0].reboots.len()), (0, 1), "{:#?}", ran.report);
    assert!(!stage.has_file("n1", "state/window.json") && stage.has_file("n1", "units/fm.service"));
}

/// A step that shares a version with a deferred change is deferred; one that shares it with a change that runs also
/// runs.
#[test]
fn only_steps_tied_to_a_held_change_are_held() {
    let other = "steps:\n  - { name: big, disruption: D3, command: { check: 'test -e @root/big', apply: 'touch @root/big' } }\n";
    let driver = DRIVER.replace("needs: [early]\n", "");
    let apply = "apply:\n  - { recipe: big, on: all }\n  - { recipe: driver, on: all }\n  - { recipe: fm, on: all }\n";
    let mut stage = SimulatedProject::new(1, apply, &[("big", other), ("driver", &driver), ("fm", FM)]);
    stage.create_host_file("n1", "units/fm.service");
    stage.write_host_file("n1", ".sim/systemctl", SYSTEMCTL);
    stage.policy = PlanPolicy { max_disruption: DisruptionClass::D2, ..PlanPolicy::default() };
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n1", "big/big"), "held: is D3, and `--max-disruption` is D2");
    assert_eq!((ran.describe_step("n1", "fm/package").as_str(), ran.exit_code()), ("changed", 10));
    assert_eq!(read_log(&stage, "n1"), ["stop fm.service", "driver", "fm", "start fm.service"]);
}

/// A selection of steps stops the units it must, and starts these again; it does not close another run's window.
#[test]
fn a_selection_of_steps_leaves_no_service_stopped() {
    let mut stage = window_project(1, "reboot: allow");
    stage.skip = vec!["fm".to_owned()];
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(read_log(&stage, "n1"), ["motd", "stop fm.service", "reboot", "driver", "start fm.service"]);
    stage.write_host_file("n1", "state/window.json", "{\"run\": \"r7\"}");
    let ran = stage.run_once();
    assert!(ran.plan.hosts[0].window.is_none() && stage.has_file("n1", "state/window.json"), "{:#?}", ran.plan);
    std::fs::remove_file(stage.host_root("n1").join("driver")).unwrap();
    let ran = stage.run_once();
    let why = "it was opened by an earlier run, and `--step` or `--skip` may exclude its steps";
    let open = |event: &Event| matches!(event, Event::WindowLeftOpen { why: told, .. } if told.raw() == why);
    assert!(ran.events.iter().any(open), "{:#?}", ran.events);
    assert!(stage.has_file("n1", "state/window.json"));
}

/// A GPU lost in the reboot is detected by a recipe without changes: the host stays out of service.
#[test]
fn device_lost_in_a_reboot_keeps_the_host_out_of_service() {
    let stage = window_project(1, "reboot: allow");
    let text = std::fs::read_to_string(stage.host_root("").join("inventory.yaml")).unwrap();
    std::fs::write(stage.host_root("").join("inventory.yaml"), text + "  - { recipe: cards, on: all }\n").unwrap();
    let cards = "recipe: cards\nsummary: Counts\nverify:\n  - { name: all are there, check: test -e @root/card }\n";
    stage.write_host_file("", "recipes/cards.yaml", &cards.replace("@root", stage.host_root("n1").as_str()));
    stage.create_host_file("n1", "card");
    stage.write_host_file("n1", ".sim/reboot", &format!("{REBOOT}rm \"$root/card\"\n"));
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 5), "{:#?}", ran.report);
    assert!(stage.has_file("n1", "state/window.json"));
}

/// Windows open for an hour of the day that is not now. The exit code of a plan says so, too, if only the window is left.
#[test]
fn no_window_opens_outside_the_configured_hours() {
    let now = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::system());
    let (hour, next) = ((now.hour() + 5) % 24, (now.hour() + 6) % 24);
    let stage = window_project(1, &format!("reboot: allow, hours: \"{hour:02}:00-{next:02}:00\""));
    let ran = stage.run_once();
    let why = ran.describe_step("n1", "driver/packages");
    assert!(why.starts_with(&format!("held: windows open {hour:02}:00-{next:02}:00; it is now ")), "{why}");
    assert_eq!((ran.describe_step("n1", "motd/file").as_str(), ran.exit_code()), ("changed", 10));
    assert_eq!(read_log(&stage, "n1"), ["motd"]);
    assert_eq!([&ran, &stage.run_once()].map(|ran| ran.plan.exit_code(true)), [ExitCode::Pending; 2]);
}

/// The other hosts are not written to, with or without a window: the change of the canary is not proven.
#[test]
fn canary_that_the_hours_held_back_holds_back_the_other_hosts() {
    fn clock() -> jiff::Timestamp {
        let day = jiff::civil::date(2026, 11, 27).at(11, 30, 0, 0);
        day.to_zoned(jiff::tz::TimeZone::system()).unwrap().timestamp()
    }
    let rollout = "canary: 1, max_unavailable: 2, reboot: allow, hours: \"12:00-13:00\"";
    let stage = SimulatedProject { clock, ..window_project(2, rollout) };
    let ran = stage.run_once();
    let driver = |host: &str| ran.describe_step(host, "driver/packages");
    assert_eq!(driver("n1"), "held: windows open 12:00-13:00; it is now 11:30");
    assert_eq!(driver("n2"), "held: the hours held back the window of canary `n1`");
    assert_eq!(ran.describe_step("n2", "motd/file"), driver("n2"));
    assert_eq!((ran.host_outcome("n2"), ran.exit_code()), (HostOutcome::Pending, 10));
    assert_eq!((read_log(&stage, "n1"), read_log(&stage, "n2")), (vec!["motd".to_owned()], Vec::new()));
}

/// A step that is blocked on the canary holds back the other hosts, not the window of the canary: nothing there needs it.
#[test]
fn window_of_a_canary_opens_although_another_step_is_blocked_there() {
    let bad = "rules:\n  - { class: host, require: facts.kernel.release == \"none\", else: not here }\n\
               steps:\n  - { name: bad, command: { check: 'test -e @root/x', apply: 'touch @root/x' } }\n";
    let apply = "rollout: { canary: 1, max_unavailable: 2 }\napply:\n  - { recipe: bad, on: all }\n  \
                 - { recipe: driver, on: all }\n";
    let stage = SimulatedProject::new(2, apply, &[("bad", bad), ("driver", DRIVER_ALONE)]);
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n1", "driver/packages"), "changed");
    assert_eq!((ran.describe_step("n2", "driver/packages").as_str(), ran.exit_code()), ("cancelled", 8));
}

/// A host that waits for all hosts has left its window first; otherwise there would be a deadlock.
#[test]
fn host_leaves_its_window_before_waiting_at_a_barrier() {
    let test = "needs:\n  driver: { of: selected, least: 100% }\nsteps:\n  - { name: run, command: { check: 'test -e @root/tested', apply: 'touch @root/tested' } }\n";
    let driver = DRIVER.replace("needs: [early]\n", "");
    let apply = "rollout: { max_unavailable: 1, reboot: allow }\napply:\n  - { recipe: driver, on: all }\n  - { recipe: accept, on: all }\n";
    let stage = SimulatedProject::new(3, apply, &[("driver", &driver), ("accept", test)]);
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(list_windows(&ran).1, 1);
    let step = ran.plan.hosts[0].steps.iter().find(|step| &*step.id.recipe == "accept").unwrap();
    assert_eq!((step.stage, step.verdict), (When::After, StepVerdict::Change));
}

#[test]
fn max_restarting_limits_concurrent_restarts() {
    let service = "steps:\n  - { name: s, disruption: D1, command: { check: 'test -e @root/s', apply: 'sleep 0.2; touch @root/s' } }\n";
    let stage = SimulatedProject::new(
        3,
        "rollout: { max_restarting: 1 }\napply:\n  - { recipe: s, on: all }\n",
        &[("s", service)],
    );
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), count_concurrent_steps(&ran)), (0, 1));
}

/// Returns the maximum number of steps that ran at the same time.
fn count_concurrent_steps(ran: &SimulatedRun) -> i32 {
    let (mut now, mut most) = (0, 0);
    for event in &ran.events {
        match event {
            Event::StepStarted { .. } => now += 1,
            Event::StepFinished { result: StepResult::Changed | StepResult::Failed { .. }, .. } => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// A host that fails gives its place to the next one.
#[test]
fn step_runs_on_at_most_as_many_hosts_at_once_as_it_declares() {
    let join = |limit: &str| {
        let step = format!(
            "steps:\n  - name: s\n    {limit}\n    command: {{ check: 'test -e @root/s', apply: 'sleep 0.2; touch @root/s; test ! -e @root/bad' }}\n"
        );
        let stage = SimulatedProject::new(3, "apply:\n  - { recipe: s, on: all }\n", &[("s", &step)]);
        stage.create_host_file("n1", "bad");
        let ran = stage.run_once();
        assert!(["n2", "n3"].iter().all(|host| stage.has_file(host, "s")));
        assert_ne!(ran.exit_code(), 0, "n1 fails");
        count_concurrent_steps(&ran)
    };
    assert_eq!((join("at_once: 1"), join("at_once: 2"), join("level: L0")), (1, 2, 3));
}

/// With one place, work on several hosts never overlaps: the sum of their times is at most the run's time.
#[test]
fn host_duration_excludes_the_wait_for_a_wave() {
    let apply = "rollout: { max_unavailable: 1, reboot: allow }\napply:\n  - { recipe: driver, on: all }\n";
    let slow = DRIVER_ALONE.replace("test ! -e @root/bad", "sleep 0.3");
    let ran = SimulatedProject { parallel: 1, ..SimulatedProject::new(3, apply, &[("driver", &slow)]) }.run_once();
    assert_eq!((ran.exit_code(), ran.plan.rollout.waves.len()), (0, 3), "{:#?}", ran.report);
    assert!(ran.report.hosts.iter().all(|host| host.took.as_millis() >= 300), "{:#?}", ran.report);
    let worked: std::time::Duration = ran.report.hosts.iter().map(|host| host.took).sum();
    assert!(worked <= ran.report.took, "{worked:?} of {:?}", ran.report.took);
}

fn hold_device(stage: &SimulatedProject, host: &str) -> std::process::Child {
    spawn_sleeper(stage.host_root(host).join("dev/nvidia0").as_std_path())
}

/// A process that holds a file open.
fn spawn_sleeper(path: &std::path::Path) -> std::process::Child {
    let file = std::fs::File::open(path).unwrap();
    std::process::Command::new("sleep").arg("600").stdin(file).spawn().unwrap()
}

#[test]
fn aborted_run_lists_done_hosts_and_the_next_command() {
    use crate::view::{ResultWriter, TextWriter};
    let stage = window_project(4, "max_unavailable: 1, reboot: allow");
    stage.create_host_file("n2", "bad");
    let ran = stage.run_once();
    let mut out = Vec::new();
    let text = TextWriter { verbose: 0, target: Some("inventory.yaml".to_owned()), resume: None };
    text.write_report(&ran.report, ran.report.exit_code(), &mut out).unwrap();
    let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
    assert!(text.contains("\ndone: n1\nnot done: n[3:4]\nfailed: n2\n"), "{text}");
    assert!(text.ends_with("next: forge apply inventory.yaml\n"), "{text}");
}
