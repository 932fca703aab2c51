//! The commands of a package change: one script that can be killed at any point and run again.

use super::declaration::PackageResource;
use super::diff::{InstallationChange, PackageDiff};
use super::version::VersionRequirement;
use crate::probe::PackageManagerKind;
use crate::resource::ActionBatch;
use crate::resource::packages::released_holds::NOTE_RELEASED;
use crate::resource::shared::{package_lock, shell};
use crate::script::ShellFragment;

const SETTINGS: &str = r#"
export DEBIAN_FRONTEND=noninteractive APT_LISTCHANGES_FRONTEND=none NEEDRESTART_MODE=l UCF_FORCE_CONFFOLD=1
say() { printf 'forge: %s\n' "$*" >&2; }
"#;

/// dpkg and apt lock with `fcntl`: the holder has the file open, and `/proc/locks` lists the holder with the inode. The
/// device in `/proc/locks` differs on overlay file systems. A process in a container has another file open under the
/// same name, hence `-ef`. While its dpkg holds `lock`, apt holds `lock-frontend`: apt is the holder to name. If no
/// holder is found, apt itself waits.
const HOLDER: &str = r#"holder() {
  opened=$(find /proc/[0-9]*/fd -maxdepth 1 \( -lname /var/lib/dpkg/lock -o -lname /var/lib/dpkg/lock-frontend \
    -o -lname /var/lib/apt/lists/lock -o -lname /var/cache/apt/archives/lock \) -printf '%p %l\n' 2>/dev/null)
  [ -z "$opened" ] || printf '%s\n' "$opened" | {
    found=
    while read -r open lock; do
      [ "$open" -ef "$lock" ] && inode=$(stat -c %i "$lock" 2>/dev/null) || continue
      pid=${open#/proc/} pid=${pid%%/*}
      grep -q "^[0-9]*: POSIX *[A-Z]* *WRITE $pid [^ ]*:$inode " /proc/locks || continue
      command=$(tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null) || continue
      who="pid $pid (${command% })"
      case $lock in */lock-frontend) found=$who; break ;; esac
      [ -n "$found" ] || found=$who
    done
    [ -z "$found" ] || printf '%s' "$found"
  }
}
"#;

/// Waits for the lock holder and prints it. Reads `$limit` (seconds); `holder` prints the holder.
pub(super) const WAITING: &str = r#"waited=0
free() {
  while who=$(holder) && [ -n "$who" ]; do
    if [ "$waited" -ge "$limit" ]; then fail "gave up after $waited s: the package manager's lock is held by $who"; fi
    if [ $((waited % 10)) -eq 0 ]; then say "waiting for the package manager's lock, held by $who"; fi
    sleep 1
    waited=$((waited + 1))
  done
}
locked() {
  states=
  while :; do
    free
    "$@" && return 0
    status=$?
    who=$(holder)
    if [ -z "$who" ]; then return "$status"; fi
  done
}
"#;

/// Calls apt and dpkg, and finishes interrupted runs.
const APT: &str = r#"apt() {
  locked apt-get -y -q -o Dpkg::Use-Pty=0 -o "DPkg::Lock::Timeout=$limit" \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}
