//! Shell code that several kinds share. Every action is one subshell with its values as positional parameters: no
//! variable affects other fragments, and no value is evaluated as code.

use super::system_directories::refuse_system_directories;
use crate::script::{ShellFragment, safe_path};

/// Opens an action whose new files are private until their owner and mode are set.
const OPEN_PRIVATE: &str = "(\numask 077\n";
/// Opens an action that runs other programs, which expect the usual umask.
const OPEN_USUAL: &str = "(\numask 022\n";

const FAIL_FUNCTION: &str = "fail() { printf 'forge: %s\\n' \"$*\" >&2; exit 1; }\nset --";

/// Hint for a link that users other than root can replace.
pub(in crate::resource) const UNSAFE_PATH_HINT: &str =
    "declare the target path of the link, or let only root write to its directory";

/// Explanation with the same hint for the output of an action.
pub(in crate::resource) const EXPLAIN_UNSAFE_PATH: (&str, &str) = ("forge does not follow it", UNSAFE_PATH_HINT);

/// The account tools print the same for a lock of another program and for a file system that takes no lock file.
pub(in crate::resource) const EXPLAIN_LOCKED_ACCOUNTS: (&str, &str) = (
    "cannot lock",
    "another program holds the lock of the account files, or `/etc` is mounted read-only: run `findmnt -T /etc` there",
);

/// Begins a private action; the caller appends the words, then code, and [`close_action`]s it.
pub(in crate::resource) fn open_private_action() -> ShellFragment {
    ShellFragment::new().code(OPEN_PRIVATE).code(FAIL_FUNCTION)
}

/// Begins an action that runs other programs.
pub(in crate::resource) fn open_action() -> ShellFragment {
    ShellFragment::new().code(OPEN_USUAL).code(FAIL_FUNCTION)
}

/// Ends an action.
pub(in crate::resource) fn close_action(action: ShellFragment) -> ShellFragment {
    action.code(")\n")
}

/// Appends the functions of [`safe_path`] and enters the directory of `$path`. Checks the preconditions of writing or
/// removing a file there, removes leftovers of killed runs, and defines `keep`. Reads `$path`, `$run` and `$keep`.
fn enter_target_directory(action: ShellFragment) -> ShellFragment {
    action.code(safe_path::ENTER_DIRECTORY).code(safe_path::STAGE_IN_BOX).code(PREPARE)
}

const PREPARE: &str = r#"
dir=${path%/*} name=${path##*/}
enter "$dir"
if [ -d "./$name" ] && [ ! -L "./$name" ]; then fail "$path is a directory"; fi
sweep
# Succeeds if the directory is synced by its name, with others, once this action has ended.
synced_later() { [ -n "${FORGE_LATER-}" ] && [ -z "$foreign$shared" ]; }
keep() {
  if [ "$keep" != yes ] || { [ ! -e "../$name" ] && [ ! -L "../$name" ]; }; then return 0; fi
  kept=/var/lib/forge/backups/$run$path
  if [ -e "$kept" ] || [ -L "$kept" ]; then return 0; fi
  pin
  mkdir -p -- "${kept%/*}" && rm -rf -- "$kept.part" && cp -a -- "$from" "$kept.part" &&
    mv -fT -- "$kept.part" "$kept" || fail "cannot keep the body of $path under /var/lib/forge/backups"
}
"#;

/// Parameters of [`write_file`].
pub(in crate::resource) struct FileWriteSpec<'a> {
    pub path: &'a str,
    pub owner: &'a str,
    pub group: &'a str,
    pub mode: u32,
    pub run: &'a str,
    pub backup: bool,
    /// A command that must accept the candidate at `$FORGE_FILE`; empty for none.
    pub validate: &'a str,
    pub body: &'a [u8],
}

/// Returns the action that replaces a file atomically: readers see either the old file or the new one.
pub(in crate::resource) fn write_file(write: &FileWriteSpec<'_>) -> ShellFragment {
    let entered = enter_target_directory(open_write_action(write)).append_fragment(define_body(write.body));
    let entered = if write.validate.is_empty() { entered.code(CREATE_FILE) } else { entered };
    let action = entered.code("stage\n").code(WRITE_BODY).code(SET_CANDIDATE_OWNERSHIP);
    close_action(action.append_fragment(install_candidate(write.validate)))
}

