//! Shell that several kinds share. Every action is one subshell with its values as positional
//! parameters: nothing leaks into the fragments beside it, and no value is read as code.

use crate::script::Fragment;

/// Opens an action whose new files are private until they are given away.
const OPEN_PRIVATE: &str = "(\numask 077\n";
/// Opens an action that runs other people's programs, which expect the usual mask.
const OPEN_USUAL: &str = "(\numask 022\n";

const FAIL: &str = "fail() { printf 'forge: %s\\n' \"$*\" >&2; exit 1; }\nset --";

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

/// Checks what must hold before a file at `$path` is written or removed, clears what killed runs left,
/// and defines `keep`. Reads `$path`, `$run` and `$keep`.
const PREPARE: &str = r#"
dir=${path%/*} name=${path##*/}
[ -d "$dir/" ] || fail "directory $dir does not exist"
if [ -d "$path" ] && [ ! -L "$path" ]; then fail "$path is a directory"; fi
rm -f -- "$dir/.$name.forge-"????????T*
keep() {
  if [ "$keep" != yes ] || { [ ! -e "$path" ] && [ ! -L "$path" ]; }; then return 0; fi
  kept=/var/lib/forge/backups/$run$path
  if [ -e "$kept" ] || [ -L "$kept" ]; then return 0; fi
  mkdir -p -- "${kept%/*}" && rm -rf -- "$kept.part" && cp -a -- "$path" "$kept.part" &&
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
    /// A command that must accept the candidate in `$FORGE_FILE`; empty for none.
    pub validate: &'a str,
    pub body: &'a [u8],
}

/// Returns the action that puts a body at a path in one step: readers see the old file or the new one.
pub(super) fn write_file(write: &Write<'_>) -> Fragment {
    let action = private()
        .word(write.path)
        .word(format!("{}:{}", write.owner, write.group))
        .word(super::support::octal(write.mode))
        .word(write.run)
        .word(yes(write.backup))
        .word(write.validate)
        .code("\npath=$1 own=$2 mode=$3 run=$4 keep=$5 validate=$6")
        .code(PREPARE)
        .then(candidate(write.body))
        .code(GIVE_CANDIDATE)
        .code(GO_LIVE);
    close(action)
}

/// Writes a body beside `$path`, as `$tmp`.
fn candidate(body: &[u8]) -> Fragment {
    Fragment::new()
        .code("tmp=$dir/.$name.forge-$run\nrm -f -- \"$tmp\"\n")
        .code("trap 'rm -f -- \"$tmp\"' EXIT\ntrap 'exit 143' HUP INT TERM\n")
        // `set -C` opens the candidate with O_EXCL: nobody can plant a link at its name.
        .code("set -C\nprintf %s")
        .data(body)
        .code(" | base64 -d > \"$tmp\" || fail \"cannot write $tmp\"\nset +C\n")
}

const GIVE_CANDIDATE: &str = r#"chown -- "$own" "$tmp" || fail "cannot give $path to $own"
chmod -- "$mode" "$tmp" || fail "cannot set the mode of $path"
"#;

const GO_LIVE: &str = r#"if [ -n "$validate" ]; then
  FORGE_FILE=$tmp FORGE_RUN=$validate sh -c 'c=$FORGE_RUN; unset FORGE_RUN; eval "$c"' || fail "the new body of $path is not valid (exit status $?): the file was left as it was"
fi
keep
sync -- "$tmp" || fail "cannot sync $tmp"
mv -fT -- "$tmp" "$path" || fail "cannot rename $tmp to $path"
sync -- "$dir/" || fail "cannot sync $dir"
"#;

/// Returns the action that puts an edited body at a path in one step, with the owner and mode of the file that is
/// there. `edit` defines a function of that name, which is given `words`, prints the new body and reads the old one
/// at `$from`.
pub(super) fn edit_file<const N: usize>(path: &str, run: &str, edit: &'static str, words: [String; N]) -> Fragment {
    let action = words.into_iter().fold(private().word(path).word(run), Fragment::word);
    let action = action
        .code("\npath=$1 run=$2 keep=yes validate=\nshift 2")
        .code(OF_OLD)
        .code(PREPARE)
        .code("tmp=$dir/.$name.forge-$run\nrm -f -- \"$tmp\"\n")
        .code("trap 'rm -f -- \"$tmp\"' EXIT\ntrap 'exit 143' HUP INT TERM")
        .code(edit)
        .code("set -C\nedit \"$@\" > \"$tmp\" || fail \"cannot write $tmp\"\nset +C\n")
        .code(GIVE_CANDIDATE)
        .code(GO_LIVE);
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
        .code("\npath=$1 old=$2 run=$3 keep=$4 validate=$5")
        .code(PREPARE)
        .code(SAME)
        .then(candidate(write.body))
        .code(INHERIT)
        .code(GO_LIVE);
    close(action)
}

