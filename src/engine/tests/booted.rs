//! Reboots required by a kind itself: the host's window makes its change effective, and dependents run afterwards.

use super::simulated_project::{SimulatedProject, SimulatedRun};
use crate::model::{DisruptionClass, HostOutcome, StepVerdict};
use crate::plan::{PlanPolicy, StepStage as When};

/// `next` contains the next boot's arguments; a reboot passes them to the kernel and removes the mark that requested
/// it.
const GRUBBY: &str = r#"#!/bin/sh
root=$(dirname "$0")/..
case $1 in
--default-kernel) ;;
--info=ALL) printf 'index=0\nkernel="/boot/vmlinuz-1"\nargs="ro %s"\ntitle="Linux"\n' "$(cat "$root/next" 2>/dev/null)" ;;
--update-kernel=ALL) for word; do case $word in --args=*) printf %s "${word#--args=}" >"$root/next" ;; esac; done ;;
esac
"#;

const REBOOT: &str = r#"root=$(dirname "$0")/..
echo reboot >>"$root/log"
printf 'ro %s\n' "$(cat "$root/next" 2>/dev/null)" >"$root/.sim/cmdline"
rm -f "$root/wanted"
cat /proc/sys/kernel/random/uuid >"$root/.sim/boot-id"
"#;

const EARLY: &str = "steps:
  - { name: arguments, kernel_cmdline: { args: [iommu=pt] } }
  - { name: asked, reboot: { flag: '@root/wanted' } }
";

const DRIVER: &str = "needs: [early]
steps:
  - { name: build, command: { check: 'test -e @root/driver', apply: 'echo driver >>@root/log; touch @root/driver' } }
";

pub(super) fn booted_project(rollout: &str) -> SimulatedProject {
    let apply = format!(
        "rollout: {{ {rollout} }}\napply:\n  - {{ recipe: early, on: all }}\n  - {{ recipe: driver, on: all }}\n"
    );
    let stage = SimulatedProject::new(1, &apply, &[("early", EARLY), ("driver", DRIVER)]);
    stage.write_host_file("n1", ".sim/boot-id", "boot-1\n");
    stage.write_host_file("n1", ".sim/cmdline", "ro\n");
    stage.write_host_file("n1", ".sim/grubby", GRUBBY);
    stage.write_host_file("n1", ".sim/reboot", REBOOT);
    stage
}

/// Applies other arguments of the kernel, then declares those of `EARLY`.
fn apply_other_arguments_first(other: &str) -> SimulatedProject {
    let stage = booted_project("reboot: allow");
    stage.write_recipe("early", &EARLY.replace("[iommu=pt]", other));
    assert_eq!(stage.run_once().exit_code(), 0);
    stage.write_recipe("early", EARLY);
    stage
}

/// The boot menu shows that the argument is gone.
#[test]
fn argument_that_the_boot_menu_lacks_is_no_leftover() {
    let stage = apply_other_arguments_first("[iommu=pt, nosmt]");
    let left = |ran: SimulatedRun| ran.plan.hosts[0].undeclared.len();
    assert_eq!(left(stage.run_once()), 1, "the menu still has it");
    stage.write_host_file("n1", "next", "iommu=pt");
    assert_eq!(left(stage.run_once()), 0);
}

/// The step removed an argument of another file, which sets it again once the step declares something else.
#[test]
fn argument_that_another_file_sets_again_is_no_leftover() {
    let stage = apply_other_arguments_first("[iommu=pt], absent: [quiet]");
    stage.write_host_file("n1", "next", "iommu=pt quiet");
    for _ in 0..2 {
        let left = stage.run_once().plan.hosts[0].undeclared.clone();
        assert_eq!(left, [], "quiet is not of the step");
    }
}

fn read_log(stage: &SimulatedProject) -> Vec<String> {
    stage.read_file("n1", "log").lines().map(str::to_owned).collect()
}

/// Returns the steps of the single planned reboot.
#[track_caller]
fn list_reboot_steps(ran: &SimulatedRun) -> Vec<String> {
    let window = ran.plan.hosts[0].window.as_ref().unwrap();
    assert_eq!((window.reboots.len(), window.reboots[0].certain), (1, true), "{window:#?}");
    window.reboots[0].steps.iter().map(ToString::to_string).collect()
}

#[test]
fn resources_that_need_a_reboot_share_one_reboot() {
    let stage = booted_project("reboot: allow");
    stage.create_host_file("n1", "wanted");
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(list_reboot_steps(&ran), ["early/arguments", "early/asked"]);
    assert_eq!((ran.plan.hosts[0].planned_disruption(), ran.report.hosts[0].reboots.len()), (DisruptionClass::D3, 1));
    assert_eq!(read_log(&stage), ["reboot", "driver"], "what needs it comes after");
    let driver = ran.plan.hosts[0].steps.iter().find(|step| &*step.id.recipe == "driver").unwrap();
    assert_eq!((driver.stage, &driver.waits_for), (When::Inside(1), &None));
    let again = stage.run_once();
    assert_eq!(
        (again.exit_code(), again.plan.count_steps().change, again.plan.hosts[0].window.is_none()),
        (0, 0, true)
    );
}

