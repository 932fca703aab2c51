//! Removals that would take more than they say: system directories behind links, homes of others, mounts in a home.

use super::{ActionTrial, is_root, with_own_etc};
use crate::model::{BlockClass, StepVerdict};
use serde_json::json;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

#[test]
fn system_directory_behind_a_link_is_not_removed() {
    if !is_root() {
        return;
    }
    for kind in ["absent", "directory"] {
        let mut trial = ActionTrial::new();
        let system = trial.path("system/ssh");
        std::fs::create_dir_all(&system).unwrap();
        std::fs::write(format!("{system}/sshd_config"), "").unwrap();
        symlink(trial.path("system"), trial.path("link")).unwrap();
        trial.moved.push(("/etc/ssh", system.clone()));
        let path = trial.path("link/ssh");
        let tree = trial.build(kind, &json!({ "path": path, "recursive": true }), kind == "directory");
        let said = trial.failed_change_message("dash", tree.as_ref());
        assert_eq!(said, format!("forge: {path} is {system}, a system directory, which is never removed\n"));
        assert!(Path::new(&format!("{system}/sshd_config")).exists());
    }
}

/// `userdel --remove` leaves a home of another account without an error, and empties file systems mounted in a home.
#[test]
fn account_stays_if_its_home_cannot_be_removed() {
    if !is_root() {
        return;
    }
    let Some(mut trial) = with_own_etc() else { return };
    let home = trial.path("home");
    // `useradd -d` keeps the slash.
    let user = trial.build("user", &json!({ "name": "forge-trial", "home": format!("{home}/") }), false);
    trial.converge("dash", user.as_ref());
    let gone = trial.build("user", &json!({ "name": "forge-trial", "remove_home": true }), true);

    let theirs = trial.path("theirs");
    std::fs::create_dir_all(format!("{home}/share")).unwrap();
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(format!("{theirs}/data"), "").unwrap();
    let etc = trial.inside.clone().unwrap();
    let before = trial.assess_resource(gone.as_ref());
    let action = gone.render_action(&before, &trial.context()).into_script().body;
    trial.inside = Some(format!("{etc}; mount --bind '{theirs}' '{home}/share' || exit 1"));
    let output = trial.run_action("dash", action);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        said,
        format!("forge: a file system is mounted at {home}/share: nothing was removed\n"),
        "mounted since"
    );
    let judged = trial.assess_resource(gone.as_ref());
    assert_eq!(judged.verdict, StepVerdict::Blocked(BlockClass::Host), "{}", judged.reason.raw());
    assert!(Path::new(&format!("{theirs}/data")).exists());
    trial.inside = Some(etc);

    chown(&home, Some(0), Some(0)).unwrap();
    let said = trial.failed_change_message("dash", gone.as_ref());
    assert_eq!(said, format!("forge: the home {home} belongs to another account: nothing was removed\n"));
    assert!(Path::new(&home).exists());
}

/// Without its home, the account is not made: the next run would find nothing to do.
#[test]
fn account_without_its_home_is_taken_back() {
    if !is_root() {
        return;
    }
    let Some(mut trial) = with_own_etc() else { return };
    let above = trial.path("sealed");
    std::fs::create_dir(&above).unwrap();
    let etc = trial.inside.clone().unwrap();
    trial.inside = Some(format!("{etc}; mount -t tmpfs -o ro tmpfs '{above}' || exit 1"));
    let user = trial.build("user", &json!({ "name": "forge-trial", "home": format!("{above}/x") }), false);
    for _ in 0..2 {
        let said = trial.failed_change_message("dash", user.as_ref());
        assert!(said.contains("cannot create directory"), "{said}");
    }
    trial.inside = Some(etc);
    std::fs::remove_dir(&above).unwrap();
    std::fs::create_dir(&above).unwrap();
    trial.converge("dash", user.as_ref());
    assert!(Path::new(&format!("{above}/x")).is_dir());
}
