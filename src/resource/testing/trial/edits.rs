//! Links, removals, and files of which a step declares a part.

use super::*;
use crate::probe::ProbeReading;
use std::os::unix::fs::{MetadataExt, chown};

/// The ids of `nobody` and `daemon`, or ids without a name.
const NOBODY: u32 = 65534;

#[test]
fn link_is_created_changed_and_removed() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let name = NASTY.replace(['/', '\n', '\t'], "_");
        let path = trial.path(&name);
        let link = |target: &str, more: Value| {
            let mut written = json!({ "path": path, "target": target });
            written.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            trial.build("link", &written, false)
        };
        let said = trial.converge(shell, link(&format!("-- {name}"), json!({})).as_ref());
        assert_eq!(said, format!("the link points to `-- {name}`; its target does not exist"));
        std::fs::write(trial.path("there"), "").unwrap();
        let said = trial.converge(shell, link("there", json!({ "owner": "nobody" })).as_ref());
        assert_eq!(said, "the link points to `there`");
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().uid(), NOBODY);
        assert_eq!(std::fs::metadata(trial.path("there")).unwrap().uid(), 0, "the owner of the target does not change");
        // A link to a directory is replaced; the directory does not change.
        std::fs::create_dir(trial.path("folder")).unwrap();
        trial.converge(shell, link("folder", json!({})).as_ref());
        trial.converge(shell, link("there", json!({})).as_ref());
        assert_eq!(std::fs::read_dir(trial.path("folder")).unwrap().count(), 0);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "theirs").unwrap();
        assert_eq!(trial.assess_resource(link("there", json!({})).as_ref()).verdict.name(), "blocked");
        trial.converge(shell, link("there", json!({ "force": true })).as_ref());
        let kept = format!("{}/backups/{RUN}{path}", trial.path("forge-state"));
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "theirs");
        trial.converge(shell, trial.build("link", &json!({ "path": path, "target": "x" }), true).as_ref());
        assert!(Path::new(&trial.path("there")).exists());
    }
}

#[test]
fn absent_removes_only_the_declared_paths() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let [file, link, tree, gone] = ["it's a file", "a link", "a tree", "gone"].map(|name| trial.path(name));
        let theirs = trial.path("theirs");
        std::fs::create_dir_all(format!("{tree}/deep")).unwrap();
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(&file, "body").unwrap();
        std::fs::write(format!("{theirs}/x"), "").unwrap();
        symlink(&theirs, &link).unwrap();
        symlink(&theirs, format!("{tree}/deep/link")).unwrap();
        let written = json!({ "paths": [file, link, tree, gone], "recursive": true });
        trial.converge(shell, trial.build("absent", &written, false).as_ref());
        assert!(Path::new(&format!("{theirs}/x")).exists());
        let kept = format!("{}/backups/{RUN}{file}", trial.path("forge-state"));
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "body");
    }
}

#[test]
fn tree_that_contains_a_mount_is_not_removed() {
    if !is_root() {
        return;
    }
    for kind in ["absent", "directory"] {
        let mut trial = ActionTrial::new();
        let tree = trial.path("a tree");
        std::fs::create_dir_all(format!("{tree}/in it")).unwrap();
        std::fs::create_dir(trial.path("theirs")).unwrap();
        std::fs::write(format!("{tree}/first"), "").unwrap();
        std::fs::write(format!("{}/x", trial.path("theirs")), "").unwrap();
        // Same file system: its device number does not identify the mount.
        trial.inside = Some(format!("mount --bind '{}' '{tree}/in it' || exit 1", trial.path("theirs")));
        if !trial.run_text("sh", "exit 0\n").status.success() {
            eprintln!("skipped: no mount namespaces here");
            return;
        }
        let tree_gone = trial.build(kind, &json!({ "path": tree, "recursive": true }), kind == "directory");
        let blocked = trial.assess_resource(tree_gone.as_ref());
        let why = format!("a file system is mounted at `{tree}/in it`, in `{tree}`: nothing is removed");
        assert_eq!(blocked.reason.raw(), why);
        // It may be mounted after the observation.
        let mount = trial.inside.take();
        let judgement = trial.assess_resource(tree_gone.as_ref());
        let action = tree_gone.render_action(&judgement, &trial.context()).into_script().body;
        trial.inside = mount;
        let said = String::from_utf8_lossy(&trial.run_action("dash", action).stderr).into_owned();
        assert_eq!(said, format!("forge: a file system is mounted at {tree}/in it: nothing was removed\n"));
        assert!(
            Path::new(&format!("{tree}/first")).exists() && Path::new(&format!("{}/x", trial.path("theirs"))).exists()
        );
    }
}

