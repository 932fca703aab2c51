//! The commands of a package change with dnf and rpm: one script that can be killed at any point and run again.

use super::action_script::{WAITING, names_to_remove, replaced_version};
use super::declaration::PackageResource;
use super::diff::{InstallationChange, PackageDiff};
use super::version::VersionRequirement;
use crate::resource::packages::released_holds::NOTE_RELEASED;
use crate::resource::shared::{package_lock, shell};
use crate::script::ShellFragment;

/// dnf 4 writes its pid to its own lock files; rpm locks with `fcntl`, so `/proc/locks` lists the holder.
const HOLDER: &str = r#"
say() { printf 'forge: %s\n' "$*" >&2; }
named() { printf 'pid %s (%s)' "$1" "$(tr '\0' ' ' < "/proc/$1/cmdline" 2>/dev/null | sed 's/ $//')"; }
holder() {
  for lock in /var/lib/dnf/*_lock.pid /var/cache/dnf/*_lock.pid; do
    [ -s "$lock" ] && read -r pid <"$lock" && [ -r "/proc/$pid/cmdline" ] || continue
    named "$pid"
    return
  done
  lock=$(rpm --eval '%_dbpath')/.rpm.lock
  inode=$(stat -c %i -- "$lock" 2>/dev/null) || return 0
  find /proc/[0-9]*/fd -maxdepth 1 -lname "$lock" -printf '%p\n' 2>/dev/null | while read -r open; do
    [ "$open" -ef "$lock" ] || continue
    pid=${open#/proc/} pid=${pid%%/*}
    grep -q "^[0-9]*: POSIX *[A-Z]* *WRITE $pid [^ ]*:$inode " /proc/locks || continue
    named "$pid"
    break
  done
}
"#;

/// dnf exits with 200 if another dnf holds the lock; `run_dnf` then tries again.
const DNF: &str = r#"
run_dnf() {
  while :; do
    locked dnf -y -q --setopt=exit_on_lock=1 "$@" && return 0
    status=$?
    if [ "$status" -ne 200 ] || [ "$waited" -ge "$limit" ]; then return "$status"; fi
    sleep 1
    waited=$((waited + 1))
  done
}
is_locked() {
  dnf -q versionlock list 2>/dev/null | while read -r entry; do
    if [ "$entry" = "Package name: $1" ]; then echo yes; break; fi
    rest=${entry#"$1"-}
    if [ "$rest" = "$entry" ]; then continue; fi
    case ${rest%%:*} in ''|*[!0-9]*) ;; *) echo yes; break ;; esac
  done
}
unlock() { if [ -n "$(is_locked "$1")" ]; then run_dnf versionlock delete "$1" >/dev/null || fail "cannot release $1"; fi; }
lock_here() { unlock "$1"; run_dnf versionlock add "$1" >/dev/null || fail "cannot hold $1"; }
"#;

/// Releases the locks of the named packages only, so that no other package changes. Locks them again in every case, at
/// their version at that time. Reads `$noted`, which is `yes` unless the step itself declares whether its packages are
/// held.
const RELEASE: &str = r#"
was_held=
for package in $names; do
  if [ -n "$(is_locked "$package")" ]; then was_held="$was_held $package"; fi
done
if [ "$noted" = yes ]; then
  if [ -n "$was_held" ]; then note_released dnf $was_held; fi
  was_held=
  [ ! -s "$released" ] || was_held=$(noted_before dnf)
fi
hold_again() { for package in $was_held; do lock_here "$package"; done; }
if [ -n "$was_held" ]; then
  trap 'hold_again && forget_released' EXIT
  trap 'exit 143' HUP INT TERM
  for package in $was_held; do unlock "$package"; done
fi
"#;

/// Releases the locks of the family, whose packages require each other in one version. Locks those again that remain.
const RELEASE_FAMILY: &str = r#"
set -f
others=$(rpm -qa --qf '%{NAME}\n' -- $family | sort -u)
set +f
locks=$(dnf -q versionlock list 2>/dev/null)
others_held=
for package in $others; do
  case " $names " in *" $package "*) continue ;; esac
  if printf '%s\n' "$locks" | grep -Eq -e "^$package-[0-9]+:" -e "^Package name: $package\$"; then others_held="$others_held $package"; fi
done
hold_others() {
  set --
  for package in $others_held; do
    if rpm -q -- "$package" >/dev/null 2>&1; then set -- "$@" "$package"; fi
  done
  if [ "$#" -gt 0 ]; then run_dnf versionlock add "$@" >/dev/null || fail "cannot hold $*"; fi
}
if [ -n "$others_held" ]; then
  trap 'hold_again && hold_others && forget_released' EXIT
  trap 'exit 143' HUP INT TERM
  note_released dnf $others_held
  run_dnf versionlock delete $others_held >/dev/null || fail "cannot release$others_held"
fi
"#;

/// Installs `"$@"` and removes the packages in `$gone` in one transaction, unless a package outside the family needs them.
const SWAP: &str = r#"
needed=
for user in $(rpm -e --test -- $gone 2>&1 | sed -n 's/.* is needed by (installed) //p' | sort -u); do
  name=$(rpm -q --qf '%{NAME}' -- "$user")
  case " $names $(printf '%s ' $others)" in *" $name "*) ;; *) needed="$needed $name" ;; esac
done
if [ -n "$needed" ]; then fail "dnf would also remove$needed: remove them first, or keep the installed version"; fi
commands=$(mktemp /run/forge-dnf.XXXXXX) || fail "cannot make a file in /run"
{
  for package in $gone; do printf 'remove %s\n' "$package"; done
  for package; do printf 'install %s\n' "$package"; done
  echo run
} >"$commands"
run_dnf shell "$commands" </dev/null
status=$?
rm -f -- "$commands"
if [ "$status" -ne 0 ]; then exit 1; fi
"#;