/// Returns the action that sets owner and mode of a file whose body matches. If users other than root can replace the
/// file, it is written again: the file at its name may not be the observed one, and its owner may have it open for
/// writing.
pub(in crate::resource) fn render_ownership_change(write: &FileWriteSpec<'_>) -> ShellFragment {
    let action = enter_target_directory(open_write_action(write)).code(SET_OWNERSHIP).code("stage\n");
    close_action(
        action
            .append_fragment(define_body(write.body))
            .code(WRITE_BODY)
            .code(SET_CANDIDATE_OWNERSHIP)
            .append_fragment(install_candidate(write.validate)),
    )
}

fn open_write_action(write: &FileWriteSpec<'_>) -> ShellFragment {
    open_private_action()
        .word(write.path)
        .word(format!("{}:{}", write.owner, write.group))
        .word(crate::resource::shared::support::format_mode(write.mode))
        .word(write.run)
        .word(yes_or_no(write.backup))
        .word(write.validate)
        .code("\npath=$1 own=$2 mode=$3 run=$4 keep=$5 validate=$6")
}

const SET_OWNERSHIP: &str = r#"if [ -z "$shared" ]; then
  if [ -L "./$name" ]; then fail "$path is a symbolic link"; fi
  chown -h -- "$own" "./$name" || fail "cannot give $path to $own"
  chmod -- "$mode" "./$name" || fail "cannot set the mode of $path"
  exit 0
fi
"#;

/// Defines `print_body`.
fn define_body(body: &[u8]) -> ShellFragment {
    ShellFragment::new().code("print_body() { ").print_bytes(body).code("; }\n")
}

/// Writes the body into the staging directory, as `./$name`. `set -C` opens with O_EXCL, so the file is always new.
const WRITE_BODY: &str = r#"set -C
print_body > "./$name" || fail "cannot write $dir/$box/$name"
set +C
"#;

const SET_CANDIDATE_OWNERSHIP: &str = r#"chown -- "$own" "./$name" || fail "cannot give $path to $own"
chmod -- "$mode" "./$name" || fail "cannot set the mode of $path"
"#;

/// Creates a file that does not exist in a directory where no other user can place entries: without a box, under a name
/// that programs ignore which read a whole directory. It has its owner and mode before its body.
const CREATE_FILE: &str = r#"if [ -z "$shared" ] && [ "$me:${own%%:*}" = 0:root ] && [ ! -e "./$name" ] && [ ! -L "./$name" ]; then
  new=.$name.forge-$run.new
  trap '[ ! -e "./$new" ] || rm -f -- "./$new"' EXIT
  trap 'exit 143' HUP INT TERM
  install -T -o "${own%%:*}" -g "${own#*:}" -m "$mode" -- /dev/null "./$new" || fail "cannot give $path to $own with mode $mode"
  print_body > "./$new" || fail "cannot write $dir/$new"
  sync -- "./$new" || fail "cannot sync $dir/$new"
  mv -fT -- "./$new" "./$name" || fail "cannot rename $dir/$new to $path"
  synced_later || sync -- . || fail "cannot sync $dir"
  exit 0
fi
"#;

/// Installs the candidate at the path if `validate` accepts it.
fn install_candidate(validate: &str) -> ShellFragment {
    match validate.is_empty() {
        true => ShellFragment::new().code(GO_LIVE),
        false => ShellFragment::new().code(VALIDATE).code(GO_LIVE),
    }
}

