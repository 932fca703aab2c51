//! The first script of an apply on a host: forge's folders, and what an interrupted run left.

use super::boot_guard::build_earlier_boot_script;
use crate::script::{ShellFragment, safe_path};

/// Returns the script that creates missing folders of forge and the host's key, and prints the key in hex; on a host on
/// hold also a line with its clock and then the mark. It also finishes what interrupted runs left: holds of packages that
/// are not set again, and candidates next to their files. Runs once per apply, under the lock.
pub fn build_prepare_script() -> ShellFragment {
    ShellFragment::new()
        .code(CREATE_FOLDERS)
        .code("sweep_candidates() (\nfail() { exit 0; }\n")
        .code(safe_path::ENTER_DIRECTORY)
        .code(safe_path::STAGE_IN_BOX)
        .code(SWEEP_CANDIDATES)
        .code(")\n")
        .append_fragment(build_earlier_boot_script())
        .code(FINISH)
}

const CREATE_FOLDERS: &str = r#"
umask 077
set -- /var/lib/forge /var/lib/forge/applied /var/lib/forge/applied/.new /var/lib/forge/backups /var/lib/forge/log
install -d -m 0700 -- "$@" || exit 1
# A line in hex, which the shell itself can read; earlier versions wrote the bytes.
forge_key() {
  k=
  for w in $(od -An -v -tx1 "$@"); do k=$k$w; done
}
if [ ! -s /var/lib/forge/key ]; then
  forge_key -N 32 /dev/urandom
  [ "${#k}" -eq 64 ] || exit 1
  # dash would call a full disk an I/O error.
  printf '%s\n' "$k" 2>/dev/null > /var/lib/forge/.key.new ||
    printf '%s\n' "$k" | cat > /var/lib/forge/.key.new || exit 1
  sync /var/lib/forge/.key.new && mv -f /var/lib/forge/.key.new /var/lib/forge/key || exit 1
else
  read -r k </var/lib/forge/key || k=
  case $k in *[!0-9a-f]*) k= ;; esac
  [ "${#k}" = 64 ] || forge_key /var/lib/forge/key
fi
"#;

/// A script that was killed after it had renamed a file into place leaves the folder of the candidate, and no later
/// action on the path removes it. The undo journal has the paths of each script, and no `after` if it did not end.
const SWEEP_CANDIDATES: &str = r#"
for stray in /run/forge-validate.*; do [ ! -e "$stray" ] || rm -rf --one-file-system -- "$stray"; done
for states in /var/lib/forge/undo/*/*.before; do
  group=${states%.before}
  [ -s "$states" ] && [ -e "$group.json" ] && [ ! -e "$group.after" ] && [ ! -e "$group.swept" ] || continue
  tr '\0' '\n' <"$states" | sed -n '/^before$/{n;s/^[a-z]* //;p;}' | while IFS= read -r path; do
    ( name=${path##*/}; enter "${path%/*}" && sweep ) </dev/null
  done
  : >"$group.swept"
done
"#;

/// dpkg configures no package that is held: one that is not installed completely stays noted, and its step finishes it.
const FINISH: &str = r#"
sweep_candidates >/dev/null 2>&1
hold_again() {
  case $1 in
    apt)
      case $(dpkg-query -W -f '${db:Status-Status}' -- "$2") in
        installed) apt-mark hold -- "$2" ;;
        '' | not-installed | config-files) ;;
        *) return 1 ;;
      esac ;;
    dnf) ! rpm -q -- "$2" || dnf -q versionlock add -- "$2" ;;
  esac
}
if [ -s /var/lib/forge/released ]; then
  while read -r manager package; do
    hold_again "$manager" "$package" </dev/null >/dev/null 2>&1 || printf '%s %s\n' "$manager" "$package"
  done </var/lib/forge/released >/var/lib/forge/released.new &&
    sync /var/lib/forge/released.new && mv -f /var/lib/forge/released.new /var/lib/forge/released || exit 1
  [ -s /var/lib/forge/released ] || rm -f /var/lib/forge/released
fi
printf %s "$k"
for g in /var/lib/forge/guard/*/restored; do
  [ ! -e "$g" ] || rm -rf -- "${g%/*}"
done
[ ! -e /var/lib/forge/hold.json ] && [ ! -L /var/lib/forge/hold.json ] ||
  { printf '\n'; date +%s; [ ! -f /var/lib/forge/hold.json ] || cat /var/lib/forge/hold.json; }
"#;
