//! Runs actions for real: evaluates with real probes, runs the scripts in this machine's shells, evaluates again.

#![expect(clippy::disallowed_methods, clippy::print_stderr, reason = "tests run programs and read their own files")]

use crate::model::{SecretStore, StepVerdict, Value};
use crate::probe::{Observation, Probe, compile_probes, parse_output};
use crate::resource::testing::recorded_cases::{RUN, build_observation, checked_fields};
use crate::resource::{Assessment, AssessmentContext, Resource, find_kind};
use crate::script::{ScriptToken, ShellFragment, ShellScript};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

mod archives;
mod edits;
mod mounts;
mod paths;
mod removals;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Text that every value must preserve.
const NASTY: &str = "it's \"-- $(id) `id` \\ ü\u{202e} \n\t*";

/// An isolated directory with forge's own directories in it.
struct ActionTrial {
    dir: tempfile::TempDir,
    secrets: SecretStore,
    /// Replacements in the scripts, so that nothing outside the directory is changed.
    moved: Vec<(&'static str, String)>,
    /// Shell code that runs before a script, in a separate mount namespace.
    inside: Option<String>,
}

impl ActionTrial {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("forge-state").to_str().unwrap().to_owned();
        Self { dir, secrets: SecretStore::default(), moved: vec![("/var/lib/forge", state)], inside: None }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn build(&self, name: &str, written: &Value, absent: bool) -> Box<dyn Resource> {
        let kind = find_kind(name).unwrap();
        (kind.build)(&checked_fields(kind.fields, written), absent).unwrap()
    }

    fn run_text(&self, shell: &str, text: &str) -> Output {
        let text = self.moved.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let mut command = match &self.inside {
            None => Command::new(shell),
            Some(before) => {
                let mut command = Command::new("unshare");
                command.args(["-m", "sh", "-c", &format!("{before}\nexec {shell}")]);
                command
            }
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn run_script(&self, shell: &str, script: &ShellScript) -> Output {
        self.run_text(shell, script.render_text(&self.secrets).unwrap().expose_secret())
    }

    fn run_action(&self, shell: &str, body: ShellFragment) -> Output {
        self.run_script(shell, &ShellScript { body, token: ScriptToken::new(TOKEN), limit: Duration::from_secs(30) })
    }

    fn run_probes(&self, probes: Vec<Probe>) -> Observation {
        let probes: BTreeSet<Probe> = probes.into_iter().collect();
        let compiled = compile_probes(&probes, &[], ScriptToken::new(TOKEN), None);
        let output = self.run_script("dash", &compiled.script);
        parse_output(&compiled, &output.stdout, None).unwrap()
    }

    fn context(&self) -> AssessmentContext<'_> {
        AssessmentContext { run: RUN, secrets: Some(&self.secrets), ..AssessmentContext::default() }
    }

    fn assess_resource(&self, resource: &dyn Resource) -> Assessment {
        resource.assess(&self.run_probes(resource.probes()), &self.context())
    }

    /// Applies the changes and returns the output of the action.
    fn apply_change(&self, shell: &str, resource: &dyn Resource) -> Output {
        let judgement = self.assess_resource(resource);
        assert_eq!(judgement.verdict, StepVerdict::Change, "{}", judgement.reason.raw());
        self.run_action(shell, resource.render_action(&judgement, &self.context()).into_script().body)
    }

    /// Applies a change and asserts that no change remains; returns the reason of the no-op.
    fn converge(&self, shell: &str, resource: &dyn Resource) -> String {
        let output = self.apply_change(shell, resource);
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        let again = self.assess_resource(resource);
        assert_eq!(again.verdict, StepVerdict::Ok, "{}: {:?}", again.reason.raw(), again.changes);
        again.reason.raw().to_owned()
    }

    fn failed_change_message(&self, shell: &str, resource: &dyn Resource) -> String {
        let output = self.apply_change(shell, resource);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

const SHELLS: [&str; 2] = ["dash", "bash"];

/// Reports whether the tests run as root, which they need to change owners; prints a note if they are skipped.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

fn file_mode(path: &str) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn file_with_special_characters_is_written_and_removed() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let path = trial.path(&NASTY.replace('/', "_"));
        let written = json!({ "path": path, "content": NASTY, "owner": "nobody", "group": "daemon", "mode": "4750" });
        let file = trial.build("file", &written, false);
        assert_eq!(trial.converge(shell, file.as_ref()), "content, owner and mode match");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), NASTY);
        assert_eq!(file_mode(&path), 0o4750);
        std::fs::write(&path, "drifted").unwrap();
        trial.converge(shell, file.as_ref());
        let kept = format!("{}/backups/{RUN}{path}", trial.path("forge-state"));
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "drifted");
        assert_eq!(file_mode(&trial.path("forge-state")), 0o700);
        let gone = trial.build("file", &written, true);
        trial.converge(shell, gone.as_ref());
        assert!(!Path::new(&path).exists());
    }
}

