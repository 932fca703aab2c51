//! Whole stacks on hosts that claim to be Ubuntu, with simulated boards and with packages like those of NVIDIA's
//! repositories and Ubuntu's archive (`worlds/ubuntu.packages`): the inventories that ship with forge go from a bare
//! host to a verified one, through branches of the driver, and away, each time with a forge that is killed on the way.

use super::killed::{booted, killed_and_finished};
use super::shipped_inventory::ShippedInventory;
use super::{boots, converge};
use crate::distribution::ClaimedDistribution;
use crate::package_world::unpack_world;
use crate::support::{Fleet, Node, Nodes, Project};

/// A host as its owner hands it over: the archive in apt's sources, the keys of the other repositories on disk, and a
/// firewall that lets sshd through.
fn handed_over(distribution: ClaimedDistribution, board: &str, cuda_key: &str, doca_key: &str) -> Option<Nodes> {
    let nodes = Fleet::take(1)?;
    let node = &nodes[0];
    node.claim(distribution);
    node.profile(board);
    unpack_world(node, "ubuntu", "/srv/mirror");
    node.must(&format!(
        "cd /etc/apt/sources.list.d && rm hardware.list
        echo 'deb [trusted=yes] file:/srv/forge-repo/trade ./' >trade.list && apt-get -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends ufw >/dev/null 2>&1 && rm trade.list
        echo 'deb [trusted=yes] file:/srv/mirror/archive ./' >archive.list && apt-get -qq update
        apt-get -qq install ethtool >/dev/null
        mkdir -p /usr/share/keyrings
        cp /srv/mirror/keys/cuda.gpg {cuda_key} && cp /srv/mirror/keys/doca.gpg {doca_key}
        ufw allow 22/tcp >/dev/null && ufw --force enable >/dev/null"
    ));
    Some(nodes)
}

/// Returns the installed packages of the driver and of what must match it, with their versions, one per line.
fn driver_packages(node: &Node) -> String {
    node.must(
        "dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\\n' |
        sed -n 's/^installed //p' | { grep -e nvidia -e nvsdm -e cuda-drivers || true; } | sort",
    )
}

/// Checks that every package of the driver is of `version` and held, and that this is what runs.
fn runs(node: &Node, version: &str) {
    let packages = driver_packages(node);
    let others: Vec<&str> = packages.lines().filter(|line| !line.contains(&format!(" {version}-"))).collect();
    assert_eq!(others, [""; 0], "{packages}");
    let held = node.must("apt-mark showhold");
    let open: Vec<&str> =
        packages.lines().filter(|line| !held.lines().any(|held| line.starts_with(&format!("{held} ")))).collect();
    assert_eq!(open, [""; 0], "not held: {held}");
    assert_eq!(node.must("cat /sys/module/nvidia/version"), version);
    assert_eq!(node.must("cat /run/nvidia-fabricmanager/version"), version);
    assert_eq!(node.must("dpkg --audit; ls -A /var/lib/forge/window* 2>/dev/null || true"), "");
    super::upgrades::never_younger(node);
}

/// Checks that all recipes verify, by a run of its own.
fn is_verified(project: &Project) {
    let out = project.forge(["verify", "inventory.yaml"]);
    assert_eq!(out.code, 0, "{out}");
}

/// Marks the recipes of a stack, and the stack itself, except those that such a board leaves absent.
fn mark_stack(distribution: ClaimedDistribution, text: &str, except: &[&str]) {
    let names = text.split("recipe: ").skip(1).map(|rest| rest.split([',', '\n', ' ', '}']).next().unwrap_or_default());
    names.filter(|name| !except.contains(name)).for_each(|name| crate::proof::mark_claimed(distribution, name));
}

/// The life of a host with an inventory: versions of the driver, each with the moment at which forge is killed.
struct Life<'a> {
    distribution: ClaimedDistribution,
    board: &'a str,
    versions: &'a [(&'a str, Moment)],
}

/// When forge is killed.
enum Moment {
    /// As soon as a script succeeds on the host.
    Once(&'static str),
    /// While the host boots.
    Reboot,
}

impl Life<'_> {
    fn is_lived(&self, inventory: &ShippedInventory, text: &str, except: &[&str]) {
        let keys = (inventory.parameter("repository_key"), inventory.parameter("doca_repository_key"));
        let Some(nodes) = handed_over(self.distribution, self.board, keys.0, keys.1) else { return };
        let node = &nodes[0];
        node.fault("slow-build", true);
        let project = Project::new(&nodes);
        for (version, moment) in self.versions {
            project.rewrite(&inventory.with_driver(node, version));
            let before = boots(node);
            let moment = match moment {
                Moment::Once(script) => (*script).to_owned(),
                Moment::Reboot => booted(node, 1),
            };
            killed_and_finished(&project, node, &moment);
            assert_eq!(boots(node) - before, 1, "{version}");
            runs(node, version);
            is_verified(&project);
        }
        let declared = inventory.parameter("driver");
        assert_eq!(self.versions.last().map(|(version, _)| *version), Some(declared), "the inventory's own version");
        mark_stack(self.distribution, text, except);
        inventory.recipes().iter().for_each(|recipe| crate::proof::mark_claimed(self.distribution, recipe));
        project.rewrite(&inventory.removed(node));
        let dkms = format!("nvidia-dkms-{}-open", declared.split('.').next().unwrap_or_default());
        killed_and_finished(
            &project,
            node,
            &format!("! dpkg-query -W -f='${{db:Status-Status}}' {dkms} | grep -qx installed"),
        );
        nothing_is_left(node);
    }
}

