//! Files and directories that do not exist yet, where only root can change anything on the way to them: consecutive
//! actions check the way once, write and sync all files before any of them gets its name, and need no subshell. What
//! does not go this way is left to the ordinary code of its action, which tells the reason.

use super::grouped_action::GroupedAction;
use crate::resource::NewPath;
use crate::script::ShellFragment;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of a file that is sent twice: for this way and in its action's ordinary code.
const LARGEST_BODY: usize = 8 << 10;

/// `forge_rooted DIRECTORY…` succeeds if this runs as root, and only root can place entries in these directories, which
/// are all parts of some paths, or replace them. `[ -d … ]` triggers an automount first.
///
/// `forge_free PATH` succeeds if nothing has that name. `forge_draft` fails if a killed run left something: the ordinary code
/// removes it.
const FUNCTIONS: &str = r#"forge_rooted() {
for forge_p; do [ -d "$forge_p/." ] || return 1; done
forge_n=$#
set -- $(stat -c '%u %f' -- /proc/self/ "$@" 2>/dev/null)
[ $# -eq $((2 * forge_n + 2)) ] && [ "$1" = 0 ] || return 1
shift 2
while [ $# -gt 0 ]; do
[ "$1" = 0 ] && [ $((0x$2 & 0xf012)) -eq 16384 ] || return 1
shift 2
done
}
forge_free() { [ ! -e "$1" ] && [ ! -L "$1" ]; }
forge_draft() {
for forge_p in "${1%/*}/.${1##*/}.forge-"????????T*; do forge_free "$forge_p" || return 1; done
forge_free "$1" && install -T -o "$3" -g "$4" -m "$5" -- /dev/null "$2"
}
forge_publish() { [ -n "$forge_rooted" ] && forge_free "$1" && mv -fT -- "$2" "$1" 2>/dev/null; }
forge_make() { [ -n "$forge_rooted" ] && forge_free "$1" && install -d -o "$2" -g "$3" -m "0$4" -- "$1" 2>/dev/null; }
"#;

/// The members of a run of actions that may go this way.
pub(super) struct NewPaths<'a> {
    members: Vec<(usize, &'a NewPath)>,
    /// The number of the first action of the run.
    start: usize,
}

impl<'a> NewPaths<'a> {
    /// Returns those of the run of actions around `number`; `None` if there are less than two. A rehearsal notes each
    /// program with its step, so it takes the ordinary code.
    pub fn find(actions: &[GroupedAction<'a>], number: usize) -> Option<Self> {
        let key = actions[number].batch?.key;
        let joins = |at: &usize| actions[*at].batch.is_some_and(|batch| batch.key == key);
        let start = (0..=number).rev().take_while(joins).last()?;
        let end = (number..actions.len()).take_while(joins).last()? + 1;
        let members: Vec<_> = list_members(actions, start..end).collect();
        (members.len() > 1).then_some(Self { members, start })
    }

    /// Returns the code before the first of the actions: sets `forge_rooted` if all can go this way. Nothing has its name
    /// after it.
    pub fn render_start(&self) -> ShellFragment {
        let code = ShellFragment::new().code(FUNCTIONS).code("forge_rooted=\nif forge_rooted");
        let code = self.list_directories().iter().fold(code, ShellFragment::word);
        if self.drafts().next().is_none() {
            return code.code("; then forge_rooted=yes; fi\nforge_undraft() { :; }\n");
        }
        let remove = self.drafts().fold(ShellFragment::new().code("rm -f --"), ShellFragment::word);
        let code = code.code("; then\nif (\numask 077\n");
        let code = self.members.iter().fold(code, |code, (_, new)| append_draft(code, new));
        self.drafts()
            .fold(code.code("sync --"), ShellFragment::word)
            .code("\n) >/dev/null 2>&1; then forge_rooted=yes; else ")
            .append_fragment(remove.clone())
            .code("; fi\nfi\nforge_undraft() { [ -z \"$forge_rooted\" ] || ")
            .append_fragment(remove)
            .code("; }\n")
    }

    /// Reports whether the action is the first one of the run.
    pub fn begins_at(&self, number: usize) -> bool {
        self.start == number
    }

    /// Returns the command that makes the path of that action; it fails if the ordinary code is needed. `None` if the
    /// action makes none.
    pub fn render_creation(&self, number: usize) -> Option<ShellFragment> {
        let (_, new) = self.members.iter().find(|(at, _)| *at == number)?;
        let code = ShellFragment::new();
        Some(match &new.body {
            Some(_) => code.code("forge_publish").word(&new.path).word(format_draft(new)),
            None => {
                code.code("forge_make").word(&new.path).word(&new.owner).word(&new.group).word(format_mode(new.mode))
            }
        })
    }

    fn drafts(&self) -> impl Iterator<Item = String> {
        self.members.iter().filter(|(_, new)| new.body.is_some()).map(|(_, new)| format_draft(new))
    }

    /// Returns all parts of the ways to the members, except for directories that an earlier member makes so that only root
    /// can change them.
    fn list_directories(&self) -> BTreeSet<String> {
        let mut parts = BTreeSet::from(["/".to_owned()]);
        for (at, (_, new)) in self.members.iter().enumerate() {
            let made = |path: &str| self.members[..at].iter().any(|(_, other)| other.is_private_directory(path));
            let above = new.path.match_indices('/').skip(1).map(|(end, _)| &new.path[..end]);
            parts.extend(above.filter(|path| !made(path)).map(ToOwned::to_owned));
        }
        parts
    }
}

fn list_members<'a>(actions: &[GroupedAction<'a>], run: Range<usize>) -> impl Iterator<Item = (usize, &'a NewPath)> {
    run.filter_map(|at| {
        let action = &actions[at];
        let new = action.batch?.new_path.as_ref()?;
        let small = new.body.as_ref().is_none_or(|body| body.len() <= LARGEST_BODY);
        (small && action.noted_step.is_none() && !action.exports_stdout).then_some((at, new))
    })
}

