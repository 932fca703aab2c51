//! Boot: grubby's arguments, and rebuilt images with a fallback.

use super::{CommandStubs, stderr_text};
use crate::model::Value;
use serde_json::json;
use std::path::PathBuf;

const KERNEL: &str = "5.14.0-570.30.1.el9_6.x86_64";

fn menu_entry(args: &str) -> Value {
    json!({ "title": "Linux", "args": args, "rescue": false })
}

/// The answers of a host with a boot loader, and without the step's own file.
fn cmdline_answers(loader: &str, menu: Value) -> Value {
    json!({ "cmdline": { "loader": { loader: menu } }, "path /etc/default/grub.d/60-forge.cfg": "absent" })
}

#[test]
fn grubby_removes_observed_and_adds_declared_arguments() {
    let stubs = CommandStubs::new(&[("grubby", "")]);
    let fields = json!({ "args": ["iommu=pt", "nosmt"], "absent": ["quiet"] });
    for (args, absent) in [("ro quiet iommu=off", false), ("ro iommu=pt nosmt", true)] {
        let answers = cmdline_answers("grubby", json!({ "entries": [menu_entry(args)] }));
        let output = stubs.run_observed("kernel_cmdline", fields.clone(), absent, answers);
        assert!(output.status.success(), "{}", stderr_text(&output));
    }
    assert_eq!(
        stubs.logged_calls(&[]),
        [
            "grubby --update-kernel=ALL --remove-args=iommu=off quiet --args=iommu=pt nosmt",
            "grubby --update-kernel=ALL --remove-args=iommu=pt nosmt"
        ]
    );
}

#[test]
fn failed_update_grub_fails_the_step() {
    let stubs = CommandStubs::new(&[("update-grub", "echo 'grub-mkconfig: error' >&2; exit 1")]);
    let answers = cmdline_answers("update_grub", json!({ "lines": [], "entries": [menu_entry("ro nosmt")] }));
    let output = stubs.run_observed("kernel_cmdline", json!({ "args": ["nosmt"] }), true, answers);
    assert!(!output.status.success());
    assert!(stderr_text(&output).ends_with("forge: update-grub failed: the menu of the next boot is the old one\n"));
}

/// A directory of images, and a dracut that runs `code` with the image `$2`.
struct BootStubs {
    stubs: CommandStubs,
    image: PathBuf,
}

impl BootStubs {
    fn new(dracut: &str) -> Self {
        let stubs = CommandStubs::new(&[("dracut", dracut), ("sync", "")]);
        let image = stubs.dir.path().join(format!("initramfs-{KERNEL}.img"));
        std::fs::write(&image, "old image").unwrap();
        Self { stubs, image }
    }

    fn rebuild_image(&self) -> std::process::Output {
        let image = json!({
            "kernel": KERNEL, "path": self.image.to_str().unwrap(), "made": 1.0, "trouble": "",
            "files": { "/a": null }, "modules": {},
        });
        let state = json!({ "maker": "dracut", "running": KERNEL, "images": [image], "files": { "/a": "aa11" } });
        self.stubs.run_observed("initramfs", json!({ "files": ["/a"] }), false, json!({ "initramfs": state }))
    }

    fn image_text(&self) -> String {
        std::fs::read_to_string(&self.image).unwrap()
    }

    fn image_copies(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.stubs.dir.path()).unwrap().map(|e| e.unwrap().file_name());
        let mut copies: Vec<String> =
            names.map(|n| n.into_string().unwrap()).filter(|n| n.contains(".img.forge-")).collect();
        copies.sort();
        copies
    }
}

#[test]
fn last_two_initramfs_backups_are_kept() {
    let boot = BootStubs::new("echo 'new image' > \"$2\"");
    for (name, age) in [("a", "2001-01-01"), ("b", "2002-01-01"), ("c", "2003-01-01"), ("d.part", "2004-01-01")] {
        let path = format!("{}.forge-{name}", boot.image.display());
        std::process::Command::new("touch").args(["-d", age, &path]).status().unwrap();
    }
    let output = boot.rebuild_image();
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(boot.image_text(), "new image\n");
    let name = format!("initramfs-{KERNEL}.img.forge-");
    assert_eq!(boot.image_copies(), [format!("{name}{}", super::RUN), format!("{name}c")]);
    let made = boot.stubs.dir.path().join(format!(".forge-initramfs-{KERNEL}.img"));
    assert_eq!(boot.stubs.logged_calls(&["sync"]), [format!("dracut --force {} {KERNEL}", made.display())]);
    assert!(!made.exists());
}

#[test]
fn suspect_initramfs_is_replaced_by_the_old_image() {
    for (dracut, why) in [
        (
            "echo half > \"$2\"; exit 1",
            "the image of 5.14.0-570.30.1.el9_6.x86_64 could not be rebuilt: the old image was put back",
        ),
        (":", "the image of 5.14.0-570.30.1.el9_6.x86_64 could not be rebuilt: the old image was put back"),
        ("printf 123 > \"$2\"", "has 3 bytes, the old one had 9: the old image was put back"),
        ("head -c 99 /dev/zero > \"$2\"", "has 99 bytes, the old one had 9: the old image was put back"),
    ] {
        let boot = BootStubs::new(dracut);
        let output = boot.rebuild_image();
        assert!(!output.status.success(), "{dracut}");
        assert!(stderr_text(&output).trim_end().ends_with(why), "{}", stderr_text(&output));
        assert_eq!(boot.image_text(), "old image", "{dracut}");
    }
}

#[test]
fn rebuild_fails_without_space_for_two_images() {
    let boot = BootStubs::new("echo never > \"$2\"");
    let df = boot.stubs.dir.path().join("df");
    std::fs::write(&df, "#!/bin/sh\necho Avail; echo 17\n").unwrap();
    std::fs::set_permissions(&df, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = boot.rebuild_image();
    assert!(!output.status.success());
    assert!(stderr_text(&output).contains("has 17 bytes free"), "{}", stderr_text(&output));
    assert_eq!((boot.image_text().as_str(), boot.image_copies().len()), ("old image", 0));
}