const OF_OLD: &str = r#"
if [ -L "$path" ]; then fail "$path is a symbolic link"; fi
own=root:root mode=0644 from=/dev/null
if [ -e "$path" ]; then
  own=$(stat -c %u:%g -- "$path") && mode=$(stat -c %a -- "$path") && from=$path || fail "cannot read $path"
fi
"#;

/// Ends unless the body at `$path` has the digest `$old`, or nothing is there when that is empty.
pub(super) const SAME: &str = r#"if [ -L "$path" ]; then fail "$path is a symbolic link"; fi
have=
if [ -e "$path" ]; then have=$(sha256sum < "$path") || fail "cannot read $path"; fi
[ "${have%% *}" = "$old" ] || fail "$path has changed since it was looked at: nothing was written"
"#;

const INHERIT: &str = r#"if [ -n "$old" ]; then
  cp --attributes-only --preserve=all -T -- "$path" "$tmp" && touch -- "$tmp" || fail "cannot give $tmp the attributes of $path"
else
  chmod 0644 -- "$tmp" || fail "cannot set the mode of $path"
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
        .code("\npath=$1 target=$2 own=$3 run=$4 keep=$5")
        .code(PREPARE)
        .code(RELINK);
    close(action)
}

/// A link cannot be synced by its name: with its folder it is.
const RELINK: &str = r#"if [ "$keep" != yes ] && [ -e "$path" ] && [ ! -L "$path" ]; then fail "$path is not a link"; fi
tmp=$dir/.$name.forge-$run
trap 'rm -f -- "$tmp"' EXIT
trap 'exit 143' HUP INT TERM
ln -s -- "$target" "$tmp" || fail "cannot make $tmp"
if [ -n "$own" ]; then chown -h -- "$own" "$tmp" || fail "cannot give $path to $own"; fi
keep
mv -fT -- "$tmp" "$path" || fail "cannot rename $tmp to $path"
sync -- "$dir/" || fail "cannot sync $dir"
"#;

/// Returns an action that fails with `why`.
pub(super) fn refuse(why: &str) -> Fragment {
    close(usual().word(why).code("\nfail \"$1\"\n"))
}

/// Ends if a file system is mounted at `$1` or below it, one from elsewhere in the same file system too: what is
/// removed there would be another's.
pub(super) const NO_MOUNTS: &str = r#"
real=$(readlink -f -- "$1") || fail "cannot resolve $1"
while read -r _ _ _ _ at _; do
  case $at in *\\*) at=$(printf '%b' "$at") ;; esac
  case $at in "$real"|"$real"/*) fail "a file system is mounted at $at: nothing was removed" ;; esac
done < /proc/self/mountinfo
"#;

const REMOVE_TREE: &str = r#"rm -rf --one-file-system -- "$1" || fail "cannot remove $1"
"#;

/// Returns the action that removes a directory with everything in it.
pub(super) fn remove_tree(path: &str) -> Fragment {
    let refuse = "\nif [ -L \"$1\" ]; then fail \"$1 is a symbolic link\"; fi";
    close(private().word(path).code(refuse).code(NO_MOUNTS).code(REMOVE_TREE))
}

/// Returns the action that changes owner and mode of what stands at a path and is no link.
pub(super) fn give(path: &str, owner: &str, group: &str, mode: u32) -> Fragment {
    let action = private().word(path).word(format!("{owner}:{group}")).word(super::support::octal(mode)).code(GIVE);
    close(action)
}

const GIVE: &str = r#"
if [ -L "$1" ]; then fail "$1 is a symbolic link"; fi
chown -- "$2" "$1" || fail "cannot give $1 to $2"
chmod -- "$3" "$1" || fail "cannot set the mode of $1"
"#;

/// Returns the action that removes a file, keeping its body when `backup` says so.
pub(super) fn remove_file(path: &str, run: &str, backup: bool) -> Fragment {
    let action = private()
        .word(path)
        .word(run)
        .word(yes(backup))
        .code("\npath=$1 run=$2 keep=$3")
        .code(PREPARE)
        .code("keep\nrm -f -- \"$path\" || fail \"cannot remove $path\"\n")
        .code("sync -- \"$dir/\" || fail \"cannot sync $dir\"\n");
    close(action)
}

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
