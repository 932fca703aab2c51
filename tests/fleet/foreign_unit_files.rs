//! Unit files and drop-ins that something else wrote: what systemd does with the declared units then. systemd itself, the
//! process and the kernel are the witnesses.

use crate::support::{Fleet, Node, Output, Project};

const WORKER: &str = r#"
recipe: worker
summary: A service, its drop-in, and one drop-in that must not exist
steps:
  - name: unit
    unit: { name: worker.service, content: "[Service]\nExecStart=/bin/sleep 11111\n[Install]\nWantedBy=multi-user.target\n" }
  - name: no override
    absent: { path: /etc/systemd/system/worker.service.d/override.conf }
  - { name: service, service: { name: worker, enabled: true }, restart_on: [unit, no override] }
  - name: limits
    unit: { name: worker.service, drop_in: { name: limits, content: "[Service]\nLimitNOFILE=5000\n" } }
"#;

fn project(nodes: &[Node], recipe: &str) -> Project {
    Project::new(nodes).recipe("worker", recipe).inventory("apply:\n  - { recipe: worker, on: all }\n")
}

fn plan(project: &Project) -> Output {
    project.forge(["plan", "inventory.yaml", "--detailed-exitcode"])
}

fn apply(project: &Project) {
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    let again = plan(project);
    assert_eq!((out.code, again.code), (0, 0), "{out}\n{again}");
}

/// Returns what systemd has read and what runs.
fn running(node: &Node) -> String {
    node.must(
        "systemctl show -p DropInPaths -p NeedDaemonReload worker; \
         tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value worker)/cmdline",
    )
    .trim_end()
    .to_owned()
}

#[test]
fn drop_ins_are_written_and_removed_in_one_run() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, project) = (&nodes[0], project(&nodes, WORKER));
    // The drop-in follows the start of its service.
    apply(&project);
    let declared =
        "DropInPaths=/etc/systemd/system/worker.service.d/limits.conf\nNeedDaemonReload=no\n/bin/sleep 11111";
    assert_eq!(running(node), declared);
    node.must(
        "printf '[Service]\\nExecStart=\\nExecStart=/bin/sleep 99999\\n' >/etc/systemd/system/worker.service.d/override.conf; \
         systemctl daemon-reload; systemctl restart worker",
    );
    assert!(running(node).ends_with("/bin/sleep 99999"));
    apply(&project);
    assert_eq!(running(node), declared);
}

#[test]
fn unit_that_systemd_reads_from_another_file_blocks() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, project) = (&nodes[0], project(&nodes, WORKER));
    apply(&project);
    let other = "/run/systemd/system.control/worker.service";
    node.must(&format!(
        "mkdir -p /run/systemd/system.control; printf '[Service]\\nExecStart=/bin/sleep 77777\\n' >{other}; \
         systemctl daemon-reload"
    ));
    assert_eq!(node.must("systemctl show -p FragmentPath --value worker"), other);
    let planned = plan(&project);
    let told = format!("systemd reads `{other}` in place of the declared file");
    assert!(planned.code == 3 && planned.stdout.contains(&told), "{planned}");
    node.must(&format!("rm {other}; systemctl daemon-reload"));
    plan(&project).must_exit(0);
}

const BOOT: &str = r#"
recipe: worker
summary: What the next boot has to bring
steps:
  - { name: forward, sysctl: { key: net.ipv4.ip_forward, value: "1" } }
  - { name: scratch, mount: { path: /mnt, source: tmpfs, fstype: tmpfs, options: [size=8m] } }
  - { name: table, nftables: { name: worker, rules: "chain none { }" } }
"#;

#[test]
fn files_that_change_the_next_boot_block() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, project) = (&nodes[0], project(&nodes, BOOT));
    node.must("command -v nft >/dev/null || apt-get -qq install -y nftables");
    apply(&project);
    let drop_in = |unit: &str, text: &str| {
        let file = format!("/etc/systemd/system/{unit}.d/x.conf");
        node.must(&format!("mkdir -p /etc/systemd/system/{unit}.d; printf '{text}' >{file}; systemctl daemon-reload"));
        file
    };
    let table = drop_in("forge-nftables-inet-worker.service", "[Unit]\\nConditionPathExists=/nope\\n");
    let mount = drop_in("mnt.mount", "[Mount]\\nWhat=/var/tmp\\nOptions=bind\\n");
    node.must("systemctl mask systemd-sysctl");
    let planned = plan(&project);
    assert_eq!(planned.code, 3, "{planned}");
    for told in [
        "`systemd-sysctl.service` is masked: no file of `sysctl.d` is applied at boot".to_owned(),
        format!("drop-in `{table}` changes `forge-nftables-inet-worker.service`"),
        format!("`{mount}` can override the entry in fstab at boot"),
    ] {
        assert!(planned.stdout.contains(&told), "no `{told}`: {planned}");
    }
    node.must(&format!("systemctl unmask systemd-sysctl; rm -r {table} {mount}; systemctl daemon-reload"));
    plan(&project).must_exit(0);
}
