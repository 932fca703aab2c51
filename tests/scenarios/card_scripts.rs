//! The scripts of the recipes `nic-firmware`, `mig`, `mlnx-ofed`, `gdrcopy`, `gds`, `nvidia-driver` and `host-tuning`, run over a file tree that replaces a host's `/sys`, with programs
//! in place of the vendor's tools. Their output has the form of published recordings: `mstflint q` from the tests of
//! openstack/ironic-python-agent and the source of Mellanox/mstflint (`FW Version(Running)` appears until the reset),
//! `mstconfig query` from NVIDIA's documentation of mstconfig, `nvidia-smi -L` from an A100 with seven instances.

use super::recipes::{rendered, rendered_check, rendered_effect};
use super::script_host::ScriptHost;
use serde_json::{Value, json};

/// Builds a host with these programs.
fn build_host(programs: &[(&str, &str)]) -> ScriptHost {
    let host = ScriptHost::new(&["/sys/class", "/sys/bus", "/sys/module", "/usr/local/src/"]);
    programs.iter().for_each(|(name, text)| host.add_program(name, text));
    host
}

/// Runs a script; returns its exit status and what it printed to stderr.
fn run(host: &ScriptHost, script: &str) -> (i32, String) {
    let ran = host.run(script);
    (ran.status.unwrap(), ran.stderr)
}

fn script<'v>(command: &'v Value, part: &str) -> &'v str {
    command.pointer(part).and_then(Value::as_str).unwrap_or_else(|| panic!("{command}"))
}

const MSTFLINT: &str = r#"case $1 in
-i) printf 'Image type:            FS4\nFW Version:            28.43.1014\nPSID:                  %s\n' "$(cat ROOT/image-psid)" ;;
-d)
  case $3 in
  q)
    [ -e ROOT/flash ] || { echo "-E- Cannot open Device: $2. No such file or directory. MFE_CR_ERROR"; exit 1; }
    printf 'Image type:            FS4\nFW Version:            %s\n' "$(cat ROOT/flash)"
    [ "$(cat ROOT/flash)" = 28.39.1002 ] || printf 'FW Version(Running):   28.39.1002\n'
    printf 'FW Release Date:       28.10.2022\nProduct Version:       28.43.1014\nPSID:                  MT_0000000838\n'
    ;;
  -i) [ "$5 $6" = '-y burn' ] || exit 2; echo "$2" >>ROOT/burned; echo 28.43.1014 >ROOT/flash ;;
  esac ;;
esac"#;

const MSTCONFIG: &str = r#"last=; for last; do :; done
case $last in
query)
  printf '\nDevice #1:\n----------\n\nDevice type:    ConnectX7\nPCI device:     %s\n\nConfigurations:                              Next Boot\n' "$2"
  for port in 1 2; do printf '         LINK_TYPE_P%s                                %s\n' $port "$(cat ROOT/link-$port)"; done ;;
*) shift 4; for value; do case $value in *=2) echo 'ETH(2)' ;; *) echo 'IB(1)' ;; esac >"ROOT/link-$(echo "$value" | cut -c12)"; done ;;
esac"#;

/// A card with two functions of one flash, whose image is there.
fn card() -> ScriptHost {
    let host = build_host(&[("mstflint", MSTFLINT), ("mstconfig", MSTCONFIG)]);
    for (device, bdf) in [("mlx5_0", "0000:40:00.0"), ("mlx5_1", "0000:40:00.1")] {
        host.write(&format!("sys/class/infiniband/{device}/board_id"), "MT_0000000838\n");
        host.write(&format!("sys/class/infiniband/{device}/fw_ver"), "28.39.1002\n");
        host.write(&format!("sys/bus/pci/devices/{bdf}/class"), "0x020700\n");
        host.link(&format!("sys/class/infiniband/{device}/device"), format!("sys/bus/pci/devices/{bdf}"));
    }
    host.write("flash", "28.39.1002\n");
    host.write("image-psid", "MT_0000000838\n");
    host
}