#[test]
fn large_binary_body_is_written() {
    if !is_root() {
        return;
    }
    use base64::Engine as _;
    let bytes: Vec<u8> = (0..400_000u32).map(|i| (i % 251) as u8).collect();
    let trial = ActionTrial::new();
    let path = trial.path("blob");
    let encoded = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let file = trial.build("file", &json!({ "path": path, "source": { "base64": encoded } }), false);
    trial.converge("dash", file.as_ref());
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn mode_is_fixed_without_replacing_the_file() {
    if !is_root() {
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let trial = ActionTrial::new();
    let path = trial.path("f");
    let file = trial.build("file", &json!({ "path": path, "content": "x" }), false);
    trial.converge("dash", file.as_ref());
    let inode = std::fs::metadata(&path).unwrap().ino();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    trial.converge("dash", file.as_ref());
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
}

#[test]
fn symlink_is_replaced_and_its_target_unchanged() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let (path, target) = (trial.path("link"), trial.path("target"));
    std::fs::write(&target, "theirs").unwrap();
    symlink(&target, &path).unwrap();
    let file = trial.build("file", &json!({ "path": path, "content": "ours" }), false);
    trial.converge("dash", file.as_ref());
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "theirs");
    assert!(!std::fs::symlink_metadata(&path).unwrap().is_symlink());
}

#[test]
fn failed_validation_leaves_the_old_file() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let path = trial.path("conf");
        std::fs::write(&path, "old").unwrap();
        let validate = "grep -q good \"$FORGE_FILE\" || { echo bad >&2; exit 3; }";
        let build = |content: &str| {
            trial.build("file", &json!({ "path": path, "content": content, "validate": validate }), false)
        };
        let said = trial.failed_change_message(shell, build("nonsense").as_ref());
        assert_eq!(
            said,
            format!("bad\nforge: the new body of {path} is not valid (exit status 3): the file was left as it was\n")
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(trial.dir.path()).unwrap().count(), 1, "no candidate is left");
        trial.converge(shell, build("good").as_ref());
    }
}

#[test]
fn leftover_candidate_of_a_killed_run_is_removed() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let path = trial.path("conf");
    let (left, other) = (trial.path(".conf.forge-20250101T000000-aaaa"), trial.path(".conf.forge-notes"));
    std::fs::write(&left, "half").unwrap();
    std::fs::write(&other, "theirs").unwrap();
    let file = trial.build("file", &json!({ "path": path, "content": "whole", "backup": false }), false);
    trial.converge("dash", file.as_ref());
    assert!(!Path::new(&left).exists() && Path::new(&other).exists());
}

#[test]
fn file_with_a_secret_converges() {
    if !is_root() {
        return;
    }
    let mut trial = ActionTrial::new();
    trial.secrets.insert("join", SecretString::from("correct horse".to_owned()));
    let path = trial.path("token");
    let file = trial.build("file", &json!({ "path": path, "content": "t=${secret join}\n", "mode": "0600" }), false);
    trial.converge("dash", file.as_ref());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "t=correct horse\n");
}

