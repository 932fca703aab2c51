//! Mounts below a directory of another user: a link there must not control mounts or unmounts.

use super::{ActionTrial, SHELLS, is_root};
use crate::model::{BlockClass, StepVerdict, Value};
use crate::resource::Resource;
use serde_json::json;
use std::os::unix::fs::{chown, symlink};

/// A user other than root.
const OTHER: u32 = 65_534;

const ONLY_FIXED: &str = "forge mounts and unmounts only where no other user can replace the path";

fn mounts_trial() -> ActionTrial {
    let mut trial = ActionTrial::new();
    for folder in ["home/d/point", "home/d/other", "vault/point", "vault/other", "srv"] {
        std::fs::create_dir_all(trial.path(folder)).unwrap();
    }
    let fstab = trial.path("fstab");
    trial.moved.push(("/etc/fstab", fstab));
    trial
}

fn give_home(trial: &ActionTrial) {
    for folder in ["home", "home/d"] {
        chown(trial.path(folder), Some(OTHER), Some(OTHER)).unwrap();
    }
}

fn redirect_home(trial: &ActionTrial) {
    give_home(trial);
    std::fs::rename(trial.path("home/d"), trial.path("home/away")).unwrap();
    symlink(trial.path("vault"), trial.path("home/d")).unwrap();
}

/// All operations of a mount that use a name: mount, bind, remount and unmount. With `noauto`, systemd is not asked: this
/// machine may not run it.
fn mount_steps(trial: &ActionTrial) -> Vec<(Value, bool)> {
    let at = |name: &str| trial.path(name);
    let tmpfs = |path: &str, options: &[&str]| {
        let options = [&["noauto"], options].concat();
        json!({ "path": at(path), "source": "tmpfs", "fstype": "tmpfs", "options": options })
    };
    let strict = tmpfs("home/d/point", &["noexec"]);
    let bound =
        json!({ "path": at("srv/b"), "source": at("home/d/other"), "fstype": "none", "options": ["bind", "noauto"] });
    vec![(tmpfs("home/d/other", &[]), false), (bound, false), (strict, false), (tmpfs("home/d/point", &[]), true)]
}

fn build_resources(trial: &ActionTrial) -> Vec<Box<dyn Resource>> {
    mount_steps(trial).iter().map(|(written, absent)| trial.build("mount", written, *absent)).collect()
}

/// Mounts `point` before a script, and afterwards records the mount table below the directory.
fn with_mounted(trial: &mut ActionTrial, shell: &str, point: &str) {
    let (point, place, table) = (trial.path(point), trial.path(""), trial.path("table"));
    trial.inside = Some(format!(
        "mount -t tmpfs tmpfs '{point}'; {shell}; status=$?\n\
         grep -F ' {place}' /proc/self/mountinfo | cut -d' ' -f5,6 > '{table}'; exit $status"
    ));
}

#[test]
fn mount_below_a_replaceable_directory_is_blocked() {
    if !is_root() {
        return;
    }
    let mut trial = mounts_trial();
    with_mounted(&mut trial, "dash", "home/d/point");
    for resource in build_resources(&trial) {
        assert_eq!(trial.assess_resource(resource.as_ref()).verdict, StepVerdict::Change, "{}", resource.title());
    }
    give_home(&trial);
    for resource in build_resources(&trial) {
        let judgement = trial.assess_resource(resource.as_ref());
        assert_eq!(judgement.verdict, StepVerdict::Blocked(BlockClass::Host), "{}", resource.title());
        let weak = trial.path("home/d");
        let why = format!("user nobody can replace {weak}: {ONLY_FIXED}");
        assert_eq!(judgement.reason.raw(), why, "{}", resource.title());
        assert!(judgement.hint.is_some());
    }
}

#[test]
fn mount_does_not_follow_a_symlink_created_after_the_plan() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let mut trial = mounts_trial();
        with_mounted(&mut trial, "dash", "home/d/point");
        let judged: Vec<_> = build_resources(&trial)
            .into_iter()
            .map(|resource| (trial.assess_resource(resource.as_ref()), resource))
            .collect();
        redirect_home(&trial);
        with_mounted(&mut trial, shell, "vault/point");
        for (judgement, resource) in judged {
            let output =
                trial.run_action(shell, resource.render_action(&judgement, &trial.context()).into_script().body);
            let said = String::from_utf8_lossy(&output.stderr);
            let why = format!("forge: {} is a symbolic link that user nobody can replace", trial.path("home/d"));
            assert!(said.starts_with(&why) && !output.status.success(), "{shell} {}: {said}", resource.title());
            let table = std::fs::read_to_string(trial.path("table")).unwrap();
            assert_eq!(table, format!("{} rw,relatime\n", trial.path("vault/point")), "{}", resource.title());
            assert!(!std::path::Path::new(&trial.path("fstab")).exists());
        }
    }
}
