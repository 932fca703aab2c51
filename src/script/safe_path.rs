//! Shell code that reaches a path without being redirected, and works on it where no other user can interfere.
//!
//! A user with write access to a directory can place a link at any name in it at any moment. A root program that uses
//! the name then acts on the link's target. So an action first *enters* the directory of its path: the kernel keeps a
//! working directory whatever happens to its name. Links are followed only if root, or the account that forge acts as,
//! placed them. A new body is written and gets its owner in a *box*: a directory next to the path that only this
//! account can enter. A file of root that does not exist yet needs none where only root can place entries. `mount` and
//! `umount` take names, not entered directories, so they only get names that no other user can replace.

/// Requires `fail`. `enter DIRECTORY` makes it the working directory and sets
/// - `me`: the user id of the account that this runs as;
/// - `here`: device and inode of the directory;
/// - `shared`: empty if only root and this account can place entries in it, else `sticky` or `all`;
/// - `foreign`: `yes` if other users can replace a part of the path.
///
/// One `stat` covers all parts of a path that other users cannot change; `walk` goes through the rest part by part. The
/// shell's own `pwd` is not used: bash derives it from the name, which another user may have replaced by then.
pub const ENTER_DIRECTORY: &str = r#"
owned() { [ "$1" = 0 ] || [ "$1" = "$me" ]; }
# Sets `open` from owner and raw mode of a directory: whether other users can place entries in it.
above() {
  if ! owned "$1"; then open=all
  elif [ $((0x$2 & 0x12)) -eq 0 ]; then open=
  elif [ $((0x$2 & 0x200)) -ne 0 ]; then open=sticky
  else open=all; fi
}
# Succeeds if no other user can replace an entry of owner `$1` in such a directory.
fixed() {
  case $open in
    '') return 0 ;;
    sticky) owned "$1" ;;
    *) return 1 ;;
  esac
}
enter() {
  asked=${1:-/} left=${1#/} at='' foreign=''
  [ -d "$1/" ] || missing_directory
  cd -P -- "$1/" || fail "cannot enter directory $asked"
  set -- /proc/self/ /
  while [ -n "$left" ]; do
    at=$at/${left%%/*}
    set -- "$@" "$at"
    case $left in */*) left=${left#*/} ;; *) left= ;; esac
  done
  parts=$#
  set -- $(stat -c '%u %f %d:%i' -- "$@")
  [ $# -eq $((3 * parts)) ] || fail "cannot stat directory $asked"
  me=$1
  above "$4" "$5"
  here=$6
  shift 6
  while [ $# -gt 0 ]; do
    if [ $((0x$2 & 0xf000)) -ne 16384 ] || ! fixed "$1"; then walk; return; fi
    above "$1" "$2"
    here=$3
    shift 3
  done
  shared=$open
}
# A directory may be missing because of a link that is not followed.
missing_directory() { me=$(id -u) && walk; fail "directory $asked does not exist"; }
walk() {
  left=$asked at='' hops=0 here='' foreign=''
  cd / || fail "cannot enter /"
  while :; do
    left=${left#"${left%%[!/]*}"}
    [ -n "$left" ] || break
    entry=${left%%/*}
    left=${left#"$entry"}
    case $entry in
      .) continue ;;
      ..) cd -P .. || fail "cannot enter the directory above $at"
        at=${at%/*} here=''
        continue ;;
    esac
    # Triggers an automount first: the mounted directory is the relevant one.
    [ -d "./$entry/." ] || :
    set -- $(stat -c '%u %f %d:%i' -- . "./$entry" 2>/dev/null)
    [ $# -eq 6 ] || fail "directory $asked does not exist"
    [ "${here:-$3}" = "$3" ] || fail "$at was replaced while forge entered it"
    above "$1" "$2"
    if [ -z "$foreign" ] && ! fixed "$4"; then foreign=yes holder=$1 weak=$at/$entry; fi
    case $((0x$5 & 0xf000)) in
      16384) cd -P -- "./$entry" || fail "cannot enter $at/$entry"
        at=$at/$entry here=$6 ;;
      40960) [ -z "$foreign" ] || barred "$at/$entry is a symbolic link that $(holders) can replace: forge does not follow it"
        hops=$((hops + 1))
        [ "$hops" -le 40 ] || fail "$asked leads through too many symbolic links"
        target=$(readlink -n -- "./$entry"; printf x)
        target=${target%x}
        case $target in /*) cd / && at='' || fail "cannot enter /" ;; esac
        here='' left=$target/$left ;;
      *) fail "$at/$entry is not a directory" ;;
    esac
  done
  set -- $(stat -c '%u %f %d:%i' -- .)
  [ $# -eq 3 ] && [ "${here:-$3}" = "$3" ] || fail "$at was replaced while forge entered it"
  above "$1" "$2"
  here=$3 shared=$open
}
barred() { fail "$@"; }
# Prints who can replace the entries of the directory whose owner is `$holder`.
holders() {
  if owned "$holder"; then printf 'other users'; else printf 'user %s' "$(id -nu -- "$holder" 2>/dev/null || printf %s "$holder")"; fi
}
"#;

/// Requires [`ENTER_DIRECTORY`], and `path`, `dir`, `name` and `run` of an entry in the entered directory. `stage` creates the
/// box and enters it: the future content of the path is then `./$name`, the path itself `../$name`. No other user can
/// move the box to another directory, since that requires write access to the box.
pub const STAGE_IN_BOX: &str = r#"
# Succeeds if the working directory is a box of this account in the entered directory, and no link led here.
boxed() {
  set -- $(stat -c '%u %f %d:%i' -- . .. "../$1" 2>/dev/null)
  [ $# -eq 9 ] && [ "$1" = "$me" ] && [ $((0x$2 & 0xf1ff)) -eq 16832 ] && [ "$6" = "$here" ] && [ "$9" = "$3" ]
}
enter_box() {
  cd -P -- "./$box" || fail "cannot enter $dir/$box"
  [ -z "$shared" ] || boxed "$box" || fail "$dir/$box was replaced: nothing was written"
}
stage() {
  box=.$name.forge-$run
  mkdir -m 700 -- "./$box" || fail "cannot make $dir/$box"
  enter_box
  trap unstage EXIT
  trap 'exit 143' HUP INT TERM
}
empty_box() {
  rm -rf --one-file-system -- "./$name" "./$name.old" "./$name.list" "./$name.note" "./$name.tar"
}
unstage() {
  rmdir -- "../$box" 2>/dev/null || { empty_box; cd .. && rmdir -- "./$box"; }
}
# Removes leftovers of killed runs. Where other users can place entries, only boxes of this account are removed.
sweep() {
  for stray in "./.$name.forge-"????????T*; do clear_stray "$stray"; done
}
clear_stray() {
  if [ -f "$1" ] || [ -L "$1" ]; then rm -f -- "$1"
  elif [ ! -d "$1" ]; then :
  elif [ -z "$shared" ]; then rm -rf --one-file-system -- "$1"
  else ( cd -P -- "$1" && boxed "${1#./}" && empty_box && cd .. && rmdir -- "$1" ) 2>/dev/null
  fi
}
# Sets `from` to the current content of the path. If other users can replace it, that is a hard link in the box.
pin() {
  if [ -z "$shared" ]; then from=../$name; return 0; fi
  from=./$name.old
  [ -e "$from" ] || [ -L "$from" ] || ln -P -T -- "../$name" "$from" || fail "cannot link $path to $dir/$box"
}
"#;

/// Requires [`ENTER_DIRECTORY`]. `trusted FILE` enters the directory of a file that root is about to run or install, and fails if
/// another user could change or replace the file between the check of its digest and its use.
pub const REQUIRE_TRUSTED_FILE: &str = r#"
trusted() {
  enter "${1%/*}"
  set -- "$1" $(stat -c '%u %f' -- "./${1##*/}" 2>/dev/null)
  [ $# -eq 3 ] || fail "there is no file at $1"
  if [ -n "$foreign" ] || ! fixed "$2"; then fail "users other than root can replace $1: it is not used"; fi
  if [ $((0x$3 & 0xf000)) -eq 40960 ]; then
    link=$1
    set -- "$(readlink -f -- "./${1##*/}"; printf x)"
    set -- "${1%?x}"
    [ -e "$1" ] || fail "there is no file at $link"
    trusted "$1"
    return
  fi
  owned "$2" && [ $((0x$3 & 0x12)) -eq 0 ] || fail "users other than root can change $1: it is not used"
}
"#;

/// Requires [`ENTER_DIRECTORY`], whose `barred` reports refusals.
/// - `require_fixed_name PATH` enters the directory of a path, and fails if other users can replace a part of the path
///   or the entry itself. Sets `last` to its name in that directory. It does not stat a mounted entry, whose server may
///   not respond, unless the directory is sticky.
/// - `require_fixed_source SOURCE` does the same for the source of a mount, if that is a path and not a device; for the
///   directory of a bind mount, it checks the whole path.
pub const REQUIRE_FIXED_NAME: &str = r#"
require_fixed_name() {
  enter "${1%/*}"
  last=${1##*/}
  [ -z "$foreign" ] || exposed
  weak=$1
  case $shared in
    '') return 0 ;;
    sticky)
      owner=$(timeout 10 stat -c %u -- "./$last" 2>/dev/null)
      status=$?
      case $status in
        0) if owned "$owner"; then return 0; fi ;;
        # Not created yet.
        1) return 0 ;;
        124|137) fail "$1 did not answer within 10 s" ;;
        *) fail "cannot stat $1 (exit status $status)" ;;
      esac ;;
  esac
  holder=$(stat -c %u .)
  exposed
}
require_fixed_source() {
  case $1 in
    # A share of a server, as cifs names it: not a path of this host.
    //*) return 0 ;;
    # Every user can write to /dev/shm; a path with `//`, `.` or `..` in it may lead there, or out of /dev.
    /dev/shm|/dev/shm/*|/*//*|/*/.*) ;;
    /dev/*) return 0 ;;
    /*) ;;
    *) return 0 ;;
  esac
  require_fixed_name "$1"
  # Another user could create a missing entry before it is mounted.
  [ -z "$shared" ] || [ -e "./$last" ] || fail "$1 does not exist"
  [ -d "./$last" ] || return 0
  enter "$1"
  [ -z "$foreign" ] || exposed
}
exposed() { barred "$(holders) can replace $weak: forge mounts and unmounts only where no other user can replace the path"; }
"#;

#[cfg(test)]
mod tests;