#[test]
fn directory_is_created_and_removed() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let path = trial.path(&NASTY.replace('/', "_"));
        let written = json!({ "path": path, "owner": "nobody", "mode": "1770" });
        let directory = trial.build("directory", &written, false);
        assert_eq!(trial.converge(shell, directory.as_ref()), "owner and mode match");
        std::fs::write(format!("{path}/.hidden"), "").unwrap();
        let gone = trial.build("directory", &written, true);
        assert_eq!(trial.assess_resource(gone.as_ref()).reason.raw(), format!("`{path}` is not empty"));
        let tree = trial.build("directory", &json!({ "path": path, "recursive": true }), true);
        trial.converge(shell, tree.as_ref());
        trial.converge(shell, directory.as_ref());
        trial.converge(shell, gone.as_ref());
    }
}

/// GNU `chmod` keeps the set-group-id bit of a directory, which a directory inherits from its parent, too.
#[test]
fn undeclared_set_group_id_bit_of_a_directory_is_removed() {
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let set_mode = |path: &str, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        let path = trial.path("app");
        let directory = trial.build("directory", &json!({ "path": path, "mode": "0750" }), false);
        set_mode(&trial.path(""), 0o2755);
        assert_eq!(
            (trial.converge(shell, directory.as_ref()).as_str(), file_mode(&path)),
            ("owner and mode match", 0o750)
        );
        set_mode(&path, 0o6750);
        assert_eq!(
            (trial.converge(shell, directory.as_ref()).as_str(), file_mode(&path)),
            ("owner and mode match", 0o750)
        );
        let shared = trial.build("directory", &json!({ "path": path, "mode": "2750" }), false);
        trial.converge(shell, shared.as_ref());
        assert_eq!(file_mode(&path), 0o2750, "a declared bit is set");
        let open = trial.path("open");
        std::fs::create_dir(&open).unwrap();
        set_mode(&open, 0o3777);
        let inner = trial.build("directory", &json!({ "path": format!("{open}/app"), "mode": "0750" }), false);
        trial.converge(shell, inner.as_ref());
        assert_eq!(file_mode(&format!("{open}/app")), 0o750, "staged in a directory of others");
    }
}

#[test]
fn command_is_checked_run_and_verified() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let mut trial = ActionTrial::new();
        trial.secrets.insert("join", SecretString::from("it's $secret".to_owned()));
        std::fs::set_permissions(trial.dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let written = json!({
            "check": "test \"$(cat out 2>/dev/null)\" = \"$WANT nobody $HOME\"",
            "apply": "printf '%s' \"$WANT $(id -un) $HOME\" > out",
            "verify": "test -O out",
            "remove": "rm out",
            "user": "nobody", "cwd": trial.dir.path(), "env": { "WANT": "${secret join}" },
        });
        let command = trial.build("command", &written, false);
        assert_eq!(trial.converge(shell, command.as_ref()), "check and verify report the desired state");
        let body = std::fs::read_to_string(trial.path("out")).unwrap();
        assert!(body.starts_with("it's $secret nobody /"), "{body}");
        assert_eq!(file_mode(&trial.path("out")), 0o644);
        trial.converge(shell, trial.build("command", &written, true).as_ref());
    }
}

#[test]
fn command_fails_with_its_exit_code_or_at_the_timeout() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let failing = trial.build("command", &json!({ "check": "false", "apply": "exit 7" }), false);
    assert_eq!(trial.apply_change("dash", failing.as_ref()).status.code(), Some(7));
    let hanging = json!({ "check": "false", "apply": "sleep 60", "timeout": "1s" });
    let said = trial.failed_change_message("dash", trial.build("command", &hanging, false).as_ref());
    assert_eq!(said, "forge: the command was stopped after 1 s\n");
    let stranger = json!({ "creates": "/nonexistent", "apply": "true", "user": "no-such-user" });
    let said = trial.failed_change_message("dash", trial.build("command", &stranger, false).as_ref());
    assert_eq!(said, "forge: user no-such-user does not exist\n");
}