#[test]
fn edited_file_keeps_its_metadata_and_other_lines() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let path = trial.path(&NASTY.replace('/', "_"));
        std::fs::write(&path, "a=1\r\n# BEGIN forge x\r\nold\r\n# END forge x\r\nlast").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        chown(&path, Some(NOBODY), Some(1)).unwrap();
        let tagged = rustix::fs::setxattr(&path, c"user.tag", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
        let line = trial.build("line", &json!({ "path": path, "line": "a=2", "match": "^a=" }), false);
        assert_eq!(trial.converge(shell, line.as_ref()), "line 1 matches");
        let block = trial.build("block", &json!({ "path": path, "name": "x", "content": "new\nit's $(id)\n" }), false);
        trial.converge(shell, block.as_ref());
        let body = "a=2\r\n# BEGIN forge x\r\nnew\r\nit's $(id)\r\n# END forge x\r\nlast";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), body);
        let now = std::fs::metadata(&path).unwrap();
        assert_eq!((file_mode(&path), now.uid(), now.gid()), (0o640, NOBODY, 1));
        let mut tag = [0u8; 8];
        let read = rustix::fs::getxattr(&path, c"user.tag", &mut tag);
        assert!(!tagged || read == Ok(4), "the attribute is preserved");
        trial.converge(shell, trial.build("block", &json!({ "path": path, "name": "x" }), true).as_ref());
        trial.converge(shell, trial.build("line", &json!({ "path": path, "line": "a=2" }), true).as_ref());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "last");
    }
}

#[test]
fn file_changed_since_the_plan_is_not_written() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let path = trial.path("conf");
    let line = trial.build("line", &json!({ "path": path, "line": "x", "create": true, "backup": false }), false);
    for (before, meanwhile) in [(Some("a\n"), Some("b\n")), (None, Some("b\n")), (Some("a\n"), None)] {
        let put = |body: Option<&str>| match body {
            Some(body) => std::fs::write(&path, body).unwrap(),
            None => drop(std::fs::remove_file(&path)),
        };
        put(before);
        let judgement = trial.assess_resource(line.as_ref());
        put(meanwhile);
        let output = trial.run_action("dash", line.render_action(&judgement, &trial.context()).into_script().body);
        assert!(!output.status.success());
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            format!("forge: {path} has changed since it was looked at: nothing was written\n")
        );
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), meanwhile);
        assert_eq!(std::fs::read_dir(trial.dir.path()).unwrap().count(), usize::from(meanwhile.is_some()));
    }
}

#[test]
fn edit_that_fails_validation_is_not_written() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let path = trial.path("conf");
    std::fs::write(&path, "a\n").unwrap();
    let written = json!({ "path": path, "line": "b", "validate": "! grep -q b \"$FORGE_FILE\"" });
    let said = trial.failed_change_message("dash", trial.build("line", &written, false).as_ref());
    assert_eq!(
        said,
        format!("forge: the new body of {path} is not valid (exit status 1): the file was left as it was\n")
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n");
}

/// Several steps in one script, as in the engine: each is evaluated with the predicted effects of the earlier ones.
#[test]
fn edits_in_one_script_apply_in_sequence() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let path = trial.path("hosts");
    let edits: Vec<_> = ["one", "two", "three"]
        .map(|line| trial.build("line", &json!({ "path": path, "line": line, "create": true }), false))
        .into_iter()
        .collect();
    let mut seen = trial.run_probes(edits.iter().flat_map(|edit| edit.probes()).collect());
    let mut script = ShellFragment::new();
    for edit in &edits {
        let judgement = edit.assess(&seen, &trial.context());
        script = script
            .append_fragment(edit.render_action(&judgement, &trial.context()).into_script().body)
            .code("[ $? -eq 0 ] || exit\n");
        let (probe, reading) = judgement.reading_after().unwrap();
        seen.insert(probe, Ok::<ProbeReading, _>(reading));
    }
    let output = trial.run_action("dash", script);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
    edits.iter().for_each(|edit| assert_eq!(trial.assess_resource(edit.as_ref()).verdict, StepVerdict::Ok));
}

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