/// A new version on disk invalidates the state of the loaded one: the fact is probed again.
#[test]
fn effective_state_lost_by_a_change_is_restored_by_the_reboot() {
    let steps = "steps:
  - name: installed
    disruption: D2
    command: { check: 'test -e @root/installed', apply: 'touch @root/installed; echo old >@root/.sim/machine-id' }
    effective: { by: [reboot], expect: facts.identity.machine_id == \"same\" }
";
    let apply = "rollout: { reboot: allow }\napply:\n  - { recipe: stack, on: all }\n";
    let stage = SimulatedProject::new(1, apply, &[("stack", steps)]);
    stage.write_host_file("n1", ".sim/boot-id", "boot-1\n");
    stage.write_host_file("n1", ".sim/machine-id", "same\n");
    stage.write_host_file("n1", ".sim/reboot", &format!("{REBOOT}echo same >\"$root/.sim/machine-id\"\n"));
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), ran.report.hosts[0].reboots.len()), (0, 1), "{:#?}", ran.report);
    assert_eq!(read_log(&stage), ["reboot"]);
}

/// A run that was killed after the configuration and before the reboot.
#[test]
fn pending_kernel_arguments_are_loaded_by_the_next_run() {
    let stage = booted_project("reboot: allow");
    stage.write_host_file("n1", "next", "iommu=pt");
    let ran = stage.run_once();
    let step = ran.plan.hosts[0].steps.iter().find(|step| &*step.id.step == "arguments").unwrap();
    assert_eq!((step.verdict, ran.plan.count_steps().awaited), (StepVerdict::Pending, 1));
    assert_eq!(
        (list_reboot_steps(&ran), ran.exit_code()),
        (vec!["early/arguments".to_owned()], 0),
        "{:#?}",
        ran.report
    );
    assert_eq!(read_log(&stage), ["reboot", "driver"]);
}

#[test]
fn reboot_never_leaves_the_step_pending_and_skips_dependents() {
    let stage = booted_project("reboot: never");
    let ran = stage.run_once();
    let driver = ran.plan.hosts[0].steps.iter().find(|step| &*step.id.recipe == "driver").unwrap();
    assert_eq!(driver.waits_for.as_deref(), Some(&crate::plan::UnmetDependency::on_step("early/arguments")));
    assert!(ran.plan.hosts[0].window.is_none());
    assert_eq!((ran.exit_code(), ran.host_outcome("n1")), (10, HostOutcome::Skipped), "{:#?}", ran.report);
    let why = "pending: configured, not loaded: `iommu=pt` is missing; needs a reboot";
    assert_eq!(ran.describe_step("n1", "early/arguments"), why);
    assert_eq!((read_log(&stage), stage.read_file("n1", ".sim/boot-id").as_str()), (Vec::new(), "boot-1\n"));
}

#[test]
fn max_disruption_below_reboot_keeps_the_step_pending() {
    let mut stage = booted_project("reboot: allow");
    stage.policy = PlanPolicy { max_disruption: DisruptionClass::D2, ..PlanPolicy::default() };
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), read_log(&stage)), (10, Vec::new()), "{:#?}", ran.report);
    assert_eq!(stage.read_file("n1", "next"), "iommu=pt", "it is configured all the same");
}

/// A container has the command line of its machine: rebooting the container would not change it.
#[test]
fn container_is_not_rebooted_for_kernel_arguments() {
    let stage = booted_project("reboot: allow");
    stage.write_host_file("n1", ".sim/container", "systemd-nspawn\n");
    stage.write_host_file("n1", "next", "iommu=pt");
    let ran = stage.run_once();
    assert!(ran.plan.hosts[0].window.is_none(), "{:#?}", ran.plan);
    assert_eq!((ran.exit_code(), read_log(&stage)), (10, Vec::new()));
}

/// An installed kernel without its initramfs: the host would not come up.
#[test]
fn no_host_reboots_into_a_kernel_without_its_initramfs() {
    let stage = booted_project("reboot: allow");
    ["vmlinuz-6.1.0-9", "vmlinuz-6.1.0-10", "initrd.img-6.1.0-9"]
        .iter()
        .for_each(|file| stage.create_host_file("n1", &format!(".sim/boot/{file}")));
    let ran = stage.run_once();
    let why = "blocked: configured, not loaded: `iommu=pt` is missing; needs a reboot; not rebooted: the next kernel \
               6.1.0-10 has no initramfs; build it or set another default kernel";
    assert_eq!((ran.describe_step("n1", "early/arguments").as_str(), ran.exit_code()), (why, 3), "{:#?}", ran.report);
    assert_eq!((read_log(&stage), stage.read_file("n1", ".sim/boot-id").as_str()), (Vec::new(), "boot-1\n"));
    stage.create_host_file("n1", ".sim/boot/initrd.img-6.1.0-10");
    assert_eq!((stage.run_once().exit_code(), read_log(&stage)), (0, vec!["reboot".to_owned(), "driver".to_owned()]));
}