/// Returns a trial whose `/etc` is a copy, so that accounts can be created and removed.
fn with_own_etc() -> Option<ActionTrial> {
    let mut trial = ActionTrial::new();
    let etc = trial.path("etc");
    let copied = Command::new("cp").args(["-a", "/etc", &etc]).status().is_ok_and(|s| s.success());
    trial.inside = Some(format!("mount --bind '{etc}' /etc && mount -t tmpfs tmpfs /var/log || exit 1"));
    let works = copied && trial.run_text("sh", "exit 0\n").status.success();
    if !works {
        eprintln!("skipped: no mount namespaces here");
    }
    works.then_some(trial)
}

#[test]
fn user_is_created_changed_and_removed() {
    if !is_root() {
        return;
    }
    let Some(trial) = with_own_etc() else { return };
    let home = trial.path("home of x");
    let written = json!({
        "name": "forge-trial", "uid": 64123, "groups": ["adm", "games"], "home": home, "shell": "/bin/sh",
        "comment": "O'Brien $HOME -- ü",
    });
    let user = trial.build("user", &written, false);
    trial.converge("dash", user.as_ref());
    assert!(Path::new(&home).is_dir());
    let other =
        json!({ "name": "forge-trial", "groups": [], "shell": "/usr/sbin/nologin", "group": "daemon", "locked": true });
    assert_eq!(
        trial.converge("dash", trial.build("user", &other, false).as_ref()),
        "the account exists, group, groups, shell and password match"
    );
    let more = json!({ "name": "forge-trial", "groups": ["audio"], "append": true });
    trial.converge("dash", trial.build("user", &more, false).as_ref());
    let gone = json!({ "name": "forge-trial", "remove_home": true });
    trial.converge("dash", trial.build("user", &gone, true).as_ref());
    assert!(!Path::new(&home).exists());
    let system = json!({ "name": "forge-trial2", "system": true, "shell": "/usr/sbin/nologin", "groups": [] });
    trial.converge("dash", trial.build("user", &system, false).as_ref());
}

/// `userdel` removes the account's own group too; the step of the group comes after it.
#[test]
fn removal_of_an_already_removed_group_succeeds() {
    if !is_root() {
        return;
    }
    let Some(trial) = with_own_etc() else { return };
    let (account, group) = (json!({ "name": "forge-trial", "group": "forge-trial" }), json!({ "name": "forge-trial" }));
    trial.converge("dash", trial.build("group", &group, false).as_ref());
    trial.converge("dash", trial.build("user", &account, false).as_ref());
    let gone = trial.build("group", &group, true);
    let judged = gone.assess(&trial.run_probes(gone.probes()), &trial.context());
    assert_eq!(judged.verdict, StepVerdict::Change);
    trial.converge("dash", trial.build("user", &account, true).as_ref());
    let acted = trial.run_action("dash", gone.render_action(&judged, &trial.context()).into_script().body);
    assert!(acted.status.success(), "{}", String::from_utf8_lossy(&acted.stderr));
}

/// Returns a trial with its own folder of units, which is the second value.
fn with_own_units() -> Option<(ActionTrial, String)> {
    if !is_root() || !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("skipped: needs systemd-analyze");
        return None;
    }
    let mut trial = ActionTrial::new();
    let units = trial.path("units");
    std::fs::create_dir(&units).unwrap();
    trial.moved.push(("/etc/systemd/system", units.clone()));
    Some((trial, units))
}

/// Runs the action of a unit that does not exist yet.
fn install_unit(trial: &ActionTrial, name: &str, content: &str) -> Output {
    let unit = trial.build("unit", &json!({ "name": name, "content": content }), false);
    let answers = json!({
        format!("path /etc/systemd/system/{name}"): "absent",
        "path /etc/systemd/system": { "kind": "directory", "mode": "0755" },
        format!("unit {name}"): { "load": "not-found" },
    });
    let seen = build_observation(unit.as_ref(), &[], None, &answers, &json!("new"));
    let judgement = unit.assess(&seen, &trial.context());
    trial.run_action("dash", unit.render_action(&judgement, &trial.context()).into_script().body)
}