/// Returns a trial with the account `forge-trial`, which has a unique uid, and its home directory.
fn with_account() -> Option<(ActionTrial, String)> {
    let trial = with_own_etc()?;
    std::fs::set_permissions(trial.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let home = trial.path("home of x");
    std::fs::create_dir(&home).unwrap();
    chown(&home, Some(64123), Some(64123)).unwrap();
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o755)).unwrap();
    for (file, line) in
        [("passwd", format!("forge-trial:x:64123:64123::{home}:/bin/sh")), ("group", "forge-trial:x:64123:".to_owned())]
    {
        let path = trial.path(&format!("etc/{file}"));
        let body = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{body}{line}\n")).unwrap();
    }
    Some((trial, home))
}

#[test]
fn authorized_keys_are_added_and_removed_with_account_owner() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let Some((trial, home)) = with_account() else { return };
        let file = format!("{home}/.ssh/authorized_keys");
        let written = json!({ "user": "forge-trial", "key": format!("{KEY} it's me") });
        let key = trial.build("ssh_authorized_key", &written, false);
        assert_eq!(trial.converge(shell, key.as_ref()), "the key exists and its options match");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{KEY} it's me\n"));
        assert_eq!((file_mode(&format!("{home}/.ssh")), file_mode(&file)), (0o700, 0o600));
        assert_eq!(std::fs::metadata(&file).unwrap().uid(), 64123);
        // Writable by all users: sshd would ignore it.
        std::fs::write(&file, format!("# mine\nrestrict {KEY}\nssh-rsa AAAA x\n")).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        trial.converge(shell, key.as_ref());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("# mine\n{KEY} it's me\nssh-rsa AAAA x\n"));
        assert_eq!((file_mode(&file), std::fs::metadata(&file).unwrap().uid()), (0o644, 64123));
        let only = json!({ "user": "forge-trial", "key": KEY, "exclusive": true });
        trial.converge(shell, trial.build("ssh_authorized_key", &only, false).as_ref());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("# mine\n{KEY} it's me\n"));
        trial.converge(shell, trial.build("ssh_authorized_key", &written, true).as_ref());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "# mine\n");
    }
}

/// sshd opens the file as the account, and reads `authorized_keys2` by default.
#[test]
fn account_can_read_its_keys_and_the_second_file_has_no_others() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let Some((trial, home)) = with_account() else { return };
        let (folder, file) = (format!("{home}/.ssh"), format!("{home}/.ssh/authorized_keys"));
        let only = json!({ "user": "forge-trial", "key": KEY, "exclusive": true });
        let key = trial.build("ssh_authorized_key", &only, false);
        trial.converge(shell, key.as_ref());
        for (path, mode) in [(&file, 0o000), (&folder, 0o600), (&folder, 0o000)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            trial.converge(shell, key.as_ref());
            assert_eq!((file_mode(&folder), file_mode(&file)), (0o700, 0o600), "{shell} {path} {mode:o}");
        }
        let second = format!("{file}2");
        std::fs::write(&second, format!("# theirs\nssh-rsa AAAA x\n{KEY} me\nrestrict {KEY}\n")).unwrap();
        chown(&second, Some(64123), Some(64123)).unwrap();
        let written = std::fs::metadata(&file).unwrap().ctime_nsec();
        trial.converge(shell, key.as_ref());
        assert_eq!(std::fs::read_to_string(&second).unwrap(), format!("# theirs\n{KEY} me\n"));
        assert_eq!(std::fs::metadata(&file).unwrap().ctime_nsec(), written, "only the second file differed");
        std::fs::remove_file(&file).unwrap();
        trial.converge(
            shell,
            trial.build("ssh_authorized_key", &json!({ "user": "forge-trial", "key": KEY }), true).as_ref(),
        );
        assert_eq!(std::fs::read_to_string(&second).unwrap(), "# theirs\n");
        assert!(!std::fs::exists(&file).unwrap(), "a removal creates no file");
        // Of the same reason, the account must get to its home.
        trial.converge(shell, key.as_ref());
        for (directory, mode) in [(home.as_str(), 0o644), (trial.dir.path().to_str().unwrap(), 0o700)] {
            let path = std::path::Path::new(directory);
            let before = file_mode(directory);
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            let judgement = trial.assess_resource(key.as_ref());
            let why = format!("`forge-trial` cannot search directory `{directory}`, so sshd cannot read its keys");
            assert_eq!(judgement.reason.raw(), why, "{shell}");
            std::fs::set_permissions(path, PermissionsExt::from_mode(before)).unwrap();
        }
        assert_eq!(trial.assess_resource(key.as_ref()).verdict, StepVerdict::Ok);
    }
}