/// A host whose kernels all boot without an initramfs is not affected.
#[test]
fn a_host_whose_kernels_need_no_initramfs_reboots() {
    let stage = booted_project("reboot: allow");
    stage.create_host_file("n1", ".sim/boot/vmlinuz-6.1.0-9");
    assert_eq!((stage.run_once().exit_code(), read_log(&stage)), (0, vec!["reboot".to_owned(), "driver".to_owned()]));
}

/// A reboot that makes nothing effective takes the host out of service for nothing. Once is enough.
#[test]
fn reboot_without_effect_is_not_repeated_until_the_recipe_changes_something() {
    let steps = "steps:
  - name: option
    file: { path: '@root/option', content: x, @own }
    effective: { by: [reboot], check: 'test -e @root/in-force' }
";
    let apply = "rollout: { reboot: allow }\napply:\n  - { recipe: early, on: all }\n";
    let stage = SimulatedProject::new(1, apply, &[("early", steps)]);
    stage.write_host_file("n1", ".sim/boot-id", "boot-1\n");
    stage.write_host_file("n1", ".sim/reboot", REBOOT);
    let first = stage.run_once();
    assert_eq!((first.report.hosts[0].reboots.len(), read_log(&stage)), (1, vec!["reboot".to_owned()]));
    assert_ne!(first.exit_code(), 0, "{:#?}", first.report);
    for _ in 0..2 {
        let again = stage.run_once();
        assert!(again.plan.hosts[0].window.is_none(), "{:#?}", again.plan);
        assert_eq!((again.exit_code(), read_log(&stage).len()), (10, 1), "{:#?}", again.report);
        let why = "pending: needs reboot; the reboot for it had no effect";
        assert_eq!(again.describe_step("n1", "early/option"), why);
    }
    // The repair of the file is a change of this boot: now a reboot may help.
    stage.write_host_file("n1", "option", "edited");
    let repaired = stage.run_once();
    assert_eq!((repaired.report.hosts[0].reboots.len(), read_log(&stage).len()), (1, 2), "{:#?}", repaired.report);
}

/// Only a reboot of forge that was seen to have no effect counts. A step that was effective in an earlier boot is not
/// proof of anything about a state that came later.
#[test]
fn step_that_became_ineffective_after_a_foreign_reboot_is_rebooted_for() {
    let steps = "steps:
  - name: option
    file: { path: '@root/option', content: x, @own }
    effective: { by: [reboot], check: 'test -e @root/in-force' }
";
    let apply = "rollout: { reboot: allow }\napply:\n  - { recipe: early, on: all }\n";
    let stage = SimulatedProject::new(1, apply, &[("early", steps)]);
    stage.write_host_file("n1", ".sim/boot-id", "boot-1\n");
    stage.write_host_file("n1", ".sim/reboot", &format!("{REBOOT}touch \"$root/in-force\"\n"));
    assert_eq!((stage.run_once().exit_code(), read_log(&stage).len()), (0, 1));
    // Somebody reboots the host, and later the state is lost.
    stage.write_host_file("n1", ".sim/boot-id", "boot-of-somebody\n");
    std::fs::remove_file(stage.host_root("n1").join("in-force")).unwrap();
    let ran = stage.run_once();
    assert_eq!((ran.exit_code(), read_log(&stage).len()), (0, 2), "{:#?}", ran.report);
    // One that had no effect is forgotten once the step is effective.
    std::fs::remove_file(stage.host_root("n1").join("in-force")).unwrap();
    stage.write_host_file("n1", ".sim/reboot", REBOOT);
    assert_ne!(stage.run_once().exit_code(), 0);
    assert_eq!((stage.run_once().exit_code(), read_log(&stage).len()), (10, 3), "not repeated");
    stage.create_host_file("n1", "in-force");
    assert_eq!(stage.run_once().exit_code(), 0);
    std::fs::remove_file(stage.host_root("n1").join("in-force")).unwrap();
    stage.run_once();
    assert_eq!(read_log(&stage).len(), 4, "rebooted again");
}

/// A step that turns out to be unknown in the run keeps the host in service. The arguments are in the boot menu by then.
#[test]
fn configured_arguments_are_pending_if_the_window_does_not_open() {
    let stage = booted_project("reboot: allow");
    let odd = "  - { name: odd, command: { check: 'test ! -s @root/next || exit 7; false', apply: 'true' } }\n";
    stage.write_recipe("early", &format!("{EARLY}{odd}"));
    let ran = stage.run_once();
    let told = ran.describe_step("n1", "early/arguments");
    let parts = ["pending: configured, not loaded: `iommu=pt` is missing; needs a reboot; ", "`early/odd` is unknown"];
    assert!(told.starts_with(parts[0]) && told.contains(parts[1]), "{told} {:#?}", ran.report);
    assert_eq!((stage.read_file("n1", "next").as_str(), read_log(&stage)), ("iommu=pt", Vec::new()));
}
