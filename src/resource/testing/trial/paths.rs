//! Paths in a directory of another user: a link there must not redirect any kind to files of root.

use super::{ActionTrial, RUN, SHELLS, is_root};
use crate::model::{BlockClass, StepVerdict, Value};
use crate::resource::Resource;
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// A user other than root.
const OTHER: u32 = 65_534;

const BODY: &str = "ours\n";

/// Creates a home directory of another user with a directory in it, and a directory of root with the same names in it.
fn paths_trial() -> ActionTrial {
    let trial = ActionTrial::new();
    for (folder, owner) in [("home", OTHER), ("home/d", OTHER), ("vault", 0)] {
        std::fs::create_dir(trial.path(folder)).unwrap();
        chown(trial.path(folder), Some(owner), Some(owner)).unwrap();
    }
    for folder in ["home/d", "vault"] {
        let tree = trial.path(&format!("{folder}/tree"));
        std::fs::create_dir(&tree).unwrap();
        chown(&tree, Some(OTHER).filter(|_| folder != "vault"), None).unwrap();
        for name in ["tree/inner", "edited", "old", "owned"] {
            let body = if name == "owned" { BODY } else { "theirs\n" };
            std::fs::write(trial.path(&format!("{folder}/{name}")), body).unwrap();
        }
    }
    trial
}

/// Every kind with a declared path, with a change to make below `home/d`.
fn path_steps(trial: &ActionTrial) -> Vec<(&'static str, Value, bool)> {
    let at = |name: &str| trial.path(&format!("home/d/{name}"));
    vec![
        ("file", json!({ "path": at("new"), "content": BODY, "owner": "nobody" }), false),
        ("file", json!({ "path": at("old"), "content": BODY, "owner": "nobody" }), false),
        ("file", json!({ "path": at("owned"), "content": BODY, "owner": "nobody", "mode": "0666" }), false),
        ("file", json!({ "path": at("old") }), true),
        ("line", json!({ "path": at("edited"), "line": "ours" }), false),
        ("block", json!({ "path": at("edited"), "name": "x", "content": "ours" }), false),
        ("directory", json!({ "path": at("made"), "owner": "nobody" }), false),
        ("directory", json!({ "path": at("tree"), "owner": "nobody", "mode": "0777" }), false),
        ("directory", json!({ "path": at("tree"), "recursive": true }), true),
        ("absent", json!({ "paths": [at("tree"), at("old")], "recursive": true }), false),
        ("link", json!({ "path": at("pointer"), "target": "/etc" }), false),
    ]
}

fn build_resources(trial: &ActionTrial) -> Vec<Box<dyn Resource>> {
    path_steps(trial).iter().map(|(kind, written, absent)| trial.build(kind, written, *absent)).collect()
}

/// Returns everything below a directory, with owner, mode, ctime and body.
fn snapshot_tree(folder: &Path, seen: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let info = std::fs::symlink_metadata(&path).unwrap();
        let body = if info.is_file() { std::fs::read_to_string(&path).unwrap() } else { String::new() };
        let row = format!("{} {:o} {}.{} {body}", info.uid(), info.mode(), info.ctime(), info.ctime_nsec());
        seen.insert(path.to_str().unwrap().to_owned(), row);
        if info.is_dir() {
            snapshot_tree(&path, seen);
        }
    }
}

fn snapshot_vault(trial: &ActionTrial) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    snapshot_tree(Path::new(&trial.path("vault")), &mut seen);
    assert_eq!(seen.len(), 5);
    seen
}

fn redirect_home(trial: &ActionTrial) {
    std::fs::rename(trial.path("home/d"), trial.path("home/away")).unwrap();
    symlink(trial.path("vault"), trial.path("home/d")).unwrap();
}

#[test]
fn path_through_an_untrusted_symlink_is_blocked_in_the_plan() {
    if !is_root() {
        return;
    }
    let trial = paths_trial();
    redirect_home(&trial);
    let link = trial.path("home/d");
    for resource in build_resources(&trial) {
        let judgement = trial.assess_resource(resource.as_ref());
        let told = format!("{}: {:?}", resource.kind(), judgement.reason);
        assert_eq!(judgement.verdict, StepVerdict::Blocked(BlockClass::Host), "{told}");
        let why = format!("{link} is a symbolic link that user nobody can replace: forge does not follow it");
        assert_eq!(judgement.reason.raw().trim_start_matches(&format!("`{link}/tree`: ")), why, "{told}");
        assert!(judgement.hint.is_some(), "{told}");
    }
}

