//! Consequences of changes (`docs/rollout.md`): forge is killed between a change and its consequence, before each of
//! the first two acting scripts there. The next run, from another machine without knowledge of the first, completes the
//! work, and a third one has nothing to do.

pub(super) mod programs;

use super::simulated_project::SimulatedProject;
use super::{booted, nodes, window};

/// A change and its consequence on a host.
struct FollowUpScenario {
    /// Creates the host on which the change is due.
    stage: fn() -> SimulatedProject,
    /// Returns whether the change is made and its consequence is missing.
    between: fn(&SimulatedProject) -> bool,
    /// Returns whether the consequence is done.
    done: fn(&SimulatedProject) -> bool,
}

const HOST: &str = "n1";

/// Number of scripts between the two before each of which forge is killed.
const MOMENTS: u32 = 2;

impl FollowUpScenario {
    fn holds_wherever_forge_is_killed(&self) {
        let mut between = 0;
        for number in 0.. {
            let mut stage = (self.stage)();
            if let Some(ran) = stage.run_killed_before(HOST, number) {
                assert!(ran.exit_code() == 0 && (self.done)(&stage), "undisturbed: {:#?}", ran.report);
                break;
            }
            match ((self.between)(&stage), between) {
                (false, 0) => continue,
                (false, _) | (true, MOMENTS) => break,
                (true, _) => between += 1,
            }
            stage.controller = "other".to_owned();
            let ran = stage.run_once();
            assert!(ran.exit_code() == 0 && (self.done)(&stage), "killed before script {number}: {:#?}", ran.report);
            expect_nothing_to_do(&stage);
        }
        assert!(between > 0, "never killed between the two ends");
    }
}

fn expect_nothing_to_do(stage: &SimulatedProject) {
    let ran = stage.run_once();
    let counts = ran.plan.count_steps();
    assert_eq!((ran.exit_code(), counts.change, counts.awaited), (0, 0, 0), "{:#?}", ran.plan);
    assert!(ran.plan.hosts[0].window.is_none(), "{:#?}", ran.plan);
}

fn has_line(stage: &SimulatedProject, file: &str, text: &str) -> bool {
    stage.read_file(HOST, file).lines().any(|line| line == text)
}

fn has_file(stage: &SimulatedProject, file: &str) -> bool {
    stage.has_file(HOST, file)
}

fn is_rebooted(stage: &SimulatedProject) -> bool {
    !has_line(stage, ".sim/boot-id", "boot-1")
}

/// A host with recipes of these steps in order, on which reboots are permitted.
fn project_with_recipes(recipes: &[(&str, &str)]) -> SimulatedProject {
    let apply: String = recipes.iter().map(|(name, _)| format!("  - {{ recipe: {name}, on: all }}\n")).collect();
    let stage = SimulatedProject::new(1, &format!("rollout: {{ reboot: allow }}\napply:\n{apply}"), recipes);
    programs::install_programs(&stage, HOST);
    stage
}