fn firmware_case() -> Value {
    json!({ "host": "h100-bare", "with": {
        "firmware": { "MT_0000000838": {
            "version": "28.43.1014", "url": "https://mirror.example/fw.bin", "sha256": "a".repeat(64),
        } },
        "link_types": { "0000:40:00.0": "eth" },
    } })
}

#[test]
fn firmware_is_burned_once_per_card_and_judged_by_its_flash() {
    let (_, command) = rendered("nic-firmware", &firmware_case(), "firmware[MT_0000000838]");
    let (check, apply) = (script(&command, "/check/check"), script(&command, "/apply"));
    let host = card();
    assert_eq!(run(&host, check), (1, String::new()), "the flash has another version");
    assert_eq!(run(&host, apply), (0, String::new()));
    assert_eq!(host.read("burned"), "0000:40:00.0\n", "the second function has the same flash");
    assert_eq!(
        run(&host, check),
        (0, String::new()),
        "until the reset the old version runs, and the flash has the new one"
    );
    assert_eq!(run(&host, apply), (0, String::new()));
    assert_eq!(host.read("burned"), "0000:40:00.0\n", "applied again");
}

#[test]
fn image_of_another_product_is_not_burned() {
    let (_, command) = rendered("nic-firmware", &firmware_case(), "firmware[MT_0000000838]");
    let host = card();
    host.write("image-psid", "MT_0000000228\n");
    let said = "the image is of PSID MT_0000000228, not MT_0000000838\n".to_owned();
    assert_eq!(run(&host, script(&command, "/apply")), (1, said));
    assert_eq!(host.read("burned"), "");
}

#[test]
fn adapter_without_an_answer_is_unknown() {
    let (_, command) = rendered("nic-firmware", &firmware_case(), "firmware[MT_0000000838]");
    let host = card();
    host.remove("flash");
    let (status, said) = run(&host, script(&command, "/check/check"));
    assert_eq!((status, said.contains("-E- Cannot open Device")), (2, true), "{said}");
}

#[test]
fn link_type_of_every_port_of_a_card_is_set() {
    let (_, command) = rendered("nic-firmware", &firmware_case(), "link type[0000:40:00.0]");
    let (check, apply) = (script(&command, "/check/check"), script(&command, "/apply"));
    let host = card();
    host.write("link-1", "ETH(2)\n");
    host.write("link-2", "IB(1)\n");
    assert_eq!(run(&host, check), (1, String::new()), "the second port is of InfiniBand");
    assert_eq!(run(&host, apply), (0, String::new()));
    assert_eq!((host.read("link-1"), host.read("link-2")), ("ETH(2)\n".to_owned(), "ETH(2)\n".to_owned()));
    assert_eq!(run(&host, check), (0, String::new()));
}

const NVIDIA_SMI: &str = r#"gpus=$(cd ROOT/gpus && ls)
case "$*" in
-L)
  for gpu in $gpus; do
    echo "GPU $gpu: NVIDIA H100 80GB HBM3 (UUID: GPU-9434a402-0d94-4ef8-93d0-0528ee662e9$gpu)"
    at=0
    for name in $(cat "ROOT/gpus/$gpu"); do
      printf '  MIG %-11s Device  %s: (UUID: MIG-e138a708-679d-5075-ab88-ba8e298ec5d%s)\n' "$name" "$at" "$at"
      at=$((at + 1))
    done
  done ;;
--query-gpu=mig.mode.current*) cat ROOT/modes ;;
'-mig 1') sed -i s/Disabled/Enabled/ ROOT/modes; echo "$2" >>ROOT/mode-set ;;
'mig -i '*' -dci') [ -s "ROOT/gpus/$3" ] || { echo 'No compute instances found: Not Found'; exit 6; } ;;
'mig -i '*' -dgi') [ -s "ROOT/gpus/$3" ] || { echo 'No GPU instances found: Not Found'; exit 6; }; : >"ROOT/gpus/$3" ;;
'mig -i '*' -cgi '*' -C')
  [ ! -e ROOT/refused ] || { cat ROOT/refused; exit 15; }
  echo "$3" >>ROOT/created; echo "$5" | tr , ' ' >"ROOT/gpus/$3" ;;
*) exit 2 ;;
esac"#;