/// A validator takes a file name, not an open directory. If users other than root can replace a part of the path, it
/// gets a copy in another directory: the candidate itself is in the staging directory, where no other user can change
/// it. Otherwise it gets a name next to the target, because programs look for included files in the directory of the
/// file that they read. That name begins with a dot and ends in `.new`, so programs that read a whole directory
/// (`sudoers.d`, `cron.d`, `logrotate.d`, `*.conf`) ignore it. systemd ignores it too and derives the type of a unit
/// from its name, so a unit is validated in the staging directory.
const VALIDATE: &str = r#"shown='' sibling='' apart=''
show_candidate() {
  if [ -n "$shared$foreign" ]; then
    apart=$(mktemp -d /run/forge-validate.XXXXXXXXXX) || fail "cannot make a directory below /run"
    shown=$apart/$name
    cp -p -T -- "./$name" "$shown" || fail "cannot copy the new body of $path to $shown"
    return 0
  fi
  case $name in
    *.automount|*.mount|*.path|*.service|*.slice|*.socket|*.swap|*.target|*.timer) shown=$dir/$box/$name; return 0 ;;
  esac
  shown=$dir/$box.new sibling=../$box.new
  ln -P -T -- "./$name" "$sibling" 2>/dev/null || cp -p -T -- "./$name" "$sibling" || fail "cannot make $shown"
}
hide_candidate() {
  [ -z "$sibling" ] || rm -f -- "$sibling"
  [ -z "$apart" ] || rm -rf --one-file-system -- "$apart"
}
trap 'hide_candidate; unstage' EXIT
show_candidate
FORGE_FILE=$shown FORGE_RUN=$validate sh -c 'c=$FORGE_RUN; unset FORGE_RUN; cd / && eval "$c"' || fail "the new body of $path is not valid (exit status $?): the file was left as it was"
[ "$(sha256sum < "$shown")" = "$(sha256sum < "./$name")" ] || fail "validate changed the new body of $path: the file was left as it was"
hide_candidate
"#;

const GO_LIVE: &str = r#"keep
sync -- "./$name" || fail "cannot sync $dir/$box/$name"
mv -fT -- "./$name" "../$name" || fail "cannot rename $dir/$box/$name to $path"
synced_later || sync -- .. || fail "cannot sync $dir"
"#;

/// Returns the action that atomically replaces a file with an edited body and keeps its owner and mode. `edit` defines
/// a function of that name, which takes `words`, reads the old body from `$from` and prints the new one.
pub(in crate::resource) fn edit_file<const N: usize>(
    path: &str,
    run: &str,
    edit: &'static str,
    words: [String; N],
) -> ShellFragment {
    let action = words.into_iter().fold(open_private_action().word(path).word(run), ShellFragment::word);
    let action = enter_target_directory(action.code("\npath=$1 run=$2 keep=yes\nshift 2"))
        .code("stage\n")
        .code(OLD_FILE)
        .code(INHERIT_OWNERSHIP)
        .code(edit)
        .code("set -C\nedit \"$@\" > \"./$name\" || fail \"cannot write $dir/$box/$name\"\nset +C\n")
        .code(SET_CANDIDATE_OWNERSHIP)
        .append_fragment(install_candidate(""));
    close_action(action)
}

/// Parameters of [`rewrite_file`].
pub(in crate::resource) struct FileRewriteSpec<'a> {
    pub path: &'a str,
    /// SHA-256 of the body on which the new one is based; empty if the file did not exist.
    pub old: &'a str,
    pub run: &'a str,
    pub backup: bool,
    pub validate: &'a str,
    pub body: &'a [u8],
}

/// Returns the action that replaces the body of a file and keeps owner, mode, ACLs and extended attributes. It writes
/// nothing if the file changed since it was observed.
pub(in crate::resource) fn rewrite_file(write: &FileRewriteSpec<'_>) -> ShellFragment {
    let action = open_private_action()
        .word(write.path)
        .word(write.old)
        .word(write.run)
        .word(yes_or_no(write.backup))
        .word(write.validate)
        .code("\npath=$1 old=$2 run=$3 keep=$4 validate=$5");
    close_action(
        enter_target_directory(action)
            .code("stage\n")
            .code(OLD_FILE)
            .code(CHECK_UNCHANGED)
            .append_fragment(define_body(write.body))
            .code(WRITE_BODY)
            .code(INHERIT_ATTRIBUTES)
            .append_fragment(install_candidate(write.validate)),
    )
}

