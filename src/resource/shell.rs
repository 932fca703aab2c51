//! Shell that several kinds share. Every action is one subshell with its values as positional
//! parameters: nothing leaks into the fragments beside it, and no value is read as code.

use crate::script::{Fragment, safe_path};

/// Opens an action whose new files are private until they are given away.
const OPEN_PRIVATE: &str = "(\numask 077\n";
/// Opens an action that runs other people's programs, which expect the usual mask.
const OPEN_USUAL: &str = "(\numask 022\n";

const FAIL: &str = "fail() { printf 'forge: %s\\n' \"$*\" >&2; exit 1; }\nset --";

/// What to do about a link that others can replace.
pub(super) const ELSEWHERE: &str = "declare the path that the link leads to, or put the link where only root can write";

/// The same for the output of an action.
pub(super) const NOT_FOLLOWED: (&str, &str) = ("forge does not follow it", ELSEWHERE);

/// Begins a private action; the caller appends the words, then code, and [`close`]s it.
pub(super) fn private() -> Fragment {
    Fragment::new().code(OPEN_PRIVATE).code(FAIL)
}

/// Begins an action that runs other programs.
pub(super) fn usual() -> Fragment {
    Fragment::new().code(OPEN_USUAL).code(FAIL)
}

/// Ends an action.
pub(super) fn close(action: Fragment) -> Fragment {
    action.code(")\n")
}

/// Appends the words that [`safe_path`] works with, and enters the directory of `$path`. Checks what must hold before
/// a file there is written or removed, clears what killed runs left, and defines `keep`. Reads `$path`, `$run` and `$keep`.
fn prepare(action: Fragment) -> Fragment {
    action.code(safe_path::ENTER).code(safe_path::STAGE).code(PREPARE)
}

const PREPARE: &str = r#"
dir=${path%/*} name=${path##*/}
enter "$dir"
if [ -d "./$name" ] && [ ! -L "./$name" ]; then fail "$path is a directory"; fi
sweep
keep() {
  if [ "$keep" != yes ] || { [ ! -e "../$name" ] && [ ! -L "../$name" ]; }; then return 0; fi
  kept=/var/lib/forge/backups/$run$path
  if [ -e "$kept" ] || [ -L "$kept" ]; then return 0; fi
  pin
  mkdir -p -- "${kept%/*}" && rm -rf -- "$kept.part" && cp -a -- "$from" "$kept.part" &&
    mv -fT -- "$kept.part" "$kept" || fail "cannot keep the body of $path under /var/lib/forge/backups"
}
"#;

/// What [`write_file`] needs to know.
pub(super) struct Write<'a> {
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

/// Returns the action that puts a body at a path in one step: readers see the old file or the new one.
pub(super) fn write_file(write: &Write<'_>) -> Fragment {
    let action = prepare(written(write)).code("stage\n").then(candidate(write.body)).code(GIVE_CANDIDATE);
    close(action.then(go_live(write.validate)))
}

/// Returns the action that gives a file whose body is as declared its owner and mode. Where others may replace the file, it is
/// written anew: what is at its name need not be what was judged, and its owner may hold it open for writing.
pub(super) fn give_file(write: &Write<'_>) -> Fragment {
    let action = prepare(written(write)).code(GIVE).code("stage\n");
    close(action.then(candidate(write.body)).code(GIVE_CANDIDATE).then(go_live(write.validate)))
}

fn written(write: &Write<'_>) -> Fragment {
    private()
        .word(write.path)
        .word(format!("{}:{}", write.owner, write.group))
        .word(super::support::octal(write.mode))
        .word(write.run)
        .word(yes(write.backup))
        .word(write.validate)
        .code("\npath=$1 own=$2 mode=$3 run=$4 keep=$5 validate=$6")
}

const GIVE: &str = r#"if [ -z "$shared" ]; then
  if [ -L "./$name" ]; then fail "$path is a symbolic link"; fi
  chown -h -- "$own" "./$name" || fail "cannot give $path to $own"
  chmod -- "$mode" "./$name" || fail "cannot set the mode of $path"
  exit 0