#[test]
fn instances_are_created_on_gpus_that_have_others() {
    let case = json!({
        "host": "h100-bare",
        "with": { "layout": ["3g.40gb", "2g.20gb", "1g.10gb"] },
        "beside": [
            { "recipe": "nvidia-fabricmanager" },
            { "recipe": "nvidia-driver", "with": { "version": "580.105.08", "flavor": "open" } },
        ],
    });
    let (program, _) = rendered("mig", &case, "program");
    let (_, command) = rendered("mig", &case, "in force");
    let check = script(&command, "/check/check");
    let host = build_host(&[("nvidia-smi", NVIDIA_SMI)]);
    host.write("sys/module/nvidia/version", "580.105.08\n");
    host.write("gpus/0", "1g.10gb 2g.20gb 3g.40gb\n");
    host.write("gpus/1", "7g.80gb\n");
    host.write("gpus/2", "");
    host.write("modes", "Enabled\nDisabled\nEnabled\n");
    assert_eq!(run(&host, check).0, 1);
    let (status, said) = run(&host, &program);
    assert_eq!(status, 0, "{said}");
    assert_eq!(host.read("created"), "1\n2\n", "the order of instances does not count");
    assert_eq!(run(&host, check).0, 0);
    assert_eq!(run(&host, &program).0, 0);
    assert_eq!(host.read("created"), "1\n2\n", "nothing is created again");
    assert_eq!(host.read("mode-set"), "1\n", "the mode is set where a reboot ended it, and once");
    host.write("refused", "Unable to create a GPU instance on GPU  1 using profile 9: Insufficient Resources\n");
    host.write("gpus/1", "");
    let said = host.read("refused") + "GPU 1: the instances 3g.40gb, 2g.20gb, 1g.10gb cannot be created\n";
    assert_eq!(run(&host, &program), (1, said), "missing instances are not reported");
    host.remove("sys/module/nvidia/version");
    assert_eq!(run(&host, check), (2, "the driver is not loaded\n".to_owned()));
}

/// Runs the check of an archive of MLNX_OFED that contains 24.10-0.7.0.0, or of none.
fn check_archive(host: &ScriptHost, version: &str, digest: &str) -> (i32, String) {
    let archive = json!({ "path": "/srv/ofed.tgz", "sha256": digest });
    let case = json!({ "host": "h100-bare", "with": { "version": version, "archive": archive } });
    let (_, command) = rendered("mlnx-ofed", &case, "archive on the host");
    run(host, script(&command, "/check/check"))
}

#[test]
fn archive_of_the_stack_is_compared_before_the_window() {
    let host = ScriptHost::new(&["/srv/"]);
    host.add_program("ofed_info", "cat ROOT/installed");
    host.add_program("modinfo", "cat ROOT/module");
    let zeros = "0".repeat(64);
    host.write("srv/MLNX_OFED_LINUX-24.10-0.7.0.0-debian12-x86_64/mlnxofedinstall", "");
    host.write("installed", "MLNX_OFED_LINUX-23.10-0.5.5.0:\n");
    host.write("module", "/lib/modules/6.1.0/updates/dkms/mlx5_core.ko\n");
    let (status, said) = check_archive(&host, "24.10-0.7.0.0", &zeros);
    assert_eq!(status, 1, "another recipe may bring it in the same run");
    assert!(said.contains("ofed.tgz does not exist"), "{said}");
    let pack = "cd /srv/ && tar -czf ofed.tgz MLNX_OFED_LINUX-* && sha256sum <ofed.tgz";
    let digest = host.run(pack).stdout[..64].to_owned();
    let (status, said) = check_archive(&host, "24.10-0.7.0.0", &zeros);
    assert_eq!(status, 3);
    assert!(said.ends_with(&format!("has SHA-256 {digest}, but another one is declared\n")), "{said}");
    assert_eq!(check_archive(&host, "24.10-0.7.0.0", &digest), (0, String::new()));
    let (status, said) = check_archive(&host, "24.10-1.1.4.0", &digest);
    assert_eq!(status, 3);
    let both = "contains MLNX_OFED_LINUX-24.10-0.7.0.0-debian12-x86_64, but version 24.10-1.1.4.0 is declared\n";
    assert!(said.ends_with(both), "{said}");
    assert_eq!(check_archive(&host, "23.10-0.5.5.0", &zeros), (0, String::new()), "it is installed: nothing is read");
    host.write("module", "/lib/modules/6.1.0/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko\n");
    assert_eq!(check_archive(&host, "23.10-0.5.5.0", &zeros).0, 3, "its modules are not there for this kernel");
}