/// Removes `"$@"`, unless another package needs them.
const REMOVE: &str = r#"
needed=$(rpm -e --test -- "$@" 2>&1 | sed -n 's/.* is needed by (installed) \(.*\)/ \1/p' | sort -u | tr -d '\n')
if [ -n "$needed" ]; then fail "dnf would also remove$needed: declare their removal too, or keep $*"; fi
for package; do unlock "$package"; done
run_dnf --noautoremove remove -- "$@" || exit 1
"#;

pub(in crate::resource) const EXPLAIN: &[(&str, &str)] = &[
    ("Unable to find a match", "no dnf repository offers it: run `dnf list --showduplicates` on the host"),
    ("No match for argument", "no dnf repository offers it: run `dnf list --showduplicates` on the host"),
    ("Failed to download metadata", "the host cannot reach a dnf repository"),
    ("No such command: versionlock", "dnf's plugin `versionlock` is missing: install it with an earlier step"),
    (
        "Unable to read version lock configuration",
        "dnf fails without the list file that `versionlock.conf` names: create it",
    ),
    ("GPG check FAILED", "the key of the repository is missing on the host, or is not the right one"),
    package_lock::EXPLAIN,
    ("No space left on device", "the disk is full"),
    ("not found", "`dnf` is not installed on the host"),
];

/// Opens an action of dnf for `names`.
pub(in crate::resource) fn open_dnf_script(lock_timeout: u64, names: &str) -> ShellFragment {
    let opened = shell::open_action().number(lock_timeout).word(names).code("\nlimit=$1 names=$2\n");
    opened.code(HOLDER).code(WAITING).code(DNF)
}

/// Renders the changes in `diff`.
pub(super) fn render_script(package: &PackageResource, diff: &PackageDiff) -> ShellFragment {
    let action = open_dnf_script(package.lock_timeout, &package.names.join(" "));
    shell::close_action(match package.absent {
        true => render_removal(&names_to_remove(package, diff), action),
        false => render_install(package, diff, action),
    })
}

/// Removes exactly `names`.
pub(in crate::resource) fn render_removal(names: &[String], action: ShellFragment) -> ShellFragment {
    names.iter().fold(action.code("set --"), |action, name| action.word(name)).code(REMOVE)
}

fn render_install(package: &PackageResource, diff: &PackageDiff, action: ShellFragment) -> ShellFragment {
    let words = |action| {
        let declared = package.names.iter().map(|name| package_word(package, name, diff));
        declared.chain(replaced_words(diff)).fold(action, ShellFragment::word)
    };
    let action = match (diff.changes_installations(), package.family.is_empty()) {
        (true, true) => words(release_holds(package.hold, action).code("run_dnf install --")).code(" || exit 1\n"),
        (true, false) => render_family_transaction(words, package, diff, action),
        (false, _) => action,
    };
    match package.hold {
        Some(true) => action.code("was_held=\nfor package in $names; do lock_here \"$package\"; done\n"),
        Some(false) => action.code("was_held=\nfor package in $names; do unlock \"$package\"; done\n"),
        None => action,
    }
}

/// Releases the holds of the packages until the change has ended.
fn release_holds(hold: Option<bool>, action: ShellFragment) -> ShellFragment {
    let noted = if hold.is_none() { "noted=yes\n" } else { "noted=no\n" };
    action.code(NOTE_RELEASED).code(noted).code(RELEASE)
}

/// Installs with the family in the same transaction.
fn render_family_transaction(
    words: impl FnOnce(ShellFragment) -> ShellFragment,
    package: &PackageResource,
    diff: &PackageDiff,
    action: ShellFragment,
) -> ShellFragment {
    let gone: Vec<&str> = diff.removed_names().collect();
    let action = release_holds(package.hold, action).code("assign_family() { family=$1 gone=$2; }\nassign_family");
    let action = action.word(package.family.join(" ")).word(gone.join(" ")).code(RELEASE_FAMILY);
    match gone.is_empty() {
        true => words(action.code("run_dnf install --")).code(" || exit 1\n"),
        false => words(action.code("set --")).code(SWAP),
    }
}

/// Returns the packages of the family that get another version.
fn replaced_words(diff: &PackageDiff) -> impl Iterator<Item = String> {
    diff.family.iter().filter_map(|entry| match &entry.installation {
        Some(InstallationChange::Replace(version)) => Some(format!("{}-{}", entry.name, version.to)),
        _ => None,
    })
}

/// Returns `name-version`, followed by the architecture if the name has one. The version is the one that the plan shows.
fn package_word(package: &PackageResource, name: &str, diff: &PackageDiff) -> String {
    const ARCHES: [&str; 7] = ["x86_64", "i686", "aarch64", "noarch", "ppc64le", "s390x", "riscv64"];
    let arch = name.rsplit_once('.').filter(|(_, arch)| ARCHES.contains(arch));
    let entry = diff.packages.iter().find(|entry| entry.name == name);
    let shown = entry.and_then(|entry| replaced_version(entry.installation.as_ref()?));
    let declared = package.version.as_ref().map(VersionRequirement::text);
    match (declared.map(|declared| shown.unwrap_or(declared)), arch) {
        (None, _) => name.to_owned(),
        (Some(version), None) => format!("{name}-{version}"),
        (Some(version), Some((bare, arch))) => format!("{bare}-{version}.{arch}"),
    }
}
