//! The commands of a mount: the mount first, then fstab, so that fstab never gets an entry that does not work.

use super::declaration::MountResource;
use super::fstab::FSTAB;
use super::mount_diff::{CurrentMountDiff, FstabDiff, MountDiff};
use crate::model::UntrustedText;
use crate::probe::{CheckProbe, Probe};
use crate::resource::shared::shell;
use crate::resource::shared::support::format_mode;
use crate::resource::{AssessmentContext, ValueChange};
use crate::script::{ShellFragment, safe_path};

/// Prints the processes that use the mount at `$FORGE_PATH`, as `bash (812)`: by a working directory, a root directory,
/// a program or an open file. It reads only the links, never their targets.
const HOLDERS: &str = r#"p=$(printf '%s\n' "$FORGE_PATH" | sed 's/[][*?\\]/\\&/g')
find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd -maxdepth 1 -type l \
  '(' -lname "$p" -o -lname "$p/*" ')' 2>/dev/null | cut -d/ -f3 | sort -nu |
while read -r pid; do
  read -r name 2>/dev/null <"/proc/$pid/comm" && printf '%s (%s)\n' "$name" "$pid"
done
exit 0
"#;

const MAKE_POINT: &str = r#"path=$1 mode=$2 source=$3
require_fixed_name "$path"
[ -d "./$last" ] || [ -L "./$last" ] || mkdir -m "$mode" -- "./$last" || fail "cannot make the mount point $path"
[ ! -L "./$last" ] || fail "the mount point $path is a symbolic link"
require_fixed_name "$path"
require_fixed_source "$source"
"#;

/// Remount and umount also work by name.
const SAME_POINT: &str = "\nrequire_fixed_name \"$1\"";

/// The timeout limits how long a server that does not answer blocks the step.
const MOUNT: &str = r#"
timeout -k 5 120 mount -t "$2" -o "$3" -- "$4" "$1" || fail "cannot mount $4 at $1 (exit status $?): fstab is left as it was"
"#;

const REMOUNT: &str = r#"
timeout -k 5 120 mount -o "remount,$2" -- "$1" || fail "cannot take over the options of $1"
"#;

const UNMOUNT: &str = r#"
timeout -k 5 120 umount -- "$1" && exit 0
printf 'forge: in use by:\n' >&2
FORGE_PATH=$1 sh -c "$2" >&2
fail "cannot unmount $1"
"#;

/// Replaces the first line listed in `$2` with the line `$1`, removes the other listed lines, and appends `$1` if `$2`
/// is empty. Fails if a line of `$2` no longer exists as observed.
const EDIT: &str = r#"
edit() {
  FORGE_NEW=$1 FORGE_OLD=$2 awk 'BEGIN { n = split(ENVIRON["FORGE_OLD"], list, "\n"); new = ENVIRON["FORGE_NEW"]
      for (i = 1; i <= n; i++) { if (!(list[i] in left)) kinds++; left[list[i]] = 1 } }
    ($0 in left) { if (left[$0]) { kinds--; left[$0] = 0 } if (new != "") { print new; new = "" } next }
    { print }
    END { if (kinds > 0) exit 3; if (new != "") print new }' < "$from"
  [ $? -eq 0 ] || fail "fstab changed meanwhile"
}
"#;

/// systemd generates units from fstab.
const RELOAD: &str = r#"[ $? -eq 0 ] && if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"#;

/// Hint for a path that users other than root can replace.
pub(super) const UNSAFE_MOUNT_HINT: &str = "use a source and mount point below directories that only root can write to";

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("cannot make the mount point", "add a `directory` step for the directory above it"),
    ("mounts and unmounts only where", UNSAFE_MOUNT_HINT),
    ("is a symbolic link", "declare the target path of the link"),
    (
        "unknown filesystem type",
        "the kernel does not support this file system: add a `kernel_module` or `package` step that installs it",
    ),
    ("special device", "the device does not exist: run `lsblk` on the host"),
    ("can't find", "no device has that name: run `blkid` on the host"),
    ("bad option", "the file system rejects an option or the source, or the helper `mount.TYPE` is not installed"),
    ("(exit status 124)", "no answer within 120 s: check whether the server is reachable"),
    ("is busy", "it is in use by the processes listed above"),
    ("changed meanwhile", "run forge again"),
];

/// Renders the changes in `diff`.
pub(super) fn render_script(want: &MountResource, diff: &MountDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
    let current = diff.current.as_ref().map(|current| match current {
        CurrentMountDiff::Mount { .. } => render_mount(want),
        CurrentMountDiff::Remount { options } => render_remount(want, options),
        CurrentMountDiff::Unmount { .. } => render_unmount(want),
    });
    let entry = diff.fstab.as_ref().map(|entry| render_fstab_edit(entry, cx).code(RELOAD));
    let unmask = diff
        .unit
        .as_ref()
        .map(|diff| shell::close_action(shell::open_action().word(&diff.unit).code("\nunit=$1\n").code(shell::UNMASK)));
    let and = |all: ShellFragment, one: ShellFragment| all.code("[ $? -eq 0 ] &&\n").append_fragment(one);
    current.into_iter().chain(entry).chain(unmask).fold(ShellFragment::new().code(":\n"), and)
}

fn render_mount(want: &MountResource) -> ShellFragment {
    let point = shell::open_action().word(&want.path).word(format_mode(want.mode)).word(&want.source).code("\n");
    let point = point.code(safe_path::ENTER_DIRECTORY).code(safe_path::REQUIRE_FIXED_NAME).code(MAKE_POINT);
    let options = if want.options.is_empty() { "defaults".to_owned() } else { want.options.join(",") };
    let words = shell::open_action().word(&want.path).word(&want.fstype).word(options).word(&want.source);
    shell::close_action(point).code("[ $? -eq 0 ] &&\n").append_fragment(shell::close_action(words.code(MOUNT)))
}

/// Passes all declared options, and the opposite of each undeclared restriction: a remount keeps options that it omits.
fn render_remount(want: &MountResource, changed: &[ValueChange<String>]) -> ShellFragment {
    let mut options = want.options.clone();
    let wanted = changed.iter().filter_map(|change| change.to.clone());
    options.extend(wanted.filter(|option| !want.options.contains(option)));
    let action = shell::open_action().word(&want.path).word(options.join(",")).code("\n");
    shell::close_action(
        action.code(safe_path::ENTER_DIRECTORY).code(safe_path::REQUIRE_FIXED_NAME).code(SAME_POINT).code(REMOUNT),
    )
}

fn render_unmount(want: &MountResource) -> ShellFragment {
    let action = shell::open_action().word(&want.path).word(HOLDERS).code("\n");
    shell::close_action(
        action.code(safe_path::ENTER_DIRECTORY).code(safe_path::REQUIRE_FIXED_NAME).code(SAME_POINT).code(UNMOUNT),
    )
}

fn render_fstab_edit(entry: &FstabDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
    let old: Vec<&str> = entry.old.iter().map(UntrustedText::raw).collect();
    shell::edit_file(FSTAB, cx.run, EDIT, [entry.new.clone().unwrap_or_default(), old.join("\n")])
}

impl MountResource {
    /// Returns the probe that lists the users of the mount. It follows no link into the file system.
    pub(super) fn holders_probe(&self) -> Probe {
        Probe::Check(Box::new(CheckProbe {
            id: format!("holders of `{}`", self.path),
            script: HOLDERS.to_owned(),
            user: None,
            cwd: None,
            env: vec![("FORGE_PATH".to_owned(), self.path.clone())],
            timeout_s: Some(20),
        }))
    }
}