/// The name is one that the next write of the file sweeps if this run is killed, and that programs ignore which read a
/// whole directory.
fn format_draft(new: &NewPath) -> String {
    let (directory, name) = new.path.rsplit_once('/').unwrap_or(("", &new.path));
    format!("{directory}/.{name}.forge-{}.new", new.run)
}

fn format_mode(mode: u32) -> String {
    format!("{mode:04o}")
}

fn append_draft(code: ShellFragment, new: &NewPath) -> ShellFragment {
    let Some(body) = &new.body else { return code };
    let draft = format_draft(new);
    code.code("forge_draft")
        .word(&new.path)
        .word(&draft)
        .word(&new.owner)
        .word(&new.group)
        .word(format_mode(new.mode))
        .code(" && ")
        .print_bytes(body)
        .code(" >")
        .word(&draft)
        .code(" || exit 1\n")
}

#[cfg(test)]
mod tests {
    use super::super::action_script::{build_group_script, split_group_output};
    use super::*;
    use crate::model::SecretStore;
    use crate::resource::{ActionBatch, ActionScript};
    use crate::script::{ScriptToken, ShellScript};
    use crate::state::UndoScripts;
    use secrecy::ExposeSecret;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::time::Duration;

    fn new_path(path: &Path, body: Option<&str>) -> NewPath {
        NewPath {
            path: path.display().to_string(),
            owner: "root".to_owned(),
            group: "root".to_owned(),
            mode: if body.is_some() { 0o640 } else { 0o750 },
            run: "20260101T000000-aaaa".to_owned(),
            body: body.map(|body| body.as_bytes().to_vec()),
        }
    }

    /// Runs a group of actions with these paths, whose ordinary code prints a line. Returns the status and the output of
    /// each.
    fn run_group(paths: &[NewPath], undo: Option<&str>) -> Vec<(Option<i32>, String)> {
        let batch = |new: &NewPath| ActionBatch {
            directory: new.body.as_ref().map(|_| new.path.rsplit_once('/').unwrap().0.to_owned()),
            new_path: Some(new.clone()),
            ..ActionBatch::new("k")
        };
        let batches: Vec<_> = paths.iter().map(batch).collect();
        let body = ShellFragment::new().code("echo ordinary");
        let script = ActionScript { body, ..ActionScript::default() };
        let actions: Vec<_> =
            batches.iter().map(|batch| GroupedAction { batch: Some(batch), ..GroupedAction::alone(&script) }).collect();
        let token = ScriptToken::new("0123456789abcdef0123456789abcdef");
        let before = undo.map(|code| ShellFragment::new().code("eval").word(code)).unwrap_or_default();
        let undo = UndoScripts { before, ..UndoScripts::default() };
        let body = build_group_script(&actions, &undo);
        let script = ShellScript { body, token: token.clone(), limit: Duration::from_secs(10) };
        let text = script.render_text(&SecretStore::default()).unwrap();
        let output = std::process::Command::new("sh").arg("-c").arg(text.expose_secret()).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = split_group_output(&output.stdout, 0, &token, paths.len());
        said.into_iter().map(|one| (one.status, one.output.raw().to_owned())).collect()
    }

