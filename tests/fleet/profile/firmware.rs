//! Firmware of adapters: burned in a window of the host, once per card, and in force after its one reboot.

use super::{apply, boots, settled, with_hardware};
use crate::support::Project;

/// An image of the stand-in: its version and PSID.
const IMAGE: &str = "28.45.1200 MT_0000000838\n";

#[test]
fn firmware_is_burned_once_per_card_and_runs_after_the_reboot() {
    let Some(nodes) = with_hardware("h100x8-ndr", 1) else { return };
    let node = &nodes[0];
    crate::proof::stand_in(node, "mstflint");
    node.must("apt-get -qq install doca-ofed=3.2.0-1 >/dev/null && apt-mark -qq hold doca-ofed");
    node.stop();
    node.start();
    let digest = node.must(&format!("printf '{}' | sha256sum | cut -d' ' -f1", IMAGE.escape_default()));
    let inventory = format!(
        "rollout: {{ reboot: allow }}
apply:
  - recipe: nic-firmware
    on: all
    with: {{ firmware: {{ MT_0000000838: {{ version: 28.45.1200, file: fw.bin, sha256: {digest} }} }} }}
"
    );
    let project = Project::new(&nodes).inventory(&inventory).file("fw.bin", IMAGE);
    let running = || node.must("cat /sys/class/infiniband/*/fw_ver | sort -u");
    assert_eq!(running(), "28.43.1014");
    let before = boots(node);
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert!(out.stdout.contains("simulated, no real hardware: "), "{out}");
    assert_eq!((boots(node) - before, running()), (1, "28.45.1200".to_owned()), "{out}");
    // Six functions of five cards.
    assert_eq!(
        node.must("sort /srv/forge-hardware/burned | paste -sd' '"),
        "0000:18:00.0 0000:40:00.0 0000:4f:00.0 0000:9a:00.0 0000:ce:00.0"
    );
    settled(&project);

    // Another program burns one card.
    node.must("echo 28.39.1002 >/srv/forge-hardware/flash/0000:9a:00");
    let out = project.forge(["drift", "inventory.yaml"]);
    assert!(out.code == 2 && out.stdout.contains("nic-firmware/firmware[MT_0000000838]"), "{out}");
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(node.must("tail -n 1 /srv/forge-hardware/burned"), "0000:9a:00.0");
    crate::proof::mark_profile(&inventory);
}