const DKMS: &str = r#"case $1 in
status) cat ROOT/dkms-status ;;
*) echo "$*" >>ROOT/built; : >ROOT/module.ko ;;
esac"#;

const MODINFO: &str = r#"case "$2 $3" in
'filename nvidia') echo ROOT/driver.ko ;;
'filename gdrdrv'|'filename nvidia-fs') [ -e ROOT/module.ko ] || { echo "modinfo: ERROR: Module $3 not found." >&2; exit 1; }; echo ROOT/module.ko ;;
'filename ib_core') echo /lib/modules/6.8.0/kernel/drivers/infiniband/core/ib_core.ko ;;
*) exit 2 ;;
esac"#;

fn gpu_case(with: &Value) -> Value {
    let driver = json!({ "recipe": "nvidia-driver", "with": { "version": "570.148.08", "flavor": "open" } });
    json!({ "host": "h100", "with": with, "beside": [{ "recipe": "nvidia-fabricmanager" }, driver] })
}

/// dkms prints its status in two formats: version 3 with a slash.
#[test]
fn module_that_is_older_than_the_driver_is_rebuilt() {
    let formats =
        ["gdrdrv/2.5.1, 6.8.0-60-generic, x86_64: installed\n", "gdrdrv, 2.5.1, 6.8.0-60-generic, x86_64: installed\n"];
    for (recipe, name) in [("gdrcopy", "gdrdrv"), ("gds", "nvidia-fs")] {
        let (_, command) = rendered(recipe, &gpu_case(&json!({})), "built for the driver");
        let (check, apply) = (script(&command, "/check/check"), script(&command, "/apply"));
        for format in formats {
            let host = build_host(&[("modinfo", MODINFO), ("dkms", DKMS), ("uname", "echo 6.8.0-60-generic")]);
            host.write(
                "dkms-status",
                &format!("nvidia/570.148.08, 6.8.0-60-generic, x86_64: installed\n{}", format.replace("gdrdrv", name)),
            );
            assert_eq!(run(&host, check), (1, String::new()), "no module");
            host.write("module.ko", "");
            // The times that the check compares have a resolution of one second.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            host.write("driver.ko", "");
            assert_eq!(run(&host, check), (1, String::new()), "the driver came later");
            assert_eq!(run(&host, apply), (0, String::new()));
            let built =
                ["build", "install"].map(|verb| format!("{verb} --force -m {name} -v 2.5.1 -k 6.8.0-60-generic\n"));
            assert_eq!(host.read("built"), built.concat());
            assert_eq!(run(&host, check), (0, String::new()));
        }
    }
}

/// Runs the check of GPUDirect Storage where `gdscheck -p` prints `said`.
fn check_direct_path(storage: &[&str], said: &str) -> (i32, String) {
    let case = gpu_case(&json!({ "storage": storage, "cuda": "12.8" }));
    let check = rendered_check("gds", &case, "every GPU and the declared storage have the direct path");
    let host = ScriptHost::new(&["/usr/local/cuda-12.8/gds/tools"]);
    host.write("said", said);
    host.add_program("gdscheck", "[ \"$*\" = -p ] || exit 2\ncat ROOT/said");
    host.link("usr/local/cuda-12.8/gds/tools/gdscheck", "bin/gdscheck");
    run(&host, &check)
}