#[test]
fn invalid_unit_is_not_installed() {
    let Some((trial, units)) = with_own_units() else { return };
    let act = |program: &str, line: &str| {
        install_unit(&trial, "forge-trial.service", &format!("[Service]\nExecStart={program}\n{line}\n"))
    };
    let missing = "[Unit]\nRequires=forge-late.socket\n";
    for (program, line, why) in [
        ("/nonexistent/program", "X-Own=1", "is not executable"),
        ("/nonexistent/program", missing, "is not executable"),
        ("/bin/true", "UnknownKey=1", "'UnknownKey'"),
        ("/bin/true", "LimitMEMLOCK=lots", "ignoring: lots"),
    ] {
        let refused = act(program, line);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(why), "{said}");
        assert_eq!(std::fs::read_dir(&units).unwrap().count(), 0);
    }
    // A later step may declare the socket.
    let taken = act("/bin/true", missing);
    assert!(Path::new(&units).join("forge-trial.service").exists(), "{}", String::from_utf8_lossy(&taken.stderr));
}

/// The service of a socket may come with a later step.
#[test]
fn socket_is_installed_before_its_service() {
    let Some((trial, units)) = with_own_units() else { return };
    let act = |line: &str| install_unit(&trial, "forge-trial.socket", &format!("[Socket]\n{line}\n"));
    let refused = act("ListenStream=/run/forge-trial.sock\nBacklog=lots");
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stderr));
    let taken = act("ListenStream=/run/forge-trial.sock");
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    assert!(Path::new(&units).join("forge-trial.socket").exists());
}

/// Returns a trial with its own fstab.
fn with_fstab(text: Option<&str>) -> (ActionTrial, String) {
    let mut trial = ActionTrial::new();
    let path = trial.path("fstab");
    trial.moved.push(("/etc/fstab", path.clone()));
    if let Some(text) = text {
        std::fs::write(&path, text).unwrap();
    }
    (trial, path)
}

fn fstab_resource(trial: &ActionTrial, absent: bool) -> Box<dyn Resource> {
    let written = json!({
        "path": "/no/such/mount point", "source": "LABEL=a b", "fstype": "ext4", "options": ["noauto"], "state": "fstab",
    });
    trial.build("mount", &written, absent)
}

const ENTRY: &str = "LABEL=a\\040b /no/such/mount\\040point ext4 noauto 0 0\n";

#[test]
fn fstab_edit_preserves_other_lines() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let around = "# a \\ comment\n/dev/sda1 / ext4 defaults 0 1\n";
        let old = "/dev/x\t/no/such/mount\\040point\text4\tdefaults\n";
        let (trial, path) =
            with_fstab(Some(&format!("{old}{around}/dev/y /no/such/mount\\040point xfs\n{old}/dev/sdb1 none swap")));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        trial.converge(shell, fstab_resource(&trial, false).as_ref());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{ENTRY}{around}/dev/sdb1 none swap\n"));
        assert_eq!(file_mode(&path), 0o640);
        trial.converge(shell, fstab_resource(&trial, true).as_ref());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{around}/dev/sdb1 none swap\n"));
        trial.converge(shell, fstab_resource(&trial, false).as_ref());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{around}/dev/sdb1 none swap\n{ENTRY}"));
    }
}

#[test]
fn missing_fstab_is_created() {
    if !is_root() {
        return;
    }
    let (trial, path) = with_fstab(None);
    trial.converge("dash", fstab_resource(&trial, false).as_ref());
    assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), file_mode(&path)), (ENTRY, 0o644));
}

#[test]
fn fstab_entry_changed_since_the_plan_is_not_overwritten() {
    if !is_root() {
        return;
    }
    let (trial, path) = with_fstab(Some("/dev/x /no/such/mount\\040point ext4\n"));
    let resource = fstab_resource(&trial, false);
    let judgement = trial.assess_resource(resource.as_ref());
    std::fs::write(&path, "/dev/z /no/such/mount\\040point ext4\n").unwrap();
    let output = trial.run_action("dash", resource.render_action(&judgement, &trial.context()).into_script().body);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.starts_with("forge: fstab changed meanwhile\n"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "/dev/z /no/such/mount\\040point ext4\n");
}