#[test]
fn actions_do_not_follow_a_symlink_created_after_the_plan() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = paths_trial();
        let judged: Vec<_> = build_resources(&trial)
            .into_iter()
            .map(|resource| (trial.assess_resource(resource.as_ref()), resource))
            .collect();
        redirect_home(&trial);
        let before = snapshot_vault(&trial);
        for (judgement, resource) in judged {
            assert_eq!(judgement.verdict, StepVerdict::Change, "{}: {:?}", resource.kind(), judgement.reason);
            let output =
                trial.run_action(shell, resource.render_action(&judgement, &trial.context()).into_script().body);
            let said = String::from_utf8_lossy(&output.stderr);
            let why = format!("forge: {} is a symbolic link that user nobody can replace", trial.path("home/d"));
            assert!(said.starts_with(&why) && !output.status.success(), "{shell} {}: {said}", resource.kind());
            assert_eq!(snapshot_vault(&trial), before, "{shell} {}", resource.kind());
        }
    }
}

#[test]
fn every_kind_converges_in_a_directory_of_another_user() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        for number in 0..path_steps(&paths_trial()).len() {
            let trial = paths_trial();
            trial.converge(shell, build_resources(&trial)[number].as_ref());
            let left: Vec<_> =
                std::fs::read_dir(trial.path("home/d")).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert!(left.iter().all(|name| !name.to_str().unwrap().starts_with('.')), "{number}: {left:?}");
        }
    }
}

/// A user who can rename entries of a directory puts a directory of root at the declared name.
#[test]
fn directory_owned_by_a_third_account_is_not_chowned() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = paths_trial();
        let roots = trial.path("home/d/roots");
        std::fs::create_dir(&roots).unwrap();
        std::fs::write(format!("{roots}/secret"), "").unwrap();
        let directory =
            trial.build("directory", &json!({ "path": trial.path("home/d/tree"), "owner": "daemon" }), false);
        let planned = trial.assess_resource(directory.as_ref());
        assert_eq!(planned.verdict, StepVerdict::Change, "their own folder: {:?}", planned.reason);
        std::fs::remove_dir_all(trial.path("home/d/tree")).unwrap();
        std::fs::rename(&roots, trial.path("home/d/tree")).unwrap();
        let tree = trial.path("home/d/tree");
        let why = "belongs to root, and others may have put it there: forge does not give it away";
        let output = trial.run_action(shell, directory.render_action(&planned, &trial.context()).into_script().body);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with(&format!("forge: {tree} {why}")) && !output.status.success(), "{shell}: {said}");
        let again = trial.assess_resource(directory.as_ref());
        assert_eq!(again.verdict, StepVerdict::Blocked(BlockClass::Host));
        assert_eq!(again.reason.raw(), format!("`{tree}` {why}"));
        assert_eq!(std::fs::metadata(&tree).unwrap().uid(), 0);
        // Members of the group of root's directory can do the same.
        chown(trial.path("home/d"), Some(0), None).unwrap();
        std::fs::set_permissions(trial.path("home/d"), PermissionsExt::from_mode(0o775)).unwrap();
        assert_eq!(trial.assess_resource(directory.as_ref()).verdict, StepVerdict::Blocked(BlockClass::Host));
        let output = trial.run_action(shell, directory.render_action(&planned, &trial.context()).into_script().body);
        assert!(String::from_utf8_lossy(&output.stderr).starts_with(&format!("forge: {tree} {why}")), "{shell}");
        chown(trial.path("home/d"), Some(OTHER), None).unwrap();
        chown(&tree, Some(OTHER), None).unwrap();
        trial.converge(shell, directory.as_ref());
    }
}

/// Its owner may have the old file open for writing.
#[test]
fn mode_change_of_a_replaceable_file_creates_a_new_file() {
    if !is_root() {
        return;
    }
    let trial = paths_trial();
    let path = trial.path("home/d/owned");
    let old = std::fs::metadata(&path).unwrap().ino();
    let file = trial.build("file", &json!({ "path": path, "content": BODY, "mode": "4755" }), false);
    trial.converge("dash", file.as_ref());
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), old);
}

