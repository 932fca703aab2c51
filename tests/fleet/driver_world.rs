//! The NVIDIA driver as packages with real names and relations, in front of apt's real solver: installed at one version
//! although newer ones are offered, upgraded across branches, and removed. The packages are stand-ins
//! (`worlds/nvidia.packages`), the hardware is simulated.

use crate::package_world::unpack_world;
use crate::support::{Fleet, Node, Nodes, Output, Project};

const PROFILE: &str = "h100x8-ndr";

/// Takes one server whose apt has NVIDIA's repository and Ubuntu's archive.
fn server() -> Option<Nodes> {
    let nodes = Fleet::take(1)?;
    let node = &nodes[0];
    node.profile(PROFILE);
    unpack_world(node, "nvidia", "/srv/world");
    node.must(
        "for of in cuda ubuntu; do echo \"deb [trusted=yes] file:/srv/world/$of ./\"; done >/etc/apt/sources.list.d/world.list
        apt-get -qq update",
    );
    Some(nodes)
}

fn inventory(version: &str, more: &str) -> String {
    format!(
        "rollout: {{ reboot: allow }}
apply:
  - {{ recipe: nvidia-driver, on: all, with: {{ version: {version}, flavor: open }}{more} }}
  - {{ recipe: nvidia-fabricmanager, on: all{more} }}
  - {{ recipe: nvidia-persistenced, on: all{more} }}
"
    )
}

/// Returns the installed packages of the driver with their versions, one per line.
fn packages(node: &Node) -> String {
    node.must(
        "dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\\n' |
        sed -n 's/^installed //p' | grep -e nvidia -e cuda | sort",
    )
}

fn apply(project: &Project) -> Output {
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "expected no changes: {plan}");
    out
}

/// Checks that every package is of `version`, that the module is loaded and that the account is the package's.
fn is_of(node: &Node, version: &str) {
    let packages = packages(node);
    let others: Vec<&str> = packages.lines().filter(|line| !line.contains(&format!(" {version}-"))).collect();
    assert_eq!(others, [""; 0], "{packages}");
    for name in ["fabricmanager", "libnvidia-nscq", "libnvidia-compute", "nvidia-dkms", "nvidia-open"] {
        assert!(packages.contains(name), "no {name}: {packages}");
    }
    assert_eq!(node.must("cat /sys/module/nvidia/version"), version);
    assert_eq!(node.must("cat /run/nvidia-fabricmanager/version"), version);
    assert_eq!(node.must("getent passwd nvidia-persistenced | cut -d: -f6"), "/nonexistent");
}

#[test]
fn driver_packages_are_of_one_version_across_branches_and_all_leave() {
    let Some(nodes) = server() else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).inventory(&inventory("550.90.07", ""));
    apply(&project);
    is_of(node, "550.90.07");

    // An upgrade by somebody else does not reach the driver, though a newer one of the branch is offered.
    node.must("apt-get -qq -y dist-upgrade >/dev/null");
    is_of(node, "550.90.07");

    for (version, gone) in [("570.148.08", "550"), ("580.126.20", "570"), ("595.71.05", "580")] {
        project.rewrite(&inventory(version, ""));
        let plan = project.forge(["plan", "inventory.yaml"]);
        let leaves = format!("version of nvidia-dkms-{gone}-open");
        assert!(plan.code == 0 && plan.stdout.contains(&leaves), "{version}: `{leaves}` is not in {plan}");
        apply(&project);
        is_of(node, version);
        assert!(!packages(node).contains(&format!("-{gone}")), "{}", packages(node));
    }

    project.rewrite(&inventory("595.71.05", ", ensure: absent"));
    apply(&project);
    assert_eq!(packages(node), "");
    assert!(!node.exists("/etc/apt/preferences.d/forge-nvidia-driver"));
}

/// A package of the site needs the old driver's tools.
#[test]
fn branch_change_removes_no_package_outside_the_driver() {
    let Some(nodes) = server() else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).inventory(&inventory("550.90.07", ""));
    apply(&project);
    node.must(
        "mkdir -p /root/site/DEBIAN && cd /root
        printf 'Package: site-tool\\nVersion: 1\\nArchitecture: all\\nMaintainer: x\\nDepends: nvidia-utils-550\\nDescription: x\\n' >site/DEBIAN/control
        dpkg-deb --build site site.deb >/dev/null && dpkg -i site.deb >/dev/null",
    );
    let before = packages(node);
    project.rewrite(&inventory("570.148.08", ""));
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    let why = "apt would also remove site-tool: remove them first, or keep the installed version";
    assert!(out.stdout.contains(why), "{out}");
    assert_eq!(packages(node), before);
    assert_eq!(node.must("apt-mark showhold | grep -c nvidia-open-550"), "1");
    node.must("apt-get -qq purge site-tool >/dev/null");
    apply(&project);
    is_of(node, "570.148.08");
}

#[test]
fn driver_of_the_archive_is_not_mixed_with_packages_of_nvidia() {
    let Some(nodes) = server() else { return };
    let node = &nodes[0];
    node.must("apt-get -qq install nvidia-headless-580-server-open nvidia-utils-580-server >/dev/null");
    let before = packages(node);
    let project = Project::new(&nodes).inventory(&inventory("580.126.20", ""));
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("methods are never mixed"), "{out}");
    assert_eq!(packages(node), before);
}