/// Sets `from` to the file at the path, or to `/dev/null` if it does not exist. If users other than root can replace
/// the file, `from` is a copy in the staging directory: a hard link would change the ctime of the file, and a service
/// that reads it would be restarted although nothing was written.
const OLD_FILE: &str = r#"
from=/dev/null
if [ -e "../$name" ] || [ -L "../$name" ]; then
  from=../$name
  if [ -n "$shared" ]; then
    from=./$name.old
    cp -a -T -- "../$name" "$from" || fail "cannot copy $path to $dir/$box"
  fi
  if [ -L "$from" ]; then fail "$path is a symbolic link"; fi
  [ -f "$from" ] || fail "$path is not a regular file"
fi
"#;

const INHERIT_OWNERSHIP: &str = r#"
own=root:root mode=0644
if [ "$from" != /dev/null ]; then
  own=$(stat -c %u:%g -- "$from") && mode=$(stat -c %a -- "$from") || fail "cannot read $path"
fi
"#;

/// Fails unless the body at `$path` has the digest `$old`, or the file does not exist if `$old` is empty.
const CHECK_UNCHANGED: &str = r#"have=
if [ "$from" != /dev/null ]; then have=$(sha256sum < "$from") || fail "cannot read $path"; fi
[ "${have%% *}" = "$old" ] || fail "$path has changed since it was looked at: nothing was written"
"#;

const INHERIT_ATTRIBUTES: &str = r#"if [ -n "$old" ]; then
  cp --attributes-only --preserve=all -T -- "$from" "./$name" && touch -- "./$name" || fail "cannot give $dir/$box/$name the attributes of $path"
else
  chmod 0644 -- "./$name" || fail "cannot set the mode of $path"
fi
"#;

/// Parameters of [`replace_symlink`].
pub(in crate::resource) struct SymlinkSpec<'a> {
    pub path: &'a str,
    pub target: &'a str,
    /// Owner and group in the syntax of `chown`; empty for the default.
    pub own: &'a str,
    pub run: &'a str,
    /// Whether to replace, and back up, a file that is not a link.
    pub force: bool,
}

/// Returns the action that replaces a symbolic link atomically.
pub(in crate::resource) fn replace_symlink(link: &SymlinkSpec<'_>) -> ShellFragment {
    let action = open_private_action()
        .word(link.path)
        .word(link.target)
        .word(link.own)
        .word(link.run)
        .word(yes_or_no(link.force))
        .code("\npath=$1 target=$2 own=$3 run=$4 keep=$5");
    close_action(enter_target_directory(action).code(REPLACE_SYMLINK))
}

/// A link cannot be synced by its name; syncing its directory is enough. An owner that is not declared stays.
const REPLACE_SYMLINK: &str = r#"if [ "$keep" != yes ] && [ -e "./$name" ] && [ ! -L "./$name" ]; then fail "$path is not a link"; fi
stage
ln -s -- "$target" "./$name" || fail "cannot make $dir/$box/$name"
if [ -L "../$name" ]; then
  was=$(stat -c %u:%g -- "../$name") && { [ "$was" = 0:0 ] || chown -h -- "$was" "./$name"; } || fail "cannot keep the owner of $path"
fi
if [ -n "$own" ]; then chown -h -- "$own" "./$name" || fail "cannot give $path to $own"; fi
keep
mv -fT -- "./$name" "../$name" || fail "cannot rename $dir/$box/$name to $path"
sync -- .. || fail "cannot sync $dir"
"#;

/// Returns an action that fails with `why`.
pub(in crate::resource) fn failing_action(why: &str) -> ShellFragment {
    close_action(open_action().word(why).code("\nfail \"$1\"\n"))
}