#[test]
fn direct_path_to_storage_is_read_from_gdscheck() {
    let said = include_str!("../samples/gdscheck-h100.txt");
    assert_eq!(check_direct_path(&[], said), (0, String::new()));
    assert_eq!(check_direct_path(&["NVMe", "NFS"], said), (0, String::new()));
    assert_eq!(check_direct_path(&["NVMeOF"], said), (1, "NVMeOF: Unsupported\n".to_owned()));
    assert_eq!(check_direct_path(&["NVMe", "Lustre"], said), (1, "Lustre: not listed by gdscheck\n".to_owned()));
    // reconstructed: from versions that list the paths of each file system
    let paths = said.replace("NVMe               : Supported", "NVMe               : nvfs, compat");
    assert_eq!(check_direct_path(&["NVMe"], &paths), (0, String::new()));
    let copies = said.replace("NVMe               : Supported", "NVMe               : compat");
    assert_eq!(check_direct_path(&["NVMe"], &copies), (1, "NVMe: compat\n".to_owned()), "a copy through main memory");
    let failed = said.replace(" Platform verification succeeded\n", "");
    let why = "the verification of the platform did not succeed\n".to_owned();
    assert_eq!(check_direct_path(&[], &failed), (1, why));
}

/// kmod prints the name of a module from its list, also if the file is gone, and then cannot read its version.
const DRIVER_MODINFO: &str = r#"file=ROOT/modules/$3.ko
case $2 in
filename) grep -qx "$3" ROOT/list || { echo "modinfo: ERROR: Module $3 not found." >&2; exit 1; }; echo "/lib/$3.ko" ;;
version) [ -e "$file" ] || { echo "modinfo: ERROR: could not get modinfo from '$3': No such file or directory" >&2; exit 1; }; cat "$file" ;;
esac"#;

#[test]
fn every_module_of_the_driver_is_on_disk_with_its_version() {
    let case = json!({ "host": "h100", "with": { "version": "560.35.03", "flavor": "open" },
                       "beside": [{ "recipe": "nvidia-fabricmanager" }] });
    let check = rendered_check("nvidia-driver", &case, "the driver's modules on disk are of that version");
    let host = build_host(&[("modinfo", DRIVER_MODINFO)]);
    host.write("list", "nvidia_uvm\nnvidia_modeset\n");
    host.write("modules/nvidia_uvm.ko", "560.35.03\n");
    host.write("modules/nvidia_modeset.ko", "560.35.03\n");
    assert_eq!(run(&host, &check), (0, String::new()), "nvidia_drm is not built for this kernel");
    let fails = |host: &ScriptHost, why: &str| {
        assert_eq!(run(host, &check), (1, format!("a module of the driver: {why}\n")));
    };
    host.write("modules/nvidia_modeset.ko", "550.54.15\n");
    fails(&host, "/lib/nvidia_modeset.ko is of version 550.54.15");
    std::fs::remove_file(host.path().join("modules/nvidia_uvm.ko")).unwrap();
    fails(&host, "/lib/nvidia_uvm.ko is missing; /lib/nvidia_modeset.ko is of version 550.54.15");
    host.write("list", "");
    fails(&host, "nvidia_uvm is missing");
}

/// Debian's own packages name the modules after their flavor.
#[test]
fn modules_of_the_driver_have_other_names_on_debian() {
    let case = json!({ "host": "h100", "with": { "version": "560.35.03", "flavor": "open" },
                       "beside": [{ "recipe": "nvidia-fabricmanager" }] });
    let check = rendered_check("nvidia-driver", &case, "the driver's modules on disk are of that version");
    for flavor in ["current", "current_open"] {
        let host = build_host(&[("modinfo", DRIVER_MODINFO)]);
        host.write("list", &format!("nvidia_{flavor}_uvm\nnvidia_{flavor}_drm\n"));
        host.write(&format!("modules/nvidia_{flavor}_uvm.ko"), "560.35.03\n");
        host.write(&format!("modules/nvidia_{flavor}_drm.ko"), "535.1\n");
        let why = format!("a module of the driver: /lib/nvidia_{flavor}_drm.ko is of version 535.1\n");
        assert_eq!(run(&host, &check), (1, why));
    }
}

