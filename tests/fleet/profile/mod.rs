//! GPU servers with simulated hardware (`tests/fleet/profiles`): code that their tests share.

mod bare;
mod boards;
mod facts;
mod faults;
mod firmware;
mod killed;
mod shipped_inventory;
mod stacks;
mod ubuntu;
mod upgrades;

use crate::support::{Fleet, Node, Nodes, Output, Project};
use serde_json::Value;

const PROFILE: &str = "h100x8-ndr";

pub fn bare(count: usize) -> Option<Nodes> {
    with_hardware(PROFILE, count)
}

fn with_hardware(profile: &str, count: usize) -> Option<Nodes> {
    let nodes = Fleet::take(count)?;
    nodes.iter().for_each(|node| node.profile(profile));
    Some(nodes)
}

/// Takes servers that were installed by hand, with the driver's default for GSP: they have no records of forge.
fn installed(count: usize, stack: Stack<'_>) -> Option<Nodes> {
    let nodes = bare(count)?;
    for node in nodes.iter() {
        node.must(&by_hand(stack));
        node.stop();
        node.start();
    }
    Some(nodes)
}

fn by_hand(Stack { driver, ofed, .. }: Stack<'_>) -> String {
    format!(
        "apt-get -qq install cuda-drivers-560={driver}-1 nvidia-fabricmanager-560={driver}-1 libnvidia-nscq-560={driver}-1 >/dev/null
        apt-mark -qq hold cuda-drivers-560 nvidia-fabricmanager-560 libnvidia-nscq-560
        {}
        systemctl -q enable nvidia-fabricmanager && systemctl -q add-wants multi-user.target nvidia-persistenced",
        stack_by_hand(ofed)
    )
}

fn stack_by_hand(ofed: &str) -> String {
    let into = format!("/root/ofed-{ofed}");
    format!("mkdir {into} && tar -xzf {} -C {into} --strip-components=1 && {into}/mlnxofedinstall", archive(ofed))
}

fn archive(ofed: &str) -> String {
    format!("/srv/forge-hardware/mlnx-ofed-{ofed}.tgz")
}

/// The part of the stack `h100-node` that works with a kernel without modules.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    pub driver: &'a str,
    pub gsp: &'a str,
    pub ofed: &'a str,
}

pub const STACK: Stack<'_> = Stack { driver: "560.35.03", gsp: "off", ofed: "24.10-0.7.0.0" };
/// The result of an installation by hand.
const BY_HAND: Stack<'_> = Stack { gsp: "default", ..STACK };

impl Stack<'_> {
    fn inventory(self, node: &Node) -> String {
        format!("rollout: {{ reboot: allow, max_unavailable: 2 }}\n{}", self.applied(node))
    }

    /// Returns the `apply` section of an inventory.
    pub fn applied(self, node: &Node) -> String {
        let Stack { driver, gsp, ofed } = self;
        format!(
            "apply:
  - {{ recipe: base-assert, on: all, with: {{ gpus: 8, product: H100 SXM, nvswitches: 4, ib_hcas: 4, eth_hcas: 2 }} }}
  - {{ recipe: nouveau, on: all }}
  - {{ recipe: nvidia-gsp, on: all, with: {{ gsp: \"{gsp}\" }} }}
  - recipe: mlnx-ofed
    on: all
    with: {{ version: {ofed}, archive: {{ path: {}, sha256: {} }} }}
  - {{ recipe: subnet-manager, on: all }}
  - {{ recipe: ib-ports, on: all, with: {{ ports: 4 }} }}
  - {{ recipe: nvidia-driver, on: all, with: {{ version: {driver}, flavor: proprietary }} }}
  - {{ recipe: nvidia-fabricmanager, on: all }}
  - {{ recipe: nvidia-persistenced, on: all }}
",
            archive(ofed),
            digest(node, ofed)
        )
    }
}

fn digest(node: &Node, ofed: &str) -> String {
    node.must(&format!("sha256sum {} | cut -d' ' -f1", archive(ofed)))
}

fn document(project: &Project, path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(project.path(path)).expect("a document")).expect("JSON")
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes", "--json-into", "report.json"])
}

/// Applies, which must succeed and leave no changes.
fn converge(project: &Project) -> Output {
    let out = apply(project);
    assert_eq!(out.code, 0, "{out}");
    settled(project);
    out
}

fn settled(project: &Project) {
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "expected no changes: {plan}");
}

/// Returns the first host of the last report.
fn told(project: &Project) -> Value {
    document(project, "report.json")["report"]["hosts"][0].clone()
}

fn boots(node: &Node) -> usize {
    node.must("wc -l </srv/forge-hardware/boots").parse().expect("a number")
}

/// Returns the distinct GSP firmware values of all GPUs.
fn gsp(node: &Node) -> String {
    node.must("sed -n 's/^GPU Firmware:[ \\t]*//p' /proc/driver/nvidia/gpus/*/information | sort -u")
}

fn loaded(node: &Node) -> [String; 3] {
    ["nvidia", "mlx5_core"]
        .map(|module| node.must(&format!("cat /sys/module/{module}/version")))
        .into_iter()
        .chain([node.must("cat /run/nvidia-fabricmanager/version")])
        .collect::<Vec<_>>()
        .try_into()
        .expect("three")
}