/// Checks the files on disk and, after a boot, the loaded modules.
fn nothing_is_left(node: &Node) {
    assert_eq!(driver_packages(node), "");
    let others = "dpkg-query -W -f='${db:Status-Status} ${Package}\\n' | sed -n 's/^installed //p' |
        { grep -e datacenter-gpu -e '^doca-ofed$' -e nvlsm || true; }";
    assert_eq!(node.must(others), "");
    assert_eq!(node.must("apt-mark showhold; find /lib/modules -name 'nvidia*'"), "");
    let files = "find /etc /usr/local -path '*forge*' ! -name 'forge-hardware*' ! -path '/etc/forge*'";
    assert_eq!(node.must(files), "");
    node.stop();
    node.start();
    assert_eq!(node.must("ls /sys/module | { grep nvidia || true; }"), "");
}

const ROCE: &str = include_str!("../../../recipes/roce-node.yaml");

#[test]
fn inventory_of_h200_servers_is_applied_upgraded_and_removed_on_ubuntu() {
    let recipes = ["roce-node", "rdma-netns", "gpu-kubernetes", "rdma-firewall"];
    let inventory = ShippedInventory::read("roce-h200.yaml", &recipes, &["gpu-kubernetes"]);
    let life = Life {
        distribution: ClaimedDistribution::Ubuntu2204,
        board: "h200x8-roce",
        versions: &[
            ("550.90.07", Moment::Once("pgrep -f '[m]lnx-ofed-kernel-dkms.postinst'")),
            ("570.148.08", Moment::Once("pgrep -f '[n]vidia-dkms-570-open.postinst'")),
            ("580.105.08", Moment::Once("dpkg-query -W nvidia-fabricmanager | grep -q 580")),
        ],
    };
    life.is_lived(&inventory, ROCE, &[]);
}

const NVLINK5: &str = include_str!("../../../recipes/nvlink5-node.yaml");

/// Without the firmware of adapters: their tools are not simulated.
#[test]
fn inventory_of_b200_servers_is_applied_upgraded_and_removed_on_ubuntu() {
    let recipes = ["nvlink5-node", "nic-firmware", "rdma-netns", "gpu-kubernetes", "rdma-firewall"];
    let inventory = ShippedInventory::read("b200.yaml", &recipes, &["nic-firmware", "gpu-kubernetes"]);
    let life = Life {
        distribution: ClaimedDistribution::Ubuntu2404,
        board: "b200x8",
        versions: &[
            ("570.148.08", Moment::Reboot),
            ("580.105.08", Moment::Once("pgrep -f '[n]vidia-dkms-580-open.postinst'")),
        ],
    };
    life.is_lived(&inventory, NVLINK5, &["nvidia-imex"]);
}

const H100: &str = include_str!("../../../recipes/h100-node.yaml");

#[test]
fn h100_stack_with_doca_converges_on_ubuntu() {
    let keys = ["/usr/share/keyrings/cuda-archive-keyring.gpg", "/usr/share/keyrings/doca.gpg"];
    let distribution = ClaimedDistribution::Ubuntu2204;
    let Some(nodes) = handed_over(distribution, "h100x8-ndr", keys[0], keys[1]) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).inventory(&format!(
        "rollout: {{ reboot: allow }}
apply:
  - recipe: h100-node
    on: all
    with:
      driver: 580.105.08
      flavor: open
      repository: file:/srv/mirror/cuda/repos/ubuntu2204/x86_64/
      repository_key: {}
      rdma: doca
      doca: 3.2.0-125000
      doca_repository: file:/srv/mirror/doca/3.2.0/ubuntu22.04/x86_64/
      doca_repository_key: {}
      ib_ports: 4
      eth_hcas: 2
",
        keys[0], keys[1]
    ));
    let before = boots(node);
    converge(&project);
    assert_eq!(boots(node) - before, 1);
    runs(node, "580.105.08");
    is_verified(&project);
    assert!(node.must("modinfo -F filename mlx5_core").contains("/updates/dkms/"));
    mark_stack(distribution, H100, &["mlnx-ofed", "nvidia-gsp"]);
}
