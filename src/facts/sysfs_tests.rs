//! Runs snippets in a real shell, over file trees that replace a host's `/sys` and `/proc/driver`.

use super::*;
use crate::probe::ProbeOutput;
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// A tree of files in a separate folder.
struct SysfsTree(tempfile::TempDir);

impl SysfsTree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("a folder"));
        ["sys/bus/pci/devices", "sys/bus/pci/drivers/mlx5_core", "sys/bus/pci/drivers/nvidia", "sys/class/infiniband"]
            .iter()
            .for_each(|dir| std::fs::create_dir_all(tree.path().join(dir)).expect("is made"));
        tree
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn with_file(self, path: &str, body: impl AsRef<[u8]>) -> Self {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("is made");
        std::fs::write(path, body).expect("is written");
        self
    }

    fn with_link(self, path: &str, target: &str) -> Self {
        std::os::unix::fs::symlink(target, self.path().join(path)).expect("is linked");
        self
    }

    /// Adds a PCI device; `config` are the first bytes of its configuration.
    fn with_pci_device(
        self,
        bdf: &str,
        [vendor, class, device]: [&str; 3],
        driver: Option<&str>,
        config: &[u8],
    ) -> Self {
        let dir = format!("sys/bus/pci/devices/{bdf}");
        let tree = [
            ("vendor", vendor),
            ("class", class),
            ("device", device),
            ("numa_node", "0"),
            ("current_link_width", "16"),
        ]
        .into_iter()
        .fold(self, |tree, (leaf, text)| tree.with_file(&format!("{dir}/{leaf}"), format!("{text}\n")))
        .with_file(&format!("{dir}/config"), config);
        match driver {
            Some(driver) => tree.with_link(&format!("{dir}/driver"), &format!("../../drivers/{driver}")),
            None => tree,
        }
    }

    /// Adds an RDMA device with one port.
    fn with_rdma_device(self, name: &str, bdf: &str, layer: &str, rate: &str) -> Self {
        let dir = format!("sys/class/infiniband/{name}");
        let files = [
            ("node_guid", "c470:bd03:00cf:4964"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/phys_state", "5: LinkUp"),
            ("ports/1/link_layer", layer),
            ("ports/1/rate", rate),
            ("ports/1/gids/0", "fe80:0000:0000:0000:c470:bd03:00cf:4964"),
            ("ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000"),
        ];
        files
            .into_iter()
            .fold(self, |tree, (leaf, text)| tree.with_file(&format!("{dir}/{leaf}"), format!("{text}\n")))
            .with_link(&format!("{dir}/device"), &format!("../../../bus/pci/devices/{bdf}"))
    }

    /// Runs the snippet of a fact over the tree and parses its output.
    fn read_fact(&self, name: &str) -> Value {
        let fact = all_facts().iter().find(|fact| fact.name == name).expect("is a fact");
        let root = self.path().to_str().expect("is text");
        let code = fact.snippet.snippet.replace("/sys/", &format!("{root}/sys/"));
        let code = code.replace("/proc/driver/", &format!("{root}/proc/driver/"));
        let output =
            Command::new("dash").arg("-c").arg(format!("need() {{ :; }}\n{code}")).output().expect("dash starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("is text");
        let status = output.status.code().expect("it ended");
        let output = ProbeOutput {
            status,
            stdout: text(output.stdout).into(),
            stderr: text(output.stderr).into(),
            ..ProbeOutput::default()
        };
        (fact.parse)(&output).expect("is known")
    }
}

const B200: [&str; 3] = ["0x10de", "0x030200", "0x2901"];
const SWITCH: [&str; 3] = ["0x10de", "0x068000", "0x22a3"];
const INFINIBAND: [&str; 3] = ["0x15b3", "0x020700", "0x1021"];
const ETHERNET: [&str; 3] = ["0x15b3", "0x020000", "0x1021"];
const ALIVE: &[u8] = &[0xde, 0x10, 0x01];
const DEAD: &[u8] = &[0xff, 0xff, 0xff];

fn b200_tree() -> SysfsTree {
    SysfsTree::new()
        .with_pci_device("0000:18:00.0", B200, Some("nvidia"), ALIVE)
        .with_pci_device("0000:2a:00.0", B200, None, DEAD)
        .with_pci_device("0000:3a:00.0", INFINIBAND, Some("mlx5_core"), ALIVE)
        .with_pci_device("0000:3b:00.0", INFINIBAND, Some("mlx5_core"), ALIVE)
        .with_file("sys/bus/pci/devices/0000:3a:00.0/vpd", b"\x82\x00ConnectX-7\x00")
        .with_file("sys/bus/pci/devices/0000:3b:00.0/vpd", b"\x82\x00V3SW_MNG\x00")
        .with_rdma_device("mlx5_0", "0000:3a:00.0", "InfiniBand", "400 Gb/sec (4X NDR)")
        .with_rdma_device("mlx5_1", "0000:3b:00.0", "InfiniBand", "400 Gb/sec (4X NDR)")
}

#[test]
fn gpus_are_enumerated_from_the_pci_bus() {
    let gpus = b200_tree().with_pci_device("0000:05:00.0", SWITCH, None, ALIVE).read_fact("gpus");
    let told: Vec<_> = ["bdf", "driver", "answers"].iter().map(|key| gpus[0][key].clone()).collect();
    assert_eq!(told, [json!("0000:18:00.0"), json!("nvidia"), json!(true)]);
    assert_eq!((&gpus[1]["driver"], &gpus[1]["answers"]), (&Value::Null, &json!(false)));
    assert_eq!(gpus.as_array().map(Vec::len), Some(2), "a switch is not a GPU");
    assert_eq!(gpus[0]["gsp"]["unknown"], "no NVIDIA driver is loaded");
}

#[test]
fn gsp_firmware_is_read_from_each_gpus_own_file() {
    let sample = include_str!("../../tests/samples/information-gsp-on.txt");
    let gpus = b200_tree()
        .with_file("proc/driver/nvidia/version", include_str!("../../tests/samples/version-open.txt"))
        .with_file("proc/driver/nvidia/params", "EnableGpuFirmware: 0\nEnableGpuFirmwareLogs: 2\n")
        .with_file("proc/driver/nvidia/gpus/0000:18:00.0/information", sample)
        .read_fact("gpus");
    assert_eq!((&gpus[0]["gsp"], &gpus[0]["gsp_firmware"]), (&json!("on"), &json!("580.173.02")));
    assert_eq!(gpus[1]["gsp"]["unknown"], "the loaded driver does not manage this GPU");
}

#[test]
fn nvswitch_bridge_adapters_are_distinguished() {
    let tree = b200_tree();
    let nvswitch = tree.read_fact("nvswitch");
    assert_eq!((&nvswitch["bridges"], &nvswitch["required"]), (&json!(["0000:3b:00.0"]), &json!(true)));
    let rdma = tree.read_fact("rdma");
    let told: Vec<_> =
        rdma.as_array().expect("a list").iter().map(|d| (d["name"].clone(), d["bridge"].clone())).collect();
    assert_eq!(told, [(json!("mlx5_0"), json!(false)), (json!("mlx5_1"), json!(true))]);
    assert_eq!(rdma[0]["pcie"], json!({ "width": 16, "max_width": null, "max_speed": null }));
}

#[test]
fn unreadable_vpd_leaves_bridge_unknown() {
    let tree = b200_tree();
    std::fs::remove_file(tree.path().join("sys/bus/pci/devices/0000:3b:00.0/vpd")).expect("is removed");
    // Reading a folder fails even for root.
    std::fs::create_dir(tree.path().join("sys/bus/pci/devices/0000:3b:00.0/vpd")).expect("is made");
    assert_eq!(tree.read_fact("nvswitch")["required"]["unknown"], "product data of `0000:3b:00.0` cannot be read");
    assert_eq!(tree.read_fact("rdma")[1]["bridge"]["unknown"], "its product data cannot be read");
    let switched = tree.with_pci_device("0000:05:00.0", SWITCH, None, ALIVE);
    assert_eq!(
        switched.read_fact("nvswitch")["required"],
        true,
        "with switches on the bus the product data is not read"
    );
    assert_eq!(switched.read_fact("rdma")[1]["bridge"], false);
}

#[test]
fn roce_port_uses_settings_of_its_interface() {
    let port = "sys/class/infiniband/mlx5_2/ports/1";
    let tree = SysfsTree::new()
        .with_pci_device("0000:1b:00.0", ETHERNET, Some("mlx5_core"), ALIVE)
        .with_rdma_device("mlx5_2", "0000:1b:00.0", "Ethernet", "200 Gb/sec (4X HDR)")
        .with_file("sys/bus/pci/devices/0000:1b:00.0/net/ens9np0/mtu", "9000\n")
        .with_file(&format!("{port}/gids/3"), "0000:0000:0000:0000:0000:ffff:0a00:0e1f\n")
        .with_file(&format!("{port}/gid_attrs/types/3"), "RoCE v2\n")
        .with_file(&format!("{port}/gid_attrs/ndevs/3"), "bond0\n")
        .with_file("sys/class/net/ens9np0/mtu", "9000\n")
        .with_file("sys/class/net/ens9np0/ecn/roce_np/cnp_dscp", "48\n")
        .with_file("sys/class/net/bond0/mtu", "1500\n");
    let roce = tree.read_fact("roce");
    assert_eq!(
        (&roce[0]["netdev"], &roce[0]["mtu"], &roce[0]["cnp_dscp"]),
        (&json!("ens9np0"), &json!(9000), &json!(48))
    );
    let rdma = tree.read_fact("rdma");
    assert_eq!((&rdma[0]["ports"][0]["class"], &rdma[0]["ports"][0]["netdev"]), (&json!("roce"), &json!("bond0")));
    assert_eq!(rdma[0]["ports"][0]["roce_gid_index"], Value::Null, "the address is on another interface");
    let bonded =
        tree.with_link("sys/bus/pci/devices/0000:1b:00.0/net/ens9np0/master", "../../../../../../class/net/bond0");
    assert_eq!(bonded.read_fact("rdma")[0]["ports"][0]["roce_gid_index"], 3, "which is a bond of its own");
    let rdma = bonded.read_fact("rdma");
    assert_eq!(rdma[0]["netdevs"], json!(["ens9np0"]));
    assert_eq!(rdma[0]["ports"][0]["gids"][1]["ipv4"], "10.0.14.31");
}

/// `mlx5_bond_0`: the second function of the bond has an interface and no RDMA device.
#[test]
fn every_function_of_a_bond_has_an_entry() {
    let (one, two, other) = ("0000:1b:00.0", "0000:1b:00.1", "0000:1c:00.0");
    let mut tree = SysfsTree::new();
    for (bdf, name) in [(one, "ens9f0np0"), (two, "ens9f1np1"), (other, "ens10np0")] {
        tree = tree
            .with_pci_device(bdf, ETHERNET, Some("mlx5_core"), ALIVE)
            .with_file(&format!("sys/bus/pci/devices/{bdf}/net/{name}/mtu"), "9000\n")
            .with_file(&format!("sys/class/net/{name}/mtu"), "9000\n")
            .with_file(&format!("sys/class/net/{name}/operstate"), "up\n")
            .with_file(&format!("sys/class/net/{name}/speed"), "200000\n")
            .with_link(&format!("sys/class/net/{name}/device"), &format!("../../../bus/pci/devices/{bdf}"));
    }
    tree = tree.with_file("sys/class/net/bond0/mtu", "9000\n");
    for name in ["ens9f0np0", "ens9f1np1"] {
        tree = tree
            .with_link(&format!("sys/class/net/{name}/master"), "../bond0")
            .with_link(&format!("sys/class/net/bond0/lower_{name}"), &format!("../{name}"));
    }
    let tree = tree
        .with_rdma_device("mlx5_bond_0", one, "Ethernet", "200 Gb/sec (4X HDR)")
        .with_rdma_device("mlx5_1", other, "Ethernet", "200 Gb/sec (4X HDR)")
        .with_file(&format!("sys/bus/pci/devices/{one}/infiniband/mlx5_bond_0/x"), "")
        .with_file(&format!("sys/bus/pci/devices/{other}/infiniband/mlx5_1/x"), "")
        .with_file("sys/class/net/ens9f1np1/ecn/roce_np/cnp_dscp", "48\n");
    let roce = tree.read_fact("roce");
    let list = roce.as_array().expect("a list");
    let of = |field: &str, device: &str| -> Vec<Value> {
        list.iter().filter(|port| port["hca"] == device).map(|port| port[field].clone()).collect()
    };
    assert_eq!(of("bdf", "mlx5_bond_0"), [json!(one), json!(two)]);
    assert_eq!(of("netdev", "mlx5_bond_0"), [json!("ens9f0np0"), json!("ens9f1np1")]);
    assert_eq!(of("rate", "mlx5_bond_0"), [json!(200), json!(200)]);
    assert_eq!(of("cnp_dscp", "mlx5_bond_0"), [Value::Null, json!(48)]);
    assert_eq!(of("bdf", "mlx5_1"), [json!(other)]);
}

#[test]
fn missing_sysfs_is_unknown_not_empty() {
    let facts = ["gpus", "nvswitch", "rdma", "rdma_netns", "gdr", "iommu", "governor"];
    for fact in all_facts().iter().filter(|fact| facts.contains(&fact.name)) {
        let code = fact.snippet.snippet.replace("/sys/", "/nonexistent/sys/");
        let output =
            Command::new("dash").arg("-c").arg(format!("need() {{ :; }}\n{code}")).output().expect("dash starts");
        assert_eq!(output.status.code(), Some(1), "{}", fact.name);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("/sys") && output.stdout.is_empty(), "{}: {said}", fact.name);
    }
}
