//! The driver by its installer program: a stand-in that takes the options of the real one and refuses those that its
//! version does not know (`worlds/driver.run`).

use crate::support::{Fleet, Node, Output, Project};
use sha2::{Digest, Sha256};

const PROGRAM: &str = include_str!("worlds/driver.run");

/// Writes the installer of `version` to the node.
fn installer(node: &Node, version: &str) -> String {
    let path = format!("/srv/NVIDIA-Linux-x86_64-{version}.run");
    node.write(&path, PROGRAM);
    path
}

fn inventory(node: &Node, version: &str, ensure: &str) -> String {
    let digest: String = Sha256::digest(PROGRAM).iter().map(|byte| format!("{byte:02x}")).collect();
    let runfile = format!("{{ path: {}, sha256: {digest} }}", installer(node, version));
    format!(
        "rollout: {{ reboot: allow }}
apply:
  - {{ recipe: nvidia-driver, on: all, with: {{ version: {version}, flavor: proprietary, method: runfile, runfile: {runfile} }}{ensure} }}
  - {{ recipe: nvidia-persistenced, on: all, with: {{ packaged: false }}{ensure} }}
"
    )
}

fn settled(project: &Project) {
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "expected no changes: {plan}");
}

fn apply(project: &Project) -> Output {
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    settled(project);
    out
}

#[test]
fn installer_program_installs_repairs_and_removes_the_driver() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.profile("h100-pcie");
    node.must("apt-get -qq install dkms >/dev/null");
    let project = Project::new(&nodes).inventory(&inventory(node, "560.35.03", ""));
    apply(&project);
    assert_eq!(node.must("cat /sys/module/nvidia/version; modinfo -F version nvidia"), "560.35.03\n560.35.03");
    assert!(
        node.must("cat /var/log/nvidia-installer.log")
            .contains("Installation of the NVIDIA driver 560.35.03 is complete.")
    );
    assert_eq!(node.must("getent passwd nvidia-persistenced | cut -d: -f6"), "/");

    // Packages over it would overwrite its files.
    project
        .rewrite("apply:\n  - { recipe: nvidia-driver, on: all, with: { version: 560.35.03, flavor: proprietary } }\n");
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("methods are never mixed"), "{plan}");

    project.rewrite(&inventory(node, "560.35.03", ", ensure: absent"));
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    assert!(!node.exists("/usr/bin/nvidia-uninstall") && !node.exists("/usr/bin/nvidia-smi"), "{out}");
}

/// The stand-in has no modules of that branch: it fails after it has accepted the options.
#[test]
fn installer_of_an_old_branch_gets_only_options_that_it_knows() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.profile("h100-pcie");
    let project = Project::new(&nodes).inventory(&inventory(node, "535.288.01", ""));
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 3, "{out}");
    let log = node.must("cat /var/log/nvidia-installer.log");
    assert!(log.contains("-> Installing NVIDIA driver version 535.288.01."), "{log}");

    let out = node.sh("sh /srv/NVIDIA-Linux-x86_64-535.288.01.run --silent --dkms --no-rebuild-initramfs");
    assert_eq!(out.code, 1, "{out}");
    assert!(out.stderr.contains("ERROR: Invalid commandline"), "{out}");
}
