//! The complete built-in stacks: from a bare server to a verified one with one reboot, tampered with in every recipe at
//! once, and repaired with the plan that drift saves.

use super::facts::{each, facts, list};
use super::{apply, archive, boots, digest, document, settled, with_hardware};
use crate::support::{Node, Project};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The stack `name` on a board, with its tampers: the step that drift must find, and the script. Recipes that only
/// check have none: no plan repairs their findings (`faults.rs`).
struct Shipped<'a> {
    name: &'a str,
    text: &'a str,
    board: &'a str,
    tampers: &'a [(&'a str, &'a str)],
}

impl Shipped<'_> {
    /// Applies the stack to a bare server, tampers with it and repairs it. `bare` and `holds` check the server before
    /// and after the first apply.
    fn is_carried(&self, with: impl Fn(&Node) -> String, bare: impl Fn(&Project), holds: impl Fn(&Node, &Project)) {
        let Some(nodes) = with_hardware(self.board, 1) else { return };
        let node = &nodes[0];
        let project = Project::new(&nodes);
        bare(&project);
        let project = project.inventory(&format!(
            "rollout: {{ reboot: allow }}\napply:\n  - {{ recipe: {}, on: all, with: {{ {} }} }}\n",
            self.name,
            with(node)
        ));
        let before = node.boot_id();
        let out = apply(&project);
        assert_eq!(out.code, 0, "{out}");
        assert!(out.stdout.contains("simulated, no real hardware: "), "{out}");
        rebooted_once(&project, node, &before);
        let applied = applied_recipes(&document(&project, "report.json"));
        holds(node, &project);
        settled(&project);
        self.is_repaired(node, &project);
        // Parts of the stack that this inventory did not ask for are not proven.
        let name = |line: &str| Some(line.split_once("recipe: ")?.1.split([',', ' ']).next()?.to_owned());
        let proven = |line: &&str| name(line).is_none_or(|name| name == self.name || applied.contains(&name));
        crate::proof::mark_profile(
            &self.text.lines().filter(proven).map(|line| format!("{line}\n")).collect::<String>(),
        );
    }

    fn is_repaired(&self, node: &Node, project: &Project) {
        let before = boots(node);
        self.tampers.iter().for_each(|(_, script)| drop(node.must(script)));
        let out = project.forge(["drift", "inventory.yaml", "--format", "json", "--plan-out", "repair.json"]);
        assert_eq!(out.code, 2, "{out}");
        let found = found(&serde_json::from_str(&out.stdout).expect("a document"));
        for (step, script) in self.tampers {
            let there = found.iter().any(|found| found == step || found.split('[').next() == Some(step));
            assert!(there, "`{script}` is not found at `{step}`: {found:?}");
        }
        let out = project.forge(["apply", "repair.json", "--yes"]);
        assert_eq!(out.code, 0, "{out}");
        assert_eq!(boots(node), before, "repaired without a reboot: {out}");
        let out = apply(project);
        assert!(out.code == 0 && out.stdout.contains("no changes:"), "{out}");
        let out = project.forge(["drift", "inventory.yaml"]);
        assert_eq!(out.code, 0, "{out}");
    }
}

fn rebooted_once(project: &Project, node: &Node, before: &str) {
    let report = document(project, "report.json");
    assert_eq!(report["report"]["simulated"], json!([node.name]));
    let reboots = &report["report"]["hosts"][0]["reboots"];
    assert_eq!(reboots.as_array().map(Vec::len), Some(1), "{reboots}");
    assert_eq!((&reboots[0]["from"], &reboots[0]["to"]), (&json!(before), &json!(node.boot_id())));
}

/// Returns the recipes that were applied to the stack's host.
fn applied_recipes(report: &Value) -> BTreeSet<String> {
    let host = &report["report"]["hosts"][0];
    let of = |list: &str, path: &str| -> Vec<String> {
        let all = host[list].as_array().into_iter().flatten();
        all.filter_map(|one| one.pointer(path)?.as_str()).map(str::to_owned).collect()
    };
    of("steps", "/id/recipe").into_iter().chain(of("verify", "/recipe")).collect()
}

/// Returns the steps with findings, as `recipe/step`.
fn found(drift: &Value) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = drift["drift"]["findings"].as_array().expect("a list").iter();
    let steps = findings.filter(|found| found["aspect"] == "step");
    steps.map(|found| format!("{}/{}", text(&found["recipe"]), text(&found["step"]))).collect()
}

/// A second subnet manager of the fabric, as a package installs it.
const OPENSM: &str = "printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' >/etc/systemd/system/opensm.service
    systemctl -q enable --now opensm.service";

