//! Shell code that makes and removes accounts.

use crate::probe::UserInfo;
use crate::resource::shared::shell;
use crate::resource::shared::system_directories::refuse_system_directories;
use crate::script::ShellFragment;

/// Creates a group with the account's own name, unless it exists already.
pub(super) const OWN_GROUP: &str = r#"
if [ "$group" = "$name" ] && ! getent group "$group" >/dev/null; then set -- --user-group; else set -- --gid "$group"; fi
patient useradd"#;

/// Exit status 12: `useradd` has made the account, but not its home. If the account stayed, the next run would find nothing
/// to do.
pub(super) const TAKE_BACK: &str = r#" || { [ "$status" -ne 12 ] || userdel -- "$name"; exit 1; }
"#;

pub(super) const UNLOCK: &str = "patient usermod --unlock -- \"$name\" || exit 1\n";
pub(super) const REMOVE: &str = "patient userdel -- \"$name\" || exit 1\n";

/// `userdel --remove` leaves a home that belongs to another account, and only warns; it empties
/// file systems that are mounted in a home.
/// Exit status 12: the account is gone, but its home or mail was not there to be removed.
const REMOVE_WITH_HOME: [&str; 2] = [
    r#"
while [ "${home%/}" != "$home" ]; do home=${home%/}; done
if [ -e "$home" ] || [ -L "$home" ]; then (
  name=${home##*/} path=$home
  cd -P -- "${home%/*}/" || fail "cannot enter the directory of the home $home"
  [ ! -L "./$name" ] && [ -d "./$name" ] || fail "the home $home is not a directory: nothing was removed"
  [ "$(stat -c %u -- "./$name")" = "$uid" ] || fail "the home $home belongs to another account: nothing was removed"
"#,
    r#") || exit 1; fi
patient userdel --remove -- "$name"
status=$?
if [ "$status" -ne 0 ] && [ "$status" -ne 12 ]; then exit 1; fi
[ ! -e "$home" ] || fail "the account is gone, but userdel left its home $home"
"#,
];

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("belongs to another account", "omit `remove_home`, and remove the directory with an `absent` step"),
    ("a file system is mounted", "unmount it first"),
    ("is currently used by process", "the account has running processes: stop them first"),
    ("is currently logged in", "the account is logged in: end its sessions first"),
    ("is not unique", "the uid belongs to another account: run `getent passwd` on the host"),
    ("does not exist", "a group does not exist: add a `group` step before this one"),
    ("passwordless", "the account has no password to unlock: set one, or omit `locked`"),
    shell::EXPLAIN_LOCKED_ACCOUNTS,
];

/// Removes the account with its home, unless something else would go with it.
pub(super) fn render_removal_with_home(opened: ShellFragment, before: &UserInfo) -> ShellFragment {
    let [check, remove] = REMOVE_WITH_HOME;
    let action =
        opened.code("set --").word(&before.home).word(before.uid.to_string()).code("\nhome=$1 uid=$2").code(check);
    refuse_system_directories(action.code(shell::REFUSE_MOUNTS)).code(remove)
}