/// Opens an action on a directory: `path`, with `own`, `mode` and `run` if they are used.
pub(in crate::resource) fn open_directory_action(path: &str, own: &str, mode: u32, run: &str) -> ShellFragment {
    open_private_action()
        .word(path)
        .word(own)
        .word(crate::resource::shared::support::format_mode(mode))
        .word(run)
        .code("\npath=$1 own=$2 mode=$3 run=$4")
        .code(safe_path::ENTER_DIRECTORY)
        .code(safe_path::STAGE_IN_BOX)
        .code("dir=${path%/*} name=${path##*/}\nenter \"$dir\"\n")
}

/// Sets `$real`, the path without links. Fails if a file system, including a bind mount of the same file system, is mounted
/// at `./$name` or below it: a removal would delete files of that mount. The kernel reports the real path of the directory.
pub(in crate::resource) const REFUSE_MOUNTS: &str = r#"
real=$(readlink -n /proc/self/cwd; printf x)
real=${real%x}
real=${real%/}/$name
while read -r _ _ _ _ at _; do
  case $at in *\\*) at=$(printf '%b' "$at") ;; esac
  case $at in "$real"|"$real"/*) fail "a file system is mounted at $at: nothing was removed" ;; esac
done < /proc/self/mountinfo
"#;

const REMOVE_TREE: &str = r#"rm -rf --one-file-system -- "./$name" || fail "cannot remove $path"
"#;

/// Returns the action that removes a directory with all its contents.
pub(in crate::resource) fn remove_tree(path: &str) -> ShellFragment {
    let refuse = "if [ -L \"./$name\" ]; then fail \"$path is a symbolic link\"; fi";
    let action = open_directory_action(path, "", 0, "").code(refuse).code(REFUSE_MOUNTS);
    close_action(refuse_system_directories(action).code(REMOVE_TREE))
}

/// Returns the action that puts a copy, a file or a link with its owner, mode and attributes, at the path.
pub(in crate::resource) fn install_copy(path: &str, copy: &str, run: &str) -> ShellFragment {
    let action = open_private_action().word(path).word(copy).word(run).code("\npath=$1 copy=$2 run=$3 keep=no");
    close_action(enter_target_directory(action).code(INSTALL_COPY))
}

/// A link cannot be synced by its name. The time of the last change stays new, so that services see it.
const INSTALL_COPY: &str = r#"stage
cp -a -T -- "$copy" "./$name" || fail "cannot copy $copy to $dir/$box"
[ -L "./$name" ] || sync -- "./$name" || fail "cannot sync $dir/$box/$name"
mv -fT -- "./$name" "../$name" || fail "cannot rename $dir/$box/$name to $path"
sync -- .. || fail "cannot sync $dir"
"#;

/// Returns the action that removes a file, with a backup of its body if `backup` is set.
pub(in crate::resource) fn remove_file(path: &str, run: &str, backup: bool) -> ShellFragment {
    let action = open_private_action().word(path).word(run).word(yes_or_no(backup)).code("\npath=$1 run=$2 keep=$3");
    let action = enter_target_directory(action).code(if backup { REMOVE_WITH_BACKUP } else { REMOVE });
    close_action(action)
}

const REMOVE: &str = r#"rm -f -- "./$name" || fail "cannot remove $path"
sync -- . || fail "cannot sync $dir"
"#;

const REMOVE_WITH_BACKUP: &str = r#"stage
keep
rm -f -- "../$name" || fail "cannot remove $path"
sync -- .. || fail "cannot sync $dir"
"#;

fn yes_or_no(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// Requires `fail` and `unit`. A mask is a link in `/etc`, or in `/run` until the next boot; each command removes one of them.
pub(in crate::resource) const UNMASK: &str =
    "systemctl unmask -- \"$unit\" && systemctl unmask --runtime -- \"$unit\" || fail \"cannot unmask $unit\"\n";

/// The account tools exit with 1 or 10 if another program holds the lock of a file that they write; `patient` retries
/// for ten seconds.
pub(in crate::resource) const RETRY_FUNCTION: &str = r#"
patient() {
  tries=0
  while :; do
    "$@" && return 0
    status=$?
    case $status in 1|10) ;; *) return "$status" ;; esac
    tries=$((tries + 1))
    if [ "$tries" -ge 10 ]; then return "$status"; fi
    sleep 1
  done
}
"#;