const H100: Shipped<'_> = Shipped {
    name: "h100-node",
    text: include_str!("../../../recipes/h100-node.yaml"),
    board: "h100x8-ndr",
    tampers: &[
        ("base-freeze/download timer", "systemctl -q unmask apt-daily.timer"),
        ("base-hold/held", "apt-mark -qq unhold linux-headers-$(uname -r)"),
        ("kernel-headers/toolchain", "dpkg --remove libelf-dev >/dev/null"),
        ("nouveau/blacklisted", "sed -i '/^blacklist/d' /etc/modprobe.d/forge-nouveau.conf"),
        ("kernel-cmdline/arguments", "sed -i 's/ iommu=pt//' /boot/grub/grub.cfg"),
        ("pcie-acs/in force", "setpci -s 0000:15:01.0 ECAP_ACS+0x6.w=001d"),
        ("host-tuning/numa balancing", "sysctl -qw kernel.numa_balancing=1"),
        ("mlnx-ofed/program", "rm /usr/local/sbin/forge-mlnx-ofed"),
        ("rdma-modules/loaded[rdma_ucm]", "rmmod rdma_ucm"),
        ("ibacm-off/masked[ibacm.socket]", "systemctl -q unmask ibacm.socket"),
        ("subnet-manager/no other manager[opensm.service]", OPENSM),
        ("nvidia-gsp/module option", "sed -i s/Firmware=0/Firmware=1/ /etc/modprobe.d/forge-nvidia.conf"),
        ("nvidia-driver/packages", "apt-mark -qq unhold cuda-drivers-560"),
        ("nvidia-fabricmanager/service", "systemctl -q disable nvidia-fabricmanager"),
        ("nvidia-persistenced/drop-in", "rm /etc/systemd/system/nvidia-persistenced.service.d/10-forge.conf"),
        ("nvidia-peermem/module", "rmmod nvidia_peermem"),
        ("dcgm/service", "systemctl stop nvidia-dcgm"),
    ],
};

#[test]
fn h100_stack_converges_and_is_repaired() {
    let ofed = "24.10-0.7.0.0";
    let with = |node: &Node| {
        format!(
            "driver: 560.35.03, flavor: proprietary, gsp: \"off\", gdr: peermem, ib_ports: 4, eth_hcas: 2, ofed: {ofed}, \
             ofed_archive: {{ path: {}, sha256: {} }}",
            archive(ofed),
            digest(node, ofed)
        )
    };
    H100.is_carried(with, super::facts::of_a_bare_server, |node, project| {
        let facts = facts(project);
        assert_eq!(each(list(&facts, "gpus"), "/gsp"), [json!("off")], "the option must exist before the first load");
        let told = (&facts["gdr"]["value"]["path"], &facts["acs"]["value"]["redirecting"]);
        assert_eq!(told, (&json!("peermem"), &json!([])));
        assert!(node.must("cat /proc/cmdline").contains(" iommu=pt "));
        a_gpu_is_missing_for_the_manager_alone(node, project);
    });
}

/// Rows of switches look like rows of GPUs, and the board has four switches.
fn a_gpu_is_missing_for_the_manager_alone(node: &Node, project: &Project) {
    assert!(node.must("dcgmi discovery -l").contains("4 NvSwitches found."));
    node.must("sed -i.kept 's/i <= n; i++/i < n; i++/' /usr/bin/dcgmi");
    let out = project.forge(["verify", "inventory.yaml"]);
    assert!(out.code != 0 && out.stdout.contains("dcgm: it sees every GPU"), "{out}");
    node.must("mv /usr/bin/dcgmi.kept /usr/bin/dcgmi");
}

const NVLINK5: Shipped<'_> = Shipped {
    name: "nvlink5-node",
    text: include_str!("../../../recipes/nvlink5-node.yaml"),
    board: "b200x8",
    tampers: &[
        ("base-freeze/upgrade timer", "systemctl -q unmask apt-daily-upgrade.timer"),
        ("base-hold/held", "apt-mark -qq unhold nvidia-fabricmanager"),
        ("kernel-headers/headers", "dpkg --remove linux-headers-$(uname -r) >/dev/null"),
        ("nouveau/blacklisted", "rm /etc/modprobe.d/forge-nouveau.conf"),
        ("kernel-cmdline/arguments", "rm /etc/default/grub.d/60-forge.cfg"),
        ("host-tuning/login limits", "rm /etc/security/limits.d/90-rdma.conf"),
        ("doca-ofed/installed", "apt-mark -qq unhold doca-ofed"),
        ("rdma-modules/loaded[ib_uverbs]", "rm /etc/modules-load.d/forge-ib_uverbs.conf"),
        ("ibacm-off/masked[ibacm.service]", "systemctl -q unmask ibacm.service"),
        ("subnet-manager/no other manager[opensm.service]", OPENSM),
        ("nvidia-driver/packages", "apt-mark -qq unhold nvidia-open-580"),
        ("nvidia-fabricmanager/nvlink 5 tools", "dpkg --remove nvlsm >/dev/null"),
        ("nvidia-imex/package", "apt-get -qq install nvidia-imex >/dev/null"),
        ("nvidia-persistenced/service", "systemctl stop nvidia-persistenced"),
        (
            "nvidia-peermem/comes back with the stack",
            "echo 'softdep ib_core post: nvidia_peermem' >/etc/modprobe.d/nvidia-peermem.conf",
        ),
        ("dcgm/service", "systemctl -q disable nvidia-dcgm"),
    ],
};