/// Its version is unknown then, and it is not missing.
#[test]
fn module_of_the_driver_that_cannot_be_read_is_unknown() {
    let case = json!({ "host": "h100", "with": { "version": "560.35.03", "flavor": "open" },
                       "beside": [{ "recipe": "nvidia-fabricmanager" }] });
    let check = rendered_check("nvidia-driver", &case, "the driver's modules on disk are of that version");
    let host = build_host(&[("modinfo", "[ $2 = filename ] && echo ROOT/nvidia-uvm.ko.zst")]);
    let file = host.write("nvidia-uvm.ko.zst", "");
    assert_eq!(run(&host, &check), (2, format!("cannot be read: {0} {0} {0}\n", file.display())));
}

/// Found on a host that was used for passthrough: everything was verified, and the next boot had no driver.
#[test]
fn line_of_modprobe_d_that_keeps_the_driver_from_loading_is_named() {
    let case = json!({ "host": "h100", "with": { "version": "560.35.03", "flavor": "open" },
                       "beside": [{ "recipe": "nvidia-fabricmanager" }] });
    let check = rendered_check("nvidia-driver", &case, "no line of modprobe.d keeps the driver from loading");
    let folders = " /etc /run /usr/local/lib /usr/lib /lib;";
    assert!(check.contains(folders), "{check}");
    let check = check.replace(folders, &folders.replace(" /", " ROOT/"));
    let host = build_host(&[]);
    let root = format!("{}/", host.path().display());
    let run_check = || {
        let (status, said) = run(&host, &check);
        (status, said.replace(&root, "/").replace("modprobe.d keeps the driver from loading: ", ""))
    };
    assert_eq!(run_check(), (0, String::new()), "no folder exists");
    // As NVIDIA's and Debian's packages install them.
    let shipped = "# install nvidia /bin/false\nblacklist nouveau\nalias nouveau off\noptions nvidia NVreg_Mobile=1\n\
        install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\nblacklist nvidia-uvm\nblacklist nvidia_drm\n";
    host.write("usr/lib/modprobe.d/nvidia.conf", shipped);
    host.write("etc/modprobe.d/zz.conf", "install nvidia /bin/false\n");
    assert_eq!(run_check(), (0, String::new()), "the first `install` line of a module counts");
    host.write("etc/modprobe.d/nvidia.conf", "");
    assert_eq!(run_check(), (1, "/etc/modprobe.d/zz.conf:1 `install nvidia /bin/false`\n".to_owned()), "one is masked");
    host.write("etc/modprobe.d/zz.conf", "");
    host.write("etc/modprobe.d/a.conf", "\n  blacklist \\\n  nvidia\ninstall nvidia-uvm\t true\n");
    host.write("run/modprobe.d/b.conf", "alias nvidia off\nalias pci:v10DE* nvidia");
    let said = "/etc/modprobe.d/a.conf:2 `blacklist    nvidia` (at boot by its hardware; `modprobe nvidia` still loads \
        it); /etc/modprobe.d/a.conf:4 `install nvidia-uvm\t true`; /run/modprobe.d/b.conf:1 `alias nvidia off`\n";
    assert_eq!(run_check(), (1, said.to_owned()));
}

/// A service keeps the limit with which it was started, whatever its drop-in says now.
#[test]
fn service_that_runs_with_another_limit_is_pending() {
    let case = json!({ "host": "debian", "with": { "services": ["slurmd"] } });
    let check = rendered_effect("host-tuning", &case, "service limits[slurmd]");
    let host = ScriptHost::new(&["/proc/"]);
    let main_pid = |pid: &str| {
        let answer = format!(r#"[ "$*" = "show -p MainPID --value -- slurmd.service" ] || exit 2; echo {pid}"#);
        host.add_program("systemctl", &answer);
    };
    main_pid("0");
    assert_eq!(run(&host, &check), (0, String::new()), "it does not run");
    main_pid("812");
    assert_eq!(run(&host, &check).0, 2, "it has ended since");
    let limits = |soft: &str| {
        let line = format!("Max locked memory         {soft:<20} {soft:<20} bytes");
        host.write("proc/812/limits", &format!("Limit                     Soft Limit\n{line}\nMax address space\n"));
        line
    };
    let line = limits("65536");
    assert_eq!(run(&host, &check), (1, format!("process 812 still has the limit of its start: {line}\n")));
    limits("unlimited");
    assert_eq!(run(&host, &check), (0, String::new()));
}