fi
"#;

/// Writes a body into the box, as `./$name`.
fn candidate(body: &[u8]) -> Fragment {
    Fragment::new()
        // `set -C` opens with O_EXCL: what is written is new.
        .code("set -C\nprintf %s")
        .data(body)
        .code(" | base64 -d > \"./$name\" || fail \"cannot write $dir/$box/$name\"\nset +C\n")
}

const GIVE_CANDIDATE: &str = r#"chown -- "$own" "./$name" || fail "cannot give $path to $own"
chmod -- "$mode" "./$name" || fail "cannot set the mode of $path"
"#;

/// Puts the candidate at the path, if `validate` accepts it.
fn go_live(validate: &str) -> Fragment {
    match validate.is_empty() {
        true => Fragment::new().code(GO_LIVE),
        false => Fragment::new().code(VALIDATE).code(GO_LIVE),
    }
}

/// A validator takes a name, not a directory that was entered. Where others can replace a part of the path, it gets the
/// name of a copy elsewhere: the candidate itself is in the box, where nobody else can change it. Elsewhere it gets a name
/// beside the target, since programs look for included files in the directory of the file that they read. That name begins
/// with a dot and ends in `.new`: programs that read a whole directory (`sudoers.d`, `cron.d`, `logrotate.d`, `*.conf`)
/// ignore it. systemd ignores it too, and tells the type of a unit from its name: a unit is validated in the box.
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
sync -- .. || fail "cannot sync $dir"
"#;

/// Returns the action that puts an edited body at a path in one step, with the owner and mode of the file that is
/// there. `edit` defines a function of that name, which is given `words`, prints the new body and reads the old one
/// at `$from`.
pub(super) fn edit_file<const N: usize>(path: &str, run: &str, edit: &'static str, words: [String; N]) -> Fragment {
    let action = words.into_iter().fold(private().word(path).word(run), Fragment::word);
    let action = prepare(action.code("\npath=$1 run=$2 keep=yes\nshift 2"))
        .code("stage\n")
        .code(OLD_FILE)
        .code(OF_OLD)
        .code(edit)
        .code("set -C\nedit \"$@\" > \"./$name\" || fail \"cannot write $dir/$box/$name\"\nset +C\n")
        .code(GIVE_CANDIDATE)
        .then(go_live(""));
    close(action)
}

/// What [`rewrite_file`] needs to know.
pub(super) struct Rewrite<'a> {
    pub path: &'a str,
    /// SHA-256 of the body that the new one was made from; empty when there was no file.
    pub old: &'a str,
    pub run: &'a str,
    pub backup: bool,
    pub validate: &'a str,
    pub body: &'a [u8],
}

/// Returns the action that puts a new body into a file that keeps all else: owner, mode, ACLs, extended attributes.
/// It writes nothing when the file is another one than was judged.
pub(super) fn rewrite_file(write: &Rewrite<'_>) -> Fragment {
    let action = private()
        .word(write.path)
        .word(write.old)
        .word(write.run)
        .word(yes(write.backup))
        .word(write.validate)
        .code("\npath=$1 old=$2 run=$3 keep=$4 validate=$5");
    close(
        prepare(action)
            .code("stage\n")
            .code(OLD_FILE)
            .code(SAME)
            .then(candidate(write.body))
            .code(INHERIT)
            .then(go_live(write.validate)),
    )
}

/// Sets `from` to the file that is at the path, or to `/dev/null` if there is none. Where others may replace it, that is a
/// copy in the box: a hard link would change the ctime of the file, and a service that reads it would be restarted although
/// nothing was written.
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

const OF_OLD: &str = r#"
own=root:root mode=0644
if [ "$from" != /dev/null ]; then
  own=$(stat -c %u:%g -- "$from") && mode=$(stat -c %a -- "$from") || fail "cannot read $path"
fi
"#;