/// The staging directory of a killed run is emptied by name, and only if root owns it.
#[test]
fn only_root_owned_leftovers_of_a_killed_run_are_removed() {
    if !is_root() {
        return;
    }
    let trial = paths_trial();
    let left = |name: &str| trial.path(&format!("home/d/.new.forge-20250101T000000-{name}"));
    for name in ["ours", "theirs"] {
        std::fs::create_dir(left(name)).unwrap();
        std::fs::set_permissions(left(name), PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(format!("{}/new", left(name)), "half").unwrap();
    }
    chown(left("theirs"), Some(OTHER), Some(OTHER)).unwrap();
    symlink(trial.path("vault"), left("link")).unwrap();
    let before = snapshot_vault(&trial);
    trial.converge("dash", build_resources(&trial)[0].as_ref());
    assert!(!Path::new(&left("ours")).exists() && Path::new(&left("theirs")).join("new").exists());
    assert_eq!(snapshot_vault(&trial), before);
}

/// A validator takes a name, and a user who can replace a part of it controls which file root's program reads.
#[test]
fn validator_reads_only_the_protected_candidate() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        for (kind, mut written) in [
            ("file", json!({ "path": "new", "content": BODY, "owner": "nobody", "mode": "0640" })),
            ("line", json!({ "path": "edited", "line": "ours" })),
        ] {
            let trial = paths_trial();
            let name = written["path"].as_str().unwrap().to_owned();
            let (folder, seen) = (trial.path("home/d"), trial.path("seen"));
            // First the actions of the directory's owner at that moment, then those of a program with the candidate.
            let validate = format!(
                "cd '{folder}' && for box in .*.forge-*; do mv \"$box\" away; mkdir -p \"$box\"; echo bad > \"$box/{name}\"; done
                 printf '%s ' \"$FORGE_FILE\" > '{seen}'; stat -c '%U %a' \"${{FORGE_FILE%/*}}\" >> '{seen}'; grep -q ours \"$FORGE_FILE\""
            );
            written["path"] = json!(format!("{folder}/{name}"));
            written["validate"] = json!(validate);
            let output = trial.apply_change(shell, trial.build(kind, &written, false).as_ref());
            assert!(output.status.success(), "{shell} {kind}: {}", String::from_utf8_lossy(&output.stderr));
            let seen = std::fs::read_to_string(seen).unwrap();
            let (path, folder_of) = seen.split_once(' ').unwrap();
            assert!(path.starts_with("/run/forge-validate.") && path.ends_with(&format!("/{name}")), "{path}");
            assert_eq!(folder_of, "root 700\n");
            assert!(!Path::new(path).parent().unwrap().exists(), "the copy is removed");
            assert!(std::fs::read_to_string(format!("{folder}/{name}")).unwrap().ends_with(BODY), "{shell} {kind}");
        }
    }
}

/// Files relative to the file's directory exist for a validator, as for the service.
#[test]
fn validator_receives_the_candidate_next_to_the_target() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = paths_trial();
        let (folder, seen) = (trial.path("vault"), trial.path("seen"));
        let step = |validate: &str| {
            let path = format!("{folder}/conf");
            let written =
                json!({ "path": path, "content": BODY, "owner": "nobody", "mode": "0640", "validate": validate });
            trial.build("file", &written, false)
        };
        let entries = || {
            let mut names: Vec<_> =
                std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let before = entries();
        let why =
            format!("forge: the new body of {folder}/conf is not valid (exit status 4): the file was left as it was\n");
        assert_eq!(trial.failed_change_message(shell, step("exit 4").as_ref()), why);
        assert_eq!(entries(), before, "nothing is left");
        let why = format!("forge: validate changed the new body of {folder}/conf: the file was left as it was\n");
        assert_eq!(trial.failed_change_message(shell, step("sed -i s/ours/theirs/ \"$FORGE_FILE\"").as_ref()), why);
        assert_eq!(entries(), before, "nothing is left");
        let look = "cat \"$FORGE_FILE\"; stat -c '%U %a %n' \"$FORGE_FILE\"; cat \"${FORGE_FILE%/*}/edited\"";
        trial.converge(shell, step(&format!("{{ {look}; }} > '{seen}'")).as_ref());
        let expected = format!("{BODY}nobody 640 {folder}/.conf.forge-{RUN}.new\ntheirs\n");
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), expected);
        assert_eq!(entries(), ["conf", "edited", "old", "owned", "tree"]);
        assert_eq!(std::fs::metadata(format!("{folder}/conf")).unwrap().nlink(), 1);
    }
}

/// A service that reads the file is restarted because of its ctime.
#[test]
fn rejected_edit_keeps_the_ctime_of_the_file() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = paths_trial();
        let path = trial.path("home/d/edited");
        let ctime = || std::fs::metadata(&path).map(|info| (info.ino(), info.ctime(), info.ctime_nsec())).unwrap();
        let line =
            |validate: &str| trial.build("line", &json!({ "path": path, "line": "ours", "validate": validate }), false);
        let before = ctime();
        let why = format!("forge: the new body of {path} is not valid (exit status 1): the file was left as it was\n");
        assert_eq!(trial.failed_change_message(shell, line("false").as_ref()), why);
        assert_eq!(ctime(), before, "{shell}");
        let planned = trial.assess_resource(line("true").as_ref());
        std::fs::write(&path, "changed\n").unwrap();
        let before = ctime();
        let output = trial.run_action(shell, line("true").render_action(&planned, &trial.context()).into_script().body);
        let why = format!("forge: {path} has changed since it was looked at: nothing was written\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), why);
        assert_eq!(ctime(), before, "{shell}");
    }
}
