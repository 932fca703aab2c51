//! The GPU software of a host that claims to be Rocky Linux 9, with packages of real names and relations in front of
//! dnf's real solver: the driver of a module stream at one version although newer ones are offered, all packages held,
//! upgraded to another stream, and removed. The packages are stand-ins (`worlds/rocky-9.packages`), the hardware is
//! simulated.

use crate::distribution::{ClaimedDistribution, Distribution};
use crate::proof::mark_claimed;
use crate::support::{Fleet, Node, Nodes, Output, Project};

const PROFILE: &str = "h100x8-ndr";
/// The recipes that the test applies, in `proven.yaml` too.
const RECIPES: [&str; 9] = [
    "nouveau",
    "nvidia-driver",
    "nvidia-fabricmanager",
    "nvidia-persistenced",
    "dcgm",
    "doca-ofed",
    "base-hold",
    "base-freeze",
    "cuda-nccl",
];
/// What the packages of the world bring, without what other hosts have too.
const OWN: &str = "rpm -qa --qf '%{NAME} %{VERSION}\\n' | grep -e nvidia -e cuda -e nvsdm -e datacenter | sort";

/// Takes one server whose dnf has the repositories of the world.
fn server() -> Option<Nodes> {
    let nodes = Fleet::take_on(Distribution::Debian12, 1)?;
    let node = &nodes[0];
    node.profile(PROFILE);
    node.claim(ClaimedDistribution::Rocky9);
    node.must(
        "for of in cuda doca epel; do
          printf '[%s]\\nname=%s\\nbaseurl=file:///srv/world/%s\\nenabled=1\\ngpgcheck=0\\n' $of $of $of
        done >/etc/yum.repos.d/world.repo",
    );
    Some(nodes)
}

/// Returns an inventory of all recipes with `more` in each entry. base-hold, which nothing undoes, is in `hold`.
fn inventory(version: &str, more: &str, hold: &str) -> String {
    format!(
        "rollout: {{ reboot: allow }}
apply:
  - {{ recipe: base-freeze, on: all{more} }}
  - {{ recipe: nouveau, on: all{more} }}
  - {{ recipe: doca-ofed, on: all, with: {{ version: 3.2.0-1 }}{more} }}
  - {{ recipe: nvidia-driver, on: all, with: {{ version: {version}, flavor: open }}{more} }}
  - {{ recipe: nvidia-fabricmanager, on: all{more} }}
  - {{ recipe: nvidia-persistenced, on: all{more} }}
  - {{ recipe: dcgm, on: all{more} }}
  - {{ recipe: cuda-nccl, on: all, with: {{ cuda: \"12.8\", nccl: 2.25.1-1+cuda12.8 }}{more} }}
{hold}"
    )
}

/// Applies and plans again without changes. Returns the number of boots that it took.
fn apply(project: &Project, node: &Node) -> usize {
    let boots = || node.must("wc -l </srv/forge-hardware/boots").parse::<usize>().expect("a number");
    let before = boots();
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "expected no changes: {plan}");
    boots() - before
}

fn verify(project: &Project) -> Output {
    let out = project.forge(["verify", "inventory.yaml"]);
    assert_eq!(out.code, 0, "{out}");
    out
}

/// Checks that every package of the driver is of `version`, loaded and held.
fn is_of(node: &Node, version: &str) {
    let packages = node.must(OWN);
    let driver = packages.lines().filter(|line| !line.starts_with("datacenter") && !line.starts_with("cuda-toolkit"));
    let others: Vec<&str> = driver.filter(|line| !line.ends_with(&format!(" {version}"))).collect();
    assert_eq!(others, [""; 0], "{packages}");
    let branch = version.split('.').next().unwrap_or_default();
    let (manager, library, dcgm) = match branch {
        "570" => ("nvidia-fabric-manager ", "libnvidia-nscq-570 ", "datacenter-gpu-manager-4-cuda12 "),
        _ => ("nvidia-fabricmanager ", "libnvidia-nscq ", "datacenter-gpu-manager-4-cuda13 "),
    };
    for name in [manager, library, dcgm, "kmod-nvidia-open-dkms ", "nvidia-persistenced ", "nvidia-driver-cuda "] {
        assert!(packages.lines().any(|line| line.starts_with(name)), "no {name}: {packages}");
    }
    assert_eq!(node.must("cat /sys/module/nvidia/version"), version);
    assert_eq!(node.must("cat /run/nvidia-fabricmanager/version"), version);
    let locks = node.must("dnf -q versionlock list");
    for name in packages.lines().filter_map(|line| line.split(' ').next()).filter(|name| name.contains("nvidia")) {
        assert!(
            locks.lines().any(|lock| lock.starts_with(&format!("{name}-")) && lock.contains(version)),
            "{name}: {locks}"
        );
    }
}

const HOLD: &str = "  - { recipe: base-hold, on: all, with: { kernel: false } }\n";

#[test]
fn driver_stack_changes_module_streams_on_rocky_and_leaves() {
    let Some(nodes) = server() else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).inventory(&inventory("570.172.08", "", HOLD));
    apply(&project, node);
    verify(&project);
    is_of(node, "570.172.08");
    assert_eq!(node.must("rpm -q --qf '%{VERSION}-%{RELEASE} ' doca-ofed libnccl"), "3.2.0-1 2.25.1-1+cuda12.8 ");

    // An upgrade outside forge does not change the driver.
    node.must("dnf -y -q upgrade >/dev/null");
    is_of(node, "570.172.08");

    project.rewrite(&inventory("580.95.05", "", HOLD));
    let plan = project.forge(["plan", "inventory.yaml"]);
    for shown in ["3:570.172.08-1.el9", "3:580.95.05-1.el9", "nvidia-fabric-manager", "libnvidia-nscq-570"] {
        assert!(plan.code == 0 && plan.stdout.contains(shown), "`{shown}` is not in {plan}");
    }
    assert_eq!(apply(&project, node), 1);
    verify(&project);
    is_of(node, "580.95.05");

    project.rewrite(&inventory("580.95.05", ", ensure: absent", ""));
    apply(&project, node);
    assert_eq!(node.must(OWN), "");
    assert_eq!(node.must("dnf -q versionlock list"), "");
    RECIPES.iter().for_each(|recipe| mark_claimed(ClaimedDistribution::Rocky9, recipe));
}