    fn list_names(directory: &Path) -> Vec<String> {
        let entries = fs_err::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns a directory that only root can change, also above it; `None` if this test does not run as root. The tests of
    /// the sandbox, which may run at the same time, compare most other directories of this machine.
    fn private_directory() -> Option<tempfile::TempDir> {
        let is_root = std::process::Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        is_root.then(|| tempfile::tempdir_in("/var/cache").unwrap())
    }

    #[test]
    fn new_files_are_made_together_with_owner_and_mode() {
        let Some(folder) = private_directory() else { return };
        let paths = ["a", "b c", "d"].map(|name| new_path(&folder.path().join(name), Some("é 'x'\n")));
        assert_eq!(run_group(&paths, None), vec![(Some(0), String::new()); 3]);
        assert_eq!(list_names(folder.path()), ["a", "b c", "d"]);
        for new in &paths {
            assert_eq!(fs_err::read_to_string(&new.path).unwrap(), "é 'x'\n");
            assert_eq!(fs_err::metadata(&new.path).unwrap().permissions().mode() & 0o7777, 0o640);
        }
        // All exist now, so nothing is replaced here.
        assert_eq!(run_group(&paths, None), vec![(Some(0), "ordinary".to_owned()); 3]);
        assert_eq!(list_names(folder.path()), ["a", "b c", "d"]);
    }

    #[test]
    fn nothing_has_its_name_before_the_undo_is_kept() {
        let Some(folder) = private_directory() else { return };
        let paths = ["a", "b"].map(|name| new_path(&folder.path().join(name), Some("x")));
        let undo = format!("cd {}; for n in *; do echo \"found $n\"; done; exit 3", folder.path().display());
        assert_eq!(run_group(&paths, Some(&undo)), [(Some(3), "found *".to_owned()), (None, String::new())]);
        assert_eq!(list_names(folder.path()), [""; 0], "nothing is left");
    }

    #[test]
    fn directories_that_others_can_change_are_left_to_the_ordinary_code() {
        let Some(folder) = private_directory() else { return };
        let open = folder.path().join("open");
        fs_err::create_dir(&open).unwrap();
        fs_err::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/var/lib", &link).unwrap();
        for directory in [&open, &link, &folder.path().join("missing")] {
            for body in [Some("x"), None] {
                let paths = [new_path(&folder.path().join("a"), body), new_path(&directory.join("b"), body)];
                // The ordinary code of this test makes no directory that could be synced.
                let acted = run_group(&paths, None);
                assert!(acted.iter().all(|(_, output)| output.starts_with("ordinary")), "{directory:?}: {acted:?}");
            }
        }
        assert_eq!(list_names(folder.path()), ["link", "open"]);
        assert_eq!(list_names(&open), [""; 0]);
    }

    /// The ordinary code sweeps them.
    #[test]
    fn leftovers_of_a_killed_run_are_left_to_the_ordinary_code() {
        let Some(folder) = private_directory() else { return };
        let paths = ["a", "b"].map(|name| new_path(&folder.path().join(name), Some("x")));
        let stray = folder.path().join(".b.forge-20250101T000000-bbbb.new");
        fs_err::write(&stray, "secret").unwrap();
        assert_eq!(run_group(&paths, None), vec![(Some(0), "ordinary".to_owned()); 2]);
        assert_eq!(list_names(folder.path()), [".b.forge-20250101T000000-bbbb.new"]);
    }

    /// An unknown owner fails before anything has its name; the ordinary code tells why.
    #[test]
    fn failure_of_one_file_leaves_nothing_behind() {
        let Some(folder) = private_directory() else { return };
        let mut paths = ["a", "b"].map(|name| new_path(&folder.path().join(name), Some("x")));
        paths[1].owner = "no-such-user".to_owned();
        assert_eq!(run_group(&paths, None), vec![(Some(0), "ordinary".to_owned()); 2]);
        assert_eq!(list_names(folder.path()), [""; 0]);
        let long = "n".repeat(LARGEST_BODY + 1);
        paths = [new_path(&folder.path().join("a"), Some("x")), new_path(&folder.path().join("b"), Some(&long))];
        assert_eq!(run_group(&paths, None), vec![(Some(0), "ordinary".to_owned()); 2], "a large file is sent once");
    }

    #[test]
    fn directory_in_a_new_directory_is_made_with_it() {
        let Some(folder) = private_directory() else { return };
        let above = folder.path().join("a");
        let paths =
            [new_path(&above, None), new_path(&above.join("b"), None), new_path(&folder.path().join("c"), None)];
        assert_eq!(run_group(&paths, None), vec![(Some(0), String::new()); 3]);
        assert_eq!(fs_err::metadata(above.join("b")).unwrap().permissions().mode() & 0o7777, 0o750);
        // What others can change is not trusted to be empty.
        let mut paths = [new_path(&folder.path().join("d"), None), new_path(&folder.path().join("d/e"), None)];
        paths[0].mode = 0o777;
        assert_eq!(run_group(&paths, None), vec![(Some(0), "ordinary".to_owned()); 2]);
    }
}