# Runs in a subshell of its own.
abbreviations() { exec dpkg-query -W -f '${db:Status-Abbrev}|${binary:Package}\n' 2>/dev/null; }
# Sets `states` to a line for each package, and one before the first.
list_states() { states="
$(abbreviations)
"; }
interrupted() {
  for left in /var/lib/dpkg/updates/*; do
    if [ -e "$left" ]; then return 0; fi
  done
  [ -n "${states-}" ] || list_states
  seen=$states states=
  case $seen in *"
"?[HUFWt]*|*"
"??R*) return 0 ;; esac
  return 1
}
# Sets `are_held` to those of "$@" that are held, each after a blank.
find_held() {
  are_held= unlisted=
  list_states
  # dpkg is asked for these only if any package is held, as it knows a package by several names, or if one of them has no
  # line: a package may be held before it is installed.
  for package; do
    case $states in *"|$package
"*|*"|$package:"*) ;; *) unlisted=yes ;; esac
  done
  case $unlisted$states in yes*|*"
h"*) ;; *) return 0 ;; esac
  set -- $(dpkg-query -W -f '${db:Status-Want} ${binary:Package}\n' -- "$@" 2>/dev/null)
  while [ $# -gt 0 ]; do
    if [ "$1" = hold ]; then are_held="$are_held $2"; fi
    shift 2
  done
}
unfinished() { abbreviations | sed -n 's/^.[HUFWt].|/ /p; s/^..R|/ /p' | tr -d '\n'; }
configure() { locked dpkg --force-confdef --force-confold --configure -a; }
finish() {
  interrupted || return 0
  say "finishing what an interrupted dpkg left"
  configure && ! interrupted && return 0
  again=$(abbreviations | sed -n 's/^..R|//p')
  # Names of packages hold no blanks: the list is split on purpose.
  if [ -n "$again" ]; then apt install --reinstall --no-remove -- $again; fi
  apt -f install --no-remove && configure || fail "dpkg cannot finish$(unfinished)"
}
"#;

/// Opens an action of apt for `names`: defines the functions that wait, call apt and finish interrupted runs.
pub(in crate::resource) fn open_apt_script(lock_timeout: u64, names: &str) -> ShellFragment {
    let opened = shell::open_action().number(lock_timeout).word(names).code("\nlimit=$1 names=$2\n");
    opened.code(SETTINGS).code(HOLDER).code(WAITING).code(APT)
}

/// Returns a script that updates apt's lists, and waits up to `lock_timeout` seconds for another package manager.
pub(crate) fn update_package_lists(lock_timeout: u64) -> ShellFragment {
    shell::close_action(
        open_apt_script(lock_timeout, "").code("apt update || fail \"apt's lists could not be updated\"\n"),
    )
}

/// Installs `"$@"` (`name` or `name=version`). Reads `$downgrade`, `$names`, `$hold`. `refresh "$@"` updates apt's lists
/// unless they contain these packages.
const INSTALL: &str = r#"
known() {
  version=${1#*=}
  if [ "$version" = "$1" ]; then version=; fi
  apt-cache madison -- "${1%%=*}" 2>/dev/null | awk -F ' *[|] *' -v v="$version" 'v == "" || $2 == v { found = 1 } END { exit !found }'
}
refresh() {
  for package; do
    if known "$package"; then continue; fi
    say "apt does not know $package: updating its lists"
    apt update || fail "apt's lists could not be updated"
    return 0
  done
}
finish
"#;

/// Installs `"$@"`, and in the same transaction the packages of the steps after this one in `$FORGE_ALSO`. If apt refuses
/// that, each step installs its own. apt also fails if a package of another step cannot be configured: then this step has
/// done its part if its own packages are installed.
const KEEP_OTHERS: &str = r#"if [ -z "${FORGE_ALSO-}" ]; then
  apt install --no-remove $downgrade -- "$@" || exit 1
elif ! apt install --no-remove -- "$@" $FORGE_ALSO && ! installed "$@"; then
  apt install --no-remove -- "$@" || installed "$@" || exit 1
fi
"#;

/// `installed "$@"` succeeds if these packages are installed and configured; `joined "$@"` if in addition a step before
/// this one shared its transaction.
const JOINED: &str = r#"installed() {
  for package; do
    version=${package#*=}
    state=$(dpkg-query -W -f '${db:Status-Abbrev}${Version}' -- "${package%%=*}" 2>/dev/null)
    case $state in
      ?i" $version") ;;
      ?i" "*) [ "$version" = "$package" ] || return 1 ;;
      *) return 1 ;;
    esac
  done
}
joined() { [ -n "${FORGE_JOINED-}" ] && installed "$@"; }
"#;

/// Installs `"$@"` and lets apt remove the packages in `$gone`, and no other one.
const SWAP: &str = r#"
for package in $gone; do set -- "$@" "$package-"; done
plan=$(apt-get -s -q --allow-change-held-packages $downgrade install -- "$@" 2>&1) || {
  printf '%s\n' "$plan" >&2
  fail "apt cannot replace$gone"
}
along=$(printf '%s\n' "$plan" | sed -n 's/^\(Remv\|Purg\) \([^ ]*\).*/\2/p' | while read -r removed; do
  for package in $gone; do
    if [ "$removed" = "$package" ]; then continue 2; fi
  done
  printf ' %s' "$removed"
done)
if [ -n "$along" ]; then fail "apt would also remove$along: remove them first, or keep the installed version"; fi
apt install $downgrade -- "$@" || exit 1
"#;

/// Releases the packages of the family in `$others` for the change, and holds those again that remain.
const RELEASE_OTHERS: &str = r#"
find_held $others
others_held=$are_held
hold_others() {
  for package in $others_held; do
    if dpkg-query -W -f '${db:Status-Status}\n' -- "$package" 2>/dev/null | grep -qx installed; then
      locked apt-mark hold -- "$package" >/dev/null
    fi
  done
}
if [ -n "$others_held" ]; then
  trap 'hold_others; others=$?; hold_again && [ "$others" -eq 0 ] && forget_released' EXIT
  trap 'exit 143' HUP INT TERM
  note_released apt $others_held
  locked apt-mark unhold -- $others_held >/dev/null || fail "cannot release the hold of$others_held"
fi
"#;

/// Removes `"$@"`, unless other packages would be removed too. Reads `$verb` (`remove` or `purge`).
///
/// dpkg removes a package that it cannot configure, unless it requires a reinstallation first. So only other packages
/// have to be finished.
const REMOVE: &str = r#"
others_left() {
  abbreviations | sed -n 's/^.[HUFWt] |/- /p; s/^..R|/R /p' | while read -r flag left; do
    if [ "$flag" = - ]; then
      for package; do
        if [ "${left%%:*}" = "${package%%:*}" ]; then continue 2; fi
      done
    fi
    printf ' %s' "$left"
  done
}
removable() {
  for left in /var/lib/dpkg/updates/*; do
    if [ -e "$left" ]; then return 1; fi
  done
  [ -z "$(others_left "$@")" ]
}
if ! removable "$@"; then
  say "finishing what an interrupted dpkg left"
  configure
  removable "$@" || finish
fi
plan=$(apt-get -s -q "$verb" -- "$@" 2>&1) || { printf '%s\n' "$plan" >&2; fail "apt cannot remove $*"; }
along=$(printf '%s\n' "$plan" | sed -n 's/^\(Remv\|Purg\) \([^ ]*\).*/\2/p' | while read -r gone; do
  for package; do
    if [ "${gone%%:*}" = "${package%%:*}" ]; then continue 2; fi
  done
  printf ' %s' "$gone"
done)
if [ -n "$along" ]; then fail "apt would also remove$along: declare their removal too, or keep $*"; fi
apt "$verb" -- "$@" || exit 1
"#;

/// Releases held packages for the change and holds them again in every case. Reads `$noted`, which is `yes` unless the
/// step itself declares whether its packages are held.
const RELEASE: &str = r#"
find_held $names
was_held=$are_held
if [ "$noted" = yes ]; then
  if [ -n "$was_held" ]; then note_released apt $was_held; fi
  was_held=
  [ ! -s "$released" ] || was_held=$(noted_before apt)
fi
hold_again() { if [ -n "$was_held" ]; then locked apt-mark hold -- $was_held >/dev/null; fi; }
if [ -n "$was_held" ]; then
  trap 'hold_again && forget_released' EXIT
  trap 'exit 143' HUP INT TERM
  locked apt-mark unhold -- $was_held >/dev/null || fail "cannot release the hold of$was_held"
fi
"#;

pub(in crate::resource) const EXPLAIN: &[(&str, &str)] = &[
    ("dpkg cannot finish", "the package's scripts fail, see their output above: repair or remove the package manually"),
    ("Unable to locate package", "apt's lists do not contain it: add a `repository` step before this one"),
    ("has no installation candidate", "apt's lists do not offer it: add a `repository` step before this one"),
    ("was not found", "apt does not offer this version: run `apt-cache policy` on the host"),
    ("Packages need to be removed but remove is disabled", "another package conflicts: remove it with an earlier step"),
    ("have enough free space", "the disk is full: free space under /var/cache/apt and /"),
    ("No space left on device", "the disk is full: free space; the next apply repairs dpkg"),
    ("is not signed", "the key of the repository is missing on the host"),
    ("NO_PUBKEY", "the key of the repository is missing on the host"),
    ("Could not resolve", "the host cannot resolve the name of the repository"),
    package_lock::EXPLAIN,
    ("Hash Sum mismatch", "the mirror is being updated: try again later"),
];

/// Renders the changes in `diff`.
pub(super) fn render_script(package: &PackageResource, diff: &PackageDiff) -> ShellFragment {
    let names = match package.absent {
        true => names_to_remove(package, diff),
        false => package.names.clone(),
    };
    let action = open_apt_script(package.lock_timeout, &names.join(" "));
    let action = match package.absent {
        true => render_removal(&names, package.purge, action),
        false => render_install(package, diff, action),
    };
    shell::close_action(action)
}

fn render_install(package: &PackageResource, diff: &PackageDiff, action: ShellFragment) -> ShellFragment {
    let action = match (diff.changes_installations(), joins_others(package, diff)) {
        (true, true) => {
            let words = words_to_install(package, diff);
            let action = words.into_iter().fold(action.code(JOINED).code("if ! joined"), ShellFragment::word);
            render_transaction(package, diff, release_holds(package, action.code("; then\n"))).code("fi\n")
        }
        (true, false) => render_transaction(package, diff, release_holds(package, action)),
        (false, _) => action,
    };
    append_hold(package.hold, action)
}

/// Releases the holds of the packages until the change has ended.
fn release_holds(package: &PackageResource, action: ShellFragment) -> ShellFragment {
    let noted = if package.hold.is_none() { "noted=yes\n" } else { "noted=no\n" };
    action.code(NOTE_RELEASED).code(noted).code(RELEASE)
}

/// Returns the packages that apt may install together with those of other steps: no other package changes because of
/// them, and none gets an older version.
pub(super) fn batch_packages(package: &PackageResource, diff: &PackageDiff) -> Option<ActionBatch> {
    let batch = || ActionBatch { words: words_to_install(package, diff), ..ActionBatch::new("apt install") };
    (diff.changes_installations() && joins_others(package, diff)).then(batch)
}

fn joins_others(package: &PackageResource, diff: &PackageDiff) -> bool {
    diff.manager == PackageManagerKind::Dpkg && !package.absent && diff.family.is_empty() && !diff.has_downgrade()
}

fn words_to_install(package: &PackageResource, diff: &PackageDiff) -> Vec<String> {
    package.names.iter().filter_map(|name| package_word(package, name, diff)).collect()
}

fn render_transaction(package: &PackageResource, diff: &PackageDiff, action: ShellFragment) -> ShellFragment {
    let action = action.code(match diff.has_downgrade() {
        true => "downgrade=--allow-downgrades\n",
        false => "downgrade=\n",
    });
    let replaced =
        diff.family.iter().filter_map(|entry| Some((&entry.name, replaced_version(entry.installation.as_ref()?)?)));
    let replaced = replaced.map(|(name, version)| format!("{name}={version}"));
    let words: Vec<String> = words_to_install(package, diff).into_iter().chain(replaced).collect();
    // The lists were just read: they contain a package whose latest version is known.
    let unsure: Vec<&String> = words.iter().filter(|word| !diff.is_latest_known(word)).collect();
    let action = words.iter().fold(action.code("set --"), ShellFragment::word).code(INSTALL);
    let action = match package.update && !unsure.is_empty() {
        true => unsure.into_iter().fold(action.code("refresh"), ShellFragment::word).code("\n"),
        false => action,
    };
    if diff.family.is_empty() {
        return action.code(KEEP_OTHERS);
    }
    let others: Vec<&str> = diff.family.iter().map(|entry| entry.name.as_str()).collect();
    let gone: String = diff.removed_names().map(|name| format!(" {name}")).collect();
    let action = action.code("assign_family() { others=$1 gone=$2; }\nassign_family").word(others.join(" ")).word(gone);
    action.code(RELEASE_OTHERS).code(SWAP)
}

/// Returns the packages that a removal names: the declared ones, and the family.
pub(super) fn names_to_remove(package: &PackageResource, diff: &PackageDiff) -> Vec<String> {
    let family = diff.family.iter().map(|entry| &entry.name);
    package
        .names
        .iter()
        .filter(|name| diff.family.is_empty() || is_changed(diff, name))
        .chain(family)
        .cloned()
        .collect()
}

fn is_changed(diff: &PackageDiff, name: &str) -> bool {
    diff.packages.iter().any(|entry| entry.name == name)
}

/// Returns the version that an installed or missing package gets.
pub(super) fn replaced_version(change: &InstallationChange) -> Option<&str> {
    match change {
        InstallationChange::Install { version, .. } => version.as_deref(),
        InstallationChange::Replace(version) | InstallationChange::Finish { version: Some(version), .. } => {
            Some(&version.to)
        }
        _ => None,
    }
}

/// Removes exactly `names`.
pub(in crate::resource) fn render_removal(names: &[String], purge: bool, action: ShellFragment) -> ShellFragment {
    let action = action.code(if purge { "verb=purge\n" } else { "verb=remove\n" }).code(UNHOLD);
    names.iter().fold(action.code("set --"), |action, name| action.word(name)).code(REMOVE)
}

/// Releases the holds of removed packages.
const UNHOLD: &str = r#"
find_held $names
was_held=$are_held
if [ -n "$was_held" ]; then
  locked apt-mark unhold -- $was_held >/dev/null || fail "cannot release the hold of$was_held"
fi
"#;

/// Sets the declared hold at the end; the trap must not undo a declared `false`.
fn append_hold(hold: Option<bool>, action: ShellFragment) -> ShellFragment {
    match hold {
        Some(true) => action.code("locked apt-mark hold -- $names >/dev/null || fail \"cannot hold $names\"\n"),
        Some(false) => {
            action.code("was_held=\nlocked apt-mark unhold -- $names >/dev/null || fail \"cannot release $names\"\n")
        }
        None => action,
    }
}

/// Returns `name=version`, with the version that the plan shows. apt's lists may not contain one yet. `None` if the
/// package has the declared upstream version.
fn package_word(package: &PackageResource, name: &str, diff: &PackageDiff) -> Option<String> {
    let Some(requirement) = &package.version else { return Some(name.to_owned()) };
    let entry = diff.packages.iter().find(|entry| entry.name == name);
    let change = entry.and_then(|entry| entry.installation.as_ref());
    if change.is_none() && matches!(requirement, VersionRequirement::Upstream(_)) {
        return None;
    }
    let shown = change.and_then(replaced_version).filter(|version| *version != requirement.text());
    Some(format!("{name}={}", shown.map_or_else(|| requirement.apt_pattern(), str::to_owned)))
}
