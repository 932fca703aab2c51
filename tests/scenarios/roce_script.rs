//! The program of the recipe `roce`, run over a file tree that replaces a host's `/sys`: two functions in a bond, whose
//! one RDMA device is `mlx5_bond_0`, and an adapter of its own. The adapter's tools are replaced by programs that print
//! what theirs print (Mellanox/mlnx-tools: `mlnx_qos`, `cma_roce_mode`, `cma_roce_tos`).

use super::recipes::rendered;
use super::script_host::{ScriptHost, ScriptRun};
use serde_json::json;

const ONE: &str = "0000:1b:00.0";
const TWO: &str = "0000:1b:00.1";
const THREE: &str = "0000:44:00.0";

const PROGRAMS: [(&str, &str); 5] = [
    ("ip", r#"echo "$4 $6" >>ROOT/log/ip; echo "$6" >"ROOT/sys/class/net/$4/mtu""#),
    (
        "mlnx_qos",
        r#"case "$*" in
*--dcbx=os*) echo OS >"ROOT/qos/$2.dcbx" ;;
*--trust=dscp*) echo dscp >"ROOT/qos/$2.trust"; echo "$5" | tr , ' ' >"ROOT/qos/$2.pfc" ;;
esac
echo "DCBX mode: $(cat "ROOT/qos/$2.dcbx" 2>/dev/null || echo Firmware) controlled"
echo "Priority trust state: $(cat "ROOT/qos/$2.trust" 2>/dev/null || echo pcp)"
printf '\tenabled     %s\n' "$(cat "ROOT/qos/$2.pfc" 2>/dev/null || echo 0 0 0 0 0 0 0 0)""#,
    ),
    ("ethtool", r#"[ "$1" = -A ] && exit 78; printf 'Pause parameters for %s:\nRX:\t\toff\nTX:\t\toff\n' "$2""#),
    ("cma_roce_mode", r#"echo "$2" >>ROOT/log/cma; [ -e "ROOT/sys/class/infiniband/$2" ] || exit 1; cat ROOT/mode"#),
    ("cma_roce_tos", r#"[ -e "ROOT/sys/class/infiniband/$2" ] || exit 1; echo "$6""#),
];

/// A host with that tree, and the recipe's program and check for it.
struct Tree {
    host: ScriptHost,
    program: String,
    check: String,
}

impl Tree {
    fn new() -> Self {
        let case = json!({ "host": "h100-bare", "with": { "adapters": [ONE, TWO, THREE] }, "facts": { "pci": [
            { "bdf": ONE, "vendor": "0x15b3", "device": "0x1021", "class": "0x020000", "driver": "mlx5_core" },
            { "bdf": TWO, "vendor": "0x15b3", "device": "0x1021", "class": "0x020000", "driver": "mlx5_core" },
            { "bdf": THREE, "vendor": "0x15b3", "device": "0x1021", "class": "0x020000", "driver": "mlx5_core" },
        ] } });
        let (program, _) = rendered("roce", &case, "program");
        let (_, command) = rendered("roce", &case, "in force");
        let check = command["check"]["check"].as_str().unwrap().to_owned();
        let host = ScriptHost::new(&["/sys/", "/run/forge-roce"]);
        PROGRAMS.iter().for_each(|(name, text)| host.add_program(name, text));
        let tree = Self { host, program, check };
        ["log/ip", "log/cma", "qos/x"].iter().for_each(|file| tree.write(file, ""));
        tree.write("mode", "RoCE v2\n");
        tree.write("sys/class/net/bond0/mtu", "1500\n");
        tree.write("sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
        for (bdf, name, device) in
            [(ONE, "ens9f0np0", Some("mlx5_bond_0")), (TWO, "ens9f1np1", None), (THREE, "ens11np0", Some("mlx5_2"))]
        {
            let net = format!("sys/class/net/{name}");
            for (file, text) in [
                ("mtu", "1500\n"),
                ("ecn/roce_np/enable/3", "0\n"),
                ("ecn/roce_rp/enable/3", "0\n"),
                ("ecn/roce_np/cnp_dscp", "0\n"),
                ("ecn/roce_np/cnp_802p_prio", "0\n"),
            ] {
                tree.write(&format!("{net}/{file}"), text);
            }
            tree.write(&format!("sys/bus/pci/devices/{bdf}/vendor"), "0x15b3\n");
            tree.host.link(&format!("sys/bus/pci/devices/{bdf}/net/{name}"), &net);
            if bdf != THREE {
                tree.host.link(&format!("{net}/master"), "sys/class/net/bond0");
            }
            if let Some(device) = device {
                tree.write(&format!("sys/class/infiniband/{device}/node_guid"), "g\n");
                let class = format!("sys/class/infiniband/{device}");
                tree.host.link(&format!("sys/bus/pci/devices/{bdf}/infiniband/{device}"), &class);
            }
        }
        tree
    }

    fn write(&self, path: &str, text: &str) {
        self.host.write(path, text);
    }

    fn read(&self, path: &str) -> String {
        self.host.read(path)
    }

    fn run(&self, script: &str) -> ScriptRun {
        self.host.run(script)
    }

    #[track_caller]
    fn set(&self) {
        let ran = self.run(&self.program);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    }

    fn is_in_force(&self) -> bool {
        self.run(&self.check).status == Some(0)
    }
}

#[test]
fn every_interface_of_a_bond_is_set_through_its_one_rdma_device() {
    let tree = Tree::new();
    assert!(!tree.is_in_force(), "nothing is set yet");
    tree.set();
    for name in ["ens9f0np0", "ens9f1np1", "ens11np0"] {
        let read = |file: &str| tree.read(&format!("sys/class/net/{name}/{file}")).trim().to_owned();
        let set = ["mtu", "ecn/roce_np/enable/3", "ecn/roce_rp/enable/3", "ecn/roce_np/cnp_dscp"].map(read);
        assert_eq!(set, ["9000", "1", "1", "48"], "{name}");
        assert_eq!(tree.read(&format!("qos/{name}.pfc")), "0 0 0 1 0 0 0 0\n");
        assert_eq!(tree.read(&format!("qos/{name}.dcbx")), "OS\n", "firmware would revert it");
    }
    assert_eq!(tree.read("log/cma"), "mlx5_bond_0\nmlx5_2\n");
    assert_eq!(tree.read("sys/class/net/bond0/mtu"), "9000\n", "RDMA over the bond takes its MTU");
    assert_eq!(tree.read("run/forge-roce/mlx5_bond_0"), "RoCE v2 106\n");
    assert!(tree.is_in_force());
    tree.set();
    assert!(tree.is_in_force(), "set again");
}

#[test]
fn refused_roce_version_fails_the_unit() {
    let tree = Tree::new();
    tree.write("mode", "IB/RoCE v1\n");
    let ran = tree.run(&tree.program);
    assert_eq!(
        (ran.status, ran.stderr.as_str()),
        (Some(1), "connections of mlx5_bond_0 use 'IB/RoCE v1', not RoCE v2\n")
    );
    assert!(!tree.is_in_force());
}

#[test]
fn lost_setting_is_noticed() {
    let other: [(&str, &str); 6] = [
        ("sys/class/net/bond0/mtu", "1500\n"),
        ("sys/class/net/ens9f1np1/ecn/roce_np/cnp_dscp", "0\n"),
        ("qos/ens9f1np1.trust", "pcp\n"),
        ("qos/ens9f0np0.dcbx", "Firmware\n"),
        ("run/forge-roce/mlx5_bond_0", "IB/RoCE v1 106\n"),
        ("sys/kernel/config/rdma_cm/mlx5_2/ports/1/default_roce_mode", "IB/RoCE v1\n"),
    ];
    for (path, text) in other {
        let tree = Tree::new();
        tree.set();
        tree.write(path, text);
        assert!(!tree.is_in_force(), "{path}");
        tree.set();
        assert_eq!(tree.is_in_force(), !path.contains("/config/"), "{path} after it is set again");
    }
}

#[test]
fn function_without_an_interface_fails_with_its_address() {
    let tree = Tree::new();
    tree.host.remove(&format!("sys/bus/pci/devices/{TWO}/net/ens9f1np1"));
    let said = tree.run(&tree.program).stderr;
    assert_eq!(said, "0000:1b:00.1 has no network interface\n");
}
