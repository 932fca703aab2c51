//! Settings that need a reboot: configured, pending until the host has booted with them, and blocked if another file
//! overrides them. The boot loader is a stand-in that passes the command line of GRUB's real menu to the kernel; the
//! reboot is the node's own.

use crate::support::{Fleet, Node, Output, Project};
use std::time::{Duration, Instant};

/// Binds files over the machine's `/proc/cmdline` and `/proc/stat`: the command line of the menu's first entry, and the
/// time of this boot.
const LOADER: &str = r#"#!/bin/sh
sed -n 's/^[[:space:]]*linux[[:space:]]*//p' /boot/grub/grub.cfg | head -n 1 | sed 's/^/BOOT_IMAGE=/' > /run/forge-cmdline
sed "s/^btime .*/btime $(date +%s)/" /proc/stat > /run/forge-stat
mount --bind /run/forge-cmdline /proc/cmdline
mount --bind /run/forge-stat /proc/stat
"#;

const UNIT: &str = "[Unit]\nDescription=Stand-in boot loader\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                    ExecStart=/bin/sh /root/loader\n[Install]\nWantedBy=sysinit.target\n";

const KERNEL: &str = r#"
rm /boot/*99.0.0-1-forge
k=$(uname -r)
mkdir -p "/lib/modules/$k" && echo kernel > "/boot/vmlinuz-$k" && echo CONFIG_RD_GZIP=y > "/boot/config-$k" &&
depmod "$k" 2>/dev/null && update-initramfs -c -k "$k" && update-grub && sleep 2 && systemctl -q enable loader && systemctl start loader
"#;

const RECIPE: &str = r#"
recipe: early
steps:
  - name: iommu
    kernel_cmdline: { args: [iommu=pt] }
  - name: option
    file: { path: /etc/modprobe.d/forge-early.conf, content: "options forge_early level=3\n" }
  - name: image
    after: [option]
    initramfs: { files: [/etc/modprobe.d/forge-early.conf] }
"#;

/// Returns the shell script that makes GRUB work on a node, from the proof of the kind.
fn grub() -> String {
    let text = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/kinds/kernel_cmdline.yaml"));
    let proof: serde_json::Value = serde_saphyr::from_str(&text.expect("the proof")).expect("YAML");
    let before = proof["before"].as_str().expect("`before`");
    // Kernel and command line are the node's own here.
    before.replace("mount --bind /root/cmdline /proc/cmdline &&", "")
}

fn prepare(node: &Node) {
    node.must(&grub());
    node.write("/root/loader", LOADER);
    node.write("/etc/systemd/system/loader.service", UNIT);
    node.must(KERNEL);
}

fn reboot(node: &Node) {
    let before = node.boot_id();
    node.sh("systemctl reboot");
    let end = Instant::now() + Duration::from_secs(60);
    while node.sh("cat /proc/sys/kernel/random/boot_id").stdout.trim() == before
        || !node.sh("systemctl is-active loader && systemctl is-active ssh").ok()
    {
        assert!(Instant::now() < end, "the node did not come back");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[track_caller]
fn expect(out: &Output, code: i32, said: &[&str]) {
    assert_eq!(out.code, code, "{out}");
    for text in said {
        assert!(out.stdout.contains(text), "no `{text}`: {out}");
    }
}

#[test]
fn boot_settings_are_pending_until_the_host_reboots() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    prepare(node);
    let project = Project::new(&nodes).recipe("early", RECIPE).inventory("apply:\n  - { recipe: early, on: all }\n");
    let apply = || project.forge(["apply", "inventory.yaml", "--yes"]);
    let plan = || project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);

    expect(&apply(), 10, &["configured, not loaded: `iommu=soft` instead of `iommu=pt`; needs a reboot"]);
    expect(&apply(), 10, &["was rebuilt after boot: needs a reboot"]);
    reboot(node);
    node.must("grep -q iommu=pt /proc/cmdline");
    expect(&plan(), 0, &[]);

    // No record says that a reboot is due: it follows from the state of the host.
    node.must("update-initramfs -u -k \"$(uname -r)\"");
    expect(&plan(), 10, &["was rebuilt after boot"]);
    reboot(node);
    expect(&plan(), 0, &[]);

    node.must("echo 'GRUB_CMDLINE_LINUX=\"nomodeset\"' > /etc/default/grub.d/90-site.cfg && update-grub");
    expect(&apply(), 3, &["`/etc/default/grub.d/90-site.cfg:1` replaces all of `GRUB_CMDLINE_LINUX`"]);
    node.must("rm /etc/default/grub.d/90-site.cfg");
    expect(&apply(), 0, &[]);
}

/// The recipe declares no reboot: one reboot, which the plan reports, makes arguments and image effective.
#[test]
fn failed_initramfs_rebuild_restores_the_old_image() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    prepare(node);
    let recipe = RECIPE.replace("forge-early.conf] }", "forge-early.conf], booted: false }");
    let project = Project::new(&nodes).recipe("early", &recipe).inventory("apply:\n  - { recipe: early, on: all }\n");
    let apply = || {
        project.forge([
            "apply",
            "inventory.yaml",
            "--yes",
            "--on",
            "all",
            "--step",
            "early/option",
            "--step",
            "early/image",
        ])
    };
    let image = "/boot/initrd.img-\"$(uname -r)\"";
    let digest = || node.must(&format!("sha256sum < {image}"));
    let old = digest();

    // A hook that fails the rebuild, and one that makes the image many times larger.
    node.write("/etc/initramfs-tools/hooks/broken", "#!/bin/sh\n[ \"$1\" != prereqs ] || exit 0\nexit 1\n");
    node.must("chmod 755 /etc/initramfs-tools/hooks/broken");
    expect(&apply(), 3, &["the old image was put back"]);
    assert_eq!(digest(), old);
    node.write(
        "/etc/initramfs-tools/hooks/broken",
        "#!/bin/sh\n[ \"$1\" != prereqs ] || exit 0\nhead -c 60000000 /dev/urandom > \"$DESTDIR/big\"\n",
    );
    expect(&apply(), 3, &["the old one had"]);
    assert_eq!(digest(), old);
    node.must("rm /etc/initramfs-tools/hooks/broken");

    // A truncated image is unknown, not evaluated by the part that remains.
    node.must(&format!("cp {image} /root/whole && head -c 1000000 /root/whole > {image}"));
    let cut = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(cut.code, 9, "{cut}");
    // unmkinitramfs of Debian 13 decompresses before cpio reads.
    let said = ["cpio: premature end of", "gzip: stdin: unexpected end of file"];
    assert!(said.iter().any(|text| cut.stdout.contains(&format!("could not be read: {text}"))), "{cut}");
    node.must(&format!("cp /root/whole {image}"));
    expect(&apply(), 0, &[]);
}