/// An account moves files and directories of root into its home, to own them or to see them in a plan.
#[test]
fn root_files_moved_into_a_home_are_not_chowned_or_shown() {
    if !is_root() {
        return;
    }
    for (shell, moved) in SHELLS.into_iter().flat_map(|shell| [(shell, ".ssh"), (shell, ".ssh/authorized_keys")]) {
        let Some((trial, home)) = with_account() else { return };
        let key = trial.build("ssh_authorized_key", &json!({ "user": "forge-trial", "key": KEY }), false);
        std::fs::create_dir(format!("{home}/.ssh")).unwrap();
        chown(format!("{home}/.ssh"), Some(64123), Some(64123)).unwrap();
        let planned = trial.assess_resource(key.as_ref());
        assert_eq!(planned.verdict, StepVerdict::Change, "{:?}", planned.reason);
        let file = format!("{home}/.ssh/authorized_keys");
        std::fs::write(&file, "secret of root\n").unwrap();
        match moved {
            ".ssh" => chown(format!("{home}/.ssh"), Some(0), Some(0)).unwrap(),
            _ => std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap(),
        }
        let path = format!("{home}/{moved}");
        let why = "belongs to root, and others may have put it there: forge does not give it away";
        let output = trial.run_action(shell, key.render_action(&planned, &trial.context()).into_script().body);
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("forge: {path} {why}\n"), "{shell}");
        assert!(!output.status.success());
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), 0, "{shell} {moved}");
        let again = trial.assess_resource(key.as_ref());
        assert_eq!(again.reason.raw(), format!("`{path}` {why}"));
        assert!(again.changes.is_empty() && again.diff.is_none() && again.hint.is_some());
    }
}

/// Only root can have put it there.
#[test]
fn files_in_a_root_owned_home_are_given_to_the_account() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let Some((trial, home)) = with_account() else { return };
        let (folder, file) = (format!("{home}/.ssh"), format!("{home}/.ssh/authorized_keys"));
        chown(&home, Some(0), Some(0)).unwrap();
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(&file, "# by hand\n").unwrap();
        let key = trial.build("ssh_authorized_key", &json!({ "user": "forge-trial", "key": KEY }), false);
        std::fs::hard_link(&file, trial.path("another name")).unwrap();
        assert_eq!(
            trial.failed_change_message(shell, key.as_ref()),
            format!("forge: {file} has 2 hard links: forge does not give it away\n")
        );
        chown(&folder, Some(0), Some(0)).unwrap();
        std::fs::remove_file(trial.path("another name")).unwrap();
        trial.converge(shell, key.as_ref());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("# by hand\n{KEY}\n"));
        assert_eq!([&folder, &file].map(|path| std::fs::metadata(path).unwrap().uid()), [64123, 64123]);
    }
}

/// A link that an account creates between observation and change must not redirect root.
#[test]
fn symlink_planted_in_a_home_is_rejected() {
    if !is_root() {
        return;
    }
    let Some((trial, home)) = with_account() else { return };
    let key = trial.build("ssh_authorized_key", &json!({ "user": "forge-trial", "key": KEY }), false);
    let judgement = trial.assess_resource(key.as_ref());
    std::fs::create_dir(trial.path("roots")).unwrap();
    symlink(trial.path("roots"), format!("{home}/.ssh")).unwrap();
    let output = trial.run_action("dash", key.render_action(&judgement, &trial.context()).into_script().body);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!("forge: {home}/.ssh or what is in it is a symbolic link\n")
    );
    assert_eq!(std::fs::read_dir(trial.path("roots")).unwrap().count(), 0);
    let reason = trial.assess_resource(key.as_ref()).reason;
    let why = "is a symbolic link that user forge-trial can replace: forge does not follow it";
    assert_eq!(reason.raw(), format!("{home}/.ssh {why}"));
}
