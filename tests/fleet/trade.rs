//! Debian's packages of GPU and RDMA software, unmodified: a module that DKMS builds, OpenSM and the InfiniBand
//! diagnostics on a fabric that ibsim simulates, and NVIDIA's daemon and tool on a host without a GPU.

use crate::support::{Fleet, Node, Nodes, Project};
use serde_json::Value;

const FABRIC: &str = include_str!("../samples/ibsim.net");

/// A console that never ends keeps ibsim running.
const IBSIM: &str = "[Unit]\nDescription=A simulated fabric\n[Service]\nExecStart=/bin/sh -c 'tail -f /dev/null | ibsim -s /root/ibsim.net'\n";

/// Makes OpenSM use a port of the simulated fabric. Its units require a kernel port, which no node has.
const SIMULATED: &str = "[Unit]\nConditionPathExists=\n[Service]\nEnvironment=SIM_HOST=node-02\n\
                         Environment=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so\n";

const MODULE: &str = r##"
recipe: hello
steps:
  - name: tools
    package: { names: [dkms, linux-headers-amd64] }
  - name: folder
    directory: { path: /usr/src/forge-hello-1.0 }
  - name: source
    file: { path: /usr/src/forge-hello-1.0/forge_hello.c, content: "#include <linux/module.h>\nMODULE_LICENSE(\"GPL\");\nMODULE_VERSION(\"1.0\");\n" }
  - name: makefile
    file: { path: /usr/src/forge-hello-1.0/Makefile, content: "obj-m := forge_hello.o\n" }
  - name: configuration
    file:
      path: /usr/src/forge-hello-1.0/dkms.conf
      content: |
        PACKAGE_NAME="forge-hello"
        PACKAGE_VERSION="1.0"
        BUILT_MODULE_NAME[0]="forge_hello"
        DEST_MODULE_LOCATION[0]="/updates/dkms"
        MAKE[0]="make -C /lib/modules/$kernelver/build M=$dkms_tree/forge-hello/1.0/build modules"
        CLEAN="true"
        AUTOINSTALL="yes"
  - name: built
    long: true
    timeout: 5m
    command:
      check: |
        k=$(ls /usr/lib/modules | grep -m 1 'amd64$') && dkms status -m forge-hello -v 1.0 -k "$k" | grep -q ': installed$'
      apply: |
        k=$(ls /usr/lib/modules | grep -m 1 'amd64$') && dkms install -m forge-hello -v 1.0 -k "$k"
verify:
  - name: it is built for a kernel
    expect: facts.dkms | selectattr("module", "equalto", "forge-hello") | selectattr("state", "equalto", "installed") | list | length == 1
"##;

/// Takes a node that can install these packages.
fn node() -> Option<Nodes> {
    let nodes = Fleet::take(1)?;
    nodes[0].write("/etc/apt/sources.list.d/trade.list", "deb [trusted=yes] file:/srv/forge-repo/trade ./\n");
    nodes[0].must("apt-get -qq update");
    Some(nodes)
}

fn apply(project: &Project, code: i32) -> String {
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, code, "{out}");
    out.stdout
}

fn facts(project: &Project) -> Value {
    let out = project.forge(["facts", "inventory.yaml", "--json-into", "facts.json"]);
    assert_eq!(out.code, 0, "{out}");
    let text = std::fs::read(project.path("facts.json")).expect("a document");
    let document: Value = serde_json::from_slice(&text).expect("JSON");
    document["facts"][0]["facts"].clone()
}

#[test]
fn dkms_module_is_detected_for_its_kernel() {
    let Some(nodes) = node() else { return };
    let project = Project::new(&nodes).recipe("hello", MODULE).inventory("apply:\n  - { recipe: hello, on: all }\n");
    apply(&project, 0);
    let kernel = nodes[0].must("ls /usr/lib/modules | grep -m 1 'amd64$'");
    let kernel = kernel.trim();
    let dkms = &facts(&project)["dkms"]["value"][0];
    assert_eq!(
        (&dkms["module"], &dkms["version"], &dkms["state"], &dkms["kernel"]),
        (&"forge-hello".into(), &"1.0".into(), &"installed".into(), &kernel.into())
    );
    nodes[0].must(&format!("modinfo -k {kernel} -F version forge_hello | grep -x 1.0"));
    assert!(apply(&project, 0).contains("no changes:"), "a second apply");
    nodes[0].must(&format!("dkms uninstall -m forge-hello -v 1.0 -k {kernel}"));
    let out = project.forge(["verify", "inventory.yaml"]);
    assert_eq!(out.code, 5, "{out}");
    apply(&project, 0);
}

/// Returns the diagnostics' output about the manager, from another end of the fabric.
fn manager(node: &Node) -> String {
    node.must("SIM_HOST=node-01 ibsim-run sminfo")
}

#[test]
fn subnet_manager_becomes_master_of_a_simulated_fabric() {
    let Some(nodes) = node() else { return };
    let node = &nodes[0];
    node.write("/root/ibsim.net", FABRIC);
    node.write("/etc/systemd/system/ibsim.service", IBSIM);
    for unit in ["opensm", "opensm@"] {
        node.must(&format!("mkdir -p /etc/systemd/system/{unit}.service.d"));
        node.write(&format!("/etc/systemd/system/{unit}.service.d/simulated.conf"), SIMULATED);
    }
    node.must("apt-get -qq install -y ibsim-utils infiniband-diags >/dev/null && systemctl daemon-reload && systemctl start ibsim");
    let entry = "{ recipe: subnet-manager, on: all, with: { runs_on: hosts, managers: ";
    let project = Project::new(&nodes).inventory(&format!("apply:\n  - {entry}[{}] }} }}\n", node.name));
    apply(&project, 0);
    let said = manager(node);
    assert!(said.contains("priority 14 state 3 SMINFO_MASTER"), "{said}");
    assert!(
        node.must("SIM_HOST=node-03 ibsim-run ibstat").contains("State: Active"),
        "a port is not active although its manager runs"
    );
    assert!(apply(&project, 0).contains("no changes:"), "a second apply");
    node.must("systemctl disable --now opensm.service");
    let out = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(out.code, 2, "{out}");
    apply(&project, 0);
    assert!(manager(node).contains("SMINFO_MASTER"));
}

const PERSISTENCE: &str = r#"
recipe: persistence
steps:
  - name: packages
    package: { names: [nvidia-persistenced, nvidia-smi] }
  - name: daemon
    service: { name: nvidia-persistenced.service, enabled: true, state: running }
"#;

/// NVIDIA's real daemon does not start without a GPU, and its real tool reports that there is no driver.
#[test]
fn persistence_daemon_fails_and_driver_is_null_without_a_gpu() {
    let Some(nodes) = node() else { return };
    let project = Project::new(&nodes)
        .recipe("persistence", PERSISTENCE)
        .inventory("apply:\n  - { recipe: persistence, on: all }\n");
    let said = apply(&project, 3);
    assert!(said.contains("nvidia-persistenced failed to initialize"), "{said}");
    nodes[0].sh("nvidia-smi").must_exit(9);
    let facts = facts(&project);
    assert_eq!(facts["driver"]["value"]["loaded"], Value::Null, "{}", facts["driver"]);
    assert_eq!(facts["gpus"]["value"], serde_json::json!([]), "{}", facts["gpus"]);
}