/// Returns a step of a shipped recipe unchanged, without the order that its recipe defines.
fn read_shipped_step(recipe: &str, step: &str) -> String {
    let path = format!("{}/recipes/{recipe}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let recipe: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let steps = recipe["steps"].as_array().unwrap();
    let found = steps.iter().find(|own| own["name"] == step).unwrap_or_else(|| panic!("no step `{step}` in {path}"));
    let mut found = found.as_object().unwrap().clone();
    ["needs", "after", "when", "long"].iter().for_each(|key| drop(found.remove(*key)));
    // The stack has another name in this test.
    for name in found["restart_on"].as_array_mut().unwrap() {
        *name = name.as_str().unwrap().replace("mlnx-ofed/", "stack/").into();
    }
    found["restart_on"]
        .as_array_mut()
        .unwrap()
        .retain(|name| ["stack/installed", "openibd/reloaded"].map(Some).contains(&name.as_str()));
    format!("  - {}\n", serde_json::Value::Object(found))
}

const CONFIG: &str = "steps:
  - { name: config, file: { path: '@root/etc/demo.conf', content: \"VERSION\\n\", @own } }
  - { name: service, restart_on: [config], service: { name: demo.service, enabled: true, state: running } }
";

fn changed_input_restarts_the_service() -> FollowUpScenario {
    FollowUpScenario {
        stage: || {
            let stage = project_with_recipes(&[("demo", &CONFIG.replace("VERSION", "one"))]);
            assert_eq!(stage.run_once().exit_code(), 0);
            stage.write_recipe("demo", &CONFIG.replace("VERSION", "two"));
            stage
        },
        between: |stage| has_line(stage, "etc/demo.conf", "two") && has_line(stage, "units/demo.service", "one"),
        done: |stage| has_line(stage, "units/demo.service", "two"),
    }
}

fn unit_stopped_for_a_window_is_started_again() -> FollowUpScenario {
    FollowUpScenario {
        stage: window::driver_project,
        between: |stage| has_file(stage, "fm-1.0-1") && !has_file(stage, "units/fm.service"),
        done: |stage| has_file(stage, "units/fm.service"),
    }
}

fn opened_window_is_closed() -> FollowUpScenario {
    FollowUpScenario {
        stage: window::driver_project,
        between: |stage| has_file(stage, "state/window.json") && has_file(stage, "units/fm.service"),
        done: |stage| !has_file(stage, "state/window.json"),
    }
}

fn cordoned_node_is_uncordoned() -> FollowUpScenario {
    FollowUpScenario {
        stage: nodes::cordoned_project,
        between: |stage| has_line(stage, "node", "cordoned"),
        done: |stage| has_line(stage, "node", "free"),
    }
}

const OPTION: &str = "options nvidia NVreg_EnableGpuFirmware=0";
const BLACKLIST: &str = "blacklist nouveau";

fn module_option_is_written_to_the_initramfs() -> FollowUpScenario {
    FollowUpScenario {
        stage: || early_image_project(OPTION, "booted: false", true),
        between: |stage| has_file(stage, "etc/early.conf") && !is_in_image(stage, OPTION),
        done: |stage| is_in_image(stage, OPTION) && !is_rebooted(stage),
    }
}

fn module_blacklist_is_written_to_the_initramfs() -> FollowUpScenario {
    FollowUpScenario {
        stage: || early_image_project(BLACKLIST, "booted: false", true),
        between: |stage| has_file(stage, "etc/early.conf") && !is_in_image(stage, BLACKLIST),
        done: |stage| is_in_image(stage, BLACKLIST) && !is_rebooted(stage),
    }
}

fn new_initramfs_triggers_a_reboot() -> FollowUpScenario {
    FollowUpScenario {
        stage: || early_image_project(OPTION, "booted: true", false),
        between: |stage| is_in_image(stage, OPTION) && !is_rebooted(stage),
        done: is_rebooted,
    }
}

/// A host that must have a line for the module loader in its initramfs; `made` says whether an image already exists.
fn early_image_project(line: &str, booted: &str, made: bool) -> SimulatedProject {
    let steps = format!(
        "steps:
  - {{ name: line, file: {{ path: '@root/etc/early.conf', content: \"{line}\\n\", @own }} }}
  - {{ name: image, after: [line], initramfs: {{ files: ['@root/etc/early.conf'], {booted} }} }}
"
    );
    let stage = project_with_recipes(&[("early", &steps)]);
    if made {
        let program = stage.host_root(HOST).join(".sim/bin/update-initramfs");
        assert!(std::process::Command::new(program).status().unwrap().success());
    }
    stage
}

fn is_in_image(stage: &SimulatedProject, line: &str) -> bool {
    stage.read_file(HOST, ".sim/boot/initrd.img-6.1.0-9").contains(line)
}

fn kernel_arguments_trigger_a_reboot() -> FollowUpScenario {
    let loaded = |stage: &SimulatedProject| stage.read_file(HOST, ".sim/cmdline").contains("iommu=pt");
    FollowUpScenario {
        stage: || booted::booted_project("reboot: allow"),
        between: |stage| stage.read_file(HOST, "next") == "iommu=pt" && has_line(stage, ".sim/cmdline", "ro"),
        done: loaded,
    }
}

fn file_read_at_boot_triggers_a_reboot() -> FollowUpScenario {
    FollowUpScenario {
        stage: || window::window_project(1, "reboot: allow"),
        between: |stage| has_file(stage, "configured/first") && !has_file(stage, "loaded/first"),
        done: |stage| has_file(stage, "loaded/first"),
    }
}

const BOOTED: &str = "steps:
  - { name: config, file: { path: '@root/etc/demo.conf', content: two, @own } }
  - { name: booted, restart_on: [config], reboot: {} }
";

fn changed_input_of_a_reboot_step_triggers_a_reboot() -> FollowUpScenario {
    FollowUpScenario {
        stage: || project_with_recipes(&[("demo", BOOTED)]),
        between: |stage| has_file(stage, "etc/demo.conf") && !is_rebooted(stage),
        done: is_rebooted,
    }
}

/// An installed RDMA stack: the old one is loaded.
const STACK: &str = "steps:
  - name: installed
    disruption: D2
    command:
      check: 'grep -qx new @root/disk/mlx5_core/srcversion'
      apply: 'echo new >@root/disk/mlx5_core/srcversion; touch @root/disk/ib_core/file @root/ofed'
    effective: { by: [reload, reboot], check: 'grep -qx new /sys/module/mlx5_core/srcversion' }
";

/// A host with the old stack on disk and loaded, and the recipe of the new one before `others`.
fn rdma_project(others: &[(&str, &str)]) -> SimulatedProject {
    let recipes: Vec<(&str, &str)> = [("stack", STACK)].iter().chain(others).copied().collect();
    let stage = project_with_recipes(&recipes);
    let files = [
        ("disk/mlx5_core/srcversion", "old\n"),
        ("disk/ib_core/file", ""),
        ("disk/nvidia/version", "560.35.03\n"),
        ("disk/nvidia_peermem/depends", "nvidia,ib_core\n"),
        ("disk/nvidia_peermem/file", ""),
        ("disk/beegfs/vermagic", "6.1.0-9 SMP\n"),
        ("disk/beegfs/file", ""),
        ("sys/module/mlx5_core/srcversion", "old\n"),
        ("sys/module/nvidia_peermem/initstate", "live\n"),
        ("sys/bus/pci/devices/0000:44:00.0/net/ens1/mtu", "9000\n"),
        ("sys/bus/pci/devices/0000:44:00.0/net/ens1/ecn/roce_np/enable/3", "1\n"),
        ("sys/bus/pci/devices/0000:44:00.0/net/ens1/ecn/roce_rp/enable/3", "1\n"),
        ("sys/bus/pci/devices/0000:44:00.0/net/ens1/ecn/roce_np/cnp_dscp", "48\n"),
        ("sys/bus/pci/devices/0000:44:00.0/net/ens1/ecn/roce_np/cnp_802p_prio", "6\n"),
        ("qos", "dscp\n"),
    ];
    files.iter().for_each(|(file, text)| stage.write_host_file(HOST, file, text));
    let built = ["disk/nvidia_peermem/file", "disk/beegfs/file"].map(|file| stage.host_root(HOST).join(file));
    let hour_ago = std::process::Command::new("touch").args(["-d", "1 hour ago"]).args(built).status();
    assert!(hour_ago.unwrap().success());
    stage
}

/// The recipe that reloads the stack, with the shipped step.
fn reload_recipe() -> String {
    format!("needs: ['stack@configured']\nsteps:\n{}", read_shipped_step("openibd", "reloaded"))
}

fn is_loaded(stage: &SimulatedProject) -> bool {
    has_line(stage, "sys/module/mlx5_core/srcversion", "new")
}

fn is_installed(stage: &SimulatedProject) -> bool {
    has_line(stage, "disk/mlx5_core/srcversion", "new")
}

fn rdma_stack_is_reloaded_by_openibd() -> FollowUpScenario {
    FollowUpScenario {
        stage: || rdma_project(&[("openibd", &reload_recipe())]),
        between: |stage| is_installed(stage) && !is_loaded(stage),
        done: |stage| is_loaded(stage) && !is_rebooted(stage),
    }
}

fn rdma_stack_is_reloaded_by_the_reboot() -> FollowUpScenario {
    FollowUpScenario {
        stage: || rdma_project(&[]),
        between: |stage| is_installed(stage) && !is_loaded(stage),
        done: |stage| is_loaded(stage) && is_rebooted(stage),
    }
}

const PEERMEM: &str = "needs: [openibd]
during: { openibd: { unloaded: [nvidia_peermem] } }
steps:
  - { name: module, kernel_module: { name: nvidia_peermem, loaded: true } }
";

fn rdma_stack_reload_loads_peermem_again() -> FollowUpScenario {
    FollowUpScenario {
        stage: || rdma_project(&[("openibd", &reload_recipe()), ("peermem", PEERMEM)]),
        between: |stage| is_loaded(stage) && !has_file(stage, "sys/module/nvidia_peermem"),
        done: |stage| is_loaded(stage) && has_file(stage, "sys/module/nvidia_peermem"),
    }
}

fn rdma_stack_reload_restores_roce_settings() -> FollowUpScenario {
    FollowUpScenario {
        stage: || {
            let params = "params: { adapters: { type: list, default: ['0000:44:00.0'] }, priority: { type: int, default: 3 }, \
                          mtu: { type: int, default: 9000 }, cnp_dscp: { type: int, default: 48 }, cnp_priority: { type: int, default: 6 }, tos: { type: int, default: 106 } }";
            let roce = format!("{params}\nneeds: [openibd]\nsteps:\n{}", read_shipped_step("roce", "in force"));
            rdma_project(&[("openibd", &reload_recipe()), ("roce", &roce)])
        },
        between: |stage| is_loaded(stage) && !has_file(stage, "qos"),
        done: |stage| is_loaded(stage) && has_file(stage, "qos"),
    }
}

/// Reports whether one file of a host was written after another.
fn is_newer(stage: &SimulatedProject, one: &str, other: &str) -> bool {
    let written = |file: &str| stage.host_root(HOST).join(file).metadata().unwrap().modified().unwrap();
    written(one) > written(other)
}

fn new_rdma_stack_rebuilds_peermem() -> FollowUpScenario {
    FollowUpScenario {
        stage: || {
            let built =
                format!("needs: [stack]\nsteps:\n{}", read_shipped_step("nvidia-peermem", "built for the stack"));
            rdma_project(&[("peermem", &built)])
        },
        between: |stage| is_installed(stage) && is_newer(stage, "disk/ib_core/file", "disk/nvidia_peermem/file"),
        done: |stage| is_newer(stage, "disk/nvidia_peermem/file", "disk/ib_core/file"),
    }
}

fn new_rdma_stack_rebuilds_beegfs() -> FollowUpScenario {
    FollowUpScenario {
        stage: || {
            let params = "params: { ofed_include: { type: text, default: '' } }";
            let built = format!("{params}\nneeds: [stack]\nsteps:\n{}", read_shipped_step("beegfs-client", "module"));
            rdma_project(&[("beegfs", &built.replace("params.ofed_include", "(vars.root ~ '/ofed')"))])
        },
        between: |stage| is_installed(stage) && is_newer(stage, "ofed", "disk/beegfs/file"),
        done: |stage| is_newer(stage, "disk/beegfs/file", "ofed"),
    }
}

fn driver_change_updates_packages_tied_to_its_version() -> FollowUpScenario {
    FollowUpScenario {
        stage: window::driver_project,
        between: |stage| has_file(stage, "driver") && !has_file(stage, "fm-1.0-1"),
        done: |stage| has_file(stage, "fm-1.0-1"),
    }
}

/// A row of the document, identified by its first two columns, and its test.
type ScenarioRow = (&'static str, &'static str, &'static str, fn() -> FollowUpScenario);

macro_rules! edges {
    ($($change:literal => $follows:literal: $($edge:ident),+;)+) => {
        const EDGES: &[ScenarioRow] = &[$($(($change, $follows, stringify!($edge), $edge as fn() -> FollowUpScenario)),+),+];
        mod wherever_forge_is_killed {
            $($(#[test]
            fn $edge() {
                super::$edge().holds_wherever_forge_is_killed();
            })+)+
        }
    };
}

edges! {
    "input of a service" => "restart": changed_input_restarts_the_service;
    "unit stopped for a maintenance window" => "start": unit_stopped_for_a_window_is_started_again;
    "maintenance window opened" => "close of the window": opened_window_is_closed;
    "Kubernetes node cordoned" => "uncordon of the node": cordoned_node_is_uncordoned;
    "module option, blacklist" => "rebuild of the initramfs": module_option_is_written_to_the_initramfs, module_blacklist_is_written_to_the_initramfs;
    "initramfs" => "reboot, if the step declares one": new_initramfs_triggers_a_reboot;
    "kernel arguments" => "reboot": kernel_arguments_trigger_a_reboot;
    "file read at boot" => "reboot": file_read_at_boot_triggers_a_reboot, changed_input_of_a_reboot_step_triggers_a_reboot;
    "RDMA stack" => "reload by `openibd`, or the window's reboot": rdma_stack_is_reloaded_by_openibd, rdma_stack_is_reloaded_by_the_reboot;
    "RDMA stack reloaded" => "load of `nvidia_peermem`": rdma_stack_reload_loads_peermem_again;
    "RDMA stack reloaded" => "RoCE settings": rdma_stack_reload_restores_roce_settings;
    "RDMA stack" => "rebuild of `nvidia_peermem` and the BeeGFS client":
        new_rdma_stack_rebuilds_peermem, new_rdma_stack_rebuilds_beegfs;
    "driver version" => "update of everything tied to the version": driver_change_updates_packages_tied_to_its_version;
}

/// Every row of the document has a test, and every test belongs to a row.
#[test]
fn documented_consequences_match_the_tested_scenarios() {
    let docs = include_str!("../../../../docs/rollout.md");
    let (_, section) = docs.split_once("## Consequences of a change").unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells);
    let listed: Vec<(String, String)> = rows.map(|row| (row[1].clone(), row[2].clone())).collect();
    let mut proven: Vec<(String, String)> = EDGES.iter().map(|row| (row.0.to_owned(), row.1.to_owned())).collect();
    proven.dedup();
    assert_eq!(listed, proven);
}