/// First checks that drivers which such a board cannot use are rejected. The functions that manage its switches are on
/// the bus as adapters, but are not adapters.
#[test]
fn nvlink5_stack_converges_and_is_repaired() {
    let with = |_: &Node| "driver: 580.105.08, doca: 3.2.0-1, ib_ports: 8".to_owned();
    NVLINK5.is_carried(with, super::boards::blackwell_is_refused, |node, project| {
        let facts = facts(project);
        let nvswitch = &facts["nvswitch"]["value"];
        let told = [&nvswitch["count"], &nvswitch["required"], &nvswitch["imex"], &facts["gdr"]["value"]["path"]];
        assert_eq!(told, [&json!(0), &json!(true), &json!(false), &json!("dmabuf")]);
        assert_eq!(nvswitch["bridges"].as_array().map(Vec::len), Some(4));
        let bridges = list(&facts, "rdma").iter().filter(|device| device["bridge"] == true).count();
        assert_eq!((bridges, list(&facts, "rdma").len()), (4, 12));
        assert_eq!(node.must("cat /run/nvidia-fabricmanager/version"), "580.105.08");
        assert!(!node.exists("/usr/bin/nvidia-imex"));
    });
}

const ROCE: Shipped<'_> = Shipped {
    name: "roce-node",
    text: include_str!("../../../recipes/roce-node.yaml"),
    board: "h100x8-roce",
    tampers: &[
        ("base-freeze/apt settings", "rm /etc/apt/apt.conf.d/99forge-freeze"),
        ("base-hold/held", "apt-mark -qq unhold nvidia-fabricmanager"),
        ("kernel-headers/toolchain", "dpkg --remove pkg-config >/dev/null"),
        ("nouveau/blacklisted", "sed -i s/modeset=0/modeset=1/ /etc/modprobe.d/forge-nouveau.conf"),
        ("kernel-cmdline/arguments", "sed -i 's/ iommu=pt//' /etc/default/grub.d/60-forge.cfg"),
        ("pcie-acs/service", "systemctl -q disable forge-pcie-acs"),
        ("host-tuning/service limits[containerd]", "rm /etc/systemd/system/containerd.service.d/90-rdma.conf"),
        ("doca-ofed/installed", "apt-mark -qq unhold doca-ofed"),
        ("rdma-modules/loaded[ib_umad]", "rmmod ib_umad"),
        ("ibacm-off/masked[ibacm.socket]", "systemctl -q unmask ibacm.socket"),
        (
            "roce/in force",
            "echo 0 >/sys/class/net/ens9np0/ecn/roce_np/enable/3; mlnx_qos -i ens11np0 --trust=pcp >/dev/null; ip link set ens13np0 mtu 1500",
        ),
        ("roce/handshake marks congestion", "sysctl -qw net.ipv4.tcp_ecn=2"),
        ("nvidia-driver/packages", "apt-mark -qq unhold nvidia-open-580"),
        ("nvidia-fabricmanager/service", "systemctl stop nvidia-fabricmanager"),
        ("nvidia-persistenced/drop-in", "rm /etc/systemd/system/nvidia-persistenced.service.d/10-forge.conf"),
        (
            "nvidia-peermem/comes back with the stack",
            "echo 'softdep ib_core post: nvidia_peermem' >/etc/modprobe.d/nvidia-peermem.conf",
        ),
        ("dcgm/package", "dpkg --remove datacenter-gpu-manager-4-cuda13 >/dev/null"),
    ],
};

/// The settings of the ports are restored after a reboot, which resets them.
#[test]
fn roce_stack_converges_and_is_repaired() {
    let adapters = "[\"0000:18:00.0\", \"0000:40:00.0\", \"0000:9a:00.0\", \"0000:ce:00.0\"]";
    let with = |_: &Node| format!("driver: 580.105.08, doca: 3.2.0-1, adapters: {adapters}");
    ROCE.is_carried(
        with,
        |_| (),
        |node, project| {
            node.stop();
            node.start();
            let facts = facts(project);
            let ports = list(&facts, "roce");
            let third = json!([false, false, false, true, false, false, false, false]);
            for (field, is) in [
                ("/trust", json!("dscp")),
                ("/pfc", third.clone()),
                ("/ecn", json!({ "np": third, "rp": third })),
                ("/pause", json!({ "rx": false, "tx": false })),
                ("/mtu", json!(9000)),
            ] {
                assert_eq!(each(ports, field), [is], "{field}");
            }
            assert_eq!((ports.len(), &ports[0]["netdev"]), (4, &json!("ens9np0")));
        },
    );
}