/// Ends unless the body at `$path` has the digest `$old`, or nothing is there when that is empty.
const SAME: &str = r#"have=
if [ "$from" != /dev/null ]; then have=$(sha256sum < "$from") || fail "cannot read $path"; fi
[ "${have%% *}" = "$old" ] || fail "$path has changed since it was looked at: nothing was written"
"#;

const INHERIT: &str = r#"if [ -n "$old" ]; then
  cp --attributes-only --preserve=all -T -- "$from" "./$name" && touch -- "./$name" || fail "cannot give $dir/$box/$name the attributes of $path"
else
  chmod 0644 -- "./$name" || fail "cannot set the mode of $path"
fi
"#;

/// What [`relink`] needs to know.
pub(super) struct Relink<'a> {
    pub path: &'a str,
    pub target: &'a str,
    /// As `chown` reads it, empty for what comes by itself.
    pub own: &'a str,
    pub run: &'a str,
    /// Whether something else than a link is replaced, and kept.
    pub force: bool,
}

/// Returns the action that puts a symbolic link at a path in one step.
pub(super) fn relink(link: &Relink<'_>) -> Fragment {
    let action = private()
        .word(link.path)
        .word(link.target)
        .word(link.own)
        .word(link.run)
        .word(yes(link.force))
        .code("\npath=$1 target=$2 own=$3 run=$4 keep=$5");
    close(prepare(action).code(RELINK))
}

/// A link cannot be synced by its name: with its folder it is.
const RELINK: &str = r#"if [ "$keep" != yes ] && [ -e "./$name" ] && [ ! -L "./$name" ]; then fail "$path is not a link"; fi
stage
ln -s -- "$target" "./$name" || fail "cannot make $dir/$box/$name"
if [ -n "$own" ]; then chown -h -- "$own" "./$name" || fail "cannot give $path to $own"; fi
keep
mv -fT -- "./$name" "../$name" || fail "cannot rename $dir/$box/$name to $path"
sync -- .. || fail "cannot sync $dir"
"#;

/// Returns an action that fails with `why`.
pub(super) fn refuse(why: &str) -> Fragment {
    close(usual().word(why).code("\nfail \"$1\"\n"))
}

/// Opens an action about a directory: `path`, with `own`, `mode` and `run` where they count.
pub(super) fn at_directory(path: &str, own: &str, mode: u32, run: &str) -> Fragment {
    private()
        .word(path)
        .word(own)
        .word(super::support::octal(mode))
        .word(run)
        .code("\npath=$1 own=$2 mode=$3 run=$4")
        .code(safe_path::ENTER)
        .code(safe_path::STAGE)
        .code("dir=${path%/*} name=${path##*/}\nenter \"$dir\"\n")
}

/// Ends if a file system is mounted at `./$name` or below it, one from elsewhere in the same file system too: what is
/// removed there would be another's. The kernel tells where this is.
pub(super) const NO_MOUNTS: &str = r#"
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

/// Returns the action that removes a directory with everything in it.
pub(super) fn remove_tree(path: &str) -> Fragment {
    let refuse = "if [ -L \"./$name\" ]; then fail \"$path is a symbolic link\"; fi";
    close(at_directory(path, "", 0, "").code(refuse).code(NO_MOUNTS).code(REMOVE_TREE))
}

/// Returns the action that removes a file, keeping its body when `backup` says so.
pub(super) fn remove_file(path: &str, run: &str, backup: bool) -> Fragment {
    let action = private().word(path).word(run).word(yes(backup)).code("\npath=$1 run=$2 keep=$3");
    let action = prepare(action).code(if backup { REMOVE_KEPT } else { REMOVE });
    close(action)
}

const REMOVE: &str = r#"rm -f -- "./$name" || fail "cannot remove $path"
sync -- . || fail "cannot sync $dir"
"#;

const REMOVE_KEPT: &str = r#"stage
keep
rm -f -- "../$name" || fail "cannot remove $path"
sync -- .. || fail "cannot sync $dir"
"#;

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// The account tools exit with 1 or 10 when another program holds the lock of a file they write: `patient` tries again
/// for ten seconds.
pub(super) const PATIENT: &str = r#"
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
