//! A stack that a run installs starts in the declared mode, by the boot that loads it first.

use super::host::{Lab, Who};

const INVENTORY: &str = "cluster: lab
connect: { transport: sandbox, hardware: h100x8-ndr }
hosts:
  a:
apply:
  - recipe: mlnx-ofed
    on: all
    with:
      version: 24.10-0.7.0.0
      archive:
        path: /srv/forge-hardware/mlnx-ofed-24.10-0.7.0.0.tgz
        sha256: 5122d79e5af08258d0056528c6c8b3251f1f79fd5157f28f8918db06801c6c63
  - { recipe: rdma-modules, on: all }
  - { recipe: rdma-netns, on: all, with: { mode: exclusive } }
rollout: { reboot: allow }
";

#[test]
fn new_stack_is_loaded_in_the_declared_mode() {
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", INVENTORY)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let apply = lab.forge(&["apply", "--yes"]);
    let mode = lab.inside("inventory.yaml", "a", "cat /sys/module/ib_core/parameters/netns_mode");
    assert!(apply.starts_with("exit 0\n") && mode == "N\n", "{mode}{apply}");
    let again = lab.forge(&["plan"]);
    assert!(again.contains("\nno changes: "), "{again}");
    lab.nothing_is_left();
}
